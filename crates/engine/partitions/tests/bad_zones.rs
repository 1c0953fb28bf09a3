//! PT-TABLE-3, PT-PLAN-3, PT-ZONE-1: partitions on drives some of whose zones can be written no more, or will not be reset.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks, Lba, StoreId, ZoneId};
use shingle_partitions::{PartitionTable, Wanted};
use shingle_record::{Superblock, read_superblock, write_superblock_pair};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_store_api::StoreErrorKind;
use shingle_zoned::{Geometry, MemoryDevice, ZoneState, ZonedDevice};

const ZONES: u32 = 6;

fn shared(device: &SimDevice) -> Rc<dyn ZonedDevice> {
    Rc::new(device.clone())
}

fn wanted(name: &str, zones: u32) -> Wanted {
    Wanted { name: name.to_owned(), zones: Some(zones), ..Wanted::default() }
}

fn superblock(store: u64) -> Superblock {
    let formatted = shingle_runtime::UnixTime { nanos: 1 };
    Superblock { store: StoreId(store), engine: 7, version: 1, formatted, payload: Bytes::new() }
}

async fn view(table: &PartitionTable, name: &str) -> Rc<dyn ZonedDevice> {
    Rc::new(table.view(name).await.expect("it is there"))
}

/// A drive whose partition `a` has a store with two zones of superblocks, and a block in each other zone.
async fn divided(rt: &Runtime, random: &mut Random) -> (SimDevice, PartitionTable) {
    let cached = random.chance(0.5);
    let geometry = Geometry { volatile_cache: cached, ..Geometry::hm_smr(Blocks(64), 40, 0, 30) };
    let device = SimDevice::new(rt, &MemoryDevice::new(geometry));
    device.set_latency(Duration::ZERO);
    PartitionTable::format(rt, &shared(&device), false).await.expect("the drive takes partitions");
    let mut table = PartitionTable::open(rt, &shared(&device)).await.expect("the table opens");
    table.add(rt, &[wanted("a", ZONES)]).await.expect("there is room");
    let part = view(&table, "a").await;
    write_superblock_pair(&part, ZoneId(0), &superblock(1)).await.expect("a store is made");
    for zone in 2..ZONES {
        let at = part.geometry().start_of(ZoneId(zone));
        part.write(at, vec![AlignedBuf::zeroed(Blocks(1)).freeze()]).await.expect("it is written");
    }
    (device, table)
}

fn unresettable(zones: impl IntoIterator<Item = u32>) -> Faults {
    let rule =
        |zone| FaultRule { trigger: Trigger::Zone(CommandKind::Reset, ZoneId(zone)), fault: Fault::CommandError };
    Faults::new(zones.into_iter().map(rule))
}

/// A partition holds no former store, and takes a new one.
async fn is_fresh(part: Rc<dyn ZonedDevice>, context: &str) {
    let found = read_superblock(&part, ZoneId(0)).await;
    assert!(found.is_err(), "{context}: {found:?} is a former store's");
    let written = write_superblock_pair(&part, ZoneId(0), &superblock(2)).await;
    let written = written.unwrap_or_else(|error| panic!("{context}: no store can be made: {error}"));
    let wanted = part.geometry().zone_count.min(2) as usize;
    assert_eq!(written.len(), wanted, "{context}: one zone of superblocks has to do");
    assert_eq!(read_superblock(&part, ZoneId(0)).await.unwrap().store, StoreId(2), "{context}");
}

/// PT-TABLE-3, PT-PLAN-3.
#[test]
fn a_partition_does_not_begin_with_what_a_former_store_left_in_zones_that_failed() {
    for seed in seeds(40) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let (device, mut table) = divided(&rt, &mut random).await;
            let start = table.partitions()[0].zones.start;
            let dead: Vec<u32> = (0..ZONES).filter(|_| random.chance(0.4)).collect();
            for zone in &dead {
                let state = if random.chance(0.7) { ZoneState::ReadOnly } else { ZoneState::Offline };
                device.medium().set_state(ZoneId(start + zone), state);
            }
            let count = random.between(1, 10) as u32;
            let context = format!("seed {seed}, zones {dead:?} of the former, {count} zones");
            table.remove("a").await.unwrap_or_else(|error| panic!("{context}: {error}"));
            table.add(&rt, &[wanted("b", count)]).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            is_fresh(view(&table, "b").await, &context).await;
        });
    }
}

/// PT-ZONE-1, PT-TABLE-3.
#[test]
fn zones_that_are_not_reset_keep_no_partition_from_coming_or_going() {
    for seed in seeds(40) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let (device, mut table) = divided(&rt, &mut random).await;
            let zones = table.partitions()[0].zones.clone();
            let stuck: Vec<u32> = zones.clone().filter(|_| random.chance(0.3)).collect();
            let context = format!("seed {seed}, stuck zones {stuck:?} of {zones:?}");
            device.set_faults(unresettable(stuck.iter().copied()));
            let kept = table.remove("a").await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(kept, stuck, "{context}");
            assert_eq!(table.partitions(), [], "{context}");
            for info in device.report(ZoneId(zones.start), ZONES).await.unwrap() {
                let expected = if stuck.contains(&info.zone.0) { ZoneState::Full } else { ZoneState::Empty };
                assert_eq!(info.state, expected, "{context}: {}", info.zone);
            }
            let count = random.between(1, 10) as u32;
            table.add(&rt, &[wanted("b", count)]).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            let part = table.partitions()[0].zones.clone();
            assert!(stuck.iter().all(|zone| !part.contains(zone)), "{context}: {part:?} has one of them");
            is_fresh(view(&table, "b").await, &context).await;
            // Those that are reset again are of use again.
            device.set_faults(Faults::default());
            table.remove("b").await.unwrap();
            table.add(&rt, &[wanted("c", 34)]).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            is_fresh(view(&table, "c").await, &context).await;
        });
    }
}

/// A zone that fails with its very reset is as one that had failed before.
#[test]
fn a_zone_may_fail_while_it_is_emptied() {
    for seed in seeds(40) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let (device, mut table) = divided(&rt, &mut random).await;
            let zones = table.partitions()[0].zones.clone();
            let failing: Vec<u32> = zones.clone().filter(|_| random.chance(0.3)).collect();
            let context = format!("seed {seed}, zones {failing:?} of {zones:?} fail");
            let rule = |&zone: &u32| FaultRule {
                trigger: Trigger::Zone(CommandKind::Reset, ZoneId(zone)),
                fault: Fault::ZoneReadOnly,
            };
            device.set_faults(Faults::new(failing.iter().map(rule)));
            let kept = table.remove("a").await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(kept, failing, "{context}");
            table.add(&rt, &[wanted("b", ZONES)]).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            is_fresh(view(&table, "b").await, &context).await;
        });
    }
}

/// A drive that resets nothing is ill, and not its zones: the partition stays until it does.
#[test]
fn a_drive_that_resets_nothing_keeps_its_partitions() {
    Sim::new(1).run(|rt| async move {
        let (device, mut table) = divided(&rt, &mut Random::new(1)).await;
        table.add(&rt, &[wanted("large", 25)]).await.unwrap();
        let part = view(&table, "large").await;
        for zone in 0..25 {
            let at = part.geometry().start_of(ZoneId(zone));
            part.write(at, vec![AlignedBuf::zeroed(Blocks(1)).freeze()]).await.unwrap();
        }
        device.set_faults(unresettable(0..40));
        assert_eq!(table.remove("large").await.unwrap_err().kind, StoreErrorKind::Device);
        assert_eq!(table.partitions().len(), 2);
        assert_eq!(part.read(Lba(0), Blocks(1)).await.unwrap().len(), 4096);
        device.set_faults(Faults::default());
        assert_eq!(table.remove("large").await.unwrap(), [0; 0]);
    });
}
