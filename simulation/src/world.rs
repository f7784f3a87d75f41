//! What all parts of a simulation share: the seeded chance, virtual time, the trace and the counters.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use spinney::hash::SplitMix64;
use spinney::parts::Clock;
use spinney::time::Millis;
use tokio::time::Instant;

/// When a simulation begins, in milliseconds since 1970.
const BEGUN: i64 = 1_800_000_000_000;

/// One simulated world.
pub(crate) struct World {
    /// All that happens by chance follows from it.
    random: Mutex<SplitMix64>,
    begun: Instant,
    /// How far the wall clock is from the time that passes, in milliseconds.
    jump: AtomicI64,
    /// Nothing fails any more.
    is_calm: AtomicBool,
    /// The clock that processes read.
    clock: Clock,
    /// Lines with the time of each; `None`: nobody reads them.
    trace: Option<Mutex<Vec<String>>>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    steps: AtomicU64,
}

impl World {
    pub(super) fn new(seed: u64, traces: bool) -> Arc<World> {
        Arc::new(World {
            random: Mutex::new(SplitMix64(seed)),
            begun: Instant::now(),
            jump: AtomicI64::new(0),
            is_calm: AtomicBool::new(false),
            clock: Clock::default(),
            trace: traces.then(Mutex::default),
            counts: Mutex::default(),
            steps: AtomicU64::new(0),
        })
    }

    pub(super) fn next_u64(&self) -> u64 {
        self.random.lock().next_u64()
    }

    /// A number below `most`, which is not 0.
    pub(super) fn below(&self, most: u64) -> u64 {
        self.next_u64() % most
    }

    /// One of these.
    pub(super) fn pick<'t, T>(&self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// Whether something happens that happens so often, in thousandths.
    pub(super) fn happens(&self, thousandths: u64) -> bool {
        self.below(1_000) < thousandths
    }

    /// Whether something fails that fails so often, in thousandths.
    pub(super) fn fails(&self, thousandths: u64) -> bool {
        let fails = self.happens(thousandths);
        fails && !self.is_calm.load(Relaxed)
    }

    /// Ends all faults, or lets them begin again.
    pub(super) fn calm(&self, is_calm: bool) {
        self.is_calm.store(is_calm, Relaxed);
    }

    /// Lets others go on for up to so many milliseconds.
    pub(super) async fn pause(&self, most: u64) {
        self.steps.fetch_add(1, Relaxed);
        let micros = self.below(most * 1_000 + 1);
        pass(Duration::from_micros(micros)).await;
    }

    /// How long it has lasted.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The time of clocks that do not jump, in milliseconds.
    pub(super) fn time(&self) -> i64 {
        BEGUN + self.elapsed().as_millis() as i64
    }

    /// The time that processes believe, by a wall clock that jumps.
    pub(super) fn believed(&self) -> Millis {
        let shown = Millis(self.time() + self.jump.load(Relaxed));
        self.clock.read(Instant::now().into_std(), shown)
    }

    /// The wall clock jumps.
    pub(super) fn jump(&self, millis: i64) {
        self.jump.fetch_add(millis, Relaxed);
    }

    /// Adds a line to the trace.
    pub(super) fn trace<T: Display>(&self, line: impl FnOnce() -> T) {
        if let Some(trace) = &self.trace {
            trace.lock().push(format!("{:10.3} {}", self.elapsed().as_secs_f64(), line()));
        }
    }

    pub(super) fn take_trace(&self) -> Vec<String> {
        self.trace.as_ref().map(|trace| std::mem::take(&mut *trace.lock())).unwrap_or_default()
    }

    /// Counts something that shows that a check was not vacuous.
    pub(super) fn count(&self, what: &'static str, more: u64) {
        *self.counts.lock().entry(what).or_default() += more;
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = self.counts.lock().clone();
        counts.insert("steps", self.steps.load(Relaxed));
        counts
    }
}

/// Lets virtual time pass.
#[expect(clippy::disallowed_methods, reason = "the clock is paused: time goes by at once")]
pub(super) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}
