//! The slots of all shards of a table, which are resized one shard after the other.
//!
//! ```text
//!  new      | 0 | 1 | 2 | 3 | 4 |            all of one size, in order; those that were moved
//!  old                | 5 | 6 | 7 | ...      all of one smaller or larger size
//! ```
//!
//! So a slot is found by arithmetic alone, without a directory, which would be one more memory access. A shard is
//! contiguous, several shards share a chunk, and chunks of the old size are freed as soon as they are empty, so both
//! sizes together take about the memory of one.

use super::kernel;

/// Log2 of the shards per chunk: at most one chunk is empty and not yet freed.
const CHUNK_BITS: u32 = 4;

#[derive(Debug)]
pub(super) struct Shards<T> {
    /// The number of shards is two to this.
    bits: u32,
    /// The shards below this one have been moved.
    moved: usize,
    /// The size that is left, and the one that is moved to.
    sizes: [Size<T>; 2],
}

#[derive(Debug)]
struct Size<T> {
    /// Of one shard.
    places: usize,
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Size<T> {
    fn default() -> Self {
        Size { places: 0, chunks: Vec::new() }
    }
}

impl<T: Copy> Shards<T> {
    /// Shards without any slots.
    pub(super) fn new(bits: u32) -> Self {
        Shards { bits, moved: 0, sizes: Default::default() }
    }

    /// Shards of equal size.
    pub(super) fn filled(bits: u32, places: usize, fill: T) -> Self {
        let mut shards = Shards::new(bits);
        shards.begin(places);
        while shards.is_moving() {
            shards.advance(fill, |_, _| true);
        }
        shards
    }

    #[inline]
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// The number of shards.
    #[inline]
    pub(super) fn len(&self) -> usize {
        1 << self.bits
    }

    #[inline]
    fn size(&self, shard: usize) -> &Size<T> {
        // Not a branch: whether a shard was moved cannot be foreseen.
        &self.sizes[usize::from(shard < self.moved)]
    }

    /// Sum of `of` over all shards, by their number of slots.
    pub(super) fn sum(&self, of: impl Fn(usize) -> usize) -> usize {
        let [old, new] = &self.sizes;
        self.moved * of(new.places) + (self.len() - self.moved) * of(old.places)
    }

    /// The places of a shard that does not move.
    pub(super) fn usual_places(&self) -> usize {
        self.sizes[0].places
    }

    /// The chunk that a shard is in, and which of its shards it is.
    #[inline]
    fn chunk(&self, shard: usize) -> (usize, usize) {
        let bits = self.bits.saturating_sub(CHUNK_BITS);
        (shard >> bits, shard & ((1 << bits) - 1))
    }

    /// The places of a shard.
    #[inline]
    pub(super) fn get(&self, shard: usize) -> &[T] {
        let size = self.size(shard);
        let (chunk, at) = self.chunk(shard);
        let chunk = size.chunks.get(chunk);
        let range = at * size.places..(at + 1) * size.places;
        chunk.and_then(|chunk| chunk.get(range)).unwrap_or_default()
    }

    /// The slot at a position of `width` bits, scaled to all slots of all shards.
    #[inline]
    pub(super) fn scaled(&self, position: u32, width: u32) -> Option<&T> {
        let size = self.size((position >> (width - self.bits)) as usize);
        let rest = width - self.bits.min(CHUNK_BITS);
        let chunk = size.chunks.get((position >> rest) as usize)?;
        // As in every shard, because those of a chunk are of one size and lie behind each other.
        let position = (position & ((1 << rest) - 1)) as usize;
        chunk.get((position * size.places) >> (width - self.bits))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, shard: usize) -> &mut [T] {
        let (chunk, at) = self.chunk(shard);
        let size = &mut self.sizes[usize::from(shard < self.moved)];
        let range = at * size.places..(at + 1) * size.places;
        let chunk = size.chunks.get_mut(chunk);
        chunk.and_then(|chunk| chunk.get_mut(range)).unwrap_or_default()
    }

    /// The shard that is moved next.
    pub(super) fn next(&self) -> usize {
        self.moved
    }

    pub(super) fn is_moving(&self) -> bool {
        !self.sizes[1].chunks.is_empty()
    }

    /// Begins a resize. The previous one must be complete.
    pub(super) fn begin(&mut self, places: usize) {
        let (last, _) = self.chunk(self.len() - 1);
        let chunks = (0..=last).map(|_| Vec::new());
        self.sizes[1] = Size { places, chunks: chunks.collect() };
    }

    /// Cancels a move before its first shard.
    pub(super) fn cancel(&mut self) {
        debug_assert_eq!(self.moved, 0, "a shard of the new size is in use");
        self.sizes[1] = Size::default();
    }

    /// Moves the next shard: `move_places` does it, from the places it has to new ones that are filled with `fill`. If
    /// it answers false, they are given back and the shard stays.
    pub(super) fn advance(&mut self, fill: T, move_places: impl FnOnce(&mut [T], &mut [T]) -> bool) -> bool {
        let shards = self.len();
        let (number, at) = self.chunk(self.moved);
        let per_chunk = shards >> self.bits.min(CHUNK_BITS);
        let [old, new] = &mut self.sizes;
        let Some(chunk) = new.chunks.get_mut(number) else {
            return false;
        };
        if at == 0 {
            // Memory is only committed when it is written.
            chunk.reserve_exact(per_chunk * new.places);
            kernel::ask_for_large_pages(chunk.spare_capacity_mut());
        }
        let begin = chunk.len();
        chunk.resize(begin + new.places, fill);
        let to = chunk.get_mut(begin..).unwrap_or_default();
        let mut left = old.chunks.get_mut(number);
        let from = left.as_mut().and_then(|chunk| chunk.get_mut(at * old.places..(at + 1) * old.places));
        if !move_places(from.unwrap_or_default(), to) {
            chunk.truncate(begin);
            return false;
        }
        self.moved += 1;
        if at + 1 == per_chunk
            && let Some(left) = left
        {
            *left = Vec::new();
        }
        if self.moved == shards {
            self.sizes.swap(0, 1);
            self.sizes[1] = Size::default();
            self.moved = 0;
        }
        true
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.sizes.iter().flat_map(|size| &size.chunks);
        chunks.map(|chunk| chunk.len() * size_of::<T>() + size_of_val(chunk)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(shards: &mut Shards<u32>, value: u32) {
        for shard in 0..shards.len() {
            for (at, place) in shards.get_mut(shard).iter_mut().enumerate() {
                *place = value + (shard * 100 + at) as u32;
            }
        }
    }

    fn assert_written(shards: &Shards<u32>, value: u32) {
        let mut all = 0;
        for shard in 0..shards.len() {
            let places = shards.get(shard);
            all += places.len();
            for (at, &place) in places.iter().enumerate() {
                assert_eq!(place, value + (shard * 100 + at) as u32);
                let width = 20 - shards.bits();
                let position = shard << width | (at << width).div_ceil(places.len());
                assert_eq!(shards.scaled(position as u32, 20), Some(&place));
            }
        }
        assert_eq!(all, shards.sum(|places| places));
    }

    #[test]
    fn shards_are_apart_and_stay_while_others_move() {
        for bits in [0, 3, 5, 10] {
            let mut shards = Shards::filled(bits, 5, 0);
            write(&mut shards, 1_000);
            for places in [8, 3] {
                let before = shards.usual_places();
                shards.begin(places);
                for moved in 0..shards.len() {
                    assert!(shards.is_moving() && shards.next() == moved);
                    assert_eq!(shards.get(0).len(), if moved == 0 { shards.usual_places() } else { places });
                    let mut called = false;
                    // One that is refused, and then the same again.
                    assert!(!shards.advance(7, |_, _| false));
                    assert!(shards.advance(7, |from, to| {
                        called = true;
                        assert_eq!(to, vec![7; places]);
                        for (at, place) in to.iter_mut().enumerate() {
                            *place = 1_000 + (moved * 100 + at) as u32;
                        }
                        assert_eq!(from.first(), Some(&(1_000 + moved as u32 * 100)));
                        true
                    }));
                    assert!(called);
                    assert_written(&shards, 1_000);
                    // All but one chunk of the emptied part is freed.
                    let left = shards.len() - moved - 1 + (shards.len() >> CHUNK_BITS);
                    let most = (left * before + (moved + 1) * places) * size_of::<u32>();
                    let lists = 2 * size_of::<[Vec<u32>; 1 << CHUNK_BITS]>();
                    assert!(shards.memory_bytes() <= most + lists);
                }
                assert!(!shards.is_moving());
                assert_eq!(shards.usual_places(), places);
                assert!(!shards.advance(7, |_, _| true));
            }
            write(&mut shards, 5);
            assert_written(&shards, 5);
        }
    }

    #[test]
    fn no_shard_has_places_at_first() {
        let mut shards: Shards<u8> = Shards::new(4);
        assert!(shards.get(3).is_empty() && shards.get_mut(3).is_empty());
        assert_eq!((shards.sum(|places| places), shards.len()), (0, 16));
    }
}
