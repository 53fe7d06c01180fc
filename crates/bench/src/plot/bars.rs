//! Grouped bars: a group a category, a bar a series, whiskers of one standard error.

use super::axis::{Axis, Scale};
use super::canvas::{Anchor, Canvas, GRID, INK, LABEL_SIZE, TITLE_SIZE, colours, text_width};

/// Height of the space for bars, pixels.
const PLOT_HEIGHT: f64 = 260.0;
/// Width of a bar, pixels.
const BAR_WIDTH: f64 = 14.0;
/// A whisker shorter than this is not seen for its own strokes, and not drawn; pixels.
const WHISKER_MIN: f64 = 2.0;
/// Space between groups, pixels.
const GROUP_GAP: f64 = 14.0;
/// Space between labels, pixels.
const LABEL_GAP: f64 = 10.0;
/// Width of the space for bars at least, pixels.
const PLOT_WIDTH_MIN: f64 = 420.0;
/// Slant of labels that would touch each other, degrees.
const SLANT: f64 = -40.0;

/// One bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// Its height.
    pub value: f64,
    /// Its standard error, 0 for none.
    pub error: f64,
}

/// Bars of one colour.
#[derive(Debug, Clone, PartialEq)]
pub struct BarSeries {
    /// Its name in the legend.
    pub name: String,
    /// True for what the others are compared against; it is grey.
    pub is_reference: bool,
    /// A bar for each category, or nothing.
    pub bars: Vec<Option<Bar>>,
}

/// A chart of grouped bars.
#[derive(Debug, Clone, PartialEq)]
pub struct BarChart {
    /// Title; says whether figures are measured or simulated.
    pub title: String,
    /// What the bars measure, with the unit.
    pub y_label: String,
    /// Names of the groups.
    pub categories: Vec<String>,
    /// The bars; each series has one for each category.
    pub series: Vec<BarSeries>,
}

/// Where things lie.
struct Layout {
    left: f64,
    top: f64,
    slot: f64,
    width: f64,
    is_slanted: bool,
    label_height: f64,
}

impl BarChart {
    /// The chart as SVG.
    ///
    /// # Panics
    ///
    /// If a series has not one bar, or none, for each category.
    pub fn to_svg(&self) -> String {
        for series in &self.series {
            assert_eq!(series.bars.len(), self.categories.len(), "series {}", series.name);
        }
        let mut canvas = Canvas::default();
        let mut layout = self.layout();
        canvas.text((layout.left, 24.0), Anchor::Start, TITLE_SIZE, &self.title);
        let colours = colours(self.series.iter().map(|series| series.is_reference));
        let names = self.series.iter().map(|series| series.name.as_str());
        let entries: Vec<(&str, &str)> = names.zip(colours.iter().copied()).collect();
        layout.top += canvas.legend((layout.left, layout.top), layout.width - layout.left, &entries) + 12.0;
        let bottom = layout.top + PLOT_HEIGHT;
        let tops =
            self.series.iter().flat_map(|series| &series.bars).flatten().map(|bar| bar.value + bar.error);
        let axis = Axis::new(Scale::Linear, tops, (bottom, layout.top));
        self.draw_axes(&mut canvas, &layout, &axis);
        for (index, colour) in colours.into_iter().enumerate() {
            self.draw_series(&mut canvas, &layout, &axis, (index, colour));
        }
        canvas.line((layout.left, bottom), (layout.right(), bottom), INK);
        canvas.finish(layout.width, bottom + layout.label_height + 16.0)
    }

    fn layout(&self) -> Layout {
        let count = self.categories.len().max(1) as f64;
        let widths: Vec<f64> = self.categories.iter().map(|name| text_width(name, LABEL_SIZE)).collect();
        let widest = widths.iter().copied().fold(0.0, f64::max);
        let narrowest = BAR_WIDTH * self.series.len() as f64 + GROUP_GAP;
        let spread = narrowest.max(PLOT_WIDTH_MIN.max(text_width(&self.title, TITLE_SIZE)) / count);
        // Upright labels may widen the groups somewhat.
        let is_slanted = widest + LABEL_GAP > spread.max(1.5 * narrowest);
        let slot = if is_slanted { spread } else { spread.max(widest + LABEL_GAP) };
        let slant = SLANT.abs().to_radians();
        // How far slanted labels reach to the left of the bars.
        let reaches =
            widths.iter().enumerate().map(|(index, width)| width * slant.cos() - slot * (index as f64 + 0.5));
        let reach = if is_slanted { reaches.fold(0.0, f64::max) } else { 0.0 };
        let label_height = if is_slanted { widest * slant.sin() + 14.0 } else { 18.0 };
        let left = f64::max(70.0, reach + 12.0);
        Layout { left, top: 36.0, slot, width: left + slot * count + 20.0, is_slanted, label_height }
    }

    fn draw_axes(&self, canvas: &mut Canvas, layout: &Layout, axis: &Axis) {
        for (value, label) in axis.ticks(6.0) {
            let Some(y) = axis.at(value) else { continue };
            canvas.line((layout.left, y), (layout.right(), y), GRID);
            canvas.text((layout.left - 8.0, y + 4.0), Anchor::End, LABEL_SIZE, &label);
        }
        let (bottom, middle) = (layout.top + PLOT_HEIGHT, layout.top + PLOT_HEIGHT / 2.0);
        canvas.turned_text((layout.left - 52.0, middle), Anchor::Middle, LABEL_SIZE, -90.0, &self.y_label);
        for (index, category) in self.categories.iter().enumerate() {
            let x = layout.centre(index);
            if layout.is_slanted {
                canvas.turned_text((x + 4.0, bottom + 14.0), Anchor::End, LABEL_SIZE, SLANT, category);
            } else {
                canvas.text((x, bottom + 18.0), Anchor::Middle, LABEL_SIZE, category);
            }
        }
    }

    fn draw_series(&self, canvas: &mut Canvas, layout: &Layout, axis: &Axis, (index, colour): (usize, &str)) {
        let first = -BAR_WIDTH * self.series.len() as f64 / 2.0;
        let bottom = layout.top + PLOT_HEIGHT;
        for (category, bar) in self.series[index].bars.iter().enumerate() {
            let Some(bar) = bar else { continue };
            let Some(y) = axis.at(bar.value) else { continue };
            let x = layout.centre(category) + first + BAR_WIDTH * index as f64;
            canvas.rect((x + 0.5, y), (BAR_WIDTH - 1.0, bottom - y), colour);
            let ends = (axis.at(bar.value + bar.error), axis.at((bar.value - bar.error).max(0.0)));
            let (Some(high), Some(low)) = ends else { continue };
            if low - high >= WHISKER_MIN {
                let x = x + BAR_WIDTH / 2.0;
                canvas.line((x, high), (x, low), INK);
                canvas.line((x - 3.0, high), (x + 3.0, high), INK);
                canvas.line((x - 3.0, low), (x + 3.0, low), INK);
            }
        }
    }
}

impl Layout {
    fn centre(&self, category: usize) -> f64 {
        self.left + self.slot * (category as f64 + 0.5)
    }

    fn right(&self) -> f64 {
        self.width - 10.0
    }
}
