//! The engine with the methods that need more than the text: addresses, fingerprints of the documents' own, a second
//! forest for short texts.

use super::*;
use crate::method::Stage;

/// The roots of documents that are placed one after the other, and by which stage each found its tree.
fn roots(engine: &Arc<Engine>, documents: &[Value]) -> (Vec<String>, Vec<Option<Stage>>) {
    let body: String = documents.iter().map(|source| index("x", source)).collect();
    let stamped = stamp(engine, &body, Some("news-1"), call(0));
    let stages = stamped.stages().to_vec();
    let by = |at| stages.iter().find(|(item, _)| *item == at).map(|s| s.1);
    let (lines, _) = written(&body, stamped);
    let root = |line: &Value| line["cluster_root"].as_str().unwrap().to_owned();
    (lines.iter().skip(1).step_by(2).map(root).collect(), (0..documents.len()).map(by).collect())
}

/// Two requests of a docId service, in either order.
#[test]
fn staged_puts_the_example_of_its_article_together() {
    let first = json!({"url": "http://www.simhash.com", "title": "計算機應用與軟件",
        "content": "海量網絡文本去重系統實驗測試,這是一段測試文本的內容。", "category": "0", "media": "test1"});
    let second = json!({"url": "http://www.simhash1.com", "title": "計算機應用和軟件2",
        "content": "海量網絡文本去重系統實驗檢測,這是一段相似的測試文本的內容。", "category": "0", "media": "test2"});
    let method = || route(json!({"method": "staged", "url_field": "url"}));
    for pair in [[&first, &second], [&second, &first]] {
        let engine = engine(&[method()]);
        let (found, by) = roots(&engine, &pair.map(Clone::clone));
        assert_eq!(found[0], found[1]);
        assert_eq!(by, [None, Some(Stage::Title)]);
    }
}

#[test]
fn the_first_stage_that_finds_a_tree_decides() {
    let engine = engine(&[route(json!({"method": "staged", "url_field": "url"}))]);
    let documents = [
        json!({"url": "http://a/1", "title": "Harbour bridge closed", "content": LONG}),
        json!({"url": "http://b/1", "title": "Orchestra opens season", "content": OTHER}),
        // The content is the orchestra's, the title the bridge's.
        json!({"url": "http://c/1", "title": "Harbour bridge closed", "content": OTHER}),
        // The title is the bridge's, the address the orchestra's.
        json!({"url": "http://b/1", "title": "Harbour bridge closed", "content": "something else altogether"}),
        json!({"title": "Another headline entirely", "content": OTHER}),
        json!({"url": "http://d/1", "title": "Nothing of this was heard", "content": "before by anybody in the town"}),
        json!({"url": "http://d/1"}),
        json!({"url": "http://c/1", "title": "Harbour bridge closed", "content": OTHER}),
    ];
    let (found, by) = roots(&engine, &documents);
    let (bridge, orchestra) = (&found[0], &found[1]);
    assert_ne!(bridge, orchestra);
    assert_eq!([&found[2], &found[3], &found[4]], [bridge, orchestra, orchestra]);
    assert_eq!(found[6], found[5]);
    assert_eq!(&found[7], bridge, "a document that comes again has its root");
    let stage = Some;
    assert_eq!(
        by,
        [
            None,
            None,
            stage(Stage::Title),
            stage(Stage::Url),
            stage(Stage::Content),
            None,
            stage(Stage::Url),
            stage(Stage::Url),
        ]
    );
}

#[test]
fn documents_bring_their_own_fingerprints() {
    let engine = engine(&[route(json!({"method": "field:image.phash"}))]);
    let picture = |phash: Value| json!({"content": LONG, "image": {"phash": phash}});
    let (found, _) = roots(
        &engine,
        &[
            picture(json!("ff00ff00ff00ff00")),
            // Three bits away, as a signed number.
            picture(json!(0xff00_ff00_ff00_ff07_u64 as i64)),
            // Eight bits away.
            picture(json!("ff00ff00ff00ffff")),
            picture(json!("no fingerprint")),
            json!({"content": LONG}),
        ],
    );
    assert_eq!(found[0], "ff00ff00ff00ff00");
    assert_eq!(found[1], found[0]);
    assert_eq!(found[2], "ff00ff00ff00ffff");
    assert_eq!(nodes(&engine), 3, "what brings none stands outside");
    let body = format!("{}\n{}\n", json!({"update": {"_id": "1"}}), json!({"doc": {"content": LONG}}));
    let (lines, ..) = bulk(&engine, &body, 0);
    assert_eq!(lines[1], json!({"doc": {"content": LONG}}), "the text does not matter");
}

/// Short texts in their own forest: near texts of other content keep apart, and their reprints still find them.
#[test]
fn short_texts_by_edit_distance() {
    let engine = engine(&[route(json!({"method": "short:longest"}))]);
    let (call, again) = ("你妈妈喊你回家吃饭哦，回家罗回家罗", "你妈妈叫你回家吃饭啦，回家罗回家罗");
    let long = format!("{LONG}. {OTHER}.");
    let shuffled = "piers cracks found engineers morning closed traffic bridge harbour";
    let in_order = "harbour bridge traffic closed morning engineers found cracks piers";
    let documents = [
        call,
        again,
        &long,
        &format!("{OTHER} by A. Reporter. {LONG}."),
        in_order,
        shuffled,
        "Shuffled: piers, cracks found; engineers morning closed traffic bridge harbour",
    ]
    .map(|text| json!({"content": text}));
    let (found, _) = roots(&engine, &documents);
    assert_eq!(found[0], found[1]);
    assert_ne!(found[2], found[0]);
    assert_ne!(found[4], found[5], "the same words, but another text");
    assert_eq!(wait(engine.forests().stats()).unwrap().len(), 2);
}
