//! Lists of groups that are kept for the next pages.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::cursor::ListedGroup;
use super::request::Direction;
use crate::time::Millis;

/// How long a list is kept.
const KEPT_FOR: Millis = Millis(5 * 60_000);

/// Bytes of all lists together.
const BYTES: usize = 64 << 20;

/// Cache of lists of groups by a hash of caller and request, bounded in bytes and time.
#[derive(Debug, Default)]
pub(crate) struct ListCache(Mutex<CacheState>);

#[derive(Debug, Default)]
struct CacheState {
    lists: HashMap<u64, CachedList>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedList {
    /// A hash of the caller's credentials.
    caller: u64,
    at: Millis,
    list: Arc<GroupList>,
}

fn bytes(list: &GroupList) -> usize {
    list.groups.len() * size_of::<ListedGroup>() + list.keys.len() * size_of::<i64>() + size_of::<CachedList>()
}

/// Groups in the order of a request.
#[derive(Debug, PartialEq)]
pub(super) struct GroupList {
    groups: Vec<ListedGroup>,
    /// Their keys, ascending.
    keys: Vec<i64>,
}

impl GroupList {
    /// Puts all groups in order.
    pub(super) fn new(mut groups: Vec<ListedGroup>, direction: Direction) -> GroupList {
        groups.sort_unstable_by(|a, b| compare(a, b, direction));
        let mut keys: Vec<i64> = groups.iter().map(|group| group.key).collect();
        keys.sort_unstable();
        GroupList { groups, keys }
    }

    /// The groups after a position, which need not be in the list.
    pub(super) fn after(&self, place: Option<&ListedGroup>, direction: Direction, size: usize) -> &[ListedGroup] {
        let start = place.map_or(0, |place| {
            let passed = |group: &ListedGroup| compare(group, place, direction).is_le();
            self.groups.partition_point(passed)
        });
        let rest = self.groups.get(start..).unwrap_or_default();
        rest.get(..size).unwrap_or(rest)
    }

    /// Whether a group is in the list.
    pub(super) fn contains(&self, key: i64) -> bool {
        self.keys.binary_search(&key).is_ok()
    }
}

/// By number of documents; of equals the one with the newest document first, then by key.
fn compare(a: &ListedGroup, b: &ListedGroup, direction: Direction) -> Ordering {
    let count = match direction {
        Direction::Ascending => a.count.cmp(&b.count),
        Direction::Descending => b.count.cmp(&a.count),
    };
    count.then(b.last.cmp(&a.last)).then(a.key.cmp(&b.key))
}

impl ListCache {
    /// A list that this caller may go on with: another one may not see all of its groups.
    pub(super) fn get(&self, id: u64, caller: u64, now: Millis) -> Option<Arc<GroupList>> {
        let state = self.0.lock();
        let kept = state.lists.get(&id)?;
        (kept.caller == caller && kept.is_fresh(now)).then(|| kept.list.clone())
    }

    /// Adds a list, evicting the oldest ones; a list above the limit is not kept.
    pub(super) fn keep(&self, id: u64, caller: u64, now: Millis, list: Arc<GroupList>) {
        if bytes(&list) > BYTES {
            return;
        }
        let mut state = self.0.lock();
        state.remove(id);
        state.bytes += bytes(&list);
        state.lists.insert(id, CachedList { caller, at: now, list });
        let old: Vec<u64> = state.lists.iter().filter_map(|(&id, kept)| (!kept.is_fresh(now)).then_some(id)).collect();
        for id in old {
            state.remove(id);
        }
        while state.bytes > BYTES {
            let oldest = state.lists.iter().filter(|(other, _)| **other != id);
            let oldest = oldest.min_by_key(|(_, kept)| kept.at).map(|(&id, _)| id);
            let Some(oldest) = oldest else { return };
            state.remove(oldest);
        }
    }
}

impl CacheState {
    fn remove(&mut self, id: u64) {
        if let Some(kept) = self.lists.remove(&id) {
            self.bytes -= bytes(&kept.list);
        }
    }
}

impl CachedList {
    fn is_fresh(&self, now: Millis) -> bool {
        now.0.saturating_sub(self.at.0) < KEPT_FOR.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(groups: usize) -> Arc<GroupList> {
        let group = |key: usize| ListedGroup { count: 2, last: 0, key: key as i64 };
        let groups = (0..groups).map(group).collect();
        Arc::new(GroupList::new(groups, Direction::Descending))
    }

    #[test]
    fn a_list_is_kept_for_minutes() {
        let lists = ListCache::default();
        lists.keep(1, 7, Millis(0), list(3));
        assert_eq!(lists.get(1, 7, Millis(KEPT_FOR.0 - 1)), Some(list(3)));
        assert_eq!(lists.get(1, 8, Millis(0)), None);
        assert_eq!(lists.get(1, 7, KEPT_FOR), None);
        assert_eq!(lists.get(2, 7, Millis(0)), None);
        lists.keep(2, 7, KEPT_FOR, list(1));
        assert_eq!(lists.0.lock().lists.len(), 1);
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_bytes() {
        let lists = ListCache::default();
        let third = BYTES / (size_of::<ListedGroup>() + size_of::<i64>()) / 3 - 10;
        for id in 0..5 {
            lists.keep(id, 7, Millis(id as i64), list(third));
        }
        let kept = |id| lists.get(id, 7, Millis(9)).is_some();
        assert_eq!([0, 1, 2, 3, 4].map(kept), [false, false, true, true, true]);
        lists.keep(4, 7, Millis(5), list(1));
        lists.keep(9, 7, Millis(6), list(4 * third));
        assert!(!kept(9) && kept(2));
        let state = lists.0.lock();
        let sum: usize = state.lists.values().map(|kept| bytes(&kept.list)).sum();
        assert_eq!(state.bytes, sum);
    }

    proptest! {
        /// Pages of any sizes, put together, are the list; also when a place is no longer in it.
        #[test]
        fn pages_make_the_list(
            groups in prop::collection::btree_map(0i64..40, (1u64..4, -2i64..2), 0..30), sizes in prop::collection::vec(1usize..7, 1..9),
            ascending: bool, gone in 0i64..40,
        ) {
            let direction = if ascending { Direction::Ascending } else { Direction::Descending };
            let groups: Vec<ListedGroup> = groups.into_iter().map(|(key, (count, last))| ListedGroup { count, last, key }).collect();
            let list = GroupList::new(groups.clone(), direction);
            let mut naive = groups;
            naive.sort_by_key(|g| (if ascending { g.count as i64 } else { -(g.count as i64) }, -g.last, g.key));
            prop_assert!(naive.iter().all(|group| list.contains(group.key)));
            prop_assert!(!list.contains(99));
            let without: Vec<ListedGroup> = naive.iter().copied().filter(|group| group.key != gone).collect();
            let later = GroupList::new(without, direction);
            let (mut read, mut read_later) = (Vec::new(), Vec::new());
            for size in sizes.iter().cycle() {
                let place = read.last().copied();
                let page = list.after(place.as_ref(), direction, *size);
                if page.is_empty() {
                    break;
                }
                prop_assert!(page.len() <= *size);
                if let Some(next) = later.after(place.as_ref(), direction, 1).first() {
                    read_later.push(*next);
                }
                read.extend_from_slice(page);
            }
            prop_assert_eq!(&read, &naive);
            prop_assert!(read_later.iter().all(|group| group.key != gone));
        }
    }
}
