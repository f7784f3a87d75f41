//! The options of `spinney recover`: those of `serve` that describe forests and their storage.

use std::path::PathBuf;

use clap::Args;

use super::values::{ByteSize, FieldPrefix, ThreadCount};
use super::{AuthFlags, ConfigError, Flags, RawRoute, RawServeOptions};

/// The flags of `spinney recover`.
#[derive(Debug, Clone, Args)]
pub struct RawRecoverOptions {
    /// TOML file, the one of serve: whatever is given here as well goes before it
    #[arg(long, env = "SPINNEY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// URL of a cluster node; it may contain credentials: https://user:password@host:9200 [default: service_url,
    /// or the first upstream, of the file; otherwise http://127.0.0.1:9200]
    #[arg(long, env = "SPINNEY_UPSTREAM", value_name = "URL", hide_env_values = true)]
    upstream: Option<String>,
    /// PEM file of the authority that signed the cluster's certificates; only it is trusted then
    #[arg(long, env = "SPINNEY_UPSTREAM_CA", value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
    #[command(flatten)]
    auth: AuthFlags,
    /// Directory in which the forests are stored: the one that serve is given. No spinney may be running on it
    #[arg(long, env = "SPINNEY_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Memory for the forests [default: half of the machine's]
    #[arg(long, env = "SPINNEY_FOREST_MEMORY", value_name = "SIZE")]
    forest_memory: Option<ByteSize>,
    /// Threads for text work [default: all cores]
    #[arg(long, env = "SPINNEY_THREADS", value_name = "N")]
    threads: Option<ThreadCount>,
    /// Prefix of the names of the stamp's fields [default: cluster_]
    #[arg(long, env = "SPINNEY_PREFIX", value_name = "PREFIX")]
    prefix: Option<FieldPrefix>,
    #[command(flatten)]
    route: Flags<RawRoute>,
}

impl RawRecoverOptions {
    /// The options of the `serve` that stores these forests.
    ///
    /// # Errors
    /// When the configuration file cannot be read.
    pub fn over_file(self) -> Result<RawServeOptions, ConfigError> {
        let file = self.route.over_file(self.config.as_deref())?;
        Ok(RawServeOptions {
            service_url: self.upstream.or(file.service_url),
            upstream_ca: self.upstream_ca.or(file.upstream_ca),
            upstream_auth: self.auth.upstream_auth.or(file.upstream_auth),
            aws_region: self.auth.aws_region.or(file.aws_region),
            aws_service: self.auth.aws_service.or(file.aws_service),
            data_dir: self.data_dir.or(file.data_dir),
            forest_memory: self.forest_memory.or(file.forest_memory),
            threads: self.threads.or(file.threads),
            prefix: self.prefix.or(file.prefix),
            // Implied by the command.
            recover_at_start: None,
            ..file
        })
    }
}
