//! `spinney setup`: the templates that the stamp's fields need.

use anyhow::Context;
use serde_json::{Value, json};

use super::connection::ClusterFlags;
use super::{print, print_error};
use crate::backfill::{self, mapping};
use crate::bulk::StampNames;
use crate::cluster::operator::{Operator, Template};
use crate::counts;

/// Of the indices that `spinney serve` counts in.
const ROOTS_NAME: &str = "spinney-roots";
/// As mappings/index-template.json names it.
const COMPONENT_NAME: &str = "spinney-stamp";
const TEMPLATE: &str = include_str!("../../mappings/index-template.json");

#[derive(clap::Args)]
pub(super) struct SetupArgs {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// Index pattern that gets the template; without one only the component template is installed, for your own
    /// templates to name in composed_of, and the template of spinney's own indices of roots
    #[arg(long, env = "SPINNEY_INDEX", value_name = "PATTERN", value_delimiter = ',')]
    index: Vec<String>,
    /// Name of the index template; the component template is always called spinney-stamp
    #[arg(long, value_name = "NAME", default_value = "spinney")]
    name: String,
    /// Priority of the index template: of several that match a new index, the one with the highest counts
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    priority: u32,
    /// Make the index template one for data streams: what is written to a name that matches becomes a data stream
    #[arg(long, requires = "index")]
    data_stream: bool,
    /// Also map the fields of the stamp in the indices that exist already behind the patterns of --index
    #[arg(long, requires = "index", conflicts_with = "dry_run")]
    existing: bool,
    /// Print the requests instead of sending them
    #[arg(long)]
    dry_run: bool,
}

/// Installs or prints the templates.
///
/// # Errors
/// When the cluster cannot be reached or refuses a template.
pub(super) fn run(args: &SetupArgs) -> anyhow::Result<()> {
    let templates = templates(args)?;
    if args.dry_run {
        for template in templates {
            let body = serde_json::to_string_pretty(template.body())?;
            print(format_args!("PUT {}\n{body}\n", template.path()));
        }
        return Ok(());
    }
    let operator = args.cluster.operator()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        install(&operator, &templates).await?;
        if args.existing {
            map_existing(&operator, args).await?;
        }
        Ok(())
    })
}

async fn install(operator: &Operator, templates: &[Template]) -> anyhow::Result<()> {
    // All or nothing: a template that the cluster will refuse is known before the first one is put.
    for template in templates {
        operator.rehearse(template).await.with_context(|| {
            format!(
                "nothing was installed: the cluster would refuse {}. Where data streams match the patterns of --index, \
                 --data-stream makes the template one of theirs; --priority decides between templates; without --index \
                 only the component template is installed, for your own templates to name in composed_of",
                template.path()
            )
        })?;
    }
    for template in templates {
        for warning in operator.put_template(template).await? {
            print_error(format_args!("the cluster warns: {warning}"));
        }
        let name = template.path().trim_start_matches('/').to_owned();
        print(format_args!("installed {name}"));
    }
    Ok(())
}

async fn map_existing(operator: &Operator, args: &SetupArgs) -> anyhow::Result<()> {
    let patterns = args.index.join(",");
    let mapped = backfill::map_existing(operator, &patterns, &args.cluster.prefix).await?;
    if mapped.is_empty() {
        print(format_args!("no index of {patterns} lacks a field"));
    }
    for (index, fields) in mapped {
        print(format_args!("mapped {} in {index}", fields.join(", ")));
    }
    Ok(())
}

fn templates(args: &SetupArgs) -> anyhow::Result<Vec<Template>> {
    StampNames::new(&args.cluster.prefix).context("prefix")?;
    let component = mapping::component(&args.cluster.prefix).context("mappings/component-template.json")?;
    let mut templates = vec![Template::Component { name: COMPONENT_NAME.into(), body: component }];
    templates.push(Template::Index {
        name: ROOTS_NAME.into(),
        body: serde_json::from_str(counts::TEMPLATE).context("mappings/roots-index.json")?,
    });
    if !args.index.is_empty() {
        let mut template: Value = serde_json::from_str(TEMPLATE).context("mappings/index-template.json")?;
        template["index_patterns"] = json!(args.index);
        template["priority"] = json!(args.priority);
        if args.data_stream {
            template["data_stream"] = json!({});
        }
        templates.push(Template::Index { name: args.name.clone(), body: template });
    }
    Ok(templates)
}
