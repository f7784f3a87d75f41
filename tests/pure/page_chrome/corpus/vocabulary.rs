//! Words and patterns of one language, and texts made of them: the same random numbers give the same texts.

use std::collections::HashMap;

use crate::random::Random;

const CHINESE: &str = include_str!("zh.txt");
const ENGLISH: &str = include_str!("en.txt");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Chinese,
    English,
}

impl Language {
    pub const ALL: [Language; 2] = [Language::Chinese, Language::English];

    /// The two letters by which files name it.
    pub fn code(self) -> &'static str {
        match self {
            Language::Chinese => "zh",
            Language::English => "en",
        }
    }
}

/// Blocks of a file, each a name behind `==` and the lines under it; blank lines and `#` comments are skipped.
pub fn blocks(text: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut blocks: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("== ") {
            blocks.push((name, Vec::new()));
        } else if !line.is_empty() && !line.starts_with('#') {
            blocks.last_mut().expect("a file begins with a block").1.push(line);
        }
    }
    blocks
}

/// Letters and digits: the measure of all lengths here, as it is in spinney.
pub fn letters(text: &str) -> usize {
    text.chars().filter(|character| character.is_alphanumeric()).count()
}

/// What texts are made of.
pub struct Vocabulary {
    language: Language,
    /// Words and patterns by the name of their block. A `{slot}` of a pattern is a block again, or one of the few that
    /// `slot` makes up.
    blocks: HashMap<&'static str, Vec<&'static str>>,
}

impl Vocabulary {
    pub fn new(language: Language) -> Vocabulary {
        let text = match language {
            Language::Chinese => CHINESE,
            Language::English => ENGLISH,
        };
        let items = |lines: Vec<&'static str>| -> Vec<&str> {
            let items = lines.into_iter().flat_map(|line| line.split('|'));
            items.map(str::trim).filter(|item| !item.is_empty()).collect()
        };
        let blocks = blocks(text).into_iter();
        Vocabulary { language, blocks: blocks.map(|(name, lines)| (name, items(lines))).collect() }
    }

    fn draw(&self, block: &str, random: &mut Random) -> &'static str {
        random.pick(&self.blocks[block])
    }

    /// A text of one of the patterns of this block.
    fn of_pattern(&self, block: &str, random: &mut Random) -> String {
        let mut out = String::new();
        let mut rest = self.draw(block, random);
        while let Some((before, behind)) = rest.split_once('{') {
            let (slot, behind) = behind.split_once('}').expect("a slot ends");
            out.push_str(before);
            let word = self.slot(slot, random);
            // `a abbey` is not English.
            if (out == "a" || out.ends_with(" a ")) && word.starts_with(['a', 'e', 'i', 'o', 'u']) {
                out.insert(out.len() - 1, 'n');
            }
            out.push_str(&word);
            rest = behind;
        }
        out + rest
    }

    fn slot(&self, slot: &str, random: &mut Random) -> String {
        match (slot, self.language) {
            ("place", _) => self.draw("place begins", random).to_owned() + self.draw("place ends", random),
            ("name", Language::Chinese) => self.draw("surname", random).to_owned() + self.draw("given", random),
            ("name", Language::English) => {
                format!("{} {}", self.draw("given", random), self.draw("surname", random))
            }
            ("number", _) => random.between(2, 980).to_string(),
            // English verbs stand with their past: `repair:repaired`.
            ("do" | "did" | "does", Language::English) => {
                let (verb, past) = self.draw("does", random).split_once(':').expect("a past");
                match slot {
                    "do" => verb.to_owned(),
                    "did" => past.to_owned(),
                    _ if verb.ends_with("sh") => format!("{verb}es"),
                    _ => format!("{verb}s"),
                }
            }
            ("clause", _) => self.of_pattern("clause", random),
            _ => self.draw(slot, random).to_owned(),
        }
    }

    /// A headline of 8 to 25 Chinese characters, or 4 to 10 English words.
    pub fn title(&self, random: &mut Random) -> String {
        loop {
            let title = self.of_pattern("title", random);
            let (length, range) = match self.language {
                Language::Chinese => (title.chars().count(), 8..=25),
                Language::English => (title.split(' ').count(), 4..=10),
            };
            if range.contains(&length) {
                return capitalised(title);
            }
        }
    }

    /// Sentences of so many letters together: `low` at least, `high` at most. The two are a short clause apart or more.
    pub fn sentences(&self, low: usize, high: usize, random: &mut Random) -> Vec<String> {
        let (mut sentences, mut length) = (Vec::new(), 0);
        let mut failed = 0;
        while length < low {
            let sentence = self.sentence(random);
            if length + letters(&sentence) <= high {
                length += letters(&sentence);
                sentences.push(sentence);
            } else {
                failed += 1;
            }
            // What is left may be too short for any sentence.
            if failed == 30 {
                (length, failed) = (0, 0);
                sentences.clear();
            }
        }
        sentences
    }

    /// One to three clauses.
    fn sentence(&self, random: &mut Random) -> String {
        let mut sentence = String::new();
        if self.language == Language::English && random.percent(30) {
            sentence = self.draw("when", random).to_owned() + ", ";
        }
        sentence += &self.of_pattern("clause", random);
        for _ in 0..random.below(3) {
            sentence += self.draw("joint", random);
            if self.language == Language::English {
                sentence.push(' ');
            }
            sentence += &self.of_pattern("clause", random);
        }
        sentence.push_str(match self.language {
            Language::Chinese => "。",
            Language::English => ".",
        });
        capitalised(sentence)
    }

    /// The line by which a reprint says where it is from.
    pub fn source_line(&self, random: &mut Random) -> String {
        self.of_pattern("source", random)
    }

    /// A post that has a short text in it, and more.
    pub fn post(&self, random: &mut Random) -> String {
        self.of_pattern("post", random)
    }

    /// What separates two sentences of a paragraph.
    pub fn space(&self) -> &'static str {
        match self.language {
            Language::Chinese => "",
            Language::English => " ",
        }
    }
}

fn capitalised(mut text: String) -> String {
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}
