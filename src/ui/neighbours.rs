//! Groups that a document looked like and does not belong to, and why: the same look at the forest as `_check` takes.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::lang::{Texts, fill};
use super::{PageRequest, fields, format, override_form, url};
use crate::engine::{CheckError, ReaderFields};
use crate::fingerprint::Fingerprint;
use crate::forest::Root;
use crate::forest::overrides::Overrides;
use crate::forest::port::CheckedTree;
use crate::groups::answer::{GroupSummary, key};
use crate::groups::request::{Direction, RepresentativeBy, TotalWanted};
use crate::groups::{GroupsRequest, SortBy};
use crate::method::Refusal;

/// Neighbours that are shown.
const SHOWN: usize = 8;

/// The neighbours of an article.
pub(super) enum Neighbours {
    /// No route stamps the index.
    NoRoute,
    /// Nothing: the forest gives no answer now.
    Unknown,
    /// These; none where no group came near.
    Found(Vec<Neighbour>),
}

/// A group near a document.
pub(super) struct Neighbour {
    pub title: String,
    pub medium: Option<String>,
    pub address: String,
    /// Why the document does not belong to it.
    pub why: String,
    pub similar: String,
    /// Address of the form that merges the two; `None` if the reader sees no group of the document.
    pub merge: Option<String>,
}

/// The neighbours of a document of which the reader sees a document; others are omitted.
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
    let words = engine.overrides_of_index(index).await;
    let words = words.map_or_else(|_| Arc::default(), |(_, words)| words);
    let own = source.get(&names.root).and_then(Value::as_str);
    let own = own.and_then(|own| Fingerprint::written(own, true)).map(Root);
    let trees: Vec<(i64, Refusal)> = match checked.await {
        Ok(checked) => checked
            .trees
            .iter()
            .filter_map(|tree| refused(tree, &words))
            .filter(|(tree, _)| own.is_none_or(|own| key(own) != *tree))
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
    let keys: Vec<i64> = trees.iter().map(|(key, _)| *key).collect();
    let shown = names.text.iter().chain(&names.title).chain(&names.medium);
    let medium = names.medium.as_deref().and_then(fields::parent);
    let shown: Vec<&str> = shown.map(String::as_str).chain(medium).collect();
    let Some(groups) = seen_groups(page, index, &keys, &json!(shown), names).await else {
        return Neighbours::Unknown;
    };
    let t = page.shell.t();
    // In the order of the forest: nearest first.
    let found = trees.iter().filter_map(|(tree, refusal)| {
        let group = groups.iter().find(|group| key(group.root) == *tree)?;
        let merge = own.map(|own| override_form::merge_address(index, id, [own, group.root]));
        let neighbour = neighbour(t, group, *refusal, names);
        Some(Neighbour { merge, ..neighbour })
    });
    Neighbours::Found(found.collect())
}

/// Those of some groups of which the reader sees a document; `None` if that cannot be determined.
pub(super) async fn seen_groups(
    page: &PageRequest<'_>,
    index: &str,
    keys: &[i64],
    shown: &Value,
    names: &ReaderFields,
) -> Option<Vec<GroupSummary>> {
    if keys.is_empty() {
        return Some(Vec::new());
    }
    let request = GroupsRequest {
        query: json!({"bool": {"filter": [{"terms": {(&names.key): keys}}]}}).into(),
        sort: SortBy::Field(names.time.clone()),
        direction: Direction::Descending,
        size: keys.len(),
        representative: RepresentativeBy::Oldest,
        source: shown.clone(),
        total: TotalWanted::No,
        ..GroupsRequest::default()
    };
    let raw_index = url::segment(index);
    let reader = page.reader(&raw_index, names);
    let groups = reader.groups(&request).await;
    groups.ok().map(|groups| groups.groups)
}

/// The key of the group of a tree that refuses the document, and why it does.
fn refused(tree: &CheckedTree, words: &Overrides) -> Option<(i64, Refusal)> {
    Some((key(words.group(tree.root)), tree.verdict.err()?))
}

fn neighbour(t: &'static Texts, group: &GroupSummary, refusal: Refusal, names: &ReaderFields) -> Neighbour {
    let representative = &group.representative;
    let source = &representative.source;
    let text = names.text.first().map(String::as_str);
    let title = fields::text(source, names.title.as_deref()).or_else(|| fields::text(source, text));
    let similar = match group.similar_count {
        1 => t.similar_one.to_owned(),
        count => fill(t.refused_article, &[&format::others(count)]),
    };
    Neighbour {
        title: title.map_or_else(|| t.untitled.to_owned(), |title| fields::beginning(title, 120)),
        medium: fields::keyword(source, names.medium.as_deref()).map(str::to_owned),
        address: url::article(&representative.index, &representative.id),
        why: why(t, refusal),
        similar,
        merge: None,
    }
}

/// A refusal in words.
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
