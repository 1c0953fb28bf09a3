//! Superblocks of this and earlier versions, whole and in pieces.

use super::*;
use shingle_base::wire::COUNTER_END;

fn superblock(generation: u64, drives: u8) -> Superblock {
    let drive = |number: u8| DriveEntry {
        id: u64::from(number) + 9,
        state: DriveState::Present,
        reused: number == 1,
        zones: 12,
        zone_capacity: 60,
        superblock_zones: [ZoneId(0), ZoneId(1)],
        name: format!("d{number}"),
    };
    Superblock {
        version: VERSION,
        array: StoreId(7),
        generation,
        code: Code::new(2, 1).unwrap(),
        segment_length: 20_000,
        last_stamp: 9,
        clean: None,
        tombstone_floor: 0,
        opened: 0,
        buffer: BufferName { id: 11, generation: 12 },
        copies: 5,
        lost_before: 6,
        snapshot: Vec::new(),
        drives: (0..drives).map(drive).collect(),
        sets: Vec::new(),
    }
}

fn entry(zone: u32) -> Option<SetEntry> {
    let members = (0..3).map(|drive| Member { drive: DriveId(drive), zone: ZoneId(zone) }).collect();
    Some(SetEntry {
        state: SetState::Closed,
        members,
        live: 5,
        covered: 6,
        end: 7,
        length: u32::MAX,
        suspect: zone == 4,
    })
}

#[test]
fn counters_that_nobody_counted_to_are_damage() {
    let read = |superblock: &Superblock| Update::decode(&superblock.encode(None, &[])).unwrap();
    let most = COUNTER_END - 1;
    assert!(read(&Superblock { last_stamp: most, opened: most, lost_before: most, ..superblock(most, 3) }).is_some());
    let whole = superblock(3, 3);
    for bad in [
        Superblock { generation: COUNTER_END, ..whole.clone() },
        Superblock { last_stamp: u64::MAX, ..whole.clone() },
        Superblock { clean: Some(COUNTER_END), ..whole.clone() },
        Superblock { tombstone_floor: COUNTER_END, ..whole.clone() },
        Superblock { opened: COUNTER_END, ..whole.clone() },
        Superblock { buffer: BufferName { id: 1, generation: COUNTER_END }, ..whole.clone() },
        Superblock { lost_before: COUNTER_END, ..whole },
    ] {
        assert_eq!(read(&bad).map(|update| update.superblock), None, "{bad:?}");
    }
}

#[test]
fn versions_before_are_read_and_others_are_refused() {
    let of_version = |version: u32| {
        let mut bytes = Vec::new();
        superblock(3, 3).encode_fields(&mut bytes);
        if version < VERSION_LOSS {
            assert_eq!(bytes.drain(76..84).collect::<Vec<_>>(), 6_u64.to_le_bytes());
        }
        if version < VERSION_COPIES {
            assert_eq!(bytes.remove(75), 5);
        }
        if version < VERSION_BUFFER {
            assert_eq!(bytes.drain(67..75).collect::<Vec<_>>(), 12_u64.to_le_bytes());
        }
        if version >= VERSION_CHANGES {
            bytes.extend_from_slice(&[0; 24]);
        }
        // One set, which before version 7 had no number of its own.
        bytes.extend_from_slice(&1u32.to_le_bytes());
        if version >= VERSION_CHANGES {
            bytes.extend_from_slice(&[0; 4]);
        }
        put_set(&mut bytes, entry(4).as_ref());
        bytes[..4].copy_from_slice(&version.to_le_bytes());
        Update::decode(&bytes)
    };
    for version in VERSION_MIN..=VERSION {
        let update = of_version(version).unwrap().unwrap();
        let mut assembly = Assembly::of(update.base);
        assembly.update(update).unwrap();
        let buffer = BufferName { id: 11, generation: if version < VERSION_BUFFER { 0 } else { 12 } };
        let copies = if version < VERSION_COPIES { 0 } else { 5 };
        let lost_before = if version < VERSION_LOSS { 0 } else { 6 };
        let whole = Superblock { version, buffer, copies, lost_before, sets: vec![entry(4)], ..superblock(3, 3) };
        assert_eq!(assembly.end(), Some(whole), "version {version}");
    }
    assert_eq!((of_version(VERSION_MIN - 1), of_version(VERSION + 1)), (Err(VERSION_MIN - 1), Err(VERSION + 1)));
}

/// Superblock assembled from a base of two pieces and two superblocks behind it, without the part `leave_out` of these
/// four.
fn assembled(leave_out: usize) -> Option<Superblock> {
    let base = |follows| Some(Base { id: 40, block: 3, pieces: 2, follows });
    let mut assembly = Assembly::of(base(41));
    let pieces = [(0, [entry(2), None]), (2, [entry(3), entry(4)])];
    for (number, (first, sets)) in pieces.into_iter().enumerate() {
        if leave_out != number {
            assembly.piece(40, number as u32, &encode_piece(SetId(first), &sets, 3))?;
        }
    }
    let first = superblock(41, 3).encode(base(0), &[(SetId(1), entry(5))]);
    let second = superblock(42, 3).encode(base(41), &[(SetId(0), None), (SetId(4), entry(6))]);
    for (number, payload) in [first, second].iter().enumerate() {
        if leave_out != 2 + number {
            assembly.update(Update::decode(payload).unwrap()?)?;
        }
    }
    assembly.end()
}

/// AS-SB-3
#[test]
fn a_chain_with_a_gap_is_no_state() {
    let whole = assembled(usize::MAX).unwrap();
    let sets = vec![None, entry(5), entry(3), entry(4), entry(6)];
    assert_eq!(whole, Superblock { sets, ..superblock(42, 3) });
    assert_eq!((assembled(0), assembled(1), assembled(2)), (None, None, None));
    // Without its last one it is the state before.
    assert_eq!(assembled(3).unwrap().generation, 41);
}

#[test]
fn a_number_far_behind_the_last_makes_no_room() {
    let far = superblock(3, 3).encode(None, &[(SetId(u32::MAX), None)]);
    let update = Update::decode(&far).unwrap().unwrap();
    assert_eq!(Assembly::of(None).update(update), None);
}

#[test]
fn sets_on_drives_that_there_are_none_of_are_refused() {
    let update = Update::decode(&superblock(3, 2).encode(None, &[(SetId(0), entry(2))])).unwrap().unwrap();
    let mut assembly = Assembly::of(None);
    assembly.update(update).unwrap();
    assert_eq!(assembly.end(), None);
}
