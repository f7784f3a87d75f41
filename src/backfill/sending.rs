//! Bulks that are sent until each of their documents has an outcome, and slices beside each other.

use std::collections::HashSet;
use std::task::Poll;

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderValue;
use parking_lot::Mutex;
use serde_json::Value;
use tracing::warn;

use super::BackfillError;
use super::bulk_lines::{self, ItemOutcome};
use super::bulk_sink::BulkSink;
use crate::cluster::operator::{Operator, OperatorError};
use crate::cluster::retry::{ATTEMPTS, Backoff};
use crate::cluster::sorted_pages::StoredHit;

/// Bytes of a bulk at most, but for one document.
const BULK_BYTES: usize = 8 << 20;
/// Documents that are named with the reason of their failure.
pub(super) const NAMED: usize = 10;

/// Documents that failed, as index and id: a later pass finds them again.
pub(super) type Failed = Mutex<HashSet<(String, String)>>;

/// Takes down once that a document cannot be written: counts it, and names the first ones.
pub(super) fn fail(failed: &Failed, (count, failures): (&mut u64, &mut Vec<String>), found: &StoredHit, reason: &str) {
    if !failed.lock().insert((found.index.clone(), found.id.clone())) {
        return;
    }
    *count += 1;
    if failures.len() < NAMED {
        failures.push(format!("{}/{}: {reason}", found.index, found.id));
    }
}

/// The answer to a request that may be repeated, as soon as the cluster is not too busy for it.
///
/// # Errors
/// If the cluster refuses, or is away or busy at every attempt.
pub(super) async fn ask_until_answered(
    operator: &Operator,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Bytes, BackfillError> {
    let mut backoff = Backoff::new(ATTEMPTS);
    loop {
        let error = match operator.ask_bytes(method.clone(), path, body).await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.may_pass() => error,
            Err(error) => return Err(error.into()),
        };
        if !backoff.wait().await {
            return Err(BackfillError::Busy(error));
        }
    }
}

/// How many of these documents, of so many bytes each, are for one bulk.
pub(super) fn bulk_of(bytes: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    let fit = bytes.take_while(|bytes| {
        sum += bytes;
        sum <= BULK_BYTES
    });
    fit.count().max(1)
}

/// Writes a bulk, and again what the cluster is too busy for. `add` adds the lines of a document; `note` is given the
/// documents whose outcome is known, after each answer.
///
/// # Errors
/// If the sink refuses the bulk, is away or busy at every attempt, or answers something else; what `note` fails with.
pub(super) async fn write_until_decided<T>(
    sink: &impl BulkSink,
    known_as: &HeaderValue,
    mut documents: Vec<T>,
    add: impl Fn(&mut Vec<u8>, &T),
    mut note: impl FnMut(Vec<(T, ItemOutcome)>) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut backoff = Backoff::new(ATTEMPTS);
    loop {
        let mut body = Vec::new();
        documents.iter().for_each(|document| add(&mut body, document));
        let error = match sink.bulk(known_as, body.into()).await {
            Ok(answer) => {
                let Some(outcomes) = bulk_lines::fates(&answer, documents.len()) else {
                    let shown = String::from_utf8_lossy(&answer).chars().take(300).collect();
                    return Err(BackfillError::Answer(shown));
                };
                let (mut decided, mut later, mut busy) = (Vec::with_capacity(documents.len()), Vec::new(), None);
                for (document, outcome) in documents.into_iter().zip(outcomes) {
                    match outcome {
                        ItemOutcome::Later(reason) => {
                            busy.get_or_insert(reason);
                            later.push(document);
                        }
                        outcome => decided.push((document, outcome)),
                    }
                }
                if !decided.is_empty() {
                    note(decided)?;
                }
                let Some(answer) = busy else { return Ok(()) };
                documents = later;
                OperatorError::Refused { status: 429, request: "items of POST /_bulk".into(), answer }
            }
            Err(error) if error.may_pass() => error,
            Err(error) => return Err(error.into()),
        };
        warn!(%error, "a bulk is sent again");
        if !backoff.wait().await {
            return Err(BackfillError::Busy(error));
        }
    }
}

/// Runs all slices beside each other on one task: they wait for the network. The first error ends them.
pub(super) async fn all_of<F>(slices: impl Iterator<Item = F>) -> Result<(), BackfillError>
where
    F: Future<Output = Result<(), BackfillError>>,
{
    let mut slices: Vec<_> = slices.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        let mut at = 0;
        while let Some(slice) = slices.get_mut(at) {
            match slice.as_mut().poll(context) {
                Poll::Ready(Ok(())) => drop(slices.swap_remove(at)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => at += 1,
            }
        }
        match slices.is_empty() {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    })
    .await
}
