//! The contract of a block store, on a disk and on an SSD.

use std::rc::Rc;

use shingle_base::Blocks;
use shingle_sim::{Sim, SimDevice};
use shingle_store_testing::blocks::contract::{BYTES_MIN, BlockCase};
use shingle_translation::{FormatOptions, Options, Volume};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

fn on(geometry: Geometry, case: BlockCase, sector_bytes: u64) {
    Sim::new(3).run(move |rt| async move {
        let device: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &MemoryDevice::new(geometry)));
        let options = FormatOptions { sector_bytes, size_bytes: Some(BYTES_MIN), ..FormatOptions::default() };
        Volume::format(&rt, device.clone(), options).await.expect("the drive takes a volume");
        let (volume, _) = Volume::open(&rt, device, Options::default()).await.expect("the volume opens");
        case(rt, Rc::new(volume)).await;
    });
}

mod disk {
    fn run(case: super::BlockCase, sector_bytes: u64) {
        super::on(super::Geometry::hm_smr(super::Blocks(300), 40, 0, 8), case, sector_bytes);
    }

    shingle_store_testing::block_contract_tests!(run);
}

mod ssd {
    fn run(case: super::BlockCase, sector_bytes: u64) {
        super::on(super::Geometry::zns(super::Blocks(128), super::Blocks(100), 90, 6, 6), case, sector_bytes);
    }

    shingle_store_testing::block_contract_tests!(run);
}
