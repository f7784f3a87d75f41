//! The articles of a group on the page of one of them: a filter, counts over all, a picture, a table.

use serde_json::{Value, json};

use super::bars::{self, Bars};
use super::document::IndexedDocument;
use super::error_page::ErrorPage;
use super::group::GroupFacts;
use super::layout::Layout;
use super::timeline::{Timeline, TimelineEvent, timeline};
use super::url::QueryString;
use super::{PageRequest, format, list_params, url};
use crate::engine::ReaderFields;
use crate::groups::MembersRequest;
use crate::groups::answer::{SimilarHit, SimilarPage};
use crate::groups::request::MAX_SIZE;
use crate::time::Millis;

/// A group with no more articles is seen at once, and has no filter.
const FEW: u64 = 20;

/// The filter inside a group, as it is in the URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MemberFilter {
    pub words: Option<String>,
    pub medium: Option<String>,
    /// An interval of time, with its end, in milliseconds.
    pub interval: Option<(i64, i64)>,
}

/// Parameters of the filter.
const PARAMETERS: [&str; 4] = ["in_q", "in_medium", "in_from", "in_to"];

/// The parameter with the cursor of a page of the table.
pub(super) const CURSOR: &str = "members";

/// Parameters of a page of the table.
const PAGING: [&str; 2] = [CURSOR, "before"];

/// The parameters of a group without the place in its table.
pub(super) fn unpaged(parameters: &QueryString) -> QueryString {
    parameters.without(&PAGING)
}

impl MemberFilter {
    pub(super) fn read(query: &QueryString) -> MemberFilter {
        let own = |name: &str| query.get(name).map(str::to_owned);
        let time = |name: &str| query.get(name).and_then(|time| time.parse().ok());
        MemberFilter { words: own("in_q"), medium: own("in_medium"), interval: time("in_from").zip(time("in_to")) }
    }

    pub(super) fn is_set(&self) -> bool {
        *self != MemberFilter::default()
    }

    /// The queries that articles have to match.
    pub(super) fn filters(&self, names: &ReaderFields) -> Vec<Value> {
        let words = self.words.as_deref().map(|words| list_params::words_query(words, names));
        let medium = list_params::value_query(self.medium.as_deref(), names.medium.as_deref());
        let interval = self
            .interval
            .map(|(from, to)| json!({"range": {(&names.time): {"gte": from, "lt": to, "format": "epoch_millis"}}}));
        words.into_iter().chain(medium).chain(interval).collect()
    }
}

/// A page of the articles of a group, with the one that the page is of.
pub(super) struct Members {
    pub similar: SimilarPage,
    /// Articles before those of this page.
    before: usize,
    /// Articles of this page.
    count: usize,
}

/// Reads a page of the articles that fit the filter. The article of the page is put among them at its time, if it is on
/// another page or does not fit.
///
/// # Errors
/// As [`IndexReader::root`](crate::groups::IndexReader::root).
pub(super) async fn members(
    page: &PageRequest<'_>,
    raw_index: &str,
    root: &str,
    found: &IndexedDocument,
    filter: &MemberFilter,
    names: &ReaderFields,
) -> Result<Members, ErrorPage> {
    let shown: Vec<&String> = names.title.iter().collect();
    let parameters = &page.shell.parameters;
    let cursor = parameters.get(CURSOR).map(str::to_owned);
    let before = parameters.get("before").filter(|_| cursor.is_some()).and_then(|before| before.parse().ok());
    let request = MembersRequest { size: MAX_SIZE, cursor, source: json!(shown), filters: filter.filters(names) };
    let reader = page.reader(raw_index, names);
    let mut similar = reader.root(root, &request).await?;
    let count = similar.hits.len();
    if !similar.hits.iter().any(|hit| found.is_at(&hit.index, &hit.id)) {
        let this = vec![json!({"term": {"_index": found.index}}), json!({"ids": {"values": [found.id]}})];
        let request = MembersRequest { size: 1, cursor: None, filters: this, ..request };
        let here = reader.root(root, &request).await?.hits.into_iter().next();
        if let Some(here) = here {
            let place = |hit: &SimilarHit| (hit.time.is_none(), hit.time);
            let at = similar.hits.partition_point(|hit| place(hit) <= place(&here));
            similar.hits.insert(at, here);
        }
    }
    Ok(Members { similar, before: before.unwrap_or_default(), count })
}

/// An article of the group.
pub(super) struct MemberRow {
    pub title: String,
    pub medium: Option<String>,
    pub time: Option<(String, String)>,
    pub similarity: Option<String>,
    pub address: String,
    pub is_here: bool,
    pub is_first: bool,
}

/// A medium, an interval or a language, and the articles or groups that it has.
pub(super) struct CountRow {
    pub name: String,
    pub count: String,
    /// The page with those alone.
    pub address: String,
    pub is_chosen: bool,
}

/// The articles of a group, as the page shows them.
pub(super) struct MemberSection {
    pub filter: MemberFilter,
    /// Whether the filter is offered.
    pub has_filter: bool,
    pub has_medium: bool,
    /// The page without the filter; also where its form leads.
    pub all: String,
    /// Hidden fields of the form.
    pub kept: Vec<(&'static str, String)>,
    /// The interval that is chosen.
    pub interval: Option<String>,
    /// What all articles are: number, media, time.
    pub lead: Option<String>,
    pub media: Vec<CountRow>,
    /// Says how many media are not counted one by one.
    pub other_media: Option<String>,
    pub bars: Option<Bars>,
    pub intervals: Vec<CountRow>,
    /// The dots, and what they are if they are not all.
    pub picture: Option<Timeline>,
    pub part: Option<String>,
    /// What the table shows.
    pub shown: String,
    pub rows: Vec<MemberRow>,
    pub first_page: Option<String>,
    pub next: Option<String>,
}

impl MemberSection {
    pub(super) fn new(
        shell: &Layout,
        members: &Members,
        facts: &GroupFacts,
        filter: MemberFilter,
        found: &IndexedDocument,
        names: &ReaderFields,
    ) -> MemberSection {
        let t = shell.t();
        let Members { similar, before, count } = members;
        let (number, address) = (format::number, url::article(&found.index, &found.id));
        let unpaged = unpaged(&shell.parameters);
        let unfiltered = unpaged.without(&PARAMETERS);
        let to = |query: &QueryString| address.clone() + &query.suffix() + "#others";
        let is_part = similar.next.is_some() || *before > 0 || filter.is_set();
        let (from, last) = ((before + 1) as u64, (before + count) as u64);
        let place = [number(from), number(last), number(similar.total)];
        let place = place.each_ref().map(String::as_str);
        let shown = match (*count, filter.is_set()) {
            (0, _) => t.members_none.to_owned(),
            (_, true) => shell.text(t.members_filtered, &place),
            (_, false) if is_part => shell.text(t.members_part, &place),
            _ => t.others_lead.to_owned(),
        };
        let is_large = facts.total > FEW;
        let with_medium = |medium: &str| to(&unpaged.with("in_medium", Some(medium)));
        let with_interval = |from: i64, end: i64| {
            to(&unpaged.with("in_from", Some(&from.to_string())).with("in_to", Some(&end.to_string())))
        };
        let largest = facts.largest_media.iter().filter(|_| is_large);
        let media: Vec<CountRow> = largest
            .map(|(medium, count)| CountRow {
                address: with_medium(medium),
                is_chosen: filter.medium.as_ref() == Some(medium),
                name: medium.clone(),
                count: number(*count),
            })
            .collect();
        let others = facts.media.saturating_sub(media.len() as u64);
        let other_media = (is_large && others > 0).then(|| match others {
            1 => t.spread_other.to_owned(),
            _ => shell.text(t.spread_others, &[&number(others)]),
        });
        let bars = Some(&facts.intervals).filter(|_| facts.total > MAX_SIZE as u64);
        let bars = bars.and_then(|intervals| bars::bars(intervals, &shell.locale));
        let intervals = bars.iter().flat_map(|bars| &bars.bars).map(|bar| CountRow {
            name: bar.begins.clone(),
            count: bar.count.clone(),
            address: with_interval(bar.from.0, bar.to.0),
            is_chosen: filter.interval == Some((bar.from.0, bar.to.0)),
        });
        MemberSection {
            has_filter: is_large || filter.is_set(),
            has_medium: names.medium.is_some(),
            interval: filter.interval.map(|(from, end)| {
                let time = |at| format::time(Millis(at), &shell.locale);
                format!("{} – {}", time(from), time(end))
            }),
            all: to(&unfiltered),
            kept: kept(&unfiltered, &filter),
            lead: lead(shell, facts),
            other_media,
            intervals: intervals.collect(),
            media,
            bars,
            picture: picture(shell, similar, found, names),
            part: is_part.then(|| shell.text(t.spread_part, &place)),
            shown,
            rows: similar.hits.iter().map(|hit| row(shell, hit, found, names)).collect(),
            first_page: (*before > 0).then(|| to(&unpaged)),
            next: similar
                .next
                .as_deref()
                .map(|next| to(&unpaged.with(CURSOR, Some(next)).with("before", Some(&last.to_string())))),
            filter,
        }
    }
}

/// The parameters that the form of the filter does not have itself.
fn kept(unfiltered: &QueryString, filter: &MemberFilter) -> Vec<(&'static str, String)> {
    let own = |name: &'static str| unfiltered.get(name).map(|value| (name, value.to_owned()));
    let interval = filter.interval.map(|(from, to)| [("in_from", from.to_string()), ("in_to", to.to_string())]);
    ["back", "view"].into_iter().filter_map(own).chain(interval.into_iter().flatten()).collect()
}

fn lead(shell: &Layout, facts: &GroupFacts) -> Option<String> {
    let t = shell.t();
    let (first, last) = facts.span?;
    if first == last {
        return Some(t.spread_one.to_owned());
    }
    let articles = format::number(facts.total);
    let within = format::span(last.0.saturating_sub(first.0), shell.locale.lang);
    Some(match media_of(shell, Some(facts.media)) {
        Some(media) => shell.text(t.spread_lead, &[&articles, &media, &within]),
        None => shell.text(t.spread_lead_bare, &[&articles, &within]),
    })
}

/// A number of media as text; `None` if there are none.
pub(super) fn media_of(shell: &Layout, media: Option<u64>) -> Option<String> {
    let t = shell.t();
    match media? {
        0 => None,
        1 => Some(shell.text(t.media_one, &["1"])),
        media => Some(shell.text(t.media_many, &[&format::number(media)])),
    }
}

/// The dots of the articles of this page.
fn picture(shell: &Layout, similar: &SimilarPage, found: &IndexedDocument, names: &ReaderFields) -> Option<Timeline> {
    let timed = similar.hits.iter().filter_map(|hit| Some((hit.time?, hit)));
    let unknown = || shell.t().unknown_medium.to_owned();
    let events: Vec<TimelineEvent> = timed
        .map(|(time, hit)| TimelineEvent {
            time,
            medium: hit.medium.clone().unwrap_or_else(unknown),
            title: shell.title(&hit.source, names),
            is_here: found.is_at(&hit.index, &hit.id),
            is_first: hit.is_representative,
        })
        .collect();
    timeline(&events, &shell.locale)
}

fn row(shell: &Layout, hit: &SimilarHit, found: &IndexedDocument, names: &ReaderFields) -> MemberRow {
    let back = QueryString::default().with("back", shell.parameters.get("back"));
    MemberRow {
        title: shell.title(&hit.source, names),
        medium: hit.medium.clone(),
        time: hit.time.map(|time| shell.time(time)),
        similarity: hit.similarity.map(|ratio| format::percent(f64::from(ratio))),
        address: url::article(&hit.index, &hit.id) + &back.suffix(),
        is_here: found.is_at(&hit.index, &hit.id),
        is_first: hit.is_representative,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_what_the_address_says() {
        let read = |query: &str| MemberFilter::read(&QueryString::parse(Some(query)));
        assert!(!read("back=x&members=c&in_from=1").is_set());
        let all = read("in_q=a+b&in_medium=%3Cx%3E&in_from=-5&in_to=7");
        assert_eq!(
            (all.words.as_deref(), all.medium.as_deref(), all.interval),
            (Some("a b"), Some("<x>"), Some((-5, 7)))
        );
        assert!(!read("in_from=x&in_to=7").is_set());
    }
}
