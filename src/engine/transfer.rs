//! Whole forests moved into a Redis that several processes share, and back.

use std::path::Path;
use std::sync::Arc;

use super::forests::{ForestEntry, Forests};
use super::{SaveError, Unavailable};
use crate::fingerprint::FingerprintVersion;
use crate::forest::local::Copied;
use crate::forest::shared::{SharedPort, TransferReport};
use crate::progress::ReportProgress;
use crate::store::StoreError;
use crate::text_fields::{FieldRecord, FieldsRefused};

/// Why forests were not transferred.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A forest is unavailable.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The directory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The forests were not stored.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// There is something already where they are to go.
    #[error(
        "the forest '{forest}' is in the forest store already, and would be mixed with this one: stop every spinney \
         that shares it, and give --replace to remove it first"
    )]
    Held {
        /// Its name.
        forest: String,
    },
    /// The directory has a forest of this name already.
    #[error("{dir} holds the forest '{forest}' already: move its folder away, or give another directory")]
    Stored {
        /// The directory.
        dir: String,
        /// The name of the forest.
        forest: String,
    },
    /// A transfer into it was ended before it was done.
    #[error("the forest '{forest}' {}", FieldsRefused::Unfinished)]
    Unfinished {
        /// Its name.
        forest: String,
    },
    /// There is nothing to carry.
    #[error("the forest store holds none of the forests of these routes ({wanted}): are the options those of serve?")]
    Nothing {
        /// Their names.
        wanted: String,
    },
}

impl Forests {
    /// Imports these stored forests into shared ones. `only`: their names; `replace`:
    /// removes existing ones first. Returns a report of each.
    ///
    /// # Errors
    /// [`TransferError::Held`] before anything was changed; or when a forest is not available.
    pub async fn import(
        &self,
        shared: &Forests,
        only: &[String],
        replace: bool,
        report: &Arc<ReportProgress<'static>>,
    ) -> Result<Vec<(String, TransferReport)>, TransferError> {
        let pairs = self.pairs(shared, only);
        for (entry, _, port) in &pairs {
            if !replace && !port.is_empty().await? {
                return Err(TransferError::Held { forest: entry.name.clone() });
            }
        }
        let mut all = Vec::new();
        for (entry, copied, port) in pairs {
            // Whatever stood there: the nodes are made as those of the directory were. Until all of them are there
            // nobody may use them, wherever this is ended.
            let fingerprints = entry.identity.fingerprints().unwrap_or(FingerprintVersion::CURRENT);
            port.declare(fingerprints, FieldRecord::unfinished()).await?;
            if replace {
                port.clear().await?;
            }
            let transferred = port.fill(copied.clone(), report.clone()).await?;
            port.declare(fingerprints, entry.fields.clone()).await?;
            all.push((entry.name.clone(), transferred));
        }
        Ok(all)
    }

    /// Exports shared forests into these empty ones, and stores them in a directory without them. Returns a report of
    /// each. Blocks while storing.
    ///
    /// # Errors
    /// [`TransferError::Stored`] before anything was read; or when a forest is not available, or cannot be stored.
    pub async fn export(
        &self,
        shared: &Forests,
        dir: &Path,
        report: &Arc<ReportProgress<'static>>,
    ) -> Result<Vec<(String, TransferReport)>, TransferError> {
        if let Some(forest) = self.stored_forests(dir)?.into_iter().next() {
            let dir = dir.display().to_string();
            return Err(TransferError::Stored { dir, forest });
        }
        let names: Vec<String> = self.entries.iter().map(|entry| entry.name.clone()).collect();
        let (mut all, mut begun) = (Vec::new(), Vec::new());
        for (entry, copied, port) in self.pairs(shared, &names) {
            let fields = port.fields().await?;
            if fields.is_unfinished() {
                return Err(TransferError::Unfinished { forest: entry.name.clone() });
            }
            begun.push((entry.name.clone(), port.fingerprints().await?, fields));
            let transferred = port.import(copied.clone(), report.clone()).await?;
            all.push((entry.name.clone(), transferred));
        }
        if all.iter().all(|(_, transferred)| transferred.nodes == 0) {
            return Err(TransferError::Nothing { wanted: names.join(", ") });
        }
        self.save_as(dir, |entry| {
            let identity = entry.identity.clone();
            match begun.iter().find(|(name, ..)| *name == entry.name) {
                Some((_, fingerprints, fields)) => (identity.with_fingerprints(*fingerprints), fields.clone()),
                None => (identity, entry.fields.clone()),
            }
        })?;
        Ok(all)
    }

    /// Pairs the forests of these names with those on the other side.
    fn pairs<'e>(&'e self, shared: &'e Forests, only: &[String]) -> Vec<Pair<'e>> {
        let entries = self.entries.iter().filter(|entry| only.contains(&entry.name));
        let pairs = entries.filter_map(|entry| {
            let there = shared.entries.iter().find(|there| there.name == entry.name)?;
            Some((entry, entry.copied.as_ref()?, there.shared.as_ref()?))
        });
        pairs.collect()
    }
}

/// A forest of this process, to be copied, and the shared one of the same name.
type Pair<'e> = (&'e ForestEntry, &'e Arc<dyn Copied>, &'e Arc<dyn SharedPort>);
