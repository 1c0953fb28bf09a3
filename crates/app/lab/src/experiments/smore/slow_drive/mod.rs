//! One drive of an array at a hundredth of its speed: effect on its readers, and on another array. (Effect on writers:
//! [`put`], [`put_drives`]; on other stores of a server: [`beside`].)

mod beside;
mod put;
mod put_drives;
mod waits;

use std::time::Duration;

use shingle_array_store::{ArrayStore, Options};
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim};

use self::waits::{Calls, SLOWER, WARM_UP, come, percentile};
use super::read::filled;
use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::objects::{Sizes, name};
use crate::load::times::Summary;
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::array::{LabArray, Rig, lab_error};

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "slow-drive",
        question: "What does one drive of twelve at a hundredth of its speed cost those who read or write, and those who read elsewhere?",
        setup: "Two arrays of twelve Ha10, 10+2, one zone in 960, filled to 40 % with objects of 256 MB. GETs of ranges at \
                random come at random times, whatever became of those before: at a fifth of what the drives could do. They \
                are counted from a minute on, by when the slow drive has been found out; the arrays share one thread. PUTs come \
                in the same way, to fresh arrays of twelve and of 24 drives, and to an object store on four drives. Last, the \
                stores of one server, an object store on four drives and two arrays of twelve, which share a thread and the \
                budget of memory: GETs and PUTs of all three at a tenth of what the drives could do, counted from the start.",
        runs: Runs::SEEDS_AND_TURNS,
        run,
    }
}

/// Drives of each array.
const DRIVES: usize = 12;
/// Name of a load, bytes of a GET, and GETs a second.
const LOADS: [(&str, u64, u64); 2] = [("64 KiB", 64 << 10, 160), ("1 MiB", 1 << 20, 80)];
const OBJECT: u64 = 256 << 20;
const FULL: f64 = 0.4;

/// Times of GETs, from the shortest, and bytes that a second array read beside.
struct Found {
    took: Vec<Duration>,
    times: Summary,
    longest_before: Duration,
    hedged: u64,
    reads: u64,
}

impl Found {
    fn percentile(&self, percent: usize) -> f64 {
        percentile(&self.took, percent)
    }
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    context.with_options("Shingle", &Options::default());
    let code = Code::new(10, 2).map_err(|error| LabError(error.to_string()))?;
    let array = LabArray { drives: DRIVES, code, ..LabArray::new(context, 960)? };
    let time = Duration::from_secs(context.scale.pick(60, 180, 1200));
    let (mut rows, mut all_times) = (Vec::new(), Vec::new());
    for (number, (size, bytes, rate)) in LOADS.into_iter().enumerate() {
        let measure = |slower: u32, share: f64| {
            let what = if slower == 1 { "all drives well" } else { "one drive slow" };
            (context.progress)(&format!("{size}, {what}"), Some((number as f64 + share) / LOADS.len() as f64));
            measure(&array, Load { slower, bytes, rate, time, seed: context.seed })
        };
        let [well, beside_well] = measure(1, 0.0)?;
        let [slow, beside_slow] = measure(SLOWER, 0.5)?;
        let ms = |seconds: f64| seconds * 1e3;
        let factor = |id: String, ours: f64| Row::new(id, "x", Better::Lower).ours(ours);
        let (p99, p99_well) = (slow.percentile(99), well.percentile(99));
        rows.push(
            factor(format!("GET {size}, 99th percentile, one drive slow over none"), p99 / p99_well)
                .goal(1.5)
                .note(format!(
                    "{:.1} ms over {:.1} ms; medians {:.1} and {:.1} ms; the longest {:.0} and {:.0} ms, and {:.0} ms before the \
                     drive was found out",
                    ms(p99),
                    ms(p99_well),
                    ms(slow.percentile(50)),
                    ms(well.percentile(50)),
                    ms(slow.percentile(100)),
                    ms(well.percentile(100)),
                    ms(slow.longest_before.as_secs_f64())
                ))
                .judged(),
        );
        let (p99, p99_well) = (beside_slow.percentile(99), beside_well.percentile(99));
        rows.push(
            factor(format!("GET {size} from the array beside it, 99th percentile"), p99 / p99_well)
                .goal(1.0)
                .note(format!("{:.1} ms over {:.1} ms", ms(p99), ms(p99_well)))
                .judged(),
        );
        let share = well.hedged as f64 / well.reads.max(1) as f64;
        rows.push(
            Row::new(format!("GET {size}, extra reads, all drives well"), "share", Better::Lower)
                .ours(share)
                .goal(0.05)
                .note(format!("{} of {} reads", well.hedged, well.reads))
                .judged(),
        );
        all_times.extend(times::rows(&format!("GET {size}, all drives well"), None, Some(&well.times)));
        all_times.extend(times::rows(&format!("GET {size}, one drive slow"), None, Some(&slow.times)));
    }
    rows.extend(put::rows(context, code)?);
    rows.extend(put_drives::rows(context)?);
    rows.extend(beside::rows(context, code)?);
    rows.extend(all_times);
    Ok(Outcome { rows, ..Outcome::default() })
}

#[derive(Clone, Copy)]
struct Load {
    slower: u32,
    bytes: u64,
    rate: u64,
    time: Duration,
    seed: u64,
}

/// Both arrays under the same load; the first one has a drive that is slower.
fn measure(array: &LabArray, load: Load) -> Result<[Found; 2], LabError> {
    let array = array.clone();
    Sim::new(load.seed).run(move |rt| async move {
        let mut rigs = Vec::new();
        for number in 0..2 {
            let options = Options { background: false, ..Options::default() };
            let (rig, objects) = filled(&rt, &array, options, Sizes::Equal(OBJECT), FULL, load.seed + number).await?;
            rig.keep_time();
            rigs.push((rig, objects.count() as u64));
        }
        if load.slower > 1 {
            rigs[0].0.devices[5].set_slow_drive(array.drive.model(5), load.slower);
        }
        let both = rigs.iter().enumerate().map(|(number, (rig, objects))| {
            let random = Random::new(load.seed * 2 + number as u64);
            let (rt, store, objects) = (rt.clone(), rig.store.clone(), *objects);
            rt.clone().spawn(async move { gets(&rt, &store, objects, load, random).await })
        });
        let mut found = Vec::new();
        for (task, (rig, _)) in both.collect::<Vec<_>>().into_iter().zip(&rigs) {
            let gets = task.await.map_err(|_| LabError("a load was lost".to_owned()))??;
            let took = gets.between(WARM_UP, WARM_UP + load.time);
            let longest_before = gets.between(Duration::ZERO, WARM_UP).last().copied().unwrap_or_default();
            let hedged = rig.store.stats().map_err(lab_error)?.hedged;
            let times = gets.summary(WARM_UP, WARM_UP + load.time);
            found.push(Found { took, times, longest_before, hedged, reads: reads(rig) });
        }
        let found: Result<[Found; 2], _> = found.try_into();
        found.map_err(|_| LabError("two arrays were measured".to_owned()))
    })
}

fn reads(rig: &Rig) -> u64 {
    rig.devices.iter().map(|device| device.counts().reads.0).sum()
}

/// GETs of ranges at random, from now on.
async fn gets(rt: &Runtime, store: &ArrayStore, objects: u64, load: Load, random: Random) -> Result<Calls, LabError> {
    come(rt, load.rate * 10, WARM_UP + load.time, random, |random| {
        let (number, at) = (random.below(objects.max(1)), random.below(OBJECT - load.bytes) / 4096 * 4096);
        let store = store.clone();
        async move { get(&store, number, at, load.bytes).await }
    })
    .await
}

async fn get(store: &ArrayStore, number: u64, mut at: u64, mut left: u64) -> Result<(), LabError> {
    let reader = store.open_object(name(number)).map_err(lab_error)?;
    while left > 0 {
        let bytes = reader.read(at, left).await.map_err(lab_error)?.len() as u64;
        at += bytes;
        left = left.saturating_sub(bytes);
    }
    Ok(())
}
