//! Tests that need a state which no call brings about.

mod beside;
mod cleaners;
mod dead;
mod gentle;
mod lanes;
mod many;
mod met;
mod openings;
mod rebuild;
mod recovery;
mod refusals;
mod regroup;
mod scale;
mod snapshots;
mod space;
mod steps;
mod superblocks;
mod unsure;
mod zones;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Either, join_all, select};
use shingle_base::{Blocks, ZoneId};
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger};
use shingle_zoned::{Geometry, MemoryDevice};

use crate::append::item::Item;
use crate::engine::Engine;
use crate::repair::membership::Survey;
use crate::types::{Completion, DriveId, DriveSet, SetId, SetState, Version};
use crate::zone_set::{List, Phase};
use crate::{
    ArrayDrive, ArrayStore, ErrorKind, FormatOptions, IndexPlace, Options, RebuildOptions, RecoveryReport,
    ScrubOptions, format,
};

fn named(devices: &[SimDevice]) -> Vec<ArrayDrive> {
    let drive = |device: &SimDevice| ArrayDrive { name: "d".into(), dev: Rc::new(device.clone()) };
    devices.iter().map(drive).collect()
}

async fn open(rt: &Runtime, media: &[MemoryDevice]) -> (Vec<SimDevice>, ArrayStore, RecoveryReport) {
    let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(rt, medium)).collect();
    let options = Options { background: false, available_sets: 3, ..Options::default() };
    let (store, report) = ArrayStore::open(rt, &named(&devices), &IndexPlace::Memory, options).await.unwrap();
    (devices, store, report)
}

/// A fresh array of 2+1 on three drives, with segments of 20,000 bytes.
async fn fresh(rt: &Runtime) -> (Vec<SimDevice>, ArrayStore) {
    fresh_of(rt, Code::new(2, 1).unwrap()).await
}

/// The same of another code, on as many drives as it has fragments.
async fn fresh_of(rt: &Runtime, code: Code) -> (Vec<SimDevice>, ArrayStore) {
    let media: Vec<_> =
        (0..code.data() + code.parity()).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12))).collect();
    let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(rt, medium)).collect();
    let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(code) };
    format(rt, &named(&devices), &options).await.unwrap();
    let images: Vec<_> = devices.iter().map(SimDevice::image).collect();
    let (devices, store, _) = open(rt, &images).await;
    (devices, store)
}

fn crash(devices: &[SimDevice]) -> Vec<MemoryDevice> {
    devices.iter().map(|device| device.crash_image(1)).collect()
}

fn bytes(byte: u8, count: usize) -> Bytes {
    vec![byte; count].into()
}

/// Appends a run durably; nobody enters it in the index.
async fn orphan(engine: &Rc<Engine>, version: u64, offset: u64, data: Bytes, size: Option<u64>) {
    let completion = size.map(|size| Completion { size, attributes: Bytes::new() });
    let item = Item::Run { name: Bytes::from_static(b"o"), version: Version(version), offset, data, completion };
    engine.append_user(&item).await.unwrap();
}

/// Three sets full of small objects, one of which is deleted in each; the array, and the first of those sets.
async fn filled(rt: &Runtime) -> (Vec<SimDevice>, ArrayStore, SetId) {
    let (devices, store) = fresh(rt).await;
    let mut number = 0;
    while store.0.sets.count(SetState::Closed) < 3 {
        number += 1;
        store.put(format!("a{number}"), bytes(2, 19_000), Bytes::new()).await.unwrap();
        if number % 4 == 1 {
            store.delete(format!("a{number}")).await.unwrap();
        }
        rt.sleep(Duration::from_millis(1)).await;
    }
    let (id, _) = store.0.sets.of(List::Closed).next().unwrap();
    (devices, store, id)
}

/// Adds a drive.
async fn join(rt: &Runtime, store: &ArrayStore) {
    let fresh = SimDevice::new(rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12)));
    store.add_drive(&named(&[fresh])[0]).await.unwrap();
}

/// Takes a drive away for good.
async fn lose(devices: &[SimDevice], store: &ArrayStore, number: usize) {
    devices[number].power_off_at(0);
    assert!(store.0.drives.fail(DriveId(number as u8)));
    store.0.record_failures().await.unwrap();
}

/// State after a power cut of an array with the object `o`, whose last block is rotten on the first drive.
fn rotten() -> Vec<MemoryDevice> {
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        store.put("o", bytes(1, 19_000), Bytes::new()).await.unwrap();
        crash(&devices)
    });
    let (zone, end) = last_written(&images)[0];
    let last = images[0].zone(zone).start + Blocks(end - 1);
    images[0].corrupt(last, |bytes| bytes[50] ^= 1);
    images
}

/// The zone of each drive that is written to last, and where it ends.
fn last_written(images: &[MemoryDevice]) -> Vec<(ZoneId, u64)> {
    let last = |image: &MemoryDevice| {
        let zones = (2..14).map(|zone| (ZoneId(zone), image.zone(ZoneId(zone)).written.0));
        zones.filter(|(_, written)| *written > 0 && *written < 60).max().unwrap()
    };
    images.iter().map(last).collect()
}

/// A set whose zones cannot be reset is no room.
#[test]
fn a_stuck_set_does_not_count_as_free() {
    Sim::new(1).run(|rt| async move {
        let (_, store) = fresh(&rt).await;
        let free = store.0.free_sets();
        let (_, set) = store.0.sets.of(List::Empty).next().unwrap();
        set.set_stuck(true);
        assert_eq!(store.0.free_sets(), free - 1);
    });
}

/// A call that nobody waits for any more keeps no turn: others go on, also while its put is still there. (AS-WRITE-4)
#[test]
fn a_write_that_was_dropped_holds_up_nobody() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store) = fresh(&rt).await;
        let mut put = store.begin_put("a").unwrap();
        assert!(put.write(bytes(1, 60_000)).now_or_never().is_none());
        let other = Box::pin(store.put("b", bytes(2, 19_000), Bytes::new()));
        let ended = select(other, Box::pin(rt.sleep(Duration::from_secs(60)))).await;
        assert!(matches!(ended, Either::Left((Ok(_), _))), "another object waits for the turn");
        drop(put);
    });
}
