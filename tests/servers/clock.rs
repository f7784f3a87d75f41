//! Sidecars that are started with a wrong clock, where the right time is known from elsewhere.

use reqwest::Client;
use serde_json::{Value, json};
use spinney::time::{Millis, format_date};

use crate::common::moved_clock::MovedClock;
use crate::common::redis::Redis;
use crate::common::{self, Server, Spinney};
use crate::restart::{DataDir, arguments, document, epoch_millis, send_as, stats};

const DAY: i64 = 86_400;

/// Starts one whose clock is ahead.
fn start_ahead(clock: &MovedClock, seconds: i64, args: &[&str]) -> Spinney {
    let variables = clock.ahead_by(seconds);
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
    Spinney::start_with(&variables, args)
}

/// A document with a date, so many seconds from now.
fn dated(n: usize, seconds: i64) -> Value {
    let mut document = document(n);
    document["published"] = json!(format_date(Millis(epoch_millis() + seconds * 1_000)));
    document
}

async fn nodes(client: &Client, spinney: &Spinney, index: &str) -> u64 {
    stats(client, &spinney.url).await["forests"][index]["nodes"].as_u64().unwrap()
}

/// Keys are kept until a moment: one that is over for Redis is not kept at all.
#[tokio::test]
async fn what_a_sidecar_with_a_wrong_clock_places_is_kept() {
    let (upstream, client) = (common::opensearch(), common::http());
    let server = Server::new(&upstream);
    let clock = MovedClock::new("moved-clock-shared");
    for seconds in [0, 59 * 60, -59 * 60, -2 * 3_600, 2 * 3_600, -10 * DAY, 10 * DAY, -50 * 365 * DAY] {
        let redis = Redis::start();
        let index = common::unique_index("moved-clock");
        let url = redis.url();
        let args = ["--upstream", &upstream, "--index", &index, "--forest-store", &url, "--window", "1h"];
        let spinney = start_ahead(&clock, seconds, &args);
        if seconds.abs() > 3_600 {
            spinney.log_line("an error", |line| line.contains("is not believed") && line.contains("another time"));
        }
        let numbers: Vec<usize> = (0..30).collect();
        for numbers in [&numbers[..1], &numbers[1..]] {
            send_as(&client, &spinney.url, &index, numbers, document).await.unwrap();
        }
        let keys: usize = redis.command("DBSIZE").trim().trim_start_matches(':').parse().unwrap();
        assert!(keys > 60, "{seconds}: {keys} keys");
        server.delete_index(&index).await;
    }
}

/// Where dates count no document may be further ahead than a day: a machine whose clock is weeks ahead would let one
/// through, and the forest's clock never goes back.
#[tokio::test]
async fn a_date_is_not_believed_because_the_clock_is_wrong() {
    let (upstream, client) = (common::opensearch(), common::http());
    let server = Server::new(&upstream);
    let clock = MovedClock::new("moved-clock-dates");
    let redis = Redis::start();
    let (url, dir) = (redis.url(), DataDir::new("moved-clock"));
    for is_shared in [false, true] {
        let index = common::unique_index("moved-dates");
        let dates = ["--clock", "field:published", "--window", "7d"];
        let shared = ["--upstream", &upstream, "--index", &index, "--forest-store", &url, "--text-field", "content"];
        let args = match is_shared {
            true => [&shared[..], &dates].concat(),
            false => arguments(&upstream, &index, dir.path(), &dates),
        };
        let mut spinney = Spinney::start(&args);
        let numbers: Vec<usize> = (0..30).collect();
        for numbers in [&numbers[..1], &numbers[1..]] {
            send_as(&client, &spinney.url, &index, numbers, |n| dated(n, 0)).await.unwrap();
        }
        let before = nodes(&client, &spinney, &index).await;
        assert_eq!(spinney.terminate(), Some(0));
        let spinney = start_ahead(&clock, 30 * DAY, &args);
        spinney.log_line("an error", |line| line.contains("is not believed") && line.contains("another time"));
        for (n, days) in [(100, 0), (101, 30)] {
            send_as(&client, &spinney.url, &index, &[n], |n| dated(n, days * DAY - 3_600)).await.unwrap();
        }
        let after = nodes(&client, &spinney, &index).await;
        assert!(after > before, "{before}, then {after}");
        server.delete_index(&index).await;
    }
}
