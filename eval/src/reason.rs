//! Why two documents that belong together are apart, as far as their placements explain it.

use super::clustering::Clustering;
use super::documents::Document;
use spinney::engine::Explanation;
use spinney::fingerprint::Fingerprint;
use spinney::forest::{Decision, Root};
use spinney::method::Refusal;

/// The reason why two documents have different roots.
pub(super) fn why_apart(one: Document, other: Document, clustering: &Clustering) -> String {
    let (earlier, later) = (one.min(other), one.max(other));
    let explanation = |document: Document| clustering.explanations.get(&document);
    let (Some(before), Some(after)) = (explanation(earlier), explanation(later)) else {
        return "one has no text that can be compared".into();
    };
    // The tree of the later one can be the older one: then it is the earlier document that was refused there.
    let refusal = refusal(after, earlier, clustering).or_else(|| refusal(before, later, clustering));
    match (refusal, after.decision) {
        (Some(refusal), _) => format!("refused: {refusal}"),
        (None, Decision::Refreshed) => "the text of the later one was known already and stays in its cluster".into(),
        (None, Decision::Joined { .. }) if after.in_turn => {
            "an earlier stage found another cluster for the later one".into()
        }
        (None, Decision::Joined { candidates: 2.. }) => {
            "the later one was near several clusters and joined another one".into()
        }
        _ => "never compared: no fingerprint of one is near the other's cluster".into(),
    }
}

/// Why the document with this explanation may not join the tree of the other one, if that tree was a candidate.
fn refusal(explanation: &Explanation, other: Document, clustering: &Clustering) -> Option<Refusal> {
    let root = Root(Fingerprint(*clustering.roots.get(other as usize)?));
    let found = explanation.refused.iter().find(|(near, _)| *near == root);
    found.map(|&(_, refusal)| refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explanation(decision: Decision, in_turn: bool, refused: &[(u64, Refusal)]) -> Explanation {
        let refused = refused.iter();
        Explanation {
            item: 0,
            decision,
            in_turn,
            refused: refused.map(|&(root, refusal)| (Root(Fingerprint(root)), refusal)).collect(),
        }
    }

    #[test]
    fn the_reason_is_the_refusal_of_either_or_the_later_ones_decision() {
        let joined = |candidates| Decision::Joined { candidates };
        let explanations = [
            explanation(Decision::NewRoot, false, &[(6, Refusal::Numbers { same: 1, different: 2 })]),
            explanation(Decision::NewRoot, false, &[(5, Refusal::Proof { similarity: 0.3, needed: 0.43 })]),
            explanation(joined(1), false, &[]),
            explanation(joined(2), false, &[]),
            explanation(joined(1), true, &[]),
            explanation(Decision::Refreshed, false, &[]),
        ];
        // Document 1 was refused by the tree of 0; document 0 by tree 6, which document 2 joined.
        let clustering = Clustering {
            roots: vec![5, 7, 6, 8, 9, 10, 11],
            nodes: 0,
            explanations: (0..).zip(explanations).collect(),
        };
        for (one, other, reason) in [
            (0, 1, "refused: proof: the similarity is 0.30, needed is 0.43"),
            (1, 0, "refused: proof: the similarity is 0.30, needed is 0.43"),
            (0, 2, "refused: numbers: 2 of 3 numbers"),
            (1, 2, "never compared"),
            (0, 3, "the later one was near several clusters"),
            (0, 4, "an earlier stage found another cluster"),
            (0, 5, "the text of the later one was known"),
            (0, 6, "one has no text"),
        ] {
            let why = why_apart(one, other, &clustering);
            assert!(why.starts_with(reason), "{one} {other}: {why}");
        }
    }
}
