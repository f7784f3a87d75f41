//! Cursors: the position at which a page ended, as text for the client.
//!
//! ```text
//! base64url of | checksum 8 | JSON: [version, place, total, listing, list] |
//! ```
//!
//! The checksum covers the request (index, query, sort), so that a cursor of another request is detected. It is not a
//! signature: a forged cursor only asks for a page that its author may request anyway.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::answer::Relation;
use super::request::RequestError;

/// Raised whenever a cursor of the version before would be misread.
const VERSION: u8 = 3;

/// The longest value of a field that a cluster sorts by, in bytes: the longest term of its index.
const LONGEST_VALUE: usize = 32_766;
/// The longest cursor in characters: one value with every byte escaped as `\u0000`, in base64, and a few numbers.
const MAX_CHARS: usize = (6 * LONGEST_VALUE + 1_024) / 3 * 4;

/// Where a page of groups ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PageCursor {
    /// The place of the last group.
    pub place: CursorPosition,
    /// The number of groups of the first page, with its relation.
    pub total: Option<(u64, Relation)>,
    /// Which groups the order is read from.
    pub listing: Listing,
    /// The id of the cached list of them; `None`: they are in the roots index, or not listed yet.
    pub list: Option<u64>,
}

/// Which groups an order by number of documents is read from: the first page decides, and the others go on with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Listing {
    /// Those of two or more documents under the query: a walk finds the others.
    Repeated,
    /// All groups of the query.
    All,
    /// Those of two or more documents in the whole index: the ones with a document under the query are shown, and a
    /// walk finds the others.
    Index,
}

/// A place in the order of groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum CursorPosition {
    /// After this group of the list or of the roots index; `None`: at its beginning.
    Listed(Option<ListedGroup>),
    /// At this place of the walk; `None`: at its beginning.
    Walked(Option<WalkPlace>),
}

/// A group as lists have it: its documents, the latest time of one of them (the smallest number: none has a time), its
/// key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListedGroup {
    pub count: u64,
    pub last: i64,
    pub key: i64,
}

/// A place in the order of a walk. Documents without the value that the walk sorts by are behind all others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum WalkPlace {
    /// After this document that has a value: the value, as the cluster answered it, and the key of its group.
    Valued { value: Value, key: i64 },
    /// After the documents of this group that have none; `None`: at the beginning of those.
    Missing(Option<i64>),
}

/// A document in the order of a walk: the value that it is sorted by, as the cluster answered it, or `None` if it has
/// none, and the key of its group.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WalkedDocument {
    pub value: Option<Value>,
    pub key: i64,
}

impl WalkedDocument {
    /// The place after it.
    pub(super) fn place(&self) -> WalkPlace {
        match &self.value {
            Some(value) => WalkPlace::Valued { value: value.clone(), key: self.key },
            None => WalkPlace::Missing(Some(self.key)),
        }
    }
}

const UNREADABLE: RequestError =
    RequestError::Cursor("is not one that spinney gave out for this index, query and sort");

/// Encodes a cursor; `question` is a hash of the request.
pub(super) fn encode<T: Serialize>(cursor: &T, question: u64) -> String {
    // Cannot fail: numbers, and values that were parsed from JSON.
    let json = serde_json::to_vec(&(VERSION, cursor)).unwrap_or_default();
    let mut bytes = xxh3_64_with_seed(&json, question).to_le_bytes().to_vec();
    bytes.extend_from_slice(&json);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The cursor of a text.
///
/// # Errors
/// When it was not made by [`encode`] for the same question.
pub(super) fn decode<T: for<'de> Deserialize<'de>>(text: &str, question: u64) -> Result<T, RequestError> {
    if text.len() > MAX_CHARS {
        return Err(UNREADABLE);
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| UNREADABLE)?;
    let (checksum, json) = bytes.split_first_chunk::<8>().ok_or(UNREADABLE)?;
    if xxh3_64_with_seed(json, question).to_le_bytes() != *checksum {
        return Err(UNREADABLE);
    }
    let (version, cursor) = serde_json::from_slice::<(u8, T)>(json).map_err(|_| UNREADABLE)?;
    if version == VERSION { Ok(cursor) } else { Err(UNREADABLE) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values as long as a cluster may answer them, whatever is in them, and one that is longer than any.
    #[test]
    fn the_longest_values_come_back() {
        for one in ["\u{1}", "\"", "x", "\u{7f}", "\u{e9}", "\u{6f22}", "\u{1f333}"] {
            for bytes in [0, 1, LONGEST_VALUE - 1, LONGEST_VALUE] {
                let cursor = PageCursor {
                    place: CursorPosition::Walked(Some(WalkPlace::Valued {
                        value: one.repeat(bytes / one.len()).into(),
                        key: i64::MIN,
                    })),
                    total: Some((u64::MAX, Relation::AtLeast)),
                    listing: Listing::Repeated,
                    list: Some(u64::MAX),
                };
                let text = encode(&cursor, u64::MAX);
                assert!(text.len() <= MAX_CHARS);
                assert!(decode::<PageCursor>(&text, u64::MAX).unwrap() == cursor, "{one:?} {bytes}");
            }
        }
        let text = "A".repeat(MAX_CHARS + 1);
        assert!(decode::<PageCursor>(&text, 0).is_err());
    }

    fn places() -> impl Strategy<Value = CursorPosition> {
        let listed = (any::<u64>(), any::<i64>(), any::<i64>());
        let value = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            (-1e9f64..1e9).prop_map(Value::from),
            ".{0,20}".prop_map(Value::from),
        ];
        prop_oneof![
            Just(CursorPosition::Listed(None)),
            Just(CursorPosition::Walked(None)),
            listed.prop_map(|(count, last, key)| CursorPosition::Listed(Some(ListedGroup { count, last, key }))),
            (value, any::<i64>())
                .prop_map(|(value, key)| CursorPosition::Walked(Some(WalkPlace::Valued { value, key }))),
            any::<Option<i64>>().prop_map(|after| CursorPosition::Walked(Some(WalkPlace::Missing(after)))),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            place in places(), total in any::<Option<(u64, u8)>>(), nth: u8, list in any::<Option<u64>>(),
            question: u64,
        ) {
            let relations = [Relation::Equal, Relation::AtLeast, Relation::About];
            let total = total.map(|(value, nth)| (value, relations[usize::from(nth % 3)]));
            let listing = [Listing::Repeated, Listing::All, Listing::Index][usize::from(nth % 3)];
            let cursor = PageCursor { place, total, listing, list };
            let text = encode(&cursor, question);
            prop_assert!(text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_'));
            prop_assert_eq!(decode::<PageCursor>(&text, question), Ok(cursor));
        }

        /// What a server wrote is sent back with the same digits.
        #[test]
        fn fractions_keep_every_digit(
            value in any::<f64>().prop_filter("JSON has no others", |value| value.is_finite()),
        ) {
            let text = Value::from(value).to_string();
            let read: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read.to_string(), text);
        }

        #[test]
        fn a_changed_or_foreign_one_is_refused(
            place in places(), question: u64, other: u64, at: prop::sample::Index, to in "[A-Za-z0-9_-]",
        ) {
            let cursor = PageCursor { place, total: None, listing: Listing::All, list: None };
            let text = encode(&cursor, question);
            if other != question {
                prop_assert!(decode::<PageCursor>(&text, other).is_err());
            }
            let at = at.index(text.len());
            let changed = format!("{}{to}{}", &text[..at], &text[at + 1..]);
            if changed != text {
                prop_assert!(decode::<PageCursor>(&changed, question).is_err());
            }
            prop_assert!(decode::<PageCursor>(&text[..at], question).is_err());
        }

        #[test]
        fn any_text_is_refused(text in ".{0,200}") {
            prop_assert!(decode::<PageCursor>(&text, 0).is_err());
        }
    }
}
