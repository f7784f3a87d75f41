//! Parameters of a list in its URL.

use serde_json::{Value, json};

use super::format::Locale;
use super::lang::Texts;
use super::url::QueryString;
use crate::config::RepresentativeBy;
use crate::engine::ReaderFields;
use crate::groups::request::{Direction, match_all};
use crate::groups::{GroupsRequest, SortBy};
use crate::time::parse_date;

/// Pages before this one whose places the URL keeps; links back to more of them would make it too long.
const KEPT_PAGES: usize = 24;

/// Between two places of the trail; no cursor has it in it.
const STEP: char = '.';

/// The parameter that asks for facets.
const FACETS: (&str, &str) = ("facets", "shown");

/// The first page, in a trail.
const START: &str = "-";

/// How a list is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListSort {
    Relevance,
    Newest,
    Most,
    Fewest,
}

impl ListSort {
    pub(super) const ALL: [ListSort; 4] = [ListSort::Relevance, ListSort::Newest, ListSort::Most, ListSort::Fewest];

    fn of(name: &str) -> Option<ListSort> {
        ListSort::ALL.into_iter().find(|sort| sort.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            ListSort::Relevance => "relevance",
            ListSort::Newest => "newest",
            ListSort::Most => "most",
            ListSort::Fewest => "fewest",
        }
    }

    pub(super) fn label(self, t: &Texts) -> &'static str {
        match self {
            ListSort::Relevance => t.relevance,
            ListSort::Newest => t.newest,
            ListSort::Most => t.most,
            ListSort::Fewest => t.fewest,
        }
    }
}

/// A time that ends now, instead of two dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    Day,
    Week,
    Month,
}

impl Within {
    pub(super) const ALL: [Within; 3] = [Within::Day, Within::Week, Within::Month];

    fn of(name: &str) -> Option<Within> {
        Within::ALL.into_iter().find(|within| within.name() == name)
    }

    /// Its length in the cluster's language.
    pub(super) fn name(self) -> &'static str {
        match self {
            Within::Day => "24h",
            Within::Week => "7d",
            Within::Month => "30d",
        }
    }

    pub(super) fn label(self, t: &Texts) -> &'static str {
        match self {
            Within::Day => t.within_day,
            Within::Week => t.within_week,
            Within::Month => t.within_month,
        }
    }
}

/// The parameters of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ListParams {
    pub words: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
    pub medium: Option<String>,
    pub language: Option<String>,
    /// Whether its groups are counted by medium and language, which takes longer than the list.
    pub has_facets: bool,
    /// Only without dates.
    pub within: Option<Within>,
    /// How the reader wants it sorted; `None`: by [`ListParams::sort`].
    pub chosen_sort: Option<ListSort>,
    pub cursor: Option<String>,
    /// Where the pages before this one began, first page first.
    pub trail: Vec<String>,
    /// Number of pages before those of the trail.
    pub skipped: usize,
}

impl ListParams {
    /// Reads the parameters of a list.
    ///
    /// # Errors
    /// Name and value of a date that is none.
    pub(super) fn read(query: &QueryString) -> Result<ListParams, (&'static str, String)> {
        let own = |name: &str| query.get(name).map(str::to_owned);
        let date = |name: &'static str| match query.get(name) {
            Some(date) if !is_date(date) => Err((name, date.to_owned())),
            date => Ok(date.map(str::to_owned)),
        };
        let (from, to) = (date("from")?, date("to")?);
        let within = query.get("within").and_then(Within::of);
        let cursor = own("cursor");
        let trail = query.get("trail").filter(|_| cursor.is_some());
        let trail: Vec<String> = trail.map(|trail| trail.split(STEP).map(str::to_owned).collect()).unwrap_or_default();
        let skipped = query.get("skipped").and_then(|skipped| skipped.parse().ok());
        Ok(ListParams {
            words: own("q"),
            within: within.filter(|_| from.is_none() && to.is_none()),
            from,
            to,
            medium: own("medium"),
            language: own("language"),
            has_facets: query.get(FACETS.0) == Some(FACETS.1),
            chosen_sort: query.get("sort").and_then(ListSort::of),
            skipped: skipped.filter(|_| cursor.is_some()).unwrap_or_default(),
            cursor,
            trail,
        })
    }

    /// The sort: without a choice, by relevance if there are words, else the largest groups first.
    pub(super) fn sort(&self) -> ListSort {
        let default = if self.words.is_some() { ListSort::Relevance } else { ListSort::Most };
        self.chosen_sort.unwrap_or(default)
    }

    /// Whether it has a time.
    pub(super) fn has_time(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.within.is_some()
    }

    /// Whether the list has a query or filter.
    pub(super) fn is_narrowed(&self) -> bool {
        self.words.is_some() || self.is_filtered()
    }

    /// Whether the list has a filter besides query words.
    pub(super) fn is_filtered(&self) -> bool {
        self.has_time() || self.medium.is_some() || self.language.is_some()
    }

    /// The number of the page, from 1.
    pub(super) fn page(&self) -> usize {
        1 + self.skipped.saturating_add(self.trail.len())
    }

    /// The request for groups. `source`: fields of the representatives.
    pub(super) fn request(&self, fields: &ReaderFields, source: Value, locale: &Locale) -> GroupsRequest {
        let (sort, direction) = match self.sort() {
            ListSort::Relevance => (SortBy::Field("_score".into()), Direction::Descending),
            ListSort::Newest => (SortBy::Field(fields.time.clone()), Direction::Descending),
            ListSort::Most => (SortBy::SimilarCount, Direction::Descending),
            ListSort::Fewest => (SortBy::SimilarCount, Direction::Ascending),
        };
        let by_sort = match self.sort() {
            ListSort::Relevance => RepresentativeBy::Relevance,
            ListSort::Newest => RepresentativeBy::Newest,
            ListSort::Most | ListSort::Fewest => RepresentativeBy::Oldest,
        };
        GroupsRequest {
            query: self.query(fields, locale).into(),
            sort,
            direction,
            cursor: self.cursor.clone(),
            representative: fields.representative.clone().unwrap_or(by_sort),
            source,
            ..GroupsRequest::default()
        }
    }

    /// The query in the cluster's language. Dates are days of the reader's zone.
    pub(super) fn query(&self, fields: &ReaderFields, locale: &Locale) -> Value {
        if !self.is_narrowed() {
            return match_all();
        }
        let words = self.words.as_ref().map(|words| words_query(words, fields));
        let mut filters = Vec::new();
        if self.has_time() {
            let mut range = json!({"format": "epoch_millis"});
            let bounds = |date: &Option<String>| locale.day_bounds(date.as_deref()?);
            if let Some((begin, _)) = bounds(&self.from) {
                range["gte"] = begin.0.into();
            }
            if let Some((_, end)) = bounds(&self.to) {
                // The whole of that day.
                range["lt"] = end.0.into();
            }
            if let Some(within) = self.within {
                range["gte"] = format!("now-{}", within.name()).into();
            }
            filters.push(json!({"range": {(&fields.time): range}}));
        }
        filters.extend(value_query(self.medium.as_deref(), fields.medium.as_deref()));
        filters.extend(value_query(self.language.as_deref(), fields.language.as_deref()));
        let must = words.unwrap_or_else(match_all);
        json!({"bool": {"must": [must], "filter": filters}})
    }

    /// The parameters of this list without its place.
    pub(super) fn parameters(&self) -> QueryString {
        QueryString::default()
            .with("q", self.words.as_deref())
            .with("from", self.from.as_deref())
            .with("to", self.to.as_deref())
            .with("within", self.within.map(Within::name))
            .with("medium", self.medium.as_deref())
            .with("language", self.language.as_deref())
            .with(FACETS.0, self.has_facets.then_some(FACETS.1))
            .with("sort", self.chosen_sort.map(ListSort::name))
    }

    /// The parameters of this very page.
    pub(super) fn here(&self) -> QueryString {
        self.at(self.cursor.as_deref(), &self.trail, self.skipped)
    }

    /// The parameters of the next page.
    pub(super) fn next(&self, cursor: &str) -> QueryString {
        let mut trail = self.trail.clone();
        trail.push(self.cursor.clone().unwrap_or_else(|| START.into()));
        let skipped = trail.len().saturating_sub(KEPT_PAGES);
        let kept = trail.split_off(skipped);
        self.at(Some(cursor), &kept, self.skipped.saturating_add(skipped))
    }

    /// The parameters of the previous page, if the URL has them.
    pub(super) fn previous(&self) -> Option<QueryString> {
        let (last, before) = self.trail.split_last()?;
        let cursor = Some(last.as_str()).filter(|&last| last != START);
        Some(self.at(cursor, before, self.skipped))
    }

    fn at(&self, cursor: Option<&str>, trail: &[String], skipped: usize) -> QueryString {
        let joined = trail.join(&STEP.to_string());
        let skipped = (skipped > 0).then(|| skipped.to_string());
        self.parameters()
            .with("cursor", cursor)
            .with("trail", Some(joined.as_str()).filter(|_| cursor.is_some()))
            .with("skipped", skipped.as_deref().filter(|_| cursor.is_some()))
    }
}

/// The query for words that a reader typed.
pub(super) fn words_query(words: &str, fields: &ReaderFields) -> Value {
    let mut searched: Vec<String> = fields.text.clone();
    // A match in the headline weighs more than one in the text.
    searched.extend(fields.title.iter().map(|title| format!("{title}^2")));
    let mut query = json!({"query": words, "default_operator": "and"});
    if !searched.is_empty() {
        query["fields"] = json!(searched);
    }
    json!({"simple_query_string": query})
}

/// The query for a value of a field, where one is asked for and documents have such a field.
pub(super) fn value_query(value: Option<&str>, field: Option<&str>) -> Option<Value> {
    let (value, field) = value.zip(field)?;
    Some(json!({"term": {(field): value}}))
}

/// Whether a text is a date as browsers send it: `2026-11-21`.
fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(at, c)| match at {
            4 | 7 => c == b'-',
            _ => c.is_ascii_digit(),
        });
    shape && parse_date(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::super::fields;
    use super::*;

    fn read(query: &str) -> ListParams {
        ListParams::read(&QueryString::parse(Some(query))).unwrap()
    }

    fn utc() -> Locale {
        Locale { lang: crate::ui::lang::Lang::English, zone: jiff::tz::TimeZone::UTC }
    }

    #[test]
    fn defaults() {
        let all = read("");
        assert_eq!(all.sort(), ListSort::Most);
        assert_eq!(all.page(), 1);
        assert!(all.request(&fields::sample(), Value::Null, &utc()).is_whole_index());
        assert_eq!(read("q=x").sort(), ListSort::Relevance);
        assert_eq!(read("q=x&sort=fewest").sort(), ListSort::Fewest);
        assert_eq!(read("sort=evil").sort(), ListSort::Most);
        // What nobody chose is not in the address: words that are typed next are sorted by relevance.
        assert_eq!(read("q=x").parameters().suffix(), "?q=x");
        assert_eq!(read("q=x&sort=").sort(), ListSort::Relevance);
    }

    #[test]
    fn a_time_that_ends_now_or_dates() {
        let now = |query: &str| read(query).request(&fields::sample(), Value::Null, &utc()).query.to_string();
        assert!(now("within=7d").contains(r#""gte":"now-7d""#));
        assert!(!now("within=7d&from=2026-01-02").contains("now-"));
        assert_eq!(read("within=24h&sort=newest").parameters().suffix(), "?within=24h&sort=newest");
        assert!(!read("within=evil").is_narrowed());
    }

    #[test]
    fn the_query_of_all_filters() {
        let asked = read("q=a+b&from=2026-01-02&to=2026-01-03&medium=%3Cx%3E&language=zh");
        let query = asked.request(&fields::sample(), Value::Null, &utc()).query;
        let expected = json!({"bool": {
            "must": [{"simple_query_string": {
                "query": "a b", "default_operator": "and", "fields": ["content", "title^2"],
            }}],
            "filter": [
                {"range": {"published": {
                    "format": "epoch_millis", "gte": 1_767_312_000_000_i64, "lt": 1_767_484_800_000_i64,
                }}},
                {"term": {"media": "<x>"}},
                {"term": {"lang": "zh"}},
            ],
        }});
        assert_eq!(query, expected.into());
    }

    #[test]
    fn dates() {
        for wrong in ["2026-1-2", "yesterday", "2026-13-01", "1795251000", "2026-01-01||/y"] {
            let query = QueryString::default().with("to", Some(wrong));
            assert_eq!(ListParams::read(&query), Err(("to", wrong.to_owned())));
        }
    }

    #[test]
    fn pages_forth_and_back() {
        let mut page = read("q=x&sort=newest");
        let mut seen = vec![page.clone()];
        for at in 0..40 {
            let next = page.next(&format!("c{at}"));
            page = ListParams::read(&QueryString::parse(Some(&next.text()))).unwrap();
            assert_eq!(page.page(), at + 2);
            seen.push(page.clone());
        }
        let mut steps = 0;
        while let Some(previous) = page.previous() {
            page = ListParams::read(&QueryString::parse(Some(&previous.text()))).unwrap();
            steps += 1;
            let then = &seen[40 - steps];
            assert_eq!((&page.cursor, page.page()), (&then.cursor, then.page()));
        }
        assert_eq!(steps, KEPT_PAGES);
        // Near enough to the start, back to the first page.
        let second = read(&read("").next("c").text());
        let first = read(&second.previous().unwrap().text());
        assert_eq!((first.cursor, first.trail.len()), (None, 0));
    }
}
