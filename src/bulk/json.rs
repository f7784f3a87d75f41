//! One pass over a document: the values of the selected fields, and where a stamp goes in.
//!
//! ```text
//! {"id":7, "cluster_root":"…", "content":"…"}
//!  ^        \_______________/^   \_________/
//!  insert_at    removals (the member, one comma)   value, borrowed where it has no escapes
//! ```

use std::borrow::Cow;

use super::cursor::{Cursor, JsonError, MAX_DEPTH, Scalar};
use super::cut::{Cut, Members, check_stamp, stamp_value};
use super::selection::{Place, Selected, Selection};

/// A value of a selected field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value<'a> {
    pub selected: Selected,
    /// The string with its escapes decoded, or the digits of a number as they stand. What is not valid Unicode reads as U+FFFD.
    pub text: Cow<'a, str>,
    /// It was a string.
    pub quoted: bool,
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

    /// The text of the first value of a selected field.
    pub fn first(&self, selected: Selected) -> Option<&str> {
        self.value(selected).map(|value| &*value.text)
    }

    /// The first value of a selected field.
    pub fn value(&self, selected: Selected) -> Option<&Value<'_>> {
        self.values.iter().find(|value| value.selected == selected)
    }
}

fn text_bit(place: u8) -> u64 {
    1u64.checked_shl(u32::from(place)).unwrap_or(0)
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
                stamp_value(&mut self.cursor, start)?;
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
            quoted: matches!(scalar, Scalar::String(_)),
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::selection::Fields;
    use super::*;

    fn selection() -> Selection {
        let fields = Fields {
            text: &["content", "article.body", "tags"],
            title: Some("title"),
            url: Some("url"),
            id: Some("id"),
            clock: Some("published.at"),
            own: Some("content"),
        };
        Selection::new(&fields, "cluster_").unwrap()
    }

    fn values(source: &str) -> Vec<(Selected, String)> {
        let selection = selection();
        let document = scan(source.as_bytes(), &selection).unwrap();
        document
            .values
            .into_iter()
            .map(|value| (value.selected, value.text.into_owned()))
            .collect()
    }

    fn texts(source: &str) -> Vec<String> {
        values(source).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn values_come_in_document_order() {
        let source = r#"{"title":"T","n":{"title":"no"},"id":12,"article":{"x":[{"y":"]}"}],"body":"B"},"url":null,"published":{"at":1.5e9},"content":"C"}"#;
        let expected = [
            (Selected::Title, "T"),
            (Selected::Id, "12"),
            (Selected::Text(1), "B"),
            (Selected::Clock, "1.5e9"),
            (Selected::Text(0), "C"),
            (Selected::Own, "C"),
        ];
        assert_eq!(
            values(source),
            expected.map(|(selected, text)| (selected, text.to_owned()))
        );
    }

    #[test]
    fn dotted_and_nested_names_and_arrays() {
        for source in [
            r#"{"article":{"body":["a","b"]}}"#,
            r#"{"article.body":["a","b"]}"#,
            r#"{"article":[{"body":"a"},{"x":[{}],"body":"b"}]}"#,
            r#"{"article.body":"a","article":{"body":[["b"],[]]}}"#,
            r#"{"art\u0069cle":{"b\u006fdy":"a"},"article\u002ebody":"b"}"#,
            r#"{"article":[[{"body":"a"}],{},[],{"body":["b",null,true,{"x":"no"}]}]}"#,
        ] {
            assert_eq!(texts(source), ["a", "b"], "{source}");
        }
        assert_eq!(
            texts(r#"{"article":{"body":{"body":"no"}},"body":"no","article.":"no"}"#),
            [""; 0]
        );
    }

    #[test]
    fn presence_is_told_even_without_a_value() {
        let selection = selection();
        let present = |source: &str| {
            let document = scan(source.as_bytes(), &selection).unwrap();
            assert_eq!(
                document.has_text(),
                (0..3).any(|place| document.has_text_field(place))
            );
            [0, 1, 2, 3, 64, 255].map(|place| document.has_text_field(place))
        };
        assert_eq!(
            present(r#"{"content":null}"#),
            [true, false, false, false, false, false]
        );
        assert_eq!(
            present(r#"{"article":{"body":[]}}"#),
            [false, true, false, false, false, false]
        );
        assert_eq!(
            present(r#"{"tags":{},"article.body":""}"#),
            [false, true, true, false, false, false]
        );
        assert_eq!(present(r#"{"title":"x","article":{"x":1}}"#), [false; 6]);
    }

    #[test]
    fn first_value() {
        let selection = selection();
        let document = scan(br#"{"tags":["a","b"],"id":"x"}"#, &selection).unwrap();
        assert_eq!(document.first(Selected::Text(2)), Some("a"));
        assert_eq!(document.first(Selected::Id), Some("x"));
        assert_eq!(document.first(Selected::Url), None);
    }

    #[test]
    fn text_is_borrowed_unless_it_has_escapes() {
        let selection = selection();
        let read = |source: &'static [u8]| scan(source, &selection).unwrap().values.remove(0).text;
        assert!(matches!(
            read("{\"tags\":\"中文\"}".as_bytes()),
            Cow::Borrowed("中文")
        ));
        assert!(matches!(read(br#"{"tags":"a\tb"}"#), Cow::Owned(text) if text == "a\tb"));
        assert_eq!(read(b"{\"tags\":\"a\xffb\"}"), "a\u{fffd}b");
        assert_eq!(read(b"{\"tags\":\"a\xff\\nb\"}"), "a\u{fffd}\nb");
        assert_eq!(
            read(br#"{"tags":"\uD83D\uDE00\u4e2d\/\"\\\b\f"}"#),
            "😀中/\"\\\u{8}\u{c}"
        );
        assert_eq!(
            read(br#"{"tags":"\ud83d \ud83d\u0041\ude00\ud83d\ud83d\ude00"}"#),
            "\u{fffd} \u{fffd}A\u{fffd}\u{fffd}😀"
        );
    }

    #[test]
    fn text_that_is_not_unicode_to_the_letter_is_read_as_far_as_it_goes() {
        // The servers store overlong forms, surrogates as bytes and code points beyond Unicode as they came.
        let selection = selection();
        for bytes in [
            &b"\xc0\x80"[..],
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\xf5\x80\x80\x80",
        ] {
            let source = [b"{\"tags\":\"a", bytes, b"z\",\"x", bytes, b"\":1}"].concat();
            let document = scan(&source, &selection).unwrap();
            let text = document.first(Selected::Text(2)).unwrap();
            assert!(text.starts_with('a') && text.ends_with('z') && text.contains('\u{fffd}'));
        }
    }

    #[test]
    fn another_encoding_is_not_understood() {
        let selection = selection();
        for source in ["{}", "{\"a\":1}", "{ }"] {
            let little: Vec<u8> = source.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let big: Vec<u8> = source.encode_utf16().flat_map(u16::to_be_bytes).collect();
            assert!(scan(&little, &selection).is_err());
            assert!(scan(&big, &selection).is_err());
        }
    }

    #[test]
    fn escapes_that_are_none_are_told_where_they_matter() {
        let selection = selection();
        let fail = |source: &str| scan(source.as_bytes(), &selection).unwrap_err();
        assert_eq!(fail(r#"{"tags":"\x"}"#), JsonError::Escape { at: 9 });
        assert_eq!(fail(r#"{"tags":"\u12g4"}"#), JsonError::Escape { at: 9 });
        assert_eq!(
            fail(r#"{"tags":"\ud83d\u1"}"#),
            JsonError::Unfinished { at: 20 }
        );
        assert_eq!(fail(r#"{"\x":1}"#), JsonError::Escape { at: 2 });
        assert!(scan(br#"{"x":"\x"}"#, &selection).is_ok());
    }

    #[test]
    fn comments_stand_anywhere() {
        let source = "/*a*/ // b\n {/*c*/\"content\"/*d*/:/*e*/[/*f*/\"x\"/*g*/,//h\r\"y\"/**/]/*i*/,/*j*/\"title\":{/***/}/* \"*/}";
        assert_eq!(texts(source), ["x", "x", "y", "y"]);
    }

    #[test]
    fn what_no_server_accepts() {
        let selection = selection();
        for source in [
            "",
            " ",
            "//",
            "/*",
            "/",
            "null",
            "[]",
            "\"x\"",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{,}",
            "{a:1}",
            "{'a':1}",
            "{\"a\" 1}",
            "{\"a\":01}",
            "{\"a\":1.}",
            "{\"a\":.5}",
            "{\"a\":+1}",
            "{\"a\":-}",
            "{\"a\":1e}",
            "{\"a\":nul}",
            "{\"a\":NaN}",
            "{\"a\":[1 2]}",
            "{\"a\":[1,]}",
            "{\"a\":[}",
            "{\"a\":{]}",
            "{\"a\":{\"b\":1]}",
            "{\"a\":\"",
            "{\"a\":\"\\\"}",
            "{\"a\":\"\\u00",
            "{\"a\":1}/",
            "{\"content\":[1}",
            "{\"article\":{\"body\":1]}",
            "{\"article\":{\"body\" 1}}",
            "{\"article\":[1 2]}",
        ] {
            // What follows the document is the server's to refuse.
            let behind = source == "{\"a\":1}/";
            assert_eq!(
                scan(source.as_bytes(), &selection).is_ok(),
                behind,
                "{source}"
            );
        }
    }

    #[test]
    fn depth_is_bounded_without_recursion() {
        let selection = selection();
        let nested = |field: &str, depth: usize| {
            format!("{{\"{field}\":{}{}}}", "[".repeat(depth), "]".repeat(depth))
        };
        for field in ["content", "other"] {
            for depth in [63, 64, 65, 128, 129, 1_000, 60_000] {
                assert!(
                    scan(nested(field, depth).as_bytes(), &selection).is_ok(),
                    "{field} {depth}"
                );
            }
            assert!(matches!(
                scan(nested(field, 70_000).as_bytes(), &selection),
                Err(JsonError::TooDeep { .. })
            ));
        }
        let mixed = format!(
            "{{\"x\":{}{}}}",
            "[{\"a\":".repeat(200) + "1",
            "}]".repeat(200)
        );
        assert!(scan(mixed.as_bytes(), &selection).is_ok());
        assert!(scan(mixed.replacen("}]", "]}", 1).as_bytes(), &selection).is_err());
        assert!(
            scan(
                mixed.replacen("}]}]}]}", "}]}}]]}", 1).as_bytes(),
                &selection
            )
            .is_err()
        );
    }
}
