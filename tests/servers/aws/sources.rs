//! Where credentials come from.

use serde_json::json;

use super::*;
use crate::common::scratch;

async fn writes(spinney: &Spinney, index: &str, id: &str) -> StatusCode {
    let sent = common::http().post(format!("{}/_bulk?refresh=true", spinney.url));
    let sent = sent.header("content-type", "application/x-ndjson").body(bulk(index, &[id], 1));
    sent.send().await.unwrap().status()
}

/// The instance's metadata, a container's address, a web identity and a profile; each with the region of the
/// environment or profile.
#[tokio::test]
async fn credentials_of_every_kind_of_machine() {
    let service = Service::start().await;
    let folder = scratch("aws-sources");
    std::fs::create_dir_all(&folder).unwrap();
    let (token, profile) = (folder.join("token"), folder.join("config"));
    std::fs::write(&token, "a web identity").unwrap();
    let profiles = format!(
        "[profile crawler]\nregion = {REGION}\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        KEY.0, KEY.1
    );
    std::fs::write(&profile, profiles).unwrap();
    let container = format!("{}/container", service.url);
    let (token, profile) = (token.to_str().unwrap(), profile.to_str().unwrap());
    let region = ("AWS_REGION", REGION);
    let of_instance = [
        ("AWS_CONFIG_FILE", "/dev/null"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.url.as_str()),
        region,
    ];
    let of_container = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token"),
        region,
    ];
    let of_pod = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/crawler"),
        ("AWS_ENDPOINT_URL_STS", service.url.as_str()),
        region,
    ];
    let of_profile = [("AWS_CONFIG_FILE", profile), ("AWS_PROFILE", "crawler")];
    let index = common::unique_index("aws-sources");
    for (id, variables) in [
        ("instance", of_instance.to_vec()),
        ("container", [nowhere(), of_container.to_vec()].concat()),
        ("pod", [nowhere(), of_pod.to_vec()].concat()),
        ("profile", [nowhere(), of_profile.to_vec()].concat()),
    ] {
        let spinney = Spinney::start_with(&variables, &arguments(&service.url, &index, &[]));
        assert_eq!(writes(&spinney, &index, id).await, StatusCode::OK, "{id}");
    }
    service.verify_signatures().await;
    let direct = Server::new(&common::opensearch());
    assert_eq!(direct.documents(&index).await.len(), 4);
    direct.delete_index(&index).await;
}

/// Credentials that end are renewed before they do, without a request that is refused.
#[tokio::test]
async fn credentials_are_renewed() {
    let service = Service::start().await;
    service.set(json!({"lifetime": 6})).await;
    let container = format!("{}/container", service.url);
    let variables = [
        nowhere(),
        vec![
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.as_str()),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token"),
        ],
    ]
    .concat();
    let index = common::unique_index("aws-renewed");
    let spinney = Spinney::start_with(&variables, &arguments(&service.url, &index, &["--aws-region", REGION]));
    let mut number = 0;
    // The first of each client, and what has come after them.
    while service.seen().await["given"].as_array().unwrap().len() < 5 {
        number += 1;
        assert_eq!(writes(&spinney, &index, &number.to_string()).await, StatusCode::OK, "write {number}");
    }
    service.verify_signatures().await;
    let direct = Server::new(&common::opensearch());
    assert_eq!(direct.documents(&index).await.len(), number);
    direct.delete_index(&index).await;
}

#[tokio::test]
async fn a_start_without_credentials_or_region_ends() {
    let service = Service::start().await;
    let refused = |variables: Vec<(&str, &str)>, more: &[&str]| {
        let mut command = common::spinney_command();
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments(&service.url, "news-1", more))
            .envs(variables);
        let output = command.env_remove("AWS_REGION").output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(nowhere(), &["--aws-region", REGION]);
    assert!(said.contains("there are no AWS credentials") && said.contains("AWS_PROFILE"), "{said}");
    let said = refused(with_key(), &[]);
    assert!(said.contains("give one with --aws-region"), "{said}");
}
