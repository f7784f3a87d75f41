//! `spinney setup`: the templates that the stamp's fields need.

use std::collections::BTreeSet;

use anyhow::Context;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::connection::ClusterFlags;
use super::{print, print_error};
use crate::backfill::{self, mapping};
use crate::bulk::StampNames;
use crate::cluster::operator::{Operator, OperatorError, StoredTemplate, Template};
use crate::config::DEFAULT_PREFIX;
use crate::counts;

/// Of the indices that `spinney serve` counts in.
const ROOTS_NAME: &str = "spinney-roots";
/// As mappings/index-template.json names it, and what those of other prefixes begin with.
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
    /// Name of the index template [default: spinney- and the patterns of --index]; the component template is called
    /// spinney-stamp
    #[arg(long, value_name = "NAME")]
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
/// When the cluster cannot be reached or refuses a template.
pub(super) fn run(args: &SetupArgs) -> anyhow::Result<()> {
    let templates = templates(args)?;
    if args.dry_run {
        let index = (!args.index.is_empty()).then(|| index_template(args, &[])).transpose()?;
        for template in templates.into_iter().chain(index) {
            let body = serde_json::to_string_pretty(template.body())?;
            print(format_args!("PUT {}\n{body}\n", template.path()));
        }
        return Ok(());
    }
    let operator = args.cluster.operator()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        install(&operator, templates, args).await?;
        if args.existing {
            map_existing(&operator, args).await?;
        }
        Ok(())
    })
}

async fn install(operator: &Operator, mut templates: Vec<Template>, args: &SetupArgs) -> anyhow::Result<()> {
    if !args.index.is_empty() {
        let own = operator.index_templates("spinney*").await?;
        templates.push(index_template(args, &own)?);
        if let Some(name) = &args.name
            && let Some(there) = operator.index_templates(name).await?.iter().find(|there| there.name == *name)
        {
            may_replace(there, &args.index)?;
        }
    }
    // All or nothing: a template that the cluster will refuse is known before the first one is put.
    let mut composed = None;
    for template in &templates {
        let overlapping = operator.rehearse(template).await;
        if let Err(error @ OperatorError::Unreachable { .. }) = overlapping {
            return Err(error.into());
        }
        let overlapping = overlapping.with_context(|| {
            format!(
                "nothing was installed: the cluster would refuse {}. Where data streams match the patterns of --index, \
                 --data-stream makes the template one of theirs; --priority decides between templates; without --index \
                 only the component template is installed, for your own templates to name in composed_of",
                template.path()
            )
        })?;
        if args.index.is_empty() || !is_for_stamps(template) {
            continue;
        }
        for name in overlapping {
            let found = operator.index_templates(&name).await?.into_iter().find(|found| found.name == name);
            match found {
                Some(found) if is_own(&found) => {}
                Some(found) if found.composed_of.contains(&component_name(&args.cluster.prefix)) => {
                    composed = Some(name)
                }
                found => anyhow::bail!("nothing was installed: {}", in_the_way(&name, found.as_ref(), args)),
            }
        }
    }
    if let Some(name) = composed {
        // Ours beside it would take its indices from it, or get none.
        templates.retain(|template| !is_for_stamps(template));
        print(format_args!("_index_template/{name} maps the stamp already: no other template is needed"));
    }
    for template in templates {
        for warning in operator.put_template(&template).await? {
            print_error(format_args!("the cluster warns: {warning}"));
        }
        let name = template.path().trim_start_matches('/').to_owned();
        print(format_args!("installed {name}"));
    }
    Ok(())
}

/// Refuses to put a template over another one that has more to say.
fn may_replace(there: &StoredTemplate, patterns: &[String]) -> anyhow::Result<()> {
    let name = &there.name;
    anyhow::ensure!(
        is_own(there),
        "nothing was installed: the index template {name} is not one of spinney's: give another --name"
    );
    let lost: Vec<&str> = there.patterns.iter().filter(|of| !patterns.contains(of)).map(String::as_str).collect();
    anyhow::ensure!(
        lost.is_empty(),
        "nothing was installed: the index template {name} is there for {} too: give another --name, or all patterns to --index",
        lost.join(", ")
    );
    Ok(())
}

/// Whether a template is one for documents that get stamps.
fn is_for_stamps(template: &Template) -> bool {
    matches!(template, Template::Index { name, .. } if name != ROOTS_NAME)
}

/// Whether a template is one that `setup` has made: nothing but mappings of stamps.
fn is_own(template: &StoredTemplate) -> bool {
    let is_stamp = |name: &String| name.starts_with(COMPONENT_NAME);
    !template.has_own && !template.composed_of.is_empty() && template.composed_of.iter().all(is_stamp)
}

/// Says what to do about somebody's own template for some of the same indices: of two, one counts for an index.
fn in_the_way(name: &str, found: Option<&StoredTemplate>, args: &SetupArgs) -> String {
    let component = component_name(&args.cluster.prefix);
    let of_one = "of two templates that match an index only one counts, and the other's mapping and settings are lost";
    let Some(found) = found else {
        return format!(
            "the legacy template {name} matches indices of {} too, and no longer would: {of_one}. Make an index \
             template of it (PUT /_index_template), with \"composed_of\": [\"{component}\"], and run spinney setup \
             without --index",
            args.index.join(",")
        );
    };
    let mut composed = found.composed_of.clone();
    composed.push(component);
    let composed = json!(composed);
    let patterns: Vec<&str> = found.patterns.iter().map(String::as_str).collect();
    format!(
        "the index template {name} is for {} and would stand in the way of one for {}: {of_one}. Run spinney setup without \
         --index, and put {name} again with this line:\n  \"composed_of\": {composed}",
        patterns.join(","),
        args.index.join(",")
    )
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

/// The templates that do not depend on the patterns.
fn templates(args: &SetupArgs) -> anyhow::Result<Vec<Template>> {
    let prefix = &args.cluster.prefix;
    StampNames::new(prefix).context("prefix")?;
    let component = mapping::component(prefix).context("mappings/component-template.json")?;
    let roots = serde_json::from_str(counts::TEMPLATE).context("mappings/roots-index.json")?;
    Ok(vec![
        Template::Component { name: component_name(prefix), body: component },
        Template::Index { name: ROOTS_NAME.into(), body: roots },
    ])
}

/// The component template of the stamps with this prefix: two prefixes may be in one index.
fn component_name(prefix: &str) -> String {
    match prefix {
        DEFAULT_PREFIX => COMPONENT_NAME.to_owned(),
        other => format!("{COMPONENT_NAME}-{}", name_of([other])),
    }
}

/// A name for texts that no others have: what can be read of them, and a hash.
fn name_of<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    const READABLE: usize = 40;
    let whole = texts.into_iter().collect::<Vec<_>>().join(",");
    let words = whole.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit()).filter(|word| !word.is_empty());
    let readable: String = words.collect::<Vec<_>>().join("-").chars().take(READABLE).collect();
    let hash = xxh3_64(whole.as_bytes()) as u32;
    if readable.is_empty() { format!("{hash:08x}") } else { format!("{readable}-{hash:08x}") }
}

/// The index template for the patterns of `--index`. One of `own` that is for the very same patterns keeps its name, and
/// the stamps of other prefixes that it has.
fn index_template(args: &SetupArgs, own: &[StoredTemplate]) -> anyhow::Result<Template> {
    let patterns: BTreeSet<String> = args.index.iter().cloned().collect();
    let before = own.iter().find(|template| template.patterns == patterns && is_own(template));
    let mut composed_of = before.map(|before| before.composed_of.clone()).unwrap_or_default();
    let component = component_name(&args.cluster.prefix);
    if !composed_of.contains(&component) {
        composed_of.push(component);
    }
    let mut template: Value = serde_json::from_str(TEMPLATE).context("mappings/index-template.json")?;
    template["index_patterns"] = json!(args.index);
    template["composed_of"] = json!(composed_of);
    template["priority"] = json!(args.priority);
    if args.data_stream {
        template["data_stream"] = json!({});
    }
    let of_patterns = || format!("spinney-{}", name_of(patterns.iter().map(String::as_str)));
    let name = args.name.clone().or_else(|| before.map(|before| before.name.clone())).unwrap_or_else(of_patterns);
    Ok(Template::Index { name, body: template })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Setup {
        #[command(flatten)]
        args: SetupArgs,
    }

    fn args(given: &str) -> SetupArgs {
        Setup::parse_from(std::iter::once("setup").chain(given.split_whitespace())).args
    }

    fn stored(name: &str, patterns: &[&str], composed_of: &[&str], has_own: bool) -> StoredTemplate {
        let texts = |of: &[&str]| of.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let patterns = texts(patterns).into_iter().collect();
        StoredTemplate { name: name.to_owned(), patterns, composed_of: texts(composed_of), has_own }
    }

    #[test]
    fn each_set_of_patterns_has_a_template() {
        let made = |given: &str, own: &[StoredTemplate]| {
            let template = index_template(&args(given), own).unwrap();
            (template.path(), template.body()["composed_of"].to_string())
        };
        let paths = ["--index news-*", "--index press-*", "--index news-*,press-*", "--index *", "--index news"]
            .map(|given| made(given, &[]).0);
        let distinct: BTreeSet<&String> = paths.iter().collect();
        assert_eq!(distinct.len(), paths.len(), "{paths:?}");
        assert!(paths[0].starts_with("/_index_template/spinney-news-"), "{}", paths[0]);
        assert_eq!(made("--index press-*,news-*", &[]).0, paths[2]);
        assert_eq!(made("--index news-* --name mine", &[]).0, "/_index_template/mine");
        // That of an earlier version is replaced, and another prefix beside the first takes nothing from it.
        let before = [stored("spinney", &["news-*"], &["spinney-stamp"], false)];
        assert_eq!(made("--index news-*", &before).0, "/_index_template/spinney");
        let green = made("--index news-* --prefix green_", &before);
        assert_eq!(
            green,
            ("/_index_template/spinney".into(), format!(r#"["spinney-stamp","{}"]"#, component_name("green_")))
        );
        let theirs = [stored("spinney-x", &["news-*"], &["spinney-stamp"], true)];
        assert_eq!(made("--index news-*", &theirs).0, paths[0]);
    }

    #[test]
    fn a_template_in_the_way_is_told_with_its_line() {
        let theirs = stored("theirs", &["news-*"], &["settings"], true);
        let said = in_the_way("theirs", Some(&theirs), &args("--index news-*"));
        assert!(said.contains(r#""composed_of": ["settings","spinney-stamp"]"#), "{said}");
        let patterns = |of: &[&str]| of.iter().map(|of| (*of).to_owned()).collect::<Vec<_>>();
        let ours = stored("ours", &["a-*", "b-*"], &["spinney-stamp"], false);
        assert!(may_replace(&ours, &patterns(&["a-*", "b-*", "c-*"])).is_ok());
        let lost = may_replace(&ours, &patterns(&["a-*"])).unwrap_err().to_string();
        assert!(lost.contains("for b-* too"), "{lost}");
        assert!(may_replace(&theirs, &patterns(&["news-*"])).unwrap_err().to_string().contains("not one of spinney's"));
        let said = in_the_way("old", None, &args("--index news-*"));
        assert!(said.contains("the legacy template old"), "{said}");
        assert!(is_own(&stored("a", &[], &["spinney-stamp", "spinney-stamp-green-1"], false)));
        for other in
            [stored("a", &[], &["spinney-stamp"], true), stored("a", &[], &[], false), stored("a", &[], &["x"], false)]
        {
            assert!(!is_own(&other), "{other:?}");
        }
    }
}
