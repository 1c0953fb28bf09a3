//! Checks of metadata that do not agree: each kind of difference in the lists of holders is found, with the holder.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_blue_store::kv::LogKvOptions;
use shingle_blue_store::{ObjectId, Options, Store, Transaction};
use shingle_sim::{Sim, contents};
use shingle_zoned::Geometry;

use crate::common::{collection, format, options};
use crate::watched::{Watch, Watched};

#[test]
fn holders_that_are_missing_or_too_many_are_named() {
    Sim::new(1).run(|rt| async move {
        let device = format(&rt, &Geometry::hm_smr(Blocks(1024), 60, 0, 16)).await;
        let watch = Rc::new(Watch::default());
        let log = Rc::new(Watched(LogKvOptions::default(), watch.clone()));
        let (store, _) = Store::open(&rt, Rc::new(device), Options { log, ..options() }).await.unwrap();
        let info = collection(0, 0);
        store.create_collection(info).await.unwrap();
        // More than a page of each kind of key.
        for number in 0..1_200u64 {
            let mut transaction = Transaction::new();
            let id = ObjectId::new(1, format!("{number}"));
            transaction.write(&id, 0, contents(number, 0, 8_200)).omap_set(&id, b"key", b"value".to_vec());
            if number < 3 {
                transaction.clone_object(&id, &id.at_generation(number));
            }
            store.submit(info.id, transaction).await.unwrap();
        }
        assert_eq!(store.check(true).await.unwrap(), []);
        let live = store.dump_metadata(b"G", 2_000).await.unwrap();
        let live: Vec<Bytes> = live.into_iter().map(|(key, _)| key).filter(|key| key.starts_with(b"G")).collect();
        assert!(live.len() > 1_100, "{}", live.len());
        for key in [&live[3], &live[1_050], &live[live.len() - 1]] {
            *watch.hidden.borrow_mut() = key.clone();
            let found = store.check(false).await.unwrap();
            assert!(found.len() == 1 && found[0].text.contains("do not say that it has blocks"), "{found:?}");
            *watch.hidden.borrow_mut() = Bytes::new();
            let mut other = key.to_vec();
            other[4] ^= 8;
            *watch.added.borrow_mut() = other.into();
            let more = store.check(false).await.unwrap();
            assert!(more.len() == 1 && more[0].text.contains("and it has none"), "{more:?}");
            assert_eq!((&more[0].object, &more[0].place), (&found[0].object, &found[0].place));
            *watch.added.borrow_mut() = Bytes::new();
        }
        assert_eq!(store.check(false).await.unwrap(), []);
    });
}
