//! Requests in spinney's own name, through the `opensearch` crate: its API is the same on OpenSearch and on
//! Elasticsearch 7.17. Commands of an operator use it, whose credentials stand in the URL.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use opensearch::OpenSearch;
use opensearch::cert::{Certificate, CertificateValidation};
use opensearch::cluster::ClusterPutComponentTemplateParts;
use opensearch::http::request::{Body, JsonBody};
use opensearch::http::response::Response;
use opensearch::http::transport::{SingleNodeConnectionPool, TransportBuilder};
use opensearch::http::{Method, Url};
use opensearch::indices::IndicesPutIndexTemplateParts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::describe;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// What stays as it is in a path: names of indices, and the signs of patterns.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'*')
    .remove(b',');

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A name, a pattern, or several with commas, as a part of a path.
pub(crate) fn in_path(expression: &str) -> String {
    utf8_percent_encode(expression, IN_PATH).to_string()
}

/// Why a request of an operator failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OperatorError {
    /// `--upstream` is no URL.
    #[error("'{url}' is not a URL such as http://127.0.0.1:9200: {reason}")]
    Url {
        /// What was given.
        url: String,
        /// Why.
        reason: String,
    },
    /// The file of the authority cannot be read.
    #[error("cannot read certificates from {path}: {reason}")]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The HTTP client cannot be made.
    #[error("cannot make a client for the cluster: {0}")]
    Client(String),
    /// No answer came.
    #[error(
        "cannot reach {url}: {reason}; is the cluster up, and are --upstream and --upstream-ca right?"
    )]
    Unreachable {
        /// Of the node, without credentials.
        url: String,
        /// Why.
        reason: String,
    },
    /// The cluster refused the request.
    #[error("the cluster answered {status} to {request}: {answer}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Method and path.
        request: String,
        /// What the cluster says.
        answer: String,
    },
}

/// A template that the stamp's fields need.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Template {
    /// Mappings that index templates are composed of.
    Component {
        /// Its name.
        name: String,
        /// What is put.
        body: Value,
    },
    /// A template for the indices that match its patterns.
    Index {
        /// Its name.
        name: String,
        /// What is put.
        body: Value,
    },
}

impl Template {
    /// The path that it is put to.
    pub(crate) fn path(&self) -> String {
        match self {
            Template::Component { name, .. } => ClusterPutComponentTemplateParts::Name(name).url(),
            Template::Index { name, .. } => IndicesPutIndexTemplateParts::Name(name).url(),
        }
        .into_owned()
    }

    /// What is put.
    pub(crate) fn body(&self) -> &Value {
        match self {
            Template::Component { body, .. } | Template::Index { body, .. } => body,
        }
    }
}

/// One node of the cluster, and the right to change it.
pub(crate) struct Operator {
    client: OpenSearch,
    /// Without credentials: for messages.
    shown_url: String,
}

impl Operator {
    /// Credentials may stand in the URL. `ca`: PEM file of an authority to trust besides those of the system.
    ///
    /// # Errors
    /// When the URL or the file cannot be used.
    pub(crate) fn new(url: &str, ca: Option<&Path>) -> Result<Operator, OperatorError> {
        let wrong = |reason: String| OperatorError::Url {
            url: url.to_owned(),
            reason,
        };
        let url = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://".into()));
        }
        let mut shown = url.clone();
        // Only fails for URLs that cannot have credentials.
        let _ = shown
            .set_username("")
            .and_then(|()| shown.set_password(None));
        let mut transport = TransportBuilder::new(SingleNodeConnectionPool::new(url));
        if let Some(path) = ca {
            let authority = authority(path).map_err(|reason| OperatorError::Authority {
                path: path.to_owned(),
                reason,
            })?;
            transport = transport.cert_validation(CertificateValidation::Full(authority));
        }
        let transport = transport
            .build()
            .map_err(|error| OperatorError::Client(describe(&error)))?;
        Ok(Operator {
            client: OpenSearch::new(transport),
            shown_url: shown.as_str().trim_end_matches('/').to_owned(),
        })
    }

    /// Installs a template; an older one of this name is replaced. Returns what the cluster warns of, such as templates of
    /// the old kind that no longer apply.
    ///
    /// # Errors
    /// When the cluster cannot be reached or refuses the template.
    pub(crate) async fn put_template(
        &self,
        template: &Template,
    ) -> Result<Vec<String>, OperatorError> {
        let sent = match template {
            Template::Component { name, body } => {
                let parts = ClusterPutComponentTemplateParts::Name(name);
                let cluster = self.client.cluster();
                cluster
                    .put_component_template(parts)
                    .body(body)
                    .send()
                    .await
            }
            Template::Index { name, body } => {
                let parts = IndicesPutIndexTemplateParts::Name(name);
                let indices = self.client.indices();
                indices.put_index_template(parts).body(body).send().await
            }
        };
        let response = sent.map_err(|error| OperatorError::Unreachable {
            url: self.shown_url.clone(),
            reason: describe(&error),
        })?;
        let warnings = warnings(&response);
        let status = response.status_code();
        if status.is_success() {
            return Ok(warnings);
        }
        Err(OperatorError::Refused {
            status: status.as_u16(),
            request: format!("PUT {}", template.path()),
            answer: response.text().await.unwrap_or_default(),
        })
    }
}

impl Operator {
    /// Asks the cluster whether it would take an index template, in the order of its templates and with its data streams
    /// as they are; nothing is changed. Component templates are not asked about: they replace nobody else's.
    ///
    /// # Errors
    /// When the cluster cannot be reached or would refuse the template.
    pub(crate) async fn rehearse(&self, template: &Template) -> Result<(), OperatorError> {
        let Template::Index { name, body } = template else {
            return Ok(());
        };
        let mut body = body.clone();
        // They may not be there yet, and do not matter to the order of templates.
        if let Some(members) = body.as_object_mut() {
            members.remove("composed_of");
        }
        let path = format!("/_index_template/_simulate/{}", in_path(name));
        self.ask(Method::Post, &path, Some(&body)).await.map(drop)
    }

    /// Sends a request, whose body is JSON, and reads the answer as JSON. `path` may have a query string.
    ///
    /// # Errors
    /// When the cluster cannot be reached, refuses the request, or answers something else than JSON.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, OperatorError> {
        let body = body.map(JsonBody::new);
        self.send(method, path, JSON, body).await
    }

    /// Sends lines of JSON, such as those of a bulk, and reads the answer as JSON.
    ///
    /// # Errors
    /// As [`Operator::ask`].
    pub(crate) async fn send_lines(
        &self,
        path: &str,
        lines: Bytes,
    ) -> Result<Value, OperatorError> {
        self.send(Method::Post, path, LINES, Some(lines)).await
    }

    /// Sends lines of JSON with one more header, and answers the bytes that come.
    ///
    /// # Errors
    /// When the cluster cannot be reached or refuses the request.
    pub(crate) async fn send_lines_with(
        &self,
        path: &str,
        (name, value): (HeaderName, HeaderValue),
        lines: Bytes,
    ) -> Result<Bytes, OperatorError> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, LINES), (name, value)]);
        self.send_bytes(Method::Post, path, headers, Some(lines))
            .await
    }

    /// Sends a request as [`Operator::ask`] does, and answers the bytes that come.
    ///
    /// # Errors
    /// When the cluster cannot be reached or refuses the request.
    pub(crate) async fn ask_bytes(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, OperatorError> {
        let body = body.map(JsonBody::new);
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, JSON)]);
        self.send_bytes(method, path, headers, body).await
    }

    async fn send<B: Body>(
        &self,
        method: Method,
        path: &str,
        content_type: HeaderValue,
        body: Option<B>,
    ) -> Result<Value, OperatorError> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type)]);
        let answer = self.send_bytes(method, path, headers, body).await?;
        serde_json::from_slice(&answer).map_err(|_| OperatorError::Refused {
            status: 200,
            request: format!("{} {path}", name(method)),
            answer: String::from_utf8_lossy(&answer).into_owned(),
        })
    }

    async fn send_bytes<B: Body>(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Option<B>,
    ) -> Result<Bytes, OperatorError> {
        let request = format!("{} {path}", name(method));
        let unreachable = |error: &dyn std::error::Error| OperatorError::Unreachable {
            url: self.shown_url.clone(),
            reason: describe(error),
        };
        let sent = self
            .client
            .send(method, path, headers, None::<&()>, body, Some(TIMEOUT));
        let response = sent.await.map_err(|error| unreachable(&error))?;
        let status = response.status_code();
        let answer = response
            .bytes()
            .await
            .map_err(|error| unreachable(&error))?;
        if status.is_success() {
            return Ok(answer);
        }
        Err(OperatorError::Refused {
            status: status.as_u16(),
            request,
            answer: String::from_utf8_lossy(&answer).into_owned(),
        })
    }

    /// Of the node, without credentials.
    pub(crate) fn url(&self) -> &str {
        &self.shown_url
    }
}

fn name(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Put => "PUT",
        Method::Post => "POST",
        Method::Delete => "DELETE",
        Method::Head => "HEAD",
    }
}

fn authority(path: &Path) -> Result<Certificate, String> {
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    Certificate::from_pem(&pem).map_err(|error| describe(&error))
}

/// The texts of the `Warning` headers. Not by the crate's own function, which panics on one without quotes.
fn warnings(response: &Response) -> Vec<String> {
    let warnings = response.headers().get_all("warning").iter();
    warnings
        .map(|warning| warning.to_str().unwrap_or("(not text)").to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use super::*;

    /// A cluster that gives one answer; the task ends with the request that it got.
    async fn cluster(answer: &'static str) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = String::new();
            while !request.ends_with('}') {
                let mut buffer = [0; 1024];
                let read = stream.read(&mut buffer).await.unwrap();
                request.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            request
        });
        (url, task)
    }

    fn template() -> Template {
        Template::Index {
            name: "news".into(),
            body: json!({"index_patterns": ["news-*"]}),
        }
    }

    #[tokio::test]
    async fn templates_are_put_with_the_credentials_of_the_url() {
        let (url, got) = cluster(
            "HTTP/1.1 200 OK\r\nwarning: 299 x \"old\"\r\nwarning: no quotes\r\ncontent-length: 2\r\n\r\n{}",
        )
        .await;
        let url = url.replace("http://", "http://me:secret@");
        let operator = Operator::new(&url, None).unwrap();
        let warnings = operator.put_template(&template()).await.unwrap();
        assert_eq!(warnings, ["299 x \"old\"", "no quotes"]);
        let got = got.await.unwrap();
        assert!(
            got.starts_with("PUT /_index_template/news HTTP/1.1\r\n"),
            "{got}"
        );
        assert!(
            got.contains("authorization: Basic bWU6c2VjcmV0\r\n"),
            "{got}"
        );
        assert!(got.ends_with("{\"index_patterns\":[\"news-*\"]}"), "{got}");
    }

    #[tokio::test]
    async fn a_refusal_is_reported_in_the_clusters_words() {
        let (url, _) = cluster("HTTP/1.1 400 Bad Request\r\ncontent-length: 6\r\n\r\nno, no").await;
        let operator = Operator::new(&url, None).unwrap();
        let error = operator.put_template(&template()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the cluster answered 400 to PUT /_index_template/news: no, no"
        );
        let nobody = Operator::new("http://me:secret@127.0.0.1:1", None).unwrap();
        let error = nobody
            .put_template(&template())
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("cannot reach http://127.0.0.1:1: "),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
        assert_eq!(error.matches("onnection refused").count(), 1, "{error}");
    }

    #[test]
    fn paths_of_templates() {
        let (name, body) = ("a b".to_owned(), json!({}));
        let component = Template::Component {
            name: name.clone(),
            body: body.clone(),
        };
        assert_eq!(component.path(), "/_component_template/a%20b");
        let index = Template::Index { name, body };
        assert_eq!(index.path(), "/_index_template/a%20b");
    }

    #[test]
    fn credentials_stand_in_no_message() {
        let operator = Operator::new("https://admin:secret@es1:9200/search/", None).unwrap();
        assert_eq!(operator.shown_url, "https://es1:9200/search");
        for wrong in ["es1", "es1:9200", "ftp://es1"] {
            let error = Operator::new(wrong, None).err().unwrap();
            assert!(matches!(error, OperatorError::Url { .. }), "{error}");
        }
    }

    #[test]
    fn an_authority_that_is_none() {
        for path in ["/no/such/file", "/dev/null"] {
            let error = Operator::new("https://es1:9200", Some(Path::new(path))).err();
            assert!(
                matches!(error, Some(OperatorError::Authority { .. })),
                "{path}: {error:?}"
            );
        }
    }
}
