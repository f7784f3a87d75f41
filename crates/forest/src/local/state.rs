//! The state of a local forest: trees, overrides and learned text. Pure and single-threaded; its owner locks it.

use std::collections::VecDeque;
use std::sync::Arc;

use spinney_text::method::{FeatureQuery, Lesson, Measure, MethodKind, Proof, Refusal, TallyEntry};
use spinney_text::text::boilerplate::PendingSentences;

use crate::candidates::PriorClaim;
use crate::document::{DocumentTime, ForestDocument};
use crate::late_merges::{LateMergeLog, LateMerges, MergeCandidates, are_one, may_be_one};
use crate::overrides::{Override, OverrideChange, Overrides, RestampPass};
use crate::pending_lessons::PendingLessons;
use crate::placement::may_found;
use crate::port::{
    CheckReply, CheckedDocument, CheckedFingerprint, CheckedTree, Commit, DocumentReply, EarlierDocuments, ItemOutcome,
    RootAssignment, SettleReport, Settlement,
};
use crate::time::Millis;
use crate::{Change, Decision, DocumentHash, Forest, ForestError, LateMergeStats, NearNode, Root, Settings, Ticket};

/// Trees, overrides and learned text: documents in, placements out.
#[derive(Debug)]
pub struct ForestState<F: MethodKind> {
    pub(crate) forest: Forest<F::Proof>,
    pub(super) learned: F::Learned,
    /// Lessons that count when their documents are accepted.
    pub(crate) pending: PendingLessons,
    /// The overrides, shared with readers: a change copies them.
    pub(super) overrides: Arc<Overrides>,
    /// Trees that may be one.
    merge_candidates: MergeCandidates,
    /// Placements of unknown outcome, and when they are taken back, in that order.
    unknown: VecDeque<(Millis, Ticket)>,
    /// The changes since they were last taken; `None` unless recording is on.
    recorded: Option<Vec<StateChange<F::Proof>>>,
}

/// How long the nodes of a document of unknown outcome stay, in milliseconds: longer than clients wait between retries,
/// and too short for other documents to join them.
pub const RETRY_WINDOW: Millis = Millis(60_000);

/// Most documents of one request that teach boilerplate: one request must not displace the lessons of others.
const TEACHERS: usize = 1_000;

/// One change of a forest or of its learned text.
#[derive(Debug, Clone, PartialEq)]
pub enum StateChange<P> {
    /// Of its trees.
    Tree(Change<P>),
    /// A lesson of documents that founded trees.
    Learn(Lesson),
    /// A pending lesson of a document that founded a tree.
    Pending {
        /// Its tree.
        root: Root,
        /// The lesson.
        lesson: Lesson,
    },
    /// The trees that have taught with the documents of one request.
    Taught(Vec<Root>),
    /// A change of overrides.
    Overrides(OverrideChange),
}

impl<F: MethodKind> ForestState<F> {
    /// A state without trees.
    ///
    /// # Errors
    /// As [`Forest::new`].
    pub fn new(
        settings: Settings,
        thresholds: <F::Proof as Proof>::Thresholds,
        learned: F::Learned,
    ) -> Result<ForestState<F>, ForestError> {
        Ok(ForestState {
            forest: Forest::new(settings)?.with_thresholds(thresholds),
            learned,
            pending: PendingLessons::default(),
            overrides: Arc::default(),
            merge_candidates: MergeCandidates::default(),
            unknown: VecDeque::new(),
            recorded: None,
        })
    }

    /// Sets the budget for founder tokens, in bytes; to be called before anything is placed.
    pub fn with_founder_tokens(mut self, bytes: usize) -> ForestState<F> {
        self.forest.set_founder_token_bytes(bytes);
        self
    }

    /// Sets how late merges are handled from now on.
    pub fn set_late_merges(&mut self, mode: LateMerges) {
        self.merge_candidates.mode = mode;
    }

    /// Starts to record changes for [`take_changes`](ForestState::take_changes).
    pub fn record(&mut self) {
        self.forest.record();
        self.recorded.get_or_insert_default();
    }

    /// Takes the recorded changes in order; empty unless [`record`](ForestState::record) was called.
    pub fn take_changes(&mut self) -> Vec<StateChange<F::Proof>> {
        self.collect_changes();
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn collect_changes(&mut self) {
        if let Some(recorded) = &mut self.recorded {
            let trees = self.forest.take_changes().into_iter();
            recorded.extend(trees.map(StateChange::Tree));
        }
    }

    /// Records changes of the state after those of the trees, if recording is on.
    fn note<C: IntoIterator<Item = StateChange<F::Proof>>>(&mut self, changes: impl FnOnce() -> C) {
        self.collect_changes();
        if let Some(recorded) = &mut self.recorded {
            recorded.extend(changes());
        }
    }

    /// Applies a change that another forest, or this one in an earlier life, has made.
    pub fn apply(&mut self, change: &StateChange<F::Proof>) {
        match change {
            StateChange::Tree(change) => {
                self.forest.apply(change);
            }
            StateChange::Learn(lesson) => {
                F::learn(&mut self.learned, lesson);
            }
            StateChange::Pending { root, lesson } => self.pending.founded(*root, lesson.clone()),
            StateChange::Taught(roots) => {
                self.learn_pending(roots);
            }
            StateChange::Overrides(change) => Arc::make_mut(&mut self.overrides).apply(change),
        }
    }

    /// Adds an override. `shown`: the roots that documents of a pin show. Returns its number; `None` at the limit.
    pub fn add_override(&mut self, correction: Override, shown: &[Root]) -> Option<u64> {
        let (number, changes) = Arc::make_mut(&mut self.overrides).add(correction, shown)?;
        self.merge_candidates.overrides_changed();
        self.overrides_changed(changes);
        Some(number)
    }

    /// Undoes an override. Returns it, if there is one of this number.
    pub fn undo_override(&mut self, number: u64) -> Option<Override> {
        let (correction, changes) = Arc::make_mut(&mut self.overrides).undo(number)?;
        self.merge_candidates.overrides_changed();
        self.overrides_changed(changes);
        Some(correction)
    }

    /// Marks the tasks of a pass as done, as far as they are still current.
    pub fn restamped(&mut self, done: &RestampPass) {
        let changes = Arc::make_mut(&mut self.overrides).restamped(done);
        self.overrides_changed(changes);
    }

    fn overrides_changed(&mut self, changes: Vec<OverrideChange>) {
        self.note(|| changes.into_iter().map(StateChange::Overrides));
    }

    /// The late merges since the start that are still valid.
    pub fn late_merges(&self) -> LateMergeLog {
        self.merge_candidates.late_merges(&self.overrides)
    }

    /// The late merges as counts.
    pub fn late_merge_stats(&self) -> LateMergeStats {
        self.late_merges().stats()
    }

    /// Adds the late merge of two trees' groups, if there is room.
    fn merge_late(&mut self, winner: Root, loser: Root) {
        if self.merge_candidates.is_time_to_forget() {
            let now = self.forest.clock();
            let is_alive = |root| self.forest.tree_at(root, now).is_some();
            let numbers = self.overrides.outlived(is_alive);
            if !numbers.is_empty() {
                let change = OverrideChange::Remove { numbers };
                Arc::make_mut(&mut self.overrides).apply(&change);
                self.overrides_changed(vec![change]);
            }
        }
        let added = match self.overrides.has_room_for_late_merge() {
            true => self.add_override(Override::LateMerge { winner, loser }, &[]),
            false => None,
        };
        match added {
            Some(_) => self.merge_candidates.applied += 1,
            None => self.merge_candidates.no_room += 1,
        }
    }

    /// Considers late merges of a tree with other trees that an accepted document of it agrees with.
    fn consider_late_merges(&mut self, tree: Root, others: &[Root]) {
        if self.merge_candidates.mode == LateMerges::Off || !F::Proof::TELLS_OF_ROOTS {
            return;
        }
        for &other in others {
            if !may_be_one(&self.overrides, tree, other) {
                continue;
            }
            let agree = self.merge_candidates.known(tree, other).or_else(|| {
                let learned = F::view(&self.learned);
                let agree = |one, other| self.forest.roots_agree(one, other, learned);
                let now = self.forest.clock();
                let is_alive = |root| self.forest.tree_at(root, now).is_some();
                let agree = are_one(&self.overrides, (tree, other), is_alive, agree)?;
                self.merge_candidates.judged(tree, other, agree);
                Some(agree)
            });
            if agree == Some(true) && self.merge_candidates.mode == LateMerges::Apply {
                self.merge_late(tree, other);
            }
        }
    }

    /// The overrides.
    pub fn overrides(&self) -> &Arc<Overrides> {
        &self.overrides
    }

    /// Replaces the overrides by those of a snapshot.
    pub(crate) fn set_overrides(&mut self, overrides: Overrides) {
        self.overrides = Arc::new(overrides);
    }

    /// The learned text.
    pub fn learned(&self) -> &F::Learned {
        &self.learned
    }

    /// The learned text, for initial lessons.
    pub fn learned_mut(&mut self) -> &mut F::Learned {
        &mut self.learned
    }

    pub(crate) fn forest_mut(&mut self) -> &mut Forest<F::Proof> {
        &mut self.forest
    }

    /// Its trees.
    pub fn forest(&self) -> &Forest<F::Proof> {
        &self.forest
    }

    /// Finds or makes the place of a document that counts at once.
    pub fn place(&mut self, document: ForestDocument) -> DocumentReply {
        self.place_by(document, Commit::AtOnce, &mut EarlierDocuments::default())
    }

    /// Prefetches memory of the next documents to place: the nodes of the second one, the trees of the first one.
    /// Affects nothing but time.
    pub(super) fn prefetch(&self, next: &mut [ForestDocument]) {
        let mut features = next.iter_mut().map(|document| document.features.as_mut().and_then(F::features));
        if let Some(first) = features.next().flatten() {
            F::expected(first, |fingerprint| self.forest.prefetch_trees(&[fingerprint]));
        }
        if let Some(second) = features.next().flatten() {
            F::expected(second, |fingerprint| self.forest.prefetch_nodes(&[fingerprint]));
        }
    }

    /// Finds or creates the place of a document. Until it is settled, its lessons count for its own request only.
    pub fn place_by(
        &mut self,
        document: ForestDocument,
        commit: Commit,
        earlier: &mut EarlierDocuments,
    ) -> DocumentReply {
        let now = self.time(document.when, earlier);
        // A document without a date arrives with the one before it, which may yet be refused.
        let claimed = match (document.when, commit) {
            (DocumentTime::Claimed(_) | DocumentTime::AsBefore, Commit::Provisional) => now,
            _ => None,
        };
        let mut features = document.features;
        let features = features.as_mut().and_then(F::features);
        let placed = features.map(|features| {
            let at = now.unwrap_or(Millis(0));
            let (title, id, given) = (document.title, document.id, document.given);
            let (mut placed, mut ticket) = self.place_features(features, (title, id, given), at, claimed, earlier);
            earlier.time = now.map(|_| placed.clock).or(earlier.time);
            earlier.fill(&mut placed);
            match commit {
                Commit::AtOnce => {
                    self.forest.count(ticket.root, ticket.count);
                    self.forest.settle(&ticket.rollback);
                    let teaches = std::mem::take(&mut ticket.teaches).then_some(ticket.root);
                    self.teach(teaches.into_iter().collect(), ticket.lesson.take().into_iter().collect());
                    self.consider_late_merges(ticket.root, &ticket.others);
                }
                Commit::Provisional => {
                    earlier.tallies.add(ticket.root.0, ticket.count);
                    earlier.add_lessons(&ticket.lesson);
                }
            }
            if placed.decision == Decision::NewRoot {
                let lesson = F::lesson(features);
                match commit {
                    Commit::AtOnce => placed.learned = self.learn_at_once(lesson, &F::lesson_sentences(features)),
                    Commit::Provisional => {
                        earlier.add_lessons([&lesson]);
                        ticket.teaches = self.founded(ticket.root, lesson);
                    }
                }
            }
            placed.ticket = Some(ticket);
            placed
        });
        DocumentReply { now, placed }
    }

    fn place_features(
        &mut self,
        features: &mut F::Features,
        (title, id, given): (Option<u32>, DocumentHash, Option<Root>),
        at: Millis,
        claimed: Option<Millis>,
        earlier: &EarlierDocuments,
    ) -> (RootAssignment, Ticket) {
        let Self { forest, learned, pending, .. } = self;
        let given = given.map(|root| PriorClaim::by_dry_placement(root, &earlier.given));
        let (mut placement, text, teaches) = F::ask(features, learned, &earlier.taught, |query| {
            let query = &FeatureQuery { earlier: Some(&earlier.tallies), ..*query };
            let placement = match claimed {
                Some(_) => forest.place_provisionally(query, given),
                None => forest.place_given(query, at, given),
            };
            // A retry of the document that founded the tree, or a copy of it.
            let is_again = placement.decision == Decision::Refreshed && pending.has(placement.root);
            let teaches = is_again && may_found(query, placement.root) && pending.again(placement.root);
            (placement, query.whole, teaches)
        });
        if placement.decision == Decision::NewRoot {
            let root = placement.root;
            self.add_refused_by_boilerplate(features, root, &mut placement.refused);
        }
        let ticket = Ticket {
            root: placement.root,
            rollback: placement.rollback,
            count: TallyEntry { title, sign: placement.sign },
            claimed,
            teaches,
            lesson: self.lesson_in_doubt(features, placement.is_doubtful, &earlier.taught),
            // A pinned text suggests no late merges.
            others: match self.overrides.is_pinned(text) {
                true => Vec::new(),
                false => placement.others,
            },
        };
        if placement.decision == Decision::NewRoot {
            self.forest.set_first(placement.root, id);
        }
        let answer = self.overrides.shown_root(text, placement.root);
        let of_tree = self.forest.first(placement.root);
        let (first, fills_vacancy) = id.is_first_or_fills(of_tree, placement.decision, answer == placement.root);
        let placed = RootAssignment {
            root: placement.root,
            first,
            fills_vacancy,
            answer,
            decision: placement.decision,
            arrived: placement.arrived,
            founded: placement.founded,
            clock: self.forest.clock().max(at),
            stage: placement.by.and_then(|by| F::stage(features, by)),
            in_turn: placement.by.is_some(),
            refused: placement.refused,
            learned: Vec::new(),
            is_local_fallback: false,
            ticket: None,
        };
        (placed, ticket)
    }

    /// Adds to `refused` the trees that only sentences which are boilerplate now have in common with the document.
    fn add_refused_by_boilerplate(&self, features: &F::Features, own: Root, refused: &mut Vec<(Root, Refusal)>) {
        for fingerprint in F::left_out(features, &self.learned).fingerprints {
            self.forest.roots_near(fingerprint, |root| add_refused(refused, own, root));
        }
    }

    /// The lesson of a document that joins a tree in doubt, if it has one.
    pub(super) fn lesson_in_doubt(
        &self,
        features: &F::Features,
        is_doubtful: bool,
        taught: &PendingSentences,
    ) -> Option<Lesson> {
        is_doubtful.then(|| F::lesson_in_doubt(features, &self.learned, taught))
    }

    /// Learns from a document that founded a tree. Answers which of its sentences became boilerplate.
    fn learn_at_once(&mut self, lesson: Lesson, sentences: &[usize]) -> Vec<usize> {
        let became = self.learn(lesson).into_iter();
        became.filter_map(|at| sentences.get(at).copied()).collect()
    }

    fn learn(&mut self, lesson: Lesson) -> Vec<usize> {
        let became = F::learn(&mut self.learned, &lesson);
        self.note(|| [StateChange::Learn(lesson)]);
        became
    }

    /// Adds the pending lesson of a document that founded a tree. Returns whether the lesson has content.
    pub(super) fn founded(&mut self, root: Root, lesson: Lesson) -> bool {
        if F::LEARNS {
            self.note(|| [StateChange::Pending { root, lesson: lesson.clone() }]);
            self.pending.founded(root, lesson);
        }
        F::LEARNS
    }

    /// Settles documents of one request: accepted ones count, refused ones are withdrawn, those of unknown outcome
    /// are kept for a while. `now` is when the response arrived.
    pub fn settle(&mut self, batch: Vec<Settlement>, now: Millis) -> SettleReport {
        let (mut refused, mut taught, mut met) = (Vec::new(), Vec::new(), Vec::new());
        let mut lessons = Vec::new();
        let merged_before = self.merge_candidates.applied;
        let due = 2 * batch.len();
        for Settlement { ticket, outcome } in batch {
            match outcome {
                ItemOutcome::Accepted => {
                    if let Some(claimed) = ticket.claimed {
                        self.forest.arrive(&ticket.rollback, claimed);
                    }
                    self.forest.count(ticket.root, ticket.count);
                    self.forest.settle(&ticket.rollback);
                    if !ticket.others.is_empty() {
                        met.push((ticket.root, ticket.others));
                    }
                    if ticket.teaches && self.pending.has(ticket.root) {
                        taught.push(ticket.root);
                    }
                    lessons.extend(ticket.lesson);
                }
                ItemOutcome::Refused => refused.push(ticket),
                ItemOutcome::Unknown => {
                    let due = Millis(now.0.saturating_add(RETRY_WINDOW.0));
                    self.unknown.push_back((due, ticket));
                }
            }
        }
        let mut settled = SettleReport { learned: self.teach(taught, lessons), ..self.withdraw(refused.into_iter()) };
        // Trees of documents that were refused have gone.
        for (root, others) in met {
            self.consider_late_merges(root, &others);
        }
        self.forest.expire(self.forest.clock(), due);
        settled.notices = self.forest.take_notices();
        settled.merged = self.merge_candidates.applied - merged_before;
        settled
    }

    /// Learns the pending lessons of these trees, and lessons of one request's documents. Returns how many sentences
    /// became boilerplate.
    fn teach(&mut self, roots: Vec<Root>, lessons: Vec<Lesson>) -> u64 {
        let (pending, mut became) = self.learn_pending(&roots);
        if !roots.is_empty() {
            self.note(|| [StateChange::Taught(roots)]);
        }
        // A request counts each sentence once.
        let is_new = |hash: &u64| pending.as_ref().is_none_or(|known| known.sentences.binary_search(hash).is_err());
        if let Some(mut lesson) = Lesson::of_request(lessons, TEACHERS) {
            lesson.sentences.retain(is_new);
            became += self.learn(lesson).len() as u64;
        }
        became
    }

    /// Learns the pending lessons of these trees, of at most [`TEACHERS`]. Returns the sum of the lessons, and how many
    /// sentences became boilerplate.
    fn learn_pending(&mut self, roots: &[Root]) -> (Option<Lesson>, u64) {
        let lessons: Vec<Lesson> = roots.iter().filter_map(|&root| self.pending.taught(root)).collect();
        let lesson = Lesson::of_request(lessons, TEACHERS);
        let became = lesson.as_ref().map_or(0, |lesson| F::learn(&mut self.learned, lesson).len() as u64);
        (lesson, became)
    }

    /// Takes back up to `budget` placements whose outcome has been unknown for [`RETRY_WINDOW`].
    pub fn forget_unknown(&mut self, now: Millis, budget: usize) -> SettleReport {
        let due = self.unknown.partition_point(|&(due, _)| due <= now);
        let due: Vec<_> = self.unknown.drain(..due.min(budget)).collect();
        self.withdraw(due.into_iter().map(|(_, ticket)| ticket))
    }

    pub(super) fn withdraw(&mut self, tickets: impl Iterator<Item = Ticket>) -> SettleReport {
        let withdrawn = tickets.map(|ticket| {
            if ticket.teaches {
                self.pending.undone(ticket.root);
            }
            self.forest.withdraw(&ticket.rollback) as u64
        });
        SettleReport { withdrawn: withdrawn.sum(), ..SettleReport::default() }
    }

    /// The result that [`place`](ForestState::place) would have.
    pub fn check(&mut self, document: ForestDocument) -> CheckReply {
        let now = self.time(document.when, &EarlierDocuments::default());
        let at = now.unwrap_or(Millis(0));
        let mut features = document.features;
        let overrides = self.overrides().clone();
        match features.as_mut().and_then(F::features) {
            None => CheckReply { now, check: None, overrides },
            Some(features) => CheckReply {
                now: now.map(|at| self.forest.clock().max(at)),
                check: Some(self.check_features(features, at)),
                overrides,
            },
        }
    }

    fn check_features(&mut self, features: &mut F::Features, at: Millis) -> CheckedDocument {
        let Self { forest, learned, .. } = self;
        let (check, measures) = F::ask(features, learned, &PendingSentences::default(), |query| {
            let check = forest.check(query, at);
            let measures = check.trees.iter().map(|tree| {
                let proof = forest.proof(tree.root);
                let thresholds = forest.thresholds();
                proof.map_or(Measure::None, |root| query.proof.measure(root, tree.shared, thresholds, tree.laid))
            });
            let measures: Vec<Measure> = measures.collect();
            // All of them, where the first ones led nowhere.
            let asked = match check.near.len() > query.fingerprints.len() {
                true => query.more.to_vec(),
                false => query.fingerprints.to_vec(),
            };
            ((check, asked, query.whole), measures)
        });
        let (check, asked, text) = check;
        let left_out = F::left_out(features, learned);

        let mut fingerprints: Vec<CheckedFingerprint> = asked
            .into_iter()
            .zip(check.near)
            .map(|(fingerprint, near)| CheckedFingerprint {
                fingerprint,
                stage: F::stage(features, fingerprint),
                left_out: false,
                near,
            })
            .collect();
        let mut trees: Vec<CheckedTree> = Vec::new();
        for (tree, measure) in check.trees.iter().zip(measures) {
            trees.extend(forest.tree_at(tree.root, at).map(|view| CheckedTree {
                root: tree.root,
                view,
                shared: tree.shared,
                verdict: tree.verdict,
                measure,
            }));
        }
        for &fingerprint in &left_out.fingerprints {
            let near = forest.near_at(fingerprint, at);
            add_hidden(forest, &near, check.root, at, &mut trees);
            fingerprints.push(CheckedFingerprint { fingerprint, stage: None, left_out: true, near });
        }
        trees.sort_by_key(|tree| (tree.root != check.root, tree.verdict.is_err(), tree.root));
        let is_known = check.decision.finds_a_tree();
        CheckedDocument {
            root: check.root,
            answer: self.overrides.shown_root(text, check.root),
            resolved: self.overrides.resolve(text, check.root, is_known),
            decision: check.decision,
            stage: check.by.and_then(|by| F::stage(features, by)),
            fingerprints,
            trees,
            boilerplate: left_out.sentences,
            own: check.own,
        }
    }

    /// The time of a document; `None` if it does not advance the clock.
    pub(super) fn time(&self, when: DocumentTime, earlier: &EarlierDocuments) -> Option<Millis> {
        match when {
            DocumentTime::At(at) | DocumentTime::Claimed(at) => Some(at),
            DocumentTime::AsBefore => {
                let before = earlier.time.max(Some(self.forest.clock()));
                before.filter(|clock| *clock > Millis(i64::MIN))
            }
            DocumentTime::Still => None,
        }
    }
}

/// Adds a tree that shares only boilerplate with a document that founded `own`.
pub(super) fn add_refused(refused: &mut Vec<(Root, Refusal)>, own: Root, tree: Root) {
    if tree != own && !refused.iter().any(|&(known, _)| known == tree) {
        refused.push((tree, Refusal::Boilerplate));
    }
}

/// Adds the trees that share only boilerplate with the document.
fn add_hidden<P: Proof>(forest: &Forest<P>, near: &[NearNode], own: Root, at: Millis, trees: &mut Vec<CheckedTree>) {
    for root in near.iter().map(|near| near.root) {
        if root == own || trees.iter().any(|tree| tree.root == root) {
            continue;
        }
        trees.extend(forest.tree_at(root, at).map(|view| CheckedTree {
            root,
            view,
            shared: 0,
            verdict: Err(Refusal::Boilerplate),
            measure: Measure::None,
        }));
    }
}
