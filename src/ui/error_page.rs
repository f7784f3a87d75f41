//! Error pages.

use askama::Template;
use bytes::Bytes;
use hyper::header::WWW_AUTHENTICATE;
use hyper::{Response, StatusCode};
use serde_json::Value;

use super::lang::Texts;
use super::layout::Layout;
use super::response;
use crate::cluster::ClusterError;
use crate::groups::ReadError;
use crate::http::{Body, ProxyError, full};

/// The most characters of a reason that are shown.
const REASON_CHARS: usize = 600;

/// An error as a page.
#[derive(Debug)]
pub(super) struct ErrorPage {
    pub status: StatusCode,
    /// The cluster's message, or ours.
    reason: Option<String>,
    origin: ErrorOrigin,
}

/// Where an error comes from.
#[derive(Debug)]
enum ErrorOrigin {
    /// The cluster's refusal.
    Cluster(Box<Response<Bytes>>),
    /// An error that endpoints for programs have, too.
    Proxy(ProxyError),
    /// Pages alone have it.
    Page,
}

impl ErrorPage {
    pub(super) fn new(status: StatusCode, reason: Option<String>) -> ErrorPage {
        ErrorPage { status, reason, origin: ErrorOrigin::Page }
    }

    /// From a refusal of the cluster.
    pub(super) fn of_cluster(answer: &Response<Bytes>) -> ErrorPage {
        ErrorPage {
            status: answer.status(),
            reason: reason(answer.body()),
            origin: ErrorOrigin::Cluster(Box::new(answer.clone())),
        }
    }

    /// As a page, or in the cluster's shape for a program.
    pub(super) fn response(&self, shell: &Layout, is_for_program: bool) -> Response<Body> {
        let answer = match &self.origin {
            ErrorOrigin::Cluster(answer) if is_for_program => (**answer).clone().map(full),
            ErrorOrigin::Proxy(error) if is_for_program => error.response(),
            _ => return self.page(shell),
        };
        response::for_program(answer, !shell.by_script)
    }

    fn by_cluster(&self) -> bool {
        matches!(self.origin, ErrorOrigin::Cluster(_))
    }

    fn page(&self, shell: &Layout) -> Response<Body> {
        let template = ErrorTemplate {
            shell,
            t: shell.t(),
            title: self.title(shell.t()),
            status: shell.text(shell.t().status, &[self.status.as_str()]),
            reason: self.reason.as_deref(),
            problem: self,
        };
        let page = response::page(self.status, &template);
        let mut page = page.unwrap_or_else(|problem| {
            let mut plain = Response::new(full(problem.to_string()));
            *plain.status_mut() = problem.status();
            plain
        });
        if let ErrorOrigin::Cluster(answer) = &self.origin
            && !shell.by_script
        {
            for challenge in answer.headers().get_all(WWW_AUTHENTICATE) {
                page.headers_mut().append(WWW_AUTHENTICATE, challenge.clone());
            }
        }
        page
    }

    fn is_sign_in(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    fn title(&self, t: &'static Texts) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => t.unauthorized,
            StatusCode::FORBIDDEN => t.forbidden,
            StatusCode::NOT_FOUND => t.not_found,
            StatusCode::BAD_REQUEST => t.bad_request,
            status if status.is_server_error() => t.unavailable,
            _ => t.problem,
        }
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ErrorTemplate<'a> {
    shell: &'a Layout,
    t: &'static Texts,
    title: &'static str,
    status: String,
    reason: Option<&'a str>,
    problem: &'a ErrorPage,
}

impl From<ReadError> for ErrorPage {
    fn from(error: ReadError) -> ErrorPage {
        match error {
            ReadError::Refused(answer) => ErrorPage::of_cluster(&answer),
            error => match error.into_response() {
                // Only a refusal has an answer of its own.
                Ok(answer) => ErrorPage::new(answer.status(), None),
                Err(error) => error.into(),
            },
        }
    }
}

impl From<ProxyError> for ErrorPage {
    fn from(error: ProxyError) -> ErrorPage {
        ErrorPage { status: error.status(), reason: Some(error.to_string()), origin: ErrorOrigin::Proxy(error) }
    }
}

impl From<ClusterError> for ErrorPage {
    fn from(error: ClusterError) -> ErrorPage {
        ProxyError::from(error).into()
    }
}

/// The cluster's innermost reason: it names the cause, the outer ones the place.
fn reason(body: &[u8]) -> Option<String> {
    let parsed: Value = serde_json::from_slice(body).ok()?;
    let error = parsed.get("error")?;
    let text = |at: &str| error.pointer(at).and_then(Value::as_str);
    let found = text("/root_cause/0/reason")
        .or_else(|| text("/failed_shards/0/reason/reason"))
        .or_else(|| text("/reason"))
        .or_else(|| error.as_str())?;
    let mut shown: String = found.chars().take(REASON_CHARS).collect();
    if shown.len() < found.len() {
        shown.push('…');
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_clusters_words() {
        let parsed = |error: Value| reason(json!({ "error": error }).to_string().as_bytes());
        let both = json!({"reason": "all shards failed", "root_cause": [{"reason": "no field [x]"}]});
        assert_eq!(parsed(both).as_deref(), Some("no field [x]"));
        assert_eq!(parsed(json!({"reason": "r"})).as_deref(), Some("r"));
        assert_eq!(parsed(json!("plain")).as_deref(), Some("plain"));
        assert_eq!(parsed(json!("x".repeat(1000))).map(|r| r.chars().count()), Some(601));
        assert_eq!(reason(b"Unauthorized"), None);
    }
}
