//! The second half of a sidecar: founders look again, confirm or yield; then the outcome of the bulk.

use super::{Desk, Doc, Phase, Pin, Side, Stage, keys};
use crate::shared_model::law::{View, tree_of};
use crate::shared_model::scenarios::Variant;
use crate::shared_model::store::{Leaf, Op, Request, Root, Value};
use crate::shared_model::world::Answer;

impl Side {
    // ---- 5: look again ----

    /// Founders look at what they offered and do not hold; who joins, once, for a root that the very text has founded.
    pub(super) fn again(&mut self, desk: &mut Desk<'_>, is_first: bool) {
        let mut mask = 0;
        for (doc, &of) in self.docs.iter().zip(desk.bulk) {
            let joins = matches!(doc.stage, Stage::Joins | Stage::Follows) && !doc.is_known && !doc.has_lost;
            if doc.stage == Stage::Looks || (is_first && joins && desk.variant != Variant::JoinerLooksOnce) {
                mask |= Self::spots(desk, of) & !doc.owned & !(1 << doc.root);
            }
        }
        keys(mask).for_each(|key| self.view[usize::from(key)] = Value::Free);
        self.gets(Phase::Again, mask);
    }

    pub(super) fn strike(&mut self, desk: &mut Desk<'_>) {
        let mut requests = Vec::new();
        for at in 0..desk.bulk.len() {
            if matches!(self.docs[at].stage, Stage::Joins | Stage::Follows) && !self.docs[at].is_known {
                self.docs[at].has_lost |= self.sees_its_text(desk, at);
            }
            if self.docs[at].stage != Stage::Looks {
                continue;
            }
            match self.strikes(desk, at) {
                None => self.fall_back(at, Stage::Yields),
                Some(none) if none.is_empty() => self.docs[at].stage = Stage::Founds,
                Some(more) => {
                    for request in more {
                        if !requests.iter().any(|&sent: &Request| sent.key == request.key && sent.op == request.op) {
                            requests.push(request);
                        }
                    }
                }
            }
        }
        self.ask(Phase::Strike, &requests);
    }

    /// Whether the very text of a document that joins has founded another tree.
    pub(super) fn sees_its_text(&self, desk: &Desk<'_>, at: usize) -> bool {
        let (doc, texts) = (&self.docs[at], desk.scenario.docs);
        let text = &texts[desk.bulk[at]];
        let roots = text.prints.iter().filter_map(|&key| self.view[usize::from(key)].root());
        let mut of_text = roots.filter(|root| texts[usize::from(root.founder)].text == text.text);
        desk.variant != Variant::JoinerLooksOnce && of_text.any(|root| root.token != doc.token)
    }

    /// What a founder does about what it sees; none if it gives way.
    pub(super) fn strikes(&self, desk: &Desk<'_>, at: usize) -> Option<Vec<Request>> {
        let (doc, of) = (&self.docs[at], desk.bulk[at]);
        let mut requests = Vec::new();
        for &key in desk.scenario.docs[of].prints {
            if key == doc.root || doc.owned & 1 << key != 0 {
                continue;
            }
            match tree_of(&self.view, key) {
                None if doc.wanted & 1 << key != 0 => {
                    let leaf = Leaf { root: doc.root, token: doc.token, stamp: self.now };
                    requests.push(self.claim(at, key, Value::Leaf(leaf)));
                }
                Some((root, tree)) if !self.is_own(tree.token) => {
                    let founder = usize::from(tree.founder);
                    if !desk.scenario.agrees(of, founder) {
                        continue;
                    }
                    let outranked = desk.scenario.docs[founder].rank < desk.scenario.docs[of].rank;
                    if tree.is_confirmed || outranked {
                        return None;
                    }
                    if desk.variant != Variant::NoKill {
                        let op = Op::Kill(tree.token);
                        requests.push(Request { key: root, doc: at as u8, op });
                    }
                }
                _ => {}
            }
        }
        Some(requests)
    }

    pub(super) fn struck(&mut self, desk: &mut Desk<'_>) {
        for at in 0..self.count {
            let (Request { key, doc, op }, found) = (self.ops[at], self.found[at]);
            match op {
                Op::Kill(token) if found.is_confirmed(token) => {
                    self.fall_back(usize::from(doc), Stage::Yields);
                }
                Op::SetNew(_) | Op::Swap(..) if self.is_granted(at) => {
                    self.docs[usize::from(doc)].owned |= 1 << key;
                }
                _ => {}
            }
        }
        if desk.variant == Variant::ConfirmAfterKill {
            let all = self.docs.iter_mut().filter(|doc| doc.stage == Stage::Looks);
            all.for_each(|doc| doc.stage = Stage::Founds);
        }
        if self.docs.iter().any(|doc| doc.stage == Stage::Looks) {
            return self.again(desk, false);
        }
        self.confirm(desk);
    }

    // ---- 6, 7: confirm or yield ----

    pub(super) fn confirm(&mut self, desk: &Desk<'_>) {
        let mut requests = Vec::new();
        for (at, (doc, &of)) in self.docs.iter().zip(desk.bulk).enumerate() {
            let joins = matches!(doc.stage, Stage::Joins | Stage::Follows);
            if joins && doc.wants_whole && (!doc.has_lost || desk.variant == Variant::JoinerIsDone) {
                let leaf = Leaf { root: doc.root, token: doc.token, stamp: self.now };
                requests.push(self.claim(at, desk.scenario.docs[of].whole, Value::Leaf(leaf)));
            }
        }
        for (at, doc) in self.docs.iter().enumerate() {
            if doc.stage == Stage::Founds {
                let follows = |other: &&Doc| other.stage == Stage::Follows && usize::from(other.leader) == at;
                let uses = 1 + self.docs.iter().filter(follows).count() as u8;
                let op = Op::Confirm { token: doc.token, uses, stamp: self.now };
                requests.push(Request { key: doc.root, doc: at as u8, op });
            }
        }
        self.ask(Phase::Confirm, &requests);
    }

    pub(super) fn confirmed(&mut self, desk: &mut Desk<'_>) {
        self.hold();
        for doc in &mut self.docs {
            if doc.stage == Stage::Joins {
                doc.settle(desk.variant);
            }
        }
        for at in 0..self.count {
            let Request { key, doc, op } = self.ops[at];
            let Op::Confirm { token, uses, .. } = op else {
                continue;
            };
            let leader = usize::from(doc);
            let by_value = desk.variant == Variant::ConfirmsByValue;
            let is_own = |root: Root| {
                let is_same = !root.is_confirmed || root.uses == uses;
                root.token == token && (is_same || !by_value)
            };
            if !self.found[at].root().is_some_and(is_own) {
                self.fall_back(leader, Stage::Yields);
                continue;
            }
            for (other, doc) in self.docs.iter_mut().enumerate() {
                let is_of = doc.stage == Stage::Follows && usize::from(doc.leader) == leader;
                if other != leader && !is_of {
                    continue;
                }
                doc.rests_on(key, token);
                match is_of {
                    true => doc.settle(desk.variant),
                    false => doc.stage = Stage::Placed,
                }
            }
            desk.history.founded(desk.bulk[leader], 1 << key | self.docs[leader].owned);
        }
        let mut requests = Vec::new();
        for (at, doc) in self.docs.iter().enumerate() {
            if doc.stage == Stage::Yields {
                let (root, token) = (doc.root, doc.token);
                let at = at as u8;
                requests.push(Request { key: root, doc: at, op: Op::Kill(token) });
                let drop = |key| Request { key, doc: at, op: Op::Drop { root, token } };
                requests.extend(keys(doc.owned).map(drop));
            }
        }
        self.ask(Phase::Yield, &requests);
    }

    pub(super) fn yielded(&mut self, desk: &mut Desk<'_>) {
        let yields = self.docs.iter_mut().filter(|doc| doc.stage == Stage::Yields);
        yields.for_each(Doc::begin_again);
        let mut docs = self.docs.iter().take(desk.bulk.len());
        if docs.any(|doc| doc.stage == Stage::Todo) {
            return self.look(desk);
        }
        self.view = View::default();
        self.ask(Phase::Forward, &[]);
    }

    // ---- the outcome ----

    /// The cluster has answered: who was accepted has its root, who was refused is withdrawn.
    pub fn forward(&mut self, desk: &mut Desk<'_>) {
        let mut requests = Vec::new();
        for (at, &of) in desk.bulk.iter().enumerate() {
            let doc = &mut self.docs[at];
            let release = |(key, token): Pin| Request { key, doc: at as u8, op: Op::Release(token) };
            requests.extend(doc.spare.take().map(release));
            if desk.scenario.docs[of].refused {
                requests.extend(doc.pinned.map(release));
            } else {
                desk.history.answers[of] = Some(Answer { root: doc.root, token: doc.token, now: self.now });
            }
        }
        self.ask(Phase::Release, &requests);
        self.advance(desk);
    }

    pub(super) fn released(&mut self, desk: &mut Desk<'_>) {
        let mut requests = Vec::new();
        for at in 0..self.count {
            let Request { key, doc: of, op } = self.ops[at];
            let Op::Release(token) = op else { continue };
            let doc = &self.docs[usize::from(of)];
            let root = self.found[at].root().filter(|root| root.token == token);
            let has_gone = root.is_some_and(|root| root.uses == 1) || desk.variant == Variant::DropsLeaves;
            if has_gone && doc.pinned == Some((key, token)) {
                let drop = |leaf| Request { key: leaf, doc: of, op: Op::Drop { root: key, token } };
                requests.extend(keys(doc.owned).map(drop));
            }
        }
        self.ask(Phase::Drop, &requests);
    }

    pub(super) fn next_bulk(&mut self, desk: &mut Desk<'_>) {
        self.bulk += 1;
        let is_last = usize::from(self.bulk) == desk.bulks;
        self.ask(if is_last { Phase::Done } else { Phase::Idle }, &[]);
        self.docs = Default::default();
        self.now = 0;
    }
}
