//! Files that an operator writes. They are bounded, and those that are read while requests are served have an end.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Most bytes of a file; more are a mistake, such as `/dev/zero`.
const MOST: u64 = 16 << 20;

/// The text of a file of at most [`MOST`] bytes, which may be a pipe: `--config <(decrypt FILE)`.
///
/// # Errors
/// It cannot be read, is larger, or is not UTF-8.
pub(super) fn read_any(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(MOST + 1).read_to_string(&mut text)?;
    match u64::try_from(read).is_ok_and(|read| read <= MOST) {
        true => Ok(text),
        false => Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 16 MiB")),
    }
}

/// The same of a regular file.
///
/// # Errors
/// As [`read_any`]; it is another kind of file.
pub(crate) fn read_regular(path: &Path) -> io::Result<String> {
    is_regular(path)?;
    read_any(path)
}

/// Refuses pipes and devices, which may never end.
///
/// # Errors
/// It is none, or cannot be found.
pub(crate) fn is_regular(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path)?.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_bounded_and_pipes_are_told_from_them() {
        let path = std::env::temp_dir().join(format!("spinney-small-file-{}", std::process::id()));
        for (bytes, is_read) in [(MOST, true), (MOST + 1, false)] {
            std::fs::write(&path, vec![b'#'; bytes as usize]).unwrap();
            assert_eq!(read_any(&path).is_ok(), is_read);
            assert_eq!(read_regular(&path).is_ok(), is_read);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(read_any(Path::new("/dev/zero")).unwrap_err().to_string().contains("16 MiB"));
        assert!(read_regular(Path::new("/dev/zero")).unwrap_err().to_string().contains("no regular file"));
        assert_eq!(read_any(Path::new("/dev/null")).unwrap(), "");
    }
}
