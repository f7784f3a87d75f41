//! Tickets: what a caller holds of a placed document until the cluster has answered.

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{Lesson, TallyEntry};

use super::Root;
use super::node::NodeRef;
use crate::time::Millis;

/// The ticket of a placed document, for its settlement. It names nodes in a way that every process understands, and is
/// harmless when they are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The tree it belongs to.
    pub root: Root,
    /// The nodes that go if it is refused.
    pub rollback: Rollback,
    /// Its contribution to the statistics of its tree, once accepted.
    pub count: TallyEntry,
    /// The time that it claims, which counts when it is accepted.
    pub claimed: Option<Millis>,
    /// It is of the text that founded its tree, and the tree has not taught yet: it does when this is accepted.
    pub teaches: bool,
    /// The lesson of the document itself, learned when it is accepted.
    pub lesson: Option<Lesson>,
    /// The other candidates that would have accepted it.
    pub others: Vec<Root>,
}

impl Ticket {
    /// The ticket of a placement in a shared forest that no document rests on.
    pub(super) fn to_withdraw(nodes: SharedNodes) -> Ticket {
        Ticket {
            root: nodes.root,
            rollback: Rollback::Shared(nodes.into()),
            count: TallyEntry::default(),
            claimed: None,
            teaches: false,
            lesson: None,
            others: Vec::new(),
        }
    }
}

/// The nodes that a placement uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Rollback {
    /// None: the document has no node, or leaves no trace.
    #[default]
    Nothing,
    /// Nodes of a forest in this process, in the order in which they were found or made.
    Nodes(Vec<NodeRef>),
    /// Nodes of a forest that several processes share.
    Shared(Box<SharedNodes>),
}

impl Rollback {
    /// The nodes in a forest of this process.
    pub fn nodes(&self) -> &[NodeRef] {
        match self {
            Rollback::Nodes(nodes) => nodes,
            Rollback::Nothing | Rollback::Shared(_) => &[],
        }
    }

    /// How many nodes it names.
    pub fn node_count(&self) -> usize {
        match self {
            Rollback::Nothing => 0,
            Rollback::Nodes(nodes) => nodes.len(),
            Rollback::Shared(nodes) => 1 + nodes.leaves.len() + nodes.used.len(),
        }
    }

    /// The nodes in a shared forest.
    pub(super) fn shared(&self) -> Option<&SharedNodes> {
        match self {
            Rollback::Shared(nodes) => Some(nodes),
            Rollback::Nothing | Rollback::Nodes(_) => None,
        }
    }
}

/// The nodes that a placement uses in a shared forest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedNodes {
    pub(super) root: Root,
    pub(super) token: FoundingToken,
    pub(super) has_founded: bool,
    /// In a dated forest, the step in which its new nodes were made.
    pub(super) placed: Option<u32>,
    /// Its root is of an earlier step.
    pub(super) is_due: bool,
    /// Leaves that it added.
    pub(super) leaves: Vec<Fingerprint>,
    /// In a dated forest, leaves that were there.
    pub(super) used: Vec<UsedLeaf>,
}

impl SharedNodes {
    /// A tree, and none of its leaves.
    pub(super) fn of(root: Root, token: FoundingToken) -> SharedNodes {
        SharedNodes {
            root,
            token,
            has_founded: false,
            placed: None,
            is_due: false,
            leaves: Vec::new(),
            used: Vec::new(),
        }
    }
}

/// A leaf that was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UsedLeaf {
    pub(super) leaf: Fingerprint,
    /// It is of an earlier step than the document.
    pub(super) is_due: bool,
}

/// A random non-zero 24-bit nonce of one attempt to found a tree in a shared forest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FoundingToken(pub u32);

impl FoundingToken {
    /// Of any bits.
    pub(super) fn of(bits: u64) -> FoundingToken {
        FoundingToken(((bits >> 24) as u32 & 0x00FF_FFFF).max(1))
    }

    /// Big endian.
    pub fn bytes(self) -> [u8; 3] {
        let [_, high, middle, low] = self.0.to_be_bytes();
        [high, middle, low]
    }

    /// Inverse of [`bytes`](FoundingToken::bytes).
    pub fn from_bytes([high, middle, low]: [u8; 3]) -> FoundingToken {
        FoundingToken(u32::from_be_bytes([0, high, middle, low]))
    }
}
