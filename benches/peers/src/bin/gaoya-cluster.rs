//! Near-duplicate clusters by gaoya: a peer of `scripts/bench peers`.
//!
//! `gaoya-cluster minhash THRESHOLD | simhash BITS < documents.ndjson > roots`: for each document a line with the
//! number of the document that leads its cluster. `gaoya-cluster shingles` clusters nothing and writes the number of
//! each document's shingles instead: what there is to do before gaoya has anything to do.

#[path = "../shingles.rs"]
mod shingles;

use std::borrow::Cow;
use std::io::{BufRead, BufWriter, Write, stdin, stdout};

use anyhow::{Context, bail};
use gaoya::minhash::{MinHashIndex, MinHasher, MinHasher32, calculate_minhash_params};
use gaoya::simhash::{SimHash, SimHashIndex, SimSipHasher64};
use serde::Deserialize;
use shingles::Shingles;

const PERMUTATIONS: usize = 128;

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    title: Cow<'a, str>,
    #[serde(borrow)]
    content: Cow<'a, str>,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["minhash", threshold] => minhash(threshold.parse().context("THRESHOLD is a number from 0 to 1")?),
        ["simhash", bits] => simhash(bits.parse().context("BITS is a number")?),
        ["shingles"] => each(|_, shingles| shingles.iter().count()),
        _ => bail!("usage: gaoya-cluster minhash THRESHOLD | simhash BITS | shingles"),
    }
}

/// Writes what `answer` says of each document on standard input.
fn each(mut answer: impl FnMut(usize, &Shingles) -> usize) -> anyhow::Result<()> {
    let (mut input, mut output) = (stdin().lock(), BufWriter::new(stdout().lock()));
    let mut line = Vec::new();
    for number in 0.. {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let Document { title, content } = serde_json::from_slice(&line).context("a line is no document")?;
        writeln!(output, "{}", answer(number, &Shingles::new(&format!("{title} {content}"))))?;
    }
    Ok(output.flush()?)
}

/// Only leaders are in the index; a document joins the first of those near it, or leads.
fn minhash(threshold: f64) -> anyhow::Result<()> {
    let (bands, width) = calculate_minhash_params(threshold, PERMUTATIONS);
    let hasher = MinHasher32::new(bands * width);
    let mut index = MinHashIndex::<u32, usize>::new(bands, width, threshold);
    each(|number, shingles| {
        let signature = hasher.create_signature(shingles.iter());
        if let Some(&leader) = index.query(&signature).into_iter().min() {
            return leader;
        }
        index.insert(number, signature);
        number
    })
}

/// As [`minhash`]. The distance of gaoya is the first one that is not near.
fn simhash(bits: usize) -> anyhow::Result<()> {
    let hasher = SimHash::<SimSipHasher64, u64, 64>::new(SimSipHasher64::new(1, 2));
    let mut index = SimHashIndex::<u64, usize>::new(bits + 2, bits + 1);
    each(|number, shingles| {
        let fingerprint = hasher.create_signature(shingles.iter());
        if let Some(&leader) = index.query(&fingerprint).into_iter().min() {
            return leader;
        }
        index.insert(number, fingerprint);
        number
    })
}
