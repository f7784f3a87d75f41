//! Own endpoints under `/_spinney/`. Those that show anything ask the cluster first, with the caller's own credentials.

mod check;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;

use crate::proxy::Proxy;
use crate::proxy::answer::{Body, Refusal, full, json, typed};
use crate::telemetry::{self, Gauge};

/// Who may read the cluster's health may read spinney's state.
const CONSENT: &str = "/_cluster/health";
const READY: &str = "/";

/// Answers `/_spinney{path}`.
///
/// # Errors
/// When there is no such endpoint or the cluster cannot be asked.
pub async fn answer(
    proxy: &Proxy,
    path: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let endpoint = path.trim_end_matches('/');
    let opaque_id = request.headers().get("x-opaque-id").cloned();
    let mut response = match check::index_of(endpoint) {
        Some(index) => check::answer(proxy, index, request).await?,
        None => state(proxy, path, &request).await?,
    };
    if let Some(id) = opaque_id {
        response.headers_mut().insert("x-opaque-id", id);
    }
    proxy.sign(&mut response);
    Ok(response)
}

/// Answers the endpoints that tell of spinney itself.
async fn state(
    proxy: &Proxy,
    path: &str,
    request: &Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let endpoint = path.trim_end_matches('/');
    if !matches!(endpoint, "/_health" | "/_ready" | "/_stats" | "/_metrics") {
        return Err(Refusal::NoEndpoint(format!("/_spinney{path}")));
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Err(Refusal::GetOnly);
    }
    Ok(match endpoint {
        "/_health" => json(StatusCode::OK, &json!({"status": "alive"})),
        "/_ready" => ready(proxy, request).await,
        _ => match refused(proxy, request).await? {
            Some(refused) => refused,
            None if endpoint == "/_stats" => json(StatusCode::OK, &stats(proxy)),
            None => typed(
                StatusCode::OK,
                "text/plain; version=0.0.4; charset=utf-8",
                metrics(proxy),
            ),
        },
    })
}

/// Ready when not stopping and a node answers; 401 and 403 are answers.
async fn ready(proxy: &Proxy, request: &Request<Incoming>) -> Response<Body> {
    let reason = if proxy.flight.stopping() {
        "stopping"
    } else {
        match proxy.upstream.get(READY, request.headers(), 1 << 20).await {
            Ok(answer) if !answer.status().is_server_error() => {
                return json(StatusCode::OK, &json!({"status": "ready"}));
            }
            Ok(_) => "the cluster answers with errors",
            Err(_) => "the cluster cannot be reached",
        }
    };
    json(
        StatusCode::SERVICE_UNAVAILABLE,
        &json!({"status": "not ready", "reason": reason}),
    )
}

/// The cluster's own answer when it refuses the caller.
async fn refused(
    proxy: &Proxy,
    request: &Request<Incoming>,
) -> Result<Option<Response<Body>>, Refusal> {
    let answer = proxy
        .upstream
        .get(CONSENT, request.headers(), 1 << 20)
        .await?;
    if answer.status().is_success() {
        return Ok(None);
    }
    Ok(Some(answer.map(full)))
}

fn stats(proxy: &Proxy) -> serde_json::Value {
    let counters: serde_json::Map<_, _> = proxy
        .counters
        .all()
        .map(|(name, _, value)| (name.to_owned(), value.into()))
        .collect();
    let refusals: serde_json::Map<_, _> = proxy
        .counters
        .refusals
        .all()
        .map(|(reason, count)| (reason.as_str().to_owned(), count.into()))
        .collect();
    let forests: serde_json::Map<_, _> = proxy
        .engine
        .forests()
        .map(|(name, s)| {
            let stats = json!({
                "nodes": s.nodes, "roots": s.roots, "expired": s.expired_total,
                "withdrawn": s.withdrawn_total, "memory_bytes": s.memory_bytes,
            });
            (name.to_owned(), stats)
        })
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": proxy.started.elapsed().as_secs(),
        "stopping": proxy.flight.stopping(),
        "requests_in_flight": proxy.flight.in_flight(),
        "budget": {"bytes": proxy.budget.capacity(), "used_bytes": proxy.budget.used()},
        "counters": counters,
        "refusals": refusals,
        "forests": forests,
    })
}

fn metrics(proxy: &Proxy) -> String {
    let mut gauges: Vec<Gauge> = vec![
        (
            "uptime_seconds",
            "Seconds since the start.",
            String::new(),
            proxy.started.elapsed().as_secs(),
        ),
        (
            "requests_in_flight",
            "Requests being answered.",
            String::new(),
            proxy.flight.in_flight() as u64,
        ),
        (
            "budget_bytes",
            "Budget of bytes in flight.",
            String::new(),
            proxy.budget.capacity() as u64,
        ),
        (
            "budget_used_bytes",
            "Bytes of write requests held.",
            String::new(),
            proxy.budget.used() as u64,
        ),
    ];
    let forests: Vec<_> = proxy.engine.forests().collect();
    let mut each = |name, help, value: &dyn Fn(&crate::forest::Stats) -> u64| {
        for (forest, stats) in &forests {
            let labels = format!("{{forest=\"{}\"}}", telemetry::label(forest));
            gauges.push((name, help, labels, value(stats)));
        }
    };
    each("forest_nodes", "Fingerprints remembered.", &|s| {
        s.nodes as u64
    });
    each(
        "forest_roots",
        "Trees: clusters of similar documents.",
        &|s| s.roots as u64,
    );
    each("forest_memory_bytes", "Memory of the forest.", &|s| {
        s.memory_bytes as u64
    });
    telemetry::prometheus(&proxy.counters, &gauges)
}
