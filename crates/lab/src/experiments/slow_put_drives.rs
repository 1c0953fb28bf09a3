//! One of four drives of an object store at a hundredth of its speed: what puts wait for. Each object has one copy, on a drive that the
//! store chooses. (A row of `slow-drive`.)

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shingle_chunk_store::{ChunkClient, ChunkStore, FormatOptions};
use shingle_drive_model::Drive as Model;
use shingle_object_store::{Drive, MemoryIndex, ObjectEngine, ObjectStoreClient, Options};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice};
use shingle_store_api::{Commit, ObjectStore};

use super::slow_drive::{SLOWER, WARM_UP};
use super::slow_put::{GOAL, Puts, compared, ratio};
use crate::drives::LabDrive;
use crate::engine::Setup;
use crate::experiment::{Better, Context, LabError, Row};
use crate::host::{Host, HostDevice};

const DRIVES: usize = 4;
const OBJECT: usize = 1 << 20;
/// Puts in a second: less than a fifth of what the drives can write.
const PUTS: u64 = 40;
const BUCKET: &str = "bucket";

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

fn lab_error(error: impl ToString) -> LabError {
    LabError(error.to_string())
}

/// The store on fresh drives, and their devices.
async fn open(rt: &Runtime, drive: &LabDrive) -> Result<(ObjectEngine, Vec<Rc<SimDevice>>), LabError> {
    let (mut drives, mut devices) = (Vec::new(), Vec::new());
    for _ in 0..DRIVES {
        let device = drive.device(rt, drive.medium());
        let host = HostDevice::new(Host::linux_6_10(), device.clone());
        ChunkStore::format(rt, host.clone(), &FormatOptions::default()).await.map_err(lab_error)?;
        let (chunks, _) = ChunkStore::open(rt, host, Setup::Ours.options()).await.map_err(lab_error)?;
        let store = chunks.id();
        let (client, requests) = ChunkClient::channel(256);
        drop(rt.spawn(async move { chunks.serve(requests).await }));
        drives.push(Drive { client, store, hides: false });
        devices.push(device);
    }
    let index = Arc::new(MemoryIndex::new());
    let opened = ObjectEngine::open(rt.clone(), drives, index, Options::default(), None).await;
    Ok((opened.map_err(lab_error)?.0, devices))
}

/// Puts that come at random times, whatever became of those before.
fn measure(drive: &LabDrive, slower: u32, time: Duration, seed: u64) -> Result<Puts, LabError> {
    let drive = drive.clone();
    Sim::new(seed).run(move |rt| async move {
        let (engine, devices) = open(&rt, &drive).await?;
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
                let ended = put(&store, number).await;
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

async fn put(store: &ObjectStoreClient, number: u64) -> Result<(), LabError> {
    let mut writer = store.begin_put(BUCKET, &number.to_string()).await.map_err(lab_error)?;
    writer.write(Bytes::from(vec![0; OBJECT])).await.map_err(lab_error)?;
    writer.commit(Commit::default()).await.map(drop).map_err(lab_error)
}
