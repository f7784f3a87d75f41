//! The first documents of each route, to log missing fields once.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use tracing::warn;

use super::field_sample::{FieldSample, MissingField, RouteField, SAMPLE};
use crate::bulk::stored_value;
use crate::config::Route;

/// A sample that ends with its [`SAMPLE`]th document.
#[derive(Debug)]
pub(super) struct FirstDocuments {
    is_over: AtomicBool,
    sample: Mutex<FieldSample>,
}

impl FirstDocuments {
    pub(super) fn new(route: &Route, prefix: &str) -> FirstDocuments {
        let sample = Mutex::new(FieldSample::new(RouteField::all_of(route), prefix));
        FirstDocuments { is_over: AtomicBool::new(false), sample }
    }

    /// Adds a whole document to the sample, until it is complete.
    pub(super) fn note(&self, route: &Route, document: &[u8]) {
        if self.is_over.load(Relaxed) {
            return;
        }
        let Ok(document) = stored_value(document) else { return };
        let mut sample = self.sample.lock();
        if sample.documents() >= SAMPLE {
            return;
        }
        sample.add(&document);
        if sample.documents() == SAMPLE {
            self.is_over.store(true, Relaxed);
            let patterns: Vec<&str> = route.patterns().collect();
            for missing in sample.missing() {
                warn!(route = patterns.join(","), "{missing}");
            }
        }
    }

    /// The fields that no sampled document has.
    pub(super) fn missing(&self) -> Vec<MissingField> {
        self.sample.lock().missing()
    }
}
