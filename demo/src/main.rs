//! What `scripts/demo` shows: loads the sample news through a running spinney, reads the collapsed list back from the
//! search server, and holds the groups against what a person would say. With `--stamped` it shows the output of
//! `spinney stamp` instead.

#![allow(
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints its figures, and its progress beside them"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use console::{measure_text_width, style, truncate_str};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use spinney::text::isolate;

/// Documents in one bulk: small, so that the bar moves.
const BULK: usize = 50;
/// Groups shown.
const SHOWN: usize = 15;

#[derive(Parser)]
struct Args {
    /// URL of spinney; several share a forest, and each gets every so manieth bulk
    #[arg(long, conflicts_with = "stamped", required_unless_present = "stamped")]
    spinney: Vec<String>,
    /// Output of `spinney stamp` to show instead
    #[arg(long)]
    stamped: Option<PathBuf>,
    /// Index to load into
    #[arg(long, default_value = "news-demo")]
    index: String,
    /// Folder of the sample
    #[arg(long, default_value = "scripts/sample")]
    sample: PathBuf,
    /// Method whose recorded groups are compared
    #[arg(long, default_value = "verified")]
    method: String,
    /// Fail unless the groups are the recorded ones: 99% of their pairs, and no others
    #[arg(long)]
    strict: bool,
    /// Write the groups found as the recorded ones
    #[arg(long)]
    record: bool,
}

/// A document as shown.
struct Article {
    id: String,
    title: String,
    media: String,
    root: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let articles = match (&*args.spinney, &args.stamped) {
        ([first, ..], _) => through_spinney(&args, first).await?,
        ([], Some(path)) => lines(path)?.iter().map(article).collect::<anyhow::Result<_>>()?,
        ([], None) => bail!("give --spinney or --stamped"),
    };
    show(&articles);
    judge(&args, &articles)
}

fn lines(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn article(source: &Value) -> anyhow::Result<Article> {
    let field = |name: &str| source[name].as_str().map(str::to_owned);
    Ok(Article {
        id: field("id").context("a document of the sample has no id")?,
        title: field("title").unwrap_or_default(),
        media: field("media").unwrap_or_default(),
        root: field("cluster_root").context("a document came back without cluster_root")?,
    })
}

/// Loads through the proxies in turns and reads back, through one of them, what the server stored.
async fn through_spinney(args: &Args, url: &str) -> anyhow::Result<Vec<Article>> {
    let client = reqwest::Client::new();
    // Who published an article is a keyword: the page filters by it and counts it.
    let mapping = json!({"mappings": {"properties": {
        "media": {"type": "keyword"}, "url": {"type": "keyword"}, "published_at": {"type": "date"},
    }}});
    let made = client.put(format!("{url}/{}", args.index)).json(&mapping);
    made.send().await?.error_for_status()?;
    let documents = lines(&args.sample.join("news.ndjson"))?;
    let bar = ProgressBar::new(documents.len() as u64)
        .with_style(ProgressStyle::with_template("loading the sample through spinney {bar:40} {pos}/{len} articles")?);
    for (chunk, to) in documents.chunks(BULK).zip(args.spinney.iter().cycle()) {
        let mut body = String::new();
        for document in chunk {
            body.push_str(&format!("{}\n{document}\n", json!({"index": {"_id": document["id"]}})));
        }
        let answer: Value = client
            .post(format!("{to}/{}/_bulk", args.index))
            .header("content-type", "application/x-ndjson")
            .body(body)
            .send()
            .await?
            .json()
            .await?;
        ensure!(answer["errors"] == json!(false), "the server refused documents: {answer}");
        bar.inc(chunk.len() as u64);
    }
    bar.finish();
    let search = json!({"size": 10_000, "sort": ["_doc"], "_source": ["id", "title", "media", "cluster_root"]});
    let post = |path: &str, body: Value| client.post(format!("{url}/{}/{path}", args.index)).json(&body).send();
    post("_refresh", json!({})).await?.error_for_status()?;
    let answer: Value = post("_search", search).await?.error_for_status()?.json().await?;
    let stored: Vec<Article> = hits(&answer)?.map(|hit| article(&hit["_source"])).collect::<anyhow::Result<_>>()?;
    ensure!(stored.len() == documents.len(), "{} of {} documents are there", stored.len(), documents.len());

    // The collapsed list is the search server's own work: it has to say the same as the stored roots.
    let collapse = json!({
        "size": 10_000,
        "_source": ["id"],
        "collapse": {"field": "cluster_key", "inner_hits": {"name": "similar", "size": 0}},
    });
    let answer: Value = post("_search", collapse).await?.error_for_status()?.json().await?;
    let collapsed: Vec<u64> = hits(&answer)?
        .map(|hit| hit["inner_hits"]["similar"]["hits"]["total"]["value"].as_u64().unwrap_or(0))
        .collect();
    let sizes: u64 = collapsed.iter().sum();
    let roots: BTreeSet<_> = stored.iter().map(|article| &article.root).collect();
    ensure!(
        collapsed.len() == roots.len() && sizes == stored.len() as u64,
        "collapse shows {} groups of {sizes} articles, the stamps say {} of {}",
        collapsed.len(),
        roots.len(),
        stored.len()
    );
    Ok(stored)
}

fn hits(answer: &Value) -> anyhow::Result<std::slice::Iter<'_, Value>> {
    Ok(answer["hits"]["hits"].as_array().with_context(|| format!("no hits in {answer}"))?.iter())
}

/// All pairs within the groups of a recording.
fn pairs_of(recorded: &str) -> BTreeSet<(&str, &str)> {
    let mut pairs = BTreeSet::new();
    for group in recorded.lines() {
        let ids: Vec<&str> = group.split(' ').collect();
        for (at, &one) in ids.iter().enumerate() {
            pairs.extend(ids.iter().skip(at + 1).map(|&other| (one, other)));
        }
    }
    pairs
}

fn groups(articles: &[Article]) -> BTreeMap<&str, Vec<&Article>> {
    let mut groups: BTreeMap<&str, Vec<&Article>> = BTreeMap::new();
    for article in articles {
        groups.entry(&article.root).or_default().push(article);
    }
    groups
}

fn show(articles: &[Article]) {
    let groups = groups(articles);
    let mut largest: Vec<_> = groups.values().collect();
    largest.sort_by_key(|group| (std::cmp::Reverse(group.len()), &group[0].id));
    println!("\n{} articles, {} after collapsing near-duplicates\n", articles.len(), groups.len());
    for group in largest.iter().take(SHOWN) {
        let title = truncate_str(&group[0].title, 52, "…");
        let blanks = " ".repeat(54usize.saturating_sub(measure_text_width(&title)));
        let media: BTreeSet<_> = group.iter().map(|article| article.media.as_str()).collect();
        let also = media.into_iter().collect::<Vec<_>>().join(", ");
        let similar = style(format!("{:>3} similar", group.len() - 1)).bold();
        let also = truncate_str(&also, 48, "…");
        println!("  {}{blanks}{similar}   {}", isolate(&title), style(isolate(&also)).dim());
    }
    println!("  … and {} more\n", largest.len().saturating_sub(SHOWN));
}

/// Holds the groups against the true ones (what a person would say) and against those recorded for the method.
fn judge(args: &Args, articles: &[Article]) -> anyhow::Result<()> {
    let truth = std::fs::read_to_string(args.sample.join("groups.tsv"))?;
    let truth: HashMap<&str, &str> = truth
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut columns = line.split('\t');
            Some((columns.next()?, columns.next()?))
        })
        .collect();
    let found = groups(articles);
    let mut true_groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for article in articles {
        let group = truth.get(article.id.as_str()).with_context(|| format!("{} is in no group", article.id))?;
        true_groups.entry(group).or_default().insert(&article.id);
    }
    let found_sets: BTreeSet<BTreeSet<&str>> =
        found.values().map(|group| group.iter().map(|article| article.id.as_str()).collect()).collect();
    let several: Vec<_> = true_groups.values().filter(|group| group.len() > 1).collect();
    let whole = several.iter().filter(|group| found_sets.contains(**group)).count();
    let pairs = |n: usize| n * n.saturating_sub(1) / 2;
    let (mut together, mut right) = (0, 0);
    for group in found.values() {
        together += pairs(group.len());
        let mut by_truth: HashMap<&str, usize> = HashMap::new();
        for article in group {
            *by_truth.entry(truth[article.id.as_str()]).or_default() += 1;
        }
        right += by_truth.values().map(|&n| pairs(n)).sum::<usize>();
    }
    let wanted: usize = several.iter().map(|group| pairs(group.len())).sum();
    println!(
        "{}: {whole} of {} true groups found whole; {right} of {wanted} true pairs put together, {} wrong ones",
        style(&args.method).bold(),
        several.len(),
        together - right,
    );

    let path = args.sample.join("recorded").join(format!("{}.txt", args.method.replace(':', "-")));
    let mut recorded = String::new();
    for set in found_sets.iter().filter(|set| set.len() > 1) {
        recorded.push_str(&set.iter().copied().collect::<Vec<_>>().join(" "));
        recorded.push('\n');
    }
    if args.record {
        std::fs::create_dir_all(path.parent().context("no folder")?)?;
        std::fs::write(&path, recorded)?;
        println!("recorded in {}", path.display());
    } else if args.strict {
        let expected = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let (expected, found) = (pairs_of(&expected), pairs_of(&recorded));
        let (missing, more) = (expected.difference(&found).count(), found.difference(&expected).count());
        println!(
            "{missing} of the {} pairs recorded for {} are apart, {more} others together",
            expected.len(),
            args.method
        );
        // What is boilerplate is learned bulk by bulk, so that a text under much of it may be too early for its group.
        let is_whole = more == 0 && missing * 100 <= expected.len();
        ensure!(is_whole, "the groups are not those recorded for {} in {}", args.method, path.display());
    }
    Ok(())
}
