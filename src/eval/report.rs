//! What `spinney eval` says of one setting: for people, and as JSON.

use std::io::{self, Write};

use serde::Serialize;

use super::documents::{Document, Documents, Stamped};
use super::labels::{Clusters, Pairs};
use super::reason::why_apart;
use super::score::{self, Counts, Mistake, Mistakes};
use crate::config::Route;
use crate::method::Method;

/// The documents of a cluster whose beginnings are shown.
const SHOWN: usize = 3;

#[derive(Debug, Serialize)]
pub struct Report {
    pub method: String,
    pub k: u32,
    /// What `verified` asked of long texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f64>,
    pub documents: usize,
    pub clusters: usize,
    pub nodes_per_document: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_pairs: Option<Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_clusters: Option<Figures>,
    pub largest: Vec<Cluster>,
}

/// Figures are shares, 0 to 1; `None` where there is nothing that they could be a share of.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Pairs that count: labelled ones, or all pairs of the documents that the clusters name.
    pub pairs: u64,
    pub precision: Option<f64>,
    pub recall: Option<f64>,
    pub f1: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adjusted_rand: Option<f64>,
    pub wrong_pairs_together: u64,
    pub wrong_pairs_apart: u64,
    /// Labels that are neither right nor wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelShare>,
    /// Lines of the file that name documents that are not there.
    pub lines_left_out: usize,
    pub worst_together: Vec<Wrong>,
    pub worst_apart: Vec<Wrong>,
}

#[derive(Debug, Serialize)]
pub struct LabelShare {
    pub label: String,
    pub together: u64,
    pub pairs: u64,
}

#[derive(Debug, Serialize)]
pub struct Cluster {
    pub documents: usize,
    pub beginnings: Vec<Shown>,
}

#[derive(Debug, Serialize)]
pub struct Wrong {
    pub pairs: u64,
    /// Why they are apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub one: Shown,
    pub other: Shown,
}

#[derive(Debug, Serialize)]
pub struct Shown {
    pub id: String,
    pub begins: String,
}

/// The labels that were given.
pub struct Labels {
    pub pairs: Option<Pairs>,
    pub clusters: Option<Clusters>,
}

impl Report {
    /// Scores the roots. `show`: so many clusters and mistakes are told of.
    pub fn new(
        route: &Route,
        documents: &Documents,
        stamped: &Stamped,
        labels: &Labels,
        show: usize,
    ) -> Report {
        let roots = &stamped.roots;
        let largest = score::largest(roots);
        let on_pairs = labels.pairs.as_ref().map(|labelled| {
            let scored = score::pairs(roots, labelled);
            let others = scored.others.into_iter();
            Figures {
                labels: others
                    .map(|(label, together, pairs)| LabelShare {
                        label,
                        together,
                        pairs,
                    })
                    .collect(),
                lines_left_out: labelled.left_out,
                ..Figures::new(scored.counts, &scored.mistakes, documents, stamped, show)
            }
        });
        let on_clusters = labels.clusters.as_ref().map(|labelled| {
            let (counts, mistakes) = score::clusters(roots, labelled);
            Figures {
                adjusted_rand: Some(rounded(counts.adjusted_rand())),
                lines_left_out: labelled.left_out,
                ..Figures::new(counts, &mistakes, documents, stamped, show)
            }
        });
        let shown = |&document: &Document| Shown::of(document, documents);
        Report {
            method: route.method.to_string(),
            k: route.k.0,
            similarity: (route.method == Method::Verified)
                .then(|| rounded(route.similarity.share().into())),
            documents: documents.len(),
            clusters: largest.len(),
            nodes_per_document: rounded(stamped.nodes as f64 / documents.len() as f64),
            on_pairs,
            on_clusters,
            largest: largest
                .iter()
                .filter(|members| members.len() > 1)
                .take(show)
                .map(|members| Cluster {
                    documents: members.len(),
                    beginnings: members.iter().take(SHOWN).map(shown).collect(),
                })
                .collect(),
        }
    }

    /// The figures that a sweep compares: those of the clusters, which say more, else those of the pairs.
    pub fn figures(&self) -> Option<&Figures> {
        self.on_clusters.as_ref().or(self.on_pairs.as_ref())
    }

    /// # Errors
    /// When `out` does not take it.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        write!(out, "method {}, k {}", self.method, self.k)?;
        if let Some(similarity) = self.similarity {
            write!(out, ", similarity {similarity}")?;
        }
        writeln!(
            out,
            ": {} documents in {} clusters, {:.2} nodes a document",
            self.documents, self.clusters, self.nodes_per_document
        )?;
        for (name, figures) in [("pairs", &self.on_pairs), ("clusters", &self.on_clusters)] {
            if let Some(figures) = figures {
                writeln!(out, "\nagainst the {name}")?;
                figures.print(out)?;
            }
        }
        writeln!(out, "\nlargest clusters")?;
        for cluster in &self.largest {
            writeln!(out, "  {} documents", cluster.documents)?;
            for shown in &cluster.beginnings {
                shown.print(out)?;
            }
        }
        if self.largest.is_empty() {
            writeln!(out, "  every document is alone")?;
        }
        Ok(())
    }
}

impl Figures {
    fn new(
        counts: Counts,
        mistakes: &Mistakes,
        documents: &Documents,
        stamped: &Stamped,
        show: usize,
    ) -> Figures {
        let worst = |mistakes: &[Mistake], apart: bool| -> Vec<Wrong> {
            let worst = mistakes.iter().take(show);
            worst
                .map(|mistake| Wrong {
                    pairs: mistake.pairs,
                    reason: apart.then(|| why_apart(mistake.one, mistake.other, stamped)),
                    one: Shown::of(mistake.one, documents),
                    other: Shown::of(mistake.other, documents),
                })
                .collect()
        };
        Figures {
            pairs: counts.rightly_together
                + counts.wrongly_together
                + counts.rightly_apart
                + counts.wrongly_apart,
            precision: counts.precision().map(rounded),
            recall: counts.recall().map(rounded),
            f1: counts.f1().map(rounded),
            adjusted_rand: None,
            wrong_pairs_together: counts.wrongly_together,
            wrong_pairs_apart: counts.wrongly_apart,
            labels: Vec::new(),
            lines_left_out: 0,
            worst_together: worst(&mistakes.together, false),
            worst_apart: worst(&mistakes.apart, true),
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        write!(
            out,
            "  precision {}  recall {}  F1 {}",
            figure(self.precision),
            figure(self.recall),
            figure(self.f1)
        )?;
        if self.adjusted_rand.is_some() {
            write!(out, "  adjusted Rand index {}", figure(self.adjusted_rand))?;
        }
        writeln!(out, "  ({} pairs)", self.pairs)?;
        for label in &self.labels {
            let LabelShare {
                label,
                together,
                pairs,
            } = label;
            writeln!(out, "  label {label}: {together} of {pairs} put together")?;
        }
        if self.lines_left_out > 0 {
            let lines = self.lines_left_out;
            writeln!(
                out,
                "  left out: {lines} lines name documents that are not there"
            )?;
        }
        for (name, wrong, all) in [
            ("together", &self.worst_together, self.wrong_pairs_together),
            ("apart", &self.worst_apart, self.wrong_pairs_apart),
        ] {
            if all > 0 {
                writeln!(out, "  wrongly {name}: {all} pairs, the worst:")?;
            }
            for Wrong {
                pairs,
                reason,
                one,
                other,
            } in wrong
            {
                write!(
                    out,
                    "  {pairs} {}",
                    if *pairs == 1 { "pair" } else { "pairs" }
                )?;
                match reason {
                    Some(reason) => writeln!(out, "; {reason}")?,
                    None => writeln!(out)?,
                }
                one.print(out)?;
                other.print(out)?;
            }
        }
        Ok(())
    }
}

impl Shown {
    fn of(document: Document, documents: &Documents) -> Shown {
        Shown {
            id: documents.id(document).to_owned(),
            begins: documents.beginning(document).to_owned(),
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "    {}  {}", self.id, self.begins)
    }
}

/// Four decimals: more say nothing.
fn rounded(figure: f64) -> f64 {
    (figure * 10_000.0).round() / 10_000.0
}

/// A figure for people.
pub fn figure(figure: Option<f64>) -> String {
    figure.map_or("  --  ".into(), |figure| format!("{figure:.4}"))
}
