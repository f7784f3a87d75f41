//! What a shared forest asks of the engine that keeps it: a few commands, each on one key. The forest knows no network; whoever
//! implements [`KeyStore`] does.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::fingerprint::Fingerprint;
use crate::method::Tally;
use crate::time::Millis;

/// What is asked of an engine, when it has answered.
pub type Asked<T> = Pin<Box<dyn Future<Output = Result<T, Away>> + Send>>;

/// The engine cannot be asked, or did not answer in time. What became of the commands is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Away(pub String);

/// An engine of keys and values that expires them by itself.
pub trait KeyStore: std::fmt::Debug + Send + Sync {
    /// Runs the commands and gives as many replies, in their order. In which order they are run is not known; that of one
    /// key is theirs.
    fn run(&self, commands: Vec<Command>) -> Asked<Vec<Reply>>;

    /// The number of the forest of this name, which it gets when it is asked for the first time. `identity`: what its nodes are
    /// of; the outer error is that of the engine, the inner one says that a forest of that name is of something else.
    fn enroll(&self, name: &str, identity: &str) -> Asked<Result<u8, String>>;

    /// The name, the number and the identity of every forest that was ever [enrolled](KeyStore::enroll).
    fn forests(&self) -> Asked<Vec<(String, u8, String)>>;

    /// Some keys of a forest, and where the next are; a key that is there all the while comes at least once.
    fn keys(&self, forest: u8, place: Place) -> Asked<(Vec<Key>, Option<Place>)>;

    /// Puts a lesson at the end of those of a forest, if there is one, and gives those after one that was heard, in their order; and
    /// whether that was all.
    fn lessons(&self, forest: u8, lesson: Option<Lesson>, after: Heard) -> Asked<Lessons>;

    /// Keys that it holds and bytes that they take, for all forests.
    fn size(&self) -> Asked<(usize, usize)>;

    /// Works a job off, whoever waits for it.
    fn spawn(&self, job: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// Ends so long after it was asked for.
    fn pause(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// When a document arrives that says so: keys expire by the engine's own clock.
    fn arrival(&self, said: Millis) -> Millis;

    /// Why it cannot be asked now, if that is known. Never waits.
    fn away(&self) -> Option<Away>;
}

/// The name of a value: 9 bytes, and one more for evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The number of the forest.
    pub forest: u8,
    /// Whose it is.
    pub fingerprint: Fingerprint,
    /// It is that of the evidence of a root, not that of a node.
    pub is_evidence: bool,
}

impl Key {
    /// `| forest 1 | fingerprint 8, big endian | E, of evidence 1 |`
    pub fn bytes(&self) -> ([u8; 10], usize) {
        let mut bytes = [0; 10];
        let [forest, fingerprint @ .., kind] = &mut bytes;
        *forest = self.forest;
        *fingerprint = self.fingerprint.0.to_be_bytes();
        *kind = b'E';
        (bytes, 9 + usize::from(self.is_evidence))
    }

    /// What [`bytes`](Key::bytes) gave.
    pub fn from_bytes(bytes: &[u8]) -> Option<Key> {
        let (&forest, rest) = bytes.split_first()?;
        let (fingerprint, kind) = rest.split_first_chunk()?;
        let is_evidence = match kind {
            [] => false,
            b"E" => true,
            _ => return None,
        };
        Some(Key {
            forest,
            fingerprint: Fingerprint(u64::from_be_bytes(*fingerprint)),
            is_evidence,
        })
    }
}

/// What somebody has taught all who share a forest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// What it says.
    pub bytes: Vec<u8>,
    /// Lessons that are kept, about: the oldest go.
    pub most: usize,
    /// How long they are kept after this one; without it for ever.
    pub life: Option<Millis>,
}

/// The place of a lesson: two numbers, as the engine counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Heard(pub u64, pub u64);

/// Some lessons in their order, and whether there are no more.
pub type Lessons = (Vec<(Heard, Vec<u8>)>, bool);

/// How far the keys of an engine were gone through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// How many of its nodes are done.
    pub node: usize,
    /// What the next one has said last.
    pub cursor: u64,
}

/// How long a value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
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
    pub what: What,
}

/// What is to be done with a key.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// [`Reply::Bytes`], or [`Reply::Nothing`].
    Get,
    /// Puts a value where none is. [`Reply::Nothing`] if it did, else the [`Reply::Bytes`] that are there.
    Claim {
        /// The value.
        value: Vec<u8>,
        /// How long it is kept.
        life: Life,
    },
    /// Puts a value, whatever is there. [`Reply::Nothing`].
    Put {
        /// The value.
        value: Vec<u8>,
        /// How long it is kept.
        life: Life,
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
        life: Life,
    },
    /// Makes a provisional root of a token a confirmed one. `Number(1)` if it did or if a confirmed root of that token is there, whatever
    /// has come to it since; else `Number(0)`.
    Confirm {
        /// Of the root.
        token: Token,
        /// The root, confirmed.
        value: Vec<u8>,
        /// How long it is kept.
        life: Life,
    },
    /// Removes a value. `Number(1)` if it was there, else `Number(0)`.
    Remove {
        /// What has to be there.
        value: Vec<u8>,
    },
    /// Has a root stand for more documents. The `Number` of pins so far, below 65,536; [`Reply::Nothing`] if no confirmed root of
    /// that token is there.
    Pin {
        /// Of the root.
        token: Token,
        /// Documents.
        uses: u16,
        /// Leaves that they bring.
        children: u16,
        /// The step of time that it is now.
        step: u16,
        /// Until when it is kept, if its own step is an earlier one.
        life: Life,
    },
    /// Has a root stand for fewer documents, and removes it where it stands for none. [`Reply::Nothing`] if no confirmed root of
    /// that token is there, `Number(-1)` if it went, else the number of pins.
    Release {
        /// Of the root.
        token: Token,
        /// Documents.
        uses: u16,
    },
    /// Counts accepted documents at a root. [`Reply::Nothing`].
    Count {
        /// Of the root.
        token: Token,
        /// What came.
        tally: Tally,
    },
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// See the command.
    Nothing,
    /// A value.
    Bytes(Vec<u8>),
    /// See the command.
    Number(i64),
}

/// Tells one attempt to found a tree from all others of the same fingerprint: 24 bits, by chance, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u32);

impl Token {
    /// Of any bits.
    pub(super) fn of(bits: u64) -> Token {
        Token(((bits >> 24) as u32 & 0x00FF_FFFF).max(1))
    }

    /// Big endian.
    pub fn bytes(self) -> [u8; 3] {
        let [_, high, middle, low] = self.0.to_be_bytes();
        [high, middle, low]
    }

    /// What [`bytes`](Token::bytes) gave.
    pub fn from_bytes([high, middle, low]: [u8; 3]) -> Token {
        Token(u32::from_be_bytes([0, high, middle, low]))
    }
}
