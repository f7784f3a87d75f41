//! Pending restamps: stored documents whose root may differ from the answered one after an override. This module says
//! which they are and which root each should have; `backfill/restamp.rs` finds and writes them.

use std::collections::HashSet;
use std::sync::Arc;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::Durable;

use super::{Override, Overrides};
use crate::Root;

/// A pending restamp: stored documents with one of these roots may need another root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restamp {
    /// The roots, each once.
    pub roots: Vec<Root>,
    /// How the root of each document is determined.
    pub by: ResolvedBy,
}

/// How the new root of a stored document is determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolvedBy {
    /// The present root decides: the text is not needed.
    Root,
    /// By its text, for documents with one of these texts.
    Texts(Vec<Fingerprint>),
    /// The text decides, if the result is one of these groups: they were one group, and are no longer.
    Trees,
}

/// The root that a stored document should have at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResolvedDocument {
    /// A hash of the whole text.
    pub text: Fingerprint,
    /// The root that is answered for it; `None` if the forest has forgotten the text and no override pins it.
    pub answer: Option<Root>,
}

/// One pass over the stored documents, for several overrides.
///
/// Where texts decide, a document may show a root of any override that is pending, or was completed while others were
/// pending; all of these are searched. Restamps are shared, not copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestampPass {
    /// Overrides with their restamps.
    overrides: Vec<(u64, Arc<Restamp>)>,
    /// All roots whose documents are searched, with the roots that replace them.
    sought: HashSet<Root>,
    texts: HashSet<Fingerprint>,
    by_trees: bool,
}

/// The number under which carried roots are encoded; no override has it.
const CARRIED: u64 = u64::MAX;

impl Restamp {
    /// Whether the texts of the documents are needed.
    pub fn needs_texts(&self) -> bool {
        self.by != ResolvedBy::Root
    }

    /// Encoded size with its number, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let texts = match &self.by {
            ResolvedBy::Texts(texts) => 4 + 8 * texts.len(),
            ResolvedBy::Root | ResolvedBy::Trees => 0,
        };
        8 + 1 + 4 + 8 * self.roots.len() + texts
    }

    /// As [`Durable`] of an optional one has it.
    pub(super) fn write_all(&self, out: &mut Vec<u8>) {
        let Restamp { roots, by } = self;
        out.push(match by {
            ResolvedBy::Root => 1,
            ResolvedBy::Texts(_) => 2,
            ResolvedBy::Trees => 3,
        });
        write_all(roots.iter().map(|root| root.0), out);
        if let ResolvedBy::Texts(texts) = by {
            write_all(texts.iter().copied(), out);
        }
    }
}

impl RestampPass {
    /// The overrides of this pass, by number.
    pub fn override_numbers(&self) -> &[(u64, Arc<Restamp>)] {
        &self.overrides
    }

    /// The part of the pass whose overrides are completely restamped.
    #[must_use]
    pub fn restricted_to(mut self, is_done: impl Fn(u64) -> bool) -> RestampPass {
        self.overrides.retain(|&(number, _)| is_done(number));
        self
    }

    /// The roots whose documents are to be read.
    pub fn sought(&self, overrides: &Overrides) -> Vec<Root> {
        let roots = self.sought.iter().copied();
        let mut sought: Vec<Root> = match self.needs_texts() {
            false => roots.filter(|&root| overrides.group(root) != root).collect(),
            true => roots.collect(),
        };
        sought.sort_unstable();
        sought
    }

    /// Whether the texts of the documents are needed.
    pub fn needs_texts(&self) -> bool {
        self.by_trees || !self.texts.is_empty()
    }

    /// The new root of a document that has the root `shown`. A document whose text is unknown keeps its root.
    pub fn shows(&self, overrides: &Overrides, shown: Root, resolved: Option<ResolvedDocument>) -> Root {
        let answer = resolved.and_then(|resolved| {
            let is_one = |answer: &Root| self.by_trees && self.sought.contains(answer);
            let is_its = |answer: &Root| self.texts.contains(&resolved.text) || is_one(answer);
            resolved.answer.filter(is_its)
        });
        answer.unwrap_or_else(|| overrides.group(shown))
    }
}

impl Overrides {
    /// The restamp that an override requires, computed before it is added. `shown`: roots of a pin's documents.
    pub fn restamp_of(&self, correction: &Override, shown: &[Root]) -> Restamp {
        match correction {
            Override::Merge { .. } | Override::LateMerge { .. } => self.restamp(correction.roots(), ResolvedBy::Root),
            Override::Apart { .. } => self.restamp(Vec::new(), ResolvedBy::Root),
            Override::Pin { texts, .. } => {
                let pinned = texts.iter().filter_map(|&text| self.pins.root(text));
                let roots = shown.iter().copied().chain(pinned);
                self.restamp(roots, ResolvedBy::Texts(texts.clone()))
            }
        }
    }

    /// The restamp that undoing this override requires, computed before it is undone.
    pub fn restamp_without(&self, number: u64, correction: &Override) -> Restamp {
        let (roots, by) = match correction {
            // Whatever its group falls into, each part has one of its roots.
            Override::Merge { .. } | Override::LateMerge { .. } => (correction.roots(), ResolvedBy::Trees),
            // It has no effect of its own, but the late merge before it may still be pending.
            Override::Apart { .. } => (Vec::new(), ResolvedBy::Trees),
            Override::Pin { texts, root } => (vec![*root], ResolvedBy::Texts(texts.clone())),
        };
        // Its pending documents may have to follow another override now.
        let waiting = self.unfinished.get(&number);
        let waiting = waiting.into_iter().flat_map(|restamp| &restamp.roots);
        self.restamp(waiting.copied().chain(roots), by)
    }

    /// The restamp of documents with one of these roots, or with the root that replaces it now. Documents with an
    /// older root are pending for an earlier override.
    fn restamp(&self, roots: impl IntoIterator<Item = Root>, by: ResolvedBy) -> Restamp {
        let roots = roots.into_iter();
        let mut roots: Vec<Root> = roots.flat_map(|root| [root, self.group(root)]).collect();
        roots.sort_unstable();
        roots.dedup();
        Restamp { roots, by }
    }

    /// Sets or clears the pending restamp of an override.
    pub fn set_restamp(&mut self, number: u64, restamp: Option<Restamp>) {
        if number == CARRIED {
            self.carried.extend(restamp.into_iter().flat_map(|of| of.roots));
            return;
        }
        let before = match restamp {
            Some(restamp) => {
                // If a part of a stored forest does not read, nothing else shows that an override had this number.
                self.next = self.next.max(number + 1);
                self.bytes += restamp.bytes();
                self.by_texts += usize::from(restamp.needs_texts());
                self.unfinished.insert(number, Arc::new(restamp))
            }
            None => self.unfinished.remove(&number),
        };
        let Some(before) = before else { return };
        self.bytes -= before.bytes();
        self.by_texts -= usize::from(before.needs_texts());
        if self.by_texts == 0 {
            self.carried.clear();
        } else if !self.unfinished.contains_key(&number) {
            self.carried.extend(&before.roots);
        }
    }

    /// The pending restamps, by the override's number.
    pub fn unfinished(&self) -> impl ExactSizeIterator<Item = (u64, &Arc<Restamp>)> {
        let unfinished = self.unfinished.iter();
        unfinished.map(|(&number, restamp)| (number, restamp))
    }

    /// The pending restamps and the completed ones that are kept: the state that restores these overrides.
    pub fn restamps(&self) -> impl Iterator<Item = (u64, Arc<Restamp>)> {
        let carried = (!self.carried.is_empty()).then(|| {
            let roots = self.carried.iter().copied().collect();
            let by = ResolvedBy::Root;
            (CARRIED, Arc::new(Restamp { roots, by }))
        });
        let unfinished = self.unfinished();
        let unfinished = unfinished.map(|(number, restamp)| (number, restamp.clone()));
        unfinished.chain(carried)
    }

    /// A pass for these overrides.
    pub fn pass_for(&self, overrides: Vec<(u64, Arc<Restamp>)>) -> RestampPass {
        let mut pass = RestampPass::default();
        for (_, restamp) in &overrides {
            pass.sought.extend(&restamp.roots);
            match &restamp.by {
                ResolvedBy::Root => {}
                ResolvedBy::Texts(texts) => pass.texts.extend(texts),
                ResolvedBy::Trees => pass.by_trees = true,
            }
        }
        pass.overrides = overrides;
        if pass.needs_texts() {
            let waiting = self.unfinished.values().flat_map(|restamp| &restamp.roots);
            pass.sought.extend(waiting.chain(&self.carried));
            let given = pass.sought.iter().map(|&root| self.group(root));
            let given: Vec<Root> = given.collect();
            pass.sought.extend(given);
        }
        pass
    }

    /// A pass for everything that was ever merged.
    pub fn pass_for_all(&self) -> RestampPass {
        RestampPass { sought: self.losers().collect(), ..RestampPass::default() }
    }

    /// Whether groups have changed since the pass began so that its documents may show roots that it did not search
    /// for.
    pub(super) fn is_outdated(&self, pass: &RestampPass) -> bool {
        let mut replaced = self.groups.replaced();
        pass.needs_texts() && replaced.any(|(root, by)| pass.sought.contains(&root) && !pass.sought.contains(&by))
    }
}

/// One restamp or none:
/// `| kind 1: 0 none, 1 by the root, 2 by texts, 3 by trees | roots 4 | of 8 each | for kind 2: texts 4 | of 8 each |`
impl Restamp {
    /// Appends the encoding.
    pub(crate) fn write_some(some: Option<&Restamp>, out: &mut Vec<u8>) {
        match some {
            None => out.push(0),
            Some(restamp) => restamp.write_all(out),
        }
    }

    /// Decodes it and removes its bytes from the front; `None` if they are not one.
    pub(crate) fn read_some(bytes: &mut &[u8]) -> Option<Option<Restamp>> {
        let kind = u8::read(bytes)?;
        if kind == 0 {
            return Some(None);
        }
        let roots = read_all(bytes)?.into_iter().map(Root).collect();
        let by = match kind {
            1 => ResolvedBy::Root,
            2 => ResolvedBy::Texts(read_all(bytes)?),
            3 => ResolvedBy::Trees,
            _ => return None,
        };
        Some(Some(Restamp { roots, by }))
    }
}

/// `| how many 4 | of 8 each |`
pub(super) fn write_all(all: impl ExactSizeIterator<Item = Fingerprint>, out: &mut Vec<u8>) {
    (all.len() as u32).write(out);
    for one in all {
        one.write(out);
    }
}

pub(super) fn read_all(bytes: &mut &[u8]) -> Option<Vec<Fingerprint>> {
    let count = u32::read(bytes)? as usize;
    // Bounded by the input, whatever the count says.
    let mut all = Vec::with_capacity(count.min(bytes.len() / 8));
    for _ in 0..count {
        all.push(Fingerprint::read(bytes)?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROOTS: u64 = 7;
    const TEXTS: usize = 9;

    fn root(number: u64) -> Root {
        Root(Fingerprint(number))
    }

    /// A stored document. Documents of one text are in one tree.
    #[derive(Debug, Clone, Copy)]
    struct Stored {
        text: usize,
        shown: Root,
    }

    #[derive(Debug, Clone)]
    enum Step {
        Merge(u64, Vec<u64>),
        /// To a root, or to a new one.
        Pin(Vec<usize>, Option<u64>),
        Undo(usize),
        /// Some documents are restamped, as by a job for this number of overrides that dies in the middle.
        Some(usize, Vec<bool>),
        /// All of them, as a completed job.
        All(usize),
        /// A document is written with the present answer and stored some steps later.
        Write(usize),
        Stored,
        /// A restart.
        Restart,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let texts = || prop::collection::vec(0..TEXTS, 1..3);
        let some = || (1..4_usize, prop::collection::vec(any::<bool>(), 2 * TEXTS));
        let step = prop_oneof![
            4 => (0..ROOTS, prop::collection::vec(0..ROOTS, 1..3)).prop_map(|(w, l)| Step::Merge(w, l)),
            2 => (texts(), prop::option::of(0..ROOTS)).prop_map(|(t, r)| Step::Pin(t, r)),
            3 => any::<usize>().prop_map(Step::Undo),
            4 => some().prop_map(|(overrides, chosen)| Step::Some(overrides, chosen)),
            2 => (1..4_usize).prop_map(Step::All),
            2 => (0..2 * TEXTS).prop_map(Step::Write),
            2 => Just(Step::Stored),
            1 => Just(Step::Restart),
        ];
        prop::collection::vec(step, 0..40)
    }

    struct World {
        overrides: Overrides,
        documents: Vec<Stored>,
        /// In-flight documents with their stamped roots.
        flying: Vec<(usize, Root)>,
        new: u64,
    }

    impl World {
        fn new() -> World {
            let documents = (0..2 * TEXTS).map(|n| Stored { text: n % TEXTS, shown: tree_of(n % TEXTS) });
            World { overrides: Overrides::default(), documents: documents.collect(), flying: Vec::new(), new: 1000 }
        }

        fn answer(&self, text: usize) -> Root {
            let hash = Fingerprint(text as u64);
            self.overrides.shown_root(hash, tree_of(text))
        }

        fn say(&mut self, correction: Override, texts: &[usize]) {
            // One of the documents with each text is named.
            let named = texts.iter().map(|&text| self.documents[text].shown);
            let mut shown: Vec<Root> = named.collect();
            shown.extend(texts.iter().map(|&text| self.answer(text)));
            self.overrides.add(correction, &shown).unwrap();
        }

        /// Restamps those of the chosen documents that the first job is about. It may be for some of the overrides
        /// alone.
        fn work(&mut self, some: usize, chosen: impl Fn(usize) -> bool) -> Option<RestampPass> {
            let overrides = self.overrides.unfinished().take(some);
            let overrides: Vec<_> = overrides.map(|(number, of)| (number, of.clone())).collect();
            if overrides.is_empty() {
                return None;
            }
            let pass = self.overrides.pass_for(overrides);
            let sought = pass.sought(&self.overrides);
            for at in 0..self.documents.len() {
                let Stored { text, shown } = self.documents[at];
                if chosen(at) && sought.contains(&shown) {
                    let resolved = pass
                        .needs_texts()
                        .then(|| ResolvedDocument { text: Fingerprint(text as u64), answer: Some(self.answer(text)) });
                    self.documents[at].shown = pass.shows(&self.overrides, shown, resolved);
                }
            }
            Some(pass)
        }

        fn finish(&mut self, some: usize) {
            // A job ends when the in-flight documents have been stored.
            self.land();
            if let Some(pass) = self.work(some, |_| true) {
                self.overrides.restamped(&pass);
            }
        }

        fn land(&mut self) {
            for (at, shown) in std::mem::take(&mut self.flying) {
                self.documents[at].shown = shown;
            }
        }

        fn step(&mut self, step: Step) {
            match step {
                Step::Merge(winner, losers) => {
                    let correction =
                        Override::Merge { winner: root(winner), losers: losers.into_iter().map(root).collect() };
                    self.say(correction, &[]);
                }
                Step::Pin(texts, to) => {
                    self.new += 1;
                    let correction = Override::Pin {
                        texts: texts.iter().map(|&text| Fingerprint(text as u64)).collect(),
                        root: root(to.unwrap_or(self.new)),
                    };
                    self.say(correction, &texts);
                }
                Step::Undo(which) => {
                    let entries: Vec<u64> = self.overrides.iter().map(|(number, _)| number).collect();
                    if let Some(at) = which.checked_rem(entries.len()) {
                        self.overrides.undo(entries[at]).unwrap();
                    }
                }
                Step::Some(some, chosen) => drop(self.work(some, |at| chosen[at])),
                Step::All(some) => self.finish(some),
                Step::Write(at) => {
                    let answer = self.answer(self.documents[at].text);
                    self.flying.push((at, answer));
                }
                Step::Stored => self.land(),
                Step::Restart => {
                    let mut bytes = Vec::new();
                    self.overrides.write(&mut bytes);
                    let read = Overrides::read(&mut &bytes[..]).unwrap();
                    assert_eq!(read, self.overrides);
                    self.overrides = read;
                }
            }
        }
    }

    fn tree_of(text: usize) -> Root {
        root(text as u64 % ROOTS)
    }

    proptest! {
        /// After any sequence of overrides, undone ones and interrupted jobs, every stored document has, at the end
        /// of all jobs, the root that it would be written with.
        #[test]
        fn stored_documents_obey_in_the_end(steps in steps()) {
            let mut world = World::new();
            for step in steps {
                world.step(step);
                let unfinished: Vec<u64> = world.overrides.unfinished().map(|(number, _)| number).collect();
                if unfinished.is_empty() && world.flying.is_empty() {
                    for document in &world.documents {
                        prop_assert_eq!(document.shown, world.answer(document.text));
                    }
                }
            }
            while world.overrides.unfinished().next().is_some() {
                world.finish(2);
            }
            world.land();
            for document in &world.documents {
                prop_assert_eq!(document.shown, world.answer(document.text), "text {}", document.text);
            }
        }
    }

    /// Roots of followed overrides are remembered as long as another waits that goes by texts, and no longer.
    #[test]
    fn roots_are_carried_while_texts_wait() {
        let restamp = |roots: &[u64], by| Restamp { roots: roots.iter().copied().map(root).collect(), by };
        let by_texts = || restamp(&[3], ResolvedBy::Texts(vec![Fingerprint(9)]));
        let by_root = |roots: &[u64]| restamp(roots, ResolvedBy::Root);
        let carried = |overrides: &Overrides| {
            let carried = overrides.restamps().filter(|&(number, _)| number == CARRIED);
            carried.flat_map(|(_, of)| of.roots.clone()).collect::<Vec<Root>>()
        };
        let mut overrides = Overrides::default();
        overrides.set_restamp(0, Some(by_root(&[1, 2])));
        overrides.set_restamp(0, None);
        assert_eq!(carried(&overrides), [], "none waits");
        overrides.set_restamp(1, Some(by_texts()));
        overrides.set_restamp(2, Some(by_root(&[4, 5])));
        overrides.set_restamp(2, Some(by_root(&[4, 6])));
        assert_eq!(carried(&overrides), [], "it was replaced, not followed");
        overrides.set_restamp(2, None);
        assert_eq!(carried(&overrides), [root(4), root(6)]);
        assert_eq!(overrides.bytes(), by_texts().bytes() + 2 * 8);
        overrides.set_restamp(1, Some(by_texts()));
        assert_eq!(carried(&overrides), [root(4), root(6)], "one waits still");
        overrides.set_restamp(1, None);
        assert_eq!((carried(&overrides), overrides.bytes()), (vec![], 0));
    }

    #[test]
    fn a_forgotten_text_stays_where_it_is() {
        let mut overrides = Overrides::default();
        let merge = Override::Merge { winner: root(1), losers: vec![root(2)] };
        overrides.set(0, Some(merge));
        overrides.undo(0).unwrap();
        let unfinished: Vec<_> = overrides.unfinished().map(|(n, of)| (n, of.clone())).collect();
        assert_eq!(unfinished[0].1.roots, [root(1), root(2)]);
        let restamp = overrides.pass_for(unfinished);
        let resolved = |answer| Some(ResolvedDocument { text: Fingerprint(9), answer });
        assert_eq!(restamp.shows(&overrides, root(1), resolved(None)), root(1));
        let known = resolved(Some(root(2)));
        assert_eq!(restamp.shows(&overrides, root(1), known), root(2));
        // A third group is not affected.
        let elsewhere = resolved(Some(root(5)));
        assert_eq!(restamp.shows(&overrides, root(1), elsewhere), root(1));
    }
}
