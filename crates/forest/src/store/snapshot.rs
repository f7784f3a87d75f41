//! Writes a snapshot while the journal grows. `docs/internals/store.md` explains why it can be read in portions.

use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use tracing::warn;

use super::Lsn;
use super::directory::FileName;
use super::error::{SnapshotError, StoreFailure};
use super::files::File;
use super::format::{BlockHead, END_SECTION, FileKind, LONGEST, SECTIONS, SnapshotEnd, file_name_of};
use super::queue::{Job, SNAPSHOT_AFTER, StoreShared};

/// Bytes that are written at once.
const AT_ONCE: usize = 1 << 20;
/// Bytes after which the file is synced: a sync of all of it would keep those of the journal waiting.
const SYNCED_AT_ONCE: usize = 32 << 20;

type SnapshotDone = mpsc::Receiver<Result<(), Arc<io::Error>>>;

/// A snapshot that is being written. It counts when [`finish`](SnapshotWriter::finish) has answered; one that is
/// dropped leaves nothing.
pub struct SnapshotWriter {
    shared: Arc<StoreShared>,
    start: Lsn,
    /// Where the journal was when it began, in bytes.
    begins: u64,
    begun: SnapshotDone,
    file: Option<Box<dyn File>>,
    path: PathBuf,
    salt: u64,
    buffer: Vec<u8>,
    blocks: u64,
    len: u64,
    unsynced: usize,
    installed: bool,
}

/// A complete snapshot that takes effect once it is synced.
pub struct Sealed {
    end: Lsn,
    synced: SnapshotDone,
}

impl SnapshotWriter {
    pub(super) fn begin(shared: &Arc<StoreShared>) -> Result<SnapshotWriter, SnapshotError> {
        let (done, begun) = mpsc::channel();
        let mut queue = shared.queue();
        if let Some(failure) = &queue.failure {
            return Err(failure.clone().into());
        }
        if mem::replace(&mut queue.snapshot.running, true) {
            return Err(SnapshotError::Running);
        }
        queue.push(Job::NewSegment(done));
        let (start, begins) = (queue.next, queue.journal);
        drop(queue);
        shared.wake_writer();
        let directory = &shared.directory;
        let header = directory.header(FileKind::Snapshot, start, shared.identity);
        // From here on it is taken back when this is dropped.
        let mut writer = SnapshotWriter {
            shared: shared.clone(),
            start,
            begins,
            begun,
            file: None,
            path: directory.unfinished(&file_name_of::snapshot(start)),
            salt: header.salt,
            buffer: header.encode(),
            blocks: 0,
            len: 0,
            unsynced: 0,
            installed: false,
        };
        let file = directory.files.create(&writer.path);
        writer.file = Some(file.map_err(SnapshotError::io("make", &writer.path))?);
        Ok(writer)
    }

    /// The first batch that is replayed over it.
    pub fn start(&self) -> Lsn {
        self.start
    }

    /// Adds a block, at most 2^30 bytes of a section below 16. They are read back in this order. Blocks of some
    /// hundred kilobytes are best: each is in memory as a whole when it is read.
    ///
    /// # Errors
    /// [`SnapshotError::Io`], [`SnapshotError::Block`], and [`SnapshotError::Failed`] when the journal has stopped. The
    /// snapshot cannot be finished then.
    pub fn write(&mut self, section: u8, bytes: &[u8]) -> Result<(), SnapshotError> {
        if section >= SECTIONS || bytes.len() > LONGEST {
            let bytes = bytes.len();
            return Err(SnapshotError::Block { section, bytes });
        }
        if let Some(failure) = self.shared.queue().failure.clone() {
            return Err(failure.into());
        }
        self.put(section, bytes)?;
        self.blocks += 1;
        Ok(())
    }

    /// Completes the snapshot, after which the older journal is removed. Waits until every batch appended so far is
    /// synced, so the caller must not hold a lock that appending needs.
    ///
    /// # Errors
    /// [`SnapshotError::Io`], [`SnapshotError::Failed`]. Stored data is unchanged.
    pub fn finish(mut self) -> Result<(), SnapshotError> {
        let sealed = self.seal();
        self.install(&sealed)
    }

    /// Has the journal synced as far as the snapshot may have seen it.
    pub fn seal(&mut self) -> Sealed {
        let (done, synced) = mpsc::channel();
        let mut queue = self.shared.queue();
        if queue.failure.is_none() {
            queue.push(Job::Sync(done));
        }
        let end = queue.last();
        drop(queue);
        self.shared.wake_writer();
        Sealed { end, synced }
    }

    /// Waits for that, and installs the snapshot.
    ///
    /// # Errors
    /// As [`finish`](SnapshotWriter::finish).
    pub fn install(mut self, sealed: &Sealed) -> Result<(), SnapshotError> {
        let segment = file_name_of::journal(self.start);
        self.wait_for(&self.begun, "begin", &segment)?;
        self.wait_for(&sealed.synced, "sync", &segment)?;
        let end = SnapshotEnd { blocks: self.blocks, end: sealed.end };
        self.put(END_SECTION, &end.encode())?;
        self.flush()?;
        self.sync()?;
        self.file = None;
        let name = file_name_of::snapshot(self.start);
        let directory = &self.shared.directory;
        let committed = directory.commit(&name);
        committed.map_err(SnapshotError::io("install", &directory.file(&name)))?;
        let mut queue = self.shared.queue();
        queue.snapshot.begins = self.begins;
        queue.snapshot.len = self.len;
        queue.snapshot.not_before = 0;
        drop(queue);
        self.installed = true;
        self.remove_older();
        Ok(())
    }

    fn wait_for(&self, done: &SnapshotDone, what: &'static str, name: &str) -> Result<(), SnapshotError> {
        match done.recv() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(cause)) => Err(SnapshotError::Io { what, path: self.shared.directory.file(name), cause }),
            Err(mpsc::RecvError) => {
                let failure = self.shared.queue().failure.clone();
                Err(failure.unwrap_or(StoreFailure::Panicked).into())
            }
        }
    }

    fn put(&mut self, section: u8, bytes: &[u8]) -> Result<(), SnapshotError> {
        let seed = self.salt.wrapping_add(self.blocks);
        BlockHead::encode(&mut self.buffer, seed, section, bytes);
        if self.buffer.len() < AT_ONCE {
            return Ok(());
        }
        self.flush()?;
        if self.unsynced < SYNCED_AT_ONCE {
            return Ok(());
        }
        self.sync()
    }

    fn flush(&mut self) -> Result<(), SnapshotError> {
        if let Some(file) = &mut self.file {
            let written = file.append(&self.buffer);
            written.map_err(SnapshotError::io("write", &self.path))?;
        }
        self.len += self.buffer.len() as u64;
        self.unsynced += self.buffer.len();
        self.buffer.clear();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), SnapshotError> {
        self.unsynced = 0;
        match &mut self.file {
            Some(file) => file.sync().map_err(SnapshotError::io("sync", &self.path)),
            None => Ok(()),
        }
    }

    /// Files that remain are removed at the next start.
    fn remove_older(&self) {
        let directory = &self.shared.directory;
        let names = directory.files.list(&directory.path);
        let is_older = |name: &String| match FileName::of(name) {
            FileName::Snapshot(lsn) | FileName::Segment(lsn) => lsn < self.start,
            FileName::Identity | FileName::Fields | FileName::Unfinished | FileName::Unknown => false,
        };
        for name in names.unwrap_or_default().into_iter().filter(is_older) {
            if let Err(error) = directory.files.remove(&directory.file(&name)) {
                warn!(%error, file = name, "an old file could not be removed");
            }
        }
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // If it stays, the next start removes it.
            let _ = self.shared.directory.files.remove(&self.path);
        }
        // Not before: the next one may have the same name.
        let mut queue = self.shared.queue();
        queue.snapshot.running = false;
        if !self.installed {
            queue.snapshot.not_before = queue.journal + SNAPSHOT_AFTER;
        }
    }
}

impl std::fmt::Debug for SnapshotWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("SnapshotWriter");
        shown.field("start", &self.start).field("blocks", &self.blocks);
        shown.field("bytes", &self.len).finish_non_exhaustive()
    }
}
