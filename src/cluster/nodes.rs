//! The nodes of the cluster take turns; one that cannot be reached is ejected and passed over while others answer.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use hyper::Uri;
use hyper::header::{HeaderValue, InvalidHeaderValue};
use tokio::time::Instant;

/// How long a node that could not be reached is ejected.
const COOLDOWN: Duration = Duration::from_secs(5);

/// One node of the cluster.
#[derive(Debug)]
pub(super) struct Node {
    /// Scheme and authority.
    pub uri: Uri,
    /// The `Host` of requests to it.
    pub host: HeaderValue,
    /// Milliseconds since `Nodes::start` until which it is passed over; 0: it is not ejected.
    ejected_until: AtomicU64,
}

/// All nodes. Lock-free: a stale value costs one more attempt at a failing node.
#[derive(Debug)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    next: AtomicUsize,
    start: Instant,
}

impl Nodes {
    /// Nodes without an ejection.
    ///
    /// # Errors
    /// If an authority is not a valid header.
    pub(super) fn new(uris: &[Uri]) -> Result<Nodes, InvalidHeaderValue> {
        let node = |uri: &Uri| {
            Ok(Node {
                uri: uri.clone(),
                host: HeaderValue::from_str(uri.authority().map_or("", |a| a.as_str()))?,
                ejected_until: AtomicU64::new(0),
            })
        };
        Ok(Nodes {
            nodes: uris.iter().map(node).collect::<Result<_, _>>()?,
            next: AtomicUsize::new(0),
            start: Instant::now(),
        })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The next node in turn that is not ejected; when all are, the next in turn. `None`: there are no nodes.
    pub(super) fn pick(&self) -> Option<&Node> {
        self.pick_at(self.start.elapsed())
    }

    /// A request did not reach this node.
    pub(super) fn eject(&self, node: &Node) {
        node.eject_at(self.start.elapsed());
    }

    fn pick_at(&self, now: Duration) -> Option<&Node> {
        let now = millis(now);
        let turn = self.next.fetch_add(1, Relaxed);
        let turn = turn.checked_rem(self.nodes.len())?;
        let (before, after) = self.nodes.split_at(turn);
        let in_turn = || after.iter().chain(before);
        in_turn().find(|node| node.ejected_until.load(Relaxed) <= now).or_else(|| in_turn().next())
    }
}

impl Node {
    /// It has answered.
    pub(super) fn readmit(&self) {
        self.ejected_until.store(0, Relaxed);
    }

    fn eject_at(&self, now: Duration) {
        self.ejected_until.store(millis(now + COOLDOWN), Relaxed);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::ZERO;

    fn nodes(names: &[&str]) -> Nodes {
        let uris: Vec<Uri> = names.iter().map(|name| format!("http://{name}:9200").parse().unwrap()).collect();
        Nodes::new(&uris).unwrap()
    }

    fn picked(nodes: &Nodes, now: Duration) -> &str {
        nodes.pick_at(now).unwrap().uri.host().unwrap()
    }

    #[test]
    fn nodes_take_turns() {
        let nodes = nodes(&["a", "b", "c"]);
        let turns: Vec<&str> = (0..4).map(|_| picked(&nodes, START)).collect();
        assert_eq!(turns, ["a", "b", "c", "a"]);
        assert!(Nodes::new(&[]).unwrap().pick().is_none());
    }

    #[test]
    fn an_ejected_node_comes_back_after_its_cooldown() {
        let nodes = nodes(&["a", "b"]);
        nodes.pick_at(START).unwrap().eject_at(START);
        for _ in 0..4 {
            assert_eq!(picked(&nodes, COOLDOWN / 2), "b");
        }
        let later: Vec<&str> = (0..2).map(|_| picked(&nodes, COOLDOWN)).collect();
        assert!(later.contains(&"a"));
    }

    #[test]
    fn a_node_that_answers_is_readmitted() {
        let nodes = nodes(&["a", "b"]);
        let a = nodes.pick_at(START).unwrap();
        a.eject_at(START);
        a.readmit();
        let turns: Vec<&str> = (0..2).map(|_| picked(&nodes, START)).collect();
        assert_eq!(turns, ["b", "a"]);
    }

    #[test]
    fn when_all_are_ejected_they_take_turns() {
        let nodes = nodes(&["a", "b"]);
        for _ in 0..2 {
            nodes.pick_at(START).unwrap().eject_at(START);
        }
        let turns: Vec<&str> = (0..2).map(|_| picked(&nodes, START)).collect();
        assert_eq!(turns, ["a", "b"]);
    }
}
