//! Errors of requests in the counters and the log.

use tracing::{debug, warn};

use crate::http::ProxyError;
use crate::state::AppState;

/// Counts and logs an error.
pub(super) fn record(state: &AppState, error: &ProxyError) {
    use ProxyError as E;
    let counters = &state.metrics.counters;
    match error {
        E::OverBudget { .. } | E::OverShare { .. } | E::LargerThanBudget { .. } | E::LargerThanShare { .. } => {
            counters.refused_over_budget.inc();
        }
        E::BodyTimeout(_) | E::BodyTooSlow { .. } | E::BodyTooLong(_) => {
            counters.bodies_too_slow.inc();
        }
        E::TooManyConnections => {
            counters.connections_refused.inc();
        }
        E::Stopping => {
            counters.refused_stopping.inc();
        }
        E::Unreachable(_) | E::NotAdmitted(_) => {
            counters.upstream_unreachable.inc();
        }
        E::Broken(_) => {
            counters.upstream_broken.inc();
        }
        E::UpstreamTimeout(_) => {
            counters.upstream_timed_out.inc();
        }
        _ => {}
    }
    match error {
        // Errors of clients, and those of every shutdown.
        E::NoEndpoint(_)
        | E::NotAdmin(_)
        | E::NotReloaded(_)
        | E::OnlyAdmin
        | E::GetOnly
        | E::GetOrPostOnly
        | E::PostOnly
        | E::NoTunnel
        | E::LongBody(_)
        | E::NotOneIndex(_)
        | E::NoRoute(_)
        | E::UnsupportedBody
        | E::BadDocument(_)
        | E::BadRequest(_)
        | E::NotFound(_)
        | E::NotForReaders(_)
        | E::NotShown(_)
        | E::NoCredentials
        | E::NoOverrides
        | E::OtherSite(_)
        | E::NotSignable(_)
        | E::Stopping => debug!(reason = %error, "refused"),
        // Logged once, where it was found.
        E::ForestUnavailable { .. } | E::Internal => debug!(reason = %error, "failed"),
        _ => warn!(reason = %error, "refused"),
    }
}
