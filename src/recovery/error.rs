//! Errors of a recovery, with advice.

use std::path::PathBuf;

use crate::cluster::operator::OperatorError;
use crate::cluster::scan::ScanError;
use crate::engine::{EngineError, SaveError, Unavailable};
use crate::store::StoreError;

/// Why forests cannot be recovered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecoveryError {
    /// The cluster.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The URL or a certificate.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// Routes and forests.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A forest has failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The directory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The recovered forest cannot be stored.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// No `--data-dir`.
    #[error("name the directory to store the forests in with --data-dir")]
    NoDirectory,
    /// By the clock of this machine other documents would be within the window than by the cluster's.
    #[error(
        "the clock of this machine and that of the cluster are {} s apart, and it decides which documents are within \
         the window: set it right (run an NTP client on both), and run this again",
        .apart / 1_000
    )]
    Clocks {
        /// How far apart they are, in milliseconds.
        apart: u64,
    },
    /// No route.
    #[error("name the indices with --index, or give the file with the routes with --config")]
    NoRoute,
    /// The directory has the forests already.
    #[error(
        "{} holds {} already, and nothing was changed: start serve with it; or, to rebuild it from the index, move its \
         folder in there away and try again",
        dir.display(), forests.join(", ")
    )]
    Held {
        /// The directory.
        dir: PathBuf,
        /// The names of the forests.
        forests: Vec<String>,
    },
    /// An index cannot be read.
    #[error(
        "the index {name} cannot be read: {}; nothing was changed: let it be read, or leave it out of --index, and try \
         again",
        reason.with_advice()
    )]
    Unreadable {
        /// Its name.
        name: String,
        /// Why not.
        reason: ScanError,
    },
    /// No index has a name that fits.
    #[error("there is no open index {} at {url}: is --index right, and is it the right cluster?", indices.join(", "))]
    NoIndex {
        /// Names and patterns.
        indices: Vec<String>,
        /// Of the cluster.
        url: String,
    },
}

impl RecoveryError {
    /// Whether the cluster is away.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self, RecoveryError::Scan(error) if error.is_away())
    }

    /// Whether it is a cluster error that a retry may resolve.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, RecoveryError::Scan(_))
    }

    /// The reason, and the way out.
    pub(crate) fn with_advice(&self) -> String {
        match self {
            RecoveryError::Scan(error) => error.with_advice(),
            _ => self.to_string(),
        }
    }
}
