//! People who correct groups while documents are placed, and what follows: each process acknowledges what it follows,
//! and stored documents get the roots that are answered by then. The loops of `backfill/override_progress.rs` and
//! `backfill/restamp.rs`, over a list of stored documents.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use spinney_text::method::Durable;

use super::super::super::*;
use super::desk::Job;
use super::scripted::Scripted;
use super::writes::Writes;
use crate::overrides::{ResolvedDocument, Restamp};
use crate::shared::memory::InMemoryRedis;

/// What one person does to the groups.
#[derive(Debug, Clone, Copy)]
pub(super) enum Correction {
    Merge {
        winner: u64,
        loser: u64,
    },
    /// The text of this hash, which `shown` was answered for, belongs to that root: a split, if nobody else does.
    Pin {
        whole: u64,
        root: u64,
        shown: u64,
    },
    /// Undoes the one before.
    Undo,
}

impl Correction {
    fn as_override(self) -> Option<(Override, Vec<Root>)> {
        let root = |of| Root(Fingerprint(of));
        Some(match self {
            Correction::Merge { winner, loser } => {
                (Override::Merge { winner: root(winner), losers: vec![root(loser)] }, Vec::new())
            }
            Correction::Pin { whole, root: to, shown } => {
                (Override::Pin { texts: vec![Fingerprint(whole)], root: root(to) }, vec![root(shown)])
            }
            Correction::Undo => return None,
        })
    }
}

/// A stored document.
#[derive(Debug, Clone, Copy, Hash)]
struct StoredDocument {
    text: Fingerprint,
    tree: Root,
    shown: Root,
}

/// What the cluster has, what people were told, and every table of overrides that there was.
#[derive(Debug, Default)]
pub(super) struct Index {
    stored: BTreeMap<usize, StoredDocument>,
    tables: BTreeMap<u64, Overrides>,
    /// Changes of which a person knows that they were made: the override of that number, if it was not undone.
    known: BTreeMap<u64, Option<Override>>,
    /// The version of the last of them.
    said: u64,
    wrong: Option<String>,
}

impl Index {
    /// Notes the table that Redis has now.
    pub(super) fn record(&mut self, store: &InMemoryRedis) {
        let Some((_, bytes)) = store.of_kind(KeyKind::Overrides).pop() else {
            return;
        };
        let bytes = &mut &bytes[..];
        let version = u64::read(bytes).unwrap();
        if self.tables.contains_key(&version) {
            return;
        }
        u64::read(bytes).unwrap();
        for _ in 0..2 * u32::read(bytes).unwrap() {
            u64::read(bytes).unwrap();
        }
        self.tables.insert(version, Overrides::read(bytes).unwrap());
    }

    pub(super) fn said(&self) -> u64 {
        self.said
    }

    /// A person is told that an override was added, or undone.
    fn says(&mut self, (number, of): (u64, Option<Override>), version: u64) {
        self.said = self.said.max(version);
        self.known.insert(number, of);
    }

    /// Checks the answer for a document that came when people knew of this version.
    pub(super) fn answered(&mut self, doc: usize, text: Fingerprint, tree: Root, answer: Root, since: u64) {
        self.tables.entry(0).or_default();
        let mut tables = self.tables.range(since..).map(|(_, table)| table);
        if !tables.any(|table| table.shown_root(text, tree) == answer) {
            let why = format!("document {doc} in {:x} was told {:x} after version {since}", tree.0.0, answer.0.0);
            self.wrong.get_or_insert(why);
        }
    }

    pub(super) fn store(&mut self, doc: usize, text: Fingerprint, tree: Root, shown: Root) {
        self.stored.insert(doc, StoredDocument { text, tree, shown });
    }

    /// Goes through the stored documents once.
    fn pass(&mut self, overrides: &Overrides, of: &[(u64, Arc<Restamp>)]) -> RestampPass {
        let pass = overrides.pass_for(of.to_vec());
        let sought = pass.sought(overrides);
        for document in self.stored.values_mut().filter(|document| sought.contains(&document.shown)) {
            let StoredDocument { text, tree, shown } = *document;
            let resolved = ResolvedDocument { text, answer: Some(overrides.shown_root(text, tree)) };
            let resolved = pass.needs_texts().then_some(resolved);
            document.shown = pass.shows(overrides, shown, resolved);
        }
        pass
    }

    /// What must be true in every state.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        let Some((_, now)) = self.tables.last_key_value() else {
            return Ok(());
        };
        if let Some((number, _)) = self.known.iter().find(|&(&number, of)| now.get(number) != of.as_ref()) {
            return Err(format!("override {number} is not as a person was told"));
        }
        if now.unfinished().len() > 0 {
            return Ok(());
        }
        for (doc, StoredDocument { text, tree, shown }) in &self.stored {
            let answer = now.shown_root(*text, *tree);
            if *shown != answer {
                let (shown, answer) = (shown.0.0, answer.0.0);
                return Err(format!("document {doc} is stored with root {shown:x}, and {answer:x} is answered for it"));
            }
        }
        Ok(())
    }

    pub(super) fn check_end(&self) -> Result<(), String> {
        match self.tables.last_key_value() {
            Some((_, now)) if now.unfinished().len() > 0 => Err("stored documents wait for ever".to_owned()),
            _ => Ok(()),
        }
    }
}

/// What it does next hangs on these.
impl std::hash::Hash for Index {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.stored, self.said, self.known.len(), self.tables.keys().next_back()).hash(state);
    }
}

/// One process as people see it.
pub(super) struct Corrected {
    pub(super) forest: Arc<SharedForest<Scripted>>,
    pub(super) index: Arc<Mutex<Index>>,
    pub(super) writes: Writes,
    /// Documents on their way that are to be waited for, and the version that they may not follow.
    before: Mutex<Option<(u64, Job)>>,
    followed: AtomicU64,
    by_all: AtomicU64,
    pub(super) is_telling: AtomicBool,
}

impl Corrected {
    pub(super) fn new(forest: Arc<SharedForest<Scripted>>, index: Arc<Mutex<Index>>) -> Corrected {
        Corrected {
            forest,
            index,
            writes: Writes::default(),
            before: Mutex::default(),
            followed: AtomicU64::new(0),
            by_all: AtomicU64::new(0),
            is_telling: AtomicBool::new(false),
        }
    }

    /// Reads the overrides, and acknowledges those that all documents on their way follow.
    pub(super) async fn tell(self: Arc<Self>) {
        self.is_telling.store(true, Relaxed);
        // Of a process that has crashed nobody asks.
        if let Ok(change) = self.forest.refresh_overrides().await {
            self.acknowledge(change).await;
        }
        self.is_telling.store(false, Relaxed);
    }

    async fn acknowledge(&self, change: u64) {
        let followed = {
            let mut before = self.before.lock();
            if before.is_none() && change > self.followed.load(Relaxed) {
                *before = Some((change, Box::pin(self.writes.begun())));
            }
            if let Some((change, ended)) = before.as_mut()
                && ended.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
            {
                self.followed.store(*change, Relaxed);
                *before = None;
            }
            self.followed.load(Relaxed)
        };
        if let Ok(acknowledged) = self.forest.acknowledge_overrides(followed).await {
            self.by_all.store(acknowledged.by_all, Relaxed);
        }
    }

    /// Does what a person asks for, one after the other; stored documents follow each before the next.
    pub(super) async fn correct(self: Arc<Self>, corrections: &'static [Correction]) {
        let mut last = None;
        for correction in corrections {
            let number = match correction.as_override() {
                Some((correction, shown)) => {
                    let Ok(number) = self.forest.add_override(correction.clone(), shown).await else {
                        return;
                    };
                    last = number;
                    (number.unwrap(), Some(correction))
                }
                None => {
                    let number = last.take().unwrap();
                    if self.forest.undo_override(number).await.is_err() {
                        return;
                    }
                    (number, None)
                }
            };
            self.index.lock().says(number, self.forest.inner.known_overrides.known().version());
            if self.restamp().await.is_err() {
                return;
            }
        }
    }

    /// Has the stored documents follow all that is not followed yet.
    async fn restamp(&self) -> Result<(), Unavailable> {
        loop {
            let overrides = self.forest.overrides().await?;
            let unfinished: Vec<_> = overrides.unfinished().map(|(number, of)| (number, of.clone())).collect();
            if unfinished.is_empty() {
                return Ok(());
            }
            let change = self.forest.refresh_overrides().await?;
            let here = self.writes.begun();
            self.pass(&unfinished).await?;
            here.await;
            let is_followed = || self.by_all.load(Relaxed) >= change;
            poll_fn(|_| if is_followed() { Poll::Ready(()) } else { Poll::Pending }).await;
            let pass = self.pass(&unfinished).await?;
            self.forest.restamped(pass).await?;
        }
    }

    async fn pass(&self, of: &[(u64, Arc<Restamp>)]) -> Result<RestampPass, Unavailable> {
        let overrides = self.forest.overrides().await?;
        Ok(self.index.lock().pass(&overrides, of))
    }
}
