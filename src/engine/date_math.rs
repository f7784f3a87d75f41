//! Resolves date math in index names, as both servers read it in paths and action lines:
//! `<news-{now/d{yyyy.MM.dd|+08:00}-1d}>`.
//!
//! Supports the units and format letters that are used in index names. Others that the servers may support (weeks of
//! the year, month names, named time zones) stay unresolved, with a line in the log.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Timestamp};

use crate::time::Millis;

/// The default date format.
const DEFAULT_FORMAT: &str = "uuuu.MM.dd";

/// The longest name that is read, in bytes.
const LONGEST: usize = 1024;

/// Whether a name is to be resolved.
pub(super) fn is_date_math(name: &str) -> bool {
    name.len() <= LONGEST && name.starts_with('<') && name.ends_with('>')
}

/// Resolves a date-math name at this time. `None` if it is not understood.
pub fn resolve(name: &str, now: Millis) -> Option<String> {
    let mut rest = name.strip_prefix('<')?.strip_suffix('>')?;
    if !is_date_math(name) || rest.contains('\\') {
        return None;
    }
    let mut resolved = String::new();
    while let Some((before, behind)) = rest.split_once('{') {
        resolved.push_str(before);
        let (expression, after) = expression(behind)?;
        resolved.push_str(&date(expression, now)?);
        rest = after;
    }
    if rest.contains('}') {
        return None;
    }
    resolved.push_str(rest);
    Some(resolved)
}

/// Splits an expression at its closing brace into content and rest.
fn expression(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((text.get(..at)?, text.get(at + 1..)?));
        }
    }
    None
}

/// `now-1d/d{yyyy.MM|+01:00}`, as text.
fn date(expression: &str, now: Millis) -> Option<String> {
    let (math, format) = match expression.split_once('{') {
        Some((math, format)) => (math, format.strip_suffix('}')?),
        None => (expression, DEFAULT_FORMAT),
    };
    let (format, zone) = match format.split_once('|') {
        Some((format, zone)) => (format, offset(zone)?),
        None => (format, Offset::UTC),
    };
    let zone = TimeZone::fixed(zone);
    let at = Timestamp::from_millisecond(now.0).ok()?;
    let at = calculate(at.to_zoned(zone).datetime(), math.strip_prefix("now")?)?;
    write(at, format)
}

/// `+08:00`, `-0330`, `Z` or `UTC`.
fn offset(zone: &str) -> Option<Offset> {
    if matches!(zone, "Z" | "UTC" | "GMT") {
        return Some(Offset::UTC);
    }
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let digits = digits.replace(':', "");
    let (hours, minutes) = match digits.len() {
        2 => (digits.as_str(), "0"),
        4 => digits.split_at_checked(2)?,
        _ => return None,
    };
    let seconds = hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60;
    Offset::from_seconds(sign * seconds).ok()
}

/// `/d-1M+2h`: rounds down to a unit, adds and takes away.
fn calculate(at: DateTime, mut math: &str) -> Option<DateTime> {
    let mut at = at;
    while let Some(operator) = math.chars().next() {
        math = math.get(1..)?;
        let digits = math.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = math.split_at_checked(digits)?;
        let unit = rest.chars().next()?;
        math = rest.get(1..)?;
        let number: i64 = match (operator, number) {
            ('/', "") => 0,
            ('/', _) => return None,
            (_, "") => 1,
            (_, number) => number.parse().ok()?,
        };
        at = match operator {
            '/' => round(at, unit)?,
            '+' => at.checked_add(span(number, unit)?).ok()?,
            '-' => at.checked_sub(span(number, unit)?).ok()?,
            _ => return None,
        };
    }
    Some(at)
}

fn span(number: i64, unit: char) -> Option<Span> {
    let span = Span::new();
    match unit {
        'y' => span.try_years(number),
        'M' => span.try_months(number),
        'w' => span.try_weeks(number),
        'd' => span.try_days(number),
        'h' | 'H' => span.try_hours(number),
        'm' => span.try_minutes(number),
        's' => span.try_seconds(number),
        _ => return None,
    }
    .ok()
}

fn round(at: DateTime, unit: char) -> Option<DateTime> {
    let second = at.with().subsec_nanosecond(0);
    let minute = || second.second(0);
    let day = || minute().minute(0).hour(0);
    match unit {
        's' => second.build().ok(),
        'm' => minute().build().ok(),
        'h' | 'H' => minute().minute(0).build().ok(),
        'd' => day().build().ok(),
        'w' => {
            let monday = i64::from(at.weekday().to_monday_zero_offset());
            let day = day().build().ok()?;
            day.checked_sub(Span::new().try_days(monday).ok()?).ok()
        }
        'M' => day().day(1).build().ok(),
        'y' => day().day(1).month(1).build().ok(),
        _ => None,
    }
}

/// Formats a date by a Java date pattern.
fn write(at: DateTime, format: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = format;
    while let Some(letter) = rest.chars().next() {
        let len = rest.chars().take_while(|&c| c == letter).count();
        if len > 9 {
            return None;
        }
        let value = match letter {
            'y' | 'u' if len == 2 => at.year().rem_euclid(100),
            'y' | 'u' => at.year(),
            'M' if len <= 2 => at.month().into(),
            'd' if len <= 2 => at.day().into(),
            'H' if len <= 2 => at.hour().into(),
            'm' if len <= 2 => at.minute().into(),
            's' if len <= 2 => at.second().into(),
            // Others mean something that is not read here, and quotes too.
            letter if letter.is_ascii_alphabetic() || letter == '\'' => return None,
            letter => {
                out.push(letter);
                rest = rest.get(letter.len_utf8()..)?;
                continue;
            }
        };
        out.push_str(&format!("{value:0len$}"));
        rest = rest.get(len..)?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_the_servers_resolve_them() {
        // 2026-11-21T18:50:07Z, a Saturday.
        let now = Millis(1_795_287_007_000);
        for (name, resolved) in [
            ("<news-{now/d}>", "news-2026.11.21"),
            ("<news-{now/M}>", "news-2026.11.01"),
            ("<news-{now/M{yyyy.MM}}>", "news-2026.11"),
            ("<news-{now/M-1M{yyyy.MM}}-x>", "news-2026.10-x"),
            ("<news-{now/d{yyyy.MM.dd|+08:00}}>", "news-2026.11.22"),
            ("<news-{now/d{yy-M-d|-0330}}>", "news-26-11-21"),
            ("<{now/y{uuuu}}-{now/h{HH}}>", "2026-18"),
            ("<news-{now+1d/w{yyyyMMdd}}>", "news-20261116"),
            ("<news-{now-2y+3h{yyyy.MM.dd.HH.mm.ss}}>", "news-2024.11.21.21.50.07"),
            ("<news>", "news"),
        ] {
            assert_eq!(resolve(name, now).as_deref(), Some(resolved), "{name}");
            assert!(is_date_math(name));
        }
        for unknown in [
            "news",
            "<news-{then/d}>",
            "<news-{now/d>",
            "<news-now/d}>",
            "<news-{now/q}>",
            "<news-{now*2d}>",
            "<news-{now/2d}>",
            "<news-{now/w{xxxx.ww}}>",
            "<news-{now/d{yyyy.MM.dd|Asia/Tokyo}}>",
            "<news-{now+999999999999999999d}>",
            "<news-{now+}>",
            "<ne\\{ws>",
            "<news-{now/d{yyyyyyyyyyyy}}>",
        ] {
            assert_eq!(resolve(unknown, now), None, "{unknown}");
        }
        let long = format!("<{}>", "{now/d}".repeat(200));
        assert_eq!(resolve(&long, now), None);
    }
}
