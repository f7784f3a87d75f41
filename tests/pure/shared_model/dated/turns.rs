//! What a sidecar does next when all replies of a round trip are in.

use super::{ATTEMPTS, KEYS, Keys, Node, Op, Phase, Search, Sidecar, World, tree_at};

fn has(keys: Keys, key: usize) -> bool {
    keys >> key & 1 == 1
}

fn each(keys: Keys) -> impl Iterator<Item = usize> {
    (0..KEYS).filter(move |&key| has(keys, key))
}

impl Search<'_> {
    pub(super) fn look(&self, sidecar: &mut Sidecar, at: usize) {
        sidecar.seen = Default::default();
        (sidecar.followed, sidecar.failed) = (0, 0);
        sidecar.phase = Phase::Look;
        sidecar.ops = vec![Op::Clock];
        let prints = self.case.prints[at].iter();
        sidecar.ops.extend(prints.map(|&key| Op::Read(key)));
    }

    /// Reads the roots that leaves name, and what these keys lead to if they hold leaves by now.
    fn follow(sidecar: &mut Sidecar) -> bool {
        let mut named: Keys = 0;
        for node in sidecar.seen {
            if let Node::Leaf { root, .. } = node {
                named |= 1 << root;
            }
        }
        named &= !sidecar.followed;
        sidecar.followed |= named;
        sidecar.ops = each(named).map(Op::Read).collect();
        named != 0
    }

    /// All replies are in. What comes next, of which there may be several.
    pub(super) fn advance(&self, world: &World, at: usize, all: &mut Vec<World>) {
        let mut sidecar = world.sidecars[at].clone();
        let mut push = |sidecar: Sidecar| {
            let mut after = world.clone();
            after.sidecars[at] = sidecar;
            all.push(after);
        };
        let prints = self.case.prints[at];
        let failed = sidecar.failed;
        match sidecar.phase {
            Phase::Look | Phase::Roots => {
                sidecar.phase = Phase::Roots;
                if Self::follow(&mut sidecar) {
                    return push(sidecar);
                }
                for next in self.decide(sidecar, at) {
                    push(next);
                }
            }
            Phase::Wait => {
                self.look(&mut sidecar, at);
                push(sidecar);
            }
            Phase::Pin | Phase::Claim if failed != 0 => push(self.again(&sidecar, at)),
            Phase::Pin => {
                let (root, token) = sidecar.tree.unwrap_or_default();
                sidecar.ops = self.leaves(&sidecar, root, token);
                sidecar.phase = Phase::JoinerLeaves;
                push(self.or_placed(sidecar, at));
            }
            Phase::JoinerLeaves if failed != 0 => {
                let (root, token) = sidecar.tree.unwrap_or_default();
                sidecar.ops = vec![Op::Release(root, token)];
                sidecar.phase = Phase::Yield;
                push(sidecar);
            }
            Phase::JoinerLeaves => push(self.placed(sidecar, at)),
            Phase::Claim => {
                sidecar.ops = self.leaves(&sidecar, prints[0], sidecar.token);
                sidecar.phase = Phase::Leaves;
                if sidecar.ops.is_empty() {
                    sidecar = self.look_again(sidecar, at);
                }
                push(sidecar);
            }
            Phase::Leaves | Phase::Mend => {
                sidecar.own &= !failed;
                sidecar.failed = 0;
                push(self.look_again(sidecar, at));
            }
            Phase::LookAgain | Phase::RootsAgain => {
                sidecar.phase = Phase::RootsAgain;
                if Self::follow(&mut sidecar) {
                    return push(sidecar);
                }
                push(self.mend(sidecar, at));
            }
            Phase::Confirm if failed != 0 => push(self.yields(sidecar, at)),
            Phase::Confirm => {
                sidecar.tree = Some((prints[0], sidecar.token));
                push(self.placed(sidecar, at));
            }
            Phase::Yield => push(self.again(&sidecar, at)),
            Phase::Arrive => {
                let to = sidecar.to;
                let (root, token) = sidecar.tree.unwrap_or_default();
                let leaf = |step| Node::Leaf { root, token, step };
                let is_due = |key: usize| {
                    let seen = sidecar.seen[key];
                    to != sidecar.placed || matches!(seen, Node::Leaf { step, .. } if step != to)
                };
                let own = each(sidecar.own).filter(|_| to != sidecar.placed);
                let used = each(sidecar.used).filter(|&key| is_due(key));
                let touched = own.chain(used).map(|key| Op::Touch(key, leaf(to)));
                let ops: Vec<Op> = touched.filter(|_| failed == 0).collect();
                sidecar.phase = if ops.is_empty() { Phase::Done } else { Phase::Touch };
                sidecar.ops = ops;
                push(Self::at_rest(sidecar));
            }
            Phase::Touch => {
                sidecar.phase = Phase::Done;
                push(Self::at_rest(sidecar));
            }
            Phase::Release => {
                let (_, token) = sidecar.tree.unwrap_or_default();
                let gone = each(sidecar.own).filter(|_| failed == 0);
                sidecar.ops = gone.map(|key| Op::RemoveLeaf(key, token)).collect();
                (sidecar.own, sidecar.failed) = (0, 1);
                if sidecar.ops.is_empty() {
                    sidecar.phase = Phase::Done;
                }
                push(Self::at_rest(sidecar));
            }
            Phase::Start | Phase::Done | Phase::Cut | Phase::Gone => push(sidecar),
        }
    }

    /// Those that are done differ by what is told of them alone.
    fn at_rest(mut sidecar: Sidecar) -> Sidecar {
        if sidecar.phase == Phase::Done {
            sidecar = Sidecar { phase: Phase::Done, tree: sidecar.tree, failed: sidecar.failed, ..Sidecar::default() };
        }
        sidecar
    }

    /// What a document claims besides its root: free keys, and dead ones.
    fn leaves(&self, sidecar: &Sidecar, root: usize, token: u8) -> Vec<Op> {
        let step = sidecar.placed;
        let leaf = Node::Leaf { root, token, step };
        each(sidecar.own).map(|key| Op::Put(key, sidecar.seen[key], leaf)).collect()
    }

    fn decide(&self, mut sidecar: Sidecar, at: usize) -> Vec<Sidecar> {
        let prints = self.case.prints[at];
        let clock = sidecar.clock;
        let at_key = |key: usize| tree_at(&sidecar.seen, key, clock);
        let trees: Vec<_> = prints.iter().filter_map(|&key| at_key(key)).collect();
        let free = prints.iter().filter(|&&key| at_key(key).is_none());
        let free: Keys = free.fold(0, |keys, key| keys | 1 << key);
        sidecar.placed = if clock == 0 { self.case.dates[at] } else { clock };
        if let Some(&(root, _, token, step)) = trees.iter().find(|(_, confirmed, ..)| *confirmed) {
            let leads = |key: &&usize| **key != root && at_key(**key).is_some_and(|of| of.0 == root);
            sidecar.used = prints.iter().filter(leads).fold(0, |keys, key| keys | 1 << key);
            (sidecar.own, sidecar.tree) = (free & !(1 << root), Some((root, token)));
            sidecar.root_step = step;
            sidecar.ops = vec![Op::Hold(root, token)];
            sidecar.phase = Phase::Pin;
            return vec![sidecar];
        }
        if let Some(&(root, ..)) = trees.first() {
            let mut looks = sidecar.clone();
            self.look(&mut looks, at);
            sidecar.ops = vec![Op::Remove(root, sidecar.seen[root])];
            sidecar.phase = Phase::Wait;
            return vec![looks, sidecar];
        }
        if sidecar.attempt == ATTEMPTS {
            sidecar.phase = Phase::Cut;
            return vec![sidecar];
        }
        sidecar.attempt += 1;
        sidecar.token = at as u8 * 4 + sidecar.attempt;
        (sidecar.own, sidecar.used) = (free & !(1 << prints[0]), 0);
        sidecar.root_step = sidecar.placed;
        let root = Node::Root { is_confirmed: false, token: sidecar.token, step: sidecar.placed, uses: 0 };
        sidecar.ops = vec![Op::Put(prints[0], sidecar.seen[prints[0]], root)];
        sidecar.phase = Phase::Claim;
        vec![sidecar]
    }

    /// Reads the keys that it wants and does not hold.
    fn look_again(&self, mut sidecar: Sidecar, at: usize) -> Sidecar {
        let prints = &self.case.prints[at][1..];
        let wanted = prints.iter().filter(|&&key| !has(sidecar.own, key));
        sidecar.ops = wanted.map(|&key| Op::Read(key)).collect();
        (sidecar.followed, sidecar.phase) = (0, Phase::LookAgain);
        if sidecar.ops.is_empty() {
            return self.confirms(sidecar, at);
        }
        sidecar
    }

    fn confirms(&self, mut sidecar: Sidecar, at: usize) -> Sidecar {
        sidecar.ops = vec![Op::Confirm(self.case.prints[at][0], sidecar.token)];
        sidecar.phase = Phase::Confirm;
        sidecar
    }

    /// It has looked again.
    fn mend(&self, mut sidecar: Sidecar, at: usize) -> Sidecar {
        let prints = self.case.prints[at];
        let (mut ops, held) = (Vec::new(), sidecar.own);
        for &key in prints[1..].iter().filter(|&&key| !has(held, key)) {
            match tree_at(&sidecar.seen, key, sidecar.clock) {
                Some((_, true, ..)) => return self.yields(sidecar, at),
                Some((_, _, token, _)) if token / 4 < sidecar.token / 4 => {
                    return self.yields(sidecar, at);
                }
                Some((root, _, token, _)) if token != sidecar.token => {
                    ops.push(Op::Remove(root, sidecar.seen[root]));
                }
                Some(_) => {}
                None => {
                    let (root, token, step) = (prints[0], sidecar.token, sidecar.placed);
                    let leaf = Node::Leaf { root, token, step };
                    ops.push(Op::Put(key, sidecar.seen[key], leaf));
                    sidecar.own |= 1 << key;
                }
            }
        }
        if ops.is_empty() {
            return self.confirms(sidecar, at);
        }
        (sidecar.ops, sidecar.phase) = (ops, Phase::Mend);
        sidecar
    }

    fn yields(&self, mut sidecar: Sidecar, at: usize) -> Sidecar {
        let (root, token) = (self.case.prints[at][0], sidecar.token);
        let own = Node::Root { is_confirmed: false, token, step: sidecar.placed, uses: 0 };
        sidecar.ops = vec![Op::Remove(root, own)];
        let leaves = each(sidecar.own).map(|key| Op::RemoveLeaf(key, token));
        sidecar.ops.extend(leaves);
        sidecar.phase = Phase::Yield;
        sidecar
    }

    fn again(&self, sidecar: &Sidecar, at: usize) -> Sidecar {
        let mut fresh = Sidecar { attempt: sidecar.attempt, clock: sidecar.clock, ..Sidecar::default() };
        self.look(&mut fresh, at);
        fresh
    }

    fn or_placed(&self, sidecar: Sidecar, at: usize) -> Sidecar {
        match sidecar.ops.is_empty() {
            true => self.placed(sidecar, at),
            false => sidecar,
        }
    }

    /// It has its place; the cluster accepts it, or does not.
    fn placed(&self, mut sidecar: Sidecar, at: usize) -> Sidecar {
        let (root, token) = sidecar.tree.unwrap_or_default();
        sidecar.failed = 0;
        if self.case.refused == Some(at) {
            sidecar.ops = vec![Op::Release(root, token)];
            sidecar.phase = Phase::Release;
            return sidecar;
        }
        let to = sidecar.clock.max(self.case.dates[at]);
        sidecar.to = to;
        sidecar.ops = vec![Op::Advance(to)];
        if to != sidecar.placed || sidecar.root_step != sidecar.placed {
            sidecar.ops.push(Op::Arrive(root, token, to));
        }
        sidecar.phase = Phase::Arrive;
        sidecar
    }
}
