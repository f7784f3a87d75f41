//! Documents changed by a write, read from its response, for counting.

/// The servers take names of 255 bytes.
const NAME_BYTES: usize = 255;

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

/// The documents that a write has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Positions at which the index of items changes: each entry holds for its item and all that follow, up to the
    /// next entry. Empty where the response does not name indices.
    pub indices: Vec<(usize, String)>,
    /// Items that replaced or deleted a document.
    pub replaced: Vec<usize>,
    /// Whether an accepted item has no result: it may have replaced a document.
    pub is_vague: bool,
    index: Vec<u8>,
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

    /// Begins the name of an item's index.
    pub(super) fn begin_index(&mut self) {
        self.index.clear();
    }

    /// Appends bytes of the name.
    pub(super) fn push_index(&mut self, bytes: &[u8]) {
        // One extra byte marks a truncated name.
        let free = (NAME_BYTES + 1).saturating_sub(self.index.len());
        self.index.extend_from_slice(bytes.get(..free).unwrap_or(bytes));
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
    }

    fn take(&mut self, item: usize, result: Option<WriteResult>) {
        let known = self.indices.last().map(|(_, name)| name.as_bytes());
        if known != Some(&*self.index) {
            let name = plain(&self.index).unwrap_or_default().to_owned();
            self.indices.push((item, name));
        }
        match result {
            None => self.is_vague = true,
            Some(WriteResult::Updated | WriteResult::Deleted) => self.replaced.push(item),
            Some(WriteResult::Created | WriteResult::Noop | WriteResult::NotFound) => {}
        }
    }
}

/// Returns a name without escapes. In kept text a backslash stands in for an escaped byte.
fn plain(text: &[u8]) -> Option<&str> {
    let is_plain = !text.is_empty() && text.len() <= NAME_BYTES && !text.contains(&b'\\');
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
        assert_eq!(changes.replaced, [1, 3, 6]);
        assert!(!changes.is_vague);
    }

    #[test]
    fn changes_of_a_single_document() {
        let one = changes(
            r#"{"_index":"news-1","_id":"a","_version":2,"result":"updated","_shards":{"_id":"x","result":"noop"},"_seq_no":1,"_primary_term":1}"#,
        );
        assert_eq!(one.index_of(0), Some("news-1"));
        assert_eq!(one.replaced, [0]);
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
        assert_eq!(changes.replaced, [1]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let item = |n: usize| format!(r#"{{"index":{{"_index":"n","_id":"{n}","status":201,"result":"created"}}}}"#);
        let items: Vec<String> = (0..200).map(item).collect();
        let changes = changes(&format!(r#"{{"items":[{}]}}"#, items.join(",")));
        assert_eq!((changes.indices.len(), changes.replaced.len()), (1, 0));
        let long = "x".repeat(5000);
        let changes = self::changes(&format!(r#"{{"_index":"{long}","_id":"1","result":"updated"}}"#));
        assert_eq!((changes.index_of(0), &*changes.replaced), (None, &[0][..]));
        assert!(changes.index.capacity() <= 2 * NAME_BYTES, "{}", changes.index.capacity());
    }
}
