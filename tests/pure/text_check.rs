//! What must hold of the text work for any bytes. Shared by the small mutation run and the fuzz target.

use spinney::method::{Method, Workspace};
use spinney::text::{Fields, MOST_TEXT, Scratch};

/// A character folds to eighteen others at most, of two bytes each: `U+FDFA`.
const UNFOLDED: usize = 12;

/// Reads bytes as a document: what stands before the first line end is its title, each line behind it a part of its
/// body. Answers whether there was any text in it.
pub fn check(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n');
    let title = lines.next();
    let body: Vec<&str> = lines.collect();
    let fields = Fields { title, body: &body };
    check_clean(&fields);
    check_features(&fields)
}

fn check_clean(fields: &Fields<'_>) {
    let mut scratch = Scratch::new();
    let Some(text) = scratch.read(fields) else {
        return;
    };
    let (raw, cleaned) = (text.raw_len(), text.cleaned());
    assert!(raw <= MOST_TEXT);
    assert!(cleaned.len() <= UNFOLDED * raw, "{} of {raw}", cleaned.len());
    assert!(!cleaned.contains(['<', '>', '&']), "{cleaned:?}");
    let mut end = 0;
    for range in text.ranges() {
        assert!(end <= range.start && range.start < range.end && range.letters > 0);
        let sentence = cleaned.get(range.start..range.end).unwrap();
        // Places of a block of letters that Unicode has not given to one yet count as letters, too.
        let is_letter = |c: char| c.is_alphanumeric() || !c.is_ascii();
        assert!(sentence.contains(is_letter), "{sentence:?}");
        end = range.end;
    }
    assert!(cleaned.contains(text.longest()));
}

fn check_features(fields: &Fields<'_>) -> bool {
    let raw: usize = fields.body.iter().map(|part| part.len()).sum();
    let raw = raw + fields.title.map_or(0, str::len);
    let mut workspace = Workspace::default();
    let Some(features) = Method::Verified.read(fields, &mut workspace) else {
        return false;
    };
    let kept = features.heap_bytes();
    assert!(kept <= 6 * raw + 4096, "{kept} bytes are kept of {raw}");
    // Used buffers read what new ones read.
    let again = Method::Verified.read(fields, &mut workspace).unwrap();
    assert_eq!((features.hashes(), features.proof()), (again.hashes(), again.proof()));
    assert!(!features.hashes().is_empty());
    true
}
