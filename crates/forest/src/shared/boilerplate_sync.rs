//! Boilerplate sync: processes share their lessons through one log in Redis. Each reads it in order and counts
//! sentences in a table of its own, so all tables converge to the same counts. The log has 16 MB, and lessons of at
//! most a window. A lesson (8 bytes a sentence) is published when a copy of the founder's text is accepted, and is lost
//! if its process ends before that.
//!
//! A log that is lost is lost with its trees, or removed for another forest, and the same documents teach again. Every
//! read therefore begins with the entry that was read last: where that one is gone before its time, this process
//! forgets what it has learned and reads the log from its first entry, as one that begins now.
//!
//! ```text
//! | a lesson |
//! or what an imported forest had learned:
//! | all ones 8 | portion of its table |
//! ```

use std::sync::atomic::Ordering::Relaxed;

use spinney_text::method::{Durable, Lesson, MethodKind};
use tracing::warn;

use super::keys::{Extent, RedisFuture, RedisUnavailable, SyncEntries, SyncEntry, SyncPosition};
use super::{LESSON_BYTES, SharedInner};
use crate::Root;
use crate::port::Unavailable;

/// Marks an entry with a portion of a table; in place of the number of founders.
const TABLE: u64 = u64::MAX;
/// Documents of one request that teach, as in a local forest.
const TEACHERS: usize = 1_000;

/// A pending read of the log.
pub(super) struct PendingSync {
    from: SyncPosition,
    reply: RedisFuture<SyncEntries>,
}

/// The result of a read of the log.
#[derive(Default)]
struct SyncReport {
    /// Whether the log had unread entries.
    has_new: bool,
    /// Sentences that became boilerplate.
    became_boilerplate: u64,
}

impl<F: MethodKind> SharedInner<F> {
    /// Appends the lessons of a request's founders to the log, and reads those of other processes. Returns how many
    /// sentences became boilerplate. One request counts each sentence once, and a bounded number of documents.
    pub(super) async fn publish_lessons(&self, lessons: Vec<Lesson>) -> Result<u64, Unavailable> {
        let Some(lesson) = Lesson::of_request(lessons, TEACHERS).filter(|_| F::LEARNS) else {
            return Ok(0);
        };
        let mut bytes = Vec::new();
        lesson.write(&mut bytes);
        self.hear_after(Some(bytes)).await
    }

    /// The lessons of these trees that this process has not published yet.
    pub(super) fn take_lessons(&self, roots: &[Root]) -> Vec<Lesson> {
        let mut pending = self.pending.lock();
        roots.iter().filter_map(|&root| pending.taught(root)).collect()
    }

    /// Publishes all that a local forest has learned. The log keeps it as long as other entries of this time.
    pub(super) async fn teach_all(&self, portions: Vec<Vec<u8>>) -> Result<(), Unavailable> {
        for portion in portions {
            let mut lesson = Vec::with_capacity(8 + portion.len());
            TABLE.write(&mut lesson);
            lesson.extend(portion);
            self.hear_after(Some(lesson)).await?;
        }
        Ok(())
    }

    /// Removes all entries. No other process may be publishing.
    pub(super) async fn forget_lessons(&self) -> Result<(), Unavailable> {
        let forest = self.number().await?;
        let forgotten = self.keys.remove_sync_entries(forest).await;
        forgotten.map_err(|away| self.away(away))
    }

    /// Reads the entries of other processes. Returns how many sentences became boilerplate.
    pub(super) async fn refresh_boilerplate(&self) -> Result<u64, Unavailable> {
        match F::LEARNS {
            true => self.hear_after(None).await,
            false => Ok(0),
        }
    }

    /// Starts to read the entries of other processes concurrently. `None`: nothing to read.
    pub(super) async fn start_sync(&self) -> Result<Option<PendingSync>, Unavailable> {
        if !F::LEARNS {
            return Ok(None);
        }
        let forest = self.number().await?;
        let from = *self.synced.lock();
        self.counters.commands.fetch_add(1, Relaxed);
        Ok(Some(PendingSync { from, reply: self.keys.sync_entries(forest, None, from) }))
    }

    /// Applies the entries that were read. Returns whether there were any.
    pub(super) async fn has_synced(&self, pending: PendingSync) -> Result<bool, Unavailable> {
        let Some((lessons, is_all)) = self.entries(pending.reply.await)? else {
            return Ok(false);
        };
        let report = self.learn_from(pending.from, &lessons);
        if report.is_none() || !is_all {
            self.refresh_boilerplate().await?;
        }
        Ok(report.is_none_or(|report| report.has_new))
    }

    async fn hear_after(&self, mut lesson: Option<Vec<u8>>) -> Result<u64, Unavailable> {
        let forest = self.number().await?;
        let mut became = 0;
        loop {
            let from = *self.synced.lock();
            self.counters.commands.fetch_add(1, Relaxed);
            self.counters.rounds.fetch_add(1, Relaxed);
            let publish_lessons = lesson.take().map(|bytes| SyncEntry {
                // As many as fit, if the others are like this one.
                most: (LESSON_BYTES / (bytes.len() + 1)).max(1),
                life: self.calendar.lessons(),
                bytes,
            });
            let reply = self.keys.sync_entries(forest, publish_lessons, from).await;
            let Some((lessons, is_all)) = self.entries(reply)? else {
                return Ok(became);
            };
            let Some(report) = self.learn_from(from, &lessons) else {
                continue;
            };
            became += report.became_boilerplate;
            if is_all {
                return Ok(became);
            }
        }
    }

    /// The entries that were read. `None`: the log cannot be used, and documents are placed all the same.
    fn entries(&self, reply: Result<SyncEntries, RedisUnavailable>) -> Result<Option<SyncEntries>, Unavailable> {
        match reply {
            Err(RedisUnavailable { reason, extent: Extent::Key }) => {
                if !self.counters.log_named.swap(true, Relaxed) {
                    warn!(
                        forest = self.name,
                        reason, "the log of boilerplate in the forest store cannot be used: nothing is learned"
                    );
                }
                Ok(None)
            }
            reply => reply.map(Some).map_err(|away| self.away(away)),
        }
    }

    /// Whether the log may have expired since its last entry. Its trees may live on then, and what was learned with
    /// them. Redis's clock may be another one, by a part of that time.
    fn may_be_over(&self, last: SyncPosition) -> bool {
        let last = i64::try_from(last.0).unwrap_or(i64::MAX);
        let life = self.calendar.lessons();
        life.is_some_and(|life| self.keys.now().0 > last.saturating_add(life.0 - life.0 / 64))
    }

    /// Learns from entries that were read from a position on. `None`: the log is not the one that this process has
    /// read so far, or was not when they were read, and it is to be read again from where `synced` is now.
    fn learn_from(&self, from: SyncPosition, entries: &[(SyncPosition, Vec<u8>)]) -> Option<SyncReport> {
        let mut synced = self.synced.lock();
        let mut learned = self.learned.lock();
        let continues = from == SyncPosition::default() || entries.first().is_some_and(|(at, _)| *at == from);
        // Of several readers who find the log lost, the first forgets.
        if !continues && *synced == from {
            if !self.may_be_over(from) {
                *learned = F::Learned::default();
            }
            *synced = SyncPosition::default();
        }
        // This read began before another reader forgot.
        if !continues || *synced < from {
            return None;
        }
        let mut report = SyncReport::default();
        for (at, bytes) in entries {
            // Another reader may have read the same entries.
            if *at <= *synced {
                continue;
            }
            *synced = *at;
            report.has_new = true;
            if let Some(portion) = bytes.strip_prefix(&TABLE.to_le_bytes()) {
                F::add_portion(&mut learned, portion);
            } else if let Some(lesson) = Lesson::read(&mut bytes.as_slice()) {
                report.became_boilerplate += F::learn(&mut learned, &lesson).len() as u64;
            }
        }
        Some(report)
    }
}
