//! Puts that fail and have landed.

use std::sync::atomic::Ordering;

use shingle_zoned::ZonedDevice;

use super::*;

/// AS-PUT-3: drives execute what they were sent, and answer nothing. The put fails; a deletion is not acknowledged as long as it cannot be
/// durable, for the next opening may find the object.
#[test]
fn a_deletion_after_a_put_that_may_have_landed_is_final() {
    let (images, deleted) = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        store.put("before", bytes(1, 100), Bytes::new()).await.unwrap();
        devices.iter().for_each(|device| device.set_latency(Duration::from_millis(5)));
        let putting = {
            let store = store.clone();
            rt.spawn(async move { store.put("o", bytes(1, 100), Bytes::new()).await })
        };
        rt.sleep(Duration::from_millis(2)).await;
        for device in &devices {
            device.power_off_at(device.counts().commands);
            assert!(device.report(ZoneId(0), 1).await.is_err());
        }
        assert_eq!(putting.await.unwrap().unwrap_err().kind, ErrorKind::Device);
        assert!(!store.delete("never").await.unwrap(), "of this nothing was ever written");
        let deleted = store.delete("o").await;
        (devices.iter().map(SimDevice::image).collect::<Vec<_>>(), deleted.is_ok())
    });
    Sim::new(2).run(move |rt| async move {
        let (_, store, _) = open(&rt, &images).await;
        assert!(store.head(b"before").is_ok());
        assert!(store.head(b"o").is_ok(), "the case is not met");
        assert!(!deleted, "an acknowledged deletion is undone");
    });
}

/// AS-IX-5, AS-PUT-3: the index refuses a change, as where its file system is full, and takes changes again later.
#[test]
fn an_index_that_refuses_a_change_ends_all_writes() {
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        store.put("before", bytes(1, 100), Bytes::new()).await.unwrap();
        let refuses = |refuses| store.0.index().unwrap().refuses.store(refuses, Ordering::Relaxed);
        refuses(true);
        assert_eq!(store.put("o", bytes(2, 100), Bytes::new()).await.unwrap_err().kind, ErrorKind::Index);
        refuses(false);
        let refused = |error: crate::Error| assert_eq!(error.kind, ErrorKind::Index);
        refused(store.delete("o").await.expect_err("an acknowledged deletion is undone"));
        refused(store.delete("before").await.unwrap_err());
        refused(store.put("p", bytes(2, 100), Bytes::new()).await.unwrap_err());
        refused(store.snapshot().await.unwrap_err());
        assert!(store.get("before").await.unwrap() == bytes(1, 100));
        refused(store.close().await.unwrap_err());
        devices.iter().map(SimDevice::image).collect::<Vec<_>>()
    });
    Sim::new(2).run(move |rt| async move {
        let (_, store, report) = open(&rt, &images).await;
        assert!(!report.clean && report.damage.is_empty());
        assert!(store.get("before").await.unwrap() == bytes(1, 100));
        assert!(store.get("o").await.unwrap() == bytes(2, 100), "the case is not met");
        assert!(store.delete("o").await.unwrap());
    });
}
