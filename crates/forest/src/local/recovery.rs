//! Recovery of a forest from stored documents and their roots, in the order of their arrival.
//!
//! Stored roots are kept. A document joins the tree of its root, and founds it if it does not exist: at once if it has
//! the root among its fingerprints or as the hash of its text, otherwise after the others of its millisecond. The first
//! later document that has the root gives the proof. Other fingerprints become leaves, unless they have a node or are a
//! root of that millisecond. Documents without usable text stay outside.
//!
//! In a forest with content ([`RecoveryPass::of_the_rest`]) nothing changes: a document that it knows keeps its root,
//! whatever is stored with it, and no node moves to another tree. A catch-up ([`RecoveryPass::of_the_missed`]) is
//! more careful: a document whose root has no tree here, and which cannot have founded it by the forest's method, was
//! stamped by another forest and is left out.
//!
//! Documents of one moment are treated as of one request, which they mostly are: their lessons count once, and a
//! fingerprint that is the root of one of them is no leaf for the others.

use std::collections::HashSet;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{FeatureQuery, MethodKind, TallyEntry};

use super::ForestState;
use crate::candidates::{PriorClaim, StoredRoot};
use crate::document::ForestDocument;
use crate::placement::may_found;
use crate::port::{EarlierDocuments, ItemOutcome, Settlement};
use crate::recovery::RecoveryPass;
use crate::time::Millis;
use crate::{Decision, DocumentHash, Placement, Root, Ticket};

/// The result of one document.
enum RecoveredAs {
    Known,
    /// Others of its moment may found its tree.
    Later,
    /// None of them has, and it cannot have founded it itself.
    Foreign,
    RootAssignment {
        placement: Placement,
        /// It founds its tree.
        founds: bool,
        /// It is of the text that founded its tree, which has not taught yet.
        has_founded: bool,
        /// It is in another tree than its stored one.
        is_elsewhere: bool,
    },
}

/// The documents of one moment.
struct RecoveredMoment<'a> {
    /// The roots of all documents of the group, if there are several.
    roots: Option<&'a HashSet<Fingerprint>>,
    earlier: EarlierDocuments,
    settlements: Vec<Settlement>,
    /// The limit of the clock.
    latest: Option<Millis>,
}

impl<F: MethodKind> ForestState<F> {
    /// Takes in the documents of one moment.
    pub(crate) fn recover(&mut self, group: Vec<ForestDocument>, recovery: &mut RecoveryPass) {
        let roots = group.iter().filter_map(|document| document.given);
        let roots: HashSet<Fingerprint> = match group.len() {
            0 | 1 => HashSet::new(),
            _ => roots.map(|root| root.0).collect(),
        };
        let mut moment = RecoveredMoment {
            roots: Some(&roots).filter(|roots| !roots.is_empty()),
            earlier: EarlierDocuments::default(),
            settlements: Vec::with_capacity(group.len()),
            latest: match recovery.keeps_living {
                true => self.forest.all_live_until(),
                false => None,
            },
        };
        recovery.recovered.documents += group.len() as u64;
        let first = group.first();
        let mut later = first.map_or_else(Vec::new, |first| recovery.take_orphans(first.when));
        for document in group {
            later.extend(self.recover_one(document, &mut moment, recovery, false));
        }
        for document in later {
            self.recover_one(document, &mut moment, recovery, true);
        }
        self.settle(moment.settlements, self.forest.clock());
    }

    /// Recovers one document; returns it if others must be recovered first, unless it is `last`.
    fn recover_one(
        &mut self,
        mut document: ForestDocument,
        moment: &mut RecoveredMoment<'_>,
        recovery: &mut RecoveryPass,
        last: bool,
    ) -> Option<ForestDocument> {
        let at = self.time(document.when, &moment.earlier);
        let at = at.map(|at| moment.latest.map_or(at, |latest| at.min(latest)));
        let features = document.features.as_mut().and_then(F::features);
        let (Some(features), Some(root)) = (features, document.given) else {
            recovery.recovered.without_text += 1;
            return None;
        };
        let id = document.id;
        let placed = self.place_recovered(features, root, at, moment, recovery, last);
        if id != DocumentHash::UNKNOWN && self.forest.first(root) == DocumentHash::UNKNOWN {
            self.forest.set_first(root, id);
        }
        match placed {
            RecoveredAs::Known => recovery.recovered.known += 1,
            RecoveredAs::Later => return Some(document),
            RecoveredAs::Foreign => recovery.add_orphan(document),
            RecoveredAs::RootAssignment { placement, founds, has_founded, is_elsewhere } => {
                recovery.recovered.placed += 1;
                recovery.recovered.elsewhere += u64::from(is_elsewhere);
                let mut teaches = has_founded;
                if founds {
                    let lesson = F::lesson(features);
                    moment.earlier.add_lessons([&lesson]);
                    teaches = self.founded(placement.root, lesson);
                }
                let lesson = self.lesson_in_doubt(features, placement.is_doubtful, &moment.earlier.taught);
                moment.earlier.add_lessons(&lesson);
                let count = TallyEntry { title: document.title, sign: placement.sign };
                moment.earlier.tallies.add(placement.root.0, count);
                let ticket = Ticket {
                    root: placement.root,
                    rollback: placement.rollback,
                    count,
                    claimed: None,
                    teaches,
                    lesson,
                    others: Vec::new(),
                };
                moment.settlements.push(Settlement { ticket, outcome: ItemOutcome::Accepted });
            }
        }
        None
    }

    fn place_recovered(
        &mut self,
        features: &mut F::Features,
        root: Root,
        at: Option<Millis>,
        moment: &RecoveredMoment<'_>,
        recovery: &mut RecoveryPass,
        last: bool,
    ) -> RecoveredAs {
        let Self { forest, learned, pending, overrides, .. } = self;
        let now = at.unwrap_or(Millis(0));
        let earlier = &moment.earlier;
        let may_have_named = F::may_have_named(features, root.0);
        F::ask(features, learned, &earlier.taught, |query| {
            let query = &FeatureQuery { earlier: Some(&earlier.tallies), ..*query };
            let known = forest.known(query).filter(|_| recovery.passes_known);
            if let Some(tree) = known {
                // The stored root may be of another method, or older than this forest: what the forest has answered
                // stands. With an override of its group, it is stored with another root than that of its tree.
                let is_elsewhere = overrides.shown_root(query.whole, tree) != root;
                let may_teach = pending.has(tree) && may_found(query, tree);
                if is_elsewhere || !(forest.is_in_flight(query) || may_teach) {
                    recovery.recovered.elsewhere += u64::from(is_elsewhere);
                    return RecoveredAs::Known;
                }
            }
            let root = known.unwrap_or(root);
            let may_found = may_found(query, root);
            if !may_found && !forest.has_tree(root) {
                if !last {
                    return RecoveredAs::Later;
                }
                let is_named = may_have_named || overrides.is_pinned(query.whole);
                if recovery.leaves_out_foreign && !is_named {
                    return RecoveredAs::Foreign;
                }
            }
            // Only now: a document that changes nothing does not advance the clock.
            forest.advance(now);
            let known = known.filter(|&tree| forest.has_tree(tree));
            let has_tree = forest.has_tree(root);
            // Its outcome was unknown. It is stored, so it counts, and its nodes stay.
            let has_founded = known.is_some() && may_found && pending.again(root);
            if !has_tree && !may_found && !last {
                return RecoveredAs::Later;
            }
            let founds_again = has_tree && may_found && recovery.unproved.remove(&root.0);
            if founds_again {
                forest.found_again(root, query);
            }
            let claim = PriorClaim {
                root,
                stored: Some(StoredRoot {
                    is_proved: match has_tree {
                        true => !recovery.unproved.contains(&root.0),
                        false => may_found,
                    },
                    goes_before_leaves: !recovery.passes_known,
                }),
                reserved: moment.roots,
            };
            let placement = forest.place_stored(query, now, claim);
            let is_new = placement.decision == Decision::NewRoot;
            if is_new && placement.root == root && !may_found {
                recovery.unproved.insert(root.0);
            }
            RecoveredAs::RootAssignment {
                // The lessons of a document that cannot be the founder are unknown.
                founds: founds_again || (is_new && (may_found || placement.root != root)),
                has_founded,
                is_elsewhere: placement.root != root,
                placement,
            }
        })
    }
}
