//! Throughput of `text` and `method` on one core: `cargo bench --bench text -- FILE.ndjson [ROUNDS]`.
//! FILE holds documents with `title` and `content`. Prints the median of the rounds for each stage, in MB of field
//! bytes (UTF-8) a second of processor time, and its ratio to the first one; the stages take turns, so that a busy
//! machine slows all of them alike. The first stage shows what the machine can do that day: every five characters of a
//! text, as they are, hashed with XXH3.

#![allow(
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints its figures, and its progress beside them"
)]

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, bail};
use serde::Deserialize;
use spinney::method::{Method, Weights, Workspace};
use spinney::text::{Fields, Scratch, load_dictionary, words};
use xxhash_rust::xxh3::xxh3_64;

#[derive(Deserialize)]
struct Document {
    title: Option<String>,
    content: String,
}

/// What is measured, for one document.
type Stage = Box<dyn FnMut(&Fields<'_>, &mut Scratch)>;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let Some(path) = arguments.next() else {
        println!("no documents to measure on: cargo bench --bench text -- FILE.ndjson [ROUNDS]");
        return Ok(());
    };
    let rounds: usize = arguments.next().map_or(Ok(7), |rounds| rounds.parse())?;
    let lines = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let documents: Vec<Document> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let bytes: usize = documents.iter().map(|d| d.content.len() + d.title.as_ref().map_or(0, String::len)).sum();
    if bytes == 0 || rounds == 0 {
        bail!("{path} has no text");
    }
    println!("{path}: {} documents, {:.1} MB", documents.len(), bytes as f64 / 1e6);
    load_dictionary();

    let mut scratch = Scratch::new();
    let (jieba, mut workspace) = (jieba_rs::Jieba::new(), Workspace::default());
    let mut stages: Vec<(String, Stage)> = vec![
        ("n-grams".into(), Box::new(|fields, _| black_box_n_grams(fields))),
        (
            "jieba alone".into(),
            Box::new(move |fields, _| {
                for text in fields.title.iter().chain(fields.body) {
                    black_box(jieba.cut(text, false).len());
                }
            }),
        ),
        (
            "verified".into(),
            Box::new(move |fields, _| {
                black_box(Method::Verified.read(fields, &mut workspace));
            }),
        ),
        (
            "clean and split".into(),
            Box::new(|fields, scratch| {
                black_box(scratch.read(fields).map(|text| text.ranges().len()));
            }),
        ),
        (
            "and segment".into(),
            Box::new(|fields, scratch| {
                let mut sum = 0;
                for sentence in scratch.read(fields).iter().flat_map(spinney::text::Text::sentences) {
                    words(sentence, |word| sum += word.hash);
                }
                black_box(sum);
            }),
        ),
    ];
    for method in [Method::Longest, Method::Full(Weights::Levels), Method::Sentences(3)] {
        stages.push((
            method.to_string(),
            Box::new(move |fields, scratch| {
                black_box(method.fingerprint(fields, scratch));
            }),
        ));
    }
    let begun = Instant::now();
    let mut times = vec![Vec::new(); stages.len()];
    for _ in 0..rounds {
        for ((_, stage), times) in stages.iter_mut().zip(&mut times) {
            let start = spent(&begun);
            for document in &documents {
                let fields = Fields { title: document.title.as_deref(), body: &[&document.content] };
                stage(&fields, &mut scratch);
            }
            times.push(spent(&begun) - start);
        }
    }
    let mut reference = None;
    for ((name, _), mut times) in stages.into_iter().zip(times) {
        times.sort_by(f64::total_cmp);
        let rate = bytes as f64 / 1e6 / times[times.len() / 2];
        let ratio = rate / *reference.get_or_insert(rate);
        println!("{name:>16} {rate:8.1} MB/s {ratio:6.3}");
    }
    Ok(())
}

/// Hashes every `N` characters.
fn black_box_n_grams(fields: &Fields<'_>) {
    const N: usize = 5;
    let mut sum = 0u64;
    for text in fields.title.iter().chain(fields.body) {
        let (mut starts, mut chars) = ([0; N], 0);
        let ends = text.char_indices().map(|(at, c)| (at, at + c.len_utf8()));
        for (at, end) in ends {
            starts[chars % N] = at;
            chars += 1;
            if chars >= N {
                sum = sum.wrapping_add(xxh3_64(&text.as_bytes()[starts[chars % N]..end]));
            }
        }
    }
    black_box(sum);
}

/// Seconds that this thread has been running, without the time that other processes had the core (Linux). Elsewhere
/// seconds since the beginning.
fn spent(begun: &Instant) -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|stat| stat.split_whitespace().next()?.parse::<u64>().ok())
        .map_or_else(|| begun.elapsed().as_secs_f64(), |ns| ns as f64 / 1e9)
}
