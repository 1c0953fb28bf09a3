//! Checks: metadata are held against each other and against the drive, and all data are read. And a look at what there is.
//!
//! The metadata need not fit in memory: they are gone through page by page, and of holders in zones there are sums. Only where those of a zone
//! differ, its holders are gathered in another pass.
//!
//! A check of the metadata notes the changes that would mend them, for a [repair](crate::repair): what it finds of the objects that can be
//! used is what zones, shared blobs and lists of holders have to say, once all others are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use shingle_zone_kit::Status;

use crate::blob::Blob;
use crate::blob::ranges::Ranges;
use crate::engine::Engine;
use crate::error::{BlueError, BlueErrorKind, BlueResult};
use crate::format::key::{self, Holder, space};
use crate::format::zone::ZoneValue;
use crate::format::{object, values};
use crate::ids::ObjectId;
use crate::kv::{Batch, Order};
use crate::map::needed_by_blob;
use crate::open::shown;
use crate::scan::{Numbers, Prints};
use crate::txn::Shards;

/// Something that is not as it has to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// The object or the part of the metadata.
    pub place: String,
    /// The object, if it is one.
    pub object: Option<ObjectId>,
    /// The fault.
    pub text: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// A data zone, as a dump shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneDump {
    /// Its number among the data zones.
    pub zone: u32,
    /// `free`, `open`, `closed` or `dead`.
    pub state: &'static str,
    /// Its generation.
    pub epoch: u64,
    /// Blocks written.
    pub written: u32,
    /// Blocks that are needed.
    pub live: u64,
    /// The drive writes it no more.
    pub broken: bool,
}

/// Holders in zones.
type Holders = BTreeSet<(u32, Holder)>;

/// Sums of what the metadata of objects say.
#[derive(Default)]
pub(crate) struct Seen {
    damage: Vec<Damage>,
    /// Changes of the metadata that make them agree, and take the unusable objects away. (BLU-MEND-1)
    pub(crate) mend: Batch,
    /// Objects whose metadata make no sense.
    pub(crate) unusable: Vec<ObjectId>,
    /// Something could not be looked at.
    pub(crate) failed: Option<BlueError>,
    /// Numbers of objects: of all, and of those that can be used.
    numbers: Numbers,
    usable: Numbers,
    /// Live blocks in each zone.
    live: BTreeMap<u32, u64>,
    /// Holders in each zone, by their sums.
    prints: Prints,
    /// Zones whose holders are gathered, and these.
    gathered: BTreeSet<u32>,
    held: Holders,
    /// Blocks that holders need of each shared blob, one by one.
    needed: BTreeMap<u64, (Rc<Blob>, Vec<Ranges>)>,
    deferred: BTreeSet<u64>,
}

impl Seen {
    fn add(&mut self, place: impl Into<String>, text: impl Into<String>) {
        self.damage.push(Damage { place: place.into(), object: None, text: text.into() });
    }

    fn add_of(&mut self, id: &ObjectId, text: impl Into<String>) {
        self.damage.push(Damage { place: format!("object {id}"), object: Some(id.clone()), text: text.into() });
    }

    fn add_holder(&mut self, holder: &Holder, text: String) {
        let object = if let Holder::Object(id, _) = holder { Some(id.clone()) } else { None };
        self.damage.push(Damage { place: shown(holder), object, text });
    }

    /// Blobs that a holder has for itself.
    fn holds<'b>(&mut self, holder: &Holder, blobs: impl IntoIterator<Item = &'b Rc<Blob>>) {
        let mut zones = BTreeSet::new();
        for blob in blobs {
            for place in &blob.state.borrow().places {
                *self.live.entry(place.zone).or_default() += u64::from(place.count);
                zones.insert(place.zone);
            }
        }
        for zone in zones {
            self.prints.expect(zone, &key::live(zone, holder));
            if self.gathered.contains(&zone) {
                self.held.insert((zone, holder.clone()));
            }
        }
    }
}

/// Every block that is needed has a place, unless it is in memory.
fn is_covered(blob: &Blob, needed: &Ranges) -> bool {
    blob.state.borrow().deferred.is_some() || needed.iter().all(|range| blob.places(&range).is_some())
}

const UNCOVERED: &str = "blocks that are needed have no place in a zone";

impl Engine {
    /// Holds the metadata against each other; with `deep`, reads all data.
    pub(crate) async fn check(
        self: &Rc<Self>,
        deep: bool,
        mut progress: impl FnMut(u64, u64),
    ) -> BlueResult<Vec<Damage>> {
        let mut seen = Seen::default();
        let all = {
            let _turn = self.locks.exclusive(b"collections".to_vec()).await;
            let collections: Vec<_> = self.state.borrow().collections.values().cloned().collect();
            // Memory and metadata agree as long as nothing happens.
            let _held = if self.read_only { Vec::new() } else { self.hold(&collections).await? };
            self.check_metadata(&mut seen).await?
        };
        if deep {
            let (mut done, mut pages) = (0, self.pages(key::all_of(space::OBJECT)));
            while let Some((key, value)) = pages.next().await? {
                let Some(id) = key::parse_object(&key) else { continue };
                let size = object::decode(&value).map_or(0, |(head, _)| u64::from(head.size));
                // Objects come and go meanwhile.
                self.check_data(&mut seen, &id, |bytes| progress(all.min(done + bytes.min(size)), all)).await;
                done += size;
            }
        }
        Ok(seen.damage)
    }

    /// Returns the bytes of all objects.
    pub(crate) async fn check_metadata(&self, seen: &mut Seen) -> BlueResult<u64> {
        let bytes = self.check_objects(seen).await?;
        self.check_strays(seen).await?;
        self.check_shared(seen).await?;
        self.check_deferred(seen).await?;
        self.check_zones(seen).await?;
        Ok(bytes)
    }

    /// Objects and their shards. Returns the bytes of all.
    async fn check_objects(&self, seen: &mut Seen) -> BlueResult<u64> {
        let (mut bytes, mut pages) = (0, self.pages(key::all_of(space::OBJECT)));
        while let Some((key, value)) = pages.next().await? {
            let Some(id) = key::parse_object(&key) else {
                seen.add("metadata", "a key of an object makes no sense");
                seen.mend.delete(key);
                continue;
            };
            let number = object::decode(&value).map(|(head, _)| head.number);
            if number.is_some_and(|number| !seen.numbers.insert(number)) {
                seen.add_of(&id, "another object has its number");
            }
            if self.state.borrow().collection_of(id.pool, id.hash).is_none() {
                seen.add_of(&id, "no collection has it");
            }
            match self.check_object(seen, &id).await {
                Ok(size) => {
                    if let Some(number) = number {
                        seen.usable.insert(number);
                    }
                    bytes += size;
                }
                Err(error) => {
                    seen.add_of(&id, error.to_string());
                    match error.is_senseless() {
                        true => {
                            seen.mend.delete(key);
                            seen.unusable.push(id);
                        }
                        false => drop(seen.failed.get_or_insert(error)),
                    }
                }
            }
        }
        Ok(bytes)
    }

    /// Reads all data of an object, which may have gone meanwhile.
    async fn check_data(&self, seen: &mut Seen, id: &ObjectId, mut progress: impl FnMut(u64)) {
        const STEP: u64 = 4 << 20;
        let mut from = 0;
        loop {
            match self.read(id, from, STEP).await {
                Ok(bytes) if bytes.is_empty() => return,
                Err(error) if error.kind == BlueErrorKind::NotFound => return,
                Ok(_) => {}
                Err(error) => seen.add_of(id, error.to_string()),
            }
            from += STEP;
            progress(from);
            if from > crate::transaction::OBJECT_MAX {
                return;
            }
        }
    }

    /// Returns its size; fails if it cannot be used.
    async fn check_object(&self, seen: &mut Seen, id: &ObjectId) -> BlueResult<u64> {
        let object = self.object(id, Shards::All).await?;
        let shards: Vec<_> =
            object.state.borrow().shards.iter().map(|(shard, slot)| (*shard, slot.extents.clone())).collect();
        let size = object.state.borrow().head.as_ref().map_or(0, |head| head.size);
        for (shard, extents) in shards {
            if extents.iter().any(|extent| extent.end() > size) {
                seen.add_of(id, "it has bytes behind its end");
            }
            let mut own = Vec::new();
            for (blob, needed) in needed_by_blob(&extents) {
                let (shared, deferred) = (blob.state.borrow().shared, blob.state.borrow().deferred);
                if !is_covered(&blob, &needed) {
                    seen.add_of(id, UNCOVERED);
                }
                seen.deferred.extend(deferred);
                match shared {
                    Some(number) => seen.needed.entry(number).or_insert_with(|| (blob, Vec::new())).1.push(needed),
                    None => own.push(blob),
                }
            }
            seen.holds(&Holder::Object(id.clone(), shard), &own);
        }
        Ok(u64::from(size))
    }

    /// Shards and omaps belong to objects.
    async fn check_strays(&self, seen: &mut Seen) -> BlueResult<()> {
        let mut stray: BTreeSet<Option<u64>> = BTreeSet::new();
        for space in [space::SHARD, space::OMAP] {
            let mut pages = self.pages(key::all_of(space));
            while let Some((key, _)) = pages.next().await? {
                let of = match space {
                    space::SHARD => key::parse_shard(&key).map(|(of, _)| of),
                    _ => key::parse_omap(&key).map(|(of, _)| of),
                };
                if of.is_none_or(|of| !seen.usable.contains(&of)) {
                    seen.mend.delete(key);
                }
                if of.is_none_or(|of| !seen.numbers.contains(&of)) {
                    stray.insert(of);
                }
            }
        }
        for of in stray {
            seen.add("metadata", format!("a shard or an omap is of object number {of:?}, which is not there"));
        }
        Ok(())
    }

    /// Counts of references are those of the holders.
    async fn check_shared(&self, seen: &mut Seen) -> BlueResult<()> {
        let mut pages = self.pages(key::all_of(space::SHARED));
        while let Some((key, value)) = pages.next().await? {
            let number = key::parse_shared(&key);
            let Some((number, blob)) = number.and_then(|number| Some((number, values::decode_shared(number, &value)?)))
            else {
                seen.add("metadata", "a shared blob makes no sense");
                seen.mend.delete(key);
                continue;
            };
            let who = format!("shared blob {number}");
            let mut counts = crate::blob::ranges::Counts::default();
            for needed in seen.needed.remove(&number).map(|(_, needed)| needed).unwrap_or_default() {
                counts.change(&needed, 1);
            }
            let used = counts.used();
            if counts != blob.state.borrow().counts {
                seen.add(&who, "its counts of references are not those of its holders");
                blob.state.borrow_mut().counts = counts;
                blob.state.borrow_mut().keep(&used);
                match used.is_empty() {
                    true => seen.mend.delete(key),
                    false => seen.mend.put(key, values::encode_shared(&blob)),
                }
            }
            if !is_covered(&blob, &used) {
                seen.add(&who, UNCOVERED);
            }
            seen.holds(&Holder::Shared(number), [&Rc::new(blob)]);
        }
        for number in std::mem::take(&mut seen.needed).into_keys() {
            seen.add(format!("shared blob {number}"), "it has holders, and is not there");
        }
        Ok(())
    }

    async fn check_deferred(&self, seen: &mut Seen) -> BlueResult<()> {
        let mut pages = self.pages(key::all_of(space::DEFERRED));
        while let Some((key, _)) = pages.next().await? {
            let number = key::parse_deferred(&key);
            if !number.is_some_and(|number| seen.deferred.remove(&number)) {
                seen.add("metadata", format!("deferred write {number:?} belongs to nobody"));
                seen.mend.delete(key);
            }
        }
        for number in std::mem::take(&mut seen.deferred) {
            seen.add("metadata", format!("deferred write {number} is missing"));
        }
        Ok(())
    }

    /// Holders in zones by the objects, and by namespace `G`: of those zones alone in which they are not the same.
    async fn differing_holders(&self, seen: &mut Seen) -> BlueResult<(Holders, Holders)> {
        let mut pages = self.pages(key::all_of(space::LIVE));
        while let Some((key, _)) = pages.next().await? {
            if let Some((zone, _)) = key::parse_live(&key) {
                seen.prints.find(zone, &key);
            }
        }
        let (gathered, mut known) = (seen.prints.differ(), Holders::new());
        if gathered.is_empty() {
            return Ok((Holders::new(), known));
        }
        for zone in &gathered {
            let mut pages = self.pages(key::live_in(*zone));
            while let Some((key, _)) = pages.next().await? {
                known.extend(key::parse_live(&key));
            }
        }
        // All else that is wrong has been told.
        let mut again = Seen { gathered, ..Seen::default() };
        self.check_objects(&mut again).await?;
        self.check_shared(&mut again).await?;
        // Holders that this pass alone did not see would pass for none.
        again.failed.map_or(Ok((again.held, known)), Err)
    }

    /// Live blocks and holders of zones are those of the objects.
    async fn check_zones(&self, seen: &mut Seen) -> BlueResult<()> {
        let (held, known) = self.differing_holders(seen).await?;
        for (zone, holder) in held.difference(&known) {
            seen.add_holder(holder, format!("the metadata do not say that it has blocks in data zone {zone}"));
            seen.mend.put(key::live(*zone, holder), Vec::new());
        }
        for (zone, holder) in known.difference(&held) {
            let text = format!("the metadata say that it has blocks in data zone {zone}, and it has none");
            seen.add_holder(holder, text);
            seen.mend.delete(key::live(*zone, holder));
        }
        let mut pages = self.pages(key::all_of(space::ZONE));
        while let Some((key, value)) = pages.next().await? {
            let Some((zone, value)) = key::parse_zone(&key).zip(ZoneValue::decode(&value)) else {
                seen.add("metadata", "a zone makes no sense");
                continue;
            };
            let live = seen.live.remove(&zone).unwrap_or(0);
            let who = format!("data zone {zone}");
            if !value.used && live > 0 || value.used && u64::from(value.live) != live {
                seen.add(&who, format!("{live} of its blocks are needed, and the metadata count {}", value.live));
                if let Ok(live) = u32::try_from(live) {
                    seen.mend.put(key, ZoneValue { used: true, live, ..value }.encode());
                }
            }
            if value.used && value.end < value.live {
                seen.add(&who, "it has more live blocks than blocks");
            }
        }
        for zone in std::mem::take(&mut seen.live).into_keys() {
            seen.add(format!("data zone {zone}"), "it has live blocks, and the metadata do not know it");
        }
        Ok(())
    }

    /// Data zones, in order.
    pub(crate) fn dump(&self) -> Vec<ZoneDump> {
        let name = |status| match status {
            Status::Free => "free",
            Status::Open => "open",
            Status::Closed => "closed",
            Status::Dead => "dead",
        };
        let state = self.state.borrow();
        let zones = state.zones.iter().map(|(zone, entry)| ZoneDump {
            zone: zone.0,
            state: name(entry.status),
            epoch: entry.epoch,
            written: entry.next,
            live: entry.live,
            broken: entry.broken,
        });
        zones.collect()
    }

    /// Keys of the metadata, in words.
    pub(crate) async fn dump_metadata(&self, from: &[u8], limit: usize) -> BlueResult<Vec<(Bytes, String)>> {
        let range = Bytes::copy_from_slice(from)..Bytes::from_static(&[u8::MAX]);
        let pairs = self.kv.scan(range, Order::Forward, limit).await?;
        Ok(pairs.into_iter().map(|(key, value)| (key.clone(), in_words(&key, &value))).collect())
    }
}

fn in_words(key: &[u8], value: &Bytes) -> String {
    let bytes = value.len();
    let words = match key.first().copied() {
        Some(space::COLLECTION) => key::parse_collection(key)
            .zip(values::decode_collection(value))
            .map(|(id, bits)| format!("collection {id}, {bits} bits")),
        Some(space::OBJECT) => key::parse_object(key).zip(object::decode(value)).map(|(id, (head, _))| {
            format!("object {id}: number {}, {} bytes, {} attributes", head.number, head.size, head.attributes.len())
        }),
        Some(space::SHARD) => key::parse_shard(key).map(|(of, shard)| format!("shard {shard} of object number {of}")),
        Some(space::OMAP) => {
            key::parse_omap(key).map(|(of, name)| format!("omap of object number {of}: {}", name.escape_ascii()))
        }
        Some(space::SHARED) => key::parse_shared(key).map(|number| format!("shared blob {number}")),
        Some(space::LIVE) => key::parse_live(key).map(|(zone, holder)| format!("data zone {zone}: {}", shown(&holder))),
        Some(space::ZONE) => key::parse_zone(key)
            .zip(ZoneValue::decode(value))
            .map(|(zone, value)| format!("data zone {zone}: {value:?}")),
        Some(space::DEFERRED) => key::parse_deferred(key)
            .zip(values::decode_deferred(value))
            .map(|(number, (id, shard, _))| format!("deferred write {number} of object {id}, shard {shard}")),
        _ => None,
    };
    words.map_or_else(|| format!("{} ({bytes} bytes)", key.escape_ascii()), |words| format!("{words} ({bytes} bytes)"))
}
