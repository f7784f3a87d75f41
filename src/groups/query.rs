//! Queries in the cluster's DSL. A caller's query stays text: the cluster interprets it, and a parsed tree would take
//! many times its size.

use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A query: one JSON value, as text without white space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchQuery(Arc<str>);

/// As [`match_all`](super::request::match_all) has it.
const ALL: &str = r#"{"match_all":{}}"#;

impl SearchQuery {
    /// All documents.
    pub(crate) fn all() -> SearchQuery {
        SearchQuery(ALL.into())
    }

    /// The query of a caller.
    pub(super) fn of_caller(query: &RawValue) -> SearchQuery {
        SearchQuery(without_white_space(query.get()).into())
    }

    /// Whether it is that of all documents.
    pub(super) fn is_all(&self) -> bool {
        &*self.0 == ALL
    }

    /// Those of its documents that pass all filters.
    pub(super) fn narrowed(&self, filters: Vec<Value>) -> SearchQuery {
        let filters = Value::Array(filters);
        SearchQuery(format!(r#"{{"bool":{{"must":[{self}],"filter":{filters}}}}}"#).into())
    }

    /// Its documents but these.
    pub(super) fn without(&self, others: &Value) -> SearchQuery {
        SearchQuery(format!(r#"{{"bool":{{"must":[{self}],"must_not":{others}}}}}"#).into())
    }

    /// Those of its documents that pass all filters, with the scores of another query: 0 for those that it has not.
    pub(super) fn scored_by(&self, score: &Value, filters: &[Value]) -> SearchQuery {
        let filters: String = filters.iter().map(|filter| format!(",{filter}")).collect();
        SearchQuery(format!(r#"{{"bool":{{"filter":[{self}{filters}],"should":{score}}}}}"#).into())
    }

    /// The same documents, each with a name among its `matched_queries` if it passes the filter. For searches that are
    /// sorted by a field: their scores differ.
    pub(super) fn naming(&self, name: &str, filter: &Value) -> SearchQuery {
        let named = json!({"bool": {"filter": filter, "_name": name}});
        SearchQuery(format!(r#"{{"bool":{{"must":[{self}],"should":[{named}]}}}}"#).into())
    }

    /// Whether it is one of OpenSearch's hybrid queries, which take no other query around them.
    pub(super) fn is_hybrid(&self) -> bool {
        self.0.starts_with(r#"{"hybrid":"#)
    }

    /// The body of a search with this query; `rest`: an object with all other members.
    pub(super) fn in_body(&self, rest: &Value) -> String {
        let rest = rest.to_string();
        let begin = rest.strip_suffix('}').unwrap_or("{");
        let comma = if begin == "{" { "" } else { "," };
        format!(r#"{begin}{comma}"query":{self}}}"#)
    }
}

impl From<Value> for SearchQuery {
    fn from(query: Value) -> SearchQuery {
        SearchQuery(query.to_string().into())
    }
}

impl fmt::Display for SearchQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Copies JSON text without white space between tokens.
fn without_white_space(json: &str) -> String {
    let mut kept = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    kept.extend(json.chars().filter(|&c| {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            return true;
        }
        in_string = c == '"';
        !c.is_ascii_whitespace()
    }));
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn query(text: &str) -> SearchQuery {
        SearchQuery::of_caller(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn a_query_keeps_its_bytes() {
        let text = r#" { "term" : { "a \" b\\" : 1.50e400 , "n": 9223372036854775808123 } } "#;
        let kept = r#"{"term":{"a \" b\\":1.50e400,"n":9223372036854775808123}}"#;
        assert_eq!(query(text).to_string(), kept);
        assert!(query(" {\"match_all\" :{ } }").is_all() && SearchQuery::all().is_all());
        assert!(!query(r#"{"match_all":{"boost":2}}"#).is_all());
    }

    proptest! {
        #[test]
        fn bodies_are_what_they_would_be_as_trees(text in ".{0,20}", number: i64) {
            let asked = json!({"term": {(text.clone()): [number, text, {"x y": null}]}});
            let (filter, others) = (json!({"exists": {"field": "k"}}), json!({"ids": {"values": []}}));
            let pretty = query(&format!("{asked:#}"));
            prop_assert_eq!(&pretty, &SearchQuery::from(asked.clone()));
            let whole = pretty.narrowed(vec![filter.clone()]).without(&others);
            let whole = |rest: Value| serde_json::from_str::<Value>(&whole.in_body(&rest)).unwrap();
            let narrowed = json!({"bool": {"must": [asked.clone()], "filter": [filter.clone()]}});
            let scored = pretty.scored_by(&others, &[filter.clone(), filter.clone()]).to_string();
            let expected = json!({"bool": {"filter": [asked, filter, filter], "should": others}});
            prop_assert_eq!(serde_json::from_str::<Value>(&scored).unwrap(), expected);
            let named = json!({"bool": {"filter": others, "_name": "n"}});
            let expected = json!({"bool": {"must": [narrowed], "should": [named]}});
            let naming = pretty.narrowed(vec![filter.clone()]).naming("n", &others).to_string();
            prop_assert_eq!(serde_json::from_str::<Value>(&naming).unwrap(), expected);
            let expected = json!({"bool": {"must": [narrowed], "must_not": others}});
            prop_assert_eq!(whole(json!({"size": 1})), json!({"size": 1, "query": expected}));
            prop_assert_eq!(whole(json!({})), json!({"query": expected}));
        }
    }
}
