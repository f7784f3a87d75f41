//! Nodes of a cluster that is being changed.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::fingerprint::Fingerprint;
use crate::forest::shared::keys::{Key, KeyKind, KeyOp};

/// A node of a cluster: what it answers to a command, and how many connections were made to it.
struct Fake {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Fake {
    async fn new(answer: impl Fn(u16, &str) -> String + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer));
        let count = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Relaxed);
                let answer = answer.clone();
                tokio::spawn(serve(stream, move |command| answer(port, command)));
            }
        });
        Fake { port, connections }
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
        let replies = link.run(&commands).await.unwrap();
        assert_eq!(replies, vec![RedisReply::Bytes(b"there".to_vec()); 100]);
        // The slots are asked for again, as after a command that was sent elsewhere.
        link.forget_nodes().await;
    }
    let made = [&source, &target].map(|node| node.connections.load(Relaxed));
    assert_eq!(made, [1, 1]);
}
