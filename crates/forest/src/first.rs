//! The first document of a tree, as a forest remembers it: four bytes.

use xxhash_rust::xxh3::xxh3_64;

use super::Decision;

/// A hash of a document: 24 bits of its id, 8 of its index. 0: unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DocumentHash(pub u32);

impl DocumentHash {
    /// No document, or one that cannot be told from others.
    pub const UNKNOWN: DocumentHash = DocumentHash(0);

    /// In the place of a tree's first document: none of its group is stored any more, so the next one is the first.
    pub const VACANT: DocumentHash = DocumentHash(1);

    /// The hash of a document in an index of this name.
    pub fn of(index: &str, id: &str) -> DocumentHash {
        DocumentHash::of_byte(DocumentHash::index_byte(xxh3_64(index.as_bytes())), id)
    }

    /// The hash of a document in an index with this byte; 0: it fits any.
    pub fn of_byte(index: u8, id: &str) -> DocumentHash {
        let id = (xxh3_64(id.as_bytes()) as u32 & 0x00FF_FFFF).max(1);
        DocumentHash(id << 8 | u32::from(index))
    }

    /// What is kept of the hash of an index' name; not 0.
    pub fn index_byte(hash: u64) -> u8 {
        (hash as u8).max(1)
    }

    /// Whether it is of a document whose index is not known.
    pub fn is_of_any_index(self) -> bool {
        self.0 > 0 && self.0 as u8 == 0
    }

    /// Whether both are known and may be of one document.
    pub fn fits(self, other: DocumentHash) -> bool {
        let [one, two] = [self.0 as u8, other.0 as u8];
        self.0 >> 8 == other.0 >> 8 && self.0 >> 8 > 0 && (one == two || one == 0 || two == 0)
    }

    /// [`is_first`](Self::is_first), and whether it is so because the group is vacant.
    pub(super) fn is_first_or_fills(
        self,
        of_tree: DocumentHash,
        decision: Decision,
        is_own: bool,
    ) -> (Option<bool>, bool) {
        (self.is_first(of_tree, decision, is_own), is_own && of_tree == DocumentHash::VACANT)
    }

    /// Whether a document is the first one of its group. `of_tree`: the first document of its tree, as it is known when
    /// the document has its place; `is_own`: the group is that tree. `None`: unknown.
    pub fn is_first(self, of_tree: DocumentHash, decision: Decision, is_own: bool) -> Option<bool> {
        match decision {
            _ if !is_own => None,
            // Outside it has no tree that a later copy could find.
            Decision::NewRoot | Decision::Outside => Some(true),
            _ if of_tree == DocumentHash::UNKNOWN => None,
            _ if of_tree == DocumentHash::VACANT => Some(true),
            _ => Some(self.fits(of_tree)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_known_by_its_id_and_its_index_where_both_are_known() {
        let [a, b] = ["a", "b"].map(|index| DocumentHash::of(index, "7"));
        assert!(a.fits(a) && !a.fits(b) && !a.fits(DocumentHash::of("a", "8")));
        let any = DocumentHash::of_byte(0, "7");
        assert!(any.fits(a) && b.fits(any) && any.fits(any));
        let unknown = DocumentHash::UNKNOWN;
        assert!(!unknown.fits(unknown) && !unknown.fits(a) && !any.fits(unknown));
        let vacant = DocumentHash::VACANT;
        assert!(!vacant.fits(vacant) && !vacant.fits(unknown) && !a.fits(vacant));
    }

    #[test]
    fn who_founds_is_first_and_who_joins_an_unknown_one_may_be() {
        let (own, other) = (DocumentHash::of("a", "7"), DocumentHash::of("a", "8"));
        let joined = Decision::Joined { candidates: 1 };
        assert_eq!(own.is_first(DocumentHash::UNKNOWN, Decision::NewRoot, true), Some(true));
        assert_eq!(own.is_first(own, Decision::NewRoot, false), None);
        assert_eq!(own.is_first(other, joined, true), Some(false));
        assert_eq!(own.is_first(own, Decision::Refreshed, true), Some(true));
        assert_eq!(own.is_first(DocumentHash::UNKNOWN, Decision::Refreshed, true), None);
        assert_eq!(DocumentHash::UNKNOWN.is_first(own, joined, true), Some(false));
        assert_eq!(other.is_first(DocumentHash::VACANT, joined, true), Some(true));
        assert_eq!(other.is_first(DocumentHash::VACANT, joined, false), None);
    }
}
