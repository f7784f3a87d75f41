//! Small inputs with the right answer, of kinds that public bug reports and collections brought: documents with the
//! same `expect` belong to one group, others do not, `?` is free. All wording is invented.
//!
//! `field`: what a first look from outside found; `touched`: one text copy-edited, and forms with other facts;
//! `passing`: controls that are right and stay so.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::stamping;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pure/cases");

/// Checks one case. `options`: those of the route.
fn check(name: &str, options: &str) {
    let text = fs::read_to_string(Path::new(FOLDER).join(format!("{name}.ndjson"))).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let roots = stamping::roots(&format!("method = \"verified\"\n{options}"), &lines);
    let documents: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |document: &Value| {
        let member = |name: &str| document[name].as_str().unwrap().to_owned();
        (member("id"), member("expect"))
    };
    let mut wrong = Vec::new();
    for (at, document) in documents.iter().enumerate() {
        let (id, expected) = of(document);
        for (other, others) in documents.iter().take(at).map(of) {
            let is_free = expected == "?" || others == "?";
            let are_together = roots[&id] == roots[&other];
            if !is_free && are_together != (expected == others) {
                wrong.push(format!("{other} and {id} are {}", if are_together { "together" } else { "apart" }));
            }
        }
    }
    assert!(wrong.is_empty(), "{name}: {wrong:?}");
}

macro_rules! cases {
    ($($folder:ident { $($test:ident $name:literal $options:literal)* })*) => {
        $(mod $folder {
            $(#[test]
            fn $test() {
                super::check(concat!(stringify!($folder), "/", $name), $options);
            })*
        })*
        const ALL: &[&str] = &[$($(concat!(stringify!($folder), "/", $name),)*)*];
    };
}

#[test]
fn every_file_is_a_test() {
    let folders = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    let names = files.map(|file| {
        let path = file.unwrap().path();
        path.strip_prefix(FOLDER).unwrap().with_extension("").to_str().unwrap().to_owned()
    });
    let found: BTreeSet<String> = names.collect();
    assert_eq!(found, ALL.iter().map(|&name| name.to_owned()).collect());
}

cases! {
    field {
        bracketed_form_fields "bracketed-form-fields" ""
        bulletin_long_house_text "bulletin-long-house-text" "title_field = \"title\""
        caption_and_biography "caption-and-biography" "title_field = \"title\""
        cookie_wall_six_titles "cookie-wall-six-titles" "title_field = \"title\""
        issuer_boilerplate "issuer-boilerplate" "title_field = \"title\""
        job_ad_by_town "job-ad-by-town" "title_field = \"title\""
        markdown_inline_links "markdown-inline-links" ""
        name_in_first_words "name-in-first-words" "title_field = \"title\""
        other_event_same_house_first "other-event-same-house-first" "title_field = \"title\""
        paywall_hint "paywall-hint" "title_field = \"title\""
        post_other_frame_zh "post-other-frame-zh" ""
        sister_brands "sister-brands" "title_field = \"title\""
        story_in_four_digests_first_copy_last "story-in-four-digests-first-copy-last" "title_field = \"title\""
        story_in_three_digests "story-in-three-digests" "title_field = \"title\""
        two_character_name_middle_zh "two-character-name-middle-zh" "title_field = \"title\""
    }
    touched {
        ar_decimal "ar-decimal" "title_field = \"title\""
        ar_letters "ar-letters" "title_field = \"title\""
        ar_title_word "ar-title-word" "title_field = \"title\""
        ar_titles "ar-titles" "title_field = \"title\""
        ar_touch2 "ar-touch2" "title_field = \"title\""
        ar_touch4 "ar-touch4" "title_field = \"title\""
        ar_touch6 "ar-touch6" "title_field = \"title\""
        en_facts_6 "en-facts-6" "title_field = \"title\""
        en_form_town "en-form-town" "title_field = \"title\""
        en_synonyms_11 "en-synonyms-11" "title_field = \"title\""
        en_synonyms_4 "en-synonyms-4" "title_field = \"title\""
        en_touch "en-touch" "title_field = \"title\""
        ru_lead "ru-lead" "title_field = \"title\""
        ru_name "ru-name" "title_field = \"title\""
        ru_rub "ru-rub" "title_field = \"title\""
        ru_say "ru-say" "title_field = \"title\""
        ru_sig "ru-sig" "title_field = \"title\""
        ru_yo "ru-yo" "title_field = \"title\""
        ru_zero "ru-zero" "title_field = \"title\""
        zh_facts_6 "zh-facts-6" "title_field = \"title\""
        zh_synonyms_8 "zh-synonyms-8" "title_field = \"title\""
    }
    passing {
        ai_rewrite "ai-rewrite" ""
        appeared_first_on "appeared-first-on" "title_field = \"title\""
        base64 "base64" ""
        bilingual "bilingual" ""
        chat_template "chat-template" "title_field = \"title\""
        csv_tables "csv-tables" ""
        data_uri_image "data-uri-image" ""
        datelines "datelines" "title_field = \"title\""
        digit_strings "digit-strings" "title_field = \"title\""
        doubled_text "doubled-text" "title_field = \"title\""
        empty_each_own "empty-each-own" "title_field = \"title\""
        episodes "episodes" "title_field = \"title\""
        followup_verdict "followup-verdict" "title_field = \"title\""
        hashtag_added "hashtag-added" "title_field = \"title\""
        headlines_appended "headlines-appended" "title_field = \"title\""
        hyphenation "hyphenation" "title_field = \"title\""
        index_page "index-page" ""
        invisible_chars "invisible-chars" "title_field = \"title\""
        job_ads "job-ads" "title_field = \"title\""
        json_in_text "json-in-text" ""
        korean_nfd "korean-nfd" "title_field = \"title\""
        legal_template_long "legal-template-long" ""
        link_only "link-only" "title_field = \"title\""
        literal_backslash_n "literal-backslash-n" ""
        live_blog "live-blog" "title_field = \"title\""
        markdown_data_uri "markdown-data-uri" ""
        mojibake "mojibake" "title_field = \"title\""
        name_as_fourth_word "name-as-fourth-word" "title_field = \"title\""
        name_in_last_words "name-in-last-words" "title_field = \"title\""
        name_in_the_middle "name-in-the-middle" "title_field = \"title\""
        nested_text "nested-text" "title_field = \"article.title\"\ntext_field = [\"article.text\"]"
        obituaries "obituaries" "title_field = \"title\""
        ocr_noise "ocr-noise" "title_field = \"title\""
        other_event_same_house_70 "other-event-same-house-70" "title_field = \"title\""
        page_in_lines "page-in-lines" "title_field = \"title\""
        paragraphs_moved "paragraphs-moved" ""
        paywall_teaser "paywall-teaser" "title_field = \"title\""
        product_variants "product-variants" "title_field = \"title\""
        quote_variant_zh "quote-variant-zh" "title_field = \"title\""
        recall_models "recall-models" "title_field = \"title\""
        results "results" ""
        rss_truncated "rss-truncated" "title_field = \"title\""
        rt_other_link "rt-other-link" "title_field = \"title\""
        rt_prefix "rt-prefix" "title_field = \"title\""
        same_text_other_url "same-text-other-url" "title_field = \"title\""
        short_ascii "short-ascii" "title_field = \"title\""
        short_zh_different "short-zh-different" "title_field = \"title\""
        short_zh_tail "short-zh-tail" "title_field = \"title\""
        short_zh_unrelated "short-zh-unrelated" "title_field = \"title\""
        shorter_than_ngram "shorter-than-ngram" "title_field = \"title\""
        six_words "six-words" "title_field = \"title\""
        stock_bot "stock-bot" ""
        symbols_only "symbols-only" "title_field = \"title\""
        three_character_name_middle_zh "three-character-name-middle-zh" "title_field = \"title\""
        title_only "title-only" "title_field = \"title\""
        title_prefixes "title-prefixes" "title_field = \"title\""
        trad_simp_mixed "trad-simp-mixed" ""
        translated_headline_only "translated-headline-only" "title_field = \"title\""
        two_articles_in_one "two-articles-in-one" ""
        two_digests_control "two-digests-control" "title_field = \"title\""
        two_vs_three_chars "two-vs-three-chars" "title_field = \"title\""
        updated_article "updated-article" "title_field = \"title\""
        urls_only_differ "urls-only-differ" ""
        us_uk_spelling "us-uk-spelling" "title_field = \"title\""
        vietnamese_nfd "vietnamese-nfd" "title_field = \"title\""
        weibo_chain "weibo-chain" ""
        word_vs_article "word-vs-article" "title_field = \"title\""
        wrapped_mail "wrapped-mail" "title_field = \"title\""
        zh_forms "zh-forms" "title_field = \"title\""
    }
}
