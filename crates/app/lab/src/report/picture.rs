//! Files of a figure: curves, points and bars, as SVG and PNG of the same drawing, and its points.
//!
//! [`draw`] has the looks, [`span`](super::span) the division of an axis.

use std::path::Path;
use std::sync::Once;

use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use super::draw;
use super::figure::Figure;
use crate::error::LabError;

impl Figure {
    /// Writes the figure as `NAME.svg`, `NAME.png` (twice as large) and `NAME.csv` into `folder`.
    ///
    /// # Errors
    /// A file that could not be written.
    pub fn write(&self, folder: &Path) -> Result<(), LabError> {
        let svg = folder.join(format!("{}.svg", self.name));
        std::fs::write(&svg, self.svg()?).map_err(|error| self.failed(&error))?;
        let png = folder.join(format!("{}.png", self.name));
        let (width, height) = draw::size(self);
        self.draw(BitMapBackend::new(&png, (2 * width, 2 * height)), 2)?;
        let csv = folder.join(format!("{}.csv", self.name));
        std::fs::write(&csv, self.csv()).map_err(|error| self.failed(&error))
    }

    /// The drawing, as the text of an SVG file.
    ///
    /// # Errors
    /// The drawing failed.
    pub fn svg(&self) -> Result<String, LabError> {
        let mut text = String::new();
        self.draw(SVGBackend::with_string(&mut text, draw::size(self)), 1)?;
        Ok(text)
    }

    fn draw<B: DrawingBackend>(&self, backend: B, scale: u32) -> Result<(), LabError> {
        load_font();
        let area = backend.into_drawing_area();
        draw::figure(self, &area, scale).map_err(|error| self.failed(&error))?;
        area.present().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> LabError {
        LabError(format!("the figure {} could not be drawn: {error}", self.name))
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
