//! The scorer: how good the clusters of a method are on documents that somebody has labelled. `spinney-eval` is
//! its command line.
//!
//! ```text
//! documents --cluster--> roots --+
//!                                score --> report, or one point of a sweep for each setting
//! pairs, clusters ----> labels --+
//! ```

mod by_label;
mod documents;
mod labels;
mod plot;
mod reason;
mod report;
mod score;
mod sweep;
mod titles;

pub use by_label::{LabelFigures, ReasonCount};
pub use documents::{Clustering, ClusteringError, Documents, DocumentsError};
pub use labels::{LabelError, LabelledClusters, LabelledPairs};
pub use plot::{Point, svg};
pub use report::{Cluster, Excerpt, Figures, Labels, OtherLabel, Report, UnrelatedTitles, WorstMistake};
pub use sweep::{Sweep, SweepError};
