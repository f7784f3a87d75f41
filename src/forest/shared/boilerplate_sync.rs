//! Boilerplate sync: processes share their lessons through one log in Redis. Each reads it in order and counts
//! sentences in a table of its own, so all tables converge to the same counts.
//!
//! ```text
//! | a lesson |
//! or what an imported forest had learned:
//! | all ones 8 | portion of its table |
//! ```

use std::sync::atomic::Ordering::Relaxed;

use tracing::warn;

use super::keys::{Extent, StoreFuture, StoreUnavailable, SyncEntries, SyncEntry, SyncPosition};
use super::{LESSON_BYTES, SharedInner};
use crate::forest::Root;
use crate::forest::port::Unavailable;
use crate::method::{Durable, Lesson, MethodKind};

/// Marks an entry with a portion of a table; in place of the number of founders.
const TABLE: u64 = u64::MAX;
/// Documents of one request that teach, as in a local forest.
const TEACHERS: usize = 1_000;

impl<F: MethodKind> SharedInner<F> {
    /// Publishes the lessons of a request's founders and reads those of others. Returns how many sentences became
    /// boilerplate. One request counts each sentence once, and a bounded number of documents.
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
        forgotten.map_err(|away| self.away(away))?;
        *self.synced.lock() = SyncPosition::default();
        Ok(())
    }

    /// Reads the entries of others. Returns how many sentences became boilerplate.
    pub(super) async fn refresh_boilerplate(&self) -> Result<u64, Unavailable> {
        match F::LEARNS {
            true => self.hear_after(None).await,
            false => Ok(0),
        }
    }

    /// Starts to read the entries of others, while other work continues. `None`: nothing to read.
    pub(super) async fn start_sync(&self) -> Result<Option<StoreFuture<SyncEntries>>, Unavailable> {
        if !F::LEARNS {
            return Ok(None);
        }
        let forest = self.number().await?;
        let after = *self.synced.lock();
        self.counters.commands.fetch_add(1, Relaxed);
        Ok(Some(self.keys.sync_entries(forest, None, after)))
    }

    /// Applies the entries that were read. Returns whether there were any.
    pub(super) async fn has_synced(&self, reply: StoreFuture<SyncEntries>) -> Result<bool, Unavailable> {
        let (lessons, is_all) = self.entries(reply.await)?;
        self.count_lessons(&lessons);
        if !is_all {
            self.refresh_boilerplate().await?;
        }
        Ok(!lessons.is_empty())
    }

    async fn hear_after(&self, mut lesson: Option<Vec<u8>>) -> Result<u64, Unavailable> {
        let forest = self.number().await?;
        let mut became = 0;
        loop {
            let after = *self.synced.lock();
            self.counters.commands.fetch_add(1, Relaxed);
            self.counters.rounds.fetch_add(1, Relaxed);
            let publish_lessons = lesson.take().map(|bytes| SyncEntry {
                // As many as fit, if the others are like this one.
                most: (LESSON_BYTES / (bytes.len() + 1)).max(1),
                life: self.calendar.lessons(),
                bytes,
            });
            let (lessons, is_all) = self.entries(self.keys.sync_entries(forest, publish_lessons, after).await)?;
            became += self.count_lessons(&lessons);
            if is_all {
                return Ok(became);
            }
        }
    }

    /// The entries that were read. Without a log there are none, and documents are placed all the same.
    fn entries(&self, reply: Result<SyncEntries, StoreUnavailable>) -> Result<SyncEntries, Unavailable> {
        match reply {
            Err(StoreUnavailable { reason, extent: Extent::Key }) => {
                if !self.counters.log_named.swap(true, Relaxed) {
                    warn!(
                        forest = self.name,
                        reason, "the log of boilerplate in the forest store cannot be used: nothing is learned"
                    );
                }
                Ok((Vec::new(), true))
            }
            reply => reply.map_err(|away| self.away(away)),
        }
    }

    fn count_lessons(&self, lessons: &[(SyncPosition, Vec<u8>)]) -> u64 {
        let mut became = 0;
        // Two readers may have read the same entries.
        let mut reply = self.synced.lock();
        let mut learned = self.learned.lock();
        for (at, bytes) in lessons {
            if *at <= *reply {
                continue;
            }
            *reply = *at;
            if let Some(portion) = bytes.strip_prefix(&TABLE.to_le_bytes()) {
                F::add_portion(&mut learned, portion);
            } else if let Some(lesson) = Lesson::read(&mut bytes.as_slice()) {
                became += F::learn(&mut learned, &lesson).len() as u64;
            }
        }
        became
    }
}
