//! Which documents come where, and what may go wrong meanwhile.

use super::people::Correction;

/// A document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub(super) prints: &'static [u64],
    /// The hash of the whole text.
    pub(super) whole: u64,
    /// Nodes that it takes, at most.
    pub(super) take: usize,
    /// Documents of one number are one text.
    pub(super) text: u8,
    /// When it arrives: in milliseconds, of a dated document in steps.
    pub(super) rank: u8,
    /// The cluster does not accept it.
    pub(super) refused: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) docs: &'static [Text],
    /// By process, by bulk.
    pub(super) bulks: &'static [&'static [&'static [usize]]],
    /// Documents whose proofs do not agree.
    pub(super) apart: &'static [(usize, usize)],
    /// By process: what a person asks it to do.
    pub(super) people: &'static [&'static [Correction]],
    /// Documents that were accepted before, and founded trees.
    pub(super) trees: &'static [usize],
    /// A process that has begun again so often ends the path.
    pub(super) attempts: u32,
    /// The distance at which fingerprints are near.
    pub(super) k: u32,
    pub(super) is_dated: bool,
    /// A date leaps over a whole window: what was on its way then may be apart.
    pub(super) leaps: bool,
    /// What may be beside the answers of an order: a document between two trees goes to either.
    pub(super) also: &'static [&'static [Option<usize>]],
}

/// How many there may be of what goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Faults {
    pub(super) crashes: u8,
    pub(super) expiries: u8,
    pub(super) ticks: u8,
    /// Replies that do not come.
    pub(super) losses: u8,
    pub(super) vanishes: u8,
}

const fn text(text: u8, prints: &'static [u64], take: usize, whole: u64) -> Text {
    Text { prints, whole, take, text, rank: text, refused: false }
}

const fn ranked(of: Text, rank: u8) -> Text {
    Text { rank, ..of }
}

const fn refused(of: Text) -> Text {
    Text { refused: true, ..of }
}

const EACH_ONE: &[&[&[usize]]] = &[&[&[0]], &[&[1]]];
const PLAIN: Scenario = Scenario {
    name: "",
    docs: &[],
    bulks: EACH_ONE,
    apart: &[],
    people: &[],
    trees: &[],
    attempts: 3,
    k: 0,
    is_dated: false,
    leaps: false,
    also: &[],
};

/// Two sidecars.
pub(super) const TWO: &[Scenario] = &[
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
        trees: &[0, 1],
        ..PLAIN
    },
    Scenario {
        name: "copies between two trees, with room for all",
        docs: &[text(0, &[0, 6], 2, 3), text(1, &[1], 1, 4), text(2, &[0, 1, 2], 3, 5), text(2, &[0, 1, 2], 3, 5)],
        bulks: &[&[&[2]], &[&[3]]],
        apart: &[(0, 1)],
        trees: &[0, 1],
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
        trees: &[0, 1],
        ..PLAIN
    },
    Scenario {
        name: "a founder is refused while another joins",
        docs: &[refused(text(0, &[0, 1], 2, 4)), text(1, &[1, 2], 2, 5), text(1, &[1, 2], 2, 5)],
        bulks: &[&[&[0]], &[&[1], &[2]]],
        ..PLAIN
    },
];

/// A document that agrees with none of those that it meets, and a copy of one that others are placing.
pub(super) const BYSTANDERS: &[Scenario] = &[
    Scenario {
        name: "a bystander reads a tree that comes and is joined",
        docs: &[text(0, &[0, 1], 2, 4), text(1, &[1], 1, 5), text(2, &[1, 0], 2, 6)],
        bulks: &[&[&[0], &[1]], &[&[2]]],
        apart: &[(0, 2)],
        ..PLAIN
    },
    Scenario {
        name: "a bystander reads a tree that goes and one in its place",
        docs: &[refused(text(0, &[1, 0], 2, 5)), text(1, &[2, 1], 2, 6), text(3, &[1], 1, 7), text(4, &[0, 1], 2, 8)],
        bulks: &[&[&[0], &[1], &[2]], &[&[3]]],
        apart: &[(0, 1), (0, 3), (1, 3), (0, 2)],
        ..PLAIN
    },
    Scenario {
        name: "a text twice, beside a tree that agrees",
        docs: &[text(0, &[0], 1, 10), text(1, &[5], 1, 11), text(2, &[0, 5], 2, 12), text(2, &[0, 5], 2, 12)],
        bulks: &[&[&[0, 2]], &[&[3]]],
        apart: &[(0, 1)],
        trees: &[1],
        ..PLAIN
    },
];

/// What lives on while its window moves.
pub(super) const AGEING: &[Scenario] = &[
    Scenario {
        name: "a known text and a joiner",
        docs: &[text(0, &[0, 1], 2, 3), text(0, &[0, 1], 2, 3), text(1, &[1, 2], 2, 4), text(0, &[0, 1], 2, 3)],
        bulks: &[&[&[1], &[3]], &[&[2]]],
        trees: &[0],
        ..PLAIN
    },
    Scenario {
        name: "a known text and a bystander on its leaf",
        docs: &[text(0, &[0, 1], 2, 3), text(0, &[0, 1], 2, 3), text(1, &[1, 2], 2, 4), text(0, &[0, 1], 2, 3)],
        bulks: &[&[&[1], &[3]], &[&[2]]],
        apart: &[(0, 2), (1, 2), (3, 2)],
        trees: &[0],
        ..PLAIN
    },
    Scenario {
        name: "a known joiner twice, and its copy",
        docs: &[text(0, &[0], 1, 3), text(1, &[0, 1, 2], 2, 4), text(1, &[0, 1, 2], 2, 4), text(1, &[0, 1, 2], 2, 4)],
        bulks: &[&[&[1], &[2]], &[&[3]]],
        trees: &[0],
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
pub(super) const THREE: &[Scenario] = &[
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

/// Fingerprints at most one bit apart are near: each node is named in two buckets.
const NEAR: Scenario = Scenario { k: 1, ..PLAIN };

pub(super) const NEAR_ONES: &[Scenario] = &[
    Scenario { name: "copies", docs: &[text(0, &[1], 1, 64), ranked(text(0, &[1], 1, 64), 1)], ..NEAR },
    Scenario { name: "one bit apart", docs: &[text(0, &[1], 1, 64), text(1, &[3], 1, 65)], ..NEAR },
    Scenario {
        name: "one bit apart, the first is refused",
        docs: &[refused(text(0, &[1], 1, 64)), text(1, &[3], 1, 65)],
        ..NEAR
    },
    Scenario {
        name: "a chain of two and one",
        docs: &[text(0, &[1], 1, 64), text(1, &[3], 1, 65), text(2, &[7], 1, 66)],
        bulks: &[&[&[0, 2]], &[&[1]]],
        also: &[&[Some(0), Some(1), Some(1)]],
        ..NEAR
    },
];

/// Three bits apart, in three of five blocks: of ten buckets they have one in common.
const THREE_BITS: u64 = 1 | 1 << 12 | 1 << 25;
const NEAR_THREE: Scenario = Scenario { k: 3, ..PLAIN };
const FAR: [u64; 3] = [0x5555_5555_5555_5555, 0x3333_3333_3333_3333, 0x0F0F_0F0F_0F0F_0F0F];

/// Fingerprints at most three bits apart are near: each node is named in ten buckets.
pub(super) const NEAR_THREE_ONES: &[Scenario] = &[
    Scenario {
        name: "three bits apart",
        docs: &[text(0, &[0], 1, FAR[0]), text(1, &[THREE_BITS], 1, FAR[1])],
        ..NEAR_THREE
    },
    Scenario {
        name: "three bits apart, the first is refused",
        docs: &[refused(text(0, &[0], 1, FAR[0])), text(1, &[THREE_BITS], 1, FAR[1])],
        ..NEAR_THREE
    },
    Scenario {
        name: "three bits apart, not agreeing",
        docs: &[text(0, &[0], 1, FAR[0]), text(1, &[THREE_BITS], 1, FAR[1])],
        apart: &[(0, 1)],
        ..NEAR_THREE
    },
    Scenario {
        name: "one in the middle, then the other end",
        docs: &[
            text(0, &[0], 1, FAR[0]),
            text(1, &[THREE_BITS], 1, FAR[1]),
            text(2, &[THREE_BITS | 1 << 38 | 1 << 51], 1, FAR[2]),
        ],
        bulks: &[&[&[0]], &[&[1], &[2]]],
        also: &[&[Some(0), Some(1), Some(1)]],
        ..NEAR_THREE
    },
    Scenario {
        name: "three of them, each near both others",
        docs: &[
            text(0, &[0], 1, FAR[0]),
            text(1, &[THREE_BITS], 1, FAR[1]),
            text(2, &[1 | 1 << 12 | 1 << 38], 1, FAR[2]),
        ],
        bulks: EACH_OF_THREE,
        attempts: 2,
        ..NEAR_THREE
    },
];

const DATED: Scenario = Scenario { is_dated: true, ..PLAIN };

/// Documents with dates of their own, in steps.
pub(super) const DATED_ONES: &[Scenario] = &[
    Scenario {
        name: "two copies, one of the next step",
        docs: &[ranked(text(0, &[0, 1], 2, 3), 5), ranked(text(0, &[0, 1], 2, 3), 6)],
        ..DATED
    },
    Scenario {
        name: "two versions before the first date",
        docs: &[ranked(text(0, &[0, 1], 2, 3), 6), ranked(text(1, &[1, 0], 2, 4), 5)],
        ..DATED
    },
    Scenario {
        name: "a known one and one that only a leaf leads there",
        docs: &[ranked(text(0, &[0, 1], 2, 3), 5), ranked(text(0, &[0, 1], 2, 3), 5), ranked(text(1, &[1], 1, 4), 6)],
        bulks: &[&[&[1]], &[&[2]]],
        trees: &[0],
        ..DATED
    },
    Scenario {
        name: "the first is refused",
        docs: &[refused(ranked(text(0, &[0, 1], 2, 3), 6)), ranked(text(1, &[1, 0], 2, 4), 5)],
        ..DATED
    },
    Scenario {
        name: "a known one while the clock leaps",
        docs: &[ranked(text(0, &[0, 1], 2, 3), 5), ranked(text(1, &[1], 1, 4), 60), ranked(text(2, &[2], 1, 5), 80)],
        bulks: &[&[&[1]], &[&[2]]],
        trees: &[0],
        leaps: true,
        ..DATED
    },
    Scenario {
        name: "a known one while the clock leaps and a sweep begins",
        docs: &[ranked(text(0, &[0, 1], 2, 3), 10), ranked(text(1, &[1], 1, 4), 70), ranked(text(2, &[2], 1, 5), 80)],
        bulks: &[&[&[1]], &[&[2]]],
        trees: &[0],
        leaps: true,
        ..DATED
    },
    Scenario {
        name: "two known ones, and the clock goes on",
        docs: &[
            ranked(text(0, &[0, 1], 2, 3), 5),
            ranked(text(0, &[0, 1], 2, 3), 60),
            ranked(text(0, &[0, 1], 2, 3), 30),
            ranked(text(1, &[2], 1, 4), 100),
        ],
        bulks: &[&[&[1], &[3]], &[&[2]]],
        trees: &[0],
        leaps: true,
        ..DATED
    },
];

/// Two groups, and documents of both.
const CORRECTED: Scenario = Scenario {
    docs: &[text(0, &[0], 1, 10), text(1, &[1], 1, 11), text(1, &[1], 1, 11), text(2, &[1, 2], 2, 12)],
    apart: &[(0, 1), (0, 2), (0, 3)],
    trees: &[0, 1],
    ..PLAIN
};

/// People who correct groups while documents come.
pub(super) const PEOPLE: &[Scenario] = &[
    Scenario {
        name: "a merge while a document of the loser comes",
        bulks: &[&[], &[&[2]]],
        people: &[&[Correction::Merge { winner: 0, loser: 1 }]],
        ..CORRECTED
    },
    Scenario {
        name: "a merge that is undone while two of the loser come",
        bulks: &[&[], &[&[2], &[3]]],
        people: &[&[Correction::Merge { winner: 0, loser: 1 }, Correction::Undo]],
        ..CORRECTED
    },
    Scenario {
        name: "a text is split off while it comes",
        bulks: &[&[&[3]], &[&[2]]],
        people: &[&[Correction::Pin { whole: 11, root: 77, shown: 1 }]],
        ..CORRECTED
    },
    Scenario {
        name: "two people, one process each",
        bulks: &[&[], &[&[2]]],
        people: &[&[Correction::Merge { winner: 0, loser: 1 }], &[Correction::Pin { whole: 11, root: 77, shown: 1 }]],
        ..CORRECTED
    },
    Scenario {
        name: "a text is pinned to a group that is merged away, and then not",
        bulks: &[&[&[3]], &[&[2]]],
        people: &[
            &[Correction::Pin { whole: 12, root: 0, shown: 1 }, Correction::Undo],
            &[Correction::Merge { winner: 1, loser: 0 }],
        ],
        ..CORRECTED
    },
];
