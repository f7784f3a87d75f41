//! `POST /_spinney/{index}/_check` in front of a real server, and what the log and the counters tell of refusals.

use crate::common::fake::{self, Fake, Reply};
use crate::common::twin::{self, stats};
use crate::common::wire::{Answer, Request};
use crate::common::{SearchServer, Server, Spinney, on_each_server, unique_index};
use serde_json::{Value, json};

const BALANCE: &str = "Treasury balances at the Federal Reserve rose to N.151 billion dollars from N.727 billion dollars \
    on the previous business day, the Treasury said in its latest budget statement. The operating cash balance totaled \
    N.289 billion dollars compared with another sum on the day before that one, officials added on the phone.";

/// Articles that are the same words with other numbers: near each other, and not one story.
pub fn balance(n: u32) -> Value {
    json!({"content": BALANCE.replace('N', &n.to_string()), "source": "wire"})
}

fn start(upstream: &str, more: &[&str]) -> Spinney {
    let mut args = vec!["--upstream", upstream, "--index", "news-*", "--log", "spinney=debug"];
    args.extend(more);
    Spinney::start(&args)
}

fn check(spinney: &Spinney, index: &str, source: &Value) -> Value {
    let path = format!("/_spinney/{index}/_check");
    let answer = Request::json("POST", &path, source.to_string()).to(&spinney.url);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn write(spinney: &Spinney, index: &str, id: &str, source: &Value) {
    let path = format!("/{index}/_doc/{id}");
    let answer = Request::json("PUT", &path, source.to_string()).to(&spinney.url);
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// The error of an answer has the cluster's shape and this status; its type and reason.
fn error(answer: &Answer, status: u16) -> (String, String) {
    assert_eq!(answer.status, status, "{}", answer.text());
    let body = answer.json();
    assert_eq!(body["status"], status);
    assert_eq!(body["error"]["root_cause"][0]["reason"], body["error"]["reason"]);
    let text = |key: &str| body["error"][key].as_str().unwrap().to_owned();
    (text("type"), text("reason"))
}

/// A cluster that shows everybody everything and stores what it is sent.
fn cluster() -> Fake {
    Fake::start(|request| {
        let created = || fake::json(201, "", "{\"result\":\"created\"}");
        Reply::Bytes(fake::shows(request).unwrap_or_else(created))
    })
}

on_each_server!(what_is_foretold_is_what_is_stored);

async fn what_is_foretold_is_what_is_stored(search_server: SearchServer) {
    let form = match search_server {
        SearchServer::OpenSearch => "full",
        SearchServer::Elasticsearch => "lean",
    };
    foretold_and_stored(&search_server.url(), form).await;
}

async fn foretold_and_stored(upstream: &str, form: &str) {
    let server = Server::new(upstream);
    let index = unique_index("check");
    let spinney = start(server.url(), &["--stamp", form]);

    // What does not exist is nobody's to search.
    let path = format!("/_spinney/{index}/_check");
    let none = Request::json("POST", &path, balance(4).to_string()).to(&spinney.url);
    assert_eq!(error(&none, 404).0, "index_not_found_exception");
    let settings = json!({"settings": {"number_of_replicas": 0}});
    server.create_index(&index, settings).await;
    let first = check(&spinney, &index, &balance(4));
    assert_eq!((&first["decision"], &first["index"]), (&json!("new_root"), &json!(index)));
    assert_eq!((&first["method"], &first["k"], &first["trees"]), (&json!("verified"), &json!(0), &json!([])));
    let before = stats(&spinney.url);
    assert_eq!(before["forests"]["news-*"]["nodes"], 0, "nothing was placed");
    let mut foretold = vec![first];
    write(&spinney, &index, "4", &balance(4));

    foretold.push(check(&spinney, &index, &balance(17)));
    write(&spinney, &index, "17", &balance(17));
    let reprint = json!({"content": format!("By A. Reporter. {}", BALANCE.replace('N', "4"))});
    foretold.push(check(&spinney, &index, &reprint));
    write(&spinney, &index, "reprint", &reprint);
    foretold.push(check(&spinney, &index, &balance(4)));
    write(&spinney, &index, "again", &balance(4));

    for (told, (id, decision)) in
        foretold.iter().zip([("4", "new_root"), ("17", "new_root"), ("reprint", "joined"), ("again", "refreshed")])
    {
        assert_eq!(told["decision"], decision, "{told:#}");
        let stored = server.get(&index, id).await.unwrap();
        for field in ["cluster_hash", "cluster_proof"] {
            assert_eq!(stored.get(field).is_some(), form == "full", "{id} {field}");
        }
        for field in ["cluster_root", "cluster_key", "cluster_hash", "cluster_proof"] {
            assert_eq!(told["stamp"][field], stored[field], "{id} {field}");
        }
        assert_eq!((&told["root"], &told["key"]), (&stored["cluster_root"], &stored["cluster_key"]));
        assert!(told["stamp"]["cluster_arrival"].is_string());
    }
    let [near] = foretold[1]["trees"].as_array().unwrap().as_slice() else {
        panic!("{:#}", foretold[1]);
    };
    assert_eq!(near["root"], foretold[0]["root"]);
    assert_eq!((&near["agrees"], &near["reason"]), (&json!(false), &json!("numbers")));
    assert!(near["detail"].as_str().unwrap().starts_with("numbers: "));
    // Founder tokens are at hand, so no similarity is asked for.
    assert_eq!((&near["by"], near.get("needed")), (&json!("alignment"), None), "{near:#}");
    let differences = &near["differences"];
    assert!(differences["cost"].as_f64() > Some(1.0), "{near:#}");
    assert_eq!((&differences["numbers"]["places"], &differences["titles"]["cost"]), (&json!(3.0), &json!(0.0)));
    assert_eq!(
        near["own"],
        json!({"sentences": [], "numbers": ["17.151 billion", "17.727 billion", "17.289 billion"], "words": []})
    );
    assert_eq!(foretold[2]["trees"][0]["agrees"], true, "{:#}", foretold[2]);

    // The refusal is counted, and told in the log.
    assert_eq!(
        stats(&spinney.url)["refusals"],
        json!({
            "proof": 0, "numbers": 1, "names": 0, "facts": 0, "part": 0, "boilerplate": 0, "titles": 0, "page_chrome": 0, "full": 0, "radius": 0
        })
    );
    let metrics = Request::get("/_spinney/_metrics").to(&spinney.url).text();
    assert!(metrics.contains("spinney_refusals_total{reason=\"numbers\"} 1\n"), "{metrics}");
    let line = spinney.log_line("near trees refused", |line| line.contains("near trees refused"));
    for part in [&*index, "id=\"17\"", "item=0", "numbers: ", foretold[1]["root"].as_str().unwrap()] {
        assert!(line.contains(part), "{part}: {line}");
    }
    server.delete_index(&index).await;
}

#[test]
fn names_that_are_coded_and_documents_that_are_packed() {
    let cluster = cluster();
    let spinney = start(&cluster.url, &["--method", "longest"]);
    let source = balance(4).to_string();
    let plain = Request::json("POST", "/_spinney/news-%E4%B8%AD/_check/?pretty", &source).to(&spinney.url);
    assert_eq!(plain.json()["index"], "news-中");
    assert!(plain.text().starts_with("{\n"));
    let asked = cluster.last_of(|it| it.target().contains("/_search"));
    let target = asked.target();
    assert!(target.starts_with("/news-%E4%B8%AD/_search?"), "{target}");
    let packed = Request::json("POST", "/_spinney/news-x/_check", &source).gzipped().chunked(7);
    assert_eq!(packed.to(&spinney.url).json()["root"], plain.json()["root"]);
    // A document without text gets a root by its id.
    let asked = |query: &str| {
        let path = format!("/_spinney/news-x/_check{query}");
        Request::json("POST", &path, "{}").to(&spinney.url).json()
    };
    assert_eq!((&asked("")["decision"], &asked("")["root"]), (&json!("own_root"), &Value::Null));
    let named = asked("?id=a%2Fb");
    assert!(named["root"].is_string() && named["stamp"]["cluster_root"] == named["root"]);
    assert_eq!(
        named,
        asked("?id=a%2fb&pretty")
            .as_object()
            .cloned()
            .map(|mut other| {
                other["stamp"]["cluster_arrival"] = named["stamp"]["cluster_arrival"].clone();
                Value::Object(other)
            })
            .unwrap()
    );
}

#[test]
fn what_is_no_question() {
    let cluster = cluster();
    let spinney = start(&cluster.url, &["--budget", "1MiB"]);
    let path = "/_spinney/news-x/_check";
    let source = balance(4).to_string();
    let asked = |request: Request| request.header("x-opaque-id", "me").to(&spinney.url);
    let post = |path: &str, body: &str| asked(Request::json("POST", path, body));

    let (kind, reason) = error(&post("/_spinney/logs-x/_check", &source), 404);
    assert_eq!(kind, "spinney_no_route_exception");
    assert!(reason.contains("logs-x") && reason.contains("--index"), "{reason}");
    for body in ["", " \n", "{", "[]", "\"text\"", "{\"content\":\"a\"}{}", "{\"content\":tru}"] {
        let (kind, _) = error(&post(path, body), 400);
        assert_eq!(kind, "spinney_body_exception", "{body}");
    }
    let broken = Request::json("POST", path, &source).header("content-encoding", "gzip");
    assert_eq!(error(&asked(broken), 400).0, "spinney_body_exception");
    for method in ["GET", "PUT", "DELETE"] {
        let answer = asked(Request::new(method, path));
        assert_eq!(answer.header("allow"), Some("POST"));
        assert!(error(&answer, 405).1.contains("POST"));
    }
    let form = Request::new("POST", path).header("content-type", "text/plain").body(&source);
    error(&asked(form), 406);
    let other = Request::json("POST", path, &source).header("content-encoding", "zstd");
    error(&asked(other), 406);
    for several in ["news-*", "news-x,news-y", "news-%2A", "far:news-x", "-news", "%5Fall", "%3C*%3E"] {
        let (kind, _) = error(&post(&format!("/_spinney/{several}/_check"), &source), 400);
        assert_eq!(kind, "spinney_index_name_exception", "{several}");
    }
    for none in ["/_spinney/_check", "/_spinney/_all/_check", "/_spinney/a/b/_check"] {
        error(&post(none, &source), 404);
    }
    // More than the whole budget, packed or not; and the answer comes although the body has not all been read.
    let large = format!("{{\"content\":\"{}\"}}", "a ".repeat(2 << 20));
    assert_eq!(error(&post(path, &large), 413).0, "spinney_too_large_exception");
    let packed = asked(Request::json("POST", path, &large).gzipped());
    assert_eq!(error(&packed, 413).0, "spinney_too_large_exception");
    assert_eq!(packed.header("x-opaque-id"), Some("me"));
    // Waits until the budget has come back.
    assert_eq!(twin::nodes(&stats(&spinney.url)), 0);
}

/// Whoever could not have searched the index is told nothing.
#[test]
fn the_cluster_is_asked_first() {
    let refusing = [
        (401, "{\"error\":\"who are you\",\"status\":401}"),
        (403, "{\"error\":\"not you\",\"status\":403}"),
        (503, "{\"error\":\"later\",\"status\":503}"),
        // What OpenSearch answers if it is told to search nothing instead of refusing.
        (200, "{\"timed_out\":false,\"_shards\":{\"total\":0}}"),
        (200, "nothing"),
    ];
    for (status, body) in refusing {
        let cluster = Fake::start(move |_| Reply::Bytes(fake::json(status, "", body)));
        let spinney = start(&cluster.url, &[]);
        for path in ["/_spinney/news-x/_check", "/_spinney/logs-x/_check"] {
            let ask = Request::json("POST", path, balance(4).to_string()).header("authorization", "Basic bWU6bWU=");
            let answer = ask.to(&spinney.url);
            if body == "nothing" {
                assert_eq!(error(&answer, 502).0, "spinney_upstream_answer_exception");
            } else if status == 200 {
                assert_eq!(error(&answer, 403).0, "spinney_forbidden_exception");
            } else {
                assert_eq!((answer.status, answer.text().as_str()), (status, body));
            }
            let asked = cluster.last_of(|it| it.target().contains("/_search"));
            assert_eq!(asked.headers("authorization"), ["Basic bWU6bWU="]);
        }
    }
    let nowhere = start("http://127.0.0.1:1", &[]);
    let ask = Request::json("POST", "/_spinney/news-x/_check", balance(4).to_string());
    assert_eq!(error(&ask.to(&nowhere.url), 503).0, "spinney_upstream_unreachable_exception");
}

/// Pages of something that stands between spinney and the cluster show nobody anything.
#[test]
fn only_the_cluster_itself_consents() {
    let page = |status: u16, kind: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    let ask = |path: &str| match path {
        "check" => Request::json("POST", "/_spinney/news-x/_check", balance(4).to_string()),
        _ => Request::get(&format!("/_spinney/{path}")),
    };
    let missing = "{\"error\":{\"type\":\"index_not_found_exception\"},\"status\":404}";
    for (status, kind, body) in [
        (200, "text/html", "<html>It works!</html>"),
        (200, "application/json", "{\"status\":\"UP\"}"),
        (200, "application/json", "{\"_shards\":{\"total\":1}}"),
        (204, "text/plain", ""),
        (404, "text/html", "<html>Not found</html>"),
        (404, "application/json", "{\"error\":\"no such site\",\"status\":404}"),
        (200, "application/json", missing),
        (503, "text/html", "<html>Later</html>"),
    ] {
        let made = page(status, kind, body);
        let cluster = Fake::in_any_health(move |_| Reply::Bytes(made.clone().into_bytes()));
        let spinney = start(&cluster.url, &[]);
        for path in ["_stats", "_metrics", "check"] {
            let answer = ask(path).to(&spinney.url);
            if status < 300 {
                let (kind, _) = error(&answer, 502);
                assert_eq!(kind, "spinney_upstream_answer_exception", "{path} {body}");
            } else {
                assert_eq!((answer.status, answer.text().as_str()), (status, body), "{path}");
            }
        }
    }
    // That an index is not there is no consent to see the forest.
    let cluster = Fake::start(move |_| Reply::Bytes(fake::json(404, "", missing)));
    let spinney = start(&cluster.url, &[]);
    let answer = ask("check").to(&spinney.url);
    assert_eq!((answer.status, &*answer.text()), (404, missing));
}

fn run(seed: u64, count: u64) -> String {
    let word = |n: u64| {
        let mixed = (seed * 1009 + n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("w{:x} ", (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 36)
    };
    (0..count).map(word).collect()
}

/// A full stop ends a sentence only before a capital.
fn sentence(words: &str) -> String {
    format!("Also {}. ", words.trim_end())
}

fn words(seed: u64, count: u64) -> String {
    sentence(&run(seed, count))
}

/// Texts of which no two are similar, all with the same sentences at their end.
fn with_one_footer() -> (Vec<String>, String) {
    let footer: String = (0..12).map(|n| words(1000 + n, 14)).collect();
    let texts = (0..12).map(|n| format!("{}{footer}", words(50 + n, 250)));
    (texts.collect(), footer)
}

/// Each reason, in an answer, in the log and in the counters.
#[test]
fn every_refusal_has_a_reason() {
    let cluster = cluster();
    // One sentence each, a quarter of it the same: some of the smallest fingerprints of a few will be.
    let shared = |seed: u64| sentence(&(run(7, 20) + &run(seed, 60)));
    let shuffled = ["harbour bridge traffic closed morning", "morning closed traffic bridge harbour"];
    for (method, reason, texts) in [
        ("verified", "proof", (0..12).map(shared).collect()),
        ("verified", "numbers", [4, 17].map(|n| BALANCE.replace('N', &n.to_string())).to_vec()),
        ("verified", "boilerplate", with_one_footer().0),
        ("short", "radius", shuffled.map(str::to_owned).to_vec()),
    ] {
        let texts: Vec<String> = texts;
        let spinney = start(&cluster.url, &["--method", method]);
        let mut foretold = 0;
        for (n, text) in texts.iter().enumerate() {
            let source = json!({"content": text});
            let told = check(&spinney, "news-x", &source);
            let trees = told["trees"].as_array().unwrap();
            let refused = trees.iter().filter(|tree| tree["reason"] == reason);
            foretold += refused.count();
            assert_eq!(told["decision"], "new_root", "{told:#}");
            write(&spinney, "news-x", &n.to_string(), &source);
        }
        assert!(foretold > 0, "{reason}");
        let refusals = &stats(&spinney.url)["refusals"];
        assert_eq!(refusals[reason], foretold, "{refusals}");
        spinney.log_line(reason, |line| line.contains("near trees refused") && line.contains(&format!("{reason}: ")));
    }
}

/// A bulk names its items in the log by index and id; without the debug level nothing is said.
#[test]
fn the_log_names_the_items_of_a_bulk() {
    let cluster = Fake::start(|_| Reply::Bytes(fake::json(200, "", "{\"items\":[]}")));
    let action = |index: &str, id: &str| json!({"index": {"_index": index, "_id": id}}).to_string();
    let body = format!("{}\n{}\n{}\n{}\n", action("logs-1", "a"), balance(4), action("news-1", "b"), balance(4))
        + &format!("{}\n{}\n", action("news-2", "c"), balance(17));
    for (level, lines) in [("spinney=debug", 1), ("info", 0)] {
        let spinney = Spinney::start(&["--upstream", &cluster.url, "--index", "news-*", "--log", level]);
        assert_eq!(Request::bulk("/_bulk", &body).to(&spinney.url).status, 200);
        let log = spinney.end_and_log();
        let told: Vec<_> = log.lines().filter(|line| line.contains("near trees refused")).collect();
        assert_eq!(told.len(), lines, "{log}");
        for line in told {
            for part in ["item=2", "index=\"news-2\"", "id=\"c\"", "numbers: "] {
                assert!(line.contains(part), "{part}: {line}");
            }
        }
    }
}

/// What users have written is not in the log, whatever was learned from it.
#[test]
fn the_log_shows_no_text() {
    let cluster = cluster();
    let (texts, footer) = with_one_footer();
    let first = footer.split(' ').nth(1).unwrap();
    for level in ["info", "spinney=trace"] {
        let args = ["--upstream", &cluster.url, "--index", "news-*", "--log", level];
        let spinney = Spinney::start(&args);
        for (n, text) in texts.iter().enumerate() {
            write(&spinney, "news-x", &n.to_string(), &json!({"content": text}));
        }
        let log = spinney.end_and_log();
        assert!(log.contains("sentences have become boilerplate"), "{log}");
        assert!(!log.contains(first), "{level}: {log}");
    }
}

/// A notice of some 200 letters, a row of some 60, and headlines that neither has anything of.
const NOTICE: &str = "本网站转载此文仅为传递更多信息之目的,并不意味着赞同其观点或证实其描述。文章内容仅供参考,不构成任何投资建议,投资者据此操作,\
    风险自行承担。如涉及作品版权等问题,请在三十日内与本网站联系,我们将在第一时间删除。未经书面授权,任何媒体不得复制、转贴或以其他方式使用本网站所登载的全部作品。";
const ROW: &str =
    "您需要登录之后才可以回帖,还没有账号的用户请先免费注册,忘记密码的用户可以通过绑定的手机或者邮箱找回。";
const HEADLINES: [&str; 5] = [
    "木雕店深夜起火 消防员两小时扑灭",
    "高考前如何缓解孩子的紧张情绪",
    "三款电动汽车续航横向对比评测",
    "老渔民捡到漂流瓶 里面藏着情书",
    "冰球队逆转夺冠 教练激动落泪",
];

/// Trees that take nobody any more: the answer of `_check` says why, and the log, `_stats` and `_metrics` tell of them.
#[test]
fn closed_trees_are_told_of() {
    let cluster = cluster();
    let reasons = |spinney: &Spinney, sources: &[Value]| -> Vec<Vec<String>> {
        let reasons = sources.iter().enumerate().map(|(n, source)| {
            let told = check(spinney, "news-x", source);
            write(spinney, "news-x", &n.to_string(), source);
            let trees = told["trees"].as_array().unwrap().iter();
            let refused = trees.filter_map(|tree| tree["reason"].as_str());
            refused.map(str::to_owned).collect()
        });
        reasons.collect()
    };
    let under_headlines = |content: &str| -> Vec<Value> {
        let sources = HEADLINES.iter();
        sources.map(|title| json!({"title": title, "content": content})).collect()
    };
    let nobody: &[&str] = &[];

    let spinney = start(&cluster.url, &["--title-field", "title"]);
    let row = reasons(&spinney, &under_headlines(ROW));
    assert_eq!(row[0], nobody);
    assert!(row[1..4].iter().all(|why| why == &["titles"]), "{row:?}");
    // Four have founded trees: the row is boilerplate now, and the title is the text.
    assert_eq!(row[4], ["boilerplate"]);

    let spinney = start(&cluster.url, &["--title-field", "title"]);
    let notice = reasons(&spinney, &under_headlines(NOTICE));
    assert_eq!(notice[..3], [nobody; 3]);
    assert_eq!(notice[3], ["page_chrome"]);
    let forest = stats(&spinney.url)["forests"]["news-*"].clone();
    assert_eq!(forest["page_chrome_trees"], 1, "{forest}");
    assert_eq!(forest["page_chrome"][0]["documents"], 3, "{forest}");
    spinney.log_line("page_chrome", |line| line.contains("takes no other document") && line.contains("titles=3"));
    let metrics = Request::get("/_spinney/_metrics").to(&spinney.url);
    let line = "spinney_forest_page_chrome_trees{forest=\"news-*\"} 1";
    assert!(metrics.text().contains(line), "{}", metrics.text());

    let spinney = start(&cluster.url, &["--max-tree", "2"]);
    let edited = |seed: u64| json!({"content": sentence(&(run(7, 60) + &run(seed, 4)))});
    let full = reasons(&spinney, &[edited(1), edited(2), edited(3), edited(2)]);
    assert_eq!(full[..2], [nobody; 2]);
    assert_eq!(full[2], ["full"]);
    let again = check(&spinney, "news-x", &edited(2));
    assert_eq!(again["decision"], "refreshed", "{again:#}");
    assert_eq!(again["trees"][0]["closed"], "full", "{again:#}");
    spinney.log_line("full", |line| line.contains("max-tree"));
}
