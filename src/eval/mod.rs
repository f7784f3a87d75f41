//! `spinney eval`: how good the clusters of a method are on documents that somebody has labelled.
//!
//! ```text
//! documents --stamp--> roots --+
//!                              score --> report, or one point of a sweep for each setting
//! pairs, clusters --> labels --+
//! ```

mod documents;
mod labels;
mod plot;
mod reason;
mod report;
mod score;
mod sweep;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ArgGroup;

use crate::config::{Route, RouteOptions};
use documents::Documents;
use labels::{Clusters, Pairs};
use plot::Point;
use report::{Labels, Report, figure};
use sweep::Sweep;

#[derive(clap::Args)]
#[command(group(ArgGroup::new("labels").required(true).multiple(true).args(["pairs", "clusters"])))]
pub struct Args {
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
    /// So many of the largest clusters and of the worst mistakes are shown
    #[arg(long, value_name = "N", default_value_t = 5)]
    show: usize,
    /// Print JSON: one object, or one a line for each setting of a sweep
    #[arg(long)]
    json: bool,
    /// Threads for text work; the figures do not depend on it [default: all cores]
    #[arg(long, env = "SPINNEY_THREADS", value_name = "N")]
    threads: Option<usize>,
    #[command(flatten)]
    route: RouteOptions,
}

/// Scores one setting, or each of a sweep.
///
/// # Errors
/// When an option is wrong, or a file cannot be read or does not fit the documents.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let options = args.route.clone().everything().or_clock("none");
    let mut route = options.clone().check("eval")?;
    route.id_field = Some(args.id_field.clone());
    let sweep = args.sweep.as_deref().map(Sweep::parse).transpose()?;
    let documents = Documents::read(&args.documents, &route)?;
    let find = |id: &str| documents.find(id);
    let labels = Labels {
        pairs: parsed(args.pairs.as_deref(), |text| Pairs::parse(text, find))?,
        clusters: parsed(args.clusters.as_deref(), |text| Clusters::parse(text, find))?,
    };
    let report = |route: &Route| -> anyhow::Result<Report> {
        let stamped = documents.stamp(route, args.threads.unwrap_or(0))?;
        Ok(Report::new(route, &documents, &stamped, &labels, args.show))
    };
    let mut out = Output(std::io::stdout().lock());
    let Some(sweep) = sweep else {
        let report = report(&route)?;
        return out.write(|out| {
            if args.json {
                return writeln!(out, "{}", serde_json::json!(report));
            }
            report.print(out)
        });
    };
    if !args.json {
        out.write(|out| {
            writeln!(
                out,
                "{:>14}  precision  recall  F1      adjusted Rand  clusters  largest",
                sweep.option
            )
        })?;
    }
    let mut points = Vec::new();
    for value in &sweep.values {
        let report = report(&sweep.apply(value, &options)?)?;
        let figures = report.figures();
        points.push(Point {
            value: value.clone(),
            precision: figures.and_then(|figures| figures.precision),
            recall: figures.and_then(|figures| figures.recall),
            f1: figures.and_then(|figures| figures.f1),
        });
        out.write(|out| {
            if args.json {
                let mut line = serde_json::json!(report);
                line["sweep"] = serde_json::json!({ &sweep.option: value });
                return writeln!(out, "{line}");
            }
            writeln!(
                out,
                "{value:>14}  {}     {}  {}  {}         {:>8}  {:>7}",
                figure(figures.and_then(|figures| figures.precision)),
                figure(figures.and_then(|figures| figures.recall)),
                figure(figures.and_then(|figures| figures.f1)),
                figure(figures.and_then(|figures| figures.adjusted_rand)),
                report.clusters,
                report
                    .largest
                    .first()
                    .map_or(1, |cluster| cluster.documents),
            )
        })?;
        if std::io::stderr().is_terminal() {
            eprintln!("spinney: {} {value} done", sweep.option);
        }
    }
    if let Some(path) = &args.plot {
        let title = match sweep.option.as_str() {
            "method" => "precision and recall of the methods".to_owned(),
            option => format!("precision and recall of {} by {option}", route.method),
        };
        std::fs::write(path, plot::svg(&title, &sweep.option, &points))
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
    let name = || path.display().to_string();
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(parse(&text).with_context(name)?))
}

/// Standard output; whoever stops reading it (`spinney eval | head`) makes no error.
struct Output<W>(W);

impl<W: Write> Output<W> {
    fn write(&mut self, write: impl FnOnce(&mut W) -> std::io::Result<()>) -> anyhow::Result<()> {
        match write(&mut self.0).and_then(|()| self.0.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(error).context("cannot write standard output")
            }
            _ => Ok(()),
        }
    }
}
