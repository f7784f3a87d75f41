//! Articles of a group over time, laid out for a picture: one bar for each interval.

use super::format::{self, Locale};
use super::lang::fill;
use super::timeline::{AxisTick, tenth, ticks};
use crate::time::Millis;

/// Sizes of the picture, in its own units.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 150.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 34.0;
const SIDE: f64 = 24.0;

/// The gap between two bars.
const GAP: f64 = 1.0;

/// The lowest bar of an interval that has an article.
const LOWEST: f64 = 2.0;

/// The picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bars {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub right: f64,
    /// Where the axis is.
    pub axis: f64,
    pub bars: Vec<Bar>,
    pub ticks: Vec<AxisTick>,
}

/// An interval with articles.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bar {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
    pub label: String,
    /// The interval, with its end.
    pub from: Millis,
    pub to: Millis,
    pub count: String,
    /// When it begins.
    pub begins: String,
}

/// Lays out intervals, the earliest first. `None` for fewer than two: there is nothing to see.
pub(super) fn bars(intervals: &[(Millis, u64)], locale: &Locale) -> Option<Bars> {
    let (first, before, last) = match intervals {
        [(first, _), (last, _)] => (*first, *first, *last),
        [(first, _), .., (before, _), (last, _)] => (*first, *before, *last),
        _ => return None,
    };
    let end = Millis(last.0.saturating_add(last.0.saturating_sub(before.0)));
    let (from, to) = (first.0 as f64, end.0 as f64);
    let most = intervals.iter().map(|(_, count)| *count).max().unwrap_or_default().max(1) as f64;
    let (left, right, axis) = (SIDE, WIDTH - SIDE, HEIGHT - BOTTOM);
    let x = |at: f64| left + (at - from) / (to - from).max(1.0) * (right - left);
    let ends = intervals.iter().skip(1).map(|(begin, _)| *begin).chain([end]);
    let shown = intervals.iter().zip(ends).filter(|((_, count), _)| *count > 0);
    let bars = shown.map(|(&(begin, count), end)| {
        let (x, next) = (x(begin.0 as f64), x(end.0 as f64));
        let height = ((axis - TOP) * count as f64 / most).max(LOWEST);
        let (begins, number) = (format::time(begin, locale), format::number(count));
        Bar {
            x: tenth(x),
            y: tenth(axis - height),
            width: tenth((next - x - GAP).max(GAP)),
            height: tenth(height),
            label: fill(locale.lang.texts().spread_point, &[&begins, &number]),
            from: begin,
            to: end,
            count: number,
            begins,
        }
    });
    Some(Bars {
        width: WIDTH,
        height: HEIGHT,
        left,
        right,
        axis,
        bars: bars.collect(),
        ticks: ticks(from, to, locale).into_iter().map(|(at, label)| AxisTick { x: tenth(x(at)), label }).collect(),
    })
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::super::lang::Lang;
    use super::*;

    fn english() -> Locale {
        Locale { lang: Lang::English, zone: TimeZone::UTC }
    }

    #[test]
    fn one_bar_for_each_interval_with_articles() {
        let hour = |at: i64, count: u64| (Millis(at * 3_600_000), count);
        let bars = bars(&[hour(0, 10), hour(1, 0), hour(2, 5)], &english()).unwrap();
        let shown = bars.bars.iter().map(|bar| (bar.label.as_str(), bar.height));
        assert_eq!(shown.collect::<Vec<_>>(), [("1 Jan 1970, 00:00, 10", 104.0), ("1 Jan 1970, 02:00, 5", 52.0)]);
        assert_eq!(bars.bars[1].to, Millis(3 * 3_600_000));
        assert_eq!(bars.ticks[0].label, "1 Jan 00:00");
        assert!(super::bars(&[hour(0, 10)], &english()).is_none());
        assert!(super::bars(&[], &english()).is_none());
    }

    proptest! {
        #[test]
        fn everything_is_inside(
            start in -1_i64 << 40..1 << 41, step in 60_000_i64..1 << 36,
            counts in prop::collection::vec(0_u64..1 << 40, 2..60),
        ) {
            let intervals: Vec<_> = (0..).zip(counts).map(|(at, n)| (Millis(start + at * step), n)).collect();
            let bars = bars(&intervals, &english()).unwrap();
            for bar in &bars.bars {
                prop_assert!(bar.x >= bars.left && bar.x + bar.width <= bars.right + 0.2, "{:?}", bar);
                prop_assert!(bar.y >= 0.0 && bar.height >= LOWEST);
            }
            for tick in &bars.ticks {
                prop_assert!((bars.left..=bars.right).contains(&tick.x), "{}", tick.x);
            }
        }
    }
}
