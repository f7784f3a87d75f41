//! Burmese in Zawgyi, rewritten in Unicode: the same code points (U+1000 to U+109F) with other meanings, in the order
//! in which the signs of a syllable are seen.
//!
//! ```text
//! Unicode   letter, asat U+103A, ra U+103C, e U+1031      က်  ကြေ
//! Zawgyi    e U+1031, ra U+103B, letter, asat U+1039      က္  ေၾက
//! ```
//!
//! The meanings are those of the transform `my-t-my-s0-zawgyi` of CLDR and of the Rabbit converter. Their rules for the
//! order are not copied: a syllable has a set of signs, which is written in the order of Unicode.
//!
//! A line is in Zawgyi if it has more pairs of characters that are in Zawgyi alone (an asat, U+1039, without a letter
//! behind it; a vowel e, U+1031, or ra, U+103B, without one before it) than pairs in Unicode alone. A line without
//! either is in the encoding of its field. Shan, Mon and Karen are not touched. The digits U+1040 and U+1047 are read
//! as the letters that they look like.

use super::work_counter;

/// The first two bytes of U+1000 to U+103F, which no Burmese goes without.
const MYANMAR: [u8; 2] = [0xE1, 0x80];

/// What U+1060 to U+1097 stand for: letters, signs, letters below (`+`), and the letter nga above (`^`).
#[rustfmt::skip]
const SIGNS: [&str; 0x38] = [
    "+က", "+ခ", "+ဂ", "+ဃ", "^", "+စ", "+ဆ", "+ဆ", "+ဇ", "+ဈ", "ဉ", "ည", "+ဋ", "+ဌ", "ဍ+ဍ", "ဍ+ဎ",
    "+ဏ", "+တ", "+တ", "+ထ", "+ထ", "+ဒ", "+ဓ", "+န", "+ပ", "+ဖ", "+ဗ", "+ဘ", "+မ", "\u{103B}", "\u{103C}", "\u{103C}",
    "\u{103C}", "\u{103C}", "\u{103C}", "\u{103C}", "\u{103C}", "+လ", "ဿ", "\u{103E}",
    "\u{103E}\u{102F}", "\u{103E}\u{1030}", "\u{103D}\u{103E}", "^\u{102D}", "^\u{102E}", "^\u{1036}",
    "\u{102D}\u{1036}", "န", "ရ", "ဏ+ဍ", "ဋ+ဌ", "+ဘ", "\u{1037}", "\u{1037}", "+တ\u{103D}", "ဋ+ဋ",
];

/// The signs of a syllable in the order of Unicode.
const ORDER: [char; 17] = [
    '\u{103B}', '\u{103C}', '\u{103D}', '\u{103E}', '\u{1031}', '\u{102D}', '\u{102E}', '\u{1032}', '\u{102F}',
    '\u{1030}', '\u{1035}', '\u{102B}', '\u{102C}', '\u{103A}', '\u{1036}', '\u{1037}', '\u{1038}',
];

/// Writes a field with its pieces in Zawgyi rewritten; false if it has none.
///
/// A piece is a line or stands between tags: many posts say the same in both encodings.
pub(super) fn to_unicode(field: &str, out: &mut String) -> bool {
    if work_counter::find(field.as_bytes(), &MYANMAR).is_none() {
        return false;
    }
    let pieces = || field.split_inclusive(['\n', '<']);
    let (mut of_field, mut is_any) = (0, false);
    for piece in pieces() {
        let of_piece = evidence(piece);
        of_field += of_piece;
        is_any |= of_piece > 0;
    }
    if !is_any {
        return false;
    }
    out.clear();
    for piece in pieces() {
        // A few words without evidence are in the encoding of the others.
        match evidence(piece) {
            0 if of_field > 0 => convert(piece, out),
            1.. => convert(piece, out),
            _ => out.push_str(piece),
        }
    }
    true
}

/// How many pairs of characters there are in Zawgyi alone, less those in Unicode alone.
fn evidence(piece: &str) -> i32 {
    work_counter::add(piece.len());
    let mut sum = 0;
    let mut before = ' ';
    for c in piece.chars().filter(|c| !is_invisible(*c)).chain([' ']) {
        sum += match (before, c) {
            // What is typed behind its letter in Unicode stands where no letter is; Mon has the vowel behind an asat.
            ('\u{102B}'..='\u{1030}' | '\u{1032}'..='\u{1039}', '\u{1031}' | '\u{103B}') => 1,
            (before, '\u{1031}' | '\u{103B}') if !is_myanmar(before) => 1,
            // A virama on no letter.
            ('\u{1039}', '\u{102B}'..='\u{103E}' | '\u{104A}' | '\u{104B}') => 1,
            ('\u{1039}', c) if !is_myanmar(c) => 1,
            // The vowel e before other signs of its syllable or at the end, the letter nga with asat, and ha.
            ('\u{1031}', '\u{102B}' | '\u{102C}' | '\u{1036}'..='\u{1038}') | ('\u{1004}', '\u{103A}') => -1,
            ('\u{1031}', c) if !is_myanmar(c) => -1,
            (_, '\u{103E}') => -1,
            _ => 0,
        };
        before = c;
    }
    sum
}

/// Rewrites a piece of Zawgyi.
fn convert(piece: &str, out: &mut String) {
    work_counter::add(piece.len());
    let mut syllable = Syllable::default();
    let mut before = ' ';
    for (at, c) in piece.char_indices().filter(|(_, c)| !is_invisible(*c)) {
        let behind = piece.get(at + c.len_utf8()..).unwrap_or_default();
        let next = behind.chars().next().unwrap_or(' ');
        let mut bytes = [0; 4];
        match c {
            // Signs that would stand in the way of others are moved off by a space.
            ' ' | '\u{A0}' if syllable.letter.is_some() && is_sign(next) => continue,
            '\u{1031}' | '\u{103B}' | '\u{107E}'..='\u{1084}' => {
                if syllable.letter.is_some() {
                    syllable.end(out);
                }
                syllable.add(parts(c, &mut bytes), out);
            }
            // Digits that look like letters.
            '\u{1040}' if !is_of_number(before) && !is_of_number(next) && is_myanmar(before.max(next)) => {
                syllable.add("ဝ", out);
            }
            '\u{1047}' if is_sign(next) || before == '\u{1031}' => syllable.add("ရ", out),
            '\u{1044}' if behind.starts_with("\u{1004}\u{1039}\u{1038}") => syllable.add("၎", out),
            '\u{104E}' if !behind.starts_with('\u{1004}') => {
                syllable.add("၎", out);
                syllable.add("င\u{103A}\u{1038}", out);
            }
            c if is_myanmar(c) => syllable.add(parts(c, &mut bytes), out),
            c => {
                syllable.end(out);
                out.push(c);
            }
        }
        before = c;
    }
    syllable.end(out);
}

/// A letter with its signs.
#[derive(Default)]
struct Syllable {
    letter: Option<char>,
    /// The letter below it.
    below: Option<char>,
    /// The letter nga stands above it.
    nga: bool,
    /// One bit a sign of [`ORDER`].
    signs: u32,
}

impl Syllable {
    /// Adds what a character stands for. A second letter ends the syllable.
    fn add(&mut self, parts: &str, out: &mut String) {
        let mut is_below = false;
        for c in parts.chars() {
            match c {
                '+' => is_below = true,
                '^' => self.nga = true,
                '\u{102B}'..='\u{103E}' => self.signs |= bit(c),
                c if is_below => self.below = Some(c),
                c => {
                    if self.letter.is_some() {
                        self.end(out);
                    }
                    self.letter = Some(c);
                }
            }
        }
    }

    fn has(&self, sign: char) -> bool {
        self.signs & bit(sign) != 0
    }

    /// Writes it; what comes next is another one.
    fn end(&mut self, out: &mut String) {
        let mut one = std::mem::take(self);
        // Letters that look like another one with a sign.
        match one.letter {
            Some('စ') if one.has('\u{103B}') => one.replace('ဈ', '\u{103B}'),
            Some('ဥ') if one.has('\u{102E}') => one.replace('ဦ', '\u{102E}'),
            Some('ဥ') if one.below.is_some() || one.has('\u{103A}') || one.has('\u{102C}') => one.letter = Some('ဉ'),
            Some('ဉ') if one.has('\u{102F}') || one.has('\u{1030}') => one.letter = Some('ဥ'),
            _ => {}
        }
        if one.nga {
            out.push_str("င\u{103A}\u{1039}");
        }
        out.extend(one.letter);
        if let Some(below) = one.below {
            out.extend(['\u{1039}', below]);
        }
        // In contractions the asat belongs to the letter: `ယောက်ျား`, but `ကျော်`.
        if one.has('\u{103A}') && one.has('\u{103B}') && !one.has('\u{1031}') {
            one.signs -= bit('\u{103A}');
            out.push('\u{103A}');
        }
        out.extend(ORDER.into_iter().filter(|&sign| one.has(sign)));
    }

    fn replace(&mut self, letter: char, sign: char) {
        self.letter = Some(letter);
        self.signs -= bit(sign);
    }
}

fn bit(sign: char) -> u32 {
    1 << (u32::from(sign) - 0x102B)
}

/// What a character of Zawgyi stands for, in the notation of [`SIGNS`].
fn parts(c: char, bytes: &mut [u8; 4]) -> &str {
    match c {
        '\u{1033}' => "\u{102F}",
        '\u{1034}' | '\u{103F}' => "\u{1030}",
        '\u{1039}' => "\u{103A}",
        '\u{103A}' => "\u{103B}",
        '\u{103B}' => "\u{103C}",
        '\u{103C}' => "\u{103D}",
        '\u{103D}' => "\u{103E}",
        '\u{105A}' => "\u{102B}\u{103A}",
        c => match u32::from(c).checked_sub(0x1060).and_then(|at| SIGNS.get(at as usize)) {
            Some(parts) => parts,
            None => c.encode_utf8(bytes),
        },
    }
}

/// Whether a character belongs to the letter before it.
fn is_sign(c: char) -> bool {
    let is_prefix = matches!(c, '\u{1031}' | '\u{103B}' | '\u{107E}'..='\u{1084}');
    !is_prefix && parts(c, &mut [0; 4]).starts_with(|c| matches!(c, '+' | '^' | '\u{102B}'..='\u{103E}'))
}

/// Letters and signs of the script, and the circle that lists of signs put in place of a letter.
fn is_myanmar(c: char) -> bool {
    matches!(c, '\u{1000}'..='\u{109F}' | '\u{A9E0}'..='\u{A9FF}' | '\u{AA60}'..='\u{AA7F}' | '\u{25CC}')
}

fn is_of_number(c: char) -> bool {
    matches!(c, '\u{1040}'..='\u{1049}' | '0'..='9' | '.' | ',' | '/')
}

/// What may stand between any two characters, to break lines.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200D}' | '\u{2060}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Fields, Scratch};
    use proptest::prelude::*;

    /// Zawgyi and Unicode, from the tests of the Rabbit converter (`ref/sample.json`) and of myanmar-tools
    /// (`TransliterateTest.java`).
    const PAIRS: [(&str, &str); 25] = [
        ("မဂၤလာပါ", "မင်္ဂလာပါ"),
        (
            "သီဟိုဠ္မွ ဉာဏ္ႀကီးရွင္သည္ အာယုဝဍ္ဎနေဆးၫႊန္းစာကို ဇလြန္ေဈးေဘးဗာဒံပင္ထက္ အဓိ႒ာန္လ်က္ ဂဃနဏဖတ္ခဲ့သည္။",
            "သီဟိုဠ်မှ ဉာဏ်ကြီးရှင်သည် အာယုဝဍ်ဎနဆေးညွှန်းစာကို ဇလွန်ဈေးဘေးဗာဒံပင်ထက် အဓိဋ္ဌာန်လျက် ဂဃနဏဖတ်ခဲ့သည်။",
        ),
        (
            "ေယဓမၼာ ေဟတုပၸဘဝါ ေတသံ ေဟတုံ တထာဂေတာ အာဟ ေတသၪၥ ေယာနိေရာေဓါ ဧဝံ ဝါဒီ မဟာသမေဏာ။",
            "ယေဓမ္မာ ဟေတုပ္ပဘဝါ တေသံ ဟေတုံ တထာဂတော အာဟ တေသဉ္စ ယောနိရောဓေါ ဧဝံ ဝါဒီ မဟာသမဏော။",
        ),
        ("ျမန္မာလိုေျပာမယ္လကြာ", "မြန်မာလိုပြောမယ်လကွာ"),
        ("ေဘာလုံးကန္တာမွ ေကာင္းဦးမယ္", "ဘောလုံးကန်တာမှ ကောင်းဦးမယ်"),
        ("Rabbit ကြန္ဗက္တာကို သိလား", "Rabbit ကွန်ဗက်တာကို သိလား"),
        ("ေဆာင္းဦးလင္း", "ဆောင်းဦးလင်း"),
        ("လူရွင္သခ်ႋဳင္းမ်ားအေၾကာင္း", "လူရှင်သင်္ချိုင်းများအကြောင်း"),
        ("အက်ႌေတြေရာင္း", "အင်္ကျီတွေရောင်း"),
        ("လံုလံုၿခံဳၿခံဳ", "လုံလုံခြုံခြုံ"),
        ("စစ္အုုပ္ခ်ဳပ္မႈ", "စစ်အုပ်ချုပ်မှု"),
        ("ျမန္မာ့ႏိုင္ငံေရးမွာ", "မြန်မာ့နိုင်ငံရေးမှာ"),
        ("ပညာေရးေပၚ", "ပညာရေးပေါ်"),
        ("တက္၀င္ေရာ", "တက်ဝင်ရော"),
        ("ကမ႓ာ့ေစ်းအ", "ကမ္ဘာ့ဈေးအ"),
        ("ငွႈခင္", "ငှုခင်"),
        ("ႁခြင္းခ်က္မရွိ", "ခြွင်းချက်မရှိ"),
        ("အခ်စ္႔႔သီေသာ pdf", "အချစ့်သီသော pdf"),
        ("myanmar ေငြေစ်း", "myanmar ငွေဈေး"),
        ("မိုေလ၀သ ေ၀သစ္လြင္", "မိုလေဝသ ဝေသစ်လွင်"),
        ("xxx.ေေလးေလးလို း ကား", "xxx.လေးလေးလိုး ကား"),
        ("ေမာင္ေမာင္၀", "မောင်မောင်ဝ"),
        ("အဖြဲ႕၀င္ ၁၀၀ ေက်ာ္", "အဖွဲ့ဝင် ၁၀၀ ကျော်"),
        ("ေယာက္်ား", "ယောက်ျား"),
        ("ခုႏွစ္၊ ရက္ေန႔တြင္ ကဓၻာ့", "ခုနှစ်၊ ရက်နေ့တွင် ကဓ္ဘာ့"),
    ];

    /// Unicode in the languages of the script: Burmese, Shan, Mon, S'gaw Karen, Pwo Karen, Pa'O (Universal Declaration
    /// of Human Rights, translations of MediaWiki), and the signs by themselves.
    const UNICODE: [&str; 12] = [
        "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း၊ မွေးဖွားလာသူများ ဖြစ်သည်။",
        "ယောက်ျား ကျောင်းသား ၁၀၀ နှင့် ၎င်းတို့၏ ဆရာ ၅ ဦး၊ ဥပမာ",
        "ၵူၼ်းၵူႊၵေႃႉၼႆႉ ပဵၼ်ဢၼ်ၵိူတ်ႇမႃးလူၺ်ႈၵုင်ႇမုၼ်ဢၼ်လွတ်ႈလႅဝ်းၽဵင်ႇပဵင်းၵၼ်။",
        "ႁပ်ႉႁွင်းတူၺ်းထိုင်တေႃႇ သုၼ်ႇလႆႈသုၼ်ႇပဵၼ်",
        "မုက်လိက်ဏအ်ဂှ် ဒ:ဒုၚ်လုပ်လဝ်တုဲ ကဏ္ဍဏအ်ဂှ် ကဏ္ဍလစှ်ေ နွံဆ အတိုၚ်ဗွဲသၟဝ်ဝွံရ၊၊ ဟအှ်ေ",
        "ကလေၚ်အာ ဇရေၚ် ဂၠာဲ ဗၠေတ် ကေုာံ ပရိုၚ်မေတ်သုက်တၟိဂမၠိုၚ် တ္ၚဲအဒိုက်",
        "ခဲထၢၤကိးရံာ် တခါအံၤအိၣ်ဒီး ခဲထၢၤကိးရံာ်ဖိဆံးတဖၣ် ကျိာ် ပျဲာ် မုၢ်ပျဲၤ န့ၣ်လီၤ.",
        "ပှၤသူတၢ်ဖိမံၤ ဆီၣ်လီၤနပှၤသူတၢ်ဖိမံၤ အိးထီၣ်၀့ဒိအသီ",
        "◌ါ ◌ာ ◌ိ ◌ီ ◌ု ◌ူ ◌ေ ◌ဲ ◌ံ ◌့ ◌း ◌္ ◌် ◌ျ ◌ြ ◌ွ ◌ှ",
        "ေ",
        "က္က န္တ မ္ဘ",
        "nothing of it, 新闻, ข่าว",
    ];

    fn unicode_of(zawgyi: &str) -> String {
        let mut out = String::new();
        convert(zawgyi, &mut out);
        out
    }

    fn is_zawgyi(text: &str) -> bool {
        to_unicode(text, &mut String::new())
    }

    fn cleaned(body: &[&str]) -> String {
        let mut scratch = Scratch::new();
        scratch.read(&Fields { title: None, body }).map(|text| text.cleaned().to_owned()).unwrap_or_default()
    }

    #[test]
    fn published_pairs_are_the_same_text() {
        for (zawgyi, unicode) in PAIRS {
            assert_eq!(
                cleaned(&[&unicode_of(zawgyi)]).replace(' ', ""),
                cleaned(&[unicode]).replace(' ', ""),
                "{zawgyi}"
            );
        }
        let (zawgyi, unicode): (Vec<&str>, Vec<&str>) = PAIRS.into_iter().unzip();
        // A title in Zawgyi is known by itself if it has an asat at the end of a word, or the vowel e.
        assert!(zawgyi.iter().filter(|text| !is_zawgyi(text)).count() <= 6);
        assert!(unicode.iter().all(|text| !is_zawgyi(text)));
        assert_eq!(cleaned(&[&zawgyi.join("\n")]), cleaned(&[&unicode_of(&zawgyi.join("\n"))]));
    }

    #[test]
    fn unicode_is_never_taken_for_zawgyi() {
        for text in UNICODE {
            assert!(!is_zawgyi(text), "{text}");
            assert!(evidence(text) <= 0, "{text}");
        }
        assert!(!is_zawgyi(&UNICODE.join("\n")));
    }

    #[test]
    fn lines_of_both_encodings_become_one() {
        let (zawgyi, unicode) = PAIRS[1];
        for (mixed, same) in [
            (format!("{zawgyi}\n{unicode}"), format!("{unicode}\n{unicode}")),
            (format!("<p>{unicode}</p><p>{zawgyi}</p>"), format!("<p>{unicode}</p><p>{unicode}</p>")),
            // A line that says nothing of its encoding is in that of the field.
            (format!("{zawgyi}\n{}", PAIRS[0].0), format!("{unicode}\n{}", PAIRS[0].1)),
            (format!("Reuters: {zawgyi} (12)"), format!("Reuters: {unicode} (12)")),
        ] {
            assert_eq!(cleaned(&[&mixed]), cleaned(&[&same]));
        }
        // Each part of a list by itself.
        assert_eq!(cleaned(&[unicode, zawgyi]), cleaned(&[unicode, unicode]));
        let shan = UNICODE[2];
        assert_eq!(cleaned(&[&format!("{shan}\n{zawgyi}")]), cleaned(&[&format!("{shan}\n{unicode}")]));
    }

    #[test]
    fn spaces_and_line_breakers_within_a_syllable_are_none() {
        for (zawgyi, unicode) in [
            ("ေန ့စဥ္", "နေ့စဉ်"),
            ("\u{200B}ေ\u{200B}ရ\u{2060}ႊေစ်း\u{200B}", "ရွှေဈေး"),
            ("က ေ", "က \u{1031}"),
            ("ေ ျ", "\u{1031} \u{103C}"),
            ("၎", "၎င်း"),
            ("၎င္း ၄င္း", "၎င်း ၎င်း"),
            ("ၾ", "\u{103C}"),
            ("ၤက", "င်္က"),
            ("၀.၅ ၁၀ ၀ ၀င္", "၀.၅ ၁၀ ၀ ဝင်"),
            ("ဥး ဥာဏ္ ဥ္ ၪဳး ဦး", "ဥး ဉာဏ် ဉ် ဥုး ဦး"),
        ] {
            assert_eq!(unicode_of(zawgyi), unicode, "{zawgyi}");
        }
    }

    proptest! {
        #[test]
        fn what_is_not_of_the_script_stays(text in "([\u{1000}-\u{109F}]{0,6}[a-z<中,\n]{1,3}){0,12}") {
            let others = |text: &str| text.chars().filter(|&c| !is_myanmar(c)).collect::<String>();
            prop_assert_eq!(others(&unicode_of(&text)), others(&text));
            let mut out = String::new();
            if to_unicode(&text, &mut out) {
                prop_assert_eq!(others(&out), others(&text));
            }
            prop_assert!(!to_unicode(&others(&text), &mut out));
        }
    }
}
