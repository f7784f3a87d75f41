//! The operations of the bulk protocol.

/// Operation of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Stores a document, in place of one with its id.
    Index,
    /// Stores a document if there is none with its id.
    Create,
    /// Changes a document.
    Update,
    /// Removes a document.
    Delete,
}

impl Op {
    /// Every operation.
    pub const ALL: [Op; 4] = [Op::Index, Op::Create, Op::Update, Op::Delete];

    /// The operation's name in actions and answers.
    pub fn name(self) -> &'static str {
        match self {
            Op::Index => "index",
            Op::Create => "create",
            Op::Update => "update",
            Op::Delete => "delete",
        }
    }

    /// The operation of this name.
    pub fn from_name(name: &[u8]) -> Option<Op> {
        Op::ALL.into_iter().find(|op| op.name().as_bytes() == name)
    }
}
