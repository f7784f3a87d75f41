//! Overrides of a shared forest: one value in Redis, replaced as a whole by compare-and-swap. Every process has a
//! copy, and checks for a newer one with the first nodes of each request.
//!
//! ```text
//! | version 8 | tag 8 | earlier versions: number 4, of each: version 8, tag 8 | overrides |
//! ```
//!
//! The tag is random for each change, so two values with the same head are equal, and the earlier versions show
//! whether a copy is a predecessor of the stored value. Overrides that Redis has lost are written again by a
//! process that has them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use spinney_text::fingerprint::Fingerprint;
use spinney_text::hash::splitmix64;
use spinney_text::method::{Durable, MethodKind};

use super::SharedInner;
use super::keys::{Key, KeyKind, KeyOp, RedisReply, RedisUnavailable};
use crate::Root;
use crate::local::StateChange;
use crate::overrides::{Override, OverrideChange, Overrides, Restamp, RestampPass};
use crate::port::{Acknowledged, Unavailable};

/// Changes that are known by their tags.
const MOST_BEFORE: usize = 64;
/// Most attempts of a compare-and-swap.
const ATTEMPTS: u32 = 100;
/// A process without a heartbeat for this time is considered dead.
const LEASE: Duration = Duration::from_secs(10);

/// The process' copy of the overrides.
#[derive(Debug)]
pub(super) struct KnownOverrides {
    known: Mutex<Arc<OverrideTable>>,
    /// Identifies this process.
    process: u64,
    /// The override version that all its in-flight documents follow.
    acknowledged: AtomicU64,
    /// When its next acknowledgement is due.
    due: Mutex<Option<Duration>>,
}

/// All overrides, with the version and tag of the change that made them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OverrideTable {
    /// Number of changes so far; a successor has a higher one than its predecessor.
    version: u64,
    tag: u64,
    /// The last ones before it, the latest first.
    before: Vec<(u64, u64)>,
    overrides: Arc<Overrides>,
}

/// The outcome of a change.
pub(super) enum ChangeOutcome<T> {
    Done(T),
    /// Nothing was changed: no effect, or at a limit.
    Nothing,
    /// Another process has changed them before.
    Overtaken,
}

impl OverrideTable {
    fn head(&self) -> [u8; 16] {
        let mut head = [0; 16];
        let (version, tag) = head.split_at_mut(8);
        version.copy_from_slice(&self.version.to_le_bytes());
        tag.copy_from_slice(&self.tag.to_le_bytes());
        head
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head().to_vec();
        (self.before.len() as u32).write(&mut bytes);
        for (version, tag) in &self.before {
            version.write(&mut bytes);
            tag.write(&mut bytes);
        }
        self.overrides.write(&mut bytes);
        bytes
    }

    fn read(mut bytes: &[u8]) -> Option<OverrideTable> {
        let bytes = &mut bytes;
        let (version, tag) = (u64::read(bytes)?, u64::read(bytes)?);
        let mut before = Vec::new();
        for _ in 0..u32::read(bytes)? {
            before.push((u64::read(bytes)?, u64::read(bytes)?));
        }
        let overrides = Overrides::read(bytes)?;
        bytes.is_empty().then_some(OverrideTable { version, tag, before, overrides: Arc::new(overrides) })
    }

    /// Whether this table is the other one or a successor of it. Of one that was long before, it is believed.
    fn follows(&self, other: &OverrideTable) -> bool {
        if other.version >= self.version {
            return self.head() == other.head();
        }
        let known = self.before.iter().find(|(v, _)| *v == other.version);
        match (known, self.before.last()) {
            (Some((_, tag)), _) => *tag == other.tag,
            (None, Some((oldest, _))) => other.version < *oldest,
            (None, None) => true,
        }
    }

    /// The table after a change.
    fn changed(&self, version: u64, tag: u64, overrides: Overrides) -> OverrideTable {
        let mut before = vec![(self.version, self.tag)];
        before.extend(&self.before);
        before.truncate(MOST_BEFORE);
        before.retain(|(version, _)| *version > 0);
        OverrideTable { version, tag, before, overrides: Arc::new(overrides) }
    }
}

impl KnownOverrides {
    pub(super) fn new(seed: u64) -> KnownOverrides {
        KnownOverrides {
            known: Mutex::default(),
            process: splitmix64(seed ^ 0x5A1D),
            acknowledged: AtomicU64::new(0),
            due: Mutex::new(None),
        }
    }

    pub(super) fn known(&self) -> Arc<OverrideTable> {
        self.known.lock().clone()
    }

    /// Replaces the process' copy by a later table. Answers whether it was.
    fn advance(&self, to: OverrideTable) -> bool {
        let mut known = self.known.lock();
        let is_later = to.follows(&known);
        if is_later && to.version > known.version {
            *known = Arc::new(to);
        }
        is_later
    }
}

/// The command that reads the overrides if they differ from these.
pub(super) fn since(known: &OverrideTable) -> (KeyKind, Fingerprint, KeyOp) {
    let head = known.head();
    (KeyKind::Overrides, Fingerprint(0), KeyOp::Since { head })
}

impl<F: MethodKind> SharedInner<F> {
    /// Applies the overrides that were read, unless they are the known ones.
    pub(super) async fn refresh_overrides(
        &self,
        asked: Arc<OverrideTable>,
        reply: Option<RedisReply>,
    ) -> Result<(), Unavailable> {
        let (mut asked, mut reply) = (asked, reply);
        for _ in 0..ATTEMPTS {
            let Some(RedisReply::Bytes(bytes)) = reply else {
                return Ok(());
            };
            let there = match bytes.is_empty() {
                true => OverrideTable::default(),
                false => match OverrideTable::read(&bytes) {
                    Some(there) => there,
                    None => return Err(self.unreadable_overrides(self.number().await?)),
                },
            };
            if self.known_overrides.advance(there.clone()) {
                return Ok(());
            }
            let known = self.known_overrides.known();
            if known.head() == asked.head() {
                // Nothing was acknowledged since the read: Redis has lost what this process had.
                self.restore_lost(&known, there).await?;
            } else if known.follows(&there) {
                // Another request was faster.
                return Ok(());
            }
            asked = self.known_overrides.known();
            reply = self.run_all(vec![since(&asked)]).await?.next();
        }
        Err(self.is_overtaken())
    }

    /// Other unreadable values count as absent. Not this one: without it documents would silently get roots that were
    /// corrected.
    pub(super) fn unreadable_overrides(&self, forest: u8) -> Unavailable {
        let key = Key { forest, fingerprint: Fingerprint(0), kind: KeyKind::Overrides };
        let key = key.shown();
        self.unsupported(&format!(
            "what people have said about its groups does not read as this version of spinney writes it, and without it documents would \
             get roots that somebody has corrected. Use the version that wrote it, or put the value of the key \"{key}\" in Redis back \
             from a copy; or delete that key: a spinney that is running and has read it before puts it back, and if there is none, all \
             that was said is forgotten"
        ))
    }

    async fn restore_lost(&self, known: &Arc<OverrideTable>, there: OverrideTable) -> Result<(), Unavailable> {
        let (before, mended) = match there.version {
            0 => (None, OverrideTable::clone(known)),
            version => {
                let overrides = there.overrides.mended(&known.overrides);
                let version = 1 + version.max(known.version);
                let mended = match overrides == *there.overrides {
                    true => there.clone(),
                    false => there.changed(version, self.new_tag(), overrides),
                };
                (Some(there.head()), mended)
            }
        };
        if mended != there {
            let value = mended.bytes();
            let turn = (KeyKind::Overrides, Fingerprint(0), KeyOp::Turn { before, value });
            if self.run_all(vec![turn]).await?.next() != Some(RedisReply::Number(1)) {
                return Ok(());
            }
        }
        let mut now = self.known_overrides.known.lock();
        if Arc::ptr_eq(&now, known) {
            *now = Arc::new(mended);
        }
        Ok(())
    }

    /// Refreshes the overrides from Redis, and returns them.
    pub(super) async fn overrides(&self) -> Result<Arc<OverrideTable>, Unavailable> {
        let asked = self.known_overrides.known();
        let reply = self.run_all(vec![since(&asked)]).await?.next();
        self.refresh_overrides(asked, reply).await?;
        Ok(self.known_overrides.known())
    }

    /// Changes the overrides; returns the result once it is stored, `None` if nothing was changed.
    async fn change_overrides<T>(
        &self,
        change: impl Fn(&mut Overrides) -> Option<T>,
    ) -> Result<Option<T>, Unavailable> {
        Ok(match self.change_overrides_at(None, change).await? {
            ChangeOutcome::Done(answer) => Some(answer),
            ChangeOutcome::Nothing | ChangeOutcome::Overtaken => None,
        })
    }

    /// As [`change_overrides`](Self::change_overrides); with a version, only if it is still the latest.
    pub(super) async fn change_overrides_at<T>(
        &self,
        only: Option<u64>,
        change: impl Fn(&mut Overrides) -> Option<T>,
    ) -> Result<ChangeOutcome<T>, Unavailable> {
        for attempt in 0..ATTEMPTS {
            let known = self.overrides().await?;
            if only.is_some_and(|only| only != known.version) {
                return Ok(ChangeOutcome::Overtaken);
            }
            let mut overrides = Overrides::clone(&known.overrides);
            let Some(answer) = change(&mut overrides) else {
                return Ok(ChangeOutcome::Nothing);
            };
            let changed = known.changed(known.version + 1, self.new_tag(), overrides);
            let value = changed.bytes();
            let before = (known.version > 0).then(|| known.head());
            let turn = (KeyKind::Overrides, Fingerprint(0), KeyOp::Turn { before, value });
            if self.run_all(vec![turn]).await?.next() == Some(RedisReply::Number(1)) {
                self.known_overrides.advance(changed);
                return Ok(ChangeOutcome::Done(answer));
            }
            // It may have been done, and its reply been lost.
            if self.overrides().await?.follows(&changed) {
                return Ok(ChangeOutcome::Done(answer));
            }
            let pause = splitmix64(self.known_overrides.process ^ u64::from(attempt)) % 8;
            self.keys.pause(Duration::from_millis(1 + pause)).await;
        }
        Err(self.is_overtaken())
    }

    fn is_overtaken(&self) -> Unavailable {
        self.overtaken("other processes change the overrides all the time")
    }

    fn new_tag(&self) -> u64 {
        self.random().max(1)
    }

    pub(super) async fn add_override(&self, correction: Override, shown: &[Root]) -> Result<Option<u64>, Unavailable> {
        let say = |overrides: &mut Overrides| Some(overrides.add(correction.clone(), shown)?.0);
        self.change_overrides(say).await
    }

    pub(super) async fn undo_override(&self, number: u64) -> Result<Option<Override>, Unavailable> {
        let undo = |overrides: &mut Overrides| Some(overrides.undo(number)?.0);
        self.change_overrides(undo).await
    }

    pub(super) async fn restamped(&self, done: &RestampPass) -> Result<(), Unavailable> {
        let restamped = |overrides: &mut Overrides| (!overrides.restamped(done).is_empty()).then_some(());
        self.change_overrides(restamped).await.map(drop)
    }

    /// Stores the overrides of a local forest if there are none yet.
    pub(super) async fn import_overrides(&self, overrides: &Overrides) -> Result<(), Unavailable> {
        let put = |there: &mut Overrides| {
            let is_to_be_put = *there == Overrides::default() && there != overrides;
            is_to_be_put.then(|| *there = overrides.clone())
        };
        self.change_overrides(put).await.map(drop)
    }

    /// The overrides as the changes that create them.
    pub(super) fn changes_of(&self, overrides: &Overrides) -> Vec<u8> {
        let entries = overrides
            .iter()
            .map(|(number, correction)| OverrideChange::Add { number, correction: Some(correction.clone()) });
        let restamps = overrides.restamps();
        let restamps = restamps
            .map(|(number, restamp)| OverrideChange::Restamp { number, restamp: Some(Restamp::clone(&restamp)) });
        let mut bytes = Vec::new();
        for change in entries.chain(restamps) {
            StateChange::<F::Proof>::Overrides(change).write(&mut bytes);
        }
        bytes
    }

    /// Registers this process in Redis, before it reads anything that an override may change.
    pub(super) async fn announce(&self) -> Result<(), Unavailable> {
        let due = *self.known_overrides.due.lock();
        if due.is_none_or(|due| due <= self.keys.uptime()) {
            self.send_acknowledgement().await?;
        }
        Ok(())
    }

    /// Acknowledges that all in-flight documents of this process follow this version; returns the state of all
    /// processes.
    pub(super) async fn acknowledge(&self, version: u64) -> Result<Acknowledged, Unavailable> {
        self.known_overrides.acknowledged.fetch_max(version, Relaxed);
        self.send_acknowledgement().await
    }

    async fn send_acknowledgement(&self) -> Result<Acknowledged, Unavailable> {
        let began = self.keys.uptime();
        let what = KeyOp::Acknowledge {
            process: self.known_overrides.process,
            acknowledged: self.known_overrides.acknowledged.load(Relaxed),
            life: LEASE.as_millis() as u64,
        };
        let command = vec![(KeyKind::Acknowledgements, Fingerprint(0), what)];
        let reply = self.run_all(command).await?.next();
        *self.known_overrides.due.lock() = Some(began + LEASE / 3);
        let read = |bytes: &[u8]| {
            let (is_first, by_all) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
            Some(Acknowledged { is_first: is_first == "1", by_all: by_all.parse().ok()? })
        };
        match reply {
            Some(RedisReply::Bytes(bytes)) => read(&bytes),
            _ => None,
        }
        .ok_or_else(|| self.away(RedisUnavailable::of("Redis does not say which processes are there")))
    }
}

impl OverrideTable {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn overrides(&self) -> &Arc<Overrides> {
        &self.overrides
    }
}
