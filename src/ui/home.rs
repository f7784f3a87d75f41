//! The choice of an index.

use askama::Template;
use hyper::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::error_page::ErrorPage;
use super::lang::Texts;
use super::layout::Layout;
use super::{PageRequest, format, response, url};
use crate::http::Body;

/// Indices of a pattern that are listed.
const LISTED: usize = 30;

/// Most bytes of the cluster's response.
const ANSWER_BYTES: usize = 1 << 20;

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage<'a> {
    shell: &'a Layout,
    t: &'static Texts,
    choices: Vec<PatternChoice>,
    /// Whether the cluster requires authentication.
    asks_who: bool,
}

/// A pattern of a route.
struct PatternChoice {
    name: String,
    address: String,
    /// More than one index has it.
    is_several: bool,
    indices: Vec<IndexLink>,
}

/// An index that the reader may search.
struct IndexLink {
    name: String,
    address: String,
    documents: String,
}

pub(super) async fn show(page: &PageRequest<'_>) -> Result<Response<Body>, ErrorPage> {
    let shell = page.shell;
    if let Some(index) = shell.parameters.get("index") {
        return Ok(response::elsewhere(&url::list(index)));
    }
    let mut choices = Vec::new();
    let mut asks_who = false;
    for route in page.state.engine.routes().reader_routes() {
        for name in route.patterns {
            let (indices, refused) = indices(page, &name).await?;
            asks_who |= refused;
            let is_several = name.contains('*') && indices.len() != 1;
            choices.push(PatternChoice { address: url::list(&name), is_several, indices, name });
        }
    }
    if asks_who {
        // Patterns are shown to authenticated readers only.
        choices.clear();
    }
    let home = HomePage { shell, t: shell.t(), choices, asks_who };
    Ok(response::page(StatusCode::OK, &home)?)
}

/// The indices of a pattern that the reader may search, and whether the cluster requires authentication. Any other
/// refusal lists none: the page of the index shows the reason.
async fn indices(page: &PageRequest<'_>, pattern: &str) -> Result<(Vec<IndexLink>, bool), ErrorPage> {
    let path = format!("/{}/_search", url::segment(pattern));
    let body = json!({
        "size": 0,
        "track_total_hits": false,
        "aggs": {"indices": {"terms": {"field": "_index", "size": LISTED, "order": {"_key": "asc"}}}},
    });
    let cluster = &page.state.cluster;
    let asked = cluster.ask_as(&page.headers, Method::POST, &path, Some(&body), ANSWER_BYTES);
    let answer = asked.await?;
    if answer.status() == StatusCode::UNAUTHORIZED {
        return Ok((Vec::new(), true));
    }
    let parsed: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let buckets = parsed.pointer("/aggregations/indices/buckets");
    let buckets = buckets.and_then(Value::as_array);
    let index = |bucket: &Value| {
        let name = bucket.get("key")?.as_str()?.to_owned();
        let documents = format::number(bucket.get("doc_count")?.as_u64()?);
        Some(IndexLink {
            address: url::list(&name),
            documents: page.shell.text(page.shell.t().documents_of, &[&documents]),
            name,
        })
    };
    let indices = buckets.map(|buckets| buckets.iter().filter_map(index).collect());
    Ok((indices.unwrap_or_default(), false))
}
