//! Metrics for `_stats` and `_metrics`, and the format of the log.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry as MetricRegistry;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};

use crate::config::LogFormat;
use crate::method::{Reason, Reasons};

/// The content type of [`Metrics::encode`].
pub(crate) const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Prefix of every metric.
const PREFIX: &str = "spinney";

/// The filter of the log, which can be replaced.
pub(crate) struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    /// Logs by another filter from now on.
    ///
    /// # Errors
    /// When `filter` is not a log filter.
    pub(crate) fn replace(&self, filter: &str) -> anyhow::Result<()> {
        Ok(self.0.reload(log_filter(filter)?)?)
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

/// Label and value of a reason.
type ReasonLabel = [(&'static str, &'static str); 1];

/// All metrics that are counted or measured while requests are answered.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Counters.
    pub counters: Counters,
    refusals: Family<ReasonLabel, Counter>,
    request_seconds: Histogram,
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
        let mut histogram = |name: &str, help: &str, first: f64, factor: f64, buckets: u16| {
            let histogram = Histogram::new(exponential_buckets(first, factor, buckets));
            registry.register(name, help, histogram.clone());
            histogram
        };
        Metrics {
            counters,
            refusals,
            // 1 ms to 33 s.
            request_seconds: histogram(
                "request_seconds",
                "Seconds from the head of a request to the head of its response",
                0.001,
                2.0,
                16,
            ),
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
    /// Records when the head of a response is ready.
    pub(crate) fn observe_request(&self, took: Duration) {
        self.request_seconds.observe(took.as_secs_f64());
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

    /// All metrics and these gauges in the OpenMetrics text format.
    ///
    /// # Errors
    /// Never with the metrics that are registered here.
    pub(crate) fn encode(&self, gauges: &Gauges) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &gauges.registry)?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}

/// Gauges, sampled when they are requested.
#[derive(Debug)]
pub(crate) struct Gauges {
    registry: MetricRegistry,
}

impl Default for Gauges {
    fn default() -> Gauges {
        Gauges { registry: MetricRegistry::with_prefix(PREFIX) }
    }
}

impl Gauges {
    /// Adds one value.
    pub(crate) fn add(&mut self, name: &str, help: &str, value: u64) {
        let gauge = Gauge::<u64, AtomicU64>::default();
        gauge.set(value);
        self.registry.register(name, help, gauge);
    }

    /// Adds a value for each forest.
    pub(crate) fn add_by_forest<'f>(&mut self, name: &str, help: &str, values: impl Iterator<Item = (&'f str, u64)>) {
        let gauges = Family::<[(&str, String); 1], Gauge<u64, AtomicU64>>::default();
        for (forest, value) in values {
            let label = [("forest", forest.to_owned())];
            gauges.get_or_create(&label).set(value);
        }
        self.registry.register(name, help, gauges);
    }
}

fn label(reason: Reason) -> ReasonLabel {
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
        metrics.observe_request(Duration::from_millis(3));
        metrics.observe_stamping(Duration::from_millis(3), Duration::from_millis(1));
        metrics.observe_bulk(2048);
        let mut gauges = Gauges::default();
        gauges.add("uptime_seconds", "Seconds since the start", 7);
        let forests = [("a\"b", 1), ("c", 2)];
        gauges.add_by_forest("forest_nodes", "Nodes", forests.into_iter());

        let text = metrics.encode(&gauges).unwrap();
        for line in [
            "# HELP spinney_requests Requests received, own endpoints included.",
            "# TYPE spinney_requests counter",
            "spinney_requests_total 3",
            "spinney_refusals_total{reason=\"numbers\"} 1",
            "spinney_refusals_total{reason=\"radius\"} 0",
            "# TYPE spinney_request_seconds histogram",
            "spinney_request_seconds_bucket{le=\"0.004\"} 1",
            "spinney_text_seconds_count 1",
            "spinney_lock_wait_seconds_sum 0.001",
            "spinney_bulk_bytes_sum 2048.0",
            "spinney_uptime_seconds 7",
            "spinney_forest_nodes{forest=\"a\\\"b\"} 1",
            "spinney_forest_nodes{forest=\"c\"} 2",
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
