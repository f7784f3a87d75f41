//! Routes that are added to an engine that stamps.

use super::forests::{ForestEntry, check_settings};
use super::routes::BoundRoute;
use super::{Engine, EngineError, Unavailable, warm_up};
use crate::config::Route;

/// Routes whose forests are open and that stamp nothing yet.
pub(crate) struct AddedRoutes {
    entries: Vec<ForestEntry>,
    bound: Vec<BoundRoute>,
}

impl AddedRoutes {
    /// As [`Forests::check_settings`](super::Forests::check_settings).
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn check_settings(&self) -> Result<(), Unavailable> {
        check_settings(self.entries.iter()).await
    }
}

impl Engine {
    /// Opens the forests of further routes: `routes` begins with those that are there. Blocks while stored forests are
    /// read.
    ///
    /// # Errors
    /// As [`stored`](Engine::stored): then nothing has changed.
    pub(crate) fn open_routes(&self, routes: &[Route]) -> Result<AddedRoutes, EngineError> {
        let (first, open) = (self.routes().bound.len(), self.forests.entries.len());
        let (entries, found) = self.opener.open(routes, first, open)?;
        let new = routes.get(first..).unwrap_or_default();
        let bound = BoundRoute::all(new, self.routes().prefix(), found)?;
        warm_up(new);
        Ok(AddedRoutes { entries, bound })
    }

    /// Adds these routes. Their documents are stamped from [`serve_added`](Self::serve_added) on. For a single caller
    /// at a time.
    ///
    /// # Errors
    /// When what their texts are read from cannot be recorded: then nothing has changed.
    pub(crate) fn add_routes(&self, AddedRoutes { entries, bound }: AddedRoutes) -> Result<(), EngineError> {
        self.opener.record_fields(&entries)?;
        // A route has the numbers of its forests.
        self.forests.entries.extend(entries);
        self.reader.routes.bound.extend(bound);
        Ok(())
    }

    /// Stamps the documents of added routes from now on.
    pub(crate) fn serve_added(&self) {
        self.reader.routes.serve_all();
    }
}
