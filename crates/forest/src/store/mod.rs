//! Durable storage: for each forest a journal of changes and, from time to time, a snapshot. `docs/internals/store.md`
//! specifies the protocol and the state after each crash, `format.rs` the bytes.
//!
//! ```text
//!              append(batch) -> lsn                    begin_snapshot
//! forest ------------+------------------------------------+
//!                    v                                    v
//!              queue.rs, in memory                  snapshot.rs -------> snapshot-<lsn>
//!                    |                                    | waits until the journal is synced so far
//!                    v                                    |
//!              writer.rs, a thread: write, sync ----------+-----------> journal-<lsn>
//!                    |
//!                    +--> durable(lsn) answers
//! ```
//!
//! Records are opaque bytes: this module knows files and checksums, not forests. Each store owns one thread, and only
//! that thread reads a clock. Usage: [`DataDir::lock`], [`Store::open`], [`Replay::next`] to the end,
//! [`Replay::into_store`].

mod directory;
#[cfg(any(test, feature = "simulation"))]
pub mod disk;
mod error;
mod fields;
mod files;
mod format;
mod gap;
mod identity;
mod queue;
mod reader;
mod record_file;
mod replay;
mod search;
mod snapshot;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

pub use directory::DataDir;
pub use error::{Difference, SnapshotError, StoreError, StoreFailure};
pub use files::{File, Files, SystemFiles};
pub use gap::UnreadableRange;
pub use identity::ForestIdentity;
pub use queue::OnWork;
pub use replay::{Replay, ReplayProgress, StoredRecord, TornEnd};
pub use snapshot::{Sealed, SnapshotWriter};
pub use writer::JournalWriter;

use queue::StoreShared;

/// The number of a batch in the journal of one forest (log sequence number); the first is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// That of the first batch.
    pub const FIRST: Lsn = Lsn(1);

    fn next(self) -> Lsn {
        Lsn(self.0.saturating_add(1))
    }

    fn before(self) -> Lsn {
        Lsn(self.0.saturating_sub(1))
    }
}

/// 16 lower-case hex digits.
impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// When a batch counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When it is on the disk. All batches that wait are synced together.
    Batch,
    /// Durable once written to the operating system, and synced at this interval: a power loss loses at most that much,
    /// and the running sync; a kill -9 nothing.
    Interval(Duration),
    /// At once. It is written when 256 KiB have gathered or a second has passed, which a kill -9 loses. It is synced
    /// with a new segment and at the end; a power loss loses what the system has not put on the disk before.
    None,
}

/// How a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The last batch that was appended.
    pub appended: Lsn,
    /// The last one that is durable.
    pub durable: Lsn,
    /// Bytes queued for the disk.
    pub queued: u64,
    /// Bytes of journal since the last snapshot, which a start has to replay.
    pub journal: u64,
    /// Bytes of the last snapshot; 0 if there is none.
    pub snapshot: u64,
}

/// A stored forest in use. Dropping it writes and syncs the queue, and waits for it.
pub struct Store {
    shared: Arc<StoreShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens the stored forest of this identity, or creates an empty one. The replay has to be read to its end before
    /// it becomes the store.
    ///
    /// # Errors
    /// [`StoreError`]: already open, other settings, or a missing or damaged file.
    pub fn open(data_dir: &DataDir, identity: &ForestIdentity, durability: Durability) -> Result<Replay, StoreError> {
        Replay::open(data_dir, identity, durability, false)
    }

    /// Opens the stored forest for salvage: unreadable ranges are skipped and listed by [`Replay::gaps`]. Changes
    /// nothing and does not become a store.
    ///
    /// # Errors
    /// As [`open`](Store::open), except for missing and unreadable files.
    pub fn salvage(data_dir: &DataDir, identity: &ForestIdentity) -> Result<Replay, StoreError> {
        Replay::open(data_dir, identity, Durability::None, true)
    }

    /// Appends a batch of at most 2^30 bytes to the journal without waiting. Call [`Store::wait_for_room`] before
    /// taking the lock that orders changes and batches. After a failure the batch is dropped, as [`Store::durable`]
    /// reports.
    pub fn append(&self, payload: Vec<u8>) -> Lsn {
        self.shared.append(payload)
    }

    /// Stops the store in place of a batch that could not be read back. Earlier batches are written; this and later
    /// ones never become durable. Returns the number the batch would have had.
    pub fn refuse(&self, reason: &str) -> Lsn {
        self.shared.refuse(reason)
    }

    /// Completes when the batch and all before it are durable.
    ///
    /// # Errors
    /// Why the store has failed, if it did before that.
    pub fn durable(&self, lsn: Lsn) -> impl Future<Output = Result<(), StoreFailure>> + Send + use<> {
        let answer = self.shared.durable(lsn);
        // The sender answers before it is dropped, as long as the store lives.
        async move { answer.await.unwrap_or(Err(StoreFailure::Closed)) }
    }

    /// Whether less than 64 MiB are queued. Appending without asking exceeds that bound.
    pub fn has_room(&self) -> bool {
        self.shared.has_room()
    }

    /// Waits until [`Store::has_room`]; not for a thread that serves connections, and not with a lock.
    ///
    /// # Errors
    /// Why the store has failed.
    pub fn wait_for_room(&self) -> Result<(), StoreFailure> {
        self.shared.wait_for_room()
    }

    /// Why the store has stopped for good, if it has.
    pub fn failure(&self) -> Option<StoreFailure> {
        self.shared.queue().failure()
    }

    /// Whether a snapshot is worth while: the journal since the last one is longer than 64 MiB and than half of it. Not
    /// while one is being written; after one that failed, not before the journal has grown by 64 MiB.
    pub fn should_snapshot(&self) -> bool {
        let queue = self.shared.queue();
        queue.failure().is_none() && queue.snapshot.is_due(queue.journal)
    }

    /// Begins a snapshot. All changes whose batches were appended are in the state, which is then read portion by
    /// portion, each under the lock under which changes are made and appended; in between they go on.
    ///
    /// # Errors
    /// [`SnapshotError::Running`], [`SnapshotError::Failed`], [`SnapshotError::Io`].
    pub fn begin_snapshot(&self) -> Result<SnapshotWriter, SnapshotError> {
        SnapshotWriter::begin(&self.shared)
    }

    /// How it is.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Writes and syncs the queue and ends the store.
    ///
    /// # Errors
    /// Why the queue is not completely on the disk.
    pub fn close(&self) -> Result<(), StoreFailure> {
        self.stop();
        match self.failure() {
            None | Some(StoreFailure::Closed) => Ok(()),
            Some(failure) => Err(failure),
        }
    }

    fn stop(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            self.shared.stop();
            // A panic of the writer has been reported to all waiters.
            let _ = thread.join();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Store");
        shown.field("directory", &self.shared.directory.path);
        shown.field("status", &self.status()).finish()
    }
}
