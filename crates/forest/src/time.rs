//! Time as a value, and dates as documents and stamps write them. Nothing here reads a clock.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

/// Milliseconds since 1970-01-01T00:00:00Z, or a span of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

/// Reads a date as the servers' default mapping does (`strict_date_optional_time||epoch_millis`), and a blank in place
/// of the `T` besides: `2026-11-21T08:50:00+08:00`, `2026-11-21T08:50:00`, `2026-11-21`, `1795252200000`. Without a
/// zone it is UTC. `None` for anything else.
pub fn parse_date(text: &str) -> Option<Millis> {
    let text = text.trim();
    if let Ok(millis) = text.parse::<i64>() {
        // Four digits are a year to the servers.
        if text.len() == 4 {
            return parse_date(&format!("{text}-01-01"));
        }
        // Beyond the years that can be written as a date it is a mistake.
        let at = Timestamp::from_millisecond(millis).ok();
        return at.map(|at| Millis(at.as_millisecond()));
    }
    let in_utc = |civil: DateTime| civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    let timestamp =
        text.parse::<Timestamp>().ok().or_else(|| text.parse::<DateTime>().ok().and_then(in_utc)).or_else(|| {
            text.parse::<Date>().ok().and_then(|date| in_utc(date.to_datetime(jiff::civil::Time::midnight())))
        })?;
    Some(Millis(timestamp.as_millisecond()))
}

/// `2026-11-21T08:50:00.123Z`; a number of milliseconds beyond the years that have such a form.
pub fn format_date(at: Millis) -> String {
    match Timestamp::from_millisecond(at.0) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        Err(_) => at.0.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_documents() {
        let at = Some(Millis(1_795_251_000_000));
        assert_eq!(parse_date("2026-11-21T08:50:00Z"), at);
        assert_eq!(parse_date("2026-11-21T16:50:00+08:00"), at);
        assert_eq!(parse_date("2026-11-21T08:50:00"), at);
        assert_eq!(parse_date("2026-11-21 08:50:00"), at);
        assert_eq!(parse_date("2026-11-21T08:50:00.000+00:00"), at);
        assert_eq!(parse_date("1795251000000"), at);
        assert_eq!(parse_date("2026-11-21"), Some(Millis(1_795_219_200_000)));
        assert_eq!(parse_date("1970"), Some(Millis(0)));
        for wrong in
            ["", "yesterday", "2026-13-01", "99999999999999999999", "-9223372036854775808", "9223372036854775807"]
        {
            assert_eq!(parse_date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn stamps_have_milliseconds_and_a_zone() {
        assert_eq!(format_date(Millis(1_795_251_000_123)), "2026-11-21T08:50:00.123Z");
        assert_eq!(format_date(Millis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(format_date(Millis(-1)), "1969-12-31T23:59:59.999Z");
        assert_eq!(format_date(Millis(i64::MAX)), i64::MAX.to_string());
    }
}
