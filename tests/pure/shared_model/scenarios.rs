//! Which documents come where, and what may go wrong meanwhile.

use super::law::View;
use super::store::{Key, Leaf, Root, Token, Value};

pub const SIDES: usize = 3;
pub const DOCS: usize = 8;
pub const PER_BULK: usize = 2;

/// A document.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    pub prints: &'static [Key],
    /// The hash of the whole text.
    pub whole: Key,
    /// Nodes that it takes, at most.
    pub take: usize,
    /// Documents of one number are one text.
    pub text: u8,
    /// Who has the smaller one was there first.
    pub rank: u8,
    /// The cluster does not accept it.
    pub refused: bool,
}

/// A tree that is there from the beginning: its founder, one document rests on it.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    pub founder: usize,
    pub root: Key,
    pub leaves: &'static [Key],
}

#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub docs: &'static [Text],
    /// By sidecar, by bulk.
    pub bulks: &'static [&'static [&'static [usize]]],
    /// Pairs whose proofs do not agree.
    pub apart: &'static [(usize, usize)],
    pub trees: &'static [Tree],
    /// A document whose attempts to found a tree have all failed ends the path.
    pub attempts: u8,
}

/// How many there may be of what goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    pub crashes: u8,
    pub expiries: u8,
    pub ticks: u8,
    /// Replies that do not come.
    pub losses: u8,
    pub vanishes: u8,
    pub reverts: u8,
}

/// The protocol, and simpler ones that are not good enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Variant {
    #[default]
    Whole,
    NoLookAgain,
    NoKill,
    LeavesWithRoot,
    ConfirmAfterKill,
    RootsNotReadAgain,
    OneHop,
    SameToken,
    NoPin,
    JoinerIsDone,
    WholeWithLeaves,
    JoinerLooksOnce,
    ConfirmedFirst,
    DropsLeaves,
    RepeatsRootClaim,
    ConfirmsByValue,
}

impl Tree {
    pub fn token(&self) -> Token {
        40 + self.founder as Token
    }
}

impl Scenario {
    pub fn agrees(&self, one: usize, other: usize) -> bool {
        !self.apart.contains(&(one, other)) && !self.apart.contains(&(other, one))
    }

    /// The roots of the documents whose trees are there from the beginning.
    pub fn founders(&self) -> Vec<Option<Key>> {
        let mut roots = vec![None; self.docs.len()];
        self.trees.iter().for_each(|tree| roots[tree.founder] = Some(tree.root));
        roots
    }

    pub fn stored(&self) -> View {
        let mut view = View::default();
        for tree in self.trees {
            let token = tree.token();
            let root = Root { is_confirmed: true, token, founder: tree.founder as u8, uses: 1, stamp: 0 };
            view[usize::from(tree.root)] = Value::Root(root);
            for &leaf in tree.leaves {
                view[usize::from(leaf)] = Value::Leaf(Leaf { root: tree.root, token, stamp: 0 });
            }
        }
        view
    }
}

const fn text(text: u8, prints: &'static [Key], take: usize, whole: Key) -> Text {
    Text { prints, whole, take, text, rank: text, refused: false }
}

const fn ranked(of: Text, rank: u8) -> Text {
    Text { rank, ..of }
}

const fn refused(of: Text) -> Text {
    Text { refused: true, ..of }
}

const EACH_ONE: &[&[&[usize]]] = &[&[&[0]], &[&[1]]];
const PLAIN: Scenario = Scenario { name: "", docs: &[], bulks: EACH_ONE, apart: &[], trees: &[], attempts: 3 };

/// Two sidecars.
pub const TWO: &[Scenario] = &[
    Scenario { name: "copies", docs: &[text(0, &[0, 1], 2, 2), ranked(text(0, &[0, 1], 2, 2), 1)], ..PLAIN },
    Scenario {
        name: "copies, 3 offered and 2 taken",
        docs: &[text(0, &[0, 1, 2], 2, 3), ranked(text(0, &[0, 1, 2], 2, 3), 1)],
        ..PLAIN
    },
    Scenario { name: "crossed", docs: &[text(0, &[0, 1], 2, 2), text(1, &[1, 0], 2, 3)], ..PLAIN },
    Scenario {
        name: "crossed, the later one first",
        docs: &[ranked(text(0, &[0, 1], 2, 2), 1), ranked(text(1, &[1, 0], 2, 3), 0)],
        ..PLAIN
    },
    Scenario {
        name: "not agreeing",
        docs: &[text(0, &[0, 1], 2, 2), text(1, &[0, 1], 2, 3)],
        apart: &[(0, 1)],
        ..PLAIN
    },
    Scenario { name: "one shared of three", docs: &[text(0, &[0, 1, 2], 2, 5), text(1, &[3, 1, 4], 2, 6)], ..PLAIN },
    Scenario { name: "each other's third", docs: &[text(0, &[0, 1, 2], 2, 5), text(1, &[2, 3, 0], 2, 6)], ..PLAIN },
    Scenario {
        name: "the first is refused",
        docs: &[refused(text(0, &[0, 1], 2, 2)), text(1, &[1, 0], 2, 3)],
        ..PLAIN
    },
    Scenario {
        name: "both are refused",
        docs: &[refused(text(0, &[0, 1], 2, 2)), refused(text(1, &[1, 0], 2, 3))],
        ..PLAIN
    },
    Scenario {
        name: "two and one",
        docs: &[text(0, &[0, 1], 2, 4), text(1, &[1, 2], 2, 5), text(2, &[2, 0], 2, 6)],
        bulks: &[&[&[0, 1]], &[&[2]]],
        ..PLAIN
    },
    Scenario {
        name: "two and two",
        docs: &[text(0, &[0, 1], 2, 4), text(1, &[2, 3], 2, 5), text(2, &[1, 0], 2, 6), text(3, &[3, 2], 2, 7)],
        bulks: &[&[&[0, 1]], &[&[3, 2]]],
        apart: &[(0, 1), (0, 3), (2, 1), (2, 3)],
        ..PLAIN
    },
    Scenario {
        name: "a root of one is a leaf of another",
        docs: &[text(0, &[0, 1], 2, 4), text(1, &[1, 2], 2, 5), text(2, &[2, 0], 2, 6)],
        bulks: &[&[&[0, 1]], &[&[2]]],
        apart: &[(0, 1)],
        ..PLAIN
    },
    Scenario {
        name: "copies between two trees",
        docs: &[text(0, &[0], 1, 3), text(1, &[1], 1, 4), text(2, &[0, 1, 2], 2, 5), text(2, &[0, 1, 2], 2, 5)],
        bulks: &[&[&[2]], &[&[3]]],
        apart: &[(0, 1)],
        trees: &[Tree { founder: 0, root: 0, leaves: &[] }, Tree { founder: 1, root: 1, leaves: &[] }],
        ..PLAIN
    },
    Scenario {
        name: "copies between two trees, with room for all",
        docs: &[text(0, &[0], 1, 3), text(1, &[1], 1, 4), text(2, &[0, 1, 2], 3, 5), text(2, &[0, 1, 2], 3, 5)],
        bulks: &[&[&[2]], &[&[3]]],
        apart: &[(0, 1)],
        trees: &[Tree { founder: 0, root: 0, leaves: &[6] }, Tree { founder: 1, root: 1, leaves: &[] }],
        ..PLAIN
    },
    Scenario {
        name: "again after an answer",
        docs: &[text(0, &[0, 1, 2], 2, 4), text(1, &[2, 1, 0], 2, 5), text(0, &[0, 1, 2], 2, 4)],
        bulks: &[&[&[0], &[2]], &[&[1]]],
        apart: &[(0, 1), (2, 1)],
        ..PLAIN
    },
    Scenario {
        name: "a joiner is refused, its copy comes twice",
        docs: &[
            text(0, &[0], 1, 4),
            text(1, &[1], 1, 5),
            refused(text(2, &[0, 2], 2, 6)),
            text(2, &[0, 2], 2, 6),
            text(3, &[1, 2], 2, 7),
            text(2, &[0, 2], 2, 6),
        ],
        bulks: &[&[&[2], &[4]], &[&[3], &[5]]],
        apart: &[(0, 1), (0, 4), (2, 4), (3, 4), (5, 4)],
        trees: &[Tree { founder: 0, root: 0, leaves: &[] }, Tree { founder: 1, root: 1, leaves: &[] }],
        ..PLAIN
    },
    Scenario {
        name: "a founder is refused while another joins",
        docs: &[refused(text(0, &[0, 1], 2, 4)), text(1, &[1, 2], 2, 5), text(1, &[1, 2], 2, 5)],
        bulks: &[&[&[0]], &[&[1], &[2]]],
        ..PLAIN
    },
];

/// What lives on while its window moves.
pub const AGEING: &[Scenario] = &[
    Scenario {
        name: "a known text and a joiner",
        docs: &[text(0, &[0, 1], 2, 3), text(0, &[0, 1], 2, 3), text(1, &[1, 2], 2, 4), text(0, &[0, 1], 2, 3)],
        bulks: &[&[&[1], &[3]], &[&[2]]],
        trees: &[Tree { founder: 0, root: 0, leaves: &[1] }],
        ..PLAIN
    },
    Scenario {
        name: "a known text and a stranger on its leaf",
        docs: &[text(0, &[0, 1], 2, 3), text(0, &[0, 1], 2, 3), text(1, &[1, 2], 2, 4), text(0, &[0, 1], 2, 3)],
        bulks: &[&[&[1], &[3]], &[&[2]]],
        apart: &[(0, 2), (1, 2), (3, 2)],
        trees: &[Tree { founder: 0, root: 0, leaves: &[1] }],
        ..PLAIN
    },
    Scenario {
        name: "a known joiner twice, and its copy",
        docs: &[text(0, &[0], 1, 3), text(1, &[0, 1, 2], 2, 4), text(1, &[0, 1, 2], 2, 4), text(1, &[0, 1, 2], 2, 4)],
        bulks: &[&[&[1], &[2]], &[&[3]]],
        trees: &[Tree { founder: 0, root: 0, leaves: &[1, 4] }],
        ..PLAIN
    },
    Scenario {
        name: "copies, and again",
        docs: &[text(0, &[0, 1, 2], 2, 3), ranked(text(0, &[0, 1, 2], 2, 3), 1), text(0, &[0, 1, 2], 2, 3)],
        bulks: &[&[&[0], &[2]], &[&[1]]],
        ..PLAIN
    },
];

const EACH_OF_THREE: &[&[&[usize]]] = &[&[&[0]], &[&[1]], &[&[2]]];
const THREE_PLAIN: Scenario = Scenario { bulks: EACH_OF_THREE, attempts: 2, ..PLAIN };

/// Three sidecars.
pub const THREE: &[Scenario] = &[
    Scenario {
        name: "three copies",
        docs: &[text(0, &[0, 1], 2, 2), ranked(text(0, &[0, 1], 2, 2), 1), ranked(text(0, &[0, 1], 2, 2), 2)],
        ..THREE_PLAIN
    },
    Scenario {
        name: "a text twice, and one that it alone sees",
        docs: &[text(0, &[0, 1, 2], 2, 4), ranked(text(0, &[0, 1, 2], 2, 4), 1), ranked(text(1, &[2, 3], 2, 5), 2)],
        ..THREE_PLAIN
    },
    Scenario {
        name: "a text twice, and an earlier one that it alone sees",
        docs: &[
            ranked(text(0, &[0, 1, 2], 2, 4), 1),
            ranked(text(0, &[0, 1, 2], 2, 4), 2),
            ranked(text(1, &[2, 3], 2, 5), 0),
        ],
        ..THREE_PLAIN
    },
    Scenario {
        name: "a text twice that takes one node, and one that it alone sees",
        docs: &[text(0, &[0, 2], 1, 4), ranked(text(0, &[0, 2], 1, 4), 1), ranked(text(1, &[2, 3], 2, 5), 2)],
        ..THREE_PLAIN
    },
    Scenario {
        name: "a chain, the middle first",
        docs: &[
            ranked(text(0, &[0, 1], 2, 3), 1),
            ranked(text(1, &[1, 0], 2, 4), 0),
            ranked(text(2, &[1, 2], 2, 5), 2),
        ],
        apart: &[(0, 2)],
        ..THREE_PLAIN
    },
    Scenario {
        name: "a chain, the middle last",
        docs: &[
            ranked(text(0, &[0, 1], 2, 3), 0),
            ranked(text(1, &[1, 0], 2, 4), 2),
            ranked(text(2, &[1, 2], 2, 5), 1),
        ],
        apart: &[(0, 2)],
        ..THREE_PLAIN
    },
    Scenario {
        name: "a ring",
        docs: &[text(0, &[0, 1], 2, 3), text(1, &[1, 2], 2, 4), text(2, &[2, 0], 2, 5)],
        ..THREE_PLAIN
    },
    Scenario {
        name: "a ring, not all agreeing",
        docs: &[text(0, &[0, 1], 2, 3), text(1, &[1, 2], 2, 4), text(2, &[2, 0], 2, 5)],
        apart: &[(0, 1)],
        ..THREE_PLAIN
    },
    Scenario {
        name: "the middle one is refused",
        docs: &[text(0, &[0, 1], 2, 3), refused(text(1, &[1, 0], 2, 4)), text(2, &[0, 1], 2, 5)],
        ..THREE_PLAIN
    },
];
