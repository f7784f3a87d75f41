//! HTML as crawlers deliver it: where a tag, comment or script that begins at a `<` ends, and its effect on the
//! surrounding text. Any other `<` is text. Nothing is parsed into a tree, and each byte is visited a bounded number
//! of times: failed searches are remembered, and so is text that looked like a tag.

use super::work_counter;

/// Effect of a piece of markup on the surrounding text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Vanishes: the letters before and after it are neighbours.
    Inline,
    /// Separates words.
    Space,
    /// Ends a sentence.
    Break,
}

/// A piece of markup: `end` is the offset of the first byte after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Markup {
    pub end: usize,
    pub effect: Effect,
}

/// Finds markup in one text. Remembers failed searches, so that none is repeated.
#[derive(Debug, Default)]
pub(super) struct MarkupFinder {
    no_comment_end: bool,
    /// By position in `HIDDEN`.
    no_closing: [bool; HIDDEN.len()],
    /// Before this offset attribute values are read without regard to quotes: with regard to them was tried and ran
    /// into another tag, or was no tag.
    plain_until: usize,
}

/// Elements whose content is no text of the page.
const HIDDEN: [&[u8]; 6] = [b"script", b"style", b"noscript", b"template", b"svg", b"iframe"];

impl MarkupFinder {
    /// The markup that begins at `at`, where `bytes` has a `<`.
    pub(super) fn find(&mut self, bytes: &[u8], at: usize) -> Option<Markup> {
        let rest = bytes.get(at + 1..)?;
        match *rest.first()? {
            b'!' => self.declaration(bytes, at),
            b'?' => {
                let end = plain_end(bytes, at + 2)?;
                rest.get(1).is_some_and(u8::is_ascii_alphabetic).then_some(Markup { end, effect: Effect::Inline })
            }
            b'/' => closing(bytes, at),
            b if b.is_ascii_alphabetic() => self.opening(bytes, at),
            _ => None,
        }
    }

    /// `<!-- … -->`, `<![CDATA[`, `<!doctype …>`. A comment without an end loses only its beginning: its text is kept.
    fn declaration(&mut self, bytes: &[u8], at: usize) -> Option<Markup> {
        let inline = |end| Some(Markup { end, effect: Effect::Inline });
        let rest = bytes.get(at..)?;
        if rest.starts_with(b"<!--") {
            let from = at + 4;
            if !self.no_comment_end {
                // `<!-->` and `<!--->` are whole comments, so the search begins inside the opening.
                if let Some(found) = work_counter::find(bytes.get(at + 2..)?, b"-->") {
                    return inline(at + 2 + found + 3);
                }
                self.no_comment_end = true;
            }
            return inline(from);
        }
        if rest.starts_with(b"<![CDATA[") {
            return inline(at + 9);
        }
        let named = rest.get(2).is_some_and(|&b| b.is_ascii_alphabetic() || b == b'[');
        if named { inline(plain_end(bytes, at + 2)?) } else { None }
    }

    fn opening(&mut self, bytes: &[u8], at: usize) -> Option<Markup> {
        let (name, after) = name(bytes, at + 1);
        let behind = *bytes.get(after)?;
        if !(behind.is_ascii_whitespace() || behind == b'>' || behind == b'/') {
            return None;
        }
        let end = self.opening_end(bytes, after)?;
        let attributes = bytes.get(after..end - 1)?;
        let name = name.lower();
        if let Some(hidden) = HIDDEN.iter().position(|&hidden| hidden == name) {
            let end = if attributes.ends_with(b"/") { end } else { self.hidden_end(bytes, end, hidden).unwrap_or(end) };
            return Some(Markup { end, effect: Effect::Inline });
        }
        let effect = effect(name).or_else(|| is_attributes(attributes).then_some(Effect::Inline));
        if effect.is_none() {
            // It is text, and so are its apparent values: no tag inside is searched for its end through the same
            // quotes again.
            self.plain_until = self.plain_until.max(end);
        }
        effect.map(|effect| Markup { end, effect })
    }

    /// The end of an opening tag whose name ends at `from`: the first `>` outside quotes, unless a `<` comes first.
    fn opening_end(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        if from < self.plain_until {
            return plain_end(bytes, from);
        }
        let mut at = from;
        let mut bracket = self.bracket(bytes, at)?;
        loop {
            // Found once for all the quotes before it.
            if bracket < at {
                bracket = self.bracket(bytes, at)?;
            }
            let Some(quote) = work_counter::memchr2(b'"', b'\'', bytes.get(at..bracket)?).map(|found| at + found)
            else {
                if bytes.get(bracket) == Some(&b'>') {
                    return Some(bracket + 1);
                }
                // A tag that has not ended before the next one begins is none, if its quotes were rightly read.
                self.plain_until = bracket;
                return plain_end(bytes, from);
            };
            // An apostrophe inside a value is not a quote: quotes stand behind `=`.
            let before = bytes.get(from..quote)?.trim_ascii_end();
            work_counter::add(quote - from - before.len() + 1);
            if before.last() != Some(&b'=') {
                at = quote + 1;
                continue;
            }
            match work_counter::memchr(*bytes.get(quote)?, bytes.get(quote + 1..)?) {
                Some(closing) => {
                    at = quote + closing + 2;
                    let parted = bytes.get(at).is_none_or(|&b| b.is_ascii_whitespace() || matches!(b, b'>' | b'/'));
                    if !parted {
                        // That quote opens another value: the one before was never closed.
                        self.plain_until = at;
                        return plain_end(bytes, from);
                    }
                }
                None => {
                    self.plain_until = bytes.len();
                    return plain_end(bytes, from);
                }
            }
        }
    }

    /// First `<` or `>` at or behind `at`. Without one no further tag can end.
    fn bracket(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let found = work_counter::memchr2(b'>', b'<', bytes.get(at..)?);
        if found.is_none() {
            self.plain_until = bytes.len();
        }
        found.map(|found| at + found)
    }

    /// The end of the closing tag of a hidden element whose content begins at `from`.
    fn hidden_end(&mut self, bytes: &[u8], from: usize, hidden: usize) -> Option<usize> {
        let (name, missing) = (HIDDEN.get(hidden)?, self.no_closing.get_mut(hidden)?);
        if *missing {
            return None;
        }
        let mut at = from;
        while let Some(found) = work_counter::find(bytes.get(at..)?, b"</") {
            at += found + 2;
            let after = at + name.len();
            if bytes.get(at..after).is_some_and(|n| n.eq_ignore_ascii_case(name)) {
                return Some(plain_end(bytes, after).unwrap_or(after));
            }
        }
        *missing = true;
        None
    }
}

/// `</name>`. Closing tags of unknown names go too: text has no use for them.
fn closing(bytes: &[u8], at: usize) -> Option<Markup> {
    if !bytes.get(at + 2)?.is_ascii_alphabetic() {
        return None;
    }
    let (name, after) = name(bytes, at + 2);
    let end = plain_end(bytes, after)?;
    work_counter::add(end - after);
    let blank = bytes.get(after..end - 1)?.trim_ascii().is_empty();
    let effect = match effect(name.lower()) {
        Some(effect) => effect,
        None if blank => Effect::Inline,
        None => return None,
    };
    Some(Markup { end, effect })
}

/// Position behind the next `>`, if no `<` comes first.
fn plain_end(bytes: &[u8], from: usize) -> Option<usize> {
    let found = work_counter::memchr2(b'>', b'<', bytes.get(from..)?)?;
    (bytes.get(from + found) == Some(&b'>')).then_some(from + found + 1)
}

/// `name=`, or the slash of an empty element: distinguishes a tag with an unknown name from text in angle brackets.
fn is_attributes(bytes: &[u8]) -> bool {
    work_counter::add(bytes.len());
    let bytes = bytes.trim_ascii();
    let name = bytes.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b':' | b'_')).count();
    bytes == b"/" || (name > 0 && bytes.get(name..).is_some_and(|rest| rest.trim_ascii_start().starts_with(b"=")))
}

/// A name in lower case, as far as it can be one of those that matter.
struct Name {
    bytes: [u8; 12],
    len: usize,
}

impl Name {
    fn lower(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// The name that begins at `from`, and the offset behind it. A longer name than any known gets a hyphen, if it has one,
/// in its last place: no more of it matters.
fn name(bytes: &[u8], from: usize) -> (Name, usize) {
    let mut name = Name { bytes: [0; 12], len: 0 };
    let mut at = from;
    while let Some(&b) = bytes.get(at).filter(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b':' | b'_')) {
        let last = name.bytes.len() - 1;
        match name.bytes.get_mut(name.len) {
            Some(slot) => {
                *slot = b.to_ascii_lowercase();
                name.len += 1;
            }
            None if b == b'-' || b == b':' => {
                if let Some(slot) = name.bytes.get_mut(last) {
                    *slot = b;
                }
            }
            None => {}
        }
        at += 1;
    }
    work_counter::add(at - from);
    (name, at)
}

/// Effect of a tag by its name; `None` if HTML has no such tag.
fn effect(name: &[u8]) -> Option<Effect> {
    Some(match name {
        b"p" | b"div" | b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" | b"li" | b"ul" | b"ol" | b"dl" | b"dt"
        | b"dd" | b"tr" | b"table" | b"tbody" | b"thead" | b"tfoot" | b"caption" | b"article" | b"section"
        | b"header" | b"footer" | b"nav" | b"aside" | b"main" | b"blockquote" | b"pre" | b"figure" | b"figcaption"
        | b"form" | b"fieldset" | b"legend" | b"address" | b"hr" | b"center" | b"details" | b"summary" | b"dialog"
        | b"title" | b"head" | b"body" | b"html" | b"menu" | b"dir" | b"select" | b"optgroup" | b"option"
        | b"textarea" | b"search" | b"hgroup" | b"marquee" | b"frameset" | b"noframes" | b"xmp" | b"listing"
        | b"plaintext" => Effect::Break,
        b"br" | b"td" | b"th" | b"img" | b"button" | b"label" | b"input" | b"video" | b"audio" | b"canvas"
        | b"object" | b"embed" | b"picture" | b"map" => Effect::Space,
        b"a" | b"b" | b"i" | b"u" | b"s" | b"q" | b"em" | b"strong" | b"span" | b"font" | b"small" | b"big"
        | b"sub" | b"sup" | b"tt" | b"code" | b"kbd" | b"samp" | b"var" | b"cite" | b"abbr" | b"acronym" | b"dfn"
        | b"del" | b"ins" | b"mark" | b"time" | b"data" | b"bdi" | b"bdo" | b"ruby" | b"rb" | b"rt" | b"rp"
        | b"rtc" | b"wbr" | b"nobr" | b"strike" | b"blink" | b"output" | b"meter" | b"progress" | b"slot" | b"meta"
        | b"link" | b"base" | b"basefont" | b"col" | b"colgroup" | b"param" | b"source" | b"track" | b"area"
        | b"datalist" | b"applet" | b"bgsound" | b"frame" | b"math" | b"spacer" | b"keygen" | b"script" | b"style"
        | b"noscript" | b"template" | b"svg" | b"iframe" => Effect::Inline,
        // Custom elements and XML namespaces, such as those of word processors.
        _ if name.iter().any(|b| matches!(b, b'-' | b':')) => Effect::Inline,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(&str, Effect)> {
        let markup = MarkupFinder::default().find(text.as_bytes(), 0)?;
        Some((&text[markup.end..], markup.effect))
    }

    #[test]
    fn tags_by_what_they_do() {
        assert_eq!(found("<p>x"), Some(("x", Effect::Break)));
        assert_eq!(found("</DIV >x"), Some(("x", Effect::Break)));
        assert_eq!(found("<br/>x"), Some(("x", Effect::Space)));
        assert_eq!(found("<b>x"), Some(("x", Effect::Inline)));
        assert_eq!(found("<a href='x>y' title=\"a > b\">x"), Some(("x", Effect::Inline)));
        assert_eq!(found("<o:p></o:p>"), Some(("</o:p>", Effect::Inline)));
        assert_eq!(found("<very-long-custom-element>x"), Some(("x", Effect::Inline)));
        assert_eq!(found("<quelle id=\"7\">x"), Some(("x", Effect::Inline)));
        assert_eq!(found("<quelle/>x"), Some(("x", Effect::Inline)));
        assert_eq!(found("</quelle>x"), Some(("x", Effect::Inline)));
        assert_eq!(found("<!doctype html>x"), Some(("x", Effect::Inline)));
        assert_eq!(found("<?xml version=\"1.0\"?>x"), Some(("x", Effect::Inline)));
    }

    #[test]
    fn text_in_angle_brackets_is_text() {
        for text in [
            "<",
            "< b",
            "<3",
            "<中文>",
            "<ABC> rose",
            "<XYZQ>",
            "<b",
            "<b and < c>",
            "<-",
            "<=",
            "<>",
            "</>",
            "</ p>",
            "<!",
            "<! x>",
            "<?",
            "<p@x>",
            "<y and y>",
            "<unknown>",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn hidden_elements_go_with_their_content() {
        assert_eq!(found("<script>if (a<b) {}</script>x"), Some(("x", Effect::Inline)));
        assert_eq!(found("<STYLE type=a>p{}</Style >x"), Some(("x", Effect::Inline)));
        assert_eq!(found("<script src=a/>x"), Some(("x", Effect::Inline)));
        assert_eq!(found("<script>never ends"), Some(("never ends", Effect::Inline)));
        assert_eq!(found("<script>a</scrip></script"), Some(("", Effect::Inline)));
    }

    #[test]
    fn comments() {
        assert_eq!(found("<!-- <p> -- > -->x"), Some(("x", Effect::Inline)));
        assert_eq!(found("<!-->x"), Some(("x", Effect::Inline)));
        assert_eq!(found("<!-- never ends"), Some((" never ends", Effect::Inline)));
        assert_eq!(found("<![CDATA[x"), Some(("x", Effect::Inline)));
    }

    #[test]
    fn a_quote_that_is_never_closed_does_not_eat_the_text() {
        assert_eq!(found("<p title=\"a>text"), Some(("text", Effect::Break)));
        assert_eq!(found("<p title=\"a>text<b class=\"c\">d"), Some(("text<b class=\"c\">d", Effect::Break)));
        assert_eq!(found("<p title=it's>text isn't"), Some(("text isn't", Effect::Break)));
    }
}
