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
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
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
                store of objects on zones. HDD: the HSH721414AL and its conventional twin (the paper's ST4000NM0023 is a disk of 7,200 rpm, \
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

#[derive(Clone, Copy)]
enum Under {
    Ext4,
    Raw,
    Ours,
}

async fn on_ext4(runtimes: &Runtimes, profile: &Profile, host: Host, count: u64) -> Result<f64, LabError> {
    let blocks = Rc::new(DriveBlocks::of_profile(&runtimes.hardware, profile, host)?);
    let machine = Machine { memory_bytes: 8 << 30, cores: 8, call: Duration::from_micros(5), byte_ps: 250 };
    let files = Ext4Files::format(&runtimes.program, blocks, machine)?;
    let log = files.create().await?;
    let began = runtimes.program.now();
    for _ in 0..count {
        let object = files.create().await?;
        files.write(object, 0, DATA).await?;
        files.fsync(object).await?;
        files.write(log, files.length(log), RECORD).await?;
        files.fsync(log).await?;
    }
    Ok(runtimes.program.now().since(began).as_secs_f64())
}

async fn on_raw(runtimes: &Runtimes, profile: &Profile, host: Host, count: u64) -> Result<f64, LabError> {
    let failed = |error: StoreError| LabError(error.to_string());
    let store = DriveBlocks::of_profile(&runtimes.hardware, profile, host)?;
    let zeros: Bytes = AlignedBuf::zeroed(Blocks(DATA / BLOCK)).freeze();
    // A pool of log files before the data. (Section 4.3.1)
    let (mut log, mut data, began) = (0u64, 1 << 30, runtimes.program.now());
    for _ in 0..count {
        store.write(data, vec![zeros.clone()], Durability::Cached).await.map_err(failed)?;
        store.flush().await.map_err(failed)?;
        let (first, end) = (log / BLOCK * BLOCK, (log + RECORD).next_multiple_of(BLOCK));
        store.write(first, vec![zeros.slice(..(end - first) as usize)], Durability::Cached).await.map_err(failed)?;
        store.flush().await.map_err(failed)?;
        (log, data) = (log + RECORD, data + DATA);
    }
    Ok(runtimes.program.now().since(began).as_secs_f64())
}

async fn on_zones(runtimes: &Runtimes, profile: &Profile, host: Host, count: u64) -> Result<f64, LabError> {
    let objects = Objects::format(runtimes, profile, host, Configuration::Ours, u32::MAX).await?;
    let began = runtimes.program.now();
    for object in 0..count {
        objects.write(object, DATA, METADATA as usize).await?;
    }
    Ok(runtimes.program.now().since(began).as_secs_f64())
}

/// Objects a second.
fn measure(context: &Context, profile: &Profile, under: Under, host: Host) -> Result<f64, LabError> {
    let count = context.scale.pick(200, 4_000, 20_000);
    let profile = profile.clone();
    Sim::new(context.seed).run_on(Some(&processor::server()), move |runtimes| async move {
        let seconds = match under {
            Under::Ext4 => on_ext4(&runtimes, &profile, host, count).await?,
            Under::Raw => on_raw(&runtimes, &profile, host, count).await?,
            Under::Ours => on_zones(&runtimes, &profile, host, count).await?,
        };
        Ok(count as f64 / seconds)
    })
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let host = Host::linux_4_18();
    context.on_host(host);
    let drives = [
        ("HDD", object_drives::twin(context)?, object_drives::zoned(context)?, 1.8, Some(1.8)),
        ("SSD", context.profile("ssd-3840")?, object_drives::zns(context)?, 1.7, None),
    ];
    let (mut rows, mut rates) = (Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for (at, (name, anywhere, zoned, paper, goal)) in (0..).zip(&drives) {
        (context.progress)(name, Some(f64::from(at) / 2.0));
        let found = [(Under::Ext4, anywhere), (Under::Raw, anywhere), (Under::Ours, zoned)];
        let found = found.map(|(under, profile)| measure(context, profile, under, host));
        let [files, raw, ours] = found;
        let (files, raw, ours) = (files?, raw?, ours?);
        for (rate, bars) in [files, raw, ours].into_iter().zip(&mut rates) {
            bars.push((f64::from(at), rate));
        }
        let row = Row::new(format!("objects made on a raw drive, over a file system, {name}"), "x", Better::Higher)
            .paper(*paper, 0.2)
            .paper_config(raw / files)
            .ours(ours / files)
            .note(format!("{files:.0} objects/s on ext4, {raw:.0} raw, {ours:.0} of ours"));
        let row = goal.map_or(row.clone(), |goal| row.goal(goal));
        rows.push(if context.scale == Scale::Quick { row } else { row.judged() });
    }
    let names = ["ext4", "raw, paper's configuration", "ours on zones"];
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
