//! What documents met when they were placed: why a document did not join the cluster that a person would have put it
//! into. For those who want to know (`spinney eval`); nobody else pays for it.

use super::{Engine, Stamped};
use crate::forest::{Decision, Placement, Root};
use crate::method::Refusal;

/// What one document met.
#[derive(Debug, Clone, PartialEq)]
pub struct Meeting {
    /// Place of the item in the body.
    pub item: usize,
    /// How the root was found.
    pub decision: Decision,
    /// Whether the tree was found by one of several fingerprints that are looked up in turn; what the others are near
    /// was not asked then.
    pub in_turn: bool,
    /// The near trees that the document was not let into, and why; in no particular order.
    pub refused: Vec<(Root, Refusal)>,
}

impl Meeting {
    pub(super) fn of(item: usize, placement: &Placement) -> Meeting {
        Meeting {
            item,
            decision: placement.decision,
            in_turn: placement.by.is_some(),
            refused: placement.refused.clone(),
        }
    }
}

impl Engine {
    /// The same engine, which also tells what the documents met ([`Stamped::meetings`]).
    pub fn telling_meetings(self) -> Engine {
        Engine {
            tells_meetings: true,
            ..self
        }
    }
}

impl Stamped {
    /// What the documents met that have usable text, in the order of placement; nothing where the engine was not made
    /// to tell.
    pub fn meetings(&self) -> &[Meeting] {
        self.meetings.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawRoute;
    use crate::engine::RequestContext;
    use crate::time::Millis;

    #[test]
    fn meetings_are_told_to_those_who_ask() {
        let route = RawRoute::default().any_index().or_clock("none");
        let route = route.validate("test").unwrap();
        let engine = || Engine::new(std::slice::from_ref(&route), "cluster_", 1).unwrap();
        let report = |sum: u32| {
            let text = "The council has voted for the budget of the coming year, which leaves the libraries open and \
                        the swimming bath closed. The mayor called it a plan for difficult times.";
            format!("{{\"content\":\"{text} It comes to {sum} thousand.\"}}\n")
        };
        let body = format!("{}\n{{\"content\":\"\"}}\n{}", report(4711), report(815));
        let call = RequestContext {
            now: Millis(0),
            latest: Millis(i64::MAX),
            unique: 0,
        };
        assert_eq!(engine().stamp_lines(body.as_bytes(), call).meetings(), []);
        let stamped = engine()
            .telling_meetings()
            .stamp_lines(body.as_bytes(), call);
        let [first, second] = stamped.meetings() else {
            panic!("{:?}", stamped.meetings());
        };
        assert_eq!((first.item, second.item), (0, 2));
        assert_eq!(first.decision, Decision::NewRoot);
        assert!(first.refused.is_empty());
        let refusals: Vec<Refusal> = second.refused.iter().map(|&(_, why)| why).collect();
        assert!(
            matches!(refusals[..], [Refusal::Numbers { .. }]),
            "{refusals:?}"
        );
    }
}
