//! RocksDB's inserts on disks of each kind. (Dissertation, section 5.5, Figures 5.4 to 5.10.)

use super::rocksdb_load::Load;
use super::rocksdb_rows::{self, Found};
use super::rocksdb_systems::{ASYNC, CACHED, CMR, DM_SMR, OURS, SYNC, System, conventional, managed, zoned};
use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::grid::{Grid, Measure};
use crate::report::row::Better;
use crate::rig::calls::{Caching, Gathering};
use crate::rig::host::Host;

/// Name in commands.
pub(crate) const NAME: &str = "rocksdb-hmsmr";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: NAME,
        question: "How long do random inserts into RocksDB take on disks of each kind, and how many zones do they need?",
        setup: "Real RocksDB 7.8.3 under the dissertation's load, at a quarter of its sizes: `db_bench` inserts 37.5 million pairs of 20 and \
                400 bytes at random, memtables and tables of 64 MiB, 2 MiB of read-ahead for compactions, four background jobs, snappy. \
                All calls that reached its file system were recorded, with each thread's processor time and with what it waited for \
                (docs/formats/file-calls.md). Here they are made again in virtual time: threads compute as long as they did, and wait for \
                each other where they did. Below `full` the load is the beginning of that. CMR: a model of ext4 with a page cache of 512 \
                MiB (the paper's 2 GiB, by a quarter; it has XFS) on the conventional twin of the HGST HSH721414AL; DM-SMR: the same on the \
                modelled ST8000AS0002, its cache by a quarter; HM-SMR: our files on zones of the HSH721414AL, \
                with the paper's I/O (512 KiB at a time, for which the thread waits; then not; then with a cache of whole tables), and \
                as they are; each cache has 512 MiB. Places, records and journal are ours in all of these rows. Zones are as large as tables, \
                as in the paper. Volatile caches of CMR and \
                DM-SMR are on. The paper does not say it of HM-SMR: all rows are made with its cache off, with turns lost and without, and with it on, and a verdict is \
                yes only if it is so in all three (LAB-JOIN-2). I/Os are cut at 512 KiB (section 5.5.3). A recording of \
                one's own: `--trace FILE`.",
        runs: Runs::CACHES,
        run,
    }
}

const MEASURES: [Measure; 6] = [
    Measure::shown("time of the inserts", "s", Better::Lower),
    Measure::shown("until all is done", "s", Better::Lower),
    Measure::shown("the writer waits", "s", Better::Lower),
    Measure::shown("inserted", "MB/s", Better::Higher),
    Measure::shown("zones at most", "", Better::Lower),
    Measure::shown("written for each byte by drive or files", "x", Better::Lower),
];

fn systems(context: &Context, load: &Load) -> Result<Vec<System>, LabError> {
    let mut systems = vec![
        System::ext4(context, CMR, &conventional(load)?, load),
        System::ext4(context, DM_SMR, &managed(load)?, load),
    ];
    let memory = load.memory_bytes();
    let drive = zoned(load, context.change.cache_on)?;
    let on_zones = |name: &str, gathering, caching| System::zones(context, name, &drive, gathering, caching);
    systems.extend([
        on_zones(SYNC, Gathering::Waiting, Caching::Nothing),
        on_zones(ASYNC, Gathering::GoingOn, Caching::Nothing),
        on_zones(CACHED, Gathering::GoingOn, Caching::WholeTables(memory)),
        on_zones(OURS, Gathering::Moment, Caching::Blocks(memory)),
    ]);
    Ok(systems)
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let load = Load::of(context)?;
    let host = Host::linux_4_18();
    let mut grid = Grid::new(NAME, "RocksDB's inserts", &MEASURES);
    let (mut found, mut inserts, mut zones) = (Found::default(), Vec::new(), Vec::new());
    let measure = |system: &System, host, seed| {
        let run = system.run(&load, host, seed)?;
        inserts.push(Series::new(&system.name, Mark::Line, run.course.logged.points()));
        if !run.zones.is_empty() {
            zones.push(Series::new(&system.name, Mark::Line, run.zones.clone()));
        }
        let most = run.zones.iter().map(|point| point.1).fold(0.0, f64::max);
        let bytes = load.recording.appended(crate::calls::record::Use::Log) as f64;
        let values = vec![
            Some(run.course.seconds),
            Some(run.course.all_seconds),
            Some(run.course.stalled_seconds),
            Some(bytes / 1e6 / run.course.seconds),
            (most > 0.0).then_some(most),
            run.inside_since(0.0),
        ];
        found.take(&system.name, run);
        Ok(values)
    };
    grid.fill(context, (&systems(context, &load)?, &[host], &[context.seed]), |system| &system.name, measure)?;
    let figure = |name: &str, title: String, y: &str, series| Figure {
        name: format!("{NAME}-{name}"),
        title,
        x: Axis::linear("time (s)"),
        y: Axis::linear(y),
        series,
    };
    let figures = vec![
        found.bars(NAME),
        figure(
            "inserts",
            format!("RocksDB's inserts: bytes to the log, {} (Figures 5.8 to 5.10)", load.name),
            "MB/s",
            inserts,
        ),
        figure("zones", "RocksDB's inserts: zones that are not empty (Figure 5.9 d)".to_owned(), "zones", zones),
    ];
    let rows = rocksdb_rows::rows(&found, &load, context);
    Ok(Outcome { rows, figures, grids: vec![grid], ..Outcome::default() })
}
