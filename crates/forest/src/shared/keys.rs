//! The port to Redis of shared forests: a few commands, each on one key. The forest knows no network; implementations
//! of [`RedisClient`] do.
//!
//! A command without a reply may be done, now or later, or not.
//!
//! - Read, leaf claim, swap, kill, remove, enter, advance, arrive, touch are sent again: harmless if done twice or
//!   late.
//! - A pin is sent again with its nonce, and counts once if no other one came between. Else it is a use too many, which
//!   no release takes away.
//! - A root claim is **never sent again**: a late one would revive a killed root. The document gets a new token.
//! - Confirm is sent again, and succeeds on a confirmed root of the token, whatever was pinned since.
//! - Release and count are never sent again; after a release the leaves stay.
//!
//! What is certainly not done is no such command, and is sent again: one that never left this process, or that was
//! answered with an error that says so.
//!
//! A client library of Redis must not retry by itself. `MOVED` and `ASK` mean *not* done: that command goes to the
//! named node. A master without the functions gets them, and the command again.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tracing::warn;

use crate::text_fields::{FieldRecord, FieldsRefused, RoutedFields};

pub use crate::ticket::FoundingToken;
use crate::time::Millis;
use spinney_text::fingerprint::{Fingerprint, FingerprintVersion};
use spinney_text::hash::splitmix64;
use spinney_text::method::TreeTally;

/// The latest moment of an expiry, and the longest time, in milliseconds: about 140,000 years. Functions of Redis
/// know all whole numbers up to twice as many.
pub const LATEST: i64 = 1 << 52;
/// Names that a bucket has at most.
#[cfg(any(test, feature = "simulation"))]
pub(super) const NAMES: usize = 1_024;
/// Forests that a Redis holds at most.
pub const FORESTS: u8 = 100;

/// The number that a forest of this name gets, or the next one that is free.
pub fn proposed_number(name: &str) -> u8 {
    (name.bytes().fold(7, |hash, byte| splitmix64(hash ^ u64::from(byte))) % u64::from(FORESTS)) as u8
}

/// The future of a Redis operation.
pub type RedisFuture<T> = Pin<Box<dyn Future<Output = Result<T, RedisUnavailable>> + Send>>;
/// The future of a round of commands.
pub type RoundFuture = Pin<Box<dyn Future<Output = Result<Vec<RedisReply>, RoundFailed>> + Send>>;

/// A round of commands that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct RoundFailed<W = RedisUnavailable> {
    /// Why.
    pub why: W,
    /// The positions of the commands that were certainly not run, in order.
    pub not_run: Vec<usize>,
    /// The positions of the pins that were answered so at their first sending, in order. What is in neither may have
    /// been run, or may still be.
    pub pinned: Vec<usize>,
}

impl<W> RoundFailed<W> {
    /// All of it may have been run, or may still be.
    pub fn of(why: W) -> RoundFailed<W> {
        RoundFailed { why, not_run: Vec::new(), pinned: Vec::new() }
    }

    /// Nothing of a round of so many commands was run.
    pub fn before_all(why: W, commands: usize) -> RoundFailed<W> {
        RoundFailed { not_run: (0..commands).collect(), ..RoundFailed::of(why) }
    }

    /// The same in other words.
    pub fn map<V>(self, why: impl FnOnce(W) -> V) -> RoundFailed<V> {
        RoundFailed { why: why(self.why), not_run: self.not_run, pinned: self.pinned }
    }
}

/// Redis cannot be reached, or did not answer in time. Commands may have been run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct RedisUnavailable {
    /// Why.
    pub reason: String,
    /// Which operations fail.
    pub extent: Extent,
}

/// How much of a Redis is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    All,
    /// It is reachable, and refuses only commands that need memory.
    Memory {
        /// Whether nothing else was amiss in this round: no node was lost or has moved keys, and what they have said
        /// before may be taken for what they know.
        is_all_there: bool,
    },
    /// One key: all others are served.
    Key,
}

impl RedisUnavailable {
    /// Redis does not respond.
    pub fn of(reason: impl Into<String>) -> RedisUnavailable {
        RedisUnavailable { reason: reason.into(), extent: Extent::All }
    }

    /// It has no memory for new keys.
    pub fn full(reason: impl Into<String>) -> RedisUnavailable {
        RedisUnavailable { reason: reason.into(), extent: Extent::Memory { is_all_there: true } }
    }

    /// Redis refuses an operation on one key.
    pub fn of_key(reason: impl Into<String>) -> RedisUnavailable {
        RedisUnavailable { reason: reason.into(), extent: Extent::Key }
    }
}

/// How the stored identity of a forest compares with that of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// They are the same.
    Same,
    /// They differ only in the version of the fingerprints: the forest has some of an earlier one.
    Earlier,
    /// The forest is another one.
    Other,
}

/// Compares the identity that a forest is kept with and that of this process: settings with a space between them.
pub fn agreement(kept: &str, wanted: &str) -> Agreement {
    if kept == wanted {
        return Agreement::Same;
    }
    let is_earlier = |(kept, wanted): (&str, &str)| {
        let sides = kept.split_once('=').zip(wanted.split_once('='));
        sides.is_some_and(|((setting, kept), (other, wanted))| {
            setting == other && FingerprintVersion::is_earlier(setting, kept, wanted)
        })
    };
    let settings = || kept.split(' ').zip(wanted.split(' '));
    let are_as_many = kept.split(' ').count() == wanted.split(' ').count();
    match are_as_many && settings().all(|pair| pair.0 == pair.1 || is_earlier(pair)) {
        true => Agreement::Earlier,
        false => Agreement::Other,
    }
}

/// The version of the fingerprints of a forest that is kept with this identity.
pub(super) fn fingerprints_of(identity: &str) -> Option<FingerprintVersion> {
    let mut settings = identity.split(' ').filter_map(|setting| setting.split_once('='));
    let found = settings.find(|(setting, _)| *setting == FingerprintVersion::SETTING);
    found.and_then(|(_, version)| version.parse().ok()).map(FingerprintVersion)
}

/// The same identity with fingerprints of another version.
pub(super) fn with_fingerprints(identity: &str, version: FingerprintVersion) -> String {
    let settings = identity.split(' ').map(|setting| match setting.split_once('=') {
        Some((FingerprintVersion::SETTING, _)) => format!("{}={version}", FingerprintVersion::SETTING),
        _ => setting.to_owned(),
    });
    settings.collect::<Vec<_>>().join(" ")
}

/// The message for a forest too many.
pub fn too_many_forests() -> String {
    format!("there are {FORESTS} forests already: use another Redis, or one of theirs")
}

/// The message for a forest with other settings.
pub fn other_settings(kept: &str, wanted: &str) -> String {
    format!(
        "it is kept there as a forest of other settings ({kept}) than those of this process ({wanted}): use another \
         --forest, or the same settings everywhere"
    )
}

/// The message for a forest whose texts were read from other fields.
pub fn other_fields(differ: &FieldsRefused) -> String {
    if *differ == FieldsRefused::Unfinished {
        return format!("it {differ}");
    }
    format!(
        "it {differ}. Give the same fields everywhere; or stop all that share it, run spinney recover with those of \
         now and an empty --data-dir DIR, then spinney transfer --from DIR --to the URL of --forest-store with \
         --replace, and start them again; or give the route a forest of its own with --forest, which begins empty"
    )
}

/// Logs that a forest is used whose fingerprints are of an earlier version.
pub fn warn_of_earlier(forest: &str) {
    warn!(
        forest,
        "the shared forest was begun by a version of spinney that reads some texts differently: a reprint of a \
         document from before may found a tree of its own, until the window has passed over what was there. To rebuild \
         it from the index, stop all that share it, run spinney recover with an empty --data-dir DIR, then spinney \
         transfer --from DIR --to the URL of --forest-store with --replace, and start them again"
    );
}

/// What shared forests need of Redis: commands on single keys that expire by themselves.
pub trait RedisClient: std::fmt::Debug + Send + Sync {
    /// Runs commands; returns one reply each, in their order. In which order they are run is not known; that of one key
    /// is theirs.
    fn run(&self, commands: Vec<Command>) -> RoundFuture;

    /// Returns the number of the forest of this name, assigned at the first call. `identity`: the settings its nodes
    /// depend on; the outer error is Redis', the inner one reports a forest of that name with another identity
    /// (but for [fingerprints of an earlier version](agreement)), or that there are as many as can be.
    fn enroll(&self, name: &str, identity: &str) -> RedisFuture<Result<u8, String>>;

    /// Replaces identity and field record of an enrolled forest. No process may be placing documents.
    fn declare(&self, name: &str, identity: &str, fields: &FieldRecord) -> RedisFuture<()>;

    /// Which fields the texts of a forest were read from.
    fn fields(&self, name: &str) -> RedisFuture<FieldRecord>;

    /// Records the fields that this process reads for an enrolled forest; the inner error: its texts were read from
    /// other fields.
    fn agree_on_fields(&self, name: &str, fields: &RoutedFields) -> RedisFuture<Result<(), String>>;

    /// The name, the number and the identity of every forest that was ever [enrolled](RedisClient::enroll).
    fn forests(&self) -> RedisFuture<Vec<(String, u8, String)>>;

    /// Scans keys of a forest: some keys, and the position of the next ones. A key that exists throughout is returned
    /// at least once.
    fn keys(&self, forest: u8, place: ScanPosition) -> RedisFuture<(Vec<Key>, Option<ScanPosition>)>;

    /// Appends a lesson, if given, to the log of a forest, and reads the log from a position on. The one at that
    /// position comes without its bytes, and only if it was ever in this log: not where another log was begun since.
    fn sync_entries(&self, forest: u8, lesson: Option<SyncEntry>, from: SyncPosition) -> RedisFuture<SyncEntries>;

    /// Removes all lessons of a forest.
    fn remove_sync_entries(&self, forest: u8) -> RedisFuture<()>;

    /// Keys that it holds and bytes that they take, for all forests.
    fn size(&self) -> RedisFuture<(usize, usize)>;

    /// Some keys of a forest, drawn about evenly, and how long their values are. `seed`: any number.
    fn sample(&self, forest: u8, seed: u64) -> RedisFuture<KeySample>;

    /// Runs a job to its end, with or without a waiter.
    fn spawn(&self, job: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// Completes after this time.
    fn pause(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Arrival of a document with this time: keys expire by Redis' own clock.
    fn arrival(&self, claimed: Millis) -> Millis;

    /// Redis' clock.
    fn now(&self) -> Millis;

    /// The time by the clock that expires its keys; `None`: that is [`now`](RedisClient::now).
    fn redis_time(&self) -> RedisFuture<Option<Millis>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Time since this handle was made, by a clock that never jumps.
    fn uptime(&self) -> Duration;

    /// The present outage, if one is known. Never waits.
    fn away(&self) -> Option<RedisUnavailable>;

    /// Keys that Redis evicted before their expiry, as far as known. Never waits.
    fn evictions(&self) -> Evictions {
        Evictions::default()
    }
}

/// Keys that a Redis removes by itself before their time, because its memory is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evictions {
    /// It would, by its configuration.
    pub is_on: bool,
    /// Keys that it has evicted since its start, of any program.
    pub keys: u64,
}

/// The name of a value: 9 bytes, and one more for all but nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The number of the forest.
    pub forest: u8,
    /// Whose it is.
    pub fingerprint: Fingerprint,
    /// Its kind.
    pub kind: KeyKind,
}

/// The kind of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyKind {
    /// The node of the fingerprint.
    Node,
    /// More of the text that founded the tree of the fingerprint.
    FounderTokens,
    /// An LSH bucket: fingerprints that share the bits given by the key's fingerprint.
    Bucket,
    /// The latest date of an accepted document. The fingerprint is 0.
    Clock,
    /// The step of the last sweep. The fingerprint is 0.
    Sweep,
    /// The overrides. The fingerprint is 0.
    Overrides,
    /// The processes that place documents, and the override version of each. The fingerprint is 0.
    Acknowledgements,
}

impl KeyKind {
    /// All of them.
    pub const ALL: [KeyKind; 7] = [
        KeyKind::Node,
        KeyKind::FounderTokens,
        KeyKind::Bucket,
        KeyKind::Clock,
        KeyKind::Sweep,
        KeyKind::Overrides,
        KeyKind::Acknowledgements,
    ];

    /// The suffix of the key.
    fn end(self) -> &'static [u8] {
        match self {
            KeyKind::Node => b"",
            KeyKind::FounderTokens => b"E",
            KeyKind::Bucket => b"B",
            KeyKind::Clock => b"C",
            KeyKind::Sweep => b"S",
            KeyKind::Overrides => b"W",
            KeyKind::Acknowledgements => b"O",
        }
    }
}

impl Key {
    /// `| forest 1 | fingerprint 8, big endian | kind 1, but of nodes |`
    pub fn bytes(&self) -> ([u8; 10], usize) {
        let mut bytes = [0; 10];
        let [forest, fingerprint @ .., kind] = &mut bytes;
        *forest = self.forest;
        *fingerprint = self.fingerprint.0.to_be_bytes();
        let end = self.kind.end();
        *kind = end.first().copied().unwrap_or_default();
        (bytes, 9 + end.len())
    }

    /// The key as `redis-cli` reads it within double quotes.
    pub fn shown(&self) -> impl std::fmt::Display {
        let (bytes, len) = self.bytes();
        bytes.get(..len).unwrap_or_default().escape_ascii().to_string()
    }

    /// The inverse of [`bytes`](Key::bytes).
    pub fn from_bytes(bytes: &[u8]) -> Option<Key> {
        let (&forest, rest) = bytes.split_first()?;
        let (fingerprint, end) = rest.split_first_chunk()?;
        Some(Key {
            forest,
            fingerprint: Fingerprint(u64::from_be_bytes(*fingerprint)),
            kind: KeyKind::ALL.into_iter().find(|kind| kind.end() == end)?,
        })
    }
}

/// An entry of the boilerplate sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncEntry {
    /// Its content.
    pub bytes: Vec<u8>,
    /// Lessons that are kept, about: the oldest go.
    pub most: usize,
    /// How long they are kept after this one; without it for ever.
    pub life: Option<Millis>,
}

/// The position of a lesson in the log: milliseconds of Redis' clock when it was added, and a sequence number within
/// them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SyncPosition(pub u64, pub u64);

/// Lessons in order, and whether the log ends with them.
pub type SyncEntries = (Vec<(SyncPosition, Vec<u8>)>, bool);

/// A sample of a forest's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySample {
    /// Keys, and bytes of their values.
    pub drawn: Vec<(Key, usize)>,
    /// Size of the database in keys, foreign ones included.
    pub of: usize,
    /// Keys that Redis holds in all.
    pub keys: usize,
}

impl KeySample {
    /// Estimates the number of keys in the database from their number in the sample.
    pub fn all(&self, drawn: usize) -> usize {
        let all = drawn as u128 * self.keys as u128 / self.of.max(1) as u128;
        usize::try_from(all).unwrap_or(usize::MAX)
    }
}

/// Position of a scan over the keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanPosition {
    /// How many of its nodes are done.
    pub node: usize,
    /// The cursor that the node returned.
    pub cursor: u64,
}

/// How long a value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// For ever.
    Endless,
    /// Expires after this time.
    For(Duration),
    /// Until this moment, whenever it is written.
    Until(Millis),
}

/// A time to live in milliseconds: of those that a Redis takes.
pub fn lifetime_millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).map_or(LATEST, |millis| millis.clamp(1, LATEST))
}

/// One command on one key.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// The key.
    pub key: Key,
    /// The operation.
    pub what: KeyOp,
}

/// An operation on a key.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyOp {
    /// [`RedisReply::Bytes`], or [`RedisReply::Nothing`].
    Get,
    /// Puts a value into an empty key. [`RedisReply::Nothing`] if it did, else the [`RedisReply::Bytes`] that are
    /// there.
    Claim {
        /// The value.
        value: Vec<u8>,
        /// How long it is kept.
        life: Lifetime,
    },
    /// Puts a value, replacing any. [`RedisReply::Nothing`].
    Put {
        /// The value.
        value: Vec<u8>,
        /// How long it is kept.
        life: Lifetime,
    },
    /// Puts a value in the place of another one. `Number(1)` if it did or if it is there already, else `Number(0)`.
    Swap {
        /// The expected value.
        before: Vec<u8>,
        /// Nothing may be there as well.
        or_nothing: bool,
        /// The value.
        value: Vec<u8>,
        /// How long it is kept.
        life: Lifetime,
    },
    /// Confirms a provisional root of this token. `Number(1)` if it did, or if a confirmed root of that token is
    /// there, whatever joined it since; else `Number(0)`.
    Confirm {
        /// Of the root.
        token: FoundingToken,
        /// The root, confirmed.
        value: Vec<u8>,
        /// How long it is kept.
        life: Lifetime,
    },
    /// Removes a value. `Number(1)` if it was there, else `Number(0)`.
    Remove {
        /// The expected value.
        value: Vec<u8>,
    },
    /// Pins a root for more documents. `Number(1)`; [`RedisReply::Nothing`] if no confirmed root of that token is
    /// there.
    Pin {
        /// Of the root.
        token: FoundingToken,
        /// Documents.
        uses: u16,
        /// Leaves that they bring.
        children: u16,
        /// Which pin it is.
        nonce: PinNonce,
        /// The step of time that it is now.
        step: u16,
        /// Its new expiry, if its own step is an earlier one.
        life: Lifetime,
    },
    /// As [`Pin`](KeyOp::Pin), without extending the root.
    Hold {
        /// Of the root.
        token: FoundingToken,
        /// Documents.
        uses: u16,
        /// Leaves that they bring.
        children: u16,
        /// Which pin it is.
        nonce: PinNonce,
    },
    /// Sets the time of a dated root forward. `Number(1)` if a confirmed root of that token is there, whatever its time
    /// is, else `Number(0)`.
    Arrive {
        /// Of the root.
        token: FoundingToken,
        /// All bits of the step.
        step: u32,
        /// Its new expiry, if its own step is an earlier one.
        life: Lifetime,
    },
    /// Advances the time of a dated leaf, or puts the leaf into an empty key. `Number(1)` if a leaf of that tree is
    /// there then, else `Number(0)`.
    Touch {
        /// The leaf.
        value: Vec<u8>,
        /// Its new expiry, if its own step is an earlier one.
        life: Lifetime,
    },
    /// Removes a leaf of a tree, whenever it arrived. `Number(1)` if it was there, else `Number(0)`.
    RemoveLeaf {
        /// The tree.
        root: Fingerprint,
        /// Of its root.
        token: FoundingToken,
    },
    /// Adds a fingerprint to a bucket; removes expired entries, and the first one of a full bucket. `Number` of names
    /// then.
    Enter {
        /// The name.
        fingerprint: Fingerprint,
        /// The end of the number of the step in which it arrives.
        step: u8,
        /// Until which moment the bucket is kept at least, or for ever.
        life: Lifetime,
    },
    /// Sets a clock forward. The `Number` that it shows then, in milliseconds.
    Advance {
        /// The least value afterwards.
        to: Millis,
    },
    /// Releases pins of a root, and removes it without any. [`RedisReply::Nothing`] if no confirmed root of that
    /// token is there, `Number(-1)` if it was removed, else `Number(0)`.
    Release {
        /// Of the root.
        token: FoundingToken,
        /// Documents.
        uses: u16,
    },
    /// Reads a value that begins otherwise. [`RedisReply::Nothing`] if it begins so, else its [`RedisReply::Bytes`];
    /// none at all where there is no value.
    Since {
        /// The new first bytes.
        head: [u8; 16],
    },
    /// Puts a value in the place of one that begins so, or of none. `Number(1)` if it did or if one that begins like
    /// the new one is there already, else `Number(0)`.
    Turn {
        /// The expected first bytes; `None`: the key must not exist.
        before: Option<[u8; 16]>,
        /// The value.
        value: Vec<u8>,
    },
    /// Registers a process, and the override version that all its in-flight documents follow. [`RedisReply::Bytes`]:
    /// `1` if it is the oldest process, else `0`; a space; the version that all processes follow.
    Acknowledge {
        /// The process.
        process: u64,
        /// The number of the change.
        acknowledged: u64,
        /// Time to live of the bucket, in milliseconds.
        life: u64,
    },
    /// Counts accepted documents at a root. [`RedisReply::Nothing`].
    Count {
        /// Of the root.
        token: FoundingToken,
        /// The statistics to add.
        tally: TreeTally,
    },
}

/// Tells a pin that is sent again from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinNonce {
    /// Different for most pins. The root has that of its last one.
    pub number: u16,
    /// Whether it may have been run already: then it does not count if it was the last one.
    pub is_sent_again: bool,
}

impl PinNonce {
    /// That of a pin that was not sent yet, and not the one that the root had when it was read. `random`: any number.
    pub fn after(read: u16, random: u64) -> PinNonce {
        let further = (random % u64::from(u16::MAX)) as u16 + 1;
        PinNonce { number: read.wrapping_add(further), is_sent_again: false }
    }
}

impl KeyOp {
    /// Whether a reply to it says that it has pinned a root.
    pub fn has_pinned(&self, reply: &RedisReply) -> bool {
        self.is_pin() && matches!(reply, RedisReply::Number(_))
    }

    /// Whether it pins a root.
    pub fn is_pin(&self) -> bool {
        matches!(self, KeyOp::Pin { .. } | KeyOp::Hold { .. })
    }

    /// Its answer was lost, and it is going to be sent again.
    pub fn send_again(&mut self) {
        if let KeyOp::Pin { nonce, .. } | KeyOp::Hold { nonce, .. } = self {
            nonce.is_sent_again = true;
        }
    }

    /// Whether it applies to any forest: no token or value in it is specific to one.
    pub fn fits_any_forest(&self) -> bool {
        matches!(self, KeyOp::Advance { .. } | KeyOp::Turn { .. })
    }

    /// Whether it takes from what a key holds, so that it is not sent again and must not get lost either: the node is
    /// asked first whether it is there.
    pub fn is_sent_once(&self) -> bool {
        matches!(self, KeyOp::Release { .. })
    }

    /// The reply to assume for a command whose outcome is unknown; `None`: it is idempotent and may be sent again.
    ///
    /// A provisional claim of a root is not idempotent: executed late, the first one would restore a root that another
    /// process has removed. Its document starts again with a new token.
    pub fn reply_if_unknown(&self) -> Option<RedisReply> {
        match self {
            KeyOp::Release { .. } | KeyOp::Count { .. } => Some(RedisReply::Nothing),
            KeyOp::Claim { life, .. } | KeyOp::Swap { life, .. } => {
                let is_provisional = matches!(life, Lifetime::For(_));
                is_provisional.then_some(RedisReply::Number(0))
            }
            KeyOp::Get
            | KeyOp::Put { .. }
            | KeyOp::Confirm { .. }
            | KeyOp::Remove { .. }
            | KeyOp::RemoveLeaf { .. }
            | KeyOp::Pin { .. }
            | KeyOp::Hold { .. }
            | KeyOp::Arrive { .. }
            | KeyOp::Touch { .. }
            | KeyOp::Enter { .. }
            | KeyOp::Advance { .. }
            | KeyOp::Since { .. }
            | KeyOp::Turn { .. }
            | KeyOp::Acknowledge { .. } => None,
        }
    }
}

/// The reply to a command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RedisReply {
    /// See the command.
    Nothing,
    /// A value.
    Bytes(Vec<u8>),
    /// See the command.
    Number(i64),
    /// Nothing was done: the key holds a value that is not a forest's. To any command.
    Unusable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_any_but_that_of_the_root() {
        let number = |random| PinNonce::after(9, random).number;
        assert_eq!([0, 65_534, 65_535, u64::MAX].map(number), [10, 8, 10, 10]);
    }

    #[test]
    fn a_sample_tells_of_all() {
        let all = |of, keys, drawn| KeySample { drawn: Vec::new(), of, keys }.all(drawn);
        assert_eq!(all(20, 1_000, 3), 150);
        assert_eq!(all(0, 1_000, 3), 3_000, "nothing was drawn");
        assert_eq!(all(1, usize::MAX, 2), usize::MAX);
    }
}
