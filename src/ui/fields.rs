//! Fields of a source, as a page shows them.

use serde_json::Value;

use crate::engine::ReaderFields;
use crate::groups::source::values;
use crate::text::readable;
use crate::time::{Millis, parse_date};

/// The texts of a field, which is reached by nested objects, by a dotted name, or by a mixture of both.
pub(super) fn texts<'v>(source: &'v Value, path: &str) -> Vec<&'v str> {
    let found = values(source, path).into_iter();
    found.filter_map(Value::as_str).collect()
}

/// The first field that has a value.
pub(super) fn text<'v>(source: &'v Value, path: Option<&str>) -> Option<&'v str> {
    let found = path.map(|path| texts(source, path)).unwrap_or_default();
    let mut trimmed = found.into_iter().map(str::trim);
    trimmed.find(|text| !text.is_empty())
}

/// The title of a document as one line of at most `most` characters; without one, the beginning of its text.
pub(super) fn title(source: &Value, names: &ReaderFields, most: usize) -> Option<String> {
    if let Some(title) = text(source, names.title.as_deref()) {
        return Some(beginning(title, most));
    }
    let text = names.text.iter().find_map(|field| text(source, Some(field)))?;
    Some(beginning(&readable(text), most)).filter(|title| !title.is_empty())
}

/// The value of a keyword field: a multi-field `media.keyword` is `media` in the source.
pub(super) fn keyword<'v>(source: &'v Value, path: Option<&str>) -> Option<&'v str> {
    text(source, path).or_else(|| text(source, path.and_then(parent)))
}

/// The field that a field may be a second form of.
pub(super) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('.').map(|(parent, _)| parent)
}

/// A URL that a page may link to; other schemes, such as `javascript:`, are refused.
pub(super) fn link(source: &Value, path: Option<&str>) -> Option<String> {
    let address = text(source, path)?;
    let scheme = address.split(':').next()?.to_ascii_lowercase();
    let is_web = matches!(scheme.as_str(), "http" | "https");
    let rest = address.get(scheme.len()..)?;
    (is_web && rest.starts_with("://") && !address.contains(char::is_control)).then(|| address.to_owned())
}

/// Fields for tests.
#[cfg(test)]
pub(super) fn sample() -> ReaderFields {
    ReaderFields {
        key: "cluster_key".into(),
        root: "cluster_root".into(),
        first: "cluster_first".into(),
        time: "published".into(),
        medium: Some("media".into()),
        language: Some("lang".into()),
        text: vec!["content".into()],
        title: Some("title".into()),
        url: None,
        representative: None,
        has_route: true,
    }
}

/// A time as it is written in the source: a date as text, or a number of milliseconds. Other formats of a mapping are
/// known to the cluster alone.
pub(super) fn time(source: &Value, path: &str) -> Option<Millis> {
    let times = values(source, path).into_iter().filter_map(|value| match value {
        Value::String(text) => parse_date(text),
        Value::Number(number) => number.as_i64().map(Millis),
        _ => None,
    });
    times.min()
}

/// The beginning of a text as one line of at most `most` characters.
pub(super) fn beginning(text: &str, most: usize) -> String {
    let mut shown = String::new();
    let mut left = most;
    for word in text.split_whitespace() {
        if !shown.is_empty() {
            shown.push(' ');
        }
        for c in word.chars() {
            if left == 0 {
                return shown.trim_end().to_owned() + "…";
            }
            shown.push(c);
            left -= 1;
        }
        left = left.saturating_sub(1);
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_dotted_and_repeated() {
        let source = json!({"a": {"b": "1", "b.c": "2"}, "a.b": ["3", {"c": "4"}], "ab": "5"});
        assert_eq!(texts(&source, "a.b"), ["1", "3"]);
        assert_eq!(texts(&source, "a.b.c"), ["2", "4"]);
        assert_eq!(texts(&source, "ab"), ["5"]);
        assert_eq!(text(&json!({"t": [" ", "x "]}), Some("t")), Some("x"));
        assert_eq!(text(&source, None), None);
        assert_eq!(keyword(&source, Some("ab.keyword")), Some("5"));
        assert_eq!(keyword(&source, Some("a.b")), Some("1"));
    }

    #[test]
    fn only_addresses_of_the_web_are_links() {
        let of = |url: &str| link(&json!({ "url": url }), Some("url"));
        assert_eq!(of(" https://a.example/x?y "), Some("https://a.example/x?y".into()));
        assert_eq!(of("HTTP://a.example"), Some("HTTP://a.example".into()));
        for wrong in [
            "javascript:alert(1)",
            " javascript:alert(1)",
            "java\nscript:alert(1)",
            "data:text/html,x",
            "//a.example",
            "/x",
            "https:javascript",
            "http",
            "https://a\nb",
            "",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times() {
        let of = |value: Value| time(&json!({ "t": value }), "t").map(|time| time.0);
        assert_eq!(of(json!("1970-01-01T00:00:01Z")), Some(1_000));
        assert_eq!(of(json!(2_000)), Some(2_000));
        assert_eq!(of(json!(["1970-01-01T00:00:03Z", 2_000, "x"])), Some(2_000));
        assert_eq!(of(json!(null)), None);
    }

    #[test]
    fn beginnings() {
        assert_eq!(beginning(" a  b\nc ", 10), "a b c");
        assert_eq!(beginning("abcdef", 3), "abc…");
        assert_eq!(beginning("台风登陆", 2), "台风…");
    }
}
