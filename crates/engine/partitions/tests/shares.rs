//! PT-TABLE-4, PT-PLAN-2: partitions of a drive whose limits change after it was divided.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks, Lba, ZoneId};
use shingle_partitions::{PartitionTable, Wanted};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_zoned::{Geometry, MemoryDevice, Share, ZonedDevice};

fn shared(device: &SimDevice) -> Rc<dyn ZonedDevice> {
    Rc::new(device.clone())
}

fn started(rt: &Runtime, medium: &MemoryDevice) -> SimDevice {
    let device = SimDevice::new(rt, medium);
    device.set_latency(Duration::ZERO);
    device
}

fn wanted(name: &str, zones: u32, open: Option<u32>) -> Wanted {
    Wanted { name: name.to_owned(), zones: Some(zones), share: Share { open_zones_max: open, active_zones_max: None } }
}

fn block(byte: u8) -> Vec<Bytes> {
    let mut block = AlignedBuf::zeroed(Blocks(1));
    block.fill(byte);
    vec![block.freeze()]
}

/// A drive with these limits, and the partitions on it, each with a block of its number in its first zone.
async fn divided(rt: &Runtime, limits: (Option<u32>, Option<u32>), parts: &[Wanted]) -> MemoryDevice {
    let geometry = Geometry::hm_smr(Blocks(64), 40, 0, 8);
    let geometry = Geometry { open_zones_max: limits.0, active_zones_max: limits.1, ..geometry };
    let device = started(rt, &MemoryDevice::new(geometry));
    PartitionTable::format(rt, &shared(&device), false).await.expect("the drive takes partitions");
    let mut table = PartitionTable::open(rt, &shared(&device)).await.expect("the table opens");
    table.add(rt, parts).await.expect("there is room");
    for (number, part) in parts.iter().enumerate() {
        let view = table.view(&part.name).await.expect("it is there");
        view.write(Lba(0), block(number as u8 + 1)).await.expect("a partition is written");
    }
    device.image()
}

/// PT-TABLE-4: an addition leaves partitions as they are, whatever limits the drive tells of by then.
#[test]
fn an_addition_keeps_partitions_that_are_there_whatever_the_limits_are_now() {
    for seed in seeds(20) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let limits = [(20, 24), (25, 30)]
                .map(|(least, most)| random.chance(0.7).then(|| random.between(least, most) as u32));
            let limits = (limits[0], limits[1]);
            let parts = [wanted("a", 6, None), wanted("b", 6, None)];
            let medium = divided(&rt, limits, &parts).await;
            for (open, active) in [(None, None), (None, limits.1), (limits.0, None), limits] {
                let context = format!("seed {seed}, limits {limits:?}, then {:?}", (open, active));
                let device = started(&rt, &medium.with_limits(open, active));
                let mut table = PartitionTable::open(&rt, &shared(&device)).await.unwrap();
                let before = table.partitions();
                table.add(&rt, &[wanted("c", 4, None)]).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                let after = PartitionTable::open(&rt, &shared(&device)).await.unwrap();
                assert_eq!(after.partitions()[..2], before, "{context}");
                assert_eq!(after.partitions().len(), 3, "{context}");
                for (number, part) in parts.iter().enumerate() {
                    let view = after.view(&part.name).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                    let written = view.report(ZoneId(0), 1).await.unwrap()[0].written;
                    assert_eq!(written, Blocks(1), "{context}: what `{}` holds is lost", part.name);
                    assert!(view.read(Lba(0), Blocks(1)).await.unwrap().iter().all(|&byte| byte == number as u8 + 1));
                }
            }
        });
    }
}

/// PT-PLAN-2: partitions have no more of the limits than the drive has, and as much as the table says if that is not too much.
#[test]
fn shares_fit_the_limits_that_the_drive_has_now() {
    let (mut refused, mut lower, mut kept) = (0, 0, 0);
    for seed in seeds(100) {
        let of_seed = Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let limits = |random: &mut Random, least| {
                let open = random.between(least, 40) as u32;
                let active = random.chance(0.6).then(|| open + random.below(10) as u32);
                (random.chance(0.8).then_some(open), active)
            };
            let count = random.between(1, 5) as u32;
            let parts: Vec<_> = (0..count).map(|number| wanted(&format!("p{number}"), 5, None)).collect();
            let before = limits(&mut random, 12);
            let medium = divided(&rt, before, &parts).await;
            let (mut refused, mut lower, mut kept) = (0, 0, 0);
            for _ in 0..5 {
                let now = limits(&mut random, 3);
                let context = format!("seed {seed}, {count} partitions, limits {before:?}, then {now:?}");
                let device = started(&rt, &medium.with_limits(now.0, now.1));
                let table = PartitionTable::open(&rt, &shared(&device)).await.unwrap();
                let mut views = Vec::new();
                for part in table.partitions() {
                    match table.view(&part.name).await {
                        Ok(view) => views.push((part, view)),
                        Err(error) => {
                            let few = [now.0, now.1].into_iter().flatten().any(|limit| limit < count + 2);
                            assert!(few && error.message.contains("remove one"), "{context}: {error}");
                            refused += 1;
                        }
                    }
                }
                if views.is_empty() {
                    continue;
                }
                assert_eq!(views.len(), count as usize, "{context}: some are refused");
                let given: Vec<_> = views.iter().map(|(_, view)| view.geometry().clone()).collect();
                type Part = fn(&Geometry) -> Option<u32>;
                let all: [(Option<u32>, Part); 2] =
                    [(now.0, |given| given.open_zones_max), (now.1, |given| given.active_zones_max)];
                for (limit, part) in all.into_iter().filter_map(|(limit, part)| Some((limit?, part))) {
                    let sum: u32 = given.iter().map(|given| part(given).expect("there is a limit")).sum();
                    assert!(sum + 2 <= limit, "{context}: {sum} zones and two of the table");
                }
                let same = views.iter().all(|(part, view)| part.share.open_zones_max == view.geometry().open_zones_max);
                let fewer =
                    |now: Option<u32>, before: Option<u32>| now.is_some_and(|now| before.is_none_or(|b| now < b));
                if !fewer(now.0, before.0) && !fewer(now.1, before.1) {
                    assert!(same, "{context}: {given:?}");
                    kept += 1;
                } else {
                    lower += u32::from(!same);
                }
                // Each uses all of its part, and none is refused by the drive.
                for zone in 0..5 {
                    for (part, view) in &views {
                        let active = view.geometry().active_zones_max.or(view.geometry().open_zones_max).unwrap_or(5);
                        if zone > 0 && zone < active {
                            let at = view.geometry().start_of(ZoneId(zone));
                            let written = view.write(at, block(9)).await;
                            written.unwrap_or_else(|error| panic!("{context}, `{}`: {error}", part.name));
                        }
                    }
                }
            }
            (refused, lower, kept)
        });
        (refused, lower, kept) = (refused + of_seed.0, lower + of_seed.1, kept + of_seed.2);
    }
    let one = std::env::var_os("SHINGLE_SEED").is_some();
    assert!(one || (refused > 0 && lower > 10 && kept > 10), "{refused} refused, {lower} lower, {kept} kept");
}
