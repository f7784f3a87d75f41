//! The whole product in simulated time: real processes (proxy, engine, forests, store, background tasks) on a simulated
//! disk, Redis and search cluster, under faults. All that happens by chance follows from one seed.
//!
//! ```text
//!  workload.rs: writers, people --HTTP--> process.rs: AppState, Tasks --HTTP--> upstream.rs --> cluster/
//!                                            |             |
//!  scene.rs: kills, outages, clocks          v             v
//!                                        Disk (torn)    redis.rs (slow, replies lost)
//!  checks.rs: what must hold when all is quiet
//! ```
//!
//! `scripts/simulate` runs it; docs/internals/testing.md says what it shows. tokio's paused clock is the virtual time:
//! it jumps to
//! the next timer when every task waits. A kill cuts a process off from its disk, its network and its threads.

mod checks;
pub(crate) mod cluster;
mod documents;
pub(crate) mod network;
mod plan;
mod process;
mod redis;
mod run;
mod scene;
mod upstream;
mod workload;
mod world;

use crate::time::Millis;

/// The time that processes of the simulated world believe; `None`: this thread simulates none.
pub(crate) fn now() -> Option<Millis> {
    world::current().map(|world| world.believed())
}

/// A number by chance, of the simulated world.
pub(crate) fn nonce() -> Option<u64> {
    world::current().map(|world| world.next_u64())
}
