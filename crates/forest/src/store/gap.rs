//! Unreadable ranges that salvage skipped.

use std::fmt;
use std::path::PathBuf;

use super::directory::Directory;
use super::error::StoreError;
use super::format::file_name_of;

/// A range of a stored forest that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRange {
    /// The file.
    pub file: PathBuf,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How long it is; 0 where that is not known, as for a file that is missing.
    pub bytes: u64,
    /// The kind of data that cannot be read.
    pub what: String,
}

impl UnreadableRange {
    /// `bytes`: how long it is.
    pub(super) fn of(error: StoreError, bytes: u64, directory: &Directory) -> UnreadableRange {
        let (file, offset, what) = match error {
            StoreError::Damaged { file, offset, what } => (file, offset, what.to_owned()),
            StoreError::EmptyFile { file } => (file, 0, "an empty file".to_owned()),
            StoreError::ForeignFile { file } => (file, 0, "a file of another forest".to_owned()),
            StoreError::MissingSnapshot { dir, .. } => (dir, 0, "no snapshot".to_owned()),
            StoreError::MissingSegment { dir, first } => {
                (dir.join(file_name_of::journal(first)), 0, "missing".to_owned())
            }
            StoreError::ShortJournal { dir, reached, needed } => {
                let what = format!("batches from {} to {needed} are missing", reached.next());
                (dir, 0, what)
            }
            other => (directory.path.clone(), 0, other.to_string()),
        };
        UnreadableRange { file, offset, bytes, what }
    }
}

impl fmt::Display for UnreadableRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.file.display(), self.offset, self.what)?;
        match self.bytes {
            0 => Ok(()),
            bytes => write!(f, " ({bytes} bytes)"),
        }
    }
}
