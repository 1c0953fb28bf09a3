//! High-concurrency writes. (SMRstore, Figures 4 and 14.)

use super::micro_write_hosts::{self, OVER_EXT4};
use crate::baseline::ext4::Ext4Options;
use crate::baseline::f2fs::F2fsOptions;
use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::micro::{MicroResult, Order};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::engine::Setup;
use crate::rig::store::Store;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "micro-write",
        question: "How fast does one drive take appends to 512 chunks at once, by I/O size?",
        setup: "Four fio jobs, four requests outstanding each, 128 files each, visited in turn; write cache off. The \
                paper's configuration sees its drive through Linux 4.19, which cuts direct I/O at 1 MiB and keeps one \
                write outstanding in a zone; the project's own through Linux 6.10 or later with max_sectors_kb raised to \
                8 MiB, which also keeps one write outstanding in a zone. Last, engine by kernel by order of files: both \
                configurations behind both kernels, with files in turn and at random; those at random, which goals are of, belong to three \
                streams in turn, and beside them is ext4 on the conventional twin of the shingled drive. \
                The chunkservers on ext4 and F2FS (docs/lab/baseline-ext4.md, docs/lab/baseline-f2fs.md) run on Linux 4.19 \
                and sync every append.",
        runs: Runs::SEEDS_AND_TURNS,
        run,
    }
}

/// I/O sizes of the paper's figure.
pub(crate) const SIZES: [u32; 9] =
    [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let sizes: &[u32] = context.scale.pick(&[4 << 10, 128 << 10, 1 << 20], &SIZES, &SIZES);
    let stores = [
        Store::Engine(Setup::Paper),
        Store::Engine(Setup::OneZone),
        Store::Engine(Setup::Ours),
        Store::Ext4(Ext4Options::default()),
        Store::F2fs(F2fsOptions::default()),
        Store::F2fs(F2fsOptions { sequential: true, ..F2fsOptions::default() }),
    ];
    let mut curves = vec![Vec::new(); stores.len()];
    let mut p99 = curves.clone();
    for (number, &store) in stores.iter().enumerate() {
        for (at, &size) in sizes.iter().enumerate() {
            let share = (number * sizes.len() + at) as f64 / (stores.len() * sizes.len()) as f64;
            (context.progress)(&format!("{}, {} KiB", store.name(), size >> 10), Some(share));
            let found = measure(store, size, context)?;
            curves[number].push((f64::from(size) / 1024.0, found.bytes_s / 1e6));
            p99[number].push((f64::from(size) / 1024.0, found.times.p99_ms));
        }
    }
    let of_stores = |curves: &[Vec<(f64, f64)>]| -> Vec<Series> {
        let curves = stores.iter().zip(curves);
        curves.map(|(store, curve)| Series::new(store.name(), Mark::LineAndPoints, curve.clone())).collect()
    };
    let mut series = of_stores(&curves);
    series.push(Series::new("paper: SMRstore", Mark::Paper, vec![(1024.0, PAPER_MB_S)]));
    series.push(Series::new("paper: CS-Ext4", Mark::Paper, vec![(1024.0, PAPER_MB_S / OVER_EXT4)]));
    let figure = |name: &str, note: &str, y: Axis| Figure {
        name: name.to_owned(),
        title: format!("High-concurrency writes, one drive{note} (SMRstore, Figure 14)"),
        x: Axis::logarithmic("I/O size (KiB)"),
        y,
        series: series.clone(),
    };
    // Only a logarithmic axis tells small appends apart.
    let figures = vec![
        figure("micro-write", "", Axis::linear("throughput (MB/s)")),
        figure("micro-write-factors", ", in equal factors", Axis::logarithmic("throughput (MB/s)")),
        Figure {
            name: "micro-write-p99".to_owned(),
            title: "High-concurrency writes, one drive: 99th percentile of the time of an append".to_owned(),
            x: Axis::logarithmic("I/O size (KiB)"),
            y: Axis::logarithmic("time (ms)"),
            series: of_stores(&p99),
        },
    ];
    let mut rows = rows(&curves);
    rows.extend(micro_write_hosts::rows(context)?);
    Ok(Outcome { rows, figures, ..Outcome::default() })
}

/// The paper's value: MB/s of SMRstore at 1 MiB.
const PAPER_MB_S: f64 = 110.0;

/// Reason why no goal compares these.
const OWN_HOSTS: &str = "each behind its own kernel, files in turn; equal kernels and random order are below";

/// Other variants of ext4.
const EXT4: &str =
    "synced appends, any number of submitters; docs/lab/baseline-ext4.md has the variants, 53 to 153 MB/s";

/// Reason for the figures of one zone for all.
const ONE_ZONE: &str = "one write is outstanding in a sequential zone: if the next one misses a turn of the platter, 84 MB/s is \
                        all that commands of 1 MiB can reach; if none does, this store is as fast as the drive at any size";
const F2FS: &str = "its data goes to conventional zones first, as Figure 5 shows for the paper's (zone 233 of 800), where \
                    many writes are outstanding; past these its curve is drawn beside it";

/// The figures that count, of curves in the order of `run`'s stores.
fn rows(curves: &[Vec<(f64, f64)>]) -> Vec<Row> {
    let at = |curve: usize, kib: f64| curves[curve].iter().find(|point| point.0 == kib).map_or(0.0, |point| point.1);
    let (paper, one_zone, ours, ext4, f2fs) = (0, 1, 2, 3, 4);
    // Over all sizes, the least and the most that a curve is above ext4's.
    let over = |curve: usize| {
        let ratios = curves[curve].iter().zip(&curves[ext4]).map(|(ours, theirs)| ours.1 / theirs.1);
        ratios.fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| (least.min(ratio), most.max(ratio)))
    };
    let least_and_most = |name: &str, curve: usize, note: &str| {
        let (least, most) = over(curve);
        let row = |what: &str, stated, found: f64| {
            let id = format!("HC-W, {name} / CS-Ext4, {what}");
            Row::new(id, "x", Better::Higher).paper_factor(stated, 1.25).paper_config(found).note(note).judged()
        };
        [row("least of all sizes", 1.3, least), row("most of all sizes", 12.9, most)]
    };
    let mut rows = vec![
        Row::new("HC-W, 1 MiB", "MB/s", Better::Higher)
            .paper(PAPER_MB_S, 0.1)
            .paper_config(at(paper, 1024.0))
            .ours(at(ours, 1024.0))
            .note(OWN_HOSTS)
            .judged(),
        Row::new("HC-W, 4 KiB", "MB/s", Better::Higher)
            .paper_config(at(paper, 4.0))
            .ours(at(ours, 4.0))
            .note(OWN_HOSTS),
        Row::new("HC-W, 1 MiB, CS-Ext4", "MB/s", Better::Higher)
            .paper(PAPER_MB_S / OVER_EXT4, 0.15)
            .paper_config(at(ext4, 1024.0))
            .note(EXT4)
            .judged(),
        Row::new("HC-W, 1 MiB, / CS-Ext4", "x", Better::Higher)
            .paper_factor(OVER_EXT4, 1.15)
            .paper_config(at(paper, 1024.0) / at(ext4, 1024.0))
            .ours(at(ours, 1024.0) / at(ext4, 1024.0))
            .note(OWN_HOSTS)
            .judged(),
        Row::new("HC-W, 128 KiB, / CS-Ext4", "x", Better::Higher)
            .paper_factor(1.0, 1.25)
            .paper_config(at(paper, 128.0) / at(ext4, 128.0))
            .ours(at(ours, 128.0) / at(ext4, 128.0))
            .note("the paper: catches up; 1 within 25 % is taken for that")
            .judged(),
        Row::new("HC-W, 4 KiB, / CS-Ext4", "x", Better::Higher)
            .paper_at_most(1.0)
            .paper_config(at(paper, 4.0) / at(ext4, 4.0))
            .ours(at(ours, 4.0) / at(ext4, 4.0))
            .note("the paper: low below 32 KiB; less than CS-Ext4 is taken for that")
            .judged(),
    ];
    rows.extend(least_and_most("OneZone", one_zone, ONE_ZONE));
    rows.extend(least_and_most("CS-F2FS", f2fs, F2FS));
    rows
}

/// One store behind its own kernel, one size, files in turn, of one stream.
fn measure(store: Store, io_bytes: u32, context: &Context) -> Result<MicroResult, LabError> {
    micro_write_hosts::measure(store, store.host(), io_bytes, Order::Turn, context)
}
