//! `spinney stamp`: the same engine without a cluster. Same input, same output, byte for byte.

use std::io::{BufRead, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};

use anyhow::Context;
use bytes::Bytes;
use futures_executor::block_on;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use super::print_error;
use crate::chance::secret_key;
use crate::config::{Clock, DEFAULT_PREFIX, RawRoute, Route, StampForm, ThreadCount};
use crate::engine::{Engine, RequestContext, StampTally, Write as WriteKind};
use crate::time::Millis;

/// Input is processed in pieces of about this size, cut at line ends.
const PIECE: usize = 1 << 20;
/// Longest line in bytes, the servers' default for a request (`http.max_content_length`).
const LONGEST_LINE: usize = 100 << 20;
/// Exit code of `--strict` when the output is complete but the documents are not all as they should be.
const STRICT_FAILURE: u8 = 3;

/// Paragraphs in one line each: clap wraps them.
const AFTER_HELP: &str = "\
At the end, a line on standard error says how many documents were stamped, how many of them have no usable text (each \
gets a root of its own), and how many were passed on as they came: lines that are not JSON objects, and in a bulk also \
updates without the text.

Exit codes: 0 when the input was processed; 1 for an error; 2 for arguments that are not understood; 3 when --strict \
finds fault with the documents.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct StampArgs {
    /// The input is a bulk body: action lines and sources [default: one document a line]
    #[arg(long)]
    bulk: bool,
    /// Field that holds the id; it names the root of a document without usable text
    #[arg(long, value_name = "FIELD")]
    id_field: Option<String>,
    /// Threads for text work; the output does not depend on it [default: all cores]
    #[arg(long, env = "SPINNEY_THREADS", value_name = "N")]
    threads: Option<ThreadCount>,
    /// Prefix of the names of the stamp's fields
    #[arg(
        long,
        env = "SPINNEY_PREFIX",
        value_name = "PREFIX",
        default_value = DEFAULT_PREFIX
    )]
    prefix: String,
    /// What a stamp says: lean (root, key and arrival: all that searches need) or full (also the document's own
    /// fingerprints and proof, for a look at them, or to use them without the text)
    #[arg(long, env = "SPINNEY_STAMP", value_name = "FORM", default_value = "lean")]
    stamp: StampForm,
    /// Print one line of JSON with counts to standard error at the end
    #[arg(long)]
    stats: bool,
    /// Exit with 3 if a document was passed on unstamped, or a text field was found in no document; the output is
    /// complete all the same
    #[arg(long)]
    strict: bool,
    /// Write the sentences that became boilerplate into a file, one a line: look it through, and give it to
    /// --boilerplate the next time
    #[arg(long, value_name = "FILE")]
    boilerplate_report: Option<PathBuf>,
    #[command(flatten)]
    route: RawRoute,
}

/// Stamps standard input to standard output.
///
/// # Errors
/// When the options are wrong, a bulk is not understood, or input or output break.
pub(super) fn run(args: &StampArgs) -> anyhow::Result<ExitCode> {
    // Without dates in the documents time stands still: the output must not depend on when it is made.
    let mut route = args.route.clone().any_index().or_clock(Clock::None).validate("stamp")?;
    route.id_field.clone_from(&args.id_field);
    let routes = std::slice::from_ref(&route);
    let engine = Engine::new(routes, &args.prefix, args.threads.map_or(0, |threads| threads.0.get()), secret_key())?;
    let engine = Arc::new(engine.with_stamps(args.stamp));
    let progress = progress();
    let (mut total, mut learned, mut read_all) = (StampTally::default(), String::new(), true);
    let (full, pieces) = mpsc::sync_channel(2);
    // Reading and writing go on while the text work does.
    std::thread::scope(|scope| -> anyhow::Result<()> {
        scope.spawn(move || read_pieces(std::io::stdin().lock(), args.bulk, &full));
        let (done, stamped) = mpsc::sync_channel::<Vec<u8>>(2);
        let writer = scope.spawn(move || write_pieces(&stamped));
        let mut lines = 0;
        for piece in pieces {
            let piece = Bytes::from(piece.context("cannot read standard input")?);
            let context = RequestContext { now: Millis(0), latest: Millis(i64::MAX), unique: lines, caller: None };
            let result = if args.bulk {
                let write = WriteKind::Bulk { index: Some(String::new()) };
                block_on(engine.parse_and_stamp(piece.clone(), write, context))
                    .with_context(|| format!("after line {lines}"))?
            } else {
                block_on(engine.stamp_lines(piece.clone(), context))?
            };
            total.add(result.tally());
            if args.boilerplate_report.is_some() {
                for sentence in result.learned() {
                    learned.push_str(sentence);
                    learned.push('\n');
                }
            }
            progress.inc(piece.len() as u64);
            progress.set_message(HumanCount(total.stamped).to_string());
            lines += memchr::memchr_iter(b'\n', &piece).count() as u64;
            let (splice, _) = result.into_parts();
            let mut out = Vec::with_capacity(splice.len(piece.len()));
            splice.write_to(&piece, &mut out);
            if done.send(out).is_err() {
                read_all = false;
                break;
            }
        }
        drop(done);
        writer.join().map_err(|_| anyhow::anyhow!("the writing thread failed"))?.context("cannot write standard output")
    })?;
    progress.finish_and_clear();
    if let Some(path) = &args.boilerplate_report {
        std::fs::write(path, learned).with_context(|| format!("cannot write {}", path.display()))?;
    }
    // Nothing is known of a stream that was empty or not read to its end.
    let missing = match read_all && total.stamped + total.unstamped > 0 {
        true => engine.routes().fields_never_found(),
        false => Vec::new(),
    };
    let sampled = engine.routes().missing_fields();
    for field in &missing {
        let sampled = sampled.iter().find(|sampled| sampled.field.name == *field);
        let candidates = sampled.map_or(&[][..], |sampled| &sampled.candidates);
        print_error(format_args!("spinney: warning: {}", never_found(&route, field, candidates)));
    }
    print_error(format_args!("spinney: {}", summary(total)));
    if args.stats {
        print_error(stats(&engine, total)?);
    }
    Ok(match args.strict && (total.unstamped > 0 || !missing.is_empty()) {
        true => ExitCode::from(STRICT_FAILURE),
        false => ExitCode::SUCCESS,
    })
}

/// The advice about a field that no document has.
fn never_found(route: &Route, field: &str, candidates: &[String]) -> String {
    let option = match route.method.own_field() {
        Some(_) => "name the field that holds the fingerprint with --method field:NAME",
        None => "name the field that holds the text with --text-field",
    };
    let meant = match candidates {
        [] => String::new(),
        candidates => format!(" (one of these is meant, perhaps: {})", candidates.join(", ")),
    };
    format!("no document has the field '{field}': {option}{meant}")
}

/// The counts for people.
fn summary(total: StampTally) -> String {
    let documents = match total.stamped {
        1 => "document",
        _ => "documents",
    };
    let passed_on = match total.unstamped {
        1 => "passed on as it came",
        _ => "passed on as they came",
    };
    format!(
        "{} {documents} stamped, {} of them without text; {} {passed_on}",
        HumanCount(total.stamped),
        HumanCount(total.without_text),
        HumanCount(total.unstamped)
    )
}

/// The counts for programs.
fn stats(engine: &Engine, total: StampTally) -> anyhow::Result<serde_json::Value> {
    let forests = block_on(engine.forests().stats())?.into_iter();
    let (nodes, roots) = forests.fold((0, 0), |(n, r), (_, s)| (n + s.nodes, r + s.roots));
    Ok(serde_json::json!({
        "documents": total.stamped + total.unstamped,
        "stamped": total.stamped,
        "without_text": total.without_text,
        "unstamped": total.unstamped,
        "joined": total.joined,
        "nodes": nodes,
        "roots": roots,
    }))
}

/// A progress bar on a terminal, none elsewhere. The length of standard input is not known, so it counts.
fn progress() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {bytes} ({bytes_per_sec}) {msg} documents stamped, {elapsed}");
    ProgressBar::no_length().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

/// Cuts the input into pieces that end at a line end, in a bulk after a whole item.
fn read_pieces(mut input: impl BufRead, bulk: bool, pieces: &mpsc::SyncSender<std::io::Result<Vec<u8>>>) {
    let mut rest = Vec::new();
    loop {
        let mut piece = std::mem::take(&mut rest);
        let before = piece.len();
        let read = input.by_ref().take(PIECE as u64).read_to_end(&mut piece);
        let read = read.and_then(|_| read_line(&mut input, LONGEST_LINE, &mut piece));
        let end = piece.len() == before;
        if bulk && !end {
            rest = piece.split_off(end_of_items(&piece));
        }
        let end = end || read.is_err();
        let piece = read.map(|_| piece);
        let worth = !matches!(&piece, Ok(piece) if piece.is_empty());
        if worth && pieces.send(piece).is_err() || end {
            return;
        }
    }
}

/// Reads to the end of a line, if that is no further than `longest` bytes away.
fn read_line(input: &mut impl BufRead, longest: usize, piece: &mut Vec<u8>) -> std::io::Result<()> {
    let read = input.take(longest as u64).read_until(b'\n', piece)?;
    if read == longest && piece.last() != Some(&b'\n') && !input.fill_buf()?.is_empty() {
        let reason = format!("a line is longer than {longest} bytes, which is more than a server takes: leave it out");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, reason));
    }
    Ok(())
}

/// End of the last complete item of a bulk body; the line after it may be an action whose source is still missing.
/// The whole length when the body cannot be parsed: the engine reports why.
fn end_of_items(body: &[u8]) -> usize {
    let Ok(items) = crate::bulk::parse(body) else {
        return body.len();
    };
    let end = items.last().map_or(0, |item| item.source.as_ref().unwrap_or(&item.action).end);
    let line_end = body.get(end..).and_then(|rest| memchr::memchr(b'\n', rest));
    line_end.map_or(end, |at| end + at + 1)
}

fn write_pieces(pieces: &mpsc::Receiver<Vec<u8>>) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for piece in pieces {
        match out.write_all(&piece) {
            // `spinney stamp | head` is no error.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            other => other?,
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_up_to_a_length() {
        for (line, longest, is_read) in
            [("12345\n6", 6, true), ("12345", 5, true), ("12345\n", 5, false), ("123456", 5, false), ("", 0, true)]
        {
            let mut piece = b"0".to_vec();
            let read = read_line(&mut line.as_bytes(), longest, &mut piece);
            assert_eq!(read.is_ok(), is_read, "{line:?} {longest}");
            if is_read {
                assert_eq!(piece, ["0", line.split_inclusive('\n').next().unwrap_or_default()].concat().as_bytes());
            }
        }
    }

    #[test]
    fn the_summary_is_a_sentence_for_any_counts() {
        let of = |stamped, without_text, unstamped| {
            summary(StampTally { stamped, without_text, unstamped, ..StampTally::default() })
        };
        assert_eq!(of(12_345, 2, 1), "12,345 documents stamped, 2 of them without text; 1 passed on as it came");
        assert_eq!(of(1, 0, 0), "1 document stamped, 0 of them without text; 0 passed on as they came");
    }
}
