//! Waiting for what nobody announces, and names that differ between runs.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a test waits for anything before it fails. Far above what anything needs: a slow machine must not fail a
/// test, a stuck process must.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Between two looks at something that nobody announces: how long decides nothing, it only spares the processor.
pub const PAUSE: Duration = Duration::from_millis(20);

/// A path for a file or folder of this test, in cargo's folder for the temporary files of tests. Nothing is created.
pub fn scratch(label: &str) -> PathBuf {
    // The tests of the library have no such folder.
    let folder = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    folder.join(format!("spinney-{label}-{}", unique()))
}

/// Lower-case letters, digits and hyphens; differs between calls, processes and runs.
pub fn unique() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    #[expect(clippy::disallowed_methods, reason = "differs between runs")]
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    format!("{millis:x}-{}-{call}", std::process::id())
}

/// A test that looks again and again whether something holds, and fails if it does not in the end.
pub struct Waiting {
    what: String,
    until: Instant,
}

impl Waiting {
    pub fn until(what: &str) -> Waiting {
        Waiting { what: what.to_owned(), until: Instant::now() + PATIENCE }
    }

    /// Panics if it has taken too long.
    pub async fn pause(&self) {
        self.check();
        #[expect(clippy::disallowed_methods, reason = "a pause between two looks at a condition")]
        tokio::time::sleep(PAUSE).await;
    }

    fn check(&self) {
        let (what, in_time) = (&self.what, Instant::now() < self.until);
        assert!(in_time, "waited {PATIENCE:?} until {what}");
    }
}

/// The same where no task of the test itself has to go on meanwhile.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = Waiting::until(what);
    while !holds() {
        waiting.check();
        #[expect(clippy::disallowed_methods, reason = "a pause between two looks at a condition")]
        thread::sleep(PAUSE);
    }
}
