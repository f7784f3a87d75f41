//! One pass over a document: the values of the selected fields, and where a stamp goes in.
//!
//! ```text
//! {"id":7, "cluster_root":"…", "content":"…"}
//!  ^        \_______________/^   \_________/
//!  insert_at    removals (the member, one comma)   value, borrowed where it has no escapes
//! ```

use std::borrow::Cow;
use std::ops::Range;

use super::cursor::{Cursor, JsonError, MAX_DEPTH, RawString, Scalar};
use super::selection::{Place, Selected, Selection};

/// A value of a selected field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value<'a> {
    pub selected: Selected,
    /// The string with its escapes decoded, or the digits of a number as they stand. What is not valid Unicode reads as U+FFFD.
    pub text: Cow<'a, str>,
}

/// What spinney reads from a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document<'a> {
    /// Strings and numbers of the selected fields in document order. Arrays give one value per element; a path that is
    /// selected twice gives its value twice.
    pub values: Vec<Value<'a>>,
    /// Where the stamp goes.
    pub cut: Cut,
    texts_present: u64,
}

impl Document<'_> {
    /// Whether any text field has a member, be it null or empty. A partial update without one leaves the stamp alone.
    pub fn has_text(&self) -> bool {
        self.texts_present != 0
    }

    /// Whether the text field at this place of [`super::Fields::text`] has a member.
    pub fn has_text_field(&self, place: u8) -> bool {
        self.texts_present & text_bit(place) != 0
    }

    /// The first value of a selected field.
    pub fn first(&self, selected: Selected) -> Option<&str> {
        self.values
            .iter()
            .find(|value| value.selected == selected)
            .map(|value| &*value.text)
    }
}

fn text_bit(place: u8) -> u64 {
    1u64.checked_shl(u32::from(place)).unwrap_or(0)
}

/// How to stamp a document: insert right after its brace and remove the stamp that it already carries. Offsets are bytes
/// into the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Right after the opening brace.
    pub insert_at: usize,
    /// Whether members stay after the removals: then a comma follows the stamp.
    pub keeps_members: bool,
    /// Members and commas to remove, in order, apart from each other.
    pub removals: Vec<Range<usize>>,
}

/// Reads the selected fields of a document and plans its stamp. What follows the document's closing brace is not looked at: it
/// is the server's to refuse.
///
/// # Errors
/// The bytes are not an object in JSON as the servers accept it, a selected string has a broken escape, or the stamp that the
/// document carries is doubled or none that spinney could have written: removing such a one might turn a document that the
/// server refuses into one that it accepts.
pub fn scan<'a>(source: &'a [u8], selection: &Selection) -> Result<Document<'a>, JsonError> {
    let mut cursor = Cursor::new(source)?;
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
    Ok(Document {
        values: scanner.values,
        cut: Cut {
            insert_at,
            keeps_members,
            removals,
        },
        texts_present: scanner.texts_present,
    })
}

/// A container on the way to a selected field.
struct Open {
    object: bool,
    place: Place,
}

struct Scanner<'a, 's> {
    cursor: Cursor<'a>,
    selection: &'s Selection,
    open: Vec<Open>,
    values: Vec<Value<'a>>,
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
                stamp_value(&mut self.cursor)?;
                let member = start..self.cursor.pos();
                check_stamp(self.cursor.slice(member.clone()), start)?;
                self.members.stamp(bit, member)?;
            } else {
                self.value_of(Place::TOP, &name)?;
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
    fn value_of(&mut self, parent: Place, name: &[u8]) -> Result<(), JsonError> {
        match self.selection.step(parent, name) {
            Some(place) => {
                self.present(place);
                self.value(place)
            }
            None => self.cursor.skip_value(),
        }
    }

    fn present(&mut self, place: Place) {
        for selected in self.selection.selected(place) {
            if let Selected::Text(text) = selected {
                self.texts_present |= text_bit(*text);
            }
        }
    }

    /// The value at a place of the selection, with everything inside it.
    fn value(&mut self, place: Place) -> Result<(), JsonError> {
        let floor = self.open.len();
        let mut next = Some(place);
        loop {
            if let Some(place) = next.take()
                && self.begin(place)?
                && let Some(inside) = self.open.last().map(|open| (open.object, open.place))
            {
                next = self.element(inside)?;
                continue;
            }
            // A value has ended: close containers until one goes on.
            loop {
                if self.open.len() <= floor {
                    return Ok(());
                }
                let Some((object, place)) = self.open.last().map(|open| (open.object, open.place))
                else {
                    return Ok(());
                };
                self.cursor.blank()?;
                match (self.cursor.peek(), object) {
                    (Some(b','), _) => {
                        self.cursor.pass(b',', "a comma")?;
                        next = self.element((object, place))?;
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

    /// Begins a value: a scalar is read whole, a container with something in it is opened (then the answer is true).
    fn begin(&mut self, place: Place) -> Result<bool, JsonError> {
        let (object, close) = match self.cursor.peek() {
            Some(b'{') => (true, b'}'),
            Some(b'[') => (false, b']'),
            _ => {
                let scalar = self.cursor.scalar()?;
                self.read(place, &scalar)?;
                return Ok(false);
            }
        };
        self.cursor
            .pass(if object { b'{' } else { b'[' }, "a container")?;
        if self.cursor.peek() == Some(close) {
            self.cursor.pass_only(close, "the end of a container")?;
            return Ok(false);
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(JsonError::TooDeep {
                at: self.cursor.pos(),
            });
        }
        self.open.push(Open { object, place });
        Ok(true)
    }

    /// The next element of an open container. `None`: it held nothing selected and has been passed whole.
    fn element(&mut self, (object, place): (bool, Place)) -> Result<Option<Place>, JsonError> {
        if !object {
            return Ok(Some(place));
        }
        let key = self.cursor.key()?;
        let name = self.cursor.key_bytes(&key)?;
        let inner = self.selection.step(place, &name);
        match inner {
            Some(inner) => self.present(inner),
            None => self.cursor.skip_value()?,
        }
        Ok(inner)
    }

    fn read(&mut self, place: Place, scalar: &Scalar) -> Result<(), JsonError> {
        let selected = self.selection.selected(place);
        if selected.is_empty() {
            return Ok(());
        }
        let text = match scalar {
            Scalar::String(string) => self.cursor.text(string)?,
            Scalar::Number(span) => String::from_utf8_lossy(self.cursor.slice(span.clone())),
            Scalar::True | Scalar::False | Scalar::Null => return Ok(()),
        };
        self.values.extend(selected.iter().map(|&selected| Value {
            selected,
            text: text.clone(),
        }));
        Ok(())
    }
}

/// Passes what a stamp member can hold: a scalar or an array of scalars. The caller checks the bytes.
fn stamp_value(cursor: &mut Cursor<'_>) -> Result<(), JsonError> {
    let at = cursor.pos();
    match cursor.peek() {
        Some(b'{') => return Err(JsonError::ForeignStamp { at }),
        Some(b'[') => {}
        _ => return cursor.scalar().map(|_| ()),
    }
    cursor.pass(b'[', "an array")?;
    if cursor.peek() == Some(b']') {
        return cursor.pass_only(b']', "a closing bracket");
    }
    loop {
        if let Some(b'{' | b'[') = cursor.peek() {
            return Err(JsonError::ForeignStamp { at });
        }
        cursor.scalar()?;
        cursor.blank()?;
        match cursor.peek() {
            Some(b',') => cursor.pass(b',', "a comma")?,
            Some(b']') => return cursor.pass_only(b']', "a closing bracket"),
            _ => return Err(cursor.unexpected("a comma or a closing bracket")),
        }
    }
}

/// The most bytes of a stamp member that is removed. A real one has some hundred; the servers refuse over-long numbers and strings.
const MAX_STAMP_MEMBER: usize = 64 * 1024;

/// The most digits of a number that is removed: the servers refuse one of more than 1,000.
const MAX_STAMP_NUMBER: usize = 100;

/// Checks a member that is to be removed more strictly than anything that stays: were it the only thing that the server would
/// refuse in this document, removing it would repair the document.
fn check_stamp(member: &[u8], at: usize) -> Result<(), JsonError> {
    let foreign = JsonError::ForeignStamp { at };
    let control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    if member.len() > MAX_STAMP_MEMBER
        || std::str::from_utf8(member).is_err()
        || member.iter().any(control)
    {
        return Err(foreign);
    }
    let mut cursor = Cursor::new(member)?;
    let key = cursor.key()?;
    check_string(&cursor, &key, &foreign)?;
    while let Some(byte) = cursor.peek() {
        match byte {
            b'[' | b']' | b',' => cursor.pass(byte, "part of an array")?,
            _ => {
                match cursor.scalar()? {
                    Scalar::String(string) => check_string(&cursor, &string, &foreign)?,
                    Scalar::Number(span) if span.len() > MAX_STAMP_NUMBER => return Err(foreign),
                    _ => {}
                }
                cursor.blank()?;
            }
        }
    }
    Ok(())
}

/// A string to be removed has sound escapes and no raw control characters.
fn check_string(
    cursor: &Cursor<'_>,
    string: &RawString,
    foreign: &JsonError,
) -> Result<(), JsonError> {
    cursor.key_bytes(string).map_err(|_| foreign.clone())?;
    if cursor
        .slice(string.span.clone())
        .iter()
        .any(|&byte| byte < b' ')
    {
        return Err(foreign.clone());
    }
    Ok(())
}

/// Collects which members and commas of the document go.
#[derive(Default)]
struct Members {
    /// Stamp members seen, one bit each.
    seen: u8,
    keeps: bool,
    /// The last comma passed, while nothing stands behind it.
    comma: Option<usize>,
    /// Stamp members since the last kept one, each with the comma before it.
    trailing: Vec<(Option<usize>, Range<usize>)>,
    removals: Vec<Range<usize>>,
}

impl Members {
    fn stamp(&mut self, bit: u8, member: Range<usize>) -> Result<(), JsonError> {
        if self.seen & bit != 0 {
            return Err(JsonError::Duplicate { at: member.start });
        }
        self.seen |= bit;
        let comma = self.comma.take();
        self.trailing.push((comma, member));
        Ok(())
    }

    fn comma(&mut self, at: usize) {
        self.comma = Some(at);
    }

    /// A member stays: the stamp members before it go with the comma that follows each of them.
    fn kept(&mut self) {
        self.keeps = true;
        let last = self.comma.take();
        if self.trailing.is_empty() {
            return;
        }
        let mut trailing = std::mem::take(&mut self.trailing).into_iter();
        let mut member = trailing.next().map(|(_, member)| member);
        while let Some(current) = member.take() {
            let following = trailing.next();
            let comma = following.as_ref().map_or(last, |(comma, _)| *comma);
            self.remove(current);
            if let Some(comma) = comma {
                self.remove(comma..comma + 1);
            }
            member = following.map(|(_, member)| member);
        }
    }

    /// The document ends: the stamp members at its end go with the comma before each of them.
    fn finish(mut self) -> (bool, Vec<Range<usize>>) {
        for (comma, member) in std::mem::take(&mut self.trailing) {
            if let Some(comma) = comma {
                self.remove(comma..comma + 1);
            }
            self.remove(member);
        }
        (self.keeps, self.removals)
    }

    /// Ranges come in order; those that touch become one.
    fn remove(&mut self, range: Range<usize>) {
        match self.removals.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.removals.push(range),
        }
    }
}
