//! Everything in front of real search servers, which `scripts/test` starts: what clients see, what is stored, what
//! happens when something breaks. One program, so that it is linked once and its tests run side by side: each has index
//! names and a spinney of its own, and all share the servers.

#![allow(
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unused_async,
    clippy::unwrap_used,
    reason = "a test says what went wrong by panicking, and helpers serve many files"
)]
#![allow(
    clippy::disallowed_types,
    reason = "the standard lock poisons: a fake server that panicked must fail its test"
)]

mod adopting;
mod alerts;
#[cfg(feature = "aws")]
mod aws;
mod backfill;
mod budget;
mod check;
mod clients;
mod clock;
mod common;
mod counts;
mod docid;
mod doctor;
mod examples;
mod faults;
mod fields;
mod first;
mod limits;
mod malformed;
mod mapping;
mod monitoring;
mod overrides;
mod protocol;
mod reading;
mod readme;
mod recover;
mod restart;
mod secure;
mod service;
mod shared;
mod soak;
#[cfg(feature = "otel")]
mod traces;
mod ui;
mod unasked;
mod unverified;
mod upgrade;
