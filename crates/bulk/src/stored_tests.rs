use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(json: &str) -> Value {
    stored_value(json.as_bytes()).unwrap()
}

/// Each is stored by OpenSearch 3.6 and Elasticsearch 7.17, and handed out as it came or written by them.
#[test]
fn what_servers_store_is_read() {
    assert_eq!(read(r#"{"a":"half \ud83d","b":1}"#), json!({"a": "half \u{FFFD}", "b": 1}));
    assert_eq!(read(r#"{"a":"half \uD83D"}"#), json!({"a": "half \u{FFFD}"}));
    assert_eq!(read(r#"{"\udc00":"\udc00\ud83d\ude00"}"#), json!({"\u{FFFD}": "\u{FFFD}\u{1F600}"}));
    assert_eq!(read("{\"a\":[1,/* c */2] /* c */,\"b\":1 // e\n}"), json!({"a": [1, 2], "b": 1}));
    assert_eq!(read(r#"{"a":{"n":1e400,"m":-1E400},"b":"x"}"#), json!({"a": {"n": "1e400", "m": "-1E400"}, "b": "x"}));
    assert_eq!(read("\u{FEFF}{\"a\":1}"), json!({"a": 1}));
    assert_eq!(read("{\"_source\":\u{FEFF}{\"a\":1}}"), json!({"_source": {"a": 1}}));
    assert_eq!(read(r#"{"a":1,"b":"\ud83d","a":2}"#), json!({"a": 2, "b": "\u{FFFD}"}));
    assert_eq!(stored_value(b"{\"a\":\"x\xED\xA0\xBDy\"}").unwrap(), json!({"a": "x\u{FFFD}\u{FFFD}\u{FFFD}y"}));
    assert_eq!(read(r#"{"a":[],"b":{},"c":[null,true,false],"d":"\ud83d"}"#)["c"], json!([null, true, false]));
}

#[test]
fn what_is_no_value_is_an_error() {
    for text in [
        "",
        "{",
        "{\"a\":1}}",
        "{\"a\":1} {}",
        "{\"a\":1,}",
        "[1,]",
        "{\"a\"}",
        "{a:1}",
        "{\"a\":\"\\q\"}",
        "[1 2]",
        "/*",
    ] {
        assert!(stored_value(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn what_nests_too_deep_reads_as_null() {
    let nested = |levels: usize| format!("{{\"a\":{}{},\"b\":\"\\ud83d\"}}", "[".repeat(levels), "]".repeat(levels));
    for (levels, is_read) in [(MOST_LEVELS - 1, true), (MOST_LEVELS, false), (50_000, false)] {
        let value = read(&nested(levels));
        assert_eq!(value["b"], "\u{FFFD}");
        let mut innermost = &value["a"];
        while let Some(inner) = innermost.get(0) {
            innermost = inner;
        }
        assert_eq!(innermost.is_array(), is_read, "{levels}");
        // It can be answered.
        assert!(serde_json::from_str::<Value>(&value.to_string()).is_ok());
    }
}

/// A value, and how a server may hold it.
fn held() -> impl Strategy<Value = (Value, String)> {
    let blank = prop::sample::select(vec!["", " ", "\n", "/* c \" { */", "// ] \"\n", "\r\n\t"]);
    let leaf = prop_oneof![
        Just((Value::Null, "null".to_owned())),
        any::<bool>().prop_map(|b| (json!(b), b.to_string())),
        any::<i64>().prop_map(|n| (json!(n), n.to_string())),
        Just((json!("1e999"), "1e999".to_owned())),
        "[a-z/*\\p{Han}\"\\\\]{0,8}".prop_map(|s| (json!(s), json!(s).to_string())),
        "[a-z]{0,4}".prop_map(|s| (json!(format!("{s}\u{FFFD}")), format!("\"{s}\\uD83D\""))),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        let item = (blank.clone(), inner, blank.clone());
        let array = prop::collection::vec(item.clone(), 0..5).prop_map(|items| {
            let texts: Vec<String> = items.iter().map(|(a, (_, text), b)| format!("{a}{text}{b}")).collect();
            let values: Vec<Value> = items.into_iter().map(|(_, (value, _), _)| value).collect();
            (Value::Array(values), format!("[{}]", texts.join(",")))
        });
        let object = prop::collection::vec(("[a-z]{0,3}", item), 0..5).prop_map(|members| {
            let text = |(key, (a, (_, text), b)): &(String, (&str, (Value, String), &str))| {
                format!("{a}\"{key}\"{b}:{a}{text}{b}")
            };
            let texts: Vec<String> = members.iter().map(text).collect();
            let values = members.into_iter().map(|(key, (_, (value, _), _))| (key, value));
            (Value::Object(values.collect()), format!("{{{}}}", texts.join(",")))
        });
        prop_oneof![array, object]
    })
}

proptest! {
    #[test]
    fn any_value_is_read_as_it_is((value, text) in held()) {
        prop_assert_eq!(stored_value(text.as_bytes()).unwrap(), value);
    }

    #[test]
    fn any_bytes_end(bytes in prop::collection::vec(prop::sample::select(b"{}[]\",:\\ud83/*\n1e\xED\xA0 t".to_vec()), 0..40)) {
        let _ = stored_value(&bytes);
    }
}
