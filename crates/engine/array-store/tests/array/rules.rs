//! Calls on one object at the same time. (SMORE, sections III-A and III-F.)

use crate::common::{content, formatted, open, powered, shape};
use bytes::Bytes;
use shingle_array_store::{ArrayStore, ErrorKind, Options};
use shingle_sim::{Random, Sim, SimDevice};
use shingle_zoned::MemoryDevice;

const OLD: (u64, usize) = (1, 90_000);
const NEW: (u64, usize) = (2, 120_000);

/// Runs `test` on a fresh array, then `after` on what a power cut at its end leaves.
fn with_array<F, G>(test: impl FnOnce(ArrayStore) -> F + 'static, after: impl FnOnce(ArrayStore) -> G + 'static)
where
    F: Future<Output = ()> + 'static,
    G: Future<Output = ()> + 'static,
{
    let media = formatted(&shape(&mut Random::new(5)));
    let images: Vec<MemoryDevice> = Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (store, _) = open(&rt, &devices, Options { background: false, ..Options::default() }).await;
        test(store).await;
        devices.iter().map(|device| device.crash_image(1)).collect()
    });
    Sim::new(2).run(move |rt| async move {
        let devices: Vec<SimDevice> = powered(&rt, &images);
        let (store, report) = open(&rt, &devices, Options::default()).await;
        assert_eq!(report.damage, Vec::<String>::new());
        after(store).await;
    });
}

async fn is(store: &ArrayStore, expected: (u64, usize)) {
    assert!(store.get("o").await.unwrap() == content(expected));
}

async fn is_gone(store: &ArrayStore) {
    assert_eq!(store.get("o").await.unwrap_err().kind, ErrorKind::NotFound);
}

/// AS-PUT-1.
#[test]
fn readers_find_the_old_version_until_the_new_one_is_complete() {
    with_array(
        |store| async move {
            store.put("o", content(OLD), Bytes::new()).await.unwrap();
            let before = store.open_object("o").unwrap();
            let mut put = store.begin_put("o").unwrap();
            put.write(content(NEW)).await.unwrap();
            is(&store, OLD).await;
            put.finish(Bytes::new()).await.unwrap();
            is(&store, NEW).await;
            // A reader of the old one goes on reading it, also when its space is wanted.
            store.gc(10).await.unwrap();
            assert!(before.read(0, 1000).await.unwrap()[..] == content(OLD)[..1000]);
        },
        |store| async move { is(&store, NEW).await },
    );
}

#[test]
fn a_version_that_was_not_completed_leaves_the_old_one() {
    with_array(
        |store| async move {
            store.put("o", content(OLD), Bytes::new()).await.unwrap();
            let mut put = store.begin_put("o").unwrap();
            put.write(content(NEW)).await.unwrap();
            // The power fails with the version half written.
            std::mem::forget(put);
        },
        |store| async move {
            is(&store, OLD).await;
            assert_eq!(store.stats().unwrap().live, OLD.1 as u64, "half a version takes no space");
        },
    );
}

#[test]
fn the_version_that_began_last_wins_whichever_ends_first() {
    with_array(
        |store| async move {
            let mut first = store.begin_put("o").unwrap();
            first.write(content(OLD)).await.unwrap();
            let mut second = store.begin_put("o").unwrap();
            second.write(content(NEW)).await.unwrap();
            second.finish(Bytes::new()).await.unwrap();
            first.finish(Bytes::new()).await.unwrap();
            is(&store, NEW).await;
        },
        |store| async move {
            is(&store, NEW).await;
            assert_eq!(store.stats().unwrap().live, NEW.1 as u64, "the older version takes no space");
        },
    );
}

#[test]
fn a_deletion_spares_a_version_that_begins_after_it() {
    with_array(
        |store| async move {
            store.put("o", content(OLD), Bytes::new()).await.unwrap();
            let delete = store.delete("o");
            let write = async {
                let mut put = store.begin_put("o").unwrap();
                put.write(content(NEW)).await.unwrap();
                put.finish(Bytes::new()).await.unwrap();
            };
            // The deletion is polled first, so it comes first.
            let (deleted, ()) = futures_util::future::join(delete, write).await;
            assert!(deleted.unwrap());
            is(&store, NEW).await;
        },
        |store| async move { is(&store, NEW).await },
    );
}

#[test]
fn a_deletion_ends_a_version_that_began_before_it() {
    with_array(
        |store| async move {
            store.put("o", content(OLD), Bytes::new()).await.unwrap();
            let mut put = store.begin_put("o").unwrap();
            put.write(content(NEW)).await.unwrap();
            assert!(store.delete("o").await.unwrap());
            put.finish(Bytes::new()).await.unwrap();
            is_gone(&store).await;
            assert!(!store.delete("o").await.unwrap(), "there is nothing left to delete");
        },
        |store| async move { is_gone(&store).await },
    );
}

#[test]
fn a_deletion_of_nothing_writes_nothing() {
    with_array(
        |store| async move {
            let before = store.stats().unwrap();
            assert!(!store.delete("o").await.unwrap());
            assert_eq!(store.stats().unwrap(), before);
        },
        |store| async move { is_gone(&store).await },
    );
}
