//! Lines through points, over linear or logarithmic axes.

use super::axis::{Axis, Scale};
use super::canvas::{Anchor, Canvas, GRID, INK, LABEL_SIZE, TITLE_SIZE, colours, text_width};

/// Space for the data, pixels.
const PLOT_WIDTH: f64 = 560.0;
/// Space for the data, pixels.
const PLOT_HEIGHT: f64 = 300.0;
/// Space for the labels of the vertical axis, pixels.
const LEFT: f64 = 74.0;
/// Space for one label of the horizontal axis, pixels.
const X_LABEL_SPACE: f64 = 62.0;

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct LineSeries {
    /// Its name in the legend.
    pub name: String,
    /// True for what the others are compared against; it is grey.
    pub is_reference: bool,
    /// Its points, in order; those that a scale cannot show (0 on a logarithmic one) are left out.
    pub points: Vec<(f64, f64)>,
}

/// A chart of lines.
#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    /// Title; says whether figures are measured or simulated.
    pub title: String,
    /// What the horizontal axis is, with the unit.
    pub x_label: String,
    /// What the vertical axis is, with the unit.
    pub y_label: String,
    /// The horizontal scale.
    pub x_scale: Scale,
    /// The vertical scale.
    pub y_scale: Scale,
    /// The lines.
    pub series: Vec<LineSeries>,
}

impl LineChart {
    /// The chart as SVG.
    pub fn to_svg(&self) -> String {
        let mut canvas = Canvas::default();
        canvas.text((LEFT, 24.0), Anchor::Start, TITLE_SIZE, &self.title);
        let colours = colours(self.series.iter().map(|series| series.is_reference));
        let names = self.series.iter().map(|series| series.name.as_str());
        let entries: Vec<(&str, &str)> = names.zip(colours.iter().copied()).collect();
        let top = 48.0 + canvas.legend((LEFT, 36.0), PLOT_WIDTH, &entries);
        let bottom = top + PLOT_HEIGHT;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x_axis = Axis::new(self.x_scale, points().map(|point| point.0), (LEFT, LEFT + PLOT_WIDTH));
        let y_axis = Axis::new(self.y_scale, points().map(|point| point.1), (bottom, top));
        self.draw_axes(&mut canvas, &x_axis, &y_axis, (top, bottom));
        for (series, colour) in self.series.iter().zip(colours) {
            let places: Vec<(f64, f64)> =
                series.points.iter().filter_map(|(x, y)| Some((x_axis.at(*x)?, y_axis.at(*y)?))).collect();
            canvas.polyline(&places, colour);
            places.iter().for_each(|place| canvas.dot(*place, colour));
        }
        let title_right = LEFT + text_width(&self.title, TITLE_SIZE) + 10.0;
        // Half of the last label stands beyond the axis.
        canvas.finish((LEFT + PLOT_WIDTH + X_LABEL_SPACE / 2.0).max(title_right), bottom + 56.0)
    }

    fn draw_axes(&self, canvas: &mut Canvas, x_axis: &Axis, y_axis: &Axis, (top, bottom): (f64, f64)) {
        let right = LEFT + PLOT_WIDTH;
        for (value, label) in y_axis.ticks(6.0) {
            let Some(y) = y_axis.at(value) else { continue };
            canvas.line((LEFT, y), (right, y), GRID);
            canvas.text((LEFT - 8.0, y + 4.0), Anchor::End, LABEL_SIZE, &label);
        }
        for (value, label) in x_axis.ticks(PLOT_WIDTH / X_LABEL_SPACE - 1.0) {
            let Some(x) = x_axis.at(value) else { continue };
            canvas.line((x, top), (x, bottom), GRID);
            canvas.text((x, bottom + 18.0), Anchor::Middle, LABEL_SIZE, &label);
        }
        canvas.line((LEFT, bottom), (right, bottom), INK);
        canvas.line((LEFT, top), (LEFT, bottom), INK);
        canvas.turned_text((18.0, (top + bottom) / 2.0), Anchor::Middle, LABEL_SIZE, -90.0, &self.y_label);
        canvas.text(((LEFT + right) / 2.0, bottom + 42.0), Anchor::Middle, LABEL_SIZE, &self.x_label);
    }
}
