//! Points in time: views of some indices that stay as they are while they are read. Elasticsearch and OpenSearch name
//! them differently; which of the two the cluster is, the first one that is opened finds out.
//!
//! A cluster allows few of them (OpenSearch: 300 shards a node), so each is closed when its [`PointInTime`] is dropped,
//! however that comes about: an error, a time-out, the end of the task that reads.

use std::sync::{Arc, OnceLock};

use hyper::Method;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tracing::debug;

use super::operator::{Operator, OperatorError};

/// How long the cluster keeps a point in time for us after each request.
const KEEP_ALIVE: &str = "5m";

/// Why there is no point in time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PointError {
    /// The cluster cannot be reached, refuses, or does not support points in time.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// The response has no id.
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
    api: Arc<OnceLock<Api>>,
}

/// A view of some indices. Dropping it closes it in the cluster.
pub(crate) struct PointInTime {
    /// `None`: it was closed or has expired.
    open: Option<Open>,
    operator: Operator,
}

impl std::fmt::Debug for PointInTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PointInTime").field("open", &self.open).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Open {
    id: String,
    api: Api,
}

impl PointsInTime {
    /// Opens a point in time. `indices` as in a path.
    ///
    /// # Errors
    /// If the cluster cannot be reached, refuses, or has no points in time (400 or 405).
    pub(crate) async fn open(&self, operator: &Operator, indices: &str) -> Result<PointInTime, PointError> {
        let (api, of, indices) = (self.api.clone(), operator.clone(), indices.to_owned());
        let (give, take) = oneshot::channel();
        // If the caller goes away before the response, the point must still be closed: only this task knows its id.
        operator.spawn(async move {
            let open = open_in(&of, &api, &indices).await;
            let point = open.map(|open| PointInTime { open: Some(open), operator: of });
            if let Err(Ok(point)) = give.send(point) {
                point.close().await;
            }
        });
        let stopping = |_| OperatorError::Client("the process is stopping".into());
        take.await.map_err(stopping)?
    }
}

async fn open_in(operator: &Operator, known: &OnceLock<Api>, indices: &str) -> Result<Open, PointError> {
    let (api, answer) = match known.get() {
        Some(&api) => (api, open(operator, api, indices).await?),
        None => match open(operator, Api::Elasticsearch, indices).await {
            // OpenSearch does not know the path of Elasticsearch.
            Err(OperatorError::Refused { status: 400 | 405, .. }) => {
                let answer = open(operator, Api::OpenSearch, indices).await?;
                (Api::OpenSearch, answer)
            }
            answer => (Api::Elasticsearch, answer?),
        },
    };
    let id = answer.get(api.id_member()).and_then(Value::as_str);
    let Some(id) = id.map(str::to_owned) else {
        return Err(PointError::NoId(answer));
    };
    let api = *known.get_or_init(|| api);
    Ok(Open { id, api })
}

async fn open(operator: &Operator, api: Api, indices: &str) -> Result<Value, OperatorError> {
    let path = match api {
        // Without one of its shards Elasticsearch opens none, unless it is asked for that.
        Api::Elasticsearch => format!("/{indices}/_pit?keep_alive={KEEP_ALIVE}"),
        // Unless it is forbidden, OpenSearch opens one of the shards that are there, whose searches are complete then:
        // the documents of a shard that is starting would be passed over, and nothing would say so.
        Api::OpenSearch => {
            format!("/{indices}/_search/point_in_time?keep_alive={KEEP_ALIVE}&allow_partial_pit_creation=false")
        }
    };
    operator.ask(Method::POST, &path, None).await
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
    /// The `pit` of a search in this view.
    pub(crate) fn searched(&self) -> Value {
        let id = self.open.as_ref().map(|open| &*open.id);
        json!({"id": id, "keep_alive": KEEP_ALIVE})
    }

    /// Continues under the id of a search response.
    pub(crate) fn continue_as(&mut self, id: String) {
        if let Some(open) = &mut self.open {
            open.id = id;
        }
    }

    /// Closes it, and returns when that is done. Dropping it does the same without waiting.
    pub(crate) async fn close(mut self) {
        if let Some(closing) = self.closing() {
            // It continues if this is dropped.
            let _ = closing.await;
        }
    }

    /// The cluster has forgotten it already.
    pub(crate) fn forget(mut self) {
        self.open = None;
    }

    fn closing(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        let Open { id, api } = self.open.take()?;
        let operator = self.operator.clone();
        self.operator.spawn(async move {
            let (path, body) = match api {
                Api::Elasticsearch => ("/_pit", json!({ "id": id })),
                Api::OpenSearch => ("/_search/point_in_time", json!({ "pit_id": [id] })),
            };
            if let Err(error) = operator.ask(Method::DELETE, path, Some(&body)).await {
                debug!(%error, "a point in time is left to expire");
            }
        })
    }
}

impl Drop for PointInTime {
    fn drop(&mut self) {
        drop(self.closing());
    }
}

/// Whether a search was refused because its point in time has expired.
pub(crate) fn is_expired(answer: &str) -> bool {
    answer.contains("search_context_missing") || answer.contains("No search context found")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use parking_lot::Mutex;

    use super::*;

    /// A model of a cluster with its open points in time; it never answers a search.
    fn cluster() -> (Operator, Arc<Mutex<BTreeSet<u64>>>) {
        let open = Arc::new(Mutex::new(BTreeSet::new()));
        let (points, opened) = (open.clone(), std::sync::atomic::AtomicU64::new(0));
        let operator = Operator::of_model(move |method, path, body| {
            if path.ends_with("/_search") {
                return None;
            }
            let number = |id: &Value| id.as_str().unwrap().parse::<u64>().unwrap();
            if method == Method::DELETE {
                let body: Value = serde_json::from_slice(body).unwrap();
                assert!(points.lock().remove(&number(&body["id"])), "{body}");
                return Some((200, json!({})));
            }
            let id = opened.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            points.lock().insert(id);
            Some((200, json!({"id": id.to_string()})))
        });
        (operator, open)
    }

    #[tokio::test]
    async fn a_point_is_closed_however_its_reader_ends() {
        let (operator, open) = cluster();
        let points = PointsInTime::default();
        let reads = async || points.open(&operator, "news").await.unwrap();
        drop(reads().await);
        reads().await.close().await;
        // Its reader is broken off: while it is opened, while it searches, while it closes.
        for polls in 0..12 {
            let (of, point) = (operator.clone(), PointsInTime::default());
            let mut reader: std::pin::Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
                let point = point.open(&of, "news").await.unwrap();
                if polls % 2 == 0 {
                    let search = json!({"pit": point.searched()});
                    let _ = of.ask(Method::POST, "/_search", Some(&search)).await;
                }
                point.close().await;
            });
            for _ in 0..polls {
                let once = std::future::poll_fn(|cx| std::task::Poll::Ready(reader.as_mut().poll(cx).is_ready()));
                if once.await {
                    reader = Box::pin(async {});
                }
                tokio::task::yield_now().await;
            }
            drop(reader);
        }
        operator.settle(std::time::Duration::from_secs(10)).await;
        assert_eq!(*open.lock(), BTreeSet::new());
    }

    #[tokio::test]
    async fn what_is_lost_is_not_closed() {
        let (operator, open) = cluster();
        let point = PointsInTime::default().open(&operator, "news").await;
        point.unwrap().forget();
        operator.settle(std::time::Duration::from_secs(10)).await;
        assert_eq!(open.lock().len(), 1);
    }
}
