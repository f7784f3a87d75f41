//! Classes of raw bytes for the cleaning pass, and characters of several bytes.

/// An ASCII character, or how long the character is that the byte begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteClass {
    /// A letter or digit.
    Letter,
    Space,
    /// Leaves no trace: controls and stray bytes.
    Drop,
    Punct,
    /// `=()[]_$\*` and other signs that are frequent in code.
    CodeSign,
    Colon,
    FullStop,
    /// `!`, `?`, `;`.
    SentenceMark,
    Brace,
    Less,
    Greater,
    Ampersand,
    /// First byte of a longer character.
    Two,
    Three,
    Four,
}

/// The class of every byte.
pub(super) const BYTE_CLASSES: [ByteClass; 256] = {
    let mut table = [ByteClass::Drop; 256];
    let mut b = 0;
    while b < 256 {
        table[b] = match b as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => ByteClass::Letter,
            b' ' | 9..=13 => ByteClass::Space,
            b'.' => ByteClass::FullStop,
            b'!' | b'?' | b';' => ByteClass::SentenceMark,
            b':' => ByteClass::Colon,
            b'{' => ByteClass::Brace,
            b'<' => ByteClass::Less,
            b'>' => ByteClass::Greater,
            b'&' => ByteClass::Ampersand,
            b'=' | b'(' | b')' | b'[' | b']' | b'_' | b'$' | b'\\' | b'*' | b'}' => ByteClass::CodeSign,
            b'!'..=b'~' => ByteClass::Punct,
            0xC2..=0xDF => ByteClass::Two,
            0xE0..=0xEF => ByteClass::Three,
            0xF0..=0xF4 => ByteClass::Four,
            _ => ByteClass::Drop,
        };
        b += 1;
    }
    table
};

/// The code point at `at` of UTF-8 if it takes three bytes.
#[inline(always)]
pub(super) fn decode_three(bytes: &[u8], at: usize) -> Option<u16> {
    match bytes.get(at..)?.first_chunk() {
        Some(&[a @ 0xE0..=0xEF, b, c]) => {
            Some(u16::from(a & 0x0F) << 12 | u16::from(b & 0x3F) << 6 | u16::from(c & 0x3F))
        }
        _ => None,
    }
}

/// The character of more than one byte at `at` of UTF-8, and its length.
#[inline(always)]
pub(super) fn decode(bytes: &[u8], at: usize) -> (char, usize) {
    if let Some(code) = decode_three(bytes, at) {
        return (char::from_u32(u32::from(code)).unwrap_or(' '), 3);
    }
    let (code, len) = match bytes.get(at..) {
        Some(&[a @ 0xC0..=0xDF, b, ..]) => (u32::from(a & 0x1F) << 6 | u32::from(b & 0x3F), 2),
        Some(&[a @ 0xF0..=0xFF, b, c, d, ..]) => {
            let high = u32::from(a & 0x07) << 18 | u32::from(b & 0x3F) << 12;
            (high | u32::from(c & 0x3F) << 6 | u32::from(d & 0x3F), 4)
        }
        _ => (0, 1),
    };
    (char::from_u32(code).unwrap_or(' '), len)
}
