//! Parses stored documents, and responses that contain them.

use serde_json::{Map, Number, Value};

use super::cursor::{JsonCursor, JsonError, Scalar};

/// Deepest nesting of a value; deeper ones are read as null. Mappings of the servers end at 20 levels, and whatever
/// serialises a value stops at 128.
const MOST_LEVELS: usize = 100;

/// Parses what a server stores and returns: its parser accepts more than JSON. Comments are left out, halves of a
/// surrogate pair and bytes that are no UTF-8 read as U+FFFD, numbers beyond an `f64` as strings. Of two members with
/// one name the later one counts.
///
/// # Errors
/// If the text is none that a server stores, or more than one value.
pub fn stored_value(json: &[u8]) -> Result<Value, JsonError> {
    if let Ok(value) = serde_json::from_slice(json) {
        return Ok(value);
    }
    let mut cursor = JsonCursor::new(json)?;
    let value = read(&mut cursor, MOST_LEVELS)?;
    cursor.blank()?;
    if cursor.peek().is_some() { Err(cursor.unexpected("the end")) } else { Ok(value) }
}

/// Reads a value with at most `levels` nested containers.
fn read(cursor: &mut JsonCursor<'_>, levels: usize) -> Result<Value, JsonError> {
    match cursor.peek() {
        Some(b'{' | b'[') if levels == 0 => {
            cursor.skip_value()?;
            Ok(Value::Null)
        }
        Some(b'{') => object(cursor, levels - 1),
        Some(b'[') => array(cursor, levels - 1),
        _ => scalar(cursor),
    }
}

fn object(cursor: &mut JsonCursor<'_>, levels: usize) -> Result<Value, JsonError> {
    let mut members = Map::new();
    cursor.pass(b'{', "an object")?;
    if cursor.peek() != Some(b'}') {
        loop {
            let key = cursor.key()?;
            let key = cursor.text(&key)?.into_owned();
            members.insert(key, element(cursor, levels)?);
            if cursor.peek() != Some(b',') {
                break;
            }
            cursor.pass(b',', "a comma")?;
        }
    }
    cursor.pass_only(b'}', "a comma or a closing brace")?;
    Ok(Value::Object(members))
}

fn array(cursor: &mut JsonCursor<'_>, levels: usize) -> Result<Value, JsonError> {
    let mut items = Vec::new();
    cursor.pass(b'[', "an array")?;
    if cursor.peek() != Some(b']') {
        loop {
            items.push(element(cursor, levels)?);
            if cursor.peek() != Some(b',') {
                break;
            }
            cursor.pass(b',', "a comma")?;
        }
    }
    cursor.pass_only(b']', "a comma or a closing bracket")?;
    Ok(Value::Array(items))
}

/// Reads a value in a container, and the white space after it.
fn element(cursor: &mut JsonCursor<'_>, levels: usize) -> Result<Value, JsonError> {
    cursor.byte_order_mark();
    let value = read(cursor, levels)?;
    cursor.blank()?;
    Ok(value)
}

fn scalar(cursor: &mut JsonCursor<'_>) -> Result<Value, JsonError> {
    Ok(match cursor.scalar()? {
        Scalar::String(string) => Value::String(cursor.text(&string)?.into_owned()),
        Scalar::Number(range) => {
            let digits = String::from_utf8_lossy(cursor.slice(range));
            digits.parse::<Number>().map_or_else(|_| Value::String(digits.into_owned()), Value::Number)
        }
        Scalar::True => Value::Bool(true),
        Scalar::False => Value::Bool(false),
        Scalar::Null => Value::Null,
    })
}

#[cfg(test)]
#[path = "stored_tests.rs"]
mod tests;
