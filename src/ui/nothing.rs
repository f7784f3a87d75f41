//! Why a list is empty, and the ways out.

use serde_json::{Map, Value, json};

use super::PageRequest;
use super::list_params::{ListParams, words_query};
use super::query_words::{single_words, without_word};
use super::url::QueryString;
use crate::engine::ReaderFields;
use crate::groups::GroupsPage;
use crate::groups::request::match_all;

/// Media that are proposed instead of one that does not exist.
const PROPOSED: usize = 12;

/// Characters of a medium's name by which others are found.
const NAME_CHARS: usize = 60;

/// A reason, and what to do about it.
pub(super) struct EmptyReason {
    /// The text before and after something that the reader typed, which has its own direction.
    pub text: (String, String),
    pub quoted: Option<String>,
    /// What to do, and its address.
    pub ways: Vec<(String, String)>,
}

/// A list without entries.
pub(super) struct EmptyList {
    pub title: &'static str,
    /// Said where there are no reasons.
    pub text: &'static str,
    pub reasons: Vec<EmptyReason>,
}

/// What the cluster counted for the parts of a list's query.
#[derive(Default)]
struct Counts {
    /// Whether no article has a stamp.
    is_none_stamped: bool,
    stamped: Map<String, Value>,
    unstamped: Map<String, Value>,
}

impl Counts {
    /// Articles with a stamp.
    fn of(&self, name: &str) -> Option<u64> {
        self.stamped.get(name)?.get("doc_count")?.as_u64()
    }

    /// Whether articles without a stamp have it.
    fn is_unstamped(&self, name: &str) -> bool {
        let count = self.unstamped.get(name).and_then(|part| part.get("doc_count")?.as_u64());
        count.is_some_and(|count| count > 0)
    }
}

/// What a list without entries says. `found`: the list; `media`: those that exist; `there`: makes an address of
/// parameters.
pub(super) async fn empty_list(
    page: &PageRequest<'_>,
    raw_index: &str,
    question: &ListParams,
    names: &ReaderFields,
    found: &GroupsPage,
    media: &[String],
    there: &(dyn Fn(QueryString) -> String + Sync),
) -> EmptyList {
    let t = page.shell.t();
    let nothing_yet = EmptyList { title: t.empty, text: t.empty_text, reasons: Vec::new() };
    if !question.is_narrowed() {
        return nothing_yet;
    }
    let words: Vec<String> = question.words.as_deref().map(single_words).unwrap_or_default();
    let counts = counts(page, raw_index, question, names, &words).await;
    if counts.is_none_stamped {
        return nothing_yet;
    }
    let (title, text) = match found.unstamped {
        0 => (t.nothing, t.nothing_text),
        _ => (t.nothing_stamped, t.nothing_stamped_text),
    };
    EmptyList { title, text, reasons: explain(t, question, &words, &counts, media, there) }
}

/// Counts what would be found by each word, by the medium, and without each filter.
async fn counts(
    page: &PageRequest<'_>,
    raw_index: &str,
    question: &ListParams,
    names: &ReaderFields,
    words: &[String],
) -> Counts {
    let locale = &page.shell.locale;
    let mut single = Map::from_iter([("all".to_owned(), match_all())]);
    for (at, word) in words.iter().enumerate() {
        single.insert(format!("word {at}"), words_query(word, names));
    }
    if let Some(medium) = &question.medium {
        let only = ListParams { medium: Some(medium.clone()), ..ListParams::default() };
        single.insert("medium only".to_owned(), only.query(names, locale));
    }
    let mut all = single.clone();
    for (name, other) in without(question) {
        all.insert(name.to_owned(), other.query(names, locale));
    }
    let exists = json!({"exists": {"field": names.key}});
    let parts = |filters: Map<String, Value>| json!({"parts": {"filters": {"filters": filters}}});
    let body = json!({
        "size": 0,
        "track_total_hits": false,
        "aggs": {
            "stamped": {"filter": exists, "aggs": parts(all)},
            "unstamped": {"filter": {"bool": {"must_not": exists}}, "aggs": parts(single)},
        },
    });
    let Ok(mut found) = page.search(raw_index, &body).await else {
        return Counts::default();
    };
    let mut parts = |of: &str| {
        let buckets = found.pointer_mut(&format!("/aggregations/{of}/parts/buckets")).map(Value::take);
        match buckets {
            Some(Value::Object(buckets)) => buckets,
            _ => Map::new(),
        }
    };
    let mut counts = Counts { is_none_stamped: false, stamped: parts("stamped"), unstamped: parts("unstamped") };
    // Without a shard, as for a pattern that no index fits, there is no aggregation.
    let is_without_shards = found.pointer("/_shards/total") == Some(&json!(0));
    counts.is_none_stamped = is_without_shards || counts.of("all") == Some(0);
    counts
}

/// The list without one of its filters, where it has others.
fn without(question: &ListParams) -> Vec<(&'static str, ListParams)> {
    let first = ListParams { cursor: None, ..question.clone() };
    let mut others = Vec::new();
    if question.has_time() {
        others.push(("no time", ListParams { from: None, to: None, within: None, ..first.clone() }));
    }
    if question.medium.is_some() {
        others.push(("no medium", ListParams { medium: None, ..first.clone() }));
    }
    if question.language.is_some() {
        others.push(("no language", ListParams { language: None, ..first.clone() }));
    }
    if question.words.is_some() {
        others.push(("no words", ListParams { words: None, ..first }));
    }
    others.retain(|(_, other)| other.is_narrowed());
    others
}

fn explain(
    t: &'static super::lang::Texts,
    question: &ListParams,
    words: &[String],
    counts: &Counts,
    media: &[String],
    there: &dyn Fn(QueryString) -> String,
) -> Vec<EmptyReason> {
    let first = ListParams { cursor: None, ..question.clone() };
    let to = |other: ListParams| there(other.parameters());
    let plain = |text: &str, ways| EmptyReason { text: (text.to_owned(), String::new()), quoted: None, ways };
    let about = |text: &str, quoted: &str, ways| EmptyReason {
        text: super::lang::split_at_placeholder(text, &[]),
        quoted: Some(quoted.to_owned()),
        ways,
    };
    let mut reasons = Vec::new();
    if let (Some(from), Some(to_date)) = (&question.from, &question.to)
        && from > to_date
    {
        let swapped = ListParams { from: Some(to_date.clone()), to: Some(from.clone()), ..first.clone() };
        reasons.push(plain(t.dates_reversed, vec![(t.swap_dates.to_owned(), to(swapped))]));
    }
    if let Some(medium) = &question.medium
        && counts.of("medium only") == Some(0)
    {
        let proposed = proposed(medium, media).into_iter();
        let ways = proposed.map(|medium| {
            let other = ListParams { medium: Some(medium.clone()), ..first.clone() };
            (medium.clone(), to(other))
        });
        let text = match counts.is_unstamped("medium only") {
            false => t.no_such_medium,
            true => t.medium_without_stamp,
        };
        reasons.push(about(text, medium, ways.collect()));
    }
    if let Some(query) = question.words.as_deref().filter(|words| words.matches('"').count() % 2 == 1) {
        let closed = ListParams { words: Some(format!("{query}\"")), ..first.clone() };
        let apart = ListParams { words: Some(query.replace('"', " ").trim().to_owned()), ..first.clone() };
        let ways = vec![(t.close_phrase.to_owned(), to(closed)), (t.as_words.to_owned(), to(apart))];
        reasons.push(plain(t.phrase_open, ways));
    }
    for (at, word) in words.iter().enumerate() {
        let name = format!("word {at}");
        if counts.of(&name) != Some(0) {
            continue;
        }
        let kept = question.words.as_deref().and_then(|query| without_word(query, word));
        let other = ListParams { words: kept, ..first.clone() };
        let text = match counts.is_unstamped(&name) {
            false => t.word_without_hits,
            true => t.word_without_stamp,
        };
        reasons.push(about(text, word, vec![(t.without_word.to_owned(), to(other))]));
    }
    let ways = without(question).into_iter().filter_map(|(name, other)| {
        let count = counts.of(name).filter(|count| *count > 0)?;
        let text = match name {
            "no time" => t.without_time,
            "no medium" => t.without_medium,
            "no language" => t.without_language,
            _ => t.without_words,
        };
        Some((super::lang::fill(text, &[&super::format::number(count)]), to(other)))
    });
    let ways: Vec<_> = ways.collect();
    if !ways.is_empty() {
        reasons.push(plain(t.not_together, ways));
    }
    reasons
}

/// The media that exist, those with a similar name first.
fn proposed<'m>(medium: &str, media: &'m [String]) -> Vec<&'m String> {
    let letters = |name: &str| name.chars().take(NAME_CHARS).flat_map(char::to_lowercase).collect::<String>();
    let wanted = letters(medium);
    // It exists itself where no article of it has a stamp.
    let mut sorted: Vec<&String> = media.iter().filter(|name| *name != medium).collect();
    let distance = |name: &str| {
        let name = letters(name);
        let is_part = name.contains(&wanted) || wanted.contains(&name);
        let common = name.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
        (!is_part, usize::MAX - common)
    };
    sorted.sort_by_cached_key(|name| distance(name));
    sorted.truncate(PROPOSED);
    sorted
}

#[cfg(test)]
mod tests {
    use super::super::lang::Lang;
    use super::*;

    fn explained(query: &str, stamped: &Value) -> Vec<(String, Vec<String>)> {
        explained_with(query, stamped, &json!({}))
    }

    fn explained_with(query: &str, stamped: &Value, unstamped: &Value) -> Vec<(String, Vec<String>)> {
        let question = ListParams::read(&QueryString::parse(Some(query))).unwrap();
        let words = question.words.as_deref().map(single_words).unwrap_or_default();
        let parts = |counts: &Value| -> Map<String, Value> {
            let counts = counts.as_object().unwrap().iter();
            counts.map(|(name, n)| (name.clone(), json!({"doc_count": n}))).collect()
        };
        let counts = Counts { is_none_stamped: false, stamped: parts(stamped), unstamped: parts(unstamped) };
        let media = ["Bay Post", "The Wire", "Wire"].map(str::to_owned);
        let there = |query: QueryString| query.suffix();
        let reasons = explain(Lang::English.texts(), &question, &words, &counts, &media, &there).into_iter();
        let shown = reasons.map(|reason| {
            let text = format!("{}{}{}", reason.text.0, reason.quoted.unwrap_or_default(), reason.text.1);
            (text, reason.ways.into_iter().map(|(_, address)| address).collect())
        });
        shown.collect()
    }

    #[test]
    fn each_reason_has_a_way_out() {
        let found = explained("from=2026-03-01&to=2026-01-01", &json!({}));
        assert!(found[0].0.contains("wrong way round"), "{found:?}");
        assert_eq!(found[0].1, ["?from=2026-01-01&to=2026-03-01"]);
        let found = explained("medium=wire+x&q=a", &json!({"medium only": 0, "word 0": 5, "no medium": 5}));
        assert!(found[0].0.contains("wire x"), "{found:?}");
        assert_eq!(found[0].1, ["?q=a&medium=Wire", "?q=a&medium=Bay+Post", "?q=a&medium=The+Wire"]);
        assert_eq!(found[1].1, ["?q=a"]);
        let found = explained("q=%22a+b", &json!({"word 0": 2, "word 1": 0}));
        assert_eq!(found[0].1, ["?q=%22a+b%22", "?q=a+b"]);
        assert!(found[1].0.contains("“b”"), "{found:?}");
        assert_eq!(found[1].1, ["?q=%22a"]);
        assert!(explained("q=a+b", &json!({"word 0": 2, "word 1": 3})).is_empty());
    }

    #[test]
    fn articles_without_a_stamp_are_no_articles_that_do_not_exist() {
        let counts = json!({"word 0": 0, "word 1": 0, "medium only": 0});
        let found = explained_with("q=a+b&medium=Wire", &counts, &json!({"word 1": 5, "medium only": 1}));
        let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "No article with a stamp is of the medium “Wire”. These exist:",
                "No article has the word “a”.",
                "No article with a stamp has the word “b”."
            ]
        );
        assert!(found[0].1.iter().all(|way| !way.ends_with("medium=Wire")), "{found:?}");
    }
}
