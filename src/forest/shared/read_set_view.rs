//! What one document sees of a picture, as the placement rules ask for it.

use std::cell::Cell;

use super::read_set::ReadSet;
use crate::fingerprint::Fingerprint;
use crate::forest::candidates::{
    CandidateTree, Candidates, FingerprintMatches, InlineVec, PriorAssignment, PriorClaim, RootSlot, TreeIndex,
};
use crate::forest::placement::{self, PlacementPlan, PlacementQuestion, RuleStep};
use crate::forest::{Decision, Root};
use crate::method::{Differences, Durable, PlacementQuery, Proof, Refusal};
use crate::time::Millis;

/// One look at a picture.
pub(super) struct ReadSetView<'p, 'r, 'q, P: Proof> {
    picture: &'p ReadSet<'r, P>,
    pub(super) query: &'q PlacementQuery<'q, P>,
    now: Millis,
    pub(super) seen: Candidates<'p, P>,
}

impl<'p, 'r, 'q, P: Proof + Durable> ReadSetView<'p, 'r, 'q, P> {
    pub(super) fn of(
        picture: &'p ReadSet<'r, P>,
        query: &'q PlacementQuery<'q, P>,
        now: Millis,
    ) -> ReadSetView<'p, 'r, 'q, P> {
        let mut glance = ReadSetView { picture, query, now, seen: Candidates::new() };
        glance.seen.whole = glance.own_node(query.whole);
        for &fingerprint in query.fingerprints {
            let own = glance.own_node(fingerprint);
            let from = glance.seen.near.len();
            for near in picture.near(fingerprint) {
                let tree = glance.tree(near.root);
                let known = glance.seen.near.get(from..).unwrap_or_default();
                if !known.contains(&tree) {
                    glance.seen.near.push(tree);
                }
            }
            let near = Some(from..glance.seen.near.len());
            glance.seen.fingerprints.push(FingerprintMatches { own, near });
        }
        for &fingerprint in query.known_by {
            let tree = glance.tree_founded_by(fingerprint);
            glance.seen.known_by.push(tree);
        }
        glance
    }

    /// Looks at the root that the document was given.
    pub(super) fn give(&mut self, claim: Option<PriorClaim<'_>>) {
        let Some(PriorClaim { root, stored, reserved }) = claim else {
            return;
        };
        self.seen.given = Some(PriorAssignment {
            root,
            tree: self.tree_founded_by(root.0),
            is_free: self.own_node(root.0).is_none() && !self.has_root_within_k(root.0),
            stored,
        });
        if let Some(reserved) = reserved {
            let others = self.query.fingerprints.iter().filter(|&&own| own != root.0);
            let reserved: InlineVec<Fingerprint> = others.filter(|own| reserved.contains(own)).copied().collect();
            self.seen.reserved = reserved.into_vec();
        }
    }

    pub(super) fn decide(&mut self) -> PlacementPlan {
        loop {
            match placement::decide(self.query, &self.seen, self.picture.thresholds) {
                RuleStep::Ask(PlacementQuestion::Hash(hash)) => {
                    let own = self.own_node(hash);
                    let has_root_within_k = self.has_root_within_k(hash);
                    self.seen.hashes.push(RootSlot { own, has_root_within_k });
                }
                // All of this was shown from the start.
                RuleStep::Ask(PlacementQuestion::Near(_) | PlacementQuestion::Children(_)) => {
                    return PlacementPlan {
                        root: Root(self.query.whole),
                        decision: Decision::Outside,
                        by: None,
                        refused: Vec::new(),
                        others: Vec::new(),
                        founded: None,
                        is_founder: false,
                        by_text: false,
                        is_lost: false,
                    };
                }
                RuleStep::Decided(outcome) => return outcome,
            }
        }
    }

    /// The trees that are not confirmed and on which the decision hangs.
    pub(super) fn waits(&self, outcome: &PlacementPlan) -> Vec<Root> {
        if self.picture.is_provisional(outcome.root) {
            return vec![outcome.root];
        }
        if outcome.decision != Decision::NewRoot {
            return Vec::new();
        }
        let refused = outcome.refused.iter();
        let agree = refused.filter(|&&(root, why)| why == Refusal::Full && self.picture.is_provisional(root));
        agree.map(|&(root, _)| root).collect()
    }

    fn has_root_within_k(&self, fingerprint: Fingerprint) -> bool {
        let mut near = self.picture.near(fingerprint).into_iter();
        near.any(|near| near.root.0 == near.fingerprint)
    }

    fn own_node(&mut self, fingerprint: Fingerprint) -> Option<TreeIndex> {
        let root = self.picture.tree_of(fingerprint)?;
        Some(self.tree(root))
    }

    /// The tree of which a fingerprint is the root.
    fn tree_founded_by(&mut self, fingerprint: Fingerprint) -> Option<TreeIndex> {
        let root = self.picture.tree_of(fingerprint)?;
        (root.0 == fingerprint).then(|| self.tree(root))
    }

    fn tree(&mut self, root: Root) -> TreeIndex {
        if let Some(known) = self.seen.trees.iter().position(|tree| tree.root == root) {
            return known;
        }
        let picture = self.picture;
        let kept = picture.read.root(root.0);
        let own = picture.plans.trees.get(&root);
        let added = own.map(|own| own.added).or_else(|| kept.map(|kept| kept.added));
        self.seen.trees.push(CandidateTree {
            root,
            added: added.unwrap_or(Millis(0)),
            children: Some(picture.children(root, self.now)),
            proof: picture.proof(root),
            evidence: match self.query.evidence {
                [] => None,
                _ => picture.evidence(root),
            },
            said: Cell::default(),
            laid: Cell::<Option<Differences>>::default(),
            closed: picture.closed(root, self.query.earlier),
        });
        self.seen.trees.len() - 1
    }
}
