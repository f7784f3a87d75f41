//! The page that confirms and submits an override. It works without the script.
//!
//! A page of another site could submit such a form with the credentials that the browser stores for this one. Each
//! form therefore carries a token derived from a secret of the process, the reader and the override, which no other
//! site can read.

use std::hash::{BuildHasher, Hash};

use askama::Template;
use hyper::{Response, StatusCode};
use serde_json::json;

use super::error_page::ErrorPage;
use super::group::seen_groups;
use super::lang::Texts;
use super::layout::Layout;
use super::url::QueryString;
use super::{PageRequest, document, fields, response, url};
use crate::access::ForestEditor;
use crate::fingerprint::Fingerprint;
use crate::forest::Root;
use crate::groups::answer::key;
use crate::http::Body;
use crate::http::query::decode_segment;
use crate::overrides::{OverrideEditor, OverrideFault};

/// Most bytes of a submitted form.
pub(super) const FORM_BYTES: usize = 64 << 10;

/// Most characters of a document's title or id that the page shows.
const MAX_SHOWN: usize = 120;

#[derive(Template)]
#[template(path = "override.html")]
struct OverridePage<'a> {
    shell: &'a Layout,
    t: &'static Texts,
    back: String,
    title: &'static str,
    /// The text, in parts, each with the title of an article behind it: those have their own direction.
    text: Vec<(&'static str, Option<String>)>,
    form: Option<OverrideForm>,
}

struct OverrideForm {
    action: String,
    fields: Vec<(&'static str, String)>,
    yes: &'static str,
    /// Whether the page asks for a confirmation, instead of only offering the form.
    is_question: bool,
}

/// The override that the parameters of a page or form request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RequestedOverride {
    /// Split this document from its group.
    Split { id: String },
    /// Merge the groups of these roots, the first of which is the document's.
    Merge { id: String, roots: [Root; 2] },
    /// Undo the override of this number; `id` is the document to return to.
    Undo { id: String, number: u64 },
}

impl RequestedOverride {
    /// Parses the parameters; `None` if they request no override.
    fn read(parameters: &QueryString) -> Option<RequestedOverride> {
        let id = parameters.get("id")?.to_owned();
        let root = |name| Fingerprint::written(parameters.get(name)?, true).map(Root);
        match parameters.get("what")? {
            "split" => Some(RequestedOverride::Split { id }),
            "merge" => Some(RequestedOverride::Merge { id, roots: [root("root")?, root("other")?] }),
            "undo" => Some(RequestedOverride::Undo { id, number: parameters.get("override")?.parse().ok()? }),
            _ => None,
        }
    }

    fn id(&self) -> &str {
        let (RequestedOverride::Split { id }
        | RequestedOverride::Merge { id, .. }
        | RequestedOverride::Undo { id, .. }) = self;
        id
    }

    /// Inverse of [`read`](RequestedOverride::read).
    fn fields(&self) -> Vec<(&'static str, String)> {
        let id = ("id", self.id().to_owned());
        match self {
            RequestedOverride::Split { .. } => vec![("what", "split".into()), id],
            RequestedOverride::Merge { roots: [root, other], .. } => {
                vec![("what", "merge".into()), id, ("root", root.to_string()), ("other", other.to_string())]
            }
            RequestedOverride::Undo { number, .. } => {
                vec![("what", "undo".into()), id, ("override", number.to_string())]
            }
        }
    }
}

/// Address of the page that confirms a split of a document.
pub(super) fn split_address(index: &str, id: &str) -> String {
    address(index, &RequestedOverride::Split { id: id.to_owned() })
}

/// Address of the page that confirms a merge of a document's group with another.
pub(super) fn merge_address(index: &str, id: &str, roots: [Root; 2]) -> String {
    let id = id.to_owned();
    address(index, &RequestedOverride::Merge { id, roots })
}

fn address(index: &str, requested: &RequestedOverride) -> String {
    let mut query = QueryString::default();
    for (name, value) in requested.fields() {
        query = query.with(name, Some(&value));
    }
    url::override_page(index) + &query.suffix()
}

/// Renders the confirmation of an override, or its result.
pub(super) async fn show(page: &PageRequest<'_>, raw_index: &str) -> Result<Response<Body>, ErrorPage> {
    let (shell, t) = (page.shell, page.shell.t());
    let index = decode_segment(raw_index);
    let parameters = &shell.parameters;
    let nothing = || ErrorPage::new(StatusCode::NOT_FOUND, None);
    let form = |requested: &RequestedOverride, yes, is_question| {
        let mut fields = requested.fields();
        fields.push(("token", token(page, &index, requested)));
        OverrideForm { action: url::override_page(&index), fields, yes, is_question }
    };
    let mut titles = Vec::new();
    let (id, title, text, form) = match parameters.get("done") {
        None => {
            let requested = RequestedOverride::read(parameters).ok_or_else(nothing)?;
            let (title, text, yes) = match &requested {
                RequestedOverride::Split { .. } => (t.split_title, t.split_text, t.split_yes),
                RequestedOverride::Merge { .. } => (t.merge_title, t.merge_text, t.merge_yes),
                RequestedOverride::Undo { .. } => return Err(nothing()),
            };
            titles = titles_of(page, &index, raw_index, &requested).await;
            let form = form(&requested, yes, true);
            (requested.id().to_owned(), title, text, Some(form))
        }
        Some(done) => {
            let id = parameters.get("id").ok_or_else(nothing)?.to_owned();
            match (done, parameters.get("override").and_then(|correction| correction.parse().ok())) {
                ("added", Some(number)) => {
                    let requested = RequestedOverride::Undo { id: id.clone(), number };
                    let form = form(&requested, t.take_back, false);
                    (id, t.added_title, t.added_text, Some(form))
                }
                ("added", None) => (id, t.added_title, t.already_so, None),
                _ => (id, t.taken_back_title, t.added_text, None),
            }
        }
    };
    let mut titles = titles.into_iter();
    let text = text.split("{}").map(|part| (part, titles.next())).collect();
    let asked = OverridePage { shell, t, back: url::article(&index, &id), title, text, form };
    Ok(response::page(StatusCode::OK, &asked)?)
}

/// The titles of what is to be changed: that of the document, or those of the first articles of both groups. The id or
/// root of what the reader does not see.
async fn titles_of(page: &PageRequest<'_>, index: &str, raw_index: &str, requested: &RequestedOverride) -> Vec<String> {
    let names = page.fields(raw_index).await;
    match requested {
        RequestedOverride::Split { id } | RequestedOverride::Undo { id, .. } => {
            let found = document::find(page, raw_index, id).await.ok();
            let title = found.and_then(|found| fields::title(&found.source, &names, MAX_SHOWN));
            vec![title.unwrap_or_else(|| fields::beginning(id, MAX_SHOWN))]
        }
        RequestedOverride::Merge { roots, .. } => {
            let shown: Vec<&String> = names.title.iter().chain(&names.text).collect();
            let seen = seen_groups(page, index, &roots.map(key), &json!(shown), &names).await.unwrap_or_default();
            let title = |root: &Root| {
                let group = seen.iter().find(|group| group.root == *root)?;
                fields::title(&group.representative.source, &names, MAX_SHOWN)
            };
            roots.iter().map(|root| title(root).unwrap_or_else(|| root.to_string())).collect()
        }
    }
}

/// Adds or undoes the override, and redirects to its result.
pub(super) async fn apply(page: &PageRequest<'_>, raw_index: &str, form: &[u8]) -> Result<Response<Body>, ErrorPage> {
    let index = decode_segment(raw_index).into_owned();
    let form = QueryString::parse(std::str::from_utf8(form).ok());
    let requested = RequestedOverride::read(&form).ok_or_else(|| ErrorPage::new(StatusCode::BAD_REQUEST, None))?;
    if form.get("token") != Some(&token(page, &index, &requested)) {
        let reason = page.shell.t().not_from_here.to_owned();
        return Err(ErrorPage::new(StatusCode::FORBIDDEN, Some(reason)));
    }
    let editor = ForestEditor::admit(page.state.access(), &page.headers, raw_index).await;
    let editor = OverrideEditor::new(page.state, editor.map_err(OverrideFault::from)?)?;
    let applied = match &requested {
        RequestedOverride::Split { id } => Some(editor.split(std::slice::from_ref(id)).await?),
        RequestedOverride::Merge { roots, .. } => Some(editor.merge(roots).await?),
        RequestedOverride::Undo { number, .. } => {
            editor.undo(*number).await?;
            None
        }
    };
    let done = if applied.is_some() { "added" } else { "undone" };
    let number = applied.and_then(|applied| applied.number).map(|n| n.to_string());
    let shown = QueryString::default()
        .with("done", Some(done))
        .with("id", Some(requested.id()))
        .with("override", number.as_deref());
    Ok(response::elsewhere(&(url::override_page(&index) + &shown.suffix())))
}

/// Token of a form: a keyed hash of the caller, the index and the override.
fn token(page: &PageRequest<'_>, index: &str, requested: &RequestedOverride) -> String {
    let form = ("a form of the page", page.caller(), index, requested);
    format!("{:016x}", page.state.callers.hash_one(form))
}

impl From<OverrideFault> for ErrorPage {
    fn from(error: OverrideFault) -> ErrorPage {
        match error {
            OverrideFault::Refused(answer) => ErrorPage::of_cluster(&answer),
            OverrideFault::Other(error) => ErrorPage::from(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_what_is_said() {
        let roots = [Root(Fingerprint(0xab)), Root(Fingerprint(u64::MAX))];
        for requested in [
            RequestedOverride::Split { id: "a&b=?".into() },
            RequestedOverride::Merge { id: "新".into(), roots },
            RequestedOverride::Undo { id: "x".into(), number: 7 },
        ] {
            let address = address("news-1", &requested);
            let (path, query) = address.split_once('?').unwrap();
            assert_eq!(path, "/_spinney/ui/news-1/override");
            assert_eq!(RequestedOverride::read(&QueryString::parse(Some(query))), Some(requested));
        }
        for none in ["", "what=split", "what=merge&id=a&root=1", "what=x&id=a", "what=undo&id=a&override=-1"] {
            assert_eq!(RequestedOverride::read(&QueryString::parse(Some(none))), None, "{none}");
        }
    }
}
