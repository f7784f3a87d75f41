//! Forests of several processes that place the same documents at the same moment.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Barrier};

use spinney::forest::document::{DocumentTime, ForestDocument};
use spinney::forest::port::ItemOutcome;
use spinney::forest::shared::{ForestSetup, SharedForest, SharedSettings};
use spinney::forest::{Decision, Root};
use spinney::method::{Attributes, LearnedText, Method, Similarity, Verified, Workspace};
use spinney::text::Fields;
use spinney::time::Millis;

use super::{Threads, place, settle, store};
use crate::common::redis::Redis;
use crate::restart::document;

/// One of several processes' forests.
fn forest(redis: &Redis, seed: u64) -> SharedForest<Verified> {
    let settings = SharedSettings { window: Some(Millis(3_600_000)), max_tree: None, founder_token_bytes: 64 << 20 };
    let (similarity, learned) = (Similarity::default(), LearnedText::default());
    let of = ("race", "a race");
    SharedForest::new(
        ForestSetup { name: of.0, identity: of.1, settings, thresholds: similarity, learned },
        Arc::new(Threads),
        store(redis),
        seed << 32,
    )
}

fn story(number: usize) -> ForestDocument {
    let written = document(number);
    let fields = Fields { title: written["title"].as_str(), body: &[written["content"].as_str().unwrap()] };
    let method = Method::Verified;
    ForestDocument {
        features: method.read_with(&fields, Attributes::default(), &mut Workspace::default()),
        when: DocumentTime::At(Millis(i64::MAX)),
        title: None,
        id: Default::default(),
        given: None,
    }
}

#[test]
fn copies_that_come_at_once_get_one_root() {
    const STORIES: usize = 300;
    const BULK: usize = 100;
    for redis in [Redis::start(), Redis::cluster(3)] {
        for processes in [2, 3] {
            let first = processes * 10_000;
            let barrier = Barrier::new(processes);
            let mut found: HashMap<usize, HashSet<Root>> = HashMap::new();
            std::thread::scope(|scope| {
                let (barrier, redis) = (&barrier, &redis);
                let race = |process: usize| {
                    scope.spawn(move || {
                        let forest = forest(redis, process as u64 + 1);
                        let mut found = Vec::new();
                        for bulk in (first..first + STORIES).collect::<Vec<_>>().chunks(BULK) {
                            // Each in an order of its own.
                            let mut numbers = bulk.to_vec();
                            numbers.sort_by_key(|n| n.wrapping_mul(2 * process + 7_919) % 1_009);
                            barrier.wait();
                            let documents = numbers.iter().map(|&n| story(n)).collect();
                            let placed = place(&forest, documents);
                            found.extend(numbers.iter().copied().zip(placed.iter().map(|p| p.root)));
                            settle(&forest, placed, ItemOutcome::Accepted);
                        }
                        found
                    })
                };
                let racers: Vec<_> = (0..processes).map(race).collect();
                for (number, root) in racers.into_iter().flat_map(|racer| racer.join().unwrap()) {
                    found.entry(number).or_default().insert(root);
                }
            });
            let split: Vec<_> = found.iter().filter(|(_, roots)| roots.len() > 1).collect();
            let kind = if redis.is_cluster() { "a cluster" } else { "one node" };
            assert!(split.is_empty(), "{processes} on {kind}: {split:?}");
            assert_eq!(found.len(), STORIES);
        }
        // What is refused leaves as much as there was, but for evidence, and for the leaves of those that joined a tree
        // that stays.
        let (keys, forest) = (redis.keys(), forest(&redis, 9));
        let placed = place(&forest, (50_000..50_100).map(story).collect());
        let (mut founded, mut stay) = (HashSet::new(), 0);
        for placed in &placed {
            match placed.decision {
                Decision::NewRoot => drop(founded.insert(placed.root)),
                _ if !founded.contains(&placed.root) => {
                    stay += placed.ticket.as_ref().map_or(0, |ticket| ticket.rollback.node_count());
                }
                _ => {}
            }
        }
        assert!(!founded.is_empty() && redis.keys() > keys);
        settle(&forest, placed, ItemOutcome::Refused);
        let more = redis.keys() - keys;
        let most = founded.len() + stay;
        assert!(more <= most, "{more} more keys, {most} at most");
    }
}
