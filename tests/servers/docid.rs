//! `GET /docId/getDocId`: similar articles get one docId, for those whom the cluster lets ask; without the option the
//! path is the cluster's.

use serde_json::{Value, json};

use crate::common::fake::{self, Fake, Received, Reply};
use crate::common::twin::{self, text};
use crate::common::wire::{Answer, Request};
use crate::common::{self, Server, Spinney, root_of, unique_index};

const PATH: &str = "/docId/getDocId";

/// A spinney that gives docIds by the route of this index.
fn start(upstream: &str, index: &str) -> Spinney {
    Spinney::start(&[
        "--upstream",
        upstream,
        "--index",
        index,
        "--method",
        "staged",
        "--url-field",
        "url",
        "--title-field",
        "title",
        "--text-field",
        "content",
        "--docid-endpoint",
        index,
    ])
}

fn form(article: &str) -> String {
    form_urlencoded::Serializer::new(String::new()).append_pair("json", article).finish()
}

fn get(article: &Value) -> Request {
    Request::get(&format!("{PATH}?{}", form(&article.to_string())))
}

fn post(article: &Value) -> Request {
    Request::new("POST", PATH)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(form(&article.to_string()))
}

fn success(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let said = answer.json();
    assert_eq!(said["status"], "success", "{said}");
    said
}

/// The two requests of the article that describes such a service.
fn examples() -> [Value; 2] {
    [
        json!({"url": "http://www.simhash.com", "title": "計算機應用與軟件",
            "content": "海量網絡文本去重系統實驗測試,這是一段測試文本的內容。", "category": "0", "media": "test1", "imageCount": "4"}),
        json!({"url": "http://www.simhash1.com", "title": "計算機應用和軟件2",
            "content": "海量網絡文本去重系統實驗檢測,這是一段相似的測試文本的內容。", "category": "0", "media": "test2", "imageCount": "3"}),
    ]
}

#[tokio::test]
async fn similar_articles_get_one_docid() {
    let server = Server::new(&common::opensearch());
    let index = unique_index("docid");
    let spinney = start(server.url(), &index);
    let [first, second] = examples();
    let said = success(&get(&first).to(&spinney.url));
    let docid = said["docId"].as_str().unwrap().to_owned();
    let expected = json!({"filterReason": "docId_filter good news", "docId": docid,
        "filterStatus": "good", "status": "success"});
    assert_eq!(said, expected);
    for (request, stage) in [
        (get(&second), "title"),
        (post(&first), "url"),
        (post(&json!({"content": first["content"]})).gzipped(), "content"),
    ] {
        let said = success(&request.to(&spinney.url));
        let reason = format!("docId_filter {stage} repeat");
        let expected = json!({"filterReason": reason, "docId": docid,
            "filterStatus": "repeat", "status": "success"});
        assert_eq!(said, expected);
    }
    // Longer than an address may be.
    let long = json!({"url": "http://a/long", "content": text(900).repeat(1_000)});
    let said = success(&post(&long).to(&spinney.url));
    assert_eq!(said["filterStatus"], "good");
    // A document that is written to the index stands in the same forest.
    server.create_index(&index, json!({"settings": {"number_of_replicas": 0}})).await;
    let path = format!("/{index}/_doc/a");
    let written = Request::json("PUT", &path, second.to_string()).to(&spinney.url);
    assert_eq!(written.status, 201, "{}", written.text());
    let stored = server.get(&index, "a").await.unwrap();
    assert_eq!(root_of(&stored), Some(&*docid));
    let counters = &twin::stats(&spinney.url)["counters"];
    assert_eq!(counters["docid_articles"], 5);
    assert_eq!(counters["docid_repeats"], 3);
    server.delete_index(&index).await;
}

#[tokio::test]
async fn the_hottest_article_is_kept() {
    let index = unique_index("hottest");
    let spinney = start(&common::opensearch(), &index);
    let [first, second] = examples();
    let with = |article: &Value, nid: u64, heat: Value| {
        let mut article = article.clone();
        (article["nid"], article["heat"]) = (nid.into(), heat);
        article
    };
    let cool = with(&first, 1, json!(3));
    let hot = with(&second, 2, json!("12.5"));
    let cooled = with(&second, 2, json!(1));
    for (article, hottest) in [
        (&cool, Some(&cool)),
        (&hot, Some(&hot)),
        (&cool, Some(&hot)),
        (&first, None),
        // The article itself says how hot it is now.
        (&cooled, Some(&cooled)),
        (&cool, Some(&cool)),
    ] {
        let said = success(&get(article).to(&spinney.url));
        assert_eq!(said.get("hottest"), hottest, "{article}");
    }
}

#[tokio::test]
async fn what_is_no_article_is_refused() {
    let spinney = start(&common::opensearch(), &unique_index("no-article"));
    let of = |query: &str| Request::get(&format!("{PATH}{query}"));
    let form =
        |content_type: &str, body: &str| Request::new("POST", PATH).header("content-type", content_type).body(body);
    for (request, status, kind) in [
        (of(""), 400, "spinney_request_exception"),
        (of("?json="), 400, "spinney_request_exception"),
        (of("?json=[]"), 400, "spinney_request_exception"),
        (of("?json=%7B%7D"), 400, "spinney_request_exception"),
        (get(&json!({"url": " ", "content": "!"})), 400, "spinney_request_exception"),
        (get(&json!({"url": "http://a", "heat": "hot"})), 400, "spinney_request_exception"),
        (form("application/json", "{}"), 400, "spinney_request_exception"),
        (get(&examples()[0]).header("sec-fetch-site", "cross-site"), 403, "spinney_forbidden_exception"),
        (get(&examples()[0]).header("sec-fetch-site", "same-site"), 403, "spinney_forbidden_exception"),
        (get(&examples()[0]).header("referer", "http://evil.example/page"), 403, "spinney_forbidden_exception"),
        (post(&examples()[0]).header("origin", "http://evil.example"), 403, "spinney_forbidden_exception"),
        (get(&examples()[0]).method("DELETE"), 405, "spinney_no_endpoint_exception"),
    ] {
        let answer = request.to(&spinney.url);
        assert_eq!(answer.status, status, "{}: {}", request.describe(), answer.text());
        assert_eq!(answer.json()["error"]["type"], kind, "{}", request.describe());
    }
    let stats = twin::stats(&spinney.url);
    assert_eq!(stats["counters"]["docid_articles"], 0);
    assert!(stats["forests"].as_object().unwrap().values().all(|forest| forest["nodes"] == 0));
}

/// Whoever may not see the cluster's health, or not search the index, is given the cluster's own answer and leaves
/// nothing.
#[tokio::test]
async fn the_cluster_says_who_may_ask() {
    for refused in ["/_cluster/health", "/_count"] {
        let denial = "{\"error\":\"not you\",\"status\":403}";
        let cluster = Fake::in_any_health(move |request| {
            let target = request.target();
            // Monitors may look, whatever the test refuses to others.
            let monitors = !request.headers("authorization").is_empty();
            Reply::Bytes(match target {
                _ if target.contains(refused) && !monitors => fake::json(403, "", denial),
                "/_cluster/health" => fake::json(200, "", fake::HEALTH),
                _ => fake::json(200, "", "{\"count\":0,\"_shards\":{\"total\":1}}"),
            })
        });
        let spinney = start(&cluster.url, "articles");
        for request in [get(&examples()[0]), post(&examples()[0])] {
            let answer = request.to(&spinney.url);
            assert_eq!((answer.status, answer.text().as_str()), (403, denial), "{refused}");
        }
        let monitor = |request: Request| request.header("authorization", "Basic bWU6aXQ=");
        let stats = monitor(Request::get("/_spinney/_stats")).to(&spinney.url).json();
        assert_eq!(stats["forests"]["articles"]["nodes"], 0);
        let said = success(&monitor(get(&examples()[0])).to(&spinney.url));
        assert_eq!(said["filterStatus"], "good");
    }
}

/// Without the option, the path is the cluster's, byte for byte; with it, what is next to it.
#[tokio::test]
async fn without_the_option_the_path_is_relayed() {
    let own = "{\"of\" : \"the cluster\"}";
    let cluster = Fake::start(move |_| Reply::Bytes(fake::json(200, "x-own: 1\r\n", own)));
    let is_docid = |it: &Received| it.target().to_lowercase().contains("/docid");
    let without = twin::start(&cluster.url, &[]);
    let with = start(&cluster.url, "articles");
    let asked = format!("{PATH}?json=%7B%22url%22:%22a%22%7D&x=%2f+");
    for (spinney, targets) in [
        (&without, vec![asked.clone(), PATH.to_owned()]),
        (&with, vec![format!("{PATH}/"), "/docId".to_owned(), "/docid/getDocId?json=1".to_owned()]),
    ] {
        for target in targets {
            let answer = Request::get(&target).to(&spinney.url);
            assert_eq!((answer.status, answer.text().as_str()), (200, own));
            assert_eq!(answer.header("x-own"), Some("1"));
            assert_eq!(cluster.last_of(is_docid).target(), target);
        }
    }
    let body = form("{\"url\":\"a\"}");
    let post = post(&json!({"url": "a"}));
    assert_eq!(post.to(&without.url).text(), own);
    assert_eq!(cluster.last_of(is_docid).body, body.as_bytes());
}
