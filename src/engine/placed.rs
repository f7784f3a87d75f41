//! Placed documents of a request, held until the cluster's response settles them.

use std::collections::{BTreeMap, HashSet};

use super::deferred::DeferredClaim;
use crate::bulk::{self, Op};
use crate::forest::port::{ItemOutcome, Settlement};
use crate::forest::{DocumentHash, Root, Ticket};
use crate::time::Millis;

/// The nodes that the documents of a request use, by item. To be given to [`Engine::settle`](super::Engine::settle).
#[derive(Debug, Default)]
pub struct HeldDocuments {
    /// The operation of every item; a response with other operations is not matched.
    pub(super) ops: Vec<Op>,
    pub(super) caller: Option<u64>,
    pub(super) held: Vec<HeldDocument>,
    /// Items, with their routes, whose documents have roots outside the forests.
    outside: Vec<(usize, usize)>,
}

/// One document that was placed.
#[derive(Debug)]
pub(super) struct HeldDocument {
    pub(super) item: usize,
    pub(super) forest: usize,
    pub(super) route: usize,
    /// Its tree.
    pub(super) root: Root,
    /// Whether the local fallback placed it.
    pub(super) is_local_fallback: bool,
    /// `None` after a dry placement, whose document is placed once it is accepted.
    pub(super) ticket: Option<Ticket>,
    /// The forest's clock when it was placed.
    pub(super) clock: Millis,
    /// The root that it shows.
    pub(super) answer: Root,
    /// Whether it joined an existing tree, shows another root than its tree's, or may: a deferred placement may meet
    /// another document of its root.
    pub(super) has_joined: bool,
    /// Whether it is stamped as the first one of its group; `None`: that is unknown.
    pub(super) first: Option<bool>,
    /// Its tree has to remember it as its first one once it is accepted.
    pub(super) fills_vacancy: bool,
    /// Which document it is.
    pub(super) id: DocumentHash,
    /// Hash of the name of its index in the request.
    pub(super) name: u64,
    /// The deferred placement, to be done once it is accepted.
    pub(super) deferred: Option<DeferredClaim>,
}

/// The outcome of a request.
#[derive(Debug)]
pub enum Resolution {
    /// Timeout, broken connection, response that cannot be read: the nodes stay for a while.
    Unknown,
    /// The request was never sent.
    NotSent,
    /// The status of a response that is about all documents at once.
    Status(u16),
    /// A successful response to a single document with `noop`: the index is unchanged.
    Unchanged,
    /// The items of a bulk response.
    Items(bulk::ItemStatuses),
    /// The status of a response to a single document, and its item.
    Document(u16, bulk::ItemStatuses),
}

impl HeldDocuments {
    pub(super) fn of(ops: Vec<Op>, caller: Option<u64>) -> HeldDocuments {
        HeldDocuments { ops, caller, held: Vec::new(), outside: Vec::new() }
    }

    pub(super) fn add_outside(&mut self, item: usize, route: usize) {
        self.outside.push((item, route));
    }

    /// The stamped documents, in forests or outside, as items with their routes.
    pub(super) fn routed(&self) -> impl Iterator<Item = (usize, usize)> {
        self.held.iter().map(|held| (held.item, held.route)).chain(self.outside.iter().copied())
    }

    /// Items whose documents joined a tree and are stored or may be, with their roots. In the order of the items of
    /// each forest.
    pub fn joined<'p>(&'p self, resolution: &'p Resolution) -> impl Iterator<Item = (usize, u64)> + 'p {
        let joined = self.held.iter().filter(|held| held.has_joined);
        let stored = joined.filter(|held| outcome(&self.ops, held.item, resolution).0 != ItemOutcome::Refused);
        stored.map(|held| (held.item, held.answer.0.0))
    }

    /// The items, of these that replaced documents, that may have changed a root: all but unstamped updates.
    pub fn moved(&self, replaced: &[usize]) -> Vec<usize> {
        let is_update = |item: usize| self.ops.get(item) == Some(&Op::Update);
        let mut stamped = HashSet::new();
        if replaced.iter().any(|&item| is_update(item)) {
            stamped.extend(self.held.iter().map(|held| held.item));
            stamped.extend(self.outside.iter().map(|&(item, _)| item));
        }
        let moved = replaced.iter().copied();
        moved.filter(|item| !is_update(*item) || stamped.contains(item)).collect()
    }

    /// The trees that have another first document from now on, by the number of their forest.
    pub(super) fn new_firsts(&self, resolution: &Resolution) -> BTreeMap<usize, Vec<(Root, DocumentHash)>> {
        let mut all: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for held in &self.held {
            if held.fills_vacancy && outcome(&self.ops, held.item, resolution).0 == ItemOutcome::Accepted {
                all.entry(held.forest).or_default().push((held.root, held.id));
            }
        }
        all
    }

    /// Whether any document was stamped.
    pub fn has_stamped(&self) -> bool {
        !self.held.is_empty() || !self.outside.is_empty()
    }

    pub(super) fn hold(&mut self, held: HeldDocument) {
        self.held.push(held);
    }

    /// The root of the first document that is in a forest.
    pub(crate) fn first_root(&self) -> Option<Root> {
        self.held.first().map(|held| held.answer)
    }

    /// Whether its documents are placed after the cluster's response: their writer is unverified.
    pub fn is_of_unverified_writer(&self) -> bool {
        self.held.iter().any(|held| held.deferred.is_some())
    }

    /// Whether a response has exactly the items of the request.
    pub fn is_answered_by(&self, outcome: &bulk::ItemStatuses) -> bool {
        outcome.answers(self.ops.iter().copied())
    }

    /// The outcomes of those that have a ticket, each with the number of its forest.
    pub(super) fn settlements(self, resolution: &Resolution) -> impl Iterator<Item = (usize, Settlement)> {
        let HeldDocuments { ops, held, .. } = self;
        held.into_iter().filter_map(move |held| {
            let outcome = outcome(&ops, held.item, resolution).0;
            Some((held.forest, Settlement { ticket: held.ticket?, outcome }))
        })
    }

    /// Number of failed items of a response.
    pub(super) fn failed(&self, resolution: &Resolution) -> u64 {
        let Resolution::Items(items) = resolution else {
            return 0;
        };
        // A delete of a missing document is answered with 404 and is no failure.
        let writes = items.failed.iter();
        let writes = writes.filter(|(at, _)| self.ops.get(*at) != Some(&Op::Delete));
        writes.count() as u64
    }
}

/// Returns the outcome of one item, and its status.
pub(super) fn outcome(ops: &[Op], item: usize, resolution: &Resolution) -> (ItemOutcome, Option<u16>) {
    // An update that changes nothing leaves the document as it was sent before; of a new one, nothing is stored.
    let unchanged = match ops.get(item) {
        Some(Op::Update) => ItemOutcome::Accepted,
        _ => ItemOutcome::Refused,
    };
    let items = match resolution {
        Resolution::Unknown => return (ItemOutcome::Unknown, None),
        Resolution::NotSent => return (ItemOutcome::Refused, None),
        Resolution::Status(status) | Resolution::Document(status, _) => {
            return (outcome_of(*status), Some(*status));
        }
        Resolution::Unchanged => return (unchanged, None),
        Resolution::Items(items) => items,
    };
    match items.failed.binary_search_by_key(&item, |&(at, _)| at) {
        Err(_) if items.unchanged.binary_search(&item).is_ok() => (unchanged, None),
        Err(_) => (ItemOutcome::Accepted, None),
        Ok(found) => {
            let status = items.failed.get(found).map(|&(_, status)| status);
            (status.map_or(ItemOutcome::Unknown, outcome_of), status)
        }
    }
}

/// Whether an ingest pipeline has dropped a document: nothing of it is stored.
pub(super) fn is_dropped(ops: &[Op], item: usize, resolution: &Resolution) -> bool {
    let is_unchanged = match resolution {
        Resolution::Unchanged => true,
        Resolution::Items(items) => items.unchanged.binary_search(&item).is_ok(),
        _ => false,
    };
    is_unchanged && ops.get(item) != Some(&Op::Update)
}

/// Returns the outcome for a status. 2xx: stored. 4xx: the server's final answer, except 408 (it gave up waiting).
/// Anything else (a redirect, a timeout, a lost shard): a part may have been done.
fn outcome_of(status: u16) -> ItemOutcome {
    match status {
        200..300 => ItemOutcome::Accepted,
        408 => ItemOutcome::Unknown,
        400..500 => ItemOutcome::Refused,
        _ => ItemOutcome::Unknown,
    }
}
