//! spinney finds the equivalence class of near-duplicates that a document belongs to and stamps its root on the
//! document before the search cluster indexes it. The modules are listed in the order in which a bulk request passes
//! them.

// The command line reads the configuration and starts the server.
pub mod cli;
pub mod config;
// Connections, and whose request it is.
mod server;
// The way of a write and of everything relayed.
mod proxy;
// Our own endpoints, and the web page.
mod api;
mod ui;
// The table of what both of them answer.
pub mod endpoints;
// What people say about groups, for both of them.
mod overrides;
// What all requests share.
mod state;
// Forests from the index alone.
mod recovery;
// Documents that are stored without a stamp get one.
mod backfill;
// The sizes of groups, counted in the background.
mod counts;
// Groups and their documents, read for the own endpoints and the page.
mod groups;
// Articles that ask for a docId, and the hottest of each.
mod docid;
// Who may see what a forest knows, and change its groups.
mod access;
// The client of the search cluster.
mod cluster;
// What the modules above share of HTTP.
mod http;
// Joins the pure modules below: bytes and `now` in, splices out.
pub mod engine;
// What survives a restart: files and checksums, whatever they hold.
pub mod store;
// The engine that keeps forests which several processes share.
pub mod redis;
// Pure rooms: no network, no clock, no disk.
pub mod bulk;
pub mod fingerprint;
pub mod forest;
pub mod hamming;
pub mod hash;
pub mod method;
pub mod text;
pub mod time;
// Beside the way: the clock, what was lately, metrics and logs, the graceful stop, counts for tests.
mod clock;
mod history;
mod shutdown;
mod telemetry;
mod work_counter;
