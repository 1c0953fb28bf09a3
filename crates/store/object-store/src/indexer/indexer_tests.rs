use std::collections::BTreeSet;

use bytes::Bytes;

use super::*;
use crate::format::{Attributes, BlobRef, Manifest};
use crate::index::{MemoryIndex, Step, View};

/// A small generator: shuffles need no better.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

const FILES: u64 = 6;

/// A history as the engine writes it: entries with their places, in the order of their versions.
struct History {
    random: Random,
    entries: Vec<(u64, Body, Location)>,
    version: u64,
    offset: u64,
    live: BTreeSet<String>,
    uploads: Vec<(u64, String, Vec<BlobRef>)>,
}

impl History {
    fn new(seed: u64) -> Self {
        let random = Random(seed);
        let mut history =
            Self { random, entries: Vec::new(), version: 0, offset: 0, live: BTreeSet::new(), uploads: Vec::new() };
        history.write(Body::BucketCreate { bucket: "b".to_owned(), created_unix_ns: 1 });
        history
    }

    fn next(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn write(&mut self, body: Body) -> u64 {
        let version = self.next();
        self.write_as(version, body);
        version
    }

    fn write_as(&mut self, version: u64, body: Body) {
        let file = 1 + self.random.below(FILES);
        self.offset += 1000;
        let data = if Body::carries_data(body.kind()) { 1 + self.random.below(500) as u32 } else { 0 };
        self.entries.push((version, body, Location { file, ordinal: 0, offset: self.offset, head: 100, data }));
    }

    fn attributes(&self) -> Attributes {
        Attributes { modified_unix_ns: self.version, etag: self.version.to_string(), metadata: Default::default() }
    }

    fn blob(&mut self, number: u32) -> BlobRef {
        let blob = self.next();
        let segments = self.random.below(4);
        for index in 0..segments {
            self.write_as(blob, Body::Segment { blob, index: index as u32 });
        }
        BlobRef { blob, number, segment_bytes: 10, size: segments * 10 }
    }

    fn commit(&mut self, key: String, manifest: Manifest) {
        let attributes = self.attributes();
        self.write(Body::Commit { bucket: "b".to_owned(), key: key.clone(), attributes, manifest });
        self.live.insert(key);
    }

    fn step(&mut self) {
        let key = format!("k{}", self.random.below(5));
        let bucket = "b".to_owned();
        let attributes = self.attributes();
        match self.random.below(10) {
            0..3 => {
                self.write(Body::Put { bucket, key: key.clone(), attributes });
                self.live.insert(key);
            }
            3 => {
                let blobs = vec![self.blob(0)];
                self.commit(key, Manifest { multipart: false, blobs });
            }
            4 => drop(self.blob(0)),
            5 if self.live.remove(&key) => drop(self.write(Body::Delete { bucket, key })),
            6 => {
                let upload = self.write(Body::UploadBegin { bucket, key: key.clone(), attributes });
                self.uploads.push((upload, key, Vec::new()));
            }
            7..9 if !self.uploads.is_empty() => {
                let at = self.random.below(self.uploads.len() as u64) as usize;
                let number = 1 + self.random.below(3) as u32;
                let part = self.blob(number);
                let upload = self.uploads[at].0;
                self.write(Body::PartCommit { upload, part, attributes });
                self.uploads[at].2.retain(|other| other.number != number);
                self.uploads[at].2.push(part);
            }
            9 if !self.uploads.is_empty() => {
                let at = self.random.below(self.uploads.len() as u64) as usize;
                let (upload, key, mut parts) = self.uploads.swap_remove(at);
                if self.random.below(2) == 0 && !parts.is_empty() {
                    parts.sort_by_key(|part| part.number);
                    // Not all parts need to be named.
                    parts.truncate(2);
                    let manifest = Manifest { multipart: true, blobs: parts };
                    // The first answer may have been an error, and the caller have tried again.
                    for _ in 0..=self.random.below(2) {
                        self.commit(key.clone(), manifest.clone());
                    }
                }
                self.write(Body::UploadEnd { upload });
            }
            _ => {}
        }
    }
}

fn indexer() -> (MemoryIndex, Indexer) {
    let index = MemoryIndex::new();
    let mut indexer = Indexer::load(Arc::new(index.clone())).unwrap();
    let commands = (1..=FILES).map(|file| Command::AddFile { file, store: 1, first: 0 }).collect();
    indexer.apply(Group { commands, ..Group::default() }).unwrap();
    (index, indexer)
}

/// OS-INX-6: an opening applies entries that it found, and hands out no numbers.
#[test]
fn numbers_of_entries_that_were_found_are_known_to_the_next_opening() {
    let (index, mut indexer) = indexer();
    let delete = Body::Delete { bucket: "b".to_owned(), key: "k".to_owned() };
    let location = Location { file: 1, ordinal: 0, offset: 0, head: 64, data: 0 };
    let command = Command::Entry { version: 77, body: delete, location };
    indexer.apply(Group { commands: vec![command], ..Group::default() }).unwrap();
    drop(indexer);
    assert_eq!(Indexer::load(Arc::new(index)).unwrap().totals().sequence, 78);
}

fn apply_all(indexer: &mut Indexer, entries: &[(u64, Body, Location)], group: usize) {
    for entries in entries.chunks(group) {
        let command = |(version, body, location): &(u64, Body, Location)| Command::Entry {
            version: *version,
            body: body.clone(),
            location: *location,
        };
        indexer.apply(Group { commands: entries.iter().map(command).collect(), ..Group::default() }).unwrap();
    }
}

fn finish(indexer: &mut Indexer) {
    indexer.finish_recovery(Extent { rebuilt: true, incomplete: false, lists_loose: true }).unwrap();
    for blob in indexer.dead_blobs().unwrap() {
        loop {
            let group = Group { commands: vec![Command::Purge { blob, limit: 2 }], ..Group::default() };
            if indexer.apply(group).unwrap().effects == [Effect::More(false)] {
                break;
            }
        }
    }
}

fn contents(index: &MemoryIndex) -> Vec<(Space, Vec<u8>, Bytes)> {
    let mut all = Vec::new();
    for space in Space::ALL {
        index
            .scan(space, b"", &mut |key, value| {
                all.push((space, key.to_vec(), value));
                crate::index::Step::Next
            })
            .unwrap();
    }
    all
}

/// OS-INX-1, OS-OBJ-3.
#[test]
fn entries_in_any_order_and_twice_give_the_same_index() {
    for seed in 0..150 {
        let mut history = History::new(seed);
        (0..60).for_each(|_| history.step());
        let entries = history.entries;
        let (index, mut in_order) = indexer();
        apply_all(&mut in_order, &entries, 1);
        finish(&mut in_order);

        let mut shuffled = entries.clone();
        let mut random = Random(seed + 7);
        for _ in 0..entries.len() / 3 {
            shuffled.push(entries[random.below(entries.len() as u64) as usize].clone());
        }
        for at in (1..shuffled.len()).rev() {
            shuffled.swap(at, random.below(at as u64 + 1) as usize);
        }
        let (other, mut out_of_order) = indexer();
        apply_all(&mut out_of_order, &shuffled, 1 + random.below(20) as usize);
        finish(&mut out_of_order);
        assert_eq!(in_order.totals(), out_of_order.totals(), "seed {seed}");
        assert_eq!(contents(&index), contents(&other), "seed {seed}");
        assert_eq!(in_order.files(), out_of_order.files(), "seed {seed}");
    }
}

/// OS-INX-3.
#[test]
fn live_bytes_are_the_lengths_of_what_records_point_to() {
    for seed in 0..100 {
        let mut history = History::new(seed);
        (0..80).for_each(|_| history.step());
        let (_, mut indexer) = indexer();
        apply_all(&mut indexer, &history.entries, 5);
        finish(&mut indexer);
        let mut needed: BTreeMap<u64, u64> = BTreeMap::new();
        for (version, body, location) in &history.entries {
            let judge =
                Command::Judge { version: *version, body: body.clone(), location: *location, collecting: false };
            let outcome = indexer.apply(Group { commands: vec![judge], ..Group::default() }).unwrap();
            if outcome.effects == [Effect::Needed(true)] {
                *needed.entry(location.file).or_default() += location.length();
            }
        }
        for (file, record) in indexer.files() {
            assert_eq!(record.live_bytes, needed.get(file).copied().unwrap_or(0), "seed {seed} file {file}");
        }
    }
}

fn run(indexer: &mut Indexer, command: Command) -> Effect {
    indexer.apply(Group { commands: vec![command], ..Group::default() }).unwrap().effects[0]
}

fn entry(version: u64, body: &Body, file: u64) -> Command {
    Command::Entry { version, body: body.clone(), location: at(version, file) }
}

fn at(version: u64, file: u64) -> Location {
    Location { file, ordinal: 0, offset: version * 100, head: 60, data: 0 }
}

/// OS-INX-4.
#[test]
fn a_grave_stays_until_no_file_holds_what_it_buries() {
    let (_, mut indexer) = indexer();
    let (bucket, key) = ("b".to_owned(), "k".to_owned());
    let put = Body::Put { bucket: bucket.clone(), key: key.clone(), attributes: Attributes::default() };
    let delete = Body::Delete { bucket, key };
    run(&mut indexer, entry(1, &put, 1));
    run(&mut indexer, entry(2, &put, 2));
    run(&mut indexer, entry(3, &delete, 3));
    let judge = |indexer: &mut Indexer| {
        let location = at(3, 3);
        run(indexer, Command::Judge { version: 3, body: delete.clone(), location, collecting: true })
    };
    assert_eq!(judge(&mut indexer), Effect::Needed(true));
    for (file, needed) in [(2, true), (1, false)] {
        assert_eq!(run(&mut indexer, Command::Dropping { file }), Effect::Done);
        run(&mut indexer, Command::Dropped { file });
        assert_eq!(judge(&mut indexer), Effect::Needed(needed), "after file {file} is gone");
    }
    assert_eq!(indexer.files()[&3].live_bytes, 0);
}

#[test]
fn a_copy_of_what_was_replaced_meanwhile_is_buried_too() {
    let (_, mut indexer) = indexer();
    let (bucket, key) = ("b".to_owned(), "k".to_owned());
    let put = Body::Put { bucket: bucket.clone(), key: key.clone(), attributes: Attributes::default() };
    let delete = Body::Delete { bucket, key };
    run(&mut indexer, entry(1, &put, 1));
    run(&mut indexer, entry(2, &delete, 2));
    // GC read version 1 as needed, copied it to file 3, and says so only now.
    run(&mut indexer, Command::Move { version: 1, body: put, from: at(1, 1), to: at(1, 3) });
    run(&mut indexer, Command::Dropping { file: 1 });
    run(&mut indexer, Command::Dropped { file: 1 });
    let judge = Command::Judge { version: 2, body: delete, location: at(2, 2), collecting: true };
    assert_eq!(run(&mut indexer, judge), Effect::Needed(true), "file 3 holds a copy");
    assert_eq!(indexer.files()[&3].live_bytes, 0);
}

#[test]
fn an_entry_found_at_two_places_is_buried_at_both() {
    let (_, mut indexer) = indexer();
    let (bucket, key) = ("b".to_owned(), "k".to_owned());
    let put = Body::Put { bucket: bucket.clone(), key: key.clone(), attributes: Attributes::default() };
    let delete = Body::Delete { bucket, key };
    // An append that failed and had landed all the same, and its second try.
    run(&mut indexer, entry(1, &put, 1));
    run(&mut indexer, entry(1, &put, 2));
    assert_eq!((indexer.files()[&1].live_bytes, indexer.files()[&2].live_bytes), (60, 0));
    run(&mut indexer, entry(2, &delete, 3));
    run(&mut indexer, Command::Dropped { file: 1 });
    let judge = Command::Judge { version: 2, body: delete, location: at(2, 3), collecting: true };
    assert_eq!(run(&mut indexer, judge), Effect::Needed(true), "file 2 holds it, too");
}

#[test]
fn an_entry_that_gc_has_moved_is_buried_at_its_old_place_too() {
    let (_, mut indexer) = indexer();
    let (bucket, key) = ("b".to_owned(), "k".to_owned());
    let put = Body::Put { bucket: bucket.clone(), key: key.clone(), attributes: Attributes::default() };
    let delete = Body::Delete { bucket, key };
    run(&mut indexer, entry(1, &put, 1));
    run(&mut indexer, Command::Move { version: 1, body: put, from: at(1, 1), to: at(1, 2) });
    run(&mut indexer, entry(2, &delete, 3));
    // The copy goes first: a reader may have the old file pinned for long.
    run(&mut indexer, Command::Dropped { file: 2 });
    let judge = Command::Judge { version: 2, body: delete, location: at(2, 3), collecting: true };
    assert_eq!(run(&mut indexer, judge), Effect::Needed(true), "file 1 still holds the original");
}

#[test]
fn while_there_may_be_unknown_entries_no_grave_is_forgotten() {
    let (_, mut indexer) = indexer();
    let delete = Body::Delete { bucket: "b".to_owned(), key: "k".to_owned() };
    run(&mut indexer, entry(2, &delete, 3));
    run(&mut indexer, Command::KeepGraves);
    let judge = Command::Judge { version: 2, body: delete, location: at(2, 3), collecting: true };
    assert_eq!(run(&mut indexer, judge), Effect::Needed(true));
}

#[test]
fn a_file_with_live_entries_is_not_dropped() {
    let (_, mut indexer) = indexer();
    let put = Body::Put { bucket: "b".to_owned(), key: "k".to_owned(), attributes: Attributes::default() };
    run(&mut indexer, entry(1, &put, 1));
    assert_eq!(run(&mut indexer, Command::Dropping { file: 1 }), Effect::Refused(60));
    run(&mut indexer, Command::Move { version: 1, body: put, from: at(1, 1), to: at(1, 2) });
    assert_eq!(run(&mut indexer, Command::Dropping { file: 1 }), Effect::Done);
    assert!(indexer.files()[&1].dropping);
}

/// OS-INX-5: an opening finds an object, and behind it that its bucket is a later one, and is killed. The next one has nothing to read.
#[test]
fn what_is_older_than_its_bucket_goes_also_if_the_opening_that_found_it_was_killed() {
    for between in [false, true] {
        let (index, mut found) = indexer();
        let put = Body::Put { bucket: "b".to_owned(), key: "k".to_owned(), attributes: Attributes::default() };
        run(&mut found, entry(1, &put, 1));
        if between {
            found = Indexer::load(Arc::new(index.clone())).unwrap();
        }
        let create = Body::BucketCreate { bucket: "b".to_owned(), created_unix_ns: 1 };
        run(&mut found, entry(2, &create, 2));
        drop(found);
        for strays in [1, 0] {
            let mut indexer = Indexer::load(Arc::new(index.clone())).unwrap();
            let finished =
                indexer.finish_recovery(Extent { rebuilt: false, incomplete: false, lists_loose: true }).unwrap();
            assert_eq!(finished.strays, strays, "between {between}");
            let key = keys::Identity::Object("b".to_owned(), "k".to_owned()).key();
            assert_eq!(index.get(Space::Objects, &key).unwrap(), None, "between {between}");
        }
        // Nothing of it is kept for later openings.
        let mut left = Vec::new();
        let note = |key: &[u8], _| {
            left.push(key.to_vec());
            Step::Next
        };
        index.scan(Space::About, b"", &mut { note }).unwrap();
        assert_eq!(left, [keys::ABOUT_TOTALS.to_vec()], "between {between}");
    }
}

/// OS-INX-2: a power cut takes the index back by any number of batches. All that lies before a file's watermark is in it.
#[test]
fn a_watermark_comes_in_one_batch_with_what_is_before_it() {
    let (index, mut indexer) = indexer();
    let put = |key: u64| Body::Put { bucket: "b".to_owned(), key: key.to_string(), attributes: Attributes::default() };
    index.persist().unwrap();
    for version in 1..=9 {
        let indexed = vec![(1, Position { ordinal: 0, offset: at(version, 1).end() })];
        let commands = vec![entry(version, &put(version), 1)];
        indexer.apply(Group { commands, indexed, ..Group::default() }).unwrap();
    }
    let batches = index.unpersisted();
    for lost in 0..=batches {
        let left = index.fork();
        left.crash(lost);
        let indexed = Indexer::load(Arc::new(left.clone())).unwrap().files()[&1].indexed;
        for version in (1..=9).filter(|version| at(*version, 1).offset < indexed.offset) {
            let key = keys::Identity::Object("b".to_owned(), version.to_string()).key();
            assert!(left.get(Space::Objects, &key).unwrap().is_some(), "{version} is before {indexed:?}");
        }
    }
}

/// OS-INX-7: an index of an earlier build has no rows of loose blobs, and may have some that are out of date. The first opening makes them.
#[test]
fn loose_blobs_of_an_earlier_index_are_found_and_listed() {
    let (index, mut indexer) = indexer();
    let segment = |blob| Body::Segment { blob, index: 0 };
    run(&mut indexer, entry(1, &segment(7), 1));
    run(&mut indexer, entry(2, &segment(8), 1));
    let blobs = vec![BlobRef { blob: 8, number: 0, size: 5, segment_bytes: 5 }];
    let (manifest, attributes) = (Manifest { multipart: false, blobs }, Attributes::default());
    let commit = Body::Commit { bucket: "b".to_owned(), key: "k".to_owned(), attributes, manifest };
    run(&mut indexer, entry(3, &commit, 1));
    let owner = Owner { set: 1, stores: vec![1], lists_loose: false };
    indexer.set_owner(&owner).unwrap();
    assert_eq!(Owner::of(&index).unwrap(), Some(owner));
    let loose = |blob, value| crate::index::Batch { changes: vec![(Space::About, keys::loose(blob), value)] };
    index.apply(loose(7, None)).unwrap();
    index.apply(loose(8, Some(Vec::new()))).unwrap();
    let mut indexer = Indexer::load(Arc::new(index.clone())).unwrap();
    let extent = Extent { rebuilt: false, incomplete: false, lists_loose: false };
    assert_eq!(indexer.finish_recovery(extent).unwrap().orphan_blobs, 1);
    assert_eq!(indexer.dead_blobs().unwrap(), [7]);
    assert!(index.get(Space::About, &keys::loose(8)).unwrap().is_none(), "an object needs it");
    let owner = Owner { set: 1, stores: vec![1], lists_loose: true };
    indexer.set_owner(&owner).unwrap();
    assert_eq!(Owner::of(&index).unwrap(), Some(owner));
}
