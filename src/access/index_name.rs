//! The name of one index.

use crate::cluster::operator::in_path;
use crate::http::ProxyError;
use crate::http::query::decode_segment;

/// Name of one index, alias or data stream of this cluster.
///
/// Never a list, a pattern or a remote name: for those the cluster answers as soon as the caller may see a part. Date
/// math is a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexName {
    name: String,
    in_path: String,
}

impl IndexName {
    /// Reads a segment of the caller's path.
    ///
    /// # Errors
    /// [`ProxyError::NotOneIndex`].
    pub(crate) fn parse(raw: &str) -> Result<IndexName, ProxyError> {
        let name = decode_segment(raw);
        if !is_one_name(&name) {
            return Err(ProxyError::NotOneIndex(name.into_owned()));
        }
        Ok(IndexName { in_path: in_path(&name), name: name.into_owned() })
    }

    /// The name.
    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }

    /// The name as a path segment. Encoded anew, so that the cluster reads the name that was checked.
    pub(crate) fn in_path(&self) -> &str {
        &self.in_path
    }
}

/// Whether a decoded segment is one name. Only separators are rejected; the cluster rejects other invalid names.
fn is_one_name(name: &str) -> bool {
    let date = name.strip_prefix('<').and_then(|n| n.strip_suffix('>'));
    let plain = date.unwrap_or(name);
    !matches!(plain, "" | "." | "..")
        && !plain.starts_with(['_', '-', '+'])
        && !plain.contains(['*', '?', ',', ':', ' ', '"', '#', '\\', '<', '>', '|'])
        // A date has a slash where it is rounded.
        && (date.is_some() || !plain.contains('/'))
        && !plain.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_index() {
        for (raw, name) in [
            ("news-1", "news-1"),
            (".hidden", ".hidden"),
            ("%3Cnews-%7Bnow%2Fd%7D%3E", "<news-{now/d}>"),
            ("%E6%96%B0%E9%97%BB", "新闻"),
            (".ds-news-2026.11.01-000001", ".ds-news-2026.11.01-000001"),
        ] {
            let parsed = IndexName::parse(raw).unwrap();
            assert_eq!(parsed.as_str(), name);
            assert_eq!(decode_segment(parsed.in_path()), name);
            assert!(!parsed.in_path().contains(['/', '%', '?']) || raw.contains('%'));
        }
        for more in [
            "news-*",
            "news-%2A",
            "a,b",
            "a%2Cb",
            "_all",
            "%5Fall",
            "-a",
            "%2Da",
            "*",
            "far:news",
            "far%3Anews",
            "%3C*%3E",
            "%3C_all%3E",
            "",
            "%3C%3E",
            "%3C",
            ".",
            "%2E%2E",
            "a%2F_search",
            "a%2Fb",
            "a%3Fb",
            "a%20b",
            "a%23b",
            "a%5Cb",
            "a%00b",
            "a%0Ab",
            "a%7Cb",
        ] {
            let refused = IndexName::parse(more);
            assert!(matches!(refused, Err(ProxyError::NotOneIndex(_))), "{more}: {refused:?}");
        }
        // What is encoded twice is a name with a percent sign in it, and no list.
        assert_eq!(IndexName::parse("a%252Cb").unwrap().in_path(), "a%252Cb");
    }
}
