//! `spinney validate`.

use super::print;
use super::serve::ServeArgs;
use crate::access::Door;
use crate::http::tls;
use crate::telemetry::log_filter;

/// Prints the configuration that `serve` has with the same arguments, environment and file.
///
/// # Errors
/// When `serve` would refuse it.
pub(super) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let options = args.options()?;
    log_filter(&options.log)?;
    options.tls.as_ref().map(|identity| tls::server(identity, options.client_ca.as_deref())).transpose()?;
    Door::of(&options)?;
    tls::client(options.upstream_ca.as_deref(), options.upstream_identity.as_ref())?;
    print(options.effective()?.trim_end());
    Ok(())
}
