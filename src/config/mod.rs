//! What an operator can set. Options come from flags, then `SPINNEY_*` environment variables, then a TOML file.
//!
//! Raw options ([`RawServeOptions`], [`RawRoute`]) are what was written there: strings, any of which may be absent.
//! `validate` turns them into validated options ([`ServeOptions`], [`Route`]): typed, with the defaults filled in.

mod docid;
mod file_fault;
mod form;
mod limits;
mod memory;
mod node_url;
mod readers;
mod recovery;
mod route;
mod service;
mod shared;
mod storage;
mod transfer;
mod units;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use crate::bulk::StampNames;
use crate::time::Millis;

pub use file_fault::FileFault;
pub use form::StampForm;
pub use limits::ServeLimits;
pub use node_url::{NodeUrl, NodeUrlError};
pub use readers::RestrictedReaders;
pub use recovery::RawRecoverOptions;
pub(crate) use route::fits;
pub use route::{Clock, RawRoute, Route};
pub use service::ServiceUrl;
pub use shared::{ForestStore, OnRedisFailure};
pub use storage::{OnFailure, OnUnreadable, Storage};
pub use transfer::{RawTransferOptions, TransferOptions};

/// What the names of the stamp's fields begin with where nobody chose another prefix.
pub const DEFAULT_PREFIX: &str = "cluster_";

/// What was wrong with which option, and what to do. The cause of a variant with a `source` is not part of its message:
/// whoever prints the error prints the chain.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file of `--config` cannot be read.
    #[error("cannot read the configuration file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file of `--config` is not TOML, or has options that do not exist.
    #[error("the configuration file {path} is not valid")]
    Toml {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        source: FileFault,
    },
    /// The file of `--boilerplate` cannot be read.
    #[error("cannot read the boilerplate file {path}")]
    Boilerplate {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A value is not one of its option, or does not go with the others.
    #[error("{option}: {reason}")]
    Option {
        /// The option, with its route in front if it belongs to one.
        option: String,
        /// What is wrong, and what to do.
        reason: String,
    },
}

impl ConfigError {
    pub(crate) fn option(option: impl Into<String>, reason: impl Into<String>) -> Self {
        ConfigError::Option { option: option.into(), reason: reason.into() }
    }
}

/// Raw options of `spinney serve`: as written, every one may be absent.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawServeOptions {
    /// Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:9201]
    #[arg(long, env = "SPINNEY_LISTEN", value_name = "ADDRESS")]
    listen: Option<String>,
    /// Address and port of a second listener for /_spinney/_health, _ready, _stats and _metrics only
    #[arg(long, env = "SPINNEY_ADMIN_LISTEN", value_name = "ADDRESS")]
    admin_listen: Option<String>,
    /// URL of a cluster node; several share the load [default: http://127.0.0.1:9200]
    #[arg(long, env = "SPINNEY_UPSTREAM", value_name = "URL", hide_env_values = true, value_delimiter = ',')]
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
    /// Memory of all forests; above it the documents that came longest ago are forgotten early [default: half of the
    /// machine's]
    #[arg(long, env = "SPINNEY_FOREST_MEMORY", value_name = "SIZE")]
    forest_memory: Option<String>,
    /// Directory for the forests, to find them again after a restart; without it they are in memory alone
    #[arg(long, env = "SPINNEY_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// What an answer waits for: batch (synced to the disk), interval or interval:5s (written, synced so often), none
    /// [default: batch]
    #[arg(long, env = "SPINNEY_DURABILITY", value_name = "WHEN")]
    durability: Option<String>,
    /// When nothing can be stored any more: refuse writes (503), or continue in memory [default: refuse]
    #[arg(long, env = "SPINNEY_ON_STORE_FAILURE", value_name = "WHAT")]
    on_store_failure: Option<String>,
    /// What a start does when a part of what is stored does not read: refuse: it ends, and says where that part is;
    /// recover: it goes on with the rest and with what the index has, and keeps the old files beside it [default:
    /// refuse]
    #[arg(long, env = "SPINNEY_ON_UNREADABLE", value_name = "refuse|recover")]
    on_unreadable: Option<String>,
    /// Keep the forests in Redis 7 or Valkey, where several spinneys share them: redis://user:password@host:6379,
    /// several hosts of a cluster with commas; rediss:// over TLS; redis+sentinel://host:26379/NAME for the master of
    /// that name (and rediss+sentinel://). For distances up to 4, so not for the method short
    #[arg(long, env = "SPINNEY_FOREST_STORE", value_name = "URL", hide_env_values = true)]
    forest_store: Option<String>,
    /// PEM file of the authority that signed the certificates of --forest-store; only it is trusted then
    #[arg(long, env = "SPINNEY_FOREST_STORE_CA", value_name = "FILE")]
    forest_store_ca: Option<PathBuf>,
    /// When --forest-store cannot be reached: refuse writes (503), or give documents roots of this spinney alone, which
    /// --sweep puts right when it is back [default: refuse]
    #[arg(long, env = "SPINNEY_ON_REDIS_FAILURE", value_name = "WHAT")]
    on_redis_failure: Option<String>,
    /// URL of a cluster node for what spinney asks in its own name: counting groups, and what was indexed and not
    /// stored. It may contain credentials, https://user:password@host:9200; the nodes of --upstream are asked as well,
    /// when it is away too [default: --upstream, without credentials]
    #[arg(long, env = "SPINNEY_SERVICE_URL", value_name = "URL", hide_env_values = true)]
    service_url: Option<String>,
    /// Rebuild the forests from the stamped documents of their indices before serving, if --data-dir does not hold them
    /// yet: what spinney recover does [default: false]
    #[arg(
        long,
        env = "SPINNEY_RECOVER_AT_START",
        value_name = "true|false",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    recover_at_start: Option<bool>,
    /// The most of the budget that one client (IP address) may hold [default: 50%]
    #[arg(long, env = "SPINNEY_CLIENT_SHARE", value_name = "PERCENT")]
    client_share: Option<String>,
    /// How long the body of a write request may take to arrive [default: 10m]
    #[arg(long, env = "SPINNEY_BODY_TIMEOUT", value_name = "DURATION")]
    body_timeout: Option<String>,
    /// How long the cluster may take to begin its answer to a write, or none [default: 10m]
    #[arg(long, env = "SPINNEY_UPSTREAM_TIMEOUT", value_name = "DURATION")]
    upstream_timeout: Option<String>,
    /// Client connections that are served at once [default: not quite half of the files that the process may open, 8192
    /// at most]
    #[arg(long, env = "SPINNEY_MAX_CONNECTIONS", value_name = "N")]
    max_connections: Option<usize>,
    /// How long a client may send nothing, between two requests or in the middle of one that is relayed [default: 10m]
    #[arg(long, env = "SPINNEY_IDLE_TIMEOUT", value_name = "DURATION")]
    idle_timeout: Option<String>,
    /// How long a stop waits for requests in flight [default: 30s]
    #[arg(long, env = "SPINNEY_GRACE", value_name = "DURATION")]
    grace: Option<String>,
    /// Threads for text work [default: all cores]
    #[arg(long, env = "SPINNEY_THREADS", value_name = "N")]
    threads: Option<usize>,
    /// Prefix of the names of the stamp's fields [default: cluster_]
    #[arg(long, env = "SPINNEY_PREFIX", value_name = "PREFIX")]
    prefix: Option<String>,
    /// What a stamp says: lean (root, key and arrival: all that searches need) or full (also the document's own
    /// fingerprints and proof, for a look at them, or to use them without the text) [default: lean]
    #[arg(long, env = "SPINNEY_STAMP", value_name = "FORM")]
    stamp: Option<String>,
    /// Count the groups of similar documents in the background, so that lists can be sorted by similar count: on or
    /// off. Own indices spinney-roots-* are written. Rights that the user of --service-url needs: on the routed indices
    /// read and view_index_metadata (OpenSearch: also indices:data/read/point_in_time/create and delete), on
    /// spinney-roots-* all of index management, read and write [default: on]
    #[arg(long, env = "SPINNEY_COUNTS", value_name = "WHETHER")]
    counts: Option<String>,
    /// Look so often for documents without a stamp in the indices of the routes, and stamp them: 10m, or off. The user
    /// of --service-url needs the rights to read and write the indices, and to put their mapping [default: off]
    #[arg(long, env = "SPINNEY_SWEEP", value_name = "DURATION")]
    sweep: Option<String>,
    /// Whether the cluster hides single documents from some readers (document-level security): none, or how groups are
    /// sorted by similar_count for everybody then: exact (slower, from what each may see) or refuse [default: none]
    #[arg(long, env = "SPINNEY_RESTRICTED_READERS", value_name = "HOW")]
    restricted_readers: Option<String>,
    /// Answer GET and POST /docId/getDocId?json={…} as a service of docIds does, with the forest of this index: its
    /// route needs --method staged, --url-field url, --title-field title and --text-field content. Articles that are
    /// sent there stand in the forest at once, so give them a route of their own unless whoever may ask may also write.
    /// Without this option the path belongs to the cluster
    #[arg(long, env = "SPINNEY_DOCID_ENDPOINT", value_name = "INDEX")]
    docid_endpoint: Option<String>,
    /// Rewrite the publish_address in /_nodes/http answers to this host:port, so that sniffing clients stay with
    /// spinney
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
    single: RawRoute,
    // In the file only: `[[route]]` tables, each with the options of one route.
    #[arg(skip)]
    route: Vec<RawRoute>,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// PEM file of the certificate chain.
    pub cert: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
}

/// Form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Validated options of `spinney serve`.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where to accept connections; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where to accept connections for the own endpoints alone.
    pub admin_listen: Option<SocketAddr>,
    /// Scheme and authority of each node, without a trailing slash; at least one.
    pub upstream: Vec<hyper::Uri>,
    /// PEM file of the only authority to trust towards the cluster.
    pub upstream_ca: Option<PathBuf>,
    /// The client certificate for the cluster.
    pub upstream_identity: Option<Identity>,
    /// The certificate to serve TLS with.
    pub tls: Option<Identity>,
    /// Bytes of write requests in flight for the whole process.
    pub budget: usize,
    /// Bytes that all forests together may take; above it the oldest arrivals go before the window's end.
    pub forest_memory: usize,
    /// Where the forests are stored; `None`: in memory alone.
    pub storage: Option<Storage>,
    /// Where the forests are kept for several processes; `None`: each has its own.
    pub forest_store: Option<ForestStore>,
    /// Where and as whom spinney asks in its own name.
    pub service_url: ServiceUrl,
    /// Forests that are not stored are rebuilt from the indices first.
    pub recover_at_start: bool,
    /// How much, how many and how long.
    pub limits: ServeLimits,
    /// How long a stop waits for requests in flight.
    pub grace: Duration,
    /// Threads for text work; 0 means all cores.
    pub threads: usize,
    /// What the names of the stamp's fields begin with; [`StampNames::new`] takes it.
    pub prefix: String,
    /// Which fields a stamp has.
    pub stamp: StampForm,
    /// Whether groups are counted.
    pub counts: bool,
    /// How long after a look for documents without a stamp the next one begins; `None`: nobody looks.
    pub sweep: Option<Duration>,
    /// How groups are sorted where readers may not see every document of an index.
    pub restricted_readers: RestrictedReaders,
    /// The index by whose route docIds are given, if they are.
    pub docid_endpoint: Option<String>,
    /// `host:port` to put into the answers that sniffing clients read.
    pub publish_address: Option<String>,
    /// Form of the log lines.
    pub log_format: LogFormat,
    /// Filter of the log, such as `info` or `spinney=debug`.
    pub log: String,
    /// The first one that matches an index counts.
    pub routes: Vec<Route>,
}

impl RawServeOptions {
    /// Reads the file, if any, and lets the flags and environment variables in `self` win over it.
    ///
    /// # Errors
    /// When the file cannot be read or is not valid.
    pub fn over_file(self, file: Option<&std::path::Path>) -> Result<RawServeOptions, ConfigError> {
        let Some(path) = file else { return Ok(self) };
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let below: RawServeOptions = toml::from_str(&text)
            .map_err(|source| ConfigError::Toml { path: path.to_owned(), source: FileFault::of(&text, &source) })?;
        Ok(RawServeOptions {
            listen: self.listen.or(below.listen),
            admin_listen: self.admin_listen.or(below.admin_listen),
            upstream: self.upstream.or(below.upstream),
            upstream_ca: self.upstream_ca.or(below.upstream_ca),
            upstream_cert: self.upstream_cert.or(below.upstream_cert),
            upstream_key: self.upstream_key.or(below.upstream_key),
            tls_cert: self.tls_cert.or(below.tls_cert),
            tls_key: self.tls_key.or(below.tls_key),
            budget: self.budget.or(below.budget),
            forest_memory: self.forest_memory.or(below.forest_memory),
            data_dir: self.data_dir.or(below.data_dir),
            durability: self.durability.or(below.durability),
            on_store_failure: self.on_store_failure.or(below.on_store_failure),
            on_unreadable: self.on_unreadable.or(below.on_unreadable),
            forest_store: self.forest_store.or(below.forest_store),
            forest_store_ca: self.forest_store_ca.or(below.forest_store_ca),
            on_redis_failure: self.on_redis_failure.or(below.on_redis_failure),
            service_url: self.service_url.or(below.service_url),
            recover_at_start: self.recover_at_start.or(below.recover_at_start),
            client_share: self.client_share.or(below.client_share),
            body_timeout: self.body_timeout.or(below.body_timeout),
            upstream_timeout: self.upstream_timeout.or(below.upstream_timeout),
            max_connections: self.max_connections.or(below.max_connections),
            idle_timeout: self.idle_timeout.or(below.idle_timeout),
            grace: self.grace.or(below.grace),
            threads: self.threads.or(below.threads),
            prefix: self.prefix.or(below.prefix),
            stamp: self.stamp.or(below.stamp),
            counts: self.counts.or(below.counts),
            sweep: self.sweep.or(below.sweep),
            restricted_readers: self.restricted_readers.or(below.restricted_readers),
            docid_endpoint: self.docid_endpoint.or(below.docid_endpoint),
            publish_address: self.publish_address.or(below.publish_address),
            log_format: self.log_format.or(below.log_format),
            log: self.log.or(below.log),
            single: self.single,
            route: below.route,
        })
    }

    /// Validates every option and fills in the defaults.
    ///
    /// # Errors
    /// When a value is not one of its option, or options do not go together.
    pub fn validate(self) -> Result<ServeOptions, ConfigError> {
        let limits = ServeLimits::of(&self)?;
        let storage = Storage::of(&self)?;
        let forest_store = ForestStore::of(&self)?;
        let counts = service::counts(&self)?;
        let sweep = service::sweep(&self)?;
        let listen = self.listen.as_deref().unwrap_or("127.0.0.1:9201");
        let listen = address("listen", listen)?;
        let admin_listen = self.admin_listen.as_deref();
        let admin_listen = admin_listen.map(|text| address("admin_listen", text)).transpose()?;
        let is_named = self.upstream.is_some();
        let upstream = self.upstream.unwrap_or_else(|| vec!["http://127.0.0.1:9200".into()]);
        if upstream.is_empty() {
            return Err(ConfigError::option("upstream", "give the URL of at least one cluster node"));
        }
        let upstream = (1..).zip(&upstream).map(|(nth, url)| node(nth, url)).collect::<Result<Vec<_>, _>>()?;
        let service_url = match &self.service_url {
            Some(url) if !is_named => ServiceUrl::of(Some(url), &[])?,
            url => ServiceUrl::of(url.as_deref(), &upstream)?,
        };
        let recover_at_start = self.recover_at_start.unwrap_or(false);
        if recover_at_start && storage.is_none() {
            return Err(ConfigError::option(
                "recover_at_start",
                "rebuilds what is stored, and data_dir is missing, which says where",
            ));
        }
        let budget = self.budget.as_deref().map_or(Ok(256 << 20), units::bytes);
        let forest_memory = match self.forest_memory.as_deref() {
            Some(size) => units::bytes(size),
            None => Ok(memory::of_machine().map_or(DEFAULT_FOREST_MEMORY, |bytes| bytes / 2)),
        };
        let grace = self.grace.as_deref().map_or(Ok(Millis(30_000)), units::duration);
        let prefix = self.prefix.unwrap_or_else(|| DEFAULT_PREFIX.into());
        StampNames::new(&prefix).map_err(|e| ConfigError::option("prefix", e.to_string()))?;
        let log_format = match self.log_format.as_deref() {
            None | Some("text") => LogFormat::Text,
            Some("json") => LogFormat::Json,
            Some(other) => {
                return Err(ConfigError::option("log_format", format!("'{other}' is not one of text, json")));
            }
        };
        let routes = routes(self.single, self.route)?;
        if forest_store.is_some() {
            routes.iter().try_for_each(Route::can_be_shared)?;
        }
        if let Some(index) = &self.docid_endpoint {
            docid::endpoint(index, &routes)?;
        }
        Ok(ServeOptions {
            listen,
            admin_listen,
            limits,
            upstream,
            upstream_ca: self.upstream_ca,
            upstream_identity: identity("upstream_cert", self.upstream_cert, "upstream_key", self.upstream_key)?,
            tls: identity("tls_cert", self.tls_cert, "tls_key", self.tls_key)?,
            budget: budget.map_err(|reason| ConfigError::option("budget", reason))?,
            storage,
            forest_store,
            service_url,
            recover_at_start,
            forest_memory: forest_memory.map_err(|reason| ConfigError::option("forest_memory", reason))?,
            grace: Duration::from_millis(
                grace.map_err(|reason| ConfigError::option("grace", reason))?.0.unsigned_abs(),
            ),
            threads: self.threads.unwrap_or(0),
            prefix,
            stamp: StampForm::of(self.stamp.as_deref())?,
            counts,
            sweep,
            restricted_readers: RestrictedReaders::of(self.restricted_readers.as_deref())?,
            docid_endpoint: self.docid_endpoint,
            publish_address: self.publish_address,
            log_format,
            log: self.log.unwrap_or_else(|| "info".into()),
            routes,
        })
    }
}

/// Memory of the forests where the machine does not say how much it has.
const DEFAULT_FOREST_MEMORY: usize = 2 << 30;

/// A route given by flags stands before those of the file; without an index pattern the flags win over every table.
fn routes(flags: RawRoute, tables: Vec<RawRoute>) -> Result<Vec<Route>, ConfigError> {
    let mut routes = Vec::new();
    let over_tables = if flags.names_an_index() {
        routes.push(flags.validate("route")?);
        RawRoute::default()
    } else if tables.is_empty() && flags.is_set() {
        return Err(ConfigError::option("index", "options of a route were given, but no index pattern"));
    } else {
        flags
    };
    for (at, table) in tables.into_iter().enumerate() {
        routes.push(over_tables.clone().over(table).validate(&format!("route {}", at + 1))?);
    }
    Route::agree_on_forests(&routes)?;
    Ok(routes)
}

fn address(option: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    let wrong = |_| format!("'{text}' is not an address with a port, such as 127.0.0.1:9201");
    text.parse().map_err(wrong).map_err(|reason| ConfigError::option(option, reason))
}

/// The `nth` URL of a node. Of one that is not understood, nothing is repeated: there may be a password in it.
fn node(nth: usize, url: &str) -> Result<hyper::Uri, ConfigError> {
    let wrong = |reason: String| ConfigError::option("upstream", format!("URL {nth}: {reason}"));
    let url = NodeUrl::parse(url).map_err(|error| wrong(error.to_string()))?;
    if url.credentials().is_some() {
        return Err(wrong(format!(
            "{url} must not contain credentials: spinney passes on those of each caller, and has its own in \
             --service-url"
        )));
    }
    if !url.path().is_empty() {
        return Err(wrong(format!("{url} must not have a path: spinney passes the client's path on as it came")));
    }
    Ok(url.uri().clone())
}

/// Certificate and key go together: `cert_name` and `key_name` are their options.
fn identity(
    cert_name: &str,
    cert: Option<PathBuf>,
    key_name: &str,
    key: Option<PathBuf>,
) -> Result<Option<Identity>, ConfigError> {
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(Identity { cert, key })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(ConfigError::option(key_name, format!("is needed with {cert_name}"))),
        (None, Some(_)) => Err(ConfigError::option(cert_name, format!("is needed with {key_name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_options_say_which_and_what_to_do() {
        let with = |change: fn(&mut RawServeOptions)| {
            let mut options = RawServeOptions::default();
            change(&mut options);
            options.validate().unwrap_err().to_string()
        };
        let no_prefix = StampNames::new("1_").unwrap_err();
        for (error, expected) in [
            (
                with(|o| o.listen = Some("9201".into())),
                "listen: '9201' is not an address with a port, such as 127.0.0.1:9201".to_owned(),
            ),
            (
                with(|o| o.admin_listen = Some("health".into())),
                "admin_listen: 'health' is not an address with a port, such as 127.0.0.1:9201".into(),
            ),
            (
                with(|o| o.upstream = Some(Vec::new())),
                "upstream: give the URL of at least one cluster node".into(),
            ),
            (
                with(|o| o.upstream = Some(vec!["es:9200".into()])),
                "upstream: URL 1: it must begin with http:// or https://".into(),
            ),
            (
                with(|o| o.upstream = Some(vec!["http://me:it@es:9200".into()])),
                "upstream: URL 1: http://es:9200 must not contain credentials: spinney passes on those of each caller, \
                 and has its own in --service-url"
                    .into(),
            ),
            (
                // A comma in a password makes two of them.
                with(|o| o.upstream = Some(vec!["http://es".into(), "http://svc:Pa55".into()])),
                "upstream: URL 2: it is not a URL such as http://127.0.0.1:9200".into(),
            ),
            (
                with(|o| o.upstream = Some(vec!["http://es:9200/search".into()])),
                "upstream: URL 1: http://es:9200/search must not have a path: spinney passes the client's path on as \
                 it came"
                    .into(),
            ),
            (
                with(|o| o.budget = Some("5 parsecs".into())),
                "budget: unknown unit 'parsecs' in '5 parsecs': use KiB, MiB or GiB".into(),
            ),
            (
                with(|o| o.grace = Some("soon".into())),
                "grace: 'soon' does not begin with a whole number".into(),
            ),
            (
                with(|o| o.prefix = Some("1_".into())),
                format!("prefix: {no_prefix}"),
            ),
            (
                with(|o| o.stamp = Some("Full".into())),
                "stamp: 'Full' is not one of lean, full".into(),
            ),
            (
                with(|o| o.tls_cert = Some("cert.pem".into())),
                "tls_key: is needed with tls_cert".into(),
            ),
            (
                with(|o| o.log_format = Some("xml".into())),
                "log_format: 'xml' is not one of text, json".into(),
            ),
            (
                with(|o| o.single = toml::from_str("k = 3").unwrap()),
                "index: options of a route were given, but no index pattern".into(),
            ),
        ] {
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn a_cause_is_told_by_the_chain_alone() {
        let missing = RawServeOptions::default().over_file(Some("nowhere.toml".as_ref()));
        let error = missing.unwrap_err();
        assert_eq!(error.to_string(), "cannot read the configuration file nowhere.toml");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(!error.to_string().contains(&cause));
    }
}
