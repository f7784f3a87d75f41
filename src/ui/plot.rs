//! Sparklines: small plots without axes, for values of the last hour.

use std::fmt::Write;

/// Width and height of a plot, in units of its SVG.
pub(super) const WIDTH: f64 = 240.0;
pub(super) const HEIGHT: f64 = 48.0;

/// Margin around the line, which has a width itself.
const MARGIN: f64 = 2.0;

/// A sparkline, as paths of an SVG.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plot {
    /// The line as a path.
    pub line: String,
    /// The line as a closed area.
    pub area: String,
    pub width: f64,
    pub height: f64,
    /// Alternative text.
    pub description: String,
}

/// Plots values at equal distances, from 0 to the largest. `None` for fewer than two.
pub(super) fn plot(values: &[f64], description: String) -> Option<Plot> {
    if values.len() < 2 {
        return None;
    }
    let largest = values.iter().copied().fold(0.0, f64::max);
    let scale = if largest > 0.0 { 1.0 / largest } else { 0.0 };
    let step = (WIDTH - 2.0 * MARGIN) / (values.len() - 1) as f64;
    let bottom = HEIGHT - MARGIN;
    let mut line = String::new();
    for (at, value) in values.iter().enumerate() {
        let x = MARGIN + step * at as f64;
        let y = bottom - (HEIGHT - 2.0 * MARGIN) * value.max(0.0) * scale;
        let command = if at == 0 { 'M' } else { 'L' };
        // Writing to a string does not fail.
        let _ = write!(line, "{command}{x:.1} {y:.1}");
    }
    let right = WIDTH - MARGIN;
    let area = format!("{line}L{right:.1} {bottom:.1}L{MARGIN:.1} {bottom:.1}Z");
    Some(Plot { line, area, width: WIDTH, height: HEIGHT, description })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let plot = plot(&[0.0, 10.0, 5.0], String::new()).unwrap();
        assert_eq!(plot.line, "M2.0 46.0L120.0 2.0L238.0 24.0");
        assert_eq!(plot.area, plot.line.clone() + "L238.0 46.0L2.0 46.0Z");
        assert!(super::plot(&[1.0], String::new()).is_none());
        let flat = super::plot(&[0.0, 0.0], String::new()).unwrap();
        assert_eq!(flat.line, "M2.0 46.0L238.0 46.0");
    }
}
