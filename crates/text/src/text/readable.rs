//! Text for people out of HTML as crawlers deliver it. Letters stay as they are, unlike in cleaned text.

use std::borrow::Cow;

use super::entities;
use super::markup::{Effect, MarkupFinder};

/// The text of a field without its markup: character references decoded, one line per block, `<br>` included. Text
/// without markup and references comes back as it is. Linear in its length.
///
/// The result is text, not HTML: a page has to escape it.
pub fn readable(raw: &str) -> Cow<'_, str> {
    if !raw.contains(['<', '&']) {
        return Cow::Borrowed(raw);
    }
    let bytes = raw.as_bytes();
    let mut text = String::with_capacity(raw.len());
    let mut finder = MarkupFinder::default();
    // Line breaks of the source, by their place in `text`: between blocks they are white space.
    let mut source_breaks = Vec::new();
    let (mut run, mut at, mut has_blocks) = (0, 0, false);
    while let Some(&byte) = bytes.get(at) {
        let (end, shown) = match byte {
            b'\n' => {
                source_breaks.push(text.len() + (at - run));
                at += 1;
                continue;
            }
            b'<' => match finder.find(bytes, at) {
                None => (at, None),
                Some(markup) => {
                    let tag = bytes.get(at..markup.end).unwrap_or_default();
                    let is_line_break = tag.get(..3).is_some_and(|name| name.eq_ignore_ascii_case(b"<br"));
                    (
                        markup.end,
                        match markup.effect {
                            Effect::Inline => None,
                            Effect::Space if !is_line_break => Some(' '),
                            Effect::Space | Effect::Break => Some('\n'),
                        },
                    )
                }
            },
            b'&' => match entities::decode(bytes.get(at..).unwrap_or_default()) {
                None => (at, None),
                Some((c, len)) => (at + len, Some(c)),
            },
            _ => (at, None),
        };
        if end == at {
            at += 1;
            continue;
        }
        text.push_str(raw.get(run..at).unwrap_or_default());
        has_blocks |= byte == b'<' && shown == Some('\n');
        text.extend(shown);
        (run, at) = (end, end);
    }
    text.push_str(raw.get(run..).unwrap_or_default());
    if !has_blocks {
        return Cow::Owned(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    for place in source_breaks {
        shown.push_str(text.get(from..place).unwrap_or_default());
        shown.push(' ');
        from = place + 1;
    }
    shown.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tags_go_and_letters_stay() {
        for (raw, expected) in [
            ("No Tags,\nno change", "No Tags,\nno change"),
            (
                "<p>The <b>Harbour</b> was\nclosed.</p><p>Ships&nbsp;wait.</p>",
                "\nThe Harbour was closed.\n\nShips\u{a0}wait.\n",
            ),
            ("a<br>b<BR/>c<td>d", "a\nb\nc d"),
            ("<script>alert(1)</script>x<style>p{}</style>", "x"),
            ("a < b && c > d, x <3", "a < b && c > d, x <3"),
            ("AT&amp;T &lt;b&gt;", "AT&T <b>"),
            ("<b>a</b>\nb", "a\nb"),
            ("<!-- <p> -->صحيفة<p dir=\"rtl\">中文", "صحيفة\n中文"),
        ] {
            assert_eq!(readable(raw), expected, "{raw}");
        }
    }

    proptest! {
        #[test]
        fn any_text(raw in "(<p>|</p>|<br>|&amp;|&#1[0-9];|<|>|&|\n|é|中|a| |<!--|-->|<script>){0,30}") {
            let shown = readable(&raw);
            let letters = |text: &str| text.matches(['é', '中']).count();
            prop_assert!(letters(&shown) <= letters(&raw));
            if !raw.contains(['<', '&']) {
                prop_assert_eq!(&*shown, &*raw);
            }
        }
    }
}
