//! Discovers the indices that a route's patterns match, with mapping and size.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use hyper::Method;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value, json};

use super::BackfillError;
use super::mapping::{self, MissingFields};
use super::sending::ask_until_answered;
use crate::bulk::StampNames;
use crate::cluster::operator::{Operator, OperatorError, in_path};
use crate::cluster::resolve::{Resolved, resolve};
use crate::cluster::retry::ATTEMPTS;
use crate::cluster::roots::roots_index;
use crate::cluster::search::{SearchResponse, Stored};
use crate::cluster::sorted_pages::SortField;
use crate::counts::refresh_interval;
use crate::engine::{BackfillRoute, FieldSample, MissingField, RouteTable, SAMPLE};
use crate::index_pattern::fits;

/// Bytes of names in a path.
const LONGEST_NAMES: usize = 3_000;

/// The indices of one route.
#[derive(Debug, Clone)]
pub(crate) struct RouteIndices {
    pub(crate) route: BackfillRoute,
    pub(crate) names: StampNames,
    /// The index expression that selects them.
    pub(super) expression: String,
    /// Their names, at least one.
    pub(crate) indices: Vec<String>,
    /// Aliases and data streams that match the route, for indices whose own names do not.
    pub(super) known_as: Vec<String>,
    /// The field by which documents are sorted.
    pub(crate) order: SortField,
    /// A further query that selects documents.
    query: Option<Value>,
}

impl RouteTable {
    /// Number of the route of a name: the first that matches it.
    pub(super) fn route_of(&self, name: &str) -> Option<usize> {
        let fits_route = |route: &BackfillRoute| route.index.iter().any(|p| fits(p, name));
        self.routes.iter().position(fits_route)
    }

    /// The indices of a route, with its patterns that match any, and with the aliases and data streams they match by.
    fn indices_of(&self, at: usize, resolved: &[(String, Resolved)]) -> Found {
        let mut found = Found::default();
        for (pattern, resolved) in resolved {
            let before = found.indices.len();
            for index in &resolved.indices {
                let is_hidden = index.name.starts_with('.') && !pattern.starts_with('.');
                let is_ours = index.name.starts_with(&roots_index(""));
                if !is_hidden && !index.is_closed() && !is_ours && self.route_of(&index.name) == Some(at) {
                    found.indices.insert(index.name.clone(), ());
                }
            }
            for group in resolved.groups() {
                if self.route_of(&group.name) != Some(at) {
                    continue;
                }
                let others = group.indices.iter().filter(|i| self.route_of(i).is_none());
                let before = found.indices.len();
                found.indices.extend(others.map(|i| (i.clone(), ())));
                if found.indices.len() > before && !found.known_as.contains(&group.name) {
                    found.known_as.push(group.name.clone());
                }
            }
            if found.indices.len() > before {
                found.patterns.push(pattern.clone());
            }
        }
        found
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    indices: BTreeMap<String, ()>,
    known_as: Vec<String>,
    patterns: Vec<String>,
}

/// The indices of each route that has any. `index`: a name, alias or pattern that restricts them; `query`: restricts
/// the documents.
///
/// # Errors
/// If the cluster cannot be reached or refuses, or there is no such index.
pub(crate) async fn discover(
    operator: &Operator,
    routes: &RouteTable,
    index: Option<&str>,
    query: Option<&Value>,
) -> Result<Vec<RouteIndices>, BackfillError> {
    let only = match index {
        None => None,
        Some(index) => {
            let mut all = Vec::new();
            for part in index.split(',') {
                let resolved = resolve(operator, part).await?;
                if resolved.is_empty() {
                    return Err(BackfillError::NoIndex(part.to_owned()));
                }
                all.extend(resolved.groups().flat_map(|group| group.indices.clone()));
                all.extend(resolved.indices.into_iter().map(|index| index.name));
            }
            Some(all)
        }
    };
    let mut targets = Vec::new();
    for at in 0..routes.routes.len() {
        let surveyed = discover_route(operator, routes, at).await?;
        if let Some(error) = surveyed.failed {
            return Err(error);
        }
        let Some(mut target) = surveyed.target else {
            continue;
        };
        if let Some(only) = &only {
            target.indices.retain(|index| only.contains(index));
        }
        if target.indices.is_empty() {
            continue;
        }
        // If the names are too long for a path, the names that the user or the route has given are used.
        if let Some(index) = index {
            target.expression = expression_of(&target.indices, index);
        }
        target.query = query.cloned();
        target.find_order(operator).await?;
        targets.push(target);
    }
    if targets.is_empty() {
        let patterns = routes.routes.iter().flat_map(|route| &route.index);
        let patterns: Vec<&str> = patterns.map(String::as_str).collect();
        let meant = index.map_or_else(|| patterns.join(", "), str::to_owned);
        return Err(BackfillError::NoIndex(meant));
    }
    Ok(targets)
}

/// The indices of one route.
pub(crate) struct DiscoveredRoute {
    /// `None`: the route has no indices.
    pub(crate) target: Option<RouteIndices>,
    /// The error of patterns that could not be resolved.
    pub(crate) failed: Option<BackfillError>,
}

/// The indices of the route at this place, to be read as their shards took the documents. A pattern that cannot be
/// asked about does not hide the others.
///
/// # Errors
/// When the prefix of the stamp is none.
pub(crate) async fn discover_route(
    operator: &Operator,
    routes: &RouteTable,
    at: usize,
) -> Result<DiscoveredRoute, BackfillError> {
    let names = StampNames::new(&routes.prefix)?;
    let (mut resolved, mut failed) = (Vec::new(), None);
    let route = routes.routes.get(at);
    for pattern in route.iter().flat_map(|route| &route.index) {
        match resolve(operator, pattern).await {
            Ok(found) => resolved.push((pattern.clone(), found)),
            Err(error) => failed = Some(error.into()),
        }
    }
    let Found { indices, known_as, patterns } = routes.indices_of(at, &resolved);
    let indices: Vec<String> = indices.into_keys().collect();
    let target = route.filter(|_| !indices.is_empty()).map(|route| RouteIndices {
        route: route.clone(),
        names,
        expression: expression_of(&indices, &patterns.join(",")),
        indices,
        known_as,
        order: SortField::of_arrival(),
        query: None,
    });
    Ok(DiscoveredRoute { target, failed })
}

/// The index expression for a path: own names where these fit into 4 KiB, since they need no privilege for other
/// indices.
fn expression_of(indices: &[String], others: &str) -> String {
    let names = in_path(&indices.join(","));
    match names.len() <= LONGEST_NAMES {
        true => names,
        false => in_path(others),
    }
}

impl RouteIndices {
    /// Each of its indices for itself.
    pub(super) fn per_index(&self) -> impl Iterator<Item = RouteIndices> {
        self.indices.iter().map(|index| RouteIndices {
            expression: in_path(index),
            indices: vec![index.clone()],
            ..self.clone()
        })
    }

    /// Sorts the documents by the field of its route, as far as that is possible.
    pub(super) async fn find_order(&mut self, operator: &Operator) -> Result<(), BackfillError> {
        if let Some(field) = &self.route.order {
            let path = format!("/{}/_field_caps?fields={}&ignore_unavailable=true", self.expression, in_path(field));
            let answer = operator.ask(Method::GET, &path, None).await?;
            let mut types = answer["fields"][field].as_object().into_iter().flat_map(Map::keys);
            self.order = order_by(field, types.next().map(String::as_str));
        }
        Ok(())
    }

    /// The name by which the route matches an index.
    pub(super) fn name_of<'n>(&'n self, index: &'n str) -> &'n str {
        let fits_own = self.route.index.iter().any(|pattern| fits(pattern, index));
        match self.known_as.first() {
            Some(name) if !fits_own => name,
            _ => index,
        }
    }

    /// The documents without a stamp.
    pub(super) fn unstamped(&self) -> Value {
        let mut query = self.all();
        query["bool"]["must_not"] = json!([{"exists": {"field": self.names.root()}}]);
        query
    }

    /// All documents.
    pub(super) fn all(&self) -> Value {
        let mut filters = vec![json!({"terms": {"_index": self.indices}})];
        filters.extend(self.query.clone());
        json!({"bool": {"filter": filters}})
    }

    /// Searches all of them.
    ///
    /// # Errors
    /// When the cluster cannot be reached or refuses, or some shards do not answer.
    pub(super) async fn search<H: DeserializeOwned>(
        &self,
        operator: &Operator,
        body: &Value,
    ) -> Result<SearchResponse<H>, BackfillError> {
        let path = format!("/{}/_search?ignore_unavailable=true&allow_partial_search_results=false", self.expression);
        let answer = ask_until_answered(operator, Method::POST, &path, Some(body)).await?;
        Ok(SearchResponse::parse(&answer)?)
    }

    /// The fields of the route that no document of a sample has.
    ///
    /// # Errors
    /// When the cluster cannot be reached or refuses.
    pub(crate) async fn unfound_fields(&self, operator: &Operator) -> Result<Vec<MissingField>, BackfillError> {
        // With a filter the servers write the sources anew: a comment at the end of a stored one would take the rest of
        // the answer with it.
        let body = json!({
            "size": SAMPLE,
            "track_total_hits": false,
            "query": self.all(),
            "_source": {"excludes": [self.names.root()]},
        });
        let mut sample = FieldSample::new(self.route.named.clone(), self.names.prefix());
        for Stored(hit) in self.search(operator, &body).await?.hits {
            sample.add(&hit["_source"]);
        }
        Ok(sample.missing())
    }

    /// How many documents a query finds.
    ///
    /// # Errors
    /// When the cluster cannot be reached or refuses.
    pub(super) async fn count(&self, operator: &Operator, query: &Value) -> Result<u64, BackfillError> {
        let body = json!({"size": 0, "track_total_hits": true, "query": query});
        Ok(self.search::<IgnoredAny>(operator, &body).await?.total().0)
    }

    /// Counts unstamped documents, after a refresh.
    ///
    /// # Errors
    /// As [`RouteIndices::count`].
    pub(crate) async fn count_unstamped(&self, operator: &Operator) -> Result<u64, BackfillError> {
        operator.refresh(&self.expression, ATTEMPTS).await?;
        self.count(operator, &self.unstamped()).await
    }

    /// All documents.
    ///
    /// # Errors
    /// As [`RouteIndices::count`].
    pub(crate) async fn count_all(&self, operator: &Operator) -> Result<u64, BackfillError> {
        self.count(operator, &self.all()).await
    }

    /// The fields of the stamp that each index lacks.
    ///
    /// # Errors
    /// When an index cannot be adopted as it is, or the cluster refuses.
    pub(crate) async fn missing_fields(&self, operator: &Operator) -> Result<FieldsByIndex, BackfillError> {
        fields_to_map(self.mappings(operator).await?)
    }

    /// The stamp's fields that each index lacks, or why it cannot be backfilled.
    ///
    /// # Errors
    /// When the cluster cannot be reached or refuses.
    pub(crate) async fn mappings(&self, operator: &Operator) -> Result<Vec<(String, MissingFields)>, BackfillError> {
        let mut mappings = mappings_of(operator, &self.expression, &self.names).await?;
        mappings.retain(|(index, _)| self.indices.contains(index));
        Ok(mappings)
    }

    /// An index that accepts no writes, and the setting that blocks them.
    ///
    /// # Errors
    /// If the cluster cannot be reached or refuses.
    pub(crate) async fn blocked(&self, operator: &Operator) -> Result<Option<(String, String)>, BackfillError> {
        let settings = self.flat_settings(operator).await?;
        let mut all = self.indices.iter().map(|index| (index, &settings[index]["settings"]));
        Ok(all.find_map(|(index, settings)| Some((index.clone(), block_of(settings)?.to_owned()))))
    }

    /// The mappings of the stamp's fields, and of the source, by index.
    ///
    /// # Errors
    /// If the cluster cannot be reached or refuses.
    pub(super) async fn stamp_mappings(&self, operator: &Operator) -> Result<Value, OperatorError> {
        let path = format!(
            "/{}/_mapping?ignore_unavailable=true&allow_no_indices=true\
             &filter_path=*.mappings._source,*.mappings.properties.{}*",
            self.expression,
            in_path(self.names.prefix())
        );
        operator.ask(Method::GET, &path, None).await
    }

    /// Without these indices; `None`: there is no other.
    pub(super) fn without(mut self, left_out: &[String]) -> Option<RouteIndices> {
        if !left_out.is_empty() {
            self.indices.retain(|index| !left_out.contains(index));
            let names = in_path(&self.indices.join(","));
            if names.len() <= LONGEST_NAMES {
                self.expression = names;
            }
        }
        (!self.indices.is_empty()).then_some(self)
    }

    /// The settings of the indices.
    ///
    /// # Errors
    /// If the cluster cannot be reached or refuses.
    pub(super) async fn settings(&self, operator: &Operator) -> Result<IndexSettings, BackfillError> {
        let settings = self.flat_settings(operator).await?;
        let mut all = IndexSettings::default();
        for index in &self.indices {
            let settings = &settings[index]["settings"];
            let refresh = refresh_interval(settings["index.refresh_interval"].as_str());
            all.refresh = all.refresh.max(refresh.unwrap_or(NEVER_REFRESHED));
            all.is_manual |= refresh.is_none();
            all.blocked.extend(block_of(settings).map(|_| index.clone()));
            let window = settings["index.max_result_window"].as_str().and_then(|set| set.parse().ok());
            all.window = all.window.min(window.unwrap_or(RESULT_WINDOW));
        }
        Ok(all)
    }

    async fn flat_settings(&self, operator: &Operator) -> Result<Value, OperatorError> {
        let path = format!("/{}/_settings?ignore_unavailable=true&flat_settings=true", self.expression);
        operator.ask(Method::GET, &path, None).await
    }

    /// The index expression of requests, encoded for a path.
    pub(super) fn expression(&self) -> &str {
        &self.expression
    }
}

/// What some indices are set to.
#[derive(Debug)]
pub(super) struct IndexSettings {
    /// Those that accept no writes.
    pub(super) blocked: HashSet<String>,
    /// The longest of their refresh intervals; a minute for one that is refreshed by hand.
    pub(super) refresh: Duration,
    /// Whether one is refreshed by hand: nobody knows when searches see what is written.
    pub(super) is_manual: bool,
    /// The most documents that a search may return.
    pub(super) window: usize,
}

impl Default for IndexSettings {
    fn default() -> Self {
        IndexSettings { blocked: HashSet::new(), refresh: Duration::ZERO, is_manual: false, window: RESULT_WINDOW }
    }
}

impl IndexSettings {
    pub(super) fn add(&mut self, other: IndexSettings) {
        self.blocked.extend(other.blocked);
        self.refresh = self.refresh.max(other.refresh);
        self.is_manual |= other.is_manual;
        self.window = self.window.min(other.window);
    }
}

/// The servers' default of `index.max_result_window`.
const RESULT_WINDOW: usize = 10_000;

/// How long writes to an index that is never refreshed by itself are waited for.
const NEVER_REFRESHED: Duration = Duration::from_mins(1);

/// The setting that blocks writes to an index.
fn block_of(settings: &Value) -> Option<&str> {
    let blocks = ["index.blocks.write", "index.blocks.read_only", "index.blocks.read_only_allow_delete"];
    blocks.into_iter().find(|name| settings[name] == "true")
}

fn order_by(field: &str, mapped: Option<&str>) -> SortField {
    match mapped {
        Some("date" | "date_nanos") => SortField::Date(field.into()),
        Some("long" | "integer" | "short") => SortField::Number(field.into()),
        Some("unmapped") | None => SortField::of_arrival(),
        Some(_) => SortField::Other(field.into()),
    }
}

/// What each index of an expression lacks of the stamp's fields, or why it cannot be adopted as it is.
async fn mappings_of(
    operator: &Operator,
    expression: &str,
    names: &StampNames,
) -> Result<Vec<(String, MissingFields)>, BackfillError> {
    let path = format!("/{expression}/_mapping?ignore_unavailable=true&allow_no_indices=true");
    let answer = operator.ask(Method::GET, &path, None).await?;
    let mappings = answer.as_object().into_iter().flatten();
    Ok(mappings.map(|(index, of)| (index.clone(), mapping::missing(&of["mappings"], names))).collect())
}

/// Fields to map, by index.
type FieldsByIndex = Vec<(String, Map<String, Value>)>;

/// The indices that lack fields of the stamp, with these.
fn fields_to_map(mappings: Vec<(String, MissingFields)>) -> Result<FieldsByIndex, BackfillError> {
    let mut all = Vec::new();
    for (index, missing) in mappings {
        match missing {
            Ok(missing) if missing.is_empty() => {}
            Ok(missing) => all.push((index, missing)),
            Err(fault) => return Err(BackfillError::Mapping { index, fault }),
        }
    }
    Ok(all)
}

/// Maps the fields of the stamp in all indices behind a name or a pattern that lack any; in none, if one of them cannot
/// be adopted as it is. Answers which were mapped where.
///
/// # Errors
/// When an index cannot be adopted as it is, or the cluster cannot be reached or refuses.
pub(crate) async fn map_existing(
    operator: &Operator,
    expression: &str,
    prefix: &str,
) -> Result<Vec<(String, Vec<String>)>, BackfillError> {
    let mut mappings = mappings_of(operator, &in_path(expression), &StampNames::new(prefix)?).await?;
    mappings.retain(|(index, _)| !index.starts_with(&roots_index("")));
    let mut mapped = Vec::new();
    for (index, fields) in fields_to_map(mappings)? {
        put_fields(operator, &index, &fields).await?;
        mapped.push((index, fields.into_iter().map(|(name, _)| name).collect()));
    }
    Ok(mapped)
}

/// Maps fields of the stamp in an index.
///
/// # Errors
/// When the cluster cannot be reached or refuses.
pub(crate) async fn put_fields(
    operator: &Operator,
    index: &str,
    fields: &Map<String, Value>,
) -> Result<(), OperatorError> {
    let path = format!("/{}/_mapping", in_path(index));
    let body = json!({ "properties": fields });
    operator.ask(Method::PUT, &path, Some(&body)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(patterns: &[&[&str]]) -> RouteTable {
        let route = |patterns: &&[&str]| BackfillRoute {
            index: patterns.iter().map(|&p| p.into()).collect(),
            forest: "f".into(),
            method: "verified".into(),
            fields: vec!["content".into()],
            named: Vec::new(),
            clock: "arrival".into(),
            order: None,
        };
        RouteTable { prefix: "cluster_".into(), routes: patterns.iter().map(route).collect() }
    }

    fn resolved(answer: Value) -> Resolved {
        serde_json::from_value(answer).unwrap()
    }

    #[test]
    fn each_index_belongs_to_the_first_route_that_fits() {
        let routes = routes(&[&["news-*"], &["*"]]);
        let answer = json!({"indices": [
            {"name": "news-1", "attributes": ["open"]},
            {"name": "news-2", "attributes": ["closed"]},
            {"name": "other", "attributes": ["open"]},
            {"name": ".kibana", "attributes": ["open", "hidden"]},
            {"name": "spinney-roots-news-1", "attributes": ["open"]},
        ]});
        let first = routes.indices_of(0, &[("news-*".into(), resolved(answer.clone()))]);
        assert_eq!(first.indices.into_keys().collect::<Vec<_>>(), ["news-1"]);
        assert_eq!(first.patterns, ["news-*"]);
        let second = routes.indices_of(1, &[("*".into(), resolved(answer))]);
        assert_eq!(second.indices.into_keys().collect::<Vec<_>>(), ["other"]);
    }

    #[test]
    fn indices_behind_an_alias_or_a_data_stream() {
        let routes = routes(&[&["own"], &["news", "stream", "nothing"]]);
        let answers = [
            ("news".to_owned(), resolved(json!({"aliases": [{"name": "news", "indices": ["a-1", "own", "a-2"]}]}))),
            (
                "stream".to_owned(),
                resolved(json!({"data_streams": [
                    {"name": "stream", "backing_indices": ".ds-stream-1", "timestamp_field": "@timestamp"}
                ]})),
            ),
            ("nothing".to_owned(), Resolved::default()),
        ];
        let found = routes.indices_of(1, &answers);
        assert_eq!(found.indices.into_keys().collect::<Vec<_>>(), [".ds-stream-1", "a-1", "a-2"]);
        assert_eq!(found.known_as, ["news", "stream"]);
        assert_eq!(found.patterns, ["news", "stream"]);
    }

    #[test]
    fn orders() {
        assert_eq!(order_by("at", Some("date_nanos")), SortField::Date("at".into()));
        assert_eq!(order_by("n", Some("integer")), SortField::Number("n".into()));
        assert_eq!(order_by("k", Some("keyword")), SortField::Other("k".into()));
        assert_eq!(order_by("x", None), SortField::of_arrival());
    }
}
