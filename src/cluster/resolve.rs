//! `_resolve/index`: the indices, aliases and data streams that an expression matches.

use hyper::Method;
use serde::Deserialize;
use serde_json::Value;

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
    /// Asks for what is behind `/_resolve/index/`; a name that nothing has is nothing.
    async fn ask(operator: &Operator, behind: &str) -> Result<Resolved, OperatorError> {
        let path = format!("/_resolve/index/{behind}");
        match operator.ask(Method::GET, &path, None).await {
            Ok(answer) => Resolved::read(&path, &answer),
            Err(OperatorError::Refused { status: 404, .. }) => Ok(Resolved::default()),
            Err(error) => Err(error),
        }
    }

    fn read(request: &str, answer: &Value) -> Result<Resolved, OperatorError> {
        Resolved::deserialize(answer).map_err(|_| OperatorError::Refused {
            status: 200,
            request: format!("GET {request}"),
            answer: answer.to_string(),
        })
    }

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
    let resolved = Resolved::ask(operator, &in_path(expression)).await?;
    if resolved.is_empty() {
        knows_its_indices(operator, expression).await?;
    }
    Ok(resolved)
}

/// The closed indices that an expression matches; patterns match open ones alone elsewhere.
///
/// # Errors
/// As [`resolve`].
pub(crate) async fn closed_indices(operator: &Operator, expression: &str) -> Result<Vec<String>, OperatorError> {
    let found = Resolved::ask(operator, &format!("{}?expand_wildcards=closed", in_path(expression))).await?;
    Ok(found.indices.into_iter().filter(ResolvedName::is_closed).map(|index| index.name).collect())
}

/// Makes sure that there is nothing. A node that has started and has no cluster manager yet resolves every name to
/// nothing (200), and refuses searches (503).
async fn knows_its_indices(operator: &Operator, expression: &str) -> Result<(), OperatorError> {
    let path = format!("/{}/_search?size=0&ignore_unavailable=true&allow_no_indices=true", in_path(expression));
    match operator.ask(Method::GET, &path, None).await {
        Err(error) if error.may_pass() => Err(error),
        // Who may not search a name that nothing has was answered by a cluster that knows its indices.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A cluster that answers names with the one text, and searches with the other status.
    async fn cluster(names: (u16, &'static str), searched: u16) -> Operator {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let read = stream.read(&mut request).await.unwrap();
                let is_search = String::from_utf8_lossy(&request[..read]).contains("/_search?");
                let (status, body) = if is_search { (searched, "{}") } else { names };
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Operator::new(&url, None).unwrap()
    }

    const NOTHING: &str = r#"{"indices":[],"aliases":[],"data_streams":[]}"#;

    /// As OpenSearch answers between its start and the election of a cluster manager.
    #[tokio::test]
    async fn a_node_without_a_cluster_does_not_say_that_there_is_nothing() {
        for names in [(200, NOTHING), (404, "{}")] {
            let starting = resolve(&cluster(names, 503).await, "news-*").await.unwrap_err();
            assert!(starting.may_pass(), "{starting}");
            // A cluster that knows its indices, and a user who may search none of them.
            for searched in [200, 403, 404] {
                assert!(resolve(&cluster(names, searched).await, "news-*").await.unwrap().is_empty());
            }
        }
        let found = resolve(&cluster((200, r#"{"indices":[{"name":"news-1"}]}"#), 503).await, "news-*").await.unwrap();
        assert_eq!(found.searchable(), ["news-1"]);
        for other in [r#"{"indices":{}}"#, "true", "<html>"] {
            assert!(resolve(&cluster((200, other), 200).await, "news-*").await.is_err(), "{other}");
        }
    }
}
