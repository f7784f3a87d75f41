//! Any bytes as a document, an update, a bulk body and an answer: every check that the small mutation run makes.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use spinney::bulk::Selection;

#[path = "../../tests/pure/bulk_check/mod.rs"]
mod bulk_check;

static SELECTION: LazyLock<Selection> = LazyLock::new(bulk_check::selection);

fuzz_target!(|data: &[u8]| bulk_check::check(data, &SELECTION));
