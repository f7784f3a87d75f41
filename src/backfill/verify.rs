//! Compares the stamps of a sample of documents with the present decisions of a spinney.

use std::collections::HashSet;

use hyper::Method;
use serde_json::{Value, json};

use super::BackfillError;
use super::discovery::RouteIndices;
use crate::cluster::operator::{Operator, OperatorError, in_path};
use crate::cluster::search::Stored;
use crate::progress::{Progress, ReportProgress};
use crate::text::isolate;

/// The most documents of one search.
const PAGE: usize = 1_000;
/// Documents whose stamp is another that are named.
const NAMED: usize = 20;

/// The result of a sample.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VerifyReport {
    /// Documents in the sample.
    pub(crate) sampled: u64,
    /// Documents whose text the forest has under the root of the stamp.
    pub(crate) same: u64,
    /// It would join the tree of the stamp, though it is not known itself.
    pub(crate) would_join: u64,
    /// Documents without usable text, which have their own roots.
    pub(crate) without_text: u64,
    /// Unknown documents, which would found a tree. That is so when the window is over.
    pub(crate) unknown: u64,
    /// It would be in another tree.
    pub(crate) elsewhere: u64,
    /// Documents that changed meanwhile, or whose forest was unavailable.
    pub(crate) without_answer: u64,
    /// Ids of the first documents with another root or without a result.
    pub(crate) named: Vec<String>,
}

/// Checks a random sample of stamped documents, determined by `seed`. Reports its progress after each.
///
/// # Errors
/// If the cluster or spinney cannot be reached, or refuses.
pub(crate) async fn verify(
    spinney: &Operator,
    target: &RouteIndices,
    (sample, seed): (usize, u64),
    report: &ReportProgress<'_>,
) -> Result<VerifyReport, BackfillError> {
    let mut verified = VerifyReport::default();
    let mut seen = HashSet::new();
    // Every search chooses anew: a few documents come twice, and are passed over.
    let mut round = seed;
    while seen.len() < sample {
        let size = PAGE.min(sample - seen.len());
        let found = draw(spinney, target, size, round).await?;
        let drawn = found.len();
        let before = seen.len();
        // Fewer than were asked for are all that there are.
        let of = if drawn < size { before + drawn } else { sample };
        for hit in found {
            let name = format!("{}/{}", text(&hit["_index"]), isolate(text(&hit["_id"])));
            if seen.insert(name.clone()) {
                verified.check(spinney, target, &hit, &name).await?;
                report(Progress { forest: &target.route.forest, done: verified.sampled, total: of as u64 });
            }
        }
        if drawn < size || seen.len() == before {
            break;
        }
        round = round.wrapping_add(1);
    }
    Ok(verified)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

async fn draw(spinney: &Operator, target: &RouteIndices, size: usize, seed: u64) -> Result<Vec<Value>, BackfillError> {
    let root = target.names.root();
    let fields = target.route.fields.iter().map(String::as_str);
    let fields: Vec<&str> = fields.chain([root]).collect();
    let query = json!({"function_score": {
        "query": {"bool": {"filter": [target.all(), {"exists": {"field": root}}]}},
        "random_score": {"seed": seed, "field": "_seq_no"},
        "boost_mode": "replace",
    }});
    let body = json!({"size": size, "track_total_hits": false, "query": query, "_source": fields});
    let found = target.search(spinney, &body).await?.hits.into_iter();
    Ok(found.map(|Stored(hit)| hit).collect())
}

impl VerifyReport {
    /// Checks one document.
    async fn check(
        &mut self,
        spinney: &Operator,
        target: &RouteIndices,
        hit: &Value,
        name: &str,
    ) -> Result<(), BackfillError> {
        let (index, id) = (text(&hit["_index"]), text(&hit["_id"]));
        let known_as = target.name_of(index);
        let query: String = form_urlencoded::Serializer::new(String::new()).append_pair("id", id).finish();
        let path = format!("/_spinney/{}/_check?{query}", in_path(known_as));
        let source = &hit["_source"];
        let stamp = text(&source[target.names.root()]).to_owned();
        self.sampled += 1;
        match spinney.ask(Method::POST, &path, Some(source)).await {
            Ok(checked) => self.compare(&stamp, &checked, name),
            Err(error) => {
                self.without_answer += 1;
                self.name(format!("{name}: {error}"));
                if matches!(error, OperatorError::Unreachable { .. }) {
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    fn compare(&mut self, stamp: &str, checked: &Value, name: &str) {
        let (decision, root) = (text(&checked["decision"]), text(&checked["root"]));
        match decision {
            "refreshed" if root == stamp => self.same += 1,
            "joined" if root == stamp => self.would_join += 1,
            "own_root" => self.without_text += 1,
            "new_root" => self.unknown += 1,
            _ => {
                self.elsewhere += 1;
                self.name(format!("{name}: stamped {stamp}, now {decision} {root}"));
            }
        }
    }

    fn name(&mut self, what: String) {
        if self.named.len() < NAMED {
            self.named.push(what);
        }
    }

    /// Adds the result of another sample.
    pub(crate) fn add(&mut self, other: VerifyReport) {
        self.sampled += other.sampled;
        self.same += other.same;
        self.would_join += other.would_join;
        self.without_text += other.without_text;
        self.unknown += other.unknown;
        self.elsewhere += other.elsewhere;
        self.without_answer += other.without_answer;
        other.named.into_iter().for_each(|named| self.name(named));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_forest_says_of_a_stamp() {
        let mut verified = VerifyReport::default();
        let stamped = |decision: &str, root: &str| json!({"decision": decision, "root": root});
        for checked in [
            stamped("refreshed", "a"),
            stamped("refreshed", "b"),
            stamped("joined", "a"),
            stamped("joined", "b"),
            stamped("new_root", "c"),
            stamped("own_root", "d"),
            json!({}),
        ] {
            verified.compare("a", &checked, "news/1");
        }
        let VerifyReport { same, would_join, without_text, unknown, elsewhere, .. } = verified;
        assert_eq!((same, would_join, without_text, unknown, elsewhere), (1, 1, 1, 1, 3));
        assert_eq!(verified.named[0], "news/1: stamped a, now refreshed b");
    }
}
