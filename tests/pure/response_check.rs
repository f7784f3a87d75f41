//! What must hold of an answer however it comes in pieces. Shared by the small mutation run and the fuzz target.

use spinney::bulk::{ItemStatuses, ResponseScanner};

/// The answer, and where it is cut: the first byte says how many of the next ones are distances between cuts.
fn parts(data: &[u8]) -> (&[u8], &[u8]) {
    let Some((&cuts, rest)) = data.split_first() else {
        return (data, data);
    };
    rest.split_at(usize::from(cuts % 16).min(rest.len()))
}

fn scanned<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> ItemStatuses {
    let mut scanner = ResponseScanner::default();
    for chunk in chunks {
        scanner.push(chunk);
    }
    scanner.finish()
}

/// Checks that the answer reads the same however it is cut, and that a part of it never passes for all of it. Answers
/// what was read.
pub fn check(data: &[u8]) -> ItemStatuses {
    let (cuts, answer) = parts(data);
    let whole = scanned([answer]);
    assert_eq!(scanned(answer.chunks(1)), whole, "byte by byte");
    let (mut chunks, mut rest) = (Vec::new(), answer);
    for &cut in cuts {
        let (chunk, behind) = rest.split_at(usize::from(cut).min(rest.len()));
        chunks.push(chunk);
        rest = behind;
    }
    chunks.push(rest);
    assert_eq!(scanned(chunks.iter().copied()), whole, "cut at {cuts:?}");

    assert_eq!(whole.ops.len(), whole.items);
    assert!(whole.failed.is_sorted_by(|a, b| a.0 < b.0));
    assert!(whole.failed.iter().all(|&(place, status)| place < whole.items && status >= 300));
    if whole.well_formed {
        // Behind an object or list nothing counts but white space.
        let text = answer.trim_ascii();
        if let [body @ .., b'}' | b']'] = text {
            assert!(!scanned([body]).well_formed, "without its end");
        }
    }
    whole
}
