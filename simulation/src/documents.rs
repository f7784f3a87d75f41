//! Stories that writers send: ordinary ones, and those at and beside every limit of a document.

use std::fmt::{self, Write};

use serde_json::{Value, json};

use super::world::World;

/// A text, as the fields of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Story {
    pub(super) title: String,
    pub(super) body: String,
    url: String,
    /// Nothing like it was sent before.
    pub(super) is_new: bool,
}

/// Lengths of texts at which something begins or ends, in letters or tokens: shingles and windows, titles, short texts,
/// tokens of the alignment check, runs without a space.
const LENGTHS: [u64; 16] = [1, 3, 5, 8, 12, 24, 30, 64, 140, 200, 450, 1_000, 1_025, 1_024, 2_000, 4_096];

/// The longest text of which words are looked at, in bytes.
const MOST_TEXT: usize = spinney::text::MOST_TEXT;

const EMOJI: [&str; 6] = ["😀", "👨‍👩‍👧‍👦", "🇨🇳", "👍🏽", "❤️", "🏳️‍🌈"];

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Story { title, body, is_new, .. } = self;
        let [title_begins, begins] = [title, body].map(|text| text.chars().take(70).collect::<String>());
        let new = if *is_new { "new" } else { "edited" };
        write!(f, "{new}, {title_begins:?} of {} bytes, {begins:?} of {} bytes", title.len(), body.len())
    }
}

impl Story {
    fn of(world: &World, title: String, body: String) -> Story {
        Story { title, body, url: format!("http://x/{:x}", world.next_u64()), is_new: true }
    }

    /// As a document.
    pub(super) fn source(&self) -> Value {
        json!({"title": self.title, "content": self.body, "url": self.url})
    }
}

/// A story that is like no other, unless it is too short to be.
pub(super) fn fresh(world: &World) -> Story {
    let near = |length: u64| (length + world.below(3)).saturating_sub(1);
    match world.below(100) {
        0..35 => Story::of(world, words(world, 4 + world.below(12)), sentences(world, 40 + world.below(120))),
        35..60 => Story::of(world, characters(world, 8 + world.below(16)), clauses(world, 60 + world.below(200))),
        60..72 => {
            let title = near(*world.pick(&LENGTHS[..9]));
            let body = near(*world.pick(&LENGTHS));
            match world.below(2) {
                0 => Story::of(world, words(world, title), sentences(world, body)),
                _ => Story::of(world, characters(world, title), clauses(world, body)),
            }
        }
        72..77 => Story::of(world, String::new(), sentences(world, 50)),
        77..80 => Story::of(world, words(world, 10), String::new()),
        80..84 => Story::of(world, words(world, 6), emoji(world)),
        84..88 => Story::of(world, mixed(world, 10), mixed(world, 150)),
        // Others are like them.
        88..92 => Story { is_new: false, ..Story::of(world, words(world, 5), page(world)) },
        92..95 => Story { is_new: false, ..Story::of(world, words(world, 5), form(world)) },
        95..97 => Story::of(world, words(world, 5), run(world)),
        97..98 => Story::of(world, characters(world, 9), " \u{3000}\t<br>&nbsp;".to_owned()),
        98..99 => Story::of(world, words(world, near(1_000)), sentences(world, near(1_024))),
        // Rarely: it takes as long as all the others together.
        _ if world.below(8) == 0 => longest(world),
        _ => Story::of(world, String::new(), String::new()),
    }
}

/// A story like this one.
pub(super) fn edited(world: &World, of: &Story) -> Story {
    let url = format!("http://x/{:x}", world.next_u64());
    let mut story = Story { url, is_new: false, ..of.clone() };
    match world.below(9) {
        0 => story.body = format!("{} {}", story.body, sentences(world, 8)),
        1 => story.body = format!("By {}. {}", words(world, 2), story.body),
        2 => story.body = story.body.to_uppercase(),
        3 => story.title = words(world, 7),
        4 => story.body = format!("<p>{}</p>\n<script>var a = 1;</script>", story.body),
        5 => story.body = full_width(&story.body),
        6 => {
            let cut = story.body.char_indices().nth(story.body.chars().count() * 9 / 10);
            story.body.truncate(cut.map_or(0, |(at, _)| at));
        }
        7 => story.body = story.body.replace("12", "47"),
        _ => story.body = format!("{}。{}", characters(world, 12), story.body),
    }
    story
}

fn word(world: &World, out: &mut String) {
    const SYLLABLES: [&str; 24] = [
        "ba", "con", "der", "el", "fi", "gra", "hu", "in", "jo", "ka", "lem", "mor", "ne", "or", "pul", "qui", "ra",
        "sta", "tu", "ur", "ven", "wi", "xa", "zo",
    ];
    for _ in 0..2 + world.below(3) {
        out.push_str(world.pick::<&str>(&SYLLABLES));
    }
}

fn words(world: &World, count: u64) -> String {
    let mut out = String::new();
    for at in 0..count {
        if at > 0 {
            out.push(' ');
        }
        word(world, &mut out);
    }
    out
}

fn sentences(world: &World, count: u64) -> String {
    let mut out = String::new();
    for at in 0..count {
        match at % 14 {
            0 if at > 0 => out.push_str(". "),
            0 => {}
            _ => out.push(' '),
        }
        if at % 17 == 16 {
            let _ = write!(out, "{}", world.below(10_000));
        } else {
            word(world, &mut out);
        }
    }
    out
}

fn character(world: &World) -> char {
    // Common ones are near the beginning of the block; any will do.
    char::from_u32(0x4E00 + world.below(0x2000) as u32).unwrap_or('的')
}

fn characters(world: &World, count: u64) -> String {
    (0..count).map(|_| character(world)).collect()
}

fn clauses(world: &World, count: u64) -> String {
    let mut out = String::new();
    for at in 0..count {
        match at % 19 {
            18 if world.happens(500) => out.push('。'),
            18 => out.push(','),
            _ => out.push(character(world)),
        }
    }
    out
}

fn emoji(world: &World) -> String {
    let mut out = String::new();
    for _ in 0..1 + world.below(60) {
        out.push_str(world.pick::<&str>(&EMOJI));
    }
    out
}

fn mixed(world: &World, count: u64) -> String {
    let mut out = String::new();
    for _ in 0..count {
        match world.below(6) {
            0 => word(world, &mut out),
            1 => out.push(character(world)),
            2 => out.push(char::from_u32(0x0410 + world.below(64) as u32).unwrap_or('а')),
            3 => out.push(char::from_u32(0x0621 + world.below(26) as u32).unwrap_or('ا')),
            4 => out.push_str("e\u{301}\u{327}"),
            _ => out.push(' '),
        }
    }
    out
}

/// What stands around articles, with one in it.
fn page(world: &World) -> String {
    format!(
        "<html><head><style>p {{ margin: 0 }}</style></head><body><ul><li>Home</li><li>News</li></ul>\
         <p>{}</p><script>if (a < b) {{ f('x'); }}</script><footer>All rights reserved &copy; 2026</footer></body>",
        sentences(world, 60)
    )
}

/// A form that is filled in: most of it is the same each time.
fn form(world: &World) -> String {
    format!(
        "Weather report of station {}. The temperature was {} degrees with wind of {} metres a second from the north, \
         and the air pressure stood at {} hectopascals when it was read at the usual hour of the morning.",
        world.below(1_000),
        world.below(40),
        world.below(30),
        900 + world.below(200)
    )
}

/// Letters without a space.
fn run(world: &World) -> String {
    let count = 4_090 + world.below(12);
    (0..count).map(|_| char::from(b'a' + world.below(26) as u8)).collect()
}

fn longest(world: &World) -> Story {
    let sentence = sentences(world, 28) + ". ";
    let mut body = sentence.repeat(MOST_TEXT / sentence.len() + 1);
    body.truncate(MOST_TEXT - 1 + world.below(3) as usize);
    Story::of(world, words(world, 8), body)
}

fn full_width(text: &str) -> String {
    let wide = |letter: char| match letter {
        '!'..='~' => char::from_u32(letter as u32 + 0xFEE0).unwrap_or(letter),
        other => other,
    };
    text.chars().map(wide).collect()
}
