//! What a sidecar plans of what it has read: root claims and pins, then leaf claims.

use super::{ATTEMPTS, Desk, Doc, Phase, Side, Stage, keys};
use crate::shared_model::law::{Decision, decide, wanted};
use crate::shared_model::scenarios::Variant;
use crate::shared_model::store::{Key, Leaf, Op, Request, Root, Token, Value};

impl Side {
    // ---- 3: root claims and pins ----

    pub(super) fn is_own(&self, token: Token) -> bool {
        use Stage::{Founds, Looks};
        self.docs.iter().any(|doc| matches!(doc.stage, Founds | Looks) && doc.token == token)
    }

    pub(super) fn plan(&mut self, desk: &mut Desk<'_>) {
        let mut view = self.view;
        let mut requests: Vec<Request> = Vec::new();
        for (at, &of) in desk.bulk.iter().enumerate() {
            if self.docs[at].stage != Stage::Todo {
                continue;
            }
            let first = desk.variant == Variant::ConfirmedFirst;
            let decision = decide(desk.scenario, of, &view, |token| self.is_own(token), first);
            let mut doc =
                Doc { wanted: 0, owned: 0, is_known: false, wants_whole: false, has_lost: false, ..self.docs[at] };
            let tree = match decision {
                Decision::Known(tree) => {
                    doc.is_known = true;
                    Some(tree)
                }
                Decision::Join(trees) => Some(trees[desk.choices.of(trees.len())]),
                Decision::Wait(trees) => {
                    // It looks again, or it does not want to wait for one of them any longer.
                    let killed = desk.choices.of(trees.len() + 1);
                    if let Some(&(key, root)) = killed.checked_sub(1).map(|at| &trees[at]) {
                        requests.push(Request { key, doc: at as u8, op: Op::Kill(root.token) });
                    }
                    continue;
                }
                Decision::Outside => {
                    self.phase = Phase::Cut;
                    return;
                }
                Decision::Found(root) => {
                    if doc.attempt == desk.scenario.attempts {
                        self.ask(Phase::Cut, &[]);
                        return;
                    }
                    let attempt = if desk.variant == Variant::SameToken { 0 } else { doc.attempt };
                    doc.attempt += 1;
                    doc.stage = Stage::Founds;
                    doc.root = root;
                    doc.token = 1 + of as u8 * ATTEMPTS + attempt;
                    (doc.wanted, _) = wanted(desk.scenario, of, &view, root, true);
                    let new = Value::Root(Root {
                        is_confirmed: false,
                        token: doc.token,
                        founder: of as u8,
                        uses: 0,

                        stamp: 0,
                    });
                    requests.push(self.claim(at, root, new));
                    view[usize::from(root)] = new;
                    None
                }
            };
            if let Some((key, root)) = tree {
                (doc.root, doc.token) = (key, root.token);
                if !doc.is_known {
                    (doc.wanted, doc.wants_whole) = wanted(desk.scenario, of, &view, key, false);
                    if desk.variant == Variant::WholeWithLeaves && doc.wants_whole {
                        doc.wanted |= 1 << desk.scenario.docs[of].whole;
                        doc.wants_whole = false;
                    }
                }
                if root.is_confirmed {
                    doc.stage = Stage::Joins;
                    if doc.pinned != Some((key, root.token)) && desk.variant != Variant::NoPin {
                        self.pin(&mut requests, at, key, root.token);
                    }
                } else {
                    doc.stage = Stage::Follows;
                    let leads = |other: &Doc| other.stage == Stage::Founds && other.token == root.token;
                    doc.leader = self.docs.iter().position(leads).map_or(0, |leader| leader as u8);
                }
            }
            let leaf = Value::Leaf(Leaf { root: doc.root, token: doc.token, stamp: self.now });
            keys(doc.wanted).for_each(|key| view[usize::from(key)] = leaf);
            if doc.wants_whole {
                view[usize::from(desk.scenario.docs[of].whole)] = leaf;
            }
            self.docs[at] = doc;
        }
        if desk.variant == Variant::LeavesWithRoot {
            for at in 0..desk.bulk.len() {
                if self.docs[at].stage == Stage::Founds {
                    self.leaf_requests(desk, at, &mut requests);
                }
            }
        }
        self.ask(Phase::Claim, &requests);
    }

    /// One pin for a root and bulk.
    pub(super) fn pin(&self, requests: &mut Vec<Request>, at: usize, key: Key, token: Token) {
        for request in requests.iter_mut() {
            if let Op::Pin { token: of, more, .. } = &mut request.op
                && *of == token
            {
                *more += 1;
                return;
            }
        }
        let op = Op::Pin { token, more: 1, stamp: self.now };
        requests.push(Request { key, doc: at as u8, op });
    }

    /// Takes a key that was read as free, or as held by a dead leaf.
    pub(super) fn claim(&self, at: usize, key: Key, new: Value) -> Request {
        let op = match self.view[usize::from(key)] {
            Value::Free => Op::SetNew(new),
            dead => Op::Swap(dead, new),
        };
        Request { key, doc: at as u8, op }
    }

    /// Whether a claim was granted: there was nothing, or what it was to replace, or it had been granted before.
    pub(super) fn is_granted(&self, at: usize) -> bool {
        let found = self.found[at];
        match self.ops[at].op {
            Op::SetNew(new) => found == Value::Free || found == new,
            Op::Swap(old, new) => found == Value::Free || found == old || found == new,
            _ => false,
        }
    }

    pub(super) fn claimed(&mut self, desk: &mut Desk<'_>) {
        for at in 0..self.count {
            let (Request { key, doc, op }, found) = (self.ops[at], self.found[at]);
            match op {
                Op::SetNew(Value::Root(_)) | Op::Swap(_, Value::Root(_)) if !self.is_granted(at) => {
                    self.fall_back(usize::from(doc), Stage::Todo);
                }
                Op::Pin { token, .. } => {
                    let is_pinned = found.is_confirmed(token);
                    for doc in &mut self.docs {
                        if doc.stage == Stage::Joins && (doc.root, doc.token) == (key, token) {
                            if is_pinned {
                                doc.rests_on(key, token);
                            } else {
                                doc.begin_again();
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        if desk.variant == Variant::LeavesWithRoot {
            // They went out with the claims.
            return self.left_leaves(desk);
        }
        let mut requests = Vec::new();
        for at in 0..desk.bulk.len() {
            self.leaf_requests(desk, at, &mut requests);
        }
        self.ask(Phase::Leaves, &requests);
    }

    /// A founder that comes to nothing takes with it those who follow it.
    pub(super) fn fall_back(&mut self, at: usize, to: Stage) {
        let set = |doc: &mut Doc| match to {
            Stage::Todo => doc.begin_again(),
            _ => doc.stage = to,
        };
        set(&mut self.docs[at]);
        for doc in &mut self.docs {
            if doc.stage == Stage::Follows && usize::from(doc.leader) == at {
                set(doc);
            }
        }
    }

    // ---- 4: leaf claims ----

    pub(super) fn leaf_requests(&self, desk: &Desk<'_>, at: usize, requests: &mut Vec<Request>) {
        let doc = &self.docs[at];
        if !matches!(doc.stage, Stage::Founds | Stage::Joins | Stage::Follows) {
            return;
        }
        let leaf = Leaf { root: doc.root, token: doc.token, stamp: self.now };
        requests.extend(keys(doc.wanted).map(|key| self.claim(at, key, Value::Leaf(leaf))));
        if doc.stage == Stage::Joins {
            let text = &desk.scenario.docs[desk.bulk[at]];
            for &key in text.prints.iter().chain([&text.whole]) {
                let old = self.view[usize::from(key)];
                let is_old = |of: Leaf| (of.root, of.token) == (doc.root, doc.token) && of.stamp < self.now;
                if old.leaf().is_some_and(is_old) {
                    requests.push(Request { key, doc: at as u8, op: Op::Swap(old, Value::Leaf(leaf)) });
                }
            }
        }
    }

    pub(super) fn left_leaves(&mut self, desk: &mut Desk<'_>) {
        self.hold();
        for doc in &mut self.docs {
            match doc.stage {
                Stage::Founds if desk.variant != Variant::NoLookAgain => doc.stage = Stage::Looks,
                _ => {}
            }
        }
        self.again(desk, true);
    }

    /// Which leaves were granted, and whether one was lost to another tree.
    pub(super) fn hold(&mut self) {
        for at in 0..self.count {
            let Request { key, doc, op } = self.ops[at];
            let (Op::SetNew(Value::Leaf(new)) | Op::Swap(_, Value::Leaf(new))) = op else {
                continue;
            };
            let is_granted = self.is_granted(at);
            let doc = &mut self.docs[usize::from(doc)];
            if is_granted {
                doc.owned |= 1 << key;
            } else {
                let is_same = |leaf: Leaf| (leaf.root, leaf.token) == (new.root, new.token);
                doc.has_lost |= !self.found[at].leaf().is_some_and(is_same);
            }
        }
    }
}
