//! Points in time: views of some indices that stay as they are while they are read. Elasticsearch and OpenSearch name them
//! differently; which of the two the cluster is, the first one that is opened finds out.

use std::sync::OnceLock;

use opensearch::http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::debug;

use super::operator::{Operator, OperatorError};

/// How long the cluster keeps a point in time for us after each request.
const KEEP_ALIVE: &str = "5m";

/// Why there is no point in time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PointError {
    /// The cluster cannot be reached, refuses, or has no such thing.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// Its answer has no id.
    #[error("the cluster opened a point in time without an id: {0}")]
    NoId(Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    OpenSearch,
    Elasticsearch,
}

/// Opens points in time of one cluster.
#[derive(Debug, Default)]
pub(crate) struct PointsInTime {
    api: OnceLock<Api>,
}

/// A view of some indices. It goes by itself some minutes after the last search in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PointInTime {
    id: String,
    api: Api,
}

/// The answer to a search in a point in time.
#[derive(Deserialize)]
struct Answer<H> {
    pit_id: Option<String>,
    timed_out: bool,
    #[serde(rename = "_shards")]
    shards: Shards,
    hits: Hits<H>,
}

#[derive(Deserialize)]
struct Shards {
    failed: u64,
}

#[derive(Deserialize)]
struct Hits<H> {
    hits: Vec<H>,
}

/// The documents of a page, from the answer to a search in this point in time, which goes on under the id that stands there.
///
/// # Errors
/// What is wrong with the answer: it is not understood, or a part of the indices is missing in it.
pub(crate) fn read_page<'a, H: Deserialize<'a>>(
    answer: &'a [u8],
    point: Option<&mut PointInTime>,
) -> Result<Vec<H>, String> {
    let page: Answer<H> = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    if page.timed_out || page.shards.failed > 0 {
        return Err("a part of the indices did not answer".into());
    }
    if let (Some(point), Some(id)) = (point, page.pit_id) {
        point.id = id;
    }
    Ok(page.hits.hits)
}

impl PointsInTime {
    /// A view of what searches see now. `indices` as they stand in a path; `preference`: which copies of the shards.
    ///
    /// # Errors
    /// When the cluster cannot be reached, refuses, or knows no points in time (400 or 405).
    pub(crate) async fn open(
        &self,
        operator: &Operator,
        indices: &str,
        preference: Option<&str>,
    ) -> Result<PointInTime, PointError> {
        let (api, answer) = match self.api.get() {
            Some(&api) => (api, open(operator, api, indices, preference).await?),
            None => match open(operator, Api::Elasticsearch, indices, preference).await {
                // OpenSearch does not know the path of Elasticsearch.
                Err(OperatorError::Refused {
                    status: 400 | 405, ..
                }) => {
                    let answer = open(operator, Api::OpenSearch, indices, preference).await?;
                    (Api::OpenSearch, answer)
                }
                answer => (Api::Elasticsearch, answer?),
            },
        };
        let id = answer.get(api.id_member()).and_then(Value::as_str);
        let Some(id) = id.map(str::to_owned) else {
            return Err(PointError::NoId(answer));
        };
        Ok(PointInTime {
            id,
            api: *self.api.get_or_init(|| api),
        })
    }
}

async fn open(
    operator: &Operator,
    api: Api,
    indices: &str,
    preference: Option<&str>,
) -> Result<Value, OperatorError> {
    let end = match api {
        Api::Elasticsearch => "_pit",
        Api::OpenSearch => "_search/point_in_time",
    };
    let mut path = format!("/{indices}/{end}?keep_alive={KEEP_ALIVE}");
    if let Some(preference) = preference {
        path += &format!("&preference={preference}");
    }
    operator.ask(Method::Post, &path, None).await
}

impl Api {
    fn id_member(self) -> &'static str {
        match self {
            Api::Elasticsearch => "id",
            Api::OpenSearch => "pit_id",
        }
    }
}

impl PointInTime {
    /// What a search in it has as its `pit`.
    pub(crate) fn searched(&self) -> Value {
        json!({"id": self.id, "keep_alive": KEEP_ALIVE})
    }

    /// Lets the cluster forget it.
    pub(crate) async fn close(self, operator: &Operator) {
        let (path, body) = match self.api {
            Api::Elasticsearch => ("/_pit", json!({"id": self.id})),
            Api::OpenSearch => ("/_search/point_in_time", json!({"pit_id": [self.id]})),
        };
        if let Err(error) = operator.ask(Method::Delete, path, Some(&body)).await {
            debug!(%error, "a point in time is left to expire");
        }
    }
}

/// Whether a search was refused because its point in time has expired.
pub(crate) fn is_expired(answer: &str) -> bool {
    answer.contains("search_context_missing") || answer.contains("No search context found")
}

/// Whether a point in time was refused because the cluster's nodes have as many as they may (OpenSearch: 300 shards each).
pub(crate) fn are_too_many(answer: &str) -> bool {
    answer.contains("too many Point In Time contexts")
}
