//! The first phase: documents are placed in their order, and their stamps are written.

use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::deferred::{DeferredClaim, DeferredPlacements};
use super::forests::Forests;
use super::placed::{HeldDocument, HeldDocuments};
use super::read::{DocumentReader, PreparedDocument, ReadItem, WorkItem};
use super::threads::{JobWaiter, TextThreads};
use super::writers::{Turn, WriterTrust, Writers};
use super::{Explanation, RequestContext, Stamped, Unavailable};
use crate::bulk::Stamp;
use crate::fingerprint::Fingerprint;
use crate::forest::document::ForestDocument;
use crate::forest::overrides::Overrides;
use crate::forest::port::{self, BatchReply, Commit, DocumentReply, DryPlacement, EarlierDocuments, ForestPort};
use crate::forest::{Decision, DocumentHash, Root};
use crate::time::{Millis, format_date};

/// Placed documents of a body that is being stamped. Withdraws them if it is dropped before they are taken: a forest
/// failed, or the client is gone.
struct Unfinished {
    forests: Arc<Forests>,
    placed: HeldDocuments,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.forests.withdraw(std::mem::take(&mut self.placed));
    }
}

/// One batch of documents for a forest, and the items that they belong to.
#[derive(Default)]
struct ForestBatch {
    items: Vec<BatchItem>,
    documents: Vec<ForestDocument>,
}

/// What a document of a batch belongs to.
struct BatchItem {
    /// Its place in the body.
    item: usize,
    route: usize,
    /// Which document it is.
    id: DocumentHash,
    /// Hash of the name of its index in the request.
    name: u64,
}

/// State of one request in one forest, across batches.
#[derive(Default)]
struct ForestSession {
    earlier: EarlierDocuments,
    dry: Option<Box<dyn DryPlacement>>,
}

impl ForestSession {
    async fn place(
        &mut self,
        port: &dyn ForestPort,
        documents: Vec<ForestDocument>,
        trust: WriterTrust,
    ) -> Result<BatchReply, Unavailable> {
        let commit = match trust {
            WriterTrust::Unverified => {
                let dry = self.dry.get_or_insert_with(|| port.dry_placement());
                return Ok(dry.place(documents).await?);
            }
            WriterTrust::Verified => Commit::Provisional,
            WriterTrust::Owner => Commit::AtOnce,
        };
        let mut placements =
            port.place(port::Batch { documents, commit, earlier: std::mem::take(&mut self.earlier) }).await?;
        self.earlier = std::mem::take(&mut placements.earlier);
        Ok(placements)
    }
}

/// The first phase: finds the root of each document.
pub(super) struct Placer {
    pub(super) forests: Arc<Forests>,
    pub(super) threads: Arc<TextThreads>,
    pub(super) writers: Arc<Writers>,
    /// Deferred placements of unverified writers.
    pub(super) deferred: DeferredPlacements,
    /// Bounds the memory between reading and placing by the number of batches.
    pub(super) batches: Arc<Semaphore>,
    /// Whether placements are explained.
    pub(super) explains: bool,
}

impl Placer {
    /// The trust in the writer of these items.
    pub(super) fn trust(&self, items: &[WorkItem], context: RequestContext) -> WriterTrust {
        let routes = items.iter().filter_map(WorkItem::wanted).map(|(_, route)| route);
        self.writers.trust(routes, context)
    }

    /// Stamps the items of a body. In each batch, documents are read and turned into features on all threads, then
    /// placed one after the other: the order of documents inside a body is the order of placement.
    pub(super) async fn stamp_items(
        &self,
        reader: &DocumentReader,
        body: Bytes,
        items: Vec<WorkItem>,
        context: RequestContext,
    ) -> Result<Stamped, Unavailable> {
        let trust = self.trust(&items, context);
        let mut unfinished = Unfinished {
            forests: self.forests.clone(),
            placed: HeldDocuments::of(items.iter().map(|item| item.op).collect(), context.caller),
        };
        let mut sessions: Vec<ForestSession> = self.forests.entries.iter().map(|_| ForestSession::default()).collect();
        let mut stamped = Stamped { explanations: self.explains.then(Vec::new), ..Stamped::default() };
        let items: Arc<[WorkItem]> = items.into();
        let mut first = 0;
        while let Some(rest) = items.get(first..).filter(|rest| !rest.is_empty()) {
            let is_unverified = trust == WriterTrust::Unverified;
            let count = WorkItem::batch(rest, is_unverified);
            let is_short = WorkItem::is_short(rest.get(..count).unwrap_or_default());
            let batch = first..first + count;
            first = batch.end;
            let turn = match is_unverified {
                true => self.writers.turn().await,
                false => Turn::default(),
            };
            // Jobs hold them, too: they go on for a while when the client has left.
            let place = Arc::new((turn, self.batches.clone().acquire_owned().await));
            let mut read = {
                let (reader, body, items) = (reader.clone(), body.clone(), items.clone());
                let held = place.clone();
                let read = move |wanted: &JobWaiter| {
                    let _held = held;
                    // What the cluster may refuse teaches nothing.
                    if !is_unverified {
                        reader.note_first(&body, &items, batch.clone());
                    }
                    reader.read_batch(&body, &items, batch, context, wanted)
                };
                self.threads.run_short(is_short, read).await?
            };
            let replies = self.place(&mut read, &mut stamped, trust, &mut sessions, &mut unfinished.placed).await?;
            let (reader, body) = (reader.clone(), body.clone());
            let write = move |_: &_| StampWriter::write_all(&reader, &body, read, replies, stamped);
            stamped = self.threads.run_short(is_short, write).await?;
        }
        stamped.placed = std::mem::take(&mut unfinished.placed);
        Ok(stamped)
    }

    /// Places the documents that were read; returns the replies by forest.
    async fn place(
        &self,
        read: &mut [ReadItem],
        stamped: &mut Stamped,
        trust: WriterTrust,
        sessions: &mut [ForestSession],
        placed: &mut HeldDocuments,
    ) -> Result<Vec<ForestReplies>, Unavailable> {
        let mut batches: Vec<ForestBatch> = self.forests.entries.iter().map(|_| ForestBatch::default()).collect();
        for prepared in read.iter_mut().flat_map(|read| read.objects.iter_mut().flatten()) {
            if let Some(batch) = batches.get_mut(prepared.forest) {
                batch.items.push(BatchItem {
                    item: prepared.item,
                    route: prepared.route,
                    id: prepared.id,
                    name: prepared.name,
                });
                batch.documents.push(prepared.take_for_forest());
            }
        }
        let mut replies = Vec::with_capacity(batches.len());
        let forests = self.forests.entries.iter().zip(sessions);
        for (forest, ((entry, session), batch)) in forests.zip(batches).enumerate() {
            if batch.documents.is_empty() {
                replies.push(ForestReplies::default());
                continue;
            }
            // An unverified writer's documents are placed when the cluster has accepted them.
            let deferred: Vec<DeferredClaim> = match trust {
                WriterTrust::Unverified => {
                    let documents = batch.documents.iter();
                    documents.map(|d| self.deferred.keep(d.clone())).collect()
                }
                WriterTrust::Verified | WriterTrust::Owner => Vec::new(),
            };
            let mut deferred = deferred.into_iter();
            let mut placements = session.place(&*entry.port, batch.documents, trust).await?;
            // First of all: from here on they are withdrawn if anything goes wrong.
            for (BatchItem { item, route, id, name }, reply) in batch.items.into_iter().zip(&mut placements.replies) {
                let deferred = deferred.next();
                if let Some(place) = &mut reply.placed {
                    placed.hold(HeldDocument {
                        item,
                        forest,
                        route,
                        root: place.root,
                        is_local_fallback: place.is_local_fallback,
                        ticket: place.ticket.take(),
                        clock: place.clock,
                        answer: place.answer,
                        // Two unverified writers may both be given the same new root.
                        has_joined: place.decision != Decision::NewRoot
                            || place.answer != place.root
                            || deferred.is_some(),
                        first: place.first,
                        fills_vacancy: place.fills_vacancy,
                        id,
                        name,
                        deferred,
                    });
                } else {
                    placed.add_outside(item, route);
                }
            }
            stamped.waited += placements.waited;
            let BatchReply { replies: of_forest, overrides, .. } = placements;
            replies.push(ForestReplies { replies: of_forest.into_iter(), overrides });
        }
        Ok(replies)
    }
}

/// The replies of a forest to a batch.
#[derive(Default)]
struct ForestReplies {
    /// In the order in which its documents were placed.
    replies: IntoIter<DocumentReply>,
    overrides: Arc<Overrides>,
}

/// Writes the stamps of documents that have their places.
struct StampWriter<'a> {
    reader: &'a DocumentReader,
    body: &'a [u8],
    /// By forest.
    replies: Vec<ForestReplies>,
    stamped: Stamped,
    arrivals: Arrivals,
}

impl StampWriter<'_> {
    fn write_all(
        reader: &DocumentReader,
        body: &[u8],
        read: Vec<ReadItem>,
        replies: Vec<ForestReplies>,
        stamped: Stamped,
    ) -> Stamped {
        let mut writer = StampWriter { reader, body, replies, stamped, arrivals: Arrivals::default() };
        for item in read {
            writer.write_item(item);
        }
        writer.stamped
    }

    fn write_item(&mut self, read: ReadItem) {
        let ReadItem { objects, item, unstamped } = read;
        if let Some(reason) = unstamped {
            self.stamped.leave(item, reason);
        }
        for prepared in objects.into_iter().flatten() {
            let Some(of_forest) = self.replies.get_mut(prepared.forest) else {
                continue;
            };
            if let Some(reply) = of_forest.replies.next() {
                let own_root = of_forest.overrides.group(Root(Fingerprint(prepared.own_root)));
                self.write(&prepared, reply, own_root);
            }
        }
    }

    /// Writes the stamp of one object. `own_root`: the one that it has without text.
    fn write(&mut self, prepared: &PreparedDocument, reply: DocumentReply, own_root: Root) {
        let is_local_fallback = reply.placed.as_ref().is_some_and(|place| place.is_local_fallback);
        self.stamped.tally.local_fallback += u64::from(is_local_fallback);
        let (root, since, first) = match reply.placed {
            None => {
                self.stamped.tally.without_text += 1;
                // The stored document keeps its date, or an update without a change would look like one.
                let since = reply.now.filter(|_| !prepared.partial);
                // No other document has its root, unless people have put it into a group.
                (own_root, since, (own_root == Root(Fingerprint(prepared.own_root))).then_some(true))
            }
            Some(place) => {
                let item = prepared.item;
                if !place.learned.is_empty() {
                    let object = self.body.get(prepared.object.clone()).unwrap_or_default();
                    let learned = self.reader.sentences(object, prepared.route, &place.learned);
                    self.stamped.learned.extend(learned);
                }
                self.stamped.stages.extend(place.stage.map(|stage| (item, stage)));
                if place.decision == Decision::NewRoot {
                    self.stamped.refuse(item, place.root, &place.refused);
                } else {
                    self.stamped.tally.joined += 1;
                }
                // One whose text came before keeps the date that it has. One that may be a new document needs a date,
                // and always the same, or an update without a change would look like one.
                let since = match prepared.partial {
                    true if prepared.creates => Some(place.founded),
                    true => place.arrived,
                    false => Some(place.clock),
                };
                let (root, first) = (place.answer, place.first);
                if let Some(explanations) = &mut self.stamped.explanations {
                    explanations.push(Explanation::of(item, place));
                }
                (root, reply.now.and(since), first)
            }
        };
        // Where nothing is known, an update leaves the flag that is stored, if there is one.
        let is_new = !prepared.partial;
        let stamp = Stamp {
            root: root.0.0,
            is_local_fallback,
            hashes: &prepared.hashes,
            arrival: since.map(|since| self.arrivals.text(since)),
            proof: prepared.proof.as_deref(),
            first: first.or(is_new.then_some(false)),
        };
        let (base, names) = (prepared.object.start, &self.reader.routes.names);
        match self.stamped.splice.stamp(base, &prepared.cut, names, &stamp) {
            Ok(()) => self.stamped.tally.stamped += 1,
            Err(error) => self.stamped.leave(prepared.item, error.into()),
        }
    }
}

/// Dates as text; neighbours mostly share one.
#[derive(Default)]
struct Arrivals {
    last: Option<(Millis, String)>,
}

impl Arrivals {
    fn text(&mut self, at: Millis) -> &str {
        if self.last.as_ref().is_none_or(|(last, _)| *last != at) {
            self.last = Some((at, format_date(at)));
        }
        self.last.as_ref().map_or("", |(_, text)| text)
    }
}
