//! What the log tells of the documents of a body.

use std::fmt;

use tracing::{Level, debug, enabled, info};

use super::write::Write;
use crate::bulk;
use crate::engine::{Engine, Refused, Stamped};

/// Characters of a sentence that the log shows.
const SENTENCE_SHOWN: usize = 120;

impl Write {
    /// Tells what was learned by the documents, how they found their trees, and which trees refused them.
    pub(super) fn tell(&self, engine: &Engine, body: &[u8], stamped: &Stamped) {
        for sentence in engine.learned(body, stamped) {
            let begins: String = sentence.chars().take(SENTENCE_SHOWN).collect();
            info!(begins, "a sentence has become boilerplate");
        }
        for (item, stage) in stamped.stages() {
            debug!(item, %stage, "a tree was found");
        }
        if !stamped.refused().is_empty() && enabled!(Level::DEBUG) {
            self.tell_refused(body, stamped.refused());
        }
    }

    /// One line for each founder of a tree that near trees refused. The placement keeps no names, so a bulk is split
    /// into its items a second time.
    fn tell_refused(&self, body: &[u8], refused: &[Refused]) {
        let items = match self {
            Write::Bulk { .. } => bulk::parse(body).unwrap_or_default(),
            Write::Document { .. } => Vec::new(),
        };
        for founder in refused.chunk_by(|a, b| (a.item, a.root) == (b.item, b.root)) {
            let Some(&Refused { item, root, .. }) = founder.first() else {
                continue;
            };
            let (mut index, mut id) = match self {
                Write::Bulk { index } => (index.as_deref(), None),
                Write::Document { index, id, .. } => (Some(index.as_str()), id.as_deref()),
            };
            if let Some(named) = items.get(item) {
                index = named.index.as_deref().or(index);
                id = named.id.as_deref();
            }
            debug!(item, index, id, %root, refused = %Refusals(founder), "near trees refused a document");
        }
    }
}

/// `00f1…: numbers: 2 of 7 numbers in the same places differ; 9c40…: …`
struct Refusals<'a>(&'a [Refused]);

impl fmt::Display for Refusals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Refused { tree, refusal, .. }) in self.0.iter().enumerate() {
            let between = if at == 0 { "" } else { "; " };
            write!(f, "{between}{tree}: {refusal}")?;
        }
        Ok(())
    }
}
