//! The nodes and roots that a request will add to a forest, visible to its later documents.

use std::collections::HashMap;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::FounderTokens;

use super::change::Change;
use super::{DocumentHash, Root};
use crate::time::Millis;

/// A tree that a document of the request founds.
#[derive(Debug, Clone)]
pub(super) struct OwnTree<P> {
    pub(super) added: Millis,
    pub(super) proof: P,
    pub(super) founder_tokens: Option<FounderTokens>,
    pub(super) first: DocumentHash,
}

/// The planned changes of a request.
#[derive(Debug, Clone)]
pub(super) struct BatchPlan<P> {
    pub(super) trees: HashMap<Root, OwnTree<P>>,
    /// New nodes, roots included, and their trees.
    pub(super) nodes: HashMap<Fingerprint, Root>,
    children: HashMap<Root, u32>,
}

impl<P> Default for BatchPlan<P> {
    fn default() -> Self {
        BatchPlan { trees: HashMap::new(), nodes: HashMap::new(), children: HashMap::new() }
    }
}

impl<P> BatchPlan<P> {
    /// Adds a change of a placement. Answers the node that is new by it, if one is; the arrival of nodes that are there
    /// already is nothing that another document of the request could see.
    pub(super) fn add(&mut self, change: Change<P>) -> Option<Fingerprint> {
        match change {
            Change::AddRoot { fingerprint, added, proof } => {
                self.trees.insert(
                    Root(fingerprint),
                    OwnTree { added, proof, founder_tokens: None, first: DocumentHash::UNKNOWN },
                );
                self.nodes.insert(fingerprint, Root(fingerprint));
                Some(fingerprint)
            }
            Change::AddLeaf { fingerprint, root } => {
                self.nodes.insert(fingerprint, root);
                *self.children.entry(root).or_default() += 1;
                Some(fingerprint)
            }
            Change::FounderTokens { root, tokens } => {
                if let Some(tree) = self.trees.get_mut(&root) {
                    tree.founder_tokens = Some(tokens);
                }
                None
            }
            Change::First { root, first } => {
                if let Some(tree) = self.trees.get_mut(&root) {
                    tree.first = first;
                }
                None
            }
            Change::Use { .. }
            | Change::Refresh { .. }
            | Change::Begin(_)
            | Change::Count { .. }
            | Change::Withdraw { .. }
            | Change::Evict { .. } => None,
        }
    }

    /// The leaves that the request adds to a tree.
    pub(super) fn children(&self, root: Root) -> u32 {
        self.children.get(&root).copied().unwrap_or_default()
    }
}
