//! Compact, comparable features of a document: [`text`] cleans it, finds its sentences and tokens; [`method`] makes
//! features of them and decides whether two documents are near-duplicates. Pure: no clock, no disk, no network, and the
//! same answer on every machine.

pub mod fingerprint;
pub mod hash;
pub mod method;
pub mod text;
pub mod work_counter;
