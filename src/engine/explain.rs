//! Explanations of placements for `eval`: why a document did not join the cluster that a person would have chosen.
//! Collected only on request.

use crate::forest::port::RootAssignment;
use crate::forest::{Decision, Root};
use crate::method::Refusal;

/// How one document was placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Place of the item in the body.
    pub item: usize,
    /// How the root was found.
    pub decision: Decision,
    /// Whether the fingerprints were looked up one after the other until one found the tree.
    pub in_turn: bool,
    /// The near trees that the document was not let into, and why; in no particular order.
    pub refused: Vec<(Root, Refusal)>,
}

impl Explanation {
    pub(super) fn of(item: usize, place: RootAssignment) -> Explanation {
        Explanation { item, decision: place.decision, in_turn: place.in_turn, refused: place.refused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Clock, RawRoute};
    use crate::engine::{Engine, RequestContext};
    use crate::hash::HashKey;
    use crate::time::Millis;

    #[test]
    fn explanations_are_given_to_those_who_ask() {
        let route = RawRoute::default().any_index().or_clock(Clock::None);
        let route = route.validate("test").unwrap();
        let engine = || Engine::new(std::slice::from_ref(&route), "cluster_", 1, HashKey::FIXED).unwrap();
        let stamped = |engine: Engine, body: &str| {
            let engine = std::sync::Arc::new(engine);
            let context = RequestContext { now: Millis(0), latest: Millis(i64::MAX), unique: 0, caller: None };
            let stamped = engine.stamp_lines(body.to_owned().into(), context);
            futures_executor::block_on(stamped).unwrap()
        };
        let report = |sum: u32| {
            let text = "The council has voted for the budget of the coming year, which leaves the libraries open and \
                        the swimming bath closed. The mayor called it a plan for difficult times.";
            format!("{{\"content\":\"{text} It comes to {sum} thousand.\"}}\n")
        };
        let body = format!("{}\n{{\"content\":\"\"}}\n{}", report(4711), report(815));
        assert_eq!(stamped(engine(), &body).explanations(), []);
        let stamped = stamped(engine().with_explanations(), &body);
        let [first, second] = stamped.explanations() else {
            panic!("{:?}", stamped.explanations());
        };
        assert_eq!((first.item, second.item), (0, 2));
        assert_eq!(first.decision, Decision::NewRoot);
        assert!(first.refused.is_empty());
        let refusals: Vec<Refusal> = second.refused.iter().map(|&(_, why)| why).collect();
        assert!(matches!(refusals[..], [Refusal::OtherNumbers { .. }]), "{refusals:?}");
    }
}
