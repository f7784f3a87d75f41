use std::iter::repeat_n;

use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization;

use super::*;

fn run(raw: &str) -> (String, Vec<Sentence>) {
    let (mut out, mut sentences) = (String::new(), Vec::new());
    Cleaner::new(&mut out, &mut sentences).field(raw);
    (out, sentences)
}

pub(crate) fn sentences(raw: &str) -> Vec<String> {
    let (out, sentences) = run(raw);
    sentences.iter().map(|s| out[s.start..s.end].trim().to_owned()).collect()
}

fn clean(raw: &str) -> String {
    run(raw).0
}

#[test]
fn tags_comments_and_hidden_elements() {
    assert_eq!(clean("<p class=\"a\">Hel<b>lo</b>, <i>world</i></p>"), "hello, world");
    assert_eq!(clean("一<!-- 注 -->二<script>var 三=1</script>三<style>p{}</style>四"), "一二三四");
    assert_eq!(clean("a<br>b<td>c</td><td>d"), "a b c d");
    assert_eq!(clean("<![CDATA[text]]>"), "text]]");
    assert_eq!(clean("&lt;p&gt;escaped&lt;/p&gt;"), "p escaped /p");
}

#[test]
fn a_less_than_sign_is_no_tag() {
    assert_eq!(clean("if a < b then c"), "if a b then c");
    assert_eq!(clean("a<b"), "a b");
    assert_eq!(clean("x <3 y"), "x 3 y");
    assert_eq!(clean("<ABC> rose"), "abc rose");
    assert_eq!(clean("<<<<text"), "text");
    assert_eq!(clean("a <script b"), "a script b");
}

#[test]
fn entities() {
    assert_eq!(clean("AT&amp;T&nbsp;&#39;s &#x4E2D;&#22269; &hellip;"), "at t 's中国...");
    assert_eq!(clean("fish & chips &unknown;"), "fish chips unknown;");
    assert_eq!(clean("caf&eacute; cafe&#769;"), "cafe cafe");
}

#[test]
fn folding() {
    assert_eq!(clean("ＡＢＣ，１２３％！"), "abc,123%!");
    assert_eq!(clean("中\u{200B}国\u{FEFF}人\u{0}民"), "中国人民");
    assert_eq!(clean("「臺灣」的電腦網絡"), "「台湾」的电脑网络");
    assert_eq!(clean("ｶﾞｷﾞ ﾊﾟ"), "ガギパ");
    assert_eq!(clean("e\u{301}te\u{301} E\u{301}"), "ete e");
    assert_eq!(clean("a\u{302}\u{323} a\u{323}\u{302}"), "a a");
    assert_eq!(clean("\u{1112}\u{1161}\u{11AB}"), "한");
    assert_eq!(clean("\u{301}x \u{301}"), "x");
}

/// The same word in the notations of its script, decomposed ones included.
#[test]
fn notations_of_one_word_are_one() {
    for (notations, folded) in [
        (&["Συμβούλιο", "ΣΥΜΒΟΥΛΙΟ", "συμβουλιο"][..], "συμβουλιο"),
        (&["Ιθάκης", "ΙΘΆΚΗΣ"], "ιθακησ"),
        (&["İstanbul'da ışık", "ISTANBUL'DA IŞIK", "istanbul'da isik"], "istanbul'da isik"),
        (&["Große Straße", "GROSSE STRASSE", "GROẞE STRAẞE"], "grosse strasse"),
        (&["Łódź", "ŁÓDŹ", "lodz"], "lodz"),
        (&["hoá", "hóa", "HOÁ"], "hoa"),
        (&["Điện lực", "dien luc"], "dien luc"),
        (&["Århus Ødegård", "arhus odegard"], "arhus odegard"),
        (&["Ёлка", "елка", "ЕЛКА"], "елка"),
        (&["مسؤول", "مسوول"], "مسوول"),
        (&["الأئمة", "الايمه"], "الايمه"),
        (&["كِتَابٌ", "كتـــاب", "کتاب"], "كتاب"),
        (&["שָׁלוֹם", "שלום"], "שלום"),
        (&["צה״ל", "צה\"ל"], "צה\"ל"),
        (&["Œuvre cœur", "OEUVRE coeur"], "oeuvre coeur"),
        (&["Ærø ǽ", "AERO ae"], "aero ae"),
        (&["O\u{02BB}zbek", "o\u{2018}zbek", "o'zbek", "o\u{02BC}zbek"], "o'zbek"),
        (&["ज़िला गाँव", "जिला गांव", "\u{095B}िला गांव"], "जिला गांव"),
        (&["خانۀ", "خانهٔ", "خانه", "خانة", "خانۃ"], "خانه"),
    ] {
        for notation in notations {
            assert_eq!(clean(notation), folded, "{notation}");
            let decomposed: String = notation.nfd().collect();
            assert_eq!(clean(&decomposed), folded, "{notation} decomposed");
        }
    }
}

/// Each character that Unicode composes is what its parts are, wherever the marks stand.
#[test]
fn composed_characters_are_their_parts() {
    let mut composed = 0;
    let mut wrong = Vec::new();
    for c in ('\u{80}'..='\u{2FFFF}').filter(|c| !('\u{AC00}'..='\u{D7A3}').contains(c)) {
        let parts: String = c.nfd().collect();
        composed += usize::from(parts.chars().ne([c]));
        if clean(&format!("x {c} x")) != clean(&format!("x {parts} x")) {
            wrong.push(format!("{c} U+{:04X}", u32::from(c)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(composed > 2_000, "{composed}");
}

#[test]
fn white_space_is_one_space_and_none_beside_chinese() {
    assert_eq!(clean("  two\t\n words \u{a0}\u{3000}here  "), "two words here");
    assert_eq!(clean("摘了 18 个 苹果"), "摘了18个苹果");
    assert_eq!(clean("在 iPhone 6s 上"), "在iphone 6s上");
}

#[test]
fn web_addresses_go() {
    assert_eq!(clean("see https://example.com/a?b=1#c, then"), "see then");
    assert_eq!(clean("详情http://例.com/x见网站"), "详情例.com/x见网站");
    assert_eq!(clean("HTTP://EXAMPLE.COM"), "");
    assert_eq!(clean("ratio 3://4"), "ratio 3://4");
}

#[test]
fn leftover_code_goes_and_the_text_around_it_stays() {
    let script = "\n\t\tPage.loadWidget({\n\t\t trigger: {\n\t id: 'w1' },\n require: [ { url: \"//a/b.js\" } ],\n onAfterLoad: function () { x(); }\n});\n";
    assert_eq!(sentences(&format!("比赛结束了{script}两队再见")), ["比赛结束了", "两队再见"]);
    assert_eq!(
        sentences(&format!("比赛结束了。{}两队再见", script.replace(char::is_whitespace, " "))),
        ["比赛结束了。", "两队再见"]
    );
    assert_eq!(
        sentences(".quote{padding:20px 0;color:red}\n.con p a:visited{color: #123456 !important;}\n正文在这里。"),
        ["正文在这里。"]
    );
    assert_eq!(sentences("var _hmt = _hmt || [];正文"), ["正文"]);
    assert_eq!(
        sentences("He paid {sic} the bill (a big one) = 3 dollars."),
        ["he paid {sic} the bill (a big one) = 3 dollars."]
    );
}

#[test]
fn letters_are_counted() {
    for (raw, letters) in [
        ("你好，world 12！", vec![9]),
        ("a<b>b</b> .", vec![2]),
        ("e\u{301}", vec![1]),
        ("\u{1112}\u{1161}\u{11AB}", vec![1]),
        ("看 http://a.com 吧", vec![2]),
        ("。！？", vec![]),
    ] {
        let counted: Vec<usize> = run(raw).1.iter().map(|s| s.letters).collect();
        assert_eq!(counted, letters, "{raw}");
    }
}

/// Inputs made to be slow. The test is that they end.
#[test]
fn hostile_input_is_linear() {
    // A minute at least for each, if the time grew with the square.
    const SIZE: usize = 1 << 20;
    let filled = |piece: &str| -> String { repeat_n(piece, SIZE / piece.len()).collect() };
    for piece in [
        "<",
        "<a",
        "<a ",
        "<a =\"",
        "<a =\"<a ='",
        "<a ' ",
        "</",
        "</a",
        "<!--",
        "<!",
        "<script",
        "<script>",
        "<script></",
        "<p>",
        "&",
        "&amp;",
        "&#",
        "{",
        "a:{",
        "a={b:1;",
        "}",
        "(",
        "x.",
        ".",
        ". ",
        "…",
        "\u{301}",
        "e\u{301}",
        "\u{1161}",
        "http://",
        "http:// ",
        "'",
        "\"",
        "我",
        "我。",
        "ﷺ",
        "a",
        "A",
        " ",
        "\u{3000}",
        "<div>",
        "<![CDATA[",
        "var a=",
        "0",
        "/**/",
        "/*a*/ ",
    ] {
        let (out, sentences) = run(&filled(piece));
        assert!(sentences.iter().all(|s| s.end <= out.len()), "{piece}");
    }
    let open = format!("<script>{}", filled("x < y </scrip "));
    assert!(clean(&open).starts_with("x y"));
    let commented = format!("{}text", filled("/**/"));
    assert_eq!(run(&commented).1.len(), 1, "text behind comments stays");
}

/// What every cleaned text promises.
fn is_clean(text: &str) {
    let tables = Tables::get();
    assert!(!text.contains(['<', '>', '&', '\n', '\t']), "{text:?}");
    assert!(!text.contains("  ") && !text.starts_with(' '), "{text:?}");
    assert!(text.chars().all(|c| c == ' ' || !matches!(tables.class(c), Class::Drop | Class::Space)), "{text:?}");
}

/// Pieces that mean something to the pass, so that random text meets its branches.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => any::<String>(),
        3 => "[a-zA-Z 的中國，。.!?;:'\"0-9]{1,12}",
        1 => prop::sample::select(vec![
            "<", ">", "&", "<p>", "</p>", "<b>", "</b>", "<br/>", "<script>", "</script>", "<!--", "-->", "&nbsp;", "&lt;", "&gt;",
            "&amp;", "&#60;", "&#x200b;", "{", "}", "a={b:1;", "http://x.y/z ", "...", "……", "\u{200B}", "\u{301}", "＜ｐ＞", "\u{1161}",
            "ﾞ", "İ", "ǅ", "ŉ", "Ⅷ", "\u{fdfa}", "𠀀", "𝒜", "'s ", "Mr. ", "U.S. ", "\r\n",
        ]).prop_map(str::to_owned),
    ]
}

fn raw() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..12).prop_map(|pieces| pieces.concat())
}

/// Letters and marks of scripts whose vowels are marks.
fn marked() -> impl Strategy<Value = String> {
    let scripts = [
        'ก'..='\u{E4E}',
        'ກ'..='\u{ECD}',
        'क'..='\u{94D}',
        'ক'..='\u{9D7}',
        'က'..='\u{103E}',
        'ក'..='\u{17D3}',
        'ཀ'..='\u{F84}',
    ];
    let others = ['か', '\u{3099}', '가', 'a', ' ', '.'];
    let all: Vec<char> = scripts.into_iter().flatten().chain(others).collect();
    prop::collection::vec(prop::sample::select(all), 0..24).prop_map(String::from_iter)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_text_is_cleaned_and_covered_by_its_sentences(raw in raw()) {
        let (out, sentences) = run(&raw);
        is_clean(&out);
        let tables = Tables::get();
        let letters = |text: &str| text.chars().filter(|&c| tables.class(c).is_letter()).count();
        let mut at = 0;
        for sentence in &sentences {
            prop_assert!(sentence.start >= at && sentence.end > sentence.start);
            prop_assert_eq!(letters(&out[at..sentence.start]), 0, "letters between sentences of {:?}", out);
            prop_assert_eq!(letters(&out[sentence.start..sentence.end]), sentence.letters, "{:?}", out);
            at = sentence.end;
        }
        prop_assert_eq!(letters(&out[at..]), 0);
    }

    /// Marks that are copied with the letters before them are those that are added one at a time, as behind a character
    /// that leaves no trace.
    #[test]
    fn marks_that_are_copied_are_those_that_are_added(
        text in marked(),
    ) {
        let is_mark = |c: char| Tables::get().class(c) == Class::Mark;
        let one_by_one = |c: char| if is_mark(c) { format!("\u{200B}{c}") } else { c.to_string() };
        prop_assert_eq!(clean(&text), clean(&text.chars().map(one_by_one).collect::<String>()));
    }

    /// Cleaning what is clean changes nothing, where there is no code. What is code is judged by the raw text: a line
    /// that markup, capital letters or signs in full width had kept apart may read as a statement once they are gone.
    #[test]
    fn cleaning_is_stable(raw in raw()) {
        let signs = ['{', '}', '[', ']', '(', ')', '=', ':', '$', '_', '\\', '#', '/', '-'];
        let is_sign = |c: char| clean(c.encode_utf8(&mut [0; 4])).contains(signs);
        let mut once = clean(&raw);
        if once.contains(signs) {
            once = clean(&raw.replace(is_sign, ""));
        }
        prop_assert_eq!(clean(&once), once.trim_end());
    }

    /// Canonically equivalent texts are one text.
    #[test]
    fn normal_forms_do_not_matter(
        text in "[a-eA-EéàộẬͅが\u{300}-\u{345}\u{3099}かカﾊﾟ\u{1100}-\u{1112}\u{1161}-\u{1175}\u{11A8}-\u{11C2}한 ]{0,20}",
    ) {
        let expected = clean(&text.nfc().collect::<String>());
        prop_assert_eq!(clean(&text.nfd().collect::<String>()), expected.clone());
        prop_assert_eq!(clean(&text), expected);
    }

    /// A text without markup is its NFKC lower-case form, but for white space and what the fold makes alike.
    #[test]
    fn plain_text_agrees_with_the_normaliser(text in "[a-zA-Z0-9 ,，。жЖ한가-힣ａ-ｚＡ-Ｚ０-９私の简体中文]{0,40}") {
        let expected: String = text.nfkc().flat_map(char::to_lowercase).filter(|c| !c.is_whitespace()).collect();
        let cleaned: String = clean(&text).chars().filter(|c| !c.is_whitespace()).collect();
        prop_assert_eq!(cleaned, expected);
    }

    /// Wrapping and inline markup leave the sentences as they are.
    #[test]
    fn wrapping_does_not_matter(
        words in prop::collection::vec(("[a-z]{1,8}|[天气很好我们去看]{1,8}|Rose|Mr\\.|[。，!?]|end\\.", 0..5usize), 1..30),
    ) {
        let mut flat = String::new();
        let mut wrapped = String::new();
        for (word, gap) in &words {
            flat += word;
            flat += " ";
            wrapped += word;
            wrapped += [" ", "\n", "\r\n    ", " \u{a0}", "<b> </b>"][*gap];
        }
        prop_assert_eq!(sentences(&wrapped), sentences(&flat));
    }
}
