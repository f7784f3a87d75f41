//! A bulk body as items, in the order in which the server answers them.

use std::borrow::Cow;
use std::ops::Range;

use super::action;
use super::cursor::JsonError;

/// What an item does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    Index,
    Create,
    Update,
    Delete,
}

impl Op {
    /// The operation's name in actions and answers.
    pub fn name(self) -> &'static str {
        match self {
            Op::Index => "index",
            Op::Create => "create",
            Op::Update => "update",
            Op::Delete => "delete",
        }
    }

    /// The operation of this name.
    pub fn from_name(name: &[u8]) -> Option<Op> {
        [Op::Index, Op::Create, Op::Update, Op::Delete]
            .into_iter()
            .find(|op| op.name().as_bytes() == name)
    }
}

/// An action with its source. Offsets are bytes of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item<'a> {
    /// An `index` with `op_type: create` is a `Create`, as in the server's answer.
    pub op: Op,
    /// The index that the action names; otherwise the one in the request's path counts.
    pub index: Option<Cow<'a, str>>,
    pub id: Option<Cow<'a, str>>,
    pub routing: Option<Cow<'a, str>>,
    /// The action line without its newline.
    pub action: Range<usize>,
    /// The source line without its newline and a `\r` before that; a delete has none.
    pub source: Option<Range<usize>>,
}

/// Why a body was not understood. It goes on as it came, and the server refuses it whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the bulk body: {kind}")]
pub struct BulkError {
    /// The line, counted from 1.
    pub line: usize,
    pub kind: BulkErrorKind,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BulkErrorKind {
    #[error("the last line has no newline; end the body with one")]
    NoFinalNewline,
    #[error("the action is not an operation with its metadata: {0}")]
    Action(#[from] JsonError),
}

/// Splits a bulk body into its items.
///
/// The law is the servers': a line of blanks where an action could be is passed over, one where a source must be is the source,
/// and a last action without a source is dropped. An operation that no server knows is passed over together with its source,
/// as Elasticsearch 7 does; the others refuse the request, so nothing is lost there.
///
/// # Errors
/// What every server refuses as a whole: an action line that is no action, or a body without a final newline.
pub fn parse(body: &[u8]) -> Result<Vec<Item<'_>>, BulkError> {
    let mut lines = Lines {
        body,
        next: 0,
        count: 0,
    };
    let mut items = Vec::new();
    while let Some(action_range) = lines.next()? {
        let line = body.get(action_range.clone()).unwrap_or_default();
        let read = action::read(line).map_err(|error| BulkError {
            line: lines.count,
            kind: error.into(),
        })?;
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
            return Err(BulkError {
                line: self.count,
                kind: BulkErrorKind::NoFinalNewline,
            });
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
