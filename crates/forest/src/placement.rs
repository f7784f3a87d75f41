//! The placement rules as one pure function.
//!
//! A query and what was read of the forest go in, a decision comes out, and the decision becomes changes. The rules
//! do not know where nodes are stored; the forest reads what they ask for and applies the changes.
//!
//! ```text
//!   query + Candidates --decide--> RuleStep::Ask(question) --the forest reads more--+
//!                       ^-----------------------------------------------------------+
//!                       |
//!                       +--------> RuleStep::Decided(plan) --changes--> changes, in their order
//! ```
//!
//! A forest may read more than it was asked for; the decision is the same.

use std::cmp::Reverse;
use std::ops::Range;

use smallvec::smallvec;
use spinney_text::fingerprint::Fingerprint;
use spinney_text::hash::splitmix64;
use spinney_text::method::{FeatureQuery, OwnTokens, Proof, Refusal};

use super::candidates::{CandidateTree, Candidates, FingerprintMatches, InlineVec, PriorAssignment, TreeIndex};
use super::change::Change;
use super::{Decision, Root};
use crate::time::Millis;

/// Most hashes of the text that are tried as a root. One is enough but for a wide k, where the balls around the roots
/// can fill the whole space.
pub(super) const ROOT_TRIES: usize = 64;

/// One step of the rules: a decision, or a read that they need.
#[derive(Debug)]
pub(super) enum RuleStep {
    /// Another read is needed first.
    Ask(ReadRequest),
    Decided(RuleOutcome),
}

/// What the rules need to read before they can decide.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadRequest {
    /// The trees near these fingerprints of the query.
    Near(Range<usize>),
    /// The numbers of children of these trees.
    Children(Vec<TreeIndex>),
    /// The next place for a root.
    Hash(Fingerprint),
}

/// The decision about a document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RuleOutcome {
    /// The tree it belongs to.
    pub(super) root: Root,
    pub(super) decision: Decision,
    /// The fingerprint that found the tree, for methods that look them up one after the other.
    pub(super) by: Option<Fingerprint>,
    /// The near trees whose proof does not agree, and why.
    pub(super) refused: Vec<(Root, Refusal)>,
    /// The other candidates that accept the document.
    pub(super) others: Vec<Root>,
    /// When the root was added, if the tree was there before.
    pub(super) founded: Option<Millis>,
    /// Whether it was this text that founded the tree.
    pub(super) is_founder: bool,
    /// Whether only the hash of its text will identify the document again.
    pub(super) by_text: bool,
    /// Whether all of its fingerprints are to be looked up: no candidate accepts the document, and its first
    /// fingerprints are those of a form or phrase that many texts share.
    pub(super) needs_all_fingerprints: bool,
    /// Whether it joins a tree in doubt: much of its text replaces other text.
    pub(super) is_doubtful: bool,
}

impl RuleOutcome {
    /// When the text first arrived: `now` for a new one, `None` for a known one that did not found the tree.
    pub(super) fn arrived(&self, now: Millis) -> Option<Millis> {
        match self.decision {
            Decision::Refreshed => self.founded.filter(|_| self.is_founder),
            _ => Some(now),
        }
    }
}

/// What the rules have read of a forest for one document; it grows by their requests.
pub(super) trait RuleView<P: Proof> {
    /// One step of the rules over the view.
    fn step(&self) -> RuleStep;

    /// Reads what is requested into the view.
    fn answer(&mut self, question: ReadRequest);

    /// Runs the rules until they decide.
    fn decide(&mut self) -> RuleOutcome {
        loop {
            match self.step() {
                RuleStep::Ask(question) => self.answer(question),
                RuleStep::Decided(plan) => return plan,
            }
        }
    }
}

/// Fingerprints that two texts of one form have in common: a phrase that many have is one.
const FORM: usize = 2;

/// Most other trees that a document reports as possible late merges.
const MOST_OTHERS: usize = 4;

/// Decides where a document belongs, or which further read is needed.
///
/// A document whose nodes exist belongs to their tree. Otherwise to the best near tree whose proof agrees (most
/// children, then earliest added, then smaller fingerprint). Otherwise its first fingerprint without a near node
/// founds a tree; if none is free, the hash of its text does.
pub(super) fn decide<P: Proof>(
    query: &FeatureQuery<'_, P>,
    seen: &Candidates<'_, P>,
    thresholds: P::Thresholds,
) -> RuleStep {
    PlacementRules { query, seen, thresholds }.decide()
}

/// Whether each tree near the query takes the document: the tree, how many of the document's fingerprints are near it,
/// and the verdict of its proof.
pub(super) fn verdicts<P: Proof>(
    query: &FeatureQuery<'_, P>,
    seen: &Candidates<'_, P>,
    thresholds: P::Thresholds,
) -> InlineVec<(TreeIndex, usize, Result<(), Refusal>)> {
    PlacementRules { query, seen, thresholds }.verdicts(seen.fingerprints.len())
}

/// The tree in which the document was placed before, if it was.
pub(super) fn known<P: Proof>(
    query: &FeatureQuery<'_, P>,
    seen: &Candidates<'_, P>,
    thresholds: P::Thresholds,
) -> Option<Root> {
    let rules = PlacementRules { query, seen, thresholds };
    rules.known().map(|tree| rules.root(tree))
}

/// Whether a document may have founded the tree of this root: by one of its fingerprints, or by the hash of its text.
pub(super) fn may_found<P>(query: &FeatureQuery<'_, P>, root: Root) -> bool {
    let own = query.fingerprints.iter().chain(query.known_by);
    let mut own = own.chain(query.more);
    let hashes = std::iter::successors(Some(query.whole), |&hash| Some(rehashed(hash)));
    own.any(|&own| own == root.0) || hashes.take(ROOT_TRIES).any(|hash| hash == root.0)
}

/// The query with all fingerprints of the document, if its first ones do not suffice.
pub(super) fn with_all_fingerprints<'a, P>(
    query: &FeatureQuery<'a, P>,
    outcome: &RuleOutcome,
) -> Option<FeatureQuery<'a, P>> {
    let is_needed = outcome.needs_all_fingerprints && !query.more.is_empty();
    is_needed.then_some(FeatureQuery { fingerprints: query.more, more: &[], ..*query })
}

/// Tokens of the document that a founder does not have, by the alignments of its [`verdicts`].
///
/// For the tree that it belongs to, and for the one of those that refuse it whose differences cost least: at most two
/// more alignments.
pub(super) fn own_tokens<P: Proof>(
    query: &FeatureQuery<'_, P>,
    seen: &Candidates<'_, P>,
    plan: &RuleOutcome,
) -> Vec<(Root, OwnTokens)> {
    let aligned = || seen.trees.iter().filter_map(|tree| Some((tree, tree.laid.get()?)));
    let own = aligned().find(|(tree, _)| tree.root == plan.root);
    let is_refused = |tree: &CandidateTree<'_, P>| tree.verdict.get().is_some_and(|(_, verdict)| verdict.is_err());
    let refused = aligned().filter(|(tree, _)| tree.root != plan.root && is_refused(tree));
    let nearest = refused.min_by(|(_, one), (_, other)| one.cost().total_cmp(&other.cost()));
    let trees = own.into_iter().chain(nearest);
    trees.filter_map(|(tree, _)| Some((tree.root, query.own_tokens(tree.founder_tokens?)?))).collect()
}

fn by_text_only(verdict: RuleStep, by_text: bool) -> RuleStep {
    match verdict {
        RuleStep::Decided(outcome) => RuleStep::Decided(RuleOutcome { by_text: by_text || outcome.by_text, ..outcome }),
        RuleStep::Ask(_) => verdict,
    }
}

/// The placement rules, applied to one query.
struct PlacementRules<'a, 'f, P: Proof> {
    query: &'a FeatureQuery<'a, P>,
    seen: &'a Candidates<'f, P>,
    thresholds: P::Thresholds,
}

impl<P: Proof> PlacementRules<'_, '_, P> {
    fn decide(&self) -> RuleStep {
        match self.decide_plainly() {
            RuleStep::Decided(outcome) => {
                let joined = matches!(outcome.decision, Decision::Joined { .. });
                let by_title = joined || differs_by_title(&outcome.refused);
                let is_refused = !outcome.refused.is_empty();
                let needs_all_fingerprints =
                    outcome.needs_all_fingerprints || (!by_title && is_refused && self.needs_all_fingerprints());
                RuleStep::Decided(RuleOutcome { needs_all_fingerprints, ..outcome })
            }
            asked @ RuleStep::Ask(_) => asked,
        }
    }

    fn decide_plainly(&self) -> RuleStep {
        if let Some(tree) = self.known() {
            return self.decided(Decision::Refreshed, self.root(tree), self.by_own(tree), Vec::new());
        }
        if let Some(PriorAssignment { root, tree: Some(tree), stored: Some(stored), .. }) = self.seen.given {
            // Only with a proof that agrees do the fingerprints show that the text was placed here.
            let by_text = !stored.is_proved || !self.is_of(tree);
            let decision = Decision::Joined { candidates: 1 };
            // Replays the original lookup, including the extended set of fingerprints.
            let mut needs_all_fingerprints = false;
            if !self.query.more.is_empty() {
                let spots = self.seen.fingerprints.iter();
                if let Some(at) = spots.clone().position(|spot| spot.near.is_none()) {
                    return RuleStep::Ask(ReadRequest::Near(at..spots.len()));
                }
                needs_all_fingerprints = self.needs_all_fingerprints();
            }
            let verdict = self.decided(decision, root, None, Vec::new());
            return match by_text_only(verdict, by_text) {
                RuleStep::Decided(outcome) => RuleStep::Decided(RuleOutcome { needs_all_fingerprints, ..outcome }),
                asked @ RuleStep::Ask(_) => asked,
            };
        }
        // So many fingerprints bring candidates: all, or in turn those up to the first that finds its tree.
        let mut asked = self.seen.fingerprints.len();
        let mut by = None;
        for (at, spot) in self.seen.fingerprints.iter().enumerate() {
            let Some(near) = self.near(spot) else {
                let last = if P::IN_TURN { at + 1 } else { asked };
                return RuleStep::Ask(ReadRequest::Near(at..last));
            };
            if P::IN_TURN && near.iter().any(|&tree| self.verdict(tree, 1).is_ok()) {
                by = self.query.fingerprints.get(at).copied();
                asked = at + 1;
                break;
            }
        }
        let (mut candidates, mut refused) = (InlineVec::new(), Vec::new());
        for (tree, _, verdict) in self.verdicts(asked) {
            match verdict {
                Ok(()) => candidates.push(tree),
                Err(refusal) => refused.push((self.root(tree), refusal)),
            }
        }
        // The root that is stored with the document stands, whatever was learned since.
        match self.seen.given {
            Some(PriorAssignment { root, tree: Some(_), .. }) => {
                let decision = Decision::Joined { candidates: candidates.len().max(1) };
                let verdict = self.decided(decision, root, by, refused);
                return self.beside(verdict, &candidates, root);
            }
            Some(PriorAssignment { root, is_free: true, stored, .. }) => {
                let by_text = stored.is_some_and(|stored| !stored.is_proved);
                let verdict = self.decided(Decision::NewRoot, root, by, refused);
                return by_text_only(verdict, by_text);
            }
            _ => {}
        }
        if let &[only] = candidates.as_slice() {
            let decision = Decision::Joined { candidates: 1 };
            return self.decided(decision, self.root(only), by, refused);
        }
        let uncounted = |&tree: &TreeIndex| self.tree(tree).is_some_and(|t| t.children.is_none());
        if candidates.iter().any(uncounted) {
            return RuleStep::Ask(ReadRequest::Children(candidates.into_vec()));
        }
        if let Some(winner) = self.winner(&candidates) {
            let decision = Decision::Joined { candidates: candidates.len() };
            let verdict = self.decided(decision, winner, by, refused);
            return self.beside(verdict, &candidates, winner);
        }
        let free = self.seen.isolated(self.query).next();
        match free.filter(|_| !differs_by_title(&refused)) {
            Some(first) => self.decided(Decision::NewRoot, Root(first), by, refused),
            None => self.decide_by_hash(by, refused),
        }
    }

    /// The verdict, with the other trees that would accept the document as well.
    fn beside(&self, verdict: RuleStep, candidates: &[TreeIndex], root: Root) -> RuleStep {
        let others = candidates.iter().map(|&tree| self.root(tree));
        let takes_it = candidates.iter().any(|&tree| self.root(tree) == root);
        let others = others.filter(|&other| takes_it && other != root);
        let others: Vec<Root> = others.take(MOST_OTHERS).collect();
        match verdict {
            RuleStep::Decided(outcome) => RuleStep::Decided(RuleOutcome { others, ..outcome }),
            asked @ RuleStep::Ask(_) => asked,
        }
    }

    /// Whether all candidates refuse the document, and it has too few isolated fingerprints or shares several with one
    /// candidate, as texts of one form do.
    fn needs_all_fingerprints(&self) -> bool {
        let verdicts = self.verdicts(self.seen.fingerprints.len());
        let is_form = verdicts
            .iter()
            .any(|&(_, shared, verdict)| shared >= FORM && verdict.is_err_and(Refusal::is_of_alignment_check));
        let is_refused = !verdicts.is_empty() && verdicts.iter().all(|(_, _, verdict)| verdict.is_err());
        let free = || self.seen.isolated(self.query).count();
        is_refused && (is_form || free() < self.query.take)
    }

    fn decided(
        &self,
        decision: Decision,
        root: Root,
        by: Option<Fingerprint>,
        refused: Vec<(Root, Refusal)>,
    ) -> RuleStep {
        let tree = self.seen.trees.iter().find(|tree| tree.root == root);
        let whole = self.query.whole;
        let by_proof = tree.and_then(|tree| tree.proof);
        let by_proof = by_proof.is_some_and(|proof| proof.is_of_text(whole));
        let is_founder = root.0 == whole || by_proof;
        let rests_on_verdict = match decision {
            Decision::Joined { .. } => true,
            // Known by its fingerprints alone.
            Decision::Refreshed => self.seen.whole.is_none() && !is_founder,
            Decision::NewRoot | Decision::Outside => false,
        };
        RuleStep::Decided(RuleOutcome {
            root,
            decision,
            by,
            refused,
            others: Vec::new(),
            founded: tree.map(|tree| tree.added),
            is_founder,
            by_text: rests_on_verdict && tree.is_some_and(|tree| self.is_of_by_tokens(tree)),
            needs_all_fingerprints: false,
            is_doubtful: matches!(decision, Decision::Joined { .. })
                && tree.and_then(|tree| tree.laid.get()).is_some_and(|laid| laid.is_doubtful()),
        })
    }

    /// The tree the document was placed in before: that of the hash of its whole text, the one that its text founded,
    /// or the one in which all of its fingerprints have their nodes. [`changes`] sees to it that one of the three is
    /// so, and because a node never changes its tree, a document that comes again always lands on the same root,
    /// whatever was placed in between.
    ///
    /// But for one: a text that differs in capitals alone has the same hash and, since sentences end elsewhere, other
    /// fingerprints. If a full tree refuses it, and it takes the hash as its root, the earlier text is looked up there
    /// from then on. By what a text was placed is not kept, so the two cannot be told apart.
    fn known(&self) -> Option<TreeIndex> {
        // The text itself is known; what its proof leaves out by now does not matter.
        if let Some(own) = self.seen.whole {
            return Some(own);
        }
        let mut founded = self.seen.known_by.iter().flatten();
        let of_text = |tree: &&TreeIndex| {
            let proof = self.tree(**tree).and_then(|tree| tree.proof);
            proof.is_some_and(|proof| proof.is_of_text(self.query.whole))
        };
        if let Some(&tree) = founded.find(of_text) {
            return Some(tree);
        }
        let mut own = self.seen.fingerprints.iter().map(|spot| spot.own);
        let first = own.next()??;
        let in_one = own.all(|own| own == Some(first));
        // Another tree may have gained all of its fingerprints since the root was stored.
        let stands = self.seen.given.is_none_or(|given| {
            let stored = given.stored;
            stored.is_none_or(|stored| stored.is_proved && given.tree == Some(first))
        });
        let known = !self.query.known_by_whole && in_one && stands && self.is_of(first);
        known.then_some(first)
    }

    /// The first fingerprint with a node in this tree, for methods that look them up one after the other.
    fn by_own(&self, tree: TreeIndex) -> Option<Fingerprint> {
        let mut own = self.seen.fingerprints.iter().zip(self.query.fingerprints);
        let found = own.find(|(spot, _)| spot.own == Some(tree));
        found.filter(|_| P::IN_TURN).map(|(_, &fingerprint)| fingerprint)
    }

    fn near(&self, spot: &FingerprintMatches) -> Option<&[TreeIndex]> {
        let range = spot.near.clone()?;
        Some(self.seen.near.get(range).unwrap_or_default())
    }

    /// The verdicts of the trees near the first `asked` fingerprints, in lookup order.
    fn verdicts(&self, asked: usize) -> InlineVec<(TreeIndex, usize, Result<(), Refusal>)> {
        let mut shared: InlineVec<usize> = smallvec![0; self.seen.trees.len()];
        for spot in self.seen.fingerprints.iter().take(asked) {
            for &tree in self.near(spot).unwrap_or_default() {
                if let Some(count) = shared.get_mut(tree) {
                    *count += 1;
                }
            }
        }
        let met = shared.into_iter().enumerate().filter(|&(_, count)| count > 0);
        met.map(|(tree, count)| (tree, count, self.verdict(tree, count))).collect()
    }

    /// The root with the most children, then the earliest added, then the smaller fingerprint.
    fn winner(&self, candidates: &[TreeIndex]) -> Option<Root> {
        let trees = candidates.iter().filter_map(|&tree| self.tree(tree));
        let best = trees.max_by_key(|tree| (tree.children, Reverse(tree.added), Reverse(tree.root)));
        best.map(|tree| tree.root)
    }

    /// The hash of the whole text as a root, rehashed while another root is within k.
    fn decide_by_hash(&self, by: Option<Fingerprint>, refused: Vec<(Root, Refusal)>) -> RuleStep {
        let mut hash = self.query.whole;
        for tried in 0..ROOT_TRIES {
            let Some(spot) = self.seen.hashes.get(tried) else {
                return RuleStep::Ask(ReadRequest::Hash(hash));
            };
            match spot.own {
                // Placed before, under this hash.
                Some(tree) if self.is_of(tree) => {
                    return self.decided(Decision::Refreshed, self.root(tree), by, refused);
                }
                Some(_) => {}
                None if !spot.may_be_root => {}
                None => return self.decided(Decision::NewRoot, Root(hash), by, refused),
            }
            hash = rehashed(hash);
        }
        self.decided(Decision::Outside, Root(self.query.whole), by, refused)
    }

    /// Whether a document all of whose fingerprints are in a tree belongs to it: it stays there even if the tree is
    /// closed.
    fn is_of(&self, tree: TreeIndex) -> bool {
        self.agrees(tree, self.query.fingerprints.len()).is_ok()
    }

    /// Whether a tree takes the document.
    fn verdict(&self, tree: TreeIndex, shared: usize) -> Result<(), Refusal> {
        self.agrees(tree, shared)?;
        let closed = self.tree(tree).and_then(|tree| tree.closed);
        closed.map_or(Ok(()), Err)
    }

    fn agrees(&self, tree: TreeIndex, shared: usize) -> Result<(), Refusal> {
        // Every root has a proof; without one nothing can agree.
        let unproved = Refusal::Proof { similarity: 0.0, needed: 1.0 };
        let tree = self.tree(tree).ok_or(unproved)?;
        let kept = tree.proof.ok_or(unproved)?;
        if let Some((_, verdict)) = tree.verdict.get().filter(|&(of, _)| of == shared) {
            return verdict;
        }
        let (query, thresholds) = (self.query, self.thresholds);
        let verdict = match tree.founder_tokens.filter(|_| !query.tokens.is_empty()) {
            None => query.proof.agrees(kept, shared, thresholds),
            Some(tokens) => {
                let founder = (kept, tokens);
                query.proof.agrees_by((query.tokens, query.learned), founder, shared, thresholds, &tree.laid)
            }
        };
        tree.verdict.set(Some((shared, verdict)));
        verdict
    }

    /// Whether the document belongs to a tree by founder tokens: once these are evicted, or the forest has learned
    /// more, the verdict may be another one, and only the hash of its text leads back to the tree.
    fn is_of_by_tokens(&self, tree: &CandidateTree<'_, P>) -> bool {
        tree.founder_tokens.is_some() && !self.query.tokens.is_empty()
    }

    fn tree(&self, tree: TreeIndex) -> Option<&CandidateTree<'_, P>> {
        self.seen.trees.get(tree)
    }

    fn root(&self, tree: TreeIndex) -> Root {
        self.tree(tree).map_or(Root(self.query.whole), |tree| tree.root)
    }
}

/// The changes of a decision at this time, in order.
///
/// Fingerprints without a node become leaves, as many as the document takes; those with a node elsewhere keep it.
/// Only nodes of the document's tree are refreshed, its root last: a tree lives as long as documents join it, and a
/// root as long as its leaves.
pub(super) fn changes<P: Proof>(
    query: &FeatureQuery<'_, P>,
    seen: &Candidates<'_, P>,
    outcome: &RuleOutcome,
    now: Millis,
    out: &mut Vec<Change<P>>,
) {
    let mut plan = ChangeBuilder {
        query,
        seen,
        root: outcome.root,
        now,
        used: Vec::new(),
        scattered: query.known_by_whole || outcome.by_text,
        out,
    };
    match outcome.decision {
        Decision::Refreshed => plan.refresh(outcome.by_text),
        Decision::Joined { .. } => plan.join(),
        Decision::NewRoot => plan.found(differs_by_title(&outcome.refused), outcome.by_text),
        Decision::Outside => return,
    }
    plan.out.push(Change::Refresh { root: outcome.root });
}

/// Whether only its title distinguishes a document from a candidate. Then only the hash of title and text may be its
/// node, or it would attract others that share the text.
pub(super) fn differs_by_title(refused: &[(Root, Refusal)]) -> bool {
    let by_title = |why: &Refusal| matches!(why, Refusal::Titles | Refusal::PageChrome);
    refused.iter().any(|(_, why)| by_title(why))
}

struct ChangeBuilder<'a, 'f, P> {
    query: &'a FeatureQuery<'a, P>,
    seen: &'a Candidates<'f, P>,
    root: Root,
    now: Millis,
    /// The document's nodes in the tree.
    used: Vec<Fingerprint>,
    /// Whether the fingerprints do not suffice to identify the document again: one of them has no node or one in
    /// another tree, or another text may have all of them.
    scattered: bool,
    out: &'a mut Vec<Change<P>>,
}

impl<P: Proof> ChangeBuilder<'_, '_, P> {
    fn refresh(&mut self, by_text: bool) {
        for (at, &fingerprint) in self.query.fingerprints.iter().enumerate() {
            self.use_own(fingerprint, self.own(at));
        }
        if !self.query.fingerprints.contains(&self.query.whole) {
            self.use_own(self.query.whole, self.seen.whole);
        }
        if self.used.is_empty() {
            self.use_node(self.root.0);
        }
        if by_text {
            self.stand_for_the_text();
        }
    }

    fn join(&mut self) {
        for (at, &fingerprint) in self.query.fingerprints.iter().enumerate() {
            self.use_own(fingerprint, self.own(at));
        }
        for (at, &fingerprint) in self.query.fingerprints.iter().enumerate() {
            self.take(fingerprint, self.own(at));
        }
        self.stand_for_the_text();
    }

    fn found(&mut self, by_title: bool, by_text: bool) {
        let root = self.root.0;
        self.used.push(root);
        self.out.push(Change::AddRoot { fingerprint: root, added: self.now, proof: self.query.proof.clone() });
        if !self.query.tokens.is_empty() {
            self.out.push(Change::FounderTokens { root: self.root, tokens: self.query.tokens.into() });
        }
        if by_title {
            if by_text {
                self.stand_for_the_text();
            }
            return;
        }
        for at in 0..self.query.fingerprints.len() {
            self.scattered |= if P::CROWDED { self.own(at).is_some() } else { !self.is_isolated(at) };
        }
        for (at, &fingerprint) in self.query.fingerprints.iter().enumerate() {
            if fingerprint != root && (P::CROWDED || self.is_isolated(at)) {
                self.take(fingerprint, self.own(at));
            }
        }
        // The root itself shows who founded it, so that most trees need no node for the whole text.
        if self.query.known_by.contains(&root) && self.query.proof.is_of_text(self.query.whole) {
            self.scattered = false;
        }
        self.stand_for_the_text();
    }

    fn own(&self, at: usize) -> Option<TreeIndex> {
        self.seen.fingerprints.get(at).and_then(|spot| spot.own)
    }

    fn is_isolated(&self, at: usize) -> bool {
        let spot = self.seen.fingerprints.get(at);
        spot.is_some_and(FingerprintMatches::is_isolated)
    }

    /// Refreshes the node of a fingerprint if it is in this tree.
    fn use_own(&mut self, fingerprint: Fingerprint, own: Option<TreeIndex>) {
        let Some(own) = own else { return };
        if self.seen.trees.get(own).map(|tree| tree.root) == Some(self.root) {
            self.use_node(fingerprint);
        } else {
            self.scattered = true;
        }
    }

    fn use_node(&mut self, fingerprint: Fingerprint) {
        if !self.used.contains(&fingerprint) {
            self.used.push(fingerprint);
            self.out.push(Change::Use { fingerprint });
        }
    }

    /// Makes a fingerprint that has no node a leaf, while the document takes more nodes.
    fn take(&mut self, fingerprint: Fingerprint, own: Option<TreeIndex>) {
        if own.is_some() || self.used.contains(&fingerprint) {
            return;
        }
        if self.used.len() < self.query.take && !self.seen.reserved.contains(&fingerprint) {
            self.add_leaf(fingerprint);
        } else {
            self.scattered = true;
        }
    }

    /// Adds a node for the hash of the text, if the fingerprints do not suffice to identify the document again.
    fn stand_for_the_text(&mut self) {
        let whole = self.query.whole;
        if !self.scattered || self.query.fingerprints.contains(&whole) || self.used.contains(&whole) {
            return;
        }
        match self.seen.whole {
            Some(own) => self.use_own(whole, Some(own)),
            None => self.add_leaf(whole),
        }
    }

    fn add_leaf(&mut self, fingerprint: Fingerprint) {
        self.used.push(fingerprint);
        self.out.push(Change::AddLeaf { fingerprint, root: self.root });
    }
}

/// Another hash from a hash.
pub(super) fn rehashed(hash: Fingerprint) -> Fingerprint {
    Fingerprint(splitmix64(hash.0))
}
