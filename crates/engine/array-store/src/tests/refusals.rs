//! Refusals of an array, and drives it gives up, by rules that need a state which no call brings about.

use shingle_record::{Expect, HEADER_SIZE, Header, frame};
use shingle_zoned::ZonedDevice;

use super::*;
use crate::format::{DriveState, SUPERBLOCK, Update, VERSION_MIN, encode_piece};
use crate::inspect;

/// AS-READMIT-1 relies on it: a set is reset while a drive is away. The drive is given up where it, with others gone by
/// then, could be believed about what the set held; where too few could be gone for that it stays.
#[test]
fn a_drive_that_is_away_while_a_set_is_reset_is_given_up_where_it_could_be_believed_later() {
    for (data, parity, given_up) in [(2, 1, true), (3, 1, false), (3, 2, true), (4, 2, false), (4, 3, true)] {
        Sim::new(1).run(move |rt| async move {
            let (devices, _) = fresh_of(&rt, Code::new(data, parity).unwrap()).await;
            let images = crash(&devices);
            let (_, store, report) = open(&rt, &images[1..]).await;
            assert_eq!((report.missing_drives.len(), report.damage), (1, vec![]));
            let state = |store: &ArrayStore| store.0.drives.entries()[0].state;
            assert_eq!(state(&store), DriveState::Present, "{data}+{parity}: being away is no failure");
            let (_, set) = store.0.sets.of(List::Empty).next().unwrap();
            store.0.reset_zones(&set).await.unwrap();
            let expected = if given_up { DriveState::Failed } else { DriveState::Present };
            assert_eq!(state(&store), expected, "{data}+{parity}");
        });
    }
}

/// A superblock as an older version has it: without its later fields, and with all sets in order.
fn payload_of_version(version: u32, payload: &[u8]) -> Vec<u8> {
    let Update { superblock, base, changes } = Update::decode(payload).unwrap().unwrap();
    assert_eq!(base, None, "a superblock with all sets");
    let mut old = superblock.encode(None, &[]);
    // The base that there is none of, and the number of changes.
    old.truncate(old.len() - 28);
    // The generation of the buffer, the number of copies, and what was lost.
    old.drain(67..84);
    let sets: Vec<_> = changes.into_iter().map(|(_, set)| set).collect();
    // The list of a piece, without its version and the number of the first set.
    old.extend_from_slice(&encode_piece(SetId(0), &sets, superblock.code.width())[8..]);
    old[..4].copy_from_slice(&version.to_le_bytes());
    assert_eq!(Update::decode(&old).unwrap().unwrap().superblock.sets, sets);
    old
}

/// Puts the newest superblock of each drive there again as an older version has it.
fn as_of_version(images: &[MemoryDevice], version: u32) {
    for image in images {
        let mut found = Vec::new();
        for zone in [ZoneId(0), ZoneId(1)] {
            let start = image.geometry().start_of(zone);
            let mut block = Blocks(0);
            while block < image.zone(zone).written {
                let bytes = image.read_now(start + block, Blocks(1)).unwrap();
                let header = Header::decode(&bytes, &Expect::default()).unwrap();
                if header.kind == SUPERBLOCK {
                    found.push((header.sequence, start + block));
                }
                block += header.blocks();
            }
        }
        let (_, at) = found.into_iter().max().expect("a superblock on each drive");
        let bytes = image.read_now(at, Blocks(1)).unwrap();
        let header = Header::decode(&bytes, &Expect::default()).unwrap();
        assert_eq!(header.blocks(), Blocks(1));
        let payload = payload_of_version(version, &bytes[HEADER_SIZE..HEADER_SIZE + header.length as usize]);
        let old = frame(SUPERBLOCK, &header.place, header.sequence, header.info, &[&payload]);
        image.corrupt(at, |bytes| bytes.copy_from_slice(&old));
    }
}

/// Versions 3 and 4 do not say where sets that were open end: they are read if the array was closed in order, and
/// refused otherwise.
#[test]
fn old_versions_are_read_if_they_were_closed_and_refused_if_they_were_not() {
    for version in [VERSION_MIN, VERSION_MIN + 1] {
        for closed in [true, false] {
            let images = Sim::new(1).run(move |rt| async move {
                let (devices, store) = fresh(&rt).await;
                store.put("o", bytes(1, 19_000), Bytes::new()).await.unwrap();
                if closed {
                    store.close().await.unwrap();
                }
                let images = crash(&devices);
                as_of_version(&images, version);
                images
            });
            Sim::new(2).run(move |rt| async move {
                let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
                let before: Vec<_> = images.iter().map(|image| image.zone(ZoneId(0)).written).collect();
                let options = Options { background: false, available_sets: 3, ..Options::default() };
                let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await;
                if closed {
                    let (store, report) = opened.unwrap();
                    assert_eq!(report.damage, Vec::<String>::new());
                    assert!(store.get("o").await.unwrap() == bytes(1, 19_000));
                    return;
                }
                let Err(error) = opened else { panic!("version {version} was opened") };
                assert_eq!(error.kind, ErrorKind::Format);
                let says = [format!("version {version}"), "not closed in order".to_owned()];
                assert!(says.iter().all(|part| error.message.contains(part)), "{error}");
                // It is left as it is, for the version that can open it.
                let after: Vec<_> = devices.iter().map(|device| device.image().zone(ZoneId(0)).written).collect();
                assert_eq!(before, after);
                assert!(inspect(&named(&devices)).await.is_ok());
            });
        }
    }
}
