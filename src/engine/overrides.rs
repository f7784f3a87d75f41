//! What people say about the groups of an index, handed to its forest, and what a stored document is to show since.

use std::sync::Arc;

use bytes::Bytes;

use super::forests::ForestEntry;
use super::{Engine, RequestContext, Unavailable, own_root};
use crate::forest::overrides::{Override, Overrides, ResolvedDocument, RestampPass};
use crate::forest::port::{Acknowledged, PlacementDocument};
use crate::forest::{LateMergeLog, Root};

/// Why nothing can be said about the groups of an index.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// No route stamps the index.
    #[error("no route stamps the index {0}: ask for one that --index or a [[route]] names")]
    NoRoute(String),
    /// Its groups stand in two forests.
    #[error(
        "the method of {0} keeps short texts in a forest of their own, and a word holds in one forest: nothing can be said about its groups"
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

    /// The name of the forest of an index, and what was said about its groups.
    ///
    /// # Errors
    /// When nothing can be said about them, or the forest cannot be asked.
    pub async fn overrides_of_index(
        &self,
        index: &str,
    ) -> Result<(String, Arc<Overrides>), OverrideError> {
        let entry = self.overridable_forest(index)?;
        Ok((entry.name.clone(), entry.port.overrides().await?))
    }

    /// Says something about the groups of an index. `shown`: the roots that documents of a pin show. Answers the number of the word
    /// when it is safe; `None`: there are as many, or as many bytes of them, as a forest remembers.
    ///
    /// # Errors
    /// As [`words`](Engine::overrides_of_index).
    pub async fn add_override(
        &self,
        index: &str,
        word: Override,
        shown: Vec<Root>,
    ) -> Result<Option<u64>, OverrideError> {
        let entry = self.overridable_forest(index)?;
        Ok(entry.port.add_override(word, shown).await?)
    }

    /// Takes a word back. Answers what it was, if there was one of this number.
    ///
    /// # Errors
    /// As [`words`](Engine::overrides_of_index).
    pub async fn undo_override(
        &self,
        index: &str,
        number: u64,
    ) -> Result<Option<Override>, OverrideError> {
        let entry = self.overridable_forest(index)?;
        Ok(entry.port.undo_override(number).await?)
    }

    /// What a stored document of this index is to show; none if it has no text that could be compared. Nothing is changed.
    ///
    /// # Errors
    /// As [`words`](Engine::overrides_of_index).
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
        let document = PlacementDocument {
            features: prepared.features,
            when: prepared.when,
            title: prepared.title,
            given: None,
        };
        let reply = entry.port.check(document).await?;
        Ok(reply.check.map(|check| check.looked))
    }

    fn forest_called(&self, name: &str) -> Option<&ForestEntry> {
        self.forests.iter().find(|entry| entry.name == name)
    }

    /// The forests about whose groups something can be said.
    fn overridable_forests(&self) -> impl Iterator<Item = &ForestEntry> {
        let long = self.routes.iter().filter(|bound| bound.short.is_none());
        let mut places: Vec<usize> = long.map(|bound| bound.forest).collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().filter_map(|at| self.forests.get(at))
    }

    /// What was said in each forest about whose groups something can be said, by the forest's name.
    ///
    /// # Errors
    /// When a forest cannot be asked any more.
    pub async fn all_overrides(&self) -> Result<Vec<(String, Arc<Overrides>)>, Unavailable> {
        let mut all: Vec<(String, Arc<Overrides>)> = Vec::new();
        for entry in self.overridable_forests() {
            all.push((entry.name.clone(), entry.port.overrides().await?));
        }
        Ok(all)
    }

    /// The names of the forests about whose groups something can be said.
    pub fn forests_with_overrides(&self) -> Vec<String> {
        let all = self.overridable_forests();
        all.map(|entry| entry.name.clone()).collect()
    }

    /// The forests about whose groups something can be said through other processes as well.
    pub fn forests_shared(&self) -> Vec<String> {
        let shared = self.overridable_forests().filter(|entry| entry.is_shared());
        shared.map(|entry| entry.name.clone()).collect()
    }

    /// Hears what was said in a forest through other processes: [`Port::hear`](crate::forest::port::ForestPort::refresh_overrides).
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn refresh_overrides(&self, forest: &str) -> Result<u64, Unavailable> {
        match self.forest_called(forest) {
            Some(entry) => entry.port.refresh_overrides().await,
            None => Ok(0),
        }
    }

    /// All that this process has on its way obeys: [`Port::obeys`](crate::forest::port::ForestPort::acknowledge_overrides).
    ///
    /// # Errors
    /// When the forest cannot be asked.
    pub async fn acknowledge_overrides(
        &self,
        forest: &str,
        heard: u64,
    ) -> Result<Acknowledged, Unavailable> {
        match self.forest_called(forest) {
            Some(entry) => entry.port.acknowledge_overrides(heard).await,
            None => Ok(Acknowledged::ALONE),
        }
    }

    /// Groups of the forest of an index that may be one, and the name of the forest.
    ///
    /// # Errors
    /// As [`words`](Engine::overrides_of_index).
    pub async fn merge_suggestions(
        &self,
        index: &str,
    ) -> Result<(String, LateMergeLog), OverrideError> {
        let entry = self.overridable_forest(index)?;
        Ok((entry.name.clone(), entry.port.late().await?))
    }

    /// Waits until a forest has made groups one since this was asked last. For one who asks.
    pub async fn merged(&self) {
        self.merged.notified().await;
    }

    /// What was said in the forest of this name.
    ///
    /// # Errors
    /// When it cannot be asked any more.
    pub async fn overrides_of(&self, forest: &str) -> Result<Arc<Overrides>, Unavailable> {
        match self.forest_called(forest) {
            Some(entry) => entry.port.overrides().await,
            None => Ok(Arc::default()),
        }
    }

    /// Stored documents obey the words that this pass was for, as far as it is still what is to be done for them.
    ///
    /// # Errors
    /// When the forest cannot be asked any more.
    pub async fn restamped(&self, forest: &str, done: RestampPass) -> Result<(), Unavailable> {
        match self.forest_called(forest) {
            Some(entry) => entry.port.restamped(done).await,
            None => Ok(()),
        }
    }
}
