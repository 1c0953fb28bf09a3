//! Parts of an upload that are sent twice: the last that is acknowledged counts.

use std::cell::RefCell;
use std::time::Duration;

use futures_util::future::join;
use shingle_object_store::MemoryIndex;
use shingle_sim::clients::{bytes_of, commit, get};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger};
use shingle_store_api::{CompletedPart, Metadata, ObjectStore};

use crate::zones::{formatted, object_options, open};

/// OS-UPL-1: the first of two commits of a part meets a drive that hangs, and is acknowledged after the second, or before: the last
/// that is acknowledged is listed and completed, and of the other nothing is left.
#[test]
fn of_two_commits_of_a_part_the_one_acknowledged_last_counts() {
    let mut met = 0;
    for hung in 0..3 {
        let media = formatted(1, 3);
        met += Sim::new(1).run(move |rt| async move {
            let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            let (_engine, store, _) = open(&rt, &devices, MemoryIndex::new(), object_options(true)).await;
            store.create_bucket("b").await.unwrap();
            let id = store.begin_upload("b", "k", Metadata::new()).await.unwrap().id;
            let never = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::Hang };
            devices[hung].set_faults(Faults::new([never]));
            let acknowledged = RefCell::new(Vec::new());
            let send = async |content: u64, after: Duration| {
                rt.sleep(after).await;
                let mut writer = store.begin_part("b", "k", id, 1).await.unwrap();
                writer.write(bytes_of(content, 5000)).await.unwrap();
                writer.commit(commit(&content.to_string())).await.unwrap();
                acknowledged.borrow_mut().push(content);
            };
            let began = rt.now();
            join(send(1, Duration::ZERO), send(2, Duration::from_millis(100))).await;
            let waited = rt.now().since(began) > Duration::from_secs(1);
            let last = acknowledged.borrow_mut().pop().unwrap();
            let parts = store.list_parts("b", "k", id, 0, 10).await.unwrap().0;
            let etags: Vec<_> = parts.iter().map(|part| part.etag.clone()).collect();
            assert_eq!(etags, [last.to_string()], "drive {hung} hangs");
            let wanted = vec![CompletedPart { number: 1, etag: last.to_string() }];
            store.complete_upload("b", "k", id, wanted, commit("whole")).await.unwrap();
            assert!(get(&store, "b", "k").await.unwrap() == bytes_of(last, 5000));
            let live = store.stats().await.unwrap().live_bytes;
            // After an append that may have landed the other's bytes stay until the next start (OS-REC-4).
            assert!(waited || live < 6000, "drive {hung} hangs: of the other part {live} bytes are left");
            u32::from(waited)
        });
    }
    assert!(met > 0, "the case is not met");
}
