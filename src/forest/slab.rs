//! The nodes in one slab, threaded by two kinds of list: all nodes by arrival, and the leaves of each root by arrival.
//!
//! ```text
//!  oldest <-> ... <-> leaf <-> leaf <-> root <-> newest     all nodes, in the order of their arrival
//!                      ^ its root's oldest leaf .. newest   the leaves of a tree, in the same order
//! ```
//!
//! Whoever touches a leaf touches its root after it. So both lists are sorted by arrival without any search, and a root
//! stands behind all of its leaves: taking nodes from the old end can never take a root before them.

use super::node::{Generation, NodeRef};
use crate::fingerprint::Fingerprint;
use crate::hamming::NodeId;
use crate::time::Millis;

/// In place of the number of a tally: no document has come to the tree that was accepted, or one has.
pub(super) const UNCOUNTED: u32 = u32::MAX;
pub(super) const FOUNDED: u32 = u32::MAX - 1;

/// No node: the end of a list.
pub(super) const NONE: NodeId = NodeId(u32::MAX);

/// One node; 64 bytes, a cache line.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) fingerprint: Fingerprint,
    pub(super) added: Millis,
    pub(super) arrival: Millis,
    older: NodeId,
    newer: NodeId,
    pub(super) kind: Kind,
    pub(super) generation: Generation,
    /// How many placements use this very node and were not withdrawn; the highest value stands for "many".
    pub(super) references: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Root {
        proof: u32,
        /// What came to it, by number, from its second document on; [`UNCOUNTED`] or [`FOUNDED`] before.
        tally: u32,
        children: u32,
        oldest: NodeId,
        newest: NodeId,
    },
    Leaf {
        root: NodeId,
        older: NodeId,
        newer: NodeId,
    },
    /// An expired leaf that its root counts no more, but that was not removed yet.
    Detached,
    /// An empty slot.
    Free { next: NodeId },
}

#[derive(Debug)]
pub(super) struct Slab {
    nodes: Vec<Node>,
    free: NodeId,
    oldest: NodeId,
    newest: NodeId,
    len: usize,
    roots: usize,
    /// The highest number a node may have.
    pub(super) max: NodeId,
}

impl Slab {
    pub(super) fn new() -> Self {
        Slab {
            nodes: Vec::new(),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            len: 0,
            roots: 0,
            max: NodeId::MAX,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn roots(&self) -> usize {
        self.roots
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }

    /// A node by its number. Numbers come from this slab and are dropped with their node, so the slot is always there.
    #[inline]
    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    #[inline]
    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    /// The name of a node.
    pub(super) fn node_ref(&self, id: NodeId) -> NodeRef {
        let node = self.node(id);
        NodeRef {
            fingerprint: node.fingerprint,
            generation: node.generation,
        }
    }

    /// Counts one more placement that uses a node.
    pub(super) fn add_reference(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        node.references = node.references.saturating_add(1);
    }

    /// Counts one placement fewer; false where they are not counted any more, or there is none.
    pub(super) fn drop_reference(&mut self, id: NodeId) -> bool {
        let node = self.node_mut(id);
        let counted = node.references != u32::MAX && node.references > 0;
        node.references -= u32::from(counted);
        counted
    }

    /// The node with the oldest arrival.
    pub(super) fn oldest(&self) -> Option<NodeId> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// All nodes from the newest arrival to the oldest.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let mut id = self.newest;
        std::iter::from_fn(move || {
            let node = self.nodes.get(id.0 as usize)?;
            let this = (id, node);
            id = node.older;
            Some(this)
        })
    }

    /// The leaves of a root from the oldest arrival to the newest.
    pub(super) fn leaves(&self, root: NodeId) -> impl Iterator<Item = (NodeId, &Node)> {
        let mut id = match self.node(root).kind {
            Kind::Root { oldest, .. } => oldest,
            _ => NONE,
        };
        std::iter::from_fn(move || {
            let node = self.nodes.get(id.0 as usize)?;
            let this = (id, node);
            id = match node.kind {
                Kind::Leaf { newer, .. } => newer,
                _ => NONE,
            };
            Some(this)
        })
    }

    /// A new root; none if every number is taken.
    pub(super) fn add_root(&mut self, node: NodeRef, now: Millis, proof: u32) -> Option<NodeId> {
        let kind = Kind::Root {
            proof,
            tally: UNCOUNTED,
            children: 0,
            oldest: NONE,
            newest: NONE,
        };
        let id = self.add(node, now, kind)?;
        self.roots += 1;
        Some(id)
    }

    /// A new leaf of a root; none if every number is taken. The caller touches the root afterwards.
    pub(super) fn add_leaf(&mut self, node: NodeRef, now: Millis, root: NodeId) -> Option<NodeId> {
        let id = self.add(node, now, Kind::Detached)?;
        self.attach(id, root);
        Some(id)
    }

    fn add(&mut self, named: NodeRef, now: Millis, kind: Kind) -> Option<NodeId> {
        let node = Node {
            fingerprint: named.fingerprint,
            added: now,
            arrival: now,
            older: NONE,
            newer: NONE,
            kind,
            generation: named.generation,
            references: 1,
        };
        let id = self.free;
        let id = match self.nodes.get_mut(id.0 as usize) {
            Some(slot) => {
                if let Kind::Free { next } = slot.kind {
                    self.free = next;
                }
                *slot = node;
                id
            }
            None => {
                let id = NodeId(u32::try_from(self.nodes.len()).ok()?);
                if id > self.max {
                    return None;
                }
                if self.nodes.len() == self.nodes.capacity() {
                    // An eighth and not a doubling: at tens of millions of nodes the slack is real memory.
                    self.nodes.reserve_exact(self.nodes.len() / 8 + 16);
                }
                self.nodes.push(node);
                id
            }
        };
        self.len += 1;
        self.push_newest(id);
        Some(id)
    }

    /// Gives a node the newest arrival.
    pub(super) fn touch(&mut self, id: NodeId, now: Millis) {
        self.unlink(id);
        self.push_newest(id);
        self.node_mut(id).arrival = now;
        if let Kind::Leaf { root, .. } = self.node(id).kind {
            self.detach(id);
            self.attach(id, root);
        }
    }

    /// Takes a leaf out of its tree; any other node is left as it is.
    pub(super) fn detach(&mut self, id: NodeId) {
        let Kind::Leaf { root, older, newer } = self.node(id).kind else {
            return;
        };
        self.node_mut(id).kind = Kind::Detached;
        if older != NONE
            && let Kind::Leaf { newer: link, .. } = &mut self.node_mut(older).kind
        {
            *link = newer;
        }
        if newer != NONE
            && let Kind::Leaf { older: link, .. } = &mut self.node_mut(newer).kind
        {
            *link = older;
        }
        if let Kind::Root {
            children,
            oldest,
            newest,
            ..
        } = &mut self.node_mut(root).kind
        {
            *children -= 1;
            if *oldest == id {
                *oldest = newer;
            }
            if *newest == id {
                *newest = older;
            }
        }
    }

    /// Makes a node the newest leaf of a root.
    fn attach(&mut self, id: NodeId, root: NodeId) {
        let mut last = NONE;
        if let Kind::Root {
            children,
            oldest,
            newest,
            ..
        } = &mut self.node_mut(root).kind
        {
            *children += 1;
            last = *newest;
            *newest = id;
            if last == NONE {
                *oldest = id;
            }
        }
        if last != NONE
            && let Kind::Leaf { newer, .. } = &mut self.node_mut(last).kind
        {
            *newer = id;
        }
        self.node_mut(id).kind = Kind::Leaf {
            root,
            older: last,
            newer: NONE,
        };
    }

    /// Empties the slot of a node, which answers what it was. A root must have no leaves.
    pub(super) fn remove(&mut self, id: NodeId) -> Kind {
        self.detach(id);
        self.unlink(id);
        let next = self.free;
        let kind = std::mem::replace(&mut self.node_mut(id).kind, Kind::Free { next });
        if let Kind::Root { children, .. } = kind {
            debug_assert_eq!(children, 0, "a root goes after its leaves");
            self.roots -= 1;
        }
        self.free = id;
        self.len -= 1;
        kind
    }

    fn unlink(&mut self, id: NodeId) {
        let Node { older, newer, .. } = *self.node(id);
        match older {
            NONE => self.oldest = newer,
            older => self.node_mut(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.node_mut(newer).older = older,
        }
    }

    fn push_newest(&mut self, id: NodeId) {
        let last = std::mem::replace(&mut self.newest, id);
        let node = self.node_mut(id);
        node.older = last;
        node.newer = NONE;
        match last {
            NONE => self.oldest = id,
            last => self.node_mut(last).newer = id,
        }
    }
}

/// What only some nodes have, by number, apart from the nodes: the proofs of roots, and what came to trees.
#[derive(Debug)]
pub(super) struct Beside<P> {
    kept: Vec<P>,
    free: Vec<u32>,
}

impl<P> Beside<P> {
    pub(super) fn new() -> Self {
        Beside {
            kept: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Keeps one and answers its number. There are never more than nodes, so the number fits.
    pub(super) fn keep(&mut self, proof: P) -> u32 {
        if let Some(number) = self.free.pop()
            && let Some(place) = self.kept.get_mut(number as usize)
        {
            *place = proof;
            return number;
        }
        self.kept.push(proof);
        (self.kept.len() - 1) as u32
    }

    pub(super) fn get(&self, number: u32) -> Option<&P> {
        self.kept.get(number as usize)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut P> {
        self.kept.get_mut(number as usize)
    }

    pub(super) fn release(&mut self, number: u32) {
        self.free.push(number);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.kept.capacity() * size_of::<P>() + self.free.capacity() * size_of::<u32>()
    }
}
