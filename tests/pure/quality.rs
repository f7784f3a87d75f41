//! What the methods find of the project's own labelled pairs, so that no change makes them worse unseen: 466 pairs of
//! every kind of edit and look-alike, Chinese and English (scripts/sample/README.md).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use crate::page_chrome::corpus::shuffled;
use crate::stamping;

/// Lines of `method label kind lang pairs together`, tab-separated: what was found when this was last looked at.
const RECORDED: &str = include_str!("quality.tsv");

struct Pair {
    one: String,
    other: String,
    same: bool,
    kind: String,
    language: String,
}

fn sample(file: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/sample");
    std::fs::read_to_string(format!("{folder}/{file}")).unwrap()
}

fn pairs() -> Vec<Pair> {
    let text = sample("pairs.tsv");
    let rows = text.lines().skip(1).map(|line| line.split('\t').collect());
    rows.map(|row: Vec<&str>| Pair {
        one: row[0].into(),
        other: row[1].into(),
        same: row[2] == "same",
        kind: row[3].into(),
        language: row[4].into(),
    })
    .collect()
}

/// Roots by id, the documents placed in the order of the lines.
fn roots(method: &str, documents: &[&str]) -> HashMap<String, String> {
    let options = format!("method = \"{method}\"\ntitle_field = \"title\"");
    stamping::roots(&options, documents)
}

/// Pairs and pairs put together, by `label kind lang`.
fn found(roots: &HashMap<String, String>) -> BTreeMap<String, (usize, usize)> {
    let mut found = BTreeMap::new();
    for pair in pairs() {
        let label = if pair.same { "same" } else { "different" };
        let key = format!("{label}\t{}\t{}", pair.kind, pair.language);
        let (all, together) = found.entry(key).or_insert((0, 0));
        *all += 1;
        *together += usize::from(roots[&pair.one] == roots[&pair.other]);
    }
    found
}

#[test]
fn no_method_finds_less_or_mixes_more_than_recorded() {
    let documents = sample("pairs.ndjson");
    let documents: Vec<&str> = documents.lines().collect();
    let (mut worse, mut table) = (Vec::new(), String::new());
    for method in ["verified", "longest", "full", "sentences:3"] {
        for (key, (all, together)) in found(&roots(method, &documents)) {
            let line = format!("{method}\t{key}\t{all}\t");
            let recorded = RECORDED.lines().find_map(|row| row.strip_prefix(&line));
            let recorded: Option<usize> = recorded.and_then(|count| count.parse().ok());
            let holds = recorded.is_some_and(|count| match key.starts_with("same") {
                true => together >= count,
                false => together <= count,
            });
            if !holds {
                worse.push(format!("{line}{together}, recorded {recorded:?}"));
            }
            let _ = writeln!(table, "{line}{together}");
        }
    }
    assert_eq!(table.lines().count(), RECORDED.lines().count(), "every kind that is recorded was looked at:\n{table}");
    assert!(
        worse.is_empty(),
        "worse than recorded:\n{}\n\nall figures now, for tests/pure/quality.tsv if that is meant:\n{table}",
        worse.join("\n")
    );
}

/// Which article comes first decides which one is the root, and what was seen often by then what is boilerplate: little
/// may depend on it.
#[test]
fn the_order_of_arrival_changes_little() {
    let documents = sample("pairs.ndjson");
    let documents: Vec<&str> = documents.lines().collect();
    let (mut recalls, mut wrong) = (Vec::new(), Vec::new());
    for seed in 1..=10 {
        let roots = roots("verified", &shuffled(&documents, seed));
        let sum = |label: &str| -> (usize, usize) {
            let found = found(&roots);
            let of = found.iter().filter(|(key, _)| key.starts_with(label));
            of.fold((0, 0), |sum, (_, count)| (sum.0 + count.0, sum.1 + count.1))
        };
        let (all, together) = sum("same");
        recalls.push(together as f64 / all as f64);
        wrong.push(sum("different").1);
    }
    let mean = recalls.iter().sum::<f64>() / recalls.len() as f64;
    // Within four of 328 pairs.
    assert!(mean >= 0.99 && recalls.iter().all(|recall| (recall - mean).abs() <= 0.0123), "mean {mean}: {recalls:?}");
    // Short notices that differ in one place name, and notices that are mostly a footer which few have shown so far.
    assert!(wrong.iter().all(|&wrong| wrong <= 18), "{wrong:?}");
}
