//! Sidecars whose documents have dates of their own, and such with a distance, decide together as one alone does.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::common::redis::Redis;
use crate::common::{self, STAMP_FIELDS, Server, Spinney};
use crate::restart::{check, document, send_as};

/// A report with its date: half a day later each, from January 2024 on.
pub fn dated(n: usize) -> Value {
    let mut document = document(n);
    let (day, hour) = (n / 2, n % 2 * 12);
    let (month, day) = (1 + day / 28, 1 + day % 28);
    document["published"] = json!(format!("2024-{month:02}-{day:02}T{hour:02}:00:00Z"));
    document
}

/// A long text. Every sixtieth is of the same story, and each time another word more has been changed. (Never two of a
/// bulk: they may be placed in another order than they stand there.)
pub fn near(n: usize) -> Value {
    let (story, version) = (n % 60, n / 60);
    let word = |k: usize| {
        let is_changed = (1..=version).any(|change| k == 37 * change);
        let salt = if is_changed { n } else { 0 };
        let mixed = (story * 1_009 + k + 1).wrapping_mul(2_654_435_761) ^ salt.wrapping_mul(40_503);
        format!("w{:x}", mixed & 0xff_ffff)
    };
    let words: Vec<String> = (0..240).map(word).collect();
    let sentences: Vec<String> = words.chunks(12).map(|words| words.join(" ")).collect();
    json!({"content": format!("{}.", sentences.join(". ")), "n": n})
}

/// The stamps of what is stored, by id.
async fn stamps(server: &Server, index: &str) -> BTreeMap<String, Vec<Value>> {
    server.refresh(index).await;
    let stored = server.documents(index).await.into_iter();
    let of = |source: &Value| STAMP_FIELDS.map(|field| source[field].clone()).to_vec();
    stored.map(|(id, source)| (id, of(&source))).collect()
}

struct Kind {
    server: Server,
    client: reqwest::Client,
    label: &'static str,
    options: Vec<&'static str>,
    document: fn(usize) -> Value,
    _redis: Redis,
    sidecars: [Spinney; 2],
    alone: Spinney,
    indices: Vec<String>,
}

impl Kind {
    fn new(label: &'static str, options: &[&'static str], document: fn(usize) -> Value) -> Kind {
        let (upstream, redis) = (common::opensearch(), Redis::start());
        let (shared, own) = (format!("shared-{label}-*"), format!("alone-{label}-*"));
        let serve = |indices: &str, more: &[&str]| {
            let base = ["--upstream", &upstream, "--index", indices];
            let fields = ["--text-field", "content", "--stamp", "full"];
            Spinney::start(&[&base[..], &fields, options, more].concat())
        };
        let url = redis.url();
        Kind {
            server: Server::new(&upstream),
            client: common::http(),
            label,
            options: options.to_vec(),
            document,
            sidecars: [(); 2].map(|()| serve(&shared, &["--forest-store", &url])),
            alone: serve(&own, &[]),
            _redis: redis,
            indices: Vec::new(),
        }
    }

    fn index(&mut self, of: &str) -> String {
        let unique = common::unique_index(of);
        let whose = if of == "alone" { "alone" } else { "shared" };
        let index = format!("{whose}-{}-{unique}", self.label);
        self.indices.push(index.clone());
        index
    }

    async fn send(&self, spinney: &Spinney, index: &str, numbers: &[usize]) {
        let sent = send_as(&self.client, &spinney.url, index, numbers, self.document).await;
        assert_eq!(sent.as_deref(), Some(numbers), "{:?}", self.options);
    }

    /// Bulks in turns to the two, and the same to one alone: the same stamps. Then others to both at the same moment:
    /// one root each.
    async fn is_as_alone(&mut self, arrives_by_date: bool) -> BTreeMap<String, Vec<Value>> {
        let (together, alone) = (self.index("together"), self.index("alone"));
        // The cluster has to know the writers first.
        for spinney in &self.sidecars {
            self.send(spinney, &together, &[0]).await;
            self.send(&self.alone, &alone, &[0]).await;
        }
        let numbers: Vec<usize> = (0..180).collect();
        for (at, bulk) in numbers.chunks(20).enumerate() {
            self.send(&self.sidecars[at % 2], &together, bulk).await;
            self.send(&self.alone, &alone, bulk).await;
        }
        let (mut shared, mut own) = (stamps(&self.server, &together).await, stamps(&self.server, &alone).await);
        let seen = shared.clone();
        if !arrives_by_date {
            // Of two moments.
            let arrival = STAMP_FIELDS.iter().position(|field| *field == "cluster_arrival");
            for stamp in shared.values_mut().chain(own.values_mut()) {
                stamp[arrival.unwrap()] = Value::Null;
            }
        }
        assert_eq!(shared, own);
        let [one, other] = ["one", "other"].map(|of| self.index(of));
        let numbers: Vec<usize> = (300..420).collect();
        for bulk in numbers.chunks(30) {
            tokio::join!(self.send(&self.sidecars[0], &one, bulk), self.send(&self.sidecars[1], &other, bulk),);
        }
        let roots = |stamps: BTreeMap<String, Vec<Value>>| -> Vec<Value> {
            stamps.into_values().map(|mut stamp| stamp.swap_remove(0)).collect()
        };
        let one = roots(stamps(&self.server, &one).await);
        assert_eq!(one, roots(stamps(&self.server, &other).await));
        assert!(one.len() == 120 && one.iter().all(Value::is_string));
        seen
    }

    async fn end(self) {
        for index in &self.indices {
            self.server.delete_index(index).await;
        }
    }
}

#[tokio::test]
async fn sidecars_with_dates_decide_as_one_alone() {
    let clock = ["--clock", "field:published", "--window", "30d"];
    let options = [&clock[..], &["--title-field", "title"]].concat();
    let mut kind = Kind::new("dated", &options, dated);
    let seen = kind.is_as_alone(true).await;
    // What its date says.
    assert_eq!(seen["179"][3], "2024-04-06T12:00:00.000Z", "{:?}", seen["179"]);
    // The clock has gone on by more than a window since the first ones came, for both.
    for sidecar in &kind.sidecars {
        let index = &kind.indices[0];
        for (n, expected) in [(100, "new_root"), (419, "refreshed")] {
            let checked = check(&kind.client, &sidecar.url, index, &dated(n)).await;
            assert_eq!(checked["decision"], expected, "{n}: {checked}");
        }
    }
    kind.end().await;
}

#[tokio::test]
async fn sidecars_with_a_distance_decide_as_one_alone() {
    let mut kind = Kind::new("near", &["--method", "full", "--k", "3"], near);
    let seen = kind.is_as_alone(false).await;
    let differs = |stamp: &&Vec<Value>| {
        let own = stamp[2].as_str().or(stamp[2][0].as_str());
        own != stamp[0].as_str()
    };
    let joined = seen.values().filter(differs).count();
    assert!(joined >= 20, "{joined} of {}: {:?}", seen.len(), seen["1"]);
    kind.end().await;
}
