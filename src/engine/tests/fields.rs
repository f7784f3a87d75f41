//! A forest whose texts were read from other fields than those of the routes now is refused, wherever it is kept; and
//! nothing else is.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::salvage::{Dir, place_all, storage};
use super::*;
use crate::config::OnUnreadable;
use crate::forest::shared::keys::FORESTS;
use crate::progress::ReportProgress;
use crate::text_fields::FieldRecord;

/// A route into the forest `f`.
fn reading(index: &str, text: &str) -> Route {
    route(
        json!({"index": [index], "text_field": [text], "method": "verified", "k": 0, "window": "none", "forest": "f"}),
    )
}

fn content() -> Vec<Route> {
    vec![reading("news-*", "content")]
}

fn body() -> Vec<Route> {
    vec![reading("news-*", "body")]
}

fn start_with(routes: &[Route], dir: &Path, on_unreadable: OnUnreadable) -> Result<Arc<Engine>, EngineError> {
    let storage = storage(dir, on_unreadable);
    Ok(Arc::new(Engine::stored(routes, "cluster_", 2, HashKey::FIXED, Some(&storage))?))
}

fn start(routes: &[Route], dir: &Path) -> Result<Arc<Engine>, EngineError> {
    start_with(routes, dir, OnUnreadable::Refuse)
}

/// A directory with documents, read from `content`.
fn filled(name: &str) -> Dir {
    let dir = Dir::new(name);
    let engine = start(&content(), &dir.0).unwrap();
    place_all(&engine);
    engine.forests().close();
    dir
}

/// A route into the forest `g`.
fn another(k: u32) -> Route {
    route(json!({"index": ["other-*"], "forest": "g", "method": "verified", "k": k}))
}

/// Stores a document in it, so that `k` counts.
fn fill_another(dir: &Dir) {
    let engine = start(&[content().remove(0), another(0)], &dir.0).unwrap();
    assert_eq!(stamped_in("other-1", &engine, None), Ok(()));
    engine.forests().close();
}

fn file(dir: &Path) -> std::path::PathBuf {
    dir.join("f/fields")
}

fn bytes_in(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(dir.join("f")).unwrap().map(|entry| entry.unwrap());
    let read =
        |entry: std::fs::DirEntry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap());
    let mut files: Vec<_> = entries.map(read).collect();
    files.sort_unstable();
    files
}

/// It names both sides and each way out, and has changed nothing.
fn assert_refused(routes: &[Route], dir: &Path) {
    let before = bytes_in(dir);
    for on_unreadable in [OnUnreadable::Refuse, OnUnreadable::Recover] {
        let refused = start_with(routes, dir, on_unreadable).err().unwrap().to_string();
        for part in ["\"f\"", "news-*", "text_field=content title_field=title", "text_field=body title_field=title"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        for way in
            ["with the fields of before", "spinney recover", "empty --data-dir", "--forest", "route of their own"]
        {
            assert!(refused.contains(way), "{way}: {refused}");
        }
        assert!(bytes_in(dir) == before, "nothing is changed");
    }
}

#[test]
fn another_field_is_refused_and_the_one_of_before_is_not() {
    let dir = filled("fields");
    assert_refused(&body(), &dir.0);
    let engine = start(&content(), &dir.0).unwrap();
    assert!(nodes(&engine) > 0);
    drop(engine);
    // With other indices besides, and with the new field for new ones.
    let more = [reading("forum-*", "body"), reading("news-2027", "body"), reading("news-*", "content")];
    drop(start(&more, &dir.0).unwrap());
    assert_refused(&body(), &dir.0);
    // A forest of its own.
    let own = [route(json!({"text_field": ["body"], "forest": "g"}))];
    drop(start(&own, &dir.0).unwrap());
}

/// Texts that are not there do not read otherwise: as after a misspelt field, of which nothing came.
#[test]
fn a_forest_without_texts_takes_any_fields() {
    let dir = Dir::new("fields-empty");
    let engine = start(&body(), &dir.0).unwrap();
    let body_of = index("1", &json!({"content": LONG}));
    let (_, placed) = bulk_of_writer(&engine, &body_of, 1_000);
    wait(engine.settle(placed, answered(json!([{"index": {"status": 201}}])), Millis(1_000))).unwrap();
    engine.forests().close();
    drop(engine);
    let engine = start(&content(), &dir.0).unwrap();
    place_all(&engine);
    engine.forests().close();
    drop(engine);
    assert_refused(&body(), &dir.0);
}

/// One that an earlier version has filled, or begun anew after a downgrade.
#[test]
fn a_directory_without_a_record_gets_one() {
    let dir = filled("fields-older");
    std::fs::remove_file(file(&dir.0)).unwrap();
    drop(start(&content(), &dir.0).unwrap());
    assert_refused(&body(), &dir.0);
}

#[test]
fn a_record_that_does_not_read_begins_anew_where_that_is_asked_for() {
    let dir = filled("fields-broken");
    let whole = std::fs::read(file(&dir.0)).unwrap();
    for broken in [&b""[..], b"spinney fields\n", &whole[..whole.len() - 1]] {
        std::fs::write(file(&dir.0), broken).unwrap();
        let refused = start(&content(), &dir.0).err().unwrap();
        assert!(matches!(refused, EngineError::Store(StoreError::BrokenFields { .. })), "{refused}");
        assert!(refused.to_string().contains("--on-unreadable recover"), "{refused}");
        let engine = start_with(&content(), &dir.0, OnUnreadable::Recover).unwrap();
        assert!(nodes(&engine) > 0);
        drop(engine);
        assert_refused(&body(), &dir.0);
    }
    // What a newer version has written is not broken.
    std::fs::write(file(&dir.0), "spinney fields\nformat = 2\n").unwrap();
    let refused = start_with(&content(), &dir.0, OnUnreadable::Recover).err().unwrap();
    assert!(matches!(refused, EngineError::Store(StoreError::NewerFormat { .. })), "{refused}");
}

/// Whatever stops it: another forest, or its own data.
#[test]
fn a_start_that_fails_records_nothing() {
    let dir = filled("fields-failed");
    fill_another(&dir);
    let before = bytes_in(&dir.0);
    let routes = [content().remove(0), reading("forum-*", "mistaken"), another(1)];
    assert!(start(&routes, &dir.0).is_err());
    assert!(bytes_in(&dir.0) == before);
    let routes = [content().remove(0), reading("forum-*", "body")];
    drop(start(&routes, &dir.0).unwrap());
    let routes = [content().remove(0), reading("forum-*", "mistaken")];
    assert!(start(&routes, &dir.0).is_err());
}

/// A forest takes other settings as long as neither it nor that of its short texts was written to.
#[test]
fn a_forest_that_was_never_written_to_takes_other_settings() {
    let of = |more: Value| {
        let mut all = json!({"index": ["news-*"], "text_field": ["content"], "forest": "f"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        [route(all)]
    };
    let short = of(json!({"method": "short", "k": 3}));
    let others =
        [json!({"method": "verified"}), json!({"method": "longest", "k": 2}), json!({"method": "short", "k": 2})];
    let dir = Dir::new("fields-unwritten");
    for more in others.clone() {
        drop(start(&short, &dir.0).unwrap());
        drop(start(&of(more), &dir.0).unwrap());
    }
    // A short text alone: the forest of the others stays empty.
    let engine = start(&short, &dir.0).unwrap();
    let body = index("1", &json!({"content": "Police close a road in Leeds"}));
    let write = Write::Bulk { index: Some("news-1".into()) };
    wait(engine.parse_and_stamp(body.into(), write, call(1_000))).unwrap();
    engine.forests().close();
    drop(engine);
    let before = bytes_in(&dir.0);
    for more in others {
        let refused = start(&of(more), &dir.0).err().unwrap();
        assert!(matches!(refused, EngineError::Store(StoreError::OtherIdentity { .. })), "{refused}");
        assert!(bytes_in(&dir.0) == before);
    }
    assert!(nodes(&start(&short, &dir.0).unwrap()) > 0);
}

/// Where a part does not read the rest has the fields that it had, also if nothing comes of the start that salvages it.
#[test]
fn what_is_salvaged_keeps_its_fields() {
    let dir = filled("fields-salvaged");
    fill_another(&dir);
    let known = std::fs::read(file(&dir.0)).unwrap();
    // A segment that is missing in the middle.
    std::fs::write(dir.0.join("f/journal-0000000000000fff"), b"").unwrap();
    assert_refused_as_unreadable(&dir.0);
    assert!(start_with(&[content().remove(0), another(1)], &dir.0, OnUnreadable::Recover).is_err());
    assert!(dir.0.join("UNREADABLE-1-f").exists());
    assert_eq!(std::fs::read(file(&dir.0)).unwrap(), known);
    assert_refused(&body(), &dir.0);
    let engine = start(&content(), &dir.0).unwrap();
    assert!(nodes(&engine) > 0);
    engine.forests().close();
}

/// To be salvaged it would have to be changed.
fn assert_refused_as_unreadable(dir: &Path) {
    let before = bytes_in(dir);
    let refused = start_with(&body(), dir, OnUnreadable::Recover).err().unwrap();
    assert!(matches!(refused, EngineError::Store(StoreError::OtherFields { .. })), "{refused}");
    assert!(bytes_in(dir) == before && !dir.join("SALVAGED-f").exists());
}

fn sharing(routes: &[Route], keys: &Arc<dyn RedisClient>) -> Arc<Engine> {
    let engine = Engine::shared(routes, "cluster_", 2, HashKey::FIXED, keys, OnRedisFailure::Refuse);
    Arc::new(engine.unwrap())
}

/// Why a document is refused, if it is. `caller`: of a writer that may be refused, it is not placed yet.
fn stamped_by(engine: &Arc<Engine>, caller: Option<u64>) -> Result<(), String> {
    stamped_in("news-1", engine, caller)
}

fn stamped_in(name: &str, engine: &Arc<Engine>, caller: Option<u64>) -> Result<(), String> {
    let body = index("1", &json!({"title": "Bridge", "content": LONG, "body": LONG}));
    let write = Write::Bulk { index: Some(name.into()) };
    let context = RequestContext { caller, ..call(1_000) };
    let stamped = wait(engine.parse_and_stamp(body.into(), write, context));
    stamped.map(drop).map_err(|error| error.to_string())
}

fn placed_through(engine: &Arc<Engine>) -> Result<(), String> {
    stamped_by(engine, None)
}

#[test]
fn of_two_that_share_a_forest_the_second_one_with_other_fields_is_refused() {
    let keys: Arc<dyn RedisClient> = Arc::new(InMemoryRedis::default());
    let [first, second] = [content(), body()].map(|routes| sharing(&routes, &keys));
    // Neither has asked for anything before its first document is placed.
    assert_eq!(stamped_by(&second, Some(5)), Ok(()));
    assert!(wait(keys.fields("f")).unwrap().is_empty());
    assert_eq!(placed_through(&first), Ok(()));
    for caller in [None, Some(5), None] {
        let refused = stamped_by(&second, caller).unwrap_err();
        for part in ["'f'", "text_field=content", "text_field=body", "spinney recover", "--replace", "--forest"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
    }
    assert_eq!(placed_through(&first), Ok(()));
    // It is told before its first document as well; nothing is recorded by that.
    let check = |engine: &Arc<Engine>| wait(engine.forests().check_settings()).map_err(|error| error.to_string());
    assert!(check(&second).unwrap_err().contains("text_field=body"));
    assert_eq!(check(&first), Ok(()));
    let known = wait(keys.fields("f"));
    let more = [reading("forum-*", "body"), reading("news-*", "content")];
    let more = sharing(&more, &keys);
    assert_eq!(check(&more), Ok(()));
    assert_eq!(wait(keys.fields("f")), known);
    assert_eq!(placed_through(&more), Ok(()));
    assert_eq!(placed_through(&sharing(&content(), &keys)), Ok(()));
}

/// One forest more than Redis takes is told before its first document, as other settings are.
#[test]
fn a_forest_too_many_is_refused() {
    let keys: Arc<dyn RedisClient> = Arc::new(InMemoryRedis::default());
    let check = || wait(sharing(&content(), &keys).forests().check_settings()).map_err(|error| error.to_string());
    for number in 0..FORESTS {
        assert_eq!(check(), Ok(()), "{number} are there");
        wait(keys.enroll(&format!("other-{number}"), "k=0")).unwrap().unwrap();
    }
    assert!(check().unwrap_err().contains("there are 100 forests already"));
    let other = [reading("news-*", "content")];
    assert!(wait(sharing(&other, &keys).forests().check_settings()).is_err());
}

/// The record goes along, whatever fields the command that carries it was given.
#[test]
fn what_is_carried_keeps_its_fields() {
    let (dir, back) = (filled("fields-carried"), Dir::new("fields-back"));
    let keys: Arc<dyn RedisClient> = Arc::new(InMemoryRedis::default());
    let report: Arc<ReportProgress<'static>> = Arc::new(|_| ());
    let storage = storage(&dir.0, OnUnreadable::Refuse);
    let carry = |replace| {
        let local = Engine::for_import(&body(), "cluster_", 2, HashKey::FIXED, &storage).unwrap();
        let there = sharing(&body(), &keys);
        wait(local.forests().import(there.forests(), &["f".to_owned()], replace, &report)).unwrap();
        local.forests().close();
    };
    carry(false);
    assert!(placed_through(&sharing(&body(), &keys)).is_err());
    assert_eq!(placed_through(&sharing(&content(), &keys)), Ok(()));
    let memory = engine(&body());
    wait(memory.forests().export(sharing(&body(), &keys).forests(), &back.0, &report)).unwrap();
    for dir in [&dir, &back] {
        assert_refused(&body(), &dir.0);
        drop(start(&content(), &dir.0).unwrap());
    }
    // What takes its place is something else.
    let recovered = Dir::new("fields-recovered");
    engine(&body()).forests().save(&recovered.0).unwrap();
    let record = std::fs::read_to_string(file(&recovered.0)).unwrap();
    assert!(record.contains("text_field=body"), "{record}");
    std::fs::remove_dir_all(dir.0.join("f")).unwrap();
    engine(&content()).forests().save(&dir.0).unwrap();
    std::fs::remove_file(file(&dir.0)).unwrap();
    assert!(!wait(keys.fields("f")).unwrap().is_empty());
    carry(true);
    assert_eq!(wait(keys.fields("f")).unwrap(), FieldRecord::default(), "of a directory of before");
    assert_eq!(placed_through(&sharing(&body(), &keys)), Ok(()));
}

/// Wherever a transfer is ended, nobody uses the part that has come.
#[test]
fn a_forest_of_which_a_part_is_missing_is_used_by_nobody() {
    let (dir, back) = (filled("fields-part"), Dir::new("fields-part-back"));
    let keys: Arc<dyn RedisClient> = Arc::new(InMemoryRedis::default());
    let storage = storage(&dir.0, OnUnreadable::Refuse);
    let local = Engine::for_import(&content(), "cluster_", 2, HashKey::FIXED, &storage).unwrap();
    let there = sharing(&content(), &keys);
    let reports = Arc::new(AtomicUsize::new(0));
    let report: Arc<ReportProgress<'static>> = {
        let (keys, reports) = (keys.clone(), reports.clone());
        Arc::new(move |_| {
            // It is called by what waits already.
            let fields = std::thread::scope(|scope| scope.spawn(|| wait(keys.fields("f"))).join());
            assert!(fields.unwrap().unwrap().is_unfinished());
            reports.fetch_add(1, Relaxed);
        })
    };
    let import = |replace| wait(local.forests().import(there.forests(), &["f".to_owned()], replace, &report)).map(drop);
    import(false).unwrap();
    assert!(reports.load(Relaxed) > 0);
    assert_eq!(wait(there.forests().check_settings()).map_err(|error| error.to_string()), Ok(()));

    // One that was ended at any moment leaves this.
    let identity = wait(keys.forests()).unwrap().remove(0).2;
    wait(keys.declare("f", &identity, &FieldRecord::unfinished())).unwrap();
    let late = sharing(&content(), &keys);
    let told = wait(late.forests().check_settings()).unwrap_err().to_string();
    for refused in [told, placed_through(&late).unwrap_err(), stamped_by(&late, Some(5)).unwrap_err()] {
        assert!(refused.contains("transfer") && refused.contains("--replace"), "{refused}");
    }
    let any: Arc<ReportProgress<'static>> = Arc::new(|_| ());
    let memory = engine(&content());
    let carried = wait(memory.forests().export(late.forests(), &back.0, &any));
    assert!(matches!(carried, Err(TransferError::Unfinished { .. })), "{carried:?}");
    assert!(matches!(import(false), Err(TransferError::Held { .. })));
    import(true).unwrap();
    assert_eq!(placed_through(&late), Ok(()));
    local.forests().close();
}
