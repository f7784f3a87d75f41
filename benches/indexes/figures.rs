//! How the figures of an index are taken, the same for all of them.

use std::path::Path;
use std::time::Instant;

use serde_json::json;

use super::data::{Found, read_truth};
use super::own::spent;

/// Nothing but filling is measured for longer, in seconds: some indexes answer a thousandth of what others do.
pub const LONGEST: f64 = 30.0;
/// Look-ups that are timed one by one, at most.
const TIMED: usize = 400_000;

/// The figures of one index.
pub struct Figures {
    pub name: String,
    pub nodes: usize,
    pub insert_per_s: f64,
    pub lookups_per_s_batched: f64,
    /// The median and the 99th percentile of one look-up after the other.
    pub lookup_us: (f64, f64),
    /// None for an index that cannot forget.
    pub placements_per_s: Option<f64>,
    pub bytes_per_node: f64,
    pub exact: bool,
}

impl Figures {
    /// One line of JSON.
    pub fn line(&self, dist: &str) -> String {
        let whole = |rate: f64| rate.round() as u64;
        let places = |value: f64| (value * 100.0).round() / 100.0;
        json!({
            "bench": "index",
            "impl": self.name,
            "dist": dist,
            "nodes": self.nodes,
            "insert_per_s": whole(self.insert_per_s),
            "lookups_per_s_batched": whole(self.lookups_per_s_batched),
            "lookup_p50_us": places(self.lookup_us.0),
            "lookup_p99_us": places(self.lookup_us.1),
            "placements_per_s": self.placements_per_s.map(whole),
            "bytes_per_node": places(self.bytes_per_node),
            "exact": self.exact,
        })
        .to_string()
    }
}

/// How many a second of these are worked off, part by part, or as many of them as `longest` seconds are enough for.
pub fn rate(all: &[u64], part: usize, longest: f64, mut work: impl FnMut(&[u64])) -> f64 {
    let started = spent();
    let mut done = 0;
    for part in all.chunks(part) {
        work(part);
        done += part.len();
        // Looking at this clock costs as much as some look-ups.
        if done % 1_000 < part.len() && spent() - started > longest {
            break;
        }
    }
    done as f64 / (spent() - started)
}

/// The median and the 99th percentile of what one takes, in microseconds.
pub fn latency(all: &[u64], mut work: impl FnMut(u64)) -> (f64, f64) {
    let begun = Instant::now();
    let mut times = Vec::with_capacity(TIMED);
    for &one in all.iter().take(TIMED) {
        let started = Instant::now();
        work(one);
        times.push(started.elapsed().as_secs_f64() * 1e6);
        if begun.elapsed().as_secs_f64() > LONGEST {
            break;
        }
    }
    times.sort_by(f64::total_cmp);
    let quantile = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    (quantile(0.5), quantile(0.99))
}

/// Whether an index finds what a scan found.
pub fn is_exact(folder: &Path, k: u32, queries: &[u64], mut near: impl FnMut(u64, &mut Found)) -> anyhow::Result<bool> {
    let truth = read_truth(folder, k)?;
    let answered = truth.iter().zip(queries).map(|(&expected, &query)| {
        let mut found = (0, 0);
        near(query, &mut found);
        found == expected
    });
    Ok(answered.filter(|&right| !right).count() == 0)
}
