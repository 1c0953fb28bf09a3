//! Figures: the contents of a picture. [`picture`](super::picture) draws them.

use serde::Serialize;

/// An axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// Its quantity, with the unit.
    pub label: String,
    /// Equal steps are equal factors.
    pub logarithmic: bool,
    /// Names of the places 0, 1, 2..., for an axis of names instead of numbers.
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

/// Drawing of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// A curve.
    Line,
    /// A curve with a mark at each point.
    LineAndPoints,
    /// Marks that no curve connects.
    Points,
    /// Small points: many of them.
    Dots,
    /// Hollow black marks: values that a paper gives.
    Paper,
    /// A dashed black line: a value that a paper gives for a whole course, or a limit.
    Reference,
    /// Bars, side by side.
    Bars,
    /// Parts of bars, each on top of the series before it.
    Stacked,
}

/// Points with a name.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Its drawing.
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
    /// Its subject, and the paper's figure that it follows.
    pub title: String,
    /// Left to right.
    pub x: Axis,
    /// Bottom to top; with names, the first is on top.
    pub y: Axis,
    /// Data to draw.
    pub series: Vec<Series>,
}

impl Figure {
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
}
