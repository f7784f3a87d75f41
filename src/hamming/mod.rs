//! All stored fingerprints within Hamming distance k of a given one: exact, and streaming in both directions.
//!
//! A fingerprint is cut into two halves of 32 bits. If two fingerprints differ in at most k bits, then their high
//! halves differ in at most `k / 2` bits or their low halves in at most `k - k / 2 - 1` (the pigeonhole of Manku, Jain
//! and Das Sarma, "Detecting Near-Duplicates for Web Crawling", WWW 2007, section 3, with flips of the query in place
//! of more tables). For k = 3 that is 33 + 33 exact probes.
//!
//! ```text
//!  links    one record a NodeId            | code 64 | next by high half 32 | next by low half 32 |
//!  tables   one by high, one by low half   | key  32 | head 32 |   an open-addressed slot
//!                                                       |
//!                             head -> next -> next      +-- up to CHAIN nodes of this half
//!                  overflow map: other half -> head     +-- more than that: the half has a map of its own
//! ```
//!
//! Halves, not quarters, because skew is the danger and not number: fingerprints of real text share 16 bits often and
//! 32 bits rarely unless they are near. Where many do share a half, the overflow map bounds the work: it is scanned, or
//! the possible other halves within the distance are looked up one by one, whichever is less. So no distribution makes a
//! query for k <= 3 look up more than the 43,745 codes there are within distance 3, or read more than a few times as
//! many; and removal never scans the nodes of a half.
//!
//! Who brings fingerprints of his own (`field:`) can do two things. Choose halves that fall into one heap of the open
//! addressing: against that the tables are keyed by a secret ([`HashKey`]). And choose fingerprints that share halves, which
//! no secret hides, because they rightly stand together: then a query for k = 3 makes up to 44,834 look-ups in place of 66.
//! 200,000 fingerprints made for it cost 7 times what random ones do, all in all; the answers stay exact.

mod ball;
mod bucket;
mod buckets;
mod exact;
mod half;
mod index;
mod kernel;
mod near;
mod ordered;
mod overflow;
mod shard;
mod shards;
mod slab;
mod spread;
mod table;
#[cfg(test)]
mod tests;

use crate::fingerprint::{Distance, Fingerprint};
use crate::hash::HashKey;
pub use index::{Entry, Full, NodeIndex};

use half::{HalfTable, Link, Side, VACANT};
use shard::END;
use thiserror::Error;

/// The number under which a fingerprint is stored: a slot of the caller's slab. Numbers should be dense, because
/// memory follows the largest one in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The largest number that can be stored; the two above it mark ends inside the index.
    pub const MAX: NodeId = NodeId(VACANT - 1);
}

/// Why an index cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HammingError {
    /// The distance is above [`HammingIndex::MAX_DISTANCE`].
    #[error("distance k = {0} is out of range: choose one from 0 to 16")]
    DistanceOutOfRange(u32),
}

/// Exact streaming index of 64-bit fingerprints for one distance k. See the module for its shape.
#[derive(Debug)]
pub struct HammingIndex {
    k: u32,
    links: Vec<Link>,
    high: HalfTable,
    low: HalfTable,
    len: usize,
    /// Probes of a look-up through the tables; a smaller index is scanned instead.
    probes: u64,
}

/// One probe of a table costs about as much as scanning this many links.
const LINKS_PER_PROBE: u64 = 8;

impl HammingIndex {
    /// The largest distance an index can be made for.
    pub const MAX_DISTANCE: Distance = Distance(16);

    /// An empty index that finds what is at most `k` bits away. `secret` decides where things stand and not what is found.
    ///
    /// # Errors
    /// [`HammingError::DistanceOutOfRange`] above [`Self::MAX_DISTANCE`].
    pub fn new(k: Distance, secret: HashKey) -> Result<Self, HammingError> {
        if k > Self::MAX_DISTANCE {
            return Err(HammingError::DistanceOutOfRange(k.0));
        }
        let k = k.0;
        let probes = ball::size(high_radius(k)) + low_radius(k).map_or(0, ball::size);
        Ok(HammingIndex {
            k,
            links: Vec::new(),
            high: HalfTable::new(Side::High, secret),
            low: HalfTable::new(Side::Low, secret),
            len: 0,
            probes,
        })
    }

    /// An empty index for the same distance.
    pub(crate) fn empty(&self) -> HammingIndex {
        HammingIndex {
            k: self.k,
            links: Vec::new(),
            high: HalfTable::new(Side::High, self.high.secret),
            low: HalfTable::new(Side::Low, self.low.secret),
            len: 0,
            probes: self.probes,
        }
    }

    /// The distance this index was made for.
    pub fn distance(&self) -> Distance {
        Distance(self.k)
    }

    /// The number of stored nodes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores a fingerprint under a number. Several numbers may hold the same fingerprint.
    ///
    /// Answers false, and changes nothing, if the number is in use already or above [`NodeId::MAX`].
    pub fn insert(&mut self, fingerprint: Fingerprint, id: NodeId) -> bool {
        if id > NodeId::MAX {
            return false;
        }
        let slot = id.0 as usize;
        if slot >= self.links.len() {
            let missing = slot + 1 - self.links.len();
            if slot >= self.links.capacity() {
                // An eighth and not a doubling: at tens of millions of nodes the slack is real memory.
                self.links.reserve_exact(missing + self.links.len() / 8);
            }
            self.links.resize(slot + 1, Link::VACANT);
        }
        let Some(link) = self.links.get_mut(slot) else {
            return false;
        };
        if !link.is_vacant() {
            return false;
        }
        *link = Link {
            code: fingerprint.0,
            next: [END; 2],
        };
        self.high.insert(&mut self.links, id.0, fingerprint.0);
        self.low.insert(&mut self.links, id.0, fingerprint.0);
        self.len += 1;
        true
    }

    /// Removes what is stored under a number. Answers false, and changes nothing, if this fingerprint is not stored under it.
    pub fn remove(&mut self, fingerprint: Fingerprint, id: NodeId) -> bool {
        if self.fingerprint(id) != Some(fingerprint) {
            return false;
        }
        self.high.remove(&mut self.links, id.0, fingerprint.0);
        self.low.remove(&mut self.links, id.0, fingerprint.0);
        if let Some(link) = self.links.get_mut(id.0 as usize) {
            *link = Link::VACANT;
        }
        self.len -= 1;
        true
    }

    /// The fingerprint stored under a number.
    pub fn fingerprint(&self, id: NodeId) -> Option<Fingerprint> {
        let link = self.links.get(id.0 as usize)?;
        (!link.is_vacant()).then_some(Fingerprint(link.code))
    }

    /// A number under which exactly this fingerprint is stored; any of them if there are several.
    pub fn find(&self, fingerprint: Fingerprint) -> Option<NodeId> {
        let mut found = None;
        self.high
            .visit(&self.links, fingerprint.0, 0, 0, |id, code| {
                if code == fingerprint.0 {
                    found = Some(NodeId(id));
                }
            });
        found
    }

    /// Visits every stored node within k of a fingerprint exactly once, in no particular order.
    pub fn near(
        &self,
        fingerprint: Fingerprint,
        mut visit: impl FnMut(NodeId, Fingerprint, Distance),
    ) {
        let query = fingerprint.0;
        if self.links.len() as u64 <= self.probes.saturating_mul(LINKS_PER_PROBE) {
            for (id, link) in (0..).zip(&self.links) {
                let distance = (link.code ^ query).count_ones();
                if distance <= self.k && !link.is_vacant() {
                    visit(NodeId(id), Fingerprint(link.code), Distance(distance));
                }
            }
            return;
        }
        let (k, links) = (self.k, &self.links);
        let high_radius = high_radius(k);
        let masks = (0..=high_radius).flat_map(ball::masks);
        self.high.visit_flipped(links, query, masks, k, |id, code| {
            let distance = (code ^ query).count_ones();
            if distance <= k {
                visit(NodeId(id), Fingerprint(code), Distance(distance));
            }
        });
        let Some(low_radius) = low_radius(k) else {
            return;
        };
        let masks = (0..=low_radius).flat_map(ball::masks);
        self.low.visit_flipped(links, query, masks, k, |id, code| {
            let difference = code ^ query;
            let distance = difference.count_ones();
            // What is near by its high half was visited above.
            if distance <= k && (difference >> 32).count_ones() > high_radius {
                visit(NodeId(id), Fingerprint(code), Distance(distance));
            }
        });
    }

    /// Bytes of memory held, an estimate: the capacity of its tables.
    pub fn memory_bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>()
            + self.high.memory_bytes()
            + self.low.memory_bytes()
    }
}

/// How many bits the high halves may differ in to be found by the high half.
fn high_radius(k: u32) -> u32 {
    k / 2
}

/// The same for the low halves of what was not found by the high half; none is left to find when k = 0.
fn low_radius(k: u32) -> Option<u32> {
    (k - high_radius(k)).checked_sub(1)
}
