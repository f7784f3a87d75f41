//! News articles by the hundred thousand, Chinese and English, with reprints: the same for the same seed.
//!
//! The words are drawn at random, so nobody would read them, but what costs time is as in real news: word frequencies,
//! lengths of words, sentences and articles, names and numbers that no dictionary has, markup left in some texts, and
//! reprints that differ in their byline, their footer, their title, a word or a paragraph.

use std::collections::VecDeque;

use super::random::Random;
use super::words::{Words, push_chinese_name, push_english_name};

/// Of 100 documents, this many are reprints of an earlier one.
pub const REPRINTS_PERCENT: usize = 45;
/// Reprints come soon: only this many of the latest originals are reprinted.
const REPRINTED: usize = 2_000;
/// 2024-01-01T00:00:00Z, in seconds; one document is published every two seconds.
const FIRST_PUBLISHED: i64 = 1_704_067_200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Chinese,
    English,
}

impl Language {
    /// The two letters by which documents and output lines name it.
    pub fn code(self) -> &'static str {
        match self {
            Language::Chinese => "zh",
            Language::English => "en",
        }
    }
}

#[derive(Clone)]
struct Article {
    language: Language,
    title: String,
    byline: String,
    paragraphs: Vec<String>,
    footer: String,
}

/// An endless source of documents.
pub struct Documents {
    random: Random,
    /// One language alone, or both by turns of chance.
    language: Option<Language>,
    chinese: Words,
    english: Words,
    originals: VecDeque<Article>,
    written: u64,
}

impl Documents {
    pub fn new(seed: u64, language: Option<Language>) -> Self {
        Self {
            random: Random::new(seed),
            language,
            chinese: Words::chinese(),
            english: Words::english(),
            originals: VecDeque::with_capacity(REPRINTED),
            written: 0,
        }
    }

    /// Appends the next document, one JSON object of about 2 KB with `id`, `title`, `content`, `url`, `media`,
    /// `published_at`, `lang` and `comments`, and a line feed.
    pub fn write_next(&mut self, out: &mut Vec<u8>) {
        let reprint = !self.originals.is_empty() && self.random.percent(REPRINTS_PERCENT);
        let article = if reprint { self.reprint() } else { self.original() };
        let markup = self.random.percent(10);
        let media = self.random.between(1, 300);
        let published = jiff::Timestamp::from_second(FIRST_PUBLISHED + 2 * self.written as i64).unwrap_or_default();
        let head = format!("{{\"id\":\"d{:x}\",\"title\":\"", self.random.next());
        out.extend_from_slice(head.as_bytes());
        push_escaped(&article.title, out);
        out.extend_from_slice(b"\",\"content\":\"");
        let parts = std::iter::once(&article.byline).chain(&article.paragraphs).chain([&article.footer]);
        for (n, part) in parts.filter(|part| !part.is_empty()).enumerate() {
            if markup {
                out.extend_from_slice(b"<p>");
            } else if n > 0 {
                out.extend_from_slice(b"\\n");
            }
            push_escaped(part, out);
            if markup {
                out.extend_from_slice(b"</p>");
            }
        }
        let tail = format!(
            "\",\"url\":\"https://news{media}.example/{}/{:x}.html\",\"media\":\"news{media}\",\
             \"published_at\":\"{published}\",\"lang\":\"{}\",\"comments\":{}}}\n",
            self.written / 1_000,
            self.random.next(),
            article.language.code(),
            self.random.below(500),
        );
        out.extend_from_slice(tail.as_bytes());
        self.written += 1;
    }

    fn original(&mut self) -> Article {
        let random = &mut self.random;
        let language = self.language.unwrap_or(if random.percent(50) { Language::Chinese } else { Language::English });
        let mut article = Article {
            language,
            title: String::new(),
            byline: byline(random, language),
            paragraphs: Vec::new(),
            footer: footer(random, language),
        };
        self.title(language, &mut article.title);
        // Most articles are short, some are long: the square of an even chance between 400 and 4,000 bytes.
        let chance = self.random.below(1_000);
        let length = 400 + chance * chance * 3_600 / 1_000_000;
        let mut written = 0;
        while written < length {
            let mut paragraph = String::new();
            for _ in 0..self.random.between(2, 4) {
                self.sentence(language, &mut paragraph);
            }
            written += paragraph.len();
            article.paragraphs.push(paragraph);
        }
        if self.originals.len() == REPRINTED {
            self.originals.pop_front();
        }
        self.originals.push_back(article.clone());
        article
    }

    fn reprint(&mut self) -> Article {
        let mut article = self.originals[self.random.below(self.originals.len())].clone();
        let language = article.language;
        // A third goes out as it came; the others are changed as editors change them, one or two ways at once.
        if self.random.percent(33) {
            return article;
        }
        for _ in 0..self.random.between(1, 2) {
            match self.random.below(5) {
                0 => article.byline = byline(&mut self.random, language),
                1 => article.footer = footer(&mut self.random, language),
                2 => {
                    article.title.clear();
                    self.title(language, &mut article.title);
                }
                3 if article.paragraphs.len() > 2 => {
                    let dropped = self.random.below(article.paragraphs.len());
                    article.paragraphs.remove(dropped);
                }
                _ => self.change_a_word(&mut article),
            }
        }
        article
    }

    /// Puts another word in the place of one: between two spaces, or instead of one Chinese character.
    fn change_a_word(&mut self, article: &mut Article) {
        let which = self.random.below(article.paragraphs.len());
        let paragraph = &mut article.paragraphs[which];
        let mut from = self.random.below(paragraph.len());
        while !paragraph.is_char_boundary(from) {
            from -= 1;
        }
        let (to, word) = match article.language {
            Language::Chinese => {
                let to = from + paragraph[from..].chars().next().map_or(0, char::len_utf8);
                (to, self.chinese.draw(&mut self.random))
            }
            Language::English => {
                from = paragraph[..from].rfind(' ').map_or(0, |space| space + 1);
                let to = paragraph[from..].find(' ').map_or(paragraph.len(), |length| from + length);
                (to, self.english.draw(&mut self.random))
            }
        };
        paragraph.replace_range(from..to, word);
    }

    fn title(&mut self, language: Language, out: &mut String) {
        let words = self.random.between(5, 10);
        self.clause(language, words, out);
        capitalise(language, out, 0);
    }

    fn sentence(&mut self, language: Language, out: &mut String) {
        if language == Language::English && !out.is_empty() {
            out.push(' ');
        }
        let start = out.len();
        let quoted = self.random.percent(8);
        if quoted {
            out.push(if language == Language::Chinese { '“' } else { '"' });
        }
        let first = out.len();
        for clause in 0..self.random.between(1, 4) {
            if clause > 0 {
                out.push_str(if language == Language::Chinese { "，" } else { ", " });
            }
            let words = self.random.between(4, 9);
            self.clause(language, words, out);
        }
        capitalise(language, out, first.max(start));
        out.push_str(match (language, quoted) {
            (Language::Chinese, false) => "。",
            (Language::Chinese, true) => "。”",
            (Language::English, false) => ".",
            (Language::English, true) => ".\"",
        });
    }

    fn clause(&mut self, language: Language, words: usize, out: &mut String) {
        let random = &mut self.random;
        for word in 0..words {
            if word > 0 && language == Language::English {
                out.push(' ');
            }
            match (random.below(100), language) {
                (0..3, _) => out.push_str(&random.between(2, 30_000).to_string()),
                (3..6, Language::Chinese) => push_chinese_name(random, out),
                (3..6, Language::English) => push_english_name(random, out),
                (_, Language::Chinese) => out.push_str(self.chinese.draw(random)),
                (_, Language::English) => out.push_str(self.english.draw(random)),
            }
        }
    }
}

fn byline(random: &mut Random, language: Language) -> String {
    let mut line = String::new();
    if random.percent(30) {
        return line;
    }
    match language {
        Language::Chinese => {
            line.push_str(["本报记者 ", "记者 ", "新闻网讯 ", "综合报道 "][random.below(4)]);
            push_chinese_name(random, &mut line);
        }
        Language::English => {
            line.push_str(["By ", "Reporting by ", "From our correspondent "][random.below(3)]);
            push_english_name(random, &mut line);
        }
    }
    line
}

fn footer(random: &mut Random, language: Language) -> String {
    if random.percent(30) {
        return String::new();
    }
    let mut line = String::new();
    match language {
        Language::Chinese => {
            line.push_str(["责任编辑：", "编辑：", "来源：网络 作者："][random.below(3)]);
            push_chinese_name(random, &mut line);
        }
        Language::English => {
            line.push_str(["Editing by ", "Copyright. All rights reserved. ", "Contact: "][random.below(3)]);
            push_english_name(random, &mut line);
        }
    }
    line
}

/// Makes the English letter at `at` a capital one.
fn capitalise(language: Language, text: &mut str, at: usize) {
    if let (Language::English, Some(rest)) = (language, text.get_mut(at..)) {
        let first = rest.chars().next().map_or(0, char::len_utf8);
        if let Some(letter) = rest.get_mut(..first) {
            letter.make_ascii_uppercase();
        }
    }
}

/// The text as the inside of a JSON string. It has no control characters, so only two characters need a backslash.
fn push_escaped(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        if byte == b'"' || byte == b'\\' {
            out.push(b'\\');
        }
        out.push(byte);
    }
}
