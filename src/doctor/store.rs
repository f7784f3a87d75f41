//! The data directory, and Redis.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Finding;
use crate::chance::secret_key;
use crate::cluster::describe;
use crate::config::{Route, ServeOptions};
use crate::engine::Engine;
use crate::forest::shared::keys::RedisClient;
use crate::redis::{KEEP_KEYS, NodeState, TcpRedis};
use crate::store::{DataDir, StoreError};

/// Free disk space below which a warning is given: two snapshots of a large forest.
const LITTLE_ROOM: u64 = 2 << 30;

/// The first version of Redis that can keep forests.
const OLDEST_REDIS: (u32, u32) = (7, 0);

/// Examines the data directory: existing, writable, with free space.
pub(super) fn directory(options: &ServeOptions) -> Vec<Finding> {
    let Some(storage) = &options.storage else {
        return match options.forest_store {
            Some(_) => Vec::new(),
            None => vec![Finding::warning(
                "data directory",
                "none: a restart forgets all forests, and reprints of older documents get new roots",
                "give --data-dir, or --forest-store for several spinneys",
            )],
        };
    };
    let dir = &storage.data_dir;
    let of = format!("data directory {}", dir.display());
    if !dir.exists() {
        // It is made by the start, if the one above it is there and may be written.
        let parent = dir.ancestors().skip(1).find(|path| path.exists()).unwrap_or(Path::new("."));
        return vec![match can_write(parent) {
            Ok(()) => Finding::good(of, "will be made at the first start"),
            Err(error) => Finding::error(
                of,
                format!("does not exist, and {} cannot be written: {error}", parent.display()),
                "make it, and give it to the user that spinney runs as",
            ),
        }];
    }
    let mut findings = vec![match can_write(dir) {
        Ok(()) => Finding::good(&of, "can be written"),
        Err(error) => Finding::error(
            &of,
            format!("cannot be written: {error}"),
            "give it to the user that spinney runs as, with mode 0700",
        ),
    }];
    findings.extend(mode(dir, &of));
    findings.extend(fields(dir, &options.routes));
    if let Ok(disk) = rustix::fs::statvfs(dir.as_path()) {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let state = format!("{:.1} GB free", free as f64 / 1e9);
        findings.push(match free < LITTLE_ROOM {
            true => Finding::warning(&of, state, "make room: a snapshot is written beside the one before it"),
            false => Finding::good(&of, state),
        });
    }
    findings
}

/// Whether the texts of the forests in a directory were read from the fields of these routes.
fn fields(dir: &Path, routes: &[Route]) -> Vec<Finding> {
    let forests: BTreeSet<&str> = routes.iter().map(|route| route.forest.as_str()).collect();
    let of_forest = |forest: &str| -> Result<(), StoreError> {
        let known = DataDir::fields_in(dir, forest)?;
        let agreed = Route::fields_read(routes, forest).recorded_in(&known);
        agreed.map(drop).map_err(StoreError::other_fields(dir, forest))
    };
    let findings = forests.into_iter().filter_map(|forest| {
        let error = of_forest(forest).err()?;
        let remedy = match &error {
            StoreError::Io { .. } => "give the file to the user that spinney runs as, or put it back from a copy",
            _ => "serve does not start until one of these is done, unless the forest is empty",
        };
        Some(Finding::error(format!("fields of the forest {forest}"), describe(&error), remedy))
    });
    findings.collect()
}

fn can_write(dir: &Path) -> io::Result<()> {
    let probe = dir.join(format!(".spinney-doctor-{}", std::process::id()));
    let written = std::fs::write(&probe, b"doctor").and_then(|()| std::fs::read(&probe));
    let removed = std::fs::remove_file(&probe);
    written.and(removed)
}

#[cfg(unix)]
fn mode(dir: &Path, of: &str) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(dir).ok()?.permissions().mode() & 0o777;
    let is_open = mode & 0o007 != 0;
    is_open.then(|| {
        let state =
            format!("may be read by every user of the machine (mode {mode:o}), and holds fingerprints of texts");
        Finding::warning(of, state, format!("chmod 700 {}", dir.display()))
    })
}

#[cfg(not(unix))]
fn mode(_: &Path, _: &str) -> Option<Finding> {
    None
}

/// Examines Redis: each node reachable, of a supported version, and without eviction.
pub(super) async fn redis(options: &ServeOptions) -> Vec<Finding> {
    let Some(store) = &options.forest_store else { return Vec::new() };
    let unusable = |state: String| {
        vec![Finding::error("Redis", state, "is --forest-store right, and does that Redis run and take this user?")]
    };
    let redis = match TcpRedis::new(store.address.clone(), store.ca.as_deref()) {
        Ok(redis) => redis,
        Err(error) => return unusable(error.to_string()),
    };
    let redis = Arc::new(redis);
    // It blocks until there is an answer, and brings its own runtime.
    let asked = {
        let redis = redis.clone();
        tokio::task::spawn_blocking(move || redis.node_states()).await
    };
    let mut findings: Vec<Finding> = match asked {
        Ok(Ok(nodes)) => nodes.iter().flat_map(node).collect(),
        Ok(Err(error)) => return unusable(error.to_string()),
        Err(_) => return unusable("it could not be asked".to_owned()),
    };
    let keys: Arc<dyn RedisClient> = redis;
    // What else is wrong with the routes is found where they are read.
    if let Ok(engine) = Engine::shared(&options.routes, &options.prefix, 1, secret_key(), &keys, store.on_loss)
        && let Err(unavailable) = engine.forests().check_settings().await
    {
        findings.push(Finding::error("Redis", unavailable.to_string(), "writes are refused until that is done"));
    }
    findings
}

fn node(state: &NodeState) -> Vec<Finding> {
    let of = format!("Redis {}", state.name);
    let mut parts = state.version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    let version = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut findings = vec![match version < OLDEST_REDIS {
        true => Finding::error(&of, format!("version {}", state.version), "forests need Redis 7.0 or newer"),
        false => Finding::good(&of, format!("version {}", state.version)),
    }];
    if state.has_other_policy() {
        let policy = &state.policy;
        findings.push(match state.evicts() {
            Some(_) => Finding::error(
                &of,
                format!("maxmemory-policy {policy}: it removes roots before their leaves, and serve does not start"),
                KEEP_KEYS,
            ),
            None => Finding::warning(
                &of,
                format!("maxmemory-policy {policy}: it would remove roots before their leaves if it had a maxmemory"),
                KEEP_KEYS,
            ),
        });
    }
    if state.evicted > 0 {
        findings.push(Finding::warning(
            &of,
            format!("it has evicted {} keys since its start, of spinney or of others", state.evicted),
            "if they may have been spinney's, have the documents of the window stamped again (docs/shared-forest.md)",
        ));
    }
    if state.maxmemory > 0 && state.used > state.maxmemory / 10 * 9 {
        findings.push(Finding::warning(
            &of,
            format!("{} of {} bytes of its memory are used", state.used, state.maxmemory),
            "raise its maxmemory, or give the forest a shorter window: writes are refused when it is full",
        ));
    }
    if !state.is_persistent {
        findings.push(Finding::warning(
            &of,
            "it keeps nothing on disk: when it restarts, the forests are empty",
            "appendonly yes, or a replica; or be ready to run spinney recover",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    fn state() -> NodeState {
        NodeState {
            name: "127.0.0.1:6379".into(),
            version: "7.0.15".into(),
            policy: "noeviction".into(),
            maxmemory: 1_000,
            used: 900,
            evicted: 0,
            is_persistent: true,
        }
    }

    #[test]
    fn states_of_a_node() {
        let worst = |state: &NodeState| node(state).into_iter().map(|finding| finding.severity).max().unwrap();
        assert_eq!(worst(&state()), Severity::Good);
        for (state, expected) in [
            (NodeState { used: 901, ..state() }, Severity::Warning),
            (NodeState { used: 901, maxmemory: 0, ..state() }, Severity::Good),
            (NodeState { is_persistent: false, ..state() }, Severity::Warning),
            (NodeState { policy: "allkeys-lru".into(), ..state() }, Severity::Error),
            (NodeState { policy: "allkeys-lru".into(), maxmemory: 0, ..state() }, Severity::Warning),
            (NodeState { policy: String::new(), ..state() }, Severity::Good),
            (NodeState { evicted: 1, ..state() }, Severity::Warning),
            (NodeState { version: "6.2.14".into(), ..state() }, Severity::Error),
            (NodeState { version: "10.0.1".into(), ..state() }, Severity::Good),
            (NodeState { version: "?".into(), ..state() }, Severity::Error),
        ] {
            assert_eq!(worst(&state), expected, "{state:?}");
        }
    }
}
