//! `spinney man` and `spinney completions`: files of the packages, generated from the option declarations.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Command, ValueEnum};
use clap_complete::shells::{Bash, Fish, Zsh};

#[derive(clap::Args)]
pub(super) struct ManArgs {
    /// Existing directory for the pages: spinney.1, and spinney-COMMAND.1 for each command
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

#[derive(clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// A shell with completions.
#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Writes the manual pages.
///
/// # Errors
/// When a page cannot be written.
pub(super) fn man(args: &ManArgs, command: Command) -> anyhow::Result<()> {
    let directory = &args.directory;
    clap_mangen::generate_to(command, directory).with_context(|| format!("cannot write to {}", directory.display()))
}

/// Prints the completions of a shell.
pub(super) fn completions(args: &CompletionsArgs, mut command: Command) {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    match args.shell {
        Shell::Bash => clap_complete::generate(Bash, &mut command, name, &mut script),
        Shell::Zsh => clap_complete::generate(Zsh, &mut command, name, &mut script),
        Shell::Fish => clap_complete::generate(Fish, &mut command, name, &mut script),
    }
    super::print(String::from_utf8_lossy(&script).trim_end());
}
