//! Documents without the value that a list is sorted by: each of them comes once, behind the others, on any number of
//! shards. The servers themselves leave some out, or never answer, where a sort by a date reaches those without one.

use std::collections::BTreeMap;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::corpus::{self, TIME};
use super::groups::read_all;
use crate::common::random::Random;
use crate::common::{SearchServer, Server, on_each_server, unique_index};

const HOUR: i64 = 3_600_000;
/// 2026-11-01 in hours.
const FIRST_HOUR: i64 = 498_192;

/// A document, with the place that its value has in the order of each field; those that it lacks are not there.
struct Doc {
    key: i64,
    places: BTreeMap<&'static str, i64>,
    source: Value,
}

/// How a mapping writes the hours since November began.
type Written = fn(i64) -> Value;

/// Mappings of times in which the smallest or the largest time is not read back as it is written.
fn mappings() -> [(Value, Written); 3] {
    let custom: Written = |hour| format!("2026/11/{:02} {:02}:00:00", hour / 24 + 1, hour % 24).into();
    let nanos: Written = |hour| format!("2026-11-{:02}T{:02}:00:00.000000001Z", hour / 24 + 1, hour % 24).into();
    let short: Written = |hour| format!("202611{:02}T{:02}0000Z", hour / 24 + 1, hour % 24).into();
    [
        (json!({"type": "date", "format": "yyyy/MM/dd HH:mm:ss||strict_date_optional_time"}), custom),
        (json!({"type": "date_nanos"}), nanos),
        (json!({"type": "date", "format": "basic_date_time_no_millis"}), short),
    ]
}

const MEMBERS: i64 = 60;

/// Groups of one document or two, and one of [`MEMBERS`]; of each value three documents in ten have none.
fn documents(random: &mut Random, written: Written) -> Vec<Doc> {
    let mut document = |key| {
        let mut doc = Doc { key, places: BTreeMap::new(), source: json!({"cluster_key": key}) };
        doc.source["cluster_root"] = corpus::root(key).into();
        let mut add = |field: &'static str, write: &dyn Fn(i64) -> Value| {
            if !random.percent(30) {
                // Many share a time.
                let place = if random.percent(20) { 400 } else { random.below(600) as i64 };
                doc.places.insert(field, place);
                doc.source[field] = write(place);
            }
        };
        add(TIME, &written);
        add("nanos", &|hour| json!((FIRST_HOUR + hour) * HOUR));
        add("reads", &|reads| reads.into());
        add("name", &|name| format!("n{name:03}").into());
        doc
    };
    let mut docs: Vec<Doc> = (0..MEMBERS).map(|_| document(corpus::key(0))).collect();
    for group in 1..400 {
        docs.extend((0..1 + group % 2).map(|_| document(corpus::key(group))));
    }
    docs
}

on_each_server!(each_group_comes_once_in_every_order);

async fn each_group_comes_once_in_every_order(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &["--counts", "off"]);
    let reader = Server::new(&spinney.url);
    let mut random = Random::new(49);
    for (mapping, written) in mappings() {
        let index = unique_index("missing");
        let body = json!({
            "settings": {"number_of_shards": 3, "number_of_replicas": 0},
            "mappings": {"properties": {
                "cluster_key": {"type": "long"}, "cluster_root": {"type": "keyword"}, (TIME): mapping,
                "nanos": {"type": "date_nanos"}, "reads": {"type": "integer"}, "name": {"type": "keyword"},
            }},
        });
        server.create_index(&index, body).await;
        let docs = documents(&mut random, written);
        // In several segments.
        for (part, docs) in docs.chunks(200).enumerate() {
            let lines = docs
                .iter()
                .enumerate()
                .flat_map(|(nth, doc)| [json!({"index": {"_id": format!("{part}-{nth}")}}), doc.source.clone()]);
            corpus::bulk(&server, &index, &lines.collect::<Vec<_>>()).await;
        }
        let mut keys: Vec<i64> = docs.iter().map(|doc| doc.key).collect();
        keys.sort_unstable();
        keys.dedup();
        // All, and so few that the first page reaches those without a value.
        let questions = [TIME, "nanos", "reads", "name", "similar_count"]
            .map(|field| ["asc", "desc"].map(|order| [i64::MAX, keys[40]].map(|most| (field, order, most))));
        for (field, order, most) in questions.into_iter().flatten().flatten() {
            let size = random.pick(&[20, 37, 100]);
            let question = json!({
                "query": {"range": {"cluster_key": {"lte": most}}}, "sort": {field: order}, "size": size,
                "_source": false, "exact": true,
            });
            let pages = read_all(&reader, &index, &question).await;
            let groups = pages.iter().flat_map(|page| page["groups"].as_array().unwrap());
            let found: Vec<i64> = groups.map(|group| group["key"].as_i64().unwrap()).collect();
            let expected = in_order(&docs, most, field, order == "asc");
            let lost = expected.iter().filter(|key| !found.contains(key)).count();
            let (read, all) = (found.len(), expected.len());
            assert!(found == expected, "{mapping} {question}: {read} of {all} groups, {lost} left out");
        }
        members_come_once(&reader, &index, &docs).await;
        server.delete_index(&index).await;
    }
}

/// The keys of groups, up to the highest one, as a list by this field has them.
fn in_order(docs: &[Doc], most: i64, field: &str, ascending: bool) -> Vec<i64> {
    let mut groups: BTreeMap<i64, Vec<&Doc>> = BTreeMap::new();
    for doc in docs.iter().filter(|doc| doc.key <= most) {
        groups.entry(doc.key).or_default().push(doc);
    }
    let directed = |place: i64| if ascending { place } else { -place };
    let best = |docs: &[&Doc], field: &str, directed: &dyn Fn(i64) -> i64| {
        let best = docs.iter().filter_map(|doc| doc.places.get(field).copied().map(directed)).min();
        // Those without a value are the last ones.
        (best.is_none(), best)
    };
    let mut keys: Vec<i64> = groups.keys().copied().collect();
    keys.sort_by_cached_key(|key| {
        let docs = &groups[key];
        match field {
            "similar_count" => (directed(docs.len() as i64), best(docs, TIME, &|hour| -hour), *key),
            _ => (0, best(docs, field, &directed), *key),
        }
    });
    keys
}

/// Reads the largest group page by page.
async fn members_come_once(reader: &Server, index: &str, docs: &[Doc]) {
    let key = corpus::key(0);
    let (mut ids, mut times, mut next) = (Vec::new(), Vec::new(), String::new());
    loop {
        let path = format!("/_spinney/{index}/_roots/{}?size=7&_source=false&cursor={next}", corpus::root(key));
        let (status, page) = reader.request(Method::GET, &path, None).await;
        assert!(status == StatusCode::OK && page["total"] == MEMBERS, "{status} {page}");
        for hit in page["hits"].as_array().unwrap() {
            ids.push(hit["_id"].as_str().unwrap().to_owned());
            let time = hit["time"].as_str().map(|time| spinney::time::parse_date(time).unwrap().0);
            times.push((time.is_none(), time));
        }
        match page["next"].as_str() {
            Some(cursor) => cursor.clone_into(&mut next),
            None => break,
        }
    }
    let mut distinct = ids.clone();
    distinct.sort();
    distinct.dedup();
    let with_time = docs.iter().filter(|doc| doc.key == key && doc.places.contains_key(TIME)).count();
    let timed = times.iter().filter(|(is_missing, _)| !is_missing).count();
    assert_eq!((ids.len() as i64, distinct.len() as i64, timed), (MEMBERS, MEMBERS, with_time));
    assert!(times.is_sorted(), "{times:?}");
}
