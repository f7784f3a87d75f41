//! Writes the pages by which `scripts/eval` measures what becomes of pages that are nothing but page chrome: so many
//! orders of arrival, and what each page is.
//!
//! ```text
//! FOLDER/page chrome-1.ndjson …   {"id":…,"title":…,"content":…}, one page a line
//! FOLDER/page chrome.truth.tsv    id <tab> article/GROUP, which its reprint has too, or page chrome/KIND
//! ```

#![allow(unreachable_pub, clippy::expect_used, reason = "what it is made of serves the tests as well")]

#[path = "../tests/pure/page_chrome/corpus/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest of it")]
mod corpus;
#[path = "../benches/support/random.rs"]
mod random;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Parser;
use serde_json::json;

use corpus::{Document, Sizes, Truth};

#[derive(Parser)]
struct Args {
    /// Folder to write to
    folder: PathBuf,
    /// The pages follow from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Orders of arrival
    #[arg(long, default_value_t = 5)]
    orders: u64,
    /// Headlines for each kind of page chrome
    #[arg(long, default_value_t = 500)]
    titles: usize,
    /// Articles
    #[arg(long, default_value_t = 5_000)]
    articles: usize,
    /// Of them, those that are reprinted
    #[arg(long, default_value_t = 500)]
    reprints: usize,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    ensure!(args.reprints <= args.articles, "there are more reprints than articles");
    let sizes = Sizes { titles: args.titles, articles: args.articles, reprints: args.reprints };
    let pages = corpus::documents(args.seed, sizes);
    fs::create_dir_all(&args.folder).with_context(|| args.folder.display().to_string())?;
    let write = |name: String, pages: &[Document], line: &dyn Fn(&Document) -> String| {
        let path = args.folder.join(name);
        let written = File::create(&path).and_then(|file| {
            let mut out = BufWriter::new(file);
            for page in pages {
                writeln!(out, "{}", line(page))?;
            }
            out.flush()
        });
        written.with_context(|| format!("cannot write {}", path.display()))
    };
    write("page_chrome.truth.tsv".into(), &pages, &|page| match page.truth {
        Truth::Article(group) => format!("{}\tarticle/{group}", page.id),
        Truth::PageChrome(kind) => format!("{}\tpage_chrome/{kind}", page.id),
    })?;
    for order in 1..=args.orders {
        write(format!("page_chrome-{order}.ndjson"), &corpus::shuffled(&pages, order), &|page| {
            json!({"id": page.id, "title": page.title, "content": page.content}).to_string()
        })?;
    }
    Ok(())
}
