//! Identity of a directory: a small text file that names the forest and its settings.
//!
//! ```text
//! spinney store
//! format = 1
//! version = 0.1.0
//! forest = news
//! method = verified
//! k = 3
//! fingerprints = 2
//! checksum = 0d6cbd8d3bd04ae9
//! ```
//!
//! `forest` and the settings after it must be the configured ones, but for `fingerprints`. Control characters and `%`
//! are percent-encoded. The checksum is xxh3-64 of the bytes before it.

use std::fmt;
use std::path::Path;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use spinney_text::fingerprint::FingerprintVersion;
use xxhash_rust::xxh3::xxh3_64;

use super::error::{Difference, StoreError};
use super::format::FORMAT;

const TITLE: &str = "spinney store";
/// Encoded so that a value stays on one line.
const VALUE: &AsciiSet = &CONTROLS.add(b'%');

/// A forest's name, and the settings that its data depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForestIdentity {
    forest: String,
    settings: Vec<(String, String)>,
}

impl ForestIdentity {
    /// Identity of a forest without settings.
    pub fn new(forest: impl Into<String>) -> ForestIdentity {
        ForestIdentity { forest: forest.into(), settings: Vec::new() }
    }

    /// With one setting more. Names are lower-case letters, digits, `_`, `-` and `.`; other characters become `_`.
    pub fn with(mut self, key: &str, value: impl fmt::Display) -> ForestIdentity {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c);
        let key = key.chars().map(|c| if plain(c) { c } else { '_' });
        self.settings.push((key.collect(), value.to_string()));
        self
    }

    /// The forest's name.
    pub fn forest(&self) -> &str {
        &self.forest
    }

    /// Settings, in the order in which they were added.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        let settings = self.settings.iter();
        settings.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The version of its fingerprints, if recorded.
    pub fn fingerprints(&self) -> Option<FingerprintVersion> {
        let found = self.settings().find(|(key, _)| *key == FingerprintVersion::SETTING);
        found.and_then(|(_, value)| value.parse().ok()).map(FingerprintVersion)
    }

    /// The identity with another version of the fingerprints.
    pub fn with_fingerprints(mut self, version: FingerprintVersion) -> ForestIdentity {
        for (_, value) in self.settings.iter_mut().filter(|(key, _)| key == FingerprintVersion::SETTING) {
            *value = version.to_string();
        }
        self
    }

    /// Settings of this stored identity with which it cannot be opened as the wanted one. Fingerprints of an earlier
    /// version are none of them.
    pub(super) fn differences(&self, wanted: &ForestIdentity) -> Vec<Difference> {
        let stored = self.lines();
        let wanted = wanted.lines();
        let value_in = |lines: &[(&str, &str)], key: &str| {
            let found = lines.iter().find(|(other, _)| *other == key);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut differences: Vec<Difference> = Vec::new();
        for (key, _) in stored.iter().chain(&wanted) {
            let difference =
                Difference { key: (*key).to_owned(), stored: value_in(&stored, key), wanted: value_in(&wanted, key) };
            let sides = difference.stored.as_deref().zip(difference.wanted.as_deref());
            let is_earlier = sides.is_some_and(|(stored, wanted)| FingerprintVersion::is_earlier(key, stored, wanted));
            if difference.stored != difference.wanted && !is_earlier && !differences.contains(&difference) {
                differences.push(difference);
            }
        }
        differences
    }

    fn lines(&self) -> Vec<(&str, &str)> {
        let forest = ("forest", self.forest.as_str());
        std::iter::once(forest).chain(self.settings()).collect()
    }

    /// The content of the identity file, and its checksum, by which other files refer to it.
    pub(super) fn encode(&self) -> (String, u64) {
        use std::fmt::Write as _;
        let mut text = format!("{TITLE}\nformat = {FORMAT}\n");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "version = {}", env!("CARGO_PKG_VERSION"));
        for (key, value) in self.lines() {
            let _ = writeln!(text, "{key} = {}", utf8_percent_encode(value, VALUE));
        }
        let checksum = xxh3_64(text.as_bytes());
        let _ = writeln!(text, "checksum = {checksum:016x}");
        (text, checksum)
    }

    /// The identity that a file holds, and its checksum.
    pub(super) fn decode(file: &Path, bytes: &[u8]) -> Result<(ForestIdentity, u64), StoreError> {
        let broken = |why| StoreError::BrokenIdentity { file: file.to_owned(), why };
        if bytes.is_empty() {
            return Err(broken("it is empty"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| broken("it is no text"))?;
        let rest = text.strip_prefix(TITLE);
        let rest = rest.and_then(|rest| rest.strip_prefix('\n'));
        let rest = rest.ok_or_else(|| broken("it does not begin with \"spinney store\""))?;
        let mut pairs = rest.lines().map(|line| line.split_once(" = "));
        // Before the checksum, which may be another in a newer one.
        let format = pairs.next().flatten().filter(|(key, _)| *key == "format");
        let format: Option<u32> = format.and_then(|(_, value)| value.parse().ok());
        let found = format.ok_or_else(|| broken("it does not say its format"))?;
        if found > FORMAT {
            let file = file.to_owned();
            return Err(StoreError::NewerFormat { file, found });
        }
        let body = checked_body(text).ok_or_else(|| broken("its checksum is another"))?;
        let mut lines = Vec::new();
        for line in body.lines().skip(2) {
            let pair = line.split_once(" = ");
            let (key, value) = pair.ok_or_else(|| broken("a line is no \"key = value\""))?;
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| broken("a value is no text"))?;
            lines.push((key.to_owned(), value.into_owned()));
        }
        let mut lines = lines.into_iter();
        let mut named = |name| {
            let line = lines.next().filter(|(key, _)| key == name);
            line.map(|(_, value)| value)
        };
        named("version").ok_or_else(|| broken("it does not say which version made it"))?;
        let forest = named("forest").ok_or_else(|| broken("it names no forest"))?;
        let settings = lines.collect();
        let identity = ForestIdentity { forest, settings };
        Ok((identity, xxh3_64(body.as_bytes())))
    }
}

/// Text before the checksum line, if the checksum is right and last.
pub(super) fn checked_body(text: &str) -> Option<&str> {
    let (before, last) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let body = text.get(..before.len() + 1)?;
    let hex = last.strip_prefix("checksum = ")?;
    let right = format!("{:016x}", xxh3_64(body.as_bytes()));
    (hex == right).then_some(body)
}
