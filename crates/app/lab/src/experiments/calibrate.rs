//! Are the modelled drives the real ones? Published figures beside modelled ones, for every profile.

use std::cell::Cell;
use std::rc::Rc;

use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_drive_model::{Figure as Published, Profile};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice};
use shingle_zoned::{ZoneOp, ZonedDevice};

use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{CALIBRATION, Experiment, Outcome, Runs};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::drives::LabDrive;
use crate::rig::host::{Host, HostDevice};

/// Tolerance of a modelled figure against a published one.
const TOLERANCE: f64 = 0.05;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: CALIBRATION,
        question: "Do the modelled drives have the speeds that are published of the real ones?",
        setup: "Commands on each modelled drive behind Linux 4.19, which the papers' servers ran: 4 KiB random reads one at a \
                time over the part of the drive that was measured (6 TB of those of SMRstore's Table 2), 512 KiB \
                sequential transfers 32 at a time at the outer diameter, 64 places from outer to inner diameter for \
                means, and zone commands. The kernel keeps one write outstanding in a sequential zone. Reads 16 at a time \
                over the whole drive are held out: no constant was fitted to them.",
        runs: Runs::SEEDS_AND_TURNS,
        run,
    }
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let mut profiles = Profile::built_in().map_err(|error| LabError(error.0))?;
    // Of drives that translate inside, other figures are published; their tests in `drive-model` hold these.
    profiles.retain(|profile| profile.translation.is_none());
    if let Some(own) = context.drive.clone() {
        profiles.retain(|profile| profile.name != own.name);
        profiles.insert(0, own);
    }
    let own = context.drive.as_ref().map(|own| own.name.clone());
    let (mut rows, mut drives) = (Vec::new(), Vec::new());
    let count = profiles.len();
    for (number, profile) in profiles.into_iter().enumerate() {
        (context.progress)(&profile.name, Some(number as f64 / count as f64));
        context.on_host(HOST);
        let drive = LabDrive::of(context.used(profile.clone()));
        let mut points = Vec::new();
        for figure in figures(&profile, own.as_ref() == Some(&profile.name)) {
            let (what, unit) = figure.label();
            let published = profile.published.iter().find(|published| published.figure == figure);
            let zones = published.and_then(|published| published.zones);
            let found = measure(&drive.clone().first_zones(zones.unwrap_or(u32::MAX)), figure, context);
            let row = Row::new(format!("{}: {what}", profile.name), unit, Better::Higher).paper_config(found);
            rows.push(match published {
                Some(published) => {
                    points.push(((found / published.value - 1.0) * 100.0, points.len() as f64));
                    let row = row.paper(published.value, TOLERANCE).judged();
                    zones.map_or(row.clone(), |zones| row.note(format!("over its first {zones} zones")))
                }
                None => row.note("nothing is published of it"),
            });
        }
        drives.push((profile.name, points));
    }
    let figures = vec![picture(&rows, drives)];
    for name in HELD_OUT {
        (context.progress)(&format!("{name}, held out"), None);
        rows.push(held_out(&LabDrive::of(context.profile(name)?), context));
    }
    Ok(Outcome { rows, figures, ..Outcome::default() })
}

/// The kernel between the measuring program and the drive.
const HOST: Host = Host::linux_4_19();

/// Drives of SMRstore's Table 2.
const HELD_OUT: [&str; 2] = ["st20000nm001j", "st16000nm001g"];

/// Random reads a second at depth 16 over a whole drive, by data sheets of drives of this kind, and the tolerance of that.
const QD16: (f64, f64) = (170.0, 0.15);

/// A figure that no constant was fitted to: it tells whether the ones that were fitted mean what they seem to.
fn held_out(drive: &LabDrive, context: &Context) -> Row {
    let reads = context.scale.pick(2_000, 20_000, 100_000);
    let on = drive.clone();
    let found = Sim::new(context.seed).run(move |rt| async move {
        let device = on.device(&rt, on.blank());
        random_reads(&rt, &device, reads, 16).await
    });
    let id = format!("held out: {}: 4 KiB random read, QD 16", drive.profile.name);
    let row = Row::new(id, "1/s", Better::Higher).paper(QD16.0, QD16.1).paper_config(found);
    row.note("data sheets of such drives say about 170").judged()
}

/// Figures measured of a drive: the published ones, and of the user's own drive all possible ones.
fn figures(profile: &Profile, own: bool) -> Vec<Published> {
    if !own {
        return profile.published.iter().map(|published| published.figure).collect();
    }
    let zone_commands: &[Published] =
        if profile.kind.is_zoned() { &[Published::ZoneOpen, Published::ZoneClose, Published::ZoneErase] } else { &[] };
    let rates = [
        Published::RandomReadIops,
        Published::SequentialReadOuter,
        Published::SequentialWriteOuter,
        Published::SequentialReadMean,
        Published::SequentialWriteMean,
    ];
    rates.iter().chain(zone_commands).copied().collect()
}

/// Distance of each figure from the published one: a row for each, a series for each drive.
fn picture(rows: &[Row], drives: Vec<(String, Vec<(f64, f64)>)>) -> Figure {
    let names: Vec<String> = rows.iter().filter(|row| row.paper.is_some()).map(|row| row.id.clone()).collect();
    let span = [-0.6, names.len() as f64 - 0.4];
    let limit = |percent: f64| span.map(|at| (percent, at)).to_vec();
    let mut series = vec![
        Series::new("published", Mark::Line, limit(0.0)),
        Series::new("tolerance", Mark::Reference, limit(-100.0 * TOLERANCE)),
        Series::new("tolerance", Mark::Reference, limit(100.0 * TOLERANCE)),
    ];
    let mut first = 0.0;
    for (name, points) in drives {
        let count = points.len() as f64;
        if count > 0.0 {
            let placed = points.into_iter().map(|(off, at)| (off, first + at)).collect();
            series.push(Series::new(name, Mark::Points, placed));
        }
        first += count;
    }
    Figure {
        name: "calibrate".to_owned(),
        title: "Distance of modelled drives from published figures".to_owned(),
        x: Axis::linear("modelled over published (%)"),
        y: Axis::of_names("", names),
        series,
    }
}

/// Measures one figure on a fresh drive.
fn measure(drive: &LabDrive, figure: Published, context: &Context) -> f64 {
    let (seed, reads) = (context.seed, context.scale.pick(2_000, 20_000, 100_000));
    let drive = drive.clone();
    Sim::new(seed).run(move |rt| async move {
        let device = drive.device(&rt, drive.blank());
        let outer = |write| sequential(&rt, &device, first_zone(&device), outer_zones(&device), write);
        match figure {
            Published::RandomReadIops => random_reads(&rt, &device, reads, 1).await,
            Published::SequentialReadOuter => outer(false).await,
            Published::SequentialWriteOuter => outer(true).await,
            Published::SequentialReadMean => mean(&rt, &device, false).await,
            Published::SequentialWriteMean => mean(&rt, &device, true).await,
            Published::ZoneOpen => zone_command(&rt, &device, &[], ZoneOp::Open).await,
            Published::ZoneClose => zone_command(&rt, &device, &[ZoneOp::Open], ZoneOp::Close).await,
            Published::ZoneErase => zone_command(&rt, &device, &[ZoneOp::Open], ZoneOp::Reset).await,
        }
    })
}

/// Zones that a sequential transfer at the outer diameter goes through: four, if that many exist and may be open.
fn outer_zones(device: &SimDevice) -> u32 {
    let geometry = device.geometry();
    let limit = geometry.open_zones_max.unwrap_or(u32::MAX);
    4.min(geometry.zone_count - first_zone(device).0).min(limit)
}

/// The first zone for sequential writes: a sequential one if there are any.
fn first_zone(device: &SimDevice) -> ZoneId {
    let geometry = device.geometry();
    let first = geometry.conventional_zones;
    ZoneId(if first == geometry.zone_count { 0 } else { first })
}

/// Reads of 4 KiB anywhere, `depth` at a time: a second. (Blocks never written are read as the drive would: it cannot tell.) No
/// host cuts or delays so short a read.
async fn random_reads(rt: &Runtime, device: &Rc<SimDevice>, count: u64, depth: u32) -> f64 {
    let began = rt.now();
    let left = Rc::new(Cell::new(count));
    let readers: Vec<_> = (0..depth)
        .map(|_| {
            let (device, left, mut random) = (device.clone(), left.clone(), Random::new(rt.random()));
            rt.spawn(async move {
                let blocks = device.geometry().blocks().0;
                while left.get() > 0 {
                    left.set(left.get() - 1);
                    device.touch(Lba(random.below(blocks)), Blocks(1)).await;
                }
            })
        })
        .collect();
    for reader in readers {
        // Its simulation ends only after it.
        let _ = reader.await;
    }
    count as f64 / rt.now().since(began).as_secs_f64()
}

/// Transfers of 512 KiB through `zones` zones from `first`, 32 outstanding: MB/s. (No host cuts so short a read.)
async fn sequential(rt: &Runtime, device: &Rc<SimDevice>, first: ZoneId, zones: u32, write: bool) -> f64 {
    const BLOCKS: u64 = 128;
    let writer = HostDevice::new(HOST, device.clone());
    let geometry = device.geometry();
    // Zones are transferred to their capacity, if that is less than their size.
    let of_zone = geometry.zone_capacity.0 / BLOCKS;
    if write {
        // Zones are opened beforehand, as a benchmark of a minute and more makes their opening vanish.
        for zone in first.0..first.0 + zones {
            if !geometry.is_conventional(ZoneId(zone)) {
                expect(device.manage(ZoneId(zone), ZoneOp::Open).await);
            }
        }
    }
    let zeros = AlignedBuf::zeroed(Blocks(BLOCKS)).freeze();
    let began = rt.now();
    // One stream: a zone's transfers end before those of the next begin. A kernel that keeps one write outstanding in a zone would else
    // send the arm to and fro between the two.
    for zone in first.0..first.0 + zones {
        let (start, next) = (geometry.start_of(ZoneId(zone)), Rc::new(Cell::new(0)));
        let workers: Vec<_> = (0..32)
            .map(|_| {
                let (device, writer, next, zeros) = (device.clone(), writer.clone(), next.clone(), zeros.clone());
                rt.spawn(async move {
                    while next.get() < of_zone {
                        let at = start + Blocks(next.replace(next.get() + 1) * BLOCKS);
                        if write {
                            expect(writer.write(at, vec![zeros.clone()]).await);
                        } else {
                            device.touch(at, Blocks(BLOCKS)).await;
                        }
                    }
                })
            })
            .collect();
        for worker in workers {
            // Its simulation ends only after it.
            let _ = worker.await;
        }
    }
    if device.geometry().volatile_cache {
        expect(device.flush().await);
    }
    let bytes = u64::from(zones) * of_zone * BLOCKS * BLOCK_SIZE as u64;
    bytes as f64 / rt.now().since(began).as_secs_f64() / 1e6
}

/// The mean rate over the whole drive: all bytes over all time, from 64 places.
async fn mean(rt: &Runtime, device: &Rc<SimDevice>, write: bool) -> f64 {
    let geometry = device.geometry();
    let first = first_zone(device).0;
    let places = 64.min(geometry.zone_count - first);
    let mut seconds_per_mb = 0.0;
    for place in 0..places {
        let zone = first + (geometry.zone_count - first - 1) / (places - 1).max(1) * place;
        seconds_per_mb += 1.0 / sequential(rt, device, ZoneId(zone), 1, write).await;
    }
    f64::from(places) / seconds_per_mb
}

/// One zone command, after others that bring the zone into its state: milliseconds.
async fn zone_command(rt: &Runtime, device: &SimDevice, before: &[ZoneOp], op: ZoneOp) -> f64 {
    let zone = first_zone(device);
    for &op in before {
        expect(device.manage(zone, op).await);
    }
    let began = rt.now();
    expect(device.manage(zone, op).await);
    rt.now().since(began).as_secs_f64() * 1e3
}

/// The modelled drive fails nothing.
fn expect<T, E: std::fmt::Display>(result: Result<T, E>) {
    if let Err(error) = result {
        panic!("a command on a modelled drive failed: {error}");
    }
}
