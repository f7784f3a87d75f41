//! Figures as bars beside names: long names stand on one line, and there may be any number of them.

use super::{BOTTOM, CHARACTER, CLASSES, Drawing, Escaped, FIGURES, Point, RIGHT, TOP, WIDTH};

/// Height of a bar, and of a group of three with the room below it.
const BAR: f64 = 16.0;
const GROUP: f64 = 3.0 * BAR + 18.0;
/// Room for the figure behind a bar of full length.
const FIGURE: f64 = 44.0;
/// Characters of a name that are shown at most.
const NAME: usize = 40;

pub(super) fn draw(title: &str, points: &[Point]) -> String {
    let base = TOP + GROUP * points.len().max(1) as f64;
    let mut drawing = Drawing::new(base + BOTTOM, title, points, "with");
    let names: Vec<String> = points.iter().map(|point| name(&point.value)).collect();
    let longest = names.iter().map(|name| name.chars().count()).max();
    let left = 36.0 + CHARACTER * longest.unwrap_or(0) as f64;
    let x = |ratio: f64| left + (WIDTH - RIGHT - FIGURE - left) * ratio.clamp(0.0, 1.0);
    for fifth in 0..=5 {
        let ratio = f64::from(fifth) / 5.0;
        let class = if fifth == 0 { "axis" } else { "grid" };
        drawing.line([x(ratio), TOP - 4.0, x(ratio), base], class);
        drawing.text(x(ratio), base + 18.0, "", "middle", &format!("{ratio:.1}"));
    }
    drawing.text((left + x(1.0)) / 2.0, base + BOTTOM - 12.0, "", "middle", "ratio");
    for (at, (point, name)) in points.iter().zip(&names).enumerate() {
        let top = TOP + GROUP * at as f64 + 5.0;
        drawing.text(left - 10.0, top + 1.5 * BAR + 4.0, "", "end", name);
        for (bar, figure) in point.figures().into_iter().enumerate() {
            let y = top + BAR * bar as f64;
            let Some(figure) = figure else { continue };
            let class = CLASSES.get(bar).unwrap_or(&"");
            let tip = FIGURES.get(bar).unwrap_or(&"");
            drawing.add(format_args!(
                "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" class=\"fill {class}\">\
                 <title>{tip} {figure:.4} of {}</title></rect>",
                x(figure) - left,
                BAR - 3.0,
                Escaped(&point.value)
            ));
            drawing.text(x(figure) + 6.0, y + 10.5, "small", "start", &format!("{figure:.4}"));
        }
    }
    for (at, (name, class)) in FIGURES.into_iter().zip(CLASSES).enumerate() {
        let at = 20.0 + 110.0 * at as f64;
        drawing.add(format_args!("<rect x=\"{at}\" y=\"52\" width=\"14\" height=\"12\" class=\"fill {class}\"/>"));
        drawing.text(at + 21.0, 62.0, "", "start", name);
    }
    drawing.finish()
}

/// A name that leaves room for the bars.
fn name(value: &str) -> String {
    match value.char_indices().nth(NAME) {
        Some((end, _)) => format!("{}…", value.get(..end).unwrap_or_default()),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::point;
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_figure() {
        let points = [point("full", Some(1.0), None), point(&"x".repeat(60), Some(0.0), Some(0.5))];
        let drawing = draw("t", &points);
        let left = 36.0 + CHARACTER * 41.0;
        let whole = WIDTH - RIGHT - FIGURE - left;
        for (y, width) in [(91.0, whole), (107.0, whole / 2.0), (157.0, 0.0), (189.0, whole / 2.0)] {
            let bar = format!("x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\"");
            assert!(drawing.contains(&bar), "{bar}\n{drawing}");
        }
        assert!(!drawing.contains(">precision 0.0000 of xxx…<"), "the tip has the whole name");
        assert!(drawing.contains(&format!(">{}…<", "x".repeat(40))));
        assert_eq!(drawing.matches("class=\"fill").count(), 5 + 3);
    }
}
