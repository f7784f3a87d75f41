//! What an operator can set. Options come from flags, then `SPINNEY_*` environment variables, then a TOML file;
//! [`Raw`] is what was written there, [`Config`] is what was meant, checked.

mod route;
mod units;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

pub use route::{Clock, Pattern, Route, RouteOptions};
pub use units::{bytes, span};

/// What was wrong with which option, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file {path}: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the configuration file {path} is not valid: {source}")]
    Toml {
        path: PathBuf,
        source: Box<toml::de::Error>,
    },
    #[error("cannot read the file of boilerplate {path}: {source}")]
    Sentences {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{option}: {reason}")]
    Option { option: String, reason: String },
}

impl ConfigError {
    pub(crate) fn option(option: impl Into<String>, reason: impl Into<String>) -> Self {
        ConfigError::Option {
            option: option.into(),
            reason: reason.into(),
        }
    }
}

/// The options of `spinney serve` as written: every one may be absent.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raw {
    /// Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:9201]
    #[arg(long, env = "SPINNEY_LISTEN", value_name = "ADDRESS")]
    listen: Option<String>,
    /// URL of a cluster node; several share the load [default: http://127.0.0.1:9200]
    #[arg(
        long,
        env = "SPINNEY_UPSTREAM",
        value_name = "URL",
        value_delimiter = ','
    )]
    upstream: Option<Vec<String>>,
    /// PEM file of the authority that signed the cluster's certificates; only it is trusted then
    #[arg(long, env = "SPINNEY_UPSTREAM_CA", value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
    /// PEM file of a client certificate to show to the cluster
    #[arg(long, env = "SPINNEY_UPSTREAM_CERT", value_name = "FILE")]
    upstream_cert: Option<PathBuf>,
    /// PEM file of the key of that client certificate
    #[arg(long, env = "SPINNEY_UPSTREAM_KEY", value_name = "FILE")]
    upstream_key: Option<PathBuf>,
    /// PEM file of the certificate chain to serve TLS with
    #[arg(long, env = "SPINNEY_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file of the key of that certificate
    #[arg(long, env = "SPINNEY_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Bytes of write requests held at once in the whole process; above it: 429 [default: 256MiB]
    #[arg(long, env = "SPINNEY_BUDGET", value_name = "SIZE")]
    budget: Option<String>,
    /// How long a stop waits for requests in flight [default: 30s]
    #[arg(long, env = "SPINNEY_GRACE", value_name = "SPAN")]
    grace: Option<String>,
    /// Threads for text work [default: all cores]
    #[arg(long, env = "SPINNEY_THREADS", value_name = "N")]
    threads: Option<usize>,
    /// Prefix of the names of the stamp's fields [default: cluster_]
    #[arg(long, env = "SPINNEY_PREFIX", value_name = "PREFIX")]
    prefix: Option<String>,
    /// Rewrite the publish_address in /_nodes/http answers to this host:port, so that sniffing clients stay with spinney
    #[arg(long, env = "SPINNEY_PUBLISH_ADDRESS", value_name = "HOST:PORT")]
    publish_address: Option<String>,
    /// Form of the log lines on standard error: text or json [default: text]
    #[arg(long, env = "SPINNEY_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<String>,
    /// What to log: error, warn, info, debug, trace, or a filter such as spinney=debug [default: info]
    #[arg(long, env = "SPINNEY_LOG", value_name = "FILTER")]
    log: Option<String>,
    #[command(flatten)]
    #[serde(skip)]
    single: RouteOptions,
    // In the file only: `[[route]]` tables, each with the options of one route.
    #[arg(skip)]
    route: Vec<RouteOptions>,
}

/// TLS material by file name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// Checked options of `spinney serve`.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    /// Scheme and authority of each node, without a trailing slash.
    pub upstream: Vec<hyper::Uri>,
    pub upstream_ca: Option<PathBuf>,
    pub upstream_identity: Option<Identity>,
    pub tls: Option<Identity>,
    /// Bytes of write requests in flight for the whole process.
    pub budget: usize,
    pub grace: Duration,
    /// 0 means all cores.
    pub threads: usize,
    pub prefix: String,
    pub publish_address: Option<String>,
    pub log_format: LogFormat,
    pub log: String,
    pub routes: Vec<Route>,
}

impl Raw {
    /// Reads the file, if any, and lets the flags and environment variables in `self` win over it.
    pub fn over_file(self, file: Option<&std::path::Path>) -> Result<Raw, ConfigError> {
        let Some(path) = file else { return Ok(self) };
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let below: Raw = toml::from_str(&text).map_err(|source| ConfigError::Toml {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        Ok(Raw {
            listen: self.listen.or(below.listen),
            upstream: self.upstream.or(below.upstream),
            upstream_ca: self.upstream_ca.or(below.upstream_ca),
            upstream_cert: self.upstream_cert.or(below.upstream_cert),
            upstream_key: self.upstream_key.or(below.upstream_key),
            tls_cert: self.tls_cert.or(below.tls_cert),
            tls_key: self.tls_key.or(below.tls_key),
            budget: self.budget.or(below.budget),
            grace: self.grace.or(below.grace),
            threads: self.threads.or(below.threads),
            prefix: self.prefix.or(below.prefix),
            publish_address: self.publish_address.or(below.publish_address),
            log_format: self.log_format.or(below.log_format),
            log: self.log.or(below.log),
            single: self.single,
            route: below.route,
        })
    }

    /// Checks everything and fills in the defaults.
    pub fn check(self) -> Result<Config, ConfigError> {
        let listen = self.listen.as_deref().unwrap_or("127.0.0.1:9201");
        let listen = listen.parse().map_err(|_| {
            ConfigError::option(
                "listen",
                format!("'{listen}' is not an address with a port, such as 127.0.0.1:9201"),
            )
        })?;
        let upstream = self
            .upstream
            .unwrap_or_else(|| vec!["http://127.0.0.1:9200".into()]);
        if upstream.is_empty() {
            return Err(ConfigError::option(
                "upstream",
                "give the URL of at least one cluster node",
            ));
        }
        let upstream = upstream
            .iter()
            .map(|url| node(url))
            .collect::<Result<_, _>>()?;
        let budget = self.budget.as_deref().map_or(Ok(256 << 20), bytes);
        let grace = self
            .grace
            .as_deref()
            .map_or(Ok(crate::time::Millis(30_000)), span);
        let prefix = self.prefix.unwrap_or_else(|| "cluster_".into());
        if prefix.is_empty()
            || !prefix
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            return Err(ConfigError::option(
                "prefix",
                format!("'{prefix}': use letters, digits and underscores"),
            ));
        }
        let log_format = match self.log_format.as_deref() {
            None | Some("text") => LogFormat::Text,
            Some("json") => LogFormat::Json,
            Some(other) => {
                return Err(ConfigError::option(
                    "log_format",
                    format!("'{other}' is neither text nor json"),
                ));
            }
        };
        Ok(Config {
            listen,
            upstream,
            upstream_ca: self.upstream_ca,
            upstream_identity: pair(
                "upstream_cert",
                self.upstream_cert,
                "upstream_key",
                self.upstream_key,
            )?,
            tls: pair("tls_cert", self.tls_cert, "tls_key", self.tls_key)?,
            budget: budget.map_err(|reason| ConfigError::option("budget", reason))?,
            grace: Duration::from_millis(
                grace
                    .map_err(|reason| ConfigError::option("grace", reason))?
                    .0
                    .unsigned_abs(),
            ),
            threads: self.threads.unwrap_or(0),
            prefix,
            publish_address: self.publish_address,
            log_format,
            log: self.log.unwrap_or_else(|| "info".into()),
            routes: routes(self.single, self.route)?,
        })
    }
}

/// A route given by flags stands before those of the file; without an index pattern the flags win over every table.
fn routes(flags: RouteOptions, tables: Vec<RouteOptions>) -> Result<Vec<Route>, ConfigError> {
    let mut routes = Vec::new();
    let over_tables = if flags.names_an_index() {
        routes.push(flags.check("route")?);
        RouteOptions::default()
    } else if tables.is_empty() && flags.is_set() {
        return Err(ConfigError::option(
            "index",
            "options of a route were given, but no index pattern",
        ));
    } else {
        flags
    };
    for (at, table) in tables.into_iter().enumerate() {
        routes.push(
            over_tables
                .clone()
                .over(table)
                .check(&format!("route {}", at + 1))?,
        );
    }
    Route::agree_on_forests(&routes)?;
    Ok(routes)
}

fn node(url: &str) -> Result<hyper::Uri, ConfigError> {
    let wrong = |reason: &str| ConfigError::option("upstream", format!("'{url}' {reason}"));
    let uri: hyper::Uri = url
        .parse()
        .map_err(|_| wrong("is not a URL such as http://127.0.0.1:9200"))?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        _ => return Err(wrong("must begin with http:// or https://")),
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(wrong(
            "must not have a path: spinney passes the client's path on as it came",
        ));
    }
    if uri.authority().is_some_and(|a| a.as_str().contains('@')) {
        return Err(wrong(
            "must not carry credentials: spinney passes on those of each caller",
        ));
    }
    Ok(uri)
}

fn pair(
    cert_name: &str,
    cert: Option<PathBuf>,
    key_name: &str,
    key: Option<PathBuf>,
) -> Result<Option<Identity>, ConfigError> {
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(Identity { cert, key })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(ConfigError::option(
            key_name,
            format!("is needed with {cert_name}"),
        )),
        (None, Some(_)) => Err(ConfigError::option(
            cert_name,
            format!("is needed with {key_name}"),
        )),
    }
}
