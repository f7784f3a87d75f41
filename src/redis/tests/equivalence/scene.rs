//! Real servers, and what a test has to see and to do there besides.

use std::collections::{BTreeMap, HashMap, HashSet};

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Value, cmd};
use tokio::runtime::{Builder, Runtime};

use super::super::servers::Redis;
use crate::redis::slots::{SLOTS, slot};
use crate::redis::{Address, TcpRedis};

/// One server, or a cluster of masters.
pub(super) struct Scene {
    servers: Redis,
    nodes: Vec<Node>,
    pub(super) is_cluster: bool,
    moves: Mutex<Moves>,
    /// Functions that the servers have instead of the product's.
    library: Mutex<Option<String>>,
    runtime: Runtime,
}

struct Node {
    port: u16,
    id: String,
    connection: MultiplexedConnection,
}

/// Which master has a slot, and where it is being moved to.
struct Moves {
    owners: Vec<usize>,
    to: HashMap<u16, usize>,
    /// Keys that are at another master than they were.
    keys: HashSet<Vec<u8>>,
}

impl Scene {
    pub(super) fn new(masters: usize) -> Scene {
        let is_cluster = masters > 1;
        let servers = if is_cluster { Redis::cluster(masters) } else { Redis::start() };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let node = |port| {
            let client = Client::open(("127.0.0.1", port)).unwrap();
            let connection = runtime.block_on(client.get_multiplexed_async_connection()).unwrap();
            Node { port, id: String::new(), connection }
        };
        let nodes = servers.ports().map(node).collect();
        let moves = Mutex::new(Moves { owners: vec![0; SLOTS], to: HashMap::new(), keys: HashSet::new() });
        let mut scene = Scene { servers, nodes, is_cluster, moves, library: Mutex::default(), runtime };
        if is_cluster {
            for at in 0..scene.nodes.len() {
                scene.nodes[at].id = text(scene.ask(at, cmd("CLUSTER").arg("MYID")));
            }
            let Value::Array(ranges) = scene.ask(0, cmd("CLUSTER").arg("SLOTS")) else {
                panic!("no slots");
            };
            let mut moves = scene.moves.lock();
            for range in ranges {
                let Value::Array(range) = range else { continue };
                let Value::Array(master) = &range[2] else { continue };
                let [from, to, port] = [&range[0], &range[1], &master[1]].map(number);
                let owner = scene.nodes.iter().position(|node| i64::from(node.port) == port).unwrap();
                moves.owners[from as usize..=to as usize].fill(owner);
            }
        }
        scene
    }

    /// Everything as in the beginning, but for the slots that have moved; the functions have to be loaded again.
    pub(super) fn reset(&self) -> TcpRedis {
        self.end_moves();
        self.moves.lock().keys.clear();
        for node in 0..self.nodes.len() {
            self.ask(node, cmd("CONFIG").arg("SET").arg("maxmemory").arg(0));
            self.ask(node, cmd("FLUSHALL").arg("SYNC"));
            self.ask(node, cmd("FUNCTION").arg("FLUSH").arg("SYNC"));
            if let Some(library) = &*self.library.lock() {
                self.ask(node, cmd("FUNCTION").arg("LOAD").arg(library));
            }
        }
        TcpRedis::new(Address::parse(&self.servers.url()).unwrap(), None).unwrap()
    }

    /// Has the servers take these functions for the product's, from the next [`reset`](Scene::reset) on.
    pub(super) fn plant(&self, library: String) {
        *self.library.lock() = Some(library);
    }

    fn ask(&self, node: usize, command: &Cmd) -> Value {
        let mut connection = self.nodes[node].connection.clone();
        let answer = self.runtime.block_on(command.query_async::<Value>(&mut connection));
        answer.unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Milliseconds of the servers' clock.
    pub(super) fn time(&self) -> i64 {
        let Value::Array(time) = self.ask(0, &cmd("TIME")) else {
            panic!("no time");
        };
        let [seconds, micros] = [&time[0], &time[1]].map(number);
        seconds * 1_000 + micros / 1_000
    }

    pub(super) fn set_full(&self, is_full: bool) {
        self.ask(0, cmd("CONFIG").arg("SET").arg("maxmemory").arg(u8::from(is_full)));
    }

    /// Begins to move a slot to a master, unless it is there or on its way.
    pub(super) fn begin_move(&self, key: &[u8], to: usize) {
        let slot = slot(key);
        let mut moves = self.moves.lock();
        let from = moves.owners[usize::from(slot)];
        if from == to || moves.to.contains_key(&slot) {
            return;
        }
        moves.to.insert(slot, to);
        self.ask(to, cmd("CLUSTER").arg("SETSLOT").arg(slot).arg("IMPORTING").arg(&self.nodes[from].id));
        self.ask(from, cmd("CLUSTER").arg("SETSLOT").arg(slot).arg("MIGRATING").arg(&self.nodes[to].id));
    }

    /// Moves some keys of a slot that is on its way. Returns how many.
    pub(super) fn follow(&self, slot: u16, most: usize) -> usize {
        let mut moves = self.moves.lock();
        let Some(&to) = moves.to.get(&slot) else {
            return 0;
        };
        let from = moves.owners[usize::from(slot)];
        let Value::Array(keys) = self.ask(from, cmd("CLUSTER").arg("GETKEYSINSLOT").arg(slot).arg(most)) else {
            panic!("no keys");
        };
        if !keys.is_empty() {
            let mut migrate = cmd("MIGRATE");
            migrate.arg("127.0.0.1").arg(self.nodes[to].port).arg("").arg(0).arg(5_000).arg("KEYS");
            for key in &keys {
                migrate.arg(bytes(key));
            }
            self.ask(from, &migrate);
            moves.keys.extend(keys.iter().map(bytes));
        }
        keys.len()
    }

    /// Whether a key is at another master than it was.
    pub(super) fn has_moved(&self, key: &[u8]) -> bool {
        self.moves.lock().keys.contains(key)
    }

    /// Ends a move, if there is one.
    pub(super) fn end_move(&self, slot: u16) {
        while self.follow(slot, 100) > 0 {}
        let mut moves = self.moves.lock();
        let Some(to) = moves.to.remove(&slot) else {
            return;
        };
        let from = moves.owners[usize::from(slot)];
        let others = (0..self.nodes.len()).filter(|&node| node != to && node != from);
        for node in [to, from].into_iter().chain(others) {
            self.ask(node, cmd("CLUSTER").arg("SETSLOT").arg(slot).arg("NODE").arg(&self.nodes[to].id));
        }
        moves.owners[usize::from(slot)] = to;
    }

    fn end_moves(&self) {
        let moving: Vec<u16> = self.moves.lock().to.keys().copied().collect();
        moving.into_iter().for_each(|slot| self.end_move(slot));
    }

    /// Ends all that is kept until a moment before this one, as if it were then.
    pub(super) fn end_before(&self, moment: i64) {
        for node in 0..self.nodes.len() {
            let Value::Array(keys) = self.ask(node, cmd("KEYS").arg("*")) else {
                panic!("no keys");
            };
            for key in keys {
                let until = self.ask_importing(node, cmd("PEXPIRETIME").arg(bytes(&key)));
                if (0..moment).contains(&number(&until)) {
                    self.ask_importing(node, cmd("PEXPIREAT").arg(bytes(&key)).arg(1));
                }
            }
        }
    }

    /// Asks a node about a key that it has, though its slot may still be another node's.
    fn ask_importing(&self, node: usize, command: &Cmd) -> Value {
        if self.is_cluster {
            self.ask(node, &cmd("ASKING"));
        }
        self.ask(node, command)
    }

    /// All keys, with their values and the moment of their expiry, if any; the moves have to end for it. Streams have
    /// no value here.
    pub(super) fn dump(&self) -> BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)> {
        self.end_moves();
        let mut all = BTreeMap::new();
        for node in 0..self.nodes.len() {
            let Value::Array(keys) = self.ask(node, cmd("KEYS").arg("*")) else {
                panic!("no keys");
            };
            for key in keys {
                let key = bytes(&key);
                let value = match key.starts_with(b"spinney:") {
                    true => Value::Nil,
                    false => self.ask(node, cmd("GET").arg(&key)),
                };
                let until = number(&self.ask(node, cmd("PEXPIRETIME").arg(&key)));
                if until == -2 {
                    continue;
                }
                let value = if value == Value::Nil { Vec::new() } else { bytes(&value) };
                let twice = all.insert(key, (value, (until != -1).then_some(until)));
                assert_eq!(twice, None, "a key is at two nodes");
            }
        }
        all
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes.clone(),
        Value::SimpleString(text) => text.clone().into_bytes(),
        other => panic!("{other:?} is no text"),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands around a question")]
fn text(value: Value) -> String {
    String::from_utf8(bytes(&value)).unwrap()
}

fn number(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        other => String::from_utf8(bytes(other)).unwrap().parse().unwrap(),
    }
}
