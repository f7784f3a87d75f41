//! Limits of size, number and time that keep one client, or a silent cluster, from holding everything.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::values::{OrNone, TimeSpan, Timeout};
use super::{ConfigError, RawServeOptions};

/// Connections served at once where neither the operator nor the system sets a number.
const CONNECTIONS: usize = 480;

/// The default limit of connections. Each costs some tens of KiB, and no set of writers needs more.
const MOST_CONNECTIONS: usize = 8192;

/// Files other than connections of clients or to the cluster: listeners, the log, certificates, the runtime's own,
/// and the connections beyond the cap that are refused.
const OTHER_FILES: usize = 64;

/// Files of the forest of a further route: its journal, and a snapshot beside it.
const FILES_OF_A_ROUTE: usize = 2;

/// Default of the budget.
const BUDGET: usize = 256 << 20;

/// The smallest budget: no writer has smaller writes alone.
const LEAST_BUDGET: usize = 1 << 10;

/// Validated limits of `spinney serve`. They may change while requests are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeLimits {
    /// Bytes of write requests in flight for the whole process.
    pub budget: usize,
    /// Percentage of the budget that one client address may hold; from 1 to 100.
    pub client_share: u8,
    /// How long the body of a write may take from its head to its end.
    pub body_timeout: Duration,
    /// Timeout from a write to the head of the cluster's response; `None`: no timeout.
    pub upstream_timeout: Option<Duration>,
    /// Client connections that are served at once; at least one.
    pub connections: usize,
    /// How long a connection may be idle between two requests, and in the middle of a body that is relayed.
    pub idle_timeout: Duration,
    /// How long a stop waits for requests in flight.
    pub grace: Duration,
}

impl ServeLimits {
    /// The limits among the raw options.
    ///
    /// # Errors
    /// When the budget is too small for any write.
    pub(super) fn of(raw: &RawServeOptions) -> Result<ServeLimits, ConfigError> {
        let ten_minutes = Timeout(Duration::from_secs(600));
        let upstream_timeout = raw.upstream_timeout.unwrap_or(OrNone(Some(ten_minutes)));
        let budget = raw.budget.map_or(BUDGET, |budget| budget.0);
        if budget < LEAST_BUDGET {
            return Err(ConfigError::option("budget", "a larger write is refused: at least 1KiB"));
        }
        let files = open_files().map(|files| files.saturating_sub(files_of(raw.route.len())));
        Ok(ServeLimits {
            budget,
            client_share: raw.client_share.map_or(50, |share| share.0),
            body_timeout: raw.body_timeout.unwrap_or(ten_minutes).0,
            upstream_timeout: upstream_timeout.0.map(|timeout| timeout.0),
            connections: raw.max_connections.map_or_else(|| default_connections(files), NonZeroUsize::get),
            idle_timeout: raw.idle_timeout.unwrap_or(ten_minutes).0,
            grace: raw.grace.map_or(Duration::from_secs(30), TimeSpan::duration),
        })
    }

    /// Why the process may run out of files before it has that many connections, if it may. `routes`: how many.
    pub(crate) fn too_many_connections(&self, routes: usize) -> Option<String> {
        let files = open_files()?;
        let connections = self.connections;
        (files_for(connections).saturating_add(files_of(routes)) > files).then(|| {
            format!(
                "max_connections is {connections}, and the process may open {files} files: each connection can take \
                 two, so raise the limit (ulimit -n) or lower max_connections"
            )
        })
    }
}

/// Descriptors needed for this number of routes, beyond one.
fn files_of(routes: usize) -> usize {
    routes.saturating_sub(1).saturating_mul(FILES_OF_A_ROUTE)
}

/// Descriptors needed for this number of connections, each with a connection to the cluster.
fn files_for(connections: usize) -> usize {
    connections.saturating_mul(2).saturating_add(OTHER_FILES)
}

fn default_connections(files: Option<usize>) -> usize {
    files.map_or(CONNECTIONS, |files| (files.saturating_sub(OTHER_FILES) / 2).clamp(1, MOST_CONNECTIONS))
}

/// The process's limit of open files, where the system says it.
#[cfg(target_os = "linux")]
fn open_files() -> Option<usize> {
    let limits = procfs::process::Process::myself().and_then(|process| process.limits()).ok()?;
    match limits.max_open_files.soft_limit {
        procfs::process::LimitValue::Unlimited => Some(usize::MAX),
        procfs::process::LimitValue::Value(files) => usize::try_from(files).ok(),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_files() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(options: &str) -> Result<ServeLimits, String> {
        let raw = toml::from_str(options).map_err(|error| error.message().to_owned());
        raw.and_then(|raw| ServeLimits::of(&raw).map_err(|error| error.to_string()))
    }

    #[test]
    fn limits_have_defaults() {
        let ten_minutes = Duration::from_secs(600);
        let limits = limits("").unwrap();
        assert_eq!(limits.budget, 256 << 20);
        assert_eq!(limits.client_share, 50);
        assert_eq!(limits.body_timeout, ten_minutes);
        assert_eq!(limits.upstream_timeout, Some(ten_minutes));
        assert_eq!(limits.idle_timeout, ten_minutes);
        assert!(limits.connections >= 1);
        assert_eq!(limits.too_many_connections(1), None);
    }

    #[test]
    fn limits_can_be_chosen() {
        let chosen = "budget = '1MiB'\ngrace = '0s'\n\
                      client_share = '100 %'\nbody_timeout = '90s'\nupstream_timeout = 'none'\nmax_connections = 7\n\
                      idle_timeout = '1h'";
        let expected = ServeLimits {
            budget: 1 << 20,
            client_share: 100,
            body_timeout: Duration::from_secs(90),
            upstream_timeout: None,
            connections: 7,
            idle_timeout: Duration::from_secs(3600),
            grace: Duration::ZERO,
        };
        assert_eq!(limits(chosen), Ok(expected));
    }

    #[test]
    fn wrong_limits_say_what_to_do() {
        for (option, message) in [
            ("client_share = '0%'", "use a percentage from 1% to 100%"),
            ("body_timeout = 'none'", "use a whole number with ms, s, m, h or d, such as 30d"),
            ("upstream_timeout = '0s'", "it must be longer than zero, such as 10m, or none"),
            ("idle_timeout = '30'", "use a whole number with ms, s, m, h or d, such as 30d"),
            ("max_connections = 0", "invalid value: integer `0`, expected a nonzero usize"),
            ("budget = '0'", "budget: a larger write is refused: at least 1KiB"),
            ("budget = '1023B'", "budget: a larger write is refused: at least 1KiB"),
        ] {
            assert_eq!(limits(option), Err(message.to_owned()));
        }
        assert_eq!(limits("budget = '1KiB'").unwrap().budget, 1 << 10);
    }

    #[test]
    fn files_of_routes_are_no_connections() {
        let connections = |routes: usize| limits(&"[[route]]\nindex = ['a']\n".repeat(routes)).unwrap().connections;
        let files = open_files().unwrap();
        assert_eq!(connections(1), default_connections(Some(files)));
        assert_eq!(connections(100), default_connections(Some(files - 198)));
        let limits = ServeLimits { connections: (files - OTHER_FILES - 2) / 2, ..limits("").unwrap() };
        assert_eq!(limits.too_many_connections(2), None);
        assert!(limits.too_many_connections(3).is_some());
    }

    #[test]
    fn connections_stay_below_the_files_that_may_be_open() {
        assert!(open_files().is_some());
        for (files, connections) in [
            (None, CONNECTIONS),
            (Some(1024), 480),
            (Some(10), 1),
            (Some(1 << 20), MOST_CONNECTIONS),
            (Some(usize::MAX), MOST_CONNECTIONS),
        ] {
            assert_eq!(default_connections(files), connections, "{files:?}");
        }
        assert!(files_for(480) <= 1024);
        assert!(files_for(481) > 1024);
    }
}
