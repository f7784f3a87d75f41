//! The protocol of `docs/internals/shared-forest.md`, searched: orders of the commands of two and three processes
//! that run the code itself, with crashes, expiry, lost replies and lost writes at any moment. Random orders go to
//! their end, one by one; `scripts/mutants --planted` has them find faults in that code.
//!
//! A process is a future, which cannot be copied: a state is the steps that led to it, done again when the search
//! comes back to it. Two states are one if Redis is the same and each process was told the same: a process does
//! nothing but by what it was told.
//!
//! `scripted` is the method, `scenarios` has what comes, `desk` is where the commands of a process stop, `people` adds
//! overrides and what follows from them, `world` is all of it at one moment, `law` what must be true. The states of a
//! scenario are bounded here; `SPINNEY_MODEL_STATES` goes further, in `scripts/test --all` to 4000.

mod desk;
mod law;
mod people;
mod scenarios;
mod scripted;
mod world;
mod writes;

use std::collections::{BTreeSet, HashMap};

use spinney_text::hash::splitmix64;

use law::Groups;
use scenarios::{AGEING, BYSTANDERS, DATED_ONES, Faults, NEAR_ONES, NEAR_THREE_ONES, PEOPLE, Scenario, THREE, TWO};
use world::{Step, World};

const NONE: Faults = Faults { crashes: 0, expiries: 0, ticks: 0, losses: 0, vanishes: 0 };

/// What a search came to.
#[derive(Debug, Default)]
struct Found {
    states: usize,
    ends: usize,
    cuts: usize,
    /// Ends at which documents are apart that one process would have put together.
    splits: usize,
    /// Provisional roots and dead leaves at an end, at most.
    provisional: usize,
    dead: usize,
    is_cut_short: bool,
    /// What was wrong, and the steps that led there.
    wrong: Option<String>,
}

/// A number that a variable may set.
fn number(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().and_then(|set| set.parse().ok()).unwrap_or(usual)
}

/// A state on the way to the present one.
struct Frame {
    number: u32,
    steps: Vec<Step>,
    next: usize,
}

/// Goes through the states of a scenario, depth first, `most` at most.
fn search(scenario: &Scenario, faults: Faults, most: usize) -> Found {
    let in_turn = law::in_turn(scenario);
    let mut found = Found::default();
    let mut marks: HashMap<u64, u32> = HashMap::new();
    let (mut edges, mut ends) = (Vec::new(), Vec::new());
    let mut path: Vec<Step> = Vec::new();
    let mut stack: Vec<Frame> = Vec::new();
    let begun = World::new(scenario, faults);
    marks.insert(begun.mark(), 0);
    stack.push(Frame { number: 0, steps: ordered(&begun), next: 0 });
    let mut live = Some(begun);
    while let Some(frame) = stack.last_mut() {
        let Some(&step) = frame.steps.get(frame.next) else {
            stack.pop();
            path.pop();
            live = None;
            continue;
        };
        frame.next += 1;
        let from = frame.number;
        let mut world = live.take().unwrap_or_else(|| replay(scenario, faults, &path));
        world.apply(step);
        let new = marks.len() as u32;
        let to = *marks.entry(world.mark()).or_insert(new);
        edges.push((from, to));
        if to != new {
            continue;
        }
        path.push(step);
        let mut checked = law::check(scenario, &world);
        let (is_cut, is_over) = (world.is_cut(), world.is_over());
        if is_cut || is_over {
            ends.push(to);
        }
        found.cuts += usize::from(is_cut);
        if is_over && !is_cut {
            found.ends += 1;
            let (provisional, dead) = law::left(&world);
            found.provisional = found.provisional.max(provisional);
            found.dead = found.dead.max(dead);
            checked = checked.and_then(|()| {
                found.splits += usize::from(law::check_end(scenario, &mut world, faults, &in_turn)?);
                Ok(())
            });
        }
        if let Err(wrong) = checked {
            found.wrong = Some(format!("{wrong}\n{}", trace(scenario, faults, &path)));
            break;
        }
        if marks.len() >= most {
            found.is_cut_short = true;
            break;
        }
        if is_over {
            // The law has placed documents in it.
            stack.push(Frame { number: to, steps: Vec::new(), next: 0 });
            continue;
        }
        let steps = if is_cut { Vec::new() } else { ordered(&world) };
        stack.push(Frame { number: to, steps, next: 0 });
        live = Some(world);
    }
    found.states = marks.len();
    if found.wrong.is_none() && !found.is_cut_short && has_stuck(marks.len(), &edges, &ends) {
        found.wrong = Some("from some state no end can be reached".to_owned());
    }
    found
}

/// The steps of a state, in an order that differs from state to state: a search that is cut short has gone everywhere.
fn ordered(world: &World<'_>) -> Vec<Step> {
    let (mut steps, mark) = (world.steps(), world.mark());
    let mut keyed: Vec<(u64, Step)> = steps.drain(..).zip(0..).map(|(s, at)| (splitmix64(mark ^ at), s)).collect();
    keyed.sort_unstable_by_key(|&(key, _)| key);
    keyed.into_iter().map(|(_, step)| step).collect()
}

fn replay<'s>(scenario: &'s Scenario, faults: Faults, path: &[Step]) -> World<'s> {
    let mut world = World::new(scenario, faults);
    path.iter().for_each(|&step| world.apply(step));
    world
}

/// One path to its end, by chance; what was wrong. Some paths stay with one process for long: one command may take as
/// long as all that another process does.
fn walk(scenario: &Scenario, faults: Faults, in_turn: &BTreeSet<Groups>, seed: u64) -> Option<String> {
    let mut world = World::new(scenario, faults);
    let mut path = Vec::new();
    let stays = [1, 4, 16][(seed % 3) as usize];
    let mut process = None;
    let wrong = loop {
        let mut steps = world.steps();
        if steps.is_empty() && !world.is_over() {
            break Some("nobody can go on".to_owned());
        }
        if world.is_over() {
            break law::check_end(scenario, &mut world, faults, in_turn).err();
        }
        if world.is_cut() {
            break None;
        }
        let chance = splitmix64(seed ^ (path.len() as u64) << 48);
        if !(chance >> 32).is_multiple_of(stays) && steps.iter().any(|step| step.process() == process) {
            steps.retain(|step| step.process() == process);
        }
        let step = steps[(chance as u32 as usize) % steps.len()];
        process = step.process();
        path.push(step);
        world.apply(step);
        if let Err(wrong) = law::check(scenario, &world) {
            break Some(wrong);
        }
    };
    Some(format!("{}\n{}", wrong?, trace(scenario, faults, &path)))
}

fn trace(scenario: &Scenario, faults: Faults, path: &[Step]) -> String {
    let mut world = World::new(scenario, faults);
    let mut text = String::new();
    for (at, &step) in path.iter().enumerate() {
        text.push_str(&format!("{:3} {}\n", at + 1, world.describe(step)));
        world.apply(step);
    }
    for (root, node) in world.nodes() {
        text.push_str(&format!("    {:x}: {node:?}\n", root.0.0));
    }
    text.push_str(&format!("    {:?}\n", world.told.lock()));
    text
}

/// Whether there is a state from which no end can be reached.
fn has_stuck(states: usize, edges: &[(u32, u32)], ends: &[u32]) -> bool {
    let mut from: Vec<Vec<u32>> = vec![Vec::new(); states];
    for &(of, to) in edges {
        from[to as usize].push(of);
    }
    let mut reached = vec![false; states];
    let mut open = ends.to_vec();
    for &end in ends {
        reached[end as usize] = true;
    }
    while let Some(at) = open.pop() {
        for &of in &from[at as usize] {
            if !std::mem::replace(&mut reached[of as usize], true) {
                open.push(of);
            }
        }
    }
    reached.contains(&false)
}

/// Searches all scenarios, of which none may show anything wrong; what was found of all of them.
fn hold(name: &str, scenarios: &[Scenario], faults: Faults, most: usize) -> Found {
    let mut all = Found::default();
    for scenario in scenarios {
        let found = search(scenario, faults, number("SPINNEY_MODEL_STATES", most));
        let short = if found.is_cut_short { ", cut short" } else { "" };
        eprintln!(
            "{name}, {}: {} states, {} ends, {} cut, {} of them apart, dead {}, provisional {}{short}",
            scenario.name, found.states, found.ends, found.cuts, found.splits, found.dead, found.provisional
        );
        if let Some(wrong) = &found.wrong {
            panic!("{name}, {}: {wrong}", scenario.name);
        }
        all.states += found.states;
        all.ends += found.ends;
        all.splits += found.splits;
        all.dead = all.dead.max(found.dead);
        all.provisional = all.provisional.max(found.provisional);
    }
    assert!(all.ends > 0, "{name}: no end was seen");
    all
}

const CRASH: Faults = Faults { crashes: 1, ..NONE };
const REPLY: Faults = Faults { losses: 1, ..NONE };

#[test]
fn two_processes_in_any_order() {
    let all = hold("two", TWO, NONE, 1_000);
    assert_eq!(all.provisional, 0, "without a crash no provisional root stays");
}

#[test]
fn three_processes() {
    let all = hold("three", THREE, NONE, 1_000);
    assert_eq!(all.provisional, 0, "without a crash no provisional root stays");
}

#[test]
fn a_crash_at_any_moment() {
    let all = hold("crash", TWO, CRASH, 1_000);
    assert!(all.provisional > 0, "a crash was to leave something");
}

#[test]
fn a_lease_that_runs_out_at_any_moment() {
    hold("lease", TWO, Faults { expiries: 1, ..NONE }, 1_000);
}

#[test]
fn a_window_that_moves() {
    hold("ageing", AGEING, Faults { expiries: 2, ticks: 1, ..NONE }, 2_000);
}

#[test]
fn a_crash_while_the_window_moves() {
    hold("ageing, crash", AGEING, Faults { crashes: 1, expiries: 1, ticks: 1, ..NONE }, 2_000);
}

#[test]
fn a_reply_that_does_not_come() {
    hold("reply", TWO, REPLY, 1_000);
}

#[test]
fn bystanders() {
    hold("bystanders", BYSTANDERS, NONE, 1_000);
    hold("bystanders, crash", BYSTANDERS, CRASH, 1_000);
}

#[test]
fn near_fingerprints() {
    hold("near", NEAR_ONES, NONE, 1_000);
    hold("near, crash", NEAR_ONES, CRASH, 1_000);
    hold("near, lease", NEAR_ONES, Faults { expiries: 1, ..NONE }, 1_000);
}

#[test]
fn fingerprints_three_bits_apart() {
    hold("three bits", NEAR_THREE_ONES, NONE, 1_000);
    hold("three bits, crash", NEAR_THREE_ONES, CRASH, 1_000);
    hold("three bits, reply", NEAR_THREE_ONES, REPLY, 1_000);
}

#[test]
fn documents_with_dates() {
    hold("dated", DATED_ONES, NONE, 1_000);
    hold("dated, crash", DATED_ONES, CRASH, 1_000);
}

#[test]
fn people_who_correct_groups() {
    hold("people", PEOPLE, NONE, 1_000);
    hold("people, crash", PEOPLE, CRASH, 1_000);
    hold("people, reply", PEOPLE, REPLY, 1_000);
}

/// What no protocol on such a Redis can keep from happening: documents that belong together are apart. It always comes
/// to an end, and what is left goes with its time.
#[test]
fn a_write_that_a_failover_loses() {
    let vanished = hold("vanish", TWO, Faults { vanishes: 1, ..NONE }, 1_000);
    assert!(vanished.splits > 0, "a lost write does nothing, so nothing was lost");
}

/// The reference of a scenario is computed by the code under test; a fault in both would be found by nothing else.
#[test]
fn near_documents_are_one_group_in_turn() {
    let one = BTreeSet::from([vec![Some(0), Some(0)]]);
    let two = BTreeSet::from([vec![Some(0), Some(1)]]);
    for scenario in NEAR_ONES.iter().chain(NEAR_THREE_ONES) {
        let expected = match scenario.name {
            "copies" | "one bit apart" | "three bits apart" => &one,
            "three bits apart, not agreeing" => &two,
            _ => continue,
        };
        assert_eq!(law::in_turn(scenario), *expected, "{}", scenario.name);
    }
}

/// One path after another. `SPINNEY_MODEL_SCENARIO` names one scenario as the failure does, `SPINNEY_MODEL_ORDERS` how
/// many paths of each.
#[test]
fn random_orders() {
    let groups: [(&str, &[Scenario], Faults); 9] = [
        ("two", TWO, NONE),
        ("two, crash", TWO, CRASH),
        ("two, reply", TWO, REPLY),
        ("three", THREE, NONE),
        ("bystanders", BYSTANDERS, NONE),
        ("near", NEAR_ONES, NONE),
        ("three bits", NEAR_THREE_ONES, NONE),
        ("dated", DATED_ONES, NONE),
        ("people", PEOPLE, NONE),
    ];
    let (only, orders) = (std::env::var("SPINNEY_MODEL_SCENARIO").ok(), number("SPINNEY_MODEL_ORDERS", 50));
    let mut walked = 0;
    for (group, scenarios, faults) in groups {
        for scenario in scenarios {
            let name = format!("{group}: {}", scenario.name);
            if only.as_ref().is_some_and(|only| *only != name) {
                continue;
            }
            let in_turn = law::in_turn(scenario);
            for seed in 1..=orders {
                if let Some(wrong) = walk(scenario, faults, &in_turn, splitmix64(seed as u64)) {
                    panic!("{name}, seed {seed}: {wrong}");
                }
            }
            walked += 1;
        }
    }
    assert!(walked > 0, "no scenario is named {only:?}");
}
