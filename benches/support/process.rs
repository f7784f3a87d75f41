//! The processes that are measured: started here, ended here, never left behind.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

/// How long a process may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running process that is ended when this value goes.
pub struct Process {
    pub child: Child,
}

impl Process {
    /// Starts a command with no input and without the settings that the caller's environment may hold for spinney.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SPINNEY_") {
                command.env_remove(name);
            }
        }
        let child = command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { child })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // The library can only kill; whoever has children of its own (nginx) must be asked to end.
        let _ = Command::new("sh").arg("-c").arg(format!("kill -TERM {}", self.child.id())).status();
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            #[expect(clippy::disallowed_methods, reason = "a pause between two looks at a process that ends")]
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The peak memory of a process by its id, in megabytes; none once it has ended.
pub fn peak_rss_mb(id: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// The last lines of a process's log, for the words of an error.
pub fn log_tail(path: &Path) -> String {
    let log = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

/// A file for the output of a process.
pub fn output(path: &Path) -> anyhow::Result<Stdio> {
    Ok(Stdio::from(File::create(path).with_context(|| format!("cannot write {}", path.display()))?))
}
