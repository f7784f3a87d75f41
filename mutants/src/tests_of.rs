//! The tests, and one run of them with a mutant.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::candidates::Candidate;
use crate::tree::{CRATES, Tree};

/// Tests that take minutes: the state search of shared forests, and the simulation.
const SLOW: [&str; 2] = ["forest::shared::tests::search::", "simulation::"];
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
    units: [PathBuf; CRATES.len()],
    pure: PathBuf,
}

impl TestPrograms {
    /// Builds them.
    pub(crate) fn build(tree: &Tree) -> Result<TestPrograms> {
        let packages = CRATES.iter().flat_map(|(package, _)| ["--package", package]);
        let all = ["test", "--no-run", "--lib", "--test", "pure"].into_iter().chain(packages);
        let messages = tree.cargo(&all.collect::<Vec<_>>())?;
        let program = |kind: &str, name: &str| {
            let target = |message: &&Value| {
                let target = &message["target"];
                target["kind"][0] == kind && target["name"] == name.replace('-', "_")
            };
            let path = messages.iter().filter(target).find_map(|message| message["executable"].as_str());
            path.map(PathBuf::from).with_context(|| format!("there is no program of the tests: {kind} {name}"))
        };
        let [one, bulk, text] = CRATES.map(|(package, _)| program("lib", package));
        let programs = TestPrograms {
            root: tree.root.clone(),
            temporary: tree.temporary.clone(),
            units: [one?, bulk?, text?],
            pure: program("test", "pure")?,
        };
        Ok(programs)
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
        let [user, others @ ..] = &self.units;
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
        if self.temporary.exists() {
            fs::remove_dir_all(&self.temporary)?;
        }
        fs::create_dir_all(&self.temporary)?;
        let mut child = Command::new("sh")
            .args(["-c", &format!("ulimit -v {MEMORY}; ulimit -t {processor}; exec nice -n 10 \"$0\" \"$@\"")])
            .arg(of.program)
            .args(["--test-threads", "1"])
            .args(if of.slow { SLOW.to_vec() } else { vec![of.filter] })
            .args(left_out.flat_map(|name| ["--skip", name]))
            .current_dir(&self.root)
            .env("SPINNEY_MUTANT", mutant.to_string())
            .env("TMPDIR", &self.temporary)
            // The same cases as in the gate, and the first failure is enough.
            .env("PROPTEST_RNG_SEED", "1")
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (outcome, last) = watch(&mut child, Duration::from_secs(real.into()))?;
        if !matches!(outcome, Outcome::Survived) {
            child.kill()?;
        }
        let status = child.wait()?;
        Ok(match outcome {
            // Without a code: by a signal, which the limit of processor time sends.
            Outcome::Survived if status.code().is_none() => Outcome::Late(last),
            Outcome::Survived if !status.success() => Outcome::Failed(last),
            outcome => outcome,
        })
    }
}

/// Reads what the tests print until one fails, and answers the test that was run last.
fn watch(child: &mut Child, most: Duration) -> Result<(Outcome, String)> {
    let (send, lines) = channel();
    let output = child.stdout.take().context("no output")?;
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let end = Instant::now() + most;
    let mut last = String::new();
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let test = line.strip_prefix("test ").and_then(|line| line.split(" ... ").next());
                if let Some(test) = test.filter(|test| !test.starts_with("result:")) {
                    last = test.to_owned();
                    if line.ends_with("FAILED") {
                        return Ok((Outcome::Failed(last.clone()), last));
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => return Ok((Outcome::Late(format!("after {last}")), last)),
            Err(RecvTimeoutError::Disconnected) => {
                return Ok((Outcome::Survived, format!("the program ended after {last}")));
            }
        }
    }
}
