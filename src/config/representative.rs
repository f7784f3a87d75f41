//! Which document stands for its group: as `_groups` takes it, and as the route of a page names it.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

/// The most values of a representative's rank.
const MAX_RANKS: usize = 100;

/// Choice of the representative among the documents of the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepresentativeBy {
    /// The one with the best score; of equals the newest.
    Relevance,
    /// The one with the latest time.
    Newest,
    /// The one with the earliest time.
    Oldest,
    /// The one that is stamped as the first of its group; if it does not match, the one with the earliest time.
    First,
    /// The document with the largest value of a field, such as its number of readers.
    Most(String),
    /// The one whose value of a field comes first in a list; of equals, and of those with none of them, the earliest.
    Rank {
        /// The field, a keyword.
        field: String,
        /// The values, the best first: 1 to 100.
        order: Vec<String>,
    },
}

impl RepresentativeBy {
    /// Reads the member `representative` of a request.
    ///
    /// # Errors
    /// What would be taken instead.
    pub fn parse(value: &Value) -> Result<RepresentativeBy, String> {
        let single = value.as_object().filter(|object| object.len() == 1);
        if let Some(rank) = single.and_then(|object| object.get("rank")) {
            return parse_rank(rank);
        }
        let field = single.and_then(|object| object.get("field")?.as_str()).filter(|field| !field.is_empty());
        match (value.as_str(), field) {
            (Some("relevance"), _) => Ok(RepresentativeBy::Relevance),
            (Some("newest"), _) => Ok(RepresentativeBy::Newest),
            (Some("oldest"), _) => Ok(RepresentativeBy::Oldest),
            (Some("first"), _) => Ok(RepresentativeBy::First),
            (_, Some(field)) => Ok(RepresentativeBy::Most(field.to_owned())),
            _ => Err(format!(
                "takes relevance, newest, oldest, first, {{\"field\": NAME}} or {{\"rank\": {{…}}}}, not {value}"
            )),
        }
    }
}

fn parse_rank(rank: &Value) -> Result<RepresentativeBy, String> {
    let field = rank.get("field").and_then(Value::as_str).filter(|field| !field.is_empty());
    let order = rank.get("order").and_then(Value::as_array);
    let order: Option<Vec<String>> =
        order.and_then(|order| order.iter().map(|value| Some(value.as_str()?.to_owned())).collect());
    let order = order.filter(|order| (1..=MAX_RANKS).contains(&order.len()));
    match (field, order) {
        (Some(field), Some(order)) if rank.as_object().is_some_and(|rank| rank.len() == 2) => {
            Ok(RepresentativeBy::Rank { field: field.to_owned(), order })
        }
        _ => Err(format!("takes {{\"rank\": {{\"field\": NAME, \"order\": [1 to {MAX_RANKS} values]}}}}, not {rank}")),
    }
}

/// As [`RepresentativeBy::from_str`] takes it.
impl fmt::Display for RepresentativeBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepresentativeBy::Relevance => f.write_str("relevance"),
            RepresentativeBy::Newest => f.write_str("newest"),
            RepresentativeBy::Oldest => f.write_str("oldest"),
            RepresentativeBy::First => f.write_str("first"),
            RepresentativeBy::Most(field) => json!({ "field": field }).fmt(f),
            RepresentativeBy::Rank { field, order } => json!({"rank": {"field": field, "order": order}}).fmt(f),
        }
    }
}

/// A name such as `first`, or an object as JSON.
impl FromStr for RepresentativeBy {
    type Err = String;

    fn from_str(text: &str) -> Result<RepresentativeBy, String> {
        let value = match text.trim_start().starts_with('{') {
            true => serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))?,
            false => Value::from(text),
        };
        RepresentativeBy::parse(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_objects() {
        let ranked = |count: usize| json!({"rank": {"field": "media", "order": vec!["Wire"; count]}}).to_string();
        let rank =
            |count: usize| RepresentativeBy::Rank { field: "media".into(), order: vec!["Wire".to_owned(); count] };
        for (text, expected) in [
            ("relevance", RepresentativeBy::Relevance),
            ("newest", RepresentativeBy::Newest),
            ("oldest", RepresentativeBy::Oldest),
            ("first", RepresentativeBy::First),
            (r#" {"field": "readers"}"#, RepresentativeBy::Most("readers".into())),
            (&ranked(1), rank(1)),
            (&ranked(MAX_RANKS), rank(MAX_RANKS)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        let beyond = [ranked(0), ranked(MAX_RANKS + 1)];
        for wrong in ["", "First", "{", r#"{"field": ""}"#, r#"{"field": "a", "b": 1}"#, "{}"] {
            assert!(wrong.parse::<RepresentativeBy>().is_err(), "{wrong}");
        }
        assert!(beyond.iter().all(|text| text.parse::<RepresentativeBy>().is_err()));
    }
}
