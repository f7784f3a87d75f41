//! spinney finds the equivalence class of near-duplicates that a document belongs to and stamps its root on the
//! document before the search cluster indexes it. The modules are listed in the order in which a bulk request passes
//! them.

// The crates below: the bulk protocol; text, fingerprints and methods.
pub use spinney_bulk as bulk;
pub use spinney_forest as forest;
use spinney_forest::index_pattern;
pub use spinney_forest::{hamming, progress, store, text_fields, time};
pub use spinney_text::{fingerprint, hash, method, text};

// The command line reads the configuration and starts the server.
pub mod cli;
pub mod config;
// Connections: accept, TLS, dispatch, graceful stop.
mod server;
// Writes, and everything that is relayed.
mod proxy;
// The endpoints of spinney itself, and the web page.
mod api;
mod ui;
// The table of these endpoints.
pub mod endpoints;
// Overrides: people's corrections of groups, for both of them.
mod overrides;
// State shared by all requests.
mod state;
// Recovery of forests from the index.
mod recovery;
// Backfill: stored documents without a stamp get one.
mod backfill;
// Sizes of groups, counted in the background.
mod counts;
// Groups and their documents, read for the own endpoints and the page.
mod groups;
// The docId service, and the hottest article of each docId.
mod docid;
// Authorisation: who may read a forest's content and change its groups.
mod access;
// The client of the search cluster.
mod cluster;
// HTTP helpers of the modules above.
mod http;
// Joins the pure modules below: bytes and `now` in, splices out.
pub mod engine;
// The Redis client of shared forests.
pub mod redis;
// Chance, the clock, recent history, metrics, logs and traces, the graceful stop.
mod chance;
mod clock;
mod doctor;
mod history;
mod shutdown;
pub mod system;
mod telemetry;
#[cfg_attr(not(feature = "otel"), path = "untraced.rs")]
mod traces;
// What the development crate `simulation` starts by hand.
#[doc(hidden)]
pub mod parts;
