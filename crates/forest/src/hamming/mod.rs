//! Hamming index: all nodes of a forest by their fingerprints, and all within Hamming distance k of a given one,
//! exact under insertions and removals. Each fingerprint is stored once, with the eight bytes that the forest keeps
//! of it.
//!
//! ```text
//!  index.rs    one interface
//!  exact.rs    k = 0: one sorted table, a place of 16 bytes a fingerprint
//!  near.rs     k >= 1: the nodes in a slab, and two tables of buckets, one by each half of the fingerprint
//! ```
//!
//! No result depends on the secret of the tables ([`HashKey`](spinney_text::hash::HashKey)): it keeps senders of chosen
//! fingerprints from choosing their positions.

mod ball;
mod bucket;
mod buckets;
mod entry;
mod exact;
mod index;
mod kernel;
mod near;
mod ordered;
mod overflow;
mod position;
mod shards;
mod slab;
mod spread;
mod table;

pub use entry::{Entry, Full};
pub use index::NodeIndex;
pub(crate) use kernel::prefetch;
use thiserror::Error;

/// Why an index cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HammingError {
    /// The distance is above [`NodeIndex::MAX_DISTANCE`].
    #[error("distance k = {0} is out of range: choose one from 0 to 16")]
    DistanceOutOfRange(u32),
}
