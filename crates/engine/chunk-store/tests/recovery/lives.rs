//! Chains of lives under all faults of data zones: what was acknowledged is there or is reported as damage, nothing is
//! stale, and what harms nothing costs nothing. Bytes carry the number of their write.
//!
//! One exception, of the fault model: rot in the last record of an open zone may end a chunk before it, unreported.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::common::{GC_ERRORS, content, formatted, geometry, options};
use shingle_base::{ChunkId, ZoneId};
use shingle_chunk_store::{ChunkStore, Damage, ErrorKind, Stream};
use shingle_runtime::Runtime;
use shingle_sim::lives::{Harm, Life, wear};
use shingle_sim::{Medium, Random, Sim, SimDevice, seeds};
use shingle_zoned::ZoneState;

/// Bytes `[from, to)` of a chunk, with the number of the write that made them.
#[derive(Clone, Copy, Debug)]
struct Write {
    from: u64,
    to: u64,
    number: u64,
    acked: bool,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    created: bool,
    delete_begun: bool,
    deleted: bool,
    /// A call ended without saying what became of it: nothing more is asked of the chunk in this life.
    unsure: bool,
    writes: Vec<Write>,
    /// Its end: at its last write, unless opening found less.
    end: u64,
    /// An append took the place of bytes that were not found, and its outcome is unknown: either may be there.
    either: bool,
    /// Up to where its end was once told to be lost. Openings after the one that finds a dead zone do not tell again.
    told: u64,
}

/// Requests of all lives, and their answers. Ids are used once.
#[derive(Clone, Debug, Default)]
struct World {
    chunks: BTreeMap<ChunkId, Chunk>,
    next: u64,
    /// The most that faults can have done so far.
    harm: Harm,
}

impl World {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Holds what opening found against what was asked, and goes on from it.
    async fn settle(&mut self, store: &ChunkStore, damage: &[Damage], device: &SimDevice, context: &str) {
        assert!(damage.is_empty() || self.harm > Harm::None, "{context}: damage without harm: {damage:?}");
        // Damage that names no chunk is of a zone: anything may have been there.
        let told_of = |id: ChunkId| damage.iter().any(|damage| damage.chunk.is_none_or(|named| named == id));
        for stat in store.list(None, usize::MAX) {
            let chunk = self.chunks.get(&stat.id);
            let chunk = chunk.unwrap_or_else(|| panic!("{context}: {} was never created", stat.id));
            assert!(!chunk.deleted || told_of(stat.id), "{context}: {} was deleted", stat.id);
        }
        for (&id, chunk) in &mut self.chunks {
            chunk.unsure = false;
            let told = told_of(id);
            let Ok(stat) = store.stat(id) else {
                assert!(!chunk.created || chunk.delete_begun || told, "{context}: {id} is gone");
                // It may be back when its zone can be read again.
                chunk.unsure = true;
                continue;
            };
            let acked = chunk.writes.iter().filter(|write| write.acked).map(|write| write.to).max().unwrap_or(0);
            // Rot in the last record of a zone cannot be told from a tear.
            let silent = self.harm == Harm::Silent;
            if told && stat.size < acked {
                chunk.told = chunk.told.max(acked);
            }
            assert!(
                stat.size >= acked || told || silent || chunk.told >= acked,
                "{context}: {id} ends at {}, {acked} were acknowledged",
                stat.size
            );
            let is_end = stat.size == 0 || chunk.writes.iter().any(|write| write.to == stat.size);
            assert!(
                is_end || chunk.either,
                "{context}: {id} ends at {}, inside a write: {:?}",
                stat.size,
                chunk.writes
            );
            for write in chunk.writes.iter_mut().filter(|write| write.to <= stat.size) {
                match store.read(id, write.from, write.to - write.from).await {
                    Ok(bytes) => assert!(
                        chunk.either || bytes == content(write.number, write.from, write.to - write.from),
                        "{context}: {id} holds other bytes than {write:?}"
                    ),
                    Err(error) => assert!(
                        device.is_gone()
                            || self.harm > Harm::None && matches!(error.kind, ErrorKind::Device | ErrorKind::Corrupt),
                        "{context}: {id}, {write:?}: {error}"
                    ),
                }
                write.acked = true;
            }
            (chunk.created, chunk.delete_begun) = (true, chunk.deleted);
            chunk.unsure = stat.sealed || chunk.either;
            chunk.end = stat.size;
            // Of what was never acknowledged nothing comes later, unless it may lie where this opening could not read (seeds 36458, 43626).
            chunk.writes.retain(|write| write.acked || told);
        }
    }
}

/// One caller; its chunks are its own.
struct Caller {
    store: ChunkStore,
    world: Rc<RefCell<World>>,
    random: Random,
    own: Vec<ChunkId>,
    device: SimDevice,
    /// Zones of superblock or log take no writes any more.
    worn: bool,
}

impl Caller {
    async fn run(mut self, steps: u64) {
        for _ in 0..steps {
            match self.random.below(20) {
                0..4 => self.create().await,
                4..13 => self.append().await,
                13..15 => self.delete().await,
                15..18 => self.read().await,
                18 => self.maintained("checkpoint", self.store.checkpoint().await, &[]),
                _ => self.maintained("gc", self.store.gc(1, |_| {}).await, GC_ERRORS),
            }
        }
    }

    /// A checkpoint, or a step of GC, ended so. Only the end of the life, its faults, or what earlier ones did to the
    /// drive make it fail.
    fn maintained<T>(&self, what: &str, ended: shingle_chunk_store::Result<T>, also: &[ErrorKind]) {
        let Err(error) = ended else { return };
        let over = self.device.is_gone();
        let faulty = self.world.borrow().harm > Harm::None || !self.device.faults().injected().is_empty() || self.worn;
        let explained = over || faulty && matches!(error.kind, ErrorKind::Device | ErrorKind::Stopped);
        assert!(explained || also.contains(&error.kind), "{what}: {error}");
    }

    fn chunk(&mut self) -> Option<(ChunkId, Chunk)> {
        let id = *self.own.get(self.random.below(self.own.len().max(1) as u64) as usize)?;
        let chunk = self.world.borrow().chunks.get(&id)?.clone();
        (chunk.created && !chunk.delete_begun && !chunk.unsure).then_some((id, chunk))
    }

    fn with(&self, id: ChunkId, change: impl FnOnce(&mut Chunk)) {
        change(self.world.borrow_mut().chunks.entry(id).or_default());
    }

    async fn create(&mut self) {
        let id = ChunkId::from_u64(self.world.borrow_mut().number());
        self.own.push(id);
        self.with(id, |chunk| chunk.unsure = true);
        let created = self.store.create(id, Stream::ALL[self.random.below(3) as usize]).await;
        self.with(id, |chunk| (chunk.created, chunk.unsure) = (created.is_ok(), created.is_err()));
    }

    async fn append(&mut self) {
        let Some((id, chunk)) = self.chunk() else { return };
        let Ok(stat) = self.store.stat(id) else { return };
        let from = chunk.end;
        let found_less = chunk.writes.iter().any(|write| write.to > from);
        let most = [100, 5000, 30_000][self.random.below(3) as usize];
        let length = 1 + self.random.below(most);
        if length + 8192 > stat.room || stat.sealed {
            return;
        }
        let number = self.world.borrow_mut().number();
        self.with(id, |chunk| {
            // Bytes that were not found and were overwritten must not come back.
            chunk.writes.retain(|write| write.to <= from);
            chunk.writes.push(Write { from, to: from + length, number, acked: false });
            chunk.end = from + length;
        });
        match self.store.append(id, from, vec![content(number, from, length).into()]).await {
            Ok(end) => {
                assert_eq!(end, from + length);
                self.with(id, |chunk| chunk.writes.iter_mut().for_each(|write| write.acked |= write.number == number));
            }
            Err(error) => self.with(id, |chunk| match error.kind {
                ErrorKind::NoSpace | ErrorKind::ChunkFull | ErrorKind::Sealed | ErrorKind::WrongOffset { .. } => {
                    chunk.writes.retain(|write| write.number != number);
                    (chunk.end, chunk.either, chunk.unsure) = (from, found_less, found_less);
                }
                _ => (chunk.unsure, chunk.either) = (true, found_less),
            }),
        }
    }

    async fn delete(&mut self) {
        let Some((id, _)) = self.chunk() else { return };
        self.with(id, |chunk| chunk.delete_begun = true);
        let deleted = self.store.delete(id).await.is_ok();
        self.with(id, |chunk| chunk.deleted = deleted);
    }

    async fn read(&mut self) {
        let Some((id, chunk)) = self.chunk() else { return };
        // Bytes that opening did not find are past the end, and were reported.
        let Some(write) = chunk.writes.iter().rfind(|write| write.acked && write.to <= chunk.end) else { return };
        let length = write.to - write.from;
        match self.store.read(id, write.from, length).await {
            Ok(bytes) => {
                assert!(bytes == content(write.number, write.from, length), "{id}: other bytes than {write:?}")
            }
            Err(error) => assert!(
                matches!(error.kind, ErrorKind::Device | ErrorKind::Corrupt | ErrorKind::Stopped),
                "{id}: {error}"
            ),
        }
    }
}

/// A store works until its life ends, or has nothing more to do.
async fn live(rt: &Runtime, store: ChunkStore, world: Rc<RefCell<World>>, random: &mut Random, device: &SimDevice) {
    let all: Vec<ChunkId> = world.borrow().chunks.keys().copied().collect();
    let image = device.image();
    let front = store.layout().superzone.0..store.layout().data_zones.start;
    let worn = front.map(|zone| image.zone(ZoneId(zone)).state);
    let worn = worn.into_iter().any(|state| matches!(state, ZoneState::ReadOnly | ZoneState::Offline));
    let callers = (0..3).map(|number| Caller {
        store: store.clone(),
        world: world.clone(),
        random: Random::new(random.number()),
        own: all.iter().copied().skip(number).step_by(3).collect(),
        device: device.clone(),
        worn,
    });
    let tasks: Vec<_> = callers.map(|caller| rt.spawn(caller.run(25))).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Returns the number of openings that succeeded.
fn chain(seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let geometry = geometry(&mut random);
    let mut medium = Medium::from(&formatted(geometry.clone()));
    let world = Rc::new(RefCell::new(World::default()));
    // Superblock and log lie in front. A third of all chains have faults there, too, but none that the log cannot see:
    // of these it has tests of its own.
    let meta = seed.is_multiple_of(3);
    let (front, most) = if meta { (0, Harm::Lasting) } else { (7, Harm::Silent) };
    let data = front + geometry.conventional_zones..geometry.zone_count;
    let mut opened_at_all = 0;
    for number in 0..6 {
        let life = Life::draw_up_to(most, &mut random, &data, geometry.zone_count, 900);
        let context = format!("seed {seed}, life {number}, {:?} at {}", life.end, life.last_command);
        let (asked, mut of_life, given) = (world.clone(), random.clone(), life.clone());
        let before = world.borrow().harm;
        let is_open;
        (medium, is_open) = Sim::new(seed * 100 + number).run(move |rt| async move {
            let device = given.begin(&rt, medium);
            let lasting = before.max(given.harm);
            asked.borrow_mut().harm = lasting;
            let opened = ChunkStore::open(&rt, Rc::new(device.clone()), options(&mut of_life)).await;
            let is_open = opened.is_ok();
            match opened {
                Ok((store, report)) if !device.is_gone() => {
                    // Looks do not count as commands of the life, so that it cannot end within one.
                    let mut settled = asked.borrow().clone();
                    device.power_off_at(u64::MAX);
                    settled.settle(&store, &report.damage, &device, &context).await;
                    let last = device.counts().commands + given.last_command;
                    device.power_off_at(last);
                    *asked.borrow_mut() = settled;
                    live(&rt, store, asked.clone(), &mut of_life, &device).await;
                }
                Ok(_) => {}
                Err(error) => assert!(
                    device.is_gone()
                        || lasting > Harm::None
                            && (error.kind == ErrorKind::Device || meta && error.kind == ErrorKind::Corrupt),
                    "{context}: the store does not open: {error}"
                ),
            }
            if lasting == Harm::Passing {
                asked.borrow_mut().harm = Harm::None;
            }
            (given.end(&device, seed * 31 + number), is_open)
        });
        opened_at_all += u64::from(is_open);
        random.number();
        let harm = wear(&mut random, &medium, &geometry, &data);
        let mut world = world.borrow_mut();
        world.harm = world.harm.max(harm);
    }
    opened_at_all
}

#[test]
fn what_was_acknowledged_is_there_or_reported_through_chains_of_lives() {
    let (mut opened, mut lives) = (0, 0);
    // In 222 the drive once did not give up a zone of the log at the first try, and the store did not open. In 2606 an
    // append that was to land waited for ever, behind one whose chunk was deleted. In 9128 a drive without a cache once
    // lost a block before others of one write, as no such drive does. In 1753 a flush failed, and appends waited for ever for
    // a zone of a drive that was gone.
    for seed in seeds(60).chain([222, 1753, 2606, 9128]) {
        opened += chain(seed);
        lives += 6;
    }
    assert!(lives < 100 || opened > lives / 2, "only {opened} of {lives} openings succeeded");
}
