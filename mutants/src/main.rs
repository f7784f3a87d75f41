//! Draws mutants of the production code at random, builds all of them into one program, each behind a switch, and runs
//! the tests once for each. `scripts/mutants --help` has the options.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of the command line")]

mod candidates;
mod find;
mod planted;
mod render;
mod tests_of;
mod tree;
mod values;

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::{Value, json};

use candidates::Candidate;
use tests_of::{Outcome, Stage, TestPrograms};
use tree::Tree;

/// Plants faults ("mutants") in a copy of the code, one at a time, and reports which of them no test notices.
///
/// The mutants: a function answers a default value at once; an operator is another one (`<` is `<=` or `>`, `+` is `-`
/// or `*`, `&&` is `||` …); a `!` or a `-` is missing; the guard of a match arm always or never holds; an arm is
/// missing. They are drawn by a hash of the seed and of what the mutant is, so that an edit elsewhere draws the same
/// ones. All that were drawn are compiled into one program, each behind a switch that an environment variable sets;
/// those that do not compile are replaced by the next ones.
///
/// Prints one JSON object a mutant on standard output, and the sum in the end. A mutant is caught if a unit test or a
/// test of tests/pure fails, or if the tests take five times the time they should ("timeout"). What was caught is
/// appended to a file in the folder of the copy, and is not run again by the next command with this seed.
///
/// With --planted the faults are those of mutants/faults.toml: mistakes in the protocols, each with the test that has
/// to find it. Prints one JSON object a fault, with the seed at which a test of many seeds found it, and the sum. The
/// exit code is 1 if one was not found, does not apply, or if its test fails without it.
#[derive(Debug, Parser)]
#[command(name = "scripts/mutants")]
struct Args {
    /// Which mutants are drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many of them
    #[arg(long, default_value_t = 160)]
    count: usize,
    /// Run only the mutants of these numbers, whether they were caught before or not
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS")]
    only: Vec<u32>,
    /// Run all tests, with the state search and the simulation, which take minutes for each mutant that survives; with
    /// --planted, the faults that take minutes to find as well
    #[arg(long)]
    slow: bool,
    /// Plant the faults of mutants/faults.toml, or those of these names
    #[arg(long, num_args = 0.., value_name = "NAMES")]
    planted: Option<Vec<String>>,
    /// Believe that no test fails without a mutant
    #[arg(long)]
    unchecked: bool,
    /// Files and folders they are drawn from
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "crates/forest/src,crates/text/src/method,crates/bulk/src/splice.rs,src/engine/settle.rs"
    )]
    of: Vec<PathBuf>,
    /// Where the copy of the code is built; it is kept for the next run
    #[arg(long, default_value = "target/mutants")]
    dir: PathBuf,
    /// List what is drawn, and run nothing
    #[arg(long)]
    list: bool,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let tree = Tree::copy(&args.dir)?;
    if let Some(names) = &args.planted {
        let is_found = planted::run(&tree, names, &args)?;
        return Ok(if is_found { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let files = tree.sources(&args.of)?;
    let mut candidates = Vec::new();
    for file in &files {
        candidates.extend(find::in_file(file)?);
    }
    candidates::rank(&mut candidates, args.seed);
    eprintln!("mutants: {} of {} files", candidates.len(), files.len());

    let (drawn, dropped) = draw(&tree, &files, &candidates, args.count)?;
    eprintln!("mutants: {} drawn; {dropped} before them do not compile", drawn.len());
    let drawn: Vec<&Candidate> =
        drawn.into_iter().filter(|mutant| args.only.is_empty() || args.only.contains(&mutant.number)).collect();
    if args.list {
        drawn.iter().for_each(|mutant| println!("{}", mutant.to_json(&Value::Null)));
        return Ok(ExitCode::SUCCESS);
    }

    let tests = TestPrograms::build(&tree)?;
    if !args.unchecked {
        tests.check()?;
    }
    let begun = Instant::now();
    let mut results = Results::open(&args.dir.join(format!("caught-{}.ndjson", args.seed)))?;
    let mut alive = drawn.clone();
    if args.only.is_empty() {
        alive.retain(|mutant| !results.caught.contains_key(&mutant.id()));
    }
    for stage in Stage::ALL.into_iter().filter(|&stage| args.slow || stage != Stage::Slow) {
        eprintln!("mutants: {} alive; {stage:?}", alive.len());
        for mutant in std::mem::take(&mut alive) {
            match tests.run(mutant, stage)? {
                Outcome::Survived => alive.push(mutant),
                outcome => results.add(mutant, outcome)?,
            }
        }
    }
    let mut late = 0;
    for mutant in &drawn {
        let survives = alive.iter().any(|other| other.number == mutant.number);
        let outcome = results.caught.get(&mutant.id()).filter(|_| !survives).unwrap_or(&Outcome::Survived);
        late += usize::from(matches!(outcome, Outcome::Late(_)));
        println!("{}", mutant.to_json(&outcome.to_json()));
    }
    let survivors: Vec<u32> = alive.iter().map(|mutant| mutant.number).collect();
    let caught = drawn.len() - survivors.len();
    let sum = json!({
        "mutants": drawn.len(), "caught": caught, "by_time": late, "survived": survivors,
        "not_compiled": dropped, "seed": args.seed, "seconds": begun.elapsed().as_secs(),
    });
    println!("{sum}");
    Ok(ExitCode::SUCCESS)
}

/// Mutants that were caught before, by what they are, and the file of them.
struct Results {
    caught: HashMap<String, Outcome>,
    file: File,
}

impl Results {
    fn open(path: &Path) -> Result<Results> {
        let file = File::options().append(true).create(true).open(path)?;
        let text = fs::read_to_string(path)?;
        // The last line of a run that was interrupted may be cut off.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let caught =
            lines.filter_map(|line| Some((line["id"].as_str()?.to_owned(), Outcome::of_json(&line["outcome"])?)));
        Ok(Results { caught: caught.collect(), file })
    }

    fn add(&mut self, mutant: &Candidate, outcome: Outcome) -> Result<()> {
        let line = mutant.to_json(&outcome.to_json());
        eprintln!("{line}");
        writeln!(self.file, "{line}")?;
        self.caught.insert(mutant.id(), outcome);
        Ok(())
    }
}

/// The first `count` candidates that compile together, and how many between them do not. The copy has them all.
fn draw<'a>(
    tree: &Tree,
    files: &[tree::Source],
    candidates: &'a [Candidate],
    count: usize,
) -> Result<(Vec<&'a Candidate>, usize)> {
    ensure!(count <= candidates.len(), "there are only {} mutants", candidates.len());
    let mut dropped = BTreeSet::new();
    let compiles = |dropped: &BTreeSet<u32>| {
        let rest = candidates.iter().filter(|mutant| !dropped.contains(&mutant.number));
        rest.take(count).collect::<Vec<_>>()
    };
    loop {
        let drawn = compiles(&dropped);
        let last = drawn.last().context("no mutant is left")?.number;
        let places = tree.write(files, &drawn)?;
        let faults = tree.check(&places)?;
        if faults.is_empty() {
            return Ok((drawn, dropped.range(..last).count()));
        }
        eprintln!("mutants: {} do not compile", faults.len());
        dropped.extend(faults);
    }
}
