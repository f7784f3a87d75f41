//! What starts have found, for `_stats`.

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::engine::Recovered;

/// What a start has found in the indices that the stored forests did not know.
#[derive(Debug, Default)]
pub(crate) struct Status(Mutex<Vec<ForestStatus>>);

/// The same of one forest.
#[derive(Debug, Clone)]
pub(crate) struct ForestStatus {
    pub(crate) forest: String,
    /// A word for it.
    pub(crate) state: &'static str,
    pub(crate) recovered: Recovered,
    /// Stamped documents in the index of which the forest knows nothing.
    pub(crate) unknown: u64,
}

impl Status {
    pub(crate) fn set(&self, status: ForestStatus) {
        let mut all = self.0.lock();
        all.retain(|known| known.forest != status.forest);
        all.push(status);
    }

    /// By forest, as JSON.
    pub(crate) fn shown(&self) -> Value {
        let all = self.0.lock().clone();
        let forests = all.into_iter().map(|status| {
            let shown = json!({
                "state": status.state,
                "read": status.recovered.documents,
                "caught_up": status.recovered.placed,
                "known": status.recovered.known,
                "elsewhere": status.recovered.elsewhere,
                "unknown_in_index": status.unknown,
            });
            (status.forest, shown)
        });
        forests.collect::<Map<_, _>>().into()
    }
}
