//! Deferred placements: documents of unverified writers wait here until the cluster has accepted them. Their total
//! memory is bounded: the oldest are evicted first, so that a writer who reads no response cannot occupy it. An
//! evicted document is stored with its stamp but unknown to the forest.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::forest::document::ForestDocument;
use crate::method::Features;

/// Most bytes of deferred documents.
const CAPACITY: usize = 64 << 20;

/// Overhead of a document besides its features.
const EACH: usize = size_of::<(u64, ForestDocument)>();

/// All deferred documents, with their size.
#[derive(Debug, Clone, Default)]
pub(super) struct DeferredPlacements(Arc<Mutex<DeferredQueue>>);

#[derive(Debug, Default)]
struct DeferredQueue {
    /// By arrival.
    documents: BTreeMap<u64, ForestDocument>,
    next: u64,
    bytes: usize,
}

/// The claim of one document on its place among those that wait.
#[derive(Debug)]
pub(super) struct DeferredClaim {
    waiting: DeferredPlacements,
    number: u64,
}

fn bytes(document: &ForestDocument) -> usize {
    EACH + document.features.as_ref().map_or(0, Features::heap_bytes)
}

impl DeferredPlacements {
    /// Holds a document until it is taken, dropped or evicted.
    pub(super) fn keep(&self, document: ForestDocument) -> DeferredClaim {
        let mut queue = self.0.lock();
        let number = queue.next;
        queue.next += 1;
        queue.bytes += bytes(&document);
        queue.documents.insert(number, document);
        while queue.bytes > CAPACITY {
            let Some((_, oldest)) = queue.documents.pop_first() else {
                break;
            };
            queue.bytes -= bytes(&oldest);
        }
        drop(queue);
        DeferredClaim { waiting: self.clone(), number }
    }
}

impl DeferredClaim {
    /// Returns the document, unless it was evicted.
    pub(super) fn take(self) -> Option<ForestDocument> {
        self.remove()
    }

    fn remove(&self) -> Option<ForestDocument> {
        let mut queue = self.waiting.0.lock();
        let document = queue.documents.remove(&self.number)?;
        queue.bytes -= bytes(&document);
        Some(document)
    }
}

impl Drop for DeferredClaim {
    fn drop(&mut self) {
        drop(self.remove());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::DocumentHash;
    use crate::forest::document::DocumentTime;
    use crate::method::{Attributes, Method, Workspace};
    use crate::text::Fields;

    #[test]
    fn what_waits_longest_makes_room() {
        let text = "a sentence of many words that says nothing. ".repeat(20_000);
        let fields = Fields { title: None, body: &[&text] };
        let mut workspace = Workspace::default();
        let features = Method::Verified.read_with(&fields, Attributes::default(), &mut workspace);
        let document =
            ForestDocument { features, when: DocumentTime::Still, title: None, id: DocumentHash::UNKNOWN, given: None };
        let most = CAPACITY / bytes(&document);
        let waiting = DeferredPlacements::default();
        let mut kept: Vec<DeferredClaim> = (0..most + 2).map(|_| waiting.keep(document.clone())).collect();
        assert_eq!(waiting.0.lock().bytes, most * bytes(&document));
        let newest = kept.split_off(2);
        assert!(kept.into_iter().all(|oldest| oldest.take().is_none()));
        let mut newest = newest.into_iter();
        assert!(newest.next().unwrap().take().is_some());
        assert_eq!(waiting.0.lock().bytes, (most - 1) * bytes(&document));
        drop(newest);
        let queue = waiting.0.lock();
        assert_eq!((queue.bytes, queue.documents.len()), (0, 0));
    }
}
