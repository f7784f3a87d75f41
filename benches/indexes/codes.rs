//! The fingerprints that an index is filled with and asked for.

use std::path::Path;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde::Deserialize;
use spinney::hash::{SplitMix64, splitmix64};
use spinney::method::{Method, Weights};
use spinney::text::{Fields, Scratch, load_dictionary};

use super::data::{CHECKED, Data, Found};

/// So many of 100 fingerprints are planted: another one with 1 to 3 bits flipped.
const PLANTED: usize = 15;
const SEED: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dist {
    /// Every bit by chance
    Uniform,
    /// Those of texts, with 6 to 20 bits flipped: so they are others, and what is skewed about them stays
    Real,
    /// Halves that ten thousand share, or all bits of a half but seven
    Adversarial,
}

/// Makes fingerprints of a distribution. `texts` are those that the real ones begin with.
pub fn make(dist: Dist, nodes: usize, queries: usize, texts: &[u64]) -> Data {
    let mut random = SplitMix64(SEED);
    let mut codes = Vec::with_capacity(nodes);
    for _ in 0..nodes {
        codes.push(next(dist, nodes, texts, &codes, &mut random));
    }
    codes.sort_unstable();
    codes.dedup();
    for i in (1..codes.len()).rev() {
        codes.swap(i, below(&mut random, i + 1));
    }
    let mut more = || next(dist, nodes, texts, &codes, &mut random);
    let asked = (0..queries).map(|_| more()).collect();
    let arrivals = (0..queries).map(|_| more()).collect();
    Data { queries: asked, arrivals, nodes: codes }
}

fn next(dist: Dist, nodes: usize, texts: &[u64], others: &[u64], random: &mut SplitMix64) -> u64 {
    if !others.is_empty() && below(random, 100) < PLANTED {
        let other = others[below(random, others.len())];
        let flips = 1 + below(random, 3);
        return flip(other, flips, random);
    }
    let any = random.next_u64();
    match dist {
        Dist::Uniform => any,
        Dist::Real => {
            let text = texts[below(random, texts.len())];
            let flips = 6 + below(random, 15);
            flip(text, flips, random)
        }
        Dist::Adversarial => {
            let half = splitmix64(below(random, nodes.div_ceil(30_000)) as u64) >> 32;
            match below(random, 3) {
                0 => half << 32 | any >> 32,
                1 => any >> 32 << 32 | half,
                _ => (half & !127 | any & 127) << 32 | any >> 32,
            }
        }
    }
}

/// A number below n.
fn below(random: &mut SplitMix64, n: usize) -> usize {
    ((u128::from(random.next_u64()) * n as u128) >> 64) as usize
}

/// Flips so many different bits.
fn flip(code: u64, flips: usize, random: &mut SplitMix64) -> u64 {
    let mut mask = 0_u64;
    while (mask.count_ones() as usize) < flips {
        mask |= 1 << (random.next_u64() % 64);
    }
    code ^ mask
}

/// What is within k of the first queries, by looking at every node.
pub fn scan(data: &Data, k: u32) -> Vec<Found> {
    let queries = &data.queries[..CHECKED.min(data.queries.len())];
    let mut truth = vec![(0, 0); queries.len()];
    let half = queries.len().div_ceil(2);
    // Not while anything is measured, so on both cores.
    std::thread::scope(|scope| {
        for (queries, truth) in queries.chunks(half).zip(truth.chunks_mut(half)) {
            scope.spawn(move || {
                // As many nodes at a time as stay in the cache.
                for part in data.nodes.chunks(1 << 14) {
                    for (&query, found) in queries.iter().zip(truth.iter_mut()) {
                        let is_near = |code: u64| u64::from((code ^ query).count_ones() <= k);
                        let near = part.iter().map(|&code| (is_near(code), is_near(code) * code));
                        let sum = near.fold((0, 0), |sum, near| (sum.0 + near.0, sum.1 ^ near.1));
                        *found = (found.0 + sum.0, found.1 ^ sum.1);
                    }
                }
            });
        }
    });
    truth
}

#[derive(Deserialize)]
struct Document {
    title: Option<String>,
    content: String,
}

/// The fingerprints of documents in NDJSON by the methods that look for near ones.
pub fn of_texts(path: &Path) -> anyhow::Result<Vec<u64>> {
    let lines = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    load_dictionary();
    let mut scratch = Scratch::new();
    let mut codes = Vec::new();
    for line in lines.lines() {
        let document: Document = serde_json::from_str(line)?;
        let fields = Fields { title: document.title.as_deref(), body: &[&document.content] };
        for method in [Method::Full(Weights::Levels), Method::Longest] {
            let features = method.fingerprint(&fields, &mut scratch);
            let prints = features.iter().flat_map(|features| &features.fingerprints);
            codes.extend(prints.map(|print| print.0));
        }
    }
    codes.sort_unstable();
    codes.dedup();
    ensure!(!codes.is_empty(), "{} has no text", path.display());
    Ok(codes)
}
