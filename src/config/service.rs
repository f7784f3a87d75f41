//! Nodes and credentials of requests in spinney's own name.

use hyper::Uri;
use hyper::header::HeaderValue;

use super::{ConfigError, NodeUrl};

/// The nodes and credentials of spinney's own requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceUrl {
    /// The nodes, at least one: used in turns, each in place of one that fails.
    pub nodes: Vec<Uri>,
    /// Prefix of every path.
    pub path: String,
    /// The credentials; `None`: anonymous.
    pub credentials: Option<HeaderValue>,
}

impl ServiceUrl {
    /// The nodes of the cluster, and that of `--service-url` if given. `upstream`: the nodes that were named.
    ///
    /// # Errors
    /// When the URL is not a node's.
    pub(super) fn of(url: Option<&str>, upstream: &[Uri]) -> Result<ServiceUrl, ConfigError> {
        let Some(url) = url else {
            return Ok(ServiceUrl { nodes: upstream.to_vec(), path: String::new(), credentials: None });
        };
        let url = NodeUrl::parse(url);
        let url = url.map_err(|error| ConfigError::option("service_url", error.to_string()))?;
        let mut nodes = vec![url.uri().clone()];
        // The path is that of one node alone. Credentials for TLS are sent over nothing less.
        let others = upstream.iter().filter(|_| url.path().is_empty());
        let others = others.filter(|node| !url.is_tls() || node.scheme_str() == Some("https"));
        for node in others {
            if !nodes.contains(node) {
                nodes.push(node.clone());
            }
        }
        Ok(ServiceUrl { nodes, path: url.path().to_owned(), credentials: url.credentials().cloned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawServeOptions;

    #[test]
    fn credentials_are_not_shown() {
        let with = |options: &str| {
            let raw: RawServeOptions = toml::from_str(options).unwrap();
            let validated = raw.validate().map_err(|error| error.to_string());
            validated.map(|options| options.service_url)
        };
        let nodes = |url: &ServiceUrl| -> Vec<String> { url.nodes.iter().map(ToString::to_string).collect() };
        let route = "upstream = ['http://es1:9200', 'http://es2:9200']\n[[route]]\nindex = ['a']";
        let url = with(route).unwrap();
        assert_eq!(nodes(&url), ["http://es1:9200/", "http://es2:9200/"]);
        assert_eq!(url.credentials, None);
        let named = |url: &str| with(&format!("service_url = '{url}'\n{route}"));
        let url = named("http://me:secret@es2:9200").unwrap();
        assert_eq!(nodes(&url), ["http://es2:9200/", "http://es1:9200/"]);
        assert_eq!(url.credentials.as_ref().unwrap(), "Basic bWU6c2VjcmV0");
        assert!(!format!("{url:?}").contains("bWU6"), "{url:?}");
        // Secrets stay under TLS, and a path is that of one node.
        let url = named("https://me:secret@es2:9200").unwrap();
        assert_eq!(nodes(&url), ["https://es2:9200/"]);
        let url = named("http://es:9200/gate/").unwrap();
        assert_eq!((nodes(&url).len(), url.path.as_str()), (1, "/gate"));
        // A default node is not one that was named.
        let own = "service_url = 'http://me:secret@es3:9200'\n[[route]]\nindex = ['a']";
        assert_eq!(nodes(&with(own).unwrap()), ["http://es3:9200/"]);
        for wrong in ["http://svc:Pa55#word@host:9200", "svc:Pa55word@host"] {
            let error = named(wrong).unwrap_err();
            assert!(error.starts_with("service_url: "), "{error}");
            assert!(!error.contains("Pa55") && !error.contains("word@"), "{error}");
        }
    }
}
