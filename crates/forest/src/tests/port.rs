//! What every forest must answer through its port, whatever keeps it and whatever method its documents are of. A forest
//! that is kept elsewhere runs the same suite by adding itself to [`forests`].

use std::sync::Arc;
use std::sync::mpsc;

use futures_executor::block_on;
use spinney_text::fingerprint::{Distance, Fingerprint};
use spinney_text::hash::HashKey;
use spinney_text::method::{
    Attributes, Durable, FeatureQuery, Features, LearnedText, Measure, Method, MethodKind, Proof, Refusal,
    SHORT_TEXT_DISTANCE, Short, Similarity, Staged, Strict, StrictFeatures, Verified, Workspace,
};
use spinney_text::text::Fields;
use spinney_text::text::boilerplate::PendingSentences;

use crate::document::{DocumentTime, ForestDocument};
use crate::local::{Executor, ForestState, LocalForest, RETRY_WINDOW, StateChange};
use crate::overrides::Override;
use crate::port::{
    Batch, Commit, DocumentReply, EarlierDocuments, ForestPort, ItemOutcome, LocalPort, RootAssignment, Unavailable,
};
use crate::shared::memory::InMemoryRedis;
use crate::shared::{ForestSetup, SharedDistance, SharedForest, SharedSettings};
use crate::time::Millis;
use crate::{Decision, ForestStats, Portions, RecoveryPass, Restoring, Root, Settings};

/// When answers come.
const NOW: Millis = Millis(1_000);

/// Runs every job at once, on the thread that asks.
struct Inline;

impl Executor for Inline {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
}

/// Runs every job on a thread of its own.
struct Threads;

impl Executor for Threads {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        std::thread::spawn(job);
    }
}

/// Keeps jobs until they are let go.
struct Gate(mpsc::Sender<Box<dyn FnOnce() + Send>>);

impl Executor for Gate {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        self.0.send(job).unwrap();
    }
}

fn local<F: MethodKind>(
    k: Distance,
    window: Option<Millis>,
    thresholds: <F::Proof as Proof>::Thresholds,
    executor: Arc<dyn Executor>,
) -> Arc<LocalForest<F>> {
    let settings = Settings { k, window, key: HashKey::FIXED };
    let learned = F::Learned::default();
    Arc::new(LocalForest::<F>::new("test", settings, thresholds, learned, executor).unwrap())
}

/// A forest in Redis that several processes share.
fn shared<F: MethodKind>(
    k: Distance,
    window: Option<Millis>,
    thresholds: <F::Proof as Proof>::Thresholds,
    is_dated: bool,
) -> Arc<dyn ForestPort> {
    let settings = SharedSettings { window, max_tree: None, founder_token_bytes: 1 << 20 };
    let learned = F::Learned::default();
    let shared = SharedForest::<F>::new(
        ForestSetup { name: "test", identity: "a test", settings, thresholds, learned },
        Arc::new(Inline),
        Arc::new(InMemoryRedis::default()),
        1,
    )
    .with_distance(SharedDistance::new(k).unwrap());
    Arc::new(if is_dated { shared.dated() } else { shared })
}

/// A forest to be tested with documents of its method.
struct Subject {
    name: &'static str,
    method: &'static str,
    port: Arc<dyn ForestPort>,
    local: Option<Arc<dyn LocalPort>>,
}

impl Subject {
    fn local<F: MethodKind>(name: &'static str, method: &'static str, forest: Arc<LocalForest<F>>) -> Subject {
        Subject { name, method, port: forest.clone(), local: Some(forest) }
    }
}

/// Every kind of forest there is, empty, with this window.
fn forests(window: Option<Millis>) -> Vec<Subject> {
    let mut all = local_forests(window);
    all.extend(shared_forests(window, false));
    all.extend(shared_forests(window, true));
    all
}

fn shared_forests(window: Option<Millis>, is_dated: bool) -> Vec<Subject> {
    let (near, equal, similarity) = (Distance(3), Distance(0), Similarity::default());
    let all: [(&'static str, Arc<dyn ForestPort>); 5] = [
        ("longest", shared::<Strict>(near, window, (), is_dated)),
        ("sentences:2", shared::<Strict>(equal, window, (), is_dated)),
        ("verified", shared::<Verified>(equal, window, similarity, is_dated)),
        ("staged", shared::<Staged>(equal, window, (), is_dated)),
        ("staged", shared::<Staged>(near, window, (), is_dated)),
    ];
    let all = all.into_iter().map(|(method, port)| Subject { name: SHARED, method, port, local: None });
    all.collect()
}

/// Those that take time from documents that claim it.
fn dated_forests(window: Option<Millis>) -> Vec<Subject> {
    let mut all = local_forests(window);
    all.extend(shared_forests(window, true));
    all
}

const SHARED: &str = "shared";

/// Those of this process. Only they let nodes go when they are told to, and remember what people say.
fn local_forests(window: Option<Millis>) -> Vec<Subject> {
    let mut all = Vec::new();
    let executors: [(&str, Arc<dyn Executor>); 2] =
        [("local, inline", Arc::new(Inline)), ("local, threads", Arc::new(Threads))];
    for (name, executor) in executors {
        let run = || executor.clone();
        let similarity = Similarity::default();
        all.extend([
            Subject::local(name, "longest", local::<Strict>(Distance(3), window, (), run())),
            Subject::local(name, "sentences:2", local::<Strict>(Distance(0), window, (), run())),
            Subject::local(name, "verified", local::<Verified>(Distance(0), window, similarity, run())),
            Subject::local(name, "staged", local::<Staged>(Distance(3), window, (), run())),
            Subject::local(name, "short", local::<Short>(SHORT_TEXT_DISTANCE, window, (), run())),
        ]);
    }
    all
}

/// The document with this number: no two are alike.
fn document(method: &str, number: usize, when: DocumentTime) -> ForestDocument {
    let method: Method = method.parse().unwrap();
    let word = |n: usize| format!("{:x}", (number * 101 + n + 1).wrapping_mul(0x9e37_79b9_7f4a));
    let words: Vec<String> = (0..match method {
        Method::Short(_) => 6,
        _ => 60,
    })
        .map(word)
        .collect();
    let text: Vec<String> = words.chunks(12).map(|words| words.join(" ")).collect();
    let fields = Fields { title: None, body: &[&text.join(". ")] };
    let features = method.read_with(&fields, Attributes::default(), &mut Workspace::default());
    assert!(features.is_some());
    ForestDocument { features, when, title: None, id: Default::default(), given: None }
}

fn documents(subject: &Subject, numbers: impl IntoIterator<Item = usize>, at: i64) -> Vec<ForestDocument> {
    let when = DocumentTime::At(Millis(at));
    let numbers = numbers.into_iter();
    numbers.map(|number| document(subject.method, number, when)).collect()
}

fn place(subject: &Subject, batch: Vec<ForestDocument>) -> Vec<RootAssignment> {
    let replies = block_on(subject.port.place(provisional(batch))).unwrap().replies;
    let placed = replies.into_iter().map(|reply| reply.placed);
    placed.map(|placed| placed.expect(subject.name)).collect()
}

fn provisional(documents: Vec<ForestDocument>) -> Batch {
    Batch { documents, ..Batch::default() }
}

fn settle(subject: &Subject, placed: Vec<RootAssignment>, outcome: ItemOutcome) -> u64 {
    let settled = placed.into_iter().filter_map(|placed| placed.settled(outcome));
    let batch = settled.collect();
    block_on(subject.port.settle(batch, NOW)).unwrap().withdrawn
}

fn nodes(subject: &Subject) -> usize {
    block_on(subject.port.stats()).unwrap().nodes
}

fn roots(placed: &[RootAssignment]) -> Vec<Root> {
    placed.iter().map(|placed| placed.root).collect()
}

fn say(subject: &Subject) -> String {
    format!("{}, {}", subject.name, subject.method)
}

#[test]
fn a_batch_is_placed_in_its_order() {
    for subject in forests(None) {
        // A document, another one, the first again: what comes later finds what came earlier in the same batch.
        let placed = place(&subject, documents(&subject, [1, 2, 1], 5));
        let decisions: Vec<Decision> = placed.iter().map(|placed| placed.decision).collect();
        let expected = [Decision::NewRoot, Decision::NewRoot, Decision::Refreshed];
        assert_eq!(decisions, expected, "{}", say(&subject));
        assert_eq!(placed[0].root, placed[2].root);
        assert_ne!(placed[0].root, placed[1].root);
        let again = place(&subject, documents(&subject, [2, 1], 9));
        assert_eq!(roots(&again), [placed[1].root, placed[0].root]);
        assert!(again.iter().all(|again| again.arrived.is_none_or(|at| at == Millis(5))));
        assert!(again.iter().all(|again| again.clock == Millis(9)));
    }
}

#[test]
fn a_check_foretells_and_changes_nothing() {
    for subject in forests(Some(Millis(100))) {
        place(&subject, documents(&subject, 0..5, 1));
        for number in 3..8 {
            let before = nodes(&subject);
            let [foretold] = documents(&subject, [number], 2).try_into().unwrap();
            let reply = block_on(subject.port.check(foretold)).unwrap();
            assert_eq!(reply.now, Some(Millis(2)));
            let check = reply.check.unwrap();
            assert_eq!(nodes(&subject), before);
            let placed = place(&subject, documents(&subject, [number], 2));
            let came = (placed[0].root, placed[0].decision);
            assert_eq!((check.root, check.decision), came, "{}", say(&subject));
            assert!(!check.fingerprints.is_empty());
        }
    }
}

#[test]
fn refused_documents_leave_nothing_and_others_stay() {
    for subject in forests(None) {
        let kept = place(&subject, documents(&subject, 0..4, 1));
        let (stay, kept_roots) = (nodes(&subject), roots(&kept));
        let refused = place(&subject, documents(&subject, 2..9, 2));
        assert!(nodes(&subject) > stay);
        let withdrawn = settle(&subject, refused, ItemOutcome::Refused);
        assert_eq!(nodes(&subject), stay, "{}", say(&subject));
        assert!(withdrawn > 0);
        let unknown = place(&subject, documents(&subject, [20], 3));
        let with_unknown = nodes(&subject);
        assert_eq!(settle(&subject, unknown, ItemOutcome::Unknown), 0);
        assert_eq!(settle(&subject, kept, ItemOutcome::Accepted), 0);
        assert_eq!(nodes(&subject), with_unknown);
        let again = place(&subject, documents(&subject, 0..4, 4));
        assert_eq!(roots(&again), kept_roots);
    }
}

#[test]
fn an_unknown_outcome_is_a_refusal_when_no_retry_came() {
    for subject in forests(None) {
        let lost = place(&subject, documents(&subject, 0..3, 1));
        let roots_before = roots(&lost);
        settle(&subject, lost, ItemOutcome::Unknown);
        // One comes again and is stored.
        let retried = place(&subject, documents(&subject, [1], 2));
        assert_eq!(retried[0].root, roots_before[1], "{}", say(&subject));
        settle(&subject, retried, ItemOutcome::Accepted);
        let before = nodes(&subject);
        let forget = |at: i64, budget| {
            let answer = subject.port.forget_unknown(Millis(at), budget);
            block_on(answer).unwrap().withdrawn
        };
        let due = NOW.0 + RETRY_WINDOW.0;
        assert_eq!(forget(due - 1, usize::MAX), 0);
        assert!(forget(due, 1) > 0, "{}", say(&subject));
        assert!(nodes(&subject) < before);
        assert_eq!(forget(due, 1), 0, "the one that came again");
        assert!(forget(due, 1) > 0);
        assert_eq!(forget(due, usize::MAX), 0);
        let stats = block_on(subject.port.stats()).unwrap();
        assert_eq!(stats.roots, 1, "{}", say(&subject));
    }
}

#[test]
fn a_claimed_time_counts_for_others_when_it_is_accepted() {
    for subject in dated_forests(Some(Millis(100))) {
        let claimed = |number, at| document(subject.method, number, DocumentTime::Claimed(Millis(at)));
        let old = place(&subject, vec![claimed(1, 0)]);
        let root = old[0].root;
        settle(&subject, old, ItemOutcome::Accepted);
        for (outcome, alive) in
            [(ItemOutcome::Refused, true), (ItemOutcome::Unknown, true), (ItemOutcome::Accepted, false)]
        {
            let far = place(&subject, vec![claimed(2, 1_000)]);
            assert_eq!(far[0].clock, Millis(1_000), "its own stamp says when it came");
            // The same document sees the time that it claims itself.
            assert_eq!(place(&subject, vec![claimed(1, 50)])[0].root, root);
            settle(&subject, far, outcome);
            let tree = block_on(subject.port.tree(root)).unwrap();
            let later = place(&subject, vec![claimed(1, 60)]);
            let decision = later[0].decision;
            settle(&subject, later, ItemOutcome::Refused);
            if alive {
                assert_eq!(decision, Decision::Refreshed, "{}", say(&subject));
                assert!(tree.is_some());
            }
        }
        let next = document(subject.method, 3, DocumentTime::AsBefore);
        let reply = block_on(subject.port.check(next)).unwrap();
        assert_eq!(reply.now, Some(Millis(1_000)));
    }
}

#[test]
fn the_time_of_an_undated_document_counts_for_others_when_it_is_accepted() {
    for subject in dated_forests(Some(Millis(100))) {
        let of = |number, when| document(subject.method, number, when);
        let at = |number, at| of(number, DocumentTime::Claimed(Millis(at)));
        let clock = || {
            let asked = subject.port.check(of(4, DocumentTime::AsBefore));
            block_on(asked).unwrap().now
        };
        settle(&subject, place(&subject, vec![at(1, 0)]), ItemOutcome::Accepted);
        for (outcome, expected) in [(ItemOutcome::Refused, 0), (ItemOutcome::Accepted, 1_000)] {
            let request = vec![at(2, 1_000), of(3, DocumentTime::AsBefore)];
            let mut placed = place(&subject, request);
            let undated = placed.split_off(1);
            // It came when the one before it came, and so says its stamp.
            assert_eq!(undated[0].clock, Millis(1_000));
            assert_eq!(clock(), Some(Millis(0)), "{}", say(&subject));
            settle(&subject, placed, ItemOutcome::Refused);
            settle(&subject, undated, outcome);
            assert_eq!(clock(), Some(Millis(expected)), "{}", say(&subject));
        }
    }
}

#[test]
fn documents_outlive_the_dates_that_come_with_them() {
    for subject in dated_forests(Some(Millis(100))) {
        let claimed = |number, at| document(subject.method, number, DocumentTime::Claimed(Millis(at)));
        let known = |number, at| {
            let again = place(&subject, vec![claimed(number, at)]);
            let decision = again[0].decision;
            settle(&subject, again, ItemOutcome::Refused);
            decision == Decision::Refreshed
        };
        // The first request, before which there was no time.
        let first = vec![claimed(1, 5_000), claimed(2, 5_010)];
        settle(&subject, place(&subject, first), ItemOutcome::Accepted);
        assert!(known(1, 5_010) && known(2, 5_010), "{}", say(&subject));
        // One that spans more than the window: whoever comes last is within it.
        let dates = [6_000, 6_090, 6_150, 6_170];
        let numbered = (3..).zip(dates);
        let wide: Vec<ForestDocument> = numbered.map(|(number, at)| claimed(number, at)).collect();
        settle(&subject, place(&subject, wide), ItemOutcome::Accepted);
        let alive: Vec<bool> = (1..7).map(|number| known(number, 6_170)).collect();
        let expected = [false, false, false, true, true, true];
        assert_eq!(alive, expected, "{}", say(&subject));
    }
}

#[test]
fn what_people_say_is_obeyed_until_it_is_taken_back() {
    for subject in local_forests(None) {
        let placed = place(&subject, documents(&subject, [1, 2], 1));
        let [one, two] = [placed[0].root, placed[1].root];
        assert_eq!(placed[1].answer, two, "{}", say(&subject));
        settle(&subject, placed, ItemOutcome::Accepted);
        let merge = Override::Merge { winner: one, losers: vec![two] };
        let number = block_on(subject.port.add_override(merge.clone(), Vec::new()));
        let number = number.unwrap().unwrap();
        // Of whoever writes it: the tree stays what it is.
        let answers = |placed: &[RootAssignment]| (placed[0].root, placed[0].answer);
        let again = place(&subject, documents(&subject, [2], 2));
        assert_eq!(answers(&again), (two, one), "{}", say(&subject));
        settle(&subject, again, ItemOutcome::Accepted);
        let rehearsal = subject.port.dry_placement();
        let foreseen = block_on(rehearsal.place(documents(&subject, [2], 2))).unwrap();
        let foreseen = foreseen.replies[0].placed.as_ref().unwrap();
        assert_eq!((foreseen.root, foreseen.answer), (two, one));
        let mut asked = documents(&subject, [2], 2);
        let checked = block_on(subject.port.check(asked.remove(0))).unwrap();
        let checked = checked.check.unwrap();
        assert_eq!((checked.root, checked.answer), (two, one));
        let words = block_on(subject.port.overrides()).unwrap();
        let said: Vec<_> = words.iter().collect();
        assert_eq!(said, [(number, &merge)]);
        // What is stored is to follow, until somebody says that it has.
        let unfinished: Vec<_> = words.unfinished().map(|(n, r)| (n, r.clone())).collect();
        assert_eq!(unfinished.len(), 1);
        let done = words.pass_for(unfinished);
        assert_eq!(done.sought(&words), [two]);
        block_on(subject.port.restamped(done)).unwrap();
        let words = block_on(subject.port.overrides()).unwrap();
        assert_eq!(words.unfinished().count(), 0);

        let taken = block_on(subject.port.undo_override(number)).unwrap();
        assert_eq!(taken, Some(merge));
        assert_eq!(block_on(subject.port.undo_override(number)).unwrap(), None);
        let last = place(&subject, documents(&subject, [2], 3));
        assert_eq!(answers(&last), (two, two), "{}", say(&subject));
    }
}

#[test]
fn a_rehearsal_sees_all_and_leaves_nothing() {
    for subject in forests(Some(Millis(1_000))) {
        settle(&subject, place(&subject, documents(&subject, 0..3, 1)), ItemOutcome::Accepted);
        let known = roots(&place(&subject, documents(&subject, 0..3, 1)));
        // Of a shared one, what was asked is counted.
        let state = || match subject.name {
            SHARED => nodes(&subject).to_string(),
            _ => format!("{:?}", block_on(subject.port.stats()).unwrap()),
        };
        let before = state();
        let rehearsal = subject.port.dry_placement();
        let ask = |batch| -> Vec<RootAssignment> {
            let replies = block_on(rehearsal.place(batch)).unwrap().replies;
            replies.into_iter().filter_map(|reply| reply.placed).collect()
        };
        let first = ask(documents(&subject, [2, 7, 8], 5));
        assert_eq!(first[0].root, known[2], "{}", say(&subject));
        assert_eq!(first[1].decision, Decision::NewRoot);
        // A later part of the same request meets the earlier one.
        let second = ask(documents(&subject, [8, 1], 900));
        assert_eq!(second[0].root, first[2].root, "{}", say(&subject));
        assert_eq!(second[0].decision, Decision::Refreshed);
        assert_eq!(second[1].root, known[1]);
        assert!(first.iter().all(|placed| placed.ticket.is_none()));
        assert_eq!(state(), before, "{}", say(&subject));
        // Nobody else meets it.
        let other = subject.port.dry_placement();
        let reply = block_on(other.place(documents(&subject, [7], 6))).unwrap();
        let placed = reply.replies.into_iter().next().unwrap().placed.unwrap();
        assert_eq!(placed.decision, Decision::NewRoot);
    }
}

/// A document of these sentences, without a title.
fn of_sentences(method: &str, sentences: &[String]) -> ForestDocument {
    let method: Method = method.parse().unwrap();
    let fields = Fields { title: None, body: &[&sentences.join(". ")] };
    ForestDocument {
        features: method.read_with(&fields, Attributes::default(), &mut Workspace::default()),
        when: DocumentTime::At(Millis(1)),
        title: None,
        id: Default::default(),
        given: None,
    }
}

/// The document of a text that nobody else has, or of the same text with another number in it.
fn balance(method: &str, number: usize, amount: usize) -> ForestDocument {
    let sentences: Vec<String> = (0..6)
        .map(|n| {
            let word = |k: usize| format!("{:x}", (number * 6007 + n * 101 + k + 1).wrapping_mul(0x9e37_79b9));
            let words: Vec<String> = (0..12).map(word).collect();
            format!("{} came to {} of {} crowns", words.join(" "), amount * 31 + n, amount * 57 + n * 3)
        })
        .collect();
    of_sentences(method, &sentences)
}

/// A text of 14 sentences of 24, so that two of them share any number of sentences, and amounts that differ.
fn mosaic(method: &str, number: u64) -> ForestDocument {
    let mut draw = number;
    let sentences: Vec<String> = (0..14)
        .map(|_| {
            draw = spinney_text::hash::splitmix64(draw);
            let (sentence, amount) = ((draw >> 8) as usize % 24, (draw >> 40) % 5);
            let word = |k: usize| format!("{:x}", (sentence * 101 + k + 1).wrapping_mul(0x9e37_79b9));
            let words: Vec<String> = (0..12).map(word).collect();
            format!("{} for {}", words.join(" "), if amount == 0 { number } else { 7 })
        })
        .collect();
    of_sentences(method, &sentences)
}

/// In every forest, behind every other document of the same request.
#[test]
fn a_rehearsal_foretells_what_placing_will_say() {
    let (mut refused, mut joined, mut founded) = (0, 0, 0);
    for seed in 0..12 {
        // These texts are too long for the forest of short ones; what threads add is held by the tests above.
        let subjects = forests(None).into_iter();
        for subject in subjects.filter(|s| s.method != "short" && s.name != "local, threads") {
            let mut state = seed;
            let mut batch = |count: usize| -> Vec<ForestDocument> {
                let document = |_| {
                    state = spinney_text::hash::splitmix64(state);
                    let (number, amount) = ((state >> 8) as usize % 4, (state >> 24) as usize % 3);
                    match seed % 2 {
                        0 => balance(subject.method, number, amount),
                        _ => mosaic(subject.method, state % 24),
                    }
                };
                (0..count).map(document).collect()
            };
            let known = batch(3);
            let request = batch(12);
            settle(&subject, place(&subject, known), ItemOutcome::Accepted);
            let rehearsal = subject.port.dry_placement();
            let mut foretold = Vec::new();
            for part in request.chunks(4) {
                let replies = block_on(rehearsal.place(part.to_vec())).unwrap().replies;
                foretold.extend(replies.into_iter().map(|reply| reply.placed.unwrap()));
            }
            let placed = place(&subject, request);
            for (at, (foretold, placed)) in foretold.iter().zip(&placed).enumerate() {
                let told = |placed: &RootAssignment| {
                    let mut refused = placed.refused.clone();
                    refused.sort_by_key(|&(root, _)| root);
                    (placed.root, placed.decision, placed.arrived, placed.founded, placed.clock, refused)
                };
                assert_eq!(told(foretold), told(placed), "{seed}, document {at}: {}", say(&subject));
                refused += usize::from(!placed.refused.is_empty());
                joined += usize::from(matches!(placed.decision, Decision::Joined { .. }));
                founded += usize::from(placed.decision == Decision::NewRoot);
            }
        }
    }
    assert!(refused > 100 && joined > 100 && founded > 100, "{refused} {joined} {founded}");
}

/// Part of a text without an end: 14 of its sentences from one on.
fn part(text: usize, from: usize) -> ForestDocument {
    let sentence = |n: usize| {
        let word = |k: usize| format!("{:x}", (text * 60_007 + n * 101 + k + 1).wrapping_mul(0x9e37_79b9));
        (0..9).map(word).collect::<Vec<_>>().join(" ")
    };
    let sentences: Vec<String> = (from..from + 14).map(sentence).collect();
    let fields = Fields { title: None, body: &[&sentences.join(". ")] };
    ForestDocument {
        features: Method::Verified.read(&fields, &mut Workspace::default()),
        when: DocumentTime::At(Millis(1)),
        title: None,
        id: Default::default(),
        given: None,
    }
}

/// Whoever comes near a tree of the forest by a document of the same request is compared with the founder of the tree.
#[test]
fn a_rehearsal_compares_with_the_founders_of_the_forest() {
    let (mut joined, mut beyond) = (0, 0);
    for text in 0..30 {
        let subject = local_forests(None).into_iter().find(|subject| subject.method == "verified").unwrap();
        let known = place(&subject, vec![part(text, 0)]);
        let root = known[0].root;
        settle(&subject, known, ItemOutcome::Accepted);
        let request: Vec<ForestDocument> = (1..9).map(|from| part(text, from)).collect();
        let rehearsal = subject.port.dry_placement();
        let foretold = block_on(rehearsal.place(request.clone())).unwrap().replies;
        // Trees of their own may have other names.
        let joins = |placed: Root| placed == root;
        let foretold = foretold.into_iter().map(|reply| joins(reply.placed.unwrap().root));
        let foretold: Vec<bool> = foretold.collect();
        let placed: Vec<bool> = roots(&place(&subject, request)).into_iter().map(joins).collect();
        joined += placed.iter().filter(|&&joins| joins).count();
        beyond += placed.iter().filter(|&&joins| !joins).count();
        assert_eq!(foretold, placed, "{text}");
    }
    assert!(joined > 30 && beyond > 30, "{joined} {beyond}");
}

/// Texts of one form share their first fingerprints: those of a request have to leave each other the ones behind.
#[test]
fn a_root_that_was_foretold_is_the_root() {
    for method in ["verified", "longest", "sentences:2"] {
        for number in 0..40 {
            let subject = local_forests(None).into_iter().find(|subject| subject.method == method).unwrap();
            let known = place(&subject, vec![balance(method, number, 0)]);
            settle(&subject, known, ItemOutcome::Accepted);
            let request: Vec<ForestDocument> = (1..6).map(|amount| balance(method, number, amount)).collect();
            let rehearsal = subject.port.dry_placement();
            let foretold = block_on(rehearsal.place(request.clone())).unwrap().replies;
            let foretold: Vec<Root> = foretold.into_iter().map(|reply| reply.placed.unwrap().root).collect();
            let stored = request.into_iter().zip(&foretold);
            let stored = stored.map(|(document, &root)| ForestDocument { given: Some(root), ..document });
            assert_eq!(roots(&place(&subject, stored.collect())), foretold, "{number}: {}", say(&subject));
        }
    }
}

/// A text of `verified` whose first sentence is its own; the second is one that many share.
fn with_footer(number: u64) -> ForestDocument {
    with_footer_and(number, "")
}

/// The same with more behind it.
fn with_footer_and(number: u64, more: &str) -> ForestDocument {
    let words: Vec<String> =
        (0..40).map(|n| format!("{:x}", (number * 977 + n + 1).wrapping_mul(0x9e37_79b9))).collect();
    let footer = "All rights are reserved by the publisher of this page and by its many partners.";
    let text = format!("{}. {footer}{more}", words.join(" "));
    let fields = Fields { title: None, body: &[&text] };
    ForestDocument {
        features: Method::Verified.read(&fields, &mut Workspace::default()),
        when: DocumentTime::Still,
        title: None,
        id: Default::default(),
        given: None,
    }
}

#[test]
fn a_check_tells_the_differences_wherever_the_forest_is() {
    let local = local::<Verified>(Distance(0), None, Similarity::default(), Arc::new(Inline));
    let shared = shared::<Verified>(Distance(0), None, Similarity::default(), false);
    for port in [local as Arc<dyn ForestPort>, shared] {
        let replies = block_on(port.place(provisional(vec![with_footer(1)]))).unwrap().replies;
        let root = replies[0].placed.as_ref().unwrap().root;
        let settled = replies.into_iter().filter_map(|reply| reply.placed?.settled(ItemOutcome::Accepted));
        block_on(port.settle(settled.collect(), NOW)).unwrap();
        let check = |document| block_on(port.check(document)).unwrap().check.unwrap();
        let longer = check(with_footer_and(1, " The ferry to the island sails again from Monday, its crew said."));
        assert_eq!((longer.root, longer.trees.len()), (root, 1));
        let Measure::Alignment { differences, .. } = longer.trees[0].measure else { panic!("{longer:?}") };
        assert!(differences.judge(Similarity::default()).is_ok() && differences.least < 1.0, "{differences:?}");
        assert_eq!(longer.own.iter().map(|(tree, _)| *tree).collect::<Vec<_>>(), [root]);
        // An equal text is known by its hash, and is not aligned.
        let same = check(with_footer(1));
        assert!(matches!(same.trees[0].measure, Measure::Proof { .. }) && same.own.is_empty(), "{same:?}");
    }
}

#[test]
fn learning_waits_for_acceptance_and_one_request_counts_once() {
    let port = || local::<Verified>(Distance(0), None, Similarity::default(), Arc::new(Inline));
    let boilerplate = |port: &LocalForest<Verified>| {
        let reply = block_on(port.check(with_footer(1_000))).unwrap();
        reply.check.unwrap().boilerplate
    };
    let request = |port: &LocalForest<Verified>, from: u64, outcome| {
        let documents = (from..from + 6).map(with_footer).collect();
        let replies = block_on(port.place(provisional(documents))).unwrap().replies;
        let placed = replies.into_iter().map(|reply| reply.placed.unwrap());
        let batch = placed.filter_map(|placed| placed.settled(outcome)).collect();
        block_on(port.settle(batch, NOW)).unwrap().learned
    };
    for outcome in [ItemOutcome::Refused, ItemOutcome::Unknown] {
        let port = port();
        for number in 0..10 {
            assert_eq!(request(&port, number * 10, outcome), 0);
        }
        assert!(boilerplate(&port).is_empty(), "{outcome:?}");
    }
    let port = port();
    let learned: Vec<u64> = (0..4).map(|number| request(&port, number * 10, ItemOutcome::Accepted)).collect();
    assert_eq!(learned, [0, 0, 0, 1]);
    assert_eq!(boilerplate(&port), [1]);
}

#[test]
fn a_late_handle_does_not_touch_a_later_node() {
    for subject in local_forests(Some(Millis(100))) {
        let late = place(&subject, documents(&subject, [1], 0));
        while block_on(subject.local.as_ref().unwrap().expire(Millis(1_000), 2)).unwrap() > 0 {}
        assert_eq!(nodes(&subject), 0);
        let root = place(&subject, documents(&subject, [1], 1_000))[0].root;
        assert_eq!(root, late[0].root);
        assert_eq!(settle(&subject, late, ItemOutcome::Refused), 0, "{}", say(&subject));
        let again = place(&subject, documents(&subject, [1], 1_001));
        assert_eq!((again[0].root, again[0].decision), (root, Decision::Refreshed));
    }
}

#[test]
fn trees_can_be_seen_by_their_roots() {
    for subject in forests(None) {
        let placed = place(&subject, documents(&subject, [1], 7));
        let tree = block_on(subject.port.tree(placed[0].root)).unwrap().unwrap();
        assert_eq!((tree.added, tree.arrival), (Millis(7), Millis(7)));
        let none = Root(Fingerprint(!placed[0].root.0.0));
        assert_eq!(block_on(subject.port.tree(none)).unwrap(), None);
        let stats = block_on(subject.port.stats()).unwrap();
        assert_eq!(stats.nodes, 1 + tree.children as usize);
        assert_eq!(stats.roots, 1, "{}", say(&subject));
    }
}

#[test]
fn a_document_has_its_time_whether_or_not_it_has_a_place() {
    for subject in forests(None) {
        let bare = |when| ForestDocument { features: None, when, title: None, id: Default::default(), given: None };
        let asked = vec![
            bare(DocumentTime::AsBefore),
            bare(DocumentTime::Still),
            bare(DocumentTime::At(Millis(3))),
            document(subject.method, 1, DocumentTime::At(Millis(5))),
            bare(DocumentTime::AsBefore),
            document(subject.method, 2, DocumentTime::Still),
        ];
        let replies = block_on(subject.port.place(provisional(asked))).unwrap().replies;
        let times: Vec<Option<i64>> = replies.iter().map(|r| r.now.map(|now| now.0)).collect();
        // A document without a place does not move the clock.
        assert_eq!(times, [None, None, Some(3), Some(5), Some(5), None]);
        let places: Vec<bool> = replies.iter().map(|reply| reply.placed.is_some()).collect();
        assert_eq!(places, [false, false, false, true, false, true]);
    }
}

#[test]
fn features_of_another_method_have_no_place() {
    for subject in forests(None) {
        let other = match subject.method {
            "verified" => "staged",
            _ => "verified",
        };
        let stranger = document(other, 1, DocumentTime::Still);
        let mut replies = block_on(subject.port.place(provisional(vec![stranger]))).unwrap().replies;
        let Some(DocumentReply { placed: None, .. }) = replies.pop() else {
            panic!("{}", say(&subject));
        };
        assert_eq!(nodes(&subject), 0);
    }
}

#[test]
fn placements_that_nobody_waits_for_are_withdrawn() {
    let (jobs, waiting) = mpsc::channel();
    let port = local::<Verified>(Distance(0), None, Similarity::default(), Arc::new(Gate(jobs)));
    let subject = Subject::local("local, gate", "verified", port);
    let run_one = || waiting.recv().unwrap()();
    let answer = subject.port.place(provisional(documents(&subject, 0..3, 1)));
    drop(answer);
    run_one();
    // It has placed what nobody took; the withdrawal is a job of its own.
    run_one();
    let stats = subject.port.stats();
    run_one();
    assert_eq!(block_on(stats).unwrap().nodes, 0);
    assert_eq!(waiting.try_iter().count(), 0);
}

/// A family whose proof panics for one text.
#[derive(Debug)]
enum Fragile {}

const FATAL: Fingerprint = Fingerprint(0b11);

#[derive(Debug, Clone, Copy)]
struct Glass(Fingerprint);

impl Durable for Glass {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Fingerprint::read(bytes).map(Glass)
    }
}

impl Proof for Glass {
    type Thresholds = ();

    fn agrees(&self, _: &Glass, _: usize, (): ()) -> Result<(), Refusal> {
        assert_ne!(self.0, FATAL, "glass breaks");
        Ok(())
    }
}

impl MethodKind for Fragile {
    type Features = StrictFeatures;
    type Proof = Glass;
    type Learned = ();

    fn features(features: &mut Features) -> Option<&mut StrictFeatures> {
        Strict::features(features)
    }

    fn ask<R>(
        strict: &mut StrictFeatures,
        (): &mut (),
        _: &PendingSentences,
        ask: impl FnOnce(&FeatureQuery<'_, Glass>) -> R,
    ) -> R {
        ask(&FeatureQuery {
            fingerprints: &strict.fingerprints,
            whole: strict.whole,
            known_by: &[],
            proof: &Glass(strict.whole),
            take: 1,
            known_by_whole: false,
            more: &[],
            tokens: &[],
            learned: Default::default(),
            earlier: None,
        })
    }
}

#[test]
fn a_panic_takes_the_forest_out_of_service() {
    for executor in [Arc::new(Inline) as Arc<dyn Executor>, Arc::new(Threads)] {
        let port = local::<Fragile>(Distance(3), None, (), executor);
        let batch = |prints: &[u64]| -> Vec<ForestDocument> {
            let document = |&print: &u64| ForestDocument {
                features: Some(Features::Strict(StrictFeatures {
                    fingerprints: vec![Fingerprint(print)],
                    whole: Fingerprint(print),
                })),
                when: DocumentTime::Still,
                title: None,
                id: Default::default(),
                given: None,
            };
            prints.iter().map(document).collect()
        };
        let placed = block_on(port.place(provisional(batch(&[0, 1 << 20])))).unwrap();
        assert_eq!(placed.replies.len(), 2);
        assert_eq!(port.unavailable(), None);
        let broken = block_on(port.place(provisional(batch(&[1 << 40, FATAL.0])))).unwrap_err().reason;
        let Unavailable::Poisoned { forest, reason } = &broken else {
            panic!("{broken}");
        };
        assert_eq!(forest, "test");
        assert!(reason.contains("glass breaks"), "{reason}");
        assert_eq!(port.unavailable().as_ref(), Some(&broken));
        // Nobody sees what is left.
        assert_eq!(block_on(port.place(provisional(batch(&[0])))).unwrap_err().reason, broken);
        assert_eq!(block_on(port.stats()).unwrap_err(), broken);
        assert_eq!(block_on(port.expire(Millis(0), 1)).unwrap_err(), broken);
        let settlement = |reply: DocumentReply| reply.placed.unwrap().settled(ItemOutcome::Refused).unwrap();
        let settlements = placed.replies.into_iter().map(settlement).collect();
        assert_eq!(block_on(port.settle(settlements, NOW)).unwrap_err(), broken);
    }
}

/// What the outcome of a document's first placement is, and of those after it. Both are placed before either is settled
/// if they are `concurrent`.
struct Attempts {
    outcomes: &'static [ItemOutcome],
    is_concurrent: bool,
    /// What was unknown is forgotten before each of them.
    forgets: bool,
    /// It teaches: some attempt is accepted.
    teaches: bool,
}

/// A tree teaches once, as soon as one document of its founder's text is accepted, whatever was heard of the others.
#[test]
fn a_tree_teaches_once_by_whichever_copy_is_accepted() {
    use ItemOutcome::{Accepted, Refused, Unknown};
    let attempts = |outcomes| Attempts { outcomes, is_concurrent: false, forgets: false, teaches: true };
    let never = |outcomes| Attempts { teaches: false, ..attempts(outcomes) };
    let concurrent = |attempts| Attempts { is_concurrent: true, ..attempts };
    let cases = [
        attempts(&[Accepted]),
        attempts(&[Accepted, Accepted]),
        attempts(&[Unknown, Accepted]),
        attempts(&[Unknown, Unknown, Accepted, Unknown, Accepted]),
        attempts(&[Refused, Accepted]),
        attempts(&[Unknown, Refused, Accepted]),
        attempts(&[Unknown, Refused, Unknown, Accepted]),
        Attempts { forgets: true, ..attempts(&[Unknown, Accepted]) },
        Attempts { forgets: true, ..attempts(&[Unknown, Unknown, Accepted, Accepted]) },
        concurrent(attempts(&[Refused, Accepted])),
        concurrent(attempts(&[Accepted, Refused])),
        concurrent(attempts(&[Unknown, Accepted])),
        concurrent(attempts(&[Accepted, Accepted])),
        never(&[Unknown, Refused]),
        never(&[Unknown, Unknown]),
        concurrent(never(&[Refused, Refused])),
        concurrent(never(&[Unknown, Refused])),
    ];
    for case in cases {
        let local = local::<Verified>(Distance(0), None, Similarity::default(), Arc::new(Inline));
        let undated = shared::<Verified>(Distance(0), None, Similarity::default(), false);
        let dated = shared::<Verified>(Distance(0), None, Similarity::default(), true);
        for port in [local as Arc<dyn ForestPort>, undated, dated] {
            let place = |number| {
                let mut replies = block_on(port.place(provisional(vec![with_footer(number)]))).unwrap().replies;
                replies.remove(0).placed.unwrap()
            };
            let settle = |placed: RootAssignment, outcome| {
                block_on(port.settle(placed.settled(outcome).into_iter().collect(), NOW)).unwrap().learned
            };
            let is_boilerplate = || {
                let reply = block_on(port.check(with_footer(1_000))).unwrap();
                !reply.check.unwrap().boilerplate.is_empty()
            };
            let mut learned = Vec::new();
            for number in 0..4 {
                let mut all = Vec::new();
                let mut waiting = Vec::new();
                for &outcome in case.outcomes {
                    if case.forgets {
                        block_on(port.forget_unknown(Millis(i64::MAX), usize::MAX)).unwrap();
                    }
                    let placed = place(number);
                    match case.is_concurrent {
                        true => waiting.push((placed, outcome)),
                        false => all.push(settle(placed, outcome)),
                    }
                }
                all.extend(waiting.into_iter().map(|(placed, outcome)| settle(placed, outcome)));
                learned.push(all.into_iter().sum::<u64>());
                // The fourth founder makes it boilerplate: not the third one, counted twice.
                assert_eq!(is_boilerplate(), case.teaches && number == 3, "{:?} {number}", case.outcomes);
            }
            assert_eq!(learned, [0, 0, 0, u64::from(case.teaches)], "{:?}", case.outcomes);
        }
    }
}

/// How a process that has placed founders ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// Before the cluster has answered.
    Unanswered,
    /// After that.
    Answered,
}

/// What founders teach is in the journal and in a copy before the cluster has answered: it counts when a retry comes to
/// another process and is accepted, or when that finds the documents in the index, and counts once.
#[test]
fn what_founders_teach_outlives_the_process() {
    const FOUNDERS: u64 = 4;
    let settings = Settings { k: Distance(0), window: None, key: HashKey::FIXED };
    let empty = || ForestState::<Verified>::new(settings, Similarity::default(), LearnedText::default()).unwrap();
    let place = |state: &mut ForestState<Verified>, number| {
        state.place_by(with_footer(number), Commit::Provisional, &mut EarlierDocuments::default()).placed.unwrap()
    };
    let settle = |state: &mut ForestState<Verified>, placed: RootAssignment, outcome| {
        state.settle(placed.settled(outcome).into_iter().collect(), NOW).learned
    };
    let is_boilerplate =
        |state: &mut ForestState<Verified>| !state.check(with_footer(1_000)).check.unwrap().boilerplate.is_empty();
    for (end, copied_at, is_found) in [End::Unanswered, End::Answered]
        .into_iter()
        .flat_map(|end| (0..=FOUNDERS + 1).map(move |at| (end, at)))
        .flat_map(|(end, at)| [false, true].map(|is_found| (end, at, is_found)))
    {
        let mut parts = Vec::new();
        let mut journal: Vec<Vec<u8>> = Vec::new();
        let mut append = |state: &mut ForestState<Verified>| {
            journal.push(StateChange::batch(&state.take_changes()).unwrap());
            journal.len() as u64
        };
        let mut first = empty();
        first.record();
        let (mut roots, mut waiting) = (Vec::new(), Vec::new());
        let mut lsn = 0;
        for number in 0..=FOUNDERS {
            if number == copied_at {
                parts.push(first.begin_copy());
                let mut portions = Portions::default();
                parts.extend(std::iter::from_fn(|| first.next_portion(&mut portions, lsn)));
            }
            if number < FOUNDERS {
                let placed = place(&mut first, number);
                roots.push(placed.root);
                waiting.push(placed);
                lsn = append(&mut first);
            }
        }
        if end == End::Answered {
            for placed in waiting {
                settle(&mut first, placed, ItemOutcome::Accepted);
                append(&mut first);
            }
        }
        let start = |journal: &[Vec<u8>]| {
            let mut restoring = Restoring::new(empty());
            for (section, bytes) in &parts {
                restoring.part(*section, bytes).unwrap();
            }
            for (lsn, batch) in (1..).zip(journal) {
                restoring.batch(lsn, batch).unwrap();
            }
            restoring.finish()
        };
        let mut second = start(&journal);
        second.record();
        let told = (end, copied_at, is_found);
        assert_eq!(is_boilerplate(&mut second), end == End::Answered, "{told:?}");
        if is_found {
            let mut pass = RecoveryPass::of_the_missed(false);
            for (number, &root) in (0..).zip(&roots) {
                let when = DocumentTime::At(Millis(1 + number as i64));
                second.recover(vec![ForestDocument { given: Some(root), when, ..with_footer(number) }], &mut pass);
            }
        } else {
            for number in 0..FOUNDERS {
                assert!(!is_boilerplate(&mut second) || end == End::Answered, "{told:?} {number}");
                let placed = place(&mut second, number);
                assert_eq!(placed.root, roots[number as usize]);
                settle(&mut second, placed, ItemOutcome::Accepted);
            }
        }
        assert!(is_boilerplate(&mut second), "{told:?}");
        journal.push(StateChange::batch(&second.take_changes()).unwrap());
        let mut third = start(&journal);
        assert_eq!(format!("{:?}", third.learned()), format!("{:?}", second.learned()), "{told:?}");
        for number in 0..FOUNDERS {
            let placed = place(&mut third, number);
            assert_eq!(placed.ticket.as_ref().map(|ticket| ticket.teaches), Some(false), "{told:?}");
            settle(&mut third, placed, ItemOutcome::Accepted);
        }
        assert_eq!(format!("{:?}", third.learned()), format!("{:?}", second.learned()), "{told:?}");
    }
}

/// Trees and learned boilerplate: what applies the changes has both.
#[test]
fn the_changes_of_a_forest_make_the_same_forest() {
    let settings = Settings { k: Distance(0), window: Some(Millis(400)), key: HashKey::FIXED };
    let state = || ForestState::<Verified>::new(settings, Similarity::default(), LearnedText::default()).unwrap();
    let (mut first, mut replica) = (state(), state());
    first.record();
    let footer = "All rights are reserved by the publisher of this page and by its many partners. ";
    let mut workspace = Workspace::default();
    let (mut learned, mut placements) = (0, Vec::new());
    let mut earlier = EarlierDocuments::default();
    for number in 0..60_usize {
        let words: Vec<String> =
            (0..40).map(|n| format!("{:x}", (number % 45 * 977 + n + 1).wrapping_mul(0x9e37_79b9))).collect();
        let text = format!("{}. {footer}", words.join(" "));
        let fields = Fields { title: None, body: &[&text] };
        let features = Method::Verified.read(&fields, &mut workspace);
        let when = match number % 2 {
            0 => DocumentTime::Claimed(Millis(number as i64 * 10)),
            _ => DocumentTime::At(Millis(number as i64 * 10)),
        };
        let commit = match number < 15 {
            true => Commit::AtOnce,
            false => Commit::Provisional,
        };
        let document = ForestDocument { features, when, title: None, id: Default::default(), given: None };
        let placed = first.place_by(document, commit, &mut earlier).placed.unwrap();
        learned += placed.learned.len() as u64;
        let outcome = match number % 7 {
            0 => ItemOutcome::Refused,
            1 => ItemOutcome::Unknown,
            _ => ItemOutcome::Accepted,
        };
        placements.extend(placed.settled(outcome));
        if number % 20 == 19 {
            learned += first.settle(std::mem::take(&mut placements), NOW).learned;
            first.forget_unknown(Millis(NOW.0 + RETRY_WINDOW.0), 2);
            earlier = EarlierDocuments::default();
        }
        for change in first.take_changes() {
            replica.apply(&change);
        }
    }
    let stats = first.forest().stats();
    assert!(learned > 0 && stats.expired_total > 0 && stats.withdrawn_total > 0, "{stats:?}");
    assert_eq!(first.forest().nodes(), replica.forest().nodes());
    // What was swept up already does not show.
    let seen = |state: &ForestState<Verified>| ForestStats { dead_nodes: 0, memory_bytes: 0, ..state.forest().stats() };
    assert_eq!(seen(&first), seen(&replica));
    let boilerplate = |state: &ForestState<Verified>| format!("{:?}", state.learned());
    assert_eq!(boilerplate(&first), boilerplate(&replica));
    assert_eq!(first.take_changes(), Vec::<StateChange<_>>::new());
}

#[path = "first.rs"]
mod first;
