//! What of a title or text matches the words of a search: the cluster marks it, the templates escape it.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::list_params::words_query;
use super::{PageRequest, fields, script};
use crate::engine::ReaderFields;
use crate::groups::answer::GroupSummary;
use crate::text::readable;

/// Characters that the cluster puts around a match. They are for private use, and never become markup: a document that
/// has them itself only marks more of its text.
const OPEN: char = '\u{e000}';
const CLOSE: char = '\u{e001}';

/// Of a snippet's characters, one in this many stands before the first match.
const BEFORE: usize = 4;

/// A stretch of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub text: String,
    pub is_match: bool,
}

/// Marked values of fields, by index and id.
pub(super) type Highlights = HashMap<(String, String), Map<String, Value>>;

/// Asks the cluster to mark the words in the representatives of groups; empty where it cannot.
pub(super) async fn highlights(
    page: &PageRequest<'_>,
    raw_index: &str,
    words: &str,
    groups: &[GroupSummary],
    names: &ReaderFields,
) -> Highlights {
    let ids: Vec<&str> = groups.iter().map(|group| group.representative.id.as_str()).collect();
    let marked: Map<String, Value> =
        names.text.iter().chain(&names.title).map(|field| (field.clone(), json!({}))).collect();
    if ids.is_empty() || marked.is_empty() {
        return Highlights::new();
    }
    let body = json!({
        // Several indices may have a document of the same id.
        "size": ids.len() * 2,
        "track_total_hits": false,
        "_source": false,
        "query": {"bool": {"must": [words_query(words, names)], "filter": [{"ids": {"values": ids}}]}},
        // The whole field: a fragment might begin inside a tag.
        "highlight": {
            "pre_tags": [OPEN], "post_tags": [CLOSE], "number_of_fragments": 0, "fields": marked,
        },
    });
    let Ok(mut found) = page.search(raw_index, &body).await else {
        return Highlights::new();
    };
    let hits = found.pointer_mut("/hits/hits").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
    let marked = hits.into_iter().filter_map(|mut hit| {
        let name = |of: &str| hit.get(of).and_then(Value::as_str).map(str::to_owned);
        let name = name("_index").zip(name("_id"))?;
        match hit.get_mut("highlight").map(Value::take) {
            Some(Value::Object(marked)) => Some((name, marked)),
            _ => None,
        }
    });
    marked.collect()
}

/// The marked text of the first of these fields that has a match.
pub(super) fn marked<'n>(
    highlights: &Map<String, Value>,
    mut fields: impl Iterator<Item = &'n String>,
) -> Option<String> {
    fields.find_map(|field| {
        let values = highlights.get(field)?.as_array()?.iter().filter_map(Value::as_str);
        Some(values.collect::<Vec<_>>().join(" "))
    })
}

/// At most `most` characters from the beginning of a text that is no HTML, such as a title.
pub(super) fn line(text: &str, most: usize) -> Vec<Segment> {
    cut(&fields::beginning(text, usize::MAX), most, 0)
}

/// At most `most` characters of a text without its markup, as one line, around its first match.
pub(super) fn snippet(text: &str, most: usize) -> Vec<Segment> {
    let readable = readable(text);
    let line = fields::beginning(&readable, usize::MAX);
    let first = line.split_once(OPEN).map_or(0, |(before, _)| before.chars().count());
    let skipped = if first > most / 2 { first - most / BEFORE } else { 0 };
    cut(&line, most, skipped)
}

/// At most `most` characters behind the first `skipped`, marks not counted.
fn cut(line: &str, most: usize, skipped: usize) -> Vec<Segment> {
    let mut segments = vec![Segment { text: String::new(), is_match: false }];
    let mut is_match = false;
    // A word that is cut in its middle is left out, where words have blanks between them.
    let mut is_cut = skipped > 0;
    let (mut at, mut shown) = (0, 0);
    if is_cut {
        push(&mut segments, '…', false);
    }
    for c in line.chars() {
        match c {
            OPEN => {
                is_match = true;
                is_cut = false;
                continue;
            }
            CLOSE => {
                is_match = false;
                continue;
            }
            _ => at += 1,
        }
        if at <= skipped || is_cut && c.is_ascii_alphanumeric() {
            continue;
        }
        is_cut = false;
        if shown == most {
            push(&mut segments, '…', false);
            break;
        }
        shown += 1;
        push(&mut segments, c, is_match);
    }
    segments.retain(|segment| !segment.text.is_empty());
    segments
}

/// The `lang` attribute of segments.
pub(super) fn lang_of(segments: &[Segment]) -> &'static str {
    script::lang_of(&segments.iter().map(|segment| segment.text.as_str()).collect::<String>())
}

fn push(segments: &mut Vec<Segment>, c: char, is_match: bool) {
    match segments.last_mut() {
        Some(last) if last.is_match == is_match => last.text.push(c),
        _ => segments.push(Segment { text: c.into(), is_match }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str, most: usize) -> String {
        let text = text.replace('[', &OPEN.to_string()).replace(']', &CLOSE.to_string());
        let segments = snippet(&text, most).into_iter();
        segments.map(|segment| if segment.is_match { format!("[{}]", segment.text) } else { segment.text }).collect()
    }

    #[test]
    fn the_match_is_in_it() {
        assert_eq!(shown("The [harbour] was closed", 100), "The [harbour] was closed");
        assert_eq!(shown("nothing is marked here", 7), "nothing…");
        let long = format!("{}the [ferry] left {}", "word ".repeat(100), "more ".repeat(100));
        let snippet = shown(&long, 40);
        assert!(
            snippet.starts_with("… word") && snippet.contains("the [ferry] left") && snippet.ends_with('…'),
            "{snippet}"
        );
        assert_eq!(shown("<p>The <b>[harbour]</b>\n was &lt;closed&gt;</p>", 100), "The [harbour] was <closed>");
        assert_eq!(shown(&format!("{}[台风]登陆", "天气".repeat(100)), 8), "…天气[台风]登陆");
        assert_eq!(shown("", 10), "");
    }

    #[test]
    fn fields_in_their_order() {
        let marks = json!({"title": ["a"], "lead": ["b", "c"]});
        let names = ["content", "lead", "title"].map(str::to_owned);
        assert_eq!(marked(marks.as_object().unwrap(), names.iter()).as_deref(), Some("b c"));
        assert_eq!(marked(&Map::new(), names.iter()), None);
    }

    proptest! {
        #[test]
        fn never_longer_than_asked_for(text in "(a|b |\u{e000}|\u{e001}|中|<p>|&amp;){0,60}", most in 1_usize..30) {
            let segments = snippet(&text, most);
            let shown: usize = segments.iter().map(|segment| segment.text.chars().count()).sum();
            prop_assert!(shown <= most + 2);
            prop_assert!(segments.windows(2).all(|pair| pair[0].is_match != pair[1].is_match));
        }
    }
}
