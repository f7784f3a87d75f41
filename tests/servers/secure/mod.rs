//! A cluster with TLS and users: spinney adds no right and takes none away, shows nothing to those whom the cluster
//! would not show it, and hands credentials on as they came.

mod check;
mod endpoints;
mod reading;
mod strangers;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::fake::{self, Fake, Reply};
use crate::common::twin::{article, text};
use crate::common::wire::Request;
use crate::common::{self, Secure, Server, Spinney, Waiting, root_of};
use reqwest::{Certificate, Client, Method, StatusCode};
use serde_json::{Value, json};

/// The users of `scripts/search-server`: one may do everything, one anything with indices, one may read `open-*`.
const ADMIN: (&str, &str) = ("admin", "admin");
const WRITER: (&str, &str) = ("writer", "spruce-Larch-0417");
const READER: (&str, &str) = ("reader", "aspen-Hazel-2906");

pub use words::who_may_say_what;

type User = Option<(&'static str, &'static str)>;

/// An answer, as far as a client looks at it.
#[derive(Debug, PartialEq)]
struct Answer {
    status: StatusCode,
    /// `content-type` and `www-authenticate`.
    headers: [Option<String>; 2],
    body: String,
}

/// The secured cluster with an open and a closed index, and spinney in front of it.
struct Scene {
    secure: Secure,
    client: Client,
    /// The cluster itself, as one who may do everything.
    server: Server,
    spinney: Spinney,
    open: String,
    closed: String,
}

fn trusting(authority: &Path) -> Client {
    let pem = std::fs::read(authority).unwrap();
    // The provider of cryptography has to be there first.
    let builder = common::http_builder();
    builder.tls_certs_only([Certificate::from_pem(&pem).unwrap()]).build().unwrap()
}

/// `routes`: patterns that fit no index of another test. What runs in the background (counts, first documents) would
/// wait for those, too.
fn args(secure: &Secure, routes: &str, method: &str) -> Vec<String> {
    let ca = secure.ca.to_str().unwrap();
    let args = ["--upstream", &secure.url, "--upstream-ca", ca, "--index", routes, "--method", method];
    args.map(str::to_owned).to_vec()
}

fn start(args: &[String]) -> Spinney {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Spinney::start(&args)
}

impl Scene {
    async fn new(label: &str) -> Scene {
        Self::with(label, &[]).await
    }

    async fn with(label: &str, more: &[&str]) -> Scene {
        Self::with_method(label, "longest", more).await
    }

    async fn with_method(label: &str, method: &str, more: &[&str]) -> Scene {
        let secure = common::opensearch_secure();
        let name = common::unique_index(label);
        let (open, closed) = (format!("open-{name}"), format!("closed-{name}"));
        let credentials = basic(ADMIN);
        let headers = [("authorization".parse().unwrap(), credentials.parse().unwrap())];
        let builder = common::http_builder().default_headers(headers.into_iter().collect());
        let ca = Certificate::from_pem(&std::fs::read(&secure.ca).unwrap()).unwrap();
        let server = Server::with_client(&secure.url, builder.tls_certs_only([ca]).build().unwrap());
        for index in [&open, &closed] {
            let settings = json!({"settings": {"number_of_shards": 1, "number_of_replicas": 0}});
            server.create_index(index, settings).await;
        }
        // Pages show patterns to all readers: these do not tell the names.
        let own = name.strip_prefix(&format!("news-{label}")).unwrap();
        let mut args = args(&secure, &format!("open-*{own}*,closed-*{own}*"), method);
        args.extend(more.iter().map(|&arg| arg.to_owned()));
        Scene { client: trusting(&secure.ca), spinney: start(&args), secure, server, open, closed }
    }

    /// Asks the cluster (`direct`) or spinney.
    async fn ask(&self, direct: bool, user: User, method: &str, path: &str, body: &str) -> Answer {
        let base = if direct { &self.secure.url } else { &self.spinney.url };
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self
            .client
            .request(method, format!("{base}{path}"))
            .header("content-type", "application/json")
            .body(body.to_owned());
        if let Some((name, password)) = user {
            request = request.basic_auth(name, Some(password));
        }
        let response = request.send().await.unwrap();
        let header = |name: &str| {
            let value = response.headers().get(name);
            value.map(|value| value.to_str().unwrap().to_owned())
        };
        Answer {
            status: response.status(),
            headers: [header("content-type"), header("www-authenticate")],
            body: without_took(&response.text().await.unwrap()),
        }
    }

    /// Makes a user with a role of its own.
    async fn make_user(&self, (name, password): (&str, &str), role: Value) {
        let user = json!({"password": password, "opendistro_security_roles": [name]});
        self.security("PUT", "roles", name, role).await;
        self.security("PUT", "internalusers", name, user).await;
    }

    async fn remove_user(&self, name: &str) {
        self.security("DELETE", "internalusers", name, Value::Null).await;
        self.security("DELETE", "roles", name, Value::Null).await;
    }

    /// All users of a cluster are one document there, and so are all roles: who changes one at the same moment as
    /// another test is refused, and tries again.
    async fn security(&self, method: &str, kind: &str, name: &str, body: Value) {
        let path = format!("/_plugins/_security/api/{kind}/{name}");
        let waiting = Waiting::until("the user is made or removed");
        loop {
            let answer = self.ask(true, Some(ADMIN), method, &path, &body.to_string()).await;
            if answer.status.is_success() {
                return;
            }
            assert_eq!(answer.status, 409, "{path}: {}", answer.body);
            waiting.pause().await;
        }
    }

    async fn through(&self, user: User, method: &str, path: &str, body: &str) -> Answer {
        self.ask(false, user, method, path, body).await
    }

    /// What spinney says about itself, to the writer.
    async fn stats(&self) -> Value {
        let answer = self.through(Some(WRITER), "GET", "/_spinney/_stats", "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    async fn nodes(&self) -> u64 {
        let stats = self.stats().await;
        let forests = stats["forests"].as_object().unwrap().values();
        forests.map(|forest| forest["nodes"].as_u64().unwrap()).sum()
    }

    async fn end(self) {
        self.end_and_log().await;
    }

    /// The same, with what spinney has logged.
    async fn end_and_log(self) -> String {
        let log = self.spinney.end_and_log();
        self.server.delete_index(&self.open).await;
        self.server.delete_index(&self.closed).await;
        log
    }
}

fn basic((name, password): (&str, &str)) -> String {
    let plain = format!("{name}:{password}");
    format!("Basic {}", base64(plain.as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let mut bits = [0; 3];
        bits[..group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes([0, bits[0], bits[1], bits[2]]);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// How long the server took is the one thing that may differ.
fn without_took(body: &str) -> String {
    let mut parts = body.split("\"took\":");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|digit: char| digit.is_ascii_digit());
        out += &format!("\"took\":0{rest}");
    }
    out
}

#[tokio::test]
async fn who_may_read_what() {
    let scene = Scene::new("read").await;
    for index in [&scene.open, &scene.closed] {
        let path = format!("/{index}/_bulk?refresh=true");
        let body = article("a", 1) + &article("b", 2);
        let answer = scene.through(Some(WRITER), "POST", &path, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let documents = scene.server.documents(index).await;
        assert_eq!(documents.len(), 2);
        assert!(documents.values().all(|source| root_of(source).is_some()));
    }
    let (open, closed) = (&scene.open, &scene.closed);
    let mget =
        format!("{{\"docs\":[{{\"_index\":\"{open}\",\"_id\":\"a\"}},{{\"_index\":\"{closed}\",\"_id\":\"a\"}}]}}");
    let msearch = format!("{{\"index\":\"{open}\"}}\n{{}}\n{{\"index\":\"{closed}\"}}\n{{}}\n");
    let mut refused = 0;
    for user in [None, Some(WRITER), Some(READER), Some(("reader", "wrong")), Some(("nobody", ""))] {
        for (method, path, body) in [
            ("GET", "/", ""),
            ("GET", &*format!("/{open}/_search?sort=n"), ""),
            ("GET", &*format!("/{closed}/_search?sort=n"), ""),
            ("GET", &*format!("/{closed}/_doc/a"), ""),
            ("GET", &*format!("/{closed}/_mapping"), ""),
            ("HEAD", &*format!("/{closed}"), ""),
            ("POST", &*format!("/{open},{closed}/_search"), "{\"sort\":[\"n\"]}"),
            ("POST", "/_mget", &*mget),
            ("POST", "/_msearch", &*msearch),
            ("DELETE", &*format!("/{closed}/_doc/none"), ""),
        ] {
            if user == Some(WRITER) && method == "DELETE" {
                continue;
            }
            let direct = scene.ask(true, user, method, path, body).await;
            let proxied = scene.ask(false, user, method, path, body).await;
            // Task and shard numbers do not occur in these answers.
            assert_eq!(direct, proxied, "{user:?} {method} {path}");
            refused += usize::from(matches!(direct.status.as_u16(), 401 | 403));
            let secret = direct.body.contains(&text(1)[..20]);
            assert!(!secret || matches!(user, Some(WRITER | READER)), "{direct:?}");
        }
    }
    assert!(refused > 30, "{refused}");
    scene.end().await;
}

#[tokio::test]
async fn who_may_not_write_leaves_nothing() {
    let scene = Scene::new("write").await;
    let path = format!("/{}/_bulk", scene.closed);
    let document = format!("/{}/_doc/a", scene.closed);
    let source = format!("{{\"content\":\"{}\"}}", text(3));
    let update = format!("{{\"doc\":{source},\"upsert\":{source}}}");
    for user in [None, Some(READER), Some(("writer", "wrong"))] {
        let body = article("a", 1) + &article("b", 2);
        for (method, path, body) in [
            ("POST", &path, &body),
            ("PUT", &document, &source),
            ("POST", &document.replace("_doc", "_update"), &update),
        ] {
            let direct = scene.ask(true, user, method, path, body).await;
            let proxied = scene.ask(false, user, method, path, body).await;
            assert_eq!(direct, proxied, "{user:?} {method} {path}");
            assert!(direct.status != 200 || direct.body.contains("security_exception"));
        }
        assert_eq!(scene.nodes().await, 0, "{user:?} left a node");
    }
    assert_eq!(scene.server.count(&scene.closed).await, 0);
    // A mixed bulk: what may be written is, and only that is remembered.
    let answer = scene.through(Some(WRITER), "POST", &path, &article("a", 1)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(scene.nodes().await, 1);
    scene.end().await;
}

#[tokio::test]
async fn own_endpoints() {
    let scene = Scene::new("own").await;
    let path = format!("/{}/_bulk", scene.closed);
    scene.through(Some(WRITER), "POST", &path, &article("a", 1)).await;
    for endpoint in ["/_spinney/_stats", "/_spinney/_metrics"] {
        for user in [None, Some(("writer", "wrong")), Some(READER)] {
            let own = scene.through(user, "GET", endpoint, "").await;
            let cluster = scene.ask(true, user, "GET", "/_cluster/health", "").await;
            assert_eq!(own, cluster, "{endpoint} {user:?}");
            assert!(matches!(own.status.as_u16(), 401 | 403));
            assert!(!own.body.contains("forest") && !own.body.contains("spinney_"));
        }
        let own = scene.through(Some(WRITER), "GET", endpoint, "").await;
        assert_eq!(own.status, 200);
        assert!(own.body.contains("forest"), "{}", own.body);
    }
    // These two answer everybody, and say one word.
    for (endpoint, word) in [("_health", "alive"), ("_ready", "ready")] {
        for user in [None, Some(("writer", "wrong")), Some(READER), Some(WRITER)] {
            let own = scene.through(user, "GET", &format!("/_spinney/{endpoint}"), "").await;
            assert_eq!(own.status, 200, "{endpoint} {user:?}");
            assert_eq!(own.body, format!("{{\"status\":\"{word}\"}}"));
        }
    }
    for method in ["POST", "DELETE"] {
        let own = scene.through(None, method, "/_spinney/_stats", "").await;
        assert_eq!(own.status, 405);
    }
    let none = scene.through(None, "GET", "/_spinney/_secrets", "").await;
    assert_eq!(none.status, 404);
    scene.end().await;
}

/// A cluster whose certificate nobody vouches for gets nothing, no credentials either.
#[tokio::test]
async fn an_unknown_authority() {
    let secure = common::opensearch_secure();
    let mut args = args(&secure, "open-x", "longest");
    args.drain(2..4);
    let spinney = start(&args);
    let bulk = Request::bulk("/open-x/_bulk", article("a", 1)).header("Authorization", &basic(WRITER));
    for request in [bulk, Request::get("/open-x/_search")] {
        let answer = request.to(&spinney.url);
        assert_eq!(answer.status, 503, "{}", answer.text());
        let error = &answer.json()["error"];
        assert_eq!(error["type"], "spinney_upstream_unreachable_exception");
        assert!(error["reason"].as_str().unwrap().contains("certificate"), "{error}");
    }
    assert_eq!(Request::get("/_spinney/_ready").to(&spinney.url).status, 503);
    assert_eq!(Request::get("/_spinney/_health").to(&spinney.url).status, 200);
}

/// With `--upstream-ca`, spinney's own requests trust no authority of the system either.
#[tokio::test]
async fn own_requests_trust_the_configured_authority_alone() {
    let secure = common::opensearch_secure();
    let (other, _) = certificate("other-authority");
    let url = secure.url.replace("https://", "https://admin:admin@");
    let ask = |authority: &[&str]| {
        let folder = common::scratch("no-forest");
        let dry = ["recover", "--dry-run", "--index", "none-*", "--data-dir"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_spinney"));
        command
            .args(dry)
            .arg(folder)
            .args(["--upstream", &url])
            .args(authority)
            // The system's authorities, as far as this process knows.
            .env("SSL_CERT_FILE", &secure.ca)
            .env_remove("SSL_CERT_DIR");
        let output = command.output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let refused = |said: &str| said.contains("certificate");
    assert!(!refused(&ask(&[])), "{}", ask(&[]));
    let said = ask(&["--upstream-ca", other.to_str().unwrap()]);
    assert!(refused(&said), "{said}");
    let said = ask(&["--upstream-ca", secure.ca.to_str().unwrap()]);
    assert!(!refused(&said), "{said}");
}

/// The cluster knows spinney by the certificate that it was given.
#[tokio::test]
async fn a_client_certificate() {
    let secure = common::opensearch_secure();
    let tls = secure.ca.parent().unwrap();
    let file = |name: &str| tls.join(name).to_str().unwrap().to_owned();
    let (cert, key) = (file("admin.pem"), file("admin.key"));
    let scene = Scene::with("cert", &["--upstream-cert", &cert, "--upstream-key", &key]).await;
    let who = "/_plugins/_security/api/ssl/certs";
    let direct = scene.ask(true, None, "GET", who, "").await;
    let proxied = scene.ask(false, None, "GET", who, "").await;
    assert_eq!(direct.status, 401);
    assert_eq!(proxied.status, 200, "{}", proxied.body);
    let path = format!("/{}/_bulk", scene.closed);
    let written = scene.through(None, "POST", &path, &article("a", 1)).await;
    assert_eq!(written.status, 200, "{}", written.body);
    scene.end().await;
}

/// Makes a key and a certificate for 127.0.0.1 that vouches for itself.
fn certificate(label: &str) -> (PathBuf, PathBuf) {
    certificate_of(label, "IP:127.0.0.1", "CA:FALSE")
}

/// The same for another name, or of an authority.
fn certificate_of(label: &str, name: &str, kind: &str) -> (PathBuf, PathBuf) {
    let folder = common::scratch(label);
    std::fs::create_dir_all(&folder).unwrap();
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-sha256", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=spinney test", "-addext", &format!("subjectAltName={name}")])
        .args(["-addext", &format!("basicConstraints=critical,{kind}"), "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (cert, key)
}

/// TLS on both sides.
#[tokio::test]
async fn tls_on_spinneys_side() {
    let (cert, key) = certificate("tls");
    let [cert_arg, key_arg] = [&cert, &key].map(|path| path.to_str().unwrap());
    let mut scene = Scene::with("tls", &["--tls-cert", cert_arg, "--tls-key", key_arg]).await;
    assert!(scene.spinney.url.starts_with("https://127.0.0.1:"));
    // Nobody vouched for this certificate.
    let stranger = scene.client.get(&scene.spinney.url).send().await;
    let reasons = format!("{:?}", stranger.unwrap_err());
    assert!(reasons.contains("UnknownIssuer"), "{reasons}");
    // Somebody listens there, but without TLS there is no answer.
    let plain = scene.spinney.url.replace("https", "http");
    let refused = common::http().get(plain).send().await.unwrap_err();
    assert!(refused.is_request() && !refused.is_connect(), "{refused:?}");
    scene.client = trusting(&cert);
    let path = format!("/{}/_bulk?refresh=true", scene.closed);
    let written = scene.through(Some(WRITER), "POST", &path, &article("a", 1)).await;
    assert_eq!(written.status, 200, "{}", written.body);
    let documents = scene.server.documents(&scene.closed).await;
    assert!(root_of(&documents["a"]).is_some());
    let path = format!("/{}/_search", scene.closed);
    assert_eq!(scene.through(Some(READER), "GET", &path, "").await.status, 403);
    assert_eq!(scene.through(None, "GET", &path, "").await.status, 401);
    scene.end().await;
    std::fs::remove_dir_all(cert.parent().unwrap()).unwrap();
}

/// Certificates are short-lived. Whoever renews one writes two files, one after the other.
#[tokio::test]
async fn a_certificate_is_renewed_without_a_restart() {
    let (cert, key) = certificate("renewed");
    let (new_cert, new_key) = certificate("renewal");
    let [cert_arg, key_arg] = [&cert, &key].map(|path| path.to_str().unwrap());
    let spinney = Spinney::start(&["--upstream", "http://127.0.0.1:1", "--tls-cert", cert_arg, "--tls-key", key_arg]);
    let health = format!("{}/_spinney/_health", spinney.url);
    // Each client has a handshake of its own.
    let is_shown = async |cert: &Path| trusting(cert).get(&health).send().await.is_ok();
    assert!(is_shown(&cert).await && !is_shown(&new_cert).await);
    let old_cert = common::scratch("renewed-before");
    std::fs::copy(&cert, &old_cert).unwrap();
    std::fs::copy(&new_cert, &cert).unwrap();
    // Its key is not there yet.
    assert!(is_shown(&old_cert).await && !is_shown(&new_cert).await);
    spinney.log_line("about the key", |line| line.contains("stay in use") && line.contains("do not fit together"));
    std::fs::copy(&new_key, &key).unwrap();
    assert!(is_shown(&new_cert).await && !is_shown(&old_cert).await);
    spinney.log_line("about the renewal", |line| line.contains("were read again"));
    // Files that are gone change nothing.
    std::fs::remove_file(&cert).unwrap();
    assert!(is_shown(&new_cert).await);
    std::fs::remove_file(old_cert).unwrap();
    for path in [key, new_key] {
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}

/// Errors of TLS on the way to a node name their remedy, in commands and in answers to writes.
#[tokio::test]
async fn certificates_of_nodes_that_are_not_accepted() {
    let secure = common::opensearch_secure();
    // A node is whatever speaks HTTP over TLS.
    let (authority, key) = certificate_of("authority", "IP:127.0.0.1", "CA:TRUE");
    let (elsewhere, elsewhere_key) = certificate_of("elsewhere", "DNS:elsewhere.example", "CA:FALSE");
    let plain = Spinney::start(&["--upstream", &secure.url]);
    let node = |cert: &Path, key: &Path| {
        let [cert, key] = [cert, key].map(|path| path.to_str().unwrap());
        Spinney::start(&["--upstream", &secure.url, "--tls-cert", cert, "--tls-key", key])
    };
    let (of_authority, of_elsewhere) = (node(&authority, &key), node(&elsewhere, &elsewhere_key));
    let without_tls = plain.url.replace("http://", "https://");
    for (url, ca, expected) in [
        (&secure.url, None, "--upstream-ca, as a PEM file"),
        (&secure.url, Some(&elsewhere), "--upstream-ca, as a PEM file"),
        (&of_authority.url, Some(&authority), "the certificate of an authority as its own"),
        (&of_elsewhere.url, Some(&elsewhere), "has to name the host of the URL"),
        (&without_tls, None, "begin the URL with http://"),
    ] {
        let mut of = vec!["--upstream", url, "--index", "news-*"];
        of.extend(ca.iter().flat_map(|ca| ["--upstream-ca", ca.to_str().unwrap()]));
        for command in [&["doctor", "--text-field", "content"][..], &["setup"]] {
            let output = common::spinney_command().args(command).args(&of).output().unwrap();
            let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains(expected), "{command:?} {url} {ca:?}: {said}");
        }
        let spinney = Spinney::start(&[&of[..], &["--text-field", "content"]].concat());
        let path = format!("{}/news-1/_bulk", spinney.url);
        let sent = common::http().post(path).header("Content-Type", "application/x-ndjson").body(article("a", 1));
        let answer = sent.send().await.unwrap();
        assert_eq!(answer.status(), 503);
        let said = answer.text().await.unwrap();
        assert!(said.contains(expected), "{url} {ca:?}: {said}");
    }
    for cert in [authority, elsewhere] {
        std::fs::remove_dir_all(cert.parent().unwrap()).unwrap();
    }
}

/// A certificate without its key, and the other way round, is a mistake that is found at the start.
#[tokio::test]
async fn tls_material_that_does_not_fit() {
    let (cert, key) = certificate("fit");
    let (_, other) = certificate("misfit");
    let [cert_arg, other_arg] = [&cert, &other].map(|path| path.to_str().unwrap());
    for (args, reason) in [
        (vec!["--tls-cert", cert_arg], "tls_key"),
        (vec!["--tls-key", other_arg], "tls_cert"),
        (vec!["--tls-cert", cert_arg, "--tls-key", other_arg], "key"),
        (vec!["--tls-cert", cert_arg, "--tls-key", cert_arg], cert_arg),
        (vec!["--tls-cert", "/no/such/file", "--tls-key", other_arg], "/no/such/file"),
        (vec!["--upstream-ca", "/no/such/file"], "/no/such/file"),
        (vec!["--upstream-ca", other_arg], other_arg),
    ] {
        let failure = Spinney::try_start("127.0.0.1:0", &args).err();
        let failure = failure.unwrap_or_else(|| panic!("{args:?} was taken"));
        assert_eq!(failure.exit.and_then(|exit| exit.code()), Some(1), "{}", failure.log);
        assert!(failure.log.contains(reason), "{args:?}: {}", failure.log);
    }
    for path in [key, other] {
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}

/// Whatever credentials a caller has go to the cluster as they are, with spinney's own questions too, and into no log.
#[tokio::test]
async fn credentials_are_handed_on() {
    let fake = Fake::start(|request| {
        let large = "{\"nodes\":{\"a\":{\"http\":{\"max_content_length_in_bytes\":104857600}}}}";
        let own = request.target().starts_with("/_nodes");
        Reply::Bytes(fake::json(200, "", if own { large } else { "{\"items\":[]}" }))
    });
    let args = ["--upstream", &fake.url, "--index", "news-*", "--log", "trace"];
    let spinney = Spinney::start(&args);
    for credentials in [
        "ApiKey c2VjcmV0OnNlY3JldA==",
        "Bearer c2VjcmV0.c2VjcmV0-c2VjcmV0_",
        "Basic c2VjcmV0OnNlY3JldA==",
        "Negotiate c2VjcmV0",
        "apikey  c2VjcmV0   and what not",
    ] {
        let with = |request: Request| {
            request
                .header("Authorization", credentials)
                .header("Cookie", "security_authentication=c2VjcmV0")
                .header("es-security-runas-user", "c2VjcmV0")
                .header("securitytenant", "c2VjcmV0")
        };
        // The last one is large enough for spinney to ask for the limit.
        let large = article("a", 1) + &" ".repeat(1 << 20) + "\n";
        for request in [
            Request::get("/news-x/_search"),
            Request::bulk("/news-x/_bulk", article("a", 1)),
            Request::json("PUT", "/news-x/_doc/1", "{\"content\":\"a\"}"),
            Request::get("/_spinney/_stats"),
            Request::bulk("/news-x/_bulk", large),
        ] {
            let before = fake.received().len();
            assert_eq!(with(request.clone()).to(&spinney.url).status, 200);
            let received = fake.received();
            assert!(received.len() > before);
            for got in &received[before..] {
                assert_eq!(got.headers("authorization"), [credentials], "{}", got.head);
                assert_eq!(got.headers("cookie"), ["security_authentication=c2VjcmV0"]);
                assert_eq!(got.headers("es-security-runas-user"), ["c2VjcmV0"]);
                assert_eq!(got.headers("securitytenant"), ["c2VjcmV0"], "{}", got.head);
            }
        }
    }
    // Somebody else's question carries nothing of theirs.
    Request::get("/_spinney/_stats").to(&spinney.url);
    let got = fake.last();
    assert!(got.headers("authorization").is_empty() && got.headers("cookie").is_empty());
    let log = spinney.end_and_log();
    assert!(log.contains("TRACE"), "everything is logged: {log}");
    assert!(!log.contains("c2VjcmV0"), "{log}");
}
