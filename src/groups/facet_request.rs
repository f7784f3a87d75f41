//! Facets as requests name them.

use serde_json::Value;

/// Facets of a request.
pub(super) const MAX_FACETS: usize = 10;

/// Values of a facet that are returned if the request does not say.
const DEFAULT_SIZE: usize = 10;

/// Most values of a facet that are returned.
pub(super) const MAX_VALUES: usize = 100;

/// One requested facet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FacetRequest {
    /// Its name in the response.
    pub name: String,
    /// The field.
    pub field: String,
    /// What its buckets are.
    pub by: FacetBy,
}

/// What the buckets of a facet are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FacetBy {
    /// The values with most groups, so many.
    Values(usize),
    /// Intervals of time in their order.
    Times {
        /// `calendar_interval` or `fixed_interval`.
        kind: &'static str,
        /// The interval, such as `day` or `6h`.
        interval: String,
        /// Where days begin; UTC without.
        time_zone: Option<String>,
    },
}

/// Parses `{"NAME": {"terms": {…}}, "NAME": {"date_histogram": {…}}}`; `None`: it is something else.
pub(super) fn parse(facets: &Value) -> Option<Vec<FacetRequest>> {
    let facets = facets.as_object().filter(|facets| facets.len() <= MAX_FACETS)?;
    facets.iter().map(parse_one).collect()
}

fn parse_one((name, facet): (&String, &Value)) -> Option<FacetRequest> {
    let facet = facet.as_object().filter(|facet| facet.len() == 1)?;
    let (kind, of) = facet.iter().next()?;
    let of = of.as_object()?;
    let text = |name: &str| of.get(name).map(|text| text.as_str().filter(|text| !text.is_empty()));
    let has_only = |names: &[&str]| of.keys().all(|name| names.contains(&name.as_str()));
    let field = text("field")??.to_owned();
    let by = match kind.as_str() {
        "terms" if has_only(&["field", "size"]) => {
            let size = match of.get("size") {
                None => DEFAULT_SIZE,
                Some(size) => usize::try_from(size.as_u64()?).ok()?,
            };
            FacetBy::Values(Some(size).filter(|size| (1..=MAX_VALUES).contains(size))?)
        }
        "date_histogram" if has_only(&["field", "calendar_interval", "fixed_interval", "time_zone"]) => {
            let (kind, interval) = match (text("calendar_interval"), text("fixed_interval")) {
                (Some(interval), None) => ("calendar_interval", interval?),
                (None, Some(interval)) => ("fixed_interval", interval?),
                _ => return None,
            };
            let time_zone = match text("time_zone") {
                None => None,
                Some(zone) => Some(zone?.to_owned()),
            };
            FacetBy::Times { kind, interval: interval.to_owned(), time_zone }
        }
        _ => return None,
    };
    Some(FacetRequest { name: name.clone(), field, by })
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn facets_are_parsed() {
        let parsed = parse(&json!({
            "media": {"terms": {"field": "medium"}},
            "few": {"terms": {"field": "lang", "size": 3}},
            "days": {"date_histogram": {"field": "at", "calendar_interval": "day", "time_zone": "+08:00"}},
        }));
        let mut parsed = parsed.unwrap();
        parsed.sort_by(|a, b| a.name.cmp(&b.name));
        let days =
            FacetBy::Times { kind: "calendar_interval", interval: "day".into(), time_zone: Some("+08:00".into()) };
        let by: Vec<FacetBy> = parsed.into_iter().map(|facet| facet.by).collect();
        assert_eq!(by, [days, FacetBy::Values(3), FacetBy::Values(DEFAULT_SIZE)]);
        let eleven: Map<String, Value> = (0..11).map(|at| (at.to_string(), json!({"terms": {"field": "f"}}))).collect();
        for wrong in [
            json!([]),
            json!({"a": {}}),
            json!({"a": {"terms": {}}}),
            json!({"a": {"terms": {"field": ""}}}),
            json!({"a": {"terms": {"field": "f", "size": 0}}}),
            json!({"a": {"terms": {"field": "f", "size": 101}}}),
            json!({"a": {"terms": {"field": "f", "order": {}}}}),
            json!({"a": {"terms": {"field": "f"}, "aggs": {}}}),
            json!({"a": {"histogram": {"field": "f"}}}),
            json!({"a": {"date_histogram": {"field": "f"}}}),
            json!({"a": {"date_histogram": {"field": "f", "fixed_interval": 1}}}),
            json!({"a": {"date_histogram": {"field": "f", "fixed_interval": "1d", "calendar_interval": "day"}}}),
            json!({"a": {"date_histogram": {"field": "f", "fixed_interval": "1d", "time_zone": 8}}}),
            Value::Object(eleven),
        ] {
            assert!(parse(&wrong).is_none(), "{wrong}");
        }
    }
}
