//! Responses with pages and files, and their security headers.

use askama::Template;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LINK, LOCATION,
    REFERRER_POLICY, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use tracing::error;

use super::assets::ASSETS;
use crate::http::{Body, ProxyError, full};

/// Own files only, no inline script or style, no framing.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The name of a file changes with its content.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// A page.
pub(super) fn page(status: StatusCode, template: &impl Template) -> Result<Response<Body>, ProxyError> {
    let text = template.render().map_err(|reason| {
        error!(%reason, "a page could not be made: please report this as a bug");
        ProxyError::Internal
    })?;
    let mut answer = Response::new(full(text));
    *answer.status_mut() = status;
    set(&mut answer, CONTENT_TYPE, "text/html; charset=utf-8");
    set(&mut answer, CACHE_CONTROL, "no-store");
    set(&mut answer, VARY, "Accept-Language, Authorization, Cookie");
    protect(&mut answer);
    Ok(answer)
}

/// One of the files.
pub(super) fn asset(name: &str) -> Response<Body> {
    let Some(asset) = ASSETS.find(name) else {
        let mut answer = Response::new(full(""));
        *answer.status_mut() = StatusCode::NOT_FOUND;
        set(&mut answer, CACHE_CONTROL, "no-store");
        protect(&mut answer);
        return answer;
    };
    let mut answer = Response::new(full(asset.bytes));
    set(&mut answer, CONTENT_TYPE, asset.kind);
    set(&mut answer, CACHE_CONTROL, FOR_EVER);
    protect(&mut answer);
    answer
}

/// A file for other programs. `name`: in ASCII; `next`: the address of the file that goes on.
pub(super) fn file(kind: &'static str, name: &str, next: Option<&str>, text: String) -> Response<Body> {
    let mut answer = Response::new(full(text));
    set(&mut answer, CONTENT_TYPE, kind);
    set(&mut answer, CACHE_CONTROL, "no-store");
    set(&mut answer, VARY, "Accept-Language, Authorization, Cookie");
    let next = next.map(|next| (LINK, format!("<{next}>; rel=\"next\"")));
    let named = (CONTENT_DISPOSITION, format!("inline; filename=\"{name}\""));
    for (header, value) in next.into_iter().chain([named]) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            answer.headers_mut().insert(header, value);
        }
    }
    protect(&mut answer);
    answer
}

/// An error for a program that asked for a file. `may_challenge`: whether the browser may ask the reader who that is.
pub(super) fn for_program(mut answer: Response<Body>, may_challenge: bool) -> Response<Body> {
    if !may_challenge {
        answer.headers_mut().remove(WWW_AUTHENTICATE);
    }
    set(&mut answer, CACHE_CONTROL, "no-store");
    protect(&mut answer);
    answer
}

/// The page is elsewhere.
pub(super) fn elsewhere(address: &str) -> Response<Body> {
    let mut answer = Response::new(full(""));
    *answer.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(address) = HeaderValue::from_str(address) {
        answer.headers_mut().insert(LOCATION, address);
    }
    set(&mut answer, CACHE_CONTROL, "no-store");
    protect(&mut answer);
    answer
}

fn protect(answer: &mut Response<Body>) {
    set(answer, CONTENT_SECURITY_POLICY, POLICY);
    set(answer, X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(answer, REFERRER_POLICY, "no-referrer");
}

fn set(answer: &mut Response<Body>, name: HeaderName, value: &'static str) {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header<'a>(answer: &'a Response<Body>, name: &str) -> &'a str {
        answer.headers()[name].to_str().unwrap()
    }

    #[test]
    fn files_are_kept_and_pages_are_not() {
        let file = asset(&ASSETS.script.name);
        assert_eq!(header(&file, "cache-control"), FOR_EVER);
        assert_eq!(header(&file, "x-content-type-options"), "nosniff");
        let none = asset("page-0000000000000000.js");
        assert_eq!(none.status(), StatusCode::NOT_FOUND);
        assert_eq!(header(&none, "cache-control"), "no-store");
    }

    #[test]
    fn nothing_is_inline() {
        assert!(!POLICY.contains("unsafe"));
        for template in [
            include_str!("../../templates/article.html"),
            include_str!("../../templates/base.html"),
            include_str!("../../templates/home.html"),
            include_str!("../../templates/list.html"),
            include_str!("../../templates/overview.html"),
            include_str!("../../templates/problem.html"),
            include_str!("../../templates/override.html"),
        ] {
            for inline in ["style=", "<style", " onclick", " onload", "javascript:", "|safe"] {
                assert!(!template.contains(inline), "{inline}");
            }
            for script in template.split("<script").skip(1) {
                assert!(script.starts_with(" src="), "{script}");
            }
        }
    }
}
