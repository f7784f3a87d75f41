//! One action line: the operation and the metadata that spinney needs. The line itself is never touched.

use std::borrow::Cow;

use super::cursor::{JsonCursor, JsonError, Scalar};
use super::op::Op;

/// Content of an action line.
#[derive(Debug)]
pub(super) struct Action<'a> {
    /// `None` for a name that is no operation: OpenSearch and Elasticsearch 8 refuse the request, Elasticsearch 7
    /// passes over the action and its source.
    pub op: Option<Op>,
    pub index: Option<Cow<'a, str>>,
    pub id: Option<Cow<'a, str>>,
    pub routing: Option<Cow<'a, str>>,
}

/// Parses an action line; `None` for blanks and comments. The first key is the operation; bytes behind its metadata
/// object are ignored, as the servers do.
pub(super) fn read(line: &[u8]) -> Result<Option<Action<'_>>, JsonError> {
    let mut cursor = JsonCursor::new(line)?;
    if cursor.peek().is_none() {
        return Ok(None);
    }
    cursor.pass(b'{', "an object")?;
    let name = cursor.key()?;
    let op = Op::from_name(&cursor.key_bytes(&name)?);
    let mut action = Action { op, index: None, id: None, routing: None };
    cursor.pass(b'{', "the metadata object")?;
    if cursor.peek() == Some(b'}') {
        return Ok(Some(action));
    }
    loop {
        let key = cursor.key()?;
        let name = cursor.key_bytes(&key)?;
        if let Some(b'{' | b'[') = cursor.peek() {
            cursor.skip_value()?;
        } else {
            let scalar = cursor.scalar()?;
            let value = || text(&cursor, &scalar);
            match &*name {
                b"_index" => action.index = value()?.or(action.index),
                b"_id" => action.id = value()?.or(action.id),
                // An empty routing is none to the servers.
                b"routing" => {
                    action.routing = value()?.or(action.routing).filter(|routing| !routing.is_empty());
                }
                b"op_type" if op == Some(Op::Index) && value()?.as_deref() == Some("create") => {
                    action.op = Some(Op::Create);
                }
                _ => {}
            }
        }
        cursor.blank()?;
        match cursor.peek() {
            Some(b',') => cursor.pass(b',', "a comma")?,
            Some(b'}') => return Ok(Some(action)),
            _ => return Err(cursor.unexpected("a comma or a closing brace")),
        }
    }
}

/// A metadata value as text: numbers and booleans verbatim, null as nothing.
fn text<'a>(cursor: &JsonCursor<'a>, scalar: &Scalar) -> Result<Option<Cow<'a, str>>, JsonError> {
    Ok(match scalar {
        Scalar::String(string) => Some(cursor.text(string)?),
        Scalar::Number(span) => Some(String::from_utf8_lossy(cursor.slice(span.clone()))),
        Scalar::True => Some(Cow::Borrowed("true")),
        Scalar::False => Some(Cow::Borrowed("false")),
        Scalar::Null => None,
    })
}
