//! In place of `traces` in a build without OpenTelemetry: nothing is traced.

use hyper::{Request, Response, StatusCode};
use tracing::warn;

/// Nothing is sent.
pub(crate) struct Traces;

/// Warns if the environment names a collector.
pub(crate) fn start() -> Traces {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if let Some(reason) = built_without(is_set) {
        warn!(reason, "no traces are sent");
    }
    Traces
}

fn built_without(is_set: impl Fn(&str) -> bool) -> Option<&'static str> {
    let names_collector = is_set("OTEL_EXPORTER_OTLP_ENDPOINT") || is_set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    names_collector.then_some(
        "this spinney was built without OpenTelemetry: take a package of a release, or build it with --features otel",
    )
}

impl Traces {
    pub(crate) fn flush(self) {}
}

/// No span.
#[derive(Debug, Clone, Default)]
pub(crate) struct TraceSpan(());

impl TraceSpan {
    pub(crate) fn accept<B>(_: &Request<B>) -> TraceSpan {
        TraceSpan(())
    }

    pub(crate) async fn step<T>(&self, _: &'static str, work: impl Future<Output = T>) -> T {
        work.await
    }

    pub(crate) async fn upstream<B, E>(
        &self,
        answer: impl Future<Output = Result<Response<B>, E>>,
    ) -> Result<Response<B>, E> {
        answer.await
    }

    pub(crate) fn text(&self, _: &'static str, _: &str) {}

    pub(crate) fn count(&self, _: &'static str, _: u64) {}

    pub(crate) fn status(&self, _: StatusCode) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_not_passed_over_in_silence() {
        assert_eq!(built_without(|_| false), None);
        assert_eq!(built_without(|name| name == "OTEL_SERVICE_NAME"), None);
        for variable in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
            assert!(built_without(|name| name == variable).unwrap().contains("--features otel"));
        }
    }
}
