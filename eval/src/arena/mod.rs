//! The arena: methods of spinney, and peers beside them, on all labelled collections of a folder.
//!
//! ```text
//! X.ndjson --parse--> documents --cluster, for each contestant--> roots --+
//! X.pairs.tsv, X.edits.tsv, X.mined.tsv ---------------------------------- score --> figures --> limits
//! ```

mod collections;
mod cross_validation;
mod edits;
mod error;
mod labels;
mod lead;
mod limits;
mod mined;
mod page_chrome;
mod pair_decisions;
mod peers;
mod shingles;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use super::clustering::{Clustering, ClusteringError};
use super::documents::{Document, Documents, DocumentsError};
use super::labels::{LabelError, LabelledPairs};
use super::score::rounded;
use super::{score, titles};
use collections::{Collections, read, read_text};
use edits::{EditScore, Edits};
use mined::Mined;
use page_chrome::PageChrome;
use pair_decisions::PairDecisions;
use spinney::config::{Clock, ConfigError, RawRoute, Route};
use spinney::method::Method;

pub use cross_validation::print_cross_validation;
pub use error::SetError;
pub use labels::{LabelScore, Wanted, WrongPair};
pub use lead::Joins;
pub use limits::{Judgement, Limit, Limits, LimitsError, Outcome};
pub use peers::Peer;
pub use table::{print_judgements, print_reasons, print_table, print_worst};

/// The set that stands for all of them.
const ALL: &str = "all";
/// How many of the largest clusters have their size and their titles printed.
const LARGEST_SIZES: usize = 5;
const LARGEST_TITLES: usize = 3;

/// Options of a run.
#[derive(Debug, Default)]
pub struct Arena {
    /// The folder of collections; without one only the page chrome is run.
    pub data: Option<PathBuf>,
    /// Collections and sets to run; empty for all.
    pub only: Vec<String>,
    /// Methods, as `--method` takes them.
    pub methods: Vec<String>,
    /// Whether the peers run, too.
    pub peers: bool,
    /// Whether the generated set of page chrome runs, too.
    pub page_chrome: bool,
    /// Only collections that have pairs of their own, and a twentieth of the page chrome.
    pub quick: bool,
    /// How many other orders of the collections that have edits are scored.
    pub shuffles: u64,
    /// How many of the worst pairs of a label are kept.
    pub show: usize,
    /// Threads for text work; 0 means all cores.
    pub threads: usize,
}

/// An error of the options or of the files of a folder.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// A file or folder cannot be read.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line of a file has too few columns.
    #[error("{name}: line {line} has fewer than {expected} columns, separated by tabs")]
    Columns {
        /// The file.
        name: String,
        /// The line, counted from 1.
        line: usize,
        /// How many it should have.
        expected: &'static str,
    },
    /// A collection cannot be read.
    #[error("{name}")]
    Documents {
        /// Its name.
        name: String,
        /// What is wrong with it.
        source: DocumentsError,
    },
    /// The labelled pairs of a collection cannot be read.
    #[error("{name}.pairs.tsv")]
    Labels {
        /// Its name.
        name: String,
        /// What is wrong with them.
        source: LabelError,
    },
    /// A collection cannot be clustered.
    #[error("{name}")]
    Clustering {
        /// Its name.
        name: String,
        /// Why.
        source: ClusteringError,
    },
    /// A method is none.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is nothing to run.
    #[error("{folder} contains no documents to score: X.ndjson or X.ndjson.xz{of}", folder = folder.display())]
    Nothing {
        /// The folder.
        folder: PathBuf,
        /// The sets that were asked for.
        of: String,
    },
    /// The figures cannot be written.
    #[error("cannot write the figures")]
    Write(#[from] std::io::Error),
}

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub enum Step<'s> {
    /// So many documents are to be placed.
    Begin {
        /// By which method, and of which collection.
        what: &'s str,
        /// How many.
        documents: u64,
    },
    /// So many of them have been placed.
    Done {
        /// How many.
        documents: u64,
    },
    /// All of them have been placed.
    End,
}

/// A figure.
#[derive(Debug, Clone, PartialEq)]
pub enum FigureValue {
    /// A share from 0 to 1, or a ratio.
    Number(f64),
    /// How many of something.
    Count(u64),
    /// Sizes, the largest first.
    Sizes(Vec<u64>),
    /// Sizes, the largest first, and how many titles there are of each.
    Titles(Vec<[u64; 2]>),
}

impl Serialize for FigureValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            FigureValue::Number(number) => serializer.serialize_f64(rounded(*number)),
            FigureValue::Count(count) => serializer.serialize_u64(*count),
            FigureValue::Sizes(sizes) => sizes.serialize(serializer),
            FigureValue::Titles(titles) => titles.serialize(serializer),
        }
    }
}

/// A line of output.
#[derive(Debug, Serialize)]
struct FigureLine<'f> {
    bench: &'static str,
    method: &'f str,
    set: &'f str,
    figure: &'f str,
    value: &'f FigureValue,
}

/// What one contestant has made of one collection.
#[derive(Debug, Clone, PartialEq)]
pub struct SetScore {
    /// The collection, or `all`.
    pub collection: String,
    /// The set that the collection belongs to, if limits and the error count it.
    pub set: Option<String>,
    /// The method or peer.
    pub method: String,
    /// The labelled pairs.
    pub labels: Vec<LabelScore>,
    /// The error; `None` where there are no such labels.
    pub error: Option<SetError>,
    /// All figures by name, in the order in which they are printed.
    pub figures: Vec<(String, FigureValue)>,
}

impl SetScore {
    fn new(collection: &str, method: &str) -> SetScore {
        SetScore {
            collection: collection.to_owned(),
            set: None,
            method: method.to_owned(),
            labels: Vec::new(),
            error: None,
            figures: Vec::new(),
        }
    }

    fn figure(&mut self, name: impl Into<String>, value: FigureValue) {
        self.figures.push((name.into(), value));
    }

    /// A figure that is a single number.
    pub fn number(&self, figure: &str) -> Option<f64> {
        let found = self.figures.iter().find(|(name, _)| name == figure);
        found.and_then(|(_, value)| match value {
            FigureValue::Number(number) => Some(*number),
            FigureValue::Count(count) => Some(*count as f64),
            FigureValue::Sizes(_) | FigureValue::Titles(_) => None,
        })
    }

    /// Adds the figures of labelled pairs.
    fn set_labels(&mut self, labels: Vec<LabelScore>) {
        for label in &labels {
            let name = limits::label_figure(&label.label);
            let side = match label.wanted {
                Wanted::Together => "apart",
                Wanted::Apart | Wanted::Free => "together",
            };
            self.figures.push((name.clone(), FigureValue::Number(label.share_together())));
            self.figures.push((format!("pairs of {name}"), FigureValue::Count(label.pairs)));
            for (reason, &pairs) in &label.reasons {
                self.figures.push((format!("{name}, wrongly {side}: {reason}"), FigureValue::Count(pairs)));
            }
        }
        self.error = SetError::of(&labels);
        if let Some(error) = self.error {
            self.figure("dup apart", FigureValue::Number(error.dup_apart));
            self.figure("wrong together", FigureValue::Number(error.wrong_together));
            self.figure("error", FigureValue::Number(error.error()));
        }
        self.labels = labels;
    }

    /// Writes one JSON object a line for each figure.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        for (figure, value) in &self.figures {
            let line = FigureLine { bench: "eval", method: &self.method, set: &self.collection, figure, value };
            writeln!(out, "{}", serde_json::json!(line))?;
        }
        out.flush()
    }
}

/// What clusters documents.
enum Contestant {
    /// A method of spinney by its name.
    Method(String, Box<Route>),
    Peer(String, Peer),
}

impl Contestant {
    fn name(&self) -> &str {
        match self {
            Contestant::Method(name, _) | Contestant::Peer(name, _) => name,
        }
    }

    fn cluster(
        &self,
        documents: &Documents,
        threads: usize,
        progress: &dyn Fn(u64),
    ) -> Result<Clustering, ClusteringError> {
        match self {
            Contestant::Method(_, route) => documents.cluster(route, threads, progress),
            Contestant::Peer(_, peer) => Ok(peer.cluster(documents, progress)),
        }
    }
}

/// The route of a method; all collections have the same fields.
fn route_of(method: Option<&str>) -> Result<Route, ConfigError> {
    let options = RawRoute::default().any_index().or_clock(Clock::None);
    let options = match method {
        Some(method) => options.with("method", method)?,
        None => options,
    };
    let mut route = options.validate("eval")?;
    route.id_field = Some("id".to_owned());
    route.title_field = Some("title".to_owned());
    Ok(route)
}

/// A collection without pairs of its own, in which picked pairs are looked for.
struct Whole {
    documents: HashMap<String, Document>,
    ids: Vec<String>,
    /// Of each contestant.
    clusterings: Vec<Clustering>,
}

impl Arena {
    /// Scores everything. `emit` gets each score as soon as there is one, `progress` how far the run is. Returns all
    /// scores, those of `all` last.
    ///
    /// # Errors
    /// When a file cannot be read or is not of its form, a method is none, or `emit` fails.
    pub fn run(
        &self,
        limits: &Limits,
        emit: &mut dyn FnMut(&SetScore) -> std::io::Result<()>,
        progress: &dyn Fn(Step<'_>),
    ) -> Result<Vec<SetScore>, ArenaError> {
        let mut contestants = Vec::new();
        for method in &self.methods {
            contestants.push(Contestant::Method(method.clone(), Box::new(route_of(Some(method))?)));
        }
        if self.peers {
            contestants.extend(Peer::ALL.map(|peer| Contestant::Peer(peer.to_string(), peer)));
        }
        let totals = vec![(0, 0); contestants.len()];
        let contestants = contestants.as_slice();
        let (scores, decisions) = (Vec::new(), Vec::new());
        let mut run = Run { arena: self, limits, contestants, emit, progress, scores, totals, decisions };
        if self.page_chrome || self.data.is_none() {
            run.page_chrome()?;
        }
        if let Some(folder) = &self.data {
            let mut files = Collections::of(folder)?;
            if !self.only.is_empty() {
                files.retain(|name| {
                    let set = limits.set_of(name);
                    self.only.iter().any(|only| name == only || set == Some(only))
                });
            }
            if self.quick {
                let pairs: Vec<String> = files.pairs.keys().cloned().collect();
                files.documents.retain(|name, _| pairs.contains(name));
            }
            if files.documents.is_empty() {
                let of = match self.only.is_empty() {
                    true => String::new(),
                    false => format!(" of {}", self.only.join(", ")),
                };
                return Err(ArenaError::Nothing { folder: folder.clone(), of });
            }
            run.collections(&files)?;
            let mean = run.cross_validation()?;
            run.all(mean.as_ref())?;
        }
        Ok(run.scores)
    }
}

/// A run of the arena.
struct Run<'r> {
    arena: &'r Arena,
    limits: &'r Limits,
    contestants: &'r [Contestant],
    emit: &'r mut dyn FnMut(&SetScore) -> std::io::Result<()>,
    progress: &'r dyn Fn(Step<'_>),
    scores: Vec<SetScore>,
    /// Documents and nodes of all collections, of each contestant.
    totals: Vec<(u64, u64)>,
    /// Of the collections of a set that have pairs of their own, by `verified`.
    decisions: Vec<PairDecisions>,
}

impl Run<'_> {
    fn add(&mut self, score: SetScore) -> Result<(), ArenaError> {
        (self.emit)(&score)?;
        self.scores.push(score);
        Ok(())
    }

    fn page_chrome(&mut self) -> Result<(), ArenaError> {
        let pages = PageChrome::new(self.arena.quick);
        for contestant in self.contestants {
            let score = pages.score(contestant, self.arena.threads, self.progress)?;
            self.add(score)?;
        }
        Ok(())
    }

    fn collections(&mut self, files: &Collections) -> Result<(), ArenaError> {
        let mut whole = Vec::new();
        for (name, path) in &files.documents {
            let documents = Documents::parse(read(path)?, &route_of(None)?);
            let documents = documents.map_err(|source| ArenaError::Documents { name: name.clone(), source })?;
            let scores = CollectionFiles::read(name, &documents, files)?;
            let mut clusterings = Vec::new();
            for (at, contestant) in self.contestants.iter().enumerate() {
                let (score, clustering) = self.score(contestant, name, &documents, &scores)?;
                if let Some((all, nodes)) = self.totals.get_mut(at) {
                    *all += documents.count() as u64;
                    *nodes += clustering.nodes;
                }
                self.add(score)?;
                if let (Contestant::Method(_, route), Some(labelled)) = (contestant, &scores.labelled)
                    && let Some(set) = self.limits.set_of(name).filter(|_| route.method == Method::Verified)
                {
                    self.decisions.push(PairDecisions::of(set, labelled, &documents, &clustering));
                }
                clusterings.push(clustering);
            }
            // Pairs that were picked from the collections are seen among all the other documents, as in an index.
            if scores.labelled.is_none() {
                whole.push(Whole {
                    documents: (0..).take(documents.count()).map(|one| (documents.id(one).to_owned(), one)).collect(),
                    ids: (0..).take(documents.count()).map(|one| documents.id(one).to_owned()).collect(),
                    clusterings,
                });
            }
        }
        for (name, path) in files.pairs.iter().filter(|(name, _)| !files.edits.contains_key(*name)) {
            self.picked(name, &read_text(path)?, &whole, files.documents.contains_key(name))?;
        }
        Ok(())
    }

    /// Scores what one contestant makes of one collection.
    fn score(
        &self,
        contestant: &Contestant,
        name: &str,
        documents: &Documents,
        files: &CollectionFiles,
    ) -> Result<(SetScore, Clustering), ArenaError> {
        let threads = self.arena.threads;
        let what = format!("{}: {name}", contestant.name());
        let wrong = |source| ArenaError::Clustering { name: name.to_owned(), source };
        (self.progress)(Step::Begin { what: &what, documents: documents.count() as u64 });
        let done = |documents| (self.progress)(Step::Done { documents });
        let clustering = contestant.cluster(documents, threads, &done).map_err(wrong)?;
        (self.progress)(Step::End);
        let mut score = SetScore::new(name, contestant.name());
        score.set = self.limits.set_of(name).map(str::to_owned);
        if let Some(labelled) = &files.labelled {
            let id = |document| documents.id(document).to_owned();
            score.set_labels(labels::score(labelled, &clustering, &id, self.arena.show));
        }
        if let Some((edits, pairs)) = &files.edits {
            edit_figures(&mut score, &score_edits(edits, pairs, documents, &clustering));
            if let (Contestant::Method(_, route), 1..) = (contestant, self.arena.shuffles) {
                let mut found = Vec::new();
                for seed in 1..=self.arena.shuffles {
                    let what = format!("{what}, shuffle {seed} of {}", self.arena.shuffles);
                    (self.progress)(Step::Begin { what: &what, documents: documents.count() as u64 });
                    let shuffled = documents.cluster_shuffled(seed, route, threads, &done).map_err(wrong)?;
                    (self.progress)(Step::End);
                    found.push(score_edits(edits, pairs, documents, &shuffled));
                }
                shuffle_figures(&mut score, &found);
            }
        }
        if let Some(mined) = &files.mined {
            let root = |id: &str| documents.find(id).and_then(|one| clustering.roots.get(one as usize).copied());
            let found = mined.score(&clustering.roots, &root);
            score.figure("number of pairs put together", FigureValue::Count(found.together));
            score.figure("of them, number sharing no text", FigureValue::Count(found.unrelated));
            score.figure("of them, share sharing no text", FigureValue::Number(found.share(found.unrelated)));
            score.figure("of them, share sharing most of the text", FigureValue::Number(found.share(found.alike)));
        }
        cluster_figures(&mut score, documents, &clustering);
        if let Contestant::Method(..) = contestant {
            let nodes = clustering.nodes as f64 / documents.count() as f64;
            score.figure("nodes per document", FigureValue::Number(nodes));
        }
        Ok((score, clustering))
    }

    /// Scores pairs that were picked from whole collections. `has_own`: whether they have documents of their own, too.
    fn picked(&mut self, name: &str, text: &str, whole: &[Whole], has_own: bool) -> Result<(), ArenaError> {
        for (at, contestant) in self.contestants.iter().enumerate() {
            let mut found: BTreeMap<String, LabelScore> = BTreeMap::new();
            for Whole { documents, ids, clusterings } in whole {
                let labelled = match LabelledPairs::resolve(text, |id| documents.get(id).copied()) {
                    Err(LabelError::Nothing) => continue,
                    labelled => labelled.map_err(|source| ArenaError::Labels { name: name.to_owned(), source })?,
                };
                let Some(clustering) = clusterings.get(at) else { continue };
                let id = |document: Document| ids.get(document as usize).cloned().unwrap_or_default();
                for score in labels::score(&labelled, clustering, &id, self.arena.show) {
                    match found.get_mut(&score.label) {
                        Some(known) => known.add(score, self.arena.show),
                        None => {
                            found.insert(score.label.clone(), score);
                        }
                    }
                }
            }
            if found.is_empty() {
                continue;
            }
            let collection = match has_own {
                true => format!("{name} in the whole collections"),
                false => name.to_owned(),
            };
            let mut score = SetScore::new(&collection, contestant.name());
            score.set = self.limits.set_of(name).filter(|_| !has_own).map(str::to_owned);
            score.set_labels(found.into_values().collect());
            self.add(score)?;
        }
        Ok(())
    }

    /// Scores how much the weights of `verified` owe to the sets that they were chosen on. Returns the means.
    fn cross_validation(&mut self) -> Result<Option<SetScore>, ArenaError> {
        let mut scores = cross_validation::scores(&Method::Verified.to_string(), std::mem::take(&mut self.decisions));
        let means = scores.pop();
        for score in scores {
            self.add(score)?;
        }
        Ok(means)
    }

    /// The figures of all collections together, and further means of the method that they name.
    fn all(&mut self, means: Option<&SetScore>) -> Result<(), ArenaError> {
        for (contestant, &(documents, nodes)) in self.contestants.iter().zip(&self.totals.clone()) {
            let mut score = SetScore::new(ALL, contestant.name());
            let of_method = self.scores.iter().filter(|score| score.method == contestant.name());
            let errors = of_method.filter_map(|score| Some((score.set.as_deref()?, score.error?)));
            if let Some((error, sets)) = error::mean(errors) {
                // The limit is that of all sets, not of some of them.
                score.set = (sets == self.limits.sets.len()).then(|| ALL.to_owned());
                score.figure("error", FigureValue::Number(error));
                score.figure("number of sets in the error", FigureValue::Count(sets as u64));
            }
            if let Contestant::Method(..) = contestant {
                let nodes = nodes as f64 / documents.max(1) as f64;
                score.figure("nodes per document", FigureValue::Number(nodes));
            }
            if let Some(means) = means.filter(|means| means.method == score.method) {
                score.figures.extend(means.figures.iter().cloned());
            }
            self.add(score)?;
        }
        Ok(())
    }
}

/// What is known of a collection besides its documents.
struct CollectionFiles {
    labelled: Option<LabelledPairs>,
    /// With the text of the labelled pairs.
    edits: Option<(Edits, String)>,
    mined: Option<Mined>,
}

impl CollectionFiles {
    fn read(name: &str, documents: &Documents, files: &Collections) -> Result<CollectionFiles, ArenaError> {
        let text = |files: &BTreeMap<String, PathBuf>| files.get(name).map(|path| read_text(path)).transpose();
        let pairs = text(&files.pairs)?;
        let labelled = pairs.as_deref().map(|text| LabelledPairs::parse(text, documents)).transpose();
        let labelled = labelled.map_err(|source| ArenaError::Labels { name: name.to_owned(), source })?;
        let edits = text(&files.edits)?.map(|text| Edits::parse(&text, &format!("{name}.edits.tsv"))).transpose()?;
        let mined = text(&files.mined)?.map(|text| Mined::parse(&text, &format!("{name}.mined.tsv"))).transpose()?;
        Ok(CollectionFiles { labelled, edits: edits.zip(pairs), mined })
    }
}

fn score_edits(edits: &Edits, pairs: &str, documents: &Documents, clustering: &Clustering) -> EditScore {
    let root_of = |document: Document| clustering.roots.get(document as usize).copied();
    let root = |id: &str| documents.find(id).and_then(root_of);
    let all = (0..).take(documents.count());
    edits.score(pairs, &root, all.filter_map(|one| Some((documents.id(one), root_of(one)?))))
}

const REPRINTS: &str = "reprints";
const WORST_KIND: &str = "reprints, worst kind and language";
const WRONG_PAIRS: &str = "number of wrong pairs of different originals";

fn edit_figures(score: &mut SetScore, found: &EditScore) {
    for (name, share) in found.shares() {
        score.figure(name, FigureValue::Number(share));
    }
    if let Some(worst) = found.worst {
        score.figure(WORST_KIND, FigureValue::Number(worst));
    }
    score.figure(WRONG_PAIRS, FigureValue::Count(found.wrong_pairs));
}

/// What the order of arrival changes: the extremes over the orders.
fn shuffle_figures(score: &mut SetScore, found: &[EditScore]) {
    let orders = found.len();
    let lowest = |shares: &mut dyn Iterator<Item = f64>| shares.reduce(f64::min);
    let reprints = || found.iter().filter_map(EditScore::reprints);
    let worst = lowest(&mut found.iter().filter_map(|found| found.worst));
    for (name, extreme, value) in [
        (REPRINTS, "lowest", lowest(&mut reprints())),
        (REPRINTS, "highest", reprints().reduce(f64::max)),
        (WORST_KIND, "lowest", worst),
    ] {
        if let Some(value) = value {
            score.figure(format!("{name}, {extreme} of {orders} shuffles"), FigureValue::Number(value));
        }
    }
    if let Some(most) = found.iter().map(|found| found.wrong_pairs).max() {
        score.figure(format!("{WRONG_PAIRS}, highest of {orders} shuffles"), FigureValue::Count(most));
    }
}

/// Figures that need no labels.
fn cluster_figures(score: &mut SetScore, documents: &Documents, clustering: &Clustering) {
    let clusters = score::largest(&clustering.roots);
    let joins = Joins::of(documents, clustering);
    score.figure("number of joins", FigureValue::Count(joins.all));
    if let Some(share) = joins.share_without_lead() {
        score.figure("joins without the lead", FigureValue::Number(share));
    }
    score.figure("number of clusters", FigureValue::Count(clusters.len() as u64));
    let sizes = clusters.iter().take(LARGEST_SIZES).map(|members| members.len() as u64).collect();
    score.figure("sizes of the largest clusters", FigureValue::Sizes(sizes));
    let unrelated = clusters.iter().filter(|members| members.len() > 1).filter_map(|members| {
        let short = members.iter().filter(|&&one| documents.is_short(one));
        titles::unrelated(short.filter_map(|&one| Some((one, documents.title(one)?))))
    });
    let unrelated = unrelated.map(|mistake| mistake.pairs).sum();
    score.figure("number of pairs of short texts under titles that share nothing", FigureValue::Count(unrelated));
    let titles = clusters.iter().take(LARGEST_TITLES).map(|members| {
        let titles = titles::distinct(members.iter().filter_map(|&one| documents.title(one)));
        [members.len() as u64, titles as u64]
    });
    score.figure("documents and titles of the largest clusters", FigureValue::Titles(titles.collect()));
}

#[cfg(test)]
mod tests;
