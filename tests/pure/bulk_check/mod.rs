//! What must hold for any bytes, checked against serde_json and naive code. Shared by the property tests, the small
//! mutation run and the fuzz target.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use spinney::bulk::{
    Cut, FieldNames, JsonError, Op, ResponseScanner, Selected, Selection, Splice, Stamp, parse, scan, scan_update,
};

/// JSON that keeps doubled keys and the order of members, unlike `serde_json::Value`.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    Other,
    Number(f64),
    String(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Nodes;
        impl<'de> Visitor<'de> for Nodes {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Other)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
                Ok(Node::Other)
            }

            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Number(value as f64))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Number(value as f64))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                Ok(Node::Number(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<Node, E> {
                Ok(Node::String(value.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
                let mut nodes = Vec::new();
                while let Some(node) = seq.next_element()? {
                    nodes.push(node);
                }
                Ok(Node::Array(nodes))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Node::Object(members))
            }
        }
        deserializer.deserialize_any(Nodes)
    }
}

pub const TEXT_FIELDS: [&str; 3] = ["content", "a.b", "a.b.c"];

/// The selection that every check uses.
pub fn selection() -> Selection {
    let fields = FieldNames {
        text: &TEXT_FIELDS,
        title: Some("title"),
        url: Some("meta.url"),
        id: Some("id"),
        clock: Some("at"),
        own: Some("a.b"),
    };
    Selection::new(&fields, "cluster_").unwrap()
}

const PATHS: [(&str, Selected); 8] = [
    ("content", Selected::Text(0)),
    ("a.b", Selected::Text(1)),
    ("a.b.c", Selected::Text(2)),
    ("title", Selected::Title),
    ("meta.url", Selected::Url),
    ("id", Selected::Id),
    ("at", Selected::Clock),
    ("a.b", Selected::Own),
];

pub const STAMP_NAMES: [&str; 6] =
    ["cluster_root", "cluster_key", "cluster_hash", "cluster_arrival", "cluster_proof", "cluster_first"];

pub const STAMP: Stamp<'static> = Stamp {
    root: 0xfedc_ba98_7654_3210,
    is_local_fallback: false,
    hashes: &[0xfedc_ba98_7654_3210, 7],
    arrival: Some("2026-01-02T03:04:05.678Z"),
    proof: None,
    first: Some(false),
};

const STAMP_JSON: &str = r#"{"cluster_root":"fedcba9876543210","cluster_key":-81985529216486896,"cluster_hash":["fedcba9876543210","0000000000000007"],"cluster_arrival":"2026-01-02T03:04:05.678Z","cluster_first":false}"#;

/// The selected values of a document, found by joining keys with dots: texts, and numbers as numbers; and whether a
/// text field has a member.
pub fn naive_values(document: &Node) -> (Vec<(Selected, Node)>, bool) {
    fn walk(path: &str, node: &Node, out: &mut (Vec<(Selected, Node)>, bool)) {
        match node {
            Node::Other => {}
            Node::Number(_) | Node::String(_) => {
                let here = PATHS.iter().filter(|(name, _)| *name == path);
                out.0.extend(here.map(|(_, selected)| (*selected, node.clone())));
            }
            Node::Array(nodes) => nodes.iter().for_each(|node| walk(path, node, out)),
            Node::Object(members) => {
                for (key, node) in members {
                    if path.is_empty() && STAMP_NAMES.contains(&&**key) {
                        continue;
                    }
                    // An empty part names no field, and joined it could look like another path.
                    if key.split('.').any(str::is_empty) {
                        continue;
                    }
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    out.1 |= TEXT_FIELDS.contains(&&*path);
                    walk(&path, node, out);
                }
            }
        }
    }
    let mut out = (Vec::new(), false);
    walk("", document, &mut out);
    out
}

/// Applies edits by plain concatenation.
pub fn naive_splice(original: &[u8], edits: &[(usize, usize, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    for (offset, removed, inserted) in edits {
        out.extend_from_slice(&original[at..*offset]);
        out.extend_from_slice(inserted);
        at = offset + removed;
    }
    out.extend_from_slice(&original[at..]);
    out
}

/// Checks one document, and gives its cut back with the edits it means.
pub fn check_document(source: &[u8], selection: &Selection) -> Option<Cut> {
    let oracle = serde_json::from_slice::<Node>(source);
    let document = match scan(source, selection) {
        Ok(document) => document,
        Err(error) => {
            // Valid JSON is understood, unless it carries a stamp that is none.
            if let Ok(Node::Object(members)) = &oracle {
                let stamps = members.iter().filter(|(key, _)| STAMP_NAMES.contains(&&**key));
                assert!(stamps.count() > 0, "{error}");
                assert!(matches!(error, JsonError::ForeignStamp { .. } | JsonError::Duplicate { .. }), "{error}");
            }
            return None;
        }
    };
    let cut = document.cut.clone();
    assert_eq!(source[cut.insert_at - 1], b'{');
    let mut end = cut.insert_at;
    for removal in &cut.removals {
        assert!(removal.start >= end && removal.start < removal.end);
        end = removal.end;
    }
    assert!(end <= source.len());

    let mut splice = Splice::default();
    splice.stamp(0, &cut, selection.names(), &STAMP).unwrap();
    let mut stamped = Vec::new();
    splice.write_to(source, &mut stamped);

    // The stamp goes right behind the brace; what stays is the original without the removals.
    let kept = naive_splice(source, &removal_edits(&cut, 0));
    let inserted = stamped.len() - kept.len();
    assert_eq!(stamped[..cut.insert_at], kept[..cut.insert_at]);
    assert_eq!(stamped[cut.insert_at + inserted..], kept[cut.insert_at..]);

    // Valid before if and only if valid after (and what was removed was valid).
    let removed_valid = cut.removals.iter().all(|removal| removed_is_valid(&source[removal.clone()]));
    let after = serde_json::from_slice::<Node>(&stamped);
    assert_eq!(
        oracle.is_ok(),
        after.is_ok() && removed_valid,
        "{}\n{}",
        String::from_utf8_lossy(source),
        String::from_utf8_lossy(&stamped)
    );

    if let (Ok(Node::Object(before)), Ok(Node::Object(after))) = (&oracle, &after) {
        let Ok(Node::Object(mut expected)) = serde_json::from_str(STAMP_JSON) else { panic!() };
        let stays = |(key, _): &&(String, Node)| !STAMP_NAMES.contains(&&**key);
        expected.extend(before.iter().filter(stays).cloned());
        assert_eq!(&expected, after);
        assert_eq!(cut.keeps_members, before.iter().any(|member| stays(&member)));
    }
    if let Ok(node) = &oracle {
        let (expected, present) = naive_values(node);
        let values: Vec<_> = document.values.iter().map(|v| (v.selected, &*v.text)).collect();
        assert_eq!(values.len(), expected.len(), "{values:?} {expected:?}");
        for ((selected, text), (expected_selected, expected)) in values.iter().zip(&expected) {
            assert_eq!(selected, expected_selected);
            match expected {
                Node::String(expected) => assert_eq!(text, expected),
                // serde_json reads some long numbers one step beside the nearest float.
                Node::Number(expected) => {
                    let number: f64 = text.parse().unwrap();
                    assert!((number - expected).abs() <= expected.abs() * 1e-12, "{text} {expected}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(document.has_text(), present);
    }
    Some(cut)
}

fn removal_edits(cut: &Cut, base: usize) -> Vec<(usize, usize, Vec<u8>)> {
    cut.removals.iter().map(|range| (base + range.start, range.len(), Vec::new())).collect()
}

/// Whether removed bytes, members with commas before or behind, are valid as members.
fn removed_is_valid(removed: &[u8]) -> bool {
    if removed == b"," {
        return true;
    }
    let members = removed.strip_prefix(b",").unwrap_or(removed);
    let members = members.strip_suffix(b",").unwrap_or(members);
    serde_json::from_slice::<Node>(&[b"{", members, b"}"].concat()).is_ok()
}

/// Checks a bulk body: its items, the documents in them, and the stamped body as a whole.
pub fn check_body(body: &[u8], selection: &Selection) {
    let Ok(items) = parse(body) else { return };
    let mut splice = Splice::default();
    let mut edits: Vec<(usize, usize, Vec<u8>)> = Vec::new();
    let mut end = 0;
    for item in &items {
        assert!(item.action.start >= end && item.action.start < item.action.end);
        assert_eq!(body[item.action.end], b'\n');
        end = item.action.end + 1;
        assert_eq!(item.source.is_none(), item.op == Op::Delete);
        let Some(source) = item.source.clone() else {
            continue;
        };
        assert_eq!(source.start, end);
        assert!(!body[source.clone()].contains(&b'\n'));
        end = source.end + if body[source.end] == b'\r' { 2 } else { 1 };
        assert_eq!(body[end - 1], b'\n');

        let parts: Vec<Range<usize>> = match item.op {
            Op::Update => match scan_update(&body[source.clone()]) {
                Ok(update) => update.parts().map(|(_, range)| range).collect(),
                Err(_) => continue,
            },
            _ => std::iter::once(0..source.len()).collect(),
        };
        for part in parts {
            let base = source.start + part.start;
            let Some(cut) = check_document(&body[base..source.start + part.end], selection) else {
                continue;
            };
            splice.stamp(base, &cut, selection.names(), &STAMP).unwrap();
            let mut inserted = STAMP_JSON.trim_matches(['{', '}']).as_bytes().to_vec();
            if cut.keeps_members {
                inserted.push(b',');
            }
            edits.push((base + cut.insert_at, 0, inserted));
            edits.extend(removal_edits(&cut, base));
        }
    }

    let expected = naive_splice(body, &edits);
    assert_eq!(splice.len(body.len()), expected.len());
    let mut stamped = Vec::new();
    splice.write_to(body, &mut stamped);
    assert_eq!(stamped, expected);
    let target = 1 + body.len() % 97;
    let chunks: Vec<Bytes> = splice.clone().chunks(Bytes::copy_from_slice(body), target).collect();
    assert!(chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= target));
    assert_eq!(chunks.concat(), expected);

    // The server sees the same items in the stamped body.
    let after = parse(&stamped).unwrap();
    assert_eq!(after.len(), items.len());
    for (before, after) in items.iter().zip(&after) {
        assert_eq!(
            (before.op, &before.index, &before.id, &before.routing),
            (after.op, &after.index, &after.id, &after.routing)
        );
        assert_eq!(body[before.action.clone()], stamped[after.action.clone()]);
    }
    if edits.is_empty() {
        assert!(splice.is_empty() && stamped == body);
    }
}

/// Checks that an answer reads the same however it is cut, and as serde_json reads it.
pub fn check_answer(answer: &[u8]) {
    let mut scanner = ResponseScanner::default();
    scanner.push(answer);
    let outcome = scanner.finish();
    let mut scanner = ResponseScanner::default();
    for chunk in answer.chunks(1 + answer.len() % 5) {
        scanner.push(chunk);
    }
    assert_eq!(scanner.finish(), outcome);
    assert_eq!(outcome.ops.len(), outcome.items);

    let Ok(Node::Object(members)) = serde_json::from_slice::<Node>(answer) else {
        return;
    };
    if !outcome.well_formed {
        return;
    }
    let items = members.iter().find(|(key, _)| key == "items").map(|(_, items)| items);
    // A key written with escapes is none that a server writes; it may be missed but never be mistaken.
    if answer.contains(&b'\\') && outcome.items == 0 {
        return;
    }
    let Some(Node::Array(items)) = items else {
        assert_eq!(outcome.items, 0);
        return;
    };
    assert_eq!(outcome.items, items.len());
    if !outcome.answers(outcome.ops.iter().flatten().copied()) {
        return;
    }
    let mut failed = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let Node::Object(ops) = item else { panic!("{item:?}") };
        let [(op, Node::Object(fields))] = &ops[..] else { panic!("{ops:?}") };
        assert_eq!(Op::from_name(op.as_bytes()), outcome.ops[place]);
        let mut statuses = fields.iter().filter(|(key, _)| key == "status");
        let Some((_, Node::Number(status))) = statuses.next() else { panic!("{fields:?}") };
        let missing = op == "delete" && *status == 404.0;
        let error = fields.iter().any(|(key, _)| key == "error");
        if *status >= 300.0 && (error || !missing) {
            failed.push((place, *status as u16));
        }
    }
    assert_eq!(outcome.failed, failed);
}

/// Everything that must hold for any bytes.
pub fn check(data: &[u8], selection: &Selection) {
    check_document(data, selection);
    if let Ok(update) = scan_update(data) {
        for (_, range) in update.parts() {
            check_document(&data[range], selection);
        }
    }
    check_body(data, selection);
    check_answer(data);
}
