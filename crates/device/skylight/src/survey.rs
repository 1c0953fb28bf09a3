//! The survey of a drive: all examinations in their order, each with what the ones before it have found.
//!
//! # Invariants
//! - SKY-SURVEY-1: nothing is written to a drive that may only be read.
//! - SKY-SURVEY-2: an examination whose findings are there is not repeated, so that a stopped survey goes on where it was.

use crate::exam::bands::{self, Forcing};
use crate::exam::drive_type::DriveType;
use crate::exam::empty::empty;
use crate::exam::{
    cache_location, capacity, cleaning, drive_type, journal, mapping, mechanics, streaming, surface, torn, turn,
};
use crate::findings::{BandAt, Findings};
use crate::session::{Done, Session};

/// Places of the bands that are measured, as shares of the drive.
const BANDS_AT: [f64; 7] = [0.001, 0.17, 0.33, 0.5, 0.67, 0.83, 0.995];

/// An examination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time of a turn.
    Turn,
    /// Times of the arm.
    Mechanics,
    /// Rates by position.
    Surface,
    /// Type.
    DriveType,
    /// Place of the cache.
    CacheLocation,
    /// Cleaning.
    Cleaning,
    /// Journal entries.
    Journal,
    /// Bands.
    Bands,
    /// Mapping.
    Mapping,
    /// Persistent cache.
    Capacity,
    /// Streaming.
    Streaming,
    /// Torn writes.
    Torn,
}

impl Step {
    /// All of them, in order.
    pub const ALL: [Self; 12] = [
        Self::Turn,
        Self::Mechanics,
        Self::Surface,
        Self::DriveType,
        Self::CacheLocation,
        Self::Cleaning,
        Self::Journal,
        Self::Bands,
        Self::Mapping,
        Self::Capacity,
        Self::Streaming,
        Self::Torn,
    ];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Mechanics => "arm",
            Self::Surface => "rates",
            Self::DriveType => "type",
            Self::CacheLocation => "location",
            Self::Cleaning => "cleaning",
            Self::Journal => "journal",
            Self::Bands => "bands",
            Self::Mapping => "mapping",
            Self::Capacity => "size",
            Self::Streaming => "streaming",
            Self::Torn => "torn",
        }
    }

    /// True if it writes to the drive.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Turn | Self::Mechanics | Self::Surface)
    }

    /// Words for it, and the minutes that it takes on a drive like the dissertation's 5 TB one, which can be erased. Of a drive that cannot,
    /// each fill of its cache is followed by a wait until it is clean.
    pub fn words(self) -> (&'static str, f64) {
        match self {
            Self::Turn => ("time of a turn", 1.0),
            Self::Mechanics => ("times of the arm", 12.0),
            Self::Surface => ("rates by position", 0.5),
            Self::DriveType => ("type of the drive", 0.5),
            Self::CacheLocation => ("place of the cache", 9.0),
            Self::Cleaning => ("cleaning", 45.0),
            Self::Journal => ("journal entries", 2.0),
            Self::Bands => ("bands", 75.0),
            Self::Mapping => ("mapping", 1.0),
            Self::Capacity => ("size of the cache", 75.0),
            Self::Streaming => ("streaming", 1.0),
            Self::Torn => ("torn writes", 3.0),
        }
    }

    /// True if the findings have it, or it does not apply to the drive as found so far.
    pub fn is_done(self, findings: &Findings, writable: bool) -> bool {
        if self.writes() && !writable || self != Self::Turn && findings.turn.is_some() && findings.turn().is_none() {
            return true;
        }
        let typed = findings.drive_type.is_some();
        let shingled = findings.is_shingled();
        match self {
            Self::Turn => findings.turn.is_some(),
            Self::Mechanics => findings.mechanics.is_some(),
            Self::Surface => findings.surface.is_some(),
            Self::DriveType => typed,
            Self::CacheLocation => {
                findings.cache_location.is_some() || findings.drive_type() != Some(DriveType::ShingledDiskCache)
            }
            Self::Cleaning => findings.cleaning.is_some() || !shingled,
            Self::Journal => findings.journal.is_some() || !shingled,
            Self::Bands => findings.bands.is_some() || !shingled,
            Self::Mapping => findings.mapping.is_some() || findings.known_bands().next().is_none(),
            Self::Capacity => findings.capacity.is_some() || findings.known_bands().next().is_none(),
            Self::Streaming => findings.streaming.is_some() || !shingled,
            Self::Torn => findings.torn.is_some() || !shingled,
        }
    }
}

/// Does the steps that are left; `begins` hears of each, and `ended` of the findings behind it.
///
/// # Errors
/// The session is to stop, or the drive cannot go on. The findings have what was found until then.
pub fn survey(
    session: &mut Session<'_>,
    findings: &mut Findings,
    steps: &[Step],
    mut begins: impl FnMut(Step),
    mut ended: impl FnMut(&Findings),
) -> Done<()> {
    for &step in steps {
        if step.is_done(findings, session.is_writable()) {
            continue;
        }
        begins(step);
        let began = session.now();
        take(session, findings, step)?;
        findings.seconds += (session.now() - began) as f64 / 1e9;
        ended(findings);
    }
    Ok(())
}

fn take(session: &mut Session<'_>, findings: &mut Findings, step: Step) -> Done<()> {
    // SKY-SURVEY-1.
    debug_assert!(session.is_writable() || !step.writes(), "a step that writes to a drive that may only be read");
    if step == Step::Turn {
        findings.turn = Some(turn::of_drive(session)?);
        return Ok(());
    }
    let Some(&turn) = findings.turn() else { return Ok(()) };
    let pace = findings.cleaning.as_ref().and_then(|cleaning| cleaning.pace.value().copied());
    let forcing = pace.map_or(Forcing::Fill, Forcing::Pause);
    let on_disk = findings.drive_type() == Some(DriveType::ShingledDiskCache);
    match step {
        Step::Turn => {}
        Step::Mechanics => findings.mechanics = Some(mechanics::examine(session, &turn)?),
        Step::Surface => findings.surface = Some(surface::examine(session)?),
        Step::DriveType => {
            findings.drive_type = Some(drive_type::examine(session, &turn)?);
            if findings.drive_type() == Some(DriveType::Conventional)
                && let Some(arm) = &mut findings.mechanics
            {
                arm.write_settle_ms = mechanics::write_settle(session, &turn)?;
            }
        }
        Step::CacheLocation => findings.cache_location = Some(cache_location::examine(session)?),
        Step::Cleaning => {
            session.erase()?;
            findings.cleaning = Some(cleaning::examine(session, &turn)?);
        }
        Step::Journal => {
            let found = journal::examine(session, &turn)?;
            empty(session, &turn, pace.as_ref())?;
            let appends = found.entries.value() == Some(&None);
            if let Some(arm) = findings.mechanics.as_mut().filter(|_| appends && on_disk) {
                arm.appended_write_ms = mechanics::appended_write(session, &turn)?;
                empty(session, &turn, pace.as_ref())?;
                arm.queued_write_ms = Some(mechanics::queued_write(session)?);
                empty(session, &turn, pace.as_ref())?;
            }
            findings.journal = Some(found);
        }
        Step::Bands => {
            let mut found = Vec::new();
            for share in BANDS_AT {
                let at = (session.blocks() as f64 * share) as u64;
                found.push(BandAt { share, band: bands::examine(session, &turn, forcing, at)? });
            }
            findings.bands = Some(found);
        }
        Step::Mapping => {
            if let Some((_, band)) = findings.known_bands().min_by(|one, other| one.0.total_cmp(&other.0)) {
                findings.mapping = Some(mapping::examine(session, &turn, forcing, band)?);
            }
        }
        Step::Capacity => {
            let band = findings.known_bands().next().map(|(_, band)| band);
            if let (Some(band), Some(journal)) = (band, &findings.journal) {
                findings.capacity = Some(capacity::examine(session, &turn, pace.as_ref(), journal, &band)?);
            }
            session.erase()?;
        }
        Step::Streaming => findings.streaming = Some(streaming::examine(session, &turn)?),
        Step::Torn => findings.torn = Some(torn::examine(session)?),
    }
    Ok(())
}
