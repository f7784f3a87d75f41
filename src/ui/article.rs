//! The page of one article: text with changes, spread of the story, other publications, neighbours.

use askama::Template;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::diff::{self, TextDiff};
use super::document::{IndexedDocument, find};
use super::error_page::ErrorPage;
use super::files::{self, FileFormat, FileLink};
use super::group::{self, FirstArticle, GroupFacts};
use super::lang::{Texts, split_at_placeholder};
use super::layout::Layout;
use super::member_list::{self, MemberFilter, MemberSection};
use super::neighbours::{Neighbour, Neighbours, neighbours};
use super::{PageRequest, fields, format, list, override_form, response, url};
use crate::access::IndexName;
use crate::engine::ReaderFields;
use crate::fingerprint::Fingerprint;
use crate::forest::Root;
use crate::groups::answer::key;
use crate::groups::{MembersRequest, ReadError};
use crate::http::Body;
use crate::http::query::decode_segment;
use crate::text::readable;

/// Characters of a text that are shown.
const TEXT: usize = 100_000;

/// Groups that may be one with that of the article.
const OTHER_GROUPS: usize = 5;

/// Most suggested late merges whose documents are read.
const MOST_SUGGESTED: usize = 20;

#[derive(Template)]
#[template(path = "article.html")]
struct ArticlePage<'a> {
    shell: &'a Layout,
    t: &'static Texts,
    back: String,
    title: String,
    medium: Option<String>,
    time: Option<(String, String)>,
    link: Option<String>,
    root: Option<String>,
    /// Address of the override form that splits the article off.
    split: Option<String>,
    /// Its position among the others, as text.
    place: Option<String>,
    text: String,
    changes: Option<TextChanges>,
    /// Whether the changes are marked in the text.
    shows_changes: bool,
    members: Option<MemberSection>,
    /// The group as files.
    files: Vec<FileLink>,
    is_single: bool,
    /// Groups that may be one with this.
    late_merges: Vec<OtherGroup>,
    refused: Option<Vec<Neighbour>>,
    has_no_route: bool,
}

/// A group that may be one with that of the article.
struct OtherGroup {
    /// The title of its first article.
    title: String,
    address: String,
    /// Address of the override form that merges the two groups.
    merge: String,
}

/// Changes against the first article of the group.
struct TextChanges {
    /// The text before and after the medium of the first.
    lead: (String, String),
    medium: String,
    first: String,
    diff: TextDiff,
    count: String,
    /// Whether the text is shown with its changes.
    shown: bool,
    with: String,
    without: String,
}

/// The page of a document.
pub(super) async fn show(page: &PageRequest<'_>, raw_index: &str, raw_id: &str) -> Result<Response<Body>, ErrorPage> {
    let (shell, t) = (page.shell, page.shell.t());
    let id = decode_segment(raw_id);
    let found = find(page, raw_index, &id).await?;
    let asked = IndexName::parse(raw_index).ok();
    let access = page.state.access();
    let route_name = access.route_name(&found.index, asked.as_ref()).await;
    let known_as = route_name.as_deref().unwrap_or(&found.index);
    let names = page.fields(&url::segment(known_as)).await;
    let source = &found.source;
    let root = source.get(&names.root).and_then(Value::as_str);
    let root = root.and_then(|root| Some((root, Fingerprint::written(root, true).map(Root)?)));
    let filter = MemberFilter::read(&shell.parameters);
    let (facts, similar) = match root {
        Some((hex, root)) => {
            let members = member_list::members(page, raw_index, hex, &found, &filter, &names);
            let (facts, members) = tokio::try_join!(group::facts(page, raw_index, root, &names), members)?;
            (facts, Some(members))
        }
        None => (None, None),
    };
    let refused = neighbours(page, known_as, &found.id, source, &names).await;
    let (refused, has_no_route) = match refused {
        Neighbours::NoRoute => (None, true),
        Neighbours::Unknown => (None, false),
        Neighbours::Found(neighbours) => (Some(neighbours), false),
    };
    let text = text_of(source, &names);
    let facts = facts.as_ref();
    let changes = match facts {
        Some(facts) => changes(page, &facts.first, &found, &names).await?,
        None => None,
    };
    let total = facts.map_or(0, |facts| facts.total);
    let section = similar.as_ref().zip(facts);
    let article = ArticlePage {
        shell,
        t,
        back: list::way_back(shell.parameters.get("back"), &decode_segment(raw_index), root.map(|(hex, _)| hex)),
        title: shell.title(source, &names),
        medium: fields::keyword(source, names.medium.as_deref()).map(str::to_owned),
        time: fields::time(source, &names.time).map(|time| shell.time(time)),
        link: fields::link(source, names.url.as_deref()),
        place: facts.and_then(|facts| place(shell, facts, &found)),
        shows_changes: changes.as_ref().is_some_and(|changes| changes.shown),
        changes,
        members: section.map(|(members, facts)| MemberSection::new(shell, members, facts, filter, &found, &names)),
        files: root.map_or_else(Vec::new, |(hex, _)| group_files(shell, &found, hex)),
        is_single: total == 1,
        split: (!has_no_route && total > 1).then(|| override_form::split_address(known_as, &found.id)),
        late_merges: match root {
            Some((_, root)) => may_be_one(page, known_as, &found.id, root, &names).await,
            None => Vec::new(),
        },
        root: root.map(|(hex, _)| hex.to_owned()),
        text,
        refused,
        has_no_route,
    };
    Ok(response::page(StatusCode::OK, &article)?)
}

/// Groups suggested as late merges with that of a document, as far as the reader sees a document of them. `index`: the
/// name by which a route knows the document's.
async fn may_be_one(page: &PageRequest<'_>, index: &str, id: &str, own: Root, names: &ReaderFields) -> Vec<OtherGroup> {
    let Ok((_, late_merges)) = page.state.engine.merge_suggestions(index).await else {
        return Vec::new();
    };
    let others = late_merges.suggestions.iter().filter_map(|pair| match own {
        own if own == pair.winner => Some(pair.loser),
        own if own == pair.loser => Some(pair.winner),
        _ => None,
    });
    let others: Vec<Root> = others.take(MOST_SUGGESTED).collect();
    let keys: Vec<i64> = others.iter().map(|&other| key(other)).collect();
    let shown: Vec<&String> = names.title.iter().collect();
    let seen = group::seen_groups(page, index, &keys, &json!(shown), names).await;
    let seen = seen.unwrap_or_default();
    let shown = others.iter().filter_map(|other| seen.iter().find(|group| group.root == *other)).take(OTHER_GROUPS);
    let shown = shown.map(|group| OtherGroup {
        title: page.shell.title(&group.representative.source, names),
        address: url::group(index, &group.root.to_string()),
        merge: override_form::merge_address(index, id, [own, group.root]),
    });
    shown.collect()
}

/// The first article of a group, with the filter of the address, or the group as a file.
pub(super) async fn first_of(page: &PageRequest<'_>, raw_index: &str, root: &str) -> Result<Response<Body>, ErrorPage> {
    if let Some(format) = FileFormat::of(&page.shell.parameters) {
        return files::group(page, raw_index, root, format).await;
    }
    let names = page.fields(raw_index).await;
    let reader = page.reader(raw_index, &names);
    let request = MembersRequest { size: 1, cursor: None, source: Value::Bool(false), filters: Vec::new() };
    let similar = reader.root(root, &request).await?;
    let first = similar.hits.first().ok_or(ReadError::NotTheCluster)?;
    let query = member_list::unpaged(&page.shell.parameters).without(&[files::PARAMETER]);
    Ok(response::elsewhere(&(url::article(&first.index, &first.id) + &query.suffix())))
}

/// The articles of the group that the page shows, as files.
fn group_files(shell: &Layout, found: &IndexedDocument, root: &str) -> Vec<FileLink> {
    let cursor = shell.parameters.get(member_list::CURSOR).map(|cursor| (member_list::CURSOR, cursor));
    let query = shell.parameters.without(&["back", "view", "before", member_list::CURSOR]);
    files::links(shell, &url::group(&found.index, root), root, &query, cursor)
}

fn here(found: &IndexedDocument) -> String {
    url::article(&found.index, &found.id)
}

/// The text fields without markup, one line per paragraph: a line break moved elsewhere is no change.
fn text_of(source: &Value, names: &ReaderFields) -> String {
    let texts = names.text.iter().flat_map(|text| fields::texts(source, text));
    let mut text = String::new();
    for raw in texts {
        let readable = readable(raw);
        for line in readable.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(line);
        }
    }
    match text.char_indices().nth(TEXT) {
        Some((at, _)) => text.get(..at).unwrap_or_default().to_owned(),
        None => text,
    }
}

fn place(shell: &Layout, facts: &GroupFacts, found: &IndexedDocument) -> Option<String> {
    let t = shell.t();
    match facts.total {
        1 => None,
        all if facts.first.document.is_at(&found.index, &found.id) => {
            Some(shell.text(t.first_of, &[&format::number(all)]))
        }
        all => Some(shell.similar(all)),
    }
}

async fn changes(
    page: &PageRequest<'_>,
    first: &FirstArticle,
    found: &IndexedDocument,
    names: &ReaderFields,
) -> Result<Option<TextChanges>, ErrorPage> {
    let (shell, t) = (page.shell, page.shell.t());
    if first.document.is_at(&found.index, &found.id) || names.text.is_empty() {
        return Ok(None);
    }
    let (old, new) = (text_of(&first.document.source, names), text_of(&found.source, names));
    let diff = page.state.engine.run_for_readers(move || diff::diff(&old, &new)).await;
    let diff = diff.map_err(ReadError::from)?;
    let time = first.time.map_or(t.no_time.to_owned(), |time| format::time(time, &shell.locale));
    let view = |value: &str| {
        let query = shell.parameters.with("view", Some(value));
        here(found) + &query.suffix() + "#changes"
    };
    Ok(Some(TextChanges {
        lead: split_at_placeholder(t.changes_lead, &[&time]),
        medium: first.medium.clone().unwrap_or_else(|| t.unknown_medium.to_owned()),
        first: url::article(&first.document.index, &first.document.id) + &shell.query(),
        count: count(shell, &diff),
        diff,
        shown: shell.parameters.get("view") != Some("text"),
        with: view("changes"),
        without: view("text"),
    }))
}

/// How much was added and removed: words, or characters where there are no blanks between words.
fn count(shell: &Layout, diff: &TextDiff) -> String {
    let t = shell.t();
    let added = match (diff.is_by_character, diff.added) {
        (false, 1) => t.added_word,
        (false, _) => t.added_words,
        (true, 1) => t.added_character,
        (true, _) => t.added_characters,
    };
    let number = |value: usize| format::number(value as u64);
    shell.text(added, &[&number(diff.added), &number(diff.removed)])
}
