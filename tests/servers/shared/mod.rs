//! Forests that several processes share by a Redis: what Redis does with single keys, forests that race each
//! other, several sidecars in front of one search server, and what breaks under them.

mod doors;
mod faults;
mod fields;
mod full;
mod keys;
mod kinds;
mod load;
mod local_fallback;
mod near;
mod overrides;
mod race;
mod sidecars;
mod transfer;
mod weeks;

use std::process::Command as Process;
use std::sync::{Arc, Barrier};

use futures_executor::block_on;
use spinney::forest::Root;
use spinney::forest::document::ForestDocument;
use spinney::forest::local::Executor;
use spinney::forest::port::{Batch, ForestPort, ItemOutcome, RootAssignment};
use spinney::forest::shared::keys::RedisClient;
use spinney::forest::shared::{ForestSetup, SharedForest, SharedSettings};
use spinney::hash::splitmix64;
use spinney::method::{LearnedText, Similarity, Verified};
use spinney::redis::{Address, TcpRedis};
use spinney::time::Millis;

use crate::common::redis::Redis;

fn store(redis: &Redis) -> Arc<dyn RedisClient> {
    let address = Address::parse(&redis.url()).unwrap();
    Arc::new(TcpRedis::new(address, redis.ca().as_deref()).unwrap())
}

struct Threads;

impl Executor for Threads {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        std::thread::spawn(job);
    }
}

/// The forest of this name that sidecars have in a Redis, as one more process.
pub fn forest_of(redis: &Redis, name: &str) -> SharedForest<Verified> {
    let identity = redis.command(&format!("HGET spinney:forests \"identity:{name}\""));
    let identity = identity.lines().nth(1).expect("its settings");
    let settings = SharedSettings { window: None, max_tree: None, founder_token_bytes: 64 << 20 };
    let (similarity, learned) = (Similarity::default(), LearnedText::default());
    SharedForest::new(
        ForestSetup { name, identity, settings, thresholds: similarity, learned },
        Arc::new(Threads),
        store(redis),
        1 << 40,
    )
}

/// What a field of an answer of Redis says, of all nodes together.
fn info(redis: &Redis, section: &str, field: &str) -> f64 {
    let of = |port: u16| -> f64 {
        let port = port.to_string();
        let info = Process::new("redis-cli").args(["-p", &port, "INFO", section]).output();
        let info = String::from_utf8_lossy(&info.unwrap().stdout).into_owned();
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
        line.unwrap().trim().parse().unwrap()
    };
    redis.ports().map(of).sum()
}

fn place(forest: &dyn ForestPort, documents: Vec<ForestDocument>) -> Vec<RootAssignment> {
    let batch = Batch { documents, ..Batch::default() };
    let replies = block_on(forest.place(batch)).unwrap().replies;
    let placed = replies.into_iter().map(|reply| reply.placed.unwrap());
    placed.collect()
}

fn settle(forest: &dyn ForestPort, placed: Vec<RootAssignment>, outcome: ItemOutcome) {
    let settled = placed.into_iter().filter_map(|placed| placed.settled(outcome));
    let batch = settled.collect();
    block_on(forest.settle(batch, Millis(0))).unwrap();
}

/// Sends the same stories to as many forests at the same moment, in another order to each, and gives the root of each
/// story, which is to be the same in all of them. `forest`: of a process. `document`: what a process gets of a story.
fn race<P: ForestPort>(
    processes: u64,
    stories: u64,
    forest: impl Fn(u64) -> P + Sync,
    document: impl Fn(u64, u64) -> ForestDocument + Sync,
) -> Vec<(u64, Root)> {
    let barrier = Barrier::new(processes as usize);
    let (forest, document, barrier) = (&forest, &document, &barrier);
    let race = &|process: u64| {
        let forest = forest(process);
        let mut found = Vec::new();
        for bulk in (0..stories).collect::<Vec<_>>().chunks(100) {
            let mut stories = bulk.to_vec();
            stories.sort_by_key(|story| splitmix64(story ^ process << 40));
            let documents = stories.iter().map(|&story| document(story, process));
            let documents = documents.collect();
            barrier.wait();
            let placed = place(&forest, documents);
            found.extend(stories.iter().copied().zip(placed.iter().map(|p| p.root)));
            settle(&forest, placed, ItemOutcome::Accepted);
        }
        found.sort_unstable();
        found
    };
    let mut found: Vec<Vec<(u64, Root)>> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..processes).map(|process| scope.spawn(move || race(process))).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    assert!(found.iter().all(|roots| *roots == found[0]), "{processes}");
    found.swap_remove(0)
}
