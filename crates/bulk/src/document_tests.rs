use super::super::selection::FieldNames;
use super::*;

fn selection() -> Selection {
    let fields = FieldNames {
        text: &["content", "article.body", "tags"],
        title: Some("title"),
        url: Some("url"),
        id: Some("id"),
        clock: Some("published.at"),
        own: Some("content"),
    };
    Selection::new(&fields, "cluster_").unwrap()
}

fn values(source: &str) -> Vec<(Selected, String)> {
    let selection = selection();
    let document = scan(source.as_bytes(), &selection).unwrap();
    document.values.into_iter().map(|value| (value.selected, value.text.into_owned())).collect()
}

fn texts(source: &str) -> Vec<String> {
    values(source).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn values_come_in_document_order() {
    let source = r#"{"title":"T","n":{"title":"no"},"id":12,"article":{"x":[{"y":"]}"}],"body":"B"},"url":null,"published":{"at":1.5e9},"content":"C"}"#;
    let expected = [
        (Selected::Title, "T"),
        (Selected::Id, "12"),
        (Selected::Text(1), "B"),
        (Selected::Clock, "1.5e9"),
        (Selected::Text(0), "C"),
        (Selected::Own, "C"),
    ];
    assert_eq!(values(source), expected.map(|(selected, text)| (selected, text.to_owned())));
}

#[test]
fn dotted_and_nested_names_and_arrays() {
    for source in [
        r#"{"article":{"body":["a","b"]}}"#,
        r#"{"article.body":["a","b"]}"#,
        r#"{"article":[{"body":"a"},{"x":[{}],"body":"b"}]}"#,
        r#"{"article.body":"a","article":{"body":[["b"],[]]}}"#,
        r#"{"art\u0069cle":{"b\u006fdy":"a"},"article\u002ebody":"b"}"#,
        r#"{"article":[[{"body":"a"}],{},[],{"body":["b",null,true,{"x":"no"}]}]}"#,
    ] {
        assert_eq!(texts(source), ["a", "b"], "{source}");
    }
    assert_eq!(texts(r#"{"article":{"body":{"body":"no"}},"body":"no","article.":"no"}"#), [""; 0]);
}

#[test]
fn a_text_field_is_present_even_without_a_value() {
    let selection = selection();
    let present = |source: &str| scan(source.as_bytes(), &selection).unwrap().has_text();
    for source in [
        r#"{"content":null}"#,
        r#"{"article":{"body":[]}}"#,
        r#"{"tags":{},"article.body":""}"#,
        r#"{"title":"x","tags":false}"#,
    ] {
        assert!(present(source), "{source}");
    }
    for source in [r#"{"title":"x","article":{"x":1}}"#, "{}"] {
        assert!(!present(source), "{source}");
    }
}

#[test]
fn first_value() {
    let selection = selection();
    let document = scan(br#"{"tags":["a","b"],"id":"x"}"#, &selection).unwrap();
    assert_eq!(document.first(Selected::Text(2)), Some("a"));
    assert_eq!(document.first(Selected::Id), Some("x"));
    assert_eq!(document.first(Selected::Url), None);
}

#[test]
fn text_is_borrowed_unless_it_has_escapes() {
    let selection = selection();
    let read = |source: &'static [u8]| scan(source, &selection).unwrap().values.remove(0).text;
    assert!(matches!(read("{\"tags\":\"中文\"}".as_bytes()), Cow::Borrowed("中文")));
    assert!(matches!(read(br#"{"tags":"a\tb"}"#), Cow::Owned(text) if text == "a\tb"));
    assert_eq!(read(b"{\"tags\":\"a\xffb\"}"), "a\u{fffd}b");
    assert_eq!(read(b"{\"tags\":\"a\xff\\nb\"}"), "a\u{fffd}\nb");
    assert_eq!(read(br#"{"tags":"\uD83D\uDE00\u4e2d\/\"\\\b\f"}"#), "😀中/\"\\\u{8}\u{c}");
    assert_eq!(
        read(br#"{"tags":"\ud83d \ud83d\u0041\ude00\ud83d\ud83d\ude00"}"#),
        "\u{fffd} \u{fffd}A\u{fffd}\u{fffd}😀"
    );
}

#[test]
fn text_that_is_not_unicode_to_the_letter_is_read_as_far_as_it_goes() {
    // The servers store overlong forms, surrogates as bytes and code points beyond Unicode as they came.
    let selection = selection();
    for bytes in [&b"\xc0\x80"[..], b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80"] {
        let source = [b"{\"tags\":\"a", bytes, b"z\",\"x", bytes, b"\":1}"].concat();
        let document = scan(&source, &selection).unwrap();
        let text = document.first(Selected::Text(2)).unwrap();
        assert!(text.starts_with('a') && text.ends_with('z') && text.contains('\u{fffd}'));
    }
}

#[test]
fn another_encoding_is_not_understood() {
    let selection = selection();
    for source in ["{}", "{\"a\":1}", "{ }"] {
        let little: Vec<u8> = source.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = source.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert!(scan(&little, &selection).is_err());
        assert!(scan(&big, &selection).is_err());
    }
}

#[test]
fn escapes_that_are_none_are_reported_where_they_matter() {
    let selection = selection();
    let fail = |source: &str| scan(source.as_bytes(), &selection).unwrap_err();
    assert_eq!(fail(r#"{"tags":"\x"}"#), JsonError::Escape { at: 9 });
    assert_eq!(fail(r#"{"tags":"\u12g4"}"#), JsonError::Escape { at: 9 });
    assert_eq!(fail(r#"{"tags":"\ud83d\u1"}"#), JsonError::Unfinished { at: 20 });
    assert_eq!(fail(r#"{"\x":1}"#), JsonError::Escape { at: 2 });
    assert!(scan(br#"{"x":"\x"}"#, &selection).is_ok());
}

#[test]
fn comments_stand_anywhere() {
    let source =
        "/*a*/ // b\n {/*c*/\"content\"/*d*/:/*e*/[/*f*/\"x\"/*g*/,//h\r\"y\"/**/]/*i*/,/*j*/\"title\":{/***/}/* \"*/}";
    assert_eq!(texts(source), ["x", "x", "y", "y"]);
}

#[test]
fn what_no_server_accepts() {
    let selection = selection();
    for source in [
        "",
        " ",
        "//",
        "/*",
        "/",
        "null",
        "[]",
        "\"x\"",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\" 1}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":+1}",
        "{\"a\":-}",
        "{\"a\":1e}",
        "{\"a\":nul}",
        "{\"a\":NaN}",
        "{\"a\":[1 2]}",
        "{\"a\":[1,]}",
        "{\"a\":[}",
        "{\"a\":{]}",
        "{\"a\":{\"b\":1]}",
        "{\"a\":\"",
        "{\"a\":\"\\\"}",
        "{\"a\":\"\\u00",
        "{\"a\":1}/",
        "{\"content\":[1}",
        "{\"article\":{\"body\":1]}",
        "{\"article\":{\"body\" 1}}",
        "{\"article\":[1 2]}",
    ] {
        // What follows the document is the server's to refuse.
        let behind = source == "{\"a\":1}/";
        assert_eq!(scan(source.as_bytes(), &selection).is_ok(), behind, "{source}");
    }
}

#[test]
fn depth_is_bounded_without_recursion() {
    let selection = selection();
    let nested = |field: &str, depth: usize| format!("{{\"{field}\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    for field in ["content", "other"] {
        for depth in [63, 64, 65, 128, 129, 1_000, 60_000] {
            assert!(scan(nested(field, depth).as_bytes(), &selection).is_ok(), "{field} {depth}");
        }
        assert!(matches!(scan(nested(field, 70_000).as_bytes(), &selection), Err(JsonError::TooDeep { .. })));
    }
    let mixed = format!("{{\"x\":{}{}}}", "[{\"a\":".repeat(200) + "1", "}]".repeat(200));
    assert!(scan(mixed.as_bytes(), &selection).is_ok());
    assert!(scan(mixed.replacen("}]", "]}", 1).as_bytes(), &selection).is_err());
    assert!(scan(mixed.replacen("}]}]}]}", "}]}}]]}", 1).as_bytes(), &selection).is_err());
}
