//! What a sidecar does next when all replies of a round trip are in.

use super::{ATTEMPTS, Node, Op, Phase, Search, Sidecar, Variant, World, entry};

impl Search<'_> {
    pub(super) fn look(&self, sidecar: &mut Sidecar, at: usize) {
        sidecar.seen = 0;
        sidecar.nodes = Default::default();
        sidecar.phase = Phase::Buckets;
        sidecar.ops = self.case.reads[at].iter().map(|&bucket| Op::Bucket(bucket)).collect();
    }

    fn root_of(sidecar: &Sidecar, node: usize) -> Option<(usize, bool, u8)> {
        let root = match sidecar.nodes[node] {
            Node::Free => return None,
            Node::Leaf { root, .. } => root,
            Node::Root { .. } => node,
        };
        let Node::Root { is_confirmed, token, .. } = sidecar.nodes[root] else {
            return None;
        };
        let is_live = !matches!(sidecar.nodes[node], Node::Leaf { token: of, .. } if of != token);
        is_live.then_some((root, is_confirmed, token))
    }

    /// All replies are in. What comes next, of which there may be several.
    pub(super) fn advance(&self, world: &World, at: usize, all: &mut Vec<World>) {
        let mut sidecar = world.sidecars[at].clone();
        let mut push = |sidecar: Sidecar| {
            let mut after = world.clone();
            after.sidecars[at] = sidecar;
            all.push(after);
        };
        let lost = std::mem::take(&mut sidecar.lost);
        let own = self.case.own[at];
        match sidecar.phase {
            Phase::Buckets => {
                let named = (0..self.case.own.len())
                    .filter(|&doc| doc == at || (self.is_near(doc, at) && sidecar.seen >> (doc * 16) & 0xFFFF != 0));
                sidecar.ops = named.map(Op::Read).collect();
                sidecar.phase = Phase::Nodes;
                push(sidecar);
            }
            Phase::Nodes => {
                let leaves = sidecar.nodes.iter().filter_map(|node| match node {
                    Node::Leaf { root, .. } => Some(Op::Read(*root)),
                    _ => None,
                });
                sidecar.ops = leaves.collect();
                sidecar.ops.dedup();
                sidecar.phase = Phase::Roots;
                if sidecar.ops.is_empty() {
                    self.decide(world, at, sidecar, all);
                } else {
                    push(sidecar);
                }
            }
            Phase::Roots => self.decide(world, at, sidecar, all),
            Phase::Claim => {
                if lost {
                    return push(self.again(&sidecar, at));
                }
                sidecar.founds = true;
                if self.variant == Variant::EntriesLast {
                    self.look(&mut sidecar, at);
                } else {
                    sidecar.ops = own.iter().map(|&bucket| Op::Add(bucket, at, sidecar.token)).collect();
                    sidecar.phase = Phase::Entries;
                }
                push(sidecar);
            }
            Phase::Entries if self.variant == Variant::NoLookAgain || self.variant == Variant::EntriesLast => {
                sidecar.ops = vec![Op::Confirm(at, sidecar.token)];
                sidecar.phase = Phase::Confirm;
                push(sidecar);
            }
            Phase::Entries => {
                self.look(&mut sidecar, at);
                push(sidecar);
            }
            Phase::Confirm if lost => push(self.yields(sidecar, at)),
            Phase::Confirm => {
                sidecar.tree = Some((at, sidecar.token));
                push(self.placed(sidecar, at));
            }
            // A pin came with the leaf's own phase before it.
            Phase::Leaf => {
                let Some((root, token)) = sidecar.tree.filter(|_| !lost) else {
                    return push(self.again(&sidecar, at));
                };
                let there = sidecar.nodes[at];
                if Self::root_of(&sidecar, at).is_none() {
                    sidecar.ops = vec![Op::Put(at, there, Node::Leaf { root, token })];
                    sidecar.ops.extend(own.iter().map(|&bucket| Op::Add(bucket, at, token)));
                    sidecar.phase = Phase::LeafEntries;
                    push(sidecar);
                } else {
                    push(self.placed(sidecar, at));
                }
            }
            Phase::LeafEntries if lost => {
                let (root, token) = sidecar.tree.unwrap_or_default();
                sidecar.ops = vec![Op::Release(root, token)];
                sidecar.phase = Phase::Yield;
                push(sidecar);
            }
            Phase::LeafEntries => push(self.placed(sidecar, at)),
            Phase::Yield => push(self.again(&sidecar, at)),
            Phase::Refused => {
                let attempt = sidecar.attempt;
                push(Sidecar { was_refused: true, attempt, ..Sidecar::default() });
            }
            Phase::Start | Phase::Done | Phase::Cut | Phase::Gone => push(sidecar),
        }
    }

    fn again(&self, sidecar: &Sidecar, at: usize) -> Sidecar {
        let mut fresh = Sidecar { attempt: sidecar.attempt, was_refused: sidecar.was_refused, ..Sidecar::default() };
        self.look(&mut fresh, at);
        fresh
    }

    fn yields(&self, mut sidecar: Sidecar, at: usize) -> Sidecar {
        sidecar.ops = vec![Op::Kill(at, sidecar.token)];
        sidecar.phase = Phase::Yield;
        sidecar
    }

    fn placed(&self, mut sidecar: Sidecar, at: usize) -> Sidecar {
        if self.case.refused == Some(at) && !sidecar.was_refused {
            let (root, token) = sidecar.tree.unwrap_or_default();
            sidecar.ops = vec![Op::Release(root, token)];
            sidecar.phase = Phase::Refused;
            return sidecar;
        }
        Sidecar { phase: Phase::Done, ..Sidecar::default() }
    }

    fn decide(&self, world: &World, at: usize, sidecar: Sidecar, all: &mut Vec<World>) {
        let mut push = |sidecar: Sidecar| {
            let mut after = world.clone();
            after.sidecars[at] = sidecar;
            all.push(after);
        };
        let mut trees: Vec<(usize, bool, u8)> = (0..self.case.own.len())
            .filter(|&doc| self.is_near(doc, at))
            .filter_map(|doc| Self::root_of(&sidecar, doc))
            .collect();
        let own = Self::root_of(&sidecar, at).filter(|_| !sidecar.founds);
        trees.retain(|tree| !(sidecar.founds && tree.0 == at && tree.2 == sidecar.token));
        trees.sort_unstable();
        trees.dedup();
        let mut sweeps = Vec::new();
        if matches!(self.variant, Variant::Sweeps | Variant::SweepsByName) {
            for doc in (0..self.case.own.len()).filter(|&doc| doc != at && self.is_near(doc, at)) {
                let is_dead = |token: u8| match sidecar.nodes[doc] {
                    Node::Free => true,
                    Node::Leaf { token: of, .. } | Node::Root { token: of, .. } => of != token,
                };
                let tokens = (0..16).filter(|&token| sidecar.seen & entry(doc, token) != 0 && is_dead(token));
                for token in tokens {
                    let masked =
                        if self.variant == Variant::SweepsByName { 0xFFFF << (doc * 16) } else { entry(doc, token) };
                    sweeps.extend(self.case.own[doc].map(|bucket| Op::Sweep(bucket, masked)));
                }
            }
        }
        if sidecar.founds {
            if trees.iter().any(|&(root, is_confirmed, _)| is_confirmed || root < at) {
                return push(self.yields(sidecar, at));
            }
            let mut next = sidecar;
            if trees.is_empty() {
                let own = self.case.own[at];
                let token = next.token;
                if self.variant == Variant::EntriesLast {
                    next.ops = own.iter().map(|&bucket| Op::Add(bucket, at, token)).collect();
                    next.phase = Phase::Entries;
                } else {
                    next.ops = vec![Op::Confirm(at, token)];
                    next.phase = Phase::Confirm;
                }
            } else {
                // Killed, and looked again.
                next.ops = trees.iter().map(|&(root, _, token)| Op::Kill(root, token)).collect();
                next.phase = if self.variant == Variant::EntriesLast { Phase::Claim } else { Phase::Entries };
            }
            return push(next);
        }
        let choices: Vec<(usize, bool, u8)> = match own {
            Some(tree) => vec![tree],
            None => trees,
        };
        let confirmed: Vec<_> = choices.iter().copied().filter(|tree| tree.1).collect();
        if !confirmed.is_empty() {
            for &(root, _, token) in &confirmed {
                let mut next = sidecar.clone();
                next.tree = Some((root, token));
                next.ops = vec![Op::Pin(root, token)];
                next.phase = Phase::Leaf;
                push(next);
            }
        } else if choices.is_empty() {
            let mut next = sidecar;
            if next.attempt == ATTEMPTS {
                return push(Sidecar { phase: Phase::Cut, ..Sidecar::default() });
            }
            next.attempt += 1;
            next.token = at as u8 * (ATTEMPTS + 1) + next.attempt;
            let new = Node::Root { is_confirmed: false, token: next.token, uses: 0 };
            next.ops = sweeps;
            next.ops.push(Op::Put(at, next.nodes[at], new));
            next.phase = Phase::Claim;
            push(next);
        } else {
            push(self.again(&sidecar, at));
            for &(root, _, token) in &choices {
                let mut next = sidecar.clone();
                next.ops = vec![Op::Kill(root, token)];
                next.phase = Phase::Yield;
                push(next);
            }
        }
    }
}
