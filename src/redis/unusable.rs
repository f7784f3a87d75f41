//! Keys that were found to have foreign values.
//!
//! A value that does not read is overwritten. A key of another type stays, and documents do without that fingerprint.
//! Without a readable log no boilerplate is learned. Unreadable overrides, or a clock or acknowledgements of another
//! type, refuse the forest; a foreign `spinney:forests` refuses all.

use std::collections::HashSet;

use crate::forest::shared::keys::Key;

/// Most keys that are remembered; beyond it, all are forgotten.
const MOST: usize = 10_000;

/// Keys whose values have another Redis type, which `MGET` reports as missing.
#[derive(Debug, Default)]
pub(super) struct UnusableKeys(HashSet<Key>);

impl UnusableKeys {
    /// Whether a key was unusable at its last read.
    pub(super) fn has(&self, key: Key) -> bool {
        self.0.contains(&key)
    }

    /// Notes a key that is unusable.
    pub(super) fn add(&mut self, key: Key) {
        if self.0.len() >= MOST && !self.has(key) {
            self.0.clear();
        }
        self.0.insert(key);
    }

    /// Notes a key that is usable.
    pub(super) fn remove(&mut self, key: Key) {
        self.0.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::forest::shared::keys::KeyKind;

    #[test]
    fn no_more_keys_than_that_are_remembered() {
        let key = |n: usize| Key { forest: 1, fingerprint: Fingerprint(n as u64), kind: KeyKind::Node };
        let mut unusable = UnusableKeys::default();
        (0..MOST).for_each(|n| unusable.add(key(n)));
        unusable.add(key(0));
        assert!((0..MOST).all(|n| unusable.has(key(n))));
        unusable.add(key(MOST));
        assert!(unusable.has(key(MOST)) && !unusable.has(key(0)));
        unusable.remove(key(MOST));
        assert!(!unusable.has(key(MOST)));
    }
}
