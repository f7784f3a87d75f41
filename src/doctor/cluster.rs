//! The cluster: there, of a known version, with its clock, the indices of the routes, their mapping, and the rights of
//! the service user.

use hyper::Method;
use serde_json::json;

use super::{Finding, Severity, next_index};
use crate::backfill::{RouteIndices, discover_route};
use crate::clock;
use crate::cluster::operator::{Operator, OperatorError, in_path};
use crate::cluster::point_in_time::{PointError, PointsInTime};
use crate::cluster::roots::roots_index;
use crate::config::ServeOptions;
use crate::engine::{MissingField, RouteTable};

/// Clocks that differ by more, in milliseconds, make a start read the index from the wrong place.
const SKEW: u64 = 30_000;

/// The id of a document that is not there.
const NO_DOCUMENT: &str = "spinney-doctor-no-such-document";

/// A cluster is red for a moment whenever an index is made in it.
const HEALTH: &str = "/_cluster/health?wait_for_status=yellow&timeout=5s";

/// All that spinney needs of the cluster.
pub(super) async fn examine(options: &ServeOptions) -> Vec<Finding> {
    let operator = match Operator::of_service(options) {
        Ok(operator) => operator,
        Err(error) => return vec![Finding::error("cluster", error.to_string(), "see --service-url and --upstream-ca")],
    };
    let of = format!("cluster {}", operator.url());
    let health = match operator.ask(Method::GET, HEALTH, None).await {
        Ok(health) => health,
        // It is red still: this is how versions from 8 on say that the time is over.
        Err(OperatorError::Refused { status: 408, .. }) => json!({"status": "red"}),
        Err(error) => {
            let remedy = match &error {
                OperatorError::Refused { status: 401, .. } => "give --service-url with user:password@",
                OperatorError::Refused { status: 403, .. } => {
                    "give the user of --service-url the right to monitor the cluster (docs/security.md)"
                }
                _ => "is --upstream right, does the cluster run, and does --upstream-ca fit its certificate?",
            };
            return vec![Finding::error(of, error.to_string(), remedy)];
        }
    };
    let mut findings = vec![match health["status"].as_str().unwrap_or_default() {
        "red" => Finding::error(
            &of,
            "its health is red: some shards are away, and writes to them fail",
            "GET /_cluster/allocation/explain says why",
        ),
        status => Finding::good(&of, format!("its health is {status}")),
    }];
    findings.extend(versions(&operator, &of).await);
    findings.extend(clocks(&operator, &of).await);
    let routes = RouteTable::of(&options.prefix, &options.routes);
    if routes.routes.is_empty() {
        findings.push(Finding::error("routes", "there is none, so nothing is stamped", "give --index"));
    }
    for at in 0..routes.routes.len() {
        findings.extend(route(options, &operator, &routes, at).await);
    }
    findings
}

/// The versions of the nodes, as far as the user may see them.
async fn versions(operator: &Operator, of: &str) -> Option<Finding> {
    let answer = operator.ask(Method::GET, "/_nodes/_all/none?filter_path=nodes.*.version", None).await.ok()?;
    let mut versions: Vec<String> =
        answer["nodes"].as_object()?.values().filter_map(|node| Some(node["version"].as_str()?.to_owned())).collect();
    versions.sort();
    versions.dedup();
    let shown = versions.join(", ");
    let major = |version: &String| version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let known = versions.iter().all(|version| matches!(major(version), Some(2 | 3 | 7 | 8 | 9)));
    Some(match known {
        true => Finding::good(of, format!("version {shown}")),
        false => Finding::warning(
            of,
            format!("version {shown}"),
            "spinney is tested with OpenSearch 2 and 3 and Elasticsearch 7.17, 8.19 and 9",
        ),
    })
}

async fn clocks(operator: &Operator, of: &str) -> Option<Finding> {
    let apart = clock::now().0.abs_diff(operator.epoch().await?.0);
    Some(match apart > SKEW {
        true => Finding::warning(
            of,
            format!("its clock and the one of this machine are {} s apart", apart / 1_000),
            "run an NTP client on both: arrivals are told by the clock of this machine",
        ),
        false => Finding::good(of, "its clock agrees with the one of this machine"),
    })
}

/// The indices of one route.
async fn route(options: &ServeOptions, operator: &Operator, routes: &RouteTable, at: usize) -> Vec<Finding> {
    let each: Vec<&str> = routes.routes.get(at).iter().flat_map(|route| &route.index).map(String::as_str).collect();
    let patterns = each.join(",");
    let of = format!("route {patterns}");
    let found = match discover_route(operator, routes, at).await {
        Ok(found) => found,
        Err(error) => return vec![Finding::error(of, error.to_string(), "see --prefix")],
    };
    let mut findings = Vec::new();
    if let Some(error) = found.failed {
        findings.push(Finding::error(
            &of,
            error.to_string(),
            "the user of --service-url needs view_index_metadata on these indices (docs/security.md)",
        ));
    }
    let Some(target) = found.target else {
        findings.push(Finding::warning(&of, "no index has such a name yet", ""));
        findings.extend(next_index::examine(operator, &each, &options.prefix, &of).await);
        return findings;
    };
    let setup = next_index::setup(&format!("--existing --index '{patterns}'"), &options.prefix);
    findings.push(Finding::good(&of, format!("{} indices", target.indices.len())));
    findings.extend(mapping(operator, &target, &of, &setup).await);
    findings.extend(fields(operator, &target, &of).await);
    // An index without a pattern has no next one.
    let open: Vec<&str> = each.into_iter().filter(|pattern| pattern.contains('*')).collect();
    findings.extend(next_index::examine(operator, &open, &options.prefix, &of).await);
    findings.extend(blocks(operator, &target, &of).await);
    findings.extend(rights(options, operator, &target, &of).await);
    findings
}

async fn mapping(operator: &Operator, target: &RouteIndices, of: &str, setup: &str) -> Vec<Finding> {
    let mappings = match target.mappings(operator).await {
        Ok(mappings) => mappings,
        Err(error) => return vec![Finding::error(of, error.to_string(), "")],
    };
    let (mut lacking, mut findings) = (Vec::new(), Vec::new());
    for (index, missing) in &mappings {
        match missing {
            Ok(missing) if missing.is_empty() => {}
            Ok(_) => lacking.push(index.as_str()),
            Err(fault) => findings.push(Finding::error(of, format!("{index}: {fault}"), "")),
        }
    }
    if !lacking.is_empty() {
        let some = lacking.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        let state = format!("{} indices do not map the stamp, {some} among them", lacking.len());
        findings.push(Finding::error(of, state + ": the cluster will guess the types, and cannot collapse", setup));
    }
    if findings.is_empty() {
        findings.push(Finding::good(of, "the fields of the stamp are mapped"));
    }
    findings
}

/// Whether stored documents have the fields that the route reads.
async fn fields(operator: &Operator, target: &RouteIndices, of: &str) -> Vec<Finding> {
    match target.unfound_fields(operator).await {
        Ok(missing) if missing.is_empty() => Vec::new(),
        Ok(missing) => {
            let remedy = |field: &MissingField| format!("correct {}", field.field.used_for.option());
            missing.iter().map(|field| Finding::warning(of, field.to_string(), remedy(field))).collect()
        }
        Err(error) => vec![Finding::warning(of, format!("its documents cannot be looked at: {error}"), "")],
    }
}

async fn blocks(operator: &Operator, target: &RouteIndices, of: &str) -> Option<Finding> {
    let (index, setting) = target.blocked(operator).await.ok()??;
    let remedy = "remove that setting, if it is to be written (the flood stage of the disks sets it, too)";
    Some(Finding::warning(of, format!("{index} takes no writes ({setting})"), remedy))
}

/// Checks the privileges of the user of `--service-url` on the first index of a route.
async fn rights(options: &ServeOptions, operator: &Operator, target: &RouteIndices, of: &str) -> Vec<Finding> {
    let Some(index) = target.indices.first() else { return Vec::new() };
    let of = format!("{of}: rights of the service user");
    let mut findings = Vec::new();
    let lack = |severity, what: &str, for_what: &str, error: OperatorError| {
        let state = format!("it may not {what}, which {for_what}: {error}");
        let remedy = "give it the rights of docs/security.md, or another user to --service-url";
        Finding { severity, ..Finding::warning(&of, state, remedy) }
    };
    let search = json!({"size": 0, "track_total_hits": false, "query": {"match_none": {}}});
    let path = format!("/{}/_search", in_path(index));
    if let Err(error) = operator.ask(Method::POST, &path, Some(&search)).await {
        findings.push(lack(Severity::Error, "search", "counts and catching up at a start need", error));
    }
    match PointsInTime::default().open(operator, &in_path(index)).await {
        Ok(point) => point.close().await,
        Err(PointError::Operator(error)) => {
            findings.push(lack(Severity::Error, "open a point in time", "catching up at a start needs", error));
        }
        Err(error) => findings.push(Finding::error(&of, error.to_string(), "")),
    }
    if let Err(error) = may_write(operator, index).await {
        findings.push(lack(Severity::Warning, "write", "restamping after overrides, and --sweep, need", error));
    }
    let roots = roots_index(index);
    if options.counts
        && let Err(error) = may_write(operator, &roots).await
    {
        findings.push(lack(Severity::Warning, &format!("write {roots}"), "--counts needs", error));
    }
    if findings.is_empty() {
        findings.push(Finding::good(&of, "search, points in time and writing"));
    }
    findings
}

/// Both servers check the right first, and the document that is not there then. An index that is not there yet is
/// found missing then, too.
async fn may_write(operator: &Operator, index: &str) -> Result<(), OperatorError> {
    let path = format!("/{}/_update/{NO_DOCUMENT}", in_path(index));
    match operator.ask(Method::POST, &path, Some(&json!({"doc": {}}))).await {
        Ok(_) | Err(OperatorError::Refused { status: 404, .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
