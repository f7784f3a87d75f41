//! Forests that survive the process: each has a store, which its changes go to, and from which it is put together
//! again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::EngineError;
use super::forests::{ForestEntry, Forests, SHORT_TEXTS};
use crate::config::{OnFailure, OnUnreadable, Storage};
use crate::forest::local::{Copied, Executor, ForestState, Journal, LocalForest};
use crate::forest::port::{PortHandle, Unavailable};
use crate::forest::{ForestError, Portions, Restoring, StoredStats, Unreadable};
use crate::method::MethodKind;
use crate::store::{
    DataDir, Durability, Files, ForestIdentity, Replay, ReplayProgress, SnapshotError, SnapshotWriter, Store,
    StoreError, StoredRecord, SystemFiles, UnreadableRange,
};
use crate::text_fields::{FieldRecord, RoutedFields};

/// Interval of the check whether a snapshot is due.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of progress messages.
const TELL: Duration = Duration::from_secs(2);
/// Bytes that are gathered to a block of a snapshot.
const BLOCK: usize = 1 << 20;

/// The directory of all forests of the process.
pub(super) struct Stores {
    pub(super) data_dir: DataDir,
    storage: Storage,
    /// Whether they are only read for a transfer.
    pub(super) are_carried: bool,
    pub(super) tasks: Arc<dyn StoreTasks>,
}

/// Runs the background tasks of stores.
pub trait StoreTasks: Send + Sync {
    /// Begins to write the journal of a store.
    ///
    /// # Errors
    /// As [`Replay::into_store`].
    fn begin(&self, replay: Replay) -> Result<Arc<Store>, StoreError>;

    /// Whether stored forests are read ahead on another thread.
    fn reads_ahead(&self) -> bool;

    /// Writes snapshots whenever one is due, until the forest is dropped.
    fn keep_snapshots(&self, forest: &str, store: Weak<Store>, copied: &Arc<dyn Copied>);
}

/// Runs each task on its own thread.
struct StoreThreads;

impl StoreTasks for StoreThreads {
    fn begin(&self, replay: Replay) -> Result<Arc<Store>, StoreError> {
        replay.into_store().map(Arc::new)
    }

    fn reads_ahead(&self) -> bool {
        true
    }

    fn keep_snapshots(&self, forest: &str, store: Weak<Store>, copied: &Arc<dyn Copied>) {
        keep_snapshots(forest, store, copied);
    }
}

impl Stores {
    /// # Errors
    /// When the directory cannot be made or is another process's.
    pub(super) fn lock(storage: &Storage) -> Result<Stores, StoreError> {
        Stores::lock_in(Arc::new(SystemFiles), storage, Arc::new(StoreThreads))
    }

    /// Marks them as read for a transfer only.
    pub(super) fn for_import(self) -> Stores {
        Stores { are_carried: true, ..self }
    }

    /// The same on other files, written by other tasks.
    ///
    /// # Errors
    /// As [`lock`](Stores::lock).
    pub(super) fn lock_in(
        files: Arc<dyn Files>,
        storage: &Storage,
        tasks: Arc<dyn StoreTasks>,
    ) -> Result<Stores, StoreError> {
        let data_dir = DataDir::lock_in(files, &storage.data_dir)?;
        Ok(Stores { data_dir, storage: storage.clone(), are_carried: false, tasks })
    }

    /// Opens a stored forest, or `empty` if there is none. Answers with its stored identity, whose fingerprints may be
    /// of an earlier version: then every start says so; and with the record of its fields, as
    /// [`record_fields`](Stores::record_fields) is to store it.
    ///
    /// # Errors
    /// When stored data has other settings, its texts were read from other fields, or it cannot be read.
    pub(super) fn open<F: MethodKind>(
        &self,
        (identity, fields): (&ForestIdentity, &RoutedFields),
        mut empty: impl FnMut() -> Result<ForestState<F>, ForestError>,
        seed: impl FnOnce(&mut F::Learned),
        executor: Arc<dyn Executor>,
    ) -> Result<(LocalForest<F>, ForestIdentity, FieldRecord), EngineError> {
        let name = identity.forest().to_owned();
        self.finish_salvage(&name)?;
        let recovers = self.storage.on_unreadable == OnUnreadable::Recover;
        let known = match self.data_dir.fields(&name) {
            Err(error @ StoreError::BrokenFields { .. }) if recovers => {
                warn!(forest = name, %error,
                    "the record begins anew: nothing tells whether its texts were read from the fields of now");
                FieldRecord::default()
            }
            known => known?,
        };
        let filled = fields.recorded_in(&known).map_err(StoreError::other_fields(self.data_dir.path(), &name));
        let begun = Instant::now();
        let tell = &|progress: ReplayProgress| {
            info!(
                forest = name,
                read_mb = progress.done / 1_000_000,
                of_mb = progress.total / 1_000_000,
                "reading the stored forest"
            );
        };
        let (replay, mut state) = match self.read_whole(identity, empty()?, tell) {
            Err(error) if recovers && error.is_unreadable() => {
                // Nothing is changed where nothing is opened in the end.
                if let Err(other) = filled {
                    return Err(other.into());
                }
                self.salvage::<F>((identity, &known), &error, tell)?;
                self.read_whole(identity, empty()?, tell)?
            }
            whole => whole?,
        };
        if let Some(torn) = replay.torn_end() {
            warn!(forest = name, file = %torn.file.display(), bytes = torn.bytes,
                "the journal ends in the middle of a batch, as a power failure leaves it: that end is cut off");
        }
        // Where there is no text any more, none reads otherwise.
        let filled = match state.forest().stats().nodes {
            0 => fields.recorded(),
            _ => filled?,
        };
        let stored = replay.identity().clone();
        if stored.fingerprints() != identity.fingerprints() {
            warn!(forest = name, directory = %replay.directory().display(),
                "the forest was begun by a version of spinney that reads some texts differently: a reprint of a \
                 document from before may found a tree of its own, until the window has passed over what was there. To \
                 rebuild it from the index, stop spinney, move this directory away, run spinney recover with the \
                 options of serve, and start spinney again");
        }
        seed(state.learned_mut());
        let total = replay.progress().total;
        let stats = state.forest().stats();
        info!(
            forest = name,
            nodes = stats.nodes,
            roots = stats.roots,
            bytes = total,
            seconds = begun.elapsed().as_secs_f32(),
            "the stored forest is read"
        );
        let store = self.tasks.begin(replay)?;
        let journal = StoreJournal { forest: name.clone(), store: store.clone(), on_failure: self.storage.on_failure };
        let local = LocalForest::with_journal(name.clone(), state, executor, Arc::new(journal));
        self.tasks.keep_snapshots(&name, Arc::downgrade(&store), &local.copied());
        Ok((local, stored, filled))
    }

    /// Stores which fields the texts of these forests are read from. Done last, so that a start that fails has asked
    /// for nothing.
    ///
    /// # Errors
    /// When a record cannot be written.
    pub(super) fn record_fields(&self, entries: &[ForestEntry]) -> Result<(), StoreError> {
        entries.iter().try_for_each(|entry| self.data_dir.record_fields(&entry.name, &entry.fields))
    }

    /// Forgets the settings of a forest that was never written to, nor that of its short texts: a start that was
    /// refused for another reason leaves such a one. Returns whether it did.
    fn forget_unwritten(&self, forest: &str) -> Result<bool, StoreError> {
        Ok(self.data_dir.is_unwritten(&format!("{forest}{SHORT_TEXTS}"))? && self.data_dir.forget_unwritten(forest)?)
    }

    fn read_whole<F: MethodKind>(
        &self,
        identity: &ForestIdentity,
        empty: ForestState<F>,
        report: impl Fn(ReplayProgress),
    ) -> Result<(Replay, ForestState<F>), StoreError> {
        let open = || Store::open(&self.data_dir, identity, self.storage.durability);
        let mut replay = match open() {
            Err(StoreError::OtherIdentity { .. }) if self.forget_unwritten(identity.forest())? => open()?,
            opened => opened?,
        };
        let (state, _) = read(&mut replay, empty, self.tasks.reads_ahead(), report)?;
        Ok((replay, state))
    }
}

/// Reads everything stored, or the readable part in salvage mode together with the gaps; `report` reports progress.
/// `ahead`: on a thread of its own, while records before are put together.
pub(super) fn read<F: MethodKind>(
    replay: &mut Replay,
    empty: ForestState<F>,
    ahead: bool,
    report: impl Fn(ReplayProgress),
) -> Result<(ForestState<F>, Vec<UnreadableRange>), StoreError> {
    let salvages = replay.salvages();
    let restoring = if salvages { Restoring::salvaging(empty) } else { Restoring::new(empty) };
    let restoring = restoring.of_bytes(replay.progress().total);
    let mut reading = Reading { restoring, salvages, gaps: Vec::new(), last: Instant::now(), report };
    let mut records = StoredRecords { path: replay.place().0.into(), replay, failed: None };
    match ahead {
        true => read_ahead(&mut records, |record| reading.take(&record))?,
        false => {
            while let Some(record) = records.next()? {
                reading.take(&record)?;
            }
        }
    }
    let Reading { restoring, mut gaps, .. } = reading;
    gaps.extend_from_slice(replay.gaps());
    Ok((restoring.finish(), gaps))
}

/// Bytes that are handed over together, and how many of these are read before they are needed.
const PARCEL: usize = 1 << 20;
const AHEAD: usize = 4;

/// Reads records ahead on another thread, and passes each to `take`.
fn read_ahead(
    records: &mut StoredRecords<'_>,
    mut take: impl FnMut(ReadRecord) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let path = records.path.clone();
    let (sender, parcels) = mpsc::sync_channel(AHEAD);
    std::thread::scope(|scope| {
        let read = move || {
            loop {
                let parcel = records.parcel();
                let is_last = parcel.as_ref().map_or(true, Vec::is_empty);
                // Without a receiver, a record was not taken.
                if sender.send(parcel).is_err() || is_last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("read forest".into());
        thread.spawn_scoped(scope, read).map_err(StoreError::io("read", &path))?;
        // Gone at the end, so that the thread does not wait for room.
        parcels.into_iter().try_for_each(|parcel| parcel?.into_iter().try_for_each(&mut take))
    })
}

/// An iterator over stored records.
struct StoredRecords<'r> {
    replay: &'r mut Replay,
    /// Of the record that was read last.
    path: Arc<Path>,
    /// The error that ended the iteration.
    failed: Option<StoreError>,
}

/// A record with the offset of its bytes.
struct ReadRecord {
    kind: RecordKind,
    bytes: Vec<u8>,
    path: Arc<Path>,
    begin: u64,
    progress: ReplayProgress,
}

enum RecordKind {
    Block { section: u8 },
    Batch { lsn: u64 },
}

impl StoredRecords<'_> {
    fn next(&mut self) -> Result<Option<ReadRecord>, StoreError> {
        let (kind, bytes) = match self.replay.next()? {
            None => return Ok(None),
            Some(StoredRecord::Block { section, bytes }) => (RecordKind::Block { section }, bytes.to_vec()),
            Some(StoredRecord::Batch { lsn, payload }) => (RecordKind::Batch { lsn: lsn.0 }, payload.to_vec()),
        };
        let (path, begin) = self.replay.place();
        if *path != *self.path {
            self.path = path.into();
        }
        Ok(Some(ReadRecord { kind, bytes, path: self.path.clone(), begin, progress: self.replay.progress() }))
    }

    /// Some records together; none at the end. What comes before an error is handed over before it.
    fn parcel(&mut self) -> Result<Vec<ReadRecord>, StoreError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let (mut parcel, mut bytes) = (Vec::new(), 0);
        while bytes < PARCEL {
            match self.next() {
                Ok(Some(record)) => {
                    bytes += record.bytes.len().max(size_of::<ReadRecord>());
                    parcel.push(record);
                }
                Err(error) if parcel.is_empty() => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
                Ok(None) => break,
            }
        }
        Ok(parcel)
    }
}

/// A state that is being restored from records.
struct Reading<F: MethodKind, R> {
    restoring: Restoring<F>,
    salvages: bool,
    gaps: Vec<UnreadableRange>,
    /// When progress was reported last.
    last: Instant,
    report: R,
}

impl<F: MethodKind, R: Fn(ReplayProgress)> Reading<F, R> {
    fn take(&mut self, record: &ReadRecord) -> Result<(), StoreError> {
        let taken = match record.kind {
            RecordKind::Block { section } => self.restoring.part(section, &record.bytes),
            RecordKind::Batch { lsn } => self.restoring.batch(lsn, &record.bytes),
        };
        if let Err(Unreadable { at, kind }) = taken {
            let (file, offset) = (record.path.to_path_buf(), record.begin + at as u64);
            if !self.salvages {
                return Err(StoreError::UnknownRecord { file, offset, kind });
            }
            // The next record of this block or batch cannot be located.
            self.gaps.push(UnreadableRange {
                file,
                offset,
                bytes: (record.bytes.len() - at) as u64,
                what: format!("from a record of kind {kind} on"),
            });
        }
        if self.last.elapsed() >= TELL {
            self.last = Instant::now();
            (self.report)(record.progress);
        }
        Ok(())
    }
}

/// The journal of one forest.
#[derive(Debug)]
struct StoreJournal {
    forest: String,
    store: Arc<Store>,
    on_failure: OnFailure,
}

impl StoreJournal {
    fn refused(&self, reason: &impl ToString) -> Unavailable {
        Unavailable::NotStored { forest: self.forest.clone(), reason: reason.to_string() }
    }
}

impl Journal for StoreJournal {
    fn append(&self, batch: Vec<u8>) -> u64 {
        self.store.append(batch).0
    }

    fn refuse(&self, reason: &str) -> u64 {
        self.store.refuse(reason).0
    }

    fn durable(&self, batch: u64) -> PortHandle<()> {
        let durable = self.store.durable(crate::store::Lsn(batch));
        let (forest, on_failure) = (self.forest.clone(), self.on_failure);
        PortHandle::of(async move {
            match (durable.await, on_failure) {
                (Err(failure), OnFailure::Refuse) => {
                    Err(Unavailable::NotStored { forest, reason: failure.to_string() })
                }
                _ => Ok(()),
            }
        })
    }

    fn has_room(&self) -> bool {
        self.store.has_room()
    }

    fn wait_for_room(&self) -> Result<(), Unavailable> {
        match (self.store.wait_for_room(), self.on_failure) {
            (Err(failure), OnFailure::Refuse) => Err(self.refused(&failure)),
            _ => Ok(()),
        }
    }

    fn failure(&self) -> Option<Unavailable> {
        let failure = self.store.failure()?;
        (self.on_failure == OnFailure::Refuse).then(|| self.refused(&failure))
    }

    fn status(&self) -> StoredStats {
        let status = self.store.status();
        StoredStats {
            waiting_batches: status.appended.0.saturating_sub(status.durable.0),
            waiting_bytes: status.queued,
            journal_bytes: status.journal,
            snapshot_bytes: status.snapshot,
            has_failed: self.store.failure().is_some(),
        }
    }

    fn close(&self) {
        if let Err(failure) = self.store.close() {
            warn!(forest = self.forest, %failure, "not all that came last is stored");
        }
    }
}

/// Why forests were not stored.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// A directory or a file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The forest cannot be encoded.
    #[error("the forest '{forest}' cannot be written: {reason}")]
    Snapshot {
        /// Its name.
        forest: String,
        /// Why.
        reason: String,
    },
    /// The process ends.
    #[error("spinney is stopping")]
    Stopped,
}

/// Directory for forests that are not complete yet. Names of forests have no upper case.
const UNFINISHED: &str = "RECOVERING";

impl Forests {
    /// Names of the forests in a directory, read-only.
    ///
    /// # Errors
    /// When the directory is in use, or cannot be read.
    pub fn stored_forests(&self, dir: &Path) -> Result<Vec<String>, StoreError> {
        let mut stored = Vec::new();
        if !dir.exists() {
            return Ok(stored);
        }
        let data_dir = DataDir::lock_to_read(dir)?;
        for entry in self.entries.iter() {
            if data_dir.holds(entry.identity.forest())? {
                stored.push(entry.name.clone());
            }
        }
        Ok(stored)
    }

    /// Stores the forests in a directory that does not hold them. Each is there whole or not at all, whatever happens
    /// meanwhile. Blocks.
    ///
    /// # Errors
    /// When the directory is another process's, or something cannot be written.
    pub fn save(&self, dir: &Path) -> Result<(), SaveError> {
        self.save_as(dir, |entry| (entry.identity.clone(), entry.fields.clone()))
    }

    /// As [`save`](Self::save), with other identities and field records.
    pub(super) fn save_as(
        &self,
        dir: &Path,
        identity_of: impl Fn(&ForestEntry) -> (ForestIdentity, FieldRecord),
    ) -> Result<(), SaveError> {
        let data_dir = DataDir::lock(dir)?;
        let aside = unfinished(dir);
        let _ = std::fs::remove_dir_all(&aside);
        let written = self.save_aside(&data_dir, &aside, identity_of);
        let _ = std::fs::remove_dir_all(&aside);
        written
    }

    fn save_aside(
        &self,
        data_dir: &DataDir,
        aside: &Path,
        identity_of: impl Fn(&ForestEntry) -> (ForestIdentity, FieldRecord),
    ) -> Result<(), SaveError> {
        let aside = DataDir::lock(aside)?;
        let mut new = Vec::new();
        for entry in self.entries.iter() {
            if !data_dir.holds(entry.identity.forest())? {
                new.push(entry);
            }
        }
        for entry in &new {
            if let Some(copied) = &entry.copied {
                let (identity, fields) = identity_of(entry);
                write_whole(&aside, &identity, &fields, &**copied)?;
            }
        }
        // The forest of short texts first, because the other one represents both.
        for entry in new.into_iter().rev() {
            data_dir.adopt(&aside, entry.identity.forest())?;
        }
        Ok(())
    }
}

/// Writes a forest to a directory that has nothing of it.
pub(super) fn write_whole(
    data_dir: &DataDir,
    identity: &ForestIdentity,
    fields: &FieldRecord,
    copied: &dyn Copied,
) -> Result<(), SaveError> {
    let failed = |reason: String| SaveError::Snapshot { forest: identity.forest().to_owned(), reason };
    let mut replay = Store::open(data_dir, identity, Durability::Batch)?;
    while replay.next()?.is_some() {}
    let store = replay.into_store()?;
    snapshot(&store, copied).map_err(|error| failed(error.to_string()))?;
    store.close().map_err(|error| failed(error.to_string()))?;
    Ok(data_dir.record_fields(identity.forest(), fields)?)
}

fn unfinished(dir: &Path) -> PathBuf {
    dir.join(UNFINISHED)
}

/// Writes due snapshots on its own thread until the forest is dropped.
fn keep_snapshots(forest: &str, store: Weak<Store>, copied: &Arc<dyn Copied>) {
    let name = forest.to_owned();
    let copied = Arc::downgrade(copied);
    let keep = move || {
        let mut failed = false;
        loop {
            std::thread::park_timeout(CHECK_INTERVAL);
            let (Some(store), Some(copied)) = (store.upgrade(), copied.upgrade()) else {
                return;
            };
            if let Some(failure) = store.failure() {
                if !std::mem::replace(&mut failed, true) {
                    warn!(forest = name, %failure, "what comes is stored no more");
                }
                continue;
            }
            if !store.should_snapshot() {
                continue;
            }
            let begun = Instant::now();
            match snapshot(&store, &*copied) {
                Ok(()) => info!(
                    forest = name,
                    bytes = store.status().snapshot,
                    seconds = begun.elapsed().as_secs_f32(),
                    "a snapshot was written"
                ),
                Err(error) => {
                    warn!(forest = name, %error, "no snapshot was written, the journal goes on");
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name(format!("snapshot {forest}"));
    if let Err(error) = thread.spawn(keep) {
        warn!(forest, %error, "no thread for snapshots: the journal will grow until the next start");
    }
}

/// Why no snapshot was made.
#[derive(Debug, thiserror::Error)]
pub enum NoSnapshot {
    /// The store's reason.
    #[error(transparent)]
    Store(#[from] SnapshotError),
    /// The forest is out of service.
    #[error(transparent)]
    Forest(#[from] Unavailable),
}

/// A snapshot that is being written, portion by portion.
pub struct SnapshotPass {
    writer: SnapshotWriter,
    portions: Portions,
    /// Portions of a small forest are tiny, so those of one section share a block.
    gathered: Vec<u8>,
    section: u8,
}

impl SnapshotPass {
    /// Begins with the first section.
    ///
    /// # Errors
    /// Those of the store and of the forest.
    pub fn begin(store: &Store, copied: &dyn Copied) -> Result<SnapshotPass, NoSnapshot> {
        // Time as it stood before the batches that will be read again.
        let (section, bytes) = copied.begin()?;
        let mut writer = store.begin_snapshot()?;
        writer.write(section, &bytes)?;
        Ok(SnapshotPass { writer, portions: Portions::default(), gathered: Vec::new(), section })
    }

    /// Writes the next portion; the complete snapshot when there is none, to be [finished](SnapshotWriter::finish).
    pub fn next(mut self, copied: &dyn Copied) -> Result<Result<SnapshotPass, SnapshotWriter>, NoSnapshot> {
        let portion = copied.next(&mut self.portions)?;
        let ends = portion
            .as_ref()
            .is_none_or(|(section, bytes)| *section != self.section || self.gathered.len() + bytes.len() > BLOCK);
        if ends && !self.gathered.is_empty() {
            self.writer.write(self.section, &self.gathered)?;
            self.gathered.clear();
        }
        let Some((section, bytes)) = portion else {
            return Ok(Err(self.writer));
        };
        self.section = section;
        self.gathered.extend_from_slice(&bytes);
        Ok(Ok(self))
    }
}

pub(super) fn snapshot(store: &Store, copied: &dyn Copied) -> Result<(), NoSnapshot> {
    let mut pass = SnapshotPass::begin(store, copied)?;
    loop {
        match pass.next(copied)? {
            Ok(next) => pass = next,
            Err(writer) => return Ok(writer.finish()?),
        }
    }
}
