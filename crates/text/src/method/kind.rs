//! Method kinds: the features that a forest places by, and what it learns.

use std::cell::OnceCell;
use std::fmt::Debug;

use super::{
    Durable, FeatureQuery, Features, Founder, LearnedText, LearnedView, Lesson, Offer, Proof, ShortFeatures, ShortText,
    Stage, StagedFeatures, StagedProof, StrictFeatures, TAKEN_SHORT, VerifiedFeatures,
};
use crate::fingerprint::Fingerprint;
use crate::text::boilerplate::{Boilerplate, PendingSentences};
use crate::text::sentence_key::SentenceKey;
use crate::text::word_counts::WordCounts;

/// One kind of forest.
pub trait MethodKind: Debug + Send + Sync + 'static {
    /// The features of the documents that have a place in it.
    type Features: Send;
    /// Value stored at each root.
    type Proof: Proof + Durable + Debug + Send + Sync + 'static;
    /// Learned state: deterministic in the documents and their order.
    type Learned: Durable + Debug + Default + Send + Sync;
    /// Whether its questions have [`FeatureQuery::tokens`].
    const KEEPS_FOUNDER_TOKENS: bool = false;

    /// Whether it learns from documents that found trees.
    const LEARNS: bool = false;

    /// The features, if they are of this kind.
    fn features(features: &mut Features) -> Option<&mut Self::Features>;

    /// The fingerprints that will most likely be looked up, for prefetching.
    fn expected(_: &Self::Features, _each: impl FnMut(Fingerprint)) {}

    /// Builds the placement query, with the learned text of the forest and of the request.
    fn ask<R>(
        features: &mut Self::Features,
        learned: &mut Self::Learned,
        taught: &PendingSentences,
        ask: impl FnOnce(&FeatureQuery<'_, Self::Proof>) -> R,
    ) -> R;

    /// Features that the last query left out: fingerprints, and numbers of sentences.
    fn left_out(_: &Self::Features, _: &Self::Learned) -> ExcludedFeatures {
        ExcludedFeatures::default()
    }

    /// Whether the document may have founded a tree of this root, whatever was boilerplate then.
    fn may_have_named(_: &Self::Features, _root: Fingerprint) -> bool {
        false
    }

    /// The lesson of a document that founds a tree.
    fn lesson(_: &Self::Features) -> Lesson {
        Lesson::default()
    }

    /// The lesson of a document that joins a tree in doubt: sentences that are counted already, once more.
    fn lesson_in_doubt(_: &Self::Features, _: &Self::Learned, _: &PendingSentences) -> Lesson {
        Lesson::default()
    }

    /// For each sentence of its lesson, the number of the sentence in the document.
    fn lesson_sentences(_: &Self::Features) -> Vec<usize> {
        Vec::new()
    }

    /// Learns a lesson. Answers which of its sentences became boilerplate with it, by their places in it.
    fn learn(_: &mut Self::Learned, _: &Lesson) -> Vec<usize> {
        Vec::new()
    }

    /// A view of the learned text, for comparisons.
    fn view(_: &Self::Learned) -> LearnedView<'_> {
        LearnedView::default()
    }

    /// The number of boilerplate sentences.
    fn known(_: &Self::Learned) -> usize {
        0
    }

    /// All that was learned, in portions of some kilobytes.
    fn portions(_: &Self::Learned) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Merges a portion of another forest's learned state. Into an empty state all portions restore it exactly.
    fn add_portion(_: &mut Self::Learned, _portion: &[u8]) {}

    /// The stage that a fingerprint of the document belongs to.
    fn stage(_: &Self::Features, _: Fingerprint) -> Option<Stage> {
        None
    }
}

/// Features that a query leaves out as boilerplate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExcludedFeatures {
    /// Fingerprints that are not looked up.
    pub fingerprints: Vec<Fingerprint>,
    /// Its sentences, by their numbers in it.
    pub sentences: Vec<usize>,
}

/// The strict placement rules: one fingerprint per document and no proof.
#[derive(Debug)]
pub enum Strict {}

impl MethodKind for Strict {
    type Features = StrictFeatures;
    type Proof = ();
    type Learned = ();

    fn features(features: &mut Features) -> Option<&mut StrictFeatures> {
        match features {
            Features::Strict(strict) => Some(strict),
            _ => None,
        }
    }

    fn expected(strict: &StrictFeatures, each: impl FnMut(Fingerprint)) {
        strict.fingerprints.iter().copied().for_each(each);
    }

    fn ask<R>(
        strict: &mut StrictFeatures,
        (): &mut (),
        _: &PendingSentences,
        ask: impl FnOnce(&FeatureQuery<'_>) -> R,
    ) -> R {
        ask(&FeatureQuery {
            fingerprints: &strict.fingerprints,
            more: &[],
            whole: strict.whole,
            known_by: &[],
            proof: &(),
            tokens: &[],
            learned: LearnedView::default(),
            take: 1,
            known_by_whole: false,
            earlier: None,
        })
    }
}

/// The method `verified`.
#[derive(Debug)]
pub enum Verified {}

impl MethodKind for Verified {
    type Features = VerifiedFeatures;
    type Proof = Founder;
    type Learned = LearnedText;
    const KEEPS_FOUNDER_TOKENS: bool = true;
    const LEARNS: bool = true;

    fn features(features: &mut Features) -> Option<&mut VerifiedFeatures> {
        match features {
            Features::Verified(verified) => Some(verified),
            _ => None,
        }
    }

    fn expected(verified: &VerifiedFeatures, each: impl FnMut(Fingerprint)) {
        verified.hashes().map(Fingerprint).for_each(each);
    }

    fn ask<R>(
        verified: &mut VerifiedFeatures,
        learned: &mut LearnedText,
        taught: &PendingSentences,
        ask: impl FnOnce(&FeatureQuery<'_, Founder>) -> R,
    ) -> R {
        let offer = Offer::of(verified, &learned.boilerplate, taught, &mut learned.mask);
        let prepared = OnceCell::new();
        let view = LearnedView::new(&learned.boilerplate, &learned.words).with(taught).for_one(&prepared);
        ask(&offer.query(view))
    }

    fn left_out(verified: &VerifiedFeatures, learned: &LearnedText) -> ExcludedFeatures {
        ExcludedFeatures {
            fingerprints: verified.left_out(&learned.mask).collect(),
            sentences: learned.mask.excluded().collect(),
        }
    }

    fn may_have_named(verified: &VerifiedFeatures, root: Fingerprint) -> bool {
        verified.has_fingerprint(root)
    }

    fn lesson(verified: &VerifiedFeatures) -> Lesson {
        let shingles = verified.shingles();
        let sentences = Boilerplate::counted(shingles).into_iter().map(|(hash, _)| hash).collect();
        Lesson { founders: 1, sentences, words: WordCounts::counted(shingles.row(), shingles.whole) }
    }

    fn lesson_in_doubt(verified: &VerifiedFeatures, learned: &LearnedText, taught: &PendingSentences) -> Lesson {
        let view = Self::view(learned).with(taught);
        let counted = Boilerplate::counted(verified.shingles()).into_iter().map(|(hash, _)| hash);
        let known = counted.filter(|&hash| view.roots_of(SentenceKey::of(hash)) > 0);
        Lesson { founders: 0, sentences: known.collect(), words: Vec::new() }
    }

    fn lesson_sentences(verified: &VerifiedFeatures) -> Vec<usize> {
        Boilerplate::counted(verified.shingles()).into_iter().map(|(_, sentence)| sentence).collect()
    }

    fn known(learned: &LearnedText) -> usize {
        learned.boilerplate.known()
    }

    fn portions(learned: &LearnedText) -> Vec<Vec<u8>> {
        learned.portions()
    }

    fn add_portion(learned: &mut LearnedText, portion: &[u8]) {
        learned.add_portion(portion);
    }

    fn learn(learned: &mut LearnedText, lesson: &Lesson) -> Vec<usize> {
        learned.learn(lesson)
    }

    fn view(learned: &LearnedText) -> LearnedView<'_> {
        LearnedView::new(&learned.boilerplate, &learned.words)
    }
}

/// The method `staged`.
#[derive(Debug)]
pub enum Staged {}

impl MethodKind for Staged {
    type Features = StagedFeatures;
    type Proof = StagedProof;
    type Learned = ();

    fn features(features: &mut Features) -> Option<&mut StagedFeatures> {
        match features {
            Features::Staged(staged) => Some(staged),
            _ => None,
        }
    }

    fn expected(staged: &StagedFeatures, each: impl FnMut(Fingerprint)) {
        staged.prints().fingerprints.iter().copied().for_each(each);
    }

    fn ask<R>(
        staged: &mut StagedFeatures,
        (): &mut (),
        _: &PendingSentences,
        ask: impl FnOnce(&FeatureQuery<'_, StagedProof>) -> R,
    ) -> R {
        let prints = staged.prints();
        ask(&FeatureQuery {
            fingerprints: &prints.fingerprints,
            more: &[],
            whole: prints.whole,
            known_by: &[],
            proof: &StagedProof,
            tokens: &[],
            learned: LearnedView::default(),
            take: prints.fingerprints.len(),
            known_by_whole: false,
            earlier: None,
        })
    }

    fn stage(staged: &StagedFeatures, fingerprint: Fingerprint) -> Option<Stage> {
        staged.stage(fingerprint)
    }
}

/// The short texts of the method `short`.
#[derive(Debug)]
pub enum Short {}

impl MethodKind for Short {
    type Features = ShortFeatures;
    type Proof = ShortText;
    type Learned = ();

    fn features(features: &mut Features) -> Option<&mut ShortFeatures> {
        match features {
            Features::Short(short) => Some(short),
            _ => None,
        }
    }

    fn expected(short: &ShortFeatures, each: impl FnMut(Fingerprint)) {
        short.prints.fingerprints.iter().copied().for_each(each);
    }

    fn ask<R>(
        short: &mut ShortFeatures,
        (): &mut (),
        _: &PendingSentences,
        ask: impl FnOnce(&FeatureQuery<'_, ShortText>) -> R,
    ) -> R {
        ask(&FeatureQuery {
            fingerprints: &short.prints.fingerprints,
            more: &[],
            whole: short.prints.whole,
            known_by: &[],
            proof: &short.text,
            tokens: &[],
            learned: LearnedView::default(),
            take: TAKEN_SHORT,
            known_by_whole: false,
            earlier: None,
        })
    }
}
