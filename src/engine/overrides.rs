//! Overrides of an index's groups, and the roots they prescribe for stored documents.

use std::sync::Arc;

use bytes::Bytes;

use super::forests::ForestEntry;
use super::{Engine, RequestContext, Unavailable, own_root};
use crate::forest::overrides::{Override, Overrides, ResolvedDocument};
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
    /// The forest is unavailable.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Engine {
    fn overridable_forest(&self, index: &str) -> Result<&ForestEntry, OverrideError> {
        let no_route = || OverrideError::NoRoute(index.to_owned());
        let bound = self.routes().bound_of(index).ok_or_else(no_route)?;
        if bound.short.is_some() {
            return Err(OverrideError::TwoForests(index.to_owned()));
        }
        self.forests.entries.get(bound.forest).ok_or_else(no_route)
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
    /// of the override when it is durable; `None`: their number or size is at its limit.
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
        &self,
        index: &str,
        source: Bytes,
        context: RequestContext,
    ) -> Result<Option<ResolvedDocument>, OverrideError> {
        let entry = self.overridable_forest(index)?;
        let route = self.routes().find(index).unwrap_or_default();
        let own_root = own_root(index, None, context.unique, 0);
        let reader = self.reader.clone();
        let read = move || reader.read_document(&source, route, own_root, context).ok();
        let Some(mut prepared) = self.run(read).await? else {
            return Ok(None);
        };
        let reply = entry.port.check(prepared.take_for_forest()).await?;
        Ok(reply.check.map(|check| check.resolved))
    }

    /// Groups of the forest of an index that may be one, and the name of the forest.
    ///
    /// # Errors
    /// As [`overrides`](Engine::overrides_of_index).
    pub async fn merge_suggestions(&self, index: &str) -> Result<(String, LateMergeLog), OverrideError> {
        let entry = self.overridable_forest(index)?;
        Ok((entry.name.clone(), entry.port.late_merges().await?))
    }
}
