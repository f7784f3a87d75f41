//! Any bytes as a document: what the small mutation run checks of cleaning and of the features of `verified`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/pure/text_check.rs"]
mod text_check;

fuzz_target!(|data: &[u8]| {
    text_check::check(data);
});
