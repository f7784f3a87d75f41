//! Routes that are added while documents are served.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::catch_up;
use crate::cluster::operator::Operator;
use crate::config::ServeOptions;
use crate::engine::{self, Unavailable};
use crate::state::AppState;

/// Routes whose forests are open and that stamp nothing yet.
pub(crate) struct AddedRoutes {
    /// Number of the first.
    first: usize,
    opened: engine::AddedRoutes,
    service: Operator,
}

impl AddedRoutes {
    /// Opens the forests of the routes that `wanted` has from number `first` on. Blocks while stored ones are read.
    ///
    /// # Errors
    /// As at a start; nothing has changed.
    pub(crate) fn open(first: usize, state: &AppState, wanted: &ServeOptions) -> anyhow::Result<AddedRoutes> {
        let service = Operator::of_service(wanted)?;
        let opened = state.engine.open_routes(&wanted.routes)?;
        match Handle::current().block_on(opened.check_settings()) {
            Err(other @ Unavailable::Unsupported { .. }) => Err(other.into()),
            // As at a start.
            _ => Ok(AddedRoutes { first, opened, service }),
        }
    }

    /// Stamps their documents once the forests have caught up, or are at it for some time. Blocks meanwhile.
    ///
    /// # Errors
    /// When the routes cannot be recorded; nothing has changed.
    pub(crate) fn serve(self, state: &Arc<AppState>, wanted: &ServeOptions) -> anyhow::Result<()> {
        let AddedRoutes { first, opened, service } = self;
        state.engine.add_routes(opened)?;
        Handle::current().block_on(async {
            if let Err(reason) = state.engine.forests().limit_memory(wanted.forest_memory).await {
                state.engine_failed(&reason);
            }
            catch_up::begin(first, state, wanted, &service).await;
        });
        state.engine.serve_added();
        state.with_more_routes.send_replace(Some(Arc::new(wanted.clone())));
        Ok(())
    }
}
