//! Which documents of which indices are stamped, and how.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde::Deserialize;

use super::ConfigError;
use super::representative::RepresentativeBy;
use super::small_file;
use super::values::{ByteSize, FieldName, IndexPattern, OrNone, TimeSpan, from_text, some_parsed};
use crate::fingerprint::Distance;
use crate::forest::shared::SharedDistance;
use crate::forest::{FOUNDER_TOKEN_BYTES, LateMerges};
use crate::hamming::NodeIndex;
use crate::index_pattern::{fits, meets};
use crate::method::{Method, SHORT_TEXT_DISTANCE, Similarity};
use crate::text_fields::{RoutedFields, TextFields};
use crate::time::Millis;

/// Raw options of one route: as written, every one may be absent.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawRoute {
    /// Index pattern to stamp, `*` stands for anything; aliases as the writers name them
    #[arg(long, env = "SPINNEY_INDEX", value_name = "PATTERN", value_delimiter = ',')]
    index: Option<Vec<IndexPattern>>,
    /// Field that holds the text, dotted when nested; several are read as one text [default: content]
    #[arg(long, env = "SPINNEY_TEXT_FIELD", value_name = "FIELD", value_delimiter = ',')]
    text_field: Option<Vec<FieldName>>,
    /// Field that holds the title; it replaces a text without words
    #[arg(long, env = "SPINNEY_TITLE_FIELD", value_name = "FIELD")]
    title_field: Option<FieldName>,
    /// Field that holds the address the document was published under; the method `staged` asks it first
    #[arg(long, env = "SPINNEY_URL_FIELD", value_name = "FIELD")]
    url_field: Option<FieldName>,
    /// How a document becomes fingerprints: verified, longest, full[:tf|:tfidf], sentences:N, short[:METHOD], staged or
    /// field:NAME [default: verified]
    #[arg(long, env = "SPINNEY_METHOD", value_name = "METHOD")]
    #[serde(deserialize_with = "some_parsed")]
    method: Option<Method>,
    /// Fingerprints at most this many bits apart are near [default: 3; 0 for verified]
    #[arg(long, env = "SPINNEY_K", value_name = "BITS")]
    k: Option<u32>,
    /// How similar a long article and the first one of its cluster must be for verified, 0 to 1: of the phrases in
    /// either, those in both; texts written in words need 0.07 less, short texts more [default: 0.43]
    #[arg(long, env = "SPINNEY_SIMILARITY", value_name = "RATIO")]
    #[serde(default, deserialize_with = "some_parsed")]
    similarity: Option<Similarity>,
    /// How long after its last arrival a fingerprint is remembered, such as 30d, or none [default: 30d]
    #[arg(long, env = "SPINNEY_WINDOW", value_name = "DURATION")]
    window: Option<OrNone<TimeSpan>>,
    /// What time it is for the forest: arrival, field:NAME (the document's own date), or none (nothing expires)
    /// [default: arrival]
    #[arg(long, env = "SPINNEY_CLOCK", value_name = "CLOCK")]
    clock: Option<Clock>,
    /// Name of the forest; routes with the same name find each other's duplicates [default: one for each route]
    #[arg(long, env = "SPINNEY_FOREST", value_name = "NAME")]
    forest: Option<String>,
    /// File of sentences that say nothing about a text (footers, disclaimers), one a line; verified leaves them out
    #[arg(long, env = "SPINNEY_BOILERPLATE", value_name = "FILE")]
    boilerplate: Option<PathBuf>,
    /// Documents that a cluster may have; one that has them takes no text that is not in it already, or none [default:
    /// none]
    #[arg(long, env = "SPINNEY_MAX_TREE", value_name = "DOCUMENTS")]
    max_tree: Option<OrNone<DocumentCount>>,
    /// Trees that are found to be one when a later document agrees with both: off, suggest (`/_spinney/INDEX/_merges`
    /// shows them) or apply [default: suggest]
    #[arg(long, env = "SPINNEY_LATE_MERGES", value_name = "MODE")]
    late_merges: Option<LateMergesValue>,
    /// Bytes of text kept for the alignment check of verified, such as 256mb: of a cluster whose text has gone only the
    /// proof decides; 0 for none [default: 256mb]
    #[arg(long, env = "SPINNEY_FOUNDER_TOKENS_MEMORY", value_name = "BYTES")]
    founder_tokens_memory: Option<ByteSize>,
    /// Date by which readers see a group's documents in order, dotted when nested [default: the field of --clock, or
    /// else the stamp's arrival]
    #[arg(long, env = "SPINNEY_TIME_FIELD", value_name = "FIELD")]
    time_field: Option<FieldName>,
    /// Keyword that says who published a document; readers see how many different ones a group has
    #[arg(long, env = "SPINNEY_MEDIUM_FIELD", value_name = "FIELD")]
    medium_field: Option<FieldName>,
    /// Keyword that says in which language a document is; the web page counts groups by it
    #[arg(long, env = "SPINNEY_LANGUAGE_FIELD", value_name = "FIELD")]
    language_field: Option<FieldName>,
    /// Document that stands for its group on the web page, as `_groups` takes it: relevance, newest, oldest, first, or
    /// JSON such as {"rank": {"field": "media", "order": ["Reuters", "AP"]}} [default: by the sort of the list]
    #[arg(long, env = "SPINNEY_REPRESENTATIVE", value_name = "CHOICE")]
    representative: Option<RepresentativeBy>,
}

/// A number of documents, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DocumentCount(u32);

impl FromStr for DocumentCount {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<DocumentCount, &'static str> {
        match text.parse() {
            Ok(count) if count > 0 => Ok(DocumentCount(count)),
            _ => Err("use a number of documents, 1 or more"),
        }
    }
}

from_text!(Clock, LateMergesValue, RepresentativeBy);

impl FromStr for Clock {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Clock, &'static str> {
        match (text, text.strip_prefix("field:").map(str::parse)) {
            ("arrival", _) => Ok(Clock::Arrival),
            ("none", _) => Ok(Clock::None),
            (_, Some(Ok(FieldName(field)))) => Ok(Clock::Field(field)),
            _ => Err("use arrival, field:NAME or none"),
        }
    }
}

impl Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clock::Arrival => f.write_str("arrival"),
            Clock::None => f.write_str("none"),
            Clock::Field(field) => write!(f, "field:{field}"),
        }
    }
}

/// The value of `late_merges`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LateMergesValue(pub(super) LateMerges);

impl Display for LateMergesValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            LateMerges::Off => "off",
            LateMerges::Suggest => "suggest",
            LateMerges::Apply => "apply",
        })
    }
}

impl FromStr for LateMergesValue {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<LateMergesValue, &'static str> {
        let late_merges = match text {
            "off" => LateMerges::Off,
            "suggest" => LateMerges::Suggest,
            "apply" => LateMerges::Apply,
            _ => return Err("use off, suggest or apply"),
        };
        Ok(LateMergesValue(late_merges))
    }
}

/// The clock of a forest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clock {
    /// When spinney received the document.
    Arrival,
    /// A date in the document itself, so that an archive replays to the same result.
    Field(String),
    /// Time stands still: nothing expires and no `cluster_arrival` is stamped.
    None,
}

/// Validated options of one route.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    index: Vec<IndexPattern>,
    /// Fields that hold the text, dotted when nested; at least one.
    pub text_fields: Vec<String>,
    /// Field that holds the title.
    pub title_field: Option<String>,
    /// Field that holds the address the document was published under.
    pub url_field: Option<String>,
    /// Field of the document's own id, outside of a cluster.
    pub id_field: Option<String>,
    /// How a document becomes fingerprints.
    pub method: Method,
    /// Fingerprints at most this far apart are near; for short texts the method has a distance of its own.
    pub k: Distance,
    /// The similarity that `verified` requires of long texts; the default for the other methods.
    pub similarity: Similarity,
    /// How long after its last arrival a fingerprint is remembered. `None`: nothing expires.
    pub window: Option<Millis>,
    /// The clock of the forest.
    pub clock: Clock,
    /// Name of the forest; routes with the same name share it.
    pub forest: String,
    /// Sentences that are boilerplate from the start.
    pub boilerplate: Vec<String>,
    /// The file that they were read from.
    pub boilerplate_file: Option<PathBuf>,
    /// Documents that a tree may have.
    pub max_tree: Option<u32>,
    /// Handling of late merges.
    pub late_merges: LateMerges,
    /// Bytes of evidence that its forest keeps for alignment checks.
    pub founder_tokens_memory: usize,
    /// The date that readers see; `None`: the stamp's arrival.
    pub time_field: Option<String>,
    /// Keyword field of the medium.
    pub medium_field: Option<String>,
    /// Keyword field of the language.
    pub language_field: Option<String>,
    /// The document that stands for its group on the web page; `None`: by the sort of the list.
    pub representative: Option<RepresentativeBy>,
}

impl RawRoute {
    pub(super) fn names_an_index(&self) -> bool {
        self.index.is_some()
    }

    pub(super) fn is_set(&self) -> bool {
        *self != RawRoute::default()
    }

    /// With a pattern that every index matches, for work without a cluster, where every document is stamped.
    pub fn any_index(mut self) -> RawRoute {
        self.index = Some(vec![IndexPattern("*".into())]);
        self
    }

    /// The same route, with this clock unless it has one.
    pub fn or_clock(mut self, clock: Clock) -> RawRoute {
        self.clock.get_or_insert(clock);
        self
    }

    /// The same route with another value of k, method, similarity or window, as written on the command line. Another
    /// method than `verified` drops the options that only `verified` has, so that methods can be compared.
    ///
    /// # Errors
    /// If the option is not one of these, or its value does not parse.
    pub fn with(mut self, option: &str, value: &str) -> Result<RawRoute, ConfigError> {
        fn parsed<T: FromStr<Err: Display>>(option: &str, value: &str) -> Result<Option<T>, ConfigError> {
            value.parse().map(Some).map_err(|error: T::Err| ConfigError::option(option, format!("'{value}': {error}")))
        }
        match option {
            "k" => self.k = parsed(option, value)?,
            "similarity" => self.similarity = parsed(option, value)?,
            "window" => self.window = parsed(option, value)?,
            "method" => {
                self.method = parsed(option, value)?;
                if self.method != Some(Method::Verified) {
                    (self.similarity, self.boilerplate) = (None, None);
                }
            }
            _ => return Err(ConfigError::option(option, "must be one of k, method, similarity, window")),
        }
        Ok(self)
    }

    /// Validates every option and fills in the defaults; errors name the route by `name`.
    ///
    /// # Errors
    /// When a value is not one of its option, options conflict, or the boilerplate file cannot be read.
    pub fn validate(self, name: &str) -> Result<Route, ConfigError> {
        let wrong = |option: &str, reason: String| ConfigError::option(format!("{name}: {option}"), reason);
        let index = self.index.unwrap_or_default();
        if index.is_empty() {
            return Err(wrong("index", "give at least one index pattern, such as news-*".into()));
        }
        let method = self.method.unwrap_or(Method::Verified);
        let k = self.k.map_or_else(|| default_k(&method), Distance);
        if k > MAX_K {
            return Err(wrong(
                "k",
                format!("{} is out of range: fingerprints of unrelated texts are near then; use 0 to {}", k.0, MAX_K.0),
            ));
        }
        if self.similarity.is_some() && method != Method::Verified {
            return Err(wrong(
                "similarity",
                format!("the method {method} does not compare whole texts: use verified, or k"),
            ));
        }
        if self.boilerplate.is_some() && method != Method::Verified {
            return Err(wrong(
                "boilerplate",
                format!("the method {method} does not leave out boilerplate: use verified"),
            ));
        }
        let window = self.window.unwrap_or(OrNone(Some(TimeSpan(DEFAULT_WINDOW))));
        let clock = self.clock.unwrap_or(Clock::Arrival);
        let name = |field: FieldName| field.0;
        let text_fields = self.text_field.unwrap_or_else(|| vec![FieldName("content".into())]);
        Ok(Route {
            time_field: self.time_field.map(name).or_else(|| match &clock {
                Clock::Field(field) => Some(field.clone()),
                Clock::Arrival | Clock::None => None,
            }),
            medium_field: self.medium_field.map(name),
            language_field: self.language_field.map(name),
            representative: self.representative,
            boilerplate: self.boilerplate.as_deref().map_or(Ok(Vec::new()), sentences)?,
            boilerplate_file: self.boilerplate,
            max_tree: self.max_tree.and_then(|max| max.0).map(|max| max.0),
            late_merges: self.late_merges.map_or(LateMerges::default(), |value| value.0),
            founder_tokens_memory: self.founder_tokens_memory.map_or(FOUNDER_TOKEN_BYTES, |size| size.0),
            forest: self.forest.unwrap_or_else(|| {
                let patterns: Vec<&str> = index.iter().map(|pattern| pattern.0.as_str()).collect();
                patterns.join(",")
            }),
            index,
            text_fields: text_fields.into_iter().map(name).collect(),
            title_field: self.title_field.map(name),
            url_field: self.url_field.map(name),
            id_field: None,
            method,
            k,
            similarity: self.similarity.unwrap_or_default(),
            window: window.0.filter(|_| clock != Clock::None).map(|window| window.0),
            clock,
        })
    }
}

/// The window by default: 30 days.
const DEFAULT_WINDOW: Millis = Millis(30 * 86_400_000);

/// The largest distance that the index of fingerprints can be asked for.
const MAX_K: Distance = NodeIndex::MAX_DISTANCE;

/// The default distance of a method.
fn default_k(method: &Method) -> Distance {
    match method {
        // Its fingerprints are hashes: near but unequal ones are chance.
        Method::Verified => Distance(0),
        _ => Distance(3),
    }
}

/// The lines of a file without blanks around them; blank lines do not count.
fn sentences(path: &Path) -> Result<Vec<String>, ConfigError> {
    let text =
        small_file::read_regular(path).map_err(|source| ConfigError::Boilerplate { path: path.to_owned(), source })?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

impl Route {
    /// The patterns of its indices, as they were written.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.index.iter().map(|pattern| pattern.0.as_str())
    }

    /// The widest distance at which its texts are near.
    pub fn max_distance(&self) -> Distance {
        match self.method {
            Method::Short(_) => self.k.max(SHORT_TEXT_DISTANCE),
            _ => self.k,
        }
    }

    /// Validates that a shared forest can find near fingerprints at the method's distance.
    ///
    /// # Errors
    /// When [its distance](Self::max_distance) is no [`SharedDistance`].
    pub(super) fn can_be_shared(&self) -> Result<(), ConfigError> {
        let Err(refused) = SharedDistance::new(self.max_distance()) else {
            return Ok(());
        };
        let smaller = match self.method {
            Method::Short(_) => String::new(),
            _ => format!(", or a k of at most {}", SharedDistance::MAX.0),
        };
        let reason = format!(
            "the method {} {refused}: keep its forest in this process with --data-dir, or choose another method{smaller}",
            self.method
        );
        Err(ConfigError::option("forest_store", reason))
    }

    /// Whether documents of this index are stamped by this route.
    pub fn matches(&self, index: &str) -> bool {
        self.index.iter().any(|pattern| fits(&pattern.0, index))
    }

    /// Whether a name that fits this pattern may be one of an index of this route.
    pub fn may_match(&self, pattern: &str) -> bool {
        self.index.iter().any(|of| meets(&of.0, pattern))
    }

    /// All fields that a document's place depends on, but its date; one may come twice.
    pub fn content_fields(&self) -> impl Iterator<Item = &str> {
        let texts = self.text_fields.iter().map(String::as_str);
        texts.chain(self.title_field.as_deref()).chain(self.url_field.as_deref()).chain(self.method.own_field())
    }

    /// The fields that decide what the text of a document is. `None`: it reads none but the one that its method names,
    /// which the forest's identity has.
    fn text_is_from(&self) -> Option<TextFields> {
        // No other method looks at the address.
        let url = self.url_field.clone().filter(|_| self.method == Method::Staged);
        let fields = TextFields::new(self.text_fields.clone(), self.title_field.clone(), url);
        self.method.own_field().is_none().then_some(fields)
    }

    /// What these routes read into the forest of this name.
    pub fn fields_read(routes: &[Route], forest: &str) -> RoutedFields {
        let mut all = RoutedFields::default();
        for route in routes {
            let fields = route.text_is_from().filter(|_| route.forest == forest);
            route.patterns().for_each(|pattern| all.add(pattern, fields.clone()));
        }
        all
    }

    /// Routes that share a forest must read documents into the same kind of fingerprints.
    pub(super) fn agree_on_forests(routes: &[Route]) -> Result<(), ConfigError> {
        for (at, route) in routes.iter().enumerate() {
            let first = routes[..at].iter().find(|other| other.forest == route.forest);
            let sizes = |r: &Route| (r.max_tree, r.late_merges, r.founder_tokens_memory);
            let numbers = |r: &Route| (r.k, r.similarity, r.window, sizes(r));
            if first.is_some_and(|o| {
                (&o.method, numbers(o), &o.boilerplate) != (&route.method, numbers(route), &route.boilerplate)
            }) {
                return Err(ConfigError::option(
                    "forest",
                    format!(
                        "routes that share the forest '{}' need the same method, k, similarity, window, max-tree, \
                         founder-tokens-memory and boilerplate",
                        route.forest
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Every route takes an index that none before it takes.
    pub(super) fn none_is_shadowed(routes: &[Route]) -> Result<(), ConfigError> {
        for (at, route) in routes.iter().enumerate() {
            // A pattern that fits another one as it is written fits all of that one's names.
            let taker = |pattern: &IndexPattern| {
                let mut before = routes[..at].iter().flat_map(|earlier| &earlier.index);
                before.find(|earlier| fits(&earlier.0, &pattern.0))
            };
            let takers: Option<Vec<&IndexPattern>> = route.index.iter().map(taker).collect();
            if let (Some(takers), Some(own)) = (takers, route.index.first())
                && let Some(taker) = takers.first()
            {
                let reason = format!(
                    "no document comes to the route of {}: {} of a route before it takes them all; put the narrower \
                     pattern first (a route of flags or variables is before those of the file)",
                    own.0, taker.0
                );
                return Err(ConfigError::option("index", reason));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(index: &str) -> RawRoute {
        RawRoute { index: Some(vec![IndexPattern(index.into())]), ..Default::default() }
    }

    #[test]
    fn defaults_are_filled_in() {
        let route = options("news").validate("route").unwrap();
        assert_eq!(route.text_fields, ["content"]);
        assert_eq!(route.k, Distance(0));
        let longest = RawRoute { method: Some(Method::Longest), ..options("news") };
        assert_eq!(longest.validate("route").unwrap().k, Distance(3));
        assert_eq!(route.window, Some(Millis(30 * 86_400_000)));
        assert_eq!(route.clock, Clock::Arrival);
        assert_eq!(route.forest, "news");
        assert_eq!(route.time_field, None);
        let dated = RawRoute { clock: Some(Clock::Field("date".into())), ..options("news") };
        let time_field = dated.validate("route").unwrap().time_field;
        assert_eq!(time_field.as_deref(), Some("date"));
    }

    #[test]
    fn wrong_options_say_what_to_do() {
        let no_method = "magic".parse::<Method>().unwrap_err().to_string();
        let no_similarity = Similarity::new(1.5).unwrap_err().to_string();
        let no_field = "use the name of a field, dotted when nested, such as article.body";
        for (text, expected) in [
            ("", "route 2: index: give at least one index pattern, such as news-*"),
            ("index = []", "route 2: index: give at least one index pattern, such as news-*"),
            ("index = ['']", "use an index pattern, such as news-*"),
            ("clock = 'sundial'", "use arrival, field:NAME or none"),
            ("clock = 'field:'", "use arrival, field:NAME or none"),
            ("window = '30'", "use a whole number with ms, s, m, h or d, such as 30d, or none"),
            ("max_tree = 0", "use a number of documents, 1 or more, or none"),
            ("late_merges = 'always'", "use off, suggest or apply"),
            (
                "index = ['a']\nk = 17",
                "route 2: k: 17 is out of range: fingerprints of unrelated texts are near then; use 0 to 16",
            ),
            ("method = 'magic'", &no_method),
            ("similarity = 1.5", &no_similarity),
            (
                "index = ['a']\nsimilarity = 0.5\nmethod = 'full'",
                "route 2: similarity: the method full does not compare whole texts: use verified, or k",
            ),
            (
                "index = ['a']\nboilerplate = 'x'\nmethod = 'full'",
                "route 2: boilerplate: the method full does not leave out boilerplate: use verified",
            ),
            ("time_field = 'a..b'", no_field),
            ("medium_field = ''", no_field),
            ("language_field = '.a'", no_field),
            (
                "representative = 'best'",
                "takes relevance, newest, oldest, first, {\"field\": NAME} or {\"rank\": {…}}, not \"best\"",
            ),
            ("title_field = ''", no_field),
            ("url_field = 'a.'", no_field),
            ("text_field = ['a', '']", no_field),
            ("index = ['a']\nboilerplate = 'nowhere.txt'", "cannot read the boilerplate file nowhere.txt"),
        ] {
            let error = match toml::from_str::<RawRoute>(text) {
                Ok(raw) => raw.validate("route 2").unwrap_err().to_string(),
                Err(error) => error.message().to_owned(),
            };
            assert_eq!(error, expected, "{text}");
        }
    }

    #[test]
    fn an_option_is_set_as_the_command_line_would_set_it() {
        let set = |option, value| options("news").with(option, value);
        assert_eq!(set("k", "5").unwrap().k, Some(5));
        let full = set("similarity", "0.5").unwrap().with("method", "full");
        assert_eq!(full.unwrap().similarity, None);
        for (option, value, expected) in [
            ("k", "x", "k: 'x': invalid digit found in string"),
            ("similarity", "x", "similarity: 'x': use a ratio from 0 to 1, such as 0.43"),
            ("forest", "x", "forest: must be one of k, method, similarity, window"),
        ] {
            assert_eq!(set(option, value).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_similarity_reaches_the_route() {
        let similarity = |ratio: f32| {
            let written = format!("index = ['news']\nsimilarity = {ratio:?}");
            toml::from_str::<RawRoute>(&written).unwrap().validate("route").unwrap().similarity
        };
        assert_eq!(similarity(0.43), Similarity::default());
        assert_eq!(similarity(0.5), Similarity::new(0.5).unwrap());
        // Written as a whole number, and as the default, which must be the very default.
        for (written, ratio) in [("1", 1.0), ("0.43", 0.43)] {
            let read: RawRoute = toml::from_str(&format!("similarity = {written}")).unwrap();
            assert_eq!(read.similarity, Some(Similarity::new(ratio).unwrap()));
        }
    }

    #[test]
    fn a_route_that_gets_nothing_is_told() {
        let routes = |of: &[&[&str]]| {
            let raw = of.iter().map(|index| RawRoute {
                index: Some(index.iter().map(|of| IndexPattern((*of).into())).collect()),
                ..Default::default()
            });
            let routes = raw.map(|raw| raw.validate("route")).collect::<Result<Vec<_>, _>>().unwrap();
            Route::none_is_shadowed(&routes).map_err(|error| error.to_string())
        };
        for shadowed in
            [&[&["news-*"][..], &["news-de-*"]][..], &[&["*"], &["a"]], &[&["a", "b*"], &["b", "a"]], &[&["a"], &["a"]]]
        {
            let error = routes(shadowed).unwrap_err();
            assert!(error.contains("put the narrower pattern first"), "{error}");
        }
        for all in
            [&[&["news-de-*"][..], &["news-*"]][..], &[&["a", "b"], &["b", "c"]], &[&["*-a"], &["a-*"]], &[&["a*"]]]
        {
            assert_eq!(routes(all), Ok(()));
        }
    }

    #[test]
    fn routes_that_share_a_forest_must_agree() {
        let shared = |k, similarity: Option<f32>| {
            let similarity = similarity.map(|ratio| Similarity::new(ratio).unwrap());
            RawRoute { forest: Some("f".into()), k: Some(k), similarity, ..options("a") }.validate("r").unwrap()
        };
        let agree = |one, other| Route::agree_on_forests(&[one, other]);
        assert!(agree(shared(3, None), shared(3, Some(0.43))).is_ok());
        assert!(agree(shared(3, None), shared(4, None)).is_err());
        assert!(agree(shared(3, None), shared(3, Some(0.5))).is_err());
    }
}
