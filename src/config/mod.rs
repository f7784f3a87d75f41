//! The options. They come from flags, then `SPINNEY_*` environment variables, then a TOML file.
//!
//! Raw options ([`RawServeOptions`], [`RawRoute`]) hold the given values, each parsed ([`values`]) and any of them
//! absent. `validate` fills in the defaults and checks combinations: [`ServeOptions`], [`Route`].

mod aws;
mod callers;
mod choices;
mod docid;
mod effective;
mod file_fault;
mod flags;
mod limits;
mod memory;
mod node_url;
mod probe;
mod recovery;
mod reload;
mod representative;
mod route;
mod service;
mod shared;
mod small_file;
mod storage;
mod transfer;
pub mod values;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

pub use aws::{AuthFlags, AwsService, Sigv4Options, UpstreamAuth};
pub use callers::{Callers, CallersError};
use choices::Switch;
pub use choices::{LogFormat, OnUnstamped, RestrictedReaders, StampForm};
pub use file_fault::FileFault;
pub use flags::Flags;
pub use limits::ServeLimits;
pub use node_url::{NodeUrl, NodeUrlError};
pub use recovery::RawRecoverOptions;
pub use representative::RepresentativeBy;
pub use route::{Clock, RawRoute, Route};
pub use service::ServiceUrl;
pub use shared::{OnRedisFailure, RedisOptions};
pub(crate) use small_file::{is_regular, read_regular};
use storage::DurabilityValue;
pub use storage::{OnFailure, OnUnreadable, Storage};
pub use transfer::{RawTransferOptions, TransferOptions};
pub use values::ThreadCount;
use values::{ByteSize, FieldPrefix, ListenAddress, OrNone, Percent, PublishAddress, SweepInterval, TimeSpan, Timeout};

/// The default prefix of the stamp's fields.
pub const DEFAULT_PREFIX: &str = "cluster_";

/// An error of an option, and the way out. The cause of a variant with a `source` is not part of its message: callers
/// print the whole chain.
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
        /// The error, and its place.
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
        /// The error, and the way out.
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
    listen: Option<ListenAddress>,
    /// Address and port of a second listener for probes, metrics and spinney reload only: /_spinney/_health, _ready,
    /// _stats, _metrics (also /metrics) and _reload
    #[arg(long, env = "SPINNEY_ADMIN_LISTEN", value_name = "ADDRESS")]
    admin_listen: Option<ListenAddress>,
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
    /// Sign all requests to the cluster, those of callers too: sigv4 (Amazon OpenSearch Service), with the credentials
    /// of the environment, profile, container or instance. Then anyone who reaches it acts as spinney: it listens on
    /// loopback alone, or with --callers, --client-ca or --trust-network
    #[arg(long, env = "SPINNEY_UPSTREAM_AUTH", value_name = "HOW")]
    upstream_auth: Option<UpstreamAuth>,
    /// Region of the domain or collection, for --upstream-auth sigv4 [default: that of the environment or profile]
    #[arg(long, env = "SPINNEY_AWS_REGION", value_name = "REGION")]
    aws_region: Option<String>,
    /// es (a domain) or aoss (a collection of OpenSearch Serverless), for --upstream-auth sigv4 [default: es]
    #[arg(long, env = "SPINNEY_AWS_SERVICE", value_name = "SERVICE")]
    aws_service: Option<AwsService>,
    /// File of those who may send requests, for --upstream-auth sigv4: lines of htpasswd -nB for users with a password
    /// (name:$2y$…), or name:sha256:HEX for the hash of a bearer token. It is read again when it has changed
    #[arg(long, env = "SPINNEY_CALLERS", value_name = "FILE")]
    callers: Option<PathBuf>,
    /// Serve anyone who reaches the address of --listen, without credentials, for --upstream-auth sigv4 [default: false]
    #[arg(
        long,
        env = "SPINNEY_TRUST_NETWORK",
        value_name = "true|false",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    trust_network: Option<bool>,
    /// PEM file of the authority whose certificates clients have to show, but not to the admin listener; needs a
    /// certificate to serve TLS with
    #[arg(long, env = "SPINNEY_CLIENT_CA", value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Whether groups may be changed by hand (merge, split, pin, undo): on or off [default: on; off with
    /// --upstream-auth, where all callers have the same rights]
    #[arg(long, env = "SPINNEY_OVERRIDES", value_name = "WHETHER")]
    overrides: Option<Switch>,
    /// PEM file of the certificate chain to serve TLS with
    #[arg(long, env = "SPINNEY_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file of the key of that certificate
    #[arg(long, env = "SPINNEY_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Bytes of write requests held at once in the whole process; above it: 429 [default: 256MiB]
    #[arg(long, env = "SPINNEY_BUDGET", value_name = "SIZE")]
    budget: Option<ByteSize>,
    /// Memory of all forests; above it the documents that came longest ago are forgotten early [default: half of the
    /// machine's]
    #[arg(long, env = "SPINNEY_FOREST_MEMORY", value_name = "SIZE")]
    forest_memory: Option<ByteSize>,
    /// Directory for the forests, to find them again after a restart; without it they are in memory alone
    #[arg(long, env = "SPINNEY_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// What an answer waits for: batch (synced to the disk), interval or interval:5s (written, synced so often), none
    /// [default: batch]
    #[arg(long, env = "SPINNEY_DURABILITY", value_name = "WHEN")]
    durability: Option<DurabilityValue>,
    /// When nothing can be stored any more: refuse writes (503), or continue in memory [default: refuse]
    #[arg(long, env = "SPINNEY_ON_STORE_FAILURE", value_name = "WHAT")]
    on_store_failure: Option<OnFailure>,
    /// What a start does when a part of what is stored does not read: refuse: it ends, and says where that part is;
    /// recover: it goes on with the rest and with what the index has, and keeps the old files beside it [default:
    /// refuse]
    #[arg(long, env = "SPINNEY_ON_UNREADABLE", value_name = "refuse|recover")]
    on_unreadable: Option<OnUnreadable>,
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
    on_redis_failure: Option<OnRedisFailure>,
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
    client_share: Option<Percent>,
    /// How long the body of a write request may take to arrive [default: 10m]
    #[arg(long, env = "SPINNEY_BODY_TIMEOUT", value_name = "DURATION")]
    body_timeout: Option<Timeout>,
    /// How long the cluster may take to begin its answer to a write, or none [default: 10m]
    #[arg(long, env = "SPINNEY_UPSTREAM_TIMEOUT", value_name = "DURATION")]
    upstream_timeout: Option<OrNone<Timeout>>,
    /// Client connections that are served at once [default: not quite half of the files that the process may open, 8192
    /// at most]
    #[arg(long, env = "SPINNEY_MAX_CONNECTIONS", value_name = "N")]
    max_connections: Option<NonZeroUsize>,
    /// How long a client may send nothing, between two requests or in the middle of one that is relayed [default: 10m]
    #[arg(long, env = "SPINNEY_IDLE_TIMEOUT", value_name = "DURATION")]
    idle_timeout: Option<Timeout>,
    /// How long a stop waits for requests in flight [default: 30s]
    #[arg(long, env = "SPINNEY_GRACE", value_name = "DURATION")]
    grace: Option<TimeSpan>,
    /// Threads for text work [default: all cores]
    #[arg(long, env = "SPINNEY_THREADS", value_name = "N")]
    threads: Option<ThreadCount>,
    /// Prefix of the names of the stamp's fields [default: cluster_]
    #[arg(long, env = "SPINNEY_PREFIX", value_name = "PREFIX")]
    prefix: Option<FieldPrefix>,
    /// What a stamp says: lean (root, key and arrival: all that searches need) or full (also the document's own
    /// fingerprints and proof, for a look at them, or to use them without the text) [default: lean]
    #[arg(long, env = "SPINNEY_STAMP", value_name = "FORM")]
    stamp: Option<StampForm>,
    /// Count the groups of similar documents in the background, so that lists can be sorted by similar count: on or
    /// off. Own indices spinney-roots-* are written. Rights that the user of --service-url needs: on the routed indices
    /// read and view_index_metadata (OpenSearch: also indices:monitor/settings/get), on spinney-roots-* all of index
    /// management, read and write [default: on]
    #[arg(long, env = "SPINNEY_COUNTS", value_name = "WHETHER")]
    counts: Option<Switch>,
    /// Look so often for documents without a stamp in the indices of the routes, and stamp them: 10m, or off. The user
    /// of --service-url needs the rights to read and write the indices, and to put their mapping [default: off]
    #[arg(long, env = "SPINNEY_SWEEP", value_name = "DURATION")]
    sweep: Option<SweepInterval>,
    /// What happens to a write that may carry documents of a route and cannot be stamped (another form than JSON,
    /// another encoding than gzip or deflate, malformed, _bulk/stream): pass (as it came, without a stamp), or refuse
    /// (400) [default: pass]
    #[arg(long, env = "SPINNEY_UNSTAMPED", value_name = "WHAT")]
    unstamped: Option<OnUnstamped>,
    /// Whether the cluster hides single documents from some readers (document-level security): none, or how groups are
    /// sorted by similar_count for everybody then: exact (slower, from what each may see) or refuse [default: none]
    #[arg(long, env = "SPINNEY_RESTRICTED_READERS", value_name = "HOW")]
    restricted_readers: Option<RestrictedReaders>,
    /// Answer GET and POST /docId/getDocId?json={…} as a service of docIds does, with the forest of this index: its
    /// route needs --method staged, --url-field url, --title-field title and --text-field content. Articles that are
    /// sent there stand in the forest at once, so give them a route of their own unless all who may ask may also write.
    /// Without this option the path belongs to the cluster
    #[arg(long, env = "SPINNEY_DOCID_ENDPOINT", value_name = "INDEX")]
    docid_endpoint: Option<String>,
    /// Rewrite the publish_address in /_nodes/http answers to this host:port, so that sniffing clients stay with
    /// spinney
    #[arg(long, env = "SPINNEY_PUBLISH_ADDRESS", value_name = "HOST:PORT")]
    publish_address: Option<PublishAddress>,
    /// File for one line of JSON about each request, or - for standard output; it is opened again at SIGHUP and
    /// by spinney reload
    #[arg(long, env = "SPINNEY_ACCESS_LOG", value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Form of the log lines on standard error: text or json [default: text]
    #[arg(long, env = "SPINNEY_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<LogFormat>,
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
    /// How requests to the cluster are signed; `None`: they are sent with what their callers show.
    pub sigv4: Option<Sigv4Options>,
    /// File of those who may send requests; `None`: anyone who reaches the listener.
    pub callers: Option<PathBuf>,
    /// Whether signed requests may come from anywhere, without credentials.
    pub trust_network: bool,
    /// PEM file of the authority of client certificates.
    pub client_ca: Option<PathBuf>,
    /// Whether groups may be changed by hand.
    pub overrides: bool,
    /// The certificate to serve TLS with.
    pub tls: Option<Identity>,
    /// Bytes that all forests together may take; above it the oldest arrivals go before the window's end.
    pub forest_memory: usize,
    /// Where the forests are stored; `None`: in memory alone.
    pub storage: Option<Storage>,
    /// Where the forests are kept for several processes; `None`: each has its own.
    pub forest_store: Option<RedisOptions>,
    /// Where and as whom spinney asks in its own name.
    pub service_url: ServiceUrl,
    /// Forests that are not stored are rebuilt from the indices first.
    pub recover_at_start: bool,
    /// How much, how many and how long.
    pub limits: ServeLimits,
    /// Threads for text work; 0 means all cores.
    pub threads: usize,
    /// Prefix of the stamp's fields.
    pub prefix: String,
    /// Which fields a stamp has.
    pub stamp: StampForm,
    /// Whether groups are counted.
    pub counts: bool,
    /// Pause between two sweeps for documents without a stamp; `None`: no sweeps.
    pub sweep: Option<Duration>,
    /// What happens to writes that cannot be stamped.
    pub unstamped: OnUnstamped,
    /// How groups are sorted where readers may not see every document of an index.
    pub restricted_readers: RestrictedReaders,
    /// The index by whose route docIds are given, if they are.
    pub docid_endpoint: Option<String>,
    /// `host:port` to put into the answers that sniffing clients read.
    pub publish_address: Option<String>,
    /// File for a line about each request; `-`: standard output.
    pub access_log: Option<PathBuf>,
    /// Form of the log lines.
    pub log_format: LogFormat,
    /// Filter of the log, such as `info` or `spinney=debug`.
    pub log: String,
    /// The first one that matches an index counts.
    pub routes: Vec<Route>,
}

impl RawServeOptions {
    /// Validates every option and fills in the defaults.
    ///
    /// # Errors
    /// When a value is not one of its option, or options do not go together.
    pub fn validate(self) -> Result<ServeOptions, ConfigError> {
        let limits = ServeLimits::of(&self)?;
        let storage = Storage::of(&self)?;
        let forest_store = RedisOptions::of(&self)?;
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
        let half_of_machine = || memory::of_machine().map_or(DEFAULT_FOREST_MEMORY, |bytes| bytes / 2);
        let routes = routes(self.single, self.route)?;
        if forest_store.is_some() {
            routes.iter().try_for_each(Route::can_be_shared)?;
        }
        if let Some(index) = &self.docid_endpoint {
            docid::endpoint(index, &routes)?;
        }
        let sigv4 = Sigv4Options::of(self.upstream_auth, self.aws_region, self.aws_service)?;
        let is_serverless = sigv4.as_ref().is_some_and(|sigv4| sigv4.service == AwsService::Aoss);
        if is_serverless && self.counts == Some(Switch::On) {
            return Err(ConfigError::option("counts", "OpenSearch Serverless lets nobody see new writes at once: off"));
        }
        let counts = !is_serverless && self.counts != Some(Switch::Off);
        let options = ServeOptions {
            listen: self.listen.map_or(DEFAULT_LISTEN, |address| address.0),
            admin_listen: self.admin_listen.map(|address| address.0),
            limits,
            upstream,
            upstream_ca: self.upstream_ca,
            upstream_identity: identity("upstream_cert", self.upstream_cert, "upstream_key", self.upstream_key)?,
            sigv4,
            callers: self.callers,
            trust_network: self.trust_network.unwrap_or(false),
            client_ca: self.client_ca,
            overrides: self.overrides.map_or(self.upstream_auth.is_none(), |switch| switch == Switch::On),
            tls: identity("tls_cert", self.tls_cert, "tls_key", self.tls_key)?,
            storage,
            forest_store,
            service_url,
            recover_at_start,
            forest_memory: self.forest_memory.map_or_else(half_of_machine, |size| size.0),
            threads: self.threads.map_or(0, |threads| threads.0.get()),
            prefix: self.prefix.map_or_else(|| DEFAULT_PREFIX.into(), |prefix| prefix.0),
            stamp: self.stamp.unwrap_or_default(),
            counts,
            sweep: self.sweep.and_then(|interval| interval.0),
            unstamped: self.unstamped.unwrap_or_default(),
            restricted_readers: self.restricted_readers.unwrap_or_default(),
            docid_endpoint: self.docid_endpoint,
            publish_address: self.publish_address.map(|address| address.0),
            access_log: self.access_log,
            log_format: self.log_format.unwrap_or_default(),
            log: self.log.unwrap_or_else(|| "info".into()),
            routes,
        };
        options.check_door()?;
        Ok(options)
    }
}

/// Memory of the forests where the machine's is unknown.
const DEFAULT_FOREST_MEMORY: usize = 2 << 30;

/// Address of the listener by default.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9201);

/// The route of the flags, if they have an index pattern, then those of the file.
fn routes(flags: RawRoute, tables: Vec<RawRoute>) -> Result<Vec<Route>, ConfigError> {
    let mut routes = Vec::new();
    if flags.names_an_index() {
        routes.push(flags.validate("route")?);
    } else if flags.is_set() {
        return Err(ConfigError::option("index", "options of a route were given, but no index pattern"));
    }
    for (at, table) in tables.into_iter().enumerate() {
        routes.push(table.validate(&format!("route {}", at + 1))?);
    }
    Route::agree_on_forests(&routes)?;
    Route::none_is_shadowed(&routes)?;
    Ok(routes)
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
mod fields_tests;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packaged_file_is_valid_and_so_is_all_that_it_suggests() {
        let packaged = include_str!("../../packaging/spinney.toml");
        let options = |text: &str| toml::from_str::<RawServeOptions>(text).unwrap().validate().unwrap();
        assert!(options(packaged).routes.is_empty());
        // What is no prose begins right after the sign.
        let suggested = packaged.replace("\n#", "\n").replace("\n ", "\n# ");
        let options = options(&suggested);
        assert_eq!(options.routes.len(), 1);
        assert!(options.tls.is_some() && options.service_url.credentials.is_some());
    }

    /// The error of a file with these lines.
    fn error(text: &str) -> String {
        match toml::from_str::<RawServeOptions>(text) {
            Ok(options) => options.validate().unwrap_err().to_string(),
            Err(error) => FileFault::of(text, &error).to_string(),
        }
    }

    #[test]
    fn wrong_options_say_what_to_do() {
        let no_prefix = crate::bulk::StampNames::new("1_").unwrap_err().to_string();
        for (text, expected) in [
            ("listen = '9201'", "use an address with a port, such as 127.0.0.1:9201"),
            ("admin_listen = 'health'", "use an address with a port, such as 127.0.0.1:9201"),
            ("upstream = []", "upstream: give the URL of at least one cluster node"),
            ("upstream = ['es:9200']", "upstream: URL 1: it must begin with http:// or https://"),
            (
                "upstream = ['http://me:it@es:9200']",
                "upstream: URL 1: http://es:9200 must not contain credentials: spinney passes on those of each caller, \
                 and has its own in --service-url",
            ),
            // A comma in a password makes two of them.
            (
                "upstream = ['http://es', 'http://svc:Pa55']",
                "upstream: URL 2: it is not a URL such as http://127.0.0.1:9200",
            ),
            (
                "upstream = ['http://es:9200/search']",
                "upstream: URL 1: http://es:9200/search must not have a path: spinney passes the client's path on as \
                 it came",
            ),
            ("budget = '5 parsecs'", "use a whole number with KiB, MiB or GiB, such as 256MiB"),
            ("grace = 'soon'", "use a whole number with ms, s, m, h or d, such as 30d"),
            ("prefix = '1_'", &no_prefix),
            ("stamp = 'Full'", "expected `lean` or `full`"),
            ("counts = 'no'", "expected `on` or `off`"),
            ("restricted_readers = 'all'", "expected one of `none`, `exact`, `refuse`"),
            ("tls_cert = 'cert.pem'", "tls_key: is needed with tls_cert"),
            ("log_format = 'xml'", "expected `text` or `json`"),
            (
                "recover_at_start = true",
                "recover_at_start: rebuilds what is stored, and data_dir is missing, which says where",
            ),
        ] {
            let error = error(text);
            let is_of_file = error.starts_with("TOML parse error at line 1, column ") && error.ends_with(expected);
            assert!(error == expected || is_of_file, "{text}: {error}");
        }
    }

    #[test]
    fn a_cause_is_told_by_the_chain_alone() {
        let error = flags::read(Some("nowhere.toml".as_ref())).unwrap_err();
        assert_eq!(error.to_string(), "cannot read the configuration file nowhere.toml");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(!error.to_string().contains(&cause));
    }
}
