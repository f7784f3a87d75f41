//! Whether the fields that an empty list or group is filtered by are mapped for it.
//!
//! A filter by a text, or by a date that is a keyword, is no error to the servers: it finds nothing. To count by the
//! field is one.

use serde_json::{Value, json};

use super::PageRequest;
use super::error_page::ErrorPage;
use super::list_params::ListParams;
use super::member_list::MemberFilter;
use crate::engine::ReaderFields;
use crate::forest::Root;
use crate::groups::answer::key;
use crate::groups::facet_request::{FacetBy, FacetRequest};
use crate::groups::request::TotalWanted;
use crate::groups::{GroupsRequest, SortBy};

/// Checks the filters of a list without entries.
///
/// # Errors
/// The cluster's, about the field of a filter.
pub(super) async fn list(
    page: &PageRequest<'_>,
    raw_index: &str,
    question: &ListParams,
    names: &ReaderFields,
) -> Result<(), ErrorPage> {
    let fields = FilteredFields {
        time: question.has_time(),
        medium: question.medium.is_some(),
        language: question.language.is_some(),
    };
    check(page, raw_index, question.query(names, &page.shell.locale), &fields, names).await
}

/// As [`list`], of a group without articles.
///
/// # Errors
/// As [`list`].
pub(super) async fn group(
    page: &PageRequest<'_>,
    raw_index: &str,
    root: Root,
    filter: &MemberFilter,
    names: &ReaderFields,
) -> Result<(), ErrorPage> {
    let fields = FilteredFields { time: filter.interval.is_some(), medium: filter.medium.is_some(), language: false };
    let mut filters = filter.filters(names);
    filters.push(json!({"term": {(&names.key): key(root)}}));
    check(page, raw_index, json!({"bool": {"filter": filters}}), &fields, names).await
}

/// The fields that something is filtered by.
struct FilteredFields {
    time: bool,
    medium: bool,
    language: bool,
}

impl FilteredFields {
    /// Facets that count by these fields.
    fn facets(&self, names: &ReaderFields) -> Vec<FacetRequest> {
        let year = FacetBy::Times { kind: "calendar_interval", interval: "year".into(), time_zone: None };
        let fields = [
            (self.time, Some(&names.time), year),
            (self.medium, names.medium.as_ref(), FacetBy::Values(1)),
            (self.language, names.language.as_ref(), FacetBy::Values(1)),
        ];
        let fields = fields.into_iter().filter(|(is_filtered, ..)| *is_filtered);
        let facets = fields.filter_map(|(_, field, by)| {
            let field = field?.clone();
            Some(FacetRequest { name: field.clone(), field, by })
        });
        facets.collect()
    }
}

async fn check(
    page: &PageRequest<'_>,
    raw_index: &str,
    query: Value,
    fields: &FilteredFields,
    names: &ReaderFields,
) -> Result<(), ErrorPage> {
    let facets = fields.facets(names);
    if facets.is_empty() {
        return Ok(());
    }
    let request = GroupsRequest {
        query: query.into(),
        sort: SortBy::MatchingCount,
        size: 1,
        source: Value::Bool(false),
        total: TotalWanted::No,
        facets,
        ..GroupsRequest::default()
    };
    let reader = page.reader(raw_index, names);
    // On the heap: a list has asked for groups already, and would have room for both.
    Box::pin(reader.groups(&request)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fields;
    use super::*;

    #[test]
    fn what_is_filtered_is_counted() {
        let of = |time: bool, medium: bool, language: bool| {
            let facets = FilteredFields { time, medium, language }.facets(&fields::sample());
            facets.into_iter().map(|facet| facet.field).collect::<Vec<_>>()
        };
        assert_eq!(of(true, true, true), ["published", "media", "lang"]);
        assert_eq!(of(false, true, false), ["media"]);
        assert!(of(false, false, false).is_empty());
        let without = ReaderFields { medium: None, ..fields::sample() };
        assert!(FilteredFields { time: false, medium: true, language: false }.facets(&without).is_empty());
    }
}
