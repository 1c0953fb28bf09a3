//! Drives drawn at random over all parameters of the model, each with jitter of its own.

use shingle_drive_model::{CachePlace, Jitter, Profile, Translation};
use shingle_skylight::Random;

use crate::error::LabError;

/// Kinds that are drawn in turn, and the built-in profile that each begins with.
const KINDS: [(&str, &str); 8] = [
    ("conventional", "st4000nc001"),
    ("set-associative, on disk", "emulated-smr-1"),
    ("set-associative, of flash", "emulated-smr-2"),
    ("fully associative", "emulated-smr-3"),
    ("media cache", "st5000as0011"),
    ("mixed cleaning", "wd40nmzw"),
    ("ssd", "ssd-3840"),
    ("media cache, large", "st8000as0002"),
];

/// A drive that was drawn.
pub(super) struct Drawn {
    /// Its kind, in words.
    pub(super) kind: &'static str,
    /// Its profile.
    pub(super) profile: Profile,
}

/// The drive of that number.
pub(super) fn draw(number: u64, seed: u64) -> Result<Drawn, LabError> {
    let (kind, base) = KINDS[(number % KINDS.len() as u64) as usize];
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(number));
    let mut profile = Profile::named(base).map_err(|error| LabError(error.0))?;
    let between = |random: &mut Random, low: f64, high: f64| low + (high - low) * random.share();
    let whole = |random: &mut Random, low: u64, high: u64| (low + random.below(high - low + 1)) as u32;
    profile.name = format!("drawn-{number}");
    profile.model = format!("drive {number} ({kind})");
    if let (Some(arm), Some(recording)) = (&mut profile.mechanics, &mut profile.recording) {
        let zones = whole(&mut random, 8_000, 36_000);
        (profile.shape.zones, profile.shape.conventional_zones) = (zones, zones);
        arm.rpm = [5_400, 5_900, 7_200][random.below(3) as usize];
        arm.heads = whole(&mut random, 2, 16);
        arm.settle_ms = between(&mut random, 0.9, 1.5);
        arm.full_seek_ms = between(&mut random, 13.0, 21.0);
        arm.average_seek_ms = arm.settle_ms + (arm.full_seek_ms - arm.settle_ms) * between(&mut random, 0.38, 0.5);
        arm.write_settle_ms = between(&mut random, 0.2, 0.6);
        recording.outer_mb_s = between(&mut random, 120.0, 220.0);
        recording.inner_mb_s = recording.outer_mb_s * between(&mut random, 0.45, 0.6);
        recording.bands = whole(&mut random, 12, 32);
        recording.skew_ms = between(&mut random, 0.5, 0.8);
    }
    match &mut profile.translation {
        Some(Translation::SetAssociative(layer)) => {
            layer.band_mib = whole(&mut random, 15, 40);
            layer.cache_bands = whole(&mut random, 200, 1_500);
            if layer.cache != CachePlace::Flash && random.below(2) == 0 {
                layer.cache = CachePlace::Outer;
            }
        }
        Some(Translation::FullyAssociative(layer)) => {
            layer.band_mib = whole(&mut random, 16, 40);
            layer.zone_gib = whole(&mut random, 20, 60);
            layer.spare = between(&mut random, 0.01, 0.05);
            layer.idle_ms = between(&mut random, 500.0, 2_500.0);
            layer.mix_share = layer.mix_share.map(|_| between(&mut random, 0.2, 0.6));
        }
        Some(Translation::MediaCache(layer)) => {
            layer.cache_gib = whole(&mut random, 12, 30);
            layer.ring_gib = layer.cache_gib * 6;
            layer.map_extents = whole(&mut random, 100_000, 300_000);
            layer.watermark = between(&mut random, 0.85, 0.95);
            layer.band_tracks = whole(&mut random, 12, 30);
            layer.out_of_band_half_turns = whole(&mut random, 2, 5);
            layer.entry_max_kib = 4 * whole(&mut random, 1_024, 2_048);
            layer.merge_every = whole(&mut random, 150, 400);
            layer.merge_ms = between(&mut random, 150.0, 350.0);
            layer.idle_ms = between(&mut random, 500.0, 2_000.0);
            layer.stream_min_mib = whole(&mut random, 4, 16);
        }
        Some(Translation::PageMapped(layer)) => layer.spare = between(&mut random, 0.1, 0.3),
        None => {}
    }
    profile.jitter = Some(Jitter {
        seed: random.number() >> 1,
        spindle_ppm: whole(&mut random, 0, 5_000),
        wander_us: whole(&mut random, 0, 20),
        completion_us: between(&mut random, 0.0, 10.0),
    });
    // Through its text, so that what cannot be a drive is refused.
    let text = shingle_skylight::emit::toml_of(&profile).map_err(LabError)?;
    let profile = Profile::parse(&text).map_err(|error| LabError(error.0))?;
    Ok(Drawn { kind, profile })
}
