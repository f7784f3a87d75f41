//! A run: reads, stamps and rechecks documents page by page until none is unstamped.

use std::collections::HashSet;

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderValue;
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::BackfillError;
use super::bulk_lines::{self, StampOutcome, WriteForm};
use super::bulk_sink::BulkSink;
use super::discovery::RouteIndices;
use super::pages::{Batches, page_of};
use super::sending::{FirstBulk, all_of, ask_until_answered, bulk_of, write_until_decided};
use crate::bulk::stored_value;
use crate::cluster::operator::Operator;
use crate::cluster::retry::Pace;
use crate::cluster::sorted_pages::{Slice, StoredHit};
use crate::progress::{Progress, ReportProgress};

/// How often a document is read again that changes all the time.
const ROUNDS: u32 = 20;
/// Most passes over an index, for documents that bypass spinney meanwhile.
const PASSES: u32 = 10;
/// Documents that are named with the reason of their failure.
const NAMED: usize = 10;

/// How documents are adopted.
#[derive(Debug, Clone)]
pub(crate) struct BackfillOptions {
    /// Slices that are processed concurrently; with one the order is kept.
    pub slices: u32,
    /// Documents a second, at most.
    pub rate: Option<u32>,
    /// Documents of a bulk.
    pub batch: usize,
}

/// The outcome of a backfill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BackfillOutcome {
    /// They have a stamp now.
    pub(crate) stamped: u64,
    /// Documents that other writers had stamped before.
    pub(crate) by_others: u64,
    /// Documents that were deleted meanwhile.
    pub(crate) gone: u64,
    /// Version conflicts.
    pub(crate) changed: u64,
    /// They cannot be stamped.
    pub(crate) failed: u64,
    /// The first of these, with the reason.
    pub(crate) failures: Vec<String>,
    /// Documents without a stamp when it was over.
    pub(crate) left: u64,
}

impl BackfillOutcome {
    fn done(&self) -> u64 {
        self.stamped + self.by_others + self.gone + self.failed
    }

    /// Adds another outcome.
    pub(crate) fn add(&mut self, other: BackfillOutcome) {
        self.stamped += other.stamped;
        self.by_others += other.by_others;
        self.gone += other.gone;
        self.changed += other.changed;
        self.failed += other.failed;
        let room = NAMED.saturating_sub(self.failures.len());
        self.failures.extend(other.failures.into_iter().take(room));
        self.left += other.left;
    }
}

/// Adopts the documents of one route.
pub(crate) struct Backfill<'a, D> {
    reader: &'a Operator,
    door: &'a D,
    target: &'a RouteIndices,
    options: &'a BackfillOptions,
    known_as: HeaderValue,
    pace: Pace,
    outcome: Mutex<BackfillOutcome>,
    first: FirstBulk,
    /// Documents that failed, as index and id: a later pass finds them again.
    failed: Mutex<HashSet<(String, String)>>,
    total: u64,
    report: &'a ReportProgress<'a>,
}

impl<'a, D: BulkSink> Backfill<'a, D> {
    /// Of documents that `reader` reads and `door` stamps.
    pub(crate) fn new(
        reader: &'a Operator,
        door: &'a D,
        target: &'a RouteIndices,
        options: &'a BackfillOptions,
        report: &'a ReportProgress<'a>,
    ) -> Backfill<'a, D> {
        Backfill {
            reader,
            door,
            target,
            options,
            known_as: known_as(&target.known_as),
            pace: Pace::new(options.rate),
            outcome: Mutex::default(),
            first: FirstBulk::default(),
            failed: Mutex::default(),
            total: 0,
            report,
        }
    }

    /// Stamps all documents without a stamp; `total` is their number. Reports its progress, which is also valid if the
    /// run is aborted.
    ///
    /// # Errors
    /// If the cluster or spinney refuses, or stays away.
    pub(crate) async fn run(mut self, total: u64) -> Result<BackfillOutcome, BackfillError> {
        self.total = total;
        let mut left = total;
        for _ in 0..PASSES {
            let before = self.outcome.lock().done();
            self.pass().await?;
            left = self.target.count_unstamped(self.reader).await?;
            let done = self.outcome.lock().done();
            let failed = self.failed.lock().len() as u64;
            if left <= failed || done == before {
                break;
            }
        }
        Ok(BackfillOutcome { left, ..self.outcome.into_inner() })
    }

    /// Goes through the documents once, in all slices.
    async fn pass(&self) -> Result<(), BackfillError> {
        let of = self.options.slices.max(1);
        all_of((0..of).map(|id| self.slice(Slice { id, of }))).await
    }

    async fn slice(&self, slice: Slice) -> Result<(), BackfillError> {
        let batch = self.options.batch;
        let pages = self.target.pages(self.reader, self.target.unstamped(), slice, page_of(batch));
        let (pages, read) = pages.read_ahead(Pace::new(None));
        let mut batches = Batches::of(pages, batch);
        let read = async { read.await.map_err(BackfillError::from) };
        let write = async {
            while let Some(documents) = batches.next().await {
                self.write_all(documents).await?;
            }
            Ok(())
        };
        tokio::try_join!(read, write).map(drop)
    }

    /// Writes documents, and those again that have changed meanwhile.
    async fn write_all(&self, documents: Vec<StoredHit>) -> Result<(), BackfillError> {
        let mut page = documents;
        for round in 0..=ROUNDS {
            let mut changed = Vec::new();
            let mut pending = self.with_form(page).await?;
            while !pending.is_empty() {
                let rest = pending.split_off(bulk_of(&pending));
                changed.extend(self.write_bulk(pending).await?);
                pending = rest;
                let done = self.outcome.lock().done();
                self.pace.wait(done).await;
            }
            if changed.is_empty() {
                return Ok(());
            }
            if round == ROUNDS {
                for found in changed {
                    let reason = format!("it changed {ROUNDS} times while it was written");
                    self.fail(&found, &reason);
                }
                return Ok(());
            }
            self.outcome.lock().changed += changed.len() as u64;
            let read = self.read_again(&changed, false).await?;
            page = read.into_iter().flatten().collect();
        }
        Ok(())
    }

    /// How each document is to be written, in their order; those that have to be written whole are read whole.
    async fn with_form(&self, page: Vec<StoredHit>) -> Result<Vec<(StoredHit, WriteForm)>, BackfillError> {
        let formed = page.into_iter().map(|found| {
            let form = bulk_lines::form_of(&found.source);
            (found, form)
        });
        let formed: Vec<(StoredHit, WriteForm)> = formed.collect();
        let odd = formed.iter().filter(|(_, form)| *form == WriteForm::Whole);
        let odd: Vec<StoredHit> = odd.map(|(found, _)| found.clone()).collect();
        if odd.is_empty() {
            return Ok(formed);
        }
        let mut whole = self.read_again(&odd, true).await?.into_iter();
        let mut written = Vec::with_capacity(formed.len());
        for (found, form) in formed {
            match form {
                WriteForm::Fields | WriteForm::FieldsAgain => written.push((found, form)),
                WriteForm::Whole => written.extend(whole.next().flatten().map(|found| (found, form))),
            }
        }
        Ok(written)
    }

    /// Writes one bulk until every document has its fate; answers those that have changed.
    async fn write_bulk(&self, documents: Vec<(StoredHit, WriteForm)>) -> Result<Vec<StoredHit>, BackfillError> {
        let mut changed = Vec::new();
        let note = |decided| self.note(decided, &mut changed);
        let write = write_until_decided(self.door, &self.known_as, documents, note);
        self.first.run(write, |_| self.outcome.lock().stamped > 0).await?;
        Ok(changed)
    }

    /// Counts outcomes.
    fn note(
        &self,
        decided: Vec<((StoredHit, WriteForm), StampOutcome)>,
        changed: &mut Vec<StoredHit>,
    ) -> Result<(), BackfillError> {
        let mut stamped = 0;
        let mut outcomes = decided.iter().map(|(_, outcome)| outcome);
        if outcomes.all(|outcome| *outcome == StampOutcome::Unchanged) && self.outcome.lock().stamped == 0 {
            return Err(BackfillError::NotStamped);
        }
        for ((found, _), outcome) in decided {
            match outcome {
                StampOutcome::Stamped => stamped += 1,
                StampOutcome::Changed => changed.push(found),
                StampOutcome::Gone => self.outcome.lock().gone += 1,
                StampOutcome::Later(reason) | StampOutcome::Refused(reason) => self.fail(&found, &reason),
                StampOutcome::Unchanged => {
                    self.fail(&found, "spinney passed it on without a stamp");
                }
            }
        }
        self.outcome.lock().stamped += stamped;
        self.report_progress();
        Ok(())
    }

    fn report_progress(&self) {
        let done = self.outcome.lock().done();
        (self.report)(Progress { forest: &self.target.route.forest, done, total: self.total.max(done) });
    }

    /// Those of these documents that are there and have no stamp yet, as they are now and in their order. `whole`: with
    /// all their fields. One of which the cluster tells nothing that can be written back is named, and no other's end.
    async fn read_again(&self, documents: &[StoredHit], whole: bool) -> Result<Vec<Option<StoredHit>>, BackfillError> {
        match self.get(documents, whole).await {
            Err(BackfillError::Answer(_)) => {}
            read => return Ok(read?.into_iter().map(|read| self.unstamped(read)).collect()),
        }
        let mut single = Vec::with_capacity(documents.len());
        for found in documents {
            single.push(match self.get(std::slice::from_ref(found), whole).await {
                Err(BackfillError::Answer(reason)) => {
                    self.fail(found, &reason);
                    None
                }
                read => self.unstamped(read?.pop().flatten()),
            });
        }
        Ok(single)
    }

    /// Documents as they are now, in the order of these; `None` for those that are not there. `whole`: with all their
    /// fields.
    async fn get(&self, documents: &[StoredHit], whole: bool) -> Result<Vec<Option<CurrentDocument>>, BackfillError> {
        let root = self.target.names.root();
        let fields = self.target.route.fields.iter().map(String::as_str);
        let wanted: Vec<&str> = fields.chain([root]).collect();
        let named = documents.iter().map(|found| {
            let mut named = json!({"_index": found.index, "_id": found.id});
            if !whole {
                named["_source"] = json!(wanted);
            }
            if let Some(routing) = &found.routing {
                named["routing"] = routing.as_str().into();
            }
            named
        });
        let body = json!({ "docs": named.collect::<Vec<Value>>() });
        let answer = ask_until_answered(self.reader, Method::POST, "/_mget", Some(&body)).await?;
        got(&answer, root, documents.len())
    }

    /// A document that was read again, if it is there and has no stamp yet.
    fn unstamped(&self, read: Option<CurrentDocument>) -> Option<StoredHit> {
        let mut outcome = self.outcome.lock();
        match read {
            None => outcome.gone += 1,
            Some(read) if read.is_stamped => outcome.by_others += 1,
            Some(read) => return Some(read.found),
        }
        None
    }

    /// Takes down once that a document cannot be stamped: counts it, and names the first ones.
    fn fail(&self, found: &StoredHit, reason: &str) {
        if !self.failed.lock().insert((found.index.clone(), found.id.clone())) {
            return;
        }
        let mut outcome = self.outcome.lock();
        outcome.failed += 1;
        if outcome.failures.len() < NAMED {
            outcome.failures.push(format!("{}/{}: {reason}", found.index, found.id));
        }
    }
}

/// A document as it is now.
struct CurrentDocument {
    found: StoredHit,
    is_stamped: bool,
}

/// The value of the header that marks a backfill.
fn known_as(names: &[String]) -> HeaderValue {
    let names = names.iter();
    let names: Vec<String> = names.map(|name| utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()).collect();
    HeaderValue::from_str(&names.join(","))
        .ok()
        .filter(|value| !value.is_empty())
        .unwrap_or(HeaderValue::from_static("-"))
}

#[derive(Deserialize)]
struct MultiGet<'a> {
    #[serde(borrow)]
    docs: Vec<MultiGetItem<'a>>,
}

#[derive(Deserialize)]
struct MultiGetItem<'a> {
    #[serde(rename = "_index")]
    index: String,
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_routing")]
    routing: Option<String>,
    #[serde(rename = "_seq_no", default)]
    seq_no: u64,
    #[serde(rename = "_primary_term", default)]
    term: u64,
    #[serde(default)]
    found: bool,
    #[serde(rename = "_source", borrow)]
    source: Option<&'a RawValue>,
    error: Option<Value>,
}

/// A response of `_mget`.
fn got(answer: &Bytes, root: &str, documents: usize) -> Result<Vec<Option<CurrentDocument>>, BackfillError> {
    let wrong = |what: String| BackfillError::Answer(what);
    let unreadable =
        |error| wrong(format!("its stored source is more than JSON ({error}): index it anew without comments"));
    let got: MultiGet<'_> = serde_json::from_slice(answer).map_err(unreadable)?;
    if got.docs.len() != documents {
        return Err(wrong("POST /_mget: documents are missing".into()));
    }
    let read = got.docs.into_iter().map(|one| {
        if let Some(error) = one.error {
            return Err(wrong(error.to_string()));
        }
        let Some(source) = one.source.filter(|_| one.found) else {
            return Ok(None);
        };
        let members = stored_value(source.get().as_bytes()).unwrap_or_default();
        Ok(Some(CurrentDocument {
            // Null: it waits to be stamped again.
            is_stamped: members.get(root).is_some_and(|root| !root.is_null()),
            found: StoredHit {
                index: one.index,
                id: one.id,
                routing: one.routing,
                seq_no: one.seq_no,
                term: one.term,
                source: answer.slice_ref(source.get().as_bytes()),
                place: None,
            },
        }))
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_are_read_again() {
        let answer = json!({"docs": [
            {"_index": "a", "_id": "1", "found": true, "_seq_no": 3, "_primary_term": 1, "_routing": "r", "_source": {"content": "x"}},
            {"_index": "a", "_id": "2", "found": true, "_seq_no": 4, "_primary_term": 1, "_source": {"content": "x", "cluster_root": "0"}},
            {"_index": "a", "_id": "3", "found": false},
            {"_index": "a", "_id": "4", "found": true, "_seq_no": 5, "_primary_term": 1, "_source": {"content": "x", "cluster_root": null, "cluster_key": 7}},
        ]});
        let answer = Bytes::from(answer.to_string());
        let read = got(&answer, "cluster_root", 4).unwrap();
        let first = read[0].as_ref().unwrap();
        assert!(!first.is_stamped);
        assert_eq!((first.found.seq_no, first.found.routing.as_deref()), (3, Some("r")));
        assert_eq!(&first.found.source[..], b"{\"content\":\"x\"}");
        assert!(read[1].as_ref().unwrap().is_stamped);
        assert!(read[2].is_none());
        assert!(!read[3].as_ref().unwrap().is_stamped);
        assert!(got(&answer, "cluster_root", 2).is_err());
    }

    #[test]
    fn names_in_a_header() {
        assert_eq!(known_as(&[]), "-");
        assert_eq!(known_as(&["a-b".into(), "\u{65b0}".into()]), "a%2Db,%E6%96%B0");
    }
}
