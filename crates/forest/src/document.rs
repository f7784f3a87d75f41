//! The input of a placement: a document's features, time and prior root.

use spinney_text::method::Features;

use super::{DocumentHash, Root};
use crate::time::Millis;

/// One document to place.
#[derive(Debug, Clone)]
pub struct ForestDocument {
    /// The features that its method read; `None` if there are none. Such a document has only a time.
    pub features: Option<Features>,
    /// Its time.
    pub when: DocumentTime,
    /// A hash of its title, if it has one.
    pub title: Option<u32>,
    /// Which document it is. One that is recovered has a hash only if it is stored as the first one of its group.
    pub id: DocumentHash,
    /// The root of its dry placement, which is stored in the index. It is placed there, unless another tree has its
    /// text by then.
    pub given: Option<Root>,
}

/// The arrival time of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentTime {
    /// At this time; before the clock counts as the clock.
    At(Millis),
    /// The document's own date.
    Claimed(Millis),
    /// The arrival of the document before it; as [`Still`](DocumentTime::Still) for the first one.
    AsBefore,
    /// No time: the clock is not advanced and nothing expires.
    Still,
}
