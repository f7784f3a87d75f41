//! Why a list is empty, and the ways out.

use serde_json::{Map, Value, json};

use super::PageRequest;
use super::list_params::{ListParams, words_query};
use super::url::QueryString;
use crate::engine::ReaderFields;

/// Words that are tried one by one.
const WORDS: usize = 12;

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

/// What the cluster counted for the parts of a list's query.
#[derive(Default)]
struct Counts(Map<String, Value>);

impl Counts {
    fn of(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.get("doc_count")?.as_u64()
    }
}

/// The reasons that are found. `media`: those that exist. `there`: makes an address of parameters.
pub(super) async fn reasons(
    page: &PageRequest<'_>,
    raw_index: &str,
    question: &ListParams,
    names: &ReaderFields,
    media: &[String],
    there: &(dyn Fn(QueryString) -> String + Sync),
) -> Vec<EmptyReason> {
    let words: Vec<String> = question.words.as_deref().map(single_words).unwrap_or_default();
    let counts = counts(page, raw_index, question, names, &words).await;
    explain(page.shell.t(), question, &words, &counts, media, there)
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
    let mut filters = Map::new();
    for (at, word) in words.iter().enumerate() {
        filters.insert(format!("word {at}"), words_query(word, names));
    }
    let mut others = without(question);
    if let Some(medium) = &question.medium {
        let only = ListParams { medium: Some(medium.clone()), ..ListParams::default() };
        others.push(("medium only", only));
    }
    for (name, other) in others {
        filters.insert(name.to_owned(), other.query(names, locale));
    }
    let exists = json!({"exists": {"field": names.key}});
    let body = json!({
        "size": 0,
        "track_total_hits": false,
        "query": {"bool": {"filter": [exists]}},
        "aggs": {"parts": {"filters": {"filters": filters}}},
    });
    let Ok(mut found) = page.search(raw_index, &body).await else {
        return Counts::default();
    };
    match found.pointer_mut("/aggregations/parts/buckets").map(Value::take) {
        Some(Value::Object(buckets)) => Counts(buckets),
        _ => Counts::default(),
    }
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

/// The words of a query that have to match, without operators.
fn single_words(query: &str) -> Vec<String> {
    let words = query.split(|c: char| c.is_whitespace() || matches!(c, '"' | '+' | '|' | '(' | ')' | '~'));
    let words = words.filter(|word| !word.starts_with('-') && word.contains(char::is_alphanumeric));
    words.take(WORDS).map(str::to_owned).collect()
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
        reasons.push(about(t.no_such_medium, medium, ways.collect()));
    }
    if let Some(query) = question.words.as_deref().filter(|words| words.matches('"').count() % 2 == 1) {
        let closed = ListParams { words: Some(format!("{query}\"")), ..first.clone() };
        let apart = ListParams { words: Some(query.replace('"', " ").trim().to_owned()), ..first.clone() };
        let ways = vec![(t.close_phrase.to_owned(), to(closed)), (t.as_words.to_owned(), to(apart))];
        reasons.push(plain(t.phrase_open, ways));
    }
    let missing = words.iter().enumerate().filter(|(at, _)| counts.of(&format!("word {at}")) == Some(0));
    for (_, word) in missing {
        let kept = question.words.as_deref().unwrap_or_default().replace(word.as_str(), " ");
        let kept = kept.split_whitespace().collect::<Vec<_>>().join(" ");
        let kept = Some(kept).filter(|kept| kept.contains(char::is_alphanumeric));
        let other = ListParams { words: kept, ..first.clone() };
        reasons.push(about(t.word_without_hits, word, vec![(t.without_word.to_owned(), to(other))]));
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
    let mut sorted: Vec<&String> = media.iter().collect();
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

    fn explained(query: &str, counts: &Value) -> Vec<(String, Vec<String>)> {
        let question = ListParams::read(&QueryString::parse(Some(query))).unwrap();
        let words = question.words.as_deref().map(single_words).unwrap_or_default();
        let counts: Map<String, Value> =
            counts.as_object().unwrap().iter().map(|(name, n)| (name.clone(), json!({"doc_count": n}))).collect();
        let media = ["Bay Post", "The Wire", "Wire"].map(str::to_owned);
        let there = |query: QueryString| query.suffix();
        let reasons = explain(Lang::English.texts(), &question, &words, &Counts(counts), &media, &there).into_iter();
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
    fn words_are_taken_apart_without_operators() {
        assert_eq!(single_words("a +\"b c\" -d | (e~ f*) - --"), ["a", "b", "c", "e", "f*"]);
        assert_eq!(single_words(&"x ".repeat(100)).len(), WORDS);
    }
}
