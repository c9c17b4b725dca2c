//! Throughput and latency over load as curves (SVG).

use plotters::prelude::*;

use super::{RenderError, Renderer};
use crate::outcome::{Curve, Outcome};

/// A picture of the curves.
#[derive(Debug, Clone, Copy)]
pub struct Svg;

impl Renderer for Svg {
    fn extension(&self) -> &'static str {
        "svg"
    }
    fn render(&self, outcome: &Outcome) -> Result<String, RenderError> {
        let curve = outcome.curve().ok_or(RenderError::NoCurve)?;
        let mut text = String::new();
        draw(curve, &mut text).map_err(|error| RenderError::Undrawn { reason: error.to_string() })?;
        Ok(text)
    }
}

fn draw(curve: &Curve, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let most = |of: fn(&(f64, f64, f64)) -> f64| curve.points.iter().map(of).fold(f64::MIN_POSITIVE, f64::max);
    let area = SVGBackend::with_string(text, (720, 440)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(&curve.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(58)
        .right_y_label_area_size(64)
        .build_cartesian_2d(0.0..most(|p| p.0) * 1.05, 0.0..most(|p| p.1).max(1.0) * 1.05)?
        .set_secondary_coord(0.0..most(|p| p.0) * 1.05, 0.0..most(|p| p.2) * 1.1);
    chart.configure_mesh().x_desc(curve.across).y_desc("throughput (share of the link rate)").light_line_style(WHITE).draw()?;
    chart.configure_secondary_axes().y_desc("mean latency (us)").draw()?;
    let throughput = || curve.points.iter().map(|p| (p.0, p.1));
    let latency = || curve.points.iter().map(|p| (p.0, p.2));
    let line = |color: RGBColor| move |(x, y): (i32, i32)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2));
    chart.draw_series(LineSeries::new(throughput(), BLUE_LINE.stroke_width(2)))?.label("throughput").legend(line(BLUE_LINE));
    chart.draw_series(throughput().map(|at| Circle::new(at, 3, BLUE_LINE.filled())))?;
    chart.draw_secondary_series(LineSeries::new(latency(), ORANGE_LINE.stroke_width(2)))?.label("mean latency").legend(line(ORANGE_LINE));
    chart.draw_secondary_series(latency().map(|at| Circle::new(at, 3, ORANGE_LINE.filled())))?;
    chart.configure_series_labels().position(SeriesLabelPosition::UpperLeft).border_style(BLACK.mix(0.3)).background_style(WHITE).draw()?;
    area.present()?;
    Ok(())
}

/// Colours that most people can tell apart (Okabe and Ito 2008).
const BLUE_LINE: RGBColor = RGBColor(0, 114, 178);
const ORANGE_LINE: RGBColor = RGBColor(213, 94, 0);
