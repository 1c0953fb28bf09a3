//! `shingle volume stat|dump`: the state of a volume, which stays as it is.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use shingle_base::ZoneId;
use shingle_store_api::BlockStore;
use shingle_translation::{RecoveryReport, Volume as Store, VolumeStats, ZoneUse, ZoneView};

use super::opened::examined;
use crate::failure::{Failure, Outcome, status};
use crate::output::size;

#[derive(Args)]
pub(crate) struct Stat {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Dump {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
}

impl Stat {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let (volume, report) = examined(&self.drive, &rt, false).await?;
            let stats = volume.stats();
            if self.json {
                say!(
                    "{}",
                    json!({ "volume": volume.store().to_string(), "stats": stats_json(&volume, &stats),
                                   "opening": report_json(&report) })
                );
            } else {
                tell(&volume, &stats, &report);
            }
            Ok(())
        })?
    }
}

fn tell(volume: &Store, stats: &VolumeStats, report: &RecoveryReport) {
    say!("volume    {}", volume.store());
    say!("size      {}", size(volume.size_bytes()));
    say!("sector    {} bytes", volume.sector_bytes());
    say!("used      {}", size(stats.sectors_mapped * volume.sector_bytes()));
    if stats.snapshots > 0 {
        let kept = size(stats.sectors_kept * volume.sector_bytes());
        say!("snapshots {}, which keep {kept} of that", stats.snapshots);
    }
    say!("extents   {}, {} of memory", stats.extents, size(stats.map_bytes));
    say!("zones     {} for data: {} free, {} broken", stats.zones, stats.zones_free, stats.zones_broken);
    let RecoveryReport { zones_scanned, pairs, .. } = report;
    say!("opening   {pairs} pairs since the last checkpoint, in {zones_scanned} zones");
    for (words, count) in [
        ("pairs that a power cut tore, which never were", report.torn.len() as u64),
        ("pairs that are damaged or cannot be read", report.damaged.len() as u64),
        ("sectors that are lost", report.sectors_lost),
        ("lost blocks of metadata that others make up for", report.mended.len() as u64),
    ] {
        if count > 0 {
            say!("          {count} {words}");
        }
    }
}

impl Dump {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let (volume, report) = examined(&self.drive, &rt, true).await?;
            let stats = volume.stats();
            let zones: Vec<_> = volume.control().zones().iter().map(zone_json).collect();
            let (first, end) = (volume.data_zones().start, volume.data_zones().end);
            say!(
                "{}",
                json!({ "volume": volume.store().to_string(), "data_zones": [first, end],
                               "stats": stats_json(&volume, &stats), "opening": report_json(&report), "zones": zones })
            );
            if report.unknown.is_empty() { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
        })?
    }
}

fn stats_json(volume: &Store, stats: &VolumeStats) -> Value {
    json!({ "size_bytes": volume.size_bytes(), "sector_bytes": volume.sector_bytes(),
            "size_max_bytes": volume.size_max_bytes(),
            "used_bytes": stats.sectors_mapped * volume.sector_bytes(),
            "kept_bytes": stats.sectors_kept * volume.sector_bytes(), "snapshots": stats.snapshots, "extents": stats.extents,
            "map_bytes": stats.map_bytes, "zones": stats.zones, "zones_free": stats.zones_free,
            "zones_broken": stats.zones_broken })
}

/// The findings of an opening, for programs.
pub(super) fn report_json(report: &RecoveryReport) -> Value {
    let places = |places: &[(ZoneId, u32)]| -> Value {
        places.iter().map(|(zone, block)| json!({ "zone": zone.0, "block": block })).collect()
    };
    let unknown: Vec<_> = report
        .unknown
        .iter()
        .map(
            |place| json!({ "zone": place.zone.0, "from": place.from, "to": place.to, "unreadable": place.unreadable }),
        )
        .collect();
    json!({ "zones_scanned": report.zones_scanned, "blocks_read": report.blocks_read, "pairs": report.pairs,
            "writes": report.writes, "moves": report.moves, "torn": places(&report.torn),
            "damaged": places(&report.damaged), "unknown": unknown, "sectors_lost": report.sectors_lost,
            "mended": places(&report.mended) })
}

fn zone_json(zone: &ZoneView) -> Value {
    let used = match zone.used {
        ZoneUse::Free => "free",
        ZoneUse::Writes => "writes",
        ZoneUse::Copies => "copies",
        ZoneUse::Written => "written",
        ZoneUse::Copied => "copied",
        ZoneUse::Dead => "dead",
    };
    json!({ "zone": zone.name.zone.0, "generation": zone.name.generation, "use": used, "live_sectors": zone.live,
            "kept_sectors": zone.kept,
            "blocks": zone.blocks })
}
