//! Scans the response to a bulk request for item statuses as it streams through.
//!
//! ```text
//! {"took":3,"errors":true,"items":[{"index":{"_index":"news","status":201}}, …]}
//! 1                               2 3        4                    ^ the number counted: depth and path decide, not the name
//! ```

use memchr::memchr2;

use super::document_changes::{Changes, WriteResult};
use super::op::Op;

/// Outcome of the items of a bulk request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ItemStatuses {
    /// The number of items.
    pub items: usize,
    /// The items that failed, by their position in the answer, with their HTTP status (300 or more). The delete of a
    /// document that isn't there has status 404 but no error, and is none.
    pub failed: Vec<(usize, u16)>,
    /// The items that changed nothing (`"result":"noop"`), by their position: updates without a change, and documents
    /// that an ingest pipeline has dropped.
    pub unchanged: Vec<usize>,
    /// The operation of each item; `None` for one that this answer doesn't name.
    pub ops: Vec<Option<Op>>,
    /// The changed documents, by index.
    pub changes: Box<Changes>,
    /// Whether each item has a status: `filter_path` can drop it.
    pub all_have_status: bool,
    /// Whether a response to a single document has the result `noop`.
    pub whole_is_unchanged: bool,
    /// Whether the answer is one whole JSON object, with at most one `items` and one operation per item.
    pub well_formed: bool,
}

impl ItemStatuses {
    /// Whether the answer has exactly these operations, in this order, each with its status. Only then do the positions
    /// in [`ItemStatuses::failed`] mean the items of the request.
    pub fn answers(&self, ops: impl IntoIterator<Item = Op>) -> bool {
        self.well_formed && self.all_have_status && ops.into_iter().map(Some).eq(self.ops.iter().copied())
    }
}

/// Deepest nesting of a response.
const MAX_DEPTH: usize = 4096;

/// The longest key that matters.
const KEY_BYTES: usize = 8;

/// Next token expected outside of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    Nothing,
}

/// The token that the last chunk may have ended in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    None,
    String { escape: bool },
    Scalar,
}

/// A push scanner of the response to a bulk request, for chunks cut anywhere. Keeps about two bytes an item, and
/// nothing of the text.
#[derive(Debug, Clone)]
pub struct ResponseScanner {
    expect: Expect,
    token: Token,
    /// Open containers, true for objects.
    open: Vec<bool>,
    /// The start of the string or scalar being read, and its full length.
    word: [u8; KEY_BYTES],
    word_len: usize,
    in_items: bool,
    items_seen: bool,
    /// Whether the last key was `status` of an item.
    at_status: bool,
    /// Whether the last key was `items` of the response.
    at_items: bool,
    /// Whether the last key was `result` of an item or of the response.
    at_result: bool,
    /// Whether the last key was `_index` of an item or of the response.
    at_index: bool,
    op: Option<Op>,
    /// The item has a member `error`.
    error: bool,
    /// Whether the item was a no-op.
    unchanged: bool,
    ops_in_item: u8,
    status_seen: bool,
    status: Option<u16>,
    outcome: ItemStatuses,
    broken: bool,
}

impl Default for ResponseScanner {
    fn default() -> Self {
        ResponseScanner {
            expect: Expect::Value,
            token: Token::None,
            open: Vec::new(),
            word: [0; KEY_BYTES],
            word_len: 0,
            in_items: false,
            items_seen: false,
            at_status: false,
            at_items: false,
            at_result: false,
            at_index: false,
            unchanged: false,
            op: None,
            error: false,
            ops_in_item: 0,
            status_seen: false,
            status: None,
            outcome: ItemStatuses { all_have_status: true, ..ItemStatuses::default() },
            broken: false,
        }
    }
}

impl ResponseScanner {
    /// Reads the next bytes of the answer, decoded from any content encoding.
    pub fn push(&mut self, chunk: &[u8]) {
        let mut rest = chunk;
        while !self.broken && !rest.is_empty() {
            rest = match self.token {
                Token::String { escape } => self.in_string(rest, escape),
                Token::Scalar => self.in_scalar(rest),
                Token::None => self.between(rest),
            };
        }
    }

    /// Returns the outcome once the whole response was pushed.
    pub fn finish(mut self) -> ItemStatuses {
        if !self.items_seen {
            // The response to a single document counts as one item.
            self.outcome.changes.end(0, true);
        }
        self.outcome.well_formed = !self.broken && self.expect == Expect::Nothing && self.token == Token::None;
        self.outcome
    }

    /// Outside of tokens: blanks, punctuation, the first byte of a token.
    fn between<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some((&byte, after)) = bytes.split_first() else {
            return bytes;
        };
        match (byte, self.expect) {
            (b' ' | b'\t' | b'\n' | b'\r', _) => {}
            (b'{', Expect::Value | Expect::ValueOrEnd) => self.begin(true),
            (b'[', Expect::Value | Expect::ValueOrEnd) => self.begin(false),
            (b'}', Expect::KeyOrEnd) => self.end(true),
            (b']', Expect::ValueOrEnd) => self.end(false),
            (b'}', Expect::CommaOrEnd) => self.end(true),
            (b']', Expect::CommaOrEnd) => self.end(false),
            (b',', Expect::CommaOrEnd) => {
                self.expect = if self.open.last() == Some(&true) { Expect::Key } else { Expect::Value };
            }
            (b':', Expect::Colon) => self.expect = Expect::Value,
            (b'"', Expect::Value | Expect::ValueOrEnd | Expect::Key | Expect::KeyOrEnd) => {
                self.word_len = 0;
                self.token = Token::String { escape: false };
            }
            (b'-' | b'0'..=b'9' | b't' | b'f' | b'n', Expect::Value | Expect::ValueOrEnd) => {
                self.word_len = 0;
                self.token = Token::Scalar;
                return bytes;
            }
            _ => self.broken = true,
        }
        after
    }

    fn in_string<'a>(&mut self, bytes: &'a [u8], escape: bool) -> &'a [u8] {
        if escape {
            // Relevant keys have no escapes; any other byte stands in for one.
            self.keep(b"\\");
            self.token = Token::String { escape: false };
            return bytes.get(1..).unwrap_or_default();
        }
        let Some(found) = memchr2(b'"', b'\\', bytes) else {
            self.keep(bytes);
            return &[];
        };
        let (text, rest) = bytes.split_at_checked(found).unwrap_or((bytes, &[]));
        self.keep(text);
        if rest.first() == Some(&b'\\') {
            self.token = Token::String { escape: true };
        } else {
            self.token = Token::None;
            match self.expect {
                Expect::Key | Expect::KeyOrEnd => self.key(),
                _ => {
                    self.string();
                    self.value();
                }
            }
        }
        rest.get(1..).unwrap_or_default()
    }

    fn in_scalar<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        let length = bytes.iter().take_while(|byte| part(byte)).count();
        let (word, rest) = bytes.split_at_checked(length).unwrap_or((bytes, &[]));
        self.keep(word);
        if !rest.is_empty() {
            self.token = Token::None;
            self.scalar();
            self.value();
        }
        rest
    }

    /// Keeps the start of a token and counts its bytes.
    fn keep(&mut self, bytes: &[u8]) {
        let free = self.word.get_mut(self.word_len..).unwrap_or_default();
        for (slot, &byte) in free.iter_mut().zip(bytes) {
            *slot = byte;
        }
        self.word_len = self.word_len.saturating_add(bytes.len());
        if self.at_index {
            self.outcome.changes.push_index(bytes);
        }
    }

    /// The token just read, empty if it was longer than any that matters.
    fn word(&self) -> &[u8] {
        self.word.get(..self.word_len).unwrap_or_default()
    }

    /// A key has ended.
    fn key(&mut self) {
        self.expect = Expect::Colon;
        self.at_items = false;
        self.at_status = false;
        self.at_index = false;
        self.at_result = false;
        if self.open.len() == 1 || self.in_items && self.open.len() == 4 {
            self.at_result = self.word() == b"result";
            self.at_index = self.word() == b"_index";
            if self.at_index {
                self.outcome.changes.begin_index();
            }
        }
        match self.open.len() {
            1 => {
                self.at_items = self.word() == b"items";
                self.broken |= self.at_items && self.items_seen;
                self.items_seen |= self.at_items;
            }
            3 if self.in_items => {
                self.op = Op::from_name(self.word());
                self.ops_in_item = self.ops_in_item.saturating_add(1);
            }
            4 if self.in_items => {
                self.at_status = self.word() == b"status";
                self.broken |= self.at_status && self.status_seen;
                self.status_seen |= self.at_status;
                self.error |= self.word() == b"error";
            }
            _ => {}
        }
    }

    /// A string that is no key has ended.
    fn string(&mut self) {
        if !self.at_result {
            return;
        }
        let result = WriteResult::of(self.word());
        self.outcome.changes.result(result);
        if result == Some(WriteResult::Noop) {
            match self.open.len() {
                1 => self.outcome.whole_is_unchanged = true,
                4 => self.unchanged = true,
                _ => {}
            }
        }
    }

    /// A number or a literal has ended: check it and take a status.
    fn scalar(&mut self) {
        let word = self.word();
        // An empty word is one too long to be kept: a long fraction, such as a score.
        let number = word.first().is_none_or(|byte| matches!(byte, b'-' | b'0'..=b'9'));
        let literal = matches!(word, b"true" | b"false" | b"null");
        let digits = word.iter().all(u8::is_ascii_digit);
        let status = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
        if !number && !literal {
            self.broken = true;
        }
        if self.at_status && self.in_items && self.open.len() == 4 {
            if number && !digits {
                self.broken = true;
            }
            self.status = status;
        }
    }

    /// A value has ended.
    fn value(&mut self) {
        match self.open.len() {
            0 => self.broken = true,
            // An item or an operation that is no object.
            2 if self.in_items => self.item(),
            _ => {}
        }
        self.at_status = false;
        self.at_result = false;
        self.at_index = false;
        self.expect = Expect::CommaOrEnd;
    }

    fn begin(&mut self, object: bool) {
        if self.open.len() >= MAX_DEPTH || (self.open.is_empty() && !object) {
            self.broken = true;
            return;
        }
        if self.open.len() == 1 && self.at_items {
            self.in_items = !object;
        }
        self.at_index = false;
        self.open.push(object);
        self.expect = if object { Expect::KeyOrEnd } else { Expect::ValueOrEnd };
    }

    fn end(&mut self, object: bool) {
        if self.open.pop() != Some(object) {
            self.broken = true;
            return;
        }
        match self.open.len() {
            0 => {
                self.expect = Expect::Nothing;
                return;
            }
            1 => self.in_items = false,
            2 if self.in_items => self.item(),
            _ => {}
        }
        self.expect = Expect::CommaOrEnd;
    }

    /// An item has ended.
    fn item(&mut self) {
        let position = self.outcome.items;
        let op = self.op.take();
        let error = std::mem::take(&mut self.error);
        if std::mem::take(&mut self.unchanged) {
            self.outcome.unchanged.push(position);
        }
        self.outcome.items += 1;
        self.outcome.ops.push(op);
        if self.ops_in_item > 1 {
            self.broken = true;
        }
        self.ops_in_item = 0;
        self.status_seen = false;
        let is_accepted = self.status.is_some_and(|status| status < 300);
        self.outcome.changes.end(position, is_accepted);
        match self.status.take() {
            Some(404) if op == Some(Op::Delete) && !error => {}
            Some(status) if status >= 300 => self.outcome.failed.push((position, status)),
            Some(_) => {}
            None => self.outcome.all_have_status = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str) -> ItemStatuses {
        let mut scanner = ResponseScanner::default();
        scanner.push(answer.as_bytes());
        let whole = scanner.finish();
        let mut scanner = ResponseScanner::default();
        for byte in answer.as_bytes() {
            scanner.push(std::slice::from_ref(byte));
            scanner.push(&[]);
        }
        assert_eq!(scanner.finish(), whole, "cut at every byte");
        whole
    }

    #[test]
    fn statuses_and_operations_in_order() {
        let outcome = read(
            r#"{"took":30,"errors":true,"items":[
                {"index":{"_index":"news","_id":"1","_version":1,"result":"created","_shards":{"total":2,"status":500},"status":201}},
                {"create":{"_id":"2","status":409,"error":{"type":"x","reason":"\"status\":200}]","caused_by":{"items":[{"index":{"status":1}}],"status":1}}}},
                {"delete":{"status":404,"_id":"st\\\"atus","result":"not_found"}},
                {"update":{"status":200}},
                {"delete":{"error":{"type":"index_not_found_exception"},"status":404}}]}"#,
        );
        assert!(outcome.well_formed && outcome.all_have_status);
        assert_eq!(outcome.items, 5);
        assert_eq!(outcome.failed, [(1, 409), (4, 404)]);
        let ops = [Op::Index, Op::Create, Op::Delete, Op::Update, Op::Delete];
        assert!(outcome.answers(ops));
        assert!(!outcome.answers([Op::Index, Op::Index, Op::Delete, Op::Update, Op::Delete]));
        assert!(!outcome.answers(ops.into_iter().take(4)));
        assert!(!outcome.answers(ops.into_iter().chain([Op::Index])));
    }

    #[test]
    fn filtered_answers() {
        for (answer, items) in [(r#"{"took":3,"errors":false}"#, 0), ("{}", 0), (r#"{"items":[]}"#, 0)] {
            let outcome = read(answer);
            assert!(outcome.well_formed && outcome.all_have_status, "{answer}");
            assert_eq!(outcome.items, items);
            assert!(outcome.answers([]));
            assert!(!outcome.answers([Op::Index]));
        }
        for answer in [
            r#"{"items":[{"index":{"error":{"status":400}}}]}"#,
            r#"{"items":[{"index":{"_id":"1"}}]}"#,
            r#"{"items":[{"index":{"status":"201"}}]}"#,
            r#"{"items":[{"index":{"status":null}}]}"#,
            r#"{"items":[{"index":[{"status":201}]}]}"#,
            r#"{"items":[{"index":201}]}"#,
            r#"{"items":[{}]}"#,
            r#"{"items":["index"]}"#,
            r#"{"items":[[{"index":{"status":201}}]]}"#,
        ] {
            let outcome = read(answer);
            assert_eq!(outcome.items, 1, "{answer}");
            assert!(!outcome.all_have_status || !outcome.well_formed, "{answer}");
            assert!(!outcome.answers([Op::Index]), "{answer}");
        }
        let outcome = read(r#"{"items":{"index":{"a":{"status":201}}},"x":[{"index":{"status":1}}]}"#);
        assert!(outcome.well_formed);
        assert_eq!(outcome.items, 0);
        let outcome = read(r#"{"items":[],"x":[{"index":{"status":500}}],"y":{"items":[{}]}}"#);
        assert!(outcome.well_formed && outcome.failed.is_empty());
        assert_eq!(outcome.items, 0);
    }

    #[test]
    fn what_changed_nothing() {
        let outcome = read(
            r#"{"items":[{"index":{"result":"noop","status":200}},{"index":{"x":{"result":"noop"},"result":"created","status":201}},
                {"update":{"status":200,"result":"noop","_seq_no":1}},{"delete":{"result":["noop"],"status":200}}]}"#,
        );
        assert!(outcome.well_formed && outcome.failed.is_empty());
        assert_eq!(outcome.unchanged, [0, 2]);
        assert!(!outcome.whole_is_unchanged);
        for (answer, unchanged) in [
            (r#"{"_id":"1","result":"noop","_shards":{}}"#, true),
            (r#"{"_id":"noop","result":"created"}"#, false),
            (r#"{"a":{"result":"noop"}}"#, false),
            (r#"{"result":"noop2"}"#, false),
            (r#"{"result":{"x":"noop"}}"#, false),
        ] {
            assert_eq!(read(answer).whole_is_unchanged, unchanged, "{answer}");
        }
    }

    #[test]
    fn a_refusal_of_the_whole_request_has_no_items() {
        let outcome = read(
            r#"{"error":{"root_cause":[{"type":"illegal_argument_exception","reason":"The bulk request must be terminated by a newline [\\n]"}]},"status":400}"#,
        );
        assert!(outcome.well_formed);
        assert_eq!(outcome.items, 0);
    }

    #[test]
    fn what_is_not_one_object_is_not_well_formed() {
        for answer in [
            "",
            " ",
            "[]",
            "1",
            "\"x\"",
            "{",
            "{\"a\"}",
            "{\"a\":1,}",
            "{,}",
            "{\"a\":1]",
            "{\"a\" 1}",
            "{\"a\":[1 2]}",
            "{\"a\":tru}",
            "{\"a\":x}",
            "{}{}",
            "{} x",
            "{\"a\":\"",
            "{\"items\":[],\"items\":[]}",
            "{\"items\":3,\"items\":[]}",
            "{\"items\":[],\"items\":null}",
            "{\"items\":[{\"index\":{\"status\":201},\"create\":{\"status\":201}}]}",
            "{\"items\":[{\"index\":{\"status\":201,\"status\":201}}]}",
            "{\"items\":[{\"index\":{\"status\":\"1\",\"status\":201}}]}",
            "{\"items\":[{\"index\":{\"status\":2e2}}]}",
            "took: 3\nerrors: false\n",
        ] {
            assert!(!read(answer).well_formed, "{answer:?}");
        }
        for answer in ["{}", " {} \n", "{\"a\":-1.5e+300,\"b\":0.1234567890123456789,\"c\":[null,true,[]]}"] {
            assert!(read(answer).well_formed, "{answer:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let mut answer = String::from("{\"a\":");
        answer.push_str(&"[".repeat(10_000));
        assert!(!read(&answer).well_formed);
    }
}
