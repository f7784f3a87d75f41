//! A small corpus whose groups are known, and what readers must be told of it: counted the naive way, over all
//! documents.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::random::Random;
use crate::common::{Server, Spinney};

/// The field that groups are timed by.
pub const TIME: &str = "date";

/// A spinney whose readers know the date of a document, and what `more` options say.
pub fn start(upstream: &str, more: &[&str]) -> Spinney {
    let base = ["--upstream", upstream, "--index", "news-*", "--time-field", TIME];
    Spinney::start(&[&base[..], more].concat())
}

/// One document.
#[derive(Debug, Clone, PartialEq)]
pub struct Doc {
    /// `None`: it has no stamp.
    pub key: Option<i64>,
    /// Days; `None`: it has no date.
    pub date: Option<i64>,
    pub reads: Option<i64>,
    pub topic: usize,
    pub medium: usize,
}

/// All documents of an index, by id.
pub type Docs = BTreeMap<String, Doc>;

pub const DAY: i64 = 86_400_000;

impl Doc {
    fn random(random: &mut Random, key: i64) -> Doc {
        Doc {
            key: (!random.percent(3)).then_some(key),
            // Few days: most times are those of others, too.
            date: (!random.percent(5)).then(|| random.below(12) as i64),
            reads: (!random.percent(10)).then(|| random.below(30) as i64),
            topic: random.below(4),
            medium: random.below(5),
        }
    }

    pub fn source(&self) -> Value {
        let mut source = json!({
            "topic": format!("t{}", self.topic),
            "medium": format!("m{}", self.medium),
            "title": "A title",
        });
        if let Some(key) = self.key {
            source["cluster_key"] = key.into();
            source["cluster_root"] = root(key).into();
        }
        if let Some(date) = self.date {
            source[TIME] = (date * DAY).into();
        }
        if let Some(reads) = self.reads {
            source["reads"] = reads.into();
        }
        source
    }

    pub fn time(&self) -> Option<i64> {
        self.date.map(|date| date * DAY)
    }
}

pub fn root(key: i64) -> String {
    format!("{:016x}", key.cast_unsigned())
}

/// A key such as a fingerprint gives: spread over all numbers.
pub fn key(number: usize) -> i64 {
    spinney::hash::SplitMix64(number as u64).next_u64().cast_signed()
}

/// Documents of which most are alone and some groups are large.
pub fn random_docs(random: &mut Random) -> Docs {
    let size = random.between(200, 600);
    let mut docs = Docs::new();
    let mut group = 0;
    while docs.len() < size {
        group += 1;
        let members = match random.below(10) {
            0..6 => 1,
            6..9 => random.between(2, 4),
            _ => random.between(5, 30),
        };
        for _ in 0..members {
            docs.insert(format!("d{}", docs.len()), Doc::random(random, key(group)));
        }
    }
    docs
}

/// Deletes, changes, moves and adds some documents.
pub fn change(random: &mut Random, docs: &mut Docs) {
    let ids: Vec<String> = docs.keys().cloned().collect();
    for id in ids {
        match random.below(20) {
            0 | 1 => drop(docs.remove(&id)),
            2 => {
                let key = key(random.below(60));
                docs.get_mut(&id).unwrap().key = Some(key);
            }
            3 => {
                let key = docs[&id].key.unwrap_or_default();
                docs.insert(id, Doc::random(random, key));
            }
            _ => {}
        }
    }
    for added in 0..20 {
        let key = key(random.below(400));
        docs.insert(format!("a{added}"), Doc::random(random, key));
    }
}

/// The groups of which a document came, went or changed.
pub fn touched(before: &Docs, after: &Docs) -> Vec<i64> {
    let changed = |from: &Docs, to: &Docs| -> Vec<i64> {
        let changed = from.iter().filter(|(id, doc)| to.get(*id) != Some(doc));
        changed.filter_map(|(_, doc)| doc.key).collect()
    };
    [changed(before, after), changed(after, before)].concat()
}

pub async fn create(server: &Server, index: &str, shards: usize) {
    let body = json!({
        "settings": {"number_of_shards": shards, "number_of_replicas": 0},
        "mappings": {"properties": {
            "cluster_root": {"type": "keyword"},
            "cluster_key": {"type": "long"},
            "date": {"type": "date"},
            "reads": {"type": "integer"},
            "topic": {"type": "keyword"},
            "medium": {"type": "keyword"},
        }},
    });
    server.create_index(index, body).await;
}

/// Makes the index hold exactly these documents.
pub async fn store(server: &Server, index: &str, before: &Docs, docs: &Docs) {
    let mut lines = Vec::new();
    for id in before.keys().filter(|id| !docs.contains_key(*id)) {
        lines.push(json!({"delete": {"_id": id}}));
    }
    for (id, doc) in docs {
        if before.get(id) != Some(doc) {
            lines.push(json!({"index": {"_id": id}}));
            lines.push(doc.source());
        }
    }
    bulk(server, index, &lines).await;
}

/// Sends lines of a bulk and refreshes.
pub async fn bulk(server: &Server, index: &str, lines: &[Value]) {
    if !lines.is_empty() {
        let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let url = format!("{}/{index}/_bulk?refresh=true", server.url());
        let client = crate::common::http();
        let request = client.request(Method::POST, url).header("content-type", "application/x-ndjson").body(body);
        let answer = request.send().await.unwrap().bytes().await.unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["errors"], false, "{answer}");
    }
}

/// A query, and which documents it takes with which score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Query {
    All,
    /// One topic.
    Topic,
    /// Two topics or a medium, with scores.
    Scored,
}

impl Query {
    pub fn body(self) -> Value {
        let constant = |field: &str, value: &str, boost: u32| json!({"constant_score": {"filter": {"term": {(field): value}}, "boost": boost}});
        match self {
            Query::All => json!({"match_all": {}}),
            // A plain term would have other scores on each shard.
            Query::Topic => constant("topic", "t1", 1),
            Query::Scored => json!({"bool": {"should": [
                constant("topic", "t1", 1), constant("topic", "t2", 4), constant("medium", "m0", 2),
            ]}}),
        }
    }

    /// The score; `None`: it is not among them.
    pub fn score(self, doc: &Doc) -> Option<i64> {
        match self {
            Query::All => Some(1),
            Query::Topic => (doc.topic == 1).then_some(1),
            Query::Scored => {
                let topic = match doc.topic {
                    1 => 1,
                    2 => 4,
                    _ => 0,
                };
                let medium = if doc.medium == 0 { 2 } else { 0 };
                (topic + medium > 0).then_some(topic + medium)
            }
        }
    }
}

/// A group as it must be shown.
#[derive(Debug, Clone)]
pub struct Expected {
    pub key: i64,
    pub similar: u64,
    pub matching: u64,
    pub media: u64,
    pub first: Option<i64>,
    pub last: Option<i64>,
    pub last_matching: Option<i64>,
    /// Its documents under the query.
    pub ids: Vec<String>,
}

/// All groups under a query, counted one document after the other, in the order of their keys.
pub fn naive(docs: &Docs, query: Query) -> Vec<Expected> {
    let mut groups: BTreeMap<i64, Vec<(&String, &Doc)>> = BTreeMap::new();
    for (id, doc) in docs {
        if let Some(key) = doc.key {
            groups.entry(key).or_default().push((id, doc));
        }
    }
    let expected = groups.into_iter().map(|(key, all)| {
        let matching: Vec<_> = all.iter().filter(|(_, doc)| query.score(doc).is_some()).collect();
        let mut media: Vec<usize> = all.iter().map(|(_, doc)| doc.medium).collect();
        media.sort_unstable();
        media.dedup();
        let times = all.iter().filter_map(|(_, doc)| doc.time());
        Expected {
            key,
            similar: all.len() as u64,
            matching: matching.len() as u64,
            media: media.len() as u64,
            first: times.clone().min(),
            last: times.max(),
            last_matching: matching.iter().filter_map(|(_, doc)| doc.time()).max(),
            ids: matching.iter().map(|(id, _)| (*id).clone()).collect(),
        }
    });
    expected.filter(|group| group.matching > 0).collect()
}

/// Puts groups into the order of a sort: ties by the newest document in the whole index, then by key; under a query for
/// the matching count, and for fields, by key alone.
pub fn sort(groups: &mut [Expected], docs: &Docs, query: Query, by: &str, ascending: bool) {
    let directed = |order: Ordering| if ascending { order } else { order.reverse() };
    // What has no value stands last in both directions.
    let field = |group: &Expected| {
        let values = group.ids.iter().filter_map(|id| {
            let doc = &docs[id];
            match by {
                "_score" => query.score(doc),
                "date" => doc.time(),
                _ => doc.reads,
            }
        });
        if ascending { values.min() } else { values.max() }
    };
    groups.sort_by(|a, b| {
        let order = match by {
            "similar_count" => directed(a.similar.cmp(&b.similar)).then(b.last.cmp(&a.last)),
            // Those of one document are walked.
            "matching_count" if query == Query::All || (a.matching, b.matching) == (1, 1) => {
                directed(a.matching.cmp(&b.matching)).then(b.last_matching.cmp(&a.last_matching))
            }
            "matching_count" => directed(a.matching.cmp(&b.matching)),
            _ => match (field(a), field(b)) {
                (Some(a), Some(b)) => directed(a.cmp(&b)),
                (a, b) => b.is_some().cmp(&a.is_some()),
            },
        };
        order.then(a.key.cmp(&b.key))
    });
}
