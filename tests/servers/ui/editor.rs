//! The page as an editor works with it: large groups, HTML bodies, empty lists, files.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{UI, followed, get, link, links, sample, shown, start, start_for};
use crate::common::wire::Request;
use crate::common::{self, SearchServer, Server, on_each_server, root_of, unique_index};

const ROOT: &str = "00000000000000aa";

/// Articles of the large group.
const MANY: usize = 10_000;
const MEDIA: usize = 30;

/// Writes documents with a stamp, as if spinney had written them.
pub async fn store(server: &Server, index: &str, documents: impl Iterator<Item = (String, Value)>) {
    let lines = documents.map(|(id, mut source)| {
        source["cluster_root"] = ROOT.into();
        source["cluster_key"] = 0xaa.into();
        format!("{}\n{source}\n", json!({"index": {"_id": id}}))
    });
    let body: String = lines.collect();
    let answer = Request::bulk(&format!("/{index}/_bulk?refresh=true"), &body).to(server.url());
    assert_eq!(answer.json()["errors"], false, "{}", answer.text());
}

/// One article every minute, from the second of January on.
pub fn article(at: usize) -> (String, Value) {
    let (day, hour, minute) = (2 + at / 1_440, at / 60 % 24, at % 60);
    let end = if at == 0 { "" } else { " Nobody was hurt." };
    let source = json!({
        "title": format!("Harbour closed {at}"),
        "content": format!("The harbour was closed for two days after the storm, the port said on Monday.{end}"),
        "media": format!("medium {}", at % MEDIA),
        "published_at": format!("2026-01-{day:02}T{hour:02}:{minute:02}:00Z"),
    });
    (format!("m{at}"), source)
}

on_each_server!(a_group_of_ten_thousand_is_read_in_parts);

async fn a_group_of_ten_thousand_is_read_in_parts(search_server: SearchServer) {
    let chooses_intervals = search_server.expected().chooses_intervals;
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let index = unique_index("page-many");
    let spinney = start(&upstream);
    sample::create(&server, &index).await;
    for part in 0..5 {
        store(&server, &index, (part * MANY / 5..(part + 1) * MANY / 5).map(article)).await;
    }
    // An article from the middle, on the first page of its group and on the second.
    let mut page = shown(&spinney, &format!("/{index}/article/m5000"));
    for (from, to, firsts) in [(1, 100, 1), (101, 200, 0)] {
        assert!(page.contains(&format!("Articles {from} to {to} of 10,000")), "{page}");
        assert!(page.contains("10,000 articles by 30 media within 6 d 22 h"), "{page}");
        assert!(page.contains("<h2 id=\"changes-title\">What changed</h2>"), "{page}");
        assert!(page.contains("3 words added, 0 removed"), "{page}");
        assert_eq!(page.matches("<circle class=\"dot first\"").count(), firsts, "{page}");
        assert_eq!(page.matches("<tr class=\"here\">").count(), 1, "{page}");
        assert_eq!(page.matches("<circle class=\"dot here\"").count(), 1, "{page}");
        assert_eq!(page.matches("<tr").count(), 1 + 101, "{page}");
        // Over all, not over those of the page.
        let bars = page.matches("<rect class=\"bar\"").count();
        let expected = if chooses_intervals { 10..=60 } else { 0..=0 };
        assert!(expected.contains(&bars), "{bars}");
        assert!(page.contains(">medium 0</bdi></a> <span class=\"quiet-text\">334</span>"), "{page}");
        assert!(page.contains("18 more media"), "{page}");
        let more = links(&page, "class=\"forward\"")[0].clone();
        page = followed(&spinney, &more);
    }
    // A zone that the servers do not know, as one may be that is newer than they are.
    let bars = |zone: &str| {
        shown(&spinney, &format!("/{index}/article/m5000?zone={zone}")).matches("<rect class=\"bar\"").count()
    };
    assert_eq!(bars("Factory"), bars("UTC"));
    // A filter inside the group: by medium, by time, by words. The article itself stays.
    let first = shown(&spinney, &format!("/{index}/article/m5000"));
    let of_medium = shown(&spinney, &format!("/{index}/article/m5000?in_medium=medium+7"));
    assert!(of_medium.contains("Articles 1 to 100 of 334 that fit"), "{of_medium}");
    assert_eq!(of_medium.matches("<tr class=\"here\">").count(), 1);
    assert!(of_medium.contains("10,000 articles by 30 media"));
    let interval = match chooses_intervals {
        true => followed(&spinney, &links(&first, "in_from=")[0]),
        // Three hours from the first article on.
        false => shown(&spinney, &format!("/{index}/article/m5000?in_from=1767312000000&in_to=1767322800000")),
    };
    assert!(interval.contains("2 Jan 2026, 00:00 – 2 Jan 2026, "), "{interval}");
    assert!(interval.contains("that fit, in order of publication"), "{interval}");
    let words = shown(&spinney, &format!("/{index}/article/m5000?in_q=77"));
    assert!(words.contains("Articles 1 to 1 of 1 that fit"), "{words}");
    assert!(words.contains(">Harbour closed 77</a>"), "{words}");
    let none = shown(&spinney, &format!("/{index}/article/m5000?in_q=nobodywrotethis"));
    assert!(none.contains("No article of the group fits."), "{none}");
    // The group as a file, page for page.
    let mut seen = 0;
    let mut next = Some(format!("{UI}/{index}/group/{ROOT}?format=json&in_medium=medium+7"));
    while let Some(address) = next {
        let answer = Request::get(&address).to(&spinney.url);
        let json = answer.json();
        seen += json["hits"].as_array().unwrap().len();
        assert_eq!(answer.header("link").is_some(), json["next_page"].is_string());
        next = json["next_page"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, 334);
    server.delete_index(&index).await;
}

on_each_server!(what_stands_in_html_is_read_as_text_and_matches_are_marked);

async fn what_stands_in_html_is_read_as_text_and_matches_are_marked(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let spinney = start(&upstream);
    let index = unique_index("page-html");
    sample::create(&server, &index).await;
    let text = "The ferry was closed for two days after the storm, the port said on Monday. Ships waited in the bay.";
    let before = "Nothing of this has the word that was asked for, and so it goes on. ".repeat(10);
    let html = format!(
        "<div class=\"x\"><p>{before}</p><p>{text} <b>Harbour</b> &lt;img src=x onerror=alert(1)&gt; \u{e000}</p>\
         <script>alert(\"harbour\")</script><p>صحيفة</p></div>"
    );
    for (id, content, media) in [("a", html.as_str(), "صحيفة الشرق"), ("b", text, "新华社")] {
        let source = json!({
            "title": "台风在浙江登陆", "content": content, "media": media, "published_at": "2026-01-02T03:04:05Z",
        });
        sample::write(&spinney, &index, id, &source);
    }
    server.refresh(&index).await;
    let list = shown(&spinney, &format!("/{index}?q=harbour"));
    assert!(list.contains("<mark>Harbour</mark> &#60;img src=x onerror=alert(1)&#62;"), "{list}");
    assert!(list.contains("<h3 dir=\"auto\" lang=\"zh\">"), "{list}");
    assert!(list.contains("<bdi lang=\"und-Arab\">صحيفة الشرق</bdi>"), "{list}");
    let article = shown(&spinney, &format!("/{index}/article/a"));
    assert!(article.contains("<h1 dir=\"auto\" lang=\"zh\">台风在浙江登陆</h1>"), "{article}");
    assert!(article.contains("<p dir=\"auto\">صحيفة</p>"), "{article}");
    for page in [&list, &article] {
        for bad in ["<img", "&#60;p&#62;", "&#60;div", "alert(&#34;harbour"] {
            assert!(!page.contains(bad), "{bad} in {page}");
        }
    }
    server.delete_index(&index).await;
}

on_each_server!(an_empty_list_says_why_and_leads_out);

async fn an_empty_list_says_why_and_leads_out(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let spinney = start(&upstream);
    let index = unique_index("page-empty");
    sample::create(&server, &index).await;
    store(&server, &index, (0..10).map(article)).await;
    for (query, said, way) in [
        ("from=2026-03-01&to=2026-01-01", "The dates are the wrong way round", "?from=2026-01-01&to=2026-03-01"),
        ("medium=medium+x", "is of the medium “<bdi>medium x</bdi>”", "?medium=medium+3"),
        ("q=%22harbour+ship", "does not end with one", "?q=%22harbour+ship%22"),
        ("q=harbour+nobodywrotethis", "has the word “<bdi>nobodywrotethis</bdi>”", "?q=harbour"),
        ("q=harb+harbour", "has the word “<bdi>harb</bdi>”", "?q=harbour"),
        ("q=harbour&from=2030-01-01", "These would find something", "?q=harbour"),
    ] {
        let page = shown(&spinney, &format!("/{index}?{query}"));
        assert!(page.contains("Nothing fits") && page.contains(said), "{query}: {page}");
        let ways = links(&page, "class=\"way\"");
        assert!(ways.iter().any(|address| address.ends_with(way)), "{query}: {ways:?}");
        let out = ways.iter().find(|address| address.ends_with(way)).unwrap();
        let out = followed(&spinney, out);
        if !query.starts_with("q=%22") {
            assert!(out.contains("class=\"entry\""), "{query}: {out}");
        }
    }
    server.delete_index(&index).await;
}

on_each_server!(stories_are_counted_by_medium_and_language);

/// The language is mapped as the servers do by themselves: a text with a keyword beside it.
async fn stories_are_counted_by_medium_and_language(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let index = unique_index("page-facets");
    let spinney = start_for(&upstream, &index, &["--language-field", "lang"]);
    sample::load(&server, &spinney, &index).await;
    let stored = server.documents(&index).await;
    let roots_of = |field: &str| {
        let mut roots: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for document in stored.values() {
            let value = document[field].as_str().unwrap().to_owned();
            roots.entry(value).or_default().insert(root_of(document).unwrap().to_owned());
        }
        roots
    };
    let (media, languages) = (roots_of("media"), roots_of("lang"));
    let page = shown(&spinney, &format!("/{index}"));
    assert!(!page.contains("Stories by medium"), "nobody has asked for them: {page}");
    let page = shown(&spinney, &link(&page, "facets=shown"));
    assert!(page.contains("Stories by medium") && page.contains("Stories by language"), "{page}");
    for (language, roots) in &languages {
        let row = format!(">{language}</bdi></a> <span class=\"quiet-text\">{}</span>", roots.len());
        assert!(page.contains(&row), "{row}: {page}");
        let address = links(&page, &format!("?language={language}&#38;"))[0].clone();
        let chosen = followed(&spinney, &address);
        assert!(chosen.contains(&format!("<h2 class=\"total\">{} stor", roots.len())), "{language}: {chosen}");
        assert!(chosen.contains(" open><summary>Stories by language"), "{language}: {chosen}");
        let all = links(&chosen, &format!("href=\"{UI}/{index}?facets=shown\""));
        assert_eq!(all.len(), 1, "{language}: {all:?}");
    }
    let most = media.values().map(BTreeSet::len).max().unwrap();
    let (medium, _) = media.iter().find(|(_, roots)| roots.len() == most).unwrap();
    assert!(page.contains(&format!(">{medium}</bdi></a> <span class=\"quiet-text\">{most}</span>")), "{page}");
    // Both at once, and the sort stays.
    let (language, of_language) = languages.iter().next().unwrap();
    let both = media.keys().map(|medium| {
        let both = stored.values().filter(|document| {
            document["media"].as_str() == Some(medium) && document["lang"].as_str() == Some(language)
        });
        (medium, both.filter_map(root_of).collect::<BTreeSet<_>>().len())
    });
    let (medium, expected) = both.max_by_key(|(_, groups)| *groups).unwrap();
    let narrowed = shown(&spinney, &format!("/{index}?language={language}&sort=newest&facets=shown"));
    let row = format!(">{medium}</bdi></a> <span class=\"quiet-text\">{expected}</span>");
    assert!(narrowed.contains(&row), "{row}: {narrowed}");
    let kept = links(&narrowed, "?medium=");
    assert!(
        kept.iter().all(|address| address.ends_with(&format!("&language={language}&facets=shown&sort=newest"))),
        "{kept:?}"
    );
    assert!(expected < of_language.len());
    server.delete_index(&index).await;
}

on_each_server!(a_route_names_who_stands_for_a_group);

async fn a_route_names_who_stands_for_a_group(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let index = unique_index("page-representative");
    sample::create(&server, &index).await;
    store(&server, &index, (0..10).map(article)).await;
    let rank = json!({"rank": {"field": "media", "order": ["nobody", "medium 4", "medium 2"]}}).to_string();
    for (choice, expected) in [("oldest", 0), ("newest", 9), (rank.as_str(), 4)] {
        let spinney = start_for(&upstream, &index, &["--representative", choice]);
        for query in ["", "?sort=newest", "?sort=most", "?q=harbour", "?format=csv"] {
            let page = shown(&spinney, &format!("/{index}{query}"));
            assert!(page.contains(&format!(" closed {expected}")), "{choice} {query}: {page}");
        }
    }
    server.delete_index(&index).await;
}

on_each_server!(every_note_of_the_api_stands_on_the_page);

async fn every_note_of_the_api_stands_on_the_page(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let index = unique_index("page-notes").replace("news-", "notes-");
    let counting = start_for(&upstream, &index, &["--counts", "on"]);
    sample::create(&server, &index).await;
    for at in 0..10 {
        // Groups of two: others are not counted ahead.
        let story = at / 2;
        let text = format!("Story {story}: {}", "word ".repeat(story + 3));
        let source = json!({"title": format!("Story {story}"), "content": text, "media": "Wire"});
        sample::write(&counting, &index, &at.to_string(), &source);
    }
    let bare = (0..50).map(|at| {
        format!("{}\n{}\n", json!({"index": {"_id": format!("bare{at}")}}), json!({"title": "Bare", "content": "x"}))
    });
    let bare = Request::bulk(&format!("/{index}/_bulk?refresh=true"), bare.collect::<String>()).to(&upstream);
    assert_eq!(bare.json()["errors"], false);
    // One that does not count says so, once there is something that was counted.
    let spinney = start_for(&upstream, &index, &["--counts", "off"]);
    let waiting = common::Waiting::until("the groups are counted");
    let notes: Vec<String> = loop {
        let api = Request::json("POST", &format!("/_spinney/{index}/_groups"), "{}").to(&spinney.url).json();
        let notes = serde_json::from_value::<Vec<String>>(api["notes"].clone()).unwrap();
        if notes.len() == 2 {
            break notes;
        }
        waiting.pause().await;
    };
    drop(counting);
    let page = shown(&spinney, &format!("/{index}"));
    assert!(page.contains("50 more articles have no stamp"), "{page}");
    let other = notes.iter().find(|note| note.contains("does not count")).unwrap();
    assert!(page.contains(&other.replace('"', "&#34;")), "{page}");
    assert_eq!(page.matches("class=\"hint api\"").count(), 2, "{page}");
    let chinese = shown(&spinney, &format!("/{index}?lang=zh"));
    assert!(chinese.contains("另有 50 篇文章未盖章") && !chinese.contains("documents under the query"), "{chinese}");
    server.delete_index(&index).await;
    server.delete_index(&format!("spinney-roots-{index}")).await;
}

#[tokio::test]
async fn times_are_the_readers() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let spinney = start(&upstream);
    let index = unique_index("page-zone");
    sample::create(&server, &index).await;
    let late = json!({"title": "Late", "content": "It was late.", "published_at": "2026-01-02T23:30:00Z"});
    store(&server, &index, std::iter::once(("late".to_owned(), late))).await;
    let in_utc = shown(&spinney, &format!("/{index}?from=2026-01-03"));
    assert!(in_utc.contains("Nothing fits"), "{in_utc}");
    let in_berlin = get(&spinney, &format!("/{index}?from=2026-01-03&zone=Europe/Berlin"));
    assert!(in_berlin.text().contains("3 Jan 2026, 00:30"), "{}", in_berlin.text());
    assert!(in_berlin.text().contains("Times are those of Europe/Berlin."));
    let cookie = in_berlin.header("set-cookie").unwrap().to_owned();
    assert!(cookie.starts_with("spinney_zone=Europe/Berlin;"), "{cookie}");
    let article = Request::get(&format!("{UI}/{index}/article/late")).header("cookie", "spinney_zone=Europe/Berlin");
    let article = article.to(&spinney.url).text();
    assert!(article.contains("3 Jan 2026, 00:30 Europe/Berlin"), "{article}");
    assert!(article.contains("datetime=\"2026-01-02T23:30:00.000Z\""), "{article}");
    // A time that ends now.
    let now = json!({"title": "Now", "content": "It is now.", "published_at": "2999-01-01T00:00:00Z"});
    sample::write(&spinney, &index, "now", &now);
    server.refresh(&index).await;
    let week = shown(&spinney, &format!("/{index}?within=7d"));
    assert!(week.contains(">Now</a>") && !week.contains(">Late</a>"), "{week}");
    assert_eq!(
        links(&week, "aria-current=\"true\"").iter().filter(|it| it.ends_with("within=7d")).count(),
        1,
        "{week}"
    );
    server.delete_index(&index).await;
}

on_each_server!(lists_and_groups_are_files_too);

async fn lists_and_groups_are_files_too(search_server: SearchServer) {
    let upstream = search_server.url();
    let server = Server::new(&upstream);
    let index = unique_index("page-files").replace("news-", "files-");
    let spinney = start_for(&upstream, &index, &["--counts", "off"]);
    let groups = sample::load(&server, &spinney, &index).await;
    let evil =
        json!({"title": "=HYPERLINK(\"http://evil\")", "content": "]]> & <x> Formulas are evil, the paper says."});
    sample::write(&spinney, &index, "evil", &evil);
    server.refresh(&index).await;
    // Where the page links to.
    let list = shown(&spinney, &format!("/{index}"));
    let files = links(&list, "data-file=");
    assert_eq!(files.len(), 3, "{files:?}");
    assert!(list.contains("<link rel=\"alternate\" type=\"application/atom+xml\""), "{list}");
    for (file, media_type) in files.iter().zip(["application/atom+xml", "text/csv", "application/json"]) {
        let (mut next, mut seen, mut all) = (Some(file.clone()), 0, String::new());
        while let Some(address) = next {
            let answer = Request::get(&address).to(&spinney.url);
            assert_eq!(answer.status, 200, "{address}: {}", answer.text());
            assert!(answer.header("content-type").unwrap().starts_with(media_type));
            assert_eq!(answer.header("cache-control"), Some("no-store"));
            let text = answer.text();
            seen += match media_type {
                "text/csv" => text.matches("\r\n").count() - 1,
                "application/json" => answer.json()["groups"].as_array().unwrap().len(),
                _ => text.matches("<entry>").count(),
            };
            next = answer.header("link").map(|link| link[1..].split('>').next().unwrap().to_owned());
            if let Some(next) = &next {
                assert!(text.contains(next) || text.contains(&next.replace('&', "&amp;")), "{text}");
            }
            all.push_str(&text);
        }
        assert_eq!(seen, groups + 1, "{file}");
        match media_type {
            "text/csv" => assert!(all.contains("\"'=HYPERLINK(\"\"http://evil\"\")\""), "{all}"),
            "application/json" => assert!(all.contains("\"similar_count\"")),
            _ => {
                assert!(all.contains("]]&gt; &amp; &lt;x&gt;"), "{all}");
                let ids = all.matches("<id>urn:uuid:").count();
                assert!(ids > groups, "{ids}");
            }
        }
    }
    // Who may not read the index gets no file.
    let missing = get(&spinney, "/files-missing?format=csv");
    assert_eq!(missing.status, 404);
    // A group, from the page of an article.
    let article = shown(&spinney, &link(&shown(&spinney, &format!("/{index}?q=Formulas")), "data-entry"));
    assert!(links(&article, "data-file=").is_empty(), "{article}");
    let first = links(&shown(&spinney, &format!("/{index}?sort=most")), "data-entry")[0].clone();
    let article = followed(&spinney, &first);
    for file in links(&article, "data-file=") {
        let answer = Request::get(&file).to(&spinney.url);
        let rows = match file.contains("format=csv") {
            true => answer.text().matches("\r\n").count() - 1,
            false if file.contains("format=json") => answer.json()["hits"].as_array().unwrap().len(),
            false => answer.text().matches("<entry>").count(),
        };
        assert_eq!(rows, 18, "{file}: {}", answer.text());
    }
    server.delete_index(&index).await;
}
