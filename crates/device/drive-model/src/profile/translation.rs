//! Constants of the mapping layers of drives that translate inside.

use serde::{Deserialize, Serialize};

/// The mapping layer of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "layer", rename_all = "kebab-case")]
pub enum Translation {
    /// A persistent cache on the platters as a circular log, in front of bands at fixed places.
    MediaCache(MediaCache),
    /// Cache bands that data bands share by their number.
    SetAssociative(SetAssociative),
    /// Zones of bands with spare ones, and no fixed places.
    FullyAssociative(FullyAssociative),
    /// Flash whose pages lie where they were written last.
    PageMapped(PageMapped),
}

/// Place of a persistent cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CachePlace {
    /// The outer diameter of the platters.
    Outer,
    /// The inner diameter.
    Inner,
    /// Flash chips.
    Flash,
}

/// Cache bands that data bands share by their number. (Dissertation, section 2.3.1.)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetAssociative {
    /// Size of a band, in MiB.
    pub band_mib: u32,
    /// Number of cache bands.
    pub cache_bands: u32,
    /// Place of the cache bands.
    pub cache: CachePlace,
}

/// Zones of bands with spare ones, and no fixed places. (Dissertation, section 2.3.1.)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FullyAssociative {
    /// Size of a band, in MiB.
    pub band_mib: u32,
    /// Size of a zone of the drive, in GiB.
    pub zone_gib: u32,
    /// Spare bands of a zone, as a share of its others.
    pub spare: f64,
    /// Quiet time before the drive cleans, in milliseconds.
    pub idle_ms: f64,
    /// Share of the time that cleaning takes while the host writes, on drives that mix both.
    pub mix_share: Option<f64>,
}

/// Flash whose pages lie where they were written last. (Dissertation, section 5.6.2.)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageMapped {
    /// The part of the flash that the host does not see, as a share of all of it.
    pub spare: f64,
    /// Size of an erase block, in KiB; one of each die makes a row, which is erased as one.
    pub erase_block_kib: u32,
    /// Share of the rows that the drive makes free while the host is quiet.
    pub idle_free: f64,
    /// Quiet time before that, in milliseconds.
    pub idle_ms: f64,
}

impl PageMapped {
    /// Pages of a row.
    pub(crate) fn row_pages(&self, dies: u32) -> u32 {
        self.erase_block_kib / 4 * dies
    }

    /// Rows of a drive of which the host sees so many pages.
    pub(crate) fn rows(&self, host_pages: u64, dies: u32) -> u64 {
        (host_pages as f64 / (1.0 - self.spare) / f64::from(self.row_pages(dies))).ceil() as u64
    }

    /// The reason why no drive of so many pages has these constants.
    pub(super) fn check(&self, host_pages: u64, dies: u32, stripe_kib: u32) -> Result<(), String> {
        if !(0.001..=0.9).contains(&self.spare) || !(0.0..=self.spare / 2.0).contains(&self.idle_free) {
            return Err("spare must be 0.001 to 0.9, idle_free at most half of it".to_owned());
        }
        if !(0.0..=1e6).contains(&self.idle_ms) {
            return Err("idle_ms is no time".to_owned());
        }
        let aligned = self.erase_block_kib.is_multiple_of(stripe_kib) && stripe_kib.is_multiple_of(4);
        if !aligned || !(4..=1 << 20).contains(&self.erase_block_kib) || dies > 4096 {
            return Err(
                "erase_block_kib must be a multiple of stripe_kib, and at most 1048576; dies at most 4096".to_owned()
            );
        }
        let (rows, row_pages) = (self.rows(host_pages, dies), u64::from(self.row_pages(dies)));
        if rows * row_pages >= u64::from(u32::MAX) {
            return Err("a page-mapped drive has at most 16 TiB of flash".to_owned());
        }
        if rows * row_pages < host_pages + 8 * row_pages {
            return Err("the spare part must be at least eight rows".to_owned());
        }
        Ok(())
    }
}

/// A persistent cache as a circular log of journal entries. (Dissertation, sections 2.4.3 to 2.4.11.)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaCache {
    /// Room for the host's data in journal entries, in GiB; entries take it in half turns.
    pub cache_gib: u32,
    /// The ring at the outer diameter, out-of-band data included, in GiB.
    pub ring_gib: u32,
    /// Extents in the map.
    pub map_extents: u32,
    /// Share of either at which cleaning has to make room.
    pub watermark: f64,
    /// Tracks of a band.
    pub band_tracks: u32,
    /// Out-of-band data of an entry, in half turns.
    pub out_of_band_half_turns: u32,
    /// The most data in one entry, in KiB.
    pub entry_max_kib: u32,
    /// Part of a turn behind an entry that stays unwritten, as its time in milliseconds.
    pub gap_ms: f64,
    /// Time in which writes gather for an entry, in milliseconds.
    pub gather_ms: f64,
    /// Entries from one merge of the map to the next.
    pub merge_every: u32,
    /// Time of a merge at the middle, seeks left out, in milliseconds.
    pub merge_ms: f64,
    /// Room for the map, in MiB.
    pub map_mib: u32,
    /// Scratch room for a band, in MiB.
    pub scratch_mib: u32,
    /// Quiet time before the drive cleans, in milliseconds.
    pub idle_ms: f64,
    /// Time that a write waits in the volatile cache for others that follow it, in milliseconds.
    pub hold_ms: f64,
    /// Sequential MiB from which a run goes to its bands directly.
    pub stream_min_mib: u32,
}

impl Translation {
    /// The reason why no drive has these constants, with flash or not, and so many MiB of volatile cache if any.
    pub(super) fn check(&self, flash: bool, volatile_mib: Option<u32>) -> Result<(), String> {
        match self {
            Self::MediaCache(cache) => cache.check(volatile_mib),
            Self::SetAssociative(layer) if layer.band_mib == 0 || layer.cache_bands == 0 => {
                Err("band_mib and cache_bands must be above zero".to_owned())
            }
            Self::SetAssociative(layer) if layer.cache == CachePlace::Flash && !flash => {
                Err("a cache of flash needs [flash]".to_owned())
            }
            Self::SetAssociative(_) => Ok(()),
            Self::FullyAssociative(layer) => layer.check(),
            Self::PageMapped(_) => Err("the layer `page-mapped` is one of an ssd".to_owned()),
        }
    }
}

impl FullyAssociative {
    fn check(&self) -> Result<(), String> {
        if self.band_mib == 0 || self.zone_gib == 0 || self.mix_share.is_some_and(|share| !(share > 0.0 && share < 1.0))
        {
            return Err("band_mib, zone_gib and mix_share must be above zero, mix_share below one".to_owned());
        }
        if !(self.spare > 0.0 && self.spare <= 1.0 && (0.0..=1e6).contains(&self.idle_ms)) {
            return Err("spare must be above 0 and at most 1, idle_ms a time".to_owned());
        }
        Ok(())
    }
}

impl MediaCache {
    fn check(&self, volatile_mib: Option<u32>) -> Result<(), String> {
        let measures = [self.gap_ms, self.gather_ms, self.merge_ms, self.idle_ms, self.hold_ms];
        if measures.iter().any(|value| !(value.is_finite() && (0.0..=1e6).contains(value))) {
            return Err("a time of the translation is no measure of a drive".to_owned());
        }
        if self.cache_gib == 0 || self.ring_gib <= self.cache_gib || self.ring_gib > 1 << 14 {
            return Err("ring_gib must be above cache_gib, and that above zero".to_owned());
        }
        if !(self.watermark > 0.0 && self.watermark <= 1.0) || self.map_extents < 16 {
            return Err("watermark must be above 0 and at most 1, map_extents at least 16".to_owned());
        }
        if self.band_tracks == 0 || self.entry_max_kib < 4 || self.scratch_mib == 0 || self.map_mib == 0 {
            return Err("band_tracks, entry_max_kib, scratch_mib and map_mib must be above zero".to_owned());
        }
        if self.entry_max_kib > 1 << 17 {
            return Err(
                "entry_max_kib must be at most 131072, so that the ring has room for several entries".to_owned()
            );
        }
        if self.stream_min_mib == 0 || volatile_mib.is_some_and(|mib| mib <= self.stream_min_mib) {
            return Err("write_cache_mib must be above stream_min_mib, and that above zero".to_owned());
        }
        Ok(())
    }
}
