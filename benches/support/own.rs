//! What Linux tells of this process itself.

use std::fs;

/// Seconds that this thread has been running, without the time that others had the core.
pub fn spent() -> f64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = stat.split_ascii_whitespace().next();
    let ns = ns.and_then(|ns| ns.parse::<f64>().ok());
    ns.expect("Linux tells how long a thread has been running") / 1e9
}

/// Bytes of memory that are resident.
pub fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("Linux tells the memory of a process") * 1024
}
