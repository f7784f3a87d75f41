//! Nodes of a cluster that is being changed.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::fingerprint::Fingerprint;
use crate::forest::shared::keys::{FoundingToken, Key, KeyKind, KeyOp};

/// A node of a cluster: what it answers to a command, and how many connections were made to it.
struct Fake {
    port: u16,
    connections: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Fake {
    async fn new(answer: impl Fn(u16, &str) -> String + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer));
        let count = connections.clone();
        let serving = tokio::spawn(async move {
            let mut served = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Relaxed);
                let answer = answer.clone();
                served.spawn(serve(stream, move |command| answer(port, command)));
            }
        });
        Fake { port, connections, serving }
    }

    /// Closes its port and all connections.
    async fn end(self) {
        self.serving.abort();
        let _ = self.serving.await;
    }
}

/// Answers each command by its name.
async fn serve(stream: TcpStream, answer: impl Fn(&str) -> String) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        let parts: usize = line.trim()[1..].parse().unwrap();
        let mut command = Vec::new();
        for _ in 0..parts {
            let mut line = String::new();
            stream.read_line(&mut line).await.unwrap();
            let mut part = vec![0; line.trim()[1..].parse::<usize>().unwrap() + 2];
            stream.read_exact(&mut part).await.unwrap();
            part.truncate(part.len() - 2);
            command.push(String::from_utf8_lossy(&part).into_owned());
        }
        let told = answer(&command[0]);
        if stream.write_all(told.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_cluster_that_moves_keys_gets_one_connection_to_each_node() {
    let target = Fake::new(|_, command| match command {
        "GET" => "$5\r\nthere\r\n".into(),
        _ => "+OK\r\n".into(),
    })
    .await;
    let to = target.port;
    let source = Fake::new(move |port, command| match command {
        "GET" => format!("-ASK 0 127.0.0.1:{to}\r\n"),
        "INFO" => "$17\r\ncluster_enabled:1\r\n".into(),
        "CLUSTER" => {
            format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n")
        }
        _ => "+OK\r\n".into(),
    })
    .await;
    let address = Address::parse(&format!("redis://127.0.0.1:{}", source.port)).unwrap();
    let link = Connections::new(address, None);
    let get = |fingerprint| Command {
        key: Key { forest: 0, fingerprint: Fingerprint(fingerprint), kind: KeyKind::Node },
        what: KeyOp::Get,
    };
    let commands: Vec<Command> = (0..100).map(get).collect();
    for _ in 0..3 {
        let replies = link.run(&commands, &Arc::new(SentCommands::of(commands.len()))).await.unwrap();
        assert_eq!(replies, vec![RedisReply::Bytes(b"there".to_vec()); 100]);
        // The slots are asked for again, as after a command that was sent elsewhere.
        link.forget_nodes().await;
    }
    let made = [&source, &target].map(|node| node.connections.load(Relaxed));
    assert_eq!(made, [1, 1]);
}

fn release(fingerprint: u64) -> Command {
    Command {
        key: Key { forest: 0, fingerprint: Fingerprint(fingerprint), kind: KeyKind::Node },
        what: KeyOp::Release { token: FoundingToken(1), uses: 1 },
    }
}

/// A node that is connected to, and answers functions so.
async fn node_that_says(told: &'static str) -> (Fake, Connections) {
    let node = Fake::new(move |_, command| match command {
        "MGET" => "*1\r\n$-1\r\n".into(),
        "INFO" => "$0\r\n\r\n".into(),
        "FCALL" => told.into(),
        _ => "+OK\r\n".into(),
    });
    let node = node.await;
    let link = Connections::new(Address::parse(&format!("redis://127.0.0.1:{}", node.port)).unwrap(), None);
    let get = Command { what: KeyOp::Get, ..release(1) };
    let replies = link.run(&[get], &Arc::new(SentCommands::of(1))).await;
    assert_eq!(replies, Ok(vec![RedisReply::Nothing]));
    (node, link)
}

/// What is said of two releases, and which of them were certainly not run.
async fn released(link: &Connections) -> (Result<Vec<RedisReply>, RedisUnavailable>, Vec<usize>) {
    let sent = Arc::new(SentCommands::of(2));
    let replies = link.run(&[release(1), release(2)], &sent).await;
    (replies, sent.end())
}

#[tokio::test]
async fn a_release_that_was_refused_is_known_not_to_be_done() {
    let refusals = [
        "-CLUSTERDOWN The cluster is down\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-MASTERDOWN Link with MASTER is down\r\n",
        "-READONLY You can't write against a read only replica.\r\n",
        "-NOPERM this user has no permissions\r\n",
        "-MISCONF Redis is configured to save RDB snapshots\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-NOREPLICAS Not enough good replicas to write.\r\n",
        "-NOAUTH Authentication required.\r\n",
        "-BUSY Redis is busy running a script.\r\n",
        "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
    ];
    let mut asked = JoinSet::new();
    for told in refusals {
        asked.spawn(async move {
            let (_node, link) = node_that_says(told).await;
            (told, released(&link).await)
        });
    }
    while let Some(answered) = asked.join_next().await {
        let (told, (replies, not_run)) = answered.unwrap();
        assert!(replies.is_err(), "{told}: {replies:?}");
        assert_eq!(not_run, [0, 1], "{told}");
    }
}

/// The connection is found closed before anything goes over it, and then none can be made.
#[tokio::test]
async fn a_release_that_no_node_got_is_known_not_to_be_done() {
    let (node, link) = node_that_says(":-1\r\n").await;
    assert_eq!(released(&link).await, (Ok(vec![RedisReply::Number(-1); 2]), Vec::new()));
    node.end().await;
    let (replies, not_run) = released(&link).await;
    assert!(replies.is_err(), "{replies:?}");
    assert_eq!(not_run, [0, 1]);
}

#[tokio::test]
async fn a_release_without_an_answer_may_have_been_done() {
    let (_node, link) = node_that_says("").await;
    assert_eq!(released(&link).await, (Ok(vec![RedisReply::Nothing; 2]), Vec::new()));
    // Of no code that Redis has: a proxy says so of what it has passed on.
    let (_node, link) = node_that_says("-ERR upstream failure\r\n").await;
    let (replies, not_run) = released(&link).await;
    assert!(replies.is_err(), "{replies:?}");
    assert_eq!(not_run, Vec::<usize>::new());
}
