//! One drive of an array at a hundredth of its speed: waiting times of puts. (Rows of `slow-drive`.)

use std::time::Duration;

use bytes::Bytes;
use shingle_array_store::{ArrayStore, Options, PutHints};
use shingle_erasure::Code;
use shingle_runtime::{Instant, Runtime};
use shingle_sim::{Random, Sim};

use super::waits::{Calls, GOAL, SLOWER, WARM_UP, come, compared, percentile, ratio};
use crate::context::Context;
use crate::error::LabError;
use crate::load::objects::name;
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::array::{LabArray, lab_error};

/// Bytes of an object, and of a piece of it.
const OBJECT: u64 = 64 << 20;
const PIECE: u64 = 16 << 20;
/// Objects that are written again and again.
const NAMES: u64 = 192;
/// Puts in ten seconds, for each twelve drives: a fifth of what those can write.
const PUTS: u64 = 16;
/// A slow drive that all puts wait for is to be given up by then: it is waited for as long as a rebuild is worth, and
/// no client longer.
const GIVEN_UP_BY: f64 = 180.0;
/// From then on puts are counted again: those that waited have been written.
const AFTER: Duration = Duration::from_secs(180);

/// Puts, and when a drive was given up for being slow.
struct Found {
    puts: Calls,
    given_up: Option<Duration>,
}

#[derive(Clone, Copy)]
struct Load {
    slower: u32,
    time: Duration,
    seed: u64,
}

pub(super) fn rows(context: &Context, code: Code) -> Result<Vec<Row>, LabError> {
    let time = WARM_UP + Duration::from_secs(context.scale.pick(120, 240, 1200));
    let of = |groups: usize| -> Result<LabArray, LabError> {
        Ok(LabArray { drives: groups * code.width(), code, ..LabArray::new(context, 960)? })
    };
    let measure = |groups: usize, slower: u32, time: Duration| {
        let what = if slower == 1 { "all drives well" } else { "one drive slow" };
        (context.progress)(&format!("PUT, {} drives, {what}", groups * code.width()), None);
        measure(&of(groups)?, groups as u64, Load { slower, time, seed: context.seed })
    };
    let row = |id: String, unit, ours: f64, goal: f64| Row::new(id, unit, Better::Lower).ours(ours).goal(goal);

    let (well, slow) = (measure(2, 1, time)?, measure(2, SLOWER, time)?);
    let [took, took_well] = [&slow, &well].map(|found| found.puts.between(WARM_UP, time));
    let elsewhere_times = [&well, &slow].map(|found| found.puts.summary(WARM_UP, time));
    let before = slow.puts.between(Duration::ZERO, WARM_UP);
    let elsewhere = row(
        format!("PUT 64 MiB, {} drives, 99th percentile, one drive slow over none", 2 * code.width()),
        "x",
        ratio(&took, &took_well),
        GOAL,
    )
    .note(format!(
        "{}; the longest {:.1} s before the drive was found out",
        compared(&took, &took_well),
        percentile(&before, 100)
    ))
    .judged();

    let time = WARM_UP + AFTER + Duration::from_secs(context.scale.pick(180, 180, 600));
    let (well, slow) = (measure(1, 1, WARM_UP * 2)?, measure(1, SLOWER, time)?);
    let took_well = well.puts.between(WARM_UP, WARM_UP * 2);
    let given_up = slow.given_up.ok_or_else(|| LabError("the slow drive was not given up".to_owned()))?;
    let (waited, took) = (slow.puts.between(Duration::ZERO, given_up), slow.puts.between(given_up + AFTER, time));
    let id = |what: &str| format!("PUT 64 MiB, {} drives, {what}", code.width());
    let ours = row(id("time until the slow drive is given up"), "s", given_up.as_secs_f64(), GIVEN_UP_BY)
        .note(format!(
            "all puts wait for it: half of those that came by then took {:.0} s, the longest {:.0} s",
            percentile(&waited, 50),
            percentile(&waited, 100)
        ))
        .judged();
    let after = row(id("99th percentile without the slow drive over all well"), "x", ratio(&took, &took_well), GOAL)
        .note(compared(&took, &took_well))
        .judged();
    let mut rows = vec![elsewhere, ours, after];
    let two = 2 * code.width();
    rows.extend(times::rows(&format!("PUT 64 MiB, {two} drives, all well"), None, Some(&elsewhere_times[0])));
    rows.extend(times::rows(&format!("PUT 64 MiB, {two} drives, one slow"), None, Some(&elsewhere_times[1])));
    let without = slow.puts.summary(given_up + AFTER, time);
    rows.extend(times::rows(&id("without the slow drive"), None, Some(&without)));
    Ok(rows)
}

/// Puts that come at random times, also while earlier ones are under way.
fn measure(array: &LabArray, groups: u64, load: Load) -> Result<Found, LabError> {
    let array = array.clone();
    Sim::new(load.seed).run(move |rt| async move {
        let rig = array.format(&rt, Options::default()).await?;
        rig.keep_time();
        let began = rt.now();
        if load.slower > 1 {
            rig.devices[5].set_slow_drive(array.drive.model(5), load.slower);
        }
        let given_up = rt.spawn(given_up(rt.clone(), rig.store.clone(), began, load.time));
        let puts = puts(&rt, &rig.store, groups * PUTS, load).await?;
        Ok(Found { puts, given_up: given_up.await.map_err(|_| LabError("a watch was lost".to_owned()))?? })
    })
}

/// The time at which a drive was given up for being slow.
async fn given_up(
    rt: Runtime,
    store: ArrayStore,
    began: Instant,
    time: Duration,
) -> Result<Option<Duration>, LabError> {
    while rt.now().since(began) < time {
        if store.stats().map_err(lab_error)?.slow_given_up > 0 {
            return Ok(Some(rt.now().since(began)));
        }
        rt.sleep(Duration::from_secs(1)).await;
    }
    Ok(None)
}

async fn puts(rt: &Runtime, store: &ArrayStore, in_ten_s: u64, load: Load) -> Result<Calls, LabError> {
    let zeros = Bytes::from(vec![0; PIECE as usize]);
    let mut number = 0;
    come(rt, in_ten_s, load.time, Random::new(load.seed * 3), |_| {
        let (store, zeros, name) = (store.clone(), zeros.clone(), number % NAMES);
        number += 1;
        async move { put(&store, name, &zeros).await }
    })
    .await
}

async fn put(store: &ArrayStore, number: u64, zeros: &Bytes) -> Result<(), LabError> {
    let hints = PutHints { length: Some(OBJECT), group: None };
    let mut put = store.begin_put_with(name(number), hints).map_err(lab_error)?;
    for _ in 0..OBJECT / PIECE {
        put.write(zeros.clone()).await.map_err(lab_error)?;
    }
    put.finish(Bytes::new()).await.map(drop).map_err(lab_error)
}
