//! Alias resolution with the caller's credentials, cached for a while.

use std::collections::HashMap;
use std::time::Duration;

use hyper::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tracing::debug;

use super::Client;
use crate::time::Millis;

/// Lifetime of a cached response.
const REMEMBERED_FOR: Millis = Millis(60_000);

/// Most cached responses.
const REMEMBERED: usize = 4096;

/// How long a write waits for the cluster to resolve a name.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes of a response.
const ANSWER: usize = 1 << 20;

/// Resolved names by caller, since privileges differ.
#[derive(Debug, Default)]
pub(super) struct Aliases(Mutex<HashMap<(u64, String), AliasAnswer>>);

#[derive(Debug, Clone)]
struct AliasAnswer {
    at: Millis,
    index: Option<String>,
}

impl Aliases {
    fn remembered(&self, caller: u64, name: &str, now: Millis) -> Option<Option<String>> {
        let known = self.0.lock();
        let answer = known.get(&(caller, name.to_owned()))?;
        let is_fresh = now.0.saturating_sub(answer.at.0) < REMEMBERED_FOR.0;
        is_fresh.then(|| answer.index.clone())
    }

    fn remember(&self, caller: u64, name: &str, now: Millis, index: Option<String>) {
        let mut known = self.0.lock();
        if known.len() >= REMEMBERED {
            known.retain(|_, answer| now.0.saturating_sub(answer.at.0) < REMEMBERED_FOR.0);
            if known.len() >= REMEMBERED {
                known.clear();
            }
        }
        known.insert((caller, name.to_owned()), AliasAnswer { at: now, index });
    }
}

/// The cluster does not resolve a name for this caller: 401 or 403.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Denied(StatusCode);

impl Denied {
    fn by(status: StatusCode) -> Option<Denied> {
        let denies = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        denies.then_some(Denied(status))
    }

    /// Whether the caller is unknown (401), so that every name would be refused.
    pub(crate) fn is_of_caller(self) -> bool {
        self.0 == StatusCode::UNAUTHORIZED
    }
}

/// The indices that a name resolves to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct IndicesBehind {
    /// Indices of an alias.
    pub(crate) alias: Vec<String>,
    /// Backing indices of a data stream.
    pub(crate) data_stream: Vec<String>,
}

impl IndicesBehind {
    /// All of them.
    pub(crate) fn into_indices(self) -> Vec<String> {
        [self.alias, self.data_stream].concat()
    }
}

impl Client {
    /// The write index of an alias. `None` if the name is no alias, or cannot be resolved. `caller`: a hash of the
    /// caller's credentials.
    ///
    /// # Errors
    /// If the cluster refuses; the name is then not resolved for this caller for a while.
    pub(crate) async fn write_index(
        &self,
        caller: u64,
        headers: &HeaderMap,
        name: &str,
        now: Millis,
    ) -> Result<Option<String>, Denied> {
        if let Some(known) = self.aliases.remembered(caller, name, now) {
            return Ok(known);
        }
        let path = format!("/_alias/{}", utf8_percent_encode(name, NON_ALPHANUMERIC));
        let asking = self.get_as(headers, &path, ANSWER);
        let Ok(answer) = tokio::time::timeout(ASK_TIMEOUT, asking).await else {
            debug!(name, "the cluster does not say in time what a name stands for");
            self.aliases.remember(caller, name, now, None);
            return Ok(None);
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                debug!(name, %error, "the cluster does not say what a name stands for");
                return Ok(None);
            }
        };
        let status = answer.status();
        let index = match status {
            StatusCode::OK => write_index(answer.body(), name),
            _ => {
                debug!(name, %status, "no alias, as far as the writer may know");
                None
            }
        };
        self.aliases.remember(caller, name, now, index.clone());
        Denied::by(status).map_or(Ok(index), Err)
    }

    /// The indices of an alias or data stream that the caller may see; empty if it cannot be resolved.
    ///
    /// # Errors
    /// If the cluster refuses.
    pub(crate) async fn indices_behind(&self, caller: &HeaderMap, name: &str) -> Result<IndicesBehind, Denied> {
        let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
        let path = format!("/_resolve/index/{name}");
        match self.get_as(caller, &path, ANSWER).await {
            Ok(answer) if answer.status() == StatusCode::OK => Ok(behind(answer.body())),
            Ok(answer) => {
                debug!(%name, status = %answer.status(), "the cluster does not say what is behind a name");
                Denied::by(answer.status()).map_or(Ok(IndicesBehind::default()), Err)
            }
            Err(error) => {
                debug!(%name, %error, "the cluster does not say what is behind a name");
                Ok(IndicesBehind::default())
            }
        }
    }
}

/// The indices of the aliases and data streams in a response.
fn behind(answer: &[u8]) -> IndicesBehind {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let listed = |kind: &str, member: &str| {
        let all = answer[kind].as_array().into_iter().flatten();
        // The servers write one name without brackets.
        let names = all.flat_map(|one| match &one[member] {
            Value::Array(names) => names.iter().collect(),
            name => vec![name],
        });
        let names = names.filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    };
    IndicesBehind { alias: listed("aliases", "indices"), data_stream: listed("data_streams", "backing_indices") }
}

/// The write index of an alias.
fn write_index(answer: &[u8], alias: &str) -> Option<String> {
    let answer: serde_json::Map<String, Value> = serde_json::from_slice(answer).ok()?;
    let is_write = |index: &Value| index["aliases"][alias]["is_write_index"] == true;
    let only = answer.len() == 1;
    let written = answer.iter().find(|(_, index)| only || is_write(index))?;
    Some(written.0.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_index_that_is_written_to() {
        let index = |answer: Value| write_index(answer.to_string().as_bytes(), "a");
        let plain = json!({"aliases": {"a": {}}});
        let write = json!({"aliases": {"a": {"is_write_index": true}}});
        let news = || Some("news-1".to_owned());
        let logs = || Some("logs-1".to_owned());
        assert_eq!(index(json!({"news-1": plain})), news());
        assert_eq!(index(json!({"news-1": write, "logs-1": plain})), news());
        assert_eq!(index(json!({"news-1": plain, "logs-1": write})), logs());
        assert_eq!(index(json!({"news-1": plain, "news-2": plain})), None);
        assert_eq!(index(json!({})), None);
        assert_eq!(index(json!([])), None);
    }

    #[test]
    fn the_indices_behind_a_name() {
        let answer = json!({
            "indices": [{"name": "news"}],
            "aliases": [{"name": "a", "indices": ["x", "y"]}, {"name": "b", "indices": "z"}],
            "data_streams": [{"name": "a", "backing_indices": [".ds-a-1"]}],
        });
        let found = behind(answer.to_string().as_bytes());
        assert_eq!(found.alias, ["x", "y", "z"]);
        assert_eq!(found.data_stream, [".ds-a-1"]);
        assert_eq!(found.into_indices(), ["x", "y", "z", ".ds-a-1"]);
        assert_eq!(behind(b"[]"), IndicesBehind::default());
        assert_eq!(behind(b""), IndicesBehind::default());
    }

    #[test]
    fn answers_are_remembered_for_a_while_by_caller() {
        let names = Aliases::default();
        names.remember(1, "a", Millis(0), Some("news-1".into()));
        names.remember(1, "b", Millis(0), None);
        let news = Some(Some("news-1".to_owned()));
        assert_eq!(names.remembered(1, "a", Millis(REMEMBERED_FOR.0 - 1)), news);
        assert_eq!(names.remembered(1, "b", Millis(0)), Some(None));
        assert_eq!(names.remembered(2, "a", Millis(0)), None);
        assert_eq!(names.remembered(1, "a", REMEMBERED_FOR), None);
        for n in 0..2 * REMEMBERED {
            names.remember(3, &n.to_string(), Millis(0), None);
        }
        assert!(names.0.lock().len() <= REMEMBERED);
    }
}
