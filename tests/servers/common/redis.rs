//! Redis for a test: on free ports, without a file that outlives it, gone when the test is.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::locks::{ADMIN, LOGIN, Locks};
use super::{scratch, wait_until};

/// One node, a cluster of masters, or a master with a replica and Sentinels.
pub struct Redis {
    nodes: Vec<Node>,
    /// They know the master as `spinney`.
    sentinels: Vec<Node>,
    is_cluster: bool,
    locks: Option<Locks>,
}

struct Node {
    /// For clients; with TLS, if it has locks.
    port: u16,
    /// For the test.
    plain: u16,
    /// The password that the test needs.
    password: Option<&'static str>,
    options: Vec<String>,
    child: Child,
    dir: PathBuf,
}

impl Redis {
    /// A node of its own.
    pub fn start() -> Redis {
        Redis::start_at(free_port())
    }

    /// The same in the place of one that has ended.
    pub fn start_at(port: u16) -> Redis {
        Redis { nodes: vec![Node::start(port, &[], None)], sentinels: Vec::new(), is_cluster: false, locks: None }
    }

    /// A node of its own that takes users with passwords, by TLS.
    pub fn locked() -> Redis {
        let locks = Locks::new();
        Redis {
            nodes: vec![Node::start(free_port(), &[], Some(&locks))],
            sentinels: Vec::new(),
            is_cluster: false,
            locks: Some(locks),
        }
    }

    /// A master, its replica, and three Sentinels, which have that take its place a second after it has gone.
    pub fn behind_sentinels(locks: Option<Locks>) -> Redis {
        let master = Node::start(free_port(), &[], locks.as_ref());
        let port = master.port.to_string();
        let of_master = ["--replicaof", "127.0.0.1", &port];
        let diskless = ["--repl-diskless-sync-delay", "0"];
        let options = [&of_master[..], &diskless].concat();
        let replica = Node::start(free_port(), &options, locks.as_ref());
        let sentinel = |_| Node::sentinel(&port, locks.as_ref());
        let redis =
            Redis { nodes: vec![master, replica], sentinels: (0..3).map(sentinel).collect(), is_cluster: false, locks };
        redis.wait_until_ready();
        for sentinel in &redis.sentinels {
            wait_until("the Sentinels know each other", || {
                let seen = sentinel.ask("SENTINEL MASTER spinney\r\n");
                let is = |name, count| seen.contains(&format!("{name}\r\n$1\r\n{count}\r\n"));
                is("num-slaves", 1) && is("num-other-sentinels", 2)
            });
        }
        redis
    }

    /// A cluster of so many masters without replicas.
    pub fn cluster(masters: usize) -> Redis {
        Redis::replicated(masters, 0)
    }

    /// A cluster of so many masters, each with so many replicas, one of which takes its place two seconds after it has
    /// gone.
    pub fn replicated(masters: usize, replicas: usize) -> Redis {
        Redis::clustered(masters, replicas, None)
    }

    /// A cluster of so many masters that take users with passwords, by TLS.
    pub fn locked_cluster(masters: usize) -> Redis {
        Redis::clustered(masters, 0, Some(Locks::new()))
    }

    fn clustered(masters: usize, replicas: usize, locks: Option<Locks>) -> Redis {
        let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"];
        let tls = ["--tls-cluster", if locks.is_some() { "yes" } else { "no" }];
        let options = [&options[..], &tls].concat();
        let node = |_| Node::start(free_port(), &options, locks.as_ref());
        let nodes: Vec<Node> = (0..masters * (1 + replicas)).map(node).collect();
        let hosts = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port));
        let made = Command::new("redis-cli")
            .args(locks.as_ref().map(Locks::of_client).unwrap_or_default())
            .args(["--cluster", "create"])
            .args(hosts)
            .args(["--cluster-replicas", &replicas.to_string(), "--cluster-yes"])
            .output()
            .expect("redis-cli is missing: apt-get install redis-tools");
        let said = String::from_utf8_lossy(&made.stdout).into_owned();
        assert!(made.status.success(), "{said}");
        let redis = Redis { nodes, sentinels: Vec::new(), is_cluster: true, locks };
        redis.wait_until_ready();
        redis
    }

    /// For `--forest-store`.
    pub fn url(&self) -> String {
        let asked = if self.sentinels.is_empty() { &self.nodes } else { &self.sentinels };
        let hosts = asked.iter().map(|node| format!("127.0.0.1:{}", node.port));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let (tls, login) = if self.locks.is_some() { ("s", LOGIN) } else { ("", "") };
        match self.sentinels.is_empty() {
            true => format!("redis{tls}://{login}{hosts}"),
            false => format!("redis{tls}+sentinel://{login}{hosts}/spinney"),
        }
    }

    /// For `--forest-store-ca`, where there is TLS.
    pub fn ca(&self) -> Option<PathBuf> {
        self.locks.as_ref().map(Locks::ca)
    }

    /// What the user for spinney was not allowed to do: the objects of `ACL LOG`.
    pub fn denied(&self) -> Vec<String> {
        let of_node = |node: &Node| {
            let log = node.ask("ACL LOG\r\n");
            let words: Vec<String> = log.lines().map(str::to_owned).collect();
            let objects = words.iter().zip(words.iter().skip(2));
            let objects = objects.filter(|(name, _)| *name == "object");
            objects.map(|(_, object)| object.clone()).collect::<Vec<_>>()
        };
        self.nodes.iter().flat_map(of_node).collect()
    }

    /// Has its first node do something.
    pub fn command(&self, command: &str) -> String {
        self.nodes[0].ask(&format!("{command}\r\n"))
    }

    /// Has all of its nodes do something.
    pub fn command_all(&self, command: &str) {
        for node in &self.nodes {
            node.ask(&format!("{command}\r\n"));
        }
    }

    /// Where it is to be asked without TLS.
    pub fn plain_port(&self) -> u16 {
        self.nodes[0].plain
    }

    /// Of its first node.
    pub fn port(&self) -> u16 {
        self.nodes[0].port
    }

    /// Of all of them.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.nodes.iter().map(|node| node.port)
    }

    /// Stops all nodes as they are: nothing is answered and nothing forgotten. Or lets them go on.
    pub fn freeze(&self, is_frozen: bool) {
        for node in &self.nodes {
            node.freeze(is_frozen);
        }
    }

    /// Ends a master as a crash would.
    pub fn kill_a_master(&mut self) {
        let at = self.a_node_that_is("master");
        drop(self.nodes.remove(at));
    }

    /// Ends a replica as a crash would.
    pub fn kill_a_replica(&mut self) {
        let at = self.a_node_that_is("slave");
        drop(self.nodes.remove(at));
    }

    /// Stops a master until a replica has taken its place, then lets it go on.
    pub fn freeze_a_master(&self) {
        let frozen = &self.nodes[self.a_node_that_is("master")];
        frozen.freeze(true);
        let others = || self.nodes.iter().filter(|node| node.port != frozen.port);
        let name = format!("127.0.0.1:{}@", frozen.port);
        wait_until("a replica has taken the master's place", || {
            others().all(|node| {
                let nodes = node.ask("CLUSTER NODES\r\n");
                let line = nodes.lines().find(|line| line.contains(&name));
                // Its slots stand behind the eight other words of its line.
                line.is_some_and(|line| line.split(' ').count() == 8)
            })
        });
        frozen.freeze(false);
    }

    /// Ends all nodes as a crash would, and starts them again in their places; they have forgotten everything.
    pub fn restart_empty(&mut self) {
        self.nodes.iter_mut().for_each(Node::kill);
        self.nodes.iter_mut().for_each(Node::restart);
        self.wait_until_ready();
    }

    /// The same with one master alone.
    pub fn restart_a_master_empty(&mut self) {
        let at = self.a_node_that_is("master");
        self.nodes[at].kill();
        self.nodes[at].restart();
        self.wait_until_ready();
    }

    fn a_node_that_is(&self, role: &str) -> usize {
        let role = format!("role:{role}");
        let is = |node: &Node| node.ask("INFO replication\r\n").contains(&role);
        self.nodes.iter().position(is).expect("a node of that role")
    }

    fn wait_until_ready(&self) {
        for node in &self.nodes {
            wait_until("the cluster is up", || {
                !self.is_cluster || node.ask("CLUSTER INFO\r\n").contains("cluster_state:ok")
            });
            wait_until("a replica has all that its master has", || {
                let info = node.ask("INFO replication\r\n");
                info.contains("role:master") || info.contains("master_link_status:up")
            });
        }
    }

    /// Keys of all nodes.
    pub fn keys(&self) -> usize {
        let size = |node: &Node| -> usize {
            let answer = node.ask("DBSIZE\r\n");
            answer.trim().trim_start_matches(':').parse().expect("a number")
        };
        self.nodes.iter().map(size).sum()
    }

    /// Whether its keys are spread over several nodes.
    pub fn is_cluster(&self) -> bool {
        self.is_cluster
    }
}

impl Node {
    fn start(port: u16, options: &[&str], locks: Option<&Locks>) -> Node {
        let (dir, users) = (scratch("redis"), locks.is_some());
        std::fs::create_dir_all(&dir).unwrap();
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let users = if users { Locks::of_users() } else { Vec::new() };
        Node::start_in(dir, port, [options, users].concat(), locks)
    }

    /// Of the master at this port.
    fn sentinel(master: &str, locks: Option<&Locks>) -> Node {
        let dir = scratch("sentinel");
        std::fs::create_dir_all(&dir).unwrap();
        // It writes there what it learns.
        let mut file = format!(
            "sentinel monitor spinney 127.0.0.1 {master} 2\nsentinel down-after-milliseconds spinney 1000\nsentinel \
             failover-timeout spinney 4000\n"
        );
        if locks.is_some() {
            file += &format!("sentinel auth-pass spinney {ADMIN}\n");
        }
        std::fs::write(dir.join(SENTINEL), file).unwrap();
        let mut node = Node::start_in(dir, free_port(), Vec::new(), locks);
        node.password = None;
        node
    }

    fn start_in(dir: PathBuf, port: u16, mut options: Vec<String>, locks: Option<&Locks>) -> Node {
        let mut plain = port;
        if let Some(locks) = locks {
            plain = free_port();
            options.extend(locks.of_node(port));
        }
        let child = launch(plain, &dir, &options);
        let mut node = Node { port, plain, password: locks.map(|_| ADMIN), options, child, dir };
        node.wait_until_it_answers();
        node
    }

    fn wait_until_it_answers(&mut self) {
        wait_until("Redis answers", || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "redis-server has ended: apt-get install redis-server (7 or newer)");
            TcpStream::connect(("127.0.0.1", self.plain)).is_ok() && self.ask("PING\r\n").contains("PONG")
        });
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// With what it has in its folder: of a cluster its nodes, and nothing else.
    fn restart(&mut self) {
        self.child = launch(self.plain, &self.dir, &self.options);
        self.wait_until_it_answers();
    }

    fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen { "STOP" } else { "CONT" };
        // The shell's own `kill`, as for a spinney.
        let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", self.child.id())]).status().unwrap();
        assert!(sent.success(), "SIG{signal} could not be sent");
    }

    fn ask(&self, command: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.plain)) else {
            return String::new();
        };
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let login = self.password.map(|password| format!("AUTH {password}\r\n"));
        let login = login.unwrap_or_default();
        let _ = stream.write_all(format!("{login}{command}QUIT\r\n").as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.replace("+OK\r\n", "")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The file of a Sentinel in its folder.
const SENTINEL: &str = "sentinel.conf";

/// Replaces the shell by the program that its arguments name. That ends when the pipe to the shell does: with the value
/// that holds it, or with the test itself, however that ends.
const LEASHED: &str = r#"exec 3<&0; (read -r _ <&3; kill -9 $$) >/dev/null 2>&1 & exec "$@" 3<&- </dev/null"#;

fn launch(port: u16, dir: &Path, options: &[String]) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", LEASHED, "sh", "redis-server"]);
    let file = dir.join(SENTINEL);
    match file.exists() {
        true => command.arg(file).arg("--sentinel"),
        false => command.args(["--save", "", "--appendonly", "no"]).args(["--maxmemory-policy", "noeviction"]),
    };
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .arg("--dir")
        .arg(dir)
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("sh runs")
}

/// Below the ports that the system gives out by itself, and so that the bus of a cluster, 10,000 above, is a port as
/// well.
fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let port = 10_000 + port % 20_000;
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}
