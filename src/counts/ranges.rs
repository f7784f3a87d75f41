//! Ranges of keys that together are all keys, each key in one of them.

/// Keys from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The smallest key.
    pub first: i64,
    /// The largest key; not below `first`.
    pub last: i64,
}

impl KeyRange {
    /// The two halves; `None` for a single key.
    pub(super) fn halves(self) -> Option<(KeyRange, KeyRange)> {
        if self.first >= self.last {
            return None;
        }
        // Rounds down, so it is below `last`, and the next key exists.
        let middle = (i128::from(self.first) + i128::from(self.last)).div_euclid(2) as i64;
        let (first, last) = (self.first, self.last);
        Some((KeyRange { first, last: middle }, KeyRange { first: middle + 1, last }))
    }
}

/// The most parts that all keys are cut into.
pub(super) const MOST_PARTS: u32 = 1 << 16;

/// A partition of all keys into ranges of equal width, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RangeParts {
    parts: u32,
}

impl RangeParts {
    /// Cuts all keys of an index so that about `each` of its documents fall into a range, if keys are spread evenly.
    pub(crate) fn of(documents: u64, each: u64) -> RangeParts {
        let wanted = documents.div_ceil(each.max(1)).clamp(1, MOST_PARTS.into());
        let parts = u32::try_from(wanted).unwrap_or(MOST_PARTS);
        RangeParts { parts: parts.next_power_of_two() }
    }

    /// The number of ranges, at least 1.
    pub(crate) fn count(self) -> u32 {
        self.parts
    }

    /// The range with this number, `None` beyond the last one.
    pub(crate) fn get(self, at: u32) -> Option<KeyRange> {
        if at >= self.parts {
            return None;
        }
        let width = (1_i128 << 64) / i128::from(self.parts);
        let first = i128::from(i64::MIN) + width * i128::from(at);
        Some(KeyRange { first: first as i64, last: (first + width - 1) as i64 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: KeyRange = KeyRange { first: i64::MIN, last: i64::MAX };

    /// Whether these are all keys without gaps or overlaps.
    fn is_everything(ranges: &[KeyRange]) -> bool {
        let ordered = ranges.iter().all(|range| range.first <= range.last);
        let joined = ranges.windows(2).all(|pair| pair[0].last.checked_add(1) == Some(pair[1].first));
        let (first, last) = (ranges[0].first, ranges[ranges.len() - 1].last);
        ordered && joined && first == i64::MIN && last == i64::MAX
    }

    #[test]
    fn parts_are_all_keys() {
        for documents in [0, 1, 3_999, 4_000, 4_001, 1_000_000, 1 << 28, u64::MAX] {
            let parts = RangeParts::of(documents, 4_000);
            let ranges: Vec<KeyRange> = (0..).map_while(|at| parts.get(at)).collect();
            assert_eq!(ranges.len(), parts.count() as usize);
            assert!(is_everything(&ranges), "{documents}");
        }
        assert_eq!(RangeParts::of(1_000_000, 4_000).count(), 256);
        assert_eq!(RangeParts::of(1_000_000, 125_000).count(), 8);
        assert_eq!(RangeParts::of(0, 0).get(0), Some(ALL));
        assert_eq!(RangeParts::of(u64::MAX, 1).count(), MOST_PARTS);
    }

    proptest! {
        #[test]
        fn halves_lose_no_key(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..200)) {
            let mut ranges = vec![ALL];
            for cut in cuts {
                let at = cut.index(ranges.len());
                if let Some((low, high)) = ranges[at].halves() {
                    ranges.splice(at..=at, [low, high]);
                }
            }
            prop_assert!(is_everything(&ranges));
        }

        #[test]
        fn halves_of_any_range(a in any::<i64>(), b in any::<i64>()) {
            let range = KeyRange { first: a.min(b), last: a.max(b) };
            match range.halves() {
                None => prop_assert_eq!(a, b),
                Some((low, high)) => {
                    prop_assert_eq!((low.first, high.last), (range.first, range.last));
                    prop_assert_eq!(low.last.checked_add(1), Some(high.first));
                    prop_assert!(low.first <= low.last && high.first <= high.last);
                }
            }
        }
    }
}
