//! Reading groups: what the JSON endpoints and the web page show. Every request goes to the cluster in the caller's name,
//! and every number shown is counted for the answer with the caller's rights.
//!
//! ```text
//! request --order--> keys of a page's groups --count--> numbers, representatives --> answer
//!            |
//!            +-- count.rs  by the number of documents: groups of two or more enumerated, or read from the index of
//!            |             roots; singletons walked
//!            +-- field.rs  by score or a field: one collapsed search for the first page, then a walk
//! ```
//!
//! `docs/reading.md` says what is promised.

pub(crate) mod answer;
pub(crate) mod request;

pub(crate) use answer::{
    Group, Groups, Relation, Representative, RootView, Similar, SimilarHit, Total,
};
pub(crate) use request::{
    Direction, GroupsRequest, MembersRequest, RepresentativeBy, RequestError, SortBy, TotalWanted,
};
