//! The law of the forest: equivalence classes of fingerprints as trees of height at most 2.

use crate::fingerprint::Fingerprint;

/// The fingerprint of a node without a parent; it names a tree, that is, a cluster of similar documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Root(pub Fingerprint);

/// Milliseconds since 1970-01-01T00:00:00Z, or a span of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);
