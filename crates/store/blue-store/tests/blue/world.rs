//! The objects as they have to be.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use shingle_blue_store::{BlueError, CollectionInfo, Hints, ObjectId, Store, Transaction};
use shingle_sim::Random;

/// An object of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Thing {
    pub(crate) bytes: Vec<u8>,
    pub(crate) attributes: BTreeMap<Vec<u8>, Bytes>,
    pub(crate) omap: BTreeMap<Vec<u8>, Bytes>,
    pub(crate) hints: Hints,
}

/// Objects of a collection. Things are shared by the states of a history.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct World(pub(crate) BTreeMap<ObjectId, Rc<Thing>>);

impl World {
    pub(crate) fn bytes(&self) -> usize {
        self.0.values().map(|thing| thing.bytes.len()).sum()
    }

    fn thing(&mut self, id: &ObjectId) -> &mut Thing {
        Rc::make_mut(self.0.entry(id.clone()).or_default())
    }

    fn write(&mut self, id: &ObjectId, at: usize, data: &[u8]) {
        let bytes = &mut self.thing(id).bytes;
        if !data.is_empty() {
            bytes.resize(bytes.len().max(at + data.len()), 0);
            bytes[at..at + data.len()].copy_from_slice(data);
        }
    }

    /// The objects of a collection, as the store shows them. `explains` tells of an error whether faults of the drive explain it; bytes
    /// behind it are those of `expected`. Returns whether there was one.
    pub(crate) async fn look(
        store: &Store,
        info: &CollectionInfo,
        explains: &dyn Fn(&BlueError) -> bool,
        expected: &Self,
    ) -> Result<(Self, bool), String> {
        let (mut world, mut guessed) = (Self::default(), false);
        let mut from: Option<ObjectId> = None;
        loop {
            let some = store.list(info.id, from.as_ref(), 7).await.map_err(|error| error.to_string())?;
            let (count, last) = (some.len(), some.last().cloned());
            for id in some.into_iter().filter(|id| Some(id) != from.as_ref()) {
                let expected = expected.0.get(&id).cloned().unwrap_or_default();
                let found = Self::look_at(store, &id, explains, &expected, &mut guessed).await;
                let thing = found.map_err(|error| format!("{id}: {error}"))?;
                world.0.insert(id, Rc::new(thing));
            }
            if count < 7 {
                return Ok((world, guessed));
            }
            from = last;
        }
    }

    async fn look_at(
        store: &Store,
        id: &ObjectId,
        explains: &dyn Fn(&BlueError) -> bool,
        expected: &Thing,
        guessed: &mut bool,
    ) -> Result<Thing, BlueError> {
        let info = store.stat(id).await?;
        let bytes = match store.read(id, 0, u64::MAX).await {
            Ok(bytes) => bytes.to_vec(),
            Err(error) if explains(&error) => {
                *guessed = true;
                let mut bytes = Vec::new();
                for from in (0..info.size).step_by(4096) {
                    let end = info.size.min(from + 4096);
                    match store.read(id, from, 4096).await {
                        Ok(read) => bytes.extend(read),
                        Err(error) if explains(&error) => {
                            let known = (from..end).map(|at| expected.bytes.get(at as usize).copied().unwrap_or(0));
                            bytes.extend(known);
                        }
                        Err(error) => return Err(error),
                    }
                }
                bytes
            }
            Err(error) => return Err(error),
        };
        assert_eq!(bytes.len() as u64, info.size, "{id}");
        let omap = store.omap_list(id, b"", 1000).await?.into_iter().collect();
        Ok(Thing { bytes, attributes: info.attributes.into_iter().collect(), omap, hints: info.hints })
    }

    /// Name of the first object that differs.
    pub(crate) fn differs(&self, other: &Self) -> String {
        let names = self.0.keys().chain(other.0.keys());
        let differs = |id: &&ObjectId| self.0.get(id) != other.0.get(id);
        let Some(id) = names.into_iter().find(differs) else { return "nothing".to_owned() };
        let shown = |world: &Self| {
            world.0.get(id).map(|thing| (thing.bytes.len(), thing.attributes.len(), thing.omap.len(), thing.hints))
        };
        let at = self
            .0
            .get(id)
            .zip(other.0.get(id))
            .and_then(|(one, other)| one.bytes.iter().zip(&other.bytes).position(|(one, other)| one != other));
        format!("{id}: {:?}, not {:?}; bytes differ at {at:?}", shown(self), shown(other))
    }
}

/// A transaction, and the world after it.
pub(crate) struct Drawn {
    pub(crate) transaction: Transaction,
    pub(crate) after: World,
    pub(crate) fails: bool,
}

/// Draws transactions on the objects of a collection.
pub(crate) struct Drawer {
    pub(crate) info: CollectionInfo,
    /// Bytes of all objects at most.
    pub(crate) bytes_max: usize,
    /// Number of the next bytes: each write has its own.
    serial: u64,
    /// Bytes that can be compressed take half of their blocks.
    pub(crate) squeezes: bool,
}

const NAMES: u64 = 5;

impl Drawer {
    pub(crate) fn new(info: CollectionInfo, bytes_max: usize) -> Self {
        Self { info, bytes_max, serial: 0, squeezes: false }
    }

    fn id(&self, random: &mut Random) -> ObjectId {
        let name = random.below(NAMES);
        let hash = self.info.id.seed | (name as u32).wrapping_mul(7919) << self.info.bits;
        let id = ObjectId { hash, ..ObjectId::new(1, format!("object {name}")) };
        if random.chance(0.6) { id } else { id.at_generation(random.below(2)) }
    }

    fn data(&mut self, random: &mut Random, seed: u64, most: u64) -> Vec<u8> {
        self.serial += 1;
        let length = match random.below(5) {
            0 => random.below(200),
            1..=2 => random.below(7_000),
            3 => random.below(20_000),
            _ => random.below(most.max(1)),
        };
        match random.below(3) {
            // Some of it can be compressed.
            0 if self.squeezes => half_noise(seed << 40 | self.serial, length),
            0 => (0..length).map(|at| (self.serial.wrapping_mul(31) as u8) ^ (at / 999) as u8).collect(),
            _ => shingle_sim::contents(seed << 40 | self.serial, 0, length),
        }
    }

    /// A place of a write: in the object, at its end, or where a shard ends.
    fn offset(random: &mut Random, size: usize) -> usize {
        match random.below(12) {
            0 => size,
            1 => (512 << 10) - 5_000 + random.below(5_000) as usize,
            2 => random.below(60_000) as usize,
            _ => random.below(size as u64 + 1) as usize,
        }
    }

    pub(crate) fn draw(&mut self, random: &mut Random, seed: u64, before: &World) -> Drawn {
        let (mut transaction, mut after) = (Transaction::new(), before.clone());
        for _ in 0..1 + random.below(5) {
            self.operation(random, seed, &mut transaction, &mut after);
        }
        let fails = random.chance(0.06);
        if fails {
            let id = self.id(random);
            match after.0.contains_key(&id) {
                true => transaction.create(&id),
                false => transaction.remove(&id),
            };
            after = before.clone();
        }
        Drawn { transaction, after, fails }
    }

    fn operation(&mut self, random: &mut Random, seed: u64, transaction: &mut Transaction, after: &mut World) {
        let id = self.id(random);
        let there = after.0.contains_key(&id);
        let size = after.0.get(&id).map_or(0, |thing| thing.bytes.len());
        if after.bytes() > self.bytes_max {
            let largest = after.0.iter().max_by_key(|(_, thing)| thing.bytes.len()).map(|(id, _)| id.clone());
            if let Some(id) = largest {
                transaction.remove(&id);
                after.0.remove(&id);
            }
            return;
        }
        match random.below(24) {
            0..=6 => {
                let (at, data) = (Self::offset(random, size), self.data(random, seed, 60_000));
                transaction.write(&id, at as u64, data.clone());
                after.write(&id, at, &data);
            }
            7..=9 => {
                let data = self.data(random, seed, 30_000);
                transaction.append(&id, data.clone());
                after.write(&id, size, &data);
            }
            10 => {
                let (at, length) = (Self::offset(random, size), random.below(20_000) as usize);
                transaction.zero(&id, at as u64, length as u64);
                after.write(&id, at, &vec![0; length]);
            }
            11 if there => {
                let size = random.below(size as u64 + 10_000);
                transaction.truncate(&id, size);
                after.thing(&id).bytes.resize(size as usize, 0);
            }
            12 if there => {
                transaction.remove(&id);
                after.0.remove(&id);
            }
            13..=15 if there => {
                let to = self.other_generation(random, &id);
                transaction.clone_object(&id, &to);
                after.0.insert(to, after.0[&id].clone());
            }
            16..=17 if there => {
                let to = self.other_generation(random, &id);
                let (from, length) = (random.below(size as u64 + 1) as usize, random.below(40_000) as usize);
                let at = Self::offset(random, after.0.get(&to).map_or(0, |thing| thing.bytes.len()));
                transaction.clone_range(&id, from as u64, length as u64, &to, at as u64);
                let data = after.0[&id].bytes[from..size.min(from + length)].to_vec();
                after.write(&to, at, &data);
            }
            18 => {
                let (name, value) = (format!("a{}", random.below(3)), random.bytes(30));
                transaction.set_attribute(&id, name.clone(), value.clone());
                after.thing(&id).attributes.insert(name.into(), value.into());
            }
            19 if there => {
                let name = format!("a{}", random.below(3));
                transaction.remove_attribute(&id, name.clone());
                after.thing(&id).attributes.remove(name.as_bytes());
            }
            20..=21 => {
                let (name, value) = (format!("k{}", random.below(9)), random.bytes(20));
                transaction.omap_set(&id, name.clone(), value.clone());
                after.thing(&id).omap.insert(name.into(), value.into());
            }
            22 if there => match random.chance(0.5) {
                true => {
                    transaction.omap_clear(&id);
                    after.thing(&id).omap.clear();
                }
                false => {
                    let name = format!("k{}", random.below(9));
                    transaction.omap_remove(&id, name.clone());
                    after.thing(&id).omap.remove(name.as_bytes());
                }
            },
            _ => {
                let hints = hints(random);
                transaction.set_hints(&id, hints);
                after.thing(&id).hints = hints;
            }
        }
    }

    fn other_generation(&self, random: &mut Random, id: &ObjectId) -> ObjectId {
        loop {
            let other = if random.chance(0.3) {
                id.at_generation(shingle_blue_store::HEAD)
            } else {
                id.at_generation(random.below(3))
            };
            if other != *id {
                return other;
            }
        }
    }
}

/// Bytes that take half of their blocks, about, once they are compressed.
fn half_noise(key: u64, length: u64) -> Vec<u8> {
    let mut bytes = shingle_sim::contents(key, 0, length);
    bytes.chunks_mut(256).skip(1).step_by(2).for_each(|chunk| chunk.fill(0));
    bytes
}

pub(crate) fn hints(random: &mut Random) -> Hints {
    use shingle_blue_store::{Access, Compression, Lifetime};
    Hints {
        lifetime: [Lifetime::None, Lifetime::Short, Lifetime::Long][random.below(3) as usize],
        access: [Access::Unknown, Access::Random, Access::Sequential][random.below(3) as usize],
        compression: [Compression::None, Compression::Lz4, Compression::Zstd][random.below(3) as usize],
        expected_write: random.below(2) as u32 * 20_000,
    }
}
