//! Search responses.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::bulk::stored_value;

/// A search response that is complete: no shard failed, and the search did not time out.
#[derive(Debug)]
pub(crate) struct SearchResponse<H = Value, A = Value> {
    /// The id under which its point in time continues.
    pub(crate) pit_id: Option<String>,
    /// Shards that were searched.
    pub(crate) shards: u64,
    /// Matching documents, if they were counted, and whether that is all of them.
    total: Option<(u64, bool)>,
    pub(crate) hits: Vec<H>,
    pub(crate) aggregations: Option<A>,
}

/// Why a search response is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SearchFault {
    /// It is not a search response.
    #[error("the cluster's answer to a search is not understood: {0}")]
    NotUnderstood(String),
    /// Documents are missing in it.
    #[error("{}", match failed {
        0 => "the search timed out".to_owned(),
        _ => format!("{failed} of {total} shards did not answer in time"),
    })]
    Partial {
        /// Failed shards; 0 if the search timed out.
        failed: u64,
        /// All shards of the search.
        total: u64,
    },
}

/// A part of a response as the servers store it ([`stored_value`]); null if it is not even that.
#[derive(Debug)]
pub(crate) struct Stored(pub(crate) Value);

impl<'de> Deserialize<'de> for Stored {
    fn deserialize<D: Deserializer<'de>>(part: D) -> Result<Stored, D::Error> {
        let part = Box::<RawValue>::deserialize(part)?;
        Ok(Stored(stored_value(part.get().as_bytes()).unwrap_or_default()))
    }
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "H: Deserialize<'de>, A: Deserialize<'de>"))]
struct Raw<H, A> {
    pit_id: Option<String>,
    timed_out: bool,
    #[serde(rename = "_shards")]
    shards: Shards,
    hits: Hits<H>,
    aggregations: Option<A>,
}

#[derive(Deserialize)]
struct Shards {
    total: u64,
    successful: Option<u64>,
    failed: u64,
}

/// How many shards are missing in an answer. `successful` has those that were passed over because nothing in them
/// matches. A shard without any copy is no failure to OpenSearch: it is only missing there.
pub(crate) fn missing_shards(total: u64, successful: Option<u64>, failed: u64) -> u64 {
    failed.max(successful.map_or(0, |successful| total.saturating_sub(successful)))
}

#[derive(Deserialize)]
struct Hits<H> {
    total: Option<Total>,
    hits: Vec<H>,
}

#[derive(Deserialize)]
struct Total {
    value: u64,
    relation: String,
}

impl<'a, H: Deserialize<'a>, A: Deserialize<'a>> SearchResponse<H, A> {
    /// Parses the body of a response.
    ///
    /// # Errors
    /// If it is not a search response, or is not complete.
    pub(crate) fn parse(body: &'a [u8]) -> Result<SearchResponse<H, A>, SearchFault> {
        let raw: Raw<H, A> =
            serde_json::from_slice(body).map_err(|error| SearchFault::NotUnderstood(error.to_string()))?;
        let Shards { total, successful, failed } = raw.shards;
        let failed = missing_shards(total, successful, failed);
        if raw.timed_out || failed > 0 {
            return Err(SearchFault::Partial { failed, total });
        }
        Ok(SearchResponse {
            pit_id: raw.pit_id,
            shards: total,
            total: raw.hits.total.map(|total| (total.value, total.relation == "eq")),
            hits: raw.hits.hits,
            aggregations: raw.aggregations,
        })
    }
}

impl<H, A> SearchResponse<H, A> {
    /// That no document matches.
    pub(crate) fn none() -> SearchResponse<H, A> {
        SearchResponse { pit_id: None, shards: 0, total: Some((0, true)), hits: Vec::new(), aggregations: None }
    }

    /// How many documents match, and whether that is all of them.
    pub(crate) fn total(&self) -> (u64, bool) {
        self.total.unwrap_or((0, false))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(body: &Value) -> Result<SearchResponse, SearchFault> {
        SearchResponse::parse(body.to_string().as_bytes())
    }

    #[test]
    fn only_what_is_complete_is_a_response() {
        let whole = json!({
            "timed_out": false, "_shards": {"total": 3, "failed": 0},
            "hits": {"total": {"value": 7, "relation": "gte"}, "hits": [{"_id": "a"}]},
        });
        let response = parse(&whole).unwrap();
        assert_eq!((response.shards, response.total, response.hits.len()), (3, Some((7, false)), 1));
        assert!(response.pit_id.is_none() && response.aggregations.is_none());
        let mut timed_out = whole.clone();
        timed_out["timed_out"] = true.into();
        assert_eq!(parse(&timed_out).unwrap_err(), SearchFault::Partial { failed: 0, total: 3 });
        let mut partial = whole.clone();
        partial["_shards"]["failed"] = 1.into();
        assert_eq!(parse(&partial).unwrap_err(), SearchFault::Partial { failed: 1, total: 3 });
        // So OpenSearch 3.6 answers where an index has a shard that is nowhere.
        for (shards, missing) in [
            (json!({"total": 3, "successful": 3, "skipped": 2, "failed": 0}), 0),
            (json!({"total": 3, "successful": 1, "skipped": 0, "failed": 0}), 2),
        ] {
            let mut answer = whole.clone();
            answer["_shards"] = shards;
            let fault = SearchFault::Partial { failed: missing, total: 3 };
            assert_eq!(parse(&answer).err(), (missing > 0).then_some(fault));
        }
        for member in ["timed_out", "_shards", "hits"] {
            let mut less = whole.clone();
            less.as_object_mut().unwrap().remove(member);
            assert!(matches!(parse(&less), Err(SearchFault::NotUnderstood(_))), "{member}");
        }
    }
}
