//! Nodes of a cluster that is being changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::fingerprint::Fingerprint;
use crate::forest::shared::keys::{FoundingToken, Key, KeyKind, KeyOp, Lifetime, PinNonce, RoundFailed};

/// A node of a cluster: what it answers to a command, or that it closes the connection, and how many connections were
/// made to it.
struct Fake {
    port: u16,
    connections: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Fake {
    async fn new(answer: impl Fn(u16, &[String]) -> Option<String> + Send + Sync + 'static) -> Fake {
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

/// Answers each command, until one is not answered.
async fn serve(stream: TcpStream, answer: impl Fn(&[String]) -> Option<String>) {
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
        let Some(told) = answer(&command) else { return };
        if stream.write_all(told.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_cluster_that_moves_keys_gets_one_connection_to_each_node() {
    let target = Fake::new(|_, command| {
        Some(match command[0].as_str() {
            "GET" => "$5\r\nthere\r\n".into(),
            _ => "+OK\r\n".into(),
        })
    })
    .await;
    let to = target.port;
    let source = Fake::new(move |port, command| {
        Some(match command[0].as_str() {
            "GET" => format!("-ASK 0 127.0.0.1:{to}\r\n"),
            "INFO" => "$17\r\ncluster_enabled:1\r\n".into(),
            "CLUSTER" => {
                format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n")
            }
            _ => "+OK\r\n".into(),
        })
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
    node_that_answers(move |_| Some(told.into())).await
}

/// A node that is connected to, and answers functions so, or closes the connection.
async fn node_that_answers(
    function: impl Fn(&[String]) -> Option<String> + Send + Sync + 'static,
) -> (Fake, Connections) {
    let node = Fake::new(move |_, command| match command[0].as_str() {
        "MGET" => Some("*1\r\n$-1\r\n".into()),
        "INFO" => Some("$0\r\n\r\n".into()),
        "FCALL" => function(command),
        _ => Some("+OK\r\n".into()),
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
    (replies, sent.end(RedisUnavailable::of("it is over")).not_run)
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

/// Without that it would count twice, and nobody would release its second use.
#[tokio::test]
async fn a_pin_without_an_answer_is_sent_again_as_the_same_one() {
    let asked: Arc<parking_lot::Mutex<Vec<Vec<String>>>> = Arc::default();
    let seen = asked.clone();
    let (_node, link) = node_that_answers(move |command| {
        let mut seen = seen.lock();
        seen.push(command.to_vec());
        // A connection ends with the first one that it does not answer.
        (seen.len() > 1).then(|| ":1\r\n".into())
    })
    .await;
    let (token, life, nonce) = (FoundingToken(1), Lifetime::Endless, PinNonce::after(0, 77));
    let pin = KeyOp::Pin { token, uses: 1, children: 1, nonce, step: 1, life };
    let hold = KeyOp::Hold { token, uses: 1, children: 1, nonce };
    for what in [pin, hold] {
        asked.lock().clear();
        let sent = Arc::new(SentCommands::of(2));
        // The second one comes after it, and is lost with it.
        let commands =
            [Command { what, ..release(1) }, Command { what: KeyOp::Remove { value: vec![1] }, ..release(1) }];
        assert_eq!(link.run(&commands, &sent).await, Ok(vec![RedisReply::Number(1); 2]));
        let mut asked = std::mem::take(&mut *asked.lock());
        assert_eq!(asked.len(), 3, "{asked:?}");
        let (first, again) = (asked.remove(0), asked.remove(0));
        assert_eq!((first.last().unwrap(), again.last().unwrap()), (&"0".to_owned(), &"1".to_owned()));
        assert_eq!(first[..first.len() - 1], again[..again.len() - 1]);
        let ended = sent.end(RedisUnavailable::of("it is over"));
        assert_eq!((ended.not_run, ended.pinned), (vec![], vec![]), "it may have been run, whatever is answered later");
    }
}

const FULL: &str = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";

/// Holds of so many keys, which are those of 1 and so on.
fn holds(keys: u16) -> Vec<Command> {
    let nonce = PinNonce::after(0, 7);
    let hold = |key| KeyOp::Hold { token: FoundingToken(1), uses: key, children: 1, nonce };
    (1..=keys).map(|key| Command { what: hold(key), ..release(u64::from(key)) }).collect()
}

/// How a round of holds of so many keys fails.
async fn held(link: &Connections, keys: u16) -> RoundFailed {
    let sent = Arc::new(SentCommands::of(usize::from(keys)));
    let why = link.run(&holds(keys), &sent).await.unwrap_err();
    sent.end(why)
}

#[tokio::test]
async fn what_has_pinned_a_root_is_known_though_its_round_fails() {
    let (_node, link) = node_that_answers(|command| {
        Some(match command[3].as_bytes() {
            [.., 1] => ":1\r\n".into(),
            [.., 2] => "$-1\r\n".into(),
            _ => FULL.into(),
        })
    })
    .await;
    let ended = held(&link, 3).await;
    assert_eq!(ended.why.extent, Extent::Memory { is_all_there: true });
    assert_eq!((ended.not_run, ended.pinned), (vec![2], vec![0]), "of the second no root is there");
}

/// A node may have been failed over since: what it has pinned before may be lost.
#[tokio::test]
async fn a_redis_without_memory_is_not_all_there_if_anything_else_is_amiss() {
    let others = [
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-CLUSTERDOWN The cluster is down\r\n",
        "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
        "-ERR Function not found\r\n",
    ];
    for other in others {
        let (_node, link) = node_that_answers(move |command| match command[3].as_bytes() {
            [.., 1] => Some(other.into()),
            _ => Some(FULL.into()),
        })
        .await;
        assert_eq!(held(&link, 2).await.why.extent, Extent::Memory { is_all_there: false }, "{other}");
    }
    let is_first = AtomicBool::new(true);
    let (_node, link) = node_that_answers(move |_| (!is_first.swap(false, Relaxed)).then(|| FULL.into())).await;
    assert_eq!(held(&link, 2).await.why.extent, Extent::Memory { is_all_there: false }, "it was lost before");
}

/// What is not sent again says nothing of the node that was lost.
#[tokio::test]
async fn a_redis_without_memory_is_not_all_there_if_a_node_is_lost() {
    let lost = Fake::new(|_, command| (command[0] != "FCALL").then(|| "+OK\r\n".into())).await;
    let to = lost.port;
    let full = Fake::new(move |port, command| {
        let range = |from: u16, until: u16, port: u16| {
            format!("*3\r\n:{from}\r\n:{until}\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n")
        };
        Some(match command[0].as_str() {
            "INFO" => "$17\r\ncluster_enabled:1\r\n".into(),
            "CLUSTER" => format!("*2\r\n{}{}", range(0, 8_191, port), range(8_192, 16_383, to)),
            "FCALL" => FULL.into(),
            _ => "+OK\r\n".into(),
        })
    });
    let full = full.await;
    let link = Connections::new(Address::parse(&format!("redis://127.0.0.1:{}", full.port)).unwrap(), None);
    let is_upper = |command: &Command| {
        let (key, len) = command.key.bytes();
        slot(&key[..len]) >= 8_192
    };
    let hold = holds(100).into_iter().find(|hold| !is_upper(hold)).unwrap();
    let release = (1..100).map(release).find(is_upper).unwrap();
    let sent = Arc::new(SentCommands::of(2));
    let why = link.run(&[hold, release], &sent).await.unwrap_err();
    assert_eq!(why.extent, Extent::Memory { is_all_there: false });
}

/// That of the URL would be no advice: it has worked.
#[tokio::test]
async fn a_node_that_closes_connections_later_is_not_taken_for_one_with_tls() {
    let is_closing = Arc::new(AtomicBool::new(true));
    let closes = is_closing.clone();
    let node = Fake::new(move |_, command| match command[0].as_str() {
        _ if closes.load(Relaxed) => None,
        "INFO" => Some("$0\r\n\r\n".into()),
        "MGET" => Some("*1\r\n$-1\r\n".into()),
        _ => Some("+OK\r\n".into()),
    });
    let node = node.await;
    let link = Connections::new(Address::parse(&format!("redis://127.0.0.1:{}", node.port)).unwrap(), None);
    let get = [Command { what: KeyOp::Get, ..release(1) }];
    let ask = async || link.run(&get, &Arc::new(SentCommands::of(1))).await;
    assert!(ask().await.unwrap_err().reason.contains("rediss://"));
    is_closing.store(false, Relaxed);
    ask().await.unwrap();
    is_closing.store(true, Relaxed);
    let error = ask().await.unwrap_err();
    assert!(!error.reason.contains("rediss://"), "{error}");
}
