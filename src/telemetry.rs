//! Counters that `_stats` and `_metrics` show, and the form of the log.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;
use crate::method::{Reason, Reasons};

/// Structured lines on standard error.
///
/// # Errors
/// When `filter` is not a log filter.
pub fn init_log(format: LogFormat, filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).map_err(|e| {
        anyhow::anyhow!("log: '{filter}' is not a filter such as info or spinney=debug: {e}")
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    match format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $name:ident,)+) => {
        /// Monotone counters since the start of the process.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[doc = $help])+ pub $name: Counter,)+
            /// Near trees that founders of trees were not let into.
            pub refusals: Refusals,
        }

        impl Counters {
            /// Name, help text and value of every counter.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($help),+), self.$name.get()),)+].into_iter()
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
    /// Of them, documents without usable text, each with a root of its own.
    documents_without_text,
    /// Documents of a routed index that were passed on unstamped: updates without the text, sources that are not JSON.
    documents_unstamped,
    /// Documents that joined a tree that was there.
    documents_joined,
    /// Write requests passed on unstamped because their body was not understood.
    bodies_not_understood,
    /// Bytes of write requests received.
    write_bytes,
    /// Requests refused with 429 because the budget of bytes in flight was used up.
    refused_over_budget,
    /// Requests refused with 503 during a stop.
    refused_stopping,
    /// Requests that no cluster node could be reached for.
    upstream_unreachable,
    /// Requests whose connection to the cluster broke after they had been sent.
    upstream_broken,
    /// Items that the cluster refused.
    items_failed,
    /// Nodes withdrawn because the only document that used them was refused.
    nodes_withdrawn,
    /// Bulk responses that could not be matched to the documents: their nodes stay.
    responses_unmatched,
}

/// One monotone counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One counter for each reason of a refusal.
#[derive(Debug, Default)]
pub struct Refusals([Counter; Reason::ALL.len()]);

impl Refusals {
    pub fn add(&self, reasons: Reasons) {
        for (counter, (_, count)) in self.0.iter().zip(reasons.all()) {
            counter.add(count);
        }
    }

    /// Every reason with its count.
    pub fn all(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.0.iter().map(Counter::get))
    }
}

/// A gauge for [`prometheus`]: name, help, labels such as `{forest="news"}` or nothing, value.
pub type Gauge = (&'static str, &'static str, String, u64);

/// The Prometheus text exposition format, version 0.0.4.
pub fn prometheus(counters: &Counters, gauges: &[Gauge]) -> String {
    let mut out = String::new();
    for (name, help, value) in counters.all() {
        let _ = writeln!(
            out,
            "# HELP spinney_{name}_total {}\n# TYPE spinney_{name}_total counter\nspinney_{name}_total {value}",
            help.trim()
        );
    }
    let _ = writeln!(
        out,
        "# HELP spinney_refusals_total Near trees that documents were not let into, which founded a tree of their own.\n# TYPE spinney_refusals_total counter"
    );
    for (reason, value) in counters.refusals.all() {
        let _ = writeln!(
            out,
            "spinney_refusals_total{{reason=\"{}\"}} {value}",
            reason.as_str()
        );
    }
    let mut last = "";
    for (name, help, labels, value) in gauges {
        if *name != last {
            let _ = writeln!(
                out,
                "# HELP spinney_{name} {help}\n# TYPE spinney_{name} gauge"
            );
            last = name;
        }
        let _ = writeln!(out, "spinney_{name}{labels} {value}");
    }
    out
}

/// A label value with the three characters escaped that the format reserves.
pub fn label(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_names_each_family_once() {
        let counters = Counters::default();
        counters.requests.add(3);
        let mut reasons = Reasons::default();
        reasons.add(Reason::Numbers);
        counters.refusals.add(reasons);
        let gauges = [
            (
                "nodes",
                "Nodes.",
                format!("{{forest=\"{}\"}}", label("a\"b")),
                1,
            ),
            ("nodes", "Nodes.", "{forest=\"c\"}".into(), 2),
        ];
        let text = prometheus(&counters, &gauges);
        assert!(text.contains("# TYPE spinney_requests_total counter\nspinney_requests_total 3\n"));
        assert_eq!(text.matches("# TYPE spinney_nodes gauge").count(), 1);
        assert_eq!(text.matches("# TYPE spinney_refusals_total").count(), 1);
        assert!(text.contains("spinney_refusals_total{reason=\"numbers\"} 1\n"));
        assert!(text.contains("spinney_refusals_total{reason=\"radius\"} 0\n"));
        assert!(
            text.contains("spinney_nodes{forest=\"a\\\"b\"} 1\nspinney_nodes{forest=\"c\"} 2\n")
        );
    }
}
