//! Options with a few words to choose from.

use clap::ValueEnum;
use serde::Deserialize;

/// Form of the log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The fields of a stamp. Every field costs the cluster something with every document, so fields that can be computed
/// from the text are not written by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StampForm {
    /// Root, key and arrival: the fields that searches use.
    #[default]
    Lean,
    /// Also the document's own fingerprints and proof, which can then be used without reading the text.
    Full,
}

/// How groups are sorted by their size in the whole index. The roots index counts all documents: its order reveals
/// something of documents that a reader may not see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RestrictedReaders {
    /// Readers of an index may see all of it: the roots index gives the order.
    #[default]
    None,
    /// The order is computed for each reader, from the documents that they may see.
    Exact,
    /// This order is refused.
    Refuse,
}

/// What happens to a write that may carry documents of a route and cannot be stamped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUnstamped {
    /// It goes to the cluster as it came: what the cluster takes is stored without a stamp.
    #[default]
    Pass,
    /// It is refused.
    Refuse,
}

/// An option that is on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Switch {
    On,
    Off,
}
