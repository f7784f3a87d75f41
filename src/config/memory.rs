//! How much memory there is.

use std::sync::OnceLock;

/// Bytes of memory that this process may use: those of the machine, or of its control group if that has fewer, when it
/// was asked first: a default that follows them would be a change of the configuration. `None` where Linux' files are
/// missing.
pub(super) fn of_machine() -> Option<usize> {
    static MEMORY: OnceLock<Option<usize>> = OnceLock::new();
    *MEMORY.get_or_init(read)
}

fn read() -> Option<usize> {
    let read = |path| std::fs::read_to_string(path).ok();
    let machine = total(&read("/proc/meminfo")?)?;
    let group = read("/sys/fs/cgroup/memory.max").and_then(|limit| limit.trim().parse().ok());
    Some(group.map_or(machine, |group: usize| group.min(machine)))
}

/// `MemTotal` in bytes.
fn total(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_how_much_it_has() {
        assert_eq!(total("MemTotal:       24737380 kB\nMemFree: 3 kB\n"), Some(24_737_380 << 10));
        assert_eq!(total("MemFree: 3 kB\n"), None);
        assert_eq!(total("MemTotal: many\n"), None);
    }
}
