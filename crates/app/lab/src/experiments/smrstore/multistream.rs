//! The object service's streams, deletion and GC. (SMRstore, Figures 6, 7 and 17.)

use super::by_length::{self, ByLength, Values, over};
use super::multistream_case::f2fs;
use crate::baseline::ext4::Ext4Options;
use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::multistream::{MultiStreamResult, Sample};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::number::number;
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::engine::Setup;
use crate::rig::host::Host;
use crate::rig::store::Store;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "multistream",
        question: "Does throughput hold once the drive is full to 80 or 90 % and chunks are deleted at random?",
        setup: "Table 3, a sixtieth of it on one drive formatted to 6 TB; data and metadata chunks pass through cache SSDs \
                and come to the drive sealed. Filled to 80 % (or 90 %) at the streams' rates, then twelve hours in which \
                chunks drawn at random are deleted to hold that share. What is compared is the last third \
                of that time, when what was free at first is used up. At smaller scale every n-th zone is there \
                and time is shorter in proportion, so that as many chunks of each zone are written and deleted; but the \
                55 zones that are open then weigh more than they should. The paper does not say how much room a chunk leaves in its \
                zone: four lengths are tried with the first seed, and a goal is judged at the worst. The paper's stores are behind Linux 4.19, the \
                project's own behind Linux 6.10; the goal over F2FS is judged with both behind the same kernel, at the worse of both. Pictures, times and remarks are of chunks of 254 MiB.",
        runs: Runs::SEEDS_AND_TURNS,
        run,
    }
}

/// Loss up to which a throughput counts as steady, in percent.
const STEADY: f64 = 5.0;

/// The load of Table 3 on one drive, in MB/s: the paper's 4 GB/s on sixty.
const RATE: f64 = 4040.0 / 60.0;

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let stores =
        [Store::Engine(Setup::Paper), Store::Engine(Setup::Ours), f2fs(context), Store::Ext4(Ext4Options::default())];
    let mut found = Vec::new();
    for store in stores {
        found.push((store.name(), ByLength::of_store(context, store, 0.8)?));
    }
    let kernels = both_kernels(context)?;
    let fuller = |setup: Setup| ByLength::of_store(context, Store::Engine(setup), 0.9);
    let (paper_90, ours_90) = (fuller(Setup::Paper)?, fuller(Setup::Ours)?);
    let mut rows = rows([&found[0].1, &found[1].1], [&paper_90, &ours_90], &found[2].1, &found[3].1, &kernels);
    rows.extend(kernels.iter().flat_map(|behind| of_kernel(behind, &found[0].1)));
    let runs: Vec<_> = found.iter().map(|(name, found)| (*name, found.chosen().clone())).collect();
    let [paper, ours, f2fs] = [0, 1, 2].map(|at: usize| runs[at].1.clone());
    for (phase, what) in ["while it is filled", "once deletion has settled"].into_iter().enumerate() {
        let id = format!("multi-stream, 80 % full: 1 MiB of a GC stream, {what}");
        rows.extend(times::rows(&id, Some(&paper.times[phase]), Some(&ours.times[phase])));
    }
    let remarks = runs
        .iter()
        .map(|(name, run)| {
            format!(
                "{name}: {:.1} MB/s while it was filled in {:.1} h, {:.1} MB/s once deletion had settled; {:.2} deletions a second",
                run.fill_bytes_s / 1e6,
                run.full_at.as_secs_f64() / 3600.0,
                run.settled_bytes_s / 1e6,
                run.deletions_s,
            )
        })
        .collect();
    let course = |name: &str, title: &str, axis: &str, value: &dyn Fn(&Sample) -> f64| Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        x: Axis::linear("time (h)"),
        y: Axis::linear(axis),
        series: runs.iter().map(|(name, run)| Series::new(*name, Mark::Line, points(run, value))).collect(),
    };
    let mut figures = vec![
        course(
            "multistream",
            "Multi-stream load, deletion from 80 % full (SMRstore, Figure 17)",
            "throughput (MB/s)",
            &|sample| sample.bytes_s / 1e6,
        ),
        course("multistream-gc", "Zones or sections cleaned (SMRstore, Figure 7)", "cleaned so far", &|sample| {
            sample.state.gc_runs as f64
        }),
        course(
            "multistream-dirty",
            "Zones or sections with live data and garbage (SMRstore, Figure 7)",
            "dirty",
            &|sample| f64::from(sample.state.dirty_zones),
        ),
    ];
    figures[0].series.extend(paper_levels(&paper, &f2fs));
    Ok(Outcome { rows, figures, remarks, ..Outcome::default() })
}

/// Ours and F2FS behind one kernel.
struct Behind {
    host: Host,
    ours: ByLength,
    f2fs: ByLength,
}

/// The same behind each kernel.
fn both_kernels(context: &Context) -> Result<Vec<Behind>, LabError> {
    let behind = |host: Host| {
        let of = |store: Store| ByLength::behind(context, store, host, 0.8);
        Ok(Behind { host, ours: of(Store::Engine(Setup::Ours))?, f2fs: of(f2fs(context))? })
    };
    Host::KERNELS.into_iter().map(behind).collect()
}

/// Figures behind a kernel, to be shown; of the paper's configuration behind its own.
fn of_kernel(behind: &Behind, paper: &ByLength) -> Vec<Row> {
    type Of = fn(&MultiStreamResult) -> f64;
    let figures: [(&str, &str, Better, Of); 3] = [
        ("throughput", "MB/s", Better::Higher, mb),
        ("lost to deletion", "%", Better::Lower, percent),
        ("write amplification of GC", "x", Better::Lower, |run| run.write_amplification),
    ];
    let row = |(what, unit, better, of): (&str, &'static str, Better, Of)| {
        let row = Row::new(format!("multi-stream, 80 % full, {}: {what}", behind.host.name), unit, better);
        let row = if behind.host == Host::linux_4_19() { row.paper_config(paper.values(of)[0]) } else { row };
        let theirs = number(behind.f2fs.values(of)[0]);
        by_length::ours(row.note(format!("CS-F2FS {theirs} behind the same kernel")), &behind.ours.values(of))
    };
    figures.map(row).into()
}

fn mb(run: &MultiStreamResult) -> f64 {
    run.settled_bytes_s / 1e6
}

fn percent(run: &MultiStreamResult) -> f64 {
    run.loss() * 100.0
}

/// The rows of 80 % and of 90 %, each of the paper's configuration and ours, and of both file systems.
fn rows(
    [paper, ours]: [&ByLength; 2],
    [paper_90, ours_90]: [&ByLength; 2],
    f2fs: &ByLength,
    ext4: &ByLength,
    kernels: &[Behind],
) -> Vec<Row> {
    let factors: Vec<Values> =
        kernels.iter().map(|behind| over(&behind.ours.values(mb), &behind.f2fs.values(mb))).collect();
    let (over_f2fs, words) = by_length::least_of_kernels(&factors);
    let written = |run: &MultiStreamResult| run.write_amplification;
    let both = |row: Row, paper: Values, ours: Values| by_length::ours(by_length::paper(row, &paper), &ours).judged();
    let lower = |id: &str, unit| Row::new(id, unit, Better::Lower);
    vec![
        both(
            Row::new("multi-stream, 80 % full: throughput", "MB/s", Better::Higher).paper(RATE, 0.1).goal(RATE * 0.98),
            paper.values(mb),
            ours.values(mb),
        ),
        both(
            lower("multi-stream, 80 % full: lost to deletion", "%")
                .paper_at_most(STEADY)
                .note("the paper: steady; at most 5 % is taken for that")
                .goal(2.0),
            paper.values(percent),
            ours.values(percent),
        ),
        both(
            lower("multi-stream, 90 % full: lost to deletion", "%").goal(10.0),
            paper_90.values(percent),
            ours_90.values(percent),
        ),
        both(
            lower("multi-stream, 80 % full: write amplification of GC", "x").goal(1.05),
            paper.values(written),
            ours.values(written),
        ),
        both(
            lower("multi-stream, 90 % full: write amplification of GC", "x").note("no goal: shown beside the loss"),
            paper_90.values(written),
            ours_90.values(written),
        ),
        by_length::paper(lower("multi-stream, CS-F2FS: lost to deletion", "%"), &f2fs.values(percent))
            .paper(65.6, 4.1 / 65.6)
            .note("`paper config` is the F2FS-like baseline")
            .judged(),
        by_length::paper(lower("multi-stream, CS-Ext4: lost to deletion", "%"), &ext4.values(percent))
            .paper_at_most(STEADY)
            .note("`paper config` is the ext4-like baseline")
            .judged(),
        both(
            Row::new("multi-stream, over CS-F2FS", "x", Better::Higher).paper(2.16, 0.15).goal(2.16).note(words),
            over(&paper.values(mb), &f2fs.values(mb)),
            over_f2fs,
        ),
    ]
}

/// The paper's words on the throughput: steady, and of F2FS the share left once deletion begins.
fn paper_levels(steady: &MultiStreamResult, f2fs: &MultiStreamResult) -> Vec<Series> {
    let hours = |run: &MultiStreamResult| run.samples.last().map_or(0.0, |last| last.at.as_secs_f64() / 3600.0);
    let begins = f2fs.full_at.as_secs_f64() / 3600.0;
    let level = |from: f64, to: f64, height: f64| vec![(from, height), (to, height)];
    let mut left = level(begins, hours(f2fs), RATE * (1.0 - 0.615));
    // There and back: the most and the least that it keeps.
    left.extend(level(hours(f2fs), begins, RATE * (1.0 - 0.697)));
    vec![
        Series::new("paper: SMRstore and CS-Ext4", Mark::Reference, level(0.0, hours(steady), RATE)),
        Series::new("paper: what CS-F2FS keeps", Mark::Reference, left),
    ]
}

fn points(run: &MultiStreamResult, value: &dyn Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    run.samples.iter().map(|sample| (sample.at.as_secs_f64() / 3600.0, value(sample))).collect()
}
