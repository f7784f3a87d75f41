//! The names of all nodes of a forest, where the distance is too wide for [`blocks`](super::lsh_buckets): one log in
//! the engine, to whose end whoever claims a node writes its name, and a mirror of it in each process, which finds what
//! is near a fingerprint. A name says nothing of a tree: whoever finds one reads the node.
//!
//! ```text
//! page  | flags 1 | number of the last entry 8 | its mark 4 | entries |
//! entry | names 2 | step 4 | name 8 | … as many as there are
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::SharedInner;
use super::keys::{Followed, KeyKind, KeyOp, StoreReply};
use super::layout::STEPS;
use crate::fingerprint::{Distance, Fingerprint};
use crate::forest::port::Unavailable;
use crate::hamming::{Entry, HammingError, NodeIndex};
use crate::hash::{HashKey, splitmix64};
use crate::method::{MethodKind, Proof, take};
use crate::time::Millis;

/// The largest distance: that of the index.
pub(crate) const MOST: Distance = NodeIndex::MAX_DISTANCE;

/// Names near a fingerprint that are looked at, nearest first.
const MOST_NEAR: usize = 1_024;
/// Names of one entry.
const AT_ONCE: usize = 1_000;
/// Fingerprints that are looked up on one thread, one after the other.
const LOOKED_UP: usize = 32;
/// Bytes of the log that are read at once, about.
const PAGE: u32 = 1 << 20;
/// Names that a log has: then the oldest go.
const MOST_NAMES: u64 = 1 << 26;
/// A node that lives on is named anew when so many steps are over.
const PERIOD: u32 = STEPS as u32 / 8;
/// Steps that a name is kept after its own: a node may have arrived as late as in the last step of the period in which
/// it was named, and a root is kept three steps longer than a window.
const KEPT: u32 = STEPS as u32 + 2 * PERIOD;
/// Places of the mirror that are looked at for names that are over, whenever the log is read, and twice as many as
/// there were new names.
const SWEPT: usize = 256;

/// The names that this process has read.
#[derive(Debug)]
pub(super) struct Mirror {
    /// Of each name, in which log it was read, and the step in which it was written.
    index: NodeIndex,
    /// The last entry that was read.
    place: Followed,
    /// How often another log was found than was read before.
    log: u32,
}

/// A part of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Page {
    is_from_beginning: bool,
    is_all: bool,
    end: Followed,
    names: Vec<(Fingerprint, u32)>,
}

impl Mirror {
    pub(super) fn new(k: Distance, secret: HashKey) -> Result<Mirror, HammingError> {
        Ok(Mirror { index: NodeIndex::new(k, secret)?, place: Followed::default(), log: 0 })
    }

    /// Takes down a part of the log. Two may read the same at once; whatever place was read to, all that stands before
    /// it is here.
    fn take(&mut self, page: &Page) {
        if page.is_from_beginning && self.place != Followed::default() {
            // What was read of another log may not be in this one.
            self.log += 1;
        }
        for &(name, step) in &page.names {
            let before = self.index.get(name).map(|entry| entry.tick);
            let tick = before.filter(|&before| is_later(before, step));
            let entry = Entry { root: self.log, tick: tick.unwrap_or(step) };
            // An index that is full has four thousand million names.
            let _ = self.index.insert(name, entry);
        }
        if page.is_from_beginning || page.end.number > self.place.number {
            self.place = page.end;
        }
    }

    /// Whether the log names a node so lately that this needs no saying again.
    fn has_named(&self, node: Fingerprint, step: u32) -> bool {
        let entry = self.index.get(node);
        entry.is_some_and(|entry| entry.root == self.log && entry.tick / PERIOD == step / PERIOD)
    }

    /// Names within the distance, nearest first, then by fingerprint.
    pub(super) fn near(&self, of: Fingerprint) -> Vec<Fingerprint> {
        let mut near = Vec::new();
        self.index.near(of, |name, distance, _| near.push((distance, name)));
        near.sort_unstable();
        near.truncate(MOST_NEAR);
        near.into_iter().map(|(_, name)| name).collect()
    }

    /// Lets go of names that are over, in some of its places.
    fn sweep(&mut self, places: usize, now: u32) {
        self.index.sweep(places, |_, entry| !is_later(now, entry.tick.wrapping_add(KEPT)));
    }

    /// Names, and bytes of memory.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.index.len(), self.index.memory_bytes())
    }
}

/// Whether a step is after another one.
fn is_later(step: u32, than: u32) -> bool {
    step.wrapping_sub(than).cast_signed() > 0
}

impl Page {
    fn read(bytes: &[u8]) -> Option<Page> {
        let mut rest = bytes;
        let [flags] = take(&mut rest)?;
        let end = Followed { number: u64::from_be_bytes(take(&mut rest)?), mark: u32::from_be_bytes(take(&mut rest)?) };
        let mut names = Vec::with_capacity(rest.len() / 8);
        while !rest.is_empty() {
            let count = u16::from_be_bytes(take(&mut rest)?);
            let step = u32::from_be_bytes(take(&mut rest)?);
            for _ in 0..count {
                let name = u64::from_be_bytes(take(&mut rest)?);
                names.push((Fingerprint(name), step));
            }
        }
        Some(Page { is_from_beginning: flags & 1 != 0, is_all: flags & 2 != 0, end, names })
    }
}

impl<F: MethodKind> SharedInner<F> {
    /// Reads the log to where it ends now, where there is one. Every name that was written before is then in the
    /// mirror.
    pub(super) async fn follow(self: &Arc<Self>) -> Result<(), Unavailable> {
        let Some(mirror) = &self.mirror else {
            return Ok(());
        };
        let mut after = mirror.read().place;
        loop {
            let bytes = PAGE;
            let read = vec![(KeyKind::Log, Fingerprint(0), KeyOp::Follow { after, bytes })];
            let page = match self.run_all(read).await?.next() {
                Some(StoreReply::Bytes(bytes)) => Page::read(&bytes),
                _ => None,
            };
            let Some(page) = page else {
                let reason = "the engine gave no names where it was asked for them";
                return Err(self.away(super::StoreUnavailable::of(reason)));
            };
            after = page.end;
            let is_all = page.is_all;
            match page.names.len() < SWEPT {
                true => self.take_names(&page),
                false => self.compute(move |inner| inner.take_names(&page)).await?,
            }
            if is_all {
                return Ok(());
            }
        }
    }

    fn take_names(&self, page: &Page) {
        let Some(mirror) = &self.mirror else { return };
        let clock = Millis(self.clock.load(Relaxed));
        let mut mirror = mirror.write();
        mirror.take(page);
        // Before a forest has a clock nothing is over.
        if clock.0 > i64::MIN {
            let now = self.calendar.whole_step(clock);
            mirror.sweep(SWEPT + 2 * page.names.len(), now);
        }
    }

    /// What the mirror has near some fingerprints.
    pub(super) async fn named_near(
        self: &Arc<Self>,
        these: &[Fingerprint],
    ) -> Result<Vec<(Fingerprint, Vec<Fingerprint>)>, Unavailable> {
        let jobs = these.chunks(LOOKED_UP).map(|these| {
            let these = these.to_vec();
            self.begin(move |inner| -> Vec<_> {
                let near = |of| match &inner.mirror {
                    Some(mirror) => (of, mirror.read().near(of)),
                    None => (of, Vec::new()),
                };
                these.into_iter().map(near).collect()
            })
        });
        let jobs: Vec<_> = jobs.collect();
        let mut found = Vec::with_capacity(these.len());
        for job in jobs {
            found.extend(self.computed(job).await?);
        }
        Ok(found)
    }

    /// Adds a name to what is written to the end of the log. That of a node that is there already only if it was not
    /// named lately.
    pub(super) fn write_name(
        &self,
        node: Fingerprint,
        now: Millis,
        is_new: bool,
        commands: &mut Vec<(KeyKind, Fingerprint, KeyOp)>,
    ) {
        let Some(mirror) = &self.mirror else { return };
        let step = self.calendar.whole_step(now);
        if !is_new && mirror.read().has_named(node, step) {
            return;
        }
        if let Some((_, _, KeyOp::Name { names, step: of, .. })) = commands.last_mut()
            && *of == step
            && names.len() < AT_ONCE
        {
            names.push(node);
            return;
        }
        let mark = splitmix64(self.tokens.fetch_add(1, Relaxed));
        let what = KeyOp::Name {
            names: vec![node],
            step,
            mark: mark as u32,
            kept: self.settings.window.map(|_| KEPT),
            most: MOST_NAMES,
            life: self.calendar.log_life(self.engine_time(now)),
        };
        commands.push((KeyKind::Log, Fingerprint(0), what));
    }
}

/// How many names are read of the engine before it is known whose they are.
pub(super) fn at_first<P: Proof>() -> usize {
    P::CANDIDATES.min(MOST_NEAR)
}
