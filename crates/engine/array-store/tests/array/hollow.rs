//! An array on drives that drop payload, as experiments use it: everything but the bytes of objects is as on real ones.

use std::rc::Rc;

use crate::common::{content, named, open, powered};
use bytes::Bytes;
use shingle_array_store::{FormatOptions, Options};
use shingle_base::Blocks;
use shingle_erasure::Code;
use shingle_sim::{Sim, SimDevice};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

const SEGMENT: u32 = 400_000;

/// Objects, the snapshot of the index and what came after it are found again; a drive that is gone is made up for.
#[test]
fn hollow_drives_keep_all_that_an_array_needs() {
    let geometry = Geometry::hm_smr(Blocks(400), 12, 0, 12);
    let fresh = || MemoryDevice::metadata_only(geometry.clone(), shingle_record::keep_unless_hollow);
    let media: Vec<MemoryDevice> = (0..4).map(|_| fresh()).collect();
    let options = || Options { background: false, ..Options::default() };
    let sizes = [3, 90_000, 399_999, 1_300_000, 2_000_000];
    let images: Vec<MemoryDevice> = Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let format = FormatOptions { segment_length: SEGMENT, ..FormatOptions::new(Code::new(3, 1).unwrap()) };
        shingle_array_store::format(&rt, &named(&devices), &format).await.unwrap();
        let (store, _) = open(&rt, &devices, options()).await;
        for (number, size) in sizes.into_iter().enumerate() {
            store.put(format!("o{number}"), content((1, size)), Bytes::from_static(b"x")).await.unwrap();
        }
        store.snapshot().await.unwrap();
        store.put("after", content((1, 500_000)), Bytes::new()).await.unwrap();
        store.delete("o0").await.unwrap();
        // Cleaning moves what lives, and with it no more bytes than there are.
        for number in 0..20 {
            store.put(format!("dead{}", number % 2), content((1, 500_000)), Bytes::new()).await.unwrap();
        }
        store.gc(3).await.unwrap();
        devices.iter().map(|device| device.crash_image(1)).collect()
    });
    let held: u64 = images.iter().map(MemoryDevice::held_bytes).sum();
    assert!(held < 1_000_000, "payload was kept: {held} bytes");
    Sim::new(2).run(move |rt| async move {
        let devices: Vec<SimDevice> = powered(&rt, &images);
        let (store, report) = open(&rt, &devices, options()).await;
        assert_eq!((report.damage.len(), report.snapshot_lost), (0, false), "{report:?}");
        assert!(report.snapshot_pieces > 0, "the snapshot was read");
        for (number, size) in sizes.into_iter().enumerate().skip(1) {
            assert_eq!(store.get(format!("o{number}")).await.unwrap().len(), size);
            assert_eq!(&store.head(format!("o{number}").as_bytes()).unwrap().attributes[..], b"x");
        }
        assert_eq!(store.get("after").await.unwrap().len(), 500_000);
        assert!(store.get("o0").await.is_err());
        let reads = devices[0].counts().reads.1;
        devices[1].power_off_at(devices[1].counts().commands);
        assert_eq!(store.get("o4").await.unwrap().len(), 2_000_000);
        assert!(devices[0].counts().reads.1 > reads, "reads take place");
        let device: Rc<dyn ZonedDevice> = Rc::new(devices[0].clone());
        assert!(!device.geometry().keeps_payload);
    });
}
