//! What an index has of groups: which documents are stamped as their first one, and which one is the earliest.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::backfill::BackfillError;
use crate::backfill::discovery::{IndexSettings, RouteIndices, discover_route};
use crate::backfill::mapping;
use crate::bulk::StampNames;
use crate::cluster::operator::Operator;
use crate::cluster::search::SearchResponse;
use crate::cluster::sorted_pages::StoredHit;
use crate::counts::KeyRange;
use crate::engine::RouteTable;

/// The most groups of one search.
pub(super) const MOST_GROUPS: usize = 500;

/// The most groups of a range, below the servers' limit of 65,535 buckets.
const MOST_OF_RANGE: usize = 65_000;

/// The open indices of a forest's routes: all of them, or there is none of these.
pub(super) struct View<'o> {
    operator: &'o Operator,
    targets: Vec<RouteIndices>,
    /// Indices that are not searched, with the reason: their mapping has other fields of these names.
    pub(super) left_out: Vec<String>,
    /// Indices whose documents are not updated: an update would lose what the stored source has not.
    unwritable: HashSet<String>,
}

/// Documents that are not looked at.
#[derive(Debug, Default)]
pub(super) struct PassedOver<'a> {
    /// Indices that take no writes.
    pub(super) blocked: HashSet<&'a str>,
    /// Documents, by index and id.
    pub(super) refused: Vec<(&'a str, &'a str)>,
}

impl PassedOver<'_> {
    fn query(&self) -> Value {
        let mut by_index: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for &(index, id) in &self.refused {
            by_index.entry(index).or_default().push(id);
        }
        // Another index may have a copy under the same id.
        let refused = by_index
            .into_iter()
            .map(|(index, ids)| json!({"bool": {"filter": [{"term": {"_index": index}}, {"ids": {"values": ids}}]}}));
        std::iter::once(json!({"terms": {"_index": self.blocked}})).chain(refused).collect()
    }
}

/// What is stored of a group.
#[derive(Debug, Clone)]
pub(super) struct StoredGroup {
    /// The earliest document of those that are stamped as first, or else of all.
    pub(super) best: Candidate,
    /// How many are stamped as first.
    pub(super) firsts: u64,
}

/// A document of a group. Its source is not read.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) hit: StoredHit,
    pub(super) is_first: bool,
}

impl Candidate {
    /// The order in which documents of one group are preferred: by time, those without one last; ties by name.
    fn order(&self) -> (bool, Option<i64>, &str, &str) {
        let time = self.hit.place;
        (time.is_none(), time, &self.hit.index, &self.hit.id)
    }
}

/// What groups of a range are to be looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RangeResult {
    /// The keys of those that have not exactly one first document.
    Unsure(Vec<i64>),
    /// There are more groups than one response can have.
    TooMany,
}

#[derive(Deserialize)]
struct Hit {
    #[serde(rename = "_index")]
    index: String,
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_routing")]
    routing: Option<String>,
    #[serde(rename = "_seq_no", default)]
    seq_no: u64,
    #[serde(rename = "_primary_term", default)]
    term: u64,
    #[serde(default)]
    fields: HashMap<String, Vec<Value>>,
    sort: Vec<Value>,
}

impl<'o> View<'o> {
    /// The view of a forest.
    ///
    /// # Errors
    /// If it is not complete: what is missing might have a first document.
    pub(super) async fn of(
        operator: &'o Operator,
        routes: &RouteTable,
        forest: &str,
    ) -> Result<View<'o>, BackfillError> {
        let mut view = View { operator, targets: Vec::new(), left_out: Vec::new(), unwritable: HashSet::new() };
        for (at, _) in routes.routes.iter().enumerate().filter(|(_, route)| route.forest == forest) {
            let found = discover_route(operator, routes, at).await?;
            if let Some(error) = found.failed {
                return Err(error);
            }
            if let Some(target) = found.target {
                view.add(target).await?;
            }
        }
        Ok(view)
    }

    async fn add(&mut self, target: RouteIndices) -> Result<(), BackfillError> {
        let mappings = target.stamp_mappings(self.operator).await?;
        let mut left_out = Vec::new();
        for index in &target.indices {
            let mapping = &mappings[index]["mappings"];
            // No document has been stamped there, and one shard without the field could not be searched by it.
            if mapping["properties"][target.names.key()].is_null() {
                left_out.push(index.clone());
                continue;
            }
            if let Some(fault) = mapping::search_fault(mapping, &target.names) {
                self.left_out.push(format!("{index}: {fault}"));
                left_out.push(index.clone());
            }
            self.unwritable.extend(mapping::update_fault(mapping).map(|_| index.clone()));
        }
        self.targets.extend(target.without(&left_out));
        Ok(())
    }

    /// The names of its indices.
    pub(super) fn indices(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().flat_map(|target| &target.indices).map(String::as_str)
    }

    /// Whether documents of an index may be updated.
    pub(super) fn is_writable(&self, index: &str) -> bool {
        !self.unwritable.contains(index)
    }

    /// The settings of its indices.
    pub(super) async fn settings(&self) -> Result<IndexSettings, BackfillError> {
        let mut all = IndexSettings::default();
        for target in &self.targets {
            all.add(target.settings(self.operator).await?);
        }
        all.blocked.extend(self.unwritable.iter().cloned());
        Ok(all)
    }

    /// How many documents say whether they are first.
    pub(super) async fn flagged(&self) -> Result<u64, BackfillError> {
        let mut all = 0;
        for target in &self.targets {
            let query = filtered(target, [json!({"exists": {"field": target.names.first()}})]);
            all += target.count(self.operator, &query).await?;
        }
        Ok(all)
    }

    /// Makes the latest writes visible, as far as the service user may.
    pub(super) async fn refresh(&self) -> Result<(), BackfillError> {
        for target in &self.targets {
            self.operator.refresh(target.expression(), 1).await?;
        }
        Ok(())
    }

    /// What is stored of these groups, at most [`MOST_GROUPS`] of them; those without a document are not in it.
    pub(super) async fn groups(
        &self,
        keys: &[i64],
        without: &PassedOver<'_>,
    ) -> Result<HashMap<i64, StoredGroup>, BackfillError> {
        let mut groups: HashMap<i64, StoredGroup> = HashMap::new();
        for target in &self.targets {
            let (key, first) = (target.names.key(), target.names.first());
            let mut query = filtered(target, [json!({"terms": {key: keys}})]);
            query["bool"]["must_not"] = without.query();
            let mut body = candidates(target, &query, keys.len());
            body["collapse"] = json!({"field": key});
            body["aggs"] = json!({"firsts": {
                "filter": {"term": {first: true}},
                "aggs": {"groups": {"terms": {"field": key, "size": keys.len().max(1)}}},
            }});
            let found = self.search(target, &body).await?;
            let found: SearchResponse<Hit> = SearchResponse::parse(&found)?;
            let firsts = counts_of(found.aggregations.as_ref().map(|all| &all["firsts"]["groups"]));
            for (key, best) in found.hits.into_iter().filter_map(|hit| candidate(target, hit)) {
                let firsts = firsts.get(&key).map_or(0, |counts| counts.0);
                let group = groups.entry(key).or_insert_with(|| StoredGroup { best: best.clone(), firsts: 0 });
                group.firsts += firsts;
                if (!best.is_first, best.order()) < (!group.best.is_first, group.best.order()) {
                    group.best = best;
                }
            }
        }
        Ok(groups)
    }

    /// The documents of these groups that are stamped as first, in order; of very many, some: at most so many.
    pub(super) async fn firsts(
        &self,
        keys: &[i64],
        most: usize,
    ) -> Result<BTreeMap<i64, Vec<Candidate>>, BackfillError> {
        self.sorted(keys, most, &PassedOver::default(), |first| json!({"term": {first: true}})).await
    }

    /// The documents of these groups that do not say whether they are first, in order; of very many, some.
    pub(super) async fn unflagged(
        &self,
        keys: &[i64],
        most: usize,
        without: &PassedOver<'_>,
    ) -> Result<BTreeMap<i64, Vec<Candidate>>, BackfillError> {
        let unflagged = |first: &str| json!({"bool": {"must_not": [{"exists": {"field": first}}]}});
        self.sorted(keys, most, without, unflagged).await
    }

    async fn sorted(
        &self,
        keys: &[i64],
        most: usize,
        without: &PassedOver<'_>,
        by_flag: impl Fn(&str) -> Value,
    ) -> Result<BTreeMap<i64, Vec<Candidate>>, BackfillError> {
        let mut all: BTreeMap<i64, Vec<Candidate>> = BTreeMap::new();
        for target in &self.targets {
            let filters = [json!({"terms": {target.names.key(): keys}}), by_flag(target.names.first())];
            let mut query = filtered(target, filters);
            query["bool"]["must_not"] = without.query();
            let body = candidates(target, &query, most);
            let found = self.search(target, &body).await?;
            let found: SearchResponse<Hit> = SearchResponse::parse(&found)?;
            for (key, candidate) in found.hits.into_iter().filter_map(|hit| candidate(target, hit)) {
                all.entry(key).or_default().push(candidate);
            }
        }
        for candidates in all.values_mut() {
            candidates.sort_by(|a, b| a.order().cmp(&b.order()));
        }
        Ok(all)
    }

    /// Looks at the groups of a range, as far as their documents have the field.
    pub(super) async fn range(&self, range: KeyRange) -> Result<RangeResult, BackfillError> {
        let mut firsts: HashMap<i64, u64> = HashMap::new();
        for target in &self.targets {
            let (key, first) = (target.names.key(), target.names.first());
            let filters =
                [json!({"exists": {"field": first}}), json!({"range": {key: {"gte": range.first, "lte": range.last}}})];
            let body = json!({
                "size": 0, "track_total_hits": false, "query": filtered(target, filters),
                "aggs": {"groups": {
                    "terms": {"field": key, "size": MOST_OF_RANGE},
                    "aggs": {"firsts": {"filter": {"term": {first: true}}}},
                }},
            });
            let found = match self.search(target, &body).await {
                Err(BackfillError::Operator(error)) if error.to_string().contains("too_many_buckets") => {
                    return Ok(RangeResult::TooMany);
                }
                found => found?,
            };
            let found: SearchResponse<Value> = SearchResponse::parse(&found)?;
            let groups = found.aggregations.as_ref().map(|all| &all["groups"]);
            let of_target = counts_of(groups);
            if of_target.len() >= MOST_OF_RANGE || groups.is_some_and(|all| all["sum_other_doc_count"] != 0) {
                return Ok(RangeResult::TooMany);
            }
            for (key, (_, of_group)) in of_target {
                *firsts.entry(key).or_default() += of_group;
            }
        }
        let mut unsure: Vec<i64> = firsts.into_iter().filter(|&(_, firsts)| firsts != 1).map(|(key, _)| key).collect();
        unsure.sort_unstable();
        Ok(RangeResult::Unsure(unsure))
    }

    async fn search(&self, target: &RouteIndices, body: &Value) -> Result<Bytes, BackfillError> {
        // Shards without a document of these are passed over, and so is an index without the fields.
        let path = format!(
            "/{}/_search?ignore_unavailable=true&allow_partial_search_results=false&pre_filter_shard_size=1",
            target.expression()
        );
        Ok(self.operator.ask_bytes(Method::POST, &path, Some(body)).await?)
    }

    /// The names of the stamp's members; `None`: there is no index.
    pub(super) fn names(&self) -> Option<&StampNames> {
        self.targets.first().map(|target| &target.names)
    }
}

/// How long until searches see a write.
pub(super) fn visible_after(settings: &IndexSettings) -> Duration {
    settings.refresh + Duration::from_millis(1_500)
}

fn filtered<const N: usize>(target: &RouteIndices, filters: [Value; N]) -> Value {
    let mut query = target.all();
    if let Some(all) = query["bool"]["filter"].as_array_mut() {
        all.extend(filters);
    }
    query
}

/// A search for documents, first ones before the others, then in the order of [`Candidate::order`] but for ties.
fn candidates(target: &RouteIndices, query: &Value, size: usize) -> Value {
    let names = &target.names;
    json!({
        "size": size, "track_total_hits": false, "seq_no_primary_term": true, "_source": false,
        "query": query,
        "docvalue_fields": [names.key(), names.first()],
        "sort": [
            // One that does not say is no worse than one that says it is not.
            {names.first(): {"order": "desc", "missing": 0, "unmapped_type": "boolean"}},
            {names.arrival(): {"order": "asc", "missing": "_last", "unmapped_type": "date", "numeric_type": "date"}},
            {"_seq_no": {"order": "asc", "unmapped_type": "long"}},
        ],
    })
}

fn candidate(target: &RouteIndices, hit: Hit) -> Option<(i64, Candidate)> {
    let value = |field: &str| hit.fields.get(field).and_then(|values| values.first());
    let key = value(target.names.key())?.as_i64()?;
    let is_first = value(target.names.first()) == Some(&Value::Bool(true));
    // The largest number stands for a missing one.
    let time = hit.sort.get(1).and_then(Value::as_i64).filter(|&time| time != i64::MAX);
    let hit = StoredHit {
        index: hit.index,
        id: hit.id,
        routing: hit.routing,
        seq_no: hit.seq_no,
        term: hit.term,
        source: Bytes::new(),
        place: time,
    };
    Some((key, Candidate { hit, is_first }))
}

/// By key, how many documents a bucket has, and how many of them are first.
fn counts_of(terms: Option<&Value>) -> HashMap<i64, (u64, u64)> {
    let buckets = terms.and_then(|terms| terms["buckets"].as_array()).into_iter().flatten();
    let counts = |bucket: &Value| {
        let firsts = bucket["firsts"]["doc_count"].as_u64().unwrap_or(0);
        Some((bucket["key"].as_i64()?, (bucket["doc_count"].as_u64()?, firsts)))
    };
    buckets.filter_map(counts).collect()
}
