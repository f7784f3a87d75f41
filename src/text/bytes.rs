//! What a byte of raw text is to the cleaning pass, and runs of ASCII eight bytes at a time.

/// An ASCII character, or how long the character is that the byte begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ascii {
    /// A letter or digit.
    Letter,
    Space,
    /// Leaves no trace.
    Drop,
    Punct,
    /// `=()[]_$\*` and others that code is full of.
    Sign,
    Colon,
    Stop,
    /// `!`, `?`, `;`.
    Break,
    Brace,
    Less,
    Greater,
    Ampersand,
    /// First byte of a longer character.
    Two,
    Three,
    Four,
}

pub(super) const ASCII: [Ascii; 256] = {
    let mut table = [Ascii::Drop; 256];
    let mut b = 0;
    while b < 256 {
        table[b] = match b as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => Ascii::Letter,
            b' ' | 9..=13 => Ascii::Space,
            b'.' => Ascii::Stop,
            b'!' | b'?' | b';' => Ascii::Break,
            b':' => Ascii::Colon,
            b'{' => Ascii::Brace,
            b'<' => Ascii::Less,
            b'>' => Ascii::Greater,
            b'&' => Ascii::Ampersand,
            b'=' | b'(' | b')' | b'[' | b']' | b'_' | b'$' | b'\\' | b'*' | b'}' => Ascii::Sign,
            b'!'..=b'~' => Ascii::Punct,
            0xC2..=0xDF => Ascii::Two,
            0xE0..=0xEF => Ascii::Three,
            0xF0..=0xF4 => Ascii::Four,
            _ => Ascii::Drop,
        };
        b += 1;
    }
    table
};

/// Eight bytes of text as a little-endian number: the first byte is the lowest. A bit pattern over them has the highest
/// bit of each byte that it speaks of.
#[derive(Clone, Copy)]
pub(super) struct Eight(pub u64);

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHEST: u64 = 0x80 * ONES;

impl Eight {
    /// The eight bytes at `at`; zeros behind the end.
    #[inline(always)]
    pub(super) fn at(bytes: &[u8], at: usize) -> Eight {
        let rest = bytes.get(at..).unwrap_or_default();
        if let Some(eight) = rest.first_chunk() {
            return Eight(u64::from_le_bytes(*eight));
        }
        let mut eight = [0; 8];
        for (to, from) in eight.iter_mut().zip(rest) {
            *to = *from;
        }
        Eight(u64::from_le_bytes(eight))
    }

    /// Which bytes lie between two ASCII characters, both included.
    #[inline(always)]
    fn within(self, first: u8, last: u8) -> u64 {
        // Bytes of 7 bits: a sum does not carry into the next byte.
        let low = self.0 & !HIGHEST;
        let from_first = low + u64::from(0x80 - first) * ONES;
        let behind_last = low + u64::from(0x7F - last) * ONES;
        from_first & !behind_last & !self.0 & HIGHEST
    }

    #[inline(always)]
    pub(super) fn capitals(self) -> u64 {
        self.within(b'A', b'Z')
    }

    /// Letters of both cases and digits.
    #[inline(always)]
    pub(super) fn alphanumeric(self) -> u64 {
        Eight(self.0 | (0x20 * ONES)).within(b'a', b'z') | self.within(b'0', b'9')
    }

    #[inline(always)]
    pub(super) fn spaces(self) -> u64 {
        self.within(b' ', b' ')
    }

    /// The first `n` bytes, zeros for the others.
    #[inline(always)]
    pub(super) fn first(self, n: u32) -> u64 {
        self.0 & below(n)
    }
}

/// All bits of the first `n` bytes, at most 8.
#[inline(always)]
pub(super) fn below(n: u32) -> u64 {
    u64::MAX.checked_shr(64 - 8 * n).unwrap_or(0)
}

/// How many bytes there are before the first one that a pattern lacks.
#[inline(always)]
pub(super) fn leading(pattern: u64) -> u32 {
    (!pattern & HIGHEST).trailing_zeros() / 8
}

/// The character of more than one byte at `at` of UTF-8, and its length.
#[inline(always)]
pub(super) fn decode(bytes: &[u8], at: usize) -> (char, usize) {
    let (code, len) = match bytes.get(at..) {
        Some(&[a @ 0xE0..=0xEF, b, c, ..]) => (
            u32::from(a & 0x0F) << 12 | u32::from(b & 0x3F) << 6 | u32::from(c & 0x3F),
            3,
        ),
        Some(&[a @ 0xC0..=0xDF, b, ..]) => (u32::from(a & 0x1F) << 6 | u32::from(b & 0x3F), 2),
        Some(&[a @ 0xF0..=0xFF, b, c, d, ..]) => {
            let high = u32::from(a & 0x07) << 18 | u32::from(b & 0x3F) << 12;
            (high | u32::from(c & 0x3F) << 6 | u32::from(d & 0x3F), 4)
        }
        _ => (0, 1),
    };
    (char::from_u32(code).unwrap_or(' '), len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(bytes: &[u8], mut wanted: impl FnMut(u8) -> bool) -> u64 {
        let mut eight = [0; 8];
        for (to, from) in eight.iter_mut().zip(bytes) {
            *to = if wanted(*from) { 0x80 } else { 0 };
        }
        u64::from_le_bytes(eight)
    }

    proptest! {
        #[test]
        fn eight_bytes_at_a_time_are_what_one_at_a_time_are(bytes in prop::collection::vec(any::<u8>(), 0..12), at in 0usize..12) {
            let rest = bytes.get(at..).unwrap_or_default();
            let eight = Eight::at(&bytes, at);
            prop_assert_eq!(eight.capitals(), pattern(rest, |b| b.is_ascii_uppercase()));
            prop_assert_eq!(eight.alphanumeric(), pattern(rest, |b| b.is_ascii_alphanumeric()));
            prop_assert_eq!(eight.spaces(), pattern(rest, |b| b == b' '));
            let run = rest.iter().take(8).take_while(|b| b.is_ascii_alphanumeric()).count();
            prop_assert_eq!(leading(eight.alphanumeric()) as usize, run);
            let first: Vec<u8> = rest.iter().take(run).copied().collect();
            prop_assert_eq!(eight.first(run as u32), Eight::at(&first, 0).0);
        }
    }
}
