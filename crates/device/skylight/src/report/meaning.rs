//! Consequences of a drive's properties for file systems, RAID and backups: figures that follow from those measured, and no others.

use super::words::{Meaning, rate, size, time};
use crate::exam::capacity::{Cache, Fill};
use crate::exam::drive_type::DriveType;
use crate::exam::streaming::Streaming;
use crate::findings::Findings;
use crate::stats::{mean, median};

pub(super) fn of(findings: &Findings) -> Vec<Meaning> {
    match findings.drive_type() {
        None => Vec::new(),
        Some(DriveType::Conventional) => conventional(findings),
        Some(_) => {
            let mut all = vec![
                Meaning { of: "File systems", sentences: file_systems(findings) },
                Meaning { of: "RAID", sentences: raid(findings) },
                Meaning { of: "Backups", sentences: backups(findings) },
                Meaning { of: "Power cuts", sentences: power(findings) },
            ];
            all.retain(|meaning| !meaning.sentences.is_empty());
            all
        }
    }
}

fn conventional(findings: &Findings) -> Vec<Meaning> {
    let Some(found) = &findings.drive_type else { return Vec::new() };
    let writes = rate(1e3 / mean(&found.latencies_ms));
    let mut raid = Vec::new();
    if let Some(hours) = whole_drive_hours(findings) {
        raid.push(format!("A rebuild that only writes in order takes about {hours:.0} h."));
    }
    raid.push("Parity updates cost the same at any time: no cache fills up behind them.".to_owned());
    vec![
        Meaning {
            of: "File systems",
            sentences: vec![format!(
                "Any will do. Durable writes of 4 KiB to near places run at {writes}, for as long as they last."
            )],
        },
        Meaning { of: "RAID", sentences: raid },
        Meaning { of: "Backups", sentences: vec!["No idle time is needed between them.".to_owned()] },
    ]
}

/// Hours of writing the whole drive in order, at the rates that were read.
fn whole_drive_hours(findings: &Findings) -> Option<f64> {
    let surface = findings.surface.as_ref()?;
    let slowness: Vec<f64> = surface.profile.iter().map(|&(_, mb_s)| 1.0 / mb_s.max(0.1)).collect();
    Some(findings.blocks as f64 * 4096.0 / 1e6 * mean(&slowness) / 3600.0)
}

fn cache(findings: &Findings) -> Option<&Cache> {
    findings.capacity.as_ref()?.cache.value()
}

fn fills(findings: &Findings) -> &[Fill] {
    findings.capacity.as_ref().map_or(&[], |found| &found.fills)
}

/// Rate of writes before cleaning holds them up.
fn rate_of(fill: &Fill) -> Option<f64> {
    let before = fill.writes.map_or(fill.latencies_ms.len(), |writes| writes as usize / fill.one_in.max(1));
    let counted = &fill.latencies_ms[..before.min(fill.latencies_ms.len())];
    (!counted.is_empty()).then(|| fill.depth as f64 * 1e3 / mean(counted))
}

/// The most random writes of 4 KiB that the cache takes, in words.
fn burst(findings: &Findings) -> Option<String> {
    match *cache(findings)? {
        Cache::Log { data_blocks, .. } => {
            let counted = |fill: &Fill| Some((fill.writes?, rate_of(fill)?));
            let one = fills(findings).iter().find(|fill| fill.kib == 4 && fill.depth == 1).and_then(counted);
            let many = fills(findings).iter().find(|fill| fill.kib == 4 && fill.depth > 1).and_then(counted);
            let (one, many) = (one?, many?);
            Some(format!(
                "The cache takes {} random writes of 4 KiB one at a time ({}), or {} if many are outstanding ({}); larger ones up to {} in all.",
                one.0,
                rate(one.1),
                many.0,
                rate(many.1),
                size(data_blocks as f64)
            ))
        }
        Cache::Sets { set_blocks, sets } => Some(format!(
            "The cache takes {} spread over the whole drive, and only {} if all writes go to one data band or to such that are a multiple of {sets} bands apart.",
            size((set_blocks * sets) as f64),
            size(set_blocks as f64)
        )),
        Cache::Zones { cache_blocks, zone_blocks, .. } => Some(format!(
            "The cache takes {} in each {} of addresses: {} spread over the whole drive, and no more than the first if all writes are near each other.",
            size(cache_blocks as f64),
            size(zone_blocks as f64),
            size(cache_blocks as f64 / zone_blocks as f64 * findings.blocks as f64)
        )),
    }
}

/// Milliseconds of a random write of 4 KiB once the cache is full.
fn held_ms(findings: &Findings) -> Option<f64> {
    fills(findings).iter().filter(|fill| fill.depth == 1).find_map(|fill| fill.held_ms)
}

fn file_systems(findings: &Findings) -> Vec<String> {
    let mut said: Vec<String> = burst(findings).into_iter().collect();
    if let Some(held) = held_ms(findings) {
        said.push(match cache(findings) {
            Some(Cache::Log { .. }) => format!(
                "Behind that, random writes one at a time go on at {} (measured over the first that waited).",
                rate(1e3 / held)
            ),
            _ => format!("Behind that, a write that finds its part of the cache full waits {}.", time(held)),
        });
    }
    if let Some(Cache::Zones { mix_share, .. }) = cache(findings)
        && *mix_share > 0.0
    {
        said.push(format!("Even before, cleaning takes {:.0} % of the time while the host writes.", mix_share * 100.0));
    }
    said.push(match findings.streaming.as_ref().and_then(|streaming| streaming.value()) {
        Some(Streaming::From { mib }) => format!(
            "Files that are written in order, at least {mib} MiB at a time, bypass the cache: prefer log-structured or extent-based file systems, with metadata kept together."
        ),
        Some(Streaming::Never) => {
            "All writes go through the cache, those of large files too: none is spared the cleaning.".to_owned()
        }
        None => "The size from which writes bypass the cache is not known: expect that all go through it.".to_owned(),
    });
    if let Some(merges) = findings.journal.as_ref().and_then(|journal| journal.merges.value()).and_then(Option::as_ref)
    {
        said.push(format!(
            "Of {} durable writes one takes {} longer: timeouts must allow for it.",
            merges.every,
            time(merges.late_ms)
        ));
    }
    said
}

fn raid(findings: &Findings) -> Vec<String> {
    let mut said = Vec::new();
    let streams = findings.streaming.as_ref().and_then(|streaming| streaming.value());
    match (whole_drive_hours(findings), streams) {
        (Some(hours), Some(Streaming::From { mib })) => said.push(format!(
            "A rebuild writes in order: in pieces of {mib} MiB and more it takes {hours:.0} h at best, while nothing else is written."
        )),
        (Some(hours), _) => said.push(format!(
            "A rebuild writes in order, and through the cache as far as is known: far more than the {hours:.0} h that reading takes."
        )),
        (None, _) => {}
    }
    if let Some(held) = held_ms(findings) {
        said.push(format!(
            "RAID 5 and 6 update parity at random places: once the cache is full, writes of the whole array wait for this drive, {} each. Mirrors, and drives that are written in order, suit it better.",
            time(held)
        ));
        said.push(format!(
            "Give commands at least {} before a drive counts as failed.",
            time((20.0 * held).max(30_000.0))
        ));
    }
    said
}

fn backups(findings: &Findings) -> Vec<String> {
    let mut said = Vec::new();
    let pace = findings.cleaning.as_ref().and_then(|cleaning| cleaning.pace.value());
    let bands: Vec<f64> = findings.known_bands().map(|(_, band)| band.blocks as f64).collect();
    if let (Some(pace), false) = (pace, bands.is_empty()) {
        let band = median(&bands);
        let hour = (3_600e3 / pace.band_ms).floor();
        said.push(format!(
            "After {} of quiet the drive cleans, {:.0} bands an hour at most: a backup that touches that many places, up to {} of bands, wants an hour of quiet behind it.",
            time(pace.quiet_ms),
            hour,
            size(hour * band)
        ));
    } else if findings.cleaning.as_ref().is_some_and(|cleaning| cleaning.cleaning.value().is_some()) {
        said.push("The drive does not clean while it is idle: quiet hours between backups help nothing.".to_owned());
    }
    said.push(match findings.streaming.as_ref().and_then(|streaming| streaming.value()) {
        Some(Streaming::From { .. }) => {
            "Images and archives, written in order, suit the drive; trees of small files, hard links and databases that change in place do not.".to_owned()
        }
        _ => "Few large archives cost less than trees of small files, since each band that is touched is written again as a whole.".to_owned(),
    });
    said
}

fn power(findings: &Findings) -> Vec<String> {
    let Some(torn) = findings.torn.as_ref().and_then(|torn| torn.value()).filter(|torn| torn.torn > 0) else {
        return Vec::new();
    };
    vec![format!(
        "A power cut amid a long sequential write may make up to {} unreadable that were written long before. Flushes do not help: keep a second copy, and write such blocks again.",
        size(torn.blocks_max as f64)
    )]
}
