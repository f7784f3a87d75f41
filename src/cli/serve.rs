//! `spinney serve`.

use std::io::Write as _;
use std::path::PathBuf;

use crate::config::{Flags, RawServeOptions, ServeOptions};
use crate::{server, telemetry};

#[derive(clap::Args)]
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
    telemetry::init_log(options.log_format, &options.log)?;
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(server::serve(options, |address, admin| {
        // Scripts wait for these lines; one that has stopped reading must not stop the server.
        let mut out = std::io::stdout();
        if let Some(admin) = admin {
            let _ = writeln!(out, "spinney answers probes on {scheme}://{admin}");
        }
        let _ = writeln!(out, "spinney is listening on {scheme}://{address}").and_then(|()| out.flush());
    }));
    // A request that outlived the grace period does not hold the process.
    runtime.shutdown_background();
    Ok(served?)
}
