//! Stored documents become a forest again: their texts are read on all threads, and placed by one, under the roots that
//! they are stored with.

use std::sync::Arc;

use bytes::Bytes;
use memchr::memmem;
use rayon::prelude::*;

use super::read::{DocumentReader, features};
use super::routes::BoundRoute;
use super::{Engine, Unavailable};
use crate::bulk::{self, Selected};
use crate::clock;
use crate::config::Clock;
use crate::fingerprint::Fingerprint;
use crate::forest::document::{DocumentTime, ForestDocument};
use crate::forest::port::PortHandle;
use crate::forest::{DocumentHash, Recovered, RecoveryPass, Root};
use crate::method::Workspace;
use crate::store::StoreError;
use crate::time::Millis;

/// The stored documents from which a forest can be rebuilt.
#[derive(Debug, Clone)]
pub struct RecoverySource {
    /// The name of the forest.
    pub forest: String,
    /// The indices of its routes: names and patterns.
    pub indices: Vec<String>,
    /// The fields that its routes read.
    pub fields: Vec<String>,
    /// How long its nodes live.
    pub window: Option<Millis>,
    /// Whose time counts.
    pub clock: Clock,
    /// The latest time that it has seen.
    pub seen: Option<Millis>,
    /// It is a salvaged forest: the index may have more documents, of any time.
    pub is_salvaged: bool,
    /// The first of its routes.
    route: usize,
    at: usize,
    short: Option<usize>,
}

impl RecoverySource {
    /// Number of the first of its routes.
    pub(crate) fn first_route(&self) -> usize {
        self.route
    }

    /// Numbers of the forest, and of that of its short texts.
    pub(super) fn forests(&self) -> impl Iterator<Item = usize> + use<> {
        std::iter::once(self.at).chain(self.short)
    }
}

/// A document as an index holds it.
#[derive(Debug, Clone)]
pub struct StoredDocument {
    /// The index that it is in.
    pub index: String,
    /// Its id.
    pub id: String,
    /// Its source, or as much of it as its route reads, with its root.
    pub source: Bytes,
    /// The arrival that it is stamped with.
    pub arrival: Option<Millis>,
}

/// Which stored documents a forest takes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intake {
    /// All: it is empty.
    All,
    /// All unknown documents: an operator has confirmed that the indices belong to this forest.
    Rest,
    /// Unknown documents that this forest can have stamped: for a start, which finds documents of any origin.
    Missed,
}

/// A recovery of one forest, and of that of its short texts.
pub struct Recovering {
    engine: Arc<Engine>,
    source: RecoverySource,
    latest: Millis,
    forests: Vec<(usize, PortHandle<RecoveryPass>)>,
}

impl Engine {
    /// Returns the source of each forest.
    ///
    /// # Errors
    /// When a forest is not available.
    pub async fn sources(&self) -> Result<Vec<RecoverySource>, Unavailable> {
        let mut sources: Vec<RecoverySource> = Vec::new();
        for (route, bound) in self.routes().bound.iter().enumerate() {
            let at = match sources.iter().position(|source| source.at == bound.forest) {
                Some(at) => at,
                None => {
                    sources.push(self.source(route, bound).await?);
                    sources.len() - 1
                }
            };
            if let Some(source) = sources.get_mut(at) {
                add_new(&mut source.fields, bound.route.content_fields());
                add_new(&mut source.indices, bound.route.patterns());
            }
        }
        Ok(sources)
    }

    /// The source of a route's forest, without indices and fields.
    async fn source(&self, route: usize, bound: &BoundRoute) -> Result<RecoverySource, Unavailable> {
        let mut source = RecoverySource {
            forest: bound.route.forest.clone(),
            indices: Vec::new(),
            fields: Vec::new(),
            window: bound.route.window,
            clock: bound.route.clock.clone(),
            seen: None,
            is_salvaged: false,
            route,
            at: bound.forest,
            short: bound.short,
        };
        for entry in source.forests().filter_map(|forest| self.forests.entries.get(forest)) {
            source.is_salvaged |= entry.salvaged.is_some();
            source.seen = source.seen.max(entry.port.stats().await?.clock);
        }
        Ok(source)
    }

    /// Marks the index as read for a salvaged forest.
    ///
    /// # Errors
    /// When the mark cannot be removed: the next start reads the index again.
    pub fn has_read_index(&self, source: &RecoverySource) -> Result<(), StoreError> {
        for entry in source.forests().filter_map(|forest| self.forests.entries.get(forest)) {
            if let Some(data_dir) = &entry.salvaged {
                data_dir.unmark(entry.identity.forest())?;
            }
        }
        Ok(())
    }

    /// Begins the recovery of a forest at this time, which limits arrivals and dates.
    pub fn recover(self: &Arc<Self>, source: RecoverySource, intake: Intake, now: Millis) -> Recovering {
        let is_dated = matches!(source.clock, Clock::Field(_));
        let latest = match is_dated {
            true => clock::latest_at(now),
            false => now,
        };
        let begin = |forest| -> (usize, PortHandle<RecoveryPass>) {
            let recovery = match intake {
                Intake::All => RecoveryPass::default(),
                Intake::Rest => RecoveryPass::of_the_rest(),
                Intake::Missed => RecoveryPass::of_the_missed(is_dated),
            };
            (forest, PortHandle::ready(Ok(recovery)))
        };
        Recovering { engine: self.clone(), latest, forests: source.forests().map(begin).collect(), source }
    }
}

impl DocumentReader {
    /// Returns the forest of a stored document, and its placement document; `None` if it belongs to another forest or
    /// has no root.
    fn read_stored(
        &self,
        stored: &StoredDocument,
        source: &RecoverySource,
        latest: Millis,
        workspace: &mut Workspace,
    ) -> Option<(usize, ForestDocument)> {
        // Aliases and data streams resolve to indices of other names.
        let route = self.routes.find_stored(&stored.index).unwrap_or(source.route);
        let bound = self.routes.bound.get(route)?;
        if bound.forest != source.at {
            return None;
        }
        let document = bulk::scan(&stored.source, &bound.stored).ok()?;
        let root = document.first(Selected::Id)?;
        let root = Fingerprint::written(root, true)?;
        let (features, title) = features(&bound.route, &document, workspace);
        let when = match (&bound.route.clock, stored.arrival) {
            (Clock::None, _) | (_, None) => DocumentTime::Still,
            (_, Some(arrival)) => DocumentTime::At(arrival.min(latest)),
        };
        // In a text the quotes would be escaped.
        let first = format!("\"{}\":true", self.routes.names.first());
        let is_first = memmem::find(&stored.source, first.as_bytes()).is_some();
        let id = match is_first {
            true => DocumentHash::of(&stored.index, &stored.id),
            false => DocumentHash::UNKNOWN,
        };
        let document = ForestDocument { when, title, id, given: Some(Root(root)), features };
        Some((bound.forest_of(document.features.as_ref()), document))
    }
}

impl Recovering {
    /// Takes documents in, in the order of their arrival.
    ///
    /// # Errors
    /// When a forest cannot be asked any more.
    pub async fn add(&mut self, documents: Vec<StoredDocument>) -> Result<(), Unavailable> {
        let (reader, source, latest) = (self.engine.reader.clone(), self.source.clone(), self.latest);
        let read = move || -> Vec<(usize, ForestDocument)> {
            let documents = documents.par_iter();
            let read = documents.map_init(Workspace::default, |workspace, stored| {
                reader.read_stored(stored, &source, latest, workspace)
            });
            read.collect::<Vec<_>>().into_iter().flatten().collect()
        };
        let read = self.engine.run(read).await?;
        let mut parts: Vec<Vec<ForestDocument>> = self.forests.iter().map(|_| Vec::new()).collect();
        for (forest, document) in read {
            let part = self.forests.iter().position(|(at, _)| *at == forest);
            if let Some(part) = part.and_then(|part| parts.get_mut(part)) {
                part.push(document);
            }
        }
        self.place(parts, false).await
    }

    /// Ends the recovery, and returns the totals once all documents are placed.
    ///
    /// # Errors
    /// As [`add`](Recovering::add).
    pub async fn finish(mut self) -> Result<Recovered, Unavailable> {
        let nothing = self.forests.iter().map(|_| Vec::new()).collect();
        self.place(nothing, true).await?;
        let mut recovered = Recovered::default();
        for (_, placing) in self.forests {
            recovered.add(placing.await?.recovered());
        }
        Ok(recovered)
    }

    /// Hands documents over, once those before them are placed. Does not wait for them: others are read meanwhile.
    async fn place(&mut self, parts: Vec<Vec<ForestDocument>>, over: bool) -> Result<(), Unavailable> {
        for ((forest, placing), documents) in self.forests.iter_mut().zip(parts) {
            let recovery = (&mut *placing).await?;
            if let Some(entry) = self.engine.forests.entries.get(*forest) {
                let local = entry.local.as_ref().filter(|_| !entry.is_shared());
                let local = local.ok_or_else(|| Unavailable::Unsupported {
                    forest: entry.name.clone(),
                    reason: "stored documents cannot be taken into a shared forest".into(),
                })?;
                *placing = local.recover(documents, recovery, over);
            }
        }
        Ok(())
    }
}

/// Adds those of these names that are not there yet.
pub(super) fn add_new<'a>(to: &mut Vec<String>, names: impl Iterator<Item = &'a str>) {
    for name in names {
        if !to.iter().any(|known| known == name) {
            to.push(name.to_owned());
        }
    }
}
