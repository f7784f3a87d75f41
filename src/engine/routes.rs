//! The routes: index patterns with their fields, method and forest.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::date_math;
use super::field_sample::MissingField;
use super::fields::FoundFields;
use super::first_documents::FirstDocuments;
use super::growing::Growing;
use super::open_forests::RouteForests;
use crate::bulk::{FieldNames, Selection, SelectionError, StampNames};
use crate::config::{Clock, Route};
use crate::method::Features;
use crate::time::Millis;

/// All routes in order: an index belongs to the first that matches it. Others may be added behind them.
pub struct Routes {
    pub(super) bound: Growing<BoundRoute>,
    /// So many of them are found; the others wait until their forests have caught up.
    serving: AtomicUsize,
    pub(super) names: StampNames,
}

/// A route with its forests and field selections.
pub(super) struct BoundRoute {
    pub(super) route: Route,
    pub(super) selection: Selection,
    /// Fields of a stored document, which takes its stamped root as its id.
    pub(super) stored: Selection,
    pub(super) found_fields: FoundFields,
    pub(super) first_documents: FirstDocuments,
    pub(super) forest: usize,
    /// Number of the forest of short texts, if the method separates them.
    pub(super) short: Option<usize>,
}

impl BoundRoute {
    /// Binds routes to `forests`, which are in the same order.
    pub(super) fn all(
        routes: &[Route],
        prefix: &str,
        forests: impl IntoIterator<Item = RouteForests>,
    ) -> Result<Vec<BoundRoute>, SelectionError> {
        routes.iter().zip(forests).map(|(route, forests)| BoundRoute::new(route, prefix, forests)).collect()
    }

    fn new(
        route: &Route,
        prefix: &str,
        RouteForests { forest, short }: RouteForests,
    ) -> Result<BoundRoute, SelectionError> {
        let text: Vec<&str> = route.text_fields.iter().map(String::as_str).collect();
        let clock = match &route.clock {
            Clock::Field(name) => Some(name.as_str()),
            Clock::Arrival | Clock::None => None,
        };
        let names = StampNames::new(prefix)?;
        let fields = FieldNames {
            text: &text,
            title: route.title_field.as_deref(),
            id: route.id_field.as_deref(),
            clock,
            url: route.url_field.as_deref(),
            own: route.method.own_field(),
        };
        let stored = FieldNames { id: Some(names.root()), clock: None, ..fields };
        Ok(BoundRoute {
            selection: Selection::new(&fields, prefix)?,
            stored: Selection::of_stored(&stored)?,
            found_fields: FoundFields::default(),
            first_documents: FirstDocuments::new(route, prefix),
            route: route.clone(),
            forest,
            short,
        })
    }

    /// Number of the forest of a document with these features.
    pub(super) fn forest_of(&self, features: Option<&Features>) -> usize {
        match features {
            Some(Features::Short(_)) => self.short.unwrap_or(self.forest),
            _ => self.forest,
        }
    }
}

impl Routes {
    /// Binds the routes to `forests`, which are in the same order.
    pub(super) fn new(
        routes: &[Route],
        prefix: &str,
        forests: impl IntoIterator<Item = RouteForests>,
    ) -> Result<Routes, SelectionError> {
        let bound: Growing<_> = BoundRoute::all(routes, prefix, forests)?.into_iter().collect();
        Ok(Routes { serving: bound.len().into(), bound, names: StampNames::new(prefix)? })
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty()
    }

    /// Whether documents of this index are stamped.
    pub fn has(&self, index: &str) -> bool {
        self.find(index).is_some()
    }

    /// Whether a route may match an index whose name fits this pattern.
    pub fn may_have(&self, pattern: &str) -> bool {
        self.bound.iter().any(|bound| bound.route.may_match(pattern))
    }

    /// Names of the stamp's fields.
    pub fn names(&self) -> &StampNames {
        &self.names
    }

    /// Prefix of the stamp's fields.
    pub fn prefix(&self) -> &str {
        self.names.prefix()
    }

    /// Name of the forest of an index; `None` if no route matches it.
    pub fn forest_of(&self, index: &str) -> Option<&str> {
        Some(&self.bound_of(index)?.route.forest)
    }

    /// Whether a route lists this name itself, not only a matching pattern.
    pub fn is_named_literally(&self, name: &str) -> bool {
        let mut patterns = self.bound.iter().flat_map(|bound| bound.route.patterns());
        patterns.any(|pattern| pattern == name)
    }

    /// Text fields, and those of `field:NAME`, that no document has had so far, in the order of the routes.
    pub fn fields_never_found(&self) -> Vec<&str> {
        self.bound.iter().flat_map(|bound| bound.found_fields.never_found(&bound.route)).collect()
    }

    /// Configured fields that none of the first documents had, in the order of the routes.
    pub fn missing_fields(&self) -> Vec<MissingField> {
        self.bound.iter().flat_map(|bound| bound.first_documents.missing()).collect()
    }

    /// Finds all routes from now on.
    pub(super) fn serve_all(&self) {
        self.serving.store(self.bound.len(), Release);
    }

    /// Number of the route of an index.
    pub(super) fn find(&self, index: &str) -> Option<usize> {
        let mut serving = self.bound.iter().take(self.serving.load(Acquire));
        serving.position(|bound| bound.route.matches(index))
    }

    /// As [`find`](Self::find), among those that wait as well.
    pub(super) fn find_stored(&self, index: &str) -> Option<usize> {
        self.bound.iter().position(|bound| bound.route.matches(index))
    }

    /// As [`find`](Self::find), for a name that may be date math.
    pub(super) fn find_at(&self, index: &str, now: Millis) -> Option<usize> {
        self.find(index).or_else(|| {
            let is_date = date_math::is_date_math(index);
            let meant = is_date.then(|| date_math::resolve(index, now));
            self.find(&meant??)
        })
    }

    /// The route of an index, with its forests.
    pub(super) fn bound_of(&self, index: &str) -> Option<&BoundRoute> {
        self.find(index).and_then(|at| self.bound.get(at))
    }
}
