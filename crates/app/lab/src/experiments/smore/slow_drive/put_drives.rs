//! One of four drives of an object store at a hundredth of its speed: waiting times of puts. Each object has one copy,
//! on a drive that the store chooses. (A row of `slow-drive`.)

use std::time::Duration;

use shingle_sim::{Random, Sim};
use shingle_store_api::ObjectStore;

use super::waits::{Calls, GOAL, SLOWER, WARM_UP, come, compared, ratio};
use crate::context::Context;
use crate::error::LabError;
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::drives::LabDrive;
use crate::rig::scaling::{BUCKET, lab_error, open, put};

const DRIVES: usize = 4;
/// Puts in a second: less than a fifth of the drives' limit.
const PUTS: u64 = 40;

pub(super) fn rows(context: &Context) -> Result<Vec<Row>, LabError> {
    let drive = LabDrive::shingled(context)?.first_zones(2_000);
    let time = WARM_UP + Duration::from_secs(context.scale.pick(60, 180, 1200));
    let measure = |slower: u32| {
        let what = if slower == 1 { "all drives well" } else { "one drive slow" };
        (context.progress)(&format!("PUT, four chunk stores, {what}"), None);
        measure(&drive, slower, time, context.seed)
    };
    let (well, slow) = (measure(1)?, measure(SLOWER)?);
    let [took, took_well] = [&slow, &well].map(|found| found.between(WARM_UP, time));
    let longest = slow.between(Duration::ZERO, time).last().copied().unwrap_or_default();
    let row = Row::new("PUT 1 MiB, four chunk stores, 99th percentile, one drive slow over none", "x", Better::Lower)
        .ours(ratio(&took, &took_well))
        .goal(GOAL)
        .note(format!("{}; the longest of all {:.1} s", compared(&took, &took_well), longest.as_secs_f64()))
        .judged();
    let [well, slow] = [&well, &slow].map(|found| found.summary(WARM_UP, time));
    let mut rows = vec![row];
    rows.extend(times::rows("PUT 1 MiB, four chunk stores, all drives well", None, Some(&well)));
    rows.extend(times::rows("PUT 1 MiB, four chunk stores, one drive slow", None, Some(&slow)));
    Ok(rows)
}

/// Puts that come at random times, also while earlier ones are under way.
fn measure(drive: &LabDrive, slower: u32, time: Duration, seed: u64) -> Result<Calls, LabError> {
    let drive = drive.clone();
    Sim::new(seed).run(move |rt| async move {
        let (engine, devices) = open(&rt, &drive, DRIVES).await?;
        let store = engine.client();
        store.create_bucket(BUCKET).await.map_err(lab_error)?;
        if slower > 1 {
            devices[1].set_slow_drive(drive.model(1), slower);
        }
        let mut numbers = 0..;
        come(&rt, PUTS * 10, time, Random::new(seed * 3), |_| {
            let (store, number) = (store.clone(), numbers.next().unwrap_or(0_u64));
            async move { put(&store, &number.to_string()).await }
        })
        .await
    })
}
