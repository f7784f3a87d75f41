//! A forest, and what its method keeps beside it.

use parking_lot::{Mutex, MutexGuard};

use crate::config::Route;
use crate::forest::{Decision, Forest, ForestError, Placement, Rollback, Settings, Stats};
use crate::method::{
    Features, Founder, InTurn, Method, Offer, ShortFeatures, ShortText, StagedFeatures,
    StrictFeatures, TAKEN_SHORT, VerifiedFeatures, WIDE,
};
use crate::method::{Query, Refusal};
use crate::text::boilerplate::{Boilerplate, BoilerplateMask};
use crate::text::{Fields, Scratch};
use crate::time::Millis;

/// What the documents of a route are placed in.
#[derive(Debug)]
pub(super) enum Trees {
    Strict(Mutex<Forest>),
    Verified(Mutex<Verified>),
    Staged(Mutex<Forest<InTurn>>),
    Short(Mutex<Forest<ShortText>>),
}

/// The forest of the verified law and the boilerplate learned by it. One lock for both: what is boilerplate depends on
/// the order in which documents were placed.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) forest: Forest<Founder>,
    pub(super) boilerplate: Boilerplate,
    kept: BoilerplateMask,
}

/// [`Trees`] under its lock.
pub(super) enum Locked<'a> {
    Strict(MutexGuard<'a, Forest>),
    Verified(MutexGuard<'a, Verified>),
    Staged(MutexGuard<'a, Forest<InTurn>>),
    Short(MutexGuard<'a, Forest<ShortText>>),
}

/// The place of the forest with this name, which is made if there is none.
pub(super) fn find_or_add(
    forests: &mut Vec<(String, Trees)>,
    name: String,
    make: impl FnOnce() -> Result<Trees, ForestError>,
) -> Result<usize, ForestError> {
    match forests.iter().position(|(known, _)| *known == name) {
        Some(at) => Ok(at),
        None => {
            forests.push((name, make()?));
            Ok(forests.len() - 1)
        }
    }
}

impl Trees {
    /// What a route asks for; for `short`, where its longer texts stand.
    pub fn new(route: &Route) -> Result<Trees, ForestError> {
        let settings = Settings {
            k: route.k,
            window: route.window,
        };
        Ok(match route.method {
            Method::Verified => Trees::Verified(Mutex::new(Verified {
                forest: Forest::new(settings)?.with_thresholds(route.similarity),
                boilerplate: seeded(&route.boilerplate),
                kept: BoilerplateMask::default(),
            })),
            Method::Staged => Trees::Staged(Mutex::new(Forest::new(settings)?)),
            _ => Trees::Strict(Mutex::new(Forest::new(settings)?)),
        })
    }

    /// A forest for the short texts of a route, beside the one for its longer texts.
    pub fn short(route: &Route) -> Result<Trees, ForestError> {
        let settings = Settings {
            k: route.k.max(WIDE),
            window: route.window,
        };
        Ok(Trees::Short(Mutex::new(Forest::new(settings)?)))
    }

    pub fn lock(&self) -> Locked<'_> {
        match self {
            Trees::Strict(forest) => Locked::Strict(forest.lock()),
            Trees::Verified(verified) => Locked::Verified(verified.lock()),
            Trees::Staged(forest) => Locked::Staged(forest.lock()),
            Trees::Short(forest) => Locked::Short(forest.lock()),
        }
    }
}

fn seeded(sentences: &[String]) -> Boilerplate {
    let mut boilerplate = Boilerplate::new();
    let (mut reading, mut scratch) = (VerifiedFeatures::new(), Scratch::new());
    for sentence in sentences {
        let fields = Fields {
            title: None,
            body: &[sentence],
        };
        if reading.read(&mut scratch, &fields) {
            boilerplate.seed(reading.shingles());
        }
    }
    boilerplate
}

// What each kind of features tells the forest.

pub(super) fn strict(prints: &StrictFeatures) -> Query<'_> {
    Query {
        fingerprints: &prints.fingerprints,
        whole: prints.whole,
        known_by: &[],
        proof: &(),
        take: 1,
    }
}

pub(super) fn in_turn(staged: &StagedFeatures) -> Query<'_, InTurn> {
    let prints = staged.prints();
    Query {
        fingerprints: &prints.fingerprints,
        whole: prints.whole,
        known_by: &[],
        proof: &InTurn,
        take: prints.fingerprints.len(),
    }
}

pub(super) fn short_text(short: &ShortFeatures) -> Query<'_, ShortText> {
    Query {
        fingerprints: &short.prints.fingerprints,
        whole: short.prints.whole,
        known_by: &[],
        proof: &short.text,
        take: TAKEN_SHORT,
    }
}

/// Adds the trees that the document would have met, had the sentences that they share not become boilerplate.
fn refuse_boilerplate(
    placement: &mut Placement,
    forest: &Forest<Founder>,
    reading: &VerifiedFeatures,
    kept: &BoilerplateMask,
) {
    let (own, refused) = (placement.root, &mut placement.refused);
    for fingerprint in reading.left_out(kept) {
        forest.roots_near(fingerprint, |root| {
            if root != own && !refused.iter().any(|&(tree, _)| tree == root) {
                refused.push((root, Refusal::Boilerplate));
            }
        });
    }
}

impl Locked<'_> {
    /// Places a document. Features of the other law have no place here and no caller: such a document stays outside.
    /// Also tells which sentences of the document became boilerplate by it.
    pub fn place(
        &mut self,
        features: &mut Features,
        now: Millis,
    ) -> Option<(Placement, Vec<usize>)> {
        match (self, features) {
            (Locked::Strict(forest), Features::Strict(prints)) => {
                Some((forest.place(&strict(prints), now), Vec::new()))
            }
            (Locked::Verified(verified), Features::Verified(reading)) => {
                let Verified {
                    forest,
                    boilerplate,
                    kept,
                } = &mut **verified;
                let offer = Offer::of(reading, boilerplate, kept);
                let mut placement = forest.place(&offer.sketch(), now);
                let mut learned = Vec::new();
                if placement.decision == Decision::NewRoot {
                    refuse_boilerplate(&mut placement, forest, reading, kept);
                    learned = boilerplate.learn(reading.shingles());
                }
                Some((placement, learned))
            }
            (Locked::Staged(forest), Features::Staged(staged)) => {
                Some((forest.place(&in_turn(staged), now), Vec::new()))
            }
            (Locked::Short(forest), Features::Short(short)) => {
                Some((forest.place(&short_text(short), now), Vec::new()))
            }
            _ => None,
        }
    }

    pub fn clock(&self) -> Millis {
        match self {
            Locked::Strict(forest) => forest.clock(),
            Locked::Verified(verified) => verified.forest.clock(),
            Locked::Staged(forest) => forest.clock(),
            Locked::Short(forest) => forest.clock(),
        }
    }

    pub fn expire(&mut self, now: Millis, budget: usize) -> usize {
        match self {
            Locked::Strict(forest) => forest.expire(now, budget),
            Locked::Verified(verified) => verified.forest.expire(now, budget),
            Locked::Staged(forest) => forest.expire(now, budget),
            Locked::Short(forest) => forest.expire(now, budget),
        }
    }

    pub fn withdraw(&mut self, rollback: Rollback) -> usize {
        match self {
            Locked::Strict(forest) => forest.withdraw(rollback),
            Locked::Verified(verified) => verified.forest.withdraw(rollback),
            Locked::Staged(forest) => forest.withdraw(rollback),
            Locked::Short(forest) => forest.withdraw(rollback),
        }
    }

    pub fn stats(&self) -> Stats {
        match self {
            Locked::Strict(forest) => forest.stats(),
            Locked::Verified(verified) => verified.forest.stats(),
            Locked::Staged(forest) => forest.stats(),
            Locked::Short(forest) => forest.stats(),
        }
    }
}
