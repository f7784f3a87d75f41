use super::*;
use crate::text::shingler::tests::read;
use proptest::prelude::*;

fn proof(text: &str) -> TextProof {
    TextProof::of(&mut read(text), TitleSketch::default(), &BoilerplateMask::default())
}

/// `count` words that no other `seed` has.
fn words(seed: u64, count: u64) -> String {
    (0..count).map(|n| format!("w{:x} ", mix64(seed << 32 | n) >> 40)).collect()
}

fn agrees(one: &TextProof, root: &TextProof) -> Result<f32, Refusal> {
    one.agrees(root, 4, Similarity::default())
}

#[test]
fn the_same_text_agrees_and_another_does_not() {
    let (a, b) = (proof(&words(1, 200)), proof(&words(2, 200)));
    assert_eq!(agrees(&a, &a), Ok(1.0));
    assert!(matches!(agrees(&a, &b), Err(Refusal::Proof { .. })));
    assert!(a.similarity(&b) < 0.25, "{}", a.similarity(&b));
}

#[test]
fn what_is_beyond_the_budget_of_a_text_counts_for_its_length() {
    // Six characters in three bytes each time: all of it is beyond.
    assert_eq!(proof(&"㌖".repeat(2_000)).length, Length::new(2_000, true));
}

#[test]
fn the_estimate_is_near_the_truth() {
    for shared in [0, 100, 200, 300, 400] {
        let common = words(9, shared);
        let estimates = (0..20).map(|seed| {
            let text = |side: u64| proof(&format!("{common}. {}", words(100 + 2 * seed + side, 400 - shared)));
            text(0).similarity(&text(1))
        });
        let mean = estimates.sum::<f32>() / 20.0;
        let truth = shared as f32 / (800 - shared) as f32;
        assert!((mean - truth).abs() < 0.06, "{shared}: {mean} {truth}");
    }
}

#[test]
fn the_need_goes_by_the_shorter_text() {
    let (long, short) = (proof(&words(1, 200)), proof(&words(1, 10)));
    let han = proof(&"今天天气很好我们一起出去玩".repeat(20));
    for share in [0.2, 0.43, 0.7] {
        let long_needs = Similarity::new(share).unwrap();
        let needed = |one: &TextProof, root: &TextProof| one.needed(root, 1, long_needs);
        assert_eq!(needed(&long, &long), long_needs.needed(127.0, false, 1, None));
        let shorter = long_needs.needed(short.length.shingles(), false, 1, None);
        assert_eq!(needed(&long, &short), shorter);
        assert_eq!(needed(&short, &long), shorter);
        assert_eq!(needed(&han, &han), long_needs.needed(han.length.shingles(), true, 1, None));
    }
}

#[test]
fn who_asks_for_more_gets_less() {
    let common = words(9, 300);
    let (a, b) = [1, 2].map(|seed| proof(&format!("{common}. {}", words(seed, 100)))).into();
    let joins = |share| a.agrees(&b, 4, Similarity::new(share).unwrap()).is_ok();
    assert!(joins(0.43) && !joins(0.8));
    assert!(a.agrees(&a, 1, Similarity::new(1.0).unwrap()).is_ok(), "the same text");
}

#[test]
fn a_template_is_refused_for_its_numbers() {
    let report = |n: u32| {
        format!(
            "Treasury balances at the Federal Reserve rose to {}.151 billion dollars from {}.727 billion dollars on the \
             previous business day, the Treasury said in its latest budget statement. The operating cash balance totaled \
             {}.289 billion dollars compared with another sum on the day before that one, officials added on the phone.",
            n,
            n + 1,
            n + 2
        )
    };
    let (a, b) = (proof(&report(4)), proof(&report(14)));
    assert!(a.similarity(&b) > a.needed(&b, 4, Similarity::default()));
    let refusal = agrees(&a, &b);
    assert!(matches!(refusal, Err(Refusal::Numbers { different: 2.., .. })), "{refusal:?}");
    assert!(agrees(&proof(&report(4)), &a).is_ok());
}

#[test]
fn bytes_of_a_wrong_length_are_refused() {
    assert_eq!(TextProof::from_bytes(&[]), Err(InvalidProof(0)));
    assert_eq!(TextProof::from_bytes(&[0; FIXED_BYTES - 1]), Err(InvalidProof(FIXED_BYTES - 1)));
    assert_eq!(TextProof::from_bytes(&[0; FIXED_BYTES + 1]), Err(InvalidProof(FIXED_BYTES + 1)));
    assert_eq!(TextProof::from_bytes(&[0; MAX_BYTES + 2]), Err(InvalidProof(MAX_BYTES + 2)));
    assert!(TextProof::from_bytes(&[0; MAX_BYTES]).is_ok());
}

#[test]
fn nothing_is_similar_to_no_text() {
    assert_eq!(proof("").to_bytes().len(), FIXED_BYTES);
    assert!(agrees(&proof(""), &proof(&words(1, 200))).is_err());
}

proptest! {
    #[test]
    fn bytes_give_the_proof_back(text in "[a-z0-9 ]{0,300}") {
        let proof = proof(&text);
        let bytes = proof.to_bytes();
        prop_assert!(bytes.len() <= MAX_BYTES);
        prop_assert_eq!(TextProof::from_bytes(&bytes), Ok(proof));
    }

    /// Counting agreeing pairs of bits by shifts is counting them one by one.
    #[test]
    fn similarity_counts_agreeing_minima(a in any::<[u64; WORDS]>(), b in any::<[u64; WORDS]>()) {
        let of = |minima| TextProof { length: Length(0), title: TitleSketch::default(), minima, numbers: [0; MAX_NUMBERS], numbers_len: 0 };
        let agreeing = (0..BINS).filter(|n| {
            let code = |words: &[u64; WORDS]| words[n * BITS / 64] >> (n * BITS % 64) & 3;
            code(&a) == code(&b)
        }).count();
        let expected = ((agreeing as f32 / BINS as f32 - 0.25) / 0.75).max(0.0);
        prop_assert_eq!(of(a).similarity(&of(b)), expected);
    }
}
