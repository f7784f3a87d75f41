//! The bulk room against naive models: documents written in every legal way, bodies made from known items, answers cut
//! anywhere.

use crate::bulk_check::{
    Node, STAMP, STAMP_NAMES, check, check_answer, check_document, naive_splice, naive_values, selection,
};
use bytes::Bytes;
use proptest::prelude::*;
use spinney::bulk::{Op, ResponseScanner, Splice, SpliceError, parse, scan, scan_update};

/// Choices of how to write JSON down: taken one by one, over and over.
#[derive(Debug, Clone)]
struct Style {
    choices: Vec<u8>,
    next: usize,
    comments: bool,
    /// As servers write: no key with escapes, no status with an exponent.
    plain: bool,
}

/// Marks every comment, so that a test can take them out again; no generated string holds it.
const COMMENT: &str = "/*§ \" } */";
const LINE_COMMENT: &str = "//§ \" }\r";

impl Style {
    fn choose(&mut self, count: u8) -> u8 {
        let choice = self.choices.get(self.next % self.choices.len().max(1)).copied();
        self.next += 1;
        choice.unwrap_or(0) % count
    }

    fn blank(&mut self, out: &mut String) {
        match self.choose(8) {
            0 => out.push(' '),
            1 => out.push_str("\t \r"),
            2 if self.comments => out.push_str(COMMENT),
            3 if self.comments => out.push_str(LINE_COMMENT),
            _ => {}
        }
    }

    fn string(&mut self, text: &str, out: &mut String) {
        out.push('"');
        for char in text.chars() {
            let mut units = [0; 2];
            let choice = if self.plain { 2 } else { self.choose(5) };
            match (char, choice) {
                (_, 0) => {
                    for unit in char.encode_utf16(&mut units) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                ('\n', _) => out.push_str("\\n"),
                ('\t', _) => out.push_str("\\t"),
                ('"' | '\\', _) => out.extend(['\\', char]),
                ('/', 1) => out.push_str("\\/"),
                (char, _) if char < ' ' => out.push_str(&format!("\\u{:04X}", char as u32)),
                (char, _) => out.push(char),
            }
        }
        out.push('"');
    }

    fn write(&mut self, node: &Node, out: &mut String) {
        match node {
            Node::Other => out.push_str(["null", "true", "false"][usize::from(self.choose(3))]),
            Node::Number(value) => match self.choose(3) {
                0 if !self.plain => out.push_str(&format!("{value:e}")),
                _ => out.push_str(&value.to_string()),
            },
            Node::String(text) => self.string(text, out),
            Node::Array(nodes) => {
                out.push('[');
                self.blank(out);
                for (place, node) in nodes.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                        self.blank(out);
                    }
                    self.write(node, out);
                    self.blank(out);
                }
                out.push(']');
            }
            Node::Object(members) => {
                out.push('{');
                self.blank(out);
                for (place, (key, node)) in members.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                        self.blank(out);
                    }
                    self.string(key, out);
                    self.blank(out);
                    out.push(':');
                    self.blank(out);
                    self.write(node, out);
                    self.blank(out);
                }
                out.push('}');
            }
        }
    }

    /// A whole text, as one line.
    fn document(&mut self, node: &Node) -> String {
        let mut out = String::new();
        self.blank(&mut out);
        self.write(node, &mut out);
        self.blank(&mut out);
        out
    }
}

fn style() -> impl Strategy<Value = Style> {
    (prop::collection::vec(any::<u8>(), 1..40), any::<bool>()).prop_map(|(choices, comments)| Style {
        choices,
        next: 0,
        comments,
        plain: false,
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c ]{0,6}", "[中文，。é😀\\\\\"/\n\t\u{1}{}\\[\\],:*]{0,12}", Just("x".repeat(300)),]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "content", "title", "a", "b", "c", "a.b", "b.c", "a.b.c", "meta", "url", "meta.url", "id", "at", "items",
            "cluster_", "cluster_roots", "a.", ".b", "doc",
        ]).prop_map(str::to_owned),
        1 => text(),
    ]
}

fn leaf() -> impl Strategy<Value = Node> {
    prop_oneof![
        Just(Node::Other),
        any::<i32>().prop_map(|value| Node::Number(f64::from(value))),
        // Eighths have few digits, and every reader agrees on them.
        any::<i32>().prop_map(|value| Node::Number(f64::from(value) / 8.0)),
        text().prop_map(Node::String),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    leaf().prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Node::Array),
            prop::collection::vec((key(), inner), 0..6).prop_map(Node::Object),
        ]
    })
}

/// A document, which may carry members of a stamp, each once, anywhere.
fn document() -> impl Strategy<Value = Node> {
    let members = prop::collection::vec((key(), node()), 0..6);
    let old = prop::sample::subsequence(STAMP_NAMES.to_vec(), 0..=STAMP_NAMES.len()).prop_shuffle();
    let values = prop::collection::vec(
        prop_oneof![leaf(), prop::collection::vec(leaf(), 0..3).prop_map(Node::Array)],
        STAMP_NAMES.len(),
    );
    let places = prop::collection::vec(any::<prop::sample::Index>(), STAMP_NAMES.len());
    (members, old, values, places).prop_map(|(mut members, old, values, places)| {
        for ((name, value), place) in old.into_iter().zip(values).zip(places) {
            let place = place.index(members.len() + 1);
            members.insert(place, (name.to_owned(), value));
        }
        Node::Object(members)
    })
}

fn without_stamp(document: &Node) -> Vec<(String, Node)> {
    let Node::Object(members) = document else { panic!("{document:?}") };
    members.iter().filter(|(key, _)| !STAMP_NAMES.contains(&&**key)).cloned().collect()
}

fn without_comments(text: &[u8]) -> String {
    String::from_utf8(text.to_vec()).unwrap().replace(COMMENT, "").replace(LINE_COMMENT, "")
}

/// One item of a body as it was meant, and its lines.
#[derive(Debug, Clone)]
struct Meant {
    op: Op,
    index: Option<String>,
    id: Option<String>,
    source: Option<String>,
    lines: String,
}

fn item() -> impl Strategy<Value = Meant> {
    let op = prop::sample::select(vec![Op::Index, Op::Create, Op::Update, Op::Delete]);
    let name = || prop::option::of("[a-zé\"]{1,5}");
    let before = prop::sample::select(vec!["", "\n", " \r\n", "/**/\n//\n"]);
    (op, name(), name(), document(), document(), style(), any::<u8>(), before).prop_map(
        |(op, index, id, first, second, mut style, choice, before)| {
            let mut metadata = Vec::new();
            for (key, value) in [("_index", &index), ("_id", &id)] {
                if let Some(value) = value {
                    metadata.push((key.to_owned(), Node::String(value.clone())));
                }
            }
            let written = match (op, choice % 3) {
                (Op::Create, 0) => {
                    let create = ("op_type".to_owned(), Node::String("create".to_owned()));
                    metadata.push(create);
                    "index"
                }
                _ => op.name(),
            };
            let action = Node::Object(vec![(written.to_owned(), Node::Object(metadata))]);
            let source = match op {
                Op::Delete => None,
                Op::Update => {
                    let mut members = vec![("doc".to_owned(), first), ("upsert".to_owned(), second)];
                    if choice & 1 == 1 {
                        members.reverse();
                    }
                    members.truncate(usize::from(choice % 3));
                    Some(style.document(&Node::Object(members)))
                }
                _ if choice == 0 => Some(String::new()),
                _ => Some(style.document(&first)),
            };
            // A return before the newline belongs to the line break, so no source can end in one.
            let source = source.map(|source| source.trim_end_matches('\r').to_owned());
            let end = if choice & 2 == 2 { "\r\n" } else { "\n" };
            let mut lines = format!("{before}{}{end}", style.document(&action));
            if let Some(source) = &source {
                lines.push_str(source);
                lines.push_str(end);
            }
            Meant { op, index, id, source, lines }
        },
    )
}

fn answer() -> impl Strategy<Value = (Vec<(Op, Option<u16>, bool)>, String)> {
    let op = prop::sample::select(vec![Op::Index, Op::Create, Op::Update, Op::Delete]);
    let status =
        prop::option::weighted(0.9, prop::sample::select(vec![200u16, 201, 299, 300, 400, 404, 409, 429, 503]));
    let item = (op, status, prop::option::of(node()), any::<bool>());
    let head = prop::option::of(node());
    (prop::collection::vec(item, 0..8), style(), head).prop_map(|(items, mut style, head)| {
        (style.comments, style.plain) = (false, true);
        let meant = items.iter().map(|(op, status, error, _)| (*op, *status, error.is_some())).collect();
        let items = items.into_iter().map(|(op, status, error, late)| {
            let mut fields = vec![("_id".to_owned(), Node::String("1".to_owned()))];
            fields.extend(status.map(|status| ("status".to_owned(), Node::Number(status.into()))));
            fields.extend(error.map(|error| {
                let inner = vec![("status".to_owned(), Node::Number(1.0)), ("cause".to_owned(), error)];
                ("error".to_owned(), Node::Object(inner))
            }));
            if late {
                fields.reverse();
            }
            Node::Object(vec![(op.name().to_owned(), Node::Object(fields))])
        });
        let mut members = vec![("items".to_owned(), Node::Array(items.collect()))];
        members.extend(head.map(|head| ("head".to_owned(), head)));
        members.reverse();
        (meant, style.document(&Node::Object(members)))
    })
}

fn cut_anywhere(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// However a document is written, its values are found and stamping changes nothing but the stamp.
    #[test]
    fn documents(document in document(), mut style in style()) {
        let selection = selection();
        let source = style.document(&document);
        let scanned = scan(source.as_bytes(), &selection).unwrap();

        let (expected, _) = naive_values(&document);
        prop_assert_eq!(scanned.values.len(), expected.len());
        for (value, (selected, node)) in scanned.values.iter().zip(&expected) {
            prop_assert_eq!(value.selected, *selected);
            match node {
                Node::String(text) => prop_assert_eq!(&value.text, text),
                Node::Number(number) => prop_assert_eq!(value.text.parse::<f64>().unwrap(), *number),
                other => panic!("{other:?}"),
            }
        }

        let mut splice = Splice::default();
        splice.stamp(0, &scanned.cut, selection.names(), &STAMP).unwrap();
        let mut stamped = Vec::new();
        splice.write_to(source.as_bytes(), &mut stamped);
        let after: Node = serde_json::from_str(&without_comments(&stamped)).unwrap();
        let Node::Object(after) = after else { panic!("{after:?}") };
        let names: Vec<&str> = after.iter().take(5).map(|(key, _)| &**key).collect();
        // It has no proof.
        prop_assert_eq!(names, [&STAMP_NAMES[..4], &STAMP_NAMES[5..]].concat());
        prop_assert_eq!(&after[5..], without_stamp(&document));

        // A stamped document that is stamped again is the same document.
        let again = scan(&stamped, &selection).unwrap();
        let mut splice = Splice::default();
        splice.stamp(0, &again.cut, selection.names(), &STAMP).unwrap();
        let mut twice = Vec::new();
        splice.write_to(&stamped, &mut twice);
        prop_assert_eq!(stamped, twice);

        if !style.comments {
            prop_assert!(check_document(source.as_bytes(), &selection).is_some());
        }
    }

    /// A cut-off document is never understood.
    #[test]
    fn prefixes_of_documents_fail(document in document(), mut style in style(), place in any::<prop::sample::Index>()) {
        let mut source = String::new();
        style.write(&document, &mut source);
        let cut = place.index(source.len());
        prop_assert!(scan(&source.as_bytes()[..cut], &selection()).is_err());
        prop_assert!(scan(source.as_bytes(), &selection()).is_ok());
    }

    /// A body made from items gives these items, with their lines.
    #[test]
    fn bodies(meant in prop::collection::vec(item(), 0..6)) {
        let body: String = meant.iter().map(|item| &*item.lines).collect();
        let items = parse(body.as_bytes()).unwrap();
        prop_assert_eq!(items.len(), meant.len());
        for (item, meant) in items.iter().zip(&meant) {
            prop_assert_eq!(item.op, meant.op);
            prop_assert_eq!(item.index.as_deref(), meant.index.as_deref());
            prop_assert_eq!(item.id.as_deref(), meant.id.as_deref());
            prop_assert_eq!(item.source.clone().map(|range| &body[range]), meant.source.as_deref());
        }
        check(body.as_bytes(), &selection());

        // Without its last newline the server refuses it.
        if let Some(cut) = body.strip_suffix('\n') && !cut.is_empty() && !cut.ends_with('\n') {
            prop_assert!(parse(cut.as_bytes()).is_err());
        }
    }

    /// The documents of an update are found wherever they stand.
    #[test]
    fn updates(first in document(), second in document(), other in node(), mut style in style(), order in any::<u8>()) {
        let mut members = vec![
            ("doc".to_owned(), first.clone()),
            ("upsert".to_owned(), second.clone()),
            ("script".to_owned(), other),
        ];
        members.rotate_left(usize::from(order % 3));
        let source = style.document(&Node::Object(members));
        let update = scan_update(source.as_bytes()).unwrap();
        prop_assert!(update.script && !update.doc_as_upsert);
        for (range, node) in [(update.doc.clone(), first), (update.upsert.clone(), second)] {
            let text = without_comments(&source.as_bytes()[range.unwrap()]);
            prop_assert_eq!(serde_json::from_str::<Node>(&text).unwrap(), node);
        }
        let starts: Vec<usize> = update.parts().map(|(_, range)| range.start).collect();
        prop_assert!(starts.len() == 2 && starts[0] < starts[1]);
    }

    /// Whatever the bytes are, nothing panics and every invariant holds.
    #[test]
    fn any_bytes(data in prop::collection::vec(prop_oneof![
        4 => prop::sample::select(b"{}[]\",:\\/*\n\r ue01-.tfn\xc3\xa9\xff".to_vec()),
        1 => any::<u8>(),
    ], 0..80)) {
        check(&data, &selection());
    }

    /// Edits in chunks are the edits by plain concatenation.
    #[test]
    fn splices(
        original in prop::collection::vec(any::<u8>(), 0..300),
        gaps in prop::collection::vec((0usize..40, 0usize..20, prop::collection::vec(any::<u8>(), 0..30)), 0..12),
        target in 0usize..400,
    ) {
        let mut splice = Splice::default();
        let mut edits = Vec::new();
        let mut at = 0;
        for (gap, removed, inserted) in gaps {
            let offset = at + gap;
            if offset + removed > original.len() {
                break;
            }
            splice.push(offset, removed, &inserted).unwrap();
            edits.push((offset, removed, inserted));
            at = offset + removed;
        }
        if at > 0 {
            prop_assert_eq!(splice.push(at - 1, 0, b"late"), Err(SpliceError::Order { offset: at - 1, end: at }));
        }
        let expected = naive_splice(&original, &edits);
        prop_assert_eq!(splice.len(original.len()), expected.len());
        let mut whole = Vec::new();
        splice.write_to(&original, &mut whole);
        prop_assert_eq!(&whole, &expected);
        let mut left = expected.len();
        let mut joined = Vec::new();
        for chunk in splice.chunks(Bytes::from(original), target) {
            left -= chunk.len();
            prop_assert!(!chunk.is_empty() && chunk.len() <= target.max(1));
            prop_assert!(chunk.len() == target.max(1) || left == 0);
            joined.extend_from_slice(&chunk);
        }
        prop_assert_eq!(joined, expected);
    }

    /// An answer is read the same however it is cut, and says what was meant.
    #[test]
    fn answers((meant, text) in answer(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        check_answer(text.as_bytes());
        let mut scanner = ResponseScanner::default();
        for chunk in cut_anywhere(text.as_bytes(), &cuts) {
            scanner.push(&chunk);
        }
        let outcome = scanner.finish();
        prop_assert!(outcome.well_formed, "{}", text);
        prop_assert_eq!(outcome.items, meant.len());
        prop_assert_eq!(outcome.all_have_status, meant.iter().all(|(_, status, _)| status.is_some()));
        let failed: Vec<_> = meant
            .iter()
            .enumerate()
            .filter_map(|(place, (op, status, error))| {
                let missing = *op == Op::Delete && *status == Some(404) && !error;
                let status = status.filter(|status| *status >= 300 && !missing);
                status.map(|status| (place, status))
            })
            .collect();
        prop_assert_eq!(&outcome.failed, &failed);
        let ops = || meant.iter().map(|(op, ..)| *op);
        prop_assert_eq!(outcome.answers(ops()), outcome.all_have_status);
        prop_assert!(!outcome.answers(ops().chain([Op::Index])));

        // A cut-off answer never passes for a whole one.
        let cut = cuts.first().map_or(0, |cut| cut.index(text.trim_end().len()));
        let mut scanner = ResponseScanner::default();
        scanner.push(&text.as_bytes()[..cut]);
        prop_assert!(!scanner.finish().well_formed);
    }
}
