//! The kernel's block layer between a store and its drive, as far as it costs time.
//!
//! **Owns** the order of commands between a program's calls and the drive.
//! **Knows nothing of** what a program writes.
//!
//! # Invariants
//! - LAB-HOST-1: commands get to the drive's queue in the order of the calls, however long the program's thread is busy meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::{BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_runtime::Work;
use shingle_sim::Runtimes;
use shingle_zoned::{DeviceFuture, DeviceResult, Geometry, ZoneInfo, ZoneOp, ZonedDevice};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

/// Limits and order of commands of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: &'static str,
    /// The longest command: longer ones are cut.
    pub command_max: Blocks,
    /// Only one write is outstanding in a sequential zone: Linux keeps the order of writes to a zone so, by the zone
    /// write lock of mq-deadline (4.10 to 6.9) or by zone write plugs (since 6.10).
    pub zone_lock: bool,
    /// Commands that it has outstanding at a drive, at most; more wait in it. `None`: as many as the drive takes.
    pub queue_max: Option<u32>,
}

impl Host {
    /// Linux 4.19, which SMRstore's servers ran (Table 2): direct I/O is cut at 256 pages.
    pub const fn linux_4_19() -> Self {
        Self { name: "Linux 4.19", command_max: Blocks(256), zone_lock: true, queue_max: None }
    }

    /// Linux 4.18, which the dissertation's machine ran (section 5.5.1): I/Os to disks are cut at 512 KiB (section 5.5.3).
    pub const fn linux_4_18() -> Self {
        Self { name: "Linux 4.18", command_max: Blocks(128), zone_lock: true, queue_max: None }
    }

    /// Linux since 6.10, with `max_sectors_kb` raised to 8 MiB (SATA drives take up to 32 MiB in a command).
    pub const fn linux_6_10() -> Self {
        Self { name: "Linux 6.10", command_max: Blocks(2048), zone_lock: true, queue_max: None }
    }

    /// The same with `queue_depth` set to 1: the drive orders nothing.
    pub const fn one_at_a_time() -> Self {
        Self { name: "Linux 6.10, queue depth 1", queue_max: Some(1), ..Self::linux_6_10() }
    }

    /// The kernels behind which stores are compared: the papers' and one of today.
    pub const KERNELS: [Self; 2] = [Self::linux_4_19(), Self::linux_6_10()];

    /// Permits of commands at a drive.
    pub(crate) fn permits(&self) -> Semaphore {
        Semaphore::new(self.queue_max.map_or(Semaphore::MAX_PERMITS, |most| most.max(1) as usize))
    }
}

/// A device behind a host.
pub struct HostDevice {
    host: Host,
    device: Rc<dyn ZonedDevice>,
    locks: RefCell<BTreeMap<ZoneId, Rc<Mutex<()>>>>,
    queue: Semaphore,
    /// The program and the drive, if the program's work takes time.
    runtimes: Option<Runtimes>,
    /// Calls that wait for the program's thread to get to them, in order.
    issuing: Mutex<()>,
    /// Blocks of all writes so far, and those that the drive pads in zones that are finished.
    written: Cell<u64>,
    /// Blocks of each zone that were written since it was last reset.
    filled: RefCell<BTreeMap<ZoneId, u64>>,
}

impl HostDevice {
    /// `device`, for a program on `host`.
    pub fn new(host: Host, device: Rc<dyn ZonedDevice>) -> Rc<Self> {
        Rc::new(Self::with(host, device, None))
    }

    /// The same for a program whose work takes time: it issues a command once it has done what comes before, and checks or
    /// frames all bytes of it once.
    pub fn of_program(runtimes: &Runtimes, host: Host, device: Rc<dyn ZonedDevice>) -> Rc<Self> {
        Rc::new(Self::with(host, device, Some(runtimes.clone())))
    }

    fn with(host: Host, device: Rc<dyn ZonedDevice>, runtimes: Option<Runtimes>) -> Self {
        let (locks, issuing, written) = (RefCell::default(), Mutex::default(), Cell::new(0));
        Self { host, device, locks, queue: host.permits(), runtimes, issuing, written, filled: RefCell::default() }
    }

    /// Blocks that were written to the drive, and those with which an SSD pads zones that are finished early (exactly, if all zones
    /// were empty when this host began).
    pub fn written_blocks(&self) -> u64 {
        self.written.get()
    }

    fn count(&self, zone: ZoneId, data: &[Bytes]) {
        let blocks = bytes_of(data) / BLOCK_SIZE as u64;
        self.written.set(self.written.get() + blocks);
        *self.filled.borrow_mut().entry(zone).or_default() += blocks;
    }

    fn count_managed(&self, zone: ZoneId, op: ZoneOp) {
        let mut filled = self.filled.borrow_mut();
        match op {
            ZoneOp::Reset => {
                filled.remove(&zone);
            }
            // An SSD pads a zone that it finishes, and only SSDs limit active zones; a disk writes nothing.
            ZoneOp::Finish if self.geometry().active_zones_max.is_some() => {
                let capacity = self.geometry().zone_capacity.0;
                let before = filled.insert(zone, capacity).unwrap_or(0);
                self.written.set(self.written.get() + capacity.saturating_sub(before));
            }
            ZoneOp::Open | ZoneOp::Close | ZoneOp::Finish => {}
        }
    }

    /// The program gets here, having worked on so many bytes.
    async fn issued(&self, bytes: u64) {
        if let Some(runtimes) = &self.runtimes {
            runtimes.program.worked(Work::Byte, bytes);
            let done = runtimes.program.now();
            // Calls that a busy thread puts off are free at once, and any of them might go first (LAB-HOST-1).
            let _turn = self.issuing.lock().await;
            let now = runtimes.hardware.now();
            if done > now {
                runtimes.hardware.sleep(done.since(now)).await;
            }
        }
    }

    /// The program has bytes to check.
    fn checked(&self, bytes: u64) {
        if let Some(runtimes) = &self.runtimes {
            runtimes.program.worked(Work::Byte, bytes);
        }
    }

    /// A place in the drive's queue. The queue is never closed, so that there is one in the end.
    async fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.queue.acquire().await.ok()
    }

    async fn write_now(&self, at: Lba, data: Vec<Bytes>) -> DeviceResult<()> {
        let _place = self.place().await;
        self.device.write(at, data).await
    }

    async fn read_now(&self, at: Lba, length: Blocks) -> DeviceResult<Bytes> {
        let _place = self.place().await;
        self.device.read(at, length).await
    }

    async fn write_cut(&self, at: Lba, data: Vec<Bytes>) -> DeviceResult<()> {
        let zone = self.geometry().zone_of(at).unwrap_or_default();
        let mut commands = cut(at, data, self.host.command_max);
        if !self.host.zone_lock || self.geometry().is_conventional(zone) {
            let done = join_all(commands.into_iter().map(|(at, data)| self.write_now(at, data))).await;
            return done.into_iter().collect();
        }
        let lock = self.locks.borrow_mut().entry(zone).or_default().clone();
        let _held = lock.lock().await;
        for (at, data) in commands.drain(..) {
            self.write_now(at, data).await?;
        }
        Ok(())
    }

    async fn read_cut(&self, at: Lba, length: Blocks) -> DeviceResult<Bytes> {
        if length <= self.host.command_max {
            return self.read_now(at, length).await;
        }
        let mut parts = Vec::new();
        let mut done = Blocks::ZERO;
        while done < length {
            let part = self.host.command_max.min(length - done);
            parts.push(self.read_now(at + done, part));
            done += part;
        }
        let parts = join_all(parts).await.into_iter().collect::<DeviceResult<Vec<Bytes>>>()?;
        Ok(parts.concat().into())
    }
}

fn bytes_of(data: &[Bytes]) -> u64 {
    data.iter().map(|piece| piece.len() as u64).sum()
}

/// Cuts a write into commands of at most `most` blocks.
fn cut(at: Lba, data: Vec<Bytes>, most: Blocks) -> Vec<(Lba, Vec<Bytes>)> {
    let (mut commands, mut pieces, mut length, mut start) = (Vec::new(), Vec::new(), Blocks::ZERO, at);
    for mut piece in data {
        while !piece.is_empty() {
            let take = piece.len().min((most - length).bytes() as usize);
            pieces.push(piece.split_to(take));
            length += Blocks((take / BLOCK_SIZE) as u64);
            if length == most {
                commands.push((start, std::mem::take(&mut pieces)));
                start = start + length;
                length = Blocks::ZERO;
            }
        }
    }
    if !pieces.is_empty() {
        commands.push((start, pieces));
    }
    commands
}

impl ZonedDevice for HostDevice {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.device.report(first, count)
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        Box::pin(async move {
            self.issued(0).await;
            let read = self.read_cut(at, length).await;
            self.checked(length.bytes());
            read
        })
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            self.count(self.geometry().zone_of(at).unwrap_or_default(), &data);
            self.issued(bytes_of(&data)).await;
            self.write_cut(at, data).await
        })
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        Box::pin(async move {
            self.count(zone, &data);
            self.issued(bytes_of(&data)).await;
            let _place = self.place().await;
            self.device.append(zone, data).await
        })
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            self.count_managed(zone, op);
            self.issued(0).await;
            let _place = self.place().await;
            self.device.manage(zone, op).await
        })
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            self.issued(0).await;
            let _place = self.place().await;
            self.device.flush().await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::drives::LabDrive;
    use crate::rig::processor;
    use futures_util::poll;
    use shingle_base::AlignedBuf;
    use shingle_sim::Sim;

    #[test]
    fn a_queue_of_one_leaves_the_drive_nothing_to_order() {
        let nanos = |host| {
            Sim::new(1).run(move |rt| async move {
                let drive = LabDrive::new("st16000nm001g").unwrap();
                let device = HostDevice::new(host, drive.device(&rt, drive.blank()));
                let reads = (0..64).map(|read| device.read(Lba(read * 1_234_567_891 % 3_000_000_000), Blocks(1)));
                join_all(reads).await.into_iter().for_each(|read| drop(read.unwrap()));
                rt.now().nanos
            })
        };
        let (many, one) = (nanos(Host::linux_6_10()), nanos(Host::one_at_a_time()));
        assert!(one > many * 3 / 2, "{one} ns and {many} ns");
    }

    /// LAB-HOST-1.
    #[test]
    fn writes_of_a_busy_program_reach_their_zone_in_order() {
        for seed in 1..=20 {
            Sim::new(seed).run_on(Some(&processor::server()), move |runtimes| async move {
                let drive = LabDrive::new("st20000nm001j").unwrap().first_zones(1_000);
                let zone = drive.geometry().start_of(ZoneId(900));
                let device = drive.device(&runtimes.hardware, drive.blank());
                let device = HostDevice::of_program(&runtimes, Host::linux_6_10(), device);
                let mut writes = Vec::new();
                for number in 0..8 {
                    let (device, data) = (device.clone(), AlignedBuf::zeroed(Blocks(256)).freeze());
                    let mut write =
                        Box::pin(async move { device.write(zone + Blocks(number * 256), vec![data]).await });
                    assert!(poll!(&mut write).is_pending(), "it is called, and not done");
                    writes.push(runtimes.program.spawn(write));
                }
                // Until after the moment at which each of them could have gone.
                runtimes.program.worked(Work::Byte, 1 << 30);
                for (number, write) in writes.into_iter().enumerate() {
                    assert!(matches!(write.await, Ok(Ok(()))), "seed {seed}: write {number} was passed by another one");
                }
            });
        }
    }

    #[test]
    fn a_zone_that_an_ssd_finishes_early_counts_as_written_to_its_end() {
        Sim::new(1).run(|rt| async move {
            let drive = LabDrive::new("zns-1tb").unwrap().first_zones(20);
            let (zone, capacity) = (ZoneId(9), drive.geometry().zone_capacity.0);
            let device = HostDevice::new(Host::linux_6_10(), drive.device(&rt, drive.blank()));
            let data = || vec![AlignedBuf::zeroed(Blocks(256)).freeze()];
            device.write(drive.geometry().start_of(zone), data()).await.unwrap();
            device.manage(zone, ZoneOp::Close).await.unwrap();
            assert_eq!(device.written_blocks(), 256);
            for _ in 0..2 {
                device.manage(zone, ZoneOp::Finish).await.unwrap();
                assert_eq!(device.written_blocks(), capacity, "once");
            }
            device.manage(zone, ZoneOp::Reset).await.unwrap();
            device.write(drive.geometry().start_of(zone), data()).await.unwrap();
            assert_eq!(device.written_blocks(), capacity + 256);
        });
    }

    #[test]
    fn a_write_is_cut_at_the_longest_command_across_its_pieces() {
        let piece = |blocks| AlignedBuf::zeroed(Blocks(blocks)).freeze();
        let commands = cut(Lba(10), vec![piece(1), piece(5), piece(2)], Blocks(3));
        let shape: Vec<_> = commands
            .iter()
            .map(|(at, pieces)| (at.0, pieces.iter().map(|piece| piece.len() / BLOCK_SIZE).collect::<Vec<_>>()))
            .collect();
        assert_eq!(shape, [(10, vec![1, 2]), (13, vec![3]), (16, vec![2])]);
    }
}
