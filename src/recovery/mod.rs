//! Recovery of forests from the index: as a command ([`Rebuild`]), and at each start for what was missed
//! (`server/catch_up.rs`), which uses the same [`RecoveryReader`].
//!
//! ```text
//! cluster::scan --pages, two ahead--> engine::recover: texts on all threads --> forests, one document after the other
//! ```

mod error;
mod status;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::info;

use crate::bulk::StampNames;
use crate::chance::secret_key;
use crate::clock;
use crate::cluster::operator::Operator;
use crate::cluster::retry::ATTEMPTS;
use crate::cluster::scan::{Overview, ReadableIndices, Scan, ScanError, ScanRequest, ScannedDocument, UnreadableIndex};
use crate::config::{Clock, OnUnreadable, ServeOptions, Storage};
use crate::engine::{Engine, Intake, Recovered, Recovering, RecoverySource, SaveError, StoredDocument};
use crate::time::Millis;

pub(crate) use error::RecoveryError;
pub(crate) use status::{ForestStatus, RecoveryStatus};

/// Pages that are read ahead.
const AHEAD: usize = 2;
/// Interval of progress lines in the log.
const TELL: Duration = Duration::from_secs(5);

/// How far the reading of one forest is, in documents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecoveryProgress<'a> {
    pub(crate) forest: &'a str,
    pub(crate) read: u64,
    pub(crate) total: u64,
}

/// A callback for progress.
pub(crate) type ReportProgress<'a> = dyn Fn(RecoveryProgress<'_>) + Sync + 'a;

/// The documents of one forest in the indices.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) source: RecoverySource,
    /// Stamped documents.
    pub(crate) all: Overview,
    /// Those within the window, which are read.
    pub(crate) read: Overview,
    pub(crate) since: Option<Millis>,
    /// Indices of the forest that cannot be read, and are left out of all this.
    pub(crate) unreadable: Vec<UnreadableIndex>,
}

/// Forests that are to be rebuilt.
pub(crate) struct Rebuild {
    engine: Arc<Engine>,
    reader: RecoveryReader,
    dir: PathBuf,
    sources: Vec<RecoverySource>,
}

/// Reads documents from the indices.
pub(crate) struct RecoveryReader {
    pub(crate) operator: Operator,
    names: StampNames,
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
        let held = match dir.exists() {
            true => engine.forests().stored_forests(&dir)?,
            false => Vec::new(),
        };
        let mut sources = engine.sources().await?;
        sources.retain(|source| !held.contains(&source.forest));
        if sources.is_empty() {
            return Err(RecoveryError::Held { dir, forests: held });
        }
        Ok(Rebuild { engine, reader: RecoveryReader::new(config, Operator::of_service(config)?, rate)?, dir, sources })
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
            let mut extent = self.reader.extent(source).await?;
            if !extent.all.has_index && extent.unreadable.is_empty() {
                return Err(RecoveryError::NoIndex {
                    indices: source.indices.clone(),
                    url: self.reader.operator.url().to_owned(),
                });
            }
            // The forest would be held for complete from then on.
            if let Some(UnreadableIndex { name, reason }) = extent.unreadable.pop() {
                return Err(RecoveryError::Unreadable { name, reason });
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
            let source = &extent.source;
            let recovering = self.engine.recover(source.clone(), Intake::All, clock::now());
            let recovered = self.reader.read(extent, recovering, report).await?;
            all.push((source.forest.clone(), recovered));
        }
        let (engine, dir) = (self.engine.clone(), self.dir.clone());
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
    pub(crate) fn new(
        config: &ServeOptions,
        operator: Operator,
        rate: Option<u32>,
    ) -> Result<RecoveryReader, RecoveryError> {
        Ok(RecoveryReader { operator, names: StampNames::new(&config.prefix)?, rate })
    }

    pub(crate) fn wanted(&self, source: &RecoverySource, since: Option<Millis>) -> ScanRequest {
        ScanRequest { indices: source.indices.clone(), names: self.names.clone(), fields: source.fields.clone(), since }
    }

    /// The readable indices of a forest, refreshed, with the number of their documents; without the others.
    ///
    /// # Errors
    /// If the cluster cannot be reached, or no index can be read yet.
    pub(crate) async fn readable(
        &self,
        source: &RecoverySource,
        since: Option<Millis>,
    ) -> Result<(RecoverySource, ReadableIndices), ScanError> {
        let wanted = self.wanted(source, since);
        // An index that cannot be read may keep the others from being refreshed: only once that is known is it worth
        // while to ask again.
        let refreshed = wanted.refresh(&self.operator, 1).await;
        let found = wanted.readable(&self.operator).await?;
        let mut source = source.clone();
        source.indices.clone_from(&found.indices);
        if refreshed.is_err() || !found.unreadable.is_empty() {
            self.wanted(&source, since).refresh(&self.operator, ATTEMPTS).await?;
        }
        Ok((source, found))
    }

    /// The documents of a forest without stored state.
    ///
    /// # Errors
    /// As [`RecoveryReader::readable`].
    pub(crate) async fn extent(&self, source: &RecoverySource) -> Result<Extent, ScanError> {
        let (source, found) = self.readable(source, None).await?;
        let all = found.overview;
        let now = match &source.clock {
            Clock::Arrival => Some(clock::now()),
            // The window goes by the documents' own dates, as far as they have come.
            Clock::Field(_) => all.last,
            Clock::None => None,
        };
        let since = before_window(now, source.window);
        let read = match since {
            Some(_) if all.has_index => {
                let wanted = self.wanted(&source, since);
                wanted.overview(&self.operator).await?
            }
            _ => all,
        };
        Ok(Extent { source, all, read, since, unreadable: found.unreadable })
    }

    /// Reads the documents into their forest.
    pub(crate) async fn read(
        &self,
        extent: &Extent,
        mut recovering: Recovering,
        report: &ReportProgress<'_>,
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
            let mut progress =
                RecoveryProgress { forest: &extent.source.forest, read: 0, total: extent.read.documents };
            while let Some(page) = read.recv().await {
                progress.read += page.len() as u64;
                recovering.add(page).await?;
                report(progress);
            }
            Ok(recovering.finish().await?)
        };
        let ((), recovered) = tokio::try_join!(fetch, place)?;
        Ok(recovered)
    }

    /// Reads page after page, as fast as it may.
    async fn fetch(&self, scan: &mut Scan<'_>, pages: mpsc::Sender<Vec<StoredDocument>>) -> Result<(), ScanError> {
        let (begun, mut read) = (Instant::now(), 0_u64);
        while let Some(hits) = scan.next().await? {
            read += hits.len() as u64;
            let page = hits.into_iter().map(|hit: ScannedDocument| StoredDocument {
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

/// Completes a salvaged forest from the index, once.
pub(crate) async fn take_in_salvaged(
    engine: &Arc<Engine>,
    reader: &RecoveryReader,
    extent: &Extent,
) -> Result<Recovered, RecoveryError> {
    let source = &extent.source;
    let recovering = engine.recover(source.clone(), Intake::Rest, clock::now());
    let recovered = reader.read(extent, recovering, &log_progress()).await?;
    // Unreadable indices are read later.
    if extent.unreadable.is_empty() {
        engine.has_read_index(source)?;
    }
    info!(
        forest = source.forest,
        read = recovered.documents,
        placed = recovered.placed,
        known = recovered.known,
        elsewhere = recovered.elsewhere,
        "what the index has of the forest, of which a part did not read, is known now"
    );
    Ok(recovered)
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
    let reader = RecoveryReader::new(config, Operator::of_service(config)?, rate)?;
    let mut all = Vec::new();
    for source in engine.sources().await? {
        if source.is_salvaged {
            let mut extent = reader.extent(&source).await?;
            if let Some(UnreadableIndex { name, reason }) = extent.unreadable.pop() {
                return Err(RecoveryError::Unreadable { name, reason });
            }
            let recovered = take_in_salvaged(&engine, &reader, &extent).await?;
            all.push((source.forest.clone(), recovered));
        }
    }
    engine.forests().close();
    Ok(all)
}

/// Says in the log how far it is, now and then.
pub(crate) fn log_progress() -> impl Fn(RecoveryProgress<'_>) + Sync {
    let last = Mutex::new(Instant::now());
    move |progress: RecoveryProgress<'_>| {
        let mut last = last.lock();
        if last.elapsed() >= TELL {
            *last = Instant::now();
            info!(forest = progress.forest, read = progress.read, of = progress.total, "reading stored documents");
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
