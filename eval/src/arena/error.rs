//! The error of a set, and of all sets: one figure to compare two states of a method by.
//!
//! ```text
//! dup apart      = pairs apart / pairs, of all labels that ask for together
//! wrong together = sum of w(n) * share together / sum of w(n), over the labels that ask for apart,
//!                  n = pairs of the label, w(n) = min(n, 30)
//! error of a set = (dup apart + wrong together) / 2
//! error          = mean over the sets, each with the same weight
//! ```

use std::collections::BTreeMap;

use super::labels::{LabelScore, Wanted};

/// Pairs from which on a label has its full weight.
const FULL_WEIGHT: u64 = 30;

/// How wrong the pairs of a set are. Both from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SetError {
    /// Of the pairs that belong together, the share that is apart.
    pub dup_apart: f64,
    /// Of the pairs that belong apart, the share that is together; small labels count less.
    pub wrong_together: f64,
}

impl SetError {
    /// The error of these labels; `None` where no pair belongs together, or none apart.
    pub(super) fn of(labels: &[LabelScore]) -> Option<SetError> {
        let of = |wanted: Wanted| labels.iter().filter(move |score| score.wanted == wanted);
        let dup: u64 = of(Wanted::Together).map(|score| score.pairs).sum();
        let apart: u64 = of(Wanted::Together).map(LabelScore::wrong).sum();
        let weight = |score: &LabelScore| score.pairs.min(FULL_WEIGHT) as f64;
        let weights: f64 = of(Wanted::Apart).map(weight).sum();
        let together: f64 = of(Wanted::Apart).map(|score| weight(score) * score.share_together()).sum();
        (dup > 0 && weights > 0.0)
            .then(|| SetError { dup_apart: apart as f64 / dup as f64, wrong_together: together / weights })
    }

    /// The mean of the two.
    pub fn error(&self) -> f64 {
        f64::midpoint(self.dup_apart, self.wrong_together)
    }
}

/// The mean over the sets, and how many there are. Collections of one set count as one.
pub(super) fn mean<'s>(errors: impl IntoIterator<Item = (&'s str, SetError)>) -> Option<(f64, usize)> {
    let mut by_set: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (set, error) in errors {
        let (sum, count) = by_set.entry(set).or_default();
        *sum += error.error();
        *count += 1.0;
    }
    let sum: f64 = by_set.values().map(|(sum, count)| sum / count).sum();
    (!by_set.is_empty()).then(|| (sum / by_set.len() as f64, by_set.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn small_labels_count_less() {
        let labels = [
            LabelScore::counted("dup", 60, 100),
            LabelScore::counted("hand-dup", 10, 10),
            LabelScore::counted("template", 300, 1_000),
            LabelScore::counted("boilerplate", 10, 10),
            LabelScore::counted("event", 0, 20),
            LabelScore::counted("partial", 7, 9),
        ];
        let error = SetError::of(&labels).unwrap();
        assert!(close(error.dup_apart, 40.0 / 110.0));
        // 30 of weight 30, 10 of weight 10, 0 of weight 20.
        assert!(close(error.wrong_together, (30.0 * 0.3 + 10.0) / 60.0));
        assert!(close(error.error(), (error.dup_apart + error.wrong_together) / 2.0));
        assert_eq!(SetError::of(&labels[..2]), None);
        assert_eq!(SetError::of(&labels[2..]), None);
    }

    #[test]
    fn every_set_has_the_same_weight() {
        let error = |dup_apart| SetError { dup_apart, wrong_together: 0.0 };
        let errors = [("press", error(0.2)), ("press", error(0.4)), ("court", error(0.0))];
        let (mean, sets) = mean(errors).unwrap();
        assert!(close(mean, 0.075) && sets == 2, "{mean}");
        assert!(super::mean([]).is_none());
    }

    proptest! {
        #[test]
        fn an_error_is_a_share_and_grows_with_every_wrong_pair(
            counts in proptest::collection::vec((0usize..6, 0u64..100, 1u64..100), 1..8),
        ) {
            const LABELS: [&str; 6] = ["dup", "1", "template", "event", "0-footer", "page"];
            let mut labels: Vec<LabelScore> =
                counts.iter().map(|&(label, some, pairs)| LabelScore::counted(LABELS[label], some.min(pairs), pairs)).collect();
            let Some(before) = SetError::of(&labels) else { return Ok(()) };
            prop_assert!((0.0..=1.0).contains(&before.error()));
            for at in 0..labels.len() {
                let label = labels[at].clone();
                match label.wanted {
                    Wanted::Together if label.together > 0 => labels[at].together -= 1,
                    Wanted::Apart if label.together < label.pairs => labels[at].together += 1,
                    _ => continue,
                }
                let after = SetError::of(&labels).unwrap();
                prop_assert!(after.error() > before.error());
                labels[at] = label;
            }
        }
    }
}
