//! Document-time expiry: forests whose documents have dates of their own. Their clock is one key, the latest date of
//! an accepted document. It is read with the first nodes of a request and only advances.
//!
//! A node arrives at the clock when it is placed, and at the date of its document when that is accepted
//! ([`SharedInner::arrive`]). Redis does not know that clock: a node is *over* if its step ended more than a window
//! before the clock. A provisional root is live, whatever its step; a confirmed root that is over is dead; a leaf is
//! live if its root is, and the leaf is not over or the root is provisional.
//!
//! Placing sets no times of existing nodes. When documents are accepted, one round trip *advances* the clock and lets
//! roots *arrive*; a second *touches* their leaves: sets them to that step, or puts them back. Steps only go forward.
//! After a crash before or amid the first round trip nodes may go early, until the next date or a retry; between both,
//! leaves are older than their root, until the next document of the tree.
//!
//! Processes with different clocks may disagree whether a tree is over; pin and swap of its root meet at one key. Two
//! trees require a date that leaps over a window between two reads. A tree that such a leap removes before its document
//! is accepted is not put back.
//!
//! **Sweep.** When the clock has advanced by an eighth of the window, one process (agreed on at the key `S`) removes
//! what is over, by its very value; with every fourth sweep also bucket entries. So nodes of at most nine eighths of a
//! window are there, entries of seven quarters. A TTL of two windows and a day removes forests that nobody writes to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::MethodKind;

use super::SharedInner;
use super::keys::{FoundingToken, KeyKind, KeyOp, Lifetime, RedisReply, ScanPosition};
use super::layout::{Calendar, NodeValue, STEPS, living_names};
use crate::port::Unavailable;
use crate::time::Millis;
use crate::{Rollback, Root};

/// Steps of the clock between two sweeps of expired nodes.
const SWEEP: u32 = STEPS as u32 / 8;
/// Steps of the clock between two sweeps of bucket entries: they are many, and expired ones are harmless.
const NAMES: u32 = STEPS as u32 / 2;
/// Between two parts of a sweep.
const PAUSE: Duration = Duration::from_millis(5);

/// New arrivals of accepted documents, by tree or leaf.
type Arrivals<Of> = BTreeMap<Of, Millis>;

impl<F: MethodKind> SharedInner<F> {
    /// The clock of a dated forest as last read; `None` before it has begun, and without dates.
    pub(super) fn dated_clock(&self) -> Option<Millis> {
        let clock = Millis(self.clock.load(Relaxed));
        Some(clock).filter(|clock| self.calendar.is_dated && clock.0 > i64::MIN)
    }

    /// Provisional arrival of a document in a dated forest.
    pub(super) fn dated_arrival(&self, claimed: Option<Millis>) -> Millis {
        self.dated_clock().or(claimed).unwrap_or(Millis(0))
    }

    /// The calendar at the clock.
    pub(super) fn calendar(&self) -> Calendar {
        let clock = self.dated_clock();
        self.calendar.at(clock.unwrap_or(Millis(i64::MIN)))
    }

    /// The command that reads the clock, if there is one.
    pub(super) fn read_clock(&self) -> Option<(KeyKind, Fingerprint, KeyOp)> {
        let is_dated = self.calendar.is_dated;
        is_dated.then_some((KeyKind::Clock, Fingerprint(0), KeyOp::Get))
    }

    /// Applies the value of the clock that was read.
    pub(super) fn refresh_clock(&self, reply: Option<RedisReply>) {
        let shown = match reply {
            Some(RedisReply::Bytes(text)) => std::str::from_utf8(&text).ok().and_then(|t| t.parse().ok()),
            Some(RedisReply::Number(shown)) => Some(shown),
            _ => None,
        };
        if let Some(shown) = shown {
            self.clock.fetch_max(shown, Relaxed);
        }
    }

    /// Redis' time for the forest's `now`, by which keys expire.
    pub(super) fn expiry_time(&self, now: Millis) -> Millis {
        match self.calendar.is_dated {
            true => self.keys.now(),
            false => now,
        }
    }

    /// The expiry of a node with this arrival.
    pub(super) fn life(&self, now: Millis, is_root: bool) -> Lifetime {
        self.calendar.life(self.expiry_time(now), is_root)
    }

    /// Adds a node to its buckets.
    pub(super) fn enter(&self, node: Fingerprint, now: Millis, commands: &mut Vec<(KeyKind, Fingerprint, KeyOp)>) {
        let step = self.calendar.whole_step(now) as u8;
        commands.extend(self.blocks.buckets(node).map(|bucket| {
            let what = KeyOp::Enter { fingerprint: node, step, life: self.life(now, true) };
            (KeyKind::Bucket, bucket, what)
        }));
    }

    /// Advances the clock and the arrivals of accepted placements, in this order. Roots before leaves, so that none
    /// expires before its leaves.
    pub(super) async fn arrive(self: &Arc<Self>, accepted: Vec<(Rollback, Millis)>) -> Result<(), Unavailable> {
        let Some(last) = accepted.iter().map(|&(_, at)| at).max() else {
            return Ok(());
        };
        let mut clock = self.dated_clock().unwrap_or(Millis(i64::MIN));
        let to = clock.max(last);
        let (mut roots, mut leaves) = (Arrivals::new(), Arrivals::new());
        for (rollback, at) in accepted {
            clock = clock.max(at);
            let Some(nodes) = rollback.shared() else {
                continue;
            };
            let step = self.calendar.step(clock);
            let is_new_due = nodes.placed != Some(step);
            if is_new_due || nodes.is_due {
                roots.insert((nodes.root, nodes.token), clock);
            }
            let new = nodes.leaves.iter().copied().filter(|_| is_new_due);
            let used = nodes.used.iter();
            let used = used.filter(|used| is_new_due || used.is_due);
            for leaf in new.chain(used.map(|used| used.leaf)) {
                leaves.insert((leaf, nodes.root, nodes.token), clock);
            }
        }
        let mut commands = vec![(KeyKind::Clock, Fingerprint(0), KeyOp::Advance { to })];
        commands.extend(roots.iter().map(|(&(root, token), &at)| {
            let what = KeyOp::Arrive { token, step: self.calendar.step(at), life: self.life(at, true) };
            (KeyKind::Node, root.0, what)
        }));
        for (&(root, _), &at) in &roots {
            self.enter(root.0, at, &mut commands);
        }
        let mut replies = self.run_all(commands).await?;
        self.refresh_clock(replies.next());
        let gone = roots.into_keys().zip(replies);
        let gone = gone.filter(|(_, reply)| *reply != RedisReply::Number(1));
        let gone: Vec<(Root, FoundingToken)> = gone.map(|(of, _)| of).collect();
        leaves.retain(|&(_, root, token), _| !gone.contains(&(root, token)));
        let mut commands: Vec<(KeyKind, Fingerprint, KeyOp)> = leaves
            .iter()
            .map(|(&(leaf, root, token), &at)| {
                let value = self.calendar.leaf(root, token, at).bytes();
                let life = self.life(at, false);
                (KeyKind::Node, leaf, KeyOp::Touch { value, life })
            })
            .collect();
        for (&(leaf, ..), &at) in &leaves {
            self.enter(leaf, at, &mut commands);
        }
        self.run_all(commands).await?;
        self.sweep_if_due().await
    }

    /// Starts a sweep of expired nodes if the clock has advanced enough since the last one.
    async fn sweep_if_due(self: &Arc<Self>) -> Result<(), Unavailable> {
        let Some(clock) = self.dated_clock().filter(|_| self.settings.window.is_some()) else {
            return Ok(());
        };
        let step = self.calendar.step(clock);
        if step.wrapping_sub(self.swept.load(Relaxed)) < SWEEP {
            return Ok(());
        }
        let key = |what| vec![(KeyKind::Sweep, Fingerprint(0), what)];
        let before = match self.run_all(key(KeyOp::Get)).await?.next() {
            Some(RedisReply::Bytes(before)) => before,
            _ => Vec::new(),
        };
        let begun = before.first_chunk::<4>().map(|step| u32::from_be_bytes(*step));
        // A new forest has nothing expired.
        let is_due = begun.is_some_and(|begun| {
            let ago = step.wrapping_sub(begun);
            (SWEEP..1 << 31).contains(&ago)
        });
        if begun.is_some() && !is_due {
            self.swept.store(begun.unwrap_or(step), Relaxed);
            return Ok(());
        }
        let swap = KeyOp::Swap {
            before,
            or_nothing: begun.is_none(),
            value: step.to_be_bytes().to_vec(),
            life: Lifetime::Endless,
        };
        let swapped = self.run_all(key(swap)).await?.next();
        self.swept.store(step, Relaxed);
        let is_ours = is_due && swapped == Some(RedisReply::Number(1));
        if is_ours && begun.is_some_and(|begun| begun / NAMES != step / NAMES) {
            self.sweeps_names.store(true, SeqCst);
        }
        if is_ours && !self.sweeps.swap(true, SeqCst) {
            let inner = self.clone();
            self.keys.spawn(Box::pin(async move {
                loop {
                    // A sweep that is cut short is continued by the next one.
                    let sweeps_names = inner.sweeps_names.swap(false, SeqCst);
                    let _ = inner.sweep(sweeps_names).await;
                    inner.sweeps.store(false, SeqCst);
                    // The turn of the names may have come meanwhile.
                    if !inner.sweeps_names.load(SeqCst) || inner.sweeps.swap(true, SeqCst) {
                        return;
                    }
                }
            }));
        }
        Ok(())
    }

    /// Removes expired nodes, and bucket entries of expired nodes. Answers how many nodes went.
    pub(super) async fn sweep(&self, sweeps_names: bool) -> Result<u64, Unavailable> {
        let (mut place, mut gone) = (Some(ScanPosition::default()), 0);
        while let Some(at) = place {
            let (mut keys, next) = self.keys_from(at).await?;
            keys.retain(|key| match key.kind {
                KeyKind::Node => true,
                KeyKind::Bucket => sweeps_names,
                KeyKind::FounderTokens
                | KeyKind::Clock
                | KeyKind::Sweep
                | KeyKind::Overrides
                | KeyKind::Acknowledgements => false,
            });
            let values = self.get(&keys).await?;
            let over = keys.into_iter().zip(values).filter_map(|(key, value)| {
                let RedisReply::Bytes(value) = value else {
                    return None;
                };
                // Compares the value: a document may have joined it meanwhile.
                let what = match key.kind {
                    KeyKind::Bucket => self.without_old_names(value)?,
                    _ => self.is_over(&value)?.then_some(KeyOp::Remove { value })?,
                };
                Some((key.kind, key.fingerprint, what))
            });
            let over: Vec<_> = over.collect();
            let kinds: Vec<KeyKind> = over.iter().map(|(kind, ..)| *kind).collect();
            for (kind, reply) in kinds.into_iter().zip(self.run_all(over).await?) {
                gone += u64::from(kind == KeyKind::Node && reply == RedisReply::Number(1));
            }
            self.keys.pause(PAUSE).await;
            place = next;
        }
        self.counters.expired.fetch_add(gone, Relaxed);
        Ok(gone)
    }

    /// Whether a node has expired. `None`: it is of a later version.
    fn is_over(&self, value: &[u8]) -> Option<bool> {
        let calendar = self.calendar();
        Some(match NodeValue::<F::Proof>::read(value)? {
            NodeValue::Leaf(leaf) => calendar.is_over(leaf.step),
            NodeValue::Root(root) => root.is_confirmed && calendar.is_over(root.step),
        })
    }

    /// The command that removes expired entries of a bucket; `None` if there are none.
    fn without_old_names(&self, before: Vec<u8>) -> Option<KeyOp> {
        let clock = self.dated_clock()?;
        let value = living_names(&before, self.calendar.whole_step(clock) as u8)?;
        Some(match value.is_empty() {
            true => KeyOp::Remove { value: before },
            false => KeyOp::Swap { before, or_nothing: false, value, life: self.life(clock, true) },
        })
    }
}
