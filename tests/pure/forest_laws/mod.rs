//! The placement rules against a naive model, and under eight threads.

mod documents;
mod model;
mod threads;

use documents::{Crowded, Document, InTurn, founding, strict, verified, with};
use model::{Model, row};
use proptest::prelude::*;
use spinney::fingerprint::{Distance, Fingerprint};
use spinney::forest::{Decision, Forest, ForestStats, Placement, Rollback, Root, Settings};
use spinney::hash::HashKey;
use spinney::method::Proof;
use spinney::time::Millis;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

#[derive(Debug, Clone)]
enum Step {
    /// Places the document of this number after so many milliseconds, which may be negative.
    Place(u64, i64),
    /// Withdraws one of the placements whose outcome is still open.
    Withdraw(usize),
    /// Settles one of them well.
    Settle(usize),
    /// A background tick.
    Expire(i64, usize),
}

/// Mostly small steps forward; sometimes back, far back, and far ahead.
fn pause() -> impl Strategy<Value = i64> {
    prop_oneof![
        200 => 0..=10_i64,
        20 => -500..0_i64,
        4 => 100..2_000_i64,
        1 => -1_000_000..1_i64,
        1 => 2_000..30_000_i64,
    ]
}

fn step(world: u64) -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..world, pause()).prop_map(|(number, pause)| Step::Place(number, pause)),
        4 => any::<usize>().prop_map(Step::Withdraw),
        4 => any::<usize>().prop_map(Step::Settle),
        1 => (pause(), 0..40_usize).prop_map(|(pause, budget)| Step::Expire(pause, budget)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![Just(60_u64), Just(600), Just(6_000)]
        .prop_flat_map(|world| prop::collection::vec(step(world), 10_000..10_100))
}

fn settings() -> impl Strategy<Value = Settings> {
    let k = prop_oneof![5 => Just(3_u32), 1 => 0..=2_u32, 1 => 4..=6_u32];
    let window = prop_oneof![
        2 => Just(None),
        3 => Just(Some(Millis(400))),
        3 => Just(Some(Millis(3_000))),
        2 => Just(Some(Millis(20_000))),
    ];
    (k, window).prop_map(|(k, window)| Settings { k: Distance(k), window, key: HashKey::FIXED })
}

/// One forest beside its model, and what is known of each document that was placed.
struct Trial<P: Proof> {
    settings: Settings,
    forest: Forest<P>,
    /// Knows of nothing but the changes of the first.
    replica: Forest<P>,
    /// Is asked the same as the first, and has another secret.
    twin: Forest<P>,
    model: Model<P>,
    now: i64,
    placements: usize,
    open: Vec<(usize, u64, Rollback)>,
    /// The placements of a document that were not withdrawn: number, clock, root.
    kept: HashMap<u64, Vec<(usize, i64, Root)>>,
    seen: Seen,
}

/// How often things happened, so that a test that tests nothing is noticed.
#[derive(Debug, Default)]
struct Seen {
    joined: u64,
    contests: u64,
    refreshed: u64,
    refused: u64,
    returns: u64,
    expired: u64,
    withdrawn: u64,
}

impl<P: Proof + Debug + PartialEq> Trial<P> {
    fn new(settings: Settings) -> Self {
        let mut forest = Forest::new(settings).unwrap();
        forest.record();
        Trial {
            settings,
            forest,
            replica: Forest::new(settings).unwrap(),
            twin: Forest::new(Settings { key: settings.key.derived(1), ..settings }).unwrap(),
            model: Model::new(settings.k.0, settings.window),
            now: 1_500_000_000_000,
            placements: 0,
            open: Vec::new(),
            kept: HashMap::new(),
            seen: Seen::default(),
        }
    }

    fn run(&mut self, steps: &[Step], document: impl Fn(u64) -> Document<P>, strict: bool) {
        for (i, step) in steps.iter().enumerate() {
            match *step {
                Step::Place(number, pause) => {
                    // A step back is one document's own date: time itself goes on.
                    let date = self.now + pause;
                    self.now = self.now.max(date);
                    self.place(number, &document(number), date, strict);
                }
                Step::Withdraw(pick) => self.withdraw(pick),
                Step::Settle(pick) => {
                    if !self.open.is_empty() {
                        let (_, _, rollback) = self.open.swap_remove(pick % self.open.len());
                        self.forest.settle(&rollback);
                        self.twin.settle(&rollback);
                    }
                }
                Step::Expire(pause, budget) => {
                    self.now = self.now.max(self.now + pause);
                    assert!(self.forest.expire(Millis(self.now), budget) <= budget);
                    self.twin.expire(Millis(self.now), budget);
                    self.model.advance(self.now);
                }
            }
            if i % 100 == 0 {
                self.compare();
            }
            if i % 1_000 == 0 {
                assert_laws(&self.forest, self.settings);
            }
        }
        self.compare();
        assert_laws(&self.forest, self.settings);
        // What is due is gone once the ticks have had their time, and nothing else.
        while self.forest.stats().dead_nodes > 0 {
            assert!(self.forest.expire(Millis(self.now), 100) <= 100);
        }
        assert_eq!(self.forest.stats().nodes, self.model.nodes.len());
        let roots = self.model.nodes.iter().filter(|node| node.fingerprint == node.root);
        assert_eq!(self.forest.stats().roots, roots.count());
        self.seen.expired = self.forest.stats().expired_total;
        self.seen.withdrawn = self.forest.stats().withdrawn_total;
    }

    fn place(&mut self, number: u64, document: &Document<P>, date: i64, strict: bool) {
        let query = document.query();
        let who = self.placements;
        self.placements += 1;
        let check = self.forest.check(&query, Millis(date));
        let placement = self.forest.place(&query, Millis(date));
        let twin = self.twin.place(&query, Millis(date));
        // No answer depends on the secret of the tables.
        assert_eq!(
            (twin.root, twin.decision, twin.arrived, twin.by),
            (placement.root, placement.decision, placement.arrived, placement.by)
        );
        assert_eq!((twin.refused, twin.rollback), (placement.refused.clone(), placement.rollback.clone()));
        let expected = if strict {
            self.model.place_strict(document.fingerprints[0], &document.proof, date, who)
        } else {
            self.model.place_verified(&query, date, who)
        };
        let got = (placement.root, placement.decision, placement.arrived.map(|arrived| arrived.0));
        assert_eq!(got, expected, "placement {who} of document {number}");
        assert_eq!((check.root, check.decision), (placement.root, placement.decision));

        // The fourth law: near when it was placed, or brought by the founder of the tree.
        let agreed = check.trees.iter().filter(|tree| tree.verdict.is_ok());
        let agreed: Vec<Root> = agreed.map(|tree| tree.root).collect();
        match placement.decision {
            Decision::Joined { candidates } => {
                assert!(agreed.contains(&placement.root));
                // In turn, the trees near the fingerprints behind the one that decides are no candidates.
                assert!(candidates <= agreed.len() && (P::IN_TURN || candidates == agreed.len()));
                assert_eq!(placement.by.is_some(), P::IN_TURN);
                self.seen.joined += 1;
                self.seen.contests += u64::from(candidates > 1);
            }
            Decision::NewRoot => assert_eq!(agreed, []),
            Decision::Refreshed => self.seen.refreshed += 1,
            Decision::Outside => panic!("there is room"),
        }
        let refused = check.trees.iter().filter_map(|tree| Some((tree.root, tree.verdict.err()?)));
        if placement.decision != Decision::Refreshed {
            let mut reasons = placement.refused.clone();
            reasons.sort_unstable_by_key(|&(root, _)| root);
            let refused: Vec<_> = refused.collect();
            if P::IN_TURN {
                assert!(reasons.iter().all(|reason| refused.contains(reason)));
            } else {
                assert_eq!(reasons, refused);
            }
        }
        self.seen.refused += placement.refused.len() as u64;
        self.assert_stable(number, &placement);
        let kept = (who, self.forest.clock().0, placement.root);
        self.kept.entry(number).or_default().push(kept);
        self.open.push((who, number, placement.rollback));
    }

    /// The same document within the window: the same root.
    fn assert_stable(&mut self, number: u64, placement: &Placement) {
        let clock = self.forest.clock().0;
        let alive = |then: i64| self.settings.window.is_none_or(|window| clock - then <= window.0);
        let kept = self.kept.entry(number).or_default();
        kept.retain(|&(_, then, ..)| alive(then));
        for &(_, _, root) in kept.iter() {
            assert_eq!(placement.root, root, "document {number} again");
            self.seen.returns += 1;
        }
    }

    fn withdraw(&mut self, pick: usize) {
        if self.open.is_empty() {
            return;
        }
        let (who, number, rollback) = self.open.swap_remove(pick % self.open.len());
        if let Some(kept) = self.kept.get_mut(&number) {
            kept.retain(|&(other, ..)| other != who);
        }
        self.twin.withdraw(&rollback);
        assert_eq!(self.forest.withdraw(&rollback), self.model.withdraw(who));
    }

    /// The forest shows what the model shows, and whoever applies its changes has the same.
    fn compare(&mut self) {
        for change in self.forest.take_changes() {
            assert!(self.replica.apply(&change), "{change:?} has no effect");
        }
        assert_eq!(self.forest.nodes(), self.replica.nodes());
        assert_eq!(seen(self.forest.stats()), seen(self.replica.stats()));
        // Where nothing dies of it, the clock goes with the next change.
        assert!(self.forest.clock() >= self.replica.clock());
        let mut rows: Vec<_> = self.forest.nodes().iter().map(row).collect();
        rows.sort_unstable();
        assert_eq!(rows, self.model.rows());
        for &(fingerprint, root, ..) in rows.iter().step_by(7) {
            assert_eq!(self.forest.root_of(fingerprint), Some(Root(root)));
            let tree = self.forest.tree(Root(root)).unwrap();
            assert_eq!(tree.children as usize, self.model.children(root));
        }
        let stats = self.forest.stats();
        let gone = stats.expired_total + stats.withdrawn_total;
        assert_eq!(stats.nodes as u64 + gone, self.model.created);
    }
}

/// What shows whatever was swept up already, and wherever the clock stands.
fn seen(stats: ForestStats) -> ForestStats {
    ForestStats { clock: None, dead_nodes: 0, memory_bytes: 0, ..stats }
}

/// The first three laws and what the window promises, from the nodes alone.
pub fn assert_laws<P: Proof>(forest: &Forest<P>, settings: Settings) {
    let mut nodes = BTreeMap::new();
    let mut newest = i64::MAX;
    for node in forest.nodes() {
        assert!(node.arrival.0 <= newest, "newest first");
        newest = node.arrival.0;
        assert!(node.added.is_none_or(|added| added <= node.arrival));
        assert_eq!(node.proof.is_some(), node.root.0 == node.fingerprint);
        let twice = nodes.insert(node.fingerprint, row(&node));
        assert_eq!(twice, None, "law 2: one node a fingerprint");
    }
    let mut children: BTreeMap<Fingerprint, u32> = BTreeMap::new();
    for &(fingerprint, root, _, arrival) in nodes.values() {
        let &(_, above, _, root_arrival) = nodes.get(&root).expect("a root outlives its leaves");
        assert_eq!(above, root, "law 1: a parent is a root");
        assert!(arrival <= root_arrival, "a leaf refreshes its root");
        assert!(settings.window.is_none_or(|window| forest.clock().0 - arrival <= window.0));
        *children.entry(root).or_default() += u32::from(fingerprint != root);
    }
    for (i, (&root, &count)) in children.iter().enumerate() {
        assert_eq!(forest.tree(Root(root)).unwrap().children, count);
        for &other in children.keys().skip(i + 1) {
            assert!(root.distance(other) > settings.k, "law 3: roots are more than k apart");
        }
    }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        // Ten thousand steps a case: enough to point at the fault, not enough to wait for.
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(8))]

    #[test]
    fn strict_law_as_the_model(settings in settings(), steps in steps()) {
        Trial::new(settings).run(&steps, strict, true);
    }

    #[test]
    fn verified_law_as_the_model(settings in settings(), steps in steps()) {
        Trial::new(settings).run(&steps, verified, false);
    }

    #[test]
    fn fingerprints_in_turn_as_the_model(settings in settings(), steps in steps()) {
        Trial::new(settings).run(&steps, |number| with(number, InTurn), false);
    }

    #[test]
    fn crowded_documents_as_the_model(settings in settings(), steps in steps()) {
        Trial::new(settings).run(&steps, |number| with(number, Crowded), false);
    }

    #[test]
    fn founders_known_by_their_root_as_the_model(settings in settings(), steps in steps()) {
        Trial::new(settings).run(&steps, founding, false);
    }

    #[test]
    fn one_fingerprint_and_no_proof_is_the_strict_law(settings in settings(), steps in steps()) {
        Trial::new(settings).run(&steps, strict, false);
    }
}

/// A model that agrees because nothing happens would prove nothing.
#[test]
fn the_worlds_are_lively() {
    let steps: Vec<Step> = (0..10_000_u64)
        .map(|i| match i % 7 {
            5 => Step::Settle(i as usize),
            6 => Step::Withdraw(usize::MAX - i as usize),
            _ => Step::Place(documents::splitmix(i) % 600, (i % 9) as i64 - 2),
        })
        .collect();
    let settings = Settings { k: Distance(3), window: Some(Millis(400)), key: HashKey::FIXED };
    let mut plain = Trial::new(settings);
    plain.run(&steps, strict, true);
    let mut proved = Trial::new(settings);
    proved.run(&steps, verified, false);
    let mut told = Trial::new(settings);
    told.run(&steps, founding, false);
    assert!(told.model.created < proved.model.created, "founders need fewer nodes");
    for seen in [&plain.seen, &proved.seen, &told.seen] {
        let least = [seen.joined, seen.contests, seen.refreshed, seen.returns, seen.expired, seen.withdrawn];
        assert!(least.iter().all(|&times| times > 100), "{seen:?}");
    }
    assert_eq!(plain.seen.refused, 0);
    assert!(proved.seen.refused > 100, "{:?}", proved.seen);
}
