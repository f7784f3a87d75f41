//! The encoding of changes in a journal. Numbers are little-endian. A new kind of change may be added; an existing
//! one does not change, since every later version reads the journals of all earlier ones.
//!
//! ```text
//! 1 Begin    | tick 4 | clock 8 |
//! 2 AddRoot  | fingerprint 8 | added 8 | proof |
//! 3 AddLeaf  | fingerprint 8 | root 8 |
//! 4 Use      | fingerprint 8 |
//! 5 Refresh  | root 8 |
//! 6 Count    | root 8 | statistics 17 |
//! 7 Withdraw | fingerprint 8 |
//! 8 Evict    | tick 4 |
//! 9 Learn    | founders 8 | sentences 4 | their hashes, of 8 | no longer written: 14 has words as well
//! 10 FounderTokens | root 8 | tokens 4 | of each 2 |
//! 11 Override | number 8 | override, as in overrides.rs |
//! 12 Restamp | number 8 | entry, as in overrides/restamp.rs |
//! 13 Forget  | overrides 4 | their numbers, of 8 |
//! 14 Lesson  | founders 8 | sentences 4 | their hashes, of 8 | words 4 | each 2 |
//! 15 Pending | root 8 | as 14 |
//! 16 Taught  | roots 4 | each 8 |
//! 17 First   | root 8 | first 4 |
//! ```

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{Durable, Lesson};

use super::local::StateChange;
use super::overrides::{Override, OverrideChange, Restamp};
use super::ticks::{Tick, TickStart};
use super::{Change, DocumentHash, Root};
use crate::time::Millis;

/// The name of a kind of change, for messages about an unreadable record.
pub(super) fn name_of(kind: u8) -> String {
    let name = match kind {
        1 => "begin",
        2 => "root",
        3 => "leaf",
        4 => "use",
        5 => "refresh",
        6 => "count",
        7 => "withdrawal",
        8 => "eviction",
        9 | 14 => "lesson",
        10 => "founder tokens",
        11 => "override",
        12 => "restamp",
        13 => "forgotten overrides",
        15 => "pending lesson",
        16 => "trees that taught",
        17 => "first document",
        _ => "unknown to this version",
    };
    format!("{kind} ({name})")
}

/// The encoding of a change does not decode to the same change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a change of kind {kind} would not be read again as it is written")]
pub struct NotReadable {
    /// The kind, as the list above has it.
    pub kind: u8,
}

impl<P: Durable> StateChange<P> {
    /// Encodes the changes as a batch of a journal and decodes them once before the batch is acknowledged, so that an
    /// unreadable batch is found now and not at the next start.
    ///
    /// # Errors
    /// `NotReadable`, which is a bug.
    pub fn batch(changes: &[StateChange<P>]) -> Result<Vec<u8>, NotReadable> {
        let mut batch = Vec::with_capacity(64 * changes.len());
        let mut again = Vec::new();
        for change in changes {
            let begin = batch.len();
            change.write(&mut batch);
            let written = batch.get(begin..).unwrap_or_default();
            let kind = written.first().copied().unwrap_or_default();
            let mut rest = written;
            again.clear();
            if let Some(read) = StateChange::<P>::read(&mut rest) {
                read.write(&mut again);
            }
            if !rest.is_empty() || again != written {
                return Err(NotReadable { kind });
            }
        }
        Ok(batch)
    }

    /// Appends the encoded change.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            StateChange::Tree(change) => write_tree(change, out),
            StateChange::Learn(lesson) => {
                out.push(14);
                lesson.write(out);
            }
            StateChange::Pending { root, lesson } => {
                out.push(15);
                root.0.write(out);
                lesson.write(out);
            }
            StateChange::Taught(roots) => {
                out.push(16);
                (roots.len() as u32).write(out);
                roots.iter().for_each(|root| root.0.write(out));
            }
            StateChange::Overrides(OverrideChange::Add { number, correction }) => {
                out.push(11);
                number.write(out);
                Override::write_some(correction.as_ref(), out);
            }
            StateChange::Overrides(OverrideChange::Remove { numbers }) => {
                out.push(13);
                (numbers.len() as u32).write(out);
                numbers.iter().for_each(|number| number.write(out));
            }
            StateChange::Overrides(OverrideChange::Restamp { number, restamp }) => {
                out.push(12);
                number.write(out);
                Restamp::write_some(restamp.as_ref(), out);
            }
        }
    }

    /// Decodes one change from the front; `None` if the bytes hold none.
    pub fn read(bytes: &mut &[u8]) -> Option<StateChange<P>> {
        let fingerprint = Fingerprint::read;
        let change = match u8::read(bytes)? {
            1 => Change::Begin(TickStart { tick: Tick(u32::read(bytes)?), at: Millis(i64::read(bytes)?) }),
            2 => Change::AddRoot {
                fingerprint: fingerprint(bytes)?,
                added: Millis(i64::read(bytes)?),
                proof: P::read(bytes)?,
            },
            3 => Change::AddLeaf { fingerprint: fingerprint(bytes)?, root: Root(fingerprint(bytes)?) },
            4 => Change::Use { fingerprint: fingerprint(bytes)? },
            5 => Change::Refresh { root: Root(fingerprint(bytes)?) },
            6 => Change::Count { root: Root(fingerprint(bytes)?), tally: Durable::read(bytes)? },
            7 => Change::Withdraw { fingerprint: fingerprint(bytes)? },
            8 => Change::Evict { floor: Tick(u32::read(bytes)?) },
            9 => return Some(StateChange::Learn(Lesson::read_without_words(bytes)?)),
            14 => return Some(StateChange::Learn(Durable::read(bytes)?)),
            15 => {
                let root = Root(fingerprint(bytes)?);
                return Some(StateChange::Pending { root, lesson: Durable::read(bytes)? });
            }
            16 => {
                let roots = (0..u32::read(bytes)?).map(|_| fingerprint(bytes).map(Root));
                return Some(StateChange::Taught(roots.collect::<Option<_>>()?));
            }
            17 => Change::First { root: Root(fingerprint(bytes)?), first: DocumentHash(u32::read(bytes)?) },
            10 => Change::FounderTokens { root: Root(fingerprint(bytes)?), tokens: Durable::read(bytes)? },
            11 => {
                return Some(StateChange::Overrides(OverrideChange::Add {
                    number: u64::read(bytes)?,
                    correction: Override::read_some(bytes)?,
                }));
            }
            13 => {
                let count = u32::read(bytes)?;
                let numbers = (0..count).map(|_| u64::read(bytes));
                return Some(StateChange::Overrides(OverrideChange::Remove {
                    numbers: numbers.collect::<Option<_>>()?,
                }));
            }
            12 => {
                return Some(StateChange::Overrides(OverrideChange::Restamp {
                    number: u64::read(bytes)?,
                    restamp: Restamp::read_some(bytes)?,
                }));
            }
            _ => return None,
        };
        Some(StateChange::Tree(change))
    }
}

fn write_tree<P: Durable>(change: &Change<P>, out: &mut Vec<u8>) {
    match change {
        Change::Begin(TickStart { tick, at }) => {
            out.push(1);
            tick.0.write(out);
            at.0.write(out);
        }
        Change::AddRoot { fingerprint, added, proof } => {
            out.push(2);
            fingerprint.write(out);
            added.0.write(out);
            proof.write(out);
        }
        Change::FounderTokens { root, tokens } => {
            out.push(10);
            root.0.write(out);
            tokens.write(out);
        }
        Change::First { root, first } => {
            out.push(17);
            root.0.write(out);
            first.0.write(out);
        }
        Change::AddLeaf { fingerprint, root } => {
            out.push(3);
            fingerprint.write(out);
            root.0.write(out);
        }
        Change::Use { fingerprint } => {
            out.push(4);
            fingerprint.write(out);
        }
        Change::Refresh { root } => {
            out.push(5);
            root.0.write(out);
        }
        Change::Count { root, tally } => {
            out.push(6);
            root.0.write(out);
            tally.write(out);
        }
        Change::Withdraw { fingerprint } => {
            out.push(7);
            fingerprint.write(out);
        }
        Change::Evict { floor } => {
            out.push(8);
            floor.0.write(out);
        }
    }
}
