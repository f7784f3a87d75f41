//! Neighbours: near groups that a document does not belong to, and why; by the same lookup as `_check`.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::group::seen_groups;
use super::lang::{Texts, fill};
use super::{PageRequest, fields, format, override_form, url};
use crate::engine::{CheckError, Checked, ReaderFields};
use crate::fingerprint::Fingerprint;
use crate::forest::Root;
use crate::forest::overrides::Overrides;
use crate::forest::port::CheckedTree;
use crate::groups::answer::{GroupSummary, key};
use crate::method::{DifferenceKind, Differences, Measure, OwnText, Refusal};

/// Characters of their titles.
const TITLE: usize = 120;

/// Neighbours that are shown.
const SHOWN: usize = 8;
/// A difference that costs less is not shown.
const COSTS: f32 = 0.005;

/// The neighbours of an article.
pub(super) enum Neighbours {
    /// No route stamps the index.
    NoRoute,
    /// The forest is unavailable.
    Unknown,
    /// The near groups; may be empty.
    Found(Vec<Neighbour>),
}

/// A group near a document.
pub(super) struct Neighbour {
    pub title: String,
    pub medium: Option<String>,
    pub address: String,
    /// Why the document does not belong to it.
    pub why: String,
    /// A line for each kind of difference that cost something.
    pub differences: Vec<String>,
    /// Tokens that only this document has.
    pub own: Vec<OwnList>,
    pub similar: String,
    /// Address of the form that merges the two; `None` if the reader sees no group of the document.
    pub merge: Option<String>,
}

/// Pieces of one kind that only a document has.
#[derive(Debug)]
pub(super) struct OwnList {
    pub label: &'static str,
    pub items: Vec<String>,
    pub between: &'static str,
}

/// The neighbours of a document, as far as the reader sees a document of them.
pub(super) async fn neighbours(
    page: &PageRequest<'_>,
    index: &str,
    id: &str,
    source: &Value,
    names: &ReaderFields,
) -> Neighbours {
    let body = Bytes::from(source.to_string());
    let context = page.state.request_context(page.caller());
    let engine = &page.state.engine;
    let checked = engine.check(body, index.to_owned(), Some(id.to_owned()), context);
    let overrides = engine.overrides_of_index(index).await;
    let overrides = overrides.map_or_else(|_| Arc::default(), |(_, overrides)| overrides);
    let own = source.get(&names.root).and_then(Value::as_str);
    let own = own.and_then(|own| Fingerprint::written(own, true)).map(Root);
    let t = page.shell.t();
    let trees: Vec<RefusingTree> = match checked.await {
        Ok(checked) => checked
            .trees
            .iter()
            .filter_map(|tree| refused(t, tree, &checked, &overrides))
            .filter(|tree| own.is_none_or(|own| key(own) != tree.key))
            .take(SHOWN)
            .collect(),
        Err(CheckError::NoRoute(_)) => return Neighbours::NoRoute,
        Err(CheckError::Unavailable(reason)) => {
            page.state.engine_failed(&reason);
            return Neighbours::Unknown;
        }
        Err(CheckError::Document(_) | CheckError::Trailing { .. }) => return Neighbours::Unknown,
    };
    if trees.is_empty() {
        return Neighbours::Found(Vec::new());
    }
    let keys: Vec<i64> = trees.iter().map(|tree| tree.key).collect();
    let shown = names.text.iter().chain(&names.title).chain(&names.medium);
    let medium = names.medium.as_deref().and_then(fields::parent);
    let shown: Vec<&str> = shown.map(String::as_str).chain(medium).collect();
    let Some(groups) = seen_groups(page, index, &keys, &json!(shown), names).await else {
        return Neighbours::Unknown;
    };
    // In the order of the forest: nearest first.
    let found = trees.into_iter().filter_map(|tree| {
        let group = groups.iter().find(|group| key(group.root) == tree.key)?;
        let merge = own.map(|own| override_form::merge_address(index, id, [own, group.root]));
        Some(Neighbour {
            merge,
            differences: tree.differences,
            own: tree.own,
            ..neighbour(t, group, tree.refusal, names)
        })
    });
    Neighbours::Found(found.collect())
}

/// A tree that refuses a document.
struct RefusingTree {
    /// The key of its group.
    key: i64,
    refusal: Refusal,
    differences: Vec<String>,
    own: Vec<OwnList>,
}

fn refused(t: &'static Texts, tree: &CheckedTree, checked: &Checked, overrides: &Overrides) -> Option<RefusingTree> {
    let refusal = tree.verdict.err()?;
    let own = checked.own.iter().find(|(root, _)| *root == tree.root).map(|(_, own)| own);
    let (differences, own) = match tree.measure {
        Measure::Alignment { differences, .. } => (told(t, &differences), own.map(|own| only_here(t, own))),
        _ => (Vec::new(), None),
    };
    Some(RefusingTree { key: key(overrides.group(tree.root)), refusal, differences, own: own.unwrap_or_default() })
}

/// The differences that cost something, the dearest first.
fn told(t: &'static Texts, found: &Differences) -> Vec<String> {
    let share = |ratio: f32| format::percent(f64::from(ratio));
    let number = |value: f32| format::number(value.ceil() as u64);
    let mut costs: Vec<_> = found.costs().into_iter().filter(|&(_, cost)| cost >= COSTS).collect();
    costs.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let mut lines: Vec<String> = Vec::with_capacity(costs.len() + 1);
    if found.least < found.least_needed() {
        lines.push(fill(t.differs_least, &[&share(found.least), &share(found.least_needed())]));
    }
    lines.extend(costs.into_iter().map(|(kind, cost)| {
        let line = match kind {
            DifferenceKind::OwnMatter => fill(t.differs_own_matter, &[&share(1.0 - found.most)]),
            DifferenceKind::Replaced => fill(t.differs_replaced, &[&number(found.replaced)]),
            DifferenceKind::Numbers => fill(t.differs_numbers, &[&number(found.numbers)]),
            DifferenceKind::Facts => {
                fill(t.differs_facts, &[&number(found.own_facts), &format::number(found.common_facts.into())])
            }
            DifferenceKind::Titles => fill(t.differs_titles, &[&format::number(found.titles.into())]),
        };
        fill(t.differs_cost, &[&line, &share(cost)])
    }));
    lines
}

/// The document's own text.
fn only_here(t: &'static Texts, own: &OwnText) -> Vec<OwnList> {
    let lists = [
        (t.only_here_sentences, &own.sentences, " / "),
        (t.only_here_numbers, &own.numbers, "; "),
        (t.only_here_words, &own.words, "; "),
    ];
    let lists = lists.into_iter().filter(|(_, items, _)| !items.is_empty());
    lists.map(|(label, items, between)| OwnList { label, items: items.clone(), between }).collect()
}

fn neighbour(t: &'static Texts, group: &GroupSummary, refusal: Refusal, names: &ReaderFields) -> Neighbour {
    let representative = &group.representative;
    let source = &representative.source;
    let title = fields::title(source, names, TITLE);
    let similar = match group.similar_count {
        1 => t.similar_one.to_owned(),
        count => fill(t.refused_article, &[&format::others(count)]),
    };
    Neighbour {
        title: title.unwrap_or_else(|| t.untitled.to_owned()),
        medium: fields::keyword(source, names.medium.as_deref()).map(str::to_owned),
        address: url::article(&representative.index, &representative.id),
        why: why(t, refusal),
        differences: Vec::new(),
        own: Vec::new(),
        similar,
        merge: None,
    }
}

/// A refusal as text.
pub(super) fn why(t: &'static Texts, refusal: Refusal) -> String {
    let number = |value: usize| format::number(value as u64);
    match refusal {
        Refusal::Proof { similarity, needed } => {
            let share = |ratio: f32| format::percent(f64::from(ratio));
            fill(t.why_proof, &[&share(similarity), &share(needed)])
        }
        Refusal::Numbers { same, different } => fill(t.why_numbers, &[&number(same), &number(different)]),
        Refusal::OtherNumbers { .. } => t.reason_numbers.to_owned(),
        Refusal::Names { .. } => t.why_names.to_owned(),
        Refusal::Facts { .. } => t.why_facts.to_owned(),
        Refusal::Part { .. } => t.why_part.to_owned(),
        Refusal::Boilerplate => t.why_boilerplate.to_owned(),
        Refusal::Titles => t.why_titles.to_owned(),
        Refusal::PageChrome => t.why_page_chrome.to_owned(),
        Refusal::Full => t.why_full.to_owned(),
        Refusal::Radius { letters, allowed } => fill(t.why_radius, &[&number(letters), &number(allowed)]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::lang::Lang;
    use super::*;

    #[test]
    fn each_difference_that_costs_something_has_a_line() {
        let found = Differences {
            words: 200.0,
            most: 0.89,
            least: 0.5,
            replaced: 30.0,
            opening: 0.0,
            numbers: 1.2,
            own_facts: 3.4,
            common_facts: 40,
            titles: 1,
            alike: Some(0.2),
        };
        let own =
            OwnText { sentences: vec!["a sentence".into()], numbers: vec!["17".into(), "1.3".into()], words: vec![] };
        let lines = told(Lang::English.texts(), &found);
        let expected = [
            "Of one text only 50% stands in the other, and at least 75% would be needed",
            "Other numbers stand in the same places: 2 (144% of what keeps two texts apart)",
        ];
        assert_eq!(lines[..2], expected);
        assert_eq!(lines.len(), 1 + 5, "{lines:#?}");
        let own = only_here(Lang::English.texts(), &own);
        let own: Vec<_> = own.iter().map(|list| (list.label, list.items.join(list.between))).collect();
        let expected = [
            ("Only in this article: ", "a sentence".to_owned()),
            ("Numbers only in this article: ", "17; 1.3".to_owned()),
        ];
        assert_eq!(own, expected);
        let nothing = Differences { most: 1.0, least: 1.0, ..Differences::default() };
        assert_eq!(told(Lang::Chinese.texts(), &nothing), [""; 0]);
    }
}
