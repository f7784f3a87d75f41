//! Titles as evidence: reprints mostly keep the headline or change a little of it, while two reports of the same event
//! have headlines of their own. So two texts whose titles are alike need to share a little less, and two whose titles are
//! not a little more. Titles decide nothing by themselves: a column has the same one every day.

use crate::hash::mix64;
use crate::text::shingles::Shingles;

/// Minima of a sketch, of each one bit (Li and König, "b-Bit Minwise Hashing", WWW 2010).
const MINIMA: u32 = 16;
/// Shingles of a title that are read: it is a title, or not looked at further.
const READ: usize = 64;

/// 16 bits of a title; 0 stands for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TitleSketch(u16);

impl TitleSketch {
    /// `title`: the shingles of the title alone.
    pub(super) fn of(title: &Shingles) -> TitleSketch {
        let windows = title.windows.get(..READ).unwrap_or(&title.windows);
        if windows.is_empty() {
            return TitleSketch::default();
        }
        let mut minima = [u64::MAX; MINIMA as usize];
        for &window in windows {
            for (minimum, lane) in minima.iter_mut().zip(1u64..) {
                *minimum = mix64(lane << 32 | u64::from(window)).min(*minimum);
            }
        }
        let bits = minima
            .iter()
            .fold(0, |bits, minimum| bits << 1 | (minimum & 1) as u16);
        // A sketch without a bit is one in 65,536: it takes the nearest one that is a title.
        TitleSketch(bits.max(1))
    }

    /// Estimated Jaccard similarity of the shingles, 0 to 1, with a standard error of up to 0.25. `None` if one of the two
    /// has no title.
    pub(super) fn similarity(self, other: TitleSketch) -> Option<f32> {
        if self.0 == 0 || other.0 == 0 {
            return None;
        }
        let agreeing = MINIMA - (self.0 ^ other.0).count_ones();
        // Two bits of different shingles agree by chance once in two times.
        Some((2.0 * agreeing as f32 / MINIMA as f32 - 1.0).max(0.0))
    }

    /// Two bytes, little endian.
    pub(super) fn to_bytes(self) -> [u8; 2] {
        self.0.to_le_bytes()
    }

    /// Reads back what [`TitleSketch::to_bytes`] gave.
    pub(super) fn from_bytes(bytes: [u8; 2]) -> TitleSketch {
        TitleSketch(u16::from_le_bytes(bytes))
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
    fn what_publishers_do_to_a_headline_leaves_it_alike() {
        for (one, other) in [
            (
                "台风“海葵花”在临汐登陆 十五万人提前转移",
                "【快讯】台風「海葵花」在臨汐登陸　十五萬人提前轉移",
            ),
            (
                "Engine room fire strands 212 passengers off Kestrel Point",
                "UPDATE 1-ENGINE ROOM FIRE STRANDS 212 PASSENGERS OFF KESTREL POINT",
            ),
        ] {
            let alike = similarity(one, other).unwrap();
            assert!(alike >= 0.5, "{alike} {other}");
        }
        assert_eq!(
            similarity("Pier to be rebuilt", "PIER TO BE REBUILT"),
            Some(1.0)
        );
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
        let found: Vec<f32> = pairs.filter_map(|(a, b)| similarity(a, b)).collect();
        assert!(
            found.iter().sum::<f32>() / (found.len() as f32) < 0.2,
            "{found:?}"
        );
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
