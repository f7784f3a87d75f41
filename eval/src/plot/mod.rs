//! Precision, recall and F1 of a sweep, drawn as an SVG file: lines over values that have an order, bars for those that
//! are only names. Colours follow the reader's scheme, light or dark; lines differ by dashes and marks too.

mod bars;
mod lines;

use std::fmt::{self, Display, Write as _};

/// One value of a sweep. Figures from 0 to 1; `None` is not drawn.
#[derive(Debug, Clone)]
pub struct Point {
    /// The value of the option.
    pub value: String,
    /// Of the pairs put together, the part that belongs together.
    pub precision: Option<f64>,
    /// Of the pairs that belong together, the part put together.
    pub recall: Option<f64>,
    /// Harmonic mean of the two.
    pub f1: Option<f64>,
}

impl Point {
    /// In the order of [`FIGURES`].
    fn figures(&self) -> [Option<f64>; 3] {
        [self.precision, self.recall, self.f1]
    }
}

/// The figures in the order in which they are drawn.
const FIGURES: [&str; 3] = ["precision", "recall", "F1"];

/// Size of a drawing and of the margins around its field, in pixels. `TOP` leaves room for the title and the legend.
const WIDTH: f64 = 760.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 86.0;
const BOTTOM: f64 = 56.0;
/// A character of the labels is at most about this wide.
const CHARACTER: f64 = 7.6;

/// `a`, `b` and `c` are the figures. Plain classes, no variables: not every viewer knows those.
const STYLE: &str = "<style>
text{font:13px sans-serif;fill:#24292f}
.title{font-size:16px;font-weight:bold}
.small{font-size:11px}
.back{fill:#ffffff}.grid{stroke:#d8dee4}.axis{stroke:#57606a}
.line{fill:none;stroke-width:2}
.a{stroke:#0060a8}.b{stroke:#b93a00;stroke-dasharray:8 4}.c{stroke:#5a6068;stroke-dasharray:2 3}
.fill.a{fill:#0060a8}.fill.b{fill:#b93a00}.fill.c{fill:#5a6068}
.fill{stroke-dasharray:none}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.back{fill:#0d1117}.grid{stroke:#30363d}.axis{stroke:#8b949e}
.a{stroke:#58a6ff}.b{stroke:#ff9a5c}.c{stroke:#b1bac4}
.fill.a{fill:#58a6ff}.fill.b{fill:#ff9a5c}.fill.c{fill:#b1bac4}
}
</style>
";
const CLASSES: [&str; 3] = ["a", "b", "c"];

/// Draws the points of a sweep over `option`, one of k, method, similarity, window.
pub fn svg(title: &str, option: &str, points: &[Point]) -> String {
    if option == "method" { bars::draw(title, points) } else { lines::draw(title, option, points) }
}

/// A drawing in progress. Everything written as text is escaped.
struct Drawing(String);

impl Drawing {
    /// Background, title, and the value of the best F1: `at` stands before it.
    fn new(height: f64, title: &str, points: &[Point], at: &str) -> Drawing {
        let mut drawing = Drawing(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\">\n<title>{}</title>\n{STYLE}",
            Escaped(title)
        ));
        drawing.add(format_args!("<rect width=\"100%\" height=\"100%\" class=\"back\"/>"));
        drawing.text(20.0, 32.0, "title", "start", title);
        let best = points.iter().filter_map(|point| Some((point.f1?, point)));
        // The first of equals.
        let best = best.reduce(|best, other| if other.0 > best.0 { other } else { best });
        if let Some((f1, point)) = best {
            let text = format!("best F1 {f1:.4} {at} {}", point.value);
            drawing.text(WIDTH - RIGHT, 62.0, "", "end", &text);
        }
        drawing
    }

    fn add(&mut self, element: fmt::Arguments<'_>) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.0, "{element}");
    }

    fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], class: &str) {
        self.add(format_args!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"));
    }

    /// `anchor`: which end of the text stands at `x`, start, middle or end. `y` is its base line.
    fn text(&mut self, x: f64, y: f64, class: &str, anchor: &str, text: &str) {
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{}</text>",
            Escaped(text)
        ));
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// Text between tags or quotes.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            _ => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn point(value: &str, precision: Option<f64>, f1: Option<f64>) -> Point {
        Point { value: value.into(), precision, recall: Some(0.5), f1 }
    }

    #[test]
    fn the_best_f1_is_shown_and_names_are_escaped() {
        let points = [point("a<b>", None, Some(0.25)), point("\"c\"&", None, Some(0.75)), point("d", None, Some(0.75))];
        for (option, at) in [("method", "with"), ("window", "at")] {
            let drawing = svg("a <b> & c", option, &points);
            assert!(drawing.contains(">a &lt;b&gt; &amp; c<"), "{drawing}");
            let best = format!(">best F1 0.7500 {at} &quot;c&quot;&amp;<");
            assert!(drawing.contains(&best), "{drawing}");
            assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
        }
    }

    #[test]
    fn without_points_the_axes_are_still_drawn() {
        for option in ["method", "k"] {
            let drawing = svg("t", option, &[]);
            assert!(!drawing.contains("best F1") && !drawing.contains("NaN"));
        }
    }
}
