use proptest::prelude::*;

use super::super::labels::LabelledPair;
use super::*;

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}

/// Every pair of documents looked at.
fn naive(roots: &[u64], clusters: &LabelledClusters) -> Counts {
    let mut counts = Counts::default();
    for (at, &(one, one_cluster)) in clusters.members.iter().enumerate() {
        for &(other, other_cluster) in &clusters.members[..at] {
            let found = roots[one as usize] == roots[other as usize];
            counts.add(found, one_cluster == other_cluster);
        }
    }
    counts
}

/// The definition of Hubert and Arabie, from the sizes of the overlaps.
fn naive_rand(roots: &[u64], clusters: &LabelledClusters) -> f64 {
    let pairs = |count: usize| (count * count.saturating_sub(1)) as f64 / 2.0;
    let members = &clusters.members;
    let size =
        |belongs: &dyn Fn(&(Document, u32)) -> bool| pairs(members.iter().filter(|member| belongs(member)).count());
    let (mut index, mut of_found, mut of_labelled) = (0.0, 0.0, 0.0);
    for found in 0..20u64 {
        of_found += size(&|member| roots[member.0 as usize] == found);
        for labelled in 0..20 {
            index += size(&|member| roots[member.0 as usize] == found && member.1 == labelled);
        }
    }
    for labelled in 0..20 {
        of_labelled += size(&|member| member.1 == labelled);
    }
    let expected = of_found * of_labelled / pairs(members.len()).max(1.0);
    let most = (of_found + of_labelled) / 2.0;
    if close(most, expected) { 1.0 } else { (index - expected) / (most - expected) }
}

fn labelled_documents() -> impl Strategy<Value = (Vec<u64>, LabelledClusters)> {
    prop::collection::vec((0u64..6, prop::option::weighted(0.8, 0u32..6)), 1..40).prop_map(|documents| {
        let roots = documents.iter().map(|&(root, _)| root).collect();
        let labelled = (0..).zip(&documents);
        let members = labelled.filter_map(|(at, &(_, labelled))| Some((at, labelled?))).collect();
        let clusters = LabelledClusters { members, left_out: 0 };
        (roots, clusters)
    })
}

proptest! {
    #[test]
    fn clusters_count_as_every_pair_of_them((roots, labelled) in labelled_documents()) {
        let (counts, mistakes) = against_clusters(&roots, &labelled);
        prop_assert_eq!(counts, naive(&roots, &labelled));
        prop_assert!(close(counts.adjusted_rand(), naive_rand(&roots, &labelled)));
        let sum = |mistakes: &[Mistake]| mistakes.iter().map(|mistake| mistake.pairs).sum::<u64>();
        prop_assert_eq!(sum(&mistakes.together), counts.wrongly_together);
        prop_assert_eq!(sum(&mistakes.apart), counts.wrongly_apart);
        let of = |document| labelled.members.iter().find(|member| member.0 == document).unwrap().1;
        for mistake in &mistakes.together {
            prop_assert_eq!(root(&roots, mistake.one), root(&roots, mistake.other));
            prop_assert_ne!(of(mistake.one), of(mistake.other));
        }
        for mistake in &mistakes.apart {
            prop_assert_ne!(root(&roots, mistake.one), root(&roots, mistake.other));
            prop_assert_eq!(of(mistake.one), of(mistake.other));
        }
        prop_assert!(mistakes.together.is_sorted_by_key(|mistake| std::cmp::Reverse(mistake.pairs)));
    }

    #[test]
    fn all_pairs_labelled_say_the_same_as_the_clusters((roots, labelled) in labelled_documents()) {
        let mut all = LabelledPairs::default();
        for (at, &(one, one_cluster)) in labelled.members.iter().enumerate() {
            for &(other, other_cluster) in &labelled.members[..at] {
                let label = if one_cluster == other_cluster { Label::Together } else { Label::Apart };
                all.pairs.push(LabelledPair {
                    one,
                    other,
                    label,
                    name: 0,
                });
            }
        }
        let scored = against_pairs(&roots, &all);
        prop_assert_eq!(scored.counts, against_clusters(&roots, &labelled).0);
        let sum = |mistakes: &[Mistake]| mistakes.iter().map(|mistake| mistake.pairs).sum::<u64>();
        prop_assert_eq!(sum(&scored.mistakes.together), scored.counts.wrongly_together);
        prop_assert_eq!(sum(&scored.mistakes.apart), scored.counts.wrongly_apart);
    }

    #[test]
    fn the_largest_come_first_and_none_is_lost(roots in prop::collection::vec(0u64..8, 0..40)) {
        let found = largest(&roots);
        prop_assert!(found.is_sorted_by_key(|members| std::cmp::Reverse(members.len())));
        for members in &found {
            prop_assert!(members.iter().all(|&member| root(&roots, member) == root(&roots, members[0])));
        }
        let mut all: Vec<Document> = found.concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..roots.len() as u32).collect::<Vec<_>>());
    }
}

#[test]
fn figures_of_a_small_case() {
    let counts = Counts { rightly_together: 6, wrongly_together: 2, wrongly_apart: 6, rightly_apart: 14 };
    assert_eq!(counts.precision(), Some(0.75));
    assert_eq!(counts.recall(), Some(0.5));
    assert_eq!(counts.f1(), Some(0.6));
    let nothing = Counts::default();
    assert_eq!((nothing.precision(), nothing.recall(), nothing.f1()), (None, None, None));
}

#[test]
fn labels_that_are_neither_right_nor_wrong_stand_by_themselves() {
    let labelled = LabelledPairs::resolve("1\t2\tgrey\n1\t3\tgrey\n2\t3\tdup\n", |id| id.parse().ok()).unwrap();
    let scored = against_pairs(&[0, 5, 5, 6], &labelled);
    assert_eq!(scored.others, [("grey".to_owned(), 1, 2)]);
    assert_eq!(scored.counts, Counts { wrongly_apart: 1, ..Counts::default() });
    assert_eq!(scored.mistakes.apart, [Mistake { one: 2, other: 3, pairs: 1 }]);
}
