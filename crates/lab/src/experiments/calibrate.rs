//! Are the modelled drives the real ones? Published figures beside modelled ones, for every profile.

use std::cell::Cell;
use std::rc::Rc;

use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_drive_model::{Figure as Published, Profile};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice};
use shingle_zoned::{ZoneOp, ZonedDevice};

use crate::drives::LabDrive;
use crate::experiment::{Better, Context, Experiment, LabError, Outcome, Row};
use crate::figure::{Axis, Figure, Mark, Series};

/// How far a modelled figure may be from a published one.
const TOLERANCE: f64 = 0.05;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "calibrate",
        question: "Do the modelled drives have the speeds that are published of the real ones?",
        expectation: "Every published figure of every profile within 5 % (SMRstore, Table 2 and section 2.2; SMORE, \
                      section V-A; dissertation, Table 5.1).",
        setup: "Raw commands on each modelled drive: 4 KiB random reads one at a time over the whole drive, 512 KiB \
                sequential transfers 32 at a time at the outer diameter, 64 places from outer to inner diameter for \
                means, and zone commands.",
        run,
    }
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let mut outcome = Outcome::default();
    let mut points = Vec::new();
    let profiles = Profile::built_in().map_err(|error| LabError(error.0))?;
    let count = profiles.len();
    for (number, profile) in profiles.into_iter().enumerate() {
        (context.progress)(&profile.name, Some(number as f64 / count as f64));
        for published in profile.published.clone() {
            let (what, unit) = published.figure.label();
            let found = measure(&profile.name, published.figure, context)?;
            let row = Row::new(format!("{}: {what}", profile.name), unit, Better::Higher)
                .paper(published.value, TOLERANCE)
                .paper_config(found)
                .judged();
            points.push((points.len() as f64, found / published.value));
            outcome.rows.push(row);
        }
    }
    let names = outcome.rows.iter().map(|row| row.id.split(':').next().unwrap_or_default().to_owned()).collect();
    outcome.figures.push(Figure {
        name: "calibrate".to_owned(),
        title: "Modelled over published, each figure of each drive".to_owned(),
        x: Axis::of_names("", names),
        y: Axis::linear("modelled / published"),
        series: vec![
            Series::new("published", Mark::Line, (0..points.len()).map(|at| (at as f64, 1.0)).collect()),
            Series::new("modelled", Mark::LineAndPoints, points),
        ],
    });
    Ok(outcome)
}

/// Measures one figure on a fresh drive.
fn measure(profile: &str, figure: Published, context: &Context) -> Result<f64, LabError> {
    let drive = LabDrive::new(profile)?;
    let (seed, reads) = (context.seed, context.scale.pick(2_000, 20_000, 100_000));
    Ok(Sim::new(seed).run(move |rt| async move {
        let device = drive.device(&rt, drive.blank());
        match figure {
            Published::RandomReadIops => random_reads(&rt, &device, reads).await,
            Published::SequentialReadOuter => sequential(&rt, &device, first_zone(&device), 4, false).await,
            Published::SequentialWriteOuter => sequential(&rt, &device, first_zone(&device), 4, true).await,
            Published::SequentialReadMean => mean(&rt, &device, false).await,
            Published::SequentialWriteMean => mean(&rt, &device, true).await,
            Published::ZoneOpen => zone_command(&rt, &device, &[], ZoneOp::Open).await,
            Published::ZoneClose => zone_command(&rt, &device, &[ZoneOp::Open], ZoneOp::Close).await,
            Published::ZoneErase => zone_command(&rt, &device, &[ZoneOp::Open], ZoneOp::Reset).await,
        }
    }))
}

/// The first zone that a sequential write may begin in: sequential zones where there are any.
fn first_zone(device: &SimDevice) -> ZoneId {
    let geometry = device.geometry();
    let first = geometry.conventional_zones;
    ZoneId(if first == geometry.zone_count { 0 } else { first })
}

/// Reads of 4 KiB anywhere, one at a time: a second. (Blocks never written are read as the drive would: it cannot tell.)
async fn random_reads(rt: &Runtime, device: &SimDevice, count: u64) -> f64 {
    let mut random = Random::new(rt.random());
    let blocks = device.geometry().blocks().0;
    let began = rt.now();
    for _ in 0..count {
        device.touch(Lba(random.below(blocks)), Blocks(1)).await;
    }
    count as f64 / rt.now().since(began).as_secs_f64()
}

/// Transfers of 512 KiB through `zones` zones from `first`, 32 outstanding: MB/s.
async fn sequential(rt: &Runtime, device: &Rc<SimDevice>, first: ZoneId, zones: u32, write: bool) -> f64 {
    const BLOCKS: u64 = 128;
    let geometry = device.geometry();
    let start = geometry.start_of(first);
    let count = geometry.zone_size.0 * u64::from(zones) / BLOCKS;
    if write {
        // Zones are opened beforehand, as a benchmark of a minute and more makes their opening vanish.
        for zone in first.0..first.0 + zones {
            if !geometry.is_conventional(ZoneId(zone)) {
                expect(device.manage(ZoneId(zone), ZoneOp::Open).await);
            }
        }
    }
    let zeros = AlignedBuf::zeroed(Blocks(BLOCKS)).freeze();
    let next = Rc::new(Cell::new(0));
    let began = rt.now();
    let workers: Vec<_> = (0..32)
        .map(|_| {
            let (device, next, zeros) = (device.clone(), next.clone(), zeros.clone());
            rt.spawn(async move {
                while next.get() < count {
                    let at = start + Blocks(next.replace(next.get() + 1) * BLOCKS);
                    if write {
                        expect(device.write(at, vec![zeros.clone()]).await);
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
    if device.geometry().volatile_cache {
        expect(device.flush().await);
    }
    let bytes = count * BLOCKS * BLOCK_SIZE as u64;
    bytes as f64 / rt.now().since(began).as_secs_f64() / 1e6
}

/// The mean rate over the whole drive: all bytes over all time, from 64 places.
async fn mean(rt: &Runtime, device: &Rc<SimDevice>, write: bool) -> f64 {
    const PLACES: u32 = 64;
    let geometry = device.geometry();
    let first = first_zone(device).0;
    let mut seconds_per_mb = 0.0;
    for place in 0..PLACES {
        let zone = first + (geometry.zone_count - first - 1) / (PLACES - 1) * place;
        seconds_per_mb += 1.0 / sequential(rt, device, ZoneId(zone), 1, write).await;
    }
    f64::from(PLACES) / seconds_per_mb
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
