//! `scripts/soak` for 20 seconds; `scripts/test --all` runs it for a minute. Writers, readers, overrides, sweep,
//! backfill and deletions at once, two spinneys that are ended and started again, and documents at the limits.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common;

#[test]
fn nothing_is_lost_or_split() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let soak = Command::new(root.join("scripts/soak"))
        .args(["--hours", "0.006", "--rate", "30", "--upstream", &common::opensearch()])
        .args(["--binary", env!("CARGO_BIN_EXE_spinney")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&soak.stderr);
    assert!(soak.status.success(), "{}: {said}", soak.status);
    let told = String::from_utf8(soak.stdout).unwrap();
    let last: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    for kind in ["lost", "split", "bad"] {
        assert_eq!(last[kind], 0, "{last}: {said}");
    }
    // It has done what it is for.
    for (figure, least) in [("kills", 3), ("docs", 100), ("checked", 100)] {
        assert!(last[figure].as_u64() >= Some(least), "{figure}: {last}: {said}");
    }
}
