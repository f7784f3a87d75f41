//! The write protocol, point by point: what a client sees and what is stored is the same through spinney as it is from the
//! real server, but for the stamp. `common/twin.rs` says how that is compared.
//!
//! 1 routes · 2 content types · 3 packing · 4 lengths and leave · 5 size · 6 lines · 7 action lines · 8 updates · 9 JSON ·
//! 10 answers · 11 product header · 12 sniffing · 13 data streams and aliases · 14 query strings · 15 refusals, no replays ·
//! 16 connections and headers · 17 streaming bulks

mod common;

#[path = "protocol/answers.rs"]
mod answers;
#[path = "protocol/bodies.rs"]
mod bodies;
#[path = "protocol/connections.rs"]
mod connections;
#[path = "protocol/documents.rs"]
mod documents;
#[path = "protocol/lines.rs"]
mod lines;
#[path = "protocol/requests.rs"]
mod requests;
#[path = "protocol/routes.rs"]
mod routes;
#[path = "protocol/sizes.rs"]
mod sizes;
