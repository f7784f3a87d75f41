//! Overrides of an index's groups, and the roots they prescribe for stored documents.

use std::sync::Arc;

use bytes::Bytes;

use super::forests::ForestEntry;
use super::{Engine, RequestContext, Unavailable, own_root};
use crate::forest::document::PlacementDocument;
use crate::forest::overrides::{Override, Overrides, ResolvedDocument, RestampPass};
use crate::forest::port::Acknowledged;
use crate::forest::shared::SharedPort;
use crate::forest::{LateMergeLog, Root};

/// Why an index has no overrides.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// No route stamps the index.
    #[error("no route stamps the index {0}: ask for one that --index or a [[route]] names")]
    NoRoute(String),
    /// Its groups are in two forests.
    #[error(
        "the method of {0} keeps short texts in a forest of their own, and an override belongs to one forest: the \
         groups of this index have no overrides"
    )]
    TwoForests(String),
    /// The forest cannot be asked.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Engine {
    fn overridable_forest(&self, index: &str) -> Result<&ForestEntry, OverrideError> {
        let no_route = || OverrideError::NoRoute(index.to_owned());
        let bound = self.route(index).and_then(|at| self.routes.get(at));
        let bound = bound.ok_or_else(no_route)?;
        if bound.short.is_some() {
            return Err(OverrideError::TwoForests(index.to_owned()));
        }
        self.forests.get(bound.forest).ok_or_else(no_route)
    }

    /// Returns the name of an index's forest, and its overrides.
    ///
    /// # Errors
    /// When the index cannot have any, or the forest is not available.
    pub async fn overrides_of_index(&self, index: &str) -> Result<(String, Arc<Overrides>), OverrideError> {
        let entry = self.overridable_forest(index)?;
        Ok((entry.name.clone(), entry.port.overrides().await?))
    }

    /// Says something about the groups of an index. `shown`: the roots that documents of a pin show. Answers the number
    /// of the word when it is safe; `None`: there are as many, or as many bytes of them, as a forest remembers.
    ///
    /// # Errors
    /// As [`overrides`](Engine::overrides_of_index).
    pub async fn add_override(
        &self,
        index: &str,
        correction: Override,
        shown: Vec<Root>,
    ) -> Result<Option<u64>, OverrideError> {
        let entry = self.overridable_forest(index)?;
        Ok(entry.port.add_override(correction, shown).await?)
    }

    /// Undoes an override; returns it, if the number exists.
    ///
    /// # Errors
    /// As [`overrides_of_index`](Engine::overrides_of_index).
    pub async fn undo_override(&self, index: &str, number: u64) -> Result<Option<Override>, OverrideError> {
        let entry = self.overridable_forest(index)?;
        Ok(entry.port.undo_override(number).await?)
    }

    /// Returns the root that a stored document of this index should have; `None` without comparable text. Changes
    /// nothing.
    ///
    /// # Errors
    /// As [`overrides_of_index`](Engine::overrides_of_index).
    pub async fn resolve(
        self: &Arc<Self>,
        index: &str,
        source: Bytes,
        context: RequestContext,
    ) -> Result<Option<ResolvedDocument>, OverrideError> {
        let entry = self.overridable_forest(index)?;
        let route = self.route(index).unwrap_or_default();
        let own_root = own_root(index, None, context.unique, 0);
        let engine = self.clone();
        let read = move || engine.read_document(&source, route, own_root, context).ok();
        let Some(prepared) = self.run(read).await? else {
            return Ok(None);
        };
        let document =
            PlacementDocument { features: prepared.features, when: prepared.when, title: prepared.title, given: None };
        let reply = entry.port.check(document).await?;
        Ok(reply.check.map(|check| check.resolved))
    }

    fn forest_called(&self, name: &str) -> Option<&ForestEntry> {
        self.forests.iter().find(|entry| entry.name == name)
    }

    /// Forests that can have overrides.
    fn overridable_forests(&self) -> impl Iterator<Item = &ForestEntry> {
        let long = self.routes.iter().filter(|bound| bound.short.is_none());
        let mut places: Vec<usize> = long.map(|bound| bound.forest).collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().filter_map(|at| self.forests.get(at))
    }

    /// Overrides of all forests that can have any, by name.
    ///
    /// # Errors
    /// When a forest is not available.
    pub async fn all_overrides(&self) -> Result<Vec<(String, Arc<Overrides>)>, Unavailable> {
        let mut all: Vec<(String, Arc<Overrides>)> = Vec::new();
        for entry in self.overridable_forests() {
            all.push((entry.name.clone(), entry.port.overrides().await?));
        }
        Ok(all)
    }

    /// Names of the forests that can have overrides.
    pub fn forests_with_overrides(&self) -> Vec<String> {
        let all = self.overridable_forests();
        all.map(|entry| entry.name.clone()).collect()
    }

    /// Forests that can receive overrides through other processes.
    pub fn forests_shared(&self) -> Vec<String> {
        let shared = self.overridable_forests().filter(|entry| entry.is_shared());
        shared.map(|entry| entry.name.clone()).collect()
    }

    /// Refreshes a forest's overrides from the store: [`SharedPort::refresh_overrides`]. 0 of one that is not shared.
    ///
    /// # Errors
    /// When the forest is not available.
    pub async fn refresh_overrides(&self, forest: &str) -> Result<u64, Unavailable> {
        match self.shared_forest(forest) {
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
        match self.shared_forest(forest) {
            Some(shared) => shared.acknowledge_overrides(version).await.map(Some),
            None => Ok(None),
        }
    }

    fn shared_forest(&self, name: &str) -> Option<&Arc<dyn SharedPort>> {
        self.forest_called(name)?.shared.as_ref()
    }

    /// Groups of the forest of an index that may be one, and the name of the forest.
    ///
    /// # Errors
    /// As [`overrides`](Engine::overrides_of_index).
    pub async fn merge_suggestions(&self, index: &str) -> Result<(String, LateMergeLog), OverrideError> {
        let entry = self.overridable_forest(index)?;
        Ok((entry.name.clone(), entry.port.late().await?))
    }

    /// Waits until a forest has merged groups by itself since the last call. For a single waiter.
    pub async fn merged(&self) {
        self.merged.notified().await;
    }

    /// Overrides of a forest by name.
    ///
    /// # Errors
    /// When the forest is not available.
    pub async fn overrides_of(&self, forest: &str) -> Result<Arc<Overrides>, Unavailable> {
        match self.forest_called(forest) {
            Some(entry) => entry.port.overrides().await,
            None => Ok(Arc::default()),
        }
    }

    /// Marks the overrides of this pass as followed by stored documents, unless they have changed since.
    ///
    /// # Errors
    /// When the forest is not available.
    pub async fn restamped(&self, forest: &str, done: RestampPass) -> Result<(), Unavailable> {
        match self.forest_called(forest) {
            Some(entry) => entry.port.restamped(done).await,
            None => Ok(()),
        }
    }
}
