//! Layout of the values of keys. Numbers are big endian, except in a proof and in tree statistics.
//!
//! ```text
//! leaf           | root 8 | token 3 | step 1 |
//! root           | state 1 | token 3 | added 6 | step 2 | uses 2 | nonce 2 | children 2 | before 2 |
//!                | statistics 17, if counted | proof | first document 4, if known |
//! founder tokens | token 3 | tokens, 2 each |
//! bucket         | fingerprint 8 | step 1 | … repeated
//!
//! where documents have dates of their own:
//! leaf           | root 8 | token 3 | step 4 |
//! root           | … first document 4, if known | upper half of the step 2 |
//! ```
//!
//! Leaves and roots differ in length. Twelve bytes and a key of nine are Redis' smallest allocations. The *step* is
//! that of the node's last arrival, in parts of the window; *before* are the children of the previous window.
//! *Children* count pins and confirmations, not expired leaves; they only decide between trees that agree. The *nonce*
//! is that of the last pin.
//!
//! Redis expires a leaf at the end of its step's window, a root two steps later. A root is extended before its leaves,
//! so it outlives them while the clocks of Redis' nodes differ by less than two steps. Nodes are extended at most once
//! a step: one may go a step early.

use std::time::Duration;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{Durable, FounderTokens, TreeTally, take};

use super::keys::{FoundingToken, Lifetime};
use crate::time::Millis;
use crate::{DocumentHash, Root};

/// Steps in a window.
pub(super) const STEPS: i64 = 64;
/// How long a root is kept that is not confirmed.
pub(super) const LEASE: Duration = Duration::from_secs(5);

const LEAF: usize = 12;
const DATED_LEAF: usize = 15;

/// How much longer than the window Redis keeps a node of a dated forest, in windows and in milliseconds: a fallback
/// for nodes that no sweep has removed.
const DATED_WINDOWS: i64 = 1;
const DATED_MORE: i64 = 24 * 3_600_000;

/// The time of a forest, in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Calendar {
    window: Option<Millis>,
    /// Whether documents have dates of their own. Expiry then follows a node's step, not its presence.
    pub(super) is_dated: bool,
    /// The clock of a dated forest; [`i64::MIN`] before it has begun.
    clock: Millis,
}

impl Calendar {
    pub(super) fn new(window: Option<Millis>) -> Calendar {
        Calendar { window, is_dated: false, clock: Millis(i64::MIN) }
    }

    /// The calendar at this time of a dated forest's clock.
    pub(super) fn at(self, clock: Millis) -> Calendar {
        Calendar { clock, ..self }
    }

    /// Milliseconds of a step.
    fn length(self) -> Option<i64> {
        self.window.map(|window| {
            let length = window.0 / STEPS + i64::from(window.0 % STEPS > 0);
            length.max(1)
        })
    }

    /// All bits of the step at a time. 0 where nothing expires.
    pub(super) fn whole_step(self, now: Millis) -> u32 {
        self.length().map_or(0, |length| now.0.div_euclid(length) as u32)
    }

    /// The step at a time, as a root has it.
    pub(super) fn step(self, now: Millis) -> u32 {
        let step = self.whole_step(now);
        if self.is_dated { step } else { step & 0xFFFF }
    }

    /// The same as a leaf has it.
    pub(super) fn leaf_step(self, now: Millis) -> u32 {
        let step = self.whole_step(now);
        if self.is_dated { step } else { step & 0xFF }
    }

    /// How many steps before a time a root has arrived.
    fn ago(self, step: u32, now: Millis) -> i64 {
        let ago = self.whole_step(now).wrapping_sub(step);
        if self.is_dated { i64::from(ago.cast_signed()) } else { i64::from(ago as u16) }
    }

    /// When a step of a root that is not long ago began.
    pub(super) fn begun(self, step: u32, now: Millis) -> Millis {
        let Some(length) = self.length() else {
            return now;
        };
        Millis((now.0.div_euclid(length) - self.ago(step, now)) * length)
    }

    /// The same of a leaf.
    pub(super) fn leaf_begun(self, step: u32, now: Millis) -> Millis {
        if self.is_dated {
            return self.begun(step, now);
        }
        // It has but the end of its step's number.
        let ago = u32::from((self.whole_step(now) as u8).wrapping_sub(step as u8));
        self.begun(self.whole_step(now).wrapping_sub(ago) & 0xFFFF, now)
    }

    /// Whether nodes of a step have expired, present or not.
    pub(super) fn is_over(self, step: u32) -> bool {
        let (Some(window), Some(length)) = (self.window, self.length()) else {
            return false;
        };
        let is_known = self.is_dated && self.clock.0 > i64::MIN;
        is_known && self.ago(step, self.clock) > window.0 / length
    }

    /// Additional milliseconds for which Redis keeps nodes of a dated forest.
    fn dated_life(window: i64, length: i64, is_root: bool) -> i64 {
        let more = if is_root { 2 * length + 60_000 } else { 0 };
        window.saturating_mul(1 + DATED_WINDOWS).saturating_add(DATED_MORE).saturating_add(more)
    }

    /// Lifetime of a node that arrives now: longer for roots than for leaves, by more than the clocks of Redis' nodes
    /// differ. For a dated forest `now` is Redis' time.
    pub(super) fn life(self, now: Millis, is_root: bool) -> Lifetime {
        let (Some(window), Some(length)) = (self.window, self.length()) else {
            return Lifetime::Endless;
        };
        if self.is_dated {
            let life = Calendar::dated_life(window.0, length, is_root);
            return Lifetime::Until(Millis(now.0.saturating_add(life)));
        }
        let begun = now.0.div_euclid(length) * length;
        let more = if is_root { 3 } else { 1 };
        Lifetime::Until(Millis(begun.saturating_add(window.0).saturating_add(more * length)))
    }

    /// Lifetime of lessons.
    pub(super) fn lessons(self) -> Option<Millis> {
        let (window, length) = (self.window?, self.length()?);
        match self.is_dated {
            true => Some(Millis(Calendar::dated_life(window.0, length, true))),
            false => Some(window),
        }
    }

    /// Children that count: those of the window before count for the part of it that is not over.
    fn children(self, root: &RootValue<impl Sized>, now: Millis) -> u32 {
        let (own, before) = (u32::from(root.children), u32::from(root.before));
        if self.window.is_none() {
            return own;
        }
        let (step, steps) = (self.step(now), STEPS as u32);
        let windows = (step / steps).wrapping_sub(root.step / steps) % 1024;
        let left = steps - step % steps;
        match windows {
            0 => own + before * left / steps,
            1 => own * left / steps,
            _ => 0,
        }
    }

    /// A leaf that arrives at a time.
    pub(super) fn leaf(self, root: Root, token: FoundingToken, now: Millis) -> LeafValue {
        LeafValue { root, token, step: self.leaf_step(now), is_dated: self.is_dated }
    }
}

/// The value of a node's key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NodeValue<P> {
    Leaf(LeafValue),
    Root(RootValue<P>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeafValue {
    pub(super) root: Root,
    pub(super) token: FoundingToken,
    /// The last 8 bits of its number, or all of them in a dated forest.
    pub(super) step: u32,
    pub(super) is_dated: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct RootValue<P> {
    /// A provisional one is not.
    pub(super) is_confirmed: bool,
    pub(super) token: FoundingToken,
    pub(super) added: Millis,
    /// The last 16 bits of its number, or all of them in a dated forest.
    pub(super) step: u32,
    pub(super) is_dated: bool,
    /// Placements that use the tree; saturating.
    pub(super) uses: u16,
    /// That of its last pin; 0 before the first one.
    pub(super) nonce: u16,
    pub(super) children: u16,
    pub(super) before: u16,
    /// Tree statistics, from its second accepted document on.
    pub(super) tally: Option<TreeTally>,
    /// Its first document.
    pub(super) first: DocumentHash,
    pub(super) proof: P,
}

impl LeafValue {
    pub(super) fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(DATED_LEAF);
        bytes.extend(self.root.0.0.to_be_bytes());
        bytes.extend(self.token.bytes());
        match self.is_dated {
            true => bytes.extend(self.step.to_be_bytes()),
            false => bytes.push(self.step as u8),
        }
        bytes
    }
}

const PROVISIONAL: u8 = 0;
const CONFIRMED: u8 = 1;
const COUNTED: u8 = 2;

impl<P: Durable> RootValue<P> {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(96);
        bytes.push(match (self.is_confirmed, self.tally) {
            (false, _) => PROVISIONAL,
            (true, None) => CONFIRMED,
            (true, Some(_)) => COUNTED,
        });
        bytes.extend(self.token.bytes());
        let added = self.added.0.clamp(-(1 << 47), (1 << 47) - 1);
        bytes.extend(added.to_be_bytes().iter().skip(2));
        for number in [self.step as u16, self.uses, self.nonce, self.children, self.before] {
            bytes.extend(number.to_be_bytes());
        }
        if let Some(tally) = self.tally.filter(|_| self.is_confirmed) {
            tally.write(&mut bytes);
        }
        self.proof.write(&mut bytes);
        if self.first != DocumentHash::UNKNOWN {
            bytes.extend(self.first.0.to_be_bytes());
        }
        if self.is_dated {
            bytes.extend(((self.step >> 16) as u16).to_be_bytes());
        }
        bytes
    }

    /// Tree statistics: the founder counts from the start.
    pub(super) fn tally(&self) -> TreeTally {
        self.tally.unwrap_or_else(TreeTally::of_founder)
    }

    pub(super) fn living_children(&self, calendar: Calendar, now: Millis) -> u32 {
        calendar.children(self, now)
    }
}

impl<P: Durable> NodeValue<P> {
    /// Whether a value of this size is a root.
    pub(super) fn is_root(bytes: usize) -> bool {
        bytes > DATED_LEAF
    }

    /// `None`: the value is of something else.
    pub(super) fn read(bytes: &[u8]) -> Option<NodeValue<P>> {
        let mut rest = bytes;
        let is_dated = bytes.len() == DATED_LEAF;
        if bytes.len() == LEAF || is_dated {
            return Some(NodeValue::Leaf(LeafValue {
                root: Root(Fingerprint(u64::from_be_bytes(take(&mut rest)?))),
                token: FoundingToken::from_bytes(take(&mut rest)?),
                step: match is_dated {
                    true => u32::from_be_bytes(take(&mut rest)?),
                    false => u32::from(take::<1>(&mut rest)?[0]),
                },
                is_dated,
            }));
        }
        let [state] = take(&mut rest)?;
        let token = FoundingToken::from_bytes(take(&mut rest)?);
        let [a, b, c, d, e, f] = take(&mut rest)?;
        let sign = if a < 0x80 { 0 } else { 0xFF };
        let added = Millis(i64::from_be_bytes([sign, sign, a, b, c, d, e, f]));
        let mut number = || Some(u16::from_be_bytes(take(&mut rest)?));
        let (step, uses, nonce) = (number()?, number()?, number()?);
        let (children, before) = (number()?, number()?);
        let tally = match state {
            PROVISIONAL | CONFIRMED => None,
            COUNTED => Some(TreeTally::read(&mut rest)?),
            _ => return None,
        };
        let proof = P::read(&mut rest)?;
        let first = match rest.len() {
            4.. => DocumentHash(u32::from_be_bytes(take(&mut rest)?)),
            _ => DocumentHash::UNKNOWN,
        };
        let (is_dated, upper) = match rest {
            [] => (false, 0),
            &[high, low] => (true, u16::from_be_bytes([high, low])),
            _ => return None,
        };
        Some(NodeValue::Root(RootValue {
            is_confirmed: state != PROVISIONAL,
            token,
            added,
            step: u32::from(step) | u32::from(upper) << 16,
            is_dated,
            uses,
            nonce,
            children,
            before,
            tally,
            first,
            proof,
        }))
    }
}

/// The encoding of founder tokens.
pub(super) fn write_founder_tokens(token: FoundingToken, tokens: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(3 + 2 * tokens.len());
    bytes.extend(token.bytes());
    for word in tokens {
        bytes.extend(word.to_be_bytes());
    }
    bytes
}

/// The names in a bucket. `None`: the value is of something else.
pub(super) fn read_bucket(bytes: &[u8]) -> Option<Vec<Fingerprint>> {
    let (entries, []) = bytes.as_chunks::<9>() else {
        return None;
    };
    let names = entries.iter().filter_map(|entry| entry.first_chunk::<8>());
    let names = names.map(|name| Fingerprint(u64::from_be_bytes(*name)));
    Some(names.collect())
}

/// The entries of a bucket that have not expired in this step: by the last 8 bits of its number, a window and three
/// steps after their own. `None`: all of them.
pub(super) fn living_names(bytes: &[u8], step: u8) -> Option<Vec<u8>> {
    let (entries, _) = bytes.as_chunks::<9>();
    let lives = |entry: &&[u8; 9]| {
        let [.., arrived] = **entry;
        !(68..=191).contains(&step.wrapping_sub(arrived))
    };
    let living: Vec<u8> = entries.iter().filter(lives).flatten().copied().collect();
    (living.len() < bytes.len()).then_some(living)
}

/// The inverse of [`write_founder_tokens`].
pub(super) fn read_founder_tokens(bytes: &[u8]) -> Option<(FoundingToken, FounderTokens)> {
    let mut rest = bytes;
    let token = FoundingToken::from_bytes(take(&mut rest)?);
    let (tokens, []) = rest.as_chunks::<2>() else {
        return None;
    };
    let tokens: Vec<u16> = tokens.iter().map(|&word| u16::from_be_bytes(word)).collect();
    Some((token, tokens.as_slice().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_tells_when_its_step_began() {
        let calendar = Calendar::new(Some(Millis(10 * STEPS)));
        // Around the ends of the numbers of leaves and of roots, and of neither.
        for now in [1_000, 0x100, 0x1_0000, 0x1_0100, 777_777].map(|step| 10 * step + 3) {
            for ago in 0..=10 * STEPS {
                let arrival = Millis(now - ago);
                let begun = Millis(arrival.0.div_euclid(10) * 10);
                assert_eq!(calendar.leaf_begun(calendar.leaf_step(arrival), Millis(now)), begun, "{ago} before {now}");
                assert_eq!(calendar.begun(calendar.step(arrival), Millis(now)), begun, "{ago} before {now}");
            }
        }
    }

    /// Until a sweep has removed them: a window more, and a day for the clocks; roots still longer than their leaves.
    #[test]
    fn nodes_of_a_dated_forest_are_kept_long() {
        let window = 10 * STEPS;
        let calendar = Calendar { is_dated: true, ..Calendar::new(Some(Millis(window))) };
        let day = 24 * 3_600_000;
        let life = |is_root| calendar.life(Millis(5), is_root);
        assert_eq!(life(false), Lifetime::Until(Millis(5 + 2 * window + day)));
        assert_eq!(life(true), Lifetime::Until(Millis(5 + 2 * window + day + 2 * 10 + 60_000)));
        assert_eq!(calendar.lessons(), Some(Millis(2 * window + day + 2 * 10 + 60_000)));
    }
}
