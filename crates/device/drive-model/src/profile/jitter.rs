//! Deviations of a drive from its nominal times, drawn from a seed.

use serde::{Deserialize, Serialize};

/// Deviations of a drive from its nominal times. Drives with the same constants and different seeds are like two of one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// Everything below is drawn from it, and the angle of the platters at the start.
    pub seed: u64,
    /// The spindle's mean speed is off the nominal one by at most this, in millionths.
    #[serde(default)]
    pub spindle_ppm: u32,
    /// The platters are ahead of their mean speed, or behind it, by at most this, in microseconds. It changes within seconds.
    #[serde(default)]
    pub wander_us: u32,
    /// The host hears of a completion later, by this in the mean, in microseconds: of one in a hundred by 9 times as much, of one
    /// in 10,000 by 99 times.
    #[serde(default)]
    pub completion_us: f64,
}

impl Jitter {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.spindle_ppm > 50_000 || self.wander_us > 100_000 {
            return Err("spindle_ppm must be at most 50000, wander_us at most 100000".to_owned());
        }
        if !(0.0..=1e5).contains(&self.completion_us) {
            return Err("completion_us must be 0 to 100000".to_owned());
        }
        Ok(())
    }
}
