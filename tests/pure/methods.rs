//! The named methods from the outside: the examples of the articles that they come from, and what must not change a
//! document's fingerprints.

use std::borrow::Borrow;

use proptest::prelude::*;
use spinney::fingerprint::{Distance, Fingerprint};
use spinney::method::{
    Attributes, Features, Method, MethodError, SHORT_TEXT_DISTANCE, ShortText, Stage, StrictFeatures, Weights,
    Workspace,
};
use spinney::text::{Fields, Scratch};

const METHODS: [Method; 3] = [Method::Longest, Method::Full(Weights::Levels), Method::Sentences(3)];

fn prints(method: impl Borrow<Method>, title: Option<&str>, body: &[&str]) -> Option<StrictFeatures> {
    method.borrow().fingerprint(&Fields { title, body }, &mut Scratch::new())
}

fn first(method: impl Borrow<Method>, body: &str) -> Fingerprint {
    prints(method, None, &[body]).expect("the text has words").fingerprints[0]
}

/// A notice of three sentences, the second of them the longest.
const NOTICE: &str = "市图书馆新馆将于下周一正式开放。新馆位于滨江公园东侧，总建筑面积约三万平方米，设有儿童阅览区、盲文阅览区和二十四小时自助借还区，可同时容纳两千名读者。读者可凭身份证入馆。";
const REPORT: &str = "The harbour board met on Tuesday. Its members agreed that the old lighthouse should be repaired before winter, because storms had broken two of its windows and the lamp could no longer be seen from the outer islands. Work starts in May.";

/// Two texts that differ in two characters are a few bits apart; up to 3 bits are near by default.
#[test]
fn the_two_texts_of_the_seed_are_near() {
    for method in [&Method::Longest, &Method::Full(Weights::Levels)] {
        let distance = first(method, "你妈妈喊你回家吃饭哦，回家罗回家罗")
            .distance(first(method, "你妈妈叫你回家吃饭啦，回家罗回家罗"));
        assert!(distance <= Distance(3), "{method}: {distance:?}");
        assert!(distance < first(method, "你妈妈喊你回家吃饭哦，回家罗回家罗").distance(first(method, NOTICE)));
    }
}

/// The definition of simhash: a bit is set where the weights of the features with it outweigh the others.
fn simhash(hashes: &[u64], weights: &[u8]) -> Fingerprint {
    let sum = |bit: u32| -> i64 {
        let signed = |(hash, weight): (&u64, &u8)| match hash >> bit & 1 {
            1 => i64::from(*weight),
            _ => -i64::from(*weight),
        };
        hashes.iter().zip(weights).map(signed).sum()
    };
    Fingerprint((0..64).filter(|&bit| sum(bit) > 0).map(|bit| 1 << bit).sum())
}

/// The features of the text and their weights, and nothing else, make the fingerprint.
#[test]
fn the_weights_of_the_seeds() {
    let sentence = "美国“51区”雇员称内部有9架飞碟，曾看见灰色外星人。灰色外星人";
    let heard = ["美国", "51区", "雇员", "内部", "9架", "飞碟", "看见", "灰色", "外星人", "灰色", "外星人"];
    let expected = |weights: [u8; 11]| {
        let hashes = heard.map(|word| xxhash_rust::xxh3::xxh3_64(word.as_bytes()));
        simhash(&hashes, &weights)
    };
    let method = |weights| Method::Full(weights);
    assert_eq!(first(method(Weights::Levels), sentence), expected([4, 3, 4, 4, 3, 4, 4, 4, 5, 4, 5]));
    assert_eq!(first(method(Weights::Tf), sentence), expected([1; 11]));
    let mut rarities = Vec::new();
    spinney::text::words("美国51区雇员内部9架飞碟看见灰色外星人灰色外星人", |word| {
        rarities.push((word.text.to_owned(), spinney::text::rarity(&word)));
    });
    assert_eq!(rarities.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>(), heard);
    let rarities: Vec<u8> = rarities.into_iter().map(|(_, rarity)| rarity).collect();
    assert_eq!(first(method(Weights::TfIdf), sentence), expected(rarities.clone().try_into().expect("eleven words")));
    let [america, .., alien] = rarities[..] else { panic!("eleven words") };
    assert!(america < alien, "everybody writes of America: {rarities:?}");
}

#[test]
fn rarity_knows_frequent_from_rare_words() {
    let rarity = |text: &str| {
        let mut found = None;
        spinney::text::words(text, |word| found = Some(spinney::text::rarity(&word)));
        found.expect("a word")
    };
    assert!(rarity("的") < rarity("中国"));
    assert!(rarity("中国") < rarity("飞碟"));
    assert!(rarity("the") < rarity("lighthouse"));
    for word in ["的", "龘", "a", "incomprehensible", "51区", "の"] {
        assert!((1..=18).contains(&rarity(word)), "{word}");
    }
}

fn short_text(body: &str) -> Option<ShortText> {
    let method: Method = "short".parse().expect("a method");
    let fields = Fields { title: None, body: &[body] };
    match method.read(&fields, &mut Workspace::default()) {
        Some(Features::Short(short)) => Some(short.text),
        _ => None,
    }
}

/// The fingerprint narrows, edit distance decides.
#[test]
fn short_texts_are_compared_letter_by_letter() {
    let text = |body: &str| short_text(body).expect("a short text");
    let call = text("你妈妈喊你回家吃饭哦，回家罗回家罗");
    assert_eq!(call.as_str(), "你妈妈喊你回家吃饭哦回家罗回家罗");
    assert!(call.compare(&text("你妈妈叫你回家吃饭啦，回家罗回家罗")).is_ok());
    assert!(call.compare(&text("你爸爸叫我出门上学啦，回家罗回家罗")).is_err());
    // Every fifth letter of 10, and one more.
    assert!(text("abcdefghij").compare(&text("Abcd-efgh yz")).is_ok());
    assert!(text("abcdefghij").compare(&text("abcdefg xyz")).is_err());
    assert!(text("ab").compare(&text("AB!")).is_ok());
    assert!(text("ab").compare(&text("ac")).is_err());
}

#[test]
fn a_text_is_short_up_to_its_140th_letter() {
    let (short, long) = ("字".repeat(140), "字".repeat(141));
    assert!(short_text(&short).is_some());
    assert!(short_text(&long).is_none());
    for inner in [Method::Longest, Method::Full(Weights::Tf), Method::Sentences(2)] {
        let method = Method::Short(Box::new(inner.clone()));
        let fields = Fields { title: None, body: &[&long] };
        let read = method.read(&fields, &mut Workspace::default()).expect("letters");
        let Features::Strict(prints) = read else { panic!("{method}: a long text") };
        assert_eq!(Some(prints), strict_prints(&inner, &long), "{method}");
    }
}

fn strict_prints(method: &Method, body: &str) -> Option<StrictFeatures> {
    prints(method, None, &[body])
}

/// Which stages a document has, and that equal words in different stages stay apart.
#[test]
fn the_stages_of_a_document() {
    let staged = |url, title, body: &[&str]| {
        let fields = Fields { title, body };
        let attributes = Attributes { url, own: None };
        match Method::Staged.read_with(&fields, attributes, &mut Workspace::default()) {
            Some(Features::Staged(staged)) => {
                let prints = &staged.prints().fingerprints;
                prints.iter().map(|&print| (staged.stage(print).expect("its own"), print)).collect()
            }
            _ => Vec::new(),
        }
    };
    let all = staged(Some("http://www.help.com"), Some("测试"), &["测试"]);
    let [(Stage::Url, url), (Stage::Title, title), (Stage::Content, content)] = all[..] else { panic!("{all:?}") };
    assert!(title.distance(content) == Distance(32) && url.distance(title) > SHORT_TEXT_DISTANCE);
    assert_eq!(staged(None, None, &["测试"]), [(Stage::Content, content)]);
    assert_eq!(staged(None, Some("测试"), &[""]), [(Stage::Title, title)]);
    assert_eq!(staged(Some(" http://www.help.com\n"), Some("!"), &[]), [(Stage::Url, url)]);
    assert_eq!(staged(Some(" "), None, &["—"]), []);
}

#[test]
fn fingerprints_as_others_write_them() {
    let written = |text: &str, quoted| Fingerprint::written(text, quoted).map(|print| print.0);
    assert_eq!(written("00F1a2b3c4d5e6f7", true), Some(0x00f1_a2b3_c4d5_e6f7));
    assert_eq!(written("-1", true), Some(u64::MAX));
    assert_eq!(written("-1", false), Some(u64::MAX));
    assert_eq!(written("18446744073709551615", false), Some(u64::MAX));
    assert_eq!(written("-9223372036854775808", false), Some(1 << 63));
    assert_eq!(written("1234567890123456", true), Some(0x1234_5678_9012_3456));
    assert_eq!(written("1234567890123456", false), Some(1_234_567_890_123_456));
    for wrong in ["", "1.5", "1e3", "00f1a2b3", "+00f1a2b3c4d5e6f", "18446744073709551616", "00f1a2b3c4d5e6fg"] {
        assert_eq!(written(wrong, true), None, "{wrong}");
        assert_eq!(written(wrong, false), None, "{wrong}");
    }
}

/// A paragraph changed by an editor changes the fingerprint of the whole, not that of the longest sentence.
#[test]
fn longest_survives_a_changed_paragraph() {
    let edited = NOTICE.replace("市图书馆新馆将于下周一正式开放", "本报讯 记者昨日获悉，图书馆搬家了")
        + "（来源：某某日报 编辑：张三）";
    assert_eq!(first(Method::Longest, &edited), first(Method::Longest, NOTICE));
    assert_ne!(first(Method::Full(Weights::Levels), &edited), first(Method::Full(Weights::Levels), NOTICE));
}

/// The signature of the N longest sentences is exact.
#[test]
fn sentences_are_exact_but_for_punctuation() {
    let method = &Method::Sentences(2);
    assert_eq!(first(method, NOTICE), first(method, &NOTICE.replace('，', ",")));
    assert_eq!(first(method, NOTICE), first(method, &format!("短句。{NOTICE}")));
    assert_ne!(first(method, NOTICE), first(method, &NOTICE.replace("三万", "四万")));
    assert_ne!(first(Method::Sentences(3), NOTICE), first(method, NOTICE));
    assert_eq!(first(Method::Sentences(3), NOTICE), first(Method::Sentences(9), NOTICE));
}

#[test]
fn of_equally_long_sentences_the_first_is_taken() {
    let alone = first(Method::Longest, "苹果香蕉。");
    assert_eq!(first(Method::Longest, "苹果香蕉。火车飞机。"), alone);
    assert_ne!(first(Method::Longest, "火车飞机。苹果香蕉。"), alone);
    let alone = first(Method::Sentences(1), "苹果香蕉。");
    assert_eq!(first(Method::Sentences(1), "苹果香蕉。火车飞机。"), alone);
}

#[test]
fn the_title_stands_in_for_a_body_without_text() {
    for method in &METHODS {
        let expected = prints(method, None, &[NOTICE]);
        for body in [&[][..], &[""], &["  \u{200B} ", "<p></p>"], &["———！！！"], &["<script>var a = 1;</script>"]]
        {
            assert_eq!(prints(method, Some(NOTICE), body), expected, "{method} {body:?}");
            assert_eq!(prints(method, None, body), None, "{method} {body:?}");
            assert_eq!(prints(method, Some("？"), body), None, "{method} {body:?}");
        }
        assert_eq!(prints(method, Some("another title"), &[NOTICE]), expected, "{method}");
    }
}

#[test]
fn stop_words_count_only_where_there_is_nothing_else() {
    assert_eq!(
        first(Method::Full(Weights::Levels), "the house of the sea"),
        first(Method::Full(Weights::Levels), "house sea")
    );
    assert_ne!(first(Method::Full(Weights::Levels), "it is"), first(Method::Full(Weights::Levels), "you are"));
    assert_ne!(first(Method::Full(Weights::Levels), "是的"), Fingerprint(0));
}

#[test]
fn parts_of_a_body_are_one_text_whose_sentences_end_with_their_part() {
    for method in &METHODS {
        assert_eq!(
            prints(method, None, &["一个标题", NOTICE]),
            prints(method, None, &[&format!("<p>一个标题</p>{NOTICE}")])
        );
    }
}

#[test]
fn what_a_reprint_changes_in_writing_changes_no_fingerprint() {
    let traditional = "市圖書館新館將於下週一正式開放。新館位於濱江公園東側，總建築面積約三萬平方米，設有兒童閱覽區、盲文閱覽區和二十四小時自助借還區，可同時容納兩千名讀者。讀者可憑身份證入館。";
    let wide: String = REPORT
        .chars()
        .map(|c| match c {
            ' ' => '\u{3000}',
            '!'..='~' => char::from_u32(c as u32 - 0x21 + 0xFF01).expect("full-width forms are characters"),
            c => c,
        })
        .collect();
    for method in &METHODS {
        for (plain, changed) in [
            (NOTICE, traditional.to_owned()),
            (NOTICE, NOTICE.replace('，', ",").replace('。', ".")),
            (NOTICE, NOTICE.replace('。', "。</p>\n<p class=\"x\">")),
            (NOTICE, NOTICE.replace("，", "，\n　　")),
            (NOTICE, NOTICE.replace("读者", "<a href='/reader'>读</a>者\u{200B}")),
            (NOTICE, format!("{NOTICE}<script>if (a < b) {{ track('{NOTICE}{NOTICE}') }}</script>")),
            (REPORT, REPORT.replace(' ', "\n")),
            (REPORT, REPORT.replace(' ', "&nbsp;  ")),
            (REPORT, REPORT.replace(". ", ".</p><p>")),
            (REPORT, REPORT.replace("lighthouse", "<b>light</b>house")),
            (REPORT, REPORT.to_uppercase()),
            (REPORT, wide.clone()),
        ] {
            assert_eq!(first(method, &changed), first(method, plain), "{method}: {changed}");
        }
    }
}

#[test]
fn a_long_leftover_of_page_code_is_not_the_longest_sentence() {
    let code = format!(
        "\n\t\tPage.loadWidget({{ trigger: {{ id: 'w1' }}, require: [ {{ url: \"//a.b/c.js\" }} ], {} }});",
        "title: '标题', ".repeat(20)
    );
    let style = format!(".quote{{padding:20px 20px 0px;{}}}\n.con p{{margin-bottom:30px}}\n", "color:red;".repeat(20));
    for changed in [format!("{NOTICE}{code}"), format!("{style}{NOTICE}"), format!("{code}{NOTICE}{style}")] {
        assert_eq!(first(Method::Longest, &changed), first(Method::Longest, NOTICE));
    }
}

/// Big inputs that are slow or deep for careless code. The test is that they end, and that there is a fingerprint.
#[test]
fn huge_documents_have_fingerprints() {
    let unpunctuated = "今天天气很好我们去公园看花".repeat(10 << 10);
    let sentences = "好。".repeat(1 << 20);
    // The text stands within the first MiB, which is all that is read.
    let nested = format!("{}text{}", "<div>".repeat(200_000), "</div>".repeat(1 << 20));
    let brackets = format!("text{}", "<".repeat(1 << 20));
    let unclosed = format!("<script>{}", "text < more; ".repeat(1 << 16));
    for text in [&unpunctuated, &sentences, &nested, &brackets, &unclosed] {
        for method in &METHODS {
            assert!(prints(method, None, &[text]).is_some());
        }
    }
}

#[test]
fn names_are_read_and_written() {
    for (name, method) in [
        ("longest", Method::Longest),
        ("full", Method::Full(Weights::Levels)),
        ("full:tf", Method::Full(Weights::Tf)),
        ("full:tfidf", Method::Full(Weights::TfIdf)),
        ("staged", Method::Staged),
        ("short", Method::Short(Box::new(Method::Full(Weights::Levels)))),
        ("short:longest", Method::Short(Box::new(Method::Longest))),
        ("field:image.phash", Method::Field("image.phash".into())),
        ("sentences:1", Method::Sentences(1)),
        ("sentences:16", Method::Sentences(16)),
    ] {
        assert_eq!(name.parse(), Ok(method.clone()));
        assert_eq!(method.to_string(), name);
        let json = serde_json::to_string(&method).expect("a name is a string");
        assert_eq!(json, format!("\"{name}\""));
        assert_eq!(serde_json::from_str::<Method>(&json).expect("its own output"), method);
    }
    for name in ["", "Longest", "longest:1", "full ", "sentence:3", "words"] {
        assert_eq!(name.parse::<Method>(), Err(MethodError::Unknown));
    }
    for name in ["sentences:", "sentences:0", "sentences:17", "sentences:x", "sentences:-1"] {
        assert_eq!(name.parse::<Method>(), Err(MethodError::Sentences));
    }
    assert_eq!(
        "best".parse::<Method>().expect_err("no method").to_string(),
        "use verified, longest, full, full:tf, full:tfidf, sentences:N, short, short:METHOD, staged or field:NAME"
    );
    for name in ["short:", "short:short", "short:verified", "short:x"] {
        assert_eq!(name.parse::<Method>(), Err(MethodError::Short));
    }
    for name in ["field:", "field:a.", "field:.a"] {
        assert_eq!(name.parse::<Method>(), Err(MethodError::Field));
    }
    assert_eq!("full:levels".parse(), Ok(Method::Full(Weights::Levels)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Any text has a fingerprint or none, the same every time, whatever the scratch was used for before.
    #[test]
    fn any_document(title in prop::option::of(any::<String>()), body in prop::collection::vec(any::<String>(), 0..3)) {
        let body: Vec<&str> = body.iter().map(String::as_str).collect();
        let mut used = Scratch::new();
        let other = Fields { title: Some(NOTICE), body: &[REPORT] };
        prop_assert!(Method::Full(Weights::Levels).fingerprint(&other, &mut used).is_some());
        for method in &METHODS {
            let fields = Fields { title: title.as_deref(), body: &body };
            let expected = prints(method, title.as_deref(), &body);
            prop_assert_eq!(method.fingerprint(&fields, &mut used), expected.clone());
            if let Some(prints) = expected {
                prop_assert_eq!(prints.fingerprints.len(), 1);
            }
        }
    }

    /// Any wrapping of a text has the fingerprints of the text.
    #[test]
    fn wrapping(
        words in prop::collection::vec(("[a-z]{2,9}|[图书馆新开放公园]{1,9}|[A-Z][a-z]{1,8}|。|end\\.|[!?;]", 0..4usize), 1..60),
    ) {
        let mut flat = String::from("word");
        let mut wrapped = String::from("word");
        for (word, gap) in &words {
            flat.push(' ');
            wrapped.push_str(["\n", "\r\n\r\n    ", "\u{3000}", " </b> "][*gap]);
            flat.push_str(word);
            wrapped.push_str(word);
        }
        for method in &METHODS {
            prop_assert_eq!(first(method, &wrapped), first(method, &flat), "{}", method);
        }
    }
}
