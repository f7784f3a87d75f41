//! Everything that needs no search server: the modules from the outside, against naive models and the project's own
//! sample, and the commands that read from standard input. One program, so that it is linked once and its tests run
//! side by side.

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

mod bench_support;
mod bulk_check;
mod bulk_fuzz_small;
mod bulk_props;
mod cases;
mod docs;
mod forest_laws;
mod forms;
mod hostile;
mod layers;
mod memory;
mod methods;
mod mutants;
mod openapi;
mod page_chrome;
mod quality;
mod response_check;
mod scripts;
mod stamp;
mod stamp_forms;
mod stamping;
mod store;
mod stored_check;
mod stored_fuzz_small;
mod terms;
mod text_check;
mod text_fuzz_small;

// `scripts/bench` measures with this; random numbers are the same everywhere.
#[path = "../../benches/support/random.rs"]
mod random;
