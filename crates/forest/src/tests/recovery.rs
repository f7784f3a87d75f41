//! A forest that is rebuilt from what is stored answers what the first one has answered.

use proptest::prelude::*;
use spinney_text::method::{
    Attributes, Method, MethodKind, SHORT_TEXT_DISTANCE, Short, Similarity, Staged, Strict, Verified, Workspace,
};
use spinney_text::text::Fields;

use super::*;
use crate::document::{DocumentTime, ForestDocument};
use crate::local::{ForestState, StateChange};
use crate::overrides::Override;
use crate::port::{Commit, EarlierDocuments, ItemOutcome};
use crate::{Recovered, RecoveryPass};

/// What an index holds of a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) number: u64,
    pub(super) root: Root,
    pub(super) arrival: Millis,
}

/// What the cluster does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Accepted,
    Refused,
    /// It says nothing.
    Unanswered {
        is_stored: bool,
    },
}

/// A request: its documents, the pause before it, and what the cluster does with it.
#[derive(Debug, Clone)]
struct Request {
    numbers: Vec<u64>,
    pause: i64,
    fate: Fate,
}

fn requests(fate: impl Strategy<Value = Fate>) -> impl Strategy<Value = Vec<Request>> {
    let numbers = prop::collection::vec(0u64..150, 1..12);
    let pause = prop_oneof![6 => 0i64..4, 1 => 0i64..60];
    let request = (numbers, pause, fate).prop_map(|(numbers, pause, fate)| Request { numbers, pause, fate });
    prop::collection::vec(request, 1..30)
}

fn mostly_accepted() -> impl Strategy<Value = Fate> {
    prop_oneof![4 => Just(Fate::Accepted), 1 => Just(Fate::Refused)]
}

fn mostly_answered() -> impl Strategy<Value = Fate> {
    let unanswered = any::<bool>().prop_map(|is_stored| Fate::Unanswered { is_stored });
    prop_oneof![3 => Just(Fate::Accepted), 2 => unanswered]
}

/// A document of a small world: of three with neighbouring numbers one is the original, and two have other ends; one of
/// five has a sentence that is everywhere.
pub(super) fn document(method: &Method, number: u64, when: DocumentTime, given: Option<Root>) -> ForestDocument {
    let word = |n: u64| format!("{:x}", spinney_text::hash::mix64(number / 3 * 131 + n) >> 20);
    let len = match method {
        Method::Short(_) => 6,
        _ => 50,
    };
    let mut words: Vec<String> = (0..len).map(word).collect();
    words.truncate(words.len() - (number % 3) as usize);
    let mut text = words.chunks(12).map(|words| words.join(" ")).collect::<Vec<_>>().join(". ");
    if number.is_multiple_of(5) && len > 6 {
        text += ". All rights are reserved by the publisher of this page and by its many partners.";
    }
    let title = format!("headline {}", number / 6);
    let fields = Fields { title: Some(&title).filter(|_| len > 6).map(String::as_str), body: &[&text] };
    let url = format!("https://news.example/{}", number / 2);
    let attributes =
        Attributes { url: Some(&url), own: Some(Fingerprint(spinney_text::hash::mix64(number / 3) ^ (number % 3))) };
    ForestDocument {
        features: method.read_with(&fields, attributes, &mut Workspace::default()),
        when,
        title: Some((number / 6) as u32),
        id: Default::default(),
        given,
    }
}

/// One kind of forest.
pub(super) struct Kind<F: MethodKind> {
    pub(super) method: Method,
    pub(super) k: Distance,
    pub(super) window: Option<Millis>,
    pub(super) thresholds: <F::Proof as Proof>::Thresholds,
}

impl<F: MethodKind> Kind<F> {
    pub(super) fn empty(&self) -> ForestState<F> {
        let settings = Settings { k: self.k, window: self.window, key: HashKey::FIXED };
        ForestState::new(settings, self.thresholds, F::Learned::default()).unwrap()
    }

    /// The forest behind which an index was written, and what stands in that.
    fn write(&self, requests: &[Request]) -> (ForestState<F>, Vec<Kept>) {
        let (mut state, mut kept, mut now) = (self.empty(), Vec::new(), 1_000_000);
        for request in requests {
            now += request.pause;
            let (mut earlier, mut settlements) = (EarlierDocuments::default(), Vec::new());
            for &number in &request.numbers {
                let document = document(&self.method, number, DocumentTime::At(Millis(now)), None);
                let reply = state.place_by(document, Commit::Provisional, &mut earlier);
                let placed = reply.placed.unwrap();
                let (root, arrival) = (placed.root, placed.clock);
                let is_stored = matches!(request.fate, Fate::Accepted | Fate::Unanswered { is_stored: true });
                if is_stored {
                    kept.push(Kept { number, root, arrival });
                }
                settlements.extend(placed.settled(match request.fate {
                    Fate::Accepted => ItemOutcome::Accepted,
                    Fate::Refused => ItemOutcome::Refused,
                    Fate::Unanswered { .. } => ItemOutcome::Unknown,
                }));
            }
            state.settle(settlements, Millis(now));
        }
        (state, kept)
    }

    fn stored(&self, kept: &Kept) -> ForestDocument {
        document(&self.method, kept.number, DocumentTime::At(kept.arrival), Some(kept.root))
    }

    pub(super) fn recover(
        &self,
        state: &mut ForestState<F>,
        kept: &[Kept],
        mut recovery: RecoveryPass,
        page: usize,
    ) -> Recovered {
        let mut pages = kept.chunks(page).peekable();
        while let Some(page) = pages.next() {
            let documents: Vec<ForestDocument> = page.iter().map(|kept| self.stored(kept)).collect();
            let mut documents = documents.into_iter();
            while let Some(group) = recovery.next_group(&mut documents, pages.peek().is_none()) {
                state.recover(group, &mut recovery);
            }
        }
        recovery.recovered()
    }

    fn root(&self, state: &mut ForestState<F>, number: u64) -> Root {
        let at = DocumentTime::At(state.forest().clock());
        let check = state.check(document(&self.method, number, at, None));
        check.check.unwrap().root
    }

    /// How many of the documents do not get the root again that they are stored with.
    fn others(&self, state: &mut ForestState<F>, kept: &[Kept]) -> u64 {
        let other = |kept: &&Kept| self.root(state, kept.number) != kept.root;
        kept.iter().filter(other).count() as u64
    }

    /// In the order in which they came the documents make the same forest, node by node, and the same for documents to
    /// come, where no two requests came in one moment.
    fn check_in_order(&self, requests: &[Request], page: usize) {
        let apart = requests.iter().cloned().map(|request| Request { pause: request.pause + 1, ..request });
        let (mut first, kept) = self.write(&apart.collect::<Vec<_>>());
        let mut again = self.empty();
        let recovered = self.recover(&mut again, &kept, RecoveryPass::default(), page);
        assert_eq!(recovered.elsewhere, 0);
        assert_eq!(recovered.placed, kept.len() as u64);
        assert!(rows(first.forest()) == rows(again.forest()));
        let (before, after) = (first.forest().stats(), again.forest().stats());
        assert_eq!((before.nodes, before.roots, before.largest), (after.nodes, after.roots, after.largest));
        for number in 0..160 {
            assert_eq!(self.root(&mut first, number), self.root(&mut again, number), "{number}");
        }
        // All of it once more changes nothing.
        let known = self.recover(&mut again, &kept, RecoveryPass::of_the_rest(), page);
        assert_eq!((known.known, known.placed), (kept.len() as u64, 0));
        assert!(rows(first.forest()) == rows(again.forest()));
    }

    /// In whatever order the documents of one moment are read, each gets its root again.
    fn check_in_any_order(&self, requests: &[Request], keys: &[u64], page: usize) {
        let (_, mut kept) = self.write(requests);
        let mut keys = keys.iter().cycle();
        kept.sort_by_cached_key(|kept| (kept.arrival, keys.next().copied()));
        let mut again = self.empty();
        let recovered = self.recover(&mut again, &kept, RecoveryPass::default(), page);
        assert_eq!(recovered.elsewhere, 0);
        assert_eq!(self.others(&mut again, &kept), 0);
    }

    /// Documents of which the cluster has told nothing: what is stored of them is found and stays, whenever it is
    /// looked for.
    fn check_unanswered(&self, requests: &[Request], page: usize, is_late: bool) {
        let (mut state, kept) = self.write(requests);
        let over = Millis(i64::MAX);
        if is_late {
            state.forget_unknown(over, usize::MAX);
        }
        let found = self.recover(&mut state, &kept, RecoveryPass::of_the_rest(), page);
        state.forget_unknown(over, usize::MAX);
        assert!(self.others(&mut state, &kept) <= found.elsewhere, "{found:?}");
        if !is_late {
            assert_eq!(found.elsewhere, 0);
        }
    }

    /// Of documents whose founders are gone, because they were deleted or are older than the window.
    fn check_the_rest(&self, requests: &[Request], gone: &[bool], page: usize) {
        let (first, mut kept) = self.write(requests);
        let clock = first.forest().clock();
        let mut gone = gone.iter().cycle();
        kept.retain(|kept| {
            !gone.next().unwrap() && self.window.is_none_or(|window| kept.arrival.0 >= clock.0 - window.0)
        });
        let mut again = self.empty();
        let recovered = self.recover(&mut again, &kept, RecoveryPass::default(), page);
        let others = self.others(&mut again, &kept);
        assert!(others <= recovered.elsewhere, "{others} of {recovered:?}");
    }
}

macro_rules! for_all {
    ($window:expr, |$kind:ident| $check:expr) => {{
        let window = $window;
        {
            let $kind = Kind::<Verified> {
                method: Method::Verified,
                k: Distance(0),
                window,
                thresholds: Similarity::default(),
            };
            $check;
        }
        {
            let $kind = Kind::<Staged> { method: Method::Staged, k: Distance(3), window, thresholds: () };
            $check;
        }
        {
            let method: Method = "short".parse().unwrap();
            let $kind = Kind::<Short> { method, k: SHORT_TEXT_DISTANCE, window, thresholds: () };
            $check;
        }
        {
            let $kind = Kind::<Strict> { method: Method::Longest, k: Distance(3), window, thresholds: () };
            $check;
        }
        {
            let $kind = Kind::<Strict> { method: Method::Sentences(2), k: Distance(0), window, thresholds: () };
            $check;
        }
        for method in ["full", "field:phash"] {
            let $kind = Kind::<Strict> { method: method.parse().unwrap(), k: Distance(3), window, thresholds: () };
            $check;
        }
    }};
}

pub(super) use for_all;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn in_order_it_is_the_same_forest(requests in requests(Just(Fate::Accepted)), page in 1usize..40) {
        for_all!(NEVER, |kind| kind.check_in_order(&requests, page));
    }

    #[test]
    fn in_any_order_of_a_moment_the_roots_stand(
        requests in requests(mostly_accepted()),
        keys in prop::collection::vec(any::<u64>(), 7),
        page in 1usize..40,
    ) {
        for_all!(NEVER, |kind| kind.check_in_any_order(&requests, &keys, page));
    }

    #[test]
    fn what_is_stored_is_found_and_stays(
        requests in requests(mostly_answered()),
        page in 1usize..40,
        is_late in any::<bool>(),
    ) {
        for_all!(NEVER, |kind| kind.check_unanswered(&requests, page, is_late));
    }

    #[test]
    fn without_their_founders_the_roots_stand(
        requests in requests(mostly_accepted()),
        gone in prop::collection::vec(prop::bool::weighted(0.3), 11),
        window in prop::option::of(30i64..300),
        page in 1usize..40,
    ) {
        for_all!(window.map(Millis), |kind| kind.check_the_rest(&requests, &gone, page));
    }
}

/// Documents of one moment are read in another order than they came, and the first one read brings a sentence that the
/// next moment's document has for its root.
#[test]
fn a_stored_root_goes_before_a_leaf() {
    let kind =
        Kind::<Verified> { method: Method::Verified, k: Distance(0), window: NEVER, thresholds: Similarity::default() };
    let request = |numbers: &[u64], pause| Request { numbers: numbers.to_vec(), pause, fate: Fate::Accepted };
    let requests = [request(&[1, 0, 0, 0], 0), request(&[0, 55], 1)];
    kind.check_in_any_order(&requests, &[1, 0, 0, 0, 0, 0], 1);
}

/// What was written since somebody made two groups one shows the winner's root, and stands in its own tree all the
/// same: when the word is taken back it goes with that.
#[test]
fn a_word_is_no_other_tree() {
    let kind =
        Kind::<Verified> { method: Method::Verified, k: Distance(0), window: NEVER, thresholds: Similarity::default() };
    let request = |number: u64, fate| Request { numbers: vec![number], pause: 1, fate };
    let unanswered = Fate::Unanswered { is_stored: true };
    let requests = [request(1, Fate::Accepted), request(31, Fate::Accepted), request(32, unanswered)];
    let (mut state, mut kept) = kind.write(&requests);
    let (winner, loser) = (kept[0].root, kept[1].root);
    assert!(winner != loser && kept[2].root == loser);
    let correction = Override::Merge { winner, losers: vec![loser] };
    let word = state.add_override(correction, &[]).unwrap();
    kept.iter_mut().for_each(|kept| kept.root = winner);
    let found = kind.recover(&mut state, &kept, RecoveryPass::of_the_rest(), 1);
    assert_eq!((found.known + found.placed, found.elsewhere), (3, 0));
    state.forget_unknown(Millis(i64::MAX), usize::MAX);
    state.undo_override(word).unwrap();
    let roots = [1, 31, 32].map(|number| kind.root(&mut state, number));
    assert_eq!(roots, [winner, loser, loser]);
}

/// The sentences of the others are unknown: what they found their trees with may have been boilerplate by then.
#[test]
fn only_founders_teach() {
    let kind =
        Kind::<Verified> { method: Method::Verified, k: Distance(0), window: NEVER, thresholds: Similarity::default() };
    let own = kind.root(&mut kind.empty(), 1);
    let lessons = |root| {
        let mut state = kind.empty();
        state.record();
        let kept = [Kept { number: 1, root, arrival: Millis(1) }];
        assert_eq!(kind.recover(&mut state, &kept, RecoveryPass::default(), 1).placed, 1);
        assert!(state.forest().tree(root).is_some());
        let changes = state.take_changes();
        changes.iter().filter(|change| matches!(change, StateChange::Taught(_))).count()
    };
    assert_eq!([own, root(7)].map(lessons), [1, 0]);
}
