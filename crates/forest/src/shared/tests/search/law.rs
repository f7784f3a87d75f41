//! What must be true of a state, and of an end.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::super::super::layout::{NodeValue, STEPS};
use super::scenarios::{Faults, Scenario};
use super::world::{Told, WINDOW, World};
use crate::Root;

/// For each document the first one that has the same root; `None` where it has none.
pub(super) type Groups = Vec<Option<usize>>;

fn groups(told: &[Option<Told>]) -> Groups {
    let root = |told: &Option<Told>| told.map(|told| told.root);
    let first = |of: &Option<Told>| told.iter().position(|other| root(other) == root(of));
    told.iter().map(|of| of.as_ref().and_then(|_| first(of))).collect()
}

/// All answers of one process to which the documents of the bulks come one by one, in any order that keeps the bulks
/// of each process in turn, and in which those that are refused are withdrawn at any time after.
pub(super) fn in_turn(scenario: &Scenario) -> BTreeSet<Groups> {
    let mut all: BTreeSet<Groups> = scenario.also.iter().map(|groups| groups.to_vec()).collect();
    let mut seen = HashSet::new();
    let mut open: Vec<Vec<Turn>> = vec![Vec::new()];
    while let Some(turns) = open.pop() {
        let mut world = World::without_processes(scenario, Faults::default());
        for turn in &turns {
            match *turn {
                Turn::Place(doc) => world.place_alone(doc),
                Turn::Withdraw(doc) => world.withdraw(doc),
            }
        }
        let mut done = turns.clone();
        done.sort_unstable();
        if !seen.insert((world.mark(), done)) {
            continue;
        }
        let next = next_turns(scenario, &turns);
        if next.is_empty() {
            all.insert(groups(&world.told.lock()));
        }
        open.extend(next.into_iter().map(|turn| [&turns[..], &[turn]].concat()));
    }
    all
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Turn {
    Place(usize),
    Withdraw(usize),
}

fn next_turns(scenario: &Scenario, turns: &[Turn]) -> Vec<Turn> {
    let is_placed = |doc: usize| turns.contains(&Turn::Place(doc));
    let is_over = |doc: usize| match scenario.docs[doc].refused {
        true => turns.contains(&Turn::Withdraw(doc)),
        false => is_placed(doc),
    };
    let mut next = Vec::new();
    for bulks in scenario.bulks {
        for (at, bulk) in bulks.iter().enumerate() {
            let is_turn = bulks[..at].iter().flat_map(|bulk| bulk.iter()).all(|&doc| is_over(doc));
            for &doc in bulk.iter().filter(|_| is_turn) {
                match (is_placed(doc), is_over(doc)) {
                    (false, _) => next.push(Turn::Place(doc)),
                    (true, false) => next.push(Turn::Withdraw(doc)),
                    (true, true) => {}
                }
            }
        }
    }
    next
}

/// What must be true in every state.
pub(super) fn check(scenario: &Scenario, world: &World<'_>) -> Result<(), String> {
    world.index.lock().check()?;
    if world.has_lost || scenario.leaps {
        return Ok(());
    }
    let nodes: BTreeMap<Root, _> = world.nodes().into_iter().collect();
    let told = world.told.lock();
    let mut uses: BTreeMap<Root, u16> = BTreeMap::new();
    // A tree lives a window from its last document.
    let is_in_time = |told: &Told| told.time + WINDOW > world.time();
    for (doc, answer) in told.iter().enumerate() {
        let Some(answer) = answer.filter(is_in_time) else {
            continue;
        };
        let is_there = match nodes.get(&answer.root) {
            Some(NodeValue::Root(root)) => root.is_confirmed && Some(root.token) == answer.token,
            _ => answer.token.is_none(),
        };
        if !is_there {
            return Err(format!("document {doc} was told root {:x}, which is not there", answer.root.0.0));
        }
        *uses.entry(answer.root).or_default() += 1;
        for (other, earlier) in told.iter().enumerate().take(doc) {
            let is_same = scenario.docs[other].text == scenario.docs[doc].text;
            if is_same && earlier.is_some_and(|told| is_in_time(&told) && told.root != answer.root) {
                return Err(format!("documents {other} and {doc} are the same text and have two roots"));
            }
        }
    }
    for (root, used) in uses {
        if let Some(NodeValue::Root(kept)) = nodes.get(&root)
            && kept.uses < used
        {
            return Err(format!("root {:x} has {} uses for {used} documents", root.0.0, kept.uses));
        }
    }
    Ok(())
}

/// What must be true when nothing is left to do. Answers whether documents are apart that one process would have put
/// together: what a lost write can do.
pub(super) fn check_end(
    scenario: &Scenario,
    world: &mut World<'_>,
    faults: Faults,
    in_turn: &BTreeSet<Groups>,
) -> Result<bool, String> {
    if !world.has_crashed() {
        world.index.lock().check_end()?;
    }
    if world.has_crashed() || world.time() > 0 || faults.expiries > 0 {
        return Ok(false);
    }
    if scenario.leaps {
        return check_return(scenario, world).map(|()| false);
    }
    let groups = groups(&world.told.lock());
    let is_of_an_order = in_turn.contains(&groups);
    if world.has_lost {
        return Ok(!is_of_an_order);
    }
    if !is_of_an_order {
        return Err(format!("answers {groups:?} are those of no order; of orders: {in_turn:?}"));
    }
    if faults == Faults::default() {
        for (root, node) in world.nodes() {
            let NodeValue::Root(kept) = node else { continue };
            let told = world.told.lock();
            let uses = told.iter().flatten().filter(|told| told.root == root).count();
            if usize::from(kept.uses) != uses || !kept.is_confirmed {
                let (confirmed, kept) = (kept.is_confirmed, kept.uses);
                return Err(format!(
                    "root {:x} has {kept} uses for {uses} documents, confirmed: {confirmed}",
                    root.0.0
                ));
            }
        }
    }
    check_return(scenario, world)?;
    Ok(false)
}

/// What was accepted, and whose date is within the window, is found in the same tree when it comes again.
fn check_return(scenario: &Scenario, world: &mut World<'_>) -> Result<(), String> {
    let told = world.told.lock().clone();
    let accepted = || told.iter().enumerate().filter_map(|(doc, told)| Some((doc, (*told)?)));
    let date = |doc: usize| i64::from(scenario.docs[doc].rank);
    let clock = accepted().map(|(doc, _)| date(doc)).chain(scenario.trees.iter().map(|&doc| date(doc))).max();
    let is_over = |doc: usize| scenario.is_dated && date(doc) + STEPS < clock.unwrap_or_default();
    let sought: Vec<_> =
        accepted().filter(|(doc, told)| !is_over(*doc) && !world.missed.contains(&told.root)).collect();
    for (doc, told) in sought {
        let now = world.ask_alone(doc);
        let (was, now) = (Some((told.root, told.token)), now.map(|now| (now.root, now.token)));
        if now != was {
            return Err(format!("document {doc} was told {was:x?} and comes again to {now:x?}"));
        }
    }
    Ok(())
}

/// How many provisional roots and dead leaves are left.
pub(super) fn left(world: &World<'_>) -> (usize, usize) {
    let nodes: BTreeMap<Root, _> = world.nodes().into_iter().collect();
    let provisional = nodes.values().filter(|node| matches!(node, NodeValue::Root(root) if !root.is_confirmed));
    let dead = nodes.values().filter(|node| match node {
        NodeValue::Leaf(leaf) => match nodes.get(&leaf.root) {
            Some(NodeValue::Root(root)) => root.token != leaf.token,
            _ => true,
        },
        NodeValue::Root(_) => false,
    });
    (provisional.count(), dead.count())
}
