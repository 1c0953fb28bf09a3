//! Questions, and the lines of answers.
//!
//! Server and command should be of one version: a server reports an unknown question, a command an unknown line.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shingle_array_store::{DriveId, DriveInspection, Inspection, RecoveryReport, Stats};
use shingle_base::StoreId;
use shingle_store_api::{Named, Touched};

use crate::error::{Error, ErrorKind, Result};

/// Question of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Question {
    /// `object ls`.
    ObjectLs {
        /// Beginning of keys.
        prefix: String,
    },
    /// `object stat`.
    ObjectStat {},
    /// `object check`.
    ObjectCheck {
        /// Without reading the objects.
        quick: bool,
    },
    /// `array ls`.
    ArrayLs {
        /// The array: nodes or files of its present drives.
        drives: Vec<PathBuf>,
        /// Beginning of names, in the array.
        prefix: String,
    },
    /// `array stat`.
    ArrayStat {
        /// As above.
        drives: Vec<PathBuf>,
        /// An object; the array if `None`.
        name: Option<String>,
    },
    /// `array check`.
    ArrayCheck {
        /// As above.
        drives: Vec<PathBuf>,
        /// Without reading the objects.
        quick: bool,
    },
}

/// A line of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    /// An object in a bucket.
    Object { bucket: String, key: String, size: u64, etag: String },
    /// An object of an array, by its name there in hexadecimal.
    ArrayObject { name: String, size: u64, version: u64 },
    /// Totals of the drives that belong to no array.
    Stored { objects: u64, live_bytes: u64, files: u64, file_bytes: u64 },
    /// Totals of an array.
    ArrayStored { array: String, objects: u64, live_bytes: u64, capacity_bytes: u64 },
    /// Totals of a blue store.
    BlueStored { blue: String, objects: u64, live_bytes: u64, capacity_bytes: u64 },
    /// State of an array.
    Standing(Box<Standing>),
    /// Progress of a check of the drives, in bytes.
    Drives { done: u64, all: u64 },
    /// Progress of a check of an array.
    Sets { array: String, done: usize, sets: usize, bytes: u64, damaged: usize },
    /// End of the check of the drives. Findings came before.
    Checked { objects: u64, entries: u64, bytes: u64, damage_more: u64, unnamed: bool },
    /// End of the check of an array. Findings came before.
    ArrayChecked { array: String, objects: u64, sets: usize, bytes: u64 },
    /// An array could not be checked.
    Unchecked { array: String, message: String },
    /// A blue store was not checked.
    BlueUnchecked { blue: String, message: String },
    /// Something that a check found, in words, and the objects that it touches.
    Found {
        what: Found,
        words: String,
        #[serde(default)]
        objects: Objects,
    },
    /// A damaged object or upload.
    Damaged { upload: bool, bucket: String, key: String },
    /// The server is at work.
    Alive,
    /// That was all.
    End,
    /// It could not be answered.
    Refused { why: Refusal, message: String },
}

/// Kind of a check's finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Found {
    Damage,
    MissingDrive,
    Buffer,
    Repairable,
    Lost,
    Away,
}

/// Objects that damage touches, as they are told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Objects {
    /// In words, and with bucket and key.
    first: Vec<(String, Option<(String, String)>)>,
    more: u64,
    untold: bool,
}

impl From<Touched> for Objects {
    fn from(Touched { first, more, untold }: Touched) -> Self {
        Self { first: first.into_iter().map(|Named { words, object }| (words, object)).collect(), more, untold }
    }
}

impl From<Objects> for Touched {
    fn from(Objects { first, more, untold }: Objects) -> Self {
        Self { first: first.into_iter().map(|(words, object)| Named { words, object }).collect(), more, untold }
    }
}

/// Reason why a question is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Refusal {
    /// The server has no such array.
    NotMine,
    /// Anything else, in words.
    Other,
}

/// State of an array that a server has open.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayStanding {
    /// Identity of the array, and its drives.
    pub seen: Inspection,
    /// Fill level.
    pub stats: Stats,
    /// Report of opening it.
    pub report: RecoveryReport,
}

/// The same as it is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Standing {
    array: u64,
    generation: u64,
    code: (u8, u8),
    segment_length: u32,
    clean: bool,
    buffered: bool,
    snapshot_bytes: u64,
    drives: Vec<Drive>,
    sets: [usize; 6],
    objects: u64,
    live: u64,
    capacity: u64,
    waiting: u64,
    index_taken: bool,
    snapshot_pieces: usize,
    snapshot_lost: bool,
    sets_examined: usize,
    digests: usize,
    incomplete: u64,
    missing_drives: Vec<String>,
    damage: Vec<String>,
    took: [Duration; 3],
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Drive {
    id: u8,
    name: String,
    given: Option<usize>,
    in_use: bool,
    removed: bool,
    zones: u32,
    zone_capacity: u32,
}

impl From<&ArrayStanding> for Standing {
    fn from(of: &ArrayStanding) -> Self {
        let ArrayStanding { seen, stats, report } = of;
        let drive = |drive: &DriveInspection| Drive {
            id: drive.id.0,
            name: drive.name.clone(),
            given: drive.given,
            in_use: drive.in_use,
            removed: drive.removed,
            zones: drive.zones,
            zone_capacity: drive.zone_capacity,
        };
        Self {
            array: seen.array.0,
            generation: seen.generation,
            code: (seen.code.data() as u8, seen.code.parity() as u8),
            segment_length: seen.segment_length,
            clean: seen.clean,
            buffered: seen.buffered,
            snapshot_bytes: seen.snapshot_bytes,
            drives: seen.drives.iter().map(drive).collect(),
            sets: stats.sets,
            objects: stats.objects,
            live: stats.live,
            capacity: stats.capacity,
            waiting: stats.buffered,
            index_taken: report.clean,
            snapshot_pieces: report.snapshot_pieces,
            snapshot_lost: report.snapshot_lost,
            sets_examined: report.sets_examined,
            digests: report.digests,
            incomplete: report.incomplete,
            missing_drives: report.missing_drives.clone(),
            damage: report.damage.clone(),
            took: report.took,
        }
    }
}

impl TryFrom<Standing> for ArrayStanding {
    type Error = Error;

    fn try_from(told: Standing) -> Result<Self> {
        let drive = |drive: Drive| DriveInspection {
            id: DriveId(drive.id),
            name: drive.name,
            given: drive.given,
            in_use: drive.in_use,
            removed: drive.removed,
            zones: drive.zones,
            zone_capacity: drive.zone_capacity,
        };
        let (data, parity) = told.code;
        let code = shingle_erasure::Code::new(data, parity).map_err(|error| {
            Error::new(ErrorKind::System, format!("the server reports an impossible code: {error}"))
        })?;
        let seen = Inspection {
            array: StoreId(told.array),
            generation: told.generation,
            code,
            segment_length: told.segment_length,
            clean: told.clean,
            buffered: told.buffered,
            snapshot_bytes: told.snapshot_bytes,
            drives: told.drives.into_iter().map(drive).collect(),
            sets: Vec::new(),
        };
        let stats = Stats {
            sets: told.sets,
            objects: told.objects,
            live: told.live,
            capacity: told.capacity,
            buffered: told.waiting,
            ..Stats::default()
        };
        let report = RecoveryReport {
            clean: told.index_taken,
            snapshot_pieces: told.snapshot_pieces,
            snapshot_lost: told.snapshot_lost,
            sets_examined: told.sets_examined,
            digests: told.digests,
            incomplete: told.incomplete,
            missing_drives: told.missing_drives,
            damage: told.damage,
            took: told.took,
            ..RecoveryReport::default()
        };
        Ok(Self { seen, stats, report })
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits; `None` if other characters are among them.
pub(crate) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_lines_are_words_that_stay() {
        let question = Question::ArrayLs { drives: vec!["/a".into()], prefix: "x".to_owned() };
        let text = serde_json::to_string(&question).unwrap();
        assert_eq!(text, r#"{"verb":"array-ls","drives":["/a"],"prefix":"x"}"#);
        assert_eq!(serde_json::from_str::<Question>(&text).unwrap(), question);
        assert_eq!(serde_json::to_string(&Question::ObjectStat {}).unwrap(), r#"{"verb":"object-stat"}"#);
        assert!(serde_json::from_str::<Question>(r#"{"verb":"object-ls","prefix":"","more":1}"#).is_err());
        assert_eq!(serde_json::to_string(&Line::End).unwrap(), r#""end""#);
        let refused = Line::Refused { why: Refusal::NotMine, message: "m".to_owned() };
        assert_eq!(serde_json::to_string(&refused).unwrap(), r#"{"refused":{"why":"not-mine","message":"m"}}"#);
    }

    #[test]
    fn names_of_any_bytes_come_over_as_they_are() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&all)), Some(all));
        for wrong in ["0", "0g", "é", "+1"] {
            assert_eq!(unhex(wrong).filter(|_| wrong != "+1"), None, "{wrong}");
        }
    }
}
