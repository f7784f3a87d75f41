//! The journal writer as steps without a clock.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use tracing::{error, warn};

use super::directory::Directory;
use super::error::StoreFailure;
use super::files::File;
use super::format::{BatchHead, FileKind, Header, LONGEST, file_name_of};
use super::queue::{DurablePosition, Job, NextWork, StoreShared, Timers};
use super::{Durability, Lsn};

/// Largest buffer that is reused.
const BUFFER: usize = 16 << 20;

const SYNC: &str = "sync";

/// The segment that grows.
pub(super) struct Segment {
    file: Box<dyn File>,
    first: Lsn,
    salt: u64,
    /// Bytes that were written, and those of them that are on the disk.
    len: u64,
    synced_len: u64,
    reached: DurablePosition,
    /// Batches that are not written yet, and the lsn of the next one.
    buffer: Vec<u8>,
    next: Lsn,
}

impl Segment {
    /// A synced segment, to which the next batch is appended.
    pub(super) fn new(file: Box<dyn File>, (first, next): (Lsn, Lsn), salt: u64, len: u64) -> Segment {
        let last = next.before();
        Segment {
            file,
            first,
            salt,
            len,
            synced_len: len,
            reached: DurablePosition { written: last, synced: last },
            buffer: Vec::new(),
            next,
        }
    }

    /// Begins a segment under the name for unfinished files.
    pub(super) fn begin(directory: &Directory, identity: u64, first: Lsn) -> io::Result<Segment> {
        let header = directory.header(FileKind::Segment, first, identity);
        let name = file_name_of::journal(first);
        let file = directory.write_unfinished(&name, &header.encode())?;
        let len = Header::LEN as u64;
        Ok(Segment::new(file, (first, first), header.salt, len))
    }

    fn put(&mut self, payload: &[u8]) {
        let (lsn, synced) = (self.next, self.reached.synced);
        BatchHead::encode(&mut self.buffer, self.salt, lsn, synced, payload);
        self.next = lsn.next();
    }

    fn write(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.append(&self.buffer)?;
        self.len += self.buffer.len() as u64;
        self.reached.written = self.next.before();
        self.buffer.clear();
        if self.buffer.capacity() > BUFFER {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.synced_len < self.len {
            self.file.sync()?;
            self.synced_len = self.len;
            self.reached.synced = self.reached.written;
        }
        Ok(())
    }
}

/// Writes queued batches.
pub struct JournalWriter {
    shared: Arc<StoreShared>,
    segment: Segment,
    timers: Timers,
}

impl JournalWriter {
    pub(super) fn new(shared: Arc<StoreShared>, segment: Segment) -> JournalWriter {
        JournalWriter { shared, segment, timers: Timers::default() }
    }

    /// Writes until the store stops or fails.
    pub(super) fn run(mut self) {
        let _guard = PanicGuard(&self.shared.clone());
        loop {
            let work = self.shared.wait_for_work(&mut self.timers);
            let last = work.last;
            if self.step(work, Instant::now()).is_err() || last {
                self.shared.fail(StoreFailure::Closed);
                return;
            }
        }
    }

    /// Does the work due at this time. Returns whether there was any.
    pub fn step_at(&mut self, now: Instant) -> bool {
        let work = self.shared.work_at(&mut self.timers, now);
        work.is_some_and(|work| self.step(work, now).is_ok())
    }

    fn step(&mut self, work: NextWork, now: Instant) -> Result<(), StoreFailure> {
        self.work(work, now)?;
        self.shared.publish(self.segment.reached);
        Ok(())
    }

    fn work(&mut self, work: NextWork, now: Instant) -> Result<(), StoreFailure> {
        let mut waiters = Vec::new();
        for job in work.jobs {
            match job {
                Job::Batch(payload) if payload.len() > LONGEST => {
                    // All before it is as good as any.
                    self.write()?;
                    self.sync()?;
                    let bytes = payload.len();
                    return Err(self.give_up(StoreFailure::TooLarge { bytes }));
                }
                Job::Refused(failure) => {
                    self.write()?;
                    self.sync()?;
                    return Err(self.give_up(failure));
                }
                Job::Batch(payload) => self.segment.put(&payload),
                Job::NewSegment(done) => {
                    self.write()?;
                    self.sync()?;
                    let begun = self.begin_segment()?;
                    let _ = done.send(begun.map_err(Arc::new));
                }
                Job::Sync(done) => waiters.push(done),
            }
        }
        self.write()?;
        if work.sync || !waiters.is_empty() || self.shared.durability == Durability::Batch {
            self.sync()?;
        }
        for done in waiters {
            // A waiter that has gone needs no answer.
            let _ = done.send(Ok(()));
        }
        if let Durability::Interval(interval) = self.shared.durability
            && self.segment.synced_len < self.segment.len
        {
            self.timers.sync.get_or_insert(now + interval);
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), StoreFailure> {
        let written = self.segment.write();
        written.map_err(|error| self.failed("write", self.segment.first, error))
    }

    fn sync(&mut self) -> Result<(), StoreFailure> {
        self.timers.sync = None;
        let synced = self.segment.sync();
        synced.map_err(|error| self.failed(SYNC, self.segment.first, error))
    }

    fn failed(&mut self, what: &'static str, segment: Lsn, error: io::Error) -> StoreFailure {
        let path = self.shared.directory.file(&file_name_of::journal(segment));
        let cause = Arc::new(error);
        if what == SYNC {
            // After a failed sync the page cache may show bytes that the disk does not have.
            self.segment.len = self.segment.synced_len;
        }
        self.give_up(StoreFailure::Io { what, path, cause })
    }

    /// Stops for good. Before anybody sees that a job is not done, everybody can see why.
    fn give_up(&mut self, failure: StoreFailure) -> StoreFailure {
        self.shared.publish(self.segment.reached);
        // A partial write may be in the file.
        if let Err(error) = self.segment.file.cut(self.segment.len) {
            warn!(%error, "the journal's end could not be cut off: the next start will do it");
        }
        error!(directory = %self.shared.directory.path.display(), "{failure}");
        self.shared.fail(failure.clone());
        failure
    }

    /// Begins a new segment with the next batch. After an inner error the old segment is continued.
    fn begin_segment(&mut self) -> Result<io::Result<()>, StoreFailure> {
        let first = self.segment.next;
        if first == self.segment.first {
            return Ok(Ok(()));
        }
        let directory = &self.shared.directory;
        let name = file_name_of::journal(first);
        let mut begun = match Segment::begin(directory, self.shared.identity, first) {
            Ok(begun) => begun,
            Err(error) => {
                // If it stays, the next start removes it.
                let _ = directory.files.remove(&directory.unfinished(&name));
                return Ok(Err(error));
            }
        };
        let committed = directory.commit(&name);
        committed.map_err(|error| self.failed("begin", first, error))?;
        begun.buffer = mem::take(&mut self.segment.buffer);
        self.segment = begun;
        Ok(Ok(()))
    }
}

/// Reports a panic of the writer to all waiters.
struct PanicGuard<'a>(&'a StoreShared);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(StoreFailure::Panicked);
        }
    }
}
