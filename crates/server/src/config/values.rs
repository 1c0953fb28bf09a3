//! Sizes and times as people write them.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error as _};
use shingle_base::ByteSize;

/// A number of bytes, or text such as `256 MiB`.
pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<u64, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Size {
        Bytes(u64),
        Text(String),
    }
    match Size::deserialize(deserializer)? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Text(text) => text.parse::<ByteSize>().map(|size| size.0).map_err(D::Error::custom),
    }
}

pub(super) fn maybe_size<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<u64>, D::Error> {
    size(deserializer).map(Some)
}

/// A time such as `30 days`, or `off`.
pub(super) fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Duration>, D::Error> {
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
    // What is longer than a life is a mistake, and no clock goes so far.
    let seconds = seconds.filter(|seconds| (1..=100 * 365 * 24 * 60 * 60).contains(seconds)).ok_or_else(bad)?;
    Ok(Some(Duration::from_secs(seconds)))
}
