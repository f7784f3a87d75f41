//! Documents stamped through the library, as `spinney stamp` stamps them.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use spinney::config::{Clock, RawRoute};
use spinney::engine::{Engine, RequestContext};
use spinney::hash::HashKey;
use spinney::time::Millis;

/// Roots by id. `options` are those of a route; `documents` are placed in the order of the lines.
pub fn roots(options: &str, documents: &[impl AsRef<str>]) -> HashMap<String, String> {
    let options: RawRoute = toml::from_str(options).unwrap();
    let route = options.any_index().or_clock(Clock::None).validate("test").unwrap();
    let engine = Arc::new(Engine::new(&[route], "cluster_", 0, HashKey::FIXED).unwrap());
    let documents: Vec<&str> = documents.iter().map(AsRef::as_ref).collect();
    let body = documents.join("\n");
    let call = RequestContext { now: Millis(0), latest: Millis(i64::MAX), unique: 0, caller: None };
    let stamped = engine.stamp_lines(body.clone().into(), call);
    let stamped = futures_executor::block_on(stamped).unwrap();
    assert_eq!(stamped.tally().stamped, documents.len() as u64);
    let (splice, _) = stamped.into_parts();
    let mut out = Vec::new();
    splice.write_to(body.as_bytes(), &mut out);
    let lines = out.split(|&byte| byte == b'\n');
    let documents = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap());
    let text = |document: &Value, field: &str| document[field].as_str().unwrap().to_owned();
    documents.map(|document| (text(&document, "id"), text(&document, "cluster_root"))).collect()
}
