//! EVICT, GATHER, READMIT: drives that blink, come back, answer and fail, or whose superblocks cannot be read.

mod away;
mod given_up;
mod history;
mod superblocks;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use crate::buffer::{Left, files, left};
use crate::common::{ArrayShape, Content, Model, ModelObject, content, formatted, named, options, powered, shape};
use bytes::Bytes;
use futures_util::future::{Either, join_all, select};
use shingle_array_store::{
    ArrayDrive, ArrayStore, CheckOptions, DriveId, ErrorKind, IndexPlace, Options, RebuildOptions, ScrubOptions,
    SetInspection, SetState, check, inspect,
};
use shingle_base::{Blocks, ZoneId};
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, SimFile, Trigger, seeds};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

/// A fresh array of 2+1 on so many drives.
fn fresh(drives: usize) -> Vec<MemoryDevice> {
    let drives = vec![Geometry::hm_smr(Blocks(60), 16, 0, 12); drives];
    formatted(&ArrayShape { code: Code::new(2, 1).unwrap(), segment_length: 20_000, drives })
}

fn plain() -> Options {
    Options { background: false, available_sets: 3, ..Options::default() }
}

async fn open(
    rt: &Runtime,
    drives: &[ArrayDrive],
    options: Options,
) -> shingle_array_store::Result<(ArrayStore, shingle_array_store::RecoveryReport)> {
    ArrayStore::open(rt, drives, &IndexPlace::Memory, options).await
}

async fn put(store: &ArrayStore, name: &str, key: u64) {
    store.put(name.to_owned(), content((key, 15_000)), Bytes::new()).await.unwrap();
}

async fn is(store: &ArrayStore, name: &str, key: u64) {
    assert!(store.get(name.to_owned()).await.unwrap() == content((key, 15_000)), "{name}");
}

fn images(devices: &[SimDevice]) -> Vec<MemoryDevice> {
    devices.iter().map(|device| device.crash_image(5)).collect()
}

fn off(device: &SimDevice) {
    device.power_off_at(device.counts().commands);
}
