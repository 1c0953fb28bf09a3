//! Objects written and read at the object layer, on disks of each kind. (Dissertation, sections 5.8.1 and 5.8.2, Figure 5.13.)

use shingle_drive_model::Profile;
use shingle_sim::Sim;

use super::object_drives::{self, FASTER};
use super::objects::{Configuration, Objects, QUIET, read_some, write_all};
use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::times::Summary;
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::host::Host;
use crate::rig::processor;

/// Name in commands.
pub(crate) const NAME: &str = "blue-write";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: NAME,
        question: "How fast are objects written and read at random, on disks of each kind?",
        setup: "One of the paper's eight storage nodes: objects of 1, 2 and 4 MiB, 48 writers at once (128 threads, three copies, eight drives); then \
                three hours of rest, and 16 readers at once of objects drawn at random. CMR and DM-SMR: what BlueStore gives a drive that takes \
                writes anywhere (fresh space in the order of calls, metadata of all that is written in one record of a log, between two \
                flushes; as in the store on zones, none begins while data are being written, for 200 ms at most); HM-SMR: this project's store of objects on zones, as the paper has it (one zone at a time) and by its defaults. CMR is \
                the twin of the HSH721414AL at the paper's 160 MiB/s, DM-SMR the ST8000AS0002 (190 MB/s; the paper's have 195), its cache in \
                proportion to the bytes. 125 GiB are written at `full`, 10 at `standard`. Volatile caches are on. Ceph's network and its work are left out.",
        runs: Runs::SEEDS,
        run,
    }
}

const WRITERS: u64 = 48;
const READERS: u64 = 16;
const SIZES_MIB: [u64; 3] = [1, 2, 4];

/// The paper's DM-SMR over CMR, writing and reading, by size. (Sections 5.8.1 and 5.8.2)
const PAPER_DM: [(f64, f64); 3] = [(0.83, 0.71), (0.66, 0.86), (0.66, 0.73)];

/// The paper's HM-SMR over CMR, reading, by size: 23 %, 11 %, "similar". (Section 5.8.2)
const PAPER_HM_READ: [f64; 3] = [1.23, 1.11, 1.0];

const SYSTEMS: [&str; 4] = ["CMR", "DM-SMR", "HM-SMR, paper's configuration", "HM-SMR, ours"];

/// Bytes of a drive, by scale.
fn bytes(scale: Scale) -> u64 {
    scale.pick(256 << 20, 10 << 30, object_drives::PAPER_BYTES)
}

/// MB/s of writes, reads a second, and times of both.
#[derive(Clone, Copy)]
struct Found {
    mb_s: f64,
    reads_s: f64,
    writes: Summary,
    reads: Summary,
}

fn measure(context: &Context, profile: &Profile, configuration: Configuration, size: u64) -> Result<Found, LabError> {
    let (profile, host, seed) = (profile.clone(), Host::linux_4_18(), context.seed);
    let (all, reads) = (bytes(context.scale), context.scale.pick(200, 2_000, 20_000));
    Sim::new(seed).run_on(Some(&processor::server()), move |runtimes| async move {
        let rt = &runtimes.program;
        let objects = Objects::format(&runtimes, &profile, host, configuration, u32::MAX).await?;
        let count = all / size;
        let (took, writes) = write_all(rt, &objects, (0, count), size, WRITERS).await?;
        rt.sleep(QUIET).await;
        let (reading, times) = read_some(rt, &objects, (count, reads), (size, READERS), (seed, |_| true)).await?;
        let mb_s = (count * size) as f64 / 1e6 / took;
        Ok(Found { mb_s, reads_s: reads as f64 / reading, writes, reads: times.summary() })
    })
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    context.on_host(Host::linux_4_18());
    let managed = object_drives::managed(context, bytes(context.scale))?;
    let (conventional, zoned) = (object_drives::conventional(context)?, object_drives::zoned(context)?);
    let systems = [
        (conventional, Configuration::Ours),
        (managed, Configuration::Ours),
        (zoned.clone(), Configuration::Paper),
        (zoned, Configuration::Ours),
    ];
    let mut found = Vec::new();
    for (at, mib) in SIZES_MIB.into_iter().enumerate() {
        let mut of_size = Vec::new();
        for (system, (profile, configuration)) in systems.iter().enumerate() {
            let step = (at * systems.len() + system) as f64 / (SIZES_MIB.len() * systems.len()) as f64;
            (context.progress)(&format!("{mib} MiB, {}", SYSTEMS[system]), Some(step));
            of_size.push(measure(context, profile, *configuration, mib << 20)?);
        }
        found.push(of_size);
    }
    let rows = rows(&found);
    let rows = rows.into_iter().map(|row| match context.scale {
        Scale::Quick => row.note("not judged: so few objects fill no cache"),
        _ => row.judged(),
    });
    let bars = |of: fn(&Found) -> f64| {
        let series = SYSTEMS.iter().enumerate().map(|(system, name)| {
            let points = (0..).zip(&found).map(|(at, sizes): (i32, &Vec<_>)| (f64::from(at), of(&sizes[system])));
            Series::new(*name, Mark::Bars, points.collect())
        });
        series.collect()
    };
    let names = || Axis::of_names("object", SIZES_MIB.iter().map(|mib| format!("{mib} MiB")).collect());
    let figure = |name: &str, title: &str, y: &str, series| Figure {
        name: format!("{NAME}-{name}"),
        title: title.to_owned(),
        x: names(),
        y: Axis::linear(y),
        series,
    };
    let figures = vec![
        figure("write", "Objects written (Figure 5.13 a)", "MB/s", bars(|found| found.mb_s)),
        figure("read", "Objects read at random (Figure 5.13 b)", "reads/s", bars(|found| found.reads_s)),
    ];
    let rows = rows.chain(found.first().map_or_else(Vec::new, |found| times_of(SIZES_MIB[0], found))).collect();
    Ok(Outcome { rows, figures, ..Outcome::default() })
}

/// Times of one kind of request.
type OfFound = fn(&Found) -> &Summary;

/// Times of objects of one size.
fn times_of(mib: u64, found: &[Found]) -> Vec<Row> {
    let [cmr, dm, paper, ours] = found else { return Vec::new() };
    let mut rows = Vec::new();
    let requests: [(&str, OfFound); 2] =
        [("objects written", |found| &found.writes), ("objects read", |found| &found.reads)];
    for (what, of) in requests {
        for (system, paper, ours) in [("CMR", cmr, None), ("DM-SMR", dm, None), ("HM-SMR", paper, Some(ours))] {
            let id = format!("{what}, {mib} MiB, {system}: request");
            rows.extend(times::rows(&id, Some(of(paper)), ours.map(of)));
        }
    }
    rows
}

fn rows(found: &[Vec<Found>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, (mib, systems)) in SIZES_MIB.iter().zip(found).enumerate() {
        let [cmr, dm, paper, ours] = systems[..] else { continue };
        let row =
            |what: &str, system: &str| Row::new(format!("{what}, {mib} MiB, {system} over CMR"), "x", Better::Higher);
        let rate = |found: Found| format!("{:.0} MB/s and {:.0} reads/s", found.mb_s, found.reads_s);
        rows.push(
            row("objects written", "DM-SMR")
                .paper(PAPER_DM[at].0, 0.15)
                .paper_config(dm.mb_s / cmr.mb_s)
                .note(rate(dm)),
        );
        rows.push(
            row("objects written", "HM-SMR")
                .paper_at_least(1.0)
                .paper_config(paper.mb_s / cmr.mb_s)
                .ours(ours.mb_s / cmr.mb_s)
                .goal(FASTER)
                .note(format!("the paper: slightly above 1. {}; CMR {}", rate(ours), rate(cmr))),
        );
        rows.push(row("objects read", "DM-SMR").paper(PAPER_DM[at].1, 0.15).paper_config(dm.reads_s / cmr.reads_s));
        rows.push(
            row("objects read", "HM-SMR")
                .paper(PAPER_HM_READ[at], 0.15)
                .paper_config(paper.reads_s / cmr.reads_s)
                .ours(ours.reads_s / cmr.reads_s),
        );
    }
    rows
}
