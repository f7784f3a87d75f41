//! The background tasks of a process that serves, from their start to their end.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::background;
use super::warnings::warn_of_eviction;
use crate::clock;
use crate::cluster::operator::Operator;
use crate::config::ServeOptions;
use crate::counts::Running;
use crate::history::{self, HistorySample};
use crate::proxy::note_settled;
use crate::state::AppState;

/// Interval and batch size of removing expired nodes while there are no writes.
pub(super) const EXPIRY_TICK: Duration = Duration::from_millis(100);
const EXPIRY_BUDGET: usize = 2_000;

/// Ticks between two checks for forests at their memory limit.
const EVICTION_TICKS: u64 = 50;

/// The background tasks of a process that serves.
pub(crate) struct Tasks {
    of_routes: RouteTasks,
    /// It alone knows what it still has to search.
    searching: Option<JoinHandle<()>>,
    others: [JoinHandle<()>; 2],
}

/// The background tasks that know the routes as they were when these began. They may be ended at any moment: what they
/// were at, the next ones find.
struct RouteTasks {
    /// Those that send requests in spinney's own name.
    sending: Vec<JoinHandle<()>>,
    counting: Option<Running>,
    acknowledging: Option<JoinHandle<()>>,
}

impl Tasks {
    /// Starts those that are configured. `expiry_tick`: interval of removing expired nodes.
    pub(crate) fn start(
        state: &Arc<AppState>,
        config: &ServeOptions,
        service: &Operator,
        expiry_tick: Duration,
    ) -> Tasks {
        Tasks {
            of_routes: RouteTasks::start(state, config, service),
            searching: background::search_indeterminate(state, config, service),
            others: [tokio::spawn(expire(state.clone(), expiry_tick)), tokio::spawn(remember(state.clone()))],
        }
    }

    /// Begins those anew that know the routes.
    pub(super) async fn with_more_routes(&mut self, state: &Arc<AppState>, config: &ServeOptions, service: &Operator) {
        self.of_routes.end().await;
        self.of_routes = RouteTasks::start(state, config, service);
    }

    /// Aborts the tasks that send requests; requests already sent are in flight like all others.
    pub(crate) fn send_no_more(&self) {
        self.of_routes.sending.iter().chain(&self.searching).for_each(JoinHandle::abort);
    }

    /// Aborts all other tasks, once no write is in flight.
    pub(crate) async fn end(mut self) {
        self.others.iter().for_each(JoinHandle::abort);
        self.of_routes.end().await;
    }

    /// Ends all of them at once, as a kill does.
    pub(crate) fn kill(self) {
        self.send_no_more();
        self.of_routes.acknowledging.iter().chain(&self.others).for_each(JoinHandle::abort);
    }
}

impl RouteTasks {
    fn start(state: &Arc<AppState>, config: &ServeOptions, service: &Operator) -> RouteTasks {
        let sending = [
            background::sweep(state, config, service),
            background::restamp(state, config, service),
            background::keep_firsts(state, config, service),
        ];
        RouteTasks {
            sending: sending.into_iter().flatten().collect(),
            counting: background::count(state, config, service),
            acknowledging: background::acknowledge(state, config),
        }
    }

    async fn end(&mut self) {
        // Peers may now proceed: our in-flight writes are settled, or are waited for by the next.
        self.sending.iter().chain(&self.acknowledging).for_each(JoinHandle::abort);
        if let Some(counting) = self.counting.take() {
            counting.stop().await;
        }
    }
}

async fn expire(state: Arc<AppState>, tick: Duration) {
    let mut tick = tokio::time::interval(tick);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let (mut ticks, mut warned) = (0_u64, false);
    loop {
        tick.tick().await;
        ticks += 1;
        if !warned && ticks.is_multiple_of(EVICTION_TICKS) {
            warned = warn_of_eviction(&state).await;
        }
        let now = clock::now();
        if let Err(reason) = state.engine.forests().expire(now, EXPIRY_BUDGET).await {
            state.engine_failed(&reason);
        }
        match state.engine.forests().forget_unknown(now, EXPIRY_BUDGET).await {
            Ok(withdrawn) => {
                state.metrics.counters.nodes_withdrawn.inc_by(withdrawn);
            }
            Err(reason) => drop(state.engine_failed(&reason)),
        }
        note_settled(&state, state.engine.place_postponed(now, EXPIRY_BUDGET).await);
    }
}

/// Records the samples that the overview page plots.
async fn remember(state: Arc<AppState>) {
    let mut tick = tokio::time::interval(history::EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        tick.tick().await;
        let forests = state.engine.forests().stats().await.unwrap_or_default();
        let lag = state.counts.progress().map(|progress| progress.lag);
        let sample = HistorySample::of(clock::now(), &state.metrics.counters, &forests, lag);
        state.history.add(sample);
    }
}
