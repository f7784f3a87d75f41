//! In-flight nodes: made by placements, and not used by any accepted document yet. Only they can be withdrawn, so only
//! of them it is known which node of a fingerprint they are, and how many placements use them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::hash::{HashKey, KeyedHasher};

use super::node::{Generation, NodeRef};

#[derive(Debug)]
pub(super) struct InFlightPlacements {
    nodes: HashMap<Fingerprint, NodeUses, KeyedHasher>,
    next: Generation,
}

#[derive(Debug)]
struct NodeUses {
    generation: Generation,
    placements: u32,
}

impl InFlightPlacements {
    pub(super) fn new(key: HashKey) -> InFlightPlacements {
        InFlightPlacements { nodes: HashMap::with_hasher(KeyedHasher::new(key)), next: Generation::default() }
    }

    /// Adds a new node, used by one placement.
    pub(super) fn made(&mut self, fingerprint: Fingerprint) -> NodeRef {
        self.next = self.next.next();
        let generation = self.next;
        let uses = NodeUses { generation, placements: 1 };
        self.nodes.insert(fingerprint, uses);
        NodeRef { fingerprint, generation }
    }

    /// Counts one more placement that uses a node.
    pub(super) fn used(&mut self, fingerprint: Fingerprint) -> NodeRef {
        let generation = match self.nodes.get_mut(&fingerprint) {
            Some(uses) => {
                uses.placements = uses.placements.saturating_add(1);
                uses.generation
            }
            None => Generation::SETTLED,
        };
        NodeRef { fingerprint, generation }
    }

    /// Uncounts a withdrawn placement of a node.
    pub(super) fn released(&mut self, node: NodeRef) {
        if let Some(uses) = self.of(node) {
            uses.placements = uses.placements.saturating_sub(1);
        }
    }

    /// Marks a node as used by an accepted document: it can no longer be withdrawn.
    pub(super) fn settled(&mut self, node: NodeRef) {
        if node.generation != Generation::SETTLED
            && let Entry::Occupied(uses) = self.nodes.entry(node.fingerprint)
            && uses.get().generation == node.generation
        {
            uses.remove();
        }
    }

    /// Removes the node of a fingerprint that was evicted or has expired.
    pub(super) fn gone(&mut self, fingerprint: Fingerprint) {
        if !self.nodes.is_empty() {
            self.nodes.remove(&fingerprint);
        }
    }

    /// Whether this is a node that no placement uses any more.
    pub(super) fn is_unused(&self, node: NodeRef) -> bool {
        let uses = self.nodes.get(&node.fingerprint);
        uses.is_some_and(|uses| uses.generation == node.generation && uses.placements == 0)
    }

    /// The node of a fingerprint, if it is one of these.
    pub(super) fn node(&self, fingerprint: Fingerprint) -> Option<NodeRef> {
        let uses = self.nodes.get(&fingerprint)?;
        Some(NodeRef { fingerprint, generation: uses.generation })
    }

    fn of(&mut self, node: NodeRef) -> Option<&mut NodeUses> {
        let uses = self.nodes.get_mut(&node.fingerprint);
        uses.filter(|uses| uses.generation == node.generation)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * (size_of::<(Fingerprint, NodeUses)>() + 1)
    }
}
