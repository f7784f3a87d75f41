//! What Redis does with single keys.

use std::collections::HashSet;
use std::sync::Barrier;

use futures_executor::block_on;
use spinney::fingerprint::Fingerprint;
use spinney::forest::shared::keys::{
    Command, FoundingToken, Key, KeyKind, KeyOp, Lifetime, PinNonce, RedisClient, RedisReply, ScanPosition, SyncEntry,
    SyncPosition,
};
use spinney::method::{TallyEntry, TreeTally};
use spinney::text_fields::{FieldRecord, RoutedFields, TextFields};
use spinney::time::Millis;

use super::store;
use crate::common::redis::Redis;
use crate::common::wait_until;

#[test]
fn single_keys_are_changed_as_the_protocol_needs_it() {
    for redis in [Redis::start(), Redis::cluster(3)] {
        let store = store(&redis);
        let run = |key: u64, what: KeyOp| {
            let key = Key { forest: 1, fingerprint: Fingerprint(key), kind: KeyKind::Node };
            let replies = block_on(store.run(vec![Command { key, what }])).unwrap();
            replies.into_iter().next().unwrap()
        };
        let life = Lifetime::Endless;
        let claim = |value: &[u8]| KeyOp::Claim { value: value.to_vec(), life };
        let swap = |before: &[u8], value: &[u8], or_nothing| KeyOp::Swap {
            before: before.to_vec(),
            or_nothing,
            value: value.to_vec(),
            life: Lifetime::For(std::time::Duration::from_secs(60)),
        };
        assert_eq!(run(1, KeyOp::Get), RedisReply::Nothing);
        assert_eq!(run(1, claim(b"a\0\r\n")), RedisReply::Nothing);
        assert_eq!(run(1, claim(b"b")), RedisReply::Bytes(b"a\0\r\n".to_vec()));
        assert_eq!(run(1, swap(b"b", b"c", true)), RedisReply::Number(0));
        assert_eq!(run(1, swap(b"a\0\r\n", b"c", false)), RedisReply::Number(1));
        assert_eq!(run(1, swap(b"a\0\r\n", b"c", false)), RedisReply::Number(1), "again");
        assert_eq!(run(2, swap(b"x", b"y", false)), RedisReply::Number(0));
        assert_eq!(run(2, swap(b"x", b"y", true)), RedisReply::Number(1));
        let remove = |value: &[u8]| KeyOp::Remove { value: value.to_vec() };
        assert_eq!(run(1, remove(b"a")), RedisReply::Number(0));
        assert_eq!(run(1, remove(b"c")), RedisReply::Number(1));
        assert_eq!(run(1, KeyOp::Get), RedisReply::Nothing);

        // A confirmed root: | 1 | token 3 | added 6 | step, uses, nonce, children, before | proof |
        let token = FoundingToken(0x0A0B0C);
        let root = |state: u8, numbers: [u16; 5], rest: &[u8]| {
            let mut bytes = vec![state, 0x0A, 0x0B, 0x0C, 0, 0, 0, 0, 0, 9];
            bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
            bytes.extend(rest);
            bytes
        };
        let pin_of = |number, is_sent_again, token, step, uses| KeyOp::Pin {
            token,
            uses,
            children: 2,
            nonce: PinNonce { number, is_sent_again },
            step,
            life: Lifetime::For(std::time::Duration::from_secs(60)),
        };
        let pin = |token, step, uses| pin_of(9, false, token, step, uses);
        let get = |key| match run(key, KeyOp::Get) {
            RedisReply::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        };
        run(3, claim(&root(0, [70, 1, 0, 5, 1], b"proof")));
        assert_eq!(run(3, pin(token, 70, 1)), RedisReply::Nothing, "not confirmed");
        run(4, claim(&root(1, [70, 1, 65_535, 5, 1], b"proof")));
        assert_eq!(run(4, pin(FoundingToken(7), 70, 1)), RedisReply::Nothing, "of another token");
        assert_eq!(run(4, pin(token, 70, 1)), RedisReply::Number(1));
        assert_eq!(get(4), root(1, [70, 2, 9, 7, 1], b"proof"));
        // In the next window the children are those of the one before; then they are forgotten.
        assert_eq!(run(4, pin(token, 130, 3)), RedisReply::Number(1));
        assert_eq!(get(4), root(1, [130, 5, 9, 2, 7], b"proof"));
        assert_eq!(run(4, pin(token, 300, 1)), RedisReply::Number(1));
        assert_eq!(get(4), root(1, [300, 6, 9, 2, 0], b"proof"));
        // A late one changes no time.
        assert_eq!(run(4, pin(token, 299, 1)), RedisReply::Number(1));
        assert_eq!(get(4), root(1, [300, 7, 9, 4, 0], b"proof"));
        // One that is sent again counts once, unless another one came between.
        assert_eq!(run(4, pin_of(9, true, token, 310, 1)), RedisReply::Number(1));
        assert_eq!(get(4), root(1, [300, 7, 9, 4, 0], b"proof"));
        assert_eq!(run(4, pin_of(65_535, true, token, 300, 1)), RedisReply::Number(1));
        assert_eq!(get(4), root(1, [300, 8, 65_535, 6, 0], b"proof"));
        assert_eq!(run(4, pin_of(9, true, token, 300, 1)), RedisReply::Number(1));
        assert_eq!(get(4), root(1, [300, 9, 9, 8, 0], b"proof"));

        let mut tally = TreeTally::default();
        for (title, sign) in [(5, 0), (6, 1), (7, 2)] {
            tally.add(TallyEntry { title: Some(title), sign });
        }
        let count = |tally| KeyOp::Count { token, tally };
        assert_eq!(run(4, count(tally)), RedisReply::Nothing);
        let counted = get(4);
        assert_eq!((counted[0], counted.len()), (2, 25 + 17));
        assert_eq!(counted[20..24], [4, 0, 0, 0], "the founder counts");
        assert_eq!((counted[32], counted[33..37].to_vec()), (3, vec![7, 0, 0, 0]));
        assert_eq!(counted[37..], *b"proof");
        run(4, count(tally));
        let counted = get(4);
        assert_eq!((counted[20], counted[32]), (7, 3), "the last sign was the same title");

        let release = |uses| KeyOp::Release { token, uses };
        assert_eq!(run(4, release(8)), RedisReply::Number(0));
        assert_eq!(run(4, release(1)), RedisReply::Number(-1));
        assert_eq!(run(4, release(1)), RedisReply::Nothing);
        assert_eq!(run(4, KeyOp::Get), RedisReply::Nothing);

        // What people have said: replaced by whoever has seen it, and sent to whoever has not.
        let (one, other) = ([b'\r'; 16], [0; 16]);
        let value = |head: [u8; 16]| [&head[..], b"words"].concat();
        let turn = |before, head| KeyOp::Turn { before, value: value(head) };
        let since = |head| KeyOp::Since { head };
        assert_eq!(run(5, since(other)), RedisReply::Bytes(Vec::new()));
        assert_eq!(run(5, turn(Some(other), one)), RedisReply::Number(0));
        assert_eq!(run(5, turn(None, one)), RedisReply::Number(1));
        assert_eq!(run(5, turn(None, one)), RedisReply::Number(1), "again");
        assert_eq!(run(5, turn(None, other)), RedisReply::Number(0));
        assert_eq!(run(5, since(one)), RedisReply::Nothing);
        assert_eq!(run(5, since(other)), RedisReply::Bytes(value(one)));
        assert_eq!(run(5, turn(Some(one), other)), RedisReply::Number(1));
        assert_eq!(get(5), value(other));
        // Who is there, and what all of them obey.
        let tell = |process, acknowledged, life| KeyOp::Acknowledge { process, acknowledged, life };
        let told = |text: &str| RedisReply::Bytes(text.as_bytes().to_vec());
        assert_eq!(run(6, tell(u64::MAX, 1 << 40, 1)), told("1 1099511627776"));
        wait_until("the one that told nothing any more is gone", || run(6, tell(7, 3, 60_000)) == told("1 3"));
        assert_eq!(run(6, tell(8, 1, 60_000)), told("0 1"));
        assert_eq!(run(6, tell(7, 4, 60_000)), told("1 1"));
        assert_eq!(run(6, tell(8, 9, 60_000)), told("0 4"));

        let lesson = |bytes: &[u8], most| {
            let bytes = bytes.to_vec();
            let life = Some(Millis(60_000));
            Some(SyncEntry { bytes, most, life })
        };
        let hear = |lesson, from| block_on(store.sync_entries(3, lesson, from)).unwrap();
        let none = SyncPosition::default();
        assert_eq!(hear(None, none), (vec![], true));
        let (first, is_all) = hear(lesson(b"a\0\r\n", 100), none);
        assert_eq!((first.len(), first[0].1.as_slice(), is_all), (1, &b"a\0\r\n"[..], true));
        // The entry that was read last comes first, without its bytes.
        let (two, _) = hear(lesson(b"b", 100), first[0].0);
        assert_eq!((two.len(), &two[0], two[1].1.as_slice()), (2, &(first[0].0, vec![]), &b"b"[..]));
        let second = two[1..].to_vec();
        assert_eq!(hear(None, none).0, [first, second.clone()].concat());
        assert_eq!(hear(None, second[0].0), (vec![(second[0].0, vec![])], true));
        assert_eq!(block_on(store.sync_entries(4, None, none)).unwrap(), (vec![], true));
        // The oldest go, in lumps; what is too much for one answer comes in several.
        let lump = vec![7; 4_000];
        for _ in 0..300 {
            hear(lesson(&lump, 280), second[0].0);
        }
        let (heard, is_all) = hear(None, none);
        assert!(!is_all && heard.len() == 256 && heard[0].1 == lump);
        let (rest, is_all) = hear(None, heard[255].0);
        assert_eq!(rest[0], (heard[255].0, vec![]));
        assert!(is_all && rest[1..].len() < 45, "{}", rest.len());

        // All keys of a forest, and of no other, whatever its number means in a pattern.
        for forest in [b'*', b'?', b'[', b'\\', 7] {
            let commands = (0..300).map(|n| Command {
                key: Key {
                    forest,
                    fingerprint: Fingerprint(n),
                    kind: if n % 3 == 0 { KeyKind::FounderTokens } else { KeyKind::Node },
                },
                what: claim(b"x"),
            });
            block_on(store.run(commands.collect())).unwrap();
        }
        for forest in [b'*', b'?', b'[', b'\\', 7, 8] {
            let (mut found, mut place) = (HashSet::new(), Some(ScanPosition::default()));
            while let Some(at) = place {
                let (keys, next) = block_on(store.keys(forest, at)).unwrap();
                assert!(keys.iter().all(|key| key.forest == forest));
                found.extend(keys);
                place = next;
            }
            assert_eq!(found.len(), if forest == 8 { 0 } else { 300 });
        }

        let enroll = |name: &str, of: &str| block_on(store.enroll(name, of)).unwrap();
        let news = enroll("news", "k=0").unwrap();
        assert_eq!(enroll("news", "k=0"), Ok(news));
        let wires = enroll("wires", "k=0").unwrap();
        assert_ne!(wires, news);
        let forests = block_on(store.forests()).unwrap();
        let expected = [("news", news), ("wires", wires)];
        assert_eq!(forests, expected.map(|(name, n)| (name.into(), n, "k=0".into())));
        let other = enroll("news", "k=0 method=sentences:3").unwrap_err();
        assert!(other.contains("(k=0)"), "{other}");

        // Of an earlier version, which it stays until it is filled anew.
        let older = enroll("older", "k=0 fingerprints=1 window=0ms").unwrap();
        let current = "k=0 fingerprints=2 window=0ms";
        let of = || block_on(store.forests()).unwrap().into_iter().find(|(name, ..)| name == "older").unwrap().2;
        assert_eq!(enroll("older", current), Ok(older));
        assert_eq!(of(), "k=0 fingerprints=1 window=0ms");
        assert!(enroll("older", "k=1 fingerprints=2 window=0ms").is_err());
        block_on(store.declare("older", current, &FieldRecord::default())).unwrap();
        assert_eq!((of().as_str(), enroll("older", current)), (current, Ok(older)));
        assert!(enroll("older", "k=0 fingerprints=1 window=0ms").is_err());
    }
}

/// A bucket takes so many names and no more, and what somebody else has put in its place keeps nobody from entering
/// one.
#[test]
fn names_are_entered_whatever_stood_there() {
    for redis in [Redis::start(), Redis::cluster(3)] {
        let store = store(&redis);
        let key = Key { forest: 1, fingerprint: Fingerprint(1), kind: KeyKind::Bucket };
        let run = |commands: Vec<KeyOp>| {
            let commands = commands.into_iter().map(|what| Command { key, what });
            block_on(store.run(commands.collect())).unwrap()
        };
        let enter = |name| KeyOp::Enter { fingerprint: Fingerprint(name), step: 7, life: Lifetime::Endless };
        let claim = |value: &[u8]| KeyOp::Claim { value: value.to_vec(), life: Lifetime::Endless };
        let entry = |name: u64| [&name.to_be_bytes()[..], &[7]].concat();
        for (there, left) in
            [(vec![1], vec![]), (vec![200; 8], vec![]), (vec![7; 9], vec![7; 9]), (vec![7; 17], vec![7; 9])]
        {
            run(vec![claim(&there)]);
            let names = RedisReply::Number(left.len() as i64 / 9 + 1);
            assert_eq!(run(vec![enter(5)]), [names], "{there:?}");
            let value = [left, entry(5)].concat();
            assert_eq!(run(vec![KeyOp::Get]), [RedisReply::Bytes(value.clone())]);
            run(vec![KeyOp::Remove { value }]);
        }
        let most = 1_024;
        for (name, expected) in (1..).zip((1..=most).chain([most, most])) {
            assert_eq!(run(vec![enter(name)]), [RedisReply::Number(expected)]);
        }
        let kept = (3..=1_026).flat_map(entry).collect();
        assert_eq!(run(vec![KeyOp::Get]), [RedisReply::Bytes(kept)]);
    }
}

/// Or another forest might get the number of one that is used, or one of other settings its name.
#[test]
fn a_redis_that_has_forgotten_its_forests_is_told_them_again() {
    for mut redis in [Redis::start(), Redis::cluster(3)] {
        let (first, other) = (store(&redis), store(&redis));
        let enroll = |store: &dyn RedisClient, identity| {
            let enrolled = block_on(store.enroll("news", identity));
            enrolled.unwrap()
        };
        let number = enroll(&*first, "k=0").unwrap();
        assert_eq!(enroll(&*other, "k=0"), Ok(number));
        let read = |store: &dyn RedisClient| {
            let key = |n: u64| Key { forest: number, fingerprint: Fingerprint(n << 40), kind: KeyKind::Node };
            // On every node.
            let commands = (0..100).map(|n| Command { key: key(n), what: KeyOp::Get });
            block_on(store.run(commands.collect())).map(|replies| replies.len())
        };
        let is_back = |store: &dyn RedisClient| {
            wait_until("it has seen that Redis is back", || store.away().is_none());
        };
        read(&*first).unwrap();

        redis.restart_empty();
        let _ = read(&*first);
        is_back(&*first);
        assert_eq!(read(&*first), Ok(100));
        let known = block_on(first.forests()).unwrap();
        assert_eq!(known, [("news".to_owned(), number, "k=0".to_owned())]);

        // Somebody else was faster, with other settings.
        redis.restart_empty();
        let late = store(&redis);
        assert!(enroll(&*late, "k=1").is_ok());
        wait_until("it is refused", || {
            let refused = read(&*first).err();
            refused.is_some_and(|failed| failed.why.reason.contains("knows news as another one since (k=1)"))
        });
        let away = first.away().expect("it stays so");
        assert!(away.reason.contains("start this process again"), "{}", away.reason);
        assert_eq!(read(&*late), Ok(100));
    }
}

/// Each sees what the others have recorded: no pattern is lost, and who is refused has recorded nothing.
#[test]
fn processes_that_record_their_fields_at_the_same_moment_agree() {
    const PROCESSES: usize = 8;
    for redis in [Redis::start(), Redis::cluster(3)] {
        let begin = Barrier::new(PROCESSES);
        let agree = |process: usize| {
            let mut fields = RoutedFields::default();
            let text = |name: String| Some(TextFields::new(vec![name], None, None));
            fields.add(&format!("own-{process}"), text("content".into()));
            fields.add("common", text(format!("field-{}", process % 2)));
            let store = store(&redis);
            block_on(store.enroll("news", "k=0")).unwrap().unwrap();
            begin.wait();
            block_on(store.agree_on_fields("news", &fields)).unwrap()
        };
        let agreed: Vec<Result<(), String>> = std::thread::scope(|scope| {
            let agree = &agree;
            let all: Vec<_> = (0..PROCESSES).map(|process| scope.spawn(move || agree(process))).collect();
            all.into_iter().map(|process| process.join().unwrap()).collect()
        });
        let first = usize::from(agreed[0].is_err());
        let record = block_on(store(&redis).fields("news")).unwrap().encode();
        assert!(record.contains(&format!("common text_field=field-{first}\n")), "{record}");
        for (process, agreed) in agreed.iter().enumerate() {
            assert_eq!(agreed.is_ok(), process % 2 == first, "{process}: {agreed:?}");
            assert_eq!(record.contains(&format!("own-{process} ")), agreed.is_ok(), "{process}: {record}");
        }
    }
}
