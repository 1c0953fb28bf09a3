//! One of four drives of an object store at a hundredth of its speed: waiting times of puts. Each object has one copy,
//! on a drive that the store chooses. (A row of `slow-drive`.)

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use shingle_drive_model::Drive as Model;
use shingle_sim::{Random, Sim};
use shingle_store_api::ObjectStore;

use super::waits::{GOAL, Puts, SLOWER, WARM_UP, compared, ratio};
use crate::context::Context;
use crate::error::LabError;
use crate::report::row::{Better, Row};
use crate::rig::drives::LabDrive;
use crate::rig::scaling::{BUCKET, lab_error, open, put};

const DRIVES: usize = 4;
/// Puts in a second: less than a fifth of the drives' limit.
const PUTS: u64 = 40;

pub(super) fn row(context: &Context) -> Result<Row, LabError> {
    let drive = LabDrive::shingled(context)?.first_zones(2_000);
    let time = WARM_UP + Duration::from_secs(context.scale.pick(60, 300, 1200));
    let measure = |slower: u32| {
        let what = if slower == 1 { "all drives well" } else { "one drive slow" };
        (context.progress)(&format!("PUT, four chunk stores, {what}"), None);
        measure(&drive, slower, time, context.seed)
    };
    let (well, slow) = (measure(1)?, measure(SLOWER)?);
    let [took, took_well] = [&slow, &well].map(|found| found.between(WARM_UP, time));
    let longest = slow.between(Duration::ZERO, time).last().copied().unwrap_or_default();
    Ok(Row::new("PUT 1 MiB, four chunk stores, 99th percentile, one drive slow over none", "x", Better::Lower)
        .ours(ratio(&took, &took_well))
        .goal(GOAL)
        .note(format!("{}; the longest of all {:.1} s", compared(&took, &took_well), longest.as_secs_f64()))
        .judged())
}

/// Puts that come at random times, also while earlier ones are under way.
fn measure(drive: &LabDrive, slower: u32, time: Duration, seed: u64) -> Result<Puts, LabError> {
    let drive = drive.clone();
    Sim::new(seed).run(move |rt| async move {
        let (engine, devices) = open(&rt, &drive, DRIVES).await?;
        let store = engine.client();
        store.create_bucket(BUCKET).await.map_err(lab_error)?;
        if slower > 1 {
            devices[1].set_slow_drive(Model::new(&drive.profile, drive.every), slower);
        }
        let (from, mut random) = (rt.now(), Random::new(seed * 3));
        let found = Rc::new(RefCell::new((Puts::default(), None)));
        let mut under_way = Vec::new();
        for number in 0.. {
            rt.sleep(Duration::from_nanos(random.below(2_000_000_000 / PUTS))).await;
            if rt.now().since(from) >= time {
                break;
            }
            let (rt, store, found) = (rt.clone(), store.clone(), found.clone());
            under_way.push(rt.clone().spawn(async move {
                let came = rt.now();
                let ended = put(&store, &number.to_string()).await;
                let (came, took) = (came.since(from), rt.now().since(came));
                let mut found = found.borrow_mut();
                match ended {
                    Err(error) => found.1 = Some(error),
                    Ok(()) => found.0.took.push((came, took)),
                }
            }));
        }
        for put in under_way {
            put.await.map_err(|_| LabError("a writer was lost".to_owned()))?;
        }
        let (puts, error) = found.take();
        error.map_or(Ok(puts), Err)
    })
}
