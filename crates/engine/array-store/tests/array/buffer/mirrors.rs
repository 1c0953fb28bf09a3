//! Two files, of which one may be missing, rotten or of another array.

use super::*;

/// AS-BUF-4.
#[test]
fn an_array_is_not_opened_without_what_it_acknowledged() {
    let left = history(|_, store, _| async move { put(&store, "o", 1).await });
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &left.devices);
        let Err(error) = try_open(&rt, &devices, None, plain()).await else { panic!("opened without its buffer") };
        assert!(error.kind == ErrorKind::Format && error.message.contains("buffer"), "{error}");
        let other = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, b"something else".to_vec())];
        let Err(error) = try_open(&rt, &devices, Some(&other), plain()).await else { panic!("opened with others") };
        assert_eq!(error.kind, ErrorKind::Format);
        let (store, _) = try_open(&rt, &devices, None, Options { abandon_buffer: true, ..plain() }).await.unwrap();
        assert_eq!(store.head(b"o").unwrap_err().kind, ErrorKind::NotFound);
    });
}

/// Two arrays whose files were mixed up: what waits in another array's buffer is not written over.
#[test]
fn another_arrays_buffer_is_left_alone() {
    for closed in [false, true] {
        let Left { files, .. } = history(move |_, store, _| async move {
            put(&store, "o", 1).await;
            if closed {
                store.close().await.unwrap();
            }
        });
        let of_another = files.map(|mut bytes| {
            // The array's id, and the checksum, of both heads.
            for head in bytes.chunks_mut(4096).take(2) {
                head[8] ^= 1;
                let crc = crc32c(&head[..72]).to_le_bytes();
                head[72..76].copy_from_slice(&crc);
            }
            bytes
        });
        for both in [false, true] {
            let of_another = of_another.clone();
            Sim::new(2).run(move |rt| async move {
                let devices = powered(&rt, &media());
                let second = if both { of_another[1].clone() } else { Vec::new() };
                let buffer = [SimFile::new(&rt, second), SimFile::new(&rt, of_another[0].clone())];
                let opened = try_open(&rt, &devices, Some(&buffer), plain()).await;
                assert_eq!(opened.is_ok(), closed);
                if let Err(error) = opened {
                    assert!(error.kind == ErrorKind::Format && error.message.contains("belongs to array"), "{error}");
                    assert!(buffer[1].bytes()[..] == of_another[0][..], "it was written to");
                }
            });
        }
    }
}

#[test]
fn a_closed_array_needs_no_buffer() {
    Sim::new(1).run(|rt| async move {
        let devices = powered(&rt, &media());
        let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
        let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        put(&store, "o", 1).await;
        store.close().await.unwrap();
        let devices = powered(&rt, &devices.iter().map(SimDevice::image).collect::<Vec<_>>());
        let (store, _) = try_open(&rt, &devices, None, plain()).await.unwrap();
        is(&store, "o", 1).await;
        assert_eq!(store.stats().unwrap().live, 3000);
    });
}

/// AS-RING-1: after a clean close the same files get a new buffer, whose log begins where the old one's did.
#[test]
fn what_a_former_buffer_logged_does_not_come_back() {
    let old = history(|_, store, _| async move {
        put(&store, "deleted", 1).await;
        put(&store, "replaced", 2).await;
        assert!(store.delete("deleted").await.unwrap());
        put(&store, "replaced", 3).await;
        assert!(store.delete("replaced").await.unwrap());
        // No tombstone is needed any more.
        store.snapshot().await.unwrap();
        store.snapshot().await.unwrap();
        store.close().await.unwrap();
    });
    for puts in 0..3 {
        let (media, files) = (old.devices.iter().map(MemoryDevice::snapshot).collect::<Vec<_>>(), old.files.clone());
        let again = Sim::new(4).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
            let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
            for number in 0..puts {
                // As long as the first record of the old log.
                put(&store, "another", number).await;
            }
            left(&devices, &buffer, puts)
        });
        with_either(again, move |store| async move {
            let names: Vec<_> = store.list(b"", None, 9).unwrap().into_iter().map(|object| object.name).collect();
            assert_eq!(names, ["another"][..usize::from(puts > 0)], "{puts} puts");
        });
    }
}

/// Offsets of some objects' records in a file: behind 51 bytes that each begins with.
fn record_of(file: &[u8], name: &[u8]) -> usize {
    file.windows(name.len()).position(|window| window == name).unwrap() - 51
}

/// AS-RING-2: rot is told from a torn end, and costs what it hit, if both files have it.
#[test]
fn rot_in_the_log_is_made_up_for_by_the_other_file_or_told() {
    let left = history(|_, store, _| async move {
        for name in ["first", "second", "third", "fourth"] {
            put(&store, name, 1).await;
        }
        assert!(store.delete("fourth").await.unwrap());
    });
    let rotten = |names: [&'static str; 2]| {
        let mut files = left.files.clone();
        for (file, name) in files.iter_mut().zip(names) {
            let at = record_of(file, name.as_bytes());
            file[at + 100] ^= 1;
        }
        files
    };
    let media = || left.devices.iter().map(MemoryDevice::snapshot).collect::<Vec<_>>();
    let (devices, files) = (media(), rotten(["first", "third"]));
    Sim::new(9).run(move |rt| async move {
        let devices = powered(&rt, &devices);
        let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
        let (store, report) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        assert_eq!((report.damage, report.objects), (Vec::new(), 3));
        for name in ["first", "second", "third"] {
            is(&store, name, 1).await;
        }
        assert!(buffer[0].bytes()[..] == buffer[1].bytes()[..], "each was mended");
    });
    let (devices, files) = (media(), rotten(["second"; 2]));
    Sim::new(9).run(move |rt| async move {
        let devices = powered(&rt, &devices);
        let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
        let Err(error) = try_open(&rt, &devices, Some(&buffer), plain()).await else { panic!("opened with a gap") };
        assert!(error.kind == ErrorKind::Format && error.message.contains("1 of its records"), "{error}");
        let only = Options { read_only: true, ..plain() };
        let (store, report) = try_open(&rt, &devices, Some(&buffer), only).await.unwrap();
        assert_eq!((report.damage.len(), report.objects), (1, 2));
        store.close().await.unwrap();
        let options = Options { abandon_buffer: true, ..plain() };
        let (store, report) = try_open(&rt, &devices, Some(&buffer), options).await.unwrap();
        assert_eq!((report.damage.len(), report.objects), (1, 2));
        put(&store, "new", 2).await;
        // Told once.
        let left = super::left(&devices, &buffer, 1);
        let devices = powered(&rt, &left.devices);
        let buffer = left.files.map(|bytes| SimFile::new(&rt, bytes));
        let (store, report) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        assert_eq!((report.damage, report.objects), (Vec::new(), 3));
        is(&store, "first", 1).await;
        is(&store, "third", 1).await;
    });
}

/// AS-BUF-7: blocks that cannot be read, of both files or of the only one: what no file has is told, the last record too, and all else
/// is there.
#[test]
fn a_block_that_cannot_be_read_costs_what_it_holds_or_is_told() {
    // Records of three to two blocks, from the third block on.
    let names = ["first", "second", "third", "fourth"];
    let left = history(move |_, store, _| async move {
        for name in names {
            put(&store, name, 1).await;
        }
    });
    let block_of = |file: &[u8], name: &str| record_of(file, name.as_bytes()) as u64 / 4096;
    let [second, last] = ["second", "fourth"].map(|name| block_of(&left.files[0], name));
    let none = Vec::new;
    // Blocks of the first file, of the second; the second is lost; how many records are.
    let cases = [
        (vec![0, second], vec![1, last], false, 0),
        (vec![0, 1], none(), false, 0),
        (vec![last], none(), false, 0),
        (vec![last], vec![last], false, 1),
        (vec![last], none(), true, 1),
        (vec![2], vec![2], false, 1),
    ];
    for (number, (first, other, alone, lost)) in cases.into_iter().enumerate() {
        let media: Vec<_> = left.devices.iter().map(MemoryDevice::snapshot).collect();
        let mut files = left.files.clone();
        if alone {
            files[1] = Vec::new();
        }
        Sim::new(9).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
            first.into_iter().for_each(|block| buffer[0].fail_reads(block));
            other.into_iter().for_each(|block| buffer[1].fail_reads(block));
            match try_open(&rt, &devices, Some(&buffer), plain()).await {
                Ok((store, report)) => {
                    assert_eq!((lost, report.damage), (0, Vec::<String>::new()), "case {number}");
                    for name in names {
                        is(&store, name, 1).await;
                    }
                    // Behind the end of the log may be zeros.
                    let records = |file: &SimFile| {
                        let durable = file.bytes();
                        let end = durable.iter().rposition(|byte| *byte != 0).unwrap_or(0);
                        durable[8192..=end].to_vec()
                    };
                    assert!(records(&buffer[0]) == records(&buffer[1]), "case {number}: each was mended");
                }
                Err(error) => {
                    assert!(lost > 0 && error.message.contains("of its records"), "case {number}: {error}");
                    assert!(buffer.iter().all(|file| file.writes() == 0), "case {number}: it was written to");
                }
            }
        });
    }
}

#[test]
fn files_of_the_version_before_are_refused_if_objects_may_wait_in_them() {
    for closed in [false, true] {
        let left = history(move |_, store, _| async move {
            put(&store, "o", 1).await;
            if closed {
                store.close().await.unwrap();
            }
        });
        Sim::new(9).run(move |rt| async move {
            let devices = powered(&rt, &left.devices);
            let mut before = b"SHGABF01".to_vec();
            before.extend_from_slice(&left.files[0][8..16]);
            [7u64, 1, 1 << 20].iter().for_each(|number| before.extend_from_slice(&number.to_le_bytes()));
            before.extend_from_slice(&crc32c(&before).to_le_bytes());
            before.resize(3 << 12, 0);
            let buffer = [SimFile::new(&rt, before.clone()), SimFile::new(&rt, before)];
            match try_open(&rt, &devices, Some(&buffer), plain()).await {
                Ok((store, _)) => {
                    assert!(closed, "opened without what waits");
                    is(&store, "o", 1).await;
                }
                Err(error) => {
                    assert!(!closed && error.kind == ErrorKind::Format, "{error}");
                    assert!(error.message.contains("version 01"), "{error}");
                    assert!(buffer[0].writes() == 0, "it was written to");
                }
            }
        });
    }
}
