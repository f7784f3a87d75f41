//! The page of one article: text with changes, spread of the story, other publications, neighbours.

use askama::Template;
use hyper::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::diff::{self, TextDiff};
use super::error_page::ErrorPage;
use super::lang::{Texts, split_at_placeholder};
use super::layout::Layout;
use super::neighbours::{Neighbour, Neighbours, neighbours, seen_groups};
use super::timeline::{Timeline, TimelineEvent, timeline};
use super::{PageRequest, fields, format, list, override_form, response, url};
use crate::access::IndexName;
use crate::bulk::stored_value;
use crate::engine::ReaderFields;
use crate::fingerprint::Fingerprint;
use crate::forest::Root;
use crate::groups::answer::{SimilarHit, SimilarPage, key};
use crate::groups::request::MAX_SIZE;
use crate::groups::{MembersRequest, NO_FIELD, ReadError, SMALL};
use crate::http::Body;
use crate::http::query::decode_segment;
use crate::text::isolate;
use crate::time::{Millis, format_date};

/// The most bytes of a document.
const DOCUMENT_BYTES: usize = 16 << 20;

/// Characters of a text that are shown.
const TEXT: usize = 100_000;

/// Characters of a title.
const TITLE: usize = 300;

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
    spread: Option<SpreadSection>,
    members: Vec<MemberRow>,
    more: Option<String>,
    is_single: bool,
    /// Groups that may be one with this.
    late_merges: Vec<OtherGroup>,
    refused: Option<Vec<Neighbour>>,
    has_no_route: bool,
}

/// A group that may be one with that of the article.
struct OtherGroup {
    root: String,
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

/// How the story spread.
struct SpreadSection {
    lead: String,
    /// It is a part of all articles.
    part: Option<String>,
    picture: Timeline,
}

/// An article of the group.
struct MemberRow {
    title: String,
    medium: Option<String>,
    time: Option<(String, String)>,
    similarity: Option<String>,
    address: String,
    is_here: bool,
    is_first: bool,
}

/// A document as the cluster has it.
struct IndexedDocument {
    index: String,
    id: String,
    source: Value,
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
    let similar = match root {
        Some(root) => Some(members(page, raw_index, root, &names).await?),
        None => None,
    };
    let refused = neighbours(page, known_as, &found.id, source, &names).await;
    let (refused, has_no_route) = match refused {
        Neighbours::NoRoute => (None, true),
        Neighbours::Unknown => (None, false),
        Neighbours::Found(neighbours) => (Some(neighbours), false),
    };
    let title = fields::text(source, names.title.as_deref());
    let text = text_of(source, &names);
    let similar = similar.as_ref();
    let changes = match similar {
        Some(similar) => changes(page, similar, &found, &names).await?,
        None => None,
    };
    let article = ArticlePage {
        shell,
        t,
        back: list::way_back(shell.parameters.get("back"), &decode_segment(raw_index)),
        title: title.map_or_else(|| t.untitled.to_owned(), |title| fields::beginning(title, TITLE)),
        medium: fields::keyword(source, names.medium.as_deref()).map(str::to_owned),
        time: fields::time(source, &names.time).map(|time| shown_time(shell, time)),
        link: fields::link(source, names.url.as_deref()),
        place: similar.and_then(|similar| place(shell, similar, &found)),
        shows_changes: changes.as_ref().is_some_and(|changes| changes.shown),
        changes,
        spread: similar.and_then(|similar| spread(shell, similar, &found, &names)),
        members: similar.map_or_else(Vec::new, |similar| {
            let hits = similar.hits.iter();
            hits.map(|hit| member(shell, hit, &found, &names)).collect()
        }),
        more: similar.and_then(|similar| {
            let next = shell.parameters.with("members", similar.next.as_deref());
            similar.next.is_some().then(|| here(&found) + &next.suffix() + "#others")
        }),
        is_single: similar.is_some_and(|similar| similar.total == 1),
        split: (!has_no_route && similar.is_some_and(|similar| similar.total > 1))
            .then(|| override_form::split_address(known_as, &found.id)),
        late_merges: match root {
            Some(root) => may_be_one(page, known_as, &found.id, root, &names).await,
            None => Vec::new(),
        },
        root: root.map(str::to_owned),
        text,
        refused,
        has_no_route,
    };
    Ok(response::page(StatusCode::OK, &article)?)
}

/// Groups suggested as late merges with that of a document, as far as the reader sees a document of them. `index`: the
/// name by which a route knows the document's.
async fn may_be_one(
    page: &PageRequest<'_>,
    index: &str,
    id: &str,
    root: &str,
    names: &ReaderFields,
) -> Vec<OtherGroup> {
    let own = Fingerprint::written(root, true).map(Root);
    let late_merges = page.state.engine.merge_suggestions(index).await;
    let Some((own, (_, late_merges))) = own.zip(late_merges.ok()) else {
        return Vec::new();
    };
    let others = late_merges.suggestions.iter().filter_map(|pair| match own {
        own if own == pair.winner => Some(pair.loser),
        own if own == pair.loser => Some(pair.winner),
        _ => None,
    });
    let others: Vec<Root> = others.take(MOST_SUGGESTED).collect();
    let keys: Vec<i64> = others.iter().map(|&other| key(other)).collect();
    let seen = seen_groups(page, index, &keys, &json!(false), names).await;
    let seen = seen.unwrap_or_default();
    let seen = |other: &&Root| seen.iter().any(|group| group.root == **other);
    let shown = others.iter().filter(seen).take(OTHER_GROUPS);
    let shown = shown.map(|&other| OtherGroup {
        root: other.to_string(),
        address: url::group(index, &other.to_string()),
        merge: override_form::merge_address(index, id, [own, other]),
    });
    shown.collect()
}

/// The first article of a group.
pub(super) async fn first_of(page: &PageRequest<'_>, raw_index: &str, root: &str) -> Result<Response<Body>, ErrorPage> {
    let names = page.fields(raw_index).await;
    let reader = page.reader(raw_index, &names);
    let request = MembersRequest { size: 1, cursor: None, source: Value::Bool(false) };
    let similar = reader.root(root, &request).await?;
    let first = similar.hits.first().ok_or(ReadError::NotTheCluster)?;
    Ok(response::elsewhere(&url::article(&first.index, &first.id)))
}

/// Fetches a document by its id. It is searched, since the path may have an alias or a pattern, and a document may
/// have a routing.
async fn find(page: &PageRequest<'_>, raw_index: &str, id: &str) -> Result<IndexedDocument, ErrorPage> {
    // The server writes the source anew: as it is stored, it may be more than JSON.
    let whole = json!({"excludes": [NO_FIELD]});
    let body = json!({"size": 1, "track_total_hits": false, "_source": whole, "query": {"ids": {"values": [id]}}});
    let path = format!("/{raw_index}/_search");
    let cluster = &page.state.cluster;
    page.turn.begin().await;
    let asked = cluster.ask_as_until(
        &page.headers,
        Method::POST,
        &path,
        Some(body.to_string().into()),
        (SMALL, page.turn.large()),
        DOCUMENT_BYTES,
    );
    let answer = asked.await?;
    if !answer.status().is_success() {
        return Err(ErrorPage::of_cluster(&answer));
    }
    let mut parsed = stored_value(answer.body()).map_err(|_| ReadError::NotTheCluster)?;
    let hit = parsed.pointer_mut("/hits/hits/0").map(Value::take);
    let mut hit = hit.ok_or_else(|| {
        let index = decode_segment(raw_index);
        let reason = format!("there is no document [{}] in [{}]", isolate(id), isolate(&index));
        ErrorPage::from(ReadError::NotFound(reason))
    })?;
    let name = |of: &str| hit.get(of).and_then(Value::as_str).map(str::to_owned);
    let (index, id) = name("_index").zip(name("_id")).ok_or(ReadError::NotTheCluster)?;
    let source = hit.get_mut("_source").map(Value::take);
    Ok(IndexedDocument { index, id, source: source.unwrap_or_default() })
}

async fn members(
    page: &PageRequest<'_>,
    raw_index: &str,
    root: &str,
    names: &ReaderFields,
) -> Result<SimilarPage, ErrorPage> {
    let titles: Vec<&String> = names.title.iter().collect();
    let request = MembersRequest {
        size: MAX_SIZE,
        cursor: page.shell.parameters.get("members").map(str::to_owned),
        source: json!(titles),
    };
    let reader = page.reader(raw_index, names);
    Ok(reader.root(root, &request).await?)
}

fn here(found: &IndexedDocument) -> String {
    url::article(&found.index, &found.id)
}

fn is_here(hit: &SimilarHit, found: &IndexedDocument) -> bool {
    hit.index == found.index && hit.id == found.id
}

/// The text fields, one line per paragraph: a line break moved elsewhere is no change.
fn text_of(source: &Value, names: &ReaderFields) -> String {
    let texts = names.text.iter().flat_map(|text| fields::texts(source, text));
    let lines = texts.flat_map(str::lines).map(str::trim);
    let paragraphs: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    paragraphs.join("\n\n").chars().take(TEXT).collect()
}

fn shown_time(shell: &Layout, time: Millis) -> (String, String) {
    (format::time(time, shell.lang), format_date(time))
}

fn place(shell: &Layout, similar: &SimilarPage, found: &IndexedDocument) -> Option<String> {
    let t = shell.t();
    let first = similar.hits.first()?;
    match similar.total {
        1 => None,
        all if first.is_representative && is_here(first, found) => {
            Some(shell.text(t.first_of, &[&format::number(all)]))
        }
        all => Some(shell.text(t.similar_many, &[&format::others(all)])),
    }
}

async fn changes(
    page: &PageRequest<'_>,
    similar: &SimilarPage,
    found: &IndexedDocument,
    names: &ReaderFields,
) -> Result<Option<TextChanges>, ErrorPage> {
    let (shell, t) = (page.shell, page.shell.t());
    let Some(first) = similar.hits.iter().find(|hit| hit.is_representative) else {
        return Ok(None);
    };
    if is_here(first, found) || names.text.is_empty() {
        return Ok(None);
    }
    let of_first = find(page, &url::segment(&first.index), &first.id).await;
    // The document may have been deleted a moment ago; the other parts of the page remain.
    let Ok(of_first) = of_first else {
        return Ok(None);
    };
    let (old, new) = (text_of(&of_first.source, names), text_of(&found.source, names));
    let diff = page.state.engine.run_for_readers(move || diff::diff(&old, &new)).await;
    let diff = diff.map_err(ReadError::from)?;
    let time = first.time.map_or(t.no_time.to_owned(), |time| format::time(time, shell.lang));
    let number = |value: usize| format::number(value as u64);
    let view = |value: &str| {
        let query = shell.parameters.with("view", Some(value));
        here(found) + &query.suffix() + "#changes"
    };
    Ok(Some(TextChanges {
        lead: split_at_placeholder(t.changes_lead, &[&time]),
        medium: medium_of(shell, first),
        first: url::article(&first.index, &first.id) + &shell.query(),
        count: shell.text(t.changes_count, &[&number(diff.added), &number(diff.removed)]),
        diff,
        shown: shell.parameters.get("view") != Some("text"),
        with: view("changes"),
        without: view("text"),
    }))
}

fn medium_of(shell: &Layout, hit: &SimilarHit) -> String {
    let unknown = || shell.t().unknown_medium.to_owned();
    hit.medium.clone().unwrap_or_else(unknown)
}

fn spread(
    shell: &Layout,
    similar: &SimilarPage,
    found: &IndexedDocument,
    names: &ReaderFields,
) -> Option<SpreadSection> {
    let t = shell.t();
    let timed = similar.hits.iter().filter_map(|hit| Some((hit.time?, hit)));
    let events: Vec<TimelineEvent> = timed
        .map(|(time, hit)| TimelineEvent {
            time,
            medium: medium_of(shell, hit),
            title: title_of(shell, hit, names),
            is_here: is_here(hit, found),
        })
        .collect();
    let picture = timeline(&events, shell.lang)?;
    let (first, last) = (events.first()?.time.0, events.last()?.time.0);
    let mut media: Vec<&str> = events.iter().map(|event| event.medium.as_str()).collect();
    media.sort_unstable();
    media.dedup();
    let number = |value: usize| format::number(value as u64);
    let within = format::span(last.saturating_sub(first), shell.lang);
    let lead = match first == last {
        true => t.spread_one.to_owned(),
        false => {
            let counts = [number(events.len()), number(media.len()), within];
            shell.text(t.spread_lead, &counts.each_ref().map(String::as_str))
        }
    };
    let is_part = similar.next.is_some() || shell.parameters.get("members").is_some();
    let part = is_part.then(|| {
        let (shown, all) = (number(events.len()), format::number(similar.total));
        shell.text(t.spread_part, &[&shown, &all])
    });
    Some(SpreadSection { lead, part, picture })
}

fn title_of(shell: &Layout, hit: &SimilarHit, names: &ReaderFields) -> String {
    let title = fields::text(&hit.source, names.title.as_deref());
    title.map_or_else(|| shell.t().untitled.to_owned(), |title| fields::beginning(title, TITLE))
}

fn member(shell: &Layout, hit: &SimilarHit, found: &IndexedDocument, names: &ReaderFields) -> MemberRow {
    let back = url::QueryString::default().with("back", shell.parameters.get("back"));
    MemberRow {
        title: title_of(shell, hit, names),
        medium: hit.medium.clone(),
        time: hit.time.map(|time| shown_time(shell, time)),
        similarity: hit.similarity.map(|ratio| format::percent(f64::from(ratio))),
        address: url::article(&hit.index, &hit.id) + &back.suffix(),
        is_here: is_here(hit, found),
        is_first: hit.is_representative,
    }
}
