//! The mapping layer of an emitted profile.

use shingle_drive_model::{CachePlace, Flash, FullyAssociative, MediaCache, Profile, SetAssociative, Translation};

use super::mechanics::examined;
use crate::exam::cache_location::CacheLocation;
use crate::exam::capacity::{Cache, mix_share};
use crate::exam::drive_type::{self, DriveType};
use crate::exam::journal;
use crate::exam::streaming::Streaming;
use crate::findings::Findings;
use crate::session::Session;
use crate::stats::median;
use crate::target::{BLOCK, MIB};

/// Blocks of a GiB.
const GIB: u64 = 1024 * MIB;

/// Spare bands of a zone that the model's layer does not fill, and one more while it merges.
const RESERVE: f64 = 2.0;

/// Rounds of calibration, and the seed of some.
const ROUNDS: usize = 4;
const SEED: u64 = 1;

/// Gaps between entries that are tried, as shares of a turn, and shares of missed places that are the same.
const GAPS: [f64; 4] = [0.15, 0.2, 0.25, 0.3];
const MISSED: f64 = 0.002;

pub(super) fn of(findings: &Findings) -> Result<Translation, String> {
    let cache = findings.capacity.as_ref().and_then(|capacity| capacity.cache.value());
    let pace = findings.cleaning.as_ref().and_then(|cleaning| cleaning.pace.value());
    let (_, band) = findings.known_bands().next().ok_or("the size of bands is not known")?;
    let band_mib = (band.blocks as f64 / MIB as f64).round().max(1.0) as u32;
    let idle_ms = pace.map_or(1_000.0, |pace| pace.quiet_ms);
    Ok(match *cache.ok_or("the persistent cache is not known")? {
        Cache::Sets { sets, .. } => {
            let cache = match (findings.drive_type(), location(findings)) {
                (Some(DriveType::ShingledFlashCache), _) => CachePlace::Flash,
                (_, Some(CacheLocation::Outer)) => CachePlace::Outer,
                _ => CachePlace::Inner,
            };
            Translation::SetAssociative(SetAssociative { band_mib, cache_bands: sets as u32, cache })
        }
        Cache::Zones { cache_blocks, zone_blocks, mix_share } => {
            let zone_gib = (zone_blocks as f64 / GIB as f64).round().max(1.0);
            let bands = (zone_gib as u64 * GIB / (u64::from(band_mib) * MIB)).max(1) as f64;
            let merging = if mix_share > 0.0 { 1.0 } else { 0.0 };
            let spare = (cache_blocks as f64 / band.blocks as f64).round() + RESERVE + merging;
            let mix_share = (mix_share > 0.0).then_some(mix_share.clamp(0.05, 0.9));
            // Half a band more, since the model rounds down.
            let spare = ((spare + 0.5) / bands).min(1.0);
            Translation::FullyAssociative(FullyAssociative {
                band_mib,
                zone_gib: zone_gib as u32,
                spare,
                idle_ms,
                mix_share,
            })
        }
        Cache::Log { data_blocks, raw_blocks, map_extents, .. } => {
            Translation::MediaCache(log(findings, data_blocks, raw_blocks, map_extents, idle_ms)?)
        }
    })
}

fn location(findings: &Findings) -> Option<CacheLocation> {
    findings.cache_location.as_ref()?.location.value().copied()
}

fn log(
    findings: &Findings,
    data_blocks: u64,
    raw_blocks: u64,
    map_extents: Option<u64>,
    idle_ms: f64,
) -> Result<MediaCache, String> {
    let journal = findings.journal.as_ref().ok_or("journal entries are not known")?;
    let entries = journal.entries.value().and_then(|entries| *entries).ok_or("journal entries are not known")?;
    let turn = findings.turn().ok_or("the turn is not known")?;
    // The model gives room in GiB, and a share of it that may be used.
    let cache_gib = data_blocks.div_ceil(GIB).max(1);
    let watermark = data_blocks as f64 / (cache_gib * GIB) as f64;
    let merges = journal.merges.value().copied().flatten();
    let extents = map_extents.unwrap_or(data_blocks).min(1 << 30);
    let largest = findings.known_bands().map(|(_, band)| band.blocks).max().unwrap_or(64 * MIB);
    Ok(MediaCache {
        cache_gib: cache_gib as u32,
        ring_gib: ((raw_blocks as f64 * 1.1 / GIB as f64).ceil() as u32).max(cache_gib as u32 + 1),
        map_extents: (extents as f64 / watermark).round() as u32,
        watermark,
        band_tracks: band_tracks(findings)?,
        out_of_band_half_turns: entries.half_turns.saturating_sub(1),
        entry_max_kib: entries.entry_max_blocks.map_or(6_144, |blocks| blocks as u32 * 4),
        gap_ms: 0.15 * turn.turn_ms,
        gather_ms: 0.1,
        merge_every: merges.map_or(1 << 30, |merges| merges.every),
        merge_ms: merges.map_or(0.0, |merges| (merges.late_ms - 4.0 * turn.turn_ms).max(0.0)),
        map_mib: 1_024,
        scratch_mib: (largest / MIB) as u32 + 1,
        idle_ms,
        hold_ms: 20.0,
        stream_min_mib: match findings.streaming.as_ref().and_then(|streaming| streaming.value()) {
            Some(&Streaming::From { mib }) => mib as u32,
            _ => 8,
        },
    })
}

/// The tracks of a band that fit the bands at all places best.
fn band_tracks(findings: &Findings) -> Result<u32, String> {
    let turn = findings.turn().ok_or("the turn is not known")?;
    let surface = findings.surface.as_ref().ok_or("the rates by position are not known")?;
    let track = |share: f64| {
        let at = surface.profile.partition_point(|entry| entry.0 < share).min(surface.profile.len() - 1);
        surface.profile[at].1 * (turn.turn_ms + turn.track_change_ms) * 1e3 / BLOCK as f64
    };
    let apart = |tracks: u32| -> f64 {
        findings
            .known_bands()
            .map(|(share, band)| {
                let whole = (track(share) * f64::from(tracks) / MIB as f64).floor().max(1.0) * MIB as f64;
                (whole - band.blocks as f64).abs() / band.blocks as f64
            })
            .sum()
    };
    (1..2_000).min_by(|&one, &other| apart(one).total_cmp(&apart(other))).ok_or_else(|| "no bands are known".to_owned())
}

/// Flash for a cache of it.
pub(super) fn flash(findings: &Findings) -> Option<Flash> {
    let found = findings.drive_type.as_ref()?;
    if findings.drive_type() != Some(DriveType::ShingledFlashCache) {
        return None;
    }
    let overhead_us = findings.mechanics.map_or(60.0, |arm| arm.overhead_ms * 1e3);
    // The drive's command has it, and the one to its flash.
    let write_us = (median(&found.latencies_ms) * 1e3 - 2.0 * overhead_us).max(1.0);
    let (die_read_mb_s, die_write_mb_s) = (100.0, 25.0);
    Some(Flash { dies: 8, stripe_kib: 64, read_us: 100.0, die_read_mb_s, die_write_mb_s, write_us, buffer_mib: 4 })
}

/// The profile whose entries grow at the measured size, whose merges are as late, whose flash is as fast, or whose cleaning takes as much from
/// writers: a host sees less of these than the drive spends.
pub(super) fn calibrated(profile: Profile, findings: &Findings) -> Profile {
    let profile = with_gap(with_quantum(with_flash(profile, findings), findings), findings);
    mixed(merged(profile, findings), findings)
}

/// The profile of which as many single writes miss the place behind the last entry, and wait for half a turn more: with a shorter gap
/// between entries the arm cannot change tracks in time.
fn with_gap(mut profile: Profile, findings: &Findings) -> Profile {
    let (Some(turn), Some(journal)) = (findings.turn(), &findings.journal) else { return profile };
    let missed = |single_ms: &[f64]| {
        let usual = median(single_ms);
        let late = single_ms.iter().filter(|&&ms| (usual + 0.3 * turn.turn_ms..usual + turn.turn_ms).contains(&ms));
        late.count() as f64 / single_ms.len().max(1) as f64
    };
    let wanted = missed(&journal.single_ms);
    let mut best: Option<(f64, f64)> = None;
    for share in GAPS {
        let Some(Translation::MediaCache(cache)) = &mut profile.translation else { return profile };
        cache.gap_ms = share * turn.turn_ms;
        let Some((single_ms, _)) = examined(&profile, SEED, journal::merges) else { return profile };
        let off = (missed(&single_ms) - wanted).abs();
        if best.is_none_or(|(least, _)| off < least - MISSED) {
            best = Some((off, share));
        }
    }
    if let (Some(Translation::MediaCache(cache)), Some((_, share))) = (&mut profile.translation, best) {
        cache.gap_ms = share * turn.turn_ms;
    }
    profile
}

/// The profile with that time of a write to a flash cache.
fn with_flash(mut profile: Profile, findings: &Findings) -> Profile {
    let (Some(turn), Some(found), Some(_)) = (findings.turn(), &findings.drive_type, profile.flash) else {
        return profile;
    };
    for _ in 0..ROUNDS {
        let examine = |session: &mut Session<'_>| drive_type::examine(session, turn);
        let Some(seen) = examined(&profile, findings.seed, examine) else { return profile };
        let more_us = (median(&found.latencies_ms) - median(&seen.latencies_ms)) * 1e3;
        if let Some(flash) = &mut profile.flash {
            flash.write_us = (flash.write_us + more_us).max(1.0);
        }
    }
    profile
}

/// The profile whose journal entries grow by half a turn at the measured size: a block more or less makes some loads' entries a half
/// turn longer.
fn with_quantum(mut profile: Profile, findings: &Findings) -> Profile {
    let entries = findings.journal.as_ref().and_then(|journal| journal.entries.value().copied().flatten());
    let (Some(turn), Some(entries)) = (findings.turn(), entries) else { return profile };
    let Some(wanted) = entries.quantum_blocks else { return profile };
    for _ in 0..ROUNDS {
        let examine = |session: &mut Session<'_>| journal::quantum(session, turn, entries.half_turns);
        let Some(Some(seen)) = examined(&profile, findings.seed, examine) else { return profile };
        if let Some(recording) = profile.recording.as_mut().filter(|_| seen != wanted) {
            recording.outer_mb_s *= (wanted as f64 + 0.5) / (seen as f64 + 0.5);
        }
    }
    profile
}

fn mixed(mut profile: Profile, findings: &Findings) -> Profile {
    let cache = findings.capacity.as_ref().and_then(|capacity| capacity.cache.value());
    let Some(&Cache::Zones { mix_share: wanted, .. }) = cache else { return profile };
    if wanted == 0.0 {
        return profile;
    }
    for _ in 0..ROUNDS {
        let Some(Some(seen)) = examined(&profile, SEED, mix_share) else { return profile };
        let Some(Translation::FullyAssociative(layer)) = &mut profile.translation else { return profile };
        layer.mix_share = layer.mix_share.map(|share| (share + wanted - seen).clamp(0.05, 0.9));
    }
    profile
}

fn merged(mut profile: Profile, findings: &Findings) -> Profile {
    let wanted = findings.journal.as_ref().and_then(|journal| journal.merges.value().copied().flatten());
    let Some(wanted) = wanted else { return profile };
    for _ in 0..ROUNDS {
        let seen = examined(&profile, SEED, journal::merges).and_then(|(_, merges)| merges.value().copied().flatten());
        let Some(seen) = seen else { return profile };
        let Some(Translation::MediaCache(cache)) = &mut profile.translation else { return profile };
        cache.merge_ms = (cache.merge_ms + wanted.late_ms - seen.late_ms).max(0.0);
    }
    profile
}
