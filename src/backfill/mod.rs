//! Backfill: stored documents without a stamp get one, whether they are older than spinney or were written past it.
//!
//! ```text
//! discovery (routes, indices, mapping) --> pages (point in time, sorted) --> guarded updates --> spinney's own _bulk
//!                                            ^                                                        |
//!                                            +-- changed meanwhile: read again <---- item outcomes <--+
//! ```
//!
//! Nothing here places a document: it is written through spinney like any writer's bulk, so there is one forest and one
//! entrance. Stamped documents are not read again, so an interrupted run continues where it ended.
//!
//! The command and the sweep are one [`Backfill`] with two sinks. Restamping reads the same pages, but writes by
//! itself: the root alone, in spinney's own name and past the forest; and what the cluster refuses it leaves to its
//! next pass, since other jobs wait meanwhile. `verify` needs no order and no complete view: it draws by chance.

mod bulk_lines;
mod bulk_sink;
mod compare;
mod discovery;
mod disk;
mod firsts;
pub(crate) mod mapping;
mod override_progress;
mod pages;
mod restamp;
mod run;
mod sending;
mod sweep;
mod verify;

pub(crate) use compare::{Compared, GroupChanges, compare};
pub(crate) use run::{Backfill, BackfillOptions, BackfillOutcome};

pub(crate) use bulk_sink::BulkSink;
pub(crate) use discovery::{RouteIndices, discover, discover_route, map_existing, put_fields};
pub(crate) use firsts::{FirstKeeper, FirstStatus, FlagOutcome, flag_firsts};
pub(crate) use override_progress::run;
pub(crate) use restamp::{Restamper, Restamping, shown};
pub(crate) use sweep::{SweepStatus, sweep};
pub(crate) use verify::{VerifyReport, verify};

use crate::bulk::SelectionError;
use crate::cluster::operator::OperatorError;
use crate::cluster::search::SearchFault;
use crate::cluster::sorted_pages::ScanError;

/// Why documents cannot be adopted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackfillError {
    /// The cluster, or spinney, cannot be reached or refuses.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// It was busy or away again and again.
    #[error("{0}; tried several times in a row. Nothing is lost: what is stamped is stamped, begin again later")]
    Busy(OperatorError),
    /// A response does not have the expected form.
    #[error("the answer is not understood: {0}")]
    Answer(String),
    /// A search response is not understood, or documents are missing in it.
    #[error(transparent)]
    Search(#[from] SearchFault),
    /// The prefix of the stamp.
    #[error(transparent)]
    Prefix(#[from] SelectionError),
    /// The name resolves to no index, or has no route.
    #[error("there is no open index {0} with a route: is the name right, and does spinney serve have a route for it?")]
    NoIndex(String),
    /// An index cannot be backfilled with its present mapping.
    #[error("{index}: {fault}")]
    Mapping {
        /// The index.
        index: String,
        /// The fault.
        fault: mapping::MappingFault,
    },
    /// The updates were no-ops.
    #[error(
        "spinney passed the documents on without a stamp: is it a spinney of this version at the other end, with these \
         routes?"
    )]
    NotStamped,
}

impl From<ScanError> for BackfillError {
    fn from(error: ScanError) -> BackfillError {
        match error {
            ScanError::Operator(error) => BackfillError::Operator(error),
            ScanError::Busy(error) => BackfillError::Busy(error),
            ScanError::Response(fault) => BackfillError::Search(fault),
            ScanError::Lost => BackfillError::Answer(ScanError::Lost.to_string()),
        }
    }
}
