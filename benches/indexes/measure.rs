//! What is measured of an index, by the clock.

use std::collections::VecDeque;
use std::time::Instant;

use spinney::fingerprint::{Distance, Fingerprint};
use spinney::hamming::{Entry, NodeIndex};
use spinney::hash::HashKey;

use super::codes::Codes;

/// Look-ups that are asked for together.
const BATCH: usize = 16;

/// The figures of one index.
pub struct Measured {
    pub nodes: usize,
    pub insert_per_s: f64,
    pub slowest_insert_ms: f64,
    pub lookups_per_s_batched: f64,
    pub lookup_p50_us: f64,
    pub lookup_p99_us: f64,
    pub placements_per_s: f64,
    pub bytes_per_node: f64,
    pub resident_per_node: f64,
    pub exact: bool,
}

/// Fills an index and measures it. `truth` is what a scan finds for the first queries.
pub fn measure(k: u32, codes: &Codes, truth: &[(u32, u64)], say: impl Fn(&str)) -> Measured {
    // A key like those that are drawn, but every time the same.
    let key = HashKey::new(0x8c5a_96b3_2f1e_d947, 0x1d3b_79e5_0f42_a8c6);
    let mut index = NodeIndex::new(Distance(k), key).expect("a distance in range");
    let before = resident_bytes();

    say("inserting");
    let mut slowest = 0.0_f64;
    let started = Instant::now();
    for (i, part) in codes.nodes.chunks(BATCH).enumerate() {
        for &code in part {
            insert(&mut index, code, i);
        }
    }
    let insert_per_s = codes.nodes.len() as f64 / started.elapsed().as_secs_f64();
    let nodes = index.len();
    let bytes_per_node = index.memory_bytes() as f64 / nodes as f64;
    let resident_per_node = resident_bytes().saturating_sub(before) as f64 / nodes as f64;

    say("comparing with a scan");
    let exact = truth.iter().zip(&codes.queries).all(|(&expected, &query)| {
        let mut found = (0, 0);
        index.near(Fingerprint(query), |code, _, _| {
            found = (found.0 + 1, found.1 ^ code.0);
        });
        found == expected
    });

    say("looking up");
    let mut met = 0_u64;
    let started = Instant::now();
    let mut batch = Vec::with_capacity(BATCH);
    for queries in codes.queries.chunks(BATCH) {
        batch.clear();
        batch.extend(queries.iter().map(|&query| Fingerprint(query)));
        index.prefetch(&batch);
        for &query in &batch {
            index.near(query, |_, _, _| met += 1);
        }
    }
    let lookups_per_s_batched = codes.queries.len() as f64 / started.elapsed().as_secs_f64();
    let mut times: Vec<f64> = codes
        .queries
        .iter()
        .take(400_000)
        .map(|&query| {
            let started = Instant::now();
            index.near(Fingerprint(query), |_, _, _| met += 1);
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let quantile = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    std::hint::black_box(met);

    say("placing");
    // What a forest does with a fingerprint: it looks for what is near, makes a node or refreshes the one there is, and lets
    // an old one go for every new one.
    let mut oldest: VecDeque<u64> = codes.nodes.iter().copied().take(codes.arrivals.len()).collect();
    let started = Instant::now();
    for (i, arrivals) in codes.arrivals.chunks(BATCH).enumerate() {
        batch.clear();
        batch.extend(arrivals.iter().map(|&arrival| Fingerprint(arrival)));
        index.prefetch(&batch);
        for &arrival in &batch {
            let begun = Instant::now();
            let mut nearest = None;
            index.near(arrival, |_, distance, entry| {
                nearest = nearest.max(Some((std::cmp::Reverse(distance), entry.root)));
            });
            match nearest {
                Some((std::cmp::Reverse(Distance(0)), _)) => {
                    index.set_tick(arrival, i as u32);
                }
                _ => {
                    insert(&mut index, arrival.0, i);
                    if let Some(old) = oldest.pop_front() {
                        index.remove(Fingerprint(old));
                    }
                }
            }
            slowest = slowest.max(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    let placements_per_s = codes.arrivals.len() as f64 / started.elapsed().as_secs_f64();
    Measured {
        nodes,
        insert_per_s,
        slowest_insert_ms: slowest,
        lookups_per_s_batched,
        lookup_p50_us: quantile(0.5),
        lookup_p99_us: quantile(0.99),
        placements_per_s,
        bytes_per_node,
        resident_per_node,
        exact,
    }
}

fn insert(index: &mut NodeIndex, code: u64, tick: usize) {
    let entry = Entry {
        root: (code >> 40) as u32,
        tick: tick as u32,
    };
    index.insert(Fingerprint(code), entry).expect("room");
}

/// Memory of this process that is resident (Linux).
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split_whitespace().nth(1);
    pages.and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
