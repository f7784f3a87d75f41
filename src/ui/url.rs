//! Addresses of pages.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Before the path of every page.
const BASE: &str = "/_spinney/ui";

/// Characters that are not encoded in a path segment.
const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'*').remove(b',');

/// A name as a segment of a path.
pub(super) fn segment(name: &str) -> String {
    // These two would be taken for steps in the path.
    match name {
        "." => "%2E".into(),
        ".." => "%2E%2E".into(),
        name => utf8_percent_encode(name, SEGMENT).to_string(),
    }
}

/// The choice of an index.
pub(super) fn home() -> String {
    format!("{BASE}/")
}

/// The overview.
pub(super) fn overview() -> String {
    format!("{BASE}/overview")
}

/// The list of an index.
pub(super) fn list(index: &str) -> String {
    format!("{BASE}/{}", segment(index))
}

/// A document.
pub(super) fn article(index: &str, id: &str) -> String {
    format!("{BASE}/{}/article/{}", segment(index), segment(id))
}

/// A group.
pub(super) fn group(index: &str, root: &str) -> String {
    format!("{BASE}/{}/group/{}", segment(index), segment(root))
}

/// Address of the override form of an index.
pub(super) fn override_page(index: &str) -> String {
    format!("{BASE}/{}/override", segment(index))
}

/// A file.
pub(super) fn asset(name: &str) -> String {
    format!("{BASE}/assets/{name}")
}

/// The address of a path below `/_spinney/ui`.
pub(super) fn of_path(path: &str) -> String {
    format!("{BASE}{path}")
}

/// The part of a request's path below `/_spinney/ui`.
pub(super) fn behind(path: &str) -> &str {
    path.strip_prefix(BASE).unwrap_or(path)
}

/// Parameters of a query string, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct QueryString(Vec<(String, String)>);

impl QueryString {
    /// Parses a query string without the `?`.
    pub(super) fn parse(query: Option<&str>) -> QueryString {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        QueryString(pairs.into_owned().collect())
    }

    /// The first value of a parameter, trimmed; `None` if it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut values = self.0.iter().filter(|(key, _)| key == name);
        let value = values.next().map(|(_, value)| value.trim());
        value.filter(|value| !value.is_empty())
    }

    /// With this value of a parameter; without it if there is none.
    pub(super) fn with(&self, name: &str, value: Option<&str>) -> QueryString {
        let mut query = self.clone();
        query.0.retain(|(key, _)| key != name);
        if let Some(value) = value {
            query.0.push((name.into(), value.into()));
        }
        query
    }

    /// Without these parameters.
    pub(super) fn without(&self, names: &[&str]) -> QueryString {
        let kept = self.0.iter().filter(|(key, _)| !names.contains(&&**key));
        QueryString(kept.cloned().collect())
    }

    /// The query string with its `?`, or empty.
    pub(super) fn suffix(&self) -> String {
        let text = self.text();
        if text.is_empty() { text } else { format!("?{text}") }
    }

    /// The query string without the `?`.
    pub(super) fn text(&self) -> String {
        let mut text = form_urlencoded::Serializer::new(String::new());
        let set = self.0.iter().filter(|(_, value)| !value.is_empty());
        text.extend_pairs(set);
        text.finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::query::decode_segment;

    #[test]
    fn addresses() {
        assert_eq!(list("news-*"), "/_spinney/ui/news-*");
        assert_eq!(article("新", "a/b?c"), "/_spinney/ui/%E6%96%B0/article/a%2Fb%3Fc");
        assert_eq!(segment(".."), "%2E%2E");
    }

    #[test]
    fn parameters() {
        let query = QueryString::parse(Some("q=a+b&sort=&q=c&x=%26"));
        assert_eq!(query.get("q"), Some("a b"));
        assert_eq!(query.get("sort"), None);
        let changed = query.with("q", Some("d&e")).without(&["x"]);
        assert_eq!(changed.suffix(), "?q=d%26e");
        assert_eq!(QueryString::default().suffix(), "");
    }

    proptest! {
        #[test]
        fn names_come_back(name in ".{1,20}") {
            let there = segment(&name);
            prop_assert_eq!(decode_segment(&there), name.as_str());
            prop_assert!(!there.contains(['/', '?', '#', '"', '<', '\'', '&']));
        }
    }
}
