//! What `scripts/bench` measures with: the same documents for ever, right medians, and an eye for failed items.

#[path = "../../benches/support/answers.rs"]
mod answers;
#[path = "../../benches/support/documents.rs"]
mod documents;
#[path = "../../benches/support/pairs.rs"]
mod pairs;
#[path = "../../benches/support/stats.rs"]
mod stats;
#[path = "../../benches/support/words.rs"]
mod words;

use crate::random;
use bytes::Bytes;
use documents::{Documents, Language, REPRINTS_PERCENT};
use pairs::{Alike, Pairs, compare};
use proptest::prelude::*;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

fn lines(seed: u64, language: Option<Language>, count: usize) -> Vec<u8> {
    let mut documents = Documents::new(seed, language);
    let mut out = Vec::new();
    (0..count).for_each(|_| documents.write_next(&mut out));
    out
}

fn parsed(bytes: &[u8]) -> Vec<Value> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// Figures of two versions can be compared only while the documents stay the same: change this hash knowingly.
#[test]
fn the_documents_of_a_seed_never_change() {
    assert_eq!(format!("{:016x}", xxh3_64(&lines(1, None, 3_000))), "de16dbba75c9c5b1");
    assert_ne!(lines(1, None, 10), lines(2, None, 10));
}

#[test]
fn documents_are_json_of_about_two_kilobytes_in_both_languages() {
    let bytes = lines(7, None, 5_000);
    let documents = parsed(&bytes);
    assert_eq!(documents.len(), 5_000);
    let mean = bytes.len() / documents.len();
    assert!((1_800..=2_300).contains(&mean), "a document has {mean} bytes on average");
    let chinese = documents.iter().filter(|document| document["lang"] == "zh").count();
    assert!((2_000..=3_000).contains(&chinese), "{chinese} of 5,000 are Chinese");
    for document in &documents {
        assert!(document["title"].as_str().is_some_and(|title| title.len() >= 5));
        assert!(document["content"].as_str().is_some_and(|content| content.len() >= 200));
        assert!(document["published_at"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    }
}

#[test]
fn a_language_asked_for_is_the_only_one() {
    for language in [Language::Chinese, Language::English] {
        let documents = parsed(&lines(7, Some(language), 300));
        assert_eq!(documents.len(), 300);
        assert!(documents.iter().all(|document| document["lang"] == language.code()));
    }
}

/// The forest has work to do: the promised share of documents has its longest paragraph from an earlier one.
#[test]
fn the_promised_share_of_documents_is_reprinted() {
    let mut seen = std::collections::HashSet::new();
    let mut reprints = 0;
    for document in parsed(&lines(9, None, 5_000)) {
        let content = document["content"].as_str().unwrap().replace("</p>", "\n").replace("<p>", "");
        // One paragraph may be the one that was dropped or changed; two of them never are all three.
        let mut paragraphs: Vec<_> = content.lines().map(str::to_owned).collect();
        paragraphs.sort_by_key(|paragraph| std::cmp::Reverse(paragraph.len()));
        let known = paragraphs.into_iter().take(3).filter(|paragraph| !seen.insert(paragraph.clone()));
        reprints += usize::from(known.count() > 0);
    }
    let percent = reprints as f64 / 50.0;
    let promised = REPRINTS_PERCENT as f64;
    assert!((promised - 4.0..=promised + 4.0).contains(&percent), "{percent} of 100 are reprints");
}

proptest! {
    #[test]
    fn a_median_has_as_many_values_below_as_above(values in prop::collection::vec(-1e6f64..1e6, 1..40)) {
        let median = stats::median(&values);
        let below = values.iter().filter(|value| **value < median).count();
        let above = values.iter().filter(|value| **value > median).count();
        prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
    }

    #[test]
    fn a_quantile_splits_the_values_at_its_share(
        values in prop::collection::vec(-1e6f64..1e6, 1..200),
        share in 0.0f64..=1.0,
    ) {
        let quantile = stats::quantile(&values, share);
        let at_most = values.iter().filter(|value| **value <= quantile).count() as f64;
        let less = values.iter().filter(|value| **value < quantile).count() as f64;
        let last = values.len() as f64 - 1.0;
        // The position counts from 0 to the last value; the line between two neighbours may round by a hair.
        prop_assert!(at_most + 1.0 >= share * last && less <= share * last + 1.0);
    }
}

#[test]
fn known_quantiles() {
    assert_eq!(stats::median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(stats::median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    assert_eq!(stats::quantile(&[10.0, 20.0, 30.0, 40.0, 50.0], 0.25), 20.0);
    assert_eq!(stats::quantile(&[0.0, 100.0], 0.99), 99.0);
    assert!(stats::median(&[]).is_nan());
    assert_eq!(stats::rounded(0.956_78, 3), 0.957);
}

#[test]
fn a_failed_or_missing_item_is_noticed() {
    let good = r#"{"took":1,"errors":false,"items":[{"index":{"status":201}},{"index":{"status":201}}]}"#;
    let failed = r#"{"took":1,"errors":true,"items":[{"index":{"status":201}},{"index":{"status":429,"error":{"type":"rejected"}}}]}"#;
    let contradiction = good.replace("false", "true");
    let check = |answers: &[&str], items| {
        let answers: Vec<_> = answers.iter().map(|answer| Bytes::copy_from_slice(answer.as_bytes())).collect();
        answers::check(&answers, items)
    };
    assert!(check(&[good, good], 2).is_ok());
    let said = check(&[good, failed], 2).unwrap_err().to_string();
    assert!(said.contains("429") && said.contains("rejected"), "{said}");
    assert!(check(&[good], 3).unwrap_err().to_string().contains("2 items"));
    assert!(check(&[&contradiction], 2).is_err());
    assert!(check(&["<html>"], 2).is_err());
}

proptest! {
    /// Against going through all pairs.
    #[test]
    fn clusterings_are_compared_in_pairs(
        roots in prop::collection::vec((0_u64..5, 0_u64..5), 0..40),
        labels in prop::collection::vec((0_usize..40, 0_usize..40), 0..40),
    ) {
        let (first, second): (Vec<u64>, Vec<u64>) = roots.iter().copied().unzip();
        let ids: Vec<String> = (0..roots.len()).map(|id| id.to_string()).collect();
        let labels: Vec<_> = labels.into_iter().filter(|(a, b)| a < b).collect();
        let lines = labels.iter().map(|(a, b)| format!("{b}\t{a}\tdup\n"));
        let file = std::env::temp_dir().join(format!("spinney-pairs-{}", std::process::id()));
        std::fs::write(&file, lines.collect::<String>()).unwrap();
        let labelled = Pairs::read(std::slice::from_ref(&file), &ids);
        std::fs::remove_file(&file).unwrap();
        let mut naive = Alike { pairs: 0, only_first: 0, only_second: 0 };
        for b in 0..roots.len() {
            for a in 0..b {
                let (in_first, in_second) = (first[a] == first[b], second[a] == second[b]);
                let counts = in_first || in_second || labels.contains(&(a, b));
                naive.pairs += u64::from(counts);
                naive.only_first += u64::from(in_first && !in_second);
                naive.only_second += u64::from(in_second && !in_first);
            }
        }
        prop_assert_eq!(compare(&first, &second, &labelled), naive);
        prop_assert!(labelled.len() <= labels.len() && naive.share() <= 1.0);
    }
}
