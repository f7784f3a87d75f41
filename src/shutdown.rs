//! Graceful shutdown: requests in flight complete, new ones are refused.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Counter of requests in flight, and the draining state.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    requests: TaskTracker,
}

/// A request in flight; ends when its last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct InFlightGuard(#[expect(dead_code, reason = "held for its drop")] Arc<TaskTrackerToken>);

impl InFlight {
    /// Enters a request; `None` while draining.
    pub(crate) fn enter(&self) -> Option<InFlightGuard> {
        // Counted before the check, so that a drain that begins in between waits for this request.
        let token = self.requests.token();
        (!self.is_draining()).then(|| InFlightGuard(Arc::new(token)))
    }

    /// Whether new requests are refused.
    pub(crate) fn is_draining(&self) -> bool {
        self.requests.is_closed()
    }

    /// Number of requests in flight.
    pub(crate) fn count(&self) -> usize {
        self.requests.len()
    }

    /// Refuses new requests and waits up to `grace` until all have ended. Returns how many have not.
    pub(crate) async fn drain(&self, grace: Duration) -> usize {
        self.requests.close();
        // The count reports the result.
        let _ = tokio::time::timeout(grace, self.requests.wait()).await;
        self.count()
    }
}

/// Writes in flight, so that a task can wait for those that began before a change.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// The last generation is open; earlier ones are closed and wait for their last write.
    begun: Mutex<Vec<TaskTracker>>,
}

/// A write in flight, until dropped.
#[derive(Debug)]
pub(crate) struct WriteGuard(#[expect(dead_code, reason = "held for its drop")] TaskTrackerToken);

impl Writes {
    /// Enters a write.
    pub(crate) fn enter(&self) -> WriteGuard {
        let mut begun = self.begun.lock();
        if begun.is_empty() {
            begun.push(TaskTracker::new());
        }
        // There always is one.
        let now = begun.last().map(TaskTracker::token);
        WriteGuard(now.unwrap_or_else(|| TaskTracker::new().token()))
    }

    /// Returns a future that completes when all writes entered before this call have ended.
    pub(crate) fn begun(&self) -> impl Future<Output = ()> + use<> {
        let mut begun = self.begun.lock();
        for tracker in begun.iter() {
            tracker.close();
        }
        begun.retain(|tracker| !tracker.is_empty());
        let before = begun.clone();
        begun.push(TaskTracker::new());
        async move {
            for tracker in before {
                tracker.wait().await;
            }
        }
    }
}

/// SIGTERM and SIGINT (Ctrl-C on other systems than Unix), which no longer end the process once this exists.
pub(crate) struct Signals {
    #[cfg(unix)]
    term: tokio::signal::unix::Signal,
    #[cfg(unix)]
    int: tokio::signal::unix::Signal,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub(crate) fn install() -> std::io::Result<Signals> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Signals { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
        }
        #[cfg(not(unix))]
        Ok(Signals {})
    }

    /// Waits for the next signal; returns its name.
    ///
    /// # Errors
    /// When the handler cannot be installed.
    pub(crate) async fn next(&mut self) -> std::io::Result<&'static str> {
        #[cfg(unix)]
        {
            Ok(tokio::select! {
                biased;
                _ = self.term.recv() => "SIGTERM",
                _ = self.int.recv() => "SIGINT",
            })
        }
        #[cfg(not(unix))]
        {
            tokio::signal::ctrl_c().await?;
            Ok("Ctrl-C")
        }
    }
}

/// SIGHUP, which without a handler ends the process in the middle of a write.
pub(crate) struct Hangups {
    #[cfg(unix)]
    hangups: tokio::signal::unix::Signal,
}

impl Hangups {
    /// Installs the handler: no signal is lost from now on.
    ///
    /// # Errors
    /// When it cannot be installed.
    pub(crate) fn install() -> std::io::Result<Hangups> {
        Ok(Hangups {
            #[cfg(unix)]
            hangups: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?,
        })
    }

    /// Spawns a task that reloads at each signal, one after the other. Several that come meanwhile count as one, since
    /// each reads all that there is.
    #[cfg_attr(not(unix), expect(unused_mut, unused_variables, reason = "there are no such signals"))]
    pub(crate) fn each<T: Future + Send>(mut self, reload: impl Fn() -> T + Send + 'static) {
        #[cfg(unix)]
        tokio::spawn(async move {
            while self.hangups.recv().await.is_some() {
                reload().await;
            }
        });
    }
}

/// Waits for SIGTERM or SIGINT (Ctrl-C elsewhere than on Unix); returns its name.
///
/// # Errors
/// When the signal handlers cannot be installed.
pub(crate) async fn signal() -> std::io::Result<&'static str> {
    Signals::install()?.next().await
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the clock is paused: time goes by at once")]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(30);

    /// A signal that came before anybody follows them counts, and so does one that comes while one is followed.
    #[cfg(unix)]
    #[tokio::test]
    async fn no_hangup_is_lost() {
        let hang_up = || {
            let sent = std::process::Command::new("sh").args(["-c", "kill -HUP $PPID"]).status().unwrap();
            assert!(sent.success());
        };
        let hangups = Hangups::install().unwrap();
        hang_up();
        let (begin, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        hangups.each({
            let gate = gate.clone();
            move || {
                let (begin, gate) = (begin.clone(), gate.clone());
                async move {
                    begin.send(()).unwrap();
                    gate.acquire().await.unwrap().forget();
                }
            }
        });
        begun.recv().await.unwrap();
        hang_up();
        assert!(begun.try_recv().is_err(), "one after the other");
        gate.add_permits(1);
        begun.recv().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_waits_for_what_is_in_flight() {
        let in_flight = Arc::new(InFlight::default());
        let guard = in_flight.enter().unwrap();
        let settling = guard.clone();
        assert_eq!(in_flight.count(), 1);
        let draining = tokio::spawn({
            let in_flight = in_flight.clone();
            async move { in_flight.drain(GRACE).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(in_flight.enter().is_none());
        assert_eq!(in_flight.count(), 1);
        drop(guard);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!draining.is_finished());
        drop(settling);
        assert_eq!(draining.await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_does_not_wait_for_ever() {
        let in_flight = InFlight::default();
        let _stuck = in_flight.enter().unwrap();
        assert_eq!(in_flight.drain(GRACE).await, 1);
    }

    #[tokio::test]
    async fn nothing_in_flight_is_drained_at_once() {
        let in_flight = InFlight::default();
        drop(in_flight.enter());
        assert_eq!(in_flight.drain(GRACE).await, 0);
        assert!(in_flight.is_draining());
    }

    #[tokio::test(start_paused = true)]
    async fn writes_are_waited_for_that_began_before() {
        let soon = |waited| tokio::time::timeout(GRACE, waited);
        let writes = Writes::default();
        writes.begun().await;
        let first = writes.enter();
        let one = writes.begun();
        // Nobody waits for it: those before it are waited for all the same.
        drop(writes.begun());
        let second = writes.enter();
        let both = Box::pin(writes.begun());
        let later = writes.enter();
        let mut both = both;
        assert!(soon(Box::pin(one)).await.is_err());
        drop(first);
        assert!(tokio::time::timeout(GRACE, &mut both).await.is_err());
        drop(second);
        both.await;
        drop(later);
        writes.begun().await;
        assert!(writes.begun.lock().len() == 1);
    }
}
