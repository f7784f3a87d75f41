//! Places the documents of one or several concurrent requests: decides from the read set, then claims. Documents that
//! lose a claim to another process, or wait for one, begin again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use spinney_text::method::{FeatureQuery, Lesson, MethodKind, TallyEntry};

use super::SharedInner;
use super::keys::KeyOp;
use super::read_set::{DecidedDocument, MissingKeys, QueryOutcome, ReadSet, ReadValues};
use super::round::{
    Answer, ClaimOutcome, DocumentFate, DocumentInProgress, Failed, PendingBatch, PlacementRound, RecheckQuery,
};
use crate::batch_plan::BatchPlan;
use crate::candidates::PriorClaim;
use crate::document::{DocumentTime, ForestDocument};
use crate::placement::may_found;
use crate::port::{Commit, DocumentReply, EarlierDocuments, RootAssignment, Unavailable};
use crate::time::Millis;
use crate::{Change, Decision, DocumentHash, Rollback, Root, Ticket};

/// How long a document waits for another process's provisional tree before it removes that.
const PATIENCE: Duration = Duration::from_millis(100);

/// Effects of documents that count at once, applied after their claims.
#[derive(Default)]
struct CommittedEffects {
    arrived: Vec<(Rollback, Millis)>,
    counted: Vec<(Rollback, TallyEntry)>,
    /// By request of the batch.
    lessons: Vec<Vec<Lesson>>,
    /// Trees with the other candidates that would have accepted the document.
    met: Vec<(Root, Vec<Root>)>,
}

impl<F: MethodKind> SharedInner<F> {
    /// The documents with their times.
    pub(super) fn arrivals(
        &self,
        documents: Vec<ForestDocument>,
        earlier: &EarlierDocuments,
    ) -> Vec<DocumentInProgress> {
        let mut last = earlier.time;
        let each = documents.into_iter().enumerate();
        each.map(|(place, document)| {
            let claimed = match document.when {
                DocumentTime::At(at) | DocumentTime::Claimed(at) => Some(at),
                DocumentTime::AsBefore => last.max(self.dated_clock()),
                DocumentTime::Still => None,
            };
            let at = self.arrives(claimed);
            let now = match self.calendar.is_dated {
                true => claimed,
                false => claimed.map(|_| at),
            };
            last = now.max(self.dated_clock()).filter(|_| now.is_some()).or(last);
            DocumentInProgress { request: 0, place, document, now, at, waited: Duration::ZERO }
        })
        .collect()
    }

    /// One attempt to place documents of some requests; returns those to be retried, after an error all unplaced ones.
    pub(super) async fn attempt(
        self: &Arc<Self>,
        work: Vec<DocumentInProgress>,
        requests: &mut [PendingBatch],
    ) -> Result<Vec<DocumentInProgress>, Failed> {
        let earlier = requests.iter().map(|request| request.earlier.clone());
        let base = BatchPlan::default();
        let round = self.decide(work, earlier.collect(), base, false).await?;
        let claimed = match self.claim(&round).await {
            Ok(claimed) => claimed,
            Err(error) => return Err((error, round.work)),
        };
        self.end(round, claimed, requests).await
    }

    /// Decides placements, repeating reads until no value is missing. `earlier`: of each request. A dry placement does
    /// not wait for trees that others are founding.
    pub(super) async fn decide(
        self: &Arc<Self>,
        work: Vec<DocumentInProgress>,
        earlier: Vec<EarlierDocuments>,
        base: BatchPlan<F::Proof>,
        is_dry: bool,
    ) -> Result<PlacementRound<F>, Failed> {
        let mut round = PlacementRound {
            answers: Vec::new(),
            work,
            read: ReadValues::default(),
            missing: MissingKeys::default(),
            plans: base.clone(),
        };
        let decided = self.decide_in(&mut round, earlier, base, is_dry);
        match decided.await {
            Ok(()) => Ok(round),
            Err(error) => Err((error, round.work)),
        }
    }

    async fn decide_in(
        self: &Arc<Self>,
        round: &mut PlacementRound<F>,
        earlier: Vec<EarlierDocuments>,
        base: BatchPlan<F::Proof>,
        is_dry: bool,
    ) -> Result<(), Unavailable> {
        self.agree_on_fields(is_dry).await?;
        self.announce().await?;
        let mut syncing = self.start_sync().await?;
        loop {
            let (earlier, base) = (earlier.clone(), base.clone());
            let (work, read) = (std::mem::take(&mut round.work), std::mem::take(&mut round.read));
            *round = self.compute(move |inner| inner.ask(work, read, earlier, base, is_dry)).await?;
            if let Some(reply) = syncing.take()
                && self.has_synced(reply).await?
            {
                // Other sentences are left out now, so other fingerprints are to be read.
                continue;
            }
            if round.missing.is_empty() {
                return Ok(());
            }
            let missing = std::mem::take(&mut round.missing);
            self.fetch(&mut round.read, missing).await?;
            if self.calendar.is_dated {
                let new = |work: &&mut DocumentInProgress| work.waited.is_zero();
                for work in round.work.iter_mut().filter(new) {
                    work.at = self.dated_arrival(work.now);
                }
            }
        }
    }

    /// Runs the placement rules for one document after the other.
    fn ask(
        &self,
        mut work: Vec<DocumentInProgress>,
        read: ReadValues<F::Proof>,
        mut earlier: Vec<EarlierDocuments>,
        base: BatchPlan<F::Proof>,
        is_dry: bool,
    ) -> PlacementRound<F> {
        let mut answers = Vec::with_capacity(work.len());
        let (missing, plans) = {
            let (thresholds, calendar) = (self.thresholds, self.calendar());
            let found_by = (self.settings.max_tree, &self.blocks);
            let mut read_set = ReadSet::new(&read, base, thresholds, calendar, found_by);
            read_set.joins_all = is_dry;
            let mut learned = self.learned.lock();
            for work in &mut work {
                let Some(earlier) = earlier.get_mut(work.request) else {
                    answers.push(Answer::None);
                    continue;
                };
                let answer = self.ask_one(work, &mut read_set, &mut learned, earlier);
                if let Answer::Fate(fate) = &answer {
                    let outcome = &fate.decided.outcome;
                    let count = TallyEntry { title: work.document.title, sign: fate.decided.sign };
                    earlier.tallies.add(outcome.root.0, count);
                    earlier.add_lessons(fate.lesson.iter().chain(&fate.lesson_in_doubt));
                }
                answers.push(answer);
            }
            read_set.into_missing()
        };
        PlacementRound { work, answers, read, missing, plans }
    }

    fn ask_one(
        &self,
        work: &mut DocumentInProgress,
        read_set: &mut ReadSet<'_, F::Proof>,
        learned: &mut F::Learned,
        earlier: &EarlierDocuments,
    ) -> Answer<F> {
        let at = work.at;
        let claim = work.document.given.map(|root| PriorClaim::by_dry_placement(root, &earlier.given));
        let features = work.document.features.as_mut().and_then(F::features);
        let Some(features) = features else {
            return Answer::None;
        };
        let answered = F::ask(features, learned, &earlier.taught, |query| {
            // A fingerprint whose key cannot be used is none of the document's: it would found or claim there for ever.
            let [fingerprints, more] = [query.fingerprints, query.more].map(|all| read_set.read.usable(all));
            let query =
                &FeatureQuery { fingerprints: &fingerprints, more: &more, earlier: Some(&earlier.tallies), ..*query };
            let answered = read_set.place(query, at, claim);
            let of_tree = match &answered {
                QueryOutcome::Decided(decided) => {
                    let root = decided.outcome.root;
                    if decided.outcome.decision == Decision::NewRoot {
                        read_set.plans.add(Change::First { root, first: work.document.id });
                    }
                    read_set.first(root)
                }
                QueryOutcome::Unread | QueryOutcome::Waits(_) => DocumentHash::UNKNOWN,
            };
            let question = match &answered {
                QueryOutcome::Decided(decided) => Some(RecheckQuery::of(query, decided, claim.is_some())),
                QueryOutcome::Unread | QueryOutcome::Waits(_) => None,
            };
            // A retry of the document that founded the tree, or a copy of it.
            let may_teach = matches!(&answered, QueryOutcome::Decided(decided)
                if decided.outcome.decision == Decision::Refreshed && may_found(query, decided.outcome.root));
            (answered, question, may_teach, of_tree)
        });
        let (decided, question, may_teach, of_tree) = match answered {
            (QueryOutcome::Waits(roots), ..) => return Answer::Waits(roots),
            (QueryOutcome::Decided(decided), Some(question), may_teach, of_tree) => {
                (decided, question, may_teach, of_tree)
            }
            (QueryOutcome::Unread | QueryOutcome::Decided(_), ..) => return Answer::Unread,
        };
        let founds = decided.outcome.decision == Decision::NewRoot && F::LEARNS;
        let (by, is_doubtful) = (decided.outcome.by, decided.outcome.is_doubtful);
        Answer::Fate(Box::new(DocumentFate {
            lesson: founds.then(|| F::lesson(features)),
            lesson_in_doubt: is_doubtful.then(|| F::lesson_in_doubt(features, learned, &earlier.taught)),
            may_teach,
            stage: by.and_then(|by| F::stage(features, by)),
            of_tree,
            question,
            decided,
        }))
    }

    /// Creates the replies of placed documents, and returns the others.
    async fn end(
        self: &Arc<Self>,
        round: PlacementRound<F>,
        mut claimed: Vec<ClaimOutcome>,
        requests: &mut [PendingBatch],
    ) -> Result<Vec<DocumentInProgress>, Failed> {
        let (mut again, mut killed) = (Vec::new(), BTreeSet::new());
        let mut effects = CommittedEffects::default();
        effects.lessons.resize_with(requests.len(), Vec::new);
        let each = round.work.into_iter().zip(round.answers);
        for (at, (work, answer)) in each.enumerate() {
            let claimed = claimed.get_mut(at).map(std::mem::take).unwrap_or_default();
            let Some(request) = requests.get_mut(work.request) else {
                continue;
            };
            let fate = match (answer, claimed) {
                (Answer::None, _) => {
                    self.reply(&work, None, &mut request.replies);
                    request.done.push(work);
                    continue;
                }
                (Answer::Fate(fate), ClaimOutcome::Holds(rollback)) => (fate, rollback),
                (Answer::Waits(roots), _) => {
                    if work.waited >= PATIENCE {
                        killed.extend(roots);
                    }
                    again.push(work);
                    continue;
                }
                (Answer::Unread | Answer::Fate(_), _) => {
                    again.push(work);
                    continue;
                }
            };
            let (fate, rollback) = fate;
            let (commit, earlier) = (request.commit, &mut request.earlier);
            let may_teach = fate.may_teach;
            let (mut placed, mut ticket, lesson) = self.placed(&work, *fate, rollback, commit, earlier);
            ticket.teaches = match lesson {
                Some(lesson) => {
                    self.pending.lock().founded(ticket.root, lesson);
                    true
                }
                None => may_teach && self.pending.lock().again(ticket.root),
            };
            earlier.time = work.now.map(|_| placed.clock).or(earlier.time);
            match commit {
                Commit::AtOnce => self.commit_at_once(&mut ticket, work.request, &mut effects),
                Commit::Provisional => earlier.tallies.add(ticket.root.0, ticket.count),
            }
            placed.ticket = Some(ticket);
            self.reply(&work, Some(placed), &mut request.replies);
            request.done.push(work);
        }
        let kill = killed.into_iter().filter_map(|root: Root| {
            let kept = round.read.kept(root.0)?;
            let value = kept.bytes.clone();
            Some((root.0, KeyOp::Remove { value }))
        });
        let kill = kill.collect();
        let ended = async {
            self.apply_effects(effects).await?;
            self.run(kill).await.map(drop)
        };
        match ended.await {
            Ok(()) => Ok(again),
            Err(error) => Err((error, again)),
        }
    }

    /// Takes the effects of a document that counts at once from its ticket; `request`: its place in the batch.
    fn commit_at_once(&self, ticket: &mut Ticket, request: usize, effects: &mut CommittedEffects) {
        let claimed = ticket.claimed.take();
        effects.arrived.extend(claimed.map(|at| (ticket.rollback.clone(), at)));
        effects.counted.push((ticket.rollback.clone(), ticket.count));
        if let Some(lessons) = effects.lessons.get_mut(request) {
            if std::mem::take(&mut ticket.teaches) {
                lessons.extend(self.take_lessons(&[ticket.root]));
            }
            lessons.extend(ticket.lesson.take());
        }
        effects.met.push((ticket.root, ticket.others.clone()));
    }

    async fn apply_effects(self: &Arc<Self>, effects: CommittedEffects) -> Result<(), Unavailable> {
        self.arrive(effects.arrived).await?;
        self.count(effects.counted.into_iter()).await?;
        for lessons in effects.lessons {
            // A request counts each sentence once, and another one counts it again.
            self.publish_lessons(lessons).await?;
        }
        self.consider_late_merges(effects.met).await.map(drop)
    }

    fn reply(&self, work: &DocumentInProgress, placed: Option<RootAssignment>, replies: &mut [Option<DocumentReply>]) {
        self.counters.documents.fetch_add(u64::from(placed.is_some()), Relaxed);
        if let Some(reply) = replies.get_mut(work.place) {
            *reply = Some(DocumentReply { now: work.now, placed });
        }
    }

    /// The reply of a document, its ticket, and its lesson if it founded a tree.
    pub(super) fn placed(
        &self,
        work: &DocumentInProgress,
        fate: DocumentFate<F::Proof>,
        rollback: Rollback,
        commit: Commit,
        earlier: &mut EarlierDocuments,
    ) -> (RootAssignment, Ticket, Option<Lesson>) {
        let DocumentFate { decided, lesson, lesson_in_doubt, may_teach: _, stage, of_tree, question } = fate;
        let without_founder_tokens = decided.without_founder_tokens as u64;
        self.counters.without_founder_tokens.fetch_add(without_founder_tokens, Relaxed);
        let (outcome, at) = (decided.outcome, work.at);
        let claimed = work.now.filter(|_| self.calendar.is_dated);
        let known = self.known_overrides.known();
        // A pinned text suggests no late merges.
        let others = match known.overrides().is_pinned(question.whole) {
            true => Vec::new(),
            false => outcome.others.clone(),
        };
        let ticket = Ticket {
            root: outcome.root,
            rollback,
            count: TallyEntry { title: work.document.title, sign: decided.sign },
            claimed,
            teaches: false,
            lesson: lesson_in_doubt,
            others,
        };
        if commit == Commit::Provisional {
            earlier.add_lessons(lesson.iter().chain(&ticket.lesson));
        }
        let answer = known.overrides().shown_root(question.whole, outcome.root);
        let (first, fills_vacancy) =
            work.document.id.is_first_or_fills(of_tree, outcome.decision, answer == outcome.root);
        let mut placed = RootAssignment {
            root: outcome.root,
            first,
            fills_vacancy,
            answer,
            decision: outcome.decision,
            arrived: outcome.arrived(at),
            founded: outcome.founded.unwrap_or(at),
            clock: claimed.map_or(at, |claimed| claimed.max(at)),
            stage,
            in_turn: outcome.by.is_some(),
            refused: outcome.refused,
            learned: Vec::new(),
            is_local_fallback: false,
            ticket: None,
        };
        earlier.fill(&mut placed);
        (placed, ticket, lesson)
    }
}

impl<P: Clone> RecheckQuery<P> {
    fn of(query: &FeatureQuery<'_, P>, decided: &DecidedDocument, is_given: bool) -> RecheckQuery<P> {
        let fingerprints = match decided.used_all_fingerprints {
            true => query.more,
            false => query.fingerprints,
        };
        RecheckQuery {
            fingerprints: fingerprints.to_vec(),
            known_by: query.known_by.to_vec(),
            whole: query.whole,
            proof: query.proof.clone(),
            tokens: match decided.outcome.decision {
                Decision::NewRoot => query.tokens.to_vec(),
                // A joiner rechecks its own text only.
                _ => Vec::new(),
            },
            take: query.take,
            known_by_whole: query.known_by_whole,
            refused: decided.outcome.refused.iter().map(|&(root, _)| root).collect(),
            is_given,
        }
    }
}
