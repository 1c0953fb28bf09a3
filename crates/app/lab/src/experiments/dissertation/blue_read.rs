//! Times of reads while stores or drives clean. (Dissertation, section 5.8.3, Figure 5.14.)

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::{join, try_join_all};
use shingle_drive_model::Profile;
use shingle_sim::{Random, Runtimes, Sim};

use super::object_drives;
use super::objects::{Configuration, Objects, read_some, write_all};
use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::times::Times;
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::host::Host;
use crate::rig::processor;

/// Name in commands.
pub(crate) const NAME: &str = "blue-read";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: NAME,
        question: "How long do reads of objects take while space is won?",
        setup: "One of the paper's eight storage nodes, objects of 1 MiB. CMR and DM-SMR: half of the objects are written, then the other half by 48 \
                writers while 16 readers read those of the first half at random; a DM-SMR drive cleans by itself meanwhile. HM-SMR: objects \
                fill nearly all of the zones (500 in the paper), half of them, drawn at random, are removed, and readers read the others at \
                random: on nodes that do not clean, since reads are led to these while others clean (21 readers, as six of eight nodes serve \
                them); and on a drive that cleans all the while, until half of its zones are in use (16); it is not judged unless it cleaned a quarter of \
                the zones of objects during the reads. In the paper CMR is written to meanwhile, and the nodes that serve reads are not: that row \
                is only held against the paper's. Goals are on reads beside a CMR drive that serves as many readers and is not written to: of the \
                node that reads are led to, and of the one that cleans. Drives and their commands as in `blue-write`.",
        runs: Runs::SEEDS,
        run,
    }
}

const SIZE: u64 = 1 << 20;
const WRITERS: u64 = 48;
const READERS: u64 = 16;

/// Readers of a node where six of eight serve all.
const READERS_OF_SIX: u64 = 21;

/// The goal: within 5 % of a conventional drive.
const GOAL: f64 = 1.05;

/// Rows with that goal.
const LED_AROUND_QUIET: &str = "p99 of reads, HM-SMR whose cleaning is led around, over CMR that nobody writes to";
const CLEANING_QUIET: &str = "p99 of reads on the drive that cleans, over CMR that nobody writes to";

/// Percentiles of the figure, per mille.
const PER_MILLE: [usize; 4] = [950, 990, 995, 999];

/// Objects of a drive, by scale: the paper's 125,000.
fn objects_of(scale: Scale) -> u64 {
    scale.pick(256, 10_000, 125_000)
}

/// Reads by scale.
fn reads_of(scale: Scale) -> u64 {
    scale.pick(200, 5_000, 60_000)
}

/// Reads of the first half while the second one is written.
async fn beside_writes(runtimes: &Runtimes, profile: &Profile, scale: Scale, seed: u64) -> Result<Times, LabError> {
    let rt = &runtimes.program;
    let objects = Objects::format(runtimes, profile, Host::linux_4_18(), Configuration::Ours, u32::MAX).await?;
    let half = objects_of(scale) / 2;
    write_all(rt, &objects, (0, half), SIZE, WRITERS).await?;
    let (others, clock, over) = (objects.clone(), rt.clone(), Rc::new(Cell::new(false)));
    let ended = over.clone();
    // Writers go on as long as somebody reads.
    let writing = rt.spawn(async move {
        let mut first = half;
        while !ended.get() {
            write_all(&clock, &others, (first, WRITERS * 4), SIZE, WRITERS).await?;
            first += WRITERS * 4;
        }
        Ok::<(), LabError>(())
    });
    let (_, times) = read_some(rt, &objects, (half, reads_of(scale)), (SIZE, READERS), (seed, |_| true)).await?;
    over.set(true);
    writing.await.map_err(|_| LabError("the writers were lost".to_owned()))??;
    Ok(times)
}

/// Reads of objects that nobody writes beside.
async fn alone(
    runtimes: &Runtimes,
    profile: &Profile,
    (scale, seed): (Scale, u64),
    readers: u64,
) -> Result<Times, LabError> {
    let rt = &runtimes.program;
    let objects = Objects::format(runtimes, profile, Host::linux_4_18(), Configuration::Ours, u32::MAX).await?;
    let count = objects_of(scale);
    write_all(rt, &objects, (0, count), SIZE, WRITERS).await?;
    let stays = those_that_stay(count, seed);
    let reads = (count, reads_of(scale));
    Ok(read_some(rt, &objects, reads, (SIZE, readers), (seed, |object| stays[object as usize])).await?.1)
}

/// Objects that stay: half of them, drawn.
fn those_that_stay(count: u64, seed: u64) -> Rc<[bool]> {
    let mut random = Random::new(seed.wrapping_mul(7919));
    (0..count).map(|_| random.below(2) == 1).collect()
}

/// Zones that the objects of a drive fill.
fn data_zones(scale: Scale) -> u32 {
    (objects_of(scale) * SIZE).div_ceil(256 << 20) as u32
}

/// Reads of a store half of whose objects were removed, with or without cleaning, and zones that were cleaned meanwhile.
async fn beside_cleaning(
    runtimes: &Runtimes,
    profile: &Profile,
    (scale, seed): (Scale, u64),
    configuration: Configuration,
) -> Result<(Times, u64), LabError> {
    let rt = &runtimes.program;
    let (count, data_zones) = (objects_of(scale), data_zones(scale));
    let cleans = configuration == Configuration::Cleaning;
    // Nearly full where the drive cleans, so that it has to; half empty where not.
    let zones = profile.shape.conventional_zones + 24 + if cleans { data_zones + 5 } else { 3 * data_zones + 32 };
    let objects = Objects::format(runtimes, profile, Host::linux_4_18(), configuration, zones).await?;
    write_all(rt, &objects, (0, count), SIZE, WRITERS).await?;
    let stays = those_that_stay(count, seed);
    let (of_others, gone) = (objects.clone(), stays.clone());
    // At once, as soon as reads begin: the drive is to clean all the while.
    let removing = rt.spawn(async move {
        let remove = |first: u64| {
            let (objects, stays) = (of_others.clone(), gone.clone());
            async move {
                for object in (first..count).step_by(WRITERS as usize).filter(|object| !stays[*object as usize]) {
                    objects.remove(object).await?;
                }
                Ok::<(), LabError>(())
            }
        };
        try_join_all((0..WRITERS).map(remove)).await.map(drop)
    });
    let removed = async { removing.await.map_err(|_| LabError("removals were lost".to_owned()))? };
    let readers = if cleans { READERS } else { READERS_OF_SIX };
    let keeps = |object: u64| stays[object as usize];
    let reading = read_some(rt, &objects, (count, reads_of(scale)), (SIZE, readers), (seed, keeps));
    // A store that cleans does so while objects go.
    let times = if cleans {
        let (read, removed) = join(reading, removed).await;
        removed?;
        read?.1
    } else {
        removed.await?;
        reading.await?.1
    };
    Ok((times, objects.cleaned()))
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    context.on_host(Host::linux_4_18());
    let (scale, seed) = (context.scale, context.seed);
    let managed = object_drives::managed(context, objects_of(scale) * SIZE)?;
    let (conventional, zoned) = (object_drives::conventional(context)?, object_drives::zoned(context)?);
    let simulate = || Sim::new(seed);
    let written = |profile: Profile| {
        simulate().run_on(Some(&processor::server()), move |runtimes| async move {
            beside_writes(&runtimes, &profile, scale, seed).await
        })
    };
    let cleaned = |how: Configuration| {
        let profile = zoned.clone();
        simulate().run_on(Some(&processor::server()), move |runtimes| async move {
            beside_cleaning(&runtimes, &profile, (scale, seed), how).await
        })
    };
    let step = |at: f64, name: &str| (context.progress)(name, Some(at / 5.0));
    step(0.0, "CMR");
    let cmr = written(conventional.clone())?;
    let quiet = |readers: u64| {
        let profile = conventional.clone();
        simulate().run_on(Some(&processor::server()), move |runtimes| async move {
            alone(&runtimes, &profile, (scale, seed), readers).await
        })
    };
    let (quiet_of_six, quiet) = (quiet(READERS_OF_SIX)?, quiet(READERS)?);
    step(1.0, "DM-SMR");
    let dm = written(managed)?;
    step(2.0, "HM-SMR");
    let (paper, _) = cleaned(Configuration::Paper)?;
    let (ours, _) = cleaned(Configuration::Ours)?;
    step(4.0, "HM-SMR that cleans");
    let (beside, zones) = cleaned(Configuration::Cleaning)?;
    let over = |times: &Times, other: &Times| times.percentile_ms(990) / other.percentile_ms(990);
    let rows = vec![
        Row::new("p99 of reads, HM-SMR whose cleaning is led around, over DM-SMR", "x", Better::Lower)
            .paper(0.47, 0.25)
            .paper_config(over(&paper, &dm))
            .ours(over(&ours, &dm)),
        Row::new("p99 of reads, HM-SMR whose cleaning is led around, over CMR", "x", Better::Lower)
            .paper(1.13, 0.25)
            .paper_config(over(&paper, &cmr))
            .ours(over(&ours, &cmr))
            .note("no goal: CMR is written to meanwhile, as in the paper, and HM-SMR is not"),
        Row::new(LED_AROUND_QUIET, "x", Better::Lower)
            .ours(over(&ours, &quiet_of_six))
            .goal(GOAL)
            .note("not in the paper: both drives only read, 21 readers each"),
        Row::new(CLEANING_QUIET, "x", Better::Lower)
            .ours(over(&beside, &quiet))
            .goal(GOAL)
            .note(format!("not in the paper: 16 readers each; {zones} zones were cleaned during the reads")),
    ];
    // A drive that hardly cleaned says nothing of one that does.
    let cleaned_enough = zones * 4 >= u64::from(data_zones(scale));
    let judged = |row: Row| match scale {
        Scale::Quick => row,
        _ if row.id == CLEANING_QUIET && !cleaned_enough => row,
        _ => row.judged(),
    };
    let mut rows: Vec<Row> = rows.into_iter().map(judged).collect();
    let summary = |times: &Times| Some(times.summary());
    for (name, paper, ours) in [
        ("CMR, beside writes", summary(&cmr), None),
        ("CMR, reads alone", summary(&quiet_of_six), None),
        ("DM-SMR, beside writes", summary(&dm), None),
        ("HM-SMR, led around", summary(&paper), summary(&ours)),
        ("HM-SMR, on the drive that cleans", None, summary(&beside)),
    ] {
        rows.extend(times::rows(&format!("read of 1 MiB, {name}"), paper.as_ref(), ours.as_ref()));
    }
    let systems = [
        ("CMR, beside writes", &cmr),
        ("CMR, reads alone", &quiet_of_six),
        ("DM-SMR, beside writes", &dm),
        ("HM-SMR, paper's configuration, led around", &paper),
        ("HM-SMR, ours, led around", &ours),
        ("HM-SMR, ours, on the drive that cleans", &beside),
    ];
    let bars = systems.map(|(name, times)| {
        let points = (0..).zip(PER_MILLE).map(|(at, per_mille)| (f64::from(at), times.percentile_ms(per_mille)));
        Series::new(name, Mark::Bars, points.collect())
    });
    let figures = vec![Figure {
        name: NAME.to_owned(),
        title: "Times of reads of 1 MiB while space is won (Figure 5.14)".to_owned(),
        x: Axis::of_names("percentile", PER_MILLE.iter().map(|at| format!("p{}", *at as f64 / 10.0)).collect()),
        y: Axis::linear("time (ms)"),
        series: bars.to_vec(),
    }];
    Ok(Outcome { rows, figures, ..Outcome::default() })
}
