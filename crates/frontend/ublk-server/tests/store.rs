//! A block store behind the kernel's commands keeps the contract of block stores.

use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use shingle_runtime::real;
use shingle_store_api::{BlockStore, Durability, LocalStoreFuture, StoreError, StoreErrorKind, StoreResult};
use shingle_store_testing::blocks::MemoryBlocks;
use shingle_store_testing::blocks::contract::{BYTES_MIN, BlockCase};
use shingle_ublk_server::{Backend, Done, StoreDisk};
use shingle_zoned_linux::UblkCommand;

struct Core {
    blocks: MemoryBlocks,
}

impl Core {
    fn store(&self) -> &dyn BlockStore {
        &self.blocks
    }
}

/// A block store whose calls are the kernel's commands on a disk of another one.
struct ByCommands {
    core: Rc<Core>,
    disk: Box<dyn Backend>,
    /// Zeros that are asked for are to take their room.
    filled: bool,
}

impl ByCommands {
    fn new(sector_bytes: u64, filled: bool, read_only: bool) -> Self {
        let core = Rc::new(Core { blocks: MemoryBlocks::new(BYTES_MIN, sector_bytes) });
        let disk = Box::new(StoreDisk::new(core.clone(), Core::store, false, read_only));
        Self { core, disk, filled }
    }

    fn run(&self, command: UblkCommand, data: Vec<Bytes>) -> LocalStoreFuture<'_, Done> {
        let mut joined = BytesMut::new();
        data.iter().for_each(|piece| joined.extend_from_slice(piece));
        let done = self.disk.execute(command, joined.freeze());
        let kind = |errno| if errno == libc::EINVAL { StoreErrorKind::Invalid } else { StoreErrorKind::Device };
        done.map(move |done| done.map_err(|refused| StoreError::new(kind(refused.errno), refused.message)))
            .boxed_local()
    }

    fn plain(&self, command: UblkCommand, data: Vec<Bytes>) -> LocalStoreFuture<'_, ()> {
        let plain = |done: StoreResult<Done>| done.map(|done| assert_eq!(done, Done::Plain));
        self.run(command, data).map(plain).boxed_local()
    }
}

impl BlockStore for ByCommands {
    fn size_bytes(&self) -> u64 {
        self.disk.shape().unwrap().size_bytes
    }

    fn sector_bytes(&self) -> u64 {
        self.disk.shape().unwrap().block_bytes.into()
    }

    fn read(&self, at: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        let joined = |done| match done {
            Done::Data(pieces) => Bytes::from(pieces.concat()),
            other => panic!("a read gives bytes: {other:?}"),
        };
        self.run(UblkCommand::Read { at, length }, Vec::new()).map(move |done| done.map(joined)).boxed_local()
    }

    fn write(&self, at: u64, data: Vec<Bytes>, durability: Durability) -> LocalStoreFuture<'_, ()> {
        let length = data.iter().map(|piece| piece.len() as u64).sum();
        self.plain(UblkCommand::Write { at, length, durable: durability == Durability::Durable }, data)
    }

    fn flush(&self) -> LocalStoreFuture<'_, ()> {
        self.plain(UblkCommand::Flush, Vec::new())
    }

    fn trim(&self, at: u64, length: u64) -> LocalStoreFuture<'_, ()> {
        self.plain(UblkCommand::Discard { at, length }, Vec::new())
    }

    fn write_zeros(&self, at: u64, length: u64, durability: Durability) -> LocalStoreFuture<'_, ()> {
        let durable = durability == Durability::Durable;
        self.plain(UblkCommand::WriteZeros { at, length, durable, filled: self.filled }, Vec::new())
    }
}

fn run(case: BlockCase, sector_bytes: u64) {
    real::run(|rt| async move { case(rt.clone(), Rc::new(ByCommands::new(sector_bytes, false, false))).await })
        .unwrap();
}

shingle_store_testing::block_contract_tests!(run);

#[test]
fn zeros_that_take_their_room_are_written_in_parts() {
    real::run(|_| async move {
        let store = ByCommands::new(4096, true, false);
        let length = BYTES_MIN - 8192;
        store.write(0, vec![Bytes::from(vec![7; BYTES_MIN as usize])], Durability::Cached).await.unwrap();
        store.write_zeros(4096, length, Durability::Durable).await.unwrap();
        let found = store.core.blocks.read(0, BYTES_MIN).await.unwrap();
        let (first, rest) = found.split_at(4096);
        let (zeros, last) = rest.split_at(length as usize);
        assert!(first.iter().chain(last).all(|&byte| byte == 7) && zeros.iter().all(|&byte| byte == 0));
    })
    .unwrap();
}

#[test]
fn a_read_only_disk_changes_nothing() {
    real::run(|_| async move {
        let store = ByCommands::new(512, false, true);
        store.core.blocks.write(0, vec![Bytes::from(vec![3; 512])], Durability::Cached).await.unwrap();
        let writes = [
            UblkCommand::Write { at: 0, length: 512, durable: false },
            UblkCommand::Discard { at: 0, length: 512 },
            UblkCommand::WriteZeros { at: 0, length: 512, durable: false, filled: true },
        ];
        for command in writes {
            let refused = store.disk.execute(command, Bytes::from(vec![9; 512])).await.unwrap_err();
            assert_eq!(refused.errno, libc::EROFS);
        }
        assert_eq!(store.read(0, 512).await.unwrap(), vec![3; 512]);
        assert!(!store.disk.shape().unwrap().discard);
        for zoned in [UblkCommand::ResetAll, UblkCommand::Report { at: 0, zones: 1 }, UblkCommand::Unknown] {
            assert!(store.disk.execute(zoned, Bytes::new()).await.is_err());
        }
    })
    .unwrap();
}
