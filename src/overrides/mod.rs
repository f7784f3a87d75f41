//! Adds and undoes overrides in the caller's name, for the own endpoints and the page. docs/merges.md specifies them.
//!
//! ```text
//! roots, ids --search, in the caller's name--> documents --engine--> texts, what is answered for them
//!                                                 |
//!                                                 +-- the forest is told; backfill/restamp.rs wakes
//! ```
//!
//! `access/` decides who may: an [`OverrideEditor`] is created from a [`ForestEditor`].

mod error;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::access::{ForestEditor, ForestReader};
use crate::backfill::shown;
use crate::bulk::StampNames;
use crate::cluster::search::{SearchFault, SearchResponse};
use crate::engine::OverrideError;
use crate::fingerprint::Fingerprint;
use crate::forest::overrides::{Override, Overrides, ResolvedDocument};
use crate::forest::{LateMergeLog, Root};
use crate::http::ProxyError;
use crate::state::AppState;

pub(crate) use error::OverrideFault;

/// Most groups or documents in one override.
pub(crate) const MOST_NAMED: usize = 1_000;

/// Most hits in one response of the servers.
const MOST_HITS: usize = 10_000;

/// Most bytes of a response.
const ANSWER_BYTES: usize = 64 << 20;

/// A caller's session for changing the groups of an index.
pub(crate) struct OverrideEditor<'a> {
    state: &'a AppState,
    editor: ForestEditor<'a>,
    names: StampNames,
}

/// Result of adding an override.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The number of the override; `None` if nothing was changed.
    pub(crate) number: Option<u64>,
    /// The root that is answered since.
    pub(crate) root: Root,
}

/// A document as the caller sees it.
struct VisibleDocument {
    /// The name by which a route matches its index.
    route_name: String,
    shown: Option<Root>,
    source: Bytes,
}

#[derive(Deserialize)]
struct Hit<'a> {
    #[serde(rename = "_index")]
    index: String,
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_source", borrow)]
    source: Option<&'a RawValue>,
}

impl<'a> OverrideEditor<'a> {
    /// Creates a session for a caller who may change the groups of a forest.
    ///
    /// # Errors
    /// When the names of the stamp's fields are invalid.
    pub(crate) fn new(state: &'a AppState, editor: ForestEditor<'a>) -> Result<OverrideEditor<'a>, OverrideFault> {
        let names = StampNames::new(state.engine.routes().prefix());
        let names = names.map_err(|error| ProxyError::BadRequest(error.to_string()))?;
        Ok(OverrideEditor { state, editor, names })
    }

    /// A name that has the route of the forest.
    fn route_name(&self) -> &str {
        self.editor.reader().route_name()
    }

    /// The requested name.
    fn index(&self) -> &str {
        self.editor.reader().name().as_str()
    }

    /// These groups are one, under the root of the first.
    ///
    /// # Errors
    /// When the caller sees no document of one of them, or a group has no text that could be compared.
    pub(crate) async fn merge(&self, roots: &[Root]) -> Result<Applied, OverrideFault> {
        let (Some(winner), losers @ [_, ..]) = (roots.first(), roots.get(1..).unwrap_or_default()) else {
            return Err(OverrideFault::bad("roots: name the root that is to stay, and at least one other"));
        };
        let overrides = self.overrides().await?;
        let all: BTreeSet<Root> = roots.iter().flat_map(|&root| overrides.merged_with(root)).collect();
        let found = self.documents_of(all).await?;
        for &root in roots {
            let of_group = |seen: &&VisibleDocument| {
                let shown = seen.shown.map(|shown| overrides.group(shown));
                shown == Some(overrides.group(root))
            };
            let Some(seen) = found.iter().find(of_group) else {
                return Err(self.no_group(root));
            };
            if self.resolve(seen).await?.is_none() {
                let reason =
                    format!("roots: {root} is no group of texts but one document without any, which is like no other");
                return Err(OverrideFault::bad(&reason));
            }
        }
        let root = overrides.group(*winner);
        let losers: BTreeSet<Root> = losers.iter().copied().collect();
        let losers: Vec<Root> = losers.into_iter().filter(|&l| overrides.group(l) != root).collect();
        if losers.is_empty() {
            return Ok(Applied { number: None, root });
        }
        let winner = *winner;
        // A change of the overrides would have to copy them while this reference lives.
        drop(overrides);
        self.add(Override::Merge { winner, losers }, Vec::new(), root).await
    }

    /// Splits these documents, and all with the same texts, off into their own group.
    ///
    /// # Errors
    /// When the caller does not see one of them, or one has no text.
    pub(crate) async fn split(&self, ids: &[String]) -> Result<Applied, OverrideFault> {
        // One that nothing has.
        let root = Root(Fingerprint(self.state.unique()));
        self.pin_to(ids, root).await
    }

    /// Pins these documents, and all with the same texts, to a group.
    ///
    /// # Errors
    /// As [`OverrideEditor::split`], and when the caller sees no document of the group.
    pub(crate) async fn pin(&self, ids: &[String], root: Root) -> Result<Applied, OverrideFault> {
        let group = self.overrides().await?.merged_with(root);
        let group: BTreeSet<Root> = group.into_iter().collect();
        if self.documents_of(group).await?.is_empty() {
            return Err(self.no_group(root));
        }
        self.pin_to(ids, root).await
    }

    async fn pin_to(&self, ids: &[String], root: Root) -> Result<Applied, OverrideFault> {
        let ids: BTreeSet<&String> = ids.iter().collect();
        let query = json!({"ids": {"values": ids}});
        let (found, found_ids) = self.search(query, MOST_NAMED, false).await?;
        if let Some(missing) = ids.into_iter().find(|&id| !found_ids.contains(id)) {
            let index = self.index();
            let reason = format!("there is no document [{missing}] in [{index}], as searches see it");
            return Err(ProxyError::NotFound(reason).into());
        }
        let (mut texts, mut shown) = (BTreeSet::new(), BTreeSet::new());
        for seen in &found {
            let Some(resolved) = self.resolve(seen).await? else {
                return Err(OverrideFault::bad(
                    "ids: a document without a text that could be compared is alone as it is",
                ));
            };
            texts.insert(resolved.text);
            shown.extend(seen.shown.into_iter().chain(resolved.answer));
        }
        let texts: Vec<Fingerprint> = texts.into_iter().collect();
        let group = self.overrides().await?.group(root);
        let shown = shown.into_iter().collect();
        self.add(Override::Pin { texts, root }, shown, group).await
    }

    /// Undoes an override and returns it.
    ///
    /// # Errors
    /// When there is none with this number.
    #[expect(clippy::disallowed_methods, reason = "the caller was admitted: there is an editor")]
    pub(crate) async fn undo(&self, number: u64) -> Result<Override, OverrideFault> {
        let taken = self.state.engine.undo_override(self.route_name(), number).await;
        let correction = taken.map_err(|error| failed(self.state, error))?;
        self.state.restamping.wake();
        correction.ok_or_else(|| {
            let reason = format!("there is no override {number} of the groups of [{}]", self.index());
            ProxyError::NotFound(reason).into()
        })
    }

    #[expect(clippy::disallowed_methods, reason = "the caller was admitted: there is an editor")]
    async fn add(&self, correction: Override, shown: Vec<Root>, root: Root) -> Result<Applied, OverrideFault> {
        let added = self.state.engine.add_override(self.route_name(), correction, shown).await;
        let number = added.map_err(|error| failed(self.state, error))?;
        if number.is_none() {
            return Err(OverrideFault::bad(
                "the forest has as many overrides as it takes (65,536, or 16 MiB with the pending restamps): undo some of \
                 them, or retry when _overrides shows fewer pending ones",
            ));
        }
        self.state.restamping.wake();
        Ok(Applied { number, root })
    }

    async fn overrides(&self) -> Result<Arc<Overrides>, OverrideFault> {
        let overrides = self.state.engine.overrides_of_index(self.route_name()).await;
        overrides.map(|(_, overrides)| overrides).map_err(|error| failed(self.state, error))
    }

    async fn resolve(&self, seen: &VisibleDocument) -> Result<Option<ResolvedDocument>, OverrideFault> {
        let context = self.state.request_context(0);
        let (engine, source) = (&self.state.engine, seen.source.clone());
        let resolved = engine.resolve(&seen.route_name, source, context).await;
        resolved.map_err(|error| failed(self.state, error))
    }

    /// One document of each of these groups, as far as visible to the caller.
    async fn documents_of(&self, roots: BTreeSet<Root>) -> Result<Vec<VisibleDocument>, OverrideFault> {
        let keys: Vec<i64> = roots.iter().map(|root| root.0.0.cast_signed()).collect();
        let query = json!({"terms": {self.names.key(): keys}});
        Ok(self.search(query, roots.len().min(MOST_HITS), true).await?.0)
    }

    /// Documents as the caller sees them, and their ids.
    async fn search(
        &self,
        query: Value,
        size: usize,
        one_of_each: bool,
    ) -> Result<(Vec<VisibleDocument>, BTreeSet<String>), OverrideFault> {
        let mut body = json!({
            "size": size,
            "track_total_hits": false,
            "query": query,
            "_source": self.fields(),
            "timeout": "60s",
        });
        if one_of_each {
            body["collapse"] = json!({"field": self.names.key()});
        }
        let path = format!("/{}/_search?allow_partial_search_results=false", self.editor.reader().name().in_path());
        let cluster = &self.state.cluster;
        let caller = self.editor.caller();
        let asked = cluster.ask_as(caller, Method::POST, &path, Some(&body), ANSWER_BYTES);
        let answer = asked.await.map_err(ProxyError::from)?;
        if !answer.status().is_success() {
            return Err(OverrideFault::Refused(Box::new(answer)));
        }
        let bytes = answer.body();
        let found = SearchResponse::<Hit<'_>>::parse(bytes).map_err(|fault| match fault {
            SearchFault::NotUnderstood(_) => ProxyError::NotTheCluster("POST /INDEX/_search"),
            SearchFault::Partial { .. } => {
                ProxyError::PartialSearch("the cluster searched only a part of the index: retry later".into())
            }
        })?;
        // OpenSearch can be configured to search nothing instead of refusing; any index has a shard.
        if found.shards == 0 {
            return Err(ProxyError::NotShown(self.index().to_owned()).into());
        }
        let ids = found.hits.iter().map(|hit| hit.id.clone()).collect();
        let seen = found.hits.into_iter().map(|hit| {
            // Whatever the cluster has found, its own index must be one that access was given to.
            let route_name = self.editor.route_name_of(&hit.index)?.to_owned();
            let source =
                hit.source.map_or_else(|| Bytes::from_static(b"{}"), |source| bytes.slice_ref(source.get().as_bytes()));
            Ok(VisibleDocument { route_name, shown: shown(&source, self.names.root()), source })
        });
        let seen: Result<Vec<VisibleDocument>, OverrideFault> = seen.collect();
        Ok((seen?, ids))
    }

    /// All that is read of documents.
    fn fields(&self) -> BTreeSet<String> {
        let engine = &self.state.engine;
        let of_routes = self.editor.reader().route_names();
        let mut fields: BTreeSet<String> = of_routes.flat_map(|name| engine.routes().fields_of(name)).collect();
        fields.insert(self.names.root().to_owned());
        fields
    }

    fn no_group(&self, root: Root) -> OverrideFault {
        let reason = format!("there is no document of the group [{root}] in [{}]", self.index());
        ProxyError::NotFound(reason).into()
    }
}

/// Returns the name of the forest and its overrides, for a caller who may see it.
///
/// # Errors
/// When the index cannot have overrides, or the forest does not answer.
pub(crate) async fn list(state: &AppState, reader: &ForestReader) -> Result<(String, Arc<Overrides>), OverrideFault> {
    let overrides = state.engine.overrides_of_index(reader.route_name()).await;
    overrides.map_err(|error| failed(state, error))
}

/// Returns the name of the forest and its merge suggestions, for a caller who may see it.
///
/// # Errors
/// As [`list`].
pub(crate) async fn merge_suggestions(
    state: &AppState,
    reader: &ForestReader,
) -> Result<(String, LateMergeLog), OverrideFault> {
    let late_merges = state.engine.merge_suggestions(reader.route_name()).await;
    late_merges.map_err(|error| failed(state, error))
}

fn failed(state: &AppState, error: OverrideError) -> OverrideFault {
    match error {
        OverrideError::NoRoute(_) => ProxyError::NoRoute(error.to_string()).into(),
        OverrideError::TwoForests(_) => ProxyError::BadRequest(error.to_string()).into(),
        OverrideError::Unavailable(reason) => state.engine_failed(&reason).into(),
    }
}
