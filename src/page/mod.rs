//! The web page at `/_spinney/ui/`: thin handlers that ask the cluster in the reader's name and fill in templates.
//!
//! ```text
//! request --> shell: language, appearance, who asks --> list | article | overview | home --> template --> answer
//!                                                             |
//!                                                             +-- reading: groups and their documents
//!                                                             +-- diff, timeline, plot: pure
//! ```
//!
//! The state of a page is its URL, every control is a form or a link, and the script only makes it more comfortable.
//! Everything that documents bring is escaped by the templates.

mod answer;
mod article;
mod assets;
mod diff;
mod fields;
mod format;
mod home;
mod lang;
mod list;
mod overview;
mod plot;
mod problem;
mod question;
mod refused;
mod say;
mod shell;
mod timeline;
mod url;

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::http::request;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};

use crate::clock;
use crate::engine::ReaderFields;
use crate::http::body::Buffered;
use crate::http::headers::{Encoding, encoding};
use crate::http::query::decode_segment;
use crate::http::{Body, ProxyError, body, caller};
use crate::reading::{ReadError, Reader, ReaderParts};
use crate::state::AppState;
use problem::Problem;
use shell::Shell;

/// How long a page may take, all searches together.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The path of a page behind `/_spinney/ui`, if `endpoint` (behind `/_spinney`) is one.
pub(crate) fn path_of(endpoint: &str) -> Option<&str> {
    let path = endpoint.strip_prefix("/ui")?;
    (path.is_empty() || path.starts_with('/')).then_some(path)
}

/// What is to be shown.
#[derive(Debug, PartialEq, Eq)]
enum Target<'p> {
    /// Without the last slash, relative links would mean something else.
    WithoutSlash,
    Home,
    Overview,
    Asset(&'p str),
    /// Groups of an index, as it stands in the path.
    List(&'p str),
    /// A document: index and id as they stand in the path.
    Article(&'p str, &'p str),
    /// A group: index and root.
    Root(&'p str, &'p str),
    /// Something is said about the groups of an index.
    Say(&'p str),
    Nothing,
}

fn target_of(path: &str) -> Target<'_> {
    let Some(path) = path.strip_prefix('/') else {
        return Target::WithoutSlash;
    };
    let mut parts = path.split('/');
    match [(); 4].map(|()| parts.next()) {
        [Some(""), None, ..] => Target::Home,
        [Some("overview"), None | Some(""), None, _] => Target::Overview,
        [Some("assets"), Some(name), None, _] => Target::Asset(name),
        [Some(index), None | Some(""), None, _] if is_index(index) => Target::List(index),
        [Some(index), Some("say"), None, _] if is_index(index) => Target::Say(index),
        [Some(index), Some("article"), Some(id), None] if is_index(index) && !id.is_empty() => {
            Target::Article(index, id)
        }
        [Some(index), Some("group"), Some(root), None] if is_index(index) => {
            Target::Root(index, root)
        }
        _ => Target::Nothing,
    }
}

/// No name of an index begins so.
fn is_index(raw: &str) -> bool {
    !raw.is_empty() && !raw.starts_with('_')
}

/// Answers `/_spinney/ui{path}`.
///
/// # Errors
/// When the method is none for pages. What goes wrong besides is a page that says so.
pub(crate) async fn handle(
    state: &Arc<AppState>,
    path: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    let (parts, incoming) = request.into_parts();
    let target = target_of(path);
    let is_said = parts.method == Method::POST && matches!(target, Target::Say(_));
    let form = match is_said {
        true => Some(read_form(state, &parts, incoming).await?),
        false => {
            body::discard(incoming, &parts.headers);
            None
        }
    };
    if !is_said && parts.method != Method::GET && parts.method != Method::HEAD {
        return Err(ProxyError::GetOnly);
    }
    if let Target::Asset(name) = target {
        return Ok(answer::asset(name));
    }
    let shell = Shell::new(&parts, path);
    let Some(_in_flight) = state.in_flight.enter() else {
        return Ok(Problem::from(ProxyError::Stopping).page(&shell));
    };
    let page = Page {
        state,
        shell: &shell,
        headers: shell::for_cluster(&parts.headers),
    };
    let shown = tokio::time::timeout(
        TIMEOUT,
        page.show(&target, form.as_ref().map(|form| &*form.bytes)),
    )
    .await;
    let shown = shown.unwrap_or(Err(ReadError::TimedOut(TIMEOUT).into()));
    let answer = shown.unwrap_or_else(|problem| problem.page(&shell));
    Ok(shell.remembered(answer))
}

/// What a form has sent.
async fn read_form(
    state: &AppState,
    parts: &request::Parts,
    body: Incoming,
) -> Result<Buffered, ProxyError> {
    if encoding(&parts.headers) != Encoding::Identity {
        body::discard(body, &parts.headers);
        return Err(ProxyError::UnsupportedBody);
    }
    let (most, time) = (say::FORM_BYTES, state.body_timeout);
    body::buffer_up_to(most, &state.budget, time, parts, body).await
}

/// A page in the making.
struct Page<'a> {
    state: &'a Arc<AppState>,
    shell: &'a Shell,
    /// The reader's, as the cluster gets them.
    headers: HeaderMap,
}

impl Page<'_> {
    /// `form`: what was posted.
    async fn show(
        &self,
        target: &Target<'_>,
        form: Option<&[u8]>,
    ) -> Result<Response<Body>, Problem> {
        match *target {
            Target::WithoutSlash => Ok(answer::elsewhere(&(url::home() + &self.shell.query()))),
            Target::Home => home::show(self).await,
            Target::Overview => overview::show(self).await,
            Target::List(index) => list::show(self, index).await,
            Target::Article(index, id) => article::show(self, index, id).await,
            Target::Root(index, root) => article::first_of(self, index, root).await,
            Target::Say(index) => match form {
                Some(form) => say::said(self, index, form).await,
                None => say::show(self, index),
            },
            Target::Asset(_) | Target::Nothing => Err(Problem::new(StatusCode::NOT_FOUND, None)),
        }
    }

    /// The fields of an index, as it stands in a path.
    fn fields(&self, raw_index: &str) -> ReaderFields {
        self.state.engine.reader_fields(&decode_segment(raw_index))
    }

    /// Reads an index in the reader's name.
    fn reader<'r>(&'r self, raw_index: &'r str, fields: &'r ReaderFields) -> Reader<'r> {
        Reader::new(ReaderParts {
            cluster: &self.state.cluster,
            engine: &self.state.engine,
            headers: &self.headers,
            raw_index,
            fields,
            lists: &self.state.lists,
            counts: &self.state.counts,
            restricted: self.state.restricted_readers,
            caller: self.caller(),
            now: clock::now(),
        })
    }

    /// A hash of what the cluster knows the reader by.
    fn caller(&self) -> u64 {
        caller::caller(&self.state.callers, &self.headers, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(path_of("/ui"), Some(""));
        assert_eq!(path_of("/ui/x"), Some("/x"));
        for other in ["/uix", "/_stats", "", "/u"] {
            assert_eq!(path_of(other), None);
        }
        for (path, target) in [
            ("", Target::WithoutSlash),
            ("/", Target::Home),
            ("/overview", Target::Overview),
            ("/overview/", Target::Overview),
            ("/assets/x.css", Target::Asset("x.css")),
            ("/news-%2A", Target::List("news-%2A")),
            ("/news-1/", Target::List("news-1")),
            ("/a/article/x%2Fy", Target::Article("a", "x%2Fy")),
            ("/a/group/00", Target::Root("a", "00")),
            ("/a/say", Target::Say("a")),
            ("/a/say/b", Target::Nothing),
            ("/a/article/", Target::Nothing),
            ("/a/article", Target::Nothing),
            ("/a/article/b/c", Target::Nothing),
            ("/_all", Target::Nothing),
            ("//", Target::Nothing),
            ("/assets/a/b", Target::Nothing),
        ] {
            assert_eq!(target_of(path), target, "{path}");
        }
    }
}
