//! Drives that write slowly: what puts wait for, and for how long.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_array_store::{ArrayStore, Options};
use shingle_base::Blocks;
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::Geometry;

use crate::common::{ArrayShape, content, formatted, open, powered};
use crate::slow::{name, object, put_side_by_side, read};

/// The longest that a drive takes for a command; a slow one takes a thousand times as long. Four of five of its writes take more
/// than the second that counts.
const LATENCY: Duration = Duration::from_millis(5);

/// Objects that are written over and over.
const OBJECTS: u64 = 24;

/// Bytes of a large one.
const LARGE: usize = 300_000;

/// An array of 4+2 on so many drives, that works in the background.
async fn array(rt: &Runtime, drives: usize, slow_for_most: Duration) -> (Vec<SimDevice>, ArrayStore) {
    let options = Options { slow_for_most: Some(slow_for_most), open_sets: Some(4), ..Options::default() };
    array_with(rt, drives, options).await
}

async fn array_with(rt: &Runtime, drives: usize, options: Options) -> (Vec<SimDevice>, ArrayStore) {
    let geometry = Geometry::hm_smr(Blocks(400), 60, 0, 20);
    let shape = ArrayShape { code: Code::new(4, 2).unwrap(), segment_length: 50_000, drives: vec![geometry; drives] };
    let devices = powered(rt, &formatted(&shape));
    let (store, _) = open(rt, &devices, options).await;
    devices.iter().for_each(|device| device.set_latency(LATENCY));
    (devices, store)
}

fn slow_at_writes() -> Faults {
    Faults::new([FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::Slow }])
}

/// One of the drives that are written to most: under a light load some groups of drives get little, and nobody notices a slow drive there.
fn busy_drive(devices: &[SimDevice], seed: u64) -> &SimDevice {
    let mut busiest: Vec<_> = devices.iter().collect();
    busiest.sort_by_key(|device| std::cmp::Reverse(device.counts().writes));
    busiest[seed as usize % (devices.len() / 2)]
}

/// Two writers, four puts a second each; how long each put took, and when it began, from the start.
async fn put_for(rt: &Runtime, store: &ArrayStore, time: Duration) -> Vec<(Duration, Duration)> {
    let from = rt.now();
    let found = Rc::new(RefCell::new(Vec::new()));
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let (rt, store, found) = (rt.clone(), store.clone(), found.clone());
            rt.clone().spawn(async move {
                let mut number = writer;
                while rt.now().since(from) < time {
                    let began = rt.now();
                    let object = object(number % OBJECTS);
                    store.put(name(number % OBJECTS), content(object), Bytes::new()).await.unwrap();
                    found.borrow_mut().push((began.since(from), rt.now().since(began)));
                    rt.sleep(Duration::from_millis(250)).await;
                    number += 2;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    found.take()
}

/// The longest of those that began in that time, but for one in a hundred.
fn longest(puts: &[(Duration, Duration)], from: u64, to: u64) -> Duration {
    let within = |began: Duration| (from..to).contains(&began.as_secs());
    let mut took: Vec<Duration> = puts.iter().filter(|(began, _)| within(*began)).map(|(_, took)| *took).collect();
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

/// AS-AVOID-1 and AS-LANE-2: where there are groups of drives without the slow one puts go there, after those that were on their way; the
/// drive is tried, and written to again once it is well.
#[test]
fn puts_go_to_groups_without_a_drive_that_writes_slowly() {
    // 43: reads of trials that peers answered at once gave a drive up that was well again.
    for seed in seeds(4).chain([43]) {
        Sim::new(seed).run(move |rt| async move {
            let (devices, store) = array(&rt, 12, Duration::from_secs(600)).await;
            let healthy = longest(&put_for(&rt, &store, Duration::from_secs(60)).await, 0, 60);
            let slow = busy_drive(&devices, seed);
            slow.set_faults(slow_at_writes());
            let puts = put_for(&rt, &store, Duration::from_secs(300)).await;
            let (before, after) = (longest(&puts, 0, 20), longest(&puts, 20, 300));
            assert!(before < Duration::from_secs(12), "seed {seed}: puts wait for {before:?} for a slow drive");
            assert!(after < 2 * healthy, "seed {seed}: puts take {after:?}, and {healthy:?} before");
            let stats = store.stats().unwrap();
            assert_eq!((stats.drives_slow, stats.drives_missing), (1, 0), "seed {seed}: {stats:?}");
            // Well again.
            slow.set_faults(Faults::default());
            rt.sleep(Duration::from_secs(600)).await;
            assert_eq!(store.stats().unwrap().drives_slow, 0, "seed {seed}: it is avoided for ever");
            let written = slow.counts().writes.0;
            put_side_by_side(&store, OBJECTS).await;
            assert!(slow.counts().writes.0 > written, "seed {seed}: it is avoided for ever");
            assert_all_is_there(&rt, store, &devices).await;
        });
    }
}

/// AS-LANE-3: groups without the slow drive take what is written for as long as space can be won there, however much that is, also
/// where superblocks say what changed.
#[test]
fn groups_without_a_slow_drive_are_cleaned_while_it_is_avoided() {
    for seed in seeds(2) {
        Sim::new(seed).run(move |rt| async move {
            let whole_table = if seed % 2 == 0 { 0 } else { Options::default().whole_table };
            let options = Options { open_sets: Some(4), whole_table, ..Options::default() };
            let (devices, store) = array_with(&rt, 12, options).await;
            let kinds = [CommandKind::Read, CommandKind::Write];
            let slow = kinds.map(|kind| FaultRule { trigger: Trigger::Rate(kind, 1.0), fault: Fault::Slow });
            busy_drive(&devices, seed).set_faults(Faults::new(slow));
            let round = async |number: u64, count: u64| {
                let began = rt.now();
                join_all((0..count).map(|at| put_large(&store, (number + at) % OBJECTS))).await;
                rt.now().since(began)
            };
            let mut took = Vec::new();
            for number in 0..70 {
                took.push(round(number, 32).await);
            }
            let stats = store.stats().unwrap();
            assert!(stats.cleaned > 60, "seed {seed}: the case is not met: {stats:?}");
            assert_eq!((stats.drives_slow, stats.drives_missing), (1, 0), "seed {seed}: {stats:?}");
            // By then those that were on their way to the drive have landed.
            let after = &mut took[15..];
            after.sort_unstable();
            let (median, longest) = (after[after.len() / 2], after[after.len() - 1]);
            assert!(longest < 2 * median, "seed {seed}: puts take {longest:?}, and {median:?} mostly");
            // Its trials hold up nobody.
            for number in 0..300 {
                let took = round(number, 2).await;
                assert!(took < Duration::from_secs(1), "seed {seed}: puts take {took:?} at {:?}", rt.now());
                rt.sleep(Duration::from_secs(1)).await;
            }
            for number in 0..OBJECTS {
                let reader = store.open_object(name(number)).unwrap();
                let mut bytes = Vec::new();
                while (bytes.len() as u64) < reader.object().size {
                    bytes.extend_from_slice(&reader.read(bytes.len() as u64, u64::MAX).await.unwrap());
                }
                assert!(bytes == content((number, LARGE)), "seed {seed}: object {number} is read wrong");
            }
        });
    }
}

async fn put_large(store: &ArrayStore, number: u64) {
    store.put(name(number), content((number, LARGE)), Bytes::new()).await.unwrap();
}

/// A drive that clients keep away from is given up as any other that is slow for long, by its trials.
#[test]
fn a_drive_that_is_avoided_for_long_is_given_up() {
    for seed in seeds(2) {
        Sim::new(seed).run(move |rt| async move {
            let (devices, store) = array(&rt, 12, Duration::from_secs(200)).await;
            put_for(&rt, &store, Duration::from_secs(20)).await;
            busy_drive(&devices, seed).set_faults(slow_at_writes());
            put_for(&rt, &store, Duration::from_secs(180)).await;
            assert_eq!(store.stats().unwrap().slow_given_up, 0, "seed {seed}: it is given up at once");
            // Nobody writes.
            rt.sleep(Duration::from_secs(120)).await;
            assert_eq!(store.stats().unwrap().slow_given_up, 1, "seed {seed}");
        });
    }
}

/// AS-AVOID-2, AS-SLOW-5: where all sets have the drive puts wait for it, for a fifth of the time that it would have otherwise.
#[test]
fn a_drive_that_all_puts_wait_for_is_given_up_sooner() {
    for seed in seeds(4) {
        Sim::new(seed).run(move |rt| async move {
            let (devices, store) = array(&rt, 6, Duration::from_secs(600)).await;
            let healthy = longest(&put_for(&rt, &store, Duration::from_secs(60)).await, 0, 60);
            devices[seed as usize % 6].set_faults(slow_at_writes());
            let puts = put_for(&rt, &store, Duration::from_secs(240)).await;
            let (before, after) = (longest(&puts, 0, 110), longest(&puts, 180, 240));
            assert!(before > Duration::from_secs(1), "seed {seed}: {before:?}: somebody did not wait for the drive");
            assert!(after < 2 * healthy, "seed {seed}: puts take {after:?}, and {healthy:?} before");
            let stats = store.stats().unwrap();
            assert_eq!((stats.slow_given_up, stats.drives_missing), (1, 1), "seed {seed}: {stats:?}");
            assert_all_is_there(&rt, store, &devices).await;
        });
    }
}

/// Opens the array again: all objects are there.
async fn assert_all_is_there(rt: &Runtime, store: ArrayStore, devices: &[SimDevice]) {
    store.close().await.unwrap();
    let images: Vec<_> = devices.iter().map(SimDevice::image).collect();
    let devices = powered(rt, &images);
    let (store, _) = open(rt, &devices, Options::default()).await;
    for number in 0..OBJECTS {
        read(rt, &store, number, u64::MAX).await;
    }
}
