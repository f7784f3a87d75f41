//! Counts of recovered documents that forests did not have, for `_stats`.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::engine::Recovered;

/// Counts of found documents.
#[derive(Debug, Default)]
pub(crate) struct RecoveryStatus {
    /// By forest.
    at_start: Mutex<BTreeMap<String, ForestStatus>>,
    /// By forest: found documents whose outcome had been indeterminate.
    unanswered: Mutex<BTreeMap<String, Recovered>>,
}

/// Counts of one forest's catch-up.
#[derive(Debug, Clone)]
pub(crate) struct ForestStatus {
    /// A word for it.
    pub(crate) state: &'static str,
    pub(crate) recovered: Recovered,
    /// Stamped documents in the index that the forest does not have.
    pub(crate) unknown: u64,
    /// Indices that could not be read, with the reason; they are tried again.
    pub(crate) unreadable: Vec<(String, String)>,
}

impl RecoveryStatus {
    pub(crate) fn set(&self, forest: &str, status: ForestStatus) {
        self.at_start.lock().insert(forest.to_owned(), status);
    }

    /// Adds a search for documents of indeterminate outcome.
    pub(crate) fn resolved(&self, forest: &str, recovered: Recovered) {
        let mut all = self.unanswered.lock();
        all.entry(forest.to_owned()).or_default().add(recovered);
    }

    /// By forest, as JSON.
    pub(crate) fn shown(&self) -> Value {
        let mut forests = self.starts();
        for (forest, recovered) in &*self.unanswered.lock() {
            let shown = json!({
                "read": recovered.documents,
                "caught_up": recovered.placed,
                "elsewhere": recovered.elsewhere,
                "foreign": recovered.foreign,
            });
            let of_forest = forests.entry(forest.as_str()).or_insert_with(|| json!({}));
            if let Value::Object(of_forest) = of_forest {
                of_forest.insert("indeterminate".into(), shown);
            }
        }
        forests.into()
    }

    fn starts(&self) -> Map<String, Value> {
        let all = self.at_start.lock().clone();
        let forests = all.into_iter().map(|(forest, status)| {
            let mut shown = json!({
                "state": status.state,
                "read": status.recovered.documents,
                "caught_up": status.recovered.placed,
                "known": status.recovered.known,
                "elsewhere": status.recovered.elsewhere,
                "foreign": status.recovered.foreign,
                "unknown_in_index": status.unknown,
            });
            if !status.unreadable.is_empty() {
                let unreadable: Map<String, Value> =
                    status.unreadable.into_iter().map(|(name, why)| (name, why.into())).collect();
                shown["unreadable"] = unreadable.into();
            }
            (forest, shown)
        });
        forests.collect()
    }
}
