//! Opens a directory and replays it: the snapshot, then the batches after it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use spinney_text::fingerprint::FingerprintVersion;
use tracing::warn;

use super::directory::{DataDir, Directory, FileName, IDENTITY};
use super::error::StoreError;
use super::format::{Header, file_name_of};
use super::gap::UnreadableRange;
use super::identity::ForestIdentity;
use super::queue::{OnWork, Queue, StoreShared};
use super::reader::{Next, SegmentReader, SnapshotReader};
use super::writer::{JournalWriter, Segment};
use super::{Durability, Lsn, Store};

/// A stored record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredRecord<'a> {
    /// Of the snapshot.
    Block {
        /// As passed to the [`SnapshotWriter`](super::SnapshotWriter).
        section: u8,
        /// The bytes as passed to the writer.
        bytes: &'a [u8],
    },
    /// Of the journal.
    Batch {
        /// As [`Store::append`] has answered.
        lsn: Lsn,
        /// As it was appended.
        payload: &'a [u8],
    },
}

/// How far the reading is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayProgress {
    /// Read.
    pub done: u64,
    /// To be read.
    pub total: u64,
}

/// The end of a journal that was being written when the power failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornEnd {
    /// The file.
    pub file: PathBuf,
    /// Where it is cut off, in bytes.
    pub offset: u64,
    /// Bytes that are cut off.
    pub bytes: u64,
}

/// Reads a stored forest from front to back: `while let Some(record) = replay.next()? { … }`. Holds one record in
/// memory and changes nothing before [`into_store`](Replay::into_store).
#[derive(Debug)]
pub struct Replay {
    directory: Directory,
    identity: u64,
    /// That of the identity file.
    stored: ForestIdentity,
    durability: Durability,
    /// Where the batches begin that are needed.
    start: Lsn,
    reading: Reading,
    /// Segments still to be read, by their first LSN.
    segments: VecDeque<Lsn>,
    /// The journal has to reach this.
    needed: Lsn,
    snapshot_len: u64,
    /// Bytes of files that were read to their end.
    done: u64,
    total: u64,
    leftovers: Vec<String>,
    torn: Option<TornEnd>,
    /// All is read.
    finished: bool,
    /// Whether unreadable ranges are skipped.
    salvages: bool,
    gaps: Vec<UnreadableRange>,
}

#[derive(Debug)]
enum Reading {
    Snapshot(SnapshotReader),
    Segment(SegmentReader),
    /// No file is left.
    Nothing,
}

impl Reading {
    fn offset(&self) -> u64 {
        match self {
            Reading::Snapshot(reader) => reader.offset(),
            Reading::Segment(reader) => reader.offset(),
            Reading::Nothing => 0,
        }
    }

    fn len(&self) -> u64 {
        match self {
            Reading::Snapshot(reader) => reader.len(),
            Reading::Segment(reader) => reader.len(),
            Reading::Nothing => 0,
        }
    }
}

/// Files found in a directory.
#[derive(Debug, Default)]
struct DirectoryContents {
    identity: bool,
    snapshots: Vec<Lsn>,
    segments: Vec<Lsn>,
    unfinished: Vec<String>,
}

impl DirectoryContents {
    fn in_directory(directory: &Directory) -> Result<DirectoryContents, StoreError> {
        let mut found = DirectoryContents::default();
        for name in directory.names()? {
            match FileName::of(&name) {
                FileName::Identity => found.identity = true,
                FileName::Snapshot(lsn) => found.snapshots.push(lsn),
                FileName::Segment(lsn) => found.segments.push(lsn),
                FileName::Unfinished => found.unfinished.push(name),
                FileName::Fields | FileName::Unknown => {}
            }
        }
        found.snapshots.sort_unstable();
        found.segments.sort_unstable();
        Ok(found)
    }

    /// The identity of the forest, and its checksum; that of an empty directory is written.
    fn identity_of(
        &mut self,
        directory: &Directory,
        wanted: &ForestIdentity,
    ) -> Result<(ForestIdentity, u64), StoreError> {
        if !self.identity {
            if self.has_data(directory)? {
                return Err(StoreError::MissingIdentity { dir: directory.path.clone() });
            }
            self.segments = vec![Lsn::FIRST];
            return Ok((wanted.clone(), make(directory, wanted)?));
        }
        let (stored, checksum) = directory.read_identity()?;
        if let Some(found) = stored.fingerprints().filter(|&found| found > FingerprintVersion::CURRENT) {
            return Err(StoreError::NewerFingerprints { dir: directory.path.clone(), found });
        }
        let differences = stored.differences(wanted);
        if !differences.is_empty() {
            return Err(StoreError::OtherIdentity { dir: directory.path.clone(), differences });
        }
        Ok((stored, checksum))
    }

    /// Files that a state which begins at `start` does not need.
    fn leftovers(&self, start: Lsn) -> Vec<String> {
        let older = |lsns: &[Lsn], name: fn(Lsn) -> String| {
            let older = lsns.iter().filter(|&&lsn| lsn < start);
            older.map(|&lsn| name(lsn)).collect::<Vec<_>>()
        };
        let mut leftovers = self.unfinished.clone();
        leftovers.extend(older(&self.snapshots, file_name_of::snapshot));
        leftovers.extend(older(&self.segments, file_name_of::journal));
        leftovers
    }

    /// Whether nothing was ever written to. A forest with an identity whose journal is missing or cut off was.
    fn is_unwritten(&self, directory: &Directory) -> Result<bool, StoreError> {
        if !self.identity {
            return Ok(!self.has_data(directory)?);
        }
        let is_begun = self.snapshots.is_empty() && self.segments == [Lsn::FIRST];
        Ok(is_begun && len_of(directory, &file_name_of::journal(Lsn::FIRST))? == Header::LEN as u64)
    }

    /// Whether a directory without an identity has any data.
    fn has_data(&self, directory: &Directory) -> Result<bool, StoreError> {
        if !self.snapshots.is_empty() || self.segments.len() > 1 {
            return Ok(true);
        }
        match self.segments.first() {
            None => Ok(false),
            // It was made before the identity.
            Some(&Lsn::FIRST) => {
                let len = len_of(directory, &file_name_of::journal(Lsn::FIRST))?;
                Ok(len > Header::LEN as u64)
            }
            Some(_) => Ok(true),
        }
    }
}

impl DataDir {
    /// Whether the directory has data of a forest. One that was made and never written to does not count.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn holds(&self, forest: &str) -> Result<bool, StoreError> {
        if !self.has_directory(forest)? {
            return Ok(false);
        }
        let directory = Directory::of(self, forest)?;
        DirectoryContents::in_directory(&directory)?.has_data(&directory)
    }

    /// Whether the directory has a forest that was never written to, or none.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn is_unwritten(&self, forest: &str) -> Result<bool, StoreError> {
        if !self.has_directory(forest)? {
            return Ok(true);
        }
        let directory = Directory::of(self, forest)?;
        DirectoryContents::in_directory(&directory)?.is_unwritten(&directory)
    }

    /// Forgets the settings of a forest that was never written to, so that it can be opened with others. Returns
    /// whether it is such a one.
    ///
    /// # Errors
    /// When the directory cannot be read or written.
    pub fn forget_unwritten(&self, forest: &str) -> Result<bool, StoreError> {
        let directory = Directory::of(self, forest)?;
        let found = DirectoryContents::in_directory(&directory)?;
        let is_such = found.identity && found.is_unwritten(&directory)?;
        if is_such {
            // Without it, whatever is left of making the forest counts as nothing.
            directory.remove(IDENTITY)?;
        }
        Ok(is_such)
    }
}

impl Replay {
    /// Opens the stored forest of this identity, or makes an empty one.
    pub(super) fn open(
        data_dir: &DataDir,
        wanted: &ForestIdentity,
        durability: Durability,
        salvages: bool,
    ) -> Result<Replay, StoreError> {
        let mut gaps = Vec::new();
        let directory = Directory::of(data_dir, wanted.forest())?;
        let mut found = DirectoryContents::in_directory(&directory)?;
        let (stored, identity) = found.identity_of(&directory, wanted)?;
        let mut start = found.snapshots.last().copied();
        let segments = match segments_from(start, &found.segments, &directory) {
            Err(error) if salvages => {
                gaps.push(UnreadableRange::of(error, 0, &directory));
                let from = start.unwrap_or(Lsn::FIRST);
                let segments = found.segments.iter().copied();
                segments.filter(|&lsn| lsn >= from).collect()
            }
            segments => segments?,
        };
        let snapshot = start.map(|lsn| {
            let name = file_name_of::snapshot(lsn);
            let (path, file) = (directory.file(&name), directory.open(&name)?);
            SnapshotReader::open(path, file, lsn, identity)
        });
        let snapshot = match snapshot.transpose() {
            Err(error) if salvages && error.is_unreadable() => {
                let len = start.and_then(|lsn| len_of(&directory, &file_name_of::snapshot(lsn)).ok());
                gaps.push(UnreadableRange::of(error, len.unwrap_or_default(), &directory));
                None
            }
            snapshot => snapshot?,
        };
        if salvages && snapshot.is_none() {
            start = segments.first().copied();
        }
        let snapshot_len = snapshot.as_ref().map_or(0, SnapshotReader::len);
        let mut total = snapshot_len;
        for &first in &segments {
            total += len_of(&directory, &file_name_of::journal(first))?;
        }
        let start = start.unwrap_or(Lsn::FIRST);
        let leftovers = found.leftovers(start);
        let mut segments = VecDeque::from(segments);
        let reading = match snapshot {
            Some(snapshot) => Reading::Snapshot(snapshot),
            None if salvages => Reading::Nothing,
            None => open_next(&directory, identity, &mut segments, start)?,
        };
        let opens = matches!(reading, Reading::Nothing);
        let mut replay = Replay {
            directory,
            identity,
            stored,
            durability,
            start,
            reading,
            segments,
            needed: Lsn::FIRST.before(),
            snapshot_len,
            done: 0,
            total,
            leftovers,
            torn: None,
            finished: false,
            salvages,
            gaps,
        };
        if opens {
            replay.open_next(start)?;
        }
        Ok(replay)
    }

    /// Returns the next record, or `None` at the end: blocks of the snapshot, then batches. The last record of a key
    /// wins, so the state is complete only at the end.
    ///
    /// # Errors
    /// [`StoreError`] for missing or damaged data; everything read before is to be discarded.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend what it reads")]
    pub fn next(&mut self) -> Result<Option<StoredRecord<'_>>, StoreError> {
        if !self.advance()? {
            return Ok(None);
        }
        Ok(match &self.reading {
            Reading::Snapshot(reader) => {
                let block = reader.block();
                block.map(|(section, bytes)| StoredRecord::Block { section, bytes })
            }
            Reading::Segment(reader) => {
                let batch = reader.batch();
                batch.map(|(lsn, payload)| StoredRecord::Batch { lsn, payload })
            }
            Reading::Nothing => None,
        })
    }

    /// The file of the last record, and the offset of its bytes.
    pub fn place(&self) -> (&Path, u64) {
        match &self.reading {
            Reading::Snapshot(reader) => (reader.path(), reader.begin()),
            Reading::Segment(reader) => (reader.path(), reader.begin()),
            Reading::Nothing => (&self.directory.path, 0),
        }
    }

    /// The directory of the forest.
    pub fn directory(&self) -> &Path {
        &self.directory.path
    }

    /// The identity that is stored there. Its fingerprints may be of an earlier version than those that were wanted.
    pub fn identity(&self) -> &ForestIdentity {
        &self.stored
    }

    /// Whether unreadable ranges are skipped.
    pub fn salvages(&self) -> bool {
        self.salvages
    }

    /// Unreadable ranges skipped so far.
    pub fn gaps(&self) -> &[UnreadableRange] {
        &self.gaps
    }

    /// Reads a record, if there is one more.
    fn advance(&mut self) -> Result<bool, StoreError> {
        while !self.finished {
            match &mut self.reading {
                Reading::Snapshot(reader) => {
                    let read = reader.advance();
                    let end = match read {
                        Err(error) if self.salvages && error.is_unreadable() => {
                            self.pass_over(error)?;
                            continue;
                        }
                        read => read?,
                    };
                    let Some(end) = end else {
                        return Ok(true);
                    };
                    self.needed = end.end;
                    self.open_next(self.start)?;
                }
                Reading::Nothing => self.end()?,
                Reading::Segment(reader) => match reader.advance() {
                    Err(error) if self.salvages && error.is_unreadable() => {
                        self.pass_over(error)?;
                    }
                    Err(error) => return Err(error),
                    Ok(next) => match next {
                        Next::Batch => return Ok(true),
                        Next::Torn if self.salvages && (!self.segments.is_empty() || reader.is_vouched_for()?) => {
                            let error = reader.damaged("a batch that does not read");
                            self.pass_over(error)?;
                        }
                        Next::Torn if !self.segments.is_empty() => {
                            return Err(reader.damaged("a batch that does not read"));
                        }
                        Next::Torn if reader.is_vouched_for()? => {
                            return Err(reader.damaged("a batch that does not read, before valid ones"));
                        }
                        Next::End if let Some(&first) = self.segments.front() => {
                            let expected = reader.expected();
                            if first < expected && !self.salvages {
                                return Err(reader.damaged("batches that the next file has too"));
                            }
                            self.open_next(expected)?;
                        }
                        Next::Torn | Next::End => self.end()?,
                    },
                },
            }
        }
        Ok(false)
    }

    /// Records an unreadable range, and continues after it.
    fn pass_over(&mut self, error: StoreError) -> Result<(), StoreError> {
        let from = self.reading.offset();
        match &mut self.reading {
            Reading::Snapshot(reader) => {
                let goes_on = reader.resync()?;
                let bytes = reader.offset() - from;
                self.gaps.push(UnreadableRange::of(error, bytes, &self.directory));
                if !goes_on {
                    self.open_next(self.start)?;
                }
            }
            Reading::Segment(reader) => {
                reader.resync()?;
                let bytes = reader.offset() - from;
                self.gaps.push(UnreadableRange::of(error, bytes, &self.directory));
            }
            Reading::Nothing => {}
        }
        Ok(())
    }

    /// Goes on with the next segment, which has to begin with this batch.
    fn open_next(&mut self, expected: Lsn) -> Result<(), StoreError> {
        self.done += self.reading.len();
        if !self.salvages {
            self.reading = open_next(&self.directory, self.identity, &mut self.segments, expected)?;
            return Ok(());
        }
        let mut expected = expected;
        self.reading = Reading::Nothing;
        while let Some(&first) = self.segments.front() {
            if first != expected {
                let error = missing_segment(&self.directory, expected);
                self.gaps.push(UnreadableRange::of(error, 0, &self.directory));
            }
            match open_next(&self.directory, self.identity, &mut self.segments, first) {
                Ok(reading) => {
                    self.reading = reading;
                    return Ok(());
                }
                Err(error) if error.is_unreadable() => {
                    let len = len_of(&self.directory, &file_name_of::journal(first))?;
                    self.done += len;
                    self.gaps.push(UnreadableRange::of(error, len, &self.directory));
                    // The number of batches in an unreadable segment is unknown.
                    expected = self.segments.front().copied().unwrap_or(first);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Checks that nothing readable follows the last batch.
    fn end(&mut self) -> Result<(), StoreError> {
        let Reading::Segment(reader) = &self.reading else {
            self.finished = true;
            return Ok(());
        };
        let (needed, reached) = (self.needed, reader.expected().before());
        if reached < needed {
            let error = StoreError::ShortJournal { dir: self.directory.path.clone(), reached, needed };
            if !self.salvages {
                return Err(error);
            }
            self.gaps.push(UnreadableRange::of(error, 0, &self.directory));
        }
        let (offset, len) = (reader.offset(), reader.len());
        self.torn = (offset < len).then(|| TornEnd {
            file: self.directory.file(&file_name_of::journal(reader.first())),
            offset,
            bytes: len - offset,
        });
        self.finished = true;
        Ok(())
    }

    /// How much is read.
    pub fn progress(&self) -> ReplayProgress {
        ReplayProgress { done: self.done + self.reading.offset(), total: self.total }
    }

    /// The torn end of the journal, if there is one; known when all was read.
    pub fn torn_end(&self) -> Option<&TornEnd> {
        self.torn.as_ref()
    }

    /// Turns the replay into the store. Cuts off a torn end and removes obsolete files.
    ///
    /// # Errors
    /// [`StoreError::NotReplayed`] before the end, [`StoreError::Io`].
    pub fn into_store(self) -> Result<Store, StoreError> {
        let path = self.directory.path.clone();
        let (mut store, writer) = self.into_parts(None)?;
        let thread = std::thread::Builder::new().name("store".into());
        let thread = thread.spawn(|| writer.run());
        let thread = thread.map_err(StoreError::io("start the thread that writes to", &path))?;
        store.thread = Mutex::new(Some(thread));
        Ok(store)
    }

    /// Returns the store and its writer, which no thread runs: `on_work` is called when it has something to do, and
    /// [`JournalWriter::step_at`] does it.
    ///
    /// # Errors
    /// As [`into_store`](Replay::into_store).
    pub fn into_parts(self, on_work: Option<OnWork>) -> Result<(Store, JournalWriter), StoreError> {
        let Reading::Segment(reader) = self.reading else {
            return Err(StoreError::NotReplayed);
        };
        // A salvaged forest is written anew, not continued.
        if !self.finished || self.salvages {
            return Err(StoreError::NotReplayed);
        }
        let (first, next, salt) = (reader.first(), reader.expected(), reader.salt());
        let path = self.directory.file(&file_name_of::journal(first));
        let len = reader.offset();
        let mut file = reader.into_file();
        if let Some(torn) = &self.torn {
            warn!(
                file = %torn.file.display(), offset = torn.offset, bytes = torn.bytes,
                "the journal ends with what was being written when spinney or the machine stopped: it is cut off"
            );
            file.cut(len).map_err(StoreError::io("cut", &path))?;
        }
        // The process that wrote it may have been killed before the sync.
        file.sync().map_err(StoreError::io("sync", &path))?;
        self.directory.sync()?;
        for name in &self.leftovers {
            if let Err(error) = self.directory.files.remove(&self.directory.file(name)) {
                warn!(%error, file = name, "a file that is left over could not be removed");
            }
        }
        let segment = Segment::new(file, (first, next), salt, len);
        let journal = self.total - self.snapshot_len;
        let queue = Queue::new(next, journal, self.snapshot_len);
        let shared = StoreShared::new(self.directory, self.identity, self.durability, queue, on_work);
        let shared = Arc::new(shared);
        let writer = JournalWriter::new(shared.clone(), segment);
        let store = Store { shared, thread: Mutex::default() };
        Ok((store, writer))
    }
}

/// Makes the files of a forest that has none. The identity comes last: without it nothing was ever in use. Answers its
/// checksum.
fn make(directory: &Directory, identity: &ForestIdentity) -> Result<u64, StoreError> {
    let (text, checksum) = identity.encode();
    let journal = file_name_of::journal(Lsn::FIRST);
    Segment::begin(directory, checksum, Lsn::FIRST)
        .and_then(|_| directory.commit(&journal))
        .map_err(StoreError::io("make", &directory.file(&journal)))?;
    directory
        .write_unfinished(IDENTITY, text.as_bytes())
        .and_then(|_| directory.commit(IDENTITY))
        .map_err(StoreError::io("make", &directory.file(IDENTITY)))?;
    Ok(checksum)
}

/// The segments to replay, if the first of them exists.
fn segments_from(snapshot: Option<Lsn>, segments: &[Lsn], directory: &Directory) -> Result<Vec<Lsn>, StoreError> {
    let start = snapshot.unwrap_or(Lsn::FIRST);
    let needed: Vec<Lsn> = segments.iter().copied().filter(|&lsn| lsn >= start).collect();
    match needed.first() {
        Some(&first) if first == start => Ok(needed),
        Some(&first) if snapshot.is_none() => {
            let dir = directory.path.clone();
            Err(StoreError::MissingSnapshot { dir, first })
        }
        _ => Err(missing_segment(directory, start)),
    }
}

fn open_next(
    directory: &Directory,
    identity: u64,
    segments: &mut VecDeque<Lsn>,
    expected: Lsn,
) -> Result<Reading, StoreError> {
    let first = segments.pop_front().filter(|&first| first == expected);
    let first = first.ok_or_else(|| missing_segment(directory, expected))?;
    let name = file_name_of::journal(first);
    let (path, file) = (directory.file(&name), directory.open(&name)?);
    let reader = SegmentReader::open(path, file, first, identity)?;
    Ok(Reading::Segment(reader))
}

fn missing_segment(directory: &Directory, first: Lsn) -> StoreError {
    let dir = directory.path.clone();
    StoreError::MissingSegment { dir, first }
}

fn len_of(directory: &Directory, name: &str) -> Result<u64, StoreError> {
    let len = directory.open(name)?.size();
    len.map_err(StoreError::io("read", &directory.file(name)))
}
