//! `spinney reload`: has a running spinney read its configuration again.

use std::time::Duration;

use anyhow::bail;
use hyper::Method;

use super::health::RunningArgs;
use super::print;

/// Stored forests of added routes are read meanwhile.
const TIMEOUT: Duration = Duration::from_mins(10);

/// Paragraphs in one line each: clap wraps them.
const AFTER_HELP: &str = "\
The file, the environment and the flags of the running spinney count. Routes are added behind those that are there; log, budget, client_share, max_connections, grace and the timeouts change; a file with anything else changed is refused, and nothing changes. Certificates, keys and callers are read again by themselves; the access log is opened again.

It asks the admin listener: set --admin-listen, or send SIGHUP instead (systemctl reload spinney), which says in the log what came of it.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ReloadArgs {
    #[command(flatten)]
    running: RunningArgs,
}

/// Asks once, and prints which options have changed.
///
/// # Errors
/// When spinney does not answer at its admin listener, or the configuration cannot be put into effect.
pub(super) fn run(args: &ReloadArgs) -> anyhow::Result<()> {
    let (url, asked) = args.running.ask(Method::POST, "/_spinney/_reload", TIMEOUT)?;
    let changed = match asked {
        Ok(answer) => answer["changed"].as_array().cloned().unwrap_or_default(),
        Err(reason) => bail!("{url} has not read its configuration again: {reason}"),
    };
    let changed: Vec<&str> = changed.iter().filter_map(|option| option.as_str()).collect();
    match changed.is_empty() {
        true => print("nothing has changed"),
        false => print(format_args!("changed: {}", changed.join(", "))),
    }
    Ok(())
}
