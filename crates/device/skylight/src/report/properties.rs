//! Each property and its answer in words.

use super::words::{Property, property, size, time};
use crate::answer::Answer;
use crate::exam::cache_location::CacheLocation;
use crate::exam::capacity::Cache;
use crate::exam::cleaning::{CleaningOrder, CleaningType};
use crate::exam::drive_type::DriveType;
use crate::exam::mapping::Mapping;
use crate::exam::streaming::Streaming;
use crate::findings::{BandAt, Findings};

/// Words for a type.
fn type_words(found: DriveType) -> &'static str {
    match found {
        DriveType::Conventional => "conventional: any block is written at its place",
        DriveType::ShingledDiskCache => "drive-managed shingled, with a persistent cache on the platters",
        DriveType::ShingledFlashCache => "drive-managed shingled, with a persistent cache of flash",
    }
}

pub(super) fn headline(findings: &Findings, writable: bool) -> String {
    let drive = format!("{} ({})", findings.drive, size(findings.blocks as f64));
    match (findings.drive_type(), &findings.turn) {
        (Some(found), _) => format!("{drive} is {}.", type_words(found)),
        (None, Some(Answer::CannotTell { reason })) => {
            format!("{drive}: cannot tell what it is. It shows no turning platters: {reason}.")
        }
        (None, _) if !writable => {
            format!("{drive} has platters that turn. Only writes tell whether it is shingled, and it was only read.")
        }
        (None, _) => match &findings.drive_type {
            Some(found) => match &found.drive_type {
                Answer::CannotTell { reason } => format!("{drive}: cannot tell what it is: {reason}."),
                Answer::Known { .. } => drive,
            },
            None => format!("{drive}: its type was not examined."),
        },
    }
}

pub(super) fn of(findings: &Findings, writable: bool) -> Vec<Property> {
    let mut all = Vec::new();
    all.push(property("turn", "turn", findings.turn.as_ref(), |turn| {
        format!("{:.2} ms ({:.0} turns a minute)", turn.turn_ms, 60_000.0 / turn.turn_ms)
    }));
    if let Some(arm) = &findings.mechanics {
        let seeks = Answer::known(*arm);
        all.push(property("seeks", "seeks", Some(&seeks), |arm| {
            format!(
                "{:.1} ms from track to track, {:.1} ms in the mean, {:.1} ms over the whole drive",
                arm.settle_ms, arm.average_seek_ms, arm.full_seek_ms
            )
        }));
    }
    if let Some(surface) = &findings.surface {
        let rates = Answer::known(surface.clone());
        all.push(property("rates", "sequential reads", Some(&rates), |surface| {
            format!(
                "{:.0} MB/s at the first addresses, {:.0} at the last, in {} stretches of equal rate",
                surface.first_mb_s, surface.last_mb_s, surface.zones
            )
        }));
    }
    let typed = findings.drive_type.as_ref().map(|found| &found.drive_type);
    all.push(property("type", "type", typed, |&found| type_words(found).to_owned()));
    if findings.is_shingled() {
        shingled(findings, &mut all);
    }
    for property in all.iter_mut().filter(|property| property.answer.is_none() && property.reason.is_none()) {
        if !writable {
            property.reason = Some("only writes tell, and the drive was only read".to_owned());
        } else if findings.turn.is_some() && findings.turn().is_none() {
            property.reason = Some("the drive has no known turn".to_owned());
        }
    }
    all
}

fn shingled(findings: &Findings, all: &mut Vec<Property>) {
    let location = findings.cache_location.as_ref().map(|found| &found.location);
    if findings.drive_type() == Some(DriveType::ShingledDiskCache) {
        all.push(property("cache-location", "place of the cache", location, |place| {
            let words = match place {
                CacheLocation::Outer => "one cache, at the outer diameter",
                CacheLocation::Inner => "one cache, at the inner diameter",
                CacheLocation::Middle => "one cache, at the middle diameter",
                CacheLocation::Several => "several caches, near their data",
            };
            words.to_owned()
        }));
    }
    let cleaning = findings.cleaning.as_ref();
    all.push(property("cleaning", "cleaning", cleaning.map(|found| &found.cleaning), |kind| {
        let words = match kind {
            CleaningType::Aggressive => "aggressive: while the drive is idle",
            CleaningType::Lazy => "lazy: not before the cache is full",
        };
        words.to_owned()
    }));
    if cleaning.is_none_or(|found| found.cleaning.value() == Some(&CleaningType::Aggressive)) {
        all.push(property("cleaning-pace", "pace of cleaning", cleaning.map(|found| &found.pace), |pace| {
            format!("begins after {} of quiet, takes {} for a band", time(pace.quiet_ms), time(pace.band_ms))
        }));
        all.push(property("cleaning-order", "order of cleaning", cleaning.map(|found| &found.order), |order| {
            let words = match order {
                CleaningOrder::OldestFirst => "bands of the oldest writes first",
                CleaningOrder::LowestFirst => "bands of the lowest addresses first",
            };
            words.to_owned()
        }));
    }
    let journal = findings.journal.as_ref();
    all.push(property("journal", "journal entries", journal.map(|found| &found.entries), |entries| match entries {
        None => "none: writes are appended one by one".to_owned(),
        Some(entries) => format!(
            "writes are gathered in entries of at least {} half turns{}",
            entries.half_turns,
            entries
                .entry_max_blocks
                .map_or(String::new(), |most| format!(", with at most {} of data", size(most as f64)))
        ),
    }));
    all.push(property("map-merges", "merges of the map", journal.map(|found| &found.merges), |merges| match merges {
        None => "none seen".to_owned(),
        Some(merges) => format!("every {} entries a write is late by {}", merges.every, time(merges.late_ms)),
    }));
    all.push(bands(findings));
    all.push(property("mapping", "mapping", findings.mapping.as_ref().map(|found| &found.mapping), |kind| {
        let words = match kind {
            Mapping::Static => "static: a band has its place",
            Mapping::Dynamic => "dynamic: cleaning gives a band a new place",
        };
        words.to_owned()
    }));
    let cache = findings.capacity.as_ref().map(|found| &found.cache);
    all.push(property("cache", "persistent cache", cache, |cache| cache_words(cache, findings.blocks)));
    all.push(property("streaming", "streaming", findings.streaming.as_ref(), |streaming| match streaming {
        Streaming::From { mib } => format!("sequential writes of {mib} MiB and more go to their bands directly"),
        Streaming::Never => "none: all writes go through the cache".to_owned(),
    }));
    all.push(property("torn-writes", "torn writes", findings.torn.as_ref(), |torn| {
        let mended = if torn.mended { ", which a write makes readable" } else { "" };
        match torn.torn {
            0 => format!("none, of {} power cuts", torn.cuts),
            some => format!(
                "{some} of {} power cuts made blocks unreadable, up to {}{mended}",
                torn.cuts,
                size(torn.blocks_max as f64)
            ),
        }
    }));
}

fn bands(findings: &Findings) -> Property {
    let sizes: Vec<f64> = findings.known_bands().map(|(_, band)| band.blocks as f64).collect();
    let least = sizes.iter().copied().fold(f64::INFINITY, f64::min);
    let most = sizes.iter().copied().fold(0.0, f64::max);
    let answer = match (&findings.bands, sizes.len()) {
        (None, _) => None,
        (Some(bands), 0) => {
            let reason = bands.iter().find_map(|at| match &at.band {
                Answer::CannotTell { reason } => Some(reason.clone()),
                Answer::Known { .. } => None,
            });
            Some(Answer::cannot_tell(reason.unwrap_or_default()))
        }
        (Some(bands), known) => {
            let tested = |at: &BandAt| !matches!(at.band, Answer::Known { confidence: None, .. });
            Some(Answer::known_if((least, most, known, bands.len()), bands.iter().all(tested)))
        }
    };
    property("bands", "size of a band", answer.as_ref(), |&(least, most, known, asked)| {
        let places = format!("measured at {known} of {asked} places");
        if size(least) == size(most) {
            format!("{} ({places})", size(least))
        } else {
            format!("{} to {} ({places})", size(least), size(most))
        }
    })
}

fn cache_words(cache: &Cache, drive_blocks: u64) -> String {
    match *cache {
        Cache::Log { data_blocks, raw_blocks, map_extents, circular } => {
            let map = map_extents
                .map_or("a map that is never full before".to_owned(), |extents| format!("a map of {extents} extents"));
            let log = match circular {
                Some(true) => "a circular log",
                Some(false) => "written in place",
                None => "a log",
            };
            format!(
                "{log} with room for {} of data ({} on the platters) and {map}",
                size(data_blocks as f64),
                size(raw_blocks as f64)
            )
        }
        Cache::Sets { set_blocks, sets } => format!(
            "{sets} cache bands of {}, {} in all, which data bands share by their number",
            size(set_blocks as f64),
            size(cache.blocks(drive_blocks) as f64)
        ),
        Cache::Zones { cache_blocks, zone_blocks, mix_share } => {
            let mixes = match mix_share {
                share if share > 0.0 => {
                    format!("; cleaning takes {:.0} % of the time from the first write on", share * 100.0)
                }
                _ => String::new(),
            };
            format!(
                "{} for each zone of {}, {} in all{mixes}",
                size(cache_blocks as f64),
                size(zone_blocks as f64),
                size(cache.blocks(drive_blocks) as f64)
            )
        }
    }
}
