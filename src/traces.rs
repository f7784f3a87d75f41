//! Traces: a span of each request and of its steps, sent to the OpenTelemetry collector that the environment names.
//!
//! ```text
//! (the caller's span) --> accept --> read, place, upstream, settle
//! ```
//!
//! Spans know nothing of the log, and the log nothing of them. What passes through keeps the `traceparent` of its
//! caller. A collector that is away costs spans: they wait in a queue of fixed length, which a thread of its own sends.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use hyper::{HeaderMap, Request, Response, StatusCode, Uri};
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, SpanData, SpanExporter as Exporter};
use reqwest::blocking::Client;
use reqwest::redirect::Policy;
use tracing::{info, warn};

use crate::http::tls;

/// How long a stop waits for the last spans to be sent.
const FLUSH: Duration = Duration::from_secs(2);

/// Longest text of an attribute in bytes: a path can have thousands, and so many spans wait.
const TEXT_BYTES: usize = 256;

/// Variables whose values are names. Those with `_OTLP_` may also be given for traces alone.
const CHOICES: [(&str, &[&str]); 4] = [
    ("OTEL_TRACES_EXPORTER", &["otlp", "none"]),
    ("OTEL_EXPORTER_OTLP_PROTOCOL", &["http/protobuf"]),
    ("OTEL_EXPORTER_OTLP_COMPRESSION", &["gzip", "none"]),
    (
        "OTEL_TRACES_SAMPLER",
        &[
            "always_on",
            "always_off",
            "traceidratio",
            "parentbased_always_on",
            "parentbased_always_off",
            "parentbased_traceidratio",
        ],
    ),
];

/// Set once, if there is a collector.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// The sending of traces, until it is flushed.
pub(crate) struct Traces(Option<SdkTracerProvider>);

/// Starts to send traces if the environment names a collector. Where its other variables are wrong, a warning says so,
/// and none are sent: writes do not depend on them. Not to be called by a thread of a runtime.
pub(crate) fn start() -> Traces {
    let provider = provider().unwrap_or_else(|reason| {
        warn!(reason = format!("{reason:#}"), "no traces are sent");
        None
    });
    if let Some(provider) = &provider {
        // Only the first call has an effect.
        let _ = TRACER.set(provider.tracer("spinney"));
    }
    Traces(provider)
}

impl Traces {
    /// Sends what is left, within [`FLUSH`].
    pub(crate) fn flush(self) {
        if let Some(provider) = self.0
            && let Err(reason) = provider.shutdown_with_timeout(FLUSH)
        {
            warn!(%reason, "the last traces were not sent");
        }
    }
}

fn provider() -> Result<Option<SdkTracerProvider>> {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(Settings { timeout, ca }) = Settings::of(variable)? else {
        return Ok(None);
    };
    // As towards the cluster: the same trust, no redirects, no proxy of the environment.
    let client = Client::builder()
        .timeout(timeout)
        .redirect(Policy::none())
        .no_proxy()
        .tls_backend_preconfigured(tls::client(ca.as_deref().map(Path::new), None)?)
        .build()?;
    let exporter = SpanExporter::builder().with_http().with_http_client(client).build()?;
    // Each of these comes before those above it.
    let resource = Resource::builder_empty()
        .with_service_name("spinney")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_detectors(&[Box::new(TelemetryResourceDetector), Box::new(EnvResourceDetector::new())]);
    let resource = match variable("OTEL_SERVICE_NAME").filter(|name| !name.is_empty()) {
        Some(name) => resource.with_service_name(name),
        None => resource,
    };
    let exporter = LoggedExporter { exporter, fails: AtomicBool::new(false) };
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
    Ok(Some(provider))
}

/// What the exporter itself does not read from the environment.
#[derive(Debug, PartialEq, Eq)]
struct Settings {
    timeout: Duration,
    ca: Option<String>,
}

impl Settings {
    /// The settings, `None` if no traces are to be sent.
    ///
    /// # Errors
    /// A variable has a value that is not understood. The text has no address, which may contain a password.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Settings>> {
        // One for traces alone comes first; an empty one counts as missing.
        let get = |name: &'static str| {
            let names = [name.replace("_OTLP_", "_OTLP_TRACES_"), name.to_owned()];
            names.into_iter().find_map(|name| Some((variable(&name).filter(|value| !value.is_empty())?, name)))
        };
        let number = |name, default| match get(name) {
            None => Ok(default),
            Some((value, name)) => match value.parse::<u64>() {
                Ok(number @ 1..=1_000_000) => Ok(number),
                _ => bail!("{name}: '{value}' is no number from 1 to 1000000"),
            },
        };
        let is = |name, wanted| get(name).is_some_and(|(value, _)| value.eq_ignore_ascii_case(wanted));
        let Some((endpoint, name)) = get("OTEL_EXPORTER_OTLP_ENDPOINT") else {
            return Ok(None);
        };
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        let is_usable = |url: &Uri| {
            matches!(url.scheme_str(), Some("http" | "https"))
                && url.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        };
        ensure!(
            endpoint.parse::<Uri>().is_ok_and(|url| is_usable(&url)),
            "{name}: use a URL such as http://127.0.0.1:4318; a password belongs into OTEL_EXPORTER_OTLP_HEADERS"
        );
        for (name, choices) in CHOICES {
            if let Some((value, name)) = get(name) {
                ensure!(choices.contains(&&*value), "{name}: '{value}' is none of {}", choices.join(", "));
            }
        }
        if let Some((ratio, name)) = get("OTEL_TRACES_SAMPLER_ARG") {
            let is_ratio = ratio.parse().is_ok_and(|ratio| (0.0..=1.0).contains(&ratio));
            ensure!(is_ratio, "{name}: '{ratio}' is no ratio from 0 to 1");
        }
        for name in ["OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY"] {
            number(name, 1)?;
        }
        let timeout = Duration::from_millis(number("OTEL_EXPORTER_OTLP_TIMEOUT", 10_000)?);
        let ca = get("OTEL_EXPORTER_OTLP_CERTIFICATE").map(|(path, _)| path);
        Ok(Some(Settings { timeout, ca }))
    }
}

/// Sends spans, and logs when the collector ceases to take them and when it takes them again.
#[derive(Debug)]
struct LoggedExporter {
    exporter: SpanExporter,
    fails: AtomicBool,
}

impl Exporter for LoggedExporter {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        let sent = self.exporter.export(spans).await;
        let failed = self.fails.swap(sent.is_err(), Relaxed);
        match &sent {
            Err(reason) if !failed => warn!(%reason, "the collector takes no traces"),
            Ok(()) if failed => info!("the collector takes traces again"),
            _ => {}
        }
        sent
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// The span of a request, which ends with the last clone. It is empty, and costs nothing, without a collector and if
/// the request is not sampled.
#[derive(Debug, Clone, Default)]
pub(crate) struct TraceSpan(Option<Context>);

impl TraceSpan {
    /// Begins with the head of a request. Its parent is the caller's span, if a header names that.
    pub(crate) fn accept<B>(request: &Request<B>) -> TraceSpan {
        let Some(tracer) = TRACER.get() else {
            return TraceSpan(None);
        };
        let caller = TraceContextPropagator::new().extract_with_context(&Context::new(), &Caller(request.headers()));
        let accept = TraceSpan::start(tracer, "accept", SpanKind::Server, &caller);
        accept.text("http.request.method", request.method().as_str());
        accept.text("url.path", request.uri().path());
        accept
    }

    /// Does a step of the request in a span of its own.
    pub(crate) async fn step<T, E>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let span = self.child(name, SpanKind::Internal);
        work.await.inspect_err(|_| span.fail())
    }

    /// Asks the cluster, in a span of its own.
    pub(crate) async fn upstream<B, E>(
        &self,
        answer: impl Future<Output = Result<Response<B>, E>>,
    ) -> Result<Response<B>, E> {
        let span = self.child("upstream", SpanKind::Client);
        let answer = answer.await.inspect_err(|_| span.fail())?;
        span.status(answer.status());
        Ok(answer)
    }

    /// Adds a text, cut after [`TEXT_BYTES`]. Never content, a query string or credentials.
    pub(crate) fn text(&self, key: &'static str, text: &str) {
        self.set(key, || text.get(..text.floor_char_boundary(TEXT_BYTES)).unwrap_or_default().to_owned().into());
    }

    /// Adds a number.
    pub(crate) fn count(&self, key: &'static str, count: u64) {
        self.set(key, || i64::try_from(count).unwrap_or(i64::MAX).into());
    }

    /// Adds the status of the response.
    pub(crate) fn status(&self, status: StatusCode) {
        self.count("http.response.status_code", status.as_u16().into());
        if status.is_server_error() {
            self.fail();
        }
    }

    fn start(tracer: &SdkTracer, name: &'static str, kind: SpanKind, parent: &Context) -> TraceSpan {
        let span = tracer.span_builder(name).with_kind(kind).start_with_context(tracer, parent);
        // What is not sampled has no steps either.
        TraceSpan(span.is_recording().then(|| Context::new().with_span(span)))
    }

    fn child(&self, name: &'static str, kind: SpanKind) -> TraceSpan {
        match (TRACER.get(), &self.0) {
            (Some(tracer), Some(parent)) => TraceSpan::start(tracer, name, kind, parent),
            _ => TraceSpan(None),
        }
    }

    fn set(&self, key: &'static str, value: impl FnOnce() -> Value) {
        if let Some(span) = &self.0 {
            span.span().set_attribute(KeyValue::new(key, value()));
        }
    }

    fn fail(&self) {
        if let Some(span) = &self.0 {
            span.span().set_status(Status::error(""));
        }
    }
}

/// The headers of a caller. Its `tracestate` is not kept: spans would hold whatever its length is.
struct Caller<'h>(&'h HeaderMap);

impl Extractor for Caller<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).filter(|_| name == "traceparent")?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        let get = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Settings::of(get).map_err(|error| error.to_string())
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

    #[test]
    fn traces_are_sent_where_a_collector_is_named() {
        let sent = |seconds, ca: Option<&str>| {
            Ok(Some(Settings { timeout: Duration::from_secs(seconds), ca: ca.map(str::to_owned) }))
        };
        assert_eq!(settings(&[]), Ok(None));
        assert_eq!(settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", ""), ("OTEL_TRACES_SAMPLER", "x")]), Ok(None));
        for off in [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert_eq!(settings(&[ENDPOINT, off]), Ok(None), "{off:?}");
        }
        assert_eq!(settings(&[ENDPOINT]), sent(10, None));
        assert_eq!(settings(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/x")]), sent(10, None));
        let of_traces_first = [
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "5000"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "7000"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ];
        assert_eq!(settings(&of_traces_first), sent(7, Some("/ca.pem")));
    }

    #[test]
    fn a_wrong_value_is_named_and_no_address_shown() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_TRACES_SAMPLER", "always"),
            ("OTEL_TRACES_SAMPLER_ARG", "1.5"),
            ("OTEL_TRACES_SAMPLER_ARG", "half"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "1000001"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0"),
            ("OTEL_BSP_SCHEDULE_DELAY", "0"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "-1"),
        ] {
            let reason = settings(&[ENDPOINT, (name, value)]).unwrap_err();
            assert!(reason.starts_with(&format!("{name}: ")), "{value}: {reason}");
        }
        for url in ["collector:4318", "ftp://secret:4318", "http://me:secret@collector", "/secret", "http://"] {
            let reason = settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", url)]).unwrap_err();
            assert!(reason.starts_with("OTEL_EXPORTER_OTLP_ENDPOINT: use a URL"), "{url}: {reason}");
            assert!(!reason.contains("secret"), "{reason}");
        }
    }
}
