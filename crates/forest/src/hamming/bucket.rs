//! A bucket: the tags of up to 31 nodes in one cache line, followed by their numbers.
//!
//! ```text
//!  tags     31 x 16 bits, and one that counts: | beside it 11 | in it 5 |      64 bytes
//!  numbers  31 x 32 bits                                                      128 bytes
//! ```

/// How many nodes a bucket holds.
pub(super) const PLACES: usize = 31;
const COUNTS: usize = PLACES;
const LEN_MASK: u16 = (1 << LEN_BITS) - 1;
const LEN_BITS: u32 = 5;
/// From this many overflowed nodes on the counter saturates.
const MANY: u16 = u16::MAX >> LEN_BITS;

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Bucket {
    tags: [u16; PLACES + 1],
    ids: [u32; PLACES],
}

impl Bucket {
    pub(super) const EMPTY: Bucket = Bucket { tags: [0; PLACES + 1], ids: [0; PLACES] };

    #[inline]
    fn len(&self) -> usize {
        usize::from(self.tags[COUNTS] & LEN_MASK)
    }

    /// Whether nodes of this bucket are in the overflow.
    #[inline]
    pub(super) fn has_spilled(&self) -> bool {
        self.tags[COUNTS] > LEN_MASK
    }

    /// Whether a tag for which `is_sought` holds may be here; false is certain. It reads all of the line at once,
    /// places that hold nothing too.
    #[inline(always)]
    pub(super) fn may_hold(&self, is_sought: impl Fn(u16) -> bool) -> bool {
        let mut any = 0;
        for &tag in &self.tags {
            any |= u16::from(is_sought(tag));
        }
        any != 0
    }

    /// The nodes with such a tag.
    #[inline]
    pub(super) fn nodes(&self, is_sought: impl Fn(u16) -> bool) -> impl Iterator<Item = u32> {
        let held = self.tags.iter().zip(&self.ids).take(self.len());
        held.filter(move |&(&tag, _)| is_sought(tag)).map(|(_, &id)| id)
    }

    /// All nodes with their tags.
    pub(super) fn all(&self) -> impl Iterator<Item = (u16, u32)> {
        let held = self.tags.iter().zip(&self.ids).take(self.len());
        held.map(|(&tag, &id)| (tag, id))
    }

    /// Returns false if the bucket is full.
    pub(super) fn push(&mut self, tag: u16, id: u32) -> bool {
        let len = self.len();
        let Some(place) = self.ids.get_mut(len) else {
            return false;
        };
        *place = id;
        self.tags[len] = tag;
        self.tags[COUNTS] += 1;
        true
    }

    /// Takes a node out; false if it is not here.
    pub(super) fn remove(&mut self, tag: u16, id: u32) -> bool {
        let mut held = self.tags.iter().zip(&self.ids).take(self.len());
        let Some(at) = held.position(|(&held, &node)| held == tag && node == id) else {
            return false;
        };
        let last = self.len() - 1;
        self.ids.swap(at, last);
        self.tags.swap(at, last);
        self.tags[COUNTS] -= 1;
        true
    }

    /// Counts one more node in the overflow.
    pub(super) fn spill(&mut self) {
        if self.tags[COUNTS] >> LEN_BITS < MANY {
            self.tags[COUNTS] += 1 << LEN_BITS;
        }
    }

    /// Counts one node fewer in the overflow.
    pub(super) fn unspill(&mut self) {
        if self.has_spilled() && self.tags[COUNTS] >> LEN_BITS < MANY {
            self.tags[COUNTS] -= 1 << LEN_BITS;
        }
    }

    /// Saturates the overflow counter.
    pub(super) fn spill_many(&mut self) {
        self.tags[COUNTS] |= MANY << LEN_BITS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_three_cache_lines() {
        assert_eq!(size_of::<Bucket>(), 192);
        assert_eq!(std::mem::offset_of!(Bucket, tags), 0);
    }

    #[test]
    fn holds_31_nodes_and_counts_those_beside_it() {
        let mut bucket = Bucket::EMPTY;
        for i in 0..31 {
            assert!(!bucket.may_hold(|tag| tag == 100 + i));
            assert!(bucket.push(100 + i, u32::from(i)));
        }
        assert!(!bucket.push(1, 1));
        assert!(!bucket.has_spilled());
        assert!(bucket.may_hold(|tag| tag == 117));
        assert_eq!(bucket.nodes(|tag| tag == 117).collect::<Vec<_>>(), [17]);
        assert!(!bucket.remove(117, 18) && !bucket.remove(118, 17));
        assert!(bucket.remove(117, 17) && !bucket.remove(117, 17));
        assert_eq!(bucket.all().count(), 30);
        assert_eq!(bucket.nodes(|tag| tag == 117).count(), 0);
        assert_eq!(bucket.nodes(|tag| tag == 130).collect::<Vec<_>>(), [30]);
        bucket.unspill();
        bucket.spill();
        assert!(bucket.has_spilled());
        bucket.unspill();
        assert!(!bucket.has_spilled());
        for _ in 0..5_000 {
            bucket.spill();
        }
        for _ in 0..5_000 {
            bucket.unspill();
        }
        assert!(bucket.has_spilled(), "what was not counted is not taken back");
        assert_eq!(bucket.all().count(), 30);
    }
}
