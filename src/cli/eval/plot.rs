//! Precision, recall and F1 over the values of a sweep, drawn as an SVG file.

use std::fmt::Write as _;

/// One value of a sweep. Figures from 0 to 1; `None` is not drawn.
#[derive(Debug, Clone)]
pub struct Point {
    pub value: String,
    pub precision: Option<f64>,
    pub recall: Option<f64>,
    pub f1: Option<f64>,
}

/// Size of the drawing and of the field inside it, in pixels.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;

/// Name, colour and dashes of each line: told apart without colours too.
const LINES: [(&str, &str, &str); 3] = [
    ("precision", "#0060a8", "none"),
    ("recall", "#c04000", "8 4"),
    ("F1", "#606060", "2 3"),
];

/// Draws the points from left to right at equal distances.
pub fn svg(title: &str, option: &str, points: &[Point]) -> String {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let x = |at: usize| match points.len() {
        0 | 1 => (LEFT + right) / 2.0,
        count => LEFT + (right - LEFT) * at as f64 / (count - 1) as f64,
    };
    let y = |figure: f64| bottom - (bottom - TOP) * figure.clamp(0.0, 1.0);
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"16\">{}</text>\n",
        escaped(title)
    );
    for tenth in 0..=10 {
        let at = y(f64::from(tenth) / 10.0);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#e0e0e0\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.1}</text>",
            LEFT - 8.0,
            at + 4.0,
            f64::from(tenth) / 10.0
        );
    }
    for (at, point) in points.iter().enumerate() {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(at),
            bottom + 20.0,
            escaped(&point.value)
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 16.0,
        escaped(option)
    );
    for (line, (name, colour, dashes)) in LINES.into_iter().enumerate() {
        let figure = |point: &Point| [point.precision, point.recall, point.f1][line];
        let drawn: Vec<(f64, f64, &Point, f64)> = points
            .iter()
            .enumerate()
            .filter_map(|(at, point)| figure(point).map(|f| (x(at), y(f), point, f)))
            .collect();
        let path: Vec<String> = drawn
            .iter()
            .map(|(x, y, ..)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>",
            path.join(" ")
        );
        for (x, y, point, figure) in drawn {
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"><title>{name} {figure:.4} at {} {}</title></circle>",
                escaped(option),
                escaped(&point.value)
            );
        }
        let key = TOP + 20.0 * line as f64;
        let _ = writeln!(
            out,
            "<line x1=\"{:.1}\" y1=\"{key}\" x2=\"{:.1}\" y2=\"{key}\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
            right + 14.0,
            right + 42.0,
            right + 48.0,
            key + 4.0
        );
    }
    out.push_str("</svg>\n");
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(value: &str, precision: Option<f64>) -> Point {
        Point {
            value: value.into(),
            precision,
            recall: Some(0.5),
            f1: None,
        }
    }

    #[test]
    fn the_best_figure_is_at_the_top_and_the_unknown_is_not_drawn() {
        let points = [
            point("0", Some(1.0)),
            point("1", None),
            point("2", Some(0.0)),
        ];
        let drawing = svg("a <b> & c", "k", &points);
        assert!(
            drawing.contains("points=\"60.0,50.0 650.0,380.0\""),
            "{drawing}"
        );
        assert!(drawing.contains("points=\"60.0,215.0 355.0,215.0 650.0,215.0\""));
        assert!(drawing.contains("points=\"\""));
        assert!(drawing.contains("a &lt;b&gt; &amp; c"));
        assert_eq!(drawing.matches("<circle").count(), 5);
    }

    #[test]
    fn one_point_stands_in_the_middle() {
        assert!(svg("t", "k", &[point("3", Some(1.0))]).contains("points=\"355.0,50.0\""));
        assert!(svg("t", "k", &[]).ends_with("</svg>\n"));
    }
}
