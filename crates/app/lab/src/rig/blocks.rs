//! Blocks on a modelled drive behind a host: the block contract of conventional drives, SSDs and drives that translate inside.
//!
//! **Owns** the way of a call to the drive: the cut into commands, and the queue before it. **Knows nothing of** data: a modelled
//! drive takes the same time for any bytes, so none is kept, and every read answers zeros.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks};
use shingle_drive_model::{Command, Drive, Kind, Motion, Op, Profile, Written};
use shingle_runtime::Runtime;
use shingle_sim::TimedDrive;
use shingle_store_api::{BlockStore, Durability, LocalStoreFuture, StoreResult, accessed};
use tokio::sync::Semaphore;

use crate::error::LabError;
use crate::rig::host::Host;

/// A modelled drive behind a host.
pub struct DriveBlocks {
    drive: Rc<TimedDrive>,
    host: Host,
    queue: Rc<Semaphore>,
    blocks: u64,
}

impl DriveBlocks {
    /// The drive of a profile, as new.
    ///
    /// # Errors
    /// A zoned drive, whose blocks cannot be written in any order.
    pub fn of_profile(rt: &Runtime, profile: &Profile, host: Host) -> Result<Self, LabError> {
        match profile.kind {
            Kind::Cmr | Kind::DmSmr | Kind::Ssd => Ok(Self::new(rt, Drive::new(profile, 1), host)),
            Kind::HmSmr | Kind::Zns => Err(LabError(format!(
                "the drive `{}` is zoned, and takes no blocks in any order: kinds that do are \"cmr\", \"dm-smr\" and \"ssd\"",
                profile.name
            ))),
        }
    }

    /// Any modelled drive that takes writes in any order.
    pub fn new(rt: &Runtime, drive: Drive, host: Host) -> Self {
        let blocks = drive.blocks();
        Self { drive: TimedDrive::new(rt, drive, 1), host, queue: Rc::new(host.permits()), blocks }
    }

    /// The same, of which only the first bytes are there, as of a partition.
    #[must_use]
    pub fn first(self, bytes: u64) -> Self {
        Self { blocks: self.blocks.min(bytes / BLOCK_SIZE as u64), ..self }
    }

    /// Turns the drive's volatile cache on or off. `false`: the drive cannot do that.
    pub fn set_write_cache(&self, on: bool) -> bool {
        self.drive.with(|drive| drive.set_write_cache(on))
    }

    /// Blocks written so far, by the host and inside; `None` of a drive that does not translate.
    pub fn written(&self) -> Option<Written> {
        self.drive.with(|drive| drive.written())
    }

    /// Records the motions of the arm from now on, or no more.
    pub fn watch_arm(&self, on: bool) {
        self.drive.with(|drive| drive.watch_arm(on));
    }

    /// Motions of the arm recorded since the last call, in order.
    pub fn take_motions(&self) -> Vec<Motion> {
        self.drive.with(Drive::take_motions)
    }

    /// One command, when the host has a place for it at the drive.
    async fn command(&self, op: Op, at: u64, blocks: u64) {
        // Never closed, so that there is a permit in the end.
        let _place = self.queue.acquire().await.ok();
        self.drive.run(Command { op, at, blocks, opens: false }).await;
    }

    /// An access, cut into commands that are under way together.
    async fn access(&self, op: Op, offset: u64, length: u64) -> StoreResult<()> {
        let range = accessed(self, offset, length)?;
        let (mut at, end) = (range.start / BLOCK_SIZE as u64, range.end / BLOCK_SIZE as u64);
        let most = self.host.command_max.0;
        if end - at <= most {
            self.command(op, at, end - at).await;
            return Ok(());
        }
        let mut parts = Vec::new();
        while at < end {
            let part = most.min(end - at);
            parts.push(self.command(op, at, part));
            at += part;
        }
        join_all(parts).await;
        Ok(())
    }
}

impl BlockStore for DriveBlocks {
    fn size_bytes(&self) -> u64 {
        self.blocks * BLOCK_SIZE as u64
    }

    fn sector_bytes(&self) -> u64 {
        BLOCK_SIZE as u64
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        Box::pin(async move {
            self.access(Op::Read, offset, length).await?;
            Ok(AlignedBuf::zeroed(Blocks(length / BLOCK_SIZE as u64)).freeze())
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> LocalStoreFuture<'_, ()> {
        let length = data.iter().map(|piece| piece.len() as u64).sum();
        let op = match durability {
            Durability::Cached => Op::Write,
            Durability::Durable => Op::WriteThrough,
        };
        Box::pin(self.access(op, offset, length))
    }

    fn flush(&self) -> LocalStoreFuture<'_, ()> {
        Box::pin(async move {
            self.command(Op::Flush, 0, 0).await;
            Ok(())
        })
    }

    fn trim(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, ()> {
        Box::pin(async move {
            let range = accessed(self, offset, length)?;
            let block = BLOCK_SIZE as u64;
            self.command(Op::Trim, range.start / block, (range.end - range.start) / block).await;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shingle_sim::Sim;
    use shingle_store_api::StoreErrorKind;

    use super::*;

    fn zeros(blocks: u64) -> Vec<Bytes> {
        vec![AlignedBuf::zeroed(Blocks(blocks)).freeze()]
    }

    fn on<T: 'static, F: Future<Output = T> + 'static>(
        name: &'static str,
        host: Host,
        run: impl FnOnce(Runtime, Rc<DriveBlocks>) -> F + 'static,
    ) -> T {
        Sim::new(1).run(move |rt| async move {
            let store = DriveBlocks::of_profile(&rt, &Profile::named(name).unwrap(), host).unwrap();
            run(rt, Rc::new(store)).await
        })
    }

    /// API-BLK-1
    #[test]
    fn accesses_that_are_not_of_sectors_inside_are_refused() {
        on("st4000nc001", Host::linux_6_10(), |rt, store| async move {
            let size = store.size_bytes();
            let began = rt.now();
            for (offset, length) in
                [(512, 4096), (0, 0), (size, 4096), (u64::MAX - 4095, 4096), (0, u64::MAX), (0, 100)]
            {
                let kind = |error: shingle_store_api::StoreError| error.kind;
                assert_eq!(
                    store.read(offset, length).await.map_err(kind),
                    Err(StoreErrorKind::Invalid),
                    "{offset} {length}"
                );
                assert_eq!(
                    store.trim(offset, length).await.map_err(kind),
                    Err(StoreErrorKind::Invalid),
                    "{offset} {length}"
                );
            }
            assert!(store.write(size - 4096, zeros(2), Durability::Cached).await.is_err());
            assert_eq!(rt.now(), began, "the drive heard of none");
            assert_eq!(store.read(size - 4096, 4096).await.unwrap().len(), 4096);
        });
    }

    /// API-BLK-2: a durable write and a flush take the time of the medium, a cached one that of the cache.
    #[test]
    fn a_durable_write_does_not_end_in_the_volatile_cache() {
        on("st5000as0011", Host::linux_6_10(), |rt, store| async move {
            assert!(store.set_write_cache(true));
            let mut took = Vec::new();
            for durability in [Durability::Cached, Durability::Durable] {
                let began = rt.now();
                store.write(1 << 30, zeros(1), durability).await.unwrap();
                took.push(rt.now().since(began));
            }
            let ms = Duration::from_millis;
            assert!(took[0] < ms(1) && took[1] > ms(10), "{took:?}");
            store.write(2 << 30, zeros(1), Durability::Cached).await.unwrap();
            let began = rt.now();
            store.flush().await.unwrap();
            assert!(rt.now().since(began) > ms(10), "{:?}", rt.now().since(began));
            let written = store.written().unwrap();
            assert!(written.host == 3 && written.media > 3, "{written:?}");
        });
    }

    #[test]
    fn a_host_of_one_command_at_a_time_leaves_nothing_to_order() {
        let seconds = |host| {
            on("st4000nc001", host, |rt, store| async move {
                let reads = (0..256u64).map(|read| store.read((read * 7_919 % 900_000) << 20, 4096));
                join_all(reads).await.into_iter().for_each(|read| drop(read.unwrap()));
                rt.now().nanos as f64 / 1e9
            })
        };
        let (many, one) = (seconds(Host::linux_6_10()), seconds(Host::one_at_a_time()));
        assert!(one > 1.5 * many, "{one} s and {many} s");
    }

    #[test]
    fn a_long_access_is_cut_and_a_zoned_drive_is_refused() {
        let commands = |host| {
            on("st4000nc001", host, |_, store| async move {
                store.watch_arm(true);
                store.write(0, zeros(2048), Durability::Cached).await.unwrap();
                store.take_motions().len()
            })
        };
        assert!(commands(Host::linux_4_19()) > commands(Host::linux_6_10()));
        Sim::new(1).run(|rt| async move {
            let zoned = Profile::named("hc650").unwrap();
            let refused = DriveBlocks::of_profile(&rt, &zoned, Host::linux_6_10()).map(drop).unwrap_err();
            assert!(refused.0.contains("hc650") && refused.0.contains("dm-smr"), "{refused}");
        });
    }
}
