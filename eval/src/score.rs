//! Clusters that were found, compared with what a person says. Every figure is of pairs of documents; those of clusters
//! are counted from the sizes of their overlaps, so that no list of pairs is ever made.

use std::collections::BTreeMap;

use super::documents::Document;
use super::labels::{Label, LabelledClusters, LabelledPairs};

/// Pairs of documents by what was found and what is right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub rightly_together: u64,
    pub wrongly_together: u64,
    pub rightly_apart: u64,
    pub wrongly_apart: u64,
}

/// A ratio from 0 to 1; `None` for a part of nothing.
fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

impl Counts {
    /// Of the pairs put together, the part that belongs together.
    pub(super) fn precision(&self) -> Option<f64> {
        ratio(self.rightly_together, self.rightly_together + self.wrongly_together)
    }

    /// Of the pairs that belong together, the part put together.
    pub(super) fn recall(&self) -> Option<f64> {
        ratio(self.rightly_together, self.rightly_together + self.wrongly_apart)
    }

    /// Harmonic mean of precision and recall.
    pub(super) fn f1(&self) -> Option<f64> {
        let wrong = self.wrongly_together + self.wrongly_apart;
        ratio(2 * self.rightly_together, 2 * self.rightly_together + wrong)
    }

    /// How much more the two clusterings agree than chance would have them agree: 1 is the same clusters, 0 is chance
    /// (Hubert and Arabie, "Comparing partitions", Journal of Classification 1985).
    pub(super) fn adjusted_rand(&self) -> f64 {
        let [together, mixed, apart, split] =
            [self.rightly_together, self.wrongly_together, self.rightly_apart, self.wrongly_apart]
                .map(|count| count as f64);
        let chance = (together + split) * (split + apart) + (together + mixed) * (mixed + apart);
        if self.wrongly_together == 0 && self.wrongly_apart == 0 {
            1.0
        } else {
            2.0 * (together * apart - split * mixed) / chance
        }
    }

    fn add(&mut self, found_together: bool, belong_together: bool) {
        match (found_together, belong_together) {
            (true, true) => self.rightly_together += 1,
            (true, false) => self.wrongly_together += 1,
            (false, false) => self.rightly_apart += 1,
            (false, true) => self.wrongly_apart += 1,
        }
    }
}

/// Documents that were put together though they do not belong together, or apart though they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mistake {
    /// Two of the documents.
    pub one: Document,
    pub other: Document,
    /// How many wrong pairs the same cluster holds, or the same cluster lacks.
    pub pairs: u64,
}

/// The mistakes of both kinds, the worst first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Mistakes {
    pub together: Vec<Mistake>,
    pub apart: Vec<Mistake>,
}

/// The roots compared with labelled pairs.
#[derive(Debug, Default)]
pub(super) struct PairScores {
    pub counts: Counts,
    /// By name of a label that is neither right nor wrong: pairs put together, all pairs.
    pub others: Vec<(String, u64, u64)>,
    pub mistakes: Mistakes,
}

fn root(roots: &[u64], document: Document) -> u64 {
    roots.get(document as usize).copied().unwrap_or_default()
}

/// Compares the roots, one for each document, with labelled pairs.
pub(super) fn against_pairs(roots: &[u64], labelled: &LabelledPairs) -> PairScores {
    let mut scored = PairScores {
        others: labelled.others.iter().map(|name| (name.clone(), 0, 0)).collect(),
        ..PairScores::default()
    };
    // By the clusters that the mistake is between.
    let mut together: BTreeMap<u64, Mistake> = BTreeMap::new();
    let mut apart: BTreeMap<(u64, u64), Mistake> = BTreeMap::new();
    for pair in &labelled.pairs {
        let (one, other) = (root(roots, pair.one), root(roots, pair.other));
        let new = Mistake { one: pair.one, other: pair.other, pairs: 0 };
        match pair.label {
            Label::Other(name) => {
                if let Some((_, found, all)) = scored.others.get_mut(name) {
                    *found += u64::from(one == other);
                    *all += 1;
                }
                continue;
            }
            Label::Apart if one == other => together.entry(one).or_insert(new).pairs += 1,
            Label::Together if one != other => {
                let between = (one.min(other), one.max(other));
                apart.entry(between).or_insert(new).pairs += 1;
            }
            _ => {}
        }
        scored.counts.add(one == other, pair.label == Label::Together);
    }
    scored.mistakes =
        Mistakes { together: worst_first(together.into_values()), apart: worst_first(apart.into_values()) };
    scored
}

/// Compares the roots, one for each document, with labelled clusters.
pub(super) fn against_clusters(roots: &[u64], labelled: &LabelledClusters) -> (Counts, Mistakes) {
    // First document and size of every overlap of a cluster found and a labelled cluster, in both orders.
    let mut by_root: BTreeMap<(u64, u64), Overlap> = BTreeMap::new();
    let mut by_cluster: BTreeMap<(u64, u64), Overlap> = BTreeMap::new();
    for &(document, cluster) in &labelled.members {
        let (root, cluster) = (root(roots, document), u64::from(cluster));
        for (overlaps, key) in [(&mut by_root, (root, cluster)), (&mut by_cluster, (cluster, root))] {
            let new = Overlap { document, size: 0 };
            overlaps.entry(key).or_insert(new).size += 1;
        }
    }
    let (mixed, rightly_together) = mixed_groups(&by_root);
    let (split, _) = mixed_groups(&by_cluster);
    let [wrongly_together, wrongly_apart] =
        [&mixed, &split].map(|mistakes| mistakes.iter().map(|mistake| mistake.pairs).sum());
    let all = within(labelled.members.len() as u64);
    let counts = Counts {
        rightly_together,
        wrongly_together,
        wrongly_apart,
        rightly_apart: all - rightly_together - wrongly_together - wrongly_apart,
    };
    let mistakes = Mistakes { together: worst_first(mixed), apart: worst_first(split) };
    (counts, mistakes)
}

#[derive(Clone, Copy)]
struct Overlap {
    /// The first document of it.
    document: Document,
    size: u64,
}

/// Of the groups that the first half of the key names, those that hold more than one part: the number of pairs of
/// different parts, and the first documents of the two largest. Also the number of pairs of the same part.
fn mixed_groups(overlaps: &BTreeMap<(u64, u64), Overlap>) -> (Vec<Mistake>, u64) {
    let mut mistakes = Vec::new();
    let mut same = 0;
    let overlaps: Vec<(u64, Overlap)> = overlaps.iter().map(|(&(of, _), &part)| (of, part)).collect();
    for group in overlaps.chunk_by(|(one, _), (other, _)| one == other) {
        let mut parts: Vec<Overlap> = group.iter().map(|&(_, part)| part).collect();
        parts.sort_by_key(|part| (std::cmp::Reverse(part.size), part.document));
        let inside: u64 = parts.iter().map(|part| within(part.size)).sum();
        same += inside;
        if let [largest, next, ..] = parts.as_slice() {
            mistakes.push(Mistake {
                one: largest.document,
                other: next.document,
                pairs: within(parts.iter().map(|part| part.size).sum()) - inside,
            });
        }
    }
    (mistakes, same)
}

/// Pairs among so many documents.
fn within(documents: u64) -> u64 {
    documents * documents.saturating_sub(1) / 2
}

/// The one with most pairs first.
pub(super) fn worst_first(mistakes: impl IntoIterator<Item = Mistake>) -> Vec<Mistake> {
    let mut mistakes: Vec<Mistake> = mistakes.into_iter().collect();
    mistakes.sort_by_key(|mistake| (std::cmp::Reverse(mistake.pairs), mistake.one, mistake.other));
    mistakes
}

/// Clusters by size, the largest first; of equals, the one whose first document comes first.
pub(super) fn largest(roots: &[u64]) -> Vec<Vec<Document>> {
    let mut clusters: BTreeMap<u64, Vec<Document>> = BTreeMap::new();
    for (document, &root) in (0..).zip(roots) {
        clusters.entry(root).or_default().push(document);
    }
    let mut clusters: Vec<Vec<Document>> = clusters.into_values().collect();
    clusters.sort_by_key(|members| (std::cmp::Reverse(members.len()), members.first().copied()));
    clusters
}

/// To four decimals: more say nothing.
pub(super) fn rounded(figure: f64) -> f64 {
    (figure * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
#[path = "score_tests.rs"]
mod tests;
