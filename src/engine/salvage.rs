//! Salvages the readable part of a stored forest that cannot be opened. The old files are kept beside it, unchanged.
//!
//! ```text
//! news/              cannot be opened         -> UNREADABLE-1-news/
//! SALVAGED-news/     readable part, a snapshot -> news/, marked until the index's documents were read
//! ```
//!
//! It passes over damage up to the next valid record, over a file whose header is damaged, and the rest of an unknown
//! record's block (about 1 MiB) or batch. A lost root with leaves gets a node as old as the youngest; lost trees take
//! their leaves along. An interrupted salvage is finished by the next start. Identity and format must be right.

use std::path::Path;

use tracing::warn;

use super::stored::{SaveError, Stores, read, write_whole};
use super::threads::Inline;
use crate::chance::secret_key;
use crate::fingerprint::Distance;
use crate::forest::Settings;
use crate::forest::local::{ForestState, LocalForest};
use crate::method::MethodKind;
use crate::store::{DataDir, ForestIdentity, ReplayProgress, Store, StoreError, UnreadableRange};
use crate::text_fields::FieldRecord;

/// Directory in which a salvage is prepared. No forest's own directory has an upper-case name.
const SALVAGED: &str = "SALVAGED";

/// An empty forest with the settings that reading needs. Expiry is decided by the window, which is not stored.
pub(super) fn empty_of<F: MethodKind>(identity: &ForestIdentity) -> Result<ForestState<F>, StoreError> {
    let k = identity.settings().find(|(key, _)| *key == "k");
    let settings = Settings {
        k: Distance(k.and_then(|(_, k)| k.parse().ok()).unwrap_or_default()),
        window: None,
        // Of a forest that goes on to be used, unless the copy tells its own.
        key: secret_key(),
    };
    let empty = ForestState::<F>::new(settings, Default::default(), F::Learned::default());
    empty.map_err(|_| StoreError::NoForest { forest: identity.forest().to_owned() })
}

impl Stores {
    /// Whether a forest is salvaged, and the index has not been read since.
    pub(super) fn is_salvaged(&self, forest: &str) -> bool {
        self.data_dir.is_marked(forest)
    }

    /// Finishes a salvage that a kill has interrupted.
    pub(super) fn finish_salvage(&self, forest: &str) -> Result<(), StoreError> {
        let aside = self.data_dir.aside(SALVAGED, forest);
        if !aside.is_dir() || self.data_dir.has_directory(forest)? {
            return Ok(());
        }
        let aside = DataDir::lock(&aside)?;
        match aside.holds(forest)? {
            true => self.data_dir.adopt(&aside, forest),
            false => Ok(()),
        }
    }

    /// Replaces a forest that cannot be opened by its readable part.
    pub(super) fn salvage<F: MethodKind>(
        &self,
        (identity, fields): (&ForestIdentity, &FieldRecord),
        error: &StoreError,
        report: impl Fn(ReplayProgress),
    ) -> Result<(), StoreError> {
        let forest = identity.forest();
        warn!(forest, %error, "the stored forest does not read as a whole");
        let mut replay = Store::salvage(&self.data_dir, identity)?;
        let (state, gaps) = read::<F>(&mut replay, empty_of(identity)?, self.tasks.reads_ahead(), report)?;
        // What reads of it is of its own version, not of this one.
        let identity = &replay.identity().clone();
        drop(replay);
        let aside = self.data_dir.aside(SALVAGED, forest);
        let _ = std::fs::remove_dir_all(&aside);
        let nodes = state.forest().stats().nodes;
        self.put_in_its_place(&aside, (identity, fields), state)?;
        let _ = std::fs::remove_dir_all(&aside);
        let lost = gaps.iter().map(|gap| gap.bytes).sum::<u64>();
        for gap in &gaps {
            warn!(forest, "does not read: {gap}");
        }
        warn!(
            forest,
            gaps = gaps.len(),
            bytes = lost,
            nodes,
            "the forest goes on with what reads, and with what the index has; the old files are beside it, in a \
             directory that begins with UNREADABLE"
        );
        Ok(())
    }

    fn put_in_its_place<F: MethodKind>(
        &self,
        aside: &Path,
        (identity, fields): (&ForestIdentity, &FieldRecord),
        state: ForestState<F>,
    ) -> Result<(), StoreError> {
        let forest = identity.forest();
        let aside = DataDir::lock(aside)?;
        let local = LocalForest::<F>::with_state(forest, state, std::sync::Arc::new(Inline));
        write_whole(&aside, identity, fields, &*local.copied()).map_err(|error| match error {
            SaveError::Store(error) => error,
            error => StoreError::NotSalvaged { forest: forest.to_owned(), reason: error.to_string() },
        })?;
        aside.mark(forest)?;
        self.data_dir.set_aside(forest)?;
        self.data_dir.adopt(&aside, forest)
    }
}

/// Lists the unreadable ranges of a stored forest, one line each.
pub(super) fn listed(gaps: &[UnreadableRange]) -> Vec<String> {
    gaps.iter().map(UnreadableRange::to_string).collect()
}
