//! A log with a history, and what it has to hold afterwards.
#![allow(dead_code, unreachable_pub)]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, StoreId, ZoneId};
use shingle_record::{MetaLog, MetaLogConfig, MetaLogError, Recovered, SequenceSource};
use shingle_runtime::Runtime;
use shingle_sim::{Faults, Random, Sim, SimDevice, Survival};
use shingle_zoned::{
    DeviceError, DeviceErrorKind, DeviceFuture, Geometry, MemoryDevice, ZoneInfo, ZoneOp, ZoneState, ZonedDevice,
};

pub fn config() -> MetaLogConfig {
    MetaLogConfig { store: StoreId(9), zones: 2..10, zone_kind: 1, read_depth: 4 }
}

pub fn medium(random: &mut Random) -> MemoryDevice {
    let blocks = 16 + random.below(32);
    // A zone that is left is finished if few may be active: it is full then, whatever was written to it.
    let active_zones_max = blocks.is_multiple_of(2).then_some(8);
    let geometry = Geometry { active_zones_max, ..Geometry::hm_smr(Blocks(blocks), 12, 0, 8) };
    MemoryDevice::new(Geometry { volatile_cache: random.chance(0.5), ..geometry })
}

pub async fn open<D: ZonedDevice + Clone + 'static>(
    rt: &Runtime,
    device: &D,
) -> Result<(MetaLog, Recovered), MetaLogError> {
    let device: Rc<dyn ZonedDevice> = Rc::new(device.clone());
    MetaLog::open(rt, &device, config(), SequenceSource::default()).await
}

/// Requests to the log, and their answers.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// For every entry, in order, the life of the process that asked for it. An entry begins with its number and life,
    /// so that one of a life that lost it is seen.
    pub entries: Vec<u64>,
    /// The present life.
    pub life: u64,
    /// Entries acknowledged: all before this one.
    pub acked: u64,
    /// Entries that lay before the start of the newest checkpoint that was acknowledged.
    pub checkpoint: u64,
    /// The same of the checkpoint before it.
    pub checkpoint_before: u64,
    /// Entries that the present run found, until it writes: until then, entries that it did not find may be there all
    /// the same.
    pub found: Option<u64>,
}

/// The most entries that one write acknowledges.
pub const ENTRIES_AT_ONCE: u64 = 4;

impl Asked {
    /// A new run that found `end` entries. Finding them makes nothing durable.
    pub fn reopened(&mut self, end: u64) {
        self.found = Some(end);
        self.acked = self.acked.min(end);
        self.checkpoint = self.checkpoint.min(end);
        self.life += 1;
    }

    /// Entries that may be found if the last write is lost: rot of two of its blocks looks like a power cut.
    pub fn without_the_last_write(&self) -> Self {
        let acked = self.acked.saturating_sub(ENTRIES_AT_ONCE);
        Self { acked, checkpoint: self.checkpoint_before, ..self.clone() }
    }

    /// Entries that may be found if more is lost than the log can know of: any that were journaled, in order.
    pub fn without_promises(&self) -> Self {
        Self { acked: 0, checkpoint: 0, ..self.clone() }
    }

    /// Acknowledged entries, and the entries that the newest checkpoint covers.
    pub fn promises(&self) -> (u64, u64) {
        (self.acked, self.checkpoint)
    }

    /// The life begins to write: what it did not find is not there.
    fn begin(&mut self) -> u64 {
        if let Some(found) = self.found.take() {
            self.entries.truncate(found as usize);
        }
        self.entries.len() as u64
    }

    fn next(&mut self) -> u64 {
        self.begin();
        self.entries.push(self.life);
        self.entries.len() as u64 - 1
    }
}

/// Appends entries and makes checkpoints, several things at once, until something fails.
pub async fn work(
    rt: Runtime,
    log: MetaLog,
    asked: Rc<RefCell<Asked>>,
    mut random: Random,
    steps: u64,
) -> Result<(), MetaLogError> {
    let mut sequence = 1_000_000;
    for _ in 0..steps {
        if random.chance(0.15) || !log.has_journal_room() {
            let before = asked.borrow_mut().begin();
            let mut writer = log.begin_checkpoint().await?;
            for part in 0..1 + random.below(3) {
                let text = format!("{before} {part} {}", "x".repeat(random.below(500) as usize));
                writer.part(text.into_bytes()).await?;
            }
            writer.finish().await?;
            let mut asked = asked.borrow_mut();
            asked.checkpoint_before = asked.checkpoint;
            asked.checkpoint = asked.checkpoint.max(before);
            continue;
        }
        let mut waiting = Vec::new();
        for _ in 0..1 + random.below(ENTRIES_AT_ONCE) {
            let number = asked.borrow_mut().next();
            sequence += 1;
            let mut bytes = number.to_le_bytes().to_vec();
            bytes.extend(asked.borrow().life.to_le_bytes());
            bytes.resize(16 + random.below(200) as usize, 7);
            waiting.push((number, log.append(bytes, sequence)));
        }
        for (number, answer) in waiting {
            answer.await?;
            let mut asked = asked.borrow_mut();
            asked.acked = asked.acked.max(number + 1);
        }
        rt.sleep(Duration::from_micros(random.below(200))).await;
    }
    Ok(())
}

/// Journals one entry.
pub async fn append(log: &MetaLog, asked: &RefCell<Asked>) -> Result<(), MetaLogError> {
    let number = asked.borrow_mut().next();
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(asked.borrow().life.to_le_bytes());
    log.append(bytes, 2_000_000).await?;
    asked.borrow_mut().acked = number + 1;
    Ok(())
}

pub fn holds(recovered: &Recovered, asked: &Asked, context: &str) -> u64 {
    let start: u64 = match recovered.parts.first() {
        // The empty checkpoint that formatting writes.
        None => 0,
        Some(part) => {
            let text = std::str::from_utf8(part).unwrap();
            text.split(' ').next().unwrap().parse().unwrap()
        }
    };
    for (number, part) in recovered.parts.iter().enumerate() {
        assert!(
            part.starts_with(format!("{start} {number} ").as_bytes()),
            "{context}: part {number} is of another checkpoint"
        );
    }
    assert!(start >= asked.checkpoint, "{context}: checkpoint at {start}, {} was acknowledged", asked.checkpoint);
    for (at, entry) in recovered.journal.iter().enumerate() {
        let number = u64::from_le_bytes(entry.bytes[..8].try_into().unwrap());
        assert_eq!(number, start + at as u64, "{context}: entry {at} behind {start}");
        let life = u64::from_le_bytes(entry.bytes[8..16].try_into().unwrap());
        assert_eq!(Some(&life), asked.entries.get(number as usize), "{context}: entry {number} is of another life");
    }
    let end = start + recovered.journal.len() as u64;
    assert!(end >= asked.acked, "{context}: {end} entries, {} were acknowledged", asked.acked);
    let entries = asked.entries.len();
    assert!(end <= entries as u64, "{context}: {end} entries, only {entries} were asked for");
    end
}

/// True if so many zones take no writes any more that the log may end. It keeps three for a checkpoint: two dead ones and a write error in the
/// third are enough, if each of the others has taken a write error since the last checkpoint (seed 32283; two of 1,000 seeds end here).
pub fn out_of_zones(medium: &MemoryDevice) -> bool {
    let dead = |zone: &u32| matches!(medium.zone(ZoneId(*zone)).state, ZoneState::ReadOnly | ZoneState::Offline);
    config().zones.filter(dead).count() >= 2
}

/// A drive with a cache is taken for a file, whose host loses any blocks.
pub fn survival(medium: &MemoryDevice) -> Survival {
    if medium.geometry().volatile_cache { Survival::AnySubset } else { Survival::Prefix }
}

pub fn history(seed: u64, faults: Faults, cut: bool) -> Vec<(u64, MemoryDevice, Asked)> {
    let mut random = Random::new(seed);
    let medium = medium(&mut random);
    Sim::new(seed).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        let log = MetaLog::format(&rt, &shared, config(), SequenceSource::default()).await.unwrap();
        let harmless = faults.is_empty();
        device.set_faults(faults);
        let asked = Rc::new(RefCell::new(Asked::default()));
        let cuts = Rc::new(RefCell::new(Vec::new()));
        if cut {
            let (cuts, asked) = (cuts.clone(), asked.clone());
            device.on_command(move |command, device| {
                let image = device.crash_image_with(seed * 7919 + command.number, survival(&device.image()));
                cuts.borrow_mut().push((command.number, image, asked.borrow().clone()));
            });
        }
        match work(rt.clone(), log, asked.clone(), random, 40).await {
            Ok(()) => {}
            Err(_) if !harmless && out_of_zones(&device.image()) => {}
            Err(error) => panic!("seed {seed}: {error}"),
        }
        device.on_command(|_, _| {});
        let last = (u64::MAX, device.image(), asked.borrow().clone());
        cuts.borrow_mut().push(last);
        cuts.take()
    })
}

/// A device of which these blocks cannot be read.
#[derive(Clone)]
pub struct Unreadable {
    pub inner: Rc<dyn ZonedDevice>,
    pub blocks: Rc<BTreeSet<Lba>>,
}

impl Unreadable {
    pub fn new(inner: impl ZonedDevice + 'static, blocks: impl IntoIterator<Item = Lba>) -> Self {
        Self { inner: Rc::new(inner), blocks: Rc::new(blocks.into_iter().collect()) }
    }
}

impl ZonedDevice for Unreadable {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.inner.report(first, count)
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        match self.blocks.range(at..at + length).next() {
            Some(&bad) => Box::pin(async move { Err(DeviceError::new(DeviceErrorKind::ReadFailed, bad, None)) }),
            None => self.inner.read(at, length),
        }
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
