//! The nodes that found their bucket full, by their half: the bound for every distribution.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use spinney_text::hash::{GOLDEN_RATIO, HashKey};
use spinney_text::work_counter;

use super::ball;

/// The nodes of one half are a list up to this many. Beyond it they are found by their other half.
const FEW: usize = 15;
/// A crowd becomes a list again when it has this many, well below where it became one.
const FEW_AGAIN: usize = 6;
/// Most nodes of a crowd in one map; larger crowds use several, so that no single growth takes long.
const ONE_MAP: usize = 1 << 15;
const MAPS: usize = 256;
/// Cost of a lookup, in entries read.
const ENTRIES_PER_PROBE: u64 = 4;

type WordMap<T> = HashMap<u32, T, WordHashers>;

/// Overflow nodes of the buckets of one shard, by their half.
#[derive(Debug)]
pub(super) struct Overflow {
    halves: WordMap<Nodes>,
    /// How many halves have a list, and nodes that are not in a crowd.
    lists: usize,
    few: usize,
    crowd_bytes: usize,
}

#[derive(Debug)]
enum Nodes {
    One(u32),
    Few(Box<FewNodes>),
    Crowd(Box<Crowd>),
}

#[derive(Debug)]
struct FewNodes {
    len: u32,
    ids: [u32; FEW],
}

impl FewNodes {
    fn ids(&self) -> &[u32] {
        self.ids.get(..self.len as usize).unwrap_or_default()
    }

    /// Returns false if it is full.
    fn push(&mut self, id: u32) -> bool {
        let place = self.ids.get_mut(self.len as usize);
        self.len += u32::from(place.is_some());
        place.map(|place| *place = id).is_some()
    }

    fn remove(&mut self, id: u32) -> bool {
        let Some(at) = self.ids().iter().position(|&held| held == id) else {
            return false;
        };
        self.len -= 1;
        self.ids.swap(at, self.len as usize);
        true
    }
}

/// The nodes of a half that many share: other half -> node.
#[derive(Debug)]
pub(super) struct Crowd {
    len: usize,
    /// Bytes of memory.
    bytes: usize,
    secret: HashKey,
    /// One, or [`MAPS`] by the hash of the other half.
    maps: Vec<WordMap<u32>>,
}

impl Overflow {
    pub(super) fn new(secret: HashKey) -> Self {
        Overflow { halves: HashMap::with_hasher(WordHashers(secret)), lists: 0, few: 0, crowd_bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.halves.is_empty()
    }

    /// Inserts a node. `other` returns the other half of any node.
    pub(super) fn insert(&mut self, half: u32, id: u32, other: impl Fn(u32) -> u32) {
        let secret = self.halves.hasher().0;
        count_growth(&self.halves);
        let Some(held) = self.halves.get_mut(&half) else {
            self.halves.insert(half, Nodes::One(id));
            self.few += 1;
            return;
        };
        match held {
            Nodes::One(first) => {
                let mut ids = [0; FEW];
                ids[..2].copy_from_slice(&[*first, id]);
                *held = Nodes::Few(Box::new(FewNodes { len: 2, ids }));
                self.lists += 1;
                self.few += 1;
            }
            Nodes::Few(few) => {
                if few.push(id) {
                    self.few += 1;
                    return;
                }
                let mut crowd = Box::new(Crowd::new(secret));
                for &id in few.ids() {
                    crowd.insert(other(id), id);
                }
                crowd.insert(other(id), id);
                self.crowd_bytes += crowd.bytes;
                *held = Nodes::Crowd(crowd);
                self.lists -= 1;
                self.few -= FEW;
            }
            Nodes::Crowd(crowd) => {
                self.crowd_bytes -= crowd.bytes;
                crowd.insert(other(id), id);
                self.crowd_bytes += crowd.bytes;
            }
        }
    }

    /// Takes a node out; false if it is not here.
    pub(super) fn remove(&mut self, half: u32, id: u32, other: u32) -> bool {
        let Some(held) = self.halves.get_mut(&half) else {
            return false;
        };
        match held {
            Nodes::One(first) if *first == id => {
                self.halves.remove(&half);
                self.few -= 1;
                self.shrink();
            }
            Nodes::One(_) => return false,
            Nodes::Few(few) => {
                if !few.remove(id) {
                    return false;
                }
                self.few -= 1;
                if let &[last] = few.ids() {
                    *held = Nodes::One(last);
                    self.lists -= 1;
                }
            }
            Nodes::Crowd(crowd) => {
                let bytes = crowd.bytes;
                if !crowd.remove(other, id) {
                    return false;
                }
                self.crowd_bytes = self.crowd_bytes + crowd.bytes - bytes;
                if crowd.len == FEW_AGAIN {
                    let mut few = FewNodes { len: 0, ids: [0; FEW] };
                    for &id in crowd.ids() {
                        few.push(id);
                    }
                    self.crowd_bytes -= crowd.bytes;
                    *held = Nodes::Few(Box::new(few));
                    self.lists += 1;
                    self.few += FEW_AGAIN;
                }
            }
        }
        true
    }

    /// Visits the nodes of a half; of a crowd only those whose other half is at most `budget` away from `other`.
    pub(super) fn visit(&self, half: u32, other: u32, budget: u32, mut visit: impl FnMut(u32)) {
        work_counter::add(1);
        match self.halves.get(&half) {
            None => {}
            Some(Nodes::One(id)) => visit(*id),
            Some(Nodes::Few(few)) => few.ids().iter().for_each(|&id| visit(id)),
            Some(Nodes::Crowd(crowd)) => crowd.visit(other, budget, visit),
        }
    }

    /// Takes everything out: the nodes that are not in a crowd, and the crowds.
    pub(super) fn into_parts(self) -> (Vec<u32>, Vec<(u32, Box<Crowd>)>) {
        let mut nodes = Vec::with_capacity(self.few);
        let mut crowds = Vec::new();
        for (half, held) in self.halves {
            match held {
                Nodes::One(id) => nodes.push(id),
                Nodes::Few(few) => nodes.extend(few.ids()),
                Nodes::Crowd(crowd) => crowds.push((half, crowd)),
            }
        }
        (nodes, crowds)
    }

    /// Takes over the crowd of a half that has no nodes here.
    pub(super) fn take_over(&mut self, half: u32, crowd: Box<Crowd>) {
        self.crowd_bytes += crowd.bytes;
        self.halves.insert(half, Nodes::Crowd(crowd));
    }

    /// A map that was large must not be read as if it still were.
    fn shrink(&mut self) {
        if self.halves.len() < self.halves.capacity() / 8 {
            work_counter::add(self.halves.len());
            self.halves.shrink_to_fit();
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let lists = self.lists * size_of::<FewNodes>();
        size_of::<Self>() + map_bytes(&self.halves) + lists + self.crowd_bytes
    }
}

impl Crowd {
    fn new(secret: HashKey) -> Self {
        Crowd {
            len: 0,
            bytes: size_of::<Self>() + size_of::<WordMap<u32>>(),
            secret,
            maps: vec![HashMap::with_hasher(WordHashers(secret))],
        }
    }

    fn map_of(&self, other: u32) -> usize {
        if self.maps.len() == 1 {
            return 0;
        }
        self.secret.hash32(other) as usize / (1 << 24)
    }

    fn insert(&mut self, other: u32, id: u32) {
        if self.len == ONE_MAP && self.maps.len() == 1 {
            self.divide(MAPS);
        }
        let map = self.map_of(other);
        if let Some(map) = self.maps.get_mut(map) {
            self.bytes -= map_bytes(map);
            count_growth(map);
            map.insert(other, id);
            self.bytes += map_bytes(map);
            self.len += 1;
        }
    }

    fn remove(&mut self, other: u32, id: u32) -> bool {
        let map = self.map_of(other);
        let Some(map) = self.maps.get_mut(map) else {
            return false;
        };
        if map.get(&other) != Some(&id) {
            return false;
        }
        map.remove(&other);
        // As with the halves.
        if map.len() < map.capacity() / 8 {
            work_counter::add(map.len());
            self.bytes -= map_bytes(map);
            map.shrink_to_fit();
            self.bytes += map_bytes(map);
        }
        self.len -= 1;
        if self.len == ONE_MAP / 8 && self.maps.len() > 1 {
            self.divide(1);
        }
        true
    }

    fn divide(&mut self, maps: usize) {
        let map = || HashMap::with_hasher(WordHashers(self.secret));
        let empty = (0..maps).map(|_| map()).collect();
        work_counter::add(self.len);
        for (other, id) in std::mem::replace(&mut self.maps, empty).into_iter().flatten() {
            let map = self.map_of(other);
            if let Some(map) = self.maps.get_mut(map) {
                map.insert(other, id);
            }
        }
        let maps = self.maps.iter().map(|map| map_bytes(map) + size_of_val(map));
        self.bytes = size_of::<Self>() + maps.sum::<usize>();
    }

    fn ids(&self) -> impl Iterator<Item = &u32> {
        self.maps.iter().flat_map(HashMap::values)
    }

    fn visit(&self, other: u32, budget: u32, mut visit: impl FnMut(u32)) {
        if ball::size(budget) * ENTRIES_PER_PROBE < self.len as u64 {
            for mask in (0..=budget).flat_map(ball::masks) {
                work_counter::add(1);
                let map = self.maps.get(self.map_of(other ^ mask));
                if let Some(&id) = map.and_then(|map| map.get(&(other ^ mask))) {
                    visit(id);
                }
            }
        } else {
            for (&word, &id) in self.maps.iter().flatten() {
                work_counter::add(1);
                if (word ^ other).count_ones() <= budget {
                    visit(id);
                }
            }
        }
    }
}

/// Counts the work of a map that rehashes for one more entry.
fn count_growth<T>(map: &WordMap<T>) {
    if map.len() == map.capacity() {
        work_counter::add(map.len());
    }
}

/// A hash map spends a control byte an entry and fills at most seven eighths of its places.
fn map_bytes<T>(map: &WordMap<T>) -> usize {
    map.capacity() * 8 / 7 * (size_of::<(u32, T)>() + 1)
}

/// Keyed hashers for the maps.
#[derive(Debug, Clone)]
struct WordHashers(HashKey);

impl BuildHasher for WordHashers {
    type Hasher = WordHasher;

    fn build_hasher(&self) -> WordHasher {
        WordHasher { secret: self.0, hash: 0 }
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
