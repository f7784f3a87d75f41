//! Those whom an attack must not hurt: a writer with valid credentials, a client whose requests are only relayed, and a
//! prober of `/_spinney/_health`. Each of them runs from the beginning of a case to its end, and what it waited for is
//! kept by whether there was an attack meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::requests::{Caller, pause};
use crate::support::answers;
use crate::support::documents::Documents;
use crate::support::http::Connection;
use crate::support::load::{self, BULK};

/// Seed of the honest writer's documents.
pub const HONEST: u64 = 21;

/// A bulk that has not been taken after so long is counted with this time and tried again.
const BULK_PATIENCE: Duration = Duration::from_secs(60);
/// The same of a small request.
const PROBE_PATIENCE: Duration = Duration::from_secs(10);
/// Between two attempts, as a client of the cluster's would wait, only shorter.
const RETRY: Duration = Duration::from_millis(20);
/// Between two small requests.
const PROBE_EVERY: Duration = Duration::from_millis(20);

/// What a time belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Nothing counts: before the first phase, and after an attack until its remains are gone.
    Pause,
    Quiet,
    Attack,
}

/// The phase that all probes see.
#[derive(Debug, Default)]
pub struct Phases {
    now: AtomicU8,
    attacks: AtomicU32,
    ended: AtomicBool,
}

impl Phases {
    pub fn begin(&self, phase: Phase) {
        if phase == Phase::Attack {
            self.attacks.fetch_add(1, SeqCst);
        }
        self.now.store(phase as u8, SeqCst);
    }

    /// The probes end with what they are at.
    pub fn end(&self) {
        self.ended.store(true, SeqCst);
    }

    fn has_ended(&self) -> bool {
        self.ended.load(SeqCst)
    }

    fn is(&self, phase: Phase) -> bool {
        self.now.load(SeqCst) == phase as u8
    }
}

/// Times in milliseconds.
#[derive(Debug, Default, Clone)]
pub struct Times {
    pub quiet: Vec<f64>,
    pub attack: Vec<f64>,
}

/// Measures one thing after the other.
struct Meter {
    phases: Arc<Phases>,
    times: Arc<Mutex<Times>>,
}

/// What was there when something began.
struct Begun {
    at: Instant,
    attacks: u32,
    in_attack: bool,
    in_quiet: bool,
}

impl Meter {
    fn begin(&self) -> Begun {
        Begun {
            at: Instant::now(),
            attacks: self.phases.attacks.load(SeqCst),
            in_attack: self.phases.is(Phase::Attack),
            in_quiet: self.phases.is(Phase::Quiet),
        }
    }

    /// What an attack has touched counts for the attack; for the quiet, what nothing else has.
    fn end(&self, begun: &Begun) {
        let ms = begun.at.elapsed().as_secs_f64() * 1e3;
        let attacked = begun.in_attack || begun.attacks != self.phases.attacks.load(SeqCst);
        if attacked {
            self.times.lock().attack.push(ms);
        } else if begun.in_quiet && self.phases.is(Phase::Quiet) {
            self.times.lock().quiet.push(ms);
        }
    }
}

/// The three, and what they have waited for.
pub struct Probes {
    pub phases: Arc<Phases>,
    pub bulks: Arc<Mutex<Times>>,
    pub relay: Arc<Mutex<Times>>,
    pub health: Arc<Mutex<Times>>,
    /// Bulks that were taken.
    pub taken: Arc<AtomicU32>,
    thread: std::thread::JoinHandle<anyhow::Result<()>>,
}

/// Where the probes ask.
#[derive(Debug, Clone)]
pub struct Place {
    pub authority: String,
    /// Where probes are answered: at a listener of their own, if there is one.
    pub admin: String,
    pub index: String,
}

impl Probes {
    /// Starts them, on a thread of their own: the attackers' work must not count as anybody's waiting.
    pub fn start(place: &Place) -> anyhow::Result<Probes> {
        let phases = Arc::<Phases>::default();
        let (bulks, relay, health) = Default::default();
        let taken = Arc::<AtomicU32>::default();
        let meter = |times: &Arc<Mutex<Times>>| Meter { phases: phases.clone(), times: times.clone() };
        let writer = write(place.clone(), meter(&bulks), taken.clone());
        let relayed = ask_relay(place.clone(), meter(&relay));
        let probed = ask_health(place.clone(), meter(&health));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::spawn(move || {
            let all = runtime.block_on(async { tokio::join!(writer, relayed, probed) });
            all.0
        });
        Ok(Probes { phases, bulks, relay, health, taken, thread })
    }

    /// Ends them; the writer first ends its bulk. An error if that has failed for good.
    pub async fn end(self) -> anyhow::Result<u32> {
        self.phases.end();
        tokio::task::spawn_blocking(move || self.thread.join())
            .await?
            .map_err(|_| anyhow::anyhow!("a probe panicked"))??;
        Ok(self.taken.load(SeqCst))
    }
}

/// The headers of a caller.
pub fn credentials(caller: Caller) -> HeaderMap {
    let value = caller.authorization().map(HeaderValue::from_static);
    value.into_iter().map(|value| (AUTHORIZATION, value)).collect()
}

/// Writes one bulk after the other. What is refused for now is sent again, as every client does.
async fn write(place: Place, meter: Meter, taken: Arc<AtomicU32>) -> anyhow::Result<()> {
    let mut documents = Documents::new(HONEST, None);
    let path = format!("/{}/_bulk", place.index);
    let mut connection = None;
    while !meter.phases.has_ended() {
        let body = load::bulks(&mut documents, 1)[0].clone();
        loop {
            let begun = meter.begin();
            let answer = timeout(BULK_PATIENCE, send(&place, &path, &body, &mut connection)).await;
            meter.end(&begun);
            if let Ok(answer) = answer {
                answers::check(&[answer?], BULK)?;
                break;
            }
            connection = None;
            if meter.phases.has_ended() {
                return Ok(());
            }
        }
        taken.fetch_add(1, SeqCst);
    }
    Ok(())
}

/// Sends a bulk until it is taken.
async fn send(place: &Place, path: &str, body: &Bytes, kept: &mut Option<Connection>) -> anyhow::Result<Bytes> {
    loop {
        let connection = match kept {
            Some(connection) => connection,
            None => {
                let headers = credentials(Caller::Writer);
                match Connection::open_with(&place.authority, headers).await {
                    Ok(connection) => kept.insert(connection),
                    Err(_) => {
                        pause(RETRY).await;
                        continue;
                    }
                }
            }
        };
        let sent = connection.request(Method::POST, path, "application/x-ndjson", body.clone());
        match sent.await {
            Ok((StatusCode::OK, answer)) => return Ok(answer),
            Ok((StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, _)) => {}
            Ok((status, answer)) => anyhow::bail!(
                "the honest writer was answered {status}: {}",
                String::from_utf8_lossy(&answer[..answer.len().min(300)])
            ),
            // Refused before its body was read, or evicted: it is sent again.
            Err(_) => *kept = None,
        }
        pause(RETRY).await;
    }
}

/// Reads a small document again and again.
async fn ask_relay(place: Place, meter: Meter) {
    let path = format!("/{}/_doc/small", place.index);
    let mut kept = None;
    while !meter.phases.has_ended() {
        let begun = meter.begin();
        let asked = async {
            let connection = match kept.as_mut() {
                Some(connection) => connection,
                None => kept.insert(Connection::open_with(&place.authority, credentials(Caller::Writer)).await?),
            };
            let request = connection.request(Method::GET, &path, "application/json", Bytes::new());
            request.await
        };
        let answered = timeout(PROBE_PATIENCE, asked).await;
        if matches!(answered, Ok(Ok((StatusCode::OK, _)))) {
            meter.end(&begun);
        } else {
            // What failed counts as what was waited for in vain.
            kept = None;
            failed(&meter, begun);
        }
        pause(PROBE_EVERY).await;
    }
}

/// Asks whether spinney is alive, each time on a connection of its own, as probes do.
async fn ask_health(place: Place, meter: Meter) {
    while !meter.phases.has_ended() {
        let begun = meter.begin();
        let asked = async {
            let mut connection = Connection::open(&place.admin).await?;
            let path = "/_spinney/_health";
            let request = connection.request(Method::GET, path, "application/json", Bytes::new());
            request.await
        };
        let answered = timeout(PROBE_PATIENCE, asked).await;
        if matches!(answered, Ok(Ok((StatusCode::OK, _)))) {
            meter.end(&begun);
        } else {
            failed(&meter, begun);
        }
        pause(PROBE_EVERY).await;
    }
}

/// A request without an answer counts with the whole of a prober's patience, however early it failed.
fn failed(meter: &Meter, mut begun: Begun) {
    begun.at = begun.at.min(Instant::now().checked_sub(PROBE_PATIENCE).unwrap_or(begun.at));
    meter.end(&begun);
}
