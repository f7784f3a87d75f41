//! The method `verified`: several fingerprints per document, and a proof that rejects texts that only look similar
//! (docs/internals/decision.md).
//!
//! ```text
//! fields --read--> VerifiedFeatures                  apart for every document, on any thread
//! VerifiedFeatures + Boilerplate --offer--> Offer    from here on one document after the other
//! Offer --forest--> root
//! Boilerplate <--learn-- VerifiedFeatures            if the document founded a tree
//! ```
//!
//! The fingerprints are the smallest hashes of shingles (Broder's min-wise sampling in its bottom-k form): two texts
//! that share most of their shingles share most of the smallest. A document offers eight and takes a few: those it has
//! in common with the tree it joins first, then the smallest that are new. So a reprint mostly finds its fingerprints
//! there already and adds few nodes, and a phrase that many documents share is never the only one by which a document
//! can be found.

use std::cell::Cell;

use super::Similarity;
use super::aligned_tokens::{LearnedView, TokensHead, own_line};
use super::alignment_check;
use super::differences::{Differences, are_titles_unlike};
use super::proof::TextProof;
use super::title::TitleSketch;
use crate::fingerprint::Fingerprint;
use crate::hash::mix64;
use crate::text::boilerplate::{Boilerplate, BoilerplateMask, PendingSentences, Titled};
use crate::text::shingles::{MIN_HASHES, MinHash, Shingles};
use crate::text::tokens::Alphabet;
use crate::text::{Fields, Scratch};

/// Fingerprints that are looked up first for a document.
const OFFERED: usize = 8;
/// Fingerprints of a document that have a node. For one that joins a tree the hash of its whole text is one more, by
/// which it is known when it comes again; the founder of a tree is known by its root.
const TAKEN: usize = 4;

/// Least shingles of a body; the title is read as the first sentence of a shorter one.
const TITLED: usize = 24;
/// Longest body in letters that may be page chrome if it has nothing of its title: then the same text under another
/// title is another document, and if it is all boilerplate the title is the text.
const PAGE: u32 = 1_500;

/// Features of a document, independent of any forest. Its buffers are reused by the next `read`.
#[derive(Debug, Clone)]
pub struct VerifiedFeatures {
    shingles: Shingles,
    title: TitleSketch,
    proof: TextProof,
    /// Those of the title by itself.
    heading: Shingles,
    /// Whether the body is short and has nothing of the title.
    is_page: bool,
    /// The letters of the title, if the shingles are those of title and body.
    title_within: Option<u32>,
    /// Whether the title was put before a short body that does not begin with it.
    is_put_before: bool,
    alphabet: Alphabet,
    /// Buffer of founder tokens.
    tokens: Vec<u16>,
}

/// Texts of a smaller estimated similarity are not aligned, unless they have several fingerprints in common: of
/// labelled pairs that are one text, 1 in 100 was below, and of short ones none. Under unlike titles a short text as
/// well must have more in common.
const UNLIKE: f32 = 0.3;
const UNLIKE_SHORT: f32 = 0.15;
const SEVERAL: usize = 3;
/// A text with less than one part in this number outside boilerplate is looked up by its boilerplate as well: a story
/// that several digests contained is found by nothing else.
const MOSTLY: u64 = 4;

/// Most words of a title that are kept.
const TITLE: usize = 64;

/// Letters besides the title that are ignored.
const REST: u64 = 8;

fn of_title<'a>(fields: &'a Fields<'_>) -> Fields<'a> {
    Fields { title: None, body: fields.title.as_slice() }
}

impl Default for VerifiedFeatures {
    fn default() -> VerifiedFeatures {
        VerifiedFeatures::new()
    }
}

impl VerifiedFeatures {
    /// No document yet: [`VerifiedFeatures::read`] fills the buffers.
    pub fn new() -> VerifiedFeatures {
        let mut shingles = Shingles::new();
        let title = TitleSketch::default();
        VerifiedFeatures {
            proof: TextProof::of(&mut shingles, title, &BoilerplateMask::default()),
            shingles,
            title,
            heading: Shingles::new(),
            is_page: false,
            title_within: None,
            is_put_before: false,
            alphabet: Alphabet::default(),
            tokens: Vec::new(),
        }
    }

    /// Reads a document; false if it has no letter or digit, and so neither fingerprint nor proof.
    pub fn read(&mut self, scratch: &mut Scratch, fields: &Fields<'_>) -> bool {
        let letters = self.read_title(scratch, fields);
        self.is_page = false;
        self.title_within = None;
        self.is_put_before = false;
        let Some(text) = scratch.read(fields) else {
            return false;
        };
        self.alphabet = Alphabet::of(text.cleaned());
        self.shingles.read(&text);
        if self.shingles.len() < TITLED && own_line(self.heading.row(), self.shingles.row()) > 0 {
            // A first line used as title is no title: it would stand there twice.
            self.title_within = letters;
        } else if self.shingles.len() < TITLED
            && let Some(title) = fields.title
        {
            let parts: Vec<&str> = std::iter::once(title).chain(fields.body.iter().copied()).collect();
            let titled = Fields { title: None, body: &parts };
            if let Some(text) = scratch.read(&titled) {
                self.shingles.read(&text);
                self.title_within = letters;
                self.is_put_before = true;
            }
        } else if letters.is_some() && self.is_short() && !scratch.has_its_headline() {
            self.title = self.title.foreign();
            self.is_page = true;
            self.shingles.whole = mix64(self.shingles.whole ^ self.heading.whole);
        }
        self.proof = TextProof::of(&mut self.shingles, self.title, &BoilerplateMask::default());
        true
    }

    /// Reads the title before the body replaces it in the buffers; returns its number of letters.
    fn read_title(&mut self, scratch: &mut Scratch, fields: &Fields<'_>) -> Option<u32> {
        self.title = TitleSketch::default();
        self.heading.clear(0);
        let text = scratch.read(&of_title(fields))?;
        self.heading.read(&text);
        self.heading.shorten_row(TITLE);
        scratch.keep_as_headline();
        self.title = TitleSketch::of(&self.heading);
        Some(self.heading.letters())
    }

    /// Whether the body may be page chrome.
    fn is_short(&self) -> bool {
        self.shingles.letters() <= PAGE && self.shingles.rest().is_none()
    }

    /// The sentences of a document in the order in which its shingles have them.
    pub fn sentences(&mut self, scratch: &mut Scratch, fields: &Fields<'_>) -> Vec<String> {
        if !self.read(scratch, fields) {
            return Vec::new();
        }
        scratch.text().sentences().map(str::to_owned).collect()
    }

    /// The shingles of the body, of a short one with its title.
    pub fn shingles(&self) -> &Shingles {
        &self.shingles
    }

    /// Hashes of the document that do not depend on boilerplate: of the whole text, then the smallest fingerprints.
    pub fn hashes(&self) -> impl Iterator<Item = u64> {
        let hashes = self.shingles.min_hashes.iter().map(|min_hash| min_hash.hash);
        std::iter::once(self.shingles.whole).chain(hashes.take(TAKEN))
    }

    /// Fingerprints that an [`Offer`] would have if its sentences were not excluded as boilerplate: content that
    /// unrelated texts share.
    pub fn left_out<'a>(&'a self, mask: &'a BoilerplateMask) -> impl Iterator<Item = Fingerprint> + 'a {
        let smallest = self.shingles.min_hashes.iter().take(OFFERED);
        let out = smallest.filter(|min_hash| !mask.keeps(min_hash.sentence));
        out.map(|min_hash| Fingerprint(min_hash.hash))
    }

    /// Whether an [`Offer`] may have this fingerprint, whatever is boilerplate.
    pub(super) fn has_fingerprint(&self, fingerprint: Fingerprint) -> bool {
        let hashes = self.shingles.min_hashes.iter();
        let mut hashes = hashes.chain(&self.heading.min_hashes);
        hashes.any(|min_hash| min_hash.hash == fingerprint.0)
    }

    /// Bytes of memory held, besides the value itself.
    pub fn heap_bytes(&self) -> usize {
        let tokens = self.tokens.capacity() * size_of::<u16>();
        self.shingles.heap_bytes() + self.heading.heap_bytes() + tokens
    }

    /// The proof of the whole text, boilerplate included.
    pub fn proof(&self) -> &TextProof {
        &self.proof
    }
}

/// Founder data at a root: its proof, and the hash of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(Rust, packed(2))]
pub struct Founder {
    whole: Fingerprint,
    proof: TextProof,
}

impl Founder {
    pub(super) fn new(whole: Fingerprint, proof: TextProof) -> Founder {
        Founder { whole, proof }
    }

    /// As this founder, with the hash of another text.
    pub fn of_text(self, whole: Fingerprint) -> Founder {
        Founder { whole, ..self }
    }

    /// The hash of its text.
    pub(super) fn whole(&self) -> Fingerprint {
        self.whole
    }

    /// Proof that near documents are compared with.
    pub fn proof(&self) -> &TextProof {
        &self.proof
    }
}

impl super::Proof for Founder {
    const TELLS_OF_ROOTS: bool = true;
    type Thresholds = Similarity;

    fn is_of_text(&self, whole: Fingerprint) -> bool {
        self.whole() == whole
    }

    fn agrees(&self, root: &Founder, shared: usize, long: Similarity) -> Result<(), super::Refusal> {
        let similarity = self.proof.agrees(&root.proof, shared, long)?;
        self.is_more_than_a_few_phrases(root, similarity)
    }

    fn agrees_by(
        &self,
        (tokens, learned): (&[u16], LearnedView<'_>),
        (root, founders): (&Founder, &[u16]),
        shared: usize,
        long: Similarity,
        laid: &Cell<Option<Differences>>,
    ) -> Result<(), super::Refusal> {
        let both = alignment_check::read(tokens).zip(alignment_check::read(founders));
        let Some((own, founders)) = both.filter(|_| self.whole() != root.whole()) else {
            return self.agrees(root, shared, long);
        };
        // Of a text that is only a headline the words are few, and half of them common to many.
        if self.proof.is_title_only() || root.proof.is_title_only() {
            return self.agrees(root, shared, long);
        }
        let similarity = self.proof.similarity(&root.proof);
        self.is_more_than_a_few_phrases(root, similarity)?;
        self.proof.check_titles(&root.proof)?;
        let is_sure = self.proof.are_long(&root.proof) || are_titles_unlike(founders, own);
        let needed = if is_sure { UNLIKE } else { UNLIKE_SHORT };
        if similarity < needed && shared < SEVERAL {
            return Err(super::Refusal::Proof { similarity, needed });
        }
        let differences = laid.get().unwrap_or_else(|| Differences::of(founders, own, learned));
        laid.set(Some(differences));
        differences.judge(long)
    }

    fn foreign_titles(&self, root: &Founder) -> usize {
        self.proof.foreign_titles(&root.proof)
    }

    fn measure(&self, root: &Founder, shared: usize, long: Similarity, laid: Option<Differences>) -> super::Measure {
        let (own, root) = (&self.proof, &root.proof);
        let similarity = own.similarity(root);
        if let Some(differences) = laid {
            return super::Measure::Alignment { similarity, differences };
        }
        let numbers = own.compare_numbers(root);
        super::Measure::Proof {
            similarity,
            needed: own.needed(root, shared, long),
            titles: own.compare_titles(root),
            same: numbers.same,
            different: numbers.different,
        }
    }
}

impl Founder {
    /// Estimates of two or three phrases are meaningless.
    fn is_more_than_a_few_phrases(&self, root: &Founder, similarity: f32) -> Result<(), super::Refusal> {
        if self.whole() != root.whole() && self.proof.needs_equal_text(&root.proof) {
            let needed = 1.0;
            return Err(super::Refusal::Proof { similarity, needed });
        }
        Ok(())
    }
}

/// The first `N` fingerprints of a document, fewer if it has no more.
#[derive(Debug, Clone, Copy)]
struct First<const N: usize> {
    fingerprints: [Fingerprint; N],
    len: usize,
}

impl<const N: usize> First<N> {
    fn of(hashes: impl Iterator<Item = u64>) -> First<N> {
        let mut first = First { fingerprints: [Fingerprint(0); N], len: 0 };
        for (slot, hash) in first.fingerprints.iter_mut().zip(hashes) {
            *slot = Fingerprint(hash);
            first.len += 1;
        }
        first
    }

    fn as_slice(&self) -> &[Fingerprint] {
        self.fingerprints.get(..self.len).unwrap_or_default()
    }
}

/// A document's offer to the forest.
#[derive(Debug, Clone)]
pub struct Offer {
    /// Fingerprints to look up, smallest first: [`OFFERED`] of them, then the others if the alignment check refuses the
    /// candidates. The roots of near nodes are the candidates.
    offered: First<MIN_HASHES>,
    /// The smallest fingerprints, boilerplate included, of a short page also those of its title.
    own: First<{ 2 * OFFERED }>,
    founder: Founder,
    /// Tokens for the alignment check.
    tokens: Vec<u16>,
    /// The body is short and has nothing of the title: the two together are the text.
    is_page: bool,
}

impl Offer {
    /// The fingerprints of a document's text outside boilerplate. `mask` is a buffer.
    pub fn of(
        features: &mut VerifiedFeatures,
        boilerplate: &Boilerplate,
        taught: &PendingSentences,
        mask: &mut BoilerplateMask,
    ) -> Offer {
        let is_page = features.is_page;
        let titled = match features.title_within {
            _ if is_page => Titled::Beside,
            Some(_) => Titled::Within,
            None => Titled::No,
        };
        boilerplate.find(&features.shingles, taught, titled, mask);
        let is_bare = is_page && mask.is_all();
        let proof = if is_bare {
            let title = features.title.title_only();
            TextProof::of(&mut features.heading, title, &BoilerplateMask::default())
        } else if mask.excluded_count() == 0 {
            features.proof
        } else {
            let proof = TextProof::of(&mut features.shingles, features.title, mask);
            // All else is boilerplate, and the title is no line of the text itself.
            let within = features.title_within.filter(|_| features.is_put_before).map(u64::from);
            match within.is_some_and(|title| mask.left() <= title + REST) {
                true => proof.of_title_only(),
                false => proof,
            }
        };
        let mut tokens = std::mem::take(&mut features.tokens);
        let title = features.heading.row();
        let head = TokensHead { alphabet: features.alphabet, is_title_put_before: features.is_put_before };
        match is_bare {
            true => alignment_check::write(head, title, std::iter::empty(), title, &mut tokens),
            false => {
                let shingles = &features.shingles;
                alignment_check::write(head, title, shingles.row_of_sentences(), shingles.row(), &mut tokens);
            }
        }
        let min_hashes = features.shingles.min_hashes.iter();
        let smallest = min_hashes.clone().take(OFFERED).map(|min_hash| min_hash.hash);
        let hash = |min_hash: &MinHash| min_hash.hash;
        let of_title = features.heading.min_hashes.iter().map(hash);
        let of_title = of_title.take(if is_page { OFFERED } else { 0 });
        let own = First::of(smallest.clone().chain(of_title.clone()));
        let offered = if is_bare {
            First::of(of_title)
        } else {
            let mask = &*mask;
            let of = |kept: bool| min_hashes.clone().filter(move |min_hash| mask.keeps(min_hash.sentence) == kept);
            let is_mostly = MOSTLY * mask.left() < u64::from(features.shingles.letters());
            First::of(of(true).chain(of(false).filter(|_| is_mostly)).map(hash))
        };
        Offer { offered, own, founder: Founder { whole: Fingerprint(features.shingles.whole), proof }, tokens, is_page }
    }

    /// The placement query.
    pub fn query<'a>(&'a self, learned: LearnedView<'a>) -> super::FeatureQuery<'a, Founder> {
        let offered = self.offered.as_slice();
        super::FeatureQuery {
            fingerprints: offered.get(..OFFERED).unwrap_or(offered),
            more: offered.get(OFFERED..).map_or(&[], |_| offered),
            whole: self.founder.whole,
            known_by: self.own.as_slice(),
            proof: &self.founder,
            tokens: &self.tokens,
            learned,
            take: TAKEN,
            known_by_whole: self.is_page,
            earlier: None,
        }
    }

    /// The proof of the text without its boilerplate.
    pub fn proof(&self) -> &TextProof {
        &self.founder.proof
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_no_features() {
        let fields = Fields { title: Some("..."), body: &["<p></p>"] };
        assert!(!VerifiedFeatures::new().read(&mut Scratch::new(), &fields));
    }

    #[test]
    fn memory_is_counted_in_bytes() {
        let mut features = VerifiedFeatures::new();
        let before = features.heap_bytes();
        features.tokens.reserve_exact(1_000);
        assert_eq!(features.heap_bytes(), before + 2_000);
    }
}
