//! Table of all own endpoints: the dispatcher is made from it, and a test requests every row.

use crate::http::ProxyError;

/// Prefix of all own paths.
const OWN: &str = "/_spinney/";

/// Prefix of all pages.
const PAGES: &str = "/_spinney/ui";

/// An endpoint, by the module that handles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `api/`: JSON.
    Api(ApiEndpoint),
    /// `ui/`: the web page.
    Page(PageEndpoint),
}

/// An endpoint of `api/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table has their paths")]
pub enum ApiEndpoint {
    Health,
    Ready,
    Stats,
    Metrics,
    Routes,
    Reload,
    Check,
    Groups,
    Similar,
    Root,
    Merge,
    Split,
    Pin,
    Overrides,
    Undo,
    Suggestions,
    DocId,
}

/// An endpoint of `ui/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table has their paths")]
pub enum PageEndpoint {
    WithoutSlash,
    Home,
    Overview,
    Asset,
    List,
    Override,
    Article,
    Group,
    /// A path under the pages' prefix that has no page.
    Nothing,
}

/// One row of the table.
#[derive(Debug)]
pub struct EndpointRow {
    /// Endpoint.
    pub endpoint: Endpoint,
    /// Path with `{index}` and at most one more `{name}`.
    pub path: &'static str,
    /// Allowed methods.
    pub methods: &'static [&'static str],
}

const READ: &[&str] = &["GET", "HEAD"];
const READ_WITH_BODY: &[&str] = &["GET", "POST"];
const POST: &[&str] = &["POST"];
const DELETE: &[&str] = &["DELETE"];
const FORM: &[&str] = &["GET", "HEAD", "POST"];

/// The rows, in order of precedence.
pub const ENDPOINTS: &[EndpointRow] = &[
    api(ApiEndpoint::Health, "/_spinney/_health", READ),
    api(ApiEndpoint::Ready, "/_spinney/_ready", READ),
    api(ApiEndpoint::Stats, "/_spinney/_stats", READ),
    api(ApiEndpoint::Metrics, "/_spinney/_metrics", READ),
    api(ApiEndpoint::Routes, "/_spinney/_routes", READ),
    api(ApiEndpoint::Reload, "/_spinney/_reload", POST),
    api(ApiEndpoint::Check, "/_spinney/{index}/_check", POST),
    api(ApiEndpoint::Groups, "/_spinney/{index}/_groups", READ_WITH_BODY),
    api(ApiEndpoint::Similar, "/_spinney/{index}/_similar/{id}", READ),
    api(ApiEndpoint::Root, "/_spinney/{index}/_roots/{root}", READ),
    api(ApiEndpoint::Merge, "/_spinney/{index}/_merge", POST),
    api(ApiEndpoint::Split, "/_spinney/{index}/_split", POST),
    api(ApiEndpoint::Pin, "/_spinney/{index}/_pin", POST),
    api(ApiEndpoint::Overrides, "/_spinney/{index}/_overrides", READ),
    api(ApiEndpoint::Undo, "/_spinney/{index}/_overrides/{number}", DELETE),
    api(ApiEndpoint::Suggestions, "/_spinney/{index}/_merges", READ),
    api(ApiEndpoint::DocId, "/docId/getDocId", READ_WITH_BODY),
    page(PageEndpoint::WithoutSlash, "/_spinney/ui", READ),
    page(PageEndpoint::Home, "/_spinney/ui/", READ),
    page(PageEndpoint::Overview, "/_spinney/ui/overview", READ),
    page(PageEndpoint::Overview, "/_spinney/ui/overview/", READ),
    page(PageEndpoint::Asset, "/_spinney/ui/assets/{name}", READ),
    page(PageEndpoint::List, "/_spinney/ui/{index}", READ),
    page(PageEndpoint::List, "/_spinney/ui/{index}/", READ),
    page(PageEndpoint::Override, "/_spinney/ui/{index}/override", FORM),
    page(PageEndpoint::Article, "/_spinney/ui/{index}/article/{id}", READ),
    page(PageEndpoint::Group, "/_spinney/ui/{index}/group/{root}", READ),
];

static NO_PAGE: EndpointRow = page(PageEndpoint::Nothing, "/_spinney/ui/…", READ);

const fn api(endpoint: ApiEndpoint, path: &'static str, methods: &'static [&'static str]) -> EndpointRow {
    EndpointRow { endpoint: Endpoint::Api(endpoint), path, methods }
}

const fn page(endpoint: PageEndpoint, path: &'static str, methods: &'static [&'static str]) -> EndpointRow {
    EndpointRow { endpoint: Endpoint::Page(endpoint), path, methods }
}

impl EndpointRow {
    /// Whether probes and monitoring request it, so that it is answered beyond the connection limit.
    pub(crate) fn is_monitored(&self) -> bool {
        matches!(
            self.endpoint,
            Endpoint::Api(ApiEndpoint::Health | ApiEndpoint::Ready | ApiEndpoint::Stats | ApiEndpoint::Metrics)
        )
    }

    /// Whether the admin listener has it.
    pub(crate) fn is_administrative(&self) -> bool {
        self.is_monitored() || self.is_only_administrative()
    }

    /// Whether nobody else has it.
    pub(crate) fn is_only_administrative(&self) -> bool {
        self.endpoint == Endpoint::Api(ApiEndpoint::Reload)
    }

    /// Error for a method that is not allowed, if any.
    pub(crate) fn refuses(&self, method: &str) -> Option<ProxyError> {
        if self.methods.contains(&method) {
            return None;
        }
        let is = |methods: &[&str]| self.methods == methods;
        Some(match () {
            () if is(POST) => ProxyError::PostOnly,
            () if is(DELETE) => ProxyError::DeleteOnly,
            () if is(READ) => ProxyError::GetOnly,
            () => ProxyError::GetOrPostOnly,
        })
    }
}

/// A matched row with the raw segments of its placeholders.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatchedEndpoint<'p> {
    pub(crate) row: &'static EndpointRow,
    /// Segment of `{index}`, or empty.
    pub(crate) index: &'p str,
    /// The segment of the second placeholder, or empty.
    pub(crate) name: &'p str,
}

/// Row of a path; `None` if the path is not an own endpoint.
pub(crate) fn find(path: &str) -> Option<MatchedEndpoint<'_>> {
    let pages = path.strip_prefix(PAGES);
    if pages.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        let nothing = MatchedEndpoint { row: &NO_PAGE, index: "", name: "" };
        return Some(among(path, true).unwrap_or(nothing));
    }
    // Only paths under the own prefix, and the docId path, are own endpoints.
    let is_own = path.starts_with(OWN);
    among(if is_own { path.trim_end_matches('/') } else { path }, false)
}

fn among(path: &str, of_page: bool) -> Option<MatchedEndpoint<'_>> {
    let rows = ENDPOINTS.iter();
    let mut rows = rows.filter(|row| matches!(row.endpoint, Endpoint::Page(_)) == of_page);
    rows.find_map(|row| matched(row, path))
}

fn matched<'p>(row: &'static EndpointRow, path: &'p str) -> Option<MatchedEndpoint<'p>> {
    let (mut index, mut name) = ("", "");
    let mut segments = path.split('/');
    for of_row in row.path.split('/') {
        let segment = segments.next()?;
        match of_row {
            // No index name begins with an underscore.
            "{index}" if !segment.is_empty() && !segment.starts_with('_') => index = segment,
            "{index}" => return None,
            _ if of_row.starts_with('{') && !segment.is_empty() => name = segment,
            _ if of_row == segment => {}
            _ => return None,
        }
    }
    let found = MatchedEndpoint { row, index, name };
    segments.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let found = |path| find(path).map(|found| (found.row.endpoint, found.index, found.name));
        let api = |endpoint, index, name| Some((Endpoint::Api(endpoint), index, name));
        let page = |endpoint, index, name| Some((Endpoint::Page(endpoint), index, name));
        for (path, expected) in [
            ("/_spinney/_health", api(ApiEndpoint::Health, "", "")),
            ("/_spinney/_stats/", api(ApiEndpoint::Stats, "", "")),
            ("/_spinney/a/_check", api(ApiEndpoint::Check, "a", "")),
            ("/_spinney/%E4%B8%AD/_check/", api(ApiEndpoint::Check, "%E4%B8%AD", "")),
            ("/_spinney/a%2A/_split", api(ApiEndpoint::Split, "a%2A", "")),
            ("/_spinney/a/_similar/x%2Fy", api(ApiEndpoint::Similar, "a", "x%2Fy")),
            ("/_spinney/a/_overrides/7", api(ApiEndpoint::Undo, "a", "7")),
            ("/_spinney/a/_overrides/", api(ApiEndpoint::Overrides, "a", "")),
            ("/docId/getDocId", api(ApiEndpoint::DocId, "", "")),
            ("/_spinney/ui", page(PageEndpoint::WithoutSlash, "", "")),
            ("/_spinney/ui/", page(PageEndpoint::Home, "", "")),
            ("/_spinney/ui/overview", page(PageEndpoint::Overview, "", "")),
            ("/_spinney/ui/overview/", page(PageEndpoint::Overview, "", "")),
            ("/_spinney/ui/assets/x.css", page(PageEndpoint::Asset, "", "x.css")),
            ("/_spinney/ui/news-%2A", page(PageEndpoint::List, "news-%2A", "")),
            ("/_spinney/ui/news-1/", page(PageEndpoint::List, "news-1", "")),
            ("/_spinney/ui/a/article/x%2Fy", page(PageEndpoint::Article, "a", "x%2Fy")),
            ("/_spinney/ui/a/group/00", page(PageEndpoint::Group, "a", "00")),
            ("/_spinney/ui/a/override", page(PageEndpoint::Override, "a", "")),
        ] {
            assert_eq!(found(path), expected, "{path}");
        }
        for path in [
            "/_spinney/ui/a/override/b",
            "/_spinney/ui/a/article/",
            "/_spinney/ui/a/article",
            "/_spinney/ui/a/article/b/c",
            "/_spinney/ui/_all",
            "/_spinney/ui/_check",
            "/_spinney/ui//",
            "/_spinney/ui/assets/a/b",
        ] {
            assert_eq!(found(path), page(PageEndpoint::Nothing, "", ""), "{path}");
        }
        for path in [
            "",
            "/",
            "/_spinney",
            "/_spinney/",
            "/_spinney/_check",
            "/_spinney//_check",
            "/_spinney/a/b/_check",
            "/_spinney/_all/_check",
            "/_spinney/a/_checks",
            "/_spinney/uix",
            "/_spinney/a/_similar",
            "/_spinney/a/_roots/1/2",
            "/_spinney/a/_overrides/7/8",
            "/docId",
            "/docId/getDocId/",
            "/news-1/_search",
        ] {
            assert_eq!(found(path), None, "{path}");
        }
    }

    /// A path that stands for a row leads to it, and not to one before it.
    #[test]
    fn every_row_is_reached() {
        for row in ENDPOINTS {
            let path = row.path.replace("{index}", "a").replace(['{', '}'], "");
            let found = find(&path).unwrap();
            assert_eq!(found.row.path, row.path, "{path}");
        }
    }

    #[test]
    fn methods() {
        let refused = |path, method| find(path).and_then(|found| found.row.refuses(method));
        assert_eq!(refused("/_spinney/_stats", "HEAD"), None);
        assert_eq!(refused("/_spinney/_stats", "POST"), Some(ProxyError::GetOnly));
        let (check, undo) = ("/_spinney/a/_check", "/_spinney/a/_overrides/1");
        assert_eq!(refused(check, "GET"), Some(ProxyError::PostOnly));
        assert_eq!(refused(undo, "POST"), Some(ProxyError::DeleteOnly));
        let groups = "/_spinney/a/_groups";
        assert_eq!(refused(groups, "DELETE"), Some(ProxyError::GetOrPostOnly));
        assert_eq!(refused("/_spinney/ui/a/override", "POST"), None);
    }
}
