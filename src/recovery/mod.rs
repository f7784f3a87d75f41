//! Recovery: takes what the index has of a forest, from a time on, into the forest.
//!
//! One [`RecoveryReader`] serves the command and the start ([`Rebuild`], [`salvage`]), the catch-up of a start
//! (`server/catch_up.rs`), and the search for documents of indeterminate outcome (`server/indeterminate.rs`). They
//! differ in the time from which on they read and in what the forest takes in ([`Intake`]); [`Retries`] decides what is
//! read again.
//!
//! ```text
//! cluster::scan --pages, two ahead--> engine::recover: texts on all threads --> forests, one document after the other
//! ```

mod error;
mod retries;
mod status;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::info;

use crate::chance::secret_key;
use crate::clock;
use crate::cluster::operator::Operator;
use crate::cluster::retry::{ATTEMPTS, Pace};
use crate::cluster::scan::{ReadableIndices, ScanError, ScanRequest, UnreadableIndex};
use crate::cluster::sorted_pages::StoredHit;
use crate::config::{Clock, OnUnreadable, ServeOptions, Storage};
use crate::engine::{Engine, Intake, Recovered, RecoverySource, SaveError, StoredDocument};
use crate::progress::{Progress, ReportProgress};
use crate::time::Millis;

pub(crate) use error::RecoveryError;
pub(crate) use retries::Retries;
pub(crate) use status::{ForestStatus, RecoveryStatus};

/// Interval of progress lines in the log.
const TELL: Duration = Duration::from_secs(5);

/// The documents of one forest in the indices.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) source: RecoverySource,
    /// Those that are to be read.
    wanted: ScanRequest,
    /// Whether there is an index.
    pub(crate) has_index: bool,
    /// Stamped documents.
    pub(crate) all: u64,
    /// Of them, those that are to be read: the others are older than the window.
    pub(crate) read: u64,
    /// Indices of the forest that cannot be read, and are left out of all this.
    pub(crate) unreadable: Vec<UnreadableIndex>,
}

impl Extent {
    /// An error, if an index cannot be read.
    fn complete(mut self) -> Result<Extent, RecoveryError> {
        match self.unreadable.pop() {
            Some(UnreadableIndex { name, reason }) => Err(RecoveryError::Unreadable { name, reason }),
            None => Ok(self),
        }
    }
}

/// Forests that are to be rebuilt.
pub(crate) struct Rebuild {
    reader: RecoveryReader,
    dir: PathBuf,
    sources: Vec<RecoverySource>,
}

/// Reads documents from the indices into forests.
pub(crate) struct RecoveryReader {
    engine: Arc<Engine>,
    pub(crate) operator: Operator,
    /// Documents a second.
    rate: Option<u32>,
}

impl Rebuild {
    /// Determines which of the configured forests the directory lacks. `rate`: documents that are read in a second at
    /// most.
    ///
    /// # Errors
    /// When it holds all of them, is in use, or something in the options is wrong.
    pub(crate) async fn new(config: &ServeOptions, rate: Option<u32>) -> Result<Rebuild, RecoveryError> {
        let storage = config.storage.as_ref();
        let dir = storage.ok_or(RecoveryError::NoDirectory)?.data_dir.clone();
        if config.routes.is_empty() {
            return Err(RecoveryError::NoRoute);
        }
        let engine = Engine::new(&config.routes, &config.prefix, config.threads, secret_key())?;
        let engine = Arc::new(engine);
        engine.forests().limit_memory(config.forest_memory).await?;
        let held = engine.forests().stored_forests(&dir)?;
        let mut sources = engine.sources().await?;
        sources.retain(|source| !held.contains(&source.forest));
        if sources.is_empty() {
            return Err(RecoveryError::Held { dir, forests: held });
        }
        Ok(Rebuild { reader: RecoveryReader::new(engine, Operator::of_service(config)?, rate), dir, sources })
    }

    /// The documents to read.
    ///
    /// # Errors
    /// If the cluster cannot be reached or its clock shows another time, an index cannot be read, or a forest has none.
    pub(crate) async fn extents(&self) -> Result<Vec<Extent>, RecoveryError> {
        let by_arrival = |source: &RecoverySource| source.clock == Clock::Arrival && source.window.is_some();
        if self.sources.iter().any(by_arrival)
            && let Some(epoch) = self.reader.operator.epoch().await
        {
            let apart = clock::system().0.abs_diff(epoch.0);
            if apart > clock::JUMP {
                return Err(RecoveryError::Clocks { apart });
            }
        }
        let mut extents = Vec::new();
        for source in &self.sources {
            // Without one of its indices the forest would be held for complete from then on.
            let extent = self.reader.extent(source, None).await?.complete()?;
            if !extent.has_index {
                return Err(RecoveryError::NoIndex {
                    indices: source.indices.clone(),
                    url: self.reader.operator.url().to_owned(),
                });
            }
            extents.push(extent);
        }
        Ok(extents)
    }

    /// Reads the documents, and stores the rebuilt forests. Until that is done, there is nothing of them in the
    /// directory.
    ///
    /// # Errors
    /// When the cluster refuses or stays away, or the forests cannot be stored.
    pub(crate) async fn run(
        &self,
        extents: &[Extent],
        report: &ReportProgress<'_>,
    ) -> Result<Vec<(String, Recovered)>, RecoveryError> {
        let mut all = Vec::new();
        for extent in extents {
            let recovered = self.reader.take_in(extent, Intake::All, report).await?;
            all.push((extent.source.forest.clone(), recovered));
        }
        let (engine, dir) = (self.reader.engine.clone(), self.dir.clone());
        let saved = tokio::task::spawn_blocking(move || engine.forests().save(&dir)).await;
        saved.unwrap_or(Err(SaveError::Stopped))?;
        Ok(all)
    }
}

/// Earlier arrivals are outside the window.
pub(crate) fn before_window(now: Option<Millis>, window: Option<Millis>) -> Option<Millis> {
    let both = now.zip(window);
    both.map(|(now, window)| Millis(now.0.saturating_sub(window.0)))
}

impl RecoveryReader {
    /// Of the forests of this engine. `rate`: documents a second, at most.
    pub(crate) fn new(engine: Arc<Engine>, operator: Operator, rate: Option<u32>) -> RecoveryReader {
        RecoveryReader { engine, operator, rate }
    }

    /// What the readable indices have of a forest, once they are refreshed: documents that arrived since then or,
    /// without a time, within its window.
    ///
    /// # Errors
    /// If the cluster cannot be reached, or no index can be read yet.
    pub(crate) async fn extent(&self, source: &RecoverySource, since: Option<Millis>) -> Result<Extent, ScanError> {
        let mut wanted = ScanRequest {
            indices: source.indices.clone(),
            names: self.engine.routes().names().clone(),
            fields: source.fields.clone(),
            since,
        };
        // An index that cannot be read may keep the others from being refreshed: only once that is known is it worth
        // while to ask again.
        let refreshed = wanted.refresh(&self.operator, 1).await;
        let ReadableIndices { indices, overview, unreadable } = wanted.readable(&self.operator).await?;
        wanted.indices = indices;
        if refreshed.is_err() || !unreadable.is_empty() {
            wanted.refresh(&self.operator, ATTEMPTS).await?;
        }
        let mut read = overview.documents;
        if since.is_none() {
            let now = match &source.clock {
                Clock::Arrival => Some(clock::now()),
                // The window goes by the documents' own dates, as far as they have come.
                Clock::Field(_) => overview.last,
                Clock::None => None,
            };
            wanted.since = before_window(now, source.window);
            if wanted.since.is_some() && overview.has_index {
                read = wanted.overview(&self.operator).await?.documents;
            }
        }
        let (has_index, all) = (overview.has_index, overview.documents);
        Ok(Extent { source: source.clone(), wanted, has_index, all, read, unreadable })
    }

    /// Reads the documents into their forest. It does not begin again where the point in time is lost among documents
    /// without an arrival: they would be placed, and counted, twice.
    async fn take_in(
        &self,
        extent: &Extent,
        intake: Intake,
        report: &ReportProgress<'_>,
    ) -> Result<Recovered, RecoveryError> {
        let mut recovering = self.engine.recover(extent.source.clone(), intake, clock::now());
        let most = self.rate.map_or(usize::MAX, |rate| rate as usize);
        if let Some(pages) = extent.wanted.pages(&self.operator, most).await? {
            let (mut pages, reading) = pages.read_ahead(Pace::new(self.rate));
            let read = async { reading.await.map_err(RecoveryError::from) };
            let place = async {
                let mut progress = Progress { forest: &extent.source.forest, done: 0, total: extent.read };
                while let Some(page) = pages.recv().await {
                    progress.done += page.len() as u64;
                    recovering.add(page.into_iter().map(stored_document).collect()).await?;
                    report(progress);
                }
                Ok(())
            };
            tokio::try_join!(read, place)?;
        }
        Ok(recovering.finish().await?)
    }

    /// Completes a salvaged forest from the index; once, if all of its indices can be read.
    pub(crate) async fn take_in_rest(&self, extent: &Extent) -> Result<Recovered, RecoveryError> {
        let recovered = self.take_in(extent, Intake::Rest, &log_progress()).await?;
        // Unreadable indices are read later.
        if extent.unreadable.is_empty() {
            self.engine.has_read_index(&extent.source)?;
        }
        info!(
            forest = extent.source.forest,
            read = recovered.documents,
            placed = recovered.placed,
            known = recovered.known,
            elsewhere = recovered.elsewhere,
            "what the index has of the forest, of which a part did not read, is known now"
        );
        Ok(recovered)
    }

    /// Takes in the documents that the forest does not know and can have stamped. `found`: the message, if there are
    /// any.
    pub(crate) async fn take_in_missed(
        &self,
        extent: &Extent,
        found: &'static str,
    ) -> Result<Recovered, RecoveryError> {
        let recovered = self.take_in(extent, Intake::Missed, &log_progress()).await?;
        if recovered.placed > 0 {
            info!(
                forest = extent.source.forest,
                read = recovered.documents,
                caught_up = recovered.placed,
                elsewhere = recovered.elsewhere,
                "{found}"
            );
        }
        Ok(recovered)
    }
}

fn stored_document(hit: StoredHit) -> StoredDocument {
    StoredDocument { index: hit.index, id: hit.id, source: hit.source, arrival: hit.place.map(Millis) }
}

/// Salvages stored forests that cannot be read as a whole, and completes them from the index. Returns the counts by
/// forest; empty if all forests can be read.
///
/// # Errors
/// As [`Rebuild::run`].
pub(crate) async fn salvage(
    config: &ServeOptions,
    rate: Option<u32>,
) -> Result<Vec<(String, Recovered)>, RecoveryError> {
    let storage = config.storage.as_ref();
    let storage =
        Storage { on_unreadable: OnUnreadable::Recover, ..storage.ok_or(RecoveryError::NoDirectory)?.clone() };
    if !storage.data_dir.exists() {
        return Ok(Vec::new());
    }
    let engine = Engine::stored(&config.routes, &config.prefix, config.threads, secret_key(), Some(&storage))?;
    let engine = Arc::new(engine);
    engine.forests().limit_memory(config.forest_memory).await?;
    let reader = RecoveryReader::new(engine.clone(), Operator::of_service(config)?, rate);
    let mut all = Vec::new();
    for source in engine.sources().await? {
        if source.is_salvaged {
            let extent = reader.extent(&source, None).await?.complete()?;
            all.push((source.forest, reader.take_in_rest(&extent).await?));
        }
    }
    engine.forests().close();
    Ok(all)
}

/// Says in the log how far it is, now and then.
fn log_progress() -> impl Fn(Progress<'_>) + Send + Sync {
    let last = Mutex::new(Instant::now());
    move |progress: Progress<'_>| {
        let mut last = last.lock();
        if last.elapsed() >= TELL {
            *last = Instant::now();
            info!(forest = progress.forest, read = progress.done, of = progress.total, "reading stored documents");
        }
    }
}

/// Rebuilds missing forests before the process serves.
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
    if extents.iter().all(|extent| extent.read == 0) {
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
