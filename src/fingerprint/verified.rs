//! The method `verified`: several fingerprints a document, and a proof that keeps out what only looks similar
//! (`design.md`, section 2).
//!
//! ```text
//! fields --read--> Reading                  apart for every document, on any thread
//! Reading + Boilerplate --offer--> Offer    from here on one document after the other
//! Offer --forest--> root
//! Boilerplate <--learn-- Reading            if the document founded a tree
//! ```
//!
//! The fingerprints are the smallest hashes of shingles (Broder's min-wise sampling in its bottom-k form): two texts
//! that share most of their shingles share most of the smallest. A document offers eight and takes a few: those it has
//! in common with the tree it joins first, then the smallest that are new. So a reprint mostly finds its fingerprints
//! there already and adds few nodes, and a phrase that many documents share is never the only one by which a document
//! can be found.

use super::Fingerprint;
use super::proof::Proof;
use crate::text::boilerplate::{Boilerplate, Kept};
use crate::text::shingles::Shingles;
use crate::text::{Fields, Scratch};

/// Fingerprints that are looked up for a document.
pub const OFFERED: usize = 8;
/// Fingerprints of a document that have a node. The hash of the whole text is one more, by which a document that comes
/// again is known at once.
pub const TAKEN: usize = 3;

/// A body of fewer shingles says too little by itself: its title is read as its first sentence.
const TITLED: usize = 24;

/// What is known of a document by itself. Its buffers are reused by the next `read`.
#[derive(Debug, Clone)]
pub struct Reading {
    shingles: Shingles,
    proof: Proof,
}

impl Default for Reading {
    fn default() -> Reading {
        Reading::new()
    }
}

impl Reading {
    pub fn new() -> Reading {
        let mut shingles = Shingles::new();
        let proof = Proof::of(&mut shingles, &Kept::default());
        Reading { shingles, proof }
    }

    /// Reads a document; false if it has no letter or digit, and so neither fingerprint nor proof.
    pub fn read(&mut self, scratch: &mut Scratch, fields: &Fields<'_>) -> bool {
        let Some(text) = scratch.read(fields) else {
            return false;
        };
        self.shingles.read(&text);
        if self.shingles.len() < TITLED
            && let Some(title) = fields.title
        {
            let parts: Vec<&str> = std::iter::once(title)
                .chain(fields.body.iter().copied())
                .collect();
            let titled = Fields {
                title: None,
                body: &parts,
            };
            if let Some(text) = scratch.read(&titled) {
                self.shingles.read(&text);
            }
        }
        self.proof = Proof::of(&mut self.shingles, &Kept::default());
        true
    }

    /// The sentences of a document in the order in which its shingles have them.
    pub fn sentences(&mut self, scratch: &mut Scratch, fields: &Fields<'_>) -> Vec<String> {
        if !self.read(scratch, fields) {
            return Vec::new();
        }
        scratch.text().sentences().map(str::to_owned).collect()
    }

    pub fn shingles(&self) -> &Shingles {
        &self.shingles
    }

    /// What the document says of itself, whatever the forest has learned: the hash of the whole text, then as many of
    /// the smallest fingerprints as have nodes.
    pub fn hashes(&self) -> impl Iterator<Item = u64> {
        let prints = self.shingles.prints.iter().map(|print| print.hash);
        std::iter::once(self.shingles.whole).chain(prints.take(TAKEN))
    }

    /// The fingerprints that an [`Offer`] would have, were their sentences not left out as boilerplate: what unrelated
    /// texts share.
    pub fn left_out<'a>(&'a self, kept: &'a Kept) -> impl Iterator<Item = Fingerprint> + 'a {
        let smallest = self.shingles.prints.iter().take(OFFERED);
        let out = smallest.filter(|print| !kept.keeps(print.sentence));
        out.map(|print| Fingerprint(print.hash))
    }

    /// The proof of the whole text, boilerplate included.
    pub fn proof(&self) -> &Proof {
        &self.proof
    }
}

/// What a document brings to the forest.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    offered: [Fingerprint; OFFERED],
    len: usize,
    whole: Fingerprint,
    proof: Proof,
    left_out: usize,
}

impl Offer {
    /// The offer of a document as far as it is not boilerplate. `kept` is a buffer.
    pub fn of(reading: &mut Reading, boilerplate: &Boilerplate, kept: &mut Kept) -> Offer {
        boilerplate.find(&reading.shingles, kept);
        let proof = if kept.left_out() == 0 {
            reading.proof
        } else {
            Proof::of(&mut reading.shingles, kept)
        };
        let mut offer = Offer {
            offered: [Fingerprint(0); OFFERED],
            len: 0,
            whole: Fingerprint(reading.shingles.whole),
            proof,
            left_out: kept.left_out(),
        };
        let prints = reading
            .shingles
            .prints
            .iter()
            .filter(|print| kept.keeps(print.sentence));
        for (slot, print) in offer.offered.iter_mut().zip(prints) {
            *slot = Fingerprint(print.hash);
            offer.len += 1;
        }
        offer
    }

    /// The fingerprints to look up, smallest first. The roots of the nodes near them are the candidates.
    pub fn fingerprints(&self) -> &[Fingerprint] {
        self.offered.get(..self.len).unwrap_or_default()
    }

    /// A hash of the whole text: looked up if no candidate stays, and the root if none of the fingerprints can be one.
    pub fn whole(&self) -> Fingerprint {
        self.whole
    }

    pub fn proof(&self) -> &Proof {
        &self.proof
    }

    /// Sentences that were left out as boilerplate.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

#[cfg(test)]
#[path = "verified_tests.rs"]
mod tests;
