//! Requests of readers.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::facet_request::{self, FacetRequest, MAX_FACETS, MAX_VALUES};
use super::query::SearchQuery;
use crate::config::RepresentativeBy;

/// Default number of groups on a page.
pub(crate) const DEFAULT_SIZE: usize = 20;

/// The most groups or documents of a page.
pub(crate) const MAX_SIZE: usize = 100;

/// Default limit of documents up to which the number of groups is counted exactly.
pub(crate) const DEFAULT_COUNTED: u64 = 300_000;

/// The highest limit of `track_total_groups`.
pub(crate) const MAX_COUNTED: u64 = 2_000_000;

/// A question for groups.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupsRequest {
    /// The query, in the cluster's own language.
    pub query: SearchQuery,
    /// Sort of the groups.
    pub sort: SortBy,
    /// The sort direction.
    pub direction: Direction,
    /// Groups of a page, 1 to [`MAX_SIZE`].
    pub size: usize,
    /// Cursor from the previous page.
    pub cursor: Option<String>,
    /// Choice of the representative.
    pub representative: RepresentativeBy,
    /// `_source` filter for representatives.
    pub source: Value,
    /// How exactly the groups are counted.
    pub total: TotalWanted,
    /// Fields by which the groups are counted, too.
    pub facets: Vec<FacetRequest>,
    /// Whether the roots index must not be used for order and number.
    pub exact: bool,
}

/// Sort of groups. Ties: by count the newest document first, then by key; otherwise by key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SortBy {
    /// The documents of the group in the whole index.
    SimilarCount,
    /// Its documents under the query.
    MatchingCount,
    /// `_score`, or a field, of the group's best document under the query.
    Field(String),
}

/// The sort direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// The smallest.
    Ascending,
    /// The largest.
    Descending,
}

/// How exactly groups are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TotalWanted {
    /// Not at all.
    No,
    /// Exact up to this many documents under the query; `gte` above.
    UpTo(u64),
}

/// A question for the documents of one group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MembersRequest {
    /// Documents of a page, 1 to [`MAX_SIZE`].
    pub size: usize,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// `_source` filter for documents.
    pub source: Value,
    /// Queries that all documents of the page match. The representative is that of the whole group all the same.
    pub filters: Vec<Value>,
}

/// Errors in a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    /// The body is not JSON, or has unknown members.
    #[error("the body is not understood: {0}; see docs/reading.md")]
    Body(String),
    /// A member has a value that it cannot have.
    #[error("[{member}] {reason}")]
    Member {
        /// Its name.
        member: &'static str,
        /// Allowed values.
        reason: String,
    },
    /// The cursor belongs to another request.
    #[error("[cursor] {0}: leave it away for the first page")]
    Cursor(&'static str),
}

/// The most bytes of a member that is read here, which is all but the query and the cursor: as a tree it takes many
/// times that.
const MEMBER_BYTES: usize = 16 << 10;

/// The body before validation.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, bound(deserialize = "'de: 'a"))]
struct Body<'a> {
    query: Option<&'a RawValue>,
    sort: Option<&'a RawValue>,
    size: Option<&'a RawValue>,
    cursor: Option<String>,
    representative: Option<&'a RawValue>,
    #[serde(rename = "_source")]
    source: Option<&'a RawValue>,
    total: Option<&'a RawValue>,
    facets: Option<&'a RawValue>,
    exact: Option<bool>,
    knn: Option<IgnoredAny>,
    rank: Option<IgnoredAny>,
    retriever: Option<IgnoredAny>,
}

/// How a search that groups cannot be read by shows each group once.
const INSTEAD: &str = "send it to _search with the filter {\"term\": {\"cluster_first\": true}}, which finds one \
                       document of each group";

impl Body<'_> {
    /// Refuses searches that take no filters around them, as the counts of groups need.
    fn check(&self) -> Result<(), RequestError> {
        let is_hybrid = self.query.is_some_and(|query| SearchQuery::of_caller(query).is_hybrid());
        let refused = match self {
            Body { knn: Some(_), .. } => {
                ("knn", "is taken as a query only, {\"query\": {\"knn\": {…}}}: write it so, or ")
            }
            Body { rank: Some(_), .. } => ("rank", "is not taken, since ranks are no query: "),
            Body { retriever: Some(_), .. } => ("retriever", "is not taken, since retrievers are no query: "),
            _ if is_hybrid => (
                "query",
                "takes no hybrid query, which takes no filters around it and is ranked by a search pipeline: ",
            ),
            _ => return Ok(()),
        };
        let (member, reason) = refused;
        Err(RequestError::Member { member, reason: format!("{reason}{INSTEAD}") })
    }
}

/// The value of a member that is no longer than it may be.
fn value(member: &'static str, raw: &RawValue) -> Result<Value, RequestError> {
    let bytes = raw.get().len();
    if bytes > MEMBER_BYTES {
        let reason = format!("takes {MEMBER_BYTES} bytes at most, not {bytes}");
        return Err(RequestError::Member { member, reason });
    }
    serde_json::from_str(raw.get()).map_err(|error| RequestError::Body(error.to_string()))
}

/// Reads a member; `default` if absent.
fn member<T>(
    name: &'static str,
    raw: Option<&RawValue>,
    default: T,
    read: impl FnOnce(Value) -> Result<T, RequestError>,
) -> Result<T, RequestError> {
    raw.map_or(Ok(default), |raw| read(value(name, raw)?))
}

impl Default for GroupsRequest {
    fn default() -> GroupsRequest {
        GroupsRequest {
            query: SearchQuery::all(),
            sort: SortBy::SimilarCount,
            direction: Direction::Descending,
            size: DEFAULT_SIZE,
            cursor: None,
            representative: RepresentativeBy::Relevance,
            source: Value::Bool(true),
            total: TotalWanted::UpTo(DEFAULT_COUNTED),
            facets: Vec::new(),
            exact: false,
        }
    }
}

/// Matches all documents. Written out: only then do the servers skip documents that a sort does not need.
pub(crate) fn match_all() -> Value {
    json!({"match_all": {}})
}

impl GroupsRequest {
    /// Parses a body; an empty one requests everything by `similar_count`.
    ///
    /// # Errors
    /// When it is not a JSON object, or has unknown members or values.
    pub(crate) fn parse(body: &[u8]) -> Result<GroupsRequest, RequestError> {
        let default = GroupsRequest::default();
        if body.trim_ascii().is_empty() {
            return Ok(default);
        }
        // A list would be taken for the members in their order.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(RequestError::Body("it is no JSON object".into()));
        }
        let body: Body<'_> = serde_json::from_slice(body).map_err(|error| RequestError::Body(error.to_string()))?;
        body.check()?;
        let order = (default.sort, default.direction);
        let (sort, direction) = member("sort", body.sort, order, |sort| parse_sort(&sort))?;
        Ok(GroupsRequest {
            query: body.query.map_or(default.query, SearchQuery::of_caller),
            sort,
            direction,
            size: member("size", body.size, default.size, |size| parse_size(&size))?,
            cursor: body.cursor,
            representative: member("representative", body.representative, default.representative, |by| {
                RepresentativeBy::parse(&by).map_err(|reason| RequestError::Member { member: "representative", reason })
            })?,
            source: member("_source", body.source, default.source, Ok)?,
            total: member("total", body.total, default.total, |total| parse_total(&total))?,
            facets: member("facets", body.facets, default.facets, |facets| parse_facets(&facets))?,
            exact: body.exact.unwrap_or_default(),
        })
    }

    /// Whether the query takes every document.
    pub(crate) fn is_whole_index(&self) -> bool {
        self.query.is_all()
    }
}

/// `"similar_count"`, `{"similar_count": "asc"}`, `{"f": {"order": "asc"}}`, or a list of one of these, as the servers
/// take it.
fn parse_sort(sort: &Value) -> Result<(SortBy, Direction), RequestError> {
    let wrong = || RequestError::Member {
        member: "sort",
        reason:
            "takes similar_count, matching_count, _score or a field, as \"field\" or {\"field\": \"asc\"}, and one only"
                .into(),
    };
    let (name, order) = match sort {
        Value::Array(sorts) => match sorts.as_slice() {
            [sort] if !sort.is_array() => return parse_sort(sort),
            _ => return Err(wrong()),
        },
        Value::String(name) => (name, None),
        Value::Object(object) => match object.iter().next() {
            Some((name, order)) if object.len() == 1 => {
                let order = match order {
                    Value::Object(order) if order.len() == 1 => order.get("order"),
                    order => Some(order),
                };
                (name, Some(order.and_then(Value::as_str).ok_or_else(wrong)?))
            }
            _ => return Err(wrong()),
        },
        _ => return Err(wrong()),
    };
    let by = match name.as_str() {
        "similar_count" => SortBy::SimilarCount,
        "matching_count" => SortBy::MatchingCount,
        // These sorts do not belong to a document.
        "" | "_doc" | "_shard_doc" => return Err(wrong()),
        field => SortBy::Field(field.to_owned()),
    };
    let direction = match (order, &by) {
        (Some("asc"), _) => Direction::Ascending,
        (Some("desc"), _) => Direction::Descending,
        (Some(_), _) => return Err(wrong()),
        // As the servers do it.
        (None, SortBy::Field(field)) if field != "_score" => Direction::Ascending,
        (None, _) => Direction::Descending,
    };
    Ok((by, direction))
}

/// A number of groups or documents.
fn parse_size(size: &Value) -> Result<usize, RequestError> {
    let number =
        size.as_u64().filter(|size| (1..=MAX_SIZE as u64).contains(size)).and_then(|size| usize::try_from(size).ok());
    number.ok_or_else(|| RequestError::Member {
        member: "size",
        reason: format!("takes a number from 1 to {MAX_SIZE}, not {size}"),
    })
}

fn parse_facets(facets: &Value) -> Result<Vec<FacetRequest>, RequestError> {
    facet_request::parse(facets).ok_or_else(|| RequestError::Member {
        member: "facets",
        reason: format!(
            "takes {MAX_FACETS} at most, each as \
             {{NAME: {{\"terms\": {{\"field\": F, \"size\": 1 to {MAX_VALUES}}}}}}} or \
             {{NAME: {{\"date_histogram\": {{\"field\": F, \"calendar_interval\" or \"fixed_interval\": \"day\", \
             \"time_zone\": \"+08:00\"}}}}}}"
        ),
    })
}

fn parse_total(value: &Value) -> Result<TotalWanted, RequestError> {
    let limit = value.as_u64();
    match (value, limit) {
        (Value::Bool(false), _) => Ok(TotalWanted::No),
        (Value::Bool(true), _) => Ok(TotalWanted::UpTo(DEFAULT_COUNTED)),
        (_, Some(limit @ 1..=MAX_COUNTED)) => Ok(TotalWanted::UpTo(limit)),
        _ => Err(RequestError::Member {
            member: "total",
            reason: format!("takes true, false, or a number of documents from 1 to {MAX_COUNTED}, not {value}"),
        }),
    }
}

impl MembersRequest {
    /// Reads the parameters of a query string: `size`, `cursor`, and `_source` as the servers take it there (`true`,
    /// `false`, or names with commas between them).
    ///
    /// # Errors
    /// When `size` is none.
    pub(crate) fn parse(
        size: Option<&str>,
        cursor: Option<&str>,
        source: Option<&str>,
    ) -> Result<MembersRequest, RequestError> {
        let size = size.map_or(Ok(DEFAULT_SIZE), |size| {
            parse_size(&size.parse::<u64>().map_or_else(|_| size.into(), Value::from))
        })?;
        let source = match source {
            None | Some("" | "true") => Value::Bool(true),
            Some("false") => Value::Bool(false),
            Some(names) => names.split(',').collect::<Vec<_>>().into(),
        };
        let cursor = cursor.filter(|c| !c.is_empty()).map(str::to_owned);
        Ok(MembersRequest { size, cursor, source, filters: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &Value) -> Result<GroupsRequest, RequestError> {
        GroupsRequest::parse(body.to_string().as_bytes())
    }

    fn sort(sort: &Value) -> Option<(SortBy, Direction)> {
        let request = parse(&json!({ "sort": sort })).ok()?;
        Some((request.sort, request.direction))
    }

    #[test]
    fn defaults() {
        for body in [&b""[..], b" \n", b"{}"] {
            let request = GroupsRequest::parse(body).unwrap();
            assert_eq!(request, GroupsRequest::default());
            assert!(request.is_whole_index());
        }
        assert!(!parse(&json!({"query": {"term": {"a": 1}}})).unwrap().is_whole_index());
        assert!(!parse(&json!({"query": {"match_all": {"boost": 2}}})).unwrap().is_whole_index());
    }

    #[test]
    fn sorts() {
        use Direction::{Ascending, Descending};
        let field = |name: &str| SortBy::Field(name.into());
        assert_eq!(sort(&json!("similar_count")), Some((SortBy::SimilarCount, Descending)));
        assert_eq!(sort(&json!("_score")), Some((field("_score"), Descending)));
        assert_eq!(sort(&json!("date")), Some((field("date"), Ascending)));
        assert_eq!(sort(&json!(["date"])), Some((field("date"), Ascending)));
        assert_eq!(sort(&json!({"matching_count": "asc"})), Some((SortBy::MatchingCount, Ascending)));
        assert_eq!(sort(&json!([{"date": {"order": "desc"}}])), Some((field("date"), Descending)));
        for wrong in [
            json!(1),
            json!([]),
            json!(["a", "b"]),
            json!({"a": "up"}),
            json!({"a": {"order": "asc", "mode": "min"}}),
            json!({"a": "asc", "b": "asc"}),
            json!("_doc"),
            json!([["a"]]),
            json!({"a": {}}),
        ] {
            assert_eq!(sort(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn members() {
        let request = parse(&json!({
            "size": 100, "representative": {"field": "reads"}, "total": 7, "cursor": "x", "exact": true
        }));
        let request = request.unwrap();
        assert_eq!(request.size, 100);
        assert_eq!(request.representative, RepresentativeBy::Most("reads".into()));
        assert_eq!(request.total, TotalWanted::UpTo(7));
        assert!(request.exact);
        for wrong in [
            json!({"size": 0}),
            json!({"size": 101}),
            json!({"size": "20"}),
            json!({"size": -1}),
            json!({"representative": "best"}),
            json!({"representative": {"field": ""}}),
            json!({"representative": {"rank": {"field": "media"}}}),
            json!({"representative": {"rank": {"field": "media", "order": []}}}),
            json!({"representative": {"rank": {"field": "media", "order": [1]}}}),
            json!({"representative": {"rank": {"field": "media", "order": vec!["m"; 101]}}}),
            json!({"facets": {"media": "medium"}}),
            json!({"total": 0}),
            json!({"total": MAX_COUNTED + 1}),
            json!({"total": "yes"}),
            json!({"from": 20}),
            json!([]),
        ] {
            assert!(parse(&wrong).is_err(), "{wrong}");
        }
        assert!(GroupsRequest::parse(b"{").is_err());
    }

    #[test]
    fn representatives_by_rank() {
        let request = parse(&json!({"representative": {"rank": {"field": "media", "order": ["b", "a"]}}})).unwrap();
        let order = vec!["b".to_owned(), "a".to_owned()];
        assert_eq!(request.representative, RepresentativeBy::Rank { field: "media".into(), order });
    }

    /// What is no query, or none that takes filters, is refused, and the way to do without is named.
    #[test]
    fn searches_that_take_no_filters() {
        for (body, member) in [
            (json!({"query": {"hybrid": {"queries": []}}}), "query"),
            (json!({"knn": {"field": "v"}}), "knn"),
            (json!({"rank": {"rrf": {}}}), "rank"),
            (json!({"retriever": {"standard": {}}, "query": {"match_all": {}}}), "retriever"),
        ] {
            let error = parse(&body).unwrap_err().to_string();
            assert!(error.starts_with(&format!("[{member}] ")), "{error}");
            assert!(error.contains(r#"{"term": {"cluster_first": true}}"#), "{error}");
        }
        assert!(parse(&json!({"knn": null, "query": {"term": {"hybrid": 1}}})).is_ok());
    }

    /// All but the query is short, and the query is not read at all.
    #[test]
    fn members_have_a_limit_and_the_query_is_left_as_it_is() {
        // Of a list of such names, in bytes.
        let list = |bytes: usize| json!(["a".repeat(bytes - 4)]);
        for name in ["_source", "sort"] {
            let of = |bytes: usize| parse(&json!({ name: list(bytes) }));
            assert!(of(MEMBER_BYTES).is_ok(), "{name}");
            let error = of(MEMBER_BYTES + 1).unwrap_err().to_string();
            assert_eq!(error, format!("[{name}] takes 16384 bytes at most, not 16385"));
        }
        for name in ["size", "total", "representative"] {
            let deep = format!(r#"{{"{name}": {}1{}}}"#, "[".repeat(8192), "]".repeat(8192));
            let error = GroupsRequest::parse(deep.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("16384 bytes at most"), "{error}");
        }
        let nested = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let body = format!(r#"{{"query": {nested}}}"#);
        let request = GroupsRequest::parse(body.as_bytes()).unwrap();
        assert_eq!(request.query.to_string(), nested);
        let request = GroupsRequest::parse(b"{\"query\": null, \"sort\": null}");
        assert_eq!(request, Ok(GroupsRequest::default()));
    }

    #[test]
    fn parameters() {
        let request = MembersRequest::parse(Some("5"), Some("c"), Some("a,b"));
        let expected = MembersRequest { size: 5, cursor: Some("c".into()), source: json!(["a", "b"]), filters: vec![] };
        assert_eq!(request, Ok(expected));
        let error = MembersRequest::parse(Some("many"), None, None).unwrap_err();
        assert_eq!(error.to_string(), "[size] takes a number from 1 to 100, not \"many\"");
    }
}
