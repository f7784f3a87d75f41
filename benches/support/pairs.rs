//! How alike two clusterings of the same documents are, in pairs of documents.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// Pairs of documents that somebody has labelled, each once, the smaller number first.
#[derive(Default)]
pub struct Pairs(HashSet<(usize, usize)>);

impl Pairs {
    /// The pairs of documents with these ids: two ids a line, with tabs between them; what comes after does not matter.
    pub fn read(files: &[PathBuf], ids: &[String]) -> Pairs {
        let numbers: HashMap<&str, usize> = ids.iter().map(String::as_str).zip(0..).collect();
        let mut pairs = HashSet::new();
        for file in files {
            let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            for line in text.lines() {
                let mut parts = line.split('\t').map(|id| numbers.get(id));
                if let (Some(Some(&a)), Some(Some(&b))) = (parts.next(), parts.next()) {
                    pairs.insert((a.min(b), a.max(b)));
                }
            }
        }
        Pairs(pairs)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// What became of pairs in two clusterings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alike {
    /// Those that are together in either, and labelled ones that are in neither.
    pub pairs: u64,
    /// Those that are together only in the first, and only in the second.
    pub only_first: u64,
    pub only_second: u64,
}

impl Alike {
    /// The share of the pairs that both decide the same; 1 of none.
    pub fn share(self) -> f64 {
        let same = self.pairs - self.only_first - self.only_second;
        if self.pairs == 0 { 1.0 } else { same as f64 / self.pairs as f64 }
    }
}

/// Compares the roots of the same documents.
pub fn compare(first: &[u64], second: &[u64], labelled: &Pairs) -> Alike {
    let both = first.iter().zip(second);
    let in_both = together(both.clone());
    let (in_first, in_second) = (together(first), together(second));
    let apart = labelled.0.iter().filter(|&&(a, b)| first[a] != first[b] && second[a] != second[b]);
    Alike {
        pairs: in_first + in_second - in_both + apart.count() as u64,
        only_first: in_first - in_both,
        only_second: in_second - in_both,
    }
}

/// Pairs of equal ones.
fn together<T: Eq + std::hash::Hash>(all: impl IntoIterator<Item = T>) -> u64 {
    let mut counts: HashMap<T, u64> = HashMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts.values().map(|&count| count * (count - 1) / 2).sum()
}
