//! The settings of an index's route, for readers.

use super::{Engine, Unavailable};
use crate::config::Route;
use crate::forest::{Root, TreeView};

/// The fields that readers go by, as the mapping names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderFields {
    /// The root as a signed number.
    pub key: String,
    /// The root as 16 hex digits.
    pub root: String,
    /// The documents' time.
    pub time: String,
    /// The field of the medium.
    pub medium: Option<String>,
    /// The fields of the text.
    pub text: Vec<String>,
    /// Their title.
    pub title: Option<String>,
    /// The address that they were published under.
    pub url: Option<String>,
}

/// A route as readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderRoute {
    /// The patterns of its indices.
    pub patterns: Vec<String>,
    /// The name of its forest.
    pub forest: String,
}

impl Engine {
    /// The fields of an index, of a pattern, or of the first of a list; the stamp's alone where no route has it.
    pub fn reader_fields(&self, index: &str) -> ReaderFields {
        let first = index.split(',').next().unwrap_or_default();
        let route: Option<&Route> = self.route(first).map(|at| &self.routes[at].route);
        let time = route.and_then(|route| route.time_field.clone());
        ReaderFields {
            key: self.names.key().to_owned(),
            root: self.names.root().to_owned(),
            time: time.unwrap_or_else(|| self.names.arrival().to_owned()),
            medium: route.and_then(|route| route.medium_field.clone()),
            text: route.map_or_else(Vec::new, |route| route.text_fields.clone()),
            title: route.and_then(|route| route.title_field.clone()),
            url: route.and_then(|route| route.url_field.clone()),
        }
    }

    /// The routes in their order.
    pub fn reader_routes(&self) -> Vec<ReaderRoute> {
        let routes = self.routes.iter().map(|bound| ReaderRoute {
            patterns: bound.route.patterns().map(str::to_owned).collect(),
            forest: bound.route.forest.clone(),
        });
        routes.collect()
    }

    /// The name of the forest of an index; none: no route stamps it.
    pub fn forest_of_index(&self, index: &str) -> Option<&str> {
        let bound = self.route(index).and_then(|at| self.routes.get(at))?;
        Some(&bound.route.forest)
    }

    /// Whether a route has this very name, and not only a pattern that it fits.
    pub fn is_named_literally(&self, name: &str) -> bool {
        let mut patterns = self.routes.iter().flat_map(|bound| bound.route.patterns());
        patterns.any(|pattern| pattern == name)
    }

    /// The tree of a root in the forest of an index, with the name of that forest; of two, the one of longer texts.
    ///
    /// # Errors
    /// When a forest cannot be asked any more.
    pub async fn tree(&self, index: &str, root: Root) -> Result<Option<(String, TreeView)>, Unavailable> {
        let Some(at) = self.route(index) else {
            return Ok(None);
        };
        let bound = &self.routes[at];
        for forest in std::iter::once(bound.forest).chain(bound.short) {
            let entry = &self.forests[forest];
            if let Some(view) = entry.port.tree(root).await? {
                return Ok(Some((entry.name.clone(), view)));
            }
        }
        Ok(None)
    }
}
