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

mod article;
mod backfill_route;
mod check;
mod date_math;
mod deferred;
mod explain;
mod fields;
mod forests;
mod indeterminate;
mod inspect;
mod overrides;
mod place;
mod read;
mod readers;
mod recover;
mod salvage;
mod settle;
mod stamped;
mod stored;
#[cfg(test)]
mod tests;
mod threads;
mod transfer;
mod writers;

pub use crate::forest::Recovered;
pub use crate::forest::port::Unavailable;
pub use article::PlacedArticle;
pub use backfill_route::BackfillRoute;
pub use check::{CheckError, Checked, RootOrigin};
pub use explain::Explanation;
pub use indeterminate::Gap;
pub use inspect::{InspectError, InspectedForest, ReportInspection, inspect, inspect_shared};
pub use overrides::OverrideError;
pub use read::{Parsed, Unstamped};
pub use readers::{ReaderFields, ReaderRoute};
pub use recover::{Intake, Recovering, RecoverySource, StoredDocument};
pub use settle::{PlacedDocuments, Resolution, SettledRequest};
pub use stamped::{RefusedTree, StampTally, Stamped, UnstampedDocument};
pub use stored::SaveError;
pub use transfer::{ReportTransfer, TransferError};

use std::sync::Arc;

use bytes::Bytes;

use crate::bulk::{self, BulkError, FieldNames, Item, JsonError, Op, Selection, SelectionError, StampNames};
use crate::config::{Clock, OnRedisFailure, Route, StampForm, Storage};
use crate::forest::shared::DistanceTooWide;
use crate::forest::shared::keys::KeyStore;
use crate::forest::{ForestError, ForestStats};
use crate::hash::HashKey;
use crate::method::Features;
use crate::store::StoreError;
use crate::time::Millis;
use deferred::DeferredPlacements;
use fields::FoundFields;
use forests::{ForestEntry, ForestStorage};
use indeterminate::Indeterminate;
use read::own_root;
use stored::Stores;
use threads::TextThreads;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use writers::Writers;

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
    Distance(#[from] DistanceTooWide),
    /// The stored forests.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system gives no threads.
    #[error("cannot start the threads for text work")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// Why a body is passed on as it came.
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

/// Why nothing could be stamped.
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
    /// A later date in a document is taken for this: one document from 2099 must not expire all others.
    pub latest: Millis,
    /// Differs for every request: names the roots of documents that have neither text nor id.
    pub unique: u64,
    /// Hash of the caller's identity; `None` if the documents cannot be refused: they count at once.
    pub caller: Option<u64>,
}

/// Everything that is needed to stamp: routes, forests, threads.
pub struct Engine {
    routes: Vec<Bound>,
    forests: Vec<ForestEntry>,
    names: StampNames,
    form: StampForm,
    threads: Arc<TextThreads>,
    /// Threads for readers, so that writes do not wait for them.
    reader_threads: TextThreads,
    writers: Writers,
    /// Bounds the memory between reading and placing by the number of batches.
    batches: Arc<Semaphore>,
    /// Unverified writers do their text work one after the other.
    unverified_turns: Arc<Semaphore>,
    /// Deferred placements of unverified writers.
    waiting: DeferredPlacements,
    /// The engine that keeps the forests, if it is not this process.
    store: Option<Arc<dyn KeyStore>>,
    /// A forest has made groups one.
    merged: Notify,
    unanswered: Indeterminate,
    explains: bool,
}

/// An unverified writer's turn, which lasts until the last copy of this is dropped: jobs take one along, since they go
/// on when the client has left.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

/// Batches that are read and placed at the same time; each of them uses all threads.
const BATCHES: usize = 4;

/// A route bound to its forests.
struct Bound {
    route: Route,
    selection: Selection,
    /// Of a document that is stored: its root is its id.
    stored: Selection,
    found_fields: FoundFields,
    forest: usize,
    /// Forest of its short texts, if the method separates them.
    short: Option<usize>,
}

impl Bound {
    fn new(route: &Route, prefix: &str, (forest, short): (usize, Option<usize>)) -> Result<Bound, SelectionError> {
        let text: Vec<&str> = route.text_fields.iter().map(String::as_str).collect();
        let clock = match &route.clock {
            Clock::Field(name) => Some(name.as_str()),
            Clock::Arrival | Clock::None => None,
        };
        let names = StampNames::new(prefix)?;
        let fields = FieldNames {
            text: &text,
            title: route.title_field.as_deref(),
            id: route.id_field.as_deref(),
            clock,
            url: route.url_field.as_deref(),
            own: route.method.own_field(),
        };
        let stored = FieldNames { id: Some(names.root()), clock: None, ..fields };
        Ok(Bound {
            selection: Selection::new(&fields, prefix)?,
            stored: Selection::of_stored(&stored)?,
            found_fields: FoundFields::default(),
            route: route.clone(),
            forest,
            short,
        })
    }

    /// Forest of a document.
    fn forest_of(&self, features: Option<&Features>) -> usize {
        match features {
            Some(Features::Short(_)) => self.short.unwrap_or(self.forest),
            _ => self.forest,
        }
    }
}

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
    /// As [`new`](Engine::new), and when stored data cannot be read or has other settings.
    pub fn stored(
        routes: &[Route],
        prefix: &str,
        threads: usize,
        key: HashKey,
        storage: Option<&Storage>,
    ) -> Result<Engine, EngineError> {
        let stores = storage.map(Stores::lock).transpose()?;
        let kept = stores.as_ref().map_or(ForestStorage::InMemory, ForestStorage::Stored);
        Engine::keeping(routes, prefix, threads, key, kept)
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
        keys: &Arc<dyn KeyStore>,
        on_loss: OnRedisFailure,
    ) -> Result<Engine, EngineError> {
        let kept = ForestStorage::Shared(keys, on_loss);
        let engine = Engine::keeping(routes, prefix, threads, key, kept)?;
        Ok(Engine { store: Some(keys.clone()), ..engine })
    }

    fn keeping(
        routes: &[Route],
        prefix: &str,
        threads: usize,
        key: HashKey,
        kept: ForestStorage<'_>,
    ) -> Result<Engine, EngineError> {
        let threads = Arc::new(TextThreads::new(threads)?);
        let mut forests = Vec::new();
        let mut bound = Vec::with_capacity(routes.len());
        for route in routes {
            let standing = forests::find_or_add(&mut forests, route, &threads, key, kept)?;
            bound.push(Bound::new(route, prefix, standing)?);
        }
        for route in routes {
            // Dictionaries take a moment to load: not on the first request's time.
            route.method.warm_up();
        }
        Ok(Engine {
            routes: bound,
            forests,
            names: StampNames::new(prefix)?,
            form: StampForm::default(),
            threads,
            reader_threads: TextThreads::for_readers()?,
            writers: Writers::default(),
            batches: Arc::new(Semaphore::new(BATCHES)),
            unverified_turns: Arc::new(Semaphore::new(1)),
            waiting: DeferredPlacements::default(),
            store: None,
            merged: Notify::new(),
            unanswered: Indeterminate::default(),
            explains: false,
        })
    }

    /// The same engine, which writes stamps of this form; without it, lean ones.
    pub fn with_stamps(self, form: StampForm) -> Engine {
        Engine { form, ..self }
    }

    /// The same engine, which also explains how each document found its place ([`Stamped::explanations`]).
    pub fn with_explanations(self) -> Engine {
        Engine { explains: true, ..self }
    }

    /// Whether anything can be stamped at all.
    pub fn has_routes(&self) -> bool {
        !self.routes.is_empty()
    }

    /// Whether documents of this index are stamped.
    pub fn routes(&self, index: &str) -> bool {
        self.route(index).is_some()
    }

    /// Whether a route stamps documents of an index whose name fits this pattern, if there is one.
    pub fn may_route(&self, pattern: &str) -> bool {
        self.routes.iter().any(|bound| bound.route.may_match(pattern))
    }

    /// The name that a name with a date in it means at this time, if it can be read here.
    pub fn resolve_date(name: &str, now: Millis) -> Option<String> {
        date_math::resolve(name, now)
    }

    fn route_at(&self, index: &str, context: RequestContext) -> Option<usize> {
        self.route(index).or_else(|| {
            let is_date = date_math::is_date_math(index);
            let meant = is_date.then(|| date_math::resolve(index, context.now));
            self.route(&meant??)
        })
    }

    fn route(&self, index: &str) -> Option<usize> {
        self.routes.iter().position(|bound| bound.route.matches(index))
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

    /// Splits the body of a write into items and finds their routes, in this turn.
    ///
    /// # Errors
    /// [`StampError::NotUnderstood`] when the body is to be passed on as it came, [`StampError::Unavailable`] when it
    /// must not be.
    pub async fn parse(
        self: &Arc<Self>,
        body: Bytes,
        write: Write,
        context: RequestContext,
        turn: Turn,
    ) -> Result<Parsed, StampError> {
        let engine = self.clone();
        let parse = move || -> Result<_, NotUnderstood> {
            let _turn = turn;
            match &write {
                Write::Bulk { index } => {
                    let items = bulk::parse(&body)?;
                    Ok(engine.work_items(&items, index.as_deref(), context))
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
                    let parsed = engine.work_items(&[item], None, context);
                    Ok(Parsed { is_bulk: false, ..parsed })
                }
            }
        };
        Ok(self.run(parse).await??)
    }

    /// Stamps the documents of a write. Placements are to be settled by [`settle`](Engine::settle); if this future is
    /// dropped, they are withdrawn.
    ///
    /// # Errors
    /// As [`parse`](Engine::parse).
    pub async fn stamp(
        self: &Arc<Self>,
        body: Bytes,
        parsed: Parsed,
        context: RequestContext,
    ) -> Result<Stamped, StampError> {
        let is_bulk = parsed.is_bulk;
        let stamped = self.stamp_items(body, parsed.items, context).await?;
        // A bulk continues although some of its sources are invalid: those items fail alone.
        if !is_bulk
            && let [UnstampedDocument { reason, .. }] = stamped.left_alone()
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
        self: &Arc<Self>,
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
    pub async fn stamp_lines(self: &Arc<Self>, body: Bytes, context: RequestContext) -> Result<Stamped, Unavailable> {
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
        let parsed = self.work_items(&items, Some(""), context);
        self.stamp_items(body, parsed.items, context).await
    }

    /// Name and state of every forest.
    ///
    /// # Errors
    /// When a forest cannot be asked any more.
    pub async fn stats(&self) -> Result<Vec<(String, ForestStats)>, Unavailable> {
        let mut all = Vec::with_capacity(self.forests.len());
        for entry in &self.forests {
            all.push((entry.name.clone(), entry.port.stats().await?));
        }
        Ok(all)
    }

    /// The same of the forests that this process alone keeps.
    ///
    /// # Errors
    /// As [`stats`](Engine::stats).
    pub async fn own_stats(&self) -> Result<Vec<(String, ForestStats)>, Unavailable> {
        let mut all = Vec::new();
        for entry in self.forests.iter().filter(|entry| !entry.is_shared()) {
            all.push((entry.name.clone(), entry.port.stats().await?));
        }
        Ok(all)
    }

    /// Waits until the caller's body may be read: unverified writers are served one after the other.
    pub async fn turn(&self, caller: u64, now: Millis) -> Turn {
        if self.has_written(caller, now) {
            return Turn::default();
        }
        let turn = self.unverified_turns.clone().acquire_owned().await;
        Turn { _permit: turn.ok().map(Arc::new) }
    }

    /// Whether the cluster has lately accepted anything of this caller.
    pub fn has_written(&self, caller: u64, now: Millis) -> bool {
        self.writers.knows_any(caller, now)
    }

    /// Takes back placements whose outcome has been unknown for long, at most `budget` in each forest. Answers how many
    /// nodes went.
    ///
    /// # Errors
    /// When a forest cannot be asked any more; the others were.
    pub async fn forget_unknown(&self, now: Millis, budget: usize) -> Result<u64, Unavailable> {
        let mut result = Ok(0);
        for entry in &self.forests {
            match (entry.port.forget_unknown(now, budget).await, &mut result) {
                (Ok(settled), Ok(withdrawn)) => *withdrawn += settled.withdrawn,
                (Ok(_), Err(_)) => {}
                (Err(unavailable), _) => result = Err(unavailable),
            }
        }
        result
    }

    /// Sets how many bytes all forests together may take; each may take its equal share.
    ///
    /// # Errors
    /// When a forest cannot be asked any more.
    pub async fn limit_memory(&self, bytes: usize) -> Result<(), Unavailable> {
        let share = bytes / self.forests.len().max(1);
        for local in self.forests.iter().filter_map(|entry| entry.local.as_ref()) {
            local.set_memory_limit(share).await?;
        }
        Ok(())
    }

    /// Removes expired nodes, at most `budget` of each forest whose clock is the arrival.
    ///
    /// # Errors
    /// When a forest cannot be asked any more; the others were.
    pub async fn expire(&self, now: Millis, budget: usize) -> Result<(), Unavailable> {
        let mut result = Ok(());
        for (at, entry) in self.forests.iter().enumerate() {
            let ticks =
                self.routes.iter().all(|b| (b.forest != at && b.short != Some(at)) || b.route.clock == Clock::Arrival);
            if let Some(local) = entry.local.as_ref().filter(|_| ticks) {
                result = result.and(local.expire(now, budget).await.map(drop));
            }
        }
        result
    }

    /// Writes everything pending to disk, for shutdown. Blocks.
    pub fn close(&self) {
        for local in self.forests.iter().filter_map(|entry| entry.local.as_ref()) {
            local.close();
        }
    }

    /// Whether the engine that keeps the forests is away; `None`: this process keeps them. Never waits.
    pub fn store_is_away(&self) -> Option<bool> {
        self.store.as_ref().map(|store| store.away().is_some())
    }

    /// Why writes cannot be stamped any more, if they cannot. Never waits.
    pub fn unavailable(&self) -> Option<Unavailable> {
        let mut forests = self.forests.iter();
        forests.find_map(|entry| entry.port.unavailable())
    }
}
