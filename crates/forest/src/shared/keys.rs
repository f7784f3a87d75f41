//! The port to the store of shared forests: a few commands, each on one key. The forest knows no network;
//! implementations of [`KeyStore`] do.

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

/// The latest moment of an expiry, and the longest time, in milliseconds: about 140,000 years. Functions of the engine
/// know all whole numbers up to twice as many.
pub const LATEST: i64 = 1 << 52;
/// Names that a bucket has at most.
#[cfg(any(test, feature = "simulation"))]
pub(super) const NAMES: usize = 1_024;
/// Forests that an engine holds at most.
pub const FORESTS: u8 = 100;

/// The number that a forest of this name gets, or the next one that is free.
pub fn proposed_number(name: &str) -> u8 {
    (name.bytes().fold(7, |hash, byte| splitmix64(hash ^ u64::from(byte))) % u64::from(FORESTS)) as u8
}

/// The future of a store operation.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreUnavailable>> + Send>>;

/// The store cannot be reached, or did not answer in time. Commands may have been run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct StoreUnavailable {
    /// Why.
    pub reason: String,
    /// What is refused.
    pub extent: Extent,
}

/// How much of a store is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    All,
    /// It is reachable, and refuses only commands that need memory.
    Memory,
    /// The one key that was asked for: all others are served.
    Key,
}

impl StoreUnavailable {
    /// It cannot be asked.
    pub fn of(reason: impl Into<String>) -> StoreUnavailable {
        StoreUnavailable { reason: reason.into(), extent: Extent::All }
    }

    /// It has no memory for new keys.
    pub fn full(reason: impl Into<String>) -> StoreUnavailable {
        StoreUnavailable { reason: reason.into(), extent: Extent::Memory }
    }

    /// It refuses what was asked of one key.
    pub fn of_key(reason: impl Into<String>) -> StoreUnavailable {
        StoreUnavailable { reason: reason.into(), extent: Extent::Key }
    }
}

/// How the identity that a forest is kept with goes with that of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// They are the same.
    Same,
    /// They differ in nothing but fingerprints of an earlier version, of which the forest has some.
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

/// The refusal of a forest that is kept with other settings.
pub fn other_settings(kept: &str, wanted: &str) -> String {
    format!(
        "it is kept there as a forest of other settings ({kept}) than those of this process ({wanted}): use another \
         --forest, or the same settings everywhere"
    )
}

/// The refusal of a forest with texts that were read from other fields, or of which a part is missing.
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

/// An engine of keys and values that expires them by itself.
pub trait KeyStore: std::fmt::Debug + Send + Sync {
    /// Runs the commands and gives as many replies, in their order. In which order they are run is not known; that of
    /// one key is theirs.
    fn run(&self, commands: Vec<Command>) -> StoreFuture<Vec<StoreReply>>;

    /// Returns the number of the forest of this name, assigned at the first call. `identity`: the settings its nodes
    /// depend on; the outer error is the store's, the inner one reports a forest of that name with another identity
    /// (but for [fingerprints of an earlier version](agreement)), or that there are as many as can be.
    fn enroll(&self, name: &str, identity: &str) -> StoreFuture<Result<u8, String>>;

    /// Gives a forest that was enrolled another identity, and another record of its fields. No process may be placing
    /// documents.
    fn declare(&self, name: &str, identity: &str, fields: &FieldRecord) -> StoreFuture<()>;

    /// Which fields the texts of a forest were read from.
    fn fields(&self, name: &str) -> StoreFuture<FieldRecord>;

    /// Records which fields this process reads into a forest that was enrolled; the inner error is that texts in it
    /// were read from others.
    fn agree_on_fields(&self, name: &str, fields: &RoutedFields) -> StoreFuture<Result<(), String>>;

    /// The name, the number and the identity of every forest that was ever [enrolled](KeyStore::enroll).
    fn forests(&self) -> StoreFuture<Vec<(String, u8, String)>>;

    /// Some keys of a forest, and where the next are; a key that is there all the while comes at least once.
    fn keys(&self, forest: u8, place: ScanPosition) -> StoreFuture<(Vec<Key>, Option<ScanPosition>)>;

    /// Appends a lesson to those of a forest, if given, and returns those from a position on, in order, and whether
    /// that was all. The one at that position comes without its bytes, and only if it was ever in this log: not where
    /// another log was begun since.
    fn sync_entries(&self, forest: u8, lesson: Option<SyncEntry>, from: SyncPosition) -> StoreFuture<SyncEntries>;

    /// Removes all lessons of a forest.
    fn remove_sync_entries(&self, forest: u8) -> StoreFuture<()>;

    /// Keys that it holds and bytes that they take, for all forests.
    fn size(&self) -> StoreFuture<(usize, usize)>;

    /// Some keys of a forest, drawn about evenly, and how long their values are. `seed`: any number.
    fn sample(&self, forest: u8, seed: u64) -> StoreFuture<KeySample>;

    /// Runs a job to its end, with or without a waiter.
    fn spawn(&self, job: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// Ends so long after it was asked for.
    fn pause(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Arrival of a document with this time: keys expire by the store's own clock.
    fn arrival(&self, claimed: Millis) -> Millis;

    /// The store's clock.
    fn now(&self) -> Millis;

    /// The time by the clock that expires its keys; `None`: that is [`now`](KeyStore::now).
    fn redis_time(&self) -> StoreFuture<Option<Millis>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Time since this handle was made, by a clock that never jumps.
    fn uptime(&self) -> Duration;

    /// Why it cannot be asked now, if that is known. Never waits.
    fn away(&self) -> Option<StoreUnavailable>;

    /// What is known of keys that it removes by itself before their time. Never waits.
    fn evictions(&self) -> Evictions {
        Evictions::default()
    }
}

/// Keys that a store removes by itself before their time, because its memory is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evictions {
    /// It would, by its configuration.
    pub is_on: bool,
    /// Keys that it has removed since its start, of this and other programs.
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
    /// Fingerprints that share some bits: the key's fingerprint gives the bits and their values.
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

    /// The same as `redis-cli` takes it within double quotes.
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

/// The position of a lesson: when it was added, in milliseconds by Redis's clock, and a number that tells it from
/// others of this moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SyncPosition(pub u64, pub u64);

/// Some lessons in their order, and whether there are no more.
pub type SyncEntries = (Vec<(SyncPosition, Vec<u8>)>, bool);

/// A sample of a forest's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySample {
    /// Keys, and bytes of their values.
    pub drawn: Vec<(Key, usize)>,
    /// Of so many keys, those of other forests and of other people included.
    pub of: usize,
    /// Keys that the engine holds in all.
    pub keys: usize,
}

impl KeySample {
    /// Estimates how many keys there are in all, from the number in the sample.
    pub fn all(&self, drawn: usize) -> usize {
        let all = drawn as u128 * self.keys as u128 / self.of.max(1) as u128;
        usize::try_from(all).unwrap_or(usize::MAX)
    }
}

/// How far the keys of an engine were gone through.
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
    /// For so long.
    For(Duration),
    /// Until this moment, whenever it is written.
    Until(Millis),
}

/// A time to live in milliseconds: of those that an engine takes.
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
    /// [`StoreReply::Bytes`], or [`StoreReply::Nothing`].
    Get,
    /// Puts a value where none is. [`StoreReply::Nothing`] if it did, else the [`StoreReply::Bytes`] that are there.
    Claim {
        /// The value.
        value: Vec<u8>,
        /// How long it is kept.
        life: Lifetime,
    },
    /// Puts a value, whatever is there. [`StoreReply::Nothing`].
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
    /// Pins a root for more documents. The `Number` of pins with this one, modulo 65,536; [`StoreReply::Nothing`] if
    /// no confirmed root of that token is there.
    Pin {
        /// Of the root.
        token: FoundingToken,
        /// Documents.
        uses: u16,
        /// Leaves that they bring.
        children: u16,
        /// The step of time that it is now.
        step: u16,
        /// Until when it is kept, if its own step is an earlier one.
        life: Lifetime,
    },
    /// The same, which leaves the time of the root alone.
    Hold {
        /// Of the root.
        token: FoundingToken,
        /// Documents.
        uses: u16,
        /// Leaves that they bring.
        children: u16,
    },
    /// Sets the time of a dated root forward. `Number(1)` if a confirmed root of that token is there, whatever its time
    /// is, else `Number(0)`.
    Arrive {
        /// Of the root.
        token: FoundingToken,
        /// All bits of the step.
        step: u32,
        /// Until when it is kept, if its own step is an earlier one.
        life: Lifetime,
    },
    /// Sets the time of a dated leaf forward, or puts it back where nothing is. `Number(1)` if a leaf of that tree is
    /// there then, else `Number(0)`.
    Touch {
        /// The leaf.
        value: Vec<u8>,
        /// Until when it is kept, if its own step is an earlier one.
        life: Lifetime,
    },
    /// Removes a leaf of a tree, whenever it arrived. `Number(1)` if it was there, else `Number(0)`.
    RemoveLeaf {
        /// The tree.
        root: Fingerprint,
        /// Of its root.
        token: FoundingToken,
    },
    /// Has a bucket name a fingerprint, and lets go of those whose step is over, and of the first of too many.
    /// `Number` of names then.
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
    /// Releases pins of a root, and removes it without any. [`StoreReply::Nothing`] if no confirmed root of that
    /// token is there, `Number(-1)` if it was removed, else the number of pins.
    Release {
        /// Of the root.
        token: FoundingToken,
        /// Documents.
        uses: u16,
    },
    /// Reads a value that begins otherwise. [`StoreReply::Nothing`] if it begins so, else its [`StoreReply::Bytes`];
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
    /// Registers a process, and the override version that all its in-flight documents follow. [`StoreReply::Bytes`]:
    /// `1` if it is the oldest process, else `0`; a space; the version that all processes follow.
    Acknowledge {
        /// The process.
        process: u64,
        /// The number of the change.
        acknowledged: u64,
        /// So long it is there, in milliseconds of the engine.
        life: u64,
    },
    /// Counts accepted documents at a root. [`StoreReply::Nothing`].
    Count {
        /// Of the root.
        token: FoundingToken,
        /// The statistics to add.
        tally: TreeTally,
    },
}

impl KeyOp {
    /// Whether it changes a forest whatever that holds: no token and no value tells it from another one.
    pub fn fits_any_forest(&self) -> bool {
        matches!(self, KeyOp::Advance { .. } | KeyOp::Turn { .. })
    }

    /// Reply to assume for a command whose fate is unknown; `None` where it may be sent again because it is idempotent.
    ///
    /// A provisional claim of a root is not idempotent: executed late, the first one would restore a root that another
    /// process has removed. Its document starts again with a new token.
    pub fn reply_if_lost(&self) -> Option<StoreReply> {
        match self {
            KeyOp::Release { .. } | KeyOp::Count { .. } => Some(StoreReply::Nothing),
            KeyOp::Claim { life, .. } | KeyOp::Swap { life, .. } => {
                let is_provisional = matches!(life, Lifetime::For(_));
                is_provisional.then_some(StoreReply::Number(0))
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
pub enum StoreReply {
    /// See the command.
    Nothing,
    /// A value.
    Bytes(Vec<u8>),
    /// See the command.
    Number(i64),
    /// Nothing was done, because the key holds what is no value of a forest. To any command.
    Unusable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_tells_of_all() {
        let all = |of, keys, drawn| KeySample { drawn: Vec::new(), of, keys }.all(drawn);
        assert_eq!(all(20, 1_000, 3), 150);
        assert_eq!(all(0, 1_000, 3), 3_000, "nothing was drawn");
        assert_eq!(all(1, usize::MAX, 2), usize::MAX);
    }
}
