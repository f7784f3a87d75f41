//! What documents met when they were placed: why a document did not join the cluster that a person would have put it
//! into. For those who want to know (`spinney eval`); nobody else pays for it.

use super::{Engine, Stamped};
use crate::forest::{Decision, Placement, Refusal, Root};

/// What one document met.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    pub(super) fn of(item: usize, placement: &mut Placement) -> Meeting {
        Meeting {
            item,
            decision: placement.decision,
            in_turn: placement.by.is_some(),
            refused: std::mem::take(&mut placement.refused),
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
