//! A small deterministic run of what the fuzz targets `text` and `response` do at length.

use crate::random::Random;
use crate::{response_check, text_check};

const TEXTS: [&str; 10] = [
    "Ferry late again\nThe ferry to <b>Kestrel Point</b> is late. &amp;quot;Again&quot;, said 212 passengers &mdash; \
     at 3.5 knots.",
    "台風登陸\n台风“海葵花”昨日在临汐登陆，十五万人提前转移。http://x.cn/a?b=1 风力12级，降雨达300毫米！",
    "\n<p class=\"a\">one</p><script>if (a<b) {}</script><style>.a{b:c}</style><!-- x --><br/>two<a \
     href='x>y'>three</a>",
    "\n&lt;p&gt;escaped&lt;/p&gt; <zz @ x=\"<zz @ \" y='a' > <!doctype html> <?xml version=\"1.0\"?> <![CDATA[x]]>",
    "x\n(function(){ var s = 1; })(); .quote{padding:20px} Page.load({a:{b:'c'}}); /* note */ {never closed",
    "\ne\u{301}e\u{323}\u{302} \u{1100}\u{1161}\u{11A8} के लिए สวัสดี サクラの ｶﾅ ㌖ \u{FDFA} \u{200B}𝐀😀½",
    "\n1,234 of 3.5 and 7. J. Smith of the U.S. Treasury left. Why?! No; yes... 完……\u{3000}。",
    "Same\nSame",
    "\n\n\n",
    "\n1!1!1!1!1!1!1!1!1!1!1!1!1!1!1!1!1!1!",
];

const TEXT_WORDS: [&str; 28] = [
    "<",
    ">",
    "<a ",
    "</a>",
    "<p>",
    "<zz @ ",
    "=\"",
    "\" ",
    "='",
    "' ",
    "<!--",
    "-->",
    "<script>",
    "</script>",
    "&amp;",
    "&#x4e2d;",
    "&lt;/",
    "{",
    "}",
    "a:b;",
    "://",
    "http://",
    "\u{301}",
    "\u{323}",
    "。",
    "1!",
    "\n",
    "㌖",
];

const ANSWERS: [&str; 6] = [
    r#"{"took":3,"errors":true,"items":[{"index":{"_id":"1","status":201}},{"create":{"status":409,"error":{"reason":"\"status\":1","status":5}}},{"delete":{"status":404}}]}"#,
    r#"{"took":3,"items":[{"update":{"error":{"type":"x"}}}],"errors":true}"#,
    r#"{"error":{"type":"illegal_argument_exception","reason":"x"},"status":400}"#,
    r#"{"items":[{"index":{"status":200}},{"index":{"status":2e2}},{"update":{"status":-1}}]}"#,
    "{\"items\":[]} \n",
    r#"{"\u0069tems":[{"index":{"\u0073tatus":500}}]}"#,
];

const ANSWER_WORDS: [&str; 16] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\"status\":500",
    "\"items\":[",
    "\"index\":{",
    "\"error\":{",
    "null",
    "1e3",
    "\\u0073",
    " ",
];

/// Changes some bytes, as a fuzzer would.
fn mutate(random: &mut Random, data: &mut Vec<u8>, seeds: &[&str], words: &[&str]) {
    let at = random.below(data.len() + 1);
    let length = random.below(12).min(data.len() - at);
    match random.below(6) {
        0 => drop(data.drain(at..at + length)),
        1 | 2 => {
            let word = random.pick(words).as_bytes();
            let times = 1 + random.below(40) * random.below(2);
            data.splice(at..at, word.repeat(times));
        }
        3 => {
            let other = random.pick(seeds).as_bytes();
            let from = random.below(other.len());
            let to = from + random.below(other.len() - from + 1);
            data.splice(at..at, other[from..to].iter().copied());
        }
        4 => data.truncate(at),
        _ => {
            if let Some(byte) = data.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
    }
}

#[test]
fn ten_thousand_texts_hold() {
    let mut random = Random::new(20_260_201);
    let mut with_text = 0;
    for round in 0..10_000 {
        let mut data = TEXTS[round % TEXTS.len()].as_bytes().to_vec();
        for _ in 0..random.below(6) {
            mutate(&mut random, &mut data, &TEXTS, &TEXT_WORDS);
        }
        with_text += usize::from(text_check::check(&data));
    }
    assert!(with_text > 5_000, "{with_text}");
}

#[test]
fn twenty_thousand_answers_hold() {
    let mut random = Random::new(20_260_202);
    let (mut whole, mut broken) = (0, 0);
    for round in 0..20_000 {
        let cuts: Vec<u8> = (0..random.below(16)).map(|_| random.below(60) as u8).collect();
        let mut answer = ANSWERS[round % ANSWERS.len()].as_bytes().to_vec();
        for _ in 0..random.below(4) {
            mutate(&mut random, &mut answer, &ANSWERS, &ANSWER_WORDS);
        }
        let mut data = vec![cuts.len() as u8];
        data.extend(cuts);
        data.extend(answer);
        let outcome = response_check::check(&data);
        whole += usize::from(outcome.well_formed && outcome.items > 0);
        broken += usize::from(!outcome.well_formed);
    }
    assert!(whole > 1_000 && broken > 1_000, "{whole} {broken}");
}
