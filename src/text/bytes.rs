//! What a byte of raw text is to the cleaning pass.

/// An ASCII character, or how long the character is that the byte begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ascii {
    /// A lower-case letter or a digit.
    Lower,
    Upper,
    Space,
    /// Leaves no trace.
    Drop,
    Punct,
    /// `=()[]_$\` and others that code is full of.
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
            b'a'..=b'z' | b'0'..=b'9' => Ascii::Lower,
            b'A'..=b'Z' => Ascii::Upper,
            b' ' | 9..=13 => Ascii::Space,
            b'.' => Ascii::Stop,
            b'!' | b'?' | b';' => Ascii::Break,
            b':' => Ascii::Colon,
            b'{' => Ascii::Brace,
            b'<' => Ascii::Less,
            b'>' => Ascii::Greater,
            b'&' => Ascii::Ampersand,
            b'=' | b'(' | b')' | b'[' | b']' | b'_' | b'$' | b'\\' | b'}' => Ascii::Sign,
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
