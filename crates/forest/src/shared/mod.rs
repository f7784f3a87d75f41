//! A forest that several processes share: its nodes are keys of a Redis that all of them use ([`RedisClient`]), and
//! expire there. A process keeps nothing that another one needs.
//!
//! ```text
//! documents --ask--> keys --fetch.rs--> ReadSet --placement rules--> planned placements
//!                      ^-- missing keys --+                                    |
//!                                                                              v
//!              replies <-- confirm or yield <-- recheck.rs <-- claim.rs -------+
//! ```
//!
//! Concurrent requests are combined before that (`batcher.rs`).
//!
//! `docs/internals/shared-forest.md` has the protocol, its safety argument, and the effect of a crash between any two
//! steps.

mod batcher;
mod boilerplate_sync;
mod check;
mod claim;
mod document_time;
mod dry_placement;
mod fetch;
pub mod keys;
mod late_merges;
mod layout;
mod lsh_buckets;
#[cfg(any(test, feature = "simulation"))]
pub mod memory;
mod overrides;
mod place;
mod read_set;
mod read_set_view;
mod recheck;
mod round;
mod settle;
#[cfg(test)]
mod tests;
mod transfer;
mod ttl_refresh;

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_channel::oneshot;
use parking_lot::Mutex;
use tracing::warn;

use self::batcher::Batcher;
use self::keys::{
    Agreement, Command, Extent, FORESTS, FoundingToken, Key, KeyKind, KeyOp, Lifetime, RedisClient, RedisReply,
    RedisUnavailable, RoundFailed, SyncPosition, agreement, other_fields, other_settings, too_many_forests,
};
use self::layout::{Calendar, NodeValue};
use self::lsh_buckets::LshBuckets;

pub use self::lsh_buckets::{DistanceTooLarge, SharedDistance};
pub use self::transfer::{Transfer, TransferReport};
use self::ttl_refresh::TtlRefresh;
use super::document::ForestDocument;
use super::late_merges::MergeCandidates;
use super::local::Executor;
use super::overrides::{Override, Overrides, RestampPass};
use super::pending_lessons::PendingLessons;
use super::port::{
    Acknowledged, Batch, CheckReply, DryPlacement, ForestPort, PlaceHandle, PortHandle, SettleReport, Settlement,
    Unavailable,
};
use super::promise::Promise;
use super::{ForestStats, FounderTokenStats, LateMergeLog, LateMerges, Root, Ticket, TreeView};
use crate::DocumentHash;
use crate::text_fields::RoutedFields;
use crate::time::Millis;
use spinney_text::fingerprint::Fingerprint;
use spinney_text::hash::splitmix64;
use spinney_text::method::{MethodKind, Proof};

/// Settings of a shared forest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedSettings {
    /// Lifetime of a node after its arrival; `None`: nothing expires.
    pub window: Option<Millis>,
    /// Documents that a tree may have.
    pub max_tree: Option<u32>,
    /// Approximate budget of this process for founder tokens in Redis, in bytes; 0: none are stored.
    pub founder_token_bytes: usize,
}

/// A forest that is kept elsewhere.
pub struct SharedForest<F: MethodKind> {
    inner: Arc<SharedInner<F>>,
}

struct SharedInner<F: MethodKind> {
    name: String,
    identity: String,
    /// The fields that this process reads its texts from, and whether Redis has them.
    fields: RoutedFields,
    has_agreed: AtomicBool,
    keys: Arc<dyn RedisClient>,
    executor: Arc<dyn Executor>,
    settings: SharedSettings,
    thresholds: <F::Proof as Proof>::Thresholds,
    /// The calendar of its documents, without the clock.
    calendar: Calendar,
    blocks: LshBuckets,
    /// Its number in Redis, once known.
    number: OnceLock<u8>,
    /// The lessons of all processes, as far as they were read here. Documents are queried one after the other, and
    /// each leaves its mask here. Locked after `synced`.
    learned: Mutex<F::Learned>,
    /// Position of the last lesson that was read.
    synced: Mutex<SyncPosition>,
    /// The latest arrival here; of a dated forest the clock as last read.
    clock: AtomicI64,
    /// Step of the last sweep that is known here.
    swept: AtomicU32,
    /// This process is about it.
    sweeps: AtomicBool,
    /// Its next sweep is one of names, too.
    sweeps_names: AtomicBool,
    /// Placements of unknown outcome, and when they are taken back, in that order.
    unknown: Mutex<VecDeque<(Millis, Ticket)>>,
    /// Lessons to publish once the documents that this process placed are accepted.
    pending: Mutex<PendingLessons>,
    turns: Batcher,
    tokens: AtomicU64,
    /// The overrides as last read.
    known_overrides: overrides::KnownOverrides,
    /// Trees that may be one, as far as this process has met them.
    merge_candidates: Mutex<MergeCandidates>,
    /// The refresh of the TTLs of founder tokens that it wrote.
    pace: Mutex<TtlRefresh>,
    counters: Counters,
}

/// Bytes of lessons that Redis keeps for a forest, about: for a process that begins, or that was away.
const LESSON_BYTES: usize = 16 << 20;
/// Bytes that founder tokens take in Redis besides themselves.
const FOUNDER_TOKENS_OVERHEAD: usize = 120;

/// Counters of a shared forest in this process.
#[derive(Debug, Default)]
pub(super) struct Counters {
    commands: AtomicU64,
    rounds: AtomicU64,
    documents: AtomicU64,
    conflicts: AtomicU64,
    withdrawn: AtomicU64,
    expired: AtomicU64,
    without_founder_tokens: AtomicU64,
    unreadable: AtomicU64,
    /// Whether it was logged that the boilerplate log cannot be used.
    log_named: AtomicBool,
    /// Keys that the log has named as unreadable.
    named: Mutex<HashSet<(KeyKind, Fingerprint)>>,
}

/// Most unreadable values that are logged, each once; more are only counted.
const MOST_UNREADABLE_NAMED: usize = 1_000;

/// Counters of a shared forest in this process, for `_stats`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedStats {
    /// Documents that were placed.
    pub documents: u64,
    /// Commands, each on one key.
    pub commands: u64,
    /// Round trips to Redis, of any number of commands.
    pub round_trips: u64,
    /// Placements that were restarted because of another process' claims.
    pub conflicts: u64,
    /// Values that this version cannot read; they count as absent.
    pub unreadable: u64,
    /// Size of the sample that nodes, roots and founder tokens are estimated from, in keys of all forests: all keys of
    /// a Redis node with up to 4,096, else about 1,024. The estimates are right to a few percent, with k above 0 to a
    /// tenth.
    pub sampled: u64,
    /// Keys in Redis; where the sample has as many, the estimates are exact.
    pub keys: u64,
}

/// What a shared forest is, whichever process uses it.
#[derive(Debug)]
pub struct ForestSetup<'a, F: MethodKind> {
    /// Its name in Redis.
    pub name: &'a str,
    /// The settings that its nodes depend on: Redis refuses another identity under the same name.
    pub identity: &'a str,
    /// Its limits.
    pub settings: SharedSettings,
    /// Thresholds of proofs.
    pub thresholds: <F::Proof as Proof>::Thresholds,
    /// What it has learned before its first document.
    pub learned: F::Learned,
}

impl<F: MethodKind> SharedForest<F> {
    /// A forest in this Redis, created on first use. `seed`: any number, different for each process.
    pub fn new(
        setup: ForestSetup<'_, F>,
        executor: Arc<dyn Executor>,
        keys: Arc<dyn RedisClient>,
        seed: u64,
    ) -> SharedForest<F> {
        let ForestSetup { name, identity, settings, thresholds, learned } = setup;
        SharedForest {
            inner: Arc::new(SharedInner {
                name: name.to_owned(),
                identity: identity.to_owned(),
                fields: RoutedFields::default(),
                has_agreed: AtomicBool::new(false),
                keys,
                executor,
                settings,
                thresholds,
                calendar: Calendar::new(settings.window),
                number: OnceLock::new(),
                learned: Mutex::new(learned),
                synced: Mutex::default(),
                blocks: LshBuckets::new(SharedDistance::EQUAL),
                clock: AtomicI64::new(i64::MIN),
                swept: AtomicU32::new(0),
                sweeps: AtomicBool::new(false),
                sweeps_names: AtomicBool::new(false),
                unknown: Mutex::default(),
                pending: Mutex::default(),
                turns: Batcher::default(),
                tokens: AtomicU64::new(seed),
                known_overrides: overrides::KnownOverrides::new(seed),
                merge_candidates: Mutex::default(),
                pace: Mutex::new(TtlRefresh::new(settings.founder_token_bytes)),
                counters: Counters::default(),
            }),
        }
    }

    /// Sets the distance k.
    #[must_use]
    pub fn with_distance(mut self, k: SharedDistance) -> SharedForest<F> {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.blocks = LshBuckets::new(k);
        }
        self
    }

    /// Sets how late merges are handled.
    #[must_use]
    pub fn with_late_merges(self, mode: LateMerges) -> SharedForest<F> {
        self.inner.merge_candidates.lock().mode = mode;
        self
    }

    /// Sets the fields that this process reads texts from. Redis refuses documents where others are recorded.
    #[must_use]
    pub fn with_fields(mut self, fields: RoutedFields) -> SharedForest<F> {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.fields = fields;
        }
        self
    }

    /// Makes the forest dated: its clock is the latest date of an accepted document.
    #[must_use]
    pub fn dated(mut self) -> SharedForest<F> {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.calendar.is_dated = true;
        }
        self
    }

    /// Runs a job to its end, with or without a waiter.
    fn plain<T: Send + 'static>(
        &self,
        job: impl Future<Output = Result<T, Unavailable>> + Send + 'static,
    ) -> PortHandle<T> {
        let (done, answer) = self.inner.promise();
        self.inner.keys.spawn(Box::pin(async move {
            done.answer(job.await);
        }));
        PortHandle::of(async move { answer.await.unwrap_or(Err(Unavailable::Stopped)) })
    }
}

impl<F: MethodKind> SharedInner<F> {
    fn away(&self, away: RedisUnavailable) -> Unavailable {
        let (forest, reason) = (self.name.clone(), away.reason);
        match away.extent {
            Extent::Memory { is_all_there } => Unavailable::Full { forest, reason, is_all_there },
            Extent::All | Extent::Key => Unavailable::Away { forest, reason },
        }
    }

    /// Other processes were faster again and again.
    fn overtaken(&self, reason: &str) -> Unavailable {
        Unavailable::Overtaken { forest: self.name.clone(), reason: reason.into() }
    }

    fn unsupported(&self, reason: &str) -> Unavailable {
        Unavailable::Unsupported { forest: self.name.clone(), reason: reason.into() }
    }

    /// A promise of a job of this forest, and its receiver.
    fn promise<T>(&self) -> (Promise<T>, oneshot::Receiver<Result<T, Unavailable>>) {
        Promise::new(format!("a job of the forest '{}'", self.name))
    }

    /// Its number in Redis.
    async fn number(&self) -> Result<u8, Unavailable> {
        if let Some(&number) = self.number.get() {
            return Ok(number);
        }
        let enrolled = self.keys.enroll(&self.name, &self.identity).await;
        let number = enrolled.map_err(|away| self.away(away))?.map_err(|reason| self.unsupported(&reason))?;
        Ok(*self.number.get_or_init(|| number))
    }

    /// Checks that all processes read texts from the same fields; records the fields before the first placement.
    /// `is_dry`: nothing is recorded, since nothing is placed.
    async fn agree_on_fields(&self, is_dry: bool) -> Result<(), Unavailable> {
        if self.has_agreed.load(Relaxed) {
            return Ok(());
        }
        self.number().await?;
        if is_dry {
            return self.compare_fields().await;
        }
        let agreed = self.keys.agree_on_fields(&self.name, &self.fields).await;
        agreed.map_err(|away| self.away(away))?.map_err(|reason| self.unsupported(&reason))?;
        self.has_agreed.store(true, Relaxed);
        Ok(())
    }

    async fn compare_fields(&self) -> Result<(), Unavailable> {
        let known = self.keys.fields(&self.name).await.map_err(|away| self.away(away))?;
        let agreed = self.fields.recorded_in(&known);
        agreed.map(drop).map_err(|differ| self.unsupported(&other_fields(&differ)))
    }

    async fn check_settings(&self) -> Result<(), Unavailable> {
        if self.has_agreed.load(Relaxed) {
            return Ok(());
        }
        let forests = self.keys.forests().await.map_err(|away| self.away(away))?;
        match forests.iter().find(|(name, ..)| *name == self.name) {
            None if forests.len() >= usize::from(FORESTS) => Err(self.unsupported(&too_many_forests())),
            Some((_, _, kept)) if agreement(kept, &self.identity) == Agreement::Other => {
                Err(self.unsupported(&other_settings(kept, &self.identity)))
            }
            _ => self.compare_fields().await,
        }
    }

    /// Runs commands on nodes.
    async fn run(&self, commands: Vec<(Fingerprint, KeyOp)>) -> Result<std::vec::IntoIter<RedisReply>, Unavailable> {
        let of_node = |(fingerprint, what)| (KeyKind::Node, fingerprint, what);
        self.run_all(commands.into_iter().map(of_node).collect()).await
    }

    /// Runs commands on keys of any kind.
    async fn run_all(
        &self,
        commands: Vec<(KeyKind, Fingerprint, KeyOp)>,
    ) -> Result<std::vec::IntoIter<RedisReply>, Unavailable> {
        self.run_round(commands).await.map_err(|failed| failed.why)
    }

    /// Runs commands on keys of any kind.
    ///
    /// # Errors
    /// As [`RoundFailed`].
    async fn run_round(
        &self,
        commands: Vec<(KeyKind, Fingerprint, KeyOp)>,
    ) -> Result<std::vec::IntoIter<RedisReply>, RoundFailed<Unavailable>> {
        if commands.is_empty() {
            return Ok(Vec::new().into_iter());
        }
        let forest = match self.number().await {
            Ok(forest) => forest,
            Err(why) => return Err(RoundFailed::before_all(why, commands.len())),
        };
        let command = |(kind, fingerprint, what)| Command { key: Key { forest, fingerprint, kind }, what };
        let commands: Vec<Command> = commands.into_iter().map(command).collect();
        let keys: Vec<Key> = commands.iter().map(|command| command.key).collect();
        let count = commands.len();
        self.counters.commands.fetch_add(count as u64, Relaxed);
        self.counters.rounds.fetch_add(1, Relaxed);
        let replies = self.keys.run(commands).await.map_err(|failed| failed.map(|why| self.away(why)))?;
        if replies.len() != count {
            let reason = "Redis gave fewer replies than it was asked for";
            return Err(RoundFailed::of(self.away(RedisUnavailable::of(reason))));
        }
        for (&key, _) in keys.iter().zip(&replies).filter(|(_, reply)| **reply == RedisReply::Unusable) {
            self.unusable(key).map_err(RoundFailed::of)?;
        }
        Ok(replies.into_iter())
    }

    /// A key holds a value of another type. It counts as absent, unless documents would be placed wrongly without it.
    ///
    /// # Errors
    /// If they would.
    fn unusable(&self, key: Key) -> Result<(), Unavailable> {
        match key.kind {
            KeyKind::Node | KeyKind::FounderTokens | KeyKind::Bucket | KeyKind::Sweep => {
                self.unreadable(key.kind, key.fingerprint);
                Ok(())
            }
            KeyKind::Overrides => Err(self.unreadable_overrides(key.forest)),
            KeyKind::Clock | KeyKind::Acknowledgements => Err(self.unsupported(&format!(
                "the key \"{}\" in Redis holds a value of another type, which spinney has not written: delete that \
                 key, and spinney writes it anew",
                key.shown()
            ))),
        }
    }

    /// Runs a job on the threads for text work.
    async fn compute<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce(&SharedInner<F>) -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        let (done, answer) = oneshot::channel();
        let inner = self.clone();
        self.executor.run(Box::new(move || {
            let _ = done.send(job(&inner));
        }));
        answer.await.map_err(|_| Unavailable::Panicked(format!("placing documents in the forest '{}'", self.name)))
    }

    /// The time to live of founder tokens of this size that are written now.
    fn founder_tokens_life(&self, bytes: usize, now: Millis) -> Lifetime {
        let life = self.pace.lock().write((bytes + FOUNDER_TOKENS_OVERHEAD) as u64, now);
        let now = self.expiry_time(now);
        match (self.life(now, true), life) {
            (life, None) => life,
            (Lifetime::Until(at), Some(life)) => Lifetime::Until(at.min(Millis(now.0.saturating_add(life)))),
            (_, Some(life)) => Lifetime::For(Duration::from_millis(life.unsigned_abs())),
        }
    }

    fn new_token(&self) -> FoundingToken {
        FoundingToken::of(self.random())
    }

    /// Another number each time.
    fn random(&self) -> u64 {
        splitmix64(self.tokens.fetch_add(1, Relaxed))
    }

    /// The arrival of a document with this time; `None`: it does not advance the clock.
    fn arrives(&self, claimed: Option<Millis>) -> Millis {
        if self.calendar.is_dated {
            return self.dated_arrival(claimed);
        }
        let at = self.keys.arrival(claimed.unwrap_or(Millis(0)));
        Millis(self.clock.fetch_max(at.0, Relaxed).max(at.0))
    }

    async fn tree(&self, root: Root) -> Result<Option<TreeView>, Unavailable> {
        let mut commands = vec![(KeyKind::Node, root.0, KeyOp::Get)];
        commands.extend(self.read_clock());
        let mut replies = self.run_all(commands).await?;
        let node = replies.next();
        self.refresh_clock(replies.next());
        let Some(RedisReply::Bytes(bytes)) = node else {
            return Ok(None);
        };
        let Some(NodeValue::Root(kept)) = NodeValue::<F::Proof>::read(&bytes) else {
            return Ok(None);
        };
        let now = self.arrives(None);
        let is_there = kept.is_confirmed && !self.calendar().is_over(kept.step);
        Ok(is_there.then(|| self.view(&kept, now)))
    }

    async fn firsts(&self, roots: Vec<Root>) -> Result<Vec<DocumentHash>, Unavailable> {
        let read = roots.iter().map(|root| (root.0, KeyOp::Get)).collect();
        let first = |reply| match reply {
            RedisReply::Bytes(bytes) => match NodeValue::<F::Proof>::read(&bytes) {
                Some(NodeValue::Root(kept)) => kept.first,
                _ => DocumentHash::UNKNOWN,
            },
            _ => DocumentHash::UNKNOWN,
        };
        Ok(self.run(read).await?.map(first).collect())
    }

    async fn set_firsts(&self, firsts: Vec<(Root, DocumentHash)>) -> Result<(), Unavailable> {
        let read = firsts.iter().map(|&(root, _)| (root.0, KeyOp::Get)).collect();
        let replies = self.run(read).await?;
        let life = self.life(self.arrives(None), true);
        let swap = |((root, first), reply): ((Root, DocumentHash), RedisReply)| {
            let RedisReply::Bytes(before) = reply else { return None };
            let Some(NodeValue::Root(kept)) = NodeValue::<F::Proof>::read(&before) else { return None };
            if !kept.is_confirmed {
                return None;
            }
            let value = layout::RootValue { first, ..kept }.bytes();
            // A root that has changed meanwhile keeps what it has: the next search of its group sets it.
            (value != before).then_some((root.0, KeyOp::Swap { before, or_nothing: false, value, life }))
        };
        let swaps: Vec<_> = firsts.into_iter().zip(replies).filter_map(swap).collect();
        self.run(swaps).await.map(drop)
    }

    fn view(&self, kept: &layout::RootValue<F::Proof>, now: Millis) -> TreeView {
        let tally = kept.tally();
        TreeView {
            children: kept.living_children(self.calendar, now),
            documents: tally.documents,
            titles: tally.titles(),
            closed: tally.closed(self.settings.max_tree),
            added: kept.added,
            arrival: match self.settings.window {
                Some(_) => self.calendar.begun(kept.step, now).max(kept.added),
                None => kept.added,
            },
        }
    }

    /// A value is none that this version reads. It counts as absent.
    fn unreadable(&self, kind: KeyKind, fingerprint: Fingerprint) {
        self.counters.unreadable.fetch_add(1, Relaxed);
        let mut named = self.counters.named.lock();
        if named.len() < MOST_UNREADABLE_NAMED && named.insert((kind, fingerprint)) {
            warn!(
                forest = self.name,
                ?kind,
                %fingerprint,
                "a value in the forest store does not read: it counts as absent"
            );
        }
    }

    async fn stats(&self) -> Result<ForestStats, Unavailable> {
        let forest = self.number().await?;
        let size = self.keys.size().await;
        let (_, memory_bytes) = size.map_err(|away| self.away(away))?;
        let sample = self.keys.sample(forest, self.new_token().0.into()).await;
        let sample = sample.map_err(|away| self.away(away))?;
        let clock = self.read_clock().into_iter().collect();
        self.refresh_clock(self.run_all(clock).await?.next());
        let drawn = |kind| sample.drawn.iter().filter(move |(key, _)| key.kind == kind);
        let is_root = |(_, bytes): &&(Key, usize)| NodeValue::<F::Proof>::is_root(*bytes);
        let founder_token_bytes: usize = drawn(KeyKind::FounderTokens).map(|(_, bytes)| bytes).sum();
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let counters = &self.counters;
        Ok(ForestStats {
            clock: Some(Millis(self.clock.load(Relaxed))).filter(|clock| clock.0 > i64::MIN),
            nodes: sample.all(drawn(KeyKind::Node).count()),
            roots: sample.all(drawn(KeyKind::Node).filter(is_root).count()),
            dead_nodes: 0,
            late_merges: self.late_merge_stats(),
            expired_total: count(&counters.expired),
            withdrawn_total: count(&counters.withdrawn),
            evicted_total: 0,
            memory_bytes,
            largest: None,
            page_chrome_trees: 0,
            page_chrome: Vec::new(),
            founder_tokens: FounderTokenStats {
                trees: sample.all(drawn(KeyKind::FounderTokens).count()),
                bytes: sample.all(founder_token_bytes),
                evicted_total: 0,
                missing_total: count(&counters.without_founder_tokens),
            },
            stored: None,
            shared: Some(SharedStats {
                documents: count(&counters.documents),
                commands: count(&counters.commands),
                round_trips: count(&counters.rounds),
                conflicts: count(&counters.conflicts),
                unreadable: count(&counters.unreadable),
                sampled: sample.of as u64,
                keys: sample.keys as u64,
            }),
        })
    }
}

/// The operations of a shared forest beyond [`ForestPort`], while documents are placed.
pub trait SharedPort: ForestPort + Transfer {
    /// Compares its settings and fields with those that Redis has of it, if any. Nothing is changed there.
    fn check_settings(&self) -> PortHandle<()>;

    /// Refreshes overrides from Redis; returns the latest known version.
    fn refresh_overrides(&self) -> PortHandle<u64>;

    /// Acknowledges that all in-flight documents of this process use override version ≥ `synced`; doubles as a
    /// heartbeat.
    fn acknowledge_overrides(&self, synced: u64) -> PortHandle<Acknowledged>;
}

impl<F: MethodKind> ForestPort for SharedForest<F> {
    fn place(&self, batch: Batch) -> PlaceHandle<Batch> {
        self.inner.queue(batch)
    }

    fn dry_placement(&self) -> Box<dyn DryPlacement> {
        Box::new(dry_placement::SharedDryPlacement::new(SharedForest { inner: self.inner.clone() }))
    }

    fn settle(&self, batch: Vec<Settlement>, now: Millis) -> PortHandle<SettleReport> {
        let inner = self.inner.clone();
        self.plain(async move { inner.settle(batch, now).await })
    }

    fn forget_unknown(&self, now: Millis, budget: usize) -> PortHandle<SettleReport> {
        let inner = self.inner.clone();
        self.plain(async move { inner.forget_unknown(now, budget).await })
    }

    fn check(&self, document: ForestDocument) -> PortHandle<CheckReply> {
        let inner = self.inner.clone();
        self.plain(async move { inner.check(document).await })
    }

    fn firsts(&self, roots: Vec<Root>) -> PortHandle<Vec<DocumentHash>> {
        let inner = self.inner.clone();
        self.plain(async move { inner.firsts(roots).await })
    }

    fn set_firsts(&self, firsts: Vec<(Root, DocumentHash)>) -> PortHandle<()> {
        let inner = self.inner.clone();
        self.plain(async move { inner.set_firsts(firsts).await })
    }

    fn tree(&self, root: Root) -> PortHandle<Option<TreeView>> {
        let inner = self.inner.clone();
        self.plain(async move { inner.tree(root).await })
    }

    fn stats(&self) -> PortHandle<ForestStats> {
        let inner = self.inner.clone();
        self.plain(async move { inner.stats().await })
    }

    fn add_override(&self, correction: Override, shown: Vec<Root>) -> PortHandle<Option<u64>> {
        let inner = self.inner.clone();
        self.plain(async move { inner.add_override(correction, &shown).await })
    }

    fn undo_override(&self, number: u64) -> PortHandle<Option<Override>> {
        let inner = self.inner.clone();
        self.plain(async move { inner.undo_override(number).await })
    }

    fn restamped(&self, done: RestampPass) -> PortHandle<()> {
        let inner = self.inner.clone();
        self.plain(async move { inner.restamped(&done).await })
    }

    fn overrides(&self) -> PortHandle<Arc<Overrides>> {
        let inner = self.inner.clone();
        self.plain(async move { Ok(inner.overrides().await?.overrides().clone()) })
    }

    fn late_merges(&self) -> PortHandle<LateMergeLog> {
        PortHandle::ready(Ok(self.inner.late_merges()))
    }

    fn unavailable(&self) -> Option<Unavailable> {
        self.inner.keys.away().map(|away| self.inner.away(away))
    }
}

impl<F: MethodKind> SharedPort for SharedForest<F> {
    fn check_settings(&self) -> PortHandle<()> {
        let inner = self.inner.clone();
        self.plain(async move { inner.check_settings().await })
    }

    fn refresh_overrides(&self) -> PortHandle<u64> {
        let inner = self.inner.clone();
        self.plain(async move { Ok(inner.overrides().await?.version()) })
    }

    fn acknowledge_overrides(&self, synced: u64) -> PortHandle<Acknowledged> {
        let inner = self.inner.clone();
        self.plain(async move { inner.acknowledge(synced).await })
    }
}

impl<F: MethodKind> std::fmt::Debug for SharedForest<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = &self.inner;
        let mut shown = f.debug_struct("Shared");
        shown.field("name", &inner.name).field("keys", &inner.keys);
        shown.field("counters", &inner.counters).finish_non_exhaustive()
    }
}
