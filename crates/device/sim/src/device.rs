//! A zoned device in virtual time that fails on demand and can lose power at any command.
//!
//! A command takes effect in the order of calls and completes after a random time. Its changes go to the [`Medium`],
//! which outlives the device.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_drive_model::{Command as Timed, Drive, Op};
use shingle_runtime::Runtime;
use shingle_zoned::{
    DeviceError, DeviceErrorKind, DeviceFuture, DeviceResult, Geometry, MemoryDevice, ZoneInfo, ZoneOp, ZoneState,
    ZonedDevice,
};
use tokio::sync::oneshot;

use crate::command::{Command, CommandKind, Counts};
use crate::cut::{Cuts, Survival};
use crate::effect::Effect;
use crate::faults::{Fault, Faults, landed};
use crate::medium::Medium;
use crate::seeds::Random;
use crate::spoil::{flip_bit, garbage_after, join, prefix};
use crate::timing::{TimedDrive, Timing};

type Hook = Rc<RefCell<dyn FnMut(&Command, &SimDevice)>>;

/// The device. A cheap handle.
#[derive(Clone)]
pub struct SimDevice {
    shared: Rc<Shared>,
}

struct Shared {
    rt: Runtime,
    geometry: Geometry,
    medium: Medium,
    random: RefCell<Random>,
    faults: RefCell<Faults>,
    counts: Cell<Counts>,
    power_off_at: Cell<Option<u64>>,
    /// The flush that was lost, if one was.
    flush_lost: Cell<Option<u64>>,
    hook: RefCell<Option<Hook>>,
    timing: RefCell<Timing>,
    /// Lets commands that hang complete, by being dropped.
    hung: RefCell<Vec<oneshot::Sender<()>>>,
}

impl SimDevice {
    /// A device that goes on from `medium`; its times and faults come from the runtime's random numbers.
    pub fn new(rt: &Runtime, medium: &MemoryDevice) -> Self {
        Self::resume(rt, medium.into())
    }

    /// A device whose power never fails, so that it keeps no account of the effects that a cut would lose: for long
    /// experiments.
    pub fn without_power_cuts(rt: &Runtime, medium: MemoryDevice) -> Self {
        Self::resume(rt, Medium::without_power_cuts(medium))
    }

    /// The device for a new process, on the medium of one that was [killed](Self::kill).
    pub fn resume(rt: &Runtime, medium: Medium) -> Self {
        let shared = Shared {
            rt: rt.clone(),
            geometry: medium.current.geometry().clone(),
            medium,
            random: RefCell::new(Random::new(rt.random())),
            faults: RefCell::default(),
            counts: Cell::default(),
            power_off_at: Cell::default(),
            flush_lost: Cell::default(),
            hook: RefCell::default(),
            timing: RefCell::new(Timing::Random(Duration::from_micros(100))),
            hung: RefCell::default(),
        };
        Self { shared: Rc::new(shared) }
    }

    /// Longest time of a command unless a fault slows it; zero makes every command complete at once.
    pub fn set_latency(&self, latency: Duration) {
        *self.shared.timing.borrow_mut() = Timing::Random(latency);
    }

    /// Commands take as long as on this drive from now on; its blocks are the device's.
    pub fn set_drive(&self, drive: Drive) {
        *self.shared.timing.borrow_mut() = Timing::Drive(TimedDrive::new(&self.shared.rt, drive, 1));
    }

    /// The same of a drive that takes `slower` times as long for everything.
    pub fn set_slow_drive(&self, drive: Drive, slower: u32) {
        *self.shared.timing.borrow_mut() = Timing::Drive(TimedDrive::new(&self.shared.rt, drive, slower));
    }

    /// Takes as long as a read of these blocks, whether or not they were ever written; for timing alone.
    pub async fn touch(&self, at: Lba, length: Blocks) {
        self.wait(None, Op::Read, at, length, false).await;
    }

    /// From now on faults follow these rules.
    pub fn set_faults(&self, faults: Faults) {
        *self.shared.faults.borrow_mut() = faults;
    }

    /// The rules, with the injected faults.
    pub fn faults(&self) -> Faults {
        self.shared.faults.borrow().clone()
    }

    /// From command `number` on every command fails with `Gone`.
    pub fn power_off_at(&self, number: u64) {
        self.shared.power_off_at.set(Some(number));
    }

    /// True once commands fail with `Gone`: the power is off, or a flush was [lost](Fault::FlushLost).
    pub fn is_gone(&self) -> bool {
        self.gone_from().is_some_and(|from| self.counts().commands > from)
    }

    /// The first command that fails with `Gone`.
    fn gone_from(&self) -> Option<u64> {
        self.shared.power_off_at.get().into_iter().chain(self.shared.flush_lost.get()).min()
    }

    /// Calls `hook` at every command, before it takes effect.
    pub fn on_command(&self, hook: impl FnMut(&Command, &Self) + 'static) {
        *self.shared.hook.borrow_mut() = Some(Rc::new(RefCell::new(hook)));
    }

    /// Commands so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts.get()
    }

    /// The number of commands that [hang](Fault::Hang).
    pub fn hung(&self) -> usize {
        self.shared.hung.borrow().len()
    }

    /// Lets the commands that hang complete.
    pub fn release_hung(&self) {
        self.shared.hung.borrow_mut().clear();
    }

    /// The drive's medium, to make faults of it.
    pub fn medium(&self) -> &Medium {
        &self.shared.medium
    }

    /// The process dies now: visible effects stay, and those that were not durable still are not (SIM-6). Commands
    /// under way happen. A flush that was [lost](Fault::FlushLost) has lost what it did not make durable.
    pub fn kill(&self) -> Medium {
        if self.shared.flush_lost.get().is_none() {
            return self.shared.medium.killed();
        }
        let survival = Survival::AnySubset.on(self.geometry());
        Medium::from(&self.crash_image_with(self.shared.random.borrow_mut().number(), survival))
    }

    /// Visible contents, cached or not: the device after an orderly shutdown.
    pub fn image(&self) -> MemoryDevice {
        self.shared.medium.image()
    }

    /// The modelled drive with its power cut now and back: for a device on the image of that cut, in the same simulation. `None`
    /// if times are random.
    pub fn drive_after_power_cut(&self) -> Option<Drive> {
        self.shared.timing.borrow().power_cut().map(|(_, drive)| drive)
    }

    /// Contents of the medium if the power fails now: [`Medium::crash_image`] with [`Survival::Prefix`]. Blocks that a modelled
    /// drive was overwriting in their places cannot be read there (SIM-7).
    ///
    /// # Panics
    /// If the device was made [without power cuts](Self::without_power_cuts).
    pub fn crash_image(&self, seed: u64) -> MemoryDevice {
        self.crash_image_with(seed, Survival::Prefix)
    }

    /// As [`crash_image`](Self::crash_image), with a choice of the effects that survive.
    ///
    /// # Panics
    /// As there.
    pub fn crash_image_with(&self, seed: u64, survival: Survival) -> MemoryDevice {
        let image = self.shared.medium.crash_image(seed, survival);
        let torn = self.shared.timing.borrow().power_cut().map(|(torn, _)| torn);
        for range in torn.into_iter().flatten() {
            image.fail_reads(Lba(range.start), Blocks(range.end - range.start), None);
        }
        image
    }

    /// From now on takes the image of a power cut before every command. Set before an engine opens the device, it cuts
    /// inside of that too. Takes the place of [`on_command`](Self::on_command).
    pub fn cut_at_every_command(&self, seed: u64, survival: Survival) -> Cuts {
        let cuts = Cuts::default();
        let images = cuts.clone();
        self.on_command(move |command, device| {
            let image = device.crash_image_with(seed.wrapping_mul(1_000_003).wrapping_add(command.number), survival);
            images.add(command, image);
        });
        cuts
    }

    /// Begins a command: counts it, calls the hook, and decides on its fault.
    fn begin(
        &self,
        kind: CommandKind,
        zone: Option<ZoneId>,
        at: Lba,
        blocks: Blocks,
    ) -> DeviceResult<(u64, Option<Fault>)> {
        let shared = &self.shared;
        let mut counts = shared.counts.get();
        let number = counts.commands;
        counts.commands += 1;
        match kind {
            CommandKind::Read => counts.reads = (counts.reads.0 + 1, counts.reads.1 + blocks.0),
            CommandKind::Write => counts.writes = (counts.writes.0 + 1, counts.writes.1 + blocks.0),
            CommandKind::Reset => counts.resets += 1,
            CommandKind::Flush => counts.flushes += 1,
            CommandKind::Report | CommandKind::Manage => {}
        }
        shared.counts.set(counts);
        let hook = shared.hook.borrow().clone();
        if let Some(hook) = hook {
            (hook.borrow_mut())(&Command { number, kind, zone, blocks }, self);
        }
        if self.gone_from().is_some_and(|from| number >= from) {
            return Err(DeviceError::new(DeviceErrorKind::Gone, at, zone));
        }
        let fault = shared.faults.borrow_mut().hit(number, kind, zone, &mut shared.random.borrow_mut());
        Ok((number, fault))
    }

    /// Waits as long as the command takes.
    async fn wait(&self, fault: Option<Fault>, op: Op, at: Lba, blocks: Blocks, opens: bool) {
        let command = Timed { op, at: at.0, blocks: blocks.0, opens };
        let timing = self.shared.timing.borrow().clone();
        timing.wait(&self.shared.rt, &self.shared.random, command, fault == Some(Fault::Slow)).await;
        if fault == Some(Fault::Hang) {
            self.hang().await;
        }
    }

    /// Waits for [`release_hung`](Self::release_hung).
    async fn hang(&self) {
        let (release, released) = oneshot::channel();
        self.shared.hung.borrow_mut().push(release);
        let _ = released.await;
    }

    /// Lets `effect` happen: at once, or after it hung, in a task of its own.
    async fn when_due<T: 'static>(
        &self,
        (number, fault): (u64, Option<Fault>),
        at: Lba,
        effect: impl AsyncFnOnce(Self) -> DeviceResult<T> + 'static,
    ) -> DeviceResult<T> {
        if fault != Some(Fault::HangBefore) {
            return effect(self.clone()).await;
        }
        let (done, ended) = oneshot::channel();
        let this = self.clone();
        self.shared.rt.spawn_detached(async move {
            this.hang().await;
            let result = match this.check_power(number, at) {
                Ok(()) => effect(this).await,
                Err(error) => Err(error),
            };
            // The caller may have gone.
            let _ = done.send(result);
        });
        ended.await.unwrap_or_else(|_| Err(self.error(DeviceErrorKind::Gone, at)))
    }

    fn error(&self, kind: DeviceErrorKind, at: Lba) -> DeviceError {
        DeviceError::new(kind, at, self.shared.geometry.zone_of(at))
    }

    /// Applies a fault of a zone that fails as a whole.
    fn fail_zone(&self, zone: Option<ZoneId>, fault: Option<Fault>, at: Lba) -> DeviceResult<()> {
        if let (Some(Fault::ZoneLosesCache), Some(zone)) = (fault, zone) {
            self.shared.medium.lose_cache(zone, &mut self.shared.random.borrow_mut());
        }
        let (state, kind) = match fault {
            Some(Fault::ZoneReadOnly | Fault::ZoneLosesCache) => (ZoneState::ReadOnly, DeviceErrorKind::ZoneReadOnly),
            Some(Fault::ZoneOffline) => (ZoneState::Offline, DeviceErrorKind::ZoneOffline),
            Some(Fault::CommandError) => return Err(self.error(DeviceErrorKind::WriteFailed, at)),
            Some(Fault::HostFull) => return Err(self.error(host_full(), at)),
            _ => return Ok(()),
        };
        if let Some(zone) = zone {
            self.shared.medium.set_state(zone, state);
        }
        Err(self.error(kind, at))
    }

    async fn do_write(&self, at: Option<Lba>, zone: ZoneId, data: Vec<Bytes>) -> DeviceResult<Lba> {
        let start = at.unwrap_or_else(|| self.shared.geometry.start_of(zone));
        let blocks = Blocks(data.iter().map(|piece| (piece.len() / BLOCK_SIZE) as u64).sum());
        let begun = self.begin(CommandKind::Write, Some(zone), start, blocks)?;
        self.when_due(begun, start, async move |this| this.write_begun(begun, at, zone, data, blocks).await).await
    }

    async fn write_begun(
        &self,
        (number, fault): (u64, Option<Fault>),
        at: Option<Lba>,
        zone: ZoneId,
        data: Vec<Bytes>,
        blocks: Blocks,
    ) -> DeviceResult<Lba> {
        let start = at.unwrap_or_else(|| self.shared.geometry.start_of(zone));
        self.fail_zone(Some(zone), fault, start)?;
        let (landing, failed) = self.spoil(fault, start, data, blocks);
        let opens = zone.0 < self.shared.geometry.zone_count
            && matches!(self.shared.medium.current.zone(zone).state, ZoneState::Empty | ZoneState::Closed);
        let mut landed_at = start;
        // A failed write of which nothing landed leaves no trace; one of nothing at all breaks a rule.
        if !failed || !landing.is_empty() {
            let noted = self.shared.medium.knows_cuts().then(|| landing.clone());
            landed_at = match at {
                Some(at) => self.shared.medium.current.write_now(at, landing).map(|()| at)?,
                None => self.shared.medium.current.append_now(zone, landing)?,
            };
            if let Some(data) = noted {
                self.shared.medium.note(zone, number, Effect::Write { at: landed_at, data });
            }
        }
        let at = landed_at;
        self.wait(fault, Op::Write, at, blocks, opens).await;
        self.check_power(number, at)?;
        self.shared.medium.complete(zone, number, self.counts().commands);
        let kind = if fault == Some(Fault::HostFullInside) { host_full() } else { DeviceErrorKind::WriteFailed };
        if failed { Err(self.error(kind, at)) } else { Ok(at) }
    }

    /// Bytes that a write with a fault puts on the medium, and true if it reports a failure.
    fn spoil(&self, fault: Option<Fault>, at: Lba, data: Vec<Bytes>, blocks: Blocks) -> (Vec<Bytes>, bool) {
        let random = &mut *self.shared.random.borrow_mut();
        match fault {
            Some(Fault::WriteError | Fault::HostFullInside) => (prefix(&data, landed(blocks, random)), true),
            Some(Fault::FailedAfterEffect) => (data, true),
            Some(Fault::BitFlip) => (vec![flip_bit(&join(&data), random)], false),
            Some(Fault::TornWrite) => {
                let good = landed(blocks, random);
                (vec![garbage_after(&join(&data), good, random)], false)
            }
            Some(Fault::Misdirected) => {
                let bytes = self.bytes_elsewhere(at, blocks, random);
                (vec![bytes], false)
            }
            _ => (data, false),
        }
    }

    /// Bytes of another place of the device: seen in the blocks that a misdirected write missed, and by a misdirected
    /// read.
    fn bytes_elsewhere(&self, at: Lba, blocks: Blocks, random: &mut Random) -> Bytes {
        let mut out = AlignedBuf::zeroed(blocks);
        let zones = u64::from(self.shared.geometry.zone_count);
        let zone = ZoneId(random.below(zones) as u32);
        let info = self.shared.medium.current.zone(zone);
        if info.written >= blocks
            && info.start != at
            && let Ok(bytes) = self.shared.medium.current.read_now(info.start, blocks)
        {
            out.copy_from_slice(&bytes);
        }
        out.freeze()
    }

    fn check_power(&self, number: u64, at: Lba) -> DeviceResult<()> {
        // A command that was under way when the power failed never completes well.
        let off = self.gone_from().is_some_and(|from| self.counts().commands > from && number < from);
        if off { Err(self.error(DeviceErrorKind::Gone, at)) } else { Ok(()) }
    }

    async fn do_manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceResult<()> {
        let start = self.shared.geometry.start_of(zone);
        let kind = if op == ZoneOp::Reset { CommandKind::Reset } else { CommandKind::Manage };
        let begun = self.begin(kind, Some(zone), start, Blocks::ZERO)?;
        self.when_due(begun, start, async move |this| this.manage_begun(begun, zone, op).await).await
    }

    async fn manage_begun(&self, (number, fault): (u64, Option<Fault>), zone: ZoneId, op: ZoneOp) -> DeviceResult<()> {
        let start = self.shared.geometry.start_of(zone);
        self.fail_zone(Some(zone), fault, start)?;
        self.shared.medium.current.manage_now(zone, op)?;
        self.shared.medium.note(zone, number, Effect::Manage(op));
        let timed = match op {
            ZoneOp::Open => Op::Open,
            ZoneOp::Close | ZoneOp::Finish => Op::Close,
            ZoneOp::Reset => Op::Reset,
        };
        self.wait(fault, timed, start, Blocks::ZERO, false).await;
        self.check_power(number, start)?;
        self.shared.medium.complete(zone, number, self.counts().commands);
        if fault == Some(Fault::FailedAfterEffect) {
            return Err(self.error(DeviceErrorKind::WriteFailed, start));
        }
        Ok(())
    }

    async fn do_read(&self, at: Lba, length: Blocks) -> DeviceResult<Bytes> {
        let zone = self.shared.geometry.zone_of(at);
        let (number, fault) = self.begin(CommandKind::Read, zone, at, length)?;
        let mut result = self.shared.medium.current.read_now(at, length);
        match (fault, &result) {
            (Some(Fault::BitFlip), Ok(bytes)) => result = Ok(flip_bit(bytes, &mut self.shared.random.borrow_mut())),
            (Some(Fault::Misdirected), Ok(_)) => {
                result = Ok(self.bytes_elsewhere(at, length, &mut self.shared.random.borrow_mut()));
            }
            _ => {}
        }
        self.wait(fault, Op::Read, at, length, false).await;
        self.check_power(number, at)?;
        self.fail_zone(zone, fault, at)?;
        if fault == Some(Fault::ReadError) { Err(self.error(DeviceErrorKind::ReadFailed, at)) } else { result }
    }
}

/// Error of a device whose file cannot grow.
fn host_full() -> DeviceErrorKind {
    DeviceErrorKind::System(std::io::ErrorKind::StorageFull.into())
}

impl ZonedDevice for SimDevice {
    fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        let at = self.shared.geometry.start_of(first);
        let begun = self.begin(CommandKind::Report, None, at, Blocks::ZERO);
        Box::pin(async move {
            let (number, fault) = begun?;
            // A descriptor has 64 bytes, and so has the header. There are no more of them than zones.
            let zones = count.min(self.shared.geometry.zone_count.saturating_sub(first.0));
            let answer = Blocks::holding(64 * (u64::from(zones) + 1));
            self.wait(fault, Op::Report, at, answer, false).await;
            self.check_power(number, at)?;
            if matches!(fault, Some(Fault::ReadError | Fault::CommandError)) {
                return Err(self.error(DeviceErrorKind::ReadFailed, at));
            }
            self.shared.medium.current.report(first, count).await
        })
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        Box::pin(self.do_read(at, length))
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        let zone = self.shared.geometry.zone_of(at).unwrap_or_default();
        let this = self.clone();
        Box::pin(async move { this.do_write(Some(at), zone, data).await.map(drop) })
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        Box::pin(self.do_write(None, zone, data))
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        Box::pin(self.do_manage(zone, op))
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            let (number, fault) = self.begin(CommandKind::Flush, None, Lba(0), Blocks::ZERO)?;
            self.wait(fault, Op::Flush, Lba(0), Blocks::ZERO, false).await;
            if matches!(fault, Some(Fault::FlushLost | Fault::CommandError | Fault::HostFull)) {
                self.shared.flush_lost.set(Some(number));
                return Err(self.error(DeviceErrorKind::Gone, Lba(0)));
            }
            self.check_power(number, Lba(0))?;
            self.shared.medium.flushed(number);
            Ok(())
        })
    }
}
