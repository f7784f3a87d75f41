//! What must hold of any bytes behind a sound checksum: a stored state reads them or refuses them, and what it has read
//! it writes so that it is read again. Shared by the small mutation run and the fuzz target.

use spinney::fingerprint::Distance;
use spinney::forest::local::{ForestState, StateChange};
use spinney::forest::{Portions, Restoring, Settings};
use spinney::hash::HashKey;
use spinney::method::{LearnedText, MethodKind, SHORT_TEXT_DISTANCE, Short, Staged, Strict, Verified};

/// In place of the section of a part: a batch of the journal.
pub const BATCH: u8 = 0;

/// Reads bytes as a kind of forest and its records, each | section 1 | length 2 | bytes |. Answers how many were read.
pub fn check(data: &[u8]) -> usize {
    let Some((&kind, records)) = data.split_first() else {
        return 0;
    };
    let settings = |k| Settings { k, window: None, key: HashKey::FIXED };
    match kind % 4 {
        0 => check_kind(
            || ForestState::<Verified>::new(settings(Distance(0)), Default::default(), LearnedText::default()),
            records,
        ),
        1 => check_kind(|| ForestState::<Strict>::new(settings(Distance(3)), (), ()), records),
        2 => check_kind(|| ForestState::<Staged>::new(settings(Distance(3)), (), ()), records),
        _ => check_kind(|| ForestState::<Short>::new(settings(SHORT_TEXT_DISTANCE), (), ()), records),
    }
}

/// The next record of the bytes, shorter than it says where they end.
fn next<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&[section, low, high], rest) = bytes.split_first_chunk()?;
    let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
    let (record, rest) = rest.split_at(length);
    *bytes = rest;
    Some((section, record))
}

fn check_kind<F: MethodKind, E: std::fmt::Debug>(
    make: impl Fn() -> Result<ForestState<F>, E>,
    mut records: &[u8],
) -> usize {
    let (mut read, mut lsn) = (0, 0);
    let mut restoring = Restoring::salvaging(make().unwrap());
    while let Some((section, record)) = next(&mut records) {
        let is_read = if section == BATCH {
            check_changes::<F>(record);
            lsn += 1;
            restoring.batch(lsn, record)
        } else if lsn == 0 {
            restoring.part(section, record)
        } else {
            // The store reads all of the copy before the journal.
            continue;
        };
        match is_read {
            Ok(()) => read += 1,
            Err(unreadable) => assert!(unreadable.at <= record.len(), "{unreadable}"),
        }
    }
    let state = restoring.finish();
    let mut copied = Restoring::new(make().unwrap());
    let (section, bytes) = state.begin_copy();
    copied.part(section, &bytes).unwrap();
    let mut portions = Portions::default();
    while let Some((section, bytes)) = state.next_portion(&mut portions, lsn) {
        copied.part(section, &bytes).unwrap();
    }
    let copied = copied.finish();
    assert_eq!(state.forest().stats().nodes, copied.forest().stats().nodes);
    assert_eq!(state.overrides(), copied.overrides());
    read
}

/// What reads as changes is written as the same changes.
fn check_changes<F: MethodKind>(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let Some(change) = StateChange::<F::Proof>::read(&mut bytes) else {
            return;
        };
        let mut written = Vec::new();
        change.write(&mut written);
        let mut rest = written.as_slice();
        let again = StateChange::<F::Proof>::read(&mut rest).unwrap();
        assert!(rest.is_empty());
        let mut twice = Vec::new();
        again.write(&mut twice);
        assert_eq!(written, twice);
    }
}
