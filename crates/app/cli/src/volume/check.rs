//! `shingle volume check`: all sectors, read and verified. Nothing is written.

use std::path::PathBuf;

use clap::Args;
use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::json;
use shingle_base::ByteSize;
use shingle_store_api::BlockStore;
use shingle_translation::{Extent, RecoveryReport};

use super::look::report_json;
use super::opened::{examined, named};
use crate::failure::{Failure, Outcome, status};
use crate::output::{Progress, counted};

/// Extents that are read in the order of the drive, before the next ones.
const WINDOW: usize = 1 << 16;
/// Reads at a time.
const DEPTH: usize = 16;
/// Bytes of a read at most.
const PIECE: u64 = 1 << 20;
/// Damaged places that are listed at most. The others are counted.
const LISTED: usize = 1000;

#[derive(Args)]
pub(crate) struct Check {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Sectors that cannot be had, and the reason.
#[derive(Debug)]
struct Bad {
    first: u64,
    sectors: u64,
    why: String,
}

/// The findings of a check.
#[derive(Default)]
struct Findings {
    verified_bytes: u64,
    bad: Vec<Bad>,
    /// Sectors that cannot be had, listed or not.
    bad_sectors: u64,
}

impl Check {
    pub(crate) fn run(self) -> Outcome {
        let checked = shingle_runtime::real::run(|rt| async move {
            let (volume, report) = examined(&self.drive, &rt, true).await?;
            let mut found = Findings::default();
            let control = volume.control();
            let all = volume.stats().sectors_mapped * volume.sector_bytes();
            verify(&volume, |from| control.extents(from, WINDOW), all, &mut found).await;
            for snapshot in volume.snapshots() {
                // Sectors that it shares with the volume, or with a younger one, are read with that one.
                let view = volume.at_snapshot(&snapshot.name);
                let view = view.map_err(|error| named(&self.drive, &error).not_run())?;
                let mut kept = Findings { verified_bytes: found.verified_bytes, ..Findings::default() };
                verify(&view, |from| view.kept(from, WINDOW), all, &mut kept).await;
                found.verified_bytes = kept.verified_bytes;
                let named = |bad: Bad| Bad { why: format!("snapshot {}: {}", snapshot.name, bad.why), ..bad };
                kept.bad.into_iter().map(named).for_each(|bad| found.add(bad));
            }
            Ok::<_, Failure>((volume.store().to_string(), report, found))
        });
        let (store, report, found) = checked.map_err(|error| Failure::from(error).not_run())??;
        let (damage, warnings) = (found.damage(&report), warnings(&report));
        let clean = damage.is_empty();
        if self.json {
            say!(
                "{}",
                json!({ "clean": clean, "repaired": 0, "damage": damage, "warnings": warnings, "volume": store,
                               "verified_bytes": found.verified_bytes, "bad_sectors": found.bad_sectors,
                               "opening": report_json(&report) })
            );
        } else {
            say!("{} in {} verified", ByteSize(found.verified_bytes), counted(report.extents, "extent"));
            warnings.iter().for_each(|line| say!("warning: {line}"));
            damage.iter().for_each(|line| say!("damaged: {line}"));
            say!("{}", if clean { "clean" } else { "damage is left: restore what was there from another copy" });
        }
        if clean { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
    }
}

impl Findings {
    fn damage(&self, report: &RecoveryReport) -> Vec<String> {
        let unknown = report.unknown.iter().map(|place| {
            let (from, to) = (place.from, place.to.saturating_sub(1));
            let why = if place.unreadable { "cannot be read" } else { "are damaged" };
            format!("{}: blocks {from} to {to} {why}: sectors that they name may read as they were before", place.zone)
        });
        let bad = self.bad.iter().map(|Bad { first, sectors, why }| match sectors {
            1 => format!("sector {first}: {why}"),
            _ => format!("sectors {first} to {}: {why}", first + sectors - 1),
        });
        let listed: u64 = self.bad.iter().map(|bad| bad.sectors).sum();
        let more =
            (listed < self.bad_sectors).then(|| format!("{} more", counted(self.bad_sectors - listed, "sector")));
        unknown.chain(bad).chain(more).collect()
    }

    fn add(&mut self, found: Bad) {
        self.bad_sectors += found.sectors;
        let full = self.bad.len() >= LISTED;
        match self.bad.last_mut() {
            Some(last) if last.first + last.sectors == found.first && last.why == found.why => {
                last.sectors += found.sectors;
            }
            _ if !full => self.bad.push(found),
            _ => {}
        }
    }
}

/// Losses that cost nothing, or show in the sectors.
fn warnings(report: &RecoveryReport) -> Vec<String> {
    let mended = report
        .mended
        .iter()
        .map(|(zone, block)| format!("{zone}, block {block}: lost metadata, which others make up for"));
    let damaged = report
        .damaged
        .iter()
        .map(|(zone, block)| format!("{zone}: the pair at block {block} is damaged or cannot be read as a whole"));
    mended.chain(damaged).collect()
}

/// Reads all that a map names, each window of it in the order of the drive.
async fn verify(
    store: &dyn BlockStore,
    extents: impl Fn(u64) -> (Vec<Extent>, Option<u64>),
    all: u64,
    found: &mut Findings,
) {
    let (mut progress, sector) = (Progress::new(), store.sector_bytes());
    let mut from = Some(0);
    while let Some(start) = from {
        let (mut extents, next) = extents(start);
        from = next;
        extents.sort_by_key(|extent| extent.place.bits());
        let reads = extents.iter().flat_map(|extent| pieces(extent, sector)).map(|(first, sectors)| async move {
            let mut bad = Vec::new();
            read(store, first, sectors, &mut bad).await;
            (sectors, bad)
        });
        let mut reads = stream::iter(reads).buffered(DEPTH);
        while let Some((sectors, bad)) = reads.next().await {
            let lost: u64 = bad.iter().map(|bad| bad.sectors).sum();
            found.verified_bytes += (sectors - lost) * sector;
            bad.into_iter().for_each(|bad| found.add(bad));
            let done = found.verified_bytes + found.bad_sectors * sector;
            progress.show_bytes(done.min(all), all);
        }
    }
    found.bad.sort_by_key(|bad| bad.first);
}

/// An extent in reads: first sectors and lengths.
fn pieces(extent: &Extent, sector_bytes: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (first, end, most) = (extent.lba, extent.end(), PIECE / sector_bytes);
    (first..end).step_by(most as usize).map(move |at| (at, most.min(end - at)))
}

/// Reads sectors; if some of them cannot be had, finds out which.
fn read<'a>(store: &'a dyn BlockStore, first: u64, sectors: u64, bad: &'a mut Vec<Bad>) -> LocalBoxFuture<'a, ()> {
    async move {
        let sector = store.sector_bytes();
        match store.read(first * sector, sectors * sector).await {
            Ok(_) => {}
            Err(error) if sectors == 1 => bad.push(Bad { first, sectors, why: error.message }),
            Err(_) => {
                let half = sectors / 2;
                read(store, first, half, bad).await;
                read(store, first + half, sectors - half, bad).await;
            }
        }
    }
    .boxed_local()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_sectors_that_adjoin_are_one_place_and_too_many_are_counted() {
        let bad = |first, why: &str| Bad { first, sectors: 1, why: why.to_owned() };
        let mut found = Findings::default();
        [bad(4, "a"), bad(5, "a"), bad(6, "b"), bad(9, "b")].into_iter().for_each(|bad| found.add(bad));
        assert_eq!(found.damage(&RecoveryReport::default()), ["sectors 4 to 5: a", "sector 6: b", "sector 9: b"]);
        (0..2000u64).for_each(|number| found.add(bad(100 + 2 * number, "c")));
        assert_eq!(found.damage(&RecoveryReport::default()).last().unwrap(), "1003 sectors more");
    }
}
