//! What the second look goes by: more of the text of a tree's founder than its proof has, for as many trees as there is
//! room for. The oldest goes first. A tree whose evidence has gone takes documents by its proof alone.
//!
//! It is kept by the root's fingerprint, in the order in which it came, and hangs on nothing else: whoever applies the same
//! changes has the same evidence. That of a tree that expired stays until its turn comes.

use std::collections::{HashMap, VecDeque};

use crate::fingerprint::Fingerprint;
use crate::hash::{HashKey, KeyedHasher};
use crate::method::{Durable, FounderTokens};

/// Bytes that evidence may take where nobody chose: that of about 200,000 articles.
pub const EVIDENCE_BYTES: usize = 256 << 20;

/// What one takes besides its words: its place in the map and in the queue.
const OVERHEAD: usize = 80;
/// So many of them are written at a time.
const PORTION: usize = 1 << 10;

/// Evidence within a limit of bytes.
#[derive(Debug)]
pub(super) struct Evidence {
    kept: HashMap<Fingerprint, Kept, KeyedHasher>,
    /// In the order in which they came; some are gone, or came again.
    queue: VecDeque<(u64, Fingerprint)>,
    /// The number of the next.
    next: u64,
    bytes: usize,
    limit: usize,
    evicted_total: u64,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    words: FounderTokens,
}

fn bytes(words: &[u16]) -> usize {
    size_of_val(words) + OVERHEAD
}

impl Evidence {
    /// None yet. `key` hashes the roots.
    pub(super) fn new(limit: usize, key: HashKey) -> Evidence {
        Evidence {
            kept: HashMap::with_hasher(KeyedHasher::new(key)),
            queue: VecDeque::new(),
            next: 0,
            bytes: 0,
            limit,
            evicted_total: 0,
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Evidence of how many roots there is.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many went because there was no room for all.
    pub(super) fn evicted_total(&self) -> u64 {
        self.evicted_total
    }

    pub(super) fn get(&self, root: Fingerprint) -> Option<&[u16]> {
        self.kept.get(&root).map(|kept| &*kept.words)
    }

    /// Keeps that of a root in place of any that there is, and lets the oldest go. Put down again as it stands, nothing
    /// changes.
    pub(super) fn put(&mut self, root: Fingerprint, words: &FounderTokens) -> bool {
        if words.is_empty() || bytes(words) > self.limit || self.get(root) == Some(words) {
            return false;
        }
        self.remove(root);
        let number = self.next;
        self.next += 1;
        self.bytes += bytes(words);
        let words = words.clone();
        self.kept.insert(root, Kept { number, words });
        self.queue.push_back((number, root));
        while self.bytes > self.limit
            && let Some((number, root)) = self.queue.pop_front()
        {
            if self.is_kept(number, root) {
                self.remove(root);
                self.evicted_total += 1;
            }
        }
        // What is gone leaves its place in the queue.
        if self.queue.len() > 2 * self.kept.len() + PORTION {
            let kept = &self.kept;
            let is_kept = |(number, root): &(u64, Fingerprint)| {
                kept.get(root).is_some_and(|kept| kept.number == *number)
            };
            self.queue.retain(is_kept);
        }
        true
    }

    /// Lets that of a root go.
    pub(super) fn remove(&mut self, root: Fingerprint) {
        if let Some(kept) = self.kept.remove(&root) {
            self.bytes -= bytes(&kept.words);
        }
    }

    /// All of it, oldest first.
    #[cfg(test)]
    pub(super) fn rows(&self) -> impl Iterator<Item = (Fingerprint, &[u16])> {
        let kept = self
            .queue
            .iter()
            .filter(|(number, root)| self.is_kept(*number, *root));
        kept.filter_map(|(_, root)| Some((*root, self.get(*root)?)))
    }

    fn is_kept(&self, number: u64, root: Fingerprint) -> bool {
        let kept = self.kept.get(&root);
        kept.is_some_and(|kept| kept.number == number)
    }

    /// Writes a portion, from the one of this number on, and answers where the next begins; none if nothing was left.
    pub(super) fn write(&self, from: u64, out: &mut Vec<u8>) -> Option<u64> {
        let first = self.queue.partition_point(|&(number, _)| number < from);
        let mut last = None;
        for &(number, root) in self.queue.range(first..).take(PORTION) {
            last = Some(number + 1);
            if self.is_kept(number, root)
                && let Some(kept) = self.kept.get(&root)
            {
                root.write(out);
                kept.words.write(out);
            }
        }
        last
    }

    /// Takes what [`write`](Evidence::write) wrote.
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

    /// The same, in the most naive way: a list from the oldest to the latest.
    #[derive(Default)]
    struct Naive(Vec<(Fingerprint, Vec<u16>)>);

    impl Naive {
        fn put(&mut self, root: Fingerprint, words: &[u16], limit: usize) {
            if words.is_empty() || bytes(words) > limit || self.0.contains(&(root, words.to_vec()))
            {
                return;
            }
            self.remove(root);
            self.0.push((root, words.to_vec()));
            while self.0.iter().map(|(_, words)| bytes(words)).sum::<usize>() > limit {
                self.0.remove(0);
            }
        }

        fn remove(&mut self, root: Fingerprint) {
            self.0.retain(|(known, _)| *known != root);
        }
    }

    fn empty(limit: usize) -> Evidence {
        Evidence::new(limit, HashKey::FIXED)
    }

    proptest! {
        #[test]
        fn it_is_a_queue_within_its_limit_and_its_copy_is_the_same(
            steps in prop::collection::vec((0u64..12, prop::option::weighted(0.8, prop::collection::vec(any::<u16>(), 0..40))), 0..200),
            limit in 0usize..1200,
        ) {
            let (mut evidence, mut naive) = (empty(limit), Naive::default());
            for (root, words) in steps {
                let root = Fingerprint(root);
                match words {
                    Some(words) => {
                        evidence.put(root, &words.as_slice().into());
                        naive.put(root, &words, limit);
                    }
                    None => {
                        evidence.remove(root);
                        naive.remove(root);
                    }
                }
                prop_assert!(evidence.bytes() <= limit);
            }
            prop_assert_eq!(evidence.len(), naive.0.len());
            for (root, words) in &naive.0 {
                prop_assert_eq!(evidence.get(*root), Some(words.as_slice()));
            }
            let (mut copy, mut from) = (empty(limit), Some(0));
            while let Some(number) = from {
                let mut bytes = Vec::new();
                from = evidence.write(number, &mut bytes);
                prop_assert_eq!(copy.read(&mut bytes.as_slice()), Some(()));
            }
            prop_assert_eq!((copy.len(), copy.bytes()), (evidence.len(), evidence.bytes()));
            // The next one lets the same one go in both.
            for any in [&mut evidence, &mut copy] {
                any.put(Fingerprint(99), &[1; 200].as_slice().into());
            }
            for (root, _) in &naive.0 {
                prop_assert_eq!(evidence.get(*root), copy.get(*root));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = empty(1 << 20).read(&mut bytes.as_slice());
        }
    }
}
