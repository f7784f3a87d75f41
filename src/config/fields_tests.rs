//! What the routes of a forest read, held against what the forest has recorded.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{RawRoute, Route};
use crate::text_fields::*;

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
        (&[&[("news-*", "content")], &[("news-2027", "body"), ("news-*", "content")], &[("news-2027", "body")]], false),
        (&[&[("news-*", "content")], &[("news-2027", "body"), ("news-*", "content")], &[("news-*", "content")]], true),
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
    let of = |record: &FieldRecord| record.patterns().map(|(pattern, fields)| (pattern.to_owned(), fields)).collect();
    let all: BTreeMap<String, String> = of(&then);
    let (before, added): (BTreeMap<_, _>, BTreeMap<_, _>) = (of(&known), of(&recorded(&[("*", "body")])));
    assert_eq!(all, before.into_iter().chain(added).collect());
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
