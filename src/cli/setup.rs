//! `spinney setup`: the templates that the stamp's fields need.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::connection::ClusterFlags;
use super::{print, print_error};
use crate::backfill::{self, mapping};
use crate::bulk::StampNames;
use crate::cluster::operator::{Operator, OperatorError, Template};
use crate::cluster::templates::{self, IndexTemplate};
use crate::counts;

/// Of the indices that `spinney serve` counts in.
const ROOTS_NAME: &str = "spinney-roots";
/// The servers take names of up to 255 bytes.
const NAME_CHARACTERS: usize = 100;
const TEMPLATE: &str = include_str!("../../mappings/index-template.json");

#[derive(clap::Args)]
pub(super) struct SetupArgs {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// Index pattern that gets the template; without one only the component template is installed, for your own
    /// templates to name in composed_of, and the template of spinney's own indices of roots
    #[arg(long, env = "SPINNEY_INDEX", value_name = "PATTERN", value_delimiter = ',')]
    index: Vec<String>,
    /// Name of the index template [default: spinney- and the patterns, so that each set of patterns has its own]
    #[arg(long, value_name = "NAME", requires = "index")]
    name: Option<String>,
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
/// When the cluster cannot be reached or refuses a template, or one of the user's own stands in the way.
pub(super) fn run(args: &SetupArgs) -> anyhow::Result<()> {
    let wanted = Wanted::new(args)?;
    if args.dry_run {
        for template in wanted.templates()? {
            let body = serde_json::to_string_pretty(template.body())?;
            print(format_args!("PUT {}\n{body}\n", template.path()));
        }
        return Ok(());
    }
    let operator = args.cluster.operator()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        install(&operator, wanted).await?;
        if args.existing {
            map_existing(&operator, args).await?;
        }
        Ok(())
    })
}

async fn install(operator: &Operator, mut wanted: Wanted) -> anyhow::Result<()> {
    // All or nothing: what stands in the way is known before the first template is put.
    let there = match wanted.index {
        Some(_) => {
            templates::all(operator).await.context("nothing was installed: the index templates are not known")?
        }
        None => Vec::new(),
    };
    wanted.join(&there);
    if let Some(index) = &wanted.index {
        index.may_replace(&there).context("nothing was installed")?;
    }
    for template in wanted.templates()? {
        let overlapping = operator.rehearse(&template).await;
        if let Err(error @ OperatorError::Unreachable { .. }) = overlapping {
            return Err(error.into());
        }
        let overlapping = overlapping.with_context(|| {
            format!(
                "nothing was installed: the cluster would refuse {}. Where data streams match the patterns of --index, \
                 --data-stream makes the template one of theirs; a template of your own needs \
                 \"composed_of\": [\"{}\"] and nothing else (spinney setup without --index installs that component); \
                 --priority decides between templates",
                template.path(),
                wanted.component
            )
        })?;
        let index = wanted.index.as_ref().filter(|index| template.is_index_template(&index.name));
        let needless = match index {
            Some(index) => index.may_join(&wanted.component, &overlapping, &there).context("nothing was installed")?,
            None => None,
        };
        if let Some(theirs) = needless {
            print(format_args!("the index template {theirs} gives new indices the stamp already: none is added to it"));
            wanted.index = None;
            break;
        }
    }
    for template in &wanted.templates()? {
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

/// The templates that are to be installed.
struct Wanted {
    prefix: String,
    /// Name of the component template.
    component: String,
    /// The index template, with --index.
    index: Option<IndexTemplate>,
    /// Whether the name was set explicitly.
    is_named: bool,
    data_stream: bool,
}

impl Wanted {
    fn new(args: &SetupArgs) -> anyhow::Result<Wanted> {
        let prefix = args.cluster.prefix.clone();
        StampNames::new(&prefix).context("prefix")?;
        let component = mapping::component_name(&prefix);
        let index = (!args.index.is_empty()).then(|| IndexTemplate {
            name: args.name.clone().unwrap_or_else(|| default_name(&args.index)),
            patterns: args.index.clone(),
            priority: args.priority.into(),
            components: vec![component.clone()],
            is_ours: true,
        });
        if index.as_ref().is_some_and(|index| index.name == ROOTS_NAME) {
            bail!("the index template of spinney's own indices is called {ROOTS_NAME}: give another --name");
        }
        Ok(Wanted { prefix, component, index, is_named: args.name.is_some(), data_stream: args.data_stream })
    }

    /// Joins an existing index template for the same patterns, with the stamp fields of other prefixes in it.
    fn join(&mut self, there: &[IndexTemplate]) {
        let Some(index) = &mut self.index else { return };
        let is_same = |other: &&IndexTemplate| match self.is_named {
            true => other.name == index.name,
            false => {
                other.patterns.len() == index.patterns.len()
                    && other.patterns.iter().all(|pattern| index.patterns.contains(pattern))
            }
        };
        if let Some(other) = there.iter().filter(|other| other.is_ours).find(is_same) {
            index.name.clone_from(&other.name);
            let others = other.components.iter().filter(|&of| *of != self.component);
            index.components = others.cloned().chain([self.component.clone()]).collect();
        }
    }

    fn templates(&self) -> anyhow::Result<Vec<Template>> {
        let component = mapping::component(&self.prefix).context("mappings/component-template.json")?;
        let roots = serde_json::from_str(counts::TEMPLATE).context("mappings/roots-index.json")?;
        let mut templates = vec![
            Template::Component { name: self.component.clone(), body: component },
            Template::Index { name: ROOTS_NAME.into(), body: roots },
        ];
        if let Some(index) = &self.index {
            let mut template: Value = serde_json::from_str(TEMPLATE).context("mappings/index-template.json")?;
            template["index_patterns"] = json!(index.patterns);
            template["priority"] = json!(index.priority);
            template["composed_of"] = json!(index.components);
            if self.data_stream {
                template["data_stream"] = json!({});
            }
            templates.push(Template::Index { name: index.name.clone(), body: template });
        }
        Ok(templates)
    }
}

/// The name of the index template for these patterns. The servers take lower-case letters and no `*`.
fn default_name(patterns: &[String]) -> String {
    let text = patterns.join("-").to_lowercase();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.fold("spinney".to_owned(), |name, word| name + "-" + word);
    name.chars().take(NAME_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_of_patterns_has_its_template() {
        let name = |patterns: &[&str]| default_name(&patterns.iter().map(|&p| p.to_owned()).collect::<Vec<_>>());
        assert_eq!(name(&["news-*"]), "spinney-news");
        assert_eq!(name(&["news-*", "press_*-a"]), "spinney-news-press-a");
        assert_eq!(name(&["*"]), "spinney");
        assert_eq!(name(&[&"long".repeat(100)]).len(), NAME_CHARACTERS);
    }

    #[test]
    fn the_packaged_template_is_known_as_one_of_setup() {
        let template: Value = serde_json::from_str(TEMPLATE).unwrap();
        assert_eq!(template["_meta"]["description"], templates::DESCRIPTION);
    }
}
