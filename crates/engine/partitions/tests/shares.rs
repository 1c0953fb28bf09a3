//! PT-TABLE-4: partitions of a drive whose limits change after it was divided.

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

/// PT-TABLE-4: what is made beside a partition leaves it as it is, whatever limits the drive tells of by then.
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
