//! What became of the labelled pairs, label by label, and for what reasons: so that a user sees which kind of pairs is
//! wrong, and what would have to be changed.

use std::collections::BTreeMap;

use serde::Serialize;

use super::clustering::Clustering;
use super::documents::Document;
use super::labels::{Label, LabelledPair, LabelledPairs};
use super::reason::why_apart;
use super::score::rounded;
use spinney::forest::Decision;

/// The pairs of one label. Ratios from 0 to 1, `None` where there is nothing to compare.
#[derive(Debug, PartialEq, Serialize)]
pub struct LabelFigures {
    /// The label as it is written.
    pub label: String,
    /// Pairs with this label.
    pub pairs: u64,
    /// Of them, those that were put together.
    pub together: u64,
    /// Of the pairs put together that belong together or have this label, the part that belongs together; of a label
    /// whose pairs belong together, the precision of all.
    pub precision: Option<f64>,
    /// Of the pairs that belong together, the part put together; of a label whose pairs do, the part of its own.
    pub recall: Option<f64>,
    /// Harmonic mean of the two.
    pub f1: Option<f64>,
}

/// How many pairs there are for one reason.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ReasonCount {
    /// The reason, without its figures.
    pub reason: String,
    /// Pairs.
    pub pairs: u64,
}

fn are_together(pair: &LabelledPair, roots: &[u64]) -> bool {
    let root = |document: Document| roots.get(document as usize);
    root(pair.one) == root(pair.other)
}

/// The figures of each label, in the order in which they first came.
pub(super) fn by_label(labelled: &LabelledPairs, roots: &[u64]) -> Vec<LabelFigures> {
    let mut counts: Vec<(u64, u64)> = vec![(0, 0); labelled.names.len()];
    let (mut found, mut all, mut wrong) = (0, 0, 0);
    for pair in &labelled.pairs {
        let together = u64::from(are_together(pair, roots));
        if let Some((pairs, put)) = counts.get_mut(pair.name) {
            *pairs += 1;
            *put += together;
        }
        match pair.label {
            Label::Together => {
                found += together;
                all += 1;
            }
            Label::Apart => wrong += together,
            Label::Other(_) => {}
        }
    }
    let ratio = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
    let named = labelled.names.iter().zip(counts);
    let figures = named.map(|((label, kind), (pairs, together))| {
        let (right, of, wrong) = match kind {
            Label::Together => (together, pairs, wrong),
            Label::Apart | Label::Other(_) => (found, all, together),
        };
        let (precision, recall) = (ratio(right, right + wrong), ratio(right, of));
        let both = precision.zip(recall).filter(|(p, r)| p + r > 0.0);
        LabelFigures {
            label: label.clone(),
            pairs,
            together,
            precision: precision.map(rounded),
            recall: recall.map(rounded),
            f1: both.map(|(p, r)| rounded(2.0 * p * r / (p + r))),
        }
    });
    figures.collect()
}

/// The reasons for which pairs are wrongly apart, and those for which they are wrongly together, the most frequent
/// first.
pub(super) fn reasons(labelled: &LabelledPairs, clustering: &Clustering) -> [Vec<ReasonCount>; 2] {
    let (mut apart, mut together) = (BTreeMap::new(), BTreeMap::new());
    for pair in &labelled.pairs {
        match (pair.label, are_together(pair, &clustering.roots)) {
            (Label::Together, false) => {
                let why = why_apart(pair.one, pair.other, clustering);
                *apart.entry(without_figures(&why)).or_insert(0) += 1;
            }
            (Label::Apart, true) => {
                let why = why_together(pair.one, pair.other, clustering);
                *together.entry(why.to_owned()).or_insert(0) += 1;
            }
            _ => {}
        }
    }
    [apart, together].map(|counts| {
        let counts = counts.into_iter();
        let mut counts: Vec<ReasonCount> = counts.map(|(reason, pairs)| ReasonCount { reason, pairs }).collect();
        counts.sort_by_key(|count| std::cmp::Reverse(count.pairs));
        counts
    })
}

/// `refused: proof: the similarity is …` without what differs from pair to pair.
pub(super) fn without_figures(why: &str) -> String {
    let mut parts = why.splitn(3, ": ");
    match (parts.next(), parts.next()) {
        (Some("refused"), Some(reason)) => format!("refused: {reason}"),
        (Some(reason), _) => reason.to_owned(),
        (None, _) => String::new(),
    }
}

/// How two documents came to have one root.
pub(super) fn why_together(one: Document, other: Document, clustering: &Clustering) -> &'static str {
    let decision = |document: Document| {
        let explanation = clustering.explanations.get(&document);
        explanation.map(|explanation| explanation.decision)
    };
    match (decision(one.min(other)), decision(one.max(other))) {
        (_, Some(Decision::Refreshed)) => "the later one is the same text as one that came before",
        (Some(Decision::NewRoot), Some(Decision::Joined { .. })) => {
            "the later one is similar enough to the earlier one"
        }
        (Some(_), Some(_)) => "both are similar enough to a third",
        _ => "one has no text that can be compared",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(text: &str) -> LabelledPairs {
        LabelledPairs::resolve(text, |id| id.parse().ok()).unwrap()
    }

    #[test]
    fn each_label_has_its_figures() {
        let pairs = labelled("0\t1\tdup\n0\t2\tdup\n2\t3\t0-form\n4\t5\t0-footer\n0\t6\tevent\n");
        let figures = by_label(&pairs, &[1, 1, 2, 2, 4, 5, 1]);
        let of = |label: &str| {
            let found = figures.iter().find(|figures| figures.label == label);
            let found = found.unwrap();
            (found.pairs, found.together, found.precision, found.recall, found.f1)
        };
        assert_eq!(of("dup"), (2, 1, Some(0.5), Some(0.5), Some(0.5)));
        assert_eq!(of("0-form"), (1, 1, Some(0.5), Some(0.5), Some(0.5)));
        assert_eq!(of("0-footer"), (1, 0, Some(1.0), Some(0.5), Some(0.6667)));
        assert_eq!(of("event"), (1, 1, Some(0.5), Some(0.5), Some(0.5)));
    }

    #[test]
    fn reasons_are_counted_without_their_figures() {
        assert_eq!(without_figures("refused: proof: the similarity is 0.3"), "refused: proof");
        assert_eq!(without_figures("never compared: no fingerprint"), "never compared");
        let pairs = labelled("0\t1\tdup\n0\t2\t0\n");
        let clustering = Clustering { roots: vec![1, 2, 1], nodes: 0, explanations: Default::default() };
        let [apart, together] = reasons(&pairs, &clustering);
        let reason = "one has no text that can be compared".to_owned();
        assert_eq!(apart, [ReasonCount { reason: reason.clone(), pairs: 1 }]);
        assert_eq!(together, [ReasonCount { reason, pairs: 1 }]);
    }
}
