//! Stored documents that may show another root than is answered for them, since somebody has said something: which they are, and
//! what each is to show. What finds and writes them is `adopt/restamp.rs`.

use super::{Word, Words};
use crate::fingerprint::Fingerprint;
use crate::forest::Root;
use crate::method::Durable;

/// Stored documents that may have to be stamped anew: those that show one of these roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restamp {
    /// The roots, each once.
    pub roots: Vec<Root>,
    /// What each document is to show.
    pub by: By,
}

/// By what it is known what a stored document is to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// What is answered in place of the root that it shows: nobody needs its text.
    Root,
    /// What is answered for its text now, for those with one of these texts.
    Texts(Vec<Fingerprint>),
    /// What is answered for its text now, as far as that is one of these groups: they were one, and are no longer.
    Trees,
}

/// What a forest says now of a stored document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looked {
    /// A hash of the whole text.
    pub text: Fingerprint,
    /// What is answered for it; none if the forest has forgotten the text, and nobody has pinned it.
    pub answer: Option<Root>,
}

impl Restamp {
    /// The roots whose documents are to be read.
    pub fn sought(&self, words: &Words) -> Vec<Root> {
        let roots = self.roots.iter().copied();
        match self.by {
            By::Root => roots.filter(|&root| words.group(root) != root).collect(),
            By::Texts(_) | By::Trees => roots.collect(),
        }
    }

    /// Whether the texts of the documents are needed.
    pub fn needs_texts(&self) -> bool {
        self.by != By::Root
    }

    /// What a document is to show that shows this root. A text that is not known stays where it is.
    pub fn shows(&self, words: &Words, shown: Root, looked: Option<Looked>) -> Root {
        let answer = looked.and_then(|looked| match &self.by {
            By::Root => None,
            By::Texts(texts) => looked.answer.filter(|_| texts.contains(&looked.text)),
            By::Trees => {
                let is_one = |answer: &Root| self.roots.iter().any(|&r| words.group(r) == *answer);
                looked.answer.filter(is_one)
            }
        });
        answer.unwrap_or_else(|| words.group(shown))
    }
}

impl Words {
    /// What is to be stamped anew when this is said. `shown`: roots that documents of a pin show.
    pub fn restamp_of(&self, word: &Word, shown: &[Root]) -> Restamp {
        match word {
            Word::Merge { winner, losers } => {
                let roots = losers.iter().chain(std::iter::once(winner));
                self.restamp(roots.copied(), By::Root)
            }
            Word::Late { winner, loser } => self.restamp([*winner, *loser].into_iter(), By::Root),
            Word::Apart { .. } => self.restamp(std::iter::empty(), By::Root),
            Word::Pin { texts, .. } => {
                let pinned = texts.iter().filter_map(|text| self.pins.get(text));
                let roots = shown.iter().chain(pinned).copied();
                self.restamp(roots, By::Texts(texts.clone()))
            }
        }
    }

    /// What is to be stamped anew when the word of this number is taken back. To be asked before it is.
    pub fn restamp_without(&self, number: u64, word: &Word) -> Restamp {
        let (root, by) = match word {
            Word::Merge { winner, .. } | Word::Late { winner, .. } => (Some(*winner), By::Trees),
            // Nothing follows from it; but what it has followed may not be obeyed yet.
            Word::Apart { .. } => (None, By::Trees),
            Word::Pin { texts, root } => (Some(*root), By::Texts(texts.clone())),
        };
        // What has not obeyed it yet may have to obey another one.
        let waiting = self.unfinished.get(&number);
        let waiting = waiting.into_iter().flat_map(|restamp| &restamp.roots);
        self.restamp(waiting.copied().chain(root), by)
    }

    /// Documents that show one of these roots, or show by an older word what is one with it. Where texts decide, also those that
    /// wait for another word: one with such a text may be among them, and show a root that nobody would look for.
    fn restamp(&self, roots: impl Iterator<Item = Root>, by: By) -> Restamp {
        let waiting = self.unfinished.values().filter(|_| by != By::Root);
        let waiting = waiting.flat_map(|restamp| &restamp.roots).copied();
        let mut roots: Vec<Root> = roots
            .chain(waiting)
            .flat_map(|root| self.one_with(root))
            .collect();
        roots.sort_unstable();
        roots.dedup();
        Restamp { roots, by }
    }

    /// These documents may not obey the word of this number, or do.
    pub fn set_restamp(&mut self, number: u64, restamp: Option<Restamp>) {
        match restamp {
            Some(restamp) => drop(self.unfinished.insert(number, restamp)),
            None => drop(self.unfinished.remove(&number)),
        }
    }

    /// What is to be stamped anew, by the number of the word.
    pub fn unfinished(&self) -> impl Iterator<Item = (u64, &Restamp)> {
        let unfinished = self.unfinished.iter();
        unfinished.map(|(&number, restamp)| (number, restamp))
    }

    /// What is to be stamped anew besides, after a word was said or taken back: documents that wait for it may by that be given
    /// another root before their turn comes.
    pub fn followed(&self) -> Vec<(u64, Restamp)> {
        let mut followed = Vec::new();
        for (&number, restamp) in &self.unfinished {
            let given = restamp.roots.iter().map(|&root| self.group(root));
            let mut roots: Vec<Root> = given.chain(restamp.roots.iter().copied()).collect();
            roots.sort_unstable();
            roots.dedup();
            if roots.len() > restamp.roots.len() {
                let by = restamp.by.clone();
                followed.push((number, Restamp { roots, by }));
            }
        }
        followed
    }
}

/// `| kind 1: 0 none, 1 by the root, 2 by texts, 3 by trees | roots 4 | of 8 each | for kind 2: texts 4 | of 8 each |`
impl Durable for Option<Restamp> {
    fn write(&self, out: &mut Vec<u8>) {
        let Some(Restamp { roots, by }) = self else {
            return out.push(0);
        };
        out.push(match by {
            By::Root => 1,
            By::Texts(_) => 2,
            By::Trees => 3,
        });
        write_all(roots.iter().map(|root| root.0), out);
        if let By::Texts(texts) = by {
            write_all(texts.iter().copied(), out);
        }
    }

    fn read(bytes: &mut &[u8]) -> Option<Option<Restamp>> {
        let kind = u8::read(bytes)?;
        if kind == 0 {
            return Some(None);
        }
        let roots = read_all(bytes)?.into_iter().map(Root).collect();
        let by = match kind {
            1 => By::Root,
            2 => By::Texts(read_all(bytes)?),
            3 => By::Trees,
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
    // No more than there can be, whatever the number says.
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

    /// A stored document. Those of one text stand in one tree.
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
        /// Some documents are stamped anew, as a job does that dies in the middle.
        Some(Vec<bool>),
        /// All of them, as a job does that comes to its end.
        All,
        /// A document is written with what is answered now, and stored some steps later.
        Write(usize),
        Stored,
        /// A restart.
        Restart,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let texts = || prop::collection::vec(0..TEXTS, 1..3);
        let step = prop_oneof![
            4 => (0..ROOTS, prop::collection::vec(0..ROOTS, 1..3)).prop_map(|(w, l)| Step::Merge(w, l)),
            2 => (texts(), prop::option::of(0..ROOTS)).prop_map(|(t, r)| Step::Pin(t, r)),
            3 => any::<usize>().prop_map(Step::Undo),
            4 => prop::collection::vec(any::<bool>(), 2 * TEXTS).prop_map(Step::Some),
            2 => Just(Step::All),
            2 => (0..2 * TEXTS).prop_map(Step::Write),
            2 => Just(Step::Stored),
            1 => Just(Step::Restart),
        ];
        prop::collection::vec(step, 0..40)
    }

    struct World {
        words: Words,
        documents: Vec<Stored>,
        /// Documents on their way, with the roots that they were stamped with.
        flying: Vec<(usize, Root)>,
        new: u64,
    }

    impl World {
        fn new() -> World {
            let documents = (0..2 * TEXTS).map(|n| Stored {
                text: n % TEXTS,
                shown: tree_of(n % TEXTS),
            });
            World {
                words: Words::default(),
                documents: documents.collect(),
                flying: Vec::new(),
                new: 1000,
            }
        }

        fn answer(&self, text: usize) -> Root {
            let hash = Fingerprint(text as u64);
            self.words.answer(hash, tree_of(text))
        }

        fn say(&mut self, word: Word, texts: &[usize]) {
            // One of the documents with each text is named.
            let named = texts.iter().map(|&text| self.documents[text].shown);
            let mut shown: Vec<Root> = named.collect();
            shown.extend(texts.iter().map(|&text| self.answer(text)));
            let number = self.words.next().unwrap();
            let restamp = self.words.restamp_of(&word, &shown);
            self.words.set(number, Some(word));
            self.change(number, restamp);
        }

        fn change(&mut self, number: u64, restamp: Restamp) {
            self.words.set_restamp(number, Some(restamp));
            for (number, restamp) in self.words.followed() {
                self.words.set_restamp(number, Some(restamp));
            }
        }

        /// Stamps those of the chosen documents anew that the first job is about.
        fn work(&mut self, chosen: impl Fn(usize) -> bool) -> Option<(u64, Restamp)> {
            let (number, restamp) = self.words.unfinished().next()?;
            let restamp = restamp.clone();
            let sought = restamp.sought(&self.words);
            for at in 0..self.documents.len() {
                let Stored { text, shown } = self.documents[at];
                if chosen(at) && sought.contains(&shown) {
                    let looked = restamp.needs_texts().then(|| Looked {
                        text: Fingerprint(text as u64),
                        answer: Some(self.answer(text)),
                    });
                    self.documents[at].shown = restamp.shows(&self.words, shown, looked);
                }
            }
            Some((number, restamp))
        }

        fn finish(&mut self) {
            // A job ends when what was on its way has come.
            self.land();
            if let Some((number, _)) = self.work(|_| true) {
                self.words.set_restamp(number, None);
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
                    let word = Word::Merge {
                        winner: root(winner),
                        losers: losers.into_iter().map(root).collect(),
                    };
                    self.say(word, &[]);
                }
                Step::Pin(texts, to) => {
                    self.new += 1;
                    let word = Word::Pin {
                        texts: texts.iter().map(|&text| Fingerprint(text as u64)).collect(),
                        root: root(to.unwrap_or(self.new)),
                    };
                    self.say(word, &texts);
                }
                Step::Undo(which) => {
                    let said: Vec<u64> = self.words.said().map(|(number, _)| number).collect();
                    if let Some(at) = which.checked_rem(said.len()) {
                        let word = self.words.word(said[at]).unwrap().clone();
                        let restamp = self.words.restamp_without(said[at], &word);
                        self.words.set(said[at], None);
                        self.change(said[at], restamp);
                    }
                }
                Step::Some(chosen) => drop(self.work(|at| chosen[at])),
                Step::All => self.finish(),
                Step::Write(at) => {
                    let answer = self.answer(self.documents[at].text);
                    self.flying.push((at, answer));
                }
                Step::Stored => self.land(),
                Step::Restart => {
                    let mut bytes = Vec::new();
                    self.words.write(&mut bytes);
                    let read = Words::read(&mut &bytes[..]).unwrap();
                    assert_eq!(read, self.words);
                    self.words = read;
                }
            }
        }
    }

    fn tree_of(text: usize) -> Root {
        root(text as u64 % ROOTS)
    }

    proptest! {
        /// Whatever was said and taken back, in whatever state the jobs were: at the end of all of them every stored document
        /// shows what it would show if it were written now.
        #[test]
        fn stored_documents_obey_in_the_end(steps in steps()) {
            let mut world = World::new();
            for step in steps {
                world.step(step);
                let unfinished: Vec<u64> = world.words.unfinished().map(|(number, _)| number).collect();
                if unfinished.is_empty() && world.flying.is_empty() {
                    for document in &world.documents {
                        prop_assert_eq!(document.shown, world.answer(document.text));
                    }
                }
            }
            while world.words.unfinished().next().is_some() {
                world.finish();
            }
            world.land();
            for document in &world.documents {
                prop_assert_eq!(document.shown, world.answer(document.text), "text {}", document.text);
            }
        }
    }

    #[test]
    fn a_forgotten_text_stays_where_it_is() {
        let mut words = Words::default();
        let merge = Word::Merge {
            winner: root(1),
            losers: vec![root(2)],
        };
        words.set(0, Some(merge.clone()));
        let restamp = words.restamp_without(0, &merge);
        words.set(0, None);
        assert_eq!(restamp.roots, [root(1), root(2)]);
        let looked = |answer| {
            Some(Looked {
                text: Fingerprint(9),
                answer,
            })
        };
        assert_eq!(restamp.shows(&words, root(1), looked(None)), root(1));
        let known = looked(Some(root(2)));
        assert_eq!(restamp.shows(&words, root(1), known), root(2));
        // A third group is nobody's business here.
        let elsewhere = looked(Some(root(5)));
        assert_eq!(restamp.shows(&words, root(1), elsewhere), root(1));
    }
}
