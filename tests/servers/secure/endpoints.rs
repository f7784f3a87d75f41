//! Every endpoint of the table that the dispatcher is made from, with every kind of name, as five users: nobody sees or
//! changes through any of them what the cluster would not let him see or change.

use std::sync::Arc;

use serde_json::{Value, json};
use spinney::endpoints::{ApiEndpoint, ENDPOINTS, Endpoint, PageEndpoint};

use super::{ADMIN, Answer, READER, Scene, User, WRITER};
use crate::common::{Waiting, root_of};
use crate::ui::form;

const PASSWORD: &str = "rowan-Alder-5521";

/// What only those are shown who may search one name that belongs to the forest.
const OF_A_NAME: [&str; 4] = ["\"decision\"", "\"fingerprints\"", "\"suggestions\"", "\"restamping\""];

/// What only those are shown who are shown a document in an index of the forest, under whatever name.
const OF_A_DOCUMENT: [&str; 3] = ["\"forest\":{", "/override?what=", "/group/"];

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Belongs to the forest.
    Index,
    /// Belongs to it by other names than its own.
    Behind,
    /// One name, that does not belong to it, or that there is not.
    Foreign,
    /// Not one name.
    Several,
}

/// The scene, with an index of somebody who has nothing to do with the forest, and names of all kinds.
struct Walk {
    scene: Scene,
    /// The owner of that index, and somebody who may search everything and write nothing.
    owner: User,
    auditor: User,
    /// As they stand in a path, with what they stand for.
    names: Vec<(String, Kind)>,
    roots: [String; 2],
    /// To be deleted.
    made: Vec<String>,
}

/// The titles of documents, by the index that they are in.
fn title(of: &str) -> String {
    format!("title-in-{of}")
}

impl Walk {
    async fn new() -> Walk {
        let service_url = crate::common::opensearch_secure().url.replace("https://", "https://admin:admin@");
        let literal = crate::common::unique_index("walk-literal");
        let options = ["--service-url", &service_url, "--title-field", "title"];
        let mut scene = Scene::with("walk", &options).await;
        let (open, closed) = (scene.open.clone(), scene.closed.clone());
        scene.spinney = {
            let mut args = super::args(&scene.secure, &format!("{open}*,{closed}*,{literal}"), "longest");
            args.extend(options.map(str::to_owned));
            super::start(&args)
        };
        let own = closed.replace("closed-", "own-");
        let hidden = format!("{closed}-hidden");
        let (stream, both) = (format!("{closed}-stream"), format!("{open}-both"));
        let alias = format!("{closed}-alias");
        let mut walk = Walk {
            owner: Some((String::leak(format!("owner-{own}")), PASSWORD)),
            auditor: Some((String::leak(format!("auditor-{own}")), PASSWORD)),
            names: vec![
                (open.clone(), Kind::Index),
                (closed.clone(), Kind::Index),
                (hidden.clone(), Kind::Index),
                (stream.clone(), Kind::Behind),
                (literal.clone(), Kind::Behind),
                (own.clone(), Kind::Foreign),
                (alias.clone(), Kind::Foreign),
                (both.clone(), Kind::Foreign),
                (".opendistro_security".into(), Kind::Foreign),
                (format!("{closed}-none"), Kind::Foreign),
                (format!("{closed}-zzz*,{own}"), Kind::Several),
                (format!("{closed},{own}"), Kind::Several),
                (format!("{closed}*"), Kind::Several),
                (format!("{closed}%2F_search"), Kind::Several),
                (format!("far:{closed}"), Kind::Several),
            ],
            roots: [String::new(), String::new()],
            made: Vec::new(),
            scene,
        };
        walk.fill([&open, &closed, &own, &hidden, &stream, &both, &alias, &literal]).await;
        walk
    }

    async fn fill(&mut self, names: [&str; 8]) {
        let [open, closed, own, hidden, stream, both, alias, literal] = names;
        let settings = |hidden: bool| {
            let number = json!({"number_of_shards": 1, "number_of_replicas": 0, "hidden": hidden});
            json!({"settings": number})
        };
        let roles = [(self.owner, format!("{own}*"), "indices_all"), (self.auditor, "*".to_owned(), "read")];
        for (user, pattern, action) in roles {
            let role = json!({"cluster_permissions": ["cluster_composite_ops"],
                "index_permissions": [{"index_patterns": [pattern], "allowed_actions": [action]}]});
            self.scene.make_user(user.unwrap(), role).await;
        }
        self.make(&format!("/{own}"), settings(false)).await;
        self.make(&format!("/{hidden}"), settings(true)).await;
        let template = json!({"index_patterns": [stream], "data_stream": {}, "priority": 900,
            "template": {"settings": {"number_of_replicas": 0}}});
        self.make(&format!("/_index_template/{stream}"), template).await;
        self.make(&format!("/_data_stream/{stream}"), json!(null)).await;
        // A name that only the route itself has, before an index whose name fits none.
        let behind = literal.replace("news-", "behind-");
        self.make(&format!("/{behind}"), settings(false)).await;
        for (index, name) in [(&*behind, literal), (open, both), (own, both)] {
            self.admin("PUT", &format!("/{index}/_alias/{name}"), &json!(null)).await;
        }
        // The cluster lets him give his own index any alias.
        let path = format!("/{own}/_alias/{alias}");
        let answer = self.scene.ask(true, self.owner, "PUT", &path, "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        for (name, story) in [(open, 3), (closed, 1), (hidden, 5), (stream, 4), (literal, 6)] {
            for (id, story) in [("a", story), ("b", story + 10)] {
                let path = format!("/{name}/_create/{id}?refresh=true");
                let source = json!({"content": super::text(story), "title": title(name), "@timestamp": "2026-11-01"});
                let source = source.to_string();
                let answer = self.scene.through(Some(WRITER), "PUT", &path, &source);
                let answer = answer.await;
                assert_eq!(answer.status, 201, "{name}: {}", answer.body);
            }
        }
        // His own documents say of themselves that they are of the others' groups.
        let documents = self.scene.server.documents(closed).await;
        self.roots = ["a", "b"].map(|id| root_of(&documents[id]).unwrap().to_owned());
        for id in ["a", "b"] {
            let mut source = documents[id].clone();
            source["title"] = title(own).into();
            let source = source.to_string();
            let path = format!("/{own}/_doc/{id}?refresh=true");
            let answer = self.scene.ask(true, self.owner, "PUT", &path, &source);
            let answer = answer.await;
            assert_eq!(answer.status, 201, "{}", answer.body);
        }
        // Something that could be undone.
        let split = json!({"ids": ["b"]}).to_string();
        let path = format!("/_spinney/{hidden}/_split");
        let answer = self.scene.through(Some(WRITER), "POST", &path, &split).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }

    async fn admin(&self, method: &str, path: &str, body: &Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let waiting = Waiting::until("the cluster does it");
        loop {
            let answer = self.scene.ask(true, Some(ADMIN), method, path, &body).await;
            if answer.status.is_success() {
                return;
            }
            // Another test changes users or roles at the same moment.
            assert_eq!(answer.status, 409, "{path}: {}", answer.body);
            waiting.pause().await;
        }
    }

    async fn make(&mut self, path: &str, body: Value) {
        self.admin("PUT", path, &body).await;
        self.made.push(path.to_owned());
    }

    /// What was said about the groups of the forest.
    async fn overrides(&self) -> Value {
        let path = format!("/_spinney/{}/_overrides", self.scene.closed);
        let answer = self.scene.through(Some(WRITER), "GET", &path, "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let listed: Value = serde_json::from_str(&answer.body).unwrap();
        listed["overrides"].clone()
    }

    /// Titles of documents that a user is not shown when he asks the cluster itself.
    async fn hidden_from(&self, user: User) -> Vec<String> {
        let mut hidden = Vec::new();
        for (name, kind) in &self.names {
            let path = format!("/{name}/_search?q=title:*");
            let answer = self.scene.ask(true, user, "GET", &path, "").await;
            if matches!(kind, Kind::Index | Kind::Behind) && answer.status != 200 {
                hidden.push(title(name));
            }
        }
        hidden
    }

    /// Asks an endpoint in every way that it takes, with one name.
    async fn ask(&self, row: &spinney::endpoints::EndpointRow, user: User, name: &str) -> Vec<Answer> {
        let [root, other] = &self.roots;
        let (last, query) = match row.endpoint {
            Endpoint::Api(ApiEndpoint::Undo) => ("0", String::new()),
            Endpoint::Api(ApiEndpoint::Root) | Endpoint::Page(PageEndpoint::Group) => (&**root, String::new()),
            Endpoint::Page(PageEndpoint::Override) => ("", format!("?what=merge&id=a&root={root}&other={other}")),
            _ => ("a", String::new()),
        };
        let path = row.path.replace("{index}", name);
        let path = match path.split_once('{') {
            Some((before, _)) => format!("{before}{last}{query}"),
            None => path + &query,
        };
        let mut answers = Vec::new();
        for method in row.methods {
            // It is answered as GET is.
            if *method == "HEAD" && name != self.names[0].0 {
                continue;
            }
            let body = match row.endpoint {
                Endpoint::Api(endpoint) => self.body(endpoint),
                Endpoint::Page(PageEndpoint::Override) if *method == "POST" => {
                    let asked = self.scene.through(user, "GET", &path, "").await;
                    let fields = form(&asked.body);
                    let fields = fields.iter().map(|(name, value)| format!("{name}={value}"));
                    fields.collect::<Vec<_>>().join("&")
                }
                Endpoint::Page(_) => String::new(),
            };
            answers.push(self.scene.through(user, method, &path, &body).await);
        }
        answers
    }

    /// A body with which the endpoint would do something.
    fn body(&self, endpoint: ApiEndpoint) -> String {
        let [root, other] = &self.roots;
        let body = match endpoint {
            ApiEndpoint::Check => json!({"content": super::text(1)}),
            ApiEndpoint::Groups => json!({"sort": "similar_count"}),
            ApiEndpoint::Merge => json!({"roots": [root, other]}),
            ApiEndpoint::Split => json!({"ids": ["a"]}),
            ApiEndpoint::Pin => json!({"ids": ["a"], "root": other}),
            ApiEndpoint::Health
            | ApiEndpoint::Ready
            | ApiEndpoint::Stats
            | ApiEndpoint::Metrics
            | ApiEndpoint::Routes
            | ApiEndpoint::Reload
            | ApiEndpoint::Similar
            | ApiEndpoint::Root
            | ApiEndpoint::Overrides
            | ApiEndpoint::Undo
            | ApiEndpoint::Suggestions
            | ApiEndpoint::DocId => return String::new(),
        };
        body.to_string()
    }

    /// Whether an endpoint answers all alike, whoever asks: it shows nothing that stands in the cluster or in a forest.
    fn is_for_all(endpoint: Endpoint) -> bool {
        matches!(
            endpoint,
            Endpoint::Api(ApiEndpoint::Health | ApiEndpoint::Ready)
                | Endpoint::Page(
                    PageEndpoint::WithoutSlash | PageEndpoint::Home | PageEndpoint::Asset | PageEndpoint::Override
                )
        )
    }

    /// Nothing is shown to a user that the cluster would not show him. Says how often an answer was a success.
    async fn shows_nothing_else(&self, user: User) -> usize {
        let hidden = self.hidden_from(user).await;
        let mut successes = 0;
        for (name, kind) in &self.names {
            let search = format!("/{name}/_search");
            let direct = self.scene.ask(true, user, "GET", &search, "").await;
            let may_search = direct.status == 200;
            let of_the_forest = matches!(kind, Kind::Index | Kind::Behind) && may_search;
            for row in ENDPOINTS {
                let is_named = row.path.contains("{index}");
                if !is_named && self.names[0].0 != *name {
                    continue;
                }
                let is_for_all = Self::is_for_all(row.endpoint);
                for answer in self.ask(row, user, name).await {
                    let told = format!("{user:?} {} {name}: {answer:?}", row.path);
                    let status = answer.status.as_u16();
                    assert!(status < 500, "{told}");
                    let is_success = status < 400;
                    successes += usize::from(is_success && !is_for_all);
                    for title in &hidden {
                        assert!(!answer.body.contains(title), "{title}: {told}");
                    }
                    if is_for_all {
                        continue;
                    }
                    assert!(!is_named || may_search || !is_success, "{told}");
                    let mut kept = Vec::new();
                    if !of_the_forest {
                        kept.extend(OF_A_NAME);
                    }
                    if user == self.owner || !may_search {
                        kept.extend(OF_A_DOCUMENT);
                    }
                    for shown in kept {
                        let is_shown = is_success && answer.body.contains(shown);
                        assert!(!is_named || !is_shown, "{shown}: {told}");
                    }
                }
            }
        }
        successes
    }

    async fn end(self) {
        for path in self.made.iter().rev() {
            self.admin("DELETE", path, &json!(null)).await;
        }
        for (name, _) in [self.owner, self.auditor].into_iter().flatten() {
            self.scene.remove_user(name).await;
        }
        self.scene.end().await;
    }
}

#[tokio::test]
async fn nobody_does_through_an_endpoint_what_he_may_not() {
    let walk = Arc::new(Walk::new().await);
    let before = walk.overrides().await;
    assert_eq!(before.as_array().unwrap().len(), 1, "{before}");
    let users = [None, Some(READER), walk.owner, walk.auditor];
    let walks = users.map(|user| {
        let walk = walk.clone();
        tokio::spawn(async move { walk.shows_nothing_else(user).await })
    });
    let mut successes = Vec::new();
    for walked in walks {
        successes.push(walked.await.unwrap());
    }
    // Nobody of them may write an index of the forest.
    assert_eq!(walk.overrides().await, before);
    assert_eq!(successes[0], 0);
    assert!(successes[1..].iter().all(|&n| n > 10), "{successes:?}");

    // Who may do everything does it by one name that belongs to the forest, and by no other.
    for (name, kind) in &walk.names {
        for row in ENDPOINTS {
            let changes = matches!(
                row.endpoint,
                Endpoint::Api(
                    ApiEndpoint::Check
                        | ApiEndpoint::Split
                        | ApiEndpoint::Overrides
                        | ApiEndpoint::Suggestions
                        | ApiEndpoint::Merge
                        | ApiEndpoint::Pin
                ) | Endpoint::Page(PageEndpoint::Override)
            );
            if !changes {
                continue;
            }
            let answer = walk.ask(row, Some(WRITER), name).await.pop().unwrap();
            let status = answer.status.as_u16();
            let told = format!("{} {name} {kind:?}: {answer:?}", row.path);
            match kind {
                // These groups have no document in most of them.
                Kind::Index | Kind::Behind => {
                    assert!(matches!(status, 200 | 303 | 404), "{told}");
                    assert!(!answer.body.contains("no route"), "{told}");
                }
                Kind::Foreign => assert!(matches!(status, 403 | 404), "{told}"),
                Kind::Several => assert_eq!(status, 400, "{told}"),
            }
        }
    }
    let after = walk.overrides().await;
    assert!(after.as_array().unwrap().len() > 5, "{after}");
    Arc::into_inner(walk).unwrap().end().await;
}
