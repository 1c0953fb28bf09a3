//! CS-REC-9: an opening that accepts a loss is the last to look at what it could not read.

use super::*;

/// Options that accept what an opening could not read.
fn accepting(seen: &RecoveryReport) -> Options {
    Options { accept_loss: seen.unread.clone(), ..quiet() }
}

async fn opened_with(rt: &Runtime, device: &SimDevice, options: Options) -> (ChunkStore, RecoveryReport) {
    ChunkStore::open(rt, Rc::new(device.clone()), options).await.unwrap()
}

/// A block in the middle, and the header of the last record: a hole, and a chunk that ends early.
const BLOCKS: [u64; 2] = [7, 28];

async fn look(store: &ChunkStore) {
    assert_eq!(store.stat(id(1)).unwrap().size, 90_000);
    lost(store, 1, 20_000, 30_000).await;
    for number in [0, 1, 3, 4, 5, 6, 7, 8] {
        holds(store, 1, number * 10_000, 10_000, number).await;
    }
}

#[test]
fn an_accepted_loss_is_looked_for_by_no_later_opening() {
    Sim::new(1).run(|rt| async move {
        let (medium, zone) = left(&rt, drive()).await;
        let spoil = |device: &SimDevice| BLOCKS.iter().for_each(|&block| lose(device, zone, block, None));
        let device = SimDevice::new(&rt, &medium);
        spoil(&device);
        let (_, seen) = opened(&rt, &device).await;
        assert!(seen.hidden && !seen.accepted && names(&seen.damage, None, Some(zone)), "{seen:?}");

        let device = SimDevice::new(&rt, &device.crash_image(1));
        spoil(&device);
        let (store, report) = opened_with(&rt, &device, accepting(&seen)).await;
        assert!(report.accepted && !report.hidden && names(&report.damage, None, Some(zone)), "{report:?}");
        look(&store).await;
        // At once the power fails: readable again or not, nothing else is found.
        let cut = device.crash_image(2);
        for heal in [false, true] {
            let device = SimDevice::new(&rt, &cut);
            if heal {
                device.medium().heal()
            } else {
                spoil(&device)
            }
            let (store, report) = opened_with(&rt, &device, accepting(&seen)).await;
            assert!(!report.hidden && !report.accepted, "{report:?}");
            assert!(report.damage.iter().all(|damage| damage.chunk == Some(id(1))), "{:?}", report.damage);
            look(&store).await;
            put(&store, 1, 90_000, 5_000, 77).await;
            holds(&store, 1, 90_000, 5_000, 77).await;
            // The zone is nothing special any more: with its chunk deleted it is reset.
            store.delete(id(1)).await.unwrap();
            let resets = resets_of(&device, zone);
            churn(&store).await;
            assert!(resets.get() > 0, "the zone was never reset");
        }
    });
}

/// As the commands do it: the opening that shows the loss is closed in order, and another one accepts it.
#[test]
fn a_loss_is_accepted_after_the_opening_that_showed_it_was_closed() {
    Sim::new(1).run(|rt| async move {
        let (medium, zone) = left(&rt, drive()).await;
        let device = SimDevice::new(&rt, &medium);
        BLOCKS.iter().for_each(|&block| lose(&device, zone, block, None));
        let mut seen = Vec::new();
        for _ in 0..2 {
            let (store, report) = opened(&rt, &device).await;
            assert!(report.hidden && report.unread.len() == BLOCKS.len(), "{report:?}");
            seen.push(report);
            store.close().await.unwrap();
        }
        let (store, report) = opened_with(&rt, &device, accepting(&seen[0])).await;
        assert!(report.accepted && !report.hidden && report.unread == seen[1].unread, "{report:?}");
        look(&store).await;
    });
}

/// A zone that is offline is told of by every opening, until one accepts that.
#[test]
fn a_zone_that_went_offline_is_told_of_until_its_loss_is_accepted() {
    Sim::new(1).run(|rt| async move {
        let (medium, zone) = left(&rt, drive()).await;
        let offline = |medium: &MemoryDevice| {
            let device = SimDevice::new(&rt, medium);
            device.medium().set_state(zone, ZoneState::Offline);
            device
        };
        let mut device = offline(&medium);
        let mut options = quiet();
        for accepted in [false, true] {
            let (store, report) = opened_with(&rt, &device, options).await;
            assert!(names(&report.damage, None, Some(zone)), "{report:?}");
            assert_eq!((report.hidden, report.accepted), (!accepted, accepted));
            assert_eq!(store.stat(id(1)).unwrap().size, 0);
            (options, device) = (accepting(&report), offline(&device.crash_image(2)));
        }
        let (_, report) = opened(&rt, &device).await;
        assert!(!report.hidden && report.damage.is_empty(), "{report:?}");
    });
}

/// The power fails at any command of an opening that accepts a loss: the next meets the loss again, or it is settled. Both find the same.
#[test]
fn an_opening_that_accepts_a_loss_can_be_cut_anywhere() {
    Sim::new(1).run(|rt| async move {
        let (medium, zone) = left(&rt, drive()).await;
        let spoil = |device: &SimDevice| BLOCKS.iter().for_each(|&block| lose(device, zone, block, None));
        let device = SimDevice::new(&rt, &medium);
        spoil(&device);
        let (_, seen) = opened(&rt, &device).await;
        let device = SimDevice::new(&rt, &medium);
        spoil(&device);
        let cuts = device.cut_at_every_command(1, Survival::Prefix);
        let (store, _) = opened_with(&rt, &device, accepting(&seen)).await;
        store.create(id(2), Stream::Data).await.unwrap();
        let (mut again, mut settled) = (0, 0);
        for (command, image) in cuts.take() {
            let device = SimDevice::new(&rt, &image);
            spoil(&device);
            let (store, report) = opened(&rt, &device).await;
            *(if report.hidden { &mut again } else { &mut settled }) += 1;
            look(&store).await;
            assert!(settled == 0 || !report.hidden, "cut at command {}", command.number);
        }
        assert!(again > 3 && settled > 0, "{again} met it again, {settled} did not");
    });
}

/// A block fails between the look and the acceptance: nothing is given up, neither that block nor what was seen.
#[test]
fn a_place_that_nobody_named_keeps_all_of_a_loss_from_being_accepted() {
    Sim::new(1).run(|rt| async move {
        let (medium, zone) = left(&rt, drive()).await;
        let spoilt = |medium: &MemoryDevice, blocks: &[u64]| {
            let device = SimDevice::new(&rt, medium);
            blocks.iter().for_each(|&block| lose(&device, zone, block, None));
            device
        };
        let device = spoilt(&medium, &BLOCKS);
        let (_, seen) = opened(&rt, &device).await;
        // One in a record of its own, one beside a block that was seen, and one in the data of a record that was found.
        for other in [1, BLOCKS[0] + 1, BLOCKS[1] - 4, BLOCKS[1] + 1] {
            let device = spoilt(&device.crash_image(other), &[BLOCKS[0], BLOCKS[1], other]);
            let (_, report) = opened_with(&rt, &device, accepting(&seen)).await;
            let healed = SimDevice::new(&rt, &device.crash_image(other));
            if report.unread == seen.unread {
                // A block of a record adds nothing to the loss of its header.
                assert!(report.accepted, "block {other}: {report:?}");
                continue;
            }
            assert!(report.hidden && !report.accepted, "block {other}: {report:?}");
            healed.medium().heal();
            let (store, report) = opened(&rt, &healed).await;
            assert!(!report.hidden && report.damage.is_empty(), "block {other}: {report:?}");
            for number in 0..9 {
                holds(&store, 1, number * 10_000, 10_000, number).await;
            }
        }
        // Places that can be read again need not be given up; the rest is.
        let device = SimDevice::new(&rt, &device.crash_image(9));
        device.medium().heal();
        lose(&device, zone, BLOCKS[1], None);
        let (_, report) = opened_with(&rt, &device, accepting(&seen)).await;
        assert!(report.accepted && report.unread.len() == 1, "{report:?}");
    });
}

/// A full drive whose first chunk, of ten records, lies alone in a zone of which nothing but the head can be read: with the loss accepted
/// the zone is garbage, and the drive needs it.
async fn full_but_for_a_loss(rt: &Runtime) -> (MemoryDevice, ZoneId) {
    let device = SimDevice::new(rt, &formatted(drive()));
    let options = Options { pools: PoolSizes { gc: 1, data: 1, meta: 1 }, ..quiet() };
    let (store, _) = opened_with(rt, &device, options).await;
    ten_records(&store, 1).await;
    let [zone] = used_zones(&device).await[..] else { panic!("one chunk lies in one zone") };
    for number in 100.. {
        store.create(id(number), Stream::Data).await.unwrap();
        if store.append(id(number), 0, vec![Bytes::from(content(number, 0, 200_000))]).await.is_err() {
            break;
        }
    }
    (device.crash_image(1), zone)
}

fn lose_records(device: &SimDevice, zone: ZoneId) {
    (1..64).for_each(|block| lose(device, zone, block, None));
}

/// CS-REC-9: nothing of what is given up is reset before the drive says that it was given up.
#[test]
fn no_zone_is_reset_before_the_acceptance_of_its_loss_is_durable() {
    Sim::new(1).run(|rt| async move {
        let (medium, zone) = full_but_for_a_loss(&rt).await;
        let device = SimDevice::new(&rt, &medium);
        lose_records(&device, zone);
        let (_, seen) = opened(&rt, &device).await;
        let device = SimDevice::new(&rt, &medium);
        lose_records(&device, zone);
        let resets = resets_of(&device, zone);
        // A reset is quick, and the checkpoint takes seconds.
        device.set_latency(Duration::from_millis(1));
        let slow = |zone| FaultRule { trigger: Trigger::Zone(CommandKind::Write, ZoneId(zone)), fault: Fault::Slow };
        device.set_faults(Faults::new((1..=6).map(slow)));
        let (store, report) = opened_with(&rt, &device, accepting(&seen)).await;
        assert!(report.accepted, "{report:?}");
        assert_eq!(resets.get(), 0, "CS-REC-9: reset before the opening had ended");
        rt.sleep(Duration::from_secs(60)).await;
        assert_eq!((resets.get(), store.stat(id(1)).unwrap().size), (1, 0), "the case is not met");
    });
}

/// The metazones have no room for the checkpoint that settles a loss: the opening fails, nothing of it goes on, and nothing is given
/// up.
#[test]
fn an_opening_that_cannot_accept_a_loss_leaves_nothing_behind() {
    Sim::new(1).run(|rt| async move {
        let (medium, zone) = full_but_for_a_loss(&rt).await;
        let device = SimDevice::new(&rt, &medium);
        lose_records(&device, zone);
        let (_, seen) = opened(&rt, &device).await;
        let device = SimDevice::new(&rt, &medium);
        lose_records(&device, zone);
        for metazone in (1..=6).map(ZoneId).filter(|zone| device.image().zone(*zone).written == Blocks::ZERO) {
            device.medium().set_state(metazone, ZoneState::ReadOnly);
        }
        let error = ChunkStore::open(&rt, Rc::new(device.clone()), accepting(&seen)).await.map(drop).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Device, "{error}");
        let commands = || device.counts().commands;
        let before = commands();
        let resets = resets_of(&device, zone);
        rt.sleep(Duration::from_secs(600)).await;
        assert_eq!((commands(), resets.get()), (before, 0), "a store that did not open works");
        let healed = healed(&rt, &device);
        let (store, _) = opened(&rt, &healed).await;
        holds_ten(&store, &[]).await;
    });
}
