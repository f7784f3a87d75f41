//! Late merges: trees that are candidates to be one, because a later document was found to agree with both. The law is in
//! docs/merges.md.

use std::collections::{HashMap, VecDeque};

use super::Root;

/// Pairs of groups that are remembered; those that were met first go first.
const MOST_PAIRS: usize = 10_000;

/// What becomes of trees that are found to be one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LateMerges {
    /// Nobody looks.
    Off,
    /// They are shown to people.
    #[default]
    Suggest,
    /// They are merged.
    Apply,
}

/// Two groups that may be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suggestion {
    /// The one whose root would stay.
    pub winner: Root,
    /// The other.
    pub loser: Root,
    /// Documents that agree with both.
    pub documents: u64,
}

/// What a forest has met since the start. It is lost with the process: pairs are met again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Late {
    /// Groups that may be one, those that were met first in front.
    pub suggestions: Vec<Suggestion>,
    /// Merges that were said.
    pub applied: u64,
    /// Merges for which there was no room among the words.
    pub no_room: u64,
}

/// The pairs of a forest.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) mode: LateMerges,
    met: HashMap<(Root, Root), Met>,
    queue: VecDeque<(Root, Root)>,
    pub(super) applied: u64,
    pub(super) no_room: u64,
}

#[derive(Debug, Clone, Copy)]
struct Met {
    winner: Root,
    documents: u64,
    /// Whether the roots agree themselves: looked up once, since it takes long.
    agree: bool,
}

impl Candidates {
    /// A document of the one group agrees with the other. Answers what `agree` answers, or did when the two met before.
    pub(super) fn meet(&mut self, winner: Root, loser: Root, agree: impl FnOnce() -> bool) -> bool {
        let pair = (winner.min(loser), winner.max(loser));
        if let Some(met) = self.met.get_mut(&pair) {
            met.documents += 1;
            return met.agree;
        }
        if self.met.len() >= MOST_PAIRS
            && let Some(oldest) = self.queue.pop_front()
        {
            self.met.remove(&oldest);
        }
        let met = Met {
            winner,
            documents: 1,
            agree: agree(),
        };
        self.met.insert(pair, met);
        self.queue.push_back(pair);
        met.agree
    }

    /// Those that agree, in the order in which they were met.
    pub(super) fn agreeing(&self) -> impl Iterator<Item = Suggestion> {
        self.queue.iter().filter_map(|pair| {
            let met = self.met.get(pair).filter(|met| met.agree)?;
            let loser = if met.winner == pair.0 { pair.1 } else { pair.0 };
            Some(Suggestion {
                winner: met.winner,
                loser,
                documents: met.documents,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;

    fn root(number: u64) -> Root {
        Root(Fingerprint(number))
    }

    #[test]
    fn a_pair_is_judged_once_and_the_oldest_go() {
        let mut candidates = Candidates::default();
        assert!(candidates.meet(root(2), root(1), || true));
        assert!(candidates.meet(root(1), root(2), || false));
        assert!(!candidates.meet(root(3), root(1), || false));
        let listed: Vec<Suggestion> = candidates.agreeing().collect();
        let first = Suggestion {
            winner: root(2),
            loser: root(1),
            documents: 2,
        };
        assert_eq!(listed, [first]);
        for number in 0..MOST_PAIRS as u64 - 1 {
            candidates.meet(root(10 + number), root(0), || true);
        }
        // One of the first two has gone.
        assert_eq!(candidates.met.len(), MOST_PAIRS);
        assert_eq!(candidates.agreeing().count(), MOST_PAIRS - 1);
        assert_eq!(candidates.queue.len(), MOST_PAIRS);
    }
}
