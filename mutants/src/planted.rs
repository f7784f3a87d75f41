//! The faults of `mutants/faults.toml`: for each the edits that plant it, and the test that has to find it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::json;

use crate::Args;
use crate::candidates::{Candidate, Piece};
use crate::tests_of::{Outcome, TestPrograms};
use crate::tree::{Source, Tree};

/// Where they are written down.
const FAULTS: &str = "mutants/faults.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    fault: Vec<Fault>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    name: String,
    what: String,
    /// The whole name of a unit test or of one of `tests/pure`.
    test: String,
    /// Variables for the test.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// It takes the test minutes.
    #[serde(default)]
    slow: bool,
    edit: Vec<Edit>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    file: PathBuf,
    /// Occurs once in the file.
    old: String,
    /// `planted!()` is whether the fault is active, `original!()` is `old`.
    new: String,
}

impl Edit {
    /// This edit as a change that the switch of a number makes.
    fn candidate(&self, number: u32, source: &Source) -> Result<Candidate> {
        let begin = source.text.find(&self.old).filter(|_| source.text.matches(&self.old).count() == 1);
        let begin = begin.with_context(|| format!("not once in {}: {}", self.file.display(), self.old))?;
        let mut pieces = Vec::new();
        for (at, part) in self.new.split("planted!()").enumerate() {
            pieces.extend((at > 0).then_some(Piece::Switch));
            for (at, text) in part.split("original!()").enumerate() {
                pieces.extend((at > 0).then_some(Piece::Original));
                pieces.push(Piece::Text(text.to_owned()));
            }
        }
        Ok(Candidate {
            number,
            file: self.file.clone(),
            line: source.text[..begin].matches('\n').count() + 1,
            function: String::new(),
            change: String::new(),
            nth: 0,
            range: begin..begin + self.old.len(),
            pieces,
        })
    }
}

/// Plants the faults of these names, or all, those that take minutes only if they are asked for. Returns whether every
/// one was found.
///
/// # Errors
/// An edit does not apply, the copy does not compile, or a test fails without a fault.
pub(crate) fn run(tree: &Tree, names: &[String], args: &Args) -> Result<bool> {
    let table: Table = toml::from_str(&fs::read_to_string(FAULTS)?).context(FAULTS)?;
    for name in names {
        ensure!(table.fault.iter().any(|fault| fault.name == *name), "no fault is named {name}");
    }
    plant(tree, &table.fault)?;
    let tests = TestPrograms::build(tree)?;
    let faults = table.fault.iter().zip(1..).filter(|(fault, _)| match names {
        [] => args.slow || !fault.slow,
        names => names.contains(&fault.name),
    });
    let faults: Vec<(&Fault, u32)> = faults.collect();
    let runs: BTreeSet<_> = faults.iter().map(|(fault, _)| (&fault.test, &fault.env)).collect();
    eprintln!("mutants: {} faults", faults.len());
    for (test, env) in runs.into_iter().filter(|_| !args.unchecked) {
        let (outcome, seed) = tests.run_test(test, env, 0)?;
        let is_sound = matches!(outcome, Outcome::Survived);
        ensure!(is_sound, "without a fault: {test} with {env:?}, seed {seed:?}: {outcome:?}");
    }
    let begun = Instant::now();
    let mut missed = Vec::new();
    for &(fault, number) in &faults {
        let begun = Instant::now();
        let (outcome, seed) = tests.run_test(&fault.test, &fault.env, number)?;
        let is_found = matches!(outcome, Outcome::Failed(_));
        missed.extend((!is_found).then_some(&fault.name));
        let line = json!({
            "fault": fault.name, "what": fault.what, "test": fault.test, "found": is_found, "seed": seed,
            "seconds": begun.elapsed().as_secs(),
        });
        println!("{line}");
    }
    let sum = json!({
        "faults": faults.len(), "found": faults.len() - missed.len(), "missed": missed,
        "seconds": begun.elapsed().as_secs(),
    });
    println!("{sum}");
    Ok(missed.is_empty())
}

/// Writes the copy with all of the faults, each behind its switch.
fn plant(tree: &Tree, faults: &[Fault]) -> Result<()> {
    let mut sources: BTreeMap<&Path, Source> = BTreeMap::new();
    let mut planted = Vec::new();
    for (fault, number) in faults.iter().zip(1..) {
        for edit in &fault.edit {
            let path = &edit.file;
            if !sources.contains_key(&**path) {
                let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
                sources.insert(path, Source { path: path.clone(), text });
            }
            planted.push(edit.candidate(number, &sources[&**path]).with_context(|| fault.name.clone())?);
        }
    }
    let sources: Vec<Source> = sources.into_values().collect();
    let places = tree.write(&sources, &planted.iter().collect::<Vec<_>>())?;
    // A change within another one is lost, unless that has `original!()`.
    for (fault, number) in faults.iter().zip(1..) {
        let written = places.values().flat_map(|file| &file.places).filter(|(_, of)| *of == number);
        ensure!(written.count() == fault.edit.len(), "{}: an edit overlaps that of another fault", fault.name);
    }
    Ok(())
}
