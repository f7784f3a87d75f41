//! spinney finds the equivalence class of near-duplicates that a document belongs to and stamps its root on the
//! document before the search cluster indexes it. The rooms stand in the order in which a bulk request meets them.

// The command line reads the configuration and opens the door.
pub mod cli;
pub mod config;
pub mod eval;
// The door: connections, routes, budget; everything else is relayed.
pub mod proxy;
// Joins the pure rooms below: bytes and `now` in, splices out.
pub mod engine;
// Pure rooms: no network, no clock, no disk.
pub mod bulk;
pub mod fingerprint;
pub mod forest;
pub mod hamming;
pub mod hash;
pub mod method;
pub mod text;
pub mod time;
// Beside the way: own endpoints, counters and logs, the graceful stop.
pub mod api;
pub mod shutdown;
pub mod telemetry;
