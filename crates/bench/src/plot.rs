//! Plots as SVG, written by hand: grouped bars, and lines over linear or logarithmic sizes.
//!
//! ```text
//!   title (measured or simulated)
//!   ■ paper  ■ ours                   legend, wrapped
//!   │      ▄
//!   │  ▄█  █▌   ▄                     axis from 0 with steps of 1, 2 or 5 times a power of ten
//!   └──┴───┴────┴──
//!     a   b    c                      labels, slanted where they would touch
//! ```
//!
//! A plot is a function of its data: the same data give the same bytes. Widths of texts are estimated, since no font
//! is loaded; the estimate is on the wide side.

mod axis;
mod bars;
mod canvas;
mod lines;

pub use axis::Scale;
pub use bars::{Bar, BarChart, BarSeries};
pub use lines::{LineChart, LineSeries};
