//! Opens the forests of the routes. The only place that knows which method needs which kind.

use std::sync::Arc;

use super::EngineError;
use super::forests::{ForestEntry, SHORT_TEXTS};
use super::stored::Stores;
use super::threads::TextThreads;
use crate::chance::nonce;
use crate::config::{Clock, OnRedisFailure, Route};
use crate::fingerprint::{Distance, FingerprintVersion};
use crate::forest::local::{ForestState, LocalForest};
use crate::forest::shared::keys::RedisClient;
use crate::forest::shared::{ForestSetup, SharedDistance, SharedForest, SharedSettings};
use crate::forest::{LocalFallback, Settings};
use crate::hash::HashKey;
use crate::method::{LearnedText, Method, MethodKind, Proof, Short, Staged, Strict, Verified};
use crate::store::{ForestIdentity, StoreError};
use crate::text_fields::{FieldRecord, RoutedFields};

/// The numbers of the forests of a route.
#[derive(Debug, Clone, Copy)]
pub(super) struct RouteForests {
    pub(super) forest: usize,
    /// Forest of its short texts, if the method separates them.
    pub(super) short: Option<usize>,
}

impl RouteForests {
    pub(super) fn has(self, forest: usize) -> bool {
        self.forest == forest || self.short == Some(forest)
    }
}

/// Opens the forests of routes.
pub(super) struct Opener {
    pub(super) threads: Arc<TextThreads>,
    /// Each forest has a key derived from it.
    pub(super) key: HashKey,
    pub(super) kept: ForestStorage,
}

/// Forests that have been opened, and those of each route, by their numbers.
type Opened = (Vec<ForestEntry>, Vec<RouteForests>);

impl Opener {
    /// Stores which fields the texts of these forests are read from, where forests are stored.
    ///
    /// # Errors
    /// When a record cannot be written.
    pub(super) fn record_fields(&self, entries: &[ForestEntry]) -> Result<(), StoreError> {
        match &self.kept {
            ForestStorage::Stored(stores) => stores.record_fields(entries),
            ForestStorage::InMemory | ForestStorage::Shared(..) => Ok(()),
        }
    }

    /// Opens each forest of the routes from `first` on once; none is a forest of the routes before. Reads those that
    /// are stored. `open`: the number of forests that are open.
    pub(super) fn open(&self, routes: &[Route], first: usize, open: usize) -> Result<Opened, EngineError> {
        let mut forests = Vec::new();
        let new = routes.get(first..).unwrap_or_default();
        let found = new.iter().map(|route| self.find_or_add(&mut forests, (routes, route), open));
        let found = found.collect::<Result<Vec<RouteForests>, _>>()?;
        for (at, entry) in forests.iter_mut().enumerate() {
            let mut routes = new.iter().zip(&found).filter(|(_, forests)| forests.has(open + at));
            entry.is_overridable = routes.clone().any(|(_, forests)| forests.short.is_none());
            entry.is_timed = routes.all(|(route, _)| route.clock == Clock::Arrival);
        }
        Ok((forests, found))
    }

    /// Finds the forests of a route; opens those that are not open yet.
    fn find_or_add(
        &self,
        forests: &mut Vec<ForestEntry>,
        (routes, route): (&[Route], &Route),
        open: usize,
    ) -> Result<RouteForests, EngineError> {
        type Make<'a> = &'a dyn Fn(Maker<'_>) -> Result<ForestEntry, EngineError>;
        let mut place = |name: String, make: Make<'_>| -> Result<usize, EngineError> {
            if let Some(at) = forests.iter().position(|entry| entry.name == name) {
                return Ok(open + at);
            }
            let fields = match &self.kept {
                // What is only carried from one place to another is not read.
                ForestStorage::Stored(stores) if stores.are_carried => RoutedFields::default(),
                _ => Route::fields_read(routes, &route.forest),
            };
            let number = open + forests.len();
            let key = self.key.derived(number as u64);
            forests.push(make(Maker { name: &name, route, fields, threads: &self.threads, key, kept: &self.kept })?);
            Ok(number)
        };
        let forest = place(route.forest.clone(), &|maker| maker.open())?;
        let Method::Short(_) = route.method else {
            return Ok(RouteForests { forest, short: None });
        };
        let short = format!("{}{SHORT_TEXTS}", route.forest);
        let short = place(short, &|maker| maker.open_short())?;
        Ok(RouteForests { forest, short: Some(short) })
    }
}

/// Parameters of a new forest.
struct Maker<'a> {
    name: &'a str,
    route: &'a Route,
    /// The fields that all of its routes read.
    fields: RoutedFields,
    threads: &'a Arc<TextThreads>,
    key: HashKey,
    kept: &'a ForestStorage,
}

/// Where forests are kept.
pub(super) enum ForestStorage {
    /// In memory only.
    InMemory,
    /// There, and on the disk.
    Stored(Stores),
    /// In Redis, shared by several processes, with the handling of its outages.
    Shared(Arc<dyn RedisClient>, OnRedisFailure),
}

/// Identity of a forest whose documents have their own dates.
pub(super) const DATED: &str = "clock=field";

impl Maker<'_> {
    /// Opens the forest of a route; for `short`, that of its longer texts.
    fn open(&self) -> Result<ForestEntry, EngineError> {
        let route = self.route;
        match route.method {
            Method::Verified => {
                let seeds = || route.boilerplate.iter().map(String::as_str);
                let learned = LearnedText::seeded(seeds());
                let similarity = route.similarity;
                self.make::<Verified>(route.k, similarity, learned, |learned| {
                    learned.seed(seeds());
                })
            }
            Method::Staged => self.make::<Staged>(route.k, (), (), |()| ()),
            Method::Longest | Method::Full(_) | Method::Sentences(_) | Method::Short(_) | Method::Field(_) => {
                self.make::<Strict>(route.k, (), (), |()| ())
            }
        }
    }

    /// Opens the forest of a route's short texts.
    fn open_short(&self) -> Result<ForestEntry, EngineError> {
        self.make::<Short>(self.route.max_distance(), (), (), |()| ())
    }

    /// Opens a forest of this method kind; `seed` adds initial lessons to the learned text of a stored one.
    fn make<F: MethodKind>(
        &self,
        k: Distance,
        thresholds: <F::Proof as Proof>::Thresholds,
        learned: F::Learned,
        seed: impl FnOnce(&mut F::Learned),
    ) -> Result<ForestEntry, EngineError> {
        let settings = Settings { k, window: self.route.window, key: self.key };
        let threads = self.threads.clone();
        let (mut identity, mut salvaged) = (self.identity(k), None);
        let mut fields = self.fields.recorded();
        let local = match self.kept {
            ForestStorage::Shared(keys, on_loss) => {
                let shared = self.share::<F>(k, thresholds, learned, keys)?;
                if *on_loss == OnRedisFailure::Refuse {
                    return Ok(shared);
                }
                let mut learned = F::Learned::default();
                seed(&mut learned);
                let local = LocalForest::<F>::new(self.name, settings, thresholds, learned, threads)?
                    .with_founder_tokens(self.route.founder_tokens_memory)
                    .with_max_tree(self.route.max_tree);
                let local = Arc::new(local);
                return Ok(ForestEntry {
                    port: Arc::new(LocalFallback::new(shared.port, local.clone())),
                    local: Some(local),
                    ..shared
                });
            }
            ForestStorage::InMemory => LocalForest::<F>::new(self.name, settings, thresholds, learned, threads)?
                .with_founder_tokens(self.route.founder_tokens_memory),
            ForestStorage::Stored(stores) => {
                // If the stored forest is read twice, the second reading starts from what `seed` ensures.
                let mut learned = Some(learned);
                let empty = || {
                    let learned = learned.take().unwrap_or_default();
                    let empty = ForestState::<F>::new(settings, thresholds, learned)?;
                    Ok(empty.with_founder_tokens(self.route.founder_tokens_memory))
                };
                let (local, stored, filled) = stores.open((&identity, &self.fields), empty, seed, threads)?;
                (identity, fields) = (stored, filled);
                if stores.is_salvaged(self.name) {
                    salvaged = Some(stores.data_dir.clone());
                }
                local
            }
        };
        let copied = local.copied();
        let local = Arc::new(local.with_max_tree(self.route.max_tree).with_late_merges(self.route.late_merges));
        Ok(ForestEntry {
            name: self.name.to_owned(),
            k,
            identity,
            fields,
            copied: Some(copied),
            salvaged,
            port: local.clone(),
            local: Some(local),
            shared: None,
            is_timed: false,
            is_overridable: false,
        })
    }

    /// Opens it as a shared forest.
    fn share<F: MethodKind>(
        &self,
        k: Distance,
        thresholds: <F::Proof as Proof>::Thresholds,
        learned: F::Learned,
        keys: &Arc<dyn RedisClient>,
    ) -> Result<ForestEntry, EngineError> {
        let route = self.route;
        let settings = SharedSettings {
            // Without a clock nothing expires.
            window: route.window.filter(|_| route.clock != Clock::None),
            max_tree: route.max_tree,
            founder_token_bytes: match F::KEEPS_FOUNDER_TOKENS {
                true => route.founder_tokens_memory,
                false => 0,
            },
        };
        let identity = self.identity(k);
        let of = identity.settings().map(|(key, value)| format!("{key}={value}"));
        let window = settings.window.map_or(0, |window| window.0);
        let is_dated = matches!(route.clock, Clock::Field(_));
        let clock = is_dated.then(|| DATED.to_owned());
        let of = of.chain([format!("window={window}ms")]).chain(clock);
        let of: Vec<String> = of.collect();
        let shared = SharedForest::<F>::new(
            ForestSetup { name: self.name, identity: &of.join(" "), settings, thresholds, learned },
            self.threads.clone(),
            keys.clone(),
            nonce(),
        )
        .with_distance(SharedDistance::new(k)?)
        .with_late_merges(route.late_merges)
        .with_fields(self.fields.clone());
        let shared = Arc::new(if is_dated { shared.dated() } else { shared });
        Ok(ForestEntry {
            name: self.name.to_owned(),
            k,
            identity,
            fields: FieldRecord::default(),
            copied: None,
            salvaged: None,
            port: shared.clone(),
            local: None,
            shared: Some(shared),
            is_timed: false,
            is_overridable: false,
        })
    }

    /// The identity of a new forest: the settings on which fingerprints and trees depend.
    fn identity(&self, k: Distance) -> ForestIdentity {
        ForestIdentity::new(self.name)
            .with("method", &self.route.method)
            .with("k", k.0)
            .with(FingerprintVersion::SETTING, FingerprintVersion::CURRENT)
    }
}
