//! The items of a bulk body, in the order of the server's response.

use std::borrow::Cow;
use std::ops::Range;

use super::action;
use super::cursor::JsonError;
use super::op::Op;

/// An action with its source. Offsets are bytes of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item<'a> {
    /// An `index` with `op_type: create` is a `Create`, as in the server's answer.
    pub op: Op,
    /// The index that the action names; otherwise the one in the request's path counts.
    pub index: Option<Cow<'a, str>>,
    /// The document's id, if the action names one.
    pub id: Option<Cow<'a, str>>,
    /// Routing of the document, if the action has one.
    pub routing: Option<Cow<'a, str>>,
    /// The action line without its newline.
    pub action: Range<usize>,
    /// The source line without its newline and a `\r` before that; a delete has none.
    pub source: Option<Range<usize>>,
}

/// An error that makes the body unreadable. It is forwarded unchanged, and the server refuses it as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the bulk body: {kind}")]
pub struct BulkError {
    /// The line, counted from 1.
    pub line: usize,
    /// Kind of the error.
    pub kind: BulkErrorKind,
}

/// Kind of an error in a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BulkErrorKind {
    /// The last line does not end.
    #[error("the last line has no newline; end the body with one")]
    NoFinalNewline,
    /// An action line that is no action.
    #[error("the action is not an operation with its metadata: {0}")]
    Action(#[from] JsonError),
}

/// Splits a bulk body into its items.
///
/// The rules are the servers': a blank line in place of an action is skipped, one in place of a source is the source,
/// and a last action without a source is dropped. An unknown operation is skipped together with its source, as
/// Elasticsearch 7 does; the other servers refuse the request, so nothing is lost there.
///
/// # Errors
/// Errors for which every server refuses the whole body: a line that is no action, or no final newline.
pub fn parse(body: &[u8]) -> Result<Vec<Item<'_>>, BulkError> {
    let mut lines = Lines { body, next: 0, count: 0 };
    let mut items = Vec::new();
    while let Some(action_range) = lines.next()? {
        let line = body.get(action_range.clone()).unwrap_or_default();
        let read = action::read(line).map_err(|error| BulkError { line: lines.count, kind: error.into() })?;
        let Some(action) = read else { continue };
        let source = if action.op == Some(Op::Delete) {
            None
        } else {
            match lines.next()? {
                Some(source) => Some(without_return(body, source)),
                None => break,
            }
        };
        let Some(op) = action.op else { continue };
        items.push(Item {
            op,
            index: action.index,
            id: action.id,
            routing: action.routing,
            action: action_range,
            source,
        });
    }
    Ok(items)
}

struct Lines<'a> {
    body: &'a [u8],
    next: usize,
    count: usize,
}

impl Lines<'_> {
    /// The next line without its newline, `None` at the end of the body.
    fn next(&mut self) -> Result<Option<Range<usize>>, BulkError> {
        let rest = self.body.get(self.next..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        self.count += 1;
        let Some(length) = memchr::memchr(b'\n', rest) else {
            return Err(BulkError { line: self.count, kind: BulkErrorKind::NoFinalNewline });
        };
        let line = self.next..self.next + length;
        self.next = line.end + 1;
        Ok(Some(line))
    }
}

fn without_return(body: &[u8], line: Range<usize>) -> Range<usize> {
    match body.get(line.clone()).and_then(<[u8]>::last) {
        Some(b'\r') => line.start..line.end - 1,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each item as its operation, index, id, routing and source.
    fn read(body: &str) -> Vec<(Op, String, Option<&str>)> {
        let items = parse(body.as_bytes()).unwrap();
        let text = |value: &Option<Cow<'_, str>>| value.as_deref().unwrap_or("-").to_owned();
        items
            .iter()
            .map(|item| {
                let names = [text(&item.index), text(&item.id), text(&item.routing)].join(" ");
                (item.op, names, item.source.clone().map(|range| &body[range]))
            })
            .collect()
    }

    fn fail(body: &str) -> String {
        parse(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn every_operation_with_its_metadata() {
        let body = concat!(
            r#"{"index":{"_index":"news","_id":"1","routing":"r"}}"#,
            "\n",
            r#"{"a":1}"#,
            "\n",
            r#"{"create":{"_id":7}}"#,
            "\n{}\n",
            r#"{ "delete" : { "_id" : true } }"#,
            "\n",
            r#"{"update":{"_id":null,"_source":{"includes":["x"]},"retry_on_conflict":3,"routing":""}}"#,
            "\n",
            r#"{"doc":{}}"#,
            "\n",
            r#"{"index":{"op_type":"create","_index":"é\u00e9"}}"#,
            "\n{}\n",
            r#"{"index":{"op_type":"index"}}"#,
            "\n{}\n",
            r#"{"create":{"op_type":"index"}}"#,
            "\n{}\n",
        );
        let expected = [
            (Op::Index, "news 1 r", Some(r#"{"a":1}"#)),
            (Op::Create, "- 7 -", Some("{}")),
            (Op::Delete, "- true -", None),
            (Op::Update, "- - -", Some(r#"{"doc":{}}"#)),
            (Op::Create, "éé - -", Some("{}")),
            (Op::Index, "- - -", Some("{}")),
            (Op::Create, "- - -", Some("{}")),
        ];
        assert_eq!(read(body), expected.map(|(op, names, source)| (op, names.to_owned(), source)));
    }

    #[test]
    fn ranges_are_those_of_the_lines() {
        let body = "\n{\"index\":{}}\r\n{\"a\":1}\r\n{\"delete\":{}}\n";
        let items = parse(body.as_bytes()).unwrap();
        let ranges: Vec<_> = items.iter().map(|item| (item.action.clone(), item.source.clone())).collect();
        assert_eq!(ranges, [(1..14, Some(15..22)), (24..37, None)]);
    }

    #[test]
    fn blank_lines_are_skipped_only_where_an_action_could_be() {
        let body = "\n \t\r\n/* c */\n//\n\u{feff}\n{\"index\":{}}\n\n\n{\"index\":{}}\n\r\n";
        assert_eq!(read(body), [(Op::Index, "- - -".into(), Some("")), (Op::Index, "- - -".into(), Some(""))]);
        assert_eq!(read(""), []);
        assert_eq!(read("\n\n"), []);
    }

    #[test]
    fn a_last_action_without_its_source_is_dropped() {
        assert_eq!(read("{\"delete\":{}}\n{\"index\":{}}\n"), [(Op::Delete, "- - -".into(), None)]);
        assert_eq!(read("{\"update\":{}}\n"), []);
    }

    #[test]
    fn what_follows_the_metadata_is_not_looked_at() {
        for action in [
            r#"{"index":{}"#,
            r#"{"index":{}} x"#,
            r#"{"index":{},"create":{}}"#,
            r#"/**/{"inde\u0078":{}}"#,
            "\u{feff}{\"index\":{}}",
        ] {
            assert_eq!(read(&format!("{action}\n{{}}\n")).len(), 1, "{action}");
        }
    }

    #[test]
    fn an_unknown_operation_goes_with_its_source() {
        let body = "{\"upsert\":{}}\n{\"a\":1}\n{\"Index\":{}}\n{}\n{\"delete\":{\"_id\":1}}\n{\"what\":{}}\n";
        assert_eq!(read(body), [(Op::Delete, "- 1 -".into(), None)]);
    }

    #[test]
    fn what_every_server_refuses_is_reported_with_its_line() {
        assert_eq!(
            fail("{\"index\":{}}\n{}"),
            "line 2 of the bulk body: the last line has no newline; end the body with one"
        );
        assert_eq!(
            fail("\n{\"index\":{}}\n{}\n[]\n"),
            "line 4 of the bulk body: the action is not an operation with its metadata: expected an object at byte 0; \
             correct the JSON there"
        );
        for action in [
            "x",
            "{}",
            "{\"index\"}",
            "{\"index\":null}",
            "{\"index\":\"x\"}",
            "{\"index\":[]}",
            "{\"index\":{\"_id\":\"1\"",
            "{\"index\":{\"_id\":1,}}",
            "{\"index\":{\"_id\":\"\\x\"}}",
            "/*",
            "{\"index\":{\"_id\" 1}}",
        ] {
            let error = parse(format!("{{\"delete\":{{}}}}\n{action}\n{{}}\n").as_bytes()).unwrap_err();
            assert_eq!(error.line, 2, "{action}");
            assert!(matches!(error.kind, BulkErrorKind::Action(_)), "{action}");
        }
    }
}
