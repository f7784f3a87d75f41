//! Which index a name in a request means: a document is known by its id and its index, and writers may use an alias.

use std::collections::HashMap;

use parking_lot::RwLock;
use xxhash_rust::xxh3::xxh3_64;

use super::placed::{HeldDocuments, Resolution};
use crate::forest::DocumentHash;

/// The most names; then all are learned anew.
const MOST: usize = 10_000;

/// Names by their hash.
#[derive(Debug, Default)]
pub(super) struct IndexNames(RwLock<HashMap<u64, IndexName>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IndexName {
    /// It is the name of an index; ingest pipelines may write its documents elsewhere.
    Own,
    /// An alias or a data stream: that of the index that was written last.
    Of(u8),
}

impl IndexNames {
    /// The byte of the index that a name means, for [`DocumentHash::of_byte`]: 0 if nobody knows. `name`: the hash of
    /// the name in the request.
    pub(super) fn index(&self, name: u64) -> u8 {
        match self.0.read().get(&name) {
            Some(IndexName::Own) => DocumentHash::index_byte(name),
            Some(IndexName::Of(index)) => *index,
            None => 0,
        }
    }

    /// Learns from a response under which names documents were stored.
    pub(super) fn note(&self, placed: &HeldDocuments, resolution: &Resolution) {
        let (Resolution::Items(answered) | Resolution::Document(_, answered)) = resolution else { return };
        let mut last = None;
        for held in &placed.held {
            let Some(index) = answered.changes.index_of(held.item) else { continue };
            if last != Some((held.name, index)) {
                last = Some((held.name, index));
                self.learn(held.name, xxh3_64(index.as_bytes()));
            }
        }
    }

    /// Learns that there is an index of this name.
    pub(super) fn note_index(&self, index: &str) {
        let index = xxh3_64(index.as_bytes());
        self.learn(index, index);
    }

    fn learn(&self, name: u64, index: u64) {
        let meant = match name == index {
            true => IndexName::Own,
            false => IndexName::Of(DocumentHash::index_byte(index)),
        };
        let known = self.0.read().get(&name).copied();
        if known == Some(IndexName::Own) || known == Some(meant) {
            return;
        }
        let mut names = self.0.write();
        if names.len() >= MOST {
            names.clear();
        }
        names.insert(name, meant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_index_or_means_one() {
        let names = IndexNames::default();
        let [alias, old, new] = ["alias", "index-1", "index-2"].map(|name| xxh3_64(name.as_bytes()));
        let of = |name: &str| DocumentHash::of(name, "7");
        assert_eq!(DocumentHash::of_byte(names.index(alias), "7"), DocumentHash::of_byte(0, "7"));
        for (index, name) in [(old, "index-1"), (new, "index-2"), (new, "index-2")] {
            names.learn(alias, index);
            assert_eq!(DocumentHash::of_byte(names.index(alias), "7"), of(name));
        }
        names.note_index("index-1");
        // A pipeline moves some.
        names.learn(old, new);
        assert_eq!(DocumentHash::of_byte(names.index(old), "7"), of("index-1"));
    }

    #[test]
    fn names_are_bounded() {
        let names = IndexNames::default();
        (0..MOST as u64).for_each(|name| names.learn(name, name));
        assert_eq!(names.0.read().len(), MOST);
        names.learn(u64::MAX, 1);
        assert_eq!(names.0.read().len(), 1);
    }
}
