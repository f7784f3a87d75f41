//! Points in time: what searches saw when they were opened, for a while.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fault::{Fault, Reply};
use super::index::View;
use super::{Request, SimCluster};

/// A point in time.
pub(super) struct Point {
    pub(super) views: BTreeMap<String, View>,
    pub(super) expires: i64,
}

impl SimCluster {
    /// Opens a point in time.
    pub(super) fn open_point(&mut self, request: &Request<'_>, expression: &str) -> Reply {
        let keep = request.query.get("keep_alive").ok_or_else(|| Fault::bad("[keep_alive] should be specified"))?;
        let expires = request.now + millis(keep)?;
        let views = self.views(request, expression)?;
        self.numbers += 1;
        let id = format!("point-{:06}", self.numbers);
        self.points.insert(id.clone(), Point { views, expires });
        let member = if self.opensearch { "pit_id" } else { "id" };
        Ok((200, json!({member: id, "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0}})))
    }

    /// The views of a point in time, which is kept on.
    pub(super) fn point(&mut self, now: i64, pit: &Value) -> Result<BTreeMap<String, View>, Fault> {
        let id = pit["id"].as_str().ok_or_else(|| Fault::bad("point in time without an id"))?;
        let lost =
            || Fault::new(404, "search_context_missing_exception", format!("No search context found for id [{id}]"));
        let point = self.points.get_mut(id).ok_or_else(lost)?;
        if let Some(keep) = pit["keep_alive"].as_str() {
            point.expires = point.expires.max(now + millis(keep)?);
        }
        Ok(point.views.clone())
    }

    /// Closes points in time.
    pub(super) fn close_points(&mut self, request: &Request<'_>) -> Reply {
        let body = request.json()?;
        let ids = if self.opensearch { &body["pit_id"] } else { &body["id"] };
        let ids: Vec<&str> = match ids {
            Value::Array(ids) => ids.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        let freed = ids.iter().filter(|id| self.points.remove(**id).is_some()).count();
        if self.opensearch {
            let closed = ids.iter().map(|id| json!({"pit_id": id, "successful": true}));
            return Ok((200, json!({"pits": closed.collect::<Vec<_>>()})));
        }
        Ok((if freed > 0 { 200 } else { 404 }, json!({"succeeded": freed > 0, "num_freed": freed})))
    }
}

/// A duration such as `5m`.
fn millis(text: &str) -> Result<i64, Fault> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let millis = digits.parse::<i64>().ok().zip(unit).map(|(number, unit)| number * unit);
    millis.ok_or_else(|| Fault::bad(format!("failed to parse [{text}] as a time value")))
}
