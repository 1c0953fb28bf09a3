//! High-concurrency writes. (SMRstore, Figures 4 and 14.)

use std::rc::Rc;
use std::time::Duration;

use shingle_chunk_store::Stream;
use shingle_sim::Sim;

use crate::drives::LabDrive;
use crate::engine::{EngineTarget, Setup};
use crate::experiment::{Better, Context, Experiment, LabError, Outcome, Row};
use crate::figure::{Axis, Figure, Mark, Series};
use crate::host::{Host, HostDevice};
use crate::load::micro::{self, Micro, MicroResult};

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "micro-write",
        question: "How fast does one drive take appends to 512 chunks at once, by I/O size?",
        expectation: "110 MB/s at 1 MiB for SMRstore, 1.3 times ext4 on a conventional drive; little below 32 KiB, since \
                      every chunk has its own zone and each append is a seek; level with ext4 at 128 KiB; one zone for \
                      all, as F2FS fills its log, is 1.3 to 12.9 times ext4 (SMRstore, section 6.1, Figures 4 and 14).",
        setup: "Four fio jobs, four requests outstanding each, 128 files each, visited in turn; write cache off. The \
                paper's configuration sees its drive through Linux 4.19, which cuts direct I/O at 1 MiB and keeps one \
                write outstanding in a zone; the project's own through Linux 6.10 or later with max_sectors_kb raised to \
                8 MiB, which also keeps one write outstanding in a zone.",
        run,
    }
}

/// I/O sizes of the paper's figure.
pub(crate) const SIZES: [u32; 9] =
    [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let sizes: &[u32] = context.scale.pick(&[4 << 10, 128 << 10, 1 << 20], &SIZES, &SIZES);
    let setups = [Setup::Paper, Setup::OneZone, Setup::Ours];
    let mut curves = vec![Vec::new(); setups.len()];
    for (number, &setup) in setups.iter().enumerate() {
        for (at, &size) in sizes.iter().enumerate() {
            let share = (number * sizes.len() + at) as f64 / (setups.len() * sizes.len()) as f64;
            (context.progress)(&format!("{}, {} KiB", setup.name(), size >> 10), Some(share));
            let found = measure(setup, size, context)?;
            curves[number].push((f64::from(size) / 1024.0, found.bytes_s / 1e6));
        }
    }
    let at = |curve: usize, kib: f64| curves[curve].iter().find(|point| point.0 == kib).map_or(0.0, |point| point.1);
    let (paper, ours) = (0, 2);
    let rows = vec![
        Row::new("HC-W, 1 MiB", "MB/s", Better::Higher)
            .paper(110.0, 0.1)
            .paper_config(at(paper, 1024.0))
            .ours(at(ours, 1024.0))
            .goal(1.6 * at(paper, 1024.0))
            .judged(),
        Row::new("HC-W, 4 KiB", "MB/s", Better::Higher)
            .paper_config(at(paper, 4.0))
            .ours(at(ours, 4.0))
            .goal(10.0 * at(paper, 4.0))
            .judged(),
    ];
    let mut series: Vec<Series> = setups
        .iter()
        .zip(&curves)
        .map(|(setup, curve)| Series::new(setup.name(), Mark::LineAndPoints, curve.clone()))
        .collect();
    series.push(Series::new("paper: SMRstore", Mark::Paper, vec![(1024.0, 110.0)]));
    let figure = Figure {
        name: "micro-write".to_owned(),
        title: "High-concurrency writes, one drive (SMRstore, Figure 14)".to_owned(),
        x: Axis::logarithmic("I/O size (KiB)"),
        y: Axis::linear("throughput (MB/s)"),
        series,
    };
    Ok(Outcome { rows, figures: vec![figure], remarks: Vec::new() })
}

/// One configuration, one size.
pub(crate) fn measure(setup: Setup, io_bytes: u32, context: &Context) -> Result<MicroResult, LabError> {
    let drive = LabDrive::new("st20000nm001j")?.first_zones(6_000);
    let seconds = context.scale.pick((2, 6), (20, 60), (60, 600));
    let load = Micro::paper(io_bytes, Duration::from_secs(seconds.0), Duration::from_secs(seconds.1));
    Sim::new(context.seed).run(move |rt| async move {
        let device = drive.device(&rt, drive.medium());
        let host = if setup == Setup::Ours { Host::linux_6_10() } else { Host::linux_4_19() };
        let target = EngineTarget::format(&rt, HostDevice::new(host, device), setup.options()).await?;
        micro::write(&rt, Rc::new(target), load, Stream::Gc).await
    })
}
