//! Everything in front of real search servers, which `scripts/test` starts: what clients see, what is stored, what happens
//! when something breaks. One program, so that it is linked once and its tests run side by side: each has index names and a
//! spinney of its own, and all share the servers.

mod budget;
mod check;
mod clients;
mod common;
mod faults;
mod malformed;
mod protocol;
mod secure;
