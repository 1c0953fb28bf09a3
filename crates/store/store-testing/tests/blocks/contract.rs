//! The block stores for tests keep the contract, and a store that stops dropped calls does not.

use std::cell::RefCell;
use std::rc::Rc;

use shingle_sim::Sim;
use shingle_store_api::BlockStore;
use shingle_store_testing::blocks::MemoryBlocks;
use shingle_store_testing::blocks::contract::{self, BYTES_MIN, BlockCase};

use crate::disk::{Contents, Defect, Disk};

fn in_memory(case: BlockCase, sector_bytes: u64) {
    Sim::new(1).run(move |rt| case(rt, Rc::new(MemoryBlocks::new(BYTES_MIN, sector_bytes))));
}

fn on_disk(case: BlockCase, sector_bytes: u64, defect: Option<Defect>) {
    Sim::new(2).run(move |rt| {
        let contents = Rc::new(RefCell::new(Contents::default()));
        let store: Rc<dyn BlockStore> =
            Rc::new(Disk::new(&rt, (BYTES_MIN / sector_bytes, sector_bytes), contents, defect));
        case(rt, store)
    });
}

mod memory {
    shingle_store_testing::block_contract_tests!(super::in_memory);
}

mod slow {
    fn run(case: super::BlockCase, sector_bytes: u64) {
        super::on_disk(case, sector_bytes, None);
    }

    shingle_store_testing::block_contract_tests!(run);
}

#[test]
#[should_panic(expected = "whose future was dropped did not happen")]
fn a_store_that_stops_dropped_calls_fails() {
    let case: BlockCase = |rt, store| Box::pin(contract::a_change_whose_future_is_dropped_happens(rt, store));
    on_disk(case, 4096, Some(Defect::StopsWhenDropped));
}
