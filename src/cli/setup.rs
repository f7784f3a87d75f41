//! `spinney setup`: the templates that the stamp's fields need.

use std::path::PathBuf;

use anyhow::{Context, bail};
use reqwest::Client;
use serde_json::{Value, json};

use crate::bulk::StampNames;
use crate::config::DEFAULT_PREFIX;

const COMPONENT: &str = include_str!("../../mappings/component-template.json");
const TEMPLATE: &str = include_str!("../../mappings/index-template.json");

#[derive(clap::Args)]
pub(super) struct Args {
    /// URL of a cluster node; it may contain credentials: https://user:password@host:9200
    #[arg(
        long,
        env = "SPINNEY_UPSTREAM",
        value_name = "URL",
        default_value = "http://127.0.0.1:9200"
    )]
    upstream: String,
    /// PEM file of the authority that signed the cluster's certificates
    #[arg(long, env = "SPINNEY_UPSTREAM_CA", value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
    /// Index pattern that gets the template; without one only the component template is installed, for your own
    /// templates to name in composed_of
    #[arg(
        long,
        env = "SPINNEY_INDEX",
        value_name = "PATTERN",
        value_delimiter = ','
    )]
    index: Vec<String>,
    /// Prefix of the names of the stamp's fields
    #[arg(
        long,
        env = "SPINNEY_PREFIX",
        value_name = "PREFIX",
        default_value = DEFAULT_PREFIX
    )]
    prefix: String,
    /// Name of the index template; the component template is always called spinney-stamp
    #[arg(long, value_name = "NAME", default_value = "spinney")]
    name: String,
    /// Print the requests instead of sending them
    #[arg(long)]
    dry_run: bool,
}

/// Installs or prints the templates.
///
/// # Errors
/// When the cluster cannot be reached or refuses a template.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let requests = requests(&args)?;
    if args.dry_run {
        for (path, body) in requests {
            println!("PUT {path}\n{}\n", serde_json::to_string_pretty(&body)?);
        }
        return Ok(());
    }
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(install(&args, requests))
}

async fn install(args: &Args, requests: Vec<(String, Value)>) -> anyhow::Result<()> {
    let tls = crate::proxy::client_tls(args.upstream_ca.as_deref(), None)?;
    let client = Client::builder().tls_backend_preconfigured(tls).build()?;
    let upstream = args.upstream.trim_end_matches('/');
    for (path, body) in requests {
        let response = client
            .put(format!("{upstream}{path}"))
            .json(&body)
            .send()
            .await
            .with_context(|| {
                format!("cannot reach {upstream}: is the cluster up, and is --upstream right?")
            })?;
        let status = response.status();
        // Such as: templates of the old kind that no longer apply.
        for warning in response.headers().get_all("warning") {
            eprintln!(
                "the cluster warns: {}",
                warning.to_str().unwrap_or("(not text)")
            );
        }
        if !status.is_success() {
            let reason = response.text().await.unwrap_or_default();
            bail!("the cluster answered {status} to PUT {path}: {reason}");
        }
        println!("installed {}", path.trim_start_matches('/'));
    }
    Ok(())
}

fn requests(args: &Args) -> anyhow::Result<Vec<(String, Value)>> {
    StampNames::new(&args.prefix).context("prefix")?;
    let mut component: Value =
        serde_json::from_str(COMPONENT).context("mappings/component-template.json")?;
    if let Some(properties) = component
        .pointer_mut("/template/mappings/properties")
        .and_then(Value::as_object_mut)
    {
        *properties = std::mem::take(properties)
            .into_iter()
            .map(|(name, mapping)| (name.replacen(DEFAULT_PREFIX, &args.prefix, 1), mapping))
            .collect();
    }
    let mut requests = vec![("/_component_template/spinney-stamp".to_owned(), component)];
    if !args.index.is_empty() {
        let mut template: Value =
            serde_json::from_str(TEMPLATE).context("mappings/index-template.json")?;
        template["index_patterns"] = json!(args.index);
        requests.push((format!("/_index_template/{}", args.name), template));
    }
    Ok(requests)
}
