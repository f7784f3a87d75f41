//! Titles as evidence: reprints mostly keep the headline, while two reports of one event have different headlines. So
//! two texts whose titles are alike need to share a little less, and two whose titles are not a little more. Titles
//! decide nothing by themselves: a column has the same one every day.

use crate::hash::mix64;
use crate::text::shingles::Shingles;

/// Minima of a sketch, of each one bit (Li and König, "b-Bit Minwise Hashing", WWW 2010).
const MINIMA: u32 = 30;
/// Minima for an estimate of title similarity that is combined with others.
const EVIDENCE: u32 = 16;
const MORE: usize = (MINIMA - EVIDENCE) as usize;
/// The bit of a title whose text has nothing of it.
const FOREIGN: u32 = 1 << MINIMA;
/// The bit of a title that is all the text there is.
const TITLE_ONLY: u32 = FOREIGN << 1;
/// Agreeing minima below which titles differ: 1 in 500 pairs of disjoint titles reaches it.
const ALIKE: u32 = 23;
/// Most shingles of a title that are read.
const READ: usize = 64;

/// | title is all the text 1 bit | text has nothing of it 1 bit | minima 14 bits | minima that are evidence 16 bits
/// |; 0 for no title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TitleSketch(u32);

impl TitleSketch {
    /// The sketch of a title by its shingles.
    pub(super) fn of(title: &Shingles) -> TitleSketch {
        let windows = title.shingle_hashes.get(..READ).unwrap_or(&title.shingle_hashes);
        if windows.is_empty() {
            return TitleSketch::default();
        }
        let mut evidence = [u64::MAX; EVIDENCE as usize];
        // Of the same hashes with their halves exchanged: another order, and no other work.
        let mut turned = [u64::MAX; EVIDENCE as usize];
        for &window in windows {
            for ((minimum, turned), lane) in evidence.iter_mut().zip(&mut turned).zip(1u64..) {
                let hash = mix64(lane << 32 | u64::from(window));
                *minimum = hash.min(*minimum);
                *turned = hash.rotate_left(32).min(*turned);
            }
        }
        let more = turned.get(..MORE).unwrap_or(&turned);
        let bits = |minima: &[u64]| {
            let bits = minima.iter();
            bits.fold(0, |bits, minimum| bits << 1 | (minimum & 1) as u32)
        };
        // Without a bit, one in 65,536, it takes the nearest one that is a title.
        TitleSketch(bits(&evidence).max(1) | bits(more) << EVIDENCE)
    }

    /// Marks that the text has nothing of the title.
    pub(super) fn foreign(self) -> TitleSketch {
        match self.0 {
            0 => self,
            bits => TitleSketch(bits | FOREIGN),
        }
    }

    /// Marks that the title is all the text there is.
    pub(super) fn title_only(self) -> TitleSketch {
        match self.0 {
            0 => self,
            bits => TitleSketch(bits | TITLE_ONLY),
        }
    }

    /// Whether it is all the text there is.
    pub(super) fn is_title_only(self) -> bool {
        self.0 & TITLE_ONLY != 0
    }

    /// Whether its text has nothing of it.
    pub(super) fn is_foreign(self) -> bool {
        self.0 & FOREIGN != 0
    }

    /// Whether both texts have a title, and the sketches differ.
    pub(super) fn differs(self, other: TitleSketch) -> bool {
        let different = ((self.0 ^ other.0) & !(TITLE_ONLY | FOREIGN)).count_ones();
        self.0 != 0 && other.0 != 0 && MINIMA - different < ALIKE
    }

    /// Estimated Jaccard similarity of the shingles, 0 to 1, with a standard error of up to 0.25. `None` if one of the
    /// two has no title.
    pub(super) fn similarity(self, other: TitleSketch) -> Option<f32> {
        if self.0 == 0 || other.0 == 0 {
            return None;
        }
        let evidence = (self.0 ^ other.0) & ((1 << EVIDENCE) - 1);
        let agreeing = EVIDENCE - evidence.count_ones();
        // Two bits of different shingles agree by chance once in two times.
        Some((2.0 * agreeing as f32 / EVIDENCE as f32 - 1.0).max(0.0))
    }

    /// Four bytes, little endian.
    pub(super) fn to_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }

    /// Inverse of [`TitleSketch::to_bytes`].
    pub(super) fn from_bytes(bytes: [u8; 4]) -> TitleSketch {
        TitleSketch(u32::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::shingler::tests::read;
    use proptest::prelude::*;

    fn sketch(title: &str) -> TitleSketch {
        TitleSketch::of(&read(title))
    }

    fn similarity(one: &str, other: &str) -> Option<f32> {
        sketch(one).similarity(sketch(other))
    }

    #[test]
    fn a_title_alone_is_the_same_title() {
        let title = sketch("Lighthouse at the harbour reopens");
        assert!(!title.is_title_only() && title.title_only().is_title_only());
        assert_eq!(title.title_only().similarity(title), Some(1.0));
        assert!(!TitleSketch::default().title_only().is_title_only(), "there is none");
    }

    #[test]
    fn what_publishers_do_to_a_headline_leaves_it_alike() {
        for (one, other) in [
            ("台风“海葵花”在临汐登陆 十五万人提前转移", "【快讯】台風「海葵花」在臨汐登陸　十五萬人提前轉移"),
            (
                "Engine room fire strands 212 passengers off Kestrel Point",
                "UPDATE 1-ENGINE ROOM FIRE STRANDS 212 PASSENGERS OFF KESTREL POINT",
            ),
        ] {
            let alike = similarity(one, other).unwrap();
            assert!(alike >= 0.5, "{alike} {other}");
            assert!(!sketch(one).differs(sketch(other)), "{other}");
        }
        assert_eq!(similarity("Pier to be rebuilt", "PIER TO BE REBUILT"), Some(1.0));
    }

    #[test]
    fn other_headlines_are_not_alike_on_the_whole() {
        let titles = [
            "Engine room fire strands 212 passengers off Kestrel Point",
            "Pothole robot fills its first thousand holes, slowly",
            "Seaweed start-up swaps crisp packets for coffee cups",
            "台风“海葵花”在临汐登陆 十五万人提前转移",
            "云汀湿地迎来首批越冬白鹤 无人机换成了竹竿上的摄像头",
            "Council votes to close the swimming bath at weekends",
        ];
        let pairs = titles.iter().enumerate();
        let pairs = pairs.flat_map(|(at, one)| titles.iter().skip(at + 1).map(move |t| (one, t)));
        for (one, other) in pairs.clone() {
            assert!(sketch(one).differs(sketch(other)), "{one}: {other}");
        }
        let found: Vec<f32> = pairs.filter_map(|(a, b)| similarity(a, b)).collect();
        assert!(found.iter().sum::<f32>() / (found.len() as f32) < 0.2, "{found:?}");
    }

    #[test]
    fn no_title_says_nothing() {
        assert_eq!(similarity("", "Pier to be rebuilt"), None);
        assert_eq!(similarity("...", "..."), None);
    }

    proptest! {
        #[test]
        fn bytes_give_the_sketch_back(title in ".{0,80}") {
            let sketch = sketch(&title);
            prop_assert_eq!(TitleSketch::from_bytes(sketch.to_bytes()), sketch);
            prop_assert!(sketch.similarity(sketch).is_none_or(|same| same == 1.0));
        }
    }
}
