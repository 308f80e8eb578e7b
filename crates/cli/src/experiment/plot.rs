//! A chart of bars in groups, as SVG: what the results so far need, in fewer lines than the use of
//! a plotting crate, and without its dependencies.

use std::fmt::Write as _;

/// Bars in groups, every group with one bar of each series.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    /// What the height of a bar is, with its unit.
    pub(super) axis: String,
    /// Names of the series.
    pub(super) series: Vec<String>,
    /// Names of the groups, with a height for each series: not negative.
    pub(super) groups: Vec<(String, Vec<f64>)>,
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 420.0;
/// Room for the axis at the left, for title and legend at the top, for names at the bottom.
const LEFT: f64 = 64.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 36.0;
/// Names in a line of the legend.
const LEGEND: usize = 3;
/// Distinct for the colour-blind as well (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];

/// The chart as a file.
pub(super) fn svg(chart: &Chart) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
        escaped(&chart.title)
    );
    let highest = chart.groups.iter().flat_map(|(_, bars)| bars).fold(0.0, |a: f64, b| a.max(*b));
    let step = step(highest);
    let top = (highest / step).ceil().max(1.0) * step;
    let floor = HEIGHT - BOTTOM;
    let y = |value: f64| floor - value / top * (floor - TOP);
    let mut tick = 0.0;
    while tick <= top * 1.000_1 {
        let at = y(tick);
        let _ = writeln!(
            text,
            "<path d=\"M{LEFT} {at:.1}H{WIDTH}\" stroke=\"#ddd\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            (tick * 1e6).round() / 1e6
        );
        tick += step;
    }
    let middle = (TOP + floor) / 2.0;
    let _ = writeln!(
        text,
        "<text transform=\"translate(14 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escaped(&chart.axis)
    );
    for (i, name) in chart.series.iter().enumerate() {
        let x = LEFT + (i % LEGEND) as f64 * (WIDTH - LEFT) / LEGEND as f64;
        let y = 34 + i / LEGEND * 18;
        let colour = COLOURS[i % COLOURS.len()];
        let _ = writeln!(
            text,
            "<rect x=\"{x:.1}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{}\">{}</text>",
            x + 18.0,
            y + 10,
            escaped(name)
        );
    }
    let wide = (WIDTH - LEFT) / chart.groups.len().max(1) as f64;
    for (g, (name, bars)) in chart.groups.iter().enumerate() {
        let left = LEFT + wide * (g as f64 + 0.1);
        let bar = wide * 0.8 / bars.len().max(1) as f64;
        for (i, value) in bars.iter().enumerate() {
            let decimals = if *value < 10.0 { 2 } else { 1 };
            let (x, at, colour) = (left + bar * i as f64, y(*value), COLOURS[i % COLOURS.len()]);
            let _ = writeln!(
                text,
                "<rect x=\"{x:.1}\" y=\"{at:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
                 font-size=\"10\">{value:.decimals$}</text>",
                bar * 0.9,
                floor - at,
                x + bar * 0.45,
                at - 3.0
            );
        }
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            left + wide * 0.4,
            floor + 18.0,
            escaped(name)
        );
    }
    text + "</svg>\n"
}

/// The distance of lines on the axis: 1, 2 or 5 times a power of ten, some five of them.
fn step(highest: f64) -> f64 {
    let rough = if highest > 0.0 { highest / 5.0 } else { 0.2 };
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|s| *s >= rough).unwrap_or(power)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_is_as_high_as_its_value() {
        let groups = vec![("UDP".into(), vec![1.0, 2.0]), ("TCP & more".into(), vec![0.0, 4.0])];
        let series = vec!["line".into(), "ring".into()];
        let svg = svg(&Chart { title: "t".into(), axis: "links".into(), series, groups });
        let heights: Vec<f64> = svg
            .lines()
            .filter(|l| l.contains("font-size=\"10\""))
            .filter_map(|l| l.split("height=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        // The axis ends at 4, 300 high.
        assert_eq!(heights, [75.0, 150.0, 0.0, 300.0]);
        assert!(svg.contains("TCP &amp; more") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn the_axis_has_round_numbers() {
        for (highest, wanted) in [(0.0, 0.2), (5.69, 2.0), (100.0, 20.0), (0.9, 0.2), (3.0, 1.0)] {
            assert!((step(highest) - wanted).abs() < 1e-9, "{highest}: {}", step(highest));
        }
    }
}
