//! Reads a document in one pass: values of the selected fields, and the position of the stamp.
//!
//! ```text
//! {"id":7, "cluster_root":"…", "content":"…"}
//!  ^        \_______________/^   \_________/
//!  insert_at    removals (the member, one comma)   value, borrowed where it has no escapes
//! ```

use std::borrow::Cow;

use super::cursor::{JsonCursor, JsonError, MAX_DEPTH, Scalar};
use super::cut::{Cut, Members, check_stamp, stamp_value};
use super::selection::{FieldPath, Selected, Selection};

/// A value of a selected field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldValue<'a> {
    /// The field that it belongs to.
    pub selected: Selected,
    /// String with escapes decoded, or the digits of a number verbatim. Invalid Unicode reads as U+FFFD.
    pub text: Cow<'a, str>,
    /// It was a string.
    pub quoted: bool,
}

/// The parts of a document that spinney reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedDocument<'a> {
    /// Strings and numbers of the selected fields in document order. Arrays give one value per element; a path that is
    /// selected twice gives its value twice.
    pub values: Vec<FieldValue<'a>>,
    /// The position of the stamp.
    pub cut: Cut,
    /// The text fields with a member, one bit each by their place.
    texts_present: u64,
}

impl ParsedDocument<'_> {
    /// Whether any text field has a member, be it null or empty. A partial update without one leaves the stamp alone.
    pub fn has_text(&self) -> bool {
        self.texts_present != 0
    }

    /// Whether the text field at this place of [`FieldNames::text`](super::FieldNames::text) has a member.
    pub fn has_text_field(&self, place: u8) -> bool {
        self.texts_present & text_bit(place) != 0
    }

    /// The text of the first value of a selected field.
    pub fn first(&self, selected: Selected) -> Option<&str> {
        self.value(selected).map(|value| &*value.text)
    }

    /// The first value of a selected field.
    pub fn value(&self, selected: Selected) -> Option<&FieldValue<'_>> {
        self.values.iter().find(|value| value.selected == selected)
    }
}

/// Reads the selected fields of a document and plans its stamp. Bytes behind the closing brace are ignored: the
/// server refuses them.
///
/// # Errors
/// The bytes are not an object in the servers' JSON, a selected string has a broken escape, or the document carries a
/// stamp that is duplicated or that spinney cannot have written: removing such a stamp might turn a document that the
/// server refuses into one that it accepts.
pub fn scan<'a>(source: &'a [u8], selection: &Selection) -> Result<ParsedDocument<'a>, JsonError> {
    let mut cursor = JsonCursor::new(source)?;
    cursor.pass_only(b'{', "an object")?;
    let insert_at = cursor.pos();
    let mut scanner = Scanner {
        cursor,
        selection,
        open: Vec::new(),
        values: Vec::new(),
        texts_present: 0,
        members: Members::default(),
    };
    scanner.document()?;
    let (keeps_members, removals) = scanner.members.finish();
    Ok(ParsedDocument {
        values: scanner.values,
        cut: Cut { insert_at, keeps_members, removals },
        texts_present: scanner.texts_present,
    })
}

fn text_bit(place: u8) -> u64 {
    1u64.checked_shl(u32::from(place)).unwrap_or(0)
}

/// An open container on the path to a selected field.
struct Open {
    object: bool,
    path: FieldPath,
}

struct Scanner<'a, 's> {
    cursor: JsonCursor<'a>,
    selection: &'s Selection,
    open: Vec<Open>,
    values: Vec<FieldValue<'a>>,
    texts_present: u64,
    members: Members,
}

impl<'a> Scanner<'a, '_> {
    /// The members of the document, from behind its brace to its closing brace.
    fn document(&mut self) -> Result<(), JsonError> {
        self.cursor.blank()?;
        if self.cursor.peek() == Some(b'}') {
            return Ok(());
        }
        loop {
            let start = self.cursor.pos();
            let key = self.cursor.key()?;
            let name = self.cursor.key_bytes(&key)?;
            if let Some(bit) = self.selection.names().bit(&name) {
                stamp_value(&mut self.cursor, start)?;
                let member = start..self.cursor.pos();
                check_stamp(self.cursor.slice(member.clone()), start)?;
                self.members.stamp(bit, member)?;
            } else {
                self.value_of(FieldPath::TOP, &name)?;
                self.members.kept();
            }
            self.cursor.blank()?;
            match self.cursor.peek() {
                Some(b',') => {
                    self.members.comma(self.cursor.pos());
                    self.cursor.pass(b',', "a comma")?;
                }
                Some(b'}') => return Ok(()),
                _ => return Err(self.cursor.unexpected("a comma or a closing brace")),
            }
        }
    }

    /// The value under a key: read if a selected field lies there, passed otherwise.
    fn value_of(&mut self, parent: FieldPath, name: &[u8]) -> Result<(), JsonError> {
        match self.selection.step(parent, name) {
            Some(path) => {
                self.present(path);
                self.value(path)
            }
            None => self.cursor.skip_value(),
        }
    }

    fn present(&mut self, path: FieldPath) {
        let selected = self.selection.selected(path);
        for selected in selected {
            if let Selected::Text(place) = selected {
                self.texts_present |= text_bit(*place);
            }
        }
    }

    /// The value at a path of the selection, with everything inside it.
    fn value(&mut self, path: FieldPath) -> Result<(), JsonError> {
        let floor = self.open.len();
        let mut next = Some(path);
        loop {
            if let Some(path) = next.take()
                && self.begin(path)?
                && let Some(inside) = self.open.last().map(|open| (open.object, open.path))
            {
                next = self.element(inside)?;
                continue;
            }
            // A value has ended: close containers until one continues.
            loop {
                if self.open.len() <= floor {
                    return Ok(());
                }
                let Some((object, path)) = self.open.last().map(|open| (open.object, open.path)) else {
                    return Ok(());
                };
                self.cursor.blank()?;
                match (self.cursor.peek(), object) {
                    (Some(b','), _) => {
                        self.cursor.pass(b',', "a comma")?;
                        next = self.element((object, path))?;
                        break;
                    }
                    (Some(b'}'), true) => self.cursor.pass_only(b'}', "a closing brace")?,
                    (Some(b']'), false) => self.cursor.pass_only(b']', "a closing bracket")?,
                    (_, true) => return Err(self.cursor.unexpected("a comma or a closing brace")),
                    (_, false) => {
                        return Err(self.cursor.unexpected("a comma or a closing bracket"));
                    }
                }
                self.open.pop();
            }
        }
    }

    /// Begins a value: reads a scalar, or opens a non-empty container and returns true.
    fn begin(&mut self, path: FieldPath) -> Result<bool, JsonError> {
        let (object, close) = match self.cursor.peek() {
            Some(b'{') => (true, b'}'),
            Some(b'[') => (false, b']'),
            _ => {
                let scalar = self.cursor.scalar()?;
                self.read(path, &scalar)?;
                return Ok(false);
            }
        };
        self.cursor.pass(if object { b'{' } else { b'[' }, "a container")?;
        if self.cursor.peek() == Some(close) {
            self.cursor.pass_only(close, "the end of a container")?;
            return Ok(false);
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(JsonError::TooDeep { at: self.cursor.pos() });
        }
        self.open.push(Open { object, path });
        Ok(true)
    }

    /// The next element of an open container. `None`: it held nothing selected and has been passed whole.
    fn element(&mut self, (object, path): (bool, FieldPath)) -> Result<Option<FieldPath>, JsonError> {
        if !object {
            return Ok(Some(path));
        }
        let key = self.cursor.key()?;
        let name = self.cursor.key_bytes(&key)?;
        let inner = self.selection.step(path, &name);
        match inner {
            Some(inner) => self.present(inner),
            None => self.cursor.skip_value()?,
        }
        Ok(inner)
    }

    fn read(&mut self, path: FieldPath, scalar: &Scalar) -> Result<(), JsonError> {
        let selected = self.selection.selected(path);
        if selected.is_empty() {
            return Ok(());
        }
        let text = match scalar {
            Scalar::String(string) => self.cursor.text(string)?,
            Scalar::Number(span) => String::from_utf8_lossy(self.cursor.slice(span.clone())),
            Scalar::True | Scalar::False | Scalar::Null => return Ok(()),
        };
        self.values.extend(selected.iter().map(|&selected| FieldValue {
            selected,
            text: text.clone(),
            quoted: matches!(scalar, Scalar::String(_)),
        }));
        Ok(())
    }
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
