//! PUT to an object store of many modelled drives: the rate of one drive, and the factor of many.
//!
//! In virtual time, so that only drives and the order of things cost time, and no processor.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shingle_chunk_store::{ChunkClient, ChunkStore, FormatOptions};
use shingle_object_store::{Drive, MemoryIndex, ObjectEngine, ObjectStoreClient, Options};
use shingle_runtime::Runtime;
use shingle_sim::{Sim, SimDevice};
use shingle_store_api::{Commit, ObjectStore};

use crate::error::LabError;
use crate::rig::drives::LabDrive;
use crate::rig::engine::Setup;
use crate::rig::host::{Host, HostDevice};

pub(crate) const BUCKET: &str = "bucket";
/// Bytes of an object.
const OBJECT: usize = 1 << 20;
/// Zones of a drive: more than are written.
const ZONES: u32 = 2_000;
/// Clients for each drive, each with one PUT at a time.
pub const CLIENTS_EACH: usize = 8;
/// Time that all run before they are measured.
const WARM_UP: Duration = Duration::from_secs(2);

/// Rate of a number of drives.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Drives.
    pub drives: usize,
    /// Bytes of objects in a second.
    pub bytes_per_s: f64,
    /// Bytes on the fullest drive, over their mean.
    pub fullest: f64,
    /// Device commands.
    pub commands: u64,
    /// Objects.
    pub objects: u64,
}

/// PUT of 1 MiB objects through the object store's API, for that time, to drives of SMRstore's evaluation, each with
/// the server's chunk store.
///
/// # Errors
/// The store fails.
pub fn puts(drives: usize, time: Duration, seed: u64) -> Result<Taken, LabError> {
    let drive = LabDrive::new("st20000nm001j")?.first_zones(ZONES);
    Sim::new(seed).run(move |rt| async move {
        let (engine, devices) = open(&rt, &drive, drives).await?;
        let store = engine.client();
        store.create_bucket(BUCKET).await.map_err(lab_error)?;
        let (done, over) = (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(false)));
        let client = |client: usize| {
            let (store, done, over) = (store.clone(), done.clone(), over.clone());
            rt.spawn(async move {
                for number in 0.. {
                    if over.get() {
                        break;
                    }
                    put(&store, &format!("{client}-{number}")).await?;
                    done.set(done.get() + 1);
                }
                Ok::<_, LabError>(())
            })
        };
        let clients: Vec<_> = (0..drives * CLIENTS_EACH).map(client).collect();
        rt.sleep(WARM_UP).await;
        let (before, commands) = (done.get(), commands_of(&devices));
        rt.sleep(time).await;
        let objects = done.get() - before;
        let commands = commands_of(&devices) - commands;
        over.set(true);
        for client in clients {
            client.await.map_err(|_| LabError("a client was lost".to_owned()))??;
        }
        let written: Vec<u64> = devices.iter().map(|device| device.counts().writes.1).collect();
        let mean = written.iter().sum::<u64>() as f64 / drives as f64;
        let fullest = written.iter().max().map_or(0.0, |most| *most as f64 / mean);
        engine.close().await;
        let bytes_per_s = (objects * OBJECT as u64) as f64 / time.as_secs_f64();
        Ok(Taken { drives, bytes_per_s, fullest, commands, objects })
    })
}

fn commands_of(devices: &[Rc<SimDevice>]) -> u64 {
    devices.iter().map(|device| device.counts().commands).sum()
}

/// The store on fresh drives, and their devices.
pub(crate) async fn open(
    rt: &Runtime,
    drive: &LabDrive,
    count: usize,
) -> Result<(ObjectEngine, Vec<Rc<SimDevice>>), LabError> {
    open_with(rt, drive, count, Options::default()).await
}

/// As [`open`], with those options of the object store.
pub(crate) async fn open_with(
    rt: &Runtime,
    drive: &LabDrive,
    count: usize,
    options: Options,
) -> Result<(ObjectEngine, Vec<Rc<SimDevice>>), LabError> {
    let (mut drives, mut devices) = (Vec::new(), Vec::new());
    for number in 0..count as u64 {
        let device = drive.device_of_batch(number, rt, drive.medium());
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
    let opened = ObjectEngine::open(rt.clone(), drives, index, options, None).await;
    Ok((opened.map_err(lab_error)?.0, devices))
}

/// Puts an object of zeros.
pub(crate) async fn put(store: &ObjectStoreClient, key: &str) -> Result<(), LabError> {
    let mut writer = store.begin_put(BUCKET, key).await.map_err(lab_error)?;
    writer.write(Bytes::from_static(&[0; OBJECT])).await.map_err(lab_error)?;
    writer.commit(Commit::default()).await.map(drop).map_err(lab_error)
}

pub(crate) fn lab_error(error: impl ToString) -> LabError {
    LabError(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OS-EVEN-1, by its effect.
    #[test]
    fn more_drives_take_as_many_times_as_much() {
        let time = Duration::from_secs(3);
        let one = puts(1, time, 1).unwrap();
        for (drives, least) in [(2, 0.9), (8, 0.9), (60, 0.8)] {
            let many = puts(drives, time, 1).unwrap();
            let factor = many.bytes_per_s / one.bytes_per_s / drives as f64;
            assert!(factor > least && many.fullest < 1.1, "{drives} drives: {factor:.2} times {one:?}, {many:?}");
        }
    }
}
