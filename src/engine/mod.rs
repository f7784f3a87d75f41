//! The engine joins the pure modules: bytes and `now` in, splices out; responses of the cluster in, withdrawals out.
//!
//! ```text
//! body --bulk::parse--> items --read, on all threads--> features
//!                                                          | in batches, in their order
//!                       stamps over the body <--place-- forest::Port
//!                                                          ^
//!                       the cluster's answer --settle------+
//! ```
//!
//! Work runs on threads of the engine's own; what awaits it blocks no connection.

mod added_routes;
mod article;
mod backfill_route;
mod check;
mod date_math;
mod deferred;
mod explain;
mod field_sample;
mod fields;
mod first_documents;
mod forests;
mod growing;
mod indeterminate;
mod index_names;
mod inspect;
mod open_forests;
mod overrides;
mod place;
mod placed;
mod read;
mod readers;
mod recover;
mod routes;
mod salvage;
mod settle;
mod stamped;
mod stored;
#[cfg(test)]
mod tests;
mod threads;
mod transfer;
mod unsure_firsts;
mod writers;

pub use crate::forest::Recovered;
pub use crate::forest::port::Unavailable;
pub(crate) use added_routes::AddedRoutes;
pub use article::StampedArticle;
pub use backfill_route::{BackfillRoute, RouteTable};
pub use check::{CheckError, Checked, RootOrigin};
pub use date_math::resolve as resolve_date;
pub use explain::Explanation;
pub use field_sample::{FieldSample, FieldUse, MissingField, RouteField, SAMPLE};
pub use forests::Forests;
pub use indeterminate::Gap;
pub use inspect::{InspectError, InspectedForest, ReportInspection, inspect, inspect_shared};
pub use overrides::OverrideError;
pub use placed::{HeldDocuments, Resolution};
pub use read::{Parsed, Unstamped};
pub use readers::{ReaderFields, ReaderRoute};
pub use recover::{Intake, Recovering, RecoverySource, StoredDocument};
pub use routes::Routes;
pub use settle::SettledRequest;
pub use stamped::{RefusedTree, StampTally, Stamped, UnstampedDocument};
pub use stored::{NoSnapshot, SaveError, SnapshotPass, StoreTasks};
pub use transfer::TransferError;
pub use writers::Turn;

use std::sync::Arc;

use bytes::Bytes;

use crate::bulk::{self, BulkError, Item, JsonError, Op, SelectionError};
use crate::config::{OnRedisFailure, Route, StampForm, Storage};
use crate::forest::local::Executor;
use crate::forest::shared::DistanceTooLarge;
use crate::forest::shared::keys::RedisClient;
use crate::forest::{ForestError, Root, TreeView};
use crate::hash::HashKey;
use crate::store::{Files, StoreError};
use crate::time::Millis;
use deferred::DeferredPlacements;
use indeterminate::Indeterminate;
use index_names::IndexNames;
use open_forests::{ForestStorage, Opener};
use place::Placer;
use read::{DocumentReader, own_root};
use settle::Settler;
use stored::Stores;
use threads::TextThreads;
use tokio::sync::{Notify, Semaphore};
use unsure_firsts::UnsureFirsts;
use writers::{WriterTrust, Writers};

/// Why the engine cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The fields of a route, or the prefix of the stamp.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// The settings of a route's forest.
    #[error(transparent)]
    Forest(#[from] ForestError),
    /// The distance of a shared forest.
    #[error("a route {0}")]
    Distance(#[from] DistanceTooLarge),
    /// The stored forests.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Threads cannot be started.
    #[error("cannot start the threads for text work")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// Why a body is forwarded unchanged.
#[derive(Debug, thiserror::Error)]
pub enum NotUnderstood {
    /// It is no bulk.
    #[error(transparent)]
    Bulk(#[from] BulkError),
    /// It is no document.
    #[error("the document is not understood: {0}")]
    Document(#[from] JsonError),
    /// Its gzip is broken.
    #[error("the body cannot be decompressed: {0}")]
    Compression(String),
}

/// Kind of a write's body, from its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Action lines and sources.
    Bulk {
        /// The index that the path names.
        index: Option<String>,
    },
    /// One document, or one update.
    Document {
        /// Operation.
        op: Op,
        /// The index that the path names.
        index: String,
        /// The id that the path names.
        id: Option<String>,
    },
}

/// Why stamping failed.
#[derive(Debug, thiserror::Error)]
pub enum StampError {
    /// The body is forwarded unchanged: the cluster reports the error.
    #[error(transparent)]
    NotUnderstood(#[from] NotUnderstood),
    /// The write must not go on: a document without a right stamp would be indexed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Context of a request besides its body.
#[derive(Debug, Clone, Copy)]
pub struct RequestContext {
    /// When the request arrived.
    pub now: Millis,
    /// The latest date that counts: a document dated 2099 must not expire all others.
    pub latest: Millis,
    /// Differs for every request: names the roots of documents that have neither text nor id.
    pub unique: u64,
    /// Hash of the caller's identity; `None` if the documents cannot be refused: they count at once.
    pub caller: Option<u64>,
}

/// The routes and their forests, and the three steps of a write: its documents are read, placed and settled.
pub struct Engine {
    reader: DocumentReader,
    placer: Placer,
    settler: Settler,
    forests: Arc<Forests>,
    writers: Arc<Writers>,
    threads: Arc<TextThreads>,
    /// Threads for readers, so that writes do not wait for them.
    reader_threads: TextThreads,
    /// Opens the forests of routes that are added.
    opener: Opener,
}

/// Dictionaries take a moment to load: not on the first request's time.
fn warm_up(routes: &[Route]) {
    routes.iter().for_each(|route| route.method.warm_up());
}

/// Where an engine keeps its forests that has no threads of its own.
pub enum PortStorage {
    /// On these files, written by these tasks.
    Stored(Storage, Arc<dyn Files>, Arc<dyn StoreTasks>),
    /// In a store that several processes share; with the behaviour while it is away.
    Shared(Arc<dyn RedisClient>, OnRedisFailure),
}

/// The threads of an engine.
struct EngineThreads {
    writers: Arc<TextThreads>,
    readers: TextThreads,
}

impl EngineThreads {
    /// `count`: as in [`Engine::new`].
    fn start(count: usize) -> Result<EngineThreads, EngineError> {
        Ok(EngineThreads { writers: Arc::new(TextThreads::new(count)?), readers: TextThreads::for_readers()? })
    }
}

/// Batches that are read and placed concurrently; each uses all threads.
const BATCHES: usize = 4;

/// Larger bodies are not searched for lines, and split into items, on the threads that serve connections.
pub(crate) const SHORT_BODY: usize = 256 << 10;

impl Engine {
    /// `threads`: 0 means all cores. `key`: the secret of the forests' tables, random where unverified writers write
    /// the documents; no stamp depends on it.
    ///
    /// # Errors
    /// When a route's fields or settings cannot be used, or the system gives no threads.
    pub fn new(routes: &[Route], prefix: &str, threads: usize, key: HashKey) -> Result<Engine, EngineError> {
        Engine::stored(routes, prefix, threads, key, None)
    }

    /// Creates an engine with stored forests, if there is `storage`. Reads them, with progress in the log.
    ///
    /// # Errors
    /// As [`new`](Engine::new), and when stored data cannot be read, has other settings, or was read from other fields.
    pub fn stored(
        routes: &[Route],
        prefix: &str,
        threads: usize,
        key: HashKey,
        storage: Option<&Storage>,
    ) -> Result<Engine, EngineError> {
        let stores = storage.map(Stores::lock).transpose()?;
        let kept = stores.map_or(ForestStorage::InMemory, ForestStorage::Stored);
        Engine::keeping((routes, prefix), EngineThreads::start(threads)?, key, kept)
    }

    /// Creates an engine over stored forests that are only to be [imported](Forests::import): whatever fields its
    /// routes name, the texts in them stay those of the recorded ones.
    ///
    /// # Errors
    /// As [`stored`](Engine::stored).
    pub fn for_import(
        routes: &[Route],
        prefix: &str,
        threads: usize,
        key: HashKey,
        storage: &Storage,
    ) -> Result<Engine, EngineError> {
        let stores = Stores::lock(storage)?.for_import();
        Engine::keeping((routes, prefix), EngineThreads::start(threads)?, key, ForestStorage::Stored(stores))
    }

    /// Creates an engine with shared forests. `on_loss`: behaviour while the store is away.
    ///
    /// # Errors
    /// As [`new`](Engine::new), and when the forest of a route cannot be shared.
    pub fn shared(
        routes: &[Route],
        prefix: &str,
        threads: usize,
        key: HashKey,
        keys: &Arc<dyn RedisClient>,
        on_loss: OnRedisFailure,
    ) -> Result<Engine, EngineError> {
        let threads = EngineThreads::start(threads)?;
        Engine::keeping((routes, prefix), threads, key, ForestStorage::Shared(keys.clone(), on_loss))
    }

    /// Creates an engine whose jobs run where the caller says, on threads, files and a store of the caller's. The
    /// secret of its tables is a fixed one.
    ///
    /// # Errors
    /// As [`stored`](Engine::stored) and [`shared`](Engine::shared).
    pub fn with_ports(
        (routes, prefix): (&[Route], &str),
        executor: &Arc<dyn Executor>,
        kept: &PortStorage,
    ) -> Result<Engine, EngineError> {
        let threads = EngineThreads {
            writers: Arc::new(TextThreads::on(executor.clone())),
            readers: TextThreads::on(executor.clone()),
        };
        let keeping = |kept| Engine::keeping((routes, prefix), threads, HashKey::FIXED, kept);
        match kept {
            PortStorage::Stored(storage, files, tasks) => {
                let stores = Stores::lock_in(files.clone(), storage, tasks.clone())?;
                keeping(ForestStorage::Stored(stores))
            }
            PortStorage::Shared(keys, on_loss) => keeping(ForestStorage::Shared(keys.clone(), *on_loss)),
        }
    }

    fn keeping(
        (routes, prefix): (&[Route], &str),
        EngineThreads { writers: threads, readers: reader_threads }: EngineThreads,
        key: HashKey,
        kept: ForestStorage,
    ) -> Result<Engine, EngineError> {
        let opener = Opener { threads: threads.clone(), key, kept };
        let (entries, found) = opener.open(routes, 0, 0)?;
        let store = match &opener.kept {
            ForestStorage::Shared(keys, _) => Some(keys.clone()),
            ForestStorage::InMemory | ForestStorage::Stored(_) => None,
        };
        warm_up(routes);
        let routes = Arc::new(Routes::new(routes, prefix, found)?);
        opener.record_fields(&entries)?;
        let forests = Arc::new(Forests { entries: entries.into_iter().collect(), store });
        let writers = Arc::new(Writers::default());
        let deferred = DeferredPlacements::default();
        let names = Arc::new(IndexNames::default());
        Ok(Engine {
            reader: DocumentReader { routes, form: StampForm::default(), names: names.clone() },
            placer: Placer {
                forests: forests.clone(),
                threads: threads.clone(),
                writers: writers.clone(),
                deferred: deferred.clone(),
                batches: Arc::new(Semaphore::new(BATCHES)),
                explains: false,
            },
            settler: Settler {
                forests: forests.clone(),
                writers: writers.clone(),
                unanswered: Indeterminate::default(),
                deferred,
                postponed: parking_lot::Mutex::default(),
                placing: tokio::sync::Mutex::default(),
                merged: Notify::new(),
                unsure: UnsureFirsts::default(),
                names,
            },
            forests,
            writers,
            threads,
            reader_threads,
            opener,
        })
    }

    /// Sets the form of the stamps; the default is lean.
    pub fn with_stamps(self, form: StampForm) -> Engine {
        let reader = DocumentReader { form, ..self.reader };
        Engine { reader, ..self }
    }

    /// Makes the engine explain how the root of each document was found ([`Stamped::explanations`]).
    pub fn with_explanations(self) -> Engine {
        let placer = Placer { explains: true, ..self.placer };
        Engine { placer, ..self }
    }

    /// The routes.
    pub fn routes(&self) -> &Routes {
        &self.reader.routes
    }

    /// The forests of the routes.
    pub fn forests(&self) -> &Forests {
        &self.forests
    }

    /// Takes the groups of a forest whose first document is to be looked for. They are noted from the first call on.
    pub(crate) fn unsure_firsts(&self, forest: &str) -> Vec<Root> {
        let of = self.forests.numbers_of(forest);
        of.flat_map(|number| self.settler.unsure.take(number)).collect()
    }

    /// Notes that there is an index of this name.
    pub(crate) fn note_index(&self, index: &str) {
        self.reader.names.note_index(index);
    }

    /// Notes groups of a forest whose first document is to be looked for.
    pub(crate) fn note_unsure_firsts(&self, forest: &str, roots: impl Iterator<Item = Root>) {
        if let Some(number) = self.forests.numbers_of(forest).next() {
            roots.for_each(|root| self.settler.unsure.note_again(number, root));
        }
    }

    /// Runs a job on the threads for text work and waits for its result. The job runs to its end even if the caller
    /// is dropped.
    ///
    /// # Errors
    /// [`Unavailable::Panicked`] if the job panics.
    pub async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, Unavailable> {
        self.threads.run(job).await
    }

    /// Runs a job for a reader on threads that no writer waits for. It runs to its end as well.
    ///
    /// # Errors
    /// As [`run`](Engine::run).
    pub async fn run_for_readers<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        self.reader_threads.run(job).await
    }

    /// Parses the body of a write into items with their routes, within this turn.
    ///
    /// # Errors
    /// [`StampError::NotUnderstood`] when the body is to be passed on as it came, [`StampError::Unavailable`] when it
    /// must not be.
    pub async fn parse(
        &self,
        body: Bytes,
        write: Write,
        context: RequestContext,
        turn: Turn,
    ) -> Result<Parsed, StampError> {
        let reader = self.reader.clone();
        let is_short = body.len() <= SHORT_BODY;
        let parse = move |_: &_| -> Result<_, NotUnderstood> {
            let _turn = turn;
            match &write {
                Write::Bulk { index } => {
                    let items = bulk::parse(&body)?;
                    Ok(reader.work_items(&items, index.as_deref(), context))
                }
                Write::Document { op, index, id } => {
                    let item = Item {
                        op: *op,
                        index: Some(index.into()),
                        id: id.as_deref().map(Into::into),
                        routing: None,
                        action: 0..0,
                        source: Some(0..body.len()),
                    };
                    let parsed = reader.work_items(&[item], None, context);
                    Ok(Parsed { is_bulk: false, ..parsed })
                }
            }
        };
        Ok(self.threads.run_short(is_short, parse).await??)
    }

    /// Whether the writer of a request is unverified, so that placements are deferred.
    pub fn is_of_unverified_writer(&self, parsed: &Parsed, context: RequestContext) -> bool {
        self.placer.trust(&parsed.items, context) == WriterTrust::Unverified
    }

    /// Stamps the documents of a write. Placements are to be settled by [`settle`](Engine::settle); if this future is
    /// dropped, they are withdrawn.
    ///
    /// # Errors
    /// As [`parse`](Engine::parse).
    pub async fn stamp(&self, body: Bytes, parsed: Parsed, context: RequestContext) -> Result<Stamped, StampError> {
        let is_bulk = parsed.is_bulk;
        let stamped = self.placer.stamp_items(&self.reader, body, parsed.items, context).await?;
        // A bulk continues although some of its sources are invalid: those items fail alone.
        if !is_bulk
            && let [UnstampedDocument { reason, .. }] = stamped.unstamped_documents()
            && let Unstamped::Source(error) = reason
        {
            return Err(NotUnderstood::Document(error.clone()).into());
        }
        Ok(stamped)
    }

    /// Parses and stamps, for names that are indices themselves.
    ///
    /// # Errors
    /// As [`parse`](Engine::parse).
    pub async fn parse_and_stamp(
        &self,
        body: Bytes,
        write: Write,
        context: RequestContext,
    ) -> Result<Stamped, StampError> {
        let turn = Turn::default();
        let parsed = self.parse(body.clone(), write, context, turn).await?;
        self.stamp(body, parsed, context).await
    }

    /// Stamps a body of one document a line, all of the first route. Blank lines stay.
    ///
    /// # Errors
    /// When a forest cannot be asked any more.
    pub async fn stamp_lines(&self, body: Bytes, context: RequestContext) -> Result<Stamped, Unavailable> {
        let mut items = Vec::new();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &body).chain(std::iter::once(body.len())) {
            let line = body.get(start..end).unwrap_or_default();
            if !line.trim_ascii().is_empty() {
                items.push(Item {
                    op: Op::Index,
                    index: None,
                    id: None,
                    routing: None,
                    action: 0..0,
                    source: Some(start..end),
                });
            }
            start = end + 1;
        }
        let parsed = self.reader.work_items(&items, Some(""), context);
        self.placer.stamp_items(&self.reader, body, parsed.items, context).await
    }

    /// The second phase: reports to the forests at `now` the outcomes of the documents of a request.
    ///
    /// # Errors
    /// When a forest is not available; the others were informed.
    pub async fn settle(
        &self,
        placed: HeldDocuments,
        resolution: Resolution,
        now: Millis,
    ) -> Result<SettledRequest, Unavailable> {
        self.settler.settle(placed, resolution, now).await
    }

    /// Whether [`place_postponed`](Engine::place_postponed) has something to place, or is about it.
    pub fn has_postponed(&self) -> bool {
        self.settler.has_postponed()
    }

    /// Places accepted documents of unverified writers whose forest was away when the cluster accepted them, at most
    /// `budget` of them, once it is back.
    ///
    /// # Errors
    /// When a forest is not available; its documents wait on.
    pub async fn place_postponed(&self, now: Millis, budget: usize) -> Result<SettledRequest, Unavailable> {
        self.settler.place_postponed(now, budget).await
    }

    /// Waits until a forest has merged groups by itself since the last call. For a single waiter.
    pub async fn merged(&self) {
        self.settler.merged.notified().await;
    }

    /// Waits for the caller's turn: bodies of unverified writers are read one at a time.
    pub async fn turn(&self, caller: u64, now: Millis) -> Turn {
        match self.has_written(caller, now) {
            true => Turn::default(),
            false => self.writers.turn().await,
        }
    }

    /// Whether the cluster has lately accepted any write of this caller.
    pub fn has_written(&self, caller: u64, now: Millis) -> bool {
        self.writers.knows_any(caller, now)
    }

    /// The tree of a root in the forest of an index, with the name of that forest; of two, the one of longer texts.
    ///
    /// # Errors
    /// When a forest cannot be asked any more.
    pub async fn tree(&self, index: &str, root: Root) -> Result<Option<(String, TreeView)>, Unavailable> {
        let Some(bound) = self.routes().bound_of(index) else {
            return Ok(None);
        };
        for forest in std::iter::once(bound.forest).chain(bound.short) {
            if let Some(entry) = self.forests.entries.get(forest)
                && let Some(view) = entry.port.tree(root).await?
            {
                return Ok(Some((entry.name.clone(), view)));
            }
        }
        Ok(None)
    }
}
