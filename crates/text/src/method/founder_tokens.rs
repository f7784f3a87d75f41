//! Tokens of a founder, with which the alignment check compares a document.

use std::ops::Deref;
use std::sync::Arc;

use super::Durable;
use super::alignment_check;

/// Tokens of the title and the body of a tree's founder for the alignment check.
///
/// Never more than [`MOST`](FounderTokens::MOST): longer rows are cut. So everything that was written can be read,
/// including longer values of earlier versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FounderTokens(Arc<[u16]>);

impl FounderTokens {
    /// The most tokens of one founder.
    pub const MOST: usize = alignment_check::MOST_TOKENS;
}

impl From<&[u16]> for FounderTokens {
    fn from(tokens: &[u16]) -> FounderTokens {
        FounderTokens(tokens.get(..FounderTokens::MOST).unwrap_or(tokens).into())
    }
}

impl Deref for FounderTokens {
    type Target = [u16];

    fn deref(&self) -> &[u16] {
        &self.0
    }
}

/// `| tokens 4 | of each 2 |`
impl Durable for FounderTokens {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u32).write(out);
        let tokens = self.0.iter();
        tokens.for_each(|token| out.extend_from_slice(&token.to_le_bytes()));
    }

    /// Reads rows of any length, bounded by the available bytes.
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let len = usize::try_from(u32::read(bytes)?).ok()?.checked_mul(2)?;
        let (tokens, rest) = bytes.split_at_checked(len)?;
        *bytes = rest;
        let kept = tokens.as_chunks::<2>().0.iter().take(FounderTokens::MOST);
        Some(FounderTokens(kept.map(|token| u16::from_le_bytes(*token)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(len: usize) -> Vec<u16> {
        (0..len).map(|n| n as u16).collect()
    }

    /// As a version wrote it that knew no limit.
    fn written_by_others(tokens: &[u16]) -> Vec<u8> {
        let mut bytes = (tokens.len() as u32).to_le_bytes().to_vec();
        bytes.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
        bytes.extend_from_slice(b"more");
        bytes
    }

    #[test]
    fn rows_of_every_length_are_read_and_no_more_is_kept_than_may_be() {
        let most = FounderTokens::MOST;
        for len in [0, 1, 1_023, 1_024, 1_025, 1_026, most - 1, most, most + 1, 5_000] {
            let row = row(len);
            let bytes = written_by_others(&row);
            let mut rest = bytes.as_slice();
            let read = FounderTokens::read(&mut rest).unwrap();
            assert_eq!((read.len(), rest), (len.min(most), &b"more"[..]), "{len}");
            assert_eq!(read, FounderTokens::from(row.as_slice()));
            let mut again = Vec::new();
            read.write(&mut again);
            assert_eq!(FounderTokens::read(&mut again.as_slice()), Some(read));
        }
    }

    #[test]
    fn a_length_beyond_its_bytes_is_none() {
        for len in [3, u32::MAX] {
            let mut bytes = len.to_le_bytes().to_vec();
            bytes.extend([1, 2, 3, 4]);
            assert_eq!(FounderTokens::read(&mut bytes.as_slice()), None);
        }
    }
}
