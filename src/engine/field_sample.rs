//! A sample of documents: which of a route's fields they have, and candidates for missing ones.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Clock, Route};
use crate::time::parse_date;

/// Size of the sample in documents: more than a writer without a field sends in a row.
pub const SAMPLE: u64 = 100;

/// Most member names that are counted.
const MOST_NAMES: usize = 256;

/// Bytes of a name that is kept.
const LONGEST_NAME: usize = 256;

/// Deepest nesting of objects that is inspected.
const DEPTH: usize = 8;

/// Characters of an average value from which it may be a text.
const TEXT_CHARACTERS: u64 = 40;

/// Characters of an average title, and the most of a name.
const TITLE_CHARACTERS: std::ops::Range<u64> = 10..300;
const NAME_CHARACTERS: u64 = 60;
const LANGUAGE_CHARACTERS: u64 = 12;

/// Fields that are proposed.
const CANDIDATES: usize = 3;

/// The use of a field in a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldUse {
    /// The text, or a part of it.
    Text,
    /// The title.
    Title,
    /// The address of the article.
    Url,
    /// A fingerprint that documents contain.
    Fingerprint,
    /// The time of the forest.
    Clock,
    /// The date that readers see.
    Time,
    /// The publisher.
    Medium,
    /// The language.
    Language,
}

impl FieldUse {
    /// The option that names the field.
    pub fn option(self) -> &'static str {
        match self {
            FieldUse::Text => "--text-field",
            FieldUse::Title => "--title-field",
            FieldUse::Url => "--url-field",
            FieldUse::Fingerprint => "--method field:NAME",
            FieldUse::Clock => "--clock field:NAME",
            FieldUse::Time => "--time-field",
            FieldUse::Medium => "--medium-field",
            FieldUse::Language => "--language-field",
        }
    }
}

/// A field of a route, and its use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteField {
    /// Its name, dotted when nested.
    pub name: String,
    /// Its use.
    pub used_for: FieldUse,
}

impl RouteField {
    /// All fields that a route names.
    pub fn all_of(route: &Route) -> Vec<RouteField> {
        let clock = match &route.clock {
            Clock::Field(name) => Some(name.as_str()),
            Clock::Arrival | Clock::None => None,
        };
        let own = route.method.own_field();
        // With fingerprints of their own, texts are not compared.
        let texts = route.text_fields.iter().filter(|_| own.is_none());
        let texts = texts.map(|name| (name.as_str(), FieldUse::Text));
        let single = [
            (own, FieldUse::Fingerprint),
            (route.title_field.as_deref(), FieldUse::Title),
            (route.url_field.as_deref(), FieldUse::Url),
            (clock, FieldUse::Clock),
            (route.time_field.as_deref(), FieldUse::Time),
            (route.medium_field.as_deref(), FieldUse::Medium),
            (route.language_field.as_deref(), FieldUse::Language),
        ];
        let single = single.into_iter().filter_map(|(name, used_for)| Some((name?, used_for)));
        texts.chain(single).map(|(name, used_for)| RouteField { name: name.to_owned(), used_for }).collect()
    }
}

/// A field of a route that no document of a sample has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingField {
    /// The field.
    pub field: RouteField,
    /// Documents of the sample.
    pub documents: u64,
    /// Fields of the documents that could be meant instead, likeliest first.
    pub candidates: Vec<String>,
}

impl fmt::Display for MissingField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, option) = (&self.field.name, self.field.used_for.option());
        write!(f, "none of {} documents has anything in the field '{name}' of {option}", self.documents)?;
        match self.candidates.as_slice() {
            [] => Ok(()),
            candidates => write!(f, "; is one of these meant: {}?", candidates.join(", ")),
        }
    }
}

/// Values of one member of the documents that are not empty.
#[derive(Debug, Clone, Copy, Default)]
struct Values {
    strings: u64,
    /// Of the strings.
    characters: u64,
    dates: u64,
    addresses: u64,
}

impl Values {
    fn add(&mut self, text: &str, is_string: bool) {
        self.dates += u64::from(is_date(text, is_string));
        if is_string {
            self.strings += 1;
            self.characters += text.chars().count() as u64;
            self.addresses += u64::from(text.starts_with("https://") || text.starts_with("http://"));
        }
    }

    /// How well the member would serve, 0 for not at all.
    fn fitness(&self, used_for: FieldUse) -> u64 {
        let average = self.characters / self.strings.max(1);
        let is_prose = self.strings > 0 && self.dates == 0 && self.addresses == 0;
        let (fitness, fits) = match used_for {
            FieldUse::Text => (self.characters, is_prose && average >= TEXT_CHARACTERS),
            FieldUse::Title => (self.characters, is_prose && TITLE_CHARACTERS.contains(&average)),
            FieldUse::Medium => (self.characters, is_prose && average <= NAME_CHARACTERS),
            FieldUse::Language => (self.strings, is_prose && average <= LANGUAGE_CHARACTERS),
            FieldUse::Url => (self.addresses, true),
            FieldUse::Clock | FieldUse::Time => (self.dates, true),
            FieldUse::Fingerprint => (0, false),
        };
        if fits { fitness } else { 0 }
    }
}

/// A date as the servers write it, or milliseconds since 1970 from 1973 on.
fn is_date(text: &str, is_string: bool) -> bool {
    let fits = match is_string {
        true => (8..40).contains(&text.len()) && text.contains('-'),
        false => text.len() > 11 && text.bytes().all(|byte| byte.is_ascii_digit()),
    };
    fits && parse_date(text).is_some()
}

/// The members of some documents.
#[derive(Debug, Clone, Default)]
pub struct FieldSample {
    documents: u64,
    members: BTreeMap<String, Values>,
    prefix: String,
    fields: Vec<RouteField>,
    /// By their places.
    found: Vec<bool>,
}

impl FieldSample {
    /// A sample without documents for a route with these fields, whose stamps begin with `prefix`.
    pub fn new(fields: Vec<RouteField>, prefix: &str) -> FieldSample {
        FieldSample { found: vec![false; fields.len()], fields, prefix: prefix.to_owned(), ..FieldSample::default() }
    }

    /// Number of documents sampled.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// Adds a document.
    pub fn add(&mut self, document: &Value) {
        self.documents += 1;
        self.walk(&mut String::new(), document, 0);
    }

    /// Nested names are dotted, and the elements of an array have its name, as the servers' mappings have it.
    fn walk(&mut self, name: &mut String, value: &Value, depth: usize) {
        match value {
            Value::Object(members) if depth < DEPTH => {
                let before = name.len();
                for (key, value) in members {
                    if before > 0 {
                        name.push('.');
                    }
                    name.push_str(key);
                    self.walk(name, value, depth + 1);
                    name.truncate(before);
                }
            }
            Value::Array(values) if depth < DEPTH => {
                values.iter().for_each(|value| self.walk(name, value, depth + 1));
            }
            Value::String(text) => self.note(name, text.trim(), true),
            Value::Number(number) => self.note(name, &number.to_string(), false),
            _ => {}
        }
    }

    fn note(&mut self, name: &str, text: &str, is_string: bool) {
        if text.is_empty() {
            return;
        }
        let fields = self.fields.iter().zip(&mut self.found);
        fields.filter(|(field, _)| field.name == name).for_each(|(_, found)| *found = true);
        if let Some(values) = self.members.get_mut(name) {
            values.add(text, is_string);
            return;
        }
        // Names are shown, and their number is the documents' to choose.
        let is_shown =
            name.len() <= LONGEST_NAME && !name.starts_with(&self.prefix) && !name.contains(char::is_control);
        if is_shown && self.members.len() < MOST_NAMES {
            self.members.entry(name.to_owned()).or_default().add(text, is_string);
        }
    }

    /// The fields that no document has; none as long as there is no document.
    pub fn missing(&self) -> Vec<MissingField> {
        let fields = self.fields.iter().zip(&self.found).filter(|(_, found)| !**found && self.documents > 0);
        let missing = fields.map(|(field, _)| MissingField {
            field: field.clone(),
            documents: self.documents,
            candidates: self.candidates(field.used_for),
        });
        missing.collect()
    }

    fn candidates(&self, used_for: FieldUse) -> Vec<String> {
        let is_free = |name: &str| self.fields.iter().all(|field| field.name != name);
        let members = self.members.iter().filter(|(name, _)| is_free(name));
        let mut fit: Vec<(u64, &String)> = members
            .map(|(name, values)| (values.fitness(used_for), name))
            .filter(|(fitness, _)| *fitness > 0)
            .collect();
        fit.sort_by(|(a, _), (b, _)| b.cmp(a));
        fit.into_iter().take(CANDIDATES).map(|(_, name)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(used_for: FieldUse, name: &str) -> RouteField {
        RouteField { name: name.to_owned(), used_for }
    }

    fn article(n: usize) -> Value {
        json!({
            "headline": format!("The harbour bridge is closed again, part {n}"),
            "body": {"text": format!("{n} engineers found cracks in two of its piers. ").repeat(30)},
            "lead": "A lead of a few dozen words that says what the article is about, more or less.",
            "link.href": format!("https://news.example/{n}"),
            "published": "2026-11-21T08:50:00Z",
            "seen": 1_795_251_000_000_i64,
            "source": {"name": "The Daily Example"},
            "views": n,
            "empty": "",
            "nothing": null,
            "cluster_root": "00f1a2b3c4d5e6f7",
            "tags": [{"label": "harbour"}, {"label": "bridge"}],
        })
    }

    fn missing(fields: &[(FieldUse, &str)]) -> Vec<(String, Vec<String>)> {
        let fields = fields.iter().map(|(used_for, name)| field(*used_for, name)).collect();
        let mut sample = FieldSample::new(fields, "cluster_");
        (0..10).for_each(|n| sample.add(&article(n)));
        sample.missing().into_iter().map(|missing| (missing.field.name, missing.candidates)).collect()
    }

    #[test]
    fn fields_that_are_there_are_not_missing() {
        use FieldUse as F;
        let there = [
            (F::Text, "body.text"),
            (F::Text, "lead"),
            (F::Title, "headline"),
            (F::Url, "link.href"),
            (F::Clock, "published"),
            (F::Time, "seen"),
            (F::Medium, "source.name"),
            (F::Medium, "tags.label"),
            (F::Fingerprint, "views"),
        ];
        assert_eq!(missing(&there), []);
    }

    #[test]
    fn for_a_missing_field_those_are_named_that_could_be_meant() {
        use FieldUse as F;
        for (used_for, candidates) in [
            (F::Text, &["body.text", "lead", "headline"][..]),
            (F::Title, &["lead", "headline", "source.name"]),
            (F::Url, &["link.href"]),
            (F::Clock, &["published", "seen"]),
            (F::Time, &["published", "seen"]),
            (F::Medium, &["headline", "source.name", "tags.label"]),
            (F::Fingerprint, &[]),
        ] {
            for name in ["content", "empty", "nothing", "body"] {
                let expected = vec![(name.to_owned(), candidates.iter().map(|&c| c.to_owned()).collect())];
                assert_eq!(missing(&[(used_for, name)]), expected, "{used_for:?}");
            }
        }
        // What another option names is not proposed.
        let found = missing(&[(F::Text, "content"), (F::Text, "lead"), (F::Title, "headline")]);
        assert_eq!(found, [("content".to_owned(), vec!["body.text".to_owned()])]);
    }

    #[test]
    fn it_is_said_in_one_sentence() {
        let mut sample = FieldSample::new(vec![field(FieldUse::Text, "content")], "cluster_");
        sample.add(&json!({"body": "a text ".repeat(20)}));
        let said: Vec<String> = sample.missing().iter().map(ToString::to_string).collect();
        let expected = "none of 1 documents has anything in the field 'content' of --text-field; is one of these \
                        meant: body?";
        assert_eq!(said, [expected]);
        let mut sample = FieldSample::new(vec![field(FieldUse::Fingerprint, "phash")], "cluster_");
        sample.add(&json!({}));
        let said: Vec<String> = sample.missing().iter().map(ToString::to_string).collect();
        assert_eq!(said, ["none of 1 documents has anything in the field 'phash' of --method field:NAME"]);
    }

    /// Documents of any size and form take a bounded part of the memory.
    #[test]
    fn no_more_names_than_that() {
        let mut sample = FieldSample::new(vec![field(FieldUse::Text, "last")], "cluster_");
        let many: serde_json::Map<String, Value> = (0..10_000).map(|n| (format!("k{n}"), json!("x"))).collect();
        sample.add(&Value::Object(many));
        let mut deep = json!({"end": "x"});
        for _ in 0..100 {
            deep = json!({ "level": deep });
        }
        sample.add(&deep);
        sample.add(&json!({"last": "a text"}));
        assert!(sample.members.len() <= MOST_NAMES);
        assert_eq!(sample.missing(), []);
    }
}
