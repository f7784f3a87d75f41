//! Pages that are nothing but page chrome: the row that stands around articles, for a crawler that did not find the
//! article. Their bodies are equal and say nothing, so they must not make trees of pages that have nothing in common,
//! and articles must not lose their reprints for it.

pub mod corpus;
mod figures;

use std::collections::{HashMap, HashSet};

use crate::stamping;
use corpus::{Document, Language, Sizes, Truth, documents, letters, posts, rows, shuffled};
use figures::Figures;
use serde_json::json;
use xxhash_rust::xxh3::xxh3_64;

const SEED: u64 = 1;
const ORDERS: std::ops::RangeInclusive<u64> = 1..=5;
/// Enough for the limits to mean something: three pages of each row in one tree are 1.2% of them. `scripts/eval`
/// measures more.
const SMALL: Sizes = Sizes { titles: 250, articles: 1_000, reprints: 300 };

/// Of the pages that are nothing but page chrome, so many may have one root.
const LARGEST_TREE: usize = 3;
/// And such a share of them may be in a tree with a page of another title.
const OTHER_TITLE: f64 = 0.01;
/// So much less of the reprints may be found because of them.
const RECALL_LOST: f64 = 0.005;

fn line(document: &Document) -> String {
    json!({"id": document.id, "title": document.title, "content": document.content}).to_string()
}

fn stamped(documents: &[&Document]) -> Figures {
    let lines: Vec<String> = documents.iter().map(|document| line(document)).collect();
    let roots = stamping::roots("method = \"verified\"\ntitle_field = \"title\"", &lines);
    Figures::of(documents, &roots)
}

#[test]
fn pages_of_nothing_but_page_chrome_make_no_trees_and_cost_no_reprints() {
    let documents = documents(SEED, SMALL);
    let documents: Vec<&Document> = documents.iter().collect();
    let (mut all, mut all_without) = (Figures::default(), Figures::default());
    for order in ORDERS {
        let documents = shuffled(&documents, order);
        let mut articles = documents.clone();
        articles.retain(|document| !document.is_page_chrome());
        all = all.and(stamped(&documents));
        all_without = all_without.and(stamped(&articles));
    }
    let (largest, other_title) = (all.largest_tree, all.other_title());
    let (recall, without) = (all.recall(), all_without.recall());
    let figures = format!(
        "page_chrome with different titles in the largest tree {largest} (at most {LARGEST_TREE}); \
         in a tree with another title {other_title:.4} (at most {OTHER_TITLE}); \
         reprints found {recall:.4}, without the page_chrome {without:.4} (at most {RECALL_LOST} more)"
    );
    assert!(largest <= LARGEST_TREE && other_title <= OTHER_TITLE && recall >= without - RECALL_LOST, "{figures}");
    assert!(without >= 0.98, "the reprints are true ones: {figures}");
}

/// Where no field is the title there is nothing to tell two equal texts apart: one short text that everybody sends on
/// is one cluster, however large. Nothing else belongs there.
#[test]
fn equal_short_texts_are_one_cluster_and_draw_nothing() {
    const COPIES: usize = 4_461;
    const OTHERS: usize = 500;
    let posts = posts(SEED, COPIES, OTHERS);
    let posts: Vec<&Document> = posts.iter().collect();
    let mut wrong = Vec::new();
    for order in ORDERS {
        let posts = shuffled(&posts, order);
        let lines: Vec<String> =
            posts.iter().map(|post| json!({"id": post.id, "content": post.content}).to_string()).collect();
        let roots = stamping::roots("method = \"verified\"", &lines);
        for language in Language::ALL {
            let of_language = |post: &&&Document| post.language == language;
            let (copies, others): (Vec<&Document>, Vec<&Document>) =
                posts.iter().filter(of_language).partition(|post| post.is_page_chrome());
            let trees: HashSet<&str> = copies.iter().map(|post| &*roots[&post.id]).collect();
            let drawn: Vec<&str> =
                others.iter().filter(|post| trees.contains(&*roots[&post.id])).map(|post| &*post.content).collect();
            if trees.len() > 1 || !drawn.is_empty() {
                wrong.push(format!(
                    "order {order}, {}: {COPIES} equal texts have {} roots, and with them are {} of {OTHERS} others: \
                     {:?}",
                    language.code(),
                    trees.len(),
                    drawn.len(),
                    &drawn[..drawn.len().min(10)],
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Figures of two versions can be compared only while the pages stay the same: change this hash knowingly.
#[test]
fn the_pages_of_a_seed_never_change() {
    let text = |seed| -> String { documents(seed, SMALL).iter().map(line).collect() };
    assert_eq!(format!("{:016x}", xxh3_64(text(SEED).as_bytes())), "2b13a2c39ac76170");
    assert_ne!(text(1), text(2));
}

#[test]
fn rows_are_of_twenty_to_four_hundred_letters() {
    let rows = rows();
    for language in Language::ALL {
        let lengths: Vec<usize> =
            rows.iter().filter(|row| row.language == language).map(|row| letters(row.text)).collect();
        assert_eq!(lengths.len(), 10);
        for (range, least) in [(20usize..=40, 3), (60..=100, 3), (150..=250, 2), (300..=400, 2)] {
            let found = lengths.iter().filter(|&length| range.contains(length)).count();
            assert!(found >= least, "{language:?}: {range:?} in {lengths:?}");
        }
    }
}

#[test]
fn articles_have_the_lengths_of_articles_and_titles_those_of_headlines() {
    let documents = documents(SEED, SMALL);
    let (mut notices, mut with_row, mut articles) = (0, 0, 0);
    for document in &documents {
        let title = &document.title;
        match document.language {
            Language::Chinese => assert!((8..=25).contains(&title.chars().count()), "{title}"),
            Language::English => assert!((4..=10).contains(&title.split(' ').count()), "{title}"),
        }
        let original = document.id.starts_with('a');
        if original {
            let row = rows().into_iter().find(|row| document.content.ends_with(row.text));
            let length = letters(&document.content) - row.map_or(0, |row| letters(row.text));
            assert!((150..=1_500).contains(&length), "{length}: {document:?}");
            notices += usize::from(length <= 175);
            with_row += usize::from(row.is_some());
            articles += 1;
        }
    }
    assert_eq!(articles, SMALL.articles);
    assert!(notices >= SMALL.reprints / 4, "{notices}");
    assert!((articles / 5..=articles / 2).contains(&with_row), "{with_row}");
    let titles: HashSet<&str> = documents.iter().map(|document| &*document.title).collect();
    assert_eq!(titles.len(), documents.len());
}

/// The words of a title; of a Chinese one the pairs of neighbouring characters.
fn parts(title: &str, language: Language) -> HashSet<String> {
    match language {
        Language::Chinese => runs(title, 2),
        Language::English => title.to_lowercase().split(' ').map(str::to_owned).collect(),
    }
}

#[test]
fn titles_of_page_chrome_have_little_in_common() {
    let documents = documents(SEED, SMALL);
    let (mut pairs, mut alike) = (0, 0);
    for row in rows() {
        let of_kind = documents.iter().filter(|page| page.truth == Truth::PageChrome(row.kind));
        let titles: Vec<_> = of_kind.map(|page| parts(&page.title, row.language)).collect();
        for (at, one) in titles.iter().enumerate() {
            for other in &titles[..at] {
                pairs += 1;
                alike += usize::from(3 * one.intersection(other).count() > one.len().min(other.len()));
            }
        }
    }
    assert_eq!(pairs, 20 * SMALL.titles * (SMALL.titles - 1) / 2);
    assert!(alike * 50 < pairs, "more than a third of the words in common: {alike} of {pairs}");
}

/// Runs of so many letters and digits, without what stands between them.
fn runs(text: &str, length: usize) -> HashSet<String> {
    let characters: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
    characters.windows(length).map(|run| run.iter().collect()).collect()
}

#[test]
fn unrelated_articles_share_no_long_phrase_and_reprints_most_of_the_text() {
    let documents = documents(SEED, SMALL);
    let documents: Vec<&Document> = documents.iter().filter(|page| !page.is_page_chrome()).collect();
    for language in Language::ALL {
        let length = match language {
            Language::Chinese => 20,
            Language::English => 60,
        };
        let mut seen: HashMap<String, Truth> = HashMap::new();
        for page in documents.iter().filter(|page| page.language == language) {
            let row = rows().into_iter().find(|row| page.content.ends_with(row.text));
            let text = &page.content[..page.content.len() - row.map_or(0, |row| row.text.len())];
            for run in runs(text, length) {
                let first = *seen.entry(run.clone()).or_insert(page.truth);
                assert_eq!(first, page.truth, "{run}");
            }
        }
    }
    for page in documents.iter().filter(|page| page.id.starts_with('r')) {
        let original = documents.iter().find(|other| other.truth == page.truth).unwrap();
        let (one, other) = (runs(&original.content, 5), runs(&page.content, 5));
        let shared = one.intersection(&other).count() as f64;
        let share = shared / one.union(&other).count() as f64;
        assert!(share >= 0.6 && original.title != page.title, "{share}: {page:?}");
    }
}
