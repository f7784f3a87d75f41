//! Texts that nobody writes but somebody sends, and what they cost: counted, not timed, so that the answer is the same
//! on every machine.

use proptest::prelude::*;

use super::shingles::Shingles;
use super::{Fields, Scratch, words, work_counter};

/// A text: the prefix, the unit as often as it takes, the suffix.
type Shape = (&'static str, &'static str, &'static str);

/// Each of them could be, or once was, more than linear or far dearer than plain text.
const SHAPES: &[Shape] = &[
    // Quotes and tags.
    ("<a ", "'", ">"),
    ("<a ", "a='' ", ">"),
    ("<a ", "a=\"\" ", ""),
    ("<a x=\"", "<a \" x=\"", ""),
    ("", "<zz @ x=\"", " >"),
    ("", "<zz @ x=\"<zz @ \" ", ">"),
    ("<zz @ x=\"", "<zz @ \" x=\"", "\" >"),
    ("", "<zz y \" x=\"", ">"),
    ("<a", "   '", ">"),
    ("<a ", "= '' ", ">"),
    ("", "<", ""),
    ("", "<a", ""),
    ("", "<a ", ""),
    ("", "<a ", ">"),
    ("", "<a x='", ""),
    ("", "<a x=''>", ""),
    ("", "<a x='\">", ""),
    ("", "</a ", ">"),
    ("", "</zz y", ">"),
    ("", "<div>", "the end"),
    ("", "<p>a", ""),
    ("", "<!", ""),
    ("", "<!--", ""),
    ("", "<!-- a ", "-->"),
    ("", "<!doctype ", ">"),
    ("", "<?a ", ">"),
    ("", "<![CDATA[", ""),
    ("", "<script>", ""),
    ("", "<script></", ""),
    ("<script>", "</", ""),
    ("", "<svg><style>", ""),
    ("", "<zz/", ">"),
    // Code.
    ("", "{", ""),
    ("", "{a:b;", ""),
    ("", " a {b ", ""),
    ("", "中{", ""),
    ("", "a{}", ""),
    ("aaaaaaaa,aaaaaaaa", "=x{}", ""),
    ("", "zz,a,a,a,a,a,a,a,a {", ""),
    ("", ".a{", "}"),
    ("", "{}(", ""),
    ("", "(((", ""),
    ("", "()", ""),
    ("", "[", ""),
    ("", "/*", ""),
    ("", "/**/", "a"),
    ("", "/**/", ""),
    ("", "a=b;", ""),
    ("", "_$=", ""),
    // Sentences.
    ("", "a. ", ""),
    ("", "1!", ""),
    ("", ".", ""),
    ("", ". ", ""),
    ("", "a.\"\"\"\"", ""),
    ("", "a.<b '", ""),
    ("", ".<b =' .<b =' ", ""),
    ("", "。", ""),
    ("", "…", ""),
    ("", "?!", ""),
    // References and addresses.
    ("", "&", ""),
    ("", "&amp;", ""),
    ("&", "amp;", ""),
    ("&lt;/", "&amp;amp;", ""),
    ("", "&#", ""),
    ("", "&#769;", ""),
    ("e", "&#769;", ""),
    ("", "e&#769;&#803;", ""),
    ("", "&#x4e2d;", ""),
    ("", "http://", ""),
    ("http://", "a", ""),
    ("", "http://a ", ""),
    ("", "://", ""),
    // Letters, marks and digits.
    ("", "a", ""),
    ("", "a ", ""),
    ("", "A", ""),
    ("", "1", ""),
    ("", "1,", ""),
    ("", "1.1 ", ""),
    ("", "中", ""),
    ("", "中1", ""),
    ("", "1年", ""),
    ("", "の", ""),
    ("", "ก", ""),
    ("", "\u{1031}", ""),
    ("", "က\u{1039}<", ""),
    ("ေကာ", "၎", ""),
    ("ေကာ", "\u{108B}", ""),
    ("", "한", ""),
    ("", "\u{1161}", ""),
    ("", "\u{1100}\u{1161}\u{11A8}", ""),
    ("a", "\u{301}", ""),
    ("a", "\u{301}\u{323}", ""),
    ("", "e\u{301}", ""),
    ("", "e\u{301}\u{323}", ""),
    ("", "e\u{301}\u{200B}\u{323}\u{200B}", ""),
    ("", "का", ""),
    ("", "קָּ", ""),
    ("a", "\u{1D165}", ""),
    ("", "\u{FDFA}", ""),
    ("", "㌖", ""),
    ("", "½", ""),
    ("", "😀", ""),
    ("", "𝐀", ""),
    ("", "\u{200B}", ""),
    ("", " ", ""),
    ("", "a's ", ""),
    ("", "it's'", ""),
    ("the old bridge is closed ", "@one[a]#b//", ""),
    ("", "//@a", ""),
    ("", "#a b", ""),
    ("", "回复@", ""),
];

/// No text costs more steps a byte than this. Plain English takes about 6, Hindi 20.
const STEPS_A_BYTE: usize = 64;

fn text(prefix: &str, unit: &str, suffix: &str, bytes: usize) -> String {
    let count = bytes / unit.len().max(1);
    [prefix, &unit.repeat(count), suffix].concat()
}

/// The steps of all text work: cleaning, shingles, words.
fn cost(text: &str) -> usize {
    work_counter::count(|| {
        let (mut scratch, mut shingles) = (Scratch::new(), Shingles::new());
        let fields = Fields { title: None, body: &[text] };
        if let Some(text) = scratch.read(&fields) {
            shingles.read(&text);
            for sentence in text.sentences() {
                words(sentence, |_| work_counter::add(1));
            }
        }
    })
}

/// What is wrong with the costs of a shape at two sizes, if anything is.
fn complaint(prefix: &str, unit: &str, suffix: &str, bytes: usize) -> Option<String> {
    let small = text(prefix, unit, suffix, bytes);
    let large = text(prefix, unit, suffix, 4 * bytes);
    let (first, second) = (cost(&small), cost(&large));
    let most = |text: &str| STEPS_A_BYTE * (text.len() + 64);
    // Posts are read in a way of their own.
    let post = text(prefix, unit, suffix, 2_000);
    let is_dear = cost(&post) > most(&post) || second > most(&large);
    // What is looked at once, whatever the size: a window, a block.
    let fixed = 2048;
    let linear = 2 * second <= 9 * (first + fixed);
    (!linear || is_dear).then(|| {
        let shape = (prefix, unit, suffix);
        format!("{shape:?}: {first} steps for {} bytes, {second} for {}", small.len(), large.len())
    })
}

#[test]
fn every_shape_is_linear() {
    let complaints = SHAPES.iter().filter_map(|(prefix, unit, suffix)| complaint(prefix, unit, suffix, 5_000));
    let complaints: Vec<String> = complaints.collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// A unit of pieces of the shapes.
fn pieces() -> impl Strategy<Value = String> {
    let parts = SHAPES.iter().flat_map(|&(p, unit, s)| [p, unit, s]);
    let parts: Vec<&'static str> = parts.filter(|part| !part.is_empty()).collect();
    prop::collection::vec(prop::sample::select(parts), 1..5).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn combined_shapes_are_linear(prefix in pieces(), unit in pieces(), suffix in pieces()) {
        let complaint = complaint(&prefix, &unit, &suffix, 5_000);
        prop_assert!(complaint.is_none(), "{}", complaint.unwrap_or_default());
    }
}
