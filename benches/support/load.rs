//! The load: bulks made before the clock starts, several in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use indicatif::ProgressBar;
use tokio::task::JoinSet;

use super::documents::Documents;
use super::http::Connection;

/// Documents of one bulk.
pub const BULK: usize = 1_000;

/// `count` bulks of the next documents. The server chooses the ids: that is its fastest way, so a proxy's costs show
/// most.
pub fn bulks(documents: &mut Documents, count: usize) -> Arc<[Bytes]> {
    let bulk = |_| {
        let mut body = Vec::with_capacity(BULK * 2_600);
        for _ in 0..BULK {
            body.extend_from_slice(b"{\"index\":{}}\n");
            documents.write_next(&mut body);
        }
        body.shrink_to_fit();
        Bytes::from(body)
    };
    (0..count).map(bulk).collect()
}

/// What one load brought: the time from the first byte sent to the last answer read, and every answer.
pub struct Loaded {
    pub elapsed: Duration,
    pub answers: Vec<Bytes>,
}

/// Sends every bulk once to `path` at `authority`, `in_flight` at a time, each of them on its own open connection.
pub async fn load(
    authority: &str,
    path: &str,
    bodies: &Arc<[Bytes]>,
    in_flight: usize,
    progress: &ProgressBar,
) -> anyhow::Result<Loaded> {
    let mut connections = Vec::new();
    for _ in 0..in_flight {
        connections.push(Connection::open(authority).await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let mut senders = JoinSet::new();
    let started = Instant::now();
    for mut connection in connections {
        let (next, bodies, path, progress) = (next.clone(), bodies.clone(), path.to_owned(), progress.clone());
        senders.spawn(async move {
            let mut answers = Vec::new();
            while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                answers.push(connection.bulk(&path, body.clone()).await?);
                progress.inc(1);
            }
            anyhow::Ok(answers)
        });
    }
    let mut answers = Vec::with_capacity(bodies.len());
    while let Some(sender) = senders.join_next().await {
        answers.extend(sender??);
    }
    Ok(Loaded { elapsed: started.elapsed(), answers })
}
