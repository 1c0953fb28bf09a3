//! Objects made one after the other, on a raw drive and on a file system. (Dissertation, section 4.3.1, Figure 4.3.)

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks};
use shingle_drive_model::Profile;
use shingle_sim::{Runtimes, Sim};
use shingle_store_api::{BlockStore, Durability, StoreError};

use super::object_drives;
use super::objects::{Configuration, Objects};
use crate::baseline::ext4_files::{Ext4Files, Machine};
use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::times::{Summary, Times};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::blocks::DriveBlocks;
use crate::rig::host::Host;
use crate::rig::processor;

/// Name in commands.
pub(crate) const NAME: &str = "object-create";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: NAME,
        question: "How many objects a second does a store make durable, without a journaling file system and on one?",
        setup: "One object after the other, each of 512 KiB with 500 bytes of metadata, each durable before the next. On a file system: a file \
                that is written and fsynced, then a record in the log of RocksDB, fsynced, on the model of ext4 (the paper has XFS). Raw, paper's \
                configuration: data and a flush, a record in a log whose space is there already, and a flush. Ours: a transaction of the \
                store of objects on zones. The file system has a part of the drive that is about as long as what the raw store uses, so that no seek to \
                its journal is longer than theirs; a row has it on the whole drive, where mke2fs puts the journal halfway. Ours has to be as fast as raw; \
                a goal over the file system is only asked for where the model comes to the paper's ratio. HDD: the HSH721414AL and its conventional twin (the paper's ST4000NM0023 is a disk of 7,200 rpm, \
                too); SSD: the modelled conventional and ZNS SSD. Volatile caches of disks are on; buffers of both SSDs survive power cuts.",
        runs: Runs::ONE,
        run,
    }
}

const DATA: u64 = 512 << 10;
const METADATA: u64 = 500;

/// Bytes of a record in RocksDB's log: metadata, key, heads.
const RECORD: u64 = METADATA + 50;

const BLOCK: u64 = 4096;

/// Tolerance of the paper's ratios.
const TOLERANCE: f64 = 0.2;

#[derive(Clone, Copy)]
enum Under {
    /// On the whole drive.
    Ext4,
    /// On as much of the drive as the raw store uses.
    Ext4Part,
    Raw,
    Ours,
}

/// Bytes of the raw store's log files.
const LOGS: u64 = 1 << 30;

/// Bytes of a file system for so many objects: logs, data, and a tenth more for its own.
const fn part_of(count: u64) -> u64 {
    2 * LOGS + count * DATA / 10 * 11
}

async fn on_ext4(
    runtimes: &Runtimes,
    profile: &Profile,
    host: Host,
    (count, bytes): (u64, u64),
) -> Result<Times, LabError> {
    let blocks = Rc::new(DriveBlocks::of_profile(&runtimes.hardware, profile, host)?.first(bytes));
    let machine = Machine { memory_bytes: 8 << 30, cores: 8, call: Duration::from_micros(5), byte_ps: 250 };
    let files = Ext4Files::format(&runtimes.program, blocks, machine)?;
    let log = files.create().await?;
    let mut times = Times::default();
    for _ in 0..count {
        let began = runtimes.program.now();
        let object = files.create().await?;
        files.write(object, 0, DATA).await?;
        files.fsync(object).await?;
        files.write(log, files.length(log), RECORD).await?;
        files.fsync(log).await?;
        times.note(began, runtimes.program.now());
    }
    Ok(times)
}

async fn on_raw(runtimes: &Runtimes, profile: &Profile, host: Host, count: u64) -> Result<Times, LabError> {
    let failed = |error: StoreError| LabError(error.to_string());
    let store = DriveBlocks::of_profile(&runtimes.hardware, profile, host)?;
    let zeros: Bytes = AlignedBuf::zeroed(Blocks(DATA / BLOCK)).freeze();
    // A pool of log files before the data. (Section 4.3.1)
    let (mut log, mut data, mut times) = (0u64, LOGS, Times::default());
    for _ in 0..count {
        let began = runtimes.program.now();
        store.write(data, vec![zeros.clone()], Durability::Cached).await.map_err(failed)?;
        store.flush().await.map_err(failed)?;
        let (first, end) = (log / BLOCK * BLOCK, (log + RECORD).next_multiple_of(BLOCK));
        store.write(first, vec![zeros.slice(..(end - first) as usize)], Durability::Cached).await.map_err(failed)?;
        store.flush().await.map_err(failed)?;
        (log, data) = (log + RECORD, data + DATA);
        times.note(began, runtimes.program.now());
    }
    Ok(times)
}

async fn on_zones(runtimes: &Runtimes, profile: &Profile, host: Host, count: u64) -> Result<Times, LabError> {
    let objects = Objects::format(runtimes, profile, host, Configuration::Ours, u32::MAX).await?;
    let mut times = Times::default();
    for object in 0..count {
        let began = runtimes.program.now();
        objects.write(object, DATA, METADATA as usize).await?;
        times.note(began, runtimes.program.now());
    }
    Ok(times)
}

/// Times of the objects, one after the other.
fn measure(context: &Context, profile: &Profile, under: Under, host: Host) -> Result<Summary, LabError> {
    let count = context.scale.pick(200, 4_000, 20_000);
    let profile = profile.clone();
    Sim::new(context.seed).run_on(Some(&processor::server()), move |runtimes| async move {
        let times = match under {
            Under::Ext4 => on_ext4(&runtimes, &profile, host, (count, u64::MAX)).await?,
            Under::Ext4Part => on_ext4(&runtimes, &profile, host, (count, part_of(count))).await?,
            Under::Raw => on_raw(&runtimes, &profile, host, count).await?,
            Under::Ours => on_zones(&runtimes, &profile, host, count).await?,
        };
        Ok(times.summary())
    })
}

/// Objects a second.
fn rate(times: &Summary) -> f64 {
    1e3 / times.mean_ms
}

/// Rows of a drive, by objects a second on a file system on all and on a part of it, raw, and of ours.
fn rows_of(drive: &str, paper: f64, (whole, files): (f64, f64), (raw, ours): (f64, f64)) -> [Row; 3] {
    let row = |id: &str| Row::new(format!("{id}, {drive}"), "x", Better::Higher);
    let over_files = row("objects made on a raw drive, over a file system")
        .paper(paper, TOLERANCE)
        .paper_config(raw / files)
        .ours(ours / files);
    let reproduced = (raw / files / paper - 1.0).abs() <= TOLERANCE;
    let rates = format!("{files:.0} objects/s on ext4, {raw:.0} raw, {ours:.0} of ours");
    [
        if reproduced {
            over_files.goal(paper).note(rates)
        } else {
            over_files.note(format!("{rates}; no goal, as the file system is not as fast as the paper's beside raw"))
        },
        row("objects made on a raw drive, over a file system on the whole drive")
            .paper_shown(paper)
            .paper_config(raw / whole)
            .ours(ours / whole)
            .note(format!("{whole:.0} objects/s on ext4, whose journal is halfway through the drive")),
        row("objects made by ours, over a raw drive").ours(ours / raw).goal(1.0).note("not in the paper"),
    ]
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let host = Host::linux_4_18();
    context.on_host(host);
    let drives = [
        ("HDD", object_drives::twin(context)?, object_drives::zoned(context)?, 1.8),
        ("SSD", context.profile("ssd-3840")?, object_drives::zns(context)?, 1.7),
    ];
    let (mut rows, mut all_times) = (Vec::new(), Vec::new());
    let mut rates = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for (at, (name, anywhere, zoned, paper)) in (0..).zip(&drives) {
        (context.progress)(name, Some(f64::from(at) / 2.0));
        let measured = |under, profile| measure(context, profile, under, host);
        let (whole, files) = (measured(Under::Ext4, anywhere)?, measured(Under::Ext4Part, anywhere)?);
        let (raw, ours) = (measured(Under::Raw, anywhere)?, measured(Under::Ours, zoned)?);
        for (times, bars) in [whole, files, raw, ours].iter().zip(&mut rates) {
            bars.push((f64::from(at), rate(times)));
        }
        all_times.extend(times::rows(&format!("object made on a file system, {name}"), Some(&files), None));
        all_times.extend(times::rows(
            &format!("object made on a raw drive and by ours, {name}"),
            Some(&raw),
            Some(&ours),
        ));
        let [whole, files, raw, ours] = [whole, files, raw, ours].map(|times| rate(&times));
        let judged = |row: Row| if context.scale == Scale::Quick { row } else { row.judged() };
        rows.extend(rows_of(name, *paper, (whole, files), (raw, ours)).map(judged));
    }
    rows.extend(all_times);
    let names = ["ext4 on the whole drive", "ext4 on a part", "raw, paper's configuration", "ours on zones"];
    let bars = names.into_iter().zip(rates).map(|(name, points)| Series::new(name, Mark::Bars, points));
    let figures = vec![Figure {
        name: NAME.to_owned(),
        title: "Objects of 512 KiB made durable one after the other (Figure 4.3)".to_owned(),
        x: Axis::of_names("drive", drives.iter().map(|drive| drive.0.to_owned()).collect()),
        y: Axis::logarithmic("objects/s"),
        series: bars.collect(),
    }];
    Ok(Outcome { rows, figures, ..Outcome::default() })
}
