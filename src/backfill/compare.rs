//! Compares two groupings of the same documents. Each document has a root by either, in fields of its own.

use std::collections::{HashMap, HashSet};

use super::BackfillError;
use super::discovery::RouteIndices;
use super::restamp::shown;
use crate::bulk::StampNames;
use crate::cluster::operator::Operator;
use crate::cluster::sorted_pages::{Slice, SortField};
use crate::forest::Root;
use crate::progress::{Progress, ReportProgress};

/// Documents of a page.
const PAGE: usize = 5_000;

/// The roots of documents by two groupings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// With how many documents a pair of roots is seen.
    pairs: HashMap<(Root, Root), u64>,
    /// Documents with a root by the first grouping only.
    pub(crate) first_only: u64,
    /// By the second only.
    pub(crate) second_only: u64,
    /// By neither.
    pub(crate) without: u64,
}

/// The difference between two groupings of the same documents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GroupChanges {
    /// Documents with both.
    pub(crate) documents: u64,
    /// Groups of two or more by the first grouping, and by the second.
    pub(crate) groups: [u64; 2],
    /// Documents in these.
    pub(crate) grouped: [u64; 2],
    /// Documents whose group is the same by both.
    pub(crate) same: u64,
    /// Documents whose group gains members and loses none.
    pub(crate) more: u64,
    /// Documents whose group loses members and gains none.
    pub(crate) fewer: u64,
    /// Those for whom both is so.
    pub(crate) other: u64,
}

impl Compared {
    /// Takes in a document.
    pub(crate) fn add(&mut self, first: Option<Root>, second: Option<Root>) {
        match (first, second) {
            (Some(first), Some(second)) => *self.pairs.entry((first, second)).or_default() += 1,
            (Some(_), None) => self.first_only += 1,
            (None, Some(_)) => self.second_only += 1,
            (None, None) => self.without += 1,
        }
    }

    /// The differences.
    pub(crate) fn group_changes(&self) -> GroupChanges {
        let mut sizes: [HashMap<Root, u64>; 2] = Default::default();
        for (&(first, second), &documents) in &self.pairs {
            for (sizes, root) in sizes.iter_mut().zip([first, second]) {
                *sizes.entry(root).or_default() += documents;
            }
        }
        let mut company = GroupChanges::default();
        for (at, sizes) in sizes.iter().enumerate() {
            let grouped = sizes.values().filter(|&&size| size > 1);
            let (groups, documents) = grouped.fold((0, 0), |(n, sum), size| (n + 1, sum + size));
            (company.groups[at], company.grouped[at]) = (groups, documents);
        }
        for ((first, second), &documents) in &self.pairs {
            company.documents += documents;
            let [left, came] = [(first, &sizes[0]), (second, &sizes[1])]
                .map(|(root, sizes)| sizes.get(root).is_some_and(|&size| size > documents));
            *match (left, came) {
                (false, false) => &mut company.same,
                (false, true) => &mut company.more,
                (true, false) => &mut company.fewer,
                (true, true) => &mut company.other,
            } += documents;
        }
        company
    }
}

/// Reads both roots of all documents of a target: the first by the stamp with `first`'s field names, the second by
/// the target's own stamp. `total`: the number of all documents.
///
/// # Errors
/// If the cluster cannot be reached or refuses.
pub(crate) async fn compare(
    reader: &Operator,
    target: &RouteIndices,
    first: &StampNames,
    compared: &mut Compared,
    total: u64,
    report: &ReportProgress<'_>,
) -> Result<(), BackfillError> {
    let mut target = target.clone();
    let second = target.names.root().to_owned();
    target.order = SortField::of_arrival();
    target.route.fields = vec![first.root().to_owned(), second.clone()];
    let mut pages = target.pages(reader, target.all(), Slice::ALL, PAGE);
    let mut progress = Progress { forest: &target.route.forest, done: 0, total };
    // A point in time that is lost begins again: its documents are not to count twice.
    let mut seen = HashSet::new();
    while let Some(found) = pages.next().await? {
        for found in &found {
            if seen.insert((found.index.clone(), found.id.clone(), found.routing.clone())) {
                compared.add(shown(&found.source, first.root()), shown(&found.source, &second));
            }
        }
        progress.done += found.len() as u64;
        report(progress);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::fingerprint::Fingerprint;

    proptest! {
        #[test]
        fn company_as_sets_have_it(documents in prop::collection::vec((0u64..6, 0u64..6), 0..30)) {
            let root = |number| Some(Root(Fingerprint(number)));
            let mut compared = Compared::default();
            for &(first, second) in &documents {
                compared.add(root(first), root(second));
            }
            let mut expected = GroupChanges {
                documents: documents.len() as u64,
                ..GroupChanges::default()
            };
            let of = |is_of: &dyn Fn(&(u64, u64)) -> bool| -> BTreeSet<usize> {
                let of = documents.iter().enumerate().filter(|(_, document)| is_of(document));
                of.map(|(at, _)| at).collect()
            };
            let mut groups: [BTreeSet<BTreeSet<usize>>; 2] = Default::default();
            for &(first, second) in &documents {
                let before = of(&|d| d.0 == first);
                let after = of(&|d| d.1 == second);
                *match (before.is_subset(&after), after.is_subset(&before)) {
                    (true, true) => &mut expected.same,
                    (true, false) => &mut expected.more,
                    (false, true) => &mut expected.fewer,
                    (false, false) => &mut expected.other,
                } += 1;
                for (groups, group) in groups.iter_mut().zip([before, after]) {
                    if group.len() > 1 {
                        groups.insert(group);
                    }
                }
            }
            for (at, groups) in groups.iter().enumerate() {
                expected.groups[at] = groups.len() as u64;
                expected.grouped[at] = groups.iter().map(|group| group.len() as u64).sum();
            }
            prop_assert_eq!(compared.group_changes(), expected);
        }
    }

    #[test]
    fn documents_without_one_of_the_roots_are_counted_apart() {
        let mut compared = Compared::default();
        let root = Some(Root(Fingerprint(1)));
        for (first, second) in [(root, root), (root, None), (None, root), (None, None), (root, None)] {
            compared.add(first, second);
        }
        assert_eq!((compared.first_only, compared.second_only, compared.without), (2, 1, 1));
        assert_eq!(compared.group_changes().documents, 1);
    }
}
