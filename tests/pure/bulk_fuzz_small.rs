//! A small deterministic run of what `fuzz/` does at length: mutations of a seed corpus through every check.

use crate::bulk_check::{check, selection};
use crate::random::Random;
use spinney::bulk::{ResponseScanner, Selection, parse, scan, scan_update};

const SEEDS: [&str; 16] = [
    r#"{"content":"one two","title":"t","id":7,"at":"2026-01-01","a":{"b":"x","c":[1,2,{"d":null}]}}"#,
    r#"{"cluster_root":"00ff","content":"x","cluster_key":-1,"cluster_hash":["a","b"]}"#,
    r#"{ "cluster\u005froot" : "x" , "cluster_key":1 }"#,
    r#"{"a":1,"cluster_arrival":null}"#,
    r#"/* c */ {/**/"a.b"/**/:/**/"x"/**/,//
"cluster_key":1/**/,"content":"y"}//"#,
    r#"{"a":{"b":{"c":"deep"},"b.c":"dotted"},"a.b.c":["p","q",["r"]],"a.b":3.5e-7}"#,
    "{\"content\":\"\\u4e2d\\u6587 \\ud83d\\ude00 \\\"quoted\\\" \\\\ \\/ \\n\",\"meta\":{\"url\":\"http:\\/\\/x\"}}",
    "\u{feff}{\"content\":\"中文，标点。\"}",
    r#"{"doc":{"content":"x","cluster_root":"y"},"doc_as_upsert":true,"upsert":{"title":"z"}}"#,
    "{\"index\":{\"_index\":\"news\",\"_id\":\"1\"}}\n{\"content\":\"x\"}\n{\"delete\":{\"_id\":2}}\n\n{\"create\":{}}\r\n{\"title\":\"y\",\"cluster_root\":\"z\"}\r\n",
    "{\"update\":{\"_id\":\"3\",\"routing\":\"r\"}}\n{\"doc\":{\"content\":\"x\"},\"upsert\":{\"a\":1}}\n{\"index\":{\"op_type\":\"create\",\"_index\":\"n\"}}\n{}\n",
    "{\"index\":{}}\n{\"content\":[\"a\",\"b\"]}\n{\"index\":{}}\n",
    "{\"what\":{}}\n{\"content\":\"x\"}\n//\n{\"index\":{}}} \n\n{\"index\":{}}\n{\"a\":1}",
    r#"{"took":3,"errors":true,"items":[{"index":{"_id":"1","status":201}},{"create":{"status":409,"error":{"reason":"\"status\":1","status":5}}},{"delete":{"status":404}}]}"#,
    r#"{"took":3,"items":[{"update":{"error":{"type":"x"}}}],"errors":true}"#,
    r#"{"error":{"type":"illegal_argument_exception","reason":"x"},"status":400}"#,
];

/// Pieces of syntax that bring a mutation further than random bytes do.
const WORDS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\n",
    "\r",
    "/*",
    "*/",
    "//",
    "\\u",
    "\\ud83d",
    "null",
    "-0",
    "\"cluster_root\":\"x\"",
    ",\"cluster_key\":1",
    "\"content\":",
    "\"a.b\":",
    "\u{feff}",
    "{}",
    "\"status\":500",
];

fn mutate(random: &mut Random, data: &mut Vec<u8>) {
    let at = random.below(data.len() + 1);
    let length = random.below(12).min(data.len() - at);
    match random.below(7) {
        0 => drop(data.drain(at..at + length)),
        1 => {
            let word = WORDS[random.below(WORDS.len())].bytes();
            data.splice(at..at, word);
        }
        2 => {
            let word = WORDS[random.below(WORDS.len())].bytes();
            data.splice(at..at + length, word);
        }
        3 => {
            let piece = data[at..at + length].to_vec();
            let to = random.below(data.len() + 1);
            data.splice(to..to, piece);
        }
        4 => data.truncate(at),
        5 => {
            let other = SEEDS[random.below(SEEDS.len())].as_bytes();
            let from = random.below(other.len());
            let length = random.below(other.len() - from);
            data.splice(at..at, other[from..from + length].iter().copied());
        }
        _ => {
            if let Some(byte) = data.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
    }
}

/// How many of the inputs were understood as what: checks of what is not understood say little.
#[derive(Debug, Default)]
struct Understood {
    documents: usize,
    updates: usize,
    bodies: usize,
    answers: usize,
}

impl Understood {
    /// Checks an input and counts it.
    fn check(&mut self, data: &[u8], selection: &Selection) {
        check(data, selection);
        let mut scanner = ResponseScanner::default();
        scanner.push(data);
        let answer = scanner.finish();
        self.documents += usize::from(scan(data, selection).is_ok());
        self.updates += usize::from(scan_update(data).is_ok_and(|update| update.parts().count() > 0));
        self.bodies += usize::from(parse(data).is_ok_and(|items| !items.is_empty()));
        self.answers += usize::from(answer.well_formed && answer.items > 0);
    }

    fn least(&self) -> usize {
        let counts = [self.documents, self.updates, self.bodies, self.answers];
        counts.into_iter().min().unwrap()
    }
}

#[test]
fn seeds_hold() {
    let (selection, mut understood) = (selection(), Understood::default());
    for seed in SEEDS {
        understood.check(seed.as_bytes(), &selection);
    }
    assert!(understood.least() > 0, "{understood:?}");
}

#[test]
fn twenty_thousand_mutations_hold() {
    let (selection, mut understood) = (selection(), Understood::default());
    let mut random = Random::new(20_260_101);
    for round in 0..20_000 {
        let mut data = SEEDS[round % SEEDS.len()].as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            mutate(&mut random, &mut data);
        }
        understood.check(&data, &selection);
    }
    assert!(understood.least() > 100, "{understood:?}");
}
