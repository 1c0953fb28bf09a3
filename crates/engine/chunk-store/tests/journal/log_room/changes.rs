//! Changes to chunks that are refused, or given up by their callers: nothing of them stays behind.

use super::*;

/// CS-DEL-1: a deletion that was refused has not happened: a sealed chunk is sealed, and says so to whoever seals it again; another
/// one takes appends.
#[test]
fn a_chunk_whose_deletion_was_refused_is_as_it_was() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        for chunk in [1, 2] {
            store.create(id(chunk), Stream::Data).await.unwrap();
            append(&store, chunk, 0, 100).await.unwrap();
        }
        store.seal(id(1)).await.unwrap();
        let before = [1, 2].map(|chunk| store.stat(id(chunk)).unwrap());
        fill_log(&rt, &device, &store).await;
        for chunk in [1, 2] {
            assert_eq!(store.delete(id(chunk)).await.unwrap_err().kind, ErrorKind::Device);
        }
        assert_eq!([1, 2].map(|chunk| store.stat(id(chunk)).unwrap()), before);
        assert_eq!(ends(&rt, "seal", store.seal(id(1))).await.unwrap(), 100);
        assert_eq!(append(&store, 2, 100, 100).await.unwrap(), 200);
    });
}

/// The same where the seal becomes durable while the deletion waits for the journal: it took the last place.
#[test]
fn a_seal_that_ends_during_a_deletion_that_is_refused_counts() {
    let mut met = 0;
    for (shift, delay) in (0..3).flat_map(|shift| (0..8).map(move |delay| (shift, delay))) {
        let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
        met += Sim::new(1).run(move |rt| async move {
            let context = format!("shift {shift}, delay {delay}");
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, quiet()).await;
            shrink_log(&rt, &device, &store).await;
            churn(&store, 20_000, shift).await.unwrap();
            device.set_latency(Duration::from_millis(1));
            for number in 0..5000 {
                if store.create(id(number), Stream::Data).await.is_err() {
                    return 0;
                }
                // While the entry of the seal is being written.
                let delete = async {
                    rt.sleep(Duration::from_micros(500 + 1000 * delay)).await;
                    store.delete(id(number)).await
                };
                let (sealed, deleted) = join(store.seal(id(number)), delete).await;
                if deleted.is_err() {
                    let stat = store.stat(id(number)).unwrap();
                    assert_eq!(stat.sealed, sealed.is_ok(), "{context}: {stat:?}");
                    if sealed.is_ok() {
                        assert_eq!(ends(&rt, "seal", store.seal(id(number))).await.unwrap(), 0, "{context}");
                    }
                    return u32::from(sealed.is_ok());
                }
            }
            panic!("{context}: the log never fills");
        });
    }
    assert!(met > 0, "no seal took the last place");
}

/// CS-DEL-1: a caller of a deletion may go away while that waits for an append: nobody deletes the chunk then.
#[test]
fn a_deletion_that_was_given_up_in_time_leaves_the_chunk_as_it_was() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        store.create(id(1), Stream::Data).await.unwrap();
        append(&store, 1, 0, 100).await.unwrap();
        let second = store.append(id(1), 100, vec![Bytes::from(content(1, 100, 100))]);
        {
            let mut delete = Box::pin(store.delete(id(1)));
            assert!(futures_util::poll!(&mut delete).is_pending());
            assert_eq!(store.stat(id(1)).unwrap_err().kind, ErrorKind::NotFound);
        }
        assert!(store.stat(id(1)).is_ok() && store.list(None, 10).len() == 1);
        second.await.unwrap();
        assert_eq!(append(&store, 1, 200, 100).await.unwrap(), 300);
        assert!(store.read(id(1), 0, 300).await.unwrap().len() == 300);
        store.delete(id(1)).await.unwrap();
        assert_eq!(store.stat(id(1)).unwrap_err().kind, ErrorKind::NotFound);
    });
}

/// CS-CREATE-1: a caller of a creation may go away while its entry is on its way: nobody knows of the chunk, and it goes.
#[test]
fn a_creation_that_was_given_up_leaves_no_chunk() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        {
            let mut create = Box::pin(store.create(id(1), Stream::Data));
            assert!(futures_util::poll!(&mut create).is_pending());
        }
        rt.sleep(Duration::from_secs(1)).await;
        assert!(store.list(None, 10).is_empty());
        let image = device.crash_image(1);
        store.create(id(1), Stream::Data).await.unwrap_or_else(|error| panic!("{error}"));
        append(&store, 1, 0, 100).await.unwrap();
        let (store, _) = open(&rt, &SimDevice::new(&rt, &image), quiet()).await;
        assert!(store.list(None, 10).is_empty());
    });
}

/// CS-CREATE-1: so may a client of a store that serves.
#[test]
fn a_creation_that_a_client_gave_up_leaves_no_chunk() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        let (client, requests) = ChunkClient::channel(16);
        let serving = store.clone();
        drop(rt.spawn(async move { serving.serve(requests).await }));
        let mut given_up = 0;
        for number in 0..20 {
            let create = Box::pin(client.create(id(number), Stream::Data));
            let pause = Box::pin(rt.sleep(Duration::from_micros(10 * number)));
            if let Either::Left((created, _)) = select(create, pause).await {
                created.unwrap();
                store.delete(id(number)).await.unwrap();
                continue;
            }
            given_up += 1;
            rt.sleep(Duration::from_secs(1)).await;
            assert!(store.list(None, 10).is_empty(), "given up after {number} times 10 us");
        }
        assert!(given_up > 3, "{given_up} creations were given up");
    });
}

/// CS-CREATE-1: a client may leave at any step, even between the end of the creation and its answer.
#[test]
fn a_creation_whose_answer_finds_nobody_leaves_no_chunk() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    for seed in seeds(4) {
        let medium = medium.snapshot();
        Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, quiet()).await;
            // All of a creation happens at one time, one step after the other.
            device.set_latency(Duration::ZERO);
            let (client, requests) = mpsc::channel(16);
            let serving = store.clone();
            drop(rt.spawn(async move { serving.serve(requests).await }));
            let (mut answered, mut given_up) = (0, 0);
            for steps in (0..60).flat_map(|steps| [steps; 4]) {
                let (reply, mut answer) = oneshot::channel();
                let create = Request::Create { id: id(1), stream: Stream::Data, reply };
                client.send(create).await.unwrap_or_else(|_| panic!("seed {seed}: the store is gone"));
                for _ in 0..steps {
                    rt.yield_now().await;
                }
                if answer.try_recv().is_ok() {
                    answered += 1;
                    store.delete(id(1)).await.unwrap();
                    continue;
                }
                given_up += 1;
                drop(answer);
                rt.sleep(Duration::from_secs(1)).await;
                assert!(store.list(None, 10).is_empty(), "seed {seed}: given up after {steps} steps");
            }
            assert!(answered > 10 && given_up > 10, "seed {seed}: {answered} answers, {given_up} given up");
        });
    }
}

/// CS-CREATE-1: the entry of a creation that was given up took the last place in the log. Nobody sees the chunk while its deletion finds none.
#[test]
fn a_creation_that_was_given_up_stays_hidden_while_the_log_is_full() {
    let mut met = 0;
    for shift in 0..6 {
        let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
        met += Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, quiet()).await;
            for kept in 0..shift {
                store.create(id(20_000 + kept), Stream::Data).await.unwrap();
            }
            shrink_log(&rt, &device, &store).await;
            for number in 0..5000 {
                {
                    let mut create = Box::pin(store.create(id(number), Stream::Data));
                    if futures_util::poll!(&mut create).is_ready() {
                        break;
                    }
                }
                rt.sleep(Duration::from_millis(10)).await;
            }
            rt.sleep(Duration::from_secs(10)).await;
            let refused = store.create(id(30_000), Stream::Data).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Device, "shift {shift}: the log never fills");
            assert_eq!(store.list(None, 100).len() as u64, shift, "shift {shift}");
            drop(ends(&rt, "close", store.close()).await);
            store.store_stat().chunks - shift
        });
    }
    assert!(met > 0, "no creation took the last place");
}

/// CS-DEL-2: another caller deletes a chunk, too, while that is on its way.
#[test]
fn nobody_hears_that_a_chunk_is_gone_before_that_is_durable() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        store.create(id(1), Stream::Data).await.unwrap();
        append(&store, 1, 0, 100).await.unwrap();
        let again = async { (store.delete(id(1)).await, device.crash_image(1)) };
        let (deleted, (again, image)) = join(store.delete(id(1)), again).await;
        deleted.unwrap();
        assert_eq!(again.unwrap_err().kind, ErrorKind::NotFound);
        let (store, _) = open(&rt, &SimDevice::new(&rt, &image), quiet()).await;
        assert!(store.list(None, 10).is_empty(), "CS-DEL-2");
    });
}
