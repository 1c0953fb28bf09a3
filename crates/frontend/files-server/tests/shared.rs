//! Files of a drive in a file, used by threads, and by others who reach them through the owner.

#![expect(clippy::disallowed_methods, reason = "threads and time are real here")]

mod common;

use common::{CACHINGS, Drive, NONE, contents, pattern};
use shingle_files_server::{Caching, Files};
use shingle_zone_files::{FileKind, FilesErrorKind};

fn put(files: &Files, path: &str, kind: FileKind, bytes: &[u8]) {
    let writer = files.create(path, kind, NONE).unwrap();
    writer.append(bytes).unwrap();
    writer.sync().unwrap();
}

/// FS-ORDER-1: both ways, and each sees what the other flushed.
#[test]
fn an_owner_and_another_see_each_others_files() {
    let drive = Drive::new();
    let owner = drive.open();
    let other = drive.open();
    for (writes, reads) in [(&owner, &other), (&other, &owner)] {
        writes.make_dir_all("/a/b/c").unwrap();
        writes.make_dir_all("/a/b/c").unwrap();
        let writer = writes.create("/a/b/c/000001.log", FileKind::Wal, NONE).unwrap();
        for number in 0..100_u8 {
            writer.append(&[number]).unwrap();
        }
        assert_eq!(contents(reads, "/a/b/c/000001.log"), b"", "nothing was flushed");
        writer.flush().unwrap();
        // Handed in, and answered behind it.
        assert_eq!(writes.stat("/a/b/c/000001.log").unwrap().unwrap().size, 100);
        assert_eq!(contents(reads, "/a/b/c/000001.log"), (0..100).collect::<Vec<u8>>());
        writer.sync().unwrap();
        drop(writer);

        let table = pattern(5_000_000, 3);
        put(writes, "/a/b/c/000002.sst", FileKind::Sst, &table);
        assert!(contents(reads, "/a/b/c/000002.sst") == table);
        let names: Vec<String> = reads.list("/a/b/c").unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["000001.log", "000002.sst"]);
        reads.rename("/a/b/c/000002.sst", "/a/t.sst").unwrap();
        reads.link("/a/t.sst", "/a/u.sst").unwrap();
        assert_eq!(writes.stat("/a/t.sst").unwrap().unwrap().links, 2);
        for path in ["/a/t.sst", "/a/u.sst", "/a/b/c/000001.log"] {
            writes.remove(path).unwrap();
        }
        reads.remove_dir("/a/b/c").unwrap();
        assert_eq!(writes.open("/a/t.sst").err().unwrap().kind, FilesErrorKind::NotFound);
    }
    assert!(owner.room().unwrap().written_bytes >= 10_000_000);
    let store = format!("{:016x}", owner.room().unwrap().store);
    assert!(other.metrics().unwrap().contains(&format!("shingle_files_files{{store=\"{store}\"}} 0\n")));
    assert_eq!(owner.room().unwrap(), other.room().unwrap());
}

/// FS-END-1: also if a log was flushed a moment before, whose bytes are not written yet.
#[test]
fn the_drive_is_free_when_its_owner_has_let_it_go() {
    let drive = Drive::new();
    for round in 0..4 {
        let owner = drive.open();
        let writer = owner.create("/000001.log", FileKind::Wal, NONE).unwrap();
        writer.append(&pattern(100, round)).unwrap();
        writer.flush().unwrap();
        drop(writer);
        drop(owner);
        let owner = drive.open();
        assert_eq!(contents(&owner, "/000001.log"), pattern(100, round));
    }
}

/// FS-END-1, FS-ANSWER-1.
#[test]
fn what_a_process_had_is_let_go_when_it_ends_and_others_hear_of_the_owners_end() {
    let drive = Drive::new();
    let owner = drive.open();
    let other = drive.open();
    put(&owner, "/table.sst", FileKind::Sst, b"bytes");
    let lock = other.lock("/LOCK").unwrap();
    assert_eq!(owner.lock("/LOCK").err().unwrap().kind, FilesErrorKind::Locked);
    let reader = other.open("/table.sst").unwrap();
    owner.remove("/table.sst").unwrap();
    // It has no name and is still there.
    let mut bytes = [0; 5];
    assert_eq!(reader.read(0, &mut bytes).unwrap(), 5);
    assert_eq!(&bytes, b"bytes");
    // As if the process were killed: nothing is given back in order.
    std::mem::forget((lock, reader));
    drop(other);
    // The forgotten parts keep the connection: cut it as the kernel does.
    let third = drive.open();
    let writer = third.create("/CURRENT", FileKind::Other, NONE).unwrap();
    writer.append(b"kept").unwrap();
    writer.sync().unwrap();
    drop(owner);
    writer.append(b"lost").unwrap();
    assert_eq!(writer.sync().unwrap_err().kind, FilesErrorKind::Unavailable);
    assert_eq!(third.room().unwrap_err().kind, FilesErrorKind::Unavailable);
    assert_eq!(third.open("/CURRENT").err().unwrap().kind, FilesErrorKind::Unavailable);
    // The next one owns it.
    let next = drive.open();
    assert_eq!(contents(&next, "/CURRENT"), b"kept");
    assert!(next.lock("/LOCK").is_ok());
}

#[test]
fn a_lock_of_a_connection_that_was_cut_is_free() {
    let drive = Drive::new();
    let owner = drive.open();
    {
        let other = drive.open();
        let lock = other.lock("/LOCK").unwrap();
        assert!(owner.lock("/LOCK").is_err());
        drop(lock);
        assert!(owner.lock("/LOCK").is_ok());
    }
    let mut cut = drive.socket();
    // A process of this version that takes a lock and dies.
    let frame = |head: &str| {
        let mut bytes = (head.len() as u32).to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(head.as_bytes());
        bytes
    };
    use std::io::{Read, Write};
    cut.write_all(&frame("{\"hello\":2}")).unwrap();
    cut.write_all(&frame("{\"call\":[1,{\"lock\":{\"path\":\"/LOCK\"}}]}")).unwrap();
    let mut answers = vec![0; 8 + 11 + 8];
    cut.read_exact(&mut answers).unwrap();
    assert!(owner.lock("/LOCK").is_err());
    drop(cut);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while owner.lock("/LOCK").is_err() {
        assert!(std::time::Instant::now() < until, "the lock of a process that has gone stays");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// FS-PEER-1 beside it: what comes to the socket is bounded, and harms nobody else.
#[test]
fn nonsense_at_the_socket_is_refused() {
    use std::io::{Read, Write};
    let drive = Drive::new();
    let owner = drive.open();
    let nonsense: [&[u8]; 5] = [
        &[0xff; 64],
        b"\x05\0\0\0\0\0\0\0hello",
        b"\x0b\0\0\0\0\0\0\0{\"hello\":9}",
        b"\x0b\0\0\0\0\0\0\0{\"hello\":2}\x02\0\0\0\0\0\0\0[]",
        b"\x0b\0\0\0\0\0\0\0{\"hello\":2}\xff\xff\xff\x7f\0\0\0\0",
    ];
    for bytes in nonsense {
        let mut stream = drive.socket();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // It ends, after the greeting at most.
        let read = stream.read_to_end(&mut answer);
        assert!(read.is_ok() || read.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset);
        assert!(answer.len() <= 19);
    }
    put(&owner, "/fine", FileKind::Other, b"still served");
    assert_eq!(contents(&drive.open(), "/fine"), b"still served");
}

/// FS-CACHE-1.
#[test]
fn the_cache_gives_the_bytes_that_are_there() {
    CACHINGS.into_iter().for_each(the_cache_gives_bytes);
}

fn the_cache_gives_bytes(caching: Caching) {
    let mut drive = Drive::new();
    drive.caching = caching;
    let files = drive.open();
    // More than the cache holds.
    let table = pattern(3_000_000, 9);
    put(&files, "/1.sst", FileKind::Sst, &table);
    let reader = files.open("/1.sst").unwrap();
    let mut random = 12345_u64;
    for _ in 0..2000 {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (at, length) = ((random >> 33) as usize % 3_100_000, (random >> 20) as usize % 70_000);
        let mut bytes = vec![0xaa; length];
        let found = reader.read(at as u64, &mut bytes).unwrap();
        let expected = table.get(at..(at + length).min(table.len())).unwrap_or_default();
        assert!(bytes[..found] == *expected, "{length} bytes at {at}");
        let mut remembered = vec![0; found];
        if reader.remembered(at as u64, &mut remembered) {
            assert!(remembered == *expected);
        }
    }
    // One that grows, and is cut and goes on with other bytes.
    let writer = files.create("/2.sst", FileKind::Sst, NONE).unwrap();
    writer.append(&pattern(20_000, 1)).unwrap();
    writer.flush().unwrap();
    assert!(contents(&files, "/2.sst") == pattern(20_000, 1));
    writer.append(b"more").unwrap();
    writer.sync().unwrap();
    assert!(contents(&files, "/2.sst") == [pattern(20_000, 1), b"more".to_vec()].concat());
    writer.truncate(10_000).unwrap();
    assert_eq!(writer.size(), 10_000);
    writer.append(&[7; 9_000]).unwrap();
    writer.sync().unwrap();
    assert!(contents(&files, "/2.sst") == [&pattern(20_000, 1)[..10_000], &[7; 9_000]].concat());
}

/// FS-CACHE-1: compactions read what was written last.
#[test]
fn tables_are_in_memory_once_they_are_written() {
    CACHINGS.into_iter().for_each(tables_are_in_memory);
}

fn tables_are_in_memory(caching: Caching) {
    let mut drive = Drive::new();
    drive.caching = caching;
    let (owner, other) = (drive.open(), drive.open());
    for (files, name) in [(&owner, "/1.sst"), (&other, "/2.sst")] {
        let table = pattern(300_001, 3);
        put(files, name, FileKind::Sst, &table);
        let remembered = |files: &Files| {
            let mut bytes = vec![0; table.len()];
            files.open(name).unwrap().remembered(0, &mut bytes).then_some(bytes)
        };
        assert!(remembered(files) == Some(table.clone()), "{name}");
        let elsewhere = if name == "/1.sst" { &other } else { &owner };
        assert!(remembered(elsewhere).is_none(), "{name}: each process has a cache of its own");
        // A file that is appended to again: the block in which it goes on is read.
        let writer = files.append_to(name).unwrap();
        writer.append(&table).unwrap();
        writer.sync().unwrap();
        drop(writer);
        assert!(contents(files, name) == [&table[..], &table].concat());
    }
    // A table that is gone takes no memory, also while somebody has it open.
    let (reader, mut first) = (owner.open("/1.sst").unwrap(), [0; 100]);
    assert!(reader.remembered(0, &mut first));
    owner.remove("/1.sst").unwrap();
    assert!(!reader.remembered(0, &mut first));
    assert_eq!(reader.read(0, &mut first).unwrap(), 100);
    put(&owner, "/000001.log", FileKind::Wal, &[1; 100]);
    assert!(!owner.open("/000001.log").unwrap().remembered(0, &mut [0; 100]), "logs are read once, if ever");
}

/// More flushes than a socket holds, by one who does not wait for answers: answers must not wait for the one who sends.
#[test]
fn a_process_that_flushes_all_the_time_is_served() {
    let drive = Drive::new();
    let owner = drive.open();
    let other = drive.open();
    let mut expected = Vec::new();
    let writer = other.create("/000001.log", FileKind::Wal, NONE).unwrap();
    for number in 0..20_000_u32 {
        writer.append(&number.to_le_bytes()).unwrap();
        writer.flush().unwrap();
        expected.extend(number.to_le_bytes());
    }
    writer.sync().unwrap();
    assert!(contents(&owner, "/000001.log") == expected);
}

#[test]
fn many_threads_append_sync_and_read_at_once() {
    let drive = Drive::new();
    let (owner, other) = (drive.open(), drive.open());
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let files = if thread % 2 == 0 { owner.clone() } else { other.clone() };
            scope.spawn(move || {
                let path = format!("/00000{thread}.log");
                let writer = files.create(&path, FileKind::Wal, NONE).unwrap();
                let mut written = Vec::new();
                for round in 0..50_u8 {
                    let piece = vec![round ^ thread; 100 + usize::from(round) * 37];
                    writer.append(&piece).unwrap();
                    written.extend(piece);
                    if round % 5 == 0 {
                        writer.sync().unwrap();
                    }
                }
                writer.sync().unwrap();
                assert!(contents(&files, &path) == written);
            });
        }
    });
    drop((other, owner));
    let again = drive.open();
    assert_eq!(again.list("/").unwrap().len(), 8);
}

/// FS-ORDER-2: flushes wait in the owner's process, and no other process can tell.
#[test]
fn another_process_sees_each_flush_that_has_returned() {
    let drive = Drive::new();
    let owner = drive.open();
    let other = drive.open();
    let log = owner.create("/000001.log", FileKind::Wal, NONE).unwrap();
    for number in 1..=2000_u64 {
        log.append(&pattern(30, number as u8)).unwrap();
        log.flush().unwrap();
        if number % 7 == 0 {
            assert_eq!(other.stat("/000001.log").unwrap().unwrap().size, number * 30);
        }
    }
    let expected: Vec<u8> = (1..=2000_u64).flat_map(|number| pattern(30, number as u8)).collect();
    assert_eq!(contents(&other, "/000001.log"), expected);
}
