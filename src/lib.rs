//! spinney finds the equivalence class of near-duplicates that a document belongs to and stamps its root on the
//! document before the search cluster indexes it. The modules stand in the order in which a bulk request meets them.

pub mod bulk;
pub mod fingerprint;
pub mod forest;
pub mod hamming;
pub mod text;
