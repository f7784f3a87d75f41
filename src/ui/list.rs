//! The list of an index: one entry for each group.

use askama::Template;
use hyper::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::error_page::ErrorPage;
use super::facets::{self, FacetSection};
use super::files::{self, FileFormat, FileLink};
use super::highlight::{self, Highlights, Segment};
use super::lang::Texts;
use super::layout::Layout;
use super::list_params::{ListParams, ListSort, Within};
use super::member_list::media_of;
use super::nothing::{self, EmptyList};
use super::{PageRequest, fields, filter_check, format, response, url};
use crate::engine::ReaderFields;
use crate::groups::GroupsPage;
use crate::groups::answer::{GroupSummary, Relation, Representative};
use crate::http::query::decode_segment;
use crate::http::{Body, ProxyError};
use crate::text::isolate;

/// Characters of a text that an entry shows.
const SNIPPET: usize = 180;

/// Characters of a title.
const TITLE: usize = 300;

/// Media that the filter proposes.
const PROPOSED: usize = 100;

/// Most bytes of the cluster's response about media.
const ANSWER_BYTES: usize = 1 << 20;

#[derive(Template)]
#[template(path = "list.html")]
struct ListPage<'a> {
    shell: &'a Layout,
    t: &'static Texts,
    index: String,
    address: String,
    question: &'a ListParams,
    sorts: [(&'static str, &'static str, bool); 4],
    /// Times that end now, and any time: name, address, whether it is the current one.
    times: Vec<(&'static str, String, bool)>,
    has_medium: bool,
    media: Vec<String>,
    facets: Vec<FacetSection>,
    /// The list with facets, if it has none and can have some.
    with_facets: Option<String>,
    total: Option<String>,
    took: String,
    /// Says that documents without a stamp are not shown.
    unstamped: Option<String>,
    /// What else the API says of the list, in English.
    notes: Vec<String>,
    entries: Vec<GroupEntry>,
    /// Why there are none.
    empty: Option<EmptyList>,
    page_number: Option<String>,
    first: Option<String>,
    previous: Option<String>,
    next: Option<String>,
    files: Vec<FileLink>,
}

/// A group.
struct GroupEntry {
    root: String,
    title: Vec<Segment>,
    address: String,
    snippet: Vec<Segment>,
    title_lang: &'static str,
    snippet_lang: &'static str,
    medium: Option<String>,
    /// When its representative was published: for people and for machines.
    time: Option<(String, String)>,
    is_single: bool,
    similar: String,
    matching: Option<String>,
    media: Option<String>,
    /// From its first to its last article.
    span: Option<String>,
}

pub(super) async fn show(page: &PageRequest<'_>, raw_index: &str) -> Result<Response<Body>, ErrorPage> {
    let shell = page.shell;
    let t = shell.t();
    let question = ListParams::read(&shell.parameters).map_err(|(name, value)| {
        let reason = shell.text(t.bad_date, &[name, &isolate(&value)]);
        ErrorPage::from(ProxyError::BadRequest(reason))
    })?;
    if let Some(format) = FileFormat::of(&shell.parameters) {
        return files::list(page, raw_index, &question, format).await;
    }
    let names = page.fields(raw_index).await;
    let shown: Vec<&str> = names
        .text
        .iter()
        .chain(&names.title)
        .chain(&names.medium)
        .chain([&names.time])
        .map(String::as_str)
        .chain(names.medium.as_deref().and_then(fields::parent))
        .collect();
    let mut request = question.request(&names, json!(shown), &shell.locale);
    let countable = facets::wanted(&names);
    let offers_facets = !question.has_facets && !countable.is_empty();
    if question.has_facets {
        request.facets = countable;
    }
    let reader = page.reader(raw_index, &names);
    let media = media(page, raw_index, &names);
    let (groups, media) = tokio::join!(reader.groups(&request), media);
    let groups = groups?;
    let index = decode_segment(raw_index).into_owned();
    let highlights = match &question.words {
        Some(words) => highlight::highlights(page, raw_index, words, &groups.groups, &names).await,
        None => Highlights::new(),
    };
    let entries = EntryBuilder { shell, names: &names, back: back(&index, &question), highlights };
    let address = url::list(&index);
    let there = |query: url::QueryString| address.clone() + &query.suffix();
    let empty = match groups.groups.is_empty() {
        true => {
            filter_check::list(page, raw_index, &question, &names).await?;
            Some(nothing::empty_list(page, raw_index, &question, &names, &groups, &media, &there).await)
        }
        false => None,
    };
    let list = ListPage {
        shell,
        t,
        question: &question,
        sorts: ListSort::ALL.map(|sort| (sort.name(), sort.label(t), question.chosen_sort == Some(sort))),
        times: times(shell, &question, &there),
        notes: groups.notes.clone(),
        empty,
        has_medium: names.medium.is_some(),
        media,
        with_facets: offers_facets.then(|| there(ListParams { has_facets: true, ..question.clone() }.parameters())),
        facets: facets::sections(shell, &groups.facets, &question, &there),
        total: total(shell, &groups),
        took: shell.text(t.took, &[&format::number(groups.took)]),
        unstamped: match groups.unstamped {
            0 => None,
            1 => Some(shell.text(t.unstamped_one, &[])),
            many => Some(shell.text(t.unstamped_many, &[&format::number(many)])),
        },
        entries: groups.groups.iter().map(|g| entries.entry(g)).collect(),
        page_number: (question.page() > 1)
            .then(|| shell.text(t.page_number, &[&format::number(question.page() as u64)])),
        first: (question.page() > 2).then(|| there(question.parameters())),
        previous: question.previous().map(there),
        next: groups.next.as_deref().map(|next| there(question.next(next))),
        files: files::links(
            shell,
            &address,
            &index,
            &question.parameters(),
            question.cursor.as_deref().map(|cursor| ("cursor", cursor)),
        ),
        index,
        address: address.clone(),
    };
    Ok(response::page(StatusCode::OK, &list)?)
}

/// The links to times that end now.
fn times(
    shell: &Layout,
    question: &ListParams,
    there: &dyn Fn(url::QueryString) -> String,
) -> Vec<(&'static str, String, bool)> {
    let t = shell.t();
    let choices = std::iter::once((None, t.any_time)).chain(Within::ALL.map(|within| (Some(within), within.label(t))));
    let choices = choices.map(|(within, label)| {
        let other = ListParams { from: None, to: None, within, ..question.clone() };
        let is_current = question.within == within && (within.is_some() || !question.has_time());
        (label, there(other.parameters()), is_current)
    });
    choices.collect()
}

/// The link back from an article: index and parameters of the list.
fn back(index: &str, question: &ListParams) -> String {
    format!("{}{}", url::segment(index), question.here().suffix())
}

fn total(shell: &Layout, groups: &GroupsPage) -> Option<String> {
    let total = groups.total?;
    let t = shell.t();
    let text = match (total.relation, total.value) {
        (Relation::AtLeast, _) => t.groups_at_least,
        (Relation::About, _) => t.groups_about,
        (Relation::Equal, 1) => t.groups_one,
        (Relation::Equal, _) => t.groups_many,
    };
    Some(shell.text(text, &[&format::number(total.value)]))
}

/// The media with the most documents, for the filter; none if the cluster does not return them.
async fn media(page: &PageRequest<'_>, raw_index: &str, names: &ReaderFields) -> Vec<String> {
    let Some(field) = &names.medium else {
        return Vec::new();
    };
    let body = json!({
        "size": 0,
        "track_total_hits": false,
        "aggs": {"media": {"terms": {"field": field, "size": PROPOSED}}},
    });
    let path = format!("/{raw_index}/_search");
    let cluster = &page.state.cluster;
    let asked = cluster.ask_as(&page.headers, Method::POST, &path, Some(&body), ANSWER_BYTES);
    let Ok(answer) = asked.await else {
        return Vec::new();
    };
    let parsed: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let buckets = parsed.pointer("/aggregations/media/buckets");
    let buckets = buckets.and_then(Value::as_array);
    let name = |bucket: &Value| Some(bucket.get("key")?.as_str()?.to_owned());
    let mut media: Vec<String> = buckets.map(|buckets| buckets.iter().filter_map(name).collect()).unwrap_or_default();
    media.sort_unstable();
    media
}

/// Makes entries.
struct EntryBuilder<'a> {
    shell: &'a Layout,
    names: &'a ReaderFields,
    back: String,
    highlights: Highlights,
}

impl EntryBuilder<'_> {
    fn entry(&self, group: &GroupSummary) -> GroupEntry {
        let (shell, names, t) = (self.shell, self.names, self.shell.t());
        let representative = &group.representative;
        let source = &representative.source;
        let title = fields::text(source, names.title.as_deref());
        let name = (representative.index.clone(), representative.id.clone());
        let highlights = self.highlights.get(&name);
        let marked = highlights.and_then(|marked| highlight::marked(marked, names.text.iter()));
        let text = || {
            let texts = names.text.iter().flat_map(|text| fields::texts(source, text));
            texts.collect::<Vec<_>>().join("\n")
        };
        let snippet = highlight::snippet(&marked.unwrap_or_else(text), SNIPPET);
        let marked = highlights.and_then(|marked| highlight::marked(marked, names.title.iter()));
        let title = marked.or_else(|| title.map(str::to_owned));
        let title = match title {
            Some(title) => highlight::line(&title, TITLE),
            None if snippet.is_empty() => highlight::line(t.untitled, TITLE),
            None => highlight::snippet(&text(), 60),
        };
        let way_back = url::QueryString::default().with("back", Some(&self.back));
        let address = url::article(&representative.index, &representative.id) + &way_back.suffix();
        let count = |value: u64| format::number(value);
        let is_single = group.similar_count == 1;
        let matching = (group.matching_count < group.similar_count)
            .then(|| shell.text(t.matching, &[&count(group.matching_count)]));
        let media = media_of(shell, group.media.filter(|_| !is_single));
        let span = group.first.zip(group.last).filter(|_| !is_single);
        let span = span.map(|(first, last)| {
            let (first, last) = (format::date(first, &shell.locale), format::date(last, &shell.locale));
            match first == last {
                true => first,
                false => format!("{first} – {last}"),
            }
        });
        GroupEntry {
            root: group.root.to_string(),
            title_lang: highlight::lang_of(&title),
            snippet_lang: highlight::lang_of(&snippet),
            title,
            address,
            snippet,
            medium: fields::keyword(source, names.medium.as_deref()).map(str::to_owned),
            time: self.time(representative),
            is_single,
            similar: shell.similar(group.similar_count),
            matching,
            media,
            span,
        }
    }

    fn time(&self, representative: &Representative) -> Option<(String, String)> {
        let written = || fields::time(&representative.source, &self.names.time);
        let time = representative.time.or_else(written)?;
        let machine = crate::time::format_date(time);
        Some((format::time(time, &self.shell.locale), machine))
    }
}

/// The target of a link back, which must be a list of this page; with the place of a group in it.
pub(super) fn way_back(back: Option<&str>, otherwise: &str, root: Option<&str>) -> String {
    let place = root.map(|root| format!("#g{root}")).unwrap_or_default();
    list_of(back, otherwise) + &place
}

fn list_of(back: Option<&str>, otherwise: &str) -> String {
    let otherwise = || url::list(otherwise);
    let Some(back) = back else {
        return otherwise();
    };
    let (index, query) = back.split_once('?').unwrap_or((back, ""));
    let index = decode_segment(index);
    if index.is_empty() || index.starts_with('_') || index.contains('/') {
        return otherwise();
    }
    match ListParams::read(&url::QueryString::parse(Some(query))) {
        Ok(question) => url::list(&index) + &question.here().suffix(),
        Err(_) => otherwise(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_back_lead_to_lists_only() {
        let of = |back: &str| way_back(Some(back), "news-1", None);
        assert_eq!(of("news-*?q=a%26b&sort=most&evil=1"), "/_spinney/ui/news-*?q=a%26b&sort=most");
        for wrong in ["", "//evil.example", "https://evil.example/", "_x", "a/b", "?q=1"] {
            assert_eq!(of(wrong), "/_spinney/ui/news-1", "{wrong}");
        }
        assert_eq!(of("javascript:alert(1)"), "/_spinney/ui/javascript%3Aalert%281%29");
        assert_eq!(way_back(None, "a", Some("0123")), "/_spinney/ui/a#g0123");
    }
}
