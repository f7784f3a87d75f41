//! Any bytes as an answer in pieces: it must read the same however it is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/pure/response_check.rs"]
mod response_check;

fuzz_target!(|data: &[u8]| {
    response_check::check(data);
});
