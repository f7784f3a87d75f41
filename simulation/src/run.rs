//! Runs simulations, one for each seed. `scripts/simulate` sets the variables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spinney::system::enter;

use super::network::Network;
use super::plan::SimulationPlan;
use super::scene::Scene;
use super::world::{World, pass};

/// Seeds of the gate: about half a minute of work. `scripts/test --all` simulates more.
const SEEDS: u64 = 60;

/// Seeds that have found something; what they found is mended, or the documentation says it.
const KEPT: &[u64] = &[
    299, 774, 800, 1108, 2458, 2552, 4928, 6579, 7039, 7385, 7659, 8205, 8654, 8684, 9341, 10335, 13595, 15384, 16986,
    24656, 25861,
];

/// Counters of what goes wrong.
const FAULTS: [&str; 11] = [
    "kills",
    "power failures",
    "disk faults",
    "cluster down",
    "Redis away",
    "answers lost",
    "replies lost",
    "commands lost",
    "items refused",
    "requests refused",
    "slow answers",
];

/// What came of a seed.
struct Outcome {
    /// What was wrong.
    wrong: Option<String>,
    plan: String,
    trace: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
}

/// Simulates one world.
fn simulate(seed: u64, traces: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(seed, traces);
        let network = Arc::new(Network::new(&world));
        let entered = enter(network.clone());
        let plan = SimulationPlan::new(&world);
        let shown = plan.to_string();
        let scene = Scene::new(&world, network, plan);
        live(&world, &scene).await;
        let outcome =
            Outcome { wrong: scene.take_wrong(), plan: shown, trace: world.take_trace(), counts: world.counts() };
        drop(entered);
        outcome
    })
}

async fn live(world: &Arc<World>, scene: &Arc<Scene>) {
    scene.start_all().await;
    for phase in 0..2 {
        world.calm(false);
        let mut parties: Vec<_> =
            (0..scene.plan.writers).map(|writer| tokio::spawn(scene.clone().write(10 * phase + writer))).collect();
        if scene.plan.is_durable() {
            parties.push(tokio::spawn(scene.clone().correct()));
        }
        parties.push(tokio::spawn(scene.clone().events()));
        for party in parties {
            if let Err(error) = party.await {
                scene.fail(format!("a party panicked: {error}"));
            }
        }
        scene.heal().await;
        scene.check("after the faults").await;
        if scene.has_failed() {
            return;
        }
        // Every process is another one from now on, and nothing may be different.
        for number in 0..scene.plan.processes {
            match world.below(3) {
                0 => scene.stop(number).await,
                kill => scene.kill(number, kill == 2 && scene.plan.is_durable()),
            }
        }
        scene.start_all().await;
        scene.check("after a restart").await;
        if scene.has_failed() {
            return;
        }
        if world.happens(150) {
            // What came until now is forgotten.
            pass(scene.plan.window * 2 + Duration::from_secs(60)).await;
        }
    }
    scene.end().await;
}

/// Runs a job with parallel work done where it is asked for: on the one thread of its pool.
fn alone<T: Send>(job: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(job)
}

/// Seeds from one on, on so many threads, until one fails or the time is over.
struct Run {
    next: AtomicU64,
    end: u64,
    until: Option<Instant>,
    /// Whether all that happens is printed.
    traces: bool,
    done: AtomicU64,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    failed: Mutex<Option<(u64, String)>>,
}

impl Run {
    fn of(from: u64, seeds: u64) -> Run {
        Run {
            next: AtomicU64::new(from),
            end: from.saturating_add(seeds),
            until: None,
            traces: false,
            done: AtomicU64::new(0),
            counts: Mutex::default(),
            failed: Mutex::new(None),
        }
    }

    fn work(&self) {
        while self.failed.lock().is_none() && self.until.is_none_or(|until| Instant::now() < until) {
            let seed = self.next.fetch_add(1, Relaxed);
            if seed >= self.end {
                return;
            }
            let outcome = simulate(seed, self.traces);
            if self.traces {
                eprintln!("{}", retold(seed, &outcome));
            }
            for (what, count) in outcome.counts {
                *self.counts.lock().entry(what).or_default() += count;
            }
            self.done.fetch_add(1, Relaxed);
            if let Some(wrong) = outcome.wrong {
                let mut failed = self.failed.lock();
                // The first one is the one that is told.
                if failed.as_ref().is_none_or(|(first, _)| seed < *first) {
                    *failed = Some((seed, wrong));
                }
            }
        }
    }

    fn count(&self, what: &str) -> u64 {
        self.counts.lock().get(what).copied().unwrap_or_default()
    }
}

/// What happened and how it ended, for a person.
fn retold(seed: u64, outcome: &Outcome) -> String {
    let wrong = outcome.wrong.as_deref().unwrap_or("nothing is wrong");
    format!("{}\n{}\nseed {seed}: {wrong}", outcome.plan, outcome.trace.join("\n"))
}

#[test]
fn seeds_of_the_gate() {
    let run = Run::of(1, SEEDS);
    alone(|| run.work());
    for &seed in KEPT {
        if let Some(wrong) = alone(|| simulate(seed, false)).wrong {
            run.failed.lock().get_or_insert((seed, wrong));
        }
    }
    if let Some((seed, _)) = run.failed.lock().take() {
        panic!("{}", retold(seed, &alone(|| simulate(seed, true))));
    }
    // None of the checks was vacuous, and all faults happened.
    for what in [
        "stored documents checked",
        "texts found again",
        "texts with several documents",
        "refused texts looked for",
        "merges followed",
        "groups counted",
        "groups with one first document",
        "snapshots",
        "kills",
        "power failures",
        "stops",
        "disk faults",
        "cluster down",
        "Redis away",
        "answers lost",
        "replies lost",
        "items refused",
        "documents of unknown outcome",
    ] {
        assert!(run.count(what) > 10, "{what}: {}", run.count(what));
    }
}

#[test]
fn a_seed_is_the_same_each_time() {
    for seed in 1..6 {
        let [one, other] = [(); 2].map(|()| alone(|| simulate(seed, true)).trace);
        let differ = one.iter().zip(&other).find(|(one, other)| one != other);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(one.len(), other.len(), "seed {seed}");
    }
}

/// For `scripts/simulate` and `scripts/mutants --planted`: prints one JSON object, and fails if a seed did.
#[test]
fn of_the_script() {
    let number = |variable: &str| std::env::var(variable).ok().map(|text| text.parse::<u64>().expect(variable));
    let one = number("SPINNEY_SIMULATE_SEED");
    let Some(seeds) = number("SPINNEY_SIMULATE_SEEDS").or(one.map(|_| 1)) else { return };
    let mut run = Run::of(one.unwrap_or(1), seeds);
    let begun = Instant::now();
    run.until = number("SPINNEY_SIMULATE_SECONDS").map(|seconds| begun + Duration::from_secs(seconds));
    run.traces = seeds == 1;
    std::thread::scope(|scope| {
        for _ in 0..number("SPINNEY_SIMULATE_THREADS").unwrap_or(1) {
            scope.spawn(|| alone(|| run.work()));
        }
    });
    let failed = run.failed.lock().take();
    let report = serde_json::json!({
        "bench": "simulate", "seeds": run.done.load(Relaxed), "steps": run.count("steps"),
        "faults": FAULTS.iter().map(|what| run.count(what)).sum::<u64>(),
        "seconds": begun.elapsed().as_secs(), "failed": failed.as_ref().map(|(seed, _)| seed),
        "wrong": failed.as_ref().map(|(_, wrong)| wrong), "counts": *run.counts.lock(),
    });
    println!("{report}");
    if let Some((seed, wrong)) = failed {
        panic!("seed {seed}: {wrong}");
    }
}
