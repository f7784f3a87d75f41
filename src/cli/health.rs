//! `spinney health`: asks a running spinney whether it serves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Parser;
use hyper::Method;
use serde_json::Value;

use super::print;
use crate::cluster::operator::{Operator, OperatorError};
use crate::config::{Flags, RawServeOptions};

/// Timeout of a probe; readiness includes a request to the cluster.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Paragraphs in one line each: clap wraps them.
const AFTER_HELP: &str = "\
Prints one line; the exit code is 0 if the running spinney is healthy, 1 if it is not or does not answer.

Without --url the address is the one that serve takes from the file and the SPINNEY_* variables: admin_listen if it is set, or listen. \
Flags of the running spinney are not known here.";

/// Where a running spinney is.
#[derive(clap::Args)]
pub(super) struct RunningArgs {
    /// URL of the running spinney [default: where serve listens by its configuration]
    #[arg(long, env = "SPINNEY_URL", value_name = "URL", hide_env_values = true)]
    url: Option<String>,
    /// TOML file of the running spinney
    #[arg(long, env = "SPINNEY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// PEM file of the authority that signed its certificate; only it is trusted then
    #[arg(long, env = "SPINNEY_UPSTREAM_CA", value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
}

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct HealthArgs {
    #[command(flatten)]
    running: RunningArgs,
    /// Ask whether it takes writes: not while it stops, a forest is out of service, or no node of the cluster answers
    #[arg(long)]
    ready: bool,
}

/// The options that serve reads from the environment.
#[derive(Parser)]
struct Environment {
    #[command(flatten)]
    raw: Flags<RawServeOptions>,
}

/// Asks once.
///
/// # Errors
/// When spinney is not healthy, does not answer in time, or its address is not known.
pub(super) fn run(args: &HealthArgs) -> anyhow::Result<()> {
    let (path, state) = if args.ready { ("/_spinney/_ready", "ready") } else { ("/_spinney/_health", "healthy") };
    let (url, asked) = args.running.ask(Method::GET, path, TIMEOUT)?;
    match asked {
        Ok(_) => print(format_args!("{url} is {state}")),
        Err(reason) => bail!("{url} is not {state}: {reason}"),
    }
    Ok(())
}

impl RunningArgs {
    /// Asks once, and waits so long. Returns the URL, and the answer or why there is none.
    ///
    /// # Errors
    /// The address is not known.
    pub(super) fn ask(
        &self,
        method: Method,
        path: &str,
        patience: Duration,
    ) -> anyhow::Result<(String, Result<Value, String>)> {
        let url = match &self.url {
            Some(url) => url.clone(),
            None => configured_url(self.config.as_deref())?,
        };
        // An authority of the cluster says nothing about a plain connection, and need not be there.
        let ca = self.upstream_ca.as_deref().filter(|_| url.starts_with("https:"));
        let spinney = Operator::new(&url, ca)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let asked = runtime.block_on(async { tokio::time::timeout(patience, spinney.ask(method, path, None)).await });
        let answer = match asked {
            Ok(answer) => answer.map_err(|error| reason(&error)),
            Err(_) => Err(format!("no answer in {} s", patience.as_secs())),
        };
        Ok((spinney.url().to_string(), answer))
    }
}

fn configured_url(config: Option<&Path>) -> anyhow::Result<String> {
    let environment = Environment::try_parse_from(["spinney"]);
    let environment = environment.map_err(|error| {
        let message = error.to_string();
        // The lines after the first one are about the use of flags.
        let line = message.lines().next().unwrap_or_default();
        anyhow!("a SPINNEY_* variable is not understood: {}", line.trim_start_matches("error: "))
    })?;
    Ok(environment.raw.over_file(config)?.probe_url()?)
}

/// The reason in the response, or the error.
fn reason(error: &OperatorError) -> String {
    match error {
        OperatorError::Refused { status, answer, .. } => {
            let answer: Option<Value> = serde_json::from_str(answer).ok();
            let told =
                answer.as_ref().and_then(|answer| answer["reason"].as_str().or(answer["error"]["reason"].as_str()));
            told.map_or_else(|| format!("it answered {status}"), str::to_owned)
        }
        OperatorError::Unreachable { reason, .. } => reason.clone(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_why() {
        let refused = |answer: &str| OperatorError::Refused {
            status: 503,
            request: "GET /_spinney/_ready".into(),
            answer: answer.into(),
        };
        assert_eq!(reason(&refused(r#"{"status":"not ready","reason":"stopping"}"#)), "stopping");
        assert_eq!(reason(&refused(r#"{"error":{"reason":"no such endpoint"},"status":404}"#)), "no such endpoint");
        assert_eq!(reason(&refused("<html>\n")), "it answered 503");
        let refused = OperatorError::Unreachable { url: "http://a:1".into(), reason: "connection refused".into() };
        assert_eq!(reason(&refused), "connection refused");
    }
}
