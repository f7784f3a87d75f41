//! Directories and names.

use std::collections::HashSet;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::error::StoreError;
use super::files::{File, Files, SystemFiles};
use super::format::{FileKind, Header, JOURNAL, SNAPSHOT};
use super::identity::ForestIdentity;
use super::{Lsn, fields, record_file};
use crate::text_fields::FieldRecord;

const SYNC: &str = "sync";
const LOCK: &str = "LOCK";
pub(super) const IDENTITY: &str = "identity";
/// Which fields the texts of the forest were read from.
pub(super) const FIELDS: &str = "fields";
/// Suffix of a file that is not complete yet.
const UNFINISHED: &str = ".tmp";
/// Prefix of a directory that was set aside. Names of forests have no upper-case letters.
const UNREADABLE: &str = "UNREADABLE";
/// Marks a directory that salvage has put together from the readable part of a forest.
const MARK: &str = "salvaged";
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// A locked directory of stored forests. The lock is held until this and every store opened from it are dropped.
#[derive(Debug, Clone)]
pub struct DataDir(Arc<Locked>);

#[derive(Debug)]
struct Locked {
    path: PathBuf,
    files: Arc<dyn Files>,
    /// Directories of forests that are open.
    open: Mutex<HashSet<PathBuf>>,
    _lock: Box<dyn Debug + Send + Sync>,
}

impl DataDir {
    /// Makes the directory if need be, and locks it.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process has it, [`StoreError::Io`].
    pub fn lock(path: &Path) -> Result<DataDir, StoreError> {
        DataDir::lock_in(Arc::new(SystemFiles), path)
    }

    /// As [`lock`](Self::lock), in another file system.
    ///
    /// # Errors
    /// As [`DataDir::lock`].
    pub fn lock_in(files: Arc<dyn Files>, path: &Path) -> Result<DataDir, StoreError> {
        match make_dir(&*files, path) {
            // The data directory may be mounted where its parent cannot be listed.
            Err(StoreError::Io { what, cause, .. })
                if what == SYNC && cause.kind() == io::ErrorKind::PermissionDenied => {}
            made => made?,
        }
        let lock = path.join(LOCK);
        let locked = files.lock(&lock).map_err(StoreError::io("lock", &lock))?;
        DataDir::locked(files, path, locked)
    }

    /// Locks a directory for reading: nothing is created in it.
    ///
    /// # Errors
    /// As [`DataDir::lock`].
    pub fn lock_to_read(path: &Path) -> Result<DataDir, StoreError> {
        let (files, lock) = (Arc::new(SystemFiles), path.join(LOCK));
        let locked = files.lock_existing(&lock).map_err(StoreError::io("lock", &lock))?;
        DataDir::locked(files, path, locked)
    }

    fn locked(
        files: Arc<dyn Files>,
        path: &Path,
        lock: Option<Box<dyn Debug + Send + Sync>>,
    ) -> Result<DataDir, StoreError> {
        let lock = lock.ok_or_else(|| StoreError::Locked { dir: path.into() })?;
        Ok(DataDir(Arc::new(Locked { path: path.to_owned(), files, open: Mutex::default(), _lock: lock })))
    }

    /// Returns the identities of the stored forests, sorted by name.
    ///
    /// # Errors
    /// When the directory or an identity cannot be read.
    pub fn forests(&self) -> Result<Vec<ForestIdentity>, StoreError> {
        let (files, path) = (&self.0.files, self.path());
        let names = files.list(path).map_err(StoreError::io("list", path))?;
        let mut forests = Vec::new();
        // Directories that were set aside hold an identity as well.
        let is_forest = |name: &String| !name.contains(|c: char| c.is_ascii_uppercase());
        for name in names.into_iter().filter(is_forest) {
            let file = path.join(name).join(IDENTITY);
            // Other files may lie there too.
            let Ok(opened) = files.open(&file) else {
                continue;
            };
            let bytes = record_file::read_small(opened);
            let bytes = bytes.map_err(StoreError::io("read", &file))?;
            forests.push(ForestIdentity::decode(&file, &bytes)?.0);
        }
        forests.sort_by(|a, b| a.forest().cmp(b.forest()));
        Ok(forests)
    }

    /// Moves a forest here from another directory of the same file system, atomically. The forest here must be one that
    /// was never written to.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn adopt(&self, from: &DataDir, forest: &str) -> Result<(), StoreError> {
        let (files, name) = (&self.0.files, directory_name(forest));
        let (old, new) = (from.path().join(&name), self.path().join(&name));
        if self.has_directory(forest)? {
            // A directory takes the place of an empty one.
            for file in files.list(&new).map_err(StoreError::io("list", &new))? {
                let file = new.join(file);
                files.remove(&file).map_err(StoreError::io("remove", &file))?;
            }
        }
        files.rename(&old, &new).map_err(StoreError::io("rename", &old))?;
        files.sync_dir(self.path()).map_err(StoreError::io(SYNC, self.path()))
    }

    /// Renames the directory of a forest so that it is no longer found as one.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn set_aside(&self, forest: &str) -> Result<(), StoreError> {
        let (files, name) = (&self.0.files, directory_name(forest));
        let old = self.path().join(&name);
        let taken = files.list(self.path());
        let taken = taken.map_err(StoreError::io("list", self.path()))?;
        let names = (1u32..).map(|number| format!("{UNREADABLE}-{number}-{name}"));
        let mut free = names.filter(|name| !taken.contains(name));
        if let Some(free) = free.next() {
            let new = self.path().join(free);
            let renamed = files.rename(&old, &new);
            renamed.map_err(StoreError::io("rename", &old))?;
        }
        files.sync_dir(self.path()).map_err(StoreError::io(SYNC, self.path()))
    }

    /// Path of a sibling directory with this name for a forest.
    pub fn aside(&self, name: &str, forest: &str) -> PathBuf {
        self.path().join(format!("{name}-{}", directory_name(forest)))
    }

    fn mark_of(&self, forest: &str) -> PathBuf {
        self.path().join(directory_name(forest)).join(MARK)
    }

    /// Marks a forest as incomplete: the index may have more of its documents.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn mark(&self, forest: &str) -> Result<(), StoreError> {
        let mark = self.mark_of(forest);
        let made = self.0.files.create(&mark).and_then(|mut file| file.sync());
        made.map_err(StoreError::io("make", &mark))
    }

    /// Whether a forest is [marked](DataDir::mark).
    pub fn is_marked(&self, forest: &str) -> bool {
        self.0.files.open(&self.mark_of(forest)).is_ok()
    }

    /// Takes the mark away.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn unmark(&self, forest: &str) -> Result<(), StoreError> {
        let mark = self.mark_of(forest);
        let removed = self.0.files.remove(&mark);
        removed.map_err(StoreError::io("remove", &mark))
    }

    /// The fields that the texts of a forest were read from; empty for one of an earlier version.
    ///
    /// # Errors
    /// [`StoreError::BrokenFields`], [`StoreError::NewerFormat`], [`StoreError::Io`].
    pub fn fields(&self, forest: &str) -> Result<FieldRecord, StoreError> {
        read_fields(&*self.0.files, self.path(), forest)
    }

    /// As [`fields`](Self::fields), in a directory that another process may have locked.
    ///
    /// # Errors
    /// As [`DataDir::fields`].
    pub fn fields_in(path: &Path, forest: &str) -> Result<FieldRecord, StoreError> {
        read_fields(&SystemFiles, path, forest)
    }

    /// Replaces that record, if it is another. The directory of the forest must be there.
    ///
    /// # Errors
    /// [`StoreError::NewerFormat`], [`StoreError::Io`]; then the record is the old or the new one.
    pub fn record_fields(&self, forest: &str, record: &FieldRecord) -> Result<(), StoreError> {
        match self.fields(forest) {
            Ok(known) if known == *record => return Ok(()),
            Ok(_) | Err(StoreError::BrokenFields { .. }) => {}
            Err(error) => return Err(error),
        }
        let (files, dir) = (&*self.0.files, self.path().join(directory_name(forest)));
        let written = write_unfinished(files, &dir, FIELDS, fields::encode(record).as_bytes());
        written.and_then(|_| commit(files, &dir, FIELDS)).map_err(StoreError::io("write", &dir.join(FIELDS)))
    }

    /// Whether there is a directory for a forest.
    pub fn has_directory(&self, forest: &str) -> Result<bool, StoreError> {
        let path = self.path().join(directory_name(forest));
        match self.0.files.list(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError::io("list", &path)(error)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }
}

fn read_fields(files: &dyn Files, dir: &Path, forest: &str) -> Result<FieldRecord, StoreError> {
    let file = dir.join(directory_name(forest)).join(FIELDS);
    let bytes = match files.open(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FieldRecord::default()),
        opened => opened.and_then(record_file::read_small).map_err(StoreError::io("read", &file))?,
    };
    fields::decode(&file, &bytes)
}

/// The directory of one forest.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    pub(super) files: Arc<dyn Files>,
    data_dir: DataDir,
}

impl Directory {
    /// Makes the directory of a forest if need be.
    pub(super) fn of(data_dir: &DataDir, forest: &str) -> Result<Directory, StoreError> {
        let path = data_dir.path().join(directory_name(forest));
        if !data_dir.0.open.lock().insert(path.clone()) {
            let forest = forest.to_owned();
            return Err(StoreError::OpenTwice { forest });
        }
        // From here on it is closed when this is dropped.
        let directory = Directory { path, files: data_dir.0.files.clone(), data_dir: data_dir.clone() };
        make_dir(&*directory.files, &directory.path)?;
        Ok(directory)
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn names(&self) -> Result<Vec<String>, StoreError> {
        let names = self.files.list(&self.path);
        names.map_err(StoreError::io("list", &self.path))
    }

    pub(super) fn open(&self, name: &str) -> Result<Box<dyn File>, StoreError> {
        let path = self.file(name);
        self.files.open(&path).map_err(StoreError::io("open", &path))
    }

    /// Syncs the directory and its parent.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        for dir in [self.data_dir.path(), &self.path] {
            let synced = self.files.sync_dir(dir);
            synced.map_err(StoreError::io(SYNC, dir))?;
        }
        Ok(())
    }

    /// Removes a file, for good.
    pub(super) fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.file(name);
        let removed = self.files.remove(&path).and_then(|()| self.files.sync_dir(&self.path));
        removed.map_err(StoreError::io("remove", &path))
    }

    /// The identity that is stored here, and its checksum.
    pub(super) fn read_identity(&self) -> Result<(ForestIdentity, u64), StoreError> {
        let path = self.file(IDENTITY);
        let bytes = record_file::read_small(self.open(IDENTITY)?);
        let bytes = bytes.map_err(StoreError::io("read", &path))?;
        ForestIdentity::decode(&path, &bytes)
    }

    /// Writes a file under its unfinished name; the rename that follows publishes it complete.
    pub(super) fn write_unfinished(&self, name: &str, bytes: &[u8]) -> io::Result<Box<dyn File>> {
        write_unfinished(&*self.files, &self.path, name, bytes)
    }

    /// Renames a synced temporary file to its final name.
    pub(super) fn commit(&self, name: &str) -> io::Result<()> {
        commit(&*self.files, &self.path, name)
    }

    /// Path of a file until it is complete.
    pub(super) fn unfinished(&self, name: &str) -> PathBuf {
        unfinished(&self.path, name)
    }

    /// The beginning of a new file.
    pub(super) fn header(&self, kind: FileKind, lsn: Lsn, identity: u64) -> Header {
        Header { kind, lsn, identity, salt: self.files.random() }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.data_dir.0.open.lock().remove(&self.path);
    }
}

fn write_unfinished(files: &dyn Files, dir: &Path, name: &str, bytes: &[u8]) -> io::Result<Box<dyn File>> {
    let mut file = files.create(&unfinished(dir, name))?;
    file.append(bytes)?;
    file.sync()?;
    Ok(file)
}

fn commit(files: &dyn Files, dir: &Path, name: &str) -> io::Result<()> {
    files.rename(&unfinished(dir, name), &dir.join(name))?;
    files.sync_dir(dir)
}

fn unfinished(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}{UNFINISHED}"))
}

fn make_dir(files: &dyn Files, path: &Path) -> Result<(), StoreError> {
    files.create_dir(path).map_err(StoreError::io("make", path))?;
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    files.sync_dir(parent).map_err(StoreError::io(SYNC, parent))
}

/// Directory name of a forest. Upper-case letters are encoded: some file systems ignore case.
fn directory_name(forest: &str) -> String {
    let mut name = String::new();
    for part in utf8_percent_encode(forest, NAME) {
        let is_encoded = part.starts_with('%');
        for c in part.chars() {
            match c {
                'A'..='Z' if !is_encoded => name.push_str(&format!("%{:02x}", u32::from(c))),
                _ => name.push(c.to_ascii_lowercase()),
            }
        }
    }
    // No forest has the name of the data directory itself.
    if name.is_empty() { "%".into() } else { name }
}

/// Meaning of a file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileName {
    Identity,
    Fields,
    Snapshot(Lsn),
    Segment(Lsn),
    Unfinished,
    Unknown,
}

impl FileName {
    pub(super) fn of(name: &str) -> FileName {
        if let Some(whole) = name.strip_suffix(UNFINISHED) {
            return match FileName::of(whole) {
                FileName::Unknown => FileName::Unknown,
                _ => FileName::Unfinished,
            };
        }
        if name == IDENTITY {
            return FileName::Identity;
        }
        if name == FIELDS {
            return FileName::Fields;
        }
        let lsn = |hex: &str| {
            let lsn = u64::from_str_radix(hex, 16).ok().map(Lsn)?;
            // Only as they are written: 16 lower-case digits.
            (lsn.to_string() == hex).then_some(lsn)
        };
        let snapshot = name.strip_prefix(SNAPSHOT).and_then(lsn);
        let segment = name.strip_prefix(JOURNAL).and_then(lsn);
        match (snapshot, segment) {
            (Some(lsn), _) => FileName::Snapshot(lsn),
            (_, Some(lsn)) => FileName::Segment(lsn),
            _ => FileName::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::format::file_name_of;

    #[test]
    fn forests_do_not_get_into_each_others_directories() {
        let names = ["news", "NEWS", "LOCK", "..", "", "a/b", "é", "%", "%2f", "identity"];
        let encoded = names.map(directory_name);
        assert_eq!(encoded[0], "news");
        assert_eq!(encoded[3], "%2e%2e");
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_%".contains(c);
        assert!(encoded.iter().all(|name| name.chars().all(plain)));
        let different: HashSet<&String> = encoded.iter().collect();
        // The empty name and "%" are not the same either.
        assert_eq!(different.len(), names.len());
    }

    /// A folder that holds no forest, named by mistake.
    #[cfg(unix)]
    #[test]
    fn a_directory_that_is_only_read_stays_as_it_is() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = std::env::temp_dir().join(format!("spinney-read-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("notes"), "theirs").unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        let state = || {
            let mut names = SystemFiles.list(&dir).unwrap();
            names.sort();
            (names, std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777)
        };
        let read = DataDir::lock_to_read(&dir).unwrap();
        assert!(read.forests().unwrap().is_empty() && !read.holds("news").unwrap());
        drop(read);
        assert_eq!(state(), (vec!["notes".to_owned()], 0o755));
        // Even where data is to be stored in it.
        let locked = DataDir::lock(&dir).unwrap();
        assert_eq!(state(), (vec!["LOCK".to_owned(), "notes".to_owned()], 0o755));
        assert!(matches!(DataDir::lock_to_read(&dir), Err(StoreError::Locked { .. })));
        drop(locked);
        DataDir::lock_to_read(&dir).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        let lsn = Lsn(0x4d2);
        assert_eq!(FileName::of(&file_name_of::journal(lsn)), FileName::Segment(lsn));
        assert_eq!(FileName::of(&file_name_of::snapshot(lsn)), FileName::Snapshot(lsn));
        assert_eq!(FileName::of("snapshot-00000000000004d2.tmp"), FileName::Unfinished);
        assert_eq!(FileName::of("identity.tmp"), FileName::Unfinished);
        assert_eq!((FileName::of("fields"), FileName::of("fields.tmp")), (FileName::Fields, FileName::Unfinished));
        for other in ["journal-4d2", "journal-00000000000004D2", "notes.tmp", "journal-+000000000000001"] {
            assert_eq!(FileName::of(other), FileName::Unknown, "{other}");
        }
    }
}
