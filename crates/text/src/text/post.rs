//! Parts of a social media post besides its own text: mentions, quoted posts, emoticons, topics.
//!
//! ```text
//! a post of some length [laughs] #topic# @one @two //@three: what was said before
//! |--------------------|
//! ```
//!
//! They are ignored next to a text of some length; where there is hardly anything else they are the text.

use std::ops::Range;

/// Most bytes of a field that may be a post; a longer one is an article.
const MAX_FIELD_BYTES: usize = 4 << 10;
/// Least letters and digits of a post's own text.
const MIN_LETTERS: usize = 12;

/// Most characters of a name, of a topic, and of an emoticon's name.
const NAME: usize = 30;
const TOPIC: usize = 40;
const TAG: usize = 8;

/// Names of emoticons that social networks write in brackets, sorted. Other words in brackets are the text's own
/// (`[sic]`, the fields of a form, anchors of Markdown links).
const EMOTICONS: [&str; 192] = [
    "cry",
    "doge",
    "good",
    "haha",
    "laugh",
    "laughs",
    "ok",
    "smile",
    "tears",
    "下雨",
    "不要",
    "乒乓",
    "书呆子",
    "二哈",
    "互粉",
    "亲亲",
    "伤心",
    "作揖",
    "便便",
    "偷乐",
    "偷笑",
    "允悲",
    "兔子",
    "再见",
    "凋谢",
    "刀",
    "加油",
    "勾引",
    "发呆",
    "发抖",
    "可怜",
    "可爱",
    "右哼哼",
    "吃惊",
    "吃瓜",
    "吐",
    "吓",
    "呲牙",
    "呵呵",
    "咒骂",
    "咖啡",
    "哈哈",
    "哈欠",
    "哼",
    "啤酒",
    "喜",
    "喵喵",
    "嘘",
    "嘻嘻",
    "噢耶",
    "回头",
    "囧",
    "困",
    "围脖",
    "围观",
    "国旗",
    "坏笑",
    "大兵",
    "大哭",
    "太开心",
    "太阳",
    "失望",
    "奋斗",
    "奥特曼",
    "委屈",
    "威武",
    "害羞",
    "左哼哼",
    "差劲",
    "干杯",
    "并不简单",
    "弱",
    "强",
    "得意",
    "得意地笑",
    "微笑",
    "微风",
    "心",
    "心碎",
    "快哭了",
    "怄火",
    "怒",
    "怒骂",
    "思考",
    "悲伤",
    "感冒",
    "愤怒",
    "憧憬",
    "憨笑",
    "懒得理你",
    "手套",
    "打哈欠",
    "抓狂",
    "折磨",
    "抠鼻",
    "抱抱",
    "抱拳",
    "拜拜",
    "拥抱",
    "拳头",
    "挖鼻",
    "挖鼻屎",
    "挤眼",
    "挥手",
    "握手",
    "摊手",
    "撇嘴",
    "擦汗",
    "敲打",
    "晕",
    "最右",
    "月亮",
    "机智",
    "来",
    "求关注",
    "汗",
    "江南style",
    "汽车",
    "沙尘暴",
    "泪",
    "泪流满面",
    "流汗",
    "流泪",
    "浮云",
    "激动",
    "炸弹",
    "照相机",
    "熊猫",
    "爱你",
    "爱心",
    "爱心传递",
    "爱情",
    "猪头",
    "献吻",
    "玫瑰",
    "瓢虫",
    "生病",
    "疑问",
    "白眼",
    "睡",
    "睡觉",
    "磕头",
    "示爱",
    "礼物",
    "神马",
    "笑cry",
    "笑哈哈",
    "篮球",
    "糗大了",
    "织",
    "给力",
    "绝望",
    "绿丝带",
    "耶",
    "胜利",
    "舔屏",
    "色",
    "花心",
    "萌",
    "蛋糕",
    "蜡烛",
    "街舞",
    "衰",
    "西瓜",
    "话筒",
    "费解",
    "赞",
    "足球",
    "跪了",
    "跳绳",
    "跳跳",
    "转发",
    "转圈",
    "鄙视",
    "酷",
    "酷库熊",
    "钟",
    "钱",
    "闪电",
    "闭嘴",
    "阴险",
    "雪",
    "雪花",
    "音乐",
    "顶",
    "飞吻",
    "飞机",
    "饭",
    "馋嘴",
    "鲜花",
    "黑线",
    "鼓掌",
];

/// Sign before the author of a quoted post.
const QUOTE_SIGN: &str = "//";

/// Words before a mention that belong to it.
const MENTION_PREFIXES: [&str; 6] = ["via", "rt", "回复", "转自", "来自", "分享自"];

/// Texts that social networks put before a quoted post by default.
const FORWARDED: [&str; 3] = ["转发微博", "转发", "repost"];

/// Writes a field without mentions, quoted posts, emoticons and topics. Returns whether it has any and enough text is
/// left; if not, the field counts as it is and `out` has no meaning.
pub(super) fn words(field: &str, out: &mut String) -> bool {
    let bytes = field.as_bytes();
    let is_bare = |bytes: &[u8]| memchr::memchr3(b'@', b'[', b'#', bytes).is_none();
    if bytes.len() > MAX_FIELD_BYTES || is_bare(bytes) || memchr::memchr(b'<', bytes).is_some() {
        return false;
    }
    out.clear();
    let (mut rest, mut at, mut count) = (0, 0, 0);
    while let Some(found) = memchr::memchr3(b'@', b'[', b'#', bytes.get(at..).unwrap_or_default()) {
        let sign = at + found;
        let Some(Range { start, end }) = mention_range(field, rest, sign) else {
            at = sign + 1;
            continue;
        };
        let own = field.get(rest..start).unwrap_or_default();
        out.push_str(own);
        count += letters(own);
        // A quoted post next to a text of its own.
        if is_quoted(own) && count >= MIN_LETTERS {
            out.truncate(out.trim_end().len() - QUOTE_SIGN.len());
            return true;
        }
        if let Some(said) = own.trim_end().strip_suffix(QUOTE_SIGN)
            && FORWARDED.iter().any(|word| said.trim().eq_ignore_ascii_case(word))
        {
            out.truncate(out.len() - own.len());
            count -= letters(own);
        }
        out.push(' ');
        (rest, at) = (end, end);
    }
    let own = field.get(rest..).unwrap_or_default();
    out.push_str(own);
    rest > 0 && count + letters(own) >= MIN_LETTERS
}

/// Counts letters and digits of a text, up to [`MIN_LETTERS`]. Those of a URL do not count: it is left out of every
/// text.
fn letters(text: &str) -> usize {
    let words = text.split(char::is_whitespace).map(|word| match word.find("://") {
        Some(at) => word.get(..at).unwrap_or_default().trim_end_matches(|c: char| c.is_ascii_alphabetic()),
        None => word,
    });
    words.flat_map(str::chars).filter(|c| c.is_alphanumeric()).take(MIN_LETTERS).count()
}

/// Whether a mention after this text is the author of a quoted post.
fn is_quoted(before: &str) -> bool {
    before.trim_end().ends_with(QUOTE_SIGN)
}

/// Range of the mention, emoticon or topic of the sign at `sign`. It begins at `from` or later.
fn mention_range(field: &str, from: usize, sign: usize) -> Option<Range<usize>> {
    let before = field.get(from..sign)?;
    let behind = field.get(sign + 1..)?;
    let end = sign + 1;
    match field.as_bytes().get(sign)? {
        b'@' => {
            // An `@` inside an e-mail address is no mention.
            let is_free = before.chars().next_back().is_none_or(|c| !c.is_ascii_alphanumeric());
            let name = while_in(behind, NAME, is_of_name).filter(|_| is_free)?;
            let colon = behind.get(name..)?.chars().next();
            let colon = colon.filter(|c| matches!(c, ':' | '：')).map_or(0, char::len_utf8);
            Some(start_of_mention(before, from)..end + name + colon)
        }
        b'[' => {
            let tag = while_in(behind, TAG, char::is_alphanumeric)?;
            let is_whole = behind.as_bytes().get(tag) == Some(&b']');
            let is_emoticon = EMOTICONS.binary_search(&behind.get(..tag)?).is_ok();
            (is_whole && is_emoticon).then_some(sign..end + tag + 1)
        }
        _ => {
            // Neither `C#` nor `&#39;`.
            let last = before.chars().next_back();
            let is_free = last.is_none_or(|c| c != '&' && !c.is_ascii_alphanumeric());
            if !is_free {
                return None;
            }
            let topic = while_in(behind, TOPIC, |c| c != '#' && !c.is_control());
            if let Some(topic) = topic.and_then(|topic| behind.get(..topic))
                && behind.as_bytes().get(topic.len()) == Some(&b'#')
                && topic.trim().len() == topic.len()
            {
                return Some(sign..end + topic.len() + 1);
            }
            let word = while_in(behind, NAME, is_of_name)?;
            let is_word = behind.get(..word)?.contains(char::is_alphabetic);
            is_word.then_some(sign..end + word)
        }
    }
}

/// Start of a mention, with a word of [`MENTION_PREFIXES`] if there is one.
fn start_of_mention(before: &str, from: usize) -> usize {
    let text = before.trim_end();
    let word = MENTION_PREFIXES.iter().find_map(|word| {
        let head = text.len().checked_sub(word.len())?;
        let is_it = text.get(head..)?.eq_ignore_ascii_case(word);
        let apart = text.get(..head)?.chars().next_back();
        let is_word = !word.is_ascii() || apart.is_none_or(|c| !c.is_ascii_alphanumeric());
        (is_it && is_word).then_some(head)
    });
    from + word.unwrap_or(before.len())
}

/// Whether names contain this character.
fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '·')
}

/// Length in bytes of the leading characters that are `is_so`; `None` for none, or more than `most`.
fn while_in(text: &str, most: usize, is_so: impl Fn(char) -> bool) -> Option<usize> {
    let mut len = 0;
    for (count, c) in text.chars().enumerate() {
        if !is_so(c) {
            break;
        }
        if count == most {
            return None;
        }
        len += c.len_utf8();
    }
    (len > 0).then_some(len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bare(field: &str) -> Option<String> {
        let mut out = String::from("left over");
        let words: Vec<&str> = match words(field, &mut out) {
            true => out.split_whitespace().collect(),
            false => return None,
        };
        Some(words.join(" "))
    }

    #[test]
    fn what_stands_around_a_text_is_not_in_it() {
        let text = "the old bridge is closed for repairs";
        for around in [
            format!("{text} @one @two_2 @three"),
            format!("@one {text} via @two"),
            format!("{text} [laughs][哈哈]"),
            format!("#bridge #repairs {text}"),
            format!("#the old bridge# {text}"),
            format!("{text} //@one: so it is //@two: really?"),
            format!("{text}//@one：so it is and will be for a long time"),
            format!("回复@某人:{text} //@another one: no"),
            format!("RT @one: {text}"),
            format!("RT @one: rt @two: {text}"),
            format!("Repost//@one: {text}"),
        ] {
            assert_eq!(bare(&around).as_deref(), Some(text), "{around}");
        }
        let text = "老桥因维修关闭至明年春天请绕行";
        for around in [
            format!("{text}@张三 @李四"),
            format!("{text}[哈哈][泪]"),
            format!("{text}//@王五：真的吗//@赵六：是的"),
            format!("#老桥#{text} 转自@张三"),
            format!("转发微博 //@张三: {text}"),
            format!("转发//@张三：{text}"),
        ] {
            assert_eq!(bare(&around).as_deref(), Some(text), "{around}");
        }
    }

    #[test]
    fn where_there_is_nothing_else_it_is_the_text() {
        assert_eq!(bare("@one @two"), None);
        assert_eq!(bare("转发[哈哈]"), None);
        assert_eq!(bare("#happy #new #year"), None);
        // No text has the letters of an address: with them nothing at all would be left.
        for address in [
            "https://t.co/AbCdEf1234",
            "http://example.com/a/long/one",
            "看http://t.cn/zjDEOJAzjDEOJA",
            "(https://example.com/a/long/one)",
        ] {
            assert_eq!(bare(&format!("#PrimeMinisterResigns {address}")), None, "{address}");
            assert_eq!(bare(&format!("@one {address} @two {address}")), None, "{address}");
        }
        // What is quoted is the text then, without the names.
        let quoted = "ha //@one: the old bridge is closed";
        assert_eq!(bare(quoted).as_deref(), Some("ha // the old bridge is closed"));
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in [
            "write to somebody@example.com before the end of the month",
            "the C# compiler and item #12 of the list of errors",
            "see [1] and [the longer note below] for the whole story of it",
            "an array[0] of numbers",
        ] {
            assert_eq!(bare(text), None, "{text}");
        }
        let long = format!("@one {}", "a long article ".repeat(400));
        assert_eq!(bare(&long), None);
    }

    proptest! {
        /// Nothing is written that was not there, and nothing is left out but what the signs begin.
        #[test]
        fn what_is_left_is_of_the_text(pieces in prop::collection::vec(prop_oneof![
            Just("@"), Just("#"), Just("["), Just("]"), Just("//"), Just(":"), Just("："), Just(" "), Just("via "), Just("回复"),
            Just("name"), Just("老桥"), Just("é"), Just("\u{301}"),
        ], 0..60)) {
            let field = pieces.concat();
            let mut out = String::new();
            if words(&field, &mut out) {
                let mut of = field.chars();
                for c in out.chars().filter(|c| *c != ' ') {
                    prop_assert!(of.any(|other| other == c), "{field:?} {out:?}");
                }
                prop_assert!(letters(&out) >= MIN_LETTERS);
            }
        }
    }
}
