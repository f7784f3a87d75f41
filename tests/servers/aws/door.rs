//! Who may send requests that spinney signs.

use std::process::Command as Program;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use super::*;
use crate::backfill::create_mapped;
use crate::common::scratch;

fn basic(user: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(user))
}

/// A caller without a line in the file changes and reads nothing; probes need none.
#[tokio::test]
async fn callers_of_a_file() {
    let service = Service::start().await;
    let file = scratch("callers");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let token: String = Sha256::digest("t0ken").iter().map(|byte| format!("{byte:02x}")).collect();
    // htpasswd -nbBC 5 ann s:ecret
    let ann = bcrypt::hash("s:ecret", 5).unwrap().replace("$2b$", "$2y$");
    std::fs::write(&file, format!("# who writes\nann:{ann}\ncrawler:sha256:{token}\n")).unwrap();
    let index = common::unique_index("aws-door");
    let spinney = start(&service, &index, &["--callers", file.to_str().unwrap(), "--sweep", "1s"]);
    let client = common::http();
    let ask = async |method: Method, path: &str, shown: Option<&str>| {
        let mut request = client.request(method, format!("{}{path}", spinney.url));
        if let Some(shown) = shown {
            request = request.header("authorization", shown);
        }
        request = request.header("content-type", "application/json").body("{\"content\":\"x\"}");
        let answer = request.send().await.unwrap();
        let asks = answer.headers().get("www-authenticate").cloned();
        (answer.status(), asks, answer.text().await.unwrap())
    };
    let document = format!("/{index}/_doc/1?refresh=true");
    for (method, path) in [
        (Method::PUT, document.as_str()),
        (Method::DELETE, &format!("/{index}")),
        (Method::GET, "/"),
        (Method::GET, "/_spinney/_stats"),
        (Method::GET, "/_spinney/_metrics"),
        (Method::GET, "/_spinney/_routes"),
        (Method::GET, &format!("/_spinney/ui/{index}")),
        (Method::POST, &format!("/_spinney/{index}/_merge")),
        (Method::GET, "/_spinney/nothing"),
    ] {
        for shown in [None, Some(basic("ann:wrong")), Some(basic("bob:s:ecret")), Some("Bearer other".to_owned())] {
            let (status, asks, said) = ask(method.clone(), path, shown.as_deref()).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path} {shown:?}: {said}");
            assert_eq!(asks.unwrap(), "Basic realm=\"spinney\", charset=\"UTF-8\"");
            assert!(said.contains("spinney_unauthorized_exception"), "{said}");
        }
    }
    let direct = Server::new(&common::opensearch());
    assert_eq!(direct.request(Method::GET, &format!("/{index}"), None).await.0, StatusCode::NOT_FOUND);
    create_mapped(&direct, &index).await;
    for probe in ["/_spinney/_health", "/_spinney/_ready"] {
        assert_eq!(ask(Method::GET, probe, None).await.0, StatusCode::OK, "{probe}");
    }
    for shown in [basic("ann:s:ecret"), "Bearer t0ken".to_owned()] {
        assert!(ask(Method::PUT, &document, Some(&shown)).await.0.is_success(), "{shown}");
        assert_eq!(ask(Method::GET, "/_spinney/_metrics", Some(&shown)).await.0, StatusCode::OK, "{shown}");
    }
    // All have the same rights, so that nobody changes groups unless that is said.
    let (status, _, said) = ask(Method::POST, &format!("/_spinney/{index}/_pin"), Some("Bearer t0ken")).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{said}");
    assert!(said.contains("--overrides off"), "{said}");
    // A file that has changed is read again.
    std::fs::write(&file, format!("ann:{ann}\n# one less\n")).unwrap();
    assert_eq!(ask(Method::GET, "/", Some("Bearer t0ken")).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(Method::GET, "/", Some(&basic("ann:s:ecret"))).await.0, StatusCode::OK);

    // One that is gone shuts nobody out, and a start without it ends, as its check says.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(ask(Method::GET, "/", Some(&basic("ann:s:ecret"))).await.0, StatusCode::OK);
    let validate = arguments(&service.url, &index, &["--callers", file.to_str().unwrap()]);
    let validate = common::spinney_command().arg("validate").args(validate).output().unwrap();
    assert!(!validate.status.success());
    assert!(String::from_utf8_lossy(&validate.stderr).contains("cannot read the callers"), "{validate:?}");

    // The sweep, which writes through spinney itself, is nobody of the file and passes.
    let unstamped = json!({"content": text(9)});
    let (status, _) = direct.request(Method::PUT, &format!("/{index}/_doc/late?refresh=true"), Some(unstamped)).await;
    assert_eq!(status, StatusCode::CREATED);
    let waiting = common::Waiting::until("the sweep has stamped the document");
    while !direct.get(&index, "late").await.is_some_and(|document| document["cluster_root"].is_string()) {
        waiting.pause().await;
    }
    service.verify_signatures().await;
    direct.delete_index(&index).await;
}

/// On loopback without a file: programs of this machine, and no page of another site in a browser of it.
#[tokio::test]
async fn browsers_are_not_led_here() {
    let service = Service::start().await;
    let spinney = start(&service, "news-1", &["--overrides", "on"]);
    let port = spinney.url.rsplit(':').next().unwrap();
    let client = common::http();
    let ask = async |method: Method, headers: &[(&str, &str)]| {
        let mut request = client.request(method, format!("{}/no-such-index/_close", spinney.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap().status()
    };
    let own = format!("localhost:{port}");
    for host in [own.as_str(), "127.0.0.1", "[::1]:1"] {
        assert_eq!(ask(Method::POST, &[("host", host)]).await, StatusCode::NOT_FOUND, "{host}");
    }
    for host in ["evil.example", "10.0.0.1:9201"] {
        for method in [Method::GET, Method::POST] {
            assert_eq!(ask(method, &[("host", host)]).await, StatusCode::FORBIDDEN, "{host}");
        }
    }
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("referer", "https://evil.example/page"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        // Of a read, too: the service may let every site see the answer.
        for method in [Method::POST, Method::GET, Method::HEAD] {
            assert_eq!(ask(method, &[(name, value)]).await, StatusCode::FORBIDDEN, "{name}: {value}");
        }
        let own = client.get(format!("{}/_spinney/_routes", spinney.url)).header(name, value).send().await.unwrap();
        assert_eq!(own.status(), StatusCode::OK, "a link to spinney's own pages");
        assert!(!own.headers().contains_key("access-control-allow-origin"));
    }
    let origin = format!("http://{own}");
    assert_eq!(ask(Method::POST, &[("host", &own), ("origin", &origin)]).await, StatusCode::NOT_FOUND);
}

/// `--client-ca`: a client without a certificate of it gets no answer.
#[tokio::test]
async fn clients_show_certificates() {
    let folder = scratch("client-ca");
    std::fs::create_dir_all(&folder).unwrap();
    let openssl = |arguments: &str| {
        let done = Program::new("openssl").current_dir(&folder).args(arguments.split(' ')).output().unwrap();
        assert!(done.status.success(), "{arguments}: {}", String::from_utf8_lossy(&done.stderr));
    };
    const NEW: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    std::fs::write(folder.join("server.ext"), "subjectAltName=IP:127.0.0.1").unwrap();
    std::fs::write(folder.join("client.ext"), "extendedKeyUsage=clientAuth").unwrap();
    for ca in ["ca", "other"] {
        openssl(&format!("req -x509 {NEW} -keyout {ca}.key -out {ca}.pem -subj /CN={ca} -days 2"));
    }
    for (name, kind, ca) in [("server", "server", "ca"), ("client", "client", "ca"), ("stranger", "client", "other")] {
        openssl(&format!("req {NEW} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA {ca}.pem -CAkey {ca}.key -CAcreateserial -days 2 -out {name}.pem -extfile \
             {kind}.ext"
        ));
    }
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let upstream = common::opensearch();
    let (ca, cert, key) = (path("ca.pem"), path("server.pem"), path("server.key"));
    let spinney =
        Spinney::start(&["--upstream", &upstream, "--client-ca", &ca, "--tls-cert", &cert, "--tls-key", &key]);
    let ask = async |identity: Option<&str>| {
        let authority = reqwest::Certificate::from_pem(&std::fs::read(&ca).unwrap()).unwrap();
        let mut client = common::http_builder().tls_certs_only([authority]);
        if let Some(name) = identity {
            let pem = [std::fs::read(path(&format!("{name}.pem"))), std::fs::read(path(&format!("{name}.key")))];
            let pem = pem.map(Result::unwrap).concat();
            client = client.identity(reqwest::Identity::from_pem(&pem).unwrap());
        }
        let client = client.build().unwrap();
        // Twice: a session that is resumed shows nothing again.
        let mut answers = Vec::new();
        for _ in 0..2 {
            answers.push(client.get(&spinney.url).send().await.map(|answer| answer.status()).ok());
        }
        answers
    };
    assert_eq!(ask(Some("client")).await, [Some(StatusCode::OK); 2]);
    assert_eq!(ask(None).await, [None; 2]);
    assert_eq!(ask(Some("stranger")).await, [None; 2]);
}
