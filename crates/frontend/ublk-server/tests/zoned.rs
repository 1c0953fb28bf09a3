//! A zoned device behind the kernel's commands: the kernel's customs, the device's rules.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::FutureExt;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_runtime::real;
use shingle_ublk_server::{Backend, Done, Refused, ZonedDisk};
use shingle_zoned::{DeviceFuture, Geometry, MemoryDevice, ZoneInfo, ZoneOp, ZoneState, ZonedDevice};
use shingle_zoned_linux::{UBLK_ZONE_BYTES, UblkCommand};

const BLOCK: u64 = BLOCK_SIZE as u64;
/// Bytes of a zone; three quarters can be written.
const ZONE: u64 = 16 * BLOCK;

fn geometry() -> Geometry {
    Geometry { conventional_zones: 1, ..Geometry::zns(Blocks(16), Blocks(12), 6, 2, 3) }
}

fn stamped(blocks: u64, stamp: u8) -> Bytes {
    let mut buffer = AlignedBuf::zeroed(Blocks(blocks));
    buffer.fill(stamp);
    buffer.freeze()
}

struct Rig {
    device: Rc<MemoryDevice>,
    disk: ZonedDisk,
}

impl Rig {
    fn new(read_only: bool) -> Self {
        let device = Rc::new(MemoryDevice::new(geometry()));
        Self { disk: ZonedDisk::new(device.clone(), false, read_only), device }
    }

    async fn write(&self, at: u64, blocks: u64, stamp: u8) -> Result<Done, Refused> {
        let length = blocks * BLOCK;
        self.disk.execute(UblkCommand::Write { at, length, durable: false }, stamped(blocks, stamp)).await
    }

    async fn read(&self, at: u64, length: u64) -> Result<Vec<u8>, Refused> {
        let done = self.disk.execute(UblkCommand::Read { at, length }, Bytes::new()).await?;
        let Done::Data(pieces) = done else { panic!("a read gives bytes: {done:?}") };
        Ok(pieces.concat())
    }

    async fn run(&self, command: UblkCommand) -> Result<Done, Refused> {
        self.disk.execute(command, Bytes::new()).await
    }

    /// Start, pointer, kind, condition and capacity of the zones from byte `at`, in sectors.
    async fn report(&self, at: u64, zones: u32) -> Vec<(u64, u64, u8, u8, u64)> {
        let Ok(Done::Data(pieces)) = self.run(UblkCommand::Report { at, zones }).await else { panic!("no report") };
        let word = |zone: &[u8], at: usize| u64::from_ne_bytes(zone[at..at + 8].try_into().unwrap());
        let zone = |zone: &[u8]| (word(zone, 0), word(zone, 16), zone[24], zone[25], word(zone, 32));
        pieces.concat().chunks(UBLK_ZONE_BYTES).map(zone).collect()
    }
}

fn errno(result: Result<Done, Refused>) -> i32 {
    result.expect_err("it is refused").errno
}

/// UB-READ-1.
#[test]
fn reads_go_on_with_zeros_behind_the_write_pointer() {
    real::run(|_| async move {
        let rig = Rig::new(false);
        rig.write(ZONE, 3, 7).await.unwrap();
        rig.write(2 * ZONE, 12, 8).await.unwrap();
        let expected = |parts: &[(usize, u8)]| -> Vec<u8> {
            parts.iter().flat_map(|&(blocks, stamp)| vec![stamp; blocks * BLOCK_SIZE]).collect()
        };
        assert_eq!(rig.read(ZONE, 2 * BLOCK).await.unwrap(), expected(&[(2, 7)]));
        assert_eq!(rig.read(ZONE + BLOCK, 6 * BLOCK).await.unwrap(), expected(&[(2, 7), (4, 0)]));
        assert_eq!(rig.read(ZONE + 5 * BLOCK, BLOCK).await.unwrap(), expected(&[(1, 0)]));
        // Behind the capacity, and over the ends of zones.
        assert_eq!(rig.read(2 * ZONE + 11 * BLOCK, 4 * BLOCK).await.unwrap(), expected(&[(1, 8), (3, 0)]));
        let over = rig.read(ZONE + 2 * BLOCK, 20 * BLOCK).await.unwrap();
        assert_eq!(over, expected(&[(1, 7), (13, 0), (6, 8)]));
        let all = rig.read(0, 6 * ZONE).await.unwrap();
        assert_eq!(all, expected(&[(16, 0), (3, 7), (13, 0), (12, 8), (4, 0), (48, 0)]));
        // An unreadable block, an offline zone and a place behind the end are no zeros.
        rig.device.fail_reads(Lba(17), Blocks(1), None);
        assert_eq!(rig.read(ZONE, 3 * BLOCK).await.unwrap_err().errno, libc::ENODATA);
        rig.device.set_state(ZoneId(4), ZoneState::Offline);
        assert_eq!(rig.read(4 * ZONE, BLOCK).await.unwrap_err().errno, libc::EIO);
        assert_eq!(rig.read(6 * ZONE, BLOCK).await.unwrap_err().errno, libc::EIO);
        assert_eq!(rig.read(ZONE + 512, BLOCK).await.unwrap_err().errno, libc::EINVAL);
    })
    .unwrap();
}

/// UB-ACK-1.
#[test]
fn writes_keep_the_rules_and_appends_say_where_they_landed() {
    real::run(|_| async move {
        let rig = Rig::new(false);
        assert_eq!(rig.write(ZONE, 2, 1).await, Ok(Done::Plain));
        assert_eq!(errno(rig.write(ZONE, 2, 1).await), libc::EIO, "not at the write pointer");
        assert_eq!(errno(rig.write(ZONE + 2 * BLOCK, 11, 1).await), libc::EIO, "past the capacity");
        let append = |at| UblkCommand::Append { at, length: BLOCK, durable: true };
        let landed = rig.disk.execute(append(ZONE), stamped(1, 9)).await;
        assert_eq!(landed, Ok(Done::Appended((ZONE + 2 * BLOCK) / 512)));
        assert_eq!(
            errno(rig.disk.execute(append(ZONE + BLOCK), stamped(1, 9)).await),
            libc::EINVAL,
            "no zone begins there"
        );
        assert_eq!(errno(rig.disk.execute(append(0), stamped(1, 9)).await), libc::EIO, "a conventional zone");
        assert_eq!(rig.read(ZONE + 2 * BLOCK, BLOCK).await.unwrap(), vec![9; BLOCK_SIZE]);
        assert_eq!(rig.run(UblkCommand::Flush).await, Ok(Done::Plain));
        for unknown in [UblkCommand::Unknown, UblkCommand::Discard { at: 0, length: BLOCK }] {
            assert_eq!(errno(rig.run(unknown).await), libc::EOPNOTSUPP);
        }
    })
    .unwrap();
}

#[test]
fn zones_are_managed_within_the_limits_and_reported() {
    real::run(|_| async move {
        let rig = Rig::new(false);
        let open = |zone: u64| UblkCommand::Open { at: zone * ZONE };
        assert_eq!((rig.run(open(1)).await, rig.run(open(2)).await), (Ok(Done::Plain), Ok(Done::Plain)));
        assert_eq!(errno(rig.run(open(3)).await), libc::ETOOMANYREFS);
        rig.write(ZONE, 4, 1).await.unwrap();
        rig.write(2 * ZONE, 4, 1).await.unwrap();
        rig.run(UblkCommand::Close { at: ZONE }).await.unwrap();
        rig.run(UblkCommand::Close { at: 2 * ZONE }).await.unwrap();
        rig.write(3 * ZONE, 1, 1).await.unwrap();
        assert_eq!(errno(rig.run(open(4)).await), libc::EOVERFLOW);
        rig.run(UblkCommand::Finish { at: ZONE }).await.unwrap();
        let (length, capacity) = (ZONE / 512, 12 * 8);
        let zones = rig.report(0, 100).await;
        assert_eq!(zones.len(), 6);
        assert_eq!(zones[0], (0, length, 1, 0, length));
        assert_eq!(zones[1], (length, 2 * length, 2, 0xe, capacity));
        assert_eq!(zones[2], (2 * length, 2 * length + 32, 2, 4, capacity));
        assert_eq!(zones[3], (3 * length, 3 * length + 8, 2, 2, capacity));
        assert_eq!(rig.report(4 * ZONE, 1).await, [(4 * length, 4 * length, 2, 1, capacity)]);
        assert_eq!(
            rig.report(4 * ZONE + 5 * BLOCK + 512, 1).await,
            rig.report(4 * ZONE, 1).await,
            "a place in the zone"
        );
        rig.device.set_state(ZoneId(2), ZoneState::ReadOnly);
        rig.run(UblkCommand::Reset { at: ZONE }).await.unwrap();
        assert_eq!(rig.report(ZONE, 1).await[0].3, 1);
        rig.run(UblkCommand::ResetAll).await.unwrap();
        let states: Vec<u8> = rig.report(0, 6).await.into_iter().map(|zone| zone.3).collect();
        assert_eq!(states, [0, 1, 0xd, 1, 1, 1], "a zone that cannot be reset is left");
        assert_eq!(errno(rig.run(UblkCommand::Reset { at: 0 }).await), libc::EIO);
    })
    .unwrap();
}

#[test]
fn a_read_only_disk_changes_nothing() {
    real::run(|_| async move {
        let rig = Rig::new(true);
        rig.device.write_now(Lba(16), vec![stamped(1, 5)]).unwrap();
        assert_eq!(errno(rig.write(ZONE + BLOCK, 1, 1).await), libc::EROFS);
        for command in [UblkCommand::Reset { at: ZONE }, UblkCommand::ResetAll, UblkCommand::Finish { at: ZONE }] {
            assert_eq!(errno(rig.run(command).await), libc::EROFS);
        }
        assert_eq!(rig.read(ZONE, BLOCK).await.unwrap(), vec![5; BLOCK_SIZE]);
        assert_eq!(rig.report(ZONE, 1).await[0].3, 2);
        assert!(rig.disk.shape().unwrap().read_only);
    })
    .unwrap();
}

/// A device whose first zone for writes in order changes whenever a read of it was refused.
struct Restless {
    inner: MemoryDevice,
    change: fn(&MemoryDevice),
}

impl ZonedDevice for Restless {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }
    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.inner.report(first, count)
    }
    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        let read = self.inner.read(at, length);
        Box::pin(read.inspect(|done| {
            if done.is_err() {
                (self.change)(&self.inner);
            }
        }))
    }
    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        self.inner.write(at, data)
    }
    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        self.inner.append(zone, data)
    }
    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        self.inner.manage(zone, op)
    }
    fn flush(&self) -> DeviceFuture<'_, ()> {
        self.inner.flush()
    }
}

/// UB-READ-1, where the zone is written or emptied between two tries of a read.
#[test]
fn a_read_of_a_zone_that_changes_gives_bytes_that_were_there_or_zeros() {
    let found = |change: fn(&MemoryDevice)| {
        real::run(|_| async move {
            let inner = MemoryDevice::new(geometry());
            inner.write_now(Lba(16), vec![stamped(3, 7)]).unwrap();
            let disk = ZonedDisk::new(Rc::new(Restless { inner, change }), false, false);
            let done = disk.execute(UblkCommand::Read { at: ZONE, length: 6 * BLOCK }, Bytes::new()).await;
            let Ok(Done::Data(pieces)) = done else { panic!("{done:?}") };
            pieces.concat()
        })
        .unwrap()
    };
    let (seven, zeros) = (vec![7; 3 * BLOCK_SIZE], vec![0; 3 * BLOCK_SIZE]);
    let grown = found(|inner| inner.append_now(ZoneId(1), vec![stamped(1, 8)]).map(drop).unwrap());
    assert_eq!(grown, [seven, zeros.clone()].concat());
    let emptied = found(|inner| inner.manage_now(ZoneId(1), ZoneOp::Reset).unwrap());
    assert_eq!(emptied, [zeros.clone(), zeros].concat());
}

/// UB-READ-1: a read whose zone changes at each try fails; no bytes behind it move to its place.
#[test]
fn a_read_that_never_comes_to_an_end_fails_as_a_whole() {
    real::run(|_| async move {
        let geometry = Geometry { zone_size: Blocks(1024), zone_capacity: Blocks(1024), ..geometry() };
        let inner = MemoryDevice::new(geometry);
        inner.write_now(Lba(1024), vec![stamped(600, 7)]).unwrap();
        // Less is there at each try, but never so little as was found.
        let change = |inner: &MemoryDevice| {
            let left = inner.zone(ZoneId(1)).written.0.saturating_sub(2);
            inner.manage_now(ZoneId(1), ZoneOp::Reset).unwrap();
            inner.write_now(Lba(1024), vec![stamped(left, 7)]).unwrap();
        };
        let disk = ZonedDisk::new(Rc::new(Restless { inner, change }), false, false);
        let length = 700 * BLOCK;
        let done = disk.execute(UblkCommand::Read { at: 1024 * BLOCK, length }, Bytes::new()).await;
        match done {
            Ok(Done::Data(pieces)) => panic!("{} bytes of {length} came", pieces.concat().len()),
            done => assert_eq!(errno(done), libc::EIO),
        }
    })
    .unwrap();
}
