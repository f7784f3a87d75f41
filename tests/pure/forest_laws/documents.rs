//! Documents out of a finite world, so that repeats, joins, contests and refusals are frequent.

use spinney::fingerprint::Fingerprint;
pub use spinney::hash::splitmix64 as splitmix;
use spinney::method::{FeatureQuery, Proof, Refusal};

pub struct Document<P> {
    pub fingerprints: Vec<Fingerprint>,
    pub whole: Fingerprint,
    pub known_by: Vec<Fingerprint>,
    pub proof: P,
    pub take: usize,
}

impl<P> Document<P> {
    pub fn query(&self) -> FeatureQuery<'_, P> {
        FeatureQuery {
            fingerprints: &self.fingerprints,
            whole: self.whole,
            known_by: &self.known_by,
            proof: &self.proof,
            known_by_whole: false,
            more: &[],
            tokens: &[],
            learned: Default::default(),
            earlier: None,
            take: self.take,
        }
    }
}

/// A proof that agrees with those beside it: not transitive, like every similarity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topic(pub i32);

impl Proof for Topic {
    type Thresholds = ();

    fn agrees(&self, root: &Self, _: usize, (): ()) -> Result<(), Refusal> {
        agree(self.0, root.0)
    }
}

fn agree(one: i32, other: i32) -> Result<(), Refusal> {
    match (one - other).abs() {
        0 | 1 => Ok(()),
        2 => Err(Refusal::Numbers { same: 0, different: 2 }),
        _ => Err(Refusal::Proof { similarity: 0.0, needed: 1.0 }),
    }
}

/// The same where the first fingerprint that finds a tree decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InTurn(pub i32);

impl Proof for InTurn {
    const IN_TURN: bool = true;
    type Thresholds = ();

    fn agrees(&self, root: &Self, _: usize, (): ()) -> Result<(), Refusal> {
        agree(self.0, root.0)
    }
}

/// The same where fingerprints near a tree of others become leaves too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowded(pub i32);

impl Proof for Crowded {
    const CROWDED: bool = true;
    type Thresholds = ();

    fn agrees(&self, root: &Self, _: usize, (): ()) -> Result<(), Refusal> {
        agree(self.0, root.0)
    }
}

/// The same that knows the text of the founder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Founder(pub Topic, pub Fingerprint);

impl Proof for Founder {
    type Thresholds = ();

    fn is_of_text(&self, whole: Fingerprint) -> bool {
        self.1 == whole
    }

    fn agrees(&self, root: &Self, shared: usize, (): ()) -> Result<(), Refusal> {
        self.0.agrees(&root.0, shared, ())
    }
}

/// A fingerprint around one of a few centres, near enough to others of its kind that trees meet; one in eight alone.
pub fn fingerprint(number: u64) -> Fingerprint {
    let seed = splitmix(number);
    if seed.is_multiple_of(8) {
        return Fingerprint(splitmix(seed));
    }
    let mut code = splitmix(seed % 40);
    let mut bits = splitmix(seed);
    for _ in 0..bits % 6 {
        bits = splitmix(bits);
        // Only some of the bits, so that two steps away is often one step back.
        code ^= 1 << ((bits % 12) * 5);
    }
    Fingerprint(code)
}

/// The document of the strict rules with this number.
pub fn strict(number: u64) -> Document<()> {
    let fingerprint = fingerprint(number);
    Document { fingerprints: vec![fingerprint], whole: fingerprint, known_by: Vec::new(), proof: (), take: 1 }
}

/// One to four fingerprints, now and then the same one twice, with a topic.
pub fn verified(number: u64) -> Document<Topic> {
    let seed = splitmix(number ^ 0x5eed);
    let fingerprints = (0..=seed % 4).map(|i| fingerprint(splitmix(seed ^ i) % 3000));
    Document {
        fingerprints: fingerprints.collect(),
        whole: Fingerprint(splitmix(!seed)),
        known_by: Vec::new(),
        proof: Topic((seed >> 32) as i32 & 3),
        take: 1 + (seed >> 40) as usize % 4,
    }
}

/// The document of the verified rules with this number, under another proof.
pub fn with<P>(number: u64, proof: impl FnOnce(i32) -> P) -> Document<P> {
    let Document { fingerprints, whole, known_by, proof: Topic(topic), take } = verified(number);
    Document { fingerprints, whole, known_by, proof: proof(topic), take }
}

/// The same where the root keeps the text that founded it. It is known by some of its fingerprints, and by one that it
/// does not offer.
pub fn founding(number: u64) -> Document<Founder> {
    let document = verified(number);
    let seed = splitmix(number ^ 0xf0);
    let known = document.fingerprints.iter().copied();
    let known = known.enumerate().filter(|(at, _)| seed >> at & 3 != 0);
    Document {
        known_by: known.map(|(_, fingerprint)| fingerprint).chain([fingerprint(seed % 3000)]).collect(),
        proof: Founder(document.proof, document.whole),
        fingerprints: document.fingerprints,
        whole: document.whole,
        take: document.take,
    }
}
