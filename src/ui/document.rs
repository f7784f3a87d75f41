//! A document, found by its id.

use serde_json::{Value, json};

use super::PageRequest;
use super::error_page::ErrorPage;
use crate::groups::{NO_FIELD, ReadError};
use crate::http::query::decode_segment;
use crate::text::isolate;

/// A document as the cluster has it.
pub(super) struct IndexedDocument {
    pub index: String,
    pub id: String,
    pub source: Value,
}

impl IndexedDocument {
    /// From a hit of a search.
    pub(super) fn of_hit(mut hit: Value) -> Option<IndexedDocument> {
        let name = |of: &str| hit.get(of).and_then(Value::as_str).map(str::to_owned);
        let (index, id) = name("_index").zip(name("_id"))?;
        let source = hit.get_mut("_source").map(Value::take).unwrap_or_default();
        Some(IndexedDocument { index, id, source })
    }

    /// Whether it is the document of this index and id.
    pub(super) fn is_at(&self, index: &str, id: &str) -> bool {
        self.index == index && self.id == id
    }
}

/// Fetches a document by its id. It is searched, since the path may have an alias or a pattern, and a document may
/// have a routing.
pub(super) async fn find(page: &PageRequest<'_>, raw_index: &str, id: &str) -> Result<IndexedDocument, ErrorPage> {
    // The server writes the source anew: as it is stored, it may be more than JSON.
    let whole = json!({"excludes": [NO_FIELD]});
    let body = json!({"size": 1, "track_total_hits": false, "_source": whole, "query": {"ids": {"values": [id]}}});
    let mut answer = page.search(raw_index, &body).await?;
    let hit = answer.pointer_mut("/hits/hits/0").map(Value::take);
    let hit = hit.ok_or_else(|| {
        let index = decode_segment(raw_index);
        let reason = format!("there is no document [{}] in [{}]", isolate(id), isolate(&index));
        ErrorPage::from(ReadError::NotFound(reason))
    })?;
    Ok(IndexedDocument::of_hit(hit).ok_or(ReadError::NotTheCluster)?)
}
