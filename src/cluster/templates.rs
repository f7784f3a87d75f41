//! Index templates of the cluster, and conflicts with a new one.

use hyper::Method;
use serde::Deserialize;

use super::operator::{Operator, OperatorError};
use crate::index_pattern::fits;

/// Says in `_meta` that a template is one of setup's.
pub(crate) const DESCRIPTION: &str = "gives new indices the mapping of spinney's stamp";

/// An index template, as far as it decides which one a new index gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct IndexTemplate {
    pub(crate) name: String,
    pub(crate) patterns: Vec<String>,
    pub(crate) priority: u64,
    /// The component templates that it is composed of.
    pub(crate) components: Vec<String>,
    /// Whether setup has put it.
    pub(crate) is_ours: bool,
}

/// Why a template is not put.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateFault {
    /// A foreign template has its name.
    #[error("the index template {0} is there and is not one of spinney's: give another --name")]
    NameTaken(String),
    /// The one of its name has patterns that it has not.
    #[error(
        "the index template {name} is there for {patterns}, which would lose it: give another --name, or all patterns \
         to --index"
    )]
    PatternsLost {
        /// Of both templates.
        name: String,
        /// The patterns that would be removed.
        patterns: String,
    },
    /// Another one would not apply any more.
    #[error(
        "the index template {name} ({patterns}, priority {priority}) would no longer apply to these indices, and its \
         settings and mappings would be lost to them: {}",
        compose(component)
    )]
    Shadowed {
        /// Of the other template.
        name: String,
        /// Its patterns.
        patterns: String,
        /// Its priority.
        priority: u64,
        /// The component template that it must include.
        component: String,
    },
    /// A legacy template would not apply any more.
    #[error(
        "the legacy template {name} would no longer apply to these indices, since an index template does: make it an \
         index template (PUT /_index_template) with \"composed_of\": [\"{component}\"]; spinney setup without --index \
         installs that component"
    )]
    Legacy {
        /// Of the legacy template.
        name: String,
        /// The component template that the index template must include.
        component: String,
    },
    /// It would not apply itself.
    #[error(
        "the index template {name} ({patterns}, priority {priority}) goes first, so that one of spinney's would have \
         no effect: {}",
        compose(component)
    )]
    WithoutEffect {
        /// Of the other template.
        name: String,
        /// Its patterns.
        patterns: String,
        /// Its priority.
        priority: u64,
        /// The component template that it must include.
        component: String,
    },
}

/// How a template of the user's own gets the fields of the stamp.
pub(crate) fn compose(component: &str) -> String {
    format!(
        "add \"composed_of\": [\"{component}\"] to it (spinney setup without --index installs that component), which \
         is all that it needs"
    )
}

/// All index templates of the cluster.
///
/// # Errors
/// If the cluster cannot be reached or refuses the request.
pub(crate) async fn all(operator: &Operator) -> Result<Vec<IndexTemplate>, OperatorError> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
        index_template: Body,
    }
    #[derive(Deserialize)]
    struct Body {
        #[serde(default)]
        index_patterns: Vec<String>,
        #[serde(default)]
        composed_of: Vec<String>,
        priority: Option<u64>,
        #[serde(rename = "_meta", default)]
        meta: serde_json::Value,
    }
    let mut answer = operator.ask(Method::GET, "/_index_template", None).await?;
    let named: Vec<Named> = serde_json::from_value(answer["index_templates"].take()).unwrap_or_default();
    let template = |Named { name, index_template: body }| IndexTemplate {
        name,
        patterns: body.index_patterns,
        priority: body.priority.unwrap_or_default(),
        components: body.composed_of,
        is_ours: body.meta["description"] == DESCRIPTION,
    };
    Ok(named.into_iter().map(template).collect())
}

/// The template that a new index of this name gets.
pub(crate) fn applied<'a>(templates: &'a [IndexTemplate], index: &str) -> Option<&'a IndexTemplate> {
    let matching = templates.iter().filter(|template| template.patterns.iter().any(|pattern| fits(pattern, index)));
    matching.max_by_key(|template| template.priority)
}

impl IndexTemplate {
    /// Whether it may replace the template of the same name.
    ///
    /// # Errors
    /// If that is not setup's, or is there for other patterns.
    pub(crate) fn may_replace(&self, templates: &[IndexTemplate]) -> Result<(), TemplateFault> {
        let Some(there) = templates.iter().find(|template| template.name == self.name) else { return Ok(()) };
        if !there.is_ours {
            return Err(TemplateFault::NameTaken(self.name.clone()));
        }
        let lost: Vec<&str> =
            there.patterns.iter().filter(|pattern| !self.patterns.contains(pattern)).map(String::as_str).collect();
        if lost.is_empty() {
            return Ok(());
        }
        Err(TemplateFault::PatternsLost { name: self.name.clone(), patterns: lost.join(", ") })
    }

    /// Whether it may coexist with the templates that the cluster reports as overlapping. Returns the name of the
    /// user's own template that makes it needless, if there is one.
    ///
    /// # Errors
    /// If one of the user's own would have no effect any more, or this one would have none.
    pub(crate) fn may_join(
        &self,
        component: &str,
        overlapping: &[String],
        templates: &[IndexTemplate],
    ) -> Result<Option<String>, TemplateFault> {
        for name in overlapping.iter().filter(|&name| *name != self.name) {
            let Some(other) = templates.iter().find(|template| template.name == *name) else {
                return Err(TemplateFault::Legacy { name: name.clone(), component: component.to_owned() });
            };
            let is_composed = other.components.iter().any(|of| of == component);
            let covers = self.patterns.iter().all(|own| other.patterns.iter().any(|theirs| fits(theirs, own)));
            if is_composed && covers && !other.is_ours {
                return Ok(Some(name.clone()));
            }
            if is_composed && (other.is_ours || other.priority > self.priority) {
                continue;
            }
            let (name, patterns) = (other.name.clone(), other.patterns.join(", "));
            let (priority, component) = (other.priority, component.to_owned());
            return Err(match priority > self.priority {
                true => TemplateFault::WithoutEffect { name, patterns, priority, component },
                false => TemplateFault::Shadowed { name, patterns, priority, component },
            });
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(name: &str, patterns: &[&str], priority: u64, components: &[&str]) -> IndexTemplate {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let is_ours = name.starts_with("spinney");
        IndexTemplate { name: name.into(), patterns: owned(patterns), priority, components: owned(components), is_ours }
    }

    #[test]
    fn a_template_takes_the_place_of_its_own_kind_only() {
        let there = [template("spinney-news", &["news-*"], 1, &["spinney-stamp"]), template("ours", &["a"], 0, &[])];
        let may = |name: &str, patterns: &[&str]| template(name, patterns, 1, &[]).may_replace(&there);
        assert_eq!(may("spinney-press", &["press-*"]), Ok(()));
        assert_eq!(may("spinney-news", &["press-*", "news-*"]), Ok(()));
        assert!(matches!(may("spinney-news", &["news*"]), Err(TemplateFault::PatternsLost { .. })));
        assert!(matches!(may("ours", &["a"]), Err(TemplateFault::NameTaken(_))));
    }

    #[test]
    fn a_template_stands_beside_others_if_none_loses_its_effect() {
        let join = |other: IndexTemplate| {
            let new = template("spinney-news", &["news-*"], 1, &["spinney-stamp"]);
            new.may_join("spinney-stamp", std::slice::from_ref(&other.name), std::slice::from_ref(&other))
        };
        let composed = &["settings", "spinney-stamp"];
        assert_eq!(join(template("spinney-news", &["news-*"], 1, &["spinney-stamp"])), Ok(None));
        assert_eq!(join(template("spinney-old", &["news-a*"], 2, &["spinney-stamp"])), Ok(None));
        // Of the user: wider or of the same patterns, with the stamp; narrower, before or behind.
        for (wide, priority) in [("*", 0), ("news-*", 200)] {
            assert_eq!(join(template("theirs", &[wide], priority, composed)), Ok(Some("theirs".into())));
        }
        assert_eq!(join(template("theirs", &["news-a*"], 200, composed)), Ok(None));
        for (pattern, priority, components, is_shadowed) in [
            ("news-*", 0, &["settings"][..], true),
            ("news-a*", 0, composed, true),
            ("*", 200, &[], false),
            ("news-a*", 200, &["settings"], false),
        ] {
            let fault = join(template("theirs", &[pattern], priority, components)).unwrap_err();
            assert_eq!(matches!(fault, TemplateFault::Shadowed { .. }), is_shadowed, "{fault}");
            let text = fault.to_string();
            assert!(text.contains("\"composed_of\": [\"spinney-stamp\"]") && text.contains("theirs"), "{text}");
        }
        // A legacy template is none of the index templates.
        let new = template("spinney-news", &["news-*"], 1, &[]);
        let fault = new.may_join("spinney-stamp", &["legacy".into()], &[]).unwrap_err();
        assert!(matches!(fault, TemplateFault::Legacy { .. }), "{fault}");
    }

    #[test]
    fn a_new_index_gets_the_template_of_the_highest_priority() {
        let there = [template("a", &["*"], 0, &[]), template("b", &["x", "news-*"], 7, &[])];
        let name = |index: &str| applied(&there, index).map(|template| template.name.as_str());
        assert_eq!((name("news-1"), name("press-1")), (Some("b"), Some("a")));
        assert_eq!(applied(&there[1..], "press-1"), None);
    }
}
