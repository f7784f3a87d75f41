//! Founder tokens: the input of the alignment check, kept within a budget of bytes.
//!
//! They hold more of the text of a tree's founder than its proof does. A tree whose founder tokens have been evicted
//! accepts documents by its proof alone.
//!
//! They are keyed by the root's fingerprint, ordered by insertion, and removed with the node of that root: when it is
//! swept up, replaced or withdrawn. When the budget is exceeded, the oldest are evicted. Any removal that does not
//! follow from another change (a sweep, an eviction) is a change of its own, without tokens. The changes alone
//! therefore determine the content: applying the same ones yields the same tokens in the same order, and the same
//! next eviction. A new founding or proof of the root, a withdrawal and a leaf in its place end them.
//!
//! A tree has at most 2,827 values of 2 bytes (2 numbers, 60 title tokens, 255 sentences of 3 values, 2,000 tokens),
//! about 1.5 KB. A snapshot has them oldest first. `recover` makes them anew.

use std::collections::{BTreeMap, HashMap};

use spinney_text::fingerprint::Fingerprint;
use spinney_text::hash::{HashKey, KeyedHasher};
use spinney_text::method::{Durable, FounderTokens};

/// Default budget for founder tokens, in bytes: about 200,000 articles.
pub const FOUNDER_TOKEN_BYTES: usize = 256 << 20;

/// Overhead of one entry besides its tokens, in bytes: its place in the map and in the order.
const OVERHEAD: usize = 80;
/// Number of entries in one portion of a snapshot.
const PORTION: usize = 1 << 10;

/// Founder tokens by root, within a budget of bytes; the oldest entry is evicted first.
#[derive(Debug)]
pub(super) struct FounderTokenCache {
    kept: HashMap<Fingerprint, Kept, KeyedHasher>,
    /// The roots in insertion order, by sequence number.
    order: BTreeMap<u64, Fingerprint>,
    /// The next sequence number.
    next: u64,
    bytes: usize,
    limit: usize,
    evicted_total: u64,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    tokens: FounderTokens,
}

fn bytes(tokens: &[u16]) -> usize {
    size_of_val(tokens) + OVERHEAD
}

impl FounderTokenCache {
    /// An empty cache. `key` hashes the roots.
    pub(super) fn new(limit: usize, key: HashKey) -> FounderTokenCache {
        FounderTokenCache {
            kept: HashMap::with_hasher(KeyedHasher::new(key)),
            order: BTreeMap::new(),
            next: 0,
            bytes: 0,
            limit,
            evicted_total: 0,
        }
    }

    /// The number of roots with founder tokens.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Size of all entries in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of evictions so far.
    pub(super) fn evicted_total(&self) -> u64 {
        self.evicted_total
    }

    pub(super) fn get(&self, root: Fingerprint) -> Option<&[u16]> {
        self.kept.get(&root).map(|kept| &*kept.tokens)
    }

    /// Inserts or replaces the tokens of a root, as the newest entry. The budget may be exceeded afterwards: see
    /// [`evict`](Self::evict).
    pub(super) fn put(&mut self, root: Fingerprint, tokens: &FounderTokens) -> bool {
        if tokens.is_empty() || bytes(tokens) > self.limit {
            return false;
        }
        self.remove(root);
        let number = self.next;
        self.next += 1;
        self.bytes += bytes(tokens);
        let tokens = tokens.clone();
        self.kept.insert(root, Kept { number, tokens });
        self.order.insert(number, root);
        true
    }

    /// Evicts the oldest entry if the budget is exceeded, and returns its root.
    pub(super) fn evict(&mut self) -> Option<Fingerprint> {
        if self.bytes <= self.limit {
            return None;
        }
        let (_, &root) = self.order.first_key_value()?;
        self.remove(root);
        self.evicted_total += 1;
        Some(root)
    }

    /// Removes the tokens of a root; false if it has none.
    pub(super) fn remove(&mut self, root: Fingerprint) -> bool {
        let Some(kept) = self.kept.remove(&root) else {
            return false;
        };
        self.bytes -= bytes(&kept.tokens);
        self.order.remove(&kept.number);
        true
    }

    /// The roots with tokens, oldest entry first.
    pub(super) fn roots(&self) -> impl Iterator<Item = Fingerprint> {
        self.order.values().copied()
    }

    /// Writes the entries from this sequence number on, at most a portion; returns where the next one begins, or `None`
    /// at the end.
    pub(super) fn write(&self, from: u64, out: &mut Vec<u8>) -> Option<u64> {
        let mut last = None;
        for (&number, root) in self.order.range(from..).take(PORTION) {
            last = Some(number + 1);
            if let Some(kept) = self.kept.get(root) {
                root.write(out);
                kept.tokens.write(out);
            }
        }
        last
    }

    /// Inverse of [`write`](FounderTokenCache::write).
    pub(super) fn read(&mut self, bytes: &mut &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            let mut record = *bytes;
            let root = Fingerprint::read(&mut record)?;
            self.put(root, &FounderTokens::read(&mut record)?);
            *bytes = record;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The naive model: a list from the oldest to the newest.
    #[derive(Default)]
    struct Naive(Vec<(Fingerprint, Vec<u16>)>);

    impl Naive {
        fn put(&mut self, root: Fingerprint, tokens: &[u16], limit: usize) {
            if tokens.is_empty() || bytes(tokens) > limit {
                return;
            }
            self.remove(root);
            self.0.push((root, tokens.to_vec()));
            while self.0.iter().map(|(_, tokens)| bytes(tokens)).sum::<usize>() > limit {
                self.0.remove(0);
            }
        }

        fn remove(&mut self, root: Fingerprint) {
            self.0.retain(|(known, _)| *known != root);
        }
    }

    fn empty(limit: usize) -> FounderTokenCache {
        FounderTokenCache::new(limit, HashKey::FIXED)
    }

    proptest! {
        #[test]
        fn it_is_a_queue_within_its_limit_and_its_copy_is_the_same(
            steps in prop::collection::vec((0u64..12, prop::option::weighted(0.8, prop::collection::vec(any::<u16>(), 0..40))), 0..200),
            limit in 0usize..1200,
        ) {
            let (mut founder_tokens, mut naive) = (empty(limit), Naive::default());
            for (root, tokens) in steps {
                let root = Fingerprint(root);
                match tokens {
                    Some(tokens) => {
                        founder_tokens.put(root, &tokens.as_slice().into());
                        while founder_tokens.evict().is_some() {}
                        naive.put(root, &tokens, limit);
                    }
                    None => {
                        let is_kept = founder_tokens.get(root).is_some();
                        prop_assert_eq!(founder_tokens.remove(root), is_kept);
                        naive.remove(root);
                    }
                }
                prop_assert!(founder_tokens.bytes() <= limit);
            }
            prop_assert_eq!(founder_tokens.len(), naive.0.len());
            for (root, tokens) in &naive.0 {
                prop_assert_eq!(founder_tokens.get(*root), Some(tokens.as_slice()));
            }
            prop_assert!(founder_tokens.roots().eq(naive.0.iter().map(|(root, _)| *root)));
            let (mut copy, mut from) = (empty(limit), Some(0));
            while let Some(number) = from {
                let mut bytes = Vec::new();
                from = founder_tokens.write(number, &mut bytes);
                prop_assert_eq!(copy.read(&mut bytes.as_slice()), Some(()));
            }
            prop_assert_eq!((copy.len(), copy.bytes()), (founder_tokens.len(), founder_tokens.bytes()));
            prop_assert!(copy.roots().eq(founder_tokens.roots()));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = empty(1 << 20).read(&mut bytes.as_slice());
        }
    }
}
