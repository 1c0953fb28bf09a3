//! Recovery of a full drive. (SMRstore, section 6.4, Figure 21.)

use std::rc::Rc;
use std::time::Duration;

use shingle_base::{AlignedBuf, Blocks, ChunkId};
use shingle_chunk_store::{ChunkStore, FormatOptions, Options, RecoveryReport, StepReport, Stream};
use shingle_record::sliced_record_blocks;
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice};
use shingle_zoned::{MemoryDevice, ZonedDevice};

use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::drives::LabDrive;
use crate::rig::engine::{EngineTarget, Setup};
use crate::rig::host::{Host, HostDevice};

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "recovery",
        question: "How long does a 20 TB drive that is 60 % full take to open after a power cut?",
        setup: "The load of Table 3, a 60th of it for one drive, fills 60 % of the data zones; a checkpoint; the load goes \
                on for half a checkpoint period, as long as since the last checkpoint on average; the power fails between \
                two commands. All metazones have been used before. Filling takes no drive time, recovery does. The \
                paper's configuration makes no marks, has one read outstanding, and scans every zone that was open at the \
                checkpoint, or since, from its head (section 5.6). The paper does not give the period of its checkpoints: \
                five minutes are assumed; of Shingle's its own default, ten.",
        runs: Runs::TURNS,
        run,
    }
}

/// Seconds since the checkpoint, for the paper's configuration: half a period of five minutes, which the paper does not
/// give.
const PAPER_AGE: u64 = 150;

/// For Shingle: half a period of ten minutes.
const OUR_AGE: u64 = 300;

/// For the curve.
const AGES: [u64; 5] = [0, 60, PAPER_AGE, OUR_AGE, 600];

/// Metazones of the whole drive. (SMRstore, section 5.2.)
const METAZONES: f64 = 400.0;

/// A way to open a drive.
struct Way {
    name: &'static str,
    setup: Setup,
    age: u64,
    change: fn(Options) -> Options,
}

const WAYS: [Way; 4] = [
    Way {
        name: "metazones anywhere",
        setup: Setup::Paper,
        age: PAPER_AGE,
        change: |options| Options { read_all_heads: true, ..options },
    },
    Way { name: "paper's configuration", setup: Setup::Paper, age: PAPER_AGE, change: |options| options },
    Way {
        name: "Shingle, one read at a time",
        setup: Setup::Ours,
        age: OUR_AGE,
        change: |options| Options { recovery_depth: 1, ..options },
    },
    Way { name: "Shingle", setup: Setup::Ours, age: OUR_AGE, change: |options| options },
];

/// Seconds of each step, on a whole drive.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    find: f64,
    load: f64,
    replay: f64,
    scan: f64,
}

impl Steps {
    fn total(&self) -> f64 {
        self.find + self.load + self.replay + self.scan
    }
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let every = context.scale.pick(128, 16, 1);
    let drive = LabDrive::shingled(context)?.every(every);
    let mut outcome = Outcome::default();
    let mut found = Vec::new();
    let mut curves = Vec::new();
    for (number, setup) in [Setup::Paper, Setup::Ours].into_iter().enumerate() {
        let share = |step: f64| Some((number as f64 + step) / 2.0);
        let ways = || WAYS.iter().filter(|way| way.setup == setup);
        let ages = context.scale.pick(ways().map(|way| way.age).take(1).collect(), AGES.to_vec(), AGES.to_vec());
        (context.progress)(&format!("filling with {}", setup.name()), share(0.0));
        let images = fill(&drive, setup, &ages, context.seed)?;
        let mut curve = Vec::new();
        for (age, image) in &images {
            for (at, way) in WAYS.iter().enumerate().filter(|(_, way)| way.setup == setup) {
                // The curve is that of the last way.
                let of_curve = at % 2 == 1;
                if way.age != *age && !of_curve {
                    continue;
                }
                (context.progress)(&format!("{}, {age} s after a checkpoint", way.name), share(0.5));
                let report = recover(&drive, way, image, context)?;
                let steps = whole_drive(&drive, way, &report);
                if of_curve {
                    curve.push((*age as f64, steps.total()));
                }
                if way.age == *age {
                    outcome.remarks.push(remark(way, &report));
                    found.push(steps);
                }
            }
        }
        curves.push(curve);
    }
    if every > 1 {
        outcome.remarks.push(format!(
            "One zone in {every} was simulated: reading heads and checkpoint is scaled up to the whole drive; the scan is \
             not, since what is open, and was written since the checkpoint, is as much on a drive of any size."
        ));
    }
    outcome.rows = rows(&found, &curves);
    outcome.figures.push(figure(&found));
    if context.scale != Scale::Quick {
        outcome.figures.push(curve_figure(curves));
    }
    Ok(outcome)
}

/// The paper's value, and the tolerance of its configuration.
const PAPER_TOTAL: f64 = 94.4;
const TOLERANCE: f64 = 0.15;

fn rows(found: &[Steps], curves: &[Vec<(f64, f64)>]) -> Vec<Row> {
    let [init, paper, _, ours] = found else { return Vec::new() };
    let step =
        |id: &str, of: fn(&Steps) -> f64| Row::new(id, "s", Better::Lower).paper_config(of(paper)).ours(of(ours));
    let all_heads = Row::new("recovery, metazones anywhere", "s", Better::Lower).paper_config(init.total());
    let all_heads = all_heads.paper_at_least(240.0);
    let mut note = format!(
        "the paper does not give the age of its last checkpoint, which decides how much is scanned; {PAPER_AGE} s are \
         assumed. The processor's time is no part of the model, and must be most of the paper's 19 s for the checkpoint"
    );
    if let Some(age) = curves.first().and_then(|curve| age_of(curve, PAPER_TOTAL)) {
        note.push_str(&format!("; the paper's {PAPER_TOTAL} s are met at an age of {age:.0} s"));
    }
    vec![
        Row::new("recovery, 20 TB at 60 %", "s", Better::Lower)
            .paper(PAPER_TOTAL, TOLERANCE)
            .tried(curves.first().into_iter().flatten().map(|point| point.1))
            .paper_config(paper.total())
            .ours(ours.total())
            .goal(10.0)
            .note(note)
            .judged(),
        all_heads.note("the paper: more than 4 minutes").judged(),
        Row::new("recovery, zone table", "s", Better::Lower).paper_config(paper.find).ours(ours.find).judged(),
        step("recovery, checkpoint", |steps| steps.load).paper(19.0, TOLERANCE).judged(),
        step("recovery, journal", |steps| steps.replay).paper_at_most(1.0).judged(),
        step("recovery, scan", |steps| steps.scan)
            .paper(75.0, TOLERANCE)
            .note(format!("at an assumed age of {PAPER_AGE} s"))
            .judged(),
    ]
}

/// Age at which a rising curve reaches a height.
fn age_of(curve: &[(f64, f64)], height: f64) -> Option<f64> {
    let pair = curve.windows(2).find(|pair| pair[0].1 <= height && height <= pair[1].1)?;
    let share = (height - pair[0].1) / (pair[1].1 - pair[0].1).max(f64::MIN_POSITIVE);
    Some(pair[0].0 + share * (pair[1].0 - pair[0].0))
}

fn curve_figure(curves: Vec<Vec<(f64, f64)>>) -> Figure {
    let names = [Setup::Paper.name(), Setup::Ours.name()];
    let mut series: Vec<Series> =
        names.into_iter().zip(curves).map(|(name, curve)| Series::new(name, Mark::LineAndPoints, curve)).collect();
    let paper = AGES.iter().map(|&age| (age as f64, PAPER_TOTAL)).collect();
    series.push(Series::new("paper: 94.4 s, at an age it does not give", Mark::Reference, paper));
    Figure {
        name: "recovery-age".to_owned(),
        title: "Recovery of 20 TB at 60 %, by the age of the last checkpoint".to_owned(),
        x: Axis::linear("seconds of load since the checkpoint"),
        y: Axis::linear("time (s)"),
        series,
    }
}

/// The paper's other bars: name, and seconds of checkpoint and scan. (Of ext4: 3.27 and 16.3; of SMRstore: "around 19"
/// and "the remaining 75".)
const PAPER_BARS: [(&str, f64, f64); 2] = [("paper: CS-Ext4", 3.27, 16.3), ("paper: SMRstore", 19.4, 75.0)];

/// Bars of the paper and bars of the ways, left to right; each its steps on top of each other.
fn figure(found: &[Steps]) -> Figure {
    let papers = PAPER_BARS.len();
    let bars = |name: &str, of: fn(&Steps) -> f64, paper: fn(&(&str, f64, f64)) -> f64| {
        let papers_part = PAPER_BARS.iter().enumerate().map(|(at, bar)| (at as f64, paper(bar)));
        let ways_part = found.iter().enumerate().map(|(at, steps)| ((papers + at) as f64, of(steps)));
        Series::new(name, Mark::Stacked, papers_part.chain(ways_part).collect())
    };
    let names = PAPER_BARS.iter().map(|bar| bar.0).chain(WAYS.iter().map(|way| way.name));
    let replay_and_scan = |steps: &Steps| steps.replay + steps.scan;
    Figure {
        name: "recovery".to_owned(),
        title: "Recovery of 20 TB at 60 %, by step (SMRstore, Figure 21)".to_owned(),
        x: Axis::of_names("", names.map(str::to_owned).collect()),
        y: Axis::linear("time (s)"),
        series: vec![
            bars("zone table", |steps| steps.find, |_| 0.0),
            bars("checkpoint", |steps| steps.load, |bar| bar.1),
            bars("journal and scan", replay_and_scan, |bar| bar.2),
            Series::new("paper: SMRstore-INIT, more than", Mark::Paper, vec![(papers as f64, 240.0)]),
        ],
    }
}

fn remark(way: &Way, report: &RecoveryReport) -> String {
    let step = |name: &str, step: &StepReport| {
        format!(
            "{name} {:.2} s ({} zones, {:.1} MB)",
            step.time.as_secs_f64(),
            step.zones,
            step.read_bytes as f64 / 1e6
        )
    };
    format!(
        "{}: {}, {}, {} journal entries ({} marks), {}, {} records; {} chunks",
        way.name,
        step("zone table", &report.find),
        step("checkpoint", &report.load),
        report.replay.found,
        report.marks.0,
        step("scan", &report.scan),
        report.scan.found,
        report.chunks,
    )
}

/// The steps' times on a whole drive, from those on every `every`th zone of it.
fn whole_drive(drive: &LabDrive, way: &Way, report: &RecoveryReport) -> Steps {
    let seconds = |step: &StepReport| step.time.as_secs_f64();
    let mut steps = Steps {
        find: seconds(&report.find),
        load: seconds(&report.load),
        replay: seconds(&report.replay),
        scan: seconds(&report.scan),
    };
    if drive.every > 1 {
        let metazones = f64::from(shingle_chunk_store::Layout::default_metazones(&drive.geometry()));
        let all_heads = (way.change)(way.setup.options()).read_all_heads;
        steps.find *= if all_heads { f64::from(drive.every) } else { METAZONES / metazones };
        let rate = drive.profile.recording.as_ref().map_or(f64::INFINITY, |recording| recording.outer_mb_s * 1e6);
        steps.load += (f64::from(drive.every) - 1.0) * report.checkpoint_bytes as f64 / rate;
    }
    steps
}

/// Opens the store on a medium after a power cut, in the drive's own time.
fn recover(drive: &LabDrive, way: &Way, medium: &MemoryDevice, context: &Context) -> Result<RecoveryReport, LabError> {
    let options = Options { background: false, ..(way.change)(way.setup.options()) };
    let host = if way.setup == Setup::Ours { Host::linux_6_10() } else { Host::linux_4_19() };
    context.on_host(host);
    context.with_options(way.name, &options);
    let seed = context.seed;
    let (drive, medium) = (drive.clone(), medium.snapshot());
    Sim::new(seed).run(move |rt| async move {
        let device = HostDevice::new(host, drive.device(&rt, medium));
        Ok(EngineTarget::open(&rt, device, options).await?.1)
    })
}

/// A kind of stream of Table 3, for one drive of sixty.
struct Kind {
    stream: Stream,
    /// Bytes a second, which decides its share.
    rate: f64,
    /// Chunks being written at a time: jobs times files, over sixty.
    files: u64,
    /// Bytes of an append, from and to.
    io: (u32, u32),
    /// Bytes of a chunk.
    chunk: u32,
}

const MB: f64 = 1e6 / 60.0;

/// Chunks of "256 MB" are as long as a zone holds appends (section 5.4, strategy 2).
const TABLE_3: [Kind; 4] = [
    Kind { stream: Stream::Gc, rate: 3200.0 * MB, files: 3, io: (1 << 20, 1 << 20), chunk: 256 << 20 },
    Kind { stream: Stream::Gc, rate: 160.0 * MB, files: 3, io: (1 << 20, 1 << 20), chunk: 64 << 20 },
    Kind { stream: Stream::Data, rate: 600.0 * MB, files: 15, io: (1 << 20, 1 << 20), chunk: 256 << 20 },
    Kind { stream: Stream::Meta, rate: 80.0 * MB, files: 8, io: (4 << 10, 128 << 10), chunk: 4 << 20 },
];

/// A chunk being written.
struct File {
    id: ChunkId,
    length: u32,
    blocks: u64,
}

/// The load as one sequence of appends in its own time.
struct Load {
    rt: Runtime,
    store: ChunkStore,
    random: Random,
    zeros: bytes::Bytes,
    /// Of each kind: the time of its next append, the index of its file, and the files.
    kinds: Vec<(f64, usize, Vec<Option<File>>)>,
    began: f64,
    next_id: u64,
    /// Blocks of a zone for records.
    room: u64,
}

impl Load {
    /// Makes the next `steps` appends.
    async fn run(&mut self, steps: u64) -> Result<(), LabError> {
        for _ in 0..steps {
            let due = |at: &usize| self.kinds[*at].0;
            let next = (0..self.kinds.len()).min_by(|left, right| due(left).total_cmp(&due(right)));
            if let Some(kind) = next {
                self.append(kind).await?;
            }
        }
        Ok(())
    }

    async fn append(&mut self, kind: usize) -> Result<(), LabError> {
        let error = |error: shingle_chunk_store::Error| LabError(error.to_string());
        let Kind { stream, rate, io, chunk, .. } = TABLE_3[kind];
        let (due, at, files) = &mut self.kinds[kind];
        let length = self.random.between(u64::from(io.0) / 4096, u64::from(io.1) / 4096) as u32 * 4096;
        let blocks = sliced_record_blocks(u64::from(length)).0;
        let number = *at;
        *at = (*at + 1) % files.len();
        let now = self.rt.now().nanos as f64 / 1e9 - self.began;
        if *due > now {
            self.rt.sleep(Duration::from_secs_f64(*due - now)).await;
        }
        *due += f64::from(length) / rate;
        if let Some(file) = &files[number]
            && (file.length + length > chunk || file.blocks + blocks > self.room)
        {
            self.store.seal(file.id).await.map_err(error)?;
            files[number] = None;
        }
        let file = match &mut files[number] {
            Some(file) => file,
            empty => {
                let id = ChunkId::from_u64(self.next_id);
                self.next_id += 1;
                self.store.create(id, stream).await.map_err(error)?;
                empty.insert(File { id, length: 0, blocks: 0 })
            }
        };
        let data = vec![self.zeros.slice(..length as usize)];
        self.store.append(file.id, u64::from(file.length), data).await.map_err(error)?;
        file.length += length;
        file.blocks += blocks;
        Ok(())
    }
}

/// A drive as a power cut leaves it at several ages, in seconds after a checkpoint at 60 %.
fn fill(drive: &LabDrive, setup: Setup, ages: &[u64], seed: u64) -> Result<Vec<(u64, MemoryDevice)>, LabError> {
    let options = Options { checkpoint_every: Duration::from_secs(1 << 40), ..setup.options() };
    let (medium, zones) = (drive.medium(), drive.geometry().zone_count);
    let ages = ages.to_vec();
    Sim::new(seed).run(move |rt| async move {
        let device = SimDevice::without_power_cuts(&rt, medium);
        device.set_latency(Duration::ZERO);
        let error = |error: shingle_chunk_store::Error| LabError(error.to_string());
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        ChunkStore::format(&rt, shared.clone(), &FormatOptions::default()).await.map_err(error)?;
        use_metazones(&device).await?;
        let (store, _) = ChunkStore::open(&rt, shared, options).await.map_err(error)?;
        let kinds = TABLE_3.iter().map(|kind| (0.0, 0, (0..kind.files).map(|_| None).collect()));
        let mut load = Load {
            rt: rt.clone(),
            store: store.clone(),
            random: Random::new(seed),
            zeros: AlignedBuf::zeroed(Blocks(256)).freeze(),
            kinds: kinds.collect(),
            began: rt.now().nanos as f64 / 1e9,
            next_id: 0,
            room: device.geometry().zone_capacity.0 - 1,
        };
        while used(&store) < 0.6 {
            load.run(u64::from(zones / 8)).await?;
        }
        store.checkpoint().await.map_err(error)?;
        let began = rt.now();
        let mut images = Vec::new();
        for age in ages {
            while rt.now().since(began) < Duration::from_secs(age) {
                load.run(1).await?;
            }
            let image = device.image();
            image.power_cycle();
            images.push((age, image));
        }
        Ok(images)
    })
}

/// The share of data zones that are written.
fn used(store: &ChunkStore) -> f64 {
    let zones = store.zones();
    let written: u64 = zones.iter().map(|zone| u64::from(zone.written_blocks)).sum();
    let capacity: u64 = zones.iter().map(|zone| u64::from(zone.capacity_blocks)).sum();
    written as f64 / capacity.max(1) as f64
}

/// Writes a block to every empty metazone: after a while all have been in use, and each has a head to be read.
async fn use_metazones(device: &SimDevice) -> Result<(), LabError> {
    let geometry = device.geometry().clone();
    let metazones = shingle_chunk_store::Layout::default_metazones(&geometry);
    let error = |error: shingle_zoned::DeviceError| LabError(error.to_string());
    let first = geometry.conventional_zones + 1;
    for info in device.report(shingle_base::ZoneId(first), metazones).await.map_err(error)? {
        if info.written == Blocks::ZERO {
            let block = AlignedBuf::zeroed(Blocks(1)).freeze();
            device.write(info.start, vec![block]).await.map_err(error)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_found_between_two_points() {
        let curve = [(0.0, 10.0), (100.0, 60.0), (200.0, 80.0)];
        assert_eq!(age_of(&curve, 35.0), Some(50.0));
        assert_eq!(age_of(&curve, 70.0), Some(150.0));
        assert_eq!(age_of(&curve, 90.0), None);
    }
}
