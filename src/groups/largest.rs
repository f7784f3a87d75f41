//! First page of groups by matching count without the whole list: each shard returns its largest groups only, and
//! their counts prove the page where its groups are large enough.
//!
//! A group that a shard did not return is no larger there than the smallest one returned. With `bound` as the sum of
//! these smallest counts over shards with more groups, a group that no shard returned has at most `bound` documents,
//! and a returned one at most that many more than the answer says. Above the bound the order is known once the
//! uncertain groups are counted.

use serde::Deserialize;
use serde_json::json;

use super::cursor::ListedGroup;
use super::enumerate::NO_TIME;
use super::error::ReadError;
use super::group_counts;
use super::query::SearchQuery;
use super::search::{SearchAnswer, SearchSource};

/// Groups that each shard returns: more cost time and lower the bound slowly.
const TOLD: usize = 1_000;

/// Groups that are counted beyond the page: some may turn out smaller than required.
const SLACK: usize = 10;

/// Groups that are counted at most: above that, the list is as fast.
const COUNTED: usize = 200;

#[derive(Debug, Deserialize)]
struct Groups {
    groups: ShardGroups,
}

/// Groups returned by the shards, the largest first.
#[derive(Debug, Deserialize)]
struct ShardGroups {
    #[serde(rename = "doc_count_error_upper_bound")]
    bound: u64,
    buckets: Vec<Bucket>,
}

#[derive(Debug, Deserialize)]
struct Bucket {
    key: i64,
    doc_count: u64,
}

impl ShardGroups {
    fn is_all(&self) -> bool {
        self.bound == 0 && self.buckets.len() < TOLD
    }

    /// The groups that may be among the first `size`, and an upper bound of the sizes of all others. `None` where that
    /// proves nothing.
    fn candidates(&self, size: usize) -> Option<(Vec<i64>, u64)> {
        let least = self.buckets.get(size + SLACK - 1)?.doc_count;
        let candidates = self.buckets.iter().take_while(|bucket| bucket.doc_count + self.bound >= least);
        let candidates: Vec<i64> = candidates.map(|bucket| bucket.key).collect();
        // Behind the last bucket that came there may be others like it.
        let is_whole = candidates.len() < self.buckets.len();
        (least > self.bound && is_whole && candidates.len() <= COUNTED).then_some((candidates, least))
    }
}

/// The counted groups with at least `least` documents, which no other group has, if they are `size` or more.
fn first(counted: impl Iterator<Item = (i64, u64)>, least: u64, size: usize) -> Option<Vec<ListedGroup>> {
    let counted = counted.filter(|(_, count)| *count >= least);
    let mut groups: Vec<ListedGroup> = counted.map(|(key, count)| listed(key, count)).collect();
    groups.sort_unstable_by_key(|group| (u64::MAX - group.count, group.key));
    (groups.len() >= size).then_some(groups)
}

fn listed(key: i64, count: u64) -> ListedGroup {
    ListedGroup { count, last: NO_TIME, key }
}

/// The first `size` groups of two or more documents of a query by their documents under it, or some more, of equals the
/// smaller key first; fewer are all of them. `None` where only the whole list can decide.
///
/// # Errors
/// As [`SearchSource::search`].
pub(super) async fn largest(
    source: &SearchSource<'_>,
    query: &SearchQuery,
    size: usize,
) -> Result<Option<Vec<ListedGroup>>, ReadError> {
    let body = json!({
        "size": 0,
        "track_total_hits": false,
        "aggs": {"groups": {"terms": {
            "field": source.fields.key, "min_doc_count": 2, "size": TOLD, "shard_size": TOLD,
        }}},
    });
    let answer: SearchAnswer<Groups> = source.search_by(&source.stamped(query, vec![]), body).await?;
    // Without a shard, as for a pattern that no index fits, there is no aggregation.
    let Some(Groups { groups }) = answer.aggregations else {
        return Ok(Some(Vec::new()));
    };
    if groups.is_all() {
        let all = groups.buckets.iter().map(|bucket| (bucket.key, bucket.doc_count));
        return Ok(first(all, 2, 0));
    }
    let Some((candidates, least)) = groups.candidates(size) else {
        return Ok(None);
    };
    let counted = group_counts::counts(source, query, &candidates).await?;
    Ok(first(counted.into_iter(), least, size))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Counts = BTreeMap<i64, u64>;

    /// What shards that tell `most` groups each would answer, as the servers do it.
    fn ask(shards: &[Counts], most: usize) -> ShardGroups {
        let (mut sum, mut bound) = (Counts::new(), 0);
        for shard in shards {
            let mut groups: Vec<(i64, u64)> = shard.iter().map(|(k, n)| (*k, *n)).collect();
            groups.sort_by_key(|(key, n)| (u64::MAX - n, *key));
            if groups.len() > most {
                groups.truncate(most);
                bound += groups.last().map_or(0, |(_, n)| *n);
            }
            for (key, n) in groups {
                *sum.entry(key).or_default() += n;
            }
        }
        let mut buckets: Vec<Bucket> =
            sum.into_iter().filter(|(_, n)| *n >= 2).map(|(key, doc_count)| Bucket { key, doc_count }).collect();
        buckets.sort_by_key(|bucket| (u64::MAX - bucket.doc_count, bucket.key));
        buckets.truncate(TOLD);
        ShardGroups { bound, buckets }
    }

    fn counts() -> impl Strategy<Value = Counts> {
        let count = prop_oneof![3 => 1_u64..4, 1 => 4_u64..200];
        prop::collection::btree_map(-200_i64..200, count, 0..200)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// What is proven is what counting everything says.
        #[test]
        fn a_page_that_is_proven_is_the_naive_one(
            shards in prop::collection::vec(counts(), 1..4), most in 1_usize..150, size in 1_usize..25,
        ) {
            let mut all = Counts::new();
            for (key, n) in shards.iter().flatten() {
                *all.entry(*key).or_default() += n;
            }
            let answer = ask(&shards, most);
            if answer.is_all() {
                let groups: Counts = answer.buckets.iter().map(|b| (b.key, b.doc_count)).collect();
                all.retain(|_, n| *n >= 2);
                prop_assert_eq!(groups, all);
            } else if let Some((candidates, least)) = answer.candidates(size) {
                let counted = candidates.iter().map(|key| (*key, all[key]));
                if let Some(page) = first(counted, least, size) {
                    let mut naive: Vec<ListedGroup> = all.iter().map(|(key, n)| listed(*key, *n)).collect();
                    naive.sort_by_key(|group| (u64::MAX - group.count, group.key));
                    naive.truncate(page.len());
                    prop_assert!(page.len() >= size);
                    prop_assert_eq!(page, naive);
                }
            }
        }
    }

    #[test]
    fn large_groups_prove_a_page_and_small_ones_do_not() {
        let large =
            |from: i64| -> Counts { (from..from + 300).map(|k| (k, if k % 3 == 0 { 50 } else { 1 })).collect() };
        let answer = ask(&[large(0), large(0)], 150);
        assert_eq!((answer.bound, answer.is_all()), (2, false));
        let (candidates, least) = answer.candidates(20).unwrap();
        assert_eq!((candidates.len(), least), (100, 100));
        let counted = candidates.iter().map(|key| (*key, 100));
        let page = first(counted, least, 20).unwrap();
        assert_eq!(page.iter().map(|group| group.key).collect::<Vec<_>>(), (0..300).step_by(3).collect::<Vec<_>>());
        // Many groups of three, and shards that hold back groups of one: four may be missing of each.
        let small: Counts = (0..300).map(|k| (k, 3)).collect();
        assert_eq!(ask(&[small.clone(), small], 150).candidates(20), None);
    }
}
