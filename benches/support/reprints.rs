//! Many documents of the default method out of a few texts: three of ten are reprints of an earlier one.

use std::collections::HashSet;

use serde_json::Value;
use spinney::fingerprint::Fingerprint;
use spinney::hash::splitmix64;
use spinney::method::{Founder, Offer, VerifiedFeatures};
use spinney::text::boilerplate::{Boilerplate, BoilerplateMask, PendingSentences};
use spinney::text::{Fields, Scratch};

use super::documents::Documents;

/// Texts that are read; all others are made of their fingerprints.
const POOL: usize = 20_000;
/// How far back the tree lies that a document joins, at most.
pub const BACK: u64 = 1_000_000;
/// What a text gives to the forest.
pub struct Text {
    pub fingerprints: Vec<Fingerprint>,
    pub founder: Founder,
}

/// The texts.
pub fn pool() -> Vec<Text> {
    let mut documents = Documents::new(4, None);
    let (mut features, mut scratch) = (VerifiedFeatures::new(), Scratch::new());
    let (boilerplate, mut mask) = (Boilerplate::new(), BoilerplateMask::default());
    let (mut texts, mut seen) = (Vec::with_capacity(POOL), HashSet::new());
    while texts.len() < POOL {
        let mut line = Vec::new();
        documents.write_next(&mut line);
        let document: Value = serde_json::from_slice(&line).unwrap();
        let fields = Fields { title: document["title"].as_str(), body: &[document["content"].as_str().unwrap()] };
        if features.read(&mut scratch, &fields) {
            let offer = Offer::of(&mut features, &boilerplate, &PendingSentences::default(), &mut mask);
            let query = offer.query(Default::default());
            // The reprints among them are no texts of their own.
            if !query.fingerprints.iter().all(|print| seen.insert(*print)) {
                continue;
            }
            texts.push(Text { fingerprints: query.fingerprints.to_vec(), founder: *query.proof });
        }
    }
    texts
}

/// The document that document `n` is a reprint of, as three of ten are: at most `back` before it.
fn original(n: u64, back: u64) -> Option<u64> {
    let joins = n > 1_000 && splitmix64(n) % 10 < 3;
    joins.then(|| n - 1 - splitmix64(!n) % n.min(back).saturating_sub(1).max(1))
}

/// The number of the first document of the story that document `n` is of, whose copies are at most `back` from each
/// other.
pub fn story(n: u64, back: u64) -> u64 {
    let mut of = n;
    while let Some(earlier) = original(of, back) {
        of = earlier;
    }
    of
}

/// The fingerprints of document `n`, the hash of its text, and which text it is: a reprint has two of its fingerprints
/// changed.
pub fn document(n: u64, texts: &[Text], prints: &mut Vec<Fingerprint>) -> (Fingerprint, usize) {
    document_within(BACK, n, texts, prints)
}

/// The same with reprints of documents that are at most `back` before them.
pub fn document_within(back: u64, n: u64, texts: &[Text], prints: &mut Vec<Fingerprint>) -> (Fingerprint, usize) {
    let of = story(n, back);
    let joins = of != n;
    let (base, salt) = ((of % POOL as u64) as usize, splitmix64(of / POOL as u64));
    prints.clear();
    let own = texts[base].fingerprints.iter();
    prints.extend(own.map(|print| Fingerprint(splitmix64(print.0 ^ salt))));
    if joins {
        for (place, print) in prints.iter_mut().enumerate() {
            if place % 4 == 1 {
                *print = Fingerprint(splitmix64(n ^ (place as u64) << 40));
            }
        }
    }
    (Fingerprint(splitmix64(n.wrapping_mul(3))), base)
}
