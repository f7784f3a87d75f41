//! Methods with a distance: near fingerprints have different keys, and find each other by entries in buckets. The same
//! search in small: one document a sidecar, one fingerprint a document.
//!
//! A node has an entry in each of its two buckets. A document reads the buckets of its own fingerprint and of its
//! neighbours, then the nodes that the entries name, then the roots of those that are leaves. An entry that names
//! nothing is skipped.

mod turns;

use super::explore::{Ended, explore};
use super::states;

/// Documents, and so nodes and sidecars, at most.
const DOCS: usize = 3;
const BUCKETS: usize = 4;
const ATTEMPTS: u8 = 3;

/// What is left out of the protocol, or done in another way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    Whole,
    NoLookAgain,
    /// The entries go out when the founder has looked again.
    EntriesLast,
    /// Who finds a node free removes the entries that name it, whatever token they have.
    SweepsByName,
    /// The same, of the entry's token alone.
    Sweeps,
}

/// Buckets by document: its own two; and those that it reads.
struct Case {
    name: &'static str,
    own: &'static [[usize; 2]],
    reads: &'static [&'static [usize]],
    /// Pairs within the distance.
    near: &'static [(usize, usize)],
    /// Who sends its document a second time, after the first one was refused.
    refused: Option<usize>,
}

const CASES: &[Case] = &[
    Case {
        name: "a bucket in common",
        own: &[[0, 1], [0, 2]],
        reads: &[&[0, 1], &[0, 2]],
        near: &[(0, 1)],
        refused: None,
    },
    Case {
        name: "a bucket of each other",
        own: &[[0, 1], [2, 3]],
        reads: &[&[0, 1, 2], &[0, 2, 3]],
        near: &[(0, 1)],
        refused: None,
    },
    Case {
        name: "the first is refused and comes again",
        own: &[[0, 1], [0, 2]],
        reads: &[&[0, 1], &[0, 2]],
        near: &[(0, 1)],
        refused: Some(0),
    },
    Case {
        name: "a chain of three",
        own: &[[0, 1], [0, 2], [3, 2]],
        reads: &[&[0, 1], &[0, 2], &[2, 3]],
        near: &[(0, 1), (1, 2)],
        refused: None,
    },
    Case {
        name: "three near each other",
        own: &[[0, 1], [0, 2], [0, 3]],
        reads: &[&[0], &[0], &[0]],
        near: &[(0, 1), (1, 2), (0, 2)],
        refused: None,
    },
];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Node {
    #[default]
    Free,
    Leaf {
        root: usize,
        token: u8,
    },
    Root {
        is_confirmed: bool,
        token: u8,
        uses: u8,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Op {
    Bucket(usize),
    Read(usize),
    /// Over what was read there.
    Put(usize, Node, Node),
    Add(usize, usize, u8),
    Sweep(usize, Entries),
    Pin(usize, u8),
    Kill(usize, u8),
    Confirm(usize, u8),
    Release(usize, u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Phase {
    #[default]
    Start,
    Buckets,
    Nodes,
    Roots,
    Claim,
    Entries,
    Confirm,
    Leaf,
    LeafEntries,
    Yield,
    Refused,
    Done,
    Cut,
    /// It has crashed.
    Gone,
}

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Nothing,
    /// One sidecar crashes, at any moment.
    Crash,
    /// Leases of provisional roots run out, at any moment; and one sidecar crashes.
    Lease,
    /// Names are lost, at any moment: all that stand in one bucket then.
    Lost,
}

/// Entries of a bucket: a bit for each document and token.
type Entries = u64;

fn entry(doc: usize, token: u8) -> Entries {
    1 << (doc * 16 + usize::from(token))
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Sidecar {
    phase: Phase,
    attempt: u8,
    token: u8,
    /// It holds a provisional root and looks again.
    founds: bool,
    tree: Option<(usize, u8)>,
    was_refused: bool,
    seen: Entries,
    nodes: [Node; DOCS],
    ops: Vec<Op>,
    lost: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct World {
    nodes: [Node; DOCS],
    buckets: [Entries; BUCKETS],
    /// It was lost already.
    is_lost: bool,
    sidecars: Vec<Sidecar>,
}

struct Search<'a> {
    case: &'a Case,
    variant: Variant,
    fault: Fault,
    /// States, at most.
    most: usize,
}

impl Search<'_> {
    fn is_near(&self, one: usize, other: usize) -> bool {
        one == other || self.case.near.contains(&(one, other)) || self.case.near.contains(&(other, one))
    }

    /// The states, the ends, and of these those in which two roots are near each other, which only names that were lost
    /// may do; or what was wrong.
    fn run(&self) -> Result<(usize, usize, usize), String> {
        let docs = self.case.own.len();
        let start = World { sidecars: vec![Sidecar::default(); docs], ..World::default() };
        let mut split = 0;
        let ended = |world: &World| {
            let mut phases = world.sidecars.iter().map(|sidecar| sidecar.phase);
            let is_end = (phases.clone()).all(|phase| matches!(phase, Phase::Done | Phase::Gone))
                || phases.any(|phase| phase == Phase::Cut);
            if !is_end {
                return Ok(Ended::No);
            }
            split += usize::from(self.near_roots(world).is_some());
            Ok(Ended::Yes)
        };
        let (steps, check) = (|world: &World| self.steps(world), |world: &World| self.check(world));
        let (states, ends) = explore(start, self.most, ended, steps, check)?;
        Ok((states, ends, split))
    }

    /// Two confirmed roots that are near each other.
    fn near_roots(&self, world: &World) -> Option<(usize, usize)> {
        let confirmed = |&at: &usize| matches!(world.nodes[at], Node::Root { is_confirmed: true, .. });
        let roots: Vec<usize> = (0..self.case.own.len()).filter(confirmed).collect();
        let pairs = roots.iter().flat_map(|&one| (0..one).map(move |other| (other, one)));
        let mut near = pairs.filter(|&(other, one)| roots.contains(&other) && self.is_near(one, other));
        near.next()
    }

    /// No two confirmed roots are near each other, and every node that stands is found by its neighbours.
    fn check(&self, world: &World) -> Result<(), String> {
        if self.fault == Fault::Lost {
            return Ok(());
        }
        if let Some((one, other)) = self.near_roots(world) {
            return Err(format!("roots {one} and {other} are near: {world:?}"));
        }
        for one in 0..self.case.own.len() {
            if let Node::Root { is_confirmed: true, token, .. } = world.nodes[one]
                && self.case.own[one].iter().any(|&bucket| world.buckets[bucket] & entry(one, token) == 0)
            {
                return Err(format!("root {one} has lost an entry: {world:?}"));
            }
        }
        Ok(())
    }

    fn steps(&self, world: &World) -> Vec<World> {
        let mut all = Vec::new();
        if self.fault == Fault::Lost && !world.is_lost {
            for bucket in (0..BUCKETS).filter(|&bucket| world.buckets[bucket] != 0) {
                let mut after = world.clone();
                (after.buckets[bucket], after.is_lost) = (0, true);
                all.push(after);
            }
        }
        for at in 0..DOCS {
            let is_provisional = matches!(world.nodes[at], Node::Root { is_confirmed: false, .. });
            if is_provisional && self.fault == Fault::Lease {
                let mut after = world.clone();
                after.nodes[at] = Node::Free;
                all.push(after);
            }
        }
        for at in 0..world.sidecars.len() {
            if world.sidecars[at].phase == Phase::Start {
                let mut after = world.clone();
                self.look(&mut after.sidecars[at], at);
                all.push(after);
            }
            let phase = world.sidecars[at].phase;
            let is_first = world.sidecars.iter().all(|other| other.phase != Phase::Gone);
            let may_crash = matches!(self.fault, Fault::Crash | Fault::Lease);
            if may_crash && is_first && phase != Phase::Done {
                let mut after = world.clone();
                after.sidecars[at] = Sidecar { phase: Phase::Gone, ..Sidecar::default() };
                all.push(after);
            }
            // Of three sidecars, each does the commands of a round trip in one order.
            let many = world.sidecars[at].ops.len();
            for op in 0..if self.case.own.len() > 2 { many.min(1) } else { many } {
                let mut after = world.clone();
                let op = after.sidecars[at].ops.remove(op);
                Self::apply(&mut after, at, op);
                if after.sidecars[at].ops.is_empty() {
                    self.advance(&after, at, &mut all);
                } else {
                    all.push(after);
                }
            }
        }
        all
    }

    fn apply(world: &mut World, at: usize, op: Op) {
        let World { nodes, buckets, sidecars, is_lost: _ } = world;
        let sidecar = &mut sidecars[at];
        match op {
            Op::Bucket(bucket) => sidecar.seen |= buckets[bucket],
            Op::Read(node) => sidecar.nodes[node] = nodes[node],
            Op::Put(node, old, new) => {
                if nodes[node] == Node::Free || nodes[node] == old {
                    nodes[node] = new;
                } else {
                    sidecar.lost = true;
                }
            }
            Op::Add(bucket, doc, token) => buckets[bucket] |= entry(doc, token),
            Op::Sweep(bucket, gone) => buckets[bucket] &= !gone,
            Op::Pin(node, of) => match &mut nodes[node] {
                Node::Root { is_confirmed: true, token, uses } if *token == of => *uses += 1,
                _ => sidecar.lost = true,
            },
            Op::Kill(node, of) => {
                if matches!(nodes[node], Node::Root { is_confirmed: false, token, .. } if token == of) {
                    nodes[node] = Node::Free;
                }
            }
            Op::Confirm(node, of) => match &mut nodes[node] {
                Node::Root { is_confirmed, token, uses } if *token == of => (*is_confirmed, *uses) = (true, 1),
                _ => sidecar.lost = true,
            },
            Op::Release(node, of) => {
                if let Node::Root { token, uses, .. } = &mut nodes[node]
                    && *token == of
                {
                    *uses -= 1;
                    if *uses == 0 {
                        nodes[node] = Node::Free;
                    }
                }
            }
        }
    }
}

/// Searches a case that must not go wrong.
fn searched(case: &Case, variant: Variant, fault: Fault) {
    let search = Search { case, variant, fault, most: states(40_000) };
    let what = format!("{variant:?}, {fault:?}, {}", case.name);
    let (states, ends, split) = search.run().unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
    eprintln!("{what}: {states} states, {ends} ends, in {split} of them two are near");
    assert!(ends > 0);
    // What is lost is missed, or this searches nothing.
    assert_eq!(split > 0, fault == Fault::Lost, "{what}");
}

/// Those of some cases in which something goes wrong.
fn refuted(cases: &'static [Case], variant: Variant, fault: Fault) -> Vec<&'static str> {
    let wrong = cases.iter().filter(|case| Search { case, variant, fault, most: 300_000 }.run().is_err());
    let wrong: Vec<&str> = wrong.map(|case| case.name).collect();
    eprintln!("{variant:?}, {fault:?} is refuted by {wrong:?}");
    wrong
}

#[test]
fn near_fingerprints_in_any_order() {
    for case in CASES {
        for variant in [Variant::Whole, Variant::Sweeps] {
            searched(case, variant, Fault::Nothing);
        }
    }
}

#[test]
fn near_fingerprints_when_a_sidecar_crashes_or_is_late() {
    for case in CASES {
        for fault in [Fault::Crash, Fault::Lease] {
            searched(case, Variant::Whole, fault);
        }
    }
}

#[test]
fn what_is_left_out_for_near_fingerprints_is_missed() {
    for variant in [Variant::NoLookAgain, Variant::EntriesLast, Variant::SweepsByName] {
        let wrong = refuted(&CASES[..3], variant, Fault::Nothing);
        assert!(!wrong.is_empty(), "{variant:?}");
    }
}

#[test]
fn names_that_are_lost_split_and_stop_nobody() {
    for case in &CASES[..2] {
        searched(case, Variant::Whole, Fault::Lost);
    }
}
