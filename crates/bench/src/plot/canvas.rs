//! SVG as text: shapes, escaped texts, estimated widths, and what all plots share (title and legend).

use std::fmt::Write;

/// Text size of labels, pixels.
pub(super) const LABEL_SIZE: f64 = 12.0;
/// Text size of titles, pixels.
pub(super) const TITLE_SIZE: f64 = 15.0;
/// Colour of axes and texts.
pub(super) const INK: &str = "#22272e";
/// Colour of the lines behind the data.
pub(super) const GRID: &str = "#dfe3e8";

/// Colours that remain apart for the colour-blind (Okabe and Ito 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5b5b5b"];
/// What is compared against is grey.
const REFERENCE: &str = "#9aa5b1";

/// An average letter of a sans-serif font is this part of its size wide, estimated on the wide side.
const LETTER_WIDTH: f64 = 0.58;

/// A colour for each series, given which of them are references.
pub(super) fn colours(are_references: impl Iterator<Item = bool>) -> Vec<&'static str> {
    let mut next = COLOURS.iter().cycle();
    let mut colour = || next.next().copied().unwrap_or(INK);
    are_references.map(|is_reference| if is_reference { REFERENCE } else { colour() }).collect()
}

/// About how wide `text` is, pixels.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER_WIDTH
}

/// Where a text is held.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing in the making. Coordinates are pixels from the upper left corner.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    body: String,
}

impl Canvas {
    /// Adds one element; writing to a string never fails.
    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "{element}");
    }

    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
        self.push(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}"/>"#
        ));
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        self.push(format_args!(
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{colour}" stroke-width="1"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    pub(super) fn polyline(&mut self, points: &[(f64, f64)], colour: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.push(format_args!(
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
            points.join(" ")
        ));
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), colour: &str) {
        self.push(format_args!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#));
    }

    pub(super) fn text(&mut self, at: (f64, f64), anchor: Anchor, size: f64, text: &str) {
        self.turned_text(at, anchor, size, 0.0, text);
    }

    /// A text turned about the point that holds it, degrees clockwise.
    pub(super) fn turned_text(
        &mut self,
        (x, y): (f64, f64),
        anchor: Anchor,
        size: f64,
        degrees: f64,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let turn = if degrees == 0.0 {
            String::new()
        } else {
            format!(r#" transform="rotate({degrees:.0} {x:.1} {y:.1})""#)
        };
        let text = escape(text);
        self.push(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" font-size="{size:.0}"{turn}>{text}</text>"#
        ));
    }

    /// Names and colours, side by side from `(left, top)` on, in lines no longer than `width`; returns the height used.
    pub(super) fn legend(&mut self, (left, top): (f64, f64), width: f64, entries: &[(&str, &str)]) -> f64 {
        let (mut x, mut y) = (left, top);
        for (name, colour) in entries {
            let entry_width = 18.0 + text_width(name, LABEL_SIZE) + 18.0;
            if x > left && x + entry_width > left + width {
                (x, y) = (left, y + 18.0);
            }
            self.rect((x, y), (12.0, 12.0), colour);
            self.text((x + 18.0, y + 10.5), Anchor::Start, LABEL_SIZE, name);
            x += entry_width;
        }
        y + 18.0 - top
    }

    /// The document.
    pub(super) fn finish(self, width: f64, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\" fill=\"{INK}\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.body
        )
    }
}

/// Text as XML holds it; control characters, which XML cannot hold, become spaces.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            char if char.is_control() => out.push(' '),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        assert_eq!(escape("a<b> & \"c\"\n\u{1}"), "a&lt;b&gt; &amp; &quot;c&quot;  ");
    }

    #[test]
    fn a_legend_that_is_too_wide_takes_a_second_line() {
        let names = [("a series with a name", INK), ("another series with a name", GRID)];
        assert_eq!(Canvas::default().legend((0.0, 0.0), 1000.0, &names), 18.0);
        assert_eq!(Canvas::default().legend((0.0, 0.0), 200.0, &names), 36.0);
    }
}
