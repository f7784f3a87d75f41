//! The tests, and one run of them with a mutant.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::candidates::Candidate;
use crate::tree::{CRATES, Tree, show};

/// Tests that take minutes: the state search of shared forests, and the simulation.
const SLOW: [&str; 3] = ["shared::tests::search::", "run::seeds_of_the_gate", "run::a_seed_is_the_same_each_time"];
/// Tests that run nothing of what is changed by default: of texts, of the index of fingerprints, and of the cluster.
const UNRELATED_OF_UNIT: [&str; 5] = ["cluster::", "counts::", "hamming::", "text::", "ui::"];
/// The memory that the reading of documents takes.
const UNRELATED_OF_PURE: [&str; 1] = ["memory::"];
/// Seconds of processor time that the tests may take, about five times as much as without a mutant, and of real time,
/// in which they may wait for something that does not come.
const MOST: [u32; 2] = [300, 600];
/// The same of the slow ones.
const MOST_OF_SLOW: [u32; 2] = [1_500, 3_600];
/// What a mutant may allocate, in kB.
const MEMORY: u32 = 4 << 20;

/// What the tests said of a mutant.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// The test that failed first.
    Failed(String),
    /// The tests did not end.
    Late(String),
    Survived,
}

impl Outcome {
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Outcome::Failed(test) => json!({ "caught": test }),
            Outcome::Late(test) => json!({ "timeout": test }),
            Outcome::Survived => json!("survived"),
        }
    }

    /// One that was not survival.
    pub(crate) fn of_json(value: &Value) -> Option<Outcome> {
        let test = |name: &str| value[name].as_str().map(str::to_owned);
        test("caught").map(Outcome::Failed).or_else(|| test("timeout").map(Outcome::Late))
    }
}

/// The tests that are run one after the other, each stage for all mutants that are alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Those of the mutant's module.
    Module,
    /// Those of the folder that it is in.
    Beside,
    /// Those of the folders around.
    Folder,
    /// All other unit tests of the crate.
    Unit,
    /// Those of the crate that uses it.
    User,
    /// Those of `tests/pure`.
    Pure,
    /// The slow unit tests.
    Slow,
}

impl Stage {
    pub(crate) const ALL: [Stage; 7] =
        [Stage::Module, Stage::Beside, Stage::Folder, Stage::Unit, Stage::User, Stage::Pure, Stage::Slow];
}

/// One run of a program.
#[derive(Debug)]
struct Run<'a> {
    program: &'a Path,
    /// What the names of its tests have in them.
    filter: &'a str,
    /// What they have not, because those were run before.
    but: Vec<&'a str>,
    /// The slow tests, and nothing else.
    slow: bool,
}

impl<'a> Run<'a> {
    fn of(program: &'a Path, filter: &'a str, but: &[&'a str]) -> Run<'a> {
        Run { program, filter, but: but.to_vec(), slow: false }
    }
}

/// The programs of the tests.
#[derive(Debug)]
pub(crate) struct TestPrograms {
    root: PathBuf,
    temporary: PathBuf,
    /// Of the unit tests of each crate, in their order.
    units: Vec<PathBuf>,
    pure: PathBuf,
}

impl TestPrograms {
    /// Builds them.
    pub(crate) fn build(tree: &Tree) -> Result<TestPrograms> {
        let packages = CRATES.iter().flat_map(|(package, _)| ["--package", package]);
        let all = ["test", "--no-run", "--lib", "--test", "pure"].into_iter().chain(packages);
        let messages = tree.cargo(&all.collect::<Vec<_>>())?;
        if messages.iter().any(|message| message["reason"] == "build-finished" && message["success"] == false) {
            show(&messages);
        }
        let program = |kind: &str, name: &str| {
            let target = |message: &&Value| {
                let target = &message["target"];
                target["kind"][0] == kind && target["name"] == name.replace('-', "_")
            };
            let path = messages.iter().filter(target).find_map(|message| message["executable"].as_str());
            path.map(PathBuf::from).with_context(|| format!("there is no program of the tests: {kind} {name}"))
        };
        Ok(TestPrograms {
            root: tree.root.clone(),
            temporary: tree.temporary.clone(),
            units: CRATES.iter().map(|(package, _)| program("lib", package)).collect::<Result<_>>()?,
            pure: program("test", "pure")?,
        })
    }

    /// Runs the tests without a mutant.
    pub(crate) fn check(&self) -> Result<()> {
        for of in self.units.iter().chain([&self.pure]).map(|program| Run::of(program, "", &[])) {
            let outcome = self.run_one(&of, 0)?;
            ensure!(matches!(outcome, Outcome::Survived), "without a mutant: {outcome:?}");
        }
        Ok(())
    }

    /// Runs the tests of a stage that no stage before it has run.
    pub(crate) fn run(&self, mutant: &Candidate, stage: Stage) -> Result<Outcome> {
        let module = mutant.module();
        let beside = format!("{}::tests", module.rsplit_once("::").map_or("", |(folder, _)| folder));
        let folder = module.split("::").next().unwrap_or_default();
        let (user, others) = self.units.split_first().context("no program of unit tests")?;
        let own = CRATES.iter().skip(1).zip(others).find(|((_, code), _)| mutant.file.starts_with(code));
        let unit = own.map_or(user, |(_, unit)| unit);
        let of = match stage {
            Stage::Module => Run::of(unit, &module, &[]),
            Stage::Beside => Run::of(unit, &beside, &[&module]),
            Stage::Folder => Run::of(unit, folder, &[&module, &beside]),
            Stage::Unit => Run::of(unit, "", &[folder]),
            Stage::User if own.is_none() => return Ok(Outcome::Survived),
            Stage::User => Run::of(user, "", &[]),
            Stage::Pure => Run::of(&self.pure, "", &[]),
            Stage::Slow => Run { slow: true, ..Run::of(user, "", &[]) },
        };
        self.run_one(&of, mutant.number)
    }

    fn run_one(&self, of: &Run<'_>, mutant: u32) -> Result<Outcome> {
        let [processor, real] = if of.slow { MOST_OF_SLOW } else { MOST };
        let unrelated = if of.program == self.pure { &UNRELATED_OF_PURE[..] } else { &UNRELATED_OF_UNIT };
        let left_out = SLOW.iter().filter(|_| !of.slow).chain(unrelated).copied().chain(of.but.iter().copied());
        let mut command = self.command(of.program, processor, mutant)?;
        command
            .args(if of.slow { SLOW.to_vec() } else { vec![of.filter] })
            .args(left_out.flat_map(|name| ["--skip", name]));
        Ok(watch(&mut command, real)?.outcome)
    }

    /// Runs the one test of this name, and returns the last seed that it has named.
    pub(crate) fn run_test(
        &self,
        test: &str,
        env: &BTreeMap<String, String>,
        mutant: u32,
    ) -> Result<(Outcome, Option<u64>)> {
        let [processor, real] = MOST_OF_SLOW;
        for program in self.units.iter().chain([&self.pure]) {
            let mut command = self.command(program, processor, mutant)?;
            let watched = watch(command.args(["--exact", test, "--nocapture"]).envs(env), real)?;
            if watched.last == test {
                return Ok((watched.outcome, watched.seed));
            }
        }
        bail!("no test is named {test}")
    }

    /// A program with one thread for its tests and so many seconds of processor time.
    fn command(&self, program: &Path, processor: u32, mutant: u32) -> Result<Command> {
        if self.temporary.exists() {
            fs::remove_dir_all(&self.temporary)?;
        }
        fs::create_dir_all(&self.temporary)?;
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("ulimit -v {MEMORY}; ulimit -t {processor}; exec nice -n 10 \"$0\" \"$@\" 2>&1")])
            .arg(program)
            .args(["--test-threads", "1"])
            .current_dir(&self.root)
            .env("SPINNEY_MUTANT", mutant.to_string())
            .env("TMPDIR", &self.temporary)
            // The same cases as in the gate, and the first failure is enough.
            .env("PROPTEST_RNG_SEED", "1")
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        Ok(command)
    }
}

/// What a program did.
struct Watched {
    outcome: Outcome,
    /// The test that it ran last.
    last: String,
    /// The number after the word "seed" that it printed last.
    seed: Option<u64>,
}

/// Runs tests until one fails or so many seconds are over.
fn watch(command: &mut Command, seconds: u32) -> Result<Watched> {
    let mut child = command.spawn()?;
    let (send, lines) = channel();
    let output = child.stdout.take().context("no output")?;
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let end = Instant::now() + Duration::from_secs(seconds.into());
    let mut watched = Watched { outcome: Outcome::Survived, last: String::new(), seed: None };
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let test = line.strip_prefix("test ").and_then(|line| line.split(" ... ").next());
                if let Some(test) = test.filter(|test| !test.starts_with("result:")) {
                    watched.last = test.to_owned();
                }
                watched.seed = seed(&line).or(watched.seed);
                if line.ends_with("FAILED") {
                    watched.outcome = Outcome::Failed(watched.last.clone());
                }
            }
            Err(RecvTimeoutError::Timeout) => watched.outcome = Outcome::Late(format!("after {}", watched.last)),
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if !matches!(watched.outcome, Outcome::Survived) {
            child.kill()?;
            break;
        }
    }
    let status = child.wait()?;
    if matches!(watched.outcome, Outcome::Survived) && !status.success() {
        let last = format!("the program ended after {}", watched.last);
        // Without a code: by a signal, which the limit of processor time sends.
        watched.outcome = if status.code().is_none() { Outcome::Late(last) } else { Outcome::Failed(last) };
    }
    Ok(watched)
}

/// The number of `seed 7` in a line.
fn seed(line: &str) -> Option<u64> {
    let rest = line.rsplit_once("seed ")?.1;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
