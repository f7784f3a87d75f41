//! What every index is measured with, in files, so that indexes of other languages read the same.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

/// How many a look-up finds, and the exclusive or of them.
pub type Found = (u64, u64);

/// The first so many queries have been answered by a scan.
pub const CHECKED: usize = 2_000;

/// Fingerprints; in files they are little-endian words.
pub struct Data {
    /// What the index is filled with, each once.
    pub nodes: Vec<u64>,
    pub queries: Vec<u64>,
    /// What comes when it is full.
    pub arrivals: Vec<u64>,
}

impl Data {
    pub fn read(folder: &Path) -> anyhow::Result<Data> {
        Ok(Data {
            nodes: read(&folder.join("nodes"))?,
            queries: read(&folder.join("queries"))?,
            arrivals: read(&folder.join("arrivals"))?,
        })
    }

    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        write(&folder.join("nodes"), &self.nodes)?;
        write(&folder.join("queries"), &self.queries)?;
        write(&folder.join("arrivals"), &self.arrivals)
    }
}

/// What is within k of the first queries.
pub fn read_truth(folder: &Path, k: u32) -> anyhow::Result<Vec<Found>> {
    let words = read(&folder.join(format!("truth-{k}")))?;
    ensure!(!words.is_empty(), "no query was answered by a scan");
    Ok(words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

pub fn write_truth(folder: &Path, k: u32, truth: &[Found]) -> anyhow::Result<()> {
    let words: Vec<u64> = truth.iter().flat_map(|&(count, sum)| [count, sum]).collect();
    write(&folder.join(format!("truth-{k}")), &words)
}

fn read(path: &Path) -> anyhow::Result<Vec<u64>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let words = bytes.chunks_exact(8);
    Ok(words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect())
}

fn write(path: &Path, words: &[u64]) -> anyhow::Result<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
