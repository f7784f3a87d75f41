//! What titles say of a cluster. Short texts that are alike under titles that have nothing in common are seldom one
//! article: more often they are pages on which a crawler found no article, and took what stands around it (a
//! disclaimer, a row of links) for one.

use std::collections::{BTreeSet, HashMap};

use super::documents::Document;
use super::score::Mistake;
use super::title::Title;

/// How many different titles there are; documents without one do not count.
pub(super) fn distinct<'t>(titles: impl Iterator<Item = &'t Title>) -> usize {
    let titles = titles.map(|title| title.letters.as_str());
    let titles: BTreeSet<&str> = titles.filter(|letters| !letters.is_empty()).collect();
    titles.len()
}

/// Documents of one title.
struct Titled<'t> {
    title: &'t Title,
    /// The first of them.
    document: Document,
    count: u64,
}

/// Of the documents of one cluster, the pairs whose titles share no token, and the first such pair. Titles in which
/// there is nothing to compare do not count. What takes time is the pairs that do share one, and each title is looked
/// at once.
pub(super) fn unrelated<'t>(members: impl Iterator<Item = (Document, &'t Title)>) -> Option<Mistake> {
    let mut titled: Vec<Titled<'_>> = Vec::new();
    let mut by_letters: HashMap<&str, usize> = HashMap::new();
    for (document, title) in members.filter(|(_, title)| !title.tokens.is_empty()) {
        let next = titled.len();
        let place = *by_letters.entry(&title.letters).or_insert(next);
        match titled.get_mut(place) {
            Some(known) => known.count += 1,
            None => titled.push(Titled { title, document, count: 1 }),
        }
    }
    let mut found: Option<Mistake> = None;
    let mut by_token: HashMap<u64, Vec<usize>> = HashMap::new();
    // The title before this one up to which another has been seen to share a token with it.
    let mut related = vec![None; titled.len()];
    let mut documents = 0;
    for (at, one) in titled.iter().enumerate() {
        let mut unrelated = documents;
        for token in &one.title.tokens {
            let sharing = by_token.entry(*token).or_default();
            for &other in sharing.iter() {
                if let (Some(mark), Some(other)) = (related.get_mut(other), titled.get(other))
                    && mark.replace(at) != Some(at)
                {
                    unrelated -= other.count;
                }
            }
            sharing.push(at);
        }
        documents += one.count;
        if unrelated == 0 {
            continue;
        }
        match &mut found {
            Some(found) => found.pairs += unrelated * one.count,
            None => {
                let mut others = titled.iter().zip(&related).take(at);
                let other = others.find(|(_, mark)| **mark != Some(at));
                found = other.map(|(other, _)| Mistake {
                    one: other.document,
                    other: one.document,
                    pairs: unrelated * one.count,
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn share(one: &str, other: &str) -> bool {
        let (one, other) = (Title::of(one), Title::of(other));
        one.tokens.iter().any(|token| other.tokens.contains(token))
    }

    #[test]
    fn titles_share_words_or_pairs_of_characters() {
        for (one, other, shared) in [
            ("ferry fire at kestrel point", "kestrel point: a fire", true),
            ("ferry fire", "a fire, then a ferry", true),
            ("the old pier", "the new inn", false),
            ("台风登陆临汐", "临汐台风", true),
            ("台风登陆", "风台陆登", false),
            ("nba总决赛", "nba揭幕战", false),
            ("iphone发布", "买iphone", true),
        ] {
            assert_eq!(share(one, other), shared, "{one} / {other}");
        }
    }

    #[test]
    fn punctuation_makes_no_other_title() {
        let titles = ["pier, rebuilt", "pier rebuilt!", "", "...", "pier"].map(Title::of);
        assert_eq!(distinct(titles.iter()), 2);
    }

    #[test]
    fn pairs_of_a_small_case() {
        let titles =
            ["pier rebuilt", "...", "the pier to be rebuilt", "lido shut", "pier rebuilt", "市图书馆", "lido shut"]
                .map(Title::of);
        // `lido` and `shut` twice beside three piers and one library; the library beside three piers.
        let found = unrelated((0..).zip(&titles));
        let expected = Mistake { one: 0, other: 3, pairs: 2 * 3 + 2 + 3 };
        assert_eq!(found, Some(expected));
        assert_eq!(unrelated((0..).zip(&titles[..3])), None);
    }

    proptest! {
        #[test]
        fn pairs_count_as_every_pair_looked_at(
            titles in prop::collection::vec(prop::collection::vec(0usize..6, 0..4), 0..30),
        ) {
            const WORDS: [&str; 6] = ["harbour", "library", "ferry", "pier", "of", "台风"];
            let titles: Vec<Title> = titles
                .iter()
                .map(|words| words.iter().map(|&word| WORDS[word]).collect::<Vec<_>>().join(" "))
                .map(|title| Title::of(&title))
                .collect();
            let unrelated_titles = |one: &Title, other: &Title| {
                !one.tokens.is_empty()
                    && !other.tokens.is_empty()
                    && !one.tokens.iter().any(|token| other.tokens.contains(token))
            };
            let mut pairs = 0;
            for (at, one) in titles.iter().enumerate() {
                pairs += titles[..at].iter().filter(|other| unrelated_titles(one, other)).count() as u64;
            }
            let found = unrelated((0..).zip(&titles));
            prop_assert_eq!(found.map_or(0, |found| found.pairs), pairs);
            if let Some(Mistake { one, other, .. }) = found {
                prop_assert!(unrelated_titles(&titles[one as usize], &titles[other as usize]));
            }
        }
    }
}
