//! What documents and people bring is written, read and equal: through text, method and placement, at and around
//! every limit.

use proptest::prelude::*;
use spinney_text::method::{
    Attributes, Durable, FounderTokens, LearnedText, Method, MethodKind, SHORT_TEXT_DISTANCE, Short, Similarity,
    Staged, Strict, Verified, Workspace,
};
use spinney_text::text::Fields;

use super::save::{seen, settings};
use super::*;
use crate::document::{DocumentTime, ForestDocument};
use crate::local::{ForestState, StateChange};
use crate::overrides::Override;
use crate::port::{Commit, EarlierDocuments, ItemOutcome};
use crate::{LateMerges, Portions, Restoring};

/// Words of a title and of a body, at the limits of what is kept of them and beside them.
const TITLES: [usize; 10] = [0, 1, 23, 24, 25, 63, 64, 65, 200, 2_000];
const BODIES: [usize; 12] = [0, 1, 6, 20, 79, 140, 998, 999, 1_000, 1_001, 1_100, 5_000];
/// Times, at their ends.
const TIMES: [i64; 9] =
    [i64::MIN, -(1 << 47) - 1, -(1 << 47), -1, 0, 1_700_000_000_000, (1 << 47) - 1, 1 << 47, i64::MAX];

/// How the words of a text look.
#[derive(Debug, Clone, Copy)]
enum Script {
    Words,
    Numbers,
    Characters,
    /// Marks that count in no length, on letters.
    Marks,
    /// All of it one sentence.
    Row,
}

fn text(script: Script, words: usize, salt: u64) -> String {
    let number = |n: usize| spinney_text::hash::mix64(salt.wrapping_mul(1 << 20) ^ n as u64);
    let one = |n: usize| match script {
        Script::Words | Script::Row => format!("{:x}", number(n) >> 30),
        Script::Numbers => format!("{}", number(n) >> 40),
        Script::Marks => format!("{}\u{301}\u{302}", (b'a' + (number(n) % 26) as u8) as char),
        Script::Characters => char::from_u32(0x4E00 + (number(n) % 20_000) as u32).map_or(String::new(), String::from),
    };
    let mut text = String::new();
    for n in 0..words {
        text += &one(n);
        match script {
            Script::Characters => {}
            Script::Row => text.push(' '),
            _ if n % 12 == 11 => text += ". ",
            _ => text.push(' '),
        }
        if matches!(script, Script::Characters) && n % 20 == 19 {
            text.push('。');
        }
    }
    text
}

#[derive(Debug, Clone)]
pub(crate) struct Written {
    title: usize,
    body: usize,
    script: Script,
    salt: u64,
    at: i64,
    /// It says what time it is itself.
    claims: bool,
}

pub(crate) fn written() -> impl Strategy<Value = Written> {
    let script = prop_oneof![
        Just(Script::Words),
        Just(Script::Numbers),
        Just(Script::Characters),
        Just(Script::Marks),
        Just(Script::Row),
    ];
    let at = prop_oneof![1 => prop::sample::select(&TIMES[..]), 2 => Just(1_700_000_000_000)];
    (prop::sample::select(&TITLES[..]), prop::sample::select(&BODIES[..]), script, 0u64..6, at, any::<bool>())
        .prop_map(|(title, body, script, salt, at, claims)| Written { title, body, script, salt, at, claims })
}

impl Written {
    pub(crate) fn document(&self, method: &Method, workspace: &mut Workspace) -> ForestDocument {
        let title = text(self.script, self.title, self.salt + 1_000);
        let body = text(self.script, self.body, self.salt);
        let fields = Fields { title: Some(title.as_str()).filter(|title| !title.is_empty()), body: &[&body] };
        ForestDocument {
            features: method.read_with(&fields, Attributes::default(), workspace),
            when: match self.claims {
                true => DocumentTime::Claimed(Millis(self.at)),
                false => DocumentTime::At(Millis(self.at)),
            },
            title: Some(self.salt as u32),
            id: Default::default(),
            given: None,
        }
    }
}

/// Places and settles all of them, one request each, and holds that the journal alone, and a copy alone, make the
/// same state.
fn law<F: MethodKind>(method: &str, make: impl Fn() -> ForestState<F>, documents: &[Written]) {
    let method: Method = method.parse().unwrap();
    let mut state = make();
    state.record();
    let mut workspace = Workspace::default();
    let mut journal = Vec::new();
    for (at, document) in documents.iter().enumerate() {
        let document = document.document(&method, &mut workspace);
        let mut earlier = EarlierDocuments::default();
        let reply = state.place_by(document, Commit::Provisional, &mut earlier);
        let Some(placed) = reply.placed else { continue };
        let root = placed.root;
        state.settle(placed.settled(ItemOutcome::Accepted).into_iter().collect(), Millis(0));
        if at % 3 == 2 {
            let losers = state.forest().nodes().iter().map(|node| node.root).collect();
            let correction = Override::Merge { winner: root, losers };
            state.add_override(correction, &[]).unwrap();
        }
        let changes = state.take_changes();
        journal.push(StateChange::batch(&changes).unwrap());
    }
    let mut replayed = Restoring::new(make());
    for (lsn, batch) in (1..).zip(&journal) {
        replayed.batch(lsn, batch).unwrap();
    }
    let replayed = replayed.finish();
    assert_eq!(seen(&state), seen(&replayed));
    assert_eq!(state.overrides(), replayed.overrides());
    assert_founder_tokens(&state, &replayed);

    let mut copied = Restoring::new(make());
    let (section, bytes) = state.begin_copy();
    copied.part(section, &bytes).unwrap();
    let mut portions = Portions::default();
    while let Some((section, bytes)) = state.next_portion(&mut portions, journal.len() as u64) {
        copied.part(section, &bytes).unwrap();
    }
    let copied = copied.finish();
    assert_eq!(seen(&state), seen(&copied));
    assert_eq!(state.overrides(), copied.overrides());
    assert_founder_tokens(&state, &copied);
}

fn assert_founder_tokens<F: MethodKind>(one: &ForestState<F>, other: &ForestState<F>) {
    for node in one.forest().nodes() {
        let of = |state: &ForestState<F>| state.forest().founder_tokens.get(node.root.0).map(<[u16]>::to_vec);
        assert_eq!(of(one), of(other));
    }
}

fn verified() -> ForestState<Verified> {
    verified_within(None)
}

pub(super) fn verified_within(window: Option<Millis>) -> ForestState<Verified> {
    let settings = settings(Distance(0), window);
    let learned = LearnedText::default();
    let mut state = ForestState::<Verified>::new(settings, Similarity::default(), learned).unwrap();
    state.set_late_merges(LateMerges::Apply);
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_documents_bring_is_written_and_read(documents in prop::collection::vec(written(), 1..8)) {
        law("verified", verified, &documents);
        law("staged", || ForestState::<Staged>::new(settings(Distance(3), None), (), ()).unwrap(), &documents);
        law("short", || ForestState::<Short>::new(settings(SHORT_TEXT_DISTANCE, None), (), ()).unwrap(), &documents);
        for method in ["longest", "full", "sentences:3"] {
            law(method, || ForestState::<Strict>::new(settings(Distance(3), None), (), ()).unwrap(), &documents);
        }
    }
}

/// Each length of a title with each length of a body.
#[test]
fn articles_of_every_length_are_read_again() {
    let mut longest = 0;
    for (salt, title) in TITLES.into_iter().enumerate() {
        let documents = BODIES.map(|body| Written {
            title,
            body,
            script: if salt % 2 == 0 { Script::Words } else { Script::Row },
            salt: (1_000 * salt + body) as u64,
            at: 1_700_000_000_000,
            claims: false,
        });
        law("verified", verified, &documents);
        let mut state = verified();
        for document in documents {
            let document = document.document(&Method::Verified, &mut Workspace::default());
            let Some(placed) = state.place(document).placed else {
                continue;
            };
            let kept = state.forest().founder_tokens.get(placed.root.0);
            longest = longest.max(kept.map_or(0, <[u16]>::len));
        }
    }
    // Those of the body alone; what stands before it is longest in the tests of the alignment check.
    assert!(longest > 2_000, "the limit is reached: {longest}");
}

/// As many as a request may name.
#[test]
fn the_largest_overrides_are_read_again() {
    let roots = |from: u64| (from..from + 1_000).map(|n| root(spinney_text::hash::mix64(n)));
    let mut state = verified();
    state.record();
    let merge = Override::Merge { winner: root(1), losers: roots(2).collect() };
    let number = state.add_override(merge, &[]).unwrap();
    let pin = Override::Pin { texts: roots(5_000).map(|root| root.0).collect(), root: root(1) };
    let shown: Vec<Root> = roots(9_000).collect();
    state.add_override(pin, &shown).unwrap();
    state.undo_override(number);
    let changes = state.take_changes();
    let batch = StateChange::batch(&changes).unwrap();
    let mut restored = Restoring::new(verified());
    restored.batch(1, &batch).unwrap();
    assert_eq!(restored.finish().overrides(), state.overrides());
}

/// A journal and a snapshot of a version whose founder tokens had no limit when it was written.
#[test]
fn what_an_earlier_version_has_written_is_read() {
    for len in [1_025u32, 4_000, FounderTokens::MOST as u32, FounderTokens::MOST as u32 + 1] {
        let words = (0..len).map(|n| n as u16);
        let mut founder_tokens = Vec::new();
        Fingerprint(7).write(&mut founder_tokens);
        len.write(&mut founder_tokens);
        words.for_each(|word| founder_tokens.extend_from_slice(&word.to_le_bytes()));
        let document = Written { title: 3, body: 50, script: Script::Words, salt: 1, at: 5, claims: false };
        let mut before = verified();
        before.record();
        let placed = before.place(document.document(&Method::Verified, &mut Workspace::default()));
        let of_tree = placed.placed.unwrap().root;
        let changes = before.take_changes();
        let mut batch = StateChange::batch(&changes).unwrap();
        batch.push(10);
        of_tree.0.write(&mut batch);
        batch.extend_from_slice(&founder_tokens[8..]);
        let mut restoring = Restoring::new(verified());
        restoring.batch(1, &batch).unwrap();
        restoring.part(6, &founder_tokens).unwrap();
        let state = restoring.finish();
        let kept = |root| state.forest().founder_tokens.get(root).map(<[u16]>::len);
        let expected = FounderTokens::MOST.min(len as usize);
        assert_eq!(kept(of_tree.0), Some(expected), "{len}");
        assert_eq!(kept(Fingerprint(7)), Some(expected), "{len}");
    }
}
