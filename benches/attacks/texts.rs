//! Bodies that nobody writes but somebody sends.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::support::random::Random;

/// A text of about so many bytes: the prefix, the unit as often as it takes, the suffix.
pub fn repeated(prefix: &str, unit: &str, suffix: &str, bytes: usize) -> String {
    let times = bytes.saturating_sub(prefix.len() + suffix.len()) / unit.len();
    format!("{prefix}{}{suffix}", unit.repeat(times))
}

/// Quotes and comments that a cleaner could search again and again.
pub fn hostile(bytes: usize) -> Vec<String> {
    [("<a ", "'", ""), ("", "/**/", "a = b"), ("<a ", "a='' ", ""), ("<a x=\"", "<a \" x=\"", "")]
        .map(|(prefix, unit, suffix)| repeated(prefix, unit, suffix, bytes))
        .to_vec()
}

/// A bulk of one document for each text.
pub fn bulk<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut body = Vec::new();
    for text in texts {
        body.extend_from_slice(b"{\"index\":{}}\n");
        body.extend_from_slice(json!({"content": text.as_ref()}).to_string().as_bytes());
        body.push(b'\n');
    }
    body
}

/// A bulk of one document in SMILE: each line has the header, keys and a value of short ASCII, and the byte of its end.
pub fn smile_bulk() -> Vec<u8> {
    const HEADER: &[u8] = b":)\n\0";
    let key = |name: &[u8]| [&[0x7F + name.len() as u8], name].concat();
    let value = |text: &[u8]| [&[0x3F + text.len() as u8], text].concat();
    let action = [HEADER, b"\xFA", &key(b"index"), b"\xFA\xFB\xFB\xFF"].concat();
    let source = [HEADER, b"\xFA", &key(b"content"), &value(b"packed in smile"), b"\xFB\xFF"].concat();
    [action, source].concat()
}

pub fn gzip(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Nothing fails in memory.
    let _ = encoder.write_all(plain);
    encoder.finish().unwrap_or_default().into()
}

/// Short texts of the same words with a few of their own: all near each other, few of them alike.
pub fn short_and_near(count: usize) -> Vec<String> {
    let mut random = Random::new(7);
    let mut text = || {
        let words: Vec<String> =
            (0..3).map(|_| (0..5).map(|_| char::from(b'a' + random.below(26) as u8)).collect()).collect();
        format!(
            "the harbour ferry stays in port until the storm over the northern coast has passed {}",
            words.join(" ")
        )
    };
    (0..count).map(|_| text()).collect()
}

/// A sentence of words that stand in no other one, but for the first. (It needs a capital letter to be a sentence.)
pub fn sentence(random: &mut Random) -> String {
    let words: Vec<String> = (0..12).map(|_| format!("w{:x}", random.next() & 0xff_ffff)).collect();
    format!("Point {}.", words.join(" "))
}

/// So many sentences of a seed.
pub fn sentences(seed: u64, count: usize) -> Vec<String> {
    let mut random = Random::new(seed);
    (0..count).map(|_| sentence(&mut random)).collect()
}
