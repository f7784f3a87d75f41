//! Fields of an index as its readers need them: by a route that knows its name or all indices behind it, and in their
//! aggregatable form, since dynamic mapping makes a text field with a `keyword` subfield.

use std::collections::HashMap;

use hyper::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::cluster::Client;
use crate::engine::{Engine, ReaderFields};
use crate::http::query::decode_segment;
use crate::time::Millis;

/// Lifetime of a cached result.
const REMEMBERED_FOR: Millis = Millis(60_000);

/// Most cached results.
const REMEMBERED: usize = 1024;

/// Most bytes of a response.
const ANSWER_BYTES: usize = 1 << 20;

/// Suffix of the subfield in dynamic mappings.
pub(super) const BESIDE: &str = ".keyword";

/// Cache of what is asked about fields, by index and caller: callers may see different indices behind one name.
#[derive(Debug, Default)]
pub(crate) struct KeywordForms {
    /// Whether only the keyword subfield can be aggregated.
    beside: Known<bool>,
    /// An index behind a name that no route matches, if one route matches all of them.
    routed: Known<Option<String>>,
}

/// Results that are kept for a while.
#[derive(Debug)]
struct Known<T>(Mutex<HashMap<(u64, String), (Millis, T)>>);

impl<T> Default for Known<T> {
    fn default() -> Known<T> {
        Known(Mutex::default())
    }
}

impl KeywordForms {
    /// Returns the fields of an index; of medium and language the form that can be aggregated, if there is one. Asks
    /// the cluster in the caller's name; without an answer they are as configured. `raw_index`: as in the caller's
    /// path; `caller`: headers and their hash.
    pub(crate) async fn fields(
        &self,
        engine: &Engine,
        cluster: &Client,
        (caller, headers): (u64, &HeaderMap),
        raw_index: &str,
        now: Millis,
    ) -> ReaderFields {
        let mut fields = engine.routes().reader_fields(&decode_segment(raw_index));
        if !fields.has_route {
            let index = self.routed_index(engine, cluster, (caller, headers), (raw_index, &fields.key), now).await;
            if let Some(index) = index {
                fields = engine.routes().reader_fields(&index);
            }
        }
        let counted = fields.medium.iter_mut().chain(&mut fields.language);
        for field in counted.filter(|field| !field.ends_with(BESIDE)) {
            let name = (caller, format!("{raw_index}/{field}"));
            let is_beside = match self.beside.known(&name, now) {
                Some(is_beside) => is_beside,
                None => {
                    let asked = is_beside(cluster, headers, raw_index, field).await;
                    if let Some(is_beside) = asked {
                        self.beside.remember(name, is_beside, now);
                    }
                    asked.unwrap_or_default()
                }
            };
            if is_beside {
                field.push_str(BESIDE);
            }
        }
        fields
    }

    /// An index behind a name that no route matches, if one route matches all of them.
    async fn routed_index(
        &self,
        engine: &Engine,
        cluster: &Client,
        (caller, headers): (u64, &HeaderMap),
        (raw_index, key): (&str, &str),
        now: Millis,
    ) -> Option<String> {
        let name = (caller, raw_index.to_owned());
        if let Some(known) = self.routed.known(&name, now) {
            return known;
        }
        let indices = indices(cluster, headers, raw_index, key).await?;
        let routed = engine.routes().first_of_one_route(&indices).map(str::to_owned);
        self.routed.remember(name, routed.clone(), now);
        routed
    }
}

impl<T: Clone> Known<T> {
    fn known(&self, name: &(u64, String), now: Millis) -> Option<T> {
        let known = self.0.lock();
        let (at, known) = known.get(name)?;
        let is_fresh = now.0.saturating_sub(at.0) < REMEMBERED_FOR.0;
        is_fresh.then(|| known.clone())
    }

    fn remember(&self, name: (u64, String), result: T, at: Millis) {
        let mut known = self.0.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(name, (at, result));
    }
}

/// What a mapping has under these names, as `_field_caps` answers the caller; `None` if the cluster does not tell.
pub(super) async fn capabilities<'f>(
    cluster: &Client,
    caller: &HeaderMap,
    raw_index: &str,
    fields: impl Iterator<Item = &'f str>,
) -> Option<Value> {
    let fields: Vec<String> = fields.map(|field| utf8_percent_encode(field, NON_ALPHANUMERIC).to_string()).collect();
    let path = format!("/{raw_index}/_field_caps?fields={}", fields.join(","));
    let answer = cluster.get_as(caller, &path, ANSWER_BYTES).await.ok()?;
    if answer.status() != StatusCode::OK {
        return None;
    }
    serde_json::from_slice(answer.body()).ok()
}

/// The indices behind a name that the caller may see; `None` if the cluster does not tell.
async fn indices(cluster: &Client, caller: &HeaderMap, raw_index: &str, field: &str) -> Option<Vec<String>> {
    let parsed = capabilities(cluster, caller, raw_index, std::iter::once(field)).await?;
    let indices = parsed.get("indices").and_then(Value::as_array).into_iter().flatten();
    indices.map(|index| index.as_str().map(str::to_owned)).collect()
}

/// Whether only the keyword subfield can be aggregated; `None` if the cluster does not tell.
async fn is_beside(cluster: &Client, caller: &HeaderMap, raw_index: &str, field: &str) -> Option<bool> {
    let beside = format!("{field}{BESIDE}");
    let parsed = capabilities(cluster, caller, raw_index, [field, &beside].into_iter()).await?;
    of_capabilities(&parsed, field)
}

pub(super) fn of_capabilities(parsed: &Value, field: &str) -> Option<bool> {
    let fields = parsed.get("fields")?;
    let can_be_counted = |name: &str| {
        let types: Option<&Map<String, Value>> = fields.get(name)?.as_object();
        let types = types?.values();
        let all: Vec<bool> = types.map(|of| of["aggregatable"] == true).collect();
        Some(all)
    };
    let own = can_be_counted(field)?;
    let beside = can_be_counted(&format!("{field}{BESIDE}")).unwrap_or_default();
    // Where indices differ, neither form is there in all of them.
    Some(!own.contains(&true) && !beside.is_empty() && !beside.contains(&false))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_form_that_can_be_counted() {
        let text = json!({"text": {"aggregatable": false}});
        let keyword = json!({"keyword": {"aggregatable": true}});
        let both = json!({"text": {"aggregatable": false}, "keyword": {"aggregatable": true}});
        for (fields, expected) in [
            (json!({"m": text, "m.keyword": keyword}), Some(true)),
            (json!({"m": keyword}), Some(false)),
            (json!({"m": keyword, "m.keyword": keyword}), Some(false)),
            (json!({"m": text}), Some(false)),
            (json!({"m": both, "m.keyword": keyword}), Some(false)),
            (json!({"m": text, "m.keyword": text}), Some(false)),
            // Nothing was written yet.
            (json!({}), None),
        ] {
            let parsed = json!({ "fields": fields });
            assert_eq!(of_capabilities(&parsed, "m"), expected, "{parsed}");
        }
        assert_eq!(of_capabilities(&json!([]), "m"), None);
    }

    #[test]
    fn answers_are_remembered_for_a_while() {
        let forms = Known::default();
        let name = |caller: u64, index: &str| (caller, index.to_owned());
        let first = name(1, "a/m");
        forms.remember(first.clone(), true, Millis(0));
        assert_eq!(forms.known(&first, Millis(REMEMBERED_FOR.0 - 1)), Some(true));
        assert_eq!(forms.known(&first, REMEMBERED_FOR), None);
        assert_eq!(forms.known(&name(1, "b/m"), Millis(0)), None);
        assert_eq!(forms.known(&name(2, "a/m"), Millis(0)), None);
        for n in 1..REMEMBERED {
            forms.remember(name(1, &n.to_string()), false, Millis(0));
        }
        assert_eq!(forms.known(&first, Millis(0)), Some(true));
        forms.remember(name(1, "one more"), false, Millis(0));
        assert_eq!(forms.known(&first, Millis(0)), None);
        assert_eq!(forms.0.lock().len(), 1);
    }
}
