//! What a document decides from what it has read: the placement rules for `verified`, in small. And the answers that
//! one forest gives when documents come one after the other.

use std::collections::BTreeSet;

use super::scenarios::Scenario;
use super::store::{KEYS, Key, Leaf, Root, Token, Value};

pub type View = [Value; KEYS];

/// A live tree that was met: the key of its root, and the root.
pub type Tree = (Key, Root);

pub enum Decision {
    /// Placed here before.
    Known(Tree),
    /// Trees that agree. Which of them has most children depends on when it is asked, so any of them may be taken.
    Join(Vec<Tree>),
    /// Only provisional trees of others agree.
    Wait(Vec<Tree>),
    /// Founds a tree here.
    Found(Key),
    /// There is no place for it.
    Outside,
}

/// The tree of a key's node; none if the key is free or its leaf is dead.
pub fn tree_of(view: &View, key: Key) -> Option<Tree> {
    match view[usize::from(key)] {
        Value::Free => None,
        Value::Root(root) => Some((key, root)),
        Value::Leaf(leaf) => {
            let root = view[usize::from(leaf.root)].root()?;
            (root.token == leaf.token).then_some((leaf.root, root))
        }
    }
}

/// Decides for a document. `is_own`: the token is of a tree that its own bulk is founding. `confirmed_first`: the
/// variant in which a confirmed tree is taken although a provisional one is of the very text.
pub fn decide(
    scenario: &Scenario,
    doc: usize,
    view: &View,
    is_own: impl Fn(Token) -> bool,
    confirmed_first: bool,
) -> Decision {
    let text = &scenario.docs[doc];
    let stands = |tree: &Tree| tree.1.is_confirmed || is_own(tree.1.token);
    let agrees = |tree: &Tree| scenario.agrees(doc, usize::from(tree.1.founder));
    let mut agreeing: Vec<Tree> = Vec::new();
    for &key in text.prints {
        if let Some(tree) = tree_of(view, key)
            && agrees(&tree)
            && !agreeing.iter().any(|met| met.0 == tree.0)
        {
            agreeing.push(tree);
        }
    }
    let (standing, provisional): (Vec<_>, Vec<_>) = agreeing.into_iter().partition(stands);
    if let Some(tree) = known(scenario, doc, view) {
        if stands(&tree) {
            return Decision::Known(tree);
        }
        if !confirmed_first || standing.is_empty() {
            return Decision::Wait(vec![tree]);
        }
    }
    if !standing.is_empty() {
        return Decision::Join(standing);
    }
    if !provisional.is_empty() {
        return Decision::Wait(provisional);
    }
    let mut places = text.prints.iter().chain([&text.whole]);
    let free = places.find(|&&key| tree_of(view, key).is_none());
    free.map_or(Decision::Outside, |&key| Decision::Found(key))
}

/// The tree in which the document was placed before: that of its whole text, the one that its text founded, or the one
/// that has all of its fingerprints.
fn known(scenario: &Scenario, doc: usize, view: &View) -> Option<Tree> {
    let text = &scenario.docs[doc];
    if let Some(tree) = tree_of(view, text.whole) {
        return Some(tree);
    }
    for &key in text.prints {
        if let Value::Root(root) = view[usize::from(key)]
            && scenario.docs[usize::from(root.founder)].text == text.text
        {
            return Some((key, root));
        }
    }
    let mut own = text.prints.iter().map(|&key| tree_of(view, key));
    let first = own.next()??;
    let in_one = own.all(|tree| tree.is_some_and(|tree| tree.0 == first.0));
    (in_one && scenario.agrees(doc, usize::from(first.1.founder))).then_some(first)
}

/// The keys that a document of this tree wants as new leaves; and the hash of the whole text, of one that joins, if its
/// fingerprints alone would not lead back.
pub fn wanted(scenario: &Scenario, doc: usize, view: &View, root: Key, founds: bool) -> (u8, bool) {
    let text = &scenario.docs[doc];
    let mut nodes = u8::from(founds);
    let mut scattered = false;
    for &key in text.prints {
        match tree_of(view, key) {
            Some((of, _)) if of == root && !founds => nodes += 1,
            Some(_) => scattered = true,
            None => {}
        }
    }
    let mut wanted = 0;
    for &key in text.prints {
        if tree_of(view, key).is_some() || (founds && key == root) {
            continue;
        }
        if usize::from(nodes) < text.take {
            nodes += 1;
            wanted |= 1 << key;
        } else {
            scattered = true;
        }
    }
    (wanted, scattered && !founds && tree_of(view, text.whole).is_none())
}

/// For each document the first one that has the same root; 255 for none.
pub type Answers = Vec<u8>;

/// Which documents are together, of the roots that they have.
pub fn groups(roots: &[Option<Key>]) -> Answers {
    let first = |root: Key| roots.iter().position(|&other| other == Some(root));
    let of = |root: &Option<Key>| root.and_then(first).map_or(255, |first| first as u8);
    roots.iter().map(of).collect()
}

/// All answers of a forest to which the documents of the bulks come one by one, in any order that keeps a sidecar's
/// bulks in turn, and in which those that are refused are withdrawn at any time after.
pub fn sequential(scenario: &Scenario) -> BTreeSet<Answers> {
    let mut all = BTreeSet::new();
    let docs = scenario.docs.len();
    let start = Local {
        view: scenario.stored(),
        roots: scenario.founders(),
        state: vec![State::ToCome; docs],
        next_token: 100,
    };
    let mut seen = BTreeSet::new();
    start.go(scenario, &mut seen, &mut all);
    all
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    ToCome,
    Placed,
    Withdrawn,
}

type Seen = BTreeSet<(Vec<u64>, Vec<Option<Key>>, Vec<State>)>;

#[derive(Clone)]
struct Local {
    view: View,
    roots: Vec<Option<Key>>,
    state: Vec<State>,
    next_token: Token,
}

impl Local {
    fn go(&self, scenario: &Scenario, seen: &mut Seen, all: &mut BTreeSet<Answers>) {
        let codes = self.view.iter().map(|value| value.code()).collect();
        if !seen.insert((codes, self.roots.clone(), self.state.clone())) {
            return;
        }
        let mut ended = true;
        for bulks in scenario.bulks {
            for (at, bulk) in bulks.iter().enumerate() {
                let earlier = bulks[..at].iter().flat_map(|bulk| bulk.iter());
                let is_turn = earlier.clone().all(|&doc| {
                    let is_over = if scenario.docs[doc].refused { State::Withdrawn } else { State::Placed };
                    self.state[doc] == is_over
                });
                for &doc in *bulk {
                    match self.state[doc] {
                        State::ToCome => {
                            ended = false;
                            if is_turn {
                                self.place(scenario, doc, seen, all);
                            }
                        }
                        State::Placed if scenario.docs[doc].refused => {
                            ended = false;
                            self.withdraw(scenario, doc, seen, all);
                        }
                        State::Placed | State::Withdrawn => {}
                    }
                }
            }
        }
        if ended {
            let mut roots = self.roots.clone();
            for (doc, root) in roots.iter_mut().enumerate() {
                if scenario.docs[doc].refused {
                    *root = None;
                }
            }
            all.insert(groups(&roots));
        }
    }

    fn place(&self, scenario: &Scenario, doc: usize, seen: &mut Seen, all: &mut BTreeSet<Answers>) {
        let decision = decide(scenario, doc, &self.view, |_| false, false);
        let is_known = matches!(decision, Decision::Known(_));
        let trees = match decision {
            Decision::Known(tree) => vec![(tree.0, Some(tree.1))],
            Decision::Join(trees) => trees.into_iter().map(|(key, root)| (key, Some(root))).collect(),
            Decision::Found(key) => vec![(key, None)],
            Decision::Wait(_) | Decision::Outside => {
                panic!("one after the other nobody waits, and there is a place")
            }
        };
        for (root, is_there) in trees {
            let mut after = self.clone();
            let wanted = match is_known {
                true => (0, false),
                false => wanted(scenario, doc, &self.view, root, is_there.is_none()),
            };
            let whole = u8::from(wanted.1) << scenario.docs[doc].whole;
            let token = match is_there {
                Some(root) => root.token,
                None => self.next_token,
            };
            let uses = is_there.map_or(0, |root| root.uses) + 1;
            let founder = is_there.map_or(doc as u8, |root| root.founder);
            after.view[usize::from(root)] = Value::Root(Root { is_confirmed: true, token, founder, uses, stamp: 0 });
            after.next_token += 1;
            for key in 0..KEYS as Key {
                if (wanted.0 | whole) & 1 << key != 0 {
                    after.view[usize::from(key)] = Value::Leaf(Leaf { root, token, stamp: 0 });
                }
            }
            after.roots[doc] = Some(root);
            after.state[doc] = State::Placed;
            after.go(scenario, seen, all);
        }
    }

    fn withdraw(&self, scenario: &Scenario, doc: usize, seen: &mut Seen, all: &mut BTreeSet<Answers>) {
        let mut after = self.clone();
        after.state[doc] = State::Withdrawn;
        let Some(root) = self.roots[doc].map(usize::from) else {
            return;
        };
        if let Value::Root(found) = &mut after.view[root] {
            found.uses -= 1;
            if found.uses == 0 {
                after.view[root] = Value::Free;
            }
        }
        after.go(scenario, seen, all);
    }
}
