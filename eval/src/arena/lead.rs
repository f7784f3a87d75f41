//! Joins without the lead: documents in the cluster of another one of which they do not have the beginning. In an
//! archive of press releases these are mostly other news over the same text about an issuer.

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::super::clustering::Clustering;
use super::super::documents::{Document, Documents};
use super::super::score::largest;
use super::shingles::Tokens;

/// Tokens of a text that are its lead.
const LEAD: usize = 70;

/// Documents that joined the cluster of another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Joins {
    /// Those whose text has tokens.
    pub all: u64,
    /// Of them, those of which fewer than half of the runs of the lead stand in title and text of the founder, the
    /// first document of the cluster.
    pub without_lead: u64,
}

impl Joins {
    /// The share without the lead, 0 to 1; `None` where nothing joined.
    pub fn share_without_lead(&self) -> Option<f64> {
        (self.all > 0).then(|| self.without_lead as f64 / self.all as f64)
    }

    /// Counts the joins of all clusters.
    pub(super) fn of(documents: &Documents, clustering: &Clustering) -> Joins {
        let clusters = largest(&clustering.roots);
        let of_cluster = |members: &Vec<Document>| {
            let Some((&founder, joined)) = members.split_first() else { return Joins::default() };
            let mut joins = Joins::default();
            // The runs of the founder, by their length; most clusters need one.
            let mut known: Vec<(usize, BTreeSet<u64>)> = Vec::new();
            let fields = documents.fields(founder);
            let founder = Tokens::of(&format!("{}\n{}", fields.title, fields.text));
            for &document in joined {
                let lead = Tokens::of(&documents.fields(document).text).first(LEAD);
                let length = lead.run_length();
                let runs = lead.runs(length);
                if runs.is_empty() {
                    continue;
                }
                if !known.iter().any(|(of, _)| *of == length) {
                    known.push((length, founder.runs(length)));
                }
                let of_founder = known.iter().find(|(of, _)| *of == length);
                let found = of_founder.map_or(0, |(_, of_founder)| runs.intersection(of_founder).count());
                joins.all += 1;
                joins.without_lead += u64::from(2 * found < runs.len());
            }
            joins
        };
        let add = |one: Joins, other: Joins| Joins {
            all: one.all + other.all,
            without_lead: one.without_lead + other.without_lead,
        };
        let joined = clusters.par_iter().filter(|members| members.len() > 1);
        joined.map(of_cluster).reduce(Joins::default, add)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::documents;
    use super::*;

    #[test]
    fn a_join_has_the_lead_if_half_of_it_stands_in_the_founder() {
        let words = |from: usize, to: usize| (from..to).map(|at| format!("w{at}x")).collect::<Vec<_>>().join(" ");
        let tail = words(1_000, 1_300);
        let text = |lead: &str| format!("{lead} {tail}");
        let all = words(0, 70);
        let documents = documents(&[
            ("Title", &text(&all)),
            // 34 of the 68 runs are those of the founder: half; then 33.
            ("", &text(&format!("{} {}", words(0, 36), words(200, 234)))),
            ("", &text(&format!("{} {}", words(0, 35), words(200, 235)))),
            ("", &text(&words(300, 370))),
            ("Alone", &all),
            ("No text", ""),
        ]);
        let clustering = Clustering { roots: vec![1, 1, 1, 1, 2, 1], ..Clustering::default() };
        assert_eq!(Joins::of(&documents, &clustering), Joins { all: 3, without_lead: 2 });
        let alone = Clustering { roots: vec![1, 2, 3, 4, 5, 6], ..Clustering::default() };
        assert_eq!(Joins::of(&documents, &alone).share_without_lead(), None);
    }
}
