//! The `process_*` metrics that Prometheus' own clients have, from `/proc`.

use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, WithCurrentSystemInfo as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;

use super::gauge;

/// All of them; those that `/proc` does not let the process read are left out.
pub(super) fn registry() -> Registry {
    let mut registry = Registry::with_prefix("process");
    if let Ok(process) = Process::myself() {
        // Each stands for itself: a system may hide some files.
        let _ = add_stat(&mut registry, &process);
        let _ = add_files(&mut registry, &process);
    }
    registry
}

fn add_stat(registry: &mut Registry, process: &Process) -> ProcResult<()> {
    let stat = process.stat()?;
    let ticks = procfs::ticks_per_second() as f64;
    let seconds = (stat.utime + stat.stime) as f64 / ticks;
    registry.register("cpu_seconds", "User and system time", ConstCounter::new(seconds));
    registry.register("resident_memory_bytes", "Memory in use", gauge(stat.rss_bytes().get()));
    registry.register("virtual_memory_bytes", "Addresses in use", gauge(stat.vsize));
    registry.register("threads", "Threads", gauge(stat.num_threads.unsigned_abs()));
    let began = procfs::boot_time_secs()? + stat.starttime / procfs::ticks_per_second();
    registry.register("start_time_seconds", "Start of the process since the Unix epoch", gauge(began));
    Ok(())
}

fn add_files(registry: &mut Registry, process: &Process) -> ProcResult<()> {
    registry.register("open_fds", "Open files", gauge(process.fd_count()? as u64));
    if let LimitValue::Value(most) = process.limits()?.max_open_files.soft_limit {
        registry.register("max_fds", "Files that may be open", gauge(most));
    }
    Ok(())
}
