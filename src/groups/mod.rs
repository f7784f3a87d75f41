//! Reads groups for the JSON endpoints and the web page. Every request goes to the cluster in the caller's name, and
//! every number is counted with the caller's rights.
//!
//! ```text
//! request --order--> keys of a page's groups --numbers--> counts, representatives --> answer
//!            |
//!            +-- by_count   groups of two or more from an enumeration, or in the order of the index of roots
//!            |              (group_order); those of one document walked
//!            +-- by_field   one collapsed search for the first page, then a walk
//! ```
//!
//! `facets` counts the groups of a query by a field, beside a first page. [`IndexReader::similar`] and
//! [`IndexReader::root`] page through the documents of one group.
//!
//! `docs/reading.md` specifies the guarantees.

pub(crate) mod answer;
mod by_count;
mod by_field;
mod cursor;
mod enumerate;
mod error;
pub(crate) mod facet_request;
mod facets;
mod group_counts;
mod group_order;
mod key_mapping;
mod keyword;
mod largest;
mod list_cache;
mod members;
mod page;
mod permits;
mod query;
mod rank_field;
pub(crate) mod request;
mod roots;
mod search;
mod similarity;
mod sort_part;
pub(crate) mod source;
mod walk;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

use hyper::HeaderMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::access::Access;
use crate::config::RestrictedReaders;
use crate::counts::Counts;
use crate::engine::{Engine, ReaderFields};
use crate::http::query::decode_segment;
use crate::time::Millis;
use search::SearchSource;

pub(crate) use answer::GroupsPage;
pub(crate) use error::ReadError;
pub(crate) use keyword::KeywordForms;
pub(crate) use list_cache::ListCache;
pub(crate) use members::members_order;
pub(crate) use permits::{ReaderPermit, ReaderPermits, SMALL};
pub(crate) use request::{GroupsRequest, MembersRequest, SortBy};
pub(crate) use search::NO_FIELD;

/// An index as one caller may read it.
pub(crate) struct IndexReader<'a> {
    source: SearchSource<'a>,
    /// The index, decoded.
    index: String,
    lists: &'a ListCache,
    counts: &'a Counts,
    engine: &'a Arc<Engine>,
    access: Access<'a>,
    restricted: RestrictedReaders,
    /// A hash of the caller's credentials.
    caller: u64,
    now: Millis,
}

/// Parts of a [`IndexReader`].
#[derive(Clone, Copy)]
pub(crate) struct IndexReaderParts<'a> {
    /// The search cluster.
    pub cluster: &'a crate::cluster::Client,
    /// The engine, for texts and forests.
    pub engine: &'a Arc<Engine>,
    /// The credentials of the service user.
    pub service: &'a HeaderMap,
    /// Headers of the caller's request.
    pub headers: &'a HeaderMap,
    /// Index as in the caller's path; also a pattern or a list.
    pub raw_index: &'a str,
    /// The fields of that index.
    pub fields: &'a ReaderFields,
    /// Lists that are kept for next pages.
    pub lists: &'a ListCache,
    /// Whether the indices of roots follow the writes.
    pub counts: &'a Counts,
    /// Whether some readers do not see every document.
    pub restricted: RestrictedReaders,
    /// The permit of the request.
    pub turn: &'a ReaderPermit,
    /// A hash of the caller's credentials.
    pub caller: u64,
    /// The time of the request.
    pub now: Millis,
}

impl<'a> IndexReader<'a> {
    /// A reader of one index.
    pub(crate) fn new(parts: IndexReaderParts<'a>) -> IndexReader<'a> {
        IndexReader {
            source: SearchSource {
                cluster: parts.cluster,
                caller: parts.headers,
                raw_index: parts.raw_index,
                fields: parts.fields,
                turn: parts.turn,
                // One caller reads the same copies of the shards, page for page.
                preference: format!("spinney-{:016x}", parts.caller),
            },
            index: decode_segment(parts.raw_index).into_owned(),
            lists: parts.lists,
            counts: parts.counts,
            engine: parts.engine,
            access: Access { engine: parts.engine, cluster: parts.cluster, service: parts.service, overrides: false },
            restricted: parts.restricted,
            caller: parts.caller,
            now: parts.now,
        }
    }

    /// One page of groups.
    ///
    /// # Errors
    /// When the question or its cursor is wrong, the key is mapped as no number, or the cluster refuses a search or
    /// gives no whole answer.
    pub(crate) async fn groups(&self, request: &GroupsRequest) -> Result<GroupsPage, ReadError> {
        match self.page_of_groups(request).await {
            Err(error) => Err(key_mapping::explained(&self.source, error).await),
            page => page,
        }
    }

    async fn page_of_groups(&self, request: &GroupsRequest) -> Result<GroupsPage, ReadError> {
        let began = Instant::now();
        let question = self.question(request);
        let cursor = request.cursor.as_deref();
        let cursor = cursor.map(|text| cursor::decode(text, question)).transpose()?;
        let is_first = cursor.is_none();
        let page = async {
            match &request.sort {
                SortBy::Field(field) => by_field::page(self, request, field, cursor).await,
                SortBy::SimilarCount | SortBy::MatchingCount => by_count::page(self, request, cursor).await,
            }
        };
        let facets = async {
            match is_first {
                true => facets::read(&self.source, request).await,
                false => Ok(Vec::new()),
            }
        };
        let (mut page, facets) = tokio::try_join!(page, facets)?;
        if is_first && !self.source.fields.has_route {
            page.notes.push(format!(
                "no one route matches [{}]: times are those of the arrival, and titles, media and languages are not \
                 known; name an index, an alias or a pattern of one route",
                self.index
            ));
        }
        Ok(GroupsPage {
            groups: page.groups,
            total: page.total,
            next: page.next.map(|next| cursor::encode(&next, question)),
            took: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            notes: page.notes,
            unstamped: page.unstamped,
            facets,
        })
    }

    /// Hash of the request that a cursor belongs to.
    fn question(&self, request: &GroupsRequest) -> u64 {
        let GroupsRequest { query, sort, direction, exact, .. } = request;
        let question = format!("{} {query} {sort:?} {direction:?} {exact}", self.index);
        xxh3_64(question.as_bytes())
    }

    /// A random id for a list.
    fn new_list_id(&self) -> u64 {
        RandomState::new().hash_one(self.now.0)
    }
}
