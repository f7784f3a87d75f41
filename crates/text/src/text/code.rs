//! Leftover code: lines of JavaScript, CSS or JSON that a crawler took for text because their `<script>` or `<style>`
//! was already gone. One such line was the longest "sentence" of hundreds of unrelated articles, so it must go; a text
//! with brackets in it must stay, so every test here wants more than one sign of code.

use std::ops::Range;

use super::work_counter;

/// Bytes before and after a brace in which signs of code are counted.
const BRACE_CONTEXT: usize = 160;
/// The longest block that is skipped at once, in bytes. It bounds the search for a closing brace.
const LONGEST_BLOCK: usize = 64 << 10;

/// Keywords at the head of a block or the beginning of a statement.
const KEYWORDS: [&str; 14] =
    ["var", "let", "const", "function", "return", "if", "else", "for", "while", "new", "try", "typeof", "switch", "do"];

/// Finds blocks of code in one text, and remembers where there is none.
#[derive(Debug, Default)]
pub(super) struct BlockFinder {
    not_before: usize,
    ahead: Signs,
}

/// Counts of signs of code in a part of the text. It is counted while the stretch moves on: a byte is looked at when it
/// comes in and when it goes, however many braces look ahead over it.
#[derive(Debug, Default)]
struct Signs {
    stretch: Range<usize>,
    signs: usize,
    semicolons: usize,
    letters: usize,
}

impl Signs {
    /// Moves the stretch on.
    fn of(&mut self, bytes: &[u8], stretch: Range<usize>) -> &Signs {
        let before = std::mem::replace(&mut self.stretch, stretch.clone());
        let overlaps = before.start <= stretch.start && stretch.start < before.end;
        if !overlaps || before.end > stretch.end {
            (self.signs, self.semicolons, self.letters) = (0, 0, 0);
            self.add(bytes, stretch, |count| *count += 1);
            return self;
        }
        self.add(bytes, before.start..stretch.start, |count| *count -= 1);
        self.add(bytes, before.end..stretch.end, |count| *count += 1);
        self
    }

    fn add(&mut self, bytes: &[u8], range: Range<usize>, change: impl Fn(&mut usize)) {
        let bytes = bytes.get(range).unwrap_or_default();
        work_counter::add(bytes.len());
        for &b in bytes {
            match b {
                b':' | b'=' | b'(' | b')' | b'{' | b'}' | b'"' | b'\'' | b'[' | b']' | b'#' | b'_' | b'$' => {
                    change(&mut self.signs);
                }
                b';' => {
                    change(&mut self.signs);
                    change(&mut self.semicolons);
                }
                b if b.is_ascii_alphabetic() || b >= 0x80 => change(&mut self.letters),
                _ => {}
            }
        }
    }
}

impl BlockFinder {
    /// If the `{` at `at` opens a block of code: the end of the block in `bytes`, and where its head
    /// (`.class `, `(function(){`, `Page.load(`) begins in `written`, the text already cleaned.
    /// `sentence` is where the current sentence begins in `written`: the head does not reach beyond it.
    pub(super) fn block(&mut self, bytes: &[u8], at: usize, written: &str, sentence: usize) -> Option<(usize, usize)> {
        if at < self.not_before {
            return None;
        }
        let ahead = at + 1..bytes.len().min(at + 1 + BRACE_CONTEXT);
        let content = bytes.get(ahead.clone())?.trim_ascii_start();
        let signs = self.ahead.of(bytes, ahead);
        // With a head less is needed, so one that would not be enough is not looked for.
        if !is_code(content, signs, true) {
            return None;
        }
        let head = head(written, sentence);
        if head == written.len() && !is_code(content, signs, false) {
            return None;
        }
        match close(bytes, at) {
            Some(end) => Some((tail(bytes, end), head)),
            None => {
                // Nothing closes it here; the braces inside it would search the same bytes again.
                self.not_before = at + LONGEST_BLOCK;
                None
            }
        }
    }
}

/// The offset behind the brace that closes the one at `at`.
fn close(bytes: &[u8], at: usize) -> Option<usize> {
    let window = bytes.get(at..bytes.len().min(at + LONGEST_BLOCK))?;
    let (mut depth, mut next) = (0usize, 0);
    while let Some(found) = work_counter::memchr2(b'{', b'}', window.get(next..)?) {
        let found = next + found;
        next = found + 1;
        if window.get(found) == Some(&b'{') {
            depth += 1;
        } else {
            depth -= 1;
            if depth == 0 {
                return Some(at + found + 1);
            }
        }
    }
    None
}

/// Skips what may follow a block: `)`, `;`, `]`, and the arguments of an immediately invoked function.
fn tail(bytes: &[u8], end: usize) -> usize {
    let mut at = end;
    while let Some(&b) = bytes.get(at) {
        at = match b {
            b')' | b']' | b'}' | b';' | b',' => at + 1,
            b'(' => {
                let arguments = bytes.get(at + 1..).unwrap_or_default();
                let len = arguments
                    .iter()
                    .take(BRACE_CONTEXT)
                    .take_while(|&&b| b.is_ascii_alphanumeric() || matches!(b, b',' | b' ' | b'.' | b'$' | b'_'))
                    .count();
                work_counter::add(len + 1);
                match arguments.get(len) {
                    Some(b')') => at + len + 2,
                    _ => return at,
                }
            }
            _ => return at,
        };
    }
    at
}

/// Whether the content between braces begins with signs of code. Content that is code without a head is code with
/// one.
fn is_code(content: &[u8], ahead: &Signs, head: bool) -> bool {
    let Signs { signs, letters, .. } = *ahead;
    let statement = ahead.semicolons > 0;
    let empty = content.first() == Some(&b'}');
    match head {
        true => empty || statement || signs * 8 >= letters && signs > 1 || is_keyed(content),
        false => signs > 2 && (statement || signs * 6 >= letters) && is_keyed(content),
    }
}

/// `name:`, `"name":` or `'name':`, as objects and style rules begin.
fn is_keyed(content: &[u8]) -> bool {
    let quoted = content.first().filter(|b| matches!(b, b'"' | b'\''));
    let rest = content.get(usize::from(quoted.is_some())..).unwrap_or_default();
    let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'@' | b'$')).count();
    let rest = rest.get(len + usize::from(quoted.is_some())..).unwrap_or_default();
    work_counter::add(len + 1);
    len > 0 && rest.trim_ascii_start().starts_with(b":")
}

/// Start of a block's head in `written`; `written.len()` if the text before the brace is not code.
fn head(written: &str, sentence: usize) -> usize {
    let mut begin = written.len();
    let floor = sentence.max(written.len().saturating_sub(BRACE_CONTEXT));
    let bytes = written.as_bytes();
    loop {
        let end = floor + bytes.get(floor..begin).unwrap_or_default().trim_ascii_end().len();
        let token = bytes.get(floor..end).unwrap_or_default();
        let len = token.iter().rev().take_while(|b| b.is_ascii_graphic()).count();
        let start = end - len;
        work_counter::add(begin - start);
        let token = written.get(start..end).unwrap_or_default();
        let signed = token
            .bytes()
            .any(|b| matches!(b, b'(' | b')' | b'=' | b'[' | b']' | b'{' | b'}' | b'_' | b'$' | b'>' | b'@'))
            || token.ends_with([':', ','])
            || token.starts_with(['.', '#', '*', ':'])
            || token
                .bytes()
                .zip(token.bytes().skip(1))
                .any(|(a, b)| matches!(a, b'.' | b':' | b'#') && b.is_ascii_alphabetic());
        if len == 0 || !(signed || KEYWORDS.contains(&token) || is_names(token)) {
            return begin;
        }
        begin = start;
    }
}

/// Names as style sheets list them: `ul,ol,.list`.
fn is_names(token: &str) -> bool {
    let mut names = token.split(',');
    names.all(|name| is_element(name) || name.starts_with(['.', '#']))
}

/// Elements that style sheets name without a dot or a hash.
fn is_element(name: &str) -> bool {
    matches!(
        name,
        "a" | "article"
            | "aside"
            | "audio"
            | "b"
            | "body"
            | "button"
            | "dd"
            | "div"
            | "dl"
            | "dt"
            | "em"
            | "fieldset"
            | "footer"
            | "form"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "header"
            | "html"
            | "i"
            | "iframe"
            | "img"
            | "input"
            | "label"
            | "li"
            | "nav"
            | "ol"
            | "p"
            | "section"
            | "select"
            | "span"
            | "strong"
            | "table"
            | "td"
            | "textarea"
            | "th"
            | "tr"
            | "ul"
            | "video"
    )
}

/// Selectors of a rule whose block was removed, at least one of them compound: `.nav-inner .logo,.tip i`.
fn is_selectors(sentence: &str) -> bool {
    let joined = |name: &str| name.starts_with(['.', '#']) && name.contains(['-', '_']);
    let mut names = sentence.split_ascii_whitespace();
    sentence.split([' ', ',']).any(joined) && names.all(|names| is_names(names.trim_end_matches(',')))
}

/// Text behind the leading comments of a sentence; `None` if it has no letter or digit.
fn behind_comments(sentence: &str) -> Option<&str> {
    if !sentence.starts_with("/*") {
        return Some(sentence);
    }
    // Found once for all comments: the text behind a comment has a letter if it extends to the last one.
    let last_letter = sentence.rfind(char::is_alphanumeric)?;
    let from_last_letter = sentence.len() - last_letter;
    let mut rest = sentence;
    while let Some(comment) = rest.strip_prefix("/*") {
        let (inside, behind) = comment.split_once("*/")?;
        work_counter::add(inside.len());
        if behind.len() < from_last_letter {
            return None;
        }
        rest = behind.trim_start();
    }
    Some(rest)
}

/// Whether a whole sentence is code: it begins like a statement, or is dense with the signs of one.
pub(super) fn is_statement(sentence: &str) -> bool {
    work_counter::add(sentence.len());
    let Some(sentence) = behind_comments(sentence.trim()) else {
        return true;
    };
    let first = sentence.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')).count();
    let (word, rest) = sentence.split_at_checked(first).unwrap_or(("", sentence));
    let has = |signs: &[char]| rest.contains(signs);
    match word {
        "var" | "let" | "const" if has(&['=']) => return true,
        "function" | "if" | "for" | "while" | "return" | "typeof" if rest.trim_start().starts_with('(') => {
            return true;
        }
        "document" | "window" | "console" | "jquery" | "$" if rest.starts_with(['.', '(', '[']) => {
            return true;
        }
        _ => {}
    }
    if sentence.starts_with("(function") || sentence.starts_with("!function") {
        return true;
    }
    if sentence.starts_with(['.', '#']) && is_selectors(sentence) {
        return true;
    }
    if sentence.ends_with(");") && has(&['=']) {
        return true;
    }
    let (mut signs, mut ascii, mut other, mut strong) = (0, 0, 0, false);
    for b in sentence.bytes() {
        match b {
            b'=' | b'{' | b'}' | b'[' | b']' | b'_' | b'$' | b'\\' | b';' => {
                strong |= matches!(b, b'=' | b'{' | b'}' | b'_');
                signs += 1;
            }
            b'(' | b')' | b'"' | b'\'' => signs += 1,
            b if b.is_ascii_alphabetic() => ascii += 1,
            b if b >= 0xC0 => other += 1,
            _ => {}
        }
    }
    strong && signs >= 4 && signs * 5 >= ascii && other * 5 <= ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts the first block out of a text, as the cleaning pass does.
    fn cut(text: &str) -> Option<String> {
        let at = text.find('{')?;
        let (end, head) = BlockFinder::default().block(text.as_bytes(), at, &text[..at], 0)?;
        Some(format!("{}|{}", &text[..head], &text[end..]))
    }

    #[test]
    fn scripts_styles_and_json_go() {
        for (text, left) in [
            ("比赛结束 Page.loadWidget({ trigger: { id: 'w1' }, url: \"//x/y.js\" });再见", "比赛结束 |再见"),
            (".quote{padding:20px;color:red}正文", "|正文"),
            ("摘要 .con p a:visited{color: #123456 !important;}", "摘要 |"),
            ("body { margin: 0 }", "|"),
            ("消息(function(){ var s = 1; })();结束", "消息|结束"),
            ("!function(a){a.b=1}(window);x", "|x"),
            ("见图 PAGE_INFO['v0'] = [ { pid: '1', title:'标题' }];后文", "见图 |后文"),
            ("{\"@context\":\"http://schema.org\",\"@type\":\"NewsArticle\"}正文", "|正文"),
            ("if (a) {}", "|"),
            ("正文结束。 .tip i,.list li{color:red}", "正文结束。 |"),
            ("html,body,h4,form,textarea{margin:0;padding:0}", "|"),
        ] {
            assert_eq!(cut(text).as_deref(), Some(left), "{text}");
        }
    }

    #[test]
    fn prose_with_braces_stays() {
        for text in [
            "他写道{图1}如下",
            "the set {a, b, c} has three members",
            "a note {see: the appendix} follows",
            "he said {sic} that",
            "{注：本文}正文",
            "{}",
            "{never: closed; x=1",
        ] {
            assert_eq!(cut(text), None, "{text}");
        }
    }

    #[test]
    fn statements() {
        for code in [
            "var x = document.getelementbyid('a');",
            "document.write('x')",
            "window._bd_share = 1",
            "(function(",
            "a_b['c_d'] = [1, 'e'];",
            "if(typeof x=='undefined')",
            "/* navigation begin */",
            "/*",
            "/* 2014 */ a_b['c_d'] = [1, 'e'];",
            "/* 2014 */ /* 中 */ a_b['c_d'] = [1, 'e'];",
            "/* one */ /* two */",
            "/* one */ /* two",
            ".nav-inner .logo,.tip-low i,.list,",
            ".audio-error",
            "//old phones var agent = navigator.agent.tolowercase();",
        ] {
            assert!(is_statement(code), "{code}");
        }
        for prose in [
            "if you go there, let me know",
            "for the first time (since 1990) the company made a profit",
            "documents show that windows were open",
            "\"i don't know,\" he said, \"but (perhaps) it's so\"",
            "let it be",
            "价格=成本+利润(含税)",
            "return to the office",
            "e = mc2",
            "/* the report */ says nothing of it",
            "/* the report */ /**/ says nothing /* of it */",
            "/* the report */ 中",
            ".net is a framework",
            ".com",
            "#storm-warning for the whole coast",
            "* all prices without tax",
            "the sum (as he said);",
            "",
        ] {
            assert!(!is_statement(prose), "{prose}");
        }
    }
}
