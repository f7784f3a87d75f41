//! The forests that the routes ask for. The one place that knows which method needs which kind.

use std::sync::Arc;

use super::threads::TextThreads;
use crate::config::Route;
use crate::fingerprint::Distance;
use crate::forest::local::Local;
use crate::forest::port::Port;
use crate::forest::{ForestError, Settings};
use crate::hash::HashKey;
use crate::method::{LearnedText, Method, Short, Staged, Strict, Verified, WIDE};

/// A forest by name.
#[derive(Debug)]
pub(super) struct ForestEntry {
    pub(super) name: String,
    /// Fingerprints at most this far apart are near in it.
    pub(super) k: Distance,
    pub(super) port: Arc<dyn Port>,
}

/// The places of a route's forest and of that of its short texts, if its method sets them apart. They are made if they
/// are not there, each with a secret of its own made of `key`.
pub(super) fn find_or_add(
    forests: &mut Vec<ForestEntry>,
    route: &Route,
    threads: &Arc<TextThreads>,
    key: HashKey,
) -> Result<(usize, Option<usize>), ForestError> {
    type Make<'a> = &'a dyn Fn(&str, HashKey) -> Result<ForestEntry, ForestError>;
    let mut place = |name: String, make: Make<'_>| -> Result<usize, ForestError> {
        if let Some(at) = forests.iter().position(|entry| entry.name == name) {
            return Ok(at);
        }
        let key = key.derived(forests.len() as u64);
        forests.push(make(&name, key)?);
        Ok(forests.len() - 1)
    };
    let forest = place(route.forest.clone(), &|name, key| {
        open(name, route, threads, key)
    })?;
    let Method::Short(_) = route.method else {
        return Ok((forest, None));
    };
    let short = format!("{} (short texts)", route.forest);
    let short = place(short, &|name, key| open_short(name, route, threads, key))?;
    Ok((forest, Some(short)))
}

/// What a route asks for; for `short`, where its longer texts stand.
fn open(
    name: &str,
    route: &Route,
    threads: &Arc<TextThreads>,
    key: HashKey,
) -> Result<ForestEntry, ForestError> {
    let settings = Settings {
        k: route.k,
        window: route.window,
        key,
    };
    let threads = threads.clone();
    let port: Arc<dyn Port> = match route.method {
        Method::Verified => {
            let learned = LearnedText::seeded(route.boilerplate.iter().map(String::as_str));
            let similarity = route.similarity;
            let local = Local::<Verified>::new(name, settings, similarity, learned, threads)?;
            Arc::new(local.with_max_tree(route.max_tree))
        }
        Method::Staged => {
            let local = Local::<Staged>::new(name, settings, (), (), threads)?;
            Arc::new(local.with_max_tree(route.max_tree))
        }
        Method::Longest
        | Method::Full(_)
        | Method::Sentences(_)
        | Method::Short(_)
        | Method::Field(_) => {
            let local = Local::<Strict>::new(name, settings, (), (), threads)?;
            Arc::new(local.with_max_tree(route.max_tree))
        }
    };
    Ok(ForestEntry {
        name: name.to_owned(),
        k: settings.k,
        port,
    })
}

/// A forest for the short texts of a route, beside the one for its longer texts.
fn open_short(
    name: &str,
    route: &Route,
    threads: &Arc<TextThreads>,
    key: HashKey,
) -> Result<ForestEntry, ForestError> {
    let settings = Settings {
        k: route.k.max(WIDE),
        window: route.window,
        key,
    };
    let port = Local::<Short>::new(name, settings, (), (), threads.clone())?;
    Ok(ForestEntry {
        name: name.to_owned(),
        k: settings.k,
        port: Arc::new(port.with_max_tree(route.max_tree)),
    })
}
