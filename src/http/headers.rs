//! Headers of proxied requests and responses: removed, adjusted or read.

use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, Entry,
    HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::{HeaderMap, Uri};

/// Size in bytes above which a server may refuse a head, less what intermediaries add.
const LONG_HEAD: usize = 4 << 10;

/// Header that marks a bulk of a backfill. Partial updates of such a bulk contain all fields of the route that the
/// documents have. The value lists the aliases and data streams under which routes know the indices of the bulk,
/// percent-encoded, with commas; `-` for none. spinney does not forward the header.
pub(crate) const BACKFILL: HeaderName = HeaderName::from_static("x-spinney-backfill");

/// Removes the headers of one connection only (RFC 9110, section 7.6.1), those that `Connection` names included. Also
/// removes `Expect: 100-continue`, which spinney answers; any other expectation is the server's to refuse.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    let waits = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if headers.get(EXPECT).is_some_and(waits) {
        headers.remove(EXPECT);
    }
    for name in [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
    headers.remove("http2-settings");
}

/// Asks the server to close the connection after a head that it may find too long. Elasticsearch takes 8 KiB,
/// OpenSearch 16; after its 400 for a longer head, a server leaves the connection open and never answers on it again.
pub(crate) fn close_after_long_head(uri: &Uri, headers: &mut HeaderMap) {
    let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if uri.path().len() + uri.query().map_or(0, str::len) + fields > LONG_HEAD {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Sets `Content-Length`: both servers' documentation advises against chunked bulks.
pub(crate) fn set_length(headers: &mut HeaderMap, length: u64) {
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
}

/// The `Content-Encoding` of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// None, or `identity`.
    Identity,
    /// `gzip` or `x-gzip`.
    Gzip,
    /// `deflate` or `x-deflate`: the data of zlib with or without its frame, of which the servers take both.
    Deflate,
    /// Any other: the body is relayed, not read.
    Other,
}

/// Reads `Content-Encoding`.
pub(crate) fn encoding(headers: &HeaderMap) -> Encoding {
    let mut values = headers.get_all(CONTENT_ENCODING).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Encoding::Identity,
        (Some(value), None) => value.as_bytes(),
        (Some(_), Some(_)) => return Encoding::Other,
    };
    let is = |names: &[&str]| {
        let mut names = names.iter();
        names.any(|name| value.eq_ignore_ascii_case(name.as_bytes()))
    };
    if is(&["gzip", "x-gzip"]) {
        Encoding::Gzip
    } else if is(&["deflate", "x-deflate"]) {
        Encoding::Deflate
    } else if is(&["identity"]) {
        Encoding::Identity
    } else {
        Encoding::Other
    }
}

/// Restricts `Accept-Encoding` to encodings that spinney can read, among those that the client accepts.
pub(crate) fn accept_gzip_only(headers: &mut HeaderMap) {
    let offered = headers.get_all(ACCEPT_ENCODING).iter();
    let offered: Vec<(String, bool)> = offered
        .flat_map(|value| value.to_str().unwrap_or_default().split(','))
        .map(|coding| {
            let mut parts = coding.split(';');
            let name = parts.next().unwrap_or_default().trim();
            let refused = parts.any(|part| matches!(part.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
            (name.to_ascii_lowercase(), !refused)
        })
        .collect();
    let readable = |(name, wanted): &(String, bool)| !wanted || matches!(name.as_str(), "gzip" | "x-gzip" | "identity");
    if offered.iter().all(readable) {
        return;
    }
    let takes_gzip = offered.iter().any(|(name, wanted)| *wanted && name == "gzip");
    headers.remove(ACCEPT_ENCODING);
    if takes_gzip {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
}

/// Requests JSON instead of the servers' other formats. spinney does not parse those, and without item outcomes the
/// documents would be indeterminate.
pub(crate) fn accept_json_only(headers: &mut HeaderMap) {
    let Entry::Occupied(mut asked) = headers.entry(ACCEPT) else { return };
    for value in asked.iter_mut() {
        let lower = value.to_str().unwrap_or_default().to_ascii_lowercase();
        let other = ["cbor", "smile", "yaml"].into_iter().find(|format| lower.contains(format));
        if let Some(Ok(json)) = other.map(|other| HeaderValue::from_str(&lower.replace(other, "json"))) {
            *value = json;
        }
    }
}

/// Whether a body has one of the formats in which the servers answer.
pub(crate) fn has_server_format(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    value.is_some_and(|value| {
        ["json", "yaml", "cbor", "smile"].iter().any(|format| value.to_ascii_lowercase().contains(format))
    })
}

/// Whether the body is JSON or NDJSON, by a media type that the servers take. Other formats are relayed.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()) else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(essence.as_str(), "application/json" | "application/x-ndjson" | "application/ndjson" | "application/*")
        || (essence.starts_with("application/vnd.elasticsearch+") || essence.starts_with("application/vnd.opensearch+"))
            && (essence.ends_with("+json") || essence.ends_with("+x-ndjson"))
}

/// Whether an AWS signature covers the body.
pub(crate) fn body_is_signed(headers: &HeaderMap) -> bool {
    let signed = |value: &HeaderValue| value.as_bytes().starts_with(b"AWS4-");
    headers.get(AUTHORIZATION).is_some_and(signed)
        && headers.get("x-amz-content-sha256").is_none_or(|value| value.as_bytes() != b"UNSIGNED-PAYLOAD")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn hop_by_hop_headers_stay_behind() {
        let mut headers = map(&[
            ("connection", "keep-alive, X-Mine"),
            ("x-mine", "1"),
            ("keep-alive", "timeout=5"),
            ("expect", "100-Continue"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAMAAABkAAQAAP__"),
            ("authorization", "Basic abc"),
            ("x-opaque-id", "7"),
        ]);
        strip_hop_by_hop(&mut headers);
        assert_eq!(headers, map(&[("authorization", "Basic abc"), ("x-opaque-id", "7")]));
        let mut other = map(&[("expect", "something-else")]);
        strip_hop_by_hop(&mut other);
        assert_eq!(other, map(&[("expect", "something-else")]));
    }

    #[test]
    fn content_types_that_are_read() {
        for yes in [
            "application/x-ndjson",
            "application/json; charset=UTF-8",
            "Application/JSON",
            "application/vnd.elasticsearch+x-ndjson;compatible-with=8",
            "application/vnd.elasticsearch+json; compatible-with=7",
            "application/*",
        ] {
            assert!(is_json(&map(&[("content-type", yes)])), "{yes}");
        }
        for no in ["text/plain", "application/cbor", "application/vnd.elasticsearch+cbor;compatible-with=8"] {
            assert!(!is_json(&map(&[("content-type", no)])), "{no}");
        }
        assert!(!is_json(&map(&[])));
    }

    #[test]
    fn encodings_of_answers_that_can_be_read() {
        for (offered, passed_on) in [
            (None, None),
            (Some("gzip"), Some("gzip")),
            (Some("gzip;q=0.5, identity"), Some("gzip;q=0.5, identity")),
            (Some("gzip, deflate, br, zstd"), Some("gzip")),
            (Some("deflate"), None),
            (Some("*"), None),
            (Some("deflate, gzip;q=0"), None),
            (Some("br;q=0, gzip"), Some("br;q=0, gzip")),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(offered) = offered {
                headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(offered));
            }
            accept_gzip_only(&mut headers);
            let left = headers.get(ACCEPT_ENCODING).map(|v| v.to_str().unwrap());
            assert_eq!(left, passed_on, "{offered:?}");
        }
    }

    #[test]
    fn formats_of_answers_that_can_be_read() {
        for (asked, passed_on) in [
            (None, None),
            (Some("application/json"), Some("application/json")),
            (
                Some("application/vnd.elasticsearch+json;compatible-with=8"),
                Some("application/vnd.elasticsearch+json;compatible-with=8"),
            ),
            (
                Some("application/vnd.elasticsearch+cbor;compatible-with=8"),
                Some("application/vnd.elasticsearch+json;compatible-with=8"),
            ),
            (Some("Application/CBOR"), Some("application/json")),
            (Some("application/smile"), Some("application/json")),
            (Some("application/yaml"), Some("application/json")),
            (Some("*/*"), Some("*/*")),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(asked) = asked {
                headers.insert(ACCEPT, HeaderValue::from_static(asked));
            }
            accept_json_only(&mut headers);
            assert_eq!(headers.get(ACCEPT).map(|value| value.to_str().unwrap()), passed_on);
        }
    }

    #[test]
    fn encodings() {
        assert_eq!(encoding(&map(&[])), Encoding::Identity);
        assert_eq!(encoding(&map(&[("content-encoding", "GZIP")])), Encoding::Gzip);
        assert_eq!(encoding(&map(&[("content-encoding", "zstd")])), Encoding::Other);
        assert_eq!(encoding(&map(&[("content-encoding", "gzip, gzip")])), Encoding::Other);
    }

    #[test]
    fn signatures_that_cover_the_body() {
        let aws = ("authorization", "AWS4-HMAC-SHA256 Credential=x");
        assert!(body_is_signed(&map(&[aws])));
        assert!(body_is_signed(&map(&[aws, ("x-amz-content-sha256", "abcd")])));
        assert!(!body_is_signed(&map(&[aws, ("x-amz-content-sha256", "UNSIGNED-PAYLOAD")])));
        assert!(!body_is_signed(&map(&[("authorization", "Basic x")])));
    }
}
