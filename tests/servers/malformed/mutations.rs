//! Well-formed bulks with a few things broken, the same ones in every run.

use crate::common::random::Random;

/// Well-formed: every operation, blank lines, comments, stamps that are there already, escapes. No action names an
/// index: a mutation of its name would make another one.
const SEEDS: [&str; 7] = [
    "{\"index\":{\"_id\":\"a#\"}}\n{\"content\":\"a harbour full of \
     boats\",\"n\":1}\n{\"create\":{\"_id\":\"b#\"}}\n{\"content\":\"中文，标点。\"}\n{\"delete\":{\"_id\":\"a#\"}}\n{\"index\":{\"_id\":\"c#\"}}\n{\"content\":[\"one\",\"two\"]}\n",
    "{\"index\":{\"_id\":\"a#\"}}\r\n{\"cluster_root\":\"0123456789abcdef\",\"content\":\"boats\",\"cluster_key\":-1}\r\n\r\n{\"index\":{\"_id\":\"b#\",\"routing\":\"r\"}}\r\n{ \
     \"content\" : \"x\" , \"\\u0063luster_hash\":[\"a\",\"b\"] }\r\n",
    "{\"index\":{\"_id\":\"a#\"}}\n{\"content\":\"old\"}\n{\"update\":{\"_id\":\"a#\"}}\n{\"doc\":{\"content\":\"new\",\"n\":2},\"doc_as_upsert\":true}\n{\"update\":{\"_id\":\"b#\"}}\n{\"doc\":{\"n\":1},\"upsert\":{\"content\":\"up\",\"cluster_root\":\"x\"}}\n{\"index\":{\"_id\":\"d#\"}}\n{\"content\":\"kept\"}\n",
    "/* c */ {\"index\":{\"_id\":\"a#\"}} // }\n{\"content\":/* { \" */\"y\"/**/} // }\n  \
     \n{\"index\":{\"_id\":\"b#\",\"op_type\":\"create\"}}\n{}\n",
    "{\"index\":{\"_id\":\"a#\"}}\n{\"content\":\"\\u4e2d\\ud83d\\ude00 \\\"q\\\" \\\\ \\/ \
     \\n\",\"raw\":{\"e\":1E+400,\"n\":null,\"t\":[true,false,{}]}}\n{\"create\":{\"_id\":\"b#\"}}\n{\"day\":\"2026-01-01\",\"content\":\"dated\"}\n",
    "{\"index\":{}}\n{\"content\":\"no id\"}\n{\"create\":{}}\n{\"content\":\"none \
     either\"}\n{\"index\":{\"_id\":\"c#\",\"version\":3,\"version_type\":\"external\"}}\n{\"content\":\"versioned\"}\n{\"delete\":{\"_id\":\"gone#\"}}\n",
    "{\"index\":{\"_id\":17}}\n{\"content\":\"numbered\"}\n{\"update\":{\"_id\":\"u#\",\"retry_on_conflict\":2}}\n{\"upsert\":{\"content\":\"p\"},\"doc\":{\"content\":\"q\"},\"detect_noop\":false}\n{\"index\":{\"_id\":\"z#\"}}\n{\"content\":\"last\",\"cluster_arrival\":null}\n",
];

/// Pieces of syntax that bring a mutation further than random bytes do.
const WORDS: [&[u8]; 40] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\n",
    b"\r",
    b"\r\n",
    b" ",
    b"\t",
    b"\0",
    b"/*",
    b"*/",
    b"//",
    b"#",
    b"'",
    b"\\u",
    b"\\ud83d",
    b"null",
    b"true",
    b"-0",
    b"1e999",
    b"01",
    b"NaN",
    b"{}",
    b"[]",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\x7f",
    b"\"cluster_root\":\"x\",",
    b",\"cluster_key\":1",
    b"\"content\":",
    b"{\"index\":{}}\n",
    b"{\"delete\":{\"_id\":\"x\"}}\n",
    b"{\"doc\":{\"content\":\"w\"}}\n",
];

fn below(random: &mut Random, bound: usize) -> usize {
    (random.next() % bound as u64) as usize
}

/// Endless, and always the same.
pub fn bodies() -> impl Iterator<Item = Vec<u8>> {
    let mut random = Random::new(20_260_101);
    std::iter::repeat_with(move || {
        let mut body = SEEDS[below(&mut random, SEEDS.len())].as_bytes().to_vec();
        for _ in 0..1 + below(&mut random, 3) {
            mutate(&mut body, &mut random);
        }
        body
    })
}

fn mutate(body: &mut Vec<u8>, random: &mut Random) {
    if body.is_empty() {
        body.push(b'\n');
    }
    let at = below(random, body.len());
    match below(random, 9) {
        0 => {
            body.remove(at);
        }
        1 => body[at] = u8::try_from(below(random, 256)).unwrap(),
        2 | 3 => {
            let word = WORDS[below(random, WORDS.len())];
            body.splice(at..at, word.iter().copied());
        }
        4 => {
            let word = WORDS[below(random, WORDS.len())];
            let end = (at + word.len()).min(body.len());
            body.splice(at..end, word.iter().copied());
        }
        // A piece is missing.
        5 => {
            let end = (at + 1 + below(random, 12)).min(body.len());
            body.drain(at..end);
        }
        // A piece is there twice.
        6 => {
            let end = (at + 1 + below(random, 30)).min(body.len());
            let piece = body[at..end].to_vec();
            body.splice(at..at, piece);
        }
        // A line is missing, or stands elsewhere.
        7 => {
            let mut lines: Vec<&[u8]> = body.split_inclusive(|byte| *byte == b'\n').collect();
            let line = lines.remove(below(random, lines.len()));
            if below(random, 2) == 0 {
                let place = below(random, lines.len() + 1);
                lines.insert(place, line);
            }
            *body = lines.concat();
        }
        // The end is missing.
        _ => {
            body.truncate(at);
            if below(random, 2) == 0 {
                body.push(b'\n');
            }
        }
    }
}
