//! Traces, as a collector that is made up gets them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;

use crate::common::fake::{self, Fake, Reply};
use crate::common::gate::Gate;
use crate::common::locks::Locks;
use crate::common::wire::{Request, Wire};
use crate::common::{Spinney, wait_until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// Only the end of spinney sends spans, or a full batch.
const AT_THE_END: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "1000000");
const AT_ONCE: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "1");

fn collector() -> Fake {
    Fake::start(|_| Reply::Bytes(protobuf(200)))
}

/// An answer without a message.
fn protobuf(status: u16) -> Vec<u8> {
    let head = "Made Up\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
    format!("HTTP/1.1 {status} {head}").into_bytes()
}

/// A cluster that stores each document, but for one where the connection breaks, and searches in vain.
fn cluster() -> Fake {
    Fake::start(|request| {
        let path = request.target().split('?').next().unwrap();
        let stored = "{\"took\":1,\"errors\":false,\"items\":[{\"index\":{\"_id\":\"1\",\"status\":201}}]}";
        match path.rsplit('/').next() {
            Some("_bulk") => Reply::Bytes(fake::json(200, "", stored)),
            Some("broken") => Reply::Last(Vec::new()),
            Some("_search") => Reply::Bytes(fake::json(503, "", "{}")),
            Some("none") => Reply::Bytes(fake::json(404, "", "{}")),
            _ => Reply::Bytes(fake::json(200, "", "{}")),
        }
    })
}

fn start(upstream: &str, collector: &str, variables: &[(&str, &str)]) -> Spinney {
    let variables = [&[("OTEL_EXPORTER_OTLP_ENDPOINT", collector)], variables].concat();
    let args = ["--upstream", upstream, "--index", "news-*", "--text-field", "content"];
    Spinney::start_with(&variables, &args)
}

fn bulk(path: &str) -> Request {
    Request::bulk(path, "{\"index\":{}}\n{\"content\":\"A document that is hidden from all collectors of traces.\"}\n")
}

/// What the collector got so far.
fn exports(collector: &Fake) -> Vec<ExportTraceServiceRequest> {
    let received = collector.received().into_iter();
    let exports = received.map(|request| {
        assert_eq!(request.headers("content-type"), ["application/x-protobuf"]);
        ExportTraceServiceRequest::decode(&request.body[..]).unwrap()
    });
    exports.collect()
}

fn spans(collector: &Fake) -> Vec<Span> {
    let exports = exports(collector).into_iter();
    let scopes = exports.flat_map(|export| export.resource_spans).flat_map(|resource| resource.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

/// The spans by their names; each must be there once.
fn by_name(spans: Vec<Span>) -> BTreeMap<String, Span> {
    let count = spans.len();
    let named: BTreeMap<_, _> = spans.into_iter().map(|span| (span.name.clone(), span)).collect();
    assert_eq!(named.len(), count, "{named:?}");
    named
}

fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect()
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The names of those that are marked as failed.
fn failed(spans: &BTreeMap<String, Span>) -> Vec<&str> {
    let has_failed = |span: &Span| span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error);
    spans.iter().filter(|(_, span)| has_failed(span)).map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_write_is_a_part_of_its_callers_trace() {
    let (collector, cluster) = (collector(), cluster());
    let mut spinney = start(&cluster.url, &collector.url, &[AT_THE_END]);
    let parent = format!("00-{TRACE}-{CALLER}-01");
    let request = bulk("/news-1/_bulk?pipeline=hidden")
        .header("Authorization", "Basic hidden")
        .header("TraceParent", &parent)
        .header("tracestate", "vendor=hidden");
    assert_eq!(request.to(&spinney.url).status, 200);
    // The cluster's own spans are the caller's, too: what passes through stays as it came.
    let forwarded = cluster.last_of(|request| request.target().ends_with("/_bulk?pipeline=hidden"));
    assert!(forwarded.head.contains(&format!("\r\nTraceParent: {parent}\r\n")), "{}", forwarded.head);
    assert_eq!(forwarded.headers("tracestate"), ["vendor=hidden"]);
    assert_eq!(spinney.terminate(), Some(0));

    let exported = exports(&collector);
    assert!(!format!("{exported:?}").contains("hidden"), "{exported:?}");
    let resource = exported[0].resource_spans[0].resource.as_ref().unwrap();
    let resource = attributes(&resource.attributes);
    assert_eq!(resource["service.name"], "spinney");
    assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));

    let spans = by_name(spans(&collector));
    let names: Vec<&str> = spans.keys().map(String::as_str).collect();
    assert_eq!(names, ["accept", "place", "read", "settle", "upstream"]);
    let accept = &spans["accept"];
    for (name, span) in &spans {
        assert_eq!(hex(&span.trace_id), TRACE, "{name}");
        let parent = if name == "accept" { CALLER.to_owned() } else { hex(&accept.span_id) };
        assert_eq!(hex(&span.parent_span_id), parent, "{name}");
        let kind = match name.as_str() {
            "accept" => SpanKind::Server,
            "upstream" => SpanKind::Client,
            _ => SpanKind::Internal,
        };
        assert_eq!(span.kind(), kind, "{name}");
        assert!(accept.start_time_unix_nano <= span.start_time_unix_nano, "{name}");
        assert!(span.end_time_unix_nano <= accept.end_time_unix_nano, "{name}");
    }
    assert_eq!(failed(&spans), [""; 0]);
    let size = bulk("/").raw_body().len().to_string();
    let expected = [
        ("http.request.body.size", size.as_str()),
        ("http.request.method", "POST"),
        ("http.response.status_code", "200"),
        ("spinney.documents.joined", "0"),
        ("spinney.documents.refused", "0"),
        ("spinney.documents.stamped", "1"),
        ("spinney.documents.unstamped", "0"),
        ("spinney.index", "news-1"),
        ("url.path", "/news-1/_bulk"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(attributes(&accept.attributes), BTreeMap::from(expected));
    assert_eq!(attributes(&spans["upstream"].attributes), status("200"));
    for name in ["read", "place", "settle"] {
        assert_eq!(spans[name].attributes, [], "{name}");
    }
}

fn status(status: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("http.response.status_code".to_owned(), status.to_owned())])
}

#[test]
fn a_span_lasts_as_long_as_its_step() {
    let gate = Gate::closed();
    let held = gate.clone();
    let cluster = Fake::start(move |request| {
        if request.target().ends_with("/_bulk") {
            held.pass();
        }
        Reply::Bytes(fake::json(200, "", "{\"items\":[{\"index\":{\"status\":201}}]}"))
    });
    let collector = collector();
    let mut spinney = start(&cluster.url, &collector.url, &[AT_ONCE]);
    let bytes = bulk("/news-1/_bulk").bytes();
    let (begin, rest) = bytes.split_at(bytes.len() - 10);
    let mut half = Wire::connect(&spinney.url);
    half.send(begin);
    let url = spinney.url.clone();
    let whole = thread::spawn(move || bulk("/news-1/_bulk").to(&url).status);
    gate.wait_for(1);
    wait_until("the documents of one write are placed", || spans(&collector).iter().any(|span| span.name == "place"));
    // The other one is still read, and the cluster has not answered.
    let names: Vec<String> = spans(&collector).into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["read", "place"]);
    gate.open();
    half.send(rest);
    assert_eq!(half.last_answer(false).status, 200);
    assert_eq!(whole.join().unwrap(), 200);
    assert_eq!(spinney.terminate(), Some(0));
    assert_eq!(spans(&collector).len(), 10);
}

#[test]
fn what_failed_is_marked_where_it_failed() {
    let source = "{\"content\":\"A document whose fate nobody knows.\"}";
    let long = format!("/news-1/{}", "x".repeat(1000));
    for (request, answered, failed_spans, names) in [
        (Request::get("/news-1/_doc/none"), 404, &[][..], &["accept", "upstream"][..]),
        (Request::get("/news-1/_search"), 503, &["accept", "upstream"], &["accept", "upstream"]),
        (Request::get("/_spinney/_none"), 404, &[], &["accept"]),
        (
            Request::json("PUT", "/news-1/_doc/broken", source),
            502,
            &["accept", "upstream"],
            &["accept", "place", "read", "settle", "upstream"],
        ),
        (Request::get(&long), 200, &[], &["accept", "upstream"]),
    ] {
        let what = request.describe();
        let (collector, cluster) = (collector(), cluster());
        let mut spinney = start(&cluster.url, &collector.url, &[AT_THE_END]);
        // It belongs to no trace that could be continued.
        let request = request.header("traceparent", "00-hidden");
        assert_eq!(request.to(&spinney.url).status, answered, "{what}");
        assert_eq!(spinney.terminate(), Some(0));
        let spans = by_name(spans(&collector));
        assert_eq!(spans.keys().collect::<Vec<_>>(), names, "{what}");
        assert_eq!(failed(&spans), failed_spans, "{what}");
        let accept = &spans["accept"];
        assert_eq!(hex(&accept.parent_span_id), "", "{what}");
        let attributes = attributes(&accept.attributes);
        assert_eq!(attributes["http.response.status_code"], answered.to_string(), "{what}");
        assert!(attributes["url.path"].len() <= 256, "{what}");
        assert!(spans.values().all(|span| span.trace_id == accept.trace_id), "{what}");
    }
}

/// The variables that every OpenTelemetry SDK knows; the log has no part in it.
#[test]
fn the_environment_says_what_is_sent_and_where() {
    let (collector, cluster) = (collector(), cluster());
    let endpoint = format!("{}/from/spinney", collector.url);
    let variables = [
        AT_THE_END,
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &endpoint),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=k%20y"),
        ("OTEL_SERVICE_NAME", "stamping"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=other"),
        ("SPINNEY_LOG", "off"),
    ];
    let mut spinney = start(&cluster.url, "http://127.0.0.1:1", &variables);
    assert_eq!(bulk("/news-1/_bulk").to(&spinney.url).status, 200);
    assert_eq!(spinney.terminate(), Some(0));
    let received = collector.last();
    assert_eq!(received.target(), "/from/spinney");
    assert_eq!(received.headers("api-key"), ["k y"]);
    let resource = exports(&collector).remove(0).resource_spans.remove(0).resource.unwrap();
    let resource = attributes(&resource.attributes);
    assert_eq!(resource["service.name"], "stamping");
    assert_eq!(resource["deployment.environment.name"], "test");
    assert_eq!(spans(&collector).len(), 5);
}

#[test]
fn samplers_decide_for_whole_requests() {
    let (sampled, unsampled) = (format!("00-{TRACE}-{CALLER}-01"), format!("00-{TRACE}-{CALLER}-00"));
    for (sampler, argument, parent, sent) in [
        ("always_off", "", &sampled, 0),
        ("always_on", "", &unsampled, 5),
        ("traceidratio", "0", &sampled, 0),
        ("parentbased_traceidratio", "0", &sampled, 5),
        // The default.
        ("", "", &unsampled, 0),
    ] {
        let (collector, cluster) = (collector(), cluster());
        let sampler_variables = [("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", argument)];
        let variables = [&[AT_THE_END][..], &sampler_variables].concat();
        let mut spinney = start(&cluster.url, &collector.url, &variables);
        let request = bulk("/news-1/_bulk").header("traceparent", parent);
        assert_eq!(request.to(&spinney.url).status, 200);
        assert_eq!(spinney.terminate(), Some(0));
        assert_eq!(spans(&collector).len(), sent, "{sampler} {parent}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_runs_where_no_collector_is_named() {
    let (collector, cluster) = (collector(), cluster());
    let threads = |spinney: &Spinney| -> BTreeSet<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", spinney.pid())).unwrap();
        // A thread may end meanwhile.
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.filter(|name| ["OpenTelemetry", "reqwest"].iter().any(|begin| name.starts_with(begin))).collect()
    };
    for (endpoint, expected) in [("", 0), (collector.url.as_str(), 2)] {
        let spinney = start(&cluster.url, endpoint, &[]);
        assert_eq!(bulk("/news-1/_bulk").to(&spinney.url).status, 200);
        assert_eq!(threads(&spinney).len(), expected, "{endpoint:?}");
    }
}

#[test]
fn a_collector_that_is_away_or_refuses_costs_a_line_of_the_log() {
    let status = Arc::new(AtomicU16::new(503));
    let shown = status.clone();
    let collector = Fake::start(move |_| Reply::Bytes(protobuf(shown.load(Ordering::SeqCst))));
    let cluster = cluster();
    let spinney = start(&cluster.url, &collector.url, &[AT_ONCE]);
    let write = || assert_eq!(bulk("/news-1/_bulk").to(&spinney.url).status, 200);
    write();
    spinney.log_line("a failure", |line| line.contains("the collector takes no traces"));
    // Each batch is sent four times at most.
    let sent = collector.received().len();
    wait_until("another batch fails", || {
        write();
        collector.received().len() > sent + 4
    });
    status.store(200, Ordering::SeqCst);
    write();
    spinney.log_line("a success", |line| line.contains("the collector takes traces again"));
    let log = spinney.end_and_log();
    assert_eq!(log.matches("the collector takes no traces").count(), 1, "{log}");

    let away = collector.url.clone();
    drop(collector);
    let spinney = start(&cluster.url, &away, &[AT_ONCE]);
    assert_eq!(bulk("/news-1/_bulk").to(&spinney.url).status, 200);
    spinney.log_line("a failure", |line| line.contains("the collector takes no traces"));
    spinney.end_and_log();
}

/// With TLS the authority that is named counts alone, as towards the cluster.
#[test]
fn a_collector_behind_tls_is_of_the_authority_that_is_named() {
    let (collector, cluster, locks, others) = (collector(), cluster(), Locks::new(), Locks::new());
    let file = |locks: &Locks, name| locks.file(name).to_str().unwrap().to_owned();
    let (cert, key, system) = (file(&locks, "node.pem"), file(&locks, "node.key"), file(&locks, "ca.pem"));
    // TLS ends here.
    let door = Spinney::start(&["--upstream", &collector.url, "--tls-cert", &cert, "--tls-key", &key]);
    for (named, sent) in [(&others, 0), (&locks, 5)] {
        let authority = file(named, "ca.pem");
        let trust = [("OTEL_EXPORTER_OTLP_CERTIFICATE", &*authority), ("SSL_CERT_FILE", &system)];
        let spinney = start(&cluster.url, &door.url, &[&[AT_THE_END][..], &trust].concat());
        assert_eq!(bulk("/news-1/_bulk").to(&spinney.url).status, 200);
        let log = spinney.end_and_log();
        assert_eq!(log.contains("the collector takes no traces"), sent == 0, "{log}");
        assert_eq!(spans(&collector).len(), sent);
    }
}

/// Neither a write nor a stop waits for a collector that does not answer, and only so many spans are held for it.
#[test]
fn a_collector_that_hangs_holds_nothing_up() {
    for answers_in_the_end in [true, false] {
        let gate = Gate::closed();
        let held = gate.clone();
        let collector = Fake::start(move |_| {
            held.pass();
            Reply::Bytes(protobuf(200))
        });
        let cluster = cluster();
        let limits = [("OTEL_BSP_MAX_QUEUE_SIZE", "8"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")];
        let patient = ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000000");
        let spinney = start(&cluster.url, &collector.url, &[&[AT_ONCE, patient][..], &limits].concat());
        let write = || assert_eq!(bulk("/news-1/_bulk").to(&spinney.url).status, 200);
        write();
        gate.wait_for(1);
        for _ in 0..20 {
            write();
        }
        if answers_in_the_end {
            gate.open();
        }
        let log = spinney.end_and_log();
        assert_eq!(log.contains("the last traces were not sent"), !answers_in_the_end, "{log}");
        gate.open();
        let count = spans(&collector).len();
        assert!(count <= 4 + 8, "{count}");
    }
}

#[test]
fn a_wrong_variable_is_named_and_writes_go_on() {
    let (collector, cluster) = (collector(), cluster());
    let spinney = start(&cluster.url, &collector.url, &[AT_ONCE, ("OTEL_TRACES_SAMPLER", "sometimes")]);
    assert_eq!(bulk("/news-1/_bulk").to(&spinney.url).status, 200);
    let log = spinney.end_and_log();
    let warning = log.lines().find(|line| line.contains("no traces are sent")).unwrap();
    assert!(warning.contains("OTEL_TRACES_SAMPLER: 'sometimes' is none of always_on,"), "{warning}");
    assert!(collector.received().is_empty());
}
