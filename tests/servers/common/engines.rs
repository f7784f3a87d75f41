//! What the engines are, and what is expected of each where they differ.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::wire::Request;
use super::{elasticsearch, opensearch};

/// A kind of search server without security.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    OpenSearch,
    Elasticsearch,
}

impl Engine {
    /// URL of its node, without a final slash.
    pub fn url(self) -> String {
        match self {
            Engine::OpenSearch => opensearch(),
            Engine::Elasticsearch => elasticsearch(),
        }
    }

    /// The major version of its node, which is asked once.
    pub fn major(self) -> u64 {
        static KNOWN: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());
        let url = self.url();
        *KNOWN.lock().unwrap().entry(url.clone()).or_insert_with(|| {
            let answer = Request::get("/_nodes?filter_path=nodes.*.version").to(&url).json();
            let node = answer["nodes"].as_object().and_then(|nodes| nodes.values().next());
            let version = node.and_then(|node| node["version"].as_str());
            let major = version.and_then(|version| version.split('.').next()?.parse().ok());
            major.unwrap_or_else(|| panic!("no version in {answer}"))
        })
    }
}
