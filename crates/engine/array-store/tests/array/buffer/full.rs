//! A full array, a full ring, and power cuts while both are used.

use super::*;

/// AS-BUF-5: when neither the drives nor the buffer take another object, all that is there can be deleted.
#[test]
fn with_array_and_buffer_full_everything_can_be_deleted() {
    for small in [1, 900, 3000] {
        let left = Sim::new(small).run(move |rt| async move {
            let devices = powered(&rt, &media());
            let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
            let options = Options { buffer_bytes: 64 << 10, ..plain() };
            let (store, _) = try_open(&rt, &devices, Some(&buffer), options).await.unwrap();
            // Those small ones that go first are in the log, and not in the buffer any more.
            for number in 0.. {
                if store.put(format!("big{number}"), content((1, 40_000)), Bytes::new()).await.is_err() {
                    break;
                }
            }
            for number in 0.. {
                let done = store.put(format!("small{number}"), content((2, small as usize)), Bytes::new()).await;
                if let Err(error) = done {
                    assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                    break;
                }
            }
            assert!(store.stats().unwrap().buffered > 0);
            let all = store.list(b"", None, 10_000).unwrap();
            let mut small = all.into_iter().filter(|object| object.name.starts_with(b"small"));
            for object in small.by_ref().take(20) {
                assert!(store.delete(object.name).await.unwrap());
            }
            // Together: the room for tombstones on the drives is another matter.
            let deletions = join_all(small.map(|object| store.delete(object.name))).await;
            assert!(deletions.into_iter().all(Result::unwrap));
            left(&devices, &buffer, 7)
        });
        with_either(left, |store| async move {
            assert_eq!(store.list(b"small", None, 9).unwrap(), []);
            assert!(!store.list(b"big", None, 9).unwrap().is_empty());
        });
    }
}

/// AS-BUF-4: when the array is full and both files fail, what is buffered can be deleted, and what is not deleted stays.
#[test]
fn with_a_full_array_and_both_files_gone_everything_can_be_deleted() {
    for closed in [false, true] {
        let left = Sim::new(5).run(move |rt| async move {
            let devices = powered(&rt, &media());
            let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
            let options = Options { buffer_bytes: 64 << 10, ..plain() };
            let (store, _) = try_open(&rt, &devices, Some(&buffer), options).await.unwrap();
            let fill = async |name: &str, length: usize| {
                for number in 0.. {
                    let put = store.put(format!("{name}{number}"), content((number, length)), Bytes::new());
                    if put.await.is_err() {
                        return number;
                    }
                }
                unreachable!()
            };
            let (big, small) = (fill("big", 40_000).await, fill("small", 3000).await);
            let buffered = store.stats().unwrap().buffered;
            assert!(buffered > 10_000, "{buffered}");
            buffer.iter().for_each(|file| file.fail());
            // The newest are buffered.
            for number in (2..small).rev() {
                let deleted = store.delete(format!("small{number}")).await;
                assert!(deleted.unwrap_or_else(|error| panic!("small{number}: {error}")));
            }
            assert_eq!(store.stats().unwrap().buffered, 0);
            // The cleaner has what it needs still.
            for number in 1..big {
                assert!(store.delete(format!("big{number}")).await.unwrap());
            }
            for number in 1..big / 2 {
                store.put(format!("new{number}"), content((number, 40_000)), Bytes::new()).await.unwrap();
            }
            if closed {
                store.close().await.unwrap();
            }
            left(&devices, &buffer, 7)
        });
        with_either(left, |store| async move {
            let names = |prefix: &[u8]| store.list(prefix, None, 9).unwrap().len();
            assert_eq!((names(b"small"), names(b"big")), (2, 1));
            for number in 0..2 {
                let found = store.get(format!("small{number}")).await.unwrap();
                assert!(found == content((number, 3000)), "small{number}");
            }
        });
    }
}

/// AS-WRITE-3: both files take an object and fail, and the full array has no room for it. It is not refused as one of which nothing was
/// stored: the next opening finds it.
#[test]
fn an_object_that_both_files_took_before_they_failed_is_not_refused_for_want_of_room() {
    let (kind, left) = Sim::new(5).run(|rt| async move {
        let devices = powered(&rt, &media());
        let (store, _) = try_open(&rt, &devices, None, plain()).await.unwrap();
        put(&store, "o", 1).await;
        for length in [40_000, 11_000, 3000, 300] {
            for number in 0.. {
                let name = format!("{length}/{number}");
                if store.put(name, content((number, length)), Bytes::new()).await.is_err() {
                    break;
                }
            }
        }
        store.close().await.unwrap();
        let devices = powered(&rt, &devices.iter().map(SimDevice::image).collect::<Vec<_>>());
        let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
        let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        // The power fails before a superblock says that the files are not needed: what they hold has to be written first.
        put(&store, "p", 3).await;
        devices.iter().for_each(|device| device.set_latency(Duration::from_millis(5)));
        buffer.iter().for_each(|file| file.lose_answers());
        let error = store.put("o", content((2, 3000)), Bytes::from_static(b"with it")).await.unwrap_err();
        (error.kind, left(&devices, &buffer, 7))
    });
    assert_eq!(kind, ErrorKind::Device);
    with_either(left, |store| async move {
        is(&store, "o", 2).await;
        is(&store, "p", 3).await;
    });
}

/// AS-BUF-2: far more goes through than fits, round after round.
#[test]
fn the_ring_is_used_again() {
    Sim::new(6).run(|rt| async move {
        let devices = powered(&rt, &media());
        let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
        let options = || Options { buffer_bytes: 128 << 10, ..plain() };
        let (store, _) = try_open(&rt, &devices, Some(&buffer), options()).await.unwrap();
        for number in 0..300 {
            put(&store, &format!("o{}", number % 40), number).await;
        }
        assert!(buffer[0].bytes().len() <= 2 * 4096 + (128 << 10));
        let Left { devices, files } = left(&devices, &buffer, 3);
        let devices = powered(&rt, &devices);
        let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
        let (store, _) = try_open(&rt, &devices, Some(&buffer), options()).await.unwrap();
        for number in 260..300 {
            is(&store, &format!("o{}", number % 40), number).await;
        }
        assert_eq!(store.stats().unwrap().objects, 40);
    });
}

fn random_options(random: &mut Random) -> Options {
    Options { buffer_bytes: 40_000 + random.below(200_000) as u32, ..options(random) }
}

/// A power cut at random commands of random histories: as `crash.rs`, with the buffer, of which a file may be lost too.
#[test]
fn cut_anywhere_with_either_file() {
    for seed in seeds(40) {
        let mut random = Random::new(seed);
        let mut media = formatted(&shape(&mut random));
        let mut files: [Vec<u8>; 2] = Default::default();
        let mut model = Model::default();
        for round in 0..3 {
            let opened = random_options(&mut random);
            let mut drawn = Random::new(random.number());
            let callers = 1 + random.below(4);
            (media, files, model) = Sim::new(seed * 7 + round).run(move |rt| async move {
                let context = format!("seed {seed}, round {round}");
                let devices = powered(&rt, &media);
                let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
                let (store, report) = try_open(&rt, &devices, Some(&buffer), opened).await.unwrap();
                assert_eq!(report.damage, Vec::<String>::new(), "{context}");
                model.settle(&store, &context).await;
                let model = Rc::new(RefCell::new(model));
                let cut = Rc::new(RefCell::new(None));
                let at = drawn.below(1500);
                let number = Rc::new(Cell::new(0));
                for device in &devices {
                    let (all, buffer, model) = (devices.clone(), buffer.clone(), model.clone());
                    let (cut, number) = (cut.clone(), number.clone());
                    device.on_command(move |_, _| {
                        number.set(number.get() + 1);
                        if number.get() == at {
                            *cut.borrow_mut() = Some((left(&all, &buffer, seed + at), model.borrow().clone()));
                        }
                    });
                }
                let drivers: Vec<_> = (0..callers)
                    .map(|caller| Driver {
                        rt: rt.clone(),
                        store: store.clone(),
                        model: model.clone(),
                        random: Random::new(drawn.number()),
                        caller,
                        names: 5,
                        size_max: [4_000, 60_000][drawn.below(2) as usize],
                        faulty: false,
                    })
                    .map(|driver| rt.spawn(driver.run(40)))
                    .collect();
                for driver in drivers {
                    driver.await.unwrap();
                }
                devices.iter().for_each(|device| device.on_command(|_, _| {}));
                let found = cut.take().unwrap_or_else(|| (left(&devices, &buffer, seed), model.borrow().clone()));
                let (Left { devices, mut files }, model) = found;
                match drawn.below(3) {
                    0 => {}
                    lost => files[lost as usize - 1] = Vec::new(),
                }
                (devices, files, model)
            });
        }
    }
}
