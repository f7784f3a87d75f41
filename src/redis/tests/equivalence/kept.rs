//! Sequences that have shown a difference, each as small as it could be made.

use std::time::Duration;

use super::sequences::{Before, Lesson, Life, Op, Sequence, SlotOf, Step};
use crate::fingerprint::Fingerprint;
use crate::forest::shared::keys::{Key, KeyKind, PinNonce};
use crate::method::TreeTally;

/// A later moment.
const LATER: Life = Life::UntilLater(3_600_000);

pub(super) fn sequences(is_cluster: bool) -> Vec<(&'static str, Sequence)> {
    let mut all = vec![
        ("a value is kept longer than any clock shows", one(vec![put(b"1", Life::For(Duration::MAX))])),
        ("a bucket is kept until the last millisecond", one(vec![enter(1, Life::Until(i64::MAX)); 2])),
        ("a command comes after one whose function is missing", one(vec![enter(1, Life::Endless), Op::Get])),
        ("a counted root is cut off", one(vec![put(&root(2)[..36], LATER), count(1), pin(), Op::Get])),
        ("a root without a date arrives", one(vec![put(&root(1)[..20], LATER), arrive(), Op::Get])),
        ("a root is held", one(vec![put(&root(1), LATER), hold(), hold(), Op::Get])),
        ("a clock is set that shows nothing", one(vec![put(b"12x", LATER), Op::Advance(5), Op::Get])),
        ("a clock shows what Lua takes for a number", one(numbers())),
        ("a clock is not set back", one(vec![put(b"007", LATER), Op::Advance(5), Op::Get])),
        ("a leaf is removed that is none", one(vec![put(b"short", LATER), Op::RemoveLeaf { root: 1, token: 1 }])),
        ("a short value gets its turn", one(vec![put(b"short", LATER), turn(None), turn(Some(b"short"))])),
        ("an empty value gets its turn", one(vec![put(b"", LATER), turn(None), Op::Since(Before::Bytes(vec![7; 16]))])),
        ("a bucket is full", one(vec![put(&[0; 9 * 1_024], LATER), enter(1, LATER), Op::Get])),
        ("a bucket is kept for ever", one(vec![enter(1, LATER), enter(2, Life::Endless)])),
        ("a process acknowledges", one(vec![acknowledge(u64::MAX, 7, None), acknowledge(10, 3, Some(1 << 50))])),
        ("a line of no process", one(vec![put(b"xx1 2 99999999999999\n1 2\n", LATER), acknowledge(1, 1, None)])),
        ("more signs than can be counted", one(vec![put(&root(2), LATER), count(255), count(255), Op::Get])),
        ("what is over is not among the keys", sequence(vec![run(vec![put(b"1", Life::JustOver)]), Step::Scan(0)])),
        ("a fingerprint has all kinds of keys", all_kinds()),
        (
            "all keys are counted",
            sequence(vec![enroll(0), sync(0, Some(1)), run(vec![put(b"1", LATER)]), Step::Sample(0)]),
        ),
        ("forests have their numbers", sequence(vec![enroll(1), enroll(0), enroll(3), Step::Forests])),
        ("there are more forests than can be", sequence((10..111).map(enroll).collect())),
        ("the oldest lessons go", sequence((0..8).map(|byte| sync(byte, None)).collect())),
        ("a log ends", sequence(vec![sync(1, Some(0)), Step::Pass, read(), sync(2, None), Step::Sample(0)])),
        ("a log is kept longer than any clock shows", sequence(vec![sync(1, Some(2)), sync(1, Some(2))])),
        (
            "lessons come after those that are removed",
            sequence(vec![sync(1, None), Step::RemoveSync(0), sync(2, None)]),
        ),
        ("a large request keeps the order of each key", large()),
    ];
    if is_cluster {
        let moves = |of, step: Step| {
            let first = step.clone();
            sequence(vec![
                first,
                Step::Begin(of, 0),
                step.clone(),
                Step::Begin(of, 1),
                step.clone(),
                Step::Follow(of, 9),
                step,
            ])
        };
        let moving = [0, 1].map(|to| Step::Begin(SlotOf::Key(0), to));
        let then = [run(vec![put(b"1", LATER)]), Step::Sample(0), Step::Scan(0)];
        all.push(("a key begins where its slot moves to", sequence(moving.into_iter().chain(then).collect())));
        all.push(("the registry moves", moves(SlotOf::Registry, enroll(0))));
        all.push(("the registry moves and is read", moves(SlotOf::Registry, Step::Forests)));
        all.push(("a log moves", moves(SlotOf::Log(0), sync(1, None))));
        all.push(("a log moves and is removed", moves(SlotOf::Log(0), Step::RemoveSync(0))));
    } else {
        let full = |step| sequence(vec![enroll(0), sync(1, Some(1)), Step::Full(true), step, read()]);
        all.push(("a forest is enrolled without memory", full(enroll(0))));
        all.push(("a lesson without memory", full(sync(1, Some(2)))));
        all.push(("commands without memory", full(run(vec![put(b"1", LATER), Op::Get, Op::Remove(Before::Current)]))));
    }
    all
}

fn key(fingerprint: u64, kind: KeyKind) -> Key {
    Key { forest: 0, fingerprint: Fingerprint(fingerprint), kind }
}

fn sequence(steps: Vec<Step>) -> Sequence {
    Sequence { keys: vec![key(1, KeyKind::Node)], steps }
}

fn run(ops: Vec<Op>) -> Step {
    Step::Run { commands: ops.into_iter().map(|op| (0, op)).collect(), moving: None }
}

/// Operations on one key, in one request.
fn one(ops: Vec<Op>) -> Sequence {
    sequence(vec![run(ops)])
}

fn all_kinds() -> Sequence {
    let keys: Vec<Key> = KeyKind::ALL.map(|kind| key(1, kind)).into_iter().chain([key(2, KeyKind::Node)]).collect();
    let commands = (0..keys.len()).map(|at| (at, put(b"1", LATER))).collect();
    Sequence { keys, steps: vec![Step::Run { commands, moving: None }, Step::Scan(0)] }
}

/// More commands than one pipeline takes, in turn on few keys.
fn large() -> Sequence {
    let op = |at: usize| if at.is_multiple_of(7) { put(at.to_string().as_bytes(), LATER) } else { Op::Get };
    let commands = (0..20_000).map(|at| (at % 5, op(at))).collect();
    let keys = (0..5).map(|fingerprint| key(fingerprint, KeyKind::Node)).collect();
    Sequence { keys, steps: vec![Step::Run { commands, moving: None }] }
}

fn put(value: &[u8], life: Life) -> Op {
    Op::Put(value.to_vec(), life)
}

/// Of token 1, counted as at its limits.
fn root(state: u8) -> Vec<u8> {
    [&[state, 0, 0, 1][..], &[0xFF; 16], &[250; 17], b"proof"].concat()
}

fn enter(name: u64, life: Life) -> Op {
    Op::Enter { name, step: 0, life }
}

/// Clocks that show what some would read as a number.
fn numbers() -> Vec<Op> {
    let shown: [&[u8]; 7] = [b"12\0x", b" 12", b"12 ", b"0x12", b"1e3", b"+12", b"nan"];
    shown.iter().flat_map(|shown| [put(shown, LATER), Op::Advance(5), Op::Get]).collect()
}

fn pin() -> Op {
    Op::Pin { token: 1, uses: 1, children: 1, nonce: PinNonce::after(0, 0), step: 0, life: LATER }
}

fn hold() -> Op {
    Op::Hold { token: 1, uses: 1, children: 1, nonce: PinNonce::after(0, 0) }
}

fn arrive() -> Op {
    Op::Arrive { token: 1, step: 70_000, life: LATER }
}

fn count(signs: u8) -> Op {
    Op::Count { token: 1, tally: TreeTally::of_parts(u32::MAX, u64::MAX, signs, u32::from(signs)) }
}

fn turn(before: Option<&[u8]>) -> Op {
    Op::Turn { before: before.map(|before| Before::Bytes(before.to_vec())), value: vec![7; 20] }
}

fn acknowledge(process: u64, acknowledged: u64, life: Option<u64>) -> Op {
    Op::Acknowledge { process, acknowledged, life }
}

fn enroll(name: usize) -> Step {
    Step::Enroll { name, identity: true }
}

/// Adds a lesson to those of forest 0, and reads what came after the last one.
fn sync(byte: u8, life: Option<u8>) -> Step {
    Step::Sync { forest: 0, lesson: Some(Lesson { byte, length: 3_000, most: 2, life }), after: 0 }
}

fn read() -> Step {
    Step::Sync { forest: 0, lesson: None, after: 9 }
}
