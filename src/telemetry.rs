//! Metrics for `_stats` and `_metrics`, and the format of the log.

mod access_log;
#[cfg(target_os = "linux")]
mod process;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry as MetricRegistry;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};

pub(crate) use access_log::{AccessLog, AccessLogError, Line};

use crate::config::LogFormat;
use crate::method::{Reason, Reasons};

/// The content type of [`Metrics::encode`].
pub(crate) const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Length up to which a header of a client is logged.
pub(crate) const LOGGABLE_CHARS: usize = 128;

/// Prefix of every metric but those of the process.
const PREFIX: &str = "spinney";

/// Optional features of this build.
const FEATURES: &str = match (cfg!(feature = "aws"), cfg!(feature = "otel")) {
    (true, true) => "aws,otel",
    (true, false) => "aws",
    (false, true) => "otel",
    (false, false) => "",
};

/// The filter of the log, which can be replaced.
pub(crate) struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    /// Logs by another filter from now on.
    ///
    /// # Errors
    /// When nothing is logged any more.
    pub(crate) fn replace(&self, filter: EnvFilter) -> anyhow::Result<()> {
        Ok(self.0.reload(filter)?)
    }
}

/// Initialises logging to standard error.
///
/// # Errors
/// When `filter` is not a log filter.
pub(crate) fn init_log(format: LogFormat, filter: &str) -> anyhow::Result<LogFilter> {
    let (filter, handle) = reload::Layer::new(log_filter(filter)?);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).init();
    Ok(LogFilter(handle))
}

/// A filter of the log.
///
/// # Errors
/// When it is none.
pub(crate) fn log_filter(filter: &str) -> anyhow::Result<EnvFilter> {
    if let Some(word) = no_level(filter) {
        anyhow::bail!(
            "log: '{word}' is no level: use error, warn, info, debug or trace, or a filter such as spinney=debug"
        );
    }
    let wanted = EnvFilter::try_new(filter)
        .map_err(|e| anyhow::anyhow!("log: '{filter}' is not a filter such as info or spinney=debug: {e}"))?;
    // The SDK of AWS logs headers with tokens at these levels, and a filter that names it more closely gets them.
    Ok(match wanted.max_level_hint() > Some(LevelFilter::INFO) {
        true => EnvFilter::new(format!("aws_=warn,{filter}")),
        false => wanted,
    })
}

/// A directive of a filter that is no level: as a module name it would silence the log.
fn no_level(filter: &str) -> Option<&str> {
    let mut directives = filter.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let has_level = filter.split([',', '=']).any(|word| is_level(word.trim()));
    directives.find(|directive| !has_level && !directive.contains(['=', '[', ':']) && *directive != "spinney")
}

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $name:ident,)+) => {
        /// Monotone counters since the start of the process.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[doc = $help])+ pub(crate) $name: Counter,)+
        }

        impl Counters {
            /// Name and value of every counter.
            pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name.get()),)+].into_iter()
            }

            fn register(&self, registry: &mut MetricRegistry) {
                $(registry.register(
                    stringify!($name),
                    sentence(concat!($($help),+)),
                    self.$name.clone(),
                );)+
            }
        }
    };
}

counters! {
    /// Requests received, own endpoints included.
    requests,
    /// Bulk requests to stamp.
    bulk_requests,
    /// Single-document writes to stamp.
    document_requests,
    /// Documents that were stamped.
    documents_stamped,
    /// Stamped documents without usable text, each with a root of its own.
    documents_without_text,
    /// Documents of a routed index that were forwarded unstamped: updates without the text, sources that are not JSON.
    documents_unstamped,
    /// Documents that joined an existing tree.
    documents_joined,
    /// Documents placed by the local fallback while Redis was away, for a sweep to stamp again.
    documents_local_fallback,
    /// Write requests forwarded unstamped because their body was not understood.
    bodies_not_understood,
    /// Bytes of write requests received.
    write_bytes,
    /// Requests refused with 429 because the budget of bytes in flight was used up.
    refused_over_budget,
    /// Requests refused with 408 because their body came too slowly.
    bodies_too_slow,
    /// Connections over the limit, whose requests were refused with 503.
    connections_refused,
    /// Connections that were closed to make room for others.
    connections_evicted,
    /// Requests refused with 503 during a stop.
    refused_stopping,
    /// Requests for which no cluster node was reachable.
    upstream_unreachable,
    /// Requests whose connection to the cluster broke after they had been sent.
    upstream_broken,
    /// Writes that the cluster did not begin to answer in time.
    upstream_timed_out,
    /// Sentences that were found to be boilerplate.
    sentences_learned,
    /// Items that the cluster refused.
    items_failed,
    /// Nodes withdrawn because the only document that used them was refused.
    nodes_withdrawn,
    /// Deferred placements that were evicted before the cluster accepted their documents.
    documents_not_kept,
    /// Bulk responses that could not be matched to the documents: their nodes stay.
    responses_unmatched,
    /// Articles that were given a docId.
    docid_articles,
    /// Articles similar to a known one.
    docid_repeats,
}

/// A label with one of few values.
type Label = [(&'static str, &'static str); 1];

/// What was asked for, and the status of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    endpoint: &'static str,
    status: u16,
}

/// Label and name of a forest.
type ForestLabel = [(&'static str, String); 1];

/// All metrics that are counted or measured while requests are answered.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Counters.
    pub counters: Counters,
    refusals: Family<Label, Counter>,
    responses: Family<ResponseLabels, Counter>,
    request_seconds: Family<Label, Histogram, fn() -> Histogram>,
    text_seconds: Histogram,
    lock_wait_seconds: Histogram,
    bulk_bytes: Histogram,
    registry: MetricRegistry,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut registry = MetricRegistry::with_prefix(PREFIX);
        let counters = Counters::default();
        counters.register(&mut registry);
        let refusals = Family::default();
        for reason in Reason::ALL {
            // Registered at 0.
            drop(refusals.get_or_create(&label(reason)));
        }
        registry.register(
            "refusals",
            "Near trees that documents were not let into, which founded a tree of their own",
            refusals.clone(),
        );
        // Not an info metric, which the classic text format does not have.
        let build = Family::<[(&str, &str); 2], Gauge<u64, AtomicU64>>::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION")), ("features", FEATURES)]).set(1);
        registry.register("build_info", "Version of the program, and the features that it was built with", build);
        let responses = Family::default();
        registry.register("responses", "Responses by what was requested and by status", responses.clone());
        // 1 ms to 33 s.
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let request_seconds: Family<_, _, fn() -> Histogram> = Family::new_with_constructor(seconds);
        registry.register(
            "request_seconds",
            "Seconds from the head of a request to the head of its response",
            request_seconds.clone(),
        );
        let mut histogram = |name: &str, help: &str, first: f64, factor: f64, buckets: u16| {
            let histogram = Histogram::new(exponential_buckets(first, factor, buckets));
            registry.register(name, help, histogram.clone());
            histogram
        };
        Metrics {
            counters,
            refusals,
            responses,
            request_seconds,
            // 0.1 ms to 26 s.
            text_seconds: histogram(
                "text_seconds",
                "Seconds that stamping the documents of a request took, without waiting for forests",
                0.0001,
                4.0,
                10,
            ),
            // 10 us to 2.6 s.
            lock_wait_seconds: histogram(
                "lock_wait_seconds",
                "Seconds that the documents of a request waited until others were done with their forests",
                0.000_01,
                4.0,
                10,
            ),
            // 1 KiB to 256 MiB.
            bulk_bytes: histogram("bulk_bytes", "Bytes of a bulk request as it came", 1024.0, 4.0, 10),
            registry,
        }
    }
}

impl Metrics {
    /// Records that the head of a response is ready. `endpoint`: one of few that the program knows, not a path.
    pub(crate) fn observe_response(&self, endpoint: &'static str, status: StatusCode, took: Duration) {
        self.responses.get_or_create(&ResponseLabels { endpoint, status: status.as_u16() }).inc();
        self.request_seconds.get_or_create(&[("endpoint", endpoint)]).observe(took.as_secs_f64());
    }

    /// Records the size of a bulk.
    pub(crate) fn observe_bulk(&self, bytes: usize) {
        self.bulk_bytes.observe(bytes as f64);
    }

    /// Records the stamping of a request; `lock_wait` is the time spent waiting for forests.
    pub(crate) fn observe_stamping(&self, took: Duration, lock_wait: Duration) {
        let text = took.saturating_sub(lock_wait);
        self.text_seconds.observe(text.as_secs_f64());
        self.lock_wait_seconds.observe(lock_wait.as_secs_f64());
    }

    /// Counts near trees that refused a document.
    pub(crate) fn count_refusals(&self, reasons: Reasons) {
        for (reason, count) in reasons.all() {
            self.refusals.get_or_create(&label(reason)).inc_by(count);
        }
    }

    /// All reasons with their counts.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (Reason, u64)> {
        let count = |reason| self.refusals.get_or_create(&label(reason)).get();
        Reason::ALL.into_iter().map(move |reason| (reason, count(reason)))
    }

    /// All metrics and these samples in the OpenMetrics text format.
    ///
    /// # Errors
    /// Never with the metrics that are registered here.
    pub(crate) fn encode(&self, samples: &Samples) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &samples.registry)?;
        #[cfg(target_os = "linux")]
        encode_registry(&mut text, &process::registry())?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}

/// Whether a value may fall.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// It may.
    Gauge,
    /// It is counted since the start of the process; the name gets `_total`.
    Counter,
}

/// A value that is read with each request for metrics.
#[derive(Debug)]
pub(crate) struct Sample {
    kind: Kind,
    name: &'static str,
    help: &'static str,
    value: u64,
}

impl Sample {
    pub(crate) const fn gauge(name: &'static str, help: &'static str, value: u64) -> Sample {
        Sample { kind: Kind::Gauge, name, help, value }
    }

    pub(crate) const fn counter(name: &'static str, help: &'static str, value: u64) -> Sample {
        Sample { kind: Kind::Counter, name, help, value }
    }
}

/// All samples of one request.
#[derive(Debug)]
pub(crate) struct Samples {
    registry: MetricRegistry,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples { registry: MetricRegistry::with_prefix(PREFIX) }
    }
}

impl Samples {
    /// Adds one value.
    pub(crate) fn add(&mut self, Sample { kind, name, help, value }: Sample) {
        match kind {
            Kind::Gauge => self.registry.register(name, help, gauge(value)),
            Kind::Counter => self.registry.register(name, help, ConstCounter::new(value)),
        }
    }

    /// Adds a time since the start, in seconds.
    pub(crate) fn add_seconds(&mut self, name: &str, help: &str, value: Duration) {
        self.registry.register(name, help, ConstCounter::new(value.as_secs_f64()));
    }

    /// Adds a value for each forest.
    pub(crate) fn add_by_forest<'f>(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (&'f str, u64)>,
    ) {
        let values = values.map(|(forest, value)| ([("forest", forest.to_owned())], value));
        match kind {
            Kind::Gauge => {
                let family = Family::<ForestLabel, Gauge<u64, AtomicU64>>::default();
                for (label, value) in values {
                    family.get_or_create(&label).set(value);
                }
                self.registry.register(name, help, family);
            }
            Kind::Counter => {
                let family = Family::<ForestLabel, Counter>::default();
                for (label, value) in values {
                    family.get_or_create(&label).inc_by(value);
                }
                self.registry.register(name, help, family);
            }
        }
    }
}

fn gauge(value: u64) -> Gauge<u64, AtomicU64> {
    let gauge = Gauge::default();
    gauge.set(value);
    gauge
}

/// Makes a client's header safe for a log line: short, and without characters that could end its field.
pub(crate) fn loggable(value: &HeaderValue) -> String {
    let shown = |&byte: &u8| {
        let plain = byte.is_ascii_graphic() && !b"\"\\={}".contains(&byte);
        if plain { char::from(byte) } else { '_' }
    };
    value.as_bytes().iter().take(LOGGABLE_CHARS).map(shown).collect()
}

fn label(reason: Reason) -> Label {
    [("reason", reason.as_str())]
}

/// Help text without the full stop that the registry adds.
fn sentence(help: &str) -> &str {
    help.trim().trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_without_a_level_leaves_no_empty_log() {
        for word in ["verbose", "warning", "all", "debg"] {
            assert_eq!(no_level(word), Some(word));
        }
        assert_eq!(no_level("spinney,verbose"), Some("verbose"));
        for filter in [
            "info",
            "WARN",
            "off",
            "3",
            "spinney",
            "spinney=debug",
            "info,hyper",
            "hyper,info",
            "[span]",
            "spinney::proxy",
            "",
        ] {
            assert_eq!(no_level(filter), None, "{filter}");
        }
    }

    #[test]
    fn openmetrics_name_each_family_once() {
        let metrics = Metrics::default();
        metrics.counters.requests.inc_by(3);
        let mut reasons = Reasons::default();
        reasons.add(Reason::Numbers);
        metrics.count_refusals(reasons);
        metrics.observe_response("_bulk", StatusCode::OK, Duration::from_millis(3));
        metrics.observe_stamping(Duration::from_millis(3), Duration::from_millis(1));
        metrics.observe_bulk(2048);
        let mut samples = Samples::default();
        samples.add(Sample::gauge("uptime_seconds", "Seconds since the start", 7));
        samples.add(Sample::counter("restamped", "Documents", 8));
        samples.add_seconds("counts_busy_seconds", "Time", Duration::from_millis(1500));
        let forests = [("a\"b", 1), ("c", 2)];
        samples.add_by_forest(Kind::Gauge, "forest_nodes", "Nodes", forests.into_iter());
        samples.add_by_forest(Kind::Counter, "forest_evicted", "Nodes", forests.into_iter());

        let text = metrics.encode(&samples).unwrap();
        for line in [
            "# HELP spinney_requests Requests received, own endpoints included.",
            "# TYPE spinney_requests counter",
            "spinney_requests_total 3",
            "spinney_refusals_total{reason=\"numbers\"} 1",
            "spinney_refusals_total{reason=\"radius\"} 0",
            "# TYPE spinney_request_seconds histogram",
            "spinney_request_seconds_bucket{le=\"0.004\",endpoint=\"_bulk\"} 1",
            "spinney_responses_total{endpoint=\"_bulk\",status=\"200\"} 1",
            &format!("spinney_build_info{{version=\"{}\",features=\"{FEATURES}\"}} 1", env!("CARGO_PKG_VERSION")),
            "spinney_text_seconds_count 1",
            "spinney_lock_wait_seconds_sum 0.001",
            "spinney_bulk_bytes_sum 2048.0",
            "spinney_uptime_seconds 7",
            "spinney_forest_nodes{forest=\"a\\\"b\"} 1",
            "spinney_forest_nodes{forest=\"c\"} 2",
            "# TYPE spinney_forest_nodes gauge",
            "# TYPE spinney_forest_evicted counter",
            "spinney_forest_evicted_total{forest=\"c\"} 2",
            "# TYPE spinney_restamped counter",
            "spinney_restamped_total 8",
            "spinney_counts_busy_seconds_total 1.5",
        ] {
            assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert_eq!(text.matches("# TYPE spinney_refusals ").count(), 1);
        assert_eq!(text.matches("# TYPE spinney_forest_nodes ").count(), 1);
        assert_eq!(metrics.counters.all().next(), Some(("requests", 3)));
        assert!(metrics.refusals().any(|counted| counted == (Reason::Numbers, 1)));
    }
}
