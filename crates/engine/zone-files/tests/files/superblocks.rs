//! ZF-SB-1: the superblock's two zones, either of which may be lost, for a while or for good.

use std::rc::Rc;

use shingle_base::{Blocks, Lba, StoreId, ZoneId};
use shingle_record::{MetaLog, MetaLogConfig, SequenceSource, read_superblock_copies, write_superblock};
use shingle_runtime::{Runtime, UnixTime};
use shingle_sim::{Medium, Random, Sim, SimDevice, seeds};
use shingle_zone_files::{ENGINE, FileKind, FilesErrorKind, FormatOptions, Options, ZoneFiles};
use shingle_zoned::{Geometry, MemoryDevice, ZoneState, ZonedDevice};

use crate::common::{bytes, device, format, of, open, survival};

/// Harm to a zone of superblocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Harm {
    /// It cannot be read, until it is healed or written again.
    Unreadable,
    /// It cannot be read at the first tries.
    Passing,
    Rotten,
    /// One of its copies.
    HalfRotten,
    ReadOnly,
    Offline,
}

const HARMS: [Harm; 6] =
    [Harm::Unreadable, Harm::Passing, Harm::Rotten, Harm::HalfRotten, Harm::ReadOnly, Harm::Offline];

/// So much rot that some of it hits the record.
fn spoil(medium: &Medium, at: Lba) {
    (0..300).for_each(|seed| medium.rot(at, seed));
}

pub(crate) fn drawn(random: &mut Random) -> Harm {
    HARMS[random.below(HARMS.len() as u64) as usize]
}

pub(crate) fn harm(medium: &Medium, geometry: &Geometry, zone: ZoneId, harm: Harm) {
    let at = geometry.start_of(zone);
    match harm {
        Harm::Unreadable => medium.fail_reads(at, Blocks(2), None),
        Harm::Passing => medium.fail_reads(at, Blocks(2), Some(7)),
        Harm::Rotten => (0..2).for_each(|block| spoil(medium, at + Blocks(block))),
        Harm::HalfRotten => spoil(medium, at),
        Harm::ReadOnly => medium.set_state(zone, ZoneState::ReadOnly),
        Harm::Offline => medium.set_state(zone, ZoneState::Offline),
    }
}

/// A drive with files, and its zones of superblocks.
async fn drive(rt: &Runtime, seed: u64) -> (SimDevice, [ZoneId; 2]) {
    let conventional = seed as u32 % 3;
    let geometry = match seed % 2 {
        0 => Geometry::hm_smr(Blocks(40), 30, conventional, 8),
        _ => Geometry { volatile_cache: seed % 4 == 1, ..Geometry::zns(Blocks(40), Blocks(36), 30, 5, 5) },
    };
    let device = format(rt, &geometry).await;
    let (files, _) = open(rt, &device).await.unwrap();
    for kind in [FileKind::Wal, FileKind::Sst, FileKind::Other] {
        let file = files.create(&format!("{kind:?}"), of(kind)).await.unwrap();
        file.append(bytes("some bytes")).await.unwrap();
        file.sync().await.unwrap();
    }
    let first = geometry.conventional_zones;
    (device, [ZoneId(first), ZoneId(first + 1)])
}

async fn holds_all(files: &ZoneFiles) -> bool {
    let mut good = files.walk().len() == 3;
    for (path, _) in files.walk() {
        good &= files.open_file(&path).unwrap().read(0, 100).await.unwrap() == "some bytes";
    }
    good
}

/// Good copies in a zone.
async fn copies(device: &SimDevice, zone: ZoneId) -> usize {
    let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
    read_superblock_copies(&shared, zone).await.map_or(0, |(_, bad)| 2 - bad.len())
}

/// ZF-SB-1.
#[test]
fn either_zone_of_superblocks_is_enough_and_the_other_is_made_anew() {
    for seed in 0..12 {
        for (which, what) in HARMS.into_iter().flat_map(|what| [(0, what), (1, what)]) {
            Sim::new(seed).run(move |rt| async move {
                let context = format!("seed {seed}, zone {which}, {what:?}");
                let (device, zones) = drive(&rt, seed).await;
                let (store, medium) =
                    (ZoneFiles::identify(&(Rc::new(device.clone()) as _)).await.unwrap(), device.kill());
                harm(&medium, device.geometry(), zones[which], what);
                let next = SimDevice::resume(&rt, medium);
                let shared: Rc<dyn ZonedDevice> = Rc::new(next.clone());
                let found = ZoneFiles::identify(&shared).await;
                assert_eq!(found.as_ref(), Ok(&store), "{context}");
                let before = next.counts();
                let examined = ZoneFiles::examine(&rt, shared.clone(), Options::default()).await;
                let (files, _) = examined.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert!(holds_all(&files).await, "{context}");
                assert_eq!(next.counts().writes, before.writes, "{context}: it was to be read alone");
                let (files, report) = open(&rt, &next).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                let told = report.mended.iter().all(|(zone, _)| *zone == zones[which]);
                assert!(
                    told && (report.mended.is_empty() == matches!(what, Harm::ReadOnly | Harm::Passing)),
                    "{context}: {report:?}"
                );
                assert!(holds_all(&files).await, "{context}");
                let lasts = what == Harm::Offline;
                assert_eq!(copies(&next, zones[which]).await, if lasts { 0 } else { 2 }, "{context}");
                assert_eq!(copies(&next, zones[1 - which]).await, 2, "{context}");
                files.close().await.unwrap();
                if !lasts {
                    let medium = next.kill();
                    harm(&medium, device.geometry(), zones[1 - which], Harm::Offline);
                    let (files, _) = open(&rt, &SimDevice::resume(&rt, medium)).await.unwrap();
                    assert!(holds_all(&files).await, "{context}, later the other");
                }
            });
        }
    }
}

/// A drive that cannot be read is not one without files; and it opens as soon as one of the zones can be read again.
#[test]
fn zones_that_cannot_be_read_are_not_taken_for_missing() {
    for seed in 0..4 {
        Sim::new(seed).run(move |rt| async move {
            let (device, zones) = drive(&rt, seed).await;
            let (geometry, medium) = (device.geometry().clone(), device.kill());
            zones.iter().for_each(|zone| harm(&medium, &geometry, *zone, Harm::Unreadable));
            let next = SimDevice::resume(&rt, medium);
            let shared: Rc<dyn ZonedDevice> = Rc::new(next.clone());
            let errors = [
                ZoneFiles::identify(&shared).await.map(drop).unwrap_err(),
                open(&rt, &next).await.map(drop).unwrap_err(),
                ZoneFiles::format(&rt, shared.clone(), FormatOptions::default()).await.map(drop).unwrap_err(),
            ];
            for error in errors {
                assert!(error.kind == FilesErrorKind::Device && !error.message.contains("format"), "{error}");
            }
            next.medium().heal();
            harm(next.medium(), &geometry, zones[0], Harm::Offline);
            let refused = ZoneFiles::format(&rt, shared, FormatOptions::default()).await.map(drop).unwrap_err();
            assert!(refused.message.contains("the drive holds a store"), "{refused}");
            let (files, _) = open(&rt, &next).await.unwrap();
            assert!(holds_all(&files).await);
        });
    }
}

/// ZF-SB-1: the power fails at every command of an opening that makes copies anew.
#[test]
fn a_cut_while_superblocks_are_made_anew_loses_nothing() {
    let mut cuts = 0;
    for seed in seeds(8) {
        for (which, what) in HARMS.into_iter().flat_map(|what| [(0, what), (1, what)]) {
            cuts += Sim::new(seed).run(move |rt| async move {
                let (device, zones) = drive(&rt, seed).await;
                let medium = device.kill();
                harm(&medium, device.geometry(), zones[which], what);
                if seed % 2 == 0 {
                    // Half of the other one, too.
                    harm(&medium, device.geometry(), zones[1 - which], Harm::HalfRotten);
                }
                let next = SimDevice::resume(&rt, medium);
                let drawn = survival(&mut Random::new(seed), next.geometry());
                let cuts = next.cut_at_every_command(seed, drawn);
                open(&rt, &next).await.unwrap();
                next.on_command(|_, _| {});
                let images = cuts.take();
                let count = images.len();
                for (command, image) in images {
                    let context = format!("seed {seed}, zone {which}, {what:?}, cut at {command:?}");
                    let again = SimDevice::new(&rt, &image);
                    let (files, _) = open(&rt, &again).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                    assert!(holds_all(&files).await, "{context}");
                }
                count
            });
        }
    }
    assert!(cuts > 300 || std::env::var_os("SHINGLE_SEED").is_some(), "only {cuts} cuts");
}

/// A format that is cut short leaves no store, or the whole one; over an earlier one, the earlier or none that opens.
#[test]
fn a_cut_of_a_format_leaves_no_half_store() {
    for seed in seeds(20) {
        Sim::new(seed).run(move |rt| async move {
            let geometry = crate::common::geometry(&mut Random::new(seed));
            let device = device(&rt, &geometry);
            let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
            let drawn = survival(&mut Random::new(seed), &geometry);
            let cuts = device.cut_at_every_command(seed, drawn);
            let store = ZoneFiles::format(&rt, shared.clone(), FormatOptions::default()).await.unwrap();
            device.on_command(|_, _| {});
            for (command, image) in cuts.take() {
                let cut: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &image));
                match ZoneFiles::identify(&cut).await {
                    Ok(found) => {
                        assert_eq!(found, store, "seed {seed}, cut at {command:?}");
                        ZoneFiles::open(&rt, cut, Options::default()).await.unwrap();
                    }
                    Err(error) => {
                        assert!(error.message.contains("holds no files"), "seed {seed}, {command:?}: {error}")
                    }
                }
            }
            let cuts = device.cut_at_every_command(seed, drawn);
            let force = FormatOptions { force: true, ..FormatOptions::default() };
            let later = ZoneFiles::format(&rt, shared, force).await.unwrap();
            device.on_command(|_, _| {});
            for (command, image) in cuts.take() {
                let cut: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &image));
                if let Ok((files, _)) = ZoneFiles::open(&rt, cut, Options::default()).await {
                    assert!([store, later].contains(&files.store()), "seed {seed}, cut at {command:?}");
                }
            }
        });
    }
}

/// Stores of version 1 have one zone of superblocks: they are read and written, and stay as they are.
#[test]
fn a_store_of_version_1_stays_as_it_is() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(64), 40, 0, 8)));
        device.set_latency(std::time::Duration::ZERO);
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        let config = MetaLogConfig { store: StoreId(9), zones: 1..10, zone_kind: 0x05FF, read_depth: 1 };
        MetaLog::format(&rt, &shared, config, SequenceSource::default()).await.unwrap();
        let mut payload = Vec::new();
        [64_u64, 64].iter().for_each(|number| payload.extend(number.to_le_bytes()));
        [40_u32, 9, 8, 0].iter().for_each(|number| payload.extend(number.to_le_bytes()));
        let superblock = shingle_record::Superblock {
            store: StoreId(9),
            engine: ENGINE,
            version: 1,
            formatted: UnixTime { nanos: 1 },
            payload: payload.into(),
        };
        write_superblock(&shared, ZoneId(0), &superblock).await.unwrap();
        let (files, report) = open(&rt, &device).await.unwrap();
        assert_eq!((files.store(), files.data_zones(), report.mended), (StoreId(9), 10..40, vec![]));
        for number in 0..60 {
            let file = files.create(&format!("f{number}"), of(FileKind::Sst)).await.unwrap();
            file.append(bytes("some bytes")).await.unwrap();
            file.sync().await.unwrap();
        }
        files.checkpoint().await.unwrap();
        files.close().await.unwrap();
        spoil(device.medium(), device.geometry().start_of(ZoneId(0)));
        let (files, report) = open(&rt, &device).await.unwrap();
        assert_eq!((files.walk().len(), report.mended), (60, vec![(ZoneId(0), 0)]));
        assert_eq!(copies(&device, ZoneId(0)).await, 1, "it is not made anew: there is no other zone");
        device.medium().set_state(ZoneId(0), ZoneState::Offline);
        assert_eq!(open(&rt, &device).await.map(drop).unwrap_err().kind, FilesErrorKind::Device);
    });
}
