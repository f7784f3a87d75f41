//! Errors of the store, each with the way out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use spinney_text::fingerprint::FingerprintVersion;
use thiserror::Error;

use super::Lsn;
use super::format::{FORMAT, file_name_of};
use crate::text_fields::FieldsRefused;

/// A setting with which data was made, and which is another now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its name.
    pub key: String,
    /// Stored value, if any.
    pub stored: Option<String>,
    /// Configured value, if any.
    pub wanted: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |side: &Option<String>| side.clone().unwrap_or_else(|| "not set".to_owned());
        let (stored, wanted) = (or_none(&self.stored), or_none(&self.wanted));
        write!(f, "{}: stored {stored}, configured {wanted}", self.key)
    }
}

/// Why a store cannot be opened.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process has the data directory.
    #[error(
        "the data directory {} is in use by another process: stop that one, or choose another --data-dir",
        .dir.display()
    )]
    Locked {
        /// The data directory.
        dir: PathBuf,
    },
    /// A record that no forest of this kind writes.
    #[error(
        "{} holds at byte {offset} a record of kind {kind} that this version of spinney does not read: use the version \
         that wrote it, or a newer one, if there is one; otherwise {}",
        .file.display(), Salvage::of(.file)
    )]
    UnknownRecord {
        /// The file.
        file: PathBuf,
        /// Where, in bytes from the beginning.
        offset: u64,
        /// Kind of the file or record.
        kind: String,
    },
    /// The state that is to be filled cannot be made.
    #[error("no forest can be made for what is stored of \"{forest}\"")]
    NoForest {
        /// The forest's name.
        forest: String,
    },
    /// This process has the forest open.
    #[error("the forest \"{forest}\" is open already")]
    OpenTwice {
        /// Its name.
        forest: String,
    },
    /// The system refused.
    #[error("cannot {what} {}: {cause}", .path.display())]
    Io {
        /// Operation that failed.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// A newer version has written this.
    #[error(
        "{} has format {found}, and this version of spinney reads formats up to {FORMAT}: use the version that wrote it, \
         or a newer one",
        .file.display()
    )]
    NewerFormat {
        /// The file.
        file: PathBuf,
        /// Its format.
        found: u32,
    },
    /// The forest has fingerprints of a newer version.
    #[error(
        "{} was begun with fingerprints of version {found}, and this version of spinney makes those of version {}: use \
         the version that began it, or a newer one; or move {} away and run spinney recover, which makes the forest \
         anew from the index",
        .dir.display(), FingerprintVersion::CURRENT, .dir.display()
    )]
    NewerFingerprints {
        /// The forest's directory.
        dir: PathBuf,
        /// Their version.
        found: FingerprintVersion,
    },
    /// The texts of a forest were read from other fields.
    #[error(
        "the forest \"{forest}\" in {} {differ}. Start it with the fields of before; or run spinney recover with those of \
         now and an empty --data-dir, and start with that one; or give the route a forest of its own with --forest, \
         which begins empty. Indices whose documents have other fields from now on may have a route of their own \
         before this one, also in the same forest",
        .dir.display()
    )]
    OtherFields {
        /// The data directory.
        dir: PathBuf,
        /// The forest.
        forest: String,
        /// The first difference.
        differ: FieldsRefused,
    },
    /// The record of these fields was changed, or is damaged.
    #[error(
        "{} does not read ({why}): put it back from a copy of the whole directory, or remove it, and the next start \
         records its own fields; --on-unreadable recover does that",
        .file.display()
    )]
    BrokenFields {
        /// The file.
        file: PathBuf,
        /// Reason.
        why: &'static str,
    },
    /// The directory has data but no identity.
    #[error(
        "{} has data, but its file \"identity\" is missing: {}",
        .dir.display(), WayOut(.dir)
    )]
    MissingIdentity {
        /// The forest's directory.
        dir: PathBuf,
    },
    /// The identity was changed, or is damaged.
    #[error("{} does not read ({why}): {}", .file.display(), WayOut::of(.file))]
    BrokenIdentity {
        /// The file.
        file: PathBuf,
        /// Reason.
        why: &'static str,
    },
    /// The data belongs to other settings.
    #[error(
        "{} was made with other settings ({}): start it with those, or choose another --data-dir to begin with an \
         empty forest",
        .dir.display(), FileList(.differences)
    )]
    OtherIdentity {
        /// The forest's directory.
        dir: PathBuf,
        /// Settings that differ.
        differences: Vec<Difference>,
    },
    /// The beginning is missing.
    #[error(
        "{} has no snapshot, and its journal begins with batch {first}, not with the first: {}",
        .dir.display(), Salvage(.dir)
    )]
    MissingSnapshot {
        /// The forest's directory.
        dir: PathBuf,
        /// The first batch that there is.
        first: Lsn,
    },
    /// Batches are missing in the middle, or all of them.
    #[error(
        "batches from {first} on are missing in {} (the file {}, or the end of the one before it): {}",
        .dir.display(), file_name_of::journal(*.first), Salvage(.dir)
    )]
    MissingSegment {
        /// The forest's directory.
        dir: PathBuf,
        /// The first batch that is missing.
        first: Lsn,
    },
    /// Batches are missing at the end, and the snapshot may hold some of their effects.
    #[error(
        "the journal in {} ends with batch {reached}, and the snapshot needs it up to {needed}: {}",
        .dir.display(), Salvage(.dir)
    )]
    ShortJournal {
        /// The forest's directory.
        dir: PathBuf,
        /// The last batch that there is.
        reached: Lsn,
        /// The last one that there should be.
        needed: Lsn,
    },
    /// A file without a byte.
    #[error("{} is empty: {}", .file.display(), Salvage::of(.file))]
    EmptyFile {
        /// The file.
        file: PathBuf,
    },
    /// A file of another data directory or forest.
    #[error(
        "{} belongs to another data directory or forest: {}",
        .file.display(), Salvage::of(.file)
    )]
    ForeignFile {
        /// The file.
        file: PathBuf,
    },
    /// Bytes are not as they were written.
    #[error("{} is damaged at byte {offset} ({what}): {}", .file.display(), Salvage::of(.file))]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where, in bytes from the beginning.
        offset: u64,
        /// Damage that was found.
        what: &'static str,
    },
    /// The readable part of a forest cannot be written.
    #[error("what reads of the forest \"{forest}\" cannot be stored: {reason}")]
    NotSalvaged {
        /// Its name.
        forest: String,
        /// Why.
        reason: String,
    },
    /// The caller has not read to the end.
    #[error("the stored forest was not read to its end")]
    NotReplayed,
}

impl StoreError {
    /// Whether the stored forest has this version and these settings but a part of it cannot be read, so that salvage
    /// helps.
    pub fn is_unreadable(&self) -> bool {
        match self {
            StoreError::UnknownRecord { .. }
            | StoreError::MissingSnapshot { .. }
            | StoreError::MissingSegment { .. }
            | StoreError::ShortJournal { .. }
            | StoreError::EmptyFile { .. }
            | StoreError::ForeignFile { .. }
            | StoreError::Damaged { .. } => true,
            StoreError::Locked { .. }
            | StoreError::NoForest { .. }
            | StoreError::NotSalvaged { .. }
            | StoreError::OpenTwice { .. }
            | StoreError::Io { .. }
            | StoreError::NewerFormat { .. }
            | StoreError::NewerFingerprints { .. }
            | StoreError::MissingIdentity { .. }
            | StoreError::BrokenIdentity { .. }
            | StoreError::OtherIdentity { .. }
            | StoreError::OtherFields { .. }
            | StoreError::BrokenFields { .. }
            | StoreError::NotReplayed => false,
        }
    }

    /// For `map_err`.
    pub fn other_fields(dir: &Path, forest: &str) -> impl FnOnce(FieldsRefused) -> StoreError {
        move |differ| StoreError::OtherFields { dir: dir.to_owned(), forest: forest.to_owned(), differ }
    }

    /// For `map_err`.
    pub fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        move |cause| StoreError::Io { what, path: path.to_owned(), cause }
    }
}

/// Why an open store stopped for good. Present and later waiters receive it.
#[derive(Debug, Clone, Error)]
pub enum StoreFailure {
    /// The system refused: the disk is full or broken.
    #[error(
        "changes are stored no more, because spinney could not {what} {}: {cause}; restart it when that is mended",
        .path.display()
    )]
    Io {
        /// Operation that failed.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Error of the operating system.
        cause: Arc<io::Error>,
    },
    /// One batch was larger than any may be.
    #[error("changes are stored no more, because {bytes} bytes were to be stored as one batch: report this as a bug")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// A batch does not decode to what was encoded.
    #[error(
        "changes are stored no more, because {reason}: report this as a bug. What was answered before is stored, and a \
         restart goes on from there"
    )]
    Unreadable {
        /// Reason.
        reason: String,
    },
    /// The thread that writes has panicked.
    #[error("changes are stored no more, because the thread that writes them has panicked: report this as a bug")]
    Panicked,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Why a snapshot was not written. The journal continues, unless there is a [`StoreFailure`].
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// One at a time.
    #[error("a snapshot is being written already")]
    Running,
    /// The system refused: the disk is full or broken.
    #[error("cannot {what} {}: {cause}", .path.display())]
    Io {
        /// Operation that failed.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Error of the operating system.
        cause: Arc<io::Error>,
    },
    /// A section or a block that cannot be written.
    #[error("a block of {bytes} bytes in section {section}: at most 2^30 bytes, and sections below 255")]
    Block {
        /// The section.
        section: u8,
        /// The length of the block.
        bytes: usize,
    },
    /// The journal has stopped, so that no snapshot can count.
    #[error(transparent)]
    Failed(#[from] StoreFailure),
}

impl SnapshotError {
    /// For `map_err`.
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SnapshotError {
        move |cause| SnapshotError::Io { what, path: path.to_owned(), cause: Arc::new(cause) }
    }
}

/// Advice where a part cannot be read.
struct Salvage<'a>(&'a Path);

impl<'a> Salvage<'a> {
    fn of(file: &'a Path) -> Salvage<'a> {
        Salvage(file.parent().unwrap_or(file))
    }
}

impl fmt::Display for Salvage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.0.parent().unwrap_or(self.0).display();
        write!(
            f,
            "put it back from a copy of the whole directory, or keep what reads: spinney inspect {dir} shows what that \
             is, and spinney recover, or serve with --on-unreadable recover, goes on with it and with \
             what the index has"
        )
    }
}

/// Advice where data is missing or damaged.
struct WayOut<'a>(&'a Path);

impl<'a> WayOut<'a> {
    fn of(file: &'a Path) -> WayOut<'a> {
        WayOut(file.parent().unwrap_or(file))
    }
}

impl fmt::Display for WayOut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.0.display();
        write!(
            f,
            "put it back from a copy of the whole directory, or move {dir} away and run spinney recover, which makes \
             the forest anew from the index"
        )
    }
}

struct FileList<'a>(&'a [Difference]);

impl fmt::Display for FileList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, difference) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{difference}")?;
        }
        Ok(())
    }
}
