//! All keys and all sidecars at one moment, and every step that may come next.

use super::scenarios::{DOCS, Faults, PER_BULK, SIDES, Scenario, Variant};
use super::sidecar::{Desk, Phase, Side};
use super::store::{KEYS, Key, Leaf, Op, Request, Token, Value, apply};

/// What an accepted document was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    pub root: Key,
    pub token: Token,
    /// The epoch of its bulk.
    pub now: u8,
}

/// What has happened, for the checks alone: nobody decides by it.
#[derive(Clone, Copy, Debug, Default)]
pub struct History {
    pub answers: [Option<Answer>; DOCS],
    /// The nodes with which a document's tree was confirmed.
    pub founded: [u8; DOCS],
}

impl History {
    pub fn founded(&mut self, doc: usize, nodes: u8) {
        self.founded[doc] = nodes;
    }
}

/// Choices that are nobody's law, every one of which is tried.
#[derive(Default)]
pub struct Choices {
    taken: Vec<usize>,
    of: Vec<usize>,
    at: usize,
}

impl Choices {
    /// One of so many.
    pub fn of(&mut self, many: usize) -> usize {
        if self.at == self.taken.len() {
            self.taken.push(0);
            self.of.push(many);
        }
        self.at += 1;
        self.taken[self.at - 1]
    }

    /// The next ones; false if there are none.
    fn next(&mut self) -> bool {
        self.at = 0;
        while let (Some(&taken), Some(&of)) = (self.taken.last(), self.of.last()) {
            if taken + 1 < of {
                *self.taken.last_mut().unwrap() += 1;
                return true;
            }
            self.taken.pop();
            self.of.pop();
        }
        false
    }
}

#[expect(dead_code, reason = "steps are printed, and nothing else")]
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A sidecar's next bulk comes, or is forwarded.
    Begin(u8),
    Forward(u8),
    Do(u8, Request),
    /// Done, but the reply is lost: it is sent again.
    DoneUnheard(u8, Request),
    /// Delayed beyond its reply's time: it is sent again, and may be done at any time after.
    Delayed(u8, Request),
    /// The same two, but the sidecar begins anew.
    DoneAnew(u8, Request),
    DelayedAnew(u8, Request),
    /// What was delayed is done.
    Late(Request),
    Crash(u8),
    /// A window's time goes on.
    Tick,
    Expire(Key),
    /// A key is gone, or has the value before its last one: a write that no replica had.
    Vanish(Key),
    Revert(Key),
}

#[derive(Clone, Copy, Debug)]
pub struct World {
    pub store: [Value; KEYS],
    /// What was there before the last write, while a fault may bring it back.
    before: [Value; KEYS],
    pub epoch: u8,
    /// The confirmed trees whose time has passed, by token.
    expired: u64,
    left: Faults,
    /// Whether a write was lost by the store itself.
    pub has_lost: bool,
    late: Option<Request>,
    pub history: History,
    pub sides: [Side; SIDES],
}

impl World {
    pub fn new(scenario: &Scenario, faults: Faults) -> Self {
        let mut history = History::default();
        for tree in scenario.trees {
            history.answers[tree.founder] = Some(Answer { root: tree.root, token: tree.token(), now: 0 });
            history.founded[tree.founder] = 1 << tree.root | tree.leaves.iter().fold(0, |mask, leaf| mask | 1 << leaf);
        }
        let mut sides = [Side::default(); SIDES];
        for side in sides.iter_mut().skip(scenario.bulks.len()) {
            side.phase = Phase::Done;
        }
        World {
            store: scenario.stored(),
            before: Default::default(),
            epoch: 0,
            expired: 0,
            left: faults,
            has_lost: false,
            late: None,
            history,
            sides,
        }
    }

    /// A number that stands for it: two that differ have the same one by a chance of 2^-64.
    pub fn mark(&self) -> u64 {
        let mut mark = 0x9e37_79b9_7f4a_7c15_u64;
        let mut sink = |word: u64| {
            let mixed = u128::from(mark ^ word) * u128::from(0xd6e8_feb8_6659_fd93_u64);
            mark = (mixed as u64 ^ (mixed >> 64) as u64).rotate_left(29).wrapping_add(word);
        };
        self.store.iter().chain(&self.before).for_each(|value| sink(value.code()));
        let left = &self.left;
        let counts = [
            left.crashes,
            left.expiries,
            left.ticks,
            left.losses,
            left.vanishes,
            left.reverts,
            self.epoch,
            u8::from(self.has_lost),
        ];
        sink(u64::from_le_bytes(counts));
        sink(self.expired);
        if let Some(Request { key, op, .. }) = self.late {
            let (one, two) = op.code();
            sink(one ^ u64::from(key) << 50);
            sink(two);
        }
        for answer in &self.history.answers {
            sink(answer.map_or(0, |answer| {
                1 << 24 | u64::from(answer.root) << 16 | u64::from(answer.token) << 8 | u64::from(answer.now)
            }));
        }
        sink(u64::from_le_bytes(self.history.founded));
        for side in &self.sides {
            side.words(&mut sink);
        }
        mark ^ mark >> 31
    }

    pub fn is_over(&self) -> bool {
        self.sides.iter().all(|side| matches!(side.phase, Phase::Done | Phase::Crashed))
    }

    pub fn is_cut(&self) -> bool {
        self.sides.iter().any(|side| side.phase == Phase::Cut)
    }

    fn write(&mut self, request: Request) -> Value {
        let spot = usize::from(request.key);
        let was = self.store[spot];
        let expired = self.expired;
        let is_late = |leaf: Leaf| expired & 1 << leaf.token != 0;
        let found = apply(&mut self.store[spot], request.op, is_late);
        if self.left.reverts > 0 && self.store[spot] != was {
            self.before[spot] = was;
        }
        found
    }

    /// Every step that may come next, and what it leads to.
    pub fn steps(&self, scenario: &Scenario, variant: Variant, mut visit: impl FnMut(Step, World)) {
        if self.is_cut() {
            return;
        }
        for at in 0..scenario.bulks.len() {
            self.steps_of(scenario, variant, at, &mut visit);
        }
        if let Some(request) = self.late {
            let mut after = *self;
            after.late = None;
            after.write(request);
            visit(Step::Late(request), after);
        }
        if self.left.ticks > 0 {
            let mut after = *self;
            after.left.ticks -= 1;
            after.epoch += 1;
            visit(Step::Tick, after);
        }
        for key in 0..KEYS as Key {
            self.losses_of(key, &mut visit);
        }
    }

    fn losses_of(&self, key: Key, visit: &mut impl FnMut(Step, World)) {
        let spot = usize::from(key);
        let value = self.store[spot];
        if value != Value::Free && self.left.expiries > 0 && self.may_expire(key) {
            let mut after = *self;
            after.left.expiries -= 1;
            after.store[spot] = Value::Free;
            if let Some(root) = value.root().filter(|root| root.is_confirmed) {
                after.expired |= 1 << root.token;
            }
            visit(Step::Expire(key), after);
        }
        if value != Value::Free && self.left.vanishes > 0 {
            let mut after = *self;
            after.left.vanishes -= 1;
            after.has_lost = true;
            after.store[spot] = Value::Free;
            visit(Step::Vanish(key), after);
        }
        if self.left.reverts > 0 && value != self.before[spot] {
            let mut after = *self;
            after.left.reverts -= 1;
            after.has_lost = true;
            after.store[spot] = self.before[spot];
            after.before = Default::default();
            visit(Step::Revert(key), after);
        }
    }

    /// A leaf goes when its window has passed, a confirmed root when all of its leaves have gone, a provisional one
    /// when its lease has run out, which is any time.
    fn may_expire(&self, key: Key) -> bool {
        match self.store[usize::from(key)] {
            Value::Free => false,
            Value::Leaf(leaf) => leaf.stamp < self.epoch,
            Value::Root(root) if !root.is_confirmed => true,
            Value::Root(root) => {
                let is_of = |leaf: Leaf| (leaf.root, leaf.token) == (key, root.token);
                let has_leaf = self.store.iter().any(|value| value.leaf().is_some_and(is_of));
                root.stamp < self.epoch && !has_leaf
            }
        }
    }

    fn steps_of(&self, scenario: &Scenario, variant: Variant, at: usize, visit: &mut impl FnMut(Step, World)) {
        let side = &self.sides[at];
        let name = at as u8;
        if !matches!(side.phase, Phase::Done | Phase::Crashed) && self.left.crashes > 0 {
            let mut after = *self;
            after.left.crashes -= 1;
            after.sides[at] = Side::crashed();
            visit(Step::Crash(name), after);
        }
        match side.phase {
            Phase::Idle => self.with_desk(
                scenario,
                variant,
                at,
                |world| world,
                |side, desk, epoch| side.begin(epoch, desk),
                Step::Begin(name),
                visit,
            ),
            Phase::Forward => self.with_desk(
                scenario,
                variant,
                at,
                |world| world,
                |side, desk, _| side.forward(desk),
                Step::Forward(name),
                visit,
            ),
            _ => {}
        }
        let in_order = scenario.bulks.len() > 2;
        for op in 0..side.count {
            if side.left & 1 << op == 0 {
                continue;
            }
            let request = side.ops[op];
            let done = |mut world: World| {
                let found = world.write(request);
                (world, found)
            };
            let (after, found) = done(*self);
            self.with_desk(
                scenario,
                variant,
                at,
                |_| after,
                |side, desk, _| {
                    side.replied(op, found);
                    side.advance(desk);
                },
                Step::Do(name, request),
                visit,
            );
            if self.left.losses > 0 && !request.op.is_read() {
                self.unheard(scenario, variant, at, op, visit);
            }
            if in_order {
                break;
            }
        }
    }

    fn unheard(
        &self,
        scenario: &Scenario,
        variant: Variant,
        at: usize,
        op: usize,
        visit: &mut impl FnMut(Step, World),
    ) {
        let name = at as u8;
        let request = self.sides[at].ops[op];
        let mut done = *self;
        done.left.losses -= 1;
        let mut delayed = done;
        done.write(request);
        delayed.late = Some(request);
        // A release counts down, and the root of a late claim would live again after it was killed.
        let is_once = match request.op {
            Op::Release(_) => true,
            Op::SetNew(Value::Root(_)) | Op::Swap(_, Value::Root(_)) => variant != Variant::RepeatsRootClaim,
            _ => false,
        };
        if !is_once {
            visit(Step::DoneUnheard(name, request), done);
            if self.late.is_none() {
                visit(Step::Delayed(name, request), delayed);
            }
        }
        let anew = |side: &mut Side, desk: &mut Desk<'_>, _| side.anew(desk);
        self.with_desk(scenario, variant, at, |_| done, anew, Step::DoneAnew(name, request), visit);
        if self.late.is_none() {
            self.with_desk(scenario, variant, at, |_| delayed, anew, Step::DelayedAnew(name, request), visit);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one place that lets a sidecar go on, with every choice it has")]
    fn with_desk(
        &self,
        scenario: &Scenario,
        variant: Variant,
        at: usize,
        from: impl Fn(World) -> World,
        go: impl Fn(&mut Side, &mut Desk<'_>, u8),
        step: Step,
        visit: &mut impl FnMut(Step, World),
    ) {
        let mut choices = Choices::default();
        loop {
            let mut after = from(*self);
            let mut side = after.sides[at];
            let bulk = scenario.bulks[at].get(usize::from(side.bulk)).copied().unwrap_or_default();
            debug_assert!(bulk.len() <= PER_BULK);
            let mut desk = Desk {
                scenario,
                variant,
                bulk,
                bulks: scenario.bulks[at].len(),
                history: &mut after.history,
                choices: &mut choices,
            };
            go(&mut side, &mut desk, after.epoch);
            after.sides[at] = side;
            visit(step, after);
            if !choices.next() {
                return;
            }
        }
    }
}
