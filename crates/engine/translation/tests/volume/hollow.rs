//! A volume on a drive that keeps no data: the map is that of a drive that does, after a close and after a kill.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_sim::{Random, Sim, SimDevice};
use shingle_store_api::{BlockStore, Durability, MappedRun};
use shingle_translation::{FormatOptions, Options, Volume};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

/// A map: extents, sectors, and runs.
type Seen = (u64, u64, Vec<MappedRun>);

/// A volume that is written, closed, opened, written and killed; all runs of its map, as seen before and after each end, and the
/// bytes that its drive holds.
fn lives(medium: MemoryDevice) -> (Vec<Seen>, u64) {
    Sim::new(5).run(move |rt| async move {
        let mut random = Random::new(5);
        let mut sim = SimDevice::new(&rt, &medium);
        let mut device: Rc<dyn ZonedDevice> = Rc::new(sim.clone());
        Volume::format(&rt, device.clone(), FormatOptions::default()).await.unwrap();
        let (mut volume, _) = Volume::open(&rt, device.clone(), Options::default()).await.unwrap();
        let size = volume.size_bytes();
        let mut seen = Vec::new();
        let ones = Bytes::from(vec![1; 1 << 20]);
        for closes in [true, false] {
            for _ in 0..600 {
                let length = 4096 * (1 + random.below(64));
                let offset = random.below((size - length) / 4096) * 4096;
                if random.chance(0.2) {
                    volume.trim(offset, length).await.unwrap();
                }
                let offset = random.below((size - length) / 4096) * 4096;
                volume.write(offset, vec![ones.slice(..length as usize)], Durability::Cached).await.unwrap();
            }
            assert_eq!(volume.read(0, size).await.unwrap().len() as u64, size);
            assert!(volume.stats().counters.sectors_copied > 0, "zones are cleaned, too");
            // Copies that are under way may join extents, or part them.
            rt.sleep(std::time::Duration::from_secs(5)).await;
            seen.push(map_of(&volume).await);
            if closes {
                volume.close().await.unwrap();
            } else {
                drop(volume);
            }
            sim = SimDevice::resume(&rt, sim.kill());
            device = Rc::new(sim.clone());
            let (again, report) = Volume::open(&rt, device.clone(), Options::default()).await.unwrap();
            assert!(report.unknown.is_empty() && report.damaged.is_empty() && report.sectors_lost == 0, "{report:?}");
            seen.push(map_of(&again).await);
            volume = again;
        }
        (seen, sim.image().held_bytes())
    })
}

async fn map_of(volume: &Volume) -> Seen {
    let stats = volume.stats();
    let runs = volume.mapped(0, volume.size_bytes(), usize::MAX).await.unwrap();
    (stats.extents, stats.sectors_mapped, runs)
}

#[test]
fn the_map_is_the_same_on_a_drive_that_keeps_no_data() {
    let geometry = Geometry::hm_smr(Blocks(300), 24, 0, 8);
    let (whole, all) = lives(MemoryDevice::new(geometry.clone()));
    let (hollow, few) = lives(MemoryDevice::metadata_only(geometry, shingle_record::keep_metadata));
    assert!(whole[0] == whole[1] && whole[2] == whole[3], "an opening finds all");
    assert!(hollow == whole, "and no less of a hollow one");
    assert!(few * 2 < all, "{few} bytes are held, and {all}");
}
