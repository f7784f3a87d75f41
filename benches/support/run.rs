//! A benchmark as a program: its end, its signals and its progress.

use std::future::Future;
use std::process::ExitCode;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};

/// Runs a benchmark to its end, or until it is stopped: dropping it ends the processes that it has started.
pub async fn unless_stopped<T>(run: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        ended = run => ended,
        _ = terminate.recv() => bail!("stopped"),
        _ = interrupt.recv() => bail!("interrupted"),
    }
}

/// The same, as the end of a program.
pub async fn until_stopped(run: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    match unless_stopped(run).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A bar over so many steps.
pub fn progress_bar(steps: usize, of: &str, message: String) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!("{{msg}} [{{bar:40}}] {{pos}}/{{len}} {of}, {{elapsed}}"));
    ProgressBar::new(steps as u64)
        .with_message(message)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
