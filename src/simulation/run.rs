//! Runs simulations, one for each seed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::plan::Plan;
use super::scene::Scene;
use super::world::{World, enter, pass};

/// What came of a seed.
#[derive(Debug)]
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
        let entered = enter(&world);
        let plan = Plan::new(&world);
        let shown = plan.to_string();
        let scene = Scene::new(&world, plan);
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
        if scene.plan.has_corrections() {
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
                kill => scene.kill(number, kill == 2),
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

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// A thread of its own for each core, on which parallel work is done where it is asked for.
fn alone<T: Send>(job: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(job)
}

#[test]
fn some_seeds() {
    let from = number("SPINNEY_SEED").unwrap_or(1);
    let seeds = number("SPINNEY_SEEDS").unwrap_or(20);
    let traces = std::env::var("SPINNEY_TRACE").is_ok();
    alone(|| {
        let begun = std::time::Instant::now();
        let mut all: BTreeMap<&'static str, u64> = BTreeMap::new();
        for seed in from..from + seeds {
            let outcome = simulate(seed, traces);
            for (what, count) in outcome.counts {
                *all.entry(what).or_default() += count;
            }
            if traces {
                outcome.trace.iter().for_each(|line| eprintln!("{line}"));
            }
            if let Some(wrong) = outcome.wrong {
                panic!("seed {seed}: {wrong}\n{}", outcome.plan);
            }
        }
        eprintln!("{seeds} seeds in {:.1} s: {all:#?}", begun.elapsed().as_secs_f64());
    });
}
