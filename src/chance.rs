//! Unpredictable random numbers. In the simulated world its own, so that a run can be repeated.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::hash::HashKey;

/// An unpredictable number.
pub(crate) fn nonce() -> u64 {
    #[cfg(feature = "simulation")]
    if let Some(system) = crate::system::current() {
        return system.nonce();
    }
    // The standard library seeds every RandomState from the system's randomness.
    RandomState::new().build_hasher().finish()
}

/// A secret of this process.
pub(crate) fn secret_key() -> HashKey {
    HashKey::new(nonce(), nonce())
}
