//! Forests from the index alone. An operator's command rebuilds them ([`Rebuild`]); a start takes in what was indexed and is
//! not stored, because the process before it was killed ([`begin_to_catch_up`]).
//!
//! ```text
//! cluster::scan --pages, two ahead--> engine::recover: texts on all threads --> forests, one document after the other
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use crate::bulk::{SelectionError, StampNames};
use crate::clock;
use crate::cluster::operator::{Operator, OperatorError};
use crate::cluster::scan::{Hit, Overview, Scan, ScanError, Wanted};
use crate::config::{Clock, ServeOptions};
use crate::engine::{
    Engine, EngineError, Recovered, Recovering, SaveError, Source, StoredDocument, Unavailable,
};
use crate::state::{AppState, CLOCK_SKEW, random_key};
use crate::store::StoreError;
use crate::time::Millis;

/// Pages that are read ahead.
const AHEAD: usize = 2;
/// Documents that arrived so long before the last one that is stored may still have been on their way, in milliseconds.
const MARGIN: i64 = 60_000;
/// How long a start waits for what it has missed; the rest is taken in while it serves.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pauses between two looks for a cluster that does not answer.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often the log says how far it is.
const TELL: Duration = Duration::from_secs(5);

/// Why forests cannot be recovered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecoveryError {
    /// The cluster.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The URL or a certificate.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// Routes and forests.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The prefix of the stamp.
    #[error(transparent)]
    Prefix(#[from] SelectionError),
    /// A forest has failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The directory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was recovered cannot be stored.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// No `--data-dir`.
    #[error("name the directory to store the forests in with --data-dir")]
    NoDirectory,
    /// No route.
    #[error("name the indices with --index, or give the file with the routes with --config")]
    NoRoute,
    /// There is nothing to do.
    #[error(
        "{} holds {} already, and nothing was changed: start serve with it; or, to rebuild it from the index, move its folder in there away and try again",
        dir.display(), forests.join(", ")
    )]
    Held {
        /// The directory.
        dir: PathBuf,
        /// The names of the forests.
        forests: Vec<String>,
    },
    /// No index has a name that fits.
    #[error("there is no index {} at {url}: is --index right, and is it the right cluster?", indices.join(", "))]
    NoIndex {
        /// Names and patterns.
        indices: Vec<String>,
        /// Of the cluster.
        url: String,
    },
}

/// How far the reading of one forest is, in documents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress<'a> {
    pub(crate) forest: &'a str,
    pub(crate) read: u64,
    pub(crate) total: u64,
}

/// Is told how far it is.
pub(crate) type Told<'a> = dyn Fn(Progress<'_>) + Sync + 'a;

/// What there is of one forest in the indices.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    pub(crate) source: Source,
    /// Stamped documents.
    pub(crate) all: Overview,
    /// Those of them that are to be read: the others are older than the window.
    pub(crate) read: Overview,
    since: Option<Millis>,
}

/// Forests that are to be rebuilt.
pub(crate) struct Rebuild {
    engine: Arc<Engine>,
    reader: Reader,
    dir: PathBuf,
    sources: Vec<Source>,
}

/// Who reads the indices.
struct Reader {
    operator: Operator,
    names: StampNames,
    /// Documents a second.
    rate: Option<u32>,
}

impl Rebuild {
    /// Looks which of the configured forests the directory does not hold. `rate`: documents that are read in a second at
    /// most.
    ///
    /// # Errors
    /// When it holds all of them, is in use, or something in the options is wrong.
    pub(crate) async fn new(
        config: &ServeOptions,
        rate: Option<u32>,
    ) -> Result<Rebuild, RecoveryError> {
        let storage = config.storage.as_ref();
        let dir = storage.ok_or(RecoveryError::NoDirectory)?.data_dir.clone();
        if config.routes.is_empty() {
            return Err(RecoveryError::NoRoute);
        }
        let engine = Engine::new(&config.routes, &config.prefix, config.threads, random_key())?;
        let engine = Arc::new(engine);
        engine.limit_memory(config.forest_memory).await?;
        let held = match dir.exists() {
            true => engine.stored_forests(&dir)?,
            false => Vec::new(),
        };
        let mut sources = engine.sources().await?;
        sources.retain(|source| !held.contains(&source.forest));
        if sources.is_empty() {
            return Err(RecoveryError::Held { dir, forests: held });
        }
        Ok(Rebuild {
            engine,
            reader: Reader::new(config, rate)?,
            dir,
            sources,
        })
    }

    /// What there is to read.
    ///
    /// # Errors
    /// When the cluster cannot be reached or refuses, or a forest has no index.
    pub(crate) async fn extents(&self) -> Result<Vec<Extent>, RecoveryError> {
        let mut extents = Vec::new();
        for source in &self.sources {
            let extent = self.reader.extent(source).await?;
            if !extent.all.has_index {
                return Err(RecoveryError::NoIndex {
                    indices: source.indices.clone(),
                    url: self.reader.operator.url().to_owned(),
                });
            }
            extents.push(extent);
        }
        Ok(extents)
    }

    /// Reads the documents, and stores the forests that come of them. Until that is done, there is nothing of them in the
    /// directory.
    ///
    /// # Errors
    /// When the cluster refuses or stays away, or the forests cannot be stored.
    pub(crate) async fn run(
        &self,
        extents: &[Extent],
        told: &Told<'_>,
    ) -> Result<Vec<(String, Recovered)>, RecoveryError> {
        let mut all = Vec::new();
        for extent in extents {
            let source = &extent.source;
            let latest = latest();
            let recovering = self.engine.recover(source.clone(), false, latest);
            let recovered = self.reader.read(extent, recovering, told).await?;
            all.push((source.forest.clone(), recovered));
        }
        let (engine, dir) = (self.engine.clone(), self.dir.clone());
        let saved = tokio::task::spawn_blocking(move || engine.save(&dir)).await;
        saved.unwrap_or(Err(SaveError::Stopped))?;
        Ok(all)
    }
}

/// What arrived before this is older than the window.
fn before_window(now: Option<Millis>, window: Option<Millis>) -> Option<Millis> {
    let both = now.zip(window);
    both.map(|(now, window)| Millis(now.0.saturating_sub(window.0)))
}

/// A later arrival than this is a mistake of somebody's clock.
fn latest() -> Millis {
    Millis(clock::now().0.saturating_add(CLOCK_SKEW))
}

impl Reader {
    fn new(config: &ServeOptions, rate: Option<u32>) -> Result<Reader, RecoveryError> {
        Ok(Reader {
            operator: Operator::new(&config.service_url.0, config.upstream_ca.as_deref())?,
            names: StampNames::new(&config.prefix)?,
            rate,
        })
    }

    fn wanted(&self, source: &Source, since: Option<Millis>) -> Wanted {
        Wanted {
            indices: source.indices.clone(),
            names: self.names.clone(),
            fields: source.fields.clone(),
            since,
        }
    }

    /// What there is of a forest that nothing is stored of.
    async fn extent(&self, source: &Source) -> Result<Extent, ScanError> {
        let all = self.wanted(source, None);
        all.refresh(&self.operator).await;
        let all = all.overview(&self.operator).await?;
        let now = match &source.clock {
            Clock::Arrival => Some(clock::now()),
            // The window goes by the documents' own dates, as far as they have come.
            Clock::Field(_) => all.last,
            Clock::None => None,
        };
        let since = before_window(now, source.window);
        let read = match since {
            Some(_) => self.wanted(source, since).overview(&self.operator).await?,
            None => all,
        };
        Ok(Extent {
            source: source.clone(),
            all,
            read,
            since,
        })
    }

    /// Reads the documents into their forest.
    async fn read(
        &self,
        extent: &Extent,
        mut recovering: Recovering,
        told: &Told<'_>,
    ) -> Result<Recovered, RecoveryError> {
        let wanted = self.wanted(&extent.source, extent.since);
        let (pages, mut read) = mpsc::channel(AHEAD);
        let fetch = async {
            let most = self.rate.map_or(usize::MAX, |rate| rate as usize);
            let mut scan = Scan::open(&self.operator, wanted, most).await?;
            let fetched = self.fetch(&mut scan, pages).await;
            scan.close().await;
            fetched.map_err(RecoveryError::from)
        };
        let place = async {
            let mut progress = Progress {
                forest: &extent.source.forest,
                read: 0,
                total: extent.read.documents,
            };
            while let Some(page) = read.recv().await {
                progress.read += page.len() as u64;
                recovering.add(page).await?;
                told(progress);
            }
            Ok(recovering.finish().await?)
        };
        let ((), recovered) = tokio::try_join!(fetch, place)?;
        Ok(recovered)
    }

    /// Reads page after page, as fast as it may.
    async fn fetch(
        &self,
        scan: &mut Scan<'_>,
        pages: mpsc::Sender<Vec<StoredDocument>>,
    ) -> Result<(), ScanError> {
        let (begun, mut read) = (Instant::now(), 0_u64);
        while let Some(hits) = scan.next().await? {
            read += hits.len() as u64;
            let page = hits.into_iter().map(|hit: Hit| StoredDocument {
                index: hit.index,
                source: hit.source,
                arrival: hit.arrival,
            });
            if pages.send(page.collect()).await.is_err() {
                return Ok(());
            }
            if let Some(rate) = self.rate {
                let due = Duration::from_secs_f64(read as f64 / f64::from(rate.max(1)));
                tokio::time::sleep_until((begun + due).into()).await;
            }
        }
        Ok(())
    }
}

/// Says in the log how far it is, now and then.
pub(crate) fn log_progress() -> impl Fn(Progress<'_>) + Sync {
    let last = Mutex::new(Instant::now());
    move |progress: Progress<'_>| {
        let mut last = last.lock();
        if last.elapsed() >= TELL {
            *last = Instant::now();
            info!(
                forest = progress.forest,
                read = progress.read,
                of = progress.total,
                "reading stored documents"
            );
        }
    }
}

/// Rebuilds the forests that the directory does not hold, before anything is served.
///
/// # Errors
/// As [`Rebuild::run`]; an index that is not there yet is none.
pub(crate) async fn at_start(config: &ServeOptions) -> Result<(), RecoveryError> {
    let rebuild = match Rebuild::new(config, None).await {
        Err(RecoveryError::Held { .. }) => return Ok(()),
        rebuild => rebuild?,
    };
    let extents = match rebuild.extents().await {
        Err(RecoveryError::NoIndex { .. }) => return Ok(()),
        extents => extents?,
    };
    if extents.iter().all(|extent| extent.read.documents == 0) {
        return Ok(());
    }
    for (forest, recovered) in rebuild.run(&extents, &log_progress()).await? {
        info!(
            forest,
            documents = recovered.documents,
            placed = recovered.placed,
            elsewhere = recovered.elsewhere,
            without_text = recovered.without_text,
            "the forest is recovered from the index"
        );
    }
    Ok(())
}

/// What a start has found in the indices that the stored forests did not know.
#[derive(Debug, Default)]
pub(crate) struct Status(Mutex<Vec<ForestStatus>>);

#[derive(Debug, Clone)]
struct ForestStatus {
    forest: String,
    state: &'static str,
    recovered: Recovered,
    unknown: u64,
}

impl Status {
    fn set(&self, status: ForestStatus) {
        let mut all = self.0.lock();
        all.retain(|known| known.forest != status.forest);
        all.push(status);
    }

    /// By forest, as JSON.
    pub(crate) fn shown(&self) -> Value {
        let all = self.0.lock().clone();
        let forests = all.into_iter().map(|status| {
            let shown = json!({
                "state": status.state,
                "read": status.recovered.documents,
                "caught_up": status.recovered.placed,
                "known": status.recovered.known,
                "elsewhere": status.recovered.elsewhere,
                "unknown_in_index": status.unknown,
            });
            (status.forest, shown)
        });
        forests.collect::<Map<_, _>>().into()
    }
}

/// Begins to take in what is indexed and not stored, and waits for it for a moment. If the cluster does not answer that goes on
/// while spinney serves.
pub(crate) async fn begin_to_catch_up(state: &Arc<AppState>, config: &ServeOptions) {
    let Some(storage) = config
        .storage
        .as_ref()
        .filter(|_| !config.routes.is_empty())
    else {
        return;
    };
    let reader = match Reader::new(config, None) {
        Ok(reader) => reader,
        Err(error) => {
            warn!(%error, "nobody looks for documents that are indexed and not stored");
            return;
        }
    };
    let catching_up = CatchingUp {
        state: state.clone(),
        reader,
        dir: storage.data_dir.clone(),
    };
    let (over, is_over) = oneshot::channel();
    tokio::spawn(catching_up.run(over));
    if tokio::time::timeout(PATIENCE, is_over).await.is_err() {
        info!("there is more to catch up: that goes on while documents are served");
    }
}

struct CatchingUp {
    state: Arc<AppState>,
    reader: Reader,
    dir: PathBuf,
}

impl CatchingUp {
    /// `first` is dropped when nothing is to be waited for any more.
    async fn run(self, first: oneshot::Sender<()>) {
        let mut first = Some(first);
        let mut sources = self.state.engine.sources().await.unwrap_or_default();
        let mut pause = FIRST_PAUSE;
        loop {
            let mut away = Vec::new();
            for source in sources {
                match self.forest(&source).await {
                    Ok(()) => {}
                    Err(error) if error.is_away() => {
                        if first.is_some() {
                            warn!(forest = source.forest, %error,
                                "what was indexed and not stored is taken in as soon as the cluster answers");
                        }
                        self.say(&source, "waiting", Recovered::default(), 0);
                        away.push(source);
                    }
                    Err(error) => {
                        self.say(&source, "failed", Recovered::default(), 0);
                        warn!(forest = source.forest, error = %error.with_advice(),
                            "what was indexed and not stored stays unknown");
                    }
                }
            }
            drop(first.take());
            if away.is_empty() {
                return;
            }
            sources = away;
            tokio::time::sleep_until((Instant::now() + pause).into()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn say(&self, source: &Source, state: &'static str, recovered: Recovered, unknown: u64) {
        self.state.recovery.set(ForestStatus {
            forest: source.forest.clone(),
            state,
            recovered,
            unknown,
        });
    }

    async fn forest(&self, source: &Source) -> Result<(), RecoveryError> {
        let Some(seen) = source.seen else {
            return self.look_for_stamps(source).await;
        };
        if source.clock == Clock::None {
            // Nothing tells which documents came last.
            self.say(source, "no clock", Recovered::default(), 0);
            return Ok(());
        }
        let mut since = Some(Millis(seen.0.saturating_sub(MARGIN)));
        if source.clock == Clock::Arrival {
            since = since.max(before_window(Some(clock::now()), source.window));
        }
        let wanted = self.reader.wanted(source, since);
        wanted.refresh(&self.reader.operator).await;
        let read = wanted.overview(&self.reader.operator).await?;
        if !read.has_index {
            info!(forest = source.forest, indices = ?source.indices, "there is no such index: nothing to catch up");
            self.say(source, "no index", Recovered::default(), 0);
            return Ok(());
        }
        self.say(source, "running", Recovered::default(), 0);
        let extent = Extent {
            source: source.clone(),
            all: read,
            read,
            since,
        };
        let recovering = self.state.engine.recover(source.clone(), true, latest());
        let told = log_progress();
        let recovered = self.reader.read(&extent, recovering, &told).await?;
        self.say(source, "done", recovered, 0);
        if recovered.placed > 0 {
            info!(
                forest = source.forest,
                read = recovered.documents,
                caught_up = recovered.placed,
                elsewhere = recovered.elsewhere,
                "documents that were indexed and not stored are known now"
            );
        }
        Ok(())
    }

    /// Warns of stamped documents that an empty forest does not know.
    async fn look_for_stamps(&self, source: &Source) -> Result<(), RecoveryError> {
        let extent = self.reader.extent(source).await?;
        let documents = extent.read.documents;
        self.say(source, "empty", Recovered::default(), documents);
        if documents > 0 {
            warn!(
                forest = source.forest,
                documents,
                "the index has stamped documents that the forest does not know, since {} has nothing of it: their near-duplicates will get other roots. Stop spinney and run: spinney recover --upstream {} --data-dir {} with the options of the route; or start it with --recover-at-start",
                self.dir.display(),
                self.reader.operator.url(),
                self.dir.display(),
            );
        }
        Ok(())
    }
}

impl RecoveryError {
    /// Whether the cluster does not answer yet.
    fn is_away(&self) -> bool {
        match self {
            RecoveryError::Scan(ScanError::Busy(_)) => true,
            RecoveryError::Scan(ScanError::Operator(error)) => matches!(
                error,
                OperatorError::Unreachable { .. }
                    | OperatorError::Refused {
                        status: 429 | 502 | 503 | 504,
                        ..
                    }
            ),
            _ => false,
        }
    }

    fn with_advice(&self) -> String {
        match self {
            RecoveryError::Scan(ScanError::Operator(OperatorError::Refused {
                status: 401 | 403,
                ..
            })) => format!(
                "{self}; give a URL with the credentials of somebody who may read the index with --service-url"
            ),
            _ => self.to_string(),
        }
    }
}
