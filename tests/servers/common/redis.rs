//! Redis for a test: on free ports, without a file that outlives it, gone when the test is.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
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
        for node in &nodes {
            wait_until("the cluster is up", || {
                node.ask("CLUSTER INFO\r\n").contains("cluster_state:ok")
            });
            wait_until("a replica has all that its master has", || {
                let info = node.ask("INFO replication\r\n");
                info.contains("role:master") || info.contains("master_link_status:up")
            });
        }
        Redis {
            nodes,
            is_cluster: true,
        }
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

    /// Stops all nodes as they are: nothing is answered and nothing forgotten. Or lets them go on.
    pub fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen { "STOP" } else { "CONT" };
        for node in &self.nodes {
            // The shell's own `kill`, as for a spinney.
            let sent = Command::new("sh")
                .args(["-c", &format!("kill -{signal} {}", node.child.id())])
                .status()
                .unwrap();
            assert!(sent.success(), "SIG{signal} could not be sent");
        }
    }

    /// Ends a master as a crash would.
    pub fn kill_a_master(&mut self) {
        let masters = |node: &Node| node.ask("INFO replication\r\n").contains("role:master");
        let at = self.nodes.iter().position(masters).expect("a master");
        drop(self.nodes.remove(at));
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
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args([
                "--save",
                "",
                "--appendonly",
                "no",
                "--maxmemory-policy",
                "noeviction",
            ])
            .arg("--dir")
            .arg(&dir)
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is missing: apt-get install redis-server (7 or newer)");
        let node = Node { port, child, dir };
        wait_until("Redis answers", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok() && node.ask("PING\r\n").contains("PONG")
        });
        node
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
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
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
