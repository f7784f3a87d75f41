//! Requests of one process take turns, up to eight at once. Requests that arrive meanwhile gather, and small ones are
//! placed together when a turn ends, up to 1,000 documents: as if one after the other, for the round trips of one. So
//! the more writers of single documents there are, the more documents are in a round trip; and how much a Redis is
//! asked for at once is bounded.
//!
//! A request that has documents left, because another process was faster or is not done, pauses outside its turn (4 ms,
//! doubled up to 64 ms, jittered); then it is the first in the queue. One that lost 200 attempts fails, and is
//! withdrawn.
//!
//! A request whose writer leaves before its turn is not placed; one whose writer leaves later is withdrawn as if
//! refused. If Redis is away or full, the requests of the turn fail, and what they got before is withdrawn later. A
//! panic ends the requests of its turn with status 500; the next turn goes on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spinney_text::method::MethodKind;

use super::SharedInner;
use super::round::{DocumentInProgress, PendingBatch};
use crate::port::{Batch, BatchReply, DocumentReply, NotPlaced, PlaceHandle, PortHandle, Unavailable};
use crate::undo_guard::UndoGuard;

/// Documents that are placed together, if they are not of one request. More in a round trip cost no less for each, and
/// keep others waiting.
const TOGETHER: usize = 1_000;
/// Concurrent turns: while one waits for Redis, another works.
const AT_ONCE: usize = 8;
/// The first pause before documents are tried again, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);
/// How often a document is tried.
const ATTEMPTS: u32 = 200;

/// Queue of requests that wait for a turn.
#[derive(Default)]
pub(super) struct Batcher(pub(super) Mutex<WaitingBatch>);

pub(super) struct WaitingBatch {
    requests: VecDeque<PendingBatch>,
    /// Turns that are running.
    pub(super) busy: usize,
    pub(super) most: usize,
    /// The first pause before documents are tried again.
    pub(super) first_pause: Duration,
}

impl Default for WaitingBatch {
    fn default() -> WaitingBatch {
        WaitingBatch { requests: VecDeque::new(), busy: 0, most: AT_ONCE, first_pause: FIRST_PAUSE }
    }
}

impl WaitingBatch {
    /// The next requests: at least one, and as many as may be placed together. `None`: there are none, and this turn
    /// ends.
    pub(super) fn next(&mut self) -> Option<Vec<PendingBatch>> {
        if self.requests.is_empty() {
            self.busy -= 1;
            return None;
        }
        let mut documents = 0;
        let fit = self.requests.iter().take_while(|request| {
            documents += request.len();
            documents <= TOGETHER
        });
        let count = fit.count().max(1);
        Some(self.requests.drain(..count).collect())
    }
}

/// Returns unplaced documents to their requests.
fn give_back(work: Vec<DocumentInProgress>, requests: &mut [PendingBatch]) {
    for work in work {
        if let Some(request) = requests.get_mut(work.request) {
            request.work.push(work);
        }
    }
}

/// Guard of a running turn. A panic ends its requests, and the others continue; the end of the runtime ends all.
struct BatchGuard<F: MethodKind>(Option<Arc<SharedInner<F>>>);

impl<F: MethodKind> Drop for BatchGuard<F> {
    fn drop(&mut self) {
        let Some(inner) = self.0.take() else {
            return;
        };
        let ended = {
            let mut waiting = inner.turns.0.lock();
            waiting.busy -= 1;
            match std::thread::panicking() {
                true => VecDeque::new(),
                false => std::mem::take(&mut waiting.requests),
            }
        };
        drop(ended);
        inner.start_turn();
    }
}

impl<F: MethodKind> SharedInner<F> {
    /// Queues a batch for the next turn.
    pub(super) fn queue(self: &Arc<Self>, batch: Batch) -> PlaceHandle<Batch> {
        let Batch { documents, commit, earlier } = batch;
        let (answer, answered) = self.promise();
        let mut waiting = self.turns.0.lock();
        let request = PendingBatch {
            work: Vec::new(),
            replies: documents.iter().map(|_| None).collect(),
            documents,
            done: Vec::new(),
            came_with: earlier.clone(),
            commit,
            earlier,
            attempt: 0,
            pause: waiting.first_pause,
            begun: Instant::now(),
            answer,
        };
        waiting.requests.push_back(request);
        drop(waiting);
        self.start_turn();
        PortHandle::of(async move {
            match answered.await {
                Ok(Ok(Ok(parcel))) => Ok(parcel.take().ok_or(Unavailable::Stopped)?),
                Ok(Ok(Err(not_placed))) => Err(not_placed),
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(Unavailable::Stopped.into()),
            }
        })
    }

    /// Starts a turn if requests wait and the limit allows it.
    fn start_turn(self: &Arc<Self>) {
        {
            let mut waiting = self.turns.0.lock();
            if waiting.busy >= waiting.most || waiting.requests.is_empty() {
                return;
            }
            waiting.busy += 1;
        }
        let mut turn = BatchGuard(Some(self.clone()));
        self.keys.spawn(Box::pin(async move {
            while let Some(inner) = turn.0.clone() {
                let next = inner.turns.0.lock().next();
                match next {
                    Some(requests) => inner.take_turn(requests).await,
                    None => turn.0 = None,
                }
            }
        }));
    }

    /// Tries to place the remaining documents of these requests, in their order.
    async fn take_turn(self: &Arc<Self>, requests: Vec<PendingBatch>) {
        // Requests without a receiver are not placed.
        let is_wanted = |request: &PendingBatch| !request.answer.is_unwanted();
        let (mut requests, unwanted): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_wanted);
        for request in unwanted {
            self.undo(request.replies.into_iter().flatten().collect());
        }
        let mut work = Vec::with_capacity(requests.iter().map(PendingBatch::len).sum());
        for (at, request) in requests.iter_mut().enumerate() {
            let documents = std::mem::take(&mut request.documents);
            request.work.extend(self.arrivals(documents, &request.earlier));
            let own = request.work.drain(..);
            work.extend(own.map(|own| DocumentInProgress { request: at, ..own }));
        }
        if requests.is_empty() {
            return;
        }
        match self.attempt(work, &mut requests).await {
            Err((error, left)) => {
                give_back(left, &mut requests);
                for request in requests {
                    self.fail(request, error.clone());
                }
            }
            Ok(again) => {
                give_back(again, &mut requests);
                for request in requests {
                    match request.work.is_empty() {
                        true => self.answer(request),
                        false => self.put_back(request),
                    }
                }
            }
        }
    }

    fn answer(self: &Arc<Self>, request: PendingBatch) {
        let replies: Option<Vec<DocumentReply>> = request.replies.into_iter().collect();
        let placements = BatchReply {
            replies: replies.unwrap_or_default(),
            // Placing takes no text work: all of it is waiting.
            waited: request.begun.elapsed(),
            earlier: request.earlier,
            overrides: self.known_overrides.known().overrides().clone(),
        };
        let inner = self.clone();
        // Without a receiver it comes back and is dropped here.
        let parcel = UndoGuard::new(placements, move |unwanted| inner.undo(unwanted.replies));
        request.answer.answer(Ok(Ok(parcel)));
    }

    /// Ends a request that cannot be placed as a whole, and withdraws its placements.
    fn fail(self: &Arc<Self>, mut request: PendingBatch, error: Unavailable) {
        let replies = std::mem::take(&mut request.replies);
        self.undo(replies.into_iter().flatten().collect());
        if !error.is_redis_unavailable() {
            return request.answer.answer(Err(error));
        }
        let (batch, answer) = request.into_batch();
        answer.answer(Ok(Err(NotPlaced { reason: error, documents: Some(batch) })));
    }

    /// Withdraws placements that no caller will settle.
    fn undo(self: &Arc<Self>, replies: Vec<DocumentReply>) {
        let tickets = replies.into_iter().filter_map(|reply| reply.placed?.ticket);
        let tickets: Vec<_> = tickets.collect();
        if tickets.is_empty() {
            return;
        }
        let inner = self.clone();
        self.keys.spawn(Box::pin(async move {
            let _ = inner.withdraw(tickets).await;
        }));
    }

    /// Queues a request again after a pause.
    fn put_back(self: &Arc<Self>, mut request: PendingBatch) {
        request.attempt += 1;
        if request.attempt == ATTEMPTS {
            let reason = "other processes place the same documents again and again";
            self.fail(request, self.overtaken(reason));
            return;
        }
        let left = request.work.len() as u64;
        self.counters.conflicts.fetch_add(left, Relaxed);
        // Two that collide must not do it again and again at the same moment.
        let part = self.random() % 1024;
        let paused = request.pause.mul_f64(0.5 + part as f64 / 1024.0);
        request.pause = (2 * request.pause).min(LONGEST_PAUSE);
        for work in &mut request.work {
            work.waited += paused;
        }
        let inner = self.clone();
        self.keys.spawn(Box::pin(async move {
            inner.keys.pause(paused).await;
            inner.turns.0.lock().requests.push_front(request);
            inner.start_turn();
        }));
    }
}
