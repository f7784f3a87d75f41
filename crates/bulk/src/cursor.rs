//! A JSON cursor that moves token by token.
//!
//! The grammar is that of the servers' parser (Jackson with comments allowed) or slightly larger: bytes inside
//! strings and comments are not validated, because a server that refuses them also refuses them stamped. Everything a
//! server may accept is accepted.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr2, memmem};

/// Containers may nest this deep. OpenSearch stops at 1,000; Elasticsearch 7 has no limit of its own.
pub(super) const MAX_DEPTH: usize = 1 << 16;

/// A syntax error at byte offset `at`. The document is forwarded unstamped, and the server reports the error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text ends inside a value or before one.
    #[error("the text ends at byte {at} inside a value; send the whole JSON value")]
    Unfinished {
        /// Byte offset.
        at: usize,
    },
    /// Something else than the grammar allows here.
    #[error("expected {expected} at byte {at}; correct the JSON there")]
    Unexpected {
        /// Byte offset.
        at: usize,
        /// Expected token.
        expected: &'static str,
    },
    /// Containers nest too deep.
    #[error("values nest deeper than {MAX_DEPTH} at byte {at}; send flatter JSON")]
    TooDeep {
        /// Byte offset.
        at: usize,
    },
    /// A selected string, or a key, with a broken escape.
    #[error("the string at byte {at} has an escape that is not JSON; correct the escape")]
    Escape {
        /// Byte offset.
        at: usize,
    },
    /// A key that matters occurs twice in one object.
    #[error("the key at byte {at} occurs twice; send it once")]
    Duplicate {
        /// Byte offset.
        at: usize,
    },
    /// UTF-16 or UTF-32, which the servers read.
    #[error("it is encoded in UTF-16 or UTF-32; send UTF-8")]
    Encoding,
    /// A member with the name of a stamp's that spinney cannot have written.
    #[error("the stamp member at byte {at} holds what no stamp holds; leave it out or send it as it was read")]
    ForeignStamp {
        /// Byte offset.
        at: usize,
    },
}

impl JsonError {
    /// Whether a server may accept what this parser rejects. All the other texts every server refuses.
    pub fn may_be_taken(&self) -> bool {
        matches!(self, JsonError::Encoding | JsonError::TooDeep { .. })
    }
}

/// A string token: its quotes are not part of `span`.
#[derive(Debug, Clone)]
pub(super) struct RawString {
    pub span: Range<usize>,
    pub escaped: bool,
}

/// Type of a value read by [`JsonCursor::scalar`].
#[derive(Debug, Clone)]
pub(super) enum Scalar {
    String(RawString),
    Number(Range<usize>),
    True,
    False,
    Null,
}

/// Whether the servers' parser takes a text for UTF-16 or UTF-32: by a byte order mark, or by the NUL in one of its
/// first characters, which no JSON has (RFC 4627, section 3).
fn is_utf16_or_32(text: &[u8]) -> bool {
    text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") || text.iter().take(4).any(|&byte| byte == 0)
}

#[derive(Debug, Clone)]
pub(super) struct JsonCursor<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> JsonCursor<'a> {
    /// A cursor at the first token. Every line is a text of its own to the servers, so a byte order mark may open it.
    ///
    /// # Errors
    /// The bytes are another encoding than UTF-8, or begin with a comment that does not end.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, JsonError> {
        if is_utf16_or_32(bytes) {
            return Err(JsonError::Encoding);
        }
        let mut cursor = JsonCursor { bytes, pos: 0 };
        cursor.byte_order_mark();
        cursor.blank()?;
        Ok(cursor)
    }

    /// Passes a byte order mark.
    pub(super) fn byte_order_mark(&mut self) {
        if self.bytes.get(self.pos..).is_some_and(|rest| rest.starts_with(b"\xef\xbb\xbf")) {
            self.pos += 3;
        }
    }

    pub(super) fn pos(&self) -> usize {
        self.pos
    }

    /// The byte at the position, `None` at the end.
    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    /// The bytes of a range that this cursor has passed.
    #[inline]
    pub(super) fn slice(&self, range: Range<usize>) -> &'a [u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// The error for finding something else than `expected` here.
    #[cold]
    pub(super) fn unexpected(&self, expected: &'static str) -> JsonError {
        if self.pos >= self.bytes.len() {
            JsonError::Unfinished { at: self.bytes.len() }
        } else {
            JsonError::Unexpected { at: self.pos, expected }
        }
    }

    /// Consumes one given byte and the white space after it.
    #[inline]
    pub(super) fn pass(&mut self, byte: u8, expected: &'static str) -> Result<(), JsonError> {
        self.pass_only(byte, expected)?;
        self.blank()
    }

    /// Consumes one given byte.
    #[inline]
    pub(super) fn pass_only(&mut self, byte: u8, expected: &'static str) -> Result<(), JsonError> {
        if self.peek() == Some(byte) {
            self.pos += 1;
            Ok(())
        } else {
            Err(self.unexpected(expected))
        }
    }

    /// Passes blanks and comments.
    #[inline]
    pub(super) fn blank(&mut self) -> Result<(), JsonError> {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.pos += 1,
                b'/' => self.comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    #[cold]
    fn comment(&mut self) -> Result<(), JsonError> {
        let body = self.pos + 2;
        let rest = self.bytes.get(body..).unwrap_or_default();
        match self.bytes.get(self.pos + 1) {
            Some(b'*') => match memmem::find(rest, b"*/") {
                Some(end) => self.pos = body + end + 2,
                None => {
                    return Err(JsonError::Unfinished { at: self.bytes.len() });
                }
            },
            Some(b'/') => {
                self.pos = memchr2(b'\n', b'\r', rest).map_or(self.bytes.len(), |end| body + end);
            }
            Some(_) => return Err(self.unexpected("a comment")),
            None => {
                return Err(JsonError::Unfinished { at: self.bytes.len() });
            }
        }
        Ok(())
    }

    /// Passes a string, from its opening quote to its closing quote.
    pub(super) fn string(&mut self) -> Result<RawString, JsonError> {
        self.pass_only(b'"', "a string")?;
        let start = self.pos;
        let mut escaped = false;
        loop {
            let rest = self.bytes.get(self.pos..).unwrap_or_default();
            let Some(found) = memchr2(b'"', b'\\', rest) else {
                self.pos = self.bytes.len();
                return Err(JsonError::Unfinished { at: self.bytes.len() });
            };
            self.pos += found;
            if self.peek() == Some(b'"') {
                let span = start..self.pos;
                self.pos += 1;
                return Ok(RawString { span, escaped });
            }
            escaped = true;
            // Writers that keep to ASCII send whole articles as `\uXXXX`: a search per escape would be slow.
            while self.peek() == Some(b'\\') {
                self.pos += match self.bytes.get(self.pos + 1) {
                    Some(b'u') => 6,
                    _ => 2,
                };
            }
        }
    }

    /// Passes a value that is neither an object nor an array.
    pub(super) fn scalar(&mut self) -> Result<Scalar, JsonError> {
        match self.peek() {
            Some(b'"') => self.string().map(Scalar::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Scalar::Number),
            Some(b't') => self.literal(b"true", Scalar::True),
            Some(b'f') => self.literal(b"false", Scalar::False),
            Some(b'n') => self.literal(b"null", Scalar::Null),
            _ => Err(self.unexpected("a value")),
        }
    }

    fn literal(&mut self, word: &'static [u8], value: Scalar) -> Result<Scalar, JsonError> {
        if self.bytes.get(self.pos..).unwrap_or_default().starts_with(word) {
            self.pos += word.len();
            Ok(value)
        } else {
            Err(self.unexpected("true, false or null"))
        }
    }

    fn number(&mut self) -> Result<Range<usize>, JsonError> {
        let start = self.pos;
        if self.peek() == Some(b'-') {
            self.pos += 1;
        }
        if self.peek() == Some(b'0') {
            self.pos += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.pos += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.pos += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.pos += 1;
            }
            self.digits()?;
        }
        Ok(start..self.pos)
    }

    /// Passes one digit or more.
    fn digits(&mut self) -> Result<(), JsonError> {
        let rest = self.bytes.get(self.pos..).unwrap_or_default();
        match rest.iter().take_while(|byte| byte.is_ascii_digit()).count() {
            0 => Err(self.unexpected("a digit")),
            count => {
                self.pos += count;
                Ok(())
            }
        }
    }

    /// Passes any value, without blanks after it.
    pub(super) fn skip_value(&mut self) -> Result<(), JsonError> {
        let mut nesting = Nesting::default();
        loop {
            // Here a value begins.
            match self.peek() {
                Some(b'{') => {
                    self.pass(b'{', "an object")?;
                    if self.peek() == Some(b'}') {
                        self.pos += 1;
                    } else {
                        nesting.push(true, self.pos)?;
                        self.key()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.pass(b'[', "an array")?;
                    if self.peek() == Some(b']') {
                        self.pos += 1;
                    } else {
                        nesting.push(false, self.pos)?;
                        continue;
                    }
                }
                _ => {
                    self.scalar()?;
                }
            }
            // A value has ended: close containers until one continues.
            loop {
                let Some(object) = nesting.is_object() else {
                    return Ok(());
                };
                self.blank()?;
                match (self.peek(), object) {
                    (Some(b','), true) => {
                        self.pass(b',', "a comma")?;
                        self.key()?;
                        break;
                    }
                    (Some(b','), false) => {
                        self.pass(b',', "a comma")?;
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.pos += 1;
                        nesting.pop();
                    }
                    (_, true) => return Err(self.unexpected("a comma or a closing brace")),
                    (_, false) => return Err(self.unexpected("a comma or a closing bracket")),
                }
            }
        }
    }

    /// Passes a key, its colon and the blanks around it, up to the value.
    pub(super) fn key(&mut self) -> Result<RawString, JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a key"));
        }
        let key = self.string()?;
        self.blank()?;
        self.pass(b':', "a colon")?;
        Ok(key)
    }

    /// The bytes of a key with its escapes decoded.
    pub(super) fn key_bytes(&self, key: &RawString) -> Result<Cow<'a, [u8]>, JsonError> {
        let raw = self.slice(key.span.clone());
        if key.escaped {
            unescape(raw).map(Cow::Owned).ok_or(JsonError::Escape { at: key.span.start })
        } else {
            Ok(Cow::Borrowed(raw))
        }
    }

    /// Decodes the escapes of a string. Invalid Unicode (bytes or lone surrogates) reads as U+FFFD.
    pub(super) fn text(&self, string: &RawString) -> Result<Cow<'a, str>, JsonError> {
        Ok(match self.key_bytes(string)? {
            // The strict check is several times faster than the lossy one, and almost always enough.
            Cow::Borrowed(bytes) => {
                simdutf8::basic::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
            }
            Cow::Owned(bytes) => Cow::Owned(into_text(bytes)),
        })
    }
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Which of the open containers are objects: one bit each, on the heap only beyond 64 levels.
#[derive(Default)]
struct Nesting {
    bits: u64,
    depth: usize,
    outer: Vec<u64>,
}

impl Nesting {
    fn push(&mut self, object: bool, at: usize) -> Result<(), JsonError> {
        if self.depth >= MAX_DEPTH {
            return Err(JsonError::TooDeep { at });
        }
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.bits);
        }
        self.bits = self.bits << 1 | u64::from(object);
        self.depth += 1;
        Ok(())
    }

    fn is_object(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.bits & 1 == 1)
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.bits >>= 1;
        if self.depth > 0
            && self.depth.is_multiple_of(64)
            && let Some(bits) = self.outer.pop()
        {
            self.bits = bits;
        }
    }
}

/// Decodes the escapes of a string's bytes; `None` if one of them is not JSON. Lone surrogates become U+FFFD.
fn unescape(raw: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    loop {
        // Escapes often follow each other: a search from one to the next would be slow.
        if rest.first() != Some(&b'\\') {
            let Some(run) = memchr::memchr(b'\\', rest) else {
                break;
            };
            let (plain, after) = rest.split_at_checked(run)?;
            out.extend_from_slice(plain);
            rest = after;
        }
        let (&[_, kind], after) = rest.split_first_chunk()?;
        rest = after;
        match kind {
            b'"' | b'\\' | b'/' => out.push(kind),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let (digits, after) = rest.split_first_chunk()?;
                let mut unit = hex4(*digits)?;
                rest = after;
                if (0xd800..0xdc00).contains(&unit)
                    && let Some(next) = rest.strip_prefix(b"\\u")
                {
                    let (digits, after) = next.split_first_chunk()?;
                    let low = hex4(*digits)?;
                    if (0xdc00..0xe000).contains(&low) {
                        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                        rest = after;
                    }
                }
                let decoded = char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(decoded.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => return None,
        }
    }
    out.extend_from_slice(rest);
    Some(out)
}

fn hex4(digits: [u8; 4]) -> Option<u32> {
    let [a, b, c, d] = digits.map(|digit| HEX[usize::from(digit)]);
    let value = a << 12 | b << 8 | c << 4 | d;
    (value <= 0xffff).then_some(value)
}

/// The value of each hex digit; for other bytes a value that stays too large when digits are joined.
const HEX: [u32; 256] = {
    let mut table = [1 << 16; 256];
    let mut digit = 0;
    while digit < 10 {
        table[b'0' as usize + digit] = digit as u32;
        digit += 1;
    }
    let mut letter = 0;
    while letter < 6 {
        table[b'a' as usize + letter] = 10 + letter as u32;
        table[b'A' as usize + letter] = 10 + letter as u32;
        letter += 1;
    }
    table
};
