//! Entries of a roots index, and their differences from a count. `cluster/roots.rs` has their form.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::cluster::roots::{COUNT, KEY, LAST, ROOT};

/// The size of a group, and its latest arrival in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupSize {
    /// Documents.
    pub n: u64,
    /// The latest arrival; `None`: no document has one.
    pub last: Option<i64>,
}

/// Groups of two or more by their keys.
pub(crate) type GroupSizes = BTreeMap<i64, GroupSize>;

/// The stored form of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredEntry {
    /// The stored content.
    pub group: GroupSize,
    /// The version that it was written under.
    pub version: i64,
    /// Whether `_id` and `cluster_root` agree with `cluster_key`.
    pub is_sound: bool,
}

/// Changes to a roots index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EntryDiff {
    /// Groups without an entry.
    pub missing: GroupSizes,
    /// Groups whose entry is wrong.
    pub wrong: GroupSizes,
    /// Entries without a group of two or more, by `_id`.
    pub superfluous: Vec<String>,
    /// The latest version among the entries that are to be changed.
    pub newest: i64,
}

impl EntryDiff {
    /// Compares a count with the stored entries, by `_id`. An entry is wrong if its number of documents is; the
    /// latest arrival of every group would cost more than all of the counts, and only orders groups of the same size.
    ///
    /// `time`: the begin of the count and the time at which the entries had been read. A count in between takes
    /// precedence over this one.
    pub(super) fn between(
        counted: &GroupSizes,
        stored: &BTreeMap<String, (i64, StoredEntry)>,
        time: RangeInclusive<i64>,
    ) -> EntryDiff {
        let mut diff = EntryDiff { newest: i64::MIN, ..EntryDiff::default() };
        let mut found = std::collections::BTreeSet::new();
        for (id, (key, entry)) in stored {
            let group = counted.get(key).filter(|_| *id == key.to_string());
            if group.is_some() {
                found.insert(*key);
            }
            if entry.version > *time.start() && entry.version <= *time.end() {
                continue;
            }
            if group.is_none() {
                diff.superfluous.push(id.clone());
            }
            match group {
                Some(group) if group.n == entry.group.n && entry.is_sound => continue,
                Some(group) => drop(diff.wrong.insert(*key, *group)),
                None => {}
            }
            diff.newest = diff.newest.max(entry.version);
        }
        let missing = counted.iter().filter(|(key, _)| !found.contains(*key));
        diff.missing = missing.map(|(key, group)| (*key, *group)).collect();
        diff
    }

    /// The groups that are to be written.
    pub(super) fn to_write(&self) -> Vec<u64> {
        let keys = self.missing.keys().chain(self.wrong.keys());
        keys.map(|key| key.cast_unsigned()).collect()
    }

    /// Replaces the sizes and arrivals of these groups by a later count; groups that no longer exist are not in
    /// `counted`.
    pub(super) fn recount(&mut self, counted: &GroupSizes) {
        let recounted = |groups: &mut GroupSizes| {
            let before = std::mem::take(groups);
            let (there, gone): (Vec<i64>, Vec<i64>) = before.into_keys().partition(|key| counted.contains_key(key));
            groups.extend(there.into_iter().filter_map(|key| Some((key, *counted.get(&key)?))));
            gone
        };
        recounted(&mut self.missing);
        let gone = recounted(&mut self.wrong);
        self.superfluous.extend(gone.iter().map(i64::to_string));
    }

    /// Whether it has no operation.
    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.wrong.is_empty() && self.superfluous.is_empty()
    }
}

/// The lines of a bulk that write these groups and delete these entries, in requests of at most `most` operations. Of
/// two writers of one entry the one that counted later wins: `version` is the time of the count.
pub(super) fn lines<'a>(
    groups: impl Iterator<Item = (&'a i64, &'a GroupSize)>,
    gone: impl Iterator<Item = &'a str>,
    version: i64,
    most: usize,
) -> Vec<(usize, Bytes)> {
    let mut requests = Vec::new();
    let (mut text, mut operations) = (String::new(), 0);
    let written = groups.map(|(key, group)| {
        let action = action("index", &key.to_string(), version);
        format!("{action}\n{}\n", source(*key, group))
    });
    let deleted = gone.map(|id| format!("{}\n", action("delete", id, version)));
    for line in written.chain(deleted) {
        text += &line;
        operations += 1;
        if operations == most {
            requests.push((operations, std::mem::take(&mut text).into()));
            operations = 0;
        }
    }
    if operations > 0 {
        requests.push((operations, text.into()));
    }
    requests
}

fn action(op: &str, id: &str, version: i64) -> Value {
    json!({op: {"_id": id, "version": version.max(0), "version_type": "external_gte"}})
}

fn source(key: i64, group: &GroupSize) -> Value {
    let mut source = json!({
        KEY: key,
        ROOT: root_of(key),
        COUNT: group.n,
    });
    if let Some(last) = group.last {
        source[LAST] = last.into();
    }
    source
}

/// The name of the root with this key.
pub(super) fn root_of(key: i64) -> String {
    format!("{:016x}", key.cast_unsigned())
}

/// Reads a hit of a search in a roots index. `None` without a key: such an entry is found by no range.
pub(super) fn stored(hit: &Value) -> Option<(String, (i64, StoredEntry))> {
    let id = hit["_id"].as_str()?;
    let source = &hit["_source"];
    let key = source[KEY].as_i64()?;
    let entry = StoredEntry {
        group: GroupSize { n: source[COUNT].as_u64().unwrap_or(0), last: source[LAST].as_i64() },
        version: hit["_version"].as_i64().unwrap_or(0),
        is_sound: source[ROOT] == root_of(key),
    };
    Some((id.to_owned(), (key, entry)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn group(n: u64) -> GroupSize {
        GroupSize { n, last: Some(1_700_000_000_000) }
    }

    /// The entries that a server would have after these lines.
    fn apply(lines: &[(usize, Bytes)], index: &mut BTreeMap<String, (i64, StoredEntry)>) {
        for (operations, text) in lines {
            let text = std::str::from_utf8(text).unwrap();
            assert!(text.ends_with('\n'));
            let mut lines = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
            let mut seen = 0;
            while let Some(action) = lines.next() {
                seen += 1;
                if let Some(delete) = action.get("delete") {
                    index.remove(delete["_id"].as_str().unwrap());
                    continue;
                }
                let meta = &action["index"];
                let hit = json!({
                    "_id": meta["_id"], "_version": meta["version"], "_source": lines.next().unwrap(),
                });
                let (id, entry) = stored(&hit).unwrap();
                index.insert(id, entry);
            }
            assert_eq!(seen, *operations);
        }
    }

    #[test]
    fn an_entry_as_readers_know_it() {
        let groups = GroupSizes::from([(-1, group(3)), (16, GroupSize { n: 2, last: None })]);
        let written = lines(groups.iter(), ["7"].into_iter(), 5, 10);
        let [(3, text)] = &*written else {
            panic!("{written:?}");
        };
        let text = std::str::from_utf8(text).unwrap();
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                r#"{"index":{"_id":"-1","version":5,"version_type":"external_gte"}}"#,
                r#"{"cluster_key":-1,"cluster_root":"ffffffffffffffff","n":3,"last":1700000000000}"#,
                r#"{"index":{"_id":"16","version":5,"version_type":"external_gte"}}"#,
                r#"{"cluster_key":16,"cluster_root":"0000000000000010","n":2}"#,
                r#"{"delete":{"_id":"7","version":5,"version_type":"external_gte"}}"#,
            ]
        );
        assert!(lines(GroupSizes::new().iter(), [].into_iter(), 5, 10).is_empty());
    }

    #[test]
    fn entries_that_contradict_themselves_are_written_again() {
        let hit = json!({"_id": "1", "_version": 9, "_source": {"cluster_key": 1, "cluster_root": "x", "n": 2}});
        let other = json!({"_id": "x", "_version": 3, "_source": {"cluster_key": 1, "cluster_root": "0000000000000001", "n": 2}});
        let entries = [hit, other].iter().filter_map(stored).collect();
        let counted = GroupSizes::from([(1, GroupSize { n: 2, last: None })]);
        let diff = EntryDiff::between(&counted, &entries, 0..=0);
        assert_eq!(diff.wrong, counted);
        assert_eq!(diff.superfluous, ["x"]);
        assert_eq!((diff.missing.len(), diff.newest), (0, 9));
    }

    #[test]
    fn what_is_written_is_counted_once_more() {
        let stored = |n: u64| json!({"_id": "2", "_version": 9, "_source": {"cluster_key": 2, "cluster_root": root_of(2), "n": n}});
        let entries = [stored(7)].iter().filter_map(super::stored).collect();
        // The same number: that the arrival is another one is not seen.
        assert!(EntryDiff::between(&GroupSizes::from([(2, group(7))]), &entries, 0..=0).is_empty());
        let unknown = |n: u64| GroupSize { n, last: None };
        let counted = GroupSizes::from([(1, unknown(3)), (2, unknown(4)), (3, unknown(2))]);
        let mut diff = EntryDiff::between(&counted, &entries, 0..=0);
        assert_eq!(diff.to_write(), [1, 3, 2]);
        diff.recount(&GroupSizes::from([(1, group(5))]));
        assert_eq!(diff.missing, GroupSizes::from([(1, group(5))]));
        assert_eq!((diff.wrong.len(), &*diff.superfluous), (0, &["2".to_owned()][..]));
    }

    /// Another process counted between the count and the reading of the entries, or its clock is ahead.
    #[test]
    fn what_was_counted_later_stands() {
        let entry = |version: i64| {
            let hit = json!({"_id": "2", "_version": version, "_source": {"cluster_key": 2, "cluster_root": root_of(2), "n": 5}});
            [hit].iter().filter_map(stored).collect()
        };
        for counted in [GroupSizes::new(), GroupSizes::from([(2, group(4))])] {
            for (version, stands) in [(100, false), (101, true), (110, true), (111, false)] {
                let diff = EntryDiff::between(&counted, &entry(version), 100..=110);
                assert_eq!(diff.is_empty(), stands, "{counted:?} {version}");
            }
        }
    }

    proptest! {
        /// Keys, counts, dates and versions, at their ends.
        #[test]
        fn an_entry_is_read_as_it_was_written(
            key in prop_oneof![Just(i64::MIN), Just(-1), Just(0), Just(i64::MAX), any::<i64>()],
            n in prop_oneof![Just(2), Just(i64::MAX as u64), Just(u64::MAX), any::<u64>()],
            last in prop_oneof![Just(None), Just(Some(i64::MIN)), Just(Some(i64::MAX)), any::<Option<i64>>()],
            version in prop_oneof![Just(0), Just(i64::MAX), 0..i64::MAX],
        ) {
            let group = GroupSize { n, last };
            let mut index = BTreeMap::new();
            apply(&lines([(&key, &group)].into_iter(), [].into_iter(), version, 10), &mut index);
            let stored = StoredEntry { group, version, is_sound: true };
            prop_assert_eq!(index, BTreeMap::from([(key.to_string(), (key, stored))]));
        }
    }

    proptest! {
        #[test]
        fn a_diff_that_is_written_leaves_none(
            counted in prop::collection::btree_map(-20_i64..20, 2_u64..5, 0..20),
            before in prop::collection::btree_map(-20_i64..20, 1_u64..5, 0..20),
            most in 1_usize..7,
        ) {
            let groups = |of: &BTreeMap<i64, u64>| -> GroupSizes { of.iter().map(|(k, n)| (*k, group(*n))).collect() };
            let (counted, before) = (groups(&counted), groups(&before));
            let mut index = BTreeMap::new();
            apply(&lines(before.iter(), [].into_iter(), 1, most), &mut index);
            let diff = EntryDiff::between(&counted, &index, 0..=0);
            // The naive comparison, key by key.
            let keys: BTreeSet<i64> = counted.keys().chain(before.keys()).copied().collect();
            for key in keys {
                let (new, old) = (counted.get(&key), before.get(&key));
                prop_assert_eq!(diff.missing.contains_key(&key), new.is_some() && old.is_none());
                prop_assert_eq!(diff.wrong.contains_key(&key), new.is_some() && old.is_some() && new != old);
                prop_assert_eq!(diff.superfluous.contains(&key.to_string()), new.is_none());
            }
            let changed = diff.missing.iter().chain(&diff.wrong);
            let gone = diff.superfluous.iter().map(String::as_str);
            apply(&lines(changed, gone, 2, most), &mut index);
            let left = EntryDiff::between(&counted, &index, 0..=0);
            prop_assert!(left.is_empty(), "{left:?}");
        }
    }
}
