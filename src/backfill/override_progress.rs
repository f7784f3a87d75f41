//! Who obeys what was said in forests that several processes share: each tells the others again and again up to which
//! word all that it has on its way to the cluster obeys. Stored documents have followed a word when no document can
//! come any more that does not. The law is docs/merges.md.

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

/// How often a process hears and tells while nothing is to be followed, and while something is.
const CALM: Duration = Duration::from_millis(500);
const BUSY: Duration = Duration::from_millis(100);

/// What all processes obey, as far as it was heard, by the name of the forest.
#[derive(Debug, Clone, Default)]
pub(super) struct OverrideProgress(Arc<Shown>);

#[derive(Debug, Default)]
struct Shown {
    forests: Mutex<HashMap<String, Acknowledged>>,
    changed: Notify,
}

impl OverrideProgress {
    /// What is known of a forest.
    pub(super) fn of(&self, forest: &str) -> Option<Acknowledged> {
        self.0.forests.lock().get(forest).copied()
    }

    fn set(&self, forest: &str, obeyed: Acknowledged) {
        self.0.forests.lock().insert(forest.to_owned(), obeyed);
        self.0.changed.notify_waiters();
    }

    /// Waits until all processes obey this change of words.
    pub(super) async fn wait(self, forest: String, change: u64) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // From here on nothing is missed.
            changed.as_mut().enable();
            let known = self.of(&forest);
            if known.is_some_and(|obeyed| obeyed.by_all >= change) {
                return;
            }
            changed.await;
        }
    }
}

/// Ends when all that it is about has ended.
type Ended = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What this process knows of one forest.
struct ForestProgress {
    forest: String,
    /// The last change of words that it has heard of.
    change: u64,
    /// All that was on its way before some change; and that change.
    before: Option<(u64, Ended)>,
    /// All that is on its way obeys this change.
    obeys: u64,
}

/// Hears and tells until it is aborted.
pub(crate) async fn run(shared: &Restamping, engine: &Engine, writes: &Writes) {
    let forests = engine.forests_shared().into_iter();
    let mut forests: Vec<ForestProgress> =
        forests.map(|forest| ForestProgress { forest, change: 0, before: None, obeys: 0 }).collect();
    if forests.is_empty() {
        return;
    }
    loop {
        let mut next = CALM;
        for heard in &mut forests {
            match refresh(heard, shared, engine, writes).await {
                Ok(true) => {}
                Ok(false) => next = BUSY,
                // Writes are refused as well, and it is said there.
                Err(reason) => {
                    debug!(forest = heard.forest, %reason, "what people say is not heard");
                }
            }
        }
        pause(next).await;
    }
}

/// Answers whether all obey all that was heard.
async fn refresh(
    heard: &mut ForestProgress,
    shared: &Restamping,
    engine: &Engine,
    writes: &Writes,
) -> Result<bool, Unavailable> {
    let change = engine.refresh_overrides(&heard.forest).await?;
    if change > heard.change {
        heard.change = change;
        shared.wake();
    }
    if heard.before.is_none() && heard.change > heard.obeys {
        heard.before = Some((heard.change, Box::pin(writes.begun())));
    }
    if let Some((change, before)) = &mut heard.before {
        let change = *change;
        if tokio::time::timeout(BUSY, before).await.is_ok() {
            (heard.obeys, heard.before) = (change, None);
        }
    }
    let obeyed = engine.acknowledge_overrides(&heard.forest, heard.obeys).await?;
    let known = shared.all_acknowledged().of(&heard.forest);
    if known != Some(obeyed) {
        shared.all_acknowledged().set(&heard.forest, obeyed);
        if known.is_none_or(|known| known.is_first != obeyed.is_first) {
            shared.wake();
        }
    }
    Ok(obeyed.by_all >= heard.change)
}

#[expect(clippy::disallowed_methods, reason = "a pause between two looks at what other processes do")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
