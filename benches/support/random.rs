//! A small seeded generator of random numbers: the same seed gives the same documents on every machine, for ever.

use spinney::hash::SplitMix64;

pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number of 0..n; n must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        // The high half of a product instead of a remainder: no division, and a bias far below what matters here.
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// A number of low..=high.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
