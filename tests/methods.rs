//! The named methods from the outside: the examples of the articles that they come from, and what must not change a
//! document's fingerprints.

use proptest::prelude::*;
use spinney::fingerprint::{Distance, Fingerprint, Method, MethodError, Prints};
use spinney::text::{Fields, Scratch};

const METHODS: [Method; 3] = [Method::Longest, Method::Full, Method::Sentences(3)];

fn prints(method: Method, title: Option<&str>, body: &[&str]) -> Option<Prints> {
    method.fingerprint(&Fields { title, body }, &mut Scratch::new())
}

fn first(method: Method, body: &str) -> Fingerprint {
    prints(method, None, &[body])
        .expect("the text has words")
        .fingerprints[0]
}

/// A notice of three sentences, the second of them the longest.
const NOTICE: &str = "市图书馆新馆将于下周一正式开放。新馆位于滨江公园东侧，总建筑面积约三万平方米，设有儿童阅览区、盲文阅览区和二十四小时自助借还区，可同时容纳两千名读者。读者可凭身份证入馆。";
const REPORT: &str = "The harbour board met on Tuesday. Its members agreed that the old lighthouse should be repaired before winter, because storms had broken two of its windows and the lamp could no longer be seen from the outer islands. Work starts in May.";

/// seeds/000: two texts that differ in two characters are three bits apart there; seeds/002 calls up to 3 near.
#[test]
fn the_two_texts_of_the_seed_are_near() {
    for method in [Method::Longest, Method::Full] {
        let distance = first(method, "你妈妈喊你回家吃饭哦，回家罗回家罗")
            .distance(first(method, "你妈妈叫你回家吃饭啦，回家罗回家罗"));
        assert!(distance <= Distance(3), "{method}: {distance:?}");
        assert!(
            distance
                < first(method, "你妈妈喊你回家吃饭哦，回家罗回家罗")
                    .distance(first(method, NOTICE))
        );
    }
}

/// seeds/002: a paragraph changed by an editor changes the fingerprint of the whole, not that of the longest sentence.
#[test]
fn longest_survives_a_changed_paragraph() {
    let edited = NOTICE.replace(
        "市图书馆新馆将于下周一正式开放",
        "本报讯 记者昨日获悉，图书馆搬家了",
    ) + "（来源：某某日报 编辑：张三）";
    assert_eq!(
        first(Method::Longest, &edited),
        first(Method::Longest, NOTICE)
    );
    assert_ne!(first(Method::Full, &edited), first(Method::Full, NOTICE));
}

/// seeds/003: the signature of the N longest sentences is exact.
#[test]
fn sentences_are_exact_but_for_punctuation() {
    let method = Method::Sentences(2);
    assert_eq!(
        first(method, NOTICE),
        first(method, &NOTICE.replace('，', ","))
    );
    assert_eq!(
        first(method, NOTICE),
        first(method, &format!("短句。{NOTICE}"))
    );
    assert_ne!(
        first(method, NOTICE),
        first(method, &NOTICE.replace("三万", "四万"))
    );
    assert_ne!(first(Method::Sentences(3), NOTICE), first(method, NOTICE));
    assert_eq!(
        first(Method::Sentences(3), NOTICE),
        first(Method::Sentences(9), NOTICE)
    );
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
    for method in METHODS {
        let expected = prints(method, None, &[NOTICE]);
        for body in [
            &[][..],
            &[""],
            &["  \u{200B} ", "<p></p>"],
            &["———！！！"],
            &["<script>var a = 1;</script>"],
        ] {
            assert_eq!(
                prints(method, Some(NOTICE), body),
                expected,
                "{method} {body:?}"
            );
            assert_eq!(prints(method, None, body), None, "{method} {body:?}");
            assert_eq!(prints(method, Some("？"), body), None, "{method} {body:?}");
        }
        assert_eq!(
            prints(method, Some("another title"), &[NOTICE]),
            expected,
            "{method}"
        );
    }
}

#[test]
fn noise_words_count_only_where_there_is_nothing_else() {
    assert_eq!(
        first(Method::Full, "the house of the sea"),
        first(Method::Full, "house sea")
    );
    assert_ne!(first(Method::Full, "it is"), first(Method::Full, "you are"));
    assert_ne!(first(Method::Full, "是的"), Fingerprint(0));
}

#[test]
fn parts_of_a_body_are_one_text_whose_sentences_end_with_their_part() {
    for method in METHODS {
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
            '!'..='~' => {
                char::from_u32(c as u32 - 0x21 + 0xFF01).expect("full-width forms are characters")
            }
            c => c,
        })
        .collect();
    for method in METHODS {
        for (plain, changed) in [
            (NOTICE, traditional.to_owned()),
            (NOTICE, NOTICE.replace('，', ",").replace('。', ".")),
            (NOTICE, NOTICE.replace('。', "。</p>\n<p class=\"x\">")),
            (NOTICE, NOTICE.replace("，", "，\n　　")),
            (
                NOTICE,
                NOTICE.replace("读者", "<a href='/reader'>读</a>者\u{200B}"),
            ),
            (
                NOTICE,
                format!("{NOTICE}<script>if (a < b) {{ track('{NOTICE}{NOTICE}') }}</script>"),
            ),
            (REPORT, REPORT.replace(' ', "\n")),
            (REPORT, REPORT.replace(' ', "&nbsp;  ")),
            (REPORT, REPORT.replace(". ", ".</p><p>")),
            (REPORT, REPORT.replace("lighthouse", "<b>light</b>house")),
            (REPORT, REPORT.to_uppercase()),
            (REPORT, wide.clone()),
        ] {
            assert_eq!(
                first(method, &changed),
                first(method, plain),
                "{method}: {changed}"
            );
        }
    }
}

#[test]
fn a_long_leftover_of_page_code_is_not_the_longest_sentence() {
    let code = format!(
        "\n\t\tPage.loadWidget({{ trigger: {{ id: 'w1' }}, require: [ {{ url: \"//a.b/c.js\" }} ], {} }});",
        "title: '标题', ".repeat(20)
    );
    let style = format!(
        ".quote{{padding:20px 20px 0px;{}}}\n.con p{{margin-bottom:30px}}\n",
        "color:red;".repeat(20)
    );
    for changed in [
        format!("{NOTICE}{code}"),
        format!("{style}{NOTICE}"),
        format!("{code}{NOTICE}{style}"),
    ] {
        assert_eq!(
            first(Method::Longest, &changed),
            first(Method::Longest, NOTICE)
        );
    }
}

/// Big inputs that are slow or deep for careless code. The test is that they end, and that there is a fingerprint.
#[test]
fn huge_documents_have_fingerprints() {
    let unpunctuated = "今天天气很好我们去公园看花".repeat(10 << 10);
    let sentences = "好。".repeat(1 << 20);
    let nested = format!(
        "{}text{}",
        "<div>".repeat(1 << 20),
        "</div>".repeat(1 << 20)
    );
    let brackets = format!("text{}", "<".repeat(1 << 20));
    let unclosed = format!("<script>{}", "text < more; ".repeat(1 << 16));
    for text in [&unpunctuated, &sentences, &nested, &brackets, &unclosed] {
        for method in METHODS {
            assert!(prints(method, None, &[text]).is_some());
        }
    }
}

#[test]
fn names_are_read_and_written() {
    for (name, method) in [
        ("longest", Method::Longest),
        ("full", Method::Full),
        ("sentences:1", Method::Sentences(1)),
        ("sentences:16", Method::Sentences(16)),
    ] {
        assert_eq!(name.parse(), Ok(method));
        assert_eq!(method.to_string(), name);
        let json = serde_json::to_string(&method).expect("a name is a string");
        assert_eq!(json, format!("\"{name}\""));
        assert_eq!(
            serde_json::from_str::<Method>(&json).expect("its own output"),
            method
        );
    }
    for name in ["", "Longest", "longest:1", "full ", "sentence:3", "words"] {
        assert_eq!(
            name.parse::<Method>(),
            Err(MethodError::Unknown(name.into()))
        );
    }
    for name in [
        "sentences:",
        "sentences:0",
        "sentences:17",
        "sentences:x",
        "sentences:-1",
    ] {
        assert_eq!(
            name.parse::<Method>(),
            Err(MethodError::Sentences(name.into()))
        );
    }
    assert_eq!(
        "best".parse::<Method>().expect_err("no method").to_string(),
        "unknown method `best`: use verified, longest, full or sentences:N"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Any text has a fingerprint or none, the same every time, whatever the scratch was used for before.
    #[test]
    fn any_document(title in prop::option::of(any::<String>()), body in prop::collection::vec(any::<String>(), 0..3)) {
        let body: Vec<&str> = body.iter().map(String::as_str).collect();
        let mut used = Scratch::new();
        let other = Fields { title: Some(NOTICE), body: &[REPORT] };
        prop_assert!(Method::Full.fingerprint(&other, &mut used).is_some());
        for method in METHODS {
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
        for method in METHODS {
            prop_assert_eq!(first(method, &wrapped), first(method, &flat), "{}", method);
        }
    }
}
