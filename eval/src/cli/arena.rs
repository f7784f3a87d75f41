//! The arena: all labelled collections of a folder, with limits and peers.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use super::say;
use spinney_eval::arena::{
    Arena, Judgement, Limits, Outcome, SetScore, Step, print_cross_validation, print_judgements, print_reasons,
    print_table, print_worst,
};

/// The name of the command.
pub(super) const NAME: &str = "arena";
/// What `--method all` stands for: the default method, and the plain ones that it is compared with.
const METHODS: [&str; 4] = ["verified", "longest", "full", "sentences:3"];

/// Paragraphs in one line each: clap wraps them.
const AFTER_HELP: &str = "\
DIR holds, each also packed as .xz:
  X.ndjson      documents, one a line: id title content
  X.pairs.tsv   id id label. Labels that ask for together: dup hand-dup same 1; for apart: template hand-template \
boilerplate event different 0 and all that begin with 0-; all others are free. Without an X.ndjson the ids are \
looked for in all documents that have no pairs of their own.
  X.edits.tsv   with header `id orig kind class lang`: what was made of which original by which edit
  X.mined.tsv   with header `id id overlap`: every pair of X.ndjson whose texts share shingles, overlap 0.15 to 1; \
what is not listed shares no text

Each X.ndjson is stamped on its own, in the order of its lines, with the defaults of the method, title field \
`title` and text field `content`. Standard output gets one JSON object a line:
  {\"bench\":\"eval\",\"method\":…,\"set\":…,\"figure\":…,\"value\":…}
Standard error gets progress, a table, the reasons of all wrong pairs by set and label, and the limits that are \
missed.

Figures: `label L`: the share of the pairs that is together. `error` of a set: the mean of `dup apart`, the share \
of its pairs that ask for together and are apart, and `wrong together`, the mean share together of its labels that \
ask for apart, each label with the weight of its pairs, 30 at most; `error` of all: the mean of the sets that \
eval/limits.toml names. `joins without the lead`: of the documents that joined another one's cluster, the share of \
which fewer than half of the runs of three words in the first 70 words stand in the first document of the cluster. \
Clusters of more than 2,000 documents count as unrelated altogether where X.mined.tsv tells.

Of two sets or more, `verified` is also cross-validated: each pair of a set is decided by itself, by what the forest \
had learned when the later document came, once by the weights as they are, once by weights fitted on the other sets \
alone, and once by weights fitted on all sets. A factor is what the fit multiplies a weight by; `all` has the means, \
and the factors of the fit on all.

The set page_chrome, 10,000 pages that are nothing but what stands around an article among 5,000 articles and 500 \
reprints in five orders of arrival, is invented: largest_tree is the most of its pages with different titles in \
one cluster, other_title the share of them beside another title, reprints the share of reprints found, \
reprints_without the same without these pages, stream_nodes the nodes per document of one page under 100,000 \
titles, stream_time the time of the last tenth of them by that of the second.

Exit codes: 0 when every limit that could be judged is held; 1 when one is missed, or for an error; 2 for \
arguments that are not understood. --quick judges no limits.";

/// Score methods on all labelled collections of a folder, and judge the figures by limits
#[derive(Parser)]
#[command(version, after_help = AFTER_HELP)]
pub(super) struct ArenaArgs {
    /// The labelled collections [default: only the set page_chrome, which is generated]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Only this collection (press_tune), or the collections of this set (press); may be repeated
    #[arg(long, value_name = "NAME", requires = "data")]
    set: Vec<String>,
    /// May be repeated; all: verified and the plain ones
    #[arg(long, value_name = "METHOD", default_value = "verified")]
    method: Vec<String>,
    /// Also what libraries offer: MinHash LSH of 128 permutations with an estimate of at least 0.7 and 0.5, and simhash
    /// of 64 bits with k = 3 (gaoya)
    #[arg(long)]
    peers: bool,
    /// Also the generated set page_chrome
    #[arg(long)]
    page_chrome: bool,
    /// Also score N other orders of the collections that have an X.edits.tsv
    #[arg(long, value_name = "N", default_value_t = 0)]
    shuffles: u64,
    /// Limits of the figures [default: those of eval/limits.toml]
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// List the N worst wrong pairs of every set and label on standard error, by their ids
    #[arg(long, value_name = "N", default_value_t = 0)]
    show: usize,
    /// Only collections that have pairs of their own, a twentieth of the page chrome, and no limits
    #[arg(long)]
    quick: bool,
    /// Only JSON: no table and no progress
    #[arg(long)]
    json: bool,
    /// Threads for text work; the figures do not depend on it [default: all cores]
    #[arg(long, env = "SPINNEY_THREADS", value_name = "N")]
    threads: Option<usize>,
}

/// Runs the arena. The exit code says whether a limit was missed.
///
/// # Errors
/// When an option is wrong, or a file cannot be read or is not of its form.
pub(super) fn run(args: &ArenaArgs) -> anyhow::Result<ExitCode> {
    let limits = match &args.limits {
        None => Limits::ours()?,
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            Limits::parse(&text).with_context(|| path.display().to_string())?
        }
    };
    let mut methods: Vec<String> = Vec::new();
    for method in &args.method {
        let named = if method == "all" { &METHODS[..] } else { &[method.as_str()] };
        for &name in named {
            if !methods.iter().any(|known| known == name) {
                methods.push(name.to_owned());
            }
        }
    }
    let arena = Arena {
        data: args.data.clone(),
        only: args.set.clone(),
        methods,
        peers: args.peers,
        page_chrome: args.page_chrome,
        quick: args.quick,
        shuffles: args.shuffles,
        show: args.show,
        threads: args.threads.unwrap_or(0),
    };
    let progress = Progress::new(args.json);
    let mut emit = |score: &SetScore| {
        // `spinney-eval arena | head` is no error; the limits are judged all the same.
        match score.write(&mut io::stdout().lock()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    };
    let scores = arena.run(&limits, &mut emit, &|step| progress.step(step))?;
    let judgements = match args.quick || args.data.is_none() {
        true => Vec::new(),
        false => limits.judge(&scores),
    };
    if !args.json {
        // That nobody reads it there is no reason to fail.
        let _ = print(&scores, &judgements, &mut io::stderr().lock());
    }
    let missed = judgements.iter().any(|judgement| matches!(judgement.outcome, Outcome::Missed(_)));
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(scores: &[SetScore], judgements: &[Judgement], out: &mut dyn Write) -> io::Result<()> {
    print_reasons(scores, out)?;
    print_worst(scores, out)?;
    print_table(scores, out)?;
    print_cross_validation(scores, out)?;
    match judgements {
        [] => Ok(()),
        judgements => print_judgements(judgements, out),
    }
}

/// A bar on a terminal, a line for each collection elsewhere.
struct Progress {
    bar: ProgressBar,
    quiet: bool,
    /// What is placed, how many documents of it, and since when.
    current: RefCell<Option<(String, u64, Instant)>>,
}

impl Progress {
    fn new(quiet: bool) -> Progress {
        let bar = match io::stderr().is_terminal() && !quiet {
            true => ProgressBar::no_length(),
            false => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("{msg} [{wide_bar}] {human_pos}/{human_len} documents {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { bar, quiet, current: RefCell::new(None) }
    }

    fn step(&self, step: Step<'_>) {
        match step {
            Step::Begin { what, documents } => {
                self.bar.set_message(what.to_owned());
                self.bar.set_length(documents);
                self.bar.set_position(0);
                self.current.replace(Some((what.to_owned(), documents, Instant::now())));
            }
            Step::Done { documents } => self.bar.set_position(documents),
            Step::End => {
                self.bar.finish_and_clear();
                let Some((what, documents, begun)) = self.current.take() else { return };
                if !self.quiet {
                    let seconds = begun.elapsed().as_secs_f64();
                    say(format_args!("{what}: {} documents, {seconds:.1} s", HumanCount(documents)));
                }
            }
        }
    }
}
