//! Names and phrases that `docs/glossary.md` refuses, because the same word meant several things or had to be guessed.
//!
//! To refuse a word, give it a row below, and its term a row in the glossary.

use std::collections::BTreeSet;
use std::fs;

use super::docs::{files, root};

/// A refused word: what is refused, where, the term of the glossary that is meant, and the reason.
struct Refused {
    /// An identifier, or a phrase of comments and pages, in small letters.
    word: Word,
    /// Parts of the paths in which it is refused; none: everywhere.
    within: &'static [&'static str],
    /// Parts of the paths in which it is the right word.
    but: &'static [&'static str],
    /// A term of the glossary.
    say: &'static str,
    /// What the word was taken for.
    reason: &'static str,
}

enum Word {
    /// A whole identifier; with `*` at its beginning or its end, all that end or begin with the rest.
    Name(&'static str),
    /// Whole words in a comment of the code, or in a page.
    Phrase(&'static str),
}
use Word::{Name, Phrase};

const fn row(
    word: Word,
    within: &'static [&'static str],
    but: &'static [&'static str],
    say: &'static str,
    reason: &'static str,
) -> Refused {
    Refused { word, within, but, say, reason }
}

const EVERYWHERE: &[&str] = &[];
const NOWHERE: &[&str] = &[];
/// Code that ships: tests and tools name what they like.
const PRODUCT: &[&str] = &["src/", "crates/"];
const TESTS: &[&str] = &["test", "simulation/", "benches/", "demo/", "eval/", "mutants/"];
const REDIS: &[&str] = &["/redis/", "shared", "local_fallback"];
const OVERRIDES: &[&str] = &["overrides", "restamp"];

const REFUSED: &[Refused] = &[
    row(Name("on_each_engine"), EVERYWHERE, NOWHERE, "search server", "`Engine` is ours"),
    row(Phrase("search engine"), EVERYWHERE, &["sample/"], "search server", "`Engine` is ours"),
    row(Name("engine_time"), EVERYWHERE, NOWHERE, "Redis", "`Engine` is ours"),
    row(Phrase("an engine"), REDIS, NOWHERE, "Redis", "`Engine` is ours"),
    row(Phrase("every engine"), EVERYWHERE, NOWHERE, "search server", "there is one `Engine` in a process"),
    row(Phrase("engines"), EVERYWHERE, &["sample/"], "search server", "there is one `Engine` in a process"),
    row(Name("KeyStore"), EVERYWHERE, NOWHERE, "Redis", "a store is on disk"),
    row(Name("RedisStore"), EVERYWHERE, NOWHERE, "Redis", "a store is on disk"),
    row(Name("InMemoryStore"), EVERYWHERE, NOWHERE, "Redis", "a store is on disk"),
    row(Name("StoreUnavailable"), EVERYWHERE, NOWHERE, "Redis", "a store is on disk"),
    row(Name("*store_unavailable"), EVERYWHERE, NOWHERE, "Redis", "a store is on disk"),
    row(Name("*store_is_away"), EVERYWHERE, NOWHERE, "Redis", "a store is on disk"),
    row(Phrase("a store"), REDIS, NOWHERE, "Redis", "a store is on disk"),
    row(Phrase("the store"), REDIS, NOWHERE, "Redis", "a store is on disk"),
    row(Name("late"), PRODUCT, TESTS, "late merge", "placements are deferred, leaves expire, counts lag"),
    row(Name("is_late"), PRODUCT, TESTS, "late merge", "placements are deferred, leaves expire, counts lag"),
    row(Name("alone"), PRODUCT, TESTS, "local fallback", "also a title without text, or a root outside of all forests"),
    row(Name("is_alone"), PRODUCT, TESTS, "local fallback", "also a title without text, or a group of one document"),
    row(Name("stands_alone"), PRODUCT, TESTS, "local fallback", "also a document that its title distinguishes"),
    row(Name("look"), PRODUCT, TESTS, "recheck", "also a lookup, a check, a pass, or an interval"),
    row(Name("looks"), PRODUCT, TESTS, "recheck", "also a lookup, a check, a pass, or an interval"),
    row(Name("look_*"), PRODUCT, TESTS, "recheck", "also a lookup, a check, a pass, or an interval"),
    row(Name("LOOK*"), PRODUCT, TESTS, "recheck", "also a lookup, a check, a pass, or an interval"),
    row(Name("is_wide"), PRODUCT, TESTS, "all fingerprints", "also a large distance, or a text in UTF-16"),
    row(Name("widened"), PRODUCT, TESTS, "all fingerprints", "also a large distance, or a longer filter"),
    row(Name("is_lost"), &["forest"], &["tests", "shared"], "all fingerprints", "what is lost is gone"),
    row(Name("word"), OVERRIDES, &["test"], "override", "a word is a token of a text"),
    row(Name("words"), OVERRIDES, &["test"], "override", "a word is a token of a text"),
    row(Phrase("the word"), OVERRIDES, NOWHERE, "override", "a word is a token of a text"),
    row(Phrase("the words"), OVERRIDES, NOWHERE, "override", "a word is a token of a text"),
    row(Phrase("a word"), OVERRIDES, NOWHERE, "override", "a word is a token of a text"),
    row(Phrase("no word"), OVERRIDES, NOWHERE, "override", "a word is a token of a text"),
    row(Name("stands_for"), EVERYWHERE, NOWHERE, "alias", "also the move of writes to the indices of an alias"),
    row(Name("PlacementPlan"), EVERYWHERE, NOWHERE, "placement rules", "they have a `RuleOutcome`"),
    row(Name("Plan"), EVERYWHERE, NOWHERE, "placement rules", "say of what: `RestampPlan`, `SimulationPlan`"),
    row(Name("Placed"), &["forest"], &["tests/"], "place", "a document gets a `RootAssignment`"),
    row(Name("Placements"), EVERYWHERE, NOWHERE, "place", "a batch gets a `BatchReply`"),
    row(Name("PortFuture"), EVERYWHERE, NOWHERE, "handle", "its work starts at the call, not at the first poll"),
    row(Name("PlaceFuture"), EVERYWHERE, NOWHERE, "handle", "its work starts at the call, not at the first poll"),
];

/// The pieces of a text that consist of what identifiers do.
fn names(code: &str) -> BTreeSet<&str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty()).collect()
}

/// A text in small letters, each word between single blanks.
fn spaced(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').filter(|word| !word.is_empty());
    words.fold(String::from(" "), |all, word| all + &word.to_lowercase() + " ")
}

impl Refused {
    fn is_in(&self, path: &str) -> bool {
        let among = |parts: &[&str]| parts.iter().any(|part| path.contains(part));
        (self.within.is_empty() || among(self.within)) && !among(self.but)
    }

    /// Whether the word is among the names of a file, or in its prose.
    fn is_said(&self, names: &BTreeSet<&str>, prose: &str) -> bool {
        match self.word {
            Name(name) => match (name.strip_prefix('*'), name.strip_suffix('*')) {
                (Some(end), _) => names.iter().any(|name| name.ends_with(end)),
                (_, Some(begin)) => names.iter().any(|name| name.starts_with(begin)),
                _ => names.contains(name),
            },
            Phrase(phrase) => prose.contains(&format!(" {phrase} ")),
        }
    }
}

/// A file as its code without strings and comments, and its prose: the comments, or the whole of a page.
fn parts(path: &str, text: &str) -> (String, String) {
    if path.ends_with(".md") {
        return (String::new(), spaced(text));
    }
    let (mut code, mut comments) = (String::new(), String::new());
    for line in text.lines() {
        let (before, comment) = match line.trim_start().starts_with("//") {
            true => ("", line.trim_start().trim_start_matches(['/', '!'])),
            // A string that goes on in the next line.
            false if line.ends_with('\\') => ("", ""),
            false => line.split_once(" // ").unwrap_or((line, "")),
        };
        // Every second piece is in quotes.
        code.extend(before.split('"').step_by(2).flat_map(|piece| [piece, "\n"]));
        comments.extend([comment, "\n"]);
    }
    (code, spaced(&comments))
}

#[test]
fn no_refused_word_is_said() {
    let mut sources = Vec::new();
    files(root(), &[".rs", ".md"], &mut sources);
    let mut wrong = Vec::new();
    for source in &sources {
        let path = source.strip_prefix(root()).unwrap().to_str().unwrap();
        // These name the words.
        if ["tests/pure/terms.rs", "docs/glossary.md"].contains(&path) {
            continue;
        }
        let (code, prose) = parts(path, &fs::read_to_string(source).unwrap());
        let names = names(&code);
        for refused in REFUSED.iter().filter(|refused| refused.is_in(path) && refused.is_said(&names, &prose)) {
            let (Name(word) | Phrase(word)) = refused.word;
            wrong.push(format!("{path} says {word}: {}; say {}", refused.reason, refused.say));
        }
    }
    assert!(wrong.is_empty(), "refused words:\n{}", wrong.join("\n"));
    assert!(sources.len() > 500, "only {} files were read", sources.len());
}

/// Whoever is refused a word finds in the glossary what the other one means.
#[test]
fn every_term_to_be_said_is_in_the_glossary() {
    let glossary = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let terms = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next().map(str::to_owned));
    let terms: BTreeSet<String> =
        terms.flat_map(|cell| cell.split(", ").map(str::to_owned).collect::<Vec<_>>()).collect();
    let missing: BTreeSet<&str> =
        REFUSED.iter().map(|refused| refused.say).filter(|say| !terms.contains(*say)).collect();
    assert!(missing.is_empty(), "not in docs/glossary.md: {missing:?}");
}

#[test]
fn words_are_found_in_names_comments_and_pages() {
    let said = |word, path: &str, text: &str| {
        let (code, prose) = parts(path, text);
        row(word, EVERYWHERE, NOWHERE, "", "").is_said(&names(&code), &prose)
    };
    assert!(said(Name("is_late"), "a.rs", "if leaf.is_late() {"));
    assert!(said(Name("look_*"), "a.rs", "self.look_for(x)"));
    assert!(said(Name("*_away"), "a.rs", "let redis_is_away = 1; // so"));
    assert!(said(Phrase("an engine"), "a.rs", "/// In an\n/// Engine."));
    assert!(said(Phrase("an engine"), "a.rs", "let x = 1; // an engine"));
    assert!(said(Phrase("an engine"), "a.md", "Of an **engine**."));
    assert!(!said(Name("is_late"), "a.rs", "let is_later = \"is_late\"; // is_late"));
    assert!(!said(Phrase("an engine"), "a.rs", "let text = \"an engine\"; // an engineer"));
}
