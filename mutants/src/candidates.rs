//! A mutant: where it is, and what takes its place.

use std::ops::Range;
use std::path::PathBuf;

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::tree::CRATES;

/// A piece of what takes the place of a range of the source.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Text(String),
    /// A part of the range.
    Source(Range<usize>),
    /// All of it.
    Original,
    /// Whether the mutant is active.
    Switch,
}

/// A change of the code that may be made.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// Its place in the order of the draw, from 1.
    pub(crate) number: u32,
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    /// The function it is in, with its module and type.
    pub(crate) function: String,
    pub(crate) change: String,
    /// Among equal changes of the function.
    pub(crate) nth: usize,
    /// What is replaced, in bytes of the file.
    pub(crate) range: Range<usize>,
    pub(crate) pieces: Vec<Piece>,
}

impl Candidate {
    /// The mutant and what came of it.
    pub(crate) fn to_json(&self, outcome: &Value) -> Value {
        let place = format!("{}:{}", self.file.display(), self.line);
        json!({
            "mutant": self.number, "id": self.id(), "place": place, "function": self.function, "change": self.change,
            "outcome": outcome,
        })
    }

    /// The same for the same change after an edit elsewhere.
    pub(crate) fn id(&self) -> String {
        format!("{:016x}", self.rank(0))
    }

    /// As the names of its tests begin.
    pub(crate) fn module(&self) -> String {
        let file = self.file.with_extension("");
        let code = CRATES.iter().find_map(|(_, code)| file.strip_prefix(code).ok());
        let parts = code.unwrap_or(&file).iter().filter(|part| *part != "mod").map(|part| part.to_string_lossy());
        parts.collect::<Vec<_>>().join("::")
    }

    /// Depends on what it is and not on where in the file it is.
    fn rank(&self, seed: u64) -> u64 {
        let name = format!("{}\n{}\n{}\n{}", self.file.display(), self.function, self.change, self.nth);
        xxh3_64_with_seed(name.as_bytes(), seed)
    }
}

/// Brings them into the order of the draw.
pub(crate) fn rank(candidates: &mut [Candidate], seed: u64) {
    candidates.sort_by_cached_key(|candidate| candidate.rank(seed));
    for (number, candidate) in (1..).zip(candidates) {
        candidate.number = number;
    }
}
