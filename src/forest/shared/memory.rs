//! A store in this process, for tests: `functions.lua` in Rust. Its clock is the latest given arrival.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use parking_lot::Mutex;

use super::keys::{
    Command, Key, KeyKind, KeyOp, KeySample, KeyStore, Lifetime, ScanPosition, StoreFuture, StoreReply,
    StoreUnavailable, SyncEntries, SyncEntry, SyncPosition, lifetime_millis,
};
use crate::method::{Durable, TreeTally};
use crate::planted::planted;
use crate::time::Millis;

/// Forests that take one of these share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct InMemoryStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    made: Instant,
    clock: AtomicI64,
    values: Mutex<HashMap<Key, Value>>,
    forests: Mutex<Vec<(String, String)>>,
    lessons: Mutex<Vec<(u8, SyncPosition, Vec<u8>)>>,
    away: Mutex<Option<StoreUnavailable>>,
}

impl Default for Inner {
    fn default() -> Inner {
        Inner {
            made: Instant::now(),
            clock: AtomicI64::default(),
            values: Mutex::default(),
            forests: Mutex::default(),
            lessons: Mutex::default(),
            away: Mutex::default(),
        }
    }
}

#[derive(Debug, Clone)]
struct Value {
    bytes: Vec<u8>,
    until: Option<i64>,
}

impl InMemoryStore {
    /// Makes it unreachable, or reachable again.
    pub(crate) fn set_away(&self, why: Option<&str>) {
        *self.0.away.lock() = why.map(|why| StoreUnavailable::of(why.to_owned()));
    }

    /// Advances the clock.
    pub(crate) fn advance(&self, now: i64) {
        self.0.clock.fetch_max(now, Relaxed);
    }

    /// All nodes, with their expiry.
    pub(crate) fn nodes(&self) -> Vec<(Key, Vec<u8>, Option<i64>)> {
        self.with_expiry(KeyKind::Node)
    }

    /// All values of a kind, with their expiry.
    pub(super) fn with_expiry(&self, kind: KeyKind) -> Vec<(Key, Vec<u8>, Option<i64>)> {
        let values = self.0.values.lock();
        let now = self.0.clock.load(Relaxed);
        let living =
            values.iter().filter(|(key, value)| key.kind == kind && value.until.is_none_or(|until| until > now));
        let mut nodes: Vec<_> = living.map(|(key, value)| (*key, value.bytes.clone(), value.until)).collect();
        nodes.sort_unstable_by_key(|(key, ..)| *key);
        nodes
    }

    /// The same values, and nothing else, in another engine.
    pub(crate) fn copy(&self) -> InMemoryStore {
        let copy = InMemoryStore::default();
        let values = self.0.values.lock();
        let mut into = copy.0.values.lock();
        for (key, value) in values.iter() {
            let (bytes, until) = (value.bytes.clone(), value.until);
            into.insert(*key, Value { bytes, until });
        }
        drop(into);
        copy
    }

    /// Lets a value go, as its expiry does.
    pub(super) fn remove(&self, key: &Key) {
        self.0.values.lock().remove(key);
    }

    /// Overwrites a value.
    pub(crate) fn overwrite(&self, key: Key, bytes: &[u8]) {
        if let Some(value) = self.0.values.lock().get_mut(&key) {
            value.bytes = bytes.to_vec();
        }
    }

    /// All values of a kind.
    pub(crate) fn of_kind(&self, kind: KeyKind) -> Vec<(Key, Vec<u8>)> {
        let values = self.0.values.lock();
        let now = self.0.clock.load(Relaxed);
        let living =
            values.iter().filter(|(key, value)| key.kind == kind && value.until.is_none_or(|until| until > now));
        living.map(|(key, value)| (*key, value.bytes.clone())).collect()
    }

    pub(crate) fn run_one(&self, command: &Command) -> StoreReply {
        let now = self.0.clock.load(Relaxed);
        // One lock a command: commands of others may come in between.
        let mut values = self.0.values.lock();
        let key = command.key;
        if values.get(&key).is_some_and(|value| value.until.is_some_and(|until| until <= now)) {
            values.remove(&key);
        }
        let until = |life: Lifetime| match life {
            Lifetime::Endless => None,
            Lifetime::For(time) => Some(now.saturating_add(lifetime_millis(time))),
            Lifetime::Until(at) => Some(at.0),
        };
        let there = values.get(&key).map(|value| value.bytes.clone());
        match &command.what {
            KeyOp::Get => there.map_or(StoreReply::Nothing, StoreReply::Bytes),
            KeyOp::Claim { value, life } => match there {
                Some(there) => StoreReply::Bytes(there),
                None => {
                    let (bytes, until) = (value.clone(), until(*life));
                    values.insert(key, Value { bytes, until });
                    StoreReply::Nothing
                }
            },
            KeyOp::Put { value, life } => {
                let (bytes, until) = (value.clone(), until(*life));
                values.insert(key, Value { bytes, until });
                StoreReply::Nothing
            }
            KeyOp::Swap { before, or_nothing, value, life } => {
                let fits = match &there {
                    None => *or_nothing,
                    Some(there) => there == before || there == value,
                };
                if fits {
                    let (bytes, until) = (value.clone(), until(*life));
                    values.insert(key, Value { bytes, until });
                }
                StoreReply::Number(i64::from(fits))
            }
            KeyOp::Confirm { token, value, life } => {
                let of_token =
                    there.as_ref().filter(|there| there.len() >= 20 && there.get(1..4) == Some(&token.bytes()));
                let state = of_token.and_then(|there| there.first());
                if state == Some(&0) {
                    let (bytes, until) = (value.clone(), until(*life));
                    values.insert(key, Value { bytes, until });
                }
                StoreReply::Number(i64::from(state.is_some()))
            }
            KeyOp::Remove { value } => {
                let is_it = there.as_ref() == Some(value);
                if is_it {
                    values.remove(&key);
                }
                StoreReply::Number(i64::from(is_it))
            }
            KeyOp::Pin { token, uses, children, step, life } => {
                let Some(mut bytes) = root(there, token.bytes()) else {
                    return StoreReply::Nothing;
                };
                let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
                let (before, kept) = (number(10), number(16));
                let pins = number(14).wrapping_add(1);
                let uses = number(12).saturating_add(*uses);
                let late = step.wrapping_sub(before);
                let is_due = late > 0 && late < 1 << 15;
                let windows = (step / 64).wrapping_sub(before / 64) % 1024;
                let (own, earlier) = match windows {
                    _ if !is_due => (kept, number(18)),
                    0 => (kept, number(18)),
                    1 => (0, kept),
                    _ => (0, 0),
                };
                let step = if is_due { *step } else { before };
                let own = own.saturating_add(*children);
                let numbers = [step, uses, pins, own, earlier];
                let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
                bytes[10..20].copy_from_slice(&numbers);
                if let Some(value) = values.get_mut(&key) {
                    value.bytes = bytes;
                    if is_due {
                        value.until = until(*life);
                    }
                }
                StoreReply::Number(i64::from(pins))
            }
            KeyOp::Hold { token, uses, children } => {
                let Some(mut bytes) = root(there, token.bytes()) else {
                    return StoreReply::Nothing;
                };
                let mut add = |at: usize, more: u16| {
                    let number = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
                    let number = number.saturating_add(more).to_be_bytes();
                    bytes[at..at + 2].copy_from_slice(&number);
                };
                add(12, *uses);
                add(16, *children);
                if let Some(value) = values.get_mut(&key) {
                    value.bytes = bytes;
                }
                StoreReply::Number(0)
            }
            KeyOp::Arrive { token, step, life } => {
                let Some(mut bytes) = root(there, token.bytes()) else {
                    return StoreReply::Number(0);
                };
                let end = bytes.len() - 2;
                let before = [bytes[end], bytes[end + 1], bytes[10], bytes[11]];
                let before = u32::from_be_bytes(before);
                if step.wrapping_sub(before).cast_signed() <= 0 && !planted!(GoesBack) {
                    return StoreReply::Number(1);
                }
                let [a, b, c, d] = step.to_be_bytes();
                bytes[end..].copy_from_slice(&[a, b]);
                bytes[10..12].copy_from_slice(&[c, d]);
                let own = [bytes[16], bytes[17]];
                match (step / 64).wrapping_sub(before / 64) % 1024 {
                    0 => {}
                    1 => bytes[16..20].copy_from_slice(&[0, 0, own[0], own[1]]),
                    _ => bytes[16..20].fill(0),
                }
                let until = until(*life);
                values.insert(key, Value { bytes, until });
                StoreReply::Number(1)
            }
            KeyOp::Touch { value, life } => {
                if let Some(there) = &there {
                    if there.len() != 15 || there[..11] != value[..11] {
                        return StoreReply::Number(0);
                    }
                    let step = |leaf: &[u8]| u32::from_be_bytes(leaf[11..15].try_into().unwrap());
                    if step(value).wrapping_sub(step(there)).cast_signed() <= 0 {
                        return StoreReply::Number(1);
                    }
                }
                if there.is_none() && planted!(NoPutBack) {
                    return StoreReply::Number(0);
                }
                let (bytes, until) = (value.clone(), until(*life));
                values.insert(key, Value { bytes, until });
                StoreReply::Number(1)
            }
            KeyOp::RemoveLeaf { root, token } => {
                let tree = [&root.0.to_be_bytes()[..], &token.bytes()].concat();
                let is_it = there.is_some_and(|there| there.len() < 20 && there[..11] == tree);
                if is_it {
                    values.remove(&key);
                }
                StoreReply::Number(i64::from(is_it))
            }
            KeyOp::Enter { fingerprint, step, life } => {
                let name = fingerprint.0.to_be_bytes();
                let there = there.unwrap_or_default();
                let entries = there.chunks_exact(9).filter(|entry| {
                    let late = step.wrapping_sub(entry[8]);
                    entry[..8] != name && !(68..=191).contains(&late)
                });
                let mut bytes: Vec<u8> = entries.flatten().copied().collect();
                bytes.extend(name);
                bytes.push(*step);
                let names = bytes.len() / 9;
                let before = values.get(&key).and_then(|value| value.until);
                let until = until(*life).max(before);
                values.insert(key, Value { bytes, until });
                StoreReply::Number(names as i64)
            }
            KeyOp::Advance { to } => {
                let shown = there.map_or(i64::MIN, |there| std::str::from_utf8(&there).unwrap().parse().unwrap());
                let shown = shown.max(to.0);
                let bytes = shown.to_string().into_bytes();
                values.insert(key, Value { bytes, until: None });
                StoreReply::Number(shown)
            }
            KeyOp::Since { head } => match there {
                Some(there) if there.get(..16) == Some(&head[..]) => StoreReply::Nothing,
                there => StoreReply::Bytes(there.unwrap_or_default()),
            },
            KeyOp::Turn { before, value } => {
                let head = there.as_ref().map(|there| there[..16].to_vec());
                let is_done = head.as_deref() == Some(&value[..16]);
                let fits = head == before.map(|before| before.to_vec()) || planted!(ReplacesOverrides);
                if fits && !is_done {
                    let bytes = value.clone();
                    values.insert(key, Value { bytes, until: None });
                }
                StoreReply::Number(i64::from(fits || is_done))
            }
            KeyOp::Acknowledge { process, acknowledged, life } => {
                let text = String::from_utf8(there.unwrap_or_default()).unwrap();
                let numbers = |line: &str| -> Vec<u64> { line.split(' ').map(|n| n.parse().unwrap()).collect() };
                let mut told: Vec<Vec<u64>> = text.lines().map(numbers).collect();
                let own = vec![*process, *acknowledged, now as u64 + life];
                told.retain(|of| of[0] == *process || of[2] > now as u64);
                match told.iter_mut().find(|of| of[0] == *process) {
                    Some(of) => *of = own,
                    None => told.push(own),
                }
                let least = told.iter().map(|of| of[1]).min().unwrap();
                let is_first = told[0][0] == *process;
                let lines = told.iter().map(|of| format!("{} {} {}\n", of[0], of[1], of[2]));
                let bytes = lines.collect::<String>().into_bytes();
                values.insert(key, Value { bytes, until: None });
                StoreReply::Bytes(format!("{} {least}", u8::from(is_first)).into_bytes())
            }
            KeyOp::Release { token, uses } => {
                let Some(mut bytes) = root(there, token.bytes()) else {
                    return StoreReply::Nothing;
                };
                let pins = u16::from_be_bytes([bytes[14], bytes[15]]);
                let before = u16::from_be_bytes([bytes[12], bytes[13]]);
                if before == u16::MAX {
                    return StoreReply::Number(i64::from(pins));
                }
                if before <= *uses {
                    values.remove(&key);
                    return StoreReply::Number(-1);
                }
                bytes[12..14].copy_from_slice(&(before - uses).to_be_bytes());
                if let Some(value) = values.get_mut(&key) {
                    value.bytes = bytes;
                }
                StoreReply::Number(i64::from(pins))
            }
            KeyOp::Count { token, tally } => {
                if let Some(bytes) = root(there, token.bytes())
                    && let Some(value) = values.get_mut(&key)
                {
                    value.bytes = counted(&bytes, tally);
                }
                StoreReply::Nothing
            }
        }
    }
}

/// The confirmed root of a token.
fn root(there: Option<Vec<u8>>, token: [u8; 3]) -> Option<Vec<u8>> {
    there.filter(|bytes| bytes.len() >= 20 && bytes[0] != 0 && bytes[1..4] == token)
}

fn counted(bytes: &[u8], more: &TreeTally) -> Vec<u8> {
    let (mut documents, mut titles, mut signs, mut last) = (1, 0, 0, 0);
    let mut rest = &bytes[20..];
    if bytes[0] == 2 {
        (documents, titles, signs, last) = TreeTally::read(&mut rest).unwrap().parts();
    }
    let (more, more_titles, more_signs, more_last) = more.parts();
    if more_signs > 0 && (signs == 0 || last != more_last) {
        (signs, last) = ((signs + more_signs).min(TreeTally::PAGE_CHROME), more_last);
    }
    let tally = TreeTally::of_parts(documents.saturating_add(more), titles | more_titles, signs, last);
    let mut counted = vec![2];
    counted.extend_from_slice(&bytes[1..20]);
    tally.write(&mut counted);
    counted.extend_from_slice(rest);
    counted
}

impl KeyStore for InMemoryStore {
    fn run(&self, commands: Vec<Command>) -> StoreFuture<Vec<StoreReply>> {
        if let Some(away) = self.away() {
            return Box::pin(std::future::ready(Err(away)));
        }
        let run = |command: &Command| {
            // Others get their turns between any two.
            std::thread::yield_now();
            self.run_one(command)
        };
        let replies = commands.iter().map(run).collect();
        Box::pin(std::future::ready(Ok(replies)))
    }

    fn enroll(&self, name: &str, identity: &str) -> StoreFuture<Result<u8, String>> {
        if let Some(away) = self.away() {
            return Box::pin(std::future::ready(Err(away)));
        }
        let mut forests = self.0.forests.lock();
        let at = forests.iter().position(|(known, _)| known == name);
        let at = at.unwrap_or_else(|| {
            forests.push((name.to_owned(), identity.to_owned()));
            forests.len() - 1
        });
        let enrolled = match &forests[at] {
            (_, known) if known == identity => Ok(at as u8),
            (_, known) => Err(known.clone()),
        };
        Box::pin(std::future::ready(Ok(enrolled)))
    }

    fn forests(&self) -> StoreFuture<Vec<(String, u8, String)>> {
        let forests = self.0.forests.lock();
        let forests = forests.iter().zip(0..);
        let forests = forests.map(|((name, of), number)| (name.clone(), number, of.clone()));
        Box::pin(std::future::ready(Ok(forests.collect())))
    }

    fn keys(&self, forest: u8, place: ScanPosition) -> StoreFuture<(Vec<Key>, Option<ScanPosition>)> {
        let values = self.0.values.lock();
        let mut keys: Vec<Key> = values.keys().copied().collect();
        keys.retain(|key| key.forest == forest && key.fingerprint.0 >= place.cursor);
        keys.sort_unstable();
        // In small parts, and some keys twice, as an engine may do it.
        let next =
            keys.get(6).filter(|_| keys.len() > 7).map(|key| ScanPosition { node: 0, cursor: key.fingerprint.0 });
        keys.truncate(7);
        Box::pin(std::future::ready(Ok((keys, next))))
    }

    fn sync_entries(&self, forest: u8, lesson: Option<SyncEntry>, after: SyncPosition) -> StoreFuture<SyncEntries> {
        if let Some(away) = self.away() {
            return Box::pin(std::future::ready(Err(away)));
        }
        let mut all = self.0.lessons.lock();
        if let Some(lesson) = lesson {
            let at = SyncPosition(1, all.last().map_or(1, |(_, last, _)| last.1 + 1));
            all.push((forest, at, lesson.bytes));
        }
        let heard = all.iter().filter(|(of, at, _)| *of == forest && *at > after);
        let mut heard: Vec<_> = heard.map(|(_, at, bytes)| (*at, bytes.clone())).collect();
        // A few at a time.
        let is_all = heard.len() <= 2;
        heard.truncate(2);
        Box::pin(std::future::ready(Ok((heard, is_all))))
    }

    fn remove_sync_entries(&self, forest: u8) -> StoreFuture<()> {
        self.0.lessons.lock().retain(|(of, ..)| *of != forest);
        Box::pin(std::future::ready(Ok(())))
    }

    fn size(&self) -> StoreFuture<(usize, usize)> {
        let nodes = self.nodes();
        let bytes = nodes.iter().map(|(_, bytes, _)| bytes.len()).sum();
        Box::pin(std::future::ready(Ok((nodes.len(), bytes))))
    }

    fn sample(&self, forest: u8, _: u64) -> StoreFuture<KeySample> {
        if let Some(away) = self.away() {
            return Box::pin(std::future::ready(Err(away)));
        }
        let values = self.0.values.lock();
        let now = self.0.clock.load(Relaxed);
        let living =
            values.iter().filter(|(key, value)| key.forest == forest && value.until.is_none_or(|until| until > now));
        let drawn: Vec<(Key, usize)> = living.map(|(key, value)| (*key, value.bytes.len())).collect();
        Box::pin(std::future::ready(Ok(KeySample { of: drawn.len(), keys: drawn.len(), drawn })))
    }

    fn spawn(&self, job: Pin<Box<dyn Future<Output = ()> + Send>>) {
        std::thread::spawn(|| block_on(job));
    }

    fn pause(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        std::thread::yield_now();
        Box::pin(std::future::ready(()))
    }

    fn arrival(&self, claimed: Millis) -> Millis {
        // A node in the last possible millisecond would expire at once. No clock shows it.
        let claimed = claimed.0.min(i64::MAX >> 1);
        Millis(self.0.clock.fetch_max(claimed, Relaxed).max(claimed))
    }

    fn now(&self) -> Millis {
        Millis(self.0.clock.load(Relaxed))
    }

    fn uptime(&self) -> Duration {
        self.0.made.elapsed()
    }

    fn away(&self) -> Option<StoreUnavailable> {
        self.0.away.lock().clone()
    }
}
