//! API-FIL-1, API-FIL-2: the file contract of `store-api`, on a drive that keeps data and on one that keeps none.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_record::keep_metadata;
use shingle_sim::{Sim, SimDevice};
use shingle_store_api::{FileStore, StoreErrorKind};
use shingle_zone_files::{FormatOptions, Options, ZoneFiles};
use shingle_zoned::{Geometry, MemoryDevice};

use crate::common::{fresh, open};

#[test]
fn names_are_flat_and_open_files_stay() {
    Sim::new(1).run(|rt| async move {
        let (device, files) = fresh(&rt).await;
        let store: Rc<dyn FileStore> = Rc::new(files);
        let file = store.create("a/b.sst").await.unwrap();
        file.append(vec![Bytes::from_static(b"bytes")]).await.unwrap();
        file.sync().await.unwrap();
        store.rename("a/b.sst", "c").await.unwrap();
        assert_eq!(store.names().await.unwrap(), ["c"]);
        assert_eq!(store.open("a/b.sst").await.map(|_| ()).map_err(|error| error.kind), Err(StoreErrorKind::NoSuchKey));
        store.delete("c").await.unwrap();
        assert_eq!(store.delete("c").await.map_err(|error| error.kind), Err(StoreErrorKind::NoSuchKey));
        assert_eq!((file.length(), file.read(1, 3).await.unwrap()), (5, Bytes::from("yte")));
        let image = SimDevice::new(&rt, &device.crash_image(1));
        let (files, _) = open(&rt, &image).await.unwrap();
        assert!(FileStore::names(&files).await.unwrap().is_empty());
    });
}

/// ZF-TREE-4: a name that no journal entry can have is refused, and does not make the drive one that cannot be opened.
#[test]
fn names_that_no_opening_takes_are_refused() {
    Sim::new(1).run(|rt| async move {
        let (device, files) = fresh(&rt).await;
        FileStore::create(&files, "a").await.unwrap();
        for name in ["", "a\0b", &"x".repeat(256)] {
            let refused = FileStore::create(&files, name).await.map(drop).map_err(|error| error.kind);
            assert_eq!(refused, Err(StoreErrorKind::Invalid), "{name:?}");
            let refused = FileStore::rename(&files, "a", name).await.map_err(|error| error.kind);
            assert_eq!(refused, Err(StoreErrorKind::Invalid), "{name:?}");
        }
        let (files, _) = open(&rt, &SimDevice::resume(&rt, device.kill())).await.unwrap();
        assert_eq!(FileStore::names(&files).await.unwrap(), ["a"]);
    });
}

#[test]
fn a_drive_that_keeps_no_data_has_sizes_and_logs_all_the_same() {
    Sim::new(1).run(|rt| async move {
        let memory = MemoryDevice::metadata_only(Geometry::hm_smr(Blocks(64), 40, 0, 8), keep_metadata);
        let device = SimDevice::new(&rt, &memory);
        let shared = Rc::new(device.clone());
        ZoneFiles::format(&rt, shared.clone(), FormatOptions::default()).await.unwrap();
        let (files, _) = ZoneFiles::open(&rt, shared, Options::default()).await.unwrap();
        for name in ["000002.sst", "000001.log"] {
            let file = FileStore::create(&files, name).await.unwrap();
            for _ in 0..50 {
                file.append(vec![Bytes::from(vec![1; 30_000])]).await.unwrap();
                file.sync().await.unwrap();
            }
            assert_eq!(file.read(1_000_000, 5).await.unwrap(), [0; 5][..]);
        }
        let (files, report) = open(&rt, &SimDevice::resume(&rt, device.kill())).await.unwrap();
        assert!(report.records > 10 && report.torn.is_empty(), "{report:?}");
        for name in ["000001.log", "000002.sst"] {
            assert_eq!(FileStore::open(&files, name).await.unwrap().length(), 1_500_000);
        }
    });
}
