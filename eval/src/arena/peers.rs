//! What libraries offer for the same task, on the same documents: MinHash with locality-sensitive hashing, and simhash,
//! both of gaoya. A document joins the first leader that is near enough, and leads a cluster of its own otherwise.

use std::fmt;

use gaoya::minhash::{MinHashIndex, MinHasher, MinHasher64V1, calculate_minhash_params};
use gaoya::simhash::{SimHash, SimHashIndex, SimSipHasher64};
use rayon::prelude::*;

use super::super::clustering::Clustering;
use super::super::documents::{Document, Documents};
use super::shingles::Tokens;

/// Hashes of a MinHash signature.
const PERMUTATIONS: usize = 128;
/// The keys by which simhash hashes, fixed so that every run gives the same.
const KEYS: (u64, u64) = (5, 7);
/// Documents that are read before they are placed.
const BATCH: usize = 1_024;

/// A method of a library.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Peer {
    /// MinHash LSH: texts whose estimated Jaccard similarity is at least this are near.
    MinHash(f64),
    /// Simhash of 64 bits: texts at most this many bits apart are near.
    SimHash(usize),
}

impl Peer {
    /// The peers that run beside spinney.
    pub const ALL: [Peer; 3] = [Peer::MinHash(0.7), Peer::MinHash(0.5), Peer::SimHash(3)];

    /// Clusters all documents in their order. `progress` gets the number of documents after each batch of them.
    pub(super) fn cluster(self, documents: &Documents, progress: &dyn Fn(u64)) -> Clustering {
        match self {
            Peer::MinHash(threshold) => {
                let hasher = MinHasher64V1::new(PERMUTATIONS);
                let (bands, rows) = calculate_minhash_params(threshold, PERMUTATIONS);
                let mut index: MinHashIndex<u64, Document> = MinHashIndex::new_index(bands, rows, threshold);
                first_leader(
                    documents,
                    progress,
                    |runs| hasher.create_signature(runs.iter().copied()),
                    |document, signature: Vec<u64>| {
                        // The index compares the first rows of all bands.
                        let signature: Vec<u64> = signature.into_iter().take(bands * rows).collect();
                        let leader = index.query(&signature).into_iter().min().copied();
                        leader.unwrap_or_else(|| {
                            index.insert(document, signature);
                            document
                        })
                    },
                )
            }
            Peer::SimHash(k) => {
                let hasher: SimHash<SimSipHasher64, u64, 64> = SimHash::new(SimSipHasher64::new(KEYS.0, KEYS.1));
                // The distance of the index is the first one that is not near; of one block more, one is equal.
                let mut index: SimHashIndex<u64, Document> = SimHashIndex::new(k + 2, k + 1);
                first_leader(
                    documents,
                    progress,
                    |runs| hasher.create_signature(runs.iter()),
                    |document, signature: u64| {
                        let leader = index.query(&signature).into_iter().min().copied();
                        leader.unwrap_or_else(|| {
                            index.insert(document, signature);
                            document
                        })
                    },
                )
            }
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::MinHash(threshold) => write!(formatter, "minhash:{threshold}"),
            Peer::SimHash(k) => write!(formatter, "simhash:{k}"),
        }
    }
}

/// Gives every document its leader as its root. A document without tokens is alone.
fn first_leader<S: Send>(
    documents: &Documents,
    progress: &dyn Fn(u64),
    signature: impl Fn(&[u64]) -> S + Sync,
    mut place: impl FnMut(Document, S) -> Document,
) -> Clustering {
    let order: Vec<Document> = (0..).take(documents.count()).collect();
    let mut roots = Vec::with_capacity(order.len());
    for batch in order.chunks(BATCH) {
        let read = |&document: &Document| {
            let fields = documents.fields(document);
            let tokens = Tokens::of(&format!("{} {}", fields.title, fields.text));
            let runs: Vec<u64> = tokens.runs(tokens.run_length()).into_iter().collect();
            (document, (!runs.is_empty()).then(|| signature(&runs)))
        };
        let signatures: Vec<(Document, Option<S>)> = batch.par_iter().map(read).collect();
        for (document, signature) in signatures {
            let leader = signature.map_or(document, |signature| place(document, signature));
            roots.push(u64::from(leader));
        }
        progress(roots.len() as u64);
    }
    Clustering { roots, ..Clustering::default() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::documents;
    use super::*;

    /// So many words, the first ones changed.
    fn text(words: usize, changed: usize) -> String {
        let word = |at| match at < changed {
            true => format!("other{at}of{changed}"),
            false => format!("word{at}"),
        };
        (0..words).map(word).collect::<Vec<_>>().join(" ")
    }

    fn roots(peer: Peer, texts: &[&str]) -> Vec<u64> {
        let texts: Vec<(&str, &str)> = texts.iter().map(|&text| ("", text)).collect();
        peer.cluster(&documents(&texts), &|_| {}).roots
    }

    #[test]
    fn minhash_finds_what_is_clearly_above_its_threshold() {
        // Of the runs of 400 words: a Jaccard similarity of 0.9, 0.6 and 0.3.
        let texts = [text(400, 0), text(400, 20), text(400, 100), text(400, 214), text(400, 0)];
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(roots(Peer::MinHash(0.7), &texts), [0, 0, 2, 3, 0]);
        assert_eq!(roots(Peer::MinHash(0.5), &texts), [0, 0, 0, 3, 0]);
    }

    /// The estimate of 128 permutations spreads by 0.04 around the similarity; its mean over 200 pairs by 0.003.
    #[test]
    fn the_estimate_has_no_bias() {
        const PAIRS: usize = 200;
        let hasher = MinHasher64V1::new(PERMUTATIONS);
        for changed in [30, 100] {
            let (mut sum, mut farthest) = (0.0, 0.0_f64);
            for pair in 0..PAIRS {
                let runs = |changed: usize| -> Vec<u64> {
                    Tokens::of(&format!("pair{pair} {}", text(300, changed))).runs(3).into_iter().collect()
                };
                let (one, other) = (runs(0), runs(changed));
                let common = one.iter().filter(|run| other.contains(run)).count();
                let exact = common as f64 / (one.len() + other.len() - common) as f64;
                // All pairs have the same runs but for their first ones: the words are what differs.
                let salted = |runs: &[u64]| -> Vec<u64> {
                    runs.iter().map(|run| spinney::hash::splitmix64(run ^ pair as u64)).collect()
                };
                let [one, other] = [&one, &other].map(|runs| hasher.create_signature(salted(runs).into_iter()));
                let error = gaoya::minhash::compute_minhash_similarity(&one, &other) - exact;
                sum += error;
                farthest = farthest.max(error.abs());
            }
            let mean = sum / PAIRS as f64;
            assert!(mean.abs() < 0.015 && farthest < 0.2, "{changed} words: {mean} in the mean, {farthest} at most");
        }
    }

    #[test]
    fn simhash_finds_copies_and_no_other_texts() {
        let texts = [text(300, 0), text(300, 300), text(300, 0), text(300, 1)];
        let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        texts.extend(["<p>...", "<p>..."]);
        let found = roots(Peer::SimHash(3), &texts);
        assert_eq!([&found[..3], &found[4..]].concat(), [0, 1, 0, 4, 5]);
        assert_eq!(Peer::ALL.map(|peer| peer.to_string()), ["minhash:0.7", "minhash:0.5", "simhash:3"]);
    }
}
