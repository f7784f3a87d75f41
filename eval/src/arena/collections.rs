//! The labelled collections of a folder: files by name and kind, packed with xz or not.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::ArenaError;

/// Bytes of memory that an `.xz` file may ask for, in KiB.
const MOST_MEMORY: u32 = 256 << 10;

/// The files of a folder by the name that stands before their ending.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Collections {
    /// `X.ndjson`
    pub documents: BTreeMap<String, PathBuf>,
    /// `X.pairs.tsv`
    pub pairs: BTreeMap<String, PathBuf>,
    /// `X.edits.tsv`
    pub edits: BTreeMap<String, PathBuf>,
    /// `X.mined.tsv`
    pub mined: BTreeMap<String, PathBuf>,
}

impl Collections {
    /// The files of a folder; of a file that is there both plain and packed, the plain one.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(super) fn of(folder: &Path) -> Result<Collections, ArenaError> {
        let wrong = |source| ArenaError::Read { path: folder.to_owned(), source };
        let entries = std::fs::read_dir(folder).map_err(wrong)?;
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>().map_err(wrong)?;
        paths.sort();
        let mut found = Collections::default();
        for path in paths {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let plain = name.strip_suffix(".xz").unwrap_or(name);
            for (ending, files) in [
                (".ndjson", &mut found.documents),
                (".pairs.tsv", &mut found.pairs),
                (".edits.tsv", &mut found.edits),
                (".mined.tsv", &mut found.mined),
            ] {
                if let Some(name) = plain.strip_suffix(ending) {
                    files.entry(name.to_owned()).or_insert_with(|| path.clone());
                }
            }
        }
        Ok(found)
    }

    /// Keeps the collections whose name `keep` accepts, and the pairs of such a name.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.documents.retain(|name, _| keep(name));
        self.pairs.retain(|name, _| keep(name));
    }
}

/// The bytes of a file, unpacked if its name ends in `.xz`.
///
/// # Errors
/// When the file cannot be read, or is no xz file though its name says so.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, ArenaError> {
    let packed = std::fs::read(path);
    let unpacked = packed.and_then(|packed| {
        if path.extension().is_none_or(|extension| extension != "xz") {
            return Ok(packed);
        }
        let mut out = Vec::new();
        lzma_rust2::XzReader::new_mem_limit(packed.as_slice(), true, MOST_MEMORY).read_to_end(&mut out)?;
        Ok(out)
    });
    unpacked.map_err(|source| ArenaError::Read { path: path.to_owned(), source })
}

/// The text of a file, as [`read`] reads it.
///
/// # Errors
/// As [`read`], and when it is not UTF-8.
pub(super) fn read_text(path: &Path) -> Result<String, ArenaError> {
    let wrong = |error| ArenaError::Read {
        path: path.to_owned(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidData, error),
    };
    String::from_utf8(read(path)?).map_err(wrong)
}

/// The set that a collection belongs to: the name itself, or the longest one that stands before an underscore of it, so
/// that `press_tune` is of `press` and `natural_ar_tune` of `natural_ar`.
pub(super) fn set_of<'s>(collection: &str, sets: impl IntoIterator<Item = &'s str>) -> Option<&'s str> {
    let is_of = |set: &&str| {
        let rest = collection.strip_prefix(set);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    sets.into_iter().filter(is_of).max_by_key(|set| set.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `printf 'a\tb\n' | xz` writes.
    const PACKED: &[u8] = include_bytes!("packed.xz");

    #[test]
    fn a_collection_is_of_the_longest_set_before_an_underscore() {
        let sets = ["press", "natural_ar", "natural", "senate", "lang"];
        for (collection, set) in [
            ("press", Some("press")),
            ("press_tune", Some("press")),
            ("press_kept", Some("press")),
            ("pressed_tune", None),
            ("natural_ar_tune", Some("natural_ar")),
            ("natural_silver_tune", Some("natural")),
            ("senate_tune_en", Some("senate")),
            ("language_tune", None),
            ("the_press", None),
            ("", None),
        ] {
            assert_eq!(set_of(collection, sets), set, "{collection}");
        }
    }

    #[test]
    fn files_are_read_plain_and_packed() {
        let folder = std::env::temp_dir().join(format!("spinney-eval-{}-collections", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in [
            ("a.ndjson", &b"{}"[..]),
            ("a.ndjson.xz", PACKED),
            ("a.pairs.tsv.xz", PACKED),
            ("b.pairs.tsv", b"x"),
            ("b.notes.tsv", b"x"),
            ("broken.edits.tsv.xz", b"a\tb\n"),
        ] {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        let mut found = Collections::of(&folder).unwrap();
        assert_eq!(found.documents["a"], folder.join("a.ndjson"));
        assert_eq!(found.pairs.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert!(found.mined.is_empty());
        assert_eq!(read_text(&found.pairs["a"]).unwrap(), "a\tb\n");
        assert_eq!(read_text(&found.pairs["b"]).unwrap(), "x");
        let error = read_text(&found.edits["broken"]).unwrap_err().to_string();
        assert!(error.contains("broken.edits.tsv.xz"), "{error}");
        found.retain(|name| name == "b");
        assert!(found.documents.is_empty() && found.pairs.len() == 1);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(Collections::of(&folder).is_err());
    }
}
