//! Forests that an earlier version has begun, which made other fingerprints of some texts: they open, keep their roots,
//! and say so.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::salvage::{Dir, open, place_all, same, storage};
use super::*;
use crate::config::OnUnreadable;
use crate::engine::{Intake, StoredDocument};
use crate::forest::shared::keys::RedisClient;
use crate::progress::ReportProgress;
use crate::store::{DataDir, Durability, ForestIdentity, Store, StoredRecord};

/// Lines of the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a start logs as warnings.
fn warnings<T>(start: impl FnOnce() -> T) -> (T, Vec<String>) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let started = tracing::subscriber::with_default(subscriber, start);
    let lines = String::from_utf8(log.0.lock().clone()).unwrap();
    (started, lines.lines().filter(|line| line.contains(" WARN ")).map(str::to_owned).collect())
}

/// The forest in `from`, as if it had been begun with these settings.
fn begun_with(settings: &[(&str, &str)], from: &Path, to: &Path) {
    let (old, new) = (DataDir::lock(from).unwrap(), DataDir::lock(to).unwrap());
    let identity = old.forests().unwrap().remove(0);
    let begun = identity.settings().fold(ForestIdentity::new(identity.forest()), |begun, (key, value)| {
        let other = settings.iter().find(|(other, _)| *other == key);
        begun.with(key, other.map_or(value, |(_, value)| value))
    });
    let mut replay = Store::open(&old, &identity, Durability::None).unwrap();
    let mut made = Store::open(&new, &begun, Durability::Batch).unwrap();
    while made.next().unwrap().is_some() {}
    let store = made.into_store().unwrap();
    while let Some(record) = replay.next().unwrap() {
        let StoredRecord::Batch { payload, .. } = record else { panic!("a snapshot") };
        store.append(payload.to_vec());
    }
    store.close().unwrap();
}

/// A directory with documents, and their roots.
fn placed(name: &str) -> (Dir, Vec<String>) {
    let dir = Dir::new(name);
    let engine = open(&dir.0, OnUnreadable::Refuse).unwrap();
    let roots = place_all(&engine);
    engine.forests().close();
    (dir, roots)
}

/// The directory of the forest in use.
fn forest_in(dir: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let is_used = |entry: &std::fs::DirEntry| !entry.file_name().to_str().unwrap().contains("UNREADABLE");
    entries.find(|entry| is_used(entry) && entry.path().join("identity").exists()).unwrap().path()
}

fn identity_in(dir: &Path) -> String {
    std::fs::read_to_string(forest_in(dir).join("identity")).unwrap()
}

fn fingerprints_in(dir: &Path) -> String {
    let identity = identity_in(dir);
    identity.lines().find_map(|line| line.strip_prefix("fingerprints = ")).unwrap().to_owned()
}

#[test]
fn a_forest_of_earlier_fingerprints_opens_keeps_its_roots_and_says_so_at_every_start() {
    let (whole, roots) = placed("older-whole");
    let older = Dir::new("older");
    begun_with(&[("fingerprints", "1")], &whole.0, &older.0);
    let identity = identity_in(&older.0);
    for _ in 0..2 {
        let (engine, warnings) = warnings(|| open(&older.0, OnUnreadable::Refuse).unwrap());
        assert_eq!(place_all(&engine), roots);
        engine.forests().close();
        let [warning] = &*warnings else { panic!("{warnings:?}") };
        let directory = forest_in(&older.0).display().to_string();
        for part in ["forest=\"news-*\"", &*directory, "reads some texts differently", "move", "spinney recover"] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
        // Other files refer to its checksum.
        assert_eq!(identity_in(&older.0), identity);
    }
    let seen = inspect(&older.0, 3, &|_, _| ()).unwrap();
    assert!(seen[0].identity.settings().any(|setting| setting == ("fingerprints", "1")));
    let (_, warnings) = warnings(|| open(&whole.0, OnUnreadable::Refuse).unwrap());
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn a_forest_of_any_other_fingerprints_or_settings_is_refused() {
    let (whole, _) = placed("other-whole");
    let current = fingerprints_in(&whole.0);
    let newer = (current.parse::<u32>().unwrap() + 1).to_string();
    for other in [&*newer, "0", "01", "some"] {
        let dir = Dir::new(&format!("other-{other}"));
        begun_with(&[("fingerprints", other)], &whole.0, &dir.0);
        let error = open(&dir.0, OnUnreadable::Recover).err().unwrap().to_string();
        let told = match other == newer {
            true => format!("with fingerprints of version {newer}"),
            false => format!("fingerprints: stored {other}, configured {current}"),
        };
        assert!(error.contains(&told), "{error}");
    }
    let dir = Dir::new("other-k");
    begun_with(&[("fingerprints", "1"), ("k", "3")], &whole.0, &dir.0);
    let error = open(&dir.0, OnUnreadable::Recover).err().unwrap().to_string();
    assert!(error.contains("(k: stored 3, configured 0)"), "{error}");
}

/// What reads of it is what that version wrote.
#[test]
fn a_salvaged_forest_stays_one_of_its_version() {
    let (whole, roots) = placed("older-salvage-whole");
    let older = Dir::new("older-salvage");
    begun_with(&[("fingerprints", "1")], &whole.0, &older.0);
    let journal = forest_in(&older.0).join("journal-0000000000000001");
    let mut bytes = std::fs::read(&journal).unwrap();
    // A file that is followed by another was synced to its end.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&journal, &bytes).unwrap();
    std::fs::write(forest_in(&older.0).join("journal-0000000000000fff"), b"").unwrap();
    let (engine, warnings) = warnings(|| open(&older.0, OnUnreadable::Recover).unwrap());
    let other = roots.len() - same(&roots, &place_all(&engine));
    assert!(other <= 3, "{other} got other roots");
    engine.forests().close();
    assert!(warnings.iter().any(|warning| warning.contains("reads some texts differently")), "{warnings:?}");
    assert_eq!(fingerprints_in(&older.0), "1");
}

/// The way out that the warning names, as `spinney recover` takes it: in memory, then stored where no folder of the
/// forest is. The root of a text that was read otherwise is none of its fingerprints.
#[test]
fn a_forest_that_is_rebuilt_from_the_index_is_one_of_this_version() {
    let rebuilt = Dir::new("rebuilt");
    let memory = engine(&[route(json!({"method": "verified", "k": 0, "window": "none"}))]);
    let source = wait(memory.sources()).unwrap().remove(0);
    let mut recovering = memory.recover(source, Intake::All, Millis(2_000));
    let root = "00c0ffee00c0ffee";
    let text = json!({"title": "Über die Brücke", "content": LONG});
    let mut stamped = text.clone();
    stamped["cluster_root"] = root.into();
    let stored = StoredDocument {
        index: "news-1".into(),
        id: "1".into(),
        source: stamped.to_string().into(),
        arrival: Some(Millis(1_000)),
    };
    wait(recovering.add(vec![stored])).unwrap();
    assert_eq!(wait(recovering.finish()).unwrap().placed, 1);
    memory.forests().save(&rebuilt.0).unwrap();
    let (engine, warnings) = warnings(|| open(&rebuilt.0, OnUnreadable::Refuse).unwrap());
    assert_eq!(warnings, Vec::<String>::new());
    let (lines, _) = bulk_of_writer(&engine, &index("reprint", &text), 3_000);
    assert_eq!(lines[1]["cluster_root"], root);
    engine.forests().close();
    assert_eq!(fingerprints_in(&rebuilt.0), crate::fingerprint::FingerprintVersion::CURRENT.to_string());
}

/// The one that 0.1.0 has left.
#[test]
fn the_directory_of_a_release_opens_with_its_roots() {
    let release = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrade/0.1.0");
    let dir = Dir::new("release");
    std::fs::create_dir_all(dir.0.join("kept")).unwrap();
    for entry in std::fs::read_dir(release.join("data/kept")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), dir.0.join("kept").join(entry.file_name())).unwrap();
    }
    let routes = [route(json!({
        "index": ["kept-*"], "forest": "kept", "method": "verified", "k": 0, "clock": "field:published"
    }))];
    let storage = storage(&dir.0, OnUnreadable::Refuse);
    let (engine, warnings) =
        warnings(|| Engine::stored(&routes, "cluster_", 2, HashKey::FIXED, Some(&storage)).unwrap());
    let engine = Arc::new(engine);
    let [warning] = &*warnings else { panic!("{warnings:?}") };
    assert!(warning.contains("forest=\"kept\""), "{warning}");
    let documents = std::fs::read_to_string(release.join("documents.ndjson")).unwrap();
    let mut known = 0;
    for (n, line) in documents.lines().enumerate() {
        let mut document: Value = serde_json::from_str(line).unwrap();
        let root = document["cluster_root"].take();
        document.as_object_mut().unwrap().retain(|name, _| !name.starts_with("cluster_"));
        if document["content"].as_str().unwrap_or_default().len() < 100 {
            continue;
        }
        let body = index(&n.to_string(), &document);
        let stamped = stamp(&engine, &body, Some("kept-1"), call(1_000));
        let (lines, _) = written(&body, stamped);
        assert_eq!(lines[1]["cluster_root"], root, "{line}");
        known += 1;
    }
    assert!(known > 30, "{known}");
    engine.forests().close();
}

fn shared(keys: &Arc<dyn RedisClient>) -> Result<Arc<Engine>, EngineError> {
    let routes = [route(json!({"method": "verified", "k": 0, "window": "none"}))];
    let engine = Engine::shared(&routes, "cluster_", 2, HashKey::FIXED, keys, OnRedisFailure::Refuse)?;
    Ok(Arc::new(engine))
}

/// The forest in a store of keys that another version has begun.
fn keys_begun_with(fingerprints: &str) -> (Arc<dyn RedisClient>, String) {
    let made: Arc<dyn RedisClient> = Arc::new(InMemoryRedis::default());
    let engine = shared(&made).unwrap();
    place_all(&engine);
    let identity = wait(made.forests()).unwrap().remove(0).2;
    let (before, after) = identity.split_once("fingerprints=").unwrap();
    let rest = after.split_once(' ').unwrap().1;
    let begun = format!("{before}fingerprints={fingerprints} {rest}");
    let keys: Arc<dyn RedisClient> = Arc::new(InMemoryRedis::default());
    wait(keys.enroll("news-*", &begun)).unwrap().unwrap();
    (keys, begun)
}

#[test]
fn a_shared_forest_of_earlier_fingerprints_is_used_and_says_so() {
    let (keys, begun) = keys_begun_with("1");
    for _ in 0..2 {
        let (enrolled, warnings) = warnings(|| {
            let other = begun.replace("fingerprints=1", "fingerprints=2");
            wait(keys.enroll("news-*", &other)).unwrap()
        });
        enrolled.unwrap();
        let [warning] = &*warnings else { panic!("{warnings:?}") };
        for part in ["forest=\"news-*\"", "reads some texts differently", "spinney recover", "spinney transfer"] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
        place_all(&shared(&keys).unwrap());
        assert_eq!(wait(keys.forests()).unwrap()[0].2, begun, "it stays what it is");
    }
    let (keys, begun) = keys_begun_with("3");
    let other = begun.replace("fingerprints=3", "fingerprints=2");
    let refused = wait(keys.enroll("news-*", &other)).unwrap().unwrap_err();
    assert!(refused.contains("fingerprints=3"), "{refused}");
}

fn fingerprints_of(keys: &Arc<dyn RedisClient>) -> String {
    let identity = wait(keys.forests()).unwrap().remove(0).2;
    let (_, after) = identity.split_once("fingerprints=").unwrap();
    after.split(' ').next().unwrap().to_owned()
}

/// Into a store of keys and back: what it is stays with it, and what takes its place is something else.
#[test]
fn a_forest_that_is_carried_stays_one_of_its_version() {
    let (whole, _) = placed("carried-whole");
    let [older, back] = ["carried", "carried-back"].map(Dir::new);
    begun_with(&[("fingerprints", "1")], &whole.0, &older.0);
    let current = fingerprints_in(&whole.0);
    let keys: Arc<dyn RedisClient> = Arc::new(InMemoryRedis::default());
    let report: Arc<ReportProgress<'static>> = Arc::new(|_| ());
    let import = |dir: &Dir, replace| {
        let (local, there) = (open(&dir.0, OnUnreadable::Refuse).unwrap(), shared(&keys).unwrap());
        let only = ["news-*".to_owned()];
        wait(local.forests().import(there.forests(), &only, replace, &report)).unwrap();
        local.forests().close();
    };
    import(&older, false);
    assert_eq!(fingerprints_of(&keys), "1");
    let memory = engine(&[route(json!({"method": "verified", "k": 0, "window": "none"}))]);
    wait(memory.forests().export(shared(&keys).unwrap().forests(), &back.0, &report)).unwrap();
    assert_eq!(fingerprints_in(&back.0), "1");
    // As after `spinney recover`.
    import(&whole, true);
    assert_eq!(fingerprints_of(&keys), current);
    import(&older, true);
    assert_eq!(fingerprints_of(&keys), "1");
}
