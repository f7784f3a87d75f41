//! Random sequences: operations on few keys, with the values that the product writes, and others.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::sample::select;
use proptest::strategy::BoxedStrategy;
use proptest::{option, prop_oneof};

use crate::fingerprint::Fingerprint;
use crate::forest::shared::keys::{FoundingToken, Key, KeyKind, PinNonce};
use crate::method::{Durable, TreeTally};

/// What is run against both.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    /// Commands name their keys by their places here.
    pub(super) keys: Vec<Key>,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Runs commands together, while a slot is moved to a master.
    Run {
        commands: Vec<(usize, Op)>,
        moving: Option<(SlotOf, usize)>,
    },
    /// Time passes, until all that was kept for a short time is over.
    Pass,
    /// There is no memory left, or there is again. On one server.
    Full(bool),
    /// A slot begins to move to a master, some of its keys follow, and the rest. In a cluster.
    Begin(SlotOf, usize),
    Follow(SlotOf, usize),
    End(SlotOf),
    /// Enrols one of [`NAMES`], or another one, with one of two identities.
    Enroll {
        name: usize,
        identity: bool,
    },
    /// Lists the forests.
    Forests,
    /// Goes through all keys of a forest.
    Scan(u8),
    /// Samples the keys of a forest, and counts all.
    Sample(u8),
    /// Adds a lesson, if there is one, and reads those after the last but so many.
    Sync {
        forest: u8,
        lesson: Option<Lesson>,
        after: usize,
    },
    RemoveSync(u8),
}

/// The slot of something.
#[derive(Debug, Clone, Copy)]
pub(super) enum SlotOf {
    Key(usize),
    Registry,
    Log(u8),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Lesson {
    /// It begins with this.
    pub(super) byte: u8,
    pub(super) length: usize,
    pub(super) most: usize,
    /// How long it is kept: 0 for a short time, 1 for a long one, 2 for the longest that there is.
    pub(super) life: Option<u8>,
}

/// A [`Lifetime`](crate::forest::shared::keys::Lifetime) whose moments are not known before it is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Life {
    Endless,
    ForShort,
    For(Duration),
    UntilShort,
    /// So many milliseconds after the beginning.
    UntilLater(i64),
    JustOver,
    Until(i64),
}

/// An expected value, or its first bytes.
#[derive(Debug, Clone)]
pub(super) enum Before {
    /// What is there.
    Current,
    Bytes(Vec<u8>),
}

/// A [`KeyOp`](crate::forest::shared::keys::KeyOp) that is not complete before it is run.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Get,
    Claim(Vec<u8>, Life),
    Put(Vec<u8>, Life),
    Swap {
        before: Before,
        or_nothing: bool,
        value: Before,
        life: Life,
    },
    Confirm {
        token: u32,
        value: Vec<u8>,
        life: Life,
    },
    Remove(Before),
    Pin {
        token: u32,
        uses: u16,
        children: u16,
        nonce: PinNonce,
        step: u16,
        life: Life,
    },
    Hold {
        token: u32,
        uses: u16,
        children: u16,
        nonce: PinNonce,
    },
    Arrive {
        token: u32,
        step: u32,
        life: Life,
    },
    Touch {
        value: Vec<u8>,
        life: Life,
    },
    RemoveLeaf {
        root: u64,
        token: u32,
    },
    Enter {
        name: u64,
        step: u8,
        life: Life,
    },
    Advance(i64),
    Release {
        token: u32,
        uses: u16,
    },
    Since(Before),
    Turn {
        before: Option<Before>,
        value: Vec<u8>,
    },
    /// `life`: `None` for a short one.
    Acknowledge {
        process: u64,
        acknowledged: u64,
        life: Option<u64>,
    },
    Count {
        token: u32,
        tally: TreeTally,
    },
}

/// The first two would have the same number.
pub(super) const NAMES: [&str; 5] = ["forest-4", "forest-7", "", "news", "新闻 {a}"];
/// Some of them are special in the pattern of a scan.
pub(super) const FORESTS: [u8; 4] = [0, b'*', b'[', 255];
/// Those with `{a}` in them are of one slot, and `{}` is no tag. The others would be numbers, of nodes in buckets.
const FINGERPRINTS: [u64; 7] =
    [0, 1, u64::MAX, 0x7B61_7D00_0000_0001, 0x017B_617D_0000_0002, 0x7B7D_0000_0000_0003, 0x2A3F_5B5D_5C2D_0D0A];
const TOKENS: [u32; 2] = [1, 0xAB_CDEF];
/// Numbers of a Lua function are exact up to here.
const EXACT: i64 = 1 << 53;
const HOUR: i64 = 3_600_000;

pub(super) fn token(number: u32) -> FoundingToken {
    FoundingToken(number)
}

fn fingerprint() -> impl Strategy<Value = u64> {
    select(FINGERPRINTS.to_vec())
}

fn tokens() -> impl Strategy<Value = u32> {
    let [often, seldom] = TOKENS;
    prop_oneof![4 => Just(often), 1 => Just(seldom)]
}

fn forest() -> impl Strategy<Value = u8> {
    select(FORESTS.to_vec())
}

fn key() -> impl Strategy<Value = Key> {
    (forest(), fingerprint(), select(KeyKind::ALL.to_vec())).prop_map(|(forest, fingerprint, kind)| Key {
        forest,
        fingerprint: Fingerprint(fingerprint),
        kind,
    })
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![
        3 => absolute(),
        1 => Just(Life::ForShort),
        1 => Just(Life::For(Duration::from_secs(3_600))),
        1 => Just(Life::For(Duration::MAX)),
    ]
}

/// A moment, or none.
fn absolute() -> impl Strategy<Value = Life> {
    prop_oneof![
        3 => Just(Life::Endless),
        2 => Just(Life::UntilShort),
        // Nothing that is kept for an hour, or for two, ends at any of them.
        3 => select(vec![3 * HOUR, 3 * HOUR + 1, 5 * HOUR]).prop_map(Life::UntilLater),
        1 => Just(Life::JustOver),
        1 => select(vec![i64::MIN, 0, 1, EXACT - 1, EXACT + 1, i64::MAX]).prop_map(Life::Until),
    ]
}

/// A number of two bytes, at its limits more often than not.
fn number() -> impl Strategy<Value = u16> {
    prop_oneof![
        4 => select(vec![0, 1, 2, 63, 64, 65, 128, 32_767, 32_768, 65_471, 65_534, 65_535]),
        1 => any::<u16>(),
    ]
}

/// A step of a root, or a later one: half of all steps are later.
fn root_step() -> impl Strategy<Value = u16> {
    prop_oneof![4 => select(vec![0, 1, 63, 64, 128, 32_767, 32_768, 65_535]), 1 => any::<u16>()]
}

fn step() -> impl Strategy<Value = u32> {
    let steps = vec![0, 1, 63, 64, 128, 65_536, 1 << 31, (1 << 31) - 1, u32::MAX, u32::MAX - 64];
    prop_oneof![4 => select(steps), 1 => any::<u32>()]
}

fn tally() -> impl Strategy<Value = TreeTally> {
    let documents = select(vec![0, 1, 5, u32::MAX - 1, u32::MAX]);
    let titles = prop_oneof![select(vec![0, 1 << 31, 1 << 63, u64::MAX]), any::<u64>()];
    let signs = select(vec![0, 0, 1, 7, 8, 255]);
    let last = select(vec![0, 1, u32::MAX]);
    (documents, titles, signs, last)
        .prop_map(|(documents, titles, signs, last)| TreeTally::of_parts(documents, titles, signs, last))
}

fn root() -> impl Strategy<Value = Vec<u8>> {
    let state = select(vec![0, 1, 1, 1, 2, 2, 7]);
    let numbers = [root_step().boxed(), number().boxed(), number().boxed(), number().boxed(), number().boxed()];
    (state, tokens(), any::<[u8; 6]>(), numbers, tally(), vec(any::<u8>(), 0..50)).prop_map(
        |(state, of, added, numbers, tally, proof)| {
            let mut bytes = vec![state];
            bytes.extend(token(of).bytes());
            bytes.extend(added);
            bytes.extend(numbers.iter().flat_map(|number: &u16| number.to_be_bytes()));
            if state == 2 {
                tally.write(&mut bytes);
            }
            bytes.extend(proof);
            bytes
        },
    )
}

/// The root of a leaf, mostly the same.
fn leaf_root() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(1), 1 => fingerprint()]
}

fn leaf(steps: usize) -> impl Strategy<Value = Vec<u8>> {
    (leaf_root(), tokens(), step()).prop_map(move |(root, of, step)| {
        let step = step.to_be_bytes();
        [&root.to_be_bytes()[..], &token(of).bytes(), &step[4 - steps..]].concat()
    })
}

fn bucket() -> impl Strategy<Value = Vec<u8>> {
    let entry = || (fingerprint(), select(vec![0, 1, 67, 68, 100, 191, 192, 255]));
    let bytes = |entries: Vec<(u64, u8)>| -> Vec<u8> {
        entries.iter().flat_map(|(name, step)| name.to_be_bytes().into_iter().chain([*step])).collect()
    };
    let full = select(vec![1_023_u64, 1_024, 1_025]);
    prop_oneof![
        4 => vec(entry(), 0..4).prop_map(bytes),
        1 => (full, vec(entry(), 0..2)).prop_map(move |(full, more)| {
            bytes((1 << 32..(1 << 32) + full).map(|name| (name, 1)).chain(more).collect())
        }),
    ]
}

/// As [`Acknowledge`](Op::Acknowledge) writes it.
fn acknowledgements() -> impl Strategy<Value = Vec<u8>> {
    let line = (process(), select(vec![0, 1, 7, 1_u64 << 52]), select(vec![1, 2, 9_999_999_999_999_u64]));
    let line = line.prop_map(|(process, version, over)| format!("{process:016x} {version} {over}\n"));
    let junk = select(vec!["", "x", "fff ", "\n", "1 2 3\n", "1 2 -3\n", "a b c\n"]);
    (vec(line, 0..4), junk).prop_map(|(lines, junk)| [lines.concat().as_str(), junk].concat().into_bytes())
}

fn process() -> impl Strategy<Value = u64> {
    select(vec![0, 1, u64::MAX])
}

/// Values of overrides: 16 bytes that tell them apart, and more.
fn overrides() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![20 => 16..40_usize, 1 => Just(70_000)];
    (select(vec![0, 1, 255]), length).prop_map(|(byte, length)| vec![byte; length])
}

fn date() -> impl Strategy<Value = i64> {
    select(vec![-EXACT, -377_705_023_201_000, -5, 0, 7, 1_795_251_000_000, 253_402_300_799_999, EXACT])
}

fn clock() -> impl Strategy<Value = Vec<u8>> {
    let clock = prop_oneof![
        3 => date().prop_map(|date| date.to_string()),
        1 => select(vec!["", "007", "12x", "-", "nothing"]).prop_map(str::to_owned),
    ];
    clock.prop_map(String::into_bytes)
}

fn value() -> BoxedStrategy<Vec<u8>> {
    let whole = prop_oneof![
        8 => root(),
        2 => leaf(1),
        2 => leaf(4),
        2 => bucket(),
        1 => clock(),
        1 => acknowledgements(),
        1 => overrides(),
        1 => vec(any::<u8>(), 0..25),
    ];
    let whole = whole.boxed();
    let cut = (whole.clone(), any::<proptest::sample::Index>()).prop_map(|(mut whole, at)| {
        whole.truncate(at.index(whole.len() + 1));
        whole
    });
    prop_oneof![9 => whole, 1 => cut].boxed()
}

fn before() -> impl Strategy<Value = Before> {
    prop_oneof![2 => Just(Before::Current), 1 => value().prop_map(Before::Bytes)]
}

/// The first bytes of overrides.
fn head() -> impl Strategy<Value = Before> {
    prop_oneof![1 => Just(Before::Current), 1 => overrides().prop_map(Before::Bytes)]
}

/// Few, so that some are those of the pin before.
fn nonce() -> impl Strategy<Value = PinNonce> {
    (number(), any::<bool>()).prop_map(|(number, is_sent_again)| PinNonce { number, is_sent_again })
}

/// Operations on roots.
fn root_op() -> BoxedStrategy<Op> {
    let confirm = (tokens(), root(), life()).prop_map(|(token, value, life)| Op::Confirm { token, value, life });
    let pin = (tokens(), number(), number(), nonce(), root_step(), life());
    let pin =
        pin.prop_map(|(token, uses, children, nonce, step, life)| Op::Pin { token, uses, children, nonce, step, life });
    let hold = (tokens(), number(), number(), nonce());
    let hold = hold.prop_map(|(token, uses, children, nonce)| Op::Hold { token, uses, children, nonce });
    let arrive = (tokens(), step(), life()).prop_map(|(token, step, life)| Op::Arrive { token, step, life });
    let release = (tokens(), number()).prop_map(|(token, uses)| Op::Release { token, uses });
    let count = (tokens(), tally()).prop_map(|(token, tally)| Op::Count { token, tally });
    prop_oneof![1 => confirm, 2 => pin, 1 => hold, 2 => arrive, 1 => release, 2 => count].boxed()
}

fn leaf_op() -> BoxedStrategy<Op> {
    let remove = (leaf_root(), tokens()).prop_map(|(root, token)| Op::RemoveLeaf { root, token });
    prop_oneof![2 => (leaf(4), life()).prop_map(|(value, life)| Op::Touch { value, life }), 1 => remove].boxed()
}

fn enter() -> impl Strategy<Value = Op> {
    let enter = (fingerprint(), select(vec![0, 1, 67, 68, 191, 192, 255]), absolute());
    enter.prop_map(|(name, step, life)| Op::Enter { name, step, life })
}

/// Operations on clocks and on overrides.
fn other_op() -> BoxedStrategy<Op> {
    prop_oneof![
        date().prop_map(Op::Advance),
        head().prop_map(Op::Since),
        (option::of(head()), overrides()).prop_map(|(before, value)| Op::Turn { before, value }),
    ]
    .boxed()
}

fn acknowledge() -> impl Strategy<Value = Op> {
    let told = (process(), select(vec![0, 1, 7, 1 << 53]), select(vec![None, Some(3_600_000), Some(1 << 50)]));
    told.prop_map(|(process, acknowledged, life)| Op::Acknowledge { process, acknowledged, life })
}

/// Any operation.
fn op() -> BoxedStrategy<Op> {
    let after = prop_oneof![1 => Just(Before::Current), 4 => value().prop_map(Before::Bytes)];
    let swap = (before(), any::<bool>(), after, life());
    let swap = swap.prop_map(|(before, or_nothing, value, life)| Op::Swap { before, or_nothing, value, life });
    prop_oneof![
        2 => Just(Op::Get),
        1 => (value(), life()).prop_map(|(value, life)| Op::Claim(value, life)),
        1 => (value(), life()).prop_map(|(value, life)| Op::Put(value, life)),
        2 => swap,
        1 => before().prop_map(Op::Remove),
        2 => root_op(),
        1 => leaf_op(),
        1 => enter(),
        1 => other_op(),
        1 => acknowledge(),
    ]
    .boxed()
}

/// The values of the first commands, key by key: [`commands`] expect most of them there.
fn first_values() -> Vec<BoxedStrategy<Vec<u8>>> {
    let others = prop_oneof![clock(), overrides()];
    let own =
        [root().boxed(), root().boxed(), leaf(4).boxed(), bucket().boxed(), others.boxed(), acknowledgements().boxed()];
    own.map(|own| prop_oneof![4 => own, 1 => value()].boxed()).into()
}

fn commands() -> impl Strategy<Value = Vec<(usize, Op)>> {
    let command = prop_oneof![
        5 => (0..2_usize, root_op()),
        2 => (Just(2), leaf_op()),
        1 => (Just(3), enter()),
        1 => (Just(4), other_op()),
        1 => (Just(5), acknowledge()),
        5 => (0..6_usize, op()),
    ];
    vec(command, 1..16)
}

fn slot() -> impl Strategy<Value = SlotOf> {
    prop_oneof![
        4 => (0..6_usize).prop_map(SlotOf::Key),
        1 => Just(SlotOf::Registry),
        2 => forest().prop_map(SlotOf::Log),
    ]
}

fn other_step(is_cluster: bool) -> BoxedStrategy<Step> {
    let lesson = (any::<u8>(), select(vec![0, 1, 3_000]), select(vec![1, 2, 1_000]), option::of(0..3_u8));
    let lesson = lesson.prop_map(|(byte, length, most, life)| Lesson { byte, length, most, life });
    let sync = (forest(), option::weighted(0.8, lesson), 0..4_usize);
    let common = prop_oneof![
        2 => Just(Step::Pass),
        3 => (0..NAMES.len(), any::<bool>()).prop_map(|(name, identity)| Step::Enroll { name, identity }),
        1 => Just(Step::Forests),
        2 => forest().prop_map(Step::Scan),
        2 => forest().prop_map(Step::Sample),
        4 => sync.prop_map(|(forest, lesson, after)| Step::Sync { forest, lesson, after }),
        1 => forest().prop_map(Step::RemoveSync),
    ];
    let scene = match is_cluster {
        false => any::<bool>().prop_map(Step::Full).boxed(),
        true => prop_oneof![
            3 => (slot(), 0..3_usize).prop_map(|(slot, to)| Step::Begin(slot, to)),
            2 => (slot(), 1..3_usize).prop_map(|(slot, keys)| Step::Follow(slot, keys)),
            2 => slot().prop_map(Step::End),
        ]
        .boxed(),
    };
    prop_oneof![3 => common, 1 => scene].boxed()
}

/// Sequences for one server, or for three masters.
pub(super) fn sequences(is_cluster: bool) -> impl Strategy<Value = Sequence> {
    let first = (first_values(), vec(life(), 6)).prop_map(|(values, lives)| {
        let puts = values.into_iter().zip(lives).map(|(value, life)| Op::Put(value, life));
        Step::Run { commands: puts.enumerate().collect(), moving: None }
    });
    let keys = prop_oneof![3 => vec(key(), 6), 1 => vec(key(), 1..6)];
    let moving = match is_cluster {
        true => option::weighted(0.2, (slot(), 0..3_usize)).boxed(),
        false => Just(None).boxed(),
    };
    let run = (commands(), moving).prop_map(|(commands, moving)| Step::Run { commands, moving });
    let step = prop_oneof![1 => run, 1 => other_step(is_cluster)];
    (keys, first, vec(step, 1..12)).prop_map(|(keys, first, mut steps)| {
        steps.insert(0, first);
        Sequence { keys, steps }
    })
}
