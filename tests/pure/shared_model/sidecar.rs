//! One sidecar: what it asks for next when all replies of a round trip are in.

mod claims;
mod founding;

use super::law::View;
use super::scenarios::{PER_BULK, Scenario, Variant};
use super::store::{KEYS, Key, Op, Request, Token, Value};
use super::world::{Choices, History};

/// Commands of a round trip, at most.
pub const OPS: usize = 14;
/// A document whose attempts to found a tree have all failed ends the path.
pub const ATTEMPTS: u8 = 3;

/// What the commands are for that a sidecar waits for, or why it waits for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// Its next bulk has not come.
    #[default]
    Idle,
    Look,
    Roots,
    Claim,
    Leaves,
    Again,
    AgainRoots,
    Strike,
    Confirm,
    Yield,
    /// All are placed; the next step forwards the bulk.
    Forward,
    Release,
    Drop,
    Done,
    Crashed,
    /// A document has had all its attempts.
    Cut,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    #[default]
    Todo,
    /// Its own provisional root.
    Founds,
    /// The same, with something to look at again.
    Looks,
    /// The same, with nothing left but to give way.
    Yields,
    /// A confirmed tree.
    Joins,
    /// A tree that an earlier document of the bulk founds.
    Follows,
    Placed,
}

pub type Pin = (Key, Token);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Doc {
    pub stage: Stage,
    pub attempt: u8,
    pub root: Key,
    pub token: Token,
    /// Place of the founder that it follows.
    leader: u8,
    /// Keys that it wants as new leaves, and those that it got.
    wanted: u8,
    owned: u8,
    is_known: bool,
    /// It wants the hash of its whole text, too.
    wants_whole: bool,
    /// Something was lost to another tree: it begins again.
    has_lost: bool,
    /// The tree that counts it among its uses, and one that does so no longer with reason.
    pinned: Option<Pin>,
    spare: Option<Pin>,
}

#[derive(Clone, Copy, Debug)]
pub struct Side {
    pub phase: Phase,
    pub bulk: u8,
    pub now: u8,
    view: View,
    pub docs: [Doc; PER_BULK],
    pub ops: [Request; OPS],
    found: [Value; OPS],
    pub count: usize,
    /// A bit for each command that has no reply yet.
    pub left: u16,
}

impl Default for Side {
    fn default() -> Self {
        Side {
            phase: Phase::Idle,
            bulk: 0,
            now: 0,
            view: View::default(),
            docs: Default::default(),
            ops: Default::default(),
            found: Default::default(),
            count: 0,
            left: 0,
        }
    }
}

/// What a sidecar works with beside its own state.
pub struct Desk<'a> {
    pub scenario: &'a Scenario,
    pub variant: Variant,
    /// The documents of its bulk.
    pub bulk: &'a [usize],
    /// Bulks it has in all.
    pub bulks: usize,
    pub history: &'a mut History,
    pub choices: &'a mut Choices,
}

fn keys(mask: u8) -> impl Iterator<Item = Key> {
    (0..KEYS as Key).filter(move |key| mask & 1 << key != 0)
}

impl Side {
    /// It is gone, with all that it knew.
    pub fn crashed() -> Self {
        Side { phase: Phase::Crashed, ..Side::default() }
    }

    pub fn words(&self, mut sink: impl FnMut(u64)) {
        let phase = self.phase as u64;
        sink(
            phase << 48
                | u64::from(self.bulk) << 40
                | u64::from(self.now) << 32
                | u64::from(self.left) << 16
                | self.count as u64,
        );
        self.view.iter().for_each(|value| sink(value.code()));
        for doc in &self.docs {
            let pin = |pin: Option<Pin>| pin.map_or(0, |(key, token)| 1 << 15 | u64::from(key) << 8 | u64::from(token));
            sink(
                doc.stage as u64
                    | u64::from(doc.attempt) << 8
                    | u64::from(doc.root) << 16
                    | u64::from(doc.token) << 24
                    | u64::from(doc.leader) << 32
                    | u64::from(doc.wanted) << 40
                    | u64::from(doc.owned) << 48
                    | u64::from(doc.is_known) << 56
                    | u64::from(doc.has_lost) << 57
                    | u64::from(doc.wants_whole) << 58,
            );
            sink(pin(doc.pinned) | pin(doc.spare) << 16);
        }
        for (request, found) in self.ops.iter().zip(&self.found).take(self.count) {
            let (one, two) = request.op.code();
            sink(one);
            sink(two ^ u64::from(request.key) << 56 | u64::from(request.doc) << 52);
            sink(found.code());
        }
    }

    /// The bulk comes.
    pub fn begin(&mut self, now: u8, desk: &mut Desk<'_>) {
        self.now = now;
        self.docs = Default::default();
        self.look(desk);
        self.advance(desk);
    }

    /// A reply has come.
    pub fn replied(&mut self, at: usize, found: Value) {
        self.found[at] = found;
        self.left &= !(1 << at);
    }

    /// Goes on as far as it can without a reply.
    pub fn advance(&mut self, desk: &mut Desk<'_>) {
        use Phase::{
            Again, AgainRoots, Claim, Confirm, Crashed, Cut, Done, Drop, Forward, Idle, Leaves, Look, Release, Roots,
            Strike, Yield,
        };
        while self.left == 0 {
            match self.phase {
                Idle | Done | Crashed | Cut | Forward => return,
                Look | Again => self.resolved(desk),
                Roots | AgainRoots => self.rooted(desk),
                Claim => self.claimed(desk),
                Leaves => self.left_leaves(desk),
                Strike => self.struck(desk),
                Confirm => self.confirmed(desk),
                Yield => self.yielded(desk),
                Release => self.released(desk),
                Drop => self.next_bulk(desk),
            }
        }
    }

    /// Waits for nothing more of this bulk's attempts: whoever is not placed begins again.
    pub fn anew(&mut self, desk: &mut Desk<'_>) {
        if matches!(self.phase, Phase::Release | Phase::Drop) {
            // What is being withdrawn stays as it is.
            self.ask(Phase::Drop, &[]);
        } else {
            for doc in self.docs.iter_mut().filter(|doc| doc.stage != Stage::Placed) {
                doc.begin_again();
            }
            self.look(desk);
        }
        self.advance(desk);
    }

    fn ask(&mut self, phase: Phase, requests: &[Request]) {
        assert!(requests.len() <= OPS, "more commands than there is room for");
        self.phase = phase;
        self.ops = Default::default();
        self.found = Default::default();
        self.ops[..requests.len()].copy_from_slice(requests);
        self.count = requests.len();
        self.left = ((1u32 << self.count) - 1) as u16;
    }

    fn gets(&mut self, phase: Phase, mask: u8) {
        let gets: Vec<Request> = keys(mask).map(|key| Request { key, doc: 0, op: Op::Get }).collect();
        self.ask(phase, &gets);
    }

    fn spots(desk: &Desk<'_>, doc: usize) -> u8 {
        desk.scenario.docs[doc].prints.iter().fold(0, |mask, &key| mask | 1 << key)
    }

    // ---- 1, 2: look ----

    fn look(&mut self, desk: &Desk<'_>) {
        self.view = View::default();
        let mut mask = 0;
        for (doc, &of) in self.docs.iter().zip(desk.bulk) {
            if doc.stage == Stage::Todo {
                mask |= Self::spots(desk, of) | 1 << desk.scenario.docs[of].whole;
            }
        }
        self.gets(Phase::Look, mask);
    }

    fn resolved(&mut self, desk: &mut Desk<'_>) {
        let mut read = 0;
        let mut roots = 0;
        for (request, found) in self.ops.iter().zip(&self.found).take(self.count) {
            self.view[usize::from(request.key)] = *found;
            read |= 1 << request.key;
            if let Some(leaf) = found.leaf() {
                roots |= 1 << leaf.root;
            }
        }
        if desk.variant == Variant::RootsNotReadAgain {
            roots &= !read;
        }
        let next = if self.phase == Phase::Look { Phase::Roots } else { Phase::AgainRoots };
        self.gets(next, roots);
    }

    fn rooted(&mut self, desk: &mut Desk<'_>) {
        let mut more = 0;
        for at in 0..self.count {
            let (key, found) = (usize::from(self.ops[at].key), self.found[at]);
            if let Some(leaf) = found.leaf()
                && self.view[key] != found
            {
                more |= 1 << leaf.root;
            }
            self.view[key] = found;
        }
        if more != 0 && desk.variant != Variant::OneHop {
            return self.gets(self.phase, more);
        }
        match self.phase {
            Phase::Roots => self.plan(desk),
            _ => self.strike(desk),
        }
    }
}

impl Doc {
    /// Begins at the look, with a new token if it comes to that. It stays among the uses of a tree that it has pinned.
    fn begin_again(&mut self) {
        *self = Doc { attempt: self.attempt, pinned: self.pinned, spare: self.spare, ..Doc::default() };
    }

    /// It has its place, unless something was lost to another tree.
    fn settle(&mut self, variant: Variant) {
        if self.has_lost && variant != Variant::JoinerIsDone {
            self.begin_again();
        } else {
            self.stage = Stage::Placed;
        }
    }

    fn rests_on(&mut self, root: Key, token: Token) {
        if self.pinned != Some((root, token)) {
            self.spare = self.pinned.or(self.spare);
            self.pinned = Some((root, token));
        }
    }
}
