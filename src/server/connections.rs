//! The open connections, and which is closed for a new one beyond the limit: never one with a request in progress, and
//! first those that have not sent any.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The open connections of a listener, within its limit.
#[derive(Debug)]
pub(super) struct Connections {
    most: AtomicUsize,
    /// Logical clock of events.
    clock: AtomicU64,
    /// By when they were accepted.
    open: Mutex<BTreeMap<u64, Arc<Connection>>>,
}

/// One connection. It is no longer counted when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    connections: Arc<Connections>,
    accepted: u64,
    connection: Arc<Connection>,
}

#[derive(Debug)]
struct Connection {
    /// Since when it waits for the head of a request; 0: one is being answered.
    waits_since: AtomicU64,
    has_sent: AtomicBool,
    evicted: Notify,
    /// Whether it has to go even if a request is being answered.
    at_once: AtomicBool,
}

/// Which connection is evicted when all slots are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Eviction {
    /// One that waits for a request, if any does.
    Waiting,
    /// One that waits, or the oldest of all: where requests are answered at once, those that are not hang.
    Any,
}

impl Connections {
    /// No connection yet.
    pub(super) fn new(most: usize) -> Arc<Connections> {
        Arc::new(Connections { most: AtomicUsize::new(most), clock: AtomicU64::new(1), open: Mutex::default() })
    }

    /// Sets the limit from now on; connections beyond it stay until they end or another one comes.
    pub(super) fn limit(&self, most: usize) {
        self.most.store(most, Relaxed);
    }

    /// Takes a slot, and returns whether another connection was evicted; `None` if there is no slot.
    pub(super) fn enter(self: &Arc<Self>, evict: Eviction) -> Option<(ConnectionSlot, bool)> {
        let now = self.now();
        let mut open = self.open.lock();
        let mut evicted = false;
        // More than one where the limit was lowered.
        while open.len() >= self.most.load(Relaxed) {
            let goes = Self::first_to_go(&open).or_else(|| match evict {
                Eviction::Waiting => None,
                Eviction::Any => open.keys().next().copied(),
            });
            let Some(connection) = goes.and_then(|goes| open.remove(&goes)) else {
                match evicted {
                    true => break,
                    false => return None,
                }
            };
            connection.at_once.store(evict == Eviction::Any, Relaxed);
            connection.evicted.notify_one();
            evicted = true;
        }
        let connection = Arc::new(Connection {
            waits_since: AtomicU64::new(now),
            has_sent: AtomicBool::new(false),
            evicted: Notify::new(),
            at_once: AtomicBool::new(false),
        });
        open.insert(now, connection.clone());
        let slot = ConnectionSlot { connections: self.clone(), accepted: now, connection };
        Some((slot, evicted))
    }

    /// Of those that wait for a request: one that has never sent any before one that has, and then the one that waits
    /// longest.
    fn first_to_go(open: &BTreeMap<u64, Arc<Connection>>) -> Option<u64> {
        let waiting = open.iter().filter_map(|(accepted, connection)| {
            let since = connection.waits_since.load(Relaxed);
            (since > 0).then(|| (connection.has_sent.load(Relaxed), since, *accepted))
        });
        waiting.min().map(|(_, _, accepted)| accepted)
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Relaxed)
    }
}

impl ConnectionSlot {
    /// It waits for the head of a request from now on.
    pub(super) fn waits(&self) {
        let now = self.connections.now();
        self.connection.waits_since.store(now, Relaxed);
    }

    /// Marks a request as in progress.
    pub(super) fn answers(&self) {
        self.connection.has_sent.store(true, Relaxed);
        self.connection.waits_since.store(0, Relaxed);
    }

    /// Waits until it has to go.
    pub(super) async fn evicted(&self) {
        self.connection.evicted.notified().await;
    }

    /// Whether it can close now, because no request has arrived meanwhile.
    pub(super) fn may_close(&self) -> bool {
        self.connection.at_once.load(Relaxed) || self.connection.waits_since.load(Relaxed) > 0
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.open.lock().remove(&self.accepted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        use futures_executor::block_on;
        use std::future::poll_fn;
        use std::task::Poll;
        let mut evicted = std::pin::pin!(slot.evicted());
        block_on(poll_fn(|cx| Poll::Ready(evicted.as_mut().poll(cx).is_ready())))
    }

    /// A connection on which this has happened.
    fn enter(connections: &Arc<Connections>, happened: &[fn(&ConnectionSlot)]) -> ConnectionSlot {
        let (slot, evicted) = connections.enter(Eviction::Waiting).unwrap();
        assert!(!evicted);
        for happens in happened {
            happens(&slot);
        }
        slot
    }

    #[test]
    fn those_that_wait_make_room() {
        let connections = Connections::new(4);
        let busy = enter(&connections, &[ConnectionSlot::waits, ConnectionSlot::answers]);
        let idle = enter(&connections, &[ConnectionSlot::waits, ConnectionSlot::answers, ConnectionSlot::waits]);
        let silent = [(); 2].map(|()| enter(&connections, &[ConnectionSlot::waits]));
        // It was idle before, and is so again: the other one has waited longer.
        let mut newer = Vec::new();
        for goes in [&silent[0], &silent[1]] {
            let (slot, evicted) = connections.enter(Eviction::Waiting).unwrap();
            assert!(evicted && is_evicted(goes) && goes.may_close());
            slot.answers();
            newer.push(slot);
        }
        let (slot, evicted) = connections.enter(Eviction::Waiting).unwrap();
        assert!(evicted && is_evicted(&idle));
        slot.answers();
        newer.push(slot);
        assert!(!is_evicted(&busy) && !newer.iter().any(is_evicted));
        assert!(connections.enter(Eviction::Waiting).is_none(), "all answer");
        // A request that came in the same moment is answered.
        idle.answers();
        assert!(!idle.may_close());
        drop((busy, idle, silent));
        let (_slot, evicted) = connections.enter(Eviction::Waiting).unwrap();
        assert!(!evicted);
        drop(newer);
        assert_eq!(connections.open.lock().len(), 1);
    }

    #[test]
    fn a_lower_limit_is_reached_with_the_next_connection() {
        let connections = Connections::new(8);
        let idle = [(); 5].map(|()| enter(&connections, &[ConnectionSlot::waits]));
        let busy = enter(&connections, &[ConnectionSlot::answers]);
        connections.limit(3);
        let (_slot, evicted) = connections.enter(Eviction::Waiting).unwrap();
        assert!(evicted && !is_evicted(&busy));
        assert_eq!(idle.iter().filter(|slot| is_evicted(slot)).count(), 4);
        assert_eq!(connections.open.lock().len(), 3);
    }

    #[test]
    fn the_oldest_makes_room_where_answers_are_quick() {
        let connections = Connections::new(2);
        let hangs = [(); 2].map(|()| enter(&connections, &[ConnectionSlot::answers]));
        let (_slot, evicted) = connections.enter(Eviction::Any).unwrap();
        assert!(evicted && is_evicted(&hangs[0]) && hangs[0].may_close());
        assert!(!is_evicted(&hangs[1]));
    }
}
