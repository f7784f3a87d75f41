//! `spinney doctor`.

use std::process::ExitCode;

use super::print;
use super::serve::ServeArgs;
use crate::doctor::{Severity, examine};

/// Looks at all that `serve` needs with the same options, and prints what is wrong and what to do.
///
/// # Errors
/// When the configuration is wrong.
pub(super) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let options = args.options()?;
    print("ok    configuration: it is valid");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let worst = runtime.block_on(examine(&options, |finding| print(finding)));
    runtime.shutdown_background();
    Ok(match worst {
        Severity::Good => ExitCode::SUCCESS,
        Severity::Warning => ExitCode::from(3),
        Severity::Error => ExitCode::FAILURE,
    })
}
