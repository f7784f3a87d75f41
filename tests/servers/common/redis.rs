//! Redis for a test: on free ports, without a file that outlives it, gone when the test is.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{scratch, wait_until};

/// One node, or a cluster of masters.
pub struct Redis {
    nodes: Vec<Node>,
    is_cluster: bool,
}

struct Node {
    port: u16,
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
        Redis {
            nodes: vec![Node::start(port, &[])],
            is_cluster: false,
        }
    }

    /// A cluster of so many masters without replicas.
    pub fn cluster(masters: usize) -> Redis {
        Redis::replicated(masters, 0)
    }

    /// A cluster of so many masters, each with so many replicas, one of which takes its place two seconds after it has gone.
    pub fn replicated(masters: usize, replicas: usize) -> Redis {
        let options = [
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "2000",
            "--repl-diskless-sync-delay",
            "0",
        ];
        let node = |_| Node::start(free_port(), &options);
        let nodes: Vec<Node> = (0..masters * (1 + replicas)).map(node).collect();
        let hosts = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port));
        let made = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(hosts)
            .args(["--cluster-replicas", &replicas.to_string(), "--cluster-yes"])
            .output()
            .expect("redis-cli is missing: apt-get install redis-tools");
        let said = String::from_utf8_lossy(&made.stdout).into_owned();
        assert!(made.status.success(), "{said}");
        let redis = Redis {
            nodes,
            is_cluster: true,
        };
        redis.wait_until_ready();
        redis
    }

    /// For `--forest-store`.
    pub fn url(&self) -> String {
        let hosts = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port));
        format!("redis://{}", hosts.collect::<Vec<_>>().join(","))
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
        for node in self.nodes.iter().filter(|_| self.is_cluster) {
            wait_until("the cluster is up", || {
                node.ask("CLUSTER INFO\r\n").contains("cluster_state:ok")
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
            answer
                .trim()
                .trim_start_matches(':')
                .parse()
                .expect("a number")
        };
        self.nodes.iter().map(size).sum()
    }

    /// Whether its keys are spread over several nodes.
    pub fn is_cluster(&self) -> bool {
        self.is_cluster
    }
}

impl Node {
    fn start(port: u16, options: &[&str]) -> Node {
        let dir = scratch("redis");
        std::fs::create_dir_all(&dir).unwrap();
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let child = launch(port, &dir, &options);
        let node = Node {
            port,
            options,
            child,
            dir,
        };
        node.wait_until_it_answers();
        node
    }

    fn wait_until_it_answers(&self) {
        wait_until("Redis answers", || {
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
                && self.ask("PING\r\n").contains("PONG")
        });
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// With what it has in its folder: of a cluster its nodes, and nothing else.
    fn restart(&mut self) {
        self.child = launch(self.port, &self.dir, &self.options);
        self.wait_until_it_answers();
    }

    fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen { "STOP" } else { "CONT" };
        // The shell's own `kill`, as for a spinney.
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{signal} {}", self.child.id())])
            .status()
            .unwrap();
        assert!(sent.success(), "SIG{signal} could not be sent");
    }

    fn ask(&self, command: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
            return String::new();
        };
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let _ = stream.write_all(format!("{command}QUIT\r\n").as_bytes());
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

fn launch(port: u16, dir: &Path, options: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no"])
        .args(["--maxmemory-policy", "noeviction"])
        .arg("--dir")
        .arg(dir)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is missing: apt-get install redis-server (7 or newer)")
}

/// Below the ports that the system gives out by itself, and so that the bus of a cluster, 10,000 above, is a port as well.
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
