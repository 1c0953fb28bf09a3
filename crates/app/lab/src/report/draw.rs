//! Drawing a figure: title, legend above the data, axes, then one series after the other.
//!
//! Series differ in colour, in dashes and in the shape of their marks, so that they can be told apart in a grey print
//! and by an eye that sees no red. A paper's values are black and hollow.

use std::fmt::Display;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::dashes::dashes;
use super::figure::{Figure, Mark, Series};
use super::span::Span;
use crate::report::number::number;

const WIDTH: u32 = 900;
const HEIGHT: u32 = 560;

/// A row of an axis of names.
const ROW: u32 = 26;

/// Colours that stay apart in print and for colour-blind readers (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(110, 80, 40),
];

/// A store has the same colour in every figure.
const STORES: [(&str, usize); 6] = [
    ("SMRstore (paper's configuration)", 0),
    ("CS-Ext4 (on CMR)", 1),
    ("Shingle", 2),
    ("SMRstore-OneZone", 3),
    ("CS-F2FS", 4),
    ("CS-F2FS (past the conventional zones)", 5),
];

/// Dashes and gaps of lines of reference.
const REFERENCES: [(f64, f64); 4] = [(9.0, 6.0), (3.0, 4.0), (18.0, 5.0), (3.0, 10.0)];

const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(226, 226, 226);
const PAPER_BAR: RGBColor = RGBColor(170, 170, 170);

/// Points of a dashed line, at most.
const DASHED_MAX: usize = 120;

/// Text is taken to be this much wider than in the built-in font: a browser has its own.
const WIDER: f64 = 1.15;

/// The size of a figure's drawing.
pub(super) fn size(figure: &Figure) -> (u32, u32) {
    match figure.y.names.len() as u32 {
        0 => (WIDTH, HEIGHT),
        rows => (WIDTH, 150 + rows * ROW),
    }
}

/// Draws a figure, `scale` times as large.
pub(super) fn figure<B: DrawingBackend>(
    figure: &Figure,
    area: &DrawingArea<B, Shift>,
    scale: u32,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    area.fill(&WHITE)?;
    let paper = Canvas { area, scale: f64::from(scale) };
    let size = size(figure);
    let looks = looks(figure);
    let below = title(&paper, figure, f64::from(size.0))?;
    let top = legend(&paper, figure, &looks, below, f64::from(size.0))?;
    let plot = Plot::of(&paper, figure, top, size)?;
    plot.axes(&paper, figure)?;
    let sides = figure.series.iter().filter(|series| series.mark == Mark::Bars).count().max(1);
    let (mut side, mut below) = (0, Vec::new());
    for (series, look) in figure.series.iter().zip(&looks) {
        match series.mark {
            Mark::Bars => {
                let width = 0.8 / sides as f64;
                let from = -0.4 + width * f64::from(side);
                side += 1;
                for &(x, height) in &series.points {
                    plot.bar(&paper, (x + from, x + from + width * 0.92), (plot.y.first(), height), look.colour)?;
                    let at = plot.place((x + from + width * 0.46, height));
                    if plot.width * width / figure.x.names.len().max(1) as f64 > 26.0 {
                        paper.text((at.0, at.1 - 9.0), &number(height), 12.0, Anchor::Middle)?;
                    }
                }
            }
            Mark::Stacked => {
                below.resize(figure.x.names.len(), 0.0);
                for &(x, height) in &series.points {
                    if let Some(base) = below.get_mut(x.round() as usize) {
                        plot.bar(&paper, (x - 0.32, x + 0.32), (*base, *base + height), look.colour)?;
                        *base += height;
                    }
                }
            }
            _ => plot.marks(&paper, series, look)?,
        }
    }
    for (at, &height) in below.iter().enumerate() {
        let place = plot.place((at as f64, height));
        paper.text((place.0, place.1 - 9.0), &number(height), 12.0, Anchor::Middle)?;
    }
    Ok(())
}

/// Look of one series.
#[derive(Clone, Copy)]
struct Look {
    colour: RGBColor,
    /// Dash and gap; none for a whole line.
    dash: Option<(f64, f64)>,
    shape: usize,
}

fn looks(figure: &Figure) -> Vec<Look> {
    let known = |series: &Series| STORES.iter().find(|store| store.0 == series.name).map(|store| store.1);
    let mut free = (0..COLOURS.len()).filter(|&at| !figure.series.iter().any(|series| known(series) == Some(at)));
    let (mut papers, mut others) = (0, 0);
    let mut look = |(at, series): (usize, &Series)| match series.mark {
        Mark::Paper | Mark::Reference => {
            // Neighbours of one name, as two limits are, look alike.
            papers += usize::from(at == 0 || figure.series[at - 1].name != series.name);
            Look {
                colour: BLACK,
                dash: Some(REFERENCES[(papers.max(1) - 1) % REFERENCES.len()]),
                shape: papers.max(1) - 1,
            }
        }
        Mark::Bars | Mark::Stacked if series.name.starts_with("paper") => {
            Look { colour: PAPER_BAR, dash: None, shape: 0 }
        }
        mark => {
            let at = known(series).or_else(|| free.next()).unwrap_or(others % COLOURS.len());
            others += 1;
            let dash = match (others - 1) % 3 {
                _ if mark != Mark::Line && mark != Mark::LineAndPoints => None,
                // Dashes of a line that goes up and down at every step cannot be followed.
                _ if series.points.len() > DASHED_MAX => None,
                0 => None,
                1 => Some((11.0, 5.0)),
                _ => Some((3.0, 4.0)),
            };
            Look { colour: COLOURS[at], dash, shape: others - 1 }
        }
    };
    figure.series.iter().enumerate().map(&mut look).collect()
}

/// Draws the title in as many lines as it needs, and returns where these end.
fn title<B: DrawingBackend>(
    paper: &Canvas<'_, B>,
    figure: &Figure,
    width: f64,
) -> Result<f64, DrawingAreaErrorKind<B::ErrorType>> {
    let lines = paper.wrapped(&figure.title, 18.0, width - 32.0)?;
    for (number, line) in lines.iter().enumerate() {
        paper.text((16.0, 22.0 + 22.0 * number as f64), line, 18.0, Anchor::Left)?;
    }
    Ok(12.0 + 22.0 * lines.len() as f64)
}

/// Draws the names of the series in rows between the title and the data, and returns where these end.
fn legend<B: DrawingBackend>(
    paper: &Canvas<'_, B>,
    figure: &Figure,
    looks: &[Look],
    below: f64,
    width: f64,
) -> Result<f64, DrawingAreaErrorKind<B::ErrorType>> {
    let (mut x, mut y) = (18.0, below + 16.0);
    if figure.series.len() < 2 {
        return Ok(below + 10.0);
    }
    for (at, (series, look)) in figure.series.iter().zip(looks).enumerate() {
        if at > 0 && figure.series[at - 1].name == series.name {
            continue;
        }
        let wide = 36.0 + paper.width_of(&series.name, 13.0)? + 18.0;
        if x > 18.0 && x + wide > width {
            (x, y) = (18.0, y + 20.0);
        }
        match series.mark {
            Mark::Bars | Mark::Stacked => paper.rectangle((x + 8.0, y - 6.0), (x + 26.0, y + 6.0), look.colour)?,
            // A dot of the data is too small to show its colour beside a name.
            Mark::Dots => paper.shape((x + 14.0, y), &Look { shape: 0, ..*look }, Mark::Points)?,
            Mark::Points | Mark::Paper => paper.shape((x + 14.0, y), look, series.mark)?,
            Mark::Line | Mark::Reference => paper.line(&[(x, y), (x + 28.0, y)], look, 2.5)?,
            Mark::LineAndPoints => {
                paper.line(&[(x, y), (x + 28.0, y)], look, 2.5)?;
                paper.shape((x + 14.0, y), look, series.mark)?;
            }
        }
        paper.text((x + 34.0, y), &series.name, 13.0, Anchor::Left)?;
        x += wide;
    }
    Ok(y + 18.0)
}

/// Area of the data in pixels, and the span of the axes.
struct Plot {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    x: Span,
    y: Span,
    /// The first name of the vertical axis is on top.
    downwards: bool,
}

impl Plot {
    fn of<B: DrawingBackend>(
        paper: &Canvas<'_, B>,
        figure: &Figure,
        top: f64,
        size: (u32, u32),
    ) -> Result<Self, DrawingAreaErrorKind<B::ErrorType>> {
        let stacked = || figure.series.iter().filter(|series| series.mark == Mark::Stacked);
        let all = |value: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            figure.series.iter().flat_map(|series| series.points.iter().map(value)).collect()
        };
        let mut heights = all(|point| point.1);
        heights.extend((0..figure.x.names.len()).map(|at| {
            let of = |series: &Series| {
                series.points.iter().filter(|point| point.0 == at as f64).map(|point| point.1).sum::<f64>()
            };
            stacked().map(of).sum::<f64>()
        }));
        let bars = figure.series.iter().any(|series| matches!(series.mark, Mark::Bars | Mark::Stacked));
        let (x, y) = (Span::of(&figure.x, &all(|point| point.0), false), Span::of(&figure.y, &heights, bars));
        let mut label_width = 0.0_f64;
        for (_, text) in y.ticks(8) {
            label_width = label_width.max(paper.width_of(&text, 13.0)?);
        }
        let left = 16.0 + label_width + 10.0 + if figure.y.label.is_empty() { 0.0 } else { 24.0 };
        let below = if figure.x.names.is_empty() { 24.0 } else { 42.0 };
        let bottom = below + if figure.x.label.is_empty() { 8.0 } else { 30.0 };
        let (width, height) = (f64::from(size.0) - left - 28.0, f64::from(size.1) - top - bottom);
        Ok(Self { left, top, width, height, x, y, downwards: !figure.y.names.is_empty() })
    }

    fn place(&self, point: (f64, f64)) -> (f64, f64) {
        let up = self.y.share(point.1);
        let down = if self.downwards { up } else { 1.0 - up };
        (self.left + self.width * self.x.share(point.0), self.top + self.height * down)
    }

    /// Lines at the marked places, with their texts.
    fn axes<B: DrawingBackend>(
        &self,
        paper: &Canvas<'_, B>,
        figure: &Figure,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let (right, bottom) = (self.left + self.width, self.top + self.height);
        let thin = |colour| Look { colour, dash: None, shape: 0 };
        for (at, text) in self.y.ticks(8) {
            let y = self.place((0.0, at)).1;
            paper.line(&[(self.left, y), (right, y)], &thin(GRID), 1.0)?;
            paper.text((self.left - 8.0, y), &text, 13.0, Anchor::Right)?;
        }
        let named = !figure.x.names.is_empty();
        let ticks = self.x.ticks((self.width / 80.0) as usize);
        let room = self.width / ticks.len().max(1) as f64 - 8.0;
        for (at, text) in ticks {
            let x = self.place((at, 0.0)).0;
            if !named {
                paper.line(&[(x, self.top), (x, bottom)], &thin(GRID), 1.0)?;
            }
            for (number, line) in paper.wrapped(&text, 13.0, room)?.into_iter().enumerate() {
                paper.text((x, bottom + 14.0 + 16.0 * number as f64), &line, 13.0, Anchor::Middle)?;
            }
        }
        paper.line(&[(self.left, self.top), (self.left, bottom), (right, bottom)], &thin(INK), 1.0)?;
        let middle = (self.left + self.width / 2.0, self.top + self.height / 2.0);
        let foot = f64::from(size(figure).1) - 16.0;
        paper.text((middle.0, foot), &figure.x.label, 14.0, Anchor::Middle)?;
        paper.text((14.0, middle.1), &figure.y.label, 14.0, Anchor::Upwards)
    }

    fn bar<B: DrawingBackend>(
        &self,
        paper: &Canvas<'_, B>,
        x: (f64, f64),
        y: (f64, f64),
        colour: RGBColor,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        paper.rectangle(self.place((x.0, y.1)), self.place((x.1, y.0)), colour)
    }

    fn marks<B: DrawingBackend>(
        &self,
        paper: &Canvas<'_, B>,
        series: &Series,
        look: &Look,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let sound = series.points.iter().filter(|point| point.0.is_finite() && point.1.is_finite());
        let places: Vec<(f64, f64)> = sound.map(|&point| self.place(point)).collect();
        if matches!(series.mark, Mark::Line | Mark::LineAndPoints | Mark::Reference) {
            paper.line(&places, look, if places.len() > DASHED_MAX { 1.5 } else { 2.5 })?;
        }
        if matches!(series.mark, Mark::Points | Mark::Dots | Mark::LineAndPoints | Mark::Paper) {
            for &place in &places {
                paper.shape(place, look, series.mark)?;
            }
        }
        Ok(())
    }
}

/// Position of a text relative to its place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Anchor {
    /// It begins there.
    Left,
    /// Its middle is there.
    Middle,
    /// It ends there.
    Right,
    /// Its middle is there, and it is read from below.
    Upwards,
}

/// Surface to draw on, in the pixels of a figure of scale 1.
struct Canvas<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    scale: f64,
}

type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

impl<B: DrawingBackend> Canvas<'_, B> {
    fn pixel(&self, place: (f64, f64)) -> (i32, i32) {
        ((place.0 * self.scale).round() as i32, (place.1 * self.scale).round() as i32)
    }

    fn font(&self, size: f64) -> TextStyle<'static> {
        ("sans-serif", size * self.scale).into_text_style(self.area).color(&INK)
    }

    fn width_of(&self, text: impl Display, size: f64) -> Result<f64, DrawingAreaErrorKind<B::ErrorType>> {
        let (width, _) = self.area.estimate_text_size(&text.to_string(), &self.font(size))?;
        Ok(f64::from(width) / self.scale * WIDER)
    }

    /// A text in lines of at most this width, as far as its words allow.
    fn wrapped(&self, text: &str, size: f64, room: f64) -> Result<Vec<String>, DrawingAreaErrorKind<B::ErrorType>> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split(' ') {
            let longer = lines.last().map(|line| format!("{line} {word}"));
            match (lines.last_mut(), longer) {
                (Some(line), Some(longer)) if self.width_of(&longer, size)? <= room => *line = longer,
                _ => lines.push(word.to_owned()),
            }
        }
        Ok(lines)
    }

    fn text(&self, place: (f64, f64), text: &str, size: f64, anchor: Anchor) -> Drawn<B> {
        let across = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Middle | Anchor::Upwards => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        let mut style = self.font(size).pos(Pos::new(across, VPos::Center));
        if anchor == Anchor::Upwards {
            style = style.transform(FontTransform::Rotate270);
        }
        // The built-in font has no narrow gap, and shows a box for it.
        self.area.draw(&Text::new(text.replace('\u{202f}', " "), self.pixel(place), style))
    }

    fn rectangle(&self, from: (f64, f64), to: (f64, f64), colour: RGBColor) -> Drawn<B> {
        self.area.draw(&Rectangle::new([self.pixel(from), self.pixel(to)], colour.filled()))
    }

    fn line(&self, places: &[(f64, f64)], look: &Look, width: f64) -> Drawn<B> {
        let stroke = look.colour.stroke_width((width * self.scale).round() as u32);
        let Some((dash, gap)) = look.dash else {
            let pixels: Vec<_> = places.iter().map(|&place| self.pixel(place)).collect();
            return self.area.draw(&PathElement::new(pixels, stroke));
        };
        dashes(places, dash, gap).into_iter().try_for_each(|part| {
            let pixels: Vec<_> = part.into_iter().map(|place| self.pixel(place)).collect();
            self.area.draw(&PathElement::new(pixels, stroke))
        })
    }

    /// A mark: small and full for data, large and hollow for a paper's.
    fn shape(&self, (x, y): (f64, f64), look: &Look, mark: Mark) -> Drawn<B> {
        if mark == Mark::Dots {
            let radius = (1.5 * self.scale).round() as i32;
            return self.area.draw(&Circle::new(self.pixel((x, y)), radius, look.colour.filled()));
        }
        let size = if mark == Mark::Paper { 6.5 } else { 4.5 };
        let corners: &[(f64, f64)] = match look.shape % 5 {
            0 => &[],
            1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
            3 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
            _ => &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
        };
        let mut outline: Vec<_> = corners.iter().map(|(dx, dy)| self.pixel((x + dx * size, y + dy * size))).collect();
        let full = look.colour.filled();
        let hollow = look.colour.stroke_width((2.0 * self.scale) as u32);
        match (outline.first().copied(), mark == Mark::Paper) {
            (None, true) => {
                // On a white ring, so that it is seen on bars too.
                let (place, radius) = (self.pixel((x, y)), (size * self.scale) as i32);
                self.area.draw(&Circle::new(place, radius, WHITE.stroke_width((5.0 * self.scale) as u32)))?;
                self.area.draw(&Circle::new(place, radius, hollow))
            }
            (None, false) => self.area.draw(&Circle::new(self.pixel((x, y)), (size * self.scale) as i32, full)),
            (Some(_), false) => self.area.draw(&Polygon::new(outline, full)),
            (Some(first), true) => {
                outline.push(first);
                let halo = WHITE.stroke_width((5.0 * self.scale) as u32);
                self.area.draw(&PathElement::new(outline.clone(), halo))?;
                self.area.draw(&PathElement::new(outline, hollow))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figure::Axis;

    #[test]
    fn a_long_title_goes_on_below_itself() {
        let title = "Blocks of a region, of anywhere, and of the region again, after a pause, of a drive with a long name (Figure 2.13)";
        let series = vec![Series::new("reads", Mark::Dots, vec![(0.0, 1.0)])];
        let (x, y) = (Axis::linear("x"), Axis::linear("y"));
        let svg = Figure { name: "f".to_owned(), title: title.to_owned(), x, y, series }.svg().unwrap();
        assert!(svg.contains("Blocks of a region") && svg.contains("2.13)") && !svg.contains(title), "{svg}");
    }

    /// Every kind of mark and axis, drawn without a file.
    #[test]
    fn whatever_a_figure_holds_is_drawn() {
        let marks = [
            Mark::Line,
            Mark::LineAndPoints,
            Mark::Points,
            Mark::Dots,
            Mark::Paper,
            Mark::Reference,
            Mark::Bars,
            Mark::Stacked,
        ];
        let axes = [
            Axis::linear("MB/s"),
            Axis::logarithmic("KiB"),
            Axis::of_names("", vec!["a b".to_owned(), "c".to_owned()]),
        ];
        for x in &axes {
            for y in &axes {
                let points = vec![(0.0, 1.0), (1.0, 1.0), (f64::NAN, 2.0)];
                let series = marks.iter().map(|&mark| Series::new(format!("{mark:?}"), mark, points.clone())).collect();
                let figure =
                    Figure { name: "f".to_owned(), title: "Title".to_owned(), x: x.clone(), y: y.clone(), series };
                let svg = figure.svg().unwrap();
                assert!(svg.starts_with("<svg") && svg.contains("Title") && svg.contains("Stacked"), "{svg}");
            }
        }
    }
}
