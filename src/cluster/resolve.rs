//! `_resolve/index`: the indices, aliases and data streams that an expression matches.

use hyper::Method;
use serde::Deserialize;

use super::operator::{Operator, OperatorError, in_path};

/// The names that a name or pattern resolves to.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Resolved {
    pub(crate) indices: Vec<ResolvedName>,
    pub(crate) aliases: Vec<ResolvedName>,
    pub(crate) data_streams: Vec<ResolvedName>,
}

/// An index, or an alias or data stream with its indices.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResolvedName {
    pub(crate) name: String,
    attributes: Vec<String>,
    #[serde(alias = "backing_indices", deserialize_with = "one_or_many")]
    pub(crate) indices: Vec<String>,
}

/// The servers write one name without brackets.
fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Names {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Names::deserialize(from)? {
        Names::One(name) => vec![name],
        Names::Many(names) => names,
    })
}

impl ResolvedName {
    /// Whether it is a closed index.
    pub(crate) fn is_closed(&self) -> bool {
        self.attributes.iter().any(|attribute| attribute == "closed")
    }
}

impl Resolved {
    /// Whether the expression matches nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.indices.is_empty() && self.aliases.is_empty() && self.data_streams.is_empty()
    }

    /// Aliases and data streams.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &ResolvedName> {
        self.aliases.iter().chain(&self.data_streams)
    }

    /// The open indices, the data streams, and the aliases of other indices, each searchable by itself.
    pub(crate) fn searchable(&self) -> Vec<String> {
        let open = self.indices.iter().filter(|index| !index.is_closed());
        let mut names: Vec<String> = open.map(|index| index.name.clone()).collect();
        for group in self.groups() {
            if !group.indices.iter().all(|index| names.contains(index)) {
                names.push(group.name.clone());
            }
        }
        names
    }
}

/// Resolves an expression in the name of the service user.
///
/// # Errors
/// When the cluster cannot be reached or refuses. A name that nothing has is no error.
pub(crate) async fn resolve(operator: &Operator, expression: &str) -> Result<Resolved, OperatorError> {
    let path = format!("/_resolve/index/{}", in_path(expression));
    match operator.ask(Method::GET, &path, None).await {
        Ok(answer) => Ok(serde_json::from_value(answer).unwrap_or_default()),
        Err(OperatorError::Refused { status: 404, .. }) => Ok(Resolved::default()),
        Err(error) => Err(error),
    }
}
