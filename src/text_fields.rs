//! The fields that the texts of a forest were read from, by index pattern: recorded with the forest, and compared when
//! it is opened. With other fields every text reads otherwise, and finds nothing of what came before.
//!
//! [`RoutedFields`] is what the routes of this process ask for, [`FieldRecord`] what a forest has recorded.

use std::collections::BTreeMap;
use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use thiserror::Error;

use crate::index_pattern::{fits, meets};

/// The version of [`FieldRecord::encode`].
const FORMAT: u32 = 1;
/// The line of a forest that is unfinished; no pattern is without fields.
const UNFINISHED: &str = "unfinished";
/// Encoded so that a name is one word of a line, and one item of a list.
const NAME: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b',').add(b'=');

/// The fields that decide what the text of a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFields {
    /// Sorted: texts are read in the order in which a document has them.
    text: Vec<String>,
    title: Option<String>,
    url: Option<String>,
}

impl TextFields {
    /// `url`: where the method compares it.
    pub fn new(mut text: Vec<String>, title: Option<String>, url: Option<String>) -> TextFields {
        text.sort_unstable();
        TextFields { text, title, url }
    }

    /// The option and the names of each kind of field that there is.
    fn options(&self) -> Vec<(&'static str, Vec<&str>)> {
        let mut options = vec![(TEXT, self.text.iter().map(String::as_str).collect())];
        options.extend(self.title.as_deref().map(|field| (TITLE, vec![field])));
        options.extend(self.url.as_deref().map(|field| (URL, vec![field])));
        options
    }

    fn decode(words: &str) -> Option<TextFields> {
        let mut fields = TextFields { text: Vec::new(), title: None, url: None };
        for word in words.split(' ') {
            let (option, names) = word.split_once('=')?;
            let mut names = names.split(',').map(decoded).collect::<Option<Vec<_>>>()?;
            match (option, names.len()) {
                (TEXT, _) => fields.text = names,
                (TITLE, 1) => fields.title = names.pop(),
                (URL, 1) => fields.url = names.pop(),
                _ => return None,
            }
        }
        (!fields.text.is_empty()).then_some(fields)
    }
}

/// Names of the options.
const TEXT: &str = "text_field";
const TITLE: &str = "title_field";
const URL: &str = "url_field";

/// As the options of a route: `text_field=body,lead title_field=headline`.
impl fmt::Display for TextFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (option, names)) in self.options().into_iter().enumerate() {
            let separator = if at == 0 { "" } else { " " };
            write!(f, "{separator}{option}={}", names.join(","))?;
        }
        Ok(())
    }
}

/// The fields that the texts of a forest were read from, by index pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldRecord {
    patterns: BTreeMap<String, TextFields>,
    /// Nobody may use the forest yet: a part of it is on its way.
    is_unfinished: bool,
}

/// Why a record does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FieldRecordError {
    /// A newer version has written it.
    #[error("its format is {0}, and this version of spinney reads {FORMAT}")]
    Newer(u32),
    /// It was changed, or is damaged.
    #[error("it is no record of fields")]
    Broken,
}

impl FieldRecord {
    fn of(patterns: BTreeMap<String, TextFields>) -> FieldRecord {
        FieldRecord { patterns, is_unfinished: false }
    }

    /// That of a forest of which a part is not there yet.
    pub fn unfinished() -> FieldRecord {
        FieldRecord { is_unfinished: true, ..FieldRecord::default() }
    }

    /// Whether a part of the forest is not there yet.
    pub fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Whether nothing is recorded.
    pub fn is_empty(&self) -> bool {
        *self == FieldRecord::default()
    }

    /// Index patterns, each with its fields as the options of a route.
    pub fn patterns(&self) -> impl Iterator<Item = (&str, String)> {
        self.patterns.iter().map(|(pattern, fields)| (pattern.as_str(), fields.to_string()))
    }

    /// Lines of text, empty for an empty record: the format, then a line for each pattern.
    pub fn encode(&self) -> String {
        let encoded = |name: &str| utf8_percent_encode(name, NAME).to_string();
        let line = |(pattern, fields): (&String, &TextFields)| {
            let words = fields.options().into_iter().map(|(option, names)| {
                let names: Vec<String> = names.into_iter().map(encoded).collect();
                format!(" {option}={}", names.join(","))
            });
            format!("{}{}\n", encoded(pattern), words.collect::<String>())
        };
        match self.is_empty() {
            true => String::new(),
            false if self.is_unfinished => format!("format = {FORMAT}\n{UNFINISHED}\n"),
            false => format!("format = {FORMAT}\n{}", self.patterns.iter().map(line).collect::<String>()),
        }
    }

    /// # Errors
    /// [`FieldRecordError`]; nothing of it is used then.
    pub fn decode(text: &str) -> Result<FieldRecord, FieldRecordError> {
        if text.is_empty() {
            return Ok(FieldRecord::default());
        }
        let mut lines = text.lines();
        let format = lines.next().and_then(|line| line.strip_prefix("format = "));
        match format.and_then(|format| format.parse().ok()) {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => return Err(FieldRecordError::Newer(newer)),
            _ => return Err(FieldRecordError::Broken),
        }
        let lines: Vec<&str> = lines.collect();
        if lines == [UNFINISHED] {
            return Ok(FieldRecord::unfinished());
        }
        let line = |line: &&str| {
            let (pattern, fields) = line.split_once(' ')?;
            Some((decoded(pattern)?, TextFields::decode(fields)?))
        };
        let patterns = lines.iter().map(line).collect::<Option<BTreeMap<_, _>>>();
        patterns.map(FieldRecord::of).ok_or(FieldRecordError::Broken)
    }
}

fn decoded(name: &str) -> Option<String> {
    let name = percent_decode_str(name).decode_utf8().ok()?;
    (!name.is_empty()).then(|| name.into_owned())
}

/// Why this process may not read documents into a forest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FieldsRefused {
    /// Texts in it were read from other fields.
    #[error(transparent)]
    Other(Box<OtherFields>),
    /// A part of it is not there yet.
    #[error(
        "is a part of a forest: the spinney transfer that was to fill it has not ended. Run it again, with --replace"
    )]
    Unfinished,
}

/// Indices whose texts are in a forest, and would be read from other fields now.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "has texts of {indices} that were read from {recorded}, and the route of {route} reads them from {asked}: every \
     reprint of what came before would found a tree of its own"
)]
pub struct OtherFields {
    /// The recorded pattern.
    pub indices: String,
    /// Its fields.
    pub recorded: TextFields,
    /// The pattern of the route that takes these indices now.
    pub route: String,
    /// Its fields.
    pub asked: TextFields,
}

/// The fields that the routes of this process ask for, for one forest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoutedFields {
    /// Index patterns in the order of their routes, each but those of which an earlier one takes all names. Without
    /// fields where the texts go to another forest, or none are read.
    patterns: Vec<(String, Option<TextFields>)>,
}

impl RoutedFields {
    /// Adds the next pattern. `fields`: none where its texts go to another forest, or none are read.
    pub fn add(&mut self, pattern: &str, fields: Option<TextFields>) {
        if self.taker(pattern).is_none() {
            self.patterns.push((pattern.to_owned(), fields));
        }
    }

    /// The first pattern that takes all indices of this one.
    fn taker(&self, pattern: &str) -> Option<&(String, Option<TextFields>)> {
        self.patterns.iter().find(|(of, _)| fits(of, pattern))
    }

    /// The record of an empty forest once these routes fill it.
    pub fn recorded(&self) -> FieldRecord {
        FieldRecord::of(self.patterns.iter().filter_map(|(of, fields)| Some((of.clone(), fields.clone()?))).collect())
    }

    /// The record of the forest once these routes fill it: what is known, and what they add.
    ///
    /// # Errors
    /// The first pattern of which texts are known by other fields; or the forest is unfinished.
    pub fn recorded_in(&self, known: &FieldRecord) -> Result<FieldRecord, FieldsRefused> {
        if known.is_unfinished {
            return Err(FieldsRefused::Unfinished);
        }
        let other = |indices: &str, recorded: &TextFields, route: &str, asked: &TextFields| OtherFields {
            indices: indices.to_owned(),
            recorded: recorded.clone(),
            route: route.to_owned(),
            asked: asked.clone(),
        };
        for (pattern, recorded) in &known.patterns {
            // A route that is gone leaves its texts to one that takes a part of its indices.
            let takers = match self.taker(pattern) {
                Some(taker) => std::slice::from_ref(taker),
                None => self.patterns.as_slice(),
            };
            let of_it =
                |taker: &str| fits(taker, pattern) || meets(pattern, taker) && !known.patterns.contains_key(taker);
            let asked = takers.iter().filter_map(|(taker, fields)| Some((taker, fields.as_ref()?)));
            for (taker, asked) in asked.filter(|(taker, _)| of_it(taker)) {
                if asked != recorded {
                    return Err(FieldsRefused::Other(Box::new(other(pattern, recorded, taker, asked))));
                }
            }
        }
        let mut record = known.clone();
        record.patterns.extend(self.recorded().patterns);
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::config::{RawRoute, Route};

    #[expect(clippy::needless_pass_by_value, reason = "reads better with json!")]
    fn route(options: Value) -> Route {
        let mut all = json!({"forest": "f"});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        serde_json::from_value::<RawRoute>(all).unwrap().validate("route").unwrap()
    }

    /// Routes of one forest by pattern and text field.
    fn routes(of: &[(&str, &str)]) -> RoutedFields {
        let routes: Vec<Route> =
            of.iter().map(|(index, text)| route(json!({"index": [index], "text_field": [text]}))).collect();
        Route::fields_read(&routes, "f")
    }

    fn recorded(of: &[(&str, &str)]) -> FieldRecord {
        routes(of).recorded()
    }

    /// What is a change of the text is one of the fields, and nothing else is.
    #[test]
    fn only_what_is_read_is_compared() {
        let base = json!({"index": ["a"], "text_field": ["x", "y"], "title_field": "t", "url_field": "u"});
        let with = |method: &str, changed: Value| {
            let mut all = base.clone();
            all["method"] = method.into();
            all.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
            Route::fields_read(&[route(all)], "f")
        };
        for (method, changed, is_same) in [
            ("verified", json!({"text_field": ["y", "x"]}), true),
            ("verified", json!({"text_field": ["x"]}), false),
            ("verified", json!({"text_field": ["x", "y", "z"]}), false),
            ("longest", json!({"title_field": "other"}), false),
            ("verified", json!({"title_field": null}), false),
            ("verified", json!({"url_field": "other"}), true),
            ("staged", json!({"url_field": "other"}), false),
            ("staged", json!({"url_field": null}), false),
            ("field:print", json!({"text_field": ["z"], "title_field": null}), true),
            ("verified", json!({"time_field": "at", "medium_field": "m", "clock": "field:at"}), true),
        ] {
            let known = with(method, json!({})).recorded();
            let then = with(method, changed.clone()).recorded_in(&known);
            assert_eq!(then.is_ok(), is_same, "{method} {changed}");
            assert!(then.is_err() || then.as_ref() == Ok(&known), "{method} {changed}");
        }
        assert!(with("field:print", json!({})).recorded().is_empty());
    }

    /// Starts that follow one another: the routes of each, and whether the last one is refused.
    #[test]
    fn routes_come_and_go_but_keep_their_fields() {
        type Start<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(&[Start<'_>], bool)] = &[
            // The same pattern.
            (&[&[("news-*", "content")], &[("news-*", "body")]], true),
            (&[&[("news-*", "content"), ("forum-*", "body")], &[("forum-*", "body"), ("news-*", "content")]], false),
            (&[&[("news-*", "content"), ("forum-*", "body")], &[("news-*", "body"), ("forum-*", "content")]], true),
            // Added, gone, and back.
            (&[&[("news-*", "content")], &[("news-*", "content"), ("forum-*", "body")]], false),
            (&[&[("news-*", "content")], &[("forum-*", "body")], &[("news-*", "content")]], false),
            (&[&[("news-*", "content")], &[("forum-*", "body")], &[("news-*", "body")]], true),
            // Wider: a route that takes the indices of one that is gone.
            (&[&[("news-2026", "content")], &[("news-*", "content")]], false),
            (&[&[("news-2026", "content")], &[("news-*", "body")]], true),
            (&[&[("news-2026", "content")], &[("news-2026", "content"), ("news-*", "body")]], false),
            // Narrower: new indices beside the old ones are new, those in place of the old ones are not.
            (&[&[("news-*", "content")], &[("news-2027", "body"), ("news-*", "content")]], false),
            (&[&[("news-*", "content")], &[("news-2027", "content")]], false),
            (&[&[("news-*", "content")], &[("news-2027", "body")]], true),
            (&[&[("news-*", "content")], &[("*-2027", "body")]], true),
            (&[&[("news-*", "content")], &[("*-2027", "content")]], false),
            (&[&[("news-*", "content")], &[("forum-*", "body")]], false),
            (&[&[("news-*", "content")], &[("*-2027", "body"), ("news-*", "content")]], false),
            (
                &[&[("news-*", "content")], &[("news-2027", "body"), ("news-*", "content")], &[("news-2027", "body")]],
                false,
            ),
            (
                &[&[("news-*", "content")], &[("news-2027", "body"), ("news-*", "content")], &[("news-*", "content")]],
                true,
            ),
        ];
        for (starts, is_refused) in cases {
            let (last, before) = starts.split_last().unwrap();
            let known =
                before.iter().fold(FieldRecord::default(), |known, start| routes(start).recorded_in(&known).unwrap());
            assert_eq!(routes(last).recorded_in(&known).is_err(), *is_refused, "{starts:?}");
        }
    }

    #[test]
    fn what_goes_to_another_forest_is_not_compared() {
        let known = recorded(&[("news-*", "content")]);
        let moved = [
            route(json!({"index": ["news-*"], "text_field": ["body"], "forest": "other"})),
            route(json!({"index": ["*"], "text_field": ["body"]})),
        ];
        let then = Route::fields_read(&moved, "f").recorded_in(&known).unwrap();
        assert_eq!(
            then,
            FieldRecord::of([known.patterns, recorded(&[("*", "body")]).patterns].into_iter().flatten().collect())
        );
        let back = Route::fields_read(&moved[1..], "f").recorded_in(&then);
        assert!(back.is_err(), "{back:?}");
        // A pattern of two routes is the first one's.
        let twice = [
            route(json!({"index": ["a", "b"], "text_field": ["content"]})),
            route(json!({"index": ["b", "c"], "text_field": ["body"]})),
        ];
        let of_b = Route::fields_read(&twice, "f").recorded_in(&recorded(&[("b", "content")]));
        assert!(of_b.is_ok(), "{of_b:?}");
        // Without routes, as in a transfer, nothing is asked for.
        assert_eq!(RoutedFields::default().recorded_in(&then), Ok(then));
    }

    #[test]
    fn a_refusal_names_both_sides() {
        let refused = routes(&[("news-*", "body")]).recorded_in(&recorded(&[("news-2026", "content")])).unwrap_err();
        let said = refused.to_string();
        for part in ["texts of news-2026", "from text_field=content", "the route of news-*", "from text_field=body"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn nothing_is_read_into_a_forest_of_which_a_part_is_missing() {
        let unfinished = FieldRecord::unfinished();
        assert_eq!(FieldRecord::decode(&unfinished.encode()), Ok(unfinished.clone()));
        assert!(!unfinished.is_empty());
        for routes in [routes(&[("news-*", "content")]), RoutedFields::default()] {
            assert_eq!(routes.recorded_in(&unfinished), Err(FieldsRefused::Unfinished));
        }
    }

    #[test]
    fn a_record_that_does_not_read_is_told() {
        let newer = FieldRecord::decode("format = 2\nwhatever\n");
        assert_eq!(newer, Err(FieldRecordError::Newer(2)));
        for broken in [
            "\n",
            "format = 0\n",
            "format = x\n",
            "format = 1\nnews-*\n",
            "format = 1\nunfinished\nnews-* text_field=a\n",
            "format = 1\nnews-* \n",
            "format = 1\nnews-* text_field=\n",
            "format = 1\nnews-* title_field=t\n",
            "format = 1\nnews-* text_field=a title_field=t,u\n",
            "format = 1\nnews-* text_field=a color=red\n",
            "format = 1\n text_field=a\n",
            "format = 1\nnews-* text_field=%ff\n",
        ] {
            assert_eq!(FieldRecord::decode(broken), Err(FieldRecordError::Broken), "{broken:?}");
        }
    }

    /// Two routes' patterns take none of each other's indices.
    fn any_routes() -> impl Strategy<Value = Vec<Route>> {
        let name = "[^.*,\u{0}]{1,4}";
        let fields = (prop::collection::vec(name, 1..4), prop::option::of(name), prop::option::of(name));
        let method = prop::sample::select(vec!["verified", "staged"]);
        let each = (prop::collection::vec(fields, 1..5), prop::collection::vec(name, 1..3), method);
        each.prop_map(|(all, ends, method)| {
            let routes = all.into_iter().enumerate().map(|(at, (text, title, url))| {
                let index: Vec<String> = ends.iter().map(|end| format!("{at}-{end}*")).collect();
                route(json!({
                    "index": index, "text_field": text, "title_field": title, "url_field": url, "method": method
                }))
            });
            routes.collect()
        })
    }

    proptest! {
        #[test]
        fn the_same_routes_are_taken_in_any_order(
            (routes, shuffled) in any_routes().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
            some in 0..5_usize,
        ) {
            let known = Route::fields_read(&routes, "f").recorded();
            let mut shuffled = shuffled;
            for route in &mut shuffled {
                route.text_fields.reverse();
            }
            prop_assert_eq!(Route::fields_read(&shuffled, "f").recorded_in(&known), Ok(known.clone()));
            // And some of them.
            let some = shuffled.get(some..).unwrap_or_default();
            prop_assert_eq!(Route::fields_read(some, "f").recorded_in(&known), Ok(known.clone()));
            // With one other field it is another text.
            if let Some(route) = shuffled.first_mut() {
                route.text_fields.push("one.more".into());
                prop_assert!(Route::fields_read(&shuffled, "f").recorded_in(&known).is_err());
            }
            prop_assert_eq!(FieldRecord::decode(&known.encode()), Ok(known));
        }

        #[test]
        fn any_text_is_a_record_or_is_refused(text in "(format = 1\n)?[a%, =_\n]{0,12}") {
            if let Ok(record) = FieldRecord::decode(&text) {
                prop_assert_eq!(FieldRecord::decode(&record.encode()), Ok(record));
            }
        }
    }
}
