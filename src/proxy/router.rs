//! Classifies requests: writes of documents, own endpoints, all others. The path is matched undecoded, segment by
//! segment, and never changed: an encoded slash in an id stays an encoded slash.

use std::borrow::Cow;

use hyper::Method;

use crate::bulk::Op;
use crate::http::query::decode_segment;

/// The kind of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestKind<'a> {
    /// `/_spinney/…`: the rest of the path.
    Own(&'a str),
    /// A bulk, with the index that the path names.
    Bulk {
        /// Decoded.
        index: Option<Cow<'a, str>>,
    },
    /// A streaming bulk, whose items are answered while others arrive: it cannot be buffered.
    BulkStream {
        /// Decoded.
        index: Option<Cow<'a, str>>,
    },
    /// A write of one document.
    Document {
        /// Operation.
        op: Op,
        /// Decoded.
        index: Cow<'a, str>,
        /// Decoded; `None`: the cluster makes one.
        id: Option<Cow<'a, str>>,
    },
    /// Everything else belongs to the cluster.
    Relay,
}

/// APIs of Elasticsearch 7 under `/{index}/{type}/`, where `_doc` is an ordinary type: these are not document ids.
/// Generated ids may begin with `_` too, so a list is needed.
const TYPED_APIS: [&str; 19] = [
    "_bulk",
    "_count",
    "_delete_by_query",
    "_explain",
    "_graph",
    "_mapping",
    "_mappings",
    "_mget",
    "_msearch",
    "_mtermvectors",
    "_percolate",
    "_mpercolate",
    "_query",
    "_rollup_search",
    "_search",
    "_source",
    "_termvectors",
    "_update_by_query",
    "_validate",
];

/// Classifies a request by method and raw path (without the query string).
pub(crate) fn classify<'a>(method: &Method, path: &'a str) -> RequestKind<'a> {
    if let Some(rest) = path.strip_prefix("/_spinney")
        && (rest.is_empty() || rest.starts_with('/'))
    {
        return RequestKind::Own(rest);
    }
    let path = path.strip_prefix('/').unwrap_or(path);
    let mut segments = [""; 4];
    let mut count = 0;
    for segment in path.trim_end_matches('/').split('/') {
        let Some(slot) = segments.get_mut(count) else {
            return RequestKind::Relay;
        };
        *slot = segment;
        count += 1;
    }
    let (put, post) = (method == Method::PUT, method == Method::POST);
    if !put && !post {
        return RequestKind::Relay;
    }
    let is_index = |name: &str| !name.is_empty() && !name.starts_with('_');
    match segments.get(..count).unwrap_or_default() {
        // The servers accept one more slash in front of this one.
        ["_bulk"] | ["", "_bulk"] => RequestKind::Bulk { index: None },
        // Whatever stands there is the index of items that name none, and the servers take the others.
        [index, "_bulk"] => RequestKind::Bulk { index: Some(decode_segment(index)) },
        ["_bulk", "stream"] => RequestKind::BulkStream { index: None },
        [index, "_bulk", "stream"] if !index.is_empty() => {
            RequestKind::BulkStream { index: Some(decode_segment(index)) }
        }
        // The typed forms of 7.x.
        [index, kind, "_bulk"] if !index.is_empty() && is_type(kind) => {
            RequestKind::Bulk { index: Some(decode_segment(index)) }
        }
        [index, "_doc"] if post && is_index(index) => document(Op::Index, index, None),
        [index, "_doc", id] if is_index(index) && !TYPED_APIS.contains(id) => document(Op::Index, index, Some(id)),
        [index, "_create", id] if is_index(index) => document(Op::Create, index, Some(id)),
        [index, "_update", id] if post && is_index(index) => document(Op::Update, index, Some(id)),
        [index, kind] if post && is_index(index) && is_index(kind) => document(Op::Index, index, None),
        // `/{index}/{type}/_search` and its like: whatever begins with `_` here is an API, known or not.
        [index, kind, id] if is_index(index) && is_index(kind) && !id.starts_with('_') => {
            document(Op::Index, index, Some(id))
        }
        [index, kind, id, "_create"] if is_index(index) && is_type(kind) => document(Op::Create, index, Some(id)),
        [index, kind, id, "_update"] if post && is_index(index) && is_type(kind) => {
            document(Op::Update, index, Some(id))
        }
        _ => RequestKind::Relay,
    }
}

fn is_type(name: &str) -> bool {
    name == "_doc" || (!name.is_empty() && !name.starts_with('_'))
}

fn document<'a>(op: Op, index: &'a str, id: Option<&'a str>) -> RequestKind<'a> {
    RequestKind::Document { op, index: decode_segment(index), id: id.map(decode_segment) }
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
