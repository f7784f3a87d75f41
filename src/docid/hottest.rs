//! The hottest article of each docId, within a number of bytes and, like a node of the forest, for a window after the
//! last article of its docId came.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::forest::Root;
use crate::time::Millis;

/// Overhead of an entry: itself, its place in both maps, and the allocator.
const ENTRY_BYTES: usize = 256;

/// An article that might be the hottest.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) heat: f64,
    /// A hash that identifies the article.
    pub(super) identity: u64,
    pub(super) json: Arc<RawValue>,
}

/// A bounded table of articles by docId; evicts the least recently used docId.
#[derive(Debug)]
pub(super) struct Hottest {
    window: Option<Millis>,
    capacity: usize,
    bytes: usize,
    entries: HashMap<Root, Entry>,
    /// The docIds by last use, earliest first.
    order: BTreeMap<u64, Root>,
    turns: u64,
}

#[derive(Debug)]
struct Entry {
    /// Its key in the order.
    turn: u64,
    arrival: Millis,
    article: Candidate,
}

impl Candidate {
    fn bytes(&self) -> usize {
        self.json.get().len() + ENTRY_BYTES
    }
}

impl Hottest {
    pub(super) fn new(window: Option<Millis>, capacity: usize) -> Hottest {
        Hottest { window, capacity, bytes: 0, entries: HashMap::new(), order: BTreeMap::new(), turns: 0 }
    }

    /// Refreshes a docId for an article without a heat.
    pub(super) fn touch(&mut self, docid: Root, now: Millis) {
        self.expire(now);
        self.turns += 1;
        if let Some(entry) = self.entries.get_mut(&docid) {
            self.order.remove(&entry.turn);
            self.order.insert(self.turns, docid);
            (entry.turn, entry.arrival) = (self.turns, now);
        }
    }

    /// Offers an article and returns the hottest of its docId: the new one if it is hotter, or is the same article
    /// with a new heat; ties keep the earlier one.
    pub(super) fn offer(&mut self, docid: Root, article: Candidate, now: Millis) -> Arc<RawValue> {
        self.touch(docid, now);
        if let Some(kept) = self.entries.get(&docid).map(|entry| &entry.article)
            && kept.heat >= article.heat
            && kept.identity != article.identity
        {
            return kept.json.clone();
        }
        self.remove(docid);
        let hottest = article.json.clone();
        self.bytes += article.bytes();
        let turn = self.turns;
        self.order.insert(turn, docid);
        let entry = Entry { turn, arrival: now, article };
        self.entries.insert(docid, entry);
        while self.bytes > self.capacity
            && let Some((_, &earliest)) = self.order.first_key_value()
        {
            self.remove(earliest);
        }
        hottest
    }

    fn expire(&mut self, now: Millis) {
        let Some(window) = self.window else { return };
        while let Some((_, &earliest)) = self.order.first_key_value()
            && let Some(entry) = self.entries.get(&earliest)
            && entry.arrival.0.saturating_add(window.0) < now.0
        {
            self.remove(earliest);
        }
    }

    fn remove(&mut self, docid: Root) {
        if let Some(entry) = self.entries.remove(&docid) {
            self.order.remove(&entry.turn);
            self.bytes -= entry.article.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fingerprint::Fingerprint;

    fn article(heat: f64, identity: u64, length: usize) -> Candidate {
        let json = format!("\"{heat} {identity} {}\"", "a".repeat(length));
        Candidate { heat, identity, json: RawValue::from_string(json).unwrap().into() }
    }

    /// Entries in the order of their last arrival; everything is looked through each time.
    struct Naive(Vec<(Root, Millis, Candidate)>);

    impl Naive {
        fn came(&mut self, docid: Root, article: Option<&Candidate>, now: Millis) -> Option<String> {
            self.0.retain(|(_, arrival, _)| arrival.0 + WINDOW.0 >= now.0);
            let at = self.0.iter().position(|(kept, ..)| *kept == docid);
            let kept = at.map(|at| self.0.remove(at).2);
            let hottest = match (kept, article) {
                (kept, None) => kept,
                (Some(kept), Some(new)) if kept.heat >= new.heat && kept.identity != new.identity => Some(kept),
                (_, Some(new)) => Some(new.clone()),
            };
            if let Some(hottest) = &hottest {
                self.0.push((docid, now, hottest.clone()));
            }
            let bytes = |kept: &[(Root, Millis, Candidate)]| -> usize {
                kept.iter().map(|(.., article)| article.bytes()).sum()
            };
            while bytes(&self.0) > CAPACITY {
                self.0.remove(0);
            }
            article.and(hottest).map(|hottest| hottest.json.get().to_owned())
        }
    }

    const WINDOW: Millis = Millis(10);
    const CAPACITY: usize = 3 * ENTRY_BYTES + 100;

    proptest! {
        #[test]
        fn equals_the_naive_table(
            arrivals in prop::collection::vec(
                (0..6_u64, prop::option::of((0..4_u8, 0..3_u64, 0..60_usize)), 0..6_i64), 1..80),
        ) {
            let mut table = Hottest::new(Some(WINDOW), CAPACITY);
            let mut naive = Naive(Vec::new());
            let mut now = Millis(0);
            for (docid, heat, later) in arrivals {
                now.0 += later;
                let docid = Root(Fingerprint(docid));
                let article = heat.map(|(heat, identity, length)| article(heat.into(), identity, length));
                let expected = naive.came(docid, article.as_ref(), now);
                let hottest = match article {
                    Some(article) => Some(table.offer(docid, article, now).get().to_owned()),
                    None => {
                        table.touch(docid, now);
                        None
                    }
                };
                prop_assert_eq!(hottest, expected);
                let order: Vec<Root> = table.order.values().copied().collect();
                let naive_order: Vec<Root> = naive.0.iter().map(|(docid, ..)| *docid).collect();
                prop_assert_eq!(order, naive_order);
                prop_assert!(table.bytes <= CAPACITY && table.entries.len() == table.order.len());
            }
        }
    }

    #[test]
    fn the_hottest_stays_until_a_hotter_one_comes() {
        let mut table = Hottest::new(None, 1 << 20);
        let docid = Root(Fingerprint(1));
        let mut offer = |heat, identity| {
            let hottest = table.offer(docid, article(heat, identity, 0), Millis(0));
            hottest.get().to_owned()
        };
        assert_eq!(offer(5.0, 1), "\"5 1 \"");
        assert_eq!(offer(4.0, 2), "\"5 1 \"");
        assert_eq!(offer(5.0, 2), "\"5 1 \"");
        assert_eq!(offer(6.0, 2), "\"6 2 \"");
        // It has cooled.
        assert_eq!(offer(1.0, 2), "\"1 2 \"");
    }

    #[test]
    fn an_article_goes_a_window_after_its_docid_came_last() {
        let mut table = Hottest::new(Some(WINDOW), 1 << 20);
        let docid = Root(Fingerprint(1));
        table.offer(docid, article(9.0, 1, 0), Millis(0));
        table.touch(docid, Millis(10));
        let hottest = table.offer(docid, article(1.0, 2, 0), Millis(20));
        assert_eq!(hottest.get(), "\"9 1 \"");
        let hottest = table.offer(docid, article(1.0, 2, 0), Millis(31));
        assert_eq!(hottest.get(), "\"1 2 \"");
    }
}
