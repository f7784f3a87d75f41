//! Byte encoding of stored values, little-endian. Encodings must not change: a file of any version is opened by all
//! later ones.

use super::{Founder, LearnedText, ShortText, StagedProof, TextProof, TreeTally};
use crate::fingerprint::Fingerprint;
use crate::text::boilerplate::Boilerplate;

/// A value that can be written down.
pub trait Durable: Sized {
    /// Appends the encoding.
    fn write(&self, out: &mut Vec<u8>);

    /// Decodes a value and removes its bytes from the front; `None` if they are not one.
    fn read(bytes: &mut &[u8]) -> Option<Self>;
}

/// Takes a fixed number of bytes off the front.
pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

/// Takes so many bytes off the front.
fn take_slice<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Durable for $number {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &mut &[u8]) -> Option<Self> {
                take(bytes).map(<$number>::from_le_bytes)
            }
        }
    )*};
}

numbers!(u8, u32, u64, i64);

impl Durable for Fingerprint {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        u64::read(bytes).map(Fingerprint)
    }
}

/// No proof, and nothing learned.
impl Durable for () {
    fn write(&self, _: &mut Vec<u8>) {}

    fn read(_: &mut &[u8]) -> Option<Self> {
        Some(())
    }
}

impl Durable for StagedProof {
    fn write(&self, _: &mut Vec<u8>) {}

    fn read(_: &mut &[u8]) -> Option<Self> {
        Some(StagedProof)
    }
}

/// The length of a proof has one byte.
const _: () = assert!(TextProof::MAX_BYTES <= u8::MAX as usize);

/// | hash of the text 8 | length 1 | proof |
impl Durable for Founder {
    fn write(&self, out: &mut Vec<u8>) {
        self.whole().write(out);
        let proof = self.proof().to_bytes();
        out.push(proof.len() as u8);
        out.extend_from_slice(&proof);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let whole = Fingerprint::read(bytes)?;
        let len = u8::read(bytes)?;
        let proof = TextProof::from_bytes(take_slice(bytes, usize::from(len))?).ok()?;
        Some(Founder::new(whole, proof))
    }
}

/// | length 4 | UTF-8 |
impl Durable for ShortText {
    fn write(&self, out: &mut Vec<u8>) {
        let text = self.as_str().as_bytes();
        (text.len() as u32).write(out);
        out.extend_from_slice(text);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let len = u32::read(bytes)?;
        let text = std::str::from_utf8(take_slice(bytes, len as usize)?).ok()?;
        Some(ShortText::kept(text))
    }
}

/// | documents 4 | titles 8 | signs 1 | last 4 |
impl Durable for TreeTally {
    fn write(&self, out: &mut Vec<u8>) {
        let (documents, titles, signs, last) = self.parts();
        documents.write(out);
        titles.write(out);
        signs.write(out);
        last.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let documents = u32::read(bytes)?;
        let titles = u64::read(bytes)?;
        let signs = u8::read(bytes)?;
        let last = u32::read(bytes)?;
        Some(TreeTally::of_parts(documents, titles, signs, last))
    }
}

/// | founders 8 | entries of the table 4 | entries that are there 4 | of each: place 4, entry 8 |
impl Durable for LearnedText {
    fn write(&self, out: &mut Vec<u8>) {
        let (founded, entries) = self.boilerplate().state();
        founded.write(out);
        (entries.len() as u32).write(out);
        let there = || (0u32..).zip(entries).filter(|(_, entry)| **entry != 0);
        (there().count() as u32).write(out);
        for (place, entry) in there() {
            place.write(out);
            entry.write(out);
        }
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let founded = u64::read(bytes)?;
        let mut entries = vec![0; Boilerplate::ENTRIES];
        if u32::read(bytes)? as usize != entries.len() {
            return None;
        }
        for _ in 0..u32::read(bytes)? {
            let place = u32::read(bytes)?;
            *entries.get_mut(place as usize)? = u64::read(bytes)?;
        }
        let boilerplate = Boilerplate::restore(founded, entries)?;
        Some(LearnedText::of(boilerplate))
    }
}

/// Entries of a portion: 12 KB.
const ENTRIES: usize = 1 << 10;

impl LearnedText {
    /// Encodes the table in portions: | founders 8 | of each entry: place 4, entry 8 |
    pub(super) fn portions(&self) -> Vec<Vec<u8>> {
        let (founded, entries) = self.boilerplate().state();
        let there = (0u32..).zip(entries).filter(|(_, entry)| **entry != 0);
        let there: Vec<(u32, &u64)> = there.collect();
        let portion = |entries: &[(u32, &u64)]| {
            let mut out = Vec::with_capacity(8 + 12 * entries.len());
            founded.write(&mut out);
            for (place, entry) in entries {
                place.write(&mut out);
                entry.write(&mut out);
            }
            out
        };
        there.chunks(ENTRIES).map(portion).collect()
    }

    /// Merges a portion of another table; unreadable entries are skipped.
    pub(super) fn add_portion(&mut self, mut bytes: &[u8]) {
        let bytes = &mut bytes;
        let Some(founded) = u64::read(bytes) else {
            return;
        };
        while let (Some(place), Some(entry)) = (u32::read(bytes), u64::read(bytes)) {
            self.boilerplate_mut().put(founded, place as usize, entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::method::{TallyEntry, VerifiedFeatures};
    use crate::text::{Fields, Scratch};

    fn again<T: Durable>(value: &T) -> Option<(T, usize)> {
        let mut bytes = Vec::new();
        value.write(&mut bytes);
        bytes.extend_from_slice(b"more");
        let mut rest = bytes.as_slice();
        let read = T::read(&mut rest)?;
        Some((read, rest.len()))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            text in "[a-z0-9 的中國.]{0,400}",
            whole in any::<u64>(),
            counts in prop::collection::vec((any::<u32>(), 0u8..5), 0..9),
        ) {
            let mut features = VerifiedFeatures::new();
            features.read(&mut Scratch::new(), &Fields { title: Some("A title"), body: &[&text] });
            let founder = Founder::new(Fingerprint(whole), *features.proof());
            prop_assert_eq!(again(&founder), Some((founder, 4)));
            let short = ShortText::kept(&text);
            prop_assert_eq!(again(&short), Some((short.clone(), 4)));
            let mut tally = TreeTally::default();
            for (title, sign) in counts {
                tally.add(TallyEntry { title: Some(title), sign });
            }
            prop_assert_eq!(again(&tally), Some((tally, 4)));
            let learned = LearnedText::seeded([text.as_str()]);
            let (read, rest) = again(&learned).unwrap();
            prop_assert_eq!((read.boilerplate().state(), rest), (learned.boilerplate().state(), 4));
        }

        /// What was learned is the same in an empty table, and beside what another one knew it is all there as long as
        /// there is room.
        #[test]
        fn what_was_learned_is_taken_over_in_portions(
            bulks in prop::collection::vec((prop::collection::vec(0u64..4_000, 0..400), 1u64..40_000), 0..12),
            others in prop::collection::vec(0u64..4_000, 0..50),
        ) {
            let hash = |n: u64| crate::hash::mix64(n + 1);
            let mut learned = LearnedText::default();
            for (numbers, founders) in bulks {
                let hashes: Vec<u64> = numbers.into_iter().map(hash).collect();
                learned.boilerplate_mut().count_all(&hashes, founders);
            }
            let portions = learned.portions();
            prop_assert!(portions.iter().all(|portion| portion.len() <= 8 + 12 * ENTRIES));
            let mut other = LearnedText::default();
            portions.iter().for_each(|portion| other.add_portion(portion));
            let there = |learned: &LearnedText| learned.boilerplate().state().1.to_vec();
            prop_assert_eq!(there(&other), there(&learned));
            if !portions.is_empty() {
                prop_assert_eq!(other.boilerplate().state().0, learned.boilerplate().state().0);
            }
            let mut knowing = LearnedText::default();
            let hashes: Vec<u64> = others.iter().copied().map(hash).collect();
            knowing.boilerplate_mut().count_all(&hashes, 1);
            portions.iter().for_each(|portion| knowing.add_portion(portion));
            prop_assert!(knowing.boilerplate().known() >= learned.boilerplate().known());
            let entries = |learned: &LearnedText| there(learned).iter().filter(|entry| **entry != 0).count();
            prop_assert!(entries(&knowing) >= entries(&learned));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Founder::read(&mut bytes.as_slice());
            let _ = ShortText::read(&mut bytes.as_slice());
            let _ = TreeTally::read(&mut bytes.as_slice());
            let _ = LearnedText::read(&mut bytes.as_slice());
            LearnedText::default().add_portion(&bytes);
        }
    }
}
