//! What is read from files, and again when they have changed.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::{info, warn};

/// A value of files that is read again at its first use after one of them has changed. If they do not give one then,
/// such as a new certificate before its key is there, the old one stays in use.
pub(crate) struct Renewed<T> {
    /// What it is, for the log.
    what: &'static str,
    paths: Vec<PathBuf>,
    read: Box<dyn Fn() -> anyhow::Result<T> + Send + Sync>,
    current: Mutex<(Vec<Option<FileVersion>>, Arc<T>)>,
}

/// Inode, time of the last change in seconds and nanoseconds, length in bytes; `None`: there is no such file.
type FileVersion = (u64, i64, i64, u64);

impl<T> Renewed<T> {
    /// Reads these files. `what`: a plural.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn load<E: Into<anyhow::Error>>(
        what: &'static str,
        paths: &[&Path],
        read: impl Fn() -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Renewed<T>, E> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
        let current = Mutex::new((versions(&paths), Arc::new(read()?)));
        Ok(Renewed { what, paths, read: Box::new(move || read().map_err(Into::into)), current })
    }

    /// The value.
    pub(crate) fn current(&self) -> Arc<T> {
        let versions = versions(&self.paths);
        let mut current = self.current.lock();
        if current.0 != versions {
            current.0 = versions;
            match (self.read)() {
                Ok(value) => {
                    info!(files = ?self.paths, "{} were read again", self.what);
                    current.1 = Arc::new(value);
                }
                Err(reason) => {
                    let reason = format!("{reason:#}");
                    warn!(reason, "{} that were read before stay in use", self.what);
                }
            }
        }
        current.1.clone()
    }
}

/// Without the value: it may be a key.
impl<T> fmt::Debug for Renewed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewed").field("paths", &self.paths).finish_non_exhaustive()
    }
}

fn versions(paths: &[PathBuf]) -> Vec<Option<FileVersion>> {
    let version = |path: &PathBuf| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.ino(), found.ctime(), found.ctime_nsec(), found.len()))
    };
    paths.iter().map(version).collect()
}
