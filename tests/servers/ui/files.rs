//! Files and addresses of groups: where they go on, what they keep of a filter, errors that programs read.

use serde_json::{Value, json};

use super::{UI, editor, followed, get, links, sample, shown, start, start_for};
use crate::common::wire::{Answer, Request};
use crate::common::{SearchServer, Server, on_each_server, unique_index};

/// Groups of one article: more than a file has.
const GROUPS: u64 = 150;

/// Writes groups of one article each, one every hour from 2 November on.
fn store_groups(server: &Server, index: &str) {
    let lines = (1..=GROUPS).map(|at| {
        let (day, hour) = (2 + at / 24, at % 24);
        let source = json!({
            "title": format!("Story {at}"), "content": "The harbour was closed.", "media": "Wire",
            "published_at": format!("2026-11-{day:02}T{hour:02}:00:00Z"),
            "cluster_root": format!("{at:016x}"), "cluster_key": at,
        });
        format!("{}\n{source}\n", json!({"index": {"_id": format!("g{at}")}}))
    });
    let body: String = lines.collect();
    let answer = Request::bulk(&format!("/{index}/_bulk?refresh=true"), &body).to(server.url());
    assert_eq!(answer.json()["errors"], false, "{}", answer.text());
}

/// The address of the next file, as the header `Link` has it.
fn next(answer: &Answer) -> Option<String> {
    answer.header("link").map(|link| link[1..].split('>').next().unwrap().to_owned())
}

fn rows(answer: &Answer, format: &str) -> usize {
    match format {
        "csv" => answer.text().matches("\r\n").count() - 1,
        "atom" => answer.text().matches("<entry>").count(),
        _ => {
            let json = answer.json();
            json.get("groups").or(json.get("hits")).unwrap().as_array().unwrap().len()
        }
    }
}

on_each_server!(a_file_goes_on_in_its_time_zone);

/// Dates are days of a zone, and a program keeps no cookie.
async fn a_file_goes_on_in_its_time_zone(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let index = unique_index("page-zone").replace("news-", "zone-");
    let spinney = start_for(&upstream, &index, &["--counts", "off"]);
    sample::create(&server, &index).await;
    store_groups(&server, &index);
    editor::store(&server, &index, (0..GROUPS as usize).map(editor::article)).await;
    for format in ["json", "csv", "atom"] {
        let list = format!("{UI}/{index}?from=2026-11-02&to=2026-11-27&lang=zh&zone=Asia/Tokyo&format={format}");
        let group = format!("{UI}/{index}/group/00000000000000aa?zone=Asia/Tokyo&format={format}");
        for address in [list, group] {
            let first = Request::get(&address).to(&spinney.url);
            assert_eq!(first.status, 200, "{address}: {}", first.text());
            let there = next(&first).unwrap();
            assert!(there.contains("zone=Asia%2FTokyo"), "{there}");
            assert_eq!(there.contains("lang=zh"), address.contains("lang=zh"), "{there}");
            let second = Request::get(&there).to(&spinney.url);
            assert_eq!(second.status, 200, "{there}: {}", second.text());
            assert_eq!(rows(&first, format) + rows(&second, format), GROUPS as usize, "{address}");
            if format == "atom" {
                let text = first.text();
                for rel in ["self", "alternate", "next"] {
                    let link = text.lines().find(|line| line.starts_with(&format!("<link rel=\"{rel}\"")));
                    assert!(link.is_some_and(|link| link.contains("zone=Asia%2FTokyo")), "{rel}: {text}");
                }
            }
        }
    }
    server.delete_index(&index).await;
}

on_each_server!(the_address_of_a_group_keeps_its_filter);

async fn the_address_of_a_group_keeps_its_filter(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let spinney = start(&upstream);
    let index = unique_index("page-filtered");
    sample::create(&server, &index).await;
    editor::store(&server, &index, (0..60).map(editor::article)).await;
    let group = format!("/{index}/group/00000000000000aa");
    let filter = format!("in_medium=medium+7&in_q=harbour&back={index}%3Fq%3Dharbour");
    // A place in the table is one of another address.
    let moved = get(&spinney, &format!("{group}?{filter}&members=x&before=100"));
    assert_eq!(moved.status, 303, "{}", moved.text());
    let there = moved.header("location").unwrap();
    assert_eq!(there, format!("{UI}/{index}/article/m0?{filter}"));
    let page = followed(&spinney, there);
    assert!(page.contains("Articles 1 to 2 of 2 that fit"), "{page}");
    assert!(links(&page, "").iter().any(|link| link.starts_with(&format!("{UI}/{index}?q=harbour#"))), "{page}");
    let feed = shown(&spinney, &format!("{group}?in_medium=medium+7&format=atom"));
    let alternate = format!("<link rel=\"alternate\" type=\"text/html\" href=\"{UI}{group}?in_medium=medium+7\"/>");
    assert!(feed.contains(&alternate), "{feed}");
    server.delete_index(&index).await;
}

on_each_server!(programs_get_errors_as_the_api_has_them);

async fn programs_get_errors_as_the_api_has_them(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let spinney = start(&upstream);
    let index = unique_index("page-errors");
    sample::create(&server, &index).await;
    editor::store(&server, &index, (0..3).map(editor::article)).await;
    let reason = |error: &Value| error["error"]["reason"].as_str().unwrap_or_default().to_owned();
    for format in ["json", "csv", "atom"] {
        for (path, status, said) in [
            (format!("/{index}?from=yesterday"), 400, "[from] takes a date"),
            (format!("/{index}?cursor=x"), 400, "cursor"),
            (format!("/{index}/group/x?a=b"), 400, "16 hex digits"),
            (format!("/{index}/group/00000000000000bb?a=b"), 404, "no document of the group"),
            ("/news-missing?a=b".to_owned(), 404, "no such index [news-missing]"),
            ("/news-missing/group/00000000000000aa?a=b".to_owned(), 404, "no such index [news-missing]"),
        ] {
            let answer = get(&spinney, &format!("{path}&format={format}"));
            assert_eq!(answer.status, status, "{path}: {}", answer.text());
            assert!(answer.header("content-type").unwrap().starts_with("application/json"), "{path}");
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
            let error = answer.json();
            assert_eq!(error["status"], status, "{error}");
            assert!(reason(&error).contains(said), "{path}: {error}");
            // People get a page.
            let page = get(&spinney, &path);
            assert_eq!(page.status, status, "{path}");
            assert!(page.header("content-type").unwrap().starts_with("text/html"), "{path}");
        }
    }
    let api = Request::json("POST", "/_spinney/news-missing/_groups", "{}").to(&spinney.url).json();
    assert_eq!(get(&spinney, "/news-missing?format=csv").json()["error"]["type"], api["error"]["type"]);
    // An article is no file.
    let article = get(&spinney, "/news-missing/article/a?format=json");
    assert!(article.header("content-type").unwrap().starts_with("text/html"));
    // Columns do not depend on rows.
    let head = |query: &str| shown(&spinney, &format!("/{index}?format=csv{query}")).lines().next().unwrap().to_owned();
    assert_eq!(head("&q=nobodywrotethis"), head(""));
    server.delete_index(&index).await;
}
