//! How a story spread, laid out for a picture: time from left to right, one row for each medium.

use super::format::{self, Locale};
use super::lang::fill;
use crate::text::isolate;
use crate::time::Millis;

/// Rows that are drawn; media beyond them share one more.
const MOST_ROWS: usize = 12;

/// Sizes of the picture, in its own units.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 12.0;
const ROW: f64 = 28.0;
const BOTTOM: f64 = 34.0;

/// Least width of a name, and the gap between name and row.
const LEAST_LEFT: f64 = 64.0;
const GAP: f64 = 22.0;

/// Characters of a medium's name that fit.
const NAME_CHARS: usize = 22;

/// An article to be drawn.
#[derive(Debug, Clone)]
pub(super) struct TimelineEvent {
    pub time: Millis,
    pub medium: String,
    pub title: String,
    /// It is the one that the page shows.
    pub is_here: bool,
    /// It is the first of the group.
    pub is_first: bool,
}

/// The picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Timeline {
    pub width: f64,
    pub height: f64,
    /// Where the rows begin and end.
    pub left: f64,
    pub right: f64,
    /// Where the axis is.
    pub axis: f64,
    pub rows: Vec<TimelineRow>,
    pub ticks: Vec<AxisTick>,
}

/// A medium.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TimelineRow {
    pub name: String,
    pub y: f64,
    /// From its first to its last article.
    pub from: f64,
    pub to: f64,
    pub dots: Vec<TimelineDot>,
}

/// An article.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TimelineDot {
    pub x: f64,
    pub label: String,
    pub is_here: bool,
    pub is_first: bool,
}

/// A mark on the axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AxisTick {
    pub x: f64,
    pub label: String,
}

/// Lays out articles, which come earliest first. `None` for fewer than two: there is nothing to see.
pub(super) fn timeline(events: &[TimelineEvent], locale: &Locale) -> Option<Timeline> {
    let (first, last) = (events.first()?.time.0, events.last()?.time.0);
    if events.len() < 2 {
        return None;
    }
    // Padding on both sides; an hour for a story of one moment.
    let span = last.saturating_sub(first).max(0) as f64;
    let room = if span == 0.0 { 1_800_000.0 } else { span * 0.03 };
    let (from, to) = (first as f64 - room, last as f64 + room);

    let mut media: Vec<&str> = Vec::new();
    for event in events {
        if !media.contains(&event.medium.as_str()) {
            media.push(&event.medium);
        }
    }
    let named = if media.len() > MOST_ROWS { MOST_ROWS - 1 } else { media.len() };
    let drawn = media.len().min(MOST_ROWS);
    let names: Vec<String> = (0..drawn)
        .map(|at| match media.get(at).filter(|_| at < named) {
            Some(name) => super::fields::beginning(name, NAME_CHARS),
            None => {
                let others = (media.len() - named) as u64;
                fill(locale.lang.texts().spread_others, &[&format::number(others)])
            }
        })
        .collect();
    let longest = names.iter().map(|name| width(name)).fold(0.0, f64::max);
    let (left, right) = ((longest + GAP).clamp(LEAST_LEFT, LEFT), WIDTH - RIGHT);
    let x = |at: f64| tenth(left + (at - from) / (to - from) * (right - left));
    let mut rows: Vec<TimelineRow> = names
        .into_iter()
        .enumerate()
        .map(|(at, name)| TimelineRow {
            // Neither an SVG text nor a tooltip has a direction of its own: characters isolate them.
            name: isolate(&name).into_owned(),
            y: TOP + ROW * (at as f64 + 0.5),
            from: right,
            to: left,
            dots: Vec::new(),
        })
        .collect();
    for event in events {
        let row = media.iter().position(|medium| *medium == event.medium);
        let Some(row) = rows.get_mut(row.unwrap_or_default().min(drawn - 1)) else {
            continue;
        };
        let x = x(event.time.0 as f64);
        row.from = row.from.min(x);
        row.to = row.to.max(x);
        let when = format::time(event.time, locale);
        row.dots.push(TimelineDot {
            x,
            label: fill(locale.lang.texts().spread_point, &[&isolate(&event.medium), &when])
                + " — "
                + &isolate(&event.title),
            is_here: event.is_here,
            is_first: event.is_first,
        });
    }
    let axis = TOP + ROW * drawn as f64;
    Some(Timeline {
        width: WIDTH,
        height: axis + BOTTOM,
        left,
        right,
        axis,
        rows,
        ticks: ticks(from, to, locale).into_iter().map(|(at, label)| AxisTick { x: x(at), label }).collect(),
    })
}

/// Approximate width of a name.
fn width(name: &str) -> f64 {
    let of = |c: char| if c >= '\u{2e80}' { 13.0 } else { 7.2 };
    name.chars().map(of).sum()
}

/// Marks at round times of the reader's clock, three to eight of them where that can be.
pub(super) fn ticks(from: f64, to: f64, locale: &Locale) -> Vec<(f64, String)> {
    const MINUTE: f64 = 60_000.0;
    const HOUR: f64 = 60.0 * MINUTE;
    const DAY: f64 = 24.0 * HOUR;
    let steps = [
        MINUTE,
        5.0 * MINUTE,
        15.0 * MINUTE,
        30.0 * MINUTE,
        HOUR,
        2.0 * HOUR,
        4.0 * HOUR,
        8.0 * HOUR,
        DAY,
        2.0 * DAY,
        4.0 * DAY,
        7.0 * DAY,
        14.0 * DAY,
        30.0 * DAY,
        91.0 * DAY,
        182.0 * DAY,
        365.0 * DAY,
    ];
    let fits = |step: &&f64| (to - from) / **step <= 7.0;
    let largest = 365.0 * DAY * ((to - from) / (365.0 * DAY) / 7.0).ceil().max(1.0);
    let step = steps.iter().find(fits).copied().unwrap_or(largest);
    let mut marks = Vec::new();
    let offset = locale.offset(Millis(from as i64)) as f64;
    let mut at = ((from + offset) / step).ceil() * step - offset;
    let mut last_day = String::new();
    while at <= to && marks.len() < 10 {
        let time = Millis(at as i64);
        let day = format::day(time, locale);
        let label = if step >= 365.0 * DAY {
            format::date(time, locale)
        } else if step >= DAY {
            day
        } else if day == last_day {
            format::clock(time, locale)
        } else {
            last_day.clone_from(&day);
            format!("{day} {}", format::clock(time, locale))
        };
        marks.push((at, label));
        at += step;
    }
    marks
}

/// Rounds to tenths, which is finer than visible.
pub(super) fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::lang::Lang;
    use super::*;

    fn event(time: i64, medium: &str) -> TimelineEvent {
        let is_here = time == 0;
        TimelineEvent { time: Millis(time), medium: medium.into(), title: "T".into(), is_here, is_first: is_here }
    }

    fn locale(lang: Lang) -> Locale {
        Locale { lang, zone: jiff::tz::TimeZone::UTC }
    }

    #[test]
    fn one_row_for_each_medium() {
        let events = [event(0, "a"), event(3_600_000, "b"), event(7_200_000, "a")];
        let timeline = timeline(&events, &locale(Lang::English)).unwrap();
        let names: Vec<&str> = timeline.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(timeline.rows[0].dots.len(), 2);
        assert!(timeline.rows[0].dots[0].is_first && timeline.rows[0].dots[0].is_here);
        assert!(!timeline.rows[0].dots[1].is_first);
        let labels: Vec<&str> = timeline.ticks.iter().map(|t| t.label.as_str()).collect();
        assert_eq!(labels[..2], ["1 Jan 00:00", "00:30"]);
        assert!(super::timeline(&events[..1], &locale(Lang::English)).is_none());
        assert!(super::timeline(&[], &locale(Lang::English)).is_none());
    }

    #[test]
    fn names_and_titles_keep_their_direction() {
        let event = |medium: &str, title: &str| TimelineEvent {
            time: Millis(0),
            medium: medium.into(),
            title: title.into(),
            is_here: false,
            is_first: false,
        };
        let events = [event("النهار", "إغلاق الميناء (1)"), event("הארץ", "הנמל נסגר"), event("Wire", "Harbour")];
        let timeline = timeline(&events, &locale(Lang::English)).unwrap();
        let rows = timeline.rows.iter().map(|row| (row.name.as_str(), row.dots[0].label.as_str()));
        let expected = [
            ("\u{2068}النهار\u{2069}", "\u{2068}النهار\u{2069}, 1 Jan 1970, 00:00 — \u{2068}إغلاق الميناء (1)\u{2069}"),
            ("\u{2068}הארץ\u{2069}", "\u{2068}הארץ\u{2069}, 1 Jan 1970, 00:00 — \u{2068}הנמל נסגר\u{2069}"),
            ("Wire", "Wire, 1 Jan 1970, 00:00 — Harbour"),
        ];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn many_media_share_the_last_row() {
        let events: Vec<TimelineEvent> = (0..40).map(|at| event(at, &format!("m{at}"))).collect();
        let timeline = timeline(&events, &locale(Lang::English)).unwrap();
        assert_eq!(timeline.rows.len(), MOST_ROWS);
        let last = timeline.rows.last().unwrap();
        assert_eq!(last.name, "29 more media");
        assert_eq!(last.dots.len(), 29);
    }

    proptest! {
        #[test]
        fn everything_is_inside(times in prop::collection::vec(-1_i64 << 40..1 << 45, 2..60)) {
            let mut times = times;
            times.sort_unstable();
            let events: Vec<TimelineEvent> = times.iter().map(|&t| event(t, &format!("m{}", t % 5))).collect();
            let timeline = timeline(&events, &locale(Lang::Chinese)).unwrap();
            let xs = timeline.rows.iter().flat_map(|row| &row.dots).map(|dot| dot.x);
            let ticks = timeline.ticks.iter().map(|tick| tick.x);
            for x in xs.chain(ticks) {
                prop_assert!((timeline.left..=timeline.right).contains(&x), "{}", x);
            }
            let dots: usize = timeline.rows.iter().map(|row| row.dots.len()).sum();
            prop_assert_eq!(dots, times.len());
            prop_assert!(timeline.ticks.len() <= 10);
        }
    }
}
