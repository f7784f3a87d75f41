//! Texts that are read from right to left, in an interface that is read from left to right.

use std::collections::BTreeMap;

use serde_json::json;

use super::{UI, get, link, sample, shown, start_for};
use crate::common::{self, Server, unique_index};

/// Three articles of one language: the second is the first with a few changes, the third is another story.
struct Story {
    id: &'static str,
    title: &'static str,
    media: [&'static str; 3],
    /// What all three say.
    text: &'static str,
    ends: [&'static str; 3],
    /// A word of all three.
    word: &'static str,
}

const STORIES: [Story; 2] = [
    Story {
        id: "عاصفة (1)",
        title: "إغلاق ميناء بيروت يومين بعد العاصفة (صور)",
        media: ["النهار", "وكالة BBC", "الميادين"],
        text: "أغلقت سلطات الميناء أبوابها يومين بعد العاصفة التي ضربت الساحل ليلة الأحد، وبقيت السفن تنتظر في \
               الخليج. ولم يكن لدى سوق السمك ما يبيعه حتى المساء، وقال الصيادون إنهم سيعودون إلى البحر صباح الأربعاء \
               إذا هدأت الرياح. وذكرت وكالة Reuters أن الأضرار كبيرة في الأرصفة القديمة.",
        ends: [
            "وقال مدير الميناء سمير حداد إن عدد السفن 14 سفينة. وتفقد رئيس البلدية الأرصفة ووعد التجار بمساعدات.",
            "وقال مدير الميناء سمير حداد لقناة BBC إن عدد السفن 14 سفينة. \
             وزار رئيس البلدية الأرصفة ووعد التجار بمساعدات.",
            "وقال مدير الميناء سمير حداد إن عدد السفن 17 سفينة، وإن 5 منها لشركة Maersk.",
        ],
        word: "الميناء",
    },
    Story {
        id: "סערה (1)",
        title: "נמל חיפה נסגר ליומיים אחרי הסערה (תמונות)",
        media: ["הארץ", "רשת BBC", "מעריב"],
        text: "שלטונות הנמל סגרו את שעריו ליומיים אחרי הסערה שפקדה את החוף בליל ראשון, והאוניות נותרו להמתין במפרץ. \
               לשוק הדגים לא היה מה למכור עד הערב, והדייגים אמרו שיחזרו לים ביום רביעי בבוקר אם הרוחות יירגעו. סוכנות \
               Reuters מסרה שהנזק ברציפים הישנים גדול.",
        ends: [
            "מנהל הנמל יוסי כהן אמר שמספר האוניות הוא 14. ראש העיר סייר ברציפים והבטיח לסוחרים סיוע.",
            "מנהל הנמל יוסי כהן אמר לרשת BBC שמספר האוניות הוא 14. ראש העיר ביקר ברציפים והבטיח לסוחרים סיוע.",
            "מנהל הנמל יוסי כהן אמר שמספר האוניות הוא 17, ו-5 מהן של חברת Maersk.",
        ],
        word: "הנמל",
    },
];

/// Whether text has a letter that is read from right to left.
fn is_rtl(text: &str) -> bool {
    text.contains(|c| matches!(c, '\u{590}'..='\u{8ff}'))
}

/// The elements of a page with text from right to left, by their path of two names, and whether all of it is isolated:
/// by `dir="auto"` or `<bdi>` in their path, or by isolate characters where no element may be.
fn places(html: &str) -> BTreeMap<String, bool> {
    let mut found = BTreeMap::new();
    let mut open: Vec<(&str, bool)> = vec![("", false)];
    for tag in html.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').unwrap();
        let name = tag.split([' ', '/']).next().unwrap();
        let isolates = tag.contains("dir=\"auto\"") || name == "bdi";
        if is_rtl(tag) && !tag.contains("type=\"hidden\"") {
            *found.entry(name.to_owned()).or_insert(true) &= isolates;
        }
        let is_empty = tag.ends_with('/') || ["input", "meta", "link", "!doctype"].contains(&name);
        if tag.starts_with('/') {
            open.pop();
        } else if !is_empty {
            open.push((name, isolates));
        }
        if is_rtl(text) {
            let [.., (outer, _), (inner, _)] = open[..] else { panic!("{text} is nowhere") };
            let outside =
                text.split('\u{2068}').map(|part| part.split_once('\u{2069}').map_or(part, |(_, after)| after));
            let is_isolated = open.iter().any(|(_, isolates)| *isolates) || !outside.into_iter().any(is_rtl);
            *found.entry(format!("{outer} {inner}")).or_insert(true) &= is_isolated;
        }
    }
    found
}

/// Text from right to left is in these elements of a page, and isolated in each.
fn assert_isolated(page: &str, expected: &[&str]) {
    let expected: BTreeMap<String, bool> = expected.iter().map(|place| ((*place).to_owned(), true)).collect();
    assert_eq!(places(page), expected, "{page}");
}

#[tokio::test]
async fn text_from_right_to_left_moves_nothing_around_it() {
    let upstream = common::opensearch();
    let server = Server::new(&upstream);
    for story in &STORIES {
        // The overview shows the largest groups: no other test has any in this index.
        let index = unique_index("page").replace("news-", "rtl-");
        let spinney = start_for(&upstream, &index, &["--counts", "off"]);
        sample::create(&server, &index).await;
        for (at, (medium, end)) in story.media.iter().zip(story.ends).enumerate() {
            let source = json!({
                "title": story.title, "content": format!("{}\n\n{end}", story.text), "media": medium,
                "published_at": format!("2026-01-02T0{at}:00:00Z"), "url": "https://wire.example/1",
            });
            sample::write(&spinney, &index, &format!("{}{at}", story.id), &source);
        }
        server.refresh(&index).await;

        let list = common::http().get(format!("{}{UI}/{index}", spinney.url));
        let list = list.query(&[("q", story.word), ("medium", story.media[0])]).send().await.unwrap();
        let list = list.text().await.unwrap();
        assert_isolated(&list, &["head title", "input", "option", "h3 a", "span bdi", "article p", "p mark"]);
        assert_isolated(
            &shown(&spinney, &format!("/{index}?facets=shown")),
            &["option", "a bdi", "h3 a", "span bdi", "article p"],
        );
        let article = link(&list, "data-entry");
        let every = [
            &["head title", "article h1", "div p", "span bdi", "svg text", "circle title"][..],
            &["td a", "td span", "td bdi", "li a", "li bdi"],
        ];
        let every = every.concat();
        let first = shown(&spinney, &article);
        assert_isolated(&first, &every);
        let other = link(&first, "data-entry");
        let changed = shown(&spinney, &other);
        assert_isolated(&changed, &[&every[..], &["a bdi", "p del", "p ins"]].concat());
        let other = other.split('?').next().unwrap();
        let plain = shown(&spinney, &format!("{other}?view=text"));
        assert_isolated(&plain, &[&every[..], &["a bdi"]].concat());
        assert_isolated(&shown(&spinney, &link(&changed, "what=split")), &["p bdi"]);
        assert_isolated(&shown(&spinney, "/overview"), &["li a"]);
        // What was asked for may end with a mark, which belongs to its left.
        let missing = get(&spinney, &format!("/{index}/article/%D7%90!")).text();
        assert_isolated(&missing, &["section blockquote"]);
        assert!(missing.contains("[\u{2068}א!\u{2069}] in"), "{missing}");
        let no_date = get(&spinney, &format!("/{index}?from=%D7%90!")).text();
        assert!(no_date.contains("not \u{2068}א!\u{2069}<"), "{no_date}");
        let home = shown(&spinney, "/");
        assert!(home.contains("<input id=\"index\" name=\"index\" dir=\"auto\""), "{home}");
        server.delete_index(&index).await;
    }
}
