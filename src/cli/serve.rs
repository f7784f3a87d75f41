//! `spinney serve`.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{self, ConfigError, Flags, RawServeOptions, ServeOptions};
use crate::server::AddedRoutes;
use crate::state::AppState;
use crate::telemetry::LogFilter;
use crate::{server, telemetry, traces};

#[derive(Clone, clap::Args)]
pub(super) struct ServeArgs {
    /// TOML file with the same options, `-` as `_`, and one `[[route]]` table for each route
    #[arg(long, env = "SPINNEY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    raw: Flags<RawServeOptions>,
}

impl ServeArgs {
    /// The options, validated.
    ///
    /// # Errors
    /// When the configuration is wrong.
    pub(super) fn options(&self) -> anyhow::Result<ServeOptions> {
        Ok(self.raw.over_file(self.config.as_deref())?.validate()?)
    }
}

/// Serves until a signal.
///
/// # Errors
/// When the configuration is wrong or the address cannot be bound.
pub(super) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let options = args.options()?;
    let log = telemetry::init_log(options.log_format, &options.log)?;
    let traces = traces::start();
    let (reloaded, mut running) = (args.clone(), options.clone());
    let reload = move |state: &Arc<AppState>| reload(&reloaded, &mut running, &log, state);
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ready = |address, admin: Option<_>| {
        // Scripts wait for these lines; one that has stopped reading must not stop the server.
        let mut out = std::io::stdout();
        if let Some(admin) = admin {
            let _ = writeln!(out, "spinney answers probes on {scheme}://{admin}");
        }
        let _ = writeln!(out, "spinney is listening on {scheme}://{address}").and_then(|()| out.flush());
    };
    let served = runtime.block_on(server::serve(options, ready, Box::new(reload)));
    traces.flush();
    // A request that outlived the grace period does not hold the process.
    runtime.shutdown_background();
    Ok(served?)
}

/// Puts into effect what may change while requests are served, and returns the options that have changed.
///
/// # Errors
/// When the configuration is wrong, or something else has changed in it.
fn reload(
    args: &ServeArgs,
    running: &mut ServeOptions,
    log: &LogFilter,
    state: &Arc<AppState>,
) -> anyhow::Result<Vec<&'static str>> {
    if let Some(path) = &args.config {
        // One that does not end would hold up every reload after this one.
        config::is_regular(path).map_err(|source| ConfigError::Read { path: path.clone(), source })?;
    }
    let wanted = args.options()?;
    let filter = telemetry::log_filter(&wanted.log)?;
    let different = running.only_at_a_start(&wanted);
    anyhow::ensure!(different.is_empty(), "only a restart changes {}", different.join(", "));
    let changed = running.at_run_time(&wanted);
    let routes = match running.added_routes(&wanted) {
        Ok([_, ..]) => Some(AddedRoutes::open(running.routes.len(), state, &wanted)?),
        _ => None,
    };
    // From here on nothing fails but what is taken back.
    log.replace(filter)?;
    if let Some(routes) = routes
        && let Err(error) = routes.serve(state, &wanted)
    {
        log.replace(telemetry::log_filter(&running.log)?)?;
        return Err(error);
    }
    state.set_limits(wanted.limits);
    *running = wanted;
    Ok(changed)
}
