//! What a forest says that it takes in memory is what the allocator has given it. A program of its own: the allocator
//! of all of it is watched.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use spinney::fingerprint::{Distance, Fingerprint};
use spinney::forest::{Forest, Settings};
use spinney::hash::{HashKey, splitmix64};
use spinney::method::{FeatureQuery, Features, Founder, Method, Offer, Proof, ShortText, VerifiedFeatures, Workspace};
use spinney::text::boilerplate::{Boilerplate, BoilerplateMask, PendingSentences};
use spinney::text::{Fields, Scratch};
use spinney::time::Millis;

/// Where near fingerprints are found, nodes lie in chunks of so many bytes. They are filled in turn, and what is not
/// filled yet is no memory to the system, but it is to the allocator.
const CHUNK: f64 = (24 << 18) as f64;

/// Places documents, two of three reprints of an earlier one, at the edge of a window for most of the time, and
/// compares what the forest says with what was allocated while it lives.
fn assert_told<P: Proof>(documents: u64, k: u32, fingerprints: u64, proof: impl Fn(u64) -> P) {
    let settings = Settings { k: Distance(k), window: Some(Millis(documents as i64 / 2)), key: HashKey::FIXED };
    let mut kept = None;
    let allocated = allocation_counter::measure(|| {
        let mut forest = Forest::<P>::new(settings).unwrap();
        for n in 0..documents {
            let of = if n % 3 == 0 { n } else { n - n % 3 };
            let own = |at: u64| Fingerprint(splitmix64(of * 100 + at));
            let mut prints: Vec<Fingerprint> = (0..fingerprints).map(own).collect();
            if let Some(last) = prints.get_mut(1) {
                *last = Fingerprint(splitmix64(n * 100 + 50));
            }
            let whole = Fingerprint(splitmix64(!n));
            let proof = proof(of);
            let query = FeatureQuery {
                fingerprints: &prints,
                whole,
                known_by: &[],
                proof: &proof,
                take: 4,
                known_by_whole: false,
                more: &[],
                tokens: &[],
                learned: Default::default(),
                earlier: None,
            };
            let placement = forest.place(&query, Millis(n as i64));
            forest.settle(&placement.rollback);
        }
        kept = Some(forest);
    });
    let forest = kept.unwrap();
    let told = forest.stats().memory_bytes as f64;
    let allocated = allocated.bytes_current as f64;
    let unfilled = if k > 0 { CHUNK } else { 0.0 };
    // What is not told are the lists of chunks, and buffers that are there once.
    assert!(
        told < 1.02 * allocated && told > 0.98 * allocated - unfilled,
        "{told} told, {allocated} allocated, k = {k}, {fingerprints} fingerprints"
    );
}

fn founder() -> Founder {
    let (mut features, mut scratch) = (VerifiedFeatures::new(), Scratch::new());
    let fields = Fields {
        title: Some("A ship that nobody expected"),
        body: &[
            "The ship came into the harbour at night, and nobody had seen it before. In the morning 43 people stood at \
             the quay.",
        ],
    };
    assert!(features.read(&mut scratch, &fields));
    let (boilerplate, mut mask) = (Boilerplate::new(), BoilerplateMask::default());
    let offer = Offer::of(&mut features, &boilerplate, &PendingSentences::default(), &mut mask);
    *offer.query(Default::default()).proof
}

fn short_text(n: u64) -> ShortText {
    let text = format!("message number {n} of those that say {}", splitmix64(n));
    let fields = Fields { title: None, body: &[&text] };
    let method: Method = "short".parse().unwrap();
    match method.read(&fields, &mut Workspace::default()) {
        Some(Features::Short(short)) => short.text,
        other => unreachable!("a short text is none: {other:?}"),
    }
}

/// One test, because others would allocate beside it.
#[test]
fn what_a_forest_tells_is_what_was_allocated() {
    let founder = founder();
    assert_told(100_000, 0, 5, |_| founder);
    assert_told(100_000, 0, 1, |_| ());
    assert_told(600_000, 3, 1, |_| ());
    assert_told(60_000, 0, 1, short_text);
}
