//! Privilege checks by the cluster, before spinney shows its own data.

use bytes::Bytes;
use hyper::{HeaderMap, Response};
use serde_json::Value;

use super::Client;
use crate::http::ProxyError;

/// Most bytes of a response.
const ANSWER_BYTES: usize = 1 << 20;

impl Client {
    /// Checks that the caller may read the cluster's health, the privilege required for spinney's state; returns the
    /// cluster's refusal.
    ///
    /// # Errors
    /// If the cluster does not answer, or the answer is not a cluster's.
    pub(crate) async fn refuses_health(&self, caller: &HeaderMap) -> Result<Option<Response<Bytes>>, ProxyError> {
        let answer = self.get_as(caller, "/_cluster/health", ANSWER_BYTES);
        let answer = answer.await?;
        if !answer.status().is_success() {
            return Ok(Some(answer));
        }
        if !is_health(answer.body()) {
            return Err(ProxyError::NotTheCluster("GET /_cluster/health"));
        }
        Ok(None)
    }
}

/// Whether this is a cluster's health. Only that is consent: a page of something between spinney and the cluster is
/// none.
fn is_health(body: &[u8]) -> bool {
    let Ok(Value::Object(health)) = serde_json::from_slice(body) else {
        return false;
    };
    let text = |key: &str| health.get(key).and_then(Value::as_str);
    let nodes = health.get("number_of_nodes").and_then(Value::as_u64);
    text("cluster_name").is_some() && matches!(text("status"), Some("green" | "yellow" | "red")) && nodes.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_s_health() {
        let health = br#"{"cluster_name":"c","status":"yellow","timed_out":false,"number_of_nodes":1}"#;
        assert!(is_health(health));
        for other in [
            &b""[..],
            b"<html>It works!</html>",
            b"{}",
            b"[]",
            b"{\"status\":\"green\"}",
            b"{\"status\":\"ok\",\"cluster_name\":\"c\",\"number_of_nodes\":1}",
        ] {
            assert!(!is_health(other), "{}", String::from_utf8_lossy(other));
        }
    }
}
