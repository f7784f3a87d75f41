//! Forests whose documents have dates of their own: a clock that accepted documents set forward, nodes that are over,
//! and somebody who removes them. The same search in small: one document a sidecar, all of one story but for those that
//! only move the clock.
//!
//! What two founders do about each other is in `sidecar`; here time goes on between any two of their commands.

mod turns;

use super::explore::{Ended, explore};
use super::states;

/// Fingerprints: two of the story, and one of another.
const KEYS: usize = 3;
/// Steps for which a node stays after its own.
const WINDOW: u8 = 1;
const ATTEMPTS: u8 = 3;
/// Of the tree that is there at the beginning.
const OLD: u8 = 15;

/// What is done in another way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    Whole,
    /// A leaf that was removed meanwhile is not put back.
    NoPutBack,
    /// What was over when it was read is removed whatever it is by then.
    SweepsByKey,
    /// A document sets the time of its tree, also back.
    GoesBack,
}

struct Case {
    name: &'static str,
    /// By document: its fingerprints. It founds at the first.
    prints: &'static [&'static [usize]],
    /// By document: its step.
    dates: &'static [u8],
    /// What the clock shows at the beginning.
    clock: u8,
    /// There is a tree of the story, a root and a leaf, of the step of the clock.
    is_known: bool,
    refused: Option<usize>,
    /// Nodes that are removed.
    sweeps: u8,
    /// Whether a date leaps over a whole window: what was on its way then may be apart.
    leaps: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "two copies, one of the next step",
        prints: &[&[0, 1], &[0, 1]],
        dates: &[5, 6],
        clock: 5,
        is_known: false,
        refused: None,
        sweeps: 1,
        leaps: false,
    },
    Case {
        name: "two versions before the first date",
        prints: &[&[0, 1], &[1, 0]],
        dates: &[6, 5],
        clock: 0,
        is_known: false,
        refused: None,
        sweeps: 0,
        leaps: false,
    },
    Case {
        name: "a known one and one that only a leaf leads there",
        prints: &[&[0, 1], &[1]],
        dates: &[5, 6],
        clock: 5,
        is_known: true,
        refused: None,
        sweeps: 1,
        leaps: false,
    },
    Case {
        name: "the first is refused",
        prints: &[&[0, 1], &[1, 0]],
        dates: &[6, 5],
        clock: 5,
        is_known: false,
        refused: Some(0),
        sweeps: 1,
        leaps: false,
    },
    Case {
        name: "a known one while the clock goes on",
        prints: &[&[1], &[2]],
        dates: &[6, 7],
        clock: 5,
        is_known: true,
        refused: None,
        sweeps: 2,
        leaps: true,
    },
    Case {
        name: "two known ones, and the clock goes on",
        prints: &[&[0, 1], &[0, 1], &[2]],
        dates: &[7, 6, 8],
        clock: 5,
        is_known: true,
        refused: None,
        sweeps: 0,
        leaps: true,
    },
    Case {
        name: "three copies, of three steps",
        prints: &[&[0, 1], &[1, 0], &[0, 1]],
        dates: &[5, 6, 5],
        clock: 5,
        is_known: false,
        refused: None,
        sweeps: 1,
        leaps: false,
    },
    Case {
        name: "two copies while the clock leaps over a window",
        prints: &[&[0, 1], &[1], &[2]],
        dates: &[8, 8, 8],
        clock: 5,
        is_known: false,
        refused: None,
        sweeps: 0,
        leaps: true,
    },
];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Node {
    #[default]
    Free,
    Leaf {
        root: usize,
        token: u8,
        step: u8,
    },
    Root {
        is_confirmed: bool,
        token: u8,
        step: u8,
        uses: u8,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Op {
    Clock,
    Read(usize),
    /// Where nothing is, or over what was read there.
    Put(usize, Node, Node),
    /// What was read there.
    Remove(usize, Node),
    Hold(usize, u8),
    Confirm(usize, u8),
    Release(usize, u8),
    RemoveLeaf(usize, u8),
    Advance(u8),
    Arrive(usize, u8, u8),
    Touch(usize, Node),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Phase {
    #[default]
    Start,
    Look,
    Roots,
    Wait,
    Pin,
    JoinerLeaves,
    Claim,
    Leaves,
    LookAgain,
    RootsAgain,
    Mend,
    Confirm,
    Yield,
    Arrive,
    Touch,
    Release,
    Done,
    Cut,
    /// It has crashed.
    Gone,
}

/// A bit for each key.
type Keys = u8;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Sidecar {
    phase: Phase,
    attempt: u8,
    token: u8,
    /// What the clock has shown.
    clock: u8,
    seen: [Node; KEYS],
    /// Read as roots that leaves name.
    followed: Keys,
    ops: Vec<Op>,
    /// Where a command was too late.
    failed: Keys,
    tree: Option<(usize, u8)>,
    /// The step in which it was placed, and that of its root then.
    placed: u8,
    root_step: u8,
    /// The step that it is accepted in.
    to: u8,
    /// Leaves that it has brought, and those that led it there.
    own: Keys,
    used: Keys,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct World {
    nodes: [Node; KEYS],
    clock: u8,
    sidecars: Vec<Sidecar>,
    /// What is about to be removed.
    sweep: Option<(usize, Node)>,
    sweeps: u8,
}

fn is_over(step: u8, clock: u8) -> bool {
    step + WINDOW < clock
}

/// The tree that a key leads to: its root, whether it is confirmed, its token and its step.
fn tree_at(nodes: &[Node; KEYS], key: usize, clock: u8) -> Option<(usize, bool, u8, u8)> {
    let (root, of, leaf_step) = match nodes[key] {
        Node::Free => return None,
        Node::Leaf { root, token, step } => (root, Some(token), Some(step)),
        Node::Root { .. } => (key, None, None),
    };
    let Node::Root { is_confirmed, token, step, .. } = nodes[root] else {
        return None;
    };
    let is_of = of.is_none_or(|of| of == token);
    let is_past = is_over(step, clock) || leaf_step.is_some_and(|step| is_over(step, clock));
    (is_of && !(is_confirmed && is_past)).then_some((root, is_confirmed, token, step))
}

struct Search<'a> {
    case: &'a Case,
    variant: Variant,
    /// One sidecar crashes, at any moment, and leases run out.
    crashes: bool,
    /// A leap does not excuse two trees.
    strict: bool,
    most: usize,
}

impl Search<'_> {
    /// The states and ends seen, or what was wrong.
    fn run(&self) -> Result<(usize, usize), String> {
        let mut start = World {
            clock: self.case.clock,
            sidecars: vec![Sidecar::default(); self.case.prints.len()],
            sweeps: self.case.sweeps,
            ..World::default()
        };
        if self.case.is_known {
            let (token, step) = (OLD, self.case.clock);
            start.nodes[0] = Node::Root { is_confirmed: true, token, step, uses: 1 };
            start.nodes[1] = Node::Leaf { root: 0, token, step };
        }
        let ended = |world: &World| {
            let mut phases = world.sidecars.iter().map(|sidecar| sidecar.phase);
            if phases.clone().any(|phase| phase == Phase::Cut) {
                return Ok(Ended::Yes);
            }
            if !phases.all(|phase| matches!(phase, Phase::Done | Phase::Gone)) {
                return Ok(Ended::No);
            }
            // What is over may still be removed.
            self.check_end(world)?;
            Ok(Ended::AtRest)
        };
        let (steps, check) = (|world: &World| self.steps(world), |world: &World| self.check(world));
        explore(start, self.most, ended, steps, check)
    }

    /// Documents that were accepted and whose date is within the window.
    fn living<'w>(&self, world: &'w World) -> impl Iterator<Item = (usize, &'w Sidecar)> {
        let (dates, refused, clock) = (self.case.dates, self.case.refused, world.clock);
        let all = world.sidecars.iter().enumerate();
        all.filter(move |&(at, sidecar)| {
            sidecar.phase == Phase::Done && refused != Some(at) && !is_over(dates[at], clock)
        })
    }

    /// One tree of a story, and the tree of every accepted document is there as long as its date is within the window.
    fn check(&self, world: &World) -> Result<(), String> {
        let is_live = |key: usize| {
            matches!(world.nodes[key],
                Node::Root { is_confirmed: true, step, .. } if !is_over(step, world.clock))
        };
        let is_excused = self.case.leaps && !self.strict;
        if is_live(0) && is_live(1) && !is_excused {
            return Err(format!("the story is in two: {world:?}"));
        }
        for (at, sidecar) in self.living(world) {
            let (root, of) = sidecar.tree.unwrap_or_default();
            let is_there = matches!(world.nodes[root],
                Node::Root { is_confirmed: true, token, step, .. } if token == of && !is_over(step, world.clock));
            if !is_there && !self.was_swept(sidecar) {
                return Err(format!("the tree of {at} is gone: {world:?}"));
            }
        }
        Ok(())
    }

    /// A tree that a leap made over before its document was accepted may be gone by then.
    fn was_swept(&self, sidecar: &Sidecar) -> bool {
        self.case.leaps && sidecar.failed != 0
    }

    /// Every accepted document is known when it comes again.
    fn check_end(&self, world: &World) -> Result<(), String> {
        let is_whole = (world.sidecars.iter()).all(|sidecar| sidecar.phase == Phase::Done);
        for (at, sidecar) in self.living(world).filter(|_| is_whole) {
            let mut prints = self.case.prints[at].iter();
            let leads = prints.any(|&key| tree_at(&world.nodes, key, world.clock).is_some());
            if !leads && !self.was_swept(sidecar) {
                return Err(format!("nothing leads to {at}: {world:?}"));
            }
        }
        Ok(())
    }

    fn steps(&self, world: &World) -> Vec<World> {
        let mut all = Vec::new();
        for key in 0..KEYS {
            let step = match world.nodes[key] {
                Node::Root { is_confirmed: true, step, .. } | Node::Leaf { step, .. } => step,
                Node::Root { .. } if self.crashes => {
                    // Its lease runs out.
                    let mut after = world.clone();
                    after.nodes[key] = Node::Free;
                    all.push(after);
                    continue;
                }
                _ => continue,
            };
            if world.sweep.is_none() && world.sweeps > 0 && is_over(step, world.clock) {
                let mut after = world.clone();
                after.sweep = Some((key, world.nodes[key]));
                after.sweeps -= 1;
                all.push(after);
            }
        }
        if let Some((key, value)) = world.sweep {
            let mut after = world.clone();
            after.sweep = None;
            if after.nodes[key] == value || self.variant == Variant::SweepsByKey {
                after.nodes[key] = Node::Free;
            }
            all.push(after);
        }
        for at in 0..world.sidecars.len() {
            let phase = world.sidecars[at].phase;
            if phase == Phase::Start {
                let mut after = world.clone();
                self.look(&mut after.sidecars[at], at);
                all.push(after);
            }
            let mut others = world.sidecars.iter();
            let is_first = others.all(|other| other.phase != Phase::Gone);
            if self.crashes && is_first && phase != Phase::Done {
                let mut after = world.clone();
                after.sidecars[at] = Sidecar { phase: Phase::Gone, ..Sidecar::default() };
                all.push(after);
            }
            // Of three sidecars, each does the commands of a round trip in one order.
            let many = world.sidecars[at].ops.len();
            let any_order = self.case.prints.len() < 3;
            for op in 0..if any_order { many } else { many.min(1) } {
                let mut after = world.clone();
                let op = after.sidecars[at].ops.remove(op);
                self.apply(&mut after, at, op);
                if after.sidecars[at].ops.is_empty() {
                    self.advance(&after, at, &mut all);
                } else {
                    all.push(after);
                }
            }
        }
        all
    }

    fn apply(&self, world: &mut World, at: usize, op: Op) {
        let World { nodes, sidecars, clock, .. } = world;
        let sidecar = &mut sidecars[at];
        let mut fail = |key: usize| sidecar.failed |= 1 << key;
        match op {
            Op::Clock => sidecar.clock = sidecar.clock.max(*clock),
            Op::Read(key) => sidecar.seen[key] = nodes[key],
            Op::Put(key, old, new) => {
                if nodes[key] == Node::Free || nodes[key] == old {
                    nodes[key] = new;
                } else {
                    fail(key);
                }
            }
            Op::Remove(key, value) => {
                if nodes[key] == value {
                    nodes[key] = Node::Free;
                }
            }
            Op::Hold(key, of) => match &mut nodes[key] {
                Node::Root { is_confirmed: true, token, uses, .. } if *token == of => *uses += 1,
                _ => fail(key),
            },
            Op::Confirm(key, of) => match &mut nodes[key] {
                Node::Root { is_confirmed, token, uses, .. } if *token == of => (*is_confirmed, *uses) = (true, 1),
                _ => fail(key),
            },
            Op::Release(key, of) => {
                let mut went = false;
                if let Node::Root { token, uses, .. } = &mut nodes[key]
                    && *token == of
                {
                    *uses -= 1;
                    went = *uses == 0;
                }
                if went {
                    nodes[key] = Node::Free;
                } else {
                    fail(key);
                }
            }
            Op::RemoveLeaf(key, of) => {
                if matches!(nodes[key], Node::Leaf { token, .. } if token == of) {
                    nodes[key] = Node::Free;
                }
            }
            Op::Advance(to) => {
                *clock = (*clock).max(to);
                sidecar.clock = sidecar.clock.max(*clock);
            }
            Op::Arrive(key, of, to) => match &mut nodes[key] {
                Node::Root { is_confirmed: true, token, step, .. } if *token == of => {
                    *step = match self.variant {
                        Variant::GoesBack => to,
                        _ => (*step).max(to),
                    }
                }
                _ => fail(key),
            },
            Op::Touch(key, leaf) => match (&mut nodes[key], leaf) {
                (there @ Node::Free, leaf) if self.variant != Variant::NoPutBack => *there = leaf,
                (Node::Leaf { root, token, step }, Node::Leaf { root: of, token: named, step: to })
                    if (*root, *token) == (of, named) =>
                {
                    *step = (*step).max(to);
                }
                _ => {}
            },
        }
    }
}

fn hold(crashes: bool, most: usize) {
    for case in CASES {
        let search = Search { case, variant: Variant::Whole, crashes, strict: false, most: states(most) };
        let (states, ends) = search.run().unwrap_or_else(|wrong| panic!("{}: {wrong}", case.name));
        eprintln!("dated, {}: {states} states, {ends} ends", case.name);
        assert!(ends > 0);
    }
}

#[test]
fn dates_in_any_order() {
    hold(false, 60_000);
}

#[test]
fn dates_when_a_sidecar_crashes() {
    hold(true, 30_000);
}

/// What of these cases is wrong if it is done that way.
fn refuted(variant: Variant, strict: bool) -> Vec<&'static str> {
    let wrong =
        CASES.iter().filter(|case| Search { case, variant, crashes: false, strict, most: 60_000 }.run().is_err());
    wrong.map(|case| case.name).collect()
}

#[test]
fn what_is_done_otherwise_with_dates_is_refuted() {
    for variant in [Variant::NoPutBack, Variant::SweepsByKey, Variant::GoesBack] {
        let wrong = refuted(variant, false);
        eprintln!("{variant:?} is refuted by {wrong:?}");
        assert!(!wrong.is_empty(), "{variant:?}");
    }
}

#[test]
fn a_leap_over_a_window_can_put_a_story_into_two() {
    let wrong = refuted(Variant::Whole, true);
    assert_eq!(wrong, ["two copies while the clock leaps over a window"]);
}
