//! Chosen fields -> text: normalise, sentences, segment, weights.
