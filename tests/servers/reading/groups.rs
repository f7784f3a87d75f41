//! `POST /_spinney/{index}/_groups`, every page of it, against a naive computation over all documents.

use std::collections::HashSet;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::corpus::{self, DAY, Docs, Expected, Query};
use crate::common::random::Random;
use crate::common::{self, SearchServer, Server, on_each_server, unique_index};

/// How true the index of roots is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Roots {
    Missing,
    True,
    /// It has what was true before the last changes, and some of that not at all.
    Late,
}

async fn write_roots(server: &Server, index: &str, docs: &Docs, random: &mut Random, all: bool) {
    let roots = format!("spinney-roots-{index}");
    let groups = corpus::naive(docs, Query::All);
    let mut lines = Vec::new();
    for group in groups.iter().filter(|group| group.similar >= 2) {
        if all || !random.percent(20) {
            lines.push(json!({"index": {"_id": group.key.to_string()}}));
            lines.push(json!({
                "cluster_key": group.key, "cluster_root": corpus::root(group.key), "n": group.similar,
                "last": group.last,
            }));
        }
    }
    let body = json!({
        "settings": {"number_of_shards": 1, "number_of_replicas": 0},
        "mappings": {"properties": {
            "cluster_key": {"type": "long"}, "cluster_root": {"type": "keyword"}, "n": {"type": "integer"},
            "last": {"type": "date"},
        }},
    });
    server.create_index(&roots, body).await;
    corpus::bulk(server, &roots, &lines).await;
}

/// All pages of a question.
pub async fn read_all(spinney: &Server, index: &str, question: &Value) -> Vec<Value> {
    let path = format!("/_spinney/{index}/_groups");
    let mut pages = Vec::new();
    let mut question = question.clone();
    loop {
        let (status, page) = spinney.request(Method::POST, &path, Some(question.clone())).await;
        assert_eq!(status, StatusCode::OK, "{question} {page}");
        let next = page["next"].clone();
        pages.push(page);
        match next {
            Value::Null => return pages,
            next => question["cursor"] = next,
        }
        assert!(pages.len() < 2000, "no end: {question}");
    }
}

fn millis(date: &Value) -> Option<i64> {
    let date = date.as_str()?;
    Some(spinney::time::parse_date(date).unwrap().0)
}

fn assert_numbers(group: &Value, expected: &Expected) {
    assert_eq!(group["root"], corpus::root(expected.key));
    assert_eq!(group["similar_count"], expected.similar, "{group}");
    assert_eq!(group["matching_count"], expected.matching, "{group}");
    assert_eq!(group["media"], expected.media, "{group}");
    assert_eq!(millis(&group["first"]), expected.first, "{group}");
    assert_eq!(millis(&group["last"]), expected.last, "{group}");
    let id = group["representative"]["_id"].as_str().unwrap();
    assert!(expected.ids.iter().any(|of| of == id), "{group}");
}

const SORTS: [&str; 5] = ["similar_count", "matching_count", "_score", "date", "reads"];
const SIZES: [usize; 4] = [7, 20, 50, 100];

/// A cursor to the first page that lists the groups in this way: first pages choose by the number of documents, and
/// pages after them by the cursor.
/// `by_documents`: from a list that is not kept any more; otherwise from the index of roots.
fn first_cursor(index: &str, query: &Value, ascending: bool, exact: bool, by_documents: bool) -> String {
    use base64::Engine as _;
    let direction = if ascending { "Ascending" } else { "Descending" };
    let question = format!("{index} {query} SimilarCount {direction} {exact}");
    let question = xxhash_rust::xxh3::xxh3_64(question.as_bytes());
    let place = if ascending { "Walked" } else { "Listed" };
    let list = by_documents.then_some(1);
    let cursor = json!([3, {"place": {(place): null}, "total": null, "listing": "Index", "list": list}]).to_string();
    let checksum = xxhash_rust::xxh3::xxh3_64_with_seed(cursor.as_bytes(), question);
    let bytes = [&checksum.to_le_bytes(), cursor.as_bytes()].concat();
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

/// Groups under a query in the order of the whole index, as for many documents: those of the list for few ones.
async fn compare_order_of_index(spinney: &Server, index: &str, docs: &Docs, random: &mut Random, roots: Roots) {
    for query in [Query::Topic, Query::Scored] {
        for ascending in [true, false] {
            let exact = random.percent(50);
            let by_documents = exact || roots == Roots::Missing;
            let order = if ascending { "asc" } else { "desc" };
            let mut expected = corpus::naive(docs, query);
            // A page may end where the list does.
            let listed = expected.iter().filter(|group| group.similar >= 2).count();
            let size = if random.percent(50) { listed.clamp(1, 100) } else { random.pick(&SIZES) };
            let question = json!({
                "query": query.body(), "sort": {"similar_count": order}, "size": size, "exact": exact,
                "cursor": first_cursor(index, &query.body(), ascending, exact, by_documents), "_source": false,
            });
            let pages = read_all(spinney, index, &question).await;
            let mut found: Vec<&Value> = pages.iter().flat_map(|page| page["groups"].as_array().unwrap()).collect();
            corpus::sort(&mut expected, docs, query, "similar_count", ascending);
            if roots == Roots::Late && !exact {
                // In the order of the entries.
                found.sort_by_key(|group| group["key"].as_i64());
                expected.sort_by_key(|group| group.key);
            }
            let keys: Vec<i64> = found.iter().map(|group| group["key"].as_i64().unwrap()).collect();
            let wanted: Vec<i64> = expected.iter().map(|group| group.key).collect();
            assert_eq!(keys, wanted, "{question} {roots:?}");
            for (group, expected) in found.iter().zip(&expected) {
                assert_numbers(group, expected);
            }
        }
    }
}

/// Every sort, both ways, under every query, with pages of some size: as the naive list.
async fn compare(spinney: &Server, index: &str, docs: &Docs, random: &mut Random, roots: Roots) {
    compare_order_of_index(spinney, index, docs, random, roots).await;
    for query in [Query::All, random.pick(&[Query::Topic, Query::Scored])] {
        let groups = corpus::naive(docs, query);
        for by in SORTS {
            for ascending in [true, false] {
                let size = random.pick(&SIZES);
                let exact = random.percent(30);
                let total = random.percent(60);
                let order = if ascending { "asc" } else { "desc" };
                let question = json!({
                    "query": query.body(), "sort": {by: order}, "size": size, "exact": exact,
                    "total": total, "_source": ["title"],
                });
                let pages = read_all(spinney, index, &question).await;
                let told = format!("{question} {roots:?}");
                let follows_roots = query == Query::All && by.ends_with("_count") && !exact && roots == Roots::Late;
                let mut expected = groups.clone();
                corpus::sort(&mut expected, docs, query, by, ascending);
                let found: Vec<&Value> = pages.iter().flat_map(|page| page["groups"].as_array().unwrap()).collect();
                let keys: Vec<i64> = found.iter().map(|group| group["key"].as_i64().unwrap()).collect();
                let wanted: Vec<i64> = expected.iter().map(|group| group.key).collect();
                if follows_roots {
                    let all: HashSet<i64> = keys.iter().copied().collect();
                    assert_eq!(all.len(), keys.len(), "a group came twice: {told}");
                    assert_eq!(all, wanted.iter().copied().collect(), "{told}");
                    expected.sort_by_key(|group| keys.iter().position(|&key| key == group.key));
                } else {
                    assert_eq!(keys, wanted, "{told}");
                    // Nobody counts here: whether the index of roots is true, nobody knows.
                    let by_roots = query == Query::All && by.ends_with("_count") && !exact;
                    let is_exact = !(by_roots && roots == Roots::True);
                    let relation = if is_exact { "eq" } else { "approx" };
                    let number = json!({"value": groups.len(), "relation": relation});
                    let number = if total { number } else { Value::Null };
                    for page in &pages {
                        assert_eq!(page["total"], number, "{told}");
                    }
                    let full = pages.len().saturating_sub(1);
                    assert!(
                        pages.iter().take(full).all(|page| page["groups"].as_array().unwrap().len() == size),
                        "{told}"
                    );
                    assert_eq!(pages.len(), groups.len().div_ceil(size).max(1), "{told}");
                }
                for (group, expected) in found.iter().zip(&expected) {
                    assert_numbers(group, expected);
                }
                let unstamped = docs.values().filter(|doc| doc.key.is_none() && query.score(doc).is_some()).count();
                let note = pages[0]["notes"].to_string();
                assert_eq!(
                    note.contains(&format!("{unstamped} documents under the query have no stamp")),
                    unstamped > 0,
                    "{note}"
                );
            }
        }
    }
}

async fn as_the_naive_list(upstream: &str, shards: usize) {
    let server = Server::new(upstream);
    let index = unique_index("groups");
    let roots = format!("spinney-roots-{index}");
    let spinney = corpus::start(upstream, &["--medium-field", "medium"]);
    let reader = Server::new(&spinney.url);
    let mut random = Random::new(7 + shards as u64);
    let mut docs = corpus::random_docs(&mut random);
    corpus::create(&server, &index, shards).await;
    corpus::store(&server, &index, &Docs::new(), &docs).await;

    compare(&reader, &index, &docs, &mut random, Roots::Missing).await;
    write_roots(&server, &index, &docs, &mut random, true).await;
    compare(&reader, &index, &docs, &mut random, Roots::True).await;
    server.delete_index(&roots).await;

    write_roots(&server, &index, &docs, &mut random, false).await;
    let before = docs.clone();
    corpus::change(&mut random, &mut docs);
    corpus::store(&server, &index, &before, &docs).await;
    compare(&reader, &index, &docs, &mut random, Roots::Late).await;
    server.delete_index(&roots).await;
    compare(&reader, &index, &docs, &mut random, Roots::Missing).await;
    server.delete_index(&index).await;
}

#[tokio::test]
async fn opensearch_one_shard() {
    as_the_naive_list(&common::opensearch(), 1).await;
}

#[tokio::test]
async fn opensearch_two_shards() {
    as_the_naive_list(&common::opensearch(), 2).await;
}

#[tokio::test]
async fn opensearch_five_shards() {
    as_the_naive_list(&common::opensearch(), 5).await;
}

#[tokio::test]
async fn elasticsearch_one_shard() {
    as_the_naive_list(&common::elasticsearch(), 1).await;
}

#[tokio::test]
async fn elasticsearch_two_shards() {
    as_the_naive_list(&common::elasticsearch(), 2).await;
}

#[tokio::test]
async fn elasticsearch_five_shards() {
    as_the_naive_list(&common::elasticsearch(), 5).await;
}

on_each_server!(many_groups_under_a_query);

/// More groups than a shard tells of, so that the largest prove themselves, and the others take a list.
async fn many_groups_under_a_query(search_server: SearchServer) {
    let mut random = Random::new(5);
    let mut docs = Docs::new();
    for group in 0..3000 {
        let members = match group {
            0..160 => random.between(10, 40),
            _ => 1 + usize::from(group % 3 == 0),
        };
        for _ in 0..members {
            let doc = corpus::Doc {
                key: Some(corpus::key(group)),
                date: Some(random.below(12) as i64),
                reads: None,
                topic: 1,
                medium: 0,
            };
            docs.insert(format!("d{}", docs.len()), doc);
        }
    }
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let index = unique_index("groups-many");
    corpus::create(&server, &index, 2).await;
    corpus::store(&server, &index, &Docs::new(), &docs).await;
    let spinney = corpus::start(&upstream, &["--medium-field", "medium"]);
    let reader = Server::new(&spinney.url);
    for order in ["desc", "asc"] {
        let mut question = json!({
            "query": Query::Topic.body(), "sort": {"matching_count": order}, "size": 20, "total": false,
            "_source": false,
        });
        let path = format!("/_spinney/{index}/_groups");
        let (mut pages, mut lists) = (Vec::new(), Vec::new());
        for _ in 0..9 {
            let (_, page) = reader.request(Method::POST, &path, Some(question.clone())).await;
            question["cursor"] = page["next"].clone();
            lists.push(cursor_of(&page)["list"].clone());
            pages.push(page);
        }
        assert!(lists[0].is_null(), "no list was needed: {lists:?}");
        if order == "desc" {
            // It is made for the second page, and kept.
            assert!(lists[1].is_number() && lists[1..].iter().all(|list| *list == lists[1]), "{lists:?}");
        }
        question["size"] = json!(100);
        pages.extend(read_all(&reader, &index, &question).await);
        let keys: Vec<i64> = pages
            .iter()
            .flat_map(|page| page["groups"].as_array().unwrap())
            .map(|group| group["key"].as_i64().unwrap())
            .collect();
        let mut expected = corpus::naive(&docs, Query::Topic);
        let ascending = order == "asc";
        corpus::sort(&mut expected, &docs, Query::Topic, "matching_count", ascending);
        let expected: Vec<i64> = expected.iter().map(|group| group.key).collect();
        assert!(keys == expected, "{order} {upstream}");
    }
    by_similar_count_of_many(&server, &reader, &index, &docs).await;
    server.delete_index(&index).await;
}

/// What a cursor says.
fn cursor_of(page: &Value) -> Value {
    use base64::Engine as _;
    let cursor = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(page["next"].as_str().unwrap());
    let cursor: Value = serde_json::from_slice(&cursor.unwrap()[8..]).unwrap();
    cursor[1].clone()
}

/// With an index of roots a query of many documents is read in its order, without one, or exactly, from a list: the
/// same groups in the same order.
async fn by_similar_count_of_many(server: &Server, reader: &Server, index: &str, docs: &Docs) {
    let mut random = Random::new(6);
    write_roots(server, index, docs, &mut random, true).await;
    let path = format!("/_spinney/{index}/_groups");
    for (order, exact, listing) in
        [("desc", false, "Index"), ("asc", false, "Index"), ("desc", true, "All"), ("asc", true, "All")]
    {
        let question = json!({
            "query": Query::Topic.body(), "sort": {"similar_count": order}, "size": 100, "exact": exact,
        });
        let (_, first) = reader.request(Method::POST, &path, Some(question.clone())).await;
        let cursor = cursor_of(&first);
        assert_eq!((&cursor["listing"], cursor["list"].is_null()), (&json!(listing), !exact), "{question} {first}");
        // Nobody counts here.
        let has_note = first["notes"].to_string().contains("the order of groups follows the index of roots");
        assert_eq!(has_note, !exact, "{first}");
        let pages = read_all(reader, index, &question).await;
        let mut expected = corpus::naive(docs, Query::Topic);
        corpus::sort(&mut expected, docs, Query::Topic, "similar_count", order == "asc");
        let total = json!({"value": expected.len(), "relation": "eq"});
        assert!(pages.iter().all(|page| page["total"] == total), "{total} {}", pages[0]["total"]);
        let keys = pages.iter().flat_map(|page| page["groups"].as_array().unwrap());
        let keys: Vec<i64> = keys.map(|group| group["key"].as_i64().unwrap()).collect();
        assert!(keys == expected.iter().map(|group| group.key).collect::<Vec<_>>(), "{question}");
    }
    server.delete_index(&format!("spinney-roots-{index}")).await;
}

/// Between two pages documents come, change and go: of the groups that nobody wrote to, none comes twice and none is
/// left out.
#[tokio::test]
async fn what_nobody_writes_to_is_neither_repeated_nor_skipped() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &["--medium-field", "medium"]);
    let reader = Server::new(&spinney.url);
    let mut random = Random::new(3);
    for (by, order) in [("matching_count", "desc"), ("matching_count", "asc"), ("date", "desc"), ("reads", "asc")] {
        let index = unique_index("groups-moving");
        let mut docs = corpus::random_docs(&mut random);
        corpus::create(&server, &index, 2).await;
        corpus::store(&server, &index, &Docs::new(), &docs).await;
        let path = format!("/_spinney/{index}/_groups");
        let mut question = json!({"sort": {by: order}, "size": 9, "exact": true});
        let before = docs.clone();
        let mut shown: Vec<i64> = Vec::new();
        let mut touched = HashSet::new();
        let mut changes = 0;
        loop {
            let (status, page) = reader.request(Method::POST, &path, Some(question.clone())).await;
            assert_eq!(status, StatusCode::OK, "{page}");
            shown.extend(page["groups"].as_array().unwrap().iter().map(|group| group["key"].as_i64().unwrap()));
            question["cursor"] = page["next"].clone();
            if page["next"].is_null() {
                break;
            }
            if changes < 2 && random.percent(30) {
                changes += 1;
                let earlier = docs.clone();
                corpus::change(&mut random, &mut docs);
                corpus::store(&server, &index, &earlier, &docs).await;
                touched.extend(corpus::touched(&earlier, &docs));
            }
        }
        let mut untouched = 0;
        for group in corpus::naive(&before, Query::All) {
            if !touched.contains(&group.key) {
                let times = shown.iter().filter(|&&key| key == group.key).count();
                assert_eq!(times, 1, "{group:?} {by} {order}");
                untouched += 1;
            }
        }
        assert!(untouched > 8, "{untouched} untouched groups say nothing");
        server.delete_index(&index).await;
    }
}

/// The index of roots goes between two pages. The documents order groups of equal count otherwise, so a cursor does not
/// go on there: it is refused, and the list can begin again.
#[tokio::test]
async fn the_index_of_roots_may_go_between_two_pages() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &["--medium-field", "medium"]);
    let reader = Server::new(&spinney.url);
    let mut random = Random::new(11);
    let docs = corpus::random_docs(&mut random);
    let index = unique_index("groups-gone");
    corpus::create(&server, &index, 2).await;
    corpus::store(&server, &index, &Docs::new(), &docs).await;
    let path = format!("/_spinney/{index}/_groups");
    let mut expected = corpus::naive(&docs, Query::All);
    for (order, pages_before, how) in
        [("desc", 1, "gone"), ("asc", 1, "closed"), ("desc", 6, "closed"), ("asc", 6, "gone")]
    {
        write_roots(&server, &index, &docs, &mut random, true).await;
        let mut question = json!({"sort": {"similar_count": order}, "size": 12});
        let roots = format!("spinney-roots-{index}");
        corpus::sort(&mut expected, &docs, Query::All, "similar_count", order == "asc");
        let expected: Vec<i64> = expected.iter().map(|group| group.key).collect();
        let mut shown: Vec<i64> = Vec::new();
        let mut pages = 0;
        let refused = loop {
            let (status, page) = reader.request(Method::POST, &path, Some(question.clone())).await;
            if status != StatusCode::OK {
                break (status, page);
            }
            shown.extend(page["groups"].as_array().unwrap().iter().map(|group| group["key"].as_i64().unwrap()));
            assert!(!page["next"].is_null(), "{order} {how}: goes on by the documents");
            question["cursor"] = page["next"].clone();
            pages += 1;
            if pages == pages_before && how == "gone" {
                server.delete_index(&roots).await;
            } else if pages == pages_before {
                let (status, answer) = server.request(Method::POST, &format!("/{roots}/_close"), None).await;
                assert!(status.is_success(), "{answer}");
            }
        };
        // What the walk alone can tell is no different.
        assert!(pages >= pages_before && expected.starts_with(&shown), "{order} {how}");
        let (status, answer) = refused;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        assert_eq!(answer["error"]["type"], "spinney_request_exception", "{answer}");
        let reason = answer["error"]["reason"].as_str().unwrap();
        assert!(reason.contains("[cursor] goes on in the order of the index of roots"), "{reason}");
        assert!(reason.contains("leave it away for the first page"), "{reason}");

        question.as_object_mut().unwrap().remove("cursor");
        let pages = read_all(&reader, &index, &question).await;
        let shown = pages.iter().flat_map(|page| page["groups"].as_array().unwrap());
        assert_eq!(shown.map(|group| group["key"].as_i64().unwrap()).collect::<Vec<_>>(), expected, "{order} {how}");
        if how == "closed" {
            server.delete_index(&roots).await;
        }
    }
    server.delete_index(&index).await;
}

/// While groups are counted, the index of roots changes from page to page. Every group comes once, and numbers are
/// exact.
#[tokio::test]
async fn the_index_of_roots_may_be_made_between_two_pages() {
    let upstream = common::elasticsearch();
    let server = Server::new(&upstream);
    // It counts, and gets nowhere: the entries are written here.
    let options = ["--medium-field", "medium", "--counts", "on", "--service-url", "http://127.0.0.1:1/away"];
    let spinney = corpus::start(&upstream, &options);
    let reader = Server::new(&spinney.url);
    let mut random = Random::new(19);
    let docs = corpus::random_docs(&mut random);
    let index = unique_index("groups-made");
    let roots = format!("spinney-roots-{index}");
    corpus::create(&server, &index, 2).await;
    corpus::store(&server, &index, &Docs::new(), &docs).await;
    let expected = corpus::naive(&docs, Query::All);
    let path = format!("/_spinney/{index}/_groups");
    for (order, stages) in [("asc", 2), ("desc", 2), ("asc", 9), ("desc", 9)] {
        write_roots(&server, &index, &Docs::new(), &mut random, true).await;
        let listed: Vec<&Expected> = expected.iter().filter(|group| group.similar >= 2).collect();
        let mut stages = listed.chunks(listed.len().div_ceil(stages));
        let mut question = json!({"sort": {"similar_count": order}, "size": 9});
        let mut shown: Vec<i64> = Vec::new();
        while !question["cursor"].is_null() || shown.is_empty() {
            let mut lines = Vec::new();
            for group in stages.next().unwrap_or_default() {
                // Some are wrong, as if they were counted a while ago.
                let n = group.similar + u64::from(random.percent(30));
                lines.push(json!({"index": {"_id": group.key.to_string()}}));
                let root = corpus::root(group.key);
                lines.push(json!({"cluster_key": group.key, "cluster_root": root, "n": n, "last": group.last}));
            }
            if !lines.is_empty() {
                corpus::bulk(&server, &roots, &lines).await;
            }
            let (status, page) = reader.request(Method::POST, &path, Some(question.clone())).await;
            assert_eq!(status, StatusCode::OK, "{page}");
            let number = json!({"value": expected.len(), "relation": "eq"});
            assert_eq!(page["total"], number, "{order}");
            let groups = page["groups"].as_array().unwrap();
            shown.extend(groups.iter().map(|group| group["key"].as_i64().unwrap()));
            question["cursor"] = page["next"].clone();
        }
        let all: HashSet<i64> = shown.iter().copied().collect();
        assert_eq!(all.len(), shown.len(), "a group came twice: {order}");
        assert_eq!(all, expected.iter().map(|group| group.key).collect());
        server.delete_index(&roots).await;
    }
    // A list that began in its order goes on there, and says so.
    write_roots(&server, &index, &docs, &mut random, true).await;
    let query = Query::Topic.body();
    let cursor = first_cursor(&index, &query, false, false, false);
    let question = json!({"query": query, "cursor": cursor});
    let (status, page) = reader.request(Method::POST, &path, Some(question)).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let is_told = page["notes"][0].as_str().is_some_and(|note| note.contains("groups may come twice, or not at all"));
    assert!(is_told, "{}", page["notes"]);
    server.delete_index(&roots).await;
    server.delete_index(&index).await;
}

/// Which document stands for a group, and what is shown of it.
#[tokio::test]
async fn representatives_and_limits_of_the_total() {
    let upstream = common::elasticsearch();
    let server = Server::new(&upstream);
    let spinney = corpus::start(&upstream, &["--medium-field", "medium"]);
    let reader = Server::new(&spinney.url);
    let index = unique_index("groups-shown");
    corpus::create(&server, &index, 2).await;
    let mut lines = Vec::new();
    for (id, date, reads, topic) in [("a", 1, 5, "t1"), ("b", 2, 9, "t2"), ("c", 3, 7, "t1"), ("d", 4, 1, "t0")] {
        lines.push(json!({"index": {"_id": id}}));
        lines.push(json!({
            "cluster_key": 5, "cluster_root": corpus::root(5), "date": date * DAY, "reads": reads, "topic": topic,
            "medium": id, "title": id, "cluster_first": id == "c",
        }));
    }
    corpus::bulk(&server, &index, &lines).await;
    let path = format!("/_spinney/{index}/_groups");
    let ask = async |question: Value| {
        let (status, page) = reader.request(Method::POST, &path, Some(question)).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        page
    };
    for (representative, query, expected) in [
        (json!("relevance"), json!({"match_all": {}}), "d"),
        (json!("newest"), Query::Scored.body(), "c"),
        (json!("oldest"), Query::Scored.body(), "a"),
        (json!("relevance"), Query::Scored.body(), "b"),
        (json!("first"), Query::Topic.body(), "c"),
        (json!("first"), json!({"term": {"topic": "t2"}}), "b"),
        (json!({"field": "reads"}), json!({"match_all": {}}), "b"),
        (json!({"field": "reads"}), Query::Topic.body(), "c"),
        (json!({"rank": {"field": "medium", "order": ["x", "c", "a"]}}), json!({"match_all": {}}), "c"),
        (json!({"rank": {"field": "medium", "order": ["a", "c"]}}), Query::Scored.body(), "a"),
        // Nothing of the list is under the query: the earliest.
        (json!({"rank": {"field": "medium", "order": ["d", "x"]}}), Query::Topic.body(), "a"),
        // Two documents have the topic: the earlier one.
        (json!({"rank": {"field": "topic", "order": ["t1"]}}), json!({"match_all": {}}), "a"),
    ] {
        for sort in SORTS {
            let page = ask(
                json!({"query": query, "representative": representative, "sort": {sort: "desc"}, "_source": "title"}),
            )
            .await;
            let group = &page["groups"][0];
            let shown = &group["representative"];
            assert_eq!(shown["_id"], expected, "{representative} {query} {sort}");
            assert_eq!(shown["_source"], json!({"title": expected}));
            assert_eq!(shown["_index"], index);
            assert_eq!(group["similar_count"], 4);
            assert_eq!(group["media"], 4);
        }
    }
    let total = async |total: Value| ask(json!({"sort": "date", "total": total})).await["total"].clone();
    assert_eq!(total(json!(true)).await, json!({"value": 1, "relation": "eq"}));
    assert_eq!(total(json!(4)).await, json!({"value": 1, "relation": "eq"}));
    assert_eq!(total(json!(false)).await, Value::Null);
    let limited = total(json!(2)).await;
    assert_eq!(limited["relation"], "gte");
    assert!(limited["value"].as_u64().unwrap() <= 1);
    server.delete_index(&index).await;
}
