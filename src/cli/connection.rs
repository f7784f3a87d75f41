//! Flags of the commands that talk to a running spinney, or to the cluster itself.

use std::path::PathBuf;

use crate::cluster::operator::Operator;
use crate::config::{AuthFlags, DEFAULT_PREFIX};

/// Flags of a running spinney.
#[derive(clap::Args)]
pub(super) struct SpinneyFlags {
    /// URL of the running spinney; it may contain credentials: http://user:password@host:9201
    #[arg(
        long,
        env = "SPINNEY_URL",
        value_name = "URL",
        hide_env_values = true,
        default_value = "http://127.0.0.1:9201"
    )]
    pub(super) spinney_url: String,
    /// PEM file of the authority that signed its certificate, and the cluster's; only it is trusted then
    #[arg(long, env = "SPINNEY_UPSTREAM_CA", value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
}

impl SpinneyFlags {
    /// The running spinney.
    pub(super) fn spinney(&self) -> anyhow::Result<Operator> {
        Ok(Operator::new(&self.spinney_url, self.upstream_ca.as_deref())?)
    }

    /// A node of the cluster, with a certificate of the same authority.
    pub(super) fn cluster(&self, url: &str, auth: &AuthFlags) -> anyhow::Result<Operator> {
        Ok(Operator::signing(url, self.upstream_ca.as_deref(), auth.sigv4()?.as_ref())?)
    }
}

/// Flags of a cluster with a stamp's fields.
#[derive(clap::Args)]
pub(super) struct ClusterFlags {
    /// URL of a cluster node; it may contain credentials: https://user:password@host:9200
    #[arg(
        long,
        env = "SPINNEY_UPSTREAM",
        value_name = "URL",
        hide_env_values = true,
        default_value = "http://127.0.0.1:9200"
    )]
    upstream: String,
    /// PEM file of the authority that signed the cluster's certificates; only it is trusted then
    #[arg(long, env = "SPINNEY_UPSTREAM_CA", value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
    #[command(flatten)]
    auth: AuthFlags,
    /// Prefix of the names of the stamp's fields
    #[arg(long, env = "SPINNEY_PREFIX", value_name = "PREFIX", default_value = DEFAULT_PREFIX)]
    pub(super) prefix: String,
}

impl ClusterFlags {
    /// The cluster.
    pub(super) fn operator(&self) -> anyhow::Result<Operator> {
        let sigv4 = self.auth.sigv4()?;
        Ok(Operator::signing(&self.upstream, self.upstream_ca.as_deref(), sigv4.as_ref())?)
    }
}
