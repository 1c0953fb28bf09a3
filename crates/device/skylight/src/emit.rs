//! The profile of `drive-model` that reproduces a drive.
//!
//! Constants that the examinations give directly are taken over. Others, as the wait of a merge, contain several times of the
//! model: these are set so that a modelled drive of the profile shows the same in the same examination.

mod mechanics;
mod translation;

use shingle_drive_model::{Cache as Caches, Kind, Profile, Queue, Recording, Shape, Zones};

use crate::exam::streaming::Streaming;
use crate::findings::Findings;

/// Blocks of a zone of the profile, by which its size is given.
const ZONE: u64 = 65_536;

/// The profile of a drive; the reason why there is none.
///
/// # Errors
/// Something that a profile needs is not known.
pub fn profile(findings: &Findings, name: &str) -> Result<Profile, String> {
    let turn = findings.turn().ok_or("the drive has no known turn")?;
    let arm = findings.mechanics.ok_or("the times of the arm are not known")?;
    let surface = findings.surface.as_ref().ok_or("the rates by position are not known")?;
    let translation = if findings.is_shingled() { Some(translation::of(findings)?) } else { None };
    if findings.drive_type().is_none() {
        return Err("the type of the drive is not known".to_owned());
    }
    let stream_min = match findings.streaming.as_ref().and_then(|streaming| streaming.value()) {
        Some(&Streaming::From { mib }) => mib as u32,
        _ => 0,
    };
    let kind = if translation.is_some() { Kind::DmSmr } else { Kind::Cmr };
    let zones = (findings.blocks / ZONE) as u32;
    let profile = Profile {
        name: name.to_owned(),
        model: findings.drive.clone(),
        source: "measured by shingle skylight; heads, runs, and the command queue are assumed".to_owned(),
        kind,
        shape: Shape {
            zone_mib: 256,
            zone_capacity_mib: None,
            zones,
            conventional_zones: zones,
            open_zones_max: None,
            active_zones_max: None,
        },
        mechanics: Some(mechanics::of(turn, &arm)),
        recording: Some(Recording {
            outer_mb_s: surface.first_mb_s.max(surface.last_mb_s),
            inner_mb_s: surface.first_mb_s.min(surface.last_mb_s),
            bands: (surface.zones as u32).clamp(2, 64),
            run_mib: 16,
            skew_ms: turn.track_change_ms,
            verify_revolutions: 0.0,
        }),
        flash: translation::flash(findings),
        translation,
        queue: Queue {
            depth: 31,
            overhead_us: ((arm.overhead_ms - 0.005) * 1e3).max(1.0),
            starvation_ms: 500.0,
            interface_mb_s: arm.interface_mb_s.unwrap_or(550.0),
        },
        cache: Caches {
            write_cache: false,
            streams_writes: false,
            write_cache_mib: 3 * stream_min.max(32),
            read_ahead_mib: 0,
            read_segments: 8,
        },
        zones: Zones::default(),
        jitter: None,
        published: Vec::new(),
    };
    let profile = mechanics::with_appended_writes(mechanics::calibrated(profile, findings), findings);
    let profile = translation::calibrated(mechanics::with_queued_writes(profile, findings), findings);
    Profile::parse(&toml_of(&profile)?).map_err(|error| error.to_string())
}

/// A profile as TOML.
///
/// # Errors
/// None of a profile that [`profile`] gave.
pub fn toml_of(profile: &Profile) -> Result<String, String> {
    toml::to_string(profile).map_err(|error| error.to_string())
}
