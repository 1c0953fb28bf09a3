//! Stores of one server, of which one has a drive at a hundredth of its speed: what the others' clients lose, and those
//! of its own other drives. (Rows of `slow-drive`.)

use std::time::Duration;

use futures_util::future::join;
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice};

use super::waits::{Calls, GOAL, SLOWER, come, percentile, ratio};
use crate::context::Context;
use crate::error::LabError;
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::array::LabArray;
use crate::rig::drives::LabDrive;
use crate::rig::server::{Client, LabServer, Server};

/// Drives of the object store; arrays.
const DRIVES: usize = 4;
const ARRAYS: usize = 2;
/// The slow drive's number, in its store.
const SLOW: usize = 1;
/// Bytes of a GET.
const GET: u64 = 1 << 20;
/// Loss of arrays: none. Less than a thousandth is another order of tasks.
const NOTHING: f64 = 1.001;
/// Loss of an object store: none that another draw would not bring. In a simulation it draws the time that its index's thread
/// takes, and from the numbers from which a slow array draws its trials (AS-AVOID-1): its calls meet others than before.
const ANOTHER_DRAW: f64 = 1.1;

/// The load of one store.
#[derive(Clone, Copy)]
struct Load {
    /// Objects that are there, and bytes of each.
    objects: u64,
    size: u64,
    /// Calls in a second.
    gets: u64,
    puts: u64,
}

/// A tenth of what an object store's drives could do.
const ON_DRIVES: Load = Load { objects: 4096, size: 1 << 20, gets: 16, puts: 40 };
/// The same of an array.
const ON_ARRAY: Load = Load { objects: 256, size: 16 << 20, gets: 40, puts: 3 };

/// The store with a slow drive.
#[derive(Clone, Copy, PartialEq)]
enum Slow {
    None,
    Drives,
    Array,
}

/// Calls to one store by when they came, and GETs of objects that do not lie on the slow drive.
#[derive(Default)]
struct Found {
    gets: Calls,
    gets_elsewhere: Calls,
    puts: Calls,
}

pub(super) fn rows(context: &Context, code: Code) -> Result<Vec<Row>, LabError> {
    let array = LabArray { drives: code.width(), code, ..LabArray::new(context, 960)? };
    let drive = LabDrive::shingled(context)?.first_zones(2_000);
    let server = LabServer { drive, drives: DRIVES, array, arrays: ARRAYS };
    // In a minute, 24 PUTs are slower than the 99th percentile: another draw moves it by a tenth and more.
    let time = Duration::from_secs(context.scale.pick(180, 180, 1200));
    let run = |slow: Slow, what: &str| {
        (context.progress)(&format!("stores of one server, {what}"), None);
        measure(&server, slow, time, context.seed)
    };
    let well = run(Slow::None, "all drives well")?;
    let array = run(Slow::Array, "an array's drive slow")?;
    let drives = run(Slow::Drives, "an object store's drive slow")?;
    let row = |what: &str, slow: &Calls, well: &Calls, goal: f64| {
        let times = times::rows(&format!("{what}: request"), None, Some(&slow.summary(Duration::ZERO, time)));
        let [slow, well] = [slow, well].map(|calls| calls.between(Duration::ZERO, time));
        let ms = |took: &[Duration], at: usize| percentile(took, at) * 1e3;
        let row = Row::new(format!("{what}, 99th percentile"), "x", Better::Lower)
            .ours(ratio(&slow, &well))
            .goal(goal)
            .note(format!(
                "{:.1} ms over {:.1} ms; medians {:.1} and {:.1} ms; the longest {:.0} and {:.0} ms",
                ms(&slow, 99),
                ms(&well, 99),
                ms(&slow, 50),
                ms(&well, 50),
                ms(&slow, 100),
                ms(&well, 100)
            ))
            .judged();
        (row, times)
    };
    let both = |what: &str, slow: &Found, well: &Found, [get, put]: [&str; 2], goal: f64| {
        [
            row(&format!("{get} {what}"), &slow.gets, &well.gets, goal),
            row(&format!("{put} {what}"), &slow.puts, &well.puts, goal),
        ]
    };
    let [on_drives, on_array] = [["GET 1 MiB", "PUT 1 MiB"], ["GET 1 MiB", "PUT 16 MiB"]];
    let mut found = Vec::new();
    found.extend(both("to an array beside a slow array", &array[2], &well[2], on_array, NOTHING));
    found.extend(both("to four drives beside a slow array", &array[0], &well[0], on_drives, ANOTHER_DRAW));
    found.extend(both("to an array beside four drives, one slow", &drives[1], &well[1], on_array, NOTHING));
    found.push(row(
        "GET 1 MiB from the three others of four drives, one slow",
        &drives[0].gets_elsewhere,
        &well[0].gets_elsewhere,
        GOAL,
    ));
    let (mut rows, times): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    rows.extend(times.into_iter().flatten());
    Ok(rows)
}

/// Findings of each store's clients: the object store's, then each array's.
fn measure(server: &LabServer, slow: Slow, time: Duration, seed: u64) -> Result<Vec<Found>, LabError> {
    let server = server.clone();
    Sim::new(seed).run(move |rt| async move {
        let stores = server.open(&rt).await?;
        let loads = [ON_DRIVES, ON_ARRAY, ON_ARRAY];
        for (client, load) in stores.clients.iter().zip(loads) {
            for number in 0..load.objects {
                client.put(&number.to_string(), load.size).await?;
            }
        }
        let on_slow = on_drive(&stores, ON_DRIVES.objects).await?;
        for array in &stores.arrays {
            array.keep_time();
        }
        let make_slow = |device: &SimDevice, drive: &LabDrive| {
            device.set_slow_drive(drive.model(SLOW as u64), SLOWER);
        };
        match slow {
            Slow::None => {}
            Slow::Drives => make_slow(&stores.drives[SLOW], &server.drive),
            Slow::Array => make_slow(&stores.arrays[0].devices[SLOW], &server.array.drive),
        }
        let tasks: Vec<_> = (0..)
            .zip(stores.clients.iter().zip(loads))
            .map(|(number, (client, load))| {
                let on_slow = if number == 0 { on_slow.clone() } else { Vec::new() };
                let (rt, client) = (rt.clone(), client.clone());
                let seeds = [seed * 7 + number, seed * 11 + number];
                rt.clone().spawn(async move { calls(&rt, &client, load, time, seeds, on_slow).await })
            })
            .collect();
        let mut found = Vec::new();
        for task in tasks {
            found.push(task.await.map_err(|_| LabError("a load was lost".to_owned()))??);
        }
        Ok(found)
    })
}

/// For each of the object store's objects, true if it lies on the drive that is to be slow: its GET reads from it.
async fn on_drive(stores: &Server, objects: u64) -> Result<Vec<bool>, LabError> {
    let reads = || stores.drives[SLOW].counts().reads.0;
    let mut found = Vec::new();
    for number in 0..objects {
        let before = reads();
        stores.clients[0].get(&number.to_string(), 0, GET).await?;
        found.push(reads() > before);
    }
    Ok(found)
}

/// GETs and PUTs of one store.
async fn calls(
    rt: &Runtime,
    client: &Client,
    load: Load,
    time: Duration,
    [gets, puts]: [u64; 2],
    on_slow: Vec<bool>,
) -> Result<Found, LabError> {
    let (mut elsewhere, mut next) = (Vec::new(), load.objects);
    let getting = come(rt, load.gets * 10, time, Random::new(gets), |random| {
        let number = random.below(load.objects);
        elsewhere.push(!on_slow.get(number as usize).is_some_and(|there| *there));
        let at = random.below(load.size - GET + 1) / 4096 * 4096;
        let client = client.clone();
        async move { client.get(&number.to_string(), at, GET).await }
    });
    let putting = come(rt, load.puts * 10, time, Random::new(puts), |_| {
        next += 1;
        let (client, number) = (client.clone(), next);
        async move { client.put(&number.to_string(), load.size).await }
    });
    let (gets, puts) = join(getting, putting).await;
    let (gets, puts) = (gets?, puts?);
    let kept = gets.0.iter().zip(elsewhere).filter(|(_, elsewhere)| *elsewhere).map(|(call, _)| *call).collect();
    Ok(Found { gets, gets_elsewhere: Calls(kept), puts })
}
