//! Log entries for the documents of a write.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tracing::{Level, debug, enabled, info, warn};

use crate::bulk;
use crate::engine::{Engine, RefusedTree, Stamped, Unavailable, Unstamped, UnstampedDocument, Write};

/// Logs documents without a stamp, how trees were found, and which trees refused a document. Never logs content.
///
/// # Errors
/// When the engine cannot work.
pub(super) async fn log_stamped(
    engine: &Arc<Engine>,
    write: Write,
    body: &Bytes,
    stamped: &Stamped,
) -> Result<(), Unavailable> {
    for UnstampedDocument { item, reason } in stamped.unstamped_documents() {
        match reason {
            // As it should be.
            Unstamped::NoTextInUpdate => debug!(item, %reason, "a document stays unstamped"),
            _ if reason.may_be_stored() => warn!(item, %reason, "a document stays unstamped"),
            Unstamped::Source(_) | Unstamped::Splice(_) => {
                info!(item, %reason, "a document stays unstamped");
            }
        }
    }
    for (item, stage) in stamped.stages() {
        debug!(item, %stage, "a tree was found");
    }
    if stamped.refused().is_empty() || !enabled!(Level::DEBUG) {
        return Ok(());
    }
    let (body, refused) = (body.clone(), stamped.refused().to_vec());
    engine.run(move || log_refused(&write, &body, &refused)).await
}

/// One line for each founder of a tree that near trees refused. The placement keeps no names, so a bulk is split into
/// its items a second time.
fn log_refused(write: &Write, body: &[u8], refused: &[RefusedTree]) {
    let items = match write {
        Write::Bulk { .. } => bulk::parse(body).unwrap_or_default(),
        Write::Document { .. } => Vec::new(),
    };
    for founder in refused.chunk_by(|a, b| (a.item, a.root) == (b.item, b.root)) {
        let Some(&RefusedTree { item, root, .. }) = founder.first() else {
            continue;
        };
        let (mut index, mut id) = match write {
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

/// `00f1…: numbers: 2 of 7 numbers in the same places differ; 9c40…: …`
struct Refusals<'a>(&'a [RefusedTree]);

impl fmt::Display for Refusals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, RefusedTree { tree, refusal, .. }) in self.0.iter().enumerate() {
            let between = if at == 0 { "" } else { "; " };
            write!(f, "{between}{tree}: {refusal}")?;
        }
        Ok(())
    }
}
