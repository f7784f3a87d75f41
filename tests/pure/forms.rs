//! What an alignment check is for, on the project's own pairs (scripts/sample/forms.py): forms filled in for another
//! town, firm or amount, annual notices, notices over one disclaimer; and the same texts in another notation, or with a
//! sentence changed.

use std::collections::BTreeMap;

use crate::stamping;

fn sample(file: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/sample");
    std::fs::read_to_string(format!("{folder}/{file}")).unwrap()
}

/// Pairs and pairs put together, by label and kind.
fn found(options: &str) -> BTreeMap<(String, String), (usize, usize)> {
    let documents = sample("forms.ndjson");
    let documents: Vec<&str> = documents.lines().collect();
    let options = format!("method = \"verified\"\ntitle_field = \"title\"\n{options}");
    let roots = stamping::roots(&options, &documents);
    let mut found = BTreeMap::new();
    for row in sample("forms.tsv").lines().skip(1) {
        let [one, other, label, kind, _] = row.split('\t').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let (all, together) = found.entry((label.into(), kind.into())).or_insert((0, 0));
        *all += 1;
        *together += usize::from(roots[one] == roots[other]);
    }
    found
}

#[test]
fn forms_stay_apart_and_other_notations_are_found() {
    let found = found("");
    let together = |label: &str, kind: &str| found[&(label.to_owned(), kind.to_owned())].1;
    assert!(found.values().map(|(all, _)| all).sum::<usize>() >= 80);
    assert!(together("different", "form") <= 1, "{found:?}");
    assert_eq!(together("different", "annual"), 0, "{found:?}");
    assert!(together("different", "disclaimer") <= 1, "{found:?}");
    assert!(together("same", "notation") >= 11, "{found:?}");
    assert!(together("same", "rewritten") >= 9, "{found:?}");
}

#[test]
fn without_founder_tokens_only_the_proof_decides() {
    let (with, without) = (found(""), found("founder_tokens_memory = \"0\""));
    let notation = ("same".to_owned(), "notation".to_owned());
    assert!(without[&notation].1 < with[&notation].1, "{without:?}");
}
