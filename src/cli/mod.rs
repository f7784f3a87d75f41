//! The command line: raw arguments in, an exit code out.

mod backfill;
mod bar;
mod connection;
mod doctor;
mod environment;
mod generate;
mod health;
mod inspect;
mod reconcile;
mod recover;
mod reload;
mod serve;
mod setup;
mod stamp;
mod transfer;
mod validate;
mod verify;

use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::cluster::describe;

/// Groups near-duplicates before they reach the search cluster.
///
/// spinney is a proxy between the writers and an OpenSearch or Elasticsearch cluster. It finds for every document the
/// cluster of near-duplicates that it belongs to and stamps the root of that cluster on it; the search server can then
/// collapse results by root, count similar articles and list who else published them.
#[derive(Parser)]
#[command(
    name = "spinney",
    version,
    max_term_width = 100,
    after_help = "\
Every option of serve can also be set by a SPINNEY_* environment variable or in a TOML file (--config).

Exit codes: 0 for success; 1 for an error; 2 for arguments that are not understood; 3 for stamp --strict, for
backfill where documents could not be stamped, and for doctor that has a warning; 130 for a command that was interrupted.

Examples:
  spinney setup --upstream http://127.0.0.1:9200 --index 'news-*'
  spinney serve --upstream http://127.0.0.1:9200 --index 'news-*' --text-field content --title-field title
  spinney stamp --text-field content < articles.ndjson > stamped.ndjson"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the proxy: stamp what is written to the cluster
    Serve(Box<serve::ServeArgs>),
    /// Look at all that serve needs with the same options, and say what is wrong and what to do
    ///
    /// Configuration, data directory, Redis, cluster, clocks, indices of the routes, their mapping and that of the next
    /// index, and the rights of the service user. It changes nothing, and a spinney that runs is no obstacle. Exit
    /// codes: 0 for all as it should be; 3 for warnings; 1 for an error.
    Doctor(Box<serve::ServeArgs>),
    /// Print the configuration that serve has with the same options, environment and file, and ask nobody
    ///
    /// All options, also those that were not given, as a file that --config takes; without passwords. Exit codes: 0; 1
    /// for a configuration that serve would refuse.
    Validate(Box<serve::ServeArgs>),
    /// Stamp NDJSON from standard input to standard output, without a cluster
    Stamp(Box<stamp::StampArgs>),
    /// Show the forests that are stored in a directory, or shared in a Redis
    Inspect(inspect::InspectArgs),
    /// Copy the forests from a directory into the Redis that several spinneys share, or back
    Transfer(Box<transfer::TransferArgs>),
    /// Rebuild the forests from the stamped documents of their indices, when what was stored is lost
    Recover(Box<recover::RecoverArgs>),
    /// Stamp the documents of existing indices that have no stamp yet, through a spinney that is running
    Backfill(backfill::BackfillArgs),
    /// Compare an index with the counts of its groups, and mend them
    Reconcile(reconcile::ReconcileArgs),
    /// Hold the stamps of some documents against what spinney would say of their texts now
    Verify(verify::VerifyArgs),
    /// Install the component and index template that the stamp's fields need
    Setup(setup::SetupArgs),
    /// Ask a running spinney whether it is healthy
    Health(health::HealthArgs),
    /// Have a running spinney read its configuration again
    Reload(reload::ReloadArgs),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man(generate::ManArgs),
    /// Print the completions of a shell
    #[command(hide = true)]
    Completions(generate::CompletionsArgs),
}

/// Runs the command line of the process. An error goes to standard error with its causes, and the exit code is 1; 2 for
/// arguments that are not understood; a command may have codes of its own for success with reservations.
pub fn main() -> ExitCode {
    let command = match parsed() {
        Ok(command) => command,
        Err(code) => return code,
    };
    let result = match command {
        Command::Serve(args) => serve::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => doctor::run(&args),
        Command::Validate(args) => validate::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Stamp(args) => stamp::run(&args),
        Command::Inspect(args) => inspect::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Transfer(args) => transfer::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Recover(args) => recover::run(*args),
        Command::Backfill(args) => backfill::run(&args),
        Command::Reconcile(args) => reconcile::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Verify(args) => verify::run(&args),
        Command::Setup(args) => setup::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Health(args) => health::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Reload(args) => reload::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Man(args) => generate::man(&args, Cli::command()).map(|()| ExitCode::SUCCESS),
        Command::Completions(args) => {
            generate::completions(&args, Cli::command());
            Ok(ExitCode::SUCCESS)
        }
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            print_error(format_args!("spinney: {}", describe(error.as_ref())));
            ExitCode::FAILURE
        }
    }
}

/// The arguments and the environment, or the exit code where they are not understood.
fn parsed() -> Result<Command, ExitCode> {
    const NOT_UNDERSTOOD: u8 = 2;
    let declared = Cli::command();
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    if let Some((given, meant)) = environment::misspelt(&declared, names) {
        print_error(format_args!("spinney: the environment variable {given} is no option: is {meant} meant?"));
        return Err(NOT_UNDERSTOOD.into());
    }
    Cli::try_parse().map(|cli| cli.command).map_err(|error| {
        // A closed pipe is no failure.
        let _ = error.print();
        let arguments: Vec<_> = std::env::args_os().collect();
        let is_set = |name: &str| std::env::var_os(name).is_some();
        let variable = environment::blamed(&declared, &error, arguments.iter().map(AsRef::as_ref), is_set);
        if let Some(variable) = variable {
            print_error(format_args!("spinney: the value is that of the environment variable {variable}"));
        }
        u8::try_from(error.exit_code()).unwrap_or(NOT_UNDERSTOOD).into()
    })
}

/// Writes a line to standard output. A closed pipe is no failure.
fn print(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Writes a line to standard error. A closed pipe is no failure.
fn print_error(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declarations_are_consistent() {
        Cli::command().debug_assert();
    }
}
