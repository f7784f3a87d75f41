//! A list that only grows, while others read it without waiting.

use std::fmt;
use std::ops::Index;

/// What is in it stays where it is: routes and forests are known by their numbers.
pub(super) struct Growing<T>(boxcar::Vec<T>);

impl<T> Growing<T> {
    /// All that is in it, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.0.iter().map(|(_, item)| item)
    }

    /// What has this number.
    pub(super) fn get(&self, number: usize) -> Option<&T> {
        self.0.get(number)
    }

    pub(super) fn len(&self) -> usize {
        self.0.count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds at the end. One at a time: otherwise the order is open.
    pub(super) fn extend(&self, items: impl IntoIterator<Item = T>) {
        for item in items {
            self.0.push(item);
        }
    }
}

impl<T> Index<usize> for Growing<T> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        &self.0[number]
    }
}

impl<T> FromIterator<T> for Growing<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Growing<T> {
        Growing(items.into_iter().collect())
    }
}

impl<T: fmt::Debug> fmt::Debug for Growing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
