//! One table by one half of the fingerprints: half -> the nodes that have it.

use super::ball;
use super::shard::{END, SHARDS, Shard, shard_of};
use crate::hash::{GOLDEN_RATIO, HashKey};
use crate::steps;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

/// A link that stores nothing, and the head of a half that has an overflow map.
pub(super) const VACANT: u32 = u32::MAX - 1;
const OVERFLOW: u32 = VACANT;

/// A half with more nodes than this moves from its chain into an overflow map.
const CHAIN: usize = 16;
/// How many probes wait for memory together: all those of a radius of 1.
const GROUP: usize = 33;
/// Looking one word up in an overflow map costs about as much as reading this many of its entries.
const ENTRIES_PER_PROBE: u64 = 4;

/// What the index keeps of one node: its fingerprint and its place in the chains of both halves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) code: u64,
    pub(super) next: [u32; 2],
}

impl Link {
    pub(super) const VACANT: Link = Link {
        code: 0,
        next: [VACANT; 2],
    };

    pub(super) fn is_vacant(&self) -> bool {
        self.next == [VACANT; 2]
    }
}

/// Which half a table is keyed by; its discriminant is its place in [`Link::next`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    High,
    Low,
}

impl Side {
    fn key(self, code: u64) -> u32 {
        match self {
            Side::High => (code >> 32) as u32,
            Side::Low => code as u32,
        }
    }

    fn other(self, code: u64) -> u32 {
        match self {
            Side::High => code as u32,
            Side::Low => (code >> 32) as u32,
        }
    }

    fn next(self, links: &[Link], id: u32) -> u32 {
        let link = links.get(id as usize);
        link.map_or(END, |link| match self {
            Side::High => link.next[0],
            Side::Low => link.next[1],
        })
    }

    fn set_next(self, links: &mut [Link], id: u32, next: u32) {
        if let Some(link) = links.get_mut(id as usize) {
            match self {
                Side::High => link.next[0] = next,
                Side::Low => link.next[1] = next,
            }
        }
    }
}

/// The nodes of a half that many share: the other half -> the first node of that fingerprint.
type OverflowMap = HashMap<u32, u32, WordHashers>;

#[derive(Debug)]
pub(super) struct HalfTable {
    side: Side,
    pub(super) secret: HashKey,
    shards: Vec<Shard>,
    overflow: HashMap<u32, OverflowMap, WordHashers>,
}

impl HalfTable {
    pub(super) fn new(side: Side, secret: HashKey) -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default());
        HalfTable {
            side,
            secret,
            shards: shards.collect(),
            overflow: HashMap::with_hasher(WordHashers(secret)),
        }
    }

    /// Puts a node, whose link holds its code, into this table.
    pub(super) fn insert(&mut self, links: &mut [Link], id: u32, code: u64) {
        let side = self.side;
        let key = side.key(code);
        let hash = self.secret.hash32(key);
        let Some(shard) = self.shards.get_mut(shard_of(hash)) else {
            return;
        };
        let Some(head) = shard.head_mut(key, self.secret) else {
            return;
        };
        match *head {
            END => {
                *head = id;
                side.set_next(links, id, END);
            }
            OVERFLOW => {
                if let Some(map) = self.overflow.get_mut(&key) {
                    insert_into_map(map, side, links, id, side.other(code));
                }
            }
            first => {
                let mut chain = [END; CHAIN];
                let mut length = 0;
                let mut node = first;
                for place in &mut chain {
                    if node == END {
                        break;
                    }
                    *place = node;
                    length += 1;
                    node = side.next(links, node);
                }
                if length < CHAIN {
                    side.set_next(links, id, first);
                    *head = id;
                    return;
                }
                *head = OVERFLOW;
                let empty = || HashMap::with_hasher(WordHashers(self.secret));
                let map = self.overflow.entry(key).or_insert_with(empty);
                for node in chain {
                    let other = links
                        .get(node as usize)
                        .map_or(0, |link| side.other(link.code));
                    insert_into_map(map, side, links, node, other);
                }
                insert_into_map(map, side, links, id, side.other(code));
            }
        }
    }

    /// Takes a node, which [`Self::insert`] put here, out of this table.
    pub(super) fn remove(&mut self, links: &mut [Link], id: u32, code: u64) {
        let side = self.side;
        let key = side.key(code);
        let hash = self.secret.hash32(key);
        let Some(shard) = self.shards.get_mut(shard_of(hash)) else {
            return;
        };
        let Some(slot) = shard.find(key, hash) else {
            return;
        };
        let Some(head) = shard.head_at_mut(slot) else {
            return;
        };
        if *head == OVERFLOW {
            let Some(map) = self.overflow.get_mut(&key) else {
                return;
            };
            remove_from_map(map, side, links, id, side.other(code));
            if map.is_empty() {
                self.overflow.remove(&key);
                shard.vacate(slot, self.secret);
            }
            return;
        }
        unchain(head, side, links, id);
        if *head == END {
            shard.vacate(slot, self.secret);
        }
    }

    /// Visits the nodes whose half is the query's with one of the `masks` flipped, and where many share it only those whose
    /// other half is within the rest of the distance `k`. What is visited may still be further away than k.
    pub(super) fn visit_flipped(
        &self,
        links: &[Link],
        query: u64,
        masks: impl Iterator<Item = u32>,
        k: u32,
        mut visit: impl FnMut(u32, u64),
    ) {
        let key = self.side.key(query);
        let mut masks = masks.peekable();
        while masks.peek().is_some() {
            // Nearly every probe finds nothing, and nearly all of its time is waiting for memory. Reading all the first
            // slots without a branch lets the processor wait for them together; the second pass finds them at hand.
            let mut likely = [0; GROUP];
            let mut count = 0;
            for mask in masks.by_ref().take(GROUP) {
                if let Some(place) = likely.get_mut(count) {
                    *place = mask;
                }
                count += usize::from(self.is_home_taken(key ^ mask));
            }
            for &mask in likely.iter().take(count) {
                let budget = k.saturating_sub(mask.count_ones());
                self.visit(links, query, mask, budget, &mut visit);
            }
        }
    }

    #[inline]
    fn is_home_taken(&self, key: u32) -> bool {
        let hash = self.secret.hash32(key);
        self.shards
            .get(shard_of(hash))
            .is_some_and(|shard| shard.is_home_taken(hash))
    }

    /// Visits the nodes whose half is the query's with `mask` flipped, and where many share it only those whose other half
    /// is at most `budget` away from the query's.
    #[inline]
    pub(super) fn visit(
        &self,
        links: &[Link],
        query: u64,
        mask: u32,
        budget: u32,
        mut visit: impl FnMut(u32, u64),
    ) {
        let key = self.side.key(query) ^ mask;
        let hash = self.secret.hash32(key);
        let Some(shard) = self.shards.get(shard_of(hash)) else {
            return;
        };
        let Some(slot) = shard.find(key, hash) else {
            return;
        };
        let head = shard.head_at(slot);
        if head == OVERFLOW {
            self.visit_overflow(links, key, self.side.other(query), budget, &mut visit);
        } else {
            self.visit_chain(links, head, &mut visit);
        }
    }

    fn visit_overflow(
        &self,
        links: &[Link],
        key: u32,
        other: u32,
        budget: u32,
        visit: &mut impl FnMut(u32, u64),
    ) {
        let Some(map) = self.overflow.get(&key) else {
            return;
        };
        if ball::size(budget) * ENTRIES_PER_PROBE < map.len() as u64 {
            for mask in (0..=budget).flat_map(ball::masks) {
                steps::add(1);
                if let Some(&head) = map.get(&(other ^ mask)) {
                    self.visit_chain(links, head, visit);
                }
            }
        } else {
            for (&word, &head) in map {
                steps::add(1);
                if (word ^ other).count_ones() <= budget {
                    self.visit_chain(links, head, visit);
                }
            }
        }
    }

    #[inline]
    fn visit_chain(&self, links: &[Link], mut node: u32, visit: &mut impl FnMut(u32, u64)) {
        while let Some(link) = links.get(node as usize) {
            steps::add(1);
            visit(node, link.code);
            node = self.side.next(links, node);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let shards: usize = self.shards.iter().map(Shard::memory_bytes).sum();
        let entries: usize = self.overflow.values().map(OverflowMap::capacity).sum();
        // A hash map spends a control byte an entry and fills seven eighths of its places.
        shards
            + entries * (size_of::<(u32, u32)>() + 1) * 8 / 7
            + self.overflow.capacity() * (size_of::<(u32, OverflowMap)>() + 1) * 8 / 7
    }
}

fn insert_into_map(map: &mut OverflowMap, side: Side, links: &mut [Link], id: u32, other: u32) {
    // Nodes of one and the same fingerprint stay a chain.
    let next = map.insert(other, id).unwrap_or(END);
    side.set_next(links, id, next);
}

fn remove_from_map(map: &mut OverflowMap, side: Side, links: &mut [Link], id: u32, other: u32) {
    let Some(head) = map.get_mut(&other) else {
        return;
    };
    unchain(head, side, links, id);
    if *head == END {
        map.remove(&other);
        // A map that was large must not be scanned as if it still were.
        if map.len() < map.capacity() / 8 {
            map.shrink_to_fit();
        }
    }
}

/// Takes a node out of the chain that begins at `head`; `head` is [`END`] if it was the only one.
fn unchain(head: &mut u32, side: Side, links: &mut [Link], id: u32) {
    let after = side.next(links, id);
    if *head == id {
        *head = after;
        return;
    }
    let mut node = *head;
    while node != END {
        let next = side.next(links, node);
        if next == id {
            side.set_next(links, node, after);
            return;
        }
        node = next;
    }
}

/// Keyed hashers for the overflow maps.
#[derive(Debug, Clone)]
struct WordHashers(HashKey);

impl BuildHasher for WordHashers {
    type Hasher = WordHasher;

    fn build_hasher(&self) -> WordHasher {
        WordHasher {
            secret: self.0,
            hash: 0,
        }
    }
}

struct WordHasher {
    secret: HashKey,
    hash: u64,
}

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        // The map takes its slot from the low bits and its tag from the high ones.
        let mixed = self.secret.hash32(word ^ self.hash as u32);
        self.hash = u64::from(mixed).wrapping_mul(GOLDEN_RATIO);
    }
}
