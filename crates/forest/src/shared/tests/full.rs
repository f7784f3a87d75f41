//! Trees with as many documents as they may have.

use std::collections::HashMap;

use super::*;

const TITLE: &str = "Report dekuq";

fn titled(body: &str) -> Features {
    let fields = Fields { title: Some(TITLE), body: &[body] };
    Method::Verified.read_with(&fields, Attributes::default(), &mut Workspace::default()).unwrap()
}

/// A short text and its editions.
fn edition() -> impl Strategy<Value = String> {
    let begin = prop_oneof![Just(String::new()), "[a-c]{2}".prop_map(|word| format!("({word}) "))];
    let body = prop_oneof![Just("wdyhk. "), Just("wdyhk. wdyhk. "), Just("WDYHK. "), Just("WDYHK. WDYHK. ")];
    let end = prop_oneof![Just(String::new()), "[a-c]{4}".prop_map(|word| format!("Published by {word}."))];
    (begin, body, end).prop_map(|(begin, body, end)| format!("{begin}{body}{end}"))
}

/// Whether a sentence of a text is boilerplate by now. With many words more: a text of little else counts whole.
fn has_boilerplate(forest: &SharedForest<Verified>, text: &str) -> bool {
    let question = titled(&format!("{text}. {}", sentence(1)));
    let check = block_on(forest.check(at(question, 0))).unwrap().check.unwrap();
    !check.boilerplate.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_full_tree_goes_on_to_take_the_texts_that_it_has(
        texts in prop::collection::vec(edition(), 1..40),
        max_tree in 1..6_u32,
    ) {
        let forest = process_on(InMemoryRedis::default(), Some(max_tree), 1, LearnedText::default());
        let mut roots = HashMap::new();
        for text in &texts {
            let [placed] = <[RootAssignment; 1]>::try_from(place(&forest, vec![at(titled(text), 0)])).unwrap();
            let root = placed.root;
            let settled = placed.settled(ItemOutcome::Accepted).into_iter().collect();
            block_on(forest.settle(settled, Millis(0))).unwrap();
            let first = *roots.entry(text).or_insert(root);
            if first != root {
                // From then on others lead to it.
                prop_assert!(has_boilerplate(&forest, text), "{}: {:?}, then {:?}", text, first, root);
                return Ok(());
            }
        }
    }
}
