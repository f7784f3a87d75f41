//! The figures of one setting. The names of the fields are those of the JSON that `spinney-eval --json` prints.

use serde::Serialize;

use super::by_label::{self, LabelFigures, ReasonCount};
use super::clustering::Clustering;
use super::documents::{Document, Documents};
use super::labels::{LabelledClusters, LabelledPairs};
use super::reason::why_apart;
use super::score::{self, Counts, Mistake, Mistakes, rounded};
use super::title::SHORT;
use super::titles;
use spinney::config::Route;
use spinney::method::Method;

/// The documents of a cluster whose beginnings are shown.
const SHOWN: usize = 3;

/// What one setting makes of the documents, and how good that is.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The method, as `--method` takes it.
    pub method: String,
    /// Fingerprints at most this many bits apart were near.
    pub k: u32,
    /// What `verified` asked of long texts, 0 to 1; `None` for the other methods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f64>,
    /// How many documents there are.
    pub documents: usize,
    /// How many clusters they are in, those of one document included.
    pub clusters: usize,
    /// Nodes of the forest at the end, per document.
    pub nodes_per_document: f64,
    /// Compared with the labelled pairs, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_pairs: Option<Figures>,
    /// Compared with the labelled clusters, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_clusters: Option<Figures>,
    /// Short texts put together under titles that share nothing; `None` without a title field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrelated_titles: Option<UnrelatedTitles>,
    /// The largest clusters of more than one document, the largest first.
    pub largest: Vec<Cluster>,
}

/// Pairs put together though both texts are short and their titles have no word of four letters and no two neighbouring
/// Chinese characters in common: mostly pages that are nothing but what stands around an article.
#[derive(Debug, Serialize)]
pub struct UnrelatedTitles {
    /// Texts of fewer letters are short.
    pub letters: usize,
    /// How many pairs.
    pub pairs: u64,
    /// The clusters with most of them, the worst first.
    pub worst: Vec<WorstMistake>,
}

/// How good the clusters are. Figures are ratios from 0 to 1, the adjusted Rand index may be negative; `None` where
/// there is nothing to compare.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Pairs that count: labelled ones, or all pairs of the documents that the clusters name.
    pub pairs: u64,
    /// Of the pairs put together, the part that belongs together.
    pub precision: Option<f64>,
    /// Of the pairs that belong together, the part put together.
    pub recall: Option<f64>,
    /// Harmonic mean of precision and recall.
    pub f1: Option<f64>,
    /// 1 for the same clusters, 0 for what chance would do; only for labelled clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adjusted_rand: Option<f64>,
    /// Pairs put together that belong apart.
    pub wrong_pairs_together: u64,
    /// Pairs put apart that belong together.
    pub wrong_pairs_apart: u64,
    /// Labels that are neither right nor wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<OtherLabel>,
    /// Every label by itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_label: Vec<LabelFigures>,
    /// Why pairs are wrongly apart, and wrongly together; the most frequent reason first. Only for labelled pairs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons_apart: Vec<ReasonCount>,
    /// The same of pairs that are wrongly together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons_together: Vec<ReasonCount>,
    /// Lines of the file that name documents that do not exist.
    pub lines_left_out: usize,
    /// The clusters with most wrong pairs, the worst first.
    pub worst_together: Vec<WorstMistake>,
    /// The clusters that lack most pairs, the worst first.
    pub worst_apart: Vec<WorstMistake>,
}

/// What became of the pairs with a label that is neither right nor wrong.
#[derive(Debug, Serialize)]
pub struct OtherLabel {
    /// The label.
    pub label: String,
    /// Pairs with this label that were put together.
    pub together: u64,
    /// Pairs with this label.
    pub pairs: u64,
}

/// A cluster that was found.
#[derive(Debug, Serialize)]
pub struct Cluster {
    /// How many documents it has.
    pub documents: usize,
    /// How many different titles they have; `None` without a title field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub titles: Option<usize>,
    /// The first few of them.
    pub beginnings: Vec<Excerpt>,
}

/// Two documents that were wrongly put together, or wrongly apart.
#[derive(Debug, Serialize)]
pub struct WorstMistake {
    /// How many wrong pairs the same cluster has, or lacks.
    pub pairs: u64,
    /// Why they are apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// One of the two.
    pub one: Excerpt,
    /// The other one.
    pub other: Excerpt,
}

/// A document by its id and the first words of title and text.
#[derive(Debug, Serialize)]
pub struct Excerpt {
    /// Its id.
    pub id: String,
    /// The first words, on one line.
    pub begins: String,
}

/// The labels that were given.
#[derive(Debug, Default)]
pub struct Labels {
    /// Labelled pairs.
    pub pairs: Option<LabelledPairs>,
    /// Labelled clusters.
    pub clusters: Option<LabelledClusters>,
}

impl Report {
    /// Scores a clustering of the documents. `show`: how many clusters, and how many mistakes of each kind, to report.
    pub fn new(route: &Route, documents: &Documents, clustering: &Clustering, labels: &Labels, show: usize) -> Report {
        let roots = &clustering.roots;
        let largest = score::largest(roots);
        let on_pairs = labels.pairs.as_ref().map(|labelled| {
            let scored = score::against_pairs(roots, labelled);
            let others = scored.others.into_iter();
            let [reasons_apart, reasons_together] = by_label::reasons(labelled, clustering);
            Figures {
                by_label: by_label::by_label(labelled, roots),
                reasons_apart,
                reasons_together,
                labels: others.map(|(label, together, pairs)| OtherLabel { label, together, pairs }).collect(),
                lines_left_out: labelled.left_out,
                ..Figures::new(scored.counts, &scored.mistakes, documents, clustering, show)
            }
        });
        let on_clusters = labels.clusters.as_ref().map(|labelled| {
            let (counts, mistakes) = score::against_clusters(roots, labelled);
            Figures {
                adjusted_rand: Some(rounded(counts.adjusted_rand())),
                lines_left_out: labelled.left_out,
                ..Figures::new(counts, &mistakes, documents, clustering, show)
            }
        });
        let titled = route.title_field.is_some();
        let shown = |&document: &Document| Excerpt::of(document, documents);
        Report {
            method: route.method.to_string(),
            k: route.k.0,
            similarity: (route.method == Method::Verified).then(|| rounded(route.similarity.share().into())),
            documents: documents.count(),
            clusters: largest.len(),
            nodes_per_document: rounded(clustering.nodes as f64 / documents.count() as f64),
            on_pairs,
            on_clusters,
            unrelated_titles: titled.then(|| UnrelatedTitles::new(&largest, documents, show)),
            largest: largest
                .iter()
                .filter(|members| members.len() > 1)
                .take(show)
                .map(|members| Cluster {
                    documents: members.len(),
                    titles: titled.then(|| titles::distinct(members.iter().filter_map(|&one| documents.title(one)))),
                    beginnings: members.iter().take(SHOWN).map(shown).collect(),
                })
                .collect(),
        }
    }

    /// The figures that a sweep compares: those of the clusters, which say more, else those of the pairs.
    pub fn figures(&self) -> Option<&Figures> {
        self.on_clusters.as_ref().or(self.on_pairs.as_ref())
    }
}

impl UnrelatedTitles {
    fn new(clusters: &[Vec<Document>], documents: &Documents, show: usize) -> UnrelatedTitles {
        let in_cluster = |members: &Vec<Document>| {
            let short = members.iter().filter(|&&one| documents.is_short(one));
            titles::unrelated(short.filter_map(|&one| Some((one, documents.title(one)?))))
        };
        let found = score::worst_first(clusters.iter().filter_map(in_cluster));
        UnrelatedTitles {
            letters: SHORT,
            pairs: found.iter().map(|mistake| mistake.pairs).sum(),
            worst: found.iter().take(show).map(|mistake| WorstMistake::of(mistake, documents, None)).collect(),
        }
    }
}

impl Figures {
    fn new(
        counts: Counts,
        mistakes: &Mistakes,
        documents: &Documents,
        clustering: &Clustering,
        show: usize,
    ) -> Figures {
        let worst = |mistakes: &[Mistake], apart: bool| -> Vec<WorstMistake> {
            let worst = mistakes.iter().take(show);
            worst
                .map(|mistake| {
                    let reason = apart.then(|| why_apart(mistake.one, mistake.other, clustering));
                    WorstMistake::of(mistake, documents, reason)
                })
                .collect()
        };
        Figures {
            pairs: counts.rightly_together + counts.wrongly_together + counts.rightly_apart + counts.wrongly_apart,
            precision: counts.precision().map(rounded),
            recall: counts.recall().map(rounded),
            f1: counts.f1().map(rounded),
            adjusted_rand: None,
            wrong_pairs_together: counts.wrongly_together,
            wrong_pairs_apart: counts.wrongly_apart,
            labels: Vec::new(),
            by_label: Vec::new(),
            reasons_apart: Vec::new(),
            reasons_together: Vec::new(),
            lines_left_out: 0,
            worst_together: worst(&mistakes.together, false),
            worst_apart: worst(&mistakes.apart, true),
        }
    }
}

impl WorstMistake {
    fn of(mistake: &Mistake, documents: &Documents, reason: Option<String>) -> WorstMistake {
        WorstMistake {
            pairs: mistake.pairs,
            reason,
            one: Excerpt::of(mistake.one, documents),
            other: Excerpt::of(mistake.other, documents),
        }
    }
}

impl Excerpt {
    fn of(document: Document, documents: &Documents) -> Excerpt {
        Excerpt { id: documents.id(document).to_owned(), begins: documents.beginning(document).to_owned() }
    }
}
