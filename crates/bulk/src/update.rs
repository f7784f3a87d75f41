//! The documents inside the source of an update.

use std::ops::Range;

use super::cursor::{JsonCursor, JsonError, Scalar};

/// Which document of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdatePart {
    /// Merged into the stored document.
    Doc,
    /// Stored if there is none yet.
    Upsert,
}

/// The relevant parts of an update's source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpdateSource {
    /// The value of `doc`, in bytes of the source. It need not be an object.
    pub doc: Option<Range<usize>>,
    /// The value of `upsert`, in bytes of the source. It need not be an object.
    pub upsert: Option<Range<usize>>,
    /// Whether `doc` is also the document to insert if none exists.
    pub doc_as_upsert: bool,
    /// Whether there is a script.
    pub script: bool,
}

impl UpdateSource {
    /// The documents in the order of the source, as a [`super::Splice`] wants them.
    pub fn parts(&self) -> impl Iterator<Item = (UpdatePart, Range<usize>)> + use<> {
        let doc = self.doc.clone().map(|range| (UpdatePart::Doc, range));
        let upsert = self.upsert.clone().map(|range| (UpdatePart::Upsert, range));
        let upsert_first = match (&doc, &upsert) {
            (Some((_, doc)), Some((_, upsert))) => upsert.start < doc.start,
            _ => false,
        };
        let (first, second) = if upsert_first { (upsert, doc) } else { (doc, upsert) };
        first.into_iter().chain(second)
    }
}

/// Finds the documents inside the source of an update. Bytes behind the closing brace are ignored, as the servers do.
///
/// # Errors
/// The bytes are not an object in the servers' JSON, or a relevant key occurs twice.
pub fn scan_update(source: &[u8]) -> Result<UpdateSource, JsonError> {
    let mut cursor = JsonCursor::new(source)?;
    let mut update = UpdateSource::default();
    let mut seen = 0u8;
    cursor.pass(b'{', "an object")?;
    if cursor.peek() == Some(b'}') {
        return Ok(update);
    }
    loop {
        let at = cursor.pos();
        let key = cursor.key()?;
        let name = cursor.key_bytes(&key)?;
        let start = cursor.pos();
        let bit = match &*name {
            b"doc" => {
                cursor.skip_value()?;
                update.doc = Some(start..cursor.pos());
                1
            }
            b"upsert" => {
                cursor.skip_value()?;
                update.upsert = Some(start..cursor.pos());
                2
            }
            b"doc_as_upsert" => {
                update.doc_as_upsert = match cursor.scalar()? {
                    Scalar::True => true,
                    Scalar::String(text) => *cursor.key_bytes(&text)? == b"true"[..],
                    _ => false,
                };
                4
            }
            b"script" => {
                cursor.skip_value()?;
                update.script = true;
                8
            }
            _ => {
                cursor.skip_value()?;
                0
            }
        };
        if seen & bit != 0 {
            return Err(JsonError::Duplicate { at });
        }
        seen |= bit;
        cursor.blank()?;
        match cursor.peek() {
            Some(b',') => cursor.pass(b',', "a comma")?,
            Some(b'}') => return Ok(update),
            _ => return Err(cursor.unexpected("a comma or a closing brace")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_the_order_of_the_source() {
        let source = br#" {"upsert": {"b":2} , "doc":{"a":[1,"}"]},"detect_noop":false}"#;
        let update = scan_update(source).unwrap();
        let parts: Vec<_> =
            update.parts().map(|(part, range)| (part, std::str::from_utf8(&source[range]).unwrap())).collect();
        assert_eq!(parts, [(UpdatePart::Upsert, r#"{"b":2}"#), (UpdatePart::Doc, r#"{"a":[1,"}"]}"#)]);
        assert!(!update.doc_as_upsert && !update.script);
        let update = scan_update(br#"{"doc":{},"upsert":{}}"#).unwrap();
        let parts: Vec<_> = update.parts().map(|(part, _)| part).collect();
        assert_eq!(parts, [UpdatePart::Doc, UpdatePart::Upsert]);
    }

    #[test]
    fn flags() {
        let read = |source: &str| scan_update(source.as_bytes()).unwrap();
        assert!(read(r#"{"doc":{},"doc_as_upsert":true}"#).doc_as_upsert);
        assert!(read(r#"{"doc":{},"doc_as_upsert":"true"}"#).doc_as_upsert);
        assert!(!read(r#"{"doc":{},"doc_as_upsert":false}"#).doc_as_upsert);
        assert!(!read(r#"{"doc":{},"doc_as_upsert":null}"#).doc_as_upsert);
        let update = read(r#"{"script":{"source":"x"},"scripted_upsert":true,"upsert":{}}"#);
        assert!(update.script && update.doc.is_none() && update.upsert.is_some());
        assert_eq!(read("{}"), UpdateSource::default());
        assert_eq!(read(r#"{"doc":null}"#).doc, Some(7..11));
        assert_eq!(read(r#"/**/{"do\u0063":{}} behind"#).doc, Some(16..18));
    }

    #[test]
    fn what_is_not_understood() {
        let fail = |source: &str| scan_update(source.as_bytes()).unwrap_err();
        assert_eq!(fail(r#"{"doc":{},"doc":{}}"#), JsonError::Duplicate { at: 10 });
        assert_eq!(fail(r#"{"doc":{},"d\u006fc":{}}"#), JsonError::Duplicate { at: 10 });
        assert!(matches!(fail(""), JsonError::Unfinished { at: 0 }));
        assert!(matches!(fail("[]"), JsonError::Unexpected { at: 0, .. }));
        assert!(matches!(fail(r#"{"doc":{}"#), JsonError::Unfinished { .. }));
        assert!(matches!(fail(r#"{"doc":{},}"#), JsonError::Unexpected { at: 10, .. }));
        assert!(matches!(fail(r#"{"doc_as_upsert":[]}"#), JsonError::Unexpected { at: 17, .. }));
    }
}
