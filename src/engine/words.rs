//! What people say about the groups of an index, handed to its forest, and what a stored document is to show since.

use std::sync::Arc;

use bytes::Bytes;

use super::forests::ForestEntry;
use super::{Engine, RequestContext, Unavailable, own_root};
use crate::forest::port::{Document, Obeyed};
use crate::forest::words::{Looked, RestampPass, Word, Words};
use crate::forest::{Late, Root};

/// Why nothing can be said about the groups of an index.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// No route stamps the index.
    #[error("no route stamps the index {0}: ask for one that --index or a [[route]] names")]
    NoRoute(String),
    /// Its groups stand in two forests.
    #[error(
        "the method of {0} keeps short texts in a forest of their own, and a word holds in one forest: nothing can be said about its groups"
    )]
    TwoForests(String),
    /// The forest cannot be asked.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Engine {
    fn forest_of_words(&self, index: &str) -> Result<&ForestEntry, WordError> {
        let no_route = || WordError::NoRoute(index.to_owned());
        let bound = self.route(index).and_then(|at| self.routes.get(at));
        let bound = bound.ok_or_else(no_route)?;
        if bound.short.is_some() {
            return Err(WordError::TwoForests(index.to_owned()));
        }
        self.forests.get(bound.forest).ok_or_else(no_route)
    }

    /// The name of the forest of an index, and what was said about its groups.
    ///
    /// # Errors
    /// When nothing can be said about them, or the forest cannot be asked.
    pub async fn words(&self, index: &str) -> Result<(String, Arc<Words>), WordError> {
        let entry = self.forest_of_words(index)?;
        Ok((entry.name.clone(), entry.port.words().await?))
    }

    /// Says something about the groups of an index. `shown`: the roots that documents of a pin show. Answers the number of the word
    /// when it is safe; `None`: there are as many, or as many bytes of them, as a forest remembers.
    ///
    /// # Errors
    /// As [`words`](Engine::words).
    pub async fn say(
        &self,
        index: &str,
        word: Word,
        shown: Vec<Root>,
    ) -> Result<Option<u64>, WordError> {
        let entry = self.forest_of_words(index)?;
        Ok(entry.port.say(word, shown).await?)
    }

    /// Takes a word back. Answers what it was, if there was one of this number.
    ///
    /// # Errors
    /// As [`words`](Engine::words).
    pub async fn take_back(&self, index: &str, number: u64) -> Result<Option<Word>, WordError> {
        let entry = self.forest_of_words(index)?;
        Ok(entry.port.take_back(number).await?)
    }

    /// What a stored document of this index is to show; none if it has no text that could be compared. Nothing is changed.
    ///
    /// # Errors
    /// As [`words`](Engine::words).
    pub async fn look(
        self: &Arc<Self>,
        index: &str,
        source: Bytes,
        context: RequestContext,
    ) -> Result<Option<Looked>, WordError> {
        let entry = self.forest_of_words(index)?;
        let route = self.route(index).unwrap_or_default();
        let own_root = own_root(index, None, context.unique, 0);
        let engine = self.clone();
        let read = move || engine.read_document(&source, route, own_root, context).ok();
        let Some(prepared) = self.run(read).await? else {
            return Ok(None);
        };
        let document = Document {
            features: prepared.features,
            when: prepared.when,
            title: prepared.title,
            given: None,
        };
        let reply = entry.port.check(document).await?;
        Ok(reply.check.map(|check| check.looked))
    }

    fn forest_called(&self, name: &str) -> Option<&ForestEntry> {
        self.forests.iter().find(|entry| entry.name == name)
    }

    /// The forests about whose groups something can be said.
    fn forests_of_words(&self) -> impl Iterator<Item = &ForestEntry> {
        let long = self.routes.iter().filter(|bound| bound.short.is_none());
        let mut places: Vec<usize> = long.map(|bound| bound.forest).collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().filter_map(|at| self.forests.get(at))
    }

    /// What was said in each forest about whose groups something can be said, by the forest's name.
    ///
    /// # Errors
    /// When a forest cannot be asked any more.
    pub async fn all_words(&self) -> Result<Vec<(String, Arc<Words>)>, Unavailable> {
        let mut all: Vec<(String, Arc<Words>)> = Vec::new();
        for entry in self.forests_of_words() {
            all.push((entry.name.clone(), entry.port.words().await?));
        }
        Ok(all)
    }

    /// The names of the forests about whose groups something can be said.
    pub fn forests_with_words(&self) -> Vec<String> {
        let all = self.forests_of_words();
        all.map(|entry| entry.name.clone()).collect()
    }

    /// The forests about whose groups something can be said through other processes as well.
    pub fn forests_shared(&self) -> Vec<String> {
        let shared = self.forests_of_words().filter(|entry| entry.is_shared());
        shared.map(|entry| entry.name.clone()).collect()
    }

    /// Hears what was said in a forest through other processes: [`Port::hear`](crate::forest::port::Port::hear).
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn hear(&self, forest: &str) -> Result<u64, Unavailable> {
        match self.forest_called(forest) {
            Some(entry) => entry.port.hear().await,
            None => Ok(0),
        }
    }

    /// All that this process has on its way obeys: [`Port::obeys`](crate::forest::port::Port::obeys).
    ///
    /// # Errors
    /// When the forest cannot be asked.
    pub async fn obeys(&self, forest: &str, heard: u64) -> Result<Obeyed, Unavailable> {
        match self.forest_called(forest) {
            Some(entry) => entry.port.obeys(heard).await,
            None => Ok(Obeyed::ALONE),
        }
    }

    /// Groups of the forest of an index that may be one, and the name of the forest.
    ///
    /// # Errors
    /// As [`words`](Engine::words).
    pub async fn may_be_one(&self, index: &str) -> Result<(String, Late), WordError> {
        let entry = self.forest_of_words(index)?;
        Ok((entry.name.clone(), entry.port.late().await?))
    }

    /// Waits until a forest has made groups one since this was asked last. For one who asks.
    pub async fn merged(&self) {
        self.merged.notified().await;
    }

    /// What was said in the forest of this name.
    ///
    /// # Errors
    /// When it cannot be asked any more.
    pub async fn words_of(&self, forest: &str) -> Result<Arc<Words>, Unavailable> {
        match self.forest_called(forest) {
            Some(entry) => entry.port.words().await,
            None => Ok(Arc::default()),
        }
    }

    /// Stored documents obey the words that this pass was for, as far as it is still what is to be done for them.
    ///
    /// # Errors
    /// When the forest cannot be asked any more.
    pub async fn restamped(&self, forest: &str, done: RestampPass) -> Result<(), Unavailable> {
        match self.forest_called(forest) {
            Some(entry) => entry.port.restamped(done).await,
            None => Ok(()),
        }
    }
}
