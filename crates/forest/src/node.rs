//! References to nodes that are valid in every process.

use std::fmt;

use spinney_text::fingerprint::Fingerprint;

/// Distinguishes a node from an earlier or later node of the same fingerprint while no accepted document uses it.
/// Such nodes are numbered in the order of their creation; the numbers wrap after 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Generation(pub u32);

impl Generation {
    /// The generation of every node that an accepted document uses.
    pub const SETTLED: Generation = Generation(0);

    /// The generation of the next node.
    pub(super) fn next(self) -> Generation {
        Generation(self.0.checked_add(1).unwrap_or(1))
    }
}

/// A reference to one node that is never reused for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeRef {
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// Which node of this fingerprint.
    pub generation: Generation,
}

/// `00f1…3c#17`
impl fmt::Display for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.fingerprint, self.generation.0)
    }
}
