//! Byte encoding of stored values, little-endian. Encodings must not change: a file of any version is opened by all
//! later ones.

use super::{Founder, ShortText, StagedProof, TextProof, TreeTally};
use crate::fingerprint::Fingerprint;

/// A value that can be written down.
pub trait Durable: Sized {
    /// Appends the encoding.
    fn write(&self, out: &mut Vec<u8>);

    /// Decodes a value and removes its bytes from the front; `None` if they are not one.
    fn read(bytes: &mut &[u8]) -> Option<Self>;
}

/// Takes a fixed number of bytes off the front.
pub fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

/// Splits `len` bytes off the front.
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

/// The empty encoding.
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
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Founder::read(&mut bytes.as_slice());
            let _ = ShortText::read(&mut bytes.as_slice());
            let _ = TreeTally::read(&mut bytes.as_slice());
        }
    }
}
