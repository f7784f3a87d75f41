//! What a shared forest asks of the engine that keeps it: a few commands, each on one key. The forest knows no network;
//! whoever implements [`KeyStore`] does.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::fingerprint::Fingerprint;
pub use crate::forest::ticket::FoundingToken;
use crate::method::TreeTally;
use crate::time::Millis;

/// What is asked of an engine, when it has answered.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreUnavailable>> + Send>>;

/// The engine cannot be asked, or did not answer in time. What became of the commands is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct StoreUnavailable {
    /// Why.
    pub reason: String,
    /// It is there, and refuses what needs room: what it is asked for otherwise it does.
    pub is_full: bool,
}

impl StoreUnavailable {
    /// It cannot be asked.
    pub fn of(reason: impl Into<String>) -> StoreUnavailable {
        StoreUnavailable { reason: reason.into(), is_full: false }
    }

    /// It has no room.
    pub fn full(reason: impl Into<String>) -> StoreUnavailable {
        StoreUnavailable { reason: reason.into(), is_full: true }
    }
}

/// An engine of keys and values that expires them by itself.
pub trait KeyStore: std::fmt::Debug + Send + Sync {
    /// Runs the commands and gives as many replies, in their order. In which order they are run is not known; that of
    /// one key is theirs.
    fn run(&self, commands: Vec<Command>) -> StoreFuture<Vec<StoreReply>>;

    /// The number of the forest of this name, which it gets when it is asked for the first time. `identity`: what its
    /// nodes are of; the outer error is that of the engine, the inner one says that a forest of that name is of
    /// something else.
    fn enroll(&self, name: &str, identity: &str) -> StoreFuture<Result<u8, String>>;

    /// The name, the number and the identity of every forest that was ever [enrolled](KeyStore::enroll).
    fn forests(&self) -> StoreFuture<Vec<(String, u8, String)>>;

    /// Some keys of a forest, and where the next are; a key that is there all the while comes at least once.
    fn keys(&self, forest: u8, place: ScanPosition) -> StoreFuture<(Vec<Key>, Option<ScanPosition>)>;

    /// Puts a lesson at the end of those of a forest, if there is one, and gives those after one that was heard, in
    /// their order; and whether that was all.
    fn sync_entries(&self, forest: u8, lesson: Option<SyncEntry>, after: SyncPosition) -> StoreFuture<SyncEntries>;

    /// Removes all lessons of a forest.
    fn remove_sync_entries(&self, forest: u8) -> StoreFuture<()>;

    /// Keys that it holds and bytes that they take, for all forests.
    fn size(&self) -> StoreFuture<(usize, usize)>;

    /// Some keys of a forest, drawn about evenly, and how long their values are. `seed`: any number.
    fn sample(&self, forest: u8, seed: u64) -> StoreFuture<KeySample>;

    /// Works a job off, whoever waits for it.
    fn spawn(&self, job: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// Ends so long after it was asked for.
    fn pause(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// When a document arrives that says so: keys expire by the engine's own clock.
    fn arrival(&self, claimed: Millis) -> Millis;

    /// What that clock shows.
    fn now(&self) -> Millis;

    /// Why it cannot be asked now, if that is known. Never waits.
    fn away(&self) -> Option<StoreUnavailable>;
}

/// The name of a value: 9 bytes, and one more for all but nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The number of the forest.
    pub forest: u8,
    /// Whose it is.
    pub fingerprint: Fingerprint,
    /// What it is.
    pub kind: KeyKind,
}

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyKind {
    /// The node of the fingerprint.
    Node,
    /// More of the text that founded the tree of the fingerprint.
    FounderTokens,
    /// Fingerprints that have some bits in common: the key's fingerprint says which ones, and what they are.
    Bucket,
    /// The latest date of an accepted document. The fingerprint is 0.
    Clock,
    /// The step in which somebody last began to remove what is over. The fingerprint is 0.
    Sweep,
    /// What people have said about groups. The fingerprint is 0.
    Overrides,
    /// The processes that place documents, and what they obey. The fingerprint is 0.
    Acknowledgements,
}

impl KeyKind {
    /// What the key ends with.
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

    /// What [`bytes`](Key::bytes) gave.
    pub fn from_bytes(bytes: &[u8]) -> Option<Key> {
        let (&forest, rest) = bytes.split_first()?;
        let (fingerprint, end) = rest.split_first_chunk()?;
        let kinds = [
            KeyKind::Node,
            KeyKind::FounderTokens,
            KeyKind::Bucket,
            KeyKind::Clock,
            KeyKind::Sweep,
            KeyKind::Overrides,
            KeyKind::Acknowledgements,
        ];
        Some(Key {
            forest,
            fingerprint: Fingerprint(u64::from_be_bytes(*fingerprint)),
            kind: kinds.into_iter().find(|kind| kind.end() == end)?,
        })
    }
}

/// What somebody has taught all who share a forest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncEntry {
    /// What it says.
    pub bytes: Vec<u8>,
    /// Lessons that are kept, about: the oldest go.
    pub most: usize,
    /// How long they are kept after this one; without it for ever.
    pub life: Option<Millis>,
}

/// The place of a lesson: two numbers, as the engine counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SyncPosition(pub u64, pub u64);

/// Some lessons in their order, and whether there are no more.
pub type SyncEntries = (Vec<(SyncPosition, Vec<u8>)>, bool);

/// Keys of a forest that stand for all of them.
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
    /// How many there are in all of what was so often drawn, about.
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
    /// What the next one has said last.
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

/// One command on one key.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// The key.
    pub key: Key,
    /// What is to be done.
    pub what: KeyOp,
}

/// What is to be done with a key.
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
        /// What has to be there.
        before: Vec<u8>,
        /// Nothing may be there as well.
        or_nothing: bool,
        /// The value.
        value: Vec<u8>,
        /// How long it is kept.
        life: Lifetime,
    },
    /// Makes a provisional root of a token a confirmed one. `Number(1)` if it did or if a confirmed root of that token
    /// is there, whatever has come to it since; else `Number(0)`.
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
        /// What has to be there.
        value: Vec<u8>,
    },
    /// Has a root stand for more documents. The `Number` of pins so far, below 65,536; [`StoreReply::Nothing`] if no
    /// confirmed root of that token is there.
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
    /// Has a bucket name a fingerprint, and lets go of those whose step is over. `Number` of names then.
    Enter {
        /// The name.
        fingerprint: Fingerprint,
        /// The end of the number of the step in which it arrives.
        step: u8,
        /// Until when the bucket is kept at least.
        life: Lifetime,
    },
    /// Sets a clock forward. The `Number` that it shows then, in milliseconds.
    Advance {
        /// What it shows at least.
        to: Millis,
    },
    /// Has a root stand for fewer documents, and removes it where it stands for none. [`StoreReply::Nothing`] if no
    /// confirmed root of that token is there, `Number(-1)` if it went, else the number of pins.
    Release {
        /// Of the root.
        token: FoundingToken,
        /// Documents.
        uses: u16,
    },
    /// Reads a value that begins otherwise. [`StoreReply::Nothing`] if it begins so, else its [`StoreReply::Bytes`];
    /// none at all where there is no value.
    Since {
        /// What it may begin with.
        head: [u8; 16],
    },
    /// Puts a value in the place of one that begins so, or of none. `Number(1)` if it did or if one that begins like
    /// the new one is there already, else `Number(0)`.
    Turn {
        /// What has to be there begins with this; `None`: nothing may be there.
        before: Option<[u8; 16]>,
        /// The value.
        value: Vec<u8>,
    },
    /// Says that a process is there, and up to which change of words all that it has on its way obeys.
    /// [`StoreReply::Bytes`]: `1` if of those that are there it came first, else `0`; a space; what all of them obey.
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
        /// What came.
        tally: TreeTally,
    },
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreReply {
    /// See the command.
    Nothing,
    /// A value.
    Bytes(Vec<u8>),
    /// See the command.
    Number(i64),
}
