//! The web page at `/_spinney/ui/`: thin handlers that query the cluster with the reader's credentials and fill in
//! templates.
//!
//! ```text
//! request --> layout: language, theme, sign-in --> list | article | overview | home --> template --> answer
//!                                                             |
//!                                                             +-- groups: groups and their documents
//!                                                             +-- diff, timeline, plot: pure
//! ```
//!
//! The state of a page is its URL, every control is a form or a link, and the script only makes it more comfortable.
//! Everything that documents bring is escaped by the templates.

mod article;
mod assets;
mod bars;
mod diff;
mod document;
mod error_page;
mod facets;
mod fields;
mod files;
mod filter_check;
mod format;
mod group;
mod highlight;
mod home;
mod lang;
mod layout;
mod list;
mod list_params;
mod member_list;
mod neighbours;
mod nothing;
mod override_form;
mod overview;
mod plot;
mod query_words;
mod response;
mod script;
mod timeline;
mod url;

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::http::request;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::Value;

use crate::bulk::stored_value;
use crate::clock;
use crate::endpoints::{MatchedEndpoint, PageEndpoint};
use crate::engine::ReaderFields;
use crate::groups::{IndexReader, IndexReaderParts, ReadError, ReaderPermit, SMALL};
use crate::http::body::Buffered;
use crate::http::headers::{Encoding, encoding};
use crate::http::{Body, ProxyError, body};
use crate::state::AppState;
use error_page::ErrorPage;
use files::FileFormat;
use layout::Layout;

/// How long a page may take, all searches together.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Handles a request for a page with an allowed method.
///
/// # Errors
/// If a form cannot be parsed. Any other error is a page.
pub(crate) async fn handle(
    state: &Arc<AppState>,
    endpoint: PageEndpoint,
    found: &MatchedEndpoint<'_>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    let (parts, incoming) = request.into_parts();
    let form = match parts.method == Method::POST {
        true => Some(read_form(state, &parts, incoming).await?),
        false => {
            body::discard(incoming, &parts.headers);
            None
        }
    };
    if endpoint == PageEndpoint::Asset {
        return Ok(response::asset(found.name));
    }
    let shell = Layout::new(&parts, url::behind(parts.uri.path()));
    let Some(_in_flight) = state.in_flight.enter() else {
        return Ok(ErrorPage::from(ProxyError::Stopping).response(&shell, is_file(endpoint, &shell)));
    };
    let page = PageRequest {
        state,
        shell: &shell,
        headers: layout::for_cluster(&parts.headers),
        turn: ReaderPermit::new(&state.readers),
    };
    let form = form.as_ref().map(|form| &*form.bytes);
    let shown = tokio::time::timeout(TIMEOUT, page.show(endpoint, found, form)).await;
    let shown = shown.unwrap_or(Err(ReadError::TimedOut(TIMEOUT).into()));
    let answer = shown.unwrap_or_else(|problem| problem.response(&shell, is_file(endpoint, &shell)));
    Ok(shell.remembered(answer))
}

/// Whether a request asks for a file, which a program reads.
fn is_file(endpoint: PageEndpoint, shell: &Layout) -> bool {
    matches!(endpoint, PageEndpoint::List | PageEndpoint::Group) && FileFormat::of(&shell.parameters).is_some()
}

/// A submitted form.
async fn read_form(state: &AppState, parts: &request::Parts, body: Incoming) -> Result<Buffered, ProxyError> {
    if encoding(&parts.headers) != Encoding::Identity {
        body::discard(body, &parts.headers);
        return Err(ProxyError::UnsupportedBody);
    }
    let (most, time) = (override_form::FORM_BYTES, state.limits().body_timeout);
    body::buffer_up_to(most, &state.budget, time, parts, body).await
}

/// The most bytes of the cluster's response: that of a document with its text.
const ANSWER_BYTES: usize = 16 << 20;

/// A page in the making.
struct PageRequest<'a> {
    state: &'a Arc<AppState>,
    shell: &'a Layout,
    /// The reader's, as the cluster gets them.
    headers: HeaderMap,
    turn: ReaderPermit,
}

impl PageRequest<'_> {
    /// `form`: the submitted form.
    async fn show(
        &self,
        endpoint: PageEndpoint,
        found: &MatchedEndpoint<'_>,
        form: Option<&[u8]>,
    ) -> Result<Response<Body>, ErrorPage> {
        let MatchedEndpoint { index, name, .. } = *found;
        match endpoint {
            PageEndpoint::WithoutSlash => Ok(response::elsewhere(&(url::home() + &self.shell.query()))),
            PageEndpoint::Home => home::show(self).await,
            PageEndpoint::Overview => overview::show(self).await,
            PageEndpoint::List => list::show(self, index).await,
            PageEndpoint::Article => article::show(self, index, name).await,
            PageEndpoint::Group => article::first_of(self, index, name).await,
            PageEndpoint::Override => match form {
                Some(form) => override_form::apply(self, index, form).await,
                None => override_form::show(self, index).await,
            },
            PageEndpoint::Asset | PageEndpoint::Nothing => Err(ErrorPage::new(StatusCode::NOT_FOUND, None)),
        }
    }

    /// Searches an index in the reader's name.
    ///
    /// # Errors
    /// The cluster's refusal; when it does not answer, or not completely.
    async fn search(&self, raw_index: &str, body: &Value) -> Result<Value, ErrorPage> {
        self.turn.begin().await;
        let path = format!("/{raw_index}/_search?allow_partial_search_results=false");
        let body = Some(body.to_string().into());
        let bytes = (SMALL, self.turn.large());
        let cluster = &self.state.cluster;
        let asked = cluster.ask_as_until(&self.headers, Method::POST, &path, body, bytes, ANSWER_BYTES);
        let answer = asked.await?;
        if !answer.status().is_success() {
            return Err(ErrorPage::of_cluster(&answer));
        }
        Ok(stored_value(answer.body()).map_err(|_| ReadError::NotTheCluster)?)
    }

    /// The fields of an index, percent-encoded as in a path.
    async fn fields(&self, raw_index: &str) -> ReaderFields {
        self.state.reader_fields(&self.headers, raw_index).await
    }

    /// Reads an index in the reader's name.
    fn reader<'r>(&'r self, raw_index: &'r str, fields: &'r ReaderFields) -> IndexReader<'r> {
        IndexReader::new(IndexReaderParts {
            cluster: &self.state.cluster,
            engine: &self.state.engine,
            service: &self.state.service,
            headers: &self.headers,
            raw_index,
            fields,
            lists: &self.state.lists,
            counts: &self.state.counts,
            restricted: self.state.restricted_readers,
            turn: &self.turn,
            caller: self.caller(),
            now: clock::now(),
        })
    }

    /// A hash of the headers by which the cluster identifies the reader.
    fn caller(&self) -> u64 {
        self.state.caller(&self.headers, None)
    }
}
