//! Identity of a caller as the cluster may see it: headers and query parameters.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use form_urlencoded::parse;
use hyper::HeaderMap;

/// Headers that do not identify the caller: they belong to the request, its body or the connection. A trailing hyphen
/// matches a prefix. All other headers count, because a cluster can be configured to authenticate by any header; one
/// that differs in each request makes each request an unverified writer's.
const REQUEST_HEADERS: [&str; 42] = [
    "accept",
    "accept-",
    "b3",
    "baggage",
    "cache-control",
    "cf-ray",
    "connection",
    "content-",
    "correlation-context",
    "date",
    "elastic-apm-traceparent",
    "expect",
    "host",
    "if-",
    "keep-alive",
    "origin",
    "pragma",
    "priority",
    "range",
    "referer",
    "request-id",
    "sec-fetch-",
    "sentry-trace",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "uber-trace-id",
    "upgrade",
    "user-agent",
    "via",
    "x-amz-cf-id",
    "x-amzn-trace-id",
    "x-b3-",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-datadog-",
    "x-elastic-client-meta",
    "x-elastic-product-origin",
    "x-opaque-id",
    "x-request-id",
];

/// Whether a header is one of [`REQUEST_HEADERS`].
fn is_request_header(name: &str) -> bool {
    REQUEST_HEADERS.iter().any(|&listed| match listed.ends_with('-') {
        true => name.starts_with(listed),
        false => name == listed,
    })
}

/// Parameters of the write APIs, which do not identify the caller.
const WRITE_PARAMETERS: [&str; 28] = [
    "_source",
    "_source_excludes",
    "_source_includes",
    "batch_size",
    "error_trace",
    "filter_path",
    "format",
    "human",
    "if_primary_term",
    "if_seq_no",
    "include_source_on_error",
    "lang",
    "list_executed_pipelines",
    "op_type",
    "pipeline",
    "pretty",
    "refresh",
    "require_alias",
    "require_data_stream",
    "retry_on_conflict",
    "routing",
    "source",
    "timeout",
    "type",
    "version",
    "version_type",
    "wait_for_active_shards",
    "wait_for_completion",
];

/// Hash of everything by which the cluster could identify the caller. It is keyed, so that nobody can search for
/// headers with the hash of a known caller.
pub(crate) fn caller(key: &RandomState, headers: &HeaderMap, query: Option<&str>) -> u64 {
    let mut hasher = key.build_hasher();
    // A `HeaderMap` iterates in an order that follows from the hashes of its names. It does not promise the same order
    // for the same names.
    let mut identity: Vec<(&str, &[u8])> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .filter(|(name, _)| !is_request_header(name))
        .collect();
    identity.sort_unstable();
    identity.hash(&mut hasher);
    // Some servers read a semicolon as the end of a parameter, too.
    if let Some(query) = query.filter(|query| query.contains(';')) {
        query.hash(&mut hasher);
    }
    for (name, value) in parse(query.unwrap_or_default().as_bytes()) {
        if !WRITE_PARAMETERS.contains(&&*name) {
            (&*name, &*value).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    #[test]
    fn callers_differ_by_what_a_cluster_could_know_them_by() {
        let key = RandomState::new();
        let of = |headers: &[(&'static str, &'static str)], query: Option<&str>| {
            let headers =
                headers.iter().map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            caller(&key, &headers.collect(), query)
        };
        let ann = of(&[("authorization", "Basic YQ=="), ("x-role", "w")], None);
        let again = [
            ("x-role", "w"),
            ("content-length", "7"),
            ("x-opaque-id", "1"),
            ("traceparent", "00-1-1-00"),
            ("authorization", "Basic YQ=="),
        ];
        assert_eq!(of(&again, Some("refresh=true&filter_path=took")), ann);
        for other in [
            of(&[("authorization", "Basic YQ==")], None),
            of(&[("authorization", "Basic Yg=="), ("x-role", "w")], None),
            of(&again, Some("token=x")),
            of(&again, Some("refresh=true;token=x")),
            of(&[&again[..], &[("teleport-jwt-assertion", "b")]].concat(), None),
            of(&[&again[..], &[("original-user", "b")]].concat(), None),
            of(&[], None),
        ] {
            assert_ne!(other, ann);
        }
        assert_ne!(of(&[], Some("token=x")), of(&[], Some("token=y")));
    }
}
