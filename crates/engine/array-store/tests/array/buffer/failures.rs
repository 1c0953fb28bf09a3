//! Files that fail, and come back later.

use super::*;

/// AS-BUF-1: what the failed file says is old, and nobody believes it when it comes back.
#[test]
fn a_file_that_failed_is_done_without_and_not_believed_later() {
    let left = history(|_, store, buffer| async move {
        put(&store, "before", 1).await;
        put(&store, "deleted", 2).await;
        buffer[0].fail();
        assert!(store.delete("deleted").await.unwrap());
        put(&store, "after", 3).await;
        is(&store, "before", 1).await;
    });
    Sim::new(4).run(move |rt| async move {
        let devices = powered(&rt, &left.devices);
        let buffer = left.files.map(|bytes| SimFile::new(&rt, bytes));
        let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        is(&store, "before", 1).await;
        is(&store, "after", 3).await;
        assert_eq!(store.head(b"deleted").unwrap_err().kind, ErrorKind::NotFound);
        put(&store, "last", 4).await;
        // It was brought up to date: either will do again.
        assert!(buffer[0].bytes()[..] == buffer[1].bytes()[..]);
    });
}

/// AS-BUF-3 and AS-BUF-4: where both files fail for a while, nothing is acknowledged that is in neither, deletions hold, and what
/// the files say is not believed when they are back.
#[test]
fn with_both_files_failing_what_is_acknowledged_stays_so() {
    for (wait, closed) in [(0, false), (0, true), (50, false), (200, false)] {
        let kept = Rc::new(RefCell::new(Vec::new()));
        let told = kept.clone();
        let left = history(move |rt, store, buffer| async move {
            for name in ["before", "deleted", "replaced"] {
                put(&store, name, 1).await;
            }
            let puts = (0..10).map(|number| {
                let (rt, store, told) = (rt.clone(), store.clone(), told.clone());
                async move {
                    rt.sleep(Duration::from_micros(number * 5)).await;
                    let name = format!("meanwhile {number}");
                    if store.put(name.clone(), content((number, 3000)), Bytes::from_static(b"with it")).await.is_ok() {
                        told.borrow_mut().push((name, number));
                    }
                }
            });
            let fail = async {
                rt.sleep(Duration::from_micros(wait)).await;
                buffer.iter().for_each(|file| file.fail());
            };
            futures_util::future::join(join_all(puts), fail).await;
            assert!(store.delete("deleted").await.unwrap());
            put(&store, "replaced", 2).await;
            assert!(store.delete("replaced").await.unwrap());
            assert!(!store.delete("replaced").await.unwrap());
            put(&store, "after", 3).await;
            // As far as the drives know, tombstones are needed no more.
            store.snapshot().await.unwrap();
            store.snapshot().await.unwrap();
            if closed {
                store.close().await.unwrap();
            }
        });
        let kept = kept.take();
        with_either(left, move |store| {
            let kept = kept.clone();
            async move {
                is(&store, "before", 1).await;
                is(&store, "after", 3).await;
                for (name, key) in kept {
                    is(&store, &name, key).await;
                }
                for name in ["deleted", "replaced"] {
                    assert_eq!(store.head(name.as_bytes()).unwrap_err().kind, ErrorKind::NotFound, "{name}");
                }
            }
        });
    }
}

/// AS-BUF-1: a file that was away while the other was used is not believed when it is all there is.
#[test]
fn a_file_that_was_away_is_not_believed_when_it_comes_back_alone() {
    let Left { devices, files: [first, stale] } = history(|_, store, _| async move {
        put(&store, "before", 1).await;
        put(&store, "deleted", 2).await;
    });
    let Left { devices, files: [newest, anew] } = Sim::new(4).run(move |rt| async move {
        let devices = powered(&rt, &devices);
        let buffer = [first, Vec::new()].map(|bytes| SimFile::new(&rt, bytes));
        let (store, report) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        assert!(report.buffer.len() == 1 && report.buffer[0].contains("second"), "{:?}", report.buffer);
        assert!(store.delete("deleted").await.unwrap());
        put(&store, "after", 3).await;
        left(&devices, &buffer, 1)
    });
    for files in [[newest.clone(), stale.clone()], [stale.clone(), newest], [anew, stale.clone()]] {
        let devices: Vec<_> = devices.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(5).run(move |rt| async move {
            let devices = powered(&rt, &devices);
            let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
            let (store, report) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
            assert_eq!(report.buffer.len(), 1);
            is(&store, "before", 1).await;
            is(&store, "after", 3).await;
            assert_eq!(store.head(b"deleted").unwrap_err().kind, ErrorKind::NotFound);
        });
    }
}

/// AS-BUF-1: a file that failed or was away while the other went on lacks what was acknowledged since: alone it counts for nothing.
#[test]
fn a_file_that_was_left_behind_is_refused_where_it_is_all_that_is_left() {
    let failed = history(|_, store, buffer| async move {
        put(&store, "before", 1).await;
        put(&store, "deleted", 2).await;
        buffer[1].fail();
        put(&store, "after", 3).await;
        assert!(store.delete("deleted").await.unwrap());
        // As far as the drives know, its tombstone is needed no more.
        store.snapshot().await.unwrap();
        store.snapshot().await.unwrap();
    });
    let before = history(|_, store, _| async move {
        put(&store, "before", 1).await;
        put(&store, "deleted", 2).await;
    });
    let Left { devices, files: [first, stale] } = before;
    let away = Sim::new(4).run(move |rt| async move {
        let devices = powered(&rt, &devices);
        let buffer = [first, Vec::new()].map(|bytes| SimFile::new(&rt, bytes));
        let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        put(&store, "after", 3).await;
        let Left { devices, files: [first, _] } = left(&devices, &buffer, 1);
        Left { devices, files: [first, stale] }
    });
    for Left { devices, files: [_, stale] } in [failed, away] {
        for files in [[Vec::new(), stale.clone()], [stale.clone(), Vec::new()]] {
            let devices: Vec<_> = devices.iter().map(MemoryDevice::snapshot).collect();
            Sim::new(5).run(move |rt| async move {
                let devices = powered(&rt, &devices);
                let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
                for read_only in [true, false] {
                    let options = Options { read_only, ..plain() };
                    let Err(error) = try_open(&rt, &devices, Some(&buffer), options).await else {
                        panic!("an old file was believed")
                    };
                    assert!(error.kind == ErrorKind::Format && error.message.contains("older"), "{error}");
                }
                assert!(buffer.iter().all(|file| file.writes() == 0), "it was written to");
                let options = Options { abandon_buffer: true, ..plain() };
                let (store, report) = try_open(&rt, &devices, Some(&buffer), options).await.unwrap();
                assert_eq!(report.damage.len(), 1, "{:?}", report.damage);
                assert_eq!(store.head(b"deleted").unwrap_err().kind, ErrorKind::NotFound);
            });
        }
    }
}

/// AS-BUF-1: a file has a generation that no superblock names yet, and is away while the other one goes on with a new one in its
/// place: it lacks what was acknowledged since, and is not believed for having that generation.
#[test]
fn a_generation_that_no_superblock_named_is_not_given_out_again() {
    given_out_once(media());
}

/// The same where stamps stand a day ahead of the clock. (AS-LOSS-2)
#[test]
fn a_generation_is_not_given_out_again_behind_an_accepted_loss() {
    given_out_once(behind_an_accepted_loss());
}

fn given_out_once(media: Vec<MemoryDevice>) {
    let options = Options { background: true, buffer_time: Duration::from_millis(20), ..plain() };
    let Left { devices, files: [first, old] } = history_on(media, options, |rt, store, buffer| async move {
        put(&store, "before", 1).await;
        buffer[0].fail();
        // The log begins behind it, which the second file's heads alone say.
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(store.stats().unwrap().buffered, 0);
    });
    let Left { devices, files: [newest, _] } = Sim::new(4).run(move |rt| async move {
        rt.sleep(Duration::from_secs(10)).await;
        let devices = powered(&rt, &devices);
        let buffer = [first, Vec::new()].map(|bytes| SimFile::new(&rt, bytes));
        let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        put(&store, "after", 2).await;
        left(&devices, &buffer, 1)
    });
    let none = Vec::new;
    let alone = [[none(), old.clone()], [old.clone(), none()]];
    for files in alone.into_iter().chain([[newest.clone(), old.clone()], [old, newest]]) {
        let devices: Vec<_> = devices.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(5).run(move |rt| async move {
            let both = files.iter().all(|file| !file.is_empty());
            let devices = powered(&rt, &devices);
            let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
            match try_open(&rt, &devices, Some(&buffer), plain()).await {
                Ok((store, _)) => {
                    assert!(both, "an old file was believed");
                    is(&store, "before", 1).await;
                    is(&store, "after", 2).await;
                }
                Err(error) => assert!(!both && error.message.contains("older"), "{error}"),
            }
        });
    }
}

/// AS-BUF-1: whenever the power fails while one file is left behind, each of them has what was acknowledged or is not believed.
#[test]
fn cut_while_a_file_is_left_behind() {
    for (wait, broken) in (0..30).flat_map(|wait| [(wait, 0), (wait, 1)]) {
        let kept = Rc::new(RefCell::new(Vec::new()));
        let told = kept.clone();
        let left = history(move |rt, store, buffer| async move {
            put(&store, "before", 1).await;
            buffer[broken].fail();
            let puts = Box::pin(async move {
                for number in 0..4 {
                    let name = format!("meanwhile {number}");
                    put(&store, &name, number).await;
                    told.borrow_mut().push((name, number));
                }
            });
            let cut = Box::pin(rt.sleep(Duration::from_micros(wait * 40)));
            std::mem::forget(futures_util::future::select(puts, cut).await);
        });
        let kept = kept.take();
        for lost in [None, Some(0), Some(1)] {
            let mut files = left.files.clone();
            if let Some(lost) = lost {
                files[lost] = Vec::new();
            }
            let (devices, kept) = (left.devices.iter().map(MemoryDevice::snapshot).collect::<Vec<_>>(), kept.clone());
            Sim::new(9).run(move |rt| async move {
                let devices = powered(&rt, &devices);
                let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
                let context = format!("{wait}: {broken} broken, {lost:?} lost, {} kept", kept.len());
                match try_open(&rt, &devices, Some(&buffer), plain()).await {
                    Ok((store, _)) => {
                        is(&store, "before", 1).await;
                        for (name, key) in &kept {
                            assert!(store.head(name.as_bytes()).is_ok(), "{context}: {name}");
                            is(&store, name, *key).await;
                        }
                    }
                    Err(error) => {
                        assert!(error.message.contains("older") && lost == Some(1 - broken), "{context}: {error}")
                    }
                }
            });
        }
    }
}

/// AS-BUF-2: an object waits for the superblock that says that a file failed, while all that was buffered before goes to
/// segments: the log goes on to begin no later than with it.
#[test]
fn what_waits_for_a_superblock_stays_in_the_log() {
    // The buffer is written to segments ten milliseconds behind the opening.
    for (wait, broken) in (0..60).flat_map(|wait| [(wait, 0), (wait, 1)]) {
        let options = Options { background: true, buffer_time: Duration::from_millis(2), ..plain() };
        let left = history_with(options, move |rt, store, buffer| async move {
            put(&store, "before", 1).await;
            rt.sleep(Duration::from_micros(8_000 + wait * 40)).await;
            buffer[broken].fail();
            put(&store, "meanwhile", 2).await;
        });
        let mut files = left.files;
        files[broken] = Vec::new();
        Sim::new(9).run(move |rt| async move {
            let devices = powered(&rt, &left.devices);
            let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
            let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
            for (name, key) in [("before", 1), ("meanwhile", 2)] {
                assert!(store.head(name.as_bytes()).is_ok(), "{broken} broken after {wait}: {name} is gone");
                is(&store, name, key).await;
            }
        });
    }
}

/// AS-BUF-4: an object waits for the superblock that says that a file failed, and the other one fails, too: it is
/// acknowledged in a segment or not at all.
#[test]
fn what_waits_for_a_superblock_while_the_other_file_fails_goes_to_a_segment() {
    for wait in 0..60 {
        let acknowledged = Rc::new(Cell::new(false));
        let told = acknowledged.clone();
        let left = history(move |rt, store, buffer| async move {
            put(&store, "before", 1).await;
            buffer[0].fail();
            let last = async {
                put(&store, "meanwhile", 2).await;
                told.set(true);
            };
            let other = async {
                rt.sleep(Duration::from_micros(wait * 40)).await;
                buffer[1].fail();
                // The first put that finds both failed makes an end of the buffer.
                put(&store, "other", 3).await;
            };
            futures_util::future::join(last, other).await;
            // Until then the next opening needs the files.
            rt.sleep(Duration::from_millis(20)).await;
        });
        assert!(acknowledged.get());
        Sim::new(9).run(move |rt| async move {
            let devices = powered(&rt, &left.devices);
            let buffer = [Vec::new(), Vec::new()].map(|bytes| SimFile::new(&rt, bytes));
            let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
            for (name, key) in [("before", 1), ("meanwhile", 2), ("other", 3)] {
                assert!(store.head(name.as_bytes()).is_ok(), "the other file failed after {wait}: {name} is gone");
                is(&store, name, key).await;
            }
        });
    }
}

/// AS-BUF-4: both files fail while what they hold is written to segments, and nothing else is put or deleted: the array needs them no
/// more.
#[test]
fn both_files_that_fail_in_a_flush_are_not_needed_any_more() {
    for wait in 0..8 {
        let options = Options { background: true, buffer_time: Duration::from_millis(20), ..plain() };
        let left = history_with(options, move |rt, store, buffer| async move {
            put(&store, "before", 1).await;
            rt.sleep(Duration::from_millis(wait * 2)).await;
            buffer.iter().for_each(|file| file.fail());
            assert!(
                store.stats().unwrap().buffered > 0,
                "they failed after {wait}, when they were not needed any more"
            );
            rt.sleep(Duration::from_secs(1)).await;
        });
        Sim::new(9).run(move |rt| async move {
            let devices = powered(&rt, &left.devices);
            let buffer = [Vec::new(), Vec::new()].map(|bytes| SimFile::new(&rt, bytes));
            let opened = try_open(&rt, &devices, Some(&buffer), plain()).await;
            let (store, report) = opened.unwrap_or_else(|error| panic!("failed after {wait}: {error}"));
            assert_eq!(report.damage, Vec::<String>::new());
            is(&store, "before", 1).await;
        });
    }
}

/// AS-LOSS-1: an opening that accepts a loss is cut at any moment. The next one is refused for that loss, or knows of it.
#[test]
fn an_accepted_loss_is_known_whenever_the_opening_is_cut() {
    let left = history(|_, store, _| async move {
        store.put("large", content((1, 90_000)), Bytes::new()).await.unwrap();
        put(&store, "small", 2).await;
    });
    let (mut refused, mut known, mut ended) = (0, 0, false);
    let mut wait = 0;
    while !ended {
        wait += 1;
        let media: Vec<_> = left.devices.iter().map(MemoryDevice::snapshot).collect();
        let (cut, opened) = Sim::new(wait).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
            let options = Options { abandon_buffer: true, ..plain() };
            let opening = Box::pin(try_open(&rt, &devices, Some(&buffer), options));
            let cut = Box::pin(rt.sleep(Duration::from_micros(wait * 20)));
            let opened = match select(opening, cut).await {
                Either::Left((opened, _)) => {
                    opened.map(|(store, _)| assert!(store.lost_before().unwrap().is_some())).is_ok()
                }
                Either::Right((_, opening)) => {
                    std::mem::forget(opening);
                    false
                }
            };
            (self::left(&devices, &buffer, wait), opened)
        });
        ended = opened;
        let is_known = Sim::new(wait).run(move |rt| async move {
            let devices = powered(&rt, &cut.devices);
            let buffer = cut.files.map(|bytes| SimFile::new(&rt, bytes));
            let store = match try_open(&rt, &devices, Some(&buffer), plain()).await {
                Ok((store, _)) => store,
                Err(error) => {
                    assert!(error.kind == ErrorKind::Format && error.message.contains("abandoned"), "{wait}: {error}");
                    return false;
                }
            };
            assert!(store.get("large").await.unwrap() == content((1, 90_000)));
            assert_eq!(store.head(b"small").unwrap_err().kind, ErrorKind::NotFound);
            let lost =
                store.lost_before().unwrap().unwrap_or_else(|| panic!("the loss is forgotten, cut after {wait}"));
            assert!(store.head(b"large").unwrap().version < lost);
            // Once it is settled it is over, also after another power cut.
            store.settle_loss().await.unwrap();
            assert_eq!(store.lost_before().unwrap(), None);
            let cut = self::left(&devices, &buffer, wait);
            let (devices, buffer) = (powered(&rt, &cut.devices), cut.files.map(|bytes| SimFile::new(&rt, bytes)));
            let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
            assert_eq!(store.lost_before().unwrap(), None);
            true
        });
        *if is_known { &mut known } else { &mut refused } += 1;
    }
    assert!(refused > 0 && known > 1, "{refused} refused, {known} knew of it");
}
