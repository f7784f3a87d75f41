//! What is kept of one document between reading and placing, and by a thread between documents, whatever the document
//! is: sums of capacities, so that no allocator has to be watched.

use proptest::prelude::*;
use spinney::method::{Features, Method, Workspace};
use spinney::text::{Fields, MOST_TEXT};

/// A document keeps this much for each byte of its fields, and as much as a small one needs.
const KEPT_A_BYTE: usize = 7;
const KEPT_AT_LEAST: usize = 4 * 1024;
/// What a thread may hold between documents.
const HELD: usize = 5 << 20;

const METHODS: [&str; 6] = ["verified", "full", "longest", "sentences:3", "short", "staged"];

/// Units of texts that are many shingles, sentences, numbers or characters for their size.
const UNITS: [&str; 26] = [
    "1!",
    "1 ",
    "1,2 ",
    "1. ",
    "a!",
    "a ",
    "a-",
    "ab! ",
    "abcdefgh!",
    "a!abcdefgh!",
    "1!abcdefgh!",
    "1 2 abcdefgh!",
    "中",
    "中。",
    "中1",
    "の",
    "ก",
    "한!",
    "1年",
    "㌖",
    "㌖!",
    "\u{FDFA}",
    "\u{FDFA}!",
    "\u{FDFA}!a!",
    "\u{FDFA}1",
    "<p>1",
];

fn read(method: &str, title: &str, text: &str, workspace: &mut Workspace) -> Option<Features> {
    let method: Method = method.parse().unwrap();
    let fields = Fields { title: Some(title).filter(|title| !title.is_empty()), body: &[text] };
    method.read(&fields, workspace)
}

/// What is wrong with what is kept of a text, if anything is.
fn complaint(method: &str, title: &str, text: &str) -> Option<String> {
    let features = read(method, title, text, &mut Workspace::default())?;
    let (kept, plain) = (features.heap_bytes(), title.len() + text.len());
    (kept > KEPT_A_BYTE * plain + KEPT_AT_LEAST).then(|| {
        let start: String = text.chars().take(30).collect();
        format!("{method}: {kept} bytes are kept of {plain}: {start}")
    })
}

#[test]
fn what_is_kept_of_a_document_follows_its_size() {
    let mut complaints = Vec::new();
    for unit in UNITS {
        for bytes in [100, 1_000, 10_000, 300_000] {
            let text = unit.repeat(bytes / unit.len());
            // The others keep no more than a few hashes, of any text.
            let methods = METHODS.get(..if bytes == 1_000 { METHODS.len() } else { 1 });
            let methods = methods.unwrap_or_default().iter();
            complaints.extend(methods.filter_map(|method| complaint(method, "", &text)));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn so_does_that_of_any_mixture(
        pieces in prop::collection::vec(prop::sample::select(UNITS.to_vec()), 1..12),
        times in 1usize..2_000,
        title in ".{0,20}",
    ) {
        let complaint = complaint("verified", &title, &pieces.concat().repeat(times));
        prop_assert!(complaint.is_none(), "{}", complaint.unwrap_or_default());
    }
}

#[test]
fn what_comes_behind_the_first_mebibyte_is_not_read() {
    // Three bytes a character: the cut falls between two of them.
    let first: String =
        (0u64..).map(|n| char::from_u32(0x4E00 + (n * n % 4_999) as u32).unwrap()).take(MOST_TEXT / 3).collect();
    let more = format!("{first}{}", "一切都变了。".repeat(1_000));
    assert!(first.len() < MOST_TEXT && more.len() > MOST_TEXT);
    for method in METHODS {
        let hashes = |text: &str| read(method, "", text, &mut Workspace::default()).unwrap().hashes();
        assert_eq!(hashes(&first), hashes(&more), "{method}");
        // Up to there every letter counts where the hash is exact.
        if matches!(method, "verified" | "sentences:3") {
            assert_ne!(hashes(&first), hashes(&first[3_000..]), "{method}");
        }
    }
    let mut kept = 0;
    for unit in UNITS {
        let text = unit.repeat(5 * MOST_TEXT / 4 / unit.len());
        let features = read("verified", "", &text, &mut Workspace::default()).unwrap();
        kept = kept.max(features.heap_bytes());
    }
    assert!(kept <= KEPT_A_BYTE * MOST_TEXT + KEPT_AT_LEAST, "{kept}");
}

#[test]
fn a_thread_gives_back_what_a_huge_document_took() {
    for method in METHODS {
        let units = UNITS.iter().filter(|&&unit| method == "verified" || unit == "1!");
        for unit in units {
            let mut workspace = Workspace::default();
            let huge = unit.repeat(5 * MOST_TEXT / 4 / unit.len());
            read(method, &huge, &format!("&lt;/{huge}"), &mut workspace);
            read(method, "a title", "and a few words of text", &mut workspace);
            let held = workspace.heap_bytes();
            assert!(held <= HELD, "{method}, {unit}: {held} bytes are held");
        }
    }
}
