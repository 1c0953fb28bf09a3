//! Rebuild of a lost drive. (SMORE, section III-G.)

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use shingle_array_store::{Options, RebuildOptions};
use shingle_base::{Blocks, ZoneId};
use shingle_sim::Sim;
use shingle_zoned::ZonedDevice;

use super::ingest::{note, ours};
use super::read::filled;
use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::objects::Sizes;
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::array::{LabArray, lab_error};

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "smore-rebuild",
        question: "How fast is a lost drive made up for, and what bounds it?",
        setup: "Ha10 drives, 5+1, one zone in 60 (960 in a quick run, 240 in a standard one), mixed sizes; the power fails, one \
                drive does not come back. First six drives at 80 % and a new one in its place, which is then all that is \
                written to: the slowest drive. Then nine drives at 60 % and none in its place: free zones of all others take \
                what it held. Nobody else reads or writes. Bandwidth is one drive's, end to end over the zones that were written \
                on the new one, which are not its fastest; without one, over as many of the fastest.",
        runs: Runs::SEEDS,
        run,
    }
}

/// Goal, as a share of a drive's bandwidth.
const GOAL: f64 = 0.9;

/// Drives of the array that goes on without a new one.
const MANY: usize = 9;

/// A rebuild.
struct Found {
    /// Seconds, and bytes written until then.
    course: Vec<(f64, f64)>,
    /// Write limit of one drive, in bytes a second.
    limit: f64,
    /// The same over the zones that were written.
    limit_there: f64,
    /// Bytes in all zones of a drive.
    whole: f64,
}

impl Found {
    fn rate(&self) -> f64 {
        self.course.last().map_or(0.0, |(seconds, bytes)| bytes / seconds.max(f64::MIN_POSITIVE))
    }
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    note(context);
    let array = LabArray::new(context, context.scale.pick(960, 240, 60))?;
    let many = LabArray { drives: MANY, ..array.clone() };
    let (full, less) = context.scale.pick((0.2, 0.2), (0.8, 0.6), (0.8, 0.6));
    (context.progress)("a new drive in its place", Some(0.0));
    let replaced = rebuild(&array, full, true, context.seed)?;
    (context.progress)("free zones of the others", Some(0.5));
    let spread = rebuild(&many, less, false, context.seed)?;
    let rows = vec![
        Row::new("rebuild onto a new drive", "MB/s", Better::Higher)
            .ours(replaced.rate() / 1e6)
            .goal(GOAL * replaced.limit / 1e6)
            .note(format!("{:.1} % of what that drive can write", replaced.rate() / replaced.limit * 100.0))
            .judged(),
        Row::new("rebuild onto a new drive, 10 TB, 80 % full", "h", Better::Lower)
            .ours(replaced.whole / replaced.rate() / 3600.0)
            .note("extrapolated")
            .judged(),
        Row::new(format!("rebuild onto free zones, {MANY} drives"), "MB/s", Better::Higher)
            .ours(spread.rate() / 1e6)
            .goal(GOAL * spread.limit / 1e6)
            .note(format!(
                "{:.2} times what one drive can write, {:.2} times what it can write in the zones that were taken",
                spread.rate() / spread.limit,
                spread.rate() / spread.limit_there
            ))
            .judged(),
    ];
    let line = |name: String, found: &Found| {
        let points = found.course.iter().map(|(seconds, bytes)| (seconds / 60.0, bytes / 1e9)).collect();
        Series::new(name, Mark::Line, points)
    };
    let end = replaced.course.last().map_or(0.0, |point| point.0);
    let limit = vec![(0.0, 0.0), (end / 60.0, end * replaced.limit / 1e9)];
    let figure = Figure {
        name: "smore-rebuild".to_owned(),
        title: "A lost drive is rebuilt (SMORE, section III-G)".to_owned(),
        x: Axis::linear("time (min)"),
        y: Axis::linear("rebuilt (GB)"),
        series: vec![
            line("onto a new drive".to_owned(), &replaced),
            line(format!("onto free zones, {MANY} drives"), &spread),
            Series::new("what one drive can write", Mark::Reference, limit),
        ],
    };
    Ok(Outcome { rows, figures: vec![figure], ..Outcome::default() })
}

/// Loses the first drive of an array with that share in use, and rebuilds it.
fn rebuild(array: &LabArray, full: f64, replace: bool, seed: u64) -> Result<Found, LabError> {
    let media = {
        let array = array.clone();
        Sim::new(seed).run(move |rt| async move {
            let (rig, _) = filled(&rt, &array, ours(), Sizes::Mix, full, seed).await?;
            Ok::<_, LabError>(rig.media())
        })?
    };
    let lost = array.clone();
    let (course, taken) = Sim::new(seed).run(move |rt| async move {
        let left = media.into_iter().skip(1).collect();
        let (rig, report, _) = lost.open(&rt, left, Options { background: false, ..ours() }).await?;
        if report.missing_drives.len() != 1 {
            return Err(LabError(format!("one drive was taken away, and {:?} are missed", report.missing_drives)));
        }
        let new = replace.then(|| lost.another(&rt));
        if let Some(new) = &new {
            rig.store.add_drive(new).await.map_err(lab_error)?;
        }
        let devs: Vec<Rc<dyn ZonedDevice>> = match &new {
            Some(new) => vec![new.dev.clone()],
            None => rig.devices.iter().map(|device| device.clone() as Rc<dyn ZonedDevice>).collect(),
        };
        let before = written(&devs).await?;
        let course = Rc::new(RefCell::new(vec![(0.0, 0.0)]));
        let began = rt.now();
        let told = {
            let (course, rt) = (course.clone(), rt.clone());
            move |so_far: shingle_array_store::RebuildProgress| {
                course.borrow_mut().push((rt.now().since(began).as_secs_f64(), so_far.bytes as f64));
            }
        };
        let done = rig.store.rebuild(RebuildOptions { bytes_per_second: None }, told).await.map_err(lab_error)?;
        if done.failed > 0 || done.done < done.members {
            return Err(LabError(format!("{} of {} zones were rebuilt", done.done, done.members)));
        }
        course.borrow_mut().push((rt.now().since(began).as_secs_f64(), done.bytes as f64));
        let taken: BTreeSet<_> = written(&devs).await?.difference(&before).map(|(_, zone)| *zone).collect();
        Ok((course.take(), taken.into_iter().collect()))
    })?;
    let geometry = array.drive.geometry();
    let zones = geometry.zone_count - geometry.conventional_zones - 2;
    let limit_there = array.limit_over(seed, taken, true);
    let limit = if replace { limit_there } else { array.limit(seed, (f64::from(zones) * full) as u32, 1.0, true) };
    let whole = f64::from(array.sets_of_whole()) * geometry.zone_capacity.bytes() as f64 * 0.8;
    Ok(Found { course, limit, limit_there, whole })
}

/// The zones with writes other than superblocks, each with its drive.
async fn written(devs: &[Rc<dyn ZonedDevice>]) -> Result<BTreeSet<(usize, ZoneId)>, LabError> {
    let mut found = BTreeSet::new();
    for (number, dev) in devs.iter().enumerate() {
        let geometry = dev.geometry();
        let first = geometry.conventional_zones + 2;
        let zones = dev.report(ZoneId(first), geometry.zone_count - first).await;
        let zones = zones.map_err(|error| LabError(error.to_string()))?;
        found.extend(zones.iter().filter(|zone| zone.written > Blocks::ZERO).map(|zone| (number, zone.zone)));
    }
    Ok(found)
}
