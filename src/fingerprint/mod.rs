//! Features -> fingerprints: simhash and the named methods.

mod method;
mod proof;
mod simhash;
mod verified;

pub use method::{Features, MOST_SENTENCES, Method, MethodError, Prints, Workspace};
pub use proof::{BadProof, Proof};
pub use simhash::{Simhash, simhash};
pub use verified::{Offer, Reading, TAKEN};

use std::fmt;

/// A 64-bit value; similar features give fingerprints with a small Hamming distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u64);

/// Hamming distance between two fingerprints: the number of bits in which they differ, 0..=64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Distance(pub u32);

impl Fingerprint {
    /// The number of differing bits.
    pub fn distance(self, other: Fingerprint) -> Distance {
        Distance((self.0 ^ other.0).count_ones())
    }
}

/// 16 lower-case hex digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
