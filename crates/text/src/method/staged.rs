//! The method `staged`: looks up URL, title and content one after the other; the first that finds a tree decides.
//!
//! The three kinds of fingerprint share one forest, each XORed with a constant of its own. That keeps distances
//! within a kind and makes kinds near each other only by chance. A document that joins by one stage adds its
//! fingerprints of the other stages to the tree, so a third copy is found by any of them. (The article does that for
//! new documents only.)

use std::fmt;

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::strict::{StrictFeatures, Weights, of_words};
use crate::fingerprint::Fingerprint;
use crate::text::{Fields, Scratch};

/// Source of a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The exact hash of the address.
    Url,
    /// Simhash of the title's words.
    Title,
    /// Simhash of all words of the text.
    Content,
}

/// The stages that a document has, in their order, and their fingerprints.
#[derive(Debug, Clone)]
pub struct StagedFeatures {
    stages: Vec<Stage>,
    prints: StrictFeatures,
}

/// The proof of `staged`, which looks fingerprints up one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedProof;

impl super::Proof for StagedProof {
    const IN_TURN: bool = true;
    type Thresholds = ();

    fn agrees(&self, _: &StagedProof, _: usize, (): ()) -> Result<(), super::Refusal> {
        Ok(())
    }
}

impl Stage {
    /// Constant of the stage's fingerprints: any two differ in 32 bits.
    fn salt(self) -> u64 {
        match self {
            Stage::Url => 0,
            Stage::Title => 0x5555_5555_5555_5555,
            Stage::Content => 0x3333_3333_3333_3333,
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Url => "url",
            Stage::Title => "title",
            Stage::Content => "content",
        })
    }
}

impl StagedFeatures {
    /// `None` if the document has neither address nor title nor content. White space around an address does not count.
    pub(super) fn read(fields: &Fields<'_>, url: Option<&str>, scratch: &mut Scratch) -> Option<StagedFeatures> {
        let mut stages = Vec::with_capacity(3);
        let mut fingerprints = Vec::with_capacity(3);
        let mut whole = Xxh3Default::new();
        let mut add = |stage: Stage, hash: u64, text: &str| {
            stages.push(stage);
            fingerprints.push(Fingerprint(hash ^ stage.salt()));
            whole.update(text.as_bytes());
            whole.update(&stage.salt().to_le_bytes());
        };
        if let Some(url) = url.map(str::trim).filter(|url| !url.is_empty()) {
            add(Stage::Url, xxh3_64(url.as_bytes()), url);
        }
        let title = Fields { title: fields.title, body: &[] };
        let content = Fields { title: None, body: fields.body };
        for (stage, part) in [(Stage::Title, title), (Stage::Content, content)] {
            if let Some(text) = scratch.read(&part) {
                let hash = of_words(text.sentences(), Weights::Levels);
                add(stage, hash.0, text.cleaned());
            }
        }
        let prints = StrictFeatures { fingerprints, whole: Fingerprint(whole.digest()) };
        (!stages.is_empty()).then_some(StagedFeatures { stages, prints })
    }

    /// Bytes of memory held, besides the value itself.
    pub(super) fn heap_bytes(&self) -> usize {
        self.stages.capacity() * size_of::<Stage>() + self.prints.heap_bytes()
    }

    /// The fingerprints in the order of their stages, and the hash of all that they were made of.
    pub fn prints(&self) -> &StrictFeatures {
        &self.prints
    }

    /// The stage that a fingerprint of the document belongs to.
    pub fn stage(&self, fingerprint: Fingerprint) -> Option<Stage> {
        let at = self.prints.fingerprints.iter().position(|&own| own == fingerprint)?;
        self.stages.get(at).copied()
    }
}
