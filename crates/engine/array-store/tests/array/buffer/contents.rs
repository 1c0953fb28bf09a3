//! Objects in the buffer are read, replaced, deleted and moved to sets like others.

use super::*;

#[test]
fn a_small_object_is_there_before_any_segment_is_written() {
    let left = history(|_, store, _| async move {
        put(&store, "o", 1).await;
        let stats = store.stats().unwrap();
        assert_eq!((stats.live, stats.buffered, stats.objects), (0, 3000, 1));
        is(&store, "o", 1).await;
        assert_eq!(store.list(b"", None, 9).unwrap().len(), 1);
        let reader = store.open_object("o").unwrap();
        assert_eq!(&reader.read(1000, 5).await.unwrap()[..], &content((1, 3000))[1000..1005]);
        // A segment's worth is written to one; whoever reads goes on.
        for number in 0..20 {
            put(&store, &format!("p{number}"), number).await;
        }
        store.put("big", content((5, 90_000)), Bytes::new()).await.unwrap();
        assert!(store.stats().unwrap().live > 30_000);
        assert!(reader.read(0, 3000).await.unwrap() == content((1, 3000)));
        is(&store, "o", 1).await;
    });
    with_either(left, |store| async move {
        is(&store, "o", 1).await;
        for number in 0..20 {
            is(&store, &format!("p{number}"), number).await;
        }
        assert_eq!(store.stats().unwrap().objects, 22);
    });
}

#[test]
fn what_was_replaced_or_deleted_in_the_buffer_stays_so() {
    let left = history(|_, store, _| async move {
        store.put("was big", content((1, 90_000)), Bytes::new()).await.unwrap();
        put(&store, "was big", 2).await;
        put(&store, "twice", 3).await;
        put(&store, "twice", 4).await;
        put(&store, "gone", 5).await;
        assert!(store.delete("gone").await.unwrap());
        put(&store, "back", 6).await;
        assert!(store.delete("back").await.unwrap());
        put(&store, "back", 7).await;
        put(&store, "grows", 8).await;
        store.put("grows", content((9, 90_000)), Bytes::new()).await.unwrap();
        assert!(store.delete("grows").await.unwrap());
        // Tombstones that snapshots made superfluous are not in the way of anything that the buffer has.
        store.snapshot().await.unwrap();
        store.snapshot().await.unwrap();
    });
    with_either(left, |store| async move {
        is(&store, "was big", 2).await;
        is(&store, "twice", 4).await;
        is(&store, "back", 7).await;
        for name in ["gone", "grows"] {
            assert_eq!(store.head(name.as_bytes()).unwrap_err().kind, ErrorKind::NotFound, "{name}");
        }
        assert_eq!(store.stats().unwrap().objects, 3);
    });
}

/// AS-BUF-3: a deletion that the power cut kept from the log is added to it, since its tombstone is not kept for ever.
#[test]
fn a_deletion_that_only_the_drives_know_of_is_kept() {
    let tries = 40;
    for wait in 0..tries {
        let cut = history(move |rt, store, _| async move {
            put(&store, "o", 1).await;
            let delete = Box::pin(store.delete("o"));
            // The power fails somewhere in the middle.
            let cut = Box::pin(rt.sleep(Duration::from_micros(wait * 10)));
            std::mem::forget(futures_util::future::select(delete, cut).await);
        });
        let Left { devices, files } = cut;
        let (again, there) = Sim::new(wait).run(move |rt| async move {
            let devices = powered(&rt, &devices);
            let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
            let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
            let there = store.head(b"o").is_ok();
            // Its tombstone is superfluous now, as far as the drives know.
            store.snapshot().await.unwrap();
            (left(&devices, &buffer, wait), there)
        });
        with_either(again, move |store| async move {
            assert_eq!(store.head(b"o").is_ok(), there, "{wait}");
        });
    }
}

/// AS-BUF-6: however little is written, it leaves the buffer.
#[test]
fn nothing_stays_in_the_buffer_alone_for_long() {
    Sim::new(1).run(|rt| async move {
        let devices = powered(&rt, &media());
        let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
        let options = Options { background: true, buffer_time: Duration::from_secs(5), ..plain() };
        let (store, _) = try_open(&rt, &devices, Some(&buffer), options).await.unwrap();
        for number in 0..3 {
            store.put("empty", Bytes::new(), Bytes::from_static(b"with it")).await.unwrap();
            put(&store, "o", number).await;
            rt.sleep(Duration::from_secs(2)).await;
            assert_eq!(store.stats().unwrap().buffered, 3000, "not at once");
            rt.sleep(Duration::from_secs(6)).await;
            assert_eq!(store.stats().unwrap().buffered, 0);
        }
        // Without either file nothing is missed.
        let devices = powered(&rt, &devices.iter().map(|device| device.crash_image(1)).collect::<Vec<_>>());
        let alone = Options { abandon_buffer: true, ..plain() };
        let (store, _) = try_open(&rt, &devices, None, alone).await.unwrap();
        is(&store, "o", 2).await;
        assert_eq!(&store.head(b"empty").unwrap().attributes[..], b"with it");
    });
}

/// Opening for reading only shows buffered objects, and writes neither to the drives nor to the files.
#[test]
fn reading_only_shows_what_is_buffered_and_changes_nothing() {
    let left = history(|_, store, _| async move {
        store.put("replaced", content((1, 90_000)), Bytes::new()).await.unwrap();
        store.put("on the drives", content((1, 90_000)), Bytes::new()).await.unwrap();
        put(&store, "replaced", 2).await;
        put(&store, "o", 3).await;
        put(&store, "deleted", 4).await;
        assert!(store.delete("deleted").await.unwrap());
    });
    for lost in [None, Some(0), Some(1)] {
        let mut files = left.files.clone();
        if let Some(lost) = lost {
            files[lost].truncate(10);
        }
        let media: Vec<_> = left.devices.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(2).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let buffer = files.clone().map(|bytes| SimFile::new(&rt, bytes));
            devices.iter().for_each(|device| {
                device.on_command(|command, _| {
                    assert!(matches!(command.kind, CommandKind::Read | CommandKind::Report), "{command:?}");
                });
            });
            let only = Options { read_only: true, ..plain() };
            let (store, report) = try_open(&rt, &devices, Some(&buffer), only.clone()).await.unwrap();
            assert_eq!((report.objects, report.buffer.len()), (3, usize::from(lost.is_some())));
            is(&store, "replaced", 2).await;
            is(&store, "o", 3).await;
            let names: Vec<_> = store.list(b"", None, 9).unwrap().into_iter().map(|object| object.name).collect();
            assert_eq!(names, ["o", "on the drives", "replaced"]);
            assert_eq!(store.put("p", Bytes::new(), Bytes::new()).await.unwrap_err().kind, ErrorKind::Invalid);
            assert_eq!(store.delete("o").await.unwrap_err().kind, ErrorKind::Invalid);
            store.close().await.unwrap();
            for (file, before) in buffer.iter().zip(&files) {
                assert!(file.writes() == 0 && file.bytes()[..] == before[..]);
            }
            let Err(error) = try_open(&rt, &devices, None, only.clone()).await else { panic!("opened without") };
            assert!(error.kind == ErrorKind::Format && error.message.contains("not named"), "{error}");
            let (store, _) = try_open(&rt, &devices, None, Options { abandon_buffer: true, ..only }).await.unwrap();
            assert!(store.get("replaced").await.unwrap() == content((1, 90_000)));
            store.close().await.unwrap();
        });
    }
}
