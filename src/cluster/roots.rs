//! The index of roots: one small entry for each group of two or more documents, filled in the background and read for
//! the order of groups.
//!
//! An entry's id is its key in decimal. It may be missing or late at any time: what is shown is counted anew.

/// The signed form of the root, `long`; also the id of the entry.
pub(crate) const KEY: &str = "cluster_key";
/// The root as 16 hex digits, `keyword`.
pub(crate) const ROOT: &str = "cluster_root";
/// Documents in the group, `integer`: 2 or more.
pub(crate) const COUNT: &str = "n";
/// The latest time of its documents, `date`.
pub(crate) const LAST: &str = "last";

/// The name of the index of roots of a concrete index.
pub(crate) fn roots_index(index: &str) -> String {
    format!("spinney-roots-{index}")
}
