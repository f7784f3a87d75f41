//! Documents changed by a write, read from its response, for counting.

use std::collections::VecDeque;

/// Last items of a response whose ids are kept.
const LAST: usize = 64;

/// The servers take ids of 512 bytes and names of 255.
const WORD_BYTES: usize = 512;

/// Result of a write as reported by the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteResult {
    Created,
    Updated,
    Deleted,
    Noop,
    NotFound,
}

impl WriteResult {
    /// Converts a kept value; an overlong one is empty.
    pub(super) fn of(word: &[u8]) -> Option<WriteResult> {
        match word {
            b"created" => Some(WriteResult::Created),
            b"updated" => Some(WriteResult::Updated),
            b"deleted" => Some(WriteResult::Deleted),
            b"noop" => Some(WriteResult::Noop),
            // `not_found`.
            b"" => Some(WriteResult::NotFound),
            _ => None,
        }
    }
}

/// A value of an item that is kept whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptValue {
    Index,
    Id,
    SeqNo,
}

impl KeptValue {
    pub(super) fn of(key: &[u8]) -> Option<KeptValue> {
        match key {
            b"_index" => Some(KeptValue::Index),
            b"_id" => Some(KeptValue::Id),
            b"_seq_no" => Some(KeptValue::SeqNo),
            _ => None,
        }
    }
}

/// A document after a write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentChange {
    /// The place of its item.
    pub item: usize,
    /// Its id.
    pub id: String,
    /// The number of the operation in its shard.
    pub seq_no: u64,
    /// Whether it is not there any more.
    pub is_deleted: bool,
}

impl DocumentChange {
    /// A deleted document, with its id only.
    pub fn gone(id: &str) -> DocumentChange {
        DocumentChange { id: id.to_owned(), seq_no: u64::MAX, is_deleted: true, ..DocumentChange::default() }
    }
}

/// The documents that a write has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Positions at which the index of items changes: each entry holds for its item and all that follow, up to the
    /// next entry. Empty where the response does not name indices.
    pub indices: Vec<(usize, String)>,
    /// Items that replaced or deleted a document, with its id; empty where the response does not name it.
    pub replaced: Vec<(usize, String)>,
    /// The last documents that were written, in their order.
    pub last: VecDeque<DocumentChange>,
    /// Whether an accepted item has no result: it may have replaced a document.
    pub is_vague: bool,
    index: Vec<u8>,
    id: Vec<u8>,
    seq_no: Vec<u8>,
    result: Option<WriteResult>,
}

impl Changes {
    /// Changes of a write with an indeterminate outcome.
    pub fn unknown() -> Changes {
        Changes { is_vague: true, ..Changes::default() }
    }

    /// Index of an item, if the response names it.
    pub fn index_of(&self, item: usize) -> Option<&str> {
        let behind = self.indices.partition_point(|&(first, _)| first <= item);
        let (_, name) = self.indices.get(behind.checked_sub(1)?)?;
        (!name.is_empty()).then_some(name)
    }

    /// A value begins.
    pub(super) fn begin(&mut self, word: KeptValue) {
        self.buffer(word).clear();
    }

    /// Appends bytes of a value.
    pub(super) fn push(&mut self, word: KeptValue, bytes: &[u8]) {
        let buffer = self.buffer(word);
        // One extra byte marks a truncated value.
        let free = (WORD_BYTES + 1).saturating_sub(buffer.len());
        buffer.extend_from_slice(bytes.get(..free).unwrap_or(bytes));
    }

    fn buffer(&mut self, word: KeptValue) -> &mut Vec<u8> {
        match word {
            KeptValue::Index => &mut self.index,
            KeptValue::Id => &mut self.id,
            KeptValue::SeqNo => &mut self.seq_no,
        }
    }

    pub(super) fn result(&mut self, result: Option<WriteResult>) {
        self.result = result;
    }

    /// An item has ended.
    pub(super) fn end(&mut self, item: usize, is_accepted: bool) {
        let result = self.result.take();
        if is_accepted {
            self.take(item, result);
        }
        self.index.clear();
        self.id.clear();
        self.seq_no.clear();
    }

    fn take(&mut self, item: usize, result: Option<WriteResult>) {
        let known = self.indices.last().map(|(_, name)| name.as_bytes());
        if known != Some(&*self.index) {
            let name = plain(&self.index).unwrap_or_default().to_owned();
            self.indices.push((item, name));
        }
        let is_deleted = result == Some(WriteResult::Deleted);
        match result {
            None => self.is_vague = true,
            Some(WriteResult::Updated | WriteResult::Deleted) => {
                let id = plain(&self.id).unwrap_or_default();
                self.replaced.push((item, id.to_owned()));
            }
            Some(WriteResult::Created) => {}
            Some(WriteResult::Noop | WriteResult::NotFound) => return,
        }
        let seq_no = std::str::from_utf8(&self.seq_no).ok();
        let (Some(id), Some(seq_no)) = (plain(&self.id), seq_no.and_then(|n| n.parse().ok())) else {
            return;
        };
        // Its string is used again: no allocation for each item.
        let mut seen = match self.last.len() {
            LAST => self.last.pop_front().unwrap_or_default(),
            _ => DocumentChange::default(),
        };
        seen.id.clear();
        seen.id.push_str(id);
        self.last.push_back(DocumentChange { item, seq_no, is_deleted, ..seen });
    }
}

/// Returns a short text without escapes. In kept text a backslash stands in for an escaped byte.
fn plain(text: &[u8]) -> Option<&str> {
    let is_plain = !text.is_empty() && text.len() <= WORD_BYTES && !text.contains(&b'\\');
    std::str::from_utf8(text).ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::super::response::ResponseScanner;
    use super::*;

    fn changes(answer: &str) -> Changes {
        let mut whole = ResponseScanner::default();
        whole.push(answer.as_bytes());
        let mut cut = ResponseScanner::default();
        for byte in answer.as_bytes() {
            cut.push(std::slice::from_ref(byte));
        }
        let (whole, cut) = (whole.finish(), cut.finish());
        assert!(whole.well_formed, "{answer}");
        assert_eq!(whole.changes, cut.changes, "cut at every byte");
        *whole.changes
    }

    fn seen(item: usize, id: &str, seq_no: u64, is_deleted: bool) -> DocumentChange {
        let id = id.to_owned();
        DocumentChange { item, id, seq_no, is_deleted }
    }

    #[test]
    fn changes_of_a_bulk() {
        let changes = changes(
            r#"{"took":1,"_index":"x","items":[
            {"index":{"_index":"news-1","_id":"a","result":"created","_seq_no":7,"status":201}},
            {"index":{"_index":"news-1","_id":"b","_seq_no":12345678901,"result":"updated","status":200}},
            {"create":{"_index":"news-2","_id":"c","status":409,"error":{"_id":"z","result":"updated"}}},
            {"delete":{"_index":"news-2","_id":"d","_seq_no":3,"result":"deleted","status":200}},
            {"delete":{"_index":"news-2","_id":"e","_seq_no":4,"result":"not_found","status":404}},
            {"update":{"_index":"news-2","_id":"f","_seq_no":4,"result":"noop","status":200}},
            {"index":{"_index":"news-2","_id":"g\"h","_seq_no":5,"result":"updated","status":200}}]}"#,
        );
        assert_eq!(changes.indices, [(0, "news-1".to_owned()), (3, "news-2".to_owned())]);
        let index_of = |item| changes.index_of(item);
        assert_eq!([index_of(1), index_of(3), index_of(9)], [Some("news-1"), Some("news-2"), Some("news-2")]);
        let replaced = [(1, "b"), (3, "d"), (6, "")];
        assert_eq!(changes.replaced, replaced.map(|(at, id)| (at, id.to_owned())));
        let last = [seen(0, "a", 7, false), seen(1, "b", 12_345_678_901, false), seen(3, "d", 3, true)];
        assert_eq!(changes.last, last);
        assert!(!changes.is_vague);
    }

    #[test]
    fn changes_of_a_single_document() {
        let one = changes(
            r#"{"_index":"news-1","_id":"a","_version":2,"result":"updated","_shards":{"_id":"x","result":"noop"},"_seq_no":1,"_primary_term":1}"#,
        );
        assert_eq!(one.index_of(0), Some("news-1"));
        assert_eq!(one.replaced, [(0, "a".to_owned())]);
        assert_eq!(one.last, [seen(0, "a", 1, false)]);
        assert!(changes(r#"{"_id":"a"}"#).is_vague);
    }

    #[test]
    fn answers_that_say_too_little() {
        let changes = changes(
            r#"{"items":[{"index":{"status":201}},{"index":{"_index":"n","status":200,"result":"updated"}},{"index":{"status":201,"result":"created"}}]}"#,
        );
        assert!(changes.is_vague);
        let index_of = |item| changes.index_of(item);
        assert_eq!([index_of(0), index_of(1), index_of(2)], [None, Some("n"), None]);
        assert_eq!(changes.replaced, [(1, String::new())]);
        assert!(changes.last.is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let item = |n: usize| {
            format!(r#"{{"index":{{"_index":"n","_id":"{n}","_seq_no":{n},"status":201,"result":"created"}}}}"#)
        };
        let items: Vec<String> = (0..3 * LAST).map(item).collect();
        let changes = changes(&format!(r#"{{"items":[{}]}}"#, items.join(",")));
        assert_eq!(changes.last.len(), LAST);
        assert_eq!(changes.last.back().map(|seen| seen.item), Some(3 * LAST - 1));
        assert_eq!((changes.indices.len(), changes.replaced.len()), (1, 0));
        let long = "x".repeat(5000);
        let answer = format!(r#"{{"_index":"n","_id":"{long}","_seq_no":1,"result":"updated"}}"#);
        let changes = self::changes(&answer);
        assert_eq!(changes.replaced, [(0, String::new())]);
        assert!(changes.last.is_empty() && changes.id.len() <= WORD_BYTES + 1);
    }
}
