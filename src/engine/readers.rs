//! The settings of an index's route, for readers.

use super::routes::Routes;
use crate::config::{RepresentativeBy, Route};

/// The fields that readers go by, as the mapping names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderFields {
    /// The root as a signed number.
    pub key: String,
    /// The root as 16 hex digits.
    pub root: String,
    /// Whether a document is the first of its group.
    pub first: String,
    /// The documents' time.
    pub time: String,
    /// The field of the medium.
    pub medium: Option<String>,
    /// The field of the language.
    pub language: Option<String>,
    /// The fields of the text.
    pub text: Vec<String>,
    /// Their title.
    pub title: Option<String>,
    /// The address that they were published under.
    pub url: Option<String>,
    /// The document that stands for its group, if the route says it.
    pub representative: Option<RepresentativeBy>,
    /// Whether they are those of a route.
    pub has_route: bool,
}

/// A route as readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderRoute {
    /// The patterns of its indices.
    pub patterns: Vec<String>,
    /// The name of its forest.
    pub forest: String,
}

impl Routes {
    /// The fields of an index, of a pattern, or of the first of a list; only the stamp's without a route.
    pub fn reader_fields(&self, index: &str) -> ReaderFields {
        let first = index.split(',').next().unwrap_or_default();
        let route: Option<&Route> = self.bound_of(first).map(|bound| &bound.route);
        let time = route.and_then(|route| route.time_field.clone());
        ReaderFields {
            key: self.names.key().to_owned(),
            root: self.names.root().to_owned(),
            first: self.names.first().to_owned(),
            time: time.unwrap_or_else(|| self.names.arrival().to_owned()),
            medium: route.and_then(|route| route.medium_field.clone()),
            language: route.and_then(|route| route.language_field.clone()),
            text: route.map_or_else(Vec::new, |route| route.text_fields.clone()),
            title: route.and_then(|route| route.title_field.clone()),
            url: route.and_then(|route| route.url_field.clone()),
            representative: route.and_then(|route| route.representative.clone()),
            has_route: route.is_some(),
        }
    }

    /// The first of some indices, if all of them belong to its route.
    pub fn first_of_one_route<'i>(&self, indices: &'i [String]) -> Option<&'i str> {
        let first = indices.first()?;
        let route = self.find(first)?;
        indices.iter().all(|index| self.find(index) == Some(route)).then_some(first)
    }

    /// The routes in their order.
    pub fn reader_routes(&self) -> Vec<ReaderRoute> {
        let routes = self.bound.iter().map(|bound| ReaderRoute {
            patterns: bound.route.patterns().map(str::to_owned).collect(),
            forest: bound.route.forest.clone(),
        });
        routes.collect()
    }
}
