//! A copy of an index with stamps, while its writers go on.
//!
//! ```text
//! new index (mapping, settings, mark) --> all documents, in the order of the route
//!   --> again and again what was written since then, by shard and operation, until that is little
//!   --> writes are blocked --> the last ones --> what was deleted --> the alias moves
//! ```
//!
//! Documents without a stamp are written through spinney, those with one as they are, past it. A document keeps its
//! version. The mark in the mapping of the new index says which operations are copied, so a copy that was interrupted
//! goes on where it was, and one that is run again copies what has been written since.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hyper::Method;
use hyper::header::HeaderValue;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::BackfillError;
use super::bulk_lines::{self, ItemOutcome};
use super::bulk_sink::{BulkSink, PastSpinney};
use super::discovery::{RouteIndices, RouteTable};
use super::new_index::{NewIndex, checkpoints};
use super::pages::{Batches, Pages, page_of};
use super::run::{BackfillOptions, BackfillProgress, throttle};
use super::sending::{self, Failed, all_of, ask_until_answered, bulk_of, write_until_decided};
use crate::cluster::operator::{Operator, in_path};
use crate::cluster::retry::ATTEMPTS;
use crate::cluster::sorted_pages::{Content, Slice, SortField, SortedQuery, StoredHit};

/// Passes over what was written meanwhile.
const PASSES: u32 = 20;
/// So few documents are left for the time in which writes are blocked.
const FEW: u64 = 1_000;

/// The outcome of a copy, in documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CopyOutcome {
    /// Documents that were written through spinney, and got a stamp.
    pub(crate) stamped: u64,
    /// Those that had a stamp.
    pub(crate) kept: u64,
    /// Those that were copied before.
    pub(crate) known: u64,
    /// Those that were deleted from the old index meanwhile, and from the new one then.
    pub(crate) deleted: u64,
    /// Those that the new index does not take.
    pub(crate) failed: u64,
    /// Whether the alias has moved.
    pub(crate) has_moved: bool,
    /// The first of these, with the reason.
    pub(crate) failures: Vec<String>,
}

impl CopyOutcome {
    fn done(&self) -> u64 {
        self.stamped + self.kept + self.known + self.failed
    }
}

/// Copies an index.
pub(crate) struct IndexCopy<'a, D> {
    /// The cluster itself.
    cluster: &'a Operator,
    /// Where documents without a stamp are written to.
    door: &'a D,
    /// One index.
    target: &'a RouteIndices,
    into: &'a str,
    options: &'a BackfillOptions,
    /// Whether writes to the old index are blocked by this copy.
    is_blocked: AtomicBool,
}

/// A document and how it is written.
struct CopiedDocument {
    found: StoredHit,
    /// With the version of the old one; otherwise with the next one, for what another has written there meanwhile.
    has_version: bool,
}

/// State of a run.
struct CopyState<'t> {
    begun: Instant,
    total: u64,
    outcome: Mutex<CopyOutcome>,
    failed: Failed,
    report: &'t (dyn Fn(BackfillProgress<'_>) + Sync),
}

impl<'a, D: BulkSink> IndexCopy<'a, D> {
    /// A copy of the only index of a target. `cluster`: the cluster itself; `door`: where documents without a stamp are
    /// written to.
    ///
    /// # Errors
    /// If the target is not one index with a name of its own, or the new one has not its route.
    pub(crate) fn new(
        cluster: &'a Operator,
        door: &'a D,
        (target, routes): (&'a RouteIndices, &RouteTable),
        into: &'a str,
        options: &'a BackfillOptions,
    ) -> Result<IndexCopy<'a, D>, BackfillError> {
        let [from] = target.indices.as_slice() else {
            return Err(BackfillError::NotOneIndex(target.indices.join(", ")));
        };
        if routes.route_for(from) != Some(&target.route) {
            return Err(BackfillError::NotOneIndex(from.clone()));
        }
        if routes.route_for(into) != Some(&target.route) || from == into {
            return Err(BackfillError::OtherRoute { into: into.to_owned(), from: from.clone() });
        }
        Ok(IndexCopy { cluster, door, target, into, options, is_blocked: AtomicBool::new(false) })
    }

    fn from(&self) -> &str {
        self.target.indices.first().map_or("", String::as_str)
    }

    /// Copies all documents, and what is written meanwhile, until little is left. With an alias, writes to the old index
    /// are blocked then, the last ones are copied, and the alias moves. `total`: documents of the old index.
    ///
    /// # Errors
    /// If the cluster or spinney refuses, or stays away, or the new index has a document without a stamp. If documents
    /// could not be copied, the alias stays.
    pub(crate) async fn run(
        &self,
        total: u64,
        alias: Option<&str>,
        report: &(dyn Fn(BackfillProgress<'_>) + Sync),
    ) -> Result<CopyOutcome, BackfillError> {
        let state =
            CopyState { begun: Instant::now(), total, outcome: Mutex::default(), failed: Mutex::default(), report };
        if let Some(alias) = alias {
            self.properties_of(alias).await?;
        }
        let mut new = NewIndex::of(self.cluster, self.from(), self.into, &self.target.names).await?;
        if !new.mark.is_whole {
            let of = self.options.slices.max(1);
            let is_resumed = new.is_resumed;
            let slice = |id| self.pass(&state, self.all(Slice { id, of }), is_resumed);
            all_of((0..of).map(slice)).await?;
            let until = new.mark.until.clone();
            new.copied_until(until).await?;
        }
        for _ in 0..PASSES {
            if self.catch_up(&state, &mut new).await? <= FEW {
                break;
            }
        }
        // What was deleted takes as long as the index is large, so it is looked for before writes are blocked, too.
        self.remove_deleted(&state).await?;
        // What failed is told first; and of the rest nothing is without a stamp that this copy has written.
        if state.outcome.lock().failed == 0 {
            let unstamped = self.target.of_index(self.into).count_unstamped(self.cluster).await?;
            if unstamped > 0 {
                return Err(BackfillError::Unstamped { into: self.into.to_owned(), unstamped });
            }
            if let Some(alias) = alias {
                self.switch(&state, new, alias).await?;
            }
        }
        Ok(state.outcome.into_inner())
    }

    /// All documents, in the order of their route.
    fn all(&self, slice: Slice) -> SortedQuery {
        SortedQuery {
            indices: self.target.expression.clone(),
            query: self.target.all(),
            order: self.target.order.clone(),
            since: None,
            content: Content::Whole,
            slice,
            shard: None,
        }
    }

    /// Copies what was written since the last pass; answers how much that was.
    async fn catch_up(&self, state: &CopyState<'_>, new: &mut NewIndex<'_>) -> Result<u64, BackfillError> {
        let before = state.outcome.lock().done();
        let until = checkpoints(self.cluster, self.from()).await?;
        for (shard, &last) in until.iter().enumerate() {
            let copied = new.mark.until.get(shard).copied().unwrap_or(-1);
            if last > copied {
                let wanted = SortedQuery {
                    query: json!({"range": {"_seq_no": {"gt": copied}}}),
                    order: SortField::of_arrival(),
                    shard: Some(shard),
                    ..self.all(Slice::ALL)
                };
                self.pass(state, wanted, false).await?;
            }
        }
        if until != new.mark.until {
            new.copied_until(until).await?;
        }
        Ok(state.outcome.lock().done() - before)
    }

    /// Copies the documents that a query finds; `is_resumed`: without those that the new index has.
    async fn pass(&self, state: &CopyState<'_>, wanted: SortedQuery, is_resumed: bool) -> Result<(), BackfillError> {
        let batch = self.options.batch;
        let pages = Pages::of(self.cluster, self.target, wanted, page_of(batch));
        let (send, mut batches) = Batches::of(batch);
        let write = async {
            while let Some(documents) = batches.next().await {
                self.write_all(state, documents, is_resumed).await?;
            }
            Ok(())
        };
        tokio::try_join!(pages.read_into(send), write).map(drop)
    }

    async fn write_all(
        &self,
        state: &CopyState<'_>,
        mut documents: Vec<StoredHit>,
        is_resumed: bool,
    ) -> Result<(), BackfillError> {
        if is_resumed {
            let before = documents.len();
            let there = self.which_are_in(self.into, &documents).await?;
            let mut there = there.into_iter();
            documents.retain(|_| !there.next().unwrap_or(false));
            state.outcome.lock().known += (before - documents.len()) as u64;
        }
        let (stamped, bare): (Vec<StoredHit>, Vec<StoredHit>) =
            documents.into_iter().partition(|found| self.is_stamped(found));
        self.write(state, self.door, bare, |outcome| &mut outcome.stamped).await?;
        self.write(state, &PastSpinney(self.cluster), stamped, |outcome| &mut outcome.kept).await
    }

    fn is_stamped(&self, found: &StoredHit) -> bool {
        let root = self.target.names.root();
        memchr::memmem::find(&found.source, root.as_bytes()).is_some()
            && serde_json::from_slice::<Map<String, Value>>(&found.source)
                .is_ok_and(|members| members.get(root).is_some_and(|root| !root.is_null()))
    }

    /// Writes documents by one way, those that another has changed in the new index (it follows overrides already)
    /// without their version.
    async fn write(
        &self,
        state: &CopyState<'_>,
        sink: &impl BulkSink,
        documents: Vec<StoredHit>,
        counter: impl Fn(&mut CopyOutcome) -> &mut u64,
    ) -> Result<(), BackfillError> {
        let with_version = |found| CopiedDocument { found, has_version: true };
        let mut pending: Vec<CopiedDocument> = documents.into_iter().map(with_version).collect();
        while !pending.is_empty() {
            let rest = pending.split_off(bulk_of(pending.iter().map(|document| document.found.source.len())));
            let mut again = Vec::new();
            let add = |body: &mut Vec<u8>, document: &CopiedDocument| {
                let CopiedDocument { found, has_version } = document;
                bulk_lines::add_copy(body, found, self.into, *has_version);
            };
            let note = |decided: Vec<(CopiedDocument, ItemOutcome)>| {
                for (document, outcome) in decided {
                    match outcome {
                        ItemOutcome::Stamped | ItemOutcome::Unchanged => *counter(&mut state.outcome.lock()) += 1,
                        ItemOutcome::Changed if document.has_version => {
                            again.push(CopiedDocument { has_version: false, ..document });
                        }
                        ItemOutcome::Changed => state.fail(&document.found, "another has written it meanwhile"),
                        ItemOutcome::Gone => state.fail(&document.found, "it is not found"),
                        ItemOutcome::Later(reason) | ItemOutcome::Refused(reason) => {
                            state.fail(&document.found, &reason);
                        }
                    }
                }
                let done = state.outcome.lock().done();
                let forest = &self.target.route.forest;
                (state.report)(BackfillProgress { forest, done, total: state.total.max(done) });
                Ok(())
            };
            write_until_decided(sink, &HeaderValue::from_static("-"), pending, add, note).await?;
            pending = again;
            pending.extend(rest);
            let done = state.outcome.lock().done();
            throttle(state.begun, done, self.options.rate).await;
        }
        Ok(())
    }

    /// Which of these documents an index has.
    async fn which_are_in(&self, index: &str, documents: &[StoredHit]) -> Result<Vec<bool>, BackfillError> {
        #[derive(Deserialize)]
        struct Found {
            #[serde(default)]
            found: bool,
            #[serde(default)]
            error: Option<Box<RawValue>>,
        }
        #[derive(Deserialize)]
        struct Answer {
            docs: Vec<Found>,
        }
        let named = documents.iter().map(|document| {
            let mut named = json!({"_id": document.id});
            if let Some(routing) = &document.routing {
                named["routing"] = routing.as_str().into();
            }
            named
        });
        let body = json!({ "docs": named.collect::<Vec<Value>>() });
        let path = format!("/{}/_mget?_source=false", in_path(index));
        let answer = ask_until_answered(self.cluster, Method::POST, &path, Some(&body)).await?;
        let unclear = |what: String| BackfillError::Answer(format!("POST /{index}/_mget: {what}"));
        let answer: Answer = serde_json::from_slice(&answer).map_err(|error| unclear(error.to_string()))?;
        if let Some(error) = answer.docs.iter().find_map(|found| found.error.as_ref()) {
            return Err(unclear(error.to_string()));
        }
        if answer.docs.len() != documents.len() {
            return Err(unclear("documents are missing".to_owned()));
        }
        Ok(answer.docs.into_iter().map(|found| found.found).collect())
    }

    /// All documents of the old index, or of the new one.
    async fn count(&self, index: &str) -> Result<u64, BackfillError> {
        let target = self.target.of_index(index);
        target.refresh(self.cluster, ATTEMPTS).await?;
        target.count_all(self.cluster).await
    }

    /// Deletes from the new index what is not in the old one any more. Every document of the old one is in the new one
    /// but for those that failed, so there is nothing to look for if there are as many.
    async fn remove_deleted(&self, state: &CopyState<'_>) -> Result<(), BackfillError> {
        let failed = state.failed.lock().len() as u64;
        if self.count(self.into).await? + failed <= self.count(self.from()).await? {
            return Ok(());
        }
        let new = self.target.of_index(self.into);
        let wanted = SortedQuery {
            indices: in_path(self.into),
            query: json!({"match_all": {}}),
            order: SortField::of_arrival(),
            content: Content::Name,
            ..self.all(Slice::ALL)
        };
        let pages = Pages::of(self.cluster, &new, wanted, page_of(self.options.batch));
        let (send, mut batches) = Batches::of(self.options.batch);
        let delete = async {
            while let Some(documents) = batches.next().await {
                let there = self.which_are_in(self.from(), &documents).await?;
                let gone = documents.into_iter().zip(there).filter(|(_, is_there)| !is_there);
                let gone: Vec<StoredHit> = gone.map(|(found, _)| found).collect();
                if gone.is_empty() {
                    continue;
                }
                let note = |decided: Vec<(StoredHit, ItemOutcome)>| {
                    for (found, outcome) in decided {
                        match outcome {
                            ItemOutcome::Refused(reason) => state.fail(&found, &reason),
                            // One that was written again meanwhile is copied again.
                            _ => state.outcome.lock().deleted += 1,
                        }
                    }
                    Ok(())
                };
                let way = PastSpinney(self.cluster);
                write_until_decided(&way, &HeaderValue::from_static("-"), gone, bulk_lines::add_deletion, note).await?;
            }
            Ok(())
        };
        tokio::try_join!(pages.read_into(send), delete).map(drop)
    }

    /// Blocks writes to the old index, copies the last ones, and moves the alias. If that fails, writes go on.
    async fn switch(&self, state: &CopyState<'_>, new: NewIndex<'_>, alias: &str) -> Result<(), BackfillError> {
        let properties = self.properties_of(alias).await?;
        let path = format!("/{}/_settings", in_path(self.from()));
        self.is_blocked.store(true, Ordering::Relaxed);
        ask_until_answered(self.cluster, Method::PUT, &path, Some(&json!({"index.blocks.write": true}))).await?;
        self.switch_blocked(state, new, alias, properties).await
    }

    /// Filter, routing and the like of an alias of the old index.
    async fn properties_of(&self, alias: &str) -> Result<Value, BackfillError> {
        let path = format!("/{}/_alias/{}", in_path(self.from()), in_path(alias));
        let mut answer = self.cluster.ask(Method::GET, &path, None).await.map_err(|error| BackfillError::Alias {
            alias: alias.to_owned(),
            index: self.from().to_owned(),
            error,
        })?;
        Ok(answer[self.from()]["aliases"][alias].take())
    }

    /// Lets the old index take writes again, if a run that has failed or was ended has blocked them.
    ///
    /// # Errors
    /// If the cluster cannot be reached or refuses.
    pub(crate) async fn unblock(&self) -> Result<(), BackfillError> {
        if !self.is_blocked.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let path = format!("/{}/_settings", in_path(self.from()));
        ask_until_answered(self.cluster, Method::PUT, &path, Some(&json!({"index.blocks.write": null}))).await.map(drop)
    }

    async fn switch_blocked(
        &self,
        state: &CopyState<'_>,
        mut new: NewIndex<'_>,
        alias: &str,
        properties: Value,
    ) -> Result<(), BackfillError> {
        self.catch_up(state, &mut new).await?;
        self.remove_deleted(state).await?;
        if state.outcome.lock().failed > 0 {
            return Ok(());
        }
        let mut add = json!({"index": self.into, "alias": alias});
        if let (Some(add), Value::Object(properties)) = (add.as_object_mut(), properties) {
            add.extend(properties);
        }
        let remove = json!({"index": self.from(), "alias": alias});
        let actions = json!({"actions": [{"remove": remove}, {"add": add}]});
        self.cluster.ask(Method::POST, "/_aliases", Some(&actions)).await?;
        // What is written to the old index from now on would be lost: it stays blocked.
        self.is_blocked.store(false, Ordering::Relaxed);
        state.outcome.lock().has_moved = true;
        Ok(new.complete().await?)
    }
}

impl CopyState<'_> {
    /// A document cannot be copied.
    fn fail(&self, found: &StoredHit, reason: &str) {
        let outcome = &mut *self.outcome.lock();
        sending::fail(&self.failed, (&mut outcome.failed, &mut outcome.failures), found, reason);
    }
}
