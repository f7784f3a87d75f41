//! The keys and what one command does to one of them.

/// Keys of a scenario, at most.
pub const KEYS: usize = 8;

/// Place of a key.
pub type Key = u8;
/// Of one attempt to found a tree; 0 stands for none.
pub type Token = u8;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Value {
    #[default]
    Free,
    Leaf(Leaf),
    Root(Root),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    pub root: Key,
    pub token: Token,
    /// The epoch in which it last arrived.
    pub stamp: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    pub is_confirmed: bool,
    pub token: Token,
    /// The document that founded it: stands for proof, text and rank.
    pub founder: u8,
    pub uses: u8,
    pub stamp: u8,
}

/// A command on one key. The reply is what was there before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Op {
    #[default]
    Get,
    /// `SET NX GET PXAT`.
    SetNew(Value),
    /// Compare and set: over this very value, or where there is none.
    Swap(Value, Value),
    /// One more document rests on this confirmed tree, and its stamp is at least this.
    Pin { token: Token, more: u8, stamp: u8 },
    /// The provisional root of this token becomes a confirmed one.
    Confirm { token: Token, uses: u8, stamp: u8 },
    /// The provisional root of this token goes.
    Kill(Token),
    /// One document less rests on the tree; with the last one its root goes.
    Release(Token),
    /// The leaf of this tree goes.
    Drop { root: Key, token: Token },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Request {
    pub key: Key,
    /// Place in its bulk of the document that it is for.
    pub doc: u8,
    pub op: Op,
}

impl Value {
    pub fn root(self) -> Option<Root> {
        match self {
            Value::Root(root) => Some(root),
            Value::Free | Value::Leaf(_) => None,
        }
    }

    pub fn leaf(self) -> Option<Leaf> {
        match self {
            Value::Leaf(leaf) => Some(leaf),
            Value::Free | Value::Root(_) => None,
        }
    }

    pub fn is_confirmed(self, token: Token) -> bool {
        self.root().is_some_and(|root| root.is_confirmed && root.token == token)
    }

    pub fn is_provisional(self, token: Token) -> bool {
        self.root().is_some_and(|root| !root.is_confirmed && root.token == token)
    }

    /// A number of its own, below 2^48.
    pub fn code(self) -> u64 {
        let bytes = match self {
            Value::Free => [0; 6],
            Value::Leaf(leaf) => [1, leaf.root, leaf.token, leaf.stamp, 0, 0],
            Value::Root(root) => {
                let state = 2 + u8::from(root.is_confirmed);
                [state, root.token, root.founder, root.uses, root.stamp, 0]
            }
        };
        bytes.iter().fold(0, |code, &byte| code << 8 | u64::from(byte))
    }
}

impl Op {
    /// Two numbers of its own.
    pub fn code(self) -> (u64, u64) {
        let three =
            |kind: u64, [a, b, c]: [u8; 3]| (kind << 56 | u64::from(a) << 16 | u64::from(b) << 8 | u64::from(c), 0);
        match self {
            Op::Get => three(1, [0; 3]),
            Op::SetNew(new) => (2 << 56 | new.code(), 0),
            Op::Swap(old, new) => (3 << 56 | old.code(), new.code()),
            Op::Pin { token, more, stamp } => three(4, [token, more, stamp]),
            Op::Confirm { token, uses, stamp } => three(5, [token, uses, stamp]),
            Op::Kill(token) => three(6, [token, 0, 0]),
            Op::Release(token) => three(7, [token, 0, 0]),
            Op::Drop { root, token } => three(8, [root, token, 0]),
        }
    }

    pub fn is_read(self) -> bool {
        self == Op::Get
    }
}

/// Does a command. `is_late`: whether a leaf of this tree would be written with a time that has passed.
pub fn apply(spot: &mut Value, op: Op, is_late: impl Fn(Leaf) -> bool) -> Value {
    let found = *spot;
    let timely = |new: Value| match new {
        Value::Leaf(leaf) if is_late(leaf) => Value::Free,
        _ => new,
    };
    match op {
        Op::Get => {}
        Op::SetNew(new) => {
            if found == Value::Free {
                *spot = timely(new);
            }
        }
        Op::Swap(old, new) => {
            if found == Value::Free || found == old {
                *spot = timely(new);
            }
        }
        Op::Pin { token, more, stamp } => {
            if let Value::Root(root) = spot
                && root.is_confirmed
                && root.token == token
            {
                root.uses += more;
                root.stamp = root.stamp.max(stamp);
            }
        }
        Op::Confirm { token, uses, stamp } => {
            if let Value::Root(root) = spot
                && !root.is_confirmed
                && root.token == token
            {
                root.is_confirmed = true;
                root.uses = uses;
                root.stamp = stamp;
            }
        }
        Op::Kill(token) => {
            if found.is_provisional(token) {
                *spot = Value::Free;
            }
        }
        Op::Release(token) => {
            if let Value::Root(root) = spot
                && root.is_confirmed
                && root.token == token
            {
                root.uses = root.uses.saturating_sub(1);
                if root.uses == 0 {
                    *spot = Value::Free;
                }
            }
        }
        Op::Drop { root, token } => {
            if found.leaf().is_some_and(|leaf| leaf.root == root && leaf.token == token) {
                *spot = Value::Free;
            }
        }
    }
    found
}
