//! The members that spinney writes into a document.

use std::io::Write;

use super::selection::StampNames;

/// The stamp of one document.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'a> {
    /// The root fingerprint: written as 16 hex digits and again as a signed number.
    pub root: u64,
    /// Whether the local fallback assigned the root: it is written as a number only, and `null` in the other field, by
    /// which the document is found.
    pub is_local_fallback: bool,
    /// The document's own fingerprints; left out when there are none, as in a lean stamp, a plain string when there is
    /// one.
    pub hashes: &'a [u64],
    /// The arrival as an ISO date; left out when a changed date would turn a no-op update into a change.
    pub arrival: Option<&'a str>,
    /// Whether it is the first document of its group; left out where an update is not to touch it.
    pub first: Option<bool>,
    /// The document's own proof, for methods that have one; not in a lean stamp.
    pub proof: Option<&'a str>,
}

/// Writes the stamp's members with commas between them and none around them:
/// `"cluster_root":"00f1…","cluster_key":-12,"cluster_hash":["…","…"],"cluster_arrival":"2026-…"`, and
/// `"cluster_first":false` at the end.
pub fn write_stamp(out: &mut Vec<u8>, names: &StampNames, stamp: &Stamp<'_>) {
    write_name(out, names.root());
    match stamp.is_local_fallback {
        // An update has to take away the root that is stored.
        true => out.extend_from_slice(b"null"),
        false => write_hex(out, stamp.root),
    }
    out.push(b',');
    write_name(out, names.key());
    // Writing to a Vec can't fail.
    let _ = write!(out, "{}", stamp.root.cast_signed());
    if !stamp.hashes.is_empty() {
        out.push(b',');
        write_name(out, names.hash());
        if let [hash] = stamp.hashes {
            write_hex(out, *hash);
        } else {
            for (index, hash) in stamp.hashes.iter().enumerate() {
                out.push(if index == 0 { b'[' } else { b',' });
                write_hex(out, *hash);
            }
            out.push(b']');
        }
    }
    for (name, value) in [(names.arrival(), stamp.arrival), (names.proof(), stamp.proof)] {
        if let Some(value) = value {
            out.push(b',');
            write_name(out, name);
            write_string(out, value);
        }
    }
    if let Some(first) = stamp.first {
        out.push(b',');
        write_name(out, names.first());
        out.extend_from_slice(if first { b"true" } else { b"false" });
    }
}

/// A prefix has no characters that need escapes.
fn write_name(out: &mut Vec<u8>, name: &str) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn write_hex(out: &mut Vec<u8>, value: u64) {
    out.push(b'"');
    out.extend(value.to_be_bytes().into_iter().flat_map(|byte| [hex_digit(byte >> 4), hex_digit(byte & 15)]));
    out.push(b'"');
}

fn hex_digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'a' + value - 10 }
}

fn write_string(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    for &byte in value.as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..b' ' => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[hex_digit(byte >> 4), hex_digit(byte & 15)]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(stamp: &Stamp<'_>) -> String {
        let mut out = Vec::new();
        write_stamp(&mut out, &StampNames::new("cluster_").unwrap(), stamp);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_whole_stamp() {
        let stamp = Stamp {
            root: 0x00f1_2345_6789_abcd,
            is_local_fallback: false,
            hashes: &[0x00f1_2345_6789_abcd, u64::MAX],
            arrival: Some("2026-01-02T03:04:05.678Z"),
            proof: Some("a\"b\\c\n"),
            first: Some(true),
        };
        assert_eq!(
            written(&stamp),
            r#""cluster_root":"00f123456789abcd","cluster_key":67874250384059341,"cluster_hash":["00f123456789abcd","ffffffffffffffff"],"cluster_arrival":"2026-01-02T03:04:05.678Z","cluster_proof":"a\"b\\c\u000a","cluster_first":true"#
        );
    }

    #[test]
    fn the_key_is_signed_and_what_is_missing_is_left_out() {
        let stamp =
            Stamp { root: u64::MAX, is_local_fallback: false, hashes: &[], arrival: None, proof: None, first: None };
        assert_eq!(written(&stamp), r#""cluster_root":"ffffffffffffffff","cluster_key":-1"#);
        let stamp =
            Stamp { root: 1 << 63, is_local_fallback: false, hashes: &[10], arrival: None, proof: None, first: None };
        assert_eq!(
            written(&stamp),
            r#""cluster_root":"8000000000000000","cluster_key":-9223372036854775808,"cluster_hash":"000000000000000a""#
        );
        let stamp = Stamp {
            root: 5,
            is_local_fallback: true,
            hashes: &[],
            arrival: Some("2026-01-02T03:04:05.678Z"),
            proof: None,
            first: None,
        };
        assert_eq!(
            written(&stamp),
            r#""cluster_root":null,"cluster_key":5,"cluster_arrival":"2026-01-02T03:04:05.678Z""#
        );
    }
}
