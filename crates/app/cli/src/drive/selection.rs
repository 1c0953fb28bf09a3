//! Zones for a command: `5 7-12`, or all.

use std::collections::BTreeSet;
use std::str::FromStr;

use clap::Args;

use crate::failure::{Failure, Outcome};

/// A zone, or a range with both ends in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZoneRange {
    first: u32,
    last: u32,
}

impl FromStr for ZoneRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
            let wrong = || format!("`{text}` is no zone: zones are numbers such as 5, or ranges such as 7-12");
            if digits { text.parse::<u32>().map_err(|_| wrong()) } else { Err(wrong()) }
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = Self { first: number(first)?, last: number(last)? };
        if range.first > range.last { Err(format!("the range {text} ends before it begins")) } else { Ok(range) }
    }
}

/// The zones to work on.
#[derive(Args)]
pub(crate) struct Selection {
    /// Zones: numbers and ranges, such as 5 7-12 [default: none; --all is required then].
    #[arg(value_name = "ZONE", required_unless_present = "all", conflicts_with = "all")]
    zones: Vec<ZoneRange>,
    /// Every zone for which the command means anything.
    #[arg(long)]
    pub(crate) all: bool,
}

impl Selection {
    /// The zones that were named, each once and in order; without `--all`.
    ///
    /// # Errors
    /// The drive does not have a zone.
    pub(crate) fn named(&self, zone_count: u32) -> Outcome<BTreeSet<u32>> {
        if let Some(past) = self.zones.iter().find(|range| range.last >= zone_count) {
            let (last, most) = (past.last, zone_count.saturating_sub(1));
            return Err(Failure::new(format!("the drive has no zone {last}: its zones are 0 to {most}")));
        }
        Ok(self.zones.iter().flat_map(|range| range.first..=range.last).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(texts: &[&str]) -> Selection {
        Selection { zones: texts.iter().map(|text| text.parse().unwrap()).collect(), all: false }
    }

    #[test]
    fn numbers_and_ranges_are_taken_once_and_in_order() {
        let zones = select(&["7-9", "5", "8-10"]).named(11).unwrap();
        assert_eq!(zones.into_iter().collect::<Vec<_>>(), [5, 7, 8, 9, 10]);
    }

    #[test]
    fn what_is_no_zone_is_refused() {
        for text in ["", "-", "-3", "3-", "9-7", "+1", "a", "1-2-3", "4294967296"] {
            assert!(text.parse::<ZoneRange>().is_err(), "{text}");
        }
        assert!(select(&["0-4294967295"]).named(11).unwrap_err().message.contains("0 to 10"));
    }
}
