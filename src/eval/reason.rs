//! Why two documents that belong together are apart, as far as their placements tell.

use super::documents::{Document, Stamped};
use crate::engine::Meeting;
use crate::fingerprint::Fingerprint;
use crate::forest::{Decision, Root};
use crate::method::Refusal;

/// The reason why two documents stand in different trees.
pub fn why_apart(one: Document, other: Document, stamped: &Stamped) -> String {
    let (earlier, later) = (one.min(other), one.max(other));
    let met = |document: Document| stamped.meetings.get(&document);
    let (Some(before), Some(after)) = (met(earlier), met(later)) else {
        return "one has no text that can be compared".into();
    };
    // The tree of the later one can be the older one: then it is the earlier document that was refused there.
    let refusal = refusal(after, earlier, stamped).or_else(|| refusal(before, later, stamped));
    match (refusal, after.decision) {
        (Some(refusal), _) => format!("refused: {refusal}"),
        (None, Decision::Refreshed) => {
            "the later one was known already and stays in its cluster".into()
        }
        (None, Decision::Joined { .. }) if after.in_turn => {
            "the later one found another cluster by an earlier stage".into()
        }
        (None, Decision::Joined { candidates: 2.. }) => {
            "the later one was near several clusters and another one won".into()
        }
        _ => "never met: no fingerprint of one is near the other's cluster".into(),
    }
}

/// Why this one was not let into the tree of that document, if they met.
fn refusal(meeting: &Meeting, of: Document, stamped: &Stamped) -> Option<Refusal> {
    let root = Root(Fingerprint(*stamped.roots.get(of as usize)?));
    let found = meeting.refused.iter().find(|(near, _)| *near == root);
    found.map(|&(_, refusal)| refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meeting(decision: Decision, in_turn: bool, refused: &[(u64, Refusal)]) -> Meeting {
        let refused = refused.iter();
        Meeting {
            item: 0,
            decision,
            in_turn,
            refused: refused
                .map(|&(root, refusal)| (Root(Fingerprint(root)), refusal))
                .collect(),
        }
    }

    #[test]
    fn the_reason_is_what_the_later_one_met() {
        let joined = |candidates| Decision::Joined { candidates };
        let meetings = [
            meeting(
                Decision::NewRoot,
                false,
                &[(
                    6,
                    Refusal::Numbers {
                        same: 1,
                        different: 2,
                    },
                )],
            ),
            meeting(
                Decision::NewRoot,
                false,
                &[(
                    5,
                    Refusal::Proof {
                        similarity: 0.3,
                        needed: 0.43,
                    },
                )],
            ),
            meeting(joined(1), false, &[]),
            meeting(joined(2), false, &[]),
            meeting(joined(1), true, &[]),
            meeting(Decision::Refreshed, false, &[]),
        ];
        // Document 1 was refused by the tree of 0; document 0 by tree 6, which document 2 joined.
        let stamped = Stamped {
            roots: vec![5, 7, 6, 8, 9, 10, 11],
            nodes: 0,
            meetings: (0..).zip(meetings).collect(),
        };
        for (one, other, reason) in [
            (
                0,
                1,
                "refused: proof: the similarity is 0.30, needed is 0.43",
            ),
            (
                1,
                0,
                "refused: proof: the similarity is 0.30, needed is 0.43",
            ),
            (0, 2, "refused: numbers: 2 of 3 numbers"),
            (1, 2, "never met"),
            (0, 3, "the later one was near several clusters"),
            (0, 4, "the later one found another cluster"),
            (0, 5, "the later one was known already"),
            (0, 6, "one has no text"),
        ] {
            let why = why_apart(one, other, &stamped);
            assert!(why.starts_with(reason), "{one} {other}: {why}");
        }
    }
}
