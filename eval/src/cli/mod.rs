//! The command line: options, output and exit codes.

mod arena;
mod score;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

/// Runs the command that the arguments name.
pub(crate) fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let outcome = match arguments.split_first() {
        Some((_, [first, rest @ ..])) if first == arena::NAME => {
            let name = OsString::from(format!("spinney-eval {}", arena::NAME));
            arena::run(&arena::ArenaArgs::parse_from(std::iter::once(&name).chain(rest)))
        }
        _ => score::run(&score::ScoreArgs::parse_from(arguments)).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        say(format_args!("spinney-eval: {error:#}"));
        ExitCode::FAILURE
    })
}

/// Writes a line to standard error. That nobody reads it there is no reason to fail.
fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Standard output; it is no error when its reader stops early (`spinney-eval … | head`).
struct Output<W>(W);

impl<W: Write> Output<W> {
    fn write(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) -> anyhow::Result<()> {
        match write(&mut self.0).and_then(|()| self.0.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(error).context("cannot write standard output")
            }
            _ => Ok(()),
        }
    }
}
