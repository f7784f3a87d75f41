//! All stored fingerprints within Hamming distance k of a given one.
