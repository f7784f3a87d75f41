//! Nodes as the values of keys. Numbers are big endian, but for what a proof and a tally write themselves.
//!
//! ```text
//! leaf     | root 8 | token 3 | step 1 |
//! root     | state 1 | token 3 | added 6 | step 2 | uses 2 | pins 2 | children 2 | before 2 | tally 17, if counted | proof |
//! evidence | token 3 | words, of 2 |
//! ```
//!
//! A leaf is told from a root by its length. Twelve bytes and a key of nine are the smallest allocations there are. The *step* is
//! when the node last arrived, in parts of the window; *before* are the children of the window before this one.

use std::sync::Arc;
use std::time::Duration;

use super::keys::{Life, Token};
use crate::fingerprint::Fingerprint;
use crate::forest::Root;
use crate::method::{Durable, Tally};
use crate::time::Millis;

/// Steps in a window.
pub(super) const STEPS: i64 = 64;
/// How long a root is kept that is not confirmed.
pub(super) const LEASE: Duration = Duration::from_secs(5);

const LEAF: usize = 12;

/// The time of a forest, in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Calendar {
    window: Option<Millis>,
}

impl Calendar {
    pub(super) fn new(window: Option<Millis>) -> Calendar {
        Calendar { window }
    }

    /// Milliseconds of a step.
    fn length(self) -> Option<i64> {
        self.window.map(|window| (window.0 / STEPS).max(1))
    }

    /// The step at a time. 0 where nothing expires.
    pub(super) fn step(self, now: Millis) -> u16 {
        self.length()
            .map_or(0, |length| now.0.div_euclid(length) as u16)
    }

    /// When a step that is not long ago began.
    pub(super) fn begun(self, step: u16, now: Millis) -> Millis {
        let Some(length) = self.length() else {
            return now;
        };
        let ago = i64::from(self.step(now).wrapping_sub(step));
        Millis((now.0.div_euclid(length) - ago) * length)
    }

    /// Until when what arrives now is kept: roots longer than leaves, by more than the clocks of the engine's nodes differ.
    pub(super) fn life(self, now: Millis, is_root: bool) -> Life {
        let (Some(window), Some(length)) = (self.window, self.length()) else {
            return Life::Endless;
        };
        let begun = now.0.div_euclid(length) * length;
        let more = if is_root { 3 } else { 1 };
        Life::Until(Millis(
            begun.saturating_add(window.0).saturating_add(more * length),
        ))
    }

    /// Children that count: those of the window before count for the part of it that is not over.
    fn children(self, root: &RootValue<impl Sized>, now: Millis) -> u32 {
        let (own, before) = (u32::from(root.children), u32::from(root.before));
        if self.window.is_none() {
            return own;
        }
        let step = self.step(now);
        let windows = (step / STEPS as u16).wrapping_sub(root.step / STEPS as u16) % 1024;
        let left = STEPS as u32 - u32::from(step % STEPS as u16);
        match windows {
            0 => own + before * left / STEPS as u32,
            1 => own * left / STEPS as u32,
            _ => 0,
        }
    }
}

/// What a key of a node holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node<P> {
    Leaf(Leaf),
    Root(RootValue<P>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) root: Root,
    pub(super) token: Token,
    pub(super) step: u8,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct RootValue<P> {
    /// A provisional one is not.
    pub(super) is_confirmed: bool,
    pub(super) token: Token,
    pub(super) added: Millis,
    pub(super) step: u16,
    /// Placements that rest on the tree; the highest value stands for more.
    pub(super) uses: u16,
    /// How often it was pinned, going round.
    pub(super) pins: u16,
    pub(super) children: u16,
    pub(super) before: u16,
    /// What came to it, from its second accepted document on.
    pub(super) tally: Option<Tally>,
    pub(super) proof: P,
}

impl Leaf {
    pub(super) fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEAF);
        bytes.extend(self.root.0.0.to_be_bytes());
        bytes.extend(self.token.bytes());
        bytes.push(self.step);
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
        for number in [self.step, self.uses, self.pins, self.children, self.before] {
            bytes.extend(number.to_be_bytes());
        }
        if let Some(tally) = self.tally.filter(|_| self.is_confirmed) {
            tally.write(&mut bytes);
        }
        self.proof.write(&mut bytes);
        bytes
    }

    /// What came to the tree: its founder counts from the start.
    pub(super) fn tally(&self) -> Tally {
        self.tally.unwrap_or_else(Tally::of_founder)
    }

    pub(super) fn living_children(&self, calendar: Calendar, now: Millis) -> u32 {
        calendar.children(self, now)
    }
}

impl<P: Durable> Node<P> {
    /// `None`: the value is of something else.
    pub(super) fn read(bytes: &[u8]) -> Option<Node<P>> {
        let mut rest = bytes;
        if bytes.len() == LEAF {
            return Some(Node::Leaf(Leaf {
                root: Root(Fingerprint(u64::from_be_bytes(take(&mut rest)?))),
                token: Token::from_bytes(take(&mut rest)?),
                step: take::<1>(&mut rest)?[0],
            }));
        }
        let [state] = take(&mut rest)?;
        let token = Token::from_bytes(take(&mut rest)?);
        let [a, b, c, d, e, f] = take(&mut rest)?;
        let sign = if a < 0x80 { 0 } else { 0xFF };
        let added = Millis(i64::from_be_bytes([sign, sign, a, b, c, d, e, f]));
        let mut number = || Some(u16::from_be_bytes(take(&mut rest)?));
        let (step, uses, pins) = (number()?, number()?, number()?);
        let (children, before) = (number()?, number()?);
        let tally = match state {
            PROVISIONAL | CONFIRMED => None,
            COUNTED => Some(Tally::read(&mut rest)?),
            _ => return None,
        };
        let proof = P::read(&mut rest)?;
        rest.is_empty().then_some(Node::Root(RootValue {
            is_confirmed: state != PROVISIONAL,
            token,
            added,
            step,
            uses,
            pins,
            children,
            before,
            tally,
            proof,
        }))
    }
}

/// The evidence of a root as a value.
pub(super) fn write_evidence(token: Token, words: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(3 + 2 * words.len());
    bytes.extend(token.bytes());
    for word in words {
        bytes.extend(word.to_be_bytes());
    }
    bytes
}

/// What [`write_evidence`] wrote.
pub(super) fn read_evidence(bytes: &[u8]) -> Option<(Token, Arc<[u16]>)> {
    let mut rest = bytes;
    let token = Token::from_bytes(take(&mut rest)?);
    let (words, []) = rest.as_chunks::<2>() else {
        return None;
    };
    let words = words.iter().map(|&word| u16::from_be_bytes(word));
    Some((token, words.collect()))
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}
