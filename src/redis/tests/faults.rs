//! What other people do to a Redis that is in use: it is emptied, given values of other types, told to drop keys.

use std::sync::Arc;

use futures_executor::block_on;

use super::servers::Redis;
use super::wait_until;
use crate::fingerprint::{Distance, Fingerprint};
use crate::forest::Root;
use crate::forest::document::{DocumentTime, ForestDocument};
use crate::forest::local::Executor;
use crate::forest::port::{Batch, ForestPort, Unavailable};
use crate::forest::shared::keys::{
    Command, Evictions, Extent, FoundingToken, Key, KeyKind, KeyOp, Lifetime, PinNonce, RedisClient, RedisReply,
    ScanPosition, SyncEntry, SyncPosition, proposed_number,
};
use crate::forest::shared::{ForestSetup, SharedDistance, SharedForest, SharedSettings};
use crate::method::{Features, Strict, StrictFeatures, TreeTally};
use crate::redis::{Address, TcpRedis};
use crate::time::Millis;

fn store(redis: &Redis) -> TcpRedis {
    TcpRedis::new(Address::parse(&redis.url()).unwrap(), None).unwrap()
}

fn enroll(store: &TcpRedis, name: &str, identity: &str) -> u8 {
    block_on(store.enroll(name, identity)).unwrap().unwrap()
}

/// A Redis, and the number of a forest that is registered there.
fn first(redis: &Redis) -> (TcpRedis, u8) {
    let store = store(redis);
    let number = enroll(&store, "first", "k=0");
    (store, number)
}

fn node(forest: u8, fingerprint: u64, what: KeyOp) -> Command {
    Command { key: Key { forest, fingerprint: Fingerprint(fingerprint), kind: KeyKind::Node }, what }
}

/// Another name whose forest gets the number of the first, where it comes first.
fn namesake(name: &str) -> String {
    let mut names = (0..10_000).map(|n| format!("other-{n}"));
    names.find(|other| proposed_number(other) == proposed_number(name)).unwrap()
}

fn each_kind(test: impl Fn(&Redis)) {
    test(&Redis::start());
    test(&Redis::cluster(3));
}

#[test]
fn a_forest_of_an_emptied_redis_takes_nothing_from_one_that_got_its_number() {
    each_kind(|redis| {
        let (first, number) = first(redis);
        let get = || block_on(first.run(vec![node(number, 7, KeyOp::Get)]));
        assert_eq!(get(), Ok(vec![RedisReply::Nothing]));
        redis.command_all("FLUSHALL");
        // Both go on over the connections that they have.
        let second = store(redis);
        assert_eq!(enroll(&second, &namesake("first"), "k=0"), number);
        let put = KeyOp::Put { value: vec![1], life: Lifetime::Endless };
        block_on(second.run(vec![node(number, 7, put)])).unwrap();
        let refused = get().expect_err("a node of another forest was read");
        assert!(refused.why.reason.contains("has forgotten its forests"), "{refused}");
        assert!(first.away().is_some() && second.away().is_none());
        assert_eq!(block_on(second.run(vec![node(number, 7, KeyOp::Get)])), Ok(vec![RedisReply::Bytes(vec![1])]));
    });
}

#[test]
fn lessons_of_an_emptied_redis_are_not_those_of_another_forest() {
    let redis = Redis::start();
    let (first, number) = first(&redis);
    assert!(block_on(first.sync_entries(number, None, SyncPosition(0, 0))).is_ok());
    redis.command_all("FLUSHALL");
    let second = store(&redis);
    assert_eq!(enroll(&second, &namesake("first"), "k=0"), number);
    let lesson = SyncEntry { bytes: vec![1], most: 10, life: None };
    block_on(second.sync_entries(number, Some(lesson), SyncPosition(0, 0))).unwrap();
    let refused = block_on(first.sync_entries(number, None, SyncPosition(0, 0)));
    assert!(refused.is_err(), "{refused:?}");
}

/// A process has to know the log that it reads from another one that was begun since.
#[test]
fn a_log_that_was_lost_is_another_one() {
    each_kind(|redis| {
        let (store, number) = first(redis);
        let lesson = |most| Some(SyncEntry { bytes: vec![7], most, life: None });
        let sync = |lesson, from| block_on(store.sync_entries(number, lesson, from)).unwrap().0;
        let first = sync(lesson(1_000), SyncPosition::default());
        let from = first[0].0;
        assert_eq!(first, [(from, vec![7])]);
        assert_eq!(sync(None, from), [(from, vec![])], "it is known");
        // What has made room was in this log.
        for _ in 0..300 {
            sync(lesson(1), from);
        }
        let later = sync(None, from);
        assert!(later.len() < 300 && later[0] == (from, vec![]), "{later:?}");
        assert!(sync(None, SyncPosition::default())[0].0 > from, "it is gone");
        for lose in ["FLUSHALL", "DEL"] {
            match lose {
                "FLUSHALL" => redis.command_all(lose),
                _ => block_on(store.remove_sync_entries(number)).unwrap(),
            }
            let found = sync(lesson(1_000), from);
            assert!(found.iter().all(|(at, bytes)| *at != from && bytes == &[7]), "{lose}: {found:?}");
        }
    });
}

#[test]
fn a_name_that_was_begun_with_other_settings_is_not_gone_on_with() {
    let redis = Redis::start();
    let (first, number) = first(&redis);
    block_on(first.run(vec![node(number, 7, KeyOp::Get)])).unwrap();
    redis.command_all("FLUSHALL");
    assert_eq!(enroll(&store(&redis), "first", "k=3"), number);
    assert!(block_on(first.run(vec![node(number, 7, KeyOp::Get)])).is_err());
}

#[test]
fn an_emptied_redis_is_registered_at_again() {
    each_kind(|redis| {
        let (first, number) = first(redis);
        let get = || block_on(first.run(vec![node(number, 7, KeyOp::Get)]));
        get().unwrap();
        redis.command_all("FLUSHALL");
        assert_eq!(get(), Ok(vec![RedisReply::Nothing]));
        let forests = block_on(first.forests()).unwrap();
        assert_eq!(forests, [("first".to_owned(), number, "k=0".to_owned())]);
        assert_ne!(enroll(&store(redis), &namesake("first"), "k=0"), number);
        assert_eq!(get(), Ok(vec![RedisReply::Nothing]));
    });
}

/// A node's key, as an inline command takes it.
fn in_text(number: u8, fingerprint: u64) -> String {
    in_text_of(node(number, fingerprint, KeyOp::Get).key)
}

fn in_text_of(key: Key) -> String {
    let (bytes, len) = key.bytes();
    let hex: String = bytes[..len].iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("\"{hex}\"")
}

/// What other programs may have put somewhere: values of every type.
const OTHERS: [&str; 5] = ["RPUSH {} other", "SADD {} other", "HSET {} a b", "ZADD {} 1 other", "XADD {} * a b"];

#[test]
fn a_key_of_another_type_is_the_error_of_that_key() {
    let redis = Redis::start();
    let store = store(&redis);
    let number = enroll(&store, "first", "k=0");
    let (value, life, token) = (|| vec![2, 3], Lifetime::Endless, FoundingToken(7));
    let claim = || KeyOp::Claim { value: value(), life };
    let all = [
        claim(),
        KeyOp::Swap { before: vec![9], or_nothing: true, value: value(), life },
        KeyOp::Confirm { token, value: value(), life },
        KeyOp::Remove { value: value() },
        KeyOp::Pin { token, uses: 1, children: 1, nonce: PinNonce::after(0, 0), step: 1, life },
        KeyOp::Hold { token, uses: 1, children: 1, nonce: PinNonce::after(0, 0) },
        KeyOp::Arrive { token, step: 1, life },
        KeyOp::Touch { value: value(), life },
        KeyOp::RemoveLeaf { root: Fingerprint(1), token },
        KeyOp::Enter { fingerprint: Fingerprint(1), step: 1, life },
        KeyOp::Advance { to: Millis(1) },
        KeyOp::Release { token, uses: 1 },
        KeyOp::Since { head: [1; 16] },
        KeyOp::Turn { before: None, value: vec![1; 16] },
        KeyOp::Acknowledge { process: 1, acknowledged: 1, life: 1_000 },
        KeyOp::Count { token, tally: TreeTally::default() },
        // Last: from now on it is not read together with others, where its type does not show.
        KeyOp::Get,
    ];
    for (at, other) in OTHERS.into_iter().enumerate() {
        let at = at as u64;
        let added = redis.command(&other.replace("{}", &in_text(number, at)));
        assert!(!added.contains("-ERR"), "{added}");
        for (n, what) in all.iter().enumerate() {
            let free = 1_000 * (at + 1) + n as u64;
            let replies = block_on(store.run(vec![node(number, at, what.clone()), node(number, free, claim())]));
            let replies = replies.unwrap_or_else(|error| panic!("{what:?}: {error}"));
            assert_eq!(replies, [RedisReply::Unusable, RedisReply::Nothing], "{what:?}: the other key is served");
            assert_eq!(store.away(), None);
        }
        // It is not ours, so it stays. When it has gone the key is used.
        redis.command(&format!("DEL {}", in_text(number, at)));
        for what in [KeyOp::Get, claim()] {
            assert_eq!(block_on(store.run(vec![node(number, at, what)])), Ok(vec![RedisReply::Nothing]));
        }
    }
    redis.command(&format!("SET spinney:lessons:{number} text"));
    let refused = block_on(store.sync_entries(number, None, SyncPosition(0, 0))).unwrap_err();
    assert_eq!((refused.extent, store.away()), (Extent::Key, None));
}

#[test]
fn a_registry_of_another_type_is_an_error_of_all_until_it_has_gone() {
    let redis = Redis::start();
    let store = store(&redis);
    let number = enroll(&store, "first", "k=0");
    redis.command("DEL spinney:forests");
    redis.command("SET spinney:forests text");
    let refused = block_on(store.run(vec![node(number, 7, KeyOp::Get)])).unwrap_err().why;
    assert!(refused.reason.contains("spinney:forests") && refused.reason.contains("delete it"), "{refused}");
    assert!(store.away().is_some());
    redis.command("DEL spinney:forests");
    wait_until("it is used again", || store.away().is_none());
    assert_eq!(block_on(store.forests()).unwrap(), [("first".to_owned(), number, "k=0".to_owned())]);
}

/// Also before a forest is registered: `_ready` depends on it.
#[test]
fn a_store_without_a_usable_registry_is_not_there() {
    let redis = Redis::start();
    let store = store(&redis);
    redis.command("SET spinney:forests text");
    let is_there = || store.handle.block_on(store.shared.link.is_there());
    let refused = is_there().unwrap_err();
    assert!(refused.reason.contains("spinney:forests") && refused.reason.contains("delete it"), "{refused}");
    store.handle.block_on(store.begin()).unwrap();
    assert!(store.away().is_some());
    redis.command("DEL spinney:forests");
    assert_eq!(is_there(), Ok(()));
    wait_until("it is used", || store.away().is_none());
}

#[test]
fn errors_of_a_node_are_errors_of_all() {
    let redis = Redis::start();
    let store = store(&redis);
    let number = enroll(&store, "first", "k=0");
    redis.command("ACL SETUSER default -set");
    let claim = KeyOp::Claim { value: vec![1], life: Lifetime::Endless };
    let refused = block_on(store.run(vec![node(number, 7, claim)])).unwrap_err().why;
    assert_eq!(refused.extent, Extent::All, "{refused}");
}

struct Threads;

impl Executor for Threads {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        std::thread::spawn(job);
    }
}

/// A forest of a process of its own, where near fingerprints are found.
fn forest(redis: &Redis, seed: u64) -> (SharedForest<Strict>, Arc<TcpRedis>) {
    let keys = Arc::new(store(redis));
    let settings = SharedSettings { window: Some(Millis(1 << 40)), max_tree: None, founder_token_bytes: 0 };
    let forest = SharedForest::new(
        ForestSetup { name: "f", identity: "k=3", settings, thresholds: (), learned: () },
        Arc::new(Threads),
        keys.clone(),
        seed << 32,
    );
    (forest.with_distance(SharedDistance::new(Distance(3)).unwrap()), keys)
}

/// Places documents with these fingerprints, each the text with that hash.
fn place(forest: &SharedForest<Strict>, documents: &[(&[u64], u64)]) -> Result<Vec<Root>, Unavailable> {
    let document = |&(fingerprints, whole): &(&[u64], u64)| {
        let fingerprints = fingerprints.iter().copied().map(Fingerprint).collect();
        let features = Features::Strict(StrictFeatures { fingerprints, whole: Fingerprint(whole) });
        let when = DocumentTime::At(Millis(1 << 40));
        ForestDocument { features: Some(features), when, title: None, id: Default::default(), given: None }
    };
    let batch = Batch { documents: documents.iter().map(document).collect(), ..Batch::default() };
    let placements = block_on(forest.place(batch)).map_err(|not_placed| not_placed.reason)?;
    Ok(placements.replies.iter().map(|reply| reply.placed.as_ref().unwrap().root).collect())
}

/// Whatever stands at the keys that a document takes, and in however many of them: it is placed, its copy comes to the
/// same tree, and all others are placed as ever.
#[test]
fn documents_do_without_keys_that_others_have_taken() {
    const OWN: [u64; 3] = [0x1111_2222_3333_4444, 0x5555_6666_7777_8888, 0x9999_aaaa_bbbb_cccc];
    const TEXT: u64 = 0x0123_4567_89ab_cdef;
    const FREE: u64 = 0xfedc_ba98_7654_3210;
    each_kind(|redis| {
        let lengths = [0, 1, 7, 11, 12, 15, 19, 20, 21, 22, 37, 200];
        let texts = lengths.map(|length| format!("SETRANGE {{}} {length} x"));
        let others = OTHERS.into_iter().chain(texts.iter().map(String::as_str));
        for (n, other) in others.enumerate() {
            let all = [OWN[0], OWN[1], OWN[2], TEXT];
            for (at, taken) in [&OWN[..1], &OWN[1..2], &[TEXT], &OWN, &all].into_iter().enumerate() {
                redis.command_all("FLUSHALL");
                let (first, keys) = forest(redis, 1);
                let number = enroll(&keys, "f", "k=3");
                for &taken in taken {
                    redis.command_all(&other.replace("{}", &in_text(number, taken)));
                }
                let documents = [(&OWN[..], TEXT), (&[FREE][..], FREE)];
                let roots = place(&first, &documents).unwrap_or_else(|error| panic!("{other} at {at}: {error}"));
                assert_eq!(roots[1], Root(Fingerprint(FREE)), "{other} at {at}");
                let (second, other_keys) = forest(redis, 2 + n as u64);
                assert_eq!(place(&second, &documents).unwrap(), roots, "{other} at {at}");
                assert_eq!((keys.away(), other_keys.away()), (None, None));
            }
        }
    });
}

#[test]
fn buckets_of_another_type_are_done_without() {
    let redis = Redis::start();
    let (first, keys) = forest(&redis, 1);
    let roots = place(&first, &[(&[7], 7)]).unwrap();
    let number = enroll(&keys, "f", "k=3");
    let (all, _) = block_on(keys.keys(number, ScanPosition::default())).unwrap();
    let buckets: Vec<Key> = all.into_iter().filter(|key| key.kind == KeyKind::Bucket).collect();
    assert_eq!(buckets.len(), 10);
    for bucket in buckets {
        redis.command(&format!("DEL {}", in_text_of(bucket)));
        redis.command(&format!("RPUSH {} other", in_text_of(bucket)));
    }
    let (second, keys) = forest(&redis, 2);
    for _ in 0..2 {
        assert_eq!(place(&second, &[(&[7], 7), (&[!7], !7)]).unwrap(), [roots[0], Root(Fingerprint(!7))]);
    }
    assert_eq!(keys.away(), None);
}

/// Where documents would be placed wrongly without a value, it says which key it is; other forests go on.
#[test]
fn a_forest_without_its_overrides_says_which_key_it_is() {
    let redis = Redis::start();
    for (kind, seed) in [(KeyKind::Overrides, 1), (KeyKind::Acknowledgements, 2)] {
        let (first, keys) = forest(&redis, seed);
        let number = enroll(&keys, "f", "k=3");
        let key = in_text_of(Key { forest: number, fingerprint: Fingerprint(0), kind });
        redis.command(&format!("DEL {key}"));
        redis.command(&format!("RPUSH {key} other"));
        let refused = place(&first, &[(&[7], 7)]).unwrap_err();
        let reason = refused.to_string();
        assert!(matches!(refused, Unavailable::Unsupported { .. }) && reason.contains("delete that key"), "{reason}");
        assert_eq!(keys.away(), None);
        redis.command(&format!("DEL {key}"));
        place(&first, &[(&[7], 7)]).unwrap();
    }
}

#[test]
fn a_redis_that_evicts_keys_is_refused_at_the_start_and_told_of_later() {
    each_kind(|redis| {
        let begin = || block_on(store(redis).begin());
        redis.command_all("CONFIG SET maxmemory-policy allkeys-lru");
        begin().expect("without a limit nothing is evicted");
        redis.command_all("CONFIG SET maxmemory 1gb");
        let refused = begin().unwrap_err().to_string();
        assert!(
            refused.contains("allkeys-lru") && refused.contains("CONFIG SET maxmemory-policy noeviction"),
            "{refused}"
        );
        redis.command_all("CONFIG SET maxmemory-policy noeviction");
        let store = store(redis);
        block_on(store.begin()).unwrap();
        let number = enroll(&store, "first", "k=0");
        let put = |n| node(number, n, KeyOp::Put { value: vec![1; 100], life: Lifetime::Endless });
        block_on(store.run((0..100).map(put).collect())).unwrap();
        assert_eq!(store.evictions(), Evictions { is_on: false, keys: 0 });
        // Somebody configures it anew, and it is connected to anew.
        redis.command_all("CONFIG SET maxmemory-policy allkeys-random");
        let seen = |evicted: fn(Evictions) -> bool| {
            redis.command_all("CLIENT KILL TYPE normal");
            wait_until("it is seen", || {
                let _ = block_on(store.run(vec![node(number, 7, KeyOp::Get)]));
                evicted(store.evictions())
            });
        };
        seen(|evictions| evictions.is_on && evictions.keys == 0);
        redis.command_all("CONFIG SET maxmemory 1");
        for n in 0..100 {
            redis.command_all(&format!("SET {} x", in_text(number, n)));
        }
        redis.command_all("CONFIG SET maxmemory 1gb");
        seen(|evictions| evictions.is_on && evictions.keys > 0);
    });
}

#[test]
fn a_redis_that_is_not_there_is_no_reason_not_to_start() {
    let nowhere = TcpRedis::new(Address::parse("redis://127.0.0.1:1").unwrap(), None).unwrap();
    block_on(nowhere.begin()).unwrap();
    assert!(nowhere.away().is_some());
}
