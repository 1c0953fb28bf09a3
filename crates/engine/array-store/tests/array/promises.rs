//! Promises that earlier versions broke, each with the history that broke it.

use std::time::Duration;

use crate::common::{ArrayShape, content, formatted, named, open, powered};
use bytes::Bytes;
use futures_util::FutureExt;
use shingle_array_store::{ArrayStore, ErrorKind, IndexPlace, Options};
use shingle_base::Blocks;
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::{Geometry, MemoryDevice};

fn plain() -> Options {
    Options { background: false, ..Options::default() }
}

/// Three drives, 2+1, sets of `zones - 2`.
fn three_drives(segment_length: u32, zone: u64, zones: u32) -> Vec<MemoryDevice> {
    let code = Code::new(2, 1).unwrap();
    let drives = vec![Geometry::hm_smr(Blocks(zone), zones, 0, 12); 3];
    formatted(&ArrayShape { code, segment_length, drives })
}

fn crash(devices: &[SimDevice]) -> Vec<MemoryDevice> {
    devices.iter().enumerate().map(|(at, device)| device.crash_image(at as u64)).collect()
}

/// Puts objects of one size until there is no more room; at put `refuse` the first drive refuses a write. Returns the
/// number acknowledged, and the media after a power cut.
fn fill(refuse: Option<u64>) -> (u64, Vec<MemoryDevice>) {
    Sim::new(7).run(move |rt| async move {
        let devices = powered(&rt, &three_drives(8192, 40, 10));
        let (store, _) = open(&rt, &devices, plain()).await;
        let mut acked = 0;
        loop {
            if refuse == Some(acked) {
                let rule = FaultRule { trigger: Trigger::Nth(CommandKind::Write, 0), fault: Fault::CommandError };
                devices[0].set_faults(Faults::new([rule]));
            }
            match store.put(format!("o{acked}"), content((acked, 2000)), Bytes::new()).await {
                Ok(_) => acked += 1,
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                    return (acked, crash(&devices));
                }
            }
        }
    })
}

/// AS-WRITE-3: also when the drive that refused it is gone, and so is the proof that it did.
#[test]
fn a_put_that_was_refused_for_space_never_appears() {
    let (room, _) = fill(None);
    assert!(room > 10);
    // The last that fits: refused by its set, it finds no other.
    let (acked, images) = fill(Some(room - 1));
    assert_eq!(acked, room - 1);
    Sim::new(8).run(move |rt| async move {
        let devices = powered(&rt, &images[1..]);
        let (store, report) = open(&rt, &devices, plain()).await;
        assert_eq!(report.damage, Vec::<String>::new());
        for object in 0..acked {
            assert!(store.get(format!("o{object}")).await.unwrap() == content((object, 2000)));
        }
        assert_eq!(store.head(format!("o{acked}").as_bytes()).unwrap_err().kind, ErrorKind::NotFound);
    });
}

/// Runs `test` on fresh drives, then `after` on what a power cut leaves.
fn with_cut<F, G, T: 'static>(
    test: impl FnOnce(Runtime, Vec<SimDevice>, ArrayStore) -> F + 'static,
    after: impl FnOnce(ArrayStore, T) -> G + 'static,
) where
    F: Future<Output = T> + 'static,
    G: Future<Output = ()> + 'static,
{
    let (images, told) = Sim::new(3).run(move |rt| async move {
        let devices = powered(&rt, &three_drives(20_000, 60, 14));
        let (store, _) = open(&rt, &devices, plain()).await;
        let told = test(rt, devices.clone(), store).await;
        (crash(&devices), told)
    });
    Sim::new(4).run(move |rt| async move {
        let devices = powered(&rt, &images);
        let (store, report) = open(&rt, &devices, plain()).await;
        assert_eq!(report.damage, Vec::<String>::new());
        after(store, told).await;
    });
}

/// AS-CLOSE-1, in each of the ways a caller can leave a call of its alone.
#[test]
fn closing_ends_whatever_callers_stopped_polling() {
    for (size, finish) in [(2_000, true), (90_000, true), (90_000, false), (900_000, false)] {
        for keep in [true, false] {
            Sim::new(5).run(move |rt| async move {
                let devices = powered(&rt, &three_drives(20_000, 60, 14));
                let (store, _) = open(&rt, &devices, plain()).await;
                let mut put = store.begin_put("o").unwrap();
                let mut call: std::pin::Pin<Box<dyn Future<Output = ()>>> = if finish {
                    put.write(content((1, size))).await.unwrap();
                    Box::pin(put.finish(Bytes::new()).map(|result| assert!(result.is_ok())))
                } else {
                    Box::pin(async move { drop(put.write(content((1, size))).await) })
                };
                // Polled once, and then no more.
                assert!(futures_util::poll!(&mut call).is_pending());
                let parked = keep.then_some(call);
                rt.sleep(Duration::from_millis(1)).await;
                store.close().await.unwrap();
                drop(parked);
                let devices = powered(&rt, &devices.iter().map(SimDevice::image).collect::<Vec<_>>());
                let (store, _) = open(&rt, &devices, plain()).await;
                // A finished put goes on without its caller.
                assert_eq!(store.head(b"o").is_ok(), finish, "{size} bytes, kept: {keep}");
            });
        }
    }
}

/// Others are not held up by it either.
#[test]
fn a_caller_that_stops_polling_a_deletion_or_snapshot_stops_nobody() {
    Sim::new(5).run(|rt| async move {
        let devices = powered(&rt, &three_drives(20_000, 60, 14));
        let (store, _) = open(&rt, &devices, plain()).await;
        store.put("o", content((1, 30_000)), Bytes::new()).await.unwrap();
        let mut snapshot = Box::pin(store.snapshot());
        assert!(futures_util::poll!(&mut snapshot).is_pending());
        let mut gc = Box::pin(store.gc(1));
        let _ = futures_util::poll!(&mut gc);
        let mut delete = Box::pin(store.delete("o"));
        assert!(futures_util::poll!(&mut delete).is_pending());
        store.snapshot().await.unwrap();
        store.put("p", content((2, 30_000)), Bytes::new()).await.unwrap();
        store.clone().close().await.unwrap();
    });
}

/// A part left out by a call that was not waited for must not become part of an object.
#[test]
fn a_write_that_was_dropped_spoils_its_put() {
    Sim::new(5).run(|rt| async move {
        let devices = powered(&rt, &three_drives(20_000, 60, 14));
        let (store, _) = open(&rt, &devices, plain()).await;
        let mut put = store.begin_put("o").unwrap();
        let mut write = Box::pin(put.write(content((1, 90_000))));
        assert!(futures_util::poll!(&mut write).is_pending());
        drop(write);
        assert_eq!(put.write(content((1, 10))).await.unwrap_err().kind, ErrorKind::Invalid);
        assert_eq!(put.finish(Bytes::new()).await.unwrap_err().kind, ErrorKind::Invalid);
        assert_eq!(store.head(b"o").unwrap_err().kind, ErrorKind::NotFound);
    });
}

/// AS-PUT-2, whatever of the version is on its way when the deletion comes. (SMORE, section III-F.3.)
#[test]
fn a_deletion_ends_a_small_version_that_began_before_it() {
    for wait in [0, 1, 20, 50, 80, 120, 200, 400] {
        for (old, size, coalesce) in [(false, 2_000, true), (true, 2_000, true), (false, 15_000, false)] {
            let media = three_drives(20_000, 60, 14);
            let images = Sim::new(wait).run(move |rt| async move {
                let devices = powered(&rt, &media);
                let (store, _) = open(&rt, &devices, Options { coalesce, ..plain() }).await;
                if old {
                    store.put("o", content((1, 30_000)), Bytes::new()).await.unwrap();
                }
                let mut put = store.begin_put("o").unwrap();
                put.write(content((2, size))).await.unwrap();
                let finish = rt.spawn(put.finish(Bytes::new()));
                if wait > 0 {
                    rt.sleep(Duration::from_micros(wait)).await;
                }
                assert!(store.delete("o").await.unwrap(), "{wait} us after, there was nothing to delete");
                finish.await.unwrap().unwrap();
                assert_eq!(store.head(b"o").unwrap_err().kind, ErrorKind::NotFound, "{wait} us after");
                assert!(!store.delete("o").await.unwrap());
                crash(&devices)
            });
            Sim::new(wait).run(move |rt| async move {
                let (store, _) = open(&rt, &powered(&rt, &images), plain()).await;
                assert_eq!(store.head(b"o").unwrap_err().kind, ErrorKind::NotFound, "{wait} us after, and a cut");
            });
        }
    }
}

#[test]
fn a_deletion_ends_a_version_of_which_nothing_was_written() {
    with_cut(
        |_, _, store| async move {
            let mut put = store.begin_put("o").unwrap();
            assert!(store.delete("o").await.unwrap());
            put.write(content((1, 90_000))).await.unwrap();
            put.finish(Bytes::new()).await.unwrap();
            assert_eq!(store.head(b"o").unwrap_err().kind, ErrorKind::NotFound);
            assert_eq!(store.stats().unwrap().live, 0);
        },
        |store, ()| async move { assert_eq!(store.head(b"o").unwrap_err().kind, ErrorKind::NotFound) },
    );
}

/// A version that was never completed is reported by the opening that finds it, and by no later one.
#[test]
fn an_incomplete_version_is_counted_once() {
    let media = three_drives(20_000, 60, 14);
    let images = Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (store, _) = open(&rt, &devices, plain()).await;
        let mut put = store.begin_put("o").unwrap();
        put.write(content((1, 90_000))).await.unwrap();
        rt.sleep(Duration::from_millis(5)).await;
        crash(&devices)
    });
    let images = Sim::new(2).run(move |rt| async move {
        let devices = powered(&rt, &images);
        let (_, report) = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, plain()).await.unwrap();
        assert_eq!(report.incomplete, 1);
        crash(&devices)
    });
    Sim::new(3).run(move |rt| async move {
        let (_, report) = open(&rt, &powered(&rt, &images), plain()).await;
        assert_eq!(report.incomplete, 0);
    });
}

/// Goes on at `live` of what fits, writing and deleting, for `rounds` times what fits: no put may fail for space.
fn churn(seed: u64, live: f64, background: bool, rounds: u64) {
    Sim::new(seed).run(move |rt| async move {
        let devices = powered(&rt, &three_drives(40_000, 160, 34));
        devices.iter().for_each(|device| device.set_latency(Duration::from_micros(20)));
        let options = Options { background, available_sets: 4, ..Options::default() };
        let (store, _) = open(&rt, &devices, options).await;
        let mut random = Random::new(seed);
        let mut objects: Vec<(String, u64)> = Vec::new();
        let (mut number, mut bytes, mut room) = (0, 0, u64::MAX);
        let mut written = 0;
        while written < rounds.saturating_mul(room.min(1 << 40)) || room == u64::MAX {
            let size = random.between(1_000, 120_000);
            while room < u64::MAX && bytes + size > (room as f64 * live) as u64 {
                let (name, size) = objects.swap_remove(random.below(objects.len() as u64) as usize);
                assert!(store.delete(name).await.unwrap());
                bytes -= size;
            }
            number += 1;
            let name = format!("objects/{number}");
            match store.put(name.clone(), content((number, size as usize)), Bytes::new()).await {
                Ok(_) => {
                    objects.push((name, size));
                    (bytes, written) = (bytes + size, written + size);
                }
                Err(error) if error.kind == ErrorKind::NoSpace && room == u64::MAX => (room, written) = (bytes, 0),
                Err(error) => {
                    let share = bytes as f64 / room as f64;
                    let stats = store.stats().unwrap();
                    panic!("seed {seed}: {error} at {share:.3} of what fits, after {written} bytes: {stats:?}")
                }
            }
        }
        let capacity = store.stats().unwrap().capacity;
        assert!(room * 2 > capacity, "only {room} of {capacity} bytes fit");
        for (name, size) in objects {
            assert_eq!(store.head(name.as_bytes()).unwrap().size, size);
        }
    });
}

#[test]
fn a_nearly_full_array_goes_on_taking_puts() {
    for (seed, live) in [(1, 0.90), (2, 0.95)] {
        churn(seed, live, false, 2);
        churn(seed, live, true, 2);
    }
}

/// Several segments of small objects waited when the last turn of large ones ended: one was let in, and nobody came to
/// let in the others.
#[test]
fn small_objects_beside_large_ones_all_end() {
    for seed in seeds(30) {
        Sim::new(seed).run(move |rt| async move {
            let devices = powered(&rt, &three_drives(20_000, 160, 34));
            devices.iter().for_each(|device| device.set_latency(Duration::from_micros(500)));
            let (store, _) = open(&rt, &devices, Options { open_sets: Some(3), ..plain() }).await;
            let writer = |number: u64, size: usize, objects: u64| {
                let store = store.clone();
                rt.spawn(async move {
                    for object in 0..objects {
                        let name = format!("{number}/{object}");
                        store.put(name, content((number, size)), Bytes::new()).await.unwrap();
                    }
                })
            };
            let large = (0..2).map(|number| writer(number, 100_000, 2 + number));
            let small = (2..22).map(|number| writer(number, 4_500, 12 + number % 3));
            for writer in large.chain(small).collect::<Vec<_>>() {
                writer.await.unwrap();
            }
        });
    }
}
