//! Whole collections of which every pair of similar texts is known: what was put together though no text is the same.

use std::collections::{BTreeMap, HashMap};

use super::ArenaError;

/// The pairs of clusters of more documents all count as unrelated.
const HUGE: u64 = 2_000;
/// An overlap from which on two texts share something, and one from which on they share most.
const SOME: f64 = 0.15;
const MOST: f64 = 0.5;

/// The overlap of every pair that shares text, from a file with a header and the columns id, id and overlap.
#[derive(Debug, Default)]
pub(super) struct Mined(HashMap<(String, String), f64>);

/// The pairs that were put together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MinedScore {
    pub together: u64,
    /// Of them, those that share no text.
    pub unrelated: u64,
    /// Of them, those that share most of the text.
    pub alike: u64,
}

impl MinedScore {
    /// The share of so many of the pairs put together; 0 where there are none.
    pub(super) fn share(&self, pairs: u64) -> f64 {
        pairs as f64 / self.together.max(1) as f64
    }
}

impl Mined {
    /// Reads the file; `name` is what errors call it.
    ///
    /// # Errors
    /// When a line has no overlap.
    pub(super) fn parse(text: &str, name: &str) -> Result<Mined, ArenaError> {
        let mut overlaps = HashMap::new();
        for (line, text) in (1..).zip(text.lines()).skip(1).filter(|(_, text)| !text.is_empty()) {
            let mut columns = text.split('\t');
            let (one, other) = (columns.next(), columns.next());
            let overlap = columns.next().and_then(|overlap| overlap.parse().ok());
            let (Some(one), Some(other), Some(overlap)) = (one, other, overlap) else {
                return Err(ArenaError::Columns { name: name.to_owned(), line, expected: "3" });
            };
            overlaps.insert((one.min(other).to_owned(), one.max(other).to_owned()), overlap);
        }
        Ok(Mined(overlaps))
    }

    /// Scores clusters. `root` gives the root of an id.
    pub(super) fn score(&self, roots: &[u64], root: &dyn Fn(&str) -> Option<u64>) -> MinedScore {
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        for &root in roots {
            *sizes.entry(root).or_default() += 1;
        }
        let (mut some, mut alike) = (0, 0);
        for ((one, other), &overlap) in &self.0 {
            let Some(common) = root(one).filter(|&of_one| Some(of_one) == root(other)) else { continue };
            if sizes.get(&common).is_some_and(|&size| size <= HUGE) {
                some += u64::from(overlap >= SOME);
                alike += u64::from(overlap >= MOST);
            }
        }
        let together = sizes.values().map(|size| size * (size - 1) / 2).sum();
        MinedScore { together, unrelated: together - some, alike }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_shares_no_text() {
        let mined = Mined::parse("id1\tid2\tjaccard\n1\t0\t0.9\tx\n0\t2\t0.2\n1\t3\t0.8\n2\t3\t0.1\n", "m").unwrap();
        let roots = [7, 7, 7, 7, 8];
        let score = mined.score(&roots, &|id| roots.get(id.parse::<usize>().ok()?).copied());
        assert_eq!(score, MinedScore { together: 6, unrelated: 3, alike: 2 });
        assert!((score.share(score.unrelated) - 0.5).abs() < 1e-9);
        assert!((MinedScore::default().share(0)).abs() < 1e-9);
    }

    #[test]
    fn the_pairs_of_a_huge_cluster_are_unrelated() {
        let mined = Mined::parse("header\n0\t1\t0.9\n", "m").unwrap();
        for (documents, unrelated) in [(2_000, 1_999_000 - 1), (2_001, 2_001_000)] {
            let score = mined.score(&vec![1; documents], &|_| Some(1));
            assert_eq!(score.unrelated, unrelated, "{documents}");
        }
    }

    #[test]
    fn a_line_without_an_overlap_is_named() {
        let error = Mined::parse("header\na\tb\n", "x.mined.tsv").unwrap_err().to_string();
        assert_eq!(error, "x.mined.tsv: line 2 has fewer than 3 columns, separated by tabs");
    }
}
