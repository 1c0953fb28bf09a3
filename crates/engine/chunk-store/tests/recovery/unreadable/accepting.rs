//! CS-REC-9: an opening that accepts a loss is the last to look at what it could not read.

use super::*;

fn accepting() -> Options {
    Options { accept_loss: true, ..quiet() }
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
        let (_, report) = opened(&rt, &device).await;
        assert!(report.hidden && !report.accepted && names(&report.damage, None, Some(zone)), "{report:?}");

        let device = SimDevice::new(&rt, &device.crash_image(1));
        spoil(&device);
        let (store, report) = opened_with(&rt, &device, accepting()).await;
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
            let (store, report) = opened_with(&rt, &device, accepting()).await;
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
        for options in [quiet(), accepting()] {
            let (store, report) = opened_with(&rt, &device, options.clone()).await;
            assert!(names(&report.damage, None, Some(zone)), "{report:?}");
            assert_eq!((report.hidden, report.accepted), (!options.accept_loss, options.accept_loss));
            assert_eq!(store.stat(id(1)).unwrap().size, 0);
            device = offline(&device.crash_image(2));
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
        let cuts = device.cut_at_every_command(1, Survival::Prefix);
        let (store, _) = opened_with(&rt, &device, accepting()).await;
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
