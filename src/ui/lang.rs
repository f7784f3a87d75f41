//! The languages of the pages: one table of texts each, and their choice.

mod chinese;
mod english;

use hyper::HeaderMap;
use hyper::header::ACCEPT_LANGUAGE;

/// A language of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lang {
    English,
    Chinese,
}

impl Lang {
    /// The language of a [`code`](Lang::code).
    pub(super) fn of(code: &str) -> Option<Lang> {
        match code {
            "en" => Some(Lang::English),
            "zh" => Some(Lang::Chinese),
            _ => None,
        }
    }

    /// Code of the language in URLs.
    pub(super) fn code(self) -> &'static str {
        match self {
            Lang::English => "en",
            Lang::Chinese => "zh",
        }
    }

    /// Language tag in HTML.
    pub(super) fn tag(self) -> &'static str {
        match self {
            Lang::English => "en",
            Lang::Chinese => "zh-CN",
        }
    }

    /// The other of the two languages.
    pub(super) fn other(self) -> Lang {
        match self {
            Lang::English => Lang::Chinese,
            Lang::Chinese => Lang::English,
        }
    }

    /// Texts of all pages in this language.
    pub(super) fn texts(self) -> &'static Texts {
        match self {
            Lang::English => &english::TEXTS,
            Lang::Chinese => &chinese::TEXTS,
        }
    }

    /// The language of the highest weight in `Accept-Language`; `None` if neither is accepted.
    pub(super) fn accepted(headers: &HeaderMap) -> Option<Lang> {
        let values = headers.get_all(ACCEPT_LANGUAGE).iter();
        let ranges = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
        let mut best: Option<(f32, Lang)> = None;
        for range in ranges {
            let mut parts = range.split(';');
            let tag = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
            let weight = parts.find_map(|part| part.trim().strip_prefix("q=")?.parse().ok());
            let weight = weight.unwrap_or(1.0);
            let lang = tag.split('-').next().and_then(Lang::of);
            if let Some(lang) = lang
                && weight > 0.0
                && best.is_none_or(|(than, _)| weight > than)
            {
                best = Some((weight, lang));
            }
        }
        best.map(|(_, lang)| lang)
    }
}

macro_rules! texts {
    ($($name:ident,)+) => {
        /// The texts of all pages. `{}` is a placeholder.
        pub(super) struct Texts {
            $(pub $name: &'static str,)+
        }

        #[cfg(test)]
        impl Texts {
            /// All texts with their names.
            fn all(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

texts! {
    // The frame of every page.
    skip, articles, overview, other_language, theme, theme_auto, theme_light, theme_dark, sign_in, sign_out,
    signed_in, loading, footer, new_tab, keys, key_search, key_next, key_previous, key_help, close,
    // The choice of an index.
    home_title, home_lead, index, index_hint, open, documents_of, no_routes, all_of, sign_in_first,
    sign_in_first_text,
    // Signing in.
    basic, token, how, user, password, token_kind, token_text, memory_only, sign_in_wrong, cancel,
    // The list.
    search, search_label, search_hint, from, to, medium, any_medium, any_time, within_day, within_week,
    within_month, times, sort, automatic, relevance, newest, most, fewest, apply, clear, groups_one, groups_many,
    groups_at_least, groups_about, similar_one, similar_many, similar_hint, matching, media_one, media_many,
    previous, next, first_page, pages, page_number, nothing, nothing_text, nothing_stamped, nothing_stamped_text,
    dates_reversed, swap_dates, no_such_medium, medium_without_stamp, phrase_open, close_phrase, as_words,
    word_without_hits, word_without_stamp, without_word, not_together,
    without_time, without_medium, without_language, without_words, count_stories, stories_by_medium,
    stories_by_language, all_values, empty, empty_text, untitled, took, as_files, unstamped_one, unstamped_many,
    filters, results,
    // An article.
    back, original, first_of, only_one, only_one_text, no_stamp, no_stamp_text, changes, changes_lead, changes_none,
    added_word, added_words, added_character, added_characters, changes_marks, changes_cut, view_changes,
    view_plain, view_as, removed, added, end, no_text, text, spread, spread_lead, spread_lead_bare, spread_one,
    spread_point, spread_other, spread_others, spread_part, spread_desc, by_time, by_time_desc, by_time_list,
    by_medium, in_group, in_words, others, others_lead, members_part, members_filtered, members_none, first_members,
    order_time, order_medium, order_title, order_similarity, here, earliest, more_members, root, no_time,
    unknown_medium, refused, refused_lead, refused_none, refused_no_route, refused_article, why_proof, why_numbers,
    why_boilerplate, why_titles, why_page_chrome, why_full, why_radius, why_names, why_facts, why_part,
    reason_proof, reason_numbers, reason_radius, differs_least, differs_own_matter, differs_replaced,
    differs_numbers, differs_facts, differs_titles, differs_cost, only_here_sentences, only_here_numbers,
    only_here_words,
    // Texts of the override form.
    split, split_title, split_text, split_yes, merge, merge_title, merge_text, merge_yes, back_to_article,
    added_title, added_text, already_so, late_merges, late_merges_lead, take_back, taken_back_title, not_from_here,
    // The overview.
    overview_lead, documents_in, stamped, joined, joined_hint, roots, roots_hint, memory, memory_short, memory_hint,
    lag, lag_hint, seconds, largest_groups, largest_groups_lead, rate, forests, forest, nodes, largest,
    largest_text, page_chrome, page_chrome_lead, learned, refusals, refusals_lead, reason, count, attention,
    unstamped, failed, uncounted, none_yet, plot_desc,
    // Error pages.
    problem, status, cluster_says, not_found, not_found_text, forbidden, unauthorized, unauthorized_text,
    bad_request, unavailable, try_home, bad_date,
}

/// Replaces each `{}` of a text by the next value.
pub(super) fn fill(text: &str, values: &[&str]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut values = values.iter();
    let mut parts = text.split("{}");
    filled.push_str(parts.next().unwrap_or_default());
    for part in parts {
        filled.push_str(values.next().copied().unwrap_or_default());
        filled.push_str(part);
    }
    filled
}

/// Splits a text at its first `{}`, and fills in values for the others. The template puts text of a document between
/// the two parts, in an element with its own direction.
pub(super) fn split_at_placeholder(text: &str, values: &[&str]) -> (String, String) {
    let (before, after) = text.split_once("{}").unwrap_or((text, ""));
    (before.to_owned(), fill(after, values))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn every_text_is_in_both_languages() {
        let (english, chinese) = (english::TEXTS.all(), chinese::TEXTS.all());
        let is_chinese = |c: char| ('\u{4e00}'..='\u{9fff}').contains(&c);
        for ((name, english), (_, chinese)) in english.into_iter().zip(chinese) {
            assert!(!english.is_empty() && !chinese.is_empty(), "{name}");
            let places = |text: &str| text.matches("{}").count();
            assert_eq!(places(english), places(chinese), "{name}");
            if name == "other_language" {
                assert_eq!((english, chinese), ("中文", "English"));
                continue;
            }
            assert!(!english.contains(is_chinese), "{name}: {english}");
            let is_name = ["spread_point"].contains(&name);
            assert!(is_name || chinese.contains(is_chinese), "{name}: {chinese}");
        }
    }

    #[test]
    fn filled() {
        assert_eq!(fill("{} of {}", &["1", "{}"]), "1 of {}");
        assert_eq!(fill("{} x", &[]), " x");
        assert_eq!(split_at_placeholder("by {}, {}.", &["now"]), ("by ".into(), ", now.".into()));
    }

    #[test]
    fn what_browsers_ask_for() {
        let of = |value: &'static str| {
            let value = (ACCEPT_LANGUAGE, HeaderValue::from_static(value));
            Lang::accepted(&[value].into_iter().collect())
        };
        for (asked, lang) in [
            ("zh-CN,zh;q=0.9,en;q=0.8", Some(Lang::Chinese)),
            ("de,en;q=0.5,zh;q=0.4", Some(Lang::English)),
            ("en;q=0.1, zh", Some(Lang::Chinese)),
            ("zh;q=0, de", None),
            ("fr", None),
            ("", None),
        ] {
            assert_eq!(of(asked), lang, "{asked}");
        }
    }
}
