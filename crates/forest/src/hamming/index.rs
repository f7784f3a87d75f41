//! The store of all nodes, by their fingerprints.

use spinney_text::fingerprint::{Distance, Fingerprint};
use spinney_text::hash::HashKey;

use super::HammingError;
use super::entry::{Entry, Full};
use super::exact::ExactTable;
use super::near::NearIndex;

/// All stored fingerprints, each once, with their entries. Finds all within Hamming distance k, exactly, under
/// insertions and removals. The secret determines positions and the order of visits, never the result.
#[derive(Debug)]
pub struct NodeIndex {
    kind: Kind,
    max_len: usize,
}

/// The structure for k = 0, which needs one lookup, and that for larger k.
#[derive(Debug)]
enum Kind {
    Exact(ExactTable),
    Near(Box<NearIndex>),
}

/// Evaluates one expression for either kind.
macro_rules! either {
    ($kind:expr, $index:ident => $answer:expr) => {
        match $kind {
            Kind::Exact($index) => $answer,
            Kind::Near($index) => $answer,
        }
    };
}

impl NodeIndex {
    /// The largest distance an index can be made for.
    pub const MAX_DISTANCE: Distance = Distance(16);

    /// Creates an empty index for distance `k`.
    ///
    /// # Errors
    /// [`HammingError::DistanceOutOfRange`] above [`Self::MAX_DISTANCE`].
    pub fn new(k: Distance, secret: HashKey) -> Result<Self, HammingError> {
        if k > Self::MAX_DISTANCE {
            return Err(HammingError::DistanceOutOfRange(k.0));
        }
        let kind = match k.0 {
            0 => Kind::Exact(ExactTable::new(secret)),
            k => Kind::Near(Box::new(NearIndex::new(k, secret))),
        };
        Ok(NodeIndex { kind, max_len: (u32::MAX - 2) as usize })
    }

    /// An empty index for the same distance with the same secret.
    pub(crate) fn empty(&self) -> NodeIndex {
        NodeIndex {
            kind: match &self.kind {
                Kind::Exact(index) => Kind::Exact(ExactTable::new(index.secret())),
                Kind::Near(index) => Kind::Near(Box::new(NearIndex::new(index.k(), index.secret()))),
            },
            max_len: self.max_len,
        }
    }

    /// Prepares an empty index for a copy of another one with this secret and `len` entries, inserted
    /// [portion](Self::portion) by portion, so that each entry is stored right behind its predecessor. An index for a
    /// distance above 0 has several orders, and stays as it is.
    pub(crate) fn expect_copy(&mut self, secret: HashKey, len: usize) {
        if let Kind::Exact(index) = &mut self.kind
            && index.len() == 0
        {
            *index = ExactTable::for_copy(secret, len);
        }
    }

    /// The secret of its tables.
    pub(crate) fn secret(&self) -> HashKey {
        either!(&self.kind, index => index.secret())
    }

    /// Small indexes are not scanned either.
    #[cfg(test)]
    fn use_tables(&mut self) {
        if let Kind::Near(index) = &mut self.kind {
            index.use_tables();
        }
    }

    /// Sets how many fingerprints may be stored.
    #[cfg(test)]
    pub(crate) fn set_max_len(&mut self, max_len: usize) {
        self.max_len = max_len;
    }

    /// The distance this index was made for.
    pub fn distance(&self) -> Distance {
        match &self.kind {
            Kind::Exact(_) => Distance(0),
            Kind::Near(index) => Distance(index.k()),
        }
    }

    /// The number of stored fingerprints.
    pub fn len(&self) -> usize {
        either!(&self.kind, index => index.len())
    }

    /// True when nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stores a fingerprint; returns the entry that it replaces.
    ///
    /// # Errors
    /// [`Full`] if it is a new one and there are 2^32 - 3 of them, or if `entry.root` is [`u32::MAX`]. Then nothing
    /// changes.
    pub fn insert(&mut self, fingerprint: Fingerprint, entry: Entry) -> Result<Option<Entry>, Full> {
        if entry.is_none() {
            return Err(Full);
        }
        let room = self.len() < self.max_len;
        either!(&mut self.kind, index => index.insert(fingerprint, entry, room))
    }

    /// Removes a fingerprint and returns its entry.
    pub fn remove(&mut self, fingerprint: Fingerprint) -> Option<Entry> {
        either!(&mut self.kind, index => index.remove(fingerprint))
    }

    /// Returns the entry of a fingerprint.
    pub fn get(&self, fingerprint: Fingerprint) -> Option<Entry> {
        either!(&self.kind, index => index.get(fingerprint))
    }

    /// Sets the tick of a stored fingerprint; false if it is not stored.
    pub fn set_tick(&mut self, fingerprint: Fingerprint, tick: u32) -> bool {
        let entry = either!(&mut self.kind, index => index.get_mut(fingerprint));
        entry.map(|entry| entry.tick = tick).is_some()
    }

    /// Visits every stored fingerprint within k of this one exactly once, in no particular order.
    pub fn near(&self, fingerprint: Fingerprint, mut visit: impl FnMut(Fingerprint, Distance, Entry)) {
        match &self.kind {
            Kind::Exact(index) => {
                if let Some(entry) = index.get(fingerprint) {
                    visit(fingerprint, Distance(0), entry);
                }
            }
            Kind::Near(index) => index.near(fingerprint, visit),
        }
    }

    /// Prefetches the cache lines that look-ups of these fingerprints read first. Affects nothing but time; a few
    /// dozen at once are best.
    pub fn prefetch(&self, fingerprints: &[Fingerprint]) {
        either!(&self.kind, index => index.prefetch(fingerprints));
    }

    /// Continues the sweep: visits up to `budget` slots, stored or empty, and removes the entries that `keep`
    /// rejects. Calls `keep` once per visited entry. Returns the number of removed entries.
    ///
    /// A round consists of [`Self::round`] slots and visits every entry that is stored throughout.
    pub fn sweep(&mut self, budget: usize, keep: impl FnMut(Fingerprint, Entry) -> bool) -> usize {
        either!(&mut self.kind, index => index.sweep(budget, keep))
    }

    /// Slots that a whole round of [`Self::sweep`] visits if nothing else changes.
    pub fn round(&self) -> usize {
        either!(&self.kind, index => index.round())
    }

    /// The number of portions that all entries fall into, the same for the life of the index. It does not follow from
    /// the portion of an entry how large it is: many are empty in a small index.
    pub fn portions(&self) -> usize {
        match &self.kind {
            Kind::Exact(_) => ExactTable::PORTIONS,
            Kind::Near(_) => NearIndex::PORTIONS,
        }
    }

    /// Visits the entries of one portion. Reading all portions visits every entry that is stored throughout exactly
    /// once, whatever is inserted and removed in between.
    pub fn portion(&self, number: usize, visit: impl FnMut(Fingerprint, Entry)) {
        either!(&self.kind, index => index.portion(number, visit));
    }

    /// All entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Fingerprint, Entry)> + '_ {
        let (exact, near) = match &self.kind {
            Kind::Exact(index) => (Some(index.iter()), None),
            Kind::Near(index) => (None, Some(index.iter())),
        };
        exact.into_iter().flatten().chain(near.into_iter().flatten())
    }

    /// Bytes of memory held: the capacity of its tables.
    pub fn memory_bytes(&self) -> usize {
        either!(&self.kind, index => index.memory_bytes())
    }
}

#[cfg(test)]
mod tests;
