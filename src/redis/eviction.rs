//! Whether a Redis evicts keys: refused at the start, and checked from then on every 30 seconds and after each new
//! connection, since its configuration can change.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tracing::warn;

use super::{NodeState, PATIENCE, RedisInner, WATCH, sleep};
use crate::forest::shared::keys::Evictions;

/// The eviction policy that refuses writes instead.
const KEEPS: &str = "noeviction";

/// The advice for any other policy.
pub(crate) const KEEP_KEYS: &str = "CONFIG SET maxmemory-policy noeviction, and in its configuration file";

/// A node evicts keys when its memory is full.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Redis {node} evicts keys when it has {maxmemory} bytes (maxmemory-policy {policy}), roots before their leaves: \
     {}",
    KEEP_KEYS
)]
pub struct EvictsKeys {
    /// Its number among the nodes.
    pub node: String,
    /// Which keys it evicts.
    pub policy: String,
    /// Bytes that it may use.
    pub maxmemory: u64,
}

impl NodeState {
    /// Whether it removes keys by itself before their time. A node that has no limit does not, whatever its policy is,
    /// and of one that does not say its policy nothing is known.
    pub(crate) fn evicts(&self) -> Option<EvictsKeys> {
        let evicts = self.maxmemory > 0 && self.has_other_policy();
        evicts.then(|| EvictsKeys { node: self.name.clone(), policy: self.policy.clone(), maxmemory: self.maxmemory })
    }

    /// Whether it would evict if it had a memory limit.
    pub(crate) fn has_other_policy(&self) -> bool {
        !matches!(self.policy.as_str(), KEEPS | "")
    }
}

impl RedisInner {
    /// Checks whether Redis evicts keys, and logs when that begins or has happened. `None`: they are not, or the nodes
    /// do not say.
    pub(super) async fn check_evictions(&self) -> Option<EvictsKeys> {
        let states = tokio::time::timeout(PATIENCE, self.link.states()).await.ok()?.ok()?;
        let evicts = states.iter().find_map(NodeState::evicts);
        let now = Evictions { is_on: evicts.is_some(), keys: states.iter().map(|state| state.evicted).sum() };
        let before = self.evictions.lock().replace(now);
        if let Some(evicts) = evicts.as_ref().filter(|_| !before.is_some_and(|before| before.is_on)) {
            warn!(redis = %self.link.address(), "{evicts}");
        }
        // What there was before the first look may have been anybody's.
        let keys = before.map_or(0, |before| now.keys.saturating_sub(before.keys));
        if keys > 0 {
            warn!(
                redis = %self.link.address(),
                keys,
                "the Redis of the shared forests has evicted keys: reprints of older documents may get new roots"
            );
        }
        evicts
    }

    /// Checks again after new connections: it may be another Redis, or reconfigured.
    pub(super) fn check_after_connecting(self: &Arc<Self>) {
        let made = self.link.made.load(Relaxed);
        if self.checked_at.swap(made, Relaxed) != made {
            let shared = self.clone();
            tokio::spawn(async move { shared.check_evictions().await });
        }
    }

    /// Checks an idle Redis periodically for evictions and lost registrations.
    pub(super) async fn watch(self: Arc<Self>) {
        loop {
            sleep(WATCH).await;
            let _ = self.wait(self.link.check_registered(|_| true)).await;
            self.check_evictions().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_evicts() {
        let evicts = |policy: &str, maxmemory| {
            let policy = policy.to_owned();
            NodeState { policy, maxmemory, ..NodeState::default() }.evicts().is_some()
        };
        for policy in ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl", "allkeys-lrm"] {
            assert!(evicts(policy, 1) && !evicts(policy, 0), "{policy}");
        }
        assert!(!evicts("noeviction", 1) && !evicts("", 1));
    }
}
