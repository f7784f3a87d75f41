//! The decision of `verified` on each labelled pair by itself, whatever became of its documents in the clusters, and by
//! other weights than those of the product.
//!
//! ```text
//! documents --those that founded trees--> learned state
//! pair + learned state --gates--> refused, or known by its proofs
//!                      --alignment--> costs by kind --factors of the weights--> together or apart
//! ```

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};

use rayon::prelude::*;

use super::super::clustering::Clustering;
use super::super::documents::{Document, Documents};
use super::super::labels::{LabelledPair, LabelledPairs};
use super::error::SetError;
use super::labels::{LabelScore, Wanted};
use spinney::fingerprint::Fingerprint;
use spinney::forest::Decision;
use spinney::method::{FeatureQuery, Founder, LearnedText, MethodKind, Proof, Similarity, Verified, VerifiedFeatures};
use spinney::text::Scratch;
use spinney::text::boilerplate::PendingSentences;

/// Kinds of difference.
pub(super) const KINDS: usize = 5;
/// What the weight of each kind is multiplied by. The weights themselves stay in the library.
pub(super) type Factors = [f32; KINDS];
/// The weights as they are.
pub(super) const TABLE: Factors = [1.0; KINDS];

/// What decides on a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// Whether it is together, whatever the weights are: the texts are not aligned, or have too little in common.
    Fixed(bool),
    /// What each kind of difference costs by the weights as they are.
    Costs([f32; KINDS]),
}

impl Verdict {
    fn is_together(&self, factors: &Factors) -> bool {
        match self {
            Verdict::Fixed(together) => *together,
            Verdict::Costs(costs) => costs.iter().zip(factors).map(|(cost, factor)| factor * cost).sum::<f32>() <= 1.0,
        }
    }
}

/// The pairs of one collection of which the error is, decided one by one.
#[derive(Debug)]
pub(super) struct PairDecisions {
    pub set: String,
    /// With none of their pairs together.
    labels: Vec<LabelScore>,
    /// Each pair with the index of its label.
    pairs: Vec<(usize, Verdict)>,
}

impl PairDecisions {
    /// Decides on all pairs of labels that are not free, by what the forest had learned when the later one came.
    pub(super) fn of(set: &str, labelled: &LabelledPairs, documents: &Documents, clustering: &Clustering) -> Self {
        let mut labels: Vec<LabelScore> = labelled.names.iter().map(|(name, _)| LabelScore::new(name)).collect();
        let is_free = |pair: &&LabelledPair| labels.get(pair.name).is_none_or(|label| label.wanted == Wanted::Free);
        let pairs: Vec<&LabelledPair> = labelled.pairs.iter().filter(|pair| !is_free(pair)).collect();
        let verdicts = decide(&pairs, documents, clustering);
        for &(label, _) in &verdicts {
            if let Some(label) = labels.get_mut(label) {
                label.pairs += 1;
            }
        }
        PairDecisions { set: set.to_owned(), labels, pairs: verdicts }
    }

    /// The error by the weights times these factors; `None` where no pair belongs together, or none apart.
    pub(super) fn error(&self, factors: &Factors) -> Option<SetError> {
        let mut labels = self.labels.clone();
        for (label, verdict) in &self.pairs {
            if let Some(label) = labels.get_mut(*label) {
                label.together += u64::from(verdict.is_together(factors));
            }
        }
        SetError::of(&labels)
    }

    /// How many pairs there are, and of how many the weights decide.
    pub(super) fn counts(&self) -> (u64, u64) {
        let weighed = self.pairs.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Costs(_)));
        (self.pairs.len() as u64, weighed.count() as u64)
    }

    #[cfg(test)]
    pub(super) fn counted(set: &str, labels: &[&str], pairs: &[(usize, Verdict)]) -> PairDecisions {
        let of = |label: usize| pairs.iter().filter(|pair| pair.0 == label).count() as u64;
        let labels = labels.iter().enumerate().map(|(at, name)| LabelScore::counted(name, 0, of(at)));
        PairDecisions { set: set.to_owned(), labels: labels.collect(), pairs: pairs.to_vec() }
    }
}

/// Decides on each pair by what the forest had learned when the later document came: nothing of that document, and so
/// nothing of whether the two are in one cluster.
fn decide(pairs: &[&LabelledPair], documents: &Documents, clustering: &Clustering) -> Vec<(usize, Verdict)> {
    let mut by_later: HashMap<Document, Vec<&LabelledPair>> = HashMap::new();
    for pair in pairs {
        by_later.entry(pair.one.max(pair.other)).or_default().push(pair);
    }
    let named: BTreeSet<Document> = pairs.iter().flat_map(|pair| [pair.one, pair.other]).collect();
    let (mut learned, taught) = (LearnedText::default(), PendingSentences::default());
    let (mut features, mut scratch) = (VerifiedFeatures::new(), Scratch::new());
    let mut texts: HashMap<Document, PlacedText> = HashMap::new();
    let mut verdicts = Vec::with_capacity(pairs.len());
    for document in (0..).take(documents.count()) {
        let is_read = documents.read(document, |fields| features.read(&mut scratch, fields)) == Some(true);
        if is_read && named.contains(&document) {
            texts.insert(document, Verified::ask(&mut features, &mut learned, &taught, PlacedText::of));
        }
        let pairs = by_later.get(&document).map_or(&[][..], Vec::as_slice);
        let verdict = |pair: &&LabelledPair| {
            let both = texts.get(&pair.one.min(pair.other)).zip(texts.get(&document));
            (pair.name, both.map_or(Verdict::Fixed(false), |(old, new)| new.verdict(old, &learned)))
        };
        verdicts.par_extend(pairs.par_iter().map(verdict));
        let explanation = clustering.explanations.get(&document);
        if is_read && explanation.is_some_and(|explanation| explanation.decision == Decision::NewRoot) {
            learned.learn(&Verified::lesson(&features));
        }
    }
    verdicts
}

/// What is compared of a text.
struct PlacedText {
    founder: Founder,
    tokens: Vec<u16>,
    /// Those that are looked up.
    fingerprints: Vec<Fingerprint>,
    /// How many of them have nodes if the text founds a tree.
    nodes: usize,
}

impl PlacedText {
    fn of(query: &FeatureQuery<'_, Founder>) -> PlacedText {
        PlacedText {
            founder: *query.proof,
            tokens: query.tokens.to_vec(),
            fingerprints: query.fingerprints.to_vec(),
            nodes: query.take,
        }
    }

    /// Compares this text with one that has founded a tree and is alone in it.
    fn verdict(&self, old: &PlacedText, learned: &LearnedText) -> Verdict {
        let shared = old.fingerprints.iter().take(old.nodes).filter(|node| self.fingerprints.contains(node));
        let shared = shared.count();
        let laid = Cell::new(None);
        let own = (self.tokens.as_slice(), Verified::view(learned));
        let root = (&old.founder, old.tokens.as_slice());
        let agrees = self.founder.agrees_by(own, root, shared, Similarity::default(), &laid);
        match laid.get() {
            None => Verdict::Fixed(agrees.is_ok()),
            Some(found) if found.least < found.least_needed() => Verdict::Fixed(false),
            Some(found) => Verdict::Costs(found.costs().map(|(_, cost)| cost)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::route_of;
    use super::super::tests::documents;
    use super::*;

    /// Articles of words of their own with the same ones between, which no two words beside each other repeat.
    fn article(name: &str) -> String {
        (0..80).map(|at| format!("the {name}{}{at}x of {}", at % 7, at * at % 97)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pairs_are_decided_as_the_product_decides() {
        let (one, other) = (article("harbour"), article("railway"));
        let edited = one.replace("harbour279x", "pier");
        let numbers = one.replace("of 16 ", "of 5016 ").replace("of 25 ", "of 5025 ").replace("of 36 ", "of 5036 ");
        let texts = [("", &*one), ("", &one), ("", &edited), ("", &numbers), ("", &other), ("", "...")];
        let documents = documents(&texts);
        let clustering = documents.cluster(&route_of(Some("verified")).unwrap(), 1, &|_| {}).unwrap();
        let pairs = "0\t1\tdup\n2\t0\tdup\n0\t3\ttemplate\n0\t4\ttemplate\n0\t5\ttemplate\n1\t4\tpartial\n";
        let labelled = LabelledPairs::parse(pairs, &documents).unwrap();
        let decisions = PairDecisions::of("press", &labelled, &documents, &clustering);
        let verdicts: Vec<Verdict> = decisions.pairs.iter().map(|&(_, verdict)| verdict).collect();
        let [copy, edit, form, foreign, empty] = verdicts[..] else { panic!("{verdicts:?}") };
        assert_eq!((copy, empty), (Verdict::Fixed(true), Verdict::Fixed(false)));
        assert!(!foreign.is_together(&TABLE), "{foreign:?}");
        assert!(matches!(edit, Verdict::Costs(_)) && edit.is_together(&TABLE), "{edit:?}");
        assert!(matches!(form, Verdict::Costs(_)) && !form.is_together(&TABLE), "{form:?}");
        for (pair, verdict) in [(1, edit), (2, form)] {
            let pair = labelled.pairs[pair];
            let together = clustering.roots[pair.one as usize] == clustering.roots[pair.other as usize];
            assert_eq!(verdict.is_together(&TABLE), together);
        }
        assert_eq!(decisions.counts(), (5, 2));
        // Numbers that cost nothing tell nothing.
        assert!(form.is_together(&[1.0, 1.0, 0.0, 1.0, 1.0]));
        assert_eq!(decisions.error(&TABLE).map(|error| error.error()), Some(0.0));
        assert!(decisions.error(&[1.0, 1.0, 0.0, 1.0, 1.0]).unwrap().wrong_together > 0.0);
    }
}
