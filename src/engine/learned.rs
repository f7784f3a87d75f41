//! The sentences that became boilerplate while a body was placed, as text: for the log, and for a list that can be
//! looked through and given back (`--boilerplate`). The forest knows only their hashes, so the few documents concerned
//! are read a second time.

use std::ops::Range;

use super::{Bound, Engine, Stamped, texts};
use crate::bulk::{self, Selected};
use crate::method::VerifiedFeatures;
use crate::text::{Fields, Scratch};

/// Sentences of one document, by their number in it.
#[derive(Debug)]
pub(super) struct Learned {
    pub(super) route: usize,
    /// Where the document stands in the body.
    pub(super) object: Range<usize>,
    pub(super) sentences: Vec<usize>,
}

impl Engine {
    /// The sentences that became boilerplate by the documents of `body`, cleaned, in the order in which they did.
    pub fn learned(&self, body: &[u8], stamped: &Stamped) -> Vec<String> {
        let mut found = Vec::new();
        for learned in &stamped.learned {
            let Some(object) = body.get(learned.object.clone()) else {
                continue;
            };
            let Some(bound) = self.routes.get(learned.route) else {
                continue;
            };
            found.extend(sentences(object, bound, &learned.sentences));
        }
        found
    }
}

/// Those sentences of a document, cleaned, that have these numbers in it.
pub(super) fn sentences(object: &[u8], bound: &Bound, wanted: &[usize]) -> Vec<String> {
    let Ok(document) = bulk::scan(object, &bound.selection) else {
        return Vec::new();
    };
    let texts = texts(&document);
    let fields = Fields {
        title: document.first(Selected::Title),
        body: &texts,
    };
    let sentences = VerifiedFeatures::new().sentences(&mut Scratch::new(), &fields);
    let wanted = wanted.iter().filter_map(|&at| sentences.get(at));
    wanted.cloned().collect()
}
