use proptest::prelude::*;

use super::*;

/// Documents with the ids 0, 1, … of titles and texts.
pub(super) fn documents(texts: &[(&str, &str)]) -> Documents {
    let line = |(id, (title, text)): (usize, &(&str, &str))| {
        serde_json::json!({"id": id, "title": title, "content": text}).to_string() + "\n"
    };
    let body: String = texts.iter().enumerate().map(line).collect();
    Documents::parse(body.into_bytes(), &route_of(None).unwrap()).unwrap()
}

/// A folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, String)]) -> Folder {
        let folder = std::env::temp_dir().join(format!("spinney-eval-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A text of so many words, all its own.
fn text(name: &str, words: usize) -> String {
    (0..words).map(|at| format!("{name}{at}word")).collect::<Vec<_>>().join(" ")
}

fn line(id: &str, text: &str) -> String {
    serde_json::json!({"id": id, "title": "", "content": text}).to_string() + "\n"
}

/// Two copies, a reprint with a byline, and another text.
fn collection() -> String {
    let (one, other) = (text("one", 120), text("other", 120));
    [line("a", &one), line("b", &one), line("c", &format!("By Somebody. {one}")), line("d", &other)].concat()
}

fn run(arena: &Arena) -> Result<Vec<SetScore>, ArenaError> {
    arena.run(&Limits::ours().unwrap(), &mut |_| Ok(()), &|_| {})
}

fn number(scores: &[SetScore], method: &str, collection: &str, figure: &str) -> Option<f64> {
    let of = scores.iter().find(|score| score.method == method && score.collection == collection);
    of.unwrap_or_else(|| panic!("no scores of {method} on {collection}")).number(figure)
}

#[test]
fn all_collections_of_a_folder_are_scored() {
    let pairs = "a\tb\tdup\na\tc\tdup\na\td\ttemplate\n";
    let edits = "id\torig\tkind\tclass\tlang\na\ta\toriginal\toriginal\ten\nb\ta\tcopy\tpositive\ten\n\
                 c\ta\tbyline\tpositive\ten\nd\td\toriginal\toriginal\ten\n";
    let folder = Folder::new(
        "folder",
        &[
            ("press_tune.ndjson", collection()),
            ("press_tune.pairs.tsv", pairs.to_owned()),
            ("republish_tune.ndjson", collection()),
            ("republish_tune.pairs.tsv", "a\tb\t1\na\tc\t1\nd\ta\t0-footer\n".to_owned()),
            ("republish_tune.edits.tsv", edits.to_owned()),
            ("news.ndjson", collection()),
            ("news.mined.tsv", "id\tid\toverlap\nb\ta\t1.0\nc\tb\t0.9\na\tc\t0.4\n".to_owned()),
            ("picked.pairs.tsv", "a\tb\tdup\nb\td\tevent\nx\ty\tdup\n".to_owned()),
        ],
    );
    let arena = Arena {
        data: Some(folder.0.clone()),
        methods: vec!["verified".into(), "sentences:3".into()],
        peers: true,
        shuffles: 2,
        threads: 1,
        ..Arena::default()
    };
    let scores = run(&arena).unwrap();
    let of = |method: &str, collection: &str, figure: &str| number(&scores, method, collection, figure);
    for method in ["verified", "minhash:0.7", "minhash:0.5"] {
        assert_eq!(of(method, "press_tune", "label dup"), Some(1.0), "{method}");
        assert_eq!(of(method, "press_tune", "label template"), Some(0.0), "{method}");
        assert_eq!(of(method, "press_tune", "joins without the lead"), Some(0.0), "{method}");
        assert_eq!(of(method, "republish_tune", "reprints en byline"), Some(1.0), "{method}");
        assert_eq!(of(method, "republish_tune", WRONG_PAIRS), Some(0.0), "{method}");
        assert_eq!(of(method, "news", "of them, share sharing most of the text"), Some(2.0 / 3.0), "{method}");
        assert_eq!(of(method, "picked", "pairs of label dup"), Some(1.0), "{method}");
        assert_eq!(of(method, ALL, "error"), Some(0.0), "{method}");
        assert_eq!(of(method, ALL, "number of sets in the error"), Some(2.0), "{method}");
    }
    // Of two copies and a reprint, simhash and the longest sentences find the copies.
    for method in ["simhash:3", "sentences:3"] {
        assert_eq!(of(method, "press_tune", "label dup"), Some(0.5), "{method}");
    }
    assert_eq!(of("verified", "republish_tune", "reprints, lowest of 2 shuffles"), Some(1.0));
    assert!(of("verified", ALL, "nodes per document") > Some(0.0));
    assert_eq!(of("simhash:3", ALL, "nodes per document"), None);
    for set in ["press", "republish", ALL] {
        assert_eq!(of("verified", set, "error of pairs one by one"), Some(0.0), "{set}");
    }
    assert_eq!(of("sentences:3", ALL, "error of pairs one by one"), None);
    let sentences = scores.iter().find(|score| score.method == "sentences:3" && score.collection == "press_tune");
    assert_eq!(sentences.unwrap().labels[0].reasons.values().sum::<u64>(), 1);
    // A set by its name, and only what has pairs.
    for (only, quick, collections) in [
        (&["press", "news"][..], false, &["news", "press_tune", "press_tune in the whole collections", ALL][..]),
        (&["news"], true, &[]),
        (&[], true, &["press_tune", "republish_tune", "press", "republish", ALL]),
    ] {
        let only = only.iter().map(|&name| name.to_owned()).collect();
        let arena =
            Arena { only, quick, peers: false, methods: vec!["verified".into()], shuffles: 0, ..arena_of(&folder) };
        let found = run(&arena).unwrap_or_default();
        let found: Vec<&str> = found.iter().map(|score| score.collection.as_str()).collect();
        assert_eq!(found, collections);
    }
}

fn arena_of(folder: &Folder) -> Arena {
    Arena { data: Some(folder.0.clone()), threads: 1, ..Arena::default() }
}

#[test]
fn figures_are_lines_of_json() {
    let mut score = SetScore::new("press_tune", "verified");
    score.figure("label dup", FigureValue::Number(2.0 / 3.0));
    score.figure("sizes", FigureValue::Sizes(vec![3, 1]));
    score.figure("titles", FigureValue::Titles(vec![[3, 1]]));
    score.figure("pairs", FigureValue::Count(7));
    let mut out = Vec::new();
    score.write(&mut out).unwrap();
    let line = |figure: &str, value: &str| {
        format!(
            "{{\"bench\":\"eval\",\"method\":\"verified\",\"set\":\"press_tune\",\"figure\":\"{figure}\",\
             \"value\":{value}}}\n"
        )
    };
    let expected = [("label dup", "0.6667"), ("sizes", "[3,1]"), ("titles", "[[3,1]]"), ("pairs", "7")];
    assert_eq!(String::from_utf8(out).unwrap(), expected.map(|(figure, value)| line(figure, value)).concat());
    assert_eq!((score.number("pairs"), score.number("sizes")), (Some(7.0), None));
}

#[test]
fn wrong_files_are_named() {
    let with = |files: &[(&str, String)]| {
        let folder = Folder::new("wrong", files);
        let arena = Arena { methods: vec!["verified".into()], ..arena_of(&folder) };
        run(&arena).unwrap_err().to_string()
    };
    assert!(with(&[]).ends_with("contains no documents to score: X.ndjson or X.ndjson.xz"));
    assert_eq!(with(&[("a.ndjson", "[]".into())]), "a");
    let documents = ("a.ndjson", collection());
    assert_eq!(with(&[documents.clone(), ("a.pairs.tsv", "x\ty\tdup\n".into())]), "a.pairs.tsv");
    let edits = with(&[documents.clone(), ("a.edits.tsv", "id\na\tb\n".into())]);
    assert_eq!(edits, "a.edits.tsv: line 2 has fewer than 5 columns, separated by tabs");
    let method = Arena { methods: vec!["magic".into()], ..Arena::default() };
    assert!(run(&method).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    #[test]
    fn a_peer_puts_copies_together_and_every_root_is_its_own_leader(
        texts in proptest::collection::vec(0usize..4, 1..12),
    ) {
        let all: Vec<String> = (0..4).map(|at| text(&format!("t{at}of"), 40)).collect();
        let texts: Vec<(&str, &str)> = texts.iter().map(|&at| ("", all[at].as_str())).collect();
        let documents = documents(&texts);
        for peer in Peer::ALL {
            let roots = peer.cluster(&documents, &|_| {}).roots;
            for (at, &root) in roots.iter().enumerate() {
                prop_assert!(root <= at as u64 && roots[root as usize] == root);
                let copy = texts.iter().position(|text| text.1 == texts[at].1).unwrap();
                prop_assert_eq!(roots[copy], root);
            }
        }
    }
}
