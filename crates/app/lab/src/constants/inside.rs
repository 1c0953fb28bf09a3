//! Constants of drives that translate inside, and of flash.
//!
//! Published of media caches are the cache, its map, out-of-band data, merges, bands, quiet time and the size of streams; the watermark is
//! fitted to Table 2.2. Published of the emulated drives is Table 2.1. (Dissertation, sections 2.3 and 2.4.) Nothing is published of
//! a drive that mixes cleaning with the host's work, and of flash its spare part.

use shingle_drive_model::{Flash, FullyAssociative, MediaCache, PageMapped, Profile, Recording, Translation};

use super::named::{Constant, times, whole};

/// Multiplies a constant of a translation or of flash, if it is one and is assumed of that drive; returns whether it is.
pub(super) fn scale(constant: Constant, profile: &mut Profile, by: f64) -> bool {
    let of_flash = profile.flash.as_mut().is_some_and(|flash| scale_flash(constant, flash, by));
    let track_mib =
        profile.mechanics.zip(profile.recording.as_ref()).map(|(arm, recording)| longest_track_mib(arm.rpm, recording));
    let inside = match &mut profile.translation {
        Some(Translation::MediaCache(cache)) => scale_media_cache(constant, cache, track_mib.unwrap_or(0.0), by),
        Some(Translation::FullyAssociative(layer)) => scale_fully_associative(constant, layer, by),
        Some(Translation::PageMapped(layer)) => {
            let stripe = profile.flash.map_or(4, |flash| flash.stripe_kib);
            scale_page_mapped(constant, layer, stripe, by)
        }
        Some(Translation::SetAssociative(_)) | None => false,
    };
    of_flash || inside
}

/// MiB of the longest track.
fn longest_track_mib(rpm: u32, recording: &Recording) -> f64 {
    recording.outer_mb_s * 1e6 * 60.0 / f64::from(rpm) / f64::from(1 << 20)
}

fn scale_media_cache(constant: Constant, cache: &mut MediaCache, track_mib: f64, by: f64) -> bool {
    let done = match constant {
        Constant::Ring => whole(&mut cache.ring_gib, by),
        Constant::Gap => times(&mut cache.gap_ms, by),
        Constant::Gathering => times(&mut cache.gather_ms, by),
        Constant::Entry => whole(&mut cache.entry_max_kib, by),
        Constant::MapRoom => whole(&mut cache.map_mib, by),
        Constant::Scratch => whole(&mut cache.scratch_mib, by),
        Constant::Hold => times(&mut cache.hold_ms, by),
        _ => return false,
    };
    // No ring is shorter than what it caches, no entry is of parts of blocks, and a band fits into its scratch room (LAB-CONST-2).
    cache.ring_gib = cache.ring_gib.max(cache.cache_gib + 1);
    cache.entry_max_kib = (cache.entry_max_kib / 4 * 4).max(4);
    cache.scratch_mib = cache.scratch_mib.max((f64::from(cache.band_tracks) * track_mib).ceil() as u32);
    done
}

fn scale_fully_associative(constant: Constant, layer: &mut FullyAssociative, by: f64) -> bool {
    match (constant, &mut layer.mix_share) {
        (Constant::Quiet, _) => times(&mut layer.idle_ms, by),
        (Constant::BandSize, Some(_)) => whole(&mut layer.band_mib, by),
        (Constant::InnerZones, Some(_)) => whole(&mut layer.zone_gib, by),
        (Constant::SpareBands, Some(_)) => times(&mut layer.spare, by),
        (Constant::Mixing, Some(share)) => times(share, by),
        _ => false,
    }
}

fn scale_page_mapped(constant: Constant, layer: &mut PageMapped, stripe_kib: u32, by: f64) -> bool {
    let done = match constant {
        Constant::EraseBlock => whole(&mut layer.erase_block_kib, by),
        Constant::IdleFree => times(&mut layer.idle_free, by),
        Constant::Quiet => times(&mut layer.idle_ms, by),
        // A block is of whole stripes.
        Constant::Stripe => true,
        _ => return false,
    };
    layer.erase_block_kib = (layer.erase_block_kib / stripe_kib).max(1) * stripe_kib;
    layer.idle_free = layer.idle_free.min(layer.spare / 2.0);
    done
}

fn scale_flash(constant: Constant, flash: &mut Flash, by: f64) -> bool {
    match constant {
        Constant::Dies => whole(&mut flash.dies, by),
        Constant::Stripe => {
            let scaled = whole(&mut flash.stripe_kib, by);
            flash.stripe_kib = (flash.stripe_kib / 4 * 4).max(4);
            scaled
        }
        Constant::FlashSense => times(&mut flash.read_us, by),
        Constant::FlashRates => [&mut flash.die_read_mb_s, &mut flash.die_write_mb_s].map(|rate| times(rate, by))[0],
        Constant::FlashTake => times(&mut flash.write_us, by),
        Constant::FlashBuffer => whole(&mut flash.buffer_mib, by),
        _ => false,
    }
}
