//! Figures of a benchmark.

use serde_json::{Value, json};

/// One figure: larger is better unless it is a time.
pub(crate) struct Figure {
    pub(crate) id: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) value: f64,
    pub(crate) limit: f64,
}

impl Figure {
    pub(super) fn json(&self) -> Value {
        json!({ "id": self.id, "unit": self.unit, "value": round(self.value), "limit": round(self.limit),
                "ratio": round(self.value / self.limit) })
    }
}

/// Rounds to four digits, the precision of a measurement.
pub(crate) fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powf(4.0 - value.abs().log10().ceil());
    (value * scale).round() / scale
}

/// The median of at least one sample.
pub(crate) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(0.0)
}
