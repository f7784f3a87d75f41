//! Runs a sequence on the in-memory Redis and on Redis, and compares what they say and what they keep.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

use futures_executor::block_on;

use super::scene::Scene;
use super::sequences::{Before, Lesson, Life, NAMES, Op, Sequence, SlotOf, Step, token};
use crate::fingerprint::Fingerprint;
use crate::forest::shared::keys::{
    Command, Key, KeyOp, Lifetime, RedisClient, RedisReply, RedisUnavailable, ScanPosition, SyncEntries, SyncEntry,
    SyncPosition,
};
use crate::forest::shared::memory::InMemoryRedis;
use crate::redis::TcpRedis;
use crate::redis::slots::slot;
use crate::time::Millis;

/// Lessons that Redis may keep beyond those that it has to: a node of its stream.
const MORE_LESSONS: usize = 100;

/// A short time, in milliseconds: longer than a sequence takes. What is kept for it, or for twice as long, is kept for
/// less than [`PASSED`], and all else for more.
const SHORT: i64 = 600_000;
const PASSED: i64 = 3 * SHORT;

/// How a comparison failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Redis has not answered in time: nothing is known.
    TooSlow,
    /// They differ.
    Different(String),
}

/// How often each operation got each kind of reply, and how much was run.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) replies: BTreeMap<(&'static str, &'static str), usize>,
    pub(super) sequences: usize,
    pub(super) commands: usize,
}

/// Both, in the middle of a sequence.
struct Both<'s> {
    scene: &'s Scene,
    memory: InMemoryRedis,
    redis: TcpRedis,
    keys: &'s [Key],
    counts: &'s mut Counts,
    began: i64,
    /// How much later than the in-memory Redis, Redis may have run a command.
    slack: i64,
    /// Moments of expiry that were given as such: Redis has exactly these.
    moments: BTreeSet<i64>,
    /// The places of lessons, as either counts them.
    places: BTreeMap<u8, Vec<[SyncPosition; 2]>>,
}

/// Runs a sequence on both.
pub(super) fn compare(scene: &Scene, sequence: &Sequence, counts: &mut Counts) -> Result<(), Failure> {
    let redis = scene.reset();
    let now = scene.time();
    let mut both = Both {
        scene,
        memory: InMemoryRedis::default(),
        redis,
        keys: &sequence.keys,
        counts,
        began: now,
        slack: 0,
        moments: BTreeSet::new(),
        places: BTreeMap::new(),
    };
    both.counts.sequences += 1;
    for (at, step) in sequence.steps.iter().enumerate() {
        let compared = both.step(step);
        compared.map_err(|failure| match failure {
            Failure::TooSlow => Failure::TooSlow,
            Failure::Different(what) => Failure::Different(format!("step {at}, {step:?}: {what}")),
        })?;
    }
    both.compare_keys()
}

/// Fails unless two values are equal: of the in-memory Redis, and of Redis.
#[expect(clippy::needless_pass_by_value, reason = "they are made to be compared")]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, memory: T, redis: T) -> Result<(), Failure> {
    match memory == redis {
        true => Ok(()),
        false if format!("{redis:?}").contains("no answer within") => Err(Failure::TooSlow),
        false => Err(Failure::Different(format!("{what}\n  in memory {memory:?}\n  Redis     {redis:?}"))),
    }
}

/// Errors are the same if Redis is full, or away, whatever they say.
#[derive(Debug, Clone)]
struct Unavailable(RedisUnavailable);

impl PartialEq for Unavailable {
    fn eq(&self, other: &Unavailable) -> bool {
        self.0.extent == other.0.extent
    }
}

fn plain<T>(answer: Result<T, RedisUnavailable>) -> Result<T, Unavailable> {
    answer.map_err(Unavailable)
}

impl Both<'_> {
    fn step(&mut self, step: &Step) -> Result<(), Failure> {
        let started = self.follow_clock();
        match step {
            Step::Run { commands, moving } => return self.run(commands, *moving),
            Step::Pass => {
                self.scene.end_before(self.began + PASSED);
                self.memory.end_before(self.began + PASSED);
                self.await_next_lesson();
            }
            Step::Full(is_full) => {
                self.scene.set_full(*is_full);
                self.memory.set_full(*is_full);
            }
            Step::Begin(of, to) => self.scene.begin_move(&self.key_of(*of), *to),
            Step::Follow(of, keys) => drop(self.scene.follow(slot(&self.key_of(*of)), *keys)),
            Step::End(of) => self.scene.end_move(slot(&self.key_of(*of))),
            Step::Enroll { name, identity } => {
                let name = NAMES.get(*name).map_or_else(|| format!("forest {name}"), |&name| name.to_owned());
                let identity = if *identity { "one" } else { "another" };
                let enrolled = |store: &dyn RedisClient| {
                    let answer = block_on(store.enroll(&name, identity));
                    plain(answer.map(|number| number.map_err(drop)))
                };
                let (memory, redis) = (enrolled(&self.memory), enrolled(&self.redis));
                self.took_since(started);
                same("number of a forest", memory, redis)?;
            }
            Step::Forests => {
                let (memory, redis) = (block_on(self.memory.forests()), block_on(self.redis.forests()));
                self.took_since(started);
                same("forests", plain(memory), plain(redis))?;
            }
            Step::Scan(forest) => {
                let (memory, redis) = (scan(&self.memory, *forest), scan(&self.redis, *forest));
                self.took_since(started);
                same("keys of a forest", plain(memory), plain(redis))?;
            }
            Step::Sample(forest) => self.sample(*forest, started)?,
            Step::Sync { forest, lesson, after } => self.sync(*forest, *lesson, *after, started)?,
            Step::RemoveSync(forest) => {
                let memory = block_on(self.memory.remove_sync_entries(*forest));
                let redis = block_on(self.redis.remove_sync_entries(*forest));
                self.places.remove(forest);
                self.took_since(started);
                same("removal of lessons", plain(memory), plain(redis))?;
                self.await_next_lesson();
            }
        }
        Ok(())
    }

    /// Has the in-memory Redis follow the clock of Redis. Returns what it shows.
    fn follow_clock(&self) -> i64 {
        let now = self.scene.time();
        self.memory.advance(now);
        now
    }

    /// In a log that has gone, a lesson of the same millisecond would have the place of the last one.
    fn await_next_lesson(&self) {
        let gone = self.scene.time();
        while self.scene.time() == gone {}
    }

    /// Takes down how long something has taken that began then.
    fn took_since(&mut self, started: i64) {
        self.slack = self.slack.max(self.scene.time() - started);
    }

    fn key(&self, at: usize) -> Key {
        self.keys[at % self.keys.len()]
    }

    fn key_of(&self, of: SlotOf) -> Vec<u8> {
        match of {
            SlotOf::Key(at) => key_bytes(&self.key(at)),
            SlotOf::Registry => b"spinney:forests".to_vec(),
            SlotOf::Log(forest) => log_of(forest),
        }
    }

    /// Commands as one request. Where one would read an acknowledgement of the same request they are two: the moment
    /// in it may be another one.
    fn run(&mut self, commands: &[(usize, Op)], moving: Option<(SlotOf, usize)>) -> Result<(), Failure> {
        let scene = self.scene;
        let moving = moving.filter(|_| scene.is_cluster).map(|(of, to)| (self.key_of(of), to));
        std::thread::scope(|threads| {
            threads.spawn(move || {
                if let Some((key, to)) = moving {
                    scene.begin_move(&key, to);
                    while scene.follow(slot(&key), 1) > 0 {}
                    scene.end_move(slot(&key));
                }
            });
            let mut rest = commands;
            while !rest.is_empty() {
                let told = |op: &Op| matches!(op, Op::Acknowledge { .. });
                let reads_told = |at: usize| {
                    let of = |at: usize| self.key(rest[at].0);
                    (0..at).any(|before| told(&rest[before].1) && of(before) == of(at))
                };
                let length = (1..rest.len()).find(|&at| reads_told(at)).unwrap_or(rest.len());
                let (part, others) = rest.split_at(length);
                self.run_together(part)?;
                for (at, _) in part.iter().filter(|(_, op)| told(op)) {
                    self.compare_acknowledgements(self.key(*at))?;
                }
                rest = others;
            }
            Ok(())
        })
    }

    fn run_together(&mut self, part: &[(usize, Op)]) -> Result<(), Failure> {
        let started = self.follow_clock();
        let (mut commands, mut expected) = (Vec::new(), Vec::new());
        for (at, op) in part {
            let command = self.command(self.key(*at), op, started);
            expected.push(self.memory.attempt(&command));
            commands.push(command);
        }
        let replies = block_on(self.redis.run(commands.clone()));
        self.took_since(started);
        self.counts.commands += commands.len();
        for ((_, op), reply) in part.iter().zip(&expected) {
            *self.counts.replies.entry((name(op), kind(reply))).or_default() += 1;
        }
        // All of a pipeline are run, and the first refusal is what is said.
        let not_run: Vec<usize> =
            expected.iter().enumerate().filter(|(_, reply)| reply.is_err()).map(|(at, _)| at).collect();
        let expected: Result<Vec<RedisReply>, RedisUnavailable> = expected.into_iter().collect();
        match (expected, replies) {
            (Ok(memory), Ok(redis)) => {
                for ((memory, redis), command) in memory.into_iter().zip(redis).zip(commands) {
                    same(&format!("reply to {command:?}"), memory, redis)?;
                }
                Ok(())
            }
            // Where keys are being moved, not all of Redis is there.
            (Err(memory), Err(redis)) if discriminant(&memory.extent) == discriminant(&redis.why.extent) => {
                same("commands that were not run", not_run, redis.not_run)
            }
            (memory, redis) => same("replies", memory, redis.map_err(|failed| failed.why)),
        }
    }

    /// Compares acknowledgements but for the moments in them, and has the in-memory Redis take over those of Redis.
    fn compare_acknowledgements(&self, key: Key) -> Result<(), Failure> {
        let get = Command { key, what: KeyOp::Get };
        let memory = self.memory.run_one(&get);
        let redis = block_on(self.redis.run(vec![get])).map(|mut replies| replies.remove(0));
        match (&memory, &redis) {
            (RedisReply::Bytes(memory), Ok(RedisReply::Bytes(redis))) if self.are_alike(memory, redis) => {
                self.memory.overwrite(key, redis);
                Ok(())
            }
            _ => same("acknowledgements", Ok(memory), redis.map_err(|failed| failed.why)),
        }
    }

    fn are_alike(&self, memory: &[u8], redis: &[u8]) -> bool {
        let words = |bytes: &[u8]| -> Vec<Vec<u8>> {
            bytes.split_inclusive(|&byte| byte == b' ' || byte == b'\n').map(<[u8]>::to_vec).collect()
        };
        let number = |word: &[u8]| -> Option<i64> { std::str::from_utf8(word.strip_suffix(b"\n")?).ok()?.parse().ok() };
        let is_alike = |memory: &Vec<u8>, redis: &Vec<u8>| match (number(memory), number(redis)) {
            (Some(memory), Some(redis)) => (0..=self.slack).contains(&(redis - memory)),
            _ => memory == redis,
        };
        let (memory, redis) = (words(memory), words(redis));
        memory.len() == redis.len() && memory.iter().zip(&redis).all(|(memory, redis)| is_alike(memory, redis))
    }

    fn sample(&mut self, forest: u8, started: i64) -> Result<(), Failure> {
        // The first one removes what has expired, and is still counted.
        let _ = block_on(self.redis.sample(forest, 1));
        let sampled = |store: &dyn RedisClient| {
            let sample = block_on(store.sample(forest, 1));
            plain(sample.map(|mut sample| {
                sample.drawn.sort_unstable();
                sample
            }))
        };
        let (memory, redis) = (sampled(&self.memory), sampled(&self.redis));
        let sizes = [block_on(self.memory.size()), block_on(self.redis.size())];
        self.took_since(started);
        same("sample", memory, redis)?;
        // Its bytes are of all that Redis has.
        let [memory, redis] = sizes.map(|size| plain(size.map(|(keys, _)| keys)));
        same("number of keys", memory, redis)
    }

    fn sync(&mut self, forest: u8, lesson: Option<Lesson>, after: usize, started: i64) -> Result<(), Failure> {
        let places = self.places.entry(forest).or_default();
        let after = places.len().checked_sub(after + 1).map_or([SyncPosition::default(); 2], |at| places[at]);
        let entry = lesson.map(|lesson| SyncEntry {
            bytes: vec![lesson.byte; lesson.length],
            most: lesson.most,
            life: lesson.life.map(|life| Millis([SHORT, 3_600_000, i64::MAX][usize::from(life)])),
        });
        let heard = |store: &dyn RedisClient, after| drain(store, forest, entry.clone(), after);
        let (memory, redis) = (heard(&self.memory, after[0]), heard(&self.redis, after[1]));
        self.took_since(started);
        let ((memory, memory_continues), (redis, redis_continues)) = match (memory, redis) {
            (Ok(memory), Ok(redis)) => (memory, redis),
            (memory, redis) => return same("lessons", plain(memory), plain(redis)),
        };
        if memory.len() == redis.len() {
            same("whether it is the log of this place", memory_continues, redis_continues)?;
        }
        let more = redis.len().checked_sub(memory.len()).filter(|more| *more <= MORE_LESSONS);
        let lessons = |lessons: &[(SyncPosition, Vec<u8>)]| -> Vec<Vec<u8>> {
            lessons.iter().map(|(_, lesson)| lesson.clone()).collect()
        };
        let newest = &redis[more.unwrap_or_default()..];
        same("lessons", lessons(&memory), lessons(newest))?;
        let places = self.places.entry(forest).or_default();
        for ((memory, _), (redis, _)) in memory.iter().zip(newest) {
            if places.last().is_none_or(|last| last[0] < *memory) {
                places.push([*memory, *redis]);
            }
        }
        Ok(())
    }

    /// Compares all keys, their values, and how long they are kept.
    fn compare_keys(&mut self) -> Result<(), Failure> {
        let mut redis = self.scene.dump();
        let started = self.follow_clock();
        redis.retain(|key, _| !key.starts_with(b"spinney:"));
        let memory = self.memory.values();
        let mut expected: BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)> =
            memory.into_iter().map(|(key, value, until)| (key_bytes(&key), (value, until))).collect();
        for (key, (_, until)) in &mut expected {
            let real = redis.get(key).and_then(|(_, until)| *until);
            // A key that moves to another master takes along for how long it is kept, and not until when.
            let slack = if self.scene.has_moved(key) { started - self.began } else { self.slack };
            if let (Some(at), Some(real)) = (*until, real)
                && (self.scene.has_moved(key) || !self.moments.contains(&at))
                && (0..=slack).contains(&(real - at))
            {
                *until = Some(real);
            }
        }
        same("keys", expected, redis)
    }

    fn command(&mut self, key: Key, op: &Op, now: i64) -> Command {
        let current = || match self.memory.run_one(&Command { key, what: KeyOp::Get }) {
            RedisReply::Bytes(bytes) => bytes,
            _ => Vec::new(),
        };
        let of_before = |before: &Before| match before {
            Before::Current => current(),
            Before::Bytes(bytes) => bytes.clone(),
        };
        let head = |before: &Before| {
            let mut head = of_before(before);
            head.resize(16, 0);
            head.try_into().unwrap()
        };
        let mut moments = BTreeSet::new();
        let mut lifetime = |life: &Life| {
            let until = match *life {
                Life::Endless => return Lifetime::Endless,
                Life::ForShort => return Lifetime::For(std::time::Duration::from_millis(SHORT.unsigned_abs())),
                Life::For(time) => return Lifetime::For(time),
                // No moment of those that are kept for a short time is the same.
                Life::UntilShort => self.began + SHORT - 1,
                Life::UntilLater(later) => self.began + later,
                Life::JustOver => now - 1,
                Life::Until(at) => at,
            };
            moments.insert(until);
            Lifetime::Until(Millis(until))
        };
        let what = match op {
            Op::Get => KeyOp::Get,
            Op::Claim(value, life) => KeyOp::Claim { value: value.clone(), life: lifetime(life) },
            Op::Put(value, life) => KeyOp::Put { value: value.clone(), life: lifetime(life) },
            Op::Swap { before, or_nothing, value, life } => KeyOp::Swap {
                before: of_before(before),
                or_nothing: *or_nothing,
                value: of_before(value),
                life: lifetime(life),
            },
            Op::Confirm { token: of, value, life } => {
                KeyOp::Confirm { token: token(*of), value: value.clone(), life: lifetime(life) }
            }
            Op::Remove(before) => KeyOp::Remove { value: of_before(before) },
            Op::Pin { token: of, uses, children, nonce, step, life } => KeyOp::Pin {
                token: token(*of),
                uses: *uses,
                children: *children,
                nonce: *nonce,
                step: *step,
                life: lifetime(life),
            },
            Op::Hold { token: of, uses, children, nonce } => {
                KeyOp::Hold { token: token(*of), uses: *uses, children: *children, nonce: *nonce }
            }
            Op::Arrive { token: of, step, life } => {
                KeyOp::Arrive { token: token(*of), step: *step, life: lifetime(life) }
            }
            Op::Touch { value, life } => KeyOp::Touch { value: value.clone(), life: lifetime(life) },
            Op::RemoveLeaf { root, token: of } => KeyOp::RemoveLeaf { root: Fingerprint(*root), token: token(*of) },
            Op::Enter { name, step, life } => {
                KeyOp::Enter { fingerprint: Fingerprint(*name), step: *step, life: lifetime(life) }
            }
            Op::Advance(to) => KeyOp::Advance { to: Millis(*to) },
            Op::Release { token: of, uses } => KeyOp::Release { token: token(*of), uses: *uses },
            Op::Since(before) => KeyOp::Since { head: head(before) },
            Op::Turn { before, value } => KeyOp::Turn { before: before.as_ref().map(head), value: value.clone() },
            Op::Acknowledge { process, acknowledged, life } => KeyOp::Acknowledge {
                process: *process,
                acknowledged: *acknowledged,
                life: life.unwrap_or(SHORT.unsigned_abs()),
            },
            Op::Count { token: of, tally } => KeyOp::Count { token: token(*of), tally: *tally },
        };
        self.moments.extend(moments);
        Command { key, what }
    }
}

fn key_bytes(key: &Key) -> Vec<u8> {
    let (bytes, len) = key.bytes();
    bytes[..len].to_vec()
}

fn log_of(forest: u8) -> Vec<u8> {
    format!("spinney:lessons:{forest}").into_bytes()
}

/// All keys of a forest.
fn scan(store: &dyn RedisClient, forest: u8) -> Result<BTreeSet<Key>, RedisUnavailable> {
    let (mut all, mut place) = (BTreeSet::new(), Some(ScanPosition::default()));
    for _ in 0..1_000 {
        let Some(at) = place else {
            return Ok(all);
        };
        let (keys, next) = block_on(store.keys(forest, at))?;
        all.extend(keys);
        place = next;
    }
    panic!("a scan without end");
}

/// Lessons, and whether the place after which they come is one of their log.
type LessonsAfter = (Vec<(SyncPosition, Vec<u8>)>, bool);

/// Adds a lesson, and reads all after a place.
fn drain(
    store: &dyn RedisClient,
    forest: u8,
    mut lesson: Option<SyncEntry>,
    after: SyncPosition,
) -> Result<LessonsAfter, RedisUnavailable> {
    let (mut from, mut continues) = (after, false);
    let mut all = Vec::new();
    loop {
        let (lessons, is_all): SyncEntries = block_on(store.sync_entries(forest, lesson.take(), from))?;
        let known = lessons.first().filter(|(at, _)| *at == from);
        assert!(known.is_none_or(|(_, bytes)| bytes.is_empty()), "it is known");
        continues |= known.is_some() && from == after;
        let new = lessons.iter().filter(|(at, _)| *at != from);
        all.extend(new.cloned());
        from = lessons.last().map_or(from, |(at, _)| *at);
        if is_all {
            return Ok((all, continues));
        }
    }
}

fn name(op: &Op) -> &'static str {
    match op {
        Op::Get => "get",
        Op::Claim(..) => "claim",
        Op::Put(..) => "put",
        Op::Swap { .. } => "swap",
        Op::Confirm { .. } => "confirm",
        Op::Remove(_) => "remove",
        Op::Pin { .. } => "pin",
        Op::Hold { .. } => "hold",
        Op::Arrive { .. } => "arrive",
        Op::Touch { .. } => "touch",
        Op::RemoveLeaf { .. } => "remove leaf",
        Op::Enter { .. } => "enter",
        Op::Advance(_) => "advance",
        Op::Release { .. } => "release",
        Op::Since(_) => "since",
        Op::Turn { .. } => "turn",
        Op::Acknowledge { .. } => "acknowledge",
        Op::Count { .. } => "count",
    }
}

fn kind(reply: &Result<RedisReply, RedisUnavailable>) -> &'static str {
    match reply {
        Err(_) => "full",
        Ok(RedisReply::Nothing) => "nothing",
        Ok(RedisReply::Bytes(_)) => "bytes",
        Ok(RedisReply::Number(0)) => "0",
        Ok(RedisReply::Number(1)) => "1",
        Ok(RedisReply::Number(-1)) => "-1",
        Ok(RedisReply::Number(_)) => "a number",
        Ok(RedisReply::Unusable) => "unusable",
    }
}
