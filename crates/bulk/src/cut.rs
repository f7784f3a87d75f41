//! Plans where a stamp is inserted and which parts of an older stamp are removed.
//!
//! A member is removed together with one comma, so that the remaining members keep exactly the commas they need:
//!
//! ```text
//! {"cluster_root":"…", "id":7, "cluster_key":1, "content":"…" , "cluster_hash":"…"}
//!  \_________________/         \______________/               \__________________/
//! ```

use std::ops::Range;

use super::cursor::{JsonCursor, JsonError, RawString, Scalar};

/// How to stamp a document: insert right after its brace and remove the stamp that it already carries. Offsets are
/// bytes into the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Right after the opening brace.
    pub insert_at: usize,
    /// Whether members stay after the removals: then a comma follows the stamp.
    pub keeps_members: bool,
    /// Disjoint ranges of members and commas to remove, in order.
    pub removals: Vec<Range<usize>>,
}

/// Skips the value of a stamp member that begins at byte `at`: a scalar or an array of scalars. The caller checks its
/// bytes.
pub(super) fn stamp_value(cursor: &mut JsonCursor<'_>, at: usize) -> Result<(), JsonError> {
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

/// The most bytes of a stamp member that is removed. A real one has some hundred; the servers refuse over-long numbers
/// and strings.
const MAX_STAMP_MEMBER: usize = 64 * 1024;

/// The most digits of a number that is removed: the servers refuse one of more than 1,000.
const MAX_STAMP_NUMBER: usize = 100;

/// Checks a member to be removed more strictly than others: removing the only member that the server would refuse would
/// repair the document.
pub(super) fn check_stamp(member: &[u8], at: usize) -> Result<(), JsonError> {
    let foreign = JsonError::ForeignStamp { at };
    let control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    if member.len() > MAX_STAMP_MEMBER || std::str::from_utf8(member).is_err() || member.iter().any(control) {
        return Err(foreign);
    }
    let mut cursor = JsonCursor::new(member)?;
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
fn check_string(cursor: &JsonCursor<'_>, string: &RawString, foreign: &JsonError) -> Result<(), JsonError> {
    cursor.key_bytes(string).map_err(|_| foreign.clone())?;
    if cursor.slice(string.span.clone()).iter().any(|&byte| byte < b' ') {
        return Err(foreign.clone());
    }
    Ok(())
}

/// Collects which members and commas of the document go.
#[derive(Default)]
pub(super) struct Members {
    /// Stamp members seen, one bit each.
    seen: u8,
    keeps: bool,
    /// Last comma, as long as nothing follows it.
    comma: Option<usize>,
    /// Stamp members since the last kept one, each with the comma before it.
    trailing: Vec<(Option<usize>, Range<usize>)>,
    removals: Vec<Range<usize>>,
}

impl Members {
    pub(super) fn stamp(&mut self, bit: u8, member: Range<usize>) -> Result<(), JsonError> {
        if self.seen & bit != 0 {
            return Err(JsonError::Duplicate { at: member.start });
        }
        self.seen |= bit;
        let comma = self.comma.take();
        self.trailing.push((comma, member));
        Ok(())
    }

    pub(super) fn comma(&mut self, at: usize) {
        self.comma = Some(at);
    }

    /// A member stays: the stamp members before it go with the comma that follows each of them.
    pub(super) fn kept(&mut self) {
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
    pub(super) fn finish(mut self) -> (bool, Vec<Range<usize>>) {
        for (comma, member) in std::mem::take(&mut self.trailing) {
            if let Some(comma) = comma {
                self.remove(comma..comma + 1);
            }
            self.remove(member);
        }
        (self.keeps, self.removals)
    }

    /// Adds a range; ranges are added in order, and adjacent ones are joined.
    fn remove(&mut self, range: Range<usize>) {
        match self.removals.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.removals.push(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::selection::{FieldNames, Selection};
    use super::super::splice::Splice;
    use super::super::stamp::Stamp;
    use super::*;

    fn selection() -> Selection {
        Selection::new(&FieldNames::default(), "c_").unwrap()
    }

    fn cut(source: &str) -> Result<Cut, JsonError> {
        super::super::document::scan(source.as_bytes(), &selection()).map(|document| document.cut)
    }

    fn stamped(source: &str) -> String {
        let stamp = Stamp { root: 1, is_local_fallback: false, hashes: &[], arrival: None, proof: None, first: None };
        let mut splice = Splice::default();
        splice.stamp(0, &cut(source).unwrap(), selection().names(), &stamp).unwrap();
        let mut out = Vec::new();
        splice.write_to(source.as_bytes(), &mut out);
        String::from_utf8(out).unwrap().replace(r#""c_root":"0000000000000001","c_key":1"#, "S")
    }

    #[test]
    fn a_stamp_stands_first_and_takes_a_comma_only_before_members() {
        for (source, expected) in [
            ("{}", "{S}"),
            ("{ }", "{S }"),
            ("{/* c */}", "{S/* c */}"),
            (r#"{"a":1}"#, r#"{S,"a":1}"#),
            (r#" /**/ { "a" : 1 } //"#, r#" /**/ {S, "a" : 1 } //"#),
            ("{//x\r\"a\":1}", "{S,//x\r\"a\":1}"),
            ("\u{feff}{}", "\u{feff}{S}"),
            (r#"{"a":1}{"b":2}"#, r#"{S,"a":1}{"b":2}"#),
            (r#"{"a":{"c_root":1}}"#, r#"{S,"a":{"c_root":1}}"#),
            (r#"{"c_roots":1,"c_":2}"#, r#"{S,"c_roots":1,"c_":2}"#),
        ] {
            assert_eq!(stamped(source), expected);
        }
    }

    #[test]
    fn an_older_stamp_goes_with_one_comma_a_member() {
        for (source, expected) in [
            (r#"{"c_root":"x"}"#, "{S}"),
            (r#"{ "c_root" : "x" }"#, "{S  }"),
            (r#"{"c_root":"x","a":1}"#, r#"{S,"a":1}"#),
            (r#"{"a":1,"c_root":"x"}"#, r#"{S,"a":1}"#),
            (r#"{"a":1,"c_root":"x","b":2}"#, r#"{S,"a":1,"b":2}"#),
            (r#"{"c_root":"x","c_key":1}"#, "{S}"),
            (r#"{"c_root":"x","c_key":1,"a":1}"#, r#"{S,"a":1}"#),
            (r#"{"a":1,"c_root":"x","c_key":1}"#, r#"{S,"a":1}"#),
            (r#"{"a":1,"c_root":"x","c_key":1,"b":2}"#, r#"{S,"a":1,"b":2}"#),
            (r#"{"c_root":"x","a":1,"c_key":1,"b":2,"c_hash":[]}"#, r#"{S,"a":1,"b":2}"#),
            (r#"{"c_proof":null,"c_hash":["a" , "b"],"c_arrival":"2026","c_root":"","c_key":-1.5e3}"#, "{S}"),
            (r#"{"\u0063_r\u006fot":"\u0041","a":1}"#, r#"{S,"a":1}"#),
            (
                "{ /*1*/ \"c_root\" /*2*/ : /*3*/ \"x\" /*4*/ , /*5*/ \"a\":1 /*6*/ , \"c_key\":1 /*7*/ }",
                "{S, /*1*/  /*4*/  /*5*/ \"a\":1 /*6*/   /*7*/ }",
            ),
        ] {
            assert_eq!(stamped(source), expected, "{source}");
        }
    }

    #[test]
    fn removals_touch_only_where_nothing_stands_between() {
        let removals = |source| cut(source).unwrap().removals;
        assert_eq!(removals(r#"{"c_key":1,"c_root":2,"a":1,"c_hash":3}"#), [1..22, 27..38]);
        assert_eq!(removals(r#"{"c_key":1 ,"a":1}"#), [1..10, 11..12]);
        assert_eq!(removals(r#"{"a":1 , "c_key":1}"#), [7..8, 9..18]);
        assert!(removals(r#"{"a":1}"#).is_empty());
    }

    #[test]
    fn a_stamp_that_spinney_never_wrote_is_not_removed() {
        let long_number = format!(r#"{{"c_key":{}}}"#, "1".repeat(101));
        let long_text = format!(r#"{{"c_proof":"{}"}}"#, "a".repeat(64 * 1024));
        for source in [
            r#"{"c_root":{"a":1}}"#,
            r#"{"c_root":[["a"]]}"#,
            r#"{"c_root":[{}]}"#,
            r#"{"c_root":"\x"}"#,
            r#"{"c_root":"\u12g4"}"#,
            "{\"c_root\":\"\u{1}\"}",
            "{\"c_root\":\"\n\"}",
            "{\"c_root\":/*\u{1}*/1}",
            &long_number,
            &long_text,
        ] {
            assert_eq!(cut(source), Err(JsonError::ForeignStamp { at: 1 }), "{source:.80}");
        }
        let invalid = super::super::document::scan(b"{\"c_root\":\"\xff\"}", &selection());
        assert_eq!(invalid.unwrap_err(), JsonError::ForeignStamp { at: 1 });
    }

    #[test]
    fn a_doubled_stamp_is_the_servers_to_refuse() {
        for source in [
            r#"{"c_root":"x","c_root":"y"}"#,
            r#"{"c_root":"x","\u0063_root":"y"}"#,
            r#"{"c_root":"x","a":1,"c_root":"x"}"#,
        ] {
            assert!(matches!(cut(source), Err(JsonError::Duplicate { .. })), "{source}");
        }
    }
}
