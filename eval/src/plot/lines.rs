//! Figures as lines over the values of an option.

use super::{BOTTOM, CHARACTER, CLASSES, Drawing, Escaped, FIGURES, Point, RIGHT, TOP, WIDTH};

const HEIGHT: f64 = 460.0;
const LEFT: f64 = 72.0;
const BASE: f64 = HEIGHT - BOTTOM;
/// Room between the axis and the first and the last value.
const INSET: f64 = 16.0;

/// The lowest ratio on the axis and the distance of its lines, in hundredths.
#[derive(Debug, PartialEq, Eq)]
struct Scale {
    low: u32,
    step: usize,
}

impl Scale {
    /// From the tenth below the lowest figure, so that small differences near 1 are seen.
    fn of(points: &[Point]) -> Scale {
        let figures = points.iter().flat_map(Point::figures).flatten();
        let lowest = figures.fold(0.9, f64::min).max(0.0);
        let low = (lowest * 10.0).floor() as u32 * 10;
        let step = match 100 - low.min(100) {
            0..=20 => 2,
            21..=50 => 5,
            _ => 10,
        };
        Scale { low, step }
    }

    fn y(&self, figure: f64) -> f64 {
        let low = f64::from(self.low) / 100.0;
        BASE - (BASE - TOP) * (figure.clamp(low, 1.0) - low) / (1.0 - low)
    }
}

/// Where the values stand: numbers in ascending order by their size, other values at equal distances.
fn places(points: &[Point]) -> Vec<f64> {
    let numbers: Option<Vec<f64>> = points.iter().map(|point| point.value.parse().ok()).collect();
    let numbers =
        numbers.filter(|numbers| numbers.iter().all(|number| number.is_finite()) && numbers.is_sorted_by(|a, b| a < b));
    let numbers = numbers.unwrap_or_else(|| (0..points.len()).map(|at| at as f64).collect());
    let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else {
        return Vec::new();
    };
    let (left, right) = (LEFT + INSET, WIDTH - RIGHT - INSET);
    let place = |number: f64| match last > first {
        true => left + (right - left) * (number - first) / (last - first),
        false => (left + right) / 2.0,
    };
    numbers.into_iter().map(place).collect()
}

/// What stands below the axis.
fn meaning(option: &str) -> String {
    let meaning = match option {
        "k" => "near fingerprints differ in at most this many bits",
        "similarity" => "of the phrases in a long text or its cluster's first, the part in both",
        "window" => "how long a fingerprint is remembered",
        _ => return option.to_owned(),
    };
    format!("{option}: {meaning}")
}

pub(super) fn draw(title: &str, option: &str, points: &[Point]) -> String {
    let mut drawing = Drawing::new(HEIGHT, title, points, "at");
    let (scale, places, right) = (Scale::of(points), places(points), WIDTH - RIGHT);
    for hundredths in (scale.low..=100).step_by(scale.step) {
        let ratio = f64::from(hundredths) / 100.0;
        let y = scale.y(ratio);
        let class = if hundredths == scale.low { "axis" } else { "grid" };
        drawing.line([LEFT, y, right, y], class);
        drawing.text(LEFT - 8.0, y + 4.0, "", "end", &format!("{ratio:.2}"));
    }
    let middle = (TOP + BASE) / 2.0;
    drawing.add(format_args!(
        "<text x=\"20\" y=\"{middle:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 20 {middle:.1})\">ratio</text>"
    ));
    let mut free = 0.0;
    for (&x, point) in places.iter().zip(points) {
        drawing.line([x, BASE, x, BASE + 5.0], "axis");
        let half = point.value.chars().count() as f64 * CHARACTER / 2.0;
        // No label over another one.
        if x - half >= free {
            drawing.text(x, BASE + 20.0, "", "middle", &point.value);
            free = x + half + CHARACTER;
        }
    }
    let centre = (LEFT + right) / 2.0;
    drawing.text(centre, HEIGHT - 12.0, "", "middle", &meaning(option));
    for (at, (name, class)) in FIGURES.into_iter().zip(CLASSES).enumerate() {
        let drawn = places.iter().zip(points).filter_map(|(&x, point)| {
            let figure = point.figures().get(at).copied().flatten()?;
            Some((x, scale.y(figure), figure, &point.value))
        });
        let drawn: Vec<_> = drawn.collect();
        let path: Vec<String> = drawn.iter().map(|(x, y, ..)| format!("{x:.1},{y:.1}")).collect();
        let path = path.join(" ");
        drawing.add(format_args!("<polyline points=\"{path}\" class=\"line {class}\"/>"));
        for (x, y, figure, value) in drawn {
            let tip = format!("{name} {figure:.4} at {option} {value}");
            mark(&mut drawing, at, x, y, &tip);
        }
        let (x, y) = (LEFT + 120.0 * at as f64, 58.0);
        drawing.line([x, y, x + 36.0, y], &format!("line {class}"));
        mark(&mut drawing, at, x + 18.0, y, name);
        drawing.text(x + 43.0, y + 4.0, "", "start", name);
    }
    drawing.finish()
}

/// A disc, a square or a diamond.
fn mark(drawing: &mut Drawing, at: usize, x: f64, y: f64, tip: &str) {
    let path = match at {
        0 => format!("M{:.1},{y:.1}a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z", x - 4.0),
        1 => format!("M{:.1},{:.1}h7v7h-7z", x - 3.5, y - 3.5),
        _ => format!("M{x:.1},{:.1}l5,5l-5,5l-5,-5z", y - 5.0),
    };
    let class = CLASSES.get(at).unwrap_or(&"");
    drawing.add(format_args!("<path d=\"{path}\" class=\"fill {class}\"><title>{}</title></path>", Escaped(tip)));
}

#[cfg(test)]
mod tests {
    use super::super::tests::point;
    use super::*;

    #[test]
    fn the_best_figure_is_at_the_top_and_the_unknown_is_not_drawn() {
        let points = [point("0", Some(1.0), None), point("1", None, None), point("2", Some(0.0), None)];
        let drawing = draw("t", "k", &points);
        assert!(drawing.contains("points=\"88.0,86.0 714.0,404.0\""), "{drawing}");
        assert!(drawing.contains("points=\"88.0,245.0 401.0,245.0 714.0,245.0\""));
        assert!(drawing.contains("points=\"\""));
        // Five figures, and the legend.
        assert_eq!(drawing.matches("<path").count(), 5 + 3);
        assert!(drawing.contains("recall 0.5000 at k 1<"));
    }

    #[test]
    fn the_axis_begins_at_the_tenth_below_the_lowest_figure() {
        let scale = |lowest| {
            let mut point = point("0", Some(lowest), None);
            point.recall = None;
            Scale::of(&[point])
        };
        assert_eq!(scale(0.97), Scale { low: 90, step: 2 });
        assert_eq!(scale(0.61), Scale { low: 60, step: 5 });
        assert_eq!(scale(0.0), Scale { low: 0, step: 10 });
        assert_eq!(Scale::of(&[]), Scale { low: 90, step: 2 });
        assert_eq!(scale(1.0).y(1.0), TOP);
        assert_eq!(scale(0.5).y(0.5), BASE);
    }

    #[test]
    fn numbers_stand_by_their_size_and_labels_never_touch() {
        let of = |values: &[&str]| {
            let points: Vec<Point> = values.iter().map(|value| point(value, None, None)).collect();
            (places(&points), draw("t", "k", &points).matches("text-anchor=\"middle\"").count())
        };
        assert_eq!(of(&["0", "1", "4"]), (vec![88.0, 244.5, 714.0], 3 + 2));
        assert_eq!(of(&["1d", "7d", "none"]).0, [88.0, 401.0, 714.0]);
        assert_eq!(of(&["8", "0", "4"]).0, [88.0, 401.0, 714.0]);
        assert_eq!(of(&["3"]).0, [401.0]);
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!((20..60).contains(&of(&many).1));
    }
}
