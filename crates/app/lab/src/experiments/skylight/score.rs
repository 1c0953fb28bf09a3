//! Scores of a survey: each property of a drive that was drawn, and the answer to it.

use std::collections::BTreeMap;

use shingle_drive_model::{CachePlace, FullyAssociative, MediaCache, Profile, Translation};
use shingle_skylight::Findings;
use shingle_skylight::exam::cache_location::CacheLocation;
use shingle_skylight::exam::capacity::Cache;
use shingle_skylight::exam::cleaning::{CleaningOrder, CleaningType};
use shingle_skylight::exam::drive_type::DriveType;
use shingle_skylight::exam::mapping::Mapping;
use shingle_skylight::exam::streaming::Streaming;

/// Tolerance of a size.
const SIZE: f64 = 0.05;

/// Blocks of a MiB.
const MIB: u64 = 256;

/// Answers to one property.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Right ones.
    pub(super) right: u32,
    /// Drives of which it was not told.
    pub(super) untold: u32,
    /// Wrong ones.
    pub(super) wrong: u32,
}

/// Scores of all drives.
#[derive(Debug, Default)]
pub(super) struct Scores {
    /// By property; the flag is true of a size.
    pub(super) tallies: BTreeMap<(bool, &'static str), Tally>,
    /// Conventional drives that were called shingled.
    pub(super) called_shingled: u32,
    /// Wrong answers, in words.
    pub(super) wrong: Vec<String>,
}

impl Scores {
    fn take(&mut self, size: bool, name: &'static str, drive: &str, right: Option<bool>, words: impl Fn() -> String) {
        let tally = self.tallies.entry((size, name)).or_default();
        match right {
            Some(true) => tally.right += 1,
            None => tally.untold += 1,
            Some(false) => {
                tally.wrong += 1;
                self.wrong.push(format!("{drive}: {name} is {}", words()));
            }
        }
    }

    fn same<T: PartialEq + std::fmt::Debug>(&mut self, name: &'static str, drive: &str, found: Option<&T>, is: &T) {
        self.take(false, name, drive, found.map(|found| found == is), || format!("{is:?}, and was told as {found:?}"));
    }

    fn near(&mut self, name: &'static str, drive: &str, found: Option<f64>, is: f64) {
        let right = found.map(|found| (found / is - 1.0).abs() <= SIZE);
        self.take(true, name, drive, right, || format!("{is:.1}, and was told as {:.1}", found.unwrap_or(f64::NAN)));
    }

    /// Scores a survey of a drive, and the profile that it emitted.
    pub(super) fn score(&mut self, profile: &Profile, findings: &Findings, emitted: Option<&Profile>) {
        let drive = profile.model.as_str();
        let Some(arm) = &profile.mechanics else {
            // It has no platters: to say so is right, and to call it a disk of any kind is wrong.
            self.take(false, "no disk", drive, Some(findings.drive_type().is_none()), || "a disk".to_owned());
            return;
        };
        self.near("turn", drive, findings.turn().map(|turn| turn.turn_ms), 60_000.0 / f64::from(arm.rpm));
        let is = match &profile.translation {
            None => DriveType::Conventional,
            Some(Translation::SetAssociative(layer)) if layer.cache == CachePlace::Flash => {
                DriveType::ShingledFlashCache
            }
            Some(_) => DriveType::ShingledDiskCache,
        };
        let found = findings.drive_type();
        self.same("type", drive, found.as_ref(), &is);
        if is == DriveType::Conventional && findings.is_shingled() {
            self.called_shingled += 1;
        }
        let Some(layer) = &profile.translation else { return };
        self.categories(drive, layer, findings);
        self.sizes(drive, layer, findings, emitted);
    }

    fn categories(&mut self, drive: &str, layer: &Translation, findings: &Findings) {
        use CleaningType::{Aggressive, Lazy};
        let (place, cleaning, order, mapping, gathers) = match layer {
            Translation::SetAssociative(layer) => {
                let place = match layer.cache {
                    CachePlace::Outer => Some(CacheLocation::Outer),
                    CachePlace::Inner => Some(CacheLocation::Inner),
                    CachePlace::Flash => None,
                };
                (place, Lazy, None, Mapping::Static, false)
            }
            Translation::FullyAssociative(_) => {
                (Some(CacheLocation::Several), Aggressive, Some(CleaningOrder::LowestFirst), Mapping::Dynamic, false)
            }
            _ => (Some(CacheLocation::Outer), Aggressive, Some(CleaningOrder::OldestFirst), Mapping::Static, true),
        };
        if let Some(place) = place {
            let found = findings.cache_location.as_ref().and_then(|found| found.location.value());
            self.same("place of the cache", drive, found, &place);
        }
        let found = findings.cleaning.as_ref();
        self.same("cleaning", drive, found.and_then(|found| found.cleaning.value()), &cleaning);
        if let Some(order) = order {
            self.same("order of cleaning", drive, found.and_then(|found| found.order.value()), &order);
        }
        let found = findings.journal.as_ref().and_then(|found| found.entries.value()).map(Option::is_some);
        self.same("journal entries", drive, found.as_ref(), &gathers);
        self.same("mapping", drive, findings.mapping.as_ref().and_then(|found| found.mapping.value()), &mapping);
        let found = findings.capacity.as_ref().and_then(|found| found.cache.value()).map(organisation);
        let is = match layer {
            Translation::MediaCache(_) => "log",
            Translation::SetAssociative(_) => "sets",
            _ => "zones",
        };
        self.same("organisation of the cache", drive, found.as_ref(), &is);
    }

    fn sizes(&mut self, drive: &str, layer: &Translation, findings: &Findings, emitted: Option<&Profile>) {
        let cache = findings.capacity.as_ref().and_then(|found| found.cache.value());
        let band = findings.known_bands().next().map(|(_, band)| band.blocks as f64 / MIB as f64);
        match layer {
            Translation::SetAssociative(layer) => {
                self.near("size of a band", drive, band, f64::from(layer.band_mib));
                let found = match cache {
                    Some(&Cache::Sets { sets, .. }) => Some(sets as f64),
                    _ => None,
                };
                self.near("cache bands", drive, found, f64::from(layer.cache_bands));
            }
            Translation::FullyAssociative(layer) => {
                let share = match emitted.and_then(|emitted| emitted.translation.as_ref()) {
                    Some(Translation::FullyAssociative(emitted)) => emitted.mix_share,
                    _ => None,
                };
                self.zones(drive, layer, cache, (band, share));
            }
            Translation::MediaCache(layer) => self.log(drive, layer, findings, emitted),
            Translation::PageMapped(_) => {}
        }
    }

    fn zones(
        &mut self,
        drive: &str,
        layer: &FullyAssociative,
        cache: Option<&Cache>,
        (band, share): (Option<f64>, Option<f64>),
    ) {
        self.near("size of a band", drive, band, f64::from(layer.band_mib));
        let (found, held) = match cache {
            Some(&Cache::Zones { zone_blocks, cache_blocks, .. }) => {
                let gib = (1024 * MIB) as f64;
                (Some(zone_blocks as f64 / gib), Some(cache_blocks as f64 / MIB as f64))
            }
            _ => (None, None),
        };
        self.near("zones of the drive", drive, found, f64::from(layer.zone_gib));
        // A zone's spare bands, but for the one that is written next and one for cleaning.
        let bands = (layer.zone_gib * 1024 / layer.band_mib) as f64;
        let spare = (bands * layer.spare).floor() - if layer.mix_share.is_some() { 3.0 } else { 2.0 };
        self.near("cache of a zone", drive, held, spare * f64::from(layer.band_mib));
        if let Some(mixes) = layer.mix_share {
            let right = share.map(|share| (share - mixes).abs() <= SIZE);
            self.take(true, "share of mixed cleaning", drive, right, || {
                format!("{mixes:.2}, and was told as {share:?}")
            });
        }
    }

    fn log(&mut self, drive: &str, layer: &MediaCache, findings: &Findings, emitted: Option<&Profile>) {
        let cache = findings.capacity.as_ref().and_then(|found| found.cache.value());
        let (data, map) = match cache {
            Some(&Cache::Log { data_blocks, map_extents, .. }) => {
                (Some(data_blocks as f64 / (1024 * MIB) as f64), map_extents.map(|extents| extents as f64))
            }
            _ => (None, None),
        };
        self.near("room for data", drive, data, f64::from(layer.cache_gib) * layer.watermark);
        self.near("extents of the map", drive, map, f64::from(layer.map_extents) * layer.watermark);
        let tracks = match emitted.and_then(|emitted| emitted.translation.as_ref()) {
            Some(Translation::MediaCache(emitted)) => Some(f64::from(emitted.band_tracks)),
            _ => None,
        };
        self.near("tracks of a band", drive, tracks, f64::from(layer.band_tracks));
        let journal = findings.journal.as_ref();
        let merges = journal.and_then(|found| found.merges.value()).and_then(Option::as_ref);
        self.near(
            "entries between merges",
            drive,
            merges.map(|merges| f64::from(merges.every)),
            f64::from(layer.merge_every),
        );
        let entries = journal.and_then(|found| found.entries.value()).and_then(Option::as_ref);
        let most = entries.and_then(|entries| entries.entry_max_blocks).map(|blocks| blocks as f64 * 4.0);
        self.near("the most data in an entry", drive, most, f64::from(layer.entry_max_kib));
        let streams = match findings.streaming.as_ref().and_then(|found| found.value()) {
            Some(&Streaming::From { mib }) => Some(mib as f64),
            _ => None,
        };
        self.near("streaming", drive, streams, f64::from(layer.stream_min_mib));
        let quiet = findings.cleaning.as_ref().and_then(|found| found.pace.value()).map(|pace| pace.quiet_ms);
        self.near("quiet time before cleaning", drive, quiet, layer.idle_ms);
    }
}

fn organisation(cache: &Cache) -> &'static str {
    match cache {
        Cache::Log { .. } => "log",
        Cache::Sets { .. } => "sets",
        Cache::Zones { .. } => "zones",
    }
}
