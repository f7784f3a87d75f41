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
//! it jumps to the
//! next timer when every task waits. A kill cuts a process off from its disk, its network and its threads.

#[cfg(test)]
mod checks;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod network;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod process;
#[cfg(test)]
mod redis;
#[cfg(test)]
mod run;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod upstream;
#[cfg(test)]
mod workload;
#[cfg(test)]
mod world;
