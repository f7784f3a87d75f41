//! The nodes of a Redis and the connections to them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, Pipeline, RedisConnectionInfo, RedisError,
    TlsCertificates, TlsMode, Value,
};
use tokio::sync::{Mutex, RwLock};
use tokio::task::JoinSet;
use tracing::debug;

use super::error_hints::away;
use super::pipeline::{self, CommandReply, LIBRARY, NodeBatch};
use super::sent::SentCommands;
use super::slots::{SLOTS, slot};
use super::unusable::UnusableKeys;
use super::{Address, NodeState, sleep};
use crate::forest::shared::keys::{Command, Extent, RedisReply, RedisUnavailable};
use crate::hash::splitmix64;
use crate::text_fields::RoutedFields;
use crate::time::Millis;

/// Timeout of a connection attempt and of a response.
const CONNECT: Duration = Duration::from_millis(1_000);
const ANSWER: Duration = Duration::from_millis(1_500);
/// How often commands are sent that a node has not done.
pub(super) const TRIES: usize = 40;
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// Nodes that are remembered though the cluster does not name them.
const ELSEWHERE: usize = 64;
/// Approximate limit of commands in one pipeline; larger batches are split.
const COMMANDS: usize = 8_192;

/// The known nodes of a Redis, and the connections to them.
pub(super) struct Connections {
    address: Address,
    ca: Option<Vec<u8>>,
    nodes: RwLock<Option<Arc<NodeSet>>>,
    /// Serialises topology queries.
    asking: Mutex<()>,
    /// Nodes by host and port, each with one connection.
    known: parking_lot::Mutex<HashMap<(String, u16), Arc<RedisNode>>>,
    /// Connections that were ever made.
    pub(super) made: Arc<AtomicU64>,
    /// The forests of this process.
    pub(super) registered: parking_lot::Mutex<Vec<RegisteredForest>>,
    /// The fields that it reads into some of them, by name.
    pub(super) fields: parking_lot::Mutex<HashMap<String, RegisteredFields>>,
    /// Keys that were found to hold a value of another type.
    unusable: parking_lot::Mutex<UnusableKeys>,
}

/// The fields that this process reads into a forest.
#[derive(Debug, Clone)]
pub(super) struct RegisteredFields {
    pub(super) fields: RoutedFields,
    /// The record with them in it, as Redis was last seen to have it.
    pub(super) recorded: String,
}

/// A forest that this process uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RegisteredForest {
    pub(super) name: String,
    /// That of this process, and that which it is kept with.
    pub(super) wanted: String,
    pub(super) identity: String,
    pub(super) number: u8,
}

/// The nodes that keys are at.
pub(super) struct NodeSet {
    pub(super) each: Vec<Arc<RedisNode>>,
    /// The place of the node of each slot; empty where there is but one.
    slots: Vec<u16>,
}

/// A node, the indices of the commands sent to it, and its replies.
type SentBatch = (Arc<RedisNode>, Vec<usize>, Result<Vec<CommandReply>, RedisError>);

/// One node. There is one connection to it, which all requests share.
pub(super) struct RedisNode {
    client: Client,
    connection: Mutex<Option<MultiplexedConnection>>,
    made: Arc<AtomicU64>,
}

impl NodeSet {
    pub(super) fn is_cluster(&self) -> bool {
        !self.slots.is_empty()
    }

    pub(super) fn node_of(&self, key: &[u8]) -> usize {
        match self.slots.as_slice() {
            [] => 0,
            slots => slots.get(usize::from(slot(key))).map_or(0, |&node| usize::from(node)),
        }
    }
}

impl RedisNode {
    async fn connection(&self) -> Result<MultiplexedConnection, RedisError> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = &*connection {
            return Ok(connection.clone());
        }
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(Some(ANSWER));
        let client = &self.client;
        let mut made = client.get_multiplexed_async_connection_with_config(&config).await?;
        // Commands after one whose function is missing would be done before it. A node that has the functions says
        // so, and one that may not take them says why when it is asked to run one.
        match made.send_packed_command(&load(None)).await {
            Err(error) if error.code().is_none() => return Err(error),
            _ => {}
        }
        *connection = Some(made.clone());
        self.made.fetch_add(1, Relaxed);
        Ok(made)
    }

    /// Sends commands and returns the reply to each, including errors.
    pub(super) async fn send(&self, pipeline: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let connection = self.connection().await?;
        self.send_over(connection, pipeline).await
    }

    /// As [`send`](Self::send) over a connection to this node. It is not made anew: what failed before anything was
    /// sent could not be told from what was lost.
    async fn send_over(
        &self,
        mut connection: MultiplexedConnection,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, RedisError> {
        let sent = connection.send_packed_commands(pipeline, 0, pipeline.len()).await;
        if sent.is_err() {
            // Answers that come late would be taken for those of others.
            *self.connection.lock().await = None;
        }
        sent
    }

    /// Returns the connection that commands of a round are to be sent over, and marks them as sent. One that was idle
    /// may have been closed, and what is sent over it may have been run as far as anybody can tell: `is_asked` first
    /// whether the node is there.
    async fn reach(
        &self,
        round: &SentCommands,
        places: &[usize],
        is_asked: bool,
    ) -> Result<MultiplexedConnection, RedisError> {
        let mut connection = self.connection().await?;
        if is_asked
            && let Err(error) = connection.send_packed_command(&redis::cmd("PING")).await
            && error.code().is_none()
        {
            *self.connection.lock().await = None;
            return Err(error);
        }
        match round.may_be_sent(places) {
            true => Ok(connection),
            // Nobody reads it.
            false => Err((redis::ErrorKind::Client, "its round has ended").into()),
        }
    }

    /// As [`send`](Self::send) with `ASKING`, to a node that a slot is migrating to.
    pub(super) async fn send_asking(&self, pipeline: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let connection = self.connection().await?;
        self.send_asking_over(connection, pipeline).await
    }

    async fn send_asking_over(
        &self,
        connection: MultiplexedConnection,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, RedisError> {
        let mut asking = Pipeline::with_capacity(2 * pipeline.len());
        for command in pipeline.cmd_iter() {
            asking.cmd("ASKING");
            asking.add_command(command.clone());
        }
        let values = self.send_over(connection, &asking).await?;
        // Those to `ASKING` are dropped.
        Ok(values.into_iter().skip(1).step_by(2).collect())
    }

    pub(super) async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(command.clone());
        let mut values = self.send(&pipeline).await?;
        match values.pop() {
            Some(Value::ServerError(error)) => Err(error.into()),
            value => Ok(value.unwrap_or(Value::Nil)),
        }
    }

    pub(super) async fn load(&self) -> Result<(), RedisError> {
        self.ask(&load(Some("REPLACE"))).await.map(drop)
    }
}

/// The `FUNCTION LOAD` command.
fn load(replace: Option<&str>) -> Cmd {
    let mut load = redis::cmd("FUNCTION");
    load.arg("LOAD").arg(replace).arg(LIBRARY);
    load
}

impl Connections {
    pub(super) fn new(address: Address, ca: Option<Vec<u8>>) -> Connections {
        Connections {
            address,
            ca,
            nodes: RwLock::new(None),
            asking: Mutex::new(()),
            known: parking_lot::Mutex::default(),
            made: Arc::default(),
            registered: parking_lot::Mutex::default(),
            fields: parking_lot::Mutex::default(),
            unusable: parking_lot::Mutex::default(),
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Completes when every node responds.
    pub(super) async fn is_there(&self) -> Result<(), RedisUnavailable> {
        *self.nodes.write().await = None;
        let nodes = self.nodes().await?;
        for node in &nodes.each {
            // One that still reads its data answers with an error. Of any key all nodes of a cluster but one would.
            node.ask(&redis::cmd("PING")).await.map_err(away)?;
        }
        // Without the registry nothing can be placed, whatever else it answers.
        self.forests().await?;
        self.check_registered(|_| true).await
    }

    /// Runs commands, each on the node that has its key. Their replies count only if the forest still is this
    /// process's: that is asked in the same round trip, or in one before where nothing in the command tells the forest
    /// from another one. `sent`: which of them may have been run, also where the future is dropped.
    pub(super) async fn run(
        &self,
        commands: &[Command],
        sent: &Arc<SentCommands>,
    ) -> Result<Vec<RedisReply>, RedisUnavailable> {
        let is_of = |forest: &RegisteredForest| commands.iter().any(|command| command.key.forest == forest.number);
        let fits_any = commands.iter().any(|command| command.what.fits_any_forest());
        self.if_registered(is_of, fits_any, self.run_unchecked(commands, sent)).await
    }

    async fn run_unchecked(
        &self,
        commands: &[Command],
        marks: &Arc<SentCommands>,
    ) -> Result<Vec<RedisReply>, RedisUnavailable> {
        let mut commands = Cow::Borrowed(commands);
        let mut replies: Vec<Option<RedisReply>> = commands.iter().map(|_| None).collect();
        let mut todo: Vec<usize> = (0..commands.len()).collect();
        let mut asked: HashMap<usize, String> = HashMap::new();
        let mut last = RedisUnavailable::of("the nodes of Redis send one another's commands round");
        for attempt in 0..TRIES {
            if attempt > 0 {
                sleep(PAUSE.min(PAUSE * attempt as u32 / 8)).await;
            }
            let nodes = self.nodes().await?;
            let mut sending = self.send(&nodes, &commands, &todo, &asked, marks);
            let (mut is_stale, mut again, mut full) = (false, Vec::new(), 0);
            // What one node refuses is said once all have answered.
            let mut refused = None;
            asked.clear();
            while let Some(sent) = sending.join_next().await {
                let Ok((node, places, sent)) = sent else {
                    return Err(RedisUnavailable::of("the work of asking was ended"));
                };
                let each = match sent {
                    Ok(each) => each,
                    Err(error) => {
                        is_stale = true;
                        last = away(error);
                        for at in places {
                            let is_lost = marks.is_lost(at);
                            let assumed = commands.get(at).and_then(|command| command.what.reply_if_unknown());
                            match assumed.filter(|_| is_lost) {
                                None => again.push(at),
                                Some(reply) => set(&mut replies, at, reply),
                            }
                            if is_lost
                                && commands.get(at).is_some_and(|command| command.what.is_pin())
                                && let Some(pin) = commands.to_mut().get_mut(at)
                            {
                                pin.what.send_again();
                            }
                        }
                        continue;
                    }
                };
                let mut is_unknown = false;
                {
                    let mut unusable = self.unusable.lock();
                    for (at, reply) in places.into_iter().zip(each) {
                        let Some(Command { key, what }) = commands.get(at) else {
                            continue;
                        };
                        if reply.is_refusal() {
                            marks.was_refused(at);
                        }
                        match reply {
                            CommandReply::Done(reply) => {
                                if what.has_pinned(&reply) {
                                    marks.has_pinned(at);
                                }
                                unusable.remove(*key);
                                set(&mut replies, at, reply);
                                continue;
                            }
                            CommandReply::Unusable(reason) => {
                                debug!(reason, "Redis refuses a command for what is at its key");
                                unusable.add(*key);
                                set(&mut replies, at, RedisReply::Unusable);
                                continue;
                            }
                            CommandReply::Elsewhere => is_stale = true,
                            CommandReply::Later => {}
                            CommandReply::Unknown => is_unknown = true,
                            CommandReply::Ask(host) => {
                                asked.insert(at, host);
                            }
                            CommandReply::Denied(reason) | CommandReply::Failed(reason) => {
                                refused = refused.or(Some(RedisUnavailable::of(reason)));
                            }
                            CommandReply::Full(reason) => {
                                full += 1;
                                refused = refused.or(Some(RedisUnavailable::full(reason)));
                            }
                        }
                        again.push(at);
                    }
                }
                if is_unknown && let Err(error) = node.load().await {
                    refused = refused.or(Some(away(error)));
                }
            }
            if let Some(mut refused) = refused {
                if let Extent::Memory { is_all_there } = &mut refused.extent {
                    *is_all_there = attempt == 0 && !is_stale && full == again.len();
                }
                return Err(refused);
            }
            if again.is_empty() {
                let replies: Option<Vec<RedisReply>> = replies.into_iter().collect();
                return replies.ok_or(last);
            }
            if is_stale {
                *self.nodes.write().await = None;
            }
            again.sort_unstable();
            todo = again;
        }
        Err(last)
    }

    /// Sends each node its part, all at once.
    fn send(
        &self,
        nodes: &NodeSet,
        commands: &[Command],
        todo: &[usize],
        asked: &HashMap<usize, String>,
        marks: &Arc<SentCommands>,
    ) -> JoinSet<SentBatch> {
        let mut sending = JoinSet::new();
        let mut elsewhere: HashMap<&str, (Arc<RedisNode>, Vec<usize>, Pipeline)> = HashMap::new();
        let mut todo_of: Vec<Vec<usize>> = vec![Vec::new(); nodes.each.len()];
        for &at in todo {
            let Some(command) = commands.get(at) else {
                continue;
            };
            if let Some(host) = asked.get(&at)
                && let Some(node) = self.node(host)
            {
                let part = elsewhere.entry(host).or_insert_with(|| {
                    let pipeline = Pipeline::new();
                    (node, Vec::new(), pipeline)
                });
                let (_, places, pipeline) = part;
                places.push(at);
                pipeline::add(command, pipeline);
                continue;
            }
            let (key, len) = command.key.bytes();
            if let Some(todo) = todo_of.get_mut(nodes.node_of(key.get(..len).unwrap_or_default())) {
                todo.push(at);
            }
        }
        let mut parts: Vec<(Arc<RedisNode>, NodeBatch)> = Vec::new();
        let unusable = self.unusable.lock();
        for (node, todo) in nodes.each.iter().zip(todo_of) {
            let (first, count) = (parts.len(), todo.len().div_ceil(COMMANDS));
            // The keys of one command have to be of one slot, where there are any.
            parts.extend((0..count).map(|_| (node.clone(), NodeBatch::new(nodes.slots.is_empty()))));
            for at in todo {
                let Some(command) = commands.get(at) else {
                    continue;
                };
                // Several are run in any order: all commands of a key are in one.
                let part = first + splitmix64(command.key.fingerprint.0) as usize % count;
                if let Some((_, part)) = parts.get_mut(part) {
                    part.add(at, command, unusable.has(command.key));
                }
            }
        }
        let is_sent_once = |&at: &usize| commands.get(at).is_some_and(|command| command.what.is_sent_once());
        for (node, places, pipeline) in elsewhere.into_values() {
            let (marks, is_sent_once) = (marks.clone(), places.iter().any(is_sent_once));
            sending.spawn(async move {
                let values = async {
                    let connection = node.reach(&marks, &places, is_sent_once).await?;
                    node.send_asking_over(connection, &pipeline).await
                };
                let replies = values.await.map(|values| values.into_iter().map(pipeline::read).collect());
                (node, places, replies)
            });
        }
        for (node, part) in parts {
            let (marks, is_sent_once) = (marks.clone(), part.places.iter().any(is_sent_once));
            sending.spawn(async move {
                let (places, pipeline, reads_of) = part.end();
                let values = async {
                    let connection = node.reach(&marks, &places, is_sent_once).await?;
                    node.send_over(connection, &pipeline).await
                };
                let replies = values.await.map(|values| pipeline::replies(values, &reads_of));
                (node, places, replies)
            });
        }
        sending
    }

    /// Keys, and bytes of memory.
    pub(super) async fn size(&self) -> Result<(usize, usize), RedisUnavailable> {
        let nodes = self.nodes().await?;
        let (mut keys, mut bytes) = (0, 0);
        for node in &nodes.each {
            if let Value::Int(count) = node.ask(&redis::cmd("DBSIZE")).await.map_err(away)? {
                keys += usize::try_from(count).unwrap_or_default();
            }
            let info = node.info("memory").await.map_err(away)?;
            let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
            bytes += used.and_then(|used| used.trim().parse::<usize>().ok()).unwrap_or_default();
        }
        Ok((keys, bytes))
    }

    /// The time by the clock of the first node.
    pub(super) async fn time(&self) -> Result<Millis, RedisUnavailable> {
        let nodes = self.nodes().await?;
        let said = match nodes.each.first() {
            Some(node) => node.ask(&redis::cmd("TIME")).await.map_err(away)?,
            None => Value::Nil,
        };
        // Seconds and microseconds.
        let time: Option<(i64, i64)> = redis::from_redis_value(said).ok();
        let millis = time.and_then(|(seconds, micros)| seconds.checked_mul(1_000)?.checked_add(micros / 1_000));
        millis.map(Millis).ok_or_else(|| RedisUnavailable::of("Redis does not say what time it is"))
    }

    /// The state of each node, as it reports it.
    pub(super) async fn states(&self) -> Result<Vec<NodeState>, RedisUnavailable> {
        let nodes = self.nodes().await?;
        let mut states = Vec::with_capacity(nodes.each.len());
        for (at, node) in nodes.each.iter().enumerate() {
            let mut info = String::new();
            for section in ["server", "memory", "persistence", "stats"] {
                info += &node.info(section).await.map_err(away)?;
            }
            let said = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let text = |name: &str| said(name).map(str::trim).unwrap_or_default().to_owned();
            let number = |name: &str| text(name).parse().unwrap_or_default();
            states.push(NodeState {
                name: format!("{} of {}", at + 1, nodes.each.len()),
                version: text("redis_version"),
                policy: text("maxmemory_policy"),
                maxmemory: number("maxmemory"),
                used: number("used_memory"),
                evicted: number("evicted_keys"),
                is_persistent: text("aof_enabled") == "1",
            });
        }
        Ok(states)
    }

    pub(super) async fn nodes(&self) -> Result<Arc<NodeSet>, RedisUnavailable> {
        if let Some(nodes) = &*self.nodes.read().await {
            return Ok(nodes.clone());
        }
        let _one_asks = self.asking.lock().await;
        if let Some(nodes) = &*self.nodes.read().await {
            return Ok(nodes.clone());
        }
        let found = self.find().await;
        let found = Arc::new(found.map_err(|error| self.unfound(error))?);
        *self.nodes.write().await = Some(found.clone());
        Ok(found)
    }

    /// The error of discovering the nodes.
    fn unfound(&self, error: RedisError) -> RedisUnavailable {
        // A TLS server closes plain connections; a plain server waits for a line end.
        let is_hung_up = error.is_connection_dropped() && !error.is_connection_refusal();
        if self.made.load(Relaxed) > 0 {
            return away(error);
        }
        let scheme = match self.address.is_tls {
            false if is_hung_up => "if it has TLS, begin the URL with rediss://",
            true if error.is_timeout() => "if it has no TLS, begin the URL with redis://",
            _ => return away(error),
        };
        RedisUnavailable::of(format!("it does not answer ({error}): {scheme}"))
    }

    /// Discards the known nodes, to discover them again.
    pub(super) async fn forget_nodes(&self) {
        *self.nodes.write().await = None;
    }

    /// Asks for the nodes.
    async fn find(&self) -> Result<NodeSet, RedisError> {
        if let Some(master) = &self.address.master {
            let client = self.sentinel(master).await?;
            return Ok(NodeSet { each: vec![Arc::new(RedisNode::of(client, &self.made))], slots: Vec::new() });
        }
        let mut last = None;
        for (host, port) in &self.address.hosts {
            match self.find_by(host, *port).await {
                Ok(nodes) => return Ok(nodes),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| (redis::ErrorKind::InvalidClientConfig, "no host is known").into()))
    }

    async fn find_by(&self, host: &str, port: u16) -> Result<NodeSet, RedisError> {
        let first = self.node_at((host.to_owned(), port))?;
        let info = first.info("cluster").await?;
        if !info.contains("cluster_enabled:1") {
            return Ok(NodeSet { each: vec![first], slots: Vec::new() });
        }
        let mut ask = redis::cmd("CLUSTER");
        ask.arg("SLOTS");
        let Value::Array(ranges) = first.ask(&ask).await? else {
            return Err((redis::ErrorKind::UnexpectedReturnType, "CLUSTER SLOTS gave no list").into());
        };
        let mut nodes = NodeSet { each: Vec::new(), slots: vec![0; SLOTS] };
        let mut known: HashMap<(String, u16), u16> = HashMap::new();
        let mut covered = 0;
        for range in &ranges {
            let Value::Array(range) = range else { continue };
            let [Value::Int(from), Value::Int(to), Value::Array(master), ..] = range.as_slice() else {
                continue;
            };
            let [at, Value::Int(port), ..] = master.as_slice() else {
                continue;
            };
            // A node that does not know its own name is the one that was asked.
            let at = match at {
                Value::BulkString(name) if !name.is_empty() => String::from_utf8_lossy(name).into_owned(),
                _ => host.to_owned(),
            };
            let at = (at, u16::try_from(*port).unwrap_or_default());
            let place = match known.get(&at) {
                Some(&place) => place,
                None => {
                    nodes.each.push(self.node_at(at.clone())?);
                    let place = (nodes.each.len() - 1) as u16;
                    known.insert(at, place);
                    place
                }
            };
            let (from, to) = (usize::try_from(*from), usize::try_from(*to));
            let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
            if let Some(slots) = nodes.slots.get_mut(from..=to) {
                covered += slots.len();
                slots.fill(place);
            }
        }
        if covered < SLOTS {
            return Err((redis::ErrorKind::UnexpectedReturnType, "the cluster has slots that no node serves").into());
        }
        // Where keys are being moved, others are asked as well. Those that have left are forgotten when there are many.
        let is_there = |at: &(String, u16)| known.contains_key(at) || (&*at.0, at.1) == (host, port);
        let mut all = self.known.lock();
        if all.len() > known.len() + ELSEWHERE {
            all.retain(|at, _| is_there(at));
        }
        drop(all);
        Ok(nodes)
    }

    /// A node by `host:port`.
    pub(super) fn node(&self, at: &str) -> Option<Arc<RedisNode>> {
        let (host, port) = at.rsplit_once(':')?;
        self.node_at((host.to_owned(), port.parse().ok()?)).ok()
    }

    fn node_at(&self, at: (String, u16)) -> Result<Arc<RedisNode>, RedisError> {
        let mut known = self.known.lock();
        if let Some(node) = known.get(&at) {
            return Ok(node.clone());
        }
        let node = Arc::new(RedisNode::of(self.client(&at.0, at.1)?, &self.made));
        known.insert(at, node.clone());
        Ok(node)
    }

    fn addr(&self, host: &str, port: u16) -> ConnectionAddr {
        match self.address.is_tls {
            true => ConnectionAddr::TcpTls { host: host.to_owned(), port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host.to_owned(), port),
        }
    }

    fn client(&self, host: &str, port: u16) -> Result<Client, RedisError> {
        let mut login = RedisConnectionInfo::default().set_lib_name("spinney", env!("CARGO_PKG_VERSION"));
        if let Some(user) = &self.address.user {
            login = login.set_username(user);
        }
        if let Some(password) = &self.address.password {
            login = login.set_password(password);
        }
        let info = self.addr(host, port).into_connection_info()?.set_redis_settings(login);
        match &self.ca {
            Some(ca) if self.address.is_tls => Client::build_with_tls(info, self.certificates(ca)),
            _ => Client::open(info),
        }
    }

    fn certificates(&self, ca: &[u8]) -> TlsCertificates {
        TlsCertificates { client_tls: None, root_cert: Some(ca.to_vec()) }
    }

    /// Asks the Sentinels for the master. User and password are the master's, and those of Sentinels that require
    /// them.
    async fn sentinel(&self, master: &str) -> Result<Client, RedisError> {
        let asked = self.sentinels(master)?.build()?.async_get_client().await;
        let wants_login = |error: &RedisError| error.code() == Some("NOAUTH");
        if !asked.as_ref().is_err_and(wants_login) {
            return asked;
        }
        let mut builder = self.sentinels(master)?;
        if let Some(user) = &self.address.user {
            builder = builder.set_client_to_sentinel_username(user);
        }
        if let Some(password) = &self.address.password {
            builder = builder.set_client_to_sentinel_password(password);
        }
        builder.build()?.async_get_client().await
    }

    fn sentinels(&self, master: &str) -> Result<SentinelClientBuilder, RedisError> {
        let hosts = self.address.hosts.iter();
        let hosts = hosts.map(|(host, port)| self.addr(host, *port));
        let mut builder = SentinelClientBuilder::new(hosts, master, SentinelServerType::Master)?;
        if self.address.is_tls {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
            builder = builder.set_client_to_sentinel_tls_mode(TlsMode::Secure);
            if let Some(ca) = &self.ca {
                builder = builder.set_client_to_redis_certificates(self.certificates(ca));
                builder = builder.set_client_to_sentinel_certificates(self.certificates(ca));
            }
        }
        if let Some(user) = &self.address.user {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = &self.address.password {
            builder = builder.set_client_to_redis_password(password);
        }
        Ok(builder)
    }
}

impl RedisNode {
    fn of(client: Client, made: &Arc<AtomicU64>) -> RedisNode {
        RedisNode { client, connection: Mutex::new(None), made: made.clone() }
    }

    async fn info(&self, section: &str) -> Result<String, RedisError> {
        let mut info = redis::cmd("INFO");
        info.arg(section);
        Ok(match self.ask(&info).await? {
            Value::BulkString(text) => String::from_utf8_lossy(&text).into_owned(),
            Value::VerbatimString { text, .. } | Value::SimpleString(text) => text,
            _ => String::new(),
        })
    }
}

fn set(replies: &mut [Option<RedisReply>], at: usize, reply: RedisReply) {
    if let Some(place) = replies.get_mut(at) {
        *place = Some(reply);
    }
}

#[cfg(test)]
mod tests;
