//! Decoding of path segments and query parameters. Forwarded bytes are never decoded and encoded again.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Decodes a path segment, for matching patterns and for messages only. A broken escape stays as it is; invalid UTF-8
/// becomes U+FFFD.
pub(crate) fn decode_segment(segment: &str) -> Cow<'_, str> {
    percent_decode_str(segment).decode_utf8_lossy()
}

/// Returns the first value of a query parameter, decoded; empty if it has no value. A `+` is a space, as the servers
/// read it.
pub(crate) fn parameter<'q>(query: Option<&'q str>, name: &str) -> Option<Cow<'q, str>> {
    form_urlencoded::parse(query?.as_bytes()).find_map(|(key, value)| (key == name).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments() {
        assert_eq!(decode_segment("news-1"), "news-1");
        assert_eq!(decode_segment("%E4%B8%ADa%2Fb+c"), "中a/b+c");
        assert_eq!(decode_segment("a%zz%4"), "a%zz%4");
        assert_eq!(decode_segment("%E4%B8"), "\u{fffd}");
    }

    #[test]
    fn parameters() {
        let query = Some("pretty&id=a%2Fb+c&x=&id=2&%69d2=3");
        assert_eq!(parameter(query, "pretty").as_deref(), Some(""));
        assert_eq!(parameter(query, "id").as_deref(), Some("a/b c"));
        assert_eq!(parameter(query, "x").as_deref(), Some(""));
        assert_eq!(parameter(query, "id2").as_deref(), Some("3"));
        assert_eq!(parameter(query, "i"), None);
        assert_eq!(parameter(None, "id"), None);
    }
}
