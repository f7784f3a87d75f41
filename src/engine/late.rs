//! Documents of strangers that wait to be placed until the cluster has accepted them. What they take in memory is bounded for
//! all requests together; a document for which there is no room is stamped like any other and then not remembered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::forest::port::Document;
use crate::method::Features;

/// Bytes of such documents.
const CAPACITY: usize = 64 << 20;

/// What a document takes besides its features.
const EACH: usize = size_of::<Document>();

/// How much such documents take together.
#[derive(Debug, Clone, Default)]
pub(super) struct Waiting(Arc<AtomicUsize>);

/// One document that waits.
#[derive(Debug)]
pub(super) struct Late {
    document: Option<Document>,
    waiting: Waiting,
    bytes: usize,
}

impl Waiting {
    /// Keeps a document, if there is room for it.
    pub(super) fn keep(&self, document: &Document) -> Option<Late> {
        let features = document.features.as_ref();
        let bytes = EACH + features.map_or(0, Features::heap_bytes);
        let fits = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= CAPACITY);
        self.0.fetch_update(Relaxed, Relaxed, fits).ok()?;
        Some(Late {
            document: Some(document.clone()),
            waiting: self.clone(),
            bytes,
        })
    }
}

impl Late {
    pub(super) fn take(mut self) -> Option<Document> {
        self.document.take()
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.waiting.0.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::port::When;
    use crate::method::{Attributes, Method, Workspace};
    use crate::text::Fields;

    #[test]
    fn what_waits_is_bounded_and_goes_back() {
        let text = "a sentence of many words that says nothing. ".repeat(20_000);
        let fields = Fields {
            title: None,
            body: &[&text],
        };
        let mut workspace = Workspace::default();
        let features = Method::Verified.read_with(&fields, Attributes::default(), &mut workspace);
        let document = Document {
            features,
            when: When::Still,
        };
        let waiting = Waiting::default();
        let mut kept = Vec::new();
        while let Some(late) = waiting.keep(&document) {
            kept.push(late);
        }
        let used = waiting.0.load(Relaxed);
        assert!(used <= CAPACITY && used > CAPACITY / 2, "{used}");
        assert!(kept.pop().unwrap().take().is_some());
        kept.extend(waiting.keep(&document));
        assert_eq!(waiting.0.load(Relaxed), used);
        drop(kept);
        assert_eq!(waiting.0.load(Relaxed), 0);
    }
}
