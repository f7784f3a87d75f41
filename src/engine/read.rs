//! Reads the bytes of a body into features, on all threads and without a forest.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::RequestContext;
use super::index_names::IndexNames;
use super::routes::{BoundRoute, Routes};
use super::threads::JobWaiter;
use crate::bulk::{self, Cut, Item, JsonError, Op, ParsedDocument, Selected, UpdatePart};
use crate::config::{Clock, Route, StampForm};
use crate::fingerprint::Fingerprint;
use crate::forest::DocumentHash;
use crate::forest::document::{DocumentTime, ForestDocument};
use crate::method::{Attributes, Features, Method, OwnText, OwnTokens, VerifiedFeatures, Workspace};
use crate::text::{self, Scratch};
use crate::time::{Millis, parse_date};

/// Items and source bytes read at once: enough to keep all threads busy, few enough to bound the memory between
/// reading and placing.
const BATCH: usize = 4096;
pub(super) const BATCH_BYTES: usize = 2 << 20;

/// Source bytes of an unverified writer read at once: verified writers wait for no more than this.
const UNVERIFIED_BATCH_BYTES: usize = 256 << 10;

/// Fewer items than this are not worth a thread.
const SPLIT: usize = 16;

/// Nor are fewer source bytes than this: about half a millisecond, for which a connection's own thread may work.
const SHORT_BYTES: usize = 32 << 10;

/// An item of a body and where it belongs.
#[derive(Debug, Clone)]
pub(super) struct WorkItem {
    pub(super) op: Op,
    /// Range of its source in the body, if it has one that a route stamps.
    source: Option<Range<usize>>,
    route: Option<usize>,
    /// A hash of the name of its index.
    index: u64,
    /// The root of a document without usable text.
    own_root: u64,
    id: DocumentHash,
    /// A partial update of it has all that the document has of the route's fields.
    is_whole: bool,
}

/// One object to stamp, read and turned into features, not yet placed.
#[derive(Debug)]
pub(super) struct PreparedDocument {
    /// Place of its item in the body.
    pub(super) item: usize,
    pub(super) route: usize,
    /// Its range in the body.
    pub(super) object: Range<usize>,
    pub(super) cut: Cut,
    /// `None` once they were handed to the forest, too.
    pub(super) features: Option<Features>,
    /// The hashes of a full stamp; empty for a lean one.
    pub(super) hashes: Vec<u64>,
    pub(super) proof: Option<String>,
    pub(super) forest: usize,
    pub(super) when: DocumentTime,
    pub(super) title: Option<u32>,
    /// A partial update: its stamp must not change while its text does not, or `detect_noop` would never see a noop.
    pub(super) partial: bool,
    /// A partial update that makes the document where there is none.
    pub(super) creates: bool,
    pub(super) own_root: u64,
    /// Which document it is, as far as the request says.
    pub(super) id: DocumentHash,
    /// Hash of the name of its index in the request.
    pub(super) name: u64,
}

impl PreparedDocument {
    /// It, for a forest, once: its features go along.
    pub(super) fn take_for_forest(&mut self) -> ForestDocument {
        ForestDocument { features: self.features.take(), when: self.when, title: self.title, id: self.id, given: None }
    }
}

/// A read item: its documents, up to two (an update's `doc` and `upsert`).
#[derive(Debug, Default)]
pub(super) struct ReadItem {
    pub(super) objects: [Option<PreparedDocument>; 2],
    /// Its place in the body.
    pub(super) item: usize,
    /// Why the item of a routed index is forwarded without a stamp.
    pub(super) unstamped: Option<Unstamped>,
}

/// Why a document of a routed index is forwarded without a stamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unstamped {
    /// The cluster reports the error.
    #[error("the source is not understood: {0}")]
    Source(#[from] JsonError),
    /// An update without the text, which keeps the stored stamp.
    #[error("the update does not carry the text")]
    NoTextInUpdate,
    /// The stamp has no place in the source.
    #[error("{0}")]
    Splice(#[from] bulk::SpliceError),
}

impl Unstamped {
    /// Whether a server may store the document without a stamp.
    pub fn may_be_stored(&self) -> bool {
        match self {
            Unstamped::Source(error) => error.may_be_taken(),
            Unstamped::NoTextInUpdate => false,
            Unstamped::Splice(_) => true,
        }
    }
}

/// The items of a body, and the names of indices for which there is no route as they are written.
#[derive(Debug)]
pub struct Parsed {
    pub(super) items: Vec<WorkItem>,
    /// Each with its hash; the first few.
    pub(super) unrouted: Vec<(u64, String)>,
    pub(super) is_bulk: bool,
}

/// Most unrouted index names that are kept for alias resolution.
const MOST_UNROUTED: usize = 64;

/// The longest of them, in bytes.
const LONGEST_NAME: usize = 1024;

impl Parsed {
    /// Names of indices for which there is no route; the first few.
    pub fn unrouted(&self) -> impl Iterator<Item = &str> {
        self.unrouted.iter().map(|(_, name)| name.as_str())
    }

    /// Routes the items of the alias `name` as those of its index.
    pub fn resolve_alias(&mut self, routes: &Routes, name: &str, index: &str) {
        let hash = xxh3_64(name.as_bytes());
        let Some(route) = routes.find(index) else {
            return;
        };
        let meant = self.items.iter_mut().filter(|item| item.index == hash);
        for item in meant {
            item.route.get_or_insert(route);
        }
    }

    /// Treats partial updates as whole documents: backfill sends all of the route's fields. An update without the
    /// text is then a document without text, and no stored stamp gives its arrival.
    pub fn updates_are_whole(&mut self) {
        for item in &mut self.items {
            item.is_whole = true;
        }
    }
}

impl WorkItem {
    /// Its source and its route, if there is something to stamp.
    pub(super) fn wanted(&self) -> Option<(Range<usize>, usize)> {
        Some((self.source.clone()?, self.route?))
    }

    /// How many of these items are read at once; at least one.
    pub(super) fn batch(items: &[WorkItem], stranger: bool) -> usize {
        let most = if stranger { UNVERIFIED_BATCH_BYTES } else { BATCH_BYTES };
        let mut bytes = 0;
        let small = items.iter().take(BATCH).take_while(|item| {
            bytes += item.wanted().map_or(0, |(source, _)| source.len());
            bytes <= most
        });
        small.count().max(1)
    }

    /// Whether these items are few enough to be read on the request's thread.
    pub(super) fn is_short(items: &[WorkItem]) -> bool {
        let sources = items.iter().filter_map(|item| item.source.as_ref());
        items.len() <= SPLIT && sources.map(Range::len).sum::<usize>() <= SHORT_BYTES
    }
}

/// What the name of an index in a request stands for.
#[derive(Debug, Clone, Copy, Default)]
struct IndexTarget {
    /// Hash of the name.
    hash: u64,
    /// Byte of the index that it means.
    byte: u8,
    route: Option<usize>,
}

/// Reads documents: their text becomes features, on all threads.
#[derive(Clone)]
pub(super) struct DocumentReader {
    pub(super) routes: Arc<Routes>,
    pub(super) form: StampForm,
    pub(super) names: Arc<IndexNames>,
}

impl DocumentReader {
    /// The items of a body with their routes. `index` is the one in the path.
    pub(super) fn work_items(&self, items: &[Item<'_>], index: Option<&str>, context: RequestContext) -> Parsed {
        // Neighbours mostly go to the same index.
        let mut last: Option<(&str, IndexTarget)> = None;
        let mut unrouted: Vec<(u64, String)> = Vec::new();
        let items = items.iter().enumerate().map(|(at, item)| {
            let index = item.index.as_deref().or(index);
            let IndexTarget { hash, byte, route } = match (index, last) {
                (None, _) => IndexTarget::default(),
                (Some(index), Some((name, target))) if name == index => target,
                (Some(index), _) => {
                    let (hash, route) = (xxh3_64(index.as_bytes()), self.routes.find_at(index, context.now));
                    let is_known = unrouted.iter().any(|&(known, _)| known == hash);
                    let is_name = index.len() <= LONGEST_NAME;
                    if route.is_none() && !is_known && is_name && unrouted.len() < MOST_UNROUTED {
                        unrouted.push((hash, index.to_owned()));
                    }
                    let target = IndexTarget { hash, byte: self.names.index(hash), route };
                    last = Some((index, target));
                    target
                }
            };
            let own_root = index.map_or(0, |index| own_root(index, item.id.as_deref(), context.unique, at));
            let id = item.id.as_deref().map_or(DocumentHash::UNKNOWN, |id| DocumentHash::of_byte(byte, id));
            WorkItem { op: item.op, source: item.source.clone(), route, index: hash, own_root, id, is_whole: false }
        });
        Parsed { items: items.collect(), unrouted, is_bulk: true }
    }

    /// Adds whole documents to the field sample of their routes; partial updates lack fields.
    pub(super) fn note_first(&self, body: &[u8], items: &[WorkItem], batch: Range<usize>) {
        for item in items.get(batch).unwrap_or_default().iter().filter(|item| item.op != Op::Update) {
            if let Some((source, route)) = item.wanted()
                && let Some(bound) = self.routes.bound.get(route)
            {
                bound.first_documents.note(&bound.route, body.get(source).unwrap_or_default());
            }
        }
    }

    /// Reads some items of a body on all threads. An item that cannot be read gives the reason.
    pub(super) fn read_batch(
        &self,
        body: &[u8],
        items: &[WorkItem],
        batch: Range<usize>,
        context: RequestContext,
        wanted: &JobWaiter,
    ) -> Vec<ReadItem> {
        let first = batch.start;
        let items = items.get(batch).unwrap_or_default();
        let read = |workspace: &mut Workspace, (at, item)| {
            // The client is gone: the result is not needed.
            if !wanted.is_so() {
                return ReadItem::default();
            }
            let read = self.read(body, first + at, item, context, workspace);
            let read = read.unwrap_or_else(|error| ReadItem { unstamped: Some(error.into()), ..ReadItem::default() });
            ReadItem { item: first + at, ..read }
        };
        if items.len() <= SPLIT {
            // A parallel iterator would go to other threads than those of the text, if it were used by none of them.
            let workspace = &mut Workspace::default();
            return items.iter().enumerate().map(|item| read(workspace, item)).collect();
        }
        items.par_iter().enumerate().with_min_len(SPLIT).map_init(Workspace::default, read).collect()
    }

    /// Reads one item.
    fn read(
        &self,
        body: &[u8],
        at: usize,
        item: &WorkItem,
        context: RequestContext,
        workspace: &mut Workspace,
    ) -> Result<ReadItem, JsonError> {
        let mut read = ReadItem::default();
        let Some((source, route)) = item.wanted() else {
            return Ok(read);
        };
        let bytes = body.get(source.clone()).unwrap_or_default();
        let document =
            DocumentContext { item: at, route, own_root: item.own_root, id: item.id, name: item.index, context };
        let mut prepare = |range: Range<usize>| {
            let object = bytes.get(range.clone()).unwrap_or_default();
            self.prepare(object, source.start + range.start, &document, workspace)
        };
        if item.op != Op::Update {
            read.objects[0] = Some(prepare(0..bytes.len())?.0);
            return Ok(read);
        }
        let update = bulk::scan_update(bytes)?;
        for (slot, (part, range)) in read.objects.iter_mut().zip(update.parts()) {
            let (mut prepared, has_text) = prepare(range.clone())?;
            prepared.partial = part == UpdatePart::Doc && !item.is_whole;
            prepared.creates = update.doc_as_upsert;
            // A partial update without the text leaves the stamp of the stored document alone.
            if has_text || item.is_whole || part == UpdatePart::Upsert {
                *slot = Some(prepared);
            }
        }
        if read.objects.iter().all(Option::is_none) {
            read.unstamped = Some(Unstamped::NoTextInUpdate);
        }
        Ok(read)
    }

    /// Reads one object into features; `base`: its offset in the body. Also returns whether it has a text field.
    fn prepare(
        &self,
        object: &[u8],
        base: usize,
        of: &DocumentContext,
        workspace: &mut Workspace,
    ) -> Result<(PreparedDocument, bool), JsonError> {
        let bound = &self.routes.bound[of.route];
        let BoundRoute { route, selection, found_fields, .. } = bound;
        let document = bulk::scan(object, selection)?;
        found_fields.note(route, &document);
        let (features, title) = features(route, &document, workspace);
        let date = document.first(Selected::Clock).and_then(parse_date);
        let has_text = match &route.method {
            Method::Field(_) => own(&document).is_some(),
            _ => document.has_text(),
        };
        // Forests keep their own copy: members that no stamp shows are not computed again.
        let shown = features.as_ref().filter(|_| self.form == StampForm::Full);
        let prepared = PreparedDocument {
            item: of.item,
            route: of.route,
            object: base..base + object.len(),
            hashes: shown.map(Features::hashes).unwrap_or_default(),
            proof: shown.and_then(Features::proof),
            forest: bound.forest_of(features.as_ref()),
            when: when(&route.clock, date, of.context),
            title,
            features,
            cut: document.cut,
            partial: false,
            creates: false,
            own_root: of.own_root,
            id: of.id,
            name: of.name,
        };
        Ok((prepared, has_text))
    }

    /// Those sentences of a document, cleaned, that have these numbers in it. Forests know sentences by their hashes
    /// only, so the few documents concerned are read a second time.
    pub(super) fn sentences(&self, object: &[u8], route: usize, wanted: &[usize]) -> Vec<String> {
        let read = |fields: &text::Fields<'_>| {
            let sentences = VerifiedFeatures::new().sentences(&mut Scratch::new(), fields);
            wanted.iter().filter_map(|&at| sentences.get(at)).cloned().collect()
        };
        self.read_again(object, route, read).unwrap_or_default()
    }

    /// The text of a document's own tokens. Forests know tokens only, so it is read a second time.
    pub(super) fn own_text(&self, object: &[u8], route: usize, own: &OwnTokens) -> OwnText {
        let read = |fields: &text::Fields<'_>| VerifiedFeatures::new().own_text(&mut Scratch::new(), fields, own);
        self.read_again(object, route, read).unwrap_or_default()
    }

    /// Reads the text fields of a document.
    fn read_again<T>(&self, object: &[u8], route: usize, read: impl FnOnce(&text::Fields<'_>) -> T) -> Option<T> {
        let bound = self.routes.bound.get(route)?;
        let document = bulk::scan(object, &bound.selection).ok()?;
        let texts = texts(&document);
        Some(read(&text::Fields { title: document.first(Selected::Title), body: &texts }))
    }

    /// Reads the one document of a body; the route must be there.
    pub(super) fn read_document(
        &self,
        body: &[u8],
        route: usize,
        own_root: u64,
        context: RequestContext,
    ) -> Result<PreparedDocument, JsonError> {
        let document = DocumentContext { item: 0, route, own_root, id: DocumentHash::UNKNOWN, name: 0, context };
        let prepared = self.prepare(body, 0, &document, &mut Workspace::default());
        prepared.map(|(prepared, _)| prepared)
    }
}

/// What the preparation of a document takes from its item and its request.
struct DocumentContext {
    item: usize,
    route: usize,
    /// Root if the document has no usable text.
    own_root: u64,
    id: DocumentHash,
    name: u64,
    context: RequestContext,
}

/// The fingerprint that a document contains.
fn own(document: &ParsedDocument<'_>) -> Option<Fingerprint> {
    let own = document.value(Selected::Own)?;
    Fingerprint::written(&own.text, own.quoted)
}

/// Returns the features of a document by the route's method, and the number of its title.
pub(super) fn features(
    route: &Route,
    document: &ParsedDocument<'_>,
    workspace: &mut Workspace,
) -> (Option<Features>, Option<u32>) {
    let texts = texts(document);
    let fields = text::Fields { title: document.first(Selected::Title), body: &texts };
    let brought = Attributes { url: document.first(Selected::Url), own: own(document) };
    let features = route.method.read_with(&fields, brought, workspace);
    (features, fields.title.map(title_number))
}

/// Returns the text fields of a document.
pub(super) fn texts<'d>(document: &'d ParsedDocument<'_>) -> Vec<&'d str> {
    let values = document.values.iter();
    let texts = values.filter(|value| matches!(value.selected, Selected::Text(_)));
    texts.map(|value| &*value.text).collect()
}

/// A number for a title.
fn title_number(title: &str) -> u32 {
    xxh3_64(title.trim().as_bytes()) as u32
}

/// Returns the document's time for its forest.
fn when(clock: &Clock, date: Option<Millis>, context: RequestContext) -> DocumentTime {
    match (clock, date) {
        (Clock::Arrival, _) => DocumentTime::At(context.now),
        (Clock::None, _) => DocumentTime::Still,
        (Clock::Field(_), Some(date)) => DocumentTime::Claimed(date.min(context.latest)),
        // A document without a date comes when the one before it came.
        (Clock::Field(_), None) => DocumentTime::AsBefore,
    }
}

/// The root of a document without usable text. `collapse` puts all documents without the field into one group, so
/// each gets a root of its own.
pub(super) fn own_root(index: &str, id: Option<&str>, unique: u64, at: usize) -> u64 {
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
