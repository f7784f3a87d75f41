//! The forests of the routes.

use std::sync::Arc;

use super::Unavailable;
use super::growing::Growing;
use super::placed::{HeldDocuments, Resolution};
use crate::fingerprint::Distance;
use crate::forest::local::Copied;
use crate::forest::overrides::{Overrides, RestampPass};
use crate::forest::port::{Acknowledged, ForestPort, LocalPort, PortHandle, SettleReport, Settlement};
use crate::forest::shared::SharedPort;
use crate::forest::shared::keys::{Evictions, RedisClient, RedisUnavailable};
use crate::forest::{DocumentHash, ForestStats, Root};
use crate::store::{DataDir, ForestIdentity};
use crate::text_fields::FieldRecord;
use crate::time::Millis;

/// Suffix of the name of a forest of short texts.
pub(super) const SHORT_TEXTS: &str = " (short texts)";

/// A forest by name.
#[derive(Clone)]
pub(super) struct ForestEntry {
    pub(super) name: String,
    /// Fingerprints at most this far apart are near in it.
    pub(super) k: Distance,
    pub(super) port: Arc<dyn ForestPort>,
    /// Identity of the stored forest.
    pub(super) identity: ForestIdentity,
    /// Which fields its texts are read from. Of a shared forest Redis has the record.
    pub(super) fields: FieldRecord,
    /// It, to be copied, where this process keeps it.
    pub(super) copied: Option<Arc<dyn Copied>>,
    /// Directory of a salvaged forest, until the index was read.
    pub(super) salvaged: Option<DataDir>,
    /// The part of it that this process keeps.
    pub(super) local: Option<Arc<dyn LocalPort>>,
    /// It, where several processes share it.
    pub(super) shared: Option<Arc<dyn SharedPort>>,
    /// Whether its clock is the arrival of documents, so that its nodes expire without any.
    pub(super) is_timed: bool,
    /// Whether its groups can have overrides: all but the two of a route whose short texts are apart.
    pub(super) is_overridable: bool,
}

impl ForestEntry {
    /// Whether several processes share it.
    pub(super) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }
}

impl std::fmt::Debug for ForestEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ForestEntry");
        shown.field("name", &self.name).field("k", &self.k);
        shown.field("port", &self.port).finish_non_exhaustive()
    }
}

/// As [`Forests::check_settings`], of these.
pub(super) async fn check_settings(entries: impl Iterator<Item = &ForestEntry>) -> Result<(), Unavailable> {
    for shared in entries.filter_map(|entry| entry.shared.as_ref()) {
        shared.check_settings().await?;
    }
    Ok(())
}

/// All forests.
pub struct Forests {
    pub(super) entries: Growing<ForestEntry>,
    /// The client of the shared forests' Redis; `None`: the forests are local.
    pub(super) store: Option<Arc<dyn RedisClient>>,
}

impl Forests {
    /// The time by the clock that expires the nodes of shared forests; `None`: no forest is shared.
    ///
    /// # Errors
    /// When Redis is away.
    pub(crate) async fn redis_time(&self) -> Result<Option<Millis>, RedisUnavailable> {
        match &self.store {
            Some(store) => store.redis_time().await,
            None => Ok(None),
        }
    }

    /// Name and state of every forest.
    ///
    /// # Errors
    /// When a forest cannot be asked any more.
    pub async fn stats(&self) -> Result<Vec<(String, ForestStats)>, Unavailable> {
        let mut all = Vec::with_capacity(self.entries.len());
        for entry in self.entries.iter() {
            all.push((entry.name.clone(), entry.port.stats().await?));
        }
        Ok(all)
    }

    /// Name of every forest with its state, or the error of that forest.
    pub(crate) async fn each_stats(&self) -> Vec<(String, Result<ForestStats, Unavailable>)> {
        let mut all = Vec::with_capacity(self.entries.len());
        for entry in self.entries.iter() {
            all.push((entry.name.clone(), entry.port.stats().await));
        }
        all
    }

    /// Name and state of the local forests.
    ///
    /// # Errors
    /// As [`stats`](Forests::stats).
    pub async fn own_stats(&self) -> Result<Vec<(String, ForestStats)>, Unavailable> {
        let mut all = Vec::new();
        for entry in self.entries.iter().filter(|entry| !entry.is_shared()) {
            all.push((entry.name.clone(), entry.port.stats().await?));
        }
        Ok(all)
    }

    /// Takes back placements whose outcome has been unknown for long, at most `budget` in each forest. Answers how many
    /// nodes went.
    ///
    /// # Errors
    /// When a forest cannot be asked any more; the others were.
    pub async fn forget_unknown(&self, now: Millis, budget: usize) -> Result<u64, Unavailable> {
        let mut result = Ok(0);
        for entry in self.entries.iter() {
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
        let share = bytes / self.entries.len().max(1);
        for local in self.entries.iter().filter_map(|entry| entry.local.as_ref()) {
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
        for entry in self.entries.iter().filter(|entry| entry.is_timed) {
            if let Some(local) = &entry.local {
                result = result.and(local.expire(now, budget).await.map(drop));
            }
        }
        result
    }

    /// Writes everything pending to disk, for shutdown. Blocks.
    pub fn close(&self) {
        for local in self.entries.iter().filter_map(|entry| entry.local.as_ref()) {
            local.close();
        }
    }

    /// Whether the Redis that keeps the forests is away; `None`: this process keeps them. Never waits.
    pub fn redis_is_away(&self) -> Option<bool> {
        self.store.as_ref().map(|store| store.away().is_some())
    }

    /// Evictions of the shared forests' Redis, as far as known; `None`: the forests are local. Never waits.
    pub fn store_evictions(&self) -> Option<Evictions> {
        self.store.as_ref().map(|store| store.evictions())
    }

    /// Why writes cannot be stamped any more, if they cannot. Never waits.
    pub fn unavailable(&self) -> Option<Unavailable> {
        let mut forests = self.entries.iter();
        forests.find_map(|entry| entry.port.unavailable())
    }

    fn called(&self, name: &str) -> Option<&ForestEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The numbers of a route's forests: by its name, and that of its short texts.
    pub(super) fn numbers_of(&self, name: &str) -> impl Iterator<Item = usize> {
        let is_of = move |entry: &ForestEntry| entry.name.strip_suffix(SHORT_TEXTS).unwrap_or(&entry.name) == name;
        self.entries.iter().enumerate().filter(move |(_, entry)| is_of(entry)).map(|(number, _)| number)
    }

    /// Remembers the first documents of trees in a route's forests, as they are stored.
    ///
    /// # Errors
    /// When a forest is not available.
    pub(crate) async fn set_firsts(&self, name: &str, firsts: &[(Root, DocumentHash)]) -> Result<(), Unavailable> {
        for entry in self.numbers_of(name).filter_map(|number| self.entries.get(number)) {
            entry.port.set_firsts(firsts.to_vec()).await?;
        }
        Ok(())
    }

    /// Forests that can have overrides.
    fn overridable(&self) -> impl Iterator<Item = &ForestEntry> {
        self.entries.iter().filter(|entry| entry.is_overridable)
    }

    /// Overrides of all forests that can have any, by name.
    ///
    /// # Errors
    /// When a forest is not available.
    pub async fn all_overrides(&self) -> Result<Vec<(String, Arc<Overrides>)>, Unavailable> {
        let mut all: Vec<(String, Arc<Overrides>)> = Vec::new();
        for entry in self.overridable() {
            all.push((entry.name.clone(), entry.port.overrides().await?));
        }
        Ok(all)
    }

    /// Names of those that can have overrides.
    pub fn with_overrides(&self) -> Vec<String> {
        let all = self.overridable();
        all.map(|entry| entry.name.clone()).collect()
    }

    /// The shared forests, by name.
    pub fn shared(&self) -> Vec<String> {
        let shared = self.overridable().filter(|entry| entry.is_shared());
        shared.map(|entry| entry.name.clone()).collect()
    }

    /// Compares settings and fields of shared forests with those that Redis has: [`SharedPort::check_settings`].
    ///
    /// # Errors
    /// The first that Redis has with others, or when it is away.
    pub async fn check_settings(&self) -> Result<(), Unavailable> {
        check_settings(self.entries.iter()).await
    }

    /// Refreshes a forest's overrides from Redis: [`SharedPort::refresh_overrides`]. 0 of one that is not shared.
    ///
    /// # Errors
    /// When the forest is not available.
    pub async fn refresh_overrides(&self, forest: &str) -> Result<u64, Unavailable> {
        match self.shared_port(forest) {
            Some(shared) => shared.refresh_overrides().await,
            None => Ok(0),
        }
    }

    /// Acknowledges that all in-flight writes follow a version: [`SharedPort::acknowledge_overrides`]. `None`: no such
    /// forest is shared.
    ///
    /// # Errors
    /// When the forest is not available.
    pub async fn acknowledge_overrides(&self, forest: &str, version: u64) -> Result<Option<Acknowledged>, Unavailable> {
        match self.shared_port(forest) {
            Some(shared) => shared.acknowledge_overrides(version).await.map(Some),
            None => Ok(None),
        }
    }

    fn shared_port(&self, name: &str) -> Option<&Arc<dyn SharedPort>> {
        self.called(name)?.shared.as_ref()
    }

    /// Overrides of a forest by name.
    ///
    /// # Errors
    /// When the forest is not available.
    pub async fn overrides_of(&self, forest: &str) -> Result<Arc<Overrides>, Unavailable> {
        match self.called(forest) {
            Some(entry) => entry.port.overrides().await,
            None => Ok(Arc::default()),
        }
    }

    /// The first documents of trees, in their order.
    ///
    /// # Errors
    /// When the forest is not available.
    pub async fn firsts(&self, forest: &str, roots: Vec<Root>) -> Result<Vec<DocumentHash>, Unavailable> {
        match self.called(forest) {
            Some(entry) => entry.port.firsts(roots).await,
            None => Ok(Vec::new()),
        }
    }

    /// Marks the overrides of this pass as followed by stored documents, unless they have changed since.
    ///
    /// # Errors
    /// When the forest is not available.
    pub async fn restamped(&self, forest: &str, done: RestampPass) -> Result<(), Unavailable> {
        match self.called(forest) {
            Some(entry) => entry.port.restamped(done).await,
            None => Ok(()),
        }
    }

    /// Settles placed documents in their forests; returns the reports by name of the forest. A forest completes the
    /// operation even if its future is dropped.
    pub(super) fn settle(
        &self,
        placed: HeldDocuments,
        resolution: &Resolution,
        now: Millis,
    ) -> Vec<(&str, PortHandle<SettleReport>)> {
        let mut batches: Vec<Vec<Settlement>> = self.entries.iter().map(|_| Vec::new()).collect();
        for (forest, settlement) in placed.settlements(resolution) {
            if let Some(batch) = batches.get_mut(forest) {
                batch.push(settlement);
            }
        }
        let report = self.entries.iter().zip(batches);
        let report = report.filter(|(_, batch)| !batch.is_empty());
        report.map(|(entry, batch)| (&*entry.name, entry.port.settle(batch, now))).collect()
    }

    /// Withdraws documents without waiting.
    pub(super) fn withdraw(&self, placed: HeldDocuments) {
        drop(self.settle(placed, &Resolution::NotSent, Millis(i64::MIN)));
    }
}
