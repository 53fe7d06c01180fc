//! Plots are well-formed XML, show all of their data, and stay inside their frame.

use pelton_bench::plot::{Bar, BarChart, BarSeries, LineChart, LineSeries, Scale};

/// Elements of a document by name, with their attributes as text; panics unless tags nest and texts are escaped.
fn elements(svg: &str) -> Vec<(String, String)> {
    let mut open: Vec<String> = Vec::new();
    let mut elements = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        assert!(!text.contains('>'), "unescaped text {text:?}");
        for entity in text.split('&').skip(1) {
            let name = entity.split(';').next().unwrap();
            assert!(["amp", "lt", "gt", "quot"].contains(&name), "entity {name}");
        }
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let body = tag.strip_suffix('/').unwrap_or(tag);
        let (name, attributes) = body.split_once(' ').unwrap_or((body, ""));
        assert_eq!(attributes.matches('"').count() % 2, 0, "{tag}");
        elements.push((name.to_owned(), attributes.to_owned()));
        if !tag.ends_with('/') {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    assert!(rest.trim().is_empty());
    elements
}

fn attribute(attributes: &str, name: &str) -> f64 {
    let start = attributes.find(&format!("{name}=\"")).expect(name) + name.len() + 2;
    attributes[start..].split('"').next().unwrap().parse().expect(name)
}

fn bars(categories: usize, series: usize) -> BarChart {
    BarChart {
        title: "a <title> & more (simulated)".into(),
        y_label: "GB/s".into(),
        categories: (0..categories).map(|index| format!("({index},{}) both ways", index + 1)).collect(),
        series: (0..series)
            .map(|series| BarSeries {
                name: format!("series {series}"),
                is_reference: series == 0,
                bars: (0..categories)
                    .map(|index| (index != 1).then_some(Bar { value: index as f64 * 10.0 + 5.0, error: 2.0 }))
                    .collect(),
            })
            .collect(),
    }
}

#[test]
fn every_bar_is_drawn_inside_the_frame() {
    for (categories, series) in [(1, 1), (3, 2), (24, 2), (5, 4)] {
        let elements = elements(&bars(categories, series).to_svg());
        let (width, height) = (attribute(&elements[0].1, "width"), attribute(&elements[0].1, "height"));
        let drawn: Vec<_> =
            elements.iter().filter(|(name, body)| name == "rect" && !body.contains('%')).collect();
        let missing = if categories > 1 { series } else { 0 };
        // The legend has a square for each series.
        assert_eq!(drawn.len(), categories * series - missing + series);
        for (_, body) in drawn {
            assert!(attribute(body, "x") >= 0.0 && attribute(body, "y") >= 0.0);
            assert!(attribute(body, "x") + attribute(body, "width") <= width);
            assert!(attribute(body, "y") + attribute(body, "height") <= height);
        }
    }
}

#[test]
fn whiskers_are_drawn_where_they_can_be_seen() {
    let lines = |error: f64| {
        let mut chart = bars(3, 1);
        chart.series[0].bars[0] = Some(Bar { value: 20.0, error });
        elements(&chart.to_svg()).iter().filter(|(name, _)| name == "line").count()
    };
    assert_eq!(lines(2.0), lines(0.0) + 3);
    assert_eq!(lines(0.01), lines(0.0));
}

#[test]
fn heights_of_bars_are_in_proportion() {
    let elements = elements(&bars(4, 1).to_svg());
    let heights: Vec<f64> = elements
        .iter()
        .filter(|(name, body)| name == "rect" && body.contains("width=\"13.0\""))
        .map(|(_, body)| attribute(body, "height"))
        .collect();
    // The values are 5, 25 and 35.
    assert_eq!(heights.len(), 3);
    assert!((heights[1] / heights[0] - 5.0).abs() < 0.05 && (heights[2] / heights[0] - 7.0).abs() < 0.05);
}

#[test]
fn labels_are_slanted_only_where_they_would_touch() {
    let slanted = |chart: &BarChart| chart.to_svg().matches("rotate(-40").count();
    assert_eq!(slanted(&bars(24, 2)), 24);
    let mut short = bars(3, 2);
    short.categories = vec!["a".into(), "b".into(), "c".into()];
    assert_eq!(slanted(&short), 0);
}

fn lines(x_scale: Scale, y_scale: Scale, points: Vec<(f64, f64)>) -> LineChart {
    LineChart {
        title: "copies by size (measured)".into(),
        x_label: "bytes of one copy".into(),
        y_label: "GB/s".into(),
        x_scale,
        y_scale,
        series: vec![
            LineSeries { name: "one way".into(), is_reference: false, points },
            LineSeries { name: "nothing".into(), is_reference: true, points: vec![] },
        ],
    }
}

#[test]
fn every_point_that_a_scale_can_show_is_drawn() {
    let points = vec![(65536.0, 24.0), (1048576.0, 0.0), (16777216.0, 366.0)];
    for (scale, expected) in [(Scale::Linear, 3), (Scale::Log10, 2)] {
        let elements = elements(&lines(Scale::Log2Bytes, scale, points.clone()).to_svg());
        assert_eq!(elements.iter().filter(|(name, _)| name == "circle").count(), expected);
    }
}

#[test]
fn a_power_of_two_takes_the_same_room_everywhere() {
    let points = (10..20).map(|power| (2f64.powi(power), 1.0)).collect();
    let elements = elements(&lines(Scale::Log2Bytes, Scale::Linear, points).to_svg());
    let places: Vec<f64> =
        elements.iter().filter(|(name, _)| name == "circle").map(|(_, body)| attribute(body, "cx")).collect();
    let first = places[1] - places[0];
    assert!(first > 0.0);
    assert!(places.windows(2).all(|pair| (pair[1] - pair[0] - first).abs() < 0.2), "{places:?}");
}

#[test]
fn charts_without_data_are_charts() {
    elements(&lines(Scale::Log10, Scale::Log10, vec![]).to_svg());
    elements(&bars(0, 0).to_svg());
    elements(&bars(0, 2).to_svg());
}
