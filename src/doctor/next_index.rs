//! The next index of a route: whether the templates of the cluster will map the stamp in it.

use hyper::Method;

use super::Finding;
use crate::backfill::mapping::{component_name, missing};
use crate::bulk::StampNames;
use crate::cluster::operator::{Operator, OperatorError, in_path};
use crate::cluster::templates::{self, applied, compose};
use crate::config::DEFAULT_PREFIX;

/// In place of the `*` of a pattern.
const ANY: &str = "spinney-doctor";

/// Examines the mapping that a new index of each of these patterns would get. Nothing is created.
pub(super) async fn examine(operator: &Operator, patterns: &[&str], prefix: &str, of: &str) -> Vec<Finding> {
    let Ok(names) = StampNames::new(prefix) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut without = Vec::new();
    for &pattern in patterns {
        match next(operator, pattern, &names).await {
            Ok(Next::Mapped) => findings.push(Finding::good(of, format!("the next index of {pattern} maps the stamp"))),
            Ok(Next::Composed(state, remedy)) => findings.push(Finding::warning(of, state, remedy)),
            Ok(Next::Unmapped) => without.push(pattern),
            Err(OperatorError::Refused { status: 401 | 403, .. }) => {
                let state = "its next index was not looked at: the service user may not simulate index templates";
                findings.push(Finding::good(of, state));
                break;
            }
            Err(error) => findings.push(Finding::warning(of, error.to_string(), "")),
        }
    }
    if !without.is_empty() {
        let state = format!(
            "no index template maps the stamp in the next index of {}: the cluster will guess the types, and cannot \
             collapse",
            without.join(", ")
        );
        findings.push(Finding::warning(of, state, setup(&format!("--index '{}'", without.join(",")), prefix)));
    }
    findings
}

/// The command line that mends it.
pub(super) fn setup(options: &str, prefix: &str) -> String {
    match prefix {
        DEFAULT_PREFIX => format!("spinney setup {options}"),
        prefix => format!("spinney setup {options} --prefix {prefix}"),
    }
}

/// The next index of a pattern.
enum Next {
    Mapped,
    /// The stamp is not mapped, and no template of the user's own is the reason.
    Unmapped,
    /// A template of the user's applies: its state, and the remedy.
    Composed(String, String),
}

async fn next(operator: &Operator, pattern: &str, names: &StampNames) -> Result<Next, OperatorError> {
    let index = pattern.replace('*', ANY);
    let path = format!("/_index_template/_simulate_index/{}", in_path(&index));
    let answer = operator.ask(Method::POST, &path, None).await?;
    let mappings = &answer["template"]["mappings"];
    let fault = match missing(mappings.get("_doc").unwrap_or(mappings), names) {
        Ok(missing) if missing.is_empty() => return Ok(Next::Mapped),
        Ok(missing) => format!("{} not mapped", missing.keys().cloned().collect::<Vec<_>>().join(", ")),
        Err(fault) => fault.to_string(),
    };
    let templates = templates::all(operator).await?;
    Ok(match applied(&templates, &index) {
        Some(theirs) if !theirs.is_ours => Next::Composed(
            format!("the next index of {pattern} gets the index template {}: {fault}", theirs.name),
            compose(&component_name(names.prefix())),
        ),
        _ => Next::Unmapped,
    })
}
