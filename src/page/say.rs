//! What readers say about groups: a page that asks whether it is meant, and a form that says it. Works without the script.
//!
//! A page of another site could send such a form with the credentials that a browser keeps for this one. So each form carries a
//! token that is made of a secret of the process, of who asks, and of what is said: nobody else's page can read it.

use std::hash::{BuildHasher, Hash};

use askama::Template;
use hyper::{Response, StatusCode};

use super::lang::Texts;
use super::problem::Problem;
use super::shell::Shell;
use super::url::Query;
use super::{Page, answer, url};
use crate::access::ForestEditor;
use crate::fingerprint::Fingerprint;
use crate::forest::Root;
use crate::http::Body;
use crate::http::query::decode_segment;
use crate::words::{SayError, Speaker};

/// The most bytes of a form.
pub(super) const FORM_BYTES: usize = 64 << 10;

/// Characters of a title.
const TITLE: usize = 120;

#[derive(Template)]
#[template(path = "say.html")]
struct SayPage<'a> {
    shell: &'a Shell,
    t: &'static Texts,
    back: String,
    title: &'static str,
    text: String,
    form: Option<Form>,
}

struct Form {
    action: String,
    fields: Vec<(&'static str, String)>,
    yes: &'static str,
    /// Whether it is asked, and not only offered.
    is_question: bool,
}

/// What is to be said.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Wish {
    /// This document is another story.
    Split { id: String },
    /// The group of this document and the other one are one story.
    Merge { id: String, roots: [Root; 2] },
    /// What was said does not hold.
    TakeBack { id: String, number: u64 },
}

impl Wish {
    fn read(said: &Query) -> Option<Wish> {
        let id = said.get("id")?.to_owned();
        let root = |name| Fingerprint::written(said.get(name)?, true).map(Root);
        match said.get("what")? {
            "split" => Some(Wish::Split { id }),
            "merge" => Some(Wish::Merge {
                id,
                roots: [root("root")?, root("other")?],
            }),
            "undo" => Some(Wish::TakeBack {
                id,
                number: said.get("word")?.parse().ok()?,
            }),
            _ => None,
        }
    }

    fn id(&self) -> &str {
        let (Wish::Split { id } | Wish::Merge { id, .. } | Wish::TakeBack { id, .. }) = self;
        id
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let id = ("id", self.id().to_owned());
        match self {
            Wish::Split { .. } => vec![("what", "split".into()), id],
            Wish::Merge {
                roots: [root, other],
                ..
            } => vec![
                ("what", "merge".into()),
                id,
                ("root", root.to_string()),
                ("other", other.to_string()),
            ],
            Wish::TakeBack { number, .. } => {
                vec![("what", "undo".into()), id, ("word", number.to_string())]
            }
        }
    }
}

/// The page that asks whether a document is another story.
pub(super) fn split_address(index: &str, id: &str) -> String {
    address(index, &Wish::Split { id: id.to_owned() })
}

/// The page that asks whether the group of a document and another one are one story.
pub(super) fn merge_address(index: &str, id: &str, roots: [Root; 2]) -> String {
    let id = id.to_owned();
    address(index, &Wish::Merge { id, roots })
}

fn address(index: &str, wish: &Wish) -> String {
    let mut query = Query::default();
    for (name, value) in wish.fields() {
        query = query.with(name, Some(&value));
    }
    url::say(index) + &query.suffix()
}

/// Asks whether it is meant, or tells that it was said.
pub(super) fn show(page: &Page<'_>, raw_index: &str) -> Result<Response<Body>, Problem> {
    let (shell, t) = (page.shell, page.shell.t());
    let index = decode_segment(raw_index);
    let said = &shell.parameters;
    let nothing = || Problem::new(StatusCode::NOT_FOUND, None);
    let form = |wish: &Wish, yes, is_question| {
        let mut fields = wish.fields();
        fields.push(("token", token(page, &index, wish)));
        Form {
            action: url::say(&index),
            fields,
            yes,
            is_question,
        }
    };
    let (id, title, text, form) = match said.get("done") {
        None => {
            let wish = Wish::read(said).ok_or_else(nothing)?;
            let shown: String = wish.id().chars().take(TITLE).collect();
            let (title, text, yes) = match &wish {
                Wish::Split { .. } => (
                    t.split_title,
                    shell.say(t.split_text, &[&shown]),
                    t.split_yes,
                ),
                Wish::Merge {
                    roots: [root, other],
                    ..
                } => {
                    let roots = [root.to_string(), other.to_string()];
                    let text = shell.say(t.merge_text, &[&roots[0], &roots[1]]);
                    (t.merge_title, text, t.merge_yes)
                }
                Wish::TakeBack { .. } => return Err(nothing()),
            };
            let form = form(&wish, yes, true);
            (wish.id().to_owned(), title, text, Some(form))
        }
        Some(done) => {
            let id = said.get("id").ok_or_else(nothing)?.to_owned();
            match (done, said.get("word").and_then(|word| word.parse().ok())) {
                ("said", Some(number)) => {
                    let wish = Wish::TakeBack {
                        id: id.clone(),
                        number,
                    };
                    let form = form(&wish, t.take_back, false);
                    (id, t.said_title, t.said_text.to_owned(), Some(form))
                }
                ("said", None) => (id, t.said_title, t.said_before.to_owned(), None),
                _ => (id, t.taken_back_title, t.said_text.to_owned(), None),
            }
        }
    };
    let asked = SayPage {
        shell,
        t,
        back: url::article(&index, &id),
        title,
        text,
        form,
    };
    answer::page(StatusCode::OK, &asked)
}

/// Says it, and leads to the page that tells so.
pub(super) async fn said(
    page: &Page<'_>,
    raw_index: &str,
    form: &[u8],
) -> Result<Response<Body>, Problem> {
    let index = decode_segment(raw_index).into_owned();
    let form = Query::parse(std::str::from_utf8(form).ok());
    let wish = Wish::read(&form).ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, None))?;
    if form.get("token") != Some(&token(page, &index, &wish)) {
        let reason = page.shell.t().not_from_here.to_owned();
        return Err(Problem::new(StatusCode::FORBIDDEN, Some(reason)));
    }
    let editor = ForestEditor::admit(page.state.access(), &page.headers, raw_index).await;
    let speaker = Speaker::new(page.state, editor.map_err(SayError::from)?)?;
    let said = match &wish {
        Wish::Split { id } => Some(speaker.split(std::slice::from_ref(id)).await?),
        Wish::Merge { roots, .. } => Some(speaker.merge(roots).await?),
        Wish::TakeBack { number, .. } => {
            speaker.take_back(*number).await?;
            None
        }
    };
    let done = if said.is_some() { "said" } else { "undone" };
    let number = said.and_then(|said| said.number).map(|n| n.to_string());
    let told = Query::default()
        .with("done", Some(done))
        .with("id", Some(wish.id()))
        .with("word", number.as_deref());
    Ok(answer::elsewhere(&(url::say(&index) + &told.suffix())))
}

fn token(page: &Page<'_>, index: &str, wish: &Wish) -> String {
    let told = ("a form of the page", page.caller(), index, wish);
    format!("{:016x}", page.state.callers.hash_one(told))
}

impl From<SayError> for Problem {
    fn from(error: SayError) -> Problem {
        match error {
            SayError::Refused(answer) => Problem::of_cluster(&answer),
            SayError::Other(error) => Problem::from(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_what_is_said() {
        let roots = [Root(Fingerprint(0xab)), Root(Fingerprint(u64::MAX))];
        for wish in [
            Wish::Split { id: "a&b=?".into() },
            Wish::Merge {
                id: "新".into(),
                roots,
            },
            Wish::TakeBack {
                id: "x".into(),
                number: 7,
            },
        ] {
            let address = address("news-1", &wish);
            let (path, query) = address.split_once('?').unwrap();
            assert_eq!(path, "/_spinney/ui/news-1/say");
            assert_eq!(Wish::read(&Query::parse(Some(query))), Some(wish));
        }
        for none in [
            "",
            "what=split",
            "what=merge&id=a&root=1",
            "what=x&id=a",
            "what=undo&id=a&word=-1",
        ] {
            assert_eq!(Wish::read(&Query::parse(Some(none))), None, "{none}");
        }
    }
}
