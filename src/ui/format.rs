//! Numbers and times for readers.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::lang::Lang;
use crate::time::Millis;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Language and time zone of a reader.
#[derive(Debug, Clone)]
pub(super) struct Locale {
    pub lang: Lang,
    pub zone: TimeZone,
}

impl Locale {
    /// The name of the zone, such as `Europe/Berlin`.
    pub(super) fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// A time on the reader's clock.
    fn civil(&self, at: Millis) -> Option<DateTime> {
        let timestamp = Timestamp::from_millisecond(at.0).ok()?;
        Some(self.zone.to_datetime(timestamp))
    }

    /// What the reader's clock is ahead of UTC at this time, in milliseconds.
    pub(super) fn offset(&self, at: Millis) -> i64 {
        let timestamp = Timestamp::from_millisecond(at.0);
        timestamp.map_or(0, |at| i64::from(self.zone.to_offset(at).seconds()) * 1_000)
    }

    /// When a date such as `2026-11-21` begins, and when it has ended; `None` if it is no date.
    pub(super) fn day_bounds(&self, date: &str) -> Option<(Millis, Millis)> {
        let date: Date = date.parse().ok()?;
        let start = |date: Date| {
            let begins = date.to_zoned(self.zone.clone()).ok()?;
            Some(Millis(begins.timestamp().as_millisecond()))
        };
        Some((start(date)?, start(date.tomorrow().ok()?)?))
    }
}

/// `1,234,567`, in both languages.
pub(super) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// The number of similar articles: those of a group without the displayed one.
pub(super) fn others(documents: u64) -> String {
    number(documents.saturating_sub(1))
}

/// `12.3 MB`.
pub(super) fn bytes(value: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut size = value as f64;
    let mut unit = 0;
    while size >= 999.5 && unit + 1 < units.len() {
        size /= 1000.0;
        unit += 1;
    }
    let unit = units.get(unit).copied().unwrap_or_default();
    if size < 9.95 && unit != "B" { format!("{size:.1} {unit}") } else { format!("{size:.0} {unit}") }
}

/// `43%`; one digit more below 1%.
pub(super) fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent > 0.0 && percent < 0.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// `21 Nov 2026, 08:50` or `2026年11月21日 08:50`.
pub(super) fn time(at: Millis, locale: &Locale) -> String {
    let Some(civil) = locale.civil(at) else {
        return at.0.to_string();
    };
    format!(
        "{}{}{:02}:{:02}",
        date(at, locale),
        if locale.lang == Lang::English { ", " } else { " " },
        civil.hour(),
        civil.minute()
    )
}

/// `21 Nov 2026` or `2026年11月21日`.
pub(super) fn date(at: Millis, locale: &Locale) -> String {
    let Some(civil) = locale.civil(at) else {
        return at.0.to_string();
    };
    let month = usize::from(civil.month().unsigned_abs()).wrapping_sub(1);
    let name = MONTHS.get(month).copied().unwrap_or_default();
    match locale.lang {
        Lang::English => format!("{} {name} {}", civil.day(), civil.year()),
        Lang::Chinese => format!("{}年{}月{}日", civil.year(), civil.month(), civil.day()),
    }
}

/// `21 Nov` or `11月21日`: a mark on an axis of days.
pub(super) fn day(at: Millis, locale: &Locale) -> String {
    let Some(civil) = locale.civil(at) else {
        return at.0.to_string();
    };
    let month = usize::from(civil.month().unsigned_abs()).wrapping_sub(1);
    match locale.lang {
        Lang::English => format!("{} {}", civil.day(), MONTHS.get(month).copied().unwrap_or_default()),
        Lang::Chinese => format!("{}月{}日", civil.month(), civil.day()),
    }
}

/// `08:50`: a mark on an axis of hours.
pub(super) fn clock(at: Millis, locale: &Locale) -> String {
    locale.civil(at).map_or_else(|| at.0.to_string(), |civil| format!("{:02}:{:02}", civil.hour(), civil.minute()))
}

/// `3 d 4 h`, `5 h 10 min`, `40 min` or `12 s`: how long something took.
pub(super) fn span(millis: i64, lang: Lang) -> String {
    let seconds = millis.max(0) / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let unit = |english: &'static str, chinese: &'static str| match lang {
        Lang::English => english,
        Lang::Chinese => chinese,
    };
    let (d, h) = (unit("d", "天"), unit("h", "小时"));
    let (min, s) = (unit("min", "分钟"), unit("s", "秒"));
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} {s}"),
        (0, 0, _) => format!("{minutes} {min}"),
        (0, _, 0) => format!("{hours} {h}"),
        (0, _, _) => format!("{hours} {h} {minutes} {min}"),
        (_, 0, _) => format!("{days} {d}"),
        _ => format!("{days} {d} {hours} {h}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_both_languages() {
        let at = Millis(1_795_251_000_000);
        let [english, chinese] = [Lang::English, Lang::Chinese].map(|lang| Locale { lang, zone: TimeZone::UTC });
        assert_eq!(time(at, &english), "21 Nov 2026, 08:50");
        assert_eq!(time(at, &chinese), "2026年11月21日 08:50");
        assert_eq!(day(at, &english), "21 Nov");
        assert_eq!(day(at, &chinese), "11月21日");
        assert_eq!(clock(at, &english), "08:50");
        assert_eq!(time(Millis(i64::MAX), &english), i64::MAX.to_string());
        assert_eq!(span(97 * 3_600_000, Lang::English), "4 d 1 h");
        assert_eq!(span(90 * 60_000, Lang::Chinese), "1 小时 30 分钟");
        assert_eq!(span(-5, Lang::English), "0 s");
    }

    #[test]
    fn times_and_days_are_those_of_the_readers_zone() {
        let berlin = Locale { lang: Lang::English, zone: TimeZone::get("Europe/Berlin").unwrap() };
        assert_eq!(time(Millis(1_795_251_000_000), &berlin), "21 Nov 2026, 09:50");
        assert_eq!(berlin.zone_name(), "Europe/Berlin");
        let hours = |date: &str| {
            let (begin, end) = berlin.day_bounds(date).unwrap();
            (end.0 - begin.0) / 3_600_000
        };
        assert_eq!([hours("2026-03-29"), hours("2026-11-21"), hours("2026-10-25")], [23, 24, 25]);
        let (begin, _) = berlin.day_bounds("2026-11-21").unwrap();
        assert_eq!(time(begin, &berlin), "21 Nov 2026, 00:00");
        assert_eq!(berlin.day_bounds("yesterday"), None);
    }

    #[test]
    fn numbers() {
        let shown = [0, 12, 999, 1_000, 65_536, 1_234_567].map(number);
        assert_eq!(shown, ["0", "12", "999", "1,000", "65,536", "1,234,567"]);
        let shown = [0, 999, 1_000, 12_345, 9_960_000, 1 << 30].map(bytes);
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "12 kB", "10 MB", "1.1 GB"]);
        let shown = [0.0, 0.004, 0.431, 1.0].map(percent);
        assert_eq!(shown, ["0%", "0.4%", "43%", "100%"]);
    }
}
