//! Tracks how far each process has applied the overrides of a shared forest.
//!
//! Each process reports periodically which override version all of its in-flight documents use. Stored documents
//! follow an override once no document of an earlier version can arrive any more. docs/internals/overrides.md has the
//! protocol.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::debug;

use super::Restamping;
use crate::engine::{Engine, Unavailable};
use crate::forest::port::Acknowledged;
use crate::shutdown::Writes;

/// Interval of reports while no override is pending, and while one is.
const CALM: Duration = Duration::from_millis(500);
const BUSY: Duration = Duration::from_millis(100);

/// The version that all processes use, as last read, by forest.
#[derive(Debug, Clone, Default)]
pub(super) struct OverrideProgress(Arc<Shown>);

#[derive(Debug, Default)]
struct Shown {
    forests: Mutex<HashMap<String, Acknowledged>>,
    changed: Notify,
}

impl OverrideProgress {
    /// The state of one forest.
    pub(super) fn of(&self, forest: &str) -> Option<Acknowledged> {
        self.0.forests.lock().get(forest).copied()
    }

    fn set(&self, forest: &str, acknowledged: Acknowledged) {
        self.0.forests.lock().insert(forest.to_owned(), acknowledged);
        self.0.changed.notify_waiters();
    }

    /// Waits until all processes use this override version.
    pub(super) async fn wait(self, forest: String, change: u64) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // From here on nothing is missed.
            changed.as_mut().enable();
            let known = self.of(&forest);
            if known.is_some_and(|acknowledged| acknowledged.by_all >= change) {
                return;
            }
            changed.await;
        }
    }
}

/// Ends when all that it is about has ended.
type Ended = Pin<Box<dyn Future<Output = ()> + Send>>;

/// This process's progress in one forest.
struct ForestProgress {
    forest: String,
    /// The latest version that it has read.
    change: u64,
    /// In-flight documents of earlier versions, and the version they precede.
    before: Option<(u64, Ended)>,
    /// All in-flight documents use this version.
    followed: u64,
}

/// Reads and reports until it is aborted.
pub(crate) async fn run(shared: &Restamping, engine: &Engine, writes: &Writes) {
    let forests = engine.forests().shared().into_iter();
    let mut forests: Vec<ForestProgress> =
        forests.map(|forest| ForestProgress { forest, change: 0, before: None, followed: 0 }).collect();
    if forests.is_empty() {
        return;
    }
    loop {
        let mut next = CALM;
        for progress in &mut forests {
            match refresh(progress, shared, engine, writes).await {
                Ok(true) => {}
                Ok(false) => next = BUSY,
                // Writes are refused as well, with this reason.
                Err(reason) => {
                    debug!(forest = progress.forest, %reason, "what people say is not heard");
                }
            }
        }
        pause(next).await;
    }
}

/// Returns whether all processes use all overrides that were read.
async fn refresh(
    progress: &mut ForestProgress,
    shared: &Restamping,
    engine: &Engine,
    writes: &Writes,
) -> Result<bool, Unavailable> {
    let change = engine.forests().refresh_overrides(&progress.forest).await?;
    if change > progress.change {
        progress.change = change;
        shared.wake();
    }
    if progress.before.is_none() && progress.change > progress.followed {
        progress.before = Some((progress.change, Box::pin(writes.begun())));
    }
    if let Some((change, before)) = &mut progress.before {
        let change = *change;
        if tokio::time::timeout(BUSY, before).await.is_ok() {
            (progress.followed, progress.before) = (change, None);
        }
    }
    let Some(acknowledged) = engine.forests().acknowledge_overrides(&progress.forest, progress.followed).await? else {
        return Ok(true);
    };
    let known = shared.all_acknowledged().of(&progress.forest);
    if known != Some(acknowledged) {
        shared.all_acknowledged().set(&progress.forest, acknowledged);
        if known.is_none_or(|known| known.is_first != acknowledged.is_first) {
            shared.wake();
        }
    }
    Ok(acknowledged.by_all >= progress.change)
}

#[expect(clippy::disallowed_methods, reason = "a pause between two looks at what other processes do")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
