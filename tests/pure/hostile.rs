//! Texts that nobody writes but somebody sends: one huge document of each kind that could make a careless method
//! quadratic, in time or in memory. Nothing is timed: these sizes would not come to an end if it were quadratic.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use crate::random::Random;
use serde_json::{Value, json};

const MB: usize = 1_000_000;

const BYLINE: &str = "From our correspondent in the capital. ";
/// Where the text says so little that a byline would be half of it.
const NOTHING: &str = "";

fn text(bytes: usize, piece: impl Fn(usize, u64, &mut String)) -> String {
    let (mut text, mut random) = (String::with_capacity(bytes + 100), Random::new(1));
    let mut count = 0;
    while text.len() < bytes {
        piece(count, random.next(), &mut text);
        count += 1;
    }
    text
}

fn word(number: u64) -> String {
    let letters = (0..3 + number % 6).map(|at| char::from(b'a' + (number >> (8 + 5 * at)) as u8 % 26));
    letters.collect()
}

fn character(number: u64) -> char {
    char::from_u32(0x4E00 + (number % 3000) as u32).unwrap()
}

/// Puts the text through `spinney stamp --method verified` twice, the second time with `before` in front, and checks
/// that both got the same root and that the process never held more than eight times the text, beside 120 MB for the
/// tables and the buffers of the input.
fn place_twice(text: &str, before: &str) {
    let first = json!({"id": 1, "content": text}).to_string();
    let with_more = format!("{before}{text}");
    let again = json!({"id": 2, "content": with_more}).to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_spinney"))
        .args(["stamp", "--method", "verified", "--threads", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let lines = format!("{first}\n{again}\n");
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let mut output = BufReader::new(output);
    let mut out = Vec::new();
    output.read_until(b'\n', &mut out).unwrap();
    // The second document has been placed when its first byte is here, and the rest is more than a pipe holds: the
    // process is done with the texts, and still there.
    assert!(!output.fill_buf().unwrap().is_empty());
    let peak = peak_memory(child.id());
    output.read_to_end(&mut out).unwrap();
    writer.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success());
    let roots: Vec<Value> = out
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice::<Value>(line).unwrap()["cluster_root"].clone())
        .collect();
    assert_eq!(roots.len(), 2);
    assert!(roots[0].is_string());
    assert_eq!(roots[0], roots[1]);
    let bound = 120 * MB + 8 * text.len();
    assert!(peak < bound, "held {peak} bytes for a text of {}, bound {bound}", text.len());
}

/// The largest resident set of the process so far, in bytes; 0 elsewhere than on Linux, where nobody says it.
fn peak_memory(pid: u32) -> usize {
    if !cfg!(target_os = "linux") {
        return 0;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes = line.trim().trim_end_matches(" kB").trim();
    kilobytes.parse::<usize>().unwrap() * 1024
}

#[test]
fn twenty_megabytes_of_prose() {
    let prose = text(20 * MB, |count, number, text| {
        text.push_str(&word(number));
        text.push_str(if count % 12 == 11 { ". " } else { " " });
    });
    place_twice(&prose, BYLINE);
}

#[test]
fn twenty_megabytes_of_chinese() {
    let prose = text(20 * MB, |count, number, text| {
        text.push(character(number));
        if count % 20 == 19 {
            text.push('。');
        }
    });
    place_twice(&prose, BYLINE);
}

#[test]
fn ten_megabytes_without_punctuation() {
    let one_word = text(10 * MB, |_, number, text| {
        text.push(char::from(b'a' + (number % 26) as u8));
    });
    place_twice(&format!("{one_word} and two more words"), NOTHING);
    let one_sentence = text(10 * MB, |_, number, text| text.push(character(number)));
    place_twice(&one_sentence, BYLINE);
}

#[test]
fn a_million_tiny_sentences() {
    let sentences: String =
        (0..1_000_000u64).map(|count| format!("{}. ", char::from(b'a' + (count % 26) as u8))).collect();
    place_twice(&sentences, BYLINE);
}

#[test]
fn ten_megabytes_of_the_same_sentence() {
    place_twice(&"The ferry is late again. ".repeat(400_000), NOTHING);
}

#[test]
fn a_million_numbers() {
    let numbers = text(10 * MB, |_, number, text| {
        text.push_str(&format!("{} of {}, ", number % 1_000_000, word(number)));
    });
    place_twice(&numbers, BYLINE);
}

#[test]
fn tags_nested_very_deep() {
    // Within the first MiB, which is all that is read.
    let deep = format!(
        "{}A few words about the harbour in the middle of it all, and then some more.{}",
        "<div>".repeat(200_000),
        "</div>".repeat(1_000_000)
    );
    place_twice(&deep, BYLINE);
    let open = format!(
        "A few words about the harbour before the page breaks off, and then some more. {}",
        "<".repeat(10 * MB)
    );
    place_twice(&open, BYLINE);
}
