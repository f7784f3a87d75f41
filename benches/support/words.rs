//! Words with the frequencies of real text: few are said often, many are said once.

use super::random::Random;

/// The 6,000 most frequent words of the dictionary of jieba (MIT licence), names of persons left out, most frequent
/// first.
const CHINESE: &str = include_str!("words.zh.txt");
/// Words of English news, most frequent first.
const ENGLISH: &str = include_str!("words.en.txt");

const SURNAMES: [&str; 24] = [
    "王", "李", "张", "刘", "陈", "杨", "赵", "黄", "周", "吴", "徐", "孙", "胡", "朱", "高", "林", "何", "郭", "马",
    "罗", "梁", "宋", "郑", "谢",
];
const GIVEN: [&str; 30] = [
    "伟", "芳", "敏", "静", "丽", "强", "磊", "军", "洋", "勇", "艳", "杰", "娟", "涛", "明", "超", "霞", "平", "刚",
    "桂", "英", "华", "玉", "文", "辉", "鑫", "宇", "浩", "晨", "思",
];
const FIRST_SYLLABLES: [&str; 20] = [
    "Har", "Wes", "Mor", "Al", "Bren", "Cas", "Del", "Fer", "Gar", "Hol", "Kin", "Lan", "Mar", "Nor", "Pem", "Rad",
    "Sut", "Thorn", "Whit", "Yar",
];
const LAST_SYLLABLES: [&str; 20] = [
    "low", "ton", "ley", "bert", "nan", "sidy", "mar", "guson", "rison", "den", "caid", "caster", "tin", "wood",
    "berton", "cliffe", "herland", "bury", "field", "row",
];

/// Ranks are drawn by one look-up in a table of this many equally likely cells.
const CELLS: usize = 1 << 16;

/// A list of words and a table that draws them with Zipf-like frequencies.
pub struct Words {
    words: Vec<&'static str>,
    cells: Vec<u16>,
}

impl Words {
    pub fn chinese() -> Self {
        Self::ranked(CHINESE)
    }

    pub fn english() -> Self {
        Self::ranked(ENGLISH)
    }

    fn ranked(list: &'static str) -> Self {
        let words: Vec<_> = list.split_whitespace().collect();
        // Zipf's law with Mandelbrot's shift, which takes the steepness from the first few ranks.
        let weight = |rank: usize| 1.0 / (rank as f64 + 2.7);
        let total: f64 = (0..words.len()).map(weight).sum();
        let mut cells = Vec::with_capacity(CELLS);
        let mut reached = 0.0;
        for rank in 0..words.len() {
            reached += weight(rank);
            cells.resize((reached / total * CELLS as f64).round() as usize, rank as u16);
        }
        Self { words, cells }
    }

    pub fn draw(&self, random: &mut Random) -> &'static str {
        self.words[usize::from(random.pick(&self.cells))]
    }
}

/// A Chinese name of a person, mostly in no dictionary.
pub fn push_chinese_name(random: &mut Random, out: &mut String) {
    out.push_str(random.pick(&SURNAMES));
    out.push_str(random.pick(&GIVEN));
    if random.percent(60) {
        out.push_str(random.pick(&GIVEN));
    }
}

/// An English name of a person or a place, mostly in no dictionary.
pub fn push_english_name(random: &mut Random, out: &mut String) {
    out.push_str(random.pick(&FIRST_SYLLABLES));
    out.push_str(random.pick(&LAST_SYLLABLES));
}
