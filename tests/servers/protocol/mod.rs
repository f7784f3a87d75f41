//! The write protocol, point by point: what a client sees and what is stored is the same through spinney as it is from
//! the real server, but for the stamp. `common/twin.rs` says how that is compared.
//!
//! 1 routes · 2 content types · 3 packing · 4 lengths and leave · 5 size · 6 lines · 7 action lines · 8 updates · 9
//! JSON · 10 answers · 11 product header · 12 sniffing · 13 data streams and aliases · 14 query strings · 15 refusals,
//! no replays · 16 connections and headers · 17 streaming bulks · 18 bodies in any method, many headers · 19 typed
//! paths that are no documents

mod answers;
mod bodies;
mod connections;
mod documents;
mod lines;
mod requests;
mod routes;
mod sizes;
