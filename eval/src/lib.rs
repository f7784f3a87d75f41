//! The scorer: how good the clusters of a method are on documents that somebody has labelled. `spinney-eval` is
//! its command line.
//!
//! ```text
//! documents --cluster--> roots --+
//!                                score --> report, or one point of a sweep for each setting
//! pairs, clusters ----> labels --+
//! ```
//!
//! [`arena`] runs all labelled collections of a folder.

pub mod arena;
mod by_label;
mod clustering;
mod documents;
mod labels;
mod plot;
#[path = "../../benches/support/random.rs"]
#[allow(dead_code, unreachable_pub, missing_docs, reason = "the corpus of the page chrome uses a part of it")]
mod random;
mod reason;
mod report;
mod score;
mod sweep;
mod title;
mod titles;

pub use by_label::{LabelFigures, ReasonCount};
pub use clustering::{Clustering, ClusteringError};
pub use documents::{DocumentFields, Documents, DocumentsError};
pub use labels::{LabelError, LabelledClusters, LabelledPairs};
pub use plot::{Point, svg};
pub use report::{Cluster, Excerpt, Figures, Labels, OtherLabel, Report, UnrelatedTitles, WorstMistake};
pub use sweep::{Sweep, SweepError};
