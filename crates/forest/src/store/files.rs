//! The file operations of a store, so that tests can simulate failures.

use std::fmt::Debug;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};

#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// A file system.
pub trait Files: Debug + Send + Sync {
    /// Creates a directory with its parents, private to this user; an existing one is made private.
    ///
    /// # Errors
    /// Those of the system, here and below.
    fn create_dir(&self, path: &Path) -> Result<()>;

    /// Lists the names in a directory, in any order, without those that are not UTF-8.
    ///
    /// # Errors
    /// As above.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Creates or truncates a file, private to this user.
    ///
    /// # Errors
    /// As above.
    fn create(&self, path: &Path) -> Result<Box<dyn File>>;

    /// Opens an existing file for reading, and for appending if permitted.
    ///
    /// # Errors
    /// As above.
    fn open(&self, path: &Path) -> Result<Box<dyn File>>;

    /// Renames a file, replacing any file of that name.
    ///
    /// # Errors
    /// As above.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As above.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Returns when names in the directory are on the disk.
    ///
    /// # Errors
    /// As above.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Locks a file, creating it if necessary, until the guard is dropped. Returns `None` if it is locked already,
    /// also by this process.
    ///
    /// # Errors
    /// As above.
    fn lock(&self, path: &Path) -> Result<Option<Box<dyn Debug + Send + Sync>>>;

    /// As [`lock`](Self::lock), without creating the file: a missing one is not locked.
    ///
    /// # Errors
    /// As above.
    fn lock_existing(&self, path: &Path) -> Result<Option<Box<dyn Debug + Send + Sync>>>;

    /// An unpredictable number.
    fn random(&self) -> u64;
}

/// An open file.
pub trait File: Debug + Send {
    /// Reads from an offset; fewer bytes than the buffer has only at the end.
    ///
    /// # Errors
    /// Those of the system, here and below.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Writes at the end. After an error any part of it may be there.
    ///
    /// # Errors
    /// As above.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Returns when everything written is on the disk. After an error the state of the file is unknown.
    ///
    /// # Errors
    /// As above.
    fn sync(&mut self) -> Result<()>;

    /// Cuts the file off.
    ///
    /// # Errors
    /// As above.
    fn cut(&mut self, len: u64) -> Result<()>;

    /// Its length in bytes.
    ///
    /// # Errors
    /// As above.
    fn size(&self) -> Result<u64>;
}

/// Stored data contains texts, so only the owner may read it, whatever the umask is.
#[cfg(unix)]
const DIR_MODE: u32 = 0o700;
#[cfg(unix)]
const FILE_MODE: u32 = 0o600;

/// Options to open a file for writing; a new one is private to this user.
fn options() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    options.mode(FILE_MODE);
    options
}

/// That of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemFiles;

impl Files for SystemFiles {
    fn create_dir(&self, path: &Path) -> Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        builder.mode(DIR_MODE);
        builder.create(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn File>> {
        // Append mode and truncation do not go together.
        let file = options().create(true).truncate(true).open(path)?;
        drop(file);
        self.open(path)
    }

    fn open(&self, path: &Path) -> Result<Box<dyn File>> {
        // A file that may not be written is read all the same; writing to it fails then.
        let file = fs::File::options().read(true).append(true).open(path);
        Ok(Box::new(file.or_else(|_| fs::File::open(path))?))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        // The parent of a relative path of one part is the working directory.
        let here = dir.as_os_str().is_empty();
        fs::File::open(if here { Path::new(".") } else { dir })?.sync_all()
    }

    fn lock(&self, path: &Path) -> Result<Option<Box<dyn Debug + Send + Sync>>> {
        Held::lock(options().create(true).truncate(false).open(path)?)
    }

    fn lock_existing(&self, path: &Path) -> Result<Option<Box<dyn Debug + Send + Sync>>> {
        match fs::File::open(path) {
            Ok(file) => Held::lock(file),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Some(Box::new(()))),
            Err(error) => Err(error),
        }
    }

    fn random(&self) -> u64 {
        // The keys of the standard hash tables come from the system's random numbers.
        RandomState::new().hash_one(0)
    }
}

/// A lock that ends with this. Closing the file would not do: a program that is just being started has a copy of it for
/// a moment.
#[derive(Debug)]
struct Held(fs::File);

impl Held {
    fn lock(file: fs::File) -> Result<Option<Box<dyn Debug + Send + Sync>>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(Held(file)))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Closing it is next, and mostly does the same.
        let _ = self.0.unlock();
    }
}

impl File for fs::File {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.seek(SeekFrom::Start(offset))?;
        let mut read = 0;
        while let Some(rest) = buffer.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match self.read(rest) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, len: u64) -> Result<()> {
        self.set_len(len)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.metadata()?.len())
    }
}

/// Error for a file that is shorter than its header says.
pub(super) fn shorter_than_it_was() -> Error {
    Error::new(ErrorKind::UnexpectedEof, "the file became shorter while it was read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn nobody_else_reads_what_is_stored() {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let top = std::env::temp_dir().join(format!("spinney-modes-{}", std::process::id()));
        let dir = top.join("forest");
        let files = SystemFiles;
        files.create_dir(&dir).unwrap();
        assert_eq!((mode(&top), mode(&dir)), (0o700, 0o700));
        let [file, lock] = ["journal", "lock"].map(|name| dir.join(name));
        files.create(&file).unwrap().append(b"a text").unwrap();
        drop(files.lock(&lock).unwrap().unwrap());
        assert_eq!((mode(&file), mode(&lock)), (0o600, 0o600));
        // A directory that was there keeps its mode.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        files.create_dir(&dir).unwrap();
        assert_eq!(mode(&dir), 0o755);
        fs::remove_dir_all(&top).unwrap();
    }

    /// Nobody may write to a program that runs, root included.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_cannot_be_written_is_read() {
        let mut file = SystemFiles.open(&std::env::current_exe().unwrap()).unwrap();
        let mut begin = [0; 4];
        assert_eq!((file.read_at(0, &mut begin).unwrap(), &begin), (4, b"\x7fELF"));
        assert!(file.append(b"more").is_err());
    }

    #[test]
    fn two_files_do_not_have_the_same_salt() {
        assert_ne!(SystemFiles.random(), SystemFiles.random());
    }

    #[test]
    fn a_lock_ends_though_a_copy_of_its_file_is_open() {
        let path = std::env::temp_dir().join(format!("spinney-lock-{}", std::process::id()));
        let lock = || {
            let file = fs::File::create(&path).unwrap();
            file.try_lock().ok().map(|()| Held(file))
        };
        let held = lock().unwrap();
        let copy = held.0.try_clone().unwrap();
        assert!(lock().is_none());
        drop(held);
        assert!(lock().is_some());
        drop(copy);
        fs::remove_file(&path).unwrap();
    }
}
