//! Redis servers of a benchmark's own, without persistence; they end with it.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One server.
pub struct Node {
    pub port: u16,
    child: Child,
}

impl Node {
    fn start(work: &Path, options: &[&str]) -> Node {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port = 10_000 + port % 20_000;
        let dir = work.join(port.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "no", "--dir"])
            .arg(dir)
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is missing: apt-get install redis-server (7 or newer)");
        let node = Node { port, child };
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "redis-server did not start");
            std::thread::yield_now();
        }
        node
    }

    /// A figure of `INFO`.
    pub fn info(&self, section: &str, name: &str) -> f64 {
        let port = self.port.to_string();
        let info = Command::new("redis-cli").args(["-p", &port, "info", section]).output();
        let info = String::from_utf8(info.expect("redis-cli is there").stdout).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap().trim().parse().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One server alone, or a cluster of so many masters, with a folder each in `work`.
pub fn nodes(work: &Path, masters: usize) -> Vec<Node> {
    if masters == 1 {
        return vec![Node::start(work, &[])];
    }
    let nodes: Vec<Node> = (0..masters).map(|_| Node::start(work, &["--cluster-enabled", "yes"])).collect();
    let hosts = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port));
    let made = Command::new("redis-cli")
        .args(["--cluster", "create"])
        .args(hosts)
        .arg("--cluster-yes")
        .output()
        .expect("redis-cli is missing: apt-get install redis-tools");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
    while nodes.iter().any(|node| node.info("cluster", "cluster_enabled") != 1.0) {
        std::thread::yield_now();
    }
    nodes
}

/// Where they are.
pub fn url(nodes: &[Node]) -> String {
    let hosts: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    format!("redis://{}", hosts.join(","))
}
