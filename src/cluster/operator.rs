//! Requests with spinney's own credentials, through the client that callers' requests use: same nodes with failover,
//! same trust, no proxy of the environment, no redirects. Also used by an operator's commands, with the credentials of
//! the URL.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tracing::warn;

use super::retry::Backoff;
use super::{Client, ClientError, ClusterError, Signer, describe};
use crate::bulk::stored_value;
use crate::config::{NodeUrl, NodeUrlError, ServeOptions, Sigv4Options};
use crate::http::full;
use crate::time::Millis;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// Characters that are not encoded in a path: those of index names and patterns.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*').remove(b',');

/// Timeout of a response.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A name, a pattern, or several with commas, as a part of a path.
pub(crate) fn in_path(expression: &str) -> String {
    utf8_percent_encode(expression, IN_PATH).to_string()
}

/// Why a request of an operator failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OperatorError {
    /// The URL of a node is invalid. It is not repeated, since it may contain a password.
    #[error("the URL of the cluster or of spinney cannot be used: {0}")]
    Url(#[from] NodeUrlError),
    /// The HTTP client cannot be made.
    #[error("cannot make a client for the cluster: {0}")]
    Client(String),
    /// No response arrived.
    #[error("cannot reach {url}: {reason}; is the cluster up, and are --upstream and --upstream-ca right?")]
    Unreachable {
        /// Of the nodes, without credentials.
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
        /// The cluster's response.
        answer: String,
    },
}

impl OperatorError {
    /// Whether a retry may succeed: the cluster is away or busy.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(
            self,
            OperatorError::Unreachable { .. }
                | OperatorError::Refused { status: 408 | 429 | 500 | 502 | 503 | 504, .. }
        )
    }

    /// Whether the request has more bytes than the cluster takes: fewer documents may be taken.
    pub(crate) fn is_too_large(&self) -> bool {
        matches!(self, OperatorError::Refused { status: 413, .. })
    }
}

impl From<ClientError> for OperatorError {
    fn from(error: ClientError) -> OperatorError {
        OperatorError::Client(describe(&error))
    }
}

/// A template that the stamp's fields need.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Template {
    /// Mappings that index templates are composed of.
    Component {
        /// Its name.
        name: String,
        /// The body.
        body: Value,
    },
    /// A template for the indices that match its patterns.
    Index {
        /// Its name.
        name: String,
        /// The body.
        body: Value,
    },
}

impl Template {
    /// The path that it is put to.
    pub(crate) fn path(&self) -> String {
        match self {
            Template::Component { name, .. } => format!("/_component_template/{}", in_path(name)),
            Template::Index { name, .. } => format!("/_index_template/{}", in_path(name)),
        }
    }

    /// Whether it is the index template of this name.
    pub(crate) fn is_index_template(&self, of: &str) -> bool {
        matches!(self, Template::Index { name, .. } if name == of)
    }

    /// The body.
    pub(crate) fn body(&self) -> &Value {
        match self {
            Template::Component { body, .. } | Template::Index { body, .. } => body,
        }
    }
}

/// The nodes of the cluster, and the right to change it. A copy is the same operator.
#[derive(Clone)]
pub(crate) struct Operator(Arc<Inner>);

struct Inner {
    way: Way,
    /// In front of every path.
    path: String,
    credentials: Option<HeaderValue>,
    /// The nodes without credentials: for messages.
    shown_url: String,
    /// Tasks that complete even if their caller is dropped.
    tasks: TaskTracker,
}

/// How requests reach a cluster.
enum Way {
    Nodes(Box<Client>),
    #[cfg(test)]
    Model(Box<Model>),
}

/// A model of a cluster: its response to method, path and body; `None`: it never answers.
#[cfg(test)]
pub(crate) type Model = dyn Fn(&Method, &str, &[u8]) -> Option<(u16, Value)> + Send + Sync;

/// A response of any status.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Operator {
    /// An operator of one node, whose URL may have credentials. `ca`: PEM file of the only trusted authority, in
    /// place of the system's.
    ///
    /// # Errors
    /// If the URL or the file cannot be used.
    pub(crate) fn new(url: &str, ca: Option<&Path>) -> Result<Operator, OperatorError> {
        Self::signing(url, ca, None)
    }

    /// As [`Operator::new`], of a node whose requests are signed, if `sigv4` says how.
    ///
    /// # Errors
    /// As [`Operator::new`].
    pub(crate) fn signing(
        url: &str,
        ca: Option<&Path>,
        sigv4: Option<&Sigv4Options>,
    ) -> Result<Operator, OperatorError> {
        let url = NodeUrl::parse(url)?;
        let client = Client::new(std::slice::from_ref(url.uri()), ca, None, Signer::of(sigv4).as_ref(), None)?;
        Ok(Self::with(Way::Nodes(Box::new(client)), url.path().to_owned(), url.credentials().cloned(), url.to_string()))
    }

    /// An operator over the nodes and the trust of a serving process.
    ///
    /// # Errors
    /// When certificates or keys cannot be used.
    pub(crate) fn of_service(config: &ServeOptions) -> Result<Operator, OperatorError> {
        let (ca, identity) = (&config.upstream_ca, &config.upstream_identity);
        let service = &config.service_url;
        let signer = Signer::of(config.sigv4.as_ref());
        let client = Client::new(&service.nodes, ca.as_deref(), identity.as_ref(), signer.as_ref(), None)?;
        let shown = |node: &Uri| node.to_string().trim_end_matches('/').to_owned();
        let shown: Vec<String> = service.nodes.iter().map(shown).collect();
        Ok(Self::with(
            Way::Nodes(Box::new(client)),
            service.path.clone(),
            service.credentials.clone(),
            shown.join(", "),
        ))
    }

    /// A cluster that is made up.
    #[cfg(test)]
    pub(crate) fn of_model(
        model: impl Fn(&Method, &str, &[u8]) -> Option<(u16, Value)> + Send + Sync + 'static,
    ) -> Operator {
        let way = Way::Model(Box::new(model));
        Self::with(way, String::new(), None, "a model".into())
    }

    fn with(way: Way, path: String, credentials: Option<HeaderValue>, shown_url: String) -> Operator {
        Operator(Arc::new(Inner { way, path, credentials, shown_url, tasks: TaskTracker::new() }))
    }

    /// Finds what its requests are signed with, if they are.
    ///
    /// # Errors
    /// There is nothing; the text says why.
    pub(crate) async fn check_signer(&self) -> Result<(), String> {
        match &self.0.way {
            Way::Nodes(client) => client.check_signer().await,
            #[cfg(test)]
            Way::Model(_) => Ok(()),
        }
    }

    /// Spawns a task that completes even if its caller is dropped.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Option<tokio::task::JoinHandle<T>> {
        // Without a runtime the process is about to end.
        let handle = Handle::try_current().ok()?;
        Some(self.0.tasks.spawn_on(task, &handle))
    }

    /// Waits for all spawned tasks, at most `most`.
    pub(crate) async fn settle(&self, most: Duration) {
        let tasks = &self.0.tasks;
        tasks.close();
        let settled = async {
            // A task may spawn another.
            while !tasks.is_empty() {
                tasks.wait().await;
            }
        };
        let _ = tokio::time::timeout(most, settled).await;
    }

    /// Installs a template, replacing one of this name. Returns the cluster's warnings, for example about legacy
    /// templates that no longer apply.
    ///
    /// # Errors
    /// If the cluster cannot be reached or refuses the template.
    pub(crate) async fn put_template(&self, template: &Template) -> Result<Vec<String>, OperatorError> {
        let body = Bytes::from(template.body().to_string());
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, JSON)]);
        let answer = self.send(Method::PUT, &template.path(), headers, body).await?;
        let warnings = answer.headers.get_all("warning").iter();
        let text = |warning: &HeaderValue| warning.to_str().unwrap_or("(not text)").to_owned();
        Ok(warnings.map(text).collect())
    }

    /// Simulates an index template against the existing templates and data streams; changes nothing. Returns the names
    /// of the others that match some of the same indices, legacy templates included. Component templates are not
    /// simulated.
    ///
    /// # Errors
    /// If the cluster cannot be reached or would refuse the template.
    pub(crate) async fn rehearse(&self, template: &Template) -> Result<Vec<String>, OperatorError> {
        let Template::Index { name, body } = template else {
            return Ok(Vec::new());
        };
        let mut body = body.clone();
        // They may not be there yet, and do not matter to the order of templates.
        if let Some(members) = body.as_object_mut() {
            members.remove("composed_of");
        }
        let path = format!("/_index_template/_simulate/{}", in_path(name));
        let answer = self.ask(Method::POST, &path, Some(&body)).await?;
        let overlapping = answer["overlapping"].as_array().into_iter().flatten();
        Ok(overlapping.filter_map(|other| Some(other["name"].as_str()?.to_owned())).collect())
    }

    /// Refreshes these indices, joined by commas, with this many attempts while the cluster is busy. Returns why that
    /// is refused, if it is: then the refresh interval has to pass.
    ///
    /// # Errors
    /// When the cluster cannot be reached, or is busy at every attempt.
    pub(crate) async fn refresh(&self, indices: &str, attempts: u32) -> Result<Option<OperatorError>, OperatorError> {
        let path = format!("/{indices}/_refresh?ignore_unavailable=true");
        let mut backoff = Backoff::new(attempts);
        loop {
            match self.ask(Method::POST, &path, None).await {
                Ok(_) => return Ok(None),
                Err(error @ OperatorError::Refused { .. }) if !error.may_pass() => return Ok(Some(error)),
                Err(error @ OperatorError::Refused { .. }) if backoff.wait().await => {
                    warn!(%error, "the latest writes are not visible yet: that is requested again");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a request with a JSON body, and reads a JSON response. `path` may have a query string.
    ///
    /// # Errors
    /// When the cluster cannot be reached, refuses the request, or answers something else than JSON.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, OperatorError> {
        let request = format!("{method} {path}");
        let answer = self.ask_bytes(method, path, body).await?;
        read(&request, &answer)
    }

    /// The cluster's clock in whole seconds; `None` if it does not tell.
    pub(crate) async fn epoch(&self) -> Option<Millis> {
        let answer = self.ask(Method::GET, "/_cat/health?format=json&h=epoch", None).await.ok()?;
        let seconds = answer.get(0)?["epoch"].as_str()?.parse::<i64>().ok()?;
        seconds.checked_mul(1_000).map(Millis)
    }

    /// Sends newline-delimited JSON, such as a bulk, and reads a JSON response.
    ///
    /// # Errors
    /// As [`Operator::ask`].
    pub(crate) async fn send_lines(&self, path: &str, lines: Bytes) -> Result<Value, OperatorError> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, LINES)]);
        let answer = self.send(Method::POST, path, headers, lines).await?;
        read(&format!("POST {path}"), &answer.body)
    }

    /// Sends newline-delimited JSON with one more header; returns the response's bytes.
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
        let answer = self.send(Method::POST, path, headers, lines).await?;
        Ok(answer.body)
    }

    /// Sends a request as [`Operator::ask`] does; returns the response's bytes.
    ///
    /// # Errors
    /// When the cluster cannot be reached or refuses the request.
    pub(crate) async fn ask_bytes(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, OperatorError> {
        let body = body.map(|body| Bytes::from(body.to_string()));
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, JSON)]);
        let answer = self.send(method, path, headers, body.unwrap_or_default()).await?;
        Ok(answer.body)
    }

    /// Sends a request; any status but success is an error.
    async fn send(&self, method: Method, path: &str, headers: HeaderMap, body: Bytes) -> Result<Answer, OperatorError> {
        let exchange = self.exchange(&method, path, &headers, &body);
        let answer = match tokio::time::timeout(TIMEOUT, exchange).await {
            Ok(answer) => answer?,
            Err(_) => return Err(self.unreachable(format!("no answer in {} s", TIMEOUT.as_secs()))),
        };
        if answer.status.is_success() {
            return Ok(answer);
        }
        Err(OperatorError::Refused {
            status: answer.status.as_u16(),
            request: format!("{method} {path}"),
            answer: String::from_utf8_lossy(&answer.body).into_owned(),
        })
    }

    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Answer, OperatorError> {
        match &self.0.way {
            Way::Nodes(client) => self.exchange_with(client, method, path, headers, body).await,
            #[cfg(test)]
            Way::Model(model) => {
                // As a real request, it yields to other tasks.
                tokio::task::yield_now().await;
                let Some((status, answer)) = model(method, path, body) else {
                    return std::future::pending().await;
                };
                Ok(Answer {
                    status: StatusCode::from_u16(status).unwrap(),
                    headers: HeaderMap::new(),
                    body: answer.to_string().into(),
                })
            }
        }
    }

    async fn exchange_with(
        &self,
        client: &Client,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Answer, OperatorError> {
        let uri = Uri::try_from(format!("{}{path}", self.0.path));
        let uri = uri.map_err(|error| self.unreachable(error.to_string()))?;
        let mut headers = headers.clone();
        if let Some(credentials) = &self.0.credentials {
            headers.insert(AUTHORIZATION, credentials.clone());
        }
        let mut request = Request::new(full(body.clone()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let response = client.relay(request).await.map_err(|error| match error {
            ClusterError::Unreachable(reason) => self.unreachable(reason),
            error => self.unreachable(describe(&error)),
        })?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(|error| self.unreachable(describe(&error)))?;
        Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    }

    fn unreachable(&self, reason: String) -> OperatorError {
        OperatorError::Unreachable { url: self.0.shown_url.clone(), reason }
    }

    /// Of the nodes, without credentials.
    pub(crate) fn url(&self) -> &str {
        &self.0.shown_url
    }
}

fn read(request: &str, answer: &[u8]) -> Result<Value, OperatorError> {
    stored_value(answer).map_err(|_| OperatorError::Refused {
        status: 200,
        request: request.to_owned(),
        answer: String::from_utf8_lossy(answer).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use crate::config::RawServeOptions;
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
            while !request.ends_with('}') && !request.starts_with("GET ") {
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
        Template::Index { name: "news".into(), body: json!({"index_patterns": ["news-*"]}) }
    }

    #[tokio::test]
    async fn templates_are_put_with_the_credentials_of_the_url() {
        let (url, got) =
            cluster("HTTP/1.1 200 OK\r\nwarning: 299 x \"old\"\r\nwarning: no quotes\r\ncontent-length: 2\r\n\r\n{}")
                .await;
        let url = url.replace("http://", "http://me:secret@");
        let operator = Operator::new(&url, None).unwrap();
        let warnings = operator.put_template(&template()).await.unwrap();
        assert_eq!(warnings, ["299 x \"old\"", "no quotes"]);
        let got = got.await.unwrap();
        assert!(got.starts_with("PUT /_index_template/news HTTP/1.1\r\n"), "{got}");
        assert!(got.contains("authorization: Basic bWU6c2VjcmV0\r\n"), "{got}");
        assert!(got.ends_with("{\"index_patterns\":[\"news-*\"]}"), "{got}");
    }

    #[tokio::test]
    async fn a_refusal_is_reported_in_the_clusters_words() {
        let (url, _) = cluster("HTTP/1.1 400 Bad Request\r\ncontent-length: 6\r\n\r\nno, no").await;
        let operator = Operator::new(&url, None).unwrap();
        let error = operator.put_template(&template()).await.unwrap_err();
        assert_eq!(error.to_string(), "the cluster answered 400 to PUT /_index_template/news: no, no");
        let nobody = Operator::new("http://me:secret@127.0.0.1:1", None).unwrap();
        let error = nobody.put_template(&template()).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot reach http://127.0.0.1:1: "), "{error}");
        assert!(!error.contains("secret"), "{error}");
        assert_eq!(error.matches("onnection refused").count(), 1, "{error}");
    }

    #[test]
    fn paths_of_templates() {
        let (name, body) = ("a b".to_owned(), json!({}));
        let component = Template::Component { name: name.clone(), body: body.clone() };
        assert_eq!(component.path(), "/_component_template/a%20b");
        let index = Template::Index { name, body };
        assert_eq!(index.path(), "/_index_template/a%20b");
    }

    #[test]
    fn credentials_stand_in_no_message() {
        let operator = Operator::new("https://admin:secret@es1:9200/search/", None).unwrap();
        assert_eq!(operator.url(), "https://es1:9200/search");
        for wrong in ["es1", "es1:9200", "ftp://es1", "http://svc:Pa55#word@es1"] {
            let error = Operator::new(wrong, None).err().unwrap();
            assert!(matches!(error, OperatorError::Url(_)), "{error}");
            assert!(!error.to_string().contains("es1"), "{error}");
        }
    }

    #[test]
    fn an_authority_that_is_none() {
        for path in ["/no/such/file", "/dev/null"] {
            let error = Operator::new("https://es1:9200", Some(Path::new(path))).err();
            let error = error.unwrap();
            assert!(matches!(error, OperatorError::Client(_)), "{error:?}");
            assert!(error.to_string().contains(path), "{error}");
        }
    }

    fn service(options: &str) -> Operator {
        let options = format!("{options}\n[[route]]\nindex = ['news-*']");
        let raw: RawServeOptions = toml::from_str(&options).unwrap();
        Operator::of_service(&raw.validate().unwrap()).unwrap()
    }

    /// A port without a listener.
    fn nobody() -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    #[tokio::test]
    async fn another_node_is_asked_when_one_cannot_be_reached() {
        const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        let (url, got) = cluster(OK).await;
        let (away, too) = (nobody(), nobody());
        let service = service(&format!(
            "upstream = ['{too}', '{url}']\nservice_url = '{}'",
            away.replace("http://", "http://me:secret@")
        ));
        service.ask(Method::GET, "/news-1", None).await.unwrap();
        let got = got.await.unwrap();
        assert!(got.starts_with("GET /news-1 HTTP/1.1\r\n"), "{got}");
        assert!(got.contains("authorization: Basic bWU6c2VjcmV0\r\n"), "{got}");
        // All nodes are gone.
        let error = service.ask(Method::GET, "/news-1", None).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains(&away) && error.contains(&too), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer() {
        let (other, _) = cluster("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
        let moved: &'static str =
            format!("HTTP/1.1 307 Moved\r\nlocation: {other}/\r\ncontent-length: 5\r\n\r\nmoved").leak();
        let (url, _) = cluster(moved).await;
        let operator = Operator::new(&url, None).unwrap();
        let error = operator.ask(Method::GET, "/", None).await.unwrap_err();
        let said = error.to_string();
        assert_eq!(said, "the cluster answered 307 to GET /: moved");
    }
}
