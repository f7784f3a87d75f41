//! Any bytes as records of a stored forest: they are read or refused, and what was read is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/pure/stored_check.rs"]
mod stored_check;

fuzz_target!(|data: &[u8]| {
    stored_check::check(data);
});
