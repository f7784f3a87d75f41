//! A process without sockets, for the development crate `simulation`, which starts and ends many in one thread. No
//! promise is made about it from one release to the next.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::rt::{Read, Write};
use parking_lot::Mutex;
use serde_json::Value;

use crate::cluster::operator::Operator;
use crate::config::ServeOptions;
use crate::engine::{CheckError, Checked, Engine, EngineError, PortStorage};
use crate::forest::local::Executor;
use crate::http::ClientAddress;
use crate::server::{Purpose, Tasks, begin_catching_up, serve_connection};
use crate::state::{AppState, StateError};
use crate::time::Millis;

/// The mappings of the stamp's fields, as the component template has them.
pub const STAMP_TEMPLATE: &str = crate::backfill::mapping::COMPONENT;
/// The template of the indices that sizes of groups are counted into.
pub const COUNT_TEMPLATE: &str = crate::counts::TEMPLATE;

/// The index that the sizes of an index's groups are counted into.
pub fn roots_index(index: &str) -> String {
    crate::cluster::roots::roots_index(index)
}

/// The arrival that a shared forest records for a document of a claimed date.
pub fn arrival_at(now: Millis, claimed: Millis) -> Millis {
    crate::redis::arrival_at(now, claimed)
}

/// The time that this thread's process believes.
pub fn now() -> Millis {
    crate::clock::now()
}

/// A clock that doubts jumps.
#[derive(Debug)]
pub struct Clock(Mutex<crate::clock::Clock>);

impl Default for Clock {
    fn default() -> Clock {
        Clock(Mutex::new(crate::clock::Clock::new(u64::MAX)))
    }
}

impl Clock {
    /// The time that is to be believed, at an instant when the system's clock shows `system`.
    pub fn read(&self, at: std::time::Instant, system: Millis) -> Millis {
        self.0.lock().read(at, system)
    }
}

/// A process that serves whoever brings a connection.
pub struct Process {
    state: Arc<AppState>,
    service: Operator,
    tasks: Mutex<Option<Tasks>>,
}

impl Process {
    /// Starts as `spinney serve` does: catches up with the index, and begins its background tasks. `expiry`: how often
    /// expired nodes are removed.
    ///
    /// # Errors
    /// Those of the engine.
    ///
    /// # Panics
    /// If the service's nodes cannot be used.
    #[expect(clippy::unwrap_used, reason = "the simulation names nodes that can be used")]
    pub async fn start(
        config: &ServeOptions,
        executor: &Arc<dyn Executor>,
        kept: &PortStorage,
        expiry: Duration,
    ) -> Result<Process, EngineError> {
        let engine = Engine::with_ports((&config.routes, &config.prefix), executor, kept)?;
        let state = match AppState::with_engine(config, || Ok(engine)) {
            Err(StateError::Engine(error)) => return Err(error),
            state => Arc::new(state.unwrap()),
        };
        let _ = state.engine.forests().limit_memory(config.forest_memory).await;
        let service = Operator::of_service(config).unwrap();
        begin_catching_up(0, &state, config, &service).await;
        let tasks = Mutex::new(Some(Tasks::start(&state, config, &service, expiry)));
        Ok(Process { state, service, tasks })
    }

    /// Serves one connection to its end.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn serve<T: Read + Write + Unpin + Send + 'static>(
        &self,
        stream: T,
        client: IpAddr,
    ) -> impl Future<Output = hyper::Result<()>> + Send + use<T> {
        serve_connection(stream, ClientAddress(client), Purpose::Everything, self.state.clone())
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.state.engine
    }

    /// What a document of an index would be stamped.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn check(&self, source: Bytes, index: &str, id: &str) -> Result<Checked, CheckError> {
        let context = self.state.request_context(0);
        self.state.engine.check(source, index.into(), Some(id.into()), context).await
    }

    /// What was recovered from the index, as `/_spinney/status` shows it.
    pub fn recovered(&self) -> Value {
        self.state.recovery.shown()
    }

    /// Has stored documents follow the overrides soon.
    pub fn restamp(&self) {
        self.state.restamping.wake();
    }

    /// Bytes of bodies and answers, and requests, that are in flight.
    pub fn in_flight(&self) -> (usize, usize) {
        (self.state.budget.used() + self.state.answers.used(), self.state.in_flight.count())
    }

    /// Ends its tasks at once.
    pub fn kill(&self) {
        if let Some(tasks) = self.tasks.lock().take() {
            tasks.kill();
        }
    }

    /// Ends as a signal has it do: requests in flight complete, for so long. Returns how many did not.
    pub async fn stop(&self, grace: Duration) -> usize {
        let tasks = self.tasks.lock().take();
        tasks.iter().for_each(Tasks::send_no_more);
        let left = self.state.in_flight.drain(grace).await;
        if let Some(tasks) = tasks {
            tasks.end().await;
        }
        self.service.settle(Duration::from_secs(2)).await;
        left
    }
}
