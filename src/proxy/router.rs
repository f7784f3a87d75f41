//! Which requests carry documents. The path is matched undecoded, segment by segment, and never changed: an encoded
//! slash in an id stays an encoded slash.

use std::borrow::Cow;

use hyper::Method;

use crate::bulk::Op;
use crate::http::query::decode_segment;

/// Where a request goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// `/_spinney/…`: the rest of the path.
    Own(&'a str),
    /// A bulk, with the index that the path names.
    Bulk {
        /// Decoded.
        index: Option<Cow<'a, str>>,
    },
    /// A write of one document.
    Document {
        /// What is to be done with it.
        op: Op,
        /// Decoded.
        index: Cow<'a, str>,
        /// Decoded; `None`: the cluster makes one.
        id: Option<Cow<'a, str>>,
    },
    /// Everything else belongs to the cluster.
    Relay,
}

/// Classifies a request by method and raw path (without the query string).
pub(crate) fn classify<'a>(method: &Method, path: &'a str) -> Target<'a> {
    if let Some(rest) = path.strip_prefix("/_spinney")
        && (rest.is_empty() || rest.starts_with('/'))
    {
        return Target::Own(rest);
    }
    let path = path.strip_prefix('/').unwrap_or(path);
    let mut segments = [""; 4];
    let mut count = 0;
    for segment in path.trim_end_matches('/').split('/') {
        let Some(slot) = segments.get_mut(count) else {
            return Target::Relay;
        };
        *slot = segment;
        count += 1;
    }
    let (put, post) = (method == Method::PUT, method == Method::POST);
    if !put && !post {
        return Target::Relay;
    }
    let is_index = |name: &str| !name.is_empty() && !name.starts_with('_');
    match segments.get(..count).unwrap_or_default() {
        // The servers accept one more slash in front of this one.
        ["_bulk"] | ["", "_bulk"] => Target::Bulk { index: None },
        [index, "_bulk"] if is_index(index) => Target::Bulk {
            index: Some(decode_segment(index)),
        },
        // The typed forms of 7.x.
        [index, kind, "_bulk"] if is_index(index) && is_type(kind) => Target::Bulk {
            index: Some(decode_segment(index)),
        },
        [index, "_doc"] if post && is_index(index) => document(Op::Index, index, None),
        [index, "_doc", id] if is_index(index) => document(Op::Index, index, Some(id)),
        [index, "_create", id] if is_index(index) => document(Op::Create, index, Some(id)),
        [index, "_update", id] if post && is_index(index) => document(Op::Update, index, Some(id)),
        [index, kind] if post && is_index(index) && is_index(kind) => {
            document(Op::Index, index, None)
        }
        [index, kind, id] if is_index(index) && is_index(kind) => {
            document(Op::Index, index, Some(id))
        }
        [index, kind, id, "_create"] if is_index(index) && is_type(kind) => {
            document(Op::Create, index, Some(id))
        }
        [index, kind, id, "_update"] if post && is_index(index) && is_type(kind) => {
            document(Op::Update, index, Some(id))
        }
        _ => Target::Relay,
    }
}

fn is_type(name: &str) -> bool {
    name == "_doc" || (!name.is_empty() && !name.starts_with('_'))
}

fn document<'a>(op: Op, index: &'a str, id: Option<&'a str>) -> Target<'a> {
    Target::Document {
        op,
        index: decode_segment(index),
        id: id.map(decode_segment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(path: &str) -> Target<'_> {
        classify(&Method::POST, path)
    }

    fn bulk(index: &str) -> Target<'_> {
        Target::Bulk {
            index: Some(index.into()),
        }
    }

    #[test]
    fn bulks() {
        assert_eq!(post("/_bulk"), Target::Bulk { index: None });
        for slashes in ["/_bulk/", "/_bulk//", "//_bulk"] {
            assert_eq!(post(slashes), Target::Bulk { index: None });
        }
        assert_eq!(classify(&Method::PUT, "/news/_bulk"), bulk("news"));
        assert_eq!(post("/news/_doc/_bulk"), bulk("news"));
        assert_eq!(post("/news/article/_bulk"), bulk("news"));
        assert_eq!(
            post("/%3Cnews-%7Bnow%2Fd%7D%3E/_bulk"),
            bulk("<news-{now/d}>")
        );
        assert_eq!(classify(&Method::GET, "/_bulk"), Target::Relay);
        assert_eq!(post("/_bulk/stream"), Target::Relay);
        assert_eq!(post("/news/_bulk/stream"), Target::Relay);
    }

    #[test]
    fn single_documents() {
        let doc = |op, id: Option<&'static str>| Target::Document {
            op,
            index: "news".into(),
            id: id.map(Into::into),
        };
        assert_eq!(post("/news/_doc"), doc(Op::Index, None));
        assert_eq!(classify(&Method::PUT, "/news/_doc"), Target::Relay);
        assert_eq!(
            classify(&Method::PUT, "/news/_doc/a%2Fb"),
            doc(Op::Index, Some("a/b"))
        );
        assert_eq!(post("/news/_create/1/"), doc(Op::Create, Some("1")));
        assert_eq!(post("/news/_update/1"), doc(Op::Update, Some("1")));
        assert_eq!(classify(&Method::PUT, "/news/_update/1"), Target::Relay);
        assert_eq!(post("/news/article"), doc(Op::Index, None));
        assert_eq!(
            classify(&Method::PUT, "/news/article/1"),
            doc(Op::Index, Some("1"))
        );
        assert_eq!(
            classify(&Method::PUT, "/news/_doc/1/_create"),
            doc(Op::Create, Some("1"))
        );
        assert_eq!(post("/news/article/1/_update"), doc(Op::Update, Some("1")));
    }

    #[test]
    fn everything_else_is_relayed() {
        for path in [
            "/",
            "",
            "/news",
            "/news/_search",
            "/news/_mapping/x",
            "/_cat/indices",
            "/news/_doc/1/2/3",
            "//",
        ] {
            assert_eq!(post(path), Target::Relay, "{path}");
        }
        assert_eq!(classify(&Method::GET, "/news/_doc/1"), Target::Relay);
        assert_eq!(classify(&Method::DELETE, "/news/_doc/1"), Target::Relay);
        assert_eq!(post("/_spinneys"), Target::Relay);
    }

    #[test]
    fn own_endpoints() {
        assert_eq!(post("/_spinney"), Target::Own(""));
        assert_eq!(
            classify(&Method::GET, "/_spinney/_stats"),
            Target::Own("/_stats")
        );
    }
}
