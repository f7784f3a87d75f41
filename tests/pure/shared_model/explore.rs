//! Breadth first through all states of a small world, for searches that have one of their own.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

/// Whether a state is an end.
pub enum Ended {
    No,
    /// And nothing comes after it.
    Yes,
    /// Something may still happen.
    AtRest,
}

/// The states and ends seen, `most` states at most, or what was wrong: with a state, or that from one of them no end
/// can be reached.
pub fn explore<W: Clone + Eq + Hash>(
    start: W,
    most: usize,
    mut ended: impl FnMut(&W) -> Result<Ended, String>,
    steps: impl Fn(&W) -> Vec<W>,
    check: impl Fn(&W) -> Result<(), String>,
) -> Result<(usize, usize), String> {
    let mut known: HashMap<W, usize> = HashMap::from([(start.clone(), 0)]);
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut ends = HashSet::new();
    let mut open = VecDeque::from([(0, start)]);
    while let Some((at, world)) = open.pop_front() {
        if before.len() > most {
            return Ok((before.len(), ends.len()));
        }
        match ended(&world)? {
            Ended::No => {}
            Ended::AtRest => _ = ends.insert(at),
            Ended::Yes => {
                ends.insert(at);
                continue;
            }
        }
        for after in steps(&world) {
            check(&after)?;
            let new = before.len();
            let to = *known.entry(after.clone()).or_insert(new);
            if to == new {
                before.push(Vec::new());
                open.push_back((to, after));
            }
            before[to].push(at);
        }
    }
    let mut reached: HashSet<usize> = ends.clone();
    let mut open: Vec<usize> = ends.iter().copied().collect();
    while let Some(at) = open.pop() {
        let from = before[at].iter().copied();
        open.extend(from.filter(|&from| reached.insert(from)));
    }
    if reached.len() < before.len() {
        return Err("an end cannot be reached".into());
    }
    Ok((before.len(), ends.len()))
}
