//! The search servers, and what is expected of each where they differ.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::wire::Request;
use super::{elasticsearch, opensearch};

/// What one version of a search server does and another one does not.
#[derive(Debug)]
pub struct Expected {
    /// A path may name a type (`/index/type/id`).
    pub types_in_paths: bool,
    /// A bulk with an unknown action is taken, without that action and its source; otherwise it is refused whole.
    pub passes_over_unknown_actions: bool,
    /// A document may follow a comment. The server stores it, and answers 500 to those who ask for its source.
    pub takes_comments_before_documents: bool,
    /// The longest head of a request in bytes.
    pub longest_head: usize,
    /// A body that is announced as too large is read to its end before it is refused; otherwise the server hangs up on
    /// those who send on.
    pub reads_what_it_refuses: bool,
    /// Versions that `application/vnd.elasticsearch+json; compatible-with=N` may name beside the same version in
    /// `Accept`.
    pub compatible_with: &'static [u64],
    /// A version in `Content-Type` is refused without one in `Accept`.
    pub versions_in_both: bool,
    /// Errors of a mapping begin with line and column, which a stamp moves.
    pub columns_in_mapping_errors: bool,
    /// Errors quote the document that came, the stamp with it.
    pub errors_quote_documents: bool,
    /// Answers to bulks come in chunks. Those that spinney has filtered itself do not.
    pub chunked_answers: bool,
    /// Times are counted in intervals that the server chooses (`auto_date_histogram`). Elasticsearch has it in a module
    /// from 8 on, which the artifact that is tested comes without.
    pub chooses_intervals: bool,
}

const OPENSEARCH_3: Expected = Expected {
    types_in_paths: false,
    passes_over_unknown_actions: false,
    takes_comments_before_documents: false,
    longest_head: 16 << 10,
    reads_what_it_refuses: true,
    compatible_with: &[],
    versions_in_both: false,
    columns_in_mapping_errors: false,
    errors_quote_documents: false,
    chunked_answers: false,
    chooses_intervals: true,
};

const ELASTICSEARCH_7: Expected = Expected {
    types_in_paths: true,
    passes_over_unknown_actions: true,
    longest_head: 8 << 10,
    // It looks at none.
    compatible_with: &[7, 8, 9],
    ..OPENSEARCH_3
};

const ELASTICSEARCH_8: Expected = Expected {
    takes_comments_before_documents: true,
    compatible_with: &[7, 8],
    versions_in_both: true,
    columns_in_mapping_errors: true,
    errors_quote_documents: true,
    chunked_answers: true,
    chooses_intervals: false,
    ..OPENSEARCH_3
};

const ELASTICSEARCH_9: Expected =
    Expected { reads_what_it_refuses: false, compatible_with: &[8, 9], ..ELASTICSEARCH_8 };

/// A kind of search server without security.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchServer {
    OpenSearch,
    Elasticsearch,
}

impl SearchServer {
    /// URL of its node, without a final slash.
    pub fn url(self) -> String {
        match self {
            SearchServer::OpenSearch => opensearch(),
            SearchServer::Elasticsearch => elasticsearch(),
        }
    }

    /// What its version does.
    pub fn expected(self) -> &'static Expected {
        match (self, self.major()) {
            (SearchServer::OpenSearch, 3) => &OPENSEARCH_3,
            (SearchServer::Elasticsearch, 7) => &ELASTICSEARCH_7,
            (SearchServer::Elasticsearch, 8) => &ELASTICSEARCH_8,
            (SearchServer::Elasticsearch, 9) => &ELASTICSEARCH_9,
            (search_server, major) => panic!("nothing is known of {search_server:?} {major}: see {}", file!()),
        }
    }

    /// The search server at this URL.
    pub fn at(url: &str) -> SearchServer {
        match url.trim_end_matches('/') == opensearch() {
            true => SearchServer::OpenSearch,
            false => SearchServer::Elasticsearch,
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
