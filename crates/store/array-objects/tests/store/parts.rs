//! Parts of an upload that are sent twice: the last that is acknowledged counts, whichever was begun first.

use bytes::Bytes;
use futures_util::future::join;
use shingle_array_objects::ArrayClient;
use shingle_sim::clients::{bytes_of, commit, get};
use shingle_sim::{Random, Sim, SimDevice};
use shingle_store_api::{CompletedPart, ObjectStore, UploadId};

use crate::calls::multipart;
use crate::scene::{assert_no_leftovers, formatted, open, powered, with_store};

/// Large enough not to be held in memory: it is begun on the array when its bytes come.
const LARGE: usize = 20_000;

async fn listed(store: &ArrayClient, id: UploadId) -> Vec<(u32, String)> {
    let parts = store.list_parts("b", "k", id, 0, 100).await.unwrap().0;
    parts.into_iter().map(|part| (part.number, part.etag)).collect()
}

async fn complete(store: &ArrayClient, id: UploadId, etag: &str) -> Bytes {
    let wanted = vec![CompletedPart { number: 1, etag: etag.to_owned() }];
    store.complete_upload("b", "k", id, wanted, commit("whole")).await.unwrap();
    get(store, "b", "k").await.unwrap()
}

/// AO-UPL-2: the part that was begun first ends last.
#[test]
fn of_two_parts_the_one_acknowledged_last_counts_though_it_was_begun_first() {
    with_store(|rt, store| async move {
        store.create_bucket("b").await.unwrap();
        let id = multipart(&store, "k", &[]).await;
        for (number, sizes) in [(1, [LARGE, LARGE]), (2, [LARGE, 100]), (3, [LARGE, 0])] {
            let mut early = store.begin_part("b", "k", id, number).await.unwrap();
            early.write(bytes_of(1, sizes[0])).await.unwrap();
            let mut late = store.begin_part("b", "k", id, number).await.unwrap();
            late.write(bytes_of(2, sizes[1])).await.unwrap();
            late.commit(commit("late")).await.unwrap();
            assert_eq!(listed(&store, id).await.pop().unwrap(), (number, "late".to_owned()));
            early.commit(commit("early")).await.unwrap();
            assert_eq!(listed(&store, id).await.pop().unwrap(), (number, "early".to_owned()));
        }
        assert_no_leftovers(&rt, &store, "of parts sent twice").await;
        assert!(complete(&store, id, "early").await == bytes_of(1, LARGE));
        assert_no_leftovers(&rt, &store, "of an upload whose parts were sent twice").await;
    });
}

/// AO-UPL-2: two commits at the same time. One is acknowledged after the other, and is the part, also after the power has failed.
#[test]
fn of_parts_committed_at_the_same_time_the_last_acknowledged_counts_after_a_power_cut_too() {
    let mut early_last = 0;
    for seed in 0..12 {
        let media = formatted(seed);
        let (media, id, last) = Sim::new(seed).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let (_engine, store) = open(&rt, &devices, &mut Random::new(seed)).await;
            store.create_bucket("b").await.unwrap();
            let id = multipart(&store, "k", &[]).await;
            let mut random = Random::new(seed);
            let mut writers = Vec::new();
            for content in 0..2 {
                let mut writer = store.begin_part("b", "k", id, 1).await.unwrap();
                writer.write(bytes_of(content, random.between(1, LARGE as u64) as usize)).await.unwrap();
                writers.push(writer);
            }
            let acknowledged = std::cell::RefCell::new(Vec::new());
            let end = async |writer: Box<dyn shingle_store_api::ObjectWriter>, name: &str| {
                writer.commit(commit(name)).await.unwrap();
                acknowledged.borrow_mut().push(name.to_owned());
            };
            let (late, early) = (writers.pop().unwrap(), writers.pop().unwrap());
            if random.chance(0.5) {
                join(end(late, "late"), end(early, "early")).await;
            } else {
                join(end(early, "early"), end(late, "late")).await;
            }
            let last = acknowledged.take().pop().unwrap();
            let media: Vec<_> = devices.iter().map(|device| device.crash_image(seed)).collect();
            (media, id, last)
        });
        early_last += u32::from(last == "early");
        Sim::new(seed).run(move |rt| async move {
            let devices: Vec<SimDevice> = powered(&rt, &media);
            let (engine, store) = open(&rt, &devices, &mut Random::new(seed)).await;
            assert_eq!(listed(&store, id).await, [(1, last.clone())], "seed {seed}");
            assert_no_leftovers(&rt, &store, "of a part sent twice").await;
            complete(&store, id, &last).await;
            engine.close().await.unwrap();
        });
    }
    assert!((2..11).contains(&early_last), "the case is not met: {early_last}");
}
