//! Runs as a picture: dollars an hour and waiting pods over time, as SVG.

use dovetail_input::{Failure, describe};
use dovetail_simulation::record::{Seen, Series};
use plotters::prelude::*;

use super::figures::Figures;
use crate::live::escape::escape;

const SIZE: (u32, u32) = (960, 640);
const COLOURS: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(255, 127, 14),
    RGBColor(23, 190, 207),
];
/// Most points of a curve.
const MOST_POINTS: usize = 1_000;

/// Draws the runs into a file.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(path: &str, all: &[Figures]) -> Result<(), Failure> {
    let text = draw(all).map_err(|why| Failure::System(format!("{path}: the picture cannot be drawn: {why}")))?;
    std::fs::write(path, text).map_err(|why| Failure::System(format!("{path}: {}", describe(&why))))
}

fn draw(all: &[Figures]) -> Result<String, String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|why| why.to_string())?;
        let panels = area.split_evenly((2, 1));
        let curves: [(&str, fn(&Seen) -> f64); 2] =
            [("dollars an hour", |seen| seen.price_per_hour), ("pods that wait", |seen| seen.pending as f64)];
        for (panel, (title, value)) in panels.iter().zip(curves) {
            curve(panel, title, all, value).map_err(|why| why.to_string())?;
        }
        area.present().map_err(|why| why.to_string())?;
    }
    Ok(text)
}

type Panel<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn curve(
    panel: &Panel<'_>,
    title: &str,
    all: &[Figures],
    value: fn(&Seen) -> f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let hours = all.iter().filter_map(|one| one.series.all.last()).map(|last| last.t / 3600.0).fold(0.01, f64::max);
    let values = all.iter().flat_map(|one| &one.series.all).map(|one| value(&one.seen));
    let top = values.fold(0.0, f64::max).max(0.001) * 1.1;
    let mut chart = ChartBuilder::on(panel)
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..hours, 0.0..top)?;
    chart.configure_mesh().light_line_style(WHITE).x_desc("hours").draw()?;
    for (at, one) in all.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let drawn = chart.draw_series(LineSeries::new(points(&one.series, value), colour.stroke_width(2)))?;
        drawn
            .label(escape(&one.name))
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

/// The points of a curve, thinned out by whole steps; the largest value of each step stays.
fn points(series: &Series, value: fn(&Seen) -> f64) -> Vec<(f64, f64)> {
    let step = series.all.len().div_ceil(MOST_POINTS).max(1);
    let largest = |some: &[dovetail_simulation::record::SeenAt]| {
        let first = some.first()?;
        let most = some.iter().map(|one| value(&one.seen)).fold(f64::NEG_INFINITY, f64::max);
        Some((first.t / 3600.0, most))
    };
    series.all.chunks(step).filter_map(largest).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use dovetail_simulation::record::SeenAt;

    use super::*;

    #[test]
    fn picture_has_a_curve_for_each_run_and_names_are_text() {
        let seen = |t: f64, price_per_hour: f64| SeenAt { t, seen: Seen { price_per_hour, ..Seen::default() } };
        let series = Series { all: (0..3_000).map(|at| seen(f64::from(at) * 30.0, f64::from(at % 7))).collect() };
        let run = |name: &str| Figures { name: name.to_owned(), series: series.clone(), ..Figures::default() };
        let text = draw(&[run("as recorded"), run("<b>&\u{1b}")]).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
        assert!(text.matches("<polyline").count() >= 4);
        assert!(text.contains("as recorded") && !text.contains("<b>") && !text.contains('\u{1b}'));
        assert!(points(&series, |seen| seen.price_per_hour).len() <= MOST_POINTS);
    }
}
