//! Which documents of which indices are stamped, and how.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

use super::{ConfigError, units};
use crate::fingerprint::Distance;
use crate::method::{Method, Similarity};
use crate::time::Millis;

/// The options of one route as written.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteOptions {
    /// Index pattern to stamp, `*` stands for anything; aliases as the writers name them
    #[arg(
        long,
        env = "SPINNEY_INDEX",
        value_name = "PATTERN",
        value_delimiter = ','
    )]
    index: Option<Vec<String>>,
    /// Field that holds the text, dotted when nested; several are read as one text [default: content]
    #[arg(
        long,
        env = "SPINNEY_TEXT_FIELD",
        value_name = "FIELD",
        value_delimiter = ','
    )]
    text_field: Option<Vec<String>>,
    /// Field that holds the title; it stands in for a text without words
    #[arg(long, env = "SPINNEY_TITLE_FIELD", value_name = "FIELD")]
    title_field: Option<String>,
    /// Field that holds the address the document was published under; the method `staged` asks it first
    #[arg(long, env = "SPINNEY_URL_FIELD", value_name = "FIELD")]
    url_field: Option<String>,
    /// How a document becomes fingerprints: verified, longest, full[:tf|:tfidf], sentences:N, short[:METHOD], staged or field:NAME [default: verified]
    #[arg(long, env = "SPINNEY_METHOD", value_name = "METHOD")]
    method: Option<String>,
    /// Fingerprints at most this many bits apart are near [default: 3; 0 for verified]
    #[arg(long, env = "SPINNEY_K", value_name = "BITS")]
    k: Option<u32>,
    /// How similar verified wants a long article and the first one of its cluster, 0 to 1: of the phrases in either, the
    /// share in both; texts in words need 0.07 less, short texts more [default: 0.43]
    #[arg(long, env = "SPINNEY_SIMILARITY", value_name = "SHARE")]
    similarity: Option<f32>,
    /// How long after its last arrival a fingerprint is remembered, such as 30d, or none [default: 30d]
    #[arg(long, env = "SPINNEY_WINDOW", value_name = "SPAN")]
    window: Option<String>,
    /// What time it is for the forest: arrival, field:NAME (the document's own date), or none (nothing expires) [default: arrival]
    #[arg(long, env = "SPINNEY_CLOCK", value_name = "CLOCK")]
    clock: Option<String>,
    /// Name of the forest; routes with the same name find each other's duplicates [default: one for each route]
    #[arg(long, env = "SPINNEY_FOREST", value_name = "NAME")]
    forest: Option<String>,
    /// File of sentences that say nothing about a text (footers, disclaimers), one a line; verified leaves them out
    #[arg(long, env = "SPINNEY_BOILERPLATE", value_name = "FILE")]
    boilerplate: Option<PathBuf>,
}

/// What time it is for the forest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clock {
    /// When spinney received the document.
    Arrival,
    /// A date in the document itself, so that an archive replays to the same result.
    Field(String),
    /// Time stands still: nothing expires and no `cluster_arrival` is stamped.
    None,
}

/// An index pattern in which `*` stands for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    pub fn new(pattern: impl Into<String>) -> Pattern {
        Pattern(pattern.into())
    }

    /// Whether the whole of `name` fits. Linear in `name` for each `*`.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
            return false;
        };
        let mut parts = parts.peekable();
        if parts.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return rest.ends_with(part);
            }
            let Some(at) = rest.find(part) else {
                return false;
            };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

/// Checked options of one route.
#[derive(Debug, Clone)]
pub struct Route {
    pub index: Vec<Pattern>,
    pub text_fields: Vec<String>,
    pub title_field: Option<String>,
    pub url_field: Option<String>,
    /// Where the id stands in the document itself; in a cluster it stands beside it.
    pub id_field: Option<String>,
    pub method: Method,
    pub k: Distance,
    /// What `verified` asks of long texts; the default for the other methods.
    pub similarity: Similarity,
    /// `None`: nothing expires.
    pub window: Option<Millis>,
    pub clock: Clock,
    pub forest: String,
    /// Sentences that are boilerplate from the start.
    pub boilerplate: Vec<String>,
}

impl RouteOptions {
    pub(super) fn names_an_index(&self) -> bool {
        self.index.is_some()
    }

    pub(super) fn is_set(&self) -> bool {
        *self != RouteOptions::default()
    }

    /// The options of a route for the embedded job, where every document is stamped.
    pub fn everything(mut self) -> RouteOptions {
        self.index = Some(vec!["*".into()]);
        self
    }

    /// Takes `clock` where none was given.
    pub fn or_clock(mut self, clock: &str) -> RouteOptions {
        self.clock.get_or_insert_with(|| clock.into());
        self
    }

    /// With one option as the command line would set it; `check` says what the value is worth. A method other than
    /// verified takes the options of verified alone away, so that methods can be compared.
    ///
    /// # Errors
    /// When the option cannot be set so, or its value has the wrong form.
    pub fn with(mut self, option: &str, value: &str) -> Result<RouteOptions, ConfigError> {
        let wrong = |what: &str| ConfigError::option(option, format!("'{value}' is no {what}"));
        match option {
            "k" => self.k = Some(value.parse().map_err(|_| wrong("number of bits"))?),
            "similarity" => self.similarity = Some(value.parse().map_err(|_| wrong("share"))?),
            "window" => self.window = Some(value.into()),
            "method" => {
                self.method = Some(value.into());
                if value != "verified" {
                    (self.similarity, self.boilerplate) = (None, None);
                }
            }
            _ => {
                return Err(ConfigError::option(
                    option,
                    "is none of k, method, similarity, window",
                ));
            }
        }
        Ok(self)
    }

    pub(super) fn over(self, below: RouteOptions) -> RouteOptions {
        RouteOptions {
            index: self.index.or(below.index),
            text_field: self.text_field.or(below.text_field),
            title_field: self.title_field.or(below.title_field),
            url_field: self.url_field.or(below.url_field),
            method: self.method.or(below.method),
            k: self.k.or(below.k),
            similarity: self.similarity.or(below.similarity),
            window: self.window.or(below.window),
            clock: self.clock.or(below.clock),
            forest: self.forest.or(below.forest),
            boilerplate: self.boilerplate.or(below.boilerplate),
        }
    }

    /// Checks everything and fills in the defaults; `name` says in errors which route is meant.
    pub fn check(self, name: &str) -> Result<Route, ConfigError> {
        let wrong =
            |option: &str, reason: String| ConfigError::option(format!("{name}: {option}"), reason);
        let index = self.index.unwrap_or_default();
        if index.is_empty() || index.iter().any(String::is_empty) {
            return Err(wrong(
                "index",
                "give at least one index pattern, such as news-*".into(),
            ));
        }
        let method = self.method.as_deref().unwrap_or("verified");
        let method = method
            .parse::<Method>()
            .map_err(|e| wrong("method", e.to_string()))?;
        let window = match self.window.as_deref().unwrap_or("30d") {
            "none" => None,
            text => Some(units::span(text).map_err(|reason| wrong("window", reason))?),
        };
        let clock = match self.clock.as_deref().unwrap_or("arrival") {
            "arrival" => Clock::Arrival,
            "none" => Clock::None,
            text => match text.strip_prefix("field:") {
                Some(field) if !field.is_empty() => Clock::Field(field.into()),
                _ => {
                    return Err(wrong(
                        "clock",
                        format!("'{text}' is none of arrival, field:NAME, none"),
                    ));
                }
            },
        };
        // The fingerprints of verified are hashes: what is near one of them but not equal is so by chance.
        let k = self
            .k
            .unwrap_or(if method == Method::Verified { 0 } else { 3 });
        if k > 16 {
            return Err(wrong(
                "k",
                format!("{k} is too far: fingerprints of unrelated texts meet; use at most 16"),
            ));
        }
        if self.similarity.is_some() && method != Method::Verified {
            return Err(wrong(
                "similarity",
                format!("the method {method} does not compare whole texts: use verified, or k"),
            ));
        }
        let similarity = self
            .similarity
            .map_or(Ok(Similarity::default()), Similarity::new)
            .map_err(|e| wrong("similarity", e.to_string()))?;
        if self.boilerplate.is_some() && method != Method::Verified {
            return Err(wrong(
                "boilerplate",
                format!("the method {method} does not leave boilerplate out: use verified"),
            ));
        }
        let boilerplate = self
            .boilerplate
            .as_deref()
            .map_or(Ok(Vec::new()), sentences)?;
        Ok(Route {
            boilerplate,
            forest: self.forest.unwrap_or_else(|| index.join(",")),
            index: index.into_iter().map(Pattern).collect(),
            text_fields: self.text_field.unwrap_or_else(|| vec!["content".into()]),
            title_field: self.title_field,
            url_field: self.url_field,
            id_field: None,
            method,
            k: Distance(k),
            similarity,
            window: if clock == Clock::None { None } else { window },
            clock,
        })
    }
}

/// The lines of a file; those without anything on them do not count.
fn sentences(path: &Path) -> Result<Vec<String>, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Sentences {
        path: path.to_owned(),
        source,
    })?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

impl Route {
    pub fn matches(&self, index: &str) -> bool {
        self.index.iter().any(|pattern| pattern.matches(index))
    }

    /// Routes that share a forest must read documents into the same kind of fingerprints.
    pub(super) fn agree_on_forests(routes: &[Route]) -> Result<(), ConfigError> {
        for (at, route) in routes.iter().enumerate() {
            let first = routes[..at]
                .iter()
                .find(|other| other.forest == route.forest);
            let numbers = |route: &Route| (route.k, route.similarity, route.window);
            if first.is_some_and(|o| {
                (&o.method, numbers(o), &o.boilerplate)
                    != (&route.method, numbers(route), &route.boilerplate)
            }) {
                return Err(ConfigError::option(
                    "forest",
                    format!(
                        "routes that share the forest '{}' need the same method, k, similarity, window and boilerplate",
                        route.forest
                    ),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run() {
        let matches = |pattern: &str, name: &str| Pattern::new(pattern).matches(name);
        assert!(matches("news-*", "news-2026"));
        assert!(matches("news-*", "news-"));
        assert!(!matches("news-*", "old-news-1"));
        assert!(matches("*", ""));
        assert!(matches("a*b*c", "a-b-b-c"));
        assert!(!matches("a*b*c", "a-c-b"));
        assert!(matches("*-news", "old-news"));
        assert!(!matches("news", "news-1"));
        assert!(!matches("a*a", "a"));
    }

    fn options(index: &str) -> RouteOptions {
        RouteOptions {
            index: Some(vec![index.into()]),
            ..Default::default()
        }
    }

    #[test]
    fn defaults_are_filled_in() {
        let route = options("news").check("route").unwrap();
        assert_eq!(route.text_fields, ["content"]);
        assert_eq!(route.k, Distance(0));
        let longest = RouteOptions {
            method: Some("longest".into()),
            ..options("news")
        };
        assert_eq!(longest.check("route").unwrap().k, Distance(3));
        assert_eq!(route.window, Some(Millis(30 * 86_400_000)));
        assert_eq!(route.clock, Clock::Arrival);
        assert_eq!(route.forest, "news");
    }

    #[test]
    fn wrong_options_say_which() {
        let wrong = RouteOptions {
            clock: Some("sundial".into()),
            ..options("news")
        };
        let error = wrong.check("route 2").unwrap_err().to_string();
        assert!(error.starts_with("route 2: clock: 'sundial'"), "{error}");
        assert!(
            RouteOptions {
                k: Some(17),
                ..options("news")
            }
            .check("route")
            .is_err()
        );
        assert!(
            RouteOptions {
                method: Some("magic".into()),
                ..options("news")
            }
            .check("route")
            .is_err()
        );
    }

    #[test]
    fn a_similarity_is_a_share_and_for_verified_only() {
        let with = |share: f32, method: &str| {
            let options = RouteOptions {
                similarity: Some(share),
                method: Some(method.into()),
                ..options("news")
            };
            options.check("route 2").map(|route| route.similarity)
        };
        assert_eq!(with(0.43, "verified").unwrap(), Similarity::default());
        assert_ne!(with(0.5, "verified").unwrap(), Similarity::default());
        for (share, method, reason) in [
            (1.5, "verified", "route 2: similarity: must be a ratio"),
            (0.5, "full", "route 2: similarity: the method full does not"),
        ] {
            let error = with(share, method).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
        // Written as a whole number, and as the default, which must be the very default.
        for (written, share) in [("1", 1.0), ("0.43", 0.43)] {
            let read: RouteOptions = toml::from_str(&format!("similarity = {written}")).unwrap();
            assert_eq!(read.similarity, Some(share));
        }
    }

    #[test]
    fn routes_that_share_a_forest_must_agree() {
        let shared = |k, similarity| {
            RouteOptions {
                forest: Some("f".into()),
                k: Some(k),
                similarity,
                ..options("a")
            }
            .check("r")
            .unwrap()
        };
        let agree = |one, other| Route::agree_on_forests(&[one, other]);
        assert!(agree(shared(3, None), shared(3, Some(0.43))).is_ok());
        assert!(agree(shared(3, None), shared(4, None)).is_err());
        assert!(agree(shared(3, None), shared(3, Some(0.5))).is_err());
    }
}
