//! The time of a forest in ticks, with the number of nodes that arrived in each.
//!
//! A node stores the number of the tick of its last arrival (4 bytes), and a tick stores its begin; a node's arrival
//! is therefore known to one [`step`](Ticks::new), a 65,536th of the window, rounded down. Ticks before the *floor*
//! are over, and their nodes are dead. Raising the floor removes any number of nodes in constant time; their memory
//! is swept up later, in small steps that are invisible from outside.
//!
//! A tick also ends when many nodes have arrived in it: where the number of nodes is limited, the oldest ticks are
//! evicted, and one must not be a large part of the whole.

use std::collections::VecDeque;

use spinney_text::work_counter;

use crate::time::Millis;

/// Ticks in one window.
const PARTS: i64 = 1 << 16;
/// Ticks without a window.
const MOST_MOMENTS: usize = 1 << 13;
/// Nodes that may arrive in one tick.
const MOST_NODES: u32 = 1 << 16;

/// The number of a tick. They are compared going round: those that are in use are never half a round apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tick(pub u32);

impl Tick {
    fn next(self) -> Tick {
        Tick(self.0.wrapping_add(1))
    }

    /// Whether it is this tick or a later one.
    #[inline]
    pub(super) fn is_from(self, floor: Tick) -> bool {
        self.0.wrapping_sub(floor.0) < 1 << 31
    }
}

/// When a tick began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickStart {
    /// Its number.
    pub tick: Tick,
    /// The clock when it began.
    pub at: Millis,
}

#[derive(Debug, Clone, Copy)]
struct TickArrivals {
    moment: TickStart,
    nodes: u32,
    roots: u32,
}

/// The clock, and the ticks that have nodes.
#[derive(Debug)]
pub(super) struct Ticks {
    window: Option<Millis>,
    clock: Millis,
    /// How long a tick is at least, in milliseconds.
    step: i64,
    /// Nodes that may arrive in one tick.
    most: u32,
    /// In their order.
    arrivals: VecDeque<TickArrivals>,
    current: Tick,
    /// The first tick that is not over.
    floor: Tick,
    living: NodeCount,
    dead_nodes: usize,
}

/// The numbers of nodes and of roots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NodeCount {
    pub(super) nodes: usize,
    /// Roots among them.
    pub(super) roots: usize,
}

impl Ticks {
    pub(super) fn new(window: Option<Millis>) -> Ticks {
        Ticks {
            window,
            clock: Millis(i64::MIN),
            step: window.map_or(1, |window| (window.0 / PARTS).max(1)),
            most: MOST_NODES,
            arrivals: VecDeque::new(),
            current: Tick(0),
            floor: Tick(0),
            living: NodeCount::default(),
            dead_nodes: 0,
        }
    }

    /// The latest time that was seen.
    pub(super) fn clock(&self) -> Millis {
        self.clock
    }

    /// The tick in which nodes arrive now.
    pub(super) fn current(&self) -> Tick {
        self.current
    }

    pub(super) fn floor(&self) -> Tick {
        self.floor
    }

    /// Nodes that are alive.
    pub(super) fn living(&self) -> NodeCount {
        self.living
    }

    /// Nodes that are dead and were not swept up yet.
    pub(super) fn dead_nodes(&self) -> usize {
        self.dead_nodes
    }

    /// Sets the capacity in nodes: a tick ends after a thousandth of it.
    pub(super) fn set_capacity(&mut self, nodes: usize) {
        self.most = u32::try_from(nodes / 1024).map_or(MOST_NODES, |most| most.clamp(1, MOST_NODES));
    }

    /// Sets clock and floor, before any node arrives.
    pub(super) fn stand_at(&mut self, now: TickStart, floor: Tick) {
        self.clock = now.at;
        self.current = now.tick;
        self.floor = floor;
        self.know(now);
    }

    /// The argument of [`begin`](Ticks::begin) before an arrival at `now`; `None` if nothing changes.
    pub(super) fn due(&self, now: Millis) -> Option<TickStart> {
        let at = now.max(self.clock);
        let begun = self.arrivals_of(self.current).copied();
        let is_over =
            begun.is_none_or(|begun| at.0.saturating_sub(begun.moment.at.0) >= self.step || begun.nodes >= self.most);
        let tick = match begun {
            Some(_) if is_over => self.current.next(),
            _ => self.current,
        };
        (at > self.clock || begun.is_none() || is_over).then_some(TickStart { tick, at })
    }

    /// Advances the clock; nodes arrive in this moment's tick from now on. Returns the nodes that died.
    pub(super) fn begin(&mut self, moment: TickStart) -> NodeCount {
        self.clock = self.clock.max(moment.at);
        // A tick begins with its first node. From then on only the clock goes on, and it is over a step later.
        if moment.tick != self.current || self.arrivals_of(moment.tick).is_none_or(|known| known.nodes == 0) {
            self.current = moment.tick;
            self.know(moment);
        }
        let before = self.living;
        let (cutoff, current) = (self.cutoff(self.clock), self.current);
        self.end(|moment| moment.at < cutoff && moment.tick != current);
        self.thin();
        before - self.living
    }

    /// Records the moment of a tick.
    pub(super) fn know(&mut self, moment: TickStart) {
        let place = self.place(moment.tick);
        match self.arrivals.get_mut(place) {
            Some(known) if known.moment.tick == moment.tick => known.moment = moment,
            _ => {
                let arrivals = TickArrivals { moment, nodes: 0, roots: 0 };
                self.arrivals.insert(place, arrivals);
            }
        }
    }

    /// Records a tick whose moment is unknown, with that of the tick before it.
    pub(super) fn know_tick(&mut self, tick: Tick) {
        let place = self.place(tick);
        let known = self.arrivals.get(place);
        if known.is_none_or(|known| known.moment.tick != tick) {
            let before = place.checked_sub(1).and_then(|at| self.arrivals.get(at));
            let at = before.or(known).map_or(self.clock, |near| near.moment.at);
            self.know(TickStart { tick, at });
        }
    }

    /// The floor that expires the oldest living tick; `None` if that is the current one.
    pub(super) fn next_floor(&self) -> Option<Tick> {
        let first = self.first_living()?.moment.tick;
        let next = self.arrivals.get(self.place(first) + 1)?;
        (first != self.current).then_some(next.moment.tick)
    }

    /// Ends all ticks before this one. Returns the nodes that died.
    pub(super) fn raise(&mut self, floor: Tick) -> NodeCount {
        let before = self.living;
        self.end(|moment| !moment.tick.is_from(floor));
        if floor.is_from(self.floor) {
            self.floor = floor;
        }
        before - self.living
    }

    /// The first tick that is alive at `now`, or at the clock if that is later.
    pub(super) fn floor_at(&self, now: Millis) -> Tick {
        if now <= self.clock || self.window.is_none() {
            return self.floor;
        }
        let cutoff = self.cutoff(now);
        let place = self.arrivals.partition_point(|arrivals| arrivals.moment.at < cutoff);
        let first = self.arrivals.get(place).map(|first| first.moment.tick);
        let first = first.unwrap_or(self.current.next());
        if first.is_from(self.floor) { first } else { self.floor }
    }

    /// The latest time of the clock at which nothing expires; `None` without a window.
    pub(super) fn all_live_until(&self) -> Option<Millis> {
        let window = self.window?;
        let mut living = self.arrivals.iter().skip(self.place(self.floor));
        let oldest = living.find(|arrivals| arrivals.nodes > 0)?.moment.at;
        Some(Millis(oldest.0.saturating_add(window.0)).max(self.clock))
    }

    /// The arrival time of a tick's nodes, to one step.
    pub(super) fn time(&self, tick: Tick) -> Millis {
        let known = self.arrivals_of(tick);
        known.map_or(self.clock, |arrivals| arrivals.moment.at)
    }

    /// Counts a node that arrived in this tick.
    pub(super) fn add(&mut self, tick: Tick, is_root: bool) {
        let lives = tick.is_from(self.floor);
        if let Some(arrivals) = self.arrivals_of_mut(tick) {
            arrivals.nodes += 1;
            arrivals.roots += u32::from(is_root);
            match lives {
                true => self.living.nodes += 1,
                false => self.dead_nodes += 1,
            }
            self.living.roots += usize::from(is_root && lives);
        }
    }

    /// Uncounts a node of this tick that was removed or refreshed.
    pub(super) fn remove(&mut self, tick: Tick, is_root: bool) {
        let lives = tick.is_from(self.floor);
        if let Some(arrivals) = self.arrivals_of_mut(tick) {
            arrivals.nodes -= 1;
            arrivals.roots -= u32::from(is_root);
            match lives {
                true => self.living.nodes -= 1,
                false => self.dead_nodes -= 1,
            }
            self.living.roots -= usize::from(is_root && lives);
        }
        self.forget_empty();
    }

    /// The moments of all ticks that have nodes.
    pub(super) fn moments(&self) -> impl Iterator<Item = TickStart> + '_ {
        self.arrivals.iter().map(|arrivals| arrivals.moment)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.arrivals.capacity() * size_of::<TickArrivals>()
    }

    fn cutoff(&self, now: Millis) -> Millis {
        let window = self.window;
        Millis(window.map_or(i64::MIN, |window| now.0.saturating_sub(window.0)))
    }

    /// The place of a tick among the arrivals, or where it belongs.
    fn place(&self, tick: Tick) -> usize {
        let Some(front) = self.arrivals.front() else {
            return 0;
        };
        let front = front.moment.tick;
        if !tick.is_from(front) {
            return 0;
        }
        // Most nodes arrive now.
        if self.arrivals.back().is_some_and(|back| back.moment.tick == tick) {
            return self.arrivals.len() - 1;
        }
        // Mostly there is no gap.
        let direct = tick.0.wrapping_sub(front.0) as usize;
        let found = self.arrivals.get(direct);
        if found.is_some_and(|found| found.moment.tick == tick) {
            return direct;
        }
        let before = |arrivals: &TickArrivals| !arrivals.moment.tick.is_from(tick);
        self.arrivals.partition_point(before)
    }

    /// Where there is no window, ticks that were thinned out have joined the one before them.
    fn holder(&self, tick: Tick) -> Option<usize> {
        let place = self.place(tick);
        match self.arrivals.get(place) {
            Some(arrivals) if arrivals.moment.tick == tick => Some(place),
            _ => place.checked_sub(1),
        }
    }

    fn arrivals_of(&self, tick: Tick) -> Option<&TickArrivals> {
        self.arrivals.get(self.holder(tick)?)
    }

    fn arrivals_of_mut(&mut self, tick: Tick) -> Option<&mut TickArrivals> {
        let holder = self.holder(tick)?;
        self.arrivals.get_mut(holder)
    }

    fn first_living(&self) -> Option<&TickArrivals> {
        let place = self.place(self.floor);
        self.arrivals.get(place)
    }

    /// Ends living ticks from the oldest on, while they are over.
    fn end(&mut self, is_over: impl Fn(TickStart) -> bool) {
        let mut place = self.place(self.floor);
        while let Some(&first) = self.arrivals.get(place)
            && is_over(first.moment)
        {
            work_counter::add(1);
            self.living.nodes -= first.nodes as usize;
            self.living.roots -= first.roots as usize;
            self.dead_nodes += first.nodes as usize;
            place += 1;
            self.floor = match self.arrivals.get(place) {
                Some(next) => next.moment.tick,
                None => first.moment.tick.next(),
            };
        }
        self.forget_empty();
    }

    /// Removes ticks that are over and swept up. An empty one in the middle waits for those before it: removing it
    /// would move all the others.
    fn forget_empty(&mut self) {
        while let Some(first) = self.arrivals.front()
            && first.nodes == 0
            && !first.moment.tick.is_from(self.floor)
        {
            self.arrivals.pop_front();
        }
    }

    /// Halves the number of ticks without a window, where none ever ends: every second one joins its predecessor, and
    /// new ticks are twice as long.
    fn thin(&mut self) {
        if self.window.is_some() || self.arrivals.len() <= MOST_MOMENTS {
            return;
        }
        let mut thinned: VecDeque<TickArrivals> = VecDeque::with_capacity(MOST_MOMENTS);
        let last = self.current;
        for (at, &arrivals) in self.arrivals.iter().enumerate() {
            let joins = at % 2 == 1 && arrivals.moment.tick != last && arrivals.moment.tick != self.floor;
            match thinned.back_mut().filter(|_| joins) {
                Some(before) => {
                    before.nodes += arrivals.nodes;
                    before.roots += arrivals.roots;
                }
                None => thinned.push_back(arrivals),
            }
        }
        self.arrivals = thinned;
        self.step = self.step.saturating_mul(2);
    }
}

impl std::ops::Sub for NodeCount {
    type Output = NodeCount;

    fn sub(self, other: NodeCount) -> NodeCount {
        NodeCount { nodes: self.nodes - other.nodes, roots: self.roots - other.roots }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a window every second of too many ticks joins the one before it, with all that came in it.
    #[test]
    fn many_ticks_are_thinned_out() {
        let mut ticks = Ticks::new(None);
        let begin = |ticks: &mut Ticks, at| {
            let moment = ticks.due(Millis(at)).unwrap();
            ticks.begin(moment);
        };
        let most = MOST_MOMENTS as i64;
        for at in 0..most {
            begin(&mut ticks, at);
            ticks.add(ticks.current(), at % 3 == 0);
        }
        assert_eq!(ticks.moments().count(), MOST_MOMENTS);
        begin(&mut ticks, most);
        let left: Vec<u32> = ticks.moments().map(|moment| moment.tick.0).collect();
        assert_eq!(left, (0..=most as u32).step_by(2).collect::<Vec<_>>());
        let nodes = ticks.arrivals.iter().map(|arrivals| arrivals.nodes as usize).sum();
        let roots = ticks.arrivals.iter().map(|arrivals| arrivals.roots as usize).sum();
        assert_eq!(NodeCount { nodes, roots }, ticks.living());
        assert_eq!((nodes, roots), (MOST_MOMENTS, MOST_MOMENTS.div_ceil(3)));
        // They are twice as long from now on.
        let next = |at| ticks.due(Millis(at)).unwrap().tick.0;
        assert_eq!([most + 1, most + 2].map(next), [most as u32, most as u32 + 1]);
    }

    /// However often the clock goes on in it.
    #[test]
    fn a_tick_lasts_one_step() {
        let step = 100;
        let mut ticks = Ticks::new(Some(Millis(step * PARTS)));
        // As a forest without a snapshot is restored.
        ticks.stand_at(TickStart { tick: Tick(0), at: Millis(i64::MIN) }, Tick(0));
        for at in 0..10 * step {
            ticks.begin(ticks.due(Millis(at)).unwrap());
            ticks.add(ticks.current(), false);
            assert_eq!((ticks.clock(), ticks.current()), (Millis(at), Tick((at / step) as u32 + 1)));
            assert_eq!(ticks.time(ticks.current()), Millis(at / step * step));
        }
    }

    /// Empty ticks stay in the middle until the nodes before them are swept up.
    #[test]
    fn a_jump_of_the_clock_ends_each_tick_once() {
        let window = 10_000;
        let mut ticks = Ticks::new(Some(Millis(window)));
        let begin = |ticks: &mut Ticks, at| {
            let moment = ticks.due(Millis(at)).unwrap();
            ticks.begin(moment);
        };
        for at in 0..2 * window {
            begin(&mut ticks, at);
            if at < window / 2 {
                ticks.add(ticks.current(), false);
            }
        }
        assert_eq!(ticks.living(), NodeCount::default());
        assert_eq!(ticks.dead_nodes(), window as usize / 2);
        let cost = work_counter::count(|| begin(&mut ticks, 10 * window));
        assert!(cost < 2 * window as usize, "{cost} steps");
        assert_eq!(ticks.floor(), ticks.current());
        // All that is over goes with its last node.
        for tick in 0..window as u32 / 2 {
            ticks.remove(Tick(tick), false);
        }
        assert_eq!((ticks.dead_nodes(), ticks.moments().count()), (0, 1));
        assert_eq!(ticks.clock(), Millis(10 * window));
        assert_eq!(ticks.time(ticks.current()), Millis(10 * window));
    }
}
