//! What readers say about groups on the page: asked back, guarded against forms of other sites, and taken back.

use serde_json::json;

use super::{UI, get, link, sample, shown, start};
use crate::common::wire::{Answer, Request};
use crate::common::{self, Server, Spinney, root_of, unique_index};

/// The hidden fields of the form of a page, as it sends them.
pub fn form(page: &str) -> Vec<(String, String)> {
    let inputs = page.split("<input type=\"hidden\" ").skip(1);
    let value = |input: &str, of: &str| {
        let (_, rest) = input.split_once(of).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let fields = inputs.map(|input| (value(input, "name=\""), value(input, "value=\"")));
    fields.collect()
}

fn send(spinney: &Spinney, index: &str, fields: &[(String, String)]) -> Answer {
    let body = fields.iter().map(|(name, value)| format!("{name}={value}"));
    let body = body.collect::<Vec<_>>().join("&");
    Request::new("POST", format!("{UI}/{index}/override"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body)
        .to(&spinney.url)
}

/// Where an answer leads.
fn next(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text());
    let address = answer.header("location").unwrap();
    address.strip_prefix(UI).unwrap().to_owned()
}

fn listed_overrides(spinney: &Spinney, index: &str) -> usize {
    let answer = Request::get(&format!("/_spinney/{index}/_overrides")).to(&spinney.url);
    answer.json()["overrides"].as_array().unwrap().len()
}

#[tokio::test]
async fn another_story_is_said_and_taken_back() {
    let upstream = common::elasticsearch();
    let server = Server::new(&upstream);
    let spinney = start(&upstream);
    let index = unique_index("page-say");
    sample::create(&server, &index).await;
    for (id, end) in [("a", "It is open again."), ("b", "Nobody was hurt."), ("c", "Nobody was hurt.")] {
        let text = "The harbour was closed for two days after the storm, the port said on Monday. Ships waited in the \
                    bay, and the fish market had nothing to sell until the evening.";
        let source = json!({"title": "Harbour", "content": format!("{text} {end}"), "media": id});
        sample::write(&spinney, &index, id, &source);
    }
    server.refresh(&index).await;
    let article = shown(&spinney, &format!("/{index}/article/b"));
    let address = link(&article, "/override?");
    for (lang, question) in [("en", "Is this another story?"), ("zh", "这是另一篇报道吗？")] {
        let page = shown(&spinney, &format!("{address}&lang={lang}"));
        assert!(page.contains(question), "{page}");
        assert!(page.contains("“<bdi lang=\"\">Harbour</bdi>”"), "{page}");
    }
    // Looking has said nothing, and nothing is said without what only this page has.
    let fields = form(&shown(&spinney, &address));
    let with = |name: &str, value: &str| {
        let mut changed = fields.clone();
        changed.iter_mut().find(|(of, _)| of == name).unwrap().1 = value.to_owned();
        changed
    };
    let without = fields.iter().filter(|(name, _)| name != "token");
    let without: Vec<_> = without.cloned().collect();
    for wrong in [&without, &with("token", "0123456789abcdef"), &with("id", "a")] {
        assert_eq!(send(&spinney, &index, wrong).status, 403, "{wrong:?}");
    }
    assert_eq!(send(&spinney, &index, &with("what", "x")).status, 400);
    // Who asks as somebody else has another token.
    let body = fields.iter().map(|(name, value)| format!("{name}={value}"));
    let other = Request::new("POST", format!("{UI}/{index}/override"))
        .header("authorization", "Basic eDp5")
        .body(body.collect::<Vec<_>>().join("&"))
        .to(&spinney.url);
    assert_eq!(other.status, 403);
    assert_eq!(listed_overrides(&spinney, &index), 0);

    let done = next(&send(&spinney, &index, &fields));
    assert_eq!(listed_overrides(&spinney, &index), 1);
    let waiting = common::Waiting::until("the article and its copy are on their own");
    loop {
        server.refresh(&index).await;
        let stored = server.documents(&index).await;
        let root = |id: &str| root_of(&stored[id]).unwrap().to_owned();
        if root("b") == root("c") && root("b") != root("a") {
            break;
        }
        waiting.pause().await;
    }
    let done = shown(&spinney, &done);
    assert!(done.contains("Take it back"), "{done}");
    let undone = next(&send(&spinney, &index, &form(&done)));
    assert!(shown(&spinney, &undone).contains("Taken back"));
    assert_eq!(listed_overrides(&spinney, &index), 0);
    assert_eq!(get(&spinney, &format!("/{index}/override")).status, 404);
    let put = Request::new("PUT", format!("{UI}/{index}/override")).to(&spinney.url);
    assert_eq!(put.status, 405);
    server.delete_index(&index).await;
}

#[tokio::test]
async fn one_story_is_said_of_what_looked_alike() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    let spinney = start(&upstream);
    let index = unique_index("page-same");
    sample::load(&server, &spinney, &index).await;
    let path = format!("/{index}/article/{}", sample::WITH_NEIGHBOURS);
    let article = shown(&spinney, &path);
    let address = super::links(&article, "what=merge")[0].clone();
    let address = address.strip_prefix(UI).unwrap();
    let asked = shown(&spinney, address);
    assert!(asked.contains("Are these one story?"), "{asked}");
    let fields = form(&asked);
    let of = |name: &str| fields.iter().find(|(of, _)| of == name).unwrap().1.clone();
    // In titles, not in roots.
    let question = asked.split("<section class=\"note\">").nth(1).unwrap().split("<form").next().unwrap();
    assert_eq!(question.matches("<bdi lang=").count(), 2, "{question}");
    assert!(!question.contains(&of("root")) && !question.contains(&of("other")), "{question}");
    next(&send(&spinney, &index, &fields));
    let waiting = common::Waiting::until("the other group is a part of this one");
    loop {
        server.refresh(&index).await;
        let stored = server.documents(&index).await;
        let has = |root: &str| stored.values().any(|source| root_of(source) == Some(root));
        if !has(&of("other")) {
            assert!(has(&of("root")));
            break;
        }
        waiting.pause().await;
    }
    // It is no neighbour any more, and saying it again says nothing.
    let article = shown(&spinney, &path);
    assert!(!super::links(&article, "what=merge").iter().any(|link| link.contains(&of("other"))));
    let again = next(&send(&spinney, &index, &fields));
    assert!(shown(&spinney, &again).contains("That was so before"));
    server.delete_index(&index).await;
}
