//! An array in pieces of one size.
//!
//! Thousands of shards that grow a little at a time, each in one piece, would leave holes in the heap that are just too small
//! for what grows next. Pages of one size fill the holes of others, and a grown array keeps the pages it has.

/// An array of pages of `PAGE` elements, a power of two. A smaller array is one short page.
#[derive(Debug)]
pub(super) struct Pages<T, const PAGE: usize> {
    pages: Vec<Box<[T]>>,
    len: usize,
}

impl<T: Copy, const PAGE: usize> Pages<T, PAGE> {
    pub(super) const fn new() -> Self {
        Pages {
            pages: Vec::new(),
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        self.pages.get(at / PAGE)?.get(at % PAGE)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.pages.get_mut(at / PAGE)?.get_mut(at % PAGE)
    }

    /// What is left of the page that a place is in, from the place on; none behind the end.
    #[inline]
    pub(super) fn rest(&self, at: usize) -> Option<&[T]> {
        let rest = self.pages.get(at / PAGE)?.get(at % PAGE..)?;
        (!rest.is_empty()).then_some(rest)
    }

    /// The same, up to `end` at most.
    #[inline]
    pub(super) fn rest_mut(&mut self, at: usize, end: usize) -> Option<&mut [T]> {
        let rest = self.pages.get_mut(at / PAGE)?.get_mut(at % PAGE..)?;
        let len = rest.len().min(end.saturating_sub(at));
        rest.get_mut(..len).filter(|rest| !rest.is_empty())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flatten()
    }

    /// The next length that an array of at least so many elements can have.
    pub(super) fn length(wanted: usize) -> usize {
        if wanted <= PAGE {
            wanted
        } else {
            wanted.next_multiple_of(PAGE)
        }
    }

    /// Makes the array [`Self::length`] of `wanted` long: cuts it off, or fills what is new.
    pub(super) fn resize(&mut self, wanted: usize, fill: T) {
        let len = Self::length(wanted);
        let pages = len.div_ceil(PAGE);
        if len.min(self.len) < PAGE && len != self.len {
            // The one page changes its size.
            let mut page = Vec::with_capacity(len.min(PAGE));
            if let Some(old) = self.pages.first() {
                page.extend(old.iter().take(len).copied());
            }
            page.resize(len.min(PAGE), fill);
            self.pages.clear();
            if !page.is_empty() {
                self.pages.push(page.into_boxed_slice());
            }
        }
        self.pages.truncate(pages);
        self.pages.reserve_exact(pages - self.pages.len());
        while self.pages.len() < pages {
            self.pages.push(vec![fill; PAGE].into_boxed_slice());
        }
        self.pages.shrink_to_fit();
        self.len = len;
    }

    /// Bytes of the elements and of the list of pages.
    pub(super) fn memory_bytes(&self) -> usize {
        self.len * size_of::<T>() + self.pages.capacity() * size_of::<Box<[T]>>()
    }
}

/// The next larger size on the ladder of one of many arrays that are filled alike. The rungs are `1 / per_doubling` of a
/// doubling apart, and moved against the other arrays' by `phase`, 0 to 1: so they do not all grow at once, and together they
/// are always filled equally well.
pub(super) fn rung_above(size: usize, per_doubling: f64, phase: f64) -> usize {
    // A rung may have been rounded down to this size.
    let rung = ((size as f64 + 0.5).log2() * per_doubling - phase).floor() + 1.0;
    let above = ((rung + phase) / per_doubling).exp2().round() as usize;
    above.max(size + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn resizing_keeps_what_stays(lengths in prop::collection::vec(0..100_usize, 1..20)) {
            let mut pages: Pages<usize, 8> = Pages::new();
            let mut naive = Vec::new();
            for (fill, wanted) in lengths.into_iter().enumerate() {
                pages.resize(wanted, fill);
                naive.resize(if wanted <= 8 { wanted } else { wanted.div_ceil(8) * 8 }, fill);
                prop_assert_eq!(pages.len(), naive.len());
                prop_assert_eq!(pages.iter().copied().collect::<Vec<_>>(), naive.clone());
                for at in 0..naive.len() + 9 {
                    prop_assert_eq!(pages.get(at), naive.get(at));
                    let rest = naive.get(at..(at / 8 * 8 + 8).min(naive.len())).filter(|rest| !rest.is_empty());
                    prop_assert_eq!(pages.rest(at), rest);
                    let some = pages.rest_mut(at, at + 3).map(|rest| rest.len());
                    prop_assert_eq!(some, rest.map(|rest| rest.len().min(3)));
                }
            }
        }

        #[test]
        fn rungs_go_up_by_the_ratio(size in 32..100_000_usize, phase in 0.0..1.0_f64) {
            let above = rung_above(size, 6.0, phase);
            let ratio = above as f64 / size as f64;
            prop_assert!(above > size && ratio < 1.123 + 1.0 / size as f64, "{} to {}", size, above);
            let next = rung_above(above, 6.0, phase) as f64 / above as f64;
            prop_assert!((next - 2_f64.powf(1.0 / 6.0)).abs() < 2.0 / above as f64, "then by {}", next);
        }
    }
}
