//! Documents as a forest takes them.

use spinney_text::method::Features;

use super::Root;
use crate::time::Millis;

/// One document to place.
#[derive(Debug, Clone)]
pub struct PlacementDocument {
    /// The features that its method read; `None` if there are none. Such a document has only a time.
    pub features: Option<Features>,
    /// When it comes.
    pub when: DocumentTime,
    /// A number for its title that other titles mostly do not have, if it has one.
    pub title: Option<u32>,
    /// The root that it was given in a dry placement, and that is stored with it: it gets it again, unless its text is
    /// known elsewhere by then.
    pub given: Option<Root>,
}

/// The arrival time of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentTime {
    /// At this time; before the clock counts as the clock.
    At(Millis),
    /// The document's own date.
    Claimed(Millis),
    /// The arrival of the document before it; without one, its time stands still.
    AsBefore,
    /// No time: nothing expires.
    Still,
}
