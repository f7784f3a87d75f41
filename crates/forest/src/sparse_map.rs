//! A map by tree number for values that few trees have.

/// A store of values by number.
#[derive(Debug)]
pub(super) struct SparseMap<T> {
    kept: Vec<T>,
    free: Vec<u32>,
}

impl<T> SparseMap<T> {
    pub(super) fn new() -> Self {
        SparseMap { kept: Vec::new(), free: Vec::new() }
    }

    /// Stores a value; returns its number. There are never more than trees, so the number fits.
    pub(super) fn keep(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop()
            && let Some(place) = self.kept.get_mut(number as usize)
        {
            *place = value;
            return number;
        }
        if self.kept.len() == self.kept.capacity() {
            // An eighth and not a doubling: at tens of millions the slack is real memory.
            self.kept.reserve_exact(self.kept.len() / 8 + 16);
        }
        self.kept.push(value);
        (self.kept.len() - 1) as u32
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.kept.get(number as usize)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.kept.get_mut(number as usize)
    }

    pub(super) fn release(&mut self, number: u32) {
        self.free.push(number);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.kept.capacity() * size_of::<T>() + self.free.capacity() * size_of::<u32>()
    }
}
