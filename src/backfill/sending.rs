//! Bulks that are sent until each of their documents has an outcome, and slices beside each other.

use std::task::Poll;

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderValue;
use serde_json::Value;
use tracing::warn;

use super::BackfillError;
use super::bulk_lines::{self, ItemOutcome, WriteForm};
use super::bulk_sink::BulkSink;
use crate::cluster::operator::{Operator, OperatorError};
use crate::cluster::retry::{ATTEMPTS, Backoff};
use crate::cluster::sorted_pages::StoredHit;

/// Bytes of a bulk at most, but for one document.
const BULK_BYTES: usize = 8 << 20;

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

/// How many of these documents are for one bulk.
pub(super) fn bulk_of(documents: &[(StoredHit, WriteForm)]) -> usize {
    let mut bytes = 0;
    let fit = documents.iter().take_while(|(found, _)| {
        bytes += found.source.len();
        bytes <= BULK_BYTES
    });
    fit.count().max(1)
}

/// Writes a bulk, and again what the cluster is too busy for. `note` is given the documents whose outcome is known,
/// after each answer.
///
/// # Errors
/// If the sink refuses the bulk, is away or busy at every attempt, or answers something else; what `note` fails with.
pub(super) async fn write_until_decided(
    sink: &impl BulkSink,
    known_as: &HeaderValue,
    mut documents: Vec<(StoredHit, WriteForm)>,
    mut note: impl FnMut(Vec<((StoredHit, WriteForm), ItemOutcome)>) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut backoff = Backoff::new(ATTEMPTS);
    loop {
        let mut body = Vec::new();
        documents.iter().for_each(|(found, form)| bulk_lines::add(&mut body, found, *form));
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
