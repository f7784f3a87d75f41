//! A file of records: its verified header, and a window of its bytes.

use std::io;
use std::path::PathBuf;

use super::Lsn;
use super::error::StoreError;
use super::files::{File, shorter_than_it_was};
use super::format::{FileKind, Header, NotAHeader};

/// Bytes that are read at once, unless a record is longer.
pub(super) const AT_ONCE: usize = 1 << 20;

/// A part of a file in memory, which moves to its end.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) file: Box<dyn File>,
    pub(super) len: u64,
    /// Where in the file `bytes[start]` is.
    pub(super) offset: u64,
    bytes: Vec<u8>,
    start: usize,
}

impl Window {
    fn new(file: Box<dyn File>) -> io::Result<Window> {
        Ok(Window { len: file.size()?, file, offset: 0, bytes: Vec::new(), start: 0 })
    }

    pub(super) fn rest(&self) -> u64 {
        self.len - self.offset
    }

    /// The next `count` bytes, if the file has them.
    pub(super) fn peek(&mut self, count: usize) -> io::Result<Option<&[u8]>> {
        if self.rest() < count as u64 {
            return Ok(None);
        }
        let held = self.bytes.len() - self.start;
        if held < count {
            self.bytes.drain(..self.start);
            self.start = 0;
            let from = self.offset + held as u64;
            let wanted = (count - held).max(AT_ONCE) as u64;
            // Not more than there is, so that it fits.
            let wanted = wanted.min(self.len - from) as usize;
            self.bytes.resize(held + wanted, 0);
            let into = self.bytes.get_mut(held..).unwrap_or_default();
            if self.file.read_at(from, into)? < wanted {
                return Err(shorter_than_it_was());
            }
        }
        Ok(self.bytes.get(self.start..self.start + count))
    }

    /// Goes on from here.
    pub(super) fn seek(&mut self, offset: u64) {
        self.offset = offset;
        self.bytes.clear();
        self.start = 0;
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.start += count;
        self.offset += count as u64;
    }

    /// The bytes that were skipped last.
    pub(super) fn last(&self, count: usize) -> &[u8] {
        let from = self.start.saturating_sub(count);
        self.bytes.get(from..self.start).unwrap_or_default()
    }
}

/// The whole of a file that is small.
pub(super) fn read_small(mut file: Box<dyn File>) -> io::Result<Vec<u8>> {
    let len = file.size()?.min(AT_ONCE as u64) as usize;
    let mut bytes = vec![0; len];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// State that both readers have of their file.
#[derive(Debug)]
pub(super) struct RecordFile {
    pub(super) path: PathBuf,
    pub(super) window: Window,
    pub(super) salt: u64,
}

impl RecordFile {
    /// Opens a file, and verifies its header.
    pub(super) fn open(
        path: PathBuf,
        file: Box<dyn File>,
        (kind, lsn, identity): (FileKind, Lsn, u64),
    ) -> Result<RecordFile, StoreError> {
        let window = Window::new(file).map_err(StoreError::io("read", &path))?;
        let mut source = RecordFile { path, window, salt: 0 };
        if source.window.len == 0 {
            let file = source.path;
            return Err(StoreError::EmptyFile { file });
        }
        let Some(bytes) = source.peek(Header::LEN)? else {
            return Err(source.damaged("it ends within its header"));
        };
        let header = match Header::decode(kind, bytes) {
            Ok(header) => header,
            Err(NotAHeader::Newer(found)) => {
                let file = source.path;
                return Err(StoreError::NewerFormat { file, found });
            }
            Err(NotAHeader::Magic) => {
                return Err(source.damaged("it is no such file by its first bytes"));
            }
            Err(NotAHeader::Checksum) => return Err(source.damaged("the checksum of its header")),
        };
        if header.identity != identity {
            let file = source.path;
            return Err(StoreError::ForeignFile { file });
        }
        if header.lsn != lsn {
            return Err(source.damaged("its header and its name begin with different batches"));
        }
        source.salt = header.salt;
        source.window.skip(Header::LEN);
        Ok(source)
    }

    pub(super) fn peek(&mut self, count: usize) -> Result<Option<&[u8]>, StoreError> {
        let peeked = self.window.peek(count);
        peeked.map_err(StoreError::io("read", &self.path))
    }

    pub(super) fn damaged(&self, what: &'static str) -> StoreError {
        StoreError::Damaged { file: self.path.clone(), offset: self.window.offset, what }
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> u64 {
        self.window.len
    }

    /// The seed of the checksum of the block with this number.
    pub(super) fn seed_of(&self, block: u64) -> u64 {
        self.salt.wrapping_add(block)
    }

    /// Reads elsewhere without moving the read position.
    pub(super) fn read(&mut self, at: u64, count: usize, into: &mut Vec<u8>) -> Result<(), StoreError> {
        into.clear();
        into.resize(count, 0);
        let read = self.window.file.read_at(at, into);
        let read = read.and_then(|read| {
            let whole = read == count;
            whole.then_some(()).ok_or_else(shorter_than_it_was)
        });
        read.map_err(StoreError::io("read", &self.path))
    }
}
