//! Sizes and times as people write them.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use shingle_base::ByteSize;
use shingle_translation_layers::Layer;

/// A number of bytes, or text such as `256 MiB`.
struct Size;

impl Visitor<'_> for Size {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, or text such as `256 MiB`")
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<u64, E> {
        Ok(bytes)
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<u64, E> {
        u64::try_from(bytes).map_err(|_| E::invalid_value(Unexpected::Signed(bytes), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        text.parse::<ByteSize>().map(|size| size.0).map_err(E::custom)
    }
}

pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Size)
}

pub(super) fn maybe_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    size(deserializer).map(Some)
}

pub(super) fn layer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Layer, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// A time such as `30 days`, or `off`.
pub(super) fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bad = || D::Error::custom(format!("`{text}` is no time: write `30 days`, `12 hours`, or `off`"));
    let trimmed = text.trim();
    if trimmed == "off" {
        return Ok(None);
    }
    let digits = trimmed.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let (number, unit) = trimmed.split_at(digits);
    let seconds = match unit.trim().trim_end_matches('s') {
        "" if unit.trim() == "s" => 1,
        "sec" | "second" => 1,
        "min" | "minute" => 60,
        "h" | "hour" => 60 * 60,
        "d" | "day" => 24 * 60 * 60,
        "week" => 7 * 24 * 60 * 60,
        _ => return Err(bad()),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
    // A time longer than a life is a mistake, and no clock goes so far.
    let seconds = seconds.filter(|seconds| (1..=100 * 365 * 24 * 60 * 60).contains(seconds)).ok_or_else(bad)?;
    Ok(Some(Duration::from_secs(seconds)))
}
