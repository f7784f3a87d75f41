use super::*;
use crate::text::{Fields, Scratch};
use proptest::prelude::*;

fn proof(text: &str) -> Proof {
    let mut scratch = Scratch::new();
    let mut shingles = Shingles::new();
    let fields = Fields {
        title: None,
        body: &[text],
    };
    if let Some(text) = scratch.read(&fields) {
        shingles.read(&text);
    }
    Proof::of(&mut shingles, &Kept::default())
}

/// `count` words that no other `seed` has.
fn words(seed: u64, count: u64) -> String {
    (0..count)
        .map(|n| format!("w{:x} ", mix(seed << 32 | n) >> 40))
        .collect()
}

#[test]
fn the_same_text_agrees_and_another_does_not() {
    let (a, b) = (proof(&words(1, 200)), proof(&words(2, 200)));
    assert_eq!(a.agrees(&a, 4), Ok(1.0));
    assert!(matches!(a.agrees(&b, 4), Err(Refusal::Proof { .. })));
    assert!(a.similarity(&b) < 0.25, "{}", a.similarity(&b));
}

#[test]
fn the_estimate_is_near_the_truth() {
    for shared in [0, 100, 200, 300, 400] {
        let common = words(9, shared);
        let estimates = (0..20).map(|seed| {
            let text = |side: u64| {
                proof(&format!(
                    "{common}. {}",
                    words(100 + 2 * seed + side, 400 - shared)
                ))
            };
            text(0).similarity(&text(1))
        });
        let mean = estimates.sum::<f32>() / 20.0;
        let truth = shared as f32 / (800 - shared) as f32;
        assert!((mean - truth).abs() < 0.06, "{shared}: {mean} {truth}");
    }
}

#[test]
fn short_texts_and_single_fingerprints_need_more() {
    let (long, short) = (proof(&words(1, 200)), proof(&words(1, 10)));
    assert_eq!(long.needed(&long, 2), NEEDED_WORDS);
    assert_eq!(long.needed(&long, 1), NEEDED_WORDS + NEEDED_SINGLE);
    assert_eq!(long.needed(&short, 2), NEEDED_SHORT);
    let han = proof(&"今天天气很好我们一起出去玩".repeat(20));
    assert_eq!(han.needed(&han, 2), NEEDED_CHARACTERS);
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
    assert!(a.similarity(&b) > NEEDED_SHORT);
    let refusal = a.agrees(&b, 4);
    assert!(
        matches!(refusal, Err(Refusal::Numbers { different: 2.., .. })),
        "{refusal:?}"
    );
    assert!(proof(&report(4)).agrees(&a, 4).is_ok());
}

#[test]
fn bytes_of_a_wrong_length_are_refused() {
    assert_eq!(Proof::from_bytes(&[]), Err(BadProof(0)));
    assert_eq!(Proof::from_bytes(&[0; FIXED - 1]), Err(BadProof(FIXED - 1)));
    assert_eq!(Proof::from_bytes(&[0; FIXED + 1]), Err(BadProof(FIXED + 1)));
    assert_eq!(
        Proof::from_bytes(&[0; LONGEST + 2]),
        Err(BadProof(LONGEST + 2))
    );
    assert!(Proof::from_bytes(&[0; LONGEST]).is_ok());
}

#[test]
fn nothing_is_similar_to_no_text() {
    assert_eq!(proof("").to_bytes().len(), FIXED);
    assert!(proof("").agrees(&proof(&words(1, 200)), 4).is_err());
}

proptest! {
    #[test]
    fn bytes_give_the_proof_back(text in "[a-z0-9 ]{0,300}") {
        let proof = proof(&text);
        let bytes = proof.to_bytes();
        prop_assert!(bytes.len() <= LONGEST);
        prop_assert_eq!(Proof::from_bytes(&bytes), Ok(proof));
    }

    /// Counting agreeing pairs of bits by shifts is counting them one by one.
    #[test]
    fn similarity_counts_agreeing_minima(a in any::<[u64; WORDS]>(), b in any::<[u64; WORDS]>()) {
        let of = |minima| Proof { length: Length(0), minima, numbers: Sample::default() };
        let agreeing = (0..BINS).filter(|n| {
            let code = |words: &[u64; WORDS]| words[n * BITS / 64] >> (n * BITS % 64) & 3;
            code(&a) == code(&b)
        }).count();
        let expected = ((agreeing as f32 / BINS as f32 - 0.25) / 0.75).max(0.0);
        prop_assert_eq!(of(a).similarity(&of(b)), expected);
    }
}
