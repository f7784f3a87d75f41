//! One record that does not read costs no other: it is told where it is, shown, and gone on without.

use std::path::{Path, PathBuf};

use super::*;
use crate::config::{OnFailure, OnUnreadable, Storage};
use crate::fingerprint::Fingerprint;
use crate::forest::local::StateChange;
use crate::forest::overrides::{Override, OverrideChange, ResolvedBy, Restamp};
use crate::forest::{Change, Root, Tick};
use crate::method::{Founder, Lesson};
use crate::store::{DataDir, Durability, Store, StoredRecord};

/// Stories, and how many documents each has.
const STORIES: u64 = 6;
const VERSIONS: u64 = 3;

pub(super) fn storage(dir: &Path, on_unreadable: OnUnreadable) -> Storage {
    Storage { data_dir: dir.to_owned(), durability: Durability::None, on_failure: OnFailure::Refuse, on_unreadable }
}

pub(super) fn open(dir: &Path, on_unreadable: OnUnreadable) -> Result<Arc<Engine>, EngineError> {
    let routes = [route(json!({"method": "verified", "k": 0, "window": "none"}))];
    let storage = storage(dir, on_unreadable);
    let engine = Engine::stored(&routes, "cluster_", 2, HashKey::FIXED, Some(&storage))?;
    Ok(Arc::new(engine))
}

/// A directory that goes with its test.
pub(super) struct Dir(pub(super) PathBuf);

impl Dir {
    pub(super) fn new(name: &str) -> Dir {
        let name = format!("spinney-salvage-{}-{name}", std::process::id());
        let dir = Dir(std::env::temp_dir().join(name));
        let _ = std::fs::remove_dir_all(&dir.0);
        dir
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn source(story: u64, version: u64) -> Value {
    let words = |salt: u64, count: u64| {
        let word = |n: u64| format!("{:x}", crate::hash::splitmix64(salt * 4_096 + n) >> 36);
        let words: Vec<String> = (0..count).map(word).collect();
        words.join(" ")
    };
    let sentences: Vec<String> = (0..8).map(|n| words(story * 16 + n + 1, 14)).collect();
    let own = words(1_000_000 + story * 16 + version, 12);
    let text = format!("{}. {own}.", sentences.join(". "));
    json!({"title": words(9_999 + story, 8), "content": text})
}

/// The roots of all documents, each in a request of its own.
pub(super) fn place_all(engine: &Arc<Engine>) -> Vec<String> {
    let mut roots = Vec::new();
    for version in 0..VERSIONS {
        for story in 0..STORIES {
            let body = index(&format!("{story}-{version}"), &source(story, version));
            let (lines, placed) = bulk_of_writer(engine, &body, 1_000);
            roots.push(lines[1]["cluster_root"].as_str().unwrap().to_owned());
            let accepted = answered(json!([{"index": {"status": 201}}]));
            wait(engine.settle(placed, accepted, Millis(1_000))).unwrap();
        }
    }
    roots
}

/// The same forest with records that somebody else has written.
fn rewrite(from: &Path, to: &Path, mut change: impl FnMut(Option<u8>, &mut Vec<u8>)) {
    let (old, new) = (DataDir::lock(from).unwrap(), DataDir::lock(to).unwrap());
    let identity = old.forests().unwrap().remove(0);
    let mut replay = Store::open(&old, &identity, Durability::None).unwrap();
    let mut made = Store::open(&new, &identity, Durability::Batch).unwrap();
    while made.next().unwrap().is_some() {}
    let store = made.into_store().unwrap();
    let mut snapshot = None;
    while let Some(record) = replay.next().unwrap() {
        match record {
            StoredRecord::Block { section, bytes } => {
                let snapshot = snapshot.get_or_insert_with(|| store.begin_snapshot().unwrap());
                let mut bytes = bytes.to_vec();
                change(Some(section), &mut bytes);
                snapshot.write(section, &bytes).unwrap();
            }
            StoredRecord::Batch { payload, .. } => {
                let mut payload = payload.to_vec();
                change(None, &mut payload);
                store.append(payload);
            }
        }
    }
    if let Some(snapshot) = snapshot {
        snapshot.finish().unwrap();
    }
    store.close().unwrap();
}

/// Where each change of a batch begins.
fn begins(batch: &[u8]) -> Vec<usize> {
    let (mut rest, mut begins) = (batch, Vec::new());
    while !rest.is_empty() {
        begins.push(batch.len() - rest.len());
        StateChange::<Founder>::read(&mut rest).unwrap();
    }
    begins
}

/// It does not start with it, says why, shows it, and goes on without it. Answers the roots that the documents get
/// then.
fn salvaged(dir: &Path, kind: &str) -> Vec<String> {
    let error = open(dir, OnUnreadable::Refuse).err().unwrap().to_string();
    for part in ["news", "at byte", kind, "--on-unreadable recover", "spinney inspect"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let seen = inspect(dir, 3, &|_, _| ()).unwrap();
    let [forest] = &*seen else { panic!("{seen:?}") };
    let [gap] = &*forest.unreadable else { panic!("{kind}: {:?}", forest.unreadable) };
    assert!(gap.contains(kind) && gap.contains("at byte"), "{kind}: {gap}");

    let engine = open(dir, OnUnreadable::Recover).unwrap();
    let sources = wait(engine.sources()).unwrap();
    assert!(sources[0].is_salvaged, "the index is read again");
    engine.forests().close();
    drop(engine);
    // Until that is done, whatever happens.
    let engine = open(dir, OnUnreadable::Refuse).unwrap();
    let sources = wait(engine.sources()).unwrap();
    assert!(sources[0].is_salvaged);
    engine.has_read_index(&sources[0]).unwrap();
    let roots = place_all(&engine);
    engine.forests().close();
    drop(engine);
    let engine = open(dir, OnUnreadable::Refuse).unwrap();
    assert!(!wait(engine.sources()).unwrap()[0].is_salvaged);
    drop(engine);
    let kept = dir.join("UNREADABLE-1-news-*");
    let names = std::fs::read_dir(dir).unwrap();
    let names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let is_kept = names.iter().any(|name| name.starts_with("UNREADABLE-1-"));
    assert!(is_kept, "{kept:?}: {names:?}");
    assert_eq!(inspect(dir, 3, &|_, _| ()).unwrap().len(), 1);
    roots
}

/// Documents that got the same root.
pub(super) fn same(before: &[String], after: &[String]) -> usize {
    before.iter().zip(after).filter(|(a, b)| a == b).count()
}

#[test]
fn one_change_of_each_kind_that_does_not_read_costs_its_batch_alone() {
    let whole = Dir::new("journal");
    let engine = open(&whole.0, OnUnreadable::Refuse).unwrap();
    let roots = place_all(&engine);
    engine.forests().close();
    drop(engine);
    let kinds = [
        (1u8, "begin"),
        (2, "root"),
        (3, "leaf"),
        (6, "count"),
        (15, "pending lesson"),
        (16, "trees that taught"),
        (10, "founder tokens"),
    ];
    for (kind, name) in kinds {
        let copy = Dir::new(&format!("journal-{kind}"));
        let (mut seen, mut damaged) = (0, false);
        rewrite(&whole.0, &copy.0, |section, batch| {
            let of_kind = begins(batch).into_iter().find(|&at| batch[at] == kind);
            let Some(at) = of_kind.filter(|_| section.is_none()) else {
                return;
            };
            seen += 1;
            // In the middle, where there are several.
            if !damaged && (seen == 3 || kind == 1) {
                batch[at] = 200;
                damaged = true;
            }
        });
        assert!(damaged, "{name}: {seen}");
        let after = salvaged(&copy.0, "200 (unknown");
        let other = roots.len() - same(&roots, &after);
        assert!(other as u64 <= VERSIONS, "{name}: {other} got other roots");
    }
}

/// One change of each of the other kinds, as the journal has it.
fn rare_changes() -> Vec<(&'static str, Vec<u8>)> {
    let root = |number| Root(Fingerprint(number));
    let [merge, taken_back] = [1, 2].map(|number| OverrideChange::Add {
        number,
        correction: (number == 1).then(|| Override::Merge { winner: root(1), losers: vec![root(2)] }),
    });
    let restamp =
        OverrideChange::Restamp { number: 1, restamp: Some(Restamp { roots: vec![root(1)], by: ResolvedBy::Root }) };
    let forget = OverrideChange::Remove { numbers: vec![7, 8] };
    let fingerprint = Fingerprint(77);
    let trees = [
        ("use", Change::Use { fingerprint }),
        ("refresh", Change::Refresh { root: root(77) }),
        ("withdrawal", Change::Withdraw { fingerprint }),
        ("eviction", Change::Evict { floor: Tick(0) }),
    ];
    let trees = trees.map(|(name, change)| (name, StateChange::<Founder>::Tree(change)));
    let words = [("override", merge), ("override", taken_back), ("restamp", restamp), ("forgotten overrides", forget)];
    let words = words.map(|(name, change)| (name, StateChange::Overrides(change)));
    // What founders of earlier versions taught, and what is learned at once.
    let lesson = Lesson { founders: 1, sentences: vec![1, 2], words: vec![3] };
    let changes = trees.into_iter().chain(words).chain([("lesson", StateChange::Learn(lesson))]);
    let bytes = |change| StateChange::batch(&[change]).unwrap();
    changes.map(|(name, change)| (name, bytes(change))).collect()
}

#[test]
fn a_change_of_any_other_kind_that_ends_too_early_costs_nothing_else() {
    let whole = Dir::new("rare");
    let engine = open(&whole.0, OnUnreadable::Refuse).unwrap();
    let roots = place_all(&engine);
    engine.forests().close();
    drop(engine);
    for (number, (name, change)) in rare_changes().into_iter().enumerate() {
        let copy = Dir::new(&format!("rare-{number}"));
        let mut batches = 0;
        rewrite(&whole.0, &copy.0, |section, batch| {
            batches += u64::from(section.is_none());
            // In the middle of the journal, at the end of its batch.
            if batches == STORIES && section.is_none() {
                batch.extend(&change[..change.len() - 1]);
            }
        });
        assert!(batches > STORIES);
        let after = salvaged(&copy.0, name);
        assert_eq!(after, roots, "{name}");
    }
}

#[test]
fn a_section_of_a_snapshot_that_ends_too_early_costs_its_end_alone() {
    let whole = Dir::new("snapshot");
    let routes = [route(json!({"method": "verified", "k": 0, "window": "none"}))];
    let engine = engine(&routes);
    let roots = place_all(&engine);
    engine.forests().save(&whole.0).unwrap();
    for (section, name) in [(2u8, "trees"), (3, "nodes"), (4, "learned"), (5, "times"), (6, "founder tokens")] {
        let copy = Dir::new(&format!("snapshot-{section}"));
        rewrite(&whole.0, &copy.0, |of, bytes| {
            if of == Some(section) {
                bytes.pop();
            }
        });
        let after = salvaged(&copy.0, name);
        let other = roots.len() - same(&roots, &after);
        assert!(other as u64 <= VERSIONS, "{name}: {other} got other roots");
    }
}

#[test]
fn bytes_in_the_middle_of_a_journal_cost_their_batch_alone() {
    let dir = Dir::new("bytes");
    let engine = open(&dir.0, OnUnreadable::Refuse).unwrap();
    let roots = place_all(&engine);
    engine.forests().close();
    drop(engine);
    let names = std::fs::read_dir(&dir.0).unwrap();
    let forest = names.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    // One batch is synced behind another, which vouches for it.
    let engine = open(&dir.0, OnUnreadable::Refuse).unwrap();
    let (_, placed) = bulk_of_writer(&engine, &index("z", &json!({"title": OTHER, "content": LONG})), 2_000);
    let accepted = answered(json!([{"index": {"status": 201}}]));
    wait(engine.settle(placed, accepted, Millis(2_000))).unwrap();
    engine.forests().close();
    drop(engine);
    let journal = forest.join("journal-0000000000000001");
    let mut bytes = std::fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&journal, &bytes).unwrap();
    let after = salvaged(&dir.0, "does not read");
    let other = roots.len() - same(&roots, &after);
    assert!(other as u64 <= VERSIONS, "{other} got other roots");
}

/// The old directory has its new name, and the new one has not: nothing is begun anew in its place.
#[test]
fn a_salvage_that_was_killed_between_its_renames_is_finished() {
    let dir = Dir::new("renames");
    let engine = open(&dir.0, OnUnreadable::Refuse).unwrap();
    let roots = place_all(&engine);
    let known = nodes(&engine);
    engine.forests().close();
    drop(engine);
    let names = std::fs::read_dir(&dir.0).unwrap();
    let mut paths = names.map(|entry| entry.unwrap().path());
    let forest = paths.find(|path| path.is_dir()).unwrap();
    let name = forest.file_name().unwrap().to_str().unwrap();
    let aside = dir.0.join(format!("SALVAGED-{name}"));
    std::fs::create_dir(&aside).unwrap();
    std::fs::rename(&forest, aside.join(name)).unwrap();
    let engine = open(&dir.0, OnUnreadable::Refuse).unwrap();
    assert_eq!(nodes(&engine), known);
    assert_eq!(place_all(&engine), roots);
    engine.forests().close();
}
