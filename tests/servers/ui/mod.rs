//! The web page in front of real servers: without a browser here, in a real one in [`browser`].

mod browser;
mod editor;
mod empty;
mod files;
mod rtl;
mod sample;
mod say;

pub use say::form;
use serde_json::json;

use crate::common::fake::{self, Fake, Reply};
use crate::common::wire::{Answer, Request};
use crate::common::{self, SearchServer, Server, Spinney, on_each_server, unique_index};

const UI: &str = "/_spinney/ui";

fn start(upstream: &str) -> Spinney {
    start_for(upstream, "news-*", &[])
}

fn start_for(upstream: &str, pattern: &str, more: &[&str]) -> Spinney {
    let options = [
        "--upstream",
        upstream,
        "--index",
        pattern,
        "--title-field",
        "title",
        "--url-field",
        "url",
        "--time-field",
        "published_at",
        "--medium-field",
        "media",
    ];
    Spinney::start(&[&options, more].concat())
}

fn get(spinney: &Spinney, path: &str) -> Answer {
    Request::get(&format!("{UI}{path}")).to(&spinney.url)
}

fn shown(spinney: &Spinney, path: &str) -> String {
    let answer = get(spinney, path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

/// The page to which a link leads.
fn followed(spinney: &Spinney, link: &str) -> String {
    shown(spinney, link.split('#').next().unwrap().strip_prefix(UI).unwrap())
}

/// The addresses of all links whose tag has this in it.
fn links(html: &str, tag: &str) -> Vec<String> {
    let tags = html.split("<a ").skip(1);
    let tags = tags.filter_map(|rest| rest.split_once('>').map(|(inside, _)| inside));
    tags.filter(|inside| inside.contains(tag))
        .filter_map(|inside| inside.split_once("href=\"")?.1.split_once('"'))
        .map(|(address, _)| address.replace("&amp;", "&").replace("&#38;", "&"))
        .collect()
}

/// The one address of such a link.
fn link(html: &str, tag: &str) -> String {
    let found = links(html, tag);
    assert_eq!(found.len(), 1, "{tag}: {found:?} in {html}");
    found[0].strip_prefix(UI).unwrap().to_owned()
}

const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> {{7*7}} &amp;";

on_each_server!(what_documents_bring_is_text);

async fn what_documents_bring_is_text(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let spinney = start(&upstream);
    let index = unique_index("page-hostile");
    sample::create(&server, &index).await;
    let text = format!("{HOSTILE} The harbour was closed for two days after the storm, the port said on Monday.");
    for (id, medium) in [("a\"<b>", HOSTILE), ("b", "Wire")] {
        let source = json!({
            "title": HOSTILE, "content": text, "media": medium, "published_at": "2026-01-02T03:04:05Z",
            "url": format!("javascript:alert('{id}')"),
        });
        sample::write(&spinney, &index, id, &source);
    }
    server.refresh(&index).await;
    let list = shown(&spinney, &format!("/{index}?q=harbour"));
    let article = link(&list, "data-entry");
    let article = shown(&spinney, &article);
    let other = shown(&spinney, &link(&article, "data-entry"));
    let query = common::http().get(format!("{}{UI}/{index}", spinney.url));
    let query = query.query(&[("q", HOSTILE), ("medium", HOSTILE), ("sort", HOSTILE)]);
    let searched = query.send().await.unwrap().text().await.unwrap();
    let overview = shown(&spinney, "/overview");
    for page in [&list, &article, &other, &searched, &overview] {
        for bad in ["<script>", "<img", "\"javascript:"] {
            assert!(!page.contains(bad), "{bad} in {page}");
        }
    }
    for page in [&list, &article, &other, &searched] {
        assert!(page.contains("&#60;script&#62;alert(1)"), "{page}");
    }
    // A name in the path that the cluster repeats in its error.
    let missing = get(&spinney, "/news-%3Cimg%20src=x%3E");
    assert!(missing.status >= 400);
    assert!(!missing.text().contains("<img"), "{}", missing.text());
    server.delete_index(&index).await;
}

#[tokio::test]
async fn headers_of_pages_and_files() {
    let spinney = start(&common::opensearch());
    let page = get(&spinney, "/");
    let header = |answer: &Answer, name: &str| answer.header(name).unwrap_or_default().to_owned();
    assert_eq!(header(&page, "cache-control"), "no-store");
    let policy = header(&page, "content-security-policy");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(header(&page, "x-content-type-options"), "nosniff");
    assert_eq!(header(&page, "referrer-policy"), "no-referrer");
    let html = page.text();
    let named = |attribute: &str| -> Vec<String> {
        let values = html.split(attribute).skip(1);
        let values = values.filter_map(|rest| rest.split_once('"').map(|(value, _)| value));
        values.filter(|value| value.contains("/assets/")).map(str::to_owned).collect()
    };
    let files = [named("href=\""), named("src=\"")].concat();
    assert_eq!(files.len(), 3, "{files:?}");
    let mut bytes = html.len();
    for file in files {
        let answer = Request::get(&file).to(&spinney.url);
        assert_eq!(answer.status, 200, "{file}");
        assert_eq!(header(&answer, "cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(header(&answer, "x-content-type-options"), "nosniff");
        bytes += answer.body.len();
    }
    assert!(bytes < 100 << 10, "{bytes}");
    assert_eq!(get(&spinney, "/assets/page-0.css").status, 404);
    let moved = get(&spinney, "?lang=zh");
    assert_eq!((moved.status, moved.header("location")), (303, Some("/_spinney/ui/")));
    let post = Request::json("POST", &format!("{UI}/"), "{}").to(&spinney.url);
    assert_eq!(post.status, 405);
    let head = Request::get(&format!("{UI}/")).method("HEAD").to(&spinney.url);
    assert_eq!((head.status, head.body.len()), (200, 0));
}

on_each_server!(pages_lead_on_and_back);

async fn pages_lead_on_and_back(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    // Nobody counts its groups: they keep their order from the first page to the last and back.
    let index = unique_index("page").replace("news-", "paging-");
    let spinney = start_for(&upstream, &index, &["--counts", "off"]);
    let groups = sample::load(&server, &spinney, &index).await;
    for sort in ["most", "fewest", "newest", "relevance"] {
        let mut seen = Vec::new();
        let mut pages = vec![shown(&spinney, &format!("/{index}?sort={sort}"))];
        loop {
            let page = pages.last().unwrap();
            seen.extend(links(page, "data-entry"));
            let next = links(page, "rel=\"next\"");
            let Some(next) = next.first() else { break };
            pages.push(followed(&spinney, next));
        }
        assert_eq!(pages.len(), groups.div_ceil(20), "{sort}");
        let articles = |links: &[String]| -> Vec<String> {
            let articles = links.iter().map(|link| link.split('?').next().unwrap().to_owned());
            articles.collect()
        };
        let mut once = articles(&seen);
        once.sort_unstable();
        once.dedup();
        assert_eq!((once.len(), seen.len()), (groups, groups), "{sort}");
        // And back, page for page.
        for at in (1..pages.len()).rev() {
            let before = shown(&spinney, &link(&pages[at], "rel=\"prev\""));
            let (there, here) = (links(&before, "data-entry"), links(&pages[at - 1], "data-entry"));
            assert_eq!(articles(&there), articles(&here), "{sort} {at}");
        }
        assert!(links(&pages[0], "rel=\"prev\"").is_empty());
    }
    let most = shown(&spinney, &format!("/{index}?sort=most"));
    assert!(most.contains(&format!("<h2 class=\"total\">{groups} stories</h2>")));
    let badges: Vec<&str> = most.split("class=\"badge\"").skip(1).collect();
    assert!(badges[0].contains(">17 similar<"), "{}", badges[0]);
    server.delete_index(&index).await;
}

#[tokio::test]
async fn an_article_and_those_around_it() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let spinney = start(&upstream);
    let index = unique_index("page-article");
    sample::load(&server, &spinney, &index).await;
    // Who else published it, in order; a jump; the way back to the same list.
    let list = shown(&spinney, &format!("/{index}?q=ferry&sort=most"));
    let first = &links(&list, "data-entry")[0];
    let page = followed(&spinney, first);
    let back = links(&page, "").into_iter().find(|link| link.contains("q=ferry")).unwrap();
    let (back, place) = back.split_once('#').unwrap();
    assert_eq!(back, format!("{UI}/{index}?q=ferry&sort=most"));
    assert!(list.contains(&format!("<li class=\"entry\" id=\"{place}\">")), "{place}");
    let times: Vec<&str> = page
        .split("<td class=\"when\"><time datetime=\"")
        .skip(1)
        .map(|rest| rest.split_once('"').unwrap().0)
        .collect();
    assert_eq!(times.len(), 16);
    assert!(times.is_sorted());
    assert_eq!(page.matches("<circle").count(), 16);
    assert!(page.contains("role=\"img\" aria-labelledby=\"timeline-title timeline-desc\""));
    // What changed, in each of the others; text only on request.
    let others = links(&page, "data-entry");
    assert_eq!(others.len(), 15);
    let mut changed = 0;
    for other in &others {
        let page = followed(&spinney, other);
        assert!(page.contains("id=\"changes\""));
        changed += usize::from(page.contains("<ins>") || page.contains("<del>"));
        let plain = shown(&spinney, &format!("{}&view=text", other.strip_prefix(UI).unwrap()));
        assert!(!plain.contains("<ins>") && !plain.contains("<del>"));
    }
    assert!(changed > 5, "{changed}");
    // Neighbours that are another story, and why.
    let page = shown(&spinney, &format!("/{index}/article/{}", sample::WITH_NEIGHBOURS));
    assert!(page.matches("class=\"why\"").count() >= 2, "{page}");
    let reasons = ["The same words with other numbers", "The texts have too little in common"];
    assert!(reasons.iter().any(|reason| page.contains(reason)), "{page}");
    // By its root; an article that is not there.
    let stored = server.get(&index, "n0160").await.unwrap();
    let root = common::root_of(&stored).unwrap();
    let moved = get(&spinney, &format!("/{index}/group/{root}"));
    assert_eq!(moved.status, 303);
    assert_eq!(moved.header("location"), Some(&*format!("{UI}/{index}/article/n0160")));
    let none = get(&spinney, &format!("/{index}/article/none"));
    assert_eq!(none.status, 404);
    assert!(none.text().contains("there is no document [none]"), "{}", none.text());
    // Without a stamp, and alone.
    server
        .request(
            reqwest::Method::PUT,
            &format!("/{index}/_doc/bare?refresh=true"),
            Some(json!({"title": "Bare", "content": "Nobody stamped this."})),
        )
        .await;
    assert!(shown(&spinney, &format!("/{index}/article/bare")).contains("No stamp"));
    server.delete_index(&index).await;
}

#[tokio::test]
async fn languages_and_looks() {
    let spinney = start(&common::opensearch());
    let ask = |path: &str, headers: &[(&str, &str)]| {
        let request = Request::get(&format!("{UI}{path}"));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        request.to(&spinney.url)
    };
    let chinese = ask("/", &[("accept-language", "zh-CN,zh;q=0.9,en;q=0.5")]);
    assert!(chinese.text().contains("<html lang=\"zh-CN\" data-theme=\"auto\">"));
    assert!(chinese.text().contains("要看哪些文章？"));
    let asked = ask("/?lang=zh&theme=dark", &[]);
    assert!(asked.text().contains("<html lang=\"zh-CN\" data-theme=\"dark\">"));
    let cookie = asked.header("set-cookie").unwrap();
    assert!(cookie.starts_with("spinney_lang=zh; Path=/_spinney/ui;"), "{cookie}");
    let remembered = ask("/", &[("cookie", "spinney_theme=dark; spinney_lang=zh")]);
    assert!(remembered.text().contains("<html lang=\"zh-CN\" data-theme=\"dark\">"));
    let english = ask("/", &[]);
    assert!(english.text().contains("<html lang=\"en\""));
}

on_each_server!(what_the_cluster_refuses_is_said_in_its_words);

async fn what_the_cluster_refuses_is_said_in_its_words(search_server: SearchServer) {
    let upstream = search_server.url();
    let spinney = start(&upstream);
    for path in ["/news-missing", "/news-missing/article/a", "/news-missing/group/0123456789abcdef"] {
        let answer = get(&spinney, path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text().contains("no such index [news-missing]"), "{}", answer.text());
        assert!(answer.text().contains("The cluster says"));
    }
    let date = get(&spinney, "/news-missing?from=yesterday");
    assert_eq!(date.status, 400);
    assert!(date.text().contains("[from] takes a date such as 2026-11-21, not yesterday"));
    assert_eq!(get(&spinney, "/nowhere/else/at/all").status, 404);
    let empty = shown(&spinney, "/news-nothing-*");
    assert!(empty.contains("Nothing here yet"), "{empty}");
}

/// Who cannot be reached cannot refuse anything.
#[tokio::test]
async fn a_cluster_that_is_away_is_said_to_be_away() {
    let spinney = Spinney::start(&["--upstream", "http://127.0.0.1:1", "--index", "news-*"]);
    let answer = get(&spinney, "/news-1");
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("no cluster node could be reached"));
}

/// The cluster asks who somebody is: the browser is to ask that, the script asks it in its own way.
#[tokio::test]
async fn credentials_are_the_readers() {
    let cluster = Fake::in_any_health(|request| {
        let known = request.headers("authorization") == ["Basic cmVhZGVyOng="];
        Reply::Bytes(if known {
            fake::json(
                403,
                "",
                "{\"error\":{\"type\":\"security_exception\",\"reason\":\"no permissions for [x]\"},\"status\":403}",
            )
        } else {
            fake::json(401, "www-authenticate: Basic realm=\"the cluster\"\r\n", "{\"error\":\"who\",\"status\":401}")
        })
    });
    let spinney = start(&cluster.url);
    for path in [
        "/news-1",
        "/news-1?format=csv",
        "/news-1/article/a",
        "/news-1/group/0123456789abcdef",
        "/news-1/group/0123456789abcdef?format=atom",
        "/overview",
    ] {
        let path = format!("{UI}{path}");
        let browser = Request::get(&path).to(&spinney.url);
        assert_eq!(browser.status, 401, "{path}");
        assert_eq!(browser.header("www-authenticate"), Some("Basic realm=\"the cluster\""));
        match path.contains("format=") {
            true => assert_eq!(browser.json()["error"], "who"),
            false => assert!(browser.text().contains("Please sign in")),
        }
        let script = Request::get(&path).header("x-spinney-page", "1").to(&spinney.url);
        assert_eq!((script.status, script.header("www-authenticate")), (401, None));
        let reader = Request::get(&path)
            .header("authorization", "Basic cmVhZGVyOng=")
            .header("cookie", "spinney_lang=zh; session=1")
            .to(&spinney.url);
        assert_eq!(reader.status, 403, "{path}");
        assert!(reader.text().contains("no permissions for [x]"), "{}", reader.text());
        let passed = cluster.last_of(|it| !it.headers("authorization").is_empty());
        assert_eq!(passed.headers("authorization"), ["Basic cmVhZGVyOng="]);
        assert_eq!(passed.headers("cookie"), ["session=1"]);
        assert!(passed.headers("x-spinney-page").is_empty());
    }
    let home = get(&spinney, "/");
    assert_eq!((home.status, home.header("www-authenticate")), (200, None));
    assert!(!home.text().contains("news-*</a>"), "{}", home.text());
}

#[tokio::test]
async fn the_page_is_on_the_main_listener_alone() {
    let spinney = Spinney::start(&[
        "--upstream",
        &common::opensearch(),
        "--index",
        "news-*",
        "--admin-listen",
        "127.0.0.1:0",
        "--log",
        "info",
    ]);
    let answer = Request::get(&format!("{UI}/")).to(&spinney.admin_url());
    assert_eq!(answer.status, 404);
    assert_eq!(get(&spinney, "/").status, 200);
}
