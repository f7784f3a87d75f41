//! The clusters that a method makes of the documents: they are stamped as `spinney stamp` would stamp them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_executor::block_on;
use serde::Deserialize;

use super::documents::{Document, Documents};
use spinney::config::{DEFAULT_PREFIX, Route};
use spinney::engine::{Engine, EngineError, Explanation, RequestContext, Unavailable};
use spinney::fingerprint::Fingerprint;
use spinney::forest::Root;
use spinney::hash::{HashKey, SplitMix64};
use spinney::time::Millis;

/// Bytes of documents that are stamped at once.
const PIECE: usize = 1 << 20;

/// The clusters that a method makes of the documents.
#[derive(Debug, Default)]
pub struct Clustering {
    /// The root of each document.
    pub(super) roots: Vec<u64>,
    /// Nodes of the forest at the end.
    pub(super) nodes: u64,
    /// How the documents were placed; those without usable text are not among them.
    pub(super) explanations: HashMap<Document, Explanation>,
}

impl Clustering {
    /// Whether there is an explanation of every placement: peers give none.
    pub(super) fn is_explained(&self) -> bool {
        !self.explanations.is_empty()
    }
}

/// Why documents cannot be clustered.
#[derive(Debug, thiserror::Error)]
pub enum ClusteringError {
    /// The settings of the route cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The forest failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A stamped document is not JSON any more: its source was not JSON throughout.
    #[error("document `{id}` cannot be read")]
    Unreadable {
        /// Its id.
        id: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A document came back without a root.
    #[error("document `{id}` could not be stamped")]
    Unstamped {
        /// Its id.
        id: String,
    },
}

/// What is read of a stamped document.
#[derive(Deserialize)]
struct StampedRoot {
    cluster_root: Option<String>,
}

/// An engine that stamps documents, one piece after the other.
pub(super) struct Stamper {
    engine: Arc<Engine>,
    /// Lines that were stamped so far.
    lines: u64,
}

impl Stamper {
    /// `threads`: 0 means all cores.
    ///
    /// # Errors
    /// When the settings of the route cannot be used.
    pub(super) fn new(route: &Route, threads: usize) -> Result<Stamper, EngineError> {
        let engine = Engine::new(std::slice::from_ref(route), DEFAULT_PREFIX, threads, HashKey::FIXED)?;
        Ok(Stamper { engine: Arc::new(engine.with_explanations()), lines: 0 })
    }

    /// Stamps documents, one a line without blank ones. Returns the stamped lines, and how each document was placed.
    ///
    /// # Errors
    /// When the forest failed.
    pub(super) fn stamp(&mut self, piece: Vec<u8>) -> Result<(Vec<u8>, Vec<Explanation>), Unavailable> {
        let piece = Bytes::from(piece);
        let context = RequestContext { now: Millis(0), latest: Millis(i64::MAX), unique: self.lines, caller: None };
        let stamped = block_on(self.engine.stamp_lines(piece.clone(), context))?;
        self.lines += piece.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let explanations = stamped.explanations().to_vec();
        let (splice, _) = stamped.into_parts();
        let mut out = Vec::with_capacity(splice.len(piece.len()));
        splice.write_to(&piece, &mut out);
        Ok((out, explanations))
    }

    /// Nodes of the forest.
    ///
    /// # Errors
    /// When the forest failed.
    pub(super) fn nodes(&self) -> Result<u64, Unavailable> {
        let forests = block_on(self.engine.forests().stats())?;
        Ok(forests.iter().map(|(_, stats)| stats.nodes as u64).sum())
    }

    /// The roots after the merges of the forest, as stored documents are stamped anew.
    fn grouped(&self, roots: &mut [u64]) -> Result<(), Unavailable> {
        let overrides = block_on(self.engine.forests().all_overrides())?;
        for root in roots {
            let first = Root(Fingerprint(*root));
            *root = overrides.iter().fold(first, |root, (_, overrides)| overrides.group(root)).0.0;
        }
        Ok(())
    }
}

impl Documents {
    /// Stamps all documents in their order, as `spinney stamp` would. `threads`: 0 means all cores. `progress` gets the
    /// number of documents after each piece of them.
    ///
    /// # Errors
    /// When the settings of the route cannot be used, or a document cannot be stamped.
    pub fn cluster(
        &self,
        route: &Route,
        threads: usize,
        progress: &dyn Fn(u64),
    ) -> Result<Clustering, ClusteringError> {
        self.cluster_in_order(&self.order(), route, threads, progress)
    }

    /// Stamps all documents in an order that follows from the seed.
    ///
    /// # Errors
    /// As [`cluster`](Documents::cluster).
    pub(super) fn cluster_shuffled(
        &self,
        seed: u64,
        route: &Route,
        threads: usize,
        progress: &dyn Fn(u64),
    ) -> Result<Clustering, ClusteringError> {
        let mut order = self.order();
        let mut random = SplitMix64(seed);
        for at in (1..order.len()).rev() {
            // The high half of a product: a number of 0..=at.
            let other = (u128::from(random.next_u64()) * (at as u128 + 1)) >> 64;
            order.swap(at, other as usize);
        }
        self.cluster_in_order(&order, route, threads, progress)
    }

    fn order(&self) -> Vec<Document> {
        (0..).take(self.count()).collect()
    }

    fn cluster_in_order(
        &self,
        order: &[Document],
        route: &Route,
        threads: usize,
        progress: &dyn Fn(u64),
    ) -> Result<Clustering, ClusteringError> {
        let mut stamper = Stamper::new(route, threads)?;
        let mut clustering = Clustering { roots: vec![0; self.count()], ..Clustering::default() };
        let mut rest = order;
        while !rest.is_empty() {
            let mut piece = Vec::with_capacity(PIECE);
            let mut taken = 0;
            for &document in rest {
                piece.extend_from_slice(self.line(document));
                piece.push(b'\n');
                taken += 1;
                if piece.len() >= PIECE {
                    break;
                }
            }
            let (documents, behind) = rest.split_at(taken);
            let (stamped, explanations) = stamper.stamp(piece)?;
            let lines = stamped.split(|&byte| byte == b'\n');
            for (&document, line) in documents.iter().zip(lines) {
                let root = root_of(line, self.id(document))?;
                if let Some(place) = clustering.roots.get_mut(document as usize) {
                    *place = root;
                }
            }
            for explanation in explanations {
                if let Some(&document) = documents.get(explanation.item) {
                    clustering.explanations.insert(document, explanation);
                }
            }
            rest = behind;
            progress((order.len() - rest.len()) as u64);
        }
        stamper.grouped(&mut clustering.roots)?;
        clustering.nodes = stamper.nodes()?;
        Ok(clustering)
    }
}

/// The root that the document with this id is stamped with.
fn root_of(line: &[u8], id: &str) -> Result<u64, ClusteringError> {
    let stamped: StampedRoot =
        serde_json::from_slice(line).map_err(|source| ClusteringError::Unreadable { id: id.to_owned(), source })?;
    let root = stamped.cluster_root;
    let root = root.and_then(|hex| u64::from_str_radix(&hex, 16).ok());
    root.ok_or_else(|| ClusteringError::Unstamped { id: id.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney::config::{Clock, RawRoute};

    fn documents() -> (Documents, Route) {
        let mut route = RawRoute::default().any_index().or_clock(Clock::None).validate("test").unwrap();
        route.id_field = Some("id".into());
        // More than one piece, and every text twice.
        let text = |at: usize| (0..100).map(|word| format!("word{at}x{word} ")).collect::<String>();
        let lines = (0..2_000).map(|id| format!("{{\"id\":{id},\"content\":\"{}\"}}\n\n", text(id / 2)));
        let documents = Documents::parse(lines.collect::<String>().into_bytes(), &route).unwrap();
        (documents, route)
    }

    fn pairs_together(clustering: &Clustering) -> usize {
        clustering.roots.chunks(2).filter(|pair| pair[0] == pair[1]).count()
    }

    #[test]
    fn pieces_make_one_forest_in_any_order() {
        let (documents, route) = documents();
        let done = std::cell::RefCell::new(Vec::new());
        let clustering = documents.cluster(&route, 1, &|count| done.borrow_mut().push(count)).unwrap();
        let done = done.into_inner();
        assert!(done.len() > 1 && done.is_sorted() && done.last() == Some(&2_000), "{done:?}");
        assert_eq!((clustering.roots.len(), clustering.explanations.len()), (2_000, 2_000));
        assert_eq!(pairs_together(&clustering), 1_000);
        let distinct = |roots: &[u64]| roots.iter().collect::<std::collections::HashSet<_>>().len();
        assert_eq!(distinct(&clustering.roots), 1_000);
        let shuffled = documents.cluster_shuffled(1, &route, 1, &|_| {}).unwrap();
        assert_eq!((pairs_together(&shuffled), distinct(&shuffled.roots)), (1_000, 1_000));
        assert_eq!(shuffled.explanations.len(), 2_000);
    }
}
