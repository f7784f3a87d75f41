//! What became of the labelled pairs, label by label: how many are together, and why each of the others is wrong.

use std::collections::BTreeMap;

use super::super::by_label::{why_together, without_figures};
use super::super::clustering::Clustering;
use super::super::documents::Document;
use super::super::labels::LabelledPairs;
use super::super::reason::why_apart;
use super::super::score::{Mistake, worst_first};

/// What a label asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The same text: `dup`, `hand-dup`, `same`, `1`.
    Together,
    /// Another text: `template`, `hand-template`, `boilerplate`, `event`, `different`, `0`, and all that begin with
    /// `0-`.
    Apart,
    /// Neither is wrong: `partial`, `followup`, `grey`, `page`, and all others.
    Free,
}

impl Wanted {
    /// What the label asks for.
    pub fn of(label: &str) -> Wanted {
        match label {
            "1" | "same" | "dup" | "hand-dup" => Wanted::Together,
            "0" | "different" | "template" | "hand-template" | "boilerplate" | "event" => Wanted::Apart,
            _ if label.starts_with("0-") => Wanted::Apart,
            _ => Wanted::Free,
        }
    }
}

/// The pairs of one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelScore {
    /// The label as it is written.
    pub label: String,
    /// What it asks for.
    pub wanted: Wanted,
    /// Pairs with this label; at least one.
    pub pairs: u64,
    /// Of them, those that were put together.
    pub together: u64,
    /// Pairs on the wrong side by reason. Empty for peers, which give none.
    pub reasons: BTreeMap<String, u64>,
    /// Of the pairs on the wrong side, those between the clusters that have most of them; as many as were asked for.
    pub worst: Vec<WrongPair>,
}

/// A pair on the wrong side, by its ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongPair {
    /// Pairs of this label that are wrong between the same clusters.
    pub pairs: u64,
    /// Id of one document.
    pub one: String,
    /// Id of the other one.
    pub other: String,
    /// Why they are apart or together, with figures.
    pub reason: String,
}

impl LabelScore {
    /// No pairs yet.
    pub(super) fn new(label: &str) -> LabelScore {
        let wanted = Wanted::of(label);
        LabelScore { label: label.into(), wanted, pairs: 0, together: 0, reasons: BTreeMap::new(), worst: Vec::new() }
    }

    /// Pairs of which only the numbers matter.
    #[cfg(test)]
    pub(super) fn counted(label: &str, together: u64, pairs: u64) -> LabelScore {
        LabelScore { pairs, together, ..LabelScore::new(label) }
    }

    /// The share put together, 0 to 1.
    pub fn share_together(&self) -> f64 {
        self.together as f64 / self.pairs as f64
    }

    /// Pairs on the wrong side.
    pub fn wrong(&self) -> u64 {
        match self.wanted {
            Wanted::Together => self.pairs - self.together,
            Wanted::Apart => self.together,
            Wanted::Free => 0,
        }
    }

    /// Adds the pairs of the same label of another collection; `show` bounds the worst of both.
    pub(super) fn add(&mut self, other: LabelScore, show: usize) {
        self.pairs += other.pairs;
        self.together += other.together;
        for (reason, pairs) in other.reasons {
            *self.reasons.entry(reason).or_default() += pairs;
        }
        self.worst.extend(other.worst);
        self.worst.sort_by_key(|pair| std::cmp::Reverse(pair.pairs));
        self.worst.truncate(show);
    }
}

/// The scores of all labels, in alphabetic order. `id` names a document; `show`: how many of the worst pairs to keep.
pub(super) fn score(
    labelled: &LabelledPairs,
    clustering: &Clustering,
    id: &dyn Fn(Document) -> String,
    show: usize,
) -> Vec<LabelScore> {
    let mut scores: Vec<LabelScore> = labelled.names.iter().map(|(name, _)| LabelScore::new(name)).collect();
    // By label and by the clusters that the mistake is between.
    let mut mistakes: Vec<BTreeMap<(u64, u64), Mistake>> = vec![BTreeMap::new(); labelled.names.len()];
    for pair in &labelled.pairs {
        let (Some(score), Some(mistakes)) = (scores.get_mut(pair.name), mistakes.get_mut(pair.name)) else { continue };
        let root = |document: Document| clustering.roots.get(document as usize).copied().unwrap_or_default();
        let (one, other) = (root(pair.one), root(pair.other));
        let together = one == other;
        score.pairs += 1;
        score.together += u64::from(together);
        if is_wrong(score.wanted, together) {
            let new = Mistake { one: pair.one, other: pair.other, pairs: 0 };
            mistakes.entry((one.min(other), one.max(other))).or_insert(new).pairs += 1;
            if clustering.is_explained() {
                let why = without_figures(&reason(pair.one, pair.other, together, clustering));
                *score.reasons.entry(why).or_default() += 1;
            }
        }
    }
    for (score, mistakes) in scores.iter_mut().zip(mistakes) {
        let worst = worst_first(mistakes.into_values()).into_iter().take(show);
        let worst = worst.map(|Mistake { one, other, pairs }| WrongPair {
            pairs,
            one: id(one),
            other: id(other),
            reason: match clustering.is_explained() {
                true => reason(one, other, score.wanted == Wanted::Apart, clustering),
                false => String::new(),
            },
        });
        score.worst = worst.collect();
    }
    scores.retain(|score| score.pairs > 0);
    scores.sort_by(|one, other| one.label.cmp(&other.label));
    scores
}

fn is_wrong(wanted: Wanted, together: bool) -> bool {
    match wanted {
        Wanted::Together => !together,
        Wanted::Apart => together,
        Wanted::Free => false,
    }
}

fn reason(one: Document, other: Document, together: bool, clustering: &Clustering) -> String {
    match together {
        true => why_together(one, other, clustering).to_owned(),
        false => why_apart(one, other, clustering),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(pairs: &str, roots: &[u64], show: usize) -> Vec<LabelScore> {
        let labelled = LabelledPairs::resolve(pairs, |id| id.parse().ok()).unwrap();
        let clustering = Clustering { roots: roots.to_vec(), ..Clustering::default() };
        score(&labelled, &clustering, &|document| format!("d{document}"), show)
    }

    #[test]
    fn labels_ask_for_together_apart_or_nothing() {
        use Wanted::{Apart, Free, Together};
        for (label, wanted) in [
            ("1", Together),
            ("dup", Together),
            ("hand-dup", Together),
            ("template", Apart),
            ("hand-template", Apart),
            ("boilerplate", Apart),
            ("event", Apart),
            ("different", Apart),
            ("0-footer", Apart),
            ("0-template-digits", Apart),
            ("followup", Free),
            ("partial", Free),
            ("hand-partial", Free),
            ("grey", Free),
            ("page", Free),
        ] {
            assert_eq!(Wanted::of(label), wanted, "{label}");
        }
    }

    #[test]
    fn pairs_are_counted_by_label() {
        let found = scores("0\t1\tdup\n0\t2\tdup\n1\t2\tdup\n0\t1\ttemplate\n0\t2\tpage\n", &[5, 5, 6], 1);
        let counts: Vec<_> =
            found.iter().map(|score| (&*score.label, score.pairs, score.together, score.wrong())).collect();
        assert_eq!(counts, [("dup", 3, 1, 2), ("page", 1, 0, 0), ("template", 1, 1, 1)]);
        assert!((found[0].share_together() - 1.0 / 3.0).abs() < 1e-9);
        // Two pairs are missing between the same clusters.
        assert_eq!((found[0].worst.len(), found[0].worst[0].pairs, &*found[0].worst[0].one), (1, 2, "d0"));
        assert!(found[0].reasons.is_empty() && found[1].worst.is_empty());
    }

    #[test]
    fn scores_of_two_collections_add_up() {
        let mut one = scores("0\t1\tdup\n", &[5, 6], 2).remove(0);
        one.reasons.insert("refused: proof".into(), 1);
        let mut other = scores("0\t1\tdup\n1\t2\tdup\n0\t2\tdup\n", &[5, 5, 7], 2).remove(0);
        other.reasons.insert("refused: proof".into(), 2);
        one.add(other, 1);
        assert_eq!((one.pairs, one.together, one.wrong()), (4, 1, 3));
        assert_eq!(one.reasons, BTreeMap::from([("refused: proof".into(), 3)]));
        assert_eq!((one.worst.len(), one.worst[0].pairs), (1, 2));
    }
}
