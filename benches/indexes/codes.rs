//! The fingerprints that an index is filled with and asked for.

use std::path::Path;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use spinney::fingerprint::Fingerprint;
use spinney::hash::SplitMix64;

/// So many of 100 fingerprints are planted: an earlier one with 1 to 3 bits flipped.
const PLANTED: u64 = 15;
const SEED: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dist {
    /// Every bit by chance
    Uniform,
    /// Those of texts, with so many bits flipped that they are others, and what is skewed about them stays
    Real,
    /// Halves and words of halves that thousands share
    Adversarial,
}

impl Dist {
    pub fn name(self) -> &'static str {
        match self {
            Dist::Uniform => "uniform",
            Dist::Real => "real",
            Dist::Adversarial => "adversarial",
        }
    }
}

pub struct Codes {
    pub nodes: Vec<u64>,
    pub queries: Vec<u64>,
    /// What comes when the index is full.
    pub arrivals: Vec<u64>,
}

/// Makes fingerprints of a distribution. `texts` are those that the real ones begin with.
pub fn make(dist: Dist, nodes: usize, queries: usize, texts: &[u64]) -> Codes {
    let mut random = SplitMix64(SEED);
    let mut planted = |random: &mut SplitMix64, earlier: &[u64]| {
        let planted = random.next_u64() % 100 < PLANTED && !earlier.is_empty();
        planted.then(|| {
            let code = earlier[below(random, earlier.len())];
            let flips = 1 + below(random, 3);
            flip(random, code, flips)
        })
    };
    let mut all = Vec::with_capacity(nodes);
    for _ in 0..nodes {
        let code = planted(&mut random, &all);
        all.push(code.unwrap_or_else(|| fresh(dist, nodes, texts, &mut random)));
    }
    let mut asked = Vec::with_capacity(2 * queries);
    for _ in 0..2 * queries {
        let code = planted(&mut random, &all);
        asked.push(code.unwrap_or_else(|| fresh(dist, nodes, texts, &mut random)));
    }
    let arrivals = asked.split_off(queries);
    Codes {
        nodes: all,
        queries: asked,
        arrivals,
    }
}

fn fresh(dist: Dist, nodes: usize, texts: &[u64], random: &mut SplitMix64) -> u64 {
    let any = random.next_u64();
    match dist {
        Dist::Uniform => any,
        Dist::Real => {
            let text = texts[below(random, texts.len())];
            let flips = 6 + below(random, 15);
            flip(random, text, flips)
        }
        Dist::Adversarial => {
            // Each of the halves is shared by some ten thousand.
            let half = nodes.div_ceil(30_000) as u64;
            match random.next_u64() % 3 {
                0 => spread(any % half) << 32 | any >> 32,
                1 => spread(any % half) | any >> 32 << 32,
                // And here all but the last bits of a half.
                _ => (spread(any % half) & !127 | any >> 8 & 127) << 32 | any >> 32,
            }
        }
    }
}

fn spread(half: u64) -> u64 {
    spinney::hash::splitmix64(half) >> 32
}

fn below(random: &mut SplitMix64, n: usize) -> usize {
    ((u128::from(random.next_u64()) * n as u128) >> 64) as usize
}

/// Flips so many different bits.
fn flip(random: &mut SplitMix64, code: u64, flips: usize) -> u64 {
    let mut mask = 0_u64;
    while (mask.count_ones() as usize) < flips {
        mask |= 1 << (random.next_u64() % 64);
    }
    code ^ mask
}
