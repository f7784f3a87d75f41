//! Sends bulks until each document has an outcome, in concurrent slices.

use std::task::Poll;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::Value;
use tracing::warn;

use super::BackfillError;
use super::bulk_lines::{self, StampOutcome, WriteForm};
use super::bulk_sink::BulkSink;
use crate::cluster::operator::{Operator, OperatorError};
use crate::cluster::retry::{ATTEMPTS, Backoff};
use crate::cluster::sorted_pages::StoredHit;

/// Bytes of a bulk at most, but for one document.
const BULK_BYTES: usize = 8 << 20;

/// Sends an idempotent request until the cluster is not too busy for it.
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

/// Writes a bulk in spinney's own name, once. `own`: the `X-Opaque-Id` by which the cluster's logs show the task;
/// `documents`: how many it has. Answers their outcomes in order.
///
/// # Errors
/// If the cluster refuses, is away, or answers something else: some may have been written.
pub(super) async fn write_own(
    operator: &Operator,
    own: &'static str,
    lines: Vec<u8>,
    documents: usize,
) -> Result<Vec<StampOutcome>, BackfillError> {
    let own = (HeaderName::from_static("x-opaque-id"), HeaderValue::from_static(own));
    let answer = operator.send_lines_with("/_bulk", own, lines.into()).await?;
    let fates = bulk_lines::fates(&answer, documents);
    fates.ok_or_else(|| BackfillError::Answer(String::from_utf8_lossy(&answer).into_owned()))
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

/// Writes a bulk, and repeats documents that the cluster is too busy for. One that is too large for the cluster is
/// halved until the documents are known that are so by themselves, each with its stamp: those are refused, and the
/// others written. `note` is given the documents whose outcome is known, after each answer.
///
/// # Errors
/// If the sink refuses the bulk, is away or busy at every attempt, or answers something else; what `note` fails with.
pub(super) async fn write_until_decided(
    sink: &impl BulkSink,
    known_as: &HeaderValue,
    documents: Vec<(StoredHit, WriteForm)>,
    mut note: impl FnMut(Vec<((StoredHit, WriteForm), StampOutcome)>) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut backoff = Backoff::new(ATTEMPTS);
    let mut pending = vec![documents];
    while let Some(mut documents) = pending.pop() {
        let mut body = Vec::new();
        documents.iter().for_each(|(found, form)| bulk_lines::add(&mut body, found, *form));
        let error = match sink.bulk(known_as, body.into()).await {
            Ok(answer) => {
                let Some(outcomes) = bulk_lines::fates(&answer, documents.len()) else {
                    // Cut on its way, perhaps. What was written is not written twice: its version is another one.
                    let shown: String = String::from_utf8_lossy(&answer).chars().take(300).collect();
                    warn!(answer = shown, "a bulk is sent again");
                    if !backoff.wait().await {
                        return Err(BackfillError::Answer(shown));
                    }
                    pending.push(documents);
                    continue;
                };
                let (mut decided, mut later, mut busy) = (Vec::with_capacity(documents.len()), Vec::new(), None);
                for (document, outcome) in documents.into_iter().zip(outcomes) {
                    match outcome {
                        StampOutcome::Later(reason) => {
                            busy.get_or_insert(reason);
                            later.push(document);
                        }
                        outcome => decided.push((document, outcome)),
                    }
                }
                if !decided.is_empty() {
                    note(decided)?;
                }
                let Some(answer) = busy else { continue };
                pending.push(later);
                OperatorError::Refused { status: 429, request: "items of POST /_bulk".into(), answer }
            }
            Err(error) if error.is_too_large() => {
                match documents.len() {
                    ..=1 => {
                        let refused = |document| (document, StampOutcome::Refused(error.to_string()));
                        note(documents.into_iter().map(refused).collect())?;
                    }
                    len => {
                        let rest = documents.split_off(len / 2);
                        pending.extend([rest, documents]);
                    }
                }
                continue;
            }
            Err(error) if error.may_pass() => {
                pending.push(documents);
                error
            }
            Err(error) => return Err(error.into()),
        };
        warn!(%error, "a bulk is sent again");
        if !backoff.wait().await {
            return Err(BackfillError::Busy(error));
        }
    }
    Ok(())
}

/// Runs all slices concurrently on one task: they are bound by the network. The first error ends them.
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

/// Serialises the first bulks of a run, whatever the number of slices. Until the cluster has accepted one, the writer
/// is unverified: its placements are deferred, and concurrent bulks would not find each other's texts.
#[derive(Debug, Default)]
pub(super) struct FirstBulk(tokio::sync::Mutex<bool>);

impl FirstBulk {
    /// Runs a write, one at a time until one `was_accepted`.
    pub(super) async fn run<T>(&self, write: impl Future<Output = T>, was_accepted: impl FnOnce(&T) -> bool) -> T {
        let mut is_over = self.0.lock().await;
        if *is_over {
            drop(is_over);
            return write.await;
        }
        let written = write.await;
        *is_over = was_accepted(&written);
        written
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// The first bulks may write nothing, as of documents that were deleted meanwhile.
    #[tokio::test]
    async fn the_first_bulk_that_is_accepted_goes_alone() {
        let (first, begun, refused) = (FirstBulk::default(), Cell::new(0), 2);
        let (beside, most, order) = (Cell::new(0), Cell::new(0), RefCell::new(Vec::new()));
        let slices = (0..4).map(|slice| {
            let (first, begun, beside, most, order) = (&first, &begun, &beside, &most, &order);
            async move {
                for bulk in 0..3 {
                    let write = async {
                        let nth = begun.replace(begun.get() + 1);
                        beside.set(beside.get() + 1);
                        most.set(most.get().max(beside.get()));
                        for _ in 0..10 {
                            tokio::task::yield_now().await;
                            assert!(nth > refused || beside.get() == 1, "bulk {nth} is not alone");
                        }
                        beside.set(beside.get() - 1);
                        order.borrow_mut().push((slice, bulk));
                        nth >= refused
                    };
                    first.run(write, |accepted| *accepted).await;
                }
                Ok(())
            }
        });
        all_of(slices).await.unwrap();
        assert_eq!(order.borrow().len(), 12);
        assert_eq!(most.get(), 4, "and after it all slices go beside each other");
    }

    /// A cluster that takes bulks of no more bytes, is busy at first, and then cuts an answer.
    struct Narrow {
        most: usize,
        bulks: AtomicUsize,
    }

    impl BulkSink for Narrow {
        async fn bulk(&self, _: &HeaderValue, lines: Bytes) -> Result<Bytes, OperatorError> {
            let refused =
                |status| OperatorError::Refused { status, request: "POST /_bulk".into(), answer: String::new() };
            let items = lines.iter().filter(|&&byte| byte == b'\n').count() / 2;
            match self.bulks.fetch_add(1, Ordering::Relaxed) {
                0 => return Err(refused(429)),
                1 => return Ok(r#"{"items":[{"update":{"st"#.into()),
                _ => {}
            }
            if lines.len() > self.most {
                return Err(refused(413));
            }
            let item = r#"{"update":{"status":200,"result":"updated"}}"#;
            Ok(format!(r#"{{"items":[{}]}}"#, vec![item; items].join(",")).into())
        }
    }

    /// One document that is too large keeps none of the others from being written, wherever it stands.
    #[tokio::test(start_paused = true)]
    async fn a_bulk_that_is_too_large_is_halved() {
        let hit = |id: usize, letters: usize| StoredHit {
            index: "news".into(),
            id: id.to_string(),
            routing: None,
            seq_no: 1,
            term: 1,
            source: format!(r#"{{"content":"{}"}}"#, "a".repeat(letters)).into(),
            place: None,
        };
        for large in [&[][..], &[0], &[3, 4], &[9], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]] {
            let documents =
                (0..10).map(|id| (hit(id, if large.contains(&id) { 5_000 } else { 10 }), WriteForm::Fields));
            let sink = Narrow { most: 1_000, bulks: AtomicUsize::new(0) };
            let mut outcomes = vec![None; 10];
            let note = |decided: Vec<((StoredHit, WriteForm), StampOutcome)>| {
                for ((found, _), outcome) in decided {
                    let place = found.id.parse::<usize>().unwrap();
                    assert_eq!(outcomes[place].replace(outcome), None, "{place} twice");
                }
                Ok(())
            };
            let known_as = HeaderValue::from_static("news");
            write_until_decided(&sink, &known_as, documents.collect(), note).await.unwrap();
            for (place, outcome) in outcomes.into_iter().enumerate() {
                match large.contains(&place) {
                    true => assert!(matches!(outcome, Some(StampOutcome::Refused(_))), "{place}: {outcome:?}"),
                    false => assert_eq!(outcome, Some(StampOutcome::Stamped), "{place}"),
                }
            }
        }
    }
}
