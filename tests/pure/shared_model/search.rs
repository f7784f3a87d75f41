//! Breadth first through all states that a scenario can come to, and what must be true of each.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use super::law::{Answers, groups, sequential};
use super::scenarios::{Faults, Scenario, Variant};
use super::sidecar::Phase;
use super::store::{KEYS, Key, Value};
use super::world::World;

/// Marks are mixed already.
#[derive(Default)]
struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, mark: u64) {
        self.0 = mark;
    }
}

type Marks = HashMap<u64, u32, BuildHasherDefault<Plain>>;

#[derive(Debug, Default)]
pub struct Found {
    pub states: usize,
    pub ends: usize,
    pub cuts: usize,
    /// Ends at which two documents that one order would have put together are apart: what a lost write can do.
    pub splits: usize,
    /// Dead leaves and provisional roots that were left at an end, at most.
    pub dead: usize,
    pub provisional: usize,
    /// The search was ended before it had seen all.
    pub is_cut_short: bool,
    /// What was wrong, and the steps that led there.
    pub wrong: Option<String>,
}

pub struct Search<'a> {
    pub scenario: &'a Scenario,
    pub variant: Variant,
    pub faults: Faults,
    /// States, at most.
    pub most: usize,
}

impl Search<'_> {
    pub fn run(&self) -> Found {
        let answers = sequential(self.scenario);
        let mut found = Found::default();
        let start = World::new(self.scenario, self.faults);
        let mut marks = Marks::default();
        let mut parents: Vec<u32> = vec![0];
        let mut edges: Vec<(u32, u32)> = Vec::new();
        let mut ends: Vec<u32> = Vec::new();
        marks.insert(start.mark(), 0);
        let mut layer = vec![(0_u32, start)];
        while !layer.is_empty() {
            let mut next = Vec::new();
            for (at, world) in layer {
                if world.is_cut() {
                    found.cuts += 1;
                    ends.push(at);
                    continue;
                }
                if world.is_over() {
                    found.ends += 1;
                    ends.push(at);
                    if let Err(wrong) = self.check_end(&world, &answers, &mut found) {
                        found.wrong = Some(format!("{wrong}\n{}", self.trace(&parents, at)));
                        found.states = parents.len();
                        return found;
                    }
                }
                let mut wrong = None;
                world.steps(self.scenario, self.variant, |_, after| {
                    let new = parents.len() as u32;
                    let to = *marks.entry(after.mark()).or_insert(new);
                    edges.push((at, to));
                    if to == new {
                        parents.push(at);
                        if let Err(said) = self.check(&after) {
                            wrong.get_or_insert((said, to));
                        }
                        next.push((to, after));
                    }
                });
                if let Some((said, to)) = wrong {
                    found.wrong = Some(format!("{said}\n{}", self.trace(&parents, to)));
                    found.states = parents.len();
                    return found;
                }
            }
            if parents.len() > self.most {
                found.is_cut_short = true;
                break;
            }
            layer = next;
        }
        found.states = parents.len();
        if !found.is_cut_short
            && let Some(stuck) = stuck(parents.len(), &edges, &ends)
        {
            found.wrong = Some(format!("no end can be reached\n{}", self.trace(&parents, stuck)));
        }
        found
    }

    /// What must be true in every state.
    fn check(&self, world: &World) -> Result<(), String> {
        if world.has_lost {
            return Ok(());
        }
        let mut uses = [0; KEYS];
        for (doc, answer) in world.history.answers.iter().enumerate() {
            let Some(answer) = answer.filter(|answer| answer.now == world.epoch) else {
                continue;
            };
            let root = usize::from(answer.root);
            if !world.store[root].is_confirmed(answer.token) {
                return Err(format!("document {doc} was told root {root}, which is not there"));
            }
            uses[root] += 1;
            for (other, told) in world.history.answers.iter().enumerate().take(doc) {
                let is_same = self.scenario.docs[other].text == self.scenario.docs[doc].text;
                if is_same && told.is_some_and(|told| told.now == world.epoch && told.root != answer.root) {
                    return Err(format!("documents {other} and {doc} are the same text and have two roots"));
                }
            }
        }
        // Who does not pin is not counted.
        let counted = if self.variant == Variant::NoPin { 0 } else { KEYS };
        for (key, used) in uses.into_iter().enumerate().take(counted) {
            if world.store[key].root().is_some_and(|root| root.is_confirmed && root.uses < used) {
                return Err(format!("root {key} has fewer uses than documents that rest on it"));
            }
        }
        if world.epoch == 0 { self.check_roots(world) } else { Ok(()) }
    }

    /// No two confirmed trees that agree, and that each saw the other of.
    fn check_roots(&self, world: &World) -> Result<(), String> {
        let offered = |doc: usize| self.scenario.docs[doc].prints.iter().fold(0, |mask, &key| mask | 1 << key);
        let confirmed = || {
            let roots = world.store.iter().enumerate().filter_map(|(key, value)| Some((key, value.root()?)));
            roots.filter(|(_, root)| root.is_confirmed)
        };
        for (key, root) in confirmed() {
            for (other_key, other) in confirmed().filter(|(other, _)| *other > key) {
                let (one, two) = (usize::from(root.founder), usize::from(other.founder));
                let sees = |one: usize, two: usize| world.history.founded[two] & offered(one) != 0;
                if self.scenario.agrees(one, two) && sees(one, two) && sees(two, one) {
                    return Err(format!("roots {key} and {other_key} are one story"));
                }
            }
        }
        Ok(())
    }

    /// What must be true when nothing is left to do.
    fn check_end(&self, world: &World, orders: &BTreeSet<Answers>, found: &mut Found) -> Result<(), String> {
        let dead = world.store.iter().filter_map(|value| value.leaf());
        let dead =
            dead.filter(|leaf| world.store[usize::from(leaf.root)].root().is_none_or(|root| root.token != leaf.token));
        found.dead = found.dead.max(dead.count());
        let provisional = world.store.iter().filter_map(|value| value.root());
        found.provisional = found.provisional.max(provisional.filter(|root| !root.is_confirmed).count());
        let has_crashed = world.sides.iter().any(|side| side.phase == Phase::Crashed);
        if has_crashed || world.epoch > 0 || self.faults.expiries > 0 {
            return Ok(());
        }
        let roots = world.history.answers.iter().take(self.scenario.docs.len());
        let roots: Vec<Option<Key>> = roots.map(|answer| answer.map(|answer| answer.root)).collect();
        let answers = groups(&roots);
        let is_of_an_order = orders.contains(&answers);
        if world.has_lost {
            found.splits += usize::from(!is_of_an_order);
            return Ok(());
        }
        if !is_of_an_order {
            return Err(format!("answers {answers:?} are those of no order; of orders: {orders:?}"));
        }
        if self.faults == Faults::default() {
            for (key, value) in world.store.iter().enumerate() {
                let Value::Root(root) = value else { continue };
                let rests = |answer: &&Option<_>| {
                    answer.is_some_and(|answer: super::world::Answer| usize::from(answer.root) == key)
                };
                let uses = world.history.answers.iter().filter(rests).count();
                if usize::from(root.uses) != uses || !root.is_confirmed {
                    return Err(format!(
                        "root {key} has {} uses for {uses} documents, confirmed: {}",
                        root.uses, root.is_confirmed
                    ));
                }
            }
        }
        Ok(())
    }

    /// The steps that led to a state, one a line.
    fn trace(&self, parents: &[u32], to: u32) -> String {
        let mut path = vec![to];
        while let Some(&last) = path.last()
            && last != 0
        {
            path.push(parents[last as usize]);
        }
        path.reverse();
        let mut world = World::new(self.scenario, self.faults);
        // Numbers are given in the order of the search: it is run again, for this path alone.
        let mut marks = Marks::default();
        marks.insert(world.mark(), 0);
        let mut text = String::new();
        let mut numbers = Renumber { marks, next: 1 };
        let goal: BTreeSet<u32> = path.iter().copied().collect();
        let mut layer = vec![(0_u32, world)];
        let mut steps: HashMap<u32, (String, World)> = HashMap::new();
        while !layer.is_empty() && steps.len() + 1 < goal.len() {
            let mut next = Vec::new();
            for (_, world) in layer {
                if world.is_cut() {
                    continue;
                }
                world.steps(self.scenario, self.variant, |step, after| {
                    if let Some(new) = numbers.number(after.mark()) {
                        if goal.contains(&new) {
                            steps.insert(new, (format!("{step:?}"), after));
                        }
                        next.push((new, after));
                    }
                });
            }
            layer = next;
        }
        for (at, number) in path.iter().enumerate().skip(1) {
            if let Some((step, after)) = steps.get(number) {
                text.push_str(&format!("{at:3} {step}\n"));
                world = *after;
            }
        }
        for key in 0..KEYS as Key {
            text.push_str(&format!("    {key}: {:?}\n", world.store[usize::from(key)]));
        }
        text.push_str(&format!("    {:?}\n", world.history.answers));
        text
    }
}

struct Renumber {
    marks: Marks,
    next: u32,
}

impl Renumber {
    fn number(&mut self, mark: u64) -> Option<u32> {
        let new = self.next;
        let to = *self.marks.entry(mark).or_insert(new);
        (to == new).then(|| {
            self.next += 1;
            new
        })
    }
}

/// A state from which no end can be reached.
fn stuck(states: usize, edges: &[(u32, u32)], ends: &[u32]) -> Option<u32> {
    let mut first = vec![0_u32; states + 1];
    for &(_, to) in edges {
        first[to as usize + 1] += 1;
    }
    for at in 0..states {
        first[at + 1] += first[at];
    }
    let mut fill = first.clone();
    let mut from = vec![0_u32; edges.len()];
    for &(of, to) in edges {
        from[fill[to as usize] as usize] = of;
        fill[to as usize] += 1;
    }
    let mut reached = vec![false; states];
    let mut open: Vec<u32> = ends.to_vec();
    for &end in ends {
        reached[end as usize] = true;
    }
    while let Some(at) = open.pop() {
        for &of in &from[first[at as usize] as usize..first[at as usize + 1] as usize] {
            if !reached[of as usize] {
                reached[of as usize] = true;
                open.push(of);
            }
        }
    }
    reached.iter().position(|&is| !is).map(|at| at as u32)
}
