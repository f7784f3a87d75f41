//! Page layout: header, navigation, language, theme, sign-in state.

use hyper::header::{COOKIE, HeaderName, HeaderValue, SET_COOKIE};
use hyper::http::request;
use hyper::{HeaderMap, Response};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::assets::ASSETS;
use super::fields;
use super::format::{self, Locale};
use super::lang::{Lang, Texts, fill};
use super::script;
use super::url::{self, QueryString};
use crate::engine::ReaderFields;
use crate::http::Body;
use crate::time::{Millis, format_date};

/// Characters of a title.
const TITLE: usize = 300;

/// Names of the page's cookies.
const LANG_COOKIE: &str = "spinney_lang";
const THEME_COOKIE: &str = "spinney_theme";
const ZONE_COOKIE: &str = "spinney_zone";

/// Marks requests of the script. They get no authentication challenge, for which the browser would prompt a second
/// time.
const BY_SCRIPT: &str = "x-spinney-page";

/// A year, in seconds.
const REMEMBERED: u32 = 31_536_000;

/// Headers of browsers without a meaning for the cluster that differ between two requests of one reader.
const OF_BROWSERS: [&str; 5] = ["upgrade-insecure-requests", "dnt", "sec-gpc", "x-requested-with", BY_SCRIPT];

/// The theme: light, dark, or that of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    /// As the system has it.
    Auto,
    Light,
    Dark,
}

impl Theme {
    fn of(name: &str) -> Option<Theme> {
        match name {
            "auto" => Some(Theme::Auto),
            "light" => Some(Theme::Light),
            "dark" => Some(Theme::Dark),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Theme::Auto => "auto",
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }
}

/// The layout of one page.
#[derive(Debug)]
pub(super) struct Layout {
    pub locale: Locale,
    pub theme: Theme,
    /// Whether the page's script sends the request.
    pub by_script: bool,
    /// Parameters, but for language, appearance and time zone.
    pub parameters: QueryString,
    path: String,
    /// Preferences in the URL that are stored as cookies.
    asked: [Option<(&'static str, String)>; 3],
}

impl Layout {
    pub(super) fn new(request: &request::Parts, path: &str) -> Layout {
        let headers = &request.headers;
        let query = QueryString::parse(request.uri.query());
        let asked_lang = query.get("lang").and_then(Lang::of);
        let asked_theme = query.get("theme").and_then(Theme::of);
        let asked_zone = query.get("zone").and_then(zone);
        let lang = asked_lang.or_else(|| cookie(headers, LANG_COOKIE).and_then(Lang::of));
        let theme = asked_theme.or_else(|| cookie(headers, THEME_COOKIE).and_then(Theme::of));
        let zone = asked_zone.clone().or_else(|| cookie(headers, ZONE_COOKIE).and_then(zone));
        Layout {
            locale: Locale {
                lang: lang.or_else(|| Lang::accepted(headers)).unwrap_or(Lang::English),
                zone: zone.unwrap_or(TimeZone::UTC),
            },
            theme: theme.unwrap_or(Theme::Auto),
            by_script: headers.contains_key(BY_SCRIPT),
            parameters: query.without(&["lang", "theme", "zone"]),
            path: path.to_owned(),
            asked: [
                asked_lang.map(|lang| (LANG_COOKIE, lang.code().to_owned())),
                asked_theme.map(|theme| (THEME_COOKIE, theme.name().to_owned())),
                asked_zone.and_then(|zone| Some((ZONE_COOKIE, zone.iana_name()?.to_owned()))),
            ],
        }
    }

    /// The texts.
    pub(super) fn t(&self) -> &'static Texts {
        self.locale.lang.texts()
    }

    /// A text with its places filled in.
    pub(super) fn text(&self, text: &str, values: &[&str]) -> String {
        fill(text, values)
    }

    /// The query string of the request with its `?`, or empty.
    pub(super) fn query(&self) -> String {
        self.parameters.suffix()
    }

    /// Parameters of an address for programs, which keep no cookie: with the time zone, and the language of the URL.
    pub(super) fn for_programs(&self, query: &QueryString) -> QueryString {
        let [lang, _, zone] = &self.asked;
        let zone_name = Some(self.locale.zone_name()).filter(|name| zone.is_some() || *name != "UTC");
        query.with("lang", lang.as_ref().map(|(_, code)| code.as_str())).with("zone", zone_name)
    }

    /// This page in the other language.
    pub(super) fn in_other_language(&self) -> String {
        let lang = self.locale.lang.other().code();
        self.here() + &self.parameters.with("lang", Some(lang)).suffix()
    }

    /// The address of this page in each theme, and whether it is the current one.
    pub(super) fn themes(&self) -> [(&'static str, &'static str, String, bool); 3] {
        let t = self.t();
        [(Theme::Auto, t.theme_auto), (Theme::Light, t.theme_light), (Theme::Dark, t.theme_dark)].map(
            |(theme, label)| {
                let query = self.parameters.with("theme", Some(theme.name()));
                let address = self.here() + &query.suffix();
                (theme.name(), label, address, theme == self.theme)
            },
        )
    }

    /// The text at the bottom.
    pub(super) fn footer(&self) -> String {
        self.text(self.t().footer, &[self.locale.zone_name()])
    }

    /// The title of a document.
    pub(super) fn title(&self, source: &Value, names: &ReaderFields) -> String {
        fields::title(source, names, TITLE).unwrap_or_else(|| self.t().untitled.to_owned())
    }

    /// How many articles are similar to that of a group of so many.
    pub(super) fn similar(&self, articles: u64) -> String {
        match articles {
            1 => self.t().similar_one.to_owned(),
            _ => self.text(self.t().similar_many, &[&format::others(articles)]),
        }
    }

    /// A time for people and for machines.
    pub(super) fn time(&self, time: Millis) -> (String, String) {
        (format::time(time, &self.locale), format_date(time))
    }

    /// The `lang` attribute of text of a document.
    pub(super) fn lang_of(&self, text: &str) -> &'static str {
        script::lang_of(text)
    }

    fn here(&self) -> String {
        url::of_path(&self.path)
    }

    pub(super) fn home(&self) -> String {
        url::home()
    }

    pub(super) fn overview(&self) -> String {
        url::overview()
    }

    pub(super) fn style(&self) -> String {
        url::asset(&ASSETS.style.name)
    }

    pub(super) fn script(&self) -> String {
        url::asset(&ASSETS.script.name)
    }

    pub(super) fn icon(&self) -> String {
        url::asset(&ASSETS.icon.name)
    }

    /// A response that stores the preferences of the URL as cookies.
    pub(super) fn remembered(&self, mut answer: Response<Body>) -> Response<Body> {
        for (name, value) in self.asked.iter().flatten() {
            let cookie = format!("{name}={value}; Path=/_spinney/ui; Max-Age={REMEMBERED}; SameSite=Strict; HttpOnly");
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                answer.headers_mut().append(SET_COOKIE, cookie);
            }
        }
        answer
    }
}

/// A time zone by its name in the IANA database.
fn zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}

/// The value of a cookie.
fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let pairs =
        headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
    let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value.trim())
}

/// The headers for the cluster, without the page's cookies.
pub(super) fn for_cluster(headers: &HeaderMap) -> HeaderMap {
    let is_of_browser = |name: &HeaderName| OF_BROWSERS.contains(&name.as_str()) || name.as_str().starts_with("sec-");
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        if is_of_browser(name) {
            continue;
        }
        if name != COOKIE {
            kept.append(name, value.clone());
            continue;
        }
        match value.to_str() {
            Err(_) => {
                kept.append(name, value.clone());
            }
            Ok(text) => {
                if let Some(others) = other_cookies(text) {
                    kept.append(name, others);
                }
            }
        }
    }
    kept
}

fn other_cookies(text: &str) -> Option<HeaderValue> {
    let is_ours = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default().trim();
        [LANG_COOKIE, THEME_COOKIE, ZONE_COOKIE].contains(&name)
    };
    let others: Vec<&str> = text.split(';').filter(|pair| !is_ours(pair)).collect();
    let others = others.join(";");
    let others = others.trim();
    if others.is_empty() {
        return None;
    }
    HeaderValue::from_str(others).ok()
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn shell(uri: &str, headers: &[(&str, &str)]) -> Layout {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        Layout::new(&parts, "/news-1")
    }

    #[test]
    fn the_url_then_the_cookie_then_the_browser() {
        let all = [("cookie", "a=b; spinney_lang=zh; spinney_theme=dark"), ("accept-language", "en")];
        let of = |uri: &str, headers: &[(&str, &str)]| {
            let shell = shell(uri, headers);
            (shell.locale.lang, shell.theme)
        };
        assert_eq!(of("/?lang=en", &all), (Lang::English, Theme::Dark));
        assert_eq!(of("/?theme=light", &all), (Lang::Chinese, Theme::Light));
        assert_eq!(of("/", &all), (Lang::Chinese, Theme::Dark));
        assert_eq!(of("/", &all[1..]), (Lang::English, Theme::Auto));
        assert_eq!(of("/?lang=fr&theme=x", &[]), (Lang::English, Theme::Auto));
    }

    #[test]
    fn links_keep_the_state() {
        let shell = shell("/x?q=a%26b&lang=en&cursor=c", &[]);
        assert_eq!(shell.in_other_language(), "/_spinney/ui/news-1?q=a%26b&cursor=c&lang=zh");
        assert_eq!(shell.query(), "?q=a%26b&cursor=c");
    }

    /// A feed reader that follows an address has to find the same days.
    #[test]
    fn addresses_for_programs_have_what_cookies_have() {
        let of = |uri: &str, headers: &[(&str, &str)]| {
            let shell = shell(uri, headers);
            shell.for_programs(&shell.parameters).suffix()
        };
        let cookie = [("cookie", "spinney_zone=Asia/Tokyo; spinney_lang=zh; spinney_theme=dark")];
        assert_eq!(of("/?zone=asia/tokyo&q=a&lang=zh&theme=dark", &[]), "?q=a&lang=zh&zone=Asia%2FTokyo");
        assert_eq!(of("/?q=a", &cookie), "?q=a&zone=Asia%2FTokyo");
        assert_eq!(of("/?q=a&zone=UTC", &cookie), "?q=a&zone=UTC");
        assert_eq!(of("/?q=a", &[]), "?q=a");
    }

    #[test]
    fn what_the_url_asks_for_is_remembered() {
        let answer = |uri: &str| {
            let answer = shell(uri, &[]).remembered(Response::new(crate::http::full("")));
            let cookies = answer.headers().get_all(SET_COOKIE).iter();
            cookies.map(|value| value.to_str().unwrap().split(';').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(answer("/?lang=zh&theme=dark"), ["spinney_lang=zh", "spinney_theme=dark"]);
        assert_eq!(answer("/?zone=asia/tokyo"), ["spinney_zone=Asia/Tokyo"]);
        for evil in ["/?lang=evil%0d%0a", "/?zone=evil%0d%0a", "/?zone=../etc/passwd", "/?zone=+01"] {
            assert!(answer(evil).is_empty(), "{evil}");
        }
    }

    #[test]
    fn the_time_zone_is_the_readers() {
        let of = |uri: &str, headers: &[(&str, &str)]| shell(uri, headers).locale.zone_name().to_owned();
        let cookie = [("cookie", "spinney_zone=Asia/Tokyo")];
        assert_eq!(of("/", &[]), "UTC");
        assert_eq!(of("/", &cookie), "Asia/Tokyo");
        assert_eq!(of("/?zone=Europe/Berlin", &cookie), "Europe/Berlin");
        assert_eq!(of("/?zone=Moon/Sea", &cookie), "Asia/Tokyo");
    }

    #[test]
    fn the_cluster_gets_what_it_could_know_a_reader_by() {
        let headers: HeaderMap = [
            ("cookie", "session=1; spinney_lang=zh;x=y"),
            ("cookie", "spinney_theme=dark"),
            ("authorization", "Basic eA=="),
            ("sec-ch-ua", "x"),
            ("upgrade-insecure-requests", "1"),
            ("x-spinney-page", "1"),
        ]
        .into_iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
        let kept = for_cluster(&headers);
        let mut names: Vec<&str> = kept.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "cookie"]);
        let cookies: Vec<_> = kept.get_all(COOKIE).iter().collect();
        assert_eq!(cookies, ["session=1;x=y"]);
    }
}
