//! How well a forest tells page chrome from articles.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::corpus::{Document, Truth};

/// Counts over one order of arrival, or the sum over several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Pages that are nothing but page chrome.
    pub page_chrome: usize,
    /// Of them, those in a tree with a page of another title.
    pub beside_other_title: usize,
    /// The most of them with different titles in one tree.
    pub largest_tree: usize,
    /// Pairs of an article and its reprint.
    pub reprints: usize,
    /// Of them, those with the same root.
    pub together: usize,
}

impl Figures {
    /// `roots`: by id.
    pub fn of(documents: &[&Document], roots: &HashMap<String, String>) -> Figures {
        let mut trees: BTreeMap<&str, Vec<&Document>> = BTreeMap::new();
        let mut groups: BTreeMap<Truth, Vec<&Document>> = BTreeMap::new();
        for document in documents {
            trees.entry(&roots[&document.id]).or_default().push(document);
            if !document.is_page_chrome() {
                groups.entry(document.truth).or_default().push(document);
            }
        }
        let mut figures = Figures::default();
        for tree in trees.values() {
            let page_chrome = tree.iter().filter(|document| document.is_page_chrome());
            let titles: BTreeSet<&str> = page_chrome.clone().map(|page| page.title.as_str()).collect();
            let alone = tree.iter().all(|document| document.title == tree[0].title);
            figures.page_chrome += page_chrome.clone().count();
            figures.beside_other_title += if alone { 0 } else { page_chrome.count() };
            figures.largest_tree = figures.largest_tree.max(titles.len());
        }
        for group in groups.values() {
            for (at, one) in group.iter().enumerate() {
                for other in &group[..at] {
                    figures.reprints += 1;
                    figures.together += usize::from(roots[&one.id] == roots[&other.id]);
                }
            }
        }
        figures
    }

    /// The two counted together; the largest tree is that of either.
    pub fn and(self, other: Figures) -> Figures {
        Figures {
            page_chrome: self.page_chrome + other.page_chrome,
            beside_other_title: self.beside_other_title + other.beside_other_title,
            largest_tree: self.largest_tree.max(other.largest_tree),
            reprints: self.reprints + other.reprints,
            together: self.together + other.together,
        }
    }

    /// Of the pages that are nothing but page chrome, the share that is in a tree with a page of another title.
    pub fn other_title(&self) -> f64 {
        self.beside_other_title as f64 / self.page_chrome as f64
    }

    /// Of the reprints, the share that has the root of the original.
    pub fn recall(&self) -> f64 {
        self.together as f64 / self.reprints as f64
    }
}

#[test]
fn figures_of_a_small_case() {
    use super::corpus::Language;
    let page = |id: &str, title: &str, truth| Document {
        id: id.into(),
        language: Language::English,
        title: title.into(),
        content: String::new(),
        truth,
    };
    let (row, other_row) = (Truth::PageChrome("en row"), Truth::PageChrome("en other row"));
    let pages = [
        page("a", "One", row),
        page("b", "Two", row),
        page("c", "Two", other_row),
        page("d", "Three", row),
        page("e", "Three", other_row),
        page("f", "Four", row),
        page("g", "Five", Truth::Article(0)),
        page("h", "Six", Truth::Article(0)),
        page("i", "Seven", Truth::Article(1)),
        page("j", "Eight", Truth::Article(1)),
    ];
    // Two titles of three pages; one title; page chrome beside an article; a reprint found, and one missed.
    let roots = ["1", "1", "1", "2", "2", "3", "3", "4", "5", "5"];
    let ids = pages.iter().map(|page| page.id.clone());
    let roots = ids.zip(roots.map(str::to_owned)).collect();
    let pages: Vec<&Document> = pages.iter().collect();
    let figures = Figures::of(&pages, &roots);
    let expected = Figures { page_chrome: 6, beside_other_title: 4, largest_tree: 2, reprints: 2, together: 1 };
    assert_eq!(figures, expected);
    assert_eq!((figures.other_title(), figures.recall()), (4.0 / 6.0, 0.5));
    let both = figures.and(Figures { largest_tree: 1, ..figures });
    assert_eq!((both.largest_tree, both.page_chrome, both.recall()), (2, 12, 0.5));
}
