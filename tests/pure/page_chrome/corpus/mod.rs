//! Pages that a crawler brings home: ordinary articles, reprints of some of them under new headlines, and pages that
//! are nothing but page chrome, the row that stands around articles (a disclaimer, a sign-in row, a cookie notice),
//! each under the headline of the article that is missing. The same seed gives the same pages, for ever.
//!
//! All of it is invented; nothing is taken from real pages. The arena of `spinney-eval` clusters it as well.

mod vocabulary;

use std::collections::HashSet;

use crate::random::Random;
pub use vocabulary::{Language, letters};
use vocabulary::{Vocabulary, blocks};

/// Twenty rows, ten of each language.
const PAGE_CHROME: &str = include_str!("page_chrome.txt");

/// How many pages of each sort there are.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Headlines under which each of the twenty rows stands.
    pub titles: usize,
    /// Articles, all different.
    pub articles: usize,
    /// Of them, those that are reprinted, each once.
    pub reprints: usize,
}

/// What a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Truth {
    /// An article; its reprint has the same number.
    Article(usize),
    /// Nothing but a row of this kind, such as `zh cookie notice`.
    PageChrome(&'static str),
}

#[derive(Debug, Clone)]
pub struct Document {
    pub id: String,
    pub language: Language,
    pub title: String,
    pub content: String,
    pub truth: Truth,
}

impl Document {
    pub fn is_page_chrome(&self) -> bool {
        matches!(self.truth, Truth::PageChrome(_))
    }
}

/// One kind of page chrome.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name, which begins with its language.
    pub kind: &'static str,
    pub language: Language,
    pub text: &'static str,
}

pub fn rows() -> Vec<Row> {
    let row = |(kind, lines): (&'static str, Vec<&'static str>)| {
        let of = |language: &Language| kind.starts_with(language.code());
        Row { kind, language: Language::ALL.into_iter().find(of).expect("a language"), text: lines[0] }
    };
    blocks(PAGE_CHROME).into_iter().map(row).collect()
}

/// An article before it is printed.
struct Article {
    sentences: Vec<String>,
    row: Option<Row>,
}

impl Article {
    fn letters(&self) -> usize {
        self.sentences.iter().map(|sentence| letters(sentence)).sum()
    }
}

/// Letters of short notices: of eight articles that are reprinted the first two, one of each language.
const NOTICE: std::ops::RangeInclusive<usize> = 150..=175;
/// Letters of all other articles.
const LONG: std::ops::RangeInclusive<usize> = 150..=1_500;
/// The length of an article is drawn; it may have so many letters more.
const LAST_SENTENCE: usize = 80;

/// Of 100 articles, this many carry a row behind their last sentence.
const WITH_ROW: usize = 30;
/// Sentences of an article of which one may be missing in its reprint.
const MANY: usize = 8;
/// Sentences of a paragraph.
const PARAGRAPH: usize = 3;

/// The pages of a seed, page chrome first. [`shuffled`] gives them in another order.
pub fn documents(seed: u64, sizes: Sizes) -> Vec<Document> {
    assert!(sizes.reprints <= sizes.articles, "a reprint has an original");
    let mut source = Source::new(seed);
    let mut documents = Vec::new();
    for (kind, row) in source.rows.clone().into_iter().enumerate() {
        for n in 0..sizes.titles {
            documents.push(Document {
                id: format!("f{kind:02}-{n:04}"),
                language: row.language,
                title: source.title(row.language),
                content: row.text.to_owned(),
                truth: Truth::PageChrome(row.kind),
            });
        }
    }
    for group in 0..sizes.articles {
        let language = Language::ALL[group % 2];
        let reprinted = group < sizes.reprints;
        let article = source.article(language, reprinted && group % 8 < 2);
        documents.push(source.print(format!("a{group:05}"), &article, language, group));
        if reprinted {
            let reprint = source.edited(article, language);
            documents.push(source.print(format!("r{group:05}"), &reprint, language, group));
        }
    }
    documents
}

/// Short texts that people send on without a word of their own, each so many times, and as many posts that have such a
/// text in them, and more. A post has no headline.
pub fn posts(seed: u64, copies: usize, others: usize) -> Vec<Document> {
    let mut source = Source::new(seed);
    let mut posts = Vec::new();
    for (language, kind, texts) in [
        (Language::Chinese, "zh post", ["转发微博", "转发微博。", "转发 微博"]),
        (Language::English, "en post", ["Shared a post", "Shared a post.", "shared a post"]),
    ] {
        let mut post = |content: String, truth: Truth| {
            let id = format!("{}-{:05}", language.code(), posts.len());
            posts.push(Document { id, language, title: String::new(), content, truth });
        };
        for n in 0..copies {
            // Punctuation, spaces and capitals make no other text. Most people change none.
            let text = texts[if n % 10 == 0 { n / 10 % texts.len() } else { 0 }];
            post(text.to_owned(), Truth::PageChrome(kind));
        }
        for n in 0..others {
            let other = source.vocabularies[language as usize].post(&mut source.random);
            post(other, Truth::Article(n));
        }
    }
    posts
}

/// All of it in another order; a reprint may come before its original.
pub fn shuffled<T: Clone>(of: &[T], seed: u64) -> Vec<T> {
    let (mut random, mut shuffled) = (Random::new(seed), of.to_vec());
    for at in (1..shuffled.len()).rev() {
        shuffled.swap(at, random.below(at + 1));
    }
    shuffled
}

struct Source {
    random: Random,
    vocabularies: [Vocabulary; 2],
    rows: Vec<Row>,
    /// Those given so far.
    titles: HashSet<String>,
}

impl Source {
    fn new(seed: u64) -> Source {
        Source {
            random: Random::new(seed),
            vocabularies: Language::ALL.map(Vocabulary::new),
            rows: rows(),
            titles: HashSet::new(),
        }
    }

    /// A headline that no other page has.
    fn title(&mut self, language: Language) -> String {
        loop {
            let title = self.vocabularies[language as usize].title(&mut self.random);
            if self.titles.insert(title.clone()) {
                return title;
            }
        }
    }

    fn article(&mut self, language: Language, notice: bool) -> Article {
        let vocabulary = &self.vocabularies[language as usize];
        let random = &mut self.random;
        let sentences = if notice {
            vocabulary.sentences(*NOTICE.start(), *NOTICE.end(), random)
        } else {
            // Most articles are short, some are long.
            let chance = random.below(1_000);
            let longest = LONG.end() - LONG.start() - LAST_SENTENCE;
            let low = LONG.start() + chance * chance * longest / 1_000_000;
            vocabulary.sentences(low, low + LAST_SENTENCE, random)
        };
        let mut article = Article { sentences, row: None };
        // A notice under a row that is longer than itself would be page chrome for the most part.
        if !notice {
            article.row = self.some_row(language, article.letters());
        }
        article
    }

    /// A row of at most so many letters, or none.
    fn some_row(&mut self, language: Language, longest: usize) -> Option<Row> {
        let fits = |row: &&Row| row.language == language && letters(row.text) <= longest;
        let fitting: Vec<Row> = self.rows.iter().filter(fits).copied().collect();
        (!fitting.is_empty() && self.random.percent(WITH_ROW)).then(|| self.random.pick(&fitting))
    }

    /// The article as another paper prints it: a source at its head or a sentence less, or nothing but the headline is
    /// another one. Where the row is small beside the text it may be that of the other paper.
    fn edited(&mut self, mut article: Article, language: Language) -> Article {
        let (vocabulary, random) = (&self.vocabularies[language as usize], &mut self.random);
        match random.below(5) {
            0 => {}
            1 | 2 if article.sentences.len() >= MANY => {
                article.sentences.remove(random.below(article.sentences.len()));
            }
            _ => {
                let line = vocabulary.source_line(random) + vocabulary.space();
                article.sentences[0].insert_str(0, &line);
            }
        }
        let small = article.letters() / 4;
        let row = article.row.map_or(0, |row| letters(row.text));
        if row <= small && self.random.percent(50) {
            article.row = self.some_row(language, small);
        }
        article
    }

    fn print(&mut self, id: String, article: &Article, language: Language, group: usize) -> Document {
        let space = self.vocabularies[language as usize].space();
        let paragraphs = article.sentences.chunks(PARAGRAPH).map(|some| some.join(space));
        let row = article.row.map(|row| row.text.to_owned());
        Document {
            id,
            language,
            title: self.title(language),
            content: paragraphs.chain(row).collect::<Vec<_>>().join("\n"),
            truth: Truth::Article(group),
        }
    }
}
