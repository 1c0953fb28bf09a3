//! Pictures: curves, points and bars, as SVG and PNG of the same drawing.

use std::path::Path;
use std::sync::Once;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use serde::Serialize;

use crate::experiment::LabError;

/// An axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// Whether equal steps are equal factors.
    pub logarithmic: bool,
    /// Names of the places 0, 1, 2..., where it has names and not numbers.
    pub names: Vec<String>,
}

impl Axis {
    /// An axis with equal steps.
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), logarithmic: false, names: Vec::new() }
    }

    /// An axis with equal factors.
    pub fn logarithmic(label: &str) -> Self {
        Self { logarithmic: true, ..Self::linear(label) }
    }

    /// An axis of names, at 0, 1, 2 and so on.
    pub fn of_names(label: &str, names: Vec<String>) -> Self {
        Self { names, ..Self::linear(label) }
    }
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// A curve.
    Line,
    /// A curve with a mark at each point.
    LineAndPoints,
    /// Small points: many of them.
    Dots,
    /// Hollow circles: values that a paper gives.
    Paper,
    /// Bars.
    Bars,
}

/// Points with a name.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// What it shows.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series.
    pub fn new(name: impl Into<String>, mark: Mark, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark, points }
    }
}

/// A picture.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// The stem of its file names.
    pub name: String,
    /// What it shows, and the paper's figure that it follows.
    pub title: String,
    /// Left to right.
    pub x: Axis,
    /// Bottom to top.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
}

const SIZE: (u32, u32) = (900, 560);

/// Colours that stay apart in print and for colour-blind readers (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(70, 70, 70),
];

impl Figure {
    /// Writes the figure as `NAME.svg`, `NAME.png` and `NAME.csv` into `folder`.
    ///
    /// # Errors
    /// Where a file could not be written.
    pub fn write(&self, folder: &Path) -> Result<(), LabError> {
        load_font();
        let failed = |what: String| LabError(format!("the figure {} could not be drawn: {what}", self.name));
        let svg = folder.join(format!("{}.svg", self.name));
        self.draw(SVGBackend::new(&svg, SIZE).into_drawing_area()).map_err(&failed)?;
        let png = folder.join(format!("{}.png", self.name));
        self.draw(BitMapBackend::new(&png, SIZE).into_drawing_area()).map_err(&failed)?;
        let csv = folder.join(format!("{}.csv", self.name));
        std::fs::write(&csv, self.csv()).map_err(|error| failed(error.to_string()))
    }

    /// The points, a line each.
    pub fn csv(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let mut out = format!("series,{},{}\n", quoted(&self.x.label), quoted(&self.y.label));
        for series in &self.series {
            for (x, y) in &series.points {
                out.push_str(&format!("{},{x},{y}\n", quoted(&series.name)));
            }
        }
        out
    }

    fn draw<B: DrawingBackend>(&self, area: DrawingArea<B, plotters::coord::Shift>) -> Result<(), String> {
        self.try_draw(&area).map_err(|error| error.to_string())?;
        area.present().map_err(|error| error.to_string())
    }

    fn try_draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, plotters::coord::Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        area.fill(&WHITE)?;
        let (x, y) = (Span::of(&self.x, self.values(|point| point.0)), Span::of(&self.y, self.values(|point| point.1)));
        let mut chart = ChartBuilder::on(area)
            .margin(16)
            .caption(&self.title, ("sans-serif", 19))
            .x_label_area_size(46)
            .y_label_area_size(72)
            .build_cartesian_2d(x.clone(), y.clone())?;
        chart
            .configure_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_labels(12)
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(225, 225, 225))
            .label_style(("sans-serif", 14))
            .axis_desc_style(("sans-serif", 15))
            .draw()?;
        let bars = self.series.iter().filter(|series| series.mark == Mark::Bars).count().max(1);
        let (mut bar, mut colours) = (0, COLOURS.iter().cycle());
        for series in &self.series {
            let colour = *colours.next().unwrap_or(&BLACK);
            let points = || series.points.iter().copied();
            let drawn = match series.mark {
                Mark::Line => chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?,
                Mark::LineAndPoints => {
                    chart.draw_series(points().map(|point| Circle::new(point, 4, colour.filled())))?;
                    chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?
                }
                Mark::Dots => chart.draw_series(points().map(|point| Circle::new(point, 1, colour.filled())))?,
                Mark::Paper => chart.draw_series(points().map(|point| Circle::new(point, 6, BLACK.stroke_width(2))))?,
                Mark::Bars => {
                    let width = 0.8 / bars as f64;
                    let left = -0.4 + width * f64::from(bar);
                    bar += 1;
                    chart.draw_series(points().map(|(x, height)| {
                        Rectangle::new([(x + left, y.first), (x + left + width * 0.92, height)], colour.filled())
                    }))?
                }
            };
            let ink = if series.mark == Mark::Paper { BLACK } else { colour };
            drawn.label(&series.name).legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], ink.filled()));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(200, 200, 200))
            .label_font(("sans-serif", 14))
            .draw()
    }

    fn values(&self, value: impl Fn(&(f64, f64)) -> f64) -> Vec<f64> {
        self.series.iter().flat_map(|series| series.points.iter().map(&value)).collect()
    }
}

/// The range of an axis, in equal steps or equal factors, with places named or numbered.
#[derive(Clone)]
struct Span {
    first: f64,
    last: f64,
    logarithmic: bool,
    names: Vec<String>,
}

impl Span {
    fn of(axis: &Axis, values: Vec<f64>) -> Self {
        let (mut first, mut last) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(|value| value.is_finite() && (!axis.logarithmic || *value > 0.0)) {
            (first, last) = (first.min(value), last.max(value));
        }
        if first > last {
            (first, last) = (0.1, 1.0);
        }
        let names = axis.names.clone();
        if !names.is_empty() {
            (first, last) = (-0.6, names.len() as f64 - 0.4);
        } else if axis.logarithmic {
            (first, last) = (first / 1.3, last * 1.3);
        } else {
            // From zero, unless all is far from it.
            first = if first > 0.0 && first < last * 0.6 { 0.0 } else { first - (last - first) * 0.05 };
            last += (last - first).max(1e-9) * 0.08;
        }
        Self { first, last, logarithmic: axis.logarithmic, names }
    }
}

impl Ranged for Span {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let scale = |value: f64| if self.logarithmic { value.max(1e-12).ln() } else { value };
        let share = (scale(*value) - scale(self.first)) / (scale(self.last) - scale(self.first));
        limit.0 + (f64::from(limit.1 - limit.0) * share) as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if !self.names.is_empty() {
            return (0..self.names.len()).map(|place| place as f64).collect();
        }
        if self.logarithmic {
            // Powers of two where the axis spans few of them (block sizes), else of ten.
            let base: f64 = if self.last / self.first < 2000.0 { 2.0 } else { 10.0 };
            let from = (self.first.ln() / base.ln()).ceil() as i32;
            let to = (self.last.ln() / base.ln()).floor() as i32;
            return (from..=to).map(|power| base.powi(power)).collect();
        }
        let step = nice_step((self.last - self.first) / hint.max_num_points().clamp(2, 10) as f64);
        let from = (self.first / step).ceil() as i64;
        let to = (self.last / step).floor() as i64;
        (from..=to).map(|at| at as f64 * step).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.first..self.last
    }
}

impl ValueFormatter<f64> for Span {
    fn format_ext(&self, value: &f64) -> String {
        match self.names.get(value.round().max(0.0) as usize) {
            Some(name) => name.clone(),
            None if value.abs() >= 10_000.0 => format!("{value:.0}"),
            None => {
                let text = format!("{value:.3}");
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
        }
    }
}

/// The next of 1, 2, 5, 10, 20, 50 and so on.
fn nice_step(least: f64) -> f64 {
    let mut step = 1e-6;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if step * factor >= least {
                return step * factor;
            }
        }
        step *= 10.0;
    }
}

/// Figures look the same on every machine, so their font comes with the program.
fn load_font() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if register_font("sans-serif", FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT).is_err() {
            // The font is a constant: it is sound, or no figure was ever drawn.
            debug_assert!(false, "the built-in font is damaged");
        }
    });
}
