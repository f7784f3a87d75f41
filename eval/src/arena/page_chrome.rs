//! The set `page_chrome`: pages that are nothing but what stands around an article, among articles and their reprints.
//! All of it is invented; it is made by the corpus of the library's own test.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::json;

use super::super::clustering::{ClusteringError, Stamper};
use super::super::documents::Documents;
use super::{ArenaError, Contestant, FigureValue, SetScore, Step, route_of};
use spinney::config::Route;

#[path = "../../../tests/pure/page_chrome/corpus/mod.rs"]
#[allow(dead_code, unreachable_pub, missing_docs, clippy::expect_used, reason = "it belongs to a test that uses more")]
mod corpus;
#[path = "../../../tests/pure/page_chrome/figures.rs"]
#[allow(unreachable_pub, reason = "it belongs to a test")]
mod figures;

use corpus::{Document, Sizes, shuffled};
use figures::Figures;

const SEED: u64 = 1;
/// Orders of arrival.
const ORDERS: u64 = 5;
const SIZES: Sizes = Sizes { titles: 500, articles: 5_000, reprints: 500 };
const FEW: Sizes = Sizes { titles: 25, articles: 500, reprints: 100 };
/// Titles under which one row arrives.
const STREAM: usize = 100_000;
const SHORT_STREAM: usize = 10_000;
/// Parts of that stream: the last one's time is compared with the second one's.
const PARTS: usize = 10;
/// Letters that the row has at least.
const LONG_ROW: usize = 150;

/// The pages.
pub(super) struct PageChrome {
    pages: Vec<Document>,
    stream: usize,
}

impl PageChrome {
    /// Makes the pages; with `quick` a twentieth of them.
    pub(super) fn new(quick: bool) -> PageChrome {
        let (sizes, stream) = if quick { (FEW, SHORT_STREAM) } else { (SIZES, STREAM) };
        PageChrome { pages: corpus::documents(SEED, sizes), stream }
    }

    /// Clusters the pages in all orders, with and without those of page chrome, and the stream, where a forest does it.
    ///
    /// # Errors
    /// When pages cannot be stamped.
    pub(super) fn score(
        &self,
        contestant: &Contestant,
        threads: usize,
        progress: &dyn Fn(Step<'_>),
    ) -> Result<SetScore, ArenaError> {
        let what = format!("{}: page_chrome", contestant.name());
        let total = 2 * ORDERS * self.pages.len() as u64;
        progress(Step::Begin { what: &what, documents: total });
        let (mut with, mut without, mut done) = (Figures::default(), Figures::default(), 0);
        for order in 1..=ORDERS {
            let pages: Vec<&Document> = self.pages.iter().collect();
            let pages = shuffled(&pages, order);
            let mut articles = pages.clone();
            articles.retain(|page| !page.is_page_chrome());
            for (figures, pages) in [(&mut with, &pages), (&mut without, &articles)] {
                let roots = roots(pages, contestant, threads)?;
                *figures = figures.and(Figures::of(pages, &roots));
                done += self.pages.len() as u64;
                progress(Step::Done { documents: done });
            }
        }
        progress(Step::End);
        let mut score = SetScore::new("page_chrome", contestant.name());
        score.figure("largest_tree", FigureValue::Count(with.largest_tree as u64));
        score.figure("other_title", FigureValue::Number(with.other_title()));
        score.figure("reprints", FigureValue::Number(with.recall()));
        score.figure("reprints_without", FigureValue::Number(without.recall()));
        if let Contestant::Method(_, route) = contestant {
            let (nodes, time) = self.stream(route, threads, progress).map_err(wrong)?;
            score.figure("stream_nodes", FigureValue::Number(nodes));
            score.figure("stream_time", FigureValue::Number(time));
        }
        Ok(score)
    }

    /// One row under many titles: nodes for a document, and the time of the last part by that of the second one.
    fn stream(
        &self,
        route: &Route,
        threads: usize,
        progress: &dyn Fn(Step<'_>),
    ) -> Result<(f64, f64), ClusteringError> {
        let pages: Vec<&Document> = self.pages.iter().collect();
        let pages = shuffled(&pages, 1);
        let row = pages.iter().find(|page| page.is_page_chrome() && page.content.chars().count() > LONG_ROW);
        let row = row.map_or("", |page| page.content.as_str());
        progress(Step::Begin { what: "page_chrome: one row under many titles", documents: self.stream as u64 });
        let mut stamper = Stamper::new(route, threads)?;
        let mut times = Vec::new();
        let part = self.stream / PARTS;
        for number in 0..PARTS {
            let titles = (number * part..(number + 1) * part).map(|at| title(&pages, at));
            let lines = titles.map(|title| json!({"title": title, "content": row}).to_string() + "\n");
            let lines = lines.collect::<String>().into_bytes();
            let begun = Instant::now();
            stamper.stamp(lines)?;
            times.push(begun.elapsed());
            progress(Step::Done { documents: ((number + 1) * part) as u64 });
        }
        progress(Step::End);
        let seconds = |at: usize| times.get(at).copied().unwrap_or(Duration::ZERO).as_secs_f64();
        Ok((stamper.nodes()? as f64 / self.stream as f64, seconds(PARTS - 1) / seconds(1)))
    }
}

/// Half of one title and the end of another one: there are as many as are asked for.
fn title(pages: &[&Document], at: usize) -> String {
    let size = pages.len();
    let title = |at: usize| pages.get(at % size).map_or("", |page| page.title.as_str());
    let (one, other) = (title(at), title(7 * at + at / size + 1));
    let half: String = one.chars().take(one.chars().count() / 2).collect();
    let behind = other.chars().count().saturating_sub(9);
    half + &other.chars().skip(behind).collect::<String>()
}

fn wrong(source: ClusteringError) -> ArenaError {
    ArenaError::Clustering { name: "page_chrome".into(), source }
}

/// The roots of pages by id.
fn roots(pages: &[&Document], contestant: &Contestant, threads: usize) -> Result<HashMap<String, String>, ArenaError> {
    let line = |page: &&Document| json!({"id": page.id, "title": page.title, "content": page.content}).to_string();
    let body = pages.iter().map(line).collect::<Vec<_>>().join("\n").into_bytes();
    let parsed = Documents::parse(body, &route_of(None)?);
    let parsed = parsed.map_err(|source| ArenaError::Documents { name: "page_chrome".into(), source })?;
    let clustering = contestant.cluster(&parsed, threads, &|_| {}).map_err(wrong)?;
    let roots = pages.iter().zip(clustering.roots);
    Ok(roots.map(|(page, root)| (page.id.clone(), root.to_string())).collect())
}
