//! Drives that stop to answer: whatever the array is doing, it ends without them. (AS-HANG-1, AS-HANG-2)

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_array_store::{
    ArrayDrive, ArrayStore, ErrorKind, IndexPlace, Options, RebuildOptions, RecoveryReport, ScrubOptions,
};
use shingle_base::Blocks;
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::{Geometry, MemoryDevice};

use crate::common::{content, named, open, powered};
use crate::slow::{OBJECTS, filled, filled_with, name, object, read};

/// The longest that anything may take: the time after which a drive counts as gone, a few times over.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

const EVERYTHING: [CommandKind; 6] = [
    CommandKind::Report,
    CommandKind::Read,
    CommandKind::Write,
    CommandKind::Manage,
    CommandKind::Reset,
    CommandKind::Flush,
];

fn hang(device: &SimDevice, kinds: &[CommandKind]) {
    let rule = |kind: &CommandKind| FaultRule { trigger: Trigger::Rate(*kind, 1.0), fault: Fault::Hang };
    device.set_faults(Faults::new(kinds.iter().map(rule)));
}

fn quiet() -> Options {
    Options { background: false, ..Options::default() }
}

/// Result of `work`, which must end.
async fn ended<T>(rt: &Runtime, what: &str, work: impl Future<Output = T>) -> T {
    match select(Box::pin(work), Box::pin(rt.sleep(PATIENCE))).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => panic!("{what} does not end"),
    }
}

async fn all_is_there(rt: &Runtime, store: &ArrayStore) {
    for number in 0..OBJECTS {
        read(rt, store, number, u64::MAX).await;
    }
}

/// Opens the array, which must end.
async fn opened(rt: &Runtime, devices: &[SimDevice]) -> shingle_array_store::Result<(ArrayStore, RecoveryReport)> {
    let drives = named(devices);
    ended(rt, "opening", ArrayStore::open(rt, &drives, &IndexPlace::Memory, quiet())).await
}

/// AS-HANG-1: a drive may stop to answer before an opening, or at any command of one, in order or after a crash.
#[test]
fn a_drive_that_hangs_holds_up_no_opening() {
    for seed in seeds(4) {
        for command in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55] {
            Sim::new(seed).run(move |rt| async move {
                let (devices, store) = filled(&rt).await;
                store.snapshot().await.unwrap();
                store.put("late", content((77, 30_000)), Bytes::new()).await.unwrap();
                if seed % 2 == 0 {
                    store.close().await.unwrap();
                }
                let images: Vec<_> = devices.iter().map(|device| device.crash_image(seed)).collect();
                let devices = powered(&rt, &images);
                devices[(seed % 6) as usize].on_command(move |at, device| {
                    if at.number == command {
                        hang(device, &EVERYTHING);
                    }
                });
                let context = format!("seed {seed}, from command {command}");
                let (store, report) = opened(&rt, &devices).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert!(report.damage.is_empty(), "{context}: {:?}", report.damage);
                all_is_there(&rt, &store).await;
                assert_eq!(store.get("late").await.unwrap(), content((77, 30_000)), "{context}");
                store.put("new", content((78, 30_000)), Bytes::new()).await.unwrap();
                assert_eq!(store.stats().unwrap().drives_missing, 1, "{context}");
            });
        }
    }
}

/// AS-HANG-1 while the array works: whatever is under way ends, the drive is given up, and all is there.
#[test]
fn a_drive_that_hangs_holds_up_nothing_that_is_under_way() {
    let kinds: [&[CommandKind]; 3] = [&EVERYTHING, &[CommandKind::Write], &[CommandKind::Reset, CommandKind::Flush]];
    for seed in seeds(2) {
        for (what, kinds) in (0..6).flat_map(|what| kinds.map(|kinds| (what, kinds))) {
            Sim::new(seed).run(move |rt| async move {
                let (devices, store) = filled_with(&rt, 1, quiet()).await;
                for number in 0..OBJECTS {
                    store.put(format!("dead{number}"), content(object(number)), Bytes::new()).await.unwrap();
                    store.delete(format!("dead{number}")).await.unwrap();
                }
                let other = devices[((seed + 3) % 7) as usize].clone();
                hang(&devices[(seed % 7) as usize], kinds);
                let context = format!("seed {seed}, {what}, {kinds:?}");
                match what {
                    0 => drop(ended(&rt, &context, store.scrub(ScrubOptions::default(), |_| {})).await.unwrap()),
                    1 => {
                        other.power_off_at(0);
                        let rebuilding = store.rebuild(RebuildOptions::default(), |_| {});
                        drop(ended(&rt, &context, rebuilding).await);
                    }
                    2 => drop(ended(&rt, &context, store.gc(100)).await.unwrap()),
                    3 => ended(&rt, &context, store.snapshot()).await.unwrap(),
                    4 => {
                        let put = store.put("new", content((78, 100_000)), Bytes::new());
                        ended(&rt, &context, put).await.unwrap();
                        assert_eq!(store.get("new").await.unwrap(), content((78, 100_000)), "{context}");
                    }
                    _ => drop(ended(&rt, &context, store.delete(name(1))).await.unwrap()),
                }
                (0..OBJECTS)
                    .for_each(|number| assert!(what == 5 && number == 1 || store.open_object(name(number)).is_ok()));
                for number in (0..OBJECTS).filter(|number| what != 5 || *number != 1) {
                    read(&rt, &store, number, u64::MAX).await;
                }
                ended(&rt, &context, store.close()).await.unwrap();
            });
        }
    }
}

/// AS-HANG-2: more drives than parity makes up for are waited for, none is given up, and all goes on once they answer.
#[test]
fn many_drives_that_hang_together_are_waited_for() {
    for seed in seeds(4) {
        Sim::new(seed).run(move |rt| async move {
            let (devices, store) = filled(&rt).await;
            devices[..3].iter().for_each(|device| hang(device, &EVERYTHING));
            let putting = {
                let store = store.clone();
                rt.spawn(async move { store.put("new", content((78, 100_000)), Bytes::new()).await })
            };
            rt.sleep(PATIENCE).await;
            assert_eq!(store.stats().unwrap().drives_missing, 0, "seed {seed}");
            for device in &devices {
                device.set_faults(Faults::default());
                device.release_hung();
            }
            putting.await.unwrap().unwrap();
            all_is_there(&rt, &store).await;
            assert_eq!(store.stats().unwrap().drives_missing, 0, "seed {seed}");
        });
    }
}

/// An opening waits for no more drives than it can do without either: it is refused, nothing is written, and with the
/// drives back all is there.
#[test]
fn an_opening_without_too_many_drives_that_hang_is_refused() {
    for seed in seeds(4) {
        for command in [0, 4, 30] {
            Sim::new(seed).run(move |rt| async move {
                let (devices, store) = filled(&rt).await;
                drop(store);
                let images: Vec<_> = devices.iter().map(|device| device.crash_image(seed)).collect();
                let devices = powered(&rt, &images);
                for device in &devices[..3] {
                    device.on_command(move |at, device| {
                        if at.number == command {
                            hang(device, &EVERYTHING);
                        }
                    });
                }
                let Err(error) = opened(&rt, &devices).await else {
                    panic!("seed {seed}: opened without three drives")
                };
                let refused = matches!(error.kind, ErrorKind::Device | ErrorKind::Corrupt);
                assert!(refused, "seed {seed}, command {command}: {error}");
                let devices = powered(&rt, &devices.iter().map(SimDevice::image).collect::<Vec<_>>());
                let (store, _) = open(&rt, &devices, quiet()).await;
                all_is_there(&rt, &store).await;
                assert_eq!(store.stats().unwrap().drives_missing, 0, "seed {seed}");
            });
        }
    }
}

/// A drive that hangs while it is added is refused; rebuilds and repairs would wait for that.
#[test]
fn a_new_drive_that_hangs_holds_up_no_rebuild() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store) = filled(&rt).await;
        let new = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(200), 14, 0, 12)));
        hang(&new, &EVERYTHING);
        let drive = ArrayDrive { name: "new".into(), dev: Rc::new(new) };
        let error = ended(&rt, "adding a drive", store.add_drive(&drive)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Device, "{error}");
        ended(&rt, "a rebuild", store.rebuild(RebuildOptions::default(), |_| {})).await.unwrap();
        all_is_there(&rt, &store).await;
    });
}
