//! The value types that all modules share: a fingerprint and the distance between two.

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

    /// Parses a foreign fingerprint: a 64-bit integer with or without sign or, `quoted`, 16 hex digits. A string of 16
    /// decimal digits is hex too: a document should bring decimals as numbers.
    pub fn written(text: &str, quoted: bool) -> Option<Fingerprint> {
        let text = text.trim();
        let bits = if quoted && text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            u64::from_str_radix(text, 16).ok()
        } else {
            let unsigned = text.parse::<u64>().ok();
            unsigned.or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned))
        };
        bits.map(Fingerprint)
    }
}

/// The version of the algorithm: incremented whenever some texts get other fingerprints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FingerprintVersion(pub u32);

impl FingerprintVersion {
    /// That of this build. 1 was that of 0.1.0: diacritics, marks of several scripts and notations of numbers are read
    /// otherwise since.
    pub const CURRENT: FingerprintVersion = FingerprintVersion(2);

    /// The name of the version in the identity of a forest.
    pub const SETTING: &str = "fingerprints";

    /// Whether a forest that has the value `stored` of this setting is of an earlier version than `wanted`. Such a
    /// forest is opened nevertheless: an upgrade stops no running system, and all that is in it keeps its root.
    pub fn is_earlier(setting: &str, stored: &str, wanted: &str) -> bool {
        let wanted: u32 = wanted.parse().unwrap_or(0);
        let earlier = stored.parse().ok().filter(|version| (1..wanted).contains(version));
        // Only as it is written.
        setting == FingerprintVersion::SETTING && earlier.is_some_and(|version| stored == version.to_string())
    }
}

impl fmt::Display for FingerprintVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// 16 lower-case hex digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
