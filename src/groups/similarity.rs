//! How similar two texts are: the Jaccard similarity of their shingles, exactly where the method's proofs estimate it.

use serde_json::Value;

use super::source::values;
use crate::text::shingles::Shingles;
use crate::text::{Fields, Scratch};

/// The shingles of a text, each once, in ascending order. `None`: it has no text.
pub(super) type ShingleSet = Option<Vec<u32>>;

/// Reads texts again as they were read when they were stamped.
#[derive(Default)]
pub(super) struct TextReader {
    scratch: Scratch,
    shingles: Shingles,
}

impl TextReader {
    /// The shingles of a document's text, or of its title if it has no text.
    pub(super) fn shingles(&mut self, source: &Value, text: &[String], title: Option<&str>) -> ShingleSet {
        let body: Vec<&str> = text.iter().flat_map(|field| strings(source, field)).collect();
        let fields = Fields { title: title.and_then(|title| strings(source, title).next()), body: &body };
        let text = self.scratch.read(&fields)?;
        self.shingles.read(&text);
        let mut windows = self.shingles.shingle_hashes.clone();
        windows.sort_unstable();
        windows.dedup();
        Some(windows)
    }
}

/// Of the shingles in either text, those in both: 0 to 1. Texts without any are the same if both have none.
pub(super) fn jaccard(a: &[u32], b: &[u32]) -> f32 {
    let (mut at, mut common) = (0, 0usize);
    for shingle in a {
        while b.get(at).is_some_and(|other| other < shingle) {
            at += 1;
        }
        common += usize::from(b.get(at) == Some(shingle));
    }
    let either = a.len() + b.len() - common;
    if either == 0 { 1.0 } else { common as f32 / either as f32 }
}

/// The strings of a field.
fn strings<'v>(source: &'v Value, path: &str) -> impl Iterator<Item = &'v str> {
    values(source, path).into_iter().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_found_however_they_are_written() {
        let found = |source: Value, path: &str| {
            let found: Vec<&str> = strings(&source, path).collect();
            found.join("|")
        };
        assert_eq!(found(json!({"a": "x", "ab": "y"}), "a"), "x");
        assert_eq!(found(json!({"a": {"b": "x"}, "a.b": "y"}), "a.b"), "x|y");
        assert_eq!(found(json!({"a": [{"b.c": ["x", 1, "y"]}]}), "a.b.c"), "x|y");
        assert_eq!(found(json!({"a": 1, "b": {"c": "x"}}), "a"), "");
        assert_eq!(found(json!({"b": {"c": "x"}}), "b"), "");
    }

    #[test]
    fn texts_are_compared_by_what_is_cleaned() {
        let mut reader = TextReader::default();
        let mut of = |source: Value| reader.shingles(&source, &["content".into()], Some("title"));
        let text = "The harbour was closed at noon because of the storm, officials said on Tuesday.";
        let plain = of(json!({"content": text})).unwrap();
        let marked = of(json!({"content": format!("<p>{}</p>", text.to_uppercase())})).unwrap();
        assert_eq!(jaccard(&plain, &marked), 1.0);
        let other = of(json!({"content": "Nothing of this stands in the other one at all, not a word."}));
        assert_eq!(jaccard(&plain, &other.unwrap()), 0.0);
        assert_eq!(of(json!({"content": ""})), None);
        assert!(of(json!({"content": "", "title": "The harbour was closed at noon"})).is_some());
    }

    proptest! {
        #[test]
        fn as_sets_do(
            a in prop::collection::btree_set(0u32..20, 0..15),
            b in prop::collection::btree_set(0u32..20, 0..15),
        ) {
            let lists: [Vec<u32>; 2] = [a.iter().copied().collect(), b.iter().copied().collect()];
            let (common, either) = (a.intersection(&b).count(), a.union(&b).collect::<BTreeSet<_>>().len());
            let naive = if either == 0 { 1.0 } else { common as f32 / either as f32 };
            prop_assert_eq!(jaccard(&lists[0], &lists[1]), naive);
        }
    }
}
