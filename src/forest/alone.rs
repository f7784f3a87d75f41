//! A shared forest that goes on when its engine is away: documents then get their places in a forest of this process alone, marked, until
//! they are placed again ([`Placed::is_alone`]). What was placed there stays there: its own documents find each other when the engine is
//! away the next time, and go with their window.

use std::sync::Arc;

use super::local::Recovery;
use super::port::{
    Answer, Batch, CheckReply, Document, Obeyed, Placed, Placements, Port, Rehearsal, Settled,
    Settlement, Unavailable,
};
use super::words::{RestampPass, Word, Words};
use super::{Late, Root, Stats, TreeView};
use crate::time::Millis;

/// Two forests of the same kind.
#[derive(Debug)]
pub struct OrAlone {
    shared: Arc<dyn Port>,
    alone: Arc<dyn Port>,
}

impl OrAlone {
    /// `shared`, and `alone` while its engine [cannot take anything](Unavailable::is_of_the_engine).
    pub fn new(shared: Arc<dyn Port>, alone: Arc<dyn Port>) -> OrAlone {
        OrAlone { shared, alone }
    }

    /// Asks the shared forest, and the other one if that is away.
    fn either<T: Send + 'static>(
        &self,
        ask: impl Fn(&dyn Port) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let (asked, alone) = (ask(&*self.shared), self.alone.clone());
        Box::pin(async move {
            match asked.await {
                Err(error) if error.is_of_the_engine() => ask(&*alone).await,
                answer => answer,
            }
        })
    }
}

/// Marks what was placed alone.
fn marked(mut placements: Placements) -> Placements {
    for placed in placements
        .replies
        .iter_mut()
        .filter_map(|r| r.placed.as_mut())
    {
        let placed: &mut Placed = placed;
        placed.is_alone = true;
    }
    placements
}

impl Port for OrAlone {
    fn place(&self, batch: Batch) -> Answer<Placements> {
        let (asked, alone) = (self.shared.place_or_return(batch), self.alone.clone());
        Box::pin(async move {
            match asked.await? {
                Ok(placements) => Ok(placements),
                Err((_, batch)) => alone.place(batch).await.map(marked),
            }
        })
    }

    fn rehearsal(&self) -> Box<dyn Rehearsal> {
        Box::new(Rehearsals {
            shared: self.shared.rehearsal(),
            alone: Arc::from(self.alone.rehearsal()),
        })
    }

    fn settle(&self, batch: Vec<Settlement>, now: Millis) -> Answer<Settled> {
        let (alone, shared): (Vec<_>, Vec<_>) = batch.into_iter().partition(|s| s.is_alone);
        let told = |port: &dyn Port, batch: Vec<Settlement>| match batch.is_empty() {
            true => Box::pin(std::future::ready(Ok(Settled::default()))),
            false => port.settle(batch, now),
        };
        both(told(&*self.alone, alone), told(&*self.shared, shared))
    }

    fn recover(
        &self,
        documents: Vec<Document>,
        recovery: Recovery,
        over: bool,
    ) -> Answer<Recovery> {
        self.shared.recover(documents, recovery, over)
    }

    fn forget_unknown(&self, now: Millis, budget: usize) -> Answer<Settled> {
        both(
            self.alone.forget_unknown(now, budget),
            self.shared.forget_unknown(now, budget),
        )
    }

    fn check(&self, document: Document) -> Answer<CheckReply> {
        self.either(move |port| port.check(document.clone()))
    }

    fn tree(&self, root: Root) -> Answer<Option<TreeView>> {
        self.either(move |port| port.tree(root))
    }

    fn say(&self, word: Word, shown: Vec<Root>) -> Answer<Option<u64>> {
        self.shared.say(word, shown)
    }

    fn take_back(&self, number: u64) -> Answer<Option<Word>> {
        self.shared.take_back(number)
    }

    fn restamped(&self, done: RestampPass) -> Answer<()> {
        self.shared.restamped(done)
    }

    fn words(&self) -> Answer<Arc<Words>> {
        self.shared.words()
    }

    fn hear(&self) -> Answer<u64> {
        self.shared.hear()
    }

    fn obeys(&self, heard: u64) -> Answer<Obeyed> {
        self.shared.obeys(heard)
    }

    fn late(&self) -> Answer<Late> {
        self.shared.late()
    }

    fn stats(&self) -> Answer<Stats> {
        self.shared.stats()
    }

    fn expire(&self, now: Millis, budget: usize) -> Answer<usize> {
        self.alone.expire(now, budget)
    }

    fn set_memory_limit(&self, bytes: usize) -> Answer<()> {
        self.alone.set_memory_limit(bytes)
    }

    fn close(&self) {
        self.shared.close();
        self.alone.close();
    }

    fn unavailable(&self) -> Option<Unavailable> {
        match self.shared.unavailable() {
            None | Some(Unavailable::Away { .. }) => self.alone.unavailable(),
            unavailable => unavailable,
        }
    }
}

/// What both have done.
fn both(alone: Answer<Settled>, shared: Answer<Settled>) -> Answer<Settled> {
    Box::pin(async move {
        let (alone, shared) = (alone.await?, shared.await?);
        Ok(Settled {
            withdrawn: alone.withdrawn + shared.withdrawn,
            learned: alone.learned + shared.learned,
            notices: [alone.notices, shared.notices].concat(),
            merged: alone.merged + shared.merged,
        })
    })
}

/// One request's view of both.
struct Rehearsals {
    shared: Box<dyn Rehearsal>,
    alone: Arc<dyn Rehearsal>,
}

impl Rehearsal for Rehearsals {
    fn place(&self, documents: Vec<Document>) -> Answer<Placements> {
        let (asked, alone) = (self.shared.place_or_return(documents), self.alone.clone());
        Box::pin(async move {
            match asked.await? {
                Ok(placements) => Ok(placements),
                Err((_, documents)) => alone.place(documents).await.map(marked),
            }
        })
    }
}
