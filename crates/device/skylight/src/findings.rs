//! Everything that is found out about a drive: what a run writes as JSON, and reads to go on where it stopped.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::exam::bands::Band;
use crate::exam::cache_location::CacheLocationFound;
use crate::exam::capacity::CapacityFound;
use crate::exam::cleaning::CleaningFound;
use crate::exam::drive_type::{DriveType, DriveTypeFound};
use crate::exam::journal::JournalFound;
use crate::exam::mapping::MappingFound;
use crate::exam::mechanics::Mechanics;
use crate::exam::streaming::Streaming;
use crate::exam::surface::SurfaceFound;
use crate::exam::torn::Torn;
use crate::exam::turn::Turn;

/// Version of the findings' JSON.
pub const SCHEMA: u32 = 1;

/// A band at a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BandAt {
    /// Share of the drive before the place.
    pub share: f64,
    /// The band there.
    pub band: Answer<Band>,
}

/// Findings; `None` is not examined yet, or not asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Name of the drive, as its user gave it.
    pub drive: String,
    /// Its blocks of 4 KiB.
    pub blocks: u64,
    /// Seed of the run.
    pub seed: u64,
    /// Seconds of the drive's time that the examinations took.
    pub seconds: f64,
    /// Time of a turn.
    pub turn: Option<Answer<Turn>>,
    /// Times of the arm.
    pub mechanics: Option<Mechanics>,
    /// Rates by position.
    pub surface: Option<SurfaceFound>,
    /// Type.
    pub drive_type: Option<DriveTypeFound>,
    /// Place of the cache.
    pub cache_location: Option<CacheLocationFound>,
    /// Cleaning.
    pub cleaning: Option<CleaningFound>,
    /// Journal entries.
    pub journal: Option<JournalFound>,
    /// Bands.
    pub bands: Option<Vec<BandAt>>,
    /// Mapping.
    pub mapping: Option<MappingFound>,
    /// Persistent cache.
    pub capacity: Option<CapacityFound>,
    /// Streaming.
    pub streaming: Option<Answer<Streaming>>,
    /// Torn writes.
    pub torn: Option<Answer<Torn>>,
}

impl Findings {
    /// Findings of a drive before the first examination.
    pub fn new(drive: impl Into<String>, blocks: u64, seed: u64) -> Self {
        Self { schema: SCHEMA, drive: drive.into(), blocks, seed, ..Self::default() }
    }

    /// The turn, if the drive has one.
    pub fn turn(&self) -> Option<&Turn> {
        self.turn.as_ref()?.value()
    }

    /// The type, if it is known.
    pub fn drive_type(&self) -> Option<DriveType> {
        self.drive_type.as_ref()?.drive_type.value().copied()
    }

    /// True if the drive is known to be shingled.
    pub fn is_shingled(&self) -> bool {
        matches!(self.drive_type(), Some(DriveType::ShingledDiskCache | DriveType::ShingledFlashCache))
    }

    /// The bands that were found, with their places.
    pub fn known_bands(&self) -> impl Iterator<Item = (f64, Band)> + '_ {
        self.bands.iter().flatten().filter_map(|at| at.band.value().map(|&band| (at.share, band)))
    }
}
