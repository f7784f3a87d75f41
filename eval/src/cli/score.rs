//! The scorer of one file: reads it, scores one setting or each of a sweep, prints.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{ArgGroup, Parser};

use super::{Output, say};
use spinney::config::{Clock, RawRoute, Route};
use spinney::text::isolate;
use spinney_eval::{
    self as eval, Documents, Excerpt, Figures, LabelledClusters, LabelledPairs, Labels, OtherLabel, Point, Report,
    Sweep, WorstMistake,
};

/// Score a method on labelled documents of your own
#[derive(Parser)]
#[command(
    name = "spinney-eval",
    version,
    after_help = "All labelled collections of a folder, with limits and peers: spinney-eval arena --help",
    group(ArgGroup::new("labels").required(true).multiple(true).args(["pairs", "clusters"]))
)]
pub(crate) struct ScoreArgs {
    /// The documents, one JSON object a line, in the order in which they are to arrive
    #[arg(long, value_name = "FILE")]
    documents: PathBuf,
    /// Labelled pairs: lines of id, id and label, separated by tabs; 1, same and dup belong together, 0, different and
    /// 0-… do not, any other label is reported by itself
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,
    /// Clusters: lines of id and cluster, separated by a tab; documents that are not named do not count
    #[arg(long, value_name = "FILE")]
    clusters: Option<PathBuf>,
    /// Field that holds the id
    #[arg(long, value_name = "FIELD", default_value = "id")]
    id_field: String,
    /// Try several settings: k=0..8, similarity=0.3..0.6 (in steps of 0.05, or /STEP), method=verified,longest,…, or
    /// window=1d,7d,… (with a clock)
    #[arg(long, value_name = "OPTION=VALUES")]
    sweep: Option<String>,
    /// Draw precision and recall of the sweep into an SVG file
    #[arg(long, value_name = "FILE", requires = "sweep")]
    plot: Option<PathBuf>,
    /// How many of the largest clusters and of the worst mistakes to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    show: usize,
    /// Print JSON: one object, or one a line for each setting of a sweep
    #[arg(long)]
    json: bool,
    /// Threads for text work; the figures do not depend on it [default: all cores]
    #[arg(long, env = "SPINNEY_THREADS", value_name = "N")]
    threads: Option<usize>,
    #[command(flatten)]
    route: RawRoute,
}

/// Scores one setting, or each of a sweep.
///
/// # Errors
/// When an option is wrong, or a file cannot be read or does not fit the documents.
pub(crate) fn run(args: &ScoreArgs) -> anyhow::Result<()> {
    let raw = args.route.clone().any_index().or_clock(Clock::None);
    let mut route = raw.clone().validate("eval")?;
    route.id_field = Some(args.id_field.clone());
    let sweep = args.sweep.as_deref().map(Sweep::parse).transpose()?;
    let body = std::fs::read(&args.documents).with_context(|| format!("cannot read {}", args.documents.display()))?;
    let documents = Documents::parse(body, &route).with_context(|| args.documents.display().to_string())?;
    let labels = Labels {
        pairs: parsed(args.pairs.as_deref(), |text| LabelledPairs::parse(text, &documents))?,
        clusters: parsed(args.clusters.as_deref(), |text| LabelledClusters::parse(text, &documents))?,
    };
    let report = |route: &Route| -> anyhow::Result<Report> {
        let clustering = documents.cluster(route, args.threads.unwrap_or(0), &|_| {})?;
        Ok(Report::new(route, &documents, &clustering, &labels, args.show))
    };
    let mut out = Output(io::stdout().lock());
    match sweep {
        None => {
            let report = report(&route)?;
            out.write(|out| match args.json {
                true => writeln!(out, "{}", serde_json::json!(report)),
                false => print(&report, out),
            })
        }
        Some(sweep) => run_sweep(args, &raw, &sweep, &report, &mut out),
    }
}

fn run_sweep(
    args: &ScoreArgs,
    raw: &RawRoute,
    sweep: &Sweep,
    report: &dyn Fn(&Route) -> anyhow::Result<Report>,
    out: &mut Output<impl Write>,
) -> anyhow::Result<()> {
    if !args.json {
        out.write(|out| {
            writeln!(out, "{:>14}  precision  recall  F1      adjusted Rand  clusters  largest", sweep.option())
        })?;
    }
    let mut points = Vec::new();
    for value in sweep.values() {
        let report = report(&sweep.apply(value, raw, "eval")?)?;
        let figures = report.figures();
        points.push(Point {
            value: value.clone(),
            precision: figures.and_then(|figures| figures.precision),
            recall: figures.and_then(|figures| figures.recall),
            f1: figures.and_then(|figures| figures.f1),
        });
        out.write(|out| match args.json {
            true => {
                let mut line = serde_json::json!(report);
                line["sweep"] = serde_json::json!({ sweep.option(): value });
                writeln!(out, "{line}")
            }
            false => print_row(value, &report, out),
        })?;
        if io::stderr().is_terminal() {
            say(format_args!("spinney-eval: {} {value} done", sweep.option()));
        }
    }
    if let Some(path) = &args.plot {
        let title = match sweep.option() {
            "method" => "precision and recall of the methods".to_owned(),
            option => {
                let method = raw.clone().validate("eval")?.method;
                format!("precision and recall of {method} by {option}")
            }
        };
        std::fs::write(path, eval::svg(&title, sweep.option(), &points))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Reads a file of labels, if one was given.
fn parsed<T, E: std::error::Error + Send + Sync + 'static>(
    path: Option<&Path>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> anyhow::Result<Option<T>> {
    let Some(path) = path else { return Ok(None) };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let labels = parse(&text).with_context(|| path.display().to_string())?;
    Ok(Some(labels))
}

fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    write!(out, "method {}, k {}", report.method, report.k)?;
    if let Some(similarity) = report.similarity {
        write!(out, ", similarity {similarity}")?;
    }
    writeln!(
        out,
        ": {} documents in {} clusters, {:.2} nodes per document",
        report.documents, report.clusters, report.nodes_per_document
    )?;
    for (name, figures) in [("pairs", &report.on_pairs), ("clusters", &report.on_clusters)] {
        if let Some(figures) = figures {
            writeln!(out, "\ncompared with the {name}")?;
            print_figures(figures, out)?;
        }
    }
    if let Some(unrelated) = &report.unrelated_titles {
        writeln!(
            out,
            "\ntexts of fewer than {} letters put together under titles that share nothing: {} pairs",
            unrelated.letters, unrelated.pairs
        )?;
        for mistake in &unrelated.worst {
            print_mistake(mistake, out)?;
        }
    }
    writeln!(out, "\nlargest clusters")?;
    for cluster in &report.largest {
        write!(out, "  {} documents", cluster.documents)?;
        match cluster.titles {
            Some(1) => writeln!(out, ", 1 title")?,
            Some(titles) => writeln!(out, ", {titles} titles")?,
            None => writeln!(out)?,
        }
        for excerpt in &cluster.beginnings {
            print_excerpt(excerpt, out)?;
        }
    }
    if report.largest.is_empty() {
        writeln!(out, "  every document is alone")?;
    }
    Ok(())
}

fn print_figures(figures: &Figures, out: &mut impl Write) -> io::Result<()> {
    write!(
        out,
        "  precision {}  recall {}  F1 {}",
        ratio(figures.precision),
        ratio(figures.recall),
        ratio(figures.f1)
    )?;
    if figures.adjusted_rand.is_some() {
        write!(out, "  adjusted Rand index {}", ratio(figures.adjusted_rand))?;
    }
    writeln!(out, "  ({} pairs)", figures.pairs)?;
    for OtherLabel { label, together, pairs } in &figures.labels {
        writeln!(out, "  label {label}: {together} of {pairs} put together")?;
    }
    print_by_label(figures, out)?;
    if figures.lines_left_out > 0 {
        writeln!(out, "  left out: {} lines name documents that do not exist", figures.lines_left_out)?;
    }
    for (name, worst, all) in [
        ("together", &figures.worst_together, figures.wrong_pairs_together),
        ("apart", &figures.worst_apart, figures.wrong_pairs_apart),
    ] {
        if all > 0 {
            writeln!(out, "  wrongly {name}: {all} pairs, the worst:")?;
        }
        for mistake in worst {
            print_mistake(mistake, out)?;
        }
    }
    Ok(())
}

/// Every label by itself, where there are several, and the reasons of what is wrong.
fn print_by_label(figures: &Figures, out: &mut impl Write) -> io::Result<()> {
    let ratio = |figure: Option<f64>| figure.map_or("--".into(), |figure| format!("{figure:.4}"));
    if figures.by_label.len() > 1 {
        writeln!(out, "  {:<20} {:>8} {:>9}  {:<9}  {:<6}  F1", "label", "pairs", "together", "precision", "recall")?;
    }
    for of in figures.by_label.iter().filter(|_| figures.by_label.len() > 1) {
        let (precision, recall) = (ratio(of.precision), ratio(of.recall));
        writeln!(
            out,
            "  {:<20} {:>8} {:>9}  {precision:<9}  {recall:<6}  {}",
            of.label,
            of.pairs,
            of.together,
            ratio(of.f1)
        )?;
    }
    for (name, reasons) in [("apart", &figures.reasons_apart), ("together", &figures.reasons_together)] {
        for reason in reasons {
            writeln!(out, "  wrongly {name}: {:>6} {}", reason.pairs, reason.reason)?;
        }
    }
    Ok(())
}

fn print_mistake(mistake: &WorstMistake, out: &mut impl Write) -> io::Result<()> {
    let pairs = match mistake.pairs {
        1 => "pair",
        _ => "pairs",
    };
    write!(out, "  {} {pairs}", mistake.pairs)?;
    match &mistake.reason {
        Some(reason) => writeln!(out, "; {reason}")?,
        None => writeln!(out)?,
    }
    print_excerpt(&mistake.one, out)?;
    print_excerpt(&mistake.other, out)
}

fn print_excerpt(excerpt: &Excerpt, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "    {}  {}", isolate(&excerpt.id), isolate(&excerpt.begins))
}

/// One line of the table of a sweep.
fn print_row(value: &str, report: &Report, out: &mut impl Write) -> io::Result<()> {
    let figures = report.figures();
    let largest = report.largest.first();
    writeln!(
        out,
        "{value:>14}  {}     {}  {}  {}         {:>8}  {:>7}",
        ratio(figures.and_then(|figures| figures.precision)),
        ratio(figures.and_then(|figures| figures.recall)),
        ratio(figures.and_then(|figures| figures.f1)),
        ratio(figures.and_then(|figures| figures.adjusted_rand)),
        report.clusters,
        largest.map_or(1, |cluster| cluster.documents),
    )
}

/// A figure with four decimals; dashes where there is none.
fn ratio(figure: Option<f64>) -> String {
    figure.map_or("  --  ".into(), |figure| format!("{figure:.4}"))
}
