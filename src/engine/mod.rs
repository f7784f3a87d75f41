//! Joins the pure rooms: bytes and `now` in, splices out; the answers of the cluster in, withdrawals out.
//!
//! A bulk is worked off in segments. In each, documents are read and turned into fingerprints on all threads, then
//! placed one after the other in their order under the forests' locks: the order of documents inside a bulk is the
//! order of placement.

mod check;
mod learned;
mod meeting;
mod place;
mod settle;
mod stamped;
#[cfg(test)]
mod tests;
mod trees;

pub use check::{CheckError, Checked, CheckedTree, Fate, LookedUp, Measure};
pub use meeting::Meeting;
pub use settle::{Placed, Settled, Verdict};
pub use stamped::{Refused, Stamped, Tally};

use std::ops::Range;

use rayon::prelude::*;
use xxhash_rust::xxh3::Xxh3;

use crate::bulk::{
    self, BulkError, Cut, Document, FieldNames, Item, JsonError, Op, Part, Selected, Selection,
    SelectionError, StampNames,
};
use crate::config::{Clock, Route};
use crate::fingerprint::Fingerprint;
use crate::forest::{ForestError, Stats};
use crate::method::{Attributes, Features, Method, Workspace};
use crate::text;
use crate::time::Millis;
use trees::{Trees, find_or_add};

/// Items and bytes of sources that are read at once: enough to keep all threads busy, few enough to bound what stands
/// between reading and placing.
const SEGMENT: usize = 4096;
const SEGMENT_BYTES: usize = 8 << 20;

/// Why the engine cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Selection(#[from] SelectionError),
    #[error(transparent)]
    Forest(#[from] ForestError),
    #[error("cannot start the threads for text work: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// Why a body is passed on as it came.
#[derive(Debug, thiserror::Error)]
pub enum NotUnderstood {
    #[error("the bulk is not understood: {0}")]
    Bulk(#[from] BulkError),
    #[error("the document is not understood: {0}")]
    Document(#[from] JsonError),
    #[error("the body cannot be unpacked: {0}")]
    Packing(String),
}

/// What a request brings along besides its body.
#[derive(Debug, Clone, Copy)]
pub struct RequestContext {
    /// When the request arrived.
    pub now: Millis,
    /// A later date in a document is taken for this: one document from 2099 must not expire all others.
    pub latest: Millis,
    /// Differs for every request: names the roots of documents that have neither text nor id.
    pub unique: u64,
}

/// Everything that is needed to stamp: routes, forests, threads.
pub struct Engine {
    routes: Vec<Bound>,
    forests: Vec<(String, Trees)>,
    names: StampNames,
    pool: rayon::ThreadPool,
    tells_meetings: bool,
}

/// A route bound to its forest.
struct Bound {
    route: Route,
    selection: Selection,
    forest: usize,
    /// Where its short texts stand, if the method sets them apart.
    short: Option<usize>,
}

impl Bound {
    /// The forest that a document stands in.
    fn forest_of(&self, features: Option<&Features>) -> usize {
        match features {
            Some(Features::Short(_)) => self.short.unwrap_or(self.forest),
            _ => self.forest,
        }
    }
}

/// One object to stamp, read and turned into fingerprints, not yet placed.
struct Prepared {
    item: usize,
    route: usize,
    /// Where it stands in the body.
    object: Range<usize>,
    cut: Cut,
    features: Option<Features>,
    date: Option<Millis>,
    /// A partial update: its stamp must not change while its text does not, or `detect_noop` would never see a noop.
    partial: bool,
    /// Root of a document without usable text.
    own_root: u64,
}

/// An item read: nothing to do, or up to two objects (an update's `doc` and `upsert`).
#[derive(Default)]
struct Read {
    objects: [Option<Prepared>; 2],
    unstamped: bool,
}

impl Engine {
    /// `threads`: 0 means all cores.
    ///
    /// # Errors
    /// When a route's fields or settings cannot be used.
    pub fn new(routes: &[Route], prefix: &str, threads: usize) -> Result<Engine, EngineError> {
        let mut forests: Vec<(String, Trees)> = Vec::new();
        let mut bound = Vec::with_capacity(routes.len());
        for route in routes {
            let forest = find_or_add(&mut forests, route.forest.clone(), || Trees::new(route))?;
            let short = match route.method {
                Method::Short(_) => Some(find_or_add(
                    &mut forests,
                    format!("{} (short texts)", route.forest),
                    || Trees::short(route),
                )?),
                _ => None,
            };
            let text: Vec<&str> = route.text_fields.iter().map(String::as_str).collect();
            let clock = if let Clock::Field(name) = &route.clock {
                Some(name.as_str())
            } else {
                None
            };
            let fields = FieldNames {
                text: &text,
                title: route.title_field.as_deref(),
                id: route.id_field.as_deref(),
                clock,
                url: route.url_field.as_deref(),
                own: route.method.own_field(),
            };
            bound.push(Bound {
                selection: Selection::new(&fields, prefix)?,
                route: route.clone(),
                forest,
                short,
            });
        }
        for route in routes {
            // Dictionaries take a moment to load: not on the first request's time.
            route.method.warm_up();
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|n| format!("text-{n}"))
            .build()?;
        Ok(Engine {
            routes: bound,
            forests,
            names: StampNames::new(prefix)?,
            pool,
            tells_meetings: false,
        })
    }

    /// Whether anything can be stamped at all.
    pub fn has_routes(&self) -> bool {
        !self.routes.is_empty()
    }

    /// Whether documents of this index are stamped.
    pub fn routes(&self, index: &str) -> bool {
        self.route(index).is_some()
    }

    fn route(&self, index: &str) -> Option<usize> {
        self.routes
            .iter()
            .position(|bound| bound.route.matches(index))
    }

    /// Runs a job on the engine's threads.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        self.pool.spawn(job);
    }

    /// Name and state of every forest.
    pub fn forests(&self) -> impl Iterator<Item = (&str, Stats)> {
        self.forests
            .iter()
            .map(|(name, forest)| (name.as_str(), forest.lock().stats()))
    }

    /// Removes expired nodes, at most `budget` of each forest whose clock is the arrival.
    pub fn expire(&self, now: Millis, budget: usize) {
        for (at, (_, forest)) in self.forests.iter().enumerate() {
            let ticks = self.routes.iter().all(|b| {
                (b.forest != at && b.short != Some(at)) || b.route.clock == Clock::Arrival
            });
            if ticks {
                forest.lock().expire(now, budget);
            }
        }
    }

    /// Stamps the documents of a bulk body. `index` is the one in the path.
    ///
    /// # Errors
    /// When the body cannot be read as a bulk: the server will say what is wrong with it.
    pub fn stamp_bulk(
        &self,
        body: &[u8],
        index: Option<&str>,
        call: RequestContext,
    ) -> Result<Stamped, NotUnderstood> {
        Ok(self.stamp_items(body, &bulk::parse(body)?, index, call))
    }

    /// Stamps a body that is one document (or one update).
    ///
    /// # Errors
    /// When the body is not a JSON object.
    pub fn stamp_document(
        &self,
        body: &[u8],
        op: Op,
        index: &str,
        id: Option<&str>,
        call: RequestContext,
    ) -> Result<Stamped, NotUnderstood> {
        let item = Item {
            op,
            index: Some(index.into()),
            id: id.map(Into::into),
            routing: None,
            action: 0..0,
            source: Some(0..body.len()),
        };
        if let Some(route) = self.route(index) {
            match op {
                Op::Update => bulk::scan_update(body).map(drop)?,
                _ => bulk::scan(body, &self.routes[route].selection).map(drop)?,
            }
        }
        Ok(self.stamp_items(body, std::slice::from_ref(&item), None, call))
    }

    /// Stamps a body of one document a line, all of one route. Blank lines stay.
    pub fn stamp_lines(&self, body: &[u8], call: RequestContext) -> Stamped {
        let mut items = Vec::new();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', body).chain(std::iter::once(body.len())) {
            if body
                .get(start..end)
                .is_some_and(|line| !line.trim_ascii().is_empty())
            {
                let source = Some(start..end);
                items.push(Item {
                    op: Op::Index,
                    index: None,
                    id: None,
                    routing: None,
                    action: 0..0,
                    source,
                });
            }
            start = end + 1;
        }
        self.stamp_items(body, &items, Some(""), call)
    }

    fn stamp_items(
        &self,
        body: &[u8],
        items: &[Item<'_>],
        index: Option<&str>,
        call: RequestContext,
    ) -> Stamped {
        let ops = items.iter().map(|item| item.op).collect();
        let mut stamped = Stamped {
            placed: Placed {
                ops,
                held: Vec::new(),
            },
            meetings: self.tells_meetings.then(Vec::new),
            ..Stamped::default()
        };
        let mut first = 0;
        while let Some(rest) = items.get(first..).filter(|rest| !rest.is_empty()) {
            let segment = rest.get(..segment(rest)).unwrap_or(rest);
            let read: Vec<Read> = self.pool.install(|| {
                segment
                    .par_iter()
                    .enumerate()
                    .with_min_len(16)
                    .map_init(Workspace::default, |workspace, (at, item)| {
                        self.read(body, first + at, item, index, call, workspace)
                            .unwrap_or_else(|_| Read {
                                unstamped: true,
                                ..Read::default()
                            })
                    })
                    .collect()
            });
            first += segment.len();
            self.place(read, call, &mut stamped);
        }
        stamped
    }

    /// Reads one item; an error leaves it unstamped.
    fn read(
        &self,
        body: &[u8],
        at: usize,
        item: &Item<'_>,
        index: Option<&str>,
        call: RequestContext,
        workspace: &mut Workspace,
    ) -> Result<Read, JsonError> {
        let mut read = Read::default();
        let index = item.index.as_deref().or(index);
        let (Some(index), Some(source)) = (index, item.source.clone()) else {
            return Ok(read);
        };
        let Some(route) = self.route(index) else {
            return Ok(read);
        };
        let bytes = body.get(source.clone()).unwrap_or_default();
        let own_root = own_root(index, item.id.as_deref(), call.unique, at);
        if item.op != Op::Update {
            read.objects[0] = Some(
                self.prepare(bytes, source.start, at, route, own_root, workspace)?
                    .0,
            );
            return Ok(read);
        }
        let update = bulk::scan_update(bytes)?;
        for (slot, (part, range)) in read.objects.iter_mut().zip(update.parts()) {
            let object = bytes.get(range.clone()).unwrap_or_default();
            let (mut prepared, has_text) = self.prepare(
                object,
                source.start + range.start,
                at,
                route,
                own_root,
                workspace,
            )?;
            prepared.partial = part == Part::Doc;
            // A partial update without the text leaves the stamp of the stored document alone.
            if has_text || part == Part::Upsert {
                *slot = Some(prepared);
            }
        }
        read.unstamped = read.objects.iter().all(Option::is_none);
        Ok(read)
    }

    /// Reads one object into fingerprints; also says whether it has a text field at all.
    fn prepare(
        &self,
        object: &[u8],
        base: usize,
        item: usize,
        route: usize,
        own_root: u64,
        workspace: &mut Workspace,
    ) -> Result<(Prepared, bool), JsonError> {
        let Bound {
            route: options,
            selection,
            ..
        } = &self.routes[route];
        let document = bulk::scan(object, selection)?;
        let texts = texts(&document);
        let fields = text::Fields {
            title: document.first(Selected::Title),
            body: &texts,
        };
        let brought = Attributes {
            url: document.first(Selected::Url),
            own: document
                .value(Selected::Own)
                .and_then(|own| Fingerprint::written(&own.text, own.quoted)),
        };
        let features = options.method.read_with(&fields, brought, workspace);
        let date = document
            .first(Selected::Clock)
            .and_then(crate::time::parse_date);
        let has_text = match &options.method {
            Method::Field(_) => brought.own.is_some(),
            _ => document.has_text(),
        };
        Ok((
            Prepared {
                item,
                route,
                object: base..base + object.len(),
                cut: document.cut,
                features,
                date,
                partial: false,
                own_root,
            },
            has_text,
        ))
    }
}

/// What the text fields of a document hold.
fn texts<'d>(document: &'d Document<'_>) -> Vec<&'d str> {
    let values = document.values.iter();
    let texts = values.filter(|value| matches!(value.selected, Selected::Text(_)));
    texts.map(|value| &*value.text).collect()
}

/// How many of these items are read at once; at least one.
fn segment(items: &[Item<'_>]) -> usize {
    let mut bytes = 0;
    let small = items.iter().take(SEGMENT).take_while(|item| {
        bytes += item.source.as_ref().map_or(0, ExactSizeIterator::len);
        bytes <= SEGMENT_BYTES
    });
    small.count().max(1)
}

/// The root of a document without usable text: `collapse` takes all documents without the field for one group, so it
/// gets one of its own.
fn own_root(index: &str, id: Option<&str>, unique: u64, at: usize) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(index.as_bytes());
    match id {
        Some(id) => {
            hash.update(&[0]);
            hash.update(id.as_bytes());
        }
        None => {
            hash.update(&[1]);
            hash.update(&unique.to_le_bytes());
            hash.update(&at.to_le_bytes());
        }
    }
    hash.digest()
}
