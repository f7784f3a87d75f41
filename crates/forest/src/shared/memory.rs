//! A Redis in this process, for tests: `functions.lua` in Rust. Its clock is the latest given arrival.

#![expect(clippy::unwrap_used, reason = "a model, in tests alone")]

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use parking_lot::Mutex;
use spinney_text::method::{Durable, TreeTally};

use super::keys::{
    Agreement, Command, FORESTS, FoundingToken, Key, KeyKind, KeyOp, KeySample, LATEST, Lifetime, NAMES, PinNonce,
    RedisClient, RedisFuture, RedisReply, RedisUnavailable, RoundFailed, RoundFuture, ScanPosition, SyncEntries,
    SyncEntry, SyncPosition, agreement, lifetime_millis, other_fields, other_settings, proposed_number,
    too_many_forests, warn_of_earlier,
};
use crate::text_fields::{FieldRecord, RoutedFields};
use crate::time::Millis;

/// Forests that take one of these share it.
#[derive(Debug, Clone, Default)]
pub struct InMemoryRedis(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    made: Instant,
    clock: AtomicI64,
    values: Mutex<HashMap<Key, Value>>,
    /// Number and identity, by name.
    forests: Mutex<BTreeMap<String, (u8, String)>>,
    fields: Mutex<HashMap<String, FieldRecord>>,
    logs: Mutex<Logs>,
    away: Mutex<Option<RedisUnavailable>>,
    is_full: AtomicBool,
}

impl Default for Inner {
    fn default() -> Inner {
        Inner {
            made: Instant::now(),
            clock: AtomicI64::default(),
            values: Mutex::default(),
            forests: Mutex::default(),
            fields: Mutex::default(),
            logs: Mutex::default(),
            away: Mutex::default(),
            is_full: AtomicBool::default(),
        }
    }
}

#[derive(Debug, Clone)]
struct Value {
    bytes: Vec<u8>,
    until: Option<i64>,
}

/// Lessons, by forest.
#[derive(Debug, Default)]
struct Logs {
    of: HashMap<u8, Log>,
    /// The position of the last lesson: positions of removed ones are not reused.
    last: SyncPosition,
}

#[derive(Debug, Default)]
struct Log {
    lessons: Vec<(SyncPosition, Vec<u8>)>,
    /// Whether lessons were removed to limit the log.
    is_trimmed: bool,
    until: Option<i64>,
}

/// Whether a value with this expiry exists at `now`. At that very millisecond it is.
fn lives(until: Option<i64>, now: i64) -> bool {
    until.is_none_or(|until| until >= now)
}

impl InMemoryRedis {
    /// Makes it unreachable, or reachable again.
    pub fn set_away(&self, why: Option<&str>) {
        *self.0.away.lock() = why.map(|why| RedisUnavailable::of(why.to_owned()));
    }

    /// Simulates that it is out of memory.
    pub fn set_full(&self, is_full: bool) {
        self.0.is_full.store(is_full, Relaxed);
    }

    /// Advances the clock.
    pub fn advance(&self, now: i64) {
        self.0.clock.fetch_max(now, Relaxed);
    }

    /// Ends all that is kept until a moment before this one, as if it were then.
    pub fn end_before(&self, moment: i64) {
        self.0.values.lock().retain(|_, value| lives(value.until, moment));
        self.0.logs.lock().of.retain(|_, log| lives(log.until, moment));
    }

    /// All nodes, with their expiry.
    pub fn nodes(&self) -> Vec<(Key, Vec<u8>, Option<i64>)> {
        self.with_expiry(KeyKind::Node)
    }

    /// All values of a kind, with their expiry.
    pub(super) fn with_expiry(&self, kind: KeyKind) -> Vec<(Key, Vec<u8>, Option<i64>)> {
        let mut values = self.values();
        values.retain(|(key, ..)| key.kind == kind);
        values.sort_unstable_by_key(|(key, ..)| *key);
        values
    }

    /// A second in-memory Redis with the same values.
    pub fn copy(&self) -> InMemoryRedis {
        let copy = InMemoryRedis::default();
        let values = self.0.values.lock();
        let mut into = copy.0.values.lock();
        for (key, value) in values.iter() {
            let (bytes, until) = (value.bytes.clone(), value.until);
            into.insert(*key, Value { bytes, until });
        }
        drop(into);
        copy
    }

    /// Removes a value, as its expiry does.
    pub fn remove(&self, key: &Key) {
        self.0.values.lock().remove(key);
    }

    /// Overwrites a value.
    pub fn overwrite(&self, key: Key, bytes: &[u8]) {
        if let Some(value) = self.0.values.lock().get_mut(&key) {
            value.bytes = bytes.to_vec();
        }
    }

    /// All values of a kind.
    pub fn of_kind(&self, kind: KeyKind) -> Vec<(Key, Vec<u8>)> {
        self.with_expiry(kind).into_iter().map(|(key, value, _)| (key, value)).collect()
    }

    /// Keys of its own, besides those of values: as Redis counts them.
    fn other_keys(&self, now: i64) -> usize {
        let logs = self.0.logs.lock();
        let logs = logs.of.values().filter(|log| lives(log.until, now)).count();
        logs + usize::from(!self.0.forests.lock().is_empty())
    }

    /// All values, with their expiry.
    pub fn values(&self) -> Vec<(Key, Vec<u8>, Option<i64>)> {
        let values = self.0.values.lock();
        let now = self.0.clock.load(Relaxed);
        let living = values.iter().filter(|(_, value)| lives(value.until, now));
        living.map(|(key, value)| (*key, value.bytes.clone(), value.until)).collect()
    }

    /// Runs a command, unless it needs memory and there is none.
    pub fn attempt(&self, command: &Command) -> Result<RedisReply, RedisUnavailable> {
        match self.0.is_full.load(Relaxed) && needs_memory(&command.what) {
            true => Err(RedisUnavailable::full("there is no memory for it")),
            false => Ok(self.run_one(command)),
        }
    }

    /// Runs a command.
    pub fn run_one(&self, command: &Command) -> RedisReply {
        let now = self.0.clock.load(Relaxed);
        // One lock a command: commands of others may come in between.
        let mut values = self.0.values.lock();
        let mut slot = KeySlot::of(&mut values, command.key, now);
        match &command.what {
            KeyOp::Get => slot.there.map_or(RedisReply::Nothing, RedisReply::Bytes),
            KeyOp::Claim { value, life } => slot.claim(value, *life),
            KeyOp::Put { value, life } => {
                slot.put(value.clone(), *life);
                RedisReply::Nothing
            }
            KeyOp::Swap { before, or_nothing, value, life } => slot.swap((before, *or_nothing), value, *life),
            KeyOp::Confirm { token, value, life } => slot.confirm(*token, value, *life),
            KeyOp::Remove { value } => slot.remove_if(|there| there == value),
            KeyOp::Pin { token, uses, children, nonce, step, life } => {
                slot.pin(*token, (*uses, *children), *nonce, *step, *life)
            }
            KeyOp::Hold { token, uses, children, nonce } => slot.hold(*token, (*uses, *children), *nonce),
            KeyOp::Arrive { token, step, life } => slot.arrive(*token, *step, *life),
            KeyOp::Touch { value, life } => slot.touch(value, *life),
            KeyOp::RemoveLeaf { root, token } => {
                let tree = [&root.0.to_be_bytes()[..], &token.bytes()].concat();
                slot.remove_if(|there| there.len() < 20 && there.get(..11) == Some(&tree[..]))
            }
            KeyOp::Enter { fingerprint, step, life } => slot.enter(fingerprint.0.to_be_bytes(), *step, *life),
            KeyOp::Advance { to } => slot.advance(*to),
            KeyOp::Since { head } => match slot.there {
                Some(there) if there.get(..16) == Some(&head[..]) => RedisReply::Nothing,
                there => RedisReply::Bytes(there.unwrap_or_default()),
            },
            KeyOp::Turn { before, value } => slot.turn(before.as_ref().map_or(&[][..], |before| &before[..]), value),
            KeyOp::Acknowledge { process, acknowledged, life } => slot.acknowledge(*process, *acknowledged, *life),
            KeyOp::Release { token, uses } => slot.release(*token, *uses),
            KeyOp::Count { token, tally } => {
                if let Some(bytes) = slot.root(*token) {
                    slot.change(counted(&bytes, tally));
                }
                RedisReply::Nothing
            }
        }
    }
}

/// One key while a command runs on it: each method is the function of `functions.lua` of its name.
struct KeySlot<'v> {
    values: &'v mut HashMap<Key, Value>,
    key: Key,
    /// The value before the command, if it has not expired.
    there: Option<Vec<u8>>,
    now: i64,
}

impl<'v> KeySlot<'v> {
    fn of(values: &'v mut HashMap<Key, Value>, key: Key, now: i64) -> KeySlot<'v> {
        if values.get(&key).is_some_and(|value| !lives(value.until, now)) {
            values.remove(&key);
        }
        let there = values.get(&key).map(|value| value.bytes.clone());
        KeySlot { values, key, there, now }
    }

    fn until(&self, life: Lifetime) -> Option<i64> {
        match life {
            Lifetime::Endless => None,
            Lifetime::For(time) => Some(self.now + lifetime_millis(time)),
            Lifetime::Until(at) => Some(at.0.min(LATEST)),
        }
    }

    fn put(&mut self, bytes: Vec<u8>, life: Lifetime) {
        self.put_until(bytes, self.until(life));
    }

    fn put_until(&mut self, bytes: Vec<u8>, until: Option<i64>) {
        self.values.insert(self.key, Value { bytes, until });
    }

    /// Replaces the value, and keeps its expiry.
    fn change(&mut self, bytes: Vec<u8>) {
        if let Some(value) = self.values.get_mut(&self.key) {
            value.bytes = bytes;
        }
    }

    fn remove_if(&mut self, is_it: impl FnOnce(&Vec<u8>) -> bool) -> RedisReply {
        let is_it = self.there.as_ref().is_some_and(is_it);
        if is_it {
            self.values.remove(&self.key);
        }
        RedisReply::Number(i64::from(is_it))
    }

    /// The confirmed root of a token.
    fn root(&self, token: FoundingToken) -> Option<Vec<u8>> {
        let is_whole = |bytes: &&Vec<u8>| bytes.len() >= if bytes.first() == Some(&2) { 37 } else { 20 };
        let root = self.there.as_ref().filter(is_whole);
        root.filter(|bytes| bytes[0] != 0 && bytes[1..4] == token.bytes()).cloned()
    }

    fn claim(&mut self, value: &[u8], life: Lifetime) -> RedisReply {
        match self.there.take() {
            Some(there) => RedisReply::Bytes(there),
            None => {
                self.put(value.to_vec(), life);
                RedisReply::Nothing
            }
        }
    }

    fn swap(&mut self, (before, or_nothing): (&[u8], bool), value: &[u8], life: Lifetime) -> RedisReply {
        let fits = match &self.there {
            None => or_nothing,
            Some(there) => there == before || there == value,
        };
        if fits {
            self.put(value.to_vec(), life);
        }
        RedisReply::Number(i64::from(fits))
    }

    fn confirm(&mut self, token: FoundingToken, value: &[u8], life: Lifetime) -> RedisReply {
        let is_of_token = |there: &&Vec<u8>| there.len() >= 20 && there.get(1..4) == Some(&token.bytes());
        let state = self.there.as_ref().filter(is_of_token).and_then(|there| there.first().copied());
        if state == Some(0) {
            self.put(value.to_vec(), life);
        }
        RedisReply::Number(i64::from(state.is_some()))
    }

    fn pin(
        &mut self,
        token: FoundingToken,
        (uses, children): (u16, u16),
        nonce: PinNonce,
        step: u16,
        life: Lifetime,
    ) -> RedisReply {
        let Some(mut bytes) = self.root(token) else {
            return RedisReply::Nothing;
        };
        let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        if nonce.is_sent_again && number(14) == nonce.number {
            return RedisReply::Number(1);
        }
        let (before, kept) = (number(10), number(16));
        let uses = number(12).saturating_add(uses);
        let behind = step.wrapping_sub(before);
        let is_due = behind > 0 && behind < 1 << 15;
        let windows = (step / 64).wrapping_sub(before / 64) % 1024;
        let (own, earlier) = match windows {
            _ if !is_due => (kept, number(18)),
            0 => (kept, number(18)),
            1 => (0, kept),
            _ => (0, 0),
        };
        let step = if is_due { step } else { before };
        let own = own.saturating_add(children);
        let numbers = [step, uses, nonce.number, own, earlier];
        let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        bytes[10..20].copy_from_slice(&numbers);
        match is_due {
            true => self.put(bytes, life),
            false => self.change(bytes),
        }
        RedisReply::Number(1)
    }

    fn hold(&mut self, token: FoundingToken, (uses, children): (u16, u16), nonce: PinNonce) -> RedisReply {
        let Some(mut bytes) = self.root(token) else {
            return RedisReply::Nothing;
        };
        if nonce.is_sent_again && bytes[14..16] == nonce.number.to_be_bytes() {
            return RedisReply::Number(1);
        }
        let mut add = |at: usize, more: u16| {
            let number = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let number = number.saturating_add(more).to_be_bytes();
            bytes[at..at + 2].copy_from_slice(&number);
        };
        add(12, uses);
        add(16, children);
        bytes[14..16].copy_from_slice(&nonce.number.to_be_bytes());
        self.change(bytes);
        RedisReply::Number(1)
    }

    fn arrive(&mut self, token: FoundingToken, step: u32, life: Lifetime) -> RedisReply {
        let Some(mut bytes) = self.root(token).filter(|bytes| bytes.len() >= 22) else {
            return RedisReply::Number(0);
        };
        let end = bytes.len() - 2;
        let before = [bytes[end], bytes[end + 1], bytes[10], bytes[11]];
        let before = u32::from_be_bytes(before);
        if step.wrapping_sub(before).cast_signed() <= 0 {
            return RedisReply::Number(1);
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
        self.put(bytes, life);
        RedisReply::Number(1)
    }

    fn touch(&mut self, value: &[u8], life: Lifetime) -> RedisReply {
        if let Some(there) = &self.there {
            if there.len() != 15 || there[..11] != value[..11] {
                return RedisReply::Number(0);
            }
            let step = |leaf: &[u8]| u32::from_be_bytes(leaf[11..15].try_into().unwrap());
            if step(value).wrapping_sub(step(there)).cast_signed() <= 0 {
                return RedisReply::Number(1);
            }
        }
        self.put(value.to_vec(), life);
        RedisReply::Number(1)
    }

    fn enter(&mut self, name: [u8; 8], step: u8, life: Lifetime) -> RedisReply {
        let there = self.there.take().unwrap_or_default();
        let entries = there.chunks_exact(9).filter(|entry| {
            let behind = step.wrapping_sub(entry[8]);
            entry[..8] != name && !(68..=191).contains(&behind)
        });
        let mut names: Vec<&[u8]> = entries.collect();
        if names.len() >= NAMES {
            names.remove(0);
        }
        let own = [&name[..], &[step]].concat();
        names.push(&own);
        let before = self.values.get(&self.key).and_then(|value| value.until);
        let until = self.until(life).map(|until| until.max(before.unwrap_or(until)));
        self.put_until(names.concat(), until);
        RedisReply::Number(names.len() as i64)
    }

    fn advance(&mut self, to: Millis) -> RedisReply {
        let is_number = |there: &&[u8]| there.strip_prefix(b"-").unwrap_or(there).iter().all(u8::is_ascii_digit);
        let there = self.there.as_deref().filter(is_number);
        let shown = there.and_then(|there| std::str::from_utf8(there).ok()?.parse().ok());
        if let Some(shown) = shown.filter(|shown| *shown >= to.0) {
            return RedisReply::Number(shown);
        }
        self.put(to.0.to_string().into_bytes(), Lifetime::Endless);
        RedisReply::Number(to.0)
    }

    fn turn(&mut self, before: &[u8], value: &[u8]) -> RedisReply {
        // Of no value and of an empty one it is the same.
        let head = self.there.as_deref().map_or(&[][..], |there| &there[..there.len().min(16)]);
        let is_done = head == &value[..16];
        let fits = head == before;
        if fits && !is_done {
            self.put(value.to_vec(), Lifetime::Endless);
        }
        RedisReply::Number(i64::from(fits || is_done))
    }

    fn acknowledge(&mut self, process: u64, acknowledged: u64, life: u64) -> RedisReply {
        let (name, there) = (format!("{process:016x}"), self.there.take().unwrap_or_default());
        let now = self.now as u64;
        let mut own = format!("{name} {acknowledged} {}\n", now + life);
        // Numbers of Lua.
        let number = |digits: &str| digits.parse::<f64>().unwrap_or(f64::INFINITY);
        let (mut lines, mut first, mut least) = (String::new(), None, acknowledged as f64);
        for [of, version, over] in acknowledgements(&there) {
            if *of == name {
                lines.push_str(&std::mem::take(&mut own));
            } else if number(over) > now as f64 {
                lines.push_str(&format!("{of} {version} {over}\n"));
                least = least.min(number(version));
            } else {
                continue;
            }
            first.get_or_insert(of);
        }
        lines.push_str(&own);
        let is_first = first.is_none_or(|first| *first == name);
        let until = Some(now as i64 + 2 * life as i64);
        self.put_until(lines.into_bytes(), until);
        RedisReply::Bytes(format!("{} {least:.0}", u8::from(is_first)).into_bytes())
    }

    fn release(&mut self, token: FoundingToken, uses: u16) -> RedisReply {
        let Some(mut bytes) = self.root(token) else {
            return RedisReply::Nothing;
        };
        let before = u16::from_be_bytes([bytes[12], bytes[13]]);
        if before == u16::MAX {
            return RedisReply::Number(0);
        }
        if before <= uses {
            self.values.remove(&self.key);
            return RedisReply::Number(-1);
        }
        bytes[12..14].copy_from_slice(&(before - uses).to_be_bytes());
        self.change(bytes);
        RedisReply::Number(0)
    }
}

/// Whether Redis refuses it when it has as much memory as it may use: as `functions.lua` registers its function.
pub(super) fn needs_memory(what: &KeyOp) -> bool {
    match what {
        KeyOp::Get | KeyOp::Since { .. } | KeyOp::Remove { .. } | KeyOp::RemoveLeaf { .. } | KeyOp::Release { .. } => {
            false
        }
        KeyOp::Claim { .. }
        | KeyOp::Put { .. }
        | KeyOp::Swap { .. }
        | KeyOp::Confirm { .. }
        | KeyOp::Pin { .. }
        | KeyOp::Hold { .. }
        | KeyOp::Arrive { .. }
        | KeyOp::Touch { .. }
        | KeyOp::Enter { .. }
        | KeyOp::Advance { .. }
        | KeyOp::Turn { .. }
        | KeyOp::Acknowledge { .. }
        | KeyOp::Count { .. } => true,
    }
}

/// Process, version and moment of each line. What stands between such lines does not count.
fn acknowledgements(mut bytes: &[u8]) -> Vec<[&str; 3]> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let line = line(bytes);
        let length = line.map_or(1, |line| line.map(|word| word.len() + 1).iter().sum());
        found.extend(line);
        bytes = &bytes[length..];
    }
    found
}

fn line(mut bytes: &[u8]) -> Option<[&str; 3]> {
    let hex = |byte: &u8| byte.is_ascii_hexdigit();
    let mut word = |fits: fn(&u8) -> bool, end| {
        let length = bytes.iter().take_while(|byte| fits(byte)).count();
        let (word, rest) = bytes.split_at(length);
        bytes = rest.strip_prefix(&[end])?;
        std::str::from_utf8(word).ok().filter(|word| !word.is_empty())
    };
    Some([word(hex, b' ')?, word(u8::is_ascii_digit, b' ')?, word(u8::is_ascii_digit, b'\n')?])
}

fn counted(bytes: &[u8], more: &TreeTally) -> Vec<u8> {
    let (mut documents, mut titles, mut signs, mut last) = (1, 0, 0, 0);
    let mut rest = &bytes[20..];
    if bytes[0] == 2 {
        (documents, titles, signs, last) = TreeTally::read(&mut rest).unwrap().parts();
    }
    let (more, more_titles, more_signs, more_last) = more.parts();
    if more_signs > 0 && (signs == 0 || last != more_last) {
        (signs, last) = (signs.saturating_add(more_signs).min(TreeTally::PAGE_CHROME), more_last);
    }
    let tally = TreeTally::of_parts(documents.saturating_add(more), titles | more_titles, signs, last);
    let mut counted = vec![2];
    counted.extend_from_slice(&bytes[1..20]);
    tally.write(&mut counted);
    counted.extend_from_slice(rest);
    counted
}

impl RedisClient for InMemoryRedis {
    fn run(&self, commands: Vec<Command>) -> RoundFuture {
        if let Some(away) = self.away() {
            return Box::pin(std::future::ready(Err(RoundFailed::before_all(away, commands.len()))));
        }
        let run = |command: &Command| {
            // Others get their turns between any two.
            std::thread::yield_now();
            self.attempt(command)
        };
        // All of a pipeline are run, whatever is said to one of them.
        let replies: Vec<_> = commands.iter().map(run).collect();
        let each = || commands.iter().zip(&replies).enumerate();
        let not_run = each().filter(|(_, (_, reply))| reply.is_err()).map(|(at, _)| at).collect();
        let has_pinned = |(command, reply): &(&Command, &Result<RedisReply, RedisUnavailable>)| {
            reply.as_ref().is_ok_and(|reply| command.what.has_pinned(reply))
        };
        let pinned = each().filter(|(_, of)| has_pinned(of)).map(|(at, _)| at).collect();
        let replies: Result<Vec<RedisReply>, RedisUnavailable> = replies.into_iter().collect();
        Box::pin(std::future::ready(replies.map_err(|why| RoundFailed { why, not_run, pinned })))
    }

    fn enroll(&self, name: &str, identity: &str) -> RedisFuture<Result<u8, String>> {
        if let Some(away) = self.away() {
            return Box::pin(std::future::ready(Err(away)));
        }
        let mut forests = self.0.forests.lock();
        let is_free = |number: &u8| forests.values().all(|(taken, _)| taken != number);
        let proposed = (0..FORESTS).map(|more| (proposed_number(name) + more) % FORESTS).find(is_free);
        let enrolled = match (forests.get(name), proposed) {
            (Some((number, known)), _) => match agreement(known, identity) {
                Agreement::Same => Ok(*number),
                Agreement::Earlier => {
                    warn_of_earlier(name);
                    Ok(*number)
                }
                Agreement::Other => Err(other_settings(known, identity)),
            },
            (None, Some(number)) => {
                forests.insert(name.to_owned(), (number, identity.to_owned()));
                Ok(number)
            }
            (None, None) => Err(too_many_forests()),
        };
        Box::pin(std::future::ready(Ok(enrolled)))
    }

    fn declare(&self, name: &str, identity: &str, fields: &FieldRecord) -> RedisFuture<()> {
        if let Some((_, known)) = self.0.forests.lock().get_mut(name) {
            identity.clone_into(known);
        }
        self.0.fields.lock().insert(name.to_owned(), fields.clone());
        Box::pin(std::future::ready(Ok(())))
    }

    fn fields(&self, name: &str) -> RedisFuture<FieldRecord> {
        let fields = self.0.fields.lock().get(name).cloned().unwrap_or_default();
        Box::pin(std::future::ready(Ok(fields)))
    }

    fn agree_on_fields(&self, name: &str, fields: &RoutedFields) -> RedisFuture<Result<(), String>> {
        if let Some(away) = self.away() {
            return Box::pin(std::future::ready(Err(away)));
        }
        let mut all = self.0.fields.lock();
        let known = all.entry(name.to_owned()).or_default();
        let agreed = fields.recorded_in(known).map(|record| *known = record);
        Box::pin(std::future::ready(Ok(agreed.map_err(|differ| other_fields(&differ)))))
    }

    fn forests(&self) -> RedisFuture<Vec<(String, u8, String)>> {
        let forests = self.0.forests.lock();
        let forests = forests.iter().map(|(name, (number, of))| (name.clone(), *number, of.clone()));
        Box::pin(std::future::ready(Ok(forests.collect())))
    }

    fn keys(&self, forest: u8, place: ScanPosition) -> RedisFuture<(Vec<Key>, Option<ScanPosition>)> {
        let mut keys: Vec<Key> = self.values().into_iter().map(|(key, ..)| key).collect();
        keys.retain(|key| key.forest == forest && key.fingerprint.0 >= place.cursor);
        keys.sort_unstable();
        // In small parts, and some keys twice, as a Redis may do it.
        // A fingerprint has seven keys at most.
        let next = keys.get(7).map(|key| ScanPosition { node: 0, cursor: key.fingerprint.0 });
        keys.truncate(8);
        Box::pin(std::future::ready(Ok((keys, next))))
    }

    fn sync_entries(&self, forest: u8, lesson: Option<SyncEntry>, from: SyncPosition) -> RedisFuture<SyncEntries> {
        if let Some(away) = self.away() {
            return Box::pin(std::future::ready(Err(away)));
        }
        let now = self.0.clock.load(Relaxed);
        let mut logs = self.0.logs.lock();
        logs.of.retain(|_, log| lives(log.until, now));
        if let Some(lesson) = lesson {
            let until = lesson.life.map(|life| now + life.0.clamp(1, LATEST));
            if self.0.is_full.load(Relaxed) {
                // How long a log is kept is set all the same.
                if let Some(log) = logs.of.get_mut(&forest) {
                    log.until = until.or(log.until);
                }
                return Box::pin(std::future::ready(Err(RedisUnavailable::full("there is no memory for it"))));
            }
            let SyncPosition(moment, number) = logs.last;
            let at = SyncPosition(moment.max(now.max(0).cast_unsigned()), number + 1);
            logs.last = at;
            let log = logs.of.entry(forest).or_default();
            log.lessons.push((at, lesson.bytes));
            let more = log.lessons.len().saturating_sub(lesson.most);
            log.lessons.drain(..more);
            log.is_trimmed |= more > 0;
            log.until = until.or(log.until);
        }
        let mut heard = Vec::new();
        if let Some(log) = logs.of.get(&forest) {
            heard.extend(log.lessons.iter().filter(|(at, _)| *at >= from).cloned());
            let was_known = heard.first().is_some_and(|(at, _)| *at == from);
            if was_known {
                heard[0].1.clear();
            } else if !heard.is_empty() && log.is_trimmed && from != SyncPosition::default() {
                heard.insert(0, (from, Vec::new()));
            }
        }
        // A few at a time.
        let is_all = heard.len() <= 3;
        heard.truncate(3);
        Box::pin(std::future::ready(Ok((heard, is_all))))
    }

    fn remove_sync_entries(&self, forest: u8) -> RedisFuture<()> {
        self.0.logs.lock().of.remove(&forest);
        Box::pin(std::future::ready(Ok(())))
    }

    fn size(&self) -> RedisFuture<(usize, usize)> {
        let values = self.values();
        let bytes = values.iter().map(|(_, bytes, _)| bytes.len()).sum();
        let keys = values.len() + self.other_keys(self.0.clock.load(Relaxed));
        Box::pin(std::future::ready(Ok((keys, bytes))))
    }

    fn sample(&self, forest: u8, _: u64) -> RedisFuture<KeySample> {
        if let Some(away) = self.away() {
            return Box::pin(std::future::ready(Err(away)));
        }
        let values = self.values();
        let keys = values.len() + self.other_keys(self.0.clock.load(Relaxed));
        let drawn = values.into_iter().filter(|(key, ..)| key.forest == forest);
        let drawn = drawn.map(|(key, value, _)| (key, value.len())).collect();
        Box::pin(std::future::ready(Ok(KeySample { drawn, of: keys, keys })))
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

    fn away(&self) -> Option<RedisUnavailable> {
        self.0.away.lock().clone()
    }
}
