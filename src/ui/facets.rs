//! Media and languages under a query, each with its number of groups.

use super::format;
use super::layout::Layout;
use super::list_params::ListParams;
use super::member_list::CountRow;
use super::url::QueryString;
use crate::engine::ReaderFields;
use crate::groups::answer::{Facet, Relation};
use crate::groups::facet_request::{FacetBy, FacetRequest};

/// Values that a facet shows.
const VALUES: usize = 12;

const MEDIUM: &str = "medium";
const LANGUAGE: &str = "language";

/// The values of a field.
pub(super) struct FacetSection {
    pub title: &'static str,
    pub rows: Vec<CountRow>,
    /// The list without a filter by this field, if it has one.
    pub all: Option<String>,
}

/// The facets that a list can ask for.
pub(super) fn wanted(names: &ReaderFields) -> Vec<FacetRequest> {
    let fields = [(MEDIUM, &names.medium), (LANGUAGE, &names.language)];
    let wanted = fields.into_iter().filter_map(|(name, field)| {
        let field = field.clone()?;
        Some(FacetRequest { name: name.to_owned(), field, by: FacetBy::Values(VALUES) })
    });
    wanted.collect()
}

/// The facets of a list; those with a single value have nothing to choose.
pub(super) fn sections(
    shell: &Layout,
    facets: &[Facet],
    question: &ListParams,
    there: &dyn Fn(QueryString) -> String,
) -> Vec<FacetSection> {
    let sections = facets.iter().filter_map(|facet| {
        let is_medium = facet.name == MEDIUM;
        let t = shell.t();
        let (title, chosen) = match is_medium {
            true => (t.stories_by_medium, &question.medium),
            false => (t.stories_by_language, &question.language),
        };
        let with = |value: Option<&str>| {
            let value = value.map(str::to_owned);
            let first = ListParams { cursor: None, ..question.clone() };
            let other = match is_medium {
                true => ListParams { medium: value, ..first },
                false => ListParams { language: value, ..first },
            };
            there(other.parameters())
        };
        let rows = facet.buckets.iter().filter_map(|bucket| {
            let name = bucket.key.as_str()?;
            let about = if facet.relation == Relation::Equal { "" } else { "≈ " };
            Some(CountRow {
                name: name.to_owned(),
                count: format!("{about}{}", format::number(bucket.groups)),
                address: with(Some(name)),
                is_chosen: chosen.as_deref() == Some(name),
            })
        });
        let rows: Vec<CountRow> = rows.collect();
        (rows.len() > 1 || chosen.is_some()).then(|| FacetSection {
            title,
            rows,
            all: chosen.as_ref().map(|_| with(None)),
        })
    });
    sections.collect()
}
