//! What would happen to a document: it is what then happens, and asking changes nothing.

use std::collections::HashSet;

use super::*;
use crate::forest::{Decision, Root};
use crate::method::{Measure, Reason, Refusal};

const TEMPLATE: &str = "Treasury balances at the Federal Reserve rose to N.151 billion dollars from N.727 billion \
    dollars on the previous business day, the Treasury said in its latest budget statement. The operating cash balance \
    totaled N.289 billion dollars compared with another sum on the day before that one, officials added on the phone.";

fn spread(seed: usize) -> usize {
    (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

/// The first `kept` sentences of one article and the rest of another.
fn mixed(one: usize, other: usize, kept: usize) -> String {
    let (a, b) = (article(one), article(other));
    let sentences = |text: &str| text.split_inclusive(". ").map(str::to_owned).collect();
    let (a, b): (Vec<String>, Vec<String>) = (sentences(&a), sentences(&b));
    a.iter().take(kept).chain(b.iter().skip(kept)).cloned().collect()
}

fn footer(n: usize) -> String {
    format!(
        "Everything on page {n} of this paper belongs to its publisher and to the partners that are named there and \
         may not be printed again. "
    )
}

/// Documents of all kinds: new ones, reprints, halves of others, templates, footers, short ones, none.
fn document(seed: usize) -> Value {
    let of = spread(seed);
    let (topic, other) = (of % 23, of / 23 % 23);
    let content = match of / 529 % 10 {
        0 | 1 => article(topic),
        2 => format!("By A. Reporter. {} More news below.", article(topic)),
        3 | 4 => mixed(topic, other, 1 + of % 7),
        5 => TEMPLATE.replace('N', &(4 + topic % 5).to_string()),
        6 | 7 => format!("{}{}", article(1000 + seed), footer(topic % 3)),
        8 => {
            let words: Vec<&str> = LONG.split(' ').collect();
            let word = |n: usize| words[spread(topic + n * 7) % words.len()];
            (0..6).map(|n| format!("{} ", word(n))).collect()
        }
        _ => [" <br> ", "", LONG, OTHER][of % 4].to_owned(),
    };
    let mut document = json!({
        "content": content,
        "title": article(5_000 + of % 61).split('.').next(),
        "url": format!("http://a/{}", spread(seed / 2) % 150),
        "phash": format!("{:016x}", (topic as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 1 << (of % 9)),
    });
    if !of.is_multiple_of(3) {
        document["published_at"] = json!(1_600_000_000_000_i64 + 3_600_000 * (seed as i64 - other as i64));
    }
    document
}

/// All there is to the forests, uses and learned sentences included.
fn state(engine: &Engine) -> String {
    format!("{:?}", engine.forests.entries)
}

fn check(engine: &Arc<Engine>, source: &Value, id: Option<&str>, now: i64) -> Checked {
    let (index, id) = ("news-1".to_owned(), id.map(Into::into));
    wait(engine.check(source.to_string().into(), index, id, call(now))).unwrap()
}

fn refusals(checked: &Checked) -> Vec<(Root, Refusal)> {
    let trees = checked.trees.iter();
    trees.filter_map(|tree| Some((tree.root, tree.verdict.err()?))).collect()
}

fn refused(stamped: &Stamped) -> Vec<(Root, Refusal)> {
    let mut refused: Vec<_> = stamped.refused().iter().map(|r| (r.tree, r.refusal)).collect();
    refused.sort_by_key(|&(tree, _)| tree);
    refused
}

/// Checks documents and places them right after; answers how often each fate was met, and each reason.
fn follow(options: Value) -> (Vec<(RootOrigin, usize)>, [u64; 10]) {
    let engine = engine(&[route(options)]);
    let (mut fates, mut reasons): (Vec<(RootOrigin, usize)>, _) = (Vec::new(), [0; 10]);
    for seed in 0..400 {
        let (source, id) = (document(seed), format!("{}", seed % 300));
        let now = 1_700_000_000_000 + 600_000 * seed as i64;
        let before = nodes(&engine);
        let checked = check(&engine, &source, Some(&id), now);
        let body = index(&id, &source);
        let stamped = stamp(&engine, &body, Some("news-1"), call(now));
        let tally = stamped.tally();
        let expected = match checked.fate {
            RootOrigin::OwnRoot => (1, 0),
            RootOrigin::Placed(Decision::NewRoot) => {
                let mut foretold = refusals(&checked);
                foretold.sort_by_key(|&(root, _)| root);
                let told = refused(&stamped);
                assert!(told.iter().all(|one| foretold.contains(one)), "{seed}: {told:?} {foretold:?}");
                assert_eq!(told.len(), foretold.len().min(8), "{seed}");
                for (sum, (_, count)) in reasons.iter_mut().zip(stamped.reasons().all()) {
                    *sum += count;
                }
                (0, 0)
            }
            RootOrigin::Placed(_) => (0, 1),
        };
        assert_eq!((tally.without_text, tally.joined), expected, "{seed}: {checked:?}");
        if checked.fate == RootOrigin::Placed(Decision::Refreshed) {
            assert!(nodes(&engine) <= before, "{seed} brought a node");
        }
        let stamp: Value = serde_json::from_slice(&checked.stamp.unwrap()).unwrap();
        let (lines, _) = written(&body, stamped);
        let mut foretold = source;
        foretold.as_object_mut().unwrap().extend(stamp.as_object().unwrap().clone());
        assert_eq!(lines[1], foretold, "{seed}");
        assert_eq!(stamp["cluster_root"], checked.root.unwrap().to_string());
        match fates.iter_mut().find(|(fate, _)| *fate == checked.fate) {
            Some((_, count)) => *count += 1,
            None => fates.push((checked.fate, 1)),
        }
    }
    (fates, reasons)
}

fn count(fates: &[(RootOrigin, usize)], wanted: impl Fn(RootOrigin) -> bool) -> usize {
    fates.iter().filter(|(fate, _)| wanted(*fate)).map(|(_, count)| count).sum()
}

#[test]
fn what_is_foretold_happens() {
    for options in [
        json!({"method": "verified"}),
        json!({"method": "verified", "window": "6h"}),
        json!({"method": "verified", "k": 3, "clock": "field:published_at", "window": "1d"}),
        json!({"method": "longest"}),
        json!({"method": "full", "k": 8, "clock": "none"}),
        json!({"method": "short:longest"}),
        json!({"method": "staged", "url_field": "url"}),
        json!({"method": "field:phash"}),
    ] {
        let (fates, reasons) = follow(options.clone());
        let new = count(&fates, |fate| fate == RootOrigin::Placed(Decision::NewRoot));
        let joined = |fate| matches!(fate, RootOrigin::Placed(Decision::Joined { .. }));
        assert!(new > 3 && count(&fates, joined) > 3, "{options} {fates:?}");
        // What comes again does so after 50 hours.
        if !(options["method"] == "verified" && options["window"].is_string()) {
            assert!(count(&fates, |fate| fate == RootOrigin::Placed(Decision::Refreshed)) > 5, "{options} {fates:?}");
        }
        let [_, numbers, boilerplate, _, _, _, radius, _, facts, part] = reasons;
        match options["method"].as_str() {
            Some("verified") => {
                assert!(numbers > 0 && boilerplate > 0 && facts + part > 0, "{options} {reasons:?}");
            }
            Some("short:longest") => assert!(radius > 0, "{reasons:?}"),
            _ => assert_eq!(reasons, [0; 10], "{options}"),
        }
    }
}

#[test]
fn asking_changes_nothing() {
    for method in ["verified", "longest", "short", "staged", "field:phash"] {
        let engine = engine(&[route(json!({"method": method, "url_field": "url"}))]);
        let half: String = (0..150).map(|n| index(&n.to_string(), &document(n))).collect();
        let (_, placed) = bulk_of_writer(&engine, &half, 1_000);
        let before = state(&engine);
        for n in 0..300 {
            // Later than all arrivals, within the window and beyond it.
            check(&engine, &document(n), None, [2_000, 1 << 40][n % 2]);
        }
        assert!(state(&engine) == before, "{method}");
        // Nothing rests on what was only asked for.
        wait(engine.settle(placed, Resolution::NotSent, Millis(0))).unwrap();
        assert_eq!(nodes(&engine), 0, "{method}");
    }
}

#[test]
fn a_document_without_text_and_id_has_no_root_to_foretell() {
    let engine = engine(&[route(json!({}))]);
    let empty = json!({"content": ""});
    let checked = check(&engine, &empty, None, 0);
    assert_eq!((checked.fate, checked.root), (RootOrigin::OwnRoot, None));
    assert!(checked.stamp.is_none() && checked.fingerprints.is_empty());
    let named = check(&engine, &empty, Some("1"), 0).root.unwrap();
    let (lines, ..) = bulk(&engine, &index("1", &empty), 0);
    assert_eq!(lines[1]["cluster_root"], named.to_string());
}

#[test]
fn what_cannot_be_checked() {
    let engine = engine(&[route(json!({}))]);
    let asked = |index: &str, body: &str| {
        let checked = engine.check(body.to_owned().into(), index.into(), None, call(0));
        wait(checked).unwrap_err().to_string()
    };
    assert!(asked("logs-1", "{}").starts_with("no route stamps the index logs-1"));
    for body in ["", "[]", "{", "{}{}", "{\"content\":\"a\"}\n{}", "nothing"] {
        assert!(asked("news-1", body).starts_with("the document is not understood"), "{body}");
    }
}

/// Places documents and checks the last one, which is then placed too: it must found a tree.
fn last_refused(options: Value, texts: &[String]) -> Vec<(Root, Refusal)> {
    let engine = engine(&[route(options)]);
    let (last, before) = texts.split_last().unwrap();
    for text in before {
        bulk(&engine, &index("x", &json!({"content": text})), 0);
    }
    let last = json!({"content": last});
    let checked = check(&engine, &last, None, 0);
    assert_eq!(checked.fate, RootOrigin::Placed(Decision::NewRoot), "{checked:?}");
    let body = index("x", &last);
    let stamped = stamp(&engine, &body, Some("news-1"), call(0));
    assert_eq!(refused(&stamped), {
        let mut refusals = refusals(&checked);
        refusals.sort_by_key(|&(root, _)| root);
        refusals
    });
    let refusals = refusals(&checked);
    let told = stamped.reasons().all().map(|(_, count)| count).sum::<u64>();
    assert_eq!(told, refusals.len() as u64);
    refusals
}

#[test]
fn a_text_that_is_too_different_is_refused_for_what_is_its_own() {
    let verified = || json!({"method": "verified"});
    // Which sentences have the smallest hashes is chance: some of these share one.
    let found: Vec<_> = (0..20).flat_map(|n| last_refused(verified(), &[article(n), mixed(n, n + 100, 2)])).collect();
    assert!(!found.is_empty());
    for (_, refusal) in found {
        assert!(matches!(refusal, Refusal::Facts { .. } | Refusal::Part { .. } | Refusal::Proof { .. }), "{refusal}");
    }
}

#[test]
fn a_template_is_refused_for_its_numbers() {
    let texts = ["4", "17"].map(|n| TEMPLATE.replace('N', n));
    let refused = last_refused(json!({"method": "verified"}), &texts);
    let [(_, refusal @ Refusal::OtherNumbers { different, words })] = refused[..] else {
        panic!("{refused:?}");
    };
    assert!(different > 1);
    assert_eq!(
        refusal.to_string(),
        format!("numbers: others stand in {different} places of {words} words that are the same")
    );
}

#[test]
fn the_tree_that_refuses_has_what_only_the_document_has() {
    let engine = engine(&[route(json!({"method": "verified"}))]);
    let put = |id: &str, content: &str| bulk(&engine, &index(id, &json!({"content": content})), 0);
    let asked = |content: &str| check(&engine, &json!({"content": content}), None, 0);
    put("1", &TEMPLATE.replace('N', "4"));
    let form = TEMPLATE.replace('N', "17") + " The clerks of the harbour were on leave that day, and sent no report.";
    let checked = asked(&form);
    let [tree] = checked.trees.as_slice() else { panic!("{checked:?}") };
    let Measure::Alignment { differences, .. } = tree.measure else { panic!("{tree:?}") };
    assert!(differences.cost() > 1.0 && differences.numbers > 1.0, "{differences:?}");
    let [(root, own)] = checked.own.as_slice() else { panic!("{checked:?}") };
    assert_eq!(
        (*root, &own.numbers[..]),
        (tree.root, &["17.151 billion", "17.727 billion", "17.289 billion"].map(str::to_owned)[..])
    );
    let [sentence] = own.sentences.as_slice() else { panic!("{own:?}") };
    assert!(sentence.starts_with("the clerks of the harbour"), "{sentence}");
    assert!(own.words.contains(&"harbour".to_owned()), "{own:?}");

    // The text that founded a tree is compared by its hash; one that has more is aligned with it.
    assert!(asked(&TEMPLATE.replace('N', "4")).own.is_empty());
    let more = asked(&(TEMPLATE.replace('N', "4") + " The clerks of the harbour were on leave that day."));
    assert_eq!(more.root, Some(*root));
    let [(joined, own)] = more.own.as_slice() else { panic!("{more:?}") };
    assert_eq!((joined, own.sentences.len()), (root, 1), "{own:?}");
}

#[test]
fn where_founder_tokens_are_gone_the_proof_decides() {
    let engine = engine(&[route(json!({"method": "verified", "founder_tokens_memory": 0}))]);
    bulk(&engine, &index("1", &json!({"content": TEMPLATE.replace('N', "4")})), 0);
    let checked = check(&engine, &json!({"content": TEMPLATE.replace('N', "17")}), None, 0);
    let [tree] = checked.trees.as_slice() else { panic!("{checked:?}") };
    assert!(matches!(tree.measure, Measure::Proof { .. }) && checked.own.is_empty(), "{checked:?}");
}

#[test]
fn a_shared_footer_is_refused_as_boilerplate() {
    let long_footer: String = (0..12).map(footer).collect();
    // A letter before digits is none of a word.
    let article = |n: usize| article(n).replace(" w", " word");
    let texts: Vec<String> = (0..12).map(|n| format!("{}{long_footer}", article(n))).collect();
    // The first documents rest on sentences of the footer; by now those lead nobody to them.
    let refused = last_refused(json!({"method": "verified"}), &texts);
    let hidden = refused.iter().filter(|(_, refusal)| *refusal == Refusal::Boilerplate).count();
    assert!(hidden > 0 && hidden == refused.len(), "{refused:?}");
    let trees: HashSet<_> = refused.iter().map(|(tree, _)| tree).collect();
    assert_eq!(trees.len(), refused.len(), "each once");
    let engine = engine(&[route(json!({"method": "verified"}))]);
    for text in &texts {
        bulk(&engine, &index("x", &json!({"content": text})), 0);
    }
    let checked = check(&engine, &json!({"content": format!("{}{long_footer}", article(99))}), None, 0);
    assert_eq!(checked.boilerplate.len(), 12, "{:?}", checked.boilerplate);
    assert!(checked.boilerplate[3].starts_with("everything on page 3 of this paper"));
    assert!(checked.fingerprints.iter().any(|found| found.left_out && !found.near.is_empty()));
    for tree in checked.trees.iter().filter(|tree| tree.verdict.is_err()) {
        assert_eq!((tree.shared, tree.measure), (0, Measure::None));
    }
}

#[test]
fn a_short_text_of_the_same_words_is_out_of_the_radius() {
    let texts = [
        "harbour bridge traffic closed morning engineers found cracks piers",
        "piers cracks found engineers morning closed traffic bridge harbour",
    ];
    let refused = last_refused(json!({"method": "short"}), &texts.map(str::to_owned));
    let [(_, refusal)] = refused[..] else {
        panic!("{refused:?}");
    };
    assert_eq!(refusal.reason(), Reason::Radius);
    assert_eq!(refusal.to_string(), "radius: more than 11 of 58 letters differ");
}

#[test]
fn staged_says_which_stage_found_the_tree() {
    let engine = engine(&[route(json!({"method": "staged", "url_field": "url"}))]);
    let first = json!({"url": "http://a/1", "title": "Harbour bridge closed", "content": LONG});
    bulk(&engine, &index("1", &first), 0);
    let second = json!({"url": "http://b/1", "title": "Harbour bridge closed", "content": OTHER});
    let checked = check(&engine, &second, None, 0);
    assert_eq!(checked.stage, Some(crate::method::Stage::Title));
    let stages: Vec<_> = checked.fingerprints.iter().map(|found| found.stage.unwrap().to_string()).collect();
    assert_eq!(stages, ["url", "title", "content"]);
    assert_eq!((checked.trees.len(), checked.k), (1, crate::fingerprint::Distance(3)));
}
